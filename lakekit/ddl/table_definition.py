"""Definition of a table's columns and keys: no name twice, every key a column, primary keys NOT NULL.

    {"k": "BIGINT NOT NULL", "v": "MAP<STRING, INT>"}       Paimon's type text by name
    [lk.Field("k", "BIGINT NOT NULL", comment="…")]         fields, whose ids do not matter
    pl.Schema({"k": pl.Int64})                              Polars' types; List(Struct) is an ARRAY of ROW
    pa.schema([pa.field("k", pa.int64(), nullable=False)])  Arrow's types; maps are MAP, the metadata `comment` counts

    defaults   INT '5' or "'5'" -> 5        INT 'x' -> refused        MAP -> whatever text of a map

Source: FORMAT.md 2.2-2.4, ENGINE.md 1.4, 1.5; `Schema`, `TableSchema`, `SchemaValidation`, `DefaultValueUtils`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from lakekit.columns import ROW_KIND
from lakekit.errors import ColumnAlreadyExists, ColumnNotFound, Corrupt, InvalidOption, LakekitError, SchemaMismatch
from lakekit.format import text_casts
from lakekit.format.polars_types import paimon_type
from lakekit.options.features import make_refusal
from lakekit.options.option import read_names
from lakekit.options.table_options import TableOptions
from lakekit.types import STRINGS, DataType, Field, find_internal, parse
from lakekit.types.arrow import from_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from lakekit.model.table_schema import TableSchema

    SchemaLike: TypeAlias = Mapping[str, str | DataType | pl.DataType] | pl.Schema | pa.Schema | Iterable[Field]


SYSTEM_NAMES = ("_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID")
"""Columns that the engine adds to rows of its own accord."""
KEY_PREFIX = "_KEY_"
_UNSUPPORTED_KEY_TYPES = {"MAP": "MapType", "ARRAY": "ArrayType", "ROW": "RowType", "MULTISET": "MultisetType"}
_NESTED_BUCKET_KEYS = ("ARRAY", "MULTISET", "MAP", "ROW")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """A schema without id and time."""

    fields: tuple[Field, ...]
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]


def define_table(
    fields: Iterable[Field], partition_keys: Iterable[str], primary_keys: Iterable[str], options: Mapping[str, str]
) -> TableDefinition:
    """Combine columns and keys into a table definition.

    Keys given as options become keys, and columns of the primary key NOT NULL, or nullable under
    `primary-key.nullable`.

    Raises: `ColumnAlreadyExists`, `ColumnNotFound` and `InvalidOption` as the reference does.
    """
    left = dict(options)
    partitions = _from_option("partition", "partition", tuple(partition_keys), left)
    primary = _from_option("primary-key", "primary key", tuple(primary_keys), left)
    columns = tuple(fields)
    names = [part.name for part in columns]
    if twice := _find_duplicates(names):
        raise ColumnAlreadyExists(
            f"Table column {format_list(names)} must not contain duplicate fields. Found: {format_list(twice)}; give "
            "every column a name of its own",
            name=twice[0],
        )
    _check_keys("Partition key", "all partition fields", partitions, names)
    _check_keys("Primary key", "all primary key constraint", primary, names)
    nullable = TableOptions.parse(
        left
    ).primary_key_nullable  # an option of later engines, which 1.4.2 does not know (`Schema.normalizeFields`)
    fixed = tuple(_with_key_nullability(part, nullable=nullable) if part.name in primary else part for part in columns)
    return TableDefinition(fields=fixed, partition_keys=partitions, primary_keys=primary, options=left)


def _with_key_nullability(field: Field, *, nullable: bool) -> Field:
    if field.nullable == nullable:
        return field
    return replace(field, type=field.type.as_nullable() if nullable else field.type.not_null())


def _from_option(key: str, subject: str, names: tuple[str, ...], options: dict[str, str]) -> tuple[str, ...]:
    if key not in options:
        return names
    if names:
        raise InvalidOption(
            f"Cannot define {subject} on DDL and table options at the same time. The option says {options[key]!r}, "
            f"the call {format_list(names)}: leave one out",
            key=key,
            value=options[key],
        )
    return tuple(name for name in read_names(options.pop(key)) if name)


def _check_keys(constraint_name: str, all_of: str, keys: Sequence[str], names: Sequence[str]) -> None:
    if twice := _find_duplicates(keys):
        raise ColumnAlreadyExists(
            f"{constraint_name} constraint {format_list(keys)} must not contain duplicate columns. Found: "
            f"{format_list(twice)}",
            name=twice[0],
        )
    if absent := [key for key in keys if key not in names]:
        raise ColumnNotFound(
            f"Table column {format_list(names)} should include {all_of} {format_list(keys)}: there is no column "
            f"{absent[0]!r}",
            name=absent[0],
        )


def _find_duplicates(names: Iterable[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def format_list(names: Iterable[object]) -> str:
    """Return names as the reference prints a list."""
    return f"[{', '.join(map(str, names))}]"


# ---- one schema as a whole -----------------------------------------------------------------------


def check_keys(schema: TableSchema) -> None:
    """Check that some key is left inside a partition, and that every key has a type that keys may have."""
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise InvalidOption(
            f"Primary key constraint {format_list(schema.primary_keys)} should not be same with partition fields "
            f"{format_list(schema.partition_keys)}, "
            "this will result in only one record in a partition. Add a column to the primary key, or partition by "
            "fewer",
            key="primary-key",
        )
    _check_types(schema, schema.primary_keys, "primary key")
    _check_types(schema, schema.partition_keys, "partition")
    upsert = read_names(schema.options.get("upsert-key", ""))
    _check_types(schema, upsert, "upsert key")
    if upsert and schema.primary_keys:
        raise InvalidOption(
            f"Cannot define 'upsert-key' {format_list(upsert)} with 'primary-key' {format_list(schema.primary_keys)}. "
            "Leave upsert-key out",
            key="upsert-key",
            value=schema.options["upsert-key"],
        )


def _check_types(schema: TableSchema, names: Iterable[str], role: str) -> None:
    for name in names:
        if not schema.has(name):
            raise ColumnNotFound(
                f"Cannot find field: {name}, named as {role}; columns are {', '.join(schema.names)}", name=name
            )
        root = schema.field(name).type.root
        if root in _UNSUPPORTED_KEY_TYPES or root == "VARIANT":
            raise SchemaMismatch(
                f"The type {_UNSUPPORTED_KEY_TYPES.get(root, 'VariantType')} in {role} field {name} is unsupported; "
                f"keys have no parts: use a column of a simple type",
                column=name,
            )


def check_names(schema: TableSchema) -> None:
    """Check that no column has a name that the engine, or lakekit, gives to columns of its own."""
    if (own := find_internal(schema.fields)) is not None:
        raise make_refusal("column-name.u001f", f"column {own!r}", alternative="Choose another name")
    for name in schema.names:
        if name in SYSTEM_NAMES or name == ROW_KIND:
            raise SchemaMismatch(
                f"Field name[{name}] in schema cannot be exist in {format_list((*SYSTEM_NAMES, ROW_KIND))}: rows "
                "carry columns of these names already; "
                "choose another name",
                column=name,
            )
        if name.startswith(KEY_PREFIX):
            raise SchemaMismatch(
                f"Field name[{name}] in schema cannot start with [{KEY_PREFIX}], which marks keys in data files",
                column=name,
            )
        if not name.strip():
            raise SchemaMismatch(
                "Field names must contain at least one non-whitespace character, and a column has none; give it a name",
                column=name,
            )
    for part in schema.fields:
        for row in (t for t in iter_nested_types(part.type) if t.root == "ROW"):
            _check_fields(part.name, [inner.name for inner in row.fields])


def _check_fields(column: str, names: Sequence[str]) -> None:
    """Check the fields of a ROW in a column, which the reference finds by name like columns."""
    if twice := _find_duplicates(names):
        raise ColumnAlreadyExists(
            f"Field names must be unique. Found duplicates: {format_list(twice)} in column {column}; rename one",
            name=f"{column}.{twice[0]}",
        )
    if any(not name.strip() for name in names):
        message = (
            f"Field names must contain at least one non-whitespace character, and one in column {column} has none; "
            "give it a name"
        )
        raise SchemaMismatch(message, column=column)


def check_types(schema: TableSchema) -> None:
    """Check that lakekit has every type. Raises `Unsupported`."""
    for part in schema.fields:
        for t in iter_nested_types(part.type):
            if t.root == "BLOB":
                raise make_refusal(
                    "type.blob", f"column {part.name}", alternative="Use BYTES, or make the table with the Java engine"
                )


def iter_nested_types(t: DataType) -> Iterable[DataType]:
    """Yield a type and every type inside it."""
    yield t
    for inner in (t.element, t.key, t.value, *(part.type for part in t.fields)):
        if inner is not None:
            yield from iter_nested_types(inner)


def check_bucket(schema: TableSchema, bucket: int, full_compaction: int | None) -> None:
    """Check `bucket` and `bucket-key` against the columns and keys."""
    text = schema.options.get("bucket-key")
    named = tuple(text.split(",")) if text and text.strip() else ()
    if absent := [name for name in named if not schema.has(name)]:
        raise ColumnNotFound(
            f"Field names {format_list(schema.names)} should contains all bucket keys {format_list(named)}. No column "
            f"{absent[0]!r}",
            name=absent[0],
        )
    if any(name in schema.partition_keys for name in named):
        raise InvalidOption(
            f"Bucket keys {format_list(named)} should not in partition keys {format_list(schema.partition_keys)}. "
            f"Inside a partition those columns never differ",
            key="bucket-key",
            value=text,
        )
    if schema.primary_keys and not set(named) <= set(schema.primary_keys):
        raise InvalidOption(
            f"Primary keys {format_list(schema.primary_keys)} should contains all bucket keys {format_list(named)}. A "
            "key must find its bucket by itself",
            key="bucket-key",
            value=text,
        )
    if bucket == -1:
        if text is not None:
            raise InvalidOption(
                "Cannot define 'bucket-key' with bucket = -1, please remove the 'bucket-key' setting or specify a "
                "bucket number.",
                key="bucket-key",
                value=text,
            )
        if not schema.primary_keys and full_compaction is not None:
            raise InvalidOption(
                "AppendOnlyTable of unaware or dynamic bucket does not support 'full-compaction.delta-commits'; "
                "t.compact() compacts it",
                key="full-compaction.delta-commits",
                value=schema.options.get("full-compaction.delta-commits"),
            )
        return
    if bucket < 1 and not (bucket == -2 and schema.primary_keys):
        raise InvalidOption(
            f"The number of buckets needs to be greater than 0. bucket is {bucket}; -1 takes as many as the rows ask "
            "for, and -2 postpones, in key tables",
            key="bucket",
            value=str(bucket),
        )
    keys = named or schema.trimmed_primary_keys
    if not keys:
        raise InvalidOption(
            "You should define a 'bucket-key' for bucketed append mode. Set bucket-key to columns, or bucket to -1",
            key="bucket-key",
            value=text,
        )
    if nested := [name for name in keys if schema.field(name).type.root in _NESTED_BUCKET_KEYS]:
        raise InvalidOption(
            f"nested type can not in bucket-key, in your table these key are {format_list(nested)}",
            key="bucket-key",
            value=text,
        )


# ---- columns as callers write them --------------------------------------------


_SCHEMA_HINT = "a schema is a dict of Paimon types by column, a pl.Schema, a pa.Schema or a list of lk.Field"


def to_fields(schema: Any) -> tuple[Field, ...]:
    """Return the columns of `schema` as fields without ids.

    Raises: `SchemaMismatch` for an invalid type text, `Unsupported` for a type that Paimon has not, `TypeError` for
    other objects.
    """
    if isinstance(schema, pa.Schema):
        return tuple(_field_from_arrow(part) for part in schema)
    if isinstance(schema, Mapping):
        return tuple(Field(_check_column_name(name), to_paimon_type(t, name)) for name, t in schema.items())
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


def to_paimon_type(value: Any, column: str) -> DataType:
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


def _field_from_arrow(field: pa.Field) -> Field:
    comment = (field.metadata or {}).get(b"comment")
    return Field(
        field.name,
        from_arrow(field.type, nullable=field.nullable),
        comment=None if comment is None else comment.decode("utf-8", "replace"),
    )


def _check_column_name(name: object) -> str:
    if not isinstance(name, str):
        msg = f"a column's name is a text; found {type(name).__name__}"
        raise TypeError(msg)
    return name


# ---- defaults ------------------------------------------------------------


def check_default(t: DataType, text: object, column: str) -> None:
    """Raise `SchemaMismatch` if the default is no text, or not that of a value of type `t`."""
    if text is None:
        return
    if not isinstance(text, str):
        raise SchemaMismatch(
            f"the default of column {column} is {text!r}, a {type(text).__name__}; defaults are texts: {str(text)!r}",
            column=column,
        )
    if text.encode("utf-8", "replace").decode() != text:
        raise SchemaMismatch(
            f"the default of column {column} is {text!a}: half of a surrogate pair is no character", column=column
        )
    refused = f"Unsupported default value `{text}` for type {t} of column {column}; give a text that says such a value"
    if text == "'":  # a quote that nothing closes
        raise SchemaMismatch(refused, column=column)
    shown = text[1:-1] if text.startswith("'") and text.endswith("'") else text
    if t.root in STRINGS:
        return
    parse = text_casts.make_parser(t, column=column)
    if parse is None:
        raise SchemaMismatch(refused, column=column)
    try:
        parse(pl.Series("default", [shown], pl.String))
    except LakekitError:
        raise SchemaMismatch(refused, column=column) from None
