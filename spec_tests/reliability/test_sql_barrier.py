"""A view that lies in a lake sees nothing of the query that names it, and a name of WITH finds nothing but its WITH."""

from __future__ import annotations

import json
import sqlite3

import polars as pl
import pytest

import lakekit as lk

SECRET = "CANARY"


@pytest.fixture
def stored(tmp_path):
    """A catalog whose metastore holds views that no lakekit looked at when they were stored: `stored(name, query)`."""
    cat = lk.connect(tmp_path / "house", metastore="jdbc", uri=f"sqlite:///{tmp_path}/names.db")
    cat.sql("CREATE DATABASE shop; CREATE DATABASE hidden")
    cat.sql("CREATE TABLE shop.orders (id BIGINT, s STRING); INSERT INTO shop.orders VALUES (1, 'a')")
    cat.sql(f"CREATE TABLE hidden.vault (id BIGINT, pw STRING); INSERT INTO hidden.vault VALUES (1, '{SECRET}')")
    cat.create_view("shop.kept", "SELECT s AS x FROM orders")
    (tmp_path / "token.csv").write_text(f"x\n{SECRET}\n", encoding="utf-8")

    def store(name, query):
        definition = {"fields": [{"id": 0, "name": "x", "type": "STRING"}], "query": query, "dialects": {}, "comment": "", "options": {}}
        with sqlite3.connect(tmp_path / "names.db") as names:
            names.execute("INSERT INTO paimon_views VALUES (?, ?, ?, ?)", ("jdbc", "shop", name, json.dumps(definition)))
        names.close()

    return cat, store, tmp_path


def refused(cat, text, **kwargs):
    """Returns the error of a statement, and holds that it shows nothing of what it may not see."""
    with pytest.raises(lk.LakekitError) as wrong:
        cat.sql(text, **kwargs).collect()
    assert SECRET not in str(wrong.value)
    return wrong.value


CAPTURES = [
    "SELECT pw AS x",
    "SELECT vault.pw AS x",
    "SELECT CAST(vault AS VARCHAR) AS x",
    "SELECT s AS x FROM orders WHERE pw LIKE 'C%'",
    "SELECT (SELECT pw) AS x FROM orders",
    "SELECT max(pw) AS x FROM orders",
    "WITH own AS (SELECT pw AS x) SELECT x FROM own",
    "WITH RECURSIVE mine AS (FROM mine) SELECT pw AS x FROM mine",
    "WITH RECURSIVE mine AS (SELECT pw AS x FROM mine UNION ALL SELECT pw FROM mine) SELECT x FROM mine",
    "WITH RECURSIVE mine AS MATERIALIZED (SELECT pw AS x FROM mine) SELECT x FROM mine",
    "WITH RECURSIVE mine AS ((SELECT pw AS x FROM mine) EXCEPT SELECT 'a') SELECT x FROM mine",
    "SELECT pw AS x FROM mine",
]


@pytest.mark.parametrize("query", CAPTURES)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT v.x FROM hidden.vault, shop.v v",
        "SELECT v.x FROM hidden.vault JOIN shop.v v ON true",
        "SELECT (SELECT max(x) FROM shop.v) FROM hidden.vault",
        "SELECT id FROM hidden.vault WHERE EXISTS (SELECT x FROM shop.v WHERE x = 'CANARY')",
        "WITH mine AS (SELECT * FROM hidden.vault) SELECT v.x FROM mine, shop.v v",
    ],
)
def test_a_view_sees_no_columns_and_no_with_of_the_query_that_names_it(stored, query, text):
    cat, store, _ = stored
    store("v", query)
    refused(cat, text)


def test_a_column_that_is_gone_is_not_taken_from_the_neighbour(stored):
    cat, _, _ = stored
    cat.sql("ALTER TABLE shop.orders RENAME COLUMN s TO label")
    cat.sql("CREATE TABLE shop.people (s STRING); INSERT INTO shop.people VALUES ('CANARY')")
    assert isinstance(refused(cat, "SELECT * FROM shop.kept"), lk.ColumnNotFound)
    assert isinstance(refused(cat, "SELECT k.* FROM shop.people p, shop.kept k"), lk.ColumnNotFound)


