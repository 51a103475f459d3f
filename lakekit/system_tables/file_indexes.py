"""The system table file_indexes: one row for each column and type of a data file's indexes.

Only the heads of containers are read, those of index files too. Newer than engine 1.4.2. Source: ENGINE 10.1,
`FileIndexesTable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow.compute as pc

from lakekit import world
from lakekit.columns import cols
from lakekit.data_file import paths
from lakekit.file_index import container as index_container
from lakekit.read import time_travel
from lakekit.system_tables import snapshot_tables
from lakekit.system_tables.frames import live_entries
from lakekit.system_tables.metadata import frame

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries

FILE = ("partition", "bucket", "file_path", "file_size_in_bytes", "record_count", "schema_id")
_INDEX: dict[str, Any] = {
    "file_path": pl.String,
    "column_name": pl.String,
    "index_type": pl.String,
    "storage_type": pl.String,
    "index_file_path": pl.String,
    "index_size_in_bytes": pl.Int64,
    "index_container_size_in_bytes": pl.Int64,
    "is_empty": pl.Boolean,
}


def file_indexes(ctx: TableContext, at: int | str | datetime | None = None) -> pl.DataFrame:
    """Return every index of every live data file of real buckets.

    `storage_type` is EMBEDDED (in the manifest) or FILE; an empty index holds no value at all.
    """
    position = time_travel.locate(ctx, at)
    entries = live_entries(ctx, position.snapshot)
    inner = pc.is_valid(entries.column("embedded_index"))
    outer = pc.greater(pc.list_value_length(entries.column("extra_files")), 0)
    entries = entries.filter(pc.or_(inner, pc.fill_null(outer, False)).to_numpy(zero_copy_only=False))
    by_file = world.parallel_map(
        lambda i: list(_indexes(ctx, entries, i)), range(len(entries)), waiting=ctx.storage.is_remote
    )
    indexes = frame((row for rows in by_file for row in rows), _INDEX)
    return snapshot_tables.files(ctx, at).select(cols(FILE)).join(indexes, on="file_path", maintain_order="left_right")


def _indexes(ctx: TableContext, entries: ManifestEntries, i: int) -> Iterator[tuple[Any, ...]]:
    file = entries.file(i)
    path = paths.data_file_path(ctx, *paths.bucket_id_at(entries, i), file)
    if file.embedded_index is not None:
        yield from _rows(path, file.embedded_index, None, len(file.embedded_index))
        return
    for name in file.extra_files:
        if name.endswith(".index"):
            outside = ctx.layout.extra_file(path, name)
            first = ctx.storage.read(outside, 0, index_container.HEAD)
            head = ctx.storage.read(outside, 0, index_container.head_length(first, path=outside))
            yield from _rows(path, head, outside, ctx.storage.size(outside))


def _rows(path: str, container: bytes, outside: str | None, size: int) -> Iterator[tuple[Any, ...]]:
    storage_type = "EMBEDDED" if outside is None else "FILE"
    for column, indexes in index_container.contents(container, path=outside or path).items():
        for kind, span in indexes.items():
            yield path, column, kind, storage_type, outside, 0 if span is None else span.length, size, span is None
