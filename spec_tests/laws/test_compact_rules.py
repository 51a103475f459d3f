"""What becomes of each file of a compaction, and what it tells: the rules of ENGINE.md 2.4, 2.5, 2.7, 2.9 and 4.1, one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from lakekit.bucket import compaction as compacting
from lakekit.columns import KIND, SEQUENCE
from lakekit.data_file.paths import make_file_names
from lakekit.data_file.rolling_writer import WriteTarget, write_run
from lakekit.errors import InvalidOption, StorageFailed
from lakekit.lsm import compaction_picker
from lakekit.lsm.compaction_picker import CompactionUnit
from lakekit.model.data_file import APPEND_SOURCE, COMPACT_SOURCE, KIND_TEXTS
from lakekit.runtime import Runtime
from spec_tests.laws.test_compact_histories import UNPARTITIONED, changes, created

if TYPE_CHECKING:
    from pathlib import Path

    from lakekit.model.data_file import DataFileMeta
    from spec_tests.laws.test_compact import Bucket


def put(bucket: Bucket, *rows: tuple, level: int = 0, first: int | None = None) -> DataFileMeta:
    """A file of rows (k, a, kind) that are newer than all others; b is text of a."""
    held = bucket.levels.files
    first = max((file.max_sequence_number for file in held), default=-1) + 1 if first is None else first
    frame = pl.DataFrame(
        [(k, "", a, None if a is None else str(a), None, first + at, kind) for at, (k, a, kind) in enumerate(rows)],
        schema={"k": pl.Int32, "s": pl.String, "a": pl.Int32, "b": pl.String, "c": pl.Int64, SEQUENCE: pl.Int64, KIND: pl.Int8},
        orient="row",
    )
    target = WriteTarget(
        ctx=bucket.ctx, partition=UNPARTITIONED, bucket=0, level=level, source=APPEND_SOURCE, file_names=make_file_names(bucket.ctx), is_keyed=True
    )
    [file] = write_run(target, [frame])
    bucket.levels = bucket.levels.with_changes([], [file])
    return file


def upto(bucket: Bucket, output: int, *files: DataFileMeta) -> CompactionUnit:
    return CompactionUnit(output_level=output, files=files or bucket.levels.files)


def told(bucket: Bucket, done: compacting.CompactResult) -> list[tuple]:
    """The changelog as (kind, key, a)."""
    return [(KIND_TEXTS[row[-1]], row[0], row[2]) for row in changes(bucket, done)]


def kept(bucket: Bucket) -> list[tuple]:
    return [(k, a) for k, _, a, _, _ in bucket.rows().rows()]


def listed(path: Path) -> set[str]:
    return {str(one.relative_to(path)) for one in path.rglob("*") if one.is_file()}


@pytest.fixture
def table(tmp_path: Path):
    return lambda **options: created(tmp_path / "t", {key.replace("_", "-").replace("--", "."): value for key, value in options.items()})


# ---- files ------------------------------------------------------------------------------------------------------------------------------------------


def test_big_files_that_overlap_nothing_change_their_level_and_not_their_bytes(table, tmp_path: Path) -> None:
    bucket = table(**{"target-file-size": "1 b"})  # no file is small
    a, b = put(bucket, (1, 1, 0), (5, 1, 0)), put(bucket, (6, 2, 0), (9, 2, 0))
    before = listed(tmp_path)
    done = bucket.compact(bucket.full())
    assert listed(tmp_path) == before
    assert (done.before, done.after) == ((a, b), (replace(a, level=3), replace(b, level=3)))
    assert done.rewritten_names == frozenset()
    assert kept(bucket) == [(1, 1), (5, 1), (6, 2), (9, 2)]


def test_small_neighbours_become_one_file(table) -> None:
    bucket = table()
    files = put(bucket, (1, 1, 0), (5, 1, 0)), put(bucket, (6, 2, 0), (9, 2, 0))
    done = bucket.compact(bucket.full())
    [made] = done.after
    assert (made.level, made.row_count, made.source, made.delete_row_count) == (3, 4, COMPACT_SOURCE, 0)
    assert done.before == files
    assert done.rewritten_names == {file.name for file in files}
    assert (made.min_sequence_number, made.max_sequence_number) == (0, 3)


def test_big_files_between_small_ones_part_what_is_rewritten(table, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = table()
    files = [put(bucket, (10 * at, at, 0), (10 * at + 5, at, 0)) for at in range(5)]
    big = files[2].name
    monkeypatch.setattr(compacting, "is_small_file", lambda file, options: file.name != big)
    done = bucket.compact(bucket.full())
    assert [(file.level, file.row_count) for file in done.after] == [(3, 4), (3, 2), (3, 4)]
    assert done.after[1] == replace(files[2], level=3)


def test_one_small_file_is_only_moved(table) -> None:
    bucket = table()
    file = put(bucket, (1, 1, 0))
    done = bucket.compact(bucket.full())
    assert (done.before, done.after, done.rewritten_names) == ((file,), (replace(file, level=3),), frozenset())


def test_a_file_with_deletes_is_not_moved_to_the_last_level(table) -> None:
    bucket = table()
    put(bucket, (1, 1, 0), (2, None, 3))
    middle = bucket.compact(upto(bucket, 2))
    assert middle.rewritten_names == frozenset()  # deletes may stay below the last level
    assert bucket.levels.files[0].delete_row_count == 1
    last = bucket.compact(upto(bucket, 3))
    assert [(file.row_count, file.delete_row_count) for file in last.after] == [(1, 0)]


def test_of_nothing_but_deletes_no_file_is_left(table) -> None:
    bucket = table()
    put(bucket, (1, 1, 0), (2, 1, 0))
    put(bucket, (1, None, 3), (2, None, 3))
    done = bucket.compact(bucket.full())
    assert (len(done.before), done.after) == (2, ())


def test_deletes_stay_while_something_older_lies_below(table) -> None:
    bucket = table()
    put(bucket, (1, 1, 0), (2, 1, 0), (3, 1, 0))
    bucket.compact(upto(bucket, 3))
    newer = put(bucket, (1, None, 3)), put(bucket, (1, None, 3), (2, 2, 0))
    done = bucket.compact(upto(bucket, 2, *newer))
    assert [(file.row_count, file.delete_row_count) for file in done.after] == [(2, 1)]
    assert kept(bucket) == [(2, 2), (3, 1)]


def test_files_where_they_belong_are_left_alone(table) -> None:
    bucket = table(**{"target-file-size": "1 b"})  # no file is small
    low = put(bucket, (1, 1, 0), (2, 1, 0), level=3)
    put(bucket, (5, 1, 0))
    done = bucket.compact(bucket.full())
    assert low not in done.before
    assert low in bucket.levels.files


def test_everything_is_rewritten_where_the_options_say_so(table) -> None:
    bucket = table(**{"compaction.force-rewrite-all-files": "true"})
    files = put(bucket, (1, 1, 0)), put(bucket, (5, 1, 0))
    bucket.compact(bucket.full())
    [one] = bucket.levels.files
    assert one.name not in {file.name for file in files}
    done = bucket.compact(bucket.full())
    assert done.rewritten_names == {one.name}
    assert kept(bucket) == [(1, 1), (5, 1)]


def test_rows_whose_time_has_come_are_left_out(table) -> None:
    bucket = table(**{"record-level.expire-time": "10 s", "record-level.time-field": "a"})
    bucket.ctx = replace(bucket.ctx, runtime=Runtime(now_ms=lambda: 100_999))
    put(bucket, (1, 89, 0), (2, 90, 0), (3, None, 0))
    assert bucket.full() is not None
    done = bucket.compact(bucket.full())
    assert len(done.rewritten_names) == 1  # its statistics say that a row is due
    assert kept(bucket) == [(2, 90), (3, None)]
    due = compacting.record_expiration(bucket.ctx, 101_000)
    assert due is not None
    assert due.may_have_expired_rows(bucket.levels.files[0])
    assert not compacting.record_expiration(bucket.ctx, 100_999).may_have_expired_rows(bucket.levels.files[0])


@pytest.mark.parametrize(("column", "why"), [("zz", "not there"), ("b", "must be INT"), (None, "must name")])
def test_a_time_that_is_none_is_refused(table, column: str | None, why: str) -> None:
    bucket = table(**{"record-level.expire-time": "10 s", **({} if column is None else {"record-level.time-field": column})})
    put(bucket, (1, 1, 0))
    with pytest.raises(InvalidOption, match=why):
        bucket.compact(bucket.full())


def test_files_of_the_last_level_that_hold_deleted_rows_are_rewritten_each_by_itself(table) -> None:
    bucket = table(**{"deletion-vectors.enabled": "true"})
    a, b = put(bucket, (1, 1, 0), (2, 1, 0), level=3), put(bucket, (5, 1, 0), (6, 1, 0), level=3)
    bucket.vectors.add_positions({a.name: np.array([1])})
    unit = compaction_picker.pick_full_compaction(bucket.levels, bucket.ctx.options, has_vector=lambda file: file.name in bucket.vectors.positions)
    done = bucket.compact(unit)
    assert (done.before, done.rewritten_names) == ((a,), {a.name})
    assert [file.row_count for file in bucket.levels.files if file.name != b.name] == [1]
    assert bucket.vectors.positions == {}
    assert kept(bucket) == [(1, 1), (5, 1), (6, 1)]


# ---- slices -------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"changelog-producer": "full-compaction"}, {"changelog-producer": "lookup"}, {"merge-engine": "aggregation"}])
def test_slices_change_nothing(table, tmp_path: Path, options: dict[str, str]) -> None:
    found = []
    for number, memory in enumerate(("256 mb", "1 kb")):
        bucket = created(tmp_path / str(number), {**options, "lakekit.merge-memory": memory})
        for at in range(3):
            put(bucket, *((k, k * at, 0) for k in range(at, 300, at + 1)))
        done = bucket.compact(bucket.full())
        [made] = done.after
        found.append((bucket.rows(), made.row_count, made.min_key, made.max_key, made.value_stats, sorted(changes(bucket, done))))
    assert found[0][0].equals(found[1][0])
    assert found[0][1:] == found[1][1:]


@pytest.mark.long
def test_whatever_fails_no_file_is_left(table, tmp_path: Path) -> None:
    bucket = table(**{"changelog-producer": "lookup", "lakekit.merge-memory": "1 kb"})
    for at in range(3):
        put(bucket, *((k, at, 0) for k in range(2500)))
    bucket.ctx = bucket.ctx.with_options({"target-file-size": "1 b"})
    before, calls = listed(tmp_path), []

    def fails(keys: pl.DataFrame) -> pl.DataFrame:
        calls.append(keys.height)
        if sum(calls) > 2000:
            raise StorageFailed("the disk is gone")
        return keys.clear()

    job = compacting.CompactionJob(
        ctx=bucket.ctx,
        partition=UNPARTITIONED,
        bucket=0,
        levels=bucket.levels,
        file_names=make_file_names(bucket.ctx),
        spec=bucket.rule,
        find_previous_rows=fails,
    )
    with pytest.raises(StorageFailed, match="the disk is gone"):
        compacting.compact_unit(job, bucket.full())
    assert len(calls) > 1
    assert listed(tmp_path) == before


# ---- changelog ------------------------------------------------------------------------------------------------------------------------------------------


def test_the_worked_example_of_lookup(table) -> None:
    """ENGINE.md 4.4."""
    bucket = table(**{"changelog-producer": "lookup", "num-levels": "6"})

    def commit(*rows: tuple) -> list[tuple]:
        put(bucket, *rows)
        return told(bucket, bucket.compact(compaction_picker.pick_level_0(bucket.levels, bucket.ctx.options, now_ms=0)))

    assert commit((1, 10, 0), (2, 20, 0)) == [("+I", 1, 10), ("+I", 2, 20)]
    assert bucket.levels.highest_used_level == 5
    assert commit((1, 30, 2), (2, None, 3)) == [("-U", 1, 10), ("+U", 1, 30), ("-D", 2, 20)]
    assert kept(bucket) == [(1, 30)]
    assert commit((3, None, 3)) == []
    assert commit((1, 30, 2)) == [("-U", 1, 30), ("+U", 1, 30)]


def test_equal_rows_are_left_out_where_the_options_say_so(table) -> None:
    bucket = table(**{"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true", "changelog-producer.row-deduplicate-ignore-fields": "c, b"})
    put(bucket, (1, 10, 0), (2, 20, 0))
    bucket.compact(bucket.full())
    put(bucket, (1, 10, 2), (2, 21, 2))
    assert told(bucket, bucket.compact(bucket.full())) == [("-U", 2, 20), ("+U", 2, 21)]


def test_a_full_compaction_tells_what_changes_of_the_last_level(table) -> None:
    bucket = table(**{"changelog-producer": "full-compaction"})
    put(bucket, (1, 10, 0), (2, 20, 0), (3, 30, 0))
    first = bucket.compact(bucket.full())
    assert told(bucket, first) == [("+I", 1, 10), ("+I", 2, 20), ("+I", 3, 30)]
    assert first.rewritten_names == frozenset()  # a file that moves up is told of, and not written again
    assert {file.level for file in first.changelog} == {3}
    put(bucket, (2, 20, 2), (3, None, 3), (4, None, 3), (5, 50, 2))
    put(bucket, (5, 55, 2))
    assert bucket.compact(upto(bucket, 2, *bucket.levels.level_0)).changelog == ()
    done = bucket.compact(bucket.full())
    assert told(bucket, done) == [("-U", 2, 20), ("+U", 2, 20), ("-D", 3, 30), ("+I", 5, 55)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "rewritten"),
    [
        ({}, False),
        ({"sequence.field": "c"}, True),
        ({"merge-engine": "partial-update"}, True),
        ({"merge-engine": "aggregation"}, True),
        ({"file.format.per.level": "0:avro,2:parquet"}, True),
        ({"merge-engine": "first-row"}, True),
    ],
)
def test_a_file_of_level_0_that_moves_is_written_anew_where_older_rows_join_it(table, options: dict[str, str], rewritten: bool) -> None:
    bucket = table(**{"changelog-producer": "lookup", **options})
    put(bucket, (1, 10, 0), (2, 20, 0), level=3)
    file = put(bucket, (2, 21, 0), (3, 30, 0))
    done = bucket.compact(upto(bucket, 2, file))
    assert (done.rewritten_names == {file.name}) == rewritten
    expected = [("+I", 3, 30)] if options.get("merge-engine") == "first-row" else [("-U", 2, 20), ("+U", 2, 21), ("+I", 3, 30)]
    assert told(bucket, done) == expected
    assert kept(bucket) == [(1, 10), (2, 20 if options.get("merge-engine") == "first-row" else 21), (3, 30)]


def test_a_writer_that_ignores_what_was_there_tells_nothing(table) -> None:
    bucket = table(**{"changelog-producer": "lookup"})
    put(bucket, (1, 10, 0))
    assert bucket.compact(bucket.full(), tells=False).changelog == ()


def test_lookup_takes_rows_out_of_higher_files(table) -> None:
    bucket = table(**{"deletion-vectors.enabled": "true"})
    old = put(bucket, (1, 10, 0), (2, 20, 0), (3, 30, 0), level=3)
    file = put(bucket, (2, None, 3), (3, 31, 0))
    done = bucket.compact(upto(bucket, 2, file))
    assert {name: list(map(int, rows)) for name, rows in bucket.vectors.positions.items()} == {old.name: [1, 2]}
    assert done.rewritten_names == {file.name}  # deletes end here
    assert [(one.level, one.row_count) for one in bucket.levels.files] == [(2, 1), (3, 3)]
    assert kept(bucket) == [(1, 10), (3, 31)]


def test_a_lone_delete_is_merged_where_lookups_merge(table) -> None:
    partial = table(**{"changelog-producer": "lookup", "merge-engine": "partial-update"})
    put(partial, (1, None, 3))
    with pytest.raises(InvalidOption, match="delete"):
        partial.compact(partial.full())


def test_a_lone_delete_passes_elsewhere(table) -> None:
    bucket = table(**{"merge-engine": "partial-update"})
    put(bucket, (1, None, 3))
    assert bucket.compact(bucket.full()).after == ()


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"changelog-producer": "lookup"}, {"file.format": "avro"}])
def test_a_first_key_column_of_few_values_does_not_keep_slices_big(table, options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = table(**{"lakekit.merge-memory": "20 kb", **options})
    before = []
    for at in range(3):
        schema = {"k": pl.Int32, "s": pl.String, "a": pl.Int32, "b": pl.String, "c": pl.Int64, SEQUENCE: pl.Int64, KIND: pl.Int8}
        keys = [(k, f"{s:04}") for k in range(2) for s in range(at, 1000, at + 1)]
        frame = pl.DataFrame([(*key, at, "x", None, 10_000 * at + number, 0) for number, key in enumerate(keys)], schema=schema, orient="row")
        target = WriteTarget(
            ctx=bucket.ctx, partition=UNPARTITIONED, bucket=0, level=0, source=APPEND_SOURCE, file_names=make_file_names(bucket.ctx), is_keyed=True
        )
        bucket.levels = bucket.levels.with_changes([], write_run(target, [frame]))
        before.append(frame)
    expected, read = bucket.rows(), []
    versions = compacting._CompactionRun._read_versions
    monkeypatch.setattr(compacting._CompactionRun, "_read_versions", lambda *asked, **said: read.append(found := versions(*asked, **said)) or found)
    done = bucket.compact(bucket.full())
    assert sum(one.height for one in read) == sum(one.height for one in before)
    assert len(read) > 5
    assert max(one.height for one in read) < 2 * sum(one.height for one in before) / len(read)
    assert len(done.after) == 1
    assert bucket.rows().equals(expected)
