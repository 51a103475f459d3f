"""What goes into a table: every value as it was, or an error that names column, row and value and says what to do."""

# ruff: noqa: DTZ001 - TIMESTAMP has no zone

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from lakekit.errors import SchemaMismatch, ValueOutOfRange
from lakekit.format.polars_types import polars_schema
from lakekit.types import parse
from lakekit.write import row_conversion
from spec_tests.laws.write_front import KEYED, column, one, says, table

UTC = dt.UTC


# ---- what is a frame ---------------------------------------------------------------------------------------------------------------------------------

ROWS = [{"k": 1, "v": 2, "s": "a"}, {"k": 2, "v": None, "s": "b"}]
FRAME = pl.DataFrame(ROWS, schema={"k": pl.Int64, "v": pl.Int32, "s": pl.String})
WANTED = [(1, 2, "a", 0), (2, None, "b", 0)]


class OnlyStream:
    def __arrow_c_stream__(self, requested_schema=None):
        return FRAME.to_arrow().__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "data",
    [
        FRAME,
        FRAME.select("s", "v", "k"),
        FRAME.lazy(),
        FRAME.to_arrow(),
        FRAME.to_arrow().to_batches()[0],
        FRAME.to_arrow().to_reader(),
        OnlyStream(),
        ROWS,
        tuple(ROWS),
        iter([FRAME[:1], FRAME[1:].to_arrow()]),
        [FRAME[:1].lazy(), FRAME[1:]],
        (part for part in (FRAME[:1], FRAME[1:])),
        FRAME.with_columns(pl.col("s").cast(pl.Categorical), pl.col("k").cast(pl.UInt8), pl.col("v").cast(pl.Int128)),
        pa.table({"k": [1, 2], "v": pa.array([2, None], pa.uint64()), "s": pa.array(["a", "b"]).dictionary_encode()}),
    ],
    ids=lambda data: type(data).__name__,
)
def test_frames_of_every_kind(data):
    found = one(data, KEYED)
    assert found.rows() == WANTED
    assert found.schema == {**polars_schema(KEYED.schema.fields), "_VALUE_KIND": pl.Int8}


