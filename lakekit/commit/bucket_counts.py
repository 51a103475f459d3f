"""Bucket counts of partitions, found without reading all manifests.

All files of one partition agree on its count. An append need not know which files are live, only that its rows were
bucketed by the number that their partition has. That number is in the newest manifest with files of the partition, and
holds until an overwrite.
Source: ENGINE.md 5.2 and 5.5 (check 1), `FileStoreCommitImpl`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.bucket import sequences
from lakekit.commit import commit_history, conflict_detection, partition_ranges
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model.manifest_entries import ADD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from lakekit.commit.changes import Delta
    from lakekit.commit.conflict_detection import ConflictParties
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot

_ROW_BYTES = 200


class _CachedBucketCounts(NamedTuple):
    """The bucket counts of some partitions as of snapshot `end`."""

    end: Snapshot
    totals: Mapping[bytes, int]


def check(ctx: TableContext, latest: Snapshot, delta: Delta, parties: ConflictParties) -> None:
    """Raise `Conflict` if added files have another number of buckets than their partition."""
    written_totals: dict[bytes, int] = {}
    for kind, partition, _, total, _ in delta.rows:
        if kind == ADD and total > 0 and written_totals.setdefault(partition, total) != total:
            raise conflict_detection.make_buckets_conflict(written_totals[partition], total, parties)
    if not written_totals:
        return
    cached = _valid_cached_counts(ctx, latest)
    uncached = {partition for partition in written_totals if partition not in cached}
    totals = {**cached, **_search(ctx, latest, uncached)} if uncached else cached
    differing = {partition for partition, total in written_totals.items() if totals.get(partition, total) != total}
    if differing:  # nothing may be left alive of what had that number
        conflict_detection.check_bucket_counts(
            manifest_reader.read_live_entries(
                ctx, latest, keep_partitions=lambda column: mask_partitions(column, differing)
            ),
            delta.entries,
            parties,
        )
        totals = {partition: total for partition, total in totals.items() if partition not in differing}
    key = _key(ctx)
    ctx.world.decoded.put({key: _CachedBucketCounts(latest, totals)}, _ROW_BYTES * (len(totals) + 1))


def remember(ctx: TableContext, before: Snapshot, snapshot: Snapshot, delta: Delta) -> None:
    """Carry cached bucket counts and sequence numbers on to `snapshot`, the next one after `before`."""
    if delta.read is None:
        sequences.remember(ctx, before, snapshot, delta.rows)
    cached: _CachedBucketCounts | None = ctx.world.decoded.get(_key(ctx))
    if cached is not None and cached.end == before and snapshot.commit_kind != "OVERWRITE":
        added = {row[1]: row[3] for row in delta.rows if row[0] == ADD and row[3] > 0}
        totals = cached.totals if added.keys() <= cached.totals.keys() else {**cached.totals, **added}
        ctx.world.decoded.put({_key(ctx): _CachedBucketCounts(snapshot, totals)}, _ROW_BYTES * (len(totals) + 1))


def _key(ctx: TableContext) -> tuple[object, ...]:
    return "bucket counts", ctx.storage, ctx.layout.snapshot_dir


def mask_partitions(column: pa.BinaryArray, partitions: Iterable[bytes]) -> NDArray[np.bool_]:
    """Return a mask of the serialized partitions in `column` that are among `partitions`."""
    return np.asarray(pc.is_in(column, pa.array(list(partitions), column.type)).to_numpy(zero_copy_only=False), bool)


def _valid_cached_counts(ctx: TableContext, latest: Snapshot) -> Mapping[bytes, int]:
    """Return the cached bucket counts that still hold at `latest`."""
    cached: _CachedBucketCounts | None = ctx.world.decoded.get(_key(ctx))
    if cached is None or cached.end.id > latest.id:
        return {}
    if cached.end.id == latest.id:
        return cached.totals if cached.end == latest else {}
    if snapshots.find(ctx, cached.end.id) != cached.end:
        return {}
    replaced = any(
        snapshot is None or snapshot.commit_kind == "OVERWRITE"
        for _, snapshot in commit_history.iter_since(ctx, cached.end.id, latest)
    )
    return {} if replaced else cached.totals


def _search(ctx: TableContext, latest: Snapshot, partitions: set[bytes]) -> dict[bytes, int]:
    """Return the bucket count under which the newest file of each partition was added."""
    fields = ctx.schema.partition_fields
    missing, totals = set(partitions), dict[bytes, int]()
    for file in reversed(manifest_reader.manifest_files(ctx, latest)):
        if not missing:
            break
        if not file.num_added_files or not partition_ranges.may_hold(
            file, partition_ranges.values_of(missing, fields), fields
        ):
            continue
        entries = manifest_reader.read_entries(ctx, [file])
        mask = (entries.numbers("kind") == ADD) & (entries.numbers("total_buckets") > 0)
        matching = entries.filter(mask & mask_partitions(entries.column("partition"), missing))
        totals |= dict(
            zip(matching.column("partition").to_pylist(), matching.column("total_buckets").to_pylist(), strict=True)
        )
        missing -= totals.keys()
    return totals
