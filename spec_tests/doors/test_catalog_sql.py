"""`cat.sql` does what the methods do that its statements stand for, and its queries give what the same frames give; what is not understood changes nothing."""

from __future__ import annotations

import json
import pathlib
import sys
from datetime import date, datetime
from decimal import Decimal

import polars as pl
import pytest

import lakekit as lk
from lakekit.cli import main
from lakekit.errors import (
    ColumnNotFound,
    DatabaseNotFound,
    InvalidOption,
    MergeConflict,
    NotFound,
    SchemaMismatch,
    SqlError,
    TableAlreadyExists,
    TableNotFound,
    Unsupported,
    ViewNotFound,
)

ORDERS = """CREATE TABLE shop.orders (
  id BIGINT NOT NULL, day STRING COMMENT 'of the order; all of it', total DECIMAL(10, 2), x DOUBLE, d DATE, at TIMESTAMP(6),
  z TIMESTAMP(3) WITH LOCAL TIME ZONE, r ROW<`a` INT, `b` ROW<`c` STRING>>, PRIMARY KEY (id) NOT ENFORCED
) WITH ('bucket' = '1')"""
ROWS = """INSERT INTO shop.orders VALUES
  (1, 'mon', 1.5, 0.5, DATE '2024-03-31', TIMESTAMP '2024-03-31 10:00:00', NULL, NULL),
  (2, 'tue', 2.25, 1e10, DATE '2024-04-01', TIMESTAMP '2024-04-01 00:00:00', NULL, NULL),
  (3, 'it''s; {a}%', NULL, NULL, NULL, NULL, NULL, NULL)"""


@pytest.fixture
def cat(tmp_path):
    made = lk.connect(tmp_path / "lake")
    made.sql(f"CREATE DATABASE shop; {ORDERS}; {ROWS}; CALL sys.create_tag('shop.orders', 'first')")
    made.sql("INSERT INTO shop.orders (id, day, r) SELECT 4, 'wed', r FROM shop.orders WHERE id = 3")
    made.sql("CREATE TABLE shop.days AS SELECT * FROM (VALUES ('mon', 'Monday'), ('tue', 'Tuesday')) AS v(day, name)")
    return made


def rows(found):
    return sorted((found.collect() if isinstance(found, pl.LazyFrame) else found).rows(), key=repr)


QUERIES = {
    "SELECT id FROM shop.orders WHERE id > 2": [(3,), (4,)],
    "SELECT orders.id, shop.days.name FROM shop.orders JOIN shop.days ON shop.orders.day = days.day": [(1, "Monday"), (2, "Tuesday")],
    "WITH orders AS (SELECT 7 AS id) SELECT o.id FROM orders o UNION ALL SELECT max(id) FROM shop.orders": [(4,), (7,)],
    "SELECT o.id FROM shop.orders VERSION AS OF 1 o": [(1,), (2,), (3,)],
    "SELECT id FROM shop.orders FOR VERSION AS OF 'first'": [(1,), (2,), (3,)],
    "SELECT id FROM shop.orders TIMESTAMP AS OF '2100-01-01' WHERE day NOT LIKE '{x}'": [(1,), (2,), (3,), (4,)],
    "SELECT snapshot_id FROM shop.`orders$snapshots` -- all; of them": [(1,), (2,)],
    "SELECT id FROM shop.orders WHERE day = 'it''s; {a}%'": [(3,)],
    "SELECT id FROM shop.orders WHERE d = '2024-03-31' OR at >= TIMESTAMP '2024-04-01 00:00:00'": [(1,), (2,)],
    "SELECT TIMESTAMP '2024-04-01 00:00:00' AS t, DATE '2024-04-01' AS d": [(datetime.fromisoformat("2024-04-01"), date(2024, 4, 1))],
    "SELECT day, count(*) AS n, sum(total) AS s FROM shop.orders GROUP BY day HAVING sum(total) > 1 ORDER BY day": [
        ("mon", 1, Decimal("1.50")),
        ("tue", 1, Decimal("2.25")),
    ],
    "SELECT if(id > 2, 'new', 'old') AS age, id / 2 AS half FROM shop.orders WHERE id < 4 AND id <> 2": [("new", 1.5), ("old", 0.5)],
    "VALUES (1, 'a')": [(1, "a")],
    "SELECT table_name FROM sys.tables WHERE database_name = 'shop'": [("days",), ("orders",)],
    "SELECT id FROM shop.orders WHERE id IN (SELECT max(id) FROM shop.orders)": [(4,)],
}


