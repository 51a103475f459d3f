"""Rows that are dicts: values are taken by the types of the table, and what does not fit is told."""

# ruff: noqa: DTZ001 - TIMESTAMP has no zone

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest

from lakekit.errors import SchemaMismatch, ValueOutOfRange
from spec_tests.laws.write_front import one, says, table

UTC = dt.UTC


@pytest.mark.parametrize(
    ("text", "value", "asks"),
    [
        ("INT", True, "an int"),
        ("INT", 1.0, "an int"),
        ("BOOLEAN", 1, "a bool"),
        ("DOUBLE", "1", "a number"),
        ("DECIMAL(5, 2)", 1.5, "a Decimal or an int"),
        ("STRING", b"a", "a str"),
        ("BYTES", "a", "bytes"),
        ("DATE", dt.datetime(2024, 1, 1), "a date"),
        ("TIME(3)", dt.datetime(2024, 1, 1), "a time"),
        ("TIMESTAMP(3)", dt.date(2024, 1, 1), "a datetime"),
        ("TIMESTAMP(3)", dt.datetime(2024, 1, 1, tzinfo=UTC), "a datetime without a zone"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", dt.datetime(2024, 1, 1), "a datetime with a zone"),
        ("ARRAY<INT>", "ab", "a list"),
        ("MAP<INT, INT>", 5, "a dict, or a list of pairs"),
        ("MAP<INT, INT>", [(1,)], "a dict, or a list of pairs"),
        ("ROW<a INT>", [1], "a dict"),
        ("ROW<a INT>", {"b": 1}, "a dict of a"),
    ],
)
def test_dicts_are_read_with_the_tables_types(text, value, asks):
    says([{"c": None}, {"c": value}], table({"c": text}), SchemaMismatch, "row 1: column c of shop.t holds", asks, column="c")


@pytest.mark.parametrize(
    ("text", "value", "wanted"),
    [
        ("FLOAT", 0.1, np.float32(0.1).item()),
        ("DOUBLE", 3, 3.0),
        ("SMALLINT", np.int64(5), 5),
        ("DECIMAL(38, 2)", Decimal("123456789012345678901234567890123456.78"), Decimal("123456789012345678901234567890123456.78")),
        ("DECIMAL(5, 2)", 7, Decimal("7.00")),
        ("BYTES", bytearray(b"a"), b"a"),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", dt.datetime(2024, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))), dt.datetime(2024, 1, 1, tzinfo=UTC)),
        ("VARIANT", {"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}, {"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}),
        ("ROW<a ARRAY<ROW<b DATE>>>", {"a": [{"b": dt.date(2024, 1, 1)}, {}]}, {"a": [{"b": dt.date(2024, 1, 1)}, {"b": None}]}),
    ],
)
def test_values_of_dicts(text, value, wanted):
    assert one([{"c": value}, {}], table({"c": text}))["c"].to_list() == [wanted, None]


def test_dicts_whose_values_do_not_fit():
    says([{"c": 2**70}], table({"c": "BIGINT"}), ValueOutOfRange, "row 0", "which is no BIGINT", column="c")
    says([{"c": 300}], table({"c": "TINYINT"}), ValueOutOfRange, "holds 300, which is no TINYINT", column="c")
    says([{"c": Decimal("1.555")}], table({"c": "DECIMAL(5, 2)"}), ValueOutOfRange, "1.555", "cannot hold without changing it", column="c")
    says([{"c": Decimal("NaN")}], table({"c": "DECIMAL(5, 2)"}), ValueOutOfRange, "which is no DECIMAL(5, 2)", column="c")
    assert one([{"c": Decimal("1.555")}], table({"c": "DECIMAL(5, 2)"}), cast=True)["c"].to_list() == [Decimal("1.56")]
