"""Rollback to an older state: the snapshots, long-lived changelogs and tags after it are removed.

    LATEST = 5 ─▶ snapshot 9 … 6, newest first ─▶ changelogs after 5 ─▶ tags after 5

Each step leaves a consistent table in a state between: the hint is not believed while snapshot 6 exists. Data files
stay: they are orphans, and removed as such. A snapshot that only a tag keeps is written again first; a gap follows it
then, so that the hint is written at the end. Where main was fast-forwarded to a branch, a tag may be of another
snapshot than the one that has its id now, which it replaces.
Source: ENGINE.md 5.13; `RollbackHelper`, `RollbackToWatermarkProcedure`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.errors import Conflict, Corrupt, InvalidOption, LakekitError
from lakekit.maintenance import roots, tags as tagging
from lakekit.maintenance.result import Expired
from lakekit.metadata import manifest_reader, schemas, snapshots, tags
from lakekit.model import hint
from lakekit.world import parallel_map

if TYPE_CHECKING:
    from datetime import datetime

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot


def rollback(
    ctx: TableContext, to: int | str | datetime | None = None, *, watermark: int | None = None, dry_run: bool = False
) -> Expired:
    """Make an older snapshot the newest one again: by its id, a tag, a time, or a watermark.

    A time or watermark means the newest snapshot at or before it. Where every watermark is greater, nothing is changed:
    the engine's releases up to 1.4.2 went to the first snapshot then, which is later than what was asked.

    Raises: `SnapshotNotFound`, `TagNotFound`; `Corrupt` where the schema, a list or a manifest of the snapshot is lost
    or damaged; `InvalidOption` unless one of `to` and `watermark` is given; `Conflict` where a writer committed
    meanwhile, whose snapshot then stands.
    """
    roots.check_removable(ctx)
    if (to is None) == (watermark is None):
        raise InvalidOption(
            f"{ctx.name} goes back to one state: give a snapshot, a tag or a time, or else a watermark",
            key="to",
            value=str(to),
        )
    target = tagging.source(ctx, to) if watermark is None else snapshots.before_watermark(ctx, watermark)
    check_whole(ctx, target)
    every = roots.read_branch_roots(ctx)
    later = [root for root in every if root.snapshot.id > target.id]
    ids = sorted((root.snapshot.id for root in later if root.kind == "snapshot"), reverse=True)
    names = tuple(root.name for root in later if root.kind == "tag")
    done = Expired(table=ctx.name, snapshot_ids=tuple(reversed(ids)), tags=names, dry_run=dry_run)
    if dry_run:
        return done
    storage, layout = ctx.storage, ctx.layout
    existing = next((root for root in every if root.kind == "snapshot" and root.snapshot.id == target.id), None)
    if existing is None:
        _bring_back(ctx, target)
        storage.put(layout.earliest_hint, hint.encode(target.id))
    elif existing.snapshot != target:
        roots.write(ctx, existing.path, _without_lost_changelog(ctx, target).to_json())
    with suppress(LakekitError):  # a hint is advice
        if ids and ids[-1] != target.id + 1:
            storage.delete([layout.latest_hint])
        else:
            storage.put(layout.latest_hint, hint.encode(target.id))
    storage.delete([layout.snapshot(number) for number in ids])
    _changelogs(ctx, later, target.id)
    storage.delete([root.path for root in later if root.kind == "tag"])
    if ctx.options.tag_create_success_file:
        storage.delete([tagging.success_path(ctx, name) for name in names])
    newer = [number for number in snapshots.ids(ctx) if number > target.id]
    if newer:
        raise Conflict(
            f"a writer committed snapshot {newer[-1]} of {ctx.name} meanwhile, which stands. Stop writers, and roll "
            "back again"
        )
    with suppress(LakekitError):
        storage.put(layout.latest_hint, hint.encode(target.id))
    return done


def check_whole(ctx: TableContext, target: Snapshot) -> None:
    """Raise `Corrupt` where no read of the snapshot could be planned, so that newer ones must be kept."""
    schemas.read(ctx, target.schema_id)
    storage, layout = ctx.storage, ctx.layout
    lists = [
        name
        for name in (target.base_manifest_list, target.delta_manifest_list, target.index_manifest)
        if name is not None
    ]
    lost = [name for name in lists if not storage.exists(layout.manifest(name))]
    if not lost:
        names = [file.name for file in manifest_reader.manifest_files(ctx, target)]
        presence = parallel_map(lambda name: storage.exists(layout.manifest(name)), names, waiting=storage.is_remote)
        lost = [name for name, is_present in zip(names, presence, strict=True) if not is_present]
    if lost:
        msg = (
            f"snapshot {target.id} of {ctx.name} needs {lost[0]}, which is not there: nobody could read it, and "
            "nothing was changed. Go back to another snapshot or tag, or put the file back from a copy"
        )
        raise Corrupt(msg, path=layout.manifest(lost[0]))
    manifest_reader.read_live_entries(ctx, target)
    manifest_reader.index_entries(ctx, target)


def _bring_back(ctx: TableContext, target: Snapshot) -> None:
    """Write the file of a snapshot again that only tags keep.

    Raises: `Conflict` where the tags are deleted meanwhile; the file is deleted again then.
    """
    keep = [ctx.layout.tag(tag.name) for tag in tags.all(ctx) if tag.snapshot == target]
    path = ctx.layout.snapshot(target.id)
    ctx.storage.put_if_absent(path, target.to_json())
    if not any(map(ctx.storage.exists, keep)):
        ctx.storage.delete([path])
        raise Conflict(
            f"the tag that kept snapshot {target.id} of {ctx.name} was deleted meanwhile. Nothing was changed"
        )


def _without_lost_changelog(ctx: TableContext, target: Snapshot) -> Snapshot:
    """Return a tag's snapshot without its changelog, if that was deleted when the snapshot expired.

    A missing changelog is expected of the oldest snapshot, but not of one between others.
    """
    name = target.changelog_manifest_list
    if name is None or ctx.storage.exists(ctx.layout.manifest(name)):
        return target
    return replace(target, changelog_manifest_list=None, changelog_manifest_list_size=None, changelog_record_count=None)


def _changelogs(ctx: TableContext, later: list[roots.GcRoot], target: int) -> None:
    removed = sorted((root.snapshot.id for root in later if root.kind == "changelog"), reverse=True)
    if not removed:
        return
    left = [number for number in snapshots.changelog_ids(ctx) if number <= target]
    with suppress(LakekitError):
        if left:
            ctx.storage.put(ctx.layout.changelog_latest_hint, hint.encode(left[-1]))
        else:
            ctx.storage.delete([ctx.layout.changelog_latest_hint])
    ctx.storage.delete([ctx.layout.changelog(number) for number in removed])
