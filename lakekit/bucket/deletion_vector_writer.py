"""The deletion vectors of one bucket while it is written, stored as one index file.

    index-… { a: 2 3 }   +   marked a: 7, b: 1   -   b rewritten      ->   index-… { a: 2 3 7 }

Lookups mark deleted positions; vectors are removed with their data files.

Source: ENGINE.md 2.8, FORMAT.md 8.2 and 8.3; `BucketedDvMaintainer`, `DeletionVectorsIndexFile`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lakekit.codec import index_files
from lakekit.data_file import deletion_vector_reader
from lakekit.data_file.paths import partition_path
from lakekit.errors import StorageFailed
from lakekit.model.index_manifest import DELETION_VECTORS, DeletionRange, IndexFileMeta

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_manifest import IndexManifestEntry

    Positions = NDArray[np.unsignedinteger]


def merge_positions(
    existing: Mapping[str, Positions], marked: Mapping[str, NDArray[np.integer]]
) -> dict[str, Positions]:
    """Return the positions of both, ascending and distinct, by file name."""
    merged = dict(existing)
    for name, positions in marked.items():
        parts = (
            [positions.astype(np.uint64)]
            if name not in merged
            else [merged[name].astype(np.uint64), positions.astype(np.uint64)]
        )
        both = np.sort(np.concatenate(parts), kind="stable")
        merged[name] = both[np.append(True, both[1:] != both[:-1])] if len(both) else both
    return merged


def write_index_file(
    ctx: TableContext, partition: bytes, bucket: int, vectors: Mapping[str, Positions]
) -> IndexFileMeta:
    """Write the index file of some vectors; of none, a file of one byte as the reference writes it.

    Raises:
        StorageFailed: the file could not be written.
        ValueOutOfRange: a position does not fit the bitmap.
    """
    names = [name for name, positions in vectors.items() if len(positions)]
    data, ranges = index_files.encode_vector_file(
        [vectors[name] for name in names], 64 if ctx.options.deletion_vectors_bitmap64 else 32
    )
    file_name = f"index-{ctx.runtime.new_id()}-0"
    path = _index_path(ctx, partition, bucket, file_name)
    try:
        with ctx.storage.open_write(path) as sink:
            sink.write(data)
    except BaseException:  # the store may have created the file all the same
        with suppress(StorageFailed):
            ctx.storage.delete([path])
        raise
    _cache_vectors(ctx, path, {name: vectors[name] for name in names})
    return IndexFileMeta(
        index_type=DELETION_VECTORS,
        file_name=file_name,
        file_size_bytes=len(data),
        row_count=len(names),
        ranges=tuple(
            DeletionRange(
                file_name=name, offset=file_range.offset, length=file_range.length, cardinality=file_range.cardinality
            )
            for name, file_range in zip(names, ranges, strict=True)
        ),
    )


def _cache_vectors(ctx: TableContext, path: str, vectors: Mapping[str, Positions]) -> None:
    """Cache the vectors of an index file, for the next writer of the bucket."""
    ctx.runtime.metadata_cache.put(
        {("vectors", ctx.storage, path): dict(vectors)}, sum(positions.nbytes for positions in vectors.values()) + 200
    )


def _index_path(ctx: TableContext, partition: bytes, bucket: int, file_name: str) -> str:
    return ctx.paths.index(file_name, partition_path=partition_path(ctx, partition), bucket=bucket)


@dataclass(slots=True, kw_only=True, eq=False)
class BucketDeletionVectors:
    """The deletion vectors of a bucket that is being written. `positions`: deleted rows by file name."""

    ctx: TableContext
    partition: bytes
    bucket: int
    positions: dict[str, Positions]
    is_changed: bool = False
    _written_files: tuple[IndexFileMeta, ...] = ()

    @staticmethod
    def restore(
        ctx: TableContext, partition: bytes, bucket: int, files: Sequence[IndexManifestEntry]
    ) -> BucketDeletionVectors:
        """Return the vectors of a snapshot's index files. Raises `Corrupt`, `FileMissing`."""
        positions: dict[str, Positions] = {}
        for entry in files:
            path = deletion_vector_reader.index_path(ctx, entry)
            vectors = ctx.runtime.metadata_cache.get(("vectors", ctx.storage, path))
            if vectors is None:
                vectors = deletion_vector_reader.load_positions(ctx, {part.file_name: entry for part in entry.ranges})
                _cache_vectors(ctx, path, vectors)
            positions |= vectors
        plain = tuple(_to_file_meta(entry) for entry in files)
        return BucketDeletionVectors(
            ctx=ctx, partition=partition, bucket=bucket, positions=dict(positions), _written_files=plain
        )

    @property
    def index_files(self) -> tuple[IndexFileMeta, ...]:
        """Return the index files that hold these vectors until they are written again."""
        return self._written_files

    def add_positions(self, deleted_positions: Mapping[str, NDArray[np.integer]]) -> None:
        """Add positions of deleted rows."""
        new = {name: positions for name, positions in deleted_positions.items() if len(positions)}
        after = merge_positions(self.positions, new)
        self.is_changed |= any(len(after[name]) != len(self.positions.get(name, ())) for name in new)
        self.positions = after

    def remove_files(self, names: Iterable[str]) -> None:
        """Remove the vectors of files that were removed."""
        for name in names:
            self.is_changed |= self.positions.pop(name, None) is not None

    def write_if_changed(self) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
        """Write the vectors, if any changed; return the new index file, and those it replaces.

        Raises `StorageFailed`.
        """
        if not self.is_changed:
            return (), ()
        new, old = (write_index_file(self.ctx, self.partition, self.bucket, self.positions),), self._written_files
        self.is_changed, self._written_files = False, new
        return new, old

    def write_rolling(self) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
        """Write the vectors of a table without buckets; return the new index files and those they replace.

        A file ends as soon as it is longer than `deletion-vector.index-file.target-size`, its version counted; there is
        none if no vector is left. Raises `StorageFailed`; then no new file is left.
        """
        if not self.is_changed:
            return (), ()
        options = self.ctx.options
        limit, bits = (
            options.deletion_vector_index_file_target_size_bytes,
            64 if options.deletion_vectors_bitmap64 else 32,
        )
        written: list[IndexFileMeta] = []
        group: dict[str, Positions] = {}
        size = index_files.VERSION_BYTES
        try:
            for name, positions in self.positions.items():
                group[name] = positions
                size += len(index_files.encode_vector_entry(positions, bits))
                if size > limit:
                    written.append(write_index_file(self.ctx, self.partition, self.bucket, group))
                    group, size = {}, index_files.VERSION_BYTES
            if group:
                written.append(write_index_file(self.ctx, self.partition, self.bucket, group))
        except BaseException:
            with suppress(StorageFailed):
                self.delete_files(written)
            raise
        old, self._written_files, self.is_changed = self._written_files, tuple(written), False
        return self._written_files, old

    def delete_files(self, files: Iterable[IndexFileMeta]) -> None:
        """Delete index files that are in no message."""
        self.ctx.storage.delete([_index_path(self.ctx, self.partition, self.bucket, file.file_name) for file in files])


def _to_file_meta(entry: IndexManifestEntry) -> IndexFileMeta:
    return IndexFileMeta(
        index_type=entry.index_type,
        file_name=entry.file_name,
        file_size_bytes=entry.file_size_bytes,
        row_count=entry.row_count,
        ranges=entry.ranges,
        external_path=entry.external_path,
        global_index=entry.global_index,
    )
