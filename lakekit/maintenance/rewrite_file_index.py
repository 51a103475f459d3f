"""File indexes of files that are there already: made, or dropped, as today's options say; no data file is written anew.

    data-1.parquet  bloom(a)             options: bloom(a), bitmap(b)         data-1.parquet  bloom(a) bitmap(b)
    data-2.parquet  –                    ───────────────────────────▶         data-2.parquet  bloom(a) bitmap(b)
    data-3.parquet  bloom(a) bitmap(b)   one COMPACT snapshot                 data-3.parquet  as it was

What a file has and should have is kept as it is, unless all are made anew; only the columns of what is missing are read. What is lost or cannot be read is
missing too: rows are all there is to know of it. The new entry of a file replaces the old one; an index that
grew too big for it lies in a new file beside the data. Source: ENGINE.md 6.7 and 11, `RewriteFileIndexProcedure`, `FileIndexProcessor`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.commit import committer
from lakekit.data_file.indexing import IndexBuilder, indexes_of
from lakekit.data_file.paths import data_file_path
from lakekit.data_file.reader import scan_files, translate_polars_errors
from lakekit.errors import CommitStateUnknown, Corrupt, LakekitError
from lakekit.file_index import container
from lakekit.maintenance import chosen
from lakekit.metadata import feature_check, manifest_reader, schemas, snapshots
from lakekit.model.commit_message import CommitMessage
from lakekit.model.data_file import INDEX_SUFFIX
from lakekit.model.manifest_entries import DELETE, live_entries
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.progress import work
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lakekit.commit.result import Commit
    from lakekit.data_file.indexing import IndexDefinition
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.table_schema import TableSchema

    Contents = dict[str, dict[str, bytes | None]]
    IndexKey = tuple[str, str]
    """The name of a column, or of a key of a map, and the kind of an index of it."""

Identity = tuple[str, bytes | None, tuple[str, ...]]
"""Name, index in the manifest, and what lies beside: entries that differ in one of them are different files."""
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBatch:
    """Files of one bucket that are looked at together. `before`: what these files were at other times, and may not become again."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    before: frozenset[Identity] = frozenset()


def rewrite(ctx: TableContext, where: pl.Expr | str | None, *, anew: bool = False) -> Commit:
    """Makes and drops indexes of the newest snapshot's files, of partitions that satisfy a condition; without anything to do no snapshot is made.

    `anew`: also those that files have are made again.
    """
    found, messages = plan_batches(ctx, where), []
    try:
        with work(ctx.world, "indexing", "files", sum(len(share.files) for share in found)) as under_way:
            for share in found:
                messages += rewrite_batch(ctx, share, under_way.advance, anew=anew)
    except BaseException:
        discard(ctx, messages)
        raise
    return commit(ctx, messages)


def preview_rewrite(ctx: TableContext, where: pl.Expr | str | None, *, anew: bool = False) -> pl.DataFrame:
    """What `rewrite` would do: `path`, `row_count`, indexes `made` and `dropped` of each file that changes. Heads of index files are read, and nothing else."""
    found = []
    for share in plan_batches(ctx, where):
        for file in share.files:
            path = data_file_path(ctx, share.partition, share.bucket, file)
            old, should = _contents(ctx, file, path), _wanted_indexes(ctx, file)
            has = _index_keys(old)
            made, dropped = should.keys() - (() if anew else has), has - should.keys()
            if made or dropped or old is None:
                found.append((path, file.row_count, _format_indexes(made), _format_indexes(dropped)))
    schema = {"path": pl.String(), "row_count": pl.Int64(), "made": pl.List(pl.String()), "dropped": pl.List(pl.String())}
    return pl.DataFrame(found, schema, orient="row").sort("path")


def _format_indexes(places: Collection[IndexKey]) -> list[str]:
    return sorted(f"{kind}({name})" for name, kind in places)


