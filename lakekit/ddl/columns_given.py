"""Columns as a caller gives them, as fields of a table.

    {"k": "BIGINT NOT NULL", "v": "MAP<STRING, INT>"}       Paimon's type text by name
    [lk.Field("k", "BIGINT NOT NULL", comment="…")]         fields, whose ids do not matter
    pl.Schema({"k": pl.Int64})                              Polars' types; List(Struct) is an ARRAY of ROW
    pa.schema([pa.field("k", pa.int64(), nullable=False)])  Arrow's types; maps are MAP, the metadata `comment` is the comment

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
    """The columns that `schema` says, without ids. Raises `SchemaMismatch` for a type text that is none, `Unsupported` for a type that Paimon has not."""
    if isinstance(schema, pa.Schema):
        return tuple(_field_from_arrow(part) for part in schema)
    if isinstance(schema, Mapping):
        return tuple(Field(_name(name), type_of(t, name)) for name, t in schema.items())
    if hasattr(schema, "__arrow_c_stream__") or isinstance(schema, pl.LazyFrame):
        known = "pl.Schema(frame.collect_schema())" if isinstance(schema, pl.LazyFrame) else "frame.schema"
        msg = f"{_SCHEMA_HINT}; found rows, a {type(schema).__name__}: give {known}, then t.append(frame)"
        raise TypeError(msg)
    if isinstance(schema, str) or not isinstance(schema, Iterable):
        msg = f"{_SCHEMA_HINT}; found {type(schema).__name__}"
        raise TypeError(msg)
    found = tuple(schema)
    for one in found:
        if not isinstance(one, Field):
            msg = f"{_SCHEMA_HINT}; found a list with a {type(one).__name__}"
            raise TypeError(msg)
    return found


def type_of(given: Any, column: str) -> DataType:
    """The Paimon type that a text or a type of Polars says."""
    if isinstance(given, DataType):
        return given
    if isinstance(given, str):
        try:
            return parse(given)
        except Corrupt as wrong:
            raise SchemaMismatch(f"column {column}: {wrong.message}", column=column) from None
    if isinstance(given, pl.DataType) or (isinstance(given, type) and issubclass(given, pl.DataType)):
        return paimon_type(given, column)
    if isinstance(given, pa.DataType):
        return from_arrow(given)
    msg = f"the type of column {column} is a text such as 'BIGINT NOT NULL' or a type of Polars; found {type(given).__name__}"
    raise TypeError(msg)


def _field_from_arrow(part: pa.Field) -> Field:
    said = (part.metadata or {}).get(b"comment")
    return Field(part.name, from_arrow(part.type, nullable=part.nullable), comment=None if said is None else said.decode("utf-8", "replace"))


def _name(name: object) -> str:
    if not isinstance(name, str):
        msg = f"a column's name is a text; found {type(name).__name__}"
        raise TypeError(msg)
    return name
