"""No clause of a query is dropped: it is computed, or refused by its name and place; outputs that are one word have it as their name."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import LakekitError, SchemaMismatch, SqlError


@pytest.fixture(scope="module")
def cat(tmp_path_factory):
    made = lk.connect(tmp_path_factory.mktemp("lake"))
    made.sql("CREATE DATABASE db; USE db; CREATE TABLE t (id INT, d DATE, g INT)")
    made.sql("INSERT INTO t VALUES (1, '2024-01-01', 1), (2, '2024-01-02', 1); INSERT INTO t VALUES (3, '2025-01-01', 1); ALTER TABLE t CREATE TAG first")
    made.sql("INSERT INTO t VALUES (4, '2025-01-02', 2)")
    return made


def ids(cat, text):
    return sorted(cat.sql(text).collect()["id"].to_list())


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("AT (VERSION => 1)", [1, 2]),
        ("AT (VERSION => 2)", [1, 2, 3]),
        ("at (version => 'first')", [1, 2, 3]),
        ("AT (TIMESTAMP => '2100-01-01 00:00:00')", [1, 2, 3, 4]),
        ("AT (TIMESTAMP => TIMESTAMP '2100-01-01 00:00:00')", [1, 2, 3, 4]),
    ],
)
@pytest.mark.parametrize(
    "query",
    ["SELECT id FROM t {}", "SELECT x.id FROM t {} AS x", "SELECT x.id FROM t AS x {} ORDER BY 1", "SELECT id FROM (SELECT * FROM db.t {} WHERE g > 0)"],
)
def test_a_version_is_asked_for_as_in_duckdb(cat, query, version, found):
    assert ids(cat, query.format(version)) == found


def test_rows_of_a_version_are_inserted(cat):
    cat.sql("CREATE TABLE IF NOT EXISTS copied (id INT, d DATE, g INT); INSERT INTO copied SELECT * FROM t AT (VERSION => 1)")
    assert ids(cat, "SELECT id FROM copied") == [1, 2]
    cat.sql("DROP TABLE copied")


@pytest.mark.parametrize(
    ("text", "word", "column"),
    [
        ("SELECT id FROM t BEFORE (STATEMENT => 'x')", "BEFORE", 18),
        ("SELECT id FROM t AT (OFFSET => -60)", "AT", 18),
        ("SELECT id FROM t CHANGES (INFORMATION => DEFAULT) AT (VERSION => 1)", "CHANGES", 18),
        ("SELECT id FROM t WITH (NOLOCK)", "WITH", 18),
        ("SELECT id FROM ONLY t", "ONLY", 16),
        ("SELECT id FROM t LIMIT 1 BY g", "BY", 26),
        ("SELECT FROM t", "column", 8),
        ("SELECT id FROM t FOR UPDATE", "FOR UPDATE", 18),
        ("SELECT AS STRUCT id FROM t", "AS STRUCT", 8),
        ("SELECT id FROM t CONNECT BY id = 1", "CONNECT BY", 18),
        ("SELECT id FROM t CLUSTER BY id", "CLUSTER BY", 18),
        ("SELECT count(*) FROM t WITH (NOLOCK)", "WITH", 24),
        ("SELECT id FROM (SELECT id FROM t BEFORE (STATEMENT => 'x')) ORDER BY id", "BEFORE", 34),
        ("INSERT INTO t SELECT * FROM t BEFORE (STATEMENT => 'x')", "BEFORE", 31),
    ],
)
def test_a_clause_that_is_not_computed_is_refused(cat, text, word, column):
    with pytest.raises(SqlError, match=word) as refused:
        cat.sql(text).collect()
    assert refused.value.column == column, str(refused.value)
    assert cat["db.t"].aggregate(pl.len()).item() == 4


@pytest.mark.parametrize("word", ["current_date", "CURRENT_DATE", "current_timestamp", "localtimestamp", "localtime"])
@pytest.mark.parametrize(
    "query",
    ["SELECT {}", "SELECT id, {} FROM t", "SELECT x.* FROM (SELECT {}) x", "SELECT DISTINCT {} FROM t ORDER BY 1", "SELECT {} UNION ALL SELECT {}"],
)
def test_an_output_of_one_word_has_it_as_its_name(cat, query, word):
    found = cat.sql(query.replace("{}", word)).collect()
    assert found.columns[-1] == word
    assert found[word].null_count() == 0


def test_today_is_inserted(cat):
    cat.sql("CREATE TABLE IF NOT EXISTS now (id INT, d DATE, g INT); INSERT INTO now SELECT 2, current_date, NULL")
    days = cat["db.now"].scan().collect()["d"].to_list()
    assert days == [dt.datetime.now(dt.UTC).date()]


@pytest.mark.parametrize(
    "limit",
    [
        "LIMIT 99999999999999999999",
        "LIMIT 1 OFFSET 99999999999999999999",
        "LIMIT 5000000000",
        "LIMIT 9223372036854775807 OFFSET 2",
        "LIMIT 18446744073709551616",
    ],
)
def test_a_limit_of_any_length_is_taken_or_refused(cat, limit):
    for query in ("SELECT id FROM t {}", "SELECT id FROM t ORDER BY id {}", "SELECT id + 1 AS id FROM t {}", "SELECT 1 AS id {}"):
        try:
            cat.sql(query.format(limit)).collect()
        except LakekitError:
            continue


def test_a_type_that_is_too_deep_is_refused(cat):
    deep = '["INTEGER"]'
    for _ in range(300):
        deep = f"[{deep}]"
    with pytest.raises((SchemaMismatch, SqlError)):
        cat.sql(f"SELECT json_transform('1', '{deep}') AS x")


@pytest.mark.parametrize("wrong", ["SELEC 2", "VACUUM t", "SELECT 'open", "17", "GRANT ALL"])
def test_no_statement_runs_where_one_begins_with_no_known_word(cat, wrong):
    """`TRUNCATE TABLE z; SELEC 2` emptied z."""
    with pytest.raises(LakekitError, match=r"none of them ran|does not end"):
        cat.sql(f"DELETE FROM t WHERE id = 4; TRUNCATE TABLE t; SELECT 1; {wrong}; DROP TABLE t")
    assert cat["db.t"].aggregate(pl.len()).item() == 4


def test_a_name_of_with_has_no_versions(cat):
    with pytest.raises(SqlError, match="has no versions"):
        cat.sql("WITH x AS (SELECT 1 AS a) SELECT * FROM x AT (VERSION => 1)").collect()


def test_a_new_value_is_set_by_one_equals_sign(cat):
    with pytest.raises(SqlError, match="one equals sign"):
        cat.sql("UPDATE t SET g == 7")
    assert cat["db.t"].aggregate(pl.col("g").max()).item() == 2
