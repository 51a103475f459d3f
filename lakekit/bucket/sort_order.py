"""Sort orders for append tables, by columns or along a space-filling curve: reads skip files.

    rows as they lie   9 2 7 | 1 8 | 5 3 6 4        a `SortOrder`        1 2 3 | 4 5 6 | 7 8 9

    z-order     a  1 0 1 …        bits of the columns in turn             hilbert    the position of the point (a, b)
                b  0 1 1 …  ─▶  1 0 0 1 1 1 …                                        on a curve that fills the space and
                                                                                     never jumps, 63 bits a column

Rows that do not fit into `lakekit.merge-memory` are split into ranges between quantiles of a sample of their keys, and
read once for each range. Rows of one key stay together, in their order. Keys of curves are compared as unsigned bytes.
They are those of the reference, with its oddities: decimals are left-aligned in z-order keys, negative numbers follow
positive ones on the Hilbert curve. Only from eight columns on Hilbert keys are longer than there, where they are cut to
63 bytes.

Source: ENGINE.md 8.6; `RangeShuffle`, `OrderSorter`, `ZorderSorter`, `HibertSorter`, `CoreOptions.clusteringStrategy`,
`ZIndexer`, `ZOrderByteUtils`, `HilbertIndexer`, `ConvertBinaryUtil`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.bucket import merge_read
from lakekit.columns import CURVE, col, collect_batches
from lakekit.data_file.reader import translate_polars_errors
from lakekit.errors import InvalidOption
from lakekit.lsm import numpy_columns
from lakekit.lsm.numpy_columns import Bools, Ints, physical_values, to_bools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.types import Field

    Bytes = NDArray[np.uint8]
    Words = NDArray[np.uint64]


PRIMITIVE_BYTES = 8
"""The bytes of a number in a z-order key."""
HILBERT_BITS = 63
_HILBERT_BYTES = 63
_MAX_INT64 = 2**63 - 1
_INTERLEAVED_ROWS = 1 << 16
"""The rows whose bits are interleaved at once."""


def z_order_keys(columns: pl.DataFrame, text_bytes: int = 8) -> pl.Series:
    """Return the z-order key of each row, Binary.

    A column takes 8 bytes of it, a text or binary its first `text_bytes`; a null is all zero.
    """
    return _map_blocks(
        columns, lambda block: _interleave_bits([_z_bytes(column, text_bytes) for column in block.get_columns()])
    )


def hilbert_keys(columns: pl.DataFrame) -> pl.Series:
    """Return each row's position on the Hilbert curve through two or more columns, Binary; null is the greatest."""
    return _map_blocks(
        columns, lambda block: _hilbert_distances([_hilbert_coordinates(column) for column in block.get_columns()])
    )


def _map_blocks(columns: pl.DataFrame, encode: Callable[[pl.DataFrame], Bytes]) -> pl.Series:
    if not columns.height:
        return pl.Series("key", [], pl.Binary)
    encoded = [encode(columns.slice(start, _INTERLEAVED_ROWS)) for start in range(0, columns.height, _INTERLEAVED_ROWS)]
    data = np.ascontiguousarray(np.concatenate(encoded))
    count, width = data.shape
    offsets = np.arange(count + 1, dtype=np.int64) * width
    array = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    return pl.Series("key", array, pl.Binary)


# ---- z-order ---------------------------------------------------------------------------------------------------------


def _z_bytes(column: pl.Series, text_bytes: int) -> Bytes:
    """Return the bytes of each value, a row each."""
    if column.dtype in (pl.String, pl.Binary):
        return _first_bytes(column, text_bytes)
    if isinstance(column.dtype, pl.Decimal):
        data = _align_left(_unscaled_bytes(column))
    elif column.dtype == pl.Boolean:
        data = np.zeros((len(column), PRIMITIVE_BYTES), np.uint8)
        data[:, 0] = np.where(to_bools(column.fill_null(value=False)), 129, 0)  # -127 in the reference
    elif column.dtype.is_float():
        bits = _double_bits(column)
        data = _big_endian(bits ^ (bits >> 31 | np.int64(-(2**63))))  # 31, not 63: as the reference shifts
    else:
        data = _big_endian(_to_int64(column) ^ np.int64(-(2**63)))
    data[_null_mask(column)] = 0
    return data


