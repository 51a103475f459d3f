"""The pipeline: whatever stops it, and however often, it ends with the totals of a run that nobody disturbed."""

from __future__ import annotations

import shutil
from datetime import date
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import ExtraMissing, InvalidOption, SnapshotNotFound
from lakekit.spark.pipeline import EventSelection, PipelineLocation, __main__ as program, events, land, run, stages, totals
from spec_tests.conftest import DEEP
from spec_tests.doors.spark.kill import kill_run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FEED = EventSelection(days=7) if DEEP else EventSelection(days=2, flights_per_day=120)
WORDS = ["--days", "7"] if DEEP else ["--days", "2", "--flights", "120"]
FIRST, SECOND = "2013-02-07", "2013-02-08"
TABLES = ("bronze", "silver", "gold")


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> PipelineLocation:
    """A lake after one run. Tests leave it as it is."""
    root = tmp_path_factory.mktemp("undisturbed")
    told: list[str] = []
    found = run(spark, root, FEED, say=told.append)
    assert found.agree, str(found)
    assert [line[:10] for line in told] == [day.isoformat() for day in FEED.each_day()]
    return PipelineLocation(root)


def rows(lake: PipelineLocation) -> list[list[tuple]]:
    """What readers of the three tables see."""
    return [table.scan().collect().sort(pl.all()).rows() for table in (lake.bronze, lake.silver, lake.gold)]


def ids(lake: PipelineLocation) -> dict[str, list[int]]:
    return {name: getattr(lake, name).snapshots()["snapshot_id"].to_list() for name in TABLES}


# ---- events --------------------------------------------------------------------------------------------------------------------------------------


def test_the_feeds_hold_what_makes_feeds_hard() -> None:
    found = events.events(EventSelection(days=3))
    key = [*events.KEY, "ts_ms"]
    assert found.height - found.unique(key).height > 300, "lines that come twice"
    assert found.unique(key).height == found.unique([*key, "op", *events.PAYLOAD, events.ADDED_COLUMN, "before"]).height, "and say the same"
    assert found.group_by(key).agg(pl.col("landed").n_unique()).filter(pl.col("landed") > 1).height > 100, "some of them the day after"
    assert set(found["op"]) == {"c", "u", "d"}
    newest = found.group_by(events.KEY).agg(
        pl.col("ts_ms").max().alias("newest"), pl.col("landed").min().alias("known"), pl.col("op").sort_by("ts_ms").last().alias("last")
    )
    late = found.filter("is_late").join(newest, on=events.KEY).filter((pl.col("ts_ms") < pl.col("newest")) & (pl.col("landed") > pl.col("known")))
    assert set(late["last"]) == {"u", "d"}, "late ones of flights that are there, and of flights that are gone"
    corrected = found.filter((pl.col("own_day") > pl.col("day")) & ~pl.col("is_late"))
    assert (corrected["status"] == "arrived").all()
    assert corrected.height > 50
    assert found.filter(landed=date(2013, 2, 7))[events.ADDED_COLUMN].null_count() == found.filter(landed=date(2013, 2, 7)).height
    assert found.filter(landed=date(2013, 2, 8))[events.ADDED_COLUMN].null_count() < found.filter(landed=date(2013, 2, 8)).height


def test_files_are_the_same_each_time_and_each_day_stands_for_itself(undisturbed, tmp_path):
    first, more = PipelineLocation(tmp_path / "a"), PipelineLocation(tmp_path / "b")
    assert land(first, EventSelection(days=1, flights_per_day=50)) == [date(2013, 2, 7)]
    assert (
        land(more, EventSelection(days=2, flights_per_day=50)) == land(more, EventSelection(days=1, flights_per_day=50)) == [date(2013, 2, 7), date(2013, 2, 8)]
    )
    for name in (events.PLAIN, events.DEBEZIUM):
        assert (first.landing / FIRST / name).read_bytes() == (more.landing / FIRST / name).read_bytes()
        assert events.ADDED_COLUMN.encode() not in (more.landing / FIRST / name).read_bytes()
        assert events.ADDED_COLUMN.encode() in (more.landing / SECOND / name).read_bytes()
    envelope = pl.read_ndjson(more.landing / SECOND / events.DEBEZIUM).group_by("op").agg(pl.col("before", "after").is_null().mean()).sort("op")
    assert envelope.rows() == [("c", 1.0, 0.0), ("d", 0.0, 1.0), ("u", 0.0, 0.0)]
    with pytest.raises(InvalidOption, match="holds other events"):
        land(first, EventSelection(days=1, flights_per_day=60))


def test_what_cannot_be_asked_for(tmp_path, monkeypatch, capsys):
    for feed in ({"days": 0}, {"first_day": date(2012, 12, 31)}, {"first_day": date(2013, 12, 30), "days": 3}, {"flights_per_day": 0}):
        with pytest.raises(InvalidOption, match="least"):
            EventSelection(**feed)
    assert program.main(["--root", str(tmp_path), "--days", "0"]) == 2
    assert "pipeline: 0 days" in capsys.readouterr().err
    assert program.main([]) == 2
    assert "--root" in capsys.readouterr().err
    assert program.main(["--script"]) == 0
    assert capsys.readouterr().out.strip() == program.__file__
    monkeypatch.setattr(events, "find_spec", lambda name: None)
    with pytest.raises(ExtraMissing, match=r"pip install 'lakekit\[pipeline\]'"):
        land(PipelineLocation(tmp_path), FEED)


# ---- a run ---------------------------------------------------------------------------------------------------------------------------------------


