"""Pruning by file indexes: files without a matching row, rows that may match (ENGINE 6.7).

    batches = load_batches(ctx, entries, places)        the indexes of those files, in buffers that are searched at once

    buffer 0 | index of file 3 | index of file 0 | …        read by one query
    buffer 1 | index of file 7 |                            read after a commit added file 7

Only files that are read without a merge are pruned: a merge needs every version of a key. The index of a file is a
container in its manifest entry, or a file beside it named `….index`.

A lookup reads hundreds of index files, and none can change: they are in the cache `runtime.index_cache` by file path,
so that after a commit only new ones are read. The least recently used buffer is evicted first. If the indexes of a
table do not all fit, the others are read one by one.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.compute as pc
from pyroaring import BitMap

from lakekit import parallel
from lakekit.codec.binary_row import binary_buffers, binary_data, null_mask
from lakekit.data_file.paths import bucket_id_at, data_file_path, data_file_paths
from lakekit.errors import Corrupt, LakekitError
from lakekit.file_index import container
from lakekit.file_index.evaluator import Containers, IndexedFile, evaluate_indexes as ask, rule_out_files
from lakekit.metadata import schemas
from lakekit.model.data_file import format_of_name, index_file_of
from lakekit.predicate import TRUE, Leaf, iter_columns, restrict, to_internal_literal
from lakekit.progress import begin_work
from lakekit.read.pruning import padded_spellings
from lakekit.storage.protocol import FileMissing
from lakekit.types import TIMESTAMPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.table_schema import TableSchema
    from lakekit.predicate import Predicate
    from lakekit.types import DataType

    Hit = bool | BitMap


_READ_BATCH_SIZE = 64
"""How many files are read before checking whether more fit."""
_MAX_COPIED_RANGES = 8
"""More buffers than this are joined, as each is searched separately."""
_CACHED_BYTES = 300


class IndexBatch(NamedTuple):
    """Indexes in one buffer: that of the file at `positions[i]` among the entries is `data[begins[i]:ends[i]]`.

    Places ascend.
    """

    positions: NDArray[np.int64]
    data: NDArray[np.uint8]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]


REBUILD_ADVICE = (
    "Rows are safe: t.rewrite_file_index(rebuild=True) makes the indexes anew, and with the option "
    "file-index.read.enabled=false reads do without them"
)
"""What to do about an index that is lost or damaged."""


def read_index_file(ctx: TableContext, path: str, length: int | None = None) -> bytes:
    """Return the bytes of an index file, the first `length` or all.

    Raises:
        FileMissing: the file does not exist; the message says what to do.
    """
    try:
        return ctx.storage.read(path, 0, length)
    except FileMissing:
        raise make_file_missing(path) from None


def make_file_missing(path: str) -> FileMissing:
    """Return the error for an index file that does not exist."""
    return FileMissing(f"{path}, the index of a data file, is not there. {REBUILD_ADVICE}", path=path)


def add_advice(error: Corrupt) -> Corrupt:
    """Return the error about a damaged index with what to do."""
    return type(error)(f"{error.message}. {REBUILD_ADVICE}", path=error.path, offset=error.offset, field=error.field)


Span = tuple["NDArray[np.uint8]", int, int]
"""Where an index lies: the array that holds it, its begin and its end."""


def load_batches(ctx: TableContext, entries: ManifestEntries, indices: NDArray[np.int64]) -> list[IndexBatch]:
    """Return the separate index files of the data files at `indices` that fit into memory.

    Those that fit are cached. Raises `FileMissing`.
    """
    at, paths = _index_paths(ctx, entries, indices)
    spans = _index_spans(ctx, paths)
    by_array: dict[int, list[int]] = {}
    for i, span in enumerate(spans):
        if span is not None:
            by_array.setdefault(id(span[0]), []).append(i)
    batches = []
    for members in by_array.values():
        members_spans = [span for i in members if (span := spans[i]) is not None]
        begins, ends = np.array([span[1:] for span in members_spans], np.int64).T
        batches.append(IndexBatch(at[members], members_spans[0][0], begins, ends))
    return batches


def _index_paths(
    ctx: TableContext, entries: ManifestEntries, indices: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[str]]:
    """Return which of the places have an index file, and its path."""
    subset = entries.take(indices) if len(indices) < len(entries) else entries
    extra = subset.column("extra_files").to_pylist()  # scalar: one a file
    names = [index_file_of(files or ()) for files in extra]
    pairs = zip(names, data_file_paths(ctx, subset), strict=True)
    paths = [None if name is None else ctx.paths.extra_file(path, name) for name, path in pairs]
    return indices[[path is not None for path in paths]], [path for path in paths if path is not None]


def _index_spans(ctx: TableContext, paths: Sequence[str]) -> list[Span | None]:
    """Return the buffer, begin and end of each index, read now if it is not cached; None if it does not fit."""
    shelf, storage = ctx.runtime.index_cache, ctx.storage
    spans: dict[str, Span | None] = {path: shelf.get((storage, path)) for path in paths}
    missing = [path for path, span in spans.items() if span is None]
    if missing:
        room = shelf.budget_bytes * 3 // 4 - sum(end - begin for _, begin, end in filter(None, spans.values()))
        spans |= _read_index_files(ctx, missing, room)
    present = [span for span in spans.values() if span is not None]
    if len({id(span[0]) for span in present}) > _MAX_COPIED_RANGES:
        data = [array[begin:end] for array, begin, end in present]
        spans |= _cache_concatenated(ctx, [path for path, span in spans.items() if span is not None], data)
    return [spans[path] for path in paths]


def _read_index_files(ctx: TableContext, paths: Sequence[str], max_bytes: int) -> dict[str, Span]:
    """Read the first of those files, as many as fit into `max_bytes` bytes."""
    if ctx.storage.is_remote:
        return _cache_concatenated(ctx, *_fetch_remote(ctx, paths, max_bytes))
    sizes = np.array([_index_file_size(ctx, path) for path in paths], np.int64)
    ends = np.cumsum(sizes)
    fitting = int(np.searchsorted(ends, max_bytes, side="right"))
    buffer = np.empty(int(ends[fitting - 1]) if fitting else 0, np.uint8)

    def fill(at: int) -> int:
        data = read_index_file(ctx, paths[at], int(sizes[at]))  # one after the other has the same memory
        begin = int(ends[at] - sizes[at])
        buffer[begin : begin + len(data)] = np.frombuffer(data, np.uint8)
        return len(data)

    lengths = parallel.map_io(fill, range(fitting), is_remote=False)
    return _cache_buffer(ctx, paths[:fitting], buffer, (ends - sizes)[:fitting], lengths)


def _index_file_size(ctx: TableContext, path: str) -> int:
    try:
        return ctx.storage.size(path)
    except FileMissing:
        raise make_file_missing(path) from None


def _fetch_remote(ctx: TableContext, paths: Sequence[str], remaining_bytes: int) -> tuple[list[str], list[bytes]]:
    """Read as many files as fit over a network, where the size of a file costs a request."""
    data: list[bytes] = []
    while len(data) < len(paths):
        batch = parallel.map_io(
            partial(read_index_file, ctx), paths[len(data) : len(data) + _READ_BATCH_SIZE], is_remote=True
        )
        remaining_bytes -= sum(map(len, batch))
        if remaining_bytes < 0:
            break
        data += batch
    return list(paths[: len(data)]), data


def _cache_concatenated(
    ctx: TableContext, paths: Sequence[str], data: Sequence[bytes | NDArray[np.uint8]]
) -> dict[str, Span]:
    """Cache some indexes as one buffer."""
    lengths = [len(index) for index in data]
    buffer = np.concatenate([np.zeros(0, np.uint8), *(np.frombuffer(index, np.uint8) for index in data)])
    return _cache_buffer(ctx, paths, buffer, np.cumsum(lengths, dtype=np.int64) - lengths, lengths)


def _cache_buffer(
    ctx: TableContext, paths: Sequence[str], data: NDArray[np.uint8], begins: NDArray[np.int64], lengths: Sequence[int]
) -> dict[str, Span]:
    if not len(paths):
        return {}
    places = zip(paths, begins.tolist(), lengths, strict=True)  # scalar: one a file
    spans: dict[str, Span] = {path: (data, begin, begin + length) for path, begin, length in places}
    ctx.runtime.index_cache.put(
        {(ctx.storage, path): span for path, span in spans.items()}, len(data) + _CACHED_BYTES * len(spans)
    )
    return spans


# ---- file index pruning ------------------------------------------------------------


class FileIndexResult(NamedTuple):
    """The files without a matching row, and the positions of rows that may match, by index of the entry.

    Files whose indexes decide nothing are in neither.
    """

    no_match: NDArray[np.int64]
    matching_rows: Mapping[int, BitMap]

    @property
    def prunes_anything(self) -> bool:
        """Return whether the indexes drop a file, or select rows of one."""
        return bool(len(self.no_match) or self.matching_rows)


HEAD_BYTES = 4096
"""How many bytes of an index file are read for its head; with very many indexed columns it is longer."""
_MAX_BLANKS = 16
"""The most trailing blanks of a CHAR to look up in an index; if there may be more, the index is not used."""
_REFORM_END_MS = -12_218_428_800_000
"""1582-10-25: ORC reads times from before the calendar reform as others, which are before this one."""
_NO_POSITIONS = np.zeros(0, np.int64)
_EMPTY_RESULT = FileIndexResult(_NO_POSITIONS, {})


def evaluate_file_indexes(
    ctx: TableContext, entries: ManifestEntries, unmerged_indices: NDArray[np.int64], predicate: Predicate
) -> FileIndexResult:
    """Return the result of a condition on the indexes of the files `unmerged_indices`.

    They are read many at a time first, then the remaining ones one by one. Raises `Corrupt`, `FileMissing`.
    """
    if (
        predicate == TRUE
        or not ctx.options.file_index_read_enabled
        or not len(unmerged_indices)
        or not _has_indexes(entries)
    ):
        return _EMPTY_RESULT
    indexes = _locate_indexes(entries)
    inside, outside = (
        _select_members(indexes.embedded, unmerged_indices, len(entries)),
        _select_members(indexes.separate, unmerged_indices, len(entries)),
    )
    written = _predicates_by_schema(ctx, entries, indexes.schemas, predicate)
    if not written or not len(inside) + len(outside):
        return _EMPTY_RESULT
    query = _IndexQuery(ctx, entries, indexes, written)
    no_match: list[NDArray[np.int64]] = [_NO_POSITIONS]
    hits: dict[int, Hit] = {}
    with begin_work(ctx.runtime, "planning", "file indexes", len(inside) + len(outside)) as under_way:
        beside_files = load_batches(ctx, entries, outside) if len(outside) else []
        for batch in ([_embedded_batch(entries, indexes, inside)] if len(inside) else []) + beside_files:
            ruled_out = _rule_out_batch(query, batch)
            no_match.append(batch.positions[ruled_out])
            under_way.advance(int(np.count_nonzero(ruled_out)))
            hits |= _evaluate_each(query, batch, batch.positions[~ruled_out], under_way.advance)
        unread = np.setdiff1d(
            outside, np.concatenate([_NO_POSITIONS, *(batch.positions for batch in beside_files)]), assume_unique=True
        )
        hits |= _evaluate_one_by_one(query, unread, under_way.advance)
    no_match.append(np.array([at for at, hit in hits.items() if hit is False], np.int64))
    return FileIndexResult(np.concatenate(no_match), {at: hit for at, hit in hits.items() if not isinstance(hit, bool)})


SchemaPredicate = tuple["TableSchema", "Predicate"]
"""The schema that a file was written with, and the condition in its names."""


class _IndexQuery(NamedTuple):
    """A condition on the files of some entries, in the names of every schema they were written with."""

    ctx: TableContext
    entries: ManifestEntries
    indexes: _Indexes
    schema_predicates: Mapping[int, SchemaPredicate]


def _predicates_by_schema(
    ctx: TableContext, entries: ManifestEntries, schema_ids: Iterable[int], predicate: Predicate
) -> dict[int, SchemaPredicate]:
    """Return the schemas by id, with the condition in their names, without those that can decide nothing."""
    every = {number: schemas.schema_of_file(ctx, number) for number in schema_ids}
    predicates = {
        number: (
            schema,
            _pad_char_literals(
                schema, rename_to_schema(ctx.schema, schema, relax_lossy_times(ctx.schema, entries, predicate))
            ),
        )
        for number, schema in every.items()
    }
    return {number: (schema, condition) for number, (schema, condition) in predicates.items() if condition != TRUE}


class _Indexes(NamedTuple):
    """The files that have indexes.

    `embedded` and `separate` are indices of entries with an index in the entry or beside the file; `begins` and `ends`
    are the ranges of those inside in the data of their column. `schemas` are the schemas of files with indexes;
    `schema_ids` and `row_counts` are of every entry.
    """

    embedded: NDArray[np.int64]
    separate: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    schemas: tuple[int, ...]
    schema_ids: NDArray[np.int64]
    row_counts: NDArray[np.int64]


def _has_indexes(entries: ManifestEntries) -> bool:
    """Return whether an entry has an index in it, or names extra files, as an index beside a data file is one."""
    embedded, extra = entries.column("embedded_index"), entries.column("extra_files")
    return embedded.null_count < len(embedded) or bool(len(extra.flatten()))


def _locate_indexes(entries: ManifestEntries) -> _Indexes:
    embedded = entries.column("embedded_index")  # of all entries: taking some of them copies their indexes
    is_inside = ~null_mask(embedded)
    extra = pc.fill_null(pc.greater(pc.list_value_length(entries.column("extra_files")), 0), False).to_numpy(
        zero_copy_only=False
    )
    inside, outside = np.flatnonzero(is_inside), np.flatnonzero(extra & ~is_inside)
    starts, lengths, _ = binary_buffers(embedded)
    ids, counts = entries.integers("schema_id"), entries.integers("row_count")
    written = tuple(np.unique(ids[is_inside | extra]).tolist())  # scalar: few schemas
    return _Indexes(inside, outside, starts[inside], (starts + lengths)[inside], written, ids, counts)


def load_index_batches(ctx: TableContext, entries: ManifestEntries, indices: NDArray[np.int64]) -> list[IndexBatch]:
    """Return the indexes of the files at `indices`, of those that are in memory or fit into it.

    Raises `FileMissing`.
    """
    indexes = _locate_indexes(entries)
    inside, outside = (
        _select_members(indexes.embedded, indices, len(entries)),
        _select_members(indexes.separate, indices, len(entries)),
    )
    embedded = [_embedded_batch(entries, indexes, inside)] if len(inside) else []
    return embedded + (load_batches(ctx, entries, outside) if len(outside) else [])


def _embedded_batch(entries: ManifestEntries, indexes: _Indexes, inside: NDArray[np.int64]) -> IndexBatch:
    """Return the indexes in the entries at those places; none of their bytes is copied."""
    at = slice(None) if len(inside) == len(indexes.embedded) else np.searchsorted(indexes.embedded, inside)
    return IndexBatch(inside, binary_data(entries.column("embedded_index")), indexes.begins[at], indexes.ends[at])


def _select_members(indices: NDArray[np.int64], unmerged_indices: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the indices that are among `unmerged_indices`."""
    if len(unmerged_indices) == count:
        return indices
    mask = np.zeros(count, bool)
    mask[unmerged_indices] = True
    return indices[mask[indices]]


