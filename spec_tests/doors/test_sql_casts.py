"""Every pair of types in CAST, and VARIANT by path: what DuckDB computes, or a refusal by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import duckdb
import pytest

import lakekit as lk
from lakekit.errors import LakekitError

VALUES = {
    "BOOLEAN": "TRUE",
    "TINYINT": "7",
    "SMALLINT": "300",
    "INT": "70000",
    "BIGINT": "3000000000",
    "FLOAT": "2.5",
    "DOUBLE": "-7.25",
    "DECIMAL(10, 2)": "12.35",
    "VARCHAR": "'2024-01-05'",
    "DATE": "DATE '2024-01-05'",
    "TIME": "TIME '10:11:12'",
    "TIMESTAMP": "TIMESTAMP '2024-01-05 10:11:12.345678'",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ '2024-01-05 10:11:12+00'",
    "BLOB": "'abc'::BLOB",
    "INT[]": "[1, 2]",
    "MAP(VARCHAR, INT)": "MAP {'a': 1}",
    "STRUCT(a INT, b VARCHAR)": "{'a': 1, 'b': 'x'}",
}
PAIMON = {
    "VARCHAR": "STRING",
    "BLOB": "BYTES",
    "TIME": "TIME(3)",
    "TIMESTAMP": "TIMESTAMP(6)",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "INT[]": "ARRAY<INT>",
    "MAP(VARCHAR, INT)": "MAP<STRING, INT>",
    "STRUCT(a INT, b VARCHAR)": "ROW<a INT, b STRING>",
}


@pytest.fixture(scope="module")
def cat(tmp_path_factory):
    made = lk.connect(tmp_path_factory.mktemp("house"))
    made.create_database("d")
    made.sql("USE d")
    columns = {f"c{at}": PAIMON.get(kind, kind) for at, kind in enumerate(VALUES)}
    made.create_table("d.t", columns)
    made.sql(f"INSERT INTO t SELECT {', '.join(VALUES.values())} UNION ALL SELECT {', '.join(['NULL'] * len(VALUES))}")
    return made


@pytest.fixture(scope="module")
def duck():
    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    base.execute(f"CREATE TABLE t ({', '.join(f'c{at} {kind}' for at, kind in enumerate(VALUES))})")
    base.execute(f"INSERT INTO t SELECT {', '.join(VALUES.values())} UNION ALL SELECT {', '.join(['NULL'] * len(VALUES))}")
    return base


def plain(value):
    """A value as both give it: maps as pairs, moments in UTC."""
    if isinstance(value, list) and value and isinstance(value[0], dict) and set(value[0]) == {"key", "value"}:
        return {pair["key"]: pair["value"] for pair in value}
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo else value


@pytest.mark.parametrize("kind", VALUES)
def test_every_cast_is_duckdbs_or_refused(cat, duck, kind):
    refused = []
    for at, own in enumerate(VALUES):
        for function in ("CAST", "TRY_CAST"):
            text = f"SELECT {function}(c{at} AS {kind}) AS x FROM t"
            try:
                theirs = [plain(value) for (value,) in duck.execute(text).fetchall()]
            except duckdb.Error:
                theirs = None
            try:
                ours = [plain(value) for value in cat.sql(text).collect()["x"].to_list()]
            except LakekitError as wrong:
                assert str(wrong)
                ours = None
                if theirs is not None:
                    refused.append((own, str(wrong).splitlines()[0]))
            assert ours is None or sorted(map(repr, ours)) == sorted(map(repr, theirs or ["nothing"])), text
    assert refused == []


@pytest.mark.parametrize(
    "kind",
    ["STRING", "BYTES", "TIMESTAMP(3)", "ARRAY<INT>", "MAP<STRING, INT>", "ROW<a INT>", "MULTISET<INT>", "VARIANT", "TIMESTAMP_LTZ(3)", "CHAR(2)", "NOTYPE"],
)
def test_types_in_paimons_words_are_cast_or_refused_by_name(cat, kind):
    for at in range(len(VALUES)):
        try:
            cat.sql(f"SELECT CAST(c{at} AS {kind}) AS x FROM t").collect()
        except LakekitError as wrong:
            assert "line 1, column" in str(wrong) or kind.split("(")[0].split("<")[0].upper() in str(wrong).upper()


# ---- VARIANT -------------------------------------------------------------------------------------

METADATA = bytes([0x01, 2, 0, 1, 2]) + b"ab"
INNER = bytes([0x02, 1, 1, 0, 2, 0x0C, 5])
OBJECT = bytes([0x02, 1, 0, 0, len(INNER)]) + INNER
"""{"a": {"b": 5}} as Paimon stores it."""


@pytest.fixture
def variants(tmp_path):
    made = lk.connect(tmp_path)
    made.sql("CREATE DATABASE v; USE v; CREATE TABLE t (k INT, v VARIANT)")
    made["v.t"].append(
        [{"k": 1, "v": {"value": OBJECT, "metadata": METADATA}}, {"k": 2, "v": {"value": bytes([0x0C, 7]), "metadata": METADATA}}, {"k": 3, "v": None}]
    )
    return made


def test_variants_are_read_by_path(variants):
    def answer(text):
        return variants.sql(text).collect().rows()

    assert answer("SELECT k, CAST(v.a.b AS INT) AS b FROM t ORDER BY k") == [(1, 5), (2, None), (3, None)]
    assert answer("SELECT k FROM t WHERE v.a.b = 5") == [(1,)]
    assert answer("SELECT CAST(v['a']['b'] AS BIGINT) AS b, CAST(v AS VARCHAR) AS t FROM t WHERE k = 1") == [(5, "{'a': {'b': 5}}")]
    assert answer("SELECT to_json(v) AS j, variant_typeof(v) AS t FROM t WHERE k = 1") == [('{"a":{"b":5}}', "OBJECT(a)")]
    assert answer("SELECT k FROM t WHERE v IS NULL") == [(3,)]
    assert answer("SELECT sum(CAST(v AS INT)) AS n FROM t WHERE k > 1") == [(7,)]
    with pytest.raises(LakekitError, match="VARIANT"):
        variants.sql("SELECT CAST(v AS INT) AS x FROM t").collect()
    for text in ("SELECT variant_get(v, '$.a.b', 'int') FROM t", "SELECT v:a.b FROM t"):
        with pytest.raises(LakekitError, match=r"line 1, column \d+"):
            variants.sql(text).collect()


def test_variants_that_pass_through_a_query_are_what_they_were(variants):
    rows = variants.sql("SELECT t.k, t.v FROM t JOIN t AS o ON t.k = o.k ORDER BY t.k").collect()
    assert rows["v"].to_list() == [{"value": OBJECT, "metadata": METADATA}, {"value": bytes([0x0C, 7]), "metadata": bytes([1, 0, 0])}, None]
    variants.sql("CREATE TABLE u (k INT, v VARIANT); INSERT INTO u SELECT k + 1, v FROM t WHERE v IS NULL OR k = 1")
    variants.sql("INSERT INTO u VALUES (9, CAST(1.5 AS VARIANT)), (10, CAST(NULL AS VARIANT))")
    stored = variants["v.u"].scan().sort("k").collect()
    assert stored["v"].is_null().to_list() == [False, True, False, True]
    assert variants.sql("SELECT CAST(v AS DECIMAL(3, 1)) AS n FROM u WHERE k = 9").collect().item() == Decimal("1.5")


@pytest.mark.parametrize("text", ["v.a.b = 5", "v.a IS NOT NULL", "CAST(v AS INT) = 7", "v = 7"])
def test_conditions_refuse_to_look_into_a_variant_by_name(variants, text):
    with pytest.raises(LakekitError, match="VARIANT") as caught:
        variants["v.t"].delete(text)
    assert "line 1, column" in str(caught.value)
    with pytest.raises(LakekitError, match="VARIANT"):
        variants.sql(f"UPDATE t SET k = 9 WHERE {text}")
    assert variants.sql("UPDATE t SET k = 9 WHERE k IN (SELECT k FROM t WHERE v.a.b = 5)")["row_count"].item() >= 1
    assert variants["v.t"].scan().collect()["k"].to_list().count(9) == 1
