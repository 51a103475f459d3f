"""Index files of a snapshot and what a commit makes of them.

    bucketed     one hash index and one file of deletion vectors a bucket: a new one replaces the old one, which it must have started from
    unaware      deletion vectors by file name: a commit says which index files go and which come
    others       by file name

Two writers that both choose buckets for new keys of a partition would put one key in two buckets, and two that both mark rows of a bucket would each
undo the other's marks: the reference lets the last one win, here the second one gets a `Conflict`.
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


def combine(live: Sequence[IndexManifestEntry], changes: Sequence[IndexManifestEntry], *, by_bucket: bool) -> list[IndexManifestEntry]:
    """The index files after some changes (ADD and DELETE), those that stay in their order. `by_bucket`: deletion vectors belong to buckets.

    Raises `Conflict` where a file that goes is not there, a file that comes is there already, or deletion vectors replace others than they started from.
    """
    found = {_key(entry, by_bucket): entry for entry in live}
    gone = [entry for entry in changes if entry.kind == DELETE]
    come = [entry for entry in changes if entry.kind != DELETE]
    started = {_key(entry, by_bucket): entry.file_name for entry in gone}
    for entry in gone:
        key = _key(entry, by_bucket)
        there = found.pop(key, None)
        if there is None or there.file_name != entry.file_name:
            raise _make_stale_conflict(entry, entry.file_name, None if there is None else there.file_name)
    for entry in come:
        key = _key(entry, by_bucket)
        there = found.get(key)
        if there is not None and entry.index_type != HASH:
            raise _make_stale_conflict(entry, started.get(key), there.file_name)
        found[key] = entry
    return list(found.values())


def _key(entry: IndexManifestEntry, by_bucket: bool) -> Key:
    if entry.index_type == HASH or (entry.index_type == DELETION_VECTORS and by_bucket):
        return entry.partition, entry.bucket, entry.index_type, ""
    return b"", 0, entry.index_type, entry.file_name


def _make_stale_conflict(entry: IndexManifestEntry, started: str | None, there: str | None) -> Conflict:
    began = "no index file" if started is None else started
    now = "none is there" if there is None else f"{there} is there"
    what = "Deletion vectors" if entry.index_type == DELETION_VECTORS else f"The {entry.index_type} index"
    return Conflict(
        f"{what} of bucket {entry.bucket} changed while this commit was made: it started from {began}, now {now}. Nothing was committed. "
        "Another writer or compaction works on the same bucket; give compaction to one job (write-only=true for the others) and write again",
        files=tuple(name for name in (entry.file_name, started, there) if name is not None),
    )


def check_hash_bases(live: Iterable[IndexManifestEntry], bases: Sequence[KnownHashes]) -> None:
    """Raises `Conflict` where the hash indexes of a partition are not those that its writer chose buckets by."""
    wanted = {base.partition for base in bases}
    now: dict[bytes, set[str]] = {partition: set() for partition in wanted}
    for entry in live:
        if entry.index_type == HASH and entry.partition in wanted:
            now[entry.partition].add(entry.file_name)
    for base in bases:
        changed = now[base.partition] ^ base.names
        if changed:
            raise Conflict(
                "Another writer changed the hash index of a partition since this one loaded it: a key could come to lie in two buckets. Nothing was "
                "committed. Open a new writer and write the rows again; one job at a time may write new keys to a partition of dynamic buckets",
                files=tuple(sorted(changed)),
            )