@pytest.mark.parametrize("text", QUERIES)
def test_queries(cat, text):
    found = cat.sql(text)
    assert isinstance(found, pl.LazyFrame)
    assert rows(found) == sorted(QUERIES[text], key=repr)


HITS = {
    "id * 0.1 = 0.3": [3],
    "id * 0.1 + 0.2 = 0.3": [1],
    "f = 0.1": [1],
    "f > 0.1 AND f = 0.25 OR x = 0.5": [1, 2],
    "total * 1.1 = 2.475 OR round(total / 7, 6) = 0.214286": [1, 2],
    "id / 0 > 1 AND CASE WHEN id > 4 THEN id % (id - id) = 0 ELSE TRUE END": [1, 2, 3, 4],
    "x % 2 = 0.5 OR -7 % 3 = id": [1],
    "(id - 4) % 3 = -2 OR (0 - id) DIV 2 = -2 AND id < 5": [2, 4],
    "id / 2 = 1.5 OR 8 / nullif(id - 4, 0) = -8": [3],
    "CASE day WHEN 'mon' THEN 1 WHEN 'tue' THEN 2.5 END = 2.5": [2],
    "orders.r.b.c = 'x' OR r.a = 7": [4],
    "id IN (SELECT max(id) FROM shop.orders) OR id = (SELECT min(id) FROM shop.orders)": [1, 4],
    "id NOT IN (SELECT id FROM shop.orders WHERE id < 4)": [4],
    "day NOT IN (SELECT day FROM shop.nothing)": [1, 2, 3, 4],
    "d < current_date() - INTERVAL 3 DAYS AND d > DATE '2024-03-31'": [2],
}


@pytest.mark.parametrize("condition", HITS)
def test_a_condition_names_the_rows_that_spark_would_name(cat, condition):
    cat.sql("CREATE TABLE shop.nothing (day STRING); ALTER TABLE shop.orders ADD COLUMN f FLOAT")
    cat.sql("UPDATE shop.orders SET f = CAST(0.1 AS FLOAT) WHERE id = 1; UPDATE shop.orders SET f = 0.25 WHERE id = 2")
    r = {"a": 7, "b": {"c": "x"}}
    cat["shop.orders"].upsert([{**cat["shop.orders"].scan().filter(pl.col("id") == 4).collect().to_dicts()[0], "r": r}])
    before = cat["shop.orders"].scan().collect()["id"].to_list()
    cat.sql(f"DELETE FROM shop.orders WHERE {condition}")
    assert sorted(set(before) - set(cat["shop.orders"].scan().collect()["id"])) == HITS[condition]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("DELETE FROM shop.orders\nWHERE id = rand()", SqlError, r"line 2, column 12: rand\(\) is not computed here"),
        ("UPDATE shop.orders SET day = day COLLATE nocase", SqlError, r"line 1, column 30: collate\(\)"),
        ("UPDATE shop.orders SET day = 'a' LIMIT 1", SqlError, "LIMIT is not supported here"),
        ("DELETE FROM shop.orders WHERE day IN (SELECT id FROM shop.orders)", SchemaMismatch, "CAST one of them"),
        ("DELETE FROM shop.orders WHERE id IN (SELECT id, day FROM shop.orders)", SchemaMismatch, "2 columns"),
        ("SHOW ROLES", Unsupported, "TBLPROPERTIES"),
        ("DROP FUNCTION f", Unsupported, "FUNCTION"),
    ],
)
def test_what_is_computed_otherwise_is_refused(cat, text, error, words):
    with pytest.raises(error, match=words):
        cat.sql(text)
    assert cat["shop.orders"].scan().collect().height == 4


