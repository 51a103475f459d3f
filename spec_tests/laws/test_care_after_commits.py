"""What happens by itself after a commit: automatic tags, and expiry of everything that expires. The clock is the test's."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import lakekit as lk
from lakekit.errors import Corrupt, InvalidOption
from lakekit.maintenance import after_commit, branches, expire, tags
from lakekit.metadata import manifest_reader, snapshots
from lakekit.runtime import Runtime
from spec_tests.laws.aged import at, made, named, stamped
from spec_tests.reliability.kept import needed, on_disk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "times", "expected"),
    [
        ({}, ("2023-07-18 12:12", "2023-07-18 23:59", "2023-07-19 00:00", "2023-07-21 05:00"), [("2023-07-17", 1), ("2023-07-18", 3), ("2023-07-20", 4)]),
        ({"tag.creation-delay": "5 s"}, ("2023-07-18 12:12", "2023-07-19 00:00:04.999", "2023-07-19 00:00:05"), [("2023-07-17", 1), ("2023-07-18", 3)]),
        (
            {"tag.automatic-completion": "true"},
            ("2023-07-18 12:12", "2023-07-21 01:00", "2023-07-21 02:00"),
            [("2023-07-17", 1), ("2023-07-18", 2), ("2023-07-19", 3)],
        ),
        (
            {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes"},
            ("2023-07-18 12:12", "2023-07-18 13:00"),
            [("20230718 11", 1), ("20230718 12", 2)],
        ),
        ({"tag.creation-period": "two-hours", "tag.period-formatter": "without_dashes"}, ("2023-07-18 13:12",), [("2023-07-18 10", 1)]),
        ({"tag.creation-period-duration": "15 min"}, ("2023-07-18 13:12", "2023-07-18 13:20"), [("202307181245", 1), ("202307181300", 2)]),
        ({"tag.num-retained-max": "2"}, ("2023-07-18 12:00", "2023-07-19 12:00", "2023-07-20 12:00"), [("2023-07-18", 2), ("2023-07-19", 3)]),
        ({"sink.process-time-zone": "Asia/Tokyo"}, ("2023-07-18 16:00",), [("2023-07-18", 1)]),
        ({"sink.process-time-zone": "GMT+09:00"}, ("2023-07-18 16:00",), [("2023-07-18", 1)]),
        ({"sink.process-time-zone": "-0330"}, ("2023-07-18 03:29",), [("2023-07-16", 1)]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_automatic_tags_are_those_of_the_last_period(options, times, expected, tmp_path):
    table = made(tmp_path / "t", **{"write-only": "true"})
    automatic = {"tag.automatic-creation": "process-time", **options}
    for text in times:
        stamped(table, text)
        tags.create_automatic_tags(table._context().with_options(automatic))
    assert named(table) == expected
    again = made(tmp_path / "once", **{"write-only": "true"})
    stamped(again, *times)
    tags.create_automatic_tags(again._context().with_options(automatic))
    assert named(again) == expected
    assert needed(again.location) == on_disk(again.location)


def test_automatic_tags_look_anew_after_a_rollback(tmp_path):
    table = made(tmp_path / "t", **{"write-only": "true"})
    stamped(table, "2023-07-18 12:00", "2023-07-18 13:00", "2023-07-18 14:00", "2023-07-18 15:00")
    handle = table._context().with_options({"tag.automatic-creation": "process-time"})
    assert tags.create_automatic_tags(handle) == ["2023-07-17"]
    table.rollback(1)
    stamped(table, "2023-07-19 12:00", "2023-07-19 13:00", "2023-07-19 13:00", "2023-07-19 13:00")
    assert tags.create_automatic_tags(handle) == ["2023-07-18"]
    assert named(table) == [("2023-07-17", 1), ("2023-07-18", 2)]


def test_automatic_tags_by_watermark_wait_for_one(tmp_path):
    table = made(tmp_path / "t", **{"write-only": "true"})
    table.append([{"k": 1, "dt": "a"}])
    handle = table._context().with_options({"tag.automatic-creation": "watermark"})
    assert tags.create_automatic_tags(handle) == []
    stamped(table, "2023-07-18 12:12", watermark=True)
    assert tags.create_automatic_tags(handle) == ["2023-07-17"]
    assert named(table) == [("2023-07-17", 2)]


def test_options_of_automatic_tags_that_make_no_sense_are_refused(tmp_path):
    handle = made(tmp_path / "t")._context()
    zones = ({"sink.process-time-zone": zone} for zone in ("Nowhere", "UTC+19", "GMT+08:60", "+5:00", "GMT5", "+0000001"))
    for options in ({"tag.creation-delay": "1 d"}, {"tag.creation-period-duration": "0 ms"}, *zones):
        table = made(tmp_path / str(options), **{"write-only": "true"})
        table.append([{"k": 1, "dt": "a"}])
        with pytest.raises(InvalidOption):
            tags.create_automatic_tags(table._context().with_options({"tag.automatic-creation": "process-time", **options}))
    assert tags.create_automatic_tags(handle) == []


def test_commits_make_the_tags_that_are_due(tmp_path):
    table = made(tmp_path / "t", **{"tag.automatic-creation": "process-time", "tag.default-time-retained": "1 d"})
    for _ in range(3):
        table.append([{"k": 1, "dt": "a"}])
    assert [number for _, number in named(table)] == [1]
    table.with_options({"tag.default-time-retained": "0 ms", "tag.creation-period": "hourly"}).append([{"k": 2, "dt": "a"}])
    assert [number for _, number in named(table)] == [1], "the tag of the hour was over at once"


def test_a_batch_moves_its_tag(tmp_path):
    table = made(tmp_path / "t", **{"tag.automatic-creation": "batch", "tag.batch.customized-name": "newest", "tag.create-success-file": "true"})
    for number in (1, 2):
        table.append([{"k": 1, "dt": "a"}])
        assert named(table) == [("newest", number)]
    assert (tmp_path / "t" / "tag" / "tag-success-file" / "newest_SUCCESS").exists()
    table.delete_tag("newest")
    assert not (tmp_path / "t" / "tag" / "tag-success-file" / "newest_SUCCESS").exists()
    named_by_day = table.with_options({"tag.batch.customized-name": None})
    assert named_by_day is not None
    with table.writer(commit_user="stream") as writer:
        writer.write([{"k": 1, "dt": "a"}])
        writer.commit(1)
    assert named(table) == [], "a stream is no batch"


def test_snapshots_expire_after_commits(tmp_path):
    table = made(tmp_path / "t", **{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3"})
    for number in range(6):
        table.append([{"k": number, "dt": "a"}])
    assert table.snapshots().height <= 3
    assert needed(table.location) == on_disk(table.location)
    assert table.scan().collect().height == 6
    quiet = table.with_options({"write-only": "true"})
    for number in range(3):
        quiet.append([{"k": number, "dt": "a"}])
    assert quiet.snapshots().height > 3
    quiet.compact(full=True)
    assert quiet.snapshots().height <= 3, "a dedicated compaction looks after write-only tables"


def test_snapshots_of_postponed_rows_expire_when_they_are_compacted(tmp_path):
    table = made(tmp_path / "t", **{"bucket": "-2", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    for number in range(3):
        table.append([{"k": number, "dt": "a"}])
    assert table.snapshots()["kind"].to_list() == ["APPEND"] * 3
    table.compact()
    assert table.snapshots()["kind"].to_list() == ["COMPACT"]
    assert table.scan().collect().height == 3
    assert needed(table.location) == on_disk(table.location)


def test_what_is_old_expires_after_a_commit_of_nothing_too(tmp_path):
    table = made(tmp_path / "t", partitioned=True)
    for number in range(3):
        table.append([{"k": number, "dt": "2023-12-30"}])
    table.create_tag("over", retain="0 ms")
    table.reset_consumer("gone", next_snapshot=9)
    later = table.with_options(
        {
            "snapshot.num-retained.min": "1",
            "snapshot.num-retained.max": "2",
            "consumer.expiration-time": "0 ms",
            "partition.expiration-time": "7 d",
            "partition.expiration-check-interval": "0 s",
        }
    )
    time.sleep(0.005)
    assert later.compact().snapshot_ids == ()
    assert table.snapshots()["kind"].to_list() == ["APPEND", "OVERWRITE"]
    assert table.tags().height == table.consumers().height == 0
    assert later.append(table.scan().collect()).snapshot_ids == ()


def test_changelogs_live_longer_and_then_expire_after_commits(tmp_path):
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2", "changelog.num-retained.min": "1", "changelog.num-retained.max": "5"}
    table = made(tmp_path / "t", **options, **{"changelog-producer": "input"})
    for number in range(12):
        table.append([{"k": number, "dt": "a"}])
    handle = table._context()
    newest, kept = snapshots.latest_id(handle), snapshots.changelog_ids(handle)
    assert kept
    assert kept[0] >= newest - 6
    assert needed(table.location) == on_disk(table.location)


def test_what_goes_wrong_afterwards_is_a_warning(tmp_path):
    table = made(tmp_path / "t", **{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    table.append([{"k": 1, "dt": "a"}])
    (tmp_path / "t" / "branch" / "branch-b" / "snapshot").mkdir(parents=True)
    (tmp_path / "t" / "branch" / "branch-b" / "snapshot" / "snapshot-1").write_text('{"version" : 3, "id" : 1}', encoding="utf-8")
    with pytest.warns(UserWarning, match=r"is done; expiring snapshots afterwards failed.*snapshot-1") as warned:
        done = table.append([{"k": 2, "dt": "a"}])
    assert {one.filename for one in warned} == {__file__}
    assert done.snapshot_id == 2
    assert table.snapshots().height == 2


# ---- which snapshots go --------------------------------------------------------------------------------------------------------------------------------


def test_retention_is_as_the_released_engine_counts(tmp_path):
    """ENGINE 5.9 with the snapshot's own time: at most 5, at least 2, one hour."""
    times = ("10:00", "10:20", "10:40", "11:00", "11:20", "11:30", "11:35", "11:36")
    expected = {4: 1, 5: 2, 6: 3, 7: 3, 8: 4}
    table = made(tmp_path / "t", **{"write-only": "true"})
    for number, text in enumerate(times, start=1):
        stamped(table, f"2024-01-01 {text}")
        how = expire.RetentionLimits(max_count=5, min_count=2, since_ms=at(f"2024-01-01 {text}") - 3_600_000, max_expires=50)
        expire.expire_snapshots(table._context(), how)
        if number in expected:
            assert snapshots.earliest_id(table._context()) == expected[number], number
    with pytest.raises(InvalidOption):
        table.expire_snapshots(retain_max=1, retain_min=2)
    with pytest.raises(InvalidOption):
        table.expire_snapshots(retain_max=0, retain_min=0)


