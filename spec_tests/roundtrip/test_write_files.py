"""Drawn rows go through files of every format and come back; what the manifest says of them is never false; a run that fails leaves nothing."""

from __future__ import annotations

import tempfile
from datetime import datetime
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from lakekit import plugins
from lakekit.codec import binary_row
from lakekit.data_file import file_metadata
from lakekit.data_file.rolling_writer import write_run
from lakekit.errors import InvalidOption, Unsupported, ValueOutOfRange
from lakekit.file_index.evaluator import evaluate_indexes
from lakekit.format import encoder
from lakekit.format.polars_types import polars_schema
from lakekit.model.data_file import COMPACT_SOURCE, EMPTY_ROW, format_of_name
from lakekit.predicate import Leaf
from lakekit.testing.expectations import decode_series
from lakekit.types import Field, parse
from spec_tests.differential import drawn_values
from spec_tests.roundtrip.writing import check_pages, read, renumbered, section, table, target, write

KEYS = (
    "BOOLEAN",
    "TINYINT",
    "INT",
    "BIGINT",
    "DECIMAL(9, 2)",
    "DECIMAL(30, 5)",
    "CHAR(3)",
    "STRING",
    "BYTES",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
)
PLAIN = (*KEYS, "SMALLINT", "FLOAT", "DOUBLE", "DECIMAL(18, 18)", "VARCHAR(5)", "BINARY(2)", "TIMESTAMP(0)", "TIMESTAMP(6) WITH LOCAL TIME ZONE")
NESTED = (
    "ARRAY<INT>",
    "ARRAY<ARRAY<STRING NOT NULL>>",
    "ARRAY<TIME(3)>",
    "MAP<STRING, INT>",
    "MAP<INT, ROW<a DECIMAL(20, 2), b MAP<STRING, DATE>>>",
    "MULTISET<STRING>",
    "ROW<x INT NOT NULL, y STRING, z ARRAY<TIMESTAMP(3)>>",
    "ROW<r ROW<s ROW<t BIGINT>>>",
)
FINE = ("TIMESTAMP(9)", "TIMESTAMP(9) WITH LOCAL TIME ZONE", "ARRAY<TIMESTAMP(8)>", "ROW<a TIMESTAMP(9), b TIMESTAMP(3), c TIMESTAMP(6) WITH LOCAL TIME ZONE>")
FORMATS = {"parquet": (*PLAIN, *NESTED, *FINE, "VARIANT"), "orc": (*PLAIN, *NESTED, *FINE), "avro": (*PLAIN, *NESTED)}
MODES = ("none", "counts", "truncate(1)", "truncate(16)", "full")


def columns_of(draw, types, rows):
    """Drawn columns and a frame of them."""
    fields = renumbered(Field(f"c{i}", parse(text)) for i, text in enumerate(types))
    random = draw(st.randoms(use_true_random=False))
    drawn = [decode_series([drawn_values.value(random, field.type) for _ in range(rows)], field.type, field.name) for field in fields]
    schema = polars_schema(fields)
    return fields, pl.DataFrame([column.cast(schema[column.name]) for column in drawn])


@st.composite
def tables(draw):
    form = draw(st.sampled_from(sorted(FORMATS)))
    types = draw(st.lists(st.sampled_from(FORMATS[form]), min_size=1, max_size=5))
    fields, frame = columns_of(draw, types, draw(st.integers(1, 40)))
    options = {"file.format": form, "metadata.stats-mode": draw(st.sampled_from(MODES)), "metadata.stats-dense-store": draw(st.sampled_from(("true", "false")))}
    if draw(st.booleans()):
        options |= {"file.block-size": "300 b", "target-file-size": "1 kb"}
    if draw(st.booleans()):
        options["parquet.enable.dictionary"] = "false"
    return fields, frame, options


