"""What file indexes say of the files a plan still holds: gone, unknown, or these row positions (ENGINE 6.7).

Only files that are read without a merge are asked: a merge needs every version of a key. The index of a file is a container in its manifest entry, or
a file beside it named `….index`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from pyroaring import BitMap

from lakekit import world
from lakekit.codec.binary_columns import binary_buffers
from lakekit.errors import LakekitError
from lakekit.files.places import data_file_path, place_of
from lakekit.index.evaluate import File, evaluate as ask
from lakekit.index.together import Containers, ruled_out
from lakekit.meta import schemas
from lakekit.predicate import TRUE, Leaf, restrict
from lakekit.progress import work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.meta.handle import Handle
    from lakekit.model.data_file import DataFile
    from lakekit.model.entries import Entries
    from lakekit.model.schema import TableSchema
    from lakekit.predicate import Predicate
    from lakekit.types import DataType

    Hit = bool | BitMap


def evaluate(handle: Handle, entries: Entries, alone: NDArray[np.int64], predicate: Predicate) -> dict[int, Hit]:
    """By place among the entries: False when no row can match, else the positions of rows that may. Files that know nothing are left out."""
    if not handle.options.file_index_read_enabled or not len(alone):
        return {}
    with_index = indexed(entries, alone)
    if not with_index:
        return {}
    written = _written(handle, entries.numbers("schema_id")[with_index], predicate)
    schema_ids = entries.numbers("schema_id")
    with_index = [at for at in with_index if schema_ids[at] in written]
    with work(handle.world, "planning", "file indexes", len(with_index)) as under_way:
        found = _inside(entries, with_index, written)
        under_way.advance(len(found))
        left = [at for at in with_index if at not in found]

        def one(at: int) -> Hit:
            file = entries.file(at)
            return _ask(handle, data_file_path(handle, *place_of(entries, at), file), file, *written[file.schema_id])

        found |= zip(left, world.each(one, left, after=lambda _: under_way.advance(), waiting=handle.storage.is_remote), strict=True)
    return {at: hit for at, hit in found.items() if hit is not True}


Written = tuple["TableSchema", "Predicate"]
"""The schema that a file was written with, and the condition in its names."""


def _written(handle: Handle, schema_ids: NDArray[np.int64], predicate: Predicate) -> dict[int, Written]:
    """By the id of a schema; those are left out whose files can say nothing."""
    every = {int(number): schemas.read(handle, int(number)) for number in set(schema_ids)}
    asked = {number: (one, as_written(handle.schema, one, predicate)) for number, one in every.items()}
    return {number: (one, condition) for number, (one, condition) in asked.items() if condition != TRUE}


def _inside(entries: Entries, with_index: Sequence[int], written: Mapping[int, Written]) -> dict[int, Hit]:
    """What indexes say that lie in manifest entries; of damaged ones nothing, so that they are asked again by whoever knows their paths."""
    embedded = entries.column("embedded_index")
    inside = np.array(with_index, np.int64)
    inside = inside[embedded.is_valid().to_numpy(zero_copy_only=False)[inside]]
    starts, lengths, data = binary_buffers(embedded)
    many = Containers(data, starts[inside], (starts + lengths)[inside], entries.numbers("row_count")[inside])
    numbers = entries.numbers("schema_id")[inside]
    found: dict[int, Hit] = {}
    for number, (schema, condition) in written.items():  # scalar: few schemas
        mine = np.flatnonzero(numbers == number)
        types = {field.name: field.type for field in schema.fields}
        some = Containers(data, many.begins[mine], many.ends[mine], many.row_counts[mine])
        dead = ruled_out(some, condition, types)
        found |= dict.fromkeys(inside[mine[dead]].tolist(), False)  # scalar: one a file
        found |= _left(some, ~dead, inside[mine], condition, types)
    return found


def _left(many: Containers, left: NDArray[np.bool_], names: NDArray[np.int64], condition: Predicate, types: Mapping[str, DataType]) -> dict[int, Hit]:
    """What the indexes say that are left, one by one, each under its name."""
    view = many.data.data  # they are looked at in a few places: none is copied
    found: dict[int, Hit] = {}
    columns = [column[left].tolist() for column in (names, many.begins, many.ends, many.row_counts)]  # scalar: one a file
    for at, begin, end, count in zip(*columns, strict=True):  # scalar: one a file
        with suppress(LakekitError):
            found[at] = _hit(ask(view[begin:end], condition, types, count))
    return found


def _hit(found: Hit) -> Hit:
    return False if isinstance(found, BitMap) and not found else found


def indexed(entries: Entries, alone: NDArray[np.int64]) -> list[int]:
    """Those files that bring an index."""
    inside = pc.is_valid(entries.column("embedded_index"))  # of all entries: taking some of them copies their indexes
    outside = pc.greater(pc.list_value_length(entries.column("extra_files")), 0)
    has = pc.or_(inside, pc.fill_null(outside, False)).to_numpy(zero_copy_only=False)
    found: list[int] = alone[has[alone]].tolist()  # scalar: one a file
    return found


def _ask(handle: Handle, data_path: str, file: DataFile, written: TableSchema, asked: Predicate) -> Hit:
    found = _container(handle, data_path, file)
    if found is None:
        return True
    return _hit(ask(found[1], asked, {field.name: field.type for field in written.fields}, file.row_count, path=found[0]))


def opened(handle: Handle, data_path: str, file: DataFile, written: TableSchema) -> File | None:
    """The indexes of a file that the schema `written` is of, to be asked for more; None where it has none. Raises `Corrupt`, `FileMissing`."""
    found = _container(handle, data_path, file)
    return None if found is None else File(found[1], {field.name: field.type for field in written.fields}, file.row_count, found[0])


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


def names_then(schema: TableSchema, written: TableSchema) -> dict[str, str]:
    """What the columns of a schema are called in another one; those are left out that it lacks, or holds with another type."""
    by_id = {field.id: field for field in written.fields}
    pairs = ((field, by_id.get(field.id)) for field in schema.fields)
    return {own.name: then.name for own, then in pairs if then is not None and own.type.as_nullable() == then.type.as_nullable()}
