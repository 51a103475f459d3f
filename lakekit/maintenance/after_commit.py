"""Maintenance after every commit, as the table options ask for it: automatic tags, and expiry.

Tags, partitions, consumers, snapshots and changelogs expire. The commit has already happened: an error here becomes a
warning, and the next commit tries again. Expiry also runs when there was nothing to commit and no snapshot was made.
`write-only` tables and writers skip all of it except for marking partitions done (`partition.end-input-to-done`), since
only the writer knows which partitions its batch has completed. Writers that postpone rows leave the expiry of snapshots
to the compaction job.

Source: ENGINE.md 5.7; `TableCommitImpl.maintain`, `PrimaryKeyFileStoreTable.newExpireRunnable`,
`PartitionMarkDoneListener`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakekit.errors import Conflict, LakekitError, NotFound
from lakekit.maintenance import consumers, expire, expire_partitions, tags
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.runtime import warn_user

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakekit.commit.changes import Commit
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage


def maintain_after_commit(ctx: TableContext, commit: Commit, messages: Sequence[CommitMessage] = ()) -> Commit:
    """Run the maintenance due after a commit, and return the commit.

    `messages`: what the job wrote; their partitions may be complete now.
    """
    chores = [] if ctx.options.write_only else _list_due_tasks(ctx, commit)
    if (
        ctx.options.partition_end_input_to_done
        and messages
        and commit.identifier == BATCH_IDENTIFIER
        and ctx.schema.partition_keys
    ):
        chores.append(("marking partitions done", lambda: expire_partitions.mark_written_done(ctx, messages)))
    for word, chore in chores:
        try:
            with suppress(Conflict, NotFound):  # another process did the same at the same time
                chore()
        except LakekitError as wrong:
            text = (
                f"the commit to {ctx.name} is done; {word} afterwards failed and is tried again after the next one: "
                f"{wrong}"
            )
            warn_user(text)
    return commit


def _list_due_tasks(ctx: TableContext, commit: Commit) -> list[tuple[str, Callable[[], object]]]:
    options = ctx.options
    chores: list[tuple[str, Callable[[], object]]] = []
    is_batch = commit.identifier == BATCH_IDENTIFIER
    if options.tag_automatic_creation not in {"none", "batch"}:
        chores.append(("making automatic tags", lambda: tags.create_automatic_tags(ctx)))
    if options.tag_time_expire_enabled:
        chores.append(("expiring tags", lambda: tags.expire_tags(ctx)))
    newest = commit.snapshot_id
    if expire_partitions.is_check_due(ctx, ends=is_batch):
        newest = None  # they make snapshots of their own
        chores.append(("expiring partitions", lambda: expire_partitions.expire_partitions(ctx, by=commit)))
    if options.consumer_expiration_time_ms is not None:
        chores.append(
            ("expiring consumers", lambda: consumers.expire_old_consumers(ctx, None, including=None, excluding=None))
        )
    postpones = (
        ctx.kind == "key" and options.bucket == POSTPONE_BUCKET and "COMPACT" not in commit.kinds
    )  # it is left to who compacts
    if not postpones:
        chores.append(("expiring snapshots", lambda: _expire_snapshots(ctx, newest)))
    if options.changelog_outlives_snapshots and not postpones:
        chores.append(("expiring changelogs", lambda: expire.expire_changelogs(ctx, expire.changelog_limits(ctx))))
    if (
        options.tag_automatic_creation == "batch" and is_batch and commit.snapshot_ids
    ):  # of what is left: jobs name their snapshot when all else is done
        chores.append(("making the tag of the batch", lambda: tags.create_batch_tag(ctx)))
    return chores


def _expire_snapshots(ctx: TableContext, newest: int | None) -> None:
    """Expire the snapshots that need not be retained.

    `newest`: id of the newest snapshot, which saves a listing where no snapshot is old; None if only a listing can
    tell.
    """
    retained = expire.snapshot_limits(ctx)
    if newest is None or not expire.is_nothing_expired(ctx, retained, newest):
        expire.expire_snapshots(ctx, retained)
