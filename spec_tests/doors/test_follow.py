"""`t.follow` as its user meets it: a state, then changes as they come, places of consumers, ends, and what no stream can tell."""

from __future__ import annotations

import multiprocessing
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

import lakekit as lk
from lakekit.metadata import snapshots
from lakekit.read import stream as following
from lakekit.runtime import REAL_RUNTIME

COLUMNS = {"k": "INT", "v": "STRING"}
KEY = {"primary_keys": ["k"]}


def grown(path, **options: str) -> lk.Table:
    """Three commits: two keys, one of them again, and a delete."""
    table = lk.create(path, COLUMNS, **KEY, options={"bucket": "1", **options})
    table.upsert([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    table.upsert([{"k": 1, "v": "c"}])
    table.upsert([{"k": 2, "v": None, "_row_kind": "-D"}], row_kind="_row_kind")
    return table


def told(stream) -> list[tuple[int, str, list[tuple[str, int, str]]]]:
    return [(change.snapshot_id, change.kind, sorted(change.frame.collect().rows())) for change in stream]


def replayed(rows: dict[int, str], frame: pl.DataFrame) -> None:
    """What a user does with changes."""
    for kind, k, v in frame.rows():
        if kind in ("+I", "+U"):
            rows[k] = v
        else:
            rows.pop(k, None)


def test_a_state_and_then_what_comes(tmp_path):
    table = grown(tmp_path)
    stream = table.follow(until="latest")
    first = next(stream)
    assert (first.snapshot_id, first.kind, first.frame.collect().rows()) == (3, "FULL", [("+I", 1, "c")])
    table.upsert([{"k": 3, "v": "d"}])
    table.compact(full=True)
    table.upsert([{"k": 4, "v": "e"}])
    assert told(stream) == [(4, "APPEND", [("+I", 3, "d")]), (6, "APPEND", [("+I", 4, "e")])]


def test_from_a_snapshot_a_time_or_now(tmp_path):
    table = grown(tmp_path)
    second = [(2, "APPEND", [("+I", 1, "c")]), (3, "APPEND", [("-D", 2, None)])]
    assert told(table.follow(2, until="latest")) == second
    assert told(table.follow(2, until=2)) == second[:1]
    times = table.snapshots().sort("snapshot_id")["time"].to_list()
    assert told(table.follow(times[1], until=times[1])) == second[:1]
    assert told(table.follow(times[0] - timedelta(days=1), until="latest"))[0][0] == 1
    now = table.follow("latest", until="latest")
    table.upsert([{"k": 5, "v": "f"}])
    assert told(now) == [(4, "APPEND", [("+I", 5, "f")])]


def test_a_changelog_is_told_where_there_is_one(tmp_path):
    table = grown(tmp_path, **{"changelog-producer": "lookup"})
    rows: dict[int, str] = {}
    kinds = set()
    for change in table.follow(1, until="latest"):
        replayed(rows, frame := change.frame.collect())
        kinds |= set(frame["_row_kind"])
    assert rows == {1: "c"}
    assert kinds == {"+I", "-U", "+U", "-D"}


def test_filters_and_columns_reach_the_rows(tmp_path):
    change = next(grown(tmp_path).follow(1))
    assert change.frame.filter(pl.col("k") == 2).select("v").collect().rows() == [("b",)]
    assert change.frame.collect_schema().names() == ["_row_kind", "k", "v"]


@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
def test_a_consumer_goes_on_where_it_was(tmp_path, mode):
    """Both modes keep the place of the slowest reader that acknowledged, and here there is one."""
    table = grown(tmp_path, **{"consumer.mode": mode})
    stream = table.follow(1, consumer="me", until="latest")
    first = next(stream)
    assert table.consumers().is_empty()
    first.ack()
    assert table.consumers().rows() == [("me", 2)]
    next(stream)  # told, and not acknowledged
    again = list(table.follow("latest", consumer="me", until="latest"))
    assert [change.snapshot_id for change in again] == [2, 3]
    again[1].ack()
    again[0].ack()  # a place never goes back
    assert table.consumers().rows() == [("me", 4)]
    table.compact(full=True)
    assert told(table.follow(consumer="me", until="latest")) == []
    assert told(table.follow(4, consumer="new", until="latest")) == []
    assert table.consumers().rows() == [("me", 5), ("new", 5)]  # a compaction tells nothing, and need not be kept for it
    assert told(table.follow(1, consumer="me", until=1, options={"consumer.ignore-progress": "true"}))[0][0] == 1
    assert told(table.follow(until="latest", options={"consumer-id": "me"})) == []


def test_a_consumer_that_begins_with_now_keeps_it(tmp_path):
    """What is committed between two streams is not lost, though the first one had nothing to acknowledge."""
    table = grown(tmp_path)
    assert told(table.follow("latest", consumer="me", until="latest")) == []
    assert table.consumers().rows() == [("me", 4)]
    table.upsert([{"k": 7, "v": "g"}])
    assert told(table.follow("latest", consumer="me", until="latest")) == [(4, "APPEND", [("+I", 7, "g")])]


@pytest.mark.parametrize("place", [True, 1.5, "1", -1, 2**63])
def test_places_that_no_consumer_has(tmp_path, place):
    """A file that says them would be one that nobody reads: no consumer could be listed, no snapshot expire."""
    table = grown(tmp_path)
    with pytest.raises(lk.InvalidOption, match="next_snapshot"):
        table.reset_consumer("me", next_snapshot=place)
    assert table.consumers().is_empty()
    with pytest.raises(lk.InvalidOption, match="cannot name a consumer"):
        table.reset_consumer(5, next_snapshot=1)


def test_a_consumer_whose_snapshots_are_gone_says_so(tmp_path):
    table = grown(tmp_path)
    next(table.follow(1, consumer="me")).ack()
    (tmp_path / "snapshot" / "snapshot-1").unlink()
    (tmp_path / "snapshot" / "snapshot-2").unlink()
    with pytest.warns(UserWarning, match="consumer 'me' wanted snapshot 2 of .*; those before 3 are gone") as warned:
        assert [change.snapshot_id for change in table.follow(consumer="me", until="latest")] == [3]
    assert {one.filename for one in warned} == {__file__}


def test_a_snapshot_that_expires_before_it_is_reached(tmp_path):
    table = grown(tmp_path)
    stream = table.follow(1)
    next(stream)
    for number in (1, 2):
        (tmp_path / "snapshot" / f"snapshot-{number}").unlink()
    with pytest.raises(lk.SnapshotNotFound, match=r"wants snapshot 2, which has expired.*consumer"):
        next(stream)


def test_a_table_that_was_rolled_back_under_a_stream(tmp_path):
    table = grown(tmp_path)
    stream = table.follow(3)
    next(stream)
    for number in (2, 3):
        (tmp_path / "snapshot" / f"snapshot-{number}").unlink()
    (tmp_path / "snapshot" / "LATEST").write_text("1")
    with pytest.raises(lk.SnapshotNotFound, match="expects snapshot 4, and the newest is 1"):
        next(stream)


def test_a_place_ahead_of_the_table(tmp_path):
    table = grown(tmp_path)
    with pytest.raises(lk.SnapshotNotFound, match=r"expects snapshot 9, and the newest is 3.*or begins it ahead of the table\? Begin anew with start="):
        next(table.follow(9))
    table.reset_consumer("me", next_snapshot=9)
    with pytest.raises(lk.SnapshotNotFound, match=r"t\.reset_consumer\('me'\)"):
        next(table.follow(1, consumer="me"))


def test_a_table_that_is_dropped_under_a_stream(tmp_path):
    """It would be waited for, for ever."""
    for path, made in ((tmp_path / "grown", grown), (tmp_path / "empty", lambda path: lk.create(path, COLUMNS, **KEY, options={"bucket": "1"}))):
        table = made(path)
        drop = lambda: shutil.rmtree(path)  # noqa: B023, E731 - dropped in this turn
        stream = following.follow_table(replace(table._context(), runtime=Clock(drop, lambda: None).runtime()), "latest")
        with pytest.raises(lk.TableNotFound, match="there is no such folder"):
            next(stream)


@pytest.mark.parametrize("columns", [COLUMNS, {"a": "STRING", "b": "DOUBLE"}])
def test_a_table_that_is_made_anew_under_a_stream(tmp_path, columns):
    """Its snapshots have the numbers that are waited for, and its columns other meanings."""
    table = grown(tmp_path / "t")
    stream = table.follow(1, poll=0)
    next(stream)
    shutil.rmtree(tmp_path / "t")
    anew = lk.create(tmp_path / "t", columns, primary_keys=list(columns)[:1], options={"bucket": "1"})
    for number in range(3):
        anew.upsert([dict(zip(columns, (number, "a") if columns == COLUMNS else (str(number), 1.0), strict=True))])
    with pytest.raises(lk.SchemaChanged, match=r"made anew.*call t\.follow\(\) again"):
        next(stream)


def test_an_end_that_no_snapshot_reaches(tmp_path):
    empty = lk.create(tmp_path / "empty", COLUMNS, **KEY, options={"bucket": "1"})
    for until in (0, -1):
        assert told(following.follow_table(replace(empty._context(), runtime=Clock().runtime()), 1, until=until)) == []
        assert told(grown(tmp_path / str(until)).follow(1, until=until)) == []


def test_times_at_the_ends_of_the_calendar(tmp_path):
    table = grown(tmp_path)
    assert [one.snapshot_id for one in table.follow(datetime.min, until=3)] == [1, 2, 3]  # noqa: DTZ901 - naive ones are what is asked with
    assert told(table.follow(1, until=datetime.min)) == []  # noqa: DTZ901
    with pytest.raises(lk.SnapshotNotFound, match="no snapshot at or before"):
        table.scan(at=datetime.min)  # noqa: DTZ901
    assert table.scan(at=datetime.max).collect().rows() == [(1, "c")]  # noqa: DTZ901


def test_a_producer_that_changes_under_a_stream(tmp_path):
    """From the first snapshot with the new options on, the stream tells what a new one would."""
    table = grown(tmp_path / "to", **{"changelog-producer": "input"})
    stream = table.follow(3, until="latest")
    next(stream)
    table.alter(lk.set_option("changelog-producer", "none"))
    table.upsert([{"k": 7, "v": "g"}])
    assert told(stream) == [(4, "APPEND", [("+I", 7, "g")])]
    table = grown(tmp_path / "from")
    stream = table.follow(3, until="latest")
    next(stream)
    table.alter(lk.set_option("changelog-producer", "input"))
    table.upsert([{"k": 7, "v": "g", "_row_kind": "-U"}], row_kind="_row_kind")
    assert told(stream) == [(4, "APPEND", [("-U", 7, "g")])]


def test_a_stream_that_may_not_go_on_with_new_options(tmp_path):
    how = {"bucket": "1", "merge-engine": "partial-update", "changelog-producer": "lookup"}
    table = lk.create(tmp_path, COLUMNS, **KEY, options=how)
    table.upsert([{"k": 1, "v": "a"}])
    stream = table.follow(1)
    next(stream)
    table.alter(lk.set_option("changelog-producer", "none"))
    table.upsert([{"k": 1, "v": None}])
    with pytest.raises(lk.InvalidOption, match="continuous reading is not supported"):
        next(stream)


def test_a_start_by_time_counts_long_lived_changelogs(tmp_path):
    kept = {"snapshot.num-retained.min": "1", "changelog.num-retained.min": "3", "changelog.num-retained.max": "9", "changelog-producer": "input"}
    table = lk.create(tmp_path, COLUMNS, **KEY, options={"bucket": "1", "write-only": "true", **kept})
    first = REAL_RUNTIME.now_ms() - 60_000
    for number in range(5):
        table.upsert([{"k": number}])
        handle = table._context()
        snapshot = replace(snapshots.latest(handle), time_millis=first + number * 1000)
        handle.storage.put(handle.paths.snapshot(snapshot.id), snapshot.to_json())
    table.expire_snapshots(retain_max=2, retain_min=1)
    assert snapshots.changelog_ids(table._context()) == [1, 2, 3]

    def since(after_ms: int) -> dict[str, str]:
        return {"scan.creation-time-millis": str(first + after_ms)}

    for after_ms, told in ((1, [2, 3, 4, 5]), (2000, [3, 4, 5]), (3000, [4, 5]), (3001, [5])):
        assert [one.snapshot_id for one in table.follow("from-creation-timestamp", until="latest", options=since(after_ms))] == told
    assert table.with_options(since(3000)).scan().collect().height == 4
    with pytest.raises(lk.SnapshotNotFound, match=r"snapshot 3 .*is gone"):
        table.with_options(since(2000)).scan().collect()


@pytest.mark.parametrize(
    ("keys", "options", "why"),
    [
        (["k"], {"changelog-producer": "lookup"}, "twice"),
        (["k"], {"changelog-producer": "full-compaction"}, "twice"),
        ([], {"bucket": "-1"}, "streaming-read-append-overwrite"),
    ],
)
def test_overwrites_that_would_be_told_twice_or_never_are_refused(tmp_path, keys, options, why):
    """A table with both options cannot be made; with a stream's own options it is no better."""
    t = lk.create(str(tmp_path / "t"), {"k": "INT NOT NULL"}, primary_keys=keys, options={"bucket": "1", **options})
    with pytest.raises(lk.InvalidOption, match=why):
        t.follow(options={"streaming-read-overwrite": "true"})


@pytest.mark.parametrize("engine", ["partial-update", "aggregation", "first-row"])
def test_parts_of_rows_are_refused_before_any_row(tmp_path, engine):
    table = lk.create(tmp_path, COLUMNS, **KEY, options={"bucket": "1", "merge-engine": engine})
    with pytest.raises(lk.InvalidOption, match=r"continuous reading is not supported.*'lookup'") as refused:
        table.follow()
    for producer in ("lookup", "full-compaction", "input"):  # what it names works, and what works is named
        try:
            table.alter(lk.set_option("changelog-producer", producer))
            table.follow()
        except lk.InvalidOption:
            assert f"'{producer}'" not in refused.value.message
        else:
            assert f"'{producer}'" in refused.value.message


@pytest.mark.parametrize("begins", [None, 2], ids=["state", "snapshot 2"])
def test_a_rollback_below_a_stream_is_said_whatever_came_since(tmp_path, begins):
    """The numbers go on where the stream stands, and rows that it told are gone: it would tell the new ones as if those stood."""
    table = grown(tmp_path)
    stream = table.follow(begins, until="latest")
    changes = [next(stream)] + ([next(stream)] if begins else [])
    assert changes[-1].snapshot_id == 3
    table.rollback(1)
    for k in range(10, 14):
        table.upsert([{"k": k, "v": "n"}])
    with pytest.raises(lk.SnapshotNotFound, match=r"told snapshot 3, and another one has its number now: the table was rolled back.*Begin anew"):
        next(stream)
    assert [change.kind for change in table.follow(until="latest")] == ["FULL"]


def test_main_moved_forward_below_a_stream_is_said(tmp_path):
    table = grown(tmp_path)
    table.create_tag("first", at=1)
    table.create_branch("other", tag="first")
    for k in range(20, 24):
        table.branch("other").upsert([{"k": k, "v": "o"}])
    stream = table.follow(consumer="mine", until="latest")
    next(stream).ack()
    table.fast_forward("other")
    with pytest.raises(lk.SnapshotNotFound, match=r"told snapshot 3.*moved forward to a branch.*t\.reset_consumer\('mine'\)"):
        next(stream)


@pytest.mark.long
@pytest.mark.parametrize(
    ("start", "how", "said"),
    [
        ("incremental", {}, "not something a stream begins with"),
        ("latest-delta", {}, "not something a stream begins with"),
        ("yesterday", {}, "start is one of latest-full"),
        ("from-snapshot", {}, "begins at a scan.snapshot-id"),
        ("from-timestamp", {}, "set scan.timestamp-millis or scan.timestamp"),
        ("from-creation-timestamp", {}, "set scan.creation-time-millis"),
        ("from-file-creation-time", {}, "set scan.file-creation-time-millis"),
        (None, {"options": {"scan.tag-name": "v1"}}, "Cannot scan from tag in streaming mode"),
        (None, {"options": {"scan.snapshot-id": "1", "scan.timestamp-millis": "5"}}, "each name a snapshot"),
        (None, {"options": {"incremental-between": "1,2"}}, "t.changes"),
        (None, {"until": "tomorrow"}, "until is 'latest'"),
        (None, {"poll": -1}, "poll is a time in seconds"),
        *((None, {"consumer": name}, "cannot name a consumer") for name in ("a/b", "", " ", "..", "c" * 250, 5, b"x")),
        (None, {"options": {"consumer-id": ""}}, "cannot name a consumer"),
    ],
)
def test_what_is_no_stream(tmp_path, start, how, said):
    table = grown(tmp_path)
    with pytest.raises(lk.InvalidOption, match=said):
        table.follow(start, **how)


def test_a_state_behind_the_end(tmp_path):
    with pytest.raises(lk.InvalidOption, match="behind its end"):
        next(grown(tmp_path).follow(until=1))


def test_a_column_that_is_no_more_what_it_was(tmp_path):
    table = grown(tmp_path)
    stream = table.follow(3, until="latest")
    assert told([next(stream)]) == [(3, "APPEND", [("-D", 2, None)])]
    table.alter(lk.add_column("more", "INT"))
    table.upsert([{"k": 7, "v": "g", "more": 1}])
    assert told([next(stream)]) == [(4, "APPEND", [("+I", 7, "g")])]
    table.alter(lk.drop_column("v"))
    table.upsert([{"k": 8, "more": 2}])
    with pytest.raises(lk.SchemaChanged, match=r"'v' .* when follow\(\) was called and was dropped; call t.follow\(\) again"):
        next(stream)


def test_overwrites_of_append_tables_are_told_where_they_are_asked_for(tmp_path):
    table = lk.create(tmp_path, COLUMNS)
    table.append([{"k": 1, "v": "a"}])
    table.overwrite([{"k": 9, "v": "z"}])
    assert told(table.follow(2, until="latest")) == []
    assert told(table.follow(2, until="latest", options={"streaming-read-append-overwrite": "true"})) == [(2, "OVERWRITE", [("+I", 9, "z")])]


def test_overwrites_are_told_where_they_are_asked_for(tmp_path):
    table = grown(tmp_path)
    table.overwrite([{"k": 9, "v": "z"}])
    assert told(table.follow(4, until="latest")) == []
    assert told(table.follow(4, until="latest", options={"streaming-read-overwrite": "true"})) == [(4, "OVERWRITE", [("+I", 9, "z"), ("-D", 1, "c")])]


def test_overwrites_tell_no_postponed_rows_where_a_changelog_will(tmp_path):
    table = lk.create(tmp_path, COLUMNS, **KEY, options={"bucket": "-2", "changelog-producer": "input", "streaming-read-overwrite": "true"})
    table.upsert([{"k": 1, "v": "a"}])
    table.overwrite([{"k": 9, "v": "z"}])
    assert [rows for *_, rows in told(table.follow(1, until="latest")) if rows] == []
    table.compact()
    table.overwrite([{"k": 7, "v": "y"}])
    assert [rows for *_, rows in told(table.follow(1, until="latest")) if rows] == [[("+I", 9, "z")], [("-D", 9, "z")]]


def test_overwrites_that_expired_are_told_of_long_lived_changelogs(tmp_path):
    """Which keep the files of the rows, and not where dynamic buckets had their keys."""
    kept = {"bucket": "-1", "write-only": "true", "snapshot.num-retained.min": "1", "changelog.num-retained.min": "3", "changelog.num-retained.max": "9"}
    table = lk.create(tmp_path / "t", COLUMNS, **KEY, options={"streaming-read-overwrite": "true", **kept})
    for k in range(1, 5):
        table.overwrite([{"k": k, "v": "z"}])
    table.expire_snapshots(retain_max=1, retain_min=1)
    moved = (tmp_path / "t").rename(tmp_path / "moved")  # where nothing is remembered
    assert [rows for *_, rows in told(lk.open(moved).follow(2, until="latest"))] == [[("+I", k, "z"), ("-D", k - 1, "z")] for k in (2, 3, 4)]


def test_watermarks_end_a_stream(tmp_path):
    table = lk.create(tmp_path, COLUMNS, **KEY, options={"bucket": "1"})
    for turn in (10, 20, 30):
        with table.writer(commit_user="w") as writer:
            writer.write([{"k": turn, "v": "a"}])
            table.commit(writer.prepare(), commit_user="w", identifier=turn, watermark=turn)
    bounded = {"scan.bounded.watermark": "20"}
    assert [(change.snapshot_id, change.watermark) for change in table.follow(1, options=bounded)] == [(1, 10), (2, 20)]


class Clock:
    """A world whose waiting lets something happen."""

    def __init__(self, *happens) -> None:
        self.happens, self.waited, self.time_ms = list(happens), [], 0

    def wait(self, duration_ms: float) -> None:
        self.waited.append(duration_ms)
        self.time_ms += duration_ms
        self.happens.pop(0)()

    def runtime(self):
        return replace(REAL_RUNTIME, wait_ms=self.wait)


def test_it_waits_and_looks_again(tmp_path):
    table = lk.create(tmp_path, COLUMNS, **KEY, options={"bucket": "1", "continuous.discovery-interval": "3 s"})
    clock = Clock(lambda: None, lambda: table.upsert([{"k": 1, "v": "a"}]), lambda: None, lambda: table.upsert([{"k": 2, "v": "b"}]))
    handle = replace(table._context(), runtime=clock.runtime())
    stream = following.follow_table(handle, None, until=2)
    assert told(stream) == [(1, "FULL", [("+I", 1, "a")]), (2, "APPEND", [("+I", 2, "b")])]
    assert clock.waited == [3000] * 4
    assert told(following.follow_table(replace(handle, runtime=Clock().runtime()), 1, until=2, poll=timedelta(seconds=1))) != []


def test_an_empty_table_is_followed_from_its_first_snapshot(tmp_path):
    table = lk.create(tmp_path, COLUMNS, **KEY, options={"bucket": "1"})
    assert told(table.follow(until="latest")) == []
    assert told(table.follow(until=datetime.now(UTC) - timedelta(hours=1))) == []
    stream = table.follow("latest", until="latest")
    table.upsert([{"k": 1, "v": "a"}])
    assert told(stream) == [(1, "APPEND", [("+I", 1, "a")])]


def test_young_snapshots_are_waited_for(tmp_path):
    table = grown(tmp_path)
    handle = table._context().with_options({"streaming.read.snapshot.delay": "1 h"})
    late = table.snapshots()["time"].max() + timedelta(hours=2)
    clock = Clock(*[lambda: None] * 2)
    runtime = replace(clock.runtime(), now_ms=lambda: int(late.timestamp() * 1000) if clock.waited else int(late.timestamp() * 1000) - 3 * 3_600_000)
    assert told(following.follow_table(replace(handle, runtime=runtime), 3, until=3)) == [(3, "APPEND", [("-D", 2, None)])]
    assert clock.waited == [10_000]


def test_a_change_is_shown_without_reading_it(tmp_path):
    change = next(grown(tmp_path).follow(1))
    for path in tmp_path.rglob("data-*"):
        path.unlink()
    assert "snapshot 1 APPEND" in repr(change)
    assert "snapshot 1 APPEND" in change._repr_html_()
    change.ack()


def _write(path: str, turns: int) -> None:
    table = lk.open(path)
    for turn in range(turns):
        table.upsert([{"k": k, "v": f"{turn}.{k}"} for k in range(turn % 5, 20, 3)])
        if turn % 4 == 3:
            table.delete(f"k = {turn % 20}")
    table.upsert([{"k": -1, "v": "over"}])


@pytest.mark.long
@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_one_process_writes_and_another_follows(tmp_path, producer):
    table = lk.create(tmp_path / "t", COLUMNS, **KEY, options={"bucket": "2", "changelog-producer": producer})
    writer = multiprocessing.get_context("spawn").Process(target=_write, args=(str(tmp_path / "t"), 30))
    writer.start()
    rows: dict[int, str] = {}
    for change in table.follow(1, consumer="me", poll=0.01):
        replayed(rows, change.frame.collect())
        change.ack()
        if -1 in rows:
            break
    writer.join()
    assert writer.exitcode == 0
    assert rows == dict(table.scan().collect().rows())


@pytest.mark.parametrize("producer", ["none", "input"])
def test_the_first_state_merges_level_0_with_rows_under_vectors(tmp_path, producer):
    """A batch read waits for level 0 to be compacted, a stream does not: its first state has one row a key, and none that was deleted (`splitForBatch`)."""
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": producer}
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options=options)
    table.upsert(pl.DataFrame({"k": [1, 2, 3], "v": [0, 0, 0]}))
    table.compact(full=True)
    only_adds = table.with_options({"write-only": "true"})
    only_adds.upsert(pl.DataFrame({"k": [2, 4], "v": [1, 1]}))
    only_adds.upsert(pl.DataFrame({"k": [3], "v": [0], "op": ["-D"]}), row_kind="op")
    assert table.files()["level"].to_list().count(0) == 2
    [first] = list(table.follow("latest-full", until="latest"))
    assert sorted(first.frame.collect().rows()) == [("+I", 1, 0), ("+I", 2, 1), ("+I", 4, 1)]
    assert sorted(table.scan().collect().rows()) == [(1, 0), (2, 0), (3, 0)], "and a batch read goes on waiting"
