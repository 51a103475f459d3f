"""Expiry of old snapshots and long-lived changelogs, with the files that nothing else needs.

    earliest                        end                latest
       1 ─── 2 ─── 3 ─── 4 ─── 5 ─── 6 ─── 7 ─── 8 ─── 9
       └───── expired ─────────────┘ └─ retain_min, consumers, time ─┘

    read all roots ─▶ what only removed ones need ─▶ root files go ─▶ all roots again ─▶ files go      (`delete_roots`)
                      fails: nothing was deleted                      fails: they are orphans

Where changelogs outlive snapshots (`changelog.num-retained.*`, `changelog.time-retained`), a snapshot leaves
`changelog/changelog-N` behind. Root files go first (RELIABILITY D4): a process that dies leaves files that nothing
refers to, never a snapshot without its files. Roots are read again after that, because a tag or a branch may have been
created meanwhile: its creator checks afterwards that the source still exists, so that one of the two sees the other.

Source: ENGINE.md 5.9, ENGINE_1.4.2.md (a snapshot's own time decides), FORMAT.md 3.8, 3.9; `ExpireSnapshotsImpl`,
`ExpireChangelogImpl`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from lakekit.errors import Conflict, Corrupt, InvalidOption, LakekitError
from lakekit.maintenance import consumers, reachability
from lakekit.maintenance.arguments import parse_count
from lakekit.maintenance.reachability import UnreachableFiles, reachable_only_from
from lakekit.maintenance.result import DeletionResult, make_deletion_result
from lakekit.metadata import snapshots
from lakekit.model import snapshot
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakekit.maintenance.reachability import GcRoot
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot


def delete_roots(
    ctx: TableContext,
    removed_roots: Sequence[GcRoot],
    all_roots: Sequence[GcRoot],
    delete_root_files: Callable[[], None] | None,
    *,
    new_roots: Sequence[GcRoot] = (),
    deletes: Callable[[Sequence[str]], None] | None = None,
) -> UnreachableFiles:
    """Delete some of all roots with the files that only they need, and return these files.

    `delete_root_files` deletes the files of the roots themselves; None: nothing is deleted at all. `new_roots`: roots
    that `delete_root_files` makes.
    `deletes`: deletes the other files, once the roots are deleted; None: the storage does, in this process.
    Raises what reading the roots raises: if that was before `delete_root_files`, nothing changed.
    """
    paths = {root.path for root in removed_roots}
    retained = [root for root in all_roots if root.path not in paths]
    unreachable = _find_unreachable(ctx, removed_roots, retained, new_roots)
    if delete_root_files is None:
        return unreachable
    delete_root_files()
    if not unreachable.paths:
        return unreachable
    seen = {root.path: root.snapshot for root in (*retained, *new_roots)}
    came = [root for root in reachability.read_all_roots(ctx) if seen.get(root.path) != root.snapshot]
    if came:
        unreachable = _find_unreachable(ctx, removed_roots, [*retained, *came], new_roots)
    (deletes or ctx.storage.delete)(unreachable.paths)
    _remove_empty_directories(ctx, unreachable)
    return unreachable


def _find_unreachable(
    ctx: TableContext, removed_roots: Sequence[GcRoot], retained: Sequence[GcRoot], new_roots: Sequence[GcRoot]
) -> UnreachableFiles:
    """Return the files that only removed roots need.

    Raises: `Conflict` if another process deletes meanwhile, `Corrupt` if a file is lost that a retained root needs.
    """
    try:
        return reachable_only_from(ctx, removed_roots, [*retained, *new_roots])
    except FileMissing as missing:
        if any(ctx.storage.stat(root.path) is None for root in retained):
            msg = (
                f"{missing.path} vanished while it was looked at: another process deletes in {ctx.name} too. Do it "
                "again when that is done"
            )
            raise Conflict(msg) from missing
        lost = missing.message.partition(". ")[0]
        remedy = "put it back from a copy, or give up what needs it (t.delete_tag, t.delete_branch, t.rollback)"
        raise Corrupt(
            f"{lost}: what else is needed cannot be told, so no file is deleted. Remedy: {remedy}", path=missing.path
        ) from missing


def _remove_empty_directories(ctx: TableContext, unreachable: UnreachableFiles) -> None:
    """Remove empty directories, buckets, then partitions upwards, if `snapshot.clean-empty-directories`."""
    if not ctx.options.snapshot_clean_empty_directories:
        return
    root = ctx.root.rstrip("/")
    emptied = {path.rpartition("/")[0] for path in unreachable.data}
    above = set(emptied)
    for directory in emptied:
        parent = directory.rpartition("/")[0]
        while parent.startswith(f"{root}/") and parent != root:
            above.add(parent)
            parent = parent.rpartition("/")[0]
    ctx.storage.remove_directories(sorted(above, key=lambda path: (-path.count("/"), path)))


# ---- expire ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    """The most and fewest that are kept, the time since which they are kept, and how many expire at once."""

    max_count: int
    min_count: int
    since_ms: int
    max_expires: int

    def __post_init__(self) -> None:
        if self.max_count < self.min_count or self.min_count < 1:
            msg = (
                f"at most {self.max_count} and at least {self.min_count} are to be kept, which cannot be: give both "
                "retain_max and retain_min, the first not less than "
                "the second, and neither 0 (the one that is not given is the table's option num-retained.max or "
                "num-retained.min)"
            )
            raise InvalidOption(msg, key="retain_max", value=str(self.max_count))


def snapshot_limits(ctx: TableContext) -> RetentionLimits:
    """Return the retention of snapshots by the table's options."""
    options = ctx.options
    since = ctx.runtime.now_ms() - options.snapshot_time_retained_ms
    return RetentionLimits(
        max_count=options.snapshot_num_retained_max,
        min_count=options.snapshot_num_retained_min,
        since_ms=since,
        max_expires=options.snapshot_expire_limit,
    )