def test_new_values_of_fields(cat):
    """As the connector has it: "Update nested structure" of Paimon's documentation of Spark. A null becomes a row, as `AssignmentUtils` makes one."""

    def found():
        return dict(cat["shop.orders"].scan().select("id", "r").collect().rows())

    cat.sql("UPDATE shop.orders SET r.b.c = upper(day), R.A = 5 WHERE id < 3; UPDATE shop.orders o SET o.r.a = o.r.a + id WHERE id = 2")
    assert found() == {1: {"a": 5, "b": {"c": "MON"}}, 2: {"a": 7, "b": {"c": "TUE"}}, 3: None, 4: None}
    cat.sql("MERGE INTO shop.orders o USING shop.days d ON o.day = d.day AND o.id = 1 WHEN MATCHED THEN UPDATE SET o.r.b.c = d.name")
    assert found()[1] == {"a": 5, "b": {"c": "Monday"}}
    for text, error, words in (
        ("UPDATE shop.orders SET r.nope = 1", ColumnNotFound, r"r\.nope"),
        ("UPDATE shop.orders SET day.a = 1", ColumnNotFound, r"day\.a"),
        ("UPDATE shop.orders SET r.b = NULL, r.b.c = 'x'", InvalidOption, r"r\.b\.c gets two new values"),
    ):
        with pytest.raises(error, match=words):
            cat.sql(text)


def test_partitions_of_a_table_without_any(cat):
    with pytest.raises(InvalidOption, match=r"shop\.orders is not partitioned"):
        cat.sql("SHOW PARTITIONS shop.orders")


def test_what_a_catalog_says_of_itself(cat):
    cat.sql(
        "CREATE TABLE shop.t (k INT DEFAULT -5, at DATE DEFAULT DATE '2024-03-31') PARTITIONED BY (day STRING) COMMENT 'all' TBLPROPERTIES ('bucket' = '-1')"
    )
    cat.sql("INSERT INTO shop.t PARTITION (DAY = 'mon') VALUES (DEFAULT, NULL); INSERT INTO shop.t (K, day) VALUES (2, 'tue')")
    assert rows(cat.sql("TABLE shop.t")) == [(-5, date(2024, 3, 31), "mon"), (2, date(2024, 3, 31), "tue")]
    assert rows(cat.sql("SHOW TABLES IN shop LIKE 'O*|x'")) == [("shop", "orders", False)]
    assert rows(cat.sql("SHOW TBLPROPERTIES shop.t")) == [("bucket", "-1"), ("comment", "all")]
    assert rows(cat.sql("SHOW PARTITIONS shop.t PARTITION (day = 'tue')")) == [("day=tue",)]
    assert ("Comment", "all", "") in rows(cat.sql("DESCRIBE EXTENDED shop.t"))
    assert rows(cat.sql("DESCRIBE shop.orders day")) == [("col_name", "day"), ("comment", "of the order; all of it"), ("data_type", "STRING")]
    assert rows(cat.sql("DESCRIBE QUERY SELECT 'a' AS a")) == [("a", "STRING", None)]
    cat.sql(
        "ALTER TABLE shop.t ADD COLUMNS b INT, c STRING; ALTER TABLE shop.t ALTER b TYPE BIGINT, c COMMENT 'x'; ALTER TABLE shop.t DROP COLUMN IF EXISTS nope"
    )
    assert [str(field.type) for field in cat["shop.t"].schema.fields] == ["INT", "DATE", "STRING", "BIGINT", "STRING"]
    cat.sql("ANALYZE TABLE shop.t COMPUTE STATISTICS FOR COLUMNS k")
    assert "distinctCount" in cat.sql("SELECT colstat FROM shop.`t$statistics`").collect()["colstat"][0]
    cat.sql("CALL sys.compact('shop.orders', options => 'sink.parallelism=4')")


def test_fields_of_a_row_are_told_from_databases(cat):
    cat.sql("CREATE TABLE shop.nested (shop ROW<`nested` ROW<`x` INT>>)")
    cat["shop.nested"].append([{"shop": {"nested": {"x": 7}}}])
    assert rows(cat.sql("SELECT nested.shop.nested AS inner FROM shop.nested")) == [({"x": 7},)]