@settings(max_examples=40, deadline=None)
@given(tables(), st.data())
def test_rows_come_back_and_bounds_hold(case, data):
    fields, frame, options = case
    with tempfile.TemporaryDirectory() as folder:
        handle = table(Path(folder) / "t", fields, options=options)
        cut = data.draw(st.integers(0, frame.height))
        files = write(handle, frame.head(cut), frame.slice(cut), first_sequence_number=7)
        assert read(handle, files).equals(frame)
        assert sum(file.row_count for file in files) == frame.height
        assert (files[0].min_sequence_number, files[-1].max_sequence_number) == (7, 6 + frame.height)
        at = 0
        for file in files:
            check_bounds(fields, frame.slice(at, file.row_count), file, options["metadata.stats-mode"])
            whole = (Path(folder) / "t" / "bucket-0" / file.name).read_bytes()
            assert file.size_bytes == len(whole)
            if options["file.format"] == "parquet":
                assert check_pages(whole) >= len(fields)
            at += file.row_count


def check_bounds(fields, frame, file, mode):
    """No row lies beyond the bounds, and null counts are those of the rows."""
    names = [field.name for field in fields] if file.value_stats_cols is None else list(file.value_stats_cols)
    by_name = {field.name: field for field in fields}
    types = [by_name[name].type.as_nullable() for name in names]
    low = binary_row.decode_columns(pl.Series([file.value_stats.min_values], dtype=pl.Binary).to_arrow(compat_level=pl.CompatLevel.oldest()), types)
    high = binary_row.decode_columns(pl.Series([file.value_stats.max_values], dtype=pl.Binary).to_arrow(compat_level=pl.CompatLevel.oldest()), types)
    assert file.value_stats.null_counts is not None
    for i, name in enumerate(names):
        column, nulls = frame[name], file.value_stats.null_counts[i]
        assert nulls is None or nulls == column.null_count()
        if mode in ("none", "counts") or low[i].null_count:
            assert low[i].null_count == high[i].null_count == 1
            continue
        t = by_name[name].type
        bounds = [pl.Series(one).cast(column.dtype) for one in (low[i], high[i])]
        assert not (column < bounds[0]).any(), (t, column, bounds)
        assert not (column > bounds[1]).any(), (t, column, bounds)
        if mode == "full" and t.root not in ("FLOAT", "DOUBLE"):
            assert [one[0] for one in bounds] == [column.min(), column.max()]


@st.composite
def keyed(draw):
    form = draw(st.sampled_from(sorted(FORMATS)))
    types = [f"{text} NOT NULL" for text in draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3))]
    others = draw(st.lists(st.sampled_from(PLAIN), max_size=2))
    fields, frame = columns_of(draw, [*types, *others], draw(st.integers(1, 30)))
    return fields, [field.name for field in fields[: len(types)]], frame, {"file.format": form, "data-file.thin-mode": draw(st.sampled_from(("true", "false")))}


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(keyed(), st.data())
def test_key_tables(case, data):
    fields, key, frame, options = case
    kinds = data.draw(st.lists(st.integers(0, 3), min_size=frame.height, max_size=frame.height))
    rows = section(frame.sort(key), kinds)
    with tempfile.TemporaryDirectory() as folder:
        handle = table(Path(folder) / "t", fields, key=key, options=options)
        [file] = write(handle, rows, level=3, source=COMPACT_SOURCE)
        assert read(handle, [file], system=("_SEQUENCE_NUMBER", "_VALUE_KIND")).equals(rows)
    types = [field.type for field in fields[: len(key)]]
    ends = [binary_row.decode_row(binary_row.strip_arity(end)[1], types) for end in (file.min_key, file.max_key)]
    for end, row in zip(ends, (rows.head(1), rows.tail(1)), strict=True):
        columns = [column.to_arrow(compat_level=pl.CompatLevel.oldest()) for column in row.select(key)]
        assert binary_row.encode_row(end, types) == binary_row.encode_columns(columns, types)[0].as_py()
    assert (file.level, file.source, file.delete_row_count) == (3, COMPACT_SOURCE, sum(kind in (1, 3) for kind in kinds))
    assert (file.min_sequence_number, file.max_sequence_number) == (0, frame.height - 1)
    assert file.key_stats.null_counts == (0,) * len(key)


