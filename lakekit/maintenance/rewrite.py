"""Rewrites of all rows of some partitions: into another number of buckets, or sorted.

    rescale         rewrite every row into the number of buckets that the option gives, in one OVERWRITE snapshot
    sort            rewrite rows in an order that lets filters on some columns skip files:
    append tables   files [9 2 7] [1 8] [5 3 6 4]   ->   [1 2 3] [4 5 6] [7 8 9]
                    the files that were read are removed, rows appended meanwhile stay
    key tables      dynamic buckets, rows in order fill bucket 0, then bucket 1 …
                    in a bucket files are still sorted by key; hash indexes record the bucket of each key

`merged_rows` reads the rows of a snapshot under the current schema. A plain read of the snapshot would return the
columns of the snapshot's own schema, and add rows of a fallback branch.

Writers should pause meanwhile: if another commit adds a row to a partition that is rescaled, or to a partition of a key
table that is sorted, the rewrite is refused, and no row is lost. Sorting a key table merges all rows of the partitions
and replaces every bucket and hash index there: a key is in one bucket, as before. The snapshot is an OVERWRITE, as in
1.4.2, where the OVERWRITE replaces every live file of the table.

Source: ENGINE.md 5.8, 6.8, 7.7, 8.6; `RescaleAction`, `CompactProcedure`, `SortCompactAction`,
`SimpleHashBucketAssigner`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from lakekit.bucket import sort_order
from lakekit.bucket.compaction import with_strict_reads
from lakekit.bucket.deletion_vector_writer import BucketDeletionVectors
from lakekit.bucket.restore import SnapshotBuckets
from lakekit.bucket.sort_order import SortInput, SortOrder
from lakekit.columns import KIND, col
from lakekit.commit import abort
from lakekit.commit.committer import commit_changes_once
from lakekit.commit.overwrite import Overwrite
from lakekit.data_file.paths import data_file_path, make_file_names
from lakekit.data_file.reader import scan_files
from lakekit.data_file.rolling_writer import WriteTarget, write_run
from lakekit.errors import InvalidOption, Unsupported
from lakekit.format.polars_types import polars_schema
from lakekit.maintenance import expire_partitions
from lakekit.maintenance.arguments import parse_count
from lakekit.metadata import manifest_reader, snapshots, table_context
from lakekit.model.commit_message import CommitMessage
from lakekit.model.data_file import APPEND_SOURCE
from lakekit.model.table_paths import UNAWARE_BUCKET
from lakekit.options.features import check_readable
from lakekit.progress import begin_work
from lakekit.read import lazy_frames, planner, polars_pushdown, table_scan, user_expressions
from lakekit.read.planner import partition_frame
from lakekit.read.polars_pushdown import ScanFilter
from lakekit.read.sections import may_hide_level_zero
from lakekit.read.time_travel import Position
from lakekit.write import row_conversion
from lakekit.write.table_writers import BucketWriters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakekit.bucket.restore import RestoredBucket
    from lakekit.bucket.sort_order import Strategy
    from lakekit.commit.changes import Commit
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.snapshot import Snapshot
    from lakekit.types import Field


_LOSSY_READ_OPTIONS = ("scan.ignore-lost-files", "scan.ignore-corrupt-files", "lakekit.timestamp-unit", "scan.bucket")
"""Options of readers that would lose rows, or parts of them, for good."""


def merged_rows(ctx: TableContext, snapshot: Snapshot | None, where: pl.Expr | None = None) -> pl.LazyFrame:
    """Return the merged rows of a snapshot in the columns of the current schema.

    `where`: return only rows for which it is true. Options of readers that lose rows are ignored. Raises the errors of
    planning a read.
    """
    check_readable(ctx.all_options, f"table {ctx.name}")
    overrides = {key: None for key in _LOSSY_READ_OPTIONS if key in ctx.all_options}
    ctx = ctx.with_options(overrides) if overrides else ctx
    schema = ctx.schema
    scan_filter = ScanFilter()
    if where is not None:
        filters = polars_pushdown.filters_of(where, polars_schema(schema.fields))
        scan_filter = polars_pushdown.build_scan_filter(filters, schema)[0]
    frame = lazy_frames.scan_merged([planner.plan_read(ctx, Position(snapshot=snapshot), scan_filter)], schema.fields)
    return frame if where is None else polars_pushdown.filter_rows(frame, where, polars_schema(schema.fields))


# ---- rewrite ------------------------------------------------------------


STRICT_MODE = "commit.strict-mode.last-safe-snapshot"
"""The option that refuses a commit if another user changed the same partitions after the given snapshot."""


def check_bucket_count(ctx: TableContext, buckets: int) -> None:
    """Raise `InvalidOption` if the table's number of buckets cannot be changed, or `buckets` is invalid."""
    table_context.check_writable(ctx)
    bucket_count = ctx.options.bucket
    if bucket_count < 1:
        raise InvalidOption(
            f"{ctx.name} has bucket={bucket_count}: its buckets are not counted by an option, and it cannot be "
            "rescaled",
            key="bucket",
        )
    if parse_count(buckets, "buckets") < 1:
        raise InvalidOption(f"{buckets} buckets are none; a table has 1 or more", key="bucket", value=str(buckets))


