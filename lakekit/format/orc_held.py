"""Read the schema of an ORC file of another writer from its tail (see `read_foreign_schema`).

    struct<k:bigint,c:char(3),t:timestamp>        k BIGINT, c CHAR(3), t TIMESTAMP(9): ORC keeps nanoseconds

Source: the ORC specification v1, "Types".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.codec import orc_tail
from lakekit.errors import Corrupt
from lakekit.format.held import BYTES, STRING, ForeignFileSchema, refusal
from lakekit.types import DataType, Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.codec.orc_tail import Column

_PLAIN_TYPES = {
    0: DataType(root="BOOLEAN"), 1: DataType(root="TINYINT"), 2: DataType(root="SMALLINT"), 3: DataType(root="INT"),
    4: DataType(root="BIGINT"), 5: DataType(root="FLOAT"), 6: DataType(root="DOUBLE"), 7: STRING, 8: BYTES,
    9: DataType(root="TIMESTAMP", precision=9), 15: DataType(root="DATE"),
    18: DataType(root="TIMESTAMP_LTZ", precision=9),
}  # fmt: skip
_LIST, _MAP, _STRUCT, _DECIMAL, _VARCHAR, _CHAR = 10, 11, 12, 14, 16, 17


def read_foreign_schema(path: str, read: Callable[[int, int | None], bytes], size_bytes: int) -> ForeignFileSchema:
    """Return the schema of a file; see `foreign_file.read_foreign_schema`."""
    try:
        tail = orc_tail.parse(read(0, size_bytes))
    except Corrupt as error:
        raise error.at(path) from None
    if tail.root.kind != _STRUCT:
        raise Corrupt(f"{path}: its rows are no struct", path=path, field="types")
    return ForeignFileSchema(
        fields=_fields(tail.root, "", path), row_count=sum(stripe.row_count for stripe in tail.stripes)
    )


def _fields(column: Column, where: str, path: str) -> tuple[Field, ...]:
    names = [name.decode() for name in column.names]
    return tuple(
        Field(name, _type(child, f"{where}{name}", path)) for name, child in zip(names, column.children, strict=True)
    )


def _type(column: Column, where: str, path: str) -> DataType:
    numbers = {part.number: part.value for part in column.parts if isinstance(part.value, int)}
    if column.kind in _PLAIN_TYPES:
        return _PLAIN_TYPES[column.kind]
    match column.kind:
        case 16 | 17:
            length = numbers.get(4, 0)
            return DataType(root="CHAR" if column.kind == _CHAR else "VARCHAR", length=length) if length > 0 else STRING
        case 14 if numbers.get(5):
            return DataType(root="DECIMAL", precision=numbers[5], scale=numbers.get(6, 0))
        case 10:
            return DataType(root="ARRAY", element=_type(column.children[0], f"{where}.element", path))
        case 11:
            key, value = (
                _type(child, f"{where}.{name}", path)
                for name, child in zip(("key", "value"), column.children, strict=True)
            )
            return DataType(root="MAP", key=key, value=value)
        case 12:
            return DataType(root="ROW", fields=_fields(column, f"{where}.", path))
    raise refusal(
        path,
        where,
        "is a union, which Paimon has not" if column.kind != _DECIMAL else "is a decimal that does not say its digits",
    )
