"""Checks whether a commit fits the table as it is now. Start from `check_conflicts`.

    base     the live files of the partitions that the commit touches, in the newest snapshot
    delta    what the commit adds and deletes

    1  a partition's files have one number of buckets                     (not for overwrites)
    2  delta alone does not contradict itself
    3  no file is added twice, and only live files are deleted   (3a: not live because its partition has expired)
    4  append tables: a file is marked or compacted only with the deletion vector that the writer saw
    5  key tables: above level 0, files of one level of a bucket share no keys
    (6  row ids of data evolution: such tables are refused before)

These work on columns, without any I/O. `check_partition_bucket_counts` makes check 1 for appends without reading all
manifests; `check_known_keys` guards cross-partition upserts.

Source: ENGINE.md 5.2, 5.5 and 7.5, RELIABILITY.md section 1 (several writers); `ConflictDetection`,
`FileEntry.mergeEntries`, `FileStoreCommitImpl`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.bucket import restore
from lakekit.codec.binary_row import decode_columns
from lakekit.commit import commit_history, manifest_writer
from lakekit.errors import Conflict, Corrupt
from lakekit.lsm.sorted_runs import build_sections
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model import manifest_entries as columns_of
from lakekit.model.index_manifest import DELETE as INDEX_DELETE, DELETION_VECTORS
from lakekit.model.manifest_entries import ADD, DELETE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.commit.changes import Delta
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.model.snapshot import Snapshot
    from lakekit.types import DataType


_MAX_SHOWN_NAMES = 10
_CONFLICT_ADVICE = (
    "Nothing was committed. Two jobs rewrite the same files, most often two compactions: give compaction to one job "
    "(write-only=true for the others), then write again"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictUsers:
    """The two users of a conflict and a test for expired partitions; used in messages only."""

    table: str
    user: str
    base_user: str
    snapshot_id: int | None
    is_expired: Callable[[bytes], bool] = lambda _: False


CHECKED_COLUMNS = (
    "kind",
    "total_buckets",
    "min_key",
    "max_key",
    "file_name",
    "partition",
    "bucket",
    "level",
    "extra_files",
    "embedded_index",
    "external_path",
)
"""What the checks look at: the identity of files, their key ranges and places."""


def check_conflicts(
    base: ManifestEntries,
    delta: ManifestEntries,
    users: ConflictUsers,
    *,
    key_types: Sequence[DataType],
    overwrites: bool,
) -> None:
    """Raise `Conflict` if `delta` does not fit on `base` (checks 1, 2, 3, 5).

    `key_types` is empty for append tables.
    """
    # a filter copies every column it is given
    base, delta = base.select(CHECKED_COLUMNS), delta.select(CHECKED_COLUMNS)
    if not overwrites:
        check_bucket_counts(base, delta, users)
    codes = columns_of.identity_codes(delta)
    if _has_repeats(delta, codes):
        raise _make_conflict("File deletion conflicts: the commit adds or deletes a file twice", delta, users)
    try:
        merged_delta = columns_of.merge_entries([delta], codes)
    except Corrupt:
        raise _make_conflict("File deletion conflicts: the commit adds a file that it deletes", delta, users) from None
    try:
        after = columns_of.merge_entries([base, merged_delta])
    except Corrupt:
        raise _make_conflict(
            "File deletion conflicts: the commit adds files that are there already",
            _select_shared(delta, base),
            users,
        ) from None
    missing = after.filter(after.integers("kind") == DELETE)
    if len(missing):
        _check_expired(missing, users)
        raise _make_conflict(
            "File deletion conflicts: the commit deletes files that are no longer live", missing, users
        )
    if key_types:
        check_key_ranges(after, delta, users, key_types)


def _check_expired(missing: ManifestEntries, users: ConflictUsers) -> None:
    """Check 3a: raise `Conflict` if all partitions of the missing files expire."""
    if all(
        users.is_expired(partition) for partition in missing.column("partition").unique().to_pylist()
    ):  # scalar: one a partition
        raise Conflict(
            f"You are writing data to expired partitions of {users.table}: the files that this commit replaces went "
            "with them. Nothing was committed. Leave out rows that are older than partition.expiration-time; rows "
            "like them would stop the job again",
            snapshot_id=users.snapshot_id,
            files=tuple(missing.column("file_name").to_pylist()),
        )


def _has_repeats(delta: ManifestEntries, codes: NDArray[np.int64]) -> bool:
    """Return whether a file (equal `codes`) is added, or deleted, twice in a row."""
    kinds = delta.integers("kind")
    order = np.argsort(codes, kind="stable")
    return bool(((codes[order][1:] == codes[order][:-1]) & (kinds[order][1:] == kinds[order][:-1])).any())


def check_bucket_counts(base: ManifestEntries, delta: ManifestEntries, users: ConflictUsers) -> None:
    """Check 1. Numbers below 1 (dynamic, unaware, postponed) are ignored."""
    both = columns_of.concat_entries([base, delta.filter(delta.integers("kind") == ADD)]).select(
        ("partition", "total_buckets", "file_name")
    )
    counted = both.filter(both.integers("total_buckets") > 0)
    if not len(counted):
        return
    totals = counted.integers("total_buckets")
    groups = counted.column("partition").dictionary_encode().indices.to_numpy()
    order = np.lexsort((np.arange(len(groups)), groups))
    differs = (groups[order][1:] == groups[order][:-1]) & (totals[order][1:] != totals[order][:-1])
    if differs.any():
        position = int(np.flatnonzero(differs)[0])
        before, after = totals[order[position]], totals[order[position + 1]]
        raise make_buckets_conflict(int(before), int(after), users)


def make_buckets_conflict(old_buckets: int, new_buckets: int, users: ConflictUsers) -> Conflict:
    """Return the error of check 1."""
    return Conflict(
        f"Total buckets of a partition of {users.table} changed from {old_buckets} to {new_buckets} without "
        "overwrite. Nothing "
        f"was committed. The writer of {users.user} opened the table under another bucket number; open it again, "
        "and rescale partitions by an overwrite",
        snapshot_id=users.snapshot_id,
    )


def check_key_ranges(
    entries_after: ManifestEntries, delta: ManifestEntries, users: ConflictUsers, key_types: Sequence[DataType]
) -> None:
    """Check 5 for the buckets and levels that `delta` adds files to.

    `entries_after` are the files that would be live.
    """
    added = delta.filter((delta.integers("kind") == ADD) & (delta.integers("level") > 0))
    if not len(added):
        return
    leveled = entries_after.filter(entries_after.integers("level") > 0)
    combined = columns_of.concat_entries([leveled.select(_RUN_COLUMNS), added.select(_RUN_COLUMNS)])
    group = _run_numbers(combined)
    touched = np.isin(group[: len(leveled)], group[len(leveled) :])
    candidates, groups = leveled.filter(touched), group[: len(leveled)][touched]
    low, high = (decode_columns(candidates.column(name), key_types) for name in ("min_key", "max_key"))
    has_bounds = ~np.logical_or.reduce([column.is_null().to_numpy(zero_copy_only=False) for column in (*low, *high)])
    rows = np.flatnonzero(has_bounds)
    if not len(rows):
        return
    zeros = np.zeros(len(rows), np.int64)
    key_sections = build_sections(
        [column.take(rows) for column in low],
        [column.take(rows) for column in high],
        levels=zeros,
        min_sequence=zeros,
        max_sequence=zeros,
        buckets=groups[rows],
    )
    overlapping = np.concatenate([np.zeros(0, np.int64), *(files for files in key_sections if len(files) > 1)])
    if len(overlapping):
        raise _make_conflict(
            "LSM conflicts: files of one level would share keys", candidates.take(rows[overlapping]), users
        )


_RUN_COLUMNS = ("partition", "bucket", "level")


def _run_numbers(entries: ManifestEntries) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a number for each entry, equal where partition, bucket and level are equal."""
    codes = entries.column("partition").dictionary_encode().indices.to_numpy().astype(np.int64)
    for name in ("bucket", "level"):
        values = entries.integers(name).astype(np.int64)
        codes = codes * (int(values.max()) - int(values.min()) + 1) + values - int(values.min())
    return np.unique(codes, return_inverse=True)[1].reshape(-1)


