"""Evaluation of a condition by the indexes of data files.

    evaluate_indexes(container, predicate, types, row_count)
                                                        False: no row of the file matches
                                                        True: cannot tell
                                                        a BitMap: only these row positions may match
    select_rows(file, And((Leaf("v", ">", (5,)), Leaf("s", "=", ("a",)))))
        ->   exactly the positions of the matching rows; None: the indexes cannot tell
    column_totals(file, "v", rows, bounded=True)
        ->   ColumnTotals(count=3, total=24, least=6, greatest=10)
    rule_out_files(containers, And((Leaf("a", "=", (7,)), Leaf("b", ">", (1,)))), types)
        ->   True for each file of which an index says that no row has a = 7

`probe` of an index only excludes rows; `rows`, which some indexes have, returns exactly the rows that match. An index
module is found by its name and has:

    NAME, OPTIONS, TYPES                           the options of a column's index, the type roots it takes
    supports_type(type)                               whether it takes the type, if not all types of its roots
    build(column, type, options)                   the payload
    probe(payload, type, leaf, row_count)          False (no row), True (cannot tell) or a BitMap (only these may match)
    rows(payload, type, query, row_count)          the matching rows, if it knows rows: `select_rows` uses them
    absent(payloads, type, leaf)                   the files in which = or IN finds no row, if many can be searched
                                                   as fast as one: `rule_out_files` calls it first

A payload is bytes or a view of them, so that none is copied. Exact answers leave out types whose keys are not the value
itself: timestamps finer than microseconds; floats, whose zeros and NaNs Polars compares in its own way; CHAR, because
ORC files drop its trailing blanks. `rule_out_files` uses only conditions that every row must satisfy, and only
indexes that can search many payloads at once: those with a function `absent`. A container that is damaged, or of an
unknown version, rules nothing out there: `evaluate_indexes` raises what is wrong with it.

Source: FORMAT.md 9.3, ENGINE.md 6.7; `FileIndexPredicate`, `EmptyFileIndexReader`.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lakekit import plugins
from lakekit.codec import roaring
from lakekit.codec.binary_row import read_integers_at
from lakekit.errors import Corrupt, Unsupported
from lakekit.file_index import bsi, container
from lakekit.file_index.container import KeyQuery, Payloads
from lakekit.predicate import And, Leaf, Or, conjuncts
from lakekit.types import INTEGERS, TIMESTAMPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray
    from pyroaring import BitMap

    from lakekit.file_index.bsi import ColumnTotals
    from lakekit.file_index.container import PayloadRange
    from lakekit.predicate import Predicate
    from lakekit.types import DataType

    Mask = NDArray[np.bool_]
    Contents = Mapping[str, Mapping[str, PayloadRange | None]]


MAX_ROWS = 2**31 - 1
"""Indexes count rows in 31 bits; those of a file with more rows are not used."""
_EMPTY_MAY_MATCH = frozenset({"is null", "!=", "not in"})


def evaluate_indexes(
    container: bytes | memoryview,
    predicate: Predicate,
    types: Mapping[str, DataType],
    row_count: int,
    *,
    path: str | None = None,
) -> bool | BitMap:
    """Return which rows of a file may match by its indexes: False, True or positions.

    `types` are the columns of the file's own schema. Raises `Corrupt`.
    """
    if row_count > MAX_ROWS:
        return True
    return _evaluate_predicate(IndexedFile(container, types, row_count, path), predicate)


class IndexedFile:
    """A container with the column types of its data file and the file's row count.

    Raises `Corrupt`, `Unsupported`.
    """

    __slots__ = ("contents", "data", "path", "row_count", "types")

    def __init__(
        self, data: bytes | memoryview, types: Mapping[str, DataType], row_count: int, path: str | None
    ) -> None:
        self.data, self.types, self.row_count, self.path = data, types, row_count, path
        self.contents: Mapping[str, Mapping[str, PayloadRange | None]] = container.read_toc(data, path=path)


def evaluate_each_index(file: IndexedFile, leaf: Leaf) -> Iterator[tuple[str, bool | BitMap]]:
    """Yield the name and the answer of each index of a condition's column.

    `evaluate_indexes` skips the others once an index knows the rows. Raises `Corrupt`.
    """
    t = file.types.get(leaf.column)
    if t is not None and file.row_count <= MAX_ROWS:
        for name, payload_range in file.contents.get(leaf.column, {}).items():
            yield name, _probe_index(file, name, payload_range, t, (leaf,))[0]


def _evaluate_predicate(file: IndexedFile, predicate: Predicate) -> bool | BitMap:
    match predicate:
        case And(parts):
            answer: bool | BitMap = True
            for part in container.group_ranges_by_column(parts):
                answer = combine_and(
                    answer, _evaluate_column(file, part) if isinstance(part, tuple) else _evaluate_predicate(file, part)
                )
                if answer is False:
                    break
            return answer
        case Or(parts):
            answer = False
            for part in parts:
                answer = combine_or(answer, _evaluate_predicate(file, part))
                if answer is True:
                    break
            return answer
    return _evaluate_column(file, (predicate,))


def combine_and(a: bool | BitMap, b: bool | BitMap) -> bool | BitMap:
    """Return the answer for rows that must match both."""
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    both = a & b
    return both or False


def combine_or(a: bool | BitMap, b: bool | BitMap) -> bool | BitMap:
    """Return the answer for rows that must match one of two."""
    if isinstance(a, bool):
        return a or b
    if isinstance(b, bool):
        return True if b else a
    return a | b


def _evaluate_column(file: IndexedFile, leaves: tuple[Leaf, ...]) -> bool | BitMap:
    """Return the answer of a column's indexes to conditions that must all hold."""
    column = leaves[0].column
    indexes, t = file.contents.get(column), file.types.get(column)
    if not indexes or t is None:
        return True
    answer: bool | BitMap = True
    # the cheapest first
    for name in indexes if len(indexes) == 1 else sorted(indexes, key=lambda name: (name != "bloom-filter", name)):
        selection, is_whole = _probe_index(file, name, indexes[name], t, leaves)
        answer = combine_and(answer, selection)
        if answer is False or is_whole:
            break
    return answer


