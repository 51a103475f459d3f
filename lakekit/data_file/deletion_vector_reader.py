"""Deletion vectors of data files, and filters of rows by position.

    load_positions(ctx, {"data-1.parquet": entry, "data-2.parquet": entry})
        ->  {"data-1.parquet": [2, 3], "data-2.parquet": [1]}

One read per index file, of the range that holds the requested vectors. Every vector is checked against what the index
manifest says of it, its length (32 bit vectors are listed by the length of their data, 64 bit ones by that of the whole
entry) and its number of positions, and against its checksum.

    filter_positions: files a (3 rows), b (4 rows), one scan:   row 0 1 2 | 3 4 5 6
                      b without its rows 1 and 3:               every row but 4 and 6

The condition on the row's number works row by row, so that filters above are pushed below it and still skip row groups;
a mask that is gathered does not, and would cost every row group that they skip (measured: 15 ms against 266 ms for a
range of 4 M rows). It looks up a window of the positions for each batch, which costs less than Polars' `is_in`
(measured: 120 ms against 135 ms for 1 M rows without a tenth, 110 ms of them decoding).

Source: FORMAT.md 8, `DeletionVectorsIndexFile`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from pyroaring import BitMap

from lakekit.codec import index_files
from lakekit.codec.index_files import ENTRY_OVERHEAD_BYTES, MAGIC_64
from lakekit.columns import col
from lakekit.data_file.paths import partition_path
from lakekit.data_file.verification import make_file_missing
from lakekit.errors import Corrupt
from lakekit.parallel import parallel_map
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.index_manifest import DeletionRange, IndexManifestEntry

    Positions = NDArray[np.uint32] | NDArray[np.uint64]


_VERSION_PREFIX = b"\x01"
_RANGE_OVERHEAD_BYTES = 8
"""An entry's length field and magic."""


def load_positions(ctx: TableContext, vectors: Mapping[str, IndexManifestEntry]) -> dict[str, Positions]:
    """Return the positions of the deleted rows of each data file, ascending.

    `vectors` maps the name of each data file to the index file that holds its vector.

    Raises:
        FileMissing, Corrupt: with the path of the index file.
    """
    by_index: dict[str, tuple[IndexManifestEntry, list[DeletionRange]]] = {}
    for name, entry in vectors.items():
        path = index_path(ctx, entry)
        vector_range = next((candidate for candidate in entry.ranges if candidate.file_name == name), None)
        if vector_range is None:
            raise Corrupt(
                f"{path}: the index manifest lists no deletion vector of {name} in it",
                path=path,
                field="_DELETIONS_VECTORS_RANGES",
            )
        by_index.setdefault(path, (entry, []))[1].append(vector_range)
    parts = parallel_map(
        lambda item: _load_index_file(ctx, item[0], *item[1]), by_index.items(), waiting=ctx.storage.is_remote
    )
    return {name: positions for candidate in parts for name, positions in candidate.items()}


def index_path(ctx: TableContext, entry: IndexManifestEntry) -> str:
    """Return the path of an index file."""
    where = partition_path(ctx, entry.partition)
    return ctx.paths.index(
        entry.file_name, partition_path=where, bucket=entry.bucket, external_path=entry.external_path
    )


def _load_index_file(
    ctx: TableContext, path: str, entry: IndexManifestEntry, ranges: list[DeletionRange]
) -> dict[str, Positions]:
    if any(part.offset < len(_VERSION_PREFIX) or part.length < 0 for part in ranges):
        raise Corrupt(
            f"{path}: the index manifest lists a deletion vector before its first byte",
            path=path,
            field="_DELETIONS_VECTORS_RANGES",
        )
    first = min(part.offset for part in ranges)
    end = max(part.offset + part.length + ENTRY_OVERHEAD_BYTES for part in ranges)
    size = entry.file_size_bytes
    if any(part.offset + part.length > size for part in ranges):
        raise Corrupt(
            f"{path}: a deletion vector beyond its end at {size} bytes", path=path, field="_DELETIONS_VECTORS_RANGES"
        )
    try:
        data = ctx.storage.read(path, first, min(end, size) - first)
    except FileMissing as missing:
        raise make_file_missing(ctx, path, None, None) from missing
    if len(data) < min(end, size) - first:
        raise Corrupt(
            f"{path} is {first + len(data)} bytes, the index manifest says {size}", path=path, field="_FILE_SIZE"
        )
    return {part.file_name: _decode_vector(data[part.offset - first :], part, path) for part in ranges}


