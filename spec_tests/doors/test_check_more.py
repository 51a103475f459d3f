"""`t.check()` of what keeps files, in every branch, and of changelog files, which are nobody's rows but a stream's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import lakekit as lk
from lakekit.file_index import container
from lakekit.metadata import snapshots
from lakekit.model import manifests
from spec_tests.doors.test_check import Copy
from spec_tests.doors.views import TABLES


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr("lakekit.metadata.metadata_io.WAIT_MS", 0)
    made = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1", "write-only": "true"})
    for number in range(4):
        made.upsert([{"k": number, "v": "a"}])
    made.create_tag("v1", at=2)
    made.create_branch("b", tag="v1")
    made.reset_consumer("c", next_snapshot=4)
    made.branch("b").reset_consumer("c", next_snapshot=2)
    assert made.check().ok
    return made


def told(table: lk.Table, **how: bool) -> list[tuple[str, str]]:
    return [(one.check, str(Path(one.path).relative_to(table.location))) for one in table.check(**how).problems]


# ---- what keeps files ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("snapshot/snapshot-1", "snapshot"),
        ("snapshot/snapshot-4", "snapshot"),
        ("tag/tag-v1", "tag"),
        ("consumer/consumer-c", "consumer"),
        ("branch/branch-b/tag/tag-v1", "tag"),
        ("branch/branch-b/snapshot/snapshot-2", "snapshot"),
        ("branch/branch-b/consumer/consumer-c", "consumer"),
    ],
)
@pytest.mark.parametrize("data", [b"{", b"{}", b"\xff"])
def test_what_keeps_files_can_be_read(table, name, what, data):
    """A check said that all is fine, while nothing expired and no orphan went."""
    (Path(table.location) / name).write_bytes(data)
    assert told(table) == told(table, deep=True) == [(f"{what} is unreadable", name)]
    assert "nothing expires" in table.check().problems[0].remedy or name.endswith("snapshot-4")


def test_a_snapshot_that_says_another_number(table):
    directory = Path(table.location) / "snapshot"
    (directory / "snapshot-2").write_bytes((directory / "snapshot-3").read_bytes())
    assert told(table) == [("snapshot is unreadable", "snapshot/snapshot-2")]


def test_a_branch_that_is_half_there_is_advice(table):
    for file in (Path(table.location) / "branch" / "branch-b" / "schema").iterdir():
        file.unlink()
    report = table.check()
    assert report.ok
    [one] = [one for one in report.advice if one.check == "branch is half there"]
    assert "t.delete_branch('b')" in one.remedy
    with pytest.raises(lk.Corrupt):
        table.remove_orphans()
    table.delete_branch("b")
    assert not [one for one in table.check().advice if one.check == "branch is half there"]


def test_a_schema_that_is_missing_among_others(table):
    for text in ("a", "b", "c"):
        table.alter(lk.set_comment(text))
    assert table.check().ok
    (Path(table.location) / "schema" / "schema-2").unlink()
    assert told(table) == [("schema is missing", "schema/schema-2")]


# ---- changelog files -------------------------------------------------------------------------------------------------------------------------------


def changelog(path: Path) -> Path:
    return max(path.glob("**/changelog-*.*"), key=lambda one: one.stat().st_mtime_ns)


def made(path: Path, kind: str = "+I", **options: str) -> lk.Table:
    table = lk.create(path, {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1", "changelog-producer": "input", **options})
    table.upsert([{"k": number, "v": "text", "kind": kind} for number in range(50)], row_kind="kind")
    return table


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_a_bit_of_a_changelog_file_that_turned_over_is_found(tmp_path, producer):
    """Pages of data files were held against their checksums, and a stream got other rows."""
    table = made(tmp_path / "t", **{"changelog-producer": producer})
    table.compact(full=True) if producer == "full-compaction" else None
    path = changelog(tmp_path / "t")
    data = bytearray(path.read_bytes())
    data[pq.read_metadata(path).row_group(0).column(0).data_page_offset + 40] ^= 4
    path.write_bytes(data)
    assert table.check().ok
    assert [(one.check, one.path) for one in table.check(deep=True).problems] == [("a page has another checksum", str(path))]


def test_rows_of_a_changelog_file_are_what_its_manifest_says(tmp_path):
    """It lies in the place of one of the same size, whose rows are deletes."""
    table, other = made(tmp_path / "t"), made(tmp_path / "u", kind="-D")
    path, foreign = changelog(tmp_path / "t"), changelog(tmp_path / "u")
    assert path.stat().st_size == foreign.stat().st_size
    path.write_bytes(foreign.read_bytes())
    assert other.check(deep=True).ok
    assert table.check().ok
    assert [(one.check, one.path) for one in table.check(deep=True).problems] == [("delete count is wrong", str(path))]


@pytest.mark.parametrize("form", ["avro", "orc"])
def test_a_changelog_file_of_another_format_that_cannot_be_read(tmp_path, form):
    table = made(tmp_path / "t", **{"changelog-file.format": form})
    assert table.check(deep=True).ok
    path = changelog(tmp_path / "t")
    data = bytearray(path.read_bytes())
    begin, end = (3, len(data) // 2) if form == "orc" else (len(data) // 2, len(data) // 2 + 40)
    data[begin:end] = bytes(end - begin)
    path.write_bytes(data)
    assert {one.path for one in table.check(deep=True).problems} == {str(path)}


@pytest.mark.parametrize("name", ["changelog_input", "changelog_lookup", "changelog_full_compaction", "changelog_partitioned", "changelog_file_options"])
def test_changelog_files_of_the_reference_are_fine(name):
    assert lk.open(str(TABLES / name)).check(deep=True).ok


# ---- null counts -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", ["ARRAY", "MAP", "ROW", "VARBINARY", "BINARY"])
def test_null_counts_of_columns_without_bounds_are_looked_at(root):
    """Filters by `is_null` pass files over by them, whatever the type."""
    found = 0
    for case in ("types_nested_avro", "types_nested_orc", "types_scalars_parquet", "types_scalars_avro"):
        names = [field.name for field in Copy(case).ctx.schema.fields if field.type.root == root]
        listed = Copy(case).live.file(0).value_stats_cols
        told = [field.name for field in Copy(case).ctx.schema.fields] if listed is None else list(listed)
        for name in set(names) & set(told):
            copy, at = Copy(case), told.index(name)
            counts = copy.live.column("value_null_counts")[0].as_py()
            if counts and counts[at] is not None:
                copy.say(0, value_null_counts=[*counts[:at], counts[at] + 1, *counts[at + 1 :]])
                copy.commit()
                assert [(one.check, one.field) for one in copy.table.check(deep=True).problems] == [("statistics are false", f"_VALUE_STATS.{name}")]
                found += 1
    assert found


# ---- row ids ---------------------------------------------------------------------------------------------------------------------------------------


def test_row_ids_beyond_the_next_one_are_told():
    assert Copy("append_row_tracking").table.check(deep=True).ok
    copy = Copy("append_row_tracking")
    where = copy.ctx.paths.snapshot(copy.snapshot.id)
    members = json.loads(copy.storage.read(where))
    copy.storage.put(where, json.dumps(members | {"nextRowId": members["nextRowId"] - 1}).encode())
    [one] = copy.table.check().problems
    assert (one.check, one.path, one.field) == ("next row id is taken", where, "nextRowId")


# ---- partitions of manifests -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", [None, "a"])
def test_a_manifest_that_is_said_to_hold_no_null_partition(tmp_path, partition):
    """Reads of that partition pass it over, and so does whoever looks what a deletion would take from a tag."""
    table = lk.create(tmp_path / "t", {"p": "STRING", "v": "INT"}, partition_keys=["p"])
    table.append([{"p": partition, "v": 1}])
    snapshot = snapshots.latest(table._context())
    path = tmp_path / "t" / "manifest" / snapshot.delta_manifest_list
    [one] = manifests.decode_list(path.read_bytes())
    data = manifests.encode_list([replace(one, partition_stats=replace(one.partition_stats, null_counts=(0,)))])
    path.write_bytes(data)
    where = tmp_path / "t" / "snapshot" / "snapshot-1"
    where.write_bytes(replace(snapshot, delta_manifest_list_size=len(data)).to_json())
    problems = lk.open(tmp_path / "t").check().problems
    assert [(found.check, found.field) for found in problems] == ([] if partition else [("manifest differs from its list", "_PARTITION_STATS.p")])


# ---- files of older schemas ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [[], ["k", "b"]])
def test_files_from_before_a_bucket_key_was_renamed(tmp_path, keys):
    """They were passed over, as if today's option were wrong, which names the column by its name of now."""
    columns = {"k": "INT NOT NULL", "b": "INT NOT NULL", "v": "STRING"}
    options = {"bucket": "3", "bucket-key": "b", "bucket-function.type": "mod", "file.compression": "none"}
    made = lk.create(tmp_path / "t", columns, primary_keys=keys, options=options)
    rows = [{"k": number, "b": number, "v": "a"} for number in range(300, 339)]
    made.upsert(rows) if keys else made.append(rows)
    made.alter(lk.rename_column("b", "c"), lk.add_column("b", "STRING"))
    report = made.check(deep=True)
    assert [one.check for one in report.problems + report.advice] == ["buckets are small"]
    paths = [next((tmp_path / "t" / f"bucket-{bucket}").glob("data-*")) for bucket in (0, 1)]
    one, other = (path.read_bytes() for path in paths)
    assert len(one) == len(other)
    paths[0].write_bytes(other)
    paths[1].write_bytes(one)
    assert {one.path for one in made.check(deep=True).problems if one.check == "rows are in another bucket"} == {str(path) for path in paths}