@lru_cache(64)
def load_index_module(name: str) -> Any:
    """Return the index module of that name; None if there is none."""
    return plugins.load("file_index", name) if name in plugins.names("file_index") else None


def _probe_index(
    file: IndexedFile, name: str, payload_range: PayloadRange | None, t: DataType, leaves: tuple[Leaf, ...]
) -> tuple[bool | BitMap, bool]:
    """Return the answer of one index, and whether no other index can improve it.

    Every index that maps each key to its rows gives the same answer, so that one of them is enough.
    """
    if payload_range is None:  # it was given nothing but nulls
        return all(leaf.op in _EMPTY_MAY_MATCH for leaf in leaves), False
    index = load_index_module(name)
    if index is None or t.root not in index.TYPES:
        return True, False
    try:
        payload = container.payload_view(file.data, payload_range, path=file.path)
        if not hasattr(index, "rows"):
            answers = [index.probe(payload, t, leaf, file.row_count) for leaf in leaves]
            return reduce(combine_and, answers), False
        if len(leaves) == 1:
            query = container.key_query_of(leaves[0], t)
        else:
            query = container.key_query_of_all(
                tuple(leaf for leaf in leaves if container.key_query_of(leaf, t) is not None), t
            )
        rows = None if query is None else index.rows(payload, t, query, file.row_count)
        return (True, False) if rows is None else (container.to_probe_result(rows, file.row_count), True)
    except Unsupported:  # an index of a later version only costs time: the rows are read
        return True, False
    except Corrupt as error:
        raise (error if file.path is None else error.at(file.path)) from None


# ---- exact answers ----------------------------------------------------


_EXACT_INDEXES = ("bsi", "bitmap", "range-bitmap")
"""Indexes that know rows, the cheapest first."""
_INTEGER_BITS = dict(zip(INTEGERS, (8, 16, 32, 64), strict=True)) | {"DATE": 32}
_DAY_MS = 86_400_000


def is_exact_type(t: DataType) -> bool:
    """Return whether the keys of a type are its values, one to one."""
    return t.root not in ("FLOAT", "DOUBLE", "CHAR") and (
        t.root not in TIMESTAMPS or (6 if t.precision is None else t.precision) <= 6
    )