def test_consumers_keep_what_they_have_not_read(tmp_path):
    table = made(tmp_path / "t", **{"write-only": "true"})
    for _ in range(6):
        table.append([{"k": 1, "dt": "a"}])
    table.reset_consumer("slow", next_snapshot=4)
    table.reset_consumer("fast", next_snapshot=7)
    far = {"retain_max": 1, "retain_min": 1, "older_than": "9999-01-01"}
    assert table.expire_snapshots(**far, max_deletes=2).snapshot_ids == (1, 2)
    assert table.expire_snapshots(**far).snapshot_ids == (3,)
    only = {"consumer.changelog-only": "true"}
    assert table.with_options(only).expire_snapshots(**far, dry_run=True).snapshot_ids == (), "changelogs that go with their snapshots keep them"
    assert table.with_options({**only, "changelog.num-retained.min": "20"}).expire_snapshots(**far, dry_run=True).snapshot_ids == (4, 5)
    with pytest.raises(InvalidOption):
        table.expire_consumers()
    assert table.expire_consumers(expiration="1 d").consumers == ()
    assert table.expire_consumers(including="s.*", excluding="slow").consumers == ()
    assert table.expire_consumers(including="s.*", dry_run=True).consumers == ("slow",)
    table.reset_consumer("slow")
    with pytest.raises(lk.ConsumerNotFound):
        table.reset_consumer("slow")
    assert table.expire_snapshots(**far).snapshot_ids == (4, 5)


