"""Statistics of the rows of a table, stored with a snapshot of their own: `t.analyze()`.

    rows of the newest snapshot ─▶ statistics/stat-<uuid>-0 ─▶ snapshot ANALYZE: nothing added, nothing removed

    hash of a value    1 1 0 … 0 0 0 1 0 1 1      the last 12 bits: its register; the leading zeros: its rank
    register           the greatest rank of any value of it, from 1; 0: no value

Later snapshots carry the file on while the schema stays the same. Rows are counted after merging, in batches; parts of
the table can be summarized independently and combined. `t.explain()` estimates row counts from the statistics, Spark
gets sizes from them (`read.explain`), planners of other engines use them too; `t.system("statistics")` shows them.

Distinct values are estimated by a HyperLogLog sketch with 4096 registers, off by 1.6 % (standard error); few values are
counted by the registers that are empty, almost exactly. Polars counts by such a sketch too, but does not expose it.

Source: ENGINE.md 5.12, FORMAT.md 3.6, `StatsFileHandler`, `FileStoreCommitImpl.commitStatistics`; Flajolet, Fusy,
Gandouet, Meunier, HyperLogLog (2007).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from lakekit.columns import col, collect_batches, cols
from lakekit.commit import committer, try_commit
from lakekit.commit.changes import EMPTY_DELTA, CommitChanges
from lakekit.commit.manifest_writer import UncommittedFiles
from lakekit.commit.try_commit import CommitStep
from lakekit.errors import CommitStateUnknown, InvalidOption, LakekitError
from lakekit.format.polars_types import is_printable, polars_schema
from lakekit.metadata import snapshots, table_context
from lakekit.model.snapshot import ColumnStatistics, Statistics, fixed_length_bytes
from lakekit.options.option import FrozenDict
from lakekit.read import planner, polars_pushdown, table_scan
from lakekit.storage.object_store_requests import typed_refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.commit.changes import Commit
    from lakekit.metadata.table_context import TableContext
    from lakekit.read.table_scan import TableScan
    from lakekit.types import Field

    Look = Callable[[TableScan, Sequence[Field]], Sequence[pl.DataFrame]]


_REGISTER_COUNT, _RANK_COUNT = 4096, 64
_REGISTER_MASK = _REGISTER_COUNT - 1
_LINEAR_COUNTING_LIMIT = 2.5 * _REGISTER_COUNT


@dataclass(frozen=True, slots=True)
class DistinctSketch:
    """A growing sketch of one column: a flag for each register and rank that a value had."""

    register_bits: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(_REGISTER_COUNT * _RANK_COUNT, np.bool_))

    def add(self, values: pl.Series) -> None:
        """Add some values; nulls are ignored."""
        hashed = pl.Series("h", values.drop_nulls().hash(seed=0), pl.UInt64)
        positions = hashed.to_frame().select(
            (pl.col("h") & _REGISTER_MASK).cast(pl.UInt32) * _RANK_COUNT
            + (pl.col("h") | _REGISTER_MASK).bitwise_leading_zeros()
        )
        self.register_bits[positions.to_series().to_numpy()] = True

    def to_bytes(self) -> bytes:
        """Return the registers, a byte each."""
        shown = self.register_bits.reshape(_REGISTER_COUNT, _RANK_COUNT)[:, ::-1]
        ranks = np.where(shown.any(axis=1), _RANK_COUNT - shown.argmax(axis=1), 0)
        return ranks.astype(np.uint8).tobytes()


def estimate_distinct(sketches: list[bytes]) -> int:
    """Return the estimated number of distinct values over all of some sketches."""
    ranks = np.max(np.frombuffer(b"".join(sketches), np.uint8).reshape(len(sketches), _REGISTER_COUNT), axis=0)
    estimate = (
        0.7213 / (1 + 1.079 / _REGISTER_COUNT) * _REGISTER_COUNT**2 / float(np.exp2(-ranks.astype(np.float64)).sum())
    )
    empty = int((ranks == 0).sum())
    return round(
        _REGISTER_COUNT * log(_REGISTER_COUNT / empty) if empty and estimate <= _LINEAR_COUNTING_LIMIT else estimate
    )


# ---- analyze ------------------------------------------------------------


_TEXT_ROOTS, _BYTE_ROOTS = ("CHAR", "VARCHAR"), ("BINARY", "VARBINARY")
_SECONDS_LENGTH = len("2024-01-01 00:00:00")
_SKETCH_DTYPES = {"DECIMAL": pl.String(), "TIME": pl.Int64(), "DATE": pl.Int64()}
"""What values of some types are counted as."""
_BATCH_ROWS = 1 << 18
_MAX_PARTIAL_FRAMES = 256


def analyze_table(ctx: TableContext, columns: Sequence[str] | None, summarize: Look | None = None) -> Commit:
    """Collect statistics of the newest snapshot and commit them; without a snapshot nothing is made.

    `columns`: None for every column whose type has statistics. `summarize`: summarizes the rows in parts; None: this
    process does. The statistics are the same, whatever the parts.
    """
    table_context.check_writable(ctx)
    fields = _fields_to_analyze(ctx, columns)
    latest = snapshots.latest(ctx)
    job = try_commit.request_with_new_user(ctx, latest)
    if latest is None:
        return committer.build_result(job, [])
    summary = _merge_parts(
        ctx, fields, (summarize or _summarize_scan)(table_scan.scan_snapshot(ctx, latest.id), fields)
    )
    stored = planner.load_live_entries(ctx, latest)
    stored_rows, stored_bytes = (int(stored.integers(name).sum()) for name in ("row_count", "file_size"))
    statistics = Statistics(
        snapshot_id=latest.id,
        schema_id=ctx.schema.id,
        merged_record_count=summary["rows"],
        merged_record_size_bytes=stored_bytes * summary["rows"] // stored_rows if stored_rows else 0,
        columns=FrozenDict({field.name: _to_column_statistics(field, summary) for field in fields}),
    )
    name = f"stat-{ctx.runtime.new_id()}-0"
    ctx.storage.put(ctx.paths.statistics(name), statistics.to_json())
    step = CommitStep(changes=CommitChanges(kind="ANALYZE", delta=EMPTY_DELTA, changelog=EMPTY_DELTA, statistics=name))
    try:
        return committer.build_result(job, [try_commit.try_commit(job, step, UncommittedFiles(ctx), latest)])
    except CommitStateUnknown:
        raise
    except BaseException:
        with suppress(LakekitError):  # what cannot be deleted is left to the cleaning of orphans
            ctx.storage.delete([ctx.paths.statistics(name)])
        raise


def _fields_to_analyze(ctx: TableContext, columns: Sequence[str] | None) -> list[Field]:
    """Return the fields of the requested columns.

    Raises: `ColumnNotFound`, and `InvalidOption` for a column whose type has no statistics.
    """
    if columns is None:
        return [column for column in ctx.schema.fields if _has_statistics(column)]
    names = None if isinstance(columns, str) or not isinstance(columns, Iterable) else list(columns)
    if names is None or not all(isinstance(name, str) for name in names):
        msg = (
            f"columns= takes a list of names such as {[column.name for column in ctx.schema.fields[:2]]}, not "
            f"{ascii(columns)[:100]}"
        )
        raise TypeError(msg)
    fields = [ctx.schema.field(name) for name in dict.fromkeys(names)]
    for column in fields:
        if not _has_statistics(column):
            msg = f"column {column.name!r} of {ctx.name} is {column.type}, which has no statistics: leave it out"
            raise InvalidOption(msg, key="columns", value=column.name)
    return fields


def _has_statistics(field: Field) -> bool:
    return bool(fixed_length_bytes(field.type)) or field.type.root in (*_TEXT_ROOTS, *_BYTE_ROOTS)


def _has_bounds(field: Field) -> bool:
    return field.type.root not in (*_BYTE_ROOTS, "TIME")


# ---- rows ----------------------------------------------------------------------------------------


def _summarize_scan(source: TableScan, fields: Sequence[Field]) -> list[pl.DataFrame]:
    """Summarize all rows in this process."""
    names = read_names(source, fields)
    with table_scan.translate_read_errors(table_scan.plan_reader(source)), typed_refusals():
        return [
            summarize_frames(
                source.ctx,
                fields,
                collect_batches(
                    polars_pushdown.scan_lazily(source).select(cols(names)),
                    chunk_size=_BATCH_ROWS,
                    maintain_order=False,
                ),
            )
        ]


def read_names(source: TableScan, fields: Sequence[Field]) -> list[str]:
    """Return the names of the columns to read: at least one, so that rows are counted."""
    return [field.name for field in fields] or [source.fields[0].name]


def summarize_frames(ctx: TableContext, fields: Sequence[Field], frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return one row that summarizes some frames: their row count, and aggregates of each column.

    The aggregates can be combined with those of other rows (`_merge_parts`).
    """
    sketches = {column.name: DistinctSketch() for column in fields}
    aggregates = [question for column in fields for question in _column_aggregates(column)]
    parts = [_empty_frame(ctx, fields).select(pl.len().cast(pl.Int64).alias("rows"), *aggregates)]
    for frame in frames:
        parts.append(frame.select(pl.len().cast(pl.Int64).alias("rows"), *aggregates))
        for column in fields:
            sketches[column.name].add(
                frame.get_column(column.name).cast(_SKETCH_DTYPES.get(column.type.root, frame.schema[column.name]))
            )
        if len(parts) == _MAX_PARTIAL_FRAMES:
            parts = [_aggregate_parts(parts)]
    return _aggregate_parts(parts).with_columns(
        pl.lit(sketch.to_bytes()).alias(f"distinct {name}") for name, sketch in sketches.items()
    )


