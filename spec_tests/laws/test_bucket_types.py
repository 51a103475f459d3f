"""Rows lie in the bucket of the value that they were written with: a column of the bucket key that has another type now chooses no bucket.

b INT = 3 in bucket hash(3)        b STRING = "3" is the same row, in the same bucket; hash("3") is another number
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.format.polars_types import polars_type
from lakekit.metadata import schemas
from lakekit.types import parse

CHANGES = {
    "TINYINT": ("INT", "STRING"), "INT": ("BIGINT", "STRING", "TINYINT", "BOOLEAN"), "BIGINT": ("INT", "STRING"), "DOUBLE": ("INT", "BIGINT"),
    "DECIMAL(5, 2)": ("DECIMAL(30, 2)", "INT", "STRING"), "STRING": ("VARCHAR(2)",), "VARCHAR(5)": ("STRING",), "DATE": ("STRING", "TIMESTAMP(3)"),
    "BOOLEAN": ("STRING", "INT"),
}  # fmt: skip
VALUES = {
    "TINYINT": (-128, -7, 0, 1, 127),
    "INT": (-(2**31), -7, 0, 1, 3, 256, 65_536),
    "BIGINT": (-(2**63), -7, 0, 1, 3, 2**32 + 3),
    "DOUBLE": (-3.5, 0.0, 1.5, 3.0),
    "DECIMAL(5, 2)": (Decimal("-3.25"), Decimal("0.00"), Decimal("100.10")),
    "STRING": ("", "ab", "abc", "longer than seven bytes"),
    "VARCHAR(5)": ("", "ab", "abcde"),
    "DATE": (date(1969, 12, 31), date(2024, 2, 29)),
    "BOOLEAN": (True, False),
}


@st.composite
def histories(draw):
    """A type, rows of it, the type that comes after, and whether all is compacted then."""
    before = draw(st.sampled_from(sorted(CHANGES)))
    rows = draw(st.lists(st.none() | st.sampled_from(VALUES[before]), min_size=1, max_size=8))
    return before, draw(st.sampled_from(CHANGES[before])), rows, draw(st.booleans())


def frame_of(text, column):
    return pl.DataFrame({"v": range(len(column)), "b": pl.Series(column, dtype=polars_type(parse(text)))}, schema_overrides={"v": pl.Int32})


@settings(max_examples=40)
@given(histories())
def test_every_row_is_found_by_its_value(history):
    before, after, column, compacts = history
    with TemporaryDirectory() as folder:
        t = lk.create(f"{folder}/t", {"v": "INT", "b": before}, options={"bucket": "7", "bucket-key": "b"})
        t.append(frame_of(before, column))
        t.alter(lk.update_type("b", after))
        rows = t.scan().collect()
        t.append(rows)
        if compacts:
            t.compact(full=True)
        for value in rows["b"].unique():
            condition = pl.col("b").is_null() if value is None else pl.col("b") == pl.lit(value, rows.schema["b"])
            assert t.scan().filter(condition).collect().height == 2 * rows.filter(condition).height, (before, after, value)
        assert t.check(deep=True).ok


def made(path, *types):
    t = lk.create(str(path / "t"), {"b": types[0], "v": "INT"}, options={"bucket": "7", "bucket-key": "b"})
    t.append([{"b": number, "v": number} for number in (-7, 1, 2, 3)])
    for text in types[1:]:
        t.alter(lk.update_type("b", text))
    return t


def test_rows_are_deleted_by_a_column_that_was_a_number(tmp_path):
    t = made(tmp_path, "INT", "STRING")
    t.delete("b = '3'")
    assert sorted(t.scan().collect()["v"]) == [-7, 1, 2]


@pytest.mark.parametrize("types", [("INT", "BIGINT"), ("BIGINT", "INT", "BIGINT")])
def test_a_type_that_came_back_chooses_no_bucket_either(tmp_path, types):
    t = made(tmp_path, *types)
    assert t.scan().filter(b=-7).collect().rows() == [(-7, -7)]


def test_a_type_that_never_changed_chooses_its_bucket(tmp_path):
    t = made(tmp_path, "INT")
    t.alter(lk.add_column("c", "INT"), lk.rename_column("b", "bb"))
    assert t.explain(pl.col("bb") == 3).files_read == 1


def test_schemas_are_read_once_for_many_filters(tmp_path, monkeypatch):
    t, reads, read_all = made(tmp_path, "INT"), [], schemas.read_all
    t.alter(lk.add_column("c", "INT"))
    t.alter(lk.add_column("d", "INT"))
    monkeypatch.setattr(schemas, "read_all", lambda place: reads.append(place) or read_all(place))
    for number in (1, 2, 3):
        assert lk.open(t.location).scan().filter(b=number).collect()["v"].to_list() == [number]
    assert len(reads) == 1
    t.alter(lk.update_type("b", "BIGINT"))
    for number in (1, 2, 3):
        assert lk.open(t.location).scan().filter(b=number).collect()["v"].to_list() == [number]
    assert len(reads) == 2
