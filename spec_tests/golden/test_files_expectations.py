"""The reader of recorded rows: every type both ways, and that it tells rows apart."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal

import polars as pl
import pytest

from lakekit.testing.expectations import Read, canonical_value, describe_difference, encode_rows, load_golden_table
from lakekit.types import parse

WALL = datetime.fromisoformat("1969-12-31T23:59:59.999999")


def read_of(columns: dict[str, str], *rows: tuple[object, ...]) -> Read:
    types = tuple(parse(text) for text in columns.values())
    return Read(name="r", branch=None, system=None, options={}, columns=tuple(columns), types=types, rows=tuple(("+I", row) for row in rows), error=None)


def test_every_type_meets_its_recording() -> None:
    frame = pl.DataFrame(
        {
            "bo": [True], "i": [-5], "f": [0.1], "d": [-0.0], "de": [Decimal("-1.50")], "s": ["é"], "b": [b"\x00\xff"], "da": [date(1969, 12, 31)],
            "t": [time(1, 2, 3, 4000)], "ts": [WALL], "a": [[1, None]], "m": [[{"key": "b", "value": 2}]],
            "r": [{"x": None, "y": [1]}],
        },
        schema={
            "bo": pl.Boolean, "i": pl.Int8, "f": pl.Float32, "d": pl.Float64, "de": pl.Decimal(5, 2), "s": pl.String, "b": pl.Binary, "da": pl.Date,
            "t": pl.Time, "ts": pl.Datetime("us"), "a": pl.List(pl.Int32), "m": pl.List(pl.Struct({"key": pl.String, "value": pl.Int32})),
            "r": pl.Struct({"x": pl.String, "y": pl.List(pl.Int64)}),
        },
    )  # fmt: skip
    types = {
        "bo": "BOOLEAN", "i": "TINYINT", "f": "FLOAT", "d": "DOUBLE", "de": "DECIMAL(5, 2)", "s": "STRING", "b": "BYTES", "da": "DATE", "t": "TIME(3)",
        "ts": "TIMESTAMP(6)", "a": "ARRAY<INT>", "m": "MULTISET<STRING>", "r": "ROW<x STRING, y ARRAY<BIGINT>>",
    }  # fmt: skip
    values = (
        True, -5, "0.1", "-0.0", "-1.50", "é", "00ff", -1, 3723004, [-1, 999000], [1, None], [["b", 2]], [None, [1]],
    )  # fmt: skip
    assert describe_difference(frame, read_of(types, values), ordered=True) is None
    for i in range(len(values)):
        other = (*values[:i], None, *values[i + 1 :])
        assert describe_difference(frame, read_of(types, other)) is not None, types[frame.columns[i]]


@pytest.mark.parametrize(
    ("kind", "a", "b", "same"),
    [
        ("DOUBLE", "1.0E10", "10000000000.0", True),
        ("DOUBLE", "0.0", "-0.0", False),
        ("DOUBLE", "NaN", "nan", True),
        ("FLOAT", "0.1", "0.10000000149011612", True),
        ("DOUBLE", "0.1", "0.10000000149011612", False),
        ("MAP<STRING, INT>", [["a", 1], ["b", 2]], [["b", 2], ["a", 1]], True),
        ("ARRAY<INT>", [1, 2], [2, 1], False),
        ("DECIMAL(5, 2)", "-0.00", "0.00", True),
    ],
)
def test_equal_values_have_equal_canonical_forms(kind: str, a: object, b: object, same: bool) -> None:
    t = parse(kind)
    assert (canonical_value(a, t) == canonical_value(b, t)) is same


def test_a_golden_case_loads_and_its_rows_count_as_often_as_they_come() -> None:
    case = load_golden_table("append_plain")
    read = case.read("latest")
    assert read.rows
    assert case.path.endswith("tables/append_plain")
    doubled = replace(read, columns=("n",), types=(parse("INT"),), rows=(("+I", (1,)), ("+I", (1,))))
    once, twice = (pl.DataFrame({"n": n}, schema={"n": pl.Int32}) for n in ([1], [1, 1]))
    assert describe_difference(twice, doubled) is None
    assert "1 missing" in str(describe_difference(once, doubled))
    with pytest.raises(LookupError, match="it has latest"):
        case.read("nothing")


def test_kinds_are_compared_and_order_only_when_asked() -> None:
    read = replace(read_of({"n": "INT"}), rows=(("+I", (1,)), ("-D", (2,))))
    frame = pl.DataFrame({"_row_kind": ["-D", "+I"], "n": [2, 1]}, schema={"_row_kind": pl.String, "n": pl.Int32})
    assert encode_rows(frame, read.types, kind_column="_row_kind") == [("-D", (2,)), ("+I", (1,))]
    assert describe_difference(frame, read, kind_column="_row_kind") is None
    assert describe_difference(frame, read, kind_column="_row_kind", ordered=True) is not None
