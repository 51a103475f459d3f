"""The location of a data file of a snapshot: the manifest that added it, its partition and its bucket."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow.compute as pc

from lakekit.inspection.timeline import snapshot_of
from lakekit.metadata import manifest_reader as manifest_files
from lakekit.model.manifest_entries import ADD
from lakekit.read import time_travel
from lakekit.storage.protocol import FileMissing
from lakekit.system_tables import frames

if TYPE_CHECKING:
    from lakekit.table.table import Table

_NEWEST_FIRST: tuple[Literal["delta", "base"], ...] = ("delta", "base")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLocation:
    """The location of a data file in the metadata.

    `manifest` is the newest one of the snapshot that adds the file, `partition` its directory, "" in a table without
    partitions.
    """

    manifest: str
    partition: str
    bucket: int


def locate_file(table: Table, snapshot_id: int, name: str) -> FileLocation | None:
    """Return the location of the file of that name, None where the snapshot has none.

    Reads manifests, the newest first, until one adds it.

    Raises: `SnapshotNotFound`.
    """
    if not snapshot_id or not name:
        return None
    ctx = table.handle()
    snapshot = snapshot_of(ctx, snapshot_id)
    ctx = time_travel.schema_of(ctx, time_travel.at_snapshot(snapshot))
    for which in _NEWEST_FIRST:
        with suppress(FileMissing):  # of an expired snapshot, which a tag keeps, only the base list is there
            for listed in reversed(manifest_files.manifest_files(ctx, snapshot, which)):
                entries = manifest_files.read_entries(ctx, [listed])
                indices = np.flatnonzero(
                    np.asarray(pc.equal(entries.column("file_name"), name)) & (entries.numbers("kind") == ADD)
                )
                if len(indices):
                    added = entries.take(indices[-1:])
                    partition = frames.partition_texts(ctx, added)[0]
                    return FileLocation(
                        manifest=listed.name, partition=partition, bucket=int(added.numbers("bucket")[0])
                    )
    return None