def test_a_query_reaches_planning(cat):
    """Of two files, the one that cannot hold the row is not there any more, and nothing asks for it."""
    cat.sql("CREATE TABLE shop.files (k INT, v STRING); INSERT INTO shop.files VALUES (1, 'a'); INSERT INTO shop.files VALUES (2, 'b')")
    t = cat["shop.files"]
    pathlib.Path(t.files()["file_path"][1]).unlink()
    assert rows(cat.sql("SELECT v FROM shop.files WHERE k = 1")) == [("a",)]
    assert rows(cat.sql("SELECT v FROM shop.files LIMIT 1")) == [("a",)]
    with pytest.raises(FileNotFoundError):
        cat.sql("SELECT v FROM shop.files").collect()


def test_a_frame_stays_a_frame_and_the_last_of_several_answers(cat):
    answer = cat.sql("USE shop; SELECT id FROM orders WHERE id = 1; SELECT count(*) AS n FROM orders;")
    assert isinstance(answer, pl.DataFrame)
    assert answer.to_dicts() == [{"n": 4}]
    assert cat.sql("INSERT INTO shop.days VALUES ('wed', 'Wednesday')").to_dicts() == [{"snapshot_id": 2, "row_count": 1}]
    assert cat.sql("DELETE FROM shop.days WHERE day = 'sat'").to_dicts() == [{"snapshot_id": None, "row_count": 0}]
    assert cat.sql("USE shop").shape == (0, 0)


def test_rows_change(cat):
    t = cat["shop.orders"]
    cat.sql("UPDATE shop.orders o SET x = o.x + 1, day = 'sun' WHERE o.id = 1; DELETE FROM shop.orders WHERE id IN (2)")
    assert rows(t.scan().select("id", "day", "x")) == [(1, "sun", 1.5), (3, "it's; {a}%", None), (4, "wed", None)]
    cat.sql(
        "MERGE INTO shop.orders t USING (SELECT id, 'm' AS day FROM shop.orders WHERE id < 4 UNION ALL SELECT 9, 'n') s ON t.id = s.id \
WHEN MATCHED AND t.id = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET day = s.day WHEN NOT MATCHED THEN INSERT (id, day) VALUES (s.id, s.day)"
    )
    assert rows(t.scan().select("id", "day")) == [(1, "m"), (4, "wed"), (9, "n")]
    cat.sql("INSERT OVERWRITE shop.orders BY NAME SELECT 5 AS id, 2 AS day, 7 AS x")
    assert rows(t.scan().select("id", "day", "x")) == [(5, "2", 7.0)]
    cat.sql("TRUNCATE TABLE shop.orders")
    assert rows(t.scan()) == []


def test_partitions_by_their_values(cat):
    cat.sql("CREATE TABLE shop.parted (k INT, n INT, d DATE) PARTITIONED BY (n, d)")
    cat.sql("INSERT INTO shop.parted PARTITION (n = 7, d = '2024-03-31') SELECT 1")
    cat.sql("INSERT INTO shop.parted PARTITION (n = 8) SELECT 2, DATE '2024-04-01'")
    assert rows(cat["shop.parted"].scan()) == [(1, 7, date(2024, 3, 31)), (2, 8, date(2024, 4, 1))]
    cat.sql("INSERT OVERWRITE shop.parted PARTITION (n = 7, d = '2024-03-31') VALUES (3)")
    assert rows(cat["shop.parted"].scan()) == [(2, 8, date(2024, 4, 1)), (3, 7, date(2024, 3, 31))]
    assert rows(cat.sql("SHOW PARTITIONS shop.parted")) == [("n=7/d=2024-03-31",), ("n=8/d=2024-04-01",)]
    cat.sql("ALTER TABLE shop.parted DROP PARTITION (n = '8')")
    assert rows(cat["shop.parted"].scan()) == [(3, 7, date(2024, 3, 31))]


def test_what_shows_a_table_makes_it_again(cat):
    said = cat.sql("SHOW CREATE TABLE shop.orders").item()
    cat.sql(said.replace("shop.orders", "shop.again"))
    again, first = cat["shop.again"], cat["shop.orders"]
    assert [(f.name, f.type, f.comment) for f in again.schema.fields] == [(f.name, f.type, f.comment) for f in first.schema.fields]
    assert again.primary_keys == first.primary_keys
    assert cat.sql("DESCRIBE shop.again").row(1) == ("day", "STRING", "of the order; all of it")
    cat.sql("ALTER TABLE shop.again ADD COLUMN note STRING AFTER id; ALTER TABLE shop.again SET TBLPROPERTIES ('snapshot.num-retained.max' = '20')")
    assert [field.name for field in cat["shop.again"].schema.fields][:2] == ["id", "note"]
    cat.sql("DROP TABLE shop.again")
    assert rows(cat.sql("SHOW TABLES IN shop")) == [("shop", "days", False), ("shop", "orders", False)]


