"""Polars columns as numpy arrays: values, null masks, integers that compare alike, codes of keys.

    BIGINT, DATE, BOOLEAN, DOUBLE …          the key code is the number itself: exact
    (INT, DATE) and other short numbers      one number of mixed radix: exact
    STRING, DECIMAL(38), wide composites     a hash; rows with equal hashes have their keys compared

By key codes equal keys are found without comparing rows one by one. Exact ones of a small range are addressed directly
(`is_dense`); others are sorted, which costs little as each run is sorted already. Hashes are sorted together with their
row numbers as one integer each, so that rows of a key come out in their own order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from lakekit.columns import GROUP, ROW, cols

if TYPE_CHECKING:
    from collections.abc import Sequence


Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Array = NDArray[Any]

RETRACT_BIT = 1
"""The bit that the kinds -U (1) and -D (3) have, and +I (0) and +U (2) do not."""
_MIN_INT64 = np.iinfo(np.int64).min


def not_null_mask(column: pl.Series) -> Bools | None:
    """Return which values are not null; None if none is null."""
    return None if column.null_count() == 0 else to_bools(column.is_not_null())


def to_bools(column: pl.Series) -> Bools:
    """Return booleans without nulls as an array of a byte each; `to_numpy` takes ten times as long."""
    array = column.to_arrow()
    if not len(array):
        return np.zeros(0, bool)
    bits = np.frombuffer(array.buffers()[1], np.uint8)[array.offset // 8 :]
    first = array.offset % 8
    return np.unpackbits(bits, count=first + len(array), bitorder="little")[first:].view(bool)


def physical_values(column: pl.Series) -> Array:
    """Return the physical numbers of a column (days, micros, …), zero where null."""
    if not column.dtype.is_numeric():
        column = column.to_physical() if column.dtype != pl.Boolean else column.cast(pl.UInt8)
    return column.fill_null(0).to_numpy() if column.null_count() else column.to_numpy()


def is_whole(dtype: pl.DataType) -> bool:
    """Return whether a column of that type has integers of at most 64 bits as its physical values."""
    return (
        dtype.is_integer() or dtype in (pl.Boolean, pl.Date, pl.Time) or isinstance(dtype, (pl.Datetime, pl.Duration))
    )


def to_literals(values: pl.Series) -> list[pl.Expr]:
    """Return a few values, such as bounds, as literals of their type.

    Times are converted from their integers: Python's datetime ends at microseconds, so that a greatest value would
    become less, and at the year 9999.
    """
    counts = values.to_physical() if values.dtype.is_temporal() else values
    return [pl.lit(count, counts.dtype).cast(values.dtype) for count in counts.to_list()]  # scalar: bounds


def min_max_literals(values: pl.Series) -> tuple[pl.Expr, pl.Expr]:
    """Return the least and the greatest of some values as literals."""
    counts = values.to_physical() if values.dtype.is_temporal() else values
    low, high = to_literals(pl.Series([counts.min(), counts.max()], dtype=counts.dtype).cast(values.dtype))
    return low, high


def float_order(numbers: Array) -> Ints:
    """Return integers that compare as Java's `Double.compare`: -0.0 below 0.0, every NaN equal and greatest."""
    wide = numbers.astype(np.float64)
    wide[np.isnan(wide)] = np.nan
    bits = wide.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def float_bits(column: pl.Series, *, one_zero: bool = False) -> pl.Series:
    """Return floats as integers that are equal where Java's boxed floats are.

    -0.0 is not 0.0 (except with `one_zero`), NaN equals NaN, null stays null.
    """
    # in numpy, as Polars optimizes the addition of 0.0 away
    numbers = physical_values(column) + 0.0 if one_zero else physical_values(column)
    bits = pl.Series(column.name, float_order(numbers))
    return (
        bits
        if column.null_count() == 0
        else pl.select(pl.when(column.is_not_null()).then(bits).alias(column.name)).to_series()
    )


