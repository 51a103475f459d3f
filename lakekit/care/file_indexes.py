"""File indexes of files that are there already: made, or dropped, as today's options say; no data file is written anew.

    data-1.parquet  bloom(a)             options: bloom(a), bitmap(b)         data-1.parquet  bloom(a) bitmap(b)
    data-2.parquet  –                    ───────────────────────────▶         data-2.parquet  bloom(a) bitmap(b)
    data-3.parquet  bloom(a) bitmap(b)   one COMPACT snapshot                 data-3.parquet  as it was

What a file has and should have is kept as it is; only the columns of what is missing are read. The new entry of a file replaces the old one; an index that
grew too big for it lies in a new file beside the data. Source: ENGINE.md 6.7 and 11, `RewriteFileIndexProcedure`, `FileIndexProcessor`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.care import chosen
from lakekit.codec import index_container
from lakekit.commit import publish
from lakekit.errors import CommitStateUnknown, LakekitError
from lakekit.files.indexing import Indexing, indexes_of
from lakekit.files.places import data_file_path
from lakekit.files.read import scan_files
from lakekit.meta import manifests, schemas, snapshots
from lakekit.model.commit_message import CommitMessage
from lakekit.model.entries import DELETE, fold
from lakekit.model.layout import POSTPONE_BUCKET
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.progress import work

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import polars as pl

    from lakekit.commit.outcome import Commit
    from lakekit.files.indexing import Index
    from lakekit.meta.handle import Handle
    from lakekit.model.data_file import DataFile
    from lakekit.model.entries import Entries
    from lakekit.model.schema import TableSchema

    Contents = dict[str, dict[str, bytes | None]]

_SUFFIX = ".index"
_BATCH_ROWS = 1 << 16


def rewrite(handle: Handle, where: pl.Expr | str | None) -> Commit:
    """Makes and drops indexes of the newest snapshot's files, of partitions that satisfy a condition; without anything to do no snapshot is made."""
    publish.refuse(handle)
    indexes_of(handle.schema, handle.options)  # what is asked for wrongly is refused before anything is read
    messages, made = _messages(handle, where)
    try:
        return publish.publish(handle, messages, commit_user=handle.new_commit_user(), identifier=BATCH_IDENTIFIER, ignore_empty=True, is_new_user=True)
    except CommitStateUnknown:
        raise
    except BaseException:
        with suppress(LakekitError):  # what cannot be deleted is left to the cleaning of orphans
            handle.storage.delete(made)
        raise


def _messages(handle: Handle, where: pl.Expr | str | None) -> tuple[list[CommitMessage], list[str]]:
    """A message for each bucket with files that change, and the paths of the index files that were written."""
    latest = snapshots.latest(handle)
    if latest is None:
        return [], []
    every = manifests.read_entries(handle, manifests.manifest_files(handle, latest))
    live, before = fold([every]), _identities(every.filter(every.numbers("kind") == DELETE))
    partitions, buckets, totals = (live.column(name).to_pylist() for name in ("partition", "bucket", "total_buckets"))  # scalar: one a file
    wanted = chosen.partitions(handle, partitions, where)
    changed: dict[tuple[bytes, int, int], list[tuple[DataFile, DataFile]]] = {}
    made: list[str] = []
    try:
        with work(handle.world, "indexing", "files", len(live)) as under_way:
            for at, place in enumerate(zip(partitions, buckets, totals, strict=True)):  # scalar: one a file
                if place[0] in wanted and place[1] != POSTPONE_BUCKET:
                    old = live.file(at)
                    new = _indexed(handle, old, data_file_path(handle, *place[:2], old), before, made)
                    if new is not None:
                        changed.setdefault(place, []).append((old, new))
                under_way.advance()
    except BaseException:
        with suppress(LakekitError):
            handle.storage.delete(made)
        raise
    return [
        CommitMessage(
            partition=partition,
            bucket=bucket,
            total_buckets=total,
            compact_before=tuple(old for old, _ in files),
            compact_after=tuple(new for _, new in files),
        )
        for (partition, bucket, total), files in changed.items()
    ], made


