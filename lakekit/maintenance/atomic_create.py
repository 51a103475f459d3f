"""Tables created in one step, schemas and one snapshot after all of their files; and copies of tables.

Where the storage has directories, everything is written to `.<what>-<id>` beside the tables, which is not taken for a
table, and then moved to its place in one step. In object stores the schemas come after all files and the snapshot last:
a process that dies before the schemas leaves no table, one that dies between schemas and snapshot an empty table. A
call that fails removes what it made.

Start from `create_table_atomically` and `clone_table_files`.

Source: ENGINE.md 11; `CloneAction`, `CopyFileOperator`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lakekit.commit import manifest_writer as writing
from lakekit.commit.manifest_writer import UncommittedFiles
from lakekit.data_file import deletion_vector_reader, paths
from lakekit.errors import CommitStateUnknown, InvalidOption, LakekitError, SnapshotNotFound, StorageFailed, Unsupported
from lakekit.maintenance import tags as tagging
from lakekit.metadata import manifest_reader, schemas, snapshots, table_context
from lakekit.model import index_manifest, snapshot
from lakekit.model.snapshot import BATCH_IDENTIFIER, CURRENT_VERSION, Snapshot
from lakekit.model.table_paths import TablePaths
from lakekit.options.features import OBJECT_TABLE
from lakekit.options.option import EMPTY, FrozenDict
from lakekit.parallel import parallel_map
from lakekit.storage import protocol
from lakekit.storage.atomic_write import create_exclusive
from lakekit.storage.protocol import FileMissing, SupportsDirectories

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from lakekit.metadata.table_context import TableContext, TableLocation
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.table_schema import TableSchema
    from lakekit.storage.protocol import Storage


_CHUNK_BYTES = 8 << 20
_METADATA_FOLDERS = ("schema", "_schema", "snapshot", "changelog", "tag", "branch")
"""Folders that make a place one of a table, or of what is left of it."""


class InitialState(NamedTuple):
    """The schemas of a new table, oldest first, and its snapshot; None: it has no snapshot."""

    schemas: Sequence[TableSchema]
    snapshot: Snapshot | None


def check_location_free(target: TableLocation) -> None:
    """Raise `StorageFailed` where something exists at the location of a new table.

    In an object store, data files that another attempt left are ignored.
    """
    root = target.paths.root
    names = [entry.name for entry in target.storage.list(root)]
    if not isinstance(target.storage, SupportsDirectories):  # and halves of files too
        inside = (
            entry for name in names if name in _METADATA_FOLDERS for entry in target.storage.list(f"{root}/{name}")
        )
        names = [entry.name for entry in inside if not entry.name.startswith(".")]
    if names:
        raise StorageFailed(
            f'"{root}" holds {", ".join(names[:5])} already, though no table is known there; move it away first',
            path=root,
        )


def create_table_atomically(
    target: TableLocation, subject: str, write_files: Callable[[TableLocation], InitialState]
) -> TableSchema:
    """Create a table whose files `write_files` writes, and return its newest schema.

    `write_files` gets the location to write to: the target, or a hidden folder beside it. `subject` is the word in the
    hidden folder's name. The target's storage reaches the folder above it, as `Metastore.create_table` says.

    Raises what `write_files` raises, and `StorageFailed` if another process was faster; then there is no table.
    """
    if not isinstance(target.storage, SupportsDirectories):
        state = write_files(target)
        _write_initial_state(target, state)
        return state.schemas[-1]
    above, _, own = target.paths.root.rpartition("/")
    hidden = f"{above}/.{subject}-{target.runtime.new_id()}"
    staged = replace(target, paths=TablePaths(root=f"{hidden}/{own}"), catalog_env=None)
    try:
        state = write_files(staged)
        _write_initial_state(staged, state)
        protocol.move_folder(staged.storage, staged.paths.root, target.paths.root)
    finally:
        with suppress(LakekitError):
            protocol.remove_folder(staged.storage, hidden)
    return state.schemas[-1]


def _write_initial_state(target: TableLocation, initial_state: InitialState) -> None:
    """Write the schemas and the snapshot.

    On failure only the schemas are removed: another attempt at this location may rely on some of the files.
    """
    made: list[str] = []
    is_first = True
    try:
        for schema in initial_state.schemas:
            path = target.paths.schema(schema.id)
            is_first = is_first and create_exclusive(target.storage, path, schema.to_json())
            made += [path] if is_first else []
        if initial_state.snapshot is not None and is_first:
            is_first = create_exclusive(
                target.storage, target.paths.snapshot(initial_state.snapshot.id), initial_state.snapshot.to_json()
            )
    except CommitStateUnknown:
        raise
    except LakekitError:  # an interrupt may come after the snapshot, which then stands
        with suppress(LakekitError):
            target.storage.delete(reversed(made))
        raise
    if not is_first:
        raise StorageFailed(
            f'another table was made at "{target.paths.root}" at this moment, which stands', path=target.paths.root
        )
    if initial_state.snapshot is not None:
        with suppress(LakekitError):  # a hint is advice
            for path in (target.paths.latest_hint, target.paths.earliest_hint):
                target.storage.put(path, snapshot.encode_hint(initial_state.snapshot.id))


def drop_created(target: TableLocation) -> None:
    """Remove a table that `create_table_atomically` has just made, with everything at its location.

    Raises: `StorageFailed`.
    """
    protocol.remove_folder(target.storage, target.paths.root, last=(target.paths.schema_dir,))


def copy_file(storage: Storage, path: str, to: Storage, target: str) -> None:
    """Copy one file, in chunks."""
    size_bytes = storage.size(path)
    with to.open_write(target) as file:
        for start in range(0, size_bytes, _CHUNK_BYTES):
            file.write(storage.read(path, start, min(_CHUNK_BYTES, size_bytes - start)))


def first_snapshot(
    ctx: TableContext, live_entries: ManifestEntries, indexes: Sequence[IndexManifestEntry] = ()
) -> Snapshot:
    """Write manifests that name the live files, and return the first snapshot of the table."""
    draft = UncommittedFiles(ctx)
    base = writing.write_manifest_list(draft, [])
    delta = writing.write_manifest_list(draft, writing.write_entry_manifests(draft, live_entries))
    index_name = (
        draft.add_file("index-manifest", index_manifest.encode_index_manifest(indexes, **draft.encode_options))
        if indexes
        else None
    )
    draft.write_pending()
    count = int(live_entries.integers("row_count").sum())
    return Snapshot(
        version=CURRENT_VERSION,
        id=1,
        schema_id=ctx.schema.id,
        base_manifest_list=base[0],
        base_manifest_list_size=base[1],
        delta_manifest_list=delta[0],
        delta_manifest_list_size=delta[1],
        index_manifest=index_name,
        commit_user=ctx.new_commit_user(),
        commit_identifier=BATCH_IDENTIFIER,
        commit_kind="APPEND",
        time_millis=ctx.runtime.now_ms(),
        total_record_count=count,
        delta_record_count=count,
    )


# ---- clone ------------------------------------------------------------


_LOCATION_OPTIONS = ("path", "branch", "data-file.external-paths")
"""Options that lead to where the source is, and those that begin with the last one and a dot."""


def clone_table_files(
    source: TableContext, target: TableLocation, at: int | str | datetime | None = None
) -> TableSchema:
    """Copy a table to an empty location, and return the newest schema of the copy.

        schema/schema-0 … schema-2     as made now, without options that lead to places of the source
                                       (`path`, `data-file.external-paths…`)
        manifest/…                     new, for one snapshot 1 of kind APPEND that adds every live file
        dt=…/bucket-0/data-….parquet   the live files under their names, with their extra files (file indexes),
                                       those at external paths too
        index/…, statistics/…          deletion vectors, hash indexes and the statistics of the snapshot, as they are
        left behind                    older snapshots, tags, branches, consumers, and changelog files;
                                       a stream of the clone begins with its snapshot

    Java's CloneAction up to 1.1 copied files likewise, those of all schemas and of the newest snapshot; since 1.2 it
    reads and writes rows, and key tables become ones with `bucket` -2. No row is decoded here, so that buckets, levels
    and sequence numbers stay. `at`: a snapshot, tag or time, copied with the schema of then.

    Raises: `SnapshotNotFound`, `TagNotFound`; `Unsupported` for tables that lakekit does not write, `InvalidOption` for
    a table that is read together with another branch, `StorageFailed` where something exists at the location. Then
    there is no table; in object stores data files may be left.
    """
    _check_source(source)
    check_location_free(target)
    state = _read_source_state(source, at)
    try:
        return create_table_atomically(
            target, "clone", lambda place: state._replace(snapshot=_copy_snapshot_files(source, place, state))
        )
    except FileMissing as missing:
        if state.snapshot is None or tagging.referencing_paths(source, state.snapshot):
            raise
        raise SnapshotNotFound(
            f"snapshot {state.snapshot.id} of {source.name} expired while it was copied. Nothing was made; clone a "
            "tag, which keeps its files",
            name=str(state.snapshot.id),
        ) from missing


def _check_source(source: TableContext) -> None:
    table_context.check_writable(source)
    if source.paths.is_hidden:
        kind = str(source.options.type)
        instead = (
            "cat.create_object_table makes another one of the same location"
            if kind == OBJECT_TABLE
            else "it is made again by its definition"
        )
        raise Unsupported(f"{source.name} is of type {kind}, and no clone is made of it: {instead}", feature=kind)
    if source.fallback_branch is not None:
        raise InvalidOption(
            f"{source.name} is read together with its branch {source.fallback_branch!r}, and a clone is of one "
            "branch: reset scan.fallback-branch or "
            "scan.primary-branch first",
            key="scan.fallback-branch",
            value=source.fallback_branch,
        )


def _read_source_state(source: TableContext, at: int | str | datetime | None) -> InitialState:
    versions = schemas.read_all(source)
    if at is None:
        snapshot = snapshots.latest(source)
    else:
        snapshot = tagging.resolve_tag_snapshot(source, at)
        versions = [schema for schema in versions if schema.id <= snapshot.schema_id]
    return InitialState([_clone_schema(schema, source.runtime.now_ms()) for schema in versions], snapshot)


def _clone_schema(schema: TableSchema, now_ms: int) -> TableSchema:
    """Return a schema of the clone, with the time of now, which tells clones to one location apart."""
    options = {
        key: value
        for key, value in schema.options.items()
        if not (key in _LOCATION_OPTIONS or key.startswith(f"{_LOCATION_OPTIONS[-1]}."))
    }
    return replace(schema, options=FrozenDict(options), time_millis=now_ms)


# ---- what is copied ------------------------------------------------------------------------------


def _copy_snapshot_files(source: TableContext, target: TableLocation, initial_state: InitialState) -> Snapshot | None:
    """Copy the files of the snapshot, write manifests that name them, and return the clone's snapshot."""
    if initial_state.snapshot is None:
        return None
    target_ctx = replace(
        source, name=target.name, paths=target.paths, storage=target.storage, catalog_env=None, dynamic=EMPTY
    ).with_schema(initial_state.schemas[-1])
    live = manifest_reader.read_live_entries(source, initial_state.snapshot)
    indexes = manifest_reader.index_entries(source, initial_state.snapshot)
    moved_indexes = [replace(entry, external_path=None) for entry in indexes]
    pairs = _data_file_copies(source, target_ctx, live)
    pairs += zip(
        (deletion_vector_reader.index_path(source, index_entry) for index_entry in indexes),
        (deletion_vector_reader.index_path(target_ctx, index_entry) for index_entry in moved_indexes),
        strict=True,
    )
    statistics = initial_state.snapshot.statistics if target_ctx.schema.id == initial_state.snapshot.schema_id else None
    if statistics is not None:
        pairs.append((source.paths.statistics(statistics), target_ctx.paths.statistics(statistics)))
    is_remote = source.storage.is_remote or target_ctx.storage.is_remote
    parallel_map(
        lambda pair: copy_file(source.storage, pair[0], target_ctx.storage, pair[1]),
        dict.fromkeys(pairs),
        waiting=is_remote,
    )
    snapshot = first_snapshot(target_ctx, live.without_external_paths(), moved_indexes)
    return replace(
        snapshot,
        watermark=initial_state.snapshot.watermark_or_none,
        statistics=statistics,
        next_row_id=initial_state.snapshot.next_row_id or 0,
    )


def _data_file_copies(
    source: TableContext, target_ctx: TableContext, live_entries: ManifestEntries
) -> list[tuple[str, str]]:
    """Return the old and the new path of each data file and of its extra files."""
    pairs: list[tuple[str, str]] = []
    extra_files = live_entries.column("extra_files").to_pylist()  # scalar: one a file
    for old, new, extra in zip(
        paths.data_file_paths(source, live_entries),
        paths.data_file_paths(target_ctx, live_entries.without_external_paths()),
        extra_files,
        strict=True,
    ):
        pairs += [
            (old, new),
            *((source.paths.extra_file(old, name), target_ctx.paths.extra_file(new, name)) for name in extra),
        ]
    return pairs