def to_comparable(column: pl.Series, *, descending: bool = False, as_sequence: bool = False) -> Ints:
    """Return integers that compare as the values do; null is least, also if `descending` reverses the values.

    Floats compare as Java's `Double.compare` does; `as_sequence`, as its operators do: -0.0 equals 0.0. (To those NaN
    equals everything, which is no order: here it is the greatest.)
    """
    not_null = not_null_mask(column)
    if is_whole(column.dtype):
        comparable = physical_values(column).astype(np.int64)
    elif column.dtype.is_float():
        comparable = float_order(physical_values(column) + 0.0 if as_sequence else physical_values(column))
    else:
        dense = column.rank("dense").fill_null(0)
        comparable = dense.to_numpy().astype(np.int64)
    if descending:
        comparable = ~comparable
    if not_null is None:
        return comparable
    if (comparable[not_null] == _MIN_INT64).any():
        comparable = pl.Series(comparable).rank("dense").to_numpy().astype(np.int64)
    comparable[~not_null] = _MIN_INT64
    return comparable


NAN_CODE = int(float_order(np.array([np.nan]))[0])
"""The integer of `to_comparable` for NaN."""


def assign_where(target: Array, new: Array, mask: Bools) -> None:
    """Do `target[mask] = new[mask]` for numbers of one type, without a branch for each number.

    The masks of merges are scattered, and on those this takes a tenth of the time.
    """
    bits = np.dtype(f"i{target.itemsize}")
    change = target.view(bits) ^ new.view(bits)
    change &= -mask.view(np.int8).astype(bits)
    target.view(bits)[:] ^= change


def take_rows(column: pl.Series, row_numbers: Ints) -> pl.Series:
    """Return the values at those rows; null where a row number is negative."""
    missing = row_numbers < 0
    return gather_with_nulls(column, row_numbers, not_null_mask(column), missing if missing.any() else None)


def gather_with_nulls(
    column: pl.Series, row_numbers: Ints, not_null: Bools | None, missing: Bools | None = None
) -> pl.Series:
    """Return the values at those rows, null where `missing`; `not_null` is the column's `not_null_mask`."""
    array = column.to_arrow(compat_level=pl.CompatLevel.newest())
    width = _value_width(array.type)
    if width and len(column) and len(row_numbers):
        return _take_slots(column, array, width, row_numbers, not_null, missing)
    if missing is None:
        return column.gather(pl.Series(row_numbers))
    return column.gather(pl.select(pl.when(pl.Series(~missing)).then(pl.Series(row_numbers))).to_series())


def _value_width(kind: pa.DataType) -> int:
    """Return how many bytes a value takes in an array of that type; 0 if values have no fixed size."""
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return 16
    slots = pa.types.is_primitive(kind) or pa.types.is_decimal128(kind)
    return kind.bit_width // 8 if slots and not pa.types.is_boolean(kind) else 0


def _take_slots(
    column: pl.Series, array: pa.Array, width: int, row_numbers: Ints, not_null: Bools | None, missing: Bools | None
) -> pl.Series:
    """Gather slots and validity separately: with scattered nulls a third of the time of Polars' gather."""
    _, slots, *texts = array.buffers()
    kind = np.dtype(f"u{width}" if width <= 8 else "V16")
    taken_slots = np.frombuffer(slots, kind, len(array), array.offset * width).take(row_numbers, mode="wrap")
    validity = None if not_null is None else not_null.take(row_numbers, mode="wrap")
    if missing is not None:
        validity = ~missing if validity is None else validity & ~missing
    buffers = [
        None if validity is None else pa.py_buffer(np.packbits(validity, bitorder="little")),
        pa.py_buffer(taken_slots),
        *texts,
    ]
    taken = pl.Series(column.name, pa.Array.from_buffers(array.type, len(row_numbers), buffers))
    return taken if taken.dtype == column.dtype else taken.cast(column.dtype)


