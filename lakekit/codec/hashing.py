"""The hash functions of the format, over single values and over columns.

Murmur for buckets, xxHash64 and Wang's mix for bloom filters, Hive's for `hive` buckets.

    row bytes  ->  i32      Murmur-like, seed 42, over the little endian u32 words of a binary row       FORMAT 5.7
    i32, n     ->  bucket   default: abs(h % n), truncating;  mod: floor;  hive: (h & 0x7fffffff) % n   FORMAT 6.2
    bytes      ->  u64      xxHash64 with seed 0;   i64 -> i64   Wang's 64 bit mix                       FORMAT 9.4

All arithmetic wraps. Columns are hashed 65,536 rows at a time, so that the work stays in the processor's cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lakekit.codec.binary_row import binary_buffers, fixed_values, null_mask, pack_rows, words_at_any_byte
from lakekit.errors import Corrupt, InvalidOption, Unsupported
from lakekit.types import BINARIES, INTEGERS, STRINGS
from lakekit.types.arrow import to_plain_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lakekit.types import DataType

_ROWS_PER_STEP = 65536
_M32, _M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


# ---- Murmur ----------------------------------------------------------------------------------------------------------


def row_hash_code(row: bytes) -> int:
    """Return the `hashCode` of one binary row, without its arity: a signed i32.

    Raises `Corrupt` if the row is not a whole number of 4-byte words.
    """
    if len(row) % 4:
        msg = f"a row of {len(row)} bytes: rows are whole words of 4 bytes"
        raise Corrupt(msg, field="row")
    h = 42
    for at in range(0, len(row), 4):
        k = int.from_bytes(row[at : at + 4], "little") * _C1 & _M32
        k = (k << 15 | k >> 17) * _C2 & _M32
        h ^= k
        h = ((h << 13 | h >> 19) * 5 + 0xE6546B64) & _M32
    h ^= len(row)
    h = (h ^ h >> 16) * 0x85EBCA6B & _M32
    h = (h ^ h >> 13) * 0xC2B2AE35 & _M32
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def _murmur_step(h: NDArray[np.uint32], words: NDArray[np.uint32]) -> None:
    """Apply one Murmur step of `words` to `h`, in place."""
    k = words * np.uint32(_C1)
    low = k >> np.uint32(17)
    k <<= np.uint32(15)
    k |= low
    k *= np.uint32(_C2)
    h ^= k
    np.right_shift(h, np.uint32(19), out=low)
    h <<= np.uint32(13)
    h |= low
    h *= np.uint32(5)
    h += np.uint32(0xE6546B64)


def _murmur_finish(h: NDArray[np.uint32], lengths: NDArray[np.int64] | int) -> NDArray[np.int32]:
    h ^= np.uint32(lengths) if isinstance(lengths, int) else lengths.astype(np.uint32)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return h.view(np.int32)


def _hash_table(table: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Return the hashes of rows of equal length (rows × words); leading words that all rows share are hashed once."""
    hashes = np.empty(len(table), np.int32)
    for start in range(0, len(table), _ROWS_PER_STEP):
        piece = table[start : start + _ROWS_PER_STEP]
        h = np.full(1, 42, np.uint32)
        for j in range(table.shape[1]):
            words = piece[:, j]
            if len(h) < len(words):
                if (words == words[0]).all():
                    words = words[:1]
                else:
                    h = np.full(len(words), h[0])
            _murmur_step(h, words)
        hashes[start : start + _ROWS_PER_STEP] = _murmur_finish(h, 4 * table.shape[1])
    return hashes


