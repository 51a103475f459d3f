"""What a chore is told that makes no sense: refused in words that say what would, and the table is what it was."""

from __future__ import annotations

import shutil
from datetime import timedelta

import numpy as np
import pytest

import lakekit as lk
from lakekit.errors import BranchNotFound, InvalidOption, TableNotFound, TagNotFound
from lakekit.metadata import refs
from spec_tests.doors.test_bad_writes import refused

SCHEMA = {"dt": "STRING", "v": "INT"}
NO_COUNTS = (-1, "2", 1.5, True, "all", None.__class__)


@pytest.fixture
def table(tmp_path):
    made = lk.create(str(tmp_path / "t"), SCHEMA, partition_keys=["dt"])
    for day in ("2024-01-01", "2024-01-02", "2024-01-03"):
        made.append([{"dt": day, "v": 1}])
    return made


@pytest.mark.parametrize("given", NO_COUNTS)
@pytest.mark.parametrize("key", ["retain_max", "retain_min", "max_deletes"])
def test_counts_that_are_none(table, key, given):
    counts = {"retain_max": 1, "retain_min": 1, key: given}
    refused(table, lambda: table.expire_snapshots(**counts), InvalidOption, key)
    refused(table, lambda: table.expire_changelogs(**counts), InvalidOption, key)


@pytest.mark.parametrize("given", NO_COUNTS)
def test_numbers_of_partitions_that_are_none(table, given):
    """-1 dropped all but the newest one."""
    refused(table, lambda: table.expire_partitions(expiration="1 d", max_expires=given), InvalidOption, "max_expires")


def test_numbers_of_numpy_are_counts(table):
    assert table.expire_partitions(expiration="1 d", max_expires=np.int64(2), dry_run=True).partitions == ("dt=2024-01-01", "dt=2024-01-02")
    assert table.expire_snapshots(retain_max=np.int32(1), retain_min=np.int64(1), dry_run=True).snapshot_ids == (1, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda t, age: t.expire_partitions(expiration=age, strategy="update-time"),
        lambda t, age: t.expire_consumers(expiration=age),
        lambda t, age: t.create_tag("v1", retain=age),
        lambda t, age: t.remove_orphans(older_than=age),
        lambda t, age: t.compact(idle=age),
    ],
)
def test_durations_below_zero(table, call):
    """Partitions that were written today went, and a tag was over before it was made."""
    refused(table, lambda: call(table, timedelta(days=-1)), InvalidOption, "below 0")


@pytest.mark.parametrize("given", ["5", 1.5, True, -1, 2**63])
def test_places_of_consumers_that_are_none(table, given):
    """True was written down, after which nobody could read the file: every expiry stopped."""
    refused(table, lambda: table.reset_consumer("c", next_snapshot=given), InvalidOption, "next_snapshot")
    assert table.consumers().is_empty()
    with pytest.raises(InvalidOption, match="cannot name a consumer"):
        table.reset_consumer(5, next_snapshot=1)


def test_a_consumer_that_nobody_can_read_is_forgotten(table, tmp_path, monkeypatch):
    monkeypatch.setattr("lakekit.metadata.metadata_io.WAIT_MS", 0)
    table.reset_consumer("c", next_snapshot=1)
    (tmp_path / "t" / "consumer" / "consumer-c").write_text("{")
    with pytest.raises(lk.Corrupt, match="reset_consumer"):
        table.expire_snapshots(retain_max=1, retain_min=1)
    table.reset_consumer("c")
    assert table.expire_snapshots(retain_max=1, retain_min=1).snapshot_ids == (1, 2)
    with pytest.raises(lk.ConsumerNotFound):
        table.reset_consumer("c")


@pytest.mark.parametrize("given", ["x", ["x"], [None], [5], [{"dt": "a", "hm": "b"}], [{}]])
def test_partitions_to_mark_that_are_none(table, given):
    refused(table, lambda: table.mark_partition_done(given), InvalidOption, "is no partition")


@pytest.mark.parametrize("given", [None, 3, 1.5, b"x"])
def test_names_that_are_no_texts(table, given):
    """They ended in AttributeError, or in a TypeError of Python's own."""
    for call, error in (
        (lambda: table.delete_tag(given), TagNotFound),
        (lambda: table.branch(given), BranchNotFound),
        (lambda: table.create_branch("b", tag=given or 3), TagNotFound),
        (lambda: table.system(given), TableNotFound),
    ):
        refused(table, call, error, "no (system table|tag|branch)")


@pytest.mark.parametrize("given", [None, 3, object()])
def test_what_is_no_list_of_partitions(table, given):
    refused(table, lambda: table.mark_partition_done(given), InvalidOption, "is no partition")
    refused(table, lambda: table.drop_partitions(given), InvalidOption, "a partition is a dict")
    table.mark_partition_done({"dt": "2024-01-01"})
    assert table.drop_partitions({"dt": "2024-01-01"}).removed_file_count == 1


