"""Find the manifest that holds a bad value, so that the error carries its path.

Entries of many manifests are decoded together, and their partitions, keys and names are decoded where they are needed,
where the manifest of a row is no longer known. Only where a value is found to be wrong are the manifests checked one by
one.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakekit.codec import binary_row
from lakekit.data_file.deletion_vector_reader import index_path
from lakekit.data_file.paths import data_file_paths, partition_values
from lakekit.errors import Corrupt, LakekitError
from lakekit.metadata import manifest_reader
from lakekit.model import manifest_entries as columns_of
from lakekit.model.data_file import EMPTY_ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakekit.metadata.manifest_reader import ManifestListKind
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.snapshot import Snapshot

_MANIFEST_LISTS: tuple[ManifestListKind, ...] = ("all", "changelog")
_ROW_COLUMNS = ("key_min", "key_max", "value_min", "value_max")


@contextmanager
def add_manifest_path(ctx: TableContext, find_snapshot: Callable[[], Snapshot | None]) -> Iterator[None]:
    """Add a path to `Corrupt` errors without one that are raised while entries of a snapshot are read.

    The path is that of the manifest that holds the bad value, else of the snapshot.
    """
    try:
        yield
    except Corrupt as error:
        snapshot = find_snapshot() if error.path is None else None
        if snapshot is None:
            raise
        raise with_manifest_path(ctx, snapshot, error) from None


def with_manifest_path(ctx: TableContext, snapshot: Snapshot, error: Corrupt) -> Corrupt:
    """Return the same error with the path of the damaged manifest; of the snapshot if no manifest is damaged."""
    try:
        files = [file for which in _MANIFEST_LISTS for file in manifest_reader.manifest_files(ctx, snapshot, which)]
        for file, entries in zip(files, manifest_reader.read_entries_by_manifest(ctx, files), strict=True):
            if _has_undecodable_value(ctx, entries):
                return error.at(ctx.paths.manifest(file.name))
        for entry in manifest_reader.index_entries(ctx, snapshot):
            try:
                index_path(ctx, entry)
            except Corrupt:
                return error.at(ctx.paths.manifest(str(snapshot.index_manifest)))
    except LakekitError:
        pass
    return error.at(ctx.paths.snapshot(snapshot.id))


def _has_undecodable_value(ctx: TableContext, entries: ManifestEntries) -> bool:
    """Return whether a value of an entry cannot be decoded, or does not fit the table."""
    key_types = [field.type for field in ctx.schema.key_fields]
    try:
        data_file_paths(ctx, entries)
        for partition in entries.column("partition").unique().to_pylist():  # scalar: one a partition
            partition_values(ctx, partition)
            if not ctx.schema.partition_keys and partition != EMPTY_ROW:
                return True
        for name in ("min_key", "max_key") if key_types else ():
            rows = entries.column(name)
            binary_row.decode_columns(rows.filter(pa.array(np.asarray(rows.is_valid()))), key_types)
        for name in _ROW_COLUMNS:
            binary_row.decode_columns(entries.column(name), [])
        columns_of.live_mask(entries)
    except Corrupt:
        return True
    return False