def needs_full_compaction(ctx: TableContext) -> bool:
    """Return whether readers skip level 0 of the table, so that a full compaction must come before a rewrite."""
    return ctx.kind == "key" and may_hide_level_zero(ctx)


def has_files_with_bucket_count(ctx: TableContext, buckets: int) -> bool:
    """Return whether some live file was written with `buckets` as number of buckets.

    Another rescale, or a writer that began a partition, may have written it.
    """
    latest = snapshots.latest(ctx)
    return latest is not None and bool(
        (manifest_reader.read_live_entries(ctx, latest).integers("total_buckets") == buckets).any()
    )


def rescale_buckets(ctx: TableContext, where: pl.Expr | str | None = None) -> Commit:
    """Rewrite the rows of the partitions that `where` selects into the number of buckets that the option gives.

    Raises: `Conflict` if another commit changed the partitions meanwhile: then nothing changed.
    """
    latest = snapshots.latest(ctx)
    user = ctx.new_commit_user()
    ctx = ctx.with_options({STRICT_MODE: str(latest.id if latest else 0), "write-only": "true"})
    partitions = expire_partitions.matching_partitions(
        ctx, (partition for partition, _ in SnapshotBuckets.at_snapshot(ctx, latest).bucket_ids()), where
    )
    writers = BucketWriters(ctx, commit_user=user, replaces=True)
    try:
        source = merged_rows(ctx, latest, None if where is None else user_expressions.condition_on_table(where, ctx))
        for batch in row_conversion.convert_batches(source, ctx):
            writers.write(batch)
        replaced = Overwrite.serialized(partitions) if ctx.schema.partition_keys else Overwrite.entire_table()
        return commit_changes_once(ctx, writers.prepare(), commit_user=user, overwrite=replaced)
    finally:
        writers.abort()


# ---- sort compact ------------------------------------------------------------


NO_BUCKETS = -1
"""The value of `bucket` for tables whose buckets no option counts: append tables, dynamic buckets."""
_SINGLE_RUN_OPTIONS = {
    "write-only": "true",
    "write-buffer-spillable": "true",
    "write-buffer-spill.max-disk-size": None,
    "overwrite-upgrade": "true",
}
"""Options by which each bucket is written as one run of the last level, for readers that skip level 0."""


