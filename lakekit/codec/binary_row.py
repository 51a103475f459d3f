"""BinaryRow: a row as comparable and hashable bytes (partitions, keys, statistics, bucket keys).

    [0]       row kind: 0 +I, 1 -U, 2 +U, 3 -D; always 0 in files
    [1 …      null bits: field i is bit i + 8 of the row, least significant first
    W …       a slot of 8 bytes a field, little endian;  W = (arity + 71) / 64 * 8
    …         variable part: each item padded with zeros to 8 bytes, in field order

    (7, "hello world")   0000000000000000 0700000000000000 0b00000018000000 68656c6c6f20776f 726c640000000000
                         kind, nulls      7                11 bytes at 24   text, zeros

With arity (manifests): i32 BE arity, then the row. Equal values give equal bytes, so padding is zero, text of up to 7
bytes is stored in its slot, and null decimals above 18 digits and null timestamps above 3 digits still reserve their
space (not in arrays). Values are those of `types.arrow`. Without a Python step per row, for the same bytes:

    10,000 statistics rows  ->  one Arrow array a column        decode_columns
    1,000,000 key columns   ->  row bytes, or their words       encode_columns, pack

Nested types (never in keys or statistics) are converted value by value (`binary_value`).

Source: FORMAT.md 5; `BinaryRow`, `BinaryRowWriter`, `SerializationUtils`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from lakekit.codec import binary_value
from lakekit.codec.binary_value import BoundedSlice, header_width, is_compact
from lakekit.codec.cursor import Cursor
from lakekit.errors import Corrupt, LimitExceeded
from lakekit.types import BINARIES, STRINGS, TIMESTAMPS, timestamp_unit
from lakekit.types.arrow import to_arrow, to_arrow_array, to_internal_values, to_plain_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lakekit.types import DataType


_SLOT_DTYPES = {
    "TINYINT": "<i1",
    "SMALLINT": "<i2",
    "INT": "<i4",
    "DATE": "<i4",
    "TIME": "<i4",
    "BIGINT": "<i8",
    "FLOAT": "<f4",
    "DOUBLE": "<f8",
}
_SUB_MILLI = {"ms": 1, "us": 1000, "ns": 1_000_000}
_WORD_MASK = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
_WORDS_AT_ONCE = 16
_MAX_BYTES = 2**31 - 1


def expand_ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices starts[0] … starts[0]+lengths[0]-1, starts[1] … in one array."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total, dtype=np.int64)


def words_at_any_byte(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return a view where item i is the little endian u64 that starts at byte i."""
    return np.ndarray((max(0, len(data) - 7),), np.dtype("<u8"), data.data, strides=(1,))


