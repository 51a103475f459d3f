"""What file indexes say of the files a plan still holds: gone, unknown, or these row positions (ENGINE 6.7).

Only files that are read without a merge are asked: a merge needs every version of a key. The index of a file is a container in its manifest entry, or
a file beside it named `….index`.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import pyarrow.compute as pc
from pyroaring import BitMap

from lakekit import world
from lakekit.codec.binary_columns import binary_buffers, binary_data, nulls_of
from lakekit.data_file.paths import bucket_id_at, data_file_path
from lakekit.errors import Corrupt, LakekitError
from lakekit.file_index import container
from lakekit.file_index.evaluator import IndexedFile, evaluate as ask
from lakekit.file_index.together import BatchResult, Containers, evaluate_batch, no_cache
from lakekit.metadata import schemas
from lakekit.model.data_file import format_of
from lakekit.predicate import TRUE, Leaf, columns, literal, restrict
from lakekit.progress import work
from lakekit.read import beside, lookup, peek
from lakekit.read.beside import EMBEDDED_BATCH, IndexBatch, get_or_compute_for_batch
from lakekit.read.derived import get_or_compute
from lakekit.read.peek import HEAD_BYTES
from lakekit.read.pruning import list_padded
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
    from lakekit.world import Runtime

    Hit = bool | BitMap

T = TypeVar("T")


class FileIndexResult(NamedTuple):
    """What indexes say, by place among the entries: files without a row that matches, and positions of rows that may. Who knows nothing is left out.

    `later` tells those positions of files that have rows for sure: most are read without asking which.
    """

    gone: NDArray[np.int64]
    hits: Mapping[int, BitMap]
    later: Callable[[], Mapping[int, BitMap]]

    @property
    def says_something(self) -> bool:
        """Whether any file is gone, or any of its rows named."""
        return bool(len(self.gone) or self.hits or self.later is not dict)

    def positions(self) -> Mapping[int, BitMap]:
        """Positions of rows that may match, of every file of which an index names some. Raises `Corrupt`, `FileMissing`."""
        return {**self.hits, **self.later()}


_MAJORITY_FACTOR = 2
"""Where so many times as many files have indexes as are asked for, what all of them hold is not worth being kept."""
_MOST_BLANKS = 16
"""So many blanks at the end of a CHAR are looked for in an index; where there may be more, it is not asked."""
_REFORM_END_MS = -12_218_428_800_000
"""1582-10-25: ORC gives times from before the reform of the calendar back as others, which are before this one."""
_EMPTY_RESULT = FileIndexResult(np.zeros(0, np.int64), {}, dict)


def evaluate(ctx: TableContext, entries: ManifestEntries, alone: NDArray[np.int64], predicate: Predicate) -> FileIndexResult:
    """What the indexes of the files `alone` say of a condition. Raises `Corrupt`, `FileMissing`."""
    if predicate == TRUE or not ctx.options.file_index_read_enabled or not len(alone):
        return _EMPTY_RESULT
    indexes = _indexes(ctx.world, entries)
    inside, outside = _select_members(indexes.inside, alone, len(entries)), _select_members(indexes.outside, alone, len(entries))
    written = _predicates_by_schema(ctx, entries, indexes.schemas, predicate)
    if not written or not len(inside) + len(outside):
        return _EMPTY_RESULT
    of_all = _is_majority(indexes, len(inside) + len(outside))
    peeked = _rule_out_by_peek(ctx, entries, indexes, outside, written)
    if len(peeked):
        outside, of_all = np.setdiff1d(outside, peeked, assume_unique=True), False
    asking = _IndexQuery(ctx, entries, indexes, written, of_all)
    with work(ctx.world, "planning", "file indexes", len(inside) + len(outside)) as under_way:
        lots = _load_index_batches(ctx, entries, indexes, (inside, outside), of_all=of_all)
        told_by = [(lot, at, _evaluate_batch(asking, lot, at)) for lot in lots for at in (_select_members(lot.places, alone, len(entries)),)]
        open_yet = [(lot, at[~(one.dead | one.sure | one.mute)]) for lot, at, one in told_by]
        under_way.advance(sum(len(at) for _, at, _ in told_by) - sum(len(at) for _, at in open_yet))
        found = _evaluate_each(asking, open_yet, under_way.advance)
        found |= _evaluate_one_by_one(asking, _find_unbatched(asking, outside, lots), under_way.advance)
    also = [at for at, hit in found.items() if hit is False]
    gone = [at[one.dead] for _, at, one in told_by] + ([np.array(also, np.int64)] if also else []) + ([peeked] if len(peeked) else [])
    sure = [(lot, at[one.sure]) for lot, at, one in told_by if one.sure.any()]
    if of_all and isinstance(predicate, Leaf) and predicate.op in ("=", "in"):
        _remember(asking, lots, predicate)
    return FileIndexResult(
        np.concatenate([_EMPTY_RESULT.gone, *gone]) if len(gone) != 1 else gone[0],
        _positions(found),
        partial(_evaluate_deferred, asking, sure) if sure else dict,
    )


def _rule_out_by_peek(
    ctx: TableContext, entries: ManifestEntries, indexes: _Indexes, outside: NDArray[np.int64], written: Mapping[int, SchemaPredicate]
) -> NDArray[np.int64]:
    """Those whose indexes beside them rule them out by a few bytes, where nobody asked them before."""
    if not len(outside) or not beside.is_first_time(ctx, entries, outside):
        return _EMPTY_RESULT.gone
    at, paths = beside.index_paths(ctx, entries, outside)
    said = {number: (condition, one.types) for number, (one, condition) in written.items()}
    gone = peek.rule_out_files(ctx, paths, [said.get(number) for number in indexes.schema_ids[at].tolist()])  # scalar: one a file
    return at[np.array(gone, bool)]


def _find_unbatched(asking: _IndexQuery, outside: NDArray[np.int64], lots: Sequence[IndexBatch]) -> NDArray[np.int64]:
    """The indexes beside files that no lot holds."""
    held = [lot.places for lot in lots if lot.number != EMBEDDED_BATCH]
    if sum(map(len, held)) == len(asking.indexes.outside if asking.of_all else outside):  # mostly there is room for all
        return _EMPTY_RESULT.gone
    return np.setdiff1d(outside, np.concatenate([_EMPTY_RESULT.gone, *held]), assume_unique=True)


def _positions(found: Mapping[int, Hit]) -> dict[int, BitMap]:
    return {at: hit for at, hit in found.items() if not isinstance(hit, bool)}


def _evaluate_deferred(asking: _IndexQuery, sure: list[tuple[IndexBatch, NDArray[np.int64]]]) -> dict[int, BitMap]:
    return _positions(_evaluate_each(asking, sure, lambda: None))


SchemaPredicate = tuple["TableSchema", "Predicate"]
"""The schema that a file was written with, and the condition in its names."""


class _IndexQuery(NamedTuple):
    """A question of the files of some entries, in the names of every schema they were written with. `of_all`: of most that have indexes."""

    ctx: TableContext
    entries: ManifestEntries
    indexes: _Indexes
    written: Mapping[int, SchemaPredicate]
    of_all: bool


def _predicates_by_schema(ctx: TableContext, entries: ManifestEntries, schema_ids: Iterable[int], predicate: Predicate) -> dict[int, SchemaPredicate]:
    """By the id of a schema; those are left out whose files can say nothing."""
    every = {number: schemas.schema_of_file(ctx, number) for number in schema_ids}
    asked = {
        number: (one, _pad_char_literals(one, rename_to_schema(ctx.schema, one, relax_lossy_times(ctx.schema, entries, predicate))))
        for number, one in every.items()
    }
    return {number: (one, condition) for number, (one, condition) in asked.items() if condition != TRUE}


class _Indexes(NamedTuple):
    """Which files bring indexes: places among the entries, in the entry or outside of it. Of those inside also where they lie in the data of the column.

    Of every entry its schema and how many rows its file has; `schemas` are those of files with indexes.
    """

    inside: NDArray[np.int64]
    outside: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    schemas: tuple[int, ...]
    schema_ids: NDArray[np.int64]
    row_counts: NDArray[np.int64]


def _indexes(known: Runtime, entries: ManifestEntries) -> _Indexes:
    return get_or_compute(known, entries, "indexes", partial(_locate_indexes, entries)) or _locate_indexes(entries)


def _locate_indexes(entries: ManifestEntries) -> _Indexes:
    embedded = entries.column("embedded_index")  # of all entries: taking some of them copies their indexes
    is_inside = ~nulls_of(embedded)
    extra = pc.fill_null(pc.greater(pc.list_value_length(entries.column("extra_files")), 0), False).to_numpy(zero_copy_only=False)
    inside, outside = np.flatnonzero(is_inside), np.flatnonzero(extra & ~is_inside)
    starts, lengths, _ = binary_buffers(embedded)
    ids, counts = entries.numbers("schema_id").copy(), entries.numbers("row_count").copy()  # no buffer of the entries: they may be kept longer than those
    written = tuple(np.unique(ids[is_inside | extra]).tolist())  # scalar: few schemas
    return _Indexes(inside, outside, starts[inside], (starts + lengths)[inside], written, ids, counts)


def load_index_batches(ctx: TableContext, entries: ManifestEntries, places: NDArray[np.int64]) -> list[IndexBatch]:
    """The indexes of the files at some places, as far as they are in memory, or fit into it: what is asked again is read once. Raises `FileMissing`."""
    indexes = _indexes(ctx.world, entries)
    inside, outside = _select_members(indexes.inside, places, len(entries)), _select_members(indexes.outside, places, len(entries))
    return _load_index_batches(ctx, entries, indexes, (inside, outside), of_all=_is_majority(indexes, len(inside) + len(outside)))


def _is_majority(indexes: _Indexes, count: int) -> bool:
    """Whether so many are most of those that there are."""
    return _MAJORITY_FACTOR * count >= len(indexes.inside) + len(indexes.outside)


def _load_index_batches(
    ctx: TableContext, entries: ManifestEntries, indexes: _Indexes, asked: tuple[NDArray[np.int64], NDArray[np.int64]], *, of_all: bool
) -> list[IndexBatch]:
    """The indexes that are asked for, and where most of all are, the others too: what lies in entries is copied by none of it."""
    inside, outside = asked
    lots = [IndexBatch(EMBEDDED_BATCH, indexes.inside, binary_data(entries.column("embedded_index")), indexes.begins, indexes.ends)] if len(inside) else []
    return lots + (beside.load_batches(ctx, entries, indexes.outside if of_all else outside, every=of_all) if len(outside) else [])


def _select_members(places: NDArray[np.int64], alone: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The places that are among `alone`."""
    if len(alone) == count:
        return places
    mask = np.zeros(count, bool)
    mask[alone] = True
    return places[mask[places]]