def _rule_out_batch(query: _IndexQuery, batch: IndexBatch) -> NDArray[np.bool_]:
    """Return which files of a batch have no row that matches, by the indexes that are asked many at a time."""
    ruled_out = np.zeros(len(batch.positions), bool)
    for schema_id, members, containers in _by_schema(query, batch, batch.positions):
        schema, condition = query.schema_predicates[schema_id]
        ruled_out[members] = rule_out_files(containers, condition, schema.types)
    return ruled_out


def _by_schema(
    query: _IndexQuery, batch: IndexBatch, indices: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.int64], Containers]]:
    """Yield the indexes of the files of each schema, without copying them.

    They are the schema's id, the positions of its files in `indices`, and the containers.
    """
    at = slice(None) if len(indices) == len(batch.positions) else np.searchsorted(batch.positions, indices)
    begins, ends, counts = batch.begins[at], batch.ends[at], query.indexes.row_counts[indices]
    schema_ids = query.indexes.schema_ids[indices]
    for schema_id in query.schema_predicates:  # scalar: few schemas
        members = np.flatnonzero(schema_ids == schema_id)
        if len(members) == len(indices):
            yield schema_id, members, Containers(batch.data, begins, ends, counts)
        elif len(members):
            yield schema_id, members, Containers(batch.data, begins[members], ends[members], counts[members])