def test_empty_directories_go_where_the_option_says(tmp_path):
    table = made(tmp_path / "t", partitioned=True, **{"write-only": "true", "snapshot.clean-empty-directories": "true"})
    table.append([{"k": 1, "dt": "a"}, {"k": 1, "dt": "b"}])
    table.drop_partitions([{"dt": "a"}])
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="9999-01-01")
    assert not (tmp_path / "t" / "dt=a").exists()
    assert (tmp_path / "t" / "dt=b" / "bucket-0").exists()


# ---- tags ----------------------------------------------------------------------------------------------------------------------------------------------


def test_tags_live_as_long_as_they_are_told(tmp_path):
    table = made(tmp_path / "t", **{"write-only": "true", "tag.default-time-retained": "2 d"})
    table.append([{"k": 1, "dt": "a"}])
    table.create_tag("two days")
    table.create_tag("one hour", retain="1 h")
    handle = table._context()
    tags.create_tag(handle.with_options({"tag.default-time-retained": None}), "for ever")
    now = handle.runtime.now_ms()
    for hours, gone in ((0, ()), (2, ("one hour",)), (49, ("one hour", "two days"))):
        later = replace(handle, runtime=Runtime(now_ms=lambda hours=hours: now + hours * 3_600_000))
        assert tags.expire_tags(later, dry_run=True).tags == gone
    assert table.expire_tags(older_than="2020-01-01").tags == ()
    assert table.expire_tags(older_than="9999-01-01").tags == ("for ever", "one hour", "two days")


