"""Procedures of both engines: the same snapshot is named, or gone back to; the reference reads clones and writes to them; repaired names are the same rows.

What the procedures' own classes do over the core is in `JudgeCare`. One difference is meant: where every watermark is greater than the one to go back to,
the released engine goes to the first snapshot that has one, and lakekit refuses, as later releases do.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lakekit as lk
from lakekit.metadata import snapshots
from spec_tests.differential.test_care import files

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.reference
COLUMNS = {"k": "INT NOT NULL", "p": "INT NOT NULL", "v": "STRING"}
MARKS = (None, None, 100, 100, 250, 300)
KINDS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "key": ({"bucket": "2"}, ("k", "p")),
    "vectors": ({"bucket": "1", "deletion-vectors.enabled": "true"}, ("k", "p")),
    "dynamic": ({"bucket": "-1"}, ("k", "p")),
    "aggregation": ({"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "last_value"}, ("k", "p")),
    "append": ({"bucket": "-1", "file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}, ()),
    "bucketed": ({"bucket": "2", "bucket-key": "k", "deletion-vectors.enabled": "true"}, ()),
}


def instant(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


@pytest.fixture
def marked(judge, tmp_path):
    """A table of the reference with snapshots of these watermarks, of which a tag keeps the third."""
    path = tmp_path / "marked"
    judge.create(path, COLUMNS, primary_keys=["k", "p"], options={"bucket": "1", "write-only": "true"})
    for number, mark in enumerate(MARKS, 1):
        judge.write(path, [("+I", (number, 0, f"{mark}"))], user="job", identifier=number, watermark=mark)
    assert [one.watermark for one in judge.snapshots(path)] == list(MARKS)
    return path


def chore(judge, path: Path, word: str, **given: Any) -> dict[str, Any]:
    return judge.ask("care", path, chore=word, **given)


@pytest.mark.parametrize("expires", [False, True], ids=["all there", "some expired"])
def test_tags_of_times_and_watermarks_name_the_same_snapshot(judge, marked, expires):
    table = lk.open(str(marked))
    times = {row[0]: int(row[1].timestamp() * 1000) for row in table.snapshots().select("snapshot_id", "time").rows()}
    if expires:
        table.create_tag("kept", at=3)
        table.expire_snapshots(retain_max=2, retain_min=1, older_than="9999-01-01")
    wanted = {("since", ms + add) for ms in times.values() for add in (-1, 0, 1)} | {("watermark", mark) for mark in (-1, 0, 99, 101, 249, 250, 251, 300)}
    named = 0
    for at, (word, value) in enumerate(sorted(wanted)):
        how: dict[str, Any] = {"since": instant(value)} if word == "since" else {"watermark": value}
        try:
            table.create_tag(f"ours-{at}", **how)
        except lk.SnapshotNotFound:
            assert value > max(times.values()), "nothing is as late"
            continue
        told = chore(judge, marked, f"tag_{word}", name=f"java-{at}", millis=value)["snapshot"]
        found = dict(table.tags().select("tag", "snapshot_id").rows())
        assert found[f"ours-{at}"] == found[f"java-{at}"] == told, (word, value)
        for engine in ("ours", "java"):
            table.delete_tag(f"{engine}-{at}")
        named += 1
    assert named >= len(wanted) - 2


@pytest.mark.parametrize("watermark", [100, 249, 250, 299, 300, 10**12])
def test_back_to_the_same_watermark(judge, marked, tmp_path, watermark):
    """Of several snapshots with the same watermark the reference takes any; lakekit the newest."""
    ours = tmp_path / "ours"
    shutil.copytree(marked, ours)
    table = lk.open(str(ours))
    table.rollback(watermark=watermark)
    chore(judge, marked, "rollback_to_watermark", millis=watermark)
    reached = {snapshots.latest(lk.open(str(path))._context()).watermark for path in (marked, ours)}
    assert len(reached) == 1
    if watermark >= 250:
        assert files(marked) == files(ours)
        assert judge.read(ours).rows == judge.read(marked).rows
    assert table.snapshots()["snapshot_id"].max() == sum(mark is None or mark <= watermark for mark in MARKS)


def test_before_every_watermark_the_released_engine_goes_too_far(judge, marked):
    table = lk.open(str(marked))
    with pytest.raises(lk.SnapshotNotFound):
        table.rollback(watermark=99)
    assert table.snapshots().height == len(MARKS)
    chore(judge, marked, "rollback_to_watermark", millis=99)
    assert snapshots.latest(table._context()).watermark == 100


def copied(judge, tmp_path: Path, kind: str) -> tuple[lk.Table, lk.Table, lk.Table]:
    """A table that both engines wrote, a clone of its newest snapshot, and one of the tag before its schema changed."""
    options, keys = KINDS[kind]
    cat = lk.connect(tmp_path / "house")
    cat.create_database("db")
    source = cat.create_table("db.t", COLUMNS, primary_keys=keys, partition_keys=["p"], options=options)
    write = source.upsert if keys else source.append
    for turn in range(3):
        write([{"k": k, "p": k % 2, "v": f"{turn}-{k}"} for k in range(turn, 6)])
        if kind != "dynamic":  # its buckets are assigned by a job of its own
            judge.write(source.location, [("+I", (k, k % 2, f"java-{turn}")) for k in range(turn, 9, 3)])
    if kind == "bucketed":
        source.delete("k = 4")
    source.create_tag("early")
    name = "v" if kind == "aggregation" else "text"  # the reference reads no tag from before a column of fields.* got its name
    source.alter(lk.add_column("w", "BIGINT"), *([] if name == "v" else [lk.rename_column("v", name)]))
    write([{"k": 7, "p": 1, name: "late", "w": 5}])
    source.compact(full=True)
    write([{"k": 7, "p": 1, name: "later", "w": None}])
    return source, cat.clone("db.t", "db.u"), cat.clone("db.t", "db.early", at="early")


def told(table: lk.Table, at: str | None = None) -> list[Any]:
    return sorted((("+I", row) for row in table.scan(at=at).collect().rows()), key=repr)


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_reads_a_clone_and_goes_on_with_it(judge, tmp_path, kind):
    source, clone, early = copied(judge, tmp_path, kind)
    for ours, at, position in ((clone, None, {}), (early, "early", {"scan.tag-name": "early"})):
        expected = told(source, at)
        assert expected
        assert told(ours) == expected
        assert sorted(judge.read(ours.location).rows, key=repr) == expected
        assert sorted(judge.read(source.location, options=position).rows, key=repr) == expected
    shutil.rmtree(source.location)
    if kind != "dynamic":
        judge.write(clone.location, [("+I", (7, 1, "java", 9))])
        judge.write(early.location, [("+I", (8, 0, "java"))])
    for table in (clone, early):
        judge.compact(table.location, full=True, options={"write-only": "false"})
        assert table.check(deep=True).ok
        assert sorted(judge.read(table.location).rows, key=repr) == told(table)
    if kind not in {"dynamic", "append", "bucketed"}:
        assert ("+I", (7, 1, "java", 9)) in told(clone)


def names(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    with contextlib.closing(sqlite3.connect(path)) as database:
        tables = ("paimon_tables", "paimon_table_properties", "paimon_database_properties")
        return {table: sorted(database.execute(f"SELECT * FROM {table}").fetchall()) for table in tables}


@pytest.mark.parametrize("asked", ["", "db", "db.t"])
def test_repaired_names_are_the_same(judge, tmp_path, asked):
    house = tmp_path / "house"
    plain = lk.connect(house)
    for name in ("db.t", "db.u", "other.v"):
        plain.create_database(name.partition(".")[0], if_not_exists=True)
        plain.create_table(name, COLUMNS, primary_keys=["k", "p"], partition_keys=["p"], options={"bucket": "1"}, comment="hello")
    (house / "db.db" / "nothing").mkdir()
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/java.db"}
    [answer] = judge.ask("catalog", house, options=options, steps=[["repair", asked]])["answers"]
    assert answer == {"value": None}
    ours = lk.connect(house, metastore="jdbc", uri=f"sqlite:///{tmp_path}/ours.db")
    ours.repair(asked or None)
    found, expected = names(tmp_path / "ours.db"), names(tmp_path / "java.db")
    assert found["paimon_tables"] == expected["paimon_tables"]
    kept = [row for row in expected["paimon_table_properties"] if row[3] != "path"]  # which it does not keep of a table that it makes
    assert found["paimon_table_properties"] == kept != []
    exists = [row[1] for row in expected["paimon_database_properties"] if row[2] == "exists"]
    assert exists == [row[1] for row in found["paimon_database_properties"] if row[2] == "exists"]
