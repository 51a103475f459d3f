"""Views and materialized tables, and the statements that the documents of Paimon show, each as it is written there."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import Corrupt, InvalidOption, TableAlreadyExists, Unsupported, ViewAlreadyExists, ViewNotFound


@pytest.fixture
def cat(tmp_path):
    made = lk.connect(tmp_path / "lake")
    made.sql("CREATE DATABASE db; CREATE TABLE db.t (a INT, b INT, s STRING, PRIMARY KEY (a) NOT ENFORCED) WITH ('bucket' = '1')")
    made.sql("INSERT INTO db.t VALUES (1, 11, '111'); INSERT INTO db.t VALUES (2, CAST(NULL AS INT), 'q')")
    return made


@pytest.fixture
def named(tmp_path):
    """A catalog whose names are in a database, which keeps views."""
    made = lk.connect(tmp_path / "named", metastore="jdbc", uri=f"sqlite:///{tmp_path}/names.db")
    made.create_database("db")
    made.create_table("db.t", {"a": "INT", "s": "STRING"}).append([{"a": 1, "s": "x"}, {"a": 2, "s": "y"}])
    return made


def rows(found):
    return sorted((found.collect() if isinstance(found, pl.LazyFrame) else found).rows(), key=repr)


# ---- statements as the documents have them -------------------------------------------------------------------------------------------------------


def test_catalogs_by_statement(tmp_path):
    here = lk.connect(tmp_path / "here")
    lake, names = tmp_path / "lake", tmp_path / "names.db"
    found = here.sql(f"""CREATE CATALOG my_catalog WITH ('type' = 'paimon', 'warehouse' = '{lake}');
        USE CATALOG my_catalog; CREATE DATABASE db; CREATE TABLE db.t (a INT PRIMARY KEY NOT ENFORCED, b STRING) WITH ('bucket' = '8');
        INSERT INTO db.t VALUES (1, 'x'); USE sys; SHOW TABLES""")
    assert found["tableName"].to_list() == ["all_table_options", "catalog_options", "partitions", "tables"]
    assert lk.open(f"{lake}/db.db/t").primary_keys == ("a",)
    assert rows(here.sql(f"CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = '{lake}'); SELECT a, b FROM c.db.t")) == [(1, "x")]
    assert rows(here.sql(f"CREATE CATALOG c WITH ('warehouse' = '{lake}'); SELECT s.schema_id FROM c.db.`t$snapshots` s")) == [(0,)]
    jdbc = f"""'warehouse' = '{lake}', 'metastore' = 'jdbc', 'uri' = 'jdbc:sqlite:{names}', 'jdbc.user' = 'u', 'jdbc.password' = 'p', 'catalog-key' = 'k'"""
    assert rows(here.sql(f"CREATE CATALOG j WITH ({jdbc}); USE CATALOG j; CREATE DATABASE other; SHOW DATABASES")) == [("default",), ("other",)]
    assert not (tmp_path / "here").exists()


def test_hints_are_options_of_the_table_before_them(cat):
    assert rows(cat.sql("SELECT a FROM db.t /*+ OPTIONS('scan.snapshot-id' = '1') */")) == [(1,)]
    assert rows(cat.sql("USE db; SELECT x.a, y.a AS b FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */ AS x CROSS JOIN t y")) == [(1, 1), (1, 2)]
    assert rows(cat.sql("SELECT 1 AS one FROM db.t /* no hint */ WHERE s = '/*+ none */' OR a = 1")) == [(1,)]
    assert len(rows(cat.sql("SELECT file_path FROM db.t$files /*+ OPTIONS('scan.snapshot-id' = '1') */"))) == 1
    cat["db.t"].create_tag("old", at=1)
    assert rows(cat.sql("SELECT a FROM db.t /*+ OPTIONS('scan.tag-name' = 'old') */")) == [(1,)]


def test_system_tables_need_no_quotes(cat):
    joined = "SELECT s.snapshot_id, t.schema_id FROM t$snapshots s JOIN t$schemas t ON s.schema_id = t.schema_id WHERE s.snapshot_id = 2"
    assert rows(cat.sql(f"USE db; {joined}")) == [(2, 0)]


def test_folders_and_listings_as_tables(cat, tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(b"xx")
    cat.sql("CREATE TABLE db.my_csv_table (a INT, b STRING) WITH ('type' = 'format-table', 'file.format' = 'csv', 'field-delimiter' = ';')")
    cat.sql("INSERT INTO db.my_csv_table VALUES (1, 'x'), (2, 'y')")
    assert rows(cat.sql("SELECT * FROM db.my_csv_table WHERE a > 1")) == [(2, "y")]
    assert cat.sql("DESCRIBE db.my_csv_table")["col_name"].to_list() == ["a", "b"]
    cat.sql(f"CREATE TABLE db.`o` WITH ('type' = 'object-table', 'object-location' = '{tmp_path}/pictures'); CALL sys.refresh_object_table('db.o')")
    assert rows(cat.sql("SELECT name, length FROM db.o")) == [("a.png", 2)]
    cat.sql("CREATE TABLE IF NOT EXISTS db.my_csv_table (z INT) WITH ('type' = 'format-table', 'file.format' = 'json')")
    assert cat.sql("DESCRIBE db.my_csv_table")["col_name"].to_list() == ["a", "b"]


def test_a_table_at_a_path(cat, tmp_path):
    found = cat.sql(f"""USE db; CREATE TABLE ext (a INT, b STRING, timestamp TIMESTAMP(3)) WITH ('connector' = 'paimon', 'path' = '{tmp_path}/ext',
        'file.format' = 'parquet', 'file-index.bitmap.columns' = 'a, b');
        INSERT INTO ext VALUES (1, 'x', TIMESTAMP '2024-01-01 00:00:00'); SELECT * FROM ext""")
    assert rows(found) == [(1, "x", datetime.fromisoformat("2024-01-01"))]
    assert lk.open(tmp_path / "ext").options["file-index.bitmap.columns"] == "a,b"
    assert not cat.exists("db.ext")


def test_options_are_set_and_reset(cat):
    cat.sql("USE db; ALTER TABLE t SET ('full-compaction.delta-commits' = '5'); ALTER TABLE t SET ('file-index.bsi.columns' = 'a, b')")
    assert cat["db.t"].options["full-compaction.delta-commits"] == "5"
    cat.sql("ALTER TABLE db.t RESET ('full-compaction.delta-commits')")
    assert "full-compaction.delta-commits" not in cat["db.t"].options
    assert cat.sql("USE db; CALL sys.rewrite_file_index('t')").item(0, "written_partitions") == 1


# ---- views ----------------------------------------------------------------------------------------------------------------------------------------


def test_a_temporary_view_lives_with_its_catalog(cat):
    cat.sql("CREATE TEMPORARY VIEW db.v (x, y) COMMENT 'it''s' AS SELECT a, s FROM t WHERE a > 1")
    assert rows(cat["db.v"].scan()) == rows(cat.sql("SELECT x, y FROM db.v")) == [(2, "q")]
    assert rows(cat.sql("USE db; SELECT v.x FROM v JOIN t ON v.x = t.a")) == [(2,)]
    assert rows(cat.sql("USE db; SHOW VIEWS")) == [("db", "v", True)]
    assert cat.views().to_dicts() == [{"database": "db", "view": "v", "temporary": True, "query": "SELECT a, s FROM t WHERE a > 1", "comment": "it's"}]
    said = cat.sql("SHOW CREATE VIEW db.v").item()
    with pytest.raises(ViewAlreadyExists, match="drop_view"):
        cat.create_view("db.v", "SELECT 1", temporary=True)
    cat.sql("CREATE TEMPORARY VIEW IF NOT EXISTS db.v AS SELECT 1; DROP VIEW db.v; DROP VIEW IF EXISTS db.v")
    cat.sql(said)
    assert cat["db.v"].comment == "it's"
    with pytest.raises(InvalidOption, match="names that table"):
        cat.sql("DELETE FROM db.v")
    assert lk.connect(cat.warehouse).views("db").height == 0
    with pytest.raises(Unsupported, match="temporary=True"):
        cat.create_view("db.w", "SELECT 1")


def test_a_view_whose_query_gives_other_columns_says_so(cat):
    view = cat.create_view("db.v", "SELECT * FROM db.t", temporary=True)
    cat["db.t"].alter(lk.add_column("more", "INT"))
    with pytest.raises(InvalidOption, match="make it again"):
        view.scan()


def test_a_database_of_names_keeps_views(named, tmp_path):
    made = named.create_view("db.v", "SELECT s, a FROM t", columns=["text", "n"], dialects={"spark": "SELECT s, a FROM db.t"}, comment="of t")
    again = lk.connect(named.warehouse, metastore="jdbc", uri=f"sqlite:///{tmp_path}/names.db")
    assert rows(again["db.v"].scan()) == [("x", 1), ("y", 2)]
    assert again["db.v"].fields == made.fields
    assert again["db.v"].dialects == {"spark": "SELECT s, a FROM db.t"}
    with sqlite3.connect(tmp_path / "names.db") as database:
        [(name, text)] = database.execute("SELECT view_name, view_schema FROM paimon_views").fetchall()
    kept = json.loads(text)
    assert (name, kept["query"], kept["comment"]) == ("v", "SELECT s, a FROM t", "of t")
    assert kept["fields"] == [{"id": 0, "name": "text", "type": "STRING"}, {"id": 1, "name": "n", "type": "INT"}]
    for make in (lambda: again.create_table("db.v", {"a": "INT"}), lambda: again.create_view("db.t", "SELECT 1")):
        with pytest.raises(TableAlreadyExists):
            make()
    again.drop_view("db.v")
    with pytest.raises(ViewNotFound, match="none"):
        again.drop_view("db.v")
    again.drop_view("db.v", if_exists=True)
    again.create_view("db.v", "SELECT 1 AS one")
    again.drop_database("db", cascade=True)
    with sqlite3.connect(tmp_path / "names.db") as database:
        assert database.execute("SELECT count(*) FROM paimon_views").fetchone() == (0,)


BROKEN = ["", "[]", "{}", '{"fields": 3, "query": "q"}', '{"fields": [], "query": 7}', '{"fields": [], "query": "q", "dialects": [1]}']


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_kept_of_a_view_may_be_broken(named, tmp_path, text):
    named.create_view("db.v", "SELECT 1 AS one")
    with sqlite3.connect(tmp_path / "names.db") as database:
        database.execute("UPDATE paimon_views SET view_schema = ?", [text])
    with pytest.raises(Corrupt, match=r"view|JSON|field|type"):
        named["db.v"].scan()


# ---- materialized tables --------------------------------------------------------------------------------------------------------------------------

DAILY = """CREATE MATERIALIZED TABLE db.m PARTITIONED BY (ds) FRESHNESS = INTERVAL '30' SECOND AS
SELECT ds, user_id, SUM(pay) AS pay, SUM(1) AS pv FROM (SELECT s AS ds, a AS user_id, b AS pay FROM db.t) AS tmp GROUP BY ds, user_id"""


def test_a_materialized_table_is_filled_anew(cat):
    cat.sql(DAILY)
    m = cat["db.m"]
    assert rows(m.scan()) == [("111", 1, 11, 1), ("q", 2, 0, 1)] or rows(m.scan()) == [("111", 1, 11, 1), ("q", 2, None, 1)]
    assert (m.options["type"], m.options["materialized-table.interval-freshness"], m.freshness_ms) == ("materialized-table", "30", 30_000)
    cat.sql("DELETE FROM db.t WHERE a = 2; INSERT INTO db.t VALUES (7, 7, '777')")
    assert m.refresh().snapshot_ids == ()
    assert m.scan().collect().height == 2
    assert m.refresh(force=True).row_count == 2
    assert rows(m.scan()) == [("111", 1, 11, 1), ("777", 7, 7, 1)]
    assert m.with_options({"materialized-table.interval-freshness": "0"}).refresh().snapshot_ids == (3,)


def test_a_materialized_table_rests(cat):
    m = cat.create_materialized_table("db.n", "SELECT a FROM db.t", freshness="2 h", comment="ids")
    assert (m.freshness_ms, m.comment, m.options["materialized-table.interval-freshness.time-unit"]) == (7_200_000, "ids", "HOUR")
    cat.sql("ALTER MATERIALIZED TABLE db.n SUSPEND")
    with pytest.raises(InvalidOption, match=r"t\.resume"):
        cat["db.n"].refresh()
    assert cat.sql("ALTER MATERIALIZED TABLE db.n RESUME; ALTER MATERIALIZED TABLE db.n REFRESH").item(0, "row_count") == 2
    cat.sql("ALTER TABLE db.t RENAME COLUMN a TO z")
    with pytest.raises(lk.ColumnNotFound):
        cat["db.n"].refresh(force=True)
    assert cat["db.n"].scan().collect().height == 2


def test_where_the_rows_cannot_be_written_there_is_no_table(cat):
    with pytest.raises(InvalidOption):
        cat.create_materialized_table("db.bad", "SELECT a FROM db.t", freshness="1 h", options={"bucket": "2"})
    assert not cat.exists("db.bad")


@pytest.mark.parametrize("given", [{"metastore": "nope"}, {"options": {"metastore": "nope"}}])
def test_an_unknown_metastore_is_named_as_it_was_given(tmp_path, given):
    with pytest.raises(lk.InvalidOption, match="no metastore is called 'nope'; lakekit knows filesystem, hive, jdbc") as refusal:
        lk.connect(tmp_path, **given)
    assert refusal.value.value == "nope"
