"""Combine the index files of a snapshot with those that a commit adds and deletes.

    bucketed     one hash index and one file of deletion vectors a bucket: a new one replaces the one it started from
    unaware      deletion vectors by file name: a commit lists which index files to delete and which to add
    others       by file name

Two writers that both choose buckets for new keys of a partition would put one key in two buckets, and two that both
mark rows of a bucket would each undo the other's marks: the reference lets the last one win, here the second one gets a
`Conflict`.
Source: ENGINE.md 7.3, 7.4, FORMAT.md 4.4; `IndexManifestFileHandler`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.errors import Conflict
from lakekit.model.index_file import DELETE, DELETION_VECTORS, HASH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakekit.commit.changes import KnownHashes
    from lakekit.model.index_file import IndexManifestEntry

    Key = tuple[bytes, int, str, str]


def combine(
    live: Sequence[IndexManifestEntry], changes: Sequence[IndexManifestEntry], *, by_bucket: bool
) -> list[IndexManifestEntry]:
    """Return the index files after the changes (ADD and DELETE), in order.

    `by_bucket`: deletion vectors belong to buckets.

    Raises:
        Conflict: a deleted file is missing, an added file exists already, or deletion vectors replace others than they
            started from.
    """
    combined = {_key(entry, by_bucket): entry for entry in live}
    removed = [entry for entry in changes if entry.kind == DELETE]
    added = [entry for entry in changes if entry.kind != DELETE]
    started_from = {_key(entry, by_bucket): entry.file_name for entry in removed}
    for entry in removed:
        key = _key(entry, by_bucket)
        existing = combined.pop(key, None)
        if existing is None or existing.file_name != entry.file_name:
            raise _make_stale_conflict(entry, entry.file_name, None if existing is None else existing.file_name)
    for entry in added:
        key = _key(entry, by_bucket)
        existing = combined.get(key)
        if existing is not None and entry.index_type != HASH:
            raise _make_stale_conflict(entry, started_from.get(key), existing.file_name)
        combined[key] = entry
    return list(combined.values())


def _key(entry: IndexManifestEntry, by_bucket: bool) -> Key:
    if entry.index_type == HASH or (entry.index_type == DELETION_VECTORS and by_bucket):
        return entry.partition, entry.bucket, entry.index_type, ""
    return b"", 0, entry.index_type, entry.file_name


def _make_stale_conflict(entry: IndexManifestEntry, started: str | None, existing: str | None) -> Conflict:
    start_text = "no index file" if started is None else started
    found_text = "none is there" if existing is None else f"{existing} is there"
    subject = "Deletion vectors" if entry.index_type == DELETION_VECTORS else f"The {entry.index_type} index"
    return Conflict(
        f"{subject} of bucket {entry.bucket} changed while this commit was made: it started from {start_text}, now "
        f"{found_text}. Nothing was committed. Another writer or compaction works on the same bucket; give compaction "
        "to one job (write-only=true for the others) and write again",
        files=tuple(name for name in (entry.file_name, started, existing) if name is not None),
    )


def check_hash_bases(live: Iterable[IndexManifestEntry], bases: Sequence[KnownHashes]) -> None:
    """Raise `Conflict` if the hash indexes of a partition are not those by which its writer chose buckets."""
    partitions = {base.partition for base in bases}
    live_names: dict[bytes, set[str]] = {partition: set() for partition in partitions}
    for entry in live:
        if entry.index_type == HASH and entry.partition in partitions:
            live_names[entry.partition].add(entry.file_name)
    for base in bases:
        changed = live_names[base.partition] ^ base.names
        if changed:
            raise Conflict(
                "Another writer changed the hash index of a partition since this one loaded it: a key could come to "
                "lie in two buckets. Nothing was committed. Open a new writer and write the rows again; one job at a "
                "time may write new keys to a partition of dynamic buckets",
                files=tuple(sorted(changed)),
            )
