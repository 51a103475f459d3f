"""Keys that are held between lookups answer as the files do that they came from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import lakekit as lk
from lakekit.bucket import lookup as held_keys
from lakekit.bucket.lookup import LookupLevels, _look_up_by_join, look_up_rows
from lakekit.format.polars_types import polars_schema
from lakekit.lsm.compaction_picker import SortedRun
from lakekit.model.data_file import EMPTY_ROW
from lakekit.types import Field
from spec_tests.roundtrip.writing import section, table, write


@pytest.mark.long
@pytest.mark.parametrize("text", ["BIGINT", "INT", "DATE", "TIMESTAMP(3)"])
def test_held_keys_answer_as_files_do(text, tmp_path):
    """Keys of whole numbers are found by binary search in what is held; the same keys, asked of the files."""
    key = Field("k", f"{text} NOT NULL", id=0)
    handle = table(tmp_path / "t", [key, Field("v", "INT", id=1)], key=["k"])
    dtype = polars_schema([key])["k"]
    numbers = [pl.Series("k", np.arange(start, 4000, 3)).cast(pl.Int32 if text in ("INT", "DATE") else pl.Int64).cast(dtype) for start in (0, 1)]
    frames = [section(pl.DataFrame([column, pl.Series("v", np.arange(len(column)), pl.Int32)])) for column in numbers]
    runs = tuple(SortedRun(level=level, files=tuple(write(handle, frame, level=level))) for level, frame in zip((3, 5), frames, strict=True))
    deleted = {runs[0].files[0].name: np.array([0, 5, 7], np.uint64)}
    older = LookupLevels(ctx=handle, partition=EMPTY_ROW, bucket=0, runs=runs, deleted_positions=deleted)
    asked = pl.Series("k", np.random.default_rng(2).permutation(5000)[:900]).cast(numbers[0].to_physical().dtype).cast(dtype).to_frame()
    for _ in range(2):  # read, and then held
        by_number, by_join = look_up_rows(older, asked, ("k", "v")), _look_up_by_join(older, asked, ("k", "v"))
        assert by_number.rows.sort("k").equals(by_join.rows.sort("k"))
        assert by_number.positions.keys() == by_join.positions.keys()
        assert all((by_number.positions[name] == positions).all() for name, positions in by_join.positions.items())
    assert held_keys.cached_key_range(handle, older.file_path(runs[0].files[0])) is not None
    assert not {0, 5, 7} & set(by_number.positions[runs[0].files[0].name].tolist())


def test_keys_that_do_not_ascend_are_not_held(tmp_path):
    handle = table(tmp_path / "t", [Field("k", "BIGINT NOT NULL", id=0), Field("v", "INT", id=1)], key=["k"])
    rows = section(pl.DataFrame({"k": [3, 1, 2, 9], "v": pl.Series([1, 2, 3, 4], dtype=pl.Int32)}))
    files = tuple(write(handle, rows, level=5))
    files = tuple(replace(file, min_key=file.max_key, max_key=file.max_key) for file in files)
    older = LookupLevels(ctx=handle, partition=EMPTY_ROW, bucket=0, runs=(SortedRun(level=5, files=files),))
    assert held_keys.find_rows_by_cached_keys(handle, files[0], older.file_path(files[0]), np.array([2]), span=1.0) is None
    assert look_up_rows(older, pl.DataFrame({"k": [9]}), ()).positions[files[0].name].tolist() == [3]


def test_keys_of_files_that_were_just_written_are_not_read(tmp_path, monkeypatch):
    """Neither of those that only move to another level nor of those that are merged."""
    written = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options={"bucket": "1", "deletion-vectors.enabled": "true"})

    def read(*_arguments, **_options):
        raise AssertionError

    monkeypatch.setattr(held_keys, "scan_files", read)
    stands = {}
    for turn in range(8):
        rows = [{"k": (turn + 3 * i) % 40, "v": turn} for i in range(12)]
        written.upsert(rows)
        stands |= {row["k"]: turn for row in rows}
    assert dict(written.scan().select("k", "v").collect().rows()) == stands
    assert 0 not in written.files()["level"].to_list()
