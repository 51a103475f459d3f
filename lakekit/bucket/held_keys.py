"""A cache of the keys of compacted files, between lookups.

    key column of a file of a level above 0       1 3 7 9 …        ascending integers
    keys to look up                               3 8 9            binary search: 3 is row 1, 9 is row 3

Files never change, and every upsert to a table with lookups looks in them again. Only keys of one integer column are
cached. For others, and where few keys of a big file are looked up, `bucket.lookup` reads the file. The cache shares the
budget of decoded metadata (`world.decoded`).

Source: ENGINE.md 2.7; `LookupLevels`, whose local files are this cache.
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
"""The keys of a file with more rows are not cached: they would evict everything else."""
MIN_SPAN = 0.25
"""All keys of a file are read into the cache if the keys looked up cover at least this share of its key range.

Below it, reading the file with its statistics skips most of it.
"""


def numbers_of(keys: pl.DataFrame) -> Ints | None:
    """Return the keys as ascending, distinct integers; None if they are not a single integer column."""
    if keys.width != 1:
        return None
    column = keys.to_series()
    if not is_whole(column.dtype) or column.null_count():
        return None
    numbers = np.sort(values(column).astype(np.int64), kind="stable")
    return numbers[np.append(True, numbers[1:] != numbers[:-1])] if len(numbers) else numbers


def rows_of(
    ctx: TableContext, file: DataFileMeta, path: str, numbers: Ints, *, span: float
) -> tuple[Ints, Ints] | None:
    """Return which of some ascending keys a file has, as indices, and the row of each.

    None if the file must be read for it. `span` is the share of the file's key range that the keys cover. Raises what
    reading files raises.
    """
    file_keys = _load_keys(ctx, file, path, span)
    if file_keys is None or not len(file_keys):
        return None
    rows: Ints = np.searchsorted(file_keys, numbers)
    rows[rows == len(file_keys)] = 0
    indices = np.flatnonzero(file_keys[rows] == numbers)
    return indices, rows[indices]


def cache_keys(ctx: TableContext, path: str, keys: pl.DataFrame) -> None:
    """Cache the keys of a file that was just written, in file order, if they are a single integer column."""
    if keys.width == 1 and is_whole(keys.to_series().dtype) and keys.height <= MOST_ROWS:
        _put(ctx, path, keys.to_series())


def cached_key_range(ctx: TableContext, path: str) -> tuple[int, int] | None:
    """Return the smallest and the greatest key of a file whose keys are cached, else None."""
    cached: Ints | None = ctx.world.decoded.get(_key(ctx, path))
    return None if cached is None or not len(cached) else (int(cached[0]), int(cached[-1]))


def _key(ctx: TableContext, path: str) -> tuple[object, ...]:
    return "keys", ctx.storage, path, ctx.schema.id


def _load_keys(ctx: TableContext, file: DataFileMeta, path: str, span: float) -> Ints | None:
    key = _key(ctx, path)
    cached: Ints | None = ctx.world.decoded.get(key)
    if cached is not None:
        return cached
    if file.row_count > MOST_ROWS or span < MIN_SPAN:
        return None
    with translate_polars_errors(ctx, [path]):
        column = scan_files(ctx, [file], [path], ctx.schema.key_fields).collect().to_series()
    return _put(ctx, path, column)


def _put(ctx: TableContext, path: str, column: pl.Series) -> Ints | None:
    """Cache the keys of a file; None if they cannot be searched."""
    if column.null_count():
        return None
    numbers = values(column).astype(np.int64)
    if (numbers[1:] <= numbers[:-1]).any():  # not sorted, so that binary search would miss rows
        return None
    ctx.world.decoded.put({_key(ctx, path): numbers}, numbers.nbytes)
    return numbers
