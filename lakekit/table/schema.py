"""The public schema of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from lakekit.draw import html, humanize
from lakekit.format.polars_types import polars_schema
from lakekit.types.arrow import to_arrow_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.model.table_schema import TableSchema
    from lakekit.types import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The columns of a table under one schema id.

    `highest_field_id` is the highest id ever given to a column, dropped ones included.
    """

    id: int
    fields: tuple[Field, ...]
    highest_field_id: int

    @staticmethod
    def of(schema: TableSchema) -> Schema:
        """Return the schema of a schema file."""
        return Schema(id=schema.id, fields=schema.fields, highest_field_id=schema.highest_field_id)

    def to_polars(self) -> pl.Schema:
        """Return Polars' schema of a scan."""
        return pl.Schema(polars_schema(self.fields))

    def to_arrow(self) -> pa.Schema:
        """Return the schema in Arrow's own types: maps are maps, comments are field metadata."""
        return pa.schema([to_arrow_field(field) for field in self.fields])

    def __repr__(self) -> str:
        columns = [
            (humanize.escape_controls(field.name), humanize.escape_controls(str(field.type))) for field in self.fields
        ]
        width = max((humanize.columns_wide(name) for name, _ in columns), default=0)
        return "\n".join(
            [f"Schema {self.id}", *(f"  {humanize.pad(name, width)}  {of_type}" for name, of_type in columns)]
        )

    def _repr_html_(self) -> str:
        return columns_html(self.fields, title=f"Schema {self.id}")


def columns_html(fields: Sequence[Field], keys: Sequence[str] = (), *, title: str = "") -> str:
    """Return columns as an HTML table; those of the primary key are marked, unused heads are left out."""
    rows = [
        (field.id, field.name, str(field.type), "key" if field.name in keys else None, field.default, field.comment)
        for field in fields
    ]
    heads = ("id", "column", "type", "key", "default", "comment")
    used = [at for at in range(len(heads)) if at < 3 or any(row[at] is not None for row in rows)]
    return html.table([heads[at] for at in used], [[row[at] for at in used] for row in rows], title=title)
