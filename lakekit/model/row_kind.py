"""The four kinds of a row.

They are a byte `_VALUE_KIND` in files, `_row_kind` in frames, `rowkind` in system tables.
"""

from __future__ import annotations

from enum import IntEnum


class RowKind(IntEnum):
    """The effect of a row on the state; the value is its byte in files, `short` its text elsewhere."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        """`+I`, `-U`, `+U` or `-D`."""
        return KIND_TEXTS[self]

    @property
    def retracts(self) -> bool:
        """Return whether it takes a row away."""
        return self in (RowKind.UPDATE_BEFORE, RowKind.DELETE)


KIND_TEXTS = ("+I", "-U", "+U", "-D")
"""The text of each kind, at its byte's place."""
KIND_OF = {text: RowKind(byte) for byte, text in enumerate(KIND_TEXTS)}
"""The kind of each text."""
