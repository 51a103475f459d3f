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
from lakekit.errors import LakekitError
from lakekit.files.places import data_file_path, place_of
from lakekit.index.evaluate import File, evaluate as ask
from lakekit.index.together import Containers, Told, forgetful, told
from lakekit.meta import schemas
from lakekit.predicate import TRUE, Leaf, restrict
from lakekit.progress import work
from lakekit.read.derived import kept
from lakekit.read.prune import padded

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from lakekit.meta.handle import Handle
    from lakekit.model.data_file import DataFile
    from lakekit.model.entries import Entries
    from lakekit.model.schema import TableSchema
    from lakekit.predicate import Predicate
    from lakekit.types import DataType
    from lakekit.world import World

    Hit = bool | BitMap

T = TypeVar("T")


class Found(NamedTuple):
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


_MOST = 2
"""Where so many times as many files have indexes as are asked for, what all of them hold is not worth being kept."""
_MOST_BLANKS = 16
"""So many blanks at the end of a CHAR are looked for in an index; where there may be more, it is not asked."""
_NOTHING = Found(np.zeros(0, np.int64), {}, dict)


def evaluate(handle: Handle, entries: Entries, alone: NDArray[np.int64], predicate: Predicate) -> Found:
    """What the indexes of the files `alone` say of a condition. Raises `Corrupt`, `FileMissing`."""
    if not handle.options.file_index_read_enabled or not len(alone):
        return _NOTHING
    indexes = _indexes(handle.world, entries)
    inside, outside = _chosen(indexes.inside, alone, len(entries)), _chosen(indexes.outside, alone, len(entries))
    written = _written(handle, indexes.schemas, predicate)
    if not written or not len(inside) + len(outside):
        return _NOTHING
    with work(handle.world, "planning", "file indexes", len(inside) + len(outside)) as under_way:
        dead, sure = _together(handle.world, entries, indexes, inside, written)
        under_way.advance(int(np.count_nonzero(dead | sure)))
        found = _each(handle, entries, indexes, (inside[~(dead | sure)], outside), written, under_way.advance)
    also = [at for at, hit in found.items() if hit is False]
    later = partial(_later, handle, entries, indexes, inside[sure], written) if sure.any() else dict
    return Found(np.sort(np.concatenate([inside[dead], np.array(also, np.int64)])), _positions(found), later)


def _positions(found: Mapping[int, Hit]) -> dict[int, BitMap]:
    return {at: hit for at, hit in found.items() if not isinstance(hit, bool)}


def _later(handle: Handle, entries: Entries, indexes: _Indexes, inside: NDArray[np.int64], written: Mapping[int, Written]) -> dict[int, BitMap]:
    return _positions(_each(handle, entries, indexes, (inside, _NOTHING.gone), written, lambda: None))


Written = tuple["TableSchema", "Predicate"]
"""The schema that a file was written with, and the condition in its names."""


def _written(handle: Handle, schema_ids: Iterable[int], predicate: Predicate) -> dict[int, Written]:
    """By the id of a schema; those are left out whose files can say nothing."""
    every = {number: handle.schema if number == handle.schema.id else schemas.read(handle, number) for number in schema_ids}
    asked = {number: (one, _padded(one, as_written(handle.schema, one, predicate))) for number, one in every.items()}
    return {number: (one, condition) for number, (one, condition) in asked.items() if condition != TRUE}


class _Indexes(NamedTuple):
    """Which files bring indexes: places among the entries, in the entry or outside of it. Of those inside also where they lie in the data of the column."""

    inside: NDArray[np.int64]
    outside: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    schemas: tuple[int, ...]


def _indexes(known: World, entries: Entries) -> _Indexes:
    return kept(known, entries, "indexes", partial(_where, entries)) or _where(entries)


