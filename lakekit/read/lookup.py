"""One value of one column, asked of files that all bring the same index of it: what was made of the indexes tells at once which files may have it.

    owners(handle, entries, condition)      True of each entry whose file may have such a row
                                            None: not a question of that kind, or nothing is remembered: bounds and indexes are asked as ever

    bitmap, range-bitmap    all their values in one array: where the value is there, and in no other file
    bloom-filter            the filters side by side, and the bounds of the files that they leave

Who asks the indexes of a state for the second time or later remembers it (`file_index.evaluate`); it is the same answer sooner, and no step is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import ref

from lakekit.codec.binary_columns import binary_data
from lakekit.codec.index_container import Payloads
from lakekit.index import together, values
from lakekit.predicate import Leaf
from lakekit.read import bounds
from lakekit.read.derived import keep, kept, recalled
from lakekit.types import TIMESTAMPS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import numpy as np
    from numpy.typing import NDArray

    from lakekit.index.together import Containers
    from lakekit.meta.handle import Handle
    from lakekit.model.entries import Entries
    from lakekit.read.condition import Condition
    from lakekit.types import DataType

    Mask = NDArray[np.bool_]

T = TypeVar("T")
_OTHERWISE = {*TIMESTAMPS, "CHAR"}
"""What rows give back of those may be another value than was indexed (`file_index.as_read`)."""


class _Listed(NamedTuple):
    """All values are remembered, as `what`."""

    what: Hashable


class _Filters(NamedTuple):
    """Filters that lie in `data`, which is not kept by this, or in the entries; `shapes` are what `index` knows of them."""

    index: Any
    data: ref[NDArray[np.uint8]] | None
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    shapes: Any


def owners(handle: Handle, entries: Entries, condition: Condition) -> Mask | None:
    """The files that may have a row of a condition."""
    leaf = condition.predicate
    if not isinstance(leaf, Leaf) or leaf.op not in ("=", "in") or condition.on_partition or not handle.options.file_index_read_enabled:
        return None
    t = handle.schema.types.get(leaf.column)
    known = recalled(handle.world, entries, _fact(handle.schema.id, leaf.column))
    if t is None or known is None or values.few_keys(leaf, t) is None:
        return None
    if isinstance(known, _Filters):
        return _unfiltered(handle, entries, known, leaf, t)
    listed: values.Values | None = recalled(handle.world, entries, known.what)
    return None if listed is None else values.among(listed, t, leaf)[1]


def _unfiltered(handle: Handle, entries: Entries, filters: _Filters, leaf: Leaf, t: DataType) -> Mask | None:
    data = binary_data(entries.column("embedded_index")) if filters.data is None else filters.data()
    if data is None:
        return None  # forgotten meanwhile
    absent, _ = filters.index.asked(Payloads(data, filters.begins, filters.ends), t, leaf, filters.row_counts, filters.shapes)
    kept_by_bounds: Mask = bounds.keep(handle, entries, leaf, "value")
    return kept_by_bounds & ~absent


def remember(handle: Handle, entries: Entries, many: Containers, column: str, *, inside: bool, named: Callable[[Hashable], Hashable]) -> None:
    """Keeps what tells of a column of all entries, whose indexes are `many`, in their order: `inside` the entries, or where `beside` keeps them.

    What is made of all of them is kept as it is `named`.
    """

    def memory(what: Hashable, make: Callable[[], T]) -> T | None:
        return kept(handle.world, entries, named(what), make)

    t = handle.schema.types[column]
    if t.root in _OTHERWISE:
        return
    found: _Listed | _Filters | None = None
    if (listed := together.listed(many, column, t, memory)) is not None:
        found = _Listed(named(listed))
    elif (filters := together.filters(many, column, t, memory)) is not None:
        index, payloads, shapes = filters
        found = _Filters(index, None if inside else ref(many.data), payloads.begins, payloads.ends, many.row_counts, shapes)
    if found is not None:
        keep(handle.world, entries, _fact(handle.schema.id, column), found)


def _fact(schema_id: int, column: str) -> Hashable:
    return "lookup", schema_id, column
