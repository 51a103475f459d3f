"""Methods of a table that maintain it: compaction, statistics, indexes, checks, expiration."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from lakekit import maintenance, plugins
from lakekit.ddl import schema_writer as schemas
from lakekit.ddl.schema_changes import SetOption
from lakekit.errors import CommitStateUnknown, LakekitError
from lakekit.read.table_scan import TableCore
from lakekit.read.user_expressions import translate_panics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    import polars as pl

    from lakekit.bucket.sort_order import Strategy
    from lakekit.commit.changes import Commit
    from lakekit.maintenance.check.findings import Report
    from lakekit.maintenance.result import DeletionResult


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MaintenanceMethods(TableCore):
    """Methods that compact, check and expire.

    The `expire_*` methods rethods that remove old snapshots, changelogs, tags and consumers of the table's branch.

    They also delete the files that nothing else needs. Snapshots, tags and long-lived changelogs of every branch are
    read first: where one cannot be, nothing is deleted. `dry_run=True` returns what would be removed.
    """

    def compact(
        self,
        *,
        full: bool = False,
        where: pl.Expr | str | None = None,
        order_by: str | Sequence[str] | None = None,
        strategy: Strategy = "order",
        idle: str | timedelta | None = None,
    ) -> Commit:
        """Merge files, in one commit: what the levels of each bucket ask for, or, with `full`, everything.

        `full`: every bucket to its highest level. `where`: a condition on partition columns, a Polars expression or SQL
        text. `idle`: only partitions that got no file for so long, "1 d" or a `timedelta`. `order_by`: tables with
        `bucket` -1 have all rows of the partitions rewritten, sorted by a column or several, so that reads that filter
        them skip files; in key tables the first rows come into the first buckets. `strategy`: "order", one column after
        another; "zorder" and, of two columns and more, "hilbert", which serve a filter on any of them. Nulls are first.
        Memory is bounded by `lakekit.merge-memory`; a bigger partition is read once for each part that fits. Append
        tables with `clustering.incremental` are sorted by their `clustering.columns` once there are enough new files;
        with `full` all files that are not sorted yet are.

        Writers that only add files (`write-only`) may run meanwhile; their rows stay.

        Raises: `InvalidOption`; `Conflict` if another compaction was faster, or if a key table that is sorted was
        written to: nothing changed.
        """
        ctx = self._context()
        idle_ms = None if idle is None else maintenance.arguments.duration_ms(idle, "idle")
        with translate_panics(ctx.name, where=where):
            committed = maintenance.compact.compact_table(
                ctx, full=full, where=where, order_by=order_by, strategy=strategy, idle_ms=idle_ms
            )
        return maintenance.after_commit.maintain_after_commit(ctx.with_options({"write-only": "false"}), committed)

    def compact_manifests(self) -> Commit:
        """Merge small manifests and those with deletions, in one COMPACT snapshot without changes.

        None is made where there is nothing to merge. Rows stay what they are; planning opens fewer files.

        Raises: `RetriesExhausted` where other commits are always faster, `CommitStateUnknown`.
        """
        ctx = self._context()
        return maintenance.after_commit.maintain_after_commit(ctx, maintenance.compact.compact_manifests(ctx))

    def rescale(self, buckets: int, *, where: pl.Expr | str | None = None) -> Commit:
        """Change the number of buckets: set the option, and rewrite the chosen partitions, in one commit.

        `where` chooses the partitions. Those that are left out keep their buckets and are read as before; new rows for
        them are refused until they are rescaled too. Writers should rest meanwhile.

        Raises: `InvalidOption` for a table whose buckets no option counts; `Conflict` if rows came in between: they
        are not lost, nothing was rewritten, the number is what it was, and the same call does it again.
        """
        ctx = self._context()
        maintenance.rewrite.check_bucket_count(ctx, buckets)
        if maintenance.rewrite.needs_full_compaction(ctx):
            with translate_panics(ctx.name, where=where):
                maintenance.compact.compact_table(ctx, full=True, where=where)
        before = ctx.options.bucket
        if before != buckets:
            schemas.alter_schema(ctx, [SetOption(key="bucket", value=str(buckets))])
        ctx = self._context()
        try:
            with translate_panics(ctx.name, where=where):
                committed = maintenance.rewrite.rescale_buckets(ctx, where)
        except CommitStateUnknown:  # it may be there, and then its files have the new number
            raise
        except BaseException:
            with suppress(LakekitError):  # what went wrong first is what to tell
                if before != buckets and not maintenance.rewrite.has_files_with_bucket_count(ctx, buckets):
                    schemas.alter_schema(ctx, [SetOption(key="bucket", value=str(before))])
            raise
        return maintenance.after_commit.maintain_after_commit(ctx, committed)

    def analyze(self, *, columns: Sequence[str] | None = None) -> Commit:
        """Compute statistics of the newest snapshot, in a snapshot ANALYZE of its own.

        They are the row count, and of `columns`, all that can have statistics when None, the distinct values (about),
        nulls, least and greatest value and lengths in bytes; `t.system("statistics")` shows them. `t.explain()` expects
        rows by them; Spark and other engines plan joins by them. Reads every row of the columns.

        Raises: `ColumnNotFound`, `InvalidOption` for a column of a nested type, and what a commit raises.
        """
        return maintenance.analyze.analyze_table(self._context(), columns)

    @overload
    def rewrite_file_index(
        self, *, where: pl.Expr | str | None = None, rebuild: bool = False, dry_run: Literal[False] = False
    ) -> Commit: ...

    @overload
    def rewrite_file_index(
        self, *, where: pl.Expr | str | None = None, rebuild: bool = False, dry_run: Literal[True]
    ) -> pl.DataFrame: ...

    def rewrite_file_index(
        self, *, where: pl.Expr | str | None = None, rebuild: bool = False, dry_run: bool = False
    ) -> Commit | pl.DataFrame:
        """Add the file indexes that today's options ask for to existing files, and drop others, in one commit.

        No data is rewritten. `where`: a condition on partition columns, a Polars expression or SQL text. Reads only the
        columns of indexes that are missing, lost or damaged; with `rebuild` existing ones are rebuilt too, as after a
        change of their own options.

        With `dry_run` nothing is made: one row a file that would change, `path`, `row_count`, and the indexes `made`
        and `dropped`, as `bitmap(city)`.

        Raises: `InvalidOption`, `Unsupported` for a type that an index does not take, and what a commit raises.
        """
        ctx = self._context()
        with translate_panics(ctx.name, where=where):
            if dry_run:
                return maintenance.rewrite_file_index.preview_rewrite(ctx, where, rebuild=rebuild)
            return maintenance.rewrite_file_index.rewrite_indexes(ctx, where, rebuild=rebuild)

    def remove_orphans(
        self,
        *,
        older_than: str | datetime | timedelta | None = None,
        dry_run: bool = True,
        force: bool = False,
        external: bool = False,
    ) -> pl.DataFrame:
        """Return the files that no snapshot, tag or changelog of any branch refers to, left by failed writers.

        With `dry_run=False` they are removed. One row a file: `path`, `kind` (data, manifest, index, statistics,
        temporary), `size_bytes`, `modified`. Only files older than `older_than`, a time or an age such as "2 d", are
        meant; None: a day, so that no commit under way loses its files. Ages are measured by the clock of the storage;
        a dry run writes nothing and takes this machine's for it. Empty directories that are as old go too. External
        roots (`data-file.external-paths`) are left out, and a warning says so, unless `external`: give it only where no
        other table has files there.

        Raises: `Conflict` where so much would go that the metadata looks lost, unless `force`; `Corrupt`,
        `StorageFailed` if it cannot be decided what is needed: nothing was removed.
        """
        return maintenance.orphan_files.remove_orphans(
            self._context(), older_than=older_than, dry_run=dry_run, force=force, external=external
        )

    def repair(self) -> pl.DataFrame:
        """Correct the hints LATEST and EARLIEST; return one row for each that was corrected.

        After a gap EARLIEST is the first snapshot behind it. Columns `file`, `was` and `is` (null: there is none, or it
        made no sense).

        Raises: `StorageFailed`.
        """
        return maintenance.branches.repair_hints(self._context())

    def check(self, *, deep: bool = False) -> Report:
        """Check the newest snapshot, and return a report of problems and advice; no problem is raised.

        Files exist and have the recorded sizes and row counts; keys, levels, buckets, index files agree. Further
        problems are missing schemas or snapshots, a snapshot, tag, changelog or consumer of any branch that keeps files
        and cannot be read, and a hint LATEST that is wrong in a way that the reference engine believes.

        `deep` reads the rows too, one data or changelog file at a time: keys are sorted and within their ranges,
        statistics true, each row in its bucket, file indexes find the rows, pages of Parquet files have the checksums
        that are stored with them.

        Raises: `TableNotFound` and what else opening raises.
        """
        report: Report = plugins.load("maintenance/check", "table-check").check_table(self._context(), deep=deep)
        self._last_seen.checked_text = report.summary
        return report

    def expire_snapshots(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: str | datetime | timedelta | None = None,
        max_deletes: int | None = None,
        dry_run: bool = False,
    ) -> DeletionResult:
        """Remove old snapshots, oldest first: all beyond `retain_max`, and those made before `older_than`.

        The newest `retain_min` stay. `older_than` is a time, or an age: a `timedelta`, or a text such as "7 d".

        What is None is as the options `snapshot.num-retained.max`, `snapshot.num-retained.min`,
        `snapshot.time-retained` and `snapshot.expire.limit` say. A snapshot that a consumer has not read stays, and all
        after it. Where changelogs are kept longer, each snapshot leaves its own.

        Raises: `InvalidOption`; `Conflict`, `Corrupt`, `StorageFailed` if it is not sure what may go.
        """
        ctx = self._context()
        since = maintenance.arguments.before_ms(older_than, "older_than", ctx.runtime.now_ms())
        limits = maintenance.expire.snapshot_limits(ctx)
        limits = maintenance.expire.override_limits(
            limits, retain_max=retain_max, retain_min=retain_min, older_than_ms=since, max_deletes=max_deletes
        )
        return maintenance.expire.expire_snapshots(ctx, limits, dry_run=dry_run)

    def expire_changelogs(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: str | datetime | timedelta | None = None,
        max_deletes: int | None = None,
        delete_all: bool = False,
        dry_run: bool = False,
    ) -> DeletionResult:
        """Remove long-lived changelogs as `expire_snapshots` removes snapshots; the newest one stays.

        Snapshots count among those that are retained. What is None is as the options `changelog.num-retained.max`,
        `changelog.num-retained.min` and `changelog.time-retained` say. `delete_all` removes every one. `snapshot_ids`
        of the result are theirs.

        Raises: as `expire_snapshots`.
        """
        ctx = self._context()
        since = maintenance.arguments.before_ms(older_than, "older_than", ctx.runtime.now_ms())
        limits = maintenance.expire.changelog_limits(ctx)
        limits = maintenance.expire.override_limits(
            limits, retain_max=retain_max, retain_min=retain_min, older_than_ms=since, max_deletes=max_deletes
        )
        return maintenance.expire.expire_changelogs(ctx, limits, delete_all=delete_all, dry_run=dry_run)

    def expire_tags(
        self, *, older_than: str | datetime | timedelta | None = None, dry_run: bool = False
    ) -> DeletionResult:
        """Remove the tags whose time is over, and with `older_than` those that were made before it.

        Raises: as `expire_snapshots`.
        """
        ctx = self._context()
        since = maintenance.arguments.before_ms(older_than, "older_than", ctx.runtime.now_ms())
        return maintenance.tags.expire_tags(ctx, older_than_ms=since, dry_run=dry_run)

    def expire_consumers(
        self,
        *,
        expiration: str | timedelta | None = None,
        including: str | None = None,
        excluding: str | None = None,
        dry_run: bool = False,
    ) -> DeletionResult:
        """Remove consumers that recorded nothing for so long; snapshots are no longer kept for them.

        `expiration` None is `consumer.expiration-time`. With `including`, a regular expression that whole ids match,
        those however old they are; `excluding` spares some.

        Raises: `InvalidOption`, also where nothing says which.
        """
        return maintenance.consumers.expire_old_consumers(
            self._context(),
            None if expiration is None else maintenance.arguments.duration_ms(expiration, "expiration"),
            including=including,
            excluding=excluding,
            dry_run=dry_run,
        )

    def expire_partitions(
        self,
        *,
        expiration: str | timedelta | None = None,
        strategy: str | None = None,
        timestamp_pattern: str | None = None,
        timestamp_formatter: str | None = None,
        max_expires: int | None = None,
        dry_run: bool = False,
    ) -> DeletionResult:
        """Drop partitions older than `expiration`.

        Their rows are gone from the newest snapshot, their files when earlier snapshots expire. `strategy`:
        "values-time", a partition is as old as its values say (`timestamp_pattern`, such as "$dt $hm",
        `timestamp_formatter`, such as "yyyyMMdd"); "update-time", as its newest file. What is None is as the options
        `partition.*` say.

        Raises: `InvalidOption`, `Conflict`.
        """
        return maintenance.expire_partitions.expire_partitions(
            self._context(),
            None if expiration is None else maintenance.arguments.duration_ms(expiration, "expiration"),
            strategy=strategy,
            pattern=timestamp_pattern,
            formatter=timestamp_formatter,
            most=max_expires,
            dry_run=dry_run,
        )

    def mark_partition_done(self, partitions: Sequence[Mapping[str, Any]]) -> None:
        """Mark partitions, `[{"dt": "2024-03-31"}, …]`, as complete.

        Writes a file `_SUCCESS` into the directory of each, or sets its time. With `partition.mark-done-action`
        http-report a web service is called too, or alone.

        Raises: `ColumnNotFound`, `InvalidOption`, `Unsupported` for the other values of that option, `StorageFailed`
        if the service cannot be reached or does not answer SUCCESS.
        """
        maintenance.expire_partitions.mark_done(
            self._context(), [partitions] if isinstance(partitions, (dict, str)) else partitions
        )