def _hash_ragged(words: NDArray[np.uint32], starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the hashes of rows of different lengths.

    The rows are sorted by length, longest first: the rows that have a word j are then the first n rows, and one step
    hashes word j of all of them.
    """
    order = np.argsort(-counts, kind="stable")
    starts, sorted_counts = starts[order], counts[order]
    h = np.full(len(counts), 42, np.uint32)
    longest = int(sorted_counts[0]) if len(counts) else 0
    live = len(counts) - np.searchsorted(sorted_counts[::-1], np.arange(longest), side="right")
    for j, n in enumerate(live.tolist()):
        _murmur_step(h[:n], words[starts[:n] + j])
    hashes = np.empty(len(counts), np.int32)
    hashes[order] = _murmur_finish(h, 4 * sorted_counts)
    return hashes


def row_hash_codes(rows: pa.BinaryArray) -> NDArray[np.int32]:
    """Return the `hashCode` of each binary row. Rows are without their arity, and not null.

    Raises `Corrupt`.
    """
    starts, lengths, data = binary_buffers(rows)
    if len(rows) == 0:
        return np.zeros(0, np.int32)
    if (lengths & 3).any():
        msg = f"row {int(np.argmax(lengths & 3 != 0))} is no whole number of words"
        raise Corrupt(msg, field="row")
    if (starts & 3).any():  # only where nulls hide bytes of odd length
        msg = "rows that do not follow each other"
        raise Corrupt(msg, field="row")
    words = data[: len(data) & ~3].view(np.uint32)
    if (lengths == lengths[0]).all():
        first = int(starts[0]) >> 2
        count = int(lengths[0]) >> 2
        return _hash_table(words[first : first + count * len(rows)].reshape(len(rows), count))
    return _hash_ragged(words, starts >> 2, lengths >> 2)


def hash_columns(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> NDArray[np.int32]:
    """Return the `hashCode` of the binary row that each row of the columns encodes to."""
    arrays = [to_plain_array(column, t) for column, t in zip(columns, types, strict=True)]
    count = len(arrays[0]) if arrays else 0
    hashes = np.empty(count, np.int32)
    for start in range(0, count, _ROWS_PER_STEP):
        packed = pack_rows([array.slice(start, _ROWS_PER_STEP) for array in arrays], types)
        words = packed.words.view(np.uint32)
        if packed.size is not None:
            piece = _hash_table(words.reshape(-1, packed.size // 4))
        else:
            piece = _hash_ragged(words, packed.offsets[:-1] >> 2, np.diff(packed.offsets) >> 2)
        hashes[start : start + _ROWS_PER_STEP] = piece
    return hashes


# ---- buckets ---------------------------------------------------------------------------------------------------------


def assign_buckets(
    function: str, columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType], n: int
) -> NDArray[np.int32]:
    """Return the bucket of each row by `bucket-function.type` (default, mod, hive) and the bucket key."""
    match function:
        case "default":
            return default_bucket(hash_columns(columns, types), n)
        case "mod":
            if len(columns) != 1 or types[0].root not in ("INT", "BIGINT"):
                names = ", ".join(map(str, types))
                msg = f"bucket-function.type=mod takes one bucket key of type INT or BIGINT, found {names}"
                raise InvalidOption(msg, key="bucket-function.type", value="mod")
            return mod_bucket(to_plain_array(columns[0], types[0]), n)
        case "hive":
            return hive_bucket(columns, types, n)
    msg = f"bucket-function.type={function} is unknown; there are default, mod and hive"
    raise InvalidOption(msg, key="bucket-function.type", value=function)


def supports_bucket_key(function: str, types: Sequence[DataType]) -> bool:
    """Return whether `bucket-function.type` supports a bucket key with these types.

    Other writers compute the buckets of other keys by rules that lakekit does not know.
    """
    match function:
        case "mod":
            return len(types) == 1 and types[0].root in ("INT", "BIGINT")
        case "hive":
            return all(t.root in _HIVE_HASH_ROOTS for t in types)
    return function == "default"


def writer_bucket_functions(function: str) -> tuple[str, ...]:
    """Return the bucket functions that writers of a table may have used if the option says `function`.

    pypaimon 2.1.0 uses the default function whatever the option says.
    """
    return (function,) if function == "default" else (function, "default")


def default_bucket(hashes: NDArray[np.int32], n: int) -> NDArray[np.int32]:
    """Return abs(h % n) with Java's truncating remainder."""
    return np.abs(np.fmod(hashes, np.int32(n))).astype(np.int32)


def mod_bucket(column: pa.Array, n: int) -> NDArray[np.int32]:
    """Return the remainder of an INT or BIGINT column, 0 ≤ bucket < n; a null counts as 0."""
    values = np.where(null_mask(column), 0, fixed_values(column, np.dtype(column.type.to_pandas_dtype())))
    return np.mod(values.astype(np.int64), n).astype(np.int32)


def hive_bucket(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType], n: int) -> NDArray[np.int32]:
    """Return (h & 0x7fffffff) % n with h = 31 h + Hive's hash of each column."""
    h: NDArray[np.uint32] | None = None
    for column, t in zip(columns, types, strict=True):
        array = to_plain_array(column, t)
        value = np.where(null_mask(array), np.uint32(0), _hive_hash(array, t))
        h = value if h is None else h * np.uint32(31) + value
    if h is None:
        return np.zeros(0, np.int32)
    return ((h & np.uint32(0x7FFFFFFF)) % np.uint32(n)).astype(np.int32)


