"""Text formats: what is parsed by column is what the engine's rules say sign by sign, and what is printed is read again."""

from __future__ import annotations

import io

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from lakekit.errors import Corrupt, InvalidOption, LimitExceeded, ValueOutOfRange
from lakekit.model.data_file import EXTENSIONS
from lakekit.storage.memory import MemoryStorage
from lakekit.text_format import compression, csv, json
from lakekit.text_format.options import TextOptions, text_options_of
from lakekit.types import Field

SIGNS = st.text(alphabet=st.sampled_from("ab ,\"\\\t'é"), max_size=14)
TEXTS = st.one_of(st.none(), st.text(alphabet=st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n"), max_size=8), SIGNS.filter(bool))
COLUMNS = (Field("k", "INT"), Field("s", "STRING"), Field("x", "DOUBLE"), Field("b", "BYTES"))
NUMBERS, FLOATS = st.integers(-(2**31), 2**31 - 1), st.floats(allow_nan=False)
HOWS = [TextOptions(), TextOptions(quote="'"), TextOptions(delimiter="\t"), TextOptions(escape='"', quote="'")]
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), NUMBERS),
        TEXTS,
        st.one_of(st.none(), FLOATS),
        st.one_of(st.none(), st.binary(min_size=1, max_size=5)),
    ),
    min_size=1,
    max_size=8,
)
SCHEMA = {"k": pl.Int32, "s": pl.String, "x": pl.Float64, "b": pl.Binary}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(SIGNS, min_size=1, max_size=6),
    st.integers(1, 4),
    st.sampled_from([TextOptions(), TextOptions(quote="'"), TextOptions(delimiter="\t"), TextOptions(escape='"', quote="'")]),
)
def test_cells_are_what_the_rules_say_sign_by_sign(lines, count, how):
    found = csv.split_cells(pl.Series("line", lines), count, how)
    by_sign = [csv._by_sign(line, count, how) if line.strip(csv.JAVA_BLANKS) else [None] * count for line in lines]
    assert [list(row) for row in zip(*(column.to_list() for column in found), strict=True)] == by_sign


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(ROWS, st.sampled_from([{}, {"field-delimiter": ";"}, {"csv.null-literal": "NULL"}, {"csv.escape-character": "^", "csv.quote-character": "'"}]))
def test_csv_is_read_as_it_was_written(rows, options):
    how = text_options_of(options, "csv")
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    kept = frame.with_columns(pl.when(pl.col("s") != how.null_literal).then(pl.col("s")))  # a text that is the null literal is null
    assert csv.parse_lines(csv.format_lines(frame, COLUMNS, how), COLUMNS, list(SCHEMA), how).equals(kept)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(ROWS)
def test_json_is_read_as_it_was_written(rows):
    how, frame = TextOptions(), pl.DataFrame(rows, schema=SCHEMA, orient="row")
    lines = json.format_lines(frame, COLUMNS, how)
    assert not lines.str.contains("[\r\n]").any()
    assert json.parse_lines(lines, COLUMNS, list(SCHEMA), how).equals(frame)
    assert json.parse_lines(lines, COLUMNS, ["x", "k"], how).equals(frame.select("x", "k"))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(alphabet="ab\r\n", max_size=8), max_size=6), st.integers(1, 5))
def test_lines_do_not_depend_on_how_the_bytes_come(texts, size):
    data = "".join(texts).encode()
    whole = [line for block in compression.line_batches([data], "\n", any_line_end=True, path="p") for line in block]
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert [line for block in compression.line_batches(pieces, "\n", any_line_end=True, path="p") for line in block] == whole
    assert whole == io.StringIO(data.decode(), newline=None).read().splitlines()


def test_other_line_ends_and_marks():
    def lines(data, end="\n", *, anyhow=True):
        return [line for block in compression.line_batches([data], end, any_line_end=anyhow, path="p") for line in block]

    assert lines(b"\xef\xbb\xbfa\nb") == ["a", "b"]
    assert lines(b"a||b||c", "||", anyhow=False) == ["a", "b", "c"]
    assert lines(b"a\xffb\n") == ["a\ufffdb"]