@pytest.mark.parametrize(
    ("text", "least", "greatest"), [("STRING", "a" * 200, "b" * 200), ("STRING", "ä", "\U0010ffff" * 129), ("DOUBLE", 0.0, 1.0), ("DOUBLE", -1.0, -0.0)]
)
def test_the_least_and_the_greatest_key_are_whole(tmp_path, text, least, greatest):
    """Bounds of a column are cut, and those of real numbers know one zero; keys are what the rows hold."""
    key = Field("k", f"{text} NOT NULL", id=0)
    handle = table(tmp_path / "t", [key, Field("v", "INT", id=1)], key=["k"])
    rows = section(frame_of(k=[least, greatest], v=[1, 2]).cast({"v": pl.Int32}), [0, 0])
    [file] = write(handle, rows, level=0, source=COMPACT_SOURCE)
    assert [file.min_key, file.max_key] == [binary_row.with_arity(binary_row.encode_row([one], [key.type]), 1) for one in (least, greatest)]


def test_orc_takes_parts_of_rows_from_the_middle_of_a_frame(tmp_path):
    handle = table(tmp_path / "t", [Field("c", "ROW<a INT, b INT>", id=0)], options={"file.format": "orc"})
    frame = pl.DataFrame({"c": [None, {"a": 1, "b": None}, None]}, schema=polars_schema(handle.schema.fields))
    assert read(handle, write(handle, frame.head(1), frame.slice(1))).equals(frame)


def frame_of(**columns):
    return pl.DataFrame(columns)


ID, NAME = Field("id", "BIGINT", id=0), Field("name", "STRING", id=1)


def test_bounds_of_texts_are_cut_and_raised_and_bytes_have_none(tmp_path):
    assert file_metadata.round_up_text("value-2-long-long-long", 16) == "value-2-long-loo"
    assert file_metadata.round_up_text("a" * 15 + "\U0010ffff" + "z", 16) == "a" * 14 + "b"
    assert file_metadata.round_up_text("\ud7ff" * 3, 1) == "\ue000"
    assert file_metadata.round_up_text("\U0010ffff" * 3, 2) is None
    assert file_metadata.truncate_bounds("0123456789abcdefg", "0123456789abcdefg", parse("STRING"), "truncate(16)") == ("0123456789abcdef", "0123456789abcdeg")
    handle = table(tmp_path / "t", [Field("b", "BYTES", id=0)])
    [file] = write(handle, frame_of(b=[b"\xff" * 20, b"a"]))  # compared by signed bytes, they would hide rows from the reference
    assert file.value_stats.null_counts == (0,)
    assert file.value_stats.min_values == file.value_stats.max_values == binary_row.with_arity(binary_row.encode_row([None], [parse("BYTES")]), 1)


def test_a_nan_leaves_no_bounds_and_zeros_are_bounded_by_both(tmp_path):
    handle = table(tmp_path / "t", [Field("a", "DOUBLE", id=0), Field("b", "FLOAT", id=1)])
    [file] = write(handle, frame_of(a=[1.0, float("nan")], b=pl.Series([0.0, -0.0], dtype=pl.Float32)))
    types = [parse("DOUBLE"), parse("FLOAT")]
    low, high = (binary_row.decode_row(binary_row.strip_arity(one)[1], types) for one in (file.value_stats.min_values, file.value_stats.max_values))
    assert str(low) == "(None, -0.0)"
    assert str(high) == "(None, 0.0)"