def _evaluate_each(
    query: _IndexQuery, batch: IndexBatch, indices: NDArray[np.int64], on_evaluated: Callable[[], object]
) -> dict[int, Hit]:
    """Return the answers of the indexes at some places of a batch, one by one. Raises `Corrupt`, `FileMissing`."""
    hits: dict[int, Hit] = {}
    for schema_id, members, containers in _by_schema(query, batch, indices) if len(indices) else ():
        schema, condition = query.schema_predicates[schema_id]
        answers = _evaluate_in_memory(containers, indices[members], condition, schema.types)
        hits |= answers
        if len(answers) < len(members):  # the damaged ones
            hits |= _evaluate_one_by_one(query, np.setdiff1d(indices[members], list(answers)), on_evaluated)
        for _ in answers:
            on_evaluated()
    return hits


def _evaluate_one_by_one(
    query: _IndexQuery, indices: NDArray[np.int64], on_evaluated: Callable[[], object]
) -> dict[int, Hit]:
    """Return the answers of indexes that are read for it. Raises `Corrupt`, `FileMissing`."""
    if not len(indices):
        return {}
    ctx, entries = query.ctx, query.entries
    ids = query.indexes.schema_ids
    left = [at for at in indices.tolist() if ids[at] in query.schema_predicates]  # scalar: one a file

    def evaluate_file(at: int) -> Hit:
        file = entries.file(at)
        return _evaluate_file(
            ctx, data_file_path(ctx, *bucket_id_at(entries, at), file), file, *query.schema_predicates[file.schema_id]
        )

    return dict(
        zip(
            left,
            parallel.map_io(evaluate_file, left, is_remote=ctx.storage.is_remote, on_done=lambda _: on_evaluated()),
            strict=True,
        )
    )