def changelog_limits(ctx: TableContext) -> RetentionLimits:
    """Return the retention of long-lived changelogs by the table's options."""
    fewest, most, age = ctx.options.changelog_retained
    return RetentionLimits(
        max_count=most,
        min_count=fewest,
        since_ms=ctx.runtime.now_ms() - age,
        max_expires=ctx.options.snapshot_expire_limit,
    )


def override_limits(
    retained: RetentionLimits,
    *,
    retain_max: int | None,
    retain_min: int | None,
    older_than_ms: int | None,
    max_deletes: int | None,
) -> RetentionLimits:
    """Return the limits with a caller's arguments in place of those that are given.

    Raises: `InvalidOption` for a value that is no count.
    """
    arguments = {
        "max_count": ("retain_max", retain_max),
        "min_count": ("retain_min", retain_min),
        "max_expires": ("max_deletes", max_deletes),
    }
    counts = {name: parse_count(value, key) for name, (key, value) in arguments.items() if value is not None}
    return replace(retained, since_ms=retained.since_ms if older_than_ms is None else older_than_ms, **counts)


# ---- snapshots -----------------------------------------------------------------------------------


def is_nothing_expired(ctx: TableContext, retained: RetentionLimits, newest_id: int) -> bool:
    """Return True if no snapshot can expire, judged by the oldest one alone; False if unsure.

    This saves a commit to a table with thousands of young snapshots from listing them. The hint that names the oldest
    is verified. Over a network False is returned: a listing is cheaper there.
    """
    storage, layout = ctx.storage, ctx.paths
    if storage.is_remote:
        return False
    with suppress(LakekitError):
        first = snapshot.decode_hint(storage.read(layout.earliest_hint, 0, 32))
        if first is None or storage.exists(layout.snapshot(first - 1)):
            return False
        count = newest_id - first + 1
        oldest = snapshots.find(ctx, first)
        return (
            oldest is not None
            and count <= retained.max_count
            and (count <= retained.min_count or oldest.time_millis >= retained.since_ms)
        )
    return False