def select_rows(file: IndexedFile, predicate: Predicate) -> BitMap | None:
    """Return the rows that satisfy a condition; None if the indexes cannot tell. Raises `Corrupt`."""
    if file.row_count > MAX_ROWS:
        return None
    match predicate:
        case And(parts):
            every = [
                _exact_rows(file, part) if isinstance(part, tuple) else select_rows(file, part)
                for part in container.group_ranges_by_column(parts)
            ]
            decided = [part for part in every if part is not None]
            return (
                reduce(lambda a, b: a & b, decided, roaring.full_bitmap(file.row_count))
                if len(decided) == len(every)
                else None
            )
        case Or(parts):
            union = roaring.full_bitmap(0)
            for part in parts:
                matching = select_rows(file, part)
                if matching is None:
                    return None
                union |= matching
            return union
    return _exact_rows(file, (predicate,))


def _exact_rows(file: IndexedFile, leaves: tuple[Leaf, ...]) -> BitMap | None:
    """Return the rows that satisfy all of several conditions on one column; None if no index can tell."""
    column = leaves[0].column
    t = file.types.get(column)
    if (
        t is None
        or not is_exact_type(t)
        or any(leaf.op == "not in" or any(isinstance(value, float) for value in leaf.literals) for leaf in leaves)
    ):
        return None
    query = container.key_query_of_all(leaves, t)
    if query is None:
        return None
    for name in _EXACT_INDEXES:
        matching = _index_rows(file, column, name, t, query)
        if matching is not None:
            return matching
    return None


def _index_rows(file: IndexedFile, column: str, name: str, t: DataType, query: KeyQuery) -> BitMap | None:
    """Return the rows by one index, None if it cannot tell; a null matches no `!=` either."""
    payload_range = file.contents.get(column, {}).get(name)
    index: Any = plugins.load("file_index", name)
    if payload_range is None or t.root not in index.TYPES:
        return None
    try:
        payload = container.payload_view(file.data, payload_range, path=file.path)
        matching = index.rows(payload, t, query, file.row_count)
        return (
            matching - index.rows(payload, t, KeyQuery("null"), file.row_count)
            if matching is not None and query.kind == "unequal"
            else matching
        )
    except Unsupported:  # an index of a later version only costs time: the rows are read
        return None
    except Corrupt as error:
        raise (error if file.path is None else error.at(file.path)) from None


def has_totals_index(contents: Mapping[str, Mapping[str, object]], column: str) -> bool:
    """Return whether there is an index from which `column_totals` may compute totals of the column."""
    return contents.get(column, {}).get(bsi.NAME) is not None


def column_totals(file: IndexedFile, column: str, rows: BitMap | None, *, with_bounds: bool) -> ColumnTotals | None:
    """Return the totals of the values of some rows (`rows` None: of all); None if the indexes cannot tell.

    They cannot tell if there is no bit-sliced index, or if it holds values that the column's type cannot hold.
    """
    payload_range, t = file.contents.get(column, {}).get(bsi.NAME), file.types.get(column)
    if (
        payload_range is None
        or t is None
        or t.root not in bsi.TYPES
        or not is_exact_type(t)
        or file.row_count > MAX_ROWS
    ):
        return None
    try:
        totals = bsi.compute_totals(
            container.payload_view(file.data, payload_range, path=file.path),
            file.row_count,
            rows,
            with_bounds=with_bounds,
        )
    except Unsupported:
        return None
    except Corrupt as error:
        raise (error if file.path is None else error.at(file.path)) from None
    return totals if all(value is None or _fits_type(value, t) for value in (totals.minimum, totals.maximum)) else None


def _fits_type(value: int, t: DataType) -> bool:
    if t.root == "TIME":
        return 0 <= value < _DAY_MS
    if t.root == "DECIMAL":
        return abs(value) < 10 ** (10 if t.precision is None else t.precision)
    half = 1 << (_INTEGER_BITS.get(t.root, 64) - 1)
    return -half <= value < half


# ---- many files at once --------------------------------------------------


_MAX_HEAD_BYTES = 1024
"""A longer head is not compared with those of others."""


class Containers(NamedTuple):
    """Containers in one buffer: container i is `data[begins[i]:ends[i]]`, of a file of `row_counts[i]` rows."""

    data: NDArray[np.uint8]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    row_counts: NDArray[np.int64]