def _evaluate_batch(asking: _IndexQuery, lot: IndexBatch, wanted: NDArray[np.int64]) -> BatchResult:
    """What indexes say that are looked at together: which of the wanted places have no row, which have some for sure, and of which no more is known."""
    asked = lot.places if asking.of_all else wanted
    parts = [(mine, _evaluate_schema_batch(asking, lot, number, some)) for number, mine, some in _by_schema(asking, lot, asked)]
    every = _merge_batch_results(parts, len(asked))
    if len(wanted) == len(asked):
        return every
    at = np.searchsorted(asked, wanted)
    return BatchResult(every.dead[at], every.sure[at], every.mute[at])


def _evaluate_schema_batch(asking: _IndexQuery, lot: IndexBatch, schema_id: int, some: Containers) -> BatchResult:
    schema, condition = asking.written[schema_id]
    memory = partial(get_or_compute_for_batch, asking.ctx, asking.entries, lot, schema_id) if asking.of_all else no_cache
    return evaluate_batch(some, condition, schema.types, memory)


def _merge_batch_results(parts: Sequence[tuple[NDArray[np.int64], BatchResult]], count: int) -> BatchResult:
    """What was told of each part of `count` files, as one."""
    if len(parts) == 1 and len(parts[0][0]) == count:  # mostly all are of one schema
        return parts[0][1]
    every = BatchResult(*np.zeros((3, count), bool))
    for mine, found in parts:
        every.dead[mine], every.sure[mine], every.mute[mine] = found
    return every