def read_integers_at(data: NDArray[np.uint8], positions: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Return the signed big endian integers of `width` bytes at those positions, all within the data."""
    integers: NDArray[np.int64] = np.ndarray(
        (max(0, len(data) - width + 1),), np.dtype(f">i{width}"), data.data, strides=(1,)
    )[positions].astype(np.int64)
    return integers


def binary_buffers(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Return (starts, lengths, data) of a binary or string array with 32 bit offsets.

    A null has length 0. Of a slice, only its own data.
    """
    offset_buffer = column.buffers()[1]
    if len(column) == 0 or offset_buffer is None:
        return np.zeros(len(column), np.int64), np.zeros(len(column), np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(offset_buffer, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    lengths = np.diff(offsets)
    if column.null_count:
        lengths[null_mask(column)] = 0
    return offsets[:-1] - offsets[0], lengths, binary_data(column)


def binary_data(column: pa.Array) -> NDArray[np.uint8]:
    """Return the data of `binary_buffers` alone, without a copy."""
    _, offset_buffer, data_buffer = column.buffers()
    if len(column) == 0 or offset_buffer is None or data_buffer is None:
        return np.zeros(0, np.uint8)
    first, last = np.frombuffer(offset_buffer, np.int32, len(column) + 1, column.offset * 4)[[0, -1]].tolist()
    return np.frombuffer(data_buffer, np.uint8)[first:last]


def null_mask(column: pa.Array) -> NDArray[np.bool_]:
    """Return a mask of the nulls of a column."""
    if not column.null_count:
        return np.zeros(len(column), np.bool_)
    mask: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return mask


def _validity_buffer(ok: NDArray[np.bool_]) -> pa.Buffer | None:
    return None if ok.all() else pa.py_buffer(np.packbits(ok, bitorder="little").tobytes())


def fixed_array(values: NDArray[Any], ok: NDArray[np.bool_], arrow: pa.DataType) -> pa.Array:
    """Return an Arrow array of fixed width over the bytes of `values`."""
    return pa.Array.from_buffers(arrow, len(ok), [_validity_buffer(ok), pa.py_buffer(np.ascontiguousarray(values))])


# ---- reading ---------------------------------------------------------------------------------------------------------


class _RowBytes:
    """Many rows in one buffer: where each begins, how long it is, how many fields it has."""

    def __init__(self, rows: pa.BinaryArray, path: str | None) -> None:
        self.path = path
        starts, lengths, self.data = binary_buffers(rows)
        self.count = len(rows)
        self.words = words_at_any_byte(self.data)
        self.is_present = ~null_mask(rows)
        self.remaining_bytes = int(lengths.sum())
        self.raise_first_wrong(self.is_present & (lengths < 12), "a row of less than 12 bytes", "arity")
        heads = np.where(self.is_present, starts, 0)
        any_present = bool(self.is_present.any())
        self.arity = (
            np.where(self.is_present, (self.words[heads] & 0xFFFFFFFF).astype(np.uint32).byteswap().view(np.int32), 0)
            if any_present
            else heads
        )
        self.starts = heads + 4
        self.lengths = np.where(self.is_present, lengths - 4, 0)
        self.slots = self.starts + (self.arity.astype(np.int64) + 71) // 64 * 8
        is_wrong = self.is_present & (
            (self.arity < 0) | (self.slots - self.starts + 8 * self.arity.astype(np.int64) > self.lengths)
        )
        self.raise_first_wrong(is_wrong, "more fields than its bytes hold", "arity")

    def raise_first_wrong(self, is_wrong: NDArray[np.bool_], problem: str, field: str) -> None:
        """Raise `Corrupt` naming the first wrong row, if there is one."""
        if is_wrong.any():
            where = "" if self.path is None else f"{self.path}: "
            msg = f"{where}row {int(np.argmax(is_wrong))} of {self.count}, {field}: {problem}"
            raise Corrupt(msg, path=self.path, field=field)

    def count_part_bytes(self, length: int, field: str) -> None:
        """Count the bytes of parts of rows, which never overlap; raise `Corrupt` if they exceed the rows."""
        self.remaining_bytes -= length
        if self.remaining_bytes < 0:
            self.raise_first_wrong(np.ones(1, np.bool_), "its parts overlap", field)


def decode_columns(
    rows: pa.BinaryArray,
    types: Sequence[DataType],
    *,
    only: Sequence[int] | None = None,
    arity_exact: bool = False,
    path: str | None = None,
) -> list[pa.Array]:
    """Decode rows *with* their arity to an array of `to_arrow(type)` for each field, or index in `only`.

    A null row is null in every field, a field beyond a row's arity is null (with `arity_exact` such rows are
    `Corrupt`), a timestamp outside the int64 of its unit is null. Raises `Corrupt`.
    """
    if isinstance(rows, pa.ChunkedArray):
        rows = rows.combine_chunks()
    if not rows.type.equals(pa.binary()):
        rows = rows.cast(pa.binary())
    row_buffer = _RowBytes(rows, path)
    if arity_exact:
        row_buffer.raise_first_wrong(
            row_buffer.is_present & (row_buffer.arity != len(types)), f"{len(types)} fields wanted", "arity"
        )
    return [_decode_column(row_buffer, i, types[i]) for i in (range(len(types)) if only is None else only)]


def _decode_column(rows: _RowBytes, i: int, t: DataType) -> pa.Array:
    ok = rows.is_present & (rows.arity > i)
    if not ok.any():
        return pa.nulls(rows.count, to_arrow(t))
    all_present = bool(ok.all())
    null_byte = rows.starts + ((i + 8) >> 3)
    ok &= (rows.data[null_byte if all_present else np.where(ok, null_byte, 0)] >> ((i + 8) & 7) & 1) == 0
    at = rows.slots + 8 * i
    slots = rows.words[at if all_present else np.where(ok, at, 0)]
    name = f"field {i}"
    if t.root in _SLOT_DTYPES:
        dtype = np.dtype(_SLOT_DTYPES[t.root])
        return fixed_array(slots.view(dtype)[:: 8 // dtype.itemsize], ok, to_arrow(t))
    if t.root == "BOOLEAN":
        return pa.array((slots & 0xFF) != 0, mask=~ok)
    if t.root in STRINGS or t.root in BINARIES:
        return _decode_text(rows, slots, at, ok, t, name)
    if t.root in TIMESTAMPS:
        return _decode_timestamp(rows, slots, ok, t, name)
    if t.root == "DECIMAL":
        return _decode_decimal(rows, slots, ok, t, name)
    rows.count_part_bytes(int((slots[ok] & np.uint64(0xFFFFFFFF)).sum()), name)
    return _decode_nested(rows, at, ok, t, name)


def _part_starts(
    rows: _RowBytes, slots: NDArray[np.uint64], lengths: NDArray[np.int64], ok: NDArray[np.bool_], name: str
) -> NDArray[np.int64]:
    """Return where each row's part starts in the data; checked where `ok`."""
    begins = (slots >> np.uint64(32)).astype(np.int64)
    rows.raise_first_wrong(ok & (begins + lengths > rows.lengths), "a part outside the row", name)
    return begins + rows.starts


def _decode_text(
    rows: _RowBytes, slots: NDArray[np.uint64], at: NDArray[np.int64], ok: NDArray[np.bool_], t: DataType, name: str
) -> pa.Array:
    inline = slots >> np.uint64(63) == 1
    lengths = np.where(inline, slots >> np.uint64(56) & np.uint64(0x7F), slots & np.uint64(0xFFFFFFFF)).astype(np.int64)
    lengths[~ok] = 0
    rows.raise_first_wrong(inline & (lengths > 7), "more than 7 bytes inside a slot", name)
    begins = np.where(inline, at, _part_starts(rows, slots, lengths, ok & ~inline, name))
    rows.count_part_bytes(int(lengths[~inline].sum()), name)
    offsets = np.zeros(rows.count + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > _MAX_BYTES:
        msg = f"{name}: {offsets[-1]} bytes of text in one column of metadata"
        raise LimitExceeded(msg, path=rows.path, field=name)
    body = rows.data[expand_ranges(begins, lengths)]
    texts = pa.Array.from_buffers(
        to_arrow(t), rows.count, [_validity_buffer(ok), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(body)]
    )
    if t.root in STRINGS:
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid as error:
            msg = f"{name}: text that is not UTF-8: {error}"
            raise Corrupt(msg, path=rows.path, field=name) from None
    return texts


def _decode_timestamp(
    rows: _RowBytes, slots: NDArray[np.uint64], ok: NDArray[np.bool_], t: DataType, name: str
) -> pa.Array:
    if is_compact(t):
        return fixed_array(slots.view(np.int64), ok, to_arrow(t))
    nanos = (slots & np.uint64(0xFFFFFFFF)).astype(np.int64)
    rows.raise_first_wrong(ok & (nanos > 999_999), "more than 999999 nanoseconds within a millisecond", name)
    begins = _part_starts(rows, slots, np.full(rows.count, 8), ok, name)
    rows.count_part_bytes(8 * int(ok.sum()), name)
    millis = rows.words[np.where(ok, begins, 0)].view(np.int64)
    per = _SUB_MILLI[timestamp_unit(t.precision)]
    sub_millis = nanos * per // 1_000_000
    (high, high_rest), (low, low_rest) = divmod(2**63 - 1, per), divmod(-(2**63), per)
    ok = (
        ok
        & ((millis < high) | ((millis == high) & (sub_millis <= high_rest)))
        & ((millis > low) | ((millis == low) & (sub_millis >= low_rest)))
    )
    return fixed_array(millis * per + sub_millis, ok, to_arrow(t))


def _decode_decimal(
    rows: _RowBytes, slots: NDArray[np.uint64], ok: NDArray[np.bool_], t: DataType, name: str
) -> pa.Array:
    if is_compact(t):
        low = slots.view(np.int64)
        return fixed_array(np.stack([low, low >> 63], axis=1), ok, to_arrow(t))
    lengths = (slots & np.uint64(0xFFFFFFFF)).astype(np.int64)
    rows.raise_first_wrong(ok & ((lengths < 1) | (lengths > 16)), "a decimal of no bytes or more than 16", name)
    lengths = np.where(ok, lengths, 1)
    begins = np.where(ok, _part_starts(rows, slots, lengths, ok, name), 0)
    rows.count_part_bytes(int(lengths[ok].sum()), name)
    back = np.arange(16)
    bodies = rows.data[np.maximum((begins + lengths - 1)[:, None] - back, begins[:, None])]
    sign = np.where(rows.data[begins] > 127, 255, 0).astype(np.uint8)
    return fixed_array(np.where(back < lengths[:, None], bodies, sign[:, None]), ok, to_arrow(t))


def _decode_nested(
    rows: _RowBytes, offsets: NDArray[np.int64], ok: NDArray[np.bool_], t: DataType, name: str
) -> pa.Array:
    data, values = rows.data.tobytes(), [None] * rows.count
    for i in np.flatnonzero(ok).tolist():  # scalar: nested columns carry no statistics and are no partition
        start = int(rows.starts[i])
        space = binary_value.BoundedSlice(data, start, start + int(rows.lengths[i]), rows.path)
        values[i] = binary_value.read_slot(space, int(offsets[i]), t, name)
    return to_arrow_array(values, t)


# ---- writing ---------------------------------------------------------------------------------------------------------


class PackedRows(NamedTuple):
    """Row bytes as words: row i is `words[offsets[i] / 8 : offsets[i + 1] / 8]`.

    `size` is the length of every row if they have one length.
    """

    words: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    size: int | None


class _VariablePart(NamedTuple):
    """A column's variable part: row i takes `padded_lengths[i]` bytes, `lengths[i]` from `data[begins[i]:]`."""

    padded_lengths: NDArray[np.int64]
    lengths: NDArray[np.int64]
    begins: NDArray[np.int64]
    data: NDArray[np.uint8]


def pack_rows(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> PackedRows:
    """Encode columns to rows of words.

    Raises:
        ValueOutOfRange: a column does not fit its type.
        LimitExceeded: the rows take more than 2 GiB.
    """
    arrays = [to_plain_array(column, t) for column, t in zip(columns, types, strict=True)]
    count = len(arrays[0]) if arrays else 0
    width = header_width(len(types))
    heads = np.zeros((width // 8, count), np.uint64)
    slots: list[NDArray[np.uint64]] = []
    parts: list[tuple[_VariablePart, NDArray[np.int64]]] = []
    least = width + 8 * len(types)
    sizes: NDArray[np.int64] = np.zeros(0, np.int64)
    for i, (column, t) in enumerate(zip(arrays, types, strict=True)):
        nulls = null_mask(column)
        if column.null_count:
            heads[(i + 8) >> 6] |= nulls.astype(np.uint64) << np.uint64((i + 8) & 63)
        slot, part = _encode_column(column, t, nulls)
        if part is not None:
            sizes = sizes if parts else np.full(count, least, np.int64)
            slot = np.where(part.padded_lengths > 0, slot | (sizes.astype(np.uint64) << np.uint64(32)), slot)
            parts.append((part, sizes))
            sizes = sizes + part.padded_lengths
        slots.append(slot)
    offsets = np.arange(count + 1, dtype=np.int64) * least
    if parts:
        np.cumsum(sizes, out=offsets[1:])
    if count and offsets[-1] > _MAX_BYTES:
        msg = f"{offsets[-1]} bytes of binary rows at once: give fewer rows at a time"
        raise LimitExceeded(msg, field="rows")
    words = np.zeros(int(offsets[-1]) // 8, np.uint64)
    size = (int(sizes[0]) if bool((sizes == sizes[0]).all()) else None) if count and parts else least if count else None
    table = words.reshape(count, size // 8) if size is not None else None
    for j, item in enumerate([*heads, *slots]):
        if table is not None:
            table[:, j] = item
        else:
            words[(offsets[:-1] >> 3) + j] = item
    for part, begins in parts:
        _copy_parts(words, offsets[:-1] + begins, part)
    return PackedRows(words, offsets, size)


def _copy_parts(words: NDArray[np.uint64], begins: NDArray[np.int64], part: _VariablePart) -> None:
    """Copy each row's part to `begins` (whole words) of the rows.

    The first 128 bytes are copied word by word, all rows at once, the rest byte by byte.
    """
    source = words_at_any_byte(np.concatenate([part.data, np.zeros(8, np.uint8)]))
    rows = np.flatnonzero(part.lengths)
    for j in range(_WORDS_AT_ONCE):
        if j:
            rows = rows[part.lengths[rows] > 8 * j]
        if not len(rows):
            return
        left = np.minimum(part.lengths[rows] - 8 * j, 8)
        words[(begins[rows] >> 3) + j] = source[part.begins[rows] + 8 * j] & _WORD_MASK[left]
    copied = 8 * _WORDS_AT_ONCE
    rows = rows[part.lengths[rows] > copied]
    lengths = part.lengths[rows] - copied
    words.view(np.uint8)[expand_ranges(begins[rows] + copied, lengths)] = part.data[
        expand_ranges(part.begins[rows] + copied, lengths)
    ]


def encode_columns(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> pa.BinaryArray:
    """Return row bytes *without* arity, one a row, byte for byte those of `binary_row.encode`.

    Errors as `pack_rows`.
    """
    packed = pack_rows(columns, types)
    offsets = pa.py_buffer(packed.offsets.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(packed.offsets) - 1, [None, offsets, pa.py_buffer(packed.words)])


def fixed_values(column: pa.Array, dtype: str | np.dtype[Any], per: int = 1) -> NDArray[Any]:
    """Return the values buffer of a fixed width column, whatever it holds at nulls."""
    kind = np.dtype(dtype)
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.zeros(len(column) * per, kind)
    return np.frombuffer(buffer, kind, len(column) * per, column.offset * kind.itemsize * per)


def _encode_column(
    column: pa.Array, t: DataType, nulls: NDArray[np.bool_]
) -> tuple[NDArray[np.uint64], _VariablePart | None]:
    if t.root in _SLOT_DTYPES:
        dtype = np.dtype(_SLOT_DTYPES[t.root])
        slot = fixed_values(column, f"<u{dtype.itemsize}").astype(np.uint64)
    elif t.root == "BOOLEAN":
        slot = column.fill_null(False).cast(pa.uint8()).to_numpy().astype(np.uint64)
    elif t.root in STRINGS or t.root in BINARIES:
        return _encode_text(column)
    elif t.root in TIMESTAMPS:
        return _encode_timestamp(column, t, nulls)
    elif t.root == "DECIMAL":
        limbs = fixed_values(column, "<u8", 2).reshape(-1, 2)
        if not is_compact(t):
            return _encode_decimal(limbs, nulls)
        slot = limbs[:, 0]
    else:
        return _encode_nested(column, t)
    return (np.where(nulls, np.uint64(0), slot) if column.null_count else slot), None


def _encode_text(column: pa.Array) -> tuple[NDArray[np.uint64], _VariablePart | None]:
    begins, lengths, data = binary_buffers(column)
    short = lengths <= 7
    short_lengths = np.where(short, lengths, 0)
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    slot = words_at_any_byte(padded)[np.where(short, begins, 0)] & _WORD_MASK[short_lengths]
    slot = np.where(
        short, slot | (short_lengths.astype(np.uint64) | np.uint64(0x80)) << np.uint64(56), lengths.astype(np.uint64)
    )
    if column.null_count:
        slot[null_mask(column)] = 0
    if short.all():
        return slot, None
    part_lengths = np.where(short, 0, lengths)
    return slot, _VariablePart((part_lengths + 7) & ~7, part_lengths, begins, data)


def _encode_timestamp(
    column: pa.Array, t: DataType, nulls: NDArray[np.bool_]
) -> tuple[NDArray[np.uint64], _VariablePart | None]:
    counts = np.where(nulls, 0, fixed_values(column, "<i8"))
    if is_compact(t):
        return counts.view(np.uint64), None
    per = _SUB_MILLI[timestamp_unit(t.precision)]
    millis = counts // per
    nanos = (counts - millis * per) * (1_000_000 // per)
    eight = np.full(len(counts), 8)
    return nanos.astype(np.uint64), _VariablePart(eight, eight, np.arange(len(counts)) * 8, millis.view(np.uint8))


def _encode_decimal(
    limbs: NDArray[np.uint64], nulls: NDArray[np.bool_]
) -> tuple[NDArray[np.uint64], _VariablePart | None]:
    big = np.where(nulls[:, None], 0, np.ascontiguousarray(limbs).view(np.uint8).reshape(-1, 16)[:, ::-1])
    sign = np.where(big[:, :1] > 127, 255, 0)
    needless = (big[:, :-1] == sign) & ((big[:, 1:] ^ sign) < 128)
    lengths = 16 - np.logical_and.accumulate(needless, axis=1).sum(axis=1)
    at = np.arange(16)
    moved = np.take_along_axis(big, np.minimum(at + 16 - lengths[:, None], 15), axis=1)
    body = np.where(at < lengths[:, None], moved, 0).astype(np.uint8)
    room = np.full(len(lengths), 16)
    return np.where(nulls, 0, lengths).astype(np.uint64), _VariablePart(
        room, room, np.arange(len(lengths)) * 16, body.reshape(-1)
    )


def _encode_nested(column: pa.Array, t: DataType) -> tuple[NDArray[np.uint64], _VariablePart | None]:
    values = to_internal_values(column, t)  # nested keys are rare
    bodies = [b"" if value is None else binary_value.encode_part(value, t) for value in values]
    lengths = np.fromiter(map(len, bodies), np.int64, len(bodies))
    ends = np.cumsum(lengths)
    return lengths.astype(np.uint64), _VariablePart(
        (lengths + 7) & ~7, lengths, ends - lengths, np.frombuffer(b"".join(bodies), np.uint8)
    )


# ---- binary row ------------------------------------------------------------


EMPTY_ROW = bytes(8)
"""The row without fields."""
EMPTY_ROW_WITH_ARITY = bytes(12)


def encode_row(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """Return row bytes, without arity, of kind +I.

    Raises:
        ValueOutOfRange: a value is not of its type.
    """
    return binary_value.encode_row(values, types)


def decode_row(data: bytes, types: Sequence[DataType], *, path: str | None = None) -> tuple[Any, ...]:
    """Return the values of row bytes without arity. Raises `Corrupt`."""
    return binary_value.decode_row(BoundedSlice(data, 0, len(data), path), types)


def with_arity(row: bytes, arity: int) -> bytes:
    """Return row bytes as manifests store them."""
    return arity.to_bytes(4, "big") + row


def strip_arity(data: bytes, *, path: str | None = None) -> tuple[int, bytes]:
    """Return (arity, row bytes) of a row stored in a manifest. Raises as `read_arity`."""
    return read_arity(Cursor(data, path=path)), data[4:]


def read_arity(cursor: Cursor) -> int:
    """Read the arity of a row stored in a manifest; the row is what is left then.

    Raises:
        Corrupt: the row is shorter than its slots.
    """
    arity = cursor.i32be("arity")
    least = binary_value.header_width(arity) + 8 * arity
    if arity < 0 or cursor.remaining < least:
        raise cursor.make_error(f"{arity} fields in {cursor.remaining} bytes", "arity", at=0)
    return arity


def encode_array(values: Sequence[Any], element: DataType) -> bytes:
    """Return a bare BinaryArray of elements of that type."""
    return binary_value.encode_array(values, element)


def decode_array(data: bytes, element: DataType, *, path: str | None = None) -> list[Any]:
    """Return the elements of a bare BinaryArray. Raises `Corrupt`."""
    return binary_value.decode_array(BoundedSlice(data, 0, len(data), path), element)


def encode_map(items: Sequence[tuple[Any, Any]], t: DataType) -> bytes:
    """Return a bare BinaryMap of type MAP or MULTISET, in the order given."""
    return binary_value.encode_map(items, t)


def decode_map(data: bytes, t: DataType, *, path: str | None = None) -> list[tuple[Any, Any]]:
    """Return the entries of a bare BinaryMap. Raises `Corrupt`."""
    return binary_value.decode_map(BoundedSlice(data, 0, len(data), path), t)


__all__ = [
    "EMPTY_ROW",
    "EMPTY_ROW_WITH_ARITY",
    "decode_array",
    "decode_columns",
    "decode_map",
    "decode_row",
    "encode_array",
    "encode_columns",
    "encode_map",
    "encode_row",
    "read_arity",
    "strip_arity",
    "with_arity",
]
