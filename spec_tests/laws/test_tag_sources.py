"""States that are named by when they were made and by how far they are: tags since a time, tags and rollback by watermark, automatic tags asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import lakekit as lk
from lakekit.maintenance import tags
from lakekit.metadata import snapshots
from lakekit.model.snapshot import NO_WATERMARK
from lakekit.runtime import Runtime

TIMES = (1000, 2000, 2000, 4000, 5000)
MARKS = (None, 20, None, 40, 50)
ALL = {"retain_max": 1, "retain_min": 1, "older_than": "9999-01-01"}


@pytest.fixture
def table(tmp_path):
    """Snapshots 1 to 5 with these times and watermarks."""
    made = lk.create(tmp_path / "t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1", "write-only": "true"})
    for number, (time, mark) in enumerate(zip(TIMES, MARKS, strict=True), 1):
        made.upsert([{"k": number}])
        stamp(made, time_millis=time, watermark=mark)
    return made


def stamp(table, **said):
    """The newest snapshot says this, whoever made it."""
    handle = table._context()
    snapshot = snapshots.latest(handle)
    handle.storage.put(handle.paths.snapshot(snapshot.id), replace(snapshot, **said).to_json())


def instant(ms):
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def named(table):
    return dict(table.tags().select("tag", "snapshot_id").rows())


@pytest.mark.long
@pytest.mark.parametrize(("ms", "expected"), [(0, 1), (1000, 1), (1001, 2), (2000, 2), (2001, 4), (5000, 5)])
def test_a_tag_is_of_the_first_snapshot_since_a_time(table, ms, expected):
    table.create_tag("a", since=instant(ms))
    assert named(table) == {"a": expected}


@pytest.mark.long
@pytest.mark.parametrize(("watermark", "expected"), [(-5, 2), (20, 2), (21, 4), (40, 4), (50, 5)])
def test_a_tag_is_of_the_first_snapshot_that_is_as_far(table, watermark, expected):
    table.create_tag("a", watermark=watermark)
    assert named(table) == {"a": expected}


def test_an_expired_snapshot_that_a_tag_keeps_comes_first(table):
    table.create_tag("kept", at=2)
    table.expire_snapshots(**ALL)
    assert table.snapshots()["snapshot_id"].to_list() == [5]
    for name, how in {"a": {"since": instant(1)}, "b": {"watermark": 1}, "c": {"since": instant(2001)}, "d": {"watermark": 21}}.items():
        table.create_tag(name, **how)
    assert named(table) == {"kept": 2, "a": 2, "b": 2, "c": 5, "d": 5}
    table.rollback("kept")
    assert sorted(table.scan().collect()["k"]) == [1, 2]
    with pytest.raises(lk.SnapshotNotFound, match=r"at or after 1970-01-01 00:00:02.001 UTC; snapshot 2 remains, made at 1970-01-01 00:00:02.000 UTC$"):
        table.create_tag("later", since=instant(2001))
    with pytest.raises(lk.SnapshotNotFound, match="no snapshot with a watermark of 21 or later; its newest watermark is 20"):
        table.create_tag("later", watermark=21)


def test_what_a_tag_cannot_be_of(table):
    for given, why in (
        ({"at": 1, "since": "2024-01-01"}, "give at or since, not both"),
        ({"since": "2024-01-01", "watermark": 1}, "give since or watermark, not both"),
        ({"since": "long ago"}, "since= takes a time"),
    ):
        with pytest.raises(lk.InvalidOption, match=why):
            table.create_tag("a", **given)
    with pytest.raises(
        lk.SnapshotNotFound, match=r"after 9999-12-31 00:00:00.000 UTC; snapshots 1 to 5 remain, made at 1970-.* 00:00:01.000 UTC to 1970-.*5.000 UTC$"
    ):
        table.create_tag("a", since=datetime(9999, 12, 31, tzinfo=UTC))
    table.create_tag("a", watermark=20, retain="1 d")
    with pytest.raises(lk.TagAlreadyExists):
        table.create_tag("a", watermark=50)
    table.create_tag("a", watermark=50, if_not_exists=True)
    assert named(table) == {"a": 2}


@pytest.mark.long
@pytest.mark.parametrize(("watermark", "expected"), [(20, 2), (39, 2), (40, 4), (49, 4), (50, 5), (10**15, 5)])
def test_back_to_a_watermark(table, watermark, expected):
    """A snapshot without a watermark, such as 3, is passed over."""
    told = table.rollback(watermark=watermark, dry_run=True)
    assert told.snapshot_ids == tuple(range(expected + 1, 6))
    assert table.snapshots().height == 5
    assert table.rollback(watermark=watermark).snapshot_ids == told.snapshot_ids
    assert sorted(table.scan().collect()["k"]) == list(range(1, expected + 1))


def test_a_watermark_that_is_before_all_changes_nothing(table):
    with pytest.raises(lk.SnapshotNotFound, match="no snapshot with a watermark of 19 or earlier; its first watermark is 20"):
        table.rollback(watermark=19)
    for given in ({}, {"watermark": 3, "to": 2}):
        with pytest.raises(lk.InvalidOption, match="give a snapshot, a tag or a time, or else a watermark"):
            table.rollback(*([given.pop("to")] if "to" in given else []), **given)
    assert table.snapshots().height == 5
    table.rollback(1)
    stamp(table, watermark=NO_WATERMARK)
    with pytest.raises(lk.SnapshotNotFound, match="its first snapshots have none"):
        table.rollback(watermark=50)


# ---- automatic tags ------------------------------------------------------------------------------------------------------------------------------------


DAY = 86_400_000


def clock(table, ms):
    return replace(table._context(), runtime=Runtime(now_ms=lambda: ms))


def test_automatic_tags_are_made_when_asked(tmp_path):
    options = {"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC", "write-only": "true", "bucket": "1"}
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL"}, primary_keys=["k"], options=options)
    assert table.create_automatic_tags() == []
    for day in (10, 10, 12):
        table.upsert([{"k": day}])
        stamp(table, time_millis=day * DAY + 5)
    assert table.create_automatic_tags() == ["1970-01-10", "1970-01-12"]
    assert named(table) == {"1970-01-10": 1, "1970-01-12": 3}
    assert table.create_automatic_tags() == []


def test_a_tag_that_is_due_gets_a_snapshot_where_forced(tmp_path):
    options = {"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC", "tag.creation-delay": "1 h", "bucket": "1", "write-only": "true"}
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL"}, primary_keys=["k"], options=options)
    table.upsert([{"k": 1}])
    stamp(table, time_millis=10 * DAY + 7_200_000)
    assert tags.create_forced_tags(clock(table, 10 * DAY + 8_000_000)) == ["1970-01-10"]
    assert table.snapshots().height == 1, "nothing more was due"
    assert tags.create_forced_tags(clock(table, 11 * DAY + 3_599_999)) == []
    assert tags.create_forced_tags(clock(table, 11 * DAY + 3_600_000)) == ["1970-01-11"]
    assert named(table) == {"1970-01-10": 1, "1970-01-11": 2}
    assert table.scan(at="1970-01-11").collect().rows() == [(1,)]
    assert table.create_automatic_tags(force=True) != [], "by the clock of today"


@pytest.mark.parametrize("mode", ["none", "batch", "watermark"])
def test_where_the_clock_makes_no_tags_none_is_forced(tmp_path, mode):
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"tag.automatic-creation": mode, "bucket": "1", "write-only": "true"})
    table.upsert([{"k": 1}])
    assert table.create_automatic_tags(force=True) == []
    assert (table.snapshots().height, table.tags().height) == (1, 0)


@pytest.mark.parametrize("mark", [2**63 - 1, -(2**63) + 1, 10**17, 253_402_300_800_000])
def test_a_watermark_that_no_period_has_makes_no_tag(tmp_path, mark):
    """The commit was done, and raised OverflowError: a stream that has an end says so by the greatest watermark there is."""
    options = {"tag.automatic-creation": "watermark", "sink.watermark-time-zone": "Asia/Tokyo", "bucket": "1"}
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL"}, primary_keys=["k"], options=options)
    for identifier, watermark in enumerate((10 * DAY, mark, mark), 1):
        with table.writer(commit_user="job") as writer:
            writer.write([{"k": identifier}])
            table.commit(writer.prepare(), commit_user="job", identifier=identifier, watermark=watermark)
    assert named(table) == {"1970-01-10": 1}
    assert table.create_automatic_tags(force=True) == []


@pytest.mark.parametrize("length", ["0 ms", "36501 d", "106751991167 d"])
def test_a_period_that_is_none(tmp_path, length):
    options = {"tag.automatic-creation": "process-time", "tag.creation-period-duration": length, "bucket": "1", "write-only": "true"}
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL"}, primary_keys=["k"], options=options)
    table.upsert([{"k": 1}])
    for force in (False, True):
        with pytest.raises(lk.InvalidOption, match=r"takes a millisecond to 36500 days|the delay must be shorter"):
            table.create_automatic_tags(force=force)


def test_a_time_before_all_snapshots_is_told_as_one(table):
    """It was told in milliseconds, which nobody can hold against what was asked for."""
    for call in (lambda: table.rollback(instant(-1)), lambda: table.scan(at=instant(-1)), lambda: table.create_tag("a", at=instant(-1))):
        with pytest.raises(
            lk.SnapshotNotFound, match=r"at or before 1969-12-31 23:59:59.999 UTC; snapshots 1 to 5 remain, made at 1970-01-01 00:00:01.000 UTC to"
        ):
            call()
    assert snapshots.format_time(2**62) == f"{2**62} ms since 1970"
