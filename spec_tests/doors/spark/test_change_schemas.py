"""Types that change events tell or show, and rows of a table that are made of them."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as sf

from lakekit.errors import SchemaMismatch, Unsupported
from lakekit.spark.pipeline.change_schema import ChangeSchema, infer_types
from spec_tests.doors.spark.change_events import canal, changes, typed

pytestmark = pytest.mark.spark


# ---- types of values -------------------------------------------------------------------------------------------------


def shown(spark, *rows, **options):
    return dict(infer_types(changes(spark, rows, "plain"), options=options or None)[None, None].columns)


def test_types_that_values_show(spark):
    row = {"z": 1, "ok": True, "x": 1.5, "e": 1e300, "s": "1", "o": {"b": 1}, "l": [1], "none": None}
    assert shown(spark, row) == {"z": "BIGINT", "ok": "BOOLEAN", "x": "DECIMAL(22, 2)", "e": "DOUBLE", "s": "STRING", "o": "STRING", "l": "STRING"}
    assert list(shown(spark, row)) == ["z", "ok", "x", "e", "s", "o", "l"], "in the order of the message"
    assert shown(spark, '{"a": 12345678901234567890}') == {"a": "DECIMAL(20, 0)"}
    assert shown(spark, '{"a": 12345678901234567890123456789012345678}') == {"a": "DECIMAL(38, 0)"}
    assert shown(spark, '{"a": 123456789012345678901234567890.12345678}') == {"a": "DECIMAL(38, 8)"}


def test_types_of_values_of_several_kinds(spark):
    assert shown(spark, {"a": 1}, {"a": 1.25}, {"b": 1}) == {"a": "DECIMAL(22, 2)", "b": "BIGINT"}
    assert shown(spark, {"a": 1}, {"a": "x"}) == {"a": "STRING"}
    assert shown(spark, {"a": 1, "b": 1}, {"a": "x"}) == {"a": "STRING", "b": "BIGINT"}
    assert shown(spark, {"a": True}, {"a": 1}) == {"a": "STRING"}
    assert shown(spark, {"a": None}, {"a": 1}) == {"a": "BIGINT"}
    assert shown(spark, {"a": {"b": 1}}, {"a": [1]}) == {"a": "STRING"}
    assert shown(spark, {"a": 1, "b": None}, **{"type-mapping": "to-string"}) == {"a": "STRING", "b": "STRING"}


NAMES = ["a b", "é", "q`q", "d.d", 'q"x', "it's", "a,b", "a: b>", "A", "a", "$", "?", "", "back\\slash", "<", "`", "x(1)", "_", "value", "kind"]


def test_names_of_columns_of_every_kind(spark):
    row = {name: at for at, name in enumerate(NAMES)}
    assert shown(spark, row) == dict.fromkeys(NAMES, "BIGINT")
    assert list(shown(spark, row)) == NAMES
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
