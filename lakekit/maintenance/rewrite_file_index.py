"""File indexes of existing files, built or dropped as today's options say; no data file is rewritten.

    data-1.parquet  bloom(a)             options: bloom(a), bitmap(b)         data-1.parquet  bloom(a) bitmap(b)
    data-2.parquet  –                    ───────────────────────────▶         data-2.parquet  bloom(a) bitmap(b)
    data-3.parquet  bloom(a) bitmap(b)   one COMPACT snapshot                 data-3.parquet  as it was

An index that a file has and should have is kept, unless all are rebuilt; only the columns of missing ones are read. A
lost or unreadable index counts as missing: it is built from the rows. The new entry of a file replaces the old one; an
index too big for it is written to a new file beside the data.

Source: ENGINE.md 6.7 and 11, `RewriteFileIndexProcedure`, `FileIndexProcessor`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.columns import collect_batches
from lakekit.commit import committer
from lakekit.data_file.file_metadata import IndexBuilder, index_definitions
from lakekit.data_file.paths import data_file_path
from lakekit.data_file.reader import scan_files, translate_polars_errors
from lakekit.errors import CommitStateUnknown, Corrupt, LakekitError
from lakekit.file_index import container
from lakekit.maintenance import expire_partitions
from lakekit.metadata import manifest_reader, schemas, snapshots, table_context
from lakekit.model.commit_message import CommitMessage
from lakekit.model.data_file import INDEX_SUFFIX
from lakekit.model.manifest_entries import DELETE, live_entries
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.progress import begin_work
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lakekit.commit.changes import Commit
    from lakekit.data_file.file_metadata import IndexDefinition
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
    """Files of one bucket that are processed together.

    `earlier_entries`: earlier entries of these files; an equal entry must not be added again.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    earlier_entries: frozenset[Identity] = frozenset()


def rewrite_indexes(ctx: TableContext, where: pl.Expr | str | None, *, rebuild: bool = False) -> Commit:
    """Build and drop indexes of the newest snapshot's files, and commit; no snapshot if nothing changes.

    `where` chooses partitions. `rebuild`: existing indexes are built again too.
    """
    batches, messages = plan_batches(ctx, where), []
    try:
        with begin_work(ctx.runtime, "indexing", "files", sum(len(batch.files) for batch in batches)) as under_way:
            for batch in batches:
                messages += rewrite_batch(ctx, batch, under_way.advance, rebuild=rebuild)
    except BaseException:
        delete_index_files(ctx, messages)
        raise
    return commit_indexes(ctx, messages)


def preview_rewrite(ctx: TableContext, where: pl.Expr | str | None, *, rebuild: bool = False) -> pl.DataFrame:
    """Return the changes that `rewrite_indexes` would make: a row for each file that changes.

    The columns are `path`, `row_count`, and the indexes `made` and `dropped`. Only heads of index files are read.
    """
    changes = []
    for batch in plan_batches(ctx, where):
        for file in batch.files:
            path = data_file_path(ctx, batch.partition, batch.bucket, file)
            old, should = _read_contents(ctx, file, path), _wanted_indexes(ctx, file)
            has = _index_keys(old)
            made, dropped = should.keys() - (() if rebuild else has), has - should.keys()
            if made or dropped or old is None:
                changes.append((path, file.row_count, _format_indexes(made), _format_indexes(dropped)))
    schema = {
        "path": pl.String(),
        "row_count": pl.Int64(),
        "made": pl.List(pl.String()),
        "dropped": pl.List(pl.String()),
    }
    return pl.DataFrame(changes, schema, orient="row").sort("path")


def _format_indexes(index_keys: Collection[IndexKey]) -> list[str]:
    return sorted(f"{kind}({name})" for name, kind in index_keys)


