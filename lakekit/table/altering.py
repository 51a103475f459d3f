"""Schema changes of a table: `t.alter`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.ddl import schema_writer as schemas
from lakekit.read.table_core import TableCore
from lakekit.table.schema import Schema

if TYPE_CHECKING:
    from lakekit.ddl.schema_changes import TableChange


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Altering(TableCore):
    """Methods that change columns and options."""

    def alter(self, *changes: TableChange) -> Schema:
        """Make changes to the schema, all of them in order, or none; return the new schema.

        `t.alter(lk.add_column("c", "INT"), lk.set_option("bucket", 8))`. No data is rewritten. When another writer
        changes the table at the same time, the changes are made to what that one left.

        Raises: `ColumnNotFound`, `ColumnAlreadyExists`, `SchemaMismatch`, `InvalidOption` for what the reference engine
        refuses too, `Unsupported` for what lakekit could not read.
        """
        if not changes:
            msg = "t.alter needs changes, such as lk.add_column('c', 'INT')"
            raise TypeError(msg)
        return Schema.of(schemas.alter(self.handle(), changes))