def test_row_groups_with_a_nan_are_not_skipped(tmp_path):
    """The reference skips by their bounds, and holds NaN to be greater than any (case types_key_floats_parquet)."""
    lists = pl.Series([[1.0], [float("nan")], None], dtype=pl.List(pl.Float32))
    frame = frame_of(a=[1.0, float("nan"), None], b=[1.0, 2.0, None], c=lists, d=[1, 2, None])
    handle = table(
        tmp_path / "t", [Field(name, text, id=i) for i, (name, text) in enumerate(zip("abcd", ("DOUBLE", "DOUBLE", "ARRAY<FLOAT>", "BIGINT"), strict=True))]
    )
    [file] = write(handle, frame)
    group = pq.ParquetFile(f"{handle.root}/bucket-0/{file.name}").metadata.row_group(0)
    found = [group.column(i).statistics for i in range(4)]
    assert [one.has_min_max for one in found] == [False, True, False, True]
    assert [one.null_count for one in found] == [1, 1, 1, 1]
    assert [group.column(i).has_column_index for i in range(4)] == [False, True, False, True]


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_modes_by_column_level_position_and_kind(tmp_path, form):
    fields = [Field("k", "INT NOT NULL", id=0), *(Field(name, "STRING", id=i) for i, name in enumerate("abcd", 1)), Field("l", "ARRAY<INT>", id=9)]
    options = {
        "file.format": form,
        "fields.d.stats-mode": "full",
        "fields.a.stats-mode": "none",
        "metadata.stats-keep-first-n-columns": "3" if form != "avro" else "6",
        "metadata.stats-mode.per.level": "1:counts",
        "changelog-file.stats-mode": "none",
    }
    handle = table(tmp_path / "t", fields, key=["k"], options=options)
    long = "x" * 20
    rows = section(frame_of(k=pl.Series([1], dtype=pl.Int32), a=[long], b=[long], c=[long], d=[long], l=pl.Series([[1]], dtype=pl.List(pl.Int32))))
    [flushed], [compacted], [changed] = write(handle, rows), write(handle, rows, level=1), write(handle, rows, kind="changelog")
    assert flushed.value_stats_cols == ("k", "b", "d")
    assert changed.value_stats_cols == ("d",)
    assert changed.name.startswith("changelog-")
    assert compacted.value_stats_cols == ("k", "b", "d")
    assert compacted.value_stats.min_values != flushed.value_stats.min_values
    row = binary_row.strip_arity(flushed.value_stats.min_values)[1]
    assert binary_row.decode_row(row, [parse("INT"), parse("STRING"), parse("STRING")]) == (1, "x" * 16, long)
    lists = table(tmp_path / "lists", [Field("l", "ARRAY<INT>", id=5), ID], options={"file.format": form})
    [file] = write(lists, frame_of(l=pl.Series([[1], None], dtype=pl.List(pl.Int32)), id=[1, 2]))
    assert (file.value_stats_cols, file.value_stats.null_counts) == ((("id",), (0,)) if form == "parquet" else (None, (1, 0)))


def test_formats_and_codecs_by_level_and_kind(tmp_path):
    options = {
        "file.format.per.level": "0:avro,5:orc",
        "file.compression.per.level": "5:snappy",
        "changelog-file.format": "parquet",
        "changelog-file.compression": "lz4",
        "changelog-file.prefix": "change-",
        "data-file.prefix": "rows-",
        "file.suffix.include.compression": "true",
    }
    handle = table(tmp_path / "t", [Field("k", "INT NOT NULL", id=0)], key=["k"], options=options)
    rows = section(frame_of(k=pl.Series([1, 2], dtype=pl.Int32)))
    aim = target(handle)
    names = [file.name for more in ({}, {"level": 5}, {"level": 2}, {"kind": "changelog"}) for file in write(handle, rows, file_names=aim.file_names, **more)]
    stem = aim.file_names.uuid
    assert names == [f"rows-{stem}-0.zst.avro", f"rows-{stem}-1.snappy.orc", f"rows-{stem}-2.zst.parquet", f"change-{stem}-3.lz4.parquet"]
    assert [format_of_name(name) for name in names] == ["avro", "orc", "parquet", "parquet"]


@pytest.mark.long
@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_files_roll_at_their_size(tmp_path, form):
    handle = table(tmp_path / "t", [ID, NAME], options={"file.format": form, "target-file-size": "100 kb", "file.block-size": "20 kb"})
    rows = 60_000
    frame = frame_of(id=pl.int_range(rows, eager=True).shuffle(7), name=[f"{i * 7919 % 65521:x}-{i}" for i in range(rows)])
    files = write(handle, frame.head(10), frame.slice(10, 20_000), frame.slice(20_010))
    assert read(handle, files).equals(frame)
    assert len(files) >= 3
    assert all(100 << 10 <= file.size_bytes < 200 << 10 for file in files[:-1]) if form != "orc" else all(file.size_bytes > 60 << 10 for file in files[:-1])
    by_rows = write(table(tmp_path / "u", [ID, NAME], options={"file.format": form, "target-file-row-num": "25000"}), frame)
    assert [file.row_count for file in by_rows] == [25_000, 25_000, 10_000]