def from_physical(column: pl.Series, numbers: Array, not_null: Bools | None) -> pl.Series:
    """Return a column like `column` from physical numbers."""
    result = pl.Series(column.name, numbers)
    if column.dtype == pl.Boolean:
        result = result.cast(pl.Boolean)
    elif result.dtype != column.dtype:
        result = result.cast(column.to_physical().dtype).cast(column.dtype)
    if not_null is None or not_null.all():
        return result
    return pl.select(pl.when(pl.Series(not_null)).then(result).alias(column.name)).to_series()


# ---- key codes ------------------------------------------------------------


DENSE_RATIO = 8
"""Direct addressing is used while the range of the keys is below this many times the number of rows."""
_FREE_SLOTS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCodes:
    """The keys of a section's rows, one integer each.

    `columns` are the key columns, needed where unequal keys may have the same integer (not `is_exact`). `low` and
    `high` bound the integers.
    """

    columns: pl.DataFrame
    codes: Array
    is_exact: bool
    low: int
    high: int

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def is_dense(self) -> bool:
        """Return whether the integers may be used as addresses."""
        return self.is_exact and self.high - self.low < max(DENSE_RATIO * len(self.codes), _FREE_SLOTS)


def encode_keys(section: pl.DataFrame, key: Sequence[str]) -> KeyCodes:
    """Return the key codes of every row of a section."""
    columns = pl.DataFrame([section.get_column(name) for name in key])
    floats = [name for name, dtype in columns.schema.items() if dtype.is_float()]
    if floats:
        columns = columns.with_columns(
            _float_key_bits(columns[name], is_last_column=name == key[-1]) for name in floats
        )
    integers = [_key_integers(columns[name]) for name in key]
    exact = [numbers for numbers in integers if numbers is not None]
    if len(exact) == len(integers):
        packed = _pack_integers(exact)
        if packed is not None:
            codes, low, high = packed
            return KeyCodes(columns=columns, codes=codes, is_exact=True, low=low, high=high)
    hashes = columns.to_series(0).hash() if columns.width == 1 else columns.hash_rows()
    return KeyCodes(columns=columns, codes=hashes.to_numpy(), is_exact=False, low=0, high=2**64 - 1)


def select_keys(keys: KeyCodes, mask: Bools) -> KeyCodes:
    """Return the key codes of the rows that are set in the mask."""
    columns = keys.columns if keys.is_exact else keys.columns.filter(pl.Series(mask))
    return KeyCodes(columns=columns, codes=keys.codes[mask], is_exact=keys.is_exact, low=keys.low, high=keys.high)


def _float_key_bits(column: pl.Series, *, is_last_column: bool) -> pl.Series:
    """Return a key column of floats as integers.

    The reference sorts -0.0 below 0.0 and then considers them equal if they come next to each other: always in the last
    column of a key, and in other columns hardly ever, as the columns after them separate them (case
    `types_key_floats_parquet`).
    """
    return float_bits(column, one_zero=is_last_column)


def _key_integers(column: pl.Series) -> Array | None:
    if column.null_count():
        return None
    return physical_values(column) if is_whole(column.dtype) else None


def _pack_integers(columns: list[Array]) -> tuple[Array, int, int] | None:
    """Return several integer columns as one, with its bounds; None if their ranges do not fit."""
    if len(columns[0]) == 0:
        return np.zeros(0, np.int64), 0, 0
    lows = [int(c.min()) for c in columns]
    highs = [int(c.max()) for c in columns]
    if len(columns) == 1:
        return columns[0], lows[0], highs[0]
    size = 1
    for low, high in zip(lows, highs, strict=True):
        size *= high - low + 1
    if size >= 2**62:
        return None
    codes = np.zeros(len(columns[0]), np.int64)
    for column, low, high in zip(columns, lows, highs, strict=True):
        codes *= high - low + 1
        codes += column.astype(np.int64) - low
    return codes, 0, size - 1


