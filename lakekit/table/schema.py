"""The schema of a table as its users see it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from lakekit.format.dtypes import polars_schema
from lakekit.types import Field, to_arrow_field

if TYPE_CHECKING:
    from lakekit.model.schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Columns under one id. `highest_field_id` is the highest id ever given to a column, dropped ones included."""

    id: int
    fields: tuple[Field, ...]
    highest_field_id: int

    @staticmethod
    def of(schema: TableSchema) -> Schema:
        """The columns of a schema file."""
        return Schema(id=schema.id, fields=schema.fields, highest_field_id=schema.highest_field_id)

    def to_polars(self) -> pl.Schema:
        """Polars' schema of a scan."""
        return pl.Schema(polars_schema(self.fields))

    def to_arrow(self) -> pa.Schema:
        """Arrow's own types: maps are maps, comments are field metadata."""
        return pa.schema([to_arrow_field(field) for field in self.fields])

    def __repr__(self) -> str:
        width = max((len(field.name) for field in self.fields), default=0)
        return "\n".join([f"Schema {self.id}", *(f"  {field.name:<{width}}  {field.type}" for field in self.fields)])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{f.id}</td><td>{escape(f.name)}</td><td>{escape(str(f.type))}</td><td>{escape(f.comment or '')}</td></tr>" for f in self.fields
        )
        return f"<table><thead><tr><th>id</th><th>column</th><th>type</th><th>comment</th></tr></thead><tbody>{rows}</tbody></table>"