def _fold_to_32_bits(bits: NDArray[np.uint64]) -> NDArray[np.uint32]:
    return (bits ^ bits >> np.uint64(32)).astype(np.uint32)


_HIVE_HASH_ROOTS: Final = frozenset(
    {"BOOLEAN", "DECIMAL", "DATE", "TIME", "FLOAT", "DOUBLE", *INTEGERS, *STRINGS, *BINARIES}
)
"""The type roots that `_hive_hash` supports."""


def _hive_hash(column: pa.Array, t: DataType) -> NDArray[np.uint32]:
    match t.root:
        case "BOOLEAN":
            return column.fill_null(False).cast(pa.uint8()).to_numpy().astype(np.uint32)
        # Hive hashes by the class of Java's value, and the value of TIME is an Integer: bucket_hive_t
        case "TINYINT" | "SMALLINT" | "INT" | "DATE" | "TIME":
            size = {"TINYINT": 1, "SMALLINT": 2}.get(t.root, 4)
            return fixed_values(column, f"<i{size}").astype(np.int32).view(np.uint32)
        case "BIGINT":
            return _fold_to_32_bits(fixed_values(column, "<u8"))
        case "FLOAT":
            return float_bits(fixed_values(column, "<f4"), zero=True)
        case "DOUBLE":
            return _fold_to_32_bits(float_bits(fixed_values(column, "<f8"), zero=True))
        case "DECIMAL":
            return _hive_decimal(column, t.scale or 0)
        case root if root in STRINGS or root in BINARIES:
            return _hive_text(column)
    msg = f"bucket-function.type=hive does not take {t}"
    raise Unsupported(msg, feature="bucket-function.hive")


def float_bits(values: NDArray[Any], *, zero: bool = False) -> NDArray[Any]:
    """Return the IEEE bits of floats, with one bit pattern for NaN; with `zero`, -0.0 has the bits of 0.0."""
    bits = values.view(np.uint32 if values.dtype.itemsize == 4 else np.uint64).copy()
    bits[np.isnan(values)] = 0x7FC00000 if values.dtype.itemsize == 4 else 0x7FF8000000000000
    if zero:
        bits[values == 0] = 0
    return bits


def _hive_text(column: pa.Array) -> NDArray[np.uint32]:
    starts, lengths, data = binary_buffers(column)
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    signed = data.view(np.int8).astype(np.int32).view(np.uint32)
    h = np.zeros(len(starts), np.uint32)
    longest = int(lengths[0]) if len(lengths) else 0
    live = len(lengths) - np.searchsorted(lengths[::-1], np.arange(longest), side="right")
    for j, n in enumerate(live.tolist()):
        h[:n] *= np.uint32(31)
        h[:n] += signed[starts[:n] + j]
    hashes = np.empty(len(h), np.uint32)
    hashes[order] = h
    return hashes


