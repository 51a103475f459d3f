"""Tags created, moved, renamed and deleted.

    create(ctx, "v1", at=3, retain_ms=…)           tag/tag-v1 = snapshot 3
    create(ctx, "v1", since_ms=1711843200000)      the first snapshot made then or later;
                                                   watermark=… is the first that is as far
    delete(ctx, ["v1"])                            its file, and the files that only it needed

A tag keeps its snapshot readable after that expired. Source: ENGINE.md 5.10 and 11, FORMAT.md 3.4; `TagManager`,
`TagDeletion`, `SuccessFileTagCallback`, `CreateTagFromTimestampProcedure`, `CreateTagFromWatermarkProcedure`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lakekit.errors import Conflict, Corrupt, InvalidOption, SnapshotNotFound, TagAlreadyExists
from lakekit.maintenance import removal, roots, success_file
from lakekit.maintenance.reachability import UnreachableFiles
from lakekit.maintenance.result import Expired, make_expired
from lakekit.metadata import snapshots, tags
from lakekit.model.table_paths import flaw
from lakekit.model.tag import Tag
from lakekit.read import auto_tags, time_travel
from lakekit.types import Instant
from lakekit.world import wall_clock_ms

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot

_NANOS = 1_000_000
_ATTEMPTS = 5
"""The newest snapshot may expire while it gets a name: then the one after it gets that."""


def create(
    ctx: TableContext,
    name: str,
    *,
    at: int | str | datetime | None = None,
    since_ms: int | None = None,
    watermark: int | None = None,
    retain_ms: int | None = None,
    if_not_exists: bool = False,
) -> Tag:
    """Create a tag of the newest snapshot, that of `at`, or the first since a time or with a watermark.

    The snapshot may have expired, if another tag keeps it. Without `retain_ms` the tag lives as long as
    `tag.default-time-retained` says, else for ever.

    Raises: `TagAlreadyExists`, `SnapshotNotFound`, `TagNotFound`, `InvalidOption` for an invalid name.
    """
    check_name(name)
    arguments = [key for key, value in (("at", at), ("since", since_ms), ("watermark", watermark)) if value is not None]
    if len(arguments) > 1:
        raise InvalidOption(
            f"tag {name!r} of {ctx.name} names one snapshot: give {arguments[0]} or {arguments[1]}, not both",
            key=arguments[1],
            value=None,
        )
    existing = tags.find(ctx, name)
    if existing is not None:
        if if_not_exists:
            return existing
        raise _exists(ctx, name)
    tries = 1 if arguments else _ATTEMPTS
    while True:
        tries -= 1
        lives_ms = ctx.options.tag_default_time_retained_ms if retain_ms is None else retain_ms
        tag = _tag(ctx, name, _find_snapshot(ctx, at, since_ms, watermark), lives_ms)
        _refuse_second(ctx, tag)
        try:
            return put(ctx, tag, if_not_exists=if_not_exists)
        except SnapshotNotFound:
            if not tries:
                raise


def put(ctx: TableContext, tag: Tag, *, if_not_exists: bool = False) -> Tag:
    """Write a new tag; where its snapshot expires at this moment, delete it again.

    Raises: `TagAlreadyExists`, `SnapshotNotFound`.
    """
    keep, path = referencing_paths(ctx, tag.snapshot), ctx.layout.tag(tag.name)
    if not ctx.storage.put_if_absent(path, tag.to_json()):
        if if_not_exists:
            return tags.read(ctx, tag.name)
        raise _exists(ctx, tag.name)
    if not any(map(ctx.storage.exists, keep)):
        ctx.storage.delete([path])
        raise _snapshot_expired(ctx, tag)
    if ctx.options.tag_create_success_file:
        success_file.write(ctx.storage, success_path(ctx, tag.name), ctx.world.now_ms())
    return tag


def replace(
    ctx: TableContext,
    name: str,
    *,
    at: int | str | datetime | None = None,
    retain_ms: int | None = None,
    dry_run: bool = False,
) -> Expired:
    """Move a tag to another snapshot, and delete the files that only the old one needed.

    Without `retain_ms` it lives for ever: as in the reference, `tag.default-time-retained` is for new tags.

    Raises: `TagNotFound`, `SnapshotNotFound`.
    """
    roots.check_removable(ctx)
    check_name(name)
    old = tags.read(ctx, name)
    tag = _tag(ctx, name, source(ctx, at), retain_ms)
    keep, path = referencing_paths(ctx, tag.snapshot), ctx.layout.tag(name)
    everything = roots.read_all_roots(ctx)
    replaced = [root for root in everything if root.path == path and root.snapshot != tag.snapshot]
    new = roots.GcRoot(kind="tag", branch=ctx.layout.branch, name=name, path=path, snapshot=tag.snapshot)

    def drop() -> None:
        roots.write(ctx, path, tag.to_json())
        if not any(map(ctx.storage.exists, keep)):
            roots.write(ctx, path, old.to_json())
            raise _snapshot_expired(ctx, tag)

    unreachable = removal.remove(ctx, replaced, everything, None if dry_run else drop, stays=[new])
    return make_expired(ctx.name, unreachable, dry_run=dry_run)


def rename(ctx: TableContext, name: str, new: str) -> None:
    """Another name for a tag. Raises `TagNotFound`, `TagAlreadyExists`, `InvalidOption`."""
    tag = tags.read(ctx, name)
    check_name(new)
    path = ctx.layout.tag(new)
    if tags.find(ctx, new) is not None or not ctx.storage.put_if_absent(
        path, ctx.storage.read(ctx.layout.tag(tag.name))
    ):
        raise _exists(ctx, new)
    ctx.storage.delete([ctx.layout.tag(name)])


def delete(ctx: TableContext, names: Sequence[str], *, dry_run: bool = False) -> Expired:
    """Delete tags, and the files that nothing else needs.

    Of a tag that cannot be read only its own file is deleted, as the files that it needs are unknown.

    Raises: `TagNotFound`; an error while roots are read leaves all as it was (see `removal`), but for tags that cannot
    be read.
    """
    roots.check_removable(ctx)
    readable = [name for name in names if _is_readable(ctx, name)]
    if not dry_run:
        _drop(ctx, [name for name in names if name not in readable])
    unreachable = UnreachableFiles()
    if readable:
        everything = roots.read_all_roots(ctx)
        paths = {ctx.layout.tag(name) for name in readable}
        removed = [root for root in everything if root.path in paths]
        unreachable = removal.remove(ctx, removed, everything, None if dry_run else partial(_drop, ctx, readable))
    return make_expired(ctx.name, unreachable, dry_run=dry_run, tags=tuple(names))


def _is_readable(ctx: TableContext, name: str) -> bool:
    """Whether a tag says what it names. Raises `TagNotFound`."""
    try:
        tags.read(ctx, name)
    except Corrupt:
        return False
    return True


def _drop(ctx: TableContext, names: Sequence[str]) -> None:
    if not names:
        return
    ctx.storage.delete([ctx.layout.tag(name) for name in names])
    if ctx.options.tag_create_success_file:
        ctx.storage.delete([success_path(ctx, name) for name in names])


# ---- names and sources ---------------------------------------------------------------------------


def check_name(name: str) -> None:
    """Raise `InvalidOption` for a name that no tag can have."""
    if not isinstance(name, str):
        msg = f"a tag's name is a text, not {type(name).__name__}"
        raise TypeError(msg)
    if not name.strip():
        raise InvalidOption("a tag's name must not be blank", key="name", value=name)
    why = flaw(name, "tag-")
    if why is not None:
        raise InvalidOption(f"{name[:80]!a} cannot be a tag's name: {why}", key="name", value=name)


def source(ctx: TableContext, at: int | str | datetime | None) -> Snapshot:
    """Return the snapshot that `at` means, also one that only a tag keeps.

    Raises: `SnapshotNotFound`, `TagNotFound`.
    """
    number = at if isinstance(at, int) and not isinstance(at, bool) else None
    if isinstance(at, str) and tags.find(ctx, at) is None:
        number = time_travel.digits(at)
    if number is not None and 0 <= number < 2**63 and snapshots.find(ctx, number) is None:
        tagged = [tag.snapshot for tag in tags.all(ctx) if tag.snapshot.id == number]
        if tagged:
            return tagged[0]
    snapshot = snapshots.latest(ctx) if at is None else time_travel.locate(ctx, at).snapshot
    if snapshot is None:
        raise SnapshotNotFound(f"{ctx.name} has no snapshots yet, so there is nothing to name")
    return snapshot


def _find_snapshot(
    ctx: TableContext, at: int | str | datetime | None, since_ms: int | None, watermark: int | None
) -> Snapshot:
    if since_ms is not None:
        return _first_snapshot_since(ctx, since_ms)
    return source(ctx, at) if watermark is None else _first_snapshot_at_watermark(ctx, watermark)


def _first_snapshot_since(ctx: TableContext, time_ms: int) -> Snapshot:
    """Return the first snapshot made at or after a time. Raises `SnapshotNotFound`."""
    snapshot = snapshots.first_since(ctx, time_ms)
    tagged = next((tag.snapshot for tag in tags.all(ctx) if tag.snapshot.time_millis >= time_ms), None)
    if tagged is not None and (snapshot is None or tagged.time_millis < snapshot.time_millis):
        return tagged
    if snapshot is None:
        msg = f"{ctx.name} has no snapshot at or after {snapshots.moment(time_ms)}; {snapshots.describe_times(ctx)}"
        raise SnapshotNotFound(msg, name=str(time_ms))
    return snapshot


def _first_snapshot_at_watermark(ctx: TableContext, watermark: int) -> Snapshot:
    """Return the first snapshot whose watermark is at least that. Raises `SnapshotNotFound`."""
    marks = ((tag.snapshot, tag.snapshot.watermark_or_none) for tag in tags.all(ctx))
    tagged = next(((snapshot, mark) for snapshot, mark in marks if mark is not None and mark >= watermark), None)
    try:
        untagged = snapshots.at_watermark(ctx, watermark)
    except SnapshotNotFound:
        if tagged is None:
            raise
        return tagged[0]
    mark = untagged.watermark_or_none
    return tagged[0] if tagged is not None and (mark is None or tagged[1] < mark) else untagged


def _tag(ctx: TableContext, name: str, snapshot: Snapshot, retain_ms: int | None) -> Tag:
    if retain_ms is None:
        return Tag(name=name, snapshot=snapshot)  # readers of 0.7 and older know no more
    return Tag(
        name=name,
        snapshot=snapshot,
        create_time=Instant(wall_clock_ms(ctx.world.now_ms()), 0),
        time_retained_ns=retain_ms * _NANOS,
    )


def _exists(ctx: TableContext, name: str) -> TagAlreadyExists:
    return TagAlreadyExists(
        f"{ctx.name} has a tag {name!r}; t.replace_tag({name!r}) lets it name another snapshot", name=name
    )


def _refuse_second(ctx: TableContext, tag: Tag) -> None:
    """Raise `Conflict` where the snapshot has another automatic tag already.

    The period of the last automatic tag is read from its name, so there must be one at most.
    """
    if ctx.options.tag_automatic_creation not in auto_tags.BY_CLOCK or auto_tags.period_of(ctx, tag.name) is None:
        return
    same = [
        other.name
        for other in tags.all(ctx)
        if other.snapshot.id == tag.snapshot.id and auto_tags.period_of(ctx, other.name) is not None
    ]
    if same:
        raise Conflict(
            f"snapshot {tag.snapshot.id} of {ctx.name} has the automatic tag {same[0]!r}, and {tag.name!r} is the "
            "name of another one. Give another name"
        )


def referencing_paths(ctx: TableContext, snapshot: Snapshot) -> list[str]:
    """Return the files that keep a snapshot: its own, and those of its tags."""
    own = [ctx.layout.snapshot(snapshot.id)] if snapshots.find(ctx, snapshot.id) == snapshot else []
    return [*own, *(ctx.layout.tag(tag.name) for tag in tags.all(ctx) if tag.snapshot == snapshot)]


def _snapshot_expired(ctx: TableContext, tag: Tag) -> SnapshotNotFound:
    return SnapshotNotFound(
        f"snapshot {tag.snapshot.id} of {ctx.name} expired while tag {tag.name!r} was made. Nothing was changed. "
        f"{snapshots.describe_range(ctx)}",
        name=str(tag.snapshot.id),
    )


def success_path(ctx: TableContext, name: str) -> str:
    """Return the file that says a tag exists, used with the option `tag.create-success-file`."""
    return f"{ctx.layout.tag_dir}/tag-success-file/{name}_SUCCESS"