def test_a_tag_that_is_moved_lives_as_long_as_it_is_told_or_for_ever(tmp_path):
    table = made(tmp_path / "t", **{"write-only": "true", "tag.default-time-retained": "0 ms"})
    table.append([{"k": 1, "dt": "a"}])
    for name in ("a", "b", "c"):
        table.create_tag(name)
    table.replace_tag("a")
    table.replace_tag("b", retain="1 d")
    assert table.expire_tags(dry_run=True).tags == ("c",)


def test_names_of_tags_and_branches_that_none_can_have(tmp_path):
    table = made(tmp_path / "t")
    table.append([{"k": 1, "dt": "a"}])
    table.create_tag("a")
    for name in ("", "  ", "a/b", "..\\x", "x\n", "x" * 300, "/etc/passwd", ".."):
        with pytest.raises(InvalidOption):
            table.create_tag(name)
        with pytest.raises(InvalidOption):
            table.create_branch(name)
    for name in ("main", "123", " x", "x/../y"):
        with pytest.raises(InvalidOption):
            table.create_branch(name, tag="a")
    table.create_tag("123")
    table.create_tag("main")
    for name in ("a'b\"", "湖", "%2F"):
        table.create_tag(name)
        assert table.scan(at=name).collect().height == 1
    with pytest.raises(lk.TagAlreadyExists):
        table.create_tag("a")
    table.create_tag("a", if_not_exists=True)
    with pytest.raises(lk.TagAlreadyExists):
        table.rename_tag("123", "a")
    for missing in (
        table.delete_tag,
        table.replace_tag,
        lambda name: table.rename_tag(name, "z"),
        lambda name: table.create_branch("b", tag=name),
        table.rollback,
    ):
        with pytest.raises(lk.TagNotFound):
            missing("nobody")
    with pytest.raises(lk.SnapshotNotFound):
        table.create_tag("x", at=9)
    with pytest.raises(lk.SnapshotNotFound):
        made(tmp_path / "empty").create_tag("x")
    with pytest.raises(InvalidOption):
        table.create_tag("x", retain="soon")


def test_branches_that_are_missing_or_in_use(tmp_path):
    table = made(tmp_path / "t")
    table.append([{"k": 1, "dt": "a"}])
    for missing in (table.delete_branch, table.fast_forward, lambda name: table.rename_branch(name, "z")):
        with pytest.raises(lk.BranchNotFound):
            missing("nobody")
        with pytest.raises(InvalidOption):
            missing("main")
    table.create_branch("b")
    with pytest.raises(lk.BranchAlreadyExists):
        table.create_branch("b")
    with pytest.raises(lk.SnapshotNotFound):
        table.fast_forward("b")
    with pytest.raises(InvalidOption):
        table.branch("b").fast_forward("b")
    with pytest.raises(InvalidOption):
        table.with_options({"scan.fallback-branch": "b"}).delete_branch("b")
    table.branch("b").append([{"k": 7, "dt": "b"}])
    assert table.branch("b").scan().collect().rows() == [(7, "b")]
    assert table.delete_branch("b", dry_run=True).snapshot_ids == (1,)
    assert table.branches()["branch"].to_list() == ["b"]
    assert table.delete_branch("b").branches == ("b",)
    assert not (tmp_path / "t" / "branch" / "branch-b").exists()