def plan_batches(ctx: TableContext, where: pl.Expr | str | None, count: int = 1) -> list[FileBatch]:
    """The files of partitions that satisfy a condition, by bucket; where a bucket weighs more than one of `count` shares of all, it is in several.

    What is asked for wrongly is refused before anything is read. Raises as `Table.rewrite_file_index` does.
    """
    feature_check.check_writable(ctx)
    indexes_of(ctx.schema, ctx.options)
    latest = snapshots.latest(ctx)
    if latest is None:
        return []
    every = manifest_reader.read_entries(ctx, manifest_reader.manifest_files(ctx, latest))
    live, before = live_entries([every]), _identities(every.filter(every.numbers("kind") == DELETE))
    wanted = chosen.partitions(ctx, live.column("partition").to_pylist(), where)
    mask = pc.is_in(live.column("partition"), value_set=pa.array(sorted(wanted), pa.binary())).to_numpy(zero_copy_only=False)
    live = live.filter(mask & (live.numbers("bucket") != POSTPONE_BUCKET))
    most_bytes = max(ctx.options.source_split_open_file_cost_bytes, -(-int(live.numbers("file_size").sum()) // max(1, count)))
    found: dict[tuple[bytes, int, int, int], list[DataFileMeta]] = {}
    filled: dict[tuple[bytes, int, int], int] = {}
    columns = (live.column(name).to_pylist() for name in ("partition", "bucket", "total_buckets"))  # scalar: one a file
    for at, place in enumerate(zip(*columns, strict=True)):
        file = live.file(at)
        number = 0 if count == 1 else filled.get(place, 0) // most_bytes
        filled[place] = filled.get(place, 0) + file.size_bytes
        found.setdefault((*place, number), []).append(file)
    return [_make_batch(place[:3], files, before) for place, files in found.items()]


def _make_batch(place: tuple[bytes, int, int], files: Sequence[DataFileMeta], before: Mapping[str, frozenset[Identity]]) -> FileBatch:
    earlier = (before.get(file.name, frozenset[Identity]()) for file in files)
    return FileBatch(partition=place[0], bucket=place[1], total_buckets=place[2], files=tuple(files), before=frozenset[Identity]().union(*earlier))


def rewrite_batch(ctx: TableContext, share: FileBatch, told: Callable[[], None] = lambda: None, *, anew: bool = False) -> list[CommitMessage]:
    """A message for the files of a share that change; none without any. Calls `told` after each file. `anew`: as in `rewrite`.

    Raises what reading and writing raise: then no new file is left.
    """
    changed: list[tuple[DataFileMeta, DataFileMeta]] = []
    made: list[str] = []
    try:
        for old in share.files:
            new = _rewrite_entry(ctx, old, data_file_path(ctx, share.partition, share.bucket, old), share.before, made, anew=anew)
            if new is not None:
                changed.append((old, new))
            told()
    except BaseException:
        with suppress(LakekitError):  # what cannot be deleted is left to the cleaning of orphans
            ctx.storage.delete(made)
        raise
    if not changed:
        return []
    return [
        CommitMessage(
            partition=share.partition,
            bucket=share.bucket,
            total_buckets=share.total_buckets,
            compact_before=tuple(old for old, _ in changed),
            compact_after=tuple(new for _, new in changed),
        )
    ]


def commit(ctx: TableContext, messages: Sequence[CommitMessage]) -> Commit:
    """Commits what was done. Raises what a commit raises: then no new file is left, but where nobody knows whether it happened."""
    try:
        return committer.commit_changes(ctx, messages, commit_user=ctx.new_commit_user(), identifier=BATCH_IDENTIFIER, ignore_empty=True, is_new_user=True)
    except CommitStateUnknown:
        raise
    except BaseException:
        discard(ctx, messages)
        raise


def discard(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """Deletes the files that were made for messages that nobody will commit."""
    made = [
        ctx.layout.extra_file(data_file_path(ctx, message.partition, message.bucket, new), name)
        for message in messages
        for old, new in zip(message.compact_before, message.compact_after, strict=True)
        for name in new.extra_files
        if name not in old.extra_files
    ]
    with suppress(LakekitError):
        ctx.storage.delete(made)


def _identities(gone: ManifestEntries) -> dict[str, frozenset[Identity]]:
    """What entries that went were, by file: the same must not be added again, or manifests contradict each other (`FileEntry.mergeEntries`)."""
    columns = (gone.column(name).to_pylist() for name in ("file_name", "embedded_index", "extra_files"))  # scalar: one a file
    found: dict[str, set[Identity]] = {}
    for name, embedded, extra in zip(*columns, strict=True):
        found.setdefault(name, set()).add((name, embedded, tuple(extra)))
    return {name: frozenset(some) for name, some in found.items()}


def _rewrite_entry(ctx: TableContext, file: DataFileMeta, path: str, before: Collection[Identity], made: list[str], *, anew: bool) -> DataFileMeta | None:
    """The entry of a file with the indexes that it should have; None: it has them. `before`: what the file may not be any more."""
    written = ctx.with_schema(schemas.read(ctx, file.schema_id)) if file.schema_id != ctx.schema.id else ctx
    old, should = None if anew else _contents(ctx, file, path), _wanted_indexes(ctx, file)
    has = _index_keys(old)
    if old is not None and has == set(should):
        return None
    kept: Contents = {}
    for name, kind in sorted(has & set(should)):
        kept.setdefault(name, {})[kind] = (old or {})[name][kind]
    missing = [index for place, index in should.items() if place not in has]
    if missing:
        for name, kinds in _build_indexes(written, file, path, missing).items():
            kept.setdefault(name, {}).update(kinds)
    others = tuple(name for name in file.extra_files if not name.endswith(INDEX_SUFFIX))
    data = container.encode(kept) if kept else None
    if (data, others) == (file.embedded_index, file.extra_files):
        return None
    small = data is None or len(data) <= ctx.options.file_index_in_manifest_threshold_bytes
    if small and (file.name, data, others) not in before:
        return replace(file, embedded_index=data, extra_files=others)
    name = f"{file.name}-{ctx.world.new_id()}{INDEX_SUFFIX}"
    beside = ctx.layout.extra_file(path, name)
    made.append(beside)
    with ctx.storage.open_write(beside) as sink:
        sink.write(container.encode({}) if data is None else data)
    return replace(file, embedded_index=None, extra_files=(*others, name))


def _wanted_indexes(ctx: TableContext, file: DataFileMeta) -> dict[IndexKey, IndexDefinition]:
    """The indexes that a file should have."""
    return {(index.name, index.kind): index for index in _indexes_under_schema(ctx, schemas.schema_of_file(ctx, file.schema_id))}


def _index_keys(contents: Contents | None) -> set[IndexKey]:
    return {(name, kind) for name, kinds in (contents or {}).items() for kind in kinds}


def _indexes_under_schema(ctx: TableContext, written: TableSchema) -> list[IndexDefinition]:
    """The indexes that today's options ask for, in the names of the schema that a file was written with; columns that it lacks have none."""
    today = indexes_of(ctx.schema, ctx.options)
    if written.id == ctx.schema.id:
        return list(today)
    by_id = {field.id: field for field in written.fields}
    found = []
    for index in today:
        then = by_id.get(ctx.schema.field(index.column).id)
        if then is not None and then.type.as_nullable() == ctx.schema.field(index.column).type.as_nullable():
            name = then.name if index.map_key is None else f"{then.name}[{index.map_key}]"
            found.append(replace(index, name=name, column=then.name))
    return found


def _contents(ctx: TableContext, file: DataFileMeta, path: str) -> Contents | None:
    """The indexes that a file has; None where they are lost or damaged."""
    try:
        if file.embedded_index is not None:
            return container.decode(file.embedded_index, path=path)
        if file.index_file is None:
            return {}
        outside = ctx.layout.extra_file(path, file.index_file)
        return container.decode(ctx.storage.read(outside), path=outside)
    except (FileMissing, Corrupt):
        return None


def _build_indexes(written: TableContext, file: DataFileMeta, path: str, indexes: Sequence[IndexDefinition]) -> Contents:
    """Indexes of the rows of a file as they lie, deleted ones included: positions count them all."""
    fields = [written.schema.field(name) for name in dict.fromkeys(index.column for index in indexes)]
    indexing = IndexBuilder(indexes)
    frame = scan_files(written, [file], [path], fields)
    with translate_polars_errors(written, [path]):
        for batch in frame.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True):
            indexing.add(batch)
    return container.decode(indexing.container(), path=path)