def _interleave_bits(parts: list[Bytes]) -> Bytes:
    """Return the highest bits of all columns, then the next ones; a column without further bytes is skipped."""
    interleaved = []
    for at in range(max(part.shape[1] for part in parts)):
        having = np.stack([part[:, at] for part in parts if part.shape[1] > at], axis=1)
        bits = np.unpackbits(having[:, :, None], axis=2)
        interleaved.append(np.packbits(bits.transpose(0, 2, 1).reshape(len(having), -1), axis=1))
    return np.concatenate(interleaved, axis=1)


def _align_left(numbers: Bytes) -> Bytes:
    """Return the first 8 of the fewest bytes that hold each number, padded with zeros behind."""
    negative = numbers[:, :1] >> 7
    fill = negative * np.uint8(255)
    # a leading byte is redundant if it repeats the sign and the next byte has that sign
    idle = np.logical_and.accumulate((numbers[:, :-1] == fill) & (numbers[:, 1:] >> 7 == negative), axis=1)
    start = idle.sum(axis=1)
    padded = np.concatenate([numbers, np.zeros((len(numbers), PRIMITIVE_BYTES), np.uint8)], axis=1)
    aligned: Bytes = np.take_along_axis(padded, start[:, None] + np.arange(PRIMITIVE_BYTES), axis=1)
    return aligned


# ---- hilbert ---------------------------------------------------------------------------------------------------------


def _hilbert_coordinates(column: pl.Series) -> Words:
    """Return a number of 63 bits for each value."""
    if column.dtype in (pl.String, pl.Binary):
        coordinates = _align_right(column)
    elif isinstance(column.dtype, pl.Decimal):
        integers = pa.array(pc.trunc(column.to_arrow()).cast(pa.decimal128(38, 0)))
        coordinates = _rows_of_16_bytes(integers)[:, 8:].copy().view(">i8")[:, 0].astype(np.int64)
    elif column.dtype == pl.Boolean:
        coordinates = np.where(to_bools(column.fill_null(value=False)), np.int64(_MAX_INT64), np.int64(0))
    elif column.dtype.is_float():
        coordinates = _double_bits(column)
    else:
        coordinates = _to_int64(column)
        if column.dtype == pl.Int8:
            coordinates &= 255
    coordinates[_null_mask(column)] = _MAX_INT64
    return coordinates.view(np.uint64) & np.uint64(_MAX_INT64)