# ---- deletion vectors of append tables -------------------------------------------------------------------------------


def check_deletion_vectors(
    base: ManifestEntries,
    delta: ManifestEntries,
    live_entries: Iterable[IndexManifestEntry],
    changes: Sequence[IndexManifestEntry],
    users: ConflictUsers,
) -> None:
    """Check 4: deletion vectors. `live_entries` are the index files of the newest snapshot.

    `changes` are those that the commit adds and deletes.
    """
    live_vectors = {
        (entry.partition, range_.file_name): entry.file_name
        for entry in live_entries
        if entry.index_type == DELETION_VECTORS
        for range_ in entry.ranges
    }
    replaced_vectors: dict[tuple[bytes, str], str] = {}
    marked: set[tuple[bytes, str]] = set()
    for entry in changes:
        for range_ in entry.ranges if entry.index_type == DELETION_VECTORS else ():
            if entry.kind == INDEX_DELETE:
                replaced_vectors[entry.partition, range_.file_name] = entry.file_name
            else:
                marked.add((entry.partition, range_.file_name))
    live_names = _file_identities(base)
    # files that only move to another level keep their vectors
    added = _file_identities(delta.filter(delta.integers("kind") == ADD))
    unknown = marked - live_names - added
    if unknown:
        raise Conflict(
            f"Trying to create deletion vectors on files of {users.table} which are not live: "
            f"{_format_names(name for _, name in unknown)}. {_CONFLICT_ADVICE}",
            snapshot_id=users.snapshot_id,
            files=tuple(sorted(name for _, name in unknown)),
        )
    touched = marked | (_file_identities(delta.filter(delta.integers("kind") == DELETE)) - added)
    stale = [key for key in touched if live_vectors.get(key) != replaced_vectors.get(key)]
    if stale:
        raise Conflict(
            f"File deletion conflicts: rows of {_format_names(name for _, name in stale)} were deleted by another "
            f"commit (of {users.base_user}) meanwhile. {_CONFLICT_ADVICE}",
            snapshot_id=users.snapshot_id,
            files=tuple(sorted(name for _, name in stale)),
        )


