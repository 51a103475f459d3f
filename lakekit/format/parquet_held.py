"""Read the schema of another writer's Parquet file from its footer (see `read_foreign_schema`).

    optional int64 t (Timestamp(isAdjustedToUTC=true, micros))       t TIMESTAMP(6) WITH LOCAL TIME ZONE
    optional int96 t                                                 of Spark: an instant, TIMESTAMP_LTZ(6);
                                                                     else a wall clock, TIMESTAMP(9)
    optional int32 u (Int(8, false))                                 u SMALLINT: unsigned numbers of 8 and 16 bits
                                                                     fit into the next type
    optional binary s (String | Enum | Json)                         s STRING; without annotation BYTES

Engine 1.4.2 takes the digits of a number for what the column's type says, whatever the file says of them: nanoseconds
would be read as milliseconds, times of day in microseconds and unsigned 32 bits not at all. Those are refused. Source:
the Apache Parquet format, `parquet.thrift` and "Logical Types".
"""

from __future__ import annotations

from base64 import b64decode
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lakekit.errors import Corrupt, Unsupported
from lakekit.format import thrift
from lakekit.format.held import BYTES, STRING, ForeignFileSchema, refusal, unsupported_encoding
from lakekit.format.told import REALS, ColumnStats, chunks_tell
from lakekit.types import DataType, Field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.format.thrift import Struct

_TAIL_BYTES = 1 << 16
_LEAST_BYTES = 12
_REPEATED = 2


class _PhysicalType(IntEnum):
    """The storage of values."""

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
_UNITS = {1: "milliseconds", 2: "microseconds", 3: "nanoseconds"}
_SIGNED_TYPES = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}
_MOST_DIGITS, _MOST_NUMBER_DIGITS = 38, 18
_CODECS = {3: "LZO", 4: "BROTLI", 5: "LZ4 in Hadoop's frames"}
"""Compression that engine 1.4.2 does not read, or only with libraries that it does not ship."""
_SPLIT_STREAMS, _DELTA_BYTES = 9, 7
_SPARK, _ARROW = b"org.apache.spark.version", b"ARROW:schema"
_ELEMENT_NAMES = ("array", "_tuple")
"""Names of a repeated group that is itself the element, not a wrapper of it, as old writers made them."""


class _SchemaElement(NamedTuple):
    """One node of the schema."""

    name: str
    own: Struct
    children: tuple[_SchemaElement, ...]

    @property
    def kind(self) -> int:
        """The number of its annotation, 0 for none."""
        logical: Struct = self.own[10][1] if 10 in self.own else {}
        return next(iter(logical), 0) or (_CONVERTED_TYPES.get(self.own[6][1], 0) if 6 in self.own else 0)

    @property
    def told(self) -> Struct:
        """The members of its annotation."""
        logical: Struct = self.own[10][1] if 10 in self.own else {}
        members: Struct = next(iter(logical.values()))[1] if logical else {}
        return members

    @property
    def is_repeated(self) -> bool:
        """Whether it is repeated."""
        return bool(self.own.get(3, (0, 0))[1] == _REPEATED)


class _FileTypes(NamedTuple):
    """What the types of one file depend on.

    `fine` are the columns whose INT96 Arrow's own schema calls microseconds, `coarse` is the type of other INT96.
    """

    path: str
    coarse: DataType
    fine: Mapping[str, DataType]


def read_foreign_schema(path: str, read: Callable[[int, int | None], bytes], size_bytes: int) -> ForeignFileSchema:
    """Return the schema of a file; see `foreign_file.read_foreign_schema`."""
    footer = footer_of(path, read, size_bytes)
    key_values = {pair[1][1]: pair[2][1] for pair in (footer[5][1][1] if 5 in footer else ()) if 2 in pair}
    elements = footer[2][1][1]
    root, _ = _element(elements, 0)
    groups = footer[4][1][1] if 4 in footer else []
    timeless = frozenset(element.name for element in root.children if _holds_int96(element))
    file_types = _FileTypes(path, _int96(key_values), _micros(key_values.get(_ARROW, b""), timeless))
    fields = tuple(Field(element.name, _type(element, element.name, file_types)) for element in root.children)
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
        told=_column_stats(fields, leaves, groups),
        timeless=timeless,
        byte_decimals=decimals,
    )


def _is_byte_decimal(t: DataType, element: _SchemaElement) -> bool:
    """Return whether a column is a DECIMAL that Paimon writes as a number, and this file holds as bytes."""
    return (
        t.root == "DECIMAL"
        and (t.precision or 0) <= _MOST_NUMBER_DIGITS
        and element.own[1][1] in (_PhysicalType.FIXED, _PhysicalType.BYTES)
    )