def test_a_line_has_a_longest_length(monkeypatch):
    monkeypatch.setattr(compression, "MAX_LINE_BYTES", 10)
    with pytest.raises(LimitExceeded, match="a line is longer than 10 bytes"):
        list(compression.line_batches([b"x" * 8, b"y" * 8], "\n", any_line_end=True, path="p"))


@pytest.mark.parametrize("name", list(EXTENSIONS))
def test_what_is_compressed_is_decompressed(name):
    text = b"".join(b"%d,some text\n" % number for number in range(60_000))
    file = io.BytesIO()
    sink = compression.open_compressed(file, name)
    sink.write(text[:1000])
    sink.write(text[1000:])
    sink.close()
    storage = MemoryStorage()
    path = f"/t.csv.{EXTENSIONS[name]}".rstrip(".")
    storage.put(path, file.getvalue())
    assert b"".join(compression.read_decompressed(storage, path, storage.size(path))) == text
    if name == "none":
        return
    assert len(file.getvalue()) < len(text)
    for broken in (file.getvalue()[: len(file.getvalue()) // 2], b"\xff" * 100):
        storage.put(path, broken)
        with pytest.raises(Corrupt, match=path):
            list(compression.read_decompressed(storage, path, storage.size(path)))


def test_several_members_follow_each_other():
    file = io.BytesIO()
    for text in (b"a\n", b"b\n"):
        sink = compression.open_compressed(file, "gzip")
        sink.write(text)
        sink.close()
    storage = MemoryStorage()
    storage.put("/t.csv.gz", file.getvalue())
    assert b"".join(compression.read_decompressed(storage, "/t.csv.gz", storage.size("/t.csv.gz"))) == b"a\nb\n"


MISTAKES = pl.Series(["1,a,2.5", "x,b,1", "2,c,y", "3,d"])
THREE = COLUMNS[:3]


def test_what_a_mistake_does_is_an_option():
    def rows(**options):
        return csv.parse_lines(MISTAKES, THREE, ["k", "s", "x"], TextOptions(**options)).rows()

    assert rows() == [(1, "a", 2.5), (None, None, None), (2, "c", None), (3, "d", None)]
    assert rows(parse_mode="dropmalformed") == [(1, "a", 2.5), (3, "d", None)]
    with pytest.raises(Corrupt, match="column k is INT, but a row holds 'x'"):
        rows(parse_mode="failfast")
    assert csv.parse_lines(MISTAKES, THREE, ["x"], TextOptions())["x"].to_list() == [2.5, None, None, None]  # whatever else is read


def test_mistakes_of_json():
    lines = pl.Series(['{"k":1}', "[1]", '{"k":"x","s":"y"}', "", "{broken", '{"k":{"a":1}}'])
    with pytest.raises(Corrupt, match="Failed to parse JSON line"):
        json.parse_lines(lines, COLUMNS, ["k"], TextOptions())
    with pytest.raises(Corrupt, match="column k is INT, but a line holds 'x'"):
        json.parse_lines(lines[[0, 2]], COLUMNS, ["k"], TextOptions())
    assert json.parse_lines(lines, COLUMNS, ["k", "s"], TextOptions(ignores_errors=True)).rows() == [(1, None), (None, "y"), (None, None)]


def test_maps_without_keys_and_line_ends_inside_values_are_refused():
    column = Field("m", "MAP<STRING, INT>")
    frame = pl.DataFrame({"m": [[{"key": None, "value": 1}]]}, schema={"m": pl.List(pl.Struct({"key": pl.String, "value": pl.Int32}))})
    with pytest.raises(ValueOutOfRange, match="a map with a null key, which json files do not have"):
        json.format_lines(frame, [column], TextOptions())
    for text in ("a\nb", "a\rb"):
        with pytest.raises(ValueOutOfRange, match="column s holds a line end"):
            csv.format_lines(pl.DataFrame({"s": [text]}), COLUMNS[1:2], TextOptions())


@pytest.mark.parametrize(
    "options",
    [
        {"field-delimiter": "||"},
        {"csv.field-delimiter": '"'},
        {"csv.quote-character": "\\"},
        {"csv.line-delimiter": ","},
        {"csv.line-delimiter": ""},
        {"csv.include-header": "perhaps"},
        {"csv.mode": "guess"},
    ],
)
def test_options_that_no_reader_could_follow(options):
    with pytest.raises(InvalidOption):
        text_options_of(options, "csv")