@pytest.mark.parametrize("keys", [(), ("k",)], ids=["append", "keyed"])
def test_the_callers_frame_may_be_changed_while_its_rows_wait(keys):
    mine = FRAME.clone()
    [found] = row_conversion.convert_batches(mine, table({"k": "BIGINT NOT NULL", "v": "INT", "s": "STRING"}, keys=keys))
    mine[0, "s"] = "changed"
    mine.insert_column(0, pl.Series("more", [1, 2]))
    assert found.select("k", "v", "s").rows() == [row[:3] for row in WANTED]
    assert mine.columns == ["more", "k", "v", "s"]


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (5, "int holds no rows for shop.t: lakekit takes"),
        ({"k": 1}, "A dict of one row goes into a list"),
        ("x.parquet", "pl.scan_parquet"),
        (pl.Series([1]), ".to_frame()"),
        (pa.chunked_array([[1]]), "the pyarrow ChunkedArray for shop.t gives no Arrow columns with names"),
        (iter([{"k": 1}]), "an iterator of dicts"),
        (pa.table([[1], [2]], names=["k", "k"]), "two columns of the rows for shop.t are called 'k'"),
        (pa.table({"k": pa.RunEndEncodedArray.from_arrays([2], [1])}), "which lakekit does not read"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_frame(data, part):
    says(data, KEYED, SchemaMismatch, part, column="k" if isinstance(data, pa.Table) else None)


def test_nothing_in_nothing_out():
    for data in ([], FRAME[:0], FRAME[:0].lazy(), iter([]), FRAME[:0].to_arrow(), FRAME.to_arrow().schema.empty_table().to_reader()):
        assert list(row_conversion.convert_batches(data, KEYED)) == []


def test_a_lazy_frame_with_a_wrong_column_is_never_run():
    def run(frame: pl.DataFrame) -> pl.DataFrame:
        raise AssertionError

    says(pl.LazyFrame({"k": [1], "x": [2]}).map_batches(run), KEYED, SchemaMismatch, "no column 'x'", column="x")


def test_small_pieces_are_put_together_and_large_ones_cut():
    pieces = (pl.DataFrame({"k": [number]}) for number in range(10))
    assert [frame.height for frame in row_conversion.convert_batches(pieces, KEYED, batch_rows=4)] == [4, 4, 2]
    assert [frame.height for frame in row_conversion.convert_batches(pl.DataFrame({"k": range(10)}), KEYED, batch_rows=4)] == [4, 4, 2]
    assert [frame.height for frame in row_conversion.convert_batches(pl.LazyFrame({"k": range(10)}), KEYED, batch_rows=100)] == [10]


def test_of_a_stream_the_rows_before_a_bad_one_are_given_before_its_error():
    found = row_conversion.convert_batches(iter([pl.DataFrame({"k": [1, 2]}), pl.DataFrame({"k": [3]}), pl.DataFrame({"k": [4, None]})]), KEYED)
    assert next(found)["k"].to_list() == [1, 2, 3]
    with pytest.raises(ValueOutOfRange, match="row 4: column k"):
        next(found)


def test_rows_in_memory_are_checked_before_any_is_given():
    with pytest.raises(ValueOutOfRange, match="row 9:"):
        row_conversion.convert_batches(pl.DataFrame({"k": [*range(9), None]}), KEYED, batch_rows=2)


def test_a_stream_that_was_looked_at_is_whole():
    seen = row_conversion.open_input(iter([FRAME[:1], FRAME[1:]]), KEYED)
    assert seen.schema == FRAME.schema
    assert one(seen, KEYED).rows() == WANTED
    rows = row_conversion.open_input([{"k": 1, "new": 2.5}], KEYED)
    assert dict(rows.schema or {}) == {"k": pl.Int64(), "new": pl.Float64()}
    wider = table({"k": "BIGINT NOT NULL", "v": "INT", "new": "FLOAT"}, keys=("k",))
    assert one(rows, wider).rows() == [(1, None, 2.5, 0)]


# ---- columns -----------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "part", "column"),
    [
        (["k", "vv"], "shop.t has no column 'vv'; its columns are k, v, s. Did you mean 'v'?", "vv"),
        (["k", "V"], "Did you mean 'v'?", "V"),
        (
            ["k", "total", "other"],
            "no column 'total' (nor 'other'); its columns are k, v, s. Drop it, or add it to the table (merge_schema=True, or t.alter)",
            "total",
        ),
        (["k", "_row_kind"], "write with row_kind='_row_kind'", "_row_kind"),
        (["v"], "the rows for shop.t have no column 'k', which is in the primary key; they have v. Add it", "k"),
    ],
)
def test_columns_that_do_not_fit(names, part, column):
    says(pl.DataFrame({name: [1] for name in names}), KEYED, SchemaMismatch, part, column=column)


def test_columns_that_dicts_make_up():
    says([{"k": 1, "x": 1}, {"k": 2, "x": "a"}], KEYED, SchemaMismatch, "no column 'x', and none can be made of it: its values are not of one type", column="x")
    says([{"k": 1, 5: 1}], KEYED, SchemaMismatch, "no column 5, and none can be made of it: names are texts", column="5")
    says([{"k": 1, "x": 1}], KEYED, SchemaMismatch, "no column 'x'; its columns are", column="x")
    says(pl.DataFrame({"k": [1], "__index_level_0__": [0]}), KEYED, SchemaMismatch, "df.reset_index(drop=True)", column="__index_level_0__")


def test_nulls_and_defaults():
    handle = table(
        {"k": "BIGINT NOT NULL", "a": "INT", "s": "CHAR(4)", "d": "DATE", "n": "STRING NOT NULL", "x": "DECIMAL(5, 2)", "u": "INT"},
        keys=("k",),
        defaults={"a": "7", "s": "'ab'", "d": "2024-02-29", "n": "no", "x": "1.5"},
    )
    found = one([{"k": 1, "n": "x"}, {"k": 2, "n": "y", "a": 0, "s": None, "d": dt.date(2000, 1, 1)}], handle)
    day = dt.date(2024, 2, 29)
    assert found.rows() == [(1, 7, "ab  ", day, "x", Decimal("1.50"), None, 0), (2, 0, "ab  ", dt.date(2000, 1, 1), "y", Decimal("1.50"), None, 0)]
    says([{"k": 1, "n": None}], handle, ValueOutOfRange, "row 0: column n of shop.t is NOT NULL", "a default does not stand in", column="n")
    says([{"k": 1}], handle, SchemaMismatch, "have no column 'n', which is NOT NULL", column="n")