def test_a_run_ends_with_the_totals_of_the_files(undisturbed):
    lake, days = undisturbed, [day.isoformat() for day in FEED.each_day()]
    assert lake.silver.tags()["tag"].to_list() == lake.gold.tags()["tag"].to_list() == days
    assert {"plain", "debezium"} == set(lake.bronze.scan().select("feed").unique().collect()["feed"])
    assert lake.bronze.files()["partition"].is_unique().all(), "a file a day is left"
    assert set(lake.silver.files()["level"]) == set(lake.gold.files()["level"]) == {5}
    assert max(map(len, ids(lake).values())) <= stages.RETAINED_SNAPSHOTS
    told = lake.silver.changes(ids(lake)["silver"][0], mode="changelog").select("_row_kind").unique().collect()
    assert set(told["_row_kind"]) == {"+I", "-U", "+U", "-D"}
    assert events.ADDED_COLUMN in lake.gold.scan().collect_schema()
    assert lake.gold.scan(at=days[0]).select(pl.col("flights").sum()).collect().item() < lake.gold.scan().select(pl.col("flights").sum()).collect().item()


def test_another_run_does_nothing(undisturbed, spark):
    before, seen = ids(undisturbed), rows(undisturbed)
    assert run(spark, undisturbed.root, FEED, say=lambda text: None).agree
    assert (ids(undisturbed), rows(undisturbed)) == (before, seen)


def test_totals_that_differ_are_said(undisturbed, spark, tmp_path, monkeypatch, capsys):
    shutil.copytree(undisturbed.root, tmp_path / "lake")
    lake = PipelineLocation(tmp_path / "lake")
    lake.gold.upsert(pl.DataFrame({"day": [date(2013, 2, 7)], "carrier": ["UA"], "flights": [1]}), cast=True)
    found = totals(lake)
    assert not found.agree
    assert found.differences.select("day", "carrier").rows() == [(date(2013, 2, 7), "UA")]
    assert "do not hold" in str(found)
    monkeypatch.setattr(program, "run", lambda *given, **named: found)
    monkeypatch.setattr(program, "start", lambda **given: spark)
    assert program.main(["--root", str(lake.root)]) == 1
    spark.sparkContext.setLogLevel("OFF")
    assert "UA" in capsys.readouterr().out


def test_gold_that_does_not_know_how_far_it_is_stays_as_it_is(spark, tmp_path):
    lake = PipelineLocation(tmp_path)
    lake.gold.upsert(pl.DataFrame({"day": [date(2013, 2, 7)], "carrier": ["UA"], "flights": [1]}), cast=True)
    with pytest.raises(SnapshotNotFound, match="someone else fills it"):
        stages.gold(spark, lake)
    other = PipelineLocation(tmp_path / "other")
    row = pl.DataFrame({"day": [date(2013, 2, 7)], "carrier": ["UA"], "flight": [1], "origin": ["EWR"], "ts_ms": [1]})
    for _ in range(2):
        other.silver.upsert(row, cast=True)
    other.silver.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(SnapshotNotFound, match="begins with snapshot"):
        stages.gold(spark, other)


# ---- stopped -------------------------------------------------------------------------------------------------------------------------------------


class Stopped(BaseException):
    """The driver dies here."""


def test_stopped_after_every_commit_and_tag_and_run_again(undisturbed, spark, tmp_path, monkeypatch):
    shutil.copytree(undisturbed.landing, tmp_path / "landing")
    monkeypatch.setattr(stages, "land", lambda lake, feed: lake.landed())
    monkeypatch.setattr(stages, "compact_and_expire", lambda spark, lake, day: None)  # killed runs have it
    write, create_tag, stops = stages.write, lk.Table.create_tag, []

    def write_and_stop(frame: Any, table: lk.Table, **given: Any) -> None:
        # of silver the rows alone are there, without what its compaction finds out
        write(frame, lk.open(table.location, options={"write-only": "true"}) if table.name == "silver" else table, **given)
        stops.append(table.name)
        raise Stopped

    def tag_and_stop(table: lk.Table, name: str, **given: Any) -> None:
        is_new = name not in set(table.tags()["tag"])
        create_tag(table, name, **given)
        if is_new:
            stops.append(f"{name} of {table.name}")
            raise Stopped

    monkeypatch.setattr(stages, "write", write_and_stop)
    monkeypatch.setattr(lk.Table, "create_tag", tag_and_stop)
    found = None
    while found is None:
        try:
            found = run(spark, tmp_path, EventSelection(days=2), say=lambda text: None)
        except Stopped:
            assert len(stops) < 100
    days = [day.isoformat() for day in FEED.each_day()]
    assert stops == [part for day in days for part in (*TABLES, f"{day} of silver", f"{day} of gold")]
    assert found.agree, str(found)
    assert rows(PipelineLocation(tmp_path)) == rows(undisturbed)


def killed(root: Path, landmark: Path) -> None:
    kill_run(["lakekit.spark.pipeline", "--root", str(root), *WORDS], landmark)


def test_killed_twice_and_run_again(undisturbed, spark, tmp_path):
    killed(tmp_path, tmp_path / "silver" / "snapshot" / "snapshot-1")
    assert not (tmp_path / "gold" / "snapshot" / "snapshot-1").exists()
    killed(tmp_path, tmp_path / "gold" / "tag" / f"tag-{FIRST}")
    assert not (tmp_path / "gold" / "tag" / f"tag-{SECOND}").exists()
    found = run(spark, tmp_path, FEED, say=lambda text: None)
    assert found.agree, str(found)
    assert rows(PipelineLocation(tmp_path)) == rows(undisturbed)
