"""Read the statistics that an ANALYZE attached to a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.metadata import metadata_io
from lakekit.model.statistics import Statistics

if TYPE_CHECKING:
    from lakekit.metadata.metadata_io import MetadataLocation
    from lakekit.model.snapshot import Snapshot


def read_statistics(location: MetadataLocation, snapshot: Snapshot) -> Statistics | None:
    """Return the statistics of a snapshot; None if it was never analysed.

    Raises `FileMissing` if the file it names is gone.
    """
    if snapshot.statistics is None:
        return None
    return metadata_io.read(location, location.layout.statistics(snapshot.statistics), Statistics.from_json)
