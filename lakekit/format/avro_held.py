"""Read the schema of an Avro file of another writer (see `read_foreign_schema`).

    {"type": "long", "logicalType": "timestamp-micros"}         TIMESTAMP(6) WITH LOCAL TIME ZONE, an instant in Avro
    {"type": "long", "logicalType": "local-timestamp-millis"}   TIMESTAMP(3)
    ["null", X]                                                 X; engine 1.4.2 reads a union in no other order

Source: the Avro specification 1.11, "Logical Types".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.codec import avro_container as container, avro_schema
from lakekit.format.held import BYTES, STRING, ForeignFileSchema, refusal, unsupported_encoding
from lakekit.types import DataType, Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.codec.avro_schema import AvroNode

_PLAIN_TYPES = {
    "boolean": DataType(root="BOOLEAN"),
    "float": DataType(root="FLOAT"),
    "double": DataType(root="DOUBLE"),
    "string": STRING,
}
_INTS = {"date": DataType(root="DATE"), "time-millis": DataType(root="TIME", precision=3)}
_LONGS = {
    f"{place}timestamp-{unit}": DataType(root=root, precision=precision)
    for place, root in (("", "TIMESTAMP_LTZ"), ("local-", "TIMESTAMP"))
    for unit, precision in (("millis", 3), ("micros", 6))
}
_TIMES = ("time", "timestamp", "local-timestamp", "duration")
_UNREAD_CODECS = frozenset({"xz"})
"""Codecs that engine 1.4.2 reads only with a library that it does not ship."""


def read_foreign_schema(path: str, read: Callable[[int, int | None], bytes], size_bytes: int) -> ForeignFileSchema:
    """Return the schema of a file; see `foreign_file.read_foreign_schema`."""
    container_file = container.open_blocks(read(0, size_bytes), path=path)
    if container_file.codec in _UNREAD_CODECS:
        raise unsupported_encoding(
            path, f"it is compressed by {container_file.codec}, which engine 1.4.2 does not read", "file.compression"
        )
    record = avro_schema.record_of(container_file.schema)
    return ForeignFileSchema(fields=_fields(record, "", path), row_count=container_file.count)


def _fields(record: AvroNode, where: str, path: str) -> tuple[Field, ...]:
    return tuple(
        Field(name, _type(node, f"{where}{name}", path)) for name, node in zip(record.names, record.parts, strict=True)
    )


def _type(node: AvroNode, where: str, path: str) -> DataType:
    if node.kind == "union":
        if len(node.parts) != 2 or node.parts[0].kind != "null" or node.parts[1].kind in ("null", "union"):
            raise refusal(
                path, where, "is a union other than of null, first, and one type, which engine 1.4.2 does not read"
            )
        return _type(node.parts[1], where, path)
    if node.kind in _PLAIN_TYPES:
        return _PLAIN_TYPES[node.kind]
    match node.kind:
        case "int":
            return _INTS.get(node.logical, DataType(root="INT"))
        case "long" if node.logical.rpartition("-")[0] in _TIMES and node.logical not in _LONGS:
            raise refusal(path, where, f"holds {node.logical}, which would have to be written anew")
        case "long":
            return _LONGS.get(node.logical, DataType(root="BIGINT"))
        case "bytes" if node.logical == "decimal":
            return DataType(root="DECIMAL", precision=node.precision, scale=node.scale)
        case "bytes":
            return BYTES
        case "array":
            return DataType(root="ARRAY", element=_type(node.parts[0], f"{where}.element", path))
        case "map":
            return DataType(root="MAP", key=STRING, value=_type(node.parts[0], f"{where}.value", path))
        case "record":
            return DataType(root="ROW", fields=_fields(node, f"{where}.", path))
    raise refusal(path, where, f"is Avro's {node.kind}, which would have to be written anew")
