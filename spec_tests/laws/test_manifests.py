"""Reading manifests of a table: nothing is read twice, torn and missing files are said by name, pruning changes no answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings, strategies as st

from lakekit.codec import avro_columns
from lakekit.errors import Corrupt, StorageFailed, Unsupported
from lakekit.metadata import manifest_reader, snapshots
from lakekit.metadata.table_context import TableContext, open_context
from lakekit.model import entry_files, manifest_entries, manifests
from lakekit.model.data_file import DataFileMeta
from lakekit.model.entry_files import ManifestBytes
from lakekit.runtime import LRUCache, Runtime
from lakekit.storage.memory import MemoryStorage
from lakekit.testing.fixtures import fixtures


@pytest.fixture
def handle() -> TableContext:
    """The flights table, in memory, in a world of its own."""
    table = fixtures() / "flights" / "table"
    storage = MemoryStorage()
    for path in table.rglob("*"):
        if path.is_file() and "bucket-" not in str(path):
            storage.put(f"t/{path.relative_to(table).as_posix()}", path.read_bytes())
    return open_context("t", storage=storage, runtime=Runtime())


def reads(handle: TableContext) -> list[str]:
    """What was read since the last call."""
    storage = handle.storage
    assert isinstance(storage, MemoryStorage)
    found = [path for verb, path in storage.trace if verb == "read"]
    storage.trace.clear()
    return found


def test_a_plan_after_one_more_commit_reads_only_what_is_new(handle: TableContext) -> None:
    ids = snapshots.ids(handle)
    before, after = snapshots.read_snapshot(handle, ids[-2]), snapshots.read_snapshot(handle, ids[-1])
    manifest_reader.read_live_entries(handle, before)
    reads(handle)
    manifest_reader.read_live_entries(handle, before)
    assert reads(handle) == []
    manifest_reader.read_live_entries(handle, after)
    known = {file.name for file in manifest_reader.manifest_files(handle, before)}
    new = [file.name for file in manifest_reader.manifest_files(handle, after) if file.name not in known]
    assert reads(handle) == [f"t/manifest/{name}" for name in (after.base_manifest_list, after.delta_manifest_list, *new)]


@pytest.mark.long
@pytest.mark.parametrize("budget", [0, 3_000, 1 << 30])
def test_what_is_kept_changes_no_answer(handle: TableContext, budget: int) -> None:
    """With any budget, every snapshot asked in any order has the same live files as when nothing is known."""
    small = replace(handle, runtime=Runtime(metadata_cache=LRUCache(budget)))
    for number in [*snapshots.ids(handle), *reversed(snapshots.ids(handle))]:
        snapshot = snapshots.read_snapshot(handle, number)
        fresh = manifest_reader.read_live_entries(replace(handle, runtime=Runtime()), snapshot)
        assert manifest_reader.read_live_entries(small, snapshot).table.equals(fresh.table)
        assert int(fresh.integers("row_count").sum()) == snapshot.total_record_count
    assert small.runtime.metadata_cache.size_bytes <= budget


def test_partitions_cold_twice_and_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of some partitions are the same whether manifests are decoded in part, whole the second time, or were known before."""
    in_part: list[int] = []
    decode = avro_columns._record_mask
    monkeypatch.setattr(avro_columns, "_record_mask", lambda *args: (in_part.append(1), decode(*args))[1])
    monkeypatch.setattr(avro_columns, "FEW_RECORDS", 0)
    compared = 0
    for path in sorted((fixtures() / "tables").glob("partition_*/snapshot")):
        handle = open_context(str(path.parent))
        snapshot = snapshots.latest(handle)
        assert snapshot is not None
        whole = manifest_reader.read_live_entries(handle, snapshot)
        for partition in whole.column("partition").unique().slice(0, 3):

            def keep(rows: pa.BinaryArray, partition: pa.Scalar = partition) -> np.ndarray:
                return np.asarray(pc.equal(rows, partition))

            expected = whole.filter(keep(whole.column("partition"))).table
            fresh = replace(handle, runtime=Runtime())
            for place in (fresh, fresh, handle):
                assert manifest_reader.read_live_entries(place, snapshot, keep_partitions=keep).table.equals(expected)
            compared += 1
    assert compared > 10
    assert len(in_part) >= compared