def _empty_frame(ctx: TableContext, fields: Sequence[Field]) -> pl.DataFrame:
    return pl.DataFrame(schema=polars_schema(fields, timestamp_unit=ctx.options.lakekit_timestamp_unit))


def _column_aggregates(field: Field) -> list[pl.Expr]:
    column = col(field.name)
    aggregates = [column.null_count().cast(pl.Int64).alias(f"nulls {field.name}")]
    if _has_bounds(field):
        aggregates += [column.min().alias(f"min {field.name}"), column.max().alias(f"max {field.name}")]
    if field.type.root in (*_TEXT_ROOTS, *_BYTE_ROOTS):
        sizes = (column.str.len_bytes() if field.type.root in _TEXT_ROOTS else column.bin.size()).cast(pl.Int64)
        aggregates += [sizes.sum().alias(f"bytes {field.name}"), sizes.max().alias(f"longest {field.name}")]
    return aggregates


_COMBINE_BY = {
    "rows": pl.Expr.sum,
    "nulls": pl.Expr.sum,
    "bytes": pl.Expr.sum,
    "min": pl.Expr.min,
    "max": pl.Expr.max,
    "longest": pl.Expr.max,
}
"""How answers of parts become that of the whole, by the first word of their names."""


def _aggregate_parts(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    rows = pl.concat(parts)
    return rows.select(
        _COMBINE_BY[name.partition(" ")[0]](col(name)) for name in rows.columns if not name.startswith("distinct ")
    )


def _merge_parts(ctx: TableContext, fields: Sequence[Field], parts: Sequence[pl.DataFrame]) -> Mapping[str, Any]:
    """Combine the summaries of all parts into one row, by column name."""
    every = [*parts, summarize_frames(ctx, fields, ())]
    bounds = [
        _bound_to_text(field, col(f"{word} {field.name}"))
        for field in fields
        if _has_bounds(field)
        for word in ("min", "max")
    ]
    summary = _aggregate_parts(every).with_columns(bounds).row(0, named=True)
    return {
        **summary,
        **{
            f"distinct {field.name}": estimate_distinct([part.item(0, f"distinct {field.name}") for part in every])
            for field in fields
        },
    }


def _bound_to_text(field: Field, value: pl.Expr) -> pl.Expr:
    """Return a bound as the text that the statistics file holds."""
    match field.type.root:
        case "DATE":
            return value.cast(pl.Int32).cast(pl.String)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            digits = field.type.precision or 0
            value = pl.when(is_printable(value)).then(value)  # no text holds the others: as if nothing were known
            return value.dt.strftime("%Y-%m-%d %H:%M:%S%.9f").str.head(_SECONDS_LENGTH + (1 + digits if digits else 0))
    return value.cast(pl.String)


def _to_column_statistics(field: Field, summary: Mapping[str, Any]) -> ColumnStatistics:
    nulls, average, longest = (
        summary[f"nulls {field.name}"],
        fixed_length_bytes(field.type),
        fixed_length_bytes(field.type),
    )
    if field.type.root in (*_TEXT_ROOTS, *_BYTE_ROOTS):
        values = max(1, summary["rows"] - nulls)
        average, longest = -(-summary[f"bytes {field.name}"] // values), summary[f"longest {field.name}"] or 0
    return ColumnStatistics(
        column_id=field.id,
        distinct_count=summary[f"distinct {field.name}"],
        min=summary.get(f"min {field.name}"),
        max=summary.get(f"max {field.name}"),
        null_count=nulls,
        avg_length_bytes=average,
        max_length_bytes=longest,
    )