def _by_schema(asking: _IndexQuery, lot: IndexBatch, asked: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64], Containers]]:
    """Indexes of the files of each schema: its number, whose they are among `asked`, and where they lie: none is copied."""
    at = slice(None) if len(asked) == len(lot.places) else np.searchsorted(lot.places, asked)
    begins, ends, counts = lot.begins[at], lot.ends[at], asking.indexes.row_counts[asked]
    numbers = asking.indexes.schema_ids[asked]
    for number in asking.written:  # scalar: few schemas
        mine = np.flatnonzero(numbers == number)
        if len(mine) == len(asked):
            yield number, mine, Containers(lot.data, begins, ends, counts)
        elif len(mine):
            yield number, mine, Containers(lot.data, begins[mine], ends[mine], counts[mine])


def _evaluate_each(asking: _IndexQuery, wanted: Iterable[tuple[IndexBatch, NDArray[np.int64]]], after: Callable[[], object]) -> dict[int, Hit]:
    """What the indexes at some places of lots say, asked one by one. Raises `Corrupt`, `FileMissing`."""
    found: dict[int, Hit] = {}
    for lot, places in wanted:
        for number, mine, some in _by_schema(asking, lot, places) if len(places) else ():
            schema, condition = asking.written[number]
            heard = _evaluate_in_memory(some, places[mine], condition, schema.types)
            found |= heard | _evaluate_one_by_one(asking, np.setdiff1d(places[mine], list(heard)), after)
            for _ in heard:
                after()
    return found


