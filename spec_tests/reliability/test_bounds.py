"""Small files that ask for much work: what they cost is bounded by their size, or they are refused before the work begins."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from pyroaring import BitMap

import lakekit as lk
from lakekit.catalog import views
from lakekit.codec import avro_columns, avro_container, avro_schema, avro_values
from lakekit.commit import commit_history
from lakekit.errors import Corrupt, InvalidOption, LakekitError, LimitExceeded
from lakekit.lsm.aggregates import roaring
from lakekit.maintenance.check.metadata import describe_ranges, missing_ranges
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model import json_codec, manifests, table_schema
from lakekit.model.data_file import Stats
from lakekit.model.manifests import ManifestFileMeta
from lakekit.model.partition import partition_time_ms
from lakekit.runtime import REAL_RUNTIME
from lakekit.text_format import compression
from lakekit.types import Field, first_duplicate

LONG_MAX = 2**63 - 1
STEEP = 80
"""Sixteen times the size take 16 times longer where the work is linear, 256 times where it is quadratic; the bound leaves a factor of 5 to noise."""


def growth(work, small: int, factor: int = 16) -> float:
    """How many times longer the work takes for `factor` times the size: the least of seven runs each."""

    def least(size: int) -> float:
        prepared = [work(size) for _ in range(7)]
        times = []
        for call in prepared:
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
        return min(times)

    return least(small * factor) / least(small)


def table(tmp_path: Path, **options) -> lk.Table:
    found = lk.create(tmp_path / "t", {"id": "BIGINT", "v": "STRING"}, primary_keys=["id"], options={"bucket": "1", **options})
    found.upsert([{"id": 1, "v": "a"}])
    found.upsert([{"id": 2, "v": "b"}])
    return found


def copy_snapshot(found: lk.Table, source: int, target: int) -> None:
    folder = Path(found._context().paths.snapshot_dir)
    text = json.loads((folder / f"snapshot-{source}").read_text())
    (folder / f"snapshot-{target}").write_text(json.dumps({**text, "id": target}))


# ---- names that occur twice


@given(st.lists(st.sampled_from("abcdefg"), max_size=12))
def test_the_first_duplicate_is_the_first_name_that_was_seen_before(names):
    expected = next((name for at, name in enumerate(names) if name in names[:at]), None)
    assert first_duplicate(names) == expected


def test_members_of_json_are_compared_in_one_pass():
    def work(size):
        data = json.dumps({f"m{i}": i for i in range(size)})[:-1].encode() + f', "m{size - 1}": 0}}'.encode()

        def call():
            with pytest.raises(Corrupt, match="occurs twice"):
                json_codec.loads(data)

        return call

    assert growth(work, 1_000) < STEEP


def test_columns_of_a_schema_are_compared_in_one_pass():
    def work(size):
        names = [f"c{i}" for i in range(size)]
        fields = [{"id": i, "name": name, "type": "INT NOT NULL"} for i, name in enumerate([*names, names[-1]])]
        text = {"version": 3, "id": 0, "fields": fields, "highestFieldId": size, "partitionKeys": [], "primaryKeys": [], "options": {}, "timeMillis": 0}
        data = json.dumps(text).encode()

        def call():
            with pytest.raises(Corrupt, match="two columns"):
                table_schema.TableSchema.from_json(data)

        return call

    assert growth(work, 1_000) < STEEP


def test_a_schema_whose_columns_are_all_keys_is_checked_in_one_pass():
    def work(size):
        names = [f"c{i}" for i in range(size)]
        fields = [{"id": i, "name": name, "type": "INT NOT NULL"} for i, name in enumerate(names)]
        text = {"version": 3, "id": 0, "fields": fields, "highestFieldId": size, "partitionKeys": [], "primaryKeys": names, "options": {}, "timeMillis": 0}
        data = json.dumps(text).encode()
        return lambda: table_schema.TableSchema.from_json(data)

    assert growth(work, 500) < STEEP


def test_columns_of_a_migrated_file_are_compared_in_one_pass(tmp_path, monkeypatch):
    compared, equal = [0], Field.__eq__

    def counted(self, other):
        compared[0] += 1
        return equal(self, other)

    (tmp_path / "files").mkdir()
    pl.DataFrame({f"c{i}": [i] for i in range(300)}).write_parquet(tmp_path / "files/a.parquet")
    catalog = lk.connect(tmp_path / "lake")
    catalog.create_database("d")
    with monkeypatch.context() as patched:
        patched.setattr(Field, "__eq__", counted)
        catalog.migrate(str(tmp_path / "files"), "d.t")
    assert compared[0] < 300 * 8
    assert catalog["d.t"].scan().collect().row(0) == tuple(range(300))


# ---- JSON


def test_json_of_more_values_than_any_metadata_has_is_refused_before_it_is_parsed():
    data = b'{"a": [' + b"[]," * json_codec.MAX_VALUES + b"[]]}"
    with pytest.raises(LimitExceeded, match="values of JSON"):
        json_codec.loads(data, "snapshot-1")


def test_a_schema_of_a_hundred_thousand_columns_is_below_the_bound():
    fields = [{"id": i, "name": f"c{i}", "type": "INT"} for i in range(100_000)]
    text = {"version": 3, "id": 0, "fields": fields, "highestFieldId": 10**5, "partitionKeys": [], "primaryKeys": [], "options": {}, "timeMillis": 0}
    assert len(table_schema.TableSchema.from_json(json.dumps(text).encode()).fields) == 100_000


def test_half_of_a_surrogate_pair_is_shown_as_damage(tmp_path):
    path = tmp_path / "snapshot-1"
    path.write_bytes(b'{"version": 3, "\\ud800": 1}')
    shown = lk.hex(path)
    assert isinstance(shown.error, LakekitError)
    assert shown.marks.height
    assert repr(shown)


def test_a_stored_view_whose_column_is_no_text_or_occurs_twice_is_corrupt():
    column = {"id": 0, "name": "a", "type": "INT"}
    for fields, why in (([column, {**column, "id": 1}], "two of its columns"), ([{**column, "name": "\ud800"}], "surrogate")):
        with pytest.raises(Corrupt, match=why):
            views.from_text(None, "d.v", json.dumps({"fields": fields, "query": "SELECT 1"}), "the metastore")


# ---- Avro


NULL_COUNTS = b'{"type": "record", "name": "r", "fields": [{"name": "v", "type": {"type": "array", "items": "long"}}]}'


def array_in_blocks(block_count: int, block_items: int) -> bytes:
    out = bytearray()
    for _ in range(block_count):
        avro_container.append_long(out, block_items)
        out += bytes([2]) * block_items
    return bytes(out + b"\0")


@pytest.mark.parametrize("records", [1, 40])
def test_an_array_in_blocks_of_one_item_is_refused(records):
    body = array_in_blocks(20_000, 1)
    container = avro_container.open_container(avro_container.write_container(NULL_COUNTS, [body] * records, codec="null"))
    with pytest.raises(LimitExceeded, match="items in"):
        avro_columns.decode_columns([container])
    with pytest.raises(LimitExceeded, match="items in"):
        avro_columns.read_records(container)
    with pytest.raises(IndexError):
        avro_values.build_skipper(container.schema)(body, 0)


@given(blocks=st.integers(1, 64), items=st.integers(1, 4), wide=st.integers(0, 8), records=st.integers(1, 40))
@settings(max_examples=30)
def test_arrays_in_blocks_that_writers_make_are_read(blocks, items, wide, records):
    body = array_in_blocks(blocks, items)[:-1] + array_in_blocks(wide, 400)
    container = avro_container.open_container(avro_container.write_container(NULL_COUNTS, [body] * records, codec="null"))
    found = avro_columns.decode_columns([container])["v"]
    assert [len(one) for one in found.to_pylist()] == [blocks * items + wide * 400] * records


@given(st.integers(1, 80), st.integers(1, 4))
@settings(max_examples=40)
def test_a_schema_is_as_deep_as_its_names_resolve_to(count, arrays):
    declared = "null"
    for number in range(count):
        inner = f"r{number - 1}" if number else "int"
        for _ in range(arrays):
            inner = {"type": "array", "items": inner}
        declared = {"type": "record", "name": f"r{number}", "fields": [{"name": "v", "type": inner}]}
        if number == 0:
            records = [declared]
        else:
            records.append(declared)
    text = json.dumps({"type": "record", "name": "top", "fields": [{"name": f"f{i}", "type": one} for i, one in enumerate(records)]}).encode()
    deep = 1 + count * (arrays + 1)
    if deep > avro_schema.MAX_DEPTH:
        with pytest.raises(LimitExceeded, match="deeper"):
            avro_schema.parse_schema(text)
    else:
        assert avro_schema.parse_schema(text).depth == deep


def test_blocks_of_a_data_file_are_inflated_one_after_the_other(tmp_path):
    row = b"\x02" + b"\0" * 2_000_000
    text = b'{"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}, {"name": "v", "type": {"type": "fixed", "name": "f", "size": 2000000}}]}'
    data = avro_container.write_container(text, [row] * 60, codec="deflate")
    packed = avro_container.open_blocks(data)
    assert packed.count == 60
    assert len(data) < len(row) * 6
    first = next(packed.inflate())[1]
    assert first.count == 1
    shown = lk.hex(data, format="avro")
    held = sum(len(region.packed_blocks.file_data) for region in list(shown.regions.values())[:1])
    assert held == len(data)
    assert len(shown.open().data) == len(row)


# ---- manifest lists


def listed(name: str) -> ManifestFileMeta:
    return ManifestFileMeta(
        name=name, size_bytes=1, num_added_files=1, num_deleted_files=0, partition_stats=Stats(min_values=b"", max_values=b"", null_counts=()), schema_id=0
    )


def test_a_manifest_that_a_list_names_twice_is_corrupt():
    data = manifests.encode_list([listed("a"), listed("b"), listed("a")])
    with pytest.raises(Corrupt, match="a occurs twice"):
        manifests.decode_list(data)
    sound = manifests.encode_list([listed("c")])
    with pytest.raises(Corrupt, match="a occurs twice"):
        manifests.decode_lists([("x", sound), ("y", data), ("z", sound), ("w", sound)])


def test_a_list_of_more_manifests_than_its_size_can_name_is_refused():
    body = manifests.encode_list([listed("m")])
    text = avro_container.open_container(body).metadata["avro.schema"]
    record = avro_container.open_container(body).blocks[0].data
    data = avro_container.write_container(text, [record] * 30_000)
    assert len(data) < 100_000
    for decode in (manifests.decode_list, lambda found: manifests.decode_lists([("a", found)] * 5)):
        with pytest.raises(LimitExceeded, match="30000 records"):
            decode(data)


def test_files_that_two_members_of_a_snapshot_name_are_decoded_as_each_says(tmp_path):
    found = table(tmp_path)
    handle = found._context()
    snapshot = snapshots.latest(handle)
    looped = manifests.decode_list(handle.storage.read(handle.paths.manifest(snapshot.delta_manifest_list)))
    assert looped
    own = manifests.encode_list([listed(snapshot.base_manifest_list)])
    handle.storage.put(handle.paths.manifest(snapshot.base_manifest_list), own)
    text = json.loads(Path(handle.paths.snapshot(snapshot.id)).read_text())
    text |= {"baseManifestListSize": None, "indexManifest": text["deltaManifestList"]}
    handle.storage.put(handle.paths.snapshot(snapshot.id), json.dumps(text).encode())
    broken = lk.open(tmp_path / "t")
    for call in (lambda: broken.scan().collect(), broken.files, lambda: broken.remove_orphans(dry_run=True)):
        with pytest.raises(LakekitError):
            call()
    assert broken.check().problems


# ---- snapshot numbers


@given(st.lists(st.integers(0, 60), unique=True, min_size=1))
def test_ranges_are_what_ascending_numbers_leave_out(numbers):
    numbers = sorted(numbers)
    missing = sorted(set(range(numbers[0], numbers[-1])) - set(numbers))
    found = missing_ranges(numbers)
    assert [number for gap in found for number in gap] == missing
    assert describe_ranges(found).count(",") == max(0, min(len(missing), 8) - 1)


def test_a_stray_snapshot_far_ahead_costs_no_more_than_its_neighbours(tmp_path):
    found = table(tmp_path, **{"commit.strict-mode.last-safe-snapshot": "1"})
    copy_snapshot(found, 2, 3_000_000_000)
    stray = lk.open(tmp_path / "t")
    report = stray.check()
    assert any("2999999989 more" in one.problem for one in report.problems)
    assert stray.check(deep=True)
    stray.expire_snapshots(retain_max=1, retain_min=1, dry_run=True)
    stray.upsert([{"id": 3, "v": "c"}])
    assert stray.scan().collect().height == 3


def test_numbers_above_a_gap_are_walked_and_the_gap_is_one_step(tmp_path):
    found = table(tmp_path)
    copy_snapshot(found, 2, 2_000_000_000)
    handle = lk.open(tmp_path / "t")._context()
    steps = list(commit_history.iter_since(handle, 0, snapshots.read_snapshot(handle, 2_000_000_000)))
    assert [(number, None if one is None else one.id) for number, one in steps] == [(1, 1), (2, 2), (3, None), (2_000_000_000, 2_000_000_000)]


def test_no_snapshot_follows_the_greatest_number(tmp_path):
    found = table(tmp_path)
    copy_snapshot(found, 2, LONG_MAX)
    (tmp_path / "t/snapshot/LATEST").unlink()
    REAL_RUNTIME.metadata_cache.__init__(REAL_RUNTIME.metadata_cache.budget_bytes)  # as another process, which does not know what this one committed
    full = lk.open(tmp_path / "t")
    before = sorted(path.name for path in (tmp_path / "t/snapshot").iterdir())
    with pytest.raises(LimitExceeded, match="no number left"):
        full.upsert([{"id": 9, "v": "z"}])
    assert sorted(path.name for path in (tmp_path / "t/snapshot").iterdir()) == before
    (tmp_path / f"t/snapshot/snapshot-{LONG_MAX}").rename(tmp_path / f"t/snapshot/snapshot-{LONG_MAX + 1}")
    lk.open(tmp_path / "t").upsert([{"id": 9, "v": "z"}])
    assert lk.open(tmp_path / "t").scan().collect().height == 3


def test_a_stray_schema_far_ahead_is_told_in_a_line(tmp_path):
    found = table(tmp_path)
    folder = tmp_path / "t/schema"
    text = json.loads((folder / "schema-0").read_text())
    (folder / "schema-3000000000").write_text(json.dumps({**text, "id": 3_000_000_000}))
    del found
    missing = [one for one in lk.open(tmp_path / "t").check().problems if one.check == "schema is missing"]
    assert len(missing) == 9
    assert any("schemas 9 to 2999999999" in one.problem for one in missing)


# ---- counts


def with_row_counts(found: lk.Table, row_count: int) -> None:
    """Lets the manifests of a table say another number of rows for each file."""
    handle = found._context()
    snapshot = snapshots.latest(handle)
    for file in manifest_reader.manifest_files(handle, snapshot):
        path = Path(handle.paths.manifest(file.name))
        container = avro_container.open_container(path.read_bytes())
        rows = avro_columns.read_records(container)
        for row in rows:
            row["_FILE"]["_ROW_COUNT"] = row_count
        put = avro_values.build_writer(container.schema)
        bodies = []
        for row in rows:
            out = bytearray()
            put(out, row)
            bodies.append(bytes(out))
        data = avro_container.write_container(container.metadata["avro.schema"], bodies, codec="null")
        path.write_bytes(data)
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            target = Path(handle.paths.manifest(name))
            files = [one if one.name != file.name else replace(one, size_bytes=len(data)) for one in manifests.decode_list(target.read_bytes())]
            target.write_bytes(manifests.encode_list(files))
    text = json.loads(Path(handle.paths.snapshot(snapshot.id)).read_text())
    text |= {"baseManifestListSize": None, "deltaManifestListSize": None}
    Path(handle.paths.snapshot(snapshot.id)).write_text(json.dumps(text))
    REAL_RUNTIME.metadata_cache.__init__(REAL_RUNTIME.metadata_cache.budget_bytes)  # what was decoded before would be believed


def test_counts_beyond_32_bits_are_counts(tmp_path):
    found = lk.create(tmp_path / "t", {"v": "INT"})
    found.append([{"v": 1}])
    found.append([{"v": 2}])
    with_row_counts(found, 3_000_000_000)
    counted = lk.open(tmp_path / "t").aggregate(pl.len())
    assert counted.item() == 6_000_000_000
    assert lk.open(tmp_path / "t").files()["row_count"].sum() == 6_000_000_000


def test_counts_that_no_table_has_are_corrupt_and_do_not_wrap(tmp_path):
    found = lk.create(tmp_path / "t", {"v": "INT"})
    found.append([{"v": 1}])
    found.append([{"v": 2}])
    with_row_counts(found, 2**62)
    with pytest.raises(Corrupt, match=str(2**63)):
        lk.open(tmp_path / "t").aggregate(pl.len())


def test_counts_below_keep_their_type(tmp_path):
    found = lk.create(tmp_path / "t", {"v": "INT"})
    found.append([{"v": 1}, {"v": None}])
    counted = found.aggregate(pl.len(), pl.col("v").count().alias("c"))
    assert counted.schema == found.scan().select(pl.len(), pl.col("v").count().alias("c")).collect().schema


# ---- other values


def test_a_leaf_that_its_path_does_not_lead_to_is_corrupt():
    sound = roaring.decode_bitmap_64(roaring.encode_bitmap_64(bitmap_of(1, 1 << 40)), "v")
    assert sound.root.kind != roaring.LEAF_NODE
    data = bytearray(roaring.encode_bitmap_64(sound))
    at = data.index(bytes([0, 1, 0, 0, 0, 0])[:6]) if bytes([0, 1, 0, 0, 0, 0]) in data else None
    assert at is not None
    data[at + 1] = 7
    with pytest.raises(Corrupt, match="no 64-bit bitmap"):
        roaring.decode_bitmap_64(bytes(data), "v")


def bitmap_of(*values: int) -> roaring.RoaringParts:
    found = roaring.RoaringParts()
    for value in values:
        key = struct.pack(">Q", value)[: roaring.KEY_BYTES]
        leaf = roaring.ArtNode(kind=roaring.LEAF_NODE, key=key, container_number=roaring._add_container(found, (BitMap([value & 0xFFFF]), False)))
        found.root = roaring._insert_leaf(found.root, leaf, 0)
    return found


def test_a_formatter_of_many_optional_parts_is_refused_by_its_option():
    with pytest.raises(InvalidOption, match="optional parts"):
        partition_time_ms(["dt"], ["2024-01-01"], pattern=None, formatter="[d" * 200)
    assert partition_time_ms(["dt"], ["20240101"], pattern=None, formatter="yyyyMMdd" + "[HH" * 3) is not None


# ---- memory


CHILD = """
import resource, sys
import lakekit as lk, polars as pl
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    {code}
    said = "done"