def key_order(section: pl.DataFrame, key: Sequence[str]) -> Ints:
    """Return the rows of a section in key order, those of one key in their own order.

    Nulls are first, texts and bytes are compared by bytes, floats as Java compares them.
    """
    columns = pl.DataFrame([section.get_column(name) for name in key])
    floats = [name for name, dtype in columns.schema.items() if dtype.is_float()]
    if floats:
        columns = columns.with_columns(float_bits(columns[name]) for name in floats)
    integers = [_key_integers(columns[name]) for name in key]
    exact = [numbers for numbers in integers if numbers is not None]
    packed = _pack_integers(exact) if len(exact) == len(integers) else None
    if packed is not None:
        return _stable_order(*packed)
    placed = columns.with_row_index(ROW).sort(cols(key), nulls_last=False, maintain_order=True)
    return placed[ROW].to_numpy().astype(np.int64)


def _stable_order(codes: Array, low: int, high: int) -> Ints:
    """Return the stable order of integers.

    Few sorted runs merge in linear time; others sort faster packed with their row numbers into one integer each.
    """
    bits = max(1, (len(codes) - 1).bit_length())
    falls = int(np.count_nonzero(codes[1:] < codes[:-1]))
    if falls <= len(codes) // 64 or (high - low).bit_length() + bits > 63:
        return np.argsort(codes, kind="stable")
    packed = (codes.astype(np.int64) - low << bits) | np.arange(len(codes))
    packed.sort()
    return packed & ((1 << bits) - 1)


def last_rows_by_key(keys: KeyCodes, order: Ints | None = None) -> Array:
    """Return for each row, of dense keys, the row of its key that comes last in `key_order` (None: row order)."""
    at, last = _address_slots(keys, order)
    winner_of_row: Array = last[at]
    return winner_of_row


def _address_slots(keys: KeyCodes, order: Ints | None = None) -> tuple[Array, Array]:
    """Return the address of each row's key, and the last row of each address (undefined if unused)."""
    at = keys.codes - keys.low if keys.codes.dtype == np.int64 else keys.codes.astype(np.int64) - keys.low
    kind = np.int32 if len(keys) < 2**31 else np.int64
    last = np.empty(keys.high - keys.low + 1, kind)
    if order is None:
        last[at] = np.arange(len(at), dtype=kind)
    else:
        last[at[order]] = order.astype(kind)
    return at, last


def mask_repeated(keys: KeyCodes) -> Bools | None:
    """Return which rows have a key that occurs more than once; None for keys that are not dense.

    For those `key_blocks` finds them.
    """
    if not keys.is_dense:
        return None
    at, last = _address_slots(keys)
    older = last[at] != np.arange(len(at), dtype=last.dtype)
    twice = np.zeros(len(last), bool)
    twice[at[older]] = True
    return twice[at]


def has_few_ascending_runs(keys: KeyCodes, rank: Ints) -> bool:
    """Return whether rows form few runs of ascending keys, each run newer as a whole than the runs before."""
    if not keys.is_exact or len(keys) < 2:
        return False
    starts = np.flatnonzero(np.append(True, keys.codes[1:] <= keys.codes[:-1]))
    if len(starts) > len(keys) // 16 + 1:
        return False
    smallest, largest = np.minimum.reduceat(rank, starts), np.maximum.reduceat(rank, starts)
    return bool((largest[:-1] < smallest[1:]).all())


def key_blocks(keys: KeyCodes) -> tuple[Ints, Ints]:
    """Return row numbers grouped by key, in row order inside, and where each key's block begins."""
    if len(keys) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if keys.is_exact:
        rows = np.argsort(keys.codes, kind="stable")
        placed = keys.codes[rows]
        return rows, np.flatnonzero(np.append(True, placed[1:] != placed[:-1]))
    return _hashed_blocks(keys)