def _evaluate_one_by_one(asking: _IndexQuery, places: NDArray[np.int64], after: Callable[[], object]) -> dict[int, Hit]:
    """What indexes say that are read for it. Raises `Corrupt`, `FileMissing`."""
    if not len(places):
        return {}
    ctx, entries = asking.ctx, asking.entries
    ids = asking.indexes.schema_ids
    left = [at for at in places.tolist() if ids[at] in asking.written]  # scalar: one a file

    def one(at: int) -> Hit:
        file = entries.file(at)
        return _ask(ctx, data_file_path(ctx, *bucket_id_at(entries, at), file), file, *asking.written[file.schema_id])

    return dict(zip(left, world.map_io(one, left, is_remote=ctx.storage.is_remote, after=lambda _: after()), strict=True))


def _remember(asking: _IndexQuery, lots: Sequence[IndexBatch], leaf: Leaf) -> None:
    """What tells of a lookup of a column, where all files are of today's schema and bring their indexes in a few lots."""
    ctx, entries = asking.ctx, asking.entries
    if sum(len(lot.places) for lot in lots) == len(entries) and asking.indexes.schemas == (ctx.schema.id,):
        lookup.remember(ctx, entries, leaf.column, lots, asking.indexes.row_counts)


def _evaluate_in_memory(many: Containers, names: NDArray[np.int64], condition: Predicate, types: Mapping[str, DataType]) -> dict[int, Hit]:
    """What indexes say, each under its name; of damaged ones nothing, so that they are asked again by whoever knows their paths."""
    view = many.data.data  # they are looked at in a few places: none is copied
    found: dict[int, Hit] = {}
    columns = [column.tolist() for column in (names, many.begins, many.ends, many.row_counts)]  # scalar: one a file
    for at, begin, end, count in zip(*columns, strict=True):  # scalar: one a file
        with suppress(LakekitError):
            found[at] = _normalize_hit(ask(view[begin:end], condition, types, count))
    return found


def _normalize_hit(found: Hit) -> Hit:
    return False if isinstance(found, BitMap) and not found else found