def expire_snapshots(
    ctx: TableContext,
    retained: RetentionLimits,
    *,
    dry_run: bool = False,
    deletes: Callable[[Sequence[str]], None] | None = None,
) -> DeletionResult:
    """Remove the snapshots that need not be retained.

    Consumers keep those that they have not read, or only their changelogs (`consumer.changelog-only`). `deletes`:
    deletes the files that only these snapshots needed; None: the storage does, in this process.
    Raises what reading the roots of the table raises: then nothing was deleted.
    """
    reachability.check_removable(ctx)
    snapshot_ids = snapshots.ids(ctx)
    low, end = _age_range(ctx, retained, snapshot_ids)
    if (
        not snapshot_ids
        or end <= snapshot_ids[0]
        or (low == snapshot_ids[0] and _is_within_retention(snapshots.find(ctx, low), retained))
    ):
        if snapshot_ids and not dry_run and not ctx.storage.exists(ctx.paths.earliest_hint):
            _write_earliest_hint(ctx, snapshot_ids[0])
        return DeletionResult(table=ctx.name, dry_run=dry_run)
    everything = reachability.read_all_roots(ctx)
    own = [root for root in everything if root.branch == ctx.paths.branch]
    end = _first_within_retention(
        own,
        "snapshot",
        range(low, end),
        retained,
        min([number for number in snapshot_ids if number >= end] or [snapshot_ids[-1]]),
    )
    expired = sorted(
        (root for root in own if root.kind == "snapshot" and root.snapshot.id < end), key=lambda root: root.snapshot.id
    )
    stays = [_changelog_root(ctx, root) for root in expired] if _has_longer_changelogs(ctx, retained) else []

    def drop() -> None:
        for root in stays:
            reachability.write_root_file(ctx, root.path, root.snapshot.to_json())
        if stays:
            with suppress(LakekitError):
                ctx.storage.put(ctx.paths.changelog_latest_hint, snapshot.encode_hint(stays[-1].snapshot.id))
        _repair_latest_hint(ctx, end, snapshot_ids[-1])
        ctx.storage.delete([root.path for root in expired])
        _write_earliest_hint(ctx, end)

    unreachable = delete_roots(ctx, expired, everything, None if dry_run else drop, new_roots=stays, deletes=deletes)
    return make_deletion_result(
        ctx.name, unreachable, dry_run=dry_run, snapshot_ids=tuple(root.snapshot.id for root in expired)
    )


def _has_longer_changelogs(ctx: TableContext, retained: RetentionLimits) -> bool:
    """Return whether changelogs are kept longer than snapshots are now.

    Limits that no option sets are those of snapshots.
    """
    options = ctx.options
    fewest, most, age = (
        options.changelog_num_retained_min,
        options.changelog_num_retained_max,
        options.changelog_time_retained_ms,
    )
    longer = age is not None and ctx.runtime.now_ms() - age < retained.since_ms
    return longer or (fewest or 0) > retained.min_count or (most or 0) > retained.max_count


def _age_range(ctx: TableContext, retained: RetentionLimits, snapshot_ids: Sequence[int]) -> tuple[int, int]:
    """Return the first snapshot whose age counts, and the first that stays whatever its age."""
    if not snapshot_ids:
        return 0, 0
    low = max(snapshot_ids[-1] - retained.max_count + 1, snapshot_ids[0])
    end = min(snapshot_ids[-1] - retained.min_count + 1, snapshot_ids[0] + retained.max_expires)
    options = ctx.options
    if not (
        options.consumer_changelog_only and options.changelog_outlives_snapshots
    ):  # where changelogs go with their snapshots, one keeps the other
        end = min([end, *consumers.next_snapshot_ids(ctx)])
    return low, end


def _is_within_retention(snapshot: Snapshot | None, retained: RetentionLimits) -> bool:
    """Return whether a snapshot, and all after it, is young enough to stay."""
    return snapshot is not None and snapshot.time_millis >= retained.since_ms