def plan_batches(ctx: TableContext, where: pl.Expr | str | None, count: int = 1) -> list[FileBatch]:
    """Return the files of the partitions that satisfy a condition, in batches of one bucket each.

    A bucket larger than one of `count` equal parts of all bytes is divided into several batches. Wrong arguments are
    refused before anything is read. Raises as `Table.rewrite_file_index` does.
    """
    table_context.check_writable(ctx)
    index_definitions(ctx.schema, ctx.options)
    latest = snapshots.latest(ctx)
    if latest is None:
        return []
    every = manifest_reader.read_entries(ctx, manifest_reader.manifest_files(ctx, latest))
    live, before = live_entries([every]), _identities_by_name(every.filter(every.integers("kind") == DELETE))
    wanted = expire_partitions.matching_partitions(ctx, live.column("partition").to_pylist(), where)
    mask = pc.is_in(live.column("partition"), value_set=pa.array(sorted(wanted), pa.binary())).to_numpy(
        zero_copy_only=False
    )
    live = live.filter(mask & (live.integers("bucket") != POSTPONE_BUCKET))
    most_bytes = max(
        ctx.options.source_split_open_file_cost_bytes, -(-int(live.integers("file_size").sum()) // max(1, count))
    )
    batches: dict[tuple[bytes, int, int, int], list[DataFileMeta]] = {}
    filled: dict[tuple[bytes, int, int], int] = {}
    columns = (live.column(name).to_pylist() for name in ("partition", "bucket", "total_buckets"))  # scalar: one a file
    for at, bucket_key in enumerate(zip(*columns, strict=True)):
        file = live.file(at)
        number = 0 if count == 1 else filled.get(bucket_key, 0) // most_bytes
        filled[bucket_key] = filled.get(bucket_key, 0) + file.size_bytes
        batches.setdefault((*bucket_key, number), []).append(file)
    return [_make_batch(bucket_key[:3], files, before) for bucket_key, files in batches.items()]


def _make_batch(
    bucket_key: tuple[bytes, int, int],
    files: Sequence[DataFileMeta],
    identities_before: Mapping[str, frozenset[Identity]],
) -> FileBatch:
    earlier = (identities_before.get(file.name, frozenset[Identity]()) for file in files)
    return FileBatch(
        partition=bucket_key[0],
        bucket=bucket_key[1],
        total_buckets=bucket_key[2],
        files=tuple(files),
        earlier_entries=frozenset[Identity]().union(*earlier),
    )


def rewrite_batch(
    ctx: TableContext, batch: FileBatch, on_file: Callable[[], None] = lambda: None, *, rebuild: bool = False
) -> list[CommitMessage]:
    """Return a message for the files of a batch that change; none if no file does.

    Calls `on_file` after each file. `rebuild`: as in `rewrite_indexes`. Raises what reading and writing raise: then no
    new file is left.
    """
    changed: list[tuple[DataFileMeta, DataFileMeta]] = []
    new_paths: list[str] = []
    try:
        for old in batch.files:
            new = _rewrite_entry(
                ctx,
                old,
                data_file_path(ctx, batch.partition, batch.bucket, old),
                batch.earlier_entries,
                new_paths,
                rebuild=rebuild,
            )
            if new is not None:
                changed.append((old, new))
            on_file()
    except BaseException:
        with suppress(LakekitError):  # what cannot be deleted is left to the cleaning of orphans
            ctx.storage.delete(new_paths)
        raise
    if not changed:
        return []
    return [
        CommitMessage(
            partition=batch.partition,
            bucket=batch.bucket,
            total_buckets=batch.total_buckets,
            compact_before=tuple(old for old, _ in changed),
            compact_after=tuple(new for _, new in changed),
        )
    ]


def commit_indexes(ctx: TableContext, messages: Sequence[CommitMessage]) -> Commit:
    """Commit the messages.

    Raises what a commit raises: then no new file is left, unless the outcome of the commit is unknown.
    """
    try:
        return committer.commit_changes(
            ctx,
            messages,
            commit_user=ctx.new_commit_user(),
            identifier=BATCH_IDENTIFIER,
            ignore_empty=True,
            is_new_user=True,
        )
    except CommitStateUnknown:
        raise
    except BaseException:
        delete_index_files(ctx, messages)
        raise


def delete_index_files(ctx: TableContext, messages: Sequence[CommitMessage]) -> None:
    """Delete the index files of messages that will not be committed."""
    made = [
        ctx.paths.extra_file(data_file_path(ctx, message.partition, message.bucket, new), name)
        for message in messages
        for old, new in zip(message.compact_before, message.compact_after, strict=True)
        for name in new.extra_files
        if name not in old.extra_files
    ]
    with suppress(LakekitError):
        ctx.storage.delete(made)


def _identities_by_name(deleted_entries: ManifestEntries) -> dict[str, frozenset[Identity]]:
    """Return the identities of deleted entries, by file name.

    An identical entry must not be added again, or manifests contradict each other (`FileEntry.mergeEntries`).
    """
    columns = (
        deleted_entries.column(name).to_pylist() for name in ("file_name", "embedded_index", "extra_files")
    )  # scalar: one a file
    identities: dict[str, set[Identity]] = {}
    for name, embedded, extra in zip(*columns, strict=True):
        identities.setdefault(name, set()).add((name, embedded, tuple(extra)))
    return {name: frozenset(entries) for name, entries in identities.items()}


def _rewrite_entry(
    ctx: TableContext,
    file: DataFileMeta,
    path: str,
    identities_before: Collection[Identity],
    new_paths: list[str],
    *,
    rebuild: bool,
) -> DataFileMeta | None:
    """Return the entry of a file with the indexes that it should have; None if it has them.

    `identities_before`: identities that the new entry must not have. New index files are added to `new_paths`.
    """
    written = ctx.with_schema(schemas.read_schema(ctx, file.schema_id)) if file.schema_id != ctx.schema.id else ctx
    old, should = None if rebuild else _read_contents(ctx, file, path), _wanted_indexes(ctx, file)
    has = _index_keys(old)
    if old is not None and has == set(should):
        return None
    contents: Contents = {}
    for name, kind in sorted(has & set(should)):
        contents.setdefault(name, {})[kind] = (old or {})[name][kind]
    missing = [index for key, index in should.items() if key not in has]
    if missing:
        for name, kinds in _build_indexes(written, file, path, missing).items():
            contents.setdefault(name, {}).update(kinds)
    others = tuple(name for name in file.extra_files if not name.endswith(INDEX_SUFFIX))
    data = container.encode_container(contents) if contents else None
    if (data, others) == (file.embedded_index, file.extra_files):
        return None
    small = data is None or len(data) <= ctx.options.file_index_in_manifest_threshold_bytes
    if small and (file.name, data, others) not in identities_before:
        return replace(file, embedded_index=data, extra_files=others)
    name = f"{file.name}-{ctx.runtime.new_id()}{INDEX_SUFFIX}"
    index_path = ctx.paths.extra_file(path, name)
    new_paths.append(index_path)
    with ctx.storage.open_write(index_path) as sink:
        sink.write(container.encode_container({}) if data is None else data)
    return replace(file, embedded_index=None, extra_files=(*others, name))


def _wanted_indexes(ctx: TableContext, file: DataFileMeta) -> dict[IndexKey, IndexDefinition]:
    return {
        (index.name, index.kind): index
        for index in _indexes_under_schema(ctx, schemas.schema_of_file(ctx, file.schema_id))
    }


def _index_keys(contents: Contents | None) -> set[IndexKey]:
    return {(name, kind) for name, kinds in (contents or {}).items() for kind in kinds}


def _indexes_under_schema(ctx: TableContext, written_schema: TableSchema) -> list[IndexDefinition]:
    """Return the indexes of today's options in the column names of the schema a file was written with.

    Columns that the file lacks have none.
    """
    today = index_definitions(ctx.schema, ctx.options)
    if written_schema.id == ctx.schema.id:
        return list(today)
    by_id = {field.id: field for field in written_schema.fields}
    indexes = []
    for index in today:
        then = by_id.get(ctx.schema.field(index.column).id)
        if then is not None and then.type.as_nullable() == ctx.schema.field(index.column).type.as_nullable():
            name = then.name if index.map_key is None else f"{then.name}[{index.map_key}]"
            indexes.append(replace(index, name=name, column=then.name))
    return indexes


def _read_contents(ctx: TableContext, file: DataFileMeta, path: str) -> Contents | None:
    """Return the indexes that a file has; None if they are lost or damaged."""
    try:
        if file.embedded_index is not None:
            return container.decode_container(file.embedded_index, path=path)
        if file.index_file is None:
            return {}
        outside = ctx.paths.extra_file(path, file.index_file)
        return container.decode_container(ctx.storage.read(outside), path=outside)
    except (FileMissing, Corrupt):
        return None


def _build_indexes(
    written_ctx: TableContext, file: DataFileMeta, path: str, indexes: Sequence[IndexDefinition]
) -> Contents:
    """Return indexes over all rows of a file, deleted rows included, since positions count them."""
    fields = [written_ctx.schema.field(name) for name in dict.fromkeys(index.column for index in indexes)]
    indexing = IndexBuilder(indexes)
    frame = scan_files(written_ctx, [file], [path], fields)
    with translate_polars_errors(written_ctx, [path]):
        for batch in collect_batches(frame, chunk_size=_BATCH_ROWS):
            indexing.add_frame(batch)
    return container.decode_container(indexing.build_container(), path=path)
