"""A compaction changes where rows lie and nothing of what is read."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from lakekit.bucket import merge_read
from lakekit.bucket.bucket_writer import MergeTree, RecordingLookup
from lakekit.bucket.compaction import CompactionJob, CompactResult, compact_unit
from lakekit.bucket.deletion_vector_writer import BucketDeletionVectors
from lakekit.bucket.merge_read import MergeTask
from lakekit.bucket.restore import EMPTY_BUCKET, SnapshotBuckets
from lakekit.columns import KIND, SEQUENCE
from lakekit.data_file.paths import data_file_path, make_file_names
from lakekit.data_file.reader import scan_files
from lakekit.errors import LakekitError, SnapshotNotFound
from lakekit.lsm import compaction_picker, merge, sorted_runs
from lakekit.lsm.compaction_picker import LsmLevels
from lakekit.metadata import manifest_reader, schemas, snapshots
from lakekit.metadata.table_context import open_context
from lakekit.options.table_options import TableOptions
from spec_tests.conftest import DEEP
from spec_tests.longer import some
from spec_tests.places import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakekit.lsm.compaction_picker import CompactionUnit
    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.manifest_entries import ManifestEntries


def key_tables() -> list[str]:
    """Every golden table with a primary key."""
    found = []
    for path in sorted(Path(FIXTURES, "tables").glob("*.json")):
        schemas = sorted((path.with_suffix("") / "schema").glob("schema-*[0-9]"))
        if schemas and json.loads(schemas[0].read_text())["primaryKeys"]:
            found.append(path.stem)
    return found


@dataclass
class Bucket:
    """A bucket of a table, as a compaction finds and leaves it."""

    ctx: TableContext
    rule: MergeSpec
    partition: bytes
    number: int
    levels: LsmLevels
    vectors: BucketDeletionVectors

    def rows(self) -> pl.DataFrame:
        """What it holds, level 0 included, by key."""
        files = self.levels.files
        names = [*self.ctx.schema.names]
        if not files:
            return pl.DataFrame(schema=dict.fromkeys(names, pl.Null))
        low = merge_read.decode_keys(self.ctx, [file.min_key for file in files])
        high = merge_read.decode_keys(self.ctx, [file.max_key for file in files])
        found = sorted_runs.build_sections(
            low.get_columns(),
            high.get_columns(),
            levels=np.array([file.level for file in files]),
            min_sequence=np.array([file.min_sequence_number for file in files]),
            max_sequence=np.array([file.max_sequence_number for file in files]),
        )
        placed = [files[at] for at in found.files]
        task = MergeTask(
            ctx=self.ctx,
            files=tuple(placed),
            paths=tuple(data_file_path(self.ctx, self.partition, self.number, file) for file in placed),
            spec=self.rule,
            is_in_sequence=bool(found.is_in_sequence.all()),
            deletions=dict(self.vectors.positions),
        )
        return merge_read.read_merged_rows(task, names, None).sort(self.rule.key_columns)

    def compact(self, unit: CompactionUnit, *, tells: bool = True) -> CompactResult:
        """Compacts some of its files, and is then what that leaves."""
        tree = MergeTree(
            ctx=self.ctx,
            partition=self.partition,
            bucket=self.number,
            file_names=make_file_names(self.ctx),
            spec=self.rule,
            _levels=self.levels,
            restored_bucket=EMPTY_BUCKET,
            vectors=self.vectors if self.ctx.options.deletion_vectors_enabled else None,
            ignores_existing=not tells,
        )
        looking = RecordingLookup(lookup_levels=tree._lookup_levels(unit), columns=tree._lookup_columns())
        job = CompactionJob(
            ctx=self.ctx,
            partition=self.partition,
            bucket=self.number,
            levels=self.levels,
            file_names=make_file_names(self.ctx),
            spec=self.rule,
            deletions=dict(self.vectors.positions),
            find_previous_rows=looking,
            writes_changelog=tells,
        )
        done = compact_unit(job, unit)
        self.levels = self.levels.with_changes(done.before, done.after)
        if self.ctx.options.deletion_vectors_enabled:
            for name, parts in looking.deleted_positions.items():
                self.vectors.add_positions({name: np.concatenate(parts)})
        self.vectors.remove_files(done.rewritten_names)
        return done

    def full(self) -> CompactionUnit | None:
        return compaction_picker.pick_full_compaction(self.levels, self.ctx.options)


def buckets(handle: TableContext, snapshot_id: int | None = None) -> Iterator[Bucket]:
    snapshot = snapshots.latest(handle) if snapshot_id is None else snapshots.read_snapshot(handle, snapshot_id)
    if snapshot is None:
        return
    rule = merge.merge_spec_from_options(handle.schema, handle.all_options, table=handle.name)
    standing = SnapshotBuckets.at_snapshot(handle, snapshot)
    live = manifest_reader.read_live_entries(handle, snapshot)
    places = sorted(set(zip(live.column("partition").to_pylist(), live.column("bucket").to_pylist(), strict=True)))
    for partition, number in places:
        if number < 0:
            continue
        restored = standing.restore_bucket(partition, number)
        yield Bucket(
            ctx=handle,
            rule=rule,
            partition=partition,
            number=number,
            levels=LsmLevels.from_files(restored.files, handle.options),
            vectors=BucketDeletionVectors.restore(handle, partition, number, restored.vectors),
        )


@pytest.fixture
def opened(tmp_path: Path):
    def copy(name: str, **options: object) -> TableContext:
        shutil.copytree(Path(FIXTURES, "tables", name), tmp_path / name)
        return open_context(str(tmp_path / name), options=options)

    return copy


EXPIRES = "dedup_record_expire"
"""A table whose compactions leave rows out on purpose."""
TOO_MANY_DIGITS = "aggregate_sum_types"
"""A sum that its DECIMAL type has no room for, which Parquet holds all the same."""


SOME = slice(None) if DEEP else slice(None, None, 5)


@pytest.mark.long
@pytest.mark.parametrize("name", some([name for name in key_tables() if name != EXPIRES][SOME], 3))
def test_a_full_compaction_reads_as_before(name: str, opened) -> None:
    handle = opened(name, **({"file.format": "parquet"} if name == TOO_MANY_DIGITS else {}))
    for bucket in buckets(handle):
        unit = bucket.full()
        if unit is None:
            continue
        try:
            before = bucket.rows()
        except LakekitError as refused:
            with pytest.raises(type(refused)):
                bucket.compact(unit)
            continue
        done = bucket.compact(unit)
        assert {file.level for file in bucket.levels.files} <= {bucket.levels.max_level}
        assert not any(file.delete_row_count for file in bucket.levels.files)
        assert set(done.before) == set(unit.files)
        after = bucket.rows()
        assert after.equals(before), (before, after)


# ---- what the reference made of the same files -----------------------------------------------------------------------------------------------------


def stored(bucket: Bucket, files: Sequence[DataFileMeta]) -> list[str]:
    """Every row of some files with its number and kind, as text, sorted."""
    paths = [data_file_path(bucket.ctx, bucket.partition, bucket.number, file) for file in files]
    return sorted(map(str, scan_files(bucket.ctx, files, paths, bucket.ctx.schema.fields, system=[SEQUENCE, KIND]).collect().rows()))


def at(entries: ManifestEntries, bucket: Bucket) -> dict[int, list[DataFileMeta]]:
    """The files that a manifest adds (0) to a bucket and takes from it (1)."""
    found: dict[int, list[DataFileMeta]] = {0: [], 1: []}
    kinds, numbers, partitions = entries.integers("kind"), entries.integers("bucket"), entries.column("partition").to_pylist()
    for row, file in enumerate(entries.files()):
        if (partitions[row], numbers[row]) == (bucket.partition, bucket.number):
            found[int(kinds[row])].append(file)
    return found


def output(bucket: Bucket, made: dict[int, list[DataFileMeta]]) -> int:
    """The level that a compaction went to: that of its files, or, where nothing was left to write, the one below the next run."""
    levels = {file.level for file in made[0]}
    assert len(levels) < 2
    gone = {file.name for file in made[1]}
    left = [file.level for file in bucket.levels.files if file.name not in gone]
    return levels.pop() if levels else min(left) - 1 if left else bucket.levels.max_level


def compacted_tables() -> list[str]:
    """Golden tables with a compaction of buckets; what places postponed rows is more than that."""
    found = []
    for name in key_tables():
        told = [one.read_text() for one in Path(FIXTURES, "tables", name, "snapshot").glob("snapshot-*[0-9]")]
        if any('"COMPACT"' in one for one in told) and "postpone" not in name:
            found.append(name)
    return found


@pytest.mark.parametrize("name", some(compacted_tables(), 3))
def test_every_recorded_compaction_makes_the_rows_the_reference_made(name: str, opened) -> None:
    newest = opened(name)
    for number in range(2, (snapshots.latest_id(newest) or 0) + 1):
        try:
            snapshot, before = snapshots.read_snapshot(newest, number), snapshots.read_snapshot(newest, number - 1)
        except SnapshotNotFound:
            continue
        if snapshot.commit_kind != "COMPACT":
            continue
        schema = schemas.read_schema(newest, snapshot.schema_id)
        handle = replace(newest, schema=schema, options=TableOptions.parse(schema.options, kind="key"))
        delta = manifest_reader.read_entries(handle, manifest_reader.manifest_files(handle, snapshot, "delta"))
        told = manifest_reader.read_entries(handle, manifest_reader.manifest_files(handle, snapshot, "changelog"))
        for bucket in buckets(handle, before.id):
            made = at(delta, bucket)
            if not made[1]:
                continue
            done = bucket.compact(compaction_picker.CompactionUnit(output_level=output(bucket, made), files=tuple(made[1])))
            assert {file.name for file in done.before} == {file.name for file in made[1]}
            assert stored(bucket, done.after) == stored(bucket, made[0])
            assert {file.name for file in done.after} & {file.name for file in made[1]} == {file.name for file in made[0]} & {file.name for file in made[1]}
            assert stored(bucket, done.changelog) == stored(bucket, at(told, bucket)[0])
            held = SnapshotBuckets.at_snapshot(handle, snapshot).restore_bucket(bucket.partition, bucket.number).vectors
            theirs = BucketDeletionVectors.restore(handle, bucket.partition, bucket.number, held).positions
            assert {one: list(rows) for one, rows in bucket.vectors.positions.items()} == {one: list(rows) for one, rows in theirs.items()}
