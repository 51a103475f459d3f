"""Statements as the owner's documents write them: hints obeyed or refused, names of three parts, tables by path, the database `default`."""

from __future__ import annotations

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import InvalidOption, SchemaMismatch, SqlError, TableAlreadyExists


@pytest.fixture
def cat(tmp_path):
    made = lk.connect(tmp_path / "lake")
    made.sql("CREATE DATABASE d; CREATE TABLE d.p (a INT, dt STRING) PARTITIONED BY (dt); INSERT INTO d.p VALUES (1, 'x'), (2, 'y')")
    made.sql("CREATE TABLE d.k (k INT PRIMARY KEY NOT ENFORCED, v INT) WITH ('bucket'='1', 'num-sorted-run.compaction-trigger'='2')")
    return made


def rows(found):
    return sorted((found.collect() if isinstance(found, pl.LazyFrame) else found).rows(), key=repr)


# ---- hints (G2) ----------------------------------------------------------------------------------


def test_insert_overwrite_obeys_its_hint(cat):
    cat.sql("INSERT OVERWRITE d.p /*+ OPTIONS('dynamic-partition-overwrite'='false') */ VALUES (9, 'x')")
    assert rows(cat.sql("SELECT * FROM d.p")) == [(9, "x")]


def test_insert_obeys_its_hint(cat):
    for k in range(6):
        cat.sql(f"INSERT INTO d.k /*+ OPTIONS('write-only'='true') */ VALUES ({k}, 1)")
    assert cat["d.k"].files()["level"].to_list() == [0] * 6


HINTED = {
    "DELETE": "DELETE FROM d.k /*+ OPTIONS('write-only'='true') */ WHERE k = 1",
    "DELETE with an alias": "DELETE FROM d.k /*+ OPTIONS('write-only'='true') */ AS t WHERE t.k = 1",
    "UPDATE": "UPDATE d.k /*+ OPTIONS('write-only'='true') */ SET v = 2 WHERE k = 1",
    "MERGE": "MERGE INTO d.k /*+ OPTIONS('write-only'='true') */ AS t USING d.k AS s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 3",
}


@pytest.mark.parametrize("text", HINTED.values(), ids=HINTED)
def test_what_changes_rows_obeys_its_hint(cat, text):
    for k in (1, 2, 3):
        cat.sql(f"INSERT INTO d.k /*+ OPTIONS('write-only'='true') */ VALUES ({k}, 1)")
    cat.sql(text)
    assert cat["d.k"].files()["level"].to_list() == [0] * 4


UNKNOWN = [
    "INSERT INTO d.p /*+ OPTIONS('no.such'='1') */ VALUES (3, 'z')",
    "INSERT OVERWRITE d.p\n/*+ OPTIONS('no.such'='1') */ VALUES (3, 'z')",
    "DELETE FROM d.k /*+ OPTIONS('no.such'='1') */",
    "UPDATE d.k /*+ OPTIONS('no.such'='1') */ SET v = 2",
    "MERGE INTO d.k /*+ OPTIONS('no.such'='1') */ t USING d.k s ON t.k = s.k WHEN MATCHED THEN DELETE",
]


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_unknown_option_of_a_hint_is_refused_as_select_does(cat, text):
    before = rows(cat.sql("SELECT * FROM d.p"))
    with pytest.raises(InvalidOption, match=r"no\.such"):
        cat.sql("SELECT * FROM d.p /*+ OPTIONS('no.such'='1') */").collect()
    with pytest.raises(InvalidOption, match=r"no\.such"):
        cat.sql(text)
    assert rows(cat.sql("SELECT * FROM d.p")) == before


