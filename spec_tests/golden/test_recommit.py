"""What the reference committed, committed again: the same messages on the same states give the same snapshots, manifests and index files."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest

from lakekit.codec import avro_container
from lakekit.commit.committer import commit_changes
from lakekit.commit.overwrite import Overwrite
from lakekit.metadata import manifest_reader, snapshots
from lakekit.metadata.table_context import open_context
from lakekit.model.commit_message import CommitMessage
from lakekit.model.index_manifest import IndexFileMeta
from lakekit.model.manifest_entries import ADD, DELETE
from lakekit.storage.memory import MemoryStorage
from lakekit.testing.fixtures import fixtures
from spec_tests.longer import some

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.model.snapshot import Snapshot

TABLES = fixtures() / "tables"
OTHERS = ("old_", "hand_")
"""Written by older engines, or by hand."""
SAID_AGAIN = (
    *("version", "id", "schemaId", "commitUser", "commitIdentifier", "commitKind", "totalRecordCount", "deltaRecordCount"),
    *("changelogRecordCount", "watermark", "properties", "nextRowId"),
)
GIVEN = ("baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "baseManifestListSize", "deltaManifestListSize")


def whole_histories() -> list[str]:
    found = []
    for table in sorted(TABLES.iterdir()):
        if table.is_dir() and not table.name.startswith(OTHERS) and (table / "snapshot" / "snapshot-1").exists() and table.name != "append_row_tracking":
            numbers = sorted(int(one.name.removeprefix("snapshot-")) for one in (table / "snapshot").glob("snapshot-*"))
            kinds = {json.loads((table / "snapshot" / f"snapshot-{number}").read_bytes())["commitKind"] for number in numbers}
            if numbers == list(range(1, len(numbers) + 1)) and "ANALYZE" not in kinds:
                found.append(table.name)
    return found


CASES = whole_histories()


@pytest.mark.long
@pytest.mark.parametrize("case", some(CASES, 6))
def test_the_same_messages_give_the_same_snapshots(case: str):
    golden = open_context(TABLES / case)
    storage = MemoryStorage()
    before: Snapshot | None = None
    for pair in commits(snapshots.read_all(golden)):
        if is_manifest_compaction(golden, pair[0]):
            break
        for number in range(pair[0].schema_id + 1):
            storage.files[f"/t/schema/schema-{number}"] = ((TABLES / case / "schema" / f"schema-{number}").read_bytes(), number)
        handle = replace(open_context("/t", storage=storage, name="t"), storage=storage)
        messages, overwrite = messages_of(golden, pair, before)
        made = commit_changes(
            handle,
            messages,
            commit_user=pair[0].commit_user,
            identifier=pair[0].commit_identifier,
            watermark=pair[0].watermark,
            properties=pair[0].properties,
            overwrite=overwrite,
            is_new_user=True,  # some cases commit everything by one user and the batch identifier
            ignore_empty=False if pair[0].commit_kind != "COMPACT" else None,
        )
        assert made.snapshot_ids == tuple(one.id for one in pair)
        for wanted in pair:
            assert_same(golden, handle, wanted)
        before = pair[-1]


def commits(history: list[Snapshot]) -> list[list[Snapshot]]:
    """One or two snapshots a commit: a compaction follows the rows it was committed with."""
    found: list[list[Snapshot]] = []
    for one in history:
        last = found[-1][-1] if found else None
        follows = last is not None and one.commit_kind == "COMPACT" != last.commit_kind and len(found[-1]) == 1
        if follows and last is not None and (one.commit_user, one.commit_identifier) == (last.commit_user, last.commit_identifier):
            found[-1].append(one)
        else:
            found.append([one])
    return found


def is_manifest_compaction(golden: TableContext, snapshot: Snapshot) -> bool:
    """Whether a procedure merged manifests: no writer sent it."""
    return snapshot.commit_kind == "COMPACT" and not manifest_reader.manifest_files(golden, snapshot, "delta") and snapshot.changelog_manifest_list is None


def messages_of(golden: TableContext, pair: list[Snapshot], before: Snapshot | None) -> tuple[list[CommitMessage], Overwrite | None]:
    found: list[CommitMessage] = []
    overwrite = None
    for snapshot in pair:
        parts: dict[tuple[bytes, int], dict[str, Any]] = {}
        entries = manifest_reader.read_entries(golden, manifest_reader.manifest_files(golden, snapshot, "delta"))
        changelog = manifest_reader.read_entries(golden, manifest_reader.manifest_files(golden, snapshot, "changelog"))
        if snapshot.commit_kind == "OVERWRITE":
            overwrite = overwrite_of(golden, snapshot, before)
        is_compact = snapshot.commit_kind == "COMPACT"
        names = {ADD: "compact_after" if is_compact else "new_files", DELETE: "compact_before" if is_compact else "deleted_files"}
        for part, chosen in ((entries, names), (changelog, {ADD: "compact_changelog" if is_compact else "changelog_files"})):
            rows = zip(*(part.column(name).to_pylist() for name in ("kind", "partition", "bucket", "total_buckets")), part.files(), strict=True)
            for kind, partition, bucket, total, file in rows:
                if overwrite is not None and kind == DELETE and not is_compact:
                    continue
                if overwrite is not None and file.level and not is_compact:
                    file = replace(file, level=0)  # noqa: PLW2901 - it was raised by the commit
                place = parts.setdefault((partition, bucket), {"total_buckets": total})
                place.setdefault(chosen[kind], []).append(file)
        prefix = "compact_" if is_compact else ""
        for entry, word in index_changes(golden, snapshot, before):
            if overwrite is not None and word == "deleted" and not is_compact:
                continue
            part = parts.setdefault((entry.partition, entry.bucket), {})
            part.setdefault(f"{prefix}{word}_index_files", []).append(IndexFileMeta(**{one.name: getattr(entry, one.name) for one in fields(IndexFileMeta)}))
        found += [
            CommitMessage(partition=partition, bucket=bucket, **{name: tuple(value) if isinstance(value, list) else value for name, value in part.items()})
            for (partition, bucket), part in parts.items()
        ]
        before = snapshot
    return found, overwrite


def index_changes(golden: TableContext, snapshot: Snapshot, before: Snapshot | None) -> list[tuple[IndexManifestEntry, str]]:
    now = manifest_reader.index_entries(golden, snapshot)
    was = [] if before is None else manifest_reader.index_entries(golden, before)
    return [(entry, "deleted") for entry in was if entry not in now] + [(entry, "new") for entry in now if entry not in was]


def overwrite_of(golden: TableContext, snapshot: Snapshot, before: Snapshot | None) -> Overwrite | None:
    """Which overwrite deletes just that: of everything, or of the partitions that were written; None: rows were deleted one by one."""
    entries = manifest_reader.read_entries(golden, manifest_reader.manifest_files(golden, snapshot, "delta"))
    gone = entries.filter(entries.integers("kind") == DELETE)
    live = manifest_reader.empty_entries() if before is None else manifest_reader.read_live_entries(golden, before)
    if golden.options.bucket != -2:  # then rows that wait for a bucket stay
        live = live.filter(live.integers("bucket") != -2)
    if sorted(names(gone)) == sorted(names(live)):
        return Overwrite.entire_table()
    written = set(entries.filter(entries.integers("kind") == ADD).column("partition").to_pylist())
    in_those = [name for name, partition in zip(names(live), live.column("partition").to_pylist(), strict=True) if partition in written]
    if written and sorted(names(gone)) == sorted(in_those):
        return Overwrite.dynamic()
    return None


def names(entries: Any) -> list[str]:
    found: list[str] = entries.column("file_name").to_pylist()
    return found


def assert_same(golden: TableContext, handle: TableContext, wanted: Snapshot) -> None:
    ours = snapshots.read_snapshot(handle, wanted.id)
    said = json.loads(handle.storage.read(handle.paths.snapshot(wanted.id)))
    reference = json.loads(golden.storage.read(golden.paths.snapshot(wanted.id)))
    assert {name: said.get(name) for name in SAID_AGAIN} == {name: reference.get(name) for name in SAID_AGAIN}
    assert [name for name in GIVEN if name in said] == [name for name in GIVEN if reference.get(name) is not None]
    for which in ("delta", "changelog"):
        theirs, own = manifest_reader.manifest_files(golden, wanted, which), manifest_reader.manifest_files(handle, ours, which)
        rows, wanted_rows = rows_of(handle, own), rows_of(golden, theirs)
        assert rows == wanted_rows, which
        if len(theirs) == 1:
            left_out = {"name": "", "size_bytes": 0}
            assert replace(own[0], **left_out) == replace(theirs[0], **left_out)
            assert header(handle, own[0].name) == header(golden, theirs[0].name)
    bases = [
        [(file.num_added_files, file.num_deleted_files) for file in manifest_reader.manifest_files(*one, "base")] for one in ((handle, ours), (golden, wanted))
    ]
    assert bases[0] == bases[1], "manifests merged otherwise"
    assert header(handle, ours.delta_manifest_list) == header(golden, wanted.delta_manifest_list)
    assert sorted_rows(manifest_reader.read_live_entries(handle, ours)) == sorted_rows(manifest_reader.read_live_entries(golden, wanted))
    key = repr
    assert sorted(manifest_reader.index_entries(handle, ours), key=key) == sorted(manifest_reader.index_entries(golden, wanted), key=key)
    if ours.index_manifest is not None and wanted.index_manifest is not None:
        assert header(handle, ours.index_manifest) == header(golden, wanted.index_manifest)


def rows_of(handle: TableContext, files: list[Any]) -> list[str]:
    return sorted_rows(manifest_reader.read_entries(handle, files))


def sorted_rows(entries: Any) -> list[str]:
    return sorted(map(repr, entries.table.to_pylist()))


def header(handle: TableContext, name: str) -> bytes | None:
    """The schema text of an Avro file."""
    data = handle.storage.read(handle.paths.manifest(name))
    return avro_container.open_container(data).metadata["avro.schema"] if avro_container.is_avro(data) else data[:4]
