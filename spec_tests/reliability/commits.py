"""Tables that hold nothing but metadata: messages of files that nobody wrote, for what commits do with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakekit.codec import binary_row
from lakekit.commit.committer import commit_changes
from lakekit.metadata import manifest_reader, schemas, snapshots
from lakekit.metadata.table_context import TableContext, open_context
from lakekit.model.commit_message import CommitMessage
from lakekit.model.data_file import DataFileMeta
from lakekit.model.manifest_entries import ADD
from lakekit.runtime import LRUCache, Runtime
from lakekit.types import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakekit.commit.changes import Commit
    from lakekit.model.snapshot import Snapshot
    from lakekit.storage.memory import MemoryStorage
    from lakekit.storage.protocol import Storage

ROOT = "/t"
INT, TEXT = parse("INT"), parse("STRING")


def schema(*, keys: bool = True, partitioned: bool = True, options: Mapping[str, str] | None = None) -> bytes:
    """A table (p STRING, k INT, v INT)."""
    fields = [{"id": 0, "name": "p", "type": "STRING NOT NULL"}, {"id": 1, "name": "k", "type": "INT NOT NULL"}, {"id": 2, "name": "v", "type": "INT"}]
    return json.dumps(
        {
            "version": 3,
            "id": 0,
            "fields": fields,
            "highestFieldId": 2,
            "partitionKeys": ["p"] if partitioned else [],
            "primaryKeys": (["p", "k"] if partitioned else ["k"]) if keys else [],
            "options": {"bucket": "2", **(options or {})},
            "timeMillis": 0,
        }
    ).encode()


def opened(storage: Storage, runtime: Runtime | None = None) -> TableContext:
    """The table as a process that has just begun sees it: nothing is remembered, and nobody waits."""
    fresh = Runtime(wait_ms=lambda _: None, metadata_cache=LRUCache(64 << 20)) if runtime is None else runtime
    return open_context(ROOT, storage=storage, name="t", runtime=fresh)


def part(p: str) -> bytes:
    """A serialized partition."""
    return binary_row.with_arity(binary_row.encode_row((p,), (TEXT,)), 1)


def key(k: int) -> bytes:
    """A serialized key."""
    return binary_row.with_arity(binary_row.encode_row((k,), (INT,)), 1)


def file(name: str, low: int = 0, high: int = 9, level: int = 0, rows: int = 10) -> DataFileMeta:
    """A data file that nobody wrote."""
    return DataFileMeta(name=name, size_bytes=1000, row_count=rows, min_key=key(low), max_key=key(high), level=level, source=0, delete_row_count=0)


def message(p: str = "a", bucket: int = 0, total: int | None = 2, **lists: Any) -> CommitMessage:
    """What was done to one bucket: names in `new`, `deleted`, `before`, `after` and so on may be files or names."""
    words = {"new": "new_files", "deleted": "deleted_files", "before": "compact_before", "after": "compact_after", "changelog": "changelog_files"}
    parts = {words.get(word, word): tuple(file(one) if isinstance(one, str) else one for one in found) for word, found in lists.items() if word in words}
    others = {word: found for word, found in lists.items() if word not in words}
    return CommitMessage(partition=part(p), bucket=bucket, total_buckets=total, **parts, **others)


def commit(handle: TableContext, messages: Iterable[CommitMessage], identifier: int, user: str = "u", **how: Any) -> Commit:
    """`commit_changes` with fewer words."""
    return commit_changes(handle, list(messages), commit_user=user, identifier=identifier, **how)


def live(handle: TableContext) -> list[tuple[bytes, int, int, str]]:
    """The live files: partition, bucket, level, name."""
    latest = snapshots.latest(handle)
    if latest is None:
        return []
    found = manifest_reader.read_live_entries(handle, latest)
    return sorted(zip(*(found.column(name).to_pylist() for name in ("partition", "bucket", "level", "file_name")), strict=True))


_CHECKED: dict[bytes, frozenset[str]] = {}
"""Snapshots that were found right, and the paths of the files they are made of."""


def check_table(store: MemoryStorage) -> None:
    """What must hold after every fault: I3, I4 (of metadata), I5, I7, I15, and hints that nobody need believe."""
    handle = opened(store)
    found = snapshots.read_all(handle)
    assert [one.id for one in found] == list(range(1, len(found) + 1))
    assert schemas.list_ids(handle) == list(range(len(schemas.list_ids(handle))))
    total = 0
    for one in found:
        data = store.files[handle.paths.snapshot(one.id)][0]
        if data not in _CHECKED:
            _CHECKED[data] = _check_snapshot(handle, one, total)
        assert _CHECKED[data] <= store.files.keys()
        total = one.total_record_count or 0
    pairs = [(one.commit_user, one.commit_identifier, one.commit_kind) for one in found]
    assert len(set(pairs)) == len(pairs), "a commit was made twice"
    newest = snapshots.latest(handle)
    assert (None if newest is None else newest.id) == (len(found) or None)


def _check_snapshot(handle: TableContext, one: Snapshot, before: int) -> frozenset[str]:
    entries = manifest_reader.read_entries(handle, manifest_reader.manifest_files(handle, one, "delta"))
    rows, kinds = entries.integers("row_count"), entries.integers("kind")
    delta = int(rows[kinds == ADD].sum() - rows[kinds != ADD].sum())
    manifest_reader.index_entries(handle, one)
    changelog = manifest_reader.read_entries(handle, manifest_reader.manifest_files(handle, one, "changelog"))
    assert (one.changelog_record_count or 0) == int(changelog.integers("row_count").sum())
    assert (one.delta_record_count, one.total_record_count) == (delta, before + delta)
    assert int(manifest_reader.read_live_entries(handle, one).integers("row_count").sum()) == one.total_record_count
    return frozenset(map(handle.paths.manifest, referred(handle, one)))


def referred(handle: TableContext, one: Snapshot) -> set[str]:
    """The names of the metadata files of a snapshot."""
    lists = {one.base_manifest_list, one.delta_manifest_list, one.changelog_manifest_list, one.index_manifest} - {None}
    files = manifest_reader.manifest_files(handle, one) + manifest_reader.manifest_files(handle, one, "changelog")
    return {name for name in lists if name is not None} | {file.name for file in files}


def unreferenced(store: MemoryStorage) -> list[str]:
    """Files in `manifest/` that no snapshot refers to, and temporary files anywhere."""
    handle = opened(store)
    kept = {name for one in snapshots.read_all(handle) for name in referred(handle, one)}
    temporary = [path for path in store.files if path.endswith(".tmp")]
    return [one.name for one in store.list(handle.paths.manifest_dir) if one.name not in kept] + temporary