def test_procedures_do_what_methods_do(cat):
    assert cat.sql("CALL sys.compact(table => 'shop.orders')").to_dicts() == [{"result": True}]
    assert cat["shop.orders"].snapshots()["kind"].to_list()[-1] == "COMPACT"
    assert cat.sql("CALL sys.rollback(table => 'shop.orders', tag => 'first')").to_dicts() == [{"previous_snapshot_id": 3, "current_snapshot_id": 1}]
    assert cat["shop.orders"].scan().select(pl.len()).collect().item() == 3


WRONG = [
    ("", InvalidOption, "a statement"),
    (" ; ; ", InvalidOption, "a statement"),
    ("SELEC 1", SqlError, "SELEC"),
    ("SELECT * FROM orders", TableNotFound, "USE names another"),
    ("SELECT * FROM shop.nope", TableNotFound, "days, orders"),
    ("SELECT * FROM a.b.c", InvalidOption, "no catalog"),
    ("SELECT nope FROM shop.orders", ColumnNotFound, "nope"),
    ("SELECT frobnicate(id) FROM shop.orders", InvalidOption, "frobnicate"),
    ("SELECT FROM WHERE", InvalidOption, "query"),
    ("SELECT 'open", InvalidOption, "does not end"),
    ("SELECT id FROM shop.orders TIMESTAMP AS OF 'soon'", InvalidOption, "no time"),
    ("DELETE FROM shop.orders WHERE nope = 1", ColumnNotFound, "nope"),
    ("DELETE FROM shop.orders WHERE day > 1", SchemaMismatch, "day"),
    ("INSERT INTO shop.orders VALUES (1)", SchemaMismatch, "takes 8 columns"),
    ("INSERT INTO shop.orders (id, day) VALUES ('x', 'y')", SchemaMismatch, "BIGINT"),
    ("INSERT INTO shop.`orders$files` VALUES (1)", InvalidOption, "names that table"),
    ("CREATE TABLE shop.orders (id INT)", TableAlreadyExists, "orders"),
    ("CREATE TABLE shop.bad (id NUMBERISH)", InvalidOption, "NUMBERISH"),
    ("CREATE VIEW shop.v AS SELECT 1", Unsupported, "CREATE TEMPORARY VIEW"),
    ("DROP VIEW shop.v", ViewNotFound, "none"),
    ("CREATE TEMPORARY VIEW shop.orders AS SELECT 1", TableAlreadyExists, "is a table"),
    ("CREATE TEMPORARY VIEW shop.v AS DELETE FROM shop.orders", InvalidOption, "is a query"),
    ("CREATE TEMPORARY VIEW shop.v (a, b) AS SELECT 1", InvalidOption, "names of the columns"),
    ("CREATE TEMPORARY TABLE shop.v (a INT)", InvalidOption, "VIEW"),
    ("SELECT /*+ BROADCAST(orders) */ id FROM shop.orders", InvalidOption, "hints"),
    ("SELECT id FROM shop.orders /*+ OPTIONS('scan.snapshot-id' = 'x') */", InvalidOption, "scan.snapshot-id"),
    ("CREATE CATALOG c WITH ('type' = 'iceberg')", InvalidOption, "iceberg"),
    ("USE CATALOG nope; SELECT 1", InvalidOption, "no catalog"),
    ("CREATE MATERIALIZED TABLE shop.m AS SELECT 1 AS x", InvalidOption, "FRESHNESS"),
    ("CREATE MATERIALIZED TABLE shop.m FRESHNESS = INTERVAL '0' SECOND AS SELECT 1 AS x", InvalidOption, "one second or more"),
    ("CREATE MATERIALIZED TABLE shop.m FRESHNESS = INTERVAL '1' HOUR REFRESH_MODE = CONTINUOUS AS SELECT 1 AS x", Unsupported, "full"),
    ("CREATE MATERIALIZED TABLE shop.m FRESHNESS = INTERVAL '1' HOUR AS SELECT nope FROM shop.orders", ColumnNotFound, "nope"),
    ("ALTER MATERIALIZED TABLE shop.orders REFRESH", NotFound, "no materialized table"),
    ("CREATE TABLE shop.f (a INT) WITH ('type' = 'format-table')", InvalidOption, "file.format"),
    ("CREATE TABLE shop.o (a INT) WITH ('type' = 'object-table', 'object-location' = 'x')", InvalidOption, "columns of its own"),
    ("CREATE TABLE shop.k (a INT) WITH ('connector' = 'kafka')", Unsupported, "kafka"),
    ("CALL sys.refresh_object_table('shop.orders')", InvalidOption, "no object table"),
    ("USE nope; SELECT 1", DatabaseNotFound, "shop"),
    ("CALL sys.nothing()", Unsupported, "compact"),
    ("DELETE FROM shop.orders; SELECT 'open", InvalidOption, "does not end"),
    (
        "MERGE INTO shop.days t USING (SELECT 'mon' AS day, 'a' AS name UNION ALL SELECT 'mon', 'b') s ON t.day = s.day WHEN MATCHED THEN UPDATE SET *",
        MergeConflict,
        "row",
    ),
]