def rule_out_files(containers: Containers, predicate: Predicate, types: Mapping[str, DataType]) -> Mask:
    """Return which files have an index that says that no row satisfies the condition.

    `types` are the columns of the files' schema.
    """
    ruled_out = np.zeros(len(containers.begins), bool)
    for leaf in conjuncts(predicate):
        if not isinstance(leaf, Leaf) or leaf.op not in ("=", "in") or leaf.column not in types:
            continue
        for index, at, payloads in _batch_indexes(containers, leaf.column, types[leaf.column]):
            ruled_out[at] |= index.absent(payloads, types[leaf.column], leaf)
    return ruled_out & (containers.row_counts <= MAX_ROWS)


def _batch_indexes(
    containers: Containers, column: str, t: DataType
) -> Iterator[tuple[Any, NDArray[np.int64], Payloads]]:
    """Yield the indexes of a column for many payloads at once, each with its containers and payloads."""
    contents = _group_contents(containers) if _has_batch_index(containers, column) else []
    for name in sorted({name for _, indexes in contents for name in indexes.get(column, ())}):
        index = load_index_module(name)
        if index is not None and hasattr(index, "absent") and t.root in index.TYPES:
            yield (index, *_locate_payloads(containers, contents, column, name))


def _has_batch_index(containers: Containers, column: str) -> bool:
    """Return whether the first container, mostly like the others, has such an index of the column."""
    view = containers.data.data
    with suppress(Corrupt, Unsupported):
        first = container.read_toc(view[containers.begins[0] : containers.ends[0]]) if len(containers.begins) else {}
        return any(hasattr(load_index_module(name), "absent") for name in first.get(column, ()))
    return True


def _group_contents(containers: Containers) -> list[tuple[NDArray[np.int64], Contents]]:
    """Return the contents of groups of containers, without damaged ones; equal heads are decoded once."""
    alike = _mask_same_head(containers)
    groups = [np.flatnonzero(alike)] if alike.any() else []
    groups.extend(np.flatnonzero(~alike)[:, None])
    view = containers.data.data
    groups_contents: list[tuple[NDArray[np.int64], Contents]] = []
    for at in groups:
        with suppress(Corrupt, Unsupported):
            groups_contents.append((at, container.read_toc(view[containers.begins[at[0]] : containers.ends[at[0]]])))
    return groups_contents


def _mask_same_head(containers: Containers) -> Mask:
    """Return the containers whose head has the same bytes as that of the first."""
    count = len(containers.begins)
    if not count or int((containers.ends - containers.begins).min()) < container.FIXED_HEAD_BYTES:
        return np.zeros(count, bool)
    length = int(read_integers_at(containers.data, containers.begins[:1] + container.FIXED_HEAD_BYTES - 4, 4)[0])
    if not container.FIXED_HEAD_BYTES < length <= _MAX_HEAD_BYTES:
        return np.zeros(count, bool)
    fits = containers.begins + length <= containers.ends
    heads = (
        containers.data[np.where(fits, containers.begins, containers.begins[0])[:, None] + np.arange(length)]
        if fits[0]
        else np.zeros((count, 0), np.uint8)
    )
    return fits & fits[0] & (heads == heads[0]).all(axis=1)


def _locate_payloads(
    containers: Containers, contents: list[tuple[NDArray[np.int64], Contents]], column: str, name: str
) -> tuple[NDArray[np.int64], Payloads]:
    """Return the payloads of one index that end in their container, and the containers, ascending."""
    ranges = [
        (at, payload_range)
        for at, indexes in contents
        if (payload_range := indexes.get(column, {}).get(name)) is not None
    ]
    at = np.concatenate([np.zeros(0, np.int64), *(at for at, _ in ranges)])
    starts, lengths = np.repeat(
        np.array([payload_range for _, payload_range in ranges], np.int64).reshape(-1, 2),
        [len(at) for at, _ in ranges],
        axis=0,
    ).T
    begins = containers.begins[at] + starts
    ends = begins + lengths
    order = np.argsort(at)
    inside = order[(ends <= containers.ends[at])[order]]
    return at[inside], Payloads(containers.data, begins[inside], ends[inside])