def test_a_key_is_never_null_even_where_the_schema_lets_it():
    says(pl.DataFrame({"k": [1, None]}), table({"k": "INT"}, keys=("k",)), ValueOutOfRange, "row 1: column k of shop.t is NOT NULL", column="k")


# ---- values ------------------------------------------------------------------------------------------------------------------------------------------

NARROW = {"TINYINT": pl.Int8, "SMALLINT": pl.Int16, "INT": pl.Int32, "BIGINT": pl.Int64}
WIDE = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)


@settings(max_examples=30)
@given(st.data())
def test_integers_are_taken_by_value(data):
    root, dtype = data.draw(st.sampled_from(sorted(NARROW))), data.draw(st.sampled_from(WIDE))
    low, high = dtype.min(), dtype.max()
    bounds = [bound for bits in (7, 8, 15, 16, 31, 32, 63, 64) for bound in (2**bits - 1, 2**bits, -(2**bits), -(2**bits) - 1)]
    edges = [b for b in bounds if pl.select(low).item() <= b <= pl.select(high).item()]
    values = data.draw(st.lists(st.sampled_from(edges) | st.integers(0, 127) | st.none(), min_size=1, max_size=6))
    bits = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}[root]
    wrong = next((i for i, value in enumerate(values) if value is not None and not -(2**bits) <= value < 2**bits), None)
    frame = pl.DataFrame({"c": pl.Series(values, dtype=dtype)})
    if wrong is None:
        assert column(root, frame["c"]).to_list() == values
    else:
        says(frame, table({"c": root}), ValueOutOfRange, f"row {wrong}: column c of shop.t holds {values[wrong]}, which is no {root}", column="c")


@pytest.mark.parametrize(
    ("text", "values", "dtype", "wanted"),
    [
        ("FLOAT", [0.5, None, math.inf], pl.Float64, [0.5, None, math.inf]),
        ("DOUBLE", [2**53, None], pl.Int64, [2.0**53, None]),
        ("FLOAT", [16777216], pl.UInt64, [16777216.0]),
        ("DOUBLE", [0.1], pl.Float32, [np.float32(0.1).item()]),
        ("DECIMAL(5, 2)", ["1.5", None, "-999.99"], pl.Decimal(10, 4), [Decimal("1.50"), None, Decimal("-999.99")]),
        ("DECIMAL(38, 10)", ["1.5"], pl.Decimal(10, 4), [Decimal("1.5000000000")]),
        ("DECIMAL(3, 1)", [12, None], pl.Int64, [Decimal("12.0"), None]),
        ("SMALLINT", ["7.00"], pl.Decimal(5, 2), [7]),
        ("STRING", ["a", None], pl.Enum(["a", "b"]), ["a", None]),
        ("BINARY(2)", [b"a", b"ab", None], pl.Binary, [b"a", b"ab", None]),
        ("TIMESTAMP(3)", [dt.datetime(1969, 12, 31, 23, 59, 59, 999000)], pl.Datetime("ns"), [dt.datetime(1969, 12, 31, 23, 59, 59, 999000)]),
        ("TIMESTAMP(9)", [dt.datetime(2262, 4, 11)], pl.Datetime("ms"), [dt.datetime(2262, 4, 11)]),
        ("TIME(3)", [dt.time(23, 59, 59, 999000), None], pl.Time, [dt.time(23, 59, 59, 999000), None]),
        ("ARRAY<TINYINT>", [[1, None], None, [], [3]], pl.List(pl.Int64), [[1, None], None, [], [3]]),
        ("ARRAY<INT>", [[1, 2], None], pl.Array(pl.UInt8, 2), [[1, 2], None]),
        ("ARRAY<ARRAY<INT>>", [[[1], None, []], None], pl.List(pl.List(pl.Int64)), [[[1], None, []], None]),
        ("ROW<a INT, b STRING>", [{"b": "x", "a": 1}, None], pl.Struct({"b": pl.String, "a": pl.Int64}), [{"a": 1, "b": "x"}, None]),
        ("ROW<a INT, b STRING>", [{"a": 1}], pl.Struct({"a": pl.Int32}), [{"a": 1, "b": None}]),
        ("INT", [None, None], pl.Null, [None, None]),
        ("ARRAY<MAP<INT, INT>>", [None], pl.Null, [None]),
    ],
)
def test_values_that_do_not_change(text, values, dtype, wanted):
    given_ = pl.Series(values).cast(dtype) if isinstance(dtype, pl.Decimal) else pl.Series(values, dtype=dtype)
    assert column(text, given_).to_list() == wanted