def _first_within_retention(
    own: Sequence[GcRoot],
    kind: Literal["snapshot", "changelog"],
    snapshot_ids: range,
    retained: RetentionLimits,
    otherwise: int,
) -> int:
    """Return the first number whose snapshot or changelog is young enough to stay; `otherwise` if none is."""
    by_id = {root.snapshot.id: root.snapshot for root in own if root.kind == kind}
    return next(
        (
            number
            for number in sorted(by_id)
            if number in snapshot_ids and _is_within_retention(by_id[number], retained)
        ),
        otherwise,
    )


def _write_earliest_hint(ctx: TableContext, snapshot_id: int) -> None:
    with suppress(LakekitError):  # a hint is advice
        ctx.storage.put(ctx.paths.earliest_hint, snapshot.encode_hint(snapshot_id))


def _repair_latest_hint(ctx: TableContext, end: int, newest: int) -> None:
    """Let the LATEST hint name the newest snapshot where it names one that expires.

    Engines that believe hints would take it for the newest once the snapshot after it is deleted too.
    """
    storage, path = ctx.storage, ctx.paths.latest_hint
    with suppress(LakekitError):
        hinted = snapshot.decode_hint(storage.read(path, 0, 32))
        if hinted is not None and hinted < end:
            storage.put(path, snapshot.encode_hint(newest))


def _changelog_root(ctx: TableContext, root: GcRoot) -> GcRoot:
    number = root.snapshot.id
    return reachability.GcRoot(
        kind="changelog",
        branch=root.branch,
        name=str(number),
        path=ctx.paths.changelog(number),
        snapshot=root.snapshot,
    )


# ---- changelogs ----------------------------------------------------------------------------------


def expire_changelogs(
    ctx: TableContext, retained: RetentionLimits, *, delete_all: bool = False, dry_run: bool = False
) -> DeletionResult:
    """Remove the long-lived changelogs that need not be retained; `delete_all`: every one.

    Snapshots count among the changelogs that are kept. Raises as `expire_snapshots` does.
    """
    reachability.check_removable(ctx)
    changelog_ids, newest = snapshots.changelog_ids(ctx), snapshots.latest_id(ctx)
    if not changelog_ids or newest is None:
        return DeletionResult(table=ctx.name, dry_run=dry_run)
    numbers = range(changelog_ids[-1] + 1) if delete_all else _changelog_age_range(ctx, retained, changelog_ids, newest)
    everything = reachability.read_all_roots(ctx)
    own = [root for root in everything if root.branch == ctx.paths.branch and root.kind == "changelog"]
    end = numbers.stop if delete_all else _first_within_retention(own, "changelog", numbers, retained, numbers.stop - 1)
    expired = sorted((root for root in own if root.snapshot.id < end), key=lambda root: root.snapshot.id)
    if not expired:
        return DeletionResult(table=ctx.name, dry_run=dry_run)

    def drop() -> None:
        ctx.storage.delete([root.path for root in expired])
        with suppress(LakekitError):
            if len(expired) == len(own):
                ctx.storage.delete([ctx.paths.changelog_latest_hint, ctx.paths.changelog_earliest_hint])
            else:
                ctx.storage.put(ctx.paths.changelog_earliest_hint, snapshot.encode_hint(end))

    unreachable = delete_roots(ctx, expired, everything, None if dry_run else drop)
    return make_deletion_result(
        ctx.name, unreachable, dry_run=dry_run, snapshot_ids=tuple(root.snapshot.id for root in expired)
    )


def _changelog_age_range(
    ctx: TableContext, retained: RetentionLimits, changelog_ids: Sequence[int], newest: int
) -> range:
    """Return the range in which age decides which changelog is the first that stays.

    The last of the range stays whatever its age; the newest changelog always does.
    """
    low = max(newest - retained.max_count + 1, changelog_ids[0])
    return range(
        low,
        min(
            [
                newest - retained.min_count + 1,
                changelog_ids[0] + retained.max_expires,
                changelog_ids[-1],
                *consumers.next_snapshot_ids(ctx),
            ]
        )
        + 1,
    )