def _file_identities(entries: ManifestEntries) -> set[tuple[bytes, str]]:
    return set(zip(entries.column("partition").to_pylist(), entries.column("file_name").to_pylist(), strict=True))


# ---- messages --------------------------------------------------------------------------------------------------------


def _select_shared(delta: ManifestEntries, base: ManifestEntries) -> ManifestEntries:
    """Return the entries of delta whose file names are in base too."""
    return delta.filter(
        np.isin(
            delta.column("file_name").to_numpy(zero_copy_only=False),
            base.column("file_name").to_numpy(zero_copy_only=False),
        )
    )


def _make_conflict(reason: str, entries: ManifestEntries, users: ConflictUsers) -> Conflict:
    names = entries.column("file_name").to_pylist()
    parties_text = (
        ""
        if users.snapshot_id is None
        else f" Snapshot {users.snapshot_id} is of {users.base_user}, this commit of {users.user}."
    )
    return Conflict(
        f"{reason} in {users.table}: {_format_names(names)}.{parties_text} {_CONFLICT_ADVICE}",
        snapshot_id=users.snapshot_id,
        files=tuple(names),
    )


def _format_names(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - _MAX_SHOWN_NAMES} more" if len(ordered) > _MAX_SHOWN_NAMES else ""
    return ", ".join(ordered[:_MAX_SHOWN_NAMES]) + more


# ---- bucket counts ------------------------------------------------------------


_ROW_BYTES = 200


class _CachedBucketCounts(NamedTuple):
    """The bucket counts of some partitions as of snapshot `last_snapshot`."""

    last_snapshot: Snapshot
    total_buckets: Mapping[bytes, int]


def check_partition_bucket_counts(ctx: TableContext, latest: Snapshot, delta: Delta, users: ConflictUsers) -> None:
    """Raise `Conflict` if added files have another number of buckets than their partition.

    All files of one partition agree on its count. An append need not know which files are live, only that its rows were
    bucketed by the number that their partition has. That number is in the newest manifest with files of the partition,
    and holds until an overwrite.
    """
    written_totals: dict[bytes, int] = {}
    for kind, partition, _, total, _ in delta.message_rows:
        if kind == ADD and total > 0 and written_totals.setdefault(partition, total) != total:
            raise make_buckets_conflict(written_totals[partition], total, users)
    if not written_totals:
        return
    cached = _valid_cached_counts(ctx, latest)
    uncached = {partition for partition in written_totals if partition not in cached}
    totals = {**cached, **_search_bucket_counts(ctx, latest, uncached)} if uncached else cached
    differing = {partition for partition, total in written_totals.items() if totals.get(partition, total) != total}
    if differing:  # nothing may be left alive of what had that number
        check_bucket_counts(
            manifest_reader.read_live_entries(
                ctx, latest, keep_partitions=lambda column: mask_partitions(column, differing)
            ),
            delta.entries,
            users,
        )
        totals = {partition: total for partition, total in totals.items() if partition not in differing}
    key = _cache_key(ctx)
    ctx.runtime.metadata_cache.put({key: _CachedBucketCounts(latest, totals)}, _ROW_BYTES * (len(totals) + 1))


