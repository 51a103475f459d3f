"""A default in a schema file that is no value of its column is refused by column, text and file; rows that need none are written and read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.errors import LakekitError, ValueOutOfRange

if TYPE_CHECKING:
    from pathlib import Path

TYPES = ["INT", "TINYINT", "BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIME(3)", "TIMESTAMP(3)", "DECIMAL(5, 2)", "BYTES"]
TYPES += ["ARRAY<INT>", "ROW<a INT>", "MAP<STRING, INT>"]
TEXTS = ["x", "", "'", "''", "99999999999999999999", "1e400", "2024-13-01", "25:00", "(SELECT 1)", "id", "nope()", "[1", "{", "\x00", "NaN", "7", "1.5", "true"]


def with_default(folder: Path, dtype: str, text: str) -> lk.Table:
    lk.create(folder, {"id": "INT", "v": dtype})
    path = folder / "schema" / "schema-0"
    found = json.loads(path.read_text())
    found["fields"][1]["defaultValue"] = text
    path.write_text(json.dumps(found))
    return lk.open(folder)


def test_a_bad_default_is_named_and_not_an_old_file(tmp_path):
    t = with_default(tmp_path / "t", "INT", "x")
    t.append(pl.DataFrame({"id": [1], "v": [1]}, schema_overrides={"id": pl.Int32, "v": pl.Int32}))
    for rows in ({"id": [2]}, {"id": [2], "v": [None]}):
        with pytest.raises(ValueOutOfRange) as caught:
            t.append(pl.DataFrame(rows, schema_overrides=dict.fromkeys(rows, pl.Int32)))
        message = str(caught.value)
        assert "column v of t is INT" in message
        assert "'x'" in message
        assert "/schema/schema-0 gives it the default" in message
        assert "old file" not in message
        assert (caught.value.column, caught.value.path) == ("v", f"{t.location}/schema/schema-0")
    assert t.scan().collect().rows() == [(1, 1)]
    t.alter(lk.update_default("v", "7"))
    t.append(pl.DataFrame({"id": [2]}, schema={"id": pl.Int32}))
    assert t.scan().collect().sort("id").rows() == [(1, 1), (2, 7)]


def test_a_statement_advises_a_statement(tmp_path):
    cat = lk.connect(tmp_path)
    cat.sql("CREATE DATABASE d")
    with_default(tmp_path / "d.db" / "t", "DATE", "soon")
    with pytest.raises(ValueOutOfRange, match="ALTER TABLE … ALTER COLUMN v SET DEFAULT"):
        cat.sql("INSERT INTO d.t (id) VALUES (1)")


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(TYPES), st.sampled_from(TEXTS) | st.text(max_size=8))
def test_drawn_defaults_are_stored_or_named(tmp_path_factory, dtype, text):
    folder = tmp_path_factory.mktemp("default") / "t"
    try:
        t = with_default(folder, dtype, text)
    except LakekitError:
        return  # a text that no schema file may hold
    try:
        t.append(pl.DataFrame({"id": [1]}, schema={"id": pl.Int32}))
    except LakekitError as wrong:
        assert "old file" not in wrong.message, wrong.message
        assert "column v" in wrong.message
        assert "schema-0" in wrong.message
        assert t.scan().collect().height == 0
    else:
        assert t.scan().collect().height == 1