def test_a_broken_record_of_another_partition_is_named_once_it_is_read(handle: TableContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions that nobody asks for are not looked into; what is broken in one that is asked for is told as for the whole manifest."""
    monkeypatch.setattr(avro_columns, "FEW_RECORDS", 0)
    snapshot = snapshots.latest(handle)
    assert snapshot is not None
    data = entry_files.encode_entries(manifest_reader.read_live_entries(handle, snapshot), codec="null")
    torn = ManifestBytes("m", data.replace(b"parquet", b"\xff\xff\xff\xff\xff\xff\xff"))
    with pytest.raises(Corrupt) as whole:
        entry_files.decode_entries([torn])
    with pytest.raises(Corrupt) as part:
        entry_files.decode_entries_where([torn], lambda rows: np.ones(len(rows), bool))
    assert (str(part.value), part.value.offset, part.value.field) == (str(whole.value), whole.value.offset, whole.value.field)
    assert len(entry_files.decode_entries_where([torn], lambda rows: np.zeros(len(rows), bool))) == 0


def test_pruning_by_what_add_and_delete_share(handle: TableContext) -> None:
    snapshot = snapshots.latest(handle)
    assert snapshot is not None
    whole = manifest_reader.read_live_entries(handle, snapshot)
    for bucket in (0, 1):

        def keep(file: manifests.ManifestFileMeta, bucket: int = bucket) -> bool:
            return file.min_bucket is None or file.max_bucket is None or file.min_bucket <= bucket <= file.max_bucket

        def mask(found: manifest_entries.ManifestEntries, bucket: int = bucket) -> np.ndarray:
            return found.integers("bucket") == bucket

        some = manifest_reader.read_live_entries(handle, snapshot, keep_manifest=keep, keep_entries=mask)
        assert some.table.equals(whole.filter(mask(whole)).table)


def test_lists_of_every_kind(handle: TableContext) -> None:
    snapshot = snapshots.latest(handle)
    assert snapshot is not None
    base, delta = manifest_reader.manifest_files(handle, snapshot, "base"), manifest_reader.manifest_files(handle, snapshot, "delta")
    assert manifest_reader.manifest_files(handle, snapshot) == [*base, *delta]
    assert manifest_reader.manifest_files(handle, snapshot, "changelog") == []
    assert manifest_reader.index_entries(handle, snapshot) == []
    assert manifest_reader.read_entries(handle, delta, columns=["kind", "level"]).table.column_names == ["kind", "level"]
    assert len(manifest_reader.empty_entries()) == 0


def test_torn_manifest(handle: TableContext) -> None:
    snapshot = snapshots.latest(handle)
    assert snapshot is not None
    assert isinstance(handle.storage, MemoryStorage)
    name = manifest_reader.manifest_files(handle, snapshot)[0].name
    data = handle.storage.read(f"t/manifest/{name}")
    handle.storage.put(f"t/manifest/{name}", data[:-38])
    with pytest.raises(Corrupt) as caught:
        manifest_reader.read_live_entries(handle, snapshot)
    sizes = [f"{size:,}".replace(",", " ") for size in (len(data) - 38, len(data))]
    assert str(caught.value) == f"{name} is {sizes[0]} bytes, the manifest list says {sizes[1]}. Nothing was read"
    assert (caught.value.path, caught.value.offset, caught.value.field) == (f"t/manifest/{name}", len(data) - 38, "_FILE_SIZE")


def test_missing_files_are_named(handle: TableContext) -> None:
    snapshot = snapshots.latest(handle)
    assert snapshot is not None
    name = manifest_reader.manifest_files(handle, snapshot)[0].name
    handle.storage.delete([f"t/manifest/{name}"])
    with pytest.raises(StorageFailed, match=f"the manifest list names {name}, which is not there"):
        manifest_reader.read_live_entries(handle, snapshot)
    handle.storage.delete([f"t/manifest/{snapshot.base_manifest_list}"])
    with pytest.raises(StorageFailed, match=rf"snapshot {snapshot.id} of t names manifest-list-.*, which is not there"):
        manifest_reader.read_live_entries(replace(handle, runtime=Runtime()), snapshot)


def test_hostile_names_open_nothing(handle: TableContext) -> None:
    snapshot = snapshots.latest(handle)
    assert snapshot is not None
    listed = manifest_reader.manifest_files(handle, snapshot, "delta")
    for name in ("../schema/schema-0", "/etc/passwd", "", "..", "a\0b"):
        data = manifests.encode_list([replace(listed[0], name=name)])
        with pytest.raises(Corrupt, match="not a plain file name"):
            manifests.decode_list(data, path="list")


# ---- values that no engine writes -----------------------------------------------------------------------------------------------------------------------


def one(**changes: object) -> bytes:
    """A manifest of one entry with some fields changed in its bytes."""
    found = manifest_entries.entries_of_files([DataFileMeta(name="a", size_bytes=1, row_count=1)], partition=bytes(12), bucket=0, total_buckets=1)
    kind = changes.pop("kind", 0)
    assert isinstance(kind, int)
    data = bytearray(entry_files.encode_entries(found, codec="null"))
    at = data.index(b"\x04\x00\x18" + bytes(12))
    data[at + 1] = 2 * kind
    data[at] = 2 * int(str(changes.pop("version", 2)))
    return bytes(data)


def test_unknown_kind_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="_KIND is 7, in record 0") as caught:
        entry_files.decode_entries([ManifestBytes("m", one(kind=7))])
    assert (caught.value.path, caught.value.field) == ("m", "_KIND")
    assert caught.value.offset


@pytest.mark.parametrize("version", [0, 1, 3])
def test_other_versions_are_refused_by_name(version: int) -> None:
    with pytest.raises(Unsupported, match=f"m: manifest entry of version {version}; lakekit knows 2") as caught:
        entry_files.decode_entries([ManifestBytes("m", one(version=version))])
    assert caught.value.feature == f"manifest-entry.version-{version}"
    assert caught.value.path == "m"


# ---- the shelf --------------------------------------------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sets(st.integers(0, 9), min_size=1, max_size=3), st.integers(1, 40)), max_size=40))
def test_a_shelf_forgets_what_was_not_used_for_longest_and_what_is_superseded(steps: list[tuple[set[int], int]]) -> None:
    """The model: groups in order of use with their keys and weights; one goes when nothing of it is the newest, and the front while all weigh more than 100."""
    shelf = LRUCache(100)
    groups: dict[int, tuple[set[int], int]] = {}
    for step, (keys, weight) in enumerate(steps):
        for key in sorted(keys):
            holding = next((number for number, (held, _) in groups.items() if key in held), None)
            assert shelf.get(key) == holding
            if holding is not None:
                groups[holding] = groups.pop(holding)
        if step % 3 == 2:
            continue
        shelf.put(dict.fromkeys(keys, step), weight)
        groups = {number: (held - keys, size) for number, (held, size) in groups.items() if held - keys} | {step: (keys, weight)}
        while sum(size for _, size in groups.values()) > 100:
            del groups[next(iter(groups))]
        assert shelf.size_bytes == sum(size for _, size in groups.values())


def test_manifests_decoded_apart_are_put_together_once(handle: TableContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entries of a snapshot are the same object the next time, and weigh what they are; a few of many manifests are not worth a copy of their own."""
    small = replace(handle, runtime=Runtime())
    newest = snapshots.latest(small)
    assert newest is not None
    files = manifest_reader.manifest_files(small, newest)
    for file in files:
        manifest_reader.read_entries(small, [file])
    copies: list[int] = []
    concat = manifest_entries.concat_entries
    monkeypatch.setattr(manifest_entries, "concat_entries", lambda parts: (copies.append(len(parts)), concat(parts))[1])
    first = manifest_reader.read_live_entries(small, newest)
    assert max(copies) == len(files) > 2
    weight = small.runtime.metadata_cache.size_bytes
    copies.clear()
    assert manifest_reader.read_live_entries(small, newest) is manifest_reader.read_live_entries(small, newest)
    assert manifest_reader.read_live_entries(small, newest).table.equals(first.table)
    assert max(copies, default=1) == 1
    assert manifest_reader.read_live_entries(small, files[:1]).table.equals(
        manifest_reader.read_live_entries(replace(handle, runtime=Runtime()), files[:1]).table
    )
    assert small.runtime.metadata_cache.size_bytes < 2 * weight
