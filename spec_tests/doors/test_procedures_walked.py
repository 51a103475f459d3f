"""Every procedure that the list of features names is called: it does what it says, or is refused by name."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import InvalidOption, Unsupported
from lakekit.metadata import snapshots
from lakekit.options.features import FEATURES
from lakekit.sql.procedures import PROCEDURES

NAMED = {name.removeprefix("procedure."): feature for name, feature in FEATURES.items() if name.startswith("procedure.")}


@pytest.fixture
def cat(tmp_path: Path) -> lk.Catalog:
    """A database with a partitioned key table of three snapshots, the last with a watermark, a source of rows and a branch."""
    made = lk.connect(tmp_path / "lake")
    made.create_database("d")
    made.create_table(
        "d.t",
        {"k": "INT", "v": "INT", "dt": "STRING"},
        primary_keys=["k", "dt"],
        partition_keys=["dt"],
        options={"bucket": "1", "changelog.num-retained.min": "5", "changelog.num-retained.max": "9", "changelog-producer": "input"},
    )
    table = made["d.t"]
    for number in range(3):
        with table.writer(commit_user=f"u{number}") as writer:
            writer.write([{"k": number, "v": number, "dt": f"2024-01-0{number + 1}"}])
            table.commit(writer.prepare(), commit_user=f"u{number}", identifier=1, watermark=1000 * (number + 1))
    made.create_table("d.s", {"k": "INT", "v": "INT", "dt": "STRING"})
    made["d.s"].append([{"k": 0, "v": 10, "dt": "2024-01-01"}, {"k": 1, "v": -1, "dt": "2024-01-02"}, {"k": 9, "v": 90, "dt": "2024-01-09"}])
    table.create_tag("first", at=1)
    table.create_branch("dev", tag="first")
    return made


def millis(table: lk.Table, snapshot: int) -> int:
    """The time of a snapshot's commit, in milliseconds since 1970."""
    return snapshots.read_snapshot(table._context(), snapshot).time_millis


MERGE = (
    "target_table => 'd.t', target_alias => 'T', source_table => 'd.s', merge_condition => 'T.k = s.k AND T.dt = s.dt', "
    "matched_upsert_condition => 's.v > 0', matched_upsert_setting => 'v = s.v + 1', matched_delete_condition => 's.v < 0', "
    "not_matched_insert_condition => '', not_matched_insert_values => 's.k, s.v * 2, s.dt'"
)
CALLS = {
    "compact": ("table => 'd.t'", lambda t, _: set(t.files()["level"]) == {5}),
    "compact_database": ("including_databases => 'd'", lambda t, _: set(t.files()["level"]) == {5}),
    "compact_manifest": ("table => 'd.t'", lambda t, _: t.scan().collect().height == 3),
    "expire_snapshots": ("table => 'd.t', retain_max => 1, retain_min => 1", lambda t, _: t.snapshots()["snapshot_id"].to_list() == [3]),
    "expire_changelogs": ("table => 'd.t', delete_all => true", lambda t, _: t.snapshots().height == 3),
    "expire_partitions": (
        "table => 'd.t', expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd', expire_strategy => 'values-time'",
        lambda t, _: t.scan().collect().height == 0,
    ),
    "create_tag": ("table => 'd.t', tag => 'x', snapshot => 2", lambda t, _: t.scan("x").collect().height == 2),
    "create_tag_from_timestamp": ("table => 'd.t', tag => 'x', timestamp => 0", lambda t, _: t.scan("x").collect().height == 1),
    "create_tag_from_watermark": ("table => 'd.t', tag => 'x', watermark => 1500", lambda t, _: t.scan("x").collect().height == 2),
    "replace_tag": ("table => 'd.t', tag => 'first', snapshot => 3", lambda t, _: t.scan("first").collect().height == 3),
    "rename_tag": ("table => 'd.t', tag => 'first', target_tag => 'x'", lambda t, _: t.scan("x").collect().height == 1),
    "delete_tag": ("table => 'd.t', tag => 'first'", lambda t, _: t.tags().height == 0),
    "expire_tags": ("table => 'd.t', older_than => '9999999999999'", lambda t, _: t.tags().height == 0),
    "trigger_tag_automatic_creation": ("table => 'd.t'", lambda t, _: t.tags().height == 1),
    "rollback": ("table => 'd.t', snapshot => 1", lambda t, _: t.scan().collect().height == 1),
    "rollback_to": ("table => 'd.t', snapshot_id => 2", lambda t, _: t.scan().collect().height == 2),
    "rollback_to_timestamp": ("table => 'd.t', timestamp => {third}", lambda t, _: t.scan().collect().height == 3),
    "rollback_to_watermark": ("table => 'd.t', watermark => 1500", lambda t, _: t.scan().collect().height == 1),
    "create_branch": ("table => 'd.t', branch => 'b', tag => 'first'", lambda t, _: t.branch("b").scan().collect().height == 1),
    "delete_branch": ("table => 'd.t', branch => 'dev'", lambda t, _: t.branches().height == 0),
    "rename_branch": ("table => 'd.t', from_branch => 'dev', to_branch => 'x'", lambda t, _: t.branches()["branch"].to_list() == ["x"]),
    "fast_forward": ("table => 'd.t', branch => 'dev'", lambda t, _: t.scan().collect().height == 1),
    "reset_consumer": ("table => 'd.t', consumerId => 'c', nextSnapshotId => 2", lambda t, _: t.consumers()["consumer"].to_list() == ["c"]),
    "clear_consumers": ("table => 'd.t'", lambda t, _: t.consumers().height == 0),
    "mark_partition_done": ("table => 'd.t', partitions => 'dt=2024-01-01'", lambda t, _: (Path(t.location) / "dt=2024-01-01" / "_SUCCESS").exists()),
    "remove_orphan_files": ("table => 'd.t'", lambda t, _: t.scan().collect().height == 3),
    "repair": ("database_or_table => 'd'", lambda t, cat: sorted(cat.tables("d")["table"]) == ["s", "t"]),
    "repair_earliest_snapshot": ("table => 'd.t'", lambda t, _: (Path(t.location) / "snapshot" / "EARLIEST").read_text() == "1"),
    "rescale": ("table => 'd.t', bucket_num => 2", lambda t, _: t.options["bucket"] == "2"),
    "rewrite_file_index": ("table => 'd.t'", lambda t, _: t.scan().collect().height == 3),
    "migrate_table": (
        "source_type => 'files', table => '{folder}', target_table => 'd.m'",
        lambda _, cat: cat["d.m"].scan().collect().rows() == [(7,)],
    ),
    "clone": ("database => 'd', table => 't', target_database => 'd', target_table => 'u'", lambda _, cat: cat["d.u"].scan().collect().height == 3),
    "drop_partition": ("'d.t', 'dt=2024-01-01;dt=2024-01-02'", lambda t, _: t.scan().collect()["k"].to_list() == [2]),
    "merge_into": (
        MERGE,
        lambda t, _: t.scan().sort("k").collect().rows() == [(0, 11, "2024-01-01"), (2, 2, "2024-01-03"), (9, 180, "2024-01-09")],
    ),
    "alter_column_default_value": ("table => 'd.t', column => 'v', default_value => '7'", lambda t, _: t._context().schema.field("v").default == "7"),
    "refresh_object_table": ("table => 'd.o'", lambda _, cat: cat["d.o"].scan().collect().height == 1),
}
"""A call of each, and what is seen of it."""