# ---- file indexes ----------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def indexed(tmp_path):
    kinds = ("bitmap", "bsi", "range-bitmap", "bloom-filter")
    options = {"file-index.in-manifest-threshold": "1 b", **{f"file-index.{kind}.columns": "v" for kind in kinds}}
    made = lk.create(tmp_path / "t", {"v": "INT", "c": "CHAR(3)"}, options={**options, "file-index.bitmap.columns": "v,c"})
    made.append([{"v": number * 37 % 101, "c": "a"} for number in range(50)])
    assert made.check(deep=True).ok
    return made, next((tmp_path / "t").glob("**/*.index"))


def test_a_file_index_that_is_cut_anywhere(indexed):
    """Where a bitmap knows the rows nobody looked at the index behind it, which other conditions ask."""
    made, path = indexed
    data = path.read_bytes()
    for length in (*range(0, 1000, 111), len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        assert told(made, deep=True) == [("file index is unreadable", str(path.relative_to(made.location)))], length


@pytest.mark.parametrize("kind", ["bitmap", "bsi", "range-bitmap", "bloom-filter"])
def test_each_of_the_indexes_of_a_column_is_asked(indexed, kind):
    made, path = indexed
    own = container.decode_container(path.read_bytes())
    made.append([{"v": number + 1000, "c": "a"} for number in range(50)])
    other = next(one for one in Path(made.location).glob("**/*.index") if one != path)
    own["v"][kind] = container.decode_container(other.read_bytes())["v"][kind]
    path.write_bytes(container.encode_container(own))
    [found] = made.check(deep=True).problems
    assert (found.check, found.path) == ("file index lacks rows", str(path))
    assert f"the {kind} index of column v" in found.problem


# ---- what cannot be read ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["num-sorted-run.compaction-trigger", "target-file-size", "bucket-key"])
def test_an_option_that_cannot_be_read_is_told(table, key):
    path = Path(table.location) / "schema" / "schema-0"
    schema = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(schema | {"options": schema["options"] | {key: ";"}}), encoding="utf-8")
    report = lk.open(table.location).check(deep=True)
    assert key in {one.field for one in report.advice}


@pytest.mark.parametrize(
    ("member", "what", "field"), [("value_min", "statistics are false", "_VALUE_STATS"), ("max_key", "key range is unreadable", "_MIN_KEY")]
)
def test_a_damaged_entry_is_not_called_a_damaged_file(member, what, field):
    copy = Copy("dedup_levels")
    copy.say(0, **{member: b"\x00\x00\x00\xee" + bytes(20)})
    copy.commit()
    found = {(one.check, one.path, one.field) for one in copy.table.check(deep=True).problems}
    assert (what, copy.path(), field) in found
    assert "data file is unreadable" not in {what for what, *_ in found}