def _evaluate_in_memory(
    containers: Containers, names: NDArray[np.int64], condition: Predicate, types: Mapping[str, DataType]
) -> dict[int, Hit]:
    """Return answers of indexes by name; damaged ones are evaluated again with paths, for the error."""
    view = containers.data.data  # they are looked at in a few places: none is copied
    hits: dict[int, Hit] = {}
    columns = [
        column.tolist() for column in (names, containers.begins, containers.ends, containers.row_counts)
    ]  # scalar: one a file
    for at, begin, end, count in zip(*columns, strict=True):  # scalar: one a file
        with suppress(LakekitError):
            hits[at] = _normalize_hit(ask(view[begin:end], condition, types, count))
    return hits


def _normalize_hit(hit: Hit) -> Hit:
    return False if isinstance(hit, BitMap) and not hit else hit


def select_indexed(entries: ManifestEntries, unmerged_indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the files that have an index."""
    indexes = _locate_indexes(entries)
    return _select_members(np.union1d(indexes.embedded, indexes.separate), unmerged_indices, len(entries))


def _evaluate_file(
    ctx: TableContext, data_path: str, file: DataFileMeta, written_schema: TableSchema, predicate: Predicate
) -> Hit:
    indexes = _read_container(ctx, data_path, file)
    if indexes is None:
        return True
    try:
        return _normalize_hit(ask(indexes[1], predicate, written_schema.types, file.row_count, path=indexes[0]))
    except Corrupt as damaged:
        raise add_advice(damaged) from None


def open_indexes(
    ctx: TableContext, data_path: str, file: DataFileMeta, written_schema: TableSchema
) -> IndexedFile | None:
    """Return the indexes of a file, written with the schema `written_schema`; None if it has none.

    Raises `Corrupt`, `FileMissing`.
    """
    indexes = _read_container(ctx, data_path, file)
    return None if indexes is None else IndexedFile(indexes[1], written_schema.types, file.row_count, indexes[0])


def read_index_contents(ctx: TableContext, data_path: str, file: DataFileMeta) -> Mapping[str, Mapping[str, object]]:
    """Return which indexes a file has, by column; of an index file only the head is read.

    Raises `Corrupt`, `FileMissing`.
    """
    try:
        if file.embedded_index is not None:
            return container.read_toc(file.embedded_index, path=data_path)
        if file.index_file is None:
            return {}
        path = ctx.paths.extra_file(data_path, file.index_file)
        head = read_index_file(ctx, path, HEAD_BYTES)
        if container.head_length(head[: container.FIXED_HEAD_BYTES], path=path) > len(head):
            head = read_index_file(ctx, path)
        return container.read_toc(head, path=path)
    except Corrupt as damaged:
        raise add_advice(damaged) from None


def _read_container(ctx: TableContext, data_path: str, file: DataFileMeta) -> tuple[str, bytes] | None:
    """Return the path and the bytes of a file's indexes; None if it has none."""
    if file.embedded_index is not None:
        return data_path, file.embedded_index
    if file.index_file is None:
        return None
    path = ctx.paths.extra_file(data_path, file.index_file)
    return path, read_index_file(ctx, path)


def rename_to_schema(schema: TableSchema, written_schema: TableSchema, predicate: Predicate) -> Predicate:
    """Return the predicate in the names of an older schema.

    Conditions on columns that it lacks, or has with another type, become true.
    """
    if schema.id == written_schema.id:
        return predicate
    then = map_column_names(schema, written_schema)
    return restrict(
        predicate, lambda leaf: Leaf(then[leaf.column], leaf.op, leaf.literals) if leaf.column in then else TRUE
    )


def _pad_char_literals(written_schema: TableSchema, predicate: Predicate) -> Predicate:
    """Return the predicate for files whose CHAR values may have been indexed with trailing blanks.

    Rows of ORC files come without them.
    """
    lengths = {field.name: field.type.length or 1 for field in written_schema.fields if field.type.root == "CHAR"}
    return (
        restrict(predicate, lambda leaf: _with_blanks(leaf, lengths[leaf.column]) if leaf.column in lengths else leaf)
        if lengths
        else predicate
    )


def relax_lossy_times(schema: TableSchema, entries: ManifestEntries, predicate: Predicate) -> Predicate:
    """Return the predicate without conditions on times that ORC reads as others.

    Indexes and statistics have the times that were written; the reference's ORC reads some of them as others.
    """
    times = {field.name: field.type for field in schema.fields if field.type.root in TIMESTAMPS}
    if not any(name in times for name in iter_columns(predicate)):
        return predicate
    relaxed = restrict(
        predicate, lambda leaf: TRUE if leaf.column in times and _may_be_lost(leaf, times[leaf.column]) else leaf
    )
    return relaxed if relaxed != predicate and _has_orc(entries) else predicate


def _may_be_lost(leaf: Leaf, t: DataType) -> bool:
    """Return whether a leaf has a time that ORC may read as another.

    Those are the last second before 1970 and the first one since, as which it is read, and times before the reform.
    """
    times = [time_literal for value in leaf.literals if (time_literal := to_internal_literal(value, t)) is not None]
    return any(-1000 <= time.millis < 1000 or time.millis < _REFORM_END_MS for time in times)


def _has_orc(entries: ManifestEntries) -> bool:
    return any(format_of_name(name) == "orc" for name in entries.column("file_name").to_pylist())  # scalar: one a file


def _with_blanks(leaf: Leaf, length: int) -> Predicate:
    """Return a condition that is true for padded values wherever the leaf is true for those without blanks."""
    if leaf.op not in ("=", "in"):
        return TRUE if leaf.op in ("!=", "not in", "<", "<=") else leaf
    if any(not isinstance(text, str) or length - len(text) > _MAX_BLANKS for text in leaf.literals):
        return TRUE
    return Leaf(leaf.column, "in", tuple(padded for text in leaf.literals for padded in padded_spellings(text, length)))


def map_column_names(schema: TableSchema, written_schema: TableSchema) -> dict[str, str]:
    """Return the names of the columns of a schema in another one.

    Columns that it lacks, or has with another type, are left out.
    """
    by_id = {field.id: field for field in written_schema.fields}
    pairs = ((field, by_id.get(field.id)) for field in schema.fields)
    return {
        own.name: then.name
        for own, then in pairs
        if then is not None and own.type.as_nullable() == then.type.as_nullable()
    }
