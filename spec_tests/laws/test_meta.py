"""Metadata read with proof: whatever hints say, whatever vanishes meanwhile, and what is said when something is not there."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from lakekit.errors import BranchNotFound, ConsumerNotFound, Corrupt, InvalidOption, LakekitError, SnapshotNotFound, StorageFailed, TableNotFound, TagNotFound
from lakekit.metadata import metadata_io, refs, schemas, snapshots
from lakekit.metadata.table_context import TableContext, open_context, table_name_of
from lakekit.runtime import Runtime
from lakekit.storage.memory import MemoryStorage
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

ROOT = "/w/shop.db/orders"


def schema_bytes(schema_id: int = 0, **changes: Any) -> bytes:
    fields = [{"id": 0, "name": "k", "type": "INT NOT NULL"}, {"id": 1, "name": "v", "type": "STRING"}]
    said = {"version": 3, "id": schema_id, "fields": fields, "highestFieldId": 1, "partitionKeys": [], "primaryKeys": ["k"], "options": {}}
    return json.dumps(said | changes).encode()


def snapshot_bytes(snapshot_id: int, **changes: Any) -> bytes:
    said = {
        "version": 3,
        "id": snapshot_id,
        "schemaId": 0,
        "baseManifestList": "manifest-list-a-0",
        "deltaManifestList": "manifest-list-a-1",
        "commitUser": "u",
        "commitIdentifier": snapshot_id,
        "commitKind": "APPEND",
        "timeMillis": snapshot_id * 1000,
    }
    return json.dumps(said | changes).encode()


@dataclass
class Waiting:
    """A world in which waiting takes no time and may change something."""

    happens: Callable[[], None] = lambda: None
    waits: list[float] = field(default_factory=list)

    def runtime(self) -> Runtime:
        return Runtime(wait_ms=self._wait)

    def _wait(self, duration_ms: float) -> None:
        self.waits.append(duration_ms)
        self.happens()


def table(known: Iterable[int] = (), *, latest: bytes | None = None, earliest: bytes | None = None, **snapshot: Any) -> tuple[TableContext, MemoryStorage]:
    storage = MemoryStorage()
    storage.put(f"{ROOT}/schema/schema-0", schema_bytes())
    for number in known:
        storage.put(f"{ROOT}/snapshot/snapshot-{number}", snapshot_bytes(number, **snapshot))
    for name, hint in (("LATEST", latest), ("EARLIEST", earliest)):
        if hint is not None:
            storage.put(f"{ROOT}/snapshot/{name}", hint)
    return open_context(ROOT, storage=storage, runtime=Waiting().runtime()), storage


# ---- hints -------------------------------------------------------------------------------------------------------------------------------------

HINTS = [None, b"", b"abc", b"-1", b"0", b"1" * 20, b"6\n", b"\xef\xbb\xbf6", b"1", b"3", b"4", b"5", b"6", b"7", b"9", b"9223372036854775807"]


@pytest.mark.parametrize("known", [(), (1,), (4, 5, 6), (2, 5, 6), (1, 2, 3, 4, 5, 6)], ids=str)
def test_hints_are_advice(known: tuple[int, ...]) -> None:
    for latest, earliest in itertools.product(HINTS, HINTS):
        handle, _ = table(known, latest=latest, earliest=earliest)
        newest, oldest = snapshots.latest(handle), snapshots.read_earliest(handle)
        assert (snapshots.latest_id(handle), snapshots.earliest_id(handle)) == ((max(known), min(known)) if known else (None, None)), (latest, earliest)
        assert (None if newest is None else newest.id, None if oldest is None else oldest.id) == ((max(known), min(known)) if known else (None, None))


def test_an_unreadable_hint_is_no_hint(tmp_path: Path) -> None:
    for folder, name, data in (
        ("schema", "schema-0", schema_bytes()),
        ("snapshot", "snapshot-1", snapshot_bytes(1)),
        ("snapshot", "snapshot-2", snapshot_bytes(2)),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_bytes(data)
    (tmp_path / "snapshot" / "LATEST").mkdir()
    assert snapshots.latest_id(open_context(tmp_path)) == 2


def test_a_good_hint_saves_the_listing() -> None:
    handle, storage = table([1, 2, 3], latest=b"3")
    storage.trace.clear()
    assert snapshots.latest(handle) == snapshots.read_snapshot(handle, 3)
    assert storage.count("list") == 0


def test_names_of_others_are_not_snapshots() -> None:
    handle, storage = table([1])
    for name in ("snapshot-2.tmp", "snapshot-", "snapshot-02", "snapshot-٣", "snapshot-1f", ".snapshot-9.x.tmp", "snapshot--3", "snapshot-" + "9" * 25, "x"):
        storage.put(f"{ROOT}/snapshot/{name}", b"?")
    storage.put(f"{ROOT}/snapshot/snapshot-7/inside", b"?")
    assert snapshots.ids(handle) == [1]


# ---- files that change meanwhile -----------------------------------------------------------------------------------------------------------------


def test_a_snapshot_met_half_written_is_read_again() -> None:
    handle, storage = table([1])
    path, whole = handle.paths.snapshot(1), snapshot_bytes(1)
    for cut in (0, 1, len(whole) // 2, len(whole) - 1):
        storage.put(path, whole[:cut])
        waiting = Waiting(happens=lambda path=path: storage.put(path, whole))
        assert snapshots.read_snapshot(replace(handle, runtime=waiting.runtime()), 1).id == 1
        assert waiting.waits == [metadata_io.WAIT_MS]


def test_a_snapshot_that_stays_torn_is_corrupt() -> None:
    handle, storage = table([1])
    storage.put(handle.paths.snapshot(1), snapshot_bytes(1)[:50])
    waiting = Waiting()
    with pytest.raises(Corrupt) as raised:
        snapshots.read_snapshot(replace(handle, runtime=waiting.runtime()), 1)
    assert raised.value.path == handle.paths.snapshot(1)
    assert raised.value.offset is not None
    assert waiting.waits == [metadata_io.WAIT_MS] * (metadata_io.READ_ATTEMPTS - 1)


def test_a_wrong_member_is_not_waited_for() -> None:
    handle, storage = table([1])
    waiting = Waiting()
    for damaged in (snapshot_bytes(1, schemaId="x"), snapshot_bytes(2)):
        storage.put(handle.paths.snapshot(1), damaged)
        with pytest.raises(Corrupt):
            snapshots.read_snapshot(replace(handle, runtime=waiting.runtime()), 1)
    assert waiting.waits == []


class Vanishing(MemoryStorage):
    """A storage from which the oldest snapshot expires whenever snapshots were listed."""

    def list(self, directory: str) -> list[Any]:
        found = MemoryStorage.list(self, directory)
        oldest = [one.path for one in found if "/snapshot-" in one.path][:1]
        if len(found) > 2:
            self.delete(oldest)
        return found


def test_what_expires_while_it_is_searched_is_searched_again() -> None:
    storage = Vanishing()
    storage.put(f"{ROOT}/schema/schema-0", schema_bytes())
    for number in range(1, 5):
        storage.put(f"{ROOT}/snapshot/snapshot-{number}", snapshot_bytes(number))
    handle = open_context(ROOT, storage=storage)
    found = snapshots.read_earliest(handle)
    assert found is not None
    assert found.id > 1
    assert snapshots.latest_at_or_before(handle, 0) is None


# ---- by time and watermark -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [(), (1,), (3, 4, 5), (1, 2, 3, 4, 5, 6, 7)], ids=str)
def test_by_time(known: tuple[int, ...]) -> None:
    handle, _ = table(known)
    for time_ms in range(-500, 9000, 500):
        before = [number for number in known if number * 1000 <= time_ms]
        since = [number for number in known if number * 1000 >= time_ms]
        at, first = snapshots.latest_at_or_before(handle, time_ms), snapshots.first_at_or_after(handle, time_ms)
        assert (at and at.id, first and first.id) == (max(before, default=None), min(since, default=None))


WATERMARKS: list[list[int | None]] = [[], [None], [5], [None, None, 5, 6], [1, None, 3, None, None, 9], [-(2**63), 2, 2, None, 4], [3, 3, 3]]


@pytest.mark.parametrize("marks", WATERMARKS, ids=str)
def test_by_watermark(marks: list[int | None]) -> None:
    handle, storage = table()
    for number, mark in enumerate(marks, 1):
        storage.put(handle.paths.snapshot(number), snapshot_bytes(number, watermark=mark))
    reached: list[int | None] = []
    for mark in marks:
        reached.append(mark if mark not in (None, -(2**63)) else reached[-1] if reached else None)
    for wanted in range(11):
        holders = [number for number, mark in enumerate(reached, 1) if mark is not None and mark >= wanted]
        if holders:
            assert snapshots.first_at_watermark(handle, wanted).id == holders[0]
        else:
            with pytest.raises(SnapshotNotFound, match="newest watermark is"):
                snapshots.first_at_watermark(handle, wanted)


# ---- texts -----------------------------------------------------------------------------------------------------------------------------------------


def tagged() -> TableContext:
    handle, storage = table([5, 6, 7])
    storage.put(handle.paths.tag("v1"), snapshot_bytes(5))
    storage.put(handle.paths.tag("month-end"), snapshot_bytes(6, tagCreateTime=[2026, 11, 21, 9, 25], tagTimeRetained=5))
    storage.put(f"{ROOT}/tag/tag-success-file/v1_SUCCESS", b"{}")
    return handle


def test_expired_snapshots() -> None:
    handle = tagged()
    for number, text in (
        (3, "snapshot 3 of shop.orders is gone: snapshots 5 to 7 remain. A tag keeps one: tags are v1 (5), month-end (6)"),
        (9, "snapshot 9 of shop.orders does not exist: snapshots 5 to 7 remain. A tag keeps one: tags are v1 (5), month-end (6)"),
        (-1, "snapshot -1 of shop.orders does not exist: ids begin at 1 and snapshots 5 to 7 remain. A tag keeps one: tags are v1 (5), month-end (6)"),
    ):
        with pytest.raises(SnapshotNotFound) as raised:
            snapshots.read_snapshot(handle, number)
        assert str(raised.value) == text
    assert [tag.name for tag in refs.list_tags(handle)] == ["v1", "month-end"]
    with pytest.raises(SnapshotNotFound, match=r"shop.orders has no snapshot 1: it has no snapshots yet"):
        snapshots.read_snapshot(table()[0], 1)
    with pytest.raises(SnapshotNotFound, match=r"is gone: snapshot 2 remains."):
        snapshots.read_snapshot(table([2])[0], 1)


def test_a_damaged_tag_does_not_hide_the_message() -> None:
    handle = tagged()
    handle.storage.put(handle.paths.tag("v1"), b"[]")
    with pytest.raises(SnapshotNotFound, match="tags are month-end, v1"):
        snapshots.read_snapshot(handle, 3)


def test_missing_tags_branches_and_consumers() -> None:
    handle, (bare, _) = tagged(), table()
    with pytest.raises(TagNotFound, match=r"shop.orders has no tag 'v2'; its tags are month-end, v1"):
        refs.read_tag(handle, "v2")
    with pytest.raises(TagNotFound, match="it has no tags"):
        refs.read_tag(bare, "v2")
    for name in ("../../x", "", "a/b", "\0"):
        assert refs.find_tag(handle, name) is None
        assert refs.find_consumer(handle, name) is None
    handle.storage.put(handle.paths.consumer("c1"), b'{"nextSnapshot":5}')
    assert {one: found.next_snapshot for one, found in refs.list_consumers(handle).items()} == {"c1": 5}
    with pytest.raises(ConsumerNotFound, match="its consumers are c1"):
        refs.read_consumer(handle, "c2")
    with pytest.raises(ConsumerNotFound, match="it has no consumers"):
        refs.read_consumer(bare, "c2")
    for name in ("dev", "../x", "a/b"):
        with pytest.raises(BranchNotFound, match="has no branch"):
            handle.on_branch(name)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/none", "there is no such folder"),
        ("/w/shop.db", "it has no schema/ folder. It looks like a database; its tables are orders, users"),
        ("/w", "it has no schema/ folder. It looks like a warehouse; its databases are shop"),
        ("/w/shop.db/orders/snapshot", 'it has no schema/ folder. It is the snapshot folder of the table "/w/shop.db/orders"'),
        ("/w/shop.db/half", "its schema/ folder holds no file schema-0, schema-1, …"),
        ("/w/shop.db/readme", "it is a file; a table is a folder"),
        ("/w/other", "it has no schema/ folder"),
    ],
)
def test_wrong_folders(path: str, why: str) -> None:
    handle, storage = table([1])
    for name, data in (("users/schema/schema-3", schema_bytes(3)), ("half/schema/schema-x", b""), ("readme", b"")):
        storage.put(f"/w/shop.db/{name}", data)
    storage.put("/w/other/file", b"")
    with pytest.raises(TableNotFound) as raised:
        open_context(path, storage=handle.storage)
    assert str(raised.value) == f'no Paimon table at "{path}": {why}'
    assert raised.value.name == path


# ---- handles -----------------------------------------------------------------------------------------------------------------------------------------


def test_names() -> None:
    assert [table_name_of(root) for root in ("/w/shop.db/orders", "/w/orders", "orders", "/.db/t")] == ["shop.orders", "orders", "orders", "t"]


def test_a_handle_knows_its_newest_schema_and_the_callers_options() -> None:
    handle, storage = table([1])
    storage.put(f"{ROOT}/schema/schema-10", schema_bytes(10, options={"bucket": "4", "data-file.path-directory": "data", "scan.fallback-branch": "b"}))
    storage.put(f"{ROOT}/schema/schema-9", schema_bytes(9, comment="nine"))
    opened = open_context(ROOT, storage=storage, options={"scan.snapshot-id": 1, "scan.mode": None})
    assert (opened.schema.id, opened.options.bucket, opened.options.scan_snapshot_id, opened.fallback_branch) == (10, 4, 1, "b")
    assert (opened.dynamic, opened.all_options["scan.snapshot-id"], opened.kind) == ({"scan.snapshot-id": 1, "scan.mode": None}, "1", "key")
    assert opened.paths.bucket_dir("", 0) == f"{ROOT}/data/bucket-0"
    assert [schema.id for schema in schemas.read_all(opened)] == [0, 9, 10]
    then = opened.with_schema(schemas.read_schema(opened, 9))
    assert (then.schema.id, then.schema.comment, then.options.bucket, then.schema.options["bucket"]) == (9, "nine", 4, "4")
    now = handle.with_schema(schemas.read_latest(handle))
    assert (now.schema.id, now.options.bucket) == (10, 4)
    assert opened.with_options({"scan.snapshot-id": None}).options.scan_snapshot_id is None
    for of_the_table in (opened.with_options({"scan.fallback-branch": None}), opened.with_options({"scan.fallback-branch": None}).with_schema(opened.schema)):
        assert of_the_table.fallback_branch is None
    for value in ("such", None):
        with pytest.raises(InvalidOption, match="no option is called 'no'"):
            opened.with_options({"no": value})
    with pytest.raises(InvalidOption, match="fixed when a table is made"):
        opened.with_options({"data-file.path-directory": None})


def test_a_schema_that_is_not_there_is_told() -> None:
    handle, storage = table([1])
    with pytest.raises(Corrupt, match=r"shop.orders refers to schema 4, which is not there; schemas are 0"):
        schemas.read_schema(handle, 4)
    storage.put(f"{ROOT}/schema/schema-1", schema_bytes(7))
    with pytest.raises(Corrupt, match="says it is schema 7"):
        schemas.read_latest(handle)


def test_a_schema_that_was_replaced_is_read_anew() -> None:
    handle, storage = table([1])
    storage.put(f"{ROOT}/schema/schema-0", schema_bytes(comment="another table now"))
    assert schemas.read_schema(handle, 0).comment == "another table now"


@pytest.mark.parametrize("directory", ["..", "../x", "a/../../b", "a//b", "a\0"])
def test_a_data_directory_stays_inside(directory: str) -> None:
    _, storage = table()
    storage.put(f"{ROOT}/schema/schema-0", schema_bytes(options={"data-file.path-directory": directory}))
    with pytest.raises(Corrupt, match="leaves the table's folder"):
        open_context(ROOT, storage=storage)


def test_branches() -> None:
    handle, storage = table([1, 2])
    dev = f"{ROOT}/branch/branch-dev"
    storage.put(f"{dev}/schema/schema-1", schema_bytes(1, options={"bucket": "9"}))
    storage.put(f"{dev}/snapshot/snapshot-1", snapshot_bytes(1))
    storage.put(f"{ROOT}/branch/branch-empty/tag/tag-v", b"")
    storage.put(f"{ROOT}/branch/loose", b"")
    assert refs.list_branch_names(handle) == ["dev"]
    opened = [
        handle.on_branch("dev"),
        open_context(ROOT, storage=storage, branch="dev"),
        open_context(ROOT, storage=storage, options={"branch": "dev"}),
    ]
    for branch in opened:
        assert (branch.branch, branch.options.bucket, snapshots.ids(branch)) == ("dev", 9, [1])
        assert (branch.on_branch("main").branch, branch.on_branch(" ").schema.id) == ("main", 0)
    with pytest.raises(BranchNotFound, match=r"shop.orders has no branch 'x'; its branches are dev, empty"):
        open_context(ROOT, storage=storage, branch="x")


def test_changelogs_outlive_snapshots() -> None:
    handle, storage = table([3])
    storage.put(handle.paths.changelog(1), snapshot_bytes(1))
    storage.put(handle.paths.changelog(2), snapshot_bytes(2))
    assert snapshots.changelog_ids(handle) == [1, 2]
    assert [found and found.id for found in (snapshots.find_change(handle, number) for number in range(5))] == [None, 1, 2, 3, None]


def test_statistics() -> None:
    handle, storage = table([1], statistics="stat-a-0")
    snapshot = snapshots.read_snapshot(handle, 1)
    with pytest.raises(FileMissing):
        refs.read_statistics(handle, snapshot)
    storage.put(handle.paths.statistics("stat-a-0"), b'{"snapshotId":1,"schemaId":0,"colStats":{}}')
    found = refs.read_statistics(handle, snapshot)
    assert found is not None
    assert found.snapshot_id == 1
    assert refs.read_statistics(handle, replace(snapshot, statistics=None)) is None


@pytest.mark.long
def test_golden_tables_open(tables_path: Path) -> None:
    for path in sorted(path for path in tables_path.iterdir() if path.is_dir()):
        handle = open_context(path)
        newest, known = snapshots.latest(handle), snapshots.ids(handle)
        assert (newest.id if newest else None) == (known[-1] if known else None)
        assert [tag.name for tag in refs.list_tags(handle)] == sorted(refs.list_tag_names(handle), key=[tag.name for tag in refs.list_tags(handle)].index)
        assert not handle.options.unreadable
        for branch in refs.list_branch_names(handle):
            assert handle.on_branch(branch).branch == branch


def test_a_storage_that_fails_is_not_an_empty_table() -> None:
    class Failing(MemoryStorage):
        def list(self, directory: str) -> list[Any]:
            raise StorageFailed(f"{directory}: no", path=directory)

    with pytest.raises(LakekitError) as raised:
        open_context(ROOT, storage=Failing())
    assert type(raised.value) is StorageFailed