@pytest.mark.parametrize("threshold", ["100 mb", "1 b"])
def test_file_indexes(tmp_path, threshold):
    fields = [ID, NAME, Field("m", "MAP<STRING, INT>", id=2)]
    options = {
        "file-index.bloom-filter.columns": "name,m[a]",
        "file-index.bloom-filter.name.items": "100",
        "file-index.bitmap.columns": "id",
        "file-index.in-manifest-threshold": threshold,
    }
    handle = table(tmp_path / "t", fields, options=options)
    maps = pl.Series([[{"key": "a", "value": 1}], [], None, [{"key": "b", "value": 2}]], dtype=polars_schema(fields)["m"])
    [file] = write(handle, frame_of(id=[1, 2, 3, None], name=["x", "y", None, "z"], m=maps))
    if threshold == "1 b":
        assert (file.embedded_index, file.extra_files) == (None, (f"{file.name}.index",))
        container = handle.storage.read(f"{handle.root}/bucket-0/{file.extra_files[0]}")
    else:
        assert file.extra_files == ()
        assert file.embedded_index is not None
        container = file.embedded_index
    types = {field.name: field.type for field in fields} | {"m[a]": parse("INT")}
    answers = {
        (column, value): evaluate_indexes(container, Leaf(column, "=", (value,)), types, 4)
        for column, value in (("id", 2), ("id", 9), ("name", "z"), ("name", "nothing"), ("m[a]", 1), ("m[a]", 2))
    }
    assert list(answers["id", 2]) == [1]
    assert [answers[asked] for asked in (("id", 9), ("name", "z"), ("name", "nothing"), ("m[a]", 1), ("m[a]", 2))] == [False, True, False, True, False]
    [changelog] = write(handle, frame_of(id=[1], name=["x"], m=maps.head(1)), kind="changelog")
    assert (changelog.embedded_index, changelog.extra_files) == (None, ())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"file.format": "csv"}, Unsupported),
        ({"file.compression": "rot13"}, Unsupported),
        ({"file.format": "orc", "file.compression": "rot13"}, Unsupported),
        ({"file.format": "avro", "file.compression": "none"}, Unsupported),
        ({"metadata.stats-mode": "some"}, InvalidOption),
        ({"fields.name.stats-mode": "truncate(x)"}, InvalidOption),
        ({"file-index.bloom-filter.columns": "nobody"}, InvalidOption),
        ({"file-index.bloom-filter.columns": "name[a]"}, InvalidOption),
        ({"file-index.bsi.columns": "name"}, Unsupported),
        ({"parquet.page.size": "much"}, InvalidOption),
        ({"data-file.external-paths": "file:/tmp/x", "data-file.external-paths.strategy": "entropy-inject"}, Unsupported),
    ],
)
def test_refused_by_name(tmp_path, options, error):
    handle = table(tmp_path / "t", [ID, NAME], options=options)
    with pytest.raises(error):
        write(handle, frame_of(id=[1], name=["x"]))
    assert not list((tmp_path / "t").rglob("*.parquet*")) and not list((tmp_path / "t").rglob("*.tmp"))


@pytest.mark.parametrize(("form", "text"), [("avro", "TIMESTAMP(9)"), ("orc", "VARIANT"), ("avro", "ROW<a TIMESTAMP(7)>")])
def test_types_that_a_format_does_not_have(tmp_path, form, text):
    handle = table(tmp_path / "t", [Field("c", text, id=0)], options={"file.format": form})
    with pytest.raises(Unsupported, match=form):
        write(handle, pl.DataFrame(schema=polars_schema(handle.schema.fields)).clear(1))


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("INT NOT NULL", None),
        ("ARRAY<INT NOT NULL>", [None]),
        ("ROW<a INT NOT NULL>", {"a": None}),
        ("MAP<STRING, INT NOT NULL>", [{"key": "a", "value": None}]),
        ("MAP<INT NOT NULL, INT>", [{"key": None, "value": 1}]),
    ],
)
def test_nulls_where_there_are_none(tmp_path, form, text, value):
    handle = table(tmp_path / "t", [Field("c", text, id=0)], options={"file.format": form})
    with pytest.raises(ValueOutOfRange):
        write(handle, pl.DataFrame({"c": [value]}, schema=polars_schema(handle.schema.fields)))
    assert not [path for path in (tmp_path / "t").rglob("*") if path.is_file() and path.name != "schema-0"]


