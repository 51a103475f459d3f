"""Small files of append tables: which are rewritten together (ENGINE.md 8.2), and that rewriting keeps rows and their order."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from lakekit.bucket import append_compaction as packing
from lakekit.bucket.append_compaction import DeletionVectorSummary, RewriteTarget
from lakekit.bucket.restore import SnapshotBuckets
from lakekit.data_file import deletion_vector_reader
from lakekit.data_file.paths import data_file_path, make_file_names
from lakekit.data_file.reader import scan_files
from lakekit.errors import LakekitError, Unsupported
from lakekit.metadata import manifest_reader, snapshots
from lakekit.metadata.table_context import TableContext, open_context
from lakekit.model.data_file import COMPACT_SOURCE, DataFileMeta
from lakekit.options.table_options import TableOptions
from spec_tests.conftest import DEEP
from spec_tests.places import FIXTURES

if TYPE_CHECKING:
    import polars as pl

MB = 1 << 20
OPTIONS = TableOptions.parse({"target-file-size": "100 mb"})


def options(**given: object) -> TableOptions:
    return TableOptions.parse({"target-file-size": "100 mb", **{key: str(value) for key, value in given.items()}})


def files(*sizes_mb: float, rows: int = 100) -> list[DataFileMeta]:
    """Files that follow each other."""
    return [
        DataFileMeta(
            name=f"data-{at}.parquet",
            size_bytes=int(size * MB),
            row_count=rows,
            min_sequence_number=at * rows,
            max_sequence_number=at * rows + rows - 1,
        )
        for at, size in enumerate(sizes_mb)
    ]


def sizes(groups: list[tuple[DataFileMeta, ...]]) -> list[list[int]]:
    return [[round(file.size_bytes / MB) for file in group] for group in groups]


# ---- bucket -1 ---------------------------------------------------------------------------------------------------------------------------------------


def test_a_file_is_worth_it_when_it_is_small_or_has_lost_many_rows() -> None:
    small, big = files(69, 70)
    assert packing.is_worth_rewriting(small, OPTIONS)
    assert not packing.is_worth_rewriting(big, OPTIONS)
    assert not packing.is_worth_rewriting(big, OPTIONS, DeletionVectorSummary(index_file="i", deleted_row_count=20))
    assert packing.is_worth_rewriting(big, OPTIONS, DeletionVectorSummary(index_file="i", deleted_row_count=21))
    assert packing.is_worth_rewriting(big, OPTIONS, DeletionVectorSummary(index_file="i", deleted_row_count=None))
    assert packing.is_worth_rewriting(big, options(**{"compaction.delete-ratio-threshold": 0.1}), DeletionVectorSummary(index_file="i", deleted_row_count=11))


def test_files_are_packed_from_the_smallest_on() -> None:
    # 150 and 5 × 4 are no 200, with 60 they are
    assert sizes(packing.group_files_to_rewrite(files(60, 10, 20, 50, 40, 30), OPTIONS)) == [[10, 20, 30, 40, 50, 60]]
    assert sizes(packing.group_files_to_rewrite(files(60, 60, 60, 60), OPTIONS)) == [[60, 60, 60, 60]]
    assert sizes(packing.group_files_to_rewrite(files(*[60] * 5, 1, 1), OPTIONS)) == [[1, 1, 60, 60, 60]]
    assert sizes(packing.group_files_to_rewrite(files(1, 1, 1, 1), OPTIONS)) == []
    assert sizes(packing.group_files_to_rewrite(files(1, 1, 1, 1, 1), OPTIONS)) == [[1, 1, 1, 1, 1]]
    assert sizes(packing.group_files_to_rewrite(files(1, 2), options(**{"compaction.min.file-num": 2}))) == [[1, 2]]
    assert sizes(packing.group_files_to_rewrite(files(1, 1), options(**{"source.split.open-file-cost": "100 mb"}))) == [[1, 1]]
    assert packing.group_files_to_rewrite([], OPTIONS) == []


def test_one_file_alone_is_never_packed_however_big() -> None:
    assert sizes(packing.group_files_to_rewrite(files(900), OPTIONS)) == []


def test_files_of_one_index_file_stay_together_and_are_always_compacted() -> None:
    held = files(1, 2, 3, 4, 5)
    vectors = {
        held[0].name: DeletionVectorSummary(index_file="x", deleted_row_count=1),
        held[4].name: DeletionVectorSummary(index_file="x", deleted_row_count=1),
        held[2].name: DeletionVectorSummary(index_file="y", deleted_row_count=1),
    }
    assert sizes(packing.group_files_to_rewrite(held, OPTIONS, vectors)) == [[3, 1, 5]]
    assert sizes(packing.group_files_to_rewrite(held[:1], OPTIONS, vectors)) == [[1]]
    assert sizes(packing.group_files_to_rewrite(held, OPTIONS, {})) == [[1, 2, 3, 4, 5]]
    wide = options(**{"target-file-size": "1 mb", "compaction.min.file-num": 2})
    assert sizes(packing.group_files_to_rewrite(held, wide, vectors)) == [[3, 1, 5], [2, 4]]


@given(
    st.lists(st.integers(1, 69), max_size=30),
    st.lists(st.sampled_from(("x", "y", "z", None)), min_size=30, max_size=30),
    st.booleans(),
)
def test_packing_takes_a_file_once_and_keeps_index_files_whole(drawn: list[int], index: list[str | None], with_vectors: bool) -> None:
    held = files(*drawn)
    vectors = (
        {file.name: DeletionVectorSummary(index_file=one, deleted_row_count=1) for file, one in zip(held, index, strict=False) if one is not None}
        if with_vectors
        else None
    )
    packed = packing.group_files_to_rewrite(held, OPTIONS, vectors)
    taken = [file.name for group in packed for file in group]
    assert len(taken) == len(set(taken))
    assert set(taken) <= {file.name for file in held}
    left = [file for file in held if file.name not in taken]
    if vectors is None:
        assert len(left) < 5
        assert all(len(group) > 1 for group in packed)
    else:
        assert not {file.name for file in left} & set(vectors)
        for one in "xyz":
            assert len([group for group in packed if any(file.name in vectors and vectors[file.name].index_file == one for file in group)]) <= 1


# ---- buckets -------------------------------------------------------------------------------------------------------------------------------------------


def test_neighbours_are_picked_when_there_are_enough_in_a_window() -> None:
    held = files(1, 1, 1, 1, 1, 9)
    assert packing.pick_adjacent_files(held, OPTIONS) == (tuple(held[:5]), tuple(held[5:]))
    assert packing.pick_adjacent_files(held[:4], OPTIONS) == ((), tuple(held[:4]))
    held = files(150, 60, 1, 1, 1, 1, 1)
    taken, left = packing.pick_adjacent_files(held, OPTIONS)
    assert (sizes([taken]), left) == ([[60, 1, 1, 1, 1]], (held[6],))  # 150 fell out of the window
    taken, left = packing.pick_adjacent_files(files(250, 1), OPTIONS)
    assert (taken, sizes([left])) == ((), [[1]])


def test_a_full_compaction_of_a_bucket_wants_more_small_files_than_big_ones() -> None:
    assert sizes([packing.pick_for_full_compaction(files(90, 90, 1, 1, 90), OPTIONS)]) == [[1, 1, 90]]
    assert packing.pick_for_full_compaction(files(90, 90, 1, 90, 90), OPTIONS) == ()
    assert packing.pick_for_full_compaction(files(1, 1), OPTIONS) == ()
    assert packing.pick_for_full_compaction(files(90, 90, 90), OPTIONS) == ()
    assert sizes([packing.pick_for_full_compaction(files(90, 1), options(**{"compaction.force-rewrite-all-files": "true"}))]) == [[90, 1]]


def test_with_deletion_vectors_a_full_compaction_takes_what_follows_the_first_file_that_needs_it() -> None:
    held = files(90, 90, 90, 1)
    assert packing.pick_for_full_compaction(held[:3], OPTIONS, {}) == ()
    assert packing.pick_for_full_compaction(held, OPTIONS, {}) == ()
    assert sizes([packing.pick_for_full_compaction(held, OPTIONS, {held[1].name: DeletionVectorSummary(index_file="x", deleted_row_count=1)})]) == [[90, 90, 1]]
    assert packing.pick_for_full_compaction(held[:1], OPTIONS, {held[0].name: DeletionVectorSummary(index_file="x", deleted_row_count=1)}) == (held[0],)


def test_files_have_the_order_of_their_rows() -> None:
    held = files(1, 2, 3)
    assert packing.sort_by_sequence(reversed(held)) == held


# ---- rewriting -------------------------------------------------------------------------------------------------------------------------------------------


TIMES_BEFORE_1970 = ("index_bloom_filter_fpp", "types_timestamps_orc")
"""ORC files with times before 1970 finer than milliseconds."""


def append_tables() -> list[str]:
    """Golden append tables whose files lakekit writes again."""
    found = []
    for path in sorted(Path(FIXTURES, "tables").glob("*.json")):
        schemas = sorted((path.with_suffix("") / "schema").glob("schema-*[0-9]"), key=lambda one: int(one.name.removeprefix("schema-")))
        if not schemas:
            continue
        first, last = (json.loads(one.read_text()) for one in (schemas[0], schemas[-1]))
        options = last.get("options", {})
        plain = options.get("row-tracking.enabled") != "true" and "type" not in options and "VARIANT" not in json.dumps(last["fields"])
        if plain and not first.get("primaryKeys", []):
            found.append(path.stem)
    return found


def rows(handle: TableContext, partition: bytes, bucket: int, held: list[DataFileMeta], gone: dict) -> pl.DataFrame:
    paths = [data_file_path(handle, partition, bucket, file) for file in held]
    return scan_files(handle, held, paths, handle.schema.fields, deleted_rows=gone).collect()


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        name
        for at, name in enumerate(append_tables())
        if DEEP or at % 4 == 0 or name in (*TIMES_BEFORE_1970, "types_null_map_keys_orc") or name.startswith("vectors")
    ],
)
def test_rewritten_files_hold_the_rows_that_were_left_in_order(name: str, tmp_path: Path) -> None:
    shutil.copytree(Path(FIXTURES, "tables", name), tmp_path / name)
    handle = open_context(str(tmp_path / name))
    snapshot = snapshots.latest(handle)
    if snapshot is None:
        return
    standing = SnapshotBuckets.at_snapshot(handle, snapshot)
    live = manifest_reader.read_live_entries(handle, snapshot)
    everything = manifest_reader.index_entries(handle, snapshot)
    for partition, bucket in sorted(set(zip(live.column("partition").to_pylist(), live.column("bucket").to_pylist(), strict=True))):
        held = packing.sort_by_sequence(standing.restore_bucket(partition, bucket).files) if bucket >= 0 else []
        if bucket < 0:
            held = list(live.filter(live.column("partition").to_numpy(zero_copy_only=False) == partition).files())
        vectors = {part.file_name: entry for entry in everything for part in entry.ranges if part.file_name in {file.name for file in held}}
        gone = deletion_vector_reader.load_positions(handle, vectors)
        place = RewriteTarget(ctx=handle, partition=partition, bucket=bucket, file_names=make_file_names(handle), deletions=gone)
        try:
            before = rows(handle, partition, bucket, held, gone)
        except LakekitError as refused:
            with pytest.raises(type(refused)):
                packing.rewrite_files(place, held)
            continue
        done = packing.rewrite_files(place, held)
        assert done.before == tuple(held)
        assert done.rewritten_names == {file.name for file in held}
        assert all((file.level, file.source) == (0, COMPACT_SOURCE) for file in done.after)
        assert rows(handle, partition, bucket, list(done.after), {}).equals(before)
        number = held[0].min_sequence_number
        for file in done.after:
            assert (file.min_sequence_number, file.max_sequence_number) == (number, number + file.row_count - 1)
            number += file.row_count


def test_tables_that_track_rows_are_refused(tmp_path: Path) -> None:
    shutil.copytree(Path(FIXTURES, "tables", "append_row_tracking"), tmp_path / "t")
    handle = open_context(str(tmp_path / "t"))
    held = files(1, 1)
    with pytest.raises(Unsupported, match="row-tracking"):
        packing.rewrite_files(RewriteTarget(ctx=handle, partition=bytes(12), bucket=0, file_names=make_file_names(handle)), held)