def footer_of(path: str, read: Callable[[int, int | None], bytes], size_bytes: int) -> Struct:
    """Return the footer of a file, of which `read(offset, length)` returns bytes.

    Raises `Corrupt`, `Unsupported` where it is encrypted.
    """
    data = _tail(path, read, size_bytes)
    return thrift.decode(data[len(data) - 8 - int.from_bytes(data[-8:-4], "little") : -8])[0]


def _tail(path: str, read: Callable[[int, int | None], bytes], size_bytes: int) -> bytes:
    """Return the end of a file, with its complete footer."""
    data = read(max(0, size_bytes - _TAIL_BYTES), None)
    if data[-4:] == b"PARE":
        raise Unsupported(
            f"{path} is encrypted Parquet, which lakekit does not read", feature="parquet.encryption", path=path
        )
    length = int.from_bytes(data[-8:-4], "little") + 8
    if size_bytes < _LEAST_BYTES or data[-4:] != b"PAR1" or length > size_bytes - 4:
        raise Corrupt(
            f"{path} is no whole Parquet file: it ends in {data[-4:]!r}",
            path=path,
            offset=max(0, size_bytes - 4),
            field="magic",
        )
    return data if length <= len(data) else read(size_bytes - length, None)


# ---- columns ---------------------------------------------------------------------------------------------------------


def _element(elements: Sequence[Struct], at: int) -> tuple[_SchemaElement, int]:
    """Return the node at an index of the schema's list, depth first, and the index after it."""
    own, children, after = elements[at], [], at + 1
    for _ in range(own[5][1] if 5 in own else 0):
        child, after = _element(elements, after)
        children.append(child)
    return _SchemaElement(own[4][1].decode(), own, tuple(children)), after


def _leaf_count(element: _SchemaElement) -> int:
    return sum(map(_leaf_count, element.children)) if element.children else 1


def _holds_int96(element: _SchemaElement) -> bool:
    return any(map(_holds_int96, element.children)) if element.children else element.own[1][1] == _PhysicalType.INT96


def _int96(key_values: Mapping[bytes, bytes]) -> DataType:
    """Return the type of INT96: Spark writes instants, in microseconds; others a wall clock."""
    return (
        DataType(root="TIMESTAMP_LTZ", precision=6) if _SPARK in key_values else DataType(root="TIMESTAMP", precision=9)
    )


def _micros(arrow: bytes, names: frozenset[str]) -> dict[str, DataType]:
    """Return the INT96 columns that Arrow's schema declares coarser than nanoseconds, with their types.

    Polars follows that schema, which a file may have beside its own.
    """
    if not names or not arrow:
        return {}
    schema = pa.ipc.read_schema(pa.BufferReader(b64decode(arrow)))
    return {
        name: DataType(root="TIMESTAMP", precision=6) for name in names if "[ns" not in str(schema.field(name).type)
    }


def _type(element: _SchemaElement, where: str, file_types: _FileTypes) -> DataType:
    if element.is_repeated:
        raise refusal(file_types.path, where, "is repeated without being a list")
    if not element.children:
        return _leaf(element, where, file_types)
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
                raise refusal(file_types.path, where, "is a list in the form of old writers, of two levels")
            return DataType(root="ARRAY", element=_type(inner.children[0], f"{where}.element", file_types))
        case _LogicalType.MAP:
            pair = element.children[0]
            if len(element.children) != 1 or [part.name for part in pair.children] != ["key", "value"]:
                raise refusal(file_types.path, where, "is a map without key and value")
            key, value = (_type(part, f"{where}.{part.name}", file_types) for part in pair.children)
            return DataType(root="MAP", key=key, value=value)
        case _LogicalType.NOTHING:
            return DataType(
                root="ROW",
                fields=tuple(
                    Field(part.name, _type(part, f"{where}.{part.name}", file_types)) for part in element.children
                ),
            )
        case _LogicalType.VARIANT:
            raise refusal(file_types.path, where, "is a VARIANT, which is taken over from tables of Paimon only")
    raise refusal(file_types.path, where, f"is a group of kind {element.kind}, which Paimon has not")