def _identities(gone: Entries) -> set[tuple[str, bytes | None, tuple[str, ...]]]:
    """What entries that went were: the same must not be added again, or manifests contradict each other (`FileEntry.mergeEntries`)."""
    columns = (gone.column(name).to_pylist() for name in ("file_name", "embedded_index", "extra_files"))  # scalar: one a file
    return {(name, embedded, tuple(extra)) for name, embedded, extra in zip(*columns, strict=True)}


def _indexed(handle: Handle, file: DataFile, path: str, before: Collection[tuple[str, bytes | None, tuple[str, ...]]], made: list[str]) -> DataFile | None:
    """The entry of a file with the indexes that it should have; None: it has them. `before`: what the file may not be any more."""
    written = handle.with_schema(schemas.read(handle, file.schema_id)) if file.schema_id != handle.schema.id else handle
    wanted = _of_that_time(handle, written.schema)
    old = _contents(handle, file, path)
    has = {(name, kind) for name, kinds in old.items() for kind in kinds}
    should = {(index.name, index.kind): index for index in wanted}
    if has == set(should):
        return None
    kept: Contents = {}
    for name, kind in sorted(has & set(should)):
        kept.setdefault(name, {})[kind] = old[name][kind]
    missing = [index for place, index in should.items() if place not in has]
    if missing:
        for name, kinds in _built(written, file, path, missing).items():
            kept.setdefault(name, {}).update(kinds)
    others = tuple(name for name in file.extra_files if not name.endswith(_SUFFIX))
    data = index_container.encode(kept) if kept else None
    small = data is None or len(data) <= handle.options.file_index_in_manifest_threshold_bytes
    if small and (file.name, data, others) not in before:
        return replace(file, embedded_index=data, extra_files=others)
    name = f"{file.name}-{handle.world.new_id()}{_SUFFIX}"
    beside = handle.layout.extra_file(path, name)
    made.append(beside)
    with handle.storage.open_write(beside) as sink:
        sink.write(index_container.encode({}) if data is None else data)
    return replace(file, embedded_index=None, extra_files=(*others, name))


def _of_that_time(handle: Handle, written: TableSchema) -> list[Index]:
    """The indexes that today's options ask for, in the names of the schema that a file was written with; columns that it lacks have none."""
    today = indexes_of(handle.schema, handle.options)
    if written.id == handle.schema.id:
        return list(today)
    by_id = {field.id: field for field in written.fields}
    found = []
    for index in today:
        then = by_id.get(handle.schema.field(index.column).id)
        if then is not None and then.type.as_nullable() == handle.schema.field(index.column).type.as_nullable():
            name = then.name if index.map_key is None else f"{then.name}[{index.map_key}]"
            found.append(replace(index, name=name, column=then.name))
    return found


def _contents(handle: Handle, file: DataFile, path: str) -> Contents:
    """The indexes that a file has."""
    if file.embedded_index is not None:
        return index_container.decode(file.embedded_index, path=path)
    beside = next((name for name in file.extra_files if name.endswith(_SUFFIX)), None)
    if beside is None:
        return {}
    outside = handle.layout.extra_file(path, beside)
    return index_container.decode(handle.storage.read(outside), path=outside)


def _built(written: Handle, file: DataFile, path: str, indexes: Sequence[Index]) -> Contents:
    """Indexes of the rows of a file as they lie, deleted ones included: positions count them all."""
    fields = [written.schema.field(name) for name in dict.fromkeys(index.column for index in indexes)]
    indexing = Indexing(indexes)
    frame = scan_files(written, [file], [path], fields)
    for batch in frame.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True):
        indexing.add(batch)
    return index_container.decode(indexing.container(), path=path)
