"""A table copied: its schemas, options and the files of one snapshot, as another table that shares nothing with it.

    schema/schema-0 … schema-2     as made now, without options that lead to places of the source: `path`, `data-file.external-paths…`
    manifest/…                     anew: one snapshot 1 of kind APPEND that adds every live file
    dt=…/bucket-0/data-….parquet   the live files under their names, with what lies beside them (file indexes); those at external paths too
    index/…, statistics/…          deletion vectors and hash indexes, and what the snapshot knows of its columns, as they are
    left behind                    older snapshots, tags, branches, consumers, and changelog files: a stream of the clone begins with its snapshot

Java's CloneAction up to 1.1 copied files likewise, those of all schemas and of the newest snapshot; since 1.2 it reads and writes rows, and key tables become
ones with `bucket` -2. No row is decoded here, so that buckets, levels and sequence numbers stay.

The copy is made aside and moved to its place in one step, where the storage has folders; a process that dies leaves a folder `.clone-…` beside the tables,
which nobody takes for one. In object stores the schemas come after all files and the snapshot last: what dies before the schemas leaves no table, only
files that the next clone to that place takes up, and between schemas and snapshot an empty one. Source: ENGINE.md 11; `CloneAction`, `CopyFileOperator`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lakekit.care import tags as tagging
from lakekit.commit import manifests as writing, publish
from lakekit.commit.draft import Draft
from lakekit.errors import CommitStateUnknown, InvalidOption, LakekitError, SnapshotNotFound, StorageFailed, Unsupported
from lakekit.files import deletions, places
from lakekit.meta import manifests, schemas, snapshots
from lakekit.model import hint, index_manifest
from lakekit.model.layout import Layout
from lakekit.model.snapshot import BATCH_IDENTIFIER, CURRENT_VERSION, Snapshot
from lakekit.options.features import OBJECTS
from lakekit.options.frozen import EMPTY, Frozen
from lakekit.storage import folders
from lakekit.storage.folders import Folders
from lakekit.storage.protocol import FileMissing
from lakekit.storage.put_once import put_once
from lakekit.world import each

if TYPE_CHECKING:
    from datetime import datetime

    from lakekit.meta.handle import Ground, Handle
    from lakekit.model.entries import Entries
    from lakekit.model.index_file import IndexEntry
    from lakekit.model.schema import TableSchema
    from lakekit.storage.protocol import Storage

_CHUNK_BYTES = 8 << 20
_OF_PLACES = ("path", "branch", "data-file.external-paths")
"""Options that lead to where the source is, and those that begin with the last one and a dot."""
_METADATA = ("schema", "_schema", "snapshot", "changelog", "tag", "branch")
"""Folders that make a place one of a table, or of what is left of it."""


class _State(NamedTuple):
    """What is copied: the schemas, oldest first, and a snapshot; None: there is none."""

    schemas: list[TableSchema]
    snapshot: Snapshot | None


def clone(source: Handle, target: Ground, at: int | str | datetime | None = None) -> TableSchema:
    """Copies a table to a place where nothing is; the newest schema of the copy. `at`: a snapshot, tag or time, with the schema of then.

    Raises `SnapshotNotFound`, `TagNotFound`; `Unsupported` for tables that lakekit does not write, `InvalidOption` for one that is read together with
    another branch, `StorageFailed` where something lies at the place. Then there is no table; in object stores data files may be left.
    """
    _check(source)
    _check_place(target)
    state = _state(source, at)
    try:
        if isinstance(target.storage, Folders):
            _aside(source, target, state)
        else:
            _publish(target, state, _files(source, target, state))
    except FileMissing as missing:
        if state.snapshot is None or tagging.keepers(source, state.snapshot):
            raise
        raise SnapshotNotFound(
            f"snapshot {state.snapshot.id} of {source.name} expired while it was copied. Nothing was made; clone a tag, which keeps its files",
            name=str(state.snapshot.id),
        ) from missing
    return state.schemas[-1]


def _check(source: Handle) -> None:
    publish.refuse(source)
    if source.layout.hidden:
        kind = str(source.options.type)
        instead = "cat.create_object_table makes another one of the same location" if kind == OBJECTS else "it is made again by its definition"
        raise Unsupported(f"{source.name} is of type {kind}, and no clone is made of it: {instead}", feature=kind)
    if source.fallback_branch is not None:
        raise InvalidOption(
            f"{source.name} is read together with its branch {source.fallback_branch!r}, and a clone is of one branch: reset scan.fallback-branch or "
            "scan.primary-branch first",
            key="scan.fallback-branch",
            value=source.fallback_branch,
        )


def _check_place(target: Ground) -> None:
    root = target.layout.root
    found = [one.name for one in target.storage.list(root)]
    if not isinstance(target.storage, Folders):  # data files that another clone left are taken up, and halves of files passed over
        inside = (one for name in found if name in _METADATA for one in target.storage.list(f"{root}/{name}"))
        found = [one.name for one in inside if not one.name.startswith(".")]
    if found:
        raise StorageFailed(f'"{root}" holds {", ".join(found[:5])} already, though no table is known there; move it away first', path=root)


def _state(source: Handle, at: int | str | datetime | None) -> _State:
    known = schemas.all(source)
    if at is None:
        snapshot = snapshots.latest(source)
    else:
        snapshot = tagging.source(source, at)
        known = [schema for schema in known if schema.id <= snapshot.schema_id]
    return _State([_moved(schema, source.world.now_ms()) for schema in known], snapshot)


def _moved(schema: TableSchema, now_ms: int) -> TableSchema:
    """A schema of the clone, made now: that also tells the claims of two clones to one place apart."""
    kept = {key: value for key, value in schema.options.items() if not (key in _OF_PLACES or key.startswith(f"{_OF_PLACES[-1]}."))}
    return replace(schema, options=Frozen(kept), time_millis=now_ms)


# ---- where it comes to stand ---------------------------------------------------------------------------------------------------------------------------


def _aside(source: Handle, target: Ground, state: _State) -> None:
    """Makes the whole table in a folder that no catalog takes for one, and moves it."""
    above, _, own = target.layout.root.rpartition("/")
    hidden = f"{above}/.clone-{target.world.new_id()}"
    staged = replace(target, layout=Layout(root=f"{hidden}/{own}"), keeper=None)
    try:
        _publish(staged, state, _files(source, staged, state))
        folders.move(staged.storage, staged.layout.root, target.layout.root)
    finally:
        with suppress(LakekitError):
            folders.remove(staged.storage, hidden)


def _publish(target: Ground, state: _State, snapshot: Snapshot | None) -> None:
    """Schemas and snapshot. What fails takes back the schemas only: another clone of the same files to this place may count on the others."""
    made: list[str] = []
    is_first = True
    try:
        for schema in state.schemas:
            path = target.layout.schema(schema.id)
            is_first = is_first and put_once(target.storage, path, schema.to_json())
            made += [path] if is_first else []
        if snapshot is not None and is_first:
            is_first = put_once(target.storage, target.layout.snapshot(snapshot.id), snapshot.to_json())
    except CommitStateUnknown:
        raise
    except LakekitError:  # an interrupt may come after the snapshot, which then stands
        with suppress(LakekitError):
            target.storage.delete(reversed(made))
        raise
    if not is_first:
        raise StorageFailed(f'another table was made at "{target.layout.root}" at this moment, which stands', path=target.layout.root)
    if snapshot is not None:
        with suppress(LakekitError):  # a hint is advice
            for path in (target.layout.latest_hint, target.layout.earliest_hint):
                target.storage.put(path, hint.encode(snapshot.id))


def withdraw(target: Ground) -> None:
    """Takes back a clone that is not to be known: `clone` has made it, so that everything at the place is of it. Raises `StorageFailed`."""
    folders.remove(target.storage, target.layout.root, last=(target.layout.schema_dir,))


# ---- what is copied ------------------------------------------------------------------------------------------------------------------------------------


def _files(source: Handle, target: Ground, state: _State) -> Snapshot | None:
    """Copies the files of the snapshot and writes manifests that name them; the snapshot of the clone."""
    if state.snapshot is None:
        return None
    here = replace(source, name=target.name, layout=target.layout, storage=target.storage, keeper=None, dynamic=EMPTY).with_schema(state.schemas[-1])
    live = manifests.live(source, state.snapshot)
    indexes = manifests.index_entries(source, state.snapshot)
    moved_indexes = [replace(entry, external_path=None) for entry in indexes]
    pairs = _data(source, here, live)
    pairs += zip((deletions.index_path(source, one) for one in indexes), (deletions.index_path(here, one) for one in moved_indexes), strict=True)
    statistics = state.snapshot.statistics if here.schema.id == state.snapshot.schema_id else None
    if statistics is not None:
        pairs.append((source.layout.statistics(statistics), here.layout.statistics(statistics)))
    is_remote = source.storage.is_remote or here.storage.is_remote
    each(lambda pair: _copied(source.storage, pair[0], here.storage, pair[1]), dict.fromkeys(pairs), waiting=is_remote)
    found = _snapshot(here, live.without_external_paths(), moved_indexes)
    return replace(found, watermark=state.snapshot.watermark_or_none, statistics=statistics, next_row_id=state.snapshot.next_row_id or 0)


def _data(source: Handle, here: Handle, live: Entries) -> list[tuple[str, str]]:
    """Where each data file is and is to be, and what lies beside it."""
    pairs: list[tuple[str, str]] = []
    beside = live.column("extra_files").to_pylist()  # scalar: one a file
    for old, new, extra in zip(places.data_file_paths(source, live), places.data_file_paths(here, live.without_external_paths()), beside, strict=True):
        pairs += [(old, new), *((source.layout.extra_file(old, name), here.layout.extra_file(new, name)) for name in extra)]
    return pairs


def _copied(storage: Storage, path: str, to: Storage, target: str) -> None:
    """One file, in pieces."""
    size_bytes = storage.size(path)
    with to.open_write(target) as file:
        for start in range(0, size_bytes, _CHUNK_BYTES):
            file.write(storage.read(path, start, min(_CHUNK_BYTES, size_bytes - start)))


def _snapshot(here: Handle, live: Entries, indexes: list[IndexEntry]) -> Snapshot:
    draft = Draft(here)
    base = writing.write_list(draft, [])
    delta = writing.write_list(draft, writing.write_entries(draft, live))
    index_name = draft.write("index-manifest", index_manifest.encode(indexes, **draft.how)) if indexes else None
    draft.finish()
    count = int(live.numbers("row_count").sum())
    return Snapshot(
        version=CURRENT_VERSION,
        id=1,
        schema_id=here.schema.id,
        base_manifest_list=base[0],
        base_manifest_list_size=base[1],
        delta_manifest_list=delta[0],
        delta_manifest_list_size=delta[1],
        index_manifest=index_name,
        commit_user=here.new_commit_user(),
        commit_identifier=BATCH_IDENTIFIER,
        commit_kind="APPEND",
        time_millis=here.world.now_ms(),
        total_record_count=count,
        delta_record_count=count,
    )
