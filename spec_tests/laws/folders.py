"""Format tables for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lakekit as lk
from lakekit.metadata.table_context import TableLocation
from lakekit.model.table_paths import TablePaths
from lakekit.storage.local import LocalStorage
from lakekit.table.format_tables import define_format_table

if TYPE_CHECKING:
    from pathlib import Path


def made(path: Path, schema: dict[str, str], format_name: str, *, partition_keys: tuple[str, ...] = (), location: str | None = None, **options: str) -> Any:
    """A new format table; options with `_` for `-` and `__` for `.`."""
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    ground = TableLocation(name=path.name, storage=LocalStorage(), paths=TablePaths(root=str(path)))
    define_format_table(ground, schema, format_name=format_name, location=location, partition_keys=partition_keys, options=given)
    return lk.open(path, options=None if location is None else {"lakekit.allowed-locations": location})