def test_the_list_the_calls_and_the_procedures_are_the_same():
    done = {name for name, feature in NAMED.items() if feature.write == "yes"}
    assert done == set(PROCEDURES) - {"help", "refresh_due"} == set(CALLS)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_what_is_claimed_is_done(cat, tmp_path, name):
    said, is_done = CALLS[name]
    table = cat["d.t"]
    folder = tmp_path / "files"
    folder.mkdir()
    pl.DataFrame({"x": [7]}).write_parquet(folder / "a.parquet")
    if name == "trigger_tag_automatic_creation":
        table.delete_tag("first")
        table.alter(lk.set_option("tag.automatic-creation", "process-time"))
    if name == "clear_consumers":
        table.reset_consumer("c", next_snapshot=1)
    if name == "repair_earliest_snapshot":
        (Path(table.location) / "snapshot" / "EARLIEST").write_text("9")
    if name == "refresh_object_table":
        cat.create_object_table("d.o", location=str(folder))
    if name == "repair":  # names are lost by a metastore only
        cat = lk.connect(tmp_path / "lake", metastore="jdbc", uri=f"sqlite:///{tmp_path}/names.db")
    cat.sql(f"CALL sys.{name}({said.format(third=millis(table, 3), folder=folder)})")
    assert is_done(cat["d.t"], cat)


@pytest.mark.parametrize("name", sorted(name for name, feature in NAMED.items() if feature.write == "refused"))
def test_what_is_refused_is_refused_by_name(cat, name):
    with pytest.raises(Unsupported, match=rf"sys\.{name} \(") as refused:
        cat.sql(f"CALL sys.{name}(table => 'd.t')")
    assert refused.value.feature == f"procedure.{name}"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("rollback_to(table => 'd.t')", InvalidOption),
        ("rollback_to('d.t', 'first', 1)", InvalidOption),
        ("clone(database => 'd', table => 't', target_table => 'u', where => 'k = 1')", Unsupported),
        ("clone(database => 'd', target_database => 'e')", Unsupported),
        ("clone(table => 'd.t', target_table => 'u', parallelism => 0)", InvalidOption),
        ("merge_into(target_table => 'd.t', source_table => 'd.s', merge_condition => 't.k = s.k')", InvalidOption),
        ("merge_into(target_table => 'd.t', source_table => 'd.s', merge_condition => 't.k = s.k', matched_upsert_condition => 's.v > 1')", InvalidOption),
        ("merge_into(target_table => 'd.t', source_table => 'd.s', merge_condition => 't.k = s.k', source_sqls => 'SELECT 1')", Unsupported),
    ],
)
def test_calls_that_make_no_sense_are_told_and_change_nothing(cat, call, error):
    before = cat["d.t"].snapshots().height
    with pytest.raises(error):
        cat.sql(f"CALL sys.{call}")
    assert cat["d.t"].snapshots().height == before
    assert sorted(cat.tables("d")["table"]) == ["s", "t"]