def test_rollback_goes_to_a_snapshot_a_tag_or_a_time(tmp_path):
    table = made(tmp_path / "t", **{"write-only": "true"})
    for number in range(1, 6):
        table.append([{"k": number, "dt": "a"}])
    table.create_tag("two", at=2)
    table.create_tag("four", at=4)
    assert table.rollback(4, dry_run=True).snapshot_ids == (5,)
    time = table.snapshots()["time"].to_list()
    assert all(first < second for first, second in pairwise(time))
    done = table.rollback(time[2])
    assert (done.snapshot_ids, done.tags) == ((4, 5), ("four",))
    assert table.scan().collect().height == 3
    table.append([{"k": 9, "dt": "b"}])
    assert table.snapshots()["snapshot_id"].to_list() == [1, 2, 3, 4]
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="9999-01-01")
    assert table.rollback("two").snapshot_ids == (4,)
    assert table.snapshots()["snapshot_id"].to_list() == [2]
    assert sorted(table.scan().collect()["k"]) == [1, 2]
    table.append([{"k": 9, "dt": "b"}])
    assert table.snapshots()["snapshot_id"].to_list() == [2, 3]
    assert table.check().ok
    with pytest.raises(lk.SnapshotNotFound):
        table.rollback(1)


def test_nothing_is_done_where_others_are_meant_to(tmp_path):
    table = made(tmp_path / "t", **{"write-only": "true", "tag.automatic-creation": "process-time"})
    done = table.append([{"k": 1, "dt": "a"}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert after_commit.maintain_after_commit(table._context(), done) is done
    assert table.tags().height == 0


def test_how_long_things_stay_is_said_by_options(tmp_path):
    options = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "0 ms", "snapshot.expire.limit": "2", "tag.time-expire-enabled": "false"}
    table = made(tmp_path / "t", **options)
    quiet = table.with_options({"write-only": "true"})
    for number in range(5):
        quiet.append([{"k": number, "dt": "a"}])
    table.create_tag("over", at=1, retain="0 ms")
    table.append([{"k": 9, "dt": "a"}])
    assert table.snapshots()["snapshot_id"].to_list()[0] == 3, "two at once"
    assert named(table) == [("over", 1)]
    table.with_options({"tag.time-expire-enabled": "true", "snapshot.time-retained": "1 h"}).append([{"k": 9, "dt": "a"}])
    assert table.snapshots()["snapshot_id"].to_list()[0] == 3
    assert named(table) == []
    lasting = table.with_options({"changelog.time-retained": "1 h"})
    assert lasting.expire_snapshots(max_deletes=1).snapshot_ids == (3,)
    assert snapshots.changelog_ids(table._context()) == [3]
    table.reset_consumer("old", next_snapshot=9)
    lasting.with_options({"consumer.expiration-time": "0 ms"}).append([{"k": 9, "dt": "a"}])
    assert table.consumers().height == 0


def test_scenario_20_a_tag_keeps_the_files_of_its_snapshot_until_it_goes(tmp_path):
    table = made(tmp_path / "t", **{"write-only": "true"})
    table.append([{"k": 1, "dt": "a"}])
    table.create_tag("a")
    table.overwrite([{"k": 2, "dt": "b"}])
    [kept] = table.files(at="a")["file_name"].to_list()
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="9999-01-01")
    assert table.scan(at="a").collect().rows() == [(1, "a")]
    assert kept in {path.name for path in (tmp_path / "t" / "bucket-0").iterdir()}
    assert table.delete_tag("a").data_file_count == 1
    assert kept not in {path.name for path in (tmp_path / "t" / "bucket-0").iterdir()}
    assert needed(table.location) == on_disk(table.location)


