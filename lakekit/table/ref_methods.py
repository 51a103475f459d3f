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

    from lakekit.maintenance.result import Expired


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
        """Name a snapshot, which stays readable under the name after it expired.

        `t.create_tag("v1")`, `t.scan(at="v1")`. `at`: as in `scan`, the newest snapshot when None; an expired one that
        another tag keeps will do. Instead of it `since`, the first snapshot made at that time or later, or `watermark`,
        in milliseconds, the first one that is as far. `retain`: how long the tag lives, "7 d" or a `timedelta`;
        without, as `tag.default-time-retained` says, else for ever.

        Raises: `TagAlreadyExists`, `SnapshotNotFound`, `TagNotFound`, `InvalidOption` for a blank name, or one that is
        no part of a file's name.
        """
        keep = None if retain is None else maintenance.arguments.duration_ms(retain, "retain")
        start = None if since is None else maintenance.arguments.time_ms(since, "since")
        maintenance.tags.create(
            self._context(),
            name,
            at=at,
            since_ms=start,
            watermark=watermark,
            retain_ms=keep,
            if_not_exists=if_not_exists,
        )

    def create_automatic_tags(self, *, force: bool = False) -> list[str]:
        """Create the tags that `tag.automatic-creation` says are due; return their names, oldest first.

        They are due by the clock or by watermarks; every commit creates them too. `force`: where a period is over by
        the clock and no snapshot was made since, an empty one is committed for its tag. Nothing is done where the
        option is "none" or "batch".

        Raises: `InvalidOption` for options that make no sense together, and what a commit raises.
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
    ) -> Expired:
        """Let a tag name another snapshot, the newest when `at` is None.

        Files that only the old one needed are deleted. Without `retain` the tag lives for ever from then on, whatever
        `tag.default-time-retained` says of new ones.

        Raises: as `create_tag`.
        """
        retain_ms = None if retain is None else maintenance.arguments.duration_ms(retain, "retain")
        return maintenance.tags.replace(self._context(), name, at=at, retain_ms=retain_ms, dry_run=dry_run)

    def rename_tag(self, name: str, new: str, /) -> None:
        """Rename a tag.

        Raises: `TagNotFound`, `TagAlreadyExists`, `InvalidOption`.
        """
        maintenance.tags.rename(self._context(), name, new)

    def delete_tag(self, name: str, *, dry_run: bool = False) -> Expired:
        """Remove a tag, and the files that nothing else needs: no snapshot, tag or changelog of any branch.

        Nothing is deleted where one of those cannot be read; a tag that cannot be read itself goes alone, and files
        that only it needed are orphans then.

        Raises: `TagNotFound`, `Conflict`, `Corrupt`, `StorageFailed`.
        """
        return maintenance.tags.delete(self._context(), [name], dry_run=dry_run)

    def create_branch(self, name: str, *, tag: str | None = None) -> None:
        """Create a branch: metadata of its own over shared files.

        `tag`: begins with the rows of that tag; without, with none. `t.branch(name)` is the table seen from there, for
        reading and writing.

        Raises: `BranchAlreadyExists`, `TagNotFound`, `InvalidOption` for the names main, blank ones and numbers.
        """
        maintenance.branches.create(self._context(), name, tag=tag)

    def delete_branch(self, name: str, *, dry_run: bool = False) -> Expired:
        """Remove a branch with its snapshots and tags.

        Data files that only it had stay until orphans are cleaned.

        Raises: `BranchNotFound`; `InvalidOption` where `scan.fallback-branch` or `scan.primary-branch` of the table or
        of a branch names it.
        """
        return maintenance.branches.delete(self._context(), name, dry_run=dry_run)

    def rename_branch(self, name: str, new: str, /) -> None:
        """Rename a branch; writers to it should rest.

        Raises: `BranchNotFound`, `BranchAlreadyExists`; `InvalidOption` for a name that no branch can have, and where
        `delete_branch` raises it.
        """
        maintenance.branches.rename(self._context(), name, new)

    def fast_forward(self, name: str, *, dry_run: bool = False) -> Expired:
        """Bring the table to the state of a branch.

        From the branch's first snapshot on, its snapshots, schemas and tags take the place of the table's own. What was
        committed here since is given up: the result says which snapshots and tags; their data files stay until orphans
        are cleaned. Writers should rest.

        Raises: `BranchNotFound`, `SnapshotNotFound` for a branch without snapshots.
        """
        return maintenance.branches.fast_forward(self._context(), name, dry_run=dry_run)

    def rollback(
        self, to: int | str | datetime | None = None, /, *, watermark: int | None = None, dry_run: bool = False
    ) -> Expired:
        """Make an older snapshot the newest again, given by id, tag or time.

        A time means the newest snapshot at or before it; an expired one that a tag keeps comes back. `watermark`,
        instead of `to`, in milliseconds: the newest snapshot that is not further than that. Later snapshots, changelogs
        and tags are removed; their data files stay until orphans are cleaned. Writers should rest.

        Raises: `SnapshotNotFound`, `TagNotFound`, `InvalidOption`; `Conflict` where a writer committed meanwhile.
        """
        return maintenance.branches.rollback(self._context(), to, watermark=watermark, dry_run=dry_run)

    def reset_consumer(self, id: str, *, next_snapshot: int | None = None) -> None:  # noqa: A002 - the public name
        """Set the snapshot at which a streaming reader goes on; None forgets its position.

        Raises: `ConsumerNotFound`, `InvalidOption`.
        """
        maintenance.consumers.reset(self._context(), id, next_snapshot)
