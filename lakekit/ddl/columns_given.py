"""Columns as a caller writes them, as fields of a table.

    {"k": "BIGINT NOT NULL", "v": "MAP<STRING, INT>"}       Paimon's type text by name
    [lk.Field("k", "BIGINT NOT NULL", comment="…")]         fields, whose ids do not matter
    pl.Schema({"k": pl.Int64})                              Polars' types; List(Struct) is an ARRAY of ROW
    pa.schema([pa.field("k", pa.int64(), nullable=False)])  Arrow's types; maps are MAP, the metadata `comment` counts

Source: FORMAT.md 2.2-2.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from lakekit.errors import Corrupt, SchemaMismatch
from lakekit.format.polars_types import paimon_type
from lakekit.types import DataType, Field, parse
from lakekit.types.arrow import from_arrow

if TYPE_CHECKING:
    from typing import TypeAlias

    SchemaLike: TypeAlias = Mapping[str, str | DataType | pl.DataType] | pl.Schema | pa.Schema | Iterable[Field]

_SCHEMA_HINT = "a schema is a dict of Paimon types by column, a pl.Schema, a pa.Schema or a list of lk.Field"


def fields_of(schema: Any) -> tuple[Field, ...]:
    """Return the columns of `schema` as fields without ids.

    Raises: `SchemaMismatch` for an invalid type text, `Unsupported` for a type that Paimon has not, `TypeError` for
    other objects.
    """
    if isinstance(schema, pa.Schema):
        return tuple(_field_from_arrow(part) for part in schema)
    if isinstance(schema, Mapping):
        return tuple(Field(_name(name), type_of(t, name)) for name, t in schema.items())
    if hasattr(schema, "__arrow_c_stream__") or isinstance(schema, pl.LazyFrame):
        schema_text = "pl.Schema(frame.collect_schema())" if isinstance(schema, pl.LazyFrame) else "frame.schema"
        msg = f"{_SCHEMA_HINT}; found rows, a {type(schema).__name__}: give {schema_text}, then t.append(frame)"
        raise TypeError(msg)
    if isinstance(schema, str) or not isinstance(schema, Iterable):
        msg = f"{_SCHEMA_HINT}; found {type(schema).__name__}"
        raise TypeError(msg)
    fields = tuple(schema)
    for item in fields:
        if not isinstance(item, Field):
            msg = f"{_SCHEMA_HINT}; found a list with a {type(item).__name__}"
            raise TypeError(msg)
    return fields


def type_of(value: Any, column: str) -> DataType:
    """Return the Paimon type of a type text, or of a type of Polars or Arrow."""
    if isinstance(value, DataType):
        return value
    if isinstance(value, str):
        try:
            return parse(value)
        except Corrupt as wrong:
            raise SchemaMismatch(f"column {column}: {wrong.message}", column=column) from None
    if isinstance(value, pl.DataType) or (isinstance(value, type) and issubclass(value, pl.DataType)):
        return paimon_type(value, column)
    if isinstance(value, pa.DataType):
        return from_arrow(value)
    msg = (
        f"the type of column {column} is a text such as 'BIGINT NOT NULL' or a type of Polars; found "
        f"{type(value).__name__}"
    )
    raise TypeError(msg)


def _field_from_arrow(part: pa.Field) -> Field:
    comment = (part.metadata or {}).get(b"comment")
    return Field(
        part.name,
        from_arrow(part.type, nullable=part.nullable),
        comment=None if comment is None else comment.decode("utf-8", "replace"),
    )


def _name(name: object) -> str:
    if not isinstance(name, str):
        msg = f"a column's name is a text; found {type(name).__name__}"
        raise TypeError(msg)
    return name
