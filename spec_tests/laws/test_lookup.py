"""A lookup finds, of each key, what a plain walk through the levels finds; deletion vectors keep what they are told."""

from __future__ import annotations

import shutil

import numpy as np
import polars as pl
import pytest

from lakekit.bucket import restore
from lakekit.bucket.deletion_vector_writer import BucketDeletionVectors, merge_positions
from lakekit.bucket.lookup import MAX_LOOKUP_ROWS, LookupLevels, _select_overlapping, look_up_rows
from lakekit.bucket.restore import EMPTY_BUCKET, RestoredBucket, SnapshotBuckets, check_buckets
from lakekit.columns import KIND, LEVEL, ROW, SEQUENCE
from lakekit.data_file import deletion_vector_reader
from lakekit.data_file.reader import scan_files
from lakekit.errors import InvalidOption, StorageFailed
from lakekit.lsm.compaction_picker import LsmLevels
from lakekit.metadata import manifest_reader, snapshots
from lakekit.metadata.table_context import open_context
from lakekit.model.index_manifest import IndexManifestEntry
from lakekit.storage.protocol import FileMissing

manifests_live = manifest_reader.read_live_entries
TABLES = (
    "vectors_keyed_32_orc",
    "vectors_keyed_64_avro",
    "vectors_keyed_thin",
    "vectors_keyed_aggregation",
    "lookup_deduplicate_deletes",
    "changelog_partial_update_lookup",
    "flights_board",
    "evolve_vectors",
    "files_formats_per_level",
)


def buckets(handle):
    """Every bucket of the newest snapshot."""
    snapshot = snapshots.latest(handle)
    live = manifest_reader.read_live_entries(handle, snapshot)
    standing = SnapshotBuckets.at_snapshot(handle, snapshot)
    places = dict.fromkeys(zip(live.column("partition").to_pylist(), live.column("bucket").to_pylist(), strict=True))
    for partition, bucket in places:
        restored = standing.restore_bucket(partition, bucket)
        vectors = BucketDeletionVectors.restore(handle, partition, bucket, restored.vectors)
        yield partition, bucket, restored, vectors


def walked(older, keys, columns):
    """The rows a reader would meet first on its way up, by key, and where they are."""
    found = {}
    for run in older.runs:
        for file in run.files:
            rows = scan_files(older.ctx, [file], [older.file_path(file)], older.ctx.schema.fields, system=(SEQUENCE, KIND), row_index=ROW).collect()
            gone = set(np.asarray(older.deleted_positions.get(file.name, ())).tolist())
            for row in rows.to_dicts():
                key = tuple(row[name] for name in older.key_columns)
                if row[ROW] not in gone:
                    found.setdefault(key, ({name: row[name] for name in columns} | {LEVEL: run.level}, file.name, row[ROW]))
    asked = keys.select(older.key_columns).rows()
    return {key: found[key] for key in asked if key in found}


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_a_lookup_finds_what_a_walk_through_the_levels_finds(name, tables_path):
    handle = open_context(str(tables_path / name))
    columns = (*handle.schema.names, SEQUENCE, KIND)
    hits = 0
    for partition, bucket, restored, vectors in buckets(handle):
        levels = LsmLevels.from_files(restored.files, handle.options)
        every = pl.concat([rows_of(handle, partition, bucket, file) for file in restored.files]).unique(maintain_order=True)
        keys = pl.concat([every, stranger(every)])
        for output in (0, 4):
            older = LookupLevels(ctx=handle, partition=partition, bucket=bucket, runs=levels.runs_above(output), deleted_positions=vectors.positions)
            want = walked(older, keys, columns)
            found = look_up_rows(older, keys, columns)
            assert sorted(map(repr, found.rows.to_dicts())) == sorted(repr(row) for row, _, _ in want.values())
            places = {(file, int(at)) for file, positions in found.positions.items() for at in positions}
            assert places == {(file, at) for _, file, at in want.values()}
            alone = look_up_rows(older, keys, ())
            assert alone.rows.columns == [LEVEL]
            assert alone.rows.height == found.rows.height
            assert {file: positions.tolist() for file, positions in alone.positions.items()} == {f: p.tolist() for f, p in found.positions.items()}
            hits += len(want)
    assert hits


