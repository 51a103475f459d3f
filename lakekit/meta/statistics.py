"""The statistics that an ANALYZE left with a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.meta import torn
from lakekit.model.statistics import Statistics

if TYPE_CHECKING:
    from lakekit.meta.torn import Place
    from lakekit.model.snapshot import Snapshot


def of(place: Place, snapshot: Snapshot) -> Statistics | None:
    """What the snapshot knows about its columns; None when it was never analysed. Raises `FileMissing` when the file it names is gone."""
    if snapshot.statistics is None:
        return None
    return torn.read(place, place.layout.statistics(snapshot.statistics), Statistics.from_json)