@pytest.mark.parametrize(("text", "error", "words"), WRONG, ids=[text for text, *_ in WRONG])
def test_what_is_wrong_is_told_and_changes_nothing(cat, text, error, words):
    def state():
        return [(name, cat[f"shop.{name}"].snapshots()["snapshot_id"].max(), cat[f"shop.{name}"].schema.id) for name in cat.tables("shop")["table"]]

    before = state()
    with pytest.raises(error, match=words):
        cat.sql(text)
    assert state() == before


def test_what_is_no_text(cat):
    with pytest.raises(TypeError, match="a text"):
        cat.sql(None)


@pytest.mark.parametrize("text", ["UPDATE shop.orders SET who = '\ud800'", "SELECT '\ud800'", "INSERT INTO shop.orders VALUES ('\ud800')"])
def test_half_a_character(cat, text):
    """An UPDATE wrote other characters in its place, and the others ended in UnicodeEncodeError."""
    with pytest.raises(InvalidOption, match="is half of a character"):
        cat.sql(text)


def test_in_the_shell(cat, tmp_path, capsys, monkeypatch):
    lake = str(tmp_path / "lake")
    assert main.main(["sql", lake, "SELECT id, d FROM shop.orders WHERE id < 3 ORDER BY id", "--format", "json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"id": 1, "d": "2024-03-31"}, {"id": 2, "d": "2024-04-01"}]
    monkeypatch.setattr(sys, "stdin", __import__("io").StringIO("USE shop; DELETE FROM orders WHERE id > 1; SELECT count(*) AS n FROM orders"))
    assert main.main(["sql", lake, "--format", "tsv"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["n", "1"]
    assert main.main(["sql", lake, "SELECT * FROM shop.nope"]) != 0
    assert "nope" in capsys.readouterr().err


def test_the_shell_runs_texts_and_files_in_one_session_and_shows_each_answer(cat, tmp_path, capsys):
    lake, file = str(tmp_path / "lake"), tmp_path / "more.sql"
    file.write_text("SELECT 'it''s; -- no end' AS a;\nSHOW TABLES; -- the end\n")
    assert main.main(["sql", lake, "-e", "USE shop", "-e", "SELECT 1 AS one; SELECT count(*) AS n FROM orders", "-f", str(file), "--format", "csv"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:7] == ["one", "1", "n", "4", "a", "it's; -- no end", "namespace,tableName,isTemporary"]
    assert main.main(["sql", lake, "-e", "USE shop;\nDROP TABEL orders"]) == 2
    assert capsys.readouterr().err.splitlines()[1:3] == ["    DROP TABEL orders", "         ^"]
    assert main.main(["sql", lake, "-f", str(tmp_path / "none.sql")]) == 2
    assert "none.sql" in capsys.readouterr().err
    assert cat.exists("shop.orders")