except lk.LakekitError as wrong:
    said = type(wrong).__name__
print(said, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def grown(code: str, *arguments: object) -> tuple[str, int]:
    """What a process says that does this, and by how many MiB it grows."""
    done = subprocess.run([sys.executable, "-c", CHILD.format(code=code), *map(str, arguments)], capture_output=True, text=True, check=True, timeout=120)
    said, mib = done.stdout.split()
    return said, int(mib)


def test_a_packed_avro_file_is_read_in_little_memory(tmp_path):
    found = lk.create(tmp_path / "t", {"id": "BIGINT", "v": "STRING"}, options={"file.format": "avro", "file.compression": "deflate"})
    found.append(pl.DataFrame({"id": range(1_200), "v": ["x" * 1_000_000] * 1_200}, schema={"id": pl.Int64, "v": pl.String}).lazy())
    said, mib = grown("lk.open(sys.argv[1]).scan().select('id').head(1).collect()", tmp_path / "t")
    assert said == "done"
    assert mib < 600


def test_a_line_without_end_is_refused_in_little_memory(tmp_path):
    catalog = lk.connect(tmp_path)
    catalog.create_database("d")
    found = catalog.create_format_table("d.f", {"v": "STRING"}, format="csv")
    del found
    with gzip.open(next(iter((tmp_path / "d.db").glob("f*"))) / "data-1.csv.gz", "wb", 1) as out:
        for _ in range(200):
            out.write(b"x" * (1 << 20))
    said, mib = grown("lk.connect(sys.argv[1])['d.f'].scan().head(1).collect()", tmp_path)
    assert said == "LimitExceeded"
    assert mib < 320


def test_lines_are_bounded():
    pieces = [b"x" * (8 << 20)] * 5
    with pytest.raises(LimitExceeded, match="longer than"):
        list(compression.line_batches(pieces, "\n", any_line_end=True, path="f"))
