"""What indexes of a data file say for certain: which rows satisfy a condition, and what the values of a column come to. Its rows are not read.

    chosen(file, And((Leaf("v", ">", (5,)), Leaf("s", "=", ("a",)))))   ->   the positions of those rows: no more and no less; None: it cannot say
    figures(file, "v", those, bounded=True)                             ->   Figures(count=3, total=24, least=6, greatest=10)

Keys that are not the value itself say too little: of timestamps finer than microseconds; of reals, whose zeros and NaNs Polars compares in its own way; of
CHAR, whose blanks at the end rows of ORC files lose.
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
    """Whether the keys of a type are its values, each another."""
    return t.root not in ("FLOAT", "DOUBLE", "CHAR") and (t.root not in TIMESTAMPS or (6 if t.precision is None else t.precision) <= 6)


def select_rows(file: IndexedFile, predicate: Predicate) -> BitMap | None:
    """The rows that satisfy a condition; None where the indexes leave it open. Raises `Corrupt`."""
    if file.row_count > MAX_ROWS:
        return None
    match predicate:
        case And(parts):
            every = [_column(file, part) if isinstance(part, tuple) else select_rows(file, part) for part in index_keys.group_by_column(parts)]
            known = [part for part in every if part is not None]
            return reduce(lambda a, b: a & b, known, roaring.rows(file.row_count)) if len(known) == len(every) else None
        case Or(parts):
            found = roaring.rows(0)
            for part in parts:
                more = select_rows(file, part)
                if more is None:
                    return None
                found |= more
            return found
    return _column(file, (predicate,))


def _column(file: IndexedFile, leaves: tuple[Leaf, ...]) -> BitMap | None:
    """The rows that satisfy conditions on one column, all of them."""
    column = leaves[0].column
    t = file.types.get(column)
    if t is None or not is_exact_type(t) or any(leaf.op == "not in" or any(isinstance(value, float) for value in leaf.literals) for leaf in leaves):
        return None
    asked = index_keys.all_of(leaves, t)
    if asked is None:
        return None
    for name in _EXACT_INDEXES:
        found = _rows(file, column, name, t, asked)
        if found is not None:
            return found
    return None


def _rows(file: IndexedFile, column: str, name: str, t: DataType, asked: KeyQuery) -> BitMap | None:
    """What one index says; a null is unequal to nothing."""
    place = file.contents.get(column, {}).get(name)
    index: Any = plugins.load("file_index", name)
    if place is None or t.root not in index.TYPES:
        return None
    try:
        payload = container.payload_view(file.data, place, path=file.path)
        found = index.rows(payload, t, asked, file.row_count)
        return found - index.rows(payload, t, KeyQuery("null"), file.row_count) if found is not None and asked.kind == "unequal" else found
    except Unsupported:  # an index of a later version only costs time: the rows are read
        return None
    except Corrupt as error:
        raise (error if file.path is None else error.at(file.path)) from None


def sums(contents: Mapping[str, Mapping[str, object]], column: str) -> bool:
    """Whether `figures` may say what values of a column come to: there is an index for it."""
    return contents.get(column, {}).get(bsi.NAME) is not None


def figures(file: IndexedFile, column: str, rows: BitMap | None, *, bounded: bool) -> ColumnTotals | None:
    """What the values of some rows (None: of all) come to; None where no bit-sliced index says it, or it says what the column's type cannot hold."""
    place, t = file.contents.get(column, {}).get(bsi.NAME), file.types.get(column)
    if place is None or t is None or t.root not in bsi.TYPES or not is_exact_type(t) or file.row_count > MAX_ROWS:
        return None
    try:
        found = bsi.figures(container.payload_view(file.data, place, path=file.path), file.row_count, rows, bounded=bounded)
    except Unsupported:
        return None
    except Corrupt as error:
        raise (error if file.path is None else error.at(file.path)) from None
    return found if all(value is None or _fits(value, t) for value in (found.least, found.greatest)) else None


def _fits(value: int, t: DataType) -> bool:
    if t.root == "TIME":
        return 0 <= value < _DAY_MS
    if t.root == "DECIMAL":
        return abs(value) < 10 ** (10 if t.precision is None else t.precision)
    half = 1 << (_WIDTHS.get(t.root, 64) - 1)
    return -half <= value < half
