"""Bytes inside data files that no value of their column's type can be: `Corrupt` with the file's path, never a row."""

from __future__ import annotations

import contextlib
import io
import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyarrow import orc

import lakekit as lk
from lakekit.codec import orc_bounds, orc_tail
from lakekit.errors import Corrupt
from lakekit.format import orc as orc_files
from lakekit.types import Field, parse
from spec_tests.reliability import damaged_tables

if TYPE_CHECKING:
    from pathlib import Path

MARK = "größe-größe"


def spoiled(path: Path, columns: dict[str, str], row: dict[str, object], codec: str = "none") -> Path:
    """A table of one ORC file in which a byte of each `MARK` is none of UTF-8."""
    lk.create(path, columns, options={"file.format": "orc", "file.compression": codec}).append([row])
    file = damaged_tables.targets(path, "data")[0]
    data, mark = file.read_bytes(), MARK.encode()
    assert mark in data
    file.write_bytes(data.replace(mark, mark.replace("ß".encode(), b"\xff\xfe")))
    return file


@pytest.mark.parametrize(
    ("kind", "value"),
    [("STRING", MARK), ("CHAR(20)", MARK), ("ARRAY<STRING>", ["a", MARK]), ("MAP<STRING, INT>", {MARK: 1}), ("ROW<a INT, b STRING>", {"a": 1, "b": MARK})],
)
def test_a_text_of_an_orc_file_that_is_no_utf_8_is_corrupt(tmp_path, kind, value):
    """Arrow takes any bytes for a text: Polars held them in a column of texts, and panicked when a value was asked for."""
    file = spoiled(tmp_path / "t", {"id": "INT", "v": kind}, {"id": 1, "v": value})
    with pytest.raises(Corrupt, match="column v") as wrong:
        lk.open(tmp_path / "t").scan().collect()
    assert wrong.value.path == str(file)
    assert lk.open(tmp_path / "t").scan().select("id").collect()["id"].to_list() == [1]
    assert not lk.open(tmp_path / "t").check(deep=True).ok


@given(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=9)), min_size=1, max_size=30))
def test_texts_of_any_letters_pass(texts):
    made = io.BytesIO()
    orc.write_table(pa.table({"v": pa.array(texts, pa.string()), "a": pa.array([[one] for one in texts], pa.list_(pa.string()))}), made)
    fields = [Field("v", parse("STRING")), Field("a", parse("ARRAY<STRING>"))]
    found = orc_files.scan(["a.orc"], fields, read=lambda path: made.getvalue()).collect()
    assert found.rows() == [(one, [one]) for one in texts]


@pytest.mark.parametrize("codec", ["zlib", "zstd", "snappy", "lz4", "none"])
@pytest.mark.parametrize("size", [0, 1 << 23, 1 << 40, (1 << 64) - 1])
def test_a_block_size_of_an_orc_file_is_bounded(codec, size):
    """zlib was asked for 2^64 - 1 bytes: an OverflowError of Python's."""
    made = io.BytesIO()
    orc.write_table(pa.table({"v": pa.array(["a"] * 9)}), made, compression="uncompressed" if codec == "none" else codec)
    data = made.getvalue()
    length = data[-1]
    postscript = [part._replace(value=size) if part.field_number == 3 else part for part in orc_tail.parse_members(data[-1 - length : -1])]
    said = orc_tail.build_message(postscript)
    bad = data[: -1 - length] + said + bytes([len(said)])
    for look in (
        orc_tail.parse_tail,
        lambda data: orc_tail.row_count(lambda at, count: data[at : at + count], len(data)),
        lambda data: orc_bounds.check_tail_and_streams("a.orc", data),
    ):
        with contextlib.suppress(lk.LakekitError):
            look(bad)


@pytest.mark.parametrize("format_name", ["avro", "orc"])
@pytest.mark.parametrize("keys", [[], ["id"]])
def test_a_row_of_more_parts_than_the_schema_says_is_corrupt_or_left_out(tmp_path, format_name, keys):
    """The merge raised Polars' own SchemaError."""
    options = {"file.format": format_name} | ({"bucket": "1", "write-only": "true"} if keys else {})
    t = lk.create(tmp_path / "t", {"id": "INT", "r": "ROW<p INT, q STRING>"}, primary_keys=keys, options=options)
    for number in (1, 2):
        (t.upsert if keys else t.append)([{"id": number, "r": {"p": 1, "q": "x"}}])
    schema = tmp_path / "t" / "schema" / "schema-0"
    said = json.loads(schema.read_text())
    said["fields"][1]["type"]["fields"].pop()
    schema.write_text(json.dumps(said))
    files = {str(file) for file in damaged_tables.targets(tmp_path / "t", "data")}
    try:
        found = lk.open(tmp_path / "t").scan().collect()
    except Corrupt as wrong:
        assert wrong.path in files
        assert wrong.field == "r"
    else:
        assert found["r"].to_list() == [{"p": 1}, {"p": 1}]
