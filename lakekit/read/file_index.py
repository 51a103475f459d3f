"""What file indexes say of the files a plan still holds: gone, unknown, or these row positions (ENGINE 6.7).

Only files that are read without a merge are asked: a merge needs every version of a key. The index of a file is a container in its manifest entry, or
a file beside it named `….index`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyroaring import BitMap

from lakekit import world
from lakekit.files.places import data_file_path, place_of
from lakekit.index.evaluate import evaluate as ask
from lakekit.meta import schemas
from lakekit.predicate import TRUE, Leaf, restrict
from lakekit.progress import work

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lakekit.meta.handle import Handle
    from lakekit.model.data_file import DataFile
    from lakekit.model.entries import Entries
    from lakekit.model.schema import TableSchema
    from lakekit.predicate import Predicate

    Hit = bool | BitMap


def evaluate(handle: Handle, entries: Entries, alone: NDArray[np.int64], predicate: Predicate) -> dict[str, Hit]:
    """By file name: False when no row can match, else the positions of rows that may. Files that know nothing are left out."""
    if not handle.options.file_index_read_enabled or not len(alone):
        return {}
    indexed = _indexed(entries, alone)

    def one(at: int) -> tuple[str, Hit]:
        file = entries.file(at)
        return file.name, _ask(handle, data_file_path(handle, *place_of(entries, at), file), file, predicate)

    with work(handle.world, "planning", "file indexes", len(indexed)) as under_way:
        found = world.each(one, indexed, after=lambda _: under_way.advance(), waiting=handle.storage.is_remote)
    return {name: hit for name, hit in found if hit is not True}


def _indexed(entries: Entries, alone: NDArray[np.int64]) -> list[int]:
    """Those files that bring an index."""
    inside = pc.is_valid(entries.column("embedded_index").take(alone))
    outside = pc.greater(pc.list_value_length(entries.column("extra_files").take(alone)), 0)
    has = pc.or_(inside, pc.fill_null(outside, False)).to_numpy(zero_copy_only=False)
    return [int(at) for at in alone[has]]


def _ask(handle: Handle, data_path: str, file: DataFile, predicate: Predicate) -> Hit:
    written = schemas.read(handle, file.schema_id)
    asked = as_written(handle.schema, written, predicate)
    if asked == TRUE:
        return True
    path, container = data_path, file.embedded_index
    if container is None:
        outside = next((name for name in file.extra_files if name.endswith(".index")), None)
        if outside is None:
            return True
        path = handle.layout.extra_file(data_path, outside)
        container = handle.storage.read(path)
    types = {field.name: field.type for field in written.fields}
    found = ask(container, asked, types, file.row_count, path=path)
    return False if isinstance(found, BitMap) and not found else found


def as_written(schema: TableSchema, written: TableSchema, predicate: Predicate) -> Predicate:
    """The predicate in the names of an older schema; columns that it lacks, or held with another type, say nothing."""
    if schema.id == written.id:
        return predicate
    by_id = {field.id: field for field in written.fields}
    by_name = {field.name: field for field in schema.fields}

    def known(leaf: Leaf) -> Predicate:
        now = by_name.get(leaf.column)
        then = None if now is None else by_id.get(now.id)
        if now is None or then is None or now.type.as_nullable() != then.type.as_nullable():
            return TRUE
        return Leaf(then.name, leaf.op, leaf.literals)

    return restrict(predicate, known)
