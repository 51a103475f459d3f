"""The schema elements of a Parquet file as Paimon writes them: names, ids, physical and logical types.

    optional group field_id=1 tags (List) {
        repeated group list { optional binary field_id=536871936 element (String) } }
    optional group field_id=2 attrs (Map) {
        repeated group key_value (Map) { required binary field_id=536868862 key (String); … } }

Source: FORMAT.md 7.4, `ParquetSchemaConverter`, `SpecialFields`; the Apache Parquet format, `parquet.thrift`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.format.encoder import map_types, refuse_type
from lakekit.format.thrift import BINARY, BOOL, BYTE, I32, STRUCT, Struct
from lakekit.types import part
from lakekit.types.arrow import timestamp_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakekit.types import DataType, Field

ROOT = b"paimon_schema"
INT32, INT64, INT96, BYTES, FIXED_BYTES = 1, 2, 3, 6, 7
REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
_UNITS = {"ms": 1, "us": 2, "ns": 3}
_NESTED_ID_BASE, _NESTED_ID_STEP = 536870911, 1024
(
    _UTF8,
    _MAP,
    _MAP_KEY_VALUE,
    _LIST,
    _DECIMAL,
    _DATE,
    _TIME_MILLIS,
    _TIMESTAMP_MILLIS,
    _TIMESTAMP_MICROS,
    _INT_8,
    _INT_16,
) = 0, 1, 2, 3, 5, 6, 7, 9, 10, 15, 16
_CONVERTED_TIMESTAMPS = {"ms": _TIMESTAMP_MILLIS, "us": _TIMESTAMP_MICROS}
_PHYSICAL_TYPES = {
    "BOOLEAN": 0,
    "INT": INT32,
    "BIGINT": INT64,
    "FLOAT": 4,
    "DOUBLE": 5,
    "BINARY": BYTES,
    "VARBINARY": BYTES,
    "BLOB": BYTES,
}


def elements(fields: Sequence[Field]) -> list[Struct]:
    """Return the elements of a complete schema, the root first, depth first. Raises `Unsupported`."""
    schema: list[Struct] = [{3: (I32, REQUIRED), 4: (BINARY, ROOT), 5: (I32, len(fields))}]
    for field in fields:
        schema += _elements(field.name, field.type, field.id, (field.id, 1))
    return schema


def leaf_count(schema: Sequence[Struct]) -> int:
    """Return how many column chunks a row group of that schema has."""
    return sum(5 not in element for element in schema)


def nested_id(field_id: int, depth: int, *, key: bool = False) -> int:
    """Return the id of an array's element, a map's value or (`key`) a map's key.

    It is `depth` levels below the column or ROW field of id `field_id`.
    """
    offset = _NESTED_ID_STEP * field_id + depth
    return _NESTED_ID_BASE - offset if key else _NESTED_ID_BASE + offset


def _elements(name: str, t: DataType, field_id: int, parent: tuple[int, int]) -> Iterator[Struct]:
    """Yield the elements of one type.

    `parent` is the id of the field that contains it, and its depth below that.
    """
    own: Struct = {
        3: (I32, OPTIONAL if t.nullable else REQUIRED),
        4: (BINARY, name.encode()),
        5: (I32, 1),
        9: (I32, field_id),
    }
    owner, depth = parent
    match t.root:
        case "ARRAY":
            yield _sort_members(own | {6: (I32, _LIST), 10: _annotation(3)})
            yield {3: (I32, REPEATED), 4: (BINARY, b"list"), 5: (I32, 1)}
            yield from _elements("element", part(t.element), nested_id(owner, depth), (owner, depth + 1))
        case "MAP" | "MULTISET":
            key, value = map_types(t)
            yield _sort_members(own | {6: (I32, _MAP), 10: _annotation(2)})
            yield {3: (I32, REPEATED), 4: (BINARY, b"key_value"), 5: (I32, 2), 6: (I32, _MAP_KEY_VALUE)}
            yield from _elements("key", key.not_null(), nested_id(owner, depth, key=True), (owner, depth + 1))
            yield from _elements("value", value, nested_id(owner, depth), (owner, depth + 1))
        case "ROW" if not t.fields:
            raise refuse_type(t, "parquet")
        case "ROW":
            yield _sort_members(own | {5: (I32, len(t.fields))})
            for field in t.fields:
                yield from _elements(field.name, field.type, field.id, (field.id, 1))
        case "VARIANT":
            yield _sort_members(own | {5: (I32, 2)})
            for number, inner in enumerate((b"value", b"metadata")):
                yield {1: (I32, BYTES), 3: (I32, REQUIRED), 4: (BINARY, inner), 9: (I32, number)}
        case _:
            del own[5]
            yield _sort_members(own | _leaf(t))


def _sort_members(element: Struct) -> Struct:
    return dict(sorted(element.items()))


def _annotation(kind: int, members: Struct | None = None) -> tuple[int, Struct]:
    return (STRUCT, {kind: (STRUCT, members or {})})


def _leaf(t: DataType) -> Struct:
    if t.root in _PHYSICAL_TYPES:
        return {1: (I32, _PHYSICAL_TYPES[t.root])}
    match t.root:
        case "CHAR" | "VARCHAR":
            return {1: (I32, BYTES), 6: (I32, _UTF8), 10: _annotation(1)}
        case "TINYINT":
            return {1: (I32, INT32), 6: (I32, _INT_8), 10: _annotation(10, {1: (BYTE, 8), 2: (BOOL, True)})}
        case "SMALLINT":
            return {1: (I32, INT32), 6: (I32, _INT_16), 10: _annotation(10, {1: (BYTE, 16), 2: (BOOL, True)})}
        case "DATE":
            return {1: (I32, INT32), 6: (I32, _DATE), 10: _annotation(6)}
        case "TIME":
            unit: Struct = {_UNITS["ms"]: (STRUCT, {})}
            return {1: (I32, INT32), 6: (I32, _TIME_MILLIS), 10: _annotation(7, {1: (BOOL, True), 2: (STRUCT, unit)})}
        case "DECIMAL":
            return _decimal(t.precision or 10, t.scale or 0)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _timestamp(timestamp_unit(t.precision), zoned=t.root == "TIMESTAMP_LTZ")
    raise refuse_type(t, "parquet")


def decimal_width(precision: int) -> int:
    """Return the bytes of the shortest two's complement that holds every number of so many digits."""
    return (10**precision).bit_length() // 8 + 1


def _decimal(precision: int, scale: int) -> Struct:
    annotated: Struct = {
        6: (I32, _DECIMAL),
        7: (I32, scale),
        8: (I32, precision),
        10: _annotation(5, {1: (I32, scale), 2: (I32, precision)}),
    }
    if precision <= 18:
        return {1: (I32, INT32 if precision <= 9 else INT64)} | annotated
    return {1: (I32, FIXED_BYTES), 2: (I32, decimal_width(precision))} | annotated


def _timestamp(unit: str, *, zoned: bool) -> Struct:
    if unit == "ns":
        return {1: (I32, INT96)}
    converted: Struct = {6: (I32, _CONVERTED_TIMESTAMPS[unit])} if zoned else {}
    return (
        {1: (I32, INT64)}
        | converted
        | {10: _annotation(8, {1: (BOOL, zoned), 2: (STRUCT, {_UNITS[unit]: (STRUCT, {})})})}
    )