@pytest.mark.parametrize(
    "query",
    [
        'WITH RECURSIVE "{f}" AS (FROM "{f}") SELECT x FROM "{f}"',
        'WITH RECURSIVE "{f}" AS (SELECT x FROM "{f}" UNION ALL SELECT x FROM "{f}") SELECT x FROM "{f}"',
        'WITH RECURSIVE "{f}" AS (FROM "{f}") SELECT count(*)::VARCHAR AS x FROM "{f}"',
        'WITH "{k}" AS (SELECT 1) SELECT x FROM "{f}"',
        'SELECT x FROM (WITH "{f}" AS (SELECT 1 AS x) FROM "{f}"), "{f}"',
    ],
)
@pytest.mark.parametrize("files", [False, True])
def test_no_name_of_with_opens_a_file(stored, query, files):
    cat, store, folder = stored
    path = f"{folder}/token.csv"
    text = query.format(f=path, k=path.replace("token", "to\u212aen"))
    store("v", text)
    refused(cat, "SELECT x FROM shop.v", files=files)
    refused(cat, "SELECT k.x FROM shop.kept k, shop.v", files=files)
    refused(cat, text, files=files)


@pytest.mark.parametrize("name", ["pg_settings", "duckdb_columns", "duckdb_views", "pg_class", "pragma_database_list", "sqlite_master"])
@pytest.mark.parametrize("outputs", ["*", "count(*)", "1"])
def test_no_name_of_with_shows_what_duckdb_knows(stored, name, outputs):
    cat, store, _ = stored
    text = f"WITH RECURSIVE {name} AS (FROM {name}) SELECT {outputs} FROM {name}"
    refused(cat, text)
    store("v", f"WITH RECURSIVE {name} AS (FROM {name}) SELECT count(*)::VARCHAR AS x FROM {name}")
    refused(cat, "SELECT x FROM shop.v")


@pytest.mark.parametrize("name", ["lakekit_0", "LAKEKIT_0", '"Lakekit_view_0"'])
def test_with_takes_no_name_of_lakekit(stored, name):
    cat, _, _ = stored
    assert isinstance(refused(cat, f"WITH {name} AS (SELECT 9 AS id, 'FAKE' AS pw) SELECT id FROM hidden.vault"), lk.SqlError)
    assert isinstance(refused(cat, f"SELECT * FROM (WITH {name} AS (SELECT 'FAKE' AS x) SELECT * FROM shop.kept)"), lk.SqlError)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT sum(n) FROM r", [(10,)]),
        ("WITH a AS (SELECT 1 AS n), b AS (SELECT n + 1 AS n FROM a) SELECT a.n, b.n FROM a, b", [(1, 2)]),
        ("WITH orders AS (SELECT * FROM shop.orders) SELECT s FROM orders", [("a",)]),
        ("WITH a AS (WITH b AS (SELECT 1 AS n) SELECT * FROM b) SELECT n FROM a", [(1,)]),
        ("SELECT k.x, (SELECT max(x) FROM shop.kept) FROM shop.kept AS k JOIN shop.kept AS l USING (x)", [("a", "a")]),
        ("SELECT y FROM shop.kept AS k(y)", [("a",)]),
        ("SELECT kept.x FROM shop.kept", [("a",)]),
        ("SELECT shop.kept.x FROM shop.kept", [("a",)]),
        ("TABLE shop.kept", [("a",)]),
    ],
)
def test_names_that_reach_are_found(stored, text, rows):
    cat, _, _ = stored
    frame = cat.sql(text)
    assert frame.collect().rows() == rows
    assert frame.collect().rows() == rows
    assert sorted(pl.concat([frame, frame]).collect().rows()) == rows * 2


def test_a_long_chain_of_with_is_read_in_time(stored):
    cat, _, _ = stored
    chain = ", ".join(["a0 AS (SELECT 1 AS n)", *(f"a{at} AS (SELECT n FROM a{at - 1})" for at in range(1, 60))])
    assert cat.sql(f"WITH {chain} SELECT n FROM a59").collect().rows() == [(1,)]
