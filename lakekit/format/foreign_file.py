"""The schema of another writer's data file in Paimon's types: columns, row count, footer statistics.

    detect_format(b"PAR1…")                            "parquet"     by the first bytes: Hive's files have no extension
    read_foreign_schema("parquet", path, read, size)   ForeignFileSchema(fields=(k BIGINT, …), row_count=3, …)

    Avro       {"type": "long", "logicalType": "timestamp-micros"}         TIMESTAMP(6) WITH LOCAL TIME ZONE, an instant
               {"type": "long", "logicalType": "local-timestamp-millis"}   TIMESTAMP(3)
               ["null", X]                        X; engine 1.4.2 reads a union in no other order
    ORC        struct<c:char(3),t:timestamp>      c CHAR(3), t TIMESTAMP(9): ORC keeps nanoseconds
    Parquet    int64 t (Timestamp(isAdjustedToUTC=true, micros))           TIMESTAMP(6) WITH LOCAL TIME ZONE
               int96 t                            of Spark an instant, TIMESTAMP_LTZ(6); else a wall clock, TIMESTAMP(9)
               int32 u (Int(8, false))            SMALLINT: unsigned numbers of 8 and 16 bits fit into the next type
               binary s (String | Enum | Json)    STRING; without annotation BYTES

Columns are found by name, and are all nullable. A type that Paimon does not have, or that a reader of either engine
would not find by its column's type, is refused with the names of file and column: nothing is rewritten here. Engine
1.4.2 takes the digits of a number for what the column's type says, whatever the file says of them: nanoseconds would be
read as milliseconds, times of day in microseconds and unsigned 32 bits not at all. Those are refused.

Source: `ParquetSchemaConverter`, `OrcTypeUtil`, `AvroSchemaConverter`, reversed; the Avro specification 1.11 and the
Apache Parquet format, "Logical Types"; the ORC specification v1, "Types"; what engine 1.4.2 reads of such files.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lakekit.codec import avro_container as container, avro_schema, orc_tail
from lakekit.errors import Corrupt, LakekitError, SchemaMismatch, Unsupported
from lakekit.format import external_reader, parquet_footer
from lakekit.format.encoder import FLOAT_TYPES, ColumnStats, has_exact_chunk_bounds
from lakekit.options.option import EMPTY
from lakekit.types import MAX_LENGTH, DataType, Field, first_duplicate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.codec.avro_schema import AvroNode
    from lakekit.codec.orc_tail import OrcColumn
    from lakekit.format.thrift import Struct


STRING_TYPE, BYTES_TYPE = DataType(root="VARCHAR", length=MAX_LENGTH), DataType(root="VARBINARY", length=MAX_LENGTH)
_APPEND_REMEDY = "read the files with Polars and append the frame to a table of your own"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFileSchema:
    """A file's columns, without ids, and its row count.

    `column_stats` are the columns whose null count and bounds the footer holds reliably. `int96_columns` are those
    whose values are timestamps as any type of timestamp reads them (Parquet's INT96), so that a table may declare them
    as another one. `byte_decimals` are DECIMALs of at most 18 digits that Parquet holds as bytes, not as numbers: the
    released engine reads them, and fails where it filters by them.
    """

    fields: tuple[Field, ...]
    row_count: int
    column_stats: Mapping[str, ColumnStats] = EMPTY
    int96_columns: frozenset[str] = frozenset()
    byte_decimals: frozenset[str] = frozenset()


def make_refusal(path: str, column: str, problem: str, *, remedy: str = _APPEND_REMEDY) -> SchemaMismatch:
    """Return the error of a column that no table can adopt as it is stored."""
    return SchemaMismatch(f"{path}: column {column} {problem}; {remedy}", column=column.partition(".")[0])


def unsupported_encoding(path: str, problem: str, feature: str) -> Unsupported:
    """Return the error of a file whose bytes the released engine or Polars does not read."""
    return Unsupported(f"{path}: {problem}; {_APPEND_REMEDY}", feature=feature, path=path)


# ---- Avro ------------------------------------------------------------


_AVRO_TYPES = {
    "boolean": DataType(root="BOOLEAN"),
    "float": DataType(root="FLOAT"),
    "double": DataType(root="DOUBLE"),
    "string": STRING_TYPE,
}
_TYPE_OF_AVRO_INT = {"date": DataType(root="DATE"), "time-millis": DataType(root="TIME", precision=3)}
_TYPE_OF_AVRO_LONG = {
    f"{place}timestamp-{unit}": DataType(root=root, precision=precision)
    for place, root in (("", "TIMESTAMP_LTZ"), ("local-", "TIMESTAMP"))
    for unit, precision in (("millis", 3), ("micros", 6))
}
_TIME_LOGICAL_TYPES = ("time", "timestamp", "local-timestamp", "duration")
_UNREAD_CODECS = frozenset({"xz"})
"""Codecs that engine 1.4.2 reads only with a library that it does not ship."""


def read_avro_schema(path: str, read_range: Callable[[int, int | None], bytes], size_bytes: int) -> ForeignFileSchema:
    """Return the schema of a file; see `foreign_file.read_foreign_schema`."""
    container_file = container.open_blocks(read_range(0, size_bytes), path=path)
    if container_file.codec in _UNREAD_CODECS:
        raise unsupported_encoding(
            path, f"it is compressed by {container_file.codec}, which engine 1.4.2 does not read", "file.compression"
        )
    record = avro_schema.unwrap_record(container_file.schema)
    return ForeignFileSchema(fields=_avro_fields(record, "", path), row_count=container_file.count)


def _avro_fields(record: AvroNode, column_path: str, path: str) -> tuple[Field, ...]:
    return tuple(
        Field(name, _avro_type(node, f"{column_path}{name}", path))
        for name, node in zip(record.names, record.children, strict=True)
    )


def _avro_type(node: AvroNode, column_path: str, path: str) -> DataType:
    if node.kind == "union":
        if len(node.children) != 2 or node.children[0].kind != "null" or node.children[1].kind in ("null", "union"):
            raise make_refusal(
                path,
                column_path,
                "is a union other than of null, first, and one type, which engine 1.4.2 does not read",
            )
        return _avro_type(node.children[1], column_path, path)
    if node.kind in _AVRO_TYPES:
        return _AVRO_TYPES[node.kind]
    match node.kind:
        case "int":
            return _TYPE_OF_AVRO_INT.get(node.logical_type, DataType(root="INT"))
        case "long" if (
            node.logical_type.rpartition("-")[0] in _TIME_LOGICAL_TYPES and node.logical_type not in _TYPE_OF_AVRO_LONG
        ):
            raise make_refusal(path, column_path, f"holds {node.logical_type}, which would have to be written anew")
        case "long":
            return _TYPE_OF_AVRO_LONG.get(node.logical_type, DataType(root="BIGINT"))
        case "bytes" if node.logical_type == "decimal":
            return DataType(root="DECIMAL", precision=node.precision, scale=node.scale)
        case "bytes":
            return BYTES_TYPE
        case "array":
            return DataType(root="ARRAY", element=_avro_type(node.children[0], f"{column_path}.element", path))
        case "map":
            return DataType(
                root="MAP", key=STRING_TYPE, value=_avro_type(node.children[0], f"{column_path}.value", path)
            )
        case "record":
            return DataType(root="ROW", fields=_avro_fields(node, f"{column_path}.", path))
    raise make_refusal(path, column_path, f"is Avro's {node.kind}, which would have to be written anew")


# ---- ORC -----------------------------------------------------------------


_ORC_TYPES = {
    0: DataType(root="BOOLEAN"), 1: DataType(root="TINYINT"), 2: DataType(root="SMALLINT"), 3: DataType(root="INT"),
    4: DataType(root="BIGINT"), 5: DataType(root="FLOAT"), 6: DataType(root="DOUBLE"), 7: STRING_TYPE, 8: BYTES_TYPE,
    9: DataType(root="TIMESTAMP", precision=9), 15: DataType(root="DATE"),
    18: DataType(root="TIMESTAMP_LTZ", precision=9),
}  # fmt: skip
_ORC_LIST, _ORC_MAP, _ORC_STRUCT, _ORC_DECIMAL, _ORC_VARCHAR, _ORC_CHAR = 10, 11, 12, 14, 16, 17


def read_orc_schema(path: str, read_range: Callable[[int, int | None], bytes], size_bytes: int) -> ForeignFileSchema:
    """Return the schema of a file; see `foreign_file.read_foreign_schema`."""
    try:
        tail = orc_tail.parse_tail(read_range(0, size_bytes))
    except Corrupt as error:
        raise error.at(path) from None
    if tail.root.kind != _ORC_STRUCT:
        raise Corrupt(f"{path}: its rows are no struct", path=path, field="types")
    return ForeignFileSchema(
        fields=_orc_fields(tail.root, "", path), row_count=sum(stripe.row_count for stripe in tail.stripes)
    )


def _orc_fields(column: OrcColumn, column_path: str, path: str) -> tuple[Field, ...]:
    names = [name.decode() for name in column.names]
    return tuple(
        Field(name, _orc_type(child, f"{column_path}{name}", path))
        for name, child in zip(names, column.children, strict=True)
    )


def _orc_type(column: OrcColumn, column_path: str, path: str) -> DataType:
    numbers = {part.field_number: part.value for part in column.members if isinstance(part.value, int)}
    if column.kind in _ORC_TYPES:
        return _ORC_TYPES[column.kind]
    match column.kind:
        case 16 | 17:
            length = numbers.get(4, 0)
            return (
                DataType(root="CHAR" if column.kind == _ORC_CHAR else "VARCHAR", length=length)
                if length > 0
                else STRING_TYPE
            )
        case 14 if numbers.get(5):
            return DataType(root="DECIMAL", precision=numbers[5], scale=numbers.get(6, 0))
        case 10:
            return DataType(root="ARRAY", element=_orc_type(column.children[0], f"{column_path}.element", path))
        case 11:
            key, value = (
                _orc_type(child, f"{column_path}.{name}", path)
                for name, child in zip(("key", "value"), column.children, strict=True)
            )
            return DataType(root="MAP", key=key, value=value)
        case 12:
            return DataType(root="ROW", fields=_orc_fields(column, f"{column_path}.", path))
    raise make_refusal(
        path,
        column_path,
        "is a union, which Paimon has not"
        if column.kind != _ORC_DECIMAL
        else "is a decimal that does not say its digits",
    )


# ---- Parquet -----------------------------------------------------------------


_REPEATED_FIELD = 2


class _PhysicalType(IntEnum):
    BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTES, FIXED = range(8)


class _LogicalType(IntEnum):
    """The meaning of values: the numbers of `LogicalType`; INTERVAL has only the older annotation."""

    NOTHING, STRING, MAP, LIST, ENUM, DECIMAL, DATE, TIME, TIMESTAMP = range(9)
    INTEGER, NULL, JSON, BSON, UUID, FLOAT16, VARIANT, INTERVAL = range(10, 18)


_CONVERTED_TYPES = {
    0: _LogicalType.STRING, 1: _LogicalType.MAP, 2: _LogicalType.MAP, 3: _LogicalType.LIST, 4: _LogicalType.ENUM,
    5: _LogicalType.DECIMAL, 6: _LogicalType.DATE, 7: _LogicalType.TIME, 8: _LogicalType.TIME,
    9: _LogicalType.TIMESTAMP, 10: _LogicalType.TIMESTAMP, **dict.fromkeys(range(11, 19), _LogicalType.INTEGER),
    19: _LogicalType.JSON, 20: _LogicalType.BSON, 21: _LogicalType.INTERVAL,
}  # fmt: skip
"""The older annotation -> the number of the newer one."""
_TIME_UNIT_NAMES = {1: "milliseconds", 2: "microseconds", 3: "nanoseconds"}
_SIGNED_TYPES = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}
_MAX_DIGITS, _MAX_NUMBER_DIGITS = 38, 18
_REFUSED_CODECS = {3: "LZO", 4: "BROTLI", 5: "LZ4 in Hadoop's frames"}
"""Compression that engine 1.4.2 does not read, or only with libraries that it does not ship."""
_SPLIT_STREAMS, _DELTA_BYTES = 9, 7
_SPARK_VERSION_KEY, _ARROW_SCHEMA_KEY = b"org.apache.spark.version", b"ARROW:schema"
_ELEMENT_NAMES = ("array", "_tuple")
"""Names of a repeated group that is itself the element, not a wrapper of it, as old writers made them."""


class _SchemaElement(NamedTuple):
    """One node of the schema."""

    name: str
    struct: Struct
    children: tuple[_SchemaElement, ...]

    @property
    def kind(self) -> int:
        """Return the number of its annotation, 0 for none."""
        logical: Struct = self.struct[10][1] if 10 in self.struct else {}
        return next(iter(logical), 0) or (_CONVERTED_TYPES.get(self.struct[6][1], 0) if 6 in self.struct else 0)

    @property
    def annotation_members(self) -> Struct:
        logical: Struct = self.struct[10][1] if 10 in self.struct else {}
        members: Struct = next(iter(logical.values()))[1] if logical else {}
        return members

    @property
    def is_repeated(self) -> bool:
        return bool(self.struct.get(3, (0, 0))[1] == _REPEATED_FIELD)


class _FileTypes(NamedTuple):
    """What the types of one file depend on.

    `microsecond_columns` are the columns whose INT96 Arrow's own schema calls microseconds, `int96_type` is the type of
    other INT96.
    """

    path: str
    int96_type: DataType
    microsecond_columns: Mapping[str, DataType]


def read_parquet_schema(
    path: str, read_range: Callable[[int, int | None], bytes], size_bytes: int
) -> ForeignFileSchema:
    """Return the schema of a file; see `foreign_file.read_foreign_schema`."""
    footer = parquet_footer.read_footer(path, read_range, size_bytes)
    key_values = {pair[1][1]: pair[2][1] for pair in (footer[5][1][1] if 5 in footer else ()) if 2 in pair}
    elements = footer[2][1][1]
    root, _ = _build_element(elements, 0)
    groups = footer[4][1][1] if 4 in footer else []
    timeless = frozenset(element.name for element in root.children if _holds_int96(element))
    file_types = _FileTypes(
        path, _int96_type(key_values), _arrow_micros_columns(key_values.get(_ARROW_SCHEMA_KEY, b""), timeless)
    )
    fields = tuple(Field(element.name, _parquet_type(element, element.name, file_types)) for element in root.children)
    leaves = [
        (element.name, element if not element.children else None)
        for element in root.children
        for _ in range(_leaf_count(element))
    ]
    for group in groups:
        _check_chunks(path, [chunk[3][1] for chunk in group[1][1][1]], leaves)
    decimals = frozenset(
        field.name
        for field, element in zip(fields, root.children, strict=True)
        if _is_byte_decimal(field.type, element)
    )
    return ForeignFileSchema(
        fields=fields,
        row_count=footer[3][1],
        column_stats=_column_stats(fields, leaves, groups),
        int96_columns=timeless,
        byte_decimals=decimals,
    )


def _is_byte_decimal(t: DataType, element: _SchemaElement) -> bool:
    """Return whether a column is a DECIMAL that Paimon writes as a number, and this file holds as bytes."""
    return (
        t.root == "DECIMAL"
        and (t.precision or 0) <= _MAX_NUMBER_DIGITS
        and element.struct[1][1] in (_PhysicalType.FIXED, _PhysicalType.BYTES)
    )


# ---- columns ---------------------------------------------------------------------------------------------------------


def _build_element(elements: Sequence[Struct], at: int) -> tuple[_SchemaElement, int]:
    """Return the node at an index of the schema's list, depth first, and the index after it."""
    own, children, after = elements[at], [], at + 1
    for _ in range(own[5][1] if 5 in own else 0):
        child, after = _build_element(elements, after)
        children.append(child)
    return _SchemaElement(own[4][1].decode(), own, tuple(children)), after


def _leaf_count(element: _SchemaElement) -> int:
    return sum(map(_leaf_count, element.children)) if element.children else 1


def _holds_int96(element: _SchemaElement) -> bool:
    return any(map(_holds_int96, element.children)) if element.children else element.struct[1][1] == _PhysicalType.INT96


def _int96_type(key_values: Mapping[bytes, bytes]) -> DataType:
    """Return the type of INT96: Spark writes instants, in microseconds; others a wall clock."""
    return (
        DataType(root="TIMESTAMP_LTZ", precision=6)
        if _SPARK_VERSION_KEY in key_values
        else DataType(root="TIMESTAMP", precision=9)
    )


def _arrow_micros_columns(arrow: bytes, names: frozenset[str]) -> dict[str, DataType]:
    """Return the INT96 columns that Arrow's schema declares coarser than nanoseconds, with their types.

    Polars follows that schema, which a file may have beside its own.
    """
    if not names or not arrow:
        return {}
    schema = pa.ipc.read_schema(pa.BufferReader(b64decode(arrow)))
    return {
        name: DataType(root="TIMESTAMP", precision=6) for name in names if "[ns" not in str(schema.field(name).type)
    }


def _parquet_type(element: _SchemaElement, column_path: str, file_types: _FileTypes) -> DataType:
    if element.is_repeated:
        raise make_refusal(file_types.path, column_path, "is repeated without being a list")
    if not element.children:
        return _leaf_type(element, column_path, file_types)
    match element.kind:
        case _LogicalType.LIST:
            inner = element.children[0]
            plain = (
                len(element.children) == 1
                and len(inner.children) == 1
                and inner.is_repeated
                and not inner.name.endswith(_ELEMENT_NAMES)
            )
            if not plain:
                raise make_refusal(file_types.path, column_path, "is a list in the form of old writers, of two levels")
            return DataType(
                root="ARRAY", element=_parquet_type(inner.children[0], f"{column_path}.element", file_types)
            )
        case _LogicalType.MAP:
            pair = element.children[0]
            if len(element.children) != 1 or [part.name for part in pair.children] != ["key", "value"]:
                raise make_refusal(file_types.path, column_path, "is a map without key and value")
            key, value = (_parquet_type(part, f"{column_path}.{part.name}", file_types) for part in pair.children)
            return DataType(root="MAP", key=key, value=value)
        case _LogicalType.NOTHING:
            return DataType(
                root="ROW",
                fields=tuple(
                    Field(part.name, _parquet_type(part, f"{column_path}.{part.name}", file_types))
                    for part in element.children
                ),
            )
        case _LogicalType.VARIANT:
            raise make_refusal(
                file_types.path, column_path, "is a VARIANT, which is taken over from tables of Paimon only"
            )
    raise make_refusal(file_types.path, column_path, f"is a group of kind {element.kind}, which Paimon has not")


def _leaf_type(element: _SchemaElement, column_path: str, file_types: _FileTypes) -> DataType:
    physical, kind = element.struct[1][1], element.kind
    if kind == _LogicalType.DECIMAL:
        return _decimal_type(element, column_path, file_types)
    match physical, kind:
        case _PhysicalType.BOOLEAN, _:
            return DataType(root="BOOLEAN")
        case ((_PhysicalType.INT32 | _PhysicalType.INT64), (_LogicalType.NOTHING | _LogicalType.INTEGER)):
            return _integer_type(element, column_path, file_types)
        case _PhysicalType.INT32, _LogicalType.DATE:
            return DataType(root="DATE")
        case ((_PhysicalType.INT32 | _PhysicalType.INT64), (_LogicalType.TIME | _LogicalType.TIMESTAMP)):
            return _time_type(element, column_path, file_types)
        case _PhysicalType.INT96, _:
            return file_types.microsecond_columns.get(column_path.partition(".")[0], file_types.int96_type)
        case ((_PhysicalType.FLOAT | _PhysicalType.DOUBLE), _):
            return DataType(root="FLOAT" if physical == _PhysicalType.FLOAT else "DOUBLE")
        case _PhysicalType.BYTES, (_LogicalType.STRING | _LogicalType.ENUM | _LogicalType.JSON):
            return STRING_TYPE
        case (_PhysicalType.BYTES, _) | (_PhysicalType.FIXED, (_LogicalType.NOTHING | _LogicalType.UUID)):
            return BYTES_TYPE
        case _, _LogicalType.NULL:
            raise make_refusal(
                file_types.path,
                column_path,
                "holds nothing but nulls and has no type",
                remedy="write it with a type, or leave it out",
            )
        case _PhysicalType.FIXED, _LogicalType.FLOAT16:
            raise make_refusal(file_types.path, column_path, "holds floats of 16 bits, which Paimon has not")
    raise make_refusal(
        file_types.path,
        column_path,
        f"is of Parquet's physical type {physical} with annotation {kind}, which Paimon has not",
    )


def _integer_type(element: _SchemaElement, column_path: str, file_types: _FileTypes) -> DataType:
    bits, signed = 32 if element.struct[1][1] == _PhysicalType.INT32 else 64, True
    if 1 in element.annotation_members:
        bits, signed = element.annotation_members[1][1], element.annotation_members[2][1]
    elif element.kind == _LogicalType.INTEGER:
        bits, signed = 8 << (element.struct[6][1] - 11) % 4, element.struct[6][1] >= 15
    if not signed and bits > 16:
        raise make_refusal(
            file_types.path, column_path, f"holds unsigned numbers of {bits} bits, which would have to be written anew"
        )
    return DataType(root=_SIGNED_TYPES[bits if signed else bits * 2])


def _time_type(element: _SchemaElement, column_path: str, file_types: _FileTypes) -> DataType:
    """Return the type of a time of day or a timestamp."""
    adjusted, unit = True, 1 if element.struct.get(6, (0, 0))[1] in (7, 9) else 2
    if element.annotation_members:
        adjusted, unit = element.annotation_members[1][1], next(iter(element.annotation_members[2][1]))
    if element.kind == _LogicalType.TIME and unit == 1:
        return DataType(root="TIME", precision=3)
    if element.kind == _LogicalType.TIME or unit == 3:
        subject = "times of day" if element.kind == _LogicalType.TIME else "timestamps"
        raise make_refusal(
            file_types.path,
            column_path,
            f"holds {subject} in {_TIME_UNIT_NAMES[unit]}, which would have to be written anew",
        )
    return DataType(root="TIMESTAMP_LTZ" if adjusted else "TIMESTAMP", precision=unit * 3)


def _decimal_type(element: _SchemaElement, column_path: str, file_types: _FileTypes) -> DataType:
    scale = (
        element.annotation_members[1][1]
        if 1 in element.annotation_members
        else element.struct[7][1]
        if 7 in element.struct
        else 0
    )
    precision = element.annotation_members[2][1] if 2 in element.annotation_members else element.struct[8][1]
    if not 0 < precision <= _MAX_DIGITS or not 0 <= scale <= precision:
        raise make_refusal(
            file_types.path,
            column_path,
            f"is a decimal of {precision} digits, {scale} of them after the point, where Paimon has {_MAX_DIGITS}",
        )
    return DataType(root="DECIMAL", precision=precision, scale=scale)


# ---- chunks ----------------------------------------------------------------------------------------------------------


def _check_chunks(path: str, chunks: Sequence[Struct], leaves: Sequence[tuple[str, _SchemaElement | None]]) -> None:
    """Raise `Unsupported` for compression and encodings that engine 1.4.2 or Polars does not read."""
    for chunk, (name, _) in zip(chunks, leaves, strict=True):
        if chunk[4][1] in _REFUSED_CODECS:
            raise unsupported_encoding(
                path,
                f"it is compressed by {_REFUSED_CODECS[chunk[4][1]]}, which engine 1.4.2 does not read",
                "file.compression",
            )
        encodings = chunk[2][1][1]
        if _SPLIT_STREAMS in encodings:
            raise unsupported_encoding(
                path,
                f"column {name} is encoded as BYTE_STREAM_SPLIT, which engine 1.4.2 does not read",
                "parquet.encoding",
            )
        if chunk[1][1] == _PhysicalType.FIXED and _DELTA_BYTES in encodings:
            raise unsupported_encoding(
                path,
                f"column {name} holds bytes of fixed length as DELTA_BYTE_ARRAY, which Polars does not read",
                "parquet.encoding",
            )


def _column_stats(
    fields: Sequence[Field], leaves: Sequence[tuple[str, _SchemaElement | None]], groups: Sequence[Struct]
) -> dict[str, ColumnStats]:
    """Return the reliable statistics of the footer: a real number's bounds leave out a NaN."""
    types = {field.name: field.type for field in fields}
    stats = {}
    for i, (name, leaf) in enumerate(leaves):
        t = types[name]
        if (
            leaf is None
            or not has_exact_chunk_bounds(t)
            or t.root in FLOAT_TYPES
            or leaf.struct[1][1] == _PhysicalType.INT96
        ):
            continue
        column_stats = ColumnStats()
        if all(column_stats.add_chunk_statistics(group[1][1][1][i][3][1], t) for group in groups):
            stats[name] = column_stats
    return stats


# ---- foreign file ------------------------------------------------------------


FORMAT_OF_MAGIC = {b"PAR1": "parquet", b"PARE": "parquet", b"ORC": "orc", b"Obj\x01": "avro"}
"""The first bytes of each format."""
_SCHEMA_READERS = {
    "parquet": read_parquet_schema,
    "orc": read_orc_schema,
    "avro": read_avro_schema,
}
_FOOTER_FAILURES = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
"""What is raised over a footer whose numbers and lists are wrong."""


def detect_format(head: bytes) -> str | None:
    """Return the format of a file by its first bytes; None if it is no Parquet, ORC or Avro."""
    return next((name for magic, name in FORMAT_OF_MAGIC.items() if head.startswith(magic)), None)


def read_foreign_schema(
    format_name: str, path: str, read_range: Callable[[int, int | None], bytes], size_bytes: int
) -> ForeignFileSchema:
    """Return the schema of a file; `read_range(offset, length)` returns its bytes.

    Raises:
        Corrupt: the file is damaged.
        SchemaMismatch: no table can adopt a column as it is stored.
        Unsupported: the released engine or Polars does not read its compression or an encoding.
    """
    try:
        schema = _SCHEMA_READERS[format_name](path, read_range, size_bytes)
    except Corrupt as error:
        raise error.at(path) from None
    except LakekitError:
        raise
    except external_reader.FOREIGN_FAILURES as error:
        raise external_reader.to_corrupt(path, error, format_name) from error
    except _FOOTER_FAILURES as error:
        raise Corrupt(f"{path}: its {format_name} footer makes no sense: {error}", path=path, field="footer") from error
    if (twice := first_duplicate(field.name for field in schema.fields)) is not None:
        raise SchemaMismatch(
            f"{path} has two columns {twice}; columns are found by name. Rewrite it with other names", column=twice
        )
    return schema