@pytest.mark.parametrize(
    ("text", "values", "dtype", "parts"),
    [
        ("FLOAT", [0.5, 0.1], pl.Float64, ("row 1", "0.1", "which FLOAT cannot hold without changing it", "cast=True")),
        ("DOUBLE", [2**53 + 1], pl.Int64, ("9007199254740993", "which DOUBLE cannot hold")),
        ("DECIMAL(5, 2)", ["1.505"], pl.Decimal(10, 4), ("1.505", "which DECIMAL(5, 2) cannot hold without changing it")),
        ("DECIMAL(5, 2)", ["1000"], pl.Decimal(10, 4), ("1000", "which is no DECIMAL(5, 2)")),
        ("DECIMAL(3, 1)", [100], pl.Int64, ("holds 100, which is no DECIMAL(3, 1)",)),
        ("SMALLINT", ["7.50"], pl.Decimal(5, 2), ("7.50", "which SMALLINT cannot hold")),
        ("VARCHAR(2)", ["ab", "aé\U0001f600"], pl.String, ("row 1", "3 characters", "VARCHAR(2) takes 2", "Cut it, or widen the column")),
        ("CHAR(1)", ["ab"], pl.String, ("'ab'", "CHAR(1) takes 1")),
        ("BINARY(2)", [b"abc"], pl.Binary, ("3 bytes", "BINARY(2) takes 2")),
        ("VARBINARY(2)", [b"abc"], pl.Binary, ("VARBINARY(2) takes 2",)),
        ("TIME(3)", [dt.time(1, 2, 3, 4500)], pl.Time, ("which is finer than the milliseconds that TIME has", "cast=True")),
        ("TIMESTAMP(3)", [dt.datetime(2024, 1, 1, 0, 0, 0, 1)], pl.Datetime("us"), ("which is finer than the column's ms", ".dt.truncate('1ms')")),
        ("TIMESTAMP(9)", [dt.datetime(2263, 1, 1)], pl.Datetime("ms"), ("a count of ms since 1970 that ns cannot hold",)),
        ("ARRAY<TINYINT>", [[1], [2, 300]], pl.List(pl.Int64), ("row 1: column c.element of shop.t holds 300",)),
        ("ARRAY<INT NOT NULL>", [[1], [2, None]], pl.List(pl.Int32), ("row 1: column c.element of shop.t is NOT NULL",)),
        ("ROW<a INT NOT NULL>", [None, {"a": None}], pl.Struct({"a": pl.Int32}), ("row 1: column c.a of shop.t is NOT NULL",)),
        ("ROW<a INT NOT NULL, b INT>", [{"b": 1}], pl.Struct({"b": pl.Int32}), ("row 0: column c.a of shop.t is NOT NULL",)),
        ("ARRAY<ROW<x TINYINT>>", [[], [{"x": 1}, {"x": 999}]], pl.List(pl.Struct({"x": pl.Int32})), ("row 1: column c.element.x of shop.t holds 999",)),
    ],
)
def test_values_that_would_change(text, values, dtype, parts):
    given_ = pl.Series(values).cast(dtype) if isinstance(dtype, pl.Decimal) else pl.Series(values, dtype=dtype)
    says(pl.DataFrame({"c": given_}), table({"c": text}), ValueOutOfRange, *parts, column="c")


