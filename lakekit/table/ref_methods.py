"""Methods of a table for tags, branches, rollback and consumers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit import maintenance
from lakekit.read.table_scan import TableCore
from lakekit.system_tables import frames

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    import polars as pl

    from lakekit.maintenance.result import DeletionResult


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RefMethods(TableCore):
    """Methods for tags, branches, rollback and consumers of the table's branch."""

    def tags(self) -> pl.DataFrame:
        """Return every tag, one row each."""
        return frames.tags(self._context())

    def branches(self) -> pl.DataFrame:
        """Return every branch but main, one row each."""
        return frames.branches(self._context())

    def consumers(self) -> pl.DataFrame:
        """Return every consumer, one row each."""
        return frames.consumers(self._context())

    def create_tag(
        self,
        name: str,
        *,
        at: int | str | datetime | None = None,
        since: str | datetime | None = None,
        watermark: int | None = None,
        retain: str | timedelta | None = None,
        if_not_exists: bool = False,
    ) -> None:
        """Create a tag for a snapshot, which stays readable under the tag's name after the snapshot has expired.

        `t.create_tag("v1")`, `t.scan(at="v1")`. The snapshot is given by one of three arguments. `at`: a snapshot as in
        `scan`, also an expired snapshot that another tag keeps; None: the newest snapshot. `since`: the first snapshot
        that was made at that time or later. `watermark`: the first snapshot with a watermark (in milliseconds) that is
        equal or greater. `retain`: how long the tag lives, "7 d" or a `timedelta`; None: as `tag.default-time-retained`
        says, or for ever if that option is not set.

        Raises: `TagAlreadyExists`, `SnapshotNotFound`, `TagNotFound`, `InvalidOption` for a blank name, or a name that
        cannot be part of a file name.
        """
        keep = None if retain is None else maintenance.arguments.duration_ms(retain, "retain")
        start = None if since is None else maintenance.arguments.time_ms(since, "since")
        maintenance.tags.create_tag(
            self._context(),
            name,
            at=at,
            since_ms=start,
            watermark=watermark,
            retain_ms=keep,
            if_not_exists=if_not_exists,
        )

    def create_automatic_tags(self, *, force: bool = False) -> list[str]:
        """Create the tags that are due by `tag.automatic-creation`; return their names, oldest first.

        The option says whether the clock or the watermark decides; every commit creates due tags too. `force`: if a
        period is over by the clock and no snapshot was made since, an empty snapshot is committed, and gets the tag.
        Nothing is done where the option is "none" or "batch".

        Raises: `InvalidOption` for options that contradict each other, and the errors of a commit.
        """
        return (
            maintenance.tags.create_forced_tags(self._context())
            if force
            else maintenance.tags.create_automatic_tags(self._context())
        )

    def replace_tag(
        self,
        name: str,
        *,
        at: int | str | datetime | None = None,
        retain: str | timedelta | None = None,
        dry_run: bool = False,
    ) -> DeletionResult:
        """Let a tag name another snapshot; `at` None: the newest snapshot.

        Files that only the tag's old snapshot needed are deleted. Without `retain` the tag then lives for ever, because
        `tag.default-time-retained` applies to new tags only.

        Raises: as `create_tag`.
        """
        retain_ms = None if retain is None else maintenance.arguments.duration_ms(retain, "retain")
        return maintenance.tags.replace_tag(self._context(), name, at=at, retain_ms=retain_ms, dry_run=dry_run)

    def rename_tag(self, name: str, new: str, /) -> None:
        """Rename a tag.

        Raises: `TagNotFound`, `TagAlreadyExists`, `InvalidOption`.
        """
        maintenance.tags.rename_tag(self._context(), name, new)

    def delete_tag(self, name: str, *, dry_run: bool = False) -> DeletionResult:
        """Remove a tag, and the files that no snapshot, tag or changelog of any branch needs any more.

        If one of these cannot be read, nothing is deleted. If the tag itself cannot be read, only the tag is removed,
        and the files that only it needed become orphan files.

        Raises: `TagNotFound`, `Conflict`, `Corrupt`, `StorageFailed`.
        """
        return maintenance.tags.delete_tags(self._context(), [name], dry_run=dry_run)

    def create_branch(self, name: str, *, tag: str | None = None) -> None:
        """Create a branch, which has its own metadata and shares data files with the table.

        `tag`: the branch begins with the rows of this tag; None: it begins empty. `t.branch(name)` opens the table on
        the branch, for reading and writing.

        Raises: `BranchAlreadyExists`, `TagNotFound`, `InvalidOption` for the name main, blank names and numbers.
        """
        maintenance.branches.create_branch(self._context(), name, tag=tag)

    def delete_branch(self, name: str, *, dry_run: bool = False) -> DeletionResult:
        """Remove a branch with its snapshots and tags.

        Data files that only the branch had stay until orphan files are removed.

        Raises: `BranchNotFound`; `InvalidOption` if `scan.fallback-branch` or `scan.primary-branch` of the table or
        of a branch names it.
        """
        return maintenance.branches.delete_branch(self._context(), name, dry_run=dry_run)

    def rename_branch(self, name: str, new: str, /) -> None:
        """Rename a branch; nothing should write to it meanwhile.

        Raises: `BranchNotFound`, `BranchAlreadyExists`; `InvalidOption` for a name that no branch can have, and where
        `delete_branch` raises it.
        """
        maintenance.branches.rename_branch(self._context(), name, new)

    def fast_forward(self, name: str, *, dry_run: bool = False) -> DeletionResult:
        """Bring the branch that this table is opened on to the state of the branch `name`.

        From the first snapshot of `name` on, the snapshots, schemas and tags of `name` replace the table's own. Later
        commits to this branch are lost: the result lists their snapshots and tags, and their data files stay until
        orphan files are removed. Nothing should write to the table meanwhile.

        Raises: `BranchNotFound`, `SnapshotNotFound` for a branch without snapshots.
        """
        return maintenance.branches.fast_forward(self._context(), name, dry_run=dry_run)

    def rollback(
        self, to: int | str | datetime | None = None, /, *, watermark: int | None = None, dry_run: bool = False
    ) -> DeletionResult:
        """Make an older snapshot the newest again, given by id, tag or time.

        A time means the newest snapshot at or before it. An expired snapshot that a tag keeps is restored. `watermark`,
        in milliseconds, is given instead of `to`: the newest snapshot whose watermark is not greater. Later snapshots,
        changelogs and tags are removed; their data files stay until orphan files are removed. Nothing should write to
        the table meanwhile.

        Raises: `SnapshotNotFound`, `TagNotFound`, `InvalidOption`; `Conflict` if a writer committed meanwhile.
        """
        return maintenance.branches.rollback_to(self._context(), to, watermark=watermark, dry_run=dry_run)

    def reset_consumer(self, id: str, *, next_snapshot: int | None = None) -> None:  # noqa: A002 - the public name
        """Set the snapshot at which a streaming reader continues; for None, delete the consumer.

        Raises: `ConsumerNotFound`, `InvalidOption`.
        """
        maintenance.consumers.reset_consumer(self._context(), id, next_snapshot)
