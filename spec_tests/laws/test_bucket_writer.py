"""A bucket's writer: rows become files that read as the rows do, within the memory allowed, and nothing is left of what no message took."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from lakekit.bucket.deletion_vector_writer import BucketDeletionVectors
from lakekit.bucket.restore import SnapshotBuckets
from lakekit.errors import InvalidOption, StorageFailed
from lakekit.metadata import manifest_reader, snapshots
from lakekit.read import incremental, polars_pushdown
from lakekit.storage.memory import MemoryStorage
from lakekit.write import row_conversion
from lakekit.write.table_writers import BucketWriters
from spec_tests.laws.bucket_rows import EMPTY, commit, held, read, rows, stored, table, writer
from spec_tests.longer import some

# ---- key tables --------------------------------------------------------------------------------------------------------------------------------------


def test_rows_become_a_file_of_level_0_with_deletes_and_numbers():
    handle = table()
    one = writer(handle)
    one.write(rows(handle, (3, "a", 0), (1, "b", 0)))
    one.write(rows(handle, (3, "c", 3), (2, "d", 2)))
    message = one.prepare()
    [file] = message.new_files
    assert held(handle, [file]) == [(1, "b", 1, 0), (2, "d", 3, 2), (3, "c", 2, 3)]
    assert (file.level, file.source, file.row_count, file.delete_row_count) == (0, 0, 3, 1)
    assert (file.min_sequence_number, file.max_sequence_number) == (1, 3)
    assert (message.partition, message.bucket, message.total_buckets) == (EMPTY, 0, 1)
    assert not message.has_compaction
    assert one.is_idle
    assert one.prepare().is_empty


def test_numbers_go_on_where_the_files_end():
    handle = table()
    first = writer(handle)
    first.write(rows(handle, (1, "a", 0), (2, "b", 0)))
    commit(handle, [first.prepare()])
    standing = SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle))
    again = writer(handle, standing.restore_bucket(EMPTY, 0))
    again.write(rows(handle, (2, "c", 0)))
    first.write(rows(handle, (2, "d", 0)))
    assert [held(handle, one.prepare().new_files) for one in (again, first)] == [[(2, "c", 2, 0)], [(2, "d", 2, 0)]]
    with pytest.raises(InvalidOption, match="previous bucket num is 1"):
        writer(handle, standing.restore_bucket(EMPTY, 0), total=2)


def test_the_input_changelog_holds_every_row():
    handle = table(changelog_producer="input")
    one = writer(handle)
    one.write(rows(handle, (2, "a", 0), (1, "b", 0), (2, "a", 1), (2, "c", 2)))
    message = one.prepare()
    [file], [told] = message.new_files, message.changelog_files
    assert told.name.startswith("changelog-")
    assert held(handle, [file]) == [(1, "b", 1, 0), (2, "c", 3, 2)]
    assert held(handle, [told]) == [(1, "b", 1, 0), (2, "a", 0, 0), (2, "a", 2, 1), (2, "c", 3, 2)]


@pytest.mark.long
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
def test_a_spilled_flush_writes_the_rows_of_one_in_memory(engine, monkeypatch):
    monkeypatch.setattr("lakekit.bucket.write_buffer.CHUNK_BYTES", 2000)
    options = {"write_only": "true", "changelog_producer": "input", "write_buffer_size": "20 kb"}
    options |= {"fields.v.aggregate-function": "sum"} if engine == "aggregation" else {}
    columns = {"k": "BIGINT NOT NULL", "p": "STRING NOT NULL", "v": "BIGINT", "s": "STRING"}
    handle = table(columns, ("k", "p"), merge_engine=engine, **options)
    draw = random.Random(7)
    frames = [rows(handle, *((draw.randrange(900), "ab"[draw.randrange(2)], n * 1000 + i, str(i), 0) for i in range(500))) for n in range(6)]
    plain, spilling = writer(handle), writer(handle)
    for frame in frames:
        plain.write(frame)
        spilling.write(frame)
        before = spilling.memory_bytes
        spilling.release_memory()
        assert spilling.memory_bytes == 0 < before
    one, other = plain.prepare(), spilling.prepare()
    assert len(one.new_files) == len(other.new_files) == 1
    assert held(handle, one.new_files) == held(handle, other.new_files)
    assert held(handle, one.changelog_files) == held(handle, other.changelog_files)
    assert len(held(handle, one.changelog_files)) == 3000


def test_what_may_not_spill_is_flushed_into_files_of_its_own():
    handle = table(write_buffer_spillable="false", write_only="true")
    one = writer(handle)
    for value in ("a", "b"):
        one.write(rows(handle, (1, value, 0)))
        one.release_memory()
    message = one.prepare()
    assert [held(handle, [file]) for file in message.new_files] == [[(1, "a", 0, 0)], [(1, "b", 1, 0)]]


def test_nothing_is_left_of_what_no_message_took():
    handle = table(changelog_producer="input", file_index__bloom_filter__columns="v", file_index__in_manifest_threshold="1 b")
    one = writer(handle)
    one.write(rows(handle, (1, "a", 0)))
    message = one.prepare()
    kept = stored(handle)
    assert len(kept) == 3
    assert {file.name for file in (*message.new_files, *message.changelog_files)} < set(kept)
    for value in "bcdefg":  # compacts on the way
        one.write(rows(handle, (1, value, 0)))
        one.flush()
    assert not one.is_idle
    assert len(stored(handle)) > len(kept)
    one.write(rows(handle, (2, "h", 0)))
    one.abort()
    assert stored(handle) == kept


def test_a_flush_that_fails_leaves_no_file_and_all_rows():
    handle = table(changelog_producer="input")
    one = writer(handle)
    one.write(rows(handle, (1, "a", 0)))
    storage, opened = handle.storage, MemoryStorage.open_write

    def refuse(self, path):
        if "changelog-" in path:
            raise StorageFailed("the disk is full", path=path)
        return opened(self, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryStorage, "open_write", refuse)
        with pytest.raises(StorageFailed, match="disk is full"):
            one.flush()
    assert stored(handle) == []
    assert storage.files
    [file] = one.prepare().new_files
    assert held(handle, [file]) == [(1, "a", 0, 0)]


# ---- append tables and postponed rows ------------------------------------------------------------------------------------------------------------------


def test_rows_of_append_tables_are_counted_and_kept_in_order():
    handle = table({"v": "INT"}, (), bucket="2", bucket_key="v", target_file_row_num="3")
    one = writer(handle, total=2)
    one.write(rows(handle, *[(n,) for n in (5, 3, 9, 1)]))
    message = one.prepare()
    assert [held(handle, [file]) for file in message.new_files] == [[(5, 0), (3, 1), (9, 2)], [(1, 3)]]
    assert [(file.min_sequence_number, file.max_sequence_number, file.level) for file in message.new_files] == [(0, 2, 0), (3, 3, 0)]
    assert {file.min_key for file in message.new_files} == {EMPTY}
    one.write(rows(handle, (7,)))
    [file] = one.prepare().new_files
    assert file.min_sequence_number == 4


def test_small_files_of_a_bucket_become_one_in_their_order():
    handle = table({"v": "INT"}, (), bucket="2", bucket_key="v", compaction__min__file_num="3")
    one = writer(handle, total=2)
    messages = []
    for n in range(7):
        one.write(rows(handle, (10 - n,), (n,)))
        messages.append(one.prepare())
        commit(handle, messages[-1:], n)
    assert [len(message.compact_before) for message in messages] == [0, 0, 3, 0, 3, 0, 3], "a small file is looked at again"
    [file] = SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle)).restore_bucket(EMPTY, 0).files
    assert held(handle, [file]) == [(value, 2 * n + at) for n in range(7) for at, value in enumerate((10 - n, n))]
    assert (file.level, file.source, file.min_sequence_number, file.max_sequence_number) == (0, 1, 0, 13)
    again = writer(handle, SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle)).restore_bucket(EMPTY, 0), total=2)
    again.compact(full=True)
    assert again.prepare().is_empty, "one file is left alone"


def test_a_full_compaction_drops_the_rows_that_vectors_took_away():
    handle = table({"v": "INT"}, (), bucket="1", bucket_key="v", deletion_vectors__enabled="true")
    one = writer(handle)
    for value in (1, 2):
        one.write(rows(handle, (value,), (value * 10,)))
        one.flush()
    message = one.prepare()
    vectors = BucketDeletionVectors(ctx=handle, partition=EMPTY, bucket=0, positions={})
    vectors.add_positions({message.new_files[1].name: np.array([0])})
    commit(handle, [replace(message, new_index_files=vectors.write_if_changed()[0])])
    assert sorted(read(handle)["v"]) == [1, 10, 20]
    again = writer(handle, SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle)).restore_bucket(EMPTY, 0))
    again.compact(full=True)
    after = again.prepare()
    assert [file.row_count for file in after.compact_after] == [3]
    assert [file.row_count for file in after.compact_new_index_files] == [0]
    commit(handle, [after], 2)
    assert read(handle)["v"].to_list() == [1, 10, 20]


def test_postponed_rows_stay_as_they_came():
    """As engine 1.4.2 writes them: case `bucket_postpone`."""
    handle = table(bucket="-2", merge_engine="aggregation")
    writers = BucketWriters(handle, commit_user="me")
    writers.write(rows(handle, (3, "a", 0), (1, "b", 0), (3, "c", 3)))
    [message] = writers.prepare()
    [file] = message.new_files
    assert held(handle, [file], -2) == [(3, "a", -1, 0), (1, "b", -1, 0), (3, "c", -1, 3)]
    assert file.name.startswith("data--u-me-s-")
    assert "-w-" in file.name
    assert file.name.endswith(".avro")
    assert (file.level, file.min_sequence_number, file.max_sequence_number, file.delete_row_count, file.value_stats_cols) == (0, -1, -1, 1, ())
    assert (message.bucket, message.total_buckets) == (-2, -2)
    writers.abort()


# ---- compaction ----------------------------------------------------------------------------------------------------------------------------------------


def test_a_message_without_waiting_leaves_compaction_to_the_next():
    handle = table()
    one = writer(handle)
    messages = []
    for value in "abcdef":
        one.write(rows(handle, (1, value, 0)))
        messages.append(one.prepare(wait=False))
        commit(handle, messages[-1:], len(messages))
    assert [message.has_compaction for message in messages] == [False] * 5 + [True]
    assert len(messages[5].compact_before) == 5
    assert read(handle).rows() == [(1, "f")]


def test_files_that_only_a_compaction_saw_are_deleted():
    handle = table()
    one = writer(handle)
    for value in "abcdefghij":  # without a message: the second compaction eats what the first one made
        one.write(rows(handle, (1, value, 0)))
        one.flush()
    message = one.prepare()
    named = {file.name for file in (*message.new_files, *message.compact_before, *message.compact_after)}
    assert named == set(stored(handle))
    assert {file.name for file in message.compact_before} <= {file.name for file in message.new_files}
    commit(handle, [message])
    assert read(handle).rows() == [(1, "j")]


def test_compactions_are_left_out_where_writers_only_write():
    handle = table(write_only="true")
    one = writer(handle)
    for value in "abcdefgh":
        one.write(rows(handle, (1, value, 0)))
        one.flush()
    one.compact(full=True)  # but somebody may ask for one
    message = one.prepare()
    assert len(message.new_files) == len(message.compact_before) == 8
    [file] = message.compact_after
    assert file.level == 5


MODES = {
    "partitioned": {"partitions": ("p",)},
    "dynamic": {"bucket": "-1", "dynamic_bucket__target_row_num": "6", "full_compaction__delta_commits": "1"},
    "vectors": {"deletion_vectors__enabled": "true"},
    "vectors of 64 bits": {"deletion_vectors__enabled": "true", "deletion_vectors__bitmap64": "true", "changelog_producer": "lookup"},
    "lookup": {"changelog_producer": "lookup"},
    "full": {"changelog_producer": "full-compaction"},
    "orc": {"file_format": "orc", "num_sorted_run__compaction_trigger": "2"},
}


@pytest.mark.long
@pytest.mark.parametrize("mode", some(MODES, 3))
def test_a_table_is_a_dict_whatever_its_mode(mode):
    """Upserts and deletes by writers that come and go; the table after each commit is the dict, and the changelog replayed is the table."""
    options = dict(MODES[mode])
    partitions = options.pop("partitions", ())
    keys = (*partitions, "k")
    handle = table({"k": "INT NOT NULL", "p": "STRING NOT NULL", "v": "STRING"}, keys, partitions, **{"bucket": "2", **options})
    draw, want, writers = random.Random(mode), {}, None
    for commit_id in range(1, 8):
        if writers is None or draw.random() < 0.5:
            writers = BucketWriters(handle, commit_user=f"u{commit_id}")
        given = [(draw.randrange(12), "xy"[draw.randrange(2)] if partitions else "x", f"{commit_id}.{i}", draw.choice("++-")) for i in range(6)]
        for k, p, v, sign in given:
            want.pop((p, k), None) if sign == "-" else want.__setitem__((p, k), v)
        frame = pl.DataFrame([(k, p, v, {"+": "+I", "-": "-D"}[sign]) for k, p, v, sign in given], schema=["k", "p", "v", "op"], orient="row")
        for batch in row_conversion.convert_batches(frame, handle, row_kind="op", cast=True):
            writers.write(batch)
        if draw.random() < 0.2:
            writers.compact(full=draw.random() < 0.5)
        commit(handle, writers.prepare(), commit_id, writers.commit_user)
        writers.mark_committed(commit_id)
        assert {(p, k): v for k, p, v in read(handle).rows()} == want
        if draw.random() < 0.5:
            writers.abort()
            writers = None
    if options.get("changelog_producer") in ("lookup", "full-compaction"):
        told = {}
        for kind, k, p, v in polars_pushdown.scan_lazily(incremental.plan_changes(handle, 0, None, mode="changelog", kind_column="_row_kind")).collect().rows():
            if kind in ("-U", "-D"):
                assert told.pop((p, k)) == v
            else:
                assert (p, k) not in told
                told[p, k] = v
        assert told == want
    live = manifest_reader.read_live_entries(handle, snapshots.latest(handle))
    assert "vectors" not in mode or 0 not in live.column("level").to_pylist()


def test_a_compaction_of_named_partitions_opens_their_buckets():
    handle = table({"k": "INT NOT NULL", "p": "STRING NOT NULL"}, ("p", "k"), ("p",), bucket="2", write_only="true")
    writers = BucketWriters(handle, commit_user="u")
    for n in range(3):
        writers.write(rows(handle, *((k, p, 0) for k in range(4) for p in "xy")))
        commit(handle, writers.prepare(), n)
    writers.abort()
    compactor = BucketWriters(handle.with_options({"write-only": "false"}), commit_user="c")
    compactor.compact(partition={"p": "x"}, full=True)
    messages = compactor.prepare()
    assert sorted(message.bucket for message in messages) == [0, 1]
    assert all(len(message.compact_before) == 3 for message in messages)
    commit(handle, messages, 1, "c")
    live = manifest_reader.read_live_entries(handle, snapshots.latest(handle))
    assert sorted(live.column("level").to_pylist()) == [0] * 6 + [5] * 2
    compactor.compact(bucket=1, full=True)
    assert sorted(message.bucket for message in compactor.prepare()) == [1]
    compactor.abort()
