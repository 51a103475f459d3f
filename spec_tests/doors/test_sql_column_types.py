"""CREATE and ALTER TABLE take the words of DuckDB, Spark and Flink for types and constraints, or name the nearest."""

from __future__ import annotations

import pytest

import lakekit as lk
from lakekit.errors import SqlError, Unsupported


@pytest.fixture
def cat(tmp_path):
    cat = lk.connect(tmp_path / "wh")
    cat.sql("CREATE DATABASE d; USE d; CREATE TABLE t (id INT, s STRING)")
    return cat


TYPES = {
    "TEXT": "STRING",
    "BOOL": "BOOLEAN",
    "REAL": "FLOAT",
    "FLOAT8": "DOUBLE",
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INT4": "INT",
    "LONG": "BIGINT",
    "INT8": "BIGINT",
    "DECIMAL": "DECIMAL(10, 0)",
    "TIMESTAMPTZ": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "TIMESTAMP_NTZ": "TIMESTAMP(6)",
    "TIMESTAMP_MS": "TIMESTAMP(3)",
    "BYTEA": "BYTES",
    "INT[]": "ARRAY<INT>",
    "TEXT[][]": "ARRAY<ARRAY<STRING>>",
    "ARRAY<LONG>": "ARRAY<BIGINT>",
    "MAP(VARCHAR, INTEGER)": "MAP<STRING, INT>",
    "STRUCT(x INT, text TEXT)": "ROW<`x` INT, `text` STRING>",
    "STRUCT<x: INT, y: ARRAY<LONG>>": "ROW<`x` INT, `y` ARRAY<BIGINT>>",
    "INT[] NOT NULL": "ARRAY<INT> NOT NULL",
    "VARCHAR(3)": "VARCHAR(3)",
}


@pytest.mark.parametrize("dialect", ["lakekit", "spark"])
@pytest.mark.parametrize("written", TYPES)
def test_types_in_words_of_other_engines(cat, written, dialect):
    cat.sql(f"CREATE TABLE n (a INT, c {written} COMMENT 'x', e {written})", dialect=dialect)
    assert [str(field.type) for field in cat.table("d.n").schema.fields] == ["INT", TYPES[written], TYPES[written]]
    cat.sql(f"ALTER TABLE t ADD COLUMN c {written.removesuffix(' NOT NULL')}", dialect=dialect)
    assert str(cat.table("d.t").schema.fields[-1].type) == TYPES[written].removesuffix(" NOT NULL")


@pytest.mark.parametrize(
    ("written", "nearest"), [("UUID", "STRING"), ("HUGEINT", "DECIMAL"), ("UBIGINT", "DECIMAL"), ("JSON", "STRING"), ("UINTEGER[]", "BIGINT"), ("BIT", "BYTES")]
)
def test_types_that_paimon_has_not_name_the_nearest(cat, written, nearest):
    with pytest.raises(SqlError, match=f"is no type of Paimon: write {nearest}"):
        cat.sql(f"CREATE TABLE n (c {written})")


REFUSED = ["INT[3]", "UNION(a INT)", "STRUCT<x: INT NOT NULL>", "MAP(INT)", "ARRAY<INT, INT>", "STRUCT(INT)", "NOSUCH[]", "INT[", "[]"]


@pytest.mark.parametrize("written", REFUSED)
def test_other_types_are_refused(cat, written):
    with pytest.raises(SqlError):
        cat.sql(f"CREATE TABLE n (c {written})")
    assert not cat.exists("d.n")


# ---- keys and columns ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    ["id INT PRIMARY KEY, s STRING PRIMARY KEY", "id INT PRIMARY KEY, s STRING, PRIMARY KEY (s)", "id INT, s INT, PRIMARY KEY (id), PRIMARY KEY (s)"],
)
def test_a_table_has_one_primary_key(cat, columns):
    with pytest.raises(SqlError, match=r"no second PRIMARY KEY: name its columns in one"):
        cat.sql(f"CREATE TABLE n ({columns})")


@pytest.mark.parametrize(
    "columns",
    [
        "id INT, s STRING, CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED",
        "id INT CONSTRAINT pk PRIMARY KEY NOT ENFORCED, s STRING",
        "CONSTRAINT `a b` PRIMARY KEY (id), id INT, s STRING",
    ],
)
def test_a_primary_key_may_have_a_name(cat, columns):
    cat.sql(f"CREATE TABLE n ({columns})")
    assert list(cat.table("d.n").primary_keys) == ["id"]


def test_a_column_may_be_called_constraint(cat):
    cat.sql("CREATE TABLE n (constraint INT, id INT)")
    assert [field.name for field in cat.table("d.n").schema.fields] == ["constraint", "id"]
    with pytest.raises(SqlError, match="tables have no other constraint"):
        cat.sql("CREATE TABLE m (id INT, CONSTRAINT c CHECK (id > 0))")


def test_a_column_is_added_if_it_is_missing(cat):
    for _ in range(2):
        cat.sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS u INT; ALTER TABLE t ADD COLUMNS (IF NOT EXISTS s STRING, IF NOT EXISTS w INT)")
    assert [field.name for field in cat.table("d.t").schema.fields] == ["id", "s", "u", "w"]


# ---- other forms ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO t (id) SELECT id FROM x",
        "UPDATE t SET id = 1",
        "DELETE FROM t WHERE id IN (SELECT id FROM x)",
        "MERGE INTO t USING x ON t.id = x.id WHEN MATCHED THEN DELETE",
    ],
)
def test_with_stands_within_a_change(cat, change):
    with pytest.raises(SqlError, match=r"wants a query behind WITH: write it within, INSERT INTO t WITH … SELECT"):
        cat.sql(f"WITH RECURSIVE x(id) AS (SELECT 1), y AS NOT MATERIALIZED (SELECT ')') {change}")
    cat.sql("INSERT INTO t (id) WITH x AS (SELECT 1 AS id) SELECT id FROM x")
    assert cat.sql("WITH x(id) AS (SELECT 1), y AS (SELECT id FROM x) SELECT * FROM y").collect().rows() == [(1,)]


def test_temp_is_temporary(cat):
    cat.sql("CREATE TEMP VIEW v AS SELECT 1 AS a; CREATE OR REPLACE TEMP VIEW v AS SELECT 2 AS a")
    assert cat.sql("SELECT a FROM v").collect().rows() == [(2,)]
    cat.sql("DROP TEMP VIEW v")
    with pytest.raises((SqlError, Unsupported), match="tables last"):
        cat.sql("CREATE TEMP TABLE v (a INT)")


def test_explain_takes_analyze_in_brackets(cat):
    assert cat.sql("EXPLAIN (ANALYZE) SELECT 1 AS a").columns == cat.sql("EXPLAIN ANALYZE SELECT 1 AS a").columns
    assert cat.sql("EXPLAIN (SELECT 1 AS a)").height