def parse_sort_order(ctx: TableContext, order_by: str | Sequence[str], strategy: Strategy) -> SortOrder:
    """Return the requested sort order, after checks.

    Raises: `InvalidOption`; `Unsupported` for tables and columns that cannot be sorted.
    """
    order = sort_order.make_sort_order(ctx, (order_by,) if isinstance(order_by, str) else tuple(order_by), strategy)
    options = ctx.options
    if options.bucket != NO_BUCKETS:
        raise InvalidOption(
            f"Sort Compact only supports bucket=-1 yet, and {ctx.name} has bucket={options.bucket}: rows of a bucket "
            "do not move",
            key="order_by",
        )
    if ctx.schema.cross_partition:
        raise InvalidOption(
            f"Sort Compact only supports keys that stay in their partition, and those of {ctx.name} do not name "
            f"{', '.join(ctx.schema.partition_keys)}",
            key="order_by",
        )
    if options.clustering_incremental:
        raise InvalidOption(
            f"{ctx.name} has enabled incremental clustering, which does not support sort compact: t.compact() sorts "
            "by clustering.columns",
            key="order_by",
        )
    for option, is_on in (
        ("row-tracking.enabled", options.row_tracking_enabled),
        ("data-evolution.enabled", options.data_evolution_enabled),
    ):
        if is_on:
            raise Unsupported(
                f"{ctx.name} has {option}=true: sorting would give its rows new ids, which lakekit does not keep",
                feature="row-tracking",
            )
    return order


# ---- append tables -------------------------------------------------------------------------------


def sort_append_table(
    ctx: TableContext, snapshot_buckets: SnapshotBuckets, order: SortOrder, partitions: Iterable[bytes]
) -> list[CommitMessage]:
    """Rewrite whole partitions of an append table in order, and return the messages to commit.

    Raises the errors of reading and writing; then no new file is left.
    """
    ctx, messages = with_strict_reads(ctx), []
    buckets = [
        (partition, snapshot_buckets.restore_bucket(partition, UNAWARE_BUCKET)) for partition in sorted(partitions)
    ]
    try:
        with begin_work(ctx.runtime, "sorting", "files", sum(len(bucket.files) for _, bucket in buckets)) as under_way:
            for partition, bucket in buckets:
                messages.append(_sort_bucket(ctx, partition, bucket, order))
                under_way.advance(len(bucket.files))
    except BaseException:
        abort.abort(ctx, messages)
        raise
    return messages


def _sort_bucket(ctx: TableContext, partition: bytes, bucket: RestoredBucket, order: SortOrder) -> CommitMessage:
    vectors = BucketDeletionVectors.restore(ctx, partition, UNAWARE_BUCKET, bucket.vectors)
    paths = [data_file_path(ctx, partition, UNAWARE_BUCKET, file) for file in bucket.files]
    rows = SortInput(
        ctx=ctx,
        order=order,
        scan=lambda fields: scan_files(
            ctx, bucket.files, paths, fields, deleted_rows=vectors.positions, snapshot_id=bucket.snapshot_id
        ),
        row_count=sum(file.row_count for file in bucket.files),
        size_bytes=sum(file.size_bytes for file in bucket.files),
        paths=paths,
    )
    target = WriteTarget(
        ctx=ctx,
        partition=partition,
        bucket=UNAWARE_BUCKET,
        level=0,
        source=APPEND_SOURCE,
        file_names=make_file_names(ctx),
        is_keyed=False,
        first_sequence_number=min(file.min_sequence_number for file in bucket.files),
    )
    return CommitMessage(
        partition=partition,
        bucket=UNAWARE_BUCKET,
        total_buckets=NO_BUCKETS,
        new_files=tuple(write_run(target, rows.iter_sorted())),
        deleted_files=bucket.files,
        deleted_index_files=vectors.index_files,
    )


# ---- key tables ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedPartitions:
    """Partitions of a key table to sort, in the state of `snapshot`; None: there is no snapshot yet."""

    ctx: TableContext
    order: SortOrder
    commit_user: str
    snapshot: Snapshot | None
    partitions: tuple[bytes, ...]

    def commit(self, messages: Sequence[CommitMessage]) -> Commit:
        """Replace the contents of the partitions by the written files.

        Raises: `Conflict` if another commit changed the partitions meanwhile: then nothing changed.
        """
        if not self.partitions:
            return commit_changes_once(self.ctx, (), commit_user=self.commit_user)
        replaced = Overwrite.serialized(self.partitions) if self.ctx.schema.partition_keys else Overwrite.entire_table()
        return commit_changes_once(self.ctx, messages, commit_user=self.commit_user, overwrite=replaced)