@pytest.mark.parametrize("key", ["timestamp_pattern", "timestamp_formatter"])
@pytest.mark.parametrize("given", [3, b"x", ["yyyy"]])
def test_patterns_of_partitions_that_are_no_texts(table, key, given):
    refused(table, lambda: table.expire_partitions(expiration="1 d", **{key: given}), InvalidOption, key)


@pytest.mark.parametrize("given", ["4", 1.5, None, True])
def test_numbers_of_buckets_that_are_none(tmp_path, given):
    keyed = lk.create(tmp_path / "k", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"})
    keyed.append([{"k": 1}])
    refused(keyed, lambda: keyed.rescale(given), InvalidOption, "buckets")


@pytest.mark.parametrize("key", ["including", "excluding"])
@pytest.mark.parametrize("given", ["(", 5, b"c"])
def test_expressions_that_are_none(table, key, given):
    refused(table, lambda: table.expire_consumers(**{"including": ".*", key: given}), InvalidOption, key)


@pytest.mark.parametrize("name", ["x" * 252, "ü" * 126])
def test_names_that_are_too_long_are_said_to_be(table, name):
    for call in (lambda: table.create_tag(name), lambda: table.create_branch(name), lambda: table.reset_consumer(name, next_snapshot=1)):
        refused(table, call, InvalidOption, "and 255 fit")


@pytest.mark.parametrize("name", ["tag/tag-a", "snapshot/snapshot-1"])
def test_what_keeps_files_and_cannot_be_read_says_what_to_do(table, tmp_path, monkeypatch, name):
    monkeypatch.setattr("lakekit.metadata.metadata_io.WAIT_MS", 0)
    table.create_tag("a", at=2)
    (tmp_path / "t" / name).write_text("{")
    for call in (lambda: table.expire_snapshots(retain_max=1, retain_min=1, dry_run=True), table.remove_orphans):
        with pytest.raises(lk.Corrupt, match=rf"{name}: not JSON.*none is deleted. Remedy: put it back from a copy, or delete it") as told:
            call()
        assert told.value.path == str(tmp_path / "t" / name)


@pytest.mark.parametrize("call", [lambda t: t.expire_snapshots(retain_max=1, retain_min=1), lambda t: t.delete_tag("b")])
def test_a_list_that_is_lost_stops_every_deletion(table, tmp_path, call):
    table.create_tag("a", at=1)
    table.create_tag("b", at=2)
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.append([{"dt": "2024-01-04", "v": 1}])
    lost = refs.read_tag(table._context(), "a").snapshot.delta_manifest_list
    shutil.copytree(tmp_path / "t", tmp_path / "copy")  # of which nothing is remembered
    (tmp_path / "copy" / "manifest" / lost).unlink()
    with pytest.raises(lk.Corrupt, match=r"snapshot 1 of copy names manifest-list.*no file is deleted. Remedy: .*t.delete_tag") as told:
        call(lk.open(tmp_path / "copy"))
    assert told.value.path == str(tmp_path / "copy" / "manifest" / lost)


def test_a_tag_that_cannot_be_read_goes_alone(tmp_path, monkeypatch):
    """Nobody knows which files it needs: they stay, and are orphans where only it needed them. Until it goes nothing else may."""
    monkeypatch.setattr("lakekit.metadata.metadata_io.WAIT_MS", 0)
    table = lk.create(tmp_path / "t", {"k": "INT"}, options={"bucket": "-1", "tag.create-success-file": "true"})
    for number in range(4):
        table.append([{"k": number}])
    table.create_tag("whole", at=1)
    table.create_tag("torn", at=2)
    torn = tmp_path / "t" / "tag" / "tag-torn"
    torn.write_bytes(torn.read_bytes()[:40])
    before = sorted(path for path in (tmp_path / "t").rglob("*") if path.is_file())
    with pytest.raises(lk.Corrupt, match="tag-torn"):
        table.delete_tag("whole")
    assert table.delete_tag("torn", dry_run=True).tags == ("torn",)
    assert sorted(path for path in (tmp_path / "t").rglob("*") if path.is_file()) == before
    gone = table.delete_tag("torn")
    assert (gone.tags, gone.data_file_count, gone.manifest_file_count) == (("torn",), 0, 0)
    assert {path.name for path in before if not path.exists()} == {"tag-torn", "torn_SUCCESS"}
    assert table.tags()["tag"].to_list() == ["whole"]
    assert table.check(deep=True).ok
    table.delete_tag("whole")
    with pytest.raises(lk.TagNotFound):
        table.delete_tag("torn")
