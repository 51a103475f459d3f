"""What the indexes of many files rule out, looked at together: of most files nothing more need be asked.

    ruled_out(containers, And((Leaf("a", "=", (7,)), Leaf("b", ">", (1,)))), types)     True of each file of which an index says that no row has a = 7

Only conditions that every row must satisfy are looked at, and only indexes that can be asked many at a time: those with a function `absent`. A container
that is damaged, or of a version nobody knows, rules nothing out: `evaluate` says what is wrong with it.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np

from lakekit.codec.binary_columns import integers_at
from lakekit.errors import Corrupt, Unsupported
from lakekit.file_index import container
from lakekit.file_index.container import Payloads
from lakekit.file_index.evaluator import MAX_ROWS, load_index
from lakekit.file_index.values import match_values
from lakekit.predicate import Leaf, conjuncts

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from numpy.typing import NDArray

    from lakekit.file_index.container import PayloadRange
    from lakekit.file_index.values import IndexValues
    from lakekit.predicate import Predicate
    from lakekit.types import DataType

    Mask = NDArray[np.bool_]
    Contents = Mapping[str, Mapping[str, PayloadRange | None]]

T = TypeVar("T")

_MOST_HEAD = 1024
"""A longer head is not compared with those of others."""


class Containers(NamedTuple):
    """Containers that lie in one stretch of bytes: container i is `data[begins[i]:ends[i]]`, of a file of `row_counts[i]` rows."""

    data: NDArray[np.uint8]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    row_counts: NDArray[np.int64]


class BatchCache(Protocol):
    """What was made of the same containers before, or is made now to be kept; None where nothing is: then it is made for this once, or done without."""

    def __call__(self, what: Hashable, make: Callable[[], T], /) -> T | None: ...


def no_cache(what: Hashable, make: Callable[[], T], /) -> T | None:  # noqa: ARG001 - it keeps nothing
    """The memory of who looks at containers once."""
    return None


class BatchResult(NamedTuple):
    """The files of which an index says that no row satisfies a condition, and those of which one names rows, so that no other knows better.

    Of those that are `mute` no index says anything, and whoever asks again hears no more.
    """

    dead: Mask
    sure: Mask
    mute: Mask


def rule_out_files(many: Containers, predicate: Predicate, types: Mapping[str, DataType], memory: BatchCache = no_cache) -> Mask:
    """The files of which an index says that no row satisfies the condition; `types` are the columns of their schema."""
    return evaluate_batch(many, predicate, types, memory).dead


def evaluate_batch(many: Containers, predicate: Predicate, types: Mapping[str, DataType], memory: BatchCache = no_cache) -> BatchResult:
    """The same, and the files that have a value that is asked for: of a condition of one comparison, where all values of indexes are remembered."""
    dead, sure, mute = np.zeros((3, len(many.begins)), bool)
    leaves = [leaf for leaf in conjuncts(predicate) if isinstance(leaf, Leaf) and leaf.op in ("=", "in") and leaf.column in types]
    for leaf in leaves:
        t = types[leaf.column]
        for one in _indexes_of_column(many, leaf.column, t, memory):
            at, index, payloads, counts = one.at, one.index, one.payloads, many.row_counts[one.at]
            if one.values is not None:
                absent, there = match_values(one.values, t, leaf)
                dead[at] |= absent
                sure[at] |= there & (leaf is predicate)
            elif hasattr(index, "asked"):
                absent, heard = index.asked(payloads, t, leaf, counts, _shapes(one, leaf.column, memory))
                dead[at] |= absent
                mute[at] |= heard & (leaf is predicate and one.is_only)
            else:
                dead[at] |= index.absent(payloads, t, leaf, counts)
    asked = many.row_counts <= MAX_ROWS
    return BatchResult(dead & asked, sure & ~dead & asked, mute & asked)


def find_listed_key(many: Containers, column: str, t: DataType, memory: BatchCache) -> Hashable | None:
    """What the values of a column are remembered as, where an index lists them all in every container, in their order; None where none does."""
    if not (many.row_counts <= MAX_ROWS).all():
        return None
    for one in _indexes_of_column(many, column, t, memory):
        if one.values is not None and one.values.known.all() and np.array_equal(one.at, np.arange(len(many.begins))):
            return _values_of(column, one.name, t)
    return None


def filters(many: Containers, column: str, t: DataType, memory: BatchCache) -> tuple[Any, Payloads, Any] | None:
    """The index that every container has of a column and no other, where it can be asked many at a time and lists nothing; its payloads, their shapes."""
    if not (many.row_counts <= MAX_ROWS).all():
        return None
    for one in _indexes_of_column(many, column, t, memory):
        if one.is_only and one.values is None and hasattr(one.index, "asked") and len(one.at) == len(many.begins):
            return one.index, one.payloads, _shapes(one, column, memory)
    return None


def _shapes(one: _Index, column: str, memory: BatchCache) -> Any:
    find = partial(one.index.shapes, one.payloads)
    return memory((column, one.name, "shapes"), find) or find()


def _values_of(column: str, name: str, t: DataType) -> Hashable:
    return column, name, t


class _Index(NamedTuple):
    """An index of a column in the containers `at`; `values` are all that they hold, where those are remembered. `is_only`: the column has no other."""

    name: str
    index: Any
    at: NDArray[np.int64]
    payloads: Payloads
    values: IndexValues | None
    is_only: bool


def _indexes_of_column(many: Containers, column: str, t: DataType, memory: BatchCache) -> Iterator[_Index]:
    """The indexes of a column that can be asked many at a time."""
    find = partial(_indexes, many, column)
    named = memory(column, find) or find()
    for name, at, begins, ends in named:
        index = load_index(name)
        if index is None or not hasattr(index, "absent") or t.root not in index.TYPES:
            continue
        payloads = Payloads(many.data, begins, ends)
        values = memory(_values_of(column, name, t), partial(index.listed, payloads, t, many.row_counts[at])) if hasattr(index, "listed") else None
        yield _Index(name, index, at, payloads, values, len(named) == 1)


def _indexes(many: Containers, column: str) -> list[tuple[str, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """The indexes of a column by name: whose they are, and where their payloads begin and end."""
    contents = _contents(many)
    names = sorted({name for _, found in contents for name in found.get(column, ())})
    return [(name, at, payloads.begins, payloads.ends) for name in names for at, payloads in (_payloads(many, contents, column, name),)]


def _contents(many: Containers) -> list[tuple[NDArray[np.int64], Contents]]:
    """What is in which containers; damaged ones are left out. Most have the head of the first, byte by byte: it is read once."""
    alike = _mask_same_head(many)
    groups = [np.flatnonzero(alike)] if alike.any() else []
    groups.extend(np.flatnonzero(~alike)[:, None])
    view = many.data.data
    found: list[tuple[NDArray[np.int64], Contents]] = []
    for at in groups:
        with suppress(Corrupt, Unsupported):
            found.append((at, container.contents(view[many.begins[at[0]] : many.ends[at[0]]])))
    return found


def _mask_same_head(many: Containers) -> Mask:
    """The containers whose head has the bytes of that of the first."""
    count = len(many.begins)
    if not count or int((many.ends - many.begins).min()) < container.HEAD:
        return np.zeros(count, bool)
    length = int(integers_at(many.data, many.begins[:1] + container.HEAD - 4, 4)[0])
    if not container.HEAD < length <= _MOST_HEAD:
        return np.zeros(count, bool)
    fits = many.begins + length <= many.ends
    heads = many.data[np.where(fits, many.begins, many.begins[0])[:, None] + np.arange(length)] if fits[0] else np.zeros((count, 0), np.uint8)
    return fits & fits[0] & (heads == heads[0]).all(axis=1)


def _payloads(many: Containers, contents: list[tuple[NDArray[np.int64], Contents]], column: str, name: str) -> tuple[NDArray[np.int64], Payloads]:
    """The payloads of one index, and whose they are, ascending; those are left out that end behind their container."""
    places = [(at, place) for at, found in contents if (place := found.get(column, {}).get(name)) is not None]
    at = np.concatenate([np.zeros(0, np.int64), *(at for at, _ in places)])
    starts, lengths = np.repeat(np.array([place for _, place in places], np.int64).reshape(-1, 2), [len(at) for at, _ in places], axis=0).T
    begins = many.begins[at] + starts
    ends = begins + lengths
    order = np.argsort(at)
    inside = order[(ends <= many.ends[at])[order]]
    return at[inside], Payloads(many.data, begins[inside], ends[inside])
