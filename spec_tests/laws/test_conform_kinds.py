"""What goes into a table: kinds of rows, what a table would have to change, and that what conforms conforms again."""

# ruff: noqa: DTZ001 - TIMESTAMP has no zone

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from lakekit.errors import InvalidOption, SchemaMismatch, ValueOutOfRange
from lakekit.format.polars_types import polars_schema
from lakekit.write import row_conversion
from lakekit.write.row_conversion import AddedColumn, WidenedColumn
from spec_tests.laws.write_front import APPEND, KEYED, one, says, table

UTC = dt.UTC

# ---- kinds -------------------------------------------------------------------------------------------------------------------------------------------

KINDS = pl.DataFrame({"k": [1, 2, 3, 4], "op": ["+I", "-U", "+U", "-D"]})


def test_kinds_of_rows():
    assert one(KINDS, KEYED, row_kind="op").select("k", "_VALUE_KIND").rows() == [(1, 0), (2, 1), (3, 2), (4, 3)]
    assert one(KINDS.with_columns(pl.col("op").cast(pl.Categorical)), KEYED, row_kind="op")["_VALUE_KIND"].to_list() == [0, 1, 2, 3]


def test_kinds_in_small_letters():
    """As the reference takes them (`RowKind.fromShortString`); the column keeps its text."""
    small = KINDS.with_columns(pl.col("op").str.to_lowercase())
    assert one(small, KEYED, row_kind="op")["_VALUE_KIND"].to_list() == [0, 1, 2, 3]
    handle = table({"k": "BIGINT NOT NULL", "op": "STRING"}, keys=("k",), rowkind__field="op")
    assert one(small, handle).rows() == [(1, "+i", 0), (2, "-u", 1), (3, "+u", 2), (4, "-d", 3)]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"ignore_delete": "true"}, [1, 3]),
        ({"ignore_update_before": "true"}, [1, 3, 4]),
        ({"ignore_delete": "true", "ignore_update_before": "true"}, [1, 3]),
        ({"first_row__ignore_delete": "true", "merge_engine": "first-row"}, [1, 3]),
    ],
)
def test_kinds_that_are_dropped(options, kept):
    handle = table({"k": "BIGINT NOT NULL"}, keys=("k",), bucket="1", **options)
    assert one(KINDS, handle, row_kind="op")["k"].to_list() == kept


def test_a_dropped_row_must_fit_all_the_same():
    """The null check comes before the kind filter (ENGINE 1.1)."""
    handle = table({"k": "BIGINT NOT NULL", "n": "INT NOT NULL"}, keys=("k",), ignore_delete="true")
    says(pl.DataFrame({"k": [1], "n": [None], "op": ["-D"]}), handle, ValueOutOfRange, "row 0: column n of shop.t is NOT NULL", row_kind="op", column="n")


def test_the_kind_in_a_column_of_the_table():
    handle = table({"k": "BIGINT NOT NULL", "op": "STRING"}, keys=("k",), rowkind__field="op", defaults={"op": "+U"})
    assert one(KINDS, handle).rows() == [(1, "+I", 0), (2, "-U", 1), (3, "+U", 2), (4, "-D", 3)]
    assert one([{"k": 1}, {"k": 2, "op": "-D"}], handle)["_VALUE_KIND"].to_list() == [2, 3]
    says(KINDS, handle, InvalidOption, "rowkind.field of shop.t takes the kind of a row from its column op", row_kind="op")
    strict = table({"k": "BIGINT NOT NULL", "op": "STRING"}, keys=("k",), rowkind__field="op")
    says([{"k": 1}], strict, ValueOutOfRange, "row 0: Row kind cannot be null", column="op")
    says(
        [{"k": 1}], table({"k": "INT NOT NULL"}, keys=("k",), rowkind__field="x"), InvalidOption, "rowkind.field of shop.t names 'x', which is no STRING column"
    )


def test_kinds_that_are_none():
    says(
        pl.DataFrame({"k": [1, 2], "op": ["+I", "insert"]}),
        KEYED,
        ValueOutOfRange,
        "row 1: 'insert' is no row kind",
        "+I, -U, +U, -D",
        row_kind="op",
        column="op",
    )
    says(pl.DataFrame({"k": [1], "op": [None]}), KEYED, ValueOutOfRange, "Row kind cannot be null", row_kind="op", column="op")
    says(pl.DataFrame({"k": [1], "op": [0]}), KEYED, SchemaMismatch, "are Int64; they are texts", row_kind="op", column="op")
    says(
        pl.DataFrame({"k": [1]}),
        KEYED,
        SchemaMismatch,
        "row_kind names column 'op', which the rows for shop.t have not; they have k",
        row_kind="op",
        column="op",
    )


