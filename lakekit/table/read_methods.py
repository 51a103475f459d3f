"""Methods of a table that read: scan, changes, follow, aggregate, explain, views."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from lakekit import plugins
from lakekit.options.option import FrozenDict
from lakekit.read import (
    aggregate_pushdown,
    explain,
    incremental,
    polars_pushdown,
    stream,
    table_scan,
    time_travel,
    user_expressions,
)
from lakekit.read.table_scan import SharedScan, TableCore
from lakekit.storage.object_store_requests import typed_refusals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from lakekit.metadata.table_context import TableContext
    from lakekit.read.explain import Explain
    from lakekit.read.stream import Change


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReadMethods(TableCore):
    """Methods that read rows."""

    def scan(
        self, at: int | str | datetime | None = None, *, raw: bool = False, options: Mapping[str, Any] | None = None
    ) -> pl.LazyFrame:
        """Return the rows of a snapshot as a LazyFrame; without `at`, of the newest one when it runs.

        `at` is a snapshot id, a tag (else digits are a snapshot id, else the text is an ISO time), or a datetime: the
        newest snapshot at or before it, a naive one in local time. `raw=True` gives every stored version with
        `_SEQUENCE_NUMBER`, `_row_kind`, `_level` and `_file`, nothing merged, nothing hidden. `options` are `scan.*`
        options; those that mean changes (`incremental-between`, `scan.mode` latest-delta) give the rows that were added
        or updated to, as SQL does: `changes` shows their kinds and the deletes. Columns are fixed now; nothing is read
        before the frame runs.

        Sizes and footers are checked before a row is read (in an object store reading itself finds out); a damaged page
        inside a Parquet file that needs no merge raises Polars' own error while the frame runs. A frame made before
        `os.fork` must not be collected in the child, where Polars hangs: start processes with spawn, and send it there.

        Raises: `SnapshotNotFound`, `TagNotFound`, `Unsupported` for what lakekit cannot read, `InvalidOption`; the
        frame itself may raise `Corrupt`, `SchemaChanged` and `ValueOutOfRange`. A filter that compares a date or a time
        with a number raises `SchemaMismatch` if Polars passes it to the scan; it does not pass comparisons of two
        columns, which it has cast by then, and expressions that are no filters of rows.
        """
        ctx = self._context_at(at, options)
        if at is not None or raw:
            return polars_pushdown.scan_lazily(table_scan.scan(ctx, at, raw=raw))
        if time_travel.means_changes(ctx):
            return polars_pushdown.scan_lazily(incremental.changes_from_options(ctx, kind_column=None))
        return (
            self._of_newest(ctx) if time_travel.means_newest(ctx) else polars_pushdown.scan_lazily(table_scan.scan(ctx))
        )

    def changes(
        self,
        since: int | str | datetime,
        until: int | str | datetime | None = None,
        *,
        mode: str = "auto",
        kind_column: str = "_row_kind",
        options: Mapping[str, Any] | None = None,
    ) -> pl.LazyFrame:
        """Return the rows that changed after `since` up to and including `until`, their kind first.

        `until` is the newest snapshot when None. `since=0` begins at the beginning, or after what has expired; both
        take ids, tags or times. `mode` is "delta" (rows as they were written), "changelog" (as a changelog producer
        recorded them), "diff" (what is different between the two states, by the files that only one of them has) or
        "auto": the changelog where the table keeps one, else the delta. As in the reference "diff" merges those files
        alone: where rows are parts of rows, have a `sequence.field` or were deleted, it is exact between states that
        are compacted in full.

        Raises: `SnapshotNotFound`, `InvalidOption`.
        """
        return polars_pushdown.scan_lazily(
            incremental.plan_changes(self._with(options), since, until, mode=mode, kind_column=kind_column)
        )

    def follow(
        self,
        start: str | int | datetime | None = None,
        *,
        consumer: str | None = None,
        until: str | int | datetime | None = None,
        poll: float | timedelta | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Iterator[Change]:
        """Yield the table as it grows: one `Change` a snapshot, for ever unless `until` says otherwise.

        First the rows of the state where the stream begins, if `start` has one, then what each snapshot brought: the
        changelog where a changelog producer keeps one, else the rows as they were added (of a key table: every
        version). A key that moved between partitions leaves one before it comes into another. `start` is a `scan.mode`
        for streams ("latest-full", the default; "latest", "compacted-full", "from-timestamp", "from-snapshot",
        "from-snapshot-full", "from-creation-timestamp", "from-file-creation-time", whose positions are `options`), a
        snapshot id to begin with, or a datetime. `until`: "latest" ends where it would wait, a snapshot id after that
        snapshot, a datetime before the first snapshot that is younger. `poll`: seconds, or a timedelta, between looks
        (`continuous.discovery-interval`, 10 s).

        `consumer` names a position kept in the table: it moves with `Change.ack()`, the next stream of that name goes
        on there, whatever `start` says, and expiry keeps the snapshots from it on; both values of `consumer.mode` mean
        that here, where a stream has one reader. A new one that begins with "latest" has its position at once. Columns
        are fixed now, options as new as the snapshots.

        Raises: `InvalidOption` now for what has no stream (partial-update, aggregation and first-row without a
        changelog); `SnapshotNotFound` when the next snapshot expired; `TableNotFound` when the table was dropped;
        `SchemaChanged` when a column is no more what it was, or another table stands in its place.
        """
        return stream.follow_table(self._with(options), start, consumer=consumer, until=until, poll=poll)

    def aggregate(
        self, *aggregates: pl.Expr, where: pl.Expr | str | None = None, at: int | str | datetime | None = None
    ) -> pl.DataFrame:
        """Return the result of `scan(at).filter(where).select(*aggregates)`, from file indexes if possible.

        Files with a bsi index are not decoded then. Supported are sum, min, max, count, null_count and len of columns,
        `pl.all()` and selectors too, and `pl.len()`; of integers, dates, times, timestamps to microseconds and
        decimals; under a `where` (Polars or SQL) of comparisons, sets and null tests that bsi, bitmap and range-bitmap
        indexes or partitions decide. Any other aggregate or condition reads the rows, and so does every file without
        such indexes, or with rows that are merged with others: the answer is always Polars' own.
        `explain(aggregates=…)` says how many files were answered for.

        Raises: `ColumnNotFound`, `SchemaMismatch` for `where`; Polars' errors for aggregates, and what `scan` raises.
        """
        if not aggregates or not all(isinstance(expression, pl.Expr) for expression in aggregates):
            msg = (
                "aggregate() takes at least one expression, and expressions of Polars only: t.aggregate(pl.len(), "
                "pl.col('v').sum())"
            )
            raise TypeError(msg)
        ctx = self._context()
        with user_expressions.translate_panics(ctx.name, aggregates=aggregates, where=where):
            if at is None and time_travel.means_changes(ctx):
                rows = self.scan()
                user_expressions.check_aggregate_temporals(aggregates, rows.collect_schema(), ctx.name)
                with typed_refusals():
                    return (
                        (rows if where is None else rows.filter(user_expressions.condition_on_table(where, ctx)))
                        .select(aggregates)
                        .collect()
                    )
            source = table_scan.scan(ctx, at)
            return aggregate_pushdown.aggregate_scan(
                source, aggregates, None if where is None else user_expressions.condition_on_table(where, source.ctx)
            )

    def explain(
        self,
        expr: pl.Expr | str | None = None,
        *,
        at: int | str | datetime | None = None,
        aggregates: Sequence[pl.Expr] = (),
    ) -> Explain:
        """Return the files that a scan filtered by `expr` would read, and those that each step of planning leaves out.

        Both branches are explained where two are read. Reads metadata only. After `t.analyze()` it says how many rows
        to expect. `expr`: Polars or SQL text. `aggregates`: show the files that `aggregate` still has to decode after
        file indexes have answered; the indexes are read for it.

        Raises: Polars' errors for expressions, `ColumnNotFound` and `SchemaMismatch` for text.
        """
        if not all(isinstance(aggregate, pl.Expr) for aggregate in aggregates):
            msg = "explain(aggregates=…) takes expressions of Polars only: aggregates=[pl.len(), pl.col('v').sum()]"
            raise TypeError(msg)
        source = table_scan.scan(self._context(), at)
        with user_expressions.translate_panics(source.ctx.name, expr=expr, aggregates=tuple(aggregates) or None):
            predicate = (
                expr
                if expr is None or isinstance(expr, pl.Expr)
                else user_expressions.condition_on_table(expr, source.ctx, argument="expr")
            )
            return explain.explain_scan(source, predicate, tuple(aggregates))

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return the same table with dynamic options put over its own, each checked.

        None takes an option away, the table's own too.

        Raises: `InvalidOption`.
        """
        self._context().with_options(options)
        return replace(self, dynamic=FrozenDict({**self.dynamic, **options}), _last_seen=type(self._last_seen)())

    def sql(
        self, text: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None, /, **frames: Any
    ) -> pl.LazyFrame:
        """Return the rows of a query in which the table is called `self`: "SELECT count(*) FROM self".

        Parameters and frames are as in `cat.sql`. Other tables have no name here.

        Raises: `SqlError` for a text that is no query, and what the query raises.
        """
        result: pl.LazyFrame = plugins.load("sql", "session").query_table(self, text, parameters, frames)
        return result

    def branch(self, name: str) -> Self:
        """Return the same table seen from a branch.

        Raises: `BranchNotFound`.
        """
        self._context().on_branch(name)
        return replace(self, branch_name=name, _last_seen=type(self._last_seen)())

    def _with(self, options: Mapping[str, Any] | None) -> TableContext:
        ctx = self._context()
        return ctx.with_options(options) if options else ctx

    def _of_newest(self, ctx: TableContext) -> pl.LazyFrame:
        """Return the frame of the newest snapshot, the same object for some scans.

        The first use of a frame takes Polars as long as reading a small file.
        """
        shared = self._last_seen.shared_scan
        if shared is None or shared.scans_left < 1 or shared.ctx != ctx:
            shared = self._last_seen.shared_scan = SharedScan(
                ctx, polars_pushdown.scan_lazily(table_scan.scan(ctx), is_shared=True)
            )
        shared.scans_left -= 1
        return shared.frame

    def _context_at(self, at: int | str | datetime | None, options: Mapping[str, Any] | None) -> TableContext:
        check_one_position(at, options)
        return self._with(options)


def check_one_position(at: int | str | datetime | None, options: Mapping[str, Any] | None) -> None:
    """Raise `TypeError` if both arguments say which snapshot to read."""
    if at is not None and options and (also := sorted(set(options) & set(time_travel.SCAN_KEYS))):
        msg = f"at={at!r} and {', '.join(also)} both say which snapshot to read: give one of them"
        raise TypeError(msg)