def _hilbert_distances(point: list[Words]) -> Bytes:
    """Return positions along the curve, big-endian (J. Skilling, "Programming the Hilbert curve", 2004)."""
    first, last, bit_one = point[0], point[-1], np.uint64(1)
    for shift in range(HILBERT_BITS - 1, 0, -1):
        bit, below = np.uint64(shift), (bit_one << np.uint64(shift)) - bit_one
        for axis in point:
            inverts = np.uint64(0) - (axis >> bit & bit_one)
            swapped = (first ^ axis) & below & ~inverts
            first ^= inverts & below | swapped
            if axis is not first:
                axis ^= swapped  # in place  # noqa: PLW2901 # in place
    for before, axis in pairwise(point):
        axis ^= before  # in place  # noqa: PLW2901 # in place
    flips = np.zeros_like(last)
    for shift in range(HILBERT_BITS - 1, 0, -1):
        flips ^= (np.uint64(0) - (last >> np.uint64(shift) & bit_one)) & ((bit_one << np.uint64(shift)) - bit_one)
    count, size = len(first), HILBERT_BITS * len(point)
    bytes_ = np.stack([(axis ^ flips).astype(">u8").view(np.uint8).reshape(count, 8) for axis in point], axis=1)
    bits = np.unpackbits(bytes_, axis=2)[:, :, 1:].transpose(0, 2, 1).reshape(count, size)
    width = max(_HILBERT_BYTES, -(-size // 8))
    return np.packbits(np.concatenate([np.zeros((count, width * 8 - size), np.uint8), bits], axis=1), axis=1)


def _align_right(column: pl.Series) -> Ints:
    """Return the first 8 bytes of each value as a number."""
    left, sizes = _first_bytes(column, 8), _byte_lengths(column)
    prefixes = left.view(">u8")[:, 0].astype(np.uint64)
    return np.where(
        sizes == 0, np.uint64(0), prefixes >> (np.uint64(8) * (8 - np.clip(sizes, 1, 8)).astype(np.uint64))
    ).view(np.int64)


# ---- values ----------------------------------------------------------------------------------------------------------


def _to_int64(column: pl.Series) -> Ints:
    """Return the values as integers: numbers, days, milliseconds of the day or since 1970."""
    integers = physical_values(column).astype(np.int64)
    if isinstance(column.dtype, pl.Datetime):
        return integers // {"ms": 1, "us": 1000, "ns": 1_000_000}[column.dtype.time_unit]
    return integers // 1_000_000 if column.dtype == pl.Time else integers


def _double_bits(column: pl.Series) -> Ints:
    """Return the bits of doubles as `Double.doubleToLongBits` does: every NaN has the same bits."""
    wide = physical_values(column).astype(np.float64)
    wide[np.isnan(wide)] = np.nan
    return wide.view(np.int64)


def _big_endian(key_numbers: Ints) -> Bytes:
    return key_numbers.astype(">i8").view(np.uint8).reshape(len(key_numbers), PRIMITIVE_BYTES).copy()


def _unscaled_bytes(column: pl.Series) -> Bytes:
    """Return the unscaled values of decimals, 16 bytes each, big-endian."""
    return _rows_of_16_bytes(column.to_arrow())


def _rows_of_16_bytes(array: pa.Array[Any]) -> Bytes:
    slots = np.frombuffer(array.buffers()[1], np.uint8, 16 * len(array), 16 * array.offset)
    return slots.reshape(len(array), 16)[:, ::-1]


def _byte_lengths(column: pl.Series) -> Ints:
    counted = column.str.len_bytes() if column.dtype == pl.String else column.bin.size()
    return counted.fill_null(0).to_numpy().astype(np.int64)


def _first_bytes(column: pl.Series, width: int) -> Bytes:
    """Return the first bytes of texts (UTF-8) or binaries, padded with zeros."""
    array = column.cast(pl.Binary).bin.head(width).fill_null(b"").to_arrow(compat_level=pl.CompatLevel.oldest())
    first_bytes = np.zeros((len(array), width), np.uint8)
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    sizes = np.diff(starts)
    bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    for at in range(width):
        rows = np.flatnonzero(sizes > at)
        first_bytes[rows, at] = bytes_[starts[rows] + at]
    return first_bytes


def _null_mask(column: pl.Series) -> Bools:
    return to_bools(column.is_null())


# ---- sort order ------------------------------------------------------------


Strategy = Literal["order", "zorder", "hilbert"]
"""By the columns one after another; by their bits interleaved; along a Hilbert curve through all of them."""
STRATEGIES = ("order", "zorder", "hilbert")
CLUSTERING_COLUMNS_OPTION = "clustering.columns"

_UNORDERED_ROOTS = frozenset(("ARRAY", "MAP", "MULTISET", "ROW", "VARIANT", "VECTOR", "BLOB"))
_MAX_ZORDER_COLUMNS = 4
"""With `auto`, up to this many columns are in a z-order; more follow a Hilbert curve."""
_SAMPLED_KEYS_PER_RANGE = 1000
"""How many keys are sampled for each range."""
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    """The order that rows are sorted into; `text_bytes` is how many bytes of a text enter a z-order key."""

    fields: tuple[Field, ...]
    strategy: Strategy = "order"
    text_bytes: int = 8

    def sort_keys(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the columns whose order is the order of the rows, nulls first."""
        columns = frame.select(col(field.name) for field in self.fields)
        if self.strategy == "order":
            return columns
        return (
            z_order_keys(columns, self.text_bytes) if self.strategy == "zorder" else hilbert_keys(columns)
        ).to_frame()

    @property
    def sort_column_names(self) -> tuple[str, ...]:
        """Return the names of the columns that `with_curve_position` rows are to be sorted by."""
        return tuple(field.name for field in self.fields) if self.strategy == "order" else (CURVE,)

    def with_curve_position(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with their position on the curve as a column, if the order follows one."""
        return frame if self.strategy == "order" else frame.with_columns(self.sort_keys(frame).to_series().alias(CURVE))


def make_sort_order(
    ctx: TableContext,
    names: Sequence[str],
    strategy: str,
    *,
    option_key: str = "order_by",
    strategy_key: str = "strategy",
) -> SortOrder:
    """Return the sort order by some columns. Raises `InvalidOption` naming `option_key` or `strategy_key`."""
    if strategy not in STRATEGIES:
        raise InvalidOption(
            f"there is no strategy {strategy!r}; there are {', '.join(STRATEGIES)}",
            key=strategy_key,
            value=str(strategy),
        )
    fields = {field.name: field for field in ctx.schema.fields}
    if not names:
        raise InvalidOption(
            f"{option_key} names no column; {ctx.name} has {', '.join(fields)}", key=option_key, value=""
        )
    for at, name in enumerate(names):
        if name not in fields:
            raise InvalidOption(
                f"{ctx.name} has no column {name!r} to sort by; it has {', '.join(fields)}",
                key=option_key,
                value=str(name),
            )
        if name in names[:at]:
            raise InvalidOption(f"{option_key} names column {name!r} twice", key=option_key, value=name)
        if fields[name].type.root in _UNORDERED_ROOTS:
            raise InvalidOption(
                f"column {name!r} of {ctx.name} is of type {fields[name].type}, which has no order to sort by",
                key=option_key,
                value=name,
            )
    if strategy == "hilbert" and len(names) == 1:
        raise InvalidOption(
            f"Hilbert sort needs at least two columns, and {option_key} names {names[0]!r} alone",
            key=option_key,
            value=names[0],
        )
    text_bytes = ctx.options.zorder_var_length_contribution
    if text_bytes < 1:
        raise InvalidOption(
            "zorder.var-length-contribution must be at least 1",
            key="zorder.var-length-contribution",
            value=str(text_bytes),
        )
    return SortOrder(
        fields=tuple(fields[name] for name in names), strategy=cast("Strategy", strategy), text_bytes=text_bytes
    )


def clustering_order(ctx: TableContext) -> SortOrder:
    """Return the order of `clustering.columns` and `clustering.strategy`.

    Raises:
        InvalidOption: they are invalid, or name no column.
    """
    options = ctx.options
    names, strategy = options.clustering_columns, options.clustering_strategy.strip().lower()
    if strategy == "auto":
        strategy = "order" if len(names) == 1 else "zorder" if len(names) <= _MAX_ZORDER_COLUMNS else "hilbert"
    return make_sort_order(
        ctx, names, strategy, option_key=CLUSTERING_COLUMNS_OPTION, strategy_key="clustering.strategy"
    )


def write_sort_order(ctx: TableContext) -> SortOrder | None:
    """Return the order of the rows of one commit, or None if the options ask for none.

    The order is that of `clustering.columns` alone, or of incremental clustering with `optimize-write`.
    """
    options = ctx.options
    is_on = options.clustering_columns and (
        not options.clustering_incremental or options.clustering_incremental_optimize_write
    )
    return clustering_order(ctx) if is_on and ctx.kind == "append" and not ctx.has_buckets else None


def sort_indices(columns: pl.DataFrame) -> NDArray[np.int64]:
    """Return the row indices in the order of the keys; equal keys stay in their order."""
    return numpy_columns.key_order(columns, columns.columns)


def assign_ranges(keys: pl.DataFrame, cuts: pl.DataFrame) -> NDArray[np.int64]:
    """Return for each key how many of the cuts (ascending keys) it is not less than."""
    placed = sort_indices(pl.concat([cuts, keys]))
    range_numbers = np.empty(len(placed), np.int64)
    range_numbers[placed] = np.cumsum(placed < cuts.height)
    return range_numbers[cuts.height :]


def count_sort_pieces(ctx: TableContext, row_count: int, size_bytes: int) -> int:
    """Return into how many pieces the rows must be split to fit the merge memory.

    Rows are held twice: as they were read, and sorted.
    """
    decoded = size_bytes * merge_read.DECODED_RATIO
    limit = max(1, ctx.options.lakekit_merge_memory_bytes)
    return -(-max(decoded, 2 * row_count * merge_read.estimate_row_bytes(ctx.schema.fields)) // limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class SortInput:
    """Rows that are to be sorted.

    `scan` reads the given columns of them; it may be called again, and gives the same order. `row_count` and
    `size_bytes` are about how many rows there are and how big their files are. `paths` are the files to name if reading
    fails.
    """

    ctx: TableContext
    order: SortOrder
    scan: Callable[[Sequence[Field]], pl.LazyFrame]
    row_count: int
    size_bytes: int
    paths: list[str] = field(default_factory=list)

    @property
    def piece_count(self) -> int:
        """Return into how many pieces the rows must be split; see `count_sort_pieces`."""
        return count_sort_pieces(self.ctx, self.row_count, self.size_bytes)

    def iter_sorted(self) -> Iterator[pl.DataFrame]:
        """Yield all rows in order, a range of keys at a time."""
        cuts = self._sample_cuts()
        for number in range(cuts.height + 1):
            parts = list(self._read_range(cuts, number))
            yield pl.concat([rows for rows, _ in parts], rechunk=True)[
                sort_indices(pl.concat([places for _, places in parts], rechunk=True))
            ]

    def _read_range(self, cuts: pl.DataFrame, range_index: int) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """Yield the rows of a range in the order of the scan, with their keys."""
        for batch in self._scan_batches():
            places = self.order.sort_keys(batch)
            if cuts.height:
                inside = pl.Series(assign_ranges(places, cuts) == range_index)
                batch, places = batch.filter(inside), places.filter(inside)  # noqa: PLW2901
            yield batch, places

    def _sample_cuts(self) -> pl.DataFrame:
        """Return the keys that split the rows into ranges that fit into memory; none if all rows fit."""
        pieces = self.piece_count
        if pieces <= 1:
            return self.order.sort_keys(pl.DataFrame(schema=self.scan(self.order.fields).collect_schema()))
        every = max(1, self.row_count // (pieces * _SAMPLED_KEYS_PER_RANGE))
        with translate_polars_errors(self.ctx, self.paths):
            sample = self.order.sort_keys(self.scan(self.order.fields).gather_every(every).collect())
        placed = sample[sort_indices(sample)]
        return (
            placed[np.unique(np.arange(1, pieces) * placed.height // pieces)].unique(maintain_order=True)
            if placed.height
            else placed
        )

    def _scan_batches(self) -> Iterator[pl.DataFrame]:
        scan = self.scan(self.ctx.schema.fields)
        yield scan.clear().collect()
        with translate_polars_errors(self.ctx, self.paths):
            yield from collect_batches(scan, chunk_size=_BATCH_ROWS)