def rows_of(handle, partition, bucket, file):
    older = LookupLevels(ctx=handle, partition=partition, bucket=bucket, runs=())
    return scan_files(handle, [file], [older.file_path(file)], handle.schema.key_fields).collect()


def stranger(keys):
    """A key that no file has, beyond all others in its first column."""
    return keys.head(1).with_columns((keys.to_series(0).max() + pl.lit(1000)).cast(keys.dtypes[0]).alias(keys.columns[0]))


def test_files_that_cannot_hold_a_key_are_not_opened(tables_path):
    handle = open_context(str(tables_path / "files_rolling"))
    [(partition, bucket, restored, _)] = list(buckets(handle))
    run = LsmLevels.from_files(restored.files, handle.options).runs[-1]
    assert len(run.files) == 2
    older = LookupLevels(ctx=handle, partition=partition, bucket=bucket, runs=(run,))
    for file in run.files:
        rows = rows_of(handle, partition, bucket, file)
        assert _select_overlapping(older, run.files, rows.head(1)) == [file]
        assert _select_overlapping(older, run.files, rows.tail(1)) == [file]
        assert _select_overlapping(older, run.files, rows.head(0)) == []
    assert _select_overlapping(older, run.files, stranger(rows)) == []
    assert MAX_LOOKUP_ROWS > 0


def test_one_file_at_a_time_finds_the_same(tables_path, monkeypatch):
    handle = open_context(str(tables_path / "files_rolling"))
    [(partition, bucket, restored, _)] = list(buckets(handle))
    older = LookupLevels(ctx=handle, partition=partition, bucket=bucket, runs=LsmLevels.from_files(restored.files, handle.options).runs_above(0))
    keys = pl.concat([rows_of(handle, partition, bucket, file) for file in restored.files])
    whole = look_up_rows(older, keys, handle.schema.names)
    monkeypatch.setattr("lakekit.bucket.lookup.MAX_LOOKUP_ROWS", 1)
    parts = look_up_rows(older, keys, handle.schema.names)
    assert parts.rows.equals(whole.rows)
    assert list(parts.positions) == list(whole.positions)


# ---- vectors -----------------------------------------------------------------------------------------------------------------------------------------


def test_marks_join_what_was_deleted_before():
    held = {"a": np.array([2, 3], np.uint32)}
    found = merge_positions(held, {"a": np.array([7, 3]), "b": np.array([1])})
    assert {name: positions.tolist() for name, positions in found.items()} == {"a": [2, 3, 7], "b": [1]}
    assert held["a"].tolist() == [2, 3]


@pytest.mark.parametrize("bits", ["32", "64"])
@pytest.mark.parametrize("name", ["vectors_keyed_32_orc", "vectors_keyed_64_avro", "files_index_in_bucket"])
def test_vectors_are_written_as_they_are_read(name, bits, tables_path, tmp_path):
    shutil.copytree(tables_path / name, tmp_path / name)
    handle = open_context(str(tmp_path / name), options={"deletion-vectors.bitmap64": bits == "64"})
    seen = 0
    for partition, bucket, restored, vectors in buckets(handle):
        assert vectors.write_if_changed() == ((), ()), "nothing changed"
        file = next(file for file in restored.files if file.level > 0)
        before = {name: positions.tolist() for name, positions in vectors.positions.items()}
        vectors.add_positions({file.name: np.array([0, 1])})
        vectors.add_positions({})
        (new,), old = vectors.write_if_changed()
        assert [one.file_name for one in old] == [one.file_name for one in restored.vectors]
        entry = IndexManifestEntry(**{name: getattr(new, name) for name in new.__slots__}, partition=partition, bucket=bucket)
        again = deletion_vector_reader.load_positions(handle, {part.file_name: entry for part in new.ranges})
        want = before | {file.name: sorted({0, 1, *before.get(file.name, ())})}
        assert {name: positions.tolist() for name, positions in again.items()} == {name: held for name, held in want.items() if held}
        assert new.row_count == len(new.ranges)
        vectors.add_positions({file.name: np.array([1])})
        assert vectors.write_if_changed() == ((), ()), "a row is deleted once"
        vectors.remove_files([*before, file.name, "no such file"])
        (empty,), (replaced,) = vectors.write_if_changed()
        assert (replaced, empty.row_count, empty.ranges, empty.file_size_bytes) == (new, 0, (), 1)
        vectors.delete_files([new, empty])
        with pytest.raises(FileMissing):
            deletion_vector_reader.load_positions(handle, {part.file_name: entry for part in new.ranges})
        seen += 1
    assert seen


