"""Row groups of few rows, made here: for those, calling an encoder costs many times what it encodes.

    chunk     one data page:  page header (Thrift) | compressed, where that makes it smaller: levels | values
    levels    optional columns: i32 LE length | bits, which of the rows are no nulls        required columns: none
    values    PLAIN: numbers little-endian · booleans as bits · text and bytes: i32 LE length | bytes       rows that are null have none

No dictionaries: few rows repeat little. The values of a column are its Arrow buffer, taken whole. Statistics are as other encoders write them: null count, and
bounds where there are any; the zeros of real numbers as -0.0 and 0.0, texts of up to 64 bytes whole, longer ones without.

Source: FORMAT.md 7.4; the Apache Parquet format, `parquet.thrift`, `Encodings.md`, `Compression.md`.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.codec.varints import append_varint
from lakekit.format import thrift
from lakekit.format.parquet_chunks import ColumnChunk, RowGroup
from lakekit.format.parquet_schema import elements
from lakekit.format.thrift import BINARY, I32, I64, LIST, STRUCT, Struct, number
from lakekit.types import BINARIES, STRINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lakekit.types import Field

ROWS = 32
"""So many rows are few."""
SIZE_BYTES = 1 << 16
"""And so big at most: beyond, an encoder compresses better."""
_LEAST_COMPRESSED = 256
"""Bytes of a page below which nothing is gained by compressing it."""
_LONGEST_BOUND = 64
_FORM = pl.CompatLevel.oldest()
_CODECS = {"uncompressed": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7}
_ARROW_CODECS = {"lz4": "lz4_raw"}
_BOOLEAN, _INT32, _INT64, _FLOAT, _DOUBLE, _BYTES = 0, 1, 2, 4, 5, 6
_STORED_DTYPES: dict[int, np.dtype[Any]] = {_INT32: np.dtype("<i4"), _INT64: np.dtype("<i8"), _FLOAT: np.dtype("<f4"), _DOUBLE: np.dtype("<f8")}
_PLAIN, _RLE = 0, 3
_ENCODINGS = (LIST, (I32, [_PLAIN, _RLE]))
_CHUNK_HEAD = thrift.encode_members({2: (I64, 0)}, 0) + bytes([1 << 4 | STRUCT])


class PlainColumn(NamedTuple):
    """A column as a file holds it, `held` the numbers of its Arrow buffer (None: bits, or text and bytes), `fixed` what no row changes of its description.

    `is_plain`: Polars gives those numbers as they are, with no Arrow between. `is_wide`: two of them are a value.
    """

    physical: int
    held: Any
    is_plain: bool
    is_wide: bool
    optional: bool
    has_bounds: bool
    fixed: Struct
    fixed_bytes: bytes


def leaves(fields: Sequence[Field]) -> tuple[PlainColumn, ...] | None:
    """How columns are laid out; None where one of them is an encoder's alone."""
    found = [_leaf(field) for field in fields]
    return tuple(one for one in found if one is not None) if None not in found else None


_BUFFER_DTYPES = {
    "BOOLEAN": None,
    "TINYINT": "<i1",
    "SMALLINT": "<i2",
    "INT": "<i4",
    "BIGINT": "<i8",
    "FLOAT": "<f4",
    "DOUBLE": "<f8",
    "DATE": "<i4",
    "TIMESTAMP": "<i8",
    "TIMESTAMP_LTZ": "<i8",
    "DECIMAL": "<i8",
}
"""The numbers of an Arrow buffer; a decimal is two of them, the lower one first."""
_PLAIN_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"})


def _leaf(field: Field) -> PlainColumn | None:
    root = field.type.root
    if root not in _BUFFER_DTYPES and root not in STRINGS | BINARIES:
        return None
    physical = elements([field])[1][1][1]
    if physical not in {_BYTES, _BOOLEAN, *_STORED_DTYPES}:  # INT96, and decimals of many digits
        return None
    fixed: Struct = {1: (I32, physical), 2: _ENCODINGS, 3: (LIST, (BINARY, [field.name.encode()]))}
    held = None if _BUFFER_DTYPES.get(root) is None else np.dtype(_BUFFER_DTYPES[root])
    is_wide = root == "DECIMAL"
    return PlainColumn(physical, held, root in _PLAIN_NUMBERS, is_wide, field.type.nullable, root not in BINARIES, fixed, thrift.encode_members(fixed, 0))


