"""The file format of a format table, and the columns that its files hold.

Source: ENGINE.md 9.6; `FormatTable`, `CatalogUtils.toFormatTable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit.errors import SchemaMismatch, Unsupported
from lakekit.format.encoder import check_types
from lakekit.text_format import csv, json, text

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.table_schema import TableSchema
    from lakekit.types import Field

FORMAT_TABLE = "format-table"
COLUMNAR = ("orc", "parquet")
TEXTS: dict[str, Any] = {"csv": csv, "json": json, "text": text}
FORMATS = (*COLUMNAR, *TEXTS)
"""The formats of engine 1.4.2; 2.x adds mosaic."""


def format_of(ctx: TableContext) -> str:
    """Return the format of a table's files."""
    return str(ctx.options.file_format).strip().lower()


def text_format(name: str) -> Any:
    """Return the module of a text format."""
    return TEXTS[name]


def held_fields(schema: TableSchema) -> tuple[Field, ...]:
    """Return the columns that files hold: all that are no partition columns, in order."""
    return tuple(field for field in schema.fields if field.name not in schema.partition_keys)


def check_format(ctx: TableContext) -> None:
    """Raise `Unsupported` for a format that is none of the five, or a type that its files do not hold."""
    check(format_of(ctx), ctx.schema)


def check(format_name: str, schema: TableSchema) -> None:
    """Check the format of a table to make, as `check_format` does.

    Raises: `SchemaMismatch` where every column is a partition column.
    """
    if format_name not in FORMATS:
        msg = f"Format table unsupported file format: {format_name}. Supported formats: {', '.join(FORMATS)}"
        raise Unsupported(msg, feature=f"format-table.{format_name}")
    fields = held_fields(schema)
    if not fields:
        raise SchemaMismatch(
            "every column is a partition column, so that files would hold nothing; leave one column out of the "
            "partition"
        )
    if format_name in TEXTS:
        TEXTS[format_name].check_types(fields)
    else:
        check_types(format_name, fields)