MISPLACED = [
    "INSERT /*+ OPTIONS('write-only'='true') */ INTO d.p VALUES (3, 'z')",
    "INSERT INTO d.p (a, dt) /*+ OPTIONS('write-only'='true') */ VALUES (3, 'z')",
    "INSERT INTO d.p VALUES (3, 'z') /*+ OPTIONS('write-only'='true') */",
    "DELETE FROM d.p WHERE a = 1 /*+ OPTIONS('write-only'='true') */",
    "DELETE FROM d.p WHERE a IN (SELECT k FROM d.k /*+ OPTIONS('scan.snapshot-id'='1') */)",
    "UPDATE d.k SET v = 1 /*+ OPTIONS('write-only'='true') */ WHERE k = 1",
    "MERGE INTO d.k t USING d.k s ON t.k = s.k /*+ OPTIONS('write-only'='true') */ WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE d.p /*+ OPTIONS('write-only'='true') */",
    "DROP TABLE d.p /*+ OPTIONS('write-only'='true') */",
    "CALL sys.compact('d.k') /*+ OPTIONS('write-only'='true') */",
    "CREATE DATABASE e /*+ OPTIONS('write-only'='true') */",
    "SHOW TABLES /*+ OPTIONS('write-only'='true') */",
    "/*+ OPTIONS('write-only'='true') */ DROP TABLE d.p",
    "USE /*+ OPTIONS('a'='b') */ d",
    "CREATE TABLE d.z /*+ OPTIONS('bucket'='1') */ (a INT)",
    "CREATE TABLE d.z /*+ OPTIONS('bucket'='1') */ AS SELECT 1 AS a",
    "ALTER TABLE d.p /*+ OPTIONS('bucket'='1') */ SET ('a'='b')",
    "INSERT INTO d.p /*+ REPARTITION(3) */ VALUES (3, 'z')",
]


@pytest.mark.parametrize("text", MISPLACED)
def test_a_hint_at_another_place_is_refused_before_anything_is_done(cat, text):
    before = cat.tables().rows(), rows(cat.sql("SELECT * FROM d.p"))
    with pytest.raises(SqlError, match=r"OPTIONS") as told:
        cat.sql(text)
    assert "^" in str(told.value)
    assert (cat.tables().rows(), rows(cat.sql("SELECT * FROM d.p"))) == before


def test_a_hint_in_the_query_of_a_statement_is_that_query_s(cat):
    cat.sql("INSERT INTO d.p VALUES (3, 'z')")
    cat.sql("INSERT INTO d.k SELECT a, a + 1 AS v FROM d.p /*+ OPTIONS('scan.snapshot-id'='1') */")
    assert rows(cat.sql("SELECT k FROM d.k")) == [(1,), (2,)]


# ---- tables by path (G3) -------------------------------------------------------------------------


def test_a_table_of_a_path_is_found_by_its_name_from_call_to_call(cat, tmp_path):
    made = f"CREATE TABLE d.sales (id INT PRIMARY KEY NOT ENFORCED, price BIGINT) WITH ('connector'='paimon', 'path'='{tmp_path}/sales')"
    cat.sql(made)
    cat.sql("ALTER TABLE d.sales SET ('file-index.bsi.columns'='price')")
    cat.sql("INSERT INTO d.sales VALUES (1, 10)")
    cat.sql("CALL sys.rewrite_file_index('d.sales')")
    assert rows(cat.sql("SELECT * FROM d.sales")) == [(1, 10)]
    assert rows(cat.sql("SHOW TABLES IN d"))[-1] == ("d", "sales", True)
    with pytest.raises(TableAlreadyExists, match="sales"):
        cat.sql(f"CREATE TABLE d.sales (z DOUBLE) WITH ('connector'='paimon', 'path'='{tmp_path}/sales')")
    other = cat.session()
    with pytest.raises(SchemaMismatch, match="price BIGINT"):
        other.sql(f"CREATE TABLE d.sales (z DOUBLE) WITH ('connector'='paimon', 'path'='{tmp_path}/sales')")
    other.sql(made)
    assert rows(other.sql("SELECT * FROM d.sales")) == [(1, 10)]
    cat.sql("DROP TABLE d.sales")
    assert lk.open(tmp_path / "sales").scan().collect().rows() == [(1, 10)]