def test_scenario_35_main_goes_forward_to_a_branch(tmp_path):
    table = made(tmp_path / "t", **{"write-only": "true"})
    for number in (1, 2):
        table.append([{"k": number, "dt": "main"}])
    table.create_tag("a", at=1)
    table.create_branch("b", tag="a")
    table.branch("b").append([{"k": 3, "dt": "branch"}])
    table.fast_forward("b")
    assert sorted(table.scan().collect().rows()) == [(1, "main"), (3, "branch")]
    assert table.snapshots()["snapshot_id"].to_list() == [1, 2]
    assert table.check().ok


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("damaged", ["schema/schema-0", "snapshot/snapshot-2", "snapshot/snapshot-3", "tag/tag-v1", "manifest of 3", "list of 3"])
def test_nothing_of_a_damaged_branch_takes_the_place_of_what_is_sound(tmp_path, damaged):
    table = made(tmp_path / "t", **{"write-only": "true"})
    for number in (1, 2):
        table.append([{"k": number, "dt": "a"}])
    table.create_tag("v1")
    table.create_branch("dev", tag="v1")
    there = table.branch("dev")
    there.append([{"k": 3, "dt": "a"}])
    table.append([{"k": 4, "dt": "a"}])
    newest = snapshots.latest(there._context())
    lists = {"list of 3": newest.base_manifest_list, "manifest of 3": manifest_reader.manifest_files(there._context(), newest)[-1].name}
    path = tmp_path / "t" / "manifest" / lists[damaged] if damaged in lists else tmp_path / "t" / "branch" / "branch-dev" / damaged
    sound = path.read_bytes()
    path.write_bytes(sound[: len(sound) // 2])
    before = files_of(tmp_path / "t")
    for how in ({"dry_run": True}, {}):
        with pytest.raises(Corrupt, match=path.name):
            branches.fast_forward(replace(table._context(), runtime=Runtime()), "dev", **how)
        assert files_of(tmp_path / "t") == before
    path.write_bytes(sound)
    table.fast_forward("dev")
    assert sorted(table.scan().collect()["k"]) == [1, 2, 3]


def test_nothing_is_given_up_for_a_snapshot_that_cannot_be_read(tmp_path):
    table = made(tmp_path / "t", **{"write-only": "true"})
    for number in (1, 2, 3):
        table.append([{"k": number, "dt": "a"}])
    target = snapshots.read_snapshot(table._context(), 2)
    for name in (target.delta_manifest_list, manifest_reader.manifest_files(table._context(), target)[-1].name):
        path = tmp_path / "t" / "manifest" / name
        sound = path.read_bytes()
        path.write_bytes(sound[: len(sound) // 2])
        before = files_of(tmp_path / "t")
        with pytest.raises(Corrupt, match=name):
            branches.rollback_to(replace(table._context(), runtime=Runtime()), 2)
        assert files_of(tmp_path / "t") == before
        path.write_bytes(sound)
    table.rollback(2)
    assert sorted(table.scan().collect()["k"]) == [1, 2]


def test_a_table_with_a_fallback_branch_is_written_to(tmp_path):
    table = made(tmp_path / "t", partitioned=True)
    table.create_branch("back")
    table.branch("back").append([{"k": 1, "dt": "old"}, {"k": 1, "dt": "new"}])
    both = table.with_options({"scan.fallback-branch": "back"})
    both.upsert([{"k": 2, "dt": "new"}])
    assert sorted(both.scan().collect().rows()) == [(1, "old"), (2, "new")]
    both.delete("k = 2")
    assert table.scan().collect().height == 0
    assert table.branch("back").scan().collect().height == 2


def test_a_commit_to_a_table_of_many_young_snapshots_lists_none_of_them(tmp_path, monkeypatch):
    """Else a commit would cost more with every one before it."""
    table = lk.create(tmp_path, {"k": "INT"}, primary_keys=["k"], options={"bucket": "1", "snapshot.num-retained.min": "1"})
    for number in range(3):
        table.upsert([{"k": number}])
    listed: list[str] = []
    ids = expire.snapshots.ids
    monkeypatch.setattr(expire.snapshots, "ids", lambda handle: listed.append("snapshots") or ids(handle))
    retained = expire.snapshot_limits(table._context())
    assert expire.is_nothing_expired(table._context(), retained, 3)
    assert listed == []
    for most, since_ms in ((2, retained.since_ms), (retained.max_count, 2**62)):
        asked = expire.override_limits(retained, retain_max=most, retain_min=1, older_than_ms=since_ms, max_deletes=None)
        assert not expire.is_nothing_expired(table._context(), asked, 3)
    limits = expire.override_limits(retained, retain_max=None, retain_min=3, older_than_ms=2**62, max_deletes=None)
    assert expire.is_nothing_expired(table._context(), limits, 3)
    for wrong in ("2", "nine", "7"):
        (tmp_path / "snapshot" / "EARLIEST").write_text(wrong)
        assert not expire.is_nothing_expired(table._context(), retained, 3)
    (tmp_path / "snapshot" / "EARLIEST").unlink()
    assert not expire.is_nothing_expired(table._context(), retained, 3)
