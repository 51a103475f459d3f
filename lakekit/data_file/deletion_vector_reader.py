"""Read deletion vectors: from index manifest entries to the deleted positions of each data file.

    load(ctx, {"data-1.parquet": entry, "data-2.parquet": entry})
        ->  {"data-1.parquet": [2, 3], "data-2.parquet": [1]}

One read per index file, of the range that holds the requested vectors. Every vector is checked against what the index
manifest says of it, its length (32 bit vectors are listed by the length of their data, 64 bit ones by that of the whole
entry) and its number of positions, and against its checksum.

Source: FORMAT.md 8, `DeletionVectorsIndexFile`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.codec import index_files
from lakekit.codec.index_files import ENTRY_EXTRA, MAGIC_64
from lakekit.data_file.paths import partition_path
from lakekit.data_file.verification import make_file_missing
from lakekit.errors import Corrupt
from lakekit.parallel import parallel_map
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_manifest import DeletionRange, IndexManifestEntry

    Positions = NDArray[np.uint32] | NDArray[np.uint64]

_VERSION = b"\x01"
_HEAD_BYTES = 8
"""An entry's length field and magic."""


def load(ctx: TableContext, vectors: Mapping[str, IndexManifestEntry]) -> dict[str, Positions]:
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
    return ctx.layout.index(
        entry.file_name, partition_path=where, bucket=entry.bucket, external_path=entry.external_path
    )


def _load_index_file(
    ctx: TableContext, path: str, entry: IndexManifestEntry, ranges: list[DeletionRange]
) -> dict[str, Positions]:
    if any(part.offset < len(_VERSION) or part.length < 0 for part in ranges):
        raise Corrupt(
            f"{path}: the index manifest lists a deletion vector before its first byte",
            path=path,
            field="_DELETIONS_VECTORS_RANGES",
        )
    first = min(part.offset for part in ranges)
    end = max(part.offset + part.length + ENTRY_EXTRA for part in ranges)
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
    return {part.file_name: _vector(data[part.offset - first :], part, path) for part in ranges}


def _vector(data: bytes, vector_range: DeletionRange, path: str) -> Positions:
    """Decode one vector and check it against its range in the index manifest."""
    where = f"{path}: the deletion vector of {vector_range.file_name} at offset {vector_range.offset}"
    if len(data) < _HEAD_BYTES:
        raise Corrupt(f"{where} is cut off", path=path, offset=vector_range.offset, field="length")
    length, wide = int.from_bytes(data[:4], "big"), data[4:8] == MAGIC_64
    if length + (ENTRY_EXTRA if wide else 0) != vector_range.length:
        raise Corrupt(
            f"{where} has a length of {length}, the index manifest says {vector_range.length}",
            path=path,
            offset=vector_range.offset,
            field="length",
        )
    try:
        positions = index_files.decode_entry(data[: length + ENTRY_EXTRA], limit=vector_range.cardinality)
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