def _hive_decimal(column: pa.Array, scale: int) -> NDArray[np.uint32]:
    """Return `BigDecimal.hashCode` of the value without trailing zeros."""
    limbs = fixed_values(column, "<u8", 2).reshape(-1, 2).copy()
    negative = limbs[:, 1] >> np.uint64(63) == 1
    limbs[negative] = ~limbs[negative]
    limbs[negative, 0] += np.uint64(1)
    limbs[:, 1] += (negative & (limbs[:, 0] == 0)).astype(np.uint64)
    digits = [(limbs[:, i // 2] >> np.uint64(32 * (i % 2))) & np.uint64(_M32) for i in (3, 2, 1, 0)]
    scales = np.full(len(column), scale, np.int64)
    for _ in range(scale):
        remainder = np.zeros(len(column), np.uint64)
        tenth = []
        for digit in digits:
            tenth.append((remainder << np.uint64(32) | digit) // np.uint64(10))
            remainder = (remainder << np.uint64(32) | digit) % np.uint64(10)
        even = (remainder == 0) & (scales > 0)
        if not even.any():
            break
        digits = [np.where(even, new, old) for new, old in zip(tenth, digits, strict=True)]
        scales -= even
    zero = np.logical_and.reduce([digit == 0 for digit in digits])
    scales[zero] = 0
    t = np.zeros(len(column), np.uint32)
    for digit in digits:
        t = t * np.uint32(31) + digit.astype(np.uint32)
    t = np.where(negative, np.uint32(0) - t, t)
    return t * np.uint32(31) + scales.astype(np.uint32)


# ---- 64 bit ----------------------------------------------------------------------------------------------------------


def wang_mix64(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return Thomas Wang's mix of 64 bit integers (arithmetic right shifts)."""
    k = ~values + (values << 21)
    k ^= k >> 24
    k = k + (k << 3) + (k << 8)
    k ^= k >> 14
    k = k + (k << 2) + (k << 4)
    k ^= k >> 28
    return k + (k << 31)


def wang_mix64_unsigned(value: int) -> int:
    """Return `wang_mix64` of one integer, as an unsigned integer (`wang_mix64` returns signed integers)."""
    k = _to_signed64(~value + (value << 21))
    k ^= k >> 24
    k = _to_signed64(k + (k << 3) + (k << 8))
    k ^= k >> 14
    k = _to_signed64(k + (k << 2) + (k << 4))
    k ^= k >> 28
    return k + (k << 31) & _M64


def _to_signed64(x: int) -> int:
    return (x + 2**63 & _M64) - 2**63


def xxhash64(data: bytes) -> int:
    """Return xxHash64 with seed 0, as an unsigned integer."""
    at, length = 0, len(data)
    if length >= 32:
        lanes = [_P1 + _P2 & _M64, _P2, 0, -_P1 & _M64]
        while at + 32 <= length:
            lanes = [
                _xxhash_round(lane, int.from_bytes(data[at + 8 * i : at + 8 * i + 8], "little"))
                for i, lane in enumerate(lanes)
            ]
            at += 32
        h = sum(_rotate_left(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True)) & _M64
        for lane in lanes:
            h = ((h ^ _xxhash_round(0, lane)) * _P1 + _P4) & _M64
    else:
        h = _P5
    h = h + length & _M64
    while at + 8 <= length:
        h = (_rotate_left(h ^ _xxhash_round(0, int.from_bytes(data[at : at + 8], "little")), 27) * _P1 + _P4) & _M64
        at += 8
    if at + 4 <= length:
        h = (_rotate_left(h ^ (int.from_bytes(data[at : at + 4], "little") * _P1 & _M64), 23) * _P2 + _P3) & _M64
        at += 4
    for byte in data[at:]:
        h = _rotate_left(h ^ (byte * _P5 & _M64), 11) * _P1 & _M64
    h = (h ^ h >> 33) * _P2 & _M64
    h = (h ^ h >> 29) * _P3 & _M64
    return h ^ h >> 32


def _rotate_left(x: int, bits: int) -> int:
    return (x << bits | x >> 64 - bits) & _M64


def _xxhash_round(lane: int, word: int) -> int:
    return _rotate_left(lane + word * _P2 & _M64, 31) * _P1 & _M64


def _rotate_left_array(x: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return x << np.uint64(bits) | x >> np.uint64(64 - bits)


def _xxhash_rounds(lanes: NDArray[np.uint64] | np.uint64, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return _rotate_left_array(lanes + words * np.uint64(_P2), 31) * np.uint64(_P1)


def xxhash64_column(column: pa.Array) -> NDArray[np.uint64]:
    """Return xxHash64 of each value of a string or binary array; a null has the hash of the empty string."""
    starts, lengths, data = binary_buffers(column)
    return xxhash64_slices(data, starts, lengths)


def xxhash64_slices(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return xxHash64 of `data[starts[i]:starts[i] + lengths[i]]` for each i; all slices lie within the data."""
    hashes = np.empty(len(starts), np.uint64)
    beyond = int((starts + lengths).max(initial=0)) + 8 - len(data)
    words = words_at_any_byte(np.concatenate([data, np.zeros(beyond, np.uint8)]) if beyond > 0 else data)
    order = (
        np.argsort(-(lengths >> 5), kind="stable")
        if len(lengths) and int(lengths.max()) >= 32
        else np.arange(len(lengths))
    )
    for piece in range(0, len(order), _ROWS_PER_STEP):
        rows = order[piece : piece + _ROWS_PER_STEP]
        hashes[rows] = _xxhash64_rows(words, starts[rows], lengths[rows])
    return hashes


def _xxhash64_rows(
    words: NDArray[np.uint64], offsets: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return xxHash64 of rows that are sorted by their number of whole 32-byte stripes, most first.

    `words[i]` is the u64 at byte i.
    """
    h = np.full(len(offsets), _P5, np.uint64)
    stripes = lengths >> 5
    long = int(np.count_nonzero(stripes))
    if long:
        lanes = [np.full(long, seed, np.uint64) for seed in (_P1 + _P2 & _M64, _P2, 0, -_P1 & _M64)]
        live = long - np.searchsorted(stripes[:long][::-1], np.arange(int(stripes[0])), side="right")
        for j, n in enumerate(live.tolist()):
            for i, lane in enumerate(lanes):
                lane[:n] = _xxhash_rounds(lane[:n], words[offsets[:n] + (32 * j + 8 * i)])
        mixed = (
            _rotate_left_array(lanes[0], 1)
            + _rotate_left_array(lanes[1], 7)
            + _rotate_left_array(lanes[2], 12)
            + _rotate_left_array(lanes[3], 18)
        )
        for lane in lanes:
            mixed = (mixed ^ _xxhash_rounds(np.uint64(0), lane)) * np.uint64(_P1) + np.uint64(_P4)
        h[:long] = mixed
    h += lengths.astype(np.uint64)
    offsets, left = offsets + 32 * stripes, lengths & 31
    for j in range(3):
        rows = np.flatnonzero(left >= 8 * (j + 1))
        word = words[offsets[rows] + 8 * j]
        h[rows] = _rotate_left_array(h[rows] ^ _xxhash_rounds(np.uint64(0), word), 27) * np.uint64(_P1) + np.uint64(_P4)
    offsets, left = offsets + (left & ~7), left & 7
    rows = np.flatnonzero(left >= 4)
    word = words[offsets[rows]] & np.uint64(_M32)
    h[rows] = _rotate_left_array(h[rows] ^ word * np.uint64(_P1), 23) * np.uint64(_P2) + np.uint64(_P3)
    offsets, left = offsets + (left & 4), left & 3
    for j in range(3):
        rows = np.flatnonzero(left > j)
        byte = words[offsets[rows] + j] & np.uint64(0xFF)
        h[rows] = _rotate_left_array(h[rows] ^ byte * np.uint64(_P5), 11) * np.uint64(_P1)
    h = (h ^ h >> np.uint64(33)) * np.uint64(_P2)
    h = (h ^ h >> np.uint64(29)) * np.uint64(_P3)
    return h ^ h >> np.uint64(32)