def select_indexed(known: Runtime, entries: ManifestEntries, alone: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those files that bring an index."""
    indexes = _indexes(known, entries)
    return _select_members(np.union1d(indexes.inside, indexes.outside), alone, len(entries))


def _ask(ctx: TableContext, data_path: str, file: DataFileMeta, written: TableSchema, asked: Predicate) -> Hit:
    found = _container(ctx, data_path, file)
    if found is None:
        return True
    try:
        return _normalize_hit(ask(found[1], asked, written.types, file.row_count, path=found[0]))
    except Corrupt as damaged:
        raise beside.add_advice(damaged) from None


def open_indexes(ctx: TableContext, data_path: str, file: DataFileMeta, written: TableSchema) -> IndexedFile | None:
    """The indexes of a file that the schema `written` is of, to be asked for more; None where it has none. Raises `Corrupt`, `FileMissing`."""
    found = _container(ctx, data_path, file)
    return None if found is None else IndexedFile(found[1], written.types, file.row_count, found[0])


def contents(ctx: TableContext, data_path: str, file: DataFileMeta) -> Mapping[str, Mapping[str, object]]:
    """By column, which indexes a file brings: of those beside it no more than the head is read. Raises `Corrupt`, `FileMissing`."""
    try:
        if file.embedded_index is not None:
            return container.contents(file.embedded_index, path=data_path)
        if file.index_file is None:
            return {}
        path = ctx.layout.extra_file(data_path, file.index_file)
        head = beside.read(ctx, path, HEAD_BYTES)
        if container.head_length(head[: container.HEAD], path=path) > len(head):
            head = beside.read(ctx, path)
        return container.contents(head, path=path)
    except Corrupt as damaged:
        raise beside.add_advice(damaged) from None


def _container(ctx: TableContext, data_path: str, file: DataFileMeta) -> tuple[str, bytes] | None:
    """Where the indexes of a file are, and their bytes."""
    if file.embedded_index is not None:
        return data_path, file.embedded_index
    if file.index_file is None:
        return None
    path = ctx.layout.extra_file(data_path, file.index_file)
    return path, beside.read(ctx, path)


def rename_to_schema(schema: TableSchema, written: TableSchema, predicate: Predicate) -> Predicate:
    """The predicate in the names of an older schema; columns that it lacks, or held with another type, say nothing."""
    if schema.id == written.id:
        return predicate
    then = map_column_names(schema, written)
    return restrict(predicate, lambda leaf: Leaf(then[leaf.column], leaf.op, leaf.literals) if leaf.column in then else TRUE)


def _pad_char_literals(written: TableSchema, predicate: Predicate) -> Predicate:
    """The predicate for files whose CHAR values may have had blanks at their ends when they were indexed: rows of ORC files come without them."""
    lengths = {field.name: field.type.length or 1 for field in written.fields if field.type.root == "CHAR"}
    return restrict(predicate, lambda leaf: _with_blanks(leaf, lengths[leaf.column]) if leaf.column in lengths else leaf) if lengths else predicate


def relax_lossy_times(schema: TableSchema, entries: ManifestEntries, predicate: Predicate) -> Predicate:
    """The predicate for indexes and statistics of the files, which know times as the reference was given them: its ORC gives some of them back as others."""
    times = {field.name: field.type for field in schema.fields if field.type.root in TIMESTAMPS}
    if not any(name in times for name in columns(predicate)):
        return predicate
    found = restrict(predicate, lambda leaf: TRUE if leaf.column in times and _may_be_lost(leaf, times[leaf.column]) else leaf)
    return found if found != predicate and _has_orc(entries) else predicate


def _may_be_lost(leaf: Leaf, t: DataType) -> bool:
    """Whether it asks for a time near those: in the last second before 1970, in the first one since, which they are read in, or before the reform."""
    times = [found for value in leaf.literals if (found := literal(value, t)) is not None]
    return any(-1000 <= time.millis < 1000 or time.millis < _REFORM_END_MS for time in times)


def _has_orc(entries: ManifestEntries) -> bool:
    return any(format_of(name) == "orc" for name in entries.column("file_name").to_pylist())  # scalar: one a file


def _with_blanks(leaf: Leaf, length: int) -> Predicate:
    """What is true of values with blanks more wherever the leaf is true of those without."""
    if leaf.op not in ("=", "in"):
        return TRUE if leaf.op in ("!=", "not in", "<", "<=") else leaf
    if any(not isinstance(text, str) or length - len(text) > _MOST_BLANKS for text in leaf.literals):
        return TRUE
    return Leaf(leaf.column, "in", tuple(one for text in leaf.literals for one in list_padded(text, length)))


def map_column_names(schema: TableSchema, written: TableSchema) -> dict[str, str]:
    """What the columns of a schema are called in another one; those are left out that it lacks, or holds with another type."""
    by_id = {field.id: field for field in written.fields}
    pairs = ((field, by_id.get(field.id)) for field in schema.fields)
    return {own.name: then.name for own, then in pairs if then is not None and own.type.as_nullable() == then.type.as_nullable()}