def _hashed_blocks(keys: KeyCodes) -> tuple[Ints, Ints]:
    count = len(keys)
    bits = np.uint64(max(1, (count - 1).bit_length()))
    row_bits = (np.uint64(1) << bits) - np.uint64(1)
    packed = (keys.codes & ~row_bits) | np.arange(count, dtype=np.uint64)
    packed.sort()
    rows = (packed & row_bits).astype(np.int64)
    packed >>= bits
    starts = np.flatnonzero(np.append(True, packed[1:] != packed[:-1]))
    return _verify_blocks(keys.columns, rows, starts)


def _verify_blocks(columns: pl.DataFrame, row_numbers: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Return the blocks after comparing every key with the first of its block; mixed blocks are split."""
    count = len(row_numbers)
    sizes = np.diff(starts, append=count)
    if (sizes == 1).all():
        return row_numbers, starts
    # compared in row order, as both sides then follow sorted runs and memory is read forwards
    first = np.empty(count, np.int64)
    first[row_numbers] = np.repeat(row_numbers[starts], sizes)
    later = np.flatnonzero(first != np.arange(count))
    mine, other = columns[later], columns[first[later]]
    same = np.ones(len(later), bool)
    for name in columns.columns:
        same &= mine[name].eq_missing(other[name]).to_numpy()
    if same.all():
        return row_numbers, starts
    number = np.empty(count, np.int64)
    number[row_numbers] = np.repeat(np.arange(len(starts)), sizes)
    mixed = np.zeros(len(starts), bool)
    mixed[number[later[~same]]] = True
    return _split_mixed_blocks(columns, row_numbers, number, mixed)


def _split_mixed_blocks(columns: pl.DataFrame, row_numbers: Ints, number: Ints, mixed: Bools) -> tuple[Ints, Ints]:
    """Return the blocks with the keys inside the `mixed` ones separated by their values."""
    inside = np.zeros(len(row_numbers), np.int64)
    mixed_rows = np.flatnonzero(mixed[number])
    numbered = columns[mixed_rows].with_row_index(ROW)
    groups = (
        numbered.group_by(cols(columns.columns), maintain_order=True)
        .agg(pl.col(ROW))
        .select(ROW)
        .with_row_index(GROUP)
        .explode(ROW)
    )
    inside[mixed_rows[groups[ROW].to_numpy()]] = groups[GROUP].to_numpy()
    reordered = np.lexsort((np.arange(len(row_numbers)), inside, number))
    fresh = (np.diff(number[reordered]) != 0) | (np.diff(inside[reordered]) != 0)
    return reordered, np.flatnonzero(np.append(True, fresh))


def sort_blocks_by_age(row_numbers: Ints, starts: Ints, ranks: list[Ints], is_adding: Bools) -> Ints:
    """Return the rows of the blocks, each block from the oldest row to the newest.

    `ranks` are most significant first; then retractions come before additions, then row order decides. Nothing is
    sorted if the rows are in that order already.
    """
    if not ranks or is_age_ascending(row_numbers, starts, ranks, is_adding):
        return row_numbers
    number = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(row_numbers)))
    moved = np.lexsort((is_adding[row_numbers], *(rank[row_numbers] for rank in reversed(ranks)), number))
    return row_numbers[moved]


def is_age_ascending(row_numbers: Ints, starts: Ints, ranks: list[Ints], is_adding: Bools) -> bool:
    """Return whether no row in a block is older than the row before it."""
    older = np.zeros(max(len(row_numbers) - 1, 0), bool)
    tied = np.ones(len(older), bool)
    for rank in ranks:
        placed = rank[row_numbers]
        older |= tied & (placed[1:] < placed[:-1])
        tied &= placed[1:] == placed[:-1]
    if tied.any():
        placed_adds = is_adding[row_numbers]
        older |= tied & placed_adds[:-1] & ~placed_adds[1:]
    older[starts[1:] - 1] = False
    return not older.any()