def test_append_tables_take_rows_that_add():
    rows = pl.DataFrame({"a": [1, 2], "op": ["+I", "+U"]})
    assert one(rows, APPEND, row_kind="op").rows() == [(1, None), (2, None)]
    bad = pl.DataFrame({"a": [1, 2], "op": ["+I", "-D"]})
    says(bad, APPEND, ValueOutOfRange, "row 1: shop.t is an append table, which takes +I and +U rows and not -D", row_kind="op", column="op")
    assert one(bad, table({"a": "INT"}, ignore_delete="true"), row_kind="op").rows() == [(1,)]


# ---- merge_schema ------------------------------------------------------------------------------------------------------------------------------------


def test_what_a_table_would_have_to_change():
    handle = table(
        {
            "k": "INT NOT NULL",
            "p": "INT NOT NULL",
            "i": "INT",
            "f": "FLOAT NOT NULL",
            "d": "DECIMAL(5, 2)",
            "t": "TIMESTAMP(3)",
            "s": "VARCHAR(3)",
            "r": "ROW<x INT, a ARRAY<INT>>",
        },
        keys=("k", "p"),
        partitions=("p",),
    )
    data = {
        "k": pl.Int64(),
        "p": pl.Int64(),
        "i": pl.UInt32(),
        "f": pl.Float64(),
        "d": pl.Decimal(6, 1),
        "t": pl.Datetime("ns"),
        "s": pl.String(),
        "r": pl.Struct({"x": pl.Int8, "a": pl.List(pl.Int64), "y": pl.Date}),
        "op": pl.String(),
        "new": pl.Map(pl.String(), pl.Array(pl.UInt64, 2)),
    }
    found = row_conversion.schema_changes(data, handle, row_kind="op")
    assert [(type(one), one.path, str(one.type)) for one in found] == [
        (WidenedColumn, ("i",), "BIGINT"),
        (WidenedColumn, ("f",), "DOUBLE NOT NULL"),
        (WidenedColumn, ("d",), "DECIMAL(7, 2)"),
        (WidenedColumn, ("t",), "TIMESTAMP(9)"),
        (WidenedColumn, ("r", "a", "element"), "BIGINT"),
        (AddedColumn, ("r", "y"), "DATE"),
        (AddedColumn, ("new",), "MAP<STRING, ARRAY<DECIMAL(20, 0)>>"),
    ]
    assert row_conversion.schema_changes(polars_schema(handle.schema.fields), handle) == []
    with pytest.raises(SchemaMismatch, match="no Paimon type holds column z of Polars type Duration"):
        row_conversion.schema_changes({"z": pl.Duration()}, handle)


@pytest.mark.long
@settings(max_examples=20)
@given(st.data())
def test_what_conform_gives_it_takes_again_unchanged(data):
    texts = ["INT", "DECIMAL(20, 3)", "VARCHAR(3)", "TIME(3)", "TIMESTAMP(9) WITH LOCAL TIME ZONE", "ARRAY<ROW<a INT, b MAP<STRING, DATE>>>", "MULTISET<INT>"]
    values = {
        "INT": st.integers(-(2**31), 2**31 - 1),
        "DECIMAL(20, 3)": st.decimals(-1000, 1000, places=3),
        "VARCHAR(3)": st.text(max_size=3).filter(lambda text: text.isprintable()),
        "TIME(3)": st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
        texts[4]: st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)).map(lambda found: found.replace(tzinfo=UTC)),
        texts[5]: st.lists(st.none() | st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.dictionaries(st.sampled_from("xyz"), st.dates())}), max_size=3),
        texts[6]: st.dictionaries(st.integers(0, 5), st.integers(1, 3), max_size=3),
    }
    chosen = data.draw(st.lists(st.sampled_from(texts), min_size=1, max_size=4))
    handle = table({f"c{i}": text for i, text in enumerate(chosen)})
    rows = data.draw(st.lists(st.fixed_dictionaries({f"c{i}": st.none() | values[text] for i, text in enumerate(chosen)}), max_size=5))
    found = one(rows, handle)
    told = {"MULTISET<INT>": lambda value: [{"key": key, "value": count} for key, count in value.items()]}
    for i, text in enumerate(chosen):
        if "ARRAY" not in text:
            assert found[f"c{i}"].to_list() == [None if row[f"c{i}"] is None else told.get(text, lambda value: value)(row[f"c{i}"]) for row in rows]
    assert one(found, handle).equals(found)
    assert one(found.to_arrow(), handle).equals(found)