@pytest.mark.parametrize(
    ("text", "values", "dtype"),
    [
        ("INT", [1.0], pl.Float64),
        ("INT", [True], pl.Boolean),
        ("INT", ["1"], pl.String),
        ("BOOLEAN", [1], pl.Int8),
        ("STRING", [1], pl.Int64),
        ("STRING", [b"a"], pl.Binary),
        ("BYTES", ["a"], pl.String),
        ("DECIMAL(5, 2)", [1.5], pl.Float64),
        ("DOUBLE", ["1.5"], pl.Decimal(5, 2)),
        ("DATE", [dt.datetime(2024, 1, 1)], pl.Datetime),
        ("TIMESTAMP(6)", [dt.date(2024, 1, 1)], pl.Date),
        ("TIMESTAMP(6)", [dt.datetime(2024, 1, 1)], pl.Datetime("us", "UTC")),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", [dt.datetime(2024, 1, 1)], pl.Datetime("us")),
        ("BIGINT", [dt.timedelta(1)], pl.Duration),
        ("ARRAY<INT>", [1], pl.Int32),
        ("INT", [[1]], pl.List(pl.Int32)),
        ("ROW<a INT>", [[1]], pl.List(pl.Int32)),
        ("ROW<a INT>", [{"b": 1}], pl.Struct({"b": pl.Int32})),
        ("MAP<STRING, INT>", [{"a": 1}], pl.Struct({"a": pl.Int32})),
    ],
)
def test_types_that_are_not_cast_by_themselves(text, values, dtype):
    given_ = pl.Series(values).cast(dtype) if isinstance(dtype, pl.Decimal) else pl.Series(values, dtype=dtype)
    says(pl.DataFrame({"c": given_}), table({"c": text}), SchemaMismatch, "column c of shop.t is " + str(parse(text)), column="c")


@pytest.mark.parametrize(
    ("text", "values", "dtype", "wanted"),
    [
        ("INT", [1.9, None], pl.Float64, [1, None]),
        ("DECIMAL(5, 2)", [1.5], pl.Float64, [Decimal("1.50")]),
        ("BIGINT", ["12", None], pl.String, [12, None]),
        ("STRING", [1], pl.Int64, ["1"]),
        ("FLOAT", [0.1], pl.Float64, [np.float32(0.1).item()]),
        ("TIME(3)", [dt.time(1, 2, 3, 4567)], pl.Time, [dt.time(1, 2, 3, 4000)]),
        ("TIMESTAMP(3)", [dt.datetime(2024, 1, 1, 0, 0, 0, 1999)], pl.Datetime("us"), [dt.datetime(2024, 1, 1, 0, 0, 0, 1000)]),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", [dt.datetime(2024, 1, 1)], pl.Datetime("us"), [dt.datetime(2024, 1, 1, tzinfo=UTC)]),
        ("ARRAY<INT>", [[1.5, None]], pl.List(pl.Float64), [[1, None]]),
        ("ROW<a INT>", [{"a": "5"}], pl.Struct({"a": pl.String}), [{"a": 5}]),
    ],
)
def test_casts_that_are_asked_for(text, values, dtype, wanted):
    assert column(text, values, dtype=dtype, cast=True).to_list() == wanted


def test_casts_that_fail():
    says(pl.DataFrame({"c": ["1", "x"]}), table({"c": "INT"}), ValueOutOfRange, "row 1: column c of shop.t holds 'x', which is no INT", cast=True, column="c")
    says(pl.DataFrame({"c": ["2024-01-01"]}), table({"c": "DATE"}), SchemaMismatch, "the rows have String. Parse the text first", cast=True, column="c")
    says(pl.DataFrame({"c": [2**40]}), table({"c": "INT"}), ValueOutOfRange, "which is no INT", cast=True, column="c")


