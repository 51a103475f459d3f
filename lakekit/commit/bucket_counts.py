"""How many buckets the partitions of a table have, known without reading all manifests: files of one partition agree on it.

An append need not know which files are live, only that rows were put into buckets by the number that their partition has. The number of a partition is
found in the newest manifest that names it, and holds until an overwrite. Source: ENGINE.md 5.2 and 5.5 (check 1), `FileStoreCommitImpl`.
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
    """The bucket numbers of some partitions as of a snapshot."""

    end: Snapshot
    totals: Mapping[bytes, int]


def check(ctx: TableContext, latest: Snapshot, delta: Delta, parties: ConflictParties) -> None:
    """Raises `Conflict` where files of messages are added under another number of buckets than their partition has."""
    wanted: dict[bytes, int] = {}
    for kind, partition, _, total, _ in delta.rows:
        if kind == ADD and total > 0 and wanted.setdefault(partition, total) != total:
            raise conflict_detection.make_buckets_conflict(wanted[partition], total, parties)
    if not wanted:
        return
    known = _valid_cached_counts(ctx, latest)
    fresh = {partition for partition in wanted if partition not in known}
    found = {**known, **_search(ctx, latest, fresh)} if fresh else known
    differing = {partition for partition, total in wanted.items() if found.get(partition, total) != total}
    if differing:  # nothing may be left alive of what had that number
        conflict_detection.check_bucket_counts(
            manifest_reader.read_live_entries(ctx, latest, keep_partitions=lambda column: mask_partitions(column, differing)), delta.entries, parties
        )
        found = {partition: total for partition, total in found.items() if partition not in differing}
    key = _key(ctx)
    ctx.world.decoded.put({key: _CachedBucketCounts(latest, found)}, _ROW_BYTES * (len(found) + 1))


def remember(ctx: TableContext, before: Snapshot, made: Snapshot, delta: Delta) -> None:
    """Carries what is known on to a snapshot that was made right after `before`; what writers know of sequence numbers too."""
    if delta.read is None:
        sequences.remember(ctx, before, made, delta.rows)
    known: _CachedBucketCounts | None = ctx.world.decoded.get(_key(ctx))
    if known is not None and known.end == before and made.commit_kind != "OVERWRITE":
        new = {row[1]: row[3] for row in delta.rows if row[0] == ADD and row[3] > 0}
        totals = known.totals if new.keys() <= known.totals.keys() else {**known.totals, **new}
        ctx.world.decoded.put({_key(ctx): _CachedBucketCounts(made, totals)}, _ROW_BYTES * (len(totals) + 1))


def _key(ctx: TableContext) -> tuple[object, ...]:
    return "bucket counts", ctx.storage, ctx.layout.snapshot_dir


def mask_partitions(column: pa.BinaryArray, partitions: Iterable[bytes]) -> NDArray[np.bool_]:
    """Which serialized partitions are among some."""
    return np.asarray(pc.is_in(column, pa.array(list(partitions), column.type)).to_numpy(zero_copy_only=False), bool)


def _valid_cached_counts(ctx: TableContext, latest: Snapshot) -> Mapping[bytes, int]:
    """What was known before and still holds."""
    known: _CachedBucketCounts | None = ctx.world.decoded.get(_key(ctx))
    if known is None or known.end.id > latest.id:
        return {}
    if known.end.id == latest.id:
        return known.totals if known.end == latest else {}
    if snapshots.find(ctx, known.end.id) != known.end:
        return {}
    replaced = any(snapshot is None or snapshot.commit_kind == "OVERWRITE" for _, snapshot in commit_history.iter_since(ctx, known.end.id, latest))
    return {} if replaced else known.totals


def _search(ctx: TableContext, latest: Snapshot, wanted: set[bytes]) -> dict[bytes, int]:
    """The number of buckets that the newest file of each partition was added under."""
    fields = ctx.schema.partition_fields
    missing, found = set(wanted), dict[bytes, int]()
    for file in reversed(manifest_reader.manifest_files(ctx, latest)):
        if not missing:
            break
        if not file.num_added_files or not partition_ranges.may_hold(file, partition_ranges.values_of(missing, fields), fields):
            continue
        entries = manifest_reader.read_entries(ctx, [file])
        mask = (entries.numbers("kind") == ADD) & (entries.numbers("total_buckets") > 0)
        some = entries.filter(mask & mask_partitions(entries.column("partition"), missing))
        found |= dict(zip(some.column("partition").to_pylist(), some.column("total_buckets").to_pylist(), strict=True))
        missing -= found.keys()
    return found
