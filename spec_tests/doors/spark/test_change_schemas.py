"""Types that change events tell or show, and rows of a table that are made of them."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st
from pyspark.sql import functions as sf

from lakekit.errors import SchemaMismatch, Unsupported
from lakekit.spark.pipeline.change_format import FORMATS
from lakekit.spark.pipeline.change_schema import ChangeSchema, infer_types, to_rows
from lakekit.types import Field, parse
from spec_tests.doors.spark.change_events import canal, changes, debezium, dms, maxwell, ogg, typed

pytestmark = pytest.mark.spark


# ---- types of values -------------------------------------------------------------------------------------------------


def inferred_types(spark, *rows, **options):
    return dict(infer_types(changes(spark, rows, "plain"), options=options or None)[None, None].columns)


def test_types_that_values_show(spark):
    row = {"z": 1, "ok": True, "x": 1.5, "e": 1e300, "s": "1", "o": {"b": 1}, "l": [1], "none": None}
    assert inferred_types(spark, row) == {"z": "BIGINT", "ok": "BOOLEAN", "x": "DECIMAL(22, 2)", "e": "DOUBLE", "s": "STRING", "o": "STRING", "l": "STRING"}
    assert list(inferred_types(spark, row)) == ["z", "ok", "x", "e", "s", "o", "l"], "in the order of the message"
    assert inferred_types(spark, '{"a": 12345678901234567890}') == {"a": "DECIMAL(20, 0)"}
    assert inferred_types(spark, '{"a": 12345678901234567890123456789012345678}') == {"a": "DECIMAL(38, 0)"}
    assert inferred_types(spark, '{"a": 123456789012345678901234567890.12345678}') == {"a": "DECIMAL(38, 8)"}


def test_types_of_values_of_several_kinds(spark):
    assert inferred_types(spark, {"a": 1}, {"a": 1.25}, {"b": 1}) == {"a": "DECIMAL(22, 2)", "b": "BIGINT"}
    assert inferred_types(spark, {"a": 1}, {"a": "x"}) == {"a": "STRING"}
    assert inferred_types(spark, {"a": 1, "b": 1}, {"a": "x"}) == {"a": "STRING", "b": "BIGINT"}
    assert inferred_types(spark, {"a": True}, {"a": 1}) == {"a": "STRING"}
    assert inferred_types(spark, {"a": None}, {"a": 1}) == {"a": "BIGINT"}
    assert inferred_types(spark, {"a": {"b": 1}}, {"a": [1]}) == {"a": "STRING"}
    assert inferred_types(spark, {"a": 1, "b": None}, **{"type-mapping": "to-string"}) == {"a": "STRING", "b": "STRING"}


NAMES = ["a b", "é", "q`q", "d.d", 'q"x', "it's", "a,b", "a: b>", "A", "a", "$", "?", "", "back\\slash", "<", "`", "x(1)", "_", "value", "kind"]


def test_names_of_columns_of_every_kind(spark):
    row = {name: at for at, name in enumerate(NAMES)}
    assert inferred_types(spark, row) == dict.fromkeys(NAMES, "BIGINT")
    assert list(inferred_types(spark, row)) == NAMES
    lower = [name for name in NAMES if name != "A"]
    assert typed(spark, [row], "plain", dict.fromkeys(lower, "BIGINT")) == [tuple(NAMES.index(name) for name in lower)]
    with pytest.raises(SchemaMismatch, match="columns A and a: Spark takes these names for one"):
        typed(spark, [row], "plain", {"A": "INT", "a": "INT"})


def test_tables_have_columns_of_their_own_and_other_columns_name_them(spark):
    events = [
        canal("INSERT", [{"id": "1"}], types={"id": "int"}),
        canal("INSERT", [{"id": "1"}], types={"id": "bigint"}),
        canal("INSERT", [{"k": "a"}], table="days"),
    ]
    assert infer_types(changes(spark, events, "canal")) == {
        ("shop", "orders"): ChangeSchema({"id": "BIGINT"}, ("id",)),
        ("shop", "days"): ChangeSchema({"k": "STRING"}, ("id",)),
    }
    routed = changes(spark, events, "canal").withColumn("target", sf.lit("all"))
    assert infer_types(routed, by=["target"]) == {("all",): ChangeSchema({"id": "BIGINT", "k": "STRING"}, ("id",))}


# ---- rows of a table -------------------------------------------------------------------------------------------------


def test_values_that_do_not_fit_are_problems(spark):
    cases = [
        ("TINYINT", 128, None),
        ("INT", "1.5", None),
        ("INT", 1.0, 1),
        ("BIGINT", "x", None),
        ("DECIMAL(5, 2)", "123.456", None),
        ("DECIMAL(5, 2)", "123.450", Decimal("123.45")),
        ("DECIMAL(5, 2)", 1234, None),
        ("DECIMAL(5, 2)", 1e2, Decimal("100.00")),
        ("FLOAT", 0.1, pytest.approx(0.1)),
        ("FLOAT", 0.123456789012, None),
        ("VARCHAR(2)", "abc", None),
        ("VARCHAR(2)", "éà", "éà"),
        ("STRING", {"b": [1, None]}, '{"b":[1,null]}'),
        ("BOOLEAN", "yes", True),
        ("BOOLEAN", 2, None),
        ("DATE", "2024-02-30", None),
        ("DATE", "2024", date(1975, 7, 18)),
        ("DATE", "2024-03", None),
        ("DATE", "0000-00-00", None),
        ("DATE", 19813, date(2024, 3, 31)),
        ("TIME(3)", "10:13:23.5", 36_803_500),
        ("TIME(3)", "25:00:00", None),
        ("TIMESTAMP(0)", 1711879200, datetime.fromisoformat("2024-03-31T10:00:00")),
        ("TIMESTAMP(3)", "1711879200123", datetime.fromisoformat("2024-03-31T10:00:00.123")),
        ("TIMESTAMP(6)", "soon", None),
        ("TIMESTAMP(6)", "2024-03-31T10:00:00Z", datetime.fromisoformat("2024-03-31T10:00:00")),
        ("TIMESTAMP(6)", "2024-03-31T10:00:00+02:00", None),
        ("BYTES", "é", bytearray("é".encode())),
        ("BYTES", 5, None),
        ("BINARY(2)", "AQI=", bytearray(b"\x01\x02")),
        ("BINARY(2)", "%", None),
        ("VARBINARY(1)", "ab", None),
        ("ARRAY<INT>", [1, 2], [1, 2]),
        ("ARRAY<INT>", "[1, 2]", [1, 2]),
        ("ARRAY<INT>", "x", None),
        ("ARRAY<INT>", [1, "x"], None),
        ("ARRAY<INT>", [1, None], [1, None]),
        ("ARRAY<ARRAY<INT>>", [[1], ["x"]], None),
        ("MAP<STRING, INT>", {"a": "x"}, None),
        ("ROW<a INT>", {"a": "x"}, None),
        ("ROW<a ARRAY<DATE>>", {"a": ["2024-02-30"]}, None),
        ("MAP<STRING, INT>", {"a": 1}, {"a": 1}),
        ("ROW<a INT, `b c` STRING>", {"a": 1, "b c": "x"}, (1, "x")),
    ]
    columns = {f"c{at}": t for at, (t, _, _) in enumerate(cases)}
    events = [{f"c{at}": value} for at, (_, value, _) in enumerate(cases)]
    rows = typed(spark, events, "plain", columns)
    for at, ((t, value, result), row) in enumerate(zip(cases, rows, strict=True)):
        if result is None:
            shown_value = value if isinstance(value, str) else json.dumps(value).replace(", ", ",").replace(": ", ":")
            assert row == f"column c{at}: {shown_value} does not fit {parse(t)}", (t, value)
        else:
            assert row[at] == result, (t, value)
            assert [cell for cell in row if cell is not None] == [row[at]], (t, value)


def test_missing_values_are_null_and_not_null_columns_refuse_them(spark):
    assert typed(spark, [{"a": None}, {}, {"a": 1, "more": 5}], "plain", {"a": "INT", "v": "VARIANT", "r": "BYTES"}) == [
        (None,) * 3,
        (None,) * 3,
        (1, None, None),
    ]
    assert typed(spark, [{"a": None}, {}], "plain", {"a": "INT NOT NULL"}) == ["column a: no value, and it is NOT NULL"] * 2
    assert typed(spark, ["x", None], "plain", {"a": "INT NOT NULL"})[1] is None
    with pytest.raises(Unsupported, match="column m MULTISET<INT>: no event fills"):
        typed(spark, [], "plain", {"m": "MULTISET<INT>"})
    with pytest.raises(Unsupported, match=r"column m MAP<INT.*, INT>: no event fills"):
        typed(spark, [], "plain", {"m": "MAP<INT, INT>"})


# ---- the law ---------------------------------------------------------------------------------------------------------

VALUES = {
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "BOOLEAN": st.booleans(),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False),
    "STRING": st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    "DECIMAL(38, 10)": st.decimals(-(10**27), 10**27, places=10),
}


@st.composite
def histories(draw):
    columns = {
        name: draw(st.sampled_from(sorted(VALUES)))
        for name in draw(st.lists(st.sampled_from([name for name in NAMES if name not in ("", "A")]), min_size=1, max_size=4, unique=True))
    }
    rows = st.fixed_dictionaries({name: st.none() | VALUES[t] for name, t in columns.items()})
    return columns, draw(st.lists(st.tuples(st.sampled_from("iud"), rows, rows), min_size=1, max_size=5))


def as_event(dialect, kind, old, new):
    cells = {name: str(value) if isinstance(value, Decimal) else value for name, value in new.items()}
    before = {name: str(value) if isinstance(value, Decimal) else value for name, value in old.items()}
    old_only = {name: value for name, value in before.items() if value != cells[name] or type(value) is not type(cells[name])}
    match dialect:
        case "debezium":
            return debezium({"i": "c", "u": "u", "d": "d"}[kind], None if kind == "i" else cells if kind == "d" else before, None if kind == "d" else cells)
        case "canal":
            texts = [
                {name: value if value is None or isinstance(value, str) else json.dumps(value) for name, value in row.items()} for row in (cells, old_only)
            ]
            return canal({"i": "INSERT", "u": "UPDATE", "d": "DELETE"}[kind], texts[:1], texts[1:] if kind == "u" else None)
        case "maxwell":
            return maxwell({"i": "insert", "u": "update", "d": "delete"}[kind], cells, old_only if kind == "u" else None)
        case "ogg":
            return ogg(kind.upper(), None if kind == "i" else cells if kind == "d" else before, None if kind == "d" else cells)
        case "dms":
            return dms(
                {"i": "insert", "u": "update", "d": "delete"}[kind],
                {**cells, **({f"BI_{name}": value for name, value in before.items()} if kind == "u" else {})},
            )
    return {"op": {"i": "+I", "u": "+U", "d": "-D"}[kind], **cells}


@pytest.mark.parametrize("dialect", sorted(FORMATS))
@settings(max_examples=4, deadline=None)
@given(histories())
def test_rows_written_as_events_come_back_as_they_were(spark, dialect, history):
    columns, steps = history
    if dialect == "plain" and "op" in columns:
        return
    fields = [Field(name, parse(t)) for name, t in columns.items()]
    events = [as_event(dialect, *step) for step in steps]
    options = {"row_kind": "op"} if dialect == "plain" else {}
    rows = to_rows(changes(spark, events, dialect, **options), fields).orderBy("position", "step").collect()
    expected = []
    for kind, old, new in steps:
        if kind == "u" and dialect != "plain":
            expected += [("-D", tuple(old[name] for name in columns)), ("+I", tuple(new[name] for name in columns))]
        else:
            expected.append(({"i": "+I", "u": "+U", "d": "-D"}[kind], tuple(new[name] for name in columns)))
    assert [(row["kind"], None if row["row"] is None else tuple(row["row"])) for row in rows] == expected, [row["problem"] for row in rows]