def _leaf(element: _SchemaElement, where: str, file_types: _FileTypes) -> DataType:
    physical, kind = element.own[1][1], element.kind
    if kind == _LogicalType.DECIMAL:
        return _decimal(element, where, file_types)
    match physical, kind:
        case _PhysicalType.BOOLEAN, _:
            return DataType(root="BOOLEAN")
        case ((_PhysicalType.INT32 | _PhysicalType.INT64), (_LogicalType.NOTHING | _LogicalType.INTEGER)):
            return _integer_type(element, where, file_types)
        case _PhysicalType.INT32, _LogicalType.DATE:
            return DataType(root="DATE")
        case ((_PhysicalType.INT32 | _PhysicalType.INT64), (_LogicalType.TIME | _LogicalType.TIMESTAMP)):
            return _time(element, where, file_types)
        case _PhysicalType.INT96, _:
            return file_types.fine.get(where.partition(".")[0], file_types.coarse)
        case ((_PhysicalType.FLOAT | _PhysicalType.DOUBLE), _):
            return DataType(root="FLOAT" if physical == _PhysicalType.FLOAT else "DOUBLE")
        case _PhysicalType.BYTES, (_LogicalType.STRING | _LogicalType.ENUM | _LogicalType.JSON):
            return STRING
        case (_PhysicalType.BYTES, _) | (_PhysicalType.FIXED, (_LogicalType.NOTHING | _LogicalType.UUID)):
            return BYTES
        case _, _LogicalType.NULL:
            raise refusal(
                file_types.path,
                where,
                "holds nothing but nulls and has no type",
                remedy="write it with a type, or leave it out",
            )
        case _PhysicalType.FIXED, _LogicalType.FLOAT16:
            raise refusal(file_types.path, where, "holds floats of 16 bits, which Paimon has not")
    raise refusal(
        file_types.path, where, f"is of Parquet's physical type {physical} with annotation {kind}, which Paimon has not"
    )


def _integer_type(element: _SchemaElement, where: str, file_types: _FileTypes) -> DataType:
    bits, signed = 32 if element.own[1][1] == _PhysicalType.INT32 else 64, True
    if 1 in element.told:
        bits, signed = element.told[1][1], element.told[2][1]
    elif element.kind == _LogicalType.INTEGER:
        bits, signed = 8 << (element.own[6][1] - 11) % 4, element.own[6][1] >= 15
    if not signed and bits > 16:
        raise refusal(
            file_types.path, where, f"holds unsigned numbers of {bits} bits, which would have to be written anew"
        )
    return DataType(root=_SIGNED_TYPES[bits if signed else bits * 2])


def _time(element: _SchemaElement, where: str, file_types: _FileTypes) -> DataType:
    """Return the type of a time of day or a timestamp."""
    adjusted, unit = True, 1 if element.own.get(6, (0, 0))[1] in (7, 9) else 2
    if element.told:
        adjusted, unit = element.told[1][1], next(iter(element.told[2][1]))
    if element.kind == _LogicalType.TIME and unit == 1:
        return DataType(root="TIME", precision=3)
    if element.kind == _LogicalType.TIME or unit == 3:
        subject = "times of day" if element.kind == _LogicalType.TIME else "timestamps"
        raise refusal(file_types.path, where, f"holds {subject} in {_UNITS[unit]}, which would have to be written anew")
    return DataType(root="TIMESTAMP_LTZ" if adjusted else "TIMESTAMP", precision=unit * 3)


def _decimal(element: _SchemaElement, where: str, file_types: _FileTypes) -> DataType:
    scale = element.told[1][1] if 1 in element.told else element.own[7][1] if 7 in element.own else 0
    precision = element.told[2][1] if 2 in element.told else element.own[8][1]
    if not 0 < precision <= _MOST_DIGITS or not 0 <= scale <= precision:
        raise refusal(
            file_types.path,
            where,
            f"is a decimal of {precision} digits, {scale} of them after the point, where Paimon has {_MOST_DIGITS}",
        )
    return DataType(root="DECIMAL", precision=precision, scale=scale)


# ---- chunks ----------------------------------------------------------------------------------------------------------


def _check_chunks(path: str, chunks: Sequence[Struct], leaves: Sequence[tuple[str, _SchemaElement | None]]) -> None:
    """Raise `Unsupported` for compression and encodings that engine 1.4.2 or Polars does not read."""
    for chunk, (name, _) in zip(chunks, leaves, strict=True):
        if chunk[4][1] in _CODECS:
            raise unsupported_encoding(
                path,
                f"it is compressed by {_CODECS[chunk[4][1]]}, which engine 1.4.2 does not read",
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
    """Return the statistics of the footer that are reliable.

    A real number's bounds leave out a NaN without saying so.
    """
    types = {field.name: field.type for field in fields}
    stats = {}
    for i, (name, leaf) in enumerate(leaves):
        t = types[name]
        if leaf is None or not chunks_tell(t) or t.root in REALS or leaf.own[1][1] == _PhysicalType.INT96:
            continue
        column_stats = ColumnStats()
        if all(column_stats.take(group[1][1][1][i][3][1], t) for group in groups):
            stats[name] = column_stats
    return stats
