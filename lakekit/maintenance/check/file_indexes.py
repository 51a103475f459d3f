"""File indexes of a data file, held against its rows: a filter finds every row, and no file is passed over that has one.

    of each indexed column some values, and null    ->    the rows that hold them are among those that the indexes give

Each index of a column is asked by itself, since other conditions ask others, and all of them lie within their file. Indexes of keys of maps are not asked.
CHAR is not looked up: ORC pads it with blanks, and rows come trimmed; nor are times before the year 1 and after 9999, which no filter's literal says.
Source: FORMAT.md 9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakekit.codec import roaring
from lakekit.draw.humanize import format_cell, plural
from lakekit.file_index import container, evaluator, index_keys
from lakekit.maintenance.check.findings import INDEX_ANEW
from lakekit.predicate import Leaf
from lakekit.read import file_index_pruning
from lakekit.write.spot import format_raw_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl
    from numpy.typing import NDArray
    from pyroaring import BitMap

    from lakekit.file_index.evaluator import IndexedFile
    from lakekit.maintenance.check.rows import FileUnderCheck
    from lakekit.types import Field

_SAMPLE_SIZE = 16
"""How many values of a column are looked up."""


def check(whole: FileUnderCheck) -> None:
    """Asks the indexes of a file for values that its rows hold."""
    file = whole.file
    outside = None if file.index_file is None else whole.ctx.layout.extra_file(whole.path, file.index_file)
    path, where = (whole.path, "_EMBEDDED_FILE_INDEX") if file.embedded_index is not None else (outside, "_EXTRA_FILES")
    if path is None:
        return
    with whole.notes.reading("file index", path, INDEX_ANEW):
        found = file_index_pruning.open_indexes(whole.ctx, whole.path, file, whole.ctx.schema)
        if found is None:
            return
        for place in (one for kinds in found.contents.values() for one in kinds.values() if one is not None):
            container.payload_view(found.data, place, path=path)
        for field in whole.ctx.schema.fields:
            lost = next(_find_lost_rows(found, field, whole.frame[field.name]), None) if _is_asked(found, field, whole.frame) else None
            if lost is not None:
                message = f"{lost}: filters pass them over"
                whole.notes.wrong("file index lacks rows", message, path=path, field=where, remedy=INDEX_ANEW)


def _is_asked(found: IndexedFile, field: Field, frame: pl.DataFrame) -> bool:
    known = [evaluator.load_index(kind) for kind in found.contents.get(field.name, ())]
    return field.type.root != "CHAR" and field.name in frame.columns and any(index is not None and field.type.root in index.TYPES for index in known)


def _find_lost_rows(found: IndexedFile, field: Field, column: pl.Series) -> Iterator[str]:
    """What rows a filter would lose, in words."""
    keys, codes = index_keys.distinct_keys(column.to_arrow(), field.type)
    chosen = np.unique(np.linspace(0, len(keys) - 1, min(len(keys), _SAMPLE_SIZE)).astype(np.int64))
    for code in (*chosen.tolist(), -1):  # scalar: a few values
        rows = np.flatnonzero(codes == code)
        if not rows.size or (code != -1 and format_raw_count(column, int(rows[0])) is not None):
            continue
        value = None if code == -1 else column[int(rows[0])]
        leaf = Leaf(field.name, "is null") if value is None else Leaf(field.name, "=", (value,))
        for kind, answer in evaluator.evaluate_each(found, leaf):
            if away := _count_missing(rows, answer):
                yield f"{plural(away, 'row')} with {field.name} = {format_cell(value)} are not found by the {kind} index of column {field.name}"


def _count_missing(rows: NDArray[np.int64], answer: bool | BitMap) -> int:
    """How many of the rows an answer lacks."""
    if isinstance(answer, bool):
        return 0 if answer else rows.size
    return rows.size - len(answer & roaring.roaring_of(rows))
