"""Tables whose snapshots are as old as a test says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import lakekit as lk
from lakekit.metadata import snapshots

SCHEMA = {"k": "INT NOT NULL", "dt": "STRING NOT NULL"}
DAY = 86_400_000


def made(path, *, partitioned=False, **options):
    given = {"bucket": "1", "sink.process-time-zone": "UTC", **options}
    keys = {"primary_keys": ["k", "dt"], "partition_keys": ["dt"]} if partitioned else {"primary_keys": ["k"]}
    return lk.create(str(path), SCHEMA, options=given, **keys)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def stamped(table: lk.Table, *times: str, watermark: bool = False) -> None:
    """A snapshot at each time: its file says so, whoever made it."""
    for text in times:
        table.append([{"k": 1, "dt": "2024-01-01"}])
        handle = table._context()
        snapshot = snapshots.latest(handle)
        changed = replace(snapshot, watermark=at(text)) if watermark else replace(snapshot, time_millis=at(text))
        handle.storage.put(handle.paths.snapshot(snapshot.id), changed.to_json())


def named(table: lk.Table) -> list[tuple[str, int]]:
    return sorted(table.tags().select("tag", "snapshot_id").rows())
