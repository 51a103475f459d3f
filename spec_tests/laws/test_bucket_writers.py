"""All writers of a table: they share memory, rest, fail and are dropped together, and leave nothing behind."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import polars as pl
import pytest

import lakekit as lk
from lakekit.bucket import compaction
from lakekit.bucket.restore import SnapshotBuckets
from lakekit.data_file.reader import scan_files
from lakekit.errors import StorageFailed
from lakekit.format.polars_types import polars_schema
from lakekit.metadata import snapshots
from lakekit.metadata.table_context import open_context
from lakekit.parallel import map_sequentially
from lakekit.storage.memory import MemoryStorage
from lakekit.write.table_writers import BucketWriters
from spec_tests.laws.bucket_rows import EMPTY, commit, held, read, rows, stored, table, writer

# ---- all writers of a table ----------------------------------------------------------------------------------------------------------------------------


def test_all_buckets_share_the_memory_and_the_biggest_gives_first():
    handle = table({"k": "BIGINT NOT NULL", "v": "BIGINT"}, bucket="4", write_buffer_size="40 kb", write_only="true")
    writers = BucketWriters(handle, commit_user="u")
    for start in range(0, 10_000, 1000):
        frame = pl.DataFrame({"k": range(start, start + 1000), "v": range(1000)}).with_columns(pl.lit(0, pl.Int8).alias("_VALUE_KIND"))
        writers.write(frame)
        assert writers.memory_bytes <= 40 * 1024
    messages = writers.prepare()
    assert sorted(message.bucket for message in messages) == [0, 1, 2, 3]
    assert all(len(message.new_files) == 1 for message in messages), "spilled rows are one sorted run in the end"
    commit(handle, messages)
    assert read(handle).sort("k").equals(pl.DataFrame({"k": range(10_000), "v": [n % 1000 for n in range(10_000)]}))
    writers.abort()


def test_a_small_bucket_does_not_keep_alive_what_a_big_one_gave_back():
    handle = table({"p": "INT NOT NULL", "k": "INT NOT NULL"}, ("p", "k"), ("p",), write_buffer_size="100 kb", write_only="true")
    writers = BucketWriters(handle, commit_user="u")
    writers.write(rows(handle, *((p, 0, 0) for p in range(5))))
    cold = [one for (partition, _), one in writers._open.items() if partition[12:13] != b"\0"]
    given_back = 0
    for n in range(40):
        frame = pl.DataFrame({"p": [0] * 2000 + [1, 2, 3, 4], "k": [*range(2000), n, n, n, n]}, schema=polars_schema(handle.schema.fields))
        before = sum(one.memory_bytes for one in cold)
        writers.write(frame.with_columns(pl.lit(0, pl.Int8).alias("_VALUE_KIND")))
        given_back += sum(one.memory_bytes for one in cold) < before
    assert given_back >= 2
    assert sum(file.row_count for message in writers.prepare() for file in message.new_files) == 2000 + 4 * 40
    writers.abort()


def test_rows_are_merged_before_they_find_their_bucket():
    handle = table(local_merge_buffer_size="1 mb", changelog_producer="input")
    writers = BucketWriters(handle, commit_user="u")
    writers.write(rows(handle, (1, "a", 0), (2, "b", 0)))
    writers.write(rows(handle, (1, "c", 2)))
    assert not writers.is_idle
    [message] = writers.prepare()
    assert held(handle, message.changelog_files) == [(1, "c", 0, 2), (2, "b", 1, 0)]
    writers.abort()


def test_a_failure_of_one_bucket_leaves_no_file_of_any():
    handle = table(bucket="4")
    writers = BucketWriters(handle, commit_user="u")
    writers.write(rows(handle, *((n, "v", 0) for n in range(40))))
    opened = MemoryStorage.open_write

    def refuse(self, path):
        if "bucket-3" in path:
            raise StorageFailed("the disk is full", path=path)
        return opened(self, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryStorage, "open_write", refuse)
        with pytest.raises(StorageFailed, match="disk is full"):
            writers.prepare()
    assert stored(handle)
    writers.abort()
    assert stored(handle) == []


@dataclass(slots=True, eq=False)
class Failing(MemoryStorage):
    """A storage that refuses one of the files it is asked to make: before it is opened, or when it is closed."""

    left: int = -1
    late: bool = False

    @contextmanager
    def open_write(self, path):
        self.left -= 1
        chosen = self.left == 0
        if chosen and not self.late:
            raise StorageFailed("the disk is full", path=path)
        with MemoryStorage.open_write(self, path) as sink:
            yield sink
            if chosen:
                raise StorageFailed("the disk is full", path=path)


@pytest.mark.long
@pytest.mark.parametrize("late", [False, True])
def test_whatever_file_cannot_be_made_a_dropped_writer_leaves_none(late, monkeypatch):
    """Flushes, changelogs, compactions, file indexes and deletion vectors, each refused once."""
    monkeypatch.setattr("lakekit.write.table_writers.parallel_map", map_sequentially)  # threads would count together
    indexed = {"file_index__bloom_filter__columns": "v", "file_index__in_manifest_threshold": "1 b"}
    first = table(deletion_vectors__enabled="true", changelog_producer="lookup", **indexed)
    storage = Failing(files=first.storage.files)
    handle = open_context("/t", storage=storage)
    for n in range(2):
        writers = BucketWriters(handle, commit_user=f"u{n}")
        writers.write(rows(handle, *((k, f"{n}", 0) for k in range(8 - n))))
        commit(handle, writers.prepare(), n, f"u{n}")
    before, failures = stored(handle), 0
    for chosen in range(1, 40):
        storage.left, storage.late = chosen, late
        writers = BucketWriters(handle, commit_user="w")
        try:
            writers.write(rows(handle, *((k, "x", 3 if k == 2 else 0) for k in range(5))))
            writers.compact()
            writers.write(rows(handle, *((k, "y", 0) for k in range(3, 6))))
            writers.prepare()
        except StorageFailed:
            failures += 1
            storage.left = -1
            writers.abort()
            assert stored(handle) == before
        else:
            break
    assert storage.left > 0, "every file had its turn"
    assert failures > 8


def test_a_bucket_that_rests_is_restored_when_rows_come_again():
    handle = table()
    writers = BucketWriters(handle, commit_user="u")
    writers.write(rows(handle, (1, "a", 0)))
    first = writers.prepare()
    assert writers.prepare() == []
    assert writers._open, "the first message is not committed"
    commit(handle, first)
    assert writers.prepare() == []
    assert not writers._open
    other = writer(handle, SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle)).restore_bucket(EMPTY, 0))
    other.write(rows(handle, (1, "b", 0)))
    commit(handle, [other.prepare()], 2, "other")
    writers.write(rows(handle, (1, "c", 0)))
    [message] = writers.prepare()
    assert held(handle, message.new_files) == [(1, "c", 2, 0)]
    writers.abort()


def test_an_overwrite_takes_no_notice_of_what_is_there():
    handle = table()
    first = writer(handle)
    first.write(rows(handle, (1, "a", 0)))
    commit(handle, [first.prepare()])
    writers = BucketWriters(handle.with_options({}), commit_user="v", replaces=True)
    writers.write(rows(handle, (2, "b", 0)))
    [message] = writers.prepare()
    assert held(handle, message.new_files) == [(2, "b", 0, 0)]
    writers.abort()


def test_an_overwrite_writes_no_changelog_that_no_commit_would_take():
    handle = table(**{"changelog-producer": "input"})
    writers = BucketWriters(handle, commit_user="v", replaces=True)
    writers.write(rows(handle, (2, "b", 0)))
    [message] = writers.prepare()
    assert message.changelog_files == ()
    writers.abort()


@pytest.mark.long
@pytest.mark.parametrize("bucket", ["2", "-1"])
def test_buckets_whose_messages_others_committed_are_closed(tmp_path, bucket):
    keys = {"primary_keys": ["p", "k"], "partition_keys": ["p"]}
    t = lk.create(str(tmp_path / "t"), {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "INT"}, **keys, options={"bucket": bucket})
    with t.writer(commit_user="job") as writer:
        open_places = lambda: sorted(writer._writers.open_bucket_ids)  # noqa: E731
        writer.write([{"p": 0, "k": k, "v": 1} for k in range(9)])
        first = writer.prepare()
        there = open_places()
        writer.write([{"p": 1, "k": 1, "v": 1}])
        second = writer.prepare()
        assert set(there) <= set(open_places()), "nobody has committed it yet"
        t.commit(first, commit_user="job", identifier=1)
        t.commit(second, commit_user="job", identifier=2)
        writer.write([{"p": 1, "k": 2, "v": 1}])
        t.commit(writer.prepare(), commit_user="job", identifier=3)
        assert not set(there) & set(open_places())
        assert bucket != "-1" or len(writer._writers._dynamic.indexes) == 1
        t.upsert([{"p": 0, "k": 1, "v": 2}, {"p": 0, "k": 50, "v": 2}])
        t.compact(full=True, where="p = 0")
        writer.write([{"p": 0, "k": 1, "v": 3}])
        writer.compact(full=True)
        t.commit(writer.prepare(), commit_user="job", identifier=4)
    assert t.scan().filter(pl.col("p") == 0, pl.col("k") == 1).collect()["v"].to_list() == [3]
    assert t.scan().collect().height == 12
    assert t.check(deep=True).ok


def test_a_bucket_that_was_closed_is_opened_again_for_its_full_compaction():
    """Every third commit compacts what was written since; a bucket that rested meanwhile is not open any more."""
    handle = table(full_compaction__delta_commits="3", commit__force_compact="true")
    writers = BucketWriters(handle, commit_user="u")
    writers.write(rows(handle, (1, "a", 0)))
    commit(handle, writers.prepare(wait_compaction=False))
    assert writers.prepare(wait_compaction=False) == []
    assert not writers._open
    [message] = writers.prepare(wait_compaction=False)
    assert [file.level for file in message.compact_after] == [5]
    writers.abort()


def test_the_keys_of_a_flushed_file_that_only_moves_are_not_read_again(monkeypatch):
    handle = table(deletion_vectors__enabled="true")
    one = writer(handle)
    one.write(rows(handle, *((k, "old", 0) for k in range(1000))))
    one.compact(full=True)
    commit(handle, [one.prepare()])
    standing = SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle))
    read_files = []
    monkeypatch.setattr(compaction, "scan_files", lambda handle, files, *given, **how: read_files.extend(files) or scan_files(handle, files, *given, **how))
    two = writer(handle, standing.restore_bucket(EMPTY, 0))
    two.write(rows(handle, (5, "first", 0), (7, "new", 0), (5, "new", 0)))
    message = two.prepare()
    assert [(file.level > 0, file.name) for file in message.compact_after] == [(True, message.new_files[0].name)], "it only moved"
    assert not read_files
    commit(handle, [message], 2)
    assert read(handle).sort("k").rows() == [(k, "new" if k in (5, 7) else "old") for k in range(1000)]
