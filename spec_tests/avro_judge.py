"""fastavro as the judge of every Avro file that lakekit makes in a test: manifests, manifest lists, index manifests, Avro data files.

`conftest.py` runs each test but those that measure within `judging()`. Each file is decoded by fastavro when it is made, and its records are compared with
what lakekit decodes; of data files the columns too, as a reader gets them. Files that a test frames itself, and those that its other processes make, are not
seen; of data files beyond `MOST_BYTES` nothing is kept: `roundtrip/test_avro.py` holds for their blocks.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import fastavro
import polars as pl

from lakekit.codec import avro_columns, avro_container
from lakekit.format import avro
from lakekit.format.avro_writer import AvroEncoder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from decimal import Decimal

    from lakekit.types import Field

MOST_BYTES = 1 << 20
KINDS = {"_NUM_ADDED_FILES": "manifest list", "_TOTAL_BUCKETS": "manifest", "_INDEX_TYPE": "index manifest"}
"""A field that only the records of that kind of file have."""
judged = Counter[str]()
"""How many files of each kind were judged in this process."""


def judge(data: bytes, fields: Sequence[Field] | None = None) -> None:
    """Compare what fastavro and lakekit decode of a file; `fields` are the columns of a data file."""
    reader = fastavro.reader(io.BytesIO(_without_logical_types(data)))
    theirs = list(reader)
    schema = reader.writer_schema
    names = {field["name"] for field in schema.get("fields", ())} if isinstance(schema, dict) else set()
    kind = next((kind for name, kind in KINDS.items() if name in names), "data file")
    ours = avro_columns.read_records(avro_container.open_container(data, limits=avro_container.DATA_LIMITS))
    assert same(ours, theirs), f"fastavro decodes another {kind} than lakekit: {theirs!r:.2000}; lakekit decodes {ours!r:.2000}"
    for field in fields or ():
        frames = list(avro._open_file(data, fields, "judged", None).batches([field.name]))
        column = physical(pl.concat(frames).to_series() if frames else pl.Series([]), schema, field.name)
        wanted = [row[field.name] for row in theirs]
        assert column is None or same(column, wanted), f"column {field.name} by fastavro: {wanted!r:.2000}; as it is read: {column!r:.2000}"
    judged[kind] += 1


def _without_logical_types(data: bytes) -> bytes:
    """Return the file with a schema that names no logical type, so that fastavro gives the numbers themselves: no time is beyond what Python can hold."""
    _, start = avro_container.read_header(data)
    return data[:start].replace(b'"logicalType"', b'"logicalNone"') + data[start:]


def same(ours: Any, theirs: Any) -> bool:
    """Return whether two decoded values are equal: a map is a dict to fastavro and pairs to lakekit, and NaN is NaN."""
    if ours == theirs:
        return True
    match ours, theirs:
        case dict(), dict():
            return ours.keys() == theirs.keys() and all(same(value, theirs[name]) for name, value in ours.items())
        case list(), dict():
            return same(dict(ours), theirs)
        case list(), list():
            return len(ours) == len(theirs) and all(map(same, ours, theirs))
        case float(), float():
            return ours != ours and theirs != theirs  # noqa: PLR0124 - NaN
    return False


def physical(column: pl.Series, schema: Any, name: str) -> list[Any] | None:
    """Return the values of a column as numbers, texts and bytes, as the file has them; None for a nested one."""
    declared = next(field["type"] for field in schema["fields"] if field["name"] == name)
    declared = declared[-1] if isinstance(declared, list) else declared
    logical = declared.get("logicalNone", "") if isinstance(declared, dict) else ""
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime):
        return column.dt.timestamp("us" if logical.endswith("micros") else "ms").to_list()
    if isinstance(dtype, pl.Time):
        return [None if value is None else value // 1_000_000 for value in column.to_physical().to_list()]
    if isinstance(dtype, pl.Decimal):
        return [None if value is None else _unscaled_bytes(value) for value in column.to_list()]
    return None if dtype.is_nested() else column.to_physical().to_list()


def _unscaled_bytes(value: Decimal) -> bytes:
    """Return a decimal's digits as a number of the fewest bytes, sign included, as Java's BigInteger does."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


@contextmanager
def judging() -> Iterator[None]:
    """Judge each Avro file that is made within the block."""
    encode, put, close = avro_container._encode_file, AvroEncoder._put, AvroEncoder.close

    def encode_judged(*arguments: Any) -> bytes:
        data = encode(*arguments)
        if sys._getframe(2).f_globals["__name__"].startswith("lakekit."):  # what a test frames itself may be hostile on purpose
            judge(data)
        return data

    def put_kept(self: Any, data: bytes) -> None:
        put(self, data)
        kept = self.__dict__.setdefault("_judged", bytearray())
        if self._written_bytes <= MOST_BYTES:
            kept += data

    def close_judged(self: Any) -> None:
        close(self)
        if self._written_bytes <= MOST_BYTES:
            judge(bytes(self.__dict__.pop("_judged", b"")), self._fields)

    with (
        mock.patch.object(avro_container, "_encode_file", encode_judged),
        mock.patch.object(AvroEncoder, "_put", put_kept),
        mock.patch.object(AvroEncoder, "close", close_judged),
    ):
        yield
