"""Copy a table: its schemas, options and the files of one snapshot, as another table that shares nothing with it.

    schema/schema-0 … schema-2     as made now, without options that lead to places of the source
                                   (`path`, `data-file.external-paths…`)
    manifest/…                     new, for one snapshot 1 of kind APPEND that adds every live file
    dt=…/bucket-0/data-….parquet   the live files under their names, with their extra files (file indexes),
                                   those at external paths too
    index/…, statistics/…          deletion vectors and hash indexes, and the statistics of the snapshot, as they are
    left behind                    older snapshots, tags, branches, consumers, and changelog files;
                                   a stream of the clone begins with its snapshot

Java's CloneAction up to 1.1 copied files likewise, those of all schemas and of the newest snapshot; since 1.2 it reads
and writes rows, and key tables become ones with `bucket` -2. No row is decoded here, so that buckets, levels and
sequence numbers stay.

Where the copy is written, and when it appears, is decided by `atomic_create`. Source: ENGINE.md 11; `CloneAction`,
`CopyFileOperator`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.data_file import deletion_vector_reader, paths
from lakekit.errors import InvalidOption, SnapshotNotFound, Unsupported
from lakekit.maintenance import atomic_create, tags as tagging
from lakekit.maintenance.atomic_create import InitialState
from lakekit.metadata import feature_check, manifest_reader, schemas, snapshots
from lakekit.options.features import OBJECTS
from lakekit.options.frozendict import EMPTY, FrozenDict
from lakekit.storage.protocol import FileMissing
from lakekit.world import parallel_map

if TYPE_CHECKING:
    from datetime import datetime

    from lakekit.metadata.table_context import TableContext, TableLocation
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.snapshot import Snapshot
    from lakekit.model.table_schema import TableSchema

_LOCATION_OPTIONS = ("path", "branch", "data-file.external-paths")
"""Options that lead to where the source is, and those that begin with the last one and a dot."""


def clone(source: TableContext, target: TableLocation, at: int | str | datetime | None = None) -> TableSchema:
    """Copy a table to an empty location, and return the newest schema of the copy.

    `at`: a snapshot, tag or time, copied with the schema of then.

    Raises: `SnapshotNotFound`, `TagNotFound`; `Unsupported` for tables that lakekit does not write, `InvalidOption` for
    a table that is read together with another branch, `StorageFailed` where something exists at the location. Then
    there is no table; in object stores data files may be left.
    """
    _check(source)
    atomic_create.check_place(target)
    state = _state(source, at)
    try:
        return atomic_create.create_table_atomically(
            target, "clone", lambda place: state._replace(snapshot=_files(source, place, state))
        )
    except FileMissing as missing:
        if state.snapshot is None or tagging.referencing_paths(source, state.snapshot):
            raise
        raise SnapshotNotFound(
            f"snapshot {state.snapshot.id} of {source.name} expired while it was copied. Nothing was made; clone a "
            "tag, which keeps its files",
            name=str(state.snapshot.id),
        ) from missing


def _check(source: TableContext) -> None:
    feature_check.check_writable(source)
    if source.layout.hidden:
        kind = str(source.options.type)
        instead = (
            "cat.create_object_table makes another one of the same location"
            if kind == OBJECTS
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


def _state(source: TableContext, at: int | str | datetime | None) -> InitialState:
    versions = schemas.all(source)
    if at is None:
        snapshot = snapshots.latest(source)
    else:
        snapshot = tagging.source(source, at)
        versions = [schema for schema in versions if schema.id <= snapshot.schema_id]
    return InitialState([_clone_schema(schema, source.world.now_ms()) for schema in versions], snapshot)


def _clone_schema(schema: TableSchema, now_ms: int) -> TableSchema:
    """Return a schema of the clone, with the time of now.

    The time also tells the schemas of two clones to one location apart.
    """
    options = {
        key: value
        for key, value in schema.options.items()
        if not (key in _LOCATION_OPTIONS or key.startswith(f"{_LOCATION_OPTIONS[-1]}."))
    }
    return replace(schema, options=FrozenDict(options), time_millis=now_ms)


# ---- what is copied ------------------------------------------------------------------------------


def _files(source: TableContext, target: TableLocation, state: InitialState) -> Snapshot | None:
    """Copy the files of the snapshot, write manifests that name them, and return the clone's snapshot."""
    if state.snapshot is None:
        return None
    target_ctx = replace(
        source, name=target.name, layout=target.layout, storage=target.storage, keeper=None, dynamic=EMPTY
    ).with_schema(state.schemas[-1])
    live = manifest_reader.read_live_entries(source, state.snapshot)
    indexes = manifest_reader.index_entries(source, state.snapshot)
    moved_indexes = [replace(entry, external_path=None) for entry in indexes]
    pairs = _data(source, target_ctx, live)
    pairs += zip(
        (deletion_vector_reader.index_path(source, index_entry) for index_entry in indexes),
        (deletion_vector_reader.index_path(target_ctx, index_entry) for index_entry in moved_indexes),
        strict=True,
    )
    statistics = state.snapshot.statistics if target_ctx.schema.id == state.snapshot.schema_id else None
    if statistics is not None:
        pairs.append((source.layout.statistics(statistics), target_ctx.layout.statistics(statistics)))
    is_remote = source.storage.is_remote or target_ctx.storage.is_remote
    parallel_map(
        lambda pair: atomic_create.copy_file(source.storage, pair[0], target_ctx.storage, pair[1]),
        dict.fromkeys(pairs),
        waiting=is_remote,
    )
    snapshot = atomic_create.snapshot(target_ctx, live.without_external_paths(), moved_indexes)
    return replace(
        snapshot,
        watermark=state.snapshot.watermark_or_none,
        statistics=statistics,
        next_row_id=state.snapshot.next_row_id or 0,
    )


def _data(source: TableContext, target_ctx: TableContext, live: ManifestEntries) -> list[tuple[str, str]]:
    """Return the old and the new path of each data file and of its extra files."""
    pairs: list[tuple[str, str]] = []
    extra_files = live.column("extra_files").to_pylist()  # scalar: one a file
    for old, new, extra in zip(
        paths.data_file_paths(source, live),
        paths.data_file_paths(target_ctx, live.without_external_paths()),
        extra_files,
        strict=True,
    ):
        pairs += [
            (old, new),
            *((source.layout.extra_file(old, name), target_ctx.layout.extra_file(new, name)) for name in extra),
        ]
    return pairs