def test_orc_holds_no_parts_of_milliseconds_before_1970(tmp_path):
    handle = table(tmp_path / "t", [Field("c", "ARRAY<TIMESTAMP(6)>", id=0)], options={"file.format": "orc"})
    rows = polars_schema(handle.schema.fields)
    fine = pl.DataFrame({"c": [[datetime(1969, 12, 31, 23, 59, 59, 500_000), None], None]}, schema=rows)  # noqa: DTZ001 - a wall clock
    assert read(handle, write(handle, fine)).equals(fine)
    with pytest.raises(ValueOutOfRange, match="1970"):
        write(handle, pl.DataFrame({"c": [[datetime(1969, 12, 31, 23, 59, 59, 500_001)]]}, schema=rows))  # noqa: DTZ001 - a wall clock


def test_orc_instants_are_for_readers_in_utc(tmp_path):
    handle = table(tmp_path / "t", [Field("c", "ARRAY<TIMESTAMP(3) WITH LOCAL TIME ZONE>", id=0)], options={"file.format": "orc"})
    rows = pl.DataFrame({"c": [[]]}, schema=polars_schema(handle.schema.fields))
    assert len(write(handle, rows)) == 1
    with pytest.raises(Unsupported, match="Asia/Shanghai"):
        write(handle.with_options({"lakekit.java-time-zone": "Asia/Shanghai"}), rows)


def test_a_run_that_fails_leaves_nothing(tmp_path):
    handle = table(
        tmp_path / "t", [ID, NAME], options={"target-file-row-num": "10", "file-index.bitmap.columns": "id", "file-index.in-manifest-threshold": "0 b"}
    )

    class Stopped(Exception):
        pass

    def frames():
        yield frame_of(id=list(range(25)), name=["x"] * 25)
        raise Stopped

    with pytest.raises(Stopped):
        write_run(target(handle), frames())
    assert [path.name for path in (tmp_path / "t").rglob("*") if path.is_file()] == ["schema-0"]


def test_external_paths_in_turn(tmp_path):
    roots = [f"file:{tmp_path}/a", f"{tmp_path}/b"]
    options = {"data-file.external-paths": ",".join(roots), "data-file.external-paths.strategy": "round-robin", "target-file-row-num": "1"}
    handle = table(tmp_path / "t", [ID], options=options)
    files = write(handle, frame_of(id=[1, 2, 3]))
    assert [file.external_path for file in files] == [f"{roots[i % 2]}/bucket-0/{file.name}" for i, file in enumerate(files)]
    assert read(handle, files)["id"].to_list() == [1, 2, 3]
    assert sorted(path.parent.parent.name for path in tmp_path.rglob("data-*")) == ["a", "a", "b"]


def test_formats_are_the_modules_of_their_folder():
    assert plugins.names("format") == ("avro", "orc", "parquet")
    for name in plugins.names("format"):
        encoder.check_types(name, [ID, NAME])


def test_no_rows_no_files(tmp_path):
    handle = table(tmp_path / "t", [ID, NAME])
    assert write(handle) == []
    assert write(handle, pl.DataFrame(schema=polars_schema(handle.schema.fields))) == []
    assert not (tmp_path / "t" / "bucket-0").exists()


def test_postponed_rows_are_avro_without_statistics(tmp_path):
    handle = table(tmp_path / "t", [Field("k", "INT NOT NULL", id=0)], key=["k"], options={"bucket": "-2", "file-index.bitmap.columns": "k"})
    [file] = write(handle, section(frame_of(k=pl.Series([1], dtype=pl.Int32))), bucket=-2)
    assert (file.format_name, file.value_stats_cols, file.embedded_index) == ("avro", (), None)
    assert (file.min_key, file.delete_row_count) != (EMPTY_ROW, None)
    fine = table(tmp_path / "u", [Field("k", "TIMESTAMP(9) NOT NULL", id=0)], key=["k"], options={"bucket": "-2"})
    [file] = write(fine, section(pl.DataFrame({"k": [datetime(2024, 1, 1)]}, schema=polars_schema(fine.schema.fields))), bucket=-2)  # noqa: DTZ001 - a wall clock
    assert file.format_name == "parquet"