def group(frame: pl.DataFrame, columns: Sequence[PlainColumn], codec: str, level: int | None, start: int) -> tuple[bytes, RowGroup] | None:
    """The bytes of a row group that begins `start` bytes into its file, and its description. None where a value does not fit its column."""
    parts: list[bytes] = []
    chunks, at, raw_bytes, count = [], start, 0, frame.height
    for leaf, column in zip(columns, frame.get_columns(), strict=True):
        nulls = column.null_count()
        values = _values(column, leaf, nulls)
        if values is None:
            return None
        plain, bounds = values
        page = (_levels(column) if nulls else _levels_without_nulls(count)) + plain if leaf.optional else plain
        data, used = _compress_page(page, codec, level)
        head = _page_head(len(page), data, count)
        sizes = len(head) + len(page), len(head) + len(data)
        statistics: Struct = {3: (I64, nulls)} if bounds is None else {3: (I64, nulls), 5: (BINARY, bounds[1]), 6: (BINARY, bounds[0])}
        facts = leaf.fixed | {
            4: (I32, used),
            5: (I64, count),
            6: (I64, sizes[0]),
            7: (I64, sizes[1]),
            9: (I64, at),
            12: (STRUCT, statistics),
        }
        chunks.append(ColumnChunk({2: (I64, 0), 3: (STRUCT, facts)}, _encode_chunk_metadata(leaf, (used, count, *sizes, at), nulls, bounds)))
        parts += (head, data)
        at += sizes[1]
        raw_bytes += sizes[0]
    return b"".join(parts), RowGroup(chunks, raw_bytes, count)


def _page_head(size_bytes: int, data: bytes, count: int) -> bytes:
    """A page's header: 1 data page · 2 3 its bytes as they were and as they are · 4 CRC-32 · 5 how many values, PLAIN behind levels of runs and bits."""
    crc = zlib.crc32(data)
    crc -= crc >> 31 << 32  # as a signed number
    return b"\x15\0\x15%b\x15%b\x15%b\x1c\x15%b\x15\0\x15\6\x15\6\0\0" % (number(size_bytes), number(len(data)), number(crc), number(count))


def _encode_chunk_metadata(leaf: PlainColumn, moving: tuple[int, int, int, int, int], nulls: int, bounds: tuple[bytes, bytes] | None) -> bytes:
    """A chunk's description as `facts` of `group` tell it: by itself, as encoding any struct takes three times as long."""
    told = b"%b\x15%b\x16%b\x16%b\x16%b\x26%b\x3c\x36%b" % (leaf.fixed_bytes, *map(number, moving), number(nulls))
    if bounds is not None:
        low, high = bounds
        told += b"\x28%c%b\x18%c%b" % (len(high), high, len(low), low)  # no longer than `_LONGEST_BOUND`: a length is one byte
    return b"%b%b\0\0\0" % (_CHUNK_HEAD, told)


def _compress_page(page: bytes, codec: str, level: int | None) -> tuple[bytes, int]:
    """A page as it stands in the file, and by which codec."""
    if codec != "uncompressed" and len(page) >= _LEAST_COMPRESSED:
        data = pa.Codec(_ARROW_CODECS.get(codec, codec), compression_level=level).compress(page, asbytes=True)
        if len(data) < len(page):
            return data, _CODECS[codec]
    return page, _CODECS["uncompressed"]


@lru_cache(maxsize=ROWS + 1)
def _levels_without_nulls(count: int) -> bytes:
    """The levels of rows that are all there: one run."""
    return _run(count << 1, b"\1")


def _levels(column: pl.Series) -> bytes:
    """Which rows are there: bits, in groups of eight."""
    bits = np.packbits(column.is_not_null().to_numpy(), bitorder="little")
    return _run(len(bits) << 1 | 1, bits.tobytes())


def _run(head: int, values: bytes) -> bytes:
    """A run of levels behind its length."""
    run = bytearray()
    append_varint(run, head)
    run += values
    return len(run).to_bytes(4, "little") + run


