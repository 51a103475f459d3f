"""The statistics that an ANALYZE left with a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.metadata import metadata_io
from lakekit.model.statistics import Statistics

if TYPE_CHECKING:
    from lakekit.metadata.metadata_io import MetadataLocation
    from lakekit.model.snapshot import Snapshot


def read_statistics(place: MetadataLocation, snapshot: Snapshot) -> Statistics | None:
    """What the snapshot knows about its columns; None when it was never analysed. Raises `FileMissing` when the file it names is gone."""
    if snapshot.statistics is None:
        return None
    return metadata_io.read(place, place.layout.statistics(snapshot.statistics), Statistics.from_json)
