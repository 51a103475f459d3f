"""Exact answers of a data file's indexes, without reading its rows.

    select_rows(file, And((Leaf("v", ">", (5,)), Leaf("s", "=", ("a",)))))
        ->   exactly the positions of the matching rows; None: the indexes cannot tell
    figures(file, "v", rows, bounded=True)
        ->   ColumnTotals(count=3, total=24, least=6, greatest=10)

Types whose keys are not the value itself are left out: timestamps finer than microseconds; floats, whose zeros and NaNs
Polars compares in its own way; CHAR, whose trailing blanks rows of ORC files lose.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from lakekit import plugins
from lakekit.codec import roaring
from lakekit.errors import Corrupt, Unsupported
from lakekit.file_index import bsi, container, index_keys
from lakekit.file_index.evaluator import MAX_ROWS
from lakekit.file_index.index_keys import KeyQuery
from lakekit.predicate import And, Leaf, Or
from lakekit.types import INTEGERS, TIMESTAMPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyroaring import BitMap

    from lakekit.file_index.bsi import ColumnTotals
    from lakekit.file_index.evaluator import IndexedFile
    from lakekit.predicate import Predicate
    from lakekit.types import DataType

_EXACT_INDEXES = ("bsi", "bitmap", "range-bitmap")
"""Indexes that know rows, the cheapest first."""
_WIDTHS = dict(zip(INTEGERS, (8, 16, 32, 64), strict=True)) | {"DATE": 32}
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
                _column(file, part) if isinstance(part, tuple) else select_rows(file, part)
                for part in index_keys.group_by_column(parts)
            ]
            decided = [part for part in every if part is not None]
            return (
                reduce(lambda a, b: a & b, decided, roaring.rows(file.row_count))
                if len(decided) == len(every)
                else None
            )
        case Or(parts):
            union = roaring.rows(0)
            for part in parts:
                matching = select_rows(file, part)
                if matching is None:
                    return None
                union |= matching
            return union
    return _column(file, (predicate,))


def _column(file: IndexedFile, leaves: tuple[Leaf, ...]) -> BitMap | None:
    """Return the rows that satisfy all of several conditions on one column; None if no index can tell."""
    column = leaves[0].column
    t = file.types.get(column)
    if (
        t is None
        or not is_exact_type(t)
        or any(leaf.op == "not in" or any(isinstance(value, float) for value in leaf.literals) for leaf in leaves)
    ):
        return None
    query = index_keys.all_of(leaves, t)
    if query is None:
        return None
    for name in _EXACT_INDEXES:
        matching = _rows(file, column, name, t, query)
        if matching is not None:
            return matching
    return None


def _rows(file: IndexedFile, column: str, name: str, t: DataType, query: KeyQuery) -> BitMap | None:
    """Return the rows by one index, None if it cannot tell; a null is unequal to nothing."""
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


def sums(contents: Mapping[str, Mapping[str, object]], column: str) -> bool:
    """Return whether there is an index from which `figures` may compute totals of the column."""
    return contents.get(column, {}).get(bsi.NAME) is not None


def figures(file: IndexedFile, column: str, rows: BitMap | None, *, bounded: bool) -> ColumnTotals | None:
    """Return the totals of the values of some rows (None: of all); None if the indexes cannot tell.

    That is if there is no bit-sliced index, or it holds values that the column's type cannot hold.
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
        totals = bsi.figures(
            container.payload_view(file.data, payload_range, path=file.path), file.row_count, rows, bounded=bounded
        )
    except Unsupported:
        return None
    except Corrupt as error:
        raise (error if file.path is None else error.at(file.path)) from None
    return totals if all(value is None or _fits(value, t) for value in (totals.least, totals.greatest)) else None


def _fits(value: int, t: DataType) -> bool:
    if t.root == "TIME":
        return 0 <= value < _DAY_MS
    if t.root == "DECIMAL":
        return abs(value) < 10 ** (10 if t.precision is None else t.precision)
    half = 1 << (_WIDTHS.get(t.root, 64) - 1)
    return -half <= value < half
