"""Expiration of a table's snapshots, changelogs, tags, consumers and partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekit import maintenance
from lakekit.read.table_core import TableCore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from lakekit.maintenance.result import Expired


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Expiring(TableCore):
    """Methods that remove old snapshots, changelogs, tags and consumers of the table's branch.

    They also delete the files that nothing else needs. Snapshots, tags and long-lived changelogs of every branch are
    read first: where one cannot be, nothing is deleted. `dry_run=True` returns what would be removed.
    """

    def expire_snapshots(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: str | datetime | timedelta | None = None,
        max_deletes: int | None = None,
        dry_run: bool = False,
    ) -> Expired:
        """Remove old snapshots, oldest first: all beyond `retain_max`, and those made before `older_than`.

        The newest `retain_min` stay. `older_than` is a time, or an age: a `timedelta`, or a text such as "7 d".

        What is None is as the options `snapshot.num-retained.max`, `snapshot.num-retained.min`,
        `snapshot.time-retained` and `snapshot.expire.limit` say. A snapshot that a consumer has not read stays, and all
        after it. Where changelogs are kept longer, each snapshot leaves its own.

        Raises: `InvalidOption`; `Conflict`, `Corrupt`, `StorageFailed` where it is not sure what may go.
        """
        ctx = self.handle()
        since = maintenance.arguments.before_ms(older_than, "older_than", ctx.world.now_ms())
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
    ) -> Expired:
        """Remove long-lived changelogs as `expire_snapshots` removes snapshots; the newest one stays.

        Snapshots count among those that are retained. What is None is as the options `changelog.num-retained.max`,
        `changelog.num-retained.min` and `changelog.time-retained` say. `delete_all` removes every one. `snapshot_ids`
        of the result are theirs.

        Raises: as `expire_snapshots`.
        """
        ctx = self.handle()
        since = maintenance.arguments.before_ms(older_than, "older_than", ctx.world.now_ms())
        limits = maintenance.expire.changelog_limits(ctx)
        limits = maintenance.expire.override_limits(
            limits, retain_max=retain_max, retain_min=retain_min, older_than_ms=since, max_deletes=max_deletes
        )
        return maintenance.expire.expire_changelogs(ctx, limits, delete_all=delete_all, dry_run=dry_run)

    def expire_tags(self, *, older_than: str | datetime | timedelta | None = None, dry_run: bool = False) -> Expired:
        """Remove the tags whose time is over, and with `older_than` those that were made before it.

        Raises: as `expire_snapshots`.
        """
        ctx = self.handle()
        since = maintenance.arguments.before_ms(older_than, "older_than", ctx.world.now_ms())
        return maintenance.auto_tags.expire(ctx, older_than_ms=since, dry_run=dry_run)

    def expire_consumers(
        self,
        *,
        expiration: str | timedelta | None = None,
        including: str | None = None,
        excluding: str | None = None,
        dry_run: bool = False,
    ) -> Expired:
        """Remove consumers that recorded nothing for so long; snapshots are no longer kept for them.

        `expiration` None is `consumer.expiration-time`. With `including`, a regular expression that whole ids match,
        those however old they are; `excluding` spares some.

        Raises: `InvalidOption`, also where nothing says which.
        """
        return maintenance.consumers.expire_old(
            self.handle(),
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
    ) -> Expired:
        """Drop partitions older than `expiration`.

        Their rows are gone from the newest snapshot, their files when earlier snapshots expire. `strategy`:
        "values-time", a partition is as old as its values say (`timestamp_pattern`, such as "$dt $hm",
        `timestamp_formatter`, such as "yyyyMMdd"); "update-time", as its newest file. What is None is as the options
        `partition.*` say.

        Raises: `InvalidOption`, `Conflict`.
        """
        return maintenance.expire_partitions.expire(
            self.handle(),
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
        where the service cannot be reached or does not answer SUCCESS.
        """
        maintenance.expire_partitions.mark_done(
            self.handle(), [partitions] if isinstance(partitions, (dict, str)) else partitions
        )
