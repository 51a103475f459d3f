"""Sort orders for append tables, by columns or along a space-filling curve, so that reads can skip files.

    rows as they lie   9 2 7 | 1 8 | 5 3 6 4        an `SortOrder`        1 2 3 | 4 5 6 | 7 8 9

Rows that do not fit into `lakekit.merge-memory` are split into ranges between quantiles of a sample of their keys, and
read once for each range. Rows of one key stay together, in their order.

Source: ENGINE.md 8.6; `RangeShuffle`, `OrderSorter`, `ZorderSorter`, `HibertSorter`, `CoreOptions.clusteringStrategy`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import polars as pl

from lakekit.bucket import merge_read
from lakekit.columns import CURVE, col
from lakekit.data_file.reader import translate_polars_errors
from lakekit.errors import InvalidOption
from lakekit.lsm import key_codes, space_filling_curves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.types import Field

Strategy = Literal["order", "zorder", "hilbert"]
"""By the columns one after another; by their bits interleaved; along a Hilbert curve through all of them."""
STRATEGIES = ("order", "zorder", "hilbert")
CLUSTERING = "clustering.columns"

_UNORDERED_ROOTS = frozenset(("ARRAY", "MAP", "MULTISET", "ROW", "VARIANT", "VECTOR", "BLOB"))
_MOST_ZORDER = 4
"""With `auto`, up to this many columns are in a z-order; more follow a Hilbert curve."""
_PER_RANGE = 1000
"""How many keys are sampled for each range."""
_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    """The order that rows are sorted into; `text_bytes` is how many bytes of a text enter a z-order key."""

    fields: tuple[Field, ...]
    strategy: Strategy = "order"
    text_bytes: int = 8

    def keys(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the columns whose order is the order of the rows, nulls first."""
        columns = frame.select(col(field.name) for field in self.fields)
        if self.strategy == "order":
            return columns
        return (
            space_filling_curves.z_order(columns, self.text_bytes)
            if self.strategy == "zorder"
            else space_filling_curves.hilbert(columns)
        ).to_frame()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns that `placed` rows are to be sorted by."""
        return tuple(field.name for field in self.fields) if self.strategy == "order" else (CURVE,)

    def placed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with their position on the curve as a column, if the order follows one."""
        return frame if self.strategy == "order" else frame.with_columns(self.keys(frame).to_series().alias(CURVE))


def make_sort_order(
    ctx: TableContext, names: Sequence[str], strategy: str, *, key: str = "order_by", strategy_key: str = "strategy"
) -> SortOrder:
    """Return the sort order by some columns. Raises `InvalidOption` naming `key` or `strategy_key`."""
    if strategy not in STRATEGIES:
        raise InvalidOption(
            f"there is no strategy {strategy!r}; there are {', '.join(STRATEGIES)}",
            key=strategy_key,
            value=str(strategy),
        )
    fields = {field.name: field for field in ctx.schema.fields}
    if not names:
        raise InvalidOption(f"{key} names no column; {ctx.name} has {', '.join(fields)}", key=key, value="")
    for at, name in enumerate(names):
        if name not in fields:
            raise InvalidOption(
                f"{ctx.name} has no column {name!r} to sort by; it has {', '.join(fields)}", key=key, value=str(name)
            )
        if name in names[:at]:
            raise InvalidOption(f"{key} names column {name!r} twice", key=key, value=name)
        if fields[name].type.root in _UNORDERED_ROOTS:
            raise InvalidOption(
                f"column {name!r} of {ctx.name} is of type {fields[name].type}, which has no order to sort by",
                key=key,
                value=name,
            )
    if strategy == "hilbert" and len(names) == 1:
        raise InvalidOption(
            f"Hilbert sort needs at least two columns, and {key} names {names[0]!r} alone", key=key, value=names[0]
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
        strategy = "order" if len(names) == 1 else "zorder" if len(names) <= _MOST_ZORDER else "hilbert"
    return make_sort_order(ctx, names, strategy, key=CLUSTERING, strategy_key="clustering.strategy")


def write_order(ctx: TableContext) -> SortOrder | None:
    """Return the order of the rows of one commit, or None if the options ask for none.

    The order is that of `clustering.columns` alone, or of incremental clustering with `optimize-write`.
    """
    options = ctx.options
    is_on = options.clustering_columns and (
        not options.clustering_incremental or options.clustering_incremental_optimize_write
    )
    return clustering_order(ctx) if is_on and ctx.kind == "append" and not ctx.has_buckets else None


def order(columns: pl.DataFrame) -> NDArray[np.int64]:
    """Return the row indices in the order of the keys; equal keys stay in their order."""
    return key_codes.order(columns, columns.columns)


def ranges(keys: pl.DataFrame, cuts: pl.DataFrame) -> NDArray[np.int64]:
    """Return for each key how many of the cuts (ascending keys) it is not less than."""
    placed = order(pl.concat([cuts, keys]))
    range_numbers = np.empty(len(placed), np.int64)
    range_numbers[placed] = np.cumsum(placed < cuts.height)
    return range_numbers[cuts.height :]


def pieces_of(ctx: TableContext, row_count: int, size_bytes: int) -> int:
    """Return into how many pieces the rows must be split to fit the merge memory.

    Rows are held twice: as they were read, and sorted.
    """
    decoded = size_bytes * merge_read.DECODED_RATIO
    limit = max(1, ctx.options.lakekit_merge_memory_bytes)
    return -(-max(decoded, 2 * row_count * merge_read.row_bytes(ctx.schema.fields)) // limit)


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
    def pieces(self) -> int:
        """Return into how many pieces the rows must be split; see `pieces_of`."""
        return pieces_of(self.ctx, self.row_count, self.size_bytes)

    def in_order(self) -> Iterator[pl.DataFrame]:
        """Yield all rows in order, a range of keys at a time."""
        cuts = self._cuts()
        for number in range(cuts.height + 1):
            parts = list(self._inside(cuts, number))
            yield pl.concat([rows for rows, _ in parts], rechunk=True)[
                order(pl.concat([places for _, places in parts], rechunk=True))
            ]

    def _inside(self, cuts: pl.DataFrame, number: int) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """Yield the rows of a range in the order of the scan, with their keys."""
        for batch in self._batches():
            places = self.order.keys(batch)
            if cuts.height:
                inside = pl.Series(ranges(places, cuts) == number)
                batch, places = batch.filter(inside), places.filter(inside)  # noqa: PLW2901
            yield batch, places

    def _cuts(self) -> pl.DataFrame:
        """Return the keys that split the rows into ranges that fit into memory; none if all rows fit."""
        pieces = self.pieces
        if pieces <= 1:
            return self.order.keys(pl.DataFrame(schema=self.scan(self.order.fields).collect_schema()))
        every = max(1, self.row_count // (pieces * _PER_RANGE))
        with translate_polars_errors(self.ctx, self.paths):
            sample = self.order.keys(self.scan(self.order.fields).gather_every(every).collect())
        placed = sample[order(sample)]
        return (
            placed[np.unique(np.arange(1, pieces) * placed.height // pieces)].unique(maintain_order=True)
            if placed.height
            else placed
        )

    def _batches(self) -> Iterator[pl.DataFrame]:
        scan = self.scan(self.ctx.schema.fields)
        yield scan.clear().collect()
        with translate_polars_errors(self.ctx, self.paths):
            yield from scan.collect_batches(chunk_size=_ROWS, maintain_order=True)
