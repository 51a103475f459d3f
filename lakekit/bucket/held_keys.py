"""The keys of compacted files, held in memory between lookups: files never change, and every upsert of a table with lookups asks them again.

    key column of a file of a level above 0       1 3 7 9 …        ascending, a whole number each
    asked                                         3 8 9            binary search: 3 is row 1, 9 is row 3

Only keys of one column of whole numbers are held; of others, and where few keys of a big file are asked for, the file is read (`bucket.lookup`). What is held
shares the budget of decoded metadata (`world.decoded`). Source: ENGINE.md 2.7; `LookupLevels`, whose local files are this cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakekit.data_file.reader import scan_files, translate_polars_errors
from lakekit.lsm.numpy_columns import is_whole, values

if TYPE_CHECKING:
    import polars as pl

    from lakekit.lsm.numpy_columns import Ints
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta

MOST_ROWS = 2_000_000
"""A file of more rows is not held: it would push out all else."""
MIN_SPAN = 0.25
"""Of a file that is not held yet, all keys are read where those asked for span so much of its range; else its statistics spare most of it."""


def numbers_of(keys: pl.DataFrame) -> Ints | None:
    """Keys as ascending, distinct numbers; None where they are no single column of whole numbers."""
    if keys.width != 1:
        return None
    column = keys.to_series()
    if not is_whole(column.dtype) or column.null_count():
        return None
    found = np.sort(values(column).astype(np.int64), kind="stable")
    return found[np.append(True, found[1:] != found[:-1])] if len(found) else found


def rows_of(ctx: TableContext, file: DataFileMeta, path: str, asked: Ints, *, span: float) -> tuple[Ints, Ints] | None:
    """Which of some ascending numbers a file has, as indices, and the row of each; None where the file must be asked otherwise.

    `span`: how much of the file's key range they lie in. Raises what reading files raises.
    """
    held = _load_keys(ctx, file, path, span)
    if held is None or not len(held):
        return None
    at: Ints = np.searchsorted(held, asked)
    at[at == len(held)] = 0
    found = np.flatnonzero(held[at] == asked)
    return found, at[found]


def cache_keys(ctx: TableContext, path: str, keys: pl.DataFrame) -> None:
    """Holds the keys of a file that was just written, as they lie in it; nothing where they are no single column of whole numbers."""
    if keys.width == 1 and is_whole(keys.to_series().dtype) and keys.height <= MOST_ROWS:
        _put(ctx, path, keys.to_series())


def cached_key_range(ctx: TableContext, path: str) -> tuple[int, int] | None:
    """The smallest and the greatest key of a file whose keys are held."""
    found: Ints | None = ctx.world.decoded.get(_key(ctx, path))
    return None if found is None or not len(found) else (int(found[0]), int(found[-1]))


def _key(ctx: TableContext, path: str) -> tuple[object, ...]:
    return "keys", ctx.storage, path, ctx.schema.id


def _load_keys(ctx: TableContext, file: DataFileMeta, path: str, span: float) -> Ints | None:
    key = _key(ctx, path)
    found: Ints | None = ctx.world.decoded.get(key)
    if found is not None:
        return found
    if file.row_count > MOST_ROWS or span < MIN_SPAN:
        return None
    with translate_polars_errors(ctx, [path]):
        column = scan_files(ctx, [file], [path], ctx.schema.key_fields).collect().to_series()
    return _put(ctx, path, column)


def _put(ctx: TableContext, path: str, column: pl.Series) -> Ints | None:
    """Keeps the keys of a file; None where they cannot be searched."""
    if column.null_count():
        return None
    found = values(column).astype(np.int64)
    if (found[1:] <= found[:-1]).any():  # no run: whoever wrote it, binary search would miss rows
        return None
    ctx.world.decoded.put({_key(ctx, path): found}, found.nbytes)
    return found