HELD = [
    pl.Series([1, None, -5]),
    pl.Series([2**63, 0], dtype=pl.UInt64),
    pl.Series([2**100], dtype=pl.Int128),
    pl.Series([1.5, math.nan, math.inf, None]),
    pl.Series([1.5], dtype=pl.Float16),
    pl.Series([True, None]),
    pl.Series(["a", "", None, "12"]),
    pl.Series(["a"], dtype=pl.Categorical),
    pl.Series([b"a", b"\xff"]),
    pl.Series([dt.date(1, 1, 1)]),
    pl.Series([dt.datetime(9999, 1, 1)]),
    pl.Series([-(2**63)], dtype=pl.Datetime("ns", "Asia/Tokyo")),
    pl.Series([2**62], dtype=pl.Duration("ms")),
    pl.Series([dt.time(1, 2, 3, 456789)]),
    pl.Series([Decimal("9" * 38)], dtype=pl.Decimal(38, 0)),
    pl.Series([[1, None], None, []]),
    pl.Series([[1, 2]], dtype=pl.Array(pl.Int8, 2)),
    pl.Series([{"a": 1, "b": "x"}, None]),
    pl.Series([[{"key": "a", "value": 1}, None]]),
    pl.Series([[{"key": "a", "value": 1}, {"key": "a", "value": 2}]]),
    pl.Series([[{"key": 1, "value": 2**62}, {"key": 1, "value": 0}]], dtype=pl.List(pl.Struct({"key": pl.Int8, "value": pl.Datetime("ms")}))),
    pl.Series([{}], dtype=pl.Struct([])),
    pl.Series([object()], dtype=pl.Object),
    pl.Series([[]], dtype=pl.List(pl.Null)),
    pl.Series([[{"key": "a", "value": 1}], None]).cast(pl.Map(pl.String(), pl.Int64())),
]
WANTED_TYPES = [
    *("TINYINT", "BIGINT", "FLOAT", "DECIMAL(5, 2)", "DECIMAL(38, 0)", "BOOLEAN", "CHAR(2)", "STRING", "BINARY(1)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(0)"),
    *("TIMESTAMP(9)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "ARRAY<INT>", "ARRAY<TINYINT NOT NULL>", "MAP<STRING, INT>", "MAP<INT, TIMESTAMP(3)>"),
    *("MULTISET<STRING>", "ROW<a INT, b STRING>", "ROW<a TINYINT NOT NULL>", "VARIANT", "ARRAY<MAP<STRING, ROW<q INT>>>"),
]


@given(st.sampled_from(HELD), st.sampled_from(WANTED_TYPES), st.sampled_from(["", " NOT NULL"]), st.booleans())
def test_anything_fits_or_is_refused_by_name(held, text, nulls, cast):
    handle = table({"c": text + nulls})
    try:
        found = one(pl.DataFrame({"c": held}), handle, cast=cast)
    except (SchemaMismatch, ValueOutOfRange) as refused:
        assert refused.column == "c"
        return
    assert found.schema == polars_schema(handle.schema.fields)
    assert one(found, handle).equals(found)


def test_zones_are_the_same_instant():
    berlin = pl.Series([dt.datetime(2024, 7, 1, 12)]).dt.replace_time_zone("Europe/Berlin")
    assert column("TIMESTAMP(6) WITH LOCAL TIME ZONE", berlin).to_list() == [dt.datetime(2024, 7, 1, 10, tzinfo=UTC)]


def test_decimals_that_only_claim_their_precision():
    claims = pa.array([Decimal("1.50")], pa.decimal128(5, 2)).view(pa.decimal128(2, 2))
    says(pa.table({"c": claims}), table({"c": "DECIMAL(2, 2)"}), ValueOutOfRange, "which has more than 2 digits", column="c")


def test_arrow_types_that_polars_would_change_or_refuse():
    handle = table({"c": "TIMESTAMP(3)", "d": "DATE", "e": "DECIMAL(5, 2)"})
    stamps, days, wide = pa.array([1], pa.timestamp("s")), pa.array([dt.date(2024, 1, 1)], pa.date64()), pa.array([Decimal("1.5")], pa.decimal256(40, 2))
    found = one(pa.table({"c": stamps, "d": days, "e": wide.cast(pa.decimal256(38, 2))}), handle)
    assert found.rows() == [(dt.datetime(1970, 1, 1, 0, 0, 1), dt.date(2024, 1, 1), Decimal("1.50"))]
    says(pa.table({"c": pa.array([2**62], pa.timestamp("s"))}), handle, ValueOutOfRange, "Arrow's timestamp[s]", column="c")
    says(pa.table({"e": wide}), handle, SchemaMismatch, "Arrow's decimal256(40, 2), which lakekit does not read", column="e")


@pytest.mark.parametrize(("unit", "count"), [("s", 86_400), ("ms", -1), ("us", 86_400_000_000), ("ns", -1)])
def test_times_that_are_on_no_clock(unit, count):
    """Polars makes null of them, and a null is no error."""
    t = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    times = pa.array([5_000, None, count], pa.int32() if t.bit_width == 32 else pa.int64()).cast(t)
    handle = table({"c": "TIME(3)", "r": "ROW<t TIME(3)>", "l": "ARRAY<TIME(3)>", "m": "MAP<STRING, ROW<t TIME(3)>>"})
    inside, ends = pa.StructArray.from_arrays([times], ["t"]), pa.array([0, 2, 2, 3], pa.int32())
    shapes = {"c": times, "r": inside, "l": pa.ListArray.from_arrays(ends, times), "m": pa.MapArray.from_arrays(ends, pa.array(["a", "b", "c"]), inside)}
    for name, values in shapes.items():
        says(pa.table({name: values}), handle, ValueOutOfRange, f"column {name!r} of the rows for shop.t holds {count} {unit} of a day", column=name)
    fine = {name: values.slice(0, 2) for name, values in shapes.items()} if unit in ("s", "ms") else {"l": shapes["l"].slice(1, 1)}
    assert one(pa.table(fine), handle).height == len(next(iter(fine.values())))


@pytest.mark.parametrize("t", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_texts_that_are_no_utf8(t):
    """Spark has such texts. Polars takes their bytes as they are, and panics when it looks at them."""
    texts = _unchecked([b"fine", None, b"\xff\xfe"], t)
    handle = table({"c": "STRING", "r": "ROW<t STRING>", "m": "MAP<STRING, STRING>"})
    inside, ends, plain = pa.StructArray.from_arrays([texts], ["t"]), pa.array([0, 2, 2, 3], pa.int32()), pa.array(["a", "b", "c"])
    for name, values in {"c": texts, "r": inside, "m": pa.MapArray.from_arrays(ends, plain, texts)}.items():
        says(pa.table({name: values}), handle, ValueOutOfRange, f"column {name!r} of the rows for shop.t holds a text that is no UTF-8", column=name)
    assert one(pa.table({"c": texts.slice(0, 2)}), handle)["c"].to_list() == ["fine", None]


def _unchecked(values: list[bytes | None], t: pa.DataType) -> pa.Array:
    """Bytes called texts."""
    of = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}[t]
    return pa.array(values, of).view(t)


# ---- maps --------------------------------------------------------------------------------------------------------------------------------------------


def test_maps_of_every_shape():
    handle = table({"c": "MAP<STRING, INT>", "m": "MULTISET<STRING>"})
    wanted = [([{"key": "a", "value": 1}], [{"key": "x", "value": 2}]), (None, []), ([], None)]
    rows = [{"c": {"a": 1}, "m": {"x": 2}}, {"c": None, "m": {}}, {"c": [], "m": None}]
    assert one(rows, handle).rows() == wanted
    assert one([{"c": [("a", 1)], "m": [{"key": "x", "value": 2}]}, *rows[1:]], handle).rows() == wanted
    arrow = pa.table(
        {"c": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())), "m": pa.array([[("x", 2)], [], None], pa.map_(pa.string(), pa.int8()))}
    )
    assert one(arrow, handle).rows() == wanted
    assert one(one(rows, handle), handle).rows() == wanted