def _decode_vector(data: bytes, vector_range: DeletionRange, path: str) -> Positions:
    """Decode one vector and check it against its range in the index manifest."""
    where = f"{path}: the deletion vector of {vector_range.file_name} at offset {vector_range.offset}"
    if len(data) < _RANGE_OVERHEAD_BYTES:
        raise Corrupt(f"{where} is cut off", path=path, offset=vector_range.offset, field="length")
    length, wide = int.from_bytes(data[:4], "big"), data[4:8] == MAGIC_64
    if length + (ENTRY_OVERHEAD_BYTES if wide else 0) != vector_range.length:
        raise Corrupt(
            f"{where} has a length of {length}, the index manifest says {vector_range.length}",
            path=path,
            offset=vector_range.offset,
            field="length",
        )
    try:
        positions = index_files.decode_vector_entry(
            data[: length + ENTRY_OVERHEAD_BYTES], max_positions=vector_range.cardinality
        )
    except Corrupt as damaged:
        offset = None if damaged.offset is None else damaged.offset + vector_range.offset
        raise type(damaged)(f"{where}: {damaged.message}", path=path, offset=offset, field=damaged.field) from None
    if vector_range.cardinality is not None and len(positions) != vector_range.cardinality:
        raise Corrupt(
            f"{where} holds {len(positions)} rows, the index manifest says {vector_range.cardinality}",
            path=path,
            offset=vector_range.offset,
            field="_CARDINALITY",
        )
    return positions


# ---- filters by position --------------------------------------------------


def filter_positions(
    frame: pl.LazyFrame,
    row: tuple[str, int],
    files: Sequence[DataFileMeta],
    deleted_positions: Mapping[str, NDArray[np.unsignedinteger]],
    selected: Mapping[str, BitMap | NDArray[np.unsignedinteger]],
    paths: Sequence[str],
) -> pl.LazyFrame:
    """Return `frame` without the rows in `deleted_positions` and, of files in `selected`, with only those rows.

    `row` is the column that numbers the rows of all `files`, and its first number; positions count the rows of one
    file.

    Raises:
        Corrupt: a position is beyond the end of its file; carries its path, from `paths`.
    """
    name, start = row
    deleted, mask = _deleted_positions(files, deleted_positions, paths), _index_mask(files, selected, paths)
    if mask is None:
        return frame if deleted is None else frame.filter(_exclude_positions(name, deleted + start))
    if deleted is not None:
        mask[deleted] = False
    count = int(np.count_nonzero(mask))
    if count * 2 < len(mask):
        return frame.filter(_select_positions(name, np.flatnonzero(mask) + start))
    return frame if count == len(mask) else frame.filter(_exclude_positions(name, np.flatnonzero(~mask) + start))


def _exclude_positions(name: str, positions: NDArray[np.int64]) -> pl.Expr:
    return col(name).map_batches(
        lambda rows: _mask_positions(rows, positions, hit_value=False), return_dtype=pl.Boolean, is_elementwise=True
    )


def _select_positions(name: str, positions: NDArray[np.int64]) -> pl.Expr:
    return col(name).map_batches(
        lambda rows: _mask_positions(rows, positions, hit_value=True), return_dtype=pl.Boolean, is_elementwise=True
    )


def _mask_positions(rows: pl.Series, positions: NDArray[np.int64], *, hit_value: bool) -> pl.Series:
    """Return a mask of row numbers: `hit_value` at the ascending positions, its opposite elsewhere."""
    numbers = rows.to_numpy()
    if not len(numbers):
        return pl.Series(rows.name, [], pl.Boolean)
    low, high = int(numbers.min()), int(numbers.max())
    first, last = np.searchsorted(positions, (low, high + 1))
    window = np.full(high - low + 1, not hit_value)
    window[positions[first:last] - low] = hit_value
    # consecutive rows: the window is the mask
    is_contiguous = len(window) == len(numbers) and not np.count_nonzero(numbers[1:] - numbers[:-1] != 1)
    return pl.Series(rows.name, window if is_contiguous else window[numbers - low])


def _deleted_positions(
    files: Sequence[DataFileMeta], deleted_positions: Mapping[str, NDArray[np.unsignedinteger]], paths: Sequence[str]
) -> NDArray[np.int64] | None:
    """Return the numbers of the deleted rows, counted over all files; None without any."""
    parts, before = [], 0
    for file, path in zip(files, paths, strict=True):
        deleted = deleted_positions.get(file.name)
        if deleted is not None:
            _check_positions(deleted, file, path, "its deletion vector")
            parts.append(deleted.astype(np.int64) + before)
        before += file.row_count
    return np.concatenate(parts) if parts else None


def _index_mask(
    files: Sequence[DataFileMeta], selected: Mapping[str, BitMap | NDArray[np.unsignedinteger]], paths: Sequence[str]
) -> NDArray[np.bool_] | None:
    """Return a mask over the rows of all files that may match by their file indexes; None without any."""
    if not any(file.name in selected for file in files):
        return None
    mask, before = np.ones(sum(file.row_count for file in files), bool), 0
    for file, path in zip(files, paths, strict=True):
        selection = selected.get(file.name)
        if selection is not None:
            rows = np.asarray(selection.to_array() if isinstance(selection, BitMap) else selection, np.int64)
            _check_positions(rows, file, path, "its file index")
            mask[before : before + file.row_count] = False
            mask[before + rows] = True
        before += file.row_count
    return mask


def _check_positions(positions: NDArray[np.integer], file: DataFileMeta, path: str, source: str) -> None:
    if len(positions) and int(positions[-1]) >= file.row_count:
        raise Corrupt(
            f"{path}: {source} names row {int(positions[-1])}, and it has {file.row_count} rows",
            path=path,
            field="positions",
        )