def sort_key_table(ctx: TableContext, order: SortOrder, where: pl.Expr | str | None) -> Commit:
    """Sort the partitions of a key table that `where` selects, and commit the result.

    The first rows in the order fill the first buckets. If readers skip level 0, it must be compacted before.

    Raises: `Conflict` if another commit changed the partitions meanwhile: then nothing changed.
    """
    job = plan_key_table_sort(ctx, order, where)
    with begin_work(ctx.runtime, "sorting", "partitions", len(job.partitions)) as under_way:
        messages = write_sorted_partitions(job, job.partitions, under_way.advance)
    return job.commit(messages)


def plan_key_table_sort(ctx: TableContext, order: SortOrder, where: pl.Expr | str | None) -> SortedPartitions:
    """Return the partitions of a key table to sort.

    Raises: `InvalidOption` for `where`.
    """
    latest = snapshots.latest(ctx)
    ctx = with_strict_reads(ctx.with_options({**_SINGLE_RUN_OPTIONS, STRICT_MODE: str(latest.id if latest else 0)}))
    wanted = expire_partitions.matching_partitions(
        ctx, (partition for partition, _ in SnapshotBuckets.at_snapshot(ctx, latest).bucket_ids()), where
    )
    return SortedPartitions(
        ctx=ctx, order=order, commit_user=ctx.new_commit_user(), snapshot=latest, partitions=tuple(sorted(wanted))
    )


def write_sorted_partitions(
    job: SortedPartitions, partitions: Sequence[bytes], on_partition: Callable[[], None] = lambda: None
) -> list[CommitMessage]:
    """Write the rows of some partitions in order to new files, and return the messages to commit.

    Calls `on_partition` after each partition. Raises the errors of reading and writing; then no new file is left.
    """
    if job.snapshot is None:
        return []
    snapshot_buckets = SnapshotBuckets.at_snapshot(job.ctx, job.snapshot)
    buckets: dict[bytes, list[int]] = {}
    for partition, bucket in snapshot_buckets.bucket_ids():
        buckets.setdefault(partition, []).append(bucket)
    writers = BucketWriters(job.ctx, commit_user=job.commit_user, replaces=True)
    try:
        for partition in partitions:
            files = [
                file for bucket in buckets.get(partition, ()) for file in snapshot_buckets.live_files(partition, bucket)
            ]
            for frame in _merged_rows(job.ctx, job.snapshot, partition, files, job.order).iter_sorted():
                writers.write(frame.with_columns(pl.lit(0, pl.Int8).alias(KIND)))
            on_partition()
        return writers.prepare()
    finally:
        writers.abort()


def _merged_rows(
    ctx: TableContext, latest: Snapshot, partition: bytes, files: Sequence[DataFileMeta], order: SortOrder
) -> SortInput:
    """Return the rows of one partition as readers see them; its live files say how many there may be."""
    source = polars_pushdown.scan_lazily(table_scan.scan_snapshot(ctx, latest.id)).filter(
        *_partition_conditions(ctx, partition)
    )
    return SortInput(
        ctx=ctx,
        order=order,
        scan=_columns_of(source),
        row_count=sum(file.row_count for file in files),
        size_bytes=sum(file.size_bytes for file in files),
    )


def _columns_of(source: pl.LazyFrame) -> Callable[[Sequence[Field]], pl.LazyFrame]:
    return lambda fields: source.select([col(field.name) for field in fields])


def _partition_conditions(ctx: TableContext, partition: bytes) -> list[pl.Expr]:
    """Return the conditions that exactly the rows of a partition satisfy."""
    values = partition_frame(ctx, pa.array([partition], pa.binary()))
    return [
        col(column.name).is_null() if column.null_count() else col(column.name) == pl.lit(column)
        for column in values.get_columns()
    ]