# ---- default and three parts (G5, G10) -----------------------------------------------------------


def test_the_first_example_runs_statement_by_statement(tmp_path):
    cat = lk.connect(tmp_path / "unused")
    cat.sql(f"CREATE CATALOG my_catalog WITH ('type'='paimon', 'warehouse'='{tmp_path}/paimon')")
    cat.sql("USE CATALOG my_catalog")
    cat.sql("CREATE TABLE my_table (k INT PRIMARY KEY NOT ENFORCED, f0 INT, f1 STRING)")
    cat.sql("INSERT INTO my_table VALUES (1, 11, '111')")
    assert rows(cat.sql("SELECT * FROM my_table")) == [(1, 11, "111")]
    assert (tmp_path / "paimon" / "default.db" / "my_table").is_dir()
    assert not (tmp_path / "unused").exists()


def test_a_read_writes_no_database(tmp_path):
    cat = lk.connect(tmp_path / "lake")
    cat.create_database("d")
    cat.sql("USE default")
    assert rows(cat.sql("SHOW DATABASES")) == [("d",), ("default",)]
    assert rows(cat.sql("SHOW TABLES")) == rows(cat.sql("SHOW VIEWS")) == []
    with pytest.raises(lk.TableNotFound, match="USE names another"):
        cat.sql("SELECT * FROM orders").collect()
    assert [path.name for path in (tmp_path / "lake").iterdir()] == ["d.db"]


def test_every_statement_takes_names_of_three_parts(cat, tmp_path):
    cat.sql(f"CREATE CATALOG c WITH ('type'='paimon', 'warehouse'='{tmp_path}/other')")
    cat.sql("CREATE DATABASE c.d")
    cat.sql("CREATE TABLE c.d.t (a INT)")
    cat.sql("INSERT INTO c.d.t VALUES (1)")
    cat.sql("INSERT INTO c.d.t SELECT a FROM d.p WHERE dt = 'y'")
    assert rows(cat.sql("DESCRIBE c.d.t")) == [("a", "INT", None)]
    assert rows(cat.sql("SHOW TABLES IN c.d")) == [("d", "t", False)]
    cat.sql("CREATE TEMPORARY VIEW c.d.v AS SELECT a FROM d.t")
    assert rows(cat.sql("SELECT * FROM c.d.v")) == [(1,), (2,)]
    cat.sql("DELETE FROM c.d.t WHERE a = 2; UPDATE c.d.t SET a = 5")
    cat.sql("CALL sys.compact('c.d.t')")
    cat.sql("DROP VIEW IF EXISTS c.d.v")
    cat.sql("CREATE TABLE c.d.u AS SELECT * FROM c.d.t")
    cat.sql("TRUNCATE TABLE c.d.t; ALTER TABLE c.d.t ADD COLUMN b INT; ALTER TABLE c.d.t RENAME TO d.s; DROP TABLE c.d.s")
    cat.sql("USE c.d")
    assert rows(cat.sql("SHOW TABLES")) == [("d", "u", False)]
    assert rows(cat.sql("SELECT a FROM u")) == [(5,)]
    cat.sql("USE CATALOG default_catalog")
    assert "k" in cat.tables("d")["table"].to_list()
    with pytest.raises(InvalidOption, match="no catalog 'e'"):
        cat.sql("DROP TABLE e.d.t")


def test_names_of_four_parts_are_refused(cat):
    for text in (
        "SELECT * FROM a.b.c.d",
        "PIVOT d.p.p.p ON dt USING sum(a)",
        "INSERT INTO a.b.c.d VALUES (1)",
        "DROP TABLE a.b.c.d",
        "SELECT * FROM a.b.c.range",
    ):
        with pytest.raises(InvalidOption):
            cat.sql(text)
