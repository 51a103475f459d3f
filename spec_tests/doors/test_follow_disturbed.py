"""`t.follow` of a table to which something happens below the stream: it goes on rightly, or says what happened and what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lakekit as lk
from lakekit.read import stream
from spec_tests.doors.test_follow import Clock, grown


def made_anew(table: lk.Table) -> None:
    """Snapshot 3 is gone, and another one has its number."""
    table.rollback(2)
    table.upsert([{"k": 9, "v": "n"}])


@pytest.mark.parametrize("begins", [None, 1])
def test_a_rollback_below_a_stream_that_ends_where_it_would_wait(tmp_path, begins):
    """What took the place of a snapshot that was told is told by nobody: the stream ended without a word."""
    table = grown(tmp_path)
    stream = table.follow(begins, until="latest")
    while next(stream).snapshot_id < 3:
        pass
    made_anew(table)
    with pytest.raises(lk.SnapshotNotFound, match="told snapshot 3, and another one has its number now"):
        next(stream)


@pytest.mark.parametrize("begins", ["latest", 4, "a consumer"])
def test_a_rollback_below_a_stream_that_waits_for_its_first_change(tmp_path, begins):
    """A consumer that goes on knows what came before, and the others begin behind it: what took its place would never be told."""
    table = grown(tmp_path)
    table.reset_consumer("me", next_snapshot=4)
    clock = Clock(lambda: made_anew(table), lambda: table.upsert([{"k": 10, "v": "n"}]))
    handle = replace(table._context(), runtime=clock.runtime())
    consumer, start = ("me", None) if begins == "a consumer" else (None, begins)
    with pytest.raises(lk.SnapshotNotFound, match=r"begins behind snapshot 3, and another one has its number now: .*Begin anew"):
        next(stream.follow_table(handle, start, consumer=consumer))


@pytest.mark.parametrize("who", ["another stream of the consumer", "nobody, for it never acknowledged"])
def test_a_consumer_whose_snapshots_expire_is_told_why(tmp_path, who):
    """It was told to follow with a consumer, which it did: another stream moved that one, or it never had a place."""
    table = grown(tmp_path)
    slow = table.follow(1, consumer="me", until="latest")
    next(slow)
    if who.startswith("another"):
        for change in table.follow(1, consumer="me", until="latest"):
            change.ack()
    table.upsert([{"k": 9, "v": "n"}])
    table.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(lk.SnapshotNotFound, match=r"wants snapshot 2, which has expired.* acknowledge what is told, and keep consumer 'me' to one stream"):
        next(slow)