def advance_cached_counts(ctx: TableContext, previous_snapshot: Snapshot, snapshot: Snapshot, delta: Delta) -> None:
    """Carry cached bucket counts and sequence numbers on to `snapshot`, the next one after `previous_snapshot`."""
    if delta.stored_entries is None:
        restore.advance_cached_sequences(ctx, previous_snapshot, snapshot, delta.message_rows)
    cached: _CachedBucketCounts | None = ctx.runtime.metadata_cache.get(_cache_key(ctx))
    if cached is not None and cached.last_snapshot == previous_snapshot and snapshot.commit_kind != "OVERWRITE":
        added = {row[1]: row[3] for row in delta.message_rows if row[0] == ADD and row[3] > 0}
        totals = (
            cached.total_buckets if added.keys() <= cached.total_buckets.keys() else {**cached.total_buckets, **added}
        )
        ctx.runtime.metadata_cache.put(
            {_cache_key(ctx): _CachedBucketCounts(snapshot, totals)}, _ROW_BYTES * (len(totals) + 1)
        )


def _cache_key(ctx: TableContext) -> tuple[object, ...]:
    return "bucket counts", ctx.storage, ctx.paths.snapshot_dir


def mask_partitions(column: pa.BinaryArray, partitions: Iterable[bytes]) -> NDArray[np.bool_]:
    """Return a mask of the serialized partitions in `column` that are among `partitions`."""
    return np.asarray(pc.is_in(column, pa.array(list(partitions), column.type)).to_numpy(zero_copy_only=False), bool)


def _valid_cached_counts(ctx: TableContext, latest: Snapshot) -> Mapping[bytes, int]:
    """Return the cached bucket counts that still hold at `latest`."""
    cached: _CachedBucketCounts | None = ctx.runtime.metadata_cache.get(_cache_key(ctx))
    if cached is None or cached.last_snapshot.id > latest.id:
        return {}
    if cached.last_snapshot.id == latest.id:
        return cached.total_buckets if cached.last_snapshot == latest else {}
    if snapshots.find(ctx, cached.last_snapshot.id) != cached.last_snapshot:
        return {}
    replaced = any(
        snapshot is None or snapshot.commit_kind == "OVERWRITE"
        for _, snapshot in commit_history.iter_since(ctx, cached.last_snapshot.id, latest)
    )
    return {} if replaced else cached.total_buckets


def _search_bucket_counts(ctx: TableContext, latest: Snapshot, partitions: set[bytes]) -> dict[bytes, int]:
    """Return the bucket count under which the newest file of each partition was added."""
    fields = ctx.schema.partition_fields
    missing, totals = set(partitions), dict[bytes, int]()
    for file in reversed(manifest_reader.manifest_files(ctx, latest)):
        if not missing:
            break
        if not file.num_added_files or not manifest_writer.may_contain_partition(
            file, manifest_writer.partition_values_of(missing, fields), fields
        ):
            continue
        entries = manifest_reader.read_entries(ctx, [file])
        mask = (entries.integers("kind") == ADD) & (entries.integers("total_buckets") > 0)
        matching = entries.filter(mask & mask_partitions(entries.column("partition"), missing))
        totals |= dict(
            zip(matching.column("partition").to_pylist(), matching.column("total_buckets").to_pylist(), strict=True)
        )
        missing -= totals.keys()
    return totals


# ---- known keys ------------------------------------------------------------


def check_known_keys(ctx: TableContext, user: str, known_snapshot_id: int | None, latest: Snapshot) -> None:
    """Raise `Conflict` if another user wrote after the snapshot up to which the writer knows all keys.

        writer knows all keys up to snapshot 7
        snapshot 8 APPEND of another user: may have put the same key into another partition  ->  Conflict
        snapshot 8 COMPACT: keys stay in their partitions

    So too if a snapshot is missing, since it may be of another user. `known_snapshot_id` 0: before the first snapshot;
    None: nothing to check. Unlike dynamic buckets there is no index to compare: the writer's map comes from the rows.
    The reference leaves it to users not to start two writers.
    """
    if known_snapshot_id is None:
        return
    own = commit_history.latest_of_user(ctx, user, latest)
    for snapshot_id, other in commit_history.iter_since(
        ctx, max(known_snapshot_id, 0 if own is None else own.id), latest
    ):
        if other is None or (other.commit_user != user and other.commit_kind in {"APPEND", "OVERWRITE"}):
            origin = "is gone" if other is None else f"is of {other.commit_user}"
            raise Conflict(
                f"Another writer wrote to {ctx.name} since this one read which partition each key lies in (at "
                f"snapshot {known_snapshot_id}; {snapshot_id} {origin}): a key could come to lie in two partitions. "
                "Nothing was committed. Open a new writer and write the rows again; one job at a time writes such "
                "tables",
                snapshot_id=snapshot_id,
            )
