"""Evaluation of a condition by all indexes of a data file.

    evaluate(container, predicate, types, row_count)    False: no row of the file matches
                                                        True: cannot tell
                                                        a BitMap: only these row positions may match

Sources: FORMAT.md 9.3, ENGINE.md 6.7; `FileIndexPredicate`, `EmptyFileIndexReader`.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any

from lakekit import plugins
from lakekit.errors import Corrupt, Unsupported
from lakekit.file_index import container, index_keys
from lakekit.predicate import And, Leaf, Or

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyroaring import BitMap

    from lakekit.file_index.container import PayloadRange
    from lakekit.predicate import Predicate
    from lakekit.types import DataType

MAX_ROWS = 2**31 - 1
"""Indexes count rows in 31 bits; those of a file with more rows are not used."""
_EMPTY_MAY_MATCH = frozenset({"is null", "!=", "not in"})


def evaluate(
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
    return _evaluate(IndexedFile(container, types, row_count, path), predicate)


class IndexedFile:
    """A container with the column types of its data file and the file's row count.

    Raises `Corrupt`, `Unsupported`.
    """

    __slots__ = ("contents", "data", "path", "row_count", "types")

    def __init__(
        self, data: bytes | memoryview, types: Mapping[str, DataType], row_count: int, path: str | None
    ) -> None:
        self.data, self.types, self.row_count, self.path = data, types, row_count, path
        self.contents: Mapping[str, Mapping[str, PayloadRange | None]] = container.contents(data, path=path)


def evaluate_each(file: IndexedFile, leaf: Leaf) -> Iterator[tuple[str, bool | BitMap]]:
    """Yield the name and the answer of each index of a condition's column.

    `evaluate` skips the others once an index knows the rows. Raises `Corrupt`.
    """
    t = file.types.get(leaf.column)
    if t is not None and file.row_count <= MAX_ROWS:
        for name, payload_range in file.contents.get(leaf.column, {}).items():
            yield name, _probe(file, name, payload_range, t, (leaf,))[0]


def _evaluate(file: IndexedFile, predicate: Predicate) -> bool | BitMap:
    match predicate:
        case And(parts):
            answer: bool | BitMap = True
            for part in index_keys.group_by_column(parts):
                answer = combine_and(answer, _column(file, part) if isinstance(part, tuple) else _evaluate(file, part))
                if answer is False:
                    break
            return answer
        case Or(parts):
            answer = False
            for part in parts:
                answer = combine_or(answer, _evaluate(file, part))
                if answer is True:
                    break
            return answer
    return _column(file, (predicate,))


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


def _column(file: IndexedFile, leaves: tuple[Leaf, ...]) -> bool | BitMap:
    """Return the answer of a column's indexes to conditions that must all hold."""
    column = leaves[0].column
    indexes, t = file.contents.get(column), file.types.get(column)
    if not indexes or t is None:
        return True
    answer: bool | BitMap = True
    # the cheapest first
    for name in indexes if len(indexes) == 1 else sorted(indexes, key=lambda name: (name != "bloom-filter", name)):
        selection, is_whole = _probe(file, name, indexes[name], t, leaves)
        answer = combine_and(answer, selection)
        if answer is False or is_whole:
            break
    return answer


@lru_cache(64)
def load_index(name: str) -> Any:
    """Return the index module of that name; None if there is none."""
    return plugins.load("file_index", name) if name in plugins.names("file_index") else None


def _probe(
    file: IndexedFile, name: str, payload_range: PayloadRange | None, t: DataType, leaves: tuple[Leaf, ...]
) -> tuple[bool | BitMap, bool]:
    """Return the answer of one index, and whether no other index can improve it.

    Indexes that know the row of every key know the same rows.
    """
    if payload_range is None:  # it was given nothing but nulls
        return all(leaf.op in _EMPTY_MAY_MATCH for leaf in leaves), False
    index = load_index(name)
    if index is None or t.root not in index.TYPES:
        return True, False
    try:
        payload = container.payload_view(file.data, payload_range, path=file.path)
        if not hasattr(index, "rows"):
            answers = [index.probe(payload, t, leaf, file.row_count) for leaf in leaves]
            return reduce(combine_and, answers), False
        if len(leaves) == 1:
            query = index_keys.question(leaves[0], t)
        else:
            query = index_keys.all_of(tuple(leaf for leaf in leaves if index_keys.question(leaf, t) is not None), t)
        rows = None if query is None else index.rows(payload, t, query, file.row_count)
        return (True, False) if rows is None else (index_keys.row_selection(rows, file.row_count), True)
    except Unsupported:  # an index of a later version only costs time: the rows are read
        return True, False
    except Corrupt as error:
        raise (error if file.path is None else error.at(file.path)) from None
