"""What a table's options want done after every commit: automatic tags, and the expiry of tags, partitions, consumers, snapshots and changelogs.

A commit has happened by then, whatever becomes of this: what goes wrong is told as a warning, and the next commit tries again. Where there was nothing to
commit and no snapshot was made, what is old expires all the same. Tables and writers that are `write-only` leave it to others, but for one thing: which
partitions a batch has completed only its writer knows (`partition.end-input-to-done`). Writers that postpone rows leave snapshots to who compacts them.
Source: ENGINE.md 5.7; `TableCommitImpl.maintain`, `PrimaryKeyFileStoreTable.newExpireRunnable`, `PartitionMarkDoneListener`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakekit.errors import Conflict, LakekitError, NotFound
from lakekit.maintenance import auto_tags, consumers, expire, expire_partitions
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.world import warn_user

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakekit.commit.result import Commit
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage


def maintain_after_commit(ctx: TableContext, done: Commit, messages: Sequence[CommitMessage] = ()) -> Commit:
    """Looks after the table of a commit, and gives the commit. `messages`: what a job wrote, whose partitions may be complete now."""
    chores = [] if ctx.options.write_only else _chores(ctx, done)
    if ctx.options.partition_end_input_to_done and messages and done.identifier == BATCH_IDENTIFIER and ctx.schema.partition_keys:
        chores.append(("marking partitions done", lambda: expire_partitions.mark_written_done(ctx, messages)))
    for word, chore in chores:
        try:
            with suppress(Conflict, NotFound):  # another process did the same at the same time
                chore()
        except LakekitError as wrong:
            text = f"the commit to {ctx.name} is done; {word} afterwards failed and is tried again after the next one: {wrong}"
            warn_user(text)
    return done


def _chores(ctx: TableContext, done: Commit) -> list[tuple[str, Callable[[], object]]]:
    options = ctx.options
    found: list[tuple[str, Callable[[], object]]] = []
    is_batch = done.identifier == BATCH_IDENTIFIER
    if options.tag_automatic_creation not in {"none", "batch"}:
        found.append(("making automatic tags", lambda: auto_tags.create(ctx)))
    if options.tag_time_expire_enabled:
        found.append(("expiring tags", lambda: auto_tags.expire(ctx)))
    newest = done.snapshot_id
    if expire_partitions.is_due(ctx, ends=is_batch):
        newest = None  # they make snapshots of their own
        found.append(("expiring partitions", lambda: expire_partitions.expire(ctx, by=done)))
    if options.consumer_expiration_time_ms is not None:
        found.append(("expiring consumers", lambda: consumers.expire_old(ctx, None, including=None, excluding=None)))
    postpones = ctx.kind == "key" and options.bucket == POSTPONE_BUCKET and "COMPACT" not in done.kinds  # it is left to who compacts
    if not postpones:
        found.append(("expiring snapshots", lambda: _expire_snapshots(ctx, newest)))
    if options.changelog_outlives_snapshots and not postpones:
        found.append(("expiring changelogs", lambda: expire.expire_changelogs(ctx, expire.changelog_limits(ctx))))
    if options.tag_automatic_creation == "batch" and is_batch and done.snapshot_ids:  # of what is left: jobs name their snapshot when all else is done
        found.append(("making the tag of the batch", lambda: auto_tags.create_of_batch(ctx)))
    return found


def _expire_snapshots(ctx: TableContext, newest: int | None) -> None:
    """`newest`: the number of the newest snapshot, which saves a listing where none is old; None where only a listing tells."""
    retained = expire.snapshot_limits(ctx)
    if newest is None or not expire.nothing_is_old(ctx, retained, newest):
        expire.expire_snapshots(ctx, retained)
