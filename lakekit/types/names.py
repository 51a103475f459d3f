"""Reserved column names: those of columns that lakekit adds to frames while it computes.

Other engines permit such names, so they are refused where a schema is created and where one is read. The columns that
the format itself adds to data files (`_KEY_…`, `_SEQUENCE_NUMBER`, `_VALUE_KIND`, `_LEVEL`, `_ROW_ID`) are reserved by
every engine and do not belong here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakekit.types import Field

INTERNAL_PREFIX = "\x1f"
"""Prefix of every column that lakekit adds to frames: a control character (U+001F), which no keyboard writes."""


def is_internal(name: str) -> bool:
    """Return whether a name belongs to a column that lakekit adds."""
    return name.startswith(INTERNAL_PREFIX)


def find_internal(fields: Iterable[Field]) -> str | None:
    """Return the first reserved name among columns and parts of ROWs at any depth; None without one."""
    for field in fields:
        if is_internal(field.name):
            return field.name
        pending = [field.type]
        while pending:
            data_type = pending.pop()
            for part in data_type.fields:
                if is_internal(part.name):
                    return part.name
            pending += data_type.parts
    return None