@pytest.mark.parametrize("format_name", ["parquet", "orc", "avro"])
def test_null_keys_of_maps(format_name):
    handle = table({"c": "MAP<STRING, INT>"}, file__format=format_name)
    rows = [{"c": {"a": 1}}, {"c": {None: 1}}]
    if format_name == "parquet":
        says(rows, handle, ValueOutOfRange, "row 1: the map in column c of shop.t has a null key, which this table's file format cannot hold", column="c")
    else:
        assert one(rows, handle)["c"].to_list()[1] == [{"key": None, "value": 1}]
    mixed = table({"c": "MAP<STRING, INT>"}, file__format="orc", file__format__per__level="5:parquet")
    says(rows, mixed, ValueOutOfRange, "has a null key", column="c")


def test_keys_that_come_twice():
    handle = table({"c": "MAP<STRING, INT>", "m": "ARRAY<MULTISET<INT>>"})
    says(
        [{"c": {"a": 1}}, {"c": [("b", 1), ("a", 1), ("b", 2)]}], handle, ValueOutOfRange, "row 1", "has the key 'b' twice", "Keep one entry a key", column="c"
    )
    says(
        [{}, {"m": [{}, {1: 1}]}, {"m": [[(1, 1), (1, 2)]]}],
        handle,
        ValueOutOfRange,
        "row 2: the map in column m.element of shop.t has the key 1 twice",
        column="m",
    )
