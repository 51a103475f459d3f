"""Change of the number of buckets: every row of the chosen partitions is rewritten, in one OVERWRITE snapshot.

Writers should pause meanwhile. A row that another commit adds to such a partition is not lost: the rewrite is refused
then.
Source: ENGINE.md 7.7 and 5.8; `RescaleAction`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.bucket.restore import SnapshotBuckets
from lakekit.commit.committer import commit_changes_once
from lakekit.commit.overwrite import Overwrite
from lakekit.errors import InvalidOption
from lakekit.maintenance import chosen
from lakekit.maintenance.arguments import parse_count
from lakekit.maintenance.standing_rows import current_rows
from lakekit.metadata import feature_check, manifest_reader, snapshots
from lakekit.read import user_expressions
from lakekit.read.sections import hides_level_zero
from lakekit.write import row_conversion
from lakekit.write.table_writers import BucketWriters

if TYPE_CHECKING:
    import polars as pl

    from lakekit.commit.result import Commit
    from lakekit.metadata.table_context import TableContext

STRICT_MODE = "commit.strict-mode.last-safe-snapshot"


def check(ctx: TableContext, buckets: int) -> None:
    """Raise `InvalidOption` where the number of buckets cannot be changed, or the new number is invalid."""
    feature_check.check_writable(ctx)
    bucket_count = ctx.options.bucket
    if bucket_count < 1:
        raise InvalidOption(
            f"{ctx.name} has bucket={bucket_count}: its buckets are not counted by an option, and it cannot be "
            "rescaled",
            key="bucket",
        )
    if parse_count(buckets, "buckets") < 1:
        raise InvalidOption(f"{buckets} buckets are none; a table has 1 or more", key="bucket", value=str(buckets))


def waits_for_compaction(ctx: TableContext) -> bool:
    """Whether rows of level 0 are not read yet, so that a full compaction has to come first."""
    return ctx.kind == "key" and hides_level_zero(ctx)


def is_used(ctx: TableContext, buckets: int) -> bool:
    """Return whether live files are of that many buckets, by another rescale or a writer's new partition."""
    latest = snapshots.latest(ctx)
    return latest is not None and bool(
        (manifest_reader.read_live_entries(ctx, latest).numbers("total_buckets") == buckets).any()
    )


def rescale(ctx: TableContext, where: pl.Expr | str | None = None) -> Commit:
    """Rewrite the rows of the partitions that `where` chooses into as many buckets as the option says.

    Raises: `Conflict`: then nothing changed.
    """
    latest = snapshots.latest(ctx)
    user = ctx.new_commit_user()
    ctx = ctx.with_options({STRICT_MODE: str(latest.id if latest else 0), "write-only": "true"})
    partitions = chosen.partitions(ctx, (partition for partition, _ in SnapshotBuckets.of(ctx, latest).places()), where)
    writers = BucketWriters(ctx, commit_user=user, replaces=True)
    try:
        source = current_rows(ctx, latest, None if where is None else user_expressions.condition(where, ctx))
        for batch in row_conversion.batches(source, ctx):
            writers.write(batch)
        replaced = Overwrite.exactly(partitions) if ctx.schema.partition_keys else Overwrite.whole()
        return commit_changes_once(ctx, writers.prepare(), commit_user=user, overwrite=replaced)
    finally:
        writers.drop()