def _where(entries: Entries) -> _Indexes:
    embedded = entries.column("embedded_index")  # of all entries: taking some of them copies their indexes
    is_inside = ~nulls_of(embedded)
    extra = pc.fill_null(pc.greater(pc.list_value_length(entries.column("extra_files")), 0), False).to_numpy(zero_copy_only=False)
    inside, outside = np.flatnonzero(is_inside), np.flatnonzero(extra & ~is_inside)
    starts, lengths, _ = binary_buffers(embedded)
    ids = entries.numbers("schema_id")[is_inside | extra]
    return _Indexes(inside, outside, starts[inside], (starts + lengths)[inside], tuple(np.unique(ids).tolist()))  # scalar: few schemas


def _chosen(places: NDArray[np.int64], alone: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The places that are among `alone`."""
    if len(alone) == count:
        return places
    mask = np.zeros(count, bool)
    mask[alone] = True
    return places[mask[places]]


def _together(known: World, entries: Entries, indexes: _Indexes, inside: NDArray[np.int64], written: Mapping[int, Written]) -> Told:
    """What indexes say that lie in manifest entries and are looked at together: which of those places have no row, and which have some for sure."""
    of_all = _MOST * len(inside) >= len(indexes.inside)
    asked = indexes.inside if of_all else inside
    every = Told(*np.zeros((2, len(asked)), bool))
    for number, mine, some in _by_schema(entries, indexes, asked, written):
        schema, condition = written[number]
        found = told(some, condition, _types(schema), partial(_again, known, entries, number) if of_all else forgetful)
        every.dead[mine], every.sure[mine] = found
    if len(inside) == len(asked):
        return every
    at = np.searchsorted(asked, inside)
    return Told(every.dead[at], every.sure[at])


def _by_schema(entries: Entries, indexes: _Indexes, inside: NDArray[np.int64], written: Iterable[int]) -> Iterator[tuple[int, NDArray[np.int64], Containers]]:
    """Indexes in entries of the files of each schema: its number, whose they are among `inside`, and where they lie: none is copied."""
    data = binary_data(entries.column("embedded_index"))
    at = slice(None) if len(inside) == len(indexes.inside) else np.searchsorted(indexes.inside, inside)
    begins, ends, counts = indexes.begins[at], indexes.ends[at], entries.numbers("row_count")[inside]
    numbers = entries.numbers("schema_id")[inside]
    for number in written:  # scalar: few schemas
        mine = np.flatnonzero(numbers == number)
        if len(mine) == len(inside):
            yield number, mine, Containers(data, begins, ends, counts)
        elif len(mine):
            yield number, mine, Containers(data, begins[mine], ends[mine], counts[mine])


def _each(
    handle: Handle,
    entries: Entries,
    indexes: _Indexes,
    places: tuple[NDArray[np.int64], NDArray[np.int64]],
    written: Mapping[int, Written],
    after: Callable[[], object],
) -> dict[int, Hit]:
    """What the indexes of some places say, asked one by one: of those in entries, and of those outside. Raises `Corrupt`, `FileMissing`."""
    inside, outside = places
    if not len(inside) + len(outside):
        return {}
    found: dict[int, Hit] = {}
    for number, mine, some in _by_schema(entries, indexes, inside, written):
        schema, condition = written[number]
        found |= _left(some, inside[mine], condition, _types(schema))
    ids = entries.numbers("schema_id")
    left = [at for at in (*inside.tolist(), *outside.tolist()) if at not in found and ids[at] in written]  # scalar: one a file
    for _ in found:
        after()

    def one(at: int) -> Hit:
        file = entries.file(at)
        return _ask(handle, data_file_path(handle, *place_of(entries, at), file), file, *written[file.schema_id])

    return found | dict(zip(left, world.each(one, left, after=lambda _: after(), waiting=handle.storage.is_remote), strict=True))


def _types(schema: TableSchema) -> dict[str, DataType]:
    return {field.name: field.type for field in schema.fields}


def _again(known: World, entries: Entries, schema_id: int, what: Hashable, make: Callable[[], T]) -> T | None:
    """What was made of all indexes in entries of files of a schema."""
    return kept(known, entries, ("indexes", schema_id, what), make)


def _left(many: Containers, names: NDArray[np.int64], condition: Predicate, types: Mapping[str, DataType]) -> dict[int, Hit]:
    """What indexes say, each under its name; of damaged ones nothing, so that they are asked again by whoever knows their paths."""
    view = many.data.data  # they are looked at in a few places: none is copied
    found: dict[int, Hit] = {}
    columns = [column.tolist() for column in (names, many.begins, many.ends, many.row_counts)]  # scalar: one a file
    for at, begin, end, count in zip(*columns, strict=True):  # scalar: one a file
        with suppress(LakekitError):
            found[at] = _hit(ask(view[begin:end], condition, types, count))
    return found


def _hit(found: Hit) -> Hit:
    return False if isinstance(found, BitMap) and not found else found


def indexed(known: World, entries: Entries, alone: NDArray[np.int64]) -> list[int]:
    """Those files that bring an index."""
    indexes = _indexes(known, entries)
    every = np.union1d(indexes.inside, indexes.outside)
    found: list[int] = _chosen(every, alone, len(entries)).tolist()  # scalar: one a file
    return found


def _ask(handle: Handle, data_path: str, file: DataFile, written: TableSchema, asked: Predicate) -> Hit:
    found = _container(handle, data_path, file)
    if found is None:
        return True
    return _hit(ask(found[1], asked, _types(written), file.row_count, path=found[0]))


def opened(handle: Handle, data_path: str, file: DataFile, written: TableSchema) -> File | None:
    """The indexes of a file that the schema `written` is of, to be asked for more; None where it has none. Raises `Corrupt`, `FileMissing`."""
    found = _container(handle, data_path, file)
    return None if found is None else File(found[1], _types(written), file.row_count, found[0])


def _container(handle: Handle, data_path: str, file: DataFile) -> tuple[str, bytes] | None:
    """Where the indexes of a file are, and their bytes."""
    if file.embedded_index is not None:
        return data_path, file.embedded_index
    outside = next((name for name in file.extra_files if name.endswith(".index")), None)
    if outside is None:
        return None
    path = handle.layout.extra_file(data_path, outside)
    return path, handle.storage.read(path)


def as_written(schema: TableSchema, written: TableSchema, predicate: Predicate) -> Predicate:
    """The predicate in the names of an older schema; columns that it lacks, or held with another type, say nothing."""
    if schema.id == written.id:
        return predicate
    then = names_then(schema, written)
    return restrict(predicate, lambda leaf: Leaf(then[leaf.column], leaf.op, leaf.literals) if leaf.column in then else TRUE)


def _padded(written: TableSchema, predicate: Predicate) -> Predicate:
    """The predicate for files whose CHAR values may have had blanks at their ends when they were indexed: rows of ORC files come without them."""
    lengths = {field.name: field.type.length or 1 for field in written.fields if field.type.root == "CHAR"}
    return restrict(predicate, lambda leaf: _with_blanks(leaf, lengths[leaf.column]) if leaf.column in lengths else leaf) if lengths else predicate


def _with_blanks(leaf: Leaf, length: int) -> Predicate:
    """What is true of values with blanks more wherever the leaf is true of those without."""
    if leaf.op not in ("=", "in"):
        return TRUE if leaf.op in ("!=", "not in", "<", "<=") else leaf
    if any(not isinstance(text, str) or length - len(text) > _MOST_BLANKS for text in leaf.literals):
        return TRUE
    return Leaf(leaf.column, "in", tuple(one for text in leaf.literals for one in padded(text, length)))


def names_then(schema: TableSchema, written: TableSchema) -> dict[str, str]:
    """What the columns of a schema are called in another one; those are left out that it lacks, or holds with another type."""
    by_id = {field.id: field for field in written.fields}
    pairs = ((field, by_id.get(field.id)) for field in schema.fields)
    return {own.name: then.name for own, then in pairs if then is not None and own.type.as_nullable() == then.type.as_nullable()}
