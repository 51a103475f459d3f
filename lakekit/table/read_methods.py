"""Reads of a table: scan, changes, follow, aggregate, explain, and views by option or branch.

Metadata of a table: its schema, its files, manifests and buckets as frames, its repr and widgets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from lakekit import plugins
from lakekit.data_file.entry_damage import add_manifest_path
from lakekit.draw import cards
from lakekit.errors import NotFound
from lakekit.inspection.summary import health, totals
from lakekit.metadata import schemas as schema_files
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
from lakekit.system_tables import frames, registry
from lakekit.table.schema import Schema, SchemaDifference, columns_html, diff_schemas
from lakekit.types import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot
    from lakekit.notebook.browser import Browser
    from lakekit.read.explain import Explain
    from lakekit.read.stream import Change


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Reading(TableCore):
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
        with a number raises `SchemaMismatch` as far as Polars hands it over: two columns of a comparison it has cast by
        then, and what is no filter of rows it computes by itself.
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
            incremental.changes(self._with(options), since, until, mode=mode, kind_column=kind_column)
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
        return stream.follow(self._with(options), start, consumer=consumer, until=until, poll=poll)

    def aggregate(
        self, *aggregates: pl.Expr, where: pl.Expr | str | None = None, at: int | str | datetime | None = None
    ) -> pl.DataFrame:
        """Return what `scan(at).filter(where).select(*aggregates)` gives, from file indexes where possible.

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
        ctx = self.handle()
        if at is None and time_travel.means_changes(ctx):
            rows = self.scan()
            user_expressions.check_aggregates(aggregates, rows.collect_schema(), ctx.name)
            with typed_refusals():
                return (
                    (rows if where is None else rows.filter(user_expressions.condition(where, ctx)))
                    .select(aggregates)
                    .collect()
                )
        source = table_scan.scan(ctx, at)
        return aggregate_pushdown.aggregate(
            source, aggregates, None if where is None else user_expressions.condition(where, source.ctx)
        )

    def explain(
        self,
        expr: pl.Expr | str | None = None,
        *,
        at: int | str | datetime | None = None,
        aggregates: Sequence[pl.Expr] = (),
    ) -> Explain:
        """Return what a scan filtered by `expr` would read, and what each step of planning leaves out.

        Both branches are explained where two are read. Reads metadata only. After `t.analyze()` it says how many rows
        to expect. `expr`: Polars or SQL text. `aggregates`: what is left for `aggregate` to decode once file indexes,
        which are read, have answered.

        Raises: Polars' errors for expressions, `ColumnNotFound` and `SchemaMismatch` for text.
        """
        if not all(isinstance(aggregate, pl.Expr) for aggregate in aggregates):
            msg = "explain(aggregates=…) takes expressions of Polars only: aggregates=[pl.len(), pl.col('v').sum()]"
            raise TypeError(msg)
        source = table_scan.scan(self.handle(), at)
        predicate = (
            expr
            if expr is None or isinstance(expr, pl.Expr)
            else user_expressions.condition(expr, source.ctx, argument="expr")
        )
        return explain.explain(source, predicate, tuple(aggregates))

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return the same table with dynamic options put over its own, each checked.

        None takes an option away, the table's own too.

        Raises: `InvalidOption`.
        """
        self.handle().with_options(options)
        return replace(self, dynamic=FrozenDict({**self.dynamic, **options}), _seen=type(self._seen)())

    def branch(self, name: str) -> Self:
        """Return the same table seen from a branch.

        Raises: `BranchNotFound`.
        """
        self.handle().on_branch(name)
        return replace(self, branch_name=name, _seen=type(self._seen)())

    def _with(self, options: Mapping[str, Any] | None) -> TableContext:
        ctx = self.handle()
        return ctx.with_options(options) if options else ctx

    def _of_newest(self, ctx: TableContext) -> pl.LazyFrame:
        """Return the frame of the newest snapshot, the same object for some scans.

        The first use of a frame takes Polars as long as reading a small file.
        """
        shared = self._seen.shared
        if shared is None or shared.scans_left < 1 or shared.ctx != ctx:
            shared = self._seen.shared = SharedScan(ctx, polars_pushdown.scan_lazily(table_scan.scan(ctx), shared=True))
        shared.scans_left -= 1
        return shared.frame

    def _context_at(self, at: int | str | datetime | None, options: Mapping[str, Any] | None) -> TableContext:
        check_one_position(at, options)
        return self._with(options)


def check_one_position(at: int | str | datetime | None, options: Mapping[str, Any] | None) -> None:
    """Raise `TypeError` where both arguments say which snapshot to read."""
    if at is not None and options and (also := sorted(set(options) & set(time_travel.SCAN_KEYS))):
        msg = f"at={at!r} and {', '.join(also)} both say which snapshot to read: give one of them"
        raise TypeError(msg)


# ---- looking ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Looking(TableCore):
    """Methods and properties that describe a table."""

    @property
    def schema(self) -> Schema:
        """The newest schema."""
        return Schema.of(self.handle().schema)

    @property
    def primary_keys(self) -> tuple[str, ...]:
        """The columns of the primary key; empty for an append table."""
        return self.handle().schema.primary_keys

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The columns that partition the table."""
        return self.handle().schema.partition_keys

    @property
    def options(self) -> Mapping[str, str]:
        """The table's options with the dynamic ones put over them, as text."""
        return dict(self.handle().all_options)

    @property
    def comment(self) -> str | None:
        """The table's comment."""
        return self.handle().schema.comment

    @property
    def uuid(self) -> str:
        """The table's identity: its name and its creation time."""
        ctx = self.handle()
        return f"{self.name}.{schema_files.read(ctx, schema_files.ids(ctx)[0]).time_millis}"

    def to_sql(self) -> str:
        """Return the CREATE TABLE statement that would make a table like this one."""
        return statement(self.name, self.handle())

    def snapshots(self) -> pl.DataFrame:
        """Return every snapshot, one row each, newest last."""
        return frames.snapshots(self.handle())

    def schemas(self) -> pl.DataFrame:
        """Return every schema, one row each."""
        return frames.schemas(self.handle())

    def schema_difference(self, older: int, newer: int | None = None) -> SchemaDifference:
        """Return what changed between two schemas; without `newer`, up to the newest.

        Changes are columns added, dropped, renamed, widened or moved, options set and reset.

        Raises: `NotFound` for a number that no schema has.
        """
        ctx = self.handle()
        schema_ids = schema_files.ids(ctx)
        wanted = (older, schema_ids[-1] if newer is None else newer)
        if missing := [number for number in wanted if number not in schema_ids]:
            msg = (
                f"{self.name} has no schema {missing[0]}: its schemas are "
                f"{', '.join(map(str, schema_ids[:12]))}{' …' if len(schema_ids) > 12 else ''}"
            )
            raise NotFound(msg, name=str(missing[0]))
        return diff_schemas(self.name, schema_files.read(ctx, wanted[0]), schema_files.read(ctx, wanted[1]))

    def tags(self) -> pl.DataFrame:
        """Return every tag, one row each."""
        return frames.tags(self.handle())

    def branches(self) -> pl.DataFrame:
        """Return every branch but main, one row each."""
        return frames.branches(self.handle())

    def consumers(self) -> pl.DataFrame:
        """Return every consumer, one row each."""
        return frames.consumers(self.handle())

    def manifests(self, at: int | str | datetime | None = None) -> pl.DataFrame:
        """Return the manifests of a snapshot, the newest without `at`."""
        return frames.manifests(*self._at(at))

    def files(self, at: int | str | datetime | None = None) -> pl.DataFrame:
        """Return the live data files of a snapshot, all levels."""
        frame = self._listing(frames.files, at)
        self._seen.files, self._seen.health = (
            totals(frame),
            health(frame) if self._seen.ctx and self._seen.ctx.schema.primary_keys else None,
        )
        return frame

    def partitions(self, at: int | str | datetime | None = None) -> pl.DataFrame:
        """Return the partitions of a snapshot: files, rows and bytes of each."""
        return self._listing(frames.partitions, at)

    def buckets(self, at: int | str | datetime | None = None) -> pl.DataFrame:
        """Return the buckets of a snapshot: files, rows, bytes and sorted runs of each."""
        return self._listing(frames.buckets, at)

    def indexes(self, at: int | str | datetime | None = None) -> pl.DataFrame:
        """Return the index files of a snapshot: hash indexes and deletion vectors."""
        return self._listing(frames.indexes, at)

    def _listing(
        self, table: Callable[[TableContext, Snapshot | None], pl.DataFrame], at: int | str | datetime | None
    ) -> pl.DataFrame:
        ctx, snapshot = self._at(at)
        with add_manifest_path(ctx, lambda: snapshot):
            return table(ctx, snapshot)

    def browse(self) -> Browser:
        """Return a widget of the table's snapshots, manifests and levels.

        Click a snapshot, a manifest, a file; `.selected`, `.code` and `.frame()` say what it was. Reads the snapshots,
        and the manifests of the newest.

        Raises: `Unsupported` where ipywidgets or Pillow are not installed, naming what installs them.
        """
        browser: Browser = plugins.load("notebook", "browser").Browser(self)
        return browser

    def system(
        self, name: str, *, at: int | str | datetime | None = None, options: Mapping[str, Any] | None = None
    ) -> pl.LazyFrame:
        """Return a system table with Paimon's own columns.

        These are "audit_log", "binlog", "ro", "files", "snapshots", "schemas", "options", "manifests", ….

        Raises: `TableNotFound` for a name Paimon does not have, `Unsupported` for one that lakekit refuses.
        """
        ctx = self.handle()
        return registry.system(ctx.with_options(options) if options else ctx, name, at)

    def _at(self, at: int | str | datetime | None) -> tuple[TableContext, Snapshot | None]:
        ctx, snapshot = time_travel.context_at(self.handle(), at)
        self._seen.snapshot_id = None if snapshot is None else snapshot.id
        return ctx, snapshot

    def _facts(self) -> list[tuple[str, Any]]:
        seen = self._seen.ctx
        if seen is None:
            return [("location", self.location)]
        keys = seen.schema.primary_keys
        facts: list[tuple[str, Any]] = [("primary key", ", ".join(keys) if keys else "none: rows are only appended")]
        if seen.schema.partition_keys:
            facts.append(("partitioned by", ", ".join(seen.schema.partition_keys)))
        if keys:
            facts.append(("merge engine", seen.all_options.get("merge-engine", "deduplicate")))
        if seen.schema.comment:
            facts.append(("comment", seen.schema.comment))
        if self._seen.snapshot_id is not None:
            facts.append(("snapshot", f"{self._seen.snapshot_id} when last looked at"))
        last_seen = [("files", self._seen.files), ("health", self._seen.health), ("check", self._seen.checked)]
        return [*facts, *((name, text) for name, text in last_seen if text), ("location", self.location)]

    @property
    def _called(self) -> str:
        return self.name if self.branch_name is None else f"{self.name}$branch_{self.branch_name}"

    def __repr__(self) -> str:
        if self._seen.ctx is None:
            return cards.card(f"Table {self._called}", self._facts())
        columns = ", ".join(f"{field.name} {field.type}" for field in self._seen.ctx.schema.fields)
        main_facts = [
            (name, text)
            for name, text in self._facts()
            if name in ("primary key", "partitioned by", "snapshot", "location")
        ]
        return cards.card(f"Table {self._called}", [("columns", columns), *main_facts])

    def _repr_html_(self) -> str:
        card = cards.html_card(f"Table {self._called}", self._facts())
        return (
            card
            if self._seen.ctx is None
            else card + columns_html(self._seen.ctx.schema.fields, self._seen.ctx.schema.primary_keys)
        )


def statement(name: str, ctx: TableContext) -> str:
    """Return the CREATE TABLE statement of a table."""
    lines = [
        f"  {quote(f.name)} {f.type}" + ("" if f.comment is None else f" COMMENT {_literal(f.comment)}")
        for f in ctx.schema.fields
    ]
    if ctx.schema.primary_keys:
        lines.append(f"  PRIMARY KEY ({', '.join(map(quote, ctx.schema.primary_keys))}) NOT ENFORCED")
    text = f"CREATE TABLE {'.'.join(map(quote, name.split('.')))} (\n" + ",\n".join(lines) + "\n)"
    if ctx.schema.comment:
        text += f" COMMENT {_literal(ctx.schema.comment)}"
    if ctx.schema.partition_keys:
        text += f" PARTITIONED BY ({', '.join(map(quote, ctx.schema.partition_keys))})"
    if ctx.schema.options:
        pairs = ",\n".join(
            f"  {_literal(key)} = {_literal(value)}" for key, value in sorted(ctx.schema.options.items())
        )
        text += f" WITH (\n{pairs}\n)"
    return text


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
