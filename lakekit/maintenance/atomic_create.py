"""Create a table in one step where none is: its schemas and one snapshot appear after all of its files.

Where the storage has directories, everything is written to `.<what>-<id>` beside the tables, which is not taken for a
table, and then moved to its place in one step. In object stores the schemas come after all files and the snapshot last:
a process that dies before the schemas leaves no table, one that dies between schemas and snapshot an empty table. A
call that fails removes what it made.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lakekit.commit import manifest_writer as writing
from lakekit.commit.draft import UncommittedFiles
from lakekit.errors import CommitStateUnknown, LakekitError, StorageFailed
from lakekit.model import hint, index_manifest
from lakekit.model.snapshot import BATCH_IDENTIFIER, CURRENT_VERSION, Snapshot
from lakekit.model.table_paths import TablePaths
from lakekit.storage import folders
from lakekit.storage.atomic_write import create_exclusive
from lakekit.storage.folders import SupportsDirectories

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakekit.metadata.table_context import TableContext, TableLocation
    from lakekit.model.index_file import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.table_schema import TableSchema
    from lakekit.storage.protocol import Storage

_CHUNK_BYTES = 8 << 20
_METADATA = ("schema", "_schema", "snapshot", "changelog", "tag", "branch")
"""Folders that make a place one of a table, or of what is left of it."""


class InitialState(NamedTuple):
    """The schemas of a new table, oldest first, and its snapshot; None: it has no snapshot."""

    schemas: Sequence[TableSchema]
    snapshot: Snapshot | None


def check_place(target: TableLocation) -> None:
    """Raise `StorageFailed` where something exists at the location of a new table.

    In an object store, data files that another attempt left are ignored.
    """
    root = target.layout.root
    names = [entry.name for entry in target.storage.list(root)]
    if not isinstance(target.storage, SupportsDirectories):  # and halves of files too
        inside = (entry for name in names if name in _METADATA for entry in target.storage.list(f"{root}/{name}"))
        names = [entry.name for entry in inside if not entry.name.startswith(".")]
    if names:
        raise StorageFailed(
            f'"{root}" holds {", ".join(names[:5])} already, though no table is known there; move it away first',
            path=root,
        )


def create_table_atomically(
    target: TableLocation, what: str, make: Callable[[TableLocation], InitialState]
) -> TableSchema:
    """Create a table whose files `make` writes, and return its newest schema.

    `make` gets the location to write to: the target, or a hidden folder beside it. `what` is the word in the hidden
    folder's name. The target's storage reaches the folder above it, as `Metastore.create_table` says.

    Raises what `make` raises, and `StorageFailed` where another process was faster; then there is no table.
    """
    if not isinstance(target.storage, SupportsDirectories):
        state = make(target)
        _publish(target, state)
        return state.schemas[-1]
    above, _, own = target.layout.root.rpartition("/")
    hidden = f"{above}/.{what}-{target.world.new_id()}"
    staged = replace(target, layout=TablePaths(root=f"{hidden}/{own}"), keeper=None)
    try:
        state = make(staged)
        _publish(staged, state)
        folders.move(staged.storage, staged.layout.root, target.layout.root)
    finally:
        with suppress(LakekitError):
            folders.remove(staged.storage, hidden)
    return state.schemas[-1]


def _publish(target: TableLocation, state: InitialState) -> None:
    """Write the schemas and the snapshot.

    On failure only the schemas are removed: another attempt at this location may rely on some of the files.
    """
    made: list[str] = []
    is_first = True
    try:
        for schema in state.schemas:
            path = target.layout.schema(schema.id)
            is_first = is_first and create_exclusive(target.storage, path, schema.to_json())
            made += [path] if is_first else []
        if state.snapshot is not None and is_first:
            is_first = create_exclusive(
                target.storage, target.layout.snapshot(state.snapshot.id), state.snapshot.to_json()
            )
    except CommitStateUnknown:
        raise
    except LakekitError:  # an interrupt may come after the snapshot, which then stands
        with suppress(LakekitError):
            target.storage.delete(reversed(made))
        raise
    if not is_first:
        raise StorageFailed(
            f'another table was made at "{target.layout.root}" at this moment, which stands', path=target.layout.root
        )
    if state.snapshot is not None:
        with suppress(LakekitError):  # a hint is advice
            for path in (target.layout.latest_hint, target.layout.earliest_hint):
                target.storage.put(path, hint.encode(state.snapshot.id))


def drop_created(target: TableLocation) -> None:
    """Remove a table that `create_table_atomically` has just made, with everything at its location.

    Raises: `StorageFailed`.
    """
    folders.remove(target.storage, target.layout.root, last=(target.layout.schema_dir,))


def copy_file(storage: Storage, path: str, to: Storage, target: str) -> None:
    """Copy one file, in chunks."""
    size_bytes = storage.size(path)
    with to.open_write(target) as file:
        for start in range(0, size_bytes, _CHUNK_BYTES):
            file.write(storage.read(path, start, min(_CHUNK_BYTES, size_bytes - start)))


def snapshot(ctx: TableContext, live: ManifestEntries, indexes: Sequence[IndexManifestEntry] = ()) -> Snapshot:
    """Write manifests that name the live files, and return the first snapshot of the table."""
    draft = UncommittedFiles(ctx)
    base = writing.write_list(draft, [])
    delta = writing.write_list(draft, writing.write_entries(draft, live))
    index_name = draft.write("index-manifest", index_manifest.encode(indexes, **draft.how)) if indexes else None
    draft.finish()
    count = int(live.numbers("row_count").sum())
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
        time_millis=ctx.world.now_ms(),
        total_record_count=count,
        delta_record_count=count,
    )
