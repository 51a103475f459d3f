"""fastavro judges the Avro files of golden tables, and each one that is made in a test."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import polars as pl
import pytest

import lakekit as lk
from lakekit.codec import avro_columns
from lakekit.testing.fixtures import fixtures
from spec_tests import avro_judge
from spec_tests.longer import some

if TYPE_CHECKING:
    from pathlib import Path

DATA_FILES = sorted((fixtures() / "tables").glob("**/bucket-*/*.avro"))


def test_all_four_kinds_of_files_are_judged_where_a_test_writes(tmp_path):
    before = avro_judge.judged.copy()
    options = {"bucket": "1", "file.format": "avro", "deletion-vectors.enabled": "true"}
    rows = pl.DataFrame({"k": [1, 2, 3], "d": ["a", None, "c"]})
    table = lk.create(tmp_path / "t", rows.schema, primary_keys=["k"], options=options)
    table.upsert(rows)
    table.upsert(rows.head(1))
    table.compact(full=True)
    table.upsert(rows.tail(1))
    table.compact()
    assert set(avro_judge.judged - before) == {"manifest", "manifest list", "index manifest", "data file"}


@pytest.mark.parametrize("path", some(DATA_FILES, 20), ids=lambda path: f"{path.parents[1].name}/{path.name}")
def test_data_files_of_the_engines_are_read_as_fastavro_reads_them(path: Path):
    avro_judge.judge(path.read_bytes())


def test_another_answer_fails_the_test_that_wrote_the_file(tmp_path):
    table = lk.create(tmp_path / "t", {"a": pl.Int64}, options={"file.format": "avro"})
    with (
        mock.patch.object(avro_columns, "read_records", lambda container: [None] * container.count),
        pytest.raises(AssertionError, match="fastavro decodes another data file than lakekit"),
    ):
        table.append(pl.DataFrame({"a": [1]}))


def test_numbers_that_are_none_and_maps_are_compared_by_what_they_hold():
    assert avro_judge.same([{"a": float("nan"), "m": [("x", 1)], "e": []}], [{"a": float("nan"), "m": {"x": 1}, "e": {}}])
    assert not avro_judge.same([{"a": 1}], [{"a": 2}])
    assert not avro_judge.same([{"a": 1}], [{"b": 1}])
    assert not avro_judge.same([1.5], [2.5])
    assert not avro_judge.same([1], [1, 1])
