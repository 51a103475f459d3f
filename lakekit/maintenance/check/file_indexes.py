"""Check the file indexes of a data file against its rows: a filter finds every row, and no file with one is skipped.

    some values of each indexed column, and null    ->    the rows that hold them are among those that the indexes give

Each index of a column is evaluated by itself, since different conditions use different indexes, and the payload of each
must lie within its file. Indexes of map keys are not checked. CHAR values are not looked up, since ORC pads them with
blanks and rows come trimmed; nor are times before the year 1 and after 9999, which no literal of a filter can name.
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


def check(checked_file: FileUnderCheck) -> None:
    """Look up values that the rows of a file hold in its indexes, and report those that are not found."""
    file = checked_file.file
    outside = (
        None if file.index_file is None else checked_file.ctx.layout.extra_file(checked_file.path, file.index_file)
    )
    path, where = (
        (checked_file.path, "_EMBEDDED_FILE_INDEX") if file.embedded_index is not None else (outside, "_EXTRA_FILES")
    )
    if path is None:
        return
    with checked_file.notes.reading("file index", path, INDEX_ANEW):
        indexes = file_index_pruning.open_indexes(checked_file.ctx, checked_file.path, file, checked_file.ctx.schema)
        if indexes is None:
            return
        for span in (
            payload for kinds in indexes.contents.values() for payload in kinds.values() if payload is not None
        ):
            container.payload_view(indexes.data, span, path=path)
        for field in checked_file.ctx.schema.fields:
            lost = (
                next(_find_lost_rows(indexes, field, checked_file.frame[field.name]), None)
                if _is_asked(indexes, field, checked_file.frame)
                else None
            )
            if lost is not None:
                message = f"{lost}: filters pass them over"
                checked_file.notes.wrong("file index lacks rows", message, path=path, field=where, remedy=INDEX_ANEW)


def _is_asked(indexes: IndexedFile, field: Field, frame: pl.DataFrame) -> bool:
    plugins = [evaluator.load_index(kind) for kind in indexes.contents.get(field.name, ())]
    return (
        field.type.root != "CHAR"
        and field.name in frame.columns
        and any(index is not None and field.type.root in index.TYPES for index in plugins)
    )


def _find_lost_rows(indexes: IndexedFile, field: Field, column: pl.Series) -> Iterator[str]:
    """Yield a description of the rows that a filter would lose."""
    keys, codes = index_keys.distinct_keys(column.to_arrow(), field.type)
    sample = np.unique(np.linspace(0, len(keys) - 1, min(len(keys), _SAMPLE_SIZE)).astype(np.int64))
    for code in (*sample.tolist(), -1):  # scalar: a few values
        rows = np.flatnonzero(codes == code)
        if not rows.size or (code != -1 and format_raw_count(column, int(rows[0])) is not None):
            continue
        value = None if code == -1 else column[int(rows[0])]
        leaf = Leaf(field.name, "is null") if value is None else Leaf(field.name, "=", (value,))
        for kind, answer in evaluator.evaluate_each(indexes, leaf):
            if away := _count_missing(rows, answer):
                yield (
                    f"{plural(away, 'row')} with {field.name} = {format_cell(value)} are not found by the {kind} "
                    f"index of column {field.name}"
                )


def _count_missing(rows: NDArray[np.int64], answer: bool | BitMap) -> int:
    """How many of the rows an answer lacks."""
    if isinstance(answer, bool):
        return 0 if answer else rows.size
    return rows.size - len(answer & roaring.roaring_of(rows))