# ---- what a writer finds -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["flights_board", "bucket_rescaled", "old_0_8_2_key", "bucket_postpone"])
def test_a_bucket_is_restored_from_the_newest_snapshot(name, tables_path):
    handle = open_context(str(tables_path / name))
    live = manifest_reader.read_live_entries(handle, snapshots.latest(handle))
    count = 0
    for partition, bucket, restored, _ in buckets(handle):
        mine = [at for at in range(len(live)) if (live.column("partition")[at].as_py(), live.column("bucket")[at].as_py()) == (partition, bucket)]
        assert restored.files == tuple(live.files(mine))
        assert restored.max_sequence == max(file.max_sequence_number for file in restored.files)
        assert restored.snapshot_id == snapshots.latest(handle).id
        totals = {live.column("total_buckets")[at].as_py() for at in mine}
        assert bucket < 0 or {restored.total_buckets} == totals
        count += len(mine)
    assert count == len(live)


def test_a_bucket_nobody_wrote_has_the_number_of_its_partition(tables_path):
    handle = open_context(str(tables_path / "bucket_rescaled"))
    standing = SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle))
    partition = manifest_reader.read_live_entries(handle, snapshots.latest(handle)).column("partition")[0].as_py()
    nobody = standing.restore_bucket(partition, 4711)
    assert nobody.files == ()
    assert nobody.max_sequence == -1
    assert nobody.total_buckets == standing.restore_bucket(partition, 0).total_buckets
    assert standing.restore_bucket(b"no such partition", 0) == RestoredBucket(snapshot_id=snapshots.latest(handle).id)
    assert SnapshotBuckets.at_snapshot(handle, None).restore_bucket(partition, 0) == EMPTY_BUCKET


def test_the_live_files_of_all_partitions_are_read_once(tables_path, monkeypatch):
    handle = open_context(str(tables_path / "flights_board"))
    asked = []
    monkeypatch.setattr(restore.manifest_reader, "read_live_entries", lambda *given, **how: asked.append(how) or manifests_live(*given, **how))
    standing = SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle))
    places = standing.bucket_ids()
    assert places
    live = manifests_live(handle, snapshots.latest(handle))
    assert sum(len(standing.restore_bucket(*place).files) for place in [*places, (b"no such partition", 0)]) == len(live)
    assert standing.bucket_ids() == places
    assert len(asked) == 1


def test_what_could_not_be_read_is_not_taken_for_nothing(tables_path, monkeypatch):
    handle = open_context(str(tables_path / "bucket_rescaled"))
    standing = SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle))
    partition = manifest_reader.read_live_entries(handle, snapshots.latest(handle)).column("partition")[0].as_py()

    def fails(*_, **__):
        raise StorageFailed("the disk is away", path="manifest")

    with monkeypatch.context() as broken:
        broken.setattr(restore.manifest_reader, "read_live_entries", fails)
        with pytest.raises(StorageFailed):
            standing.load_partitions([partition])
    assert standing.restore_bucket(partition, 0).files


def test_another_number_of_buckets_is_refused(tables_path):
    handle = open_context(str(tables_path / "bucket_rescaled"))
    restored = RestoredBucket(total_buckets=2)
    check_buckets(handle, b"", restored, 2)
    check_buckets(handle, b"", EMPTY_BUCKET, 7)
    partition = manifest_reader.read_live_entries(handle, snapshots.latest(handle)).column("partition")[0].as_py()
    with pytest.raises(InvalidOption, match="with a new bucket num 3, but the previous bucket num is 2"):
        check_buckets(handle, partition, restored, 3)