def _values(column: pl.Series, leaf: PlainColumn, nulls: int) -> tuple[bytes, tuple[bytes, bytes] | None] | None:
    """The values of a column, and their bounds, where they have some."""
    if leaf.is_plain:
        return _encode_numbers((column.drop_nulls() if nulls else column).to_numpy(), leaf)
    if leaf.physical == _BYTES and len(column) == 1:
        return _text(column.item(), bounded=leaf.has_bounds)
    array = column.to_arrow(compat_level=_FORM)  # a column at a time: a frame would wake Polars' threads
    if leaf.physical == _BYTES:
        return _texts(array, bounded=leaf.has_bounds)
    if leaf.held is None:
        flags = array.drop_null().to_numpy(zero_copy_only=False)
        bits = np.packbits(flags, bitorder="little").tobytes()
        return bits, (bytes([bool(flags.all())]), bytes([bool(flags.any())])) if len(flags) else None
    numbers = _numbers(array, leaf)
    if nulls:
        numbers = numbers[array.is_valid().to_numpy(zero_copy_only=False)]
    if leaf.is_wide:
        low, high = numbers[:, 0], numbers[:, 1]
        numbers = low.astype(_STORED_DTYPES[leaf.physical])
        if high.tobytes() != (low >> 63).tobytes() or (numbers.itemsize < low.itemsize and (numbers != low).any()):
            return None
    return _encode_numbers(numbers, leaf)


def _numbers(array: pa.Array, leaf: PlainColumn) -> NDArray[Any]:
    """The numbers of an Arrow array, those in the places of nulls too; of decimals two each."""
    width = 2 if leaf.is_wide else 1
    found = np.frombuffer(array.buffers()[1], leaf.held, len(array) * width, array.offset * width * leaf.held.itemsize)
    return found.reshape(-1, 2) if leaf.is_wide else found


def _encode_numbers(numbers: NDArray[Any], leaf: PlainColumn) -> tuple[bytes, tuple[bytes, bytes] | None]:
    """Numbers as a page holds them, with the least and the greatest; None for none, and where one is NaN."""
    wanted = _STORED_DTYPES[leaf.physical]
    stored = numbers if numbers.dtype == wanted else numbers.astype(wanted)
    data = stored.tobytes()
    if not len(stored):
        return data, None
    if wanted.kind != "f":
        return data, (data, data) if len(stored) == 1 else (stored.min().tobytes(), stored.max().tobytes())
    low, high = (stored[0], stored[0]) if len(stored) == 1 else (stored.min(), stored.max())
    if low != low or high != high:  # noqa: PLR0124 - a NaN is not itself
        return data, None
    low, high = (type(low)(-0.0) if low == 0 else low), (type(high)(0.0) if high == 0 else high)
    return data, (low.tobytes(), high.tobytes())


def _text(value: str | bytes | None, *, bounded: bool) -> tuple[bytes, tuple[bytes, bytes] | None]:
    """As `_texts`, of one."""
    if value is None:
        return b"", None
    held = value.encode() if isinstance(value, str) else value
    return len(held).to_bytes(4, "little") + held, (held, held) if bounded and len(held) <= _LONGEST_BOUND else None


def _texts(array: pa.Array, *, bounded: bool) -> tuple[bytes, tuple[bytes, bytes] | None]:
    """Texts, or bytes, each behind its length."""
    there = array.drop_null() if array.null_count else array
    count = len(there)
    if not count:
        return b"", None
    offsets = np.frombuffer(there.buffers()[1], np.int64, count + 1, there.offset * 8)
    first, last = int(offsets[0]), int(offsets[-1])
    data = there.buffers()[2]
    held = b"" if data is None else data[first:last].to_pybytes()
    if count == 1:
        return _text(held, bounded=bounded)
    lengths = np.diff(offsets)
    out = np.empty(len(held) + 4 * count, np.uint8)
    heads = (offsets[:-1] - first + 4 * np.arange(count))[:, None] + np.arange(4)
    out[heads] = lengths.astype("<u4").view(np.uint8).reshape(-1, 4)
    out[np.arange(len(held)) + np.repeat(4 * np.arange(1, count + 1), lengths)] = np.frombuffer(held, np.uint8)
    if not bounded:
        return out.tobytes(), None
    found = pc.min_max(there.view(pa.large_binary()))
    low, high = found["min"].as_py(), found["max"].as_py()  # scalar: two bounds
    return out.tobytes(), (low, high) if max(len(low), len(high)) <= _LONGEST_BOUND else None
