"""Definitions by statement: CREATE OR REPLACE, CREATE TABLE AS, every ALTER, tags, views, materialized, format and object tables, SET and CALL."""

from __future__ import annotations

import time

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import InvalidOption, MergeConflict, SqlError, TagNotFound, Unsupported


@pytest.fixture
def cat(tmp_path):
    made = lk.connect(tmp_path / "lake")
    made.sql("CREATE DATABASE d; USE d; CREATE TABLE t (a INT, b STRING); INSERT INTO t VALUES (1, 'x')")
    return made


def rows(found):
    return sorted((found.collect() if isinstance(found, pl.LazyFrame) else found).rows(), key=repr)


# ---- CREATE --------------------------------------------------------------------------------------


def test_create_table_as_takes_keys_partitions_and_options(cat):
    cat.sql("CREATE TABLE k (PRIMARY KEY (a, b) NOT ENFORCED) COMMENT 'c' PARTITIONED BY (b) WITH ('bucket' = '2') AS SELECT a, b FROM t")
    made = cat["d.k"]
    assert (made.primary_keys, made.partition_keys, made.comment, made.options["bucket"]) == (("a", "b"), ("b",), "c", "2")
    assert rows(cat.sql("SELECT * FROM k")) == [(1, "x")]
    with pytest.raises(SqlError, match="leave them out"):
        cat.sql("CREATE TABLE z (a INT) AS SELECT 1 AS a")


def test_create_or_replace_table_reads_what_it_replaces_and_keeps_it_where_it_fails(cat):
    cat.sql("CREATE OR REPLACE TABLE t AS SELECT a + 1 AS n FROM t")
    assert rows(cat.sql("SELECT n FROM t")) == [(2,)]
    for wrong in (
        "CREATE OR REPLACE TABLE t (a NOPE)",
        "CREATE OR REPLACE TABLE t AS SELECT nope FROM t",
        "CREATE OR REPLACE TABLE t (a INT) WITH ('bucket' = 'x')",
    ):
        with pytest.raises(lk.LakekitError):
            cat.sql(wrong)
        assert rows(cat.sql("SELECT n FROM t")) == [(2,)]
        assert cat.tables("d")["table"].to_list() == ["t"]
    cat.sql("CREATE OR REPLACE TABLE t (z DOUBLE); CREATE OR REPLACE TABLE new (z DOUBLE)")
    assert cat["d.t"].schema.to_polars() == pl.Schema({"z": pl.Float64})
    assert cat.exists("d.new")


def test_create_or_replace_view(cat):
    cat.sql("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1 AS a")
    cat.sql("CREATE OR REPLACE TEMPORARY VIEW v (q) COMMENT 'it''s' AS SELECT 2 AS b")
    with pytest.raises(lk.LakekitError):
        cat.sql("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT nope FROM t")
    assert rows(cat.sql("SELECT q FROM v")) == [(2,)]
    assert rows(cat.sql("DESCRIBE v")) == [("q", "INT", None)]


def test_timestamp_with_time_zone_is_told_what_to_write(cat):
    """OWNER G23."""
    for text in ("CREATE TABLE z (c TIMESTAMP WITH TIME ZONE)", "ALTER TABLE t ADD COLUMN c TIMESTAMP(3) WITH TIME ZONE"):
        with pytest.raises(SqlError, match="WITH LOCAL TIME ZONE"):
            cat.sql(text)


# ---- ALTER ---------------------------------------------------------------------------------------


ALTERS = {
    "ADD (c INT FIRST, e STRING COMMENT 'x')": "c INT, a INT, b STRING, e STRING",
    "ADD c INT AFTER a": "a INT, c INT, b STRING",
    "ADD COLUMN c INT DEFAULT 5 BEFORE b": "a INT, c INT, b STRING",
    "ADD COLUMNS (c INT, e INT)": "a INT, b STRING, c INT, e INT",
    "DROP b": "a INT",
    "DROP (b)": "a INT",
    "DROP COLUMN IF EXISTS nope, b": "a INT",
    "RENAME b TO bb": "a INT, bb STRING",
    "RENAME COLUMN b TO bb": "a INT, bb STRING",
    "MODIFY a BIGINT": "a BIGINT, b STRING",
    "MODIFY (a BIGINT AFTER b, b STRING COMMENT 'x')": "b STRING, a BIGINT",
    "ALTER COLUMN a TYPE BIGINT": "a BIGINT, b STRING",
    "ALTER COLUMN a SET DATA TYPE DOUBLE": "a DOUBLE, b STRING",
    "ALTER COLUMN a LAST": "b STRING, a INT",
    "ALTER COLUMN b FIRST": "b STRING, a INT",
    "CHANGE COLUMN b BEFORE a": "b STRING, a INT",
}


@pytest.mark.parametrize("text", ALTERS)
def test_alter_changes_columns(cat, text):
    cat.sql(f"ALTER TABLE t {text}")
    assert ", ".join(f"{field.name} {field.type}" for field in cat["d.t"].schema.fields) == ALTERS[text]


def test_alter_changes_comments_defaults_nulls_and_options(cat):
    cat.sql(
        "COMMENT ON TABLE t IS 'it''s'; COMMENT ON COLUMN d.t.a IS 'n'; ALTER TABLE t ALTER COLUMN b SET DEFAULT 'q'; ALTER TABLE t SET ('num-levels' = '4')"
    )
    found = cat["d.t"]
    assert (found.comment, found.schema.fields[0].comment, found.schema.fields[1].default, found.options["num-levels"]) == ("it's", "n", "q", "4")
    cat.sql(
        "COMMENT ON TABLE t IS NULL; ALTER TABLE t ALTER COLUMN a DROP COMMENT; ALTER TABLE t ALTER COLUMN b DROP DEFAULT; ALTER TABLE t RESET ('num-levels')"
    )
    found = cat["d.t"]
    assert (found.comment or None, found.schema.fields[0].comment, found.schema.fields[1].default, "num-levels" in found.options) == (None, None, None, False)
    cat.sql("ALTER TABLE IF EXISTS nope ADD c INT")


def test_tags_by_statement(cat):
    cat.sql("ALTER TABLE t CREATE TAG `TAG-1` AS OF VERSION 1 RETAIN 24 HOURS; ALTER TABLE t CREATE TAG IF NOT EXISTS `TAG-1`")
    cat.sql(
        "INSERT INTO t VALUES (2, 'y'); ALTER TABLE t CREATE OR REPLACE TAG v; ALTER TABLE t REPLACE TAG v AS OF VERSION 1; ALTER TABLE t RENAME TAG v TO w"
    )
    assert rows(cat.sql("SHOW TAGS t")) == [("TAG-1",), ("w",)]
    assert cat["d.t"].tags()["snapshot_id"].to_list() == [1, 1]
    cat.sql("ALTER TABLE t DELETE TAG w; ALTER TABLE t DELETE TAG IF EXISTS w")
    with pytest.raises(TagNotFound):
        cat.sql("ALTER TABLE t DELETE TAG w")


def test_partitions_by_statement(cat):
    cat.sql("CREATE TABLE p (a INT, dt STRING, h INT) PARTITIONED BY (dt, h); INSERT INTO p VALUES (1, 'x', 1), (2, 'x', 2), (3, 'y', 1)")
    cat.sql("INSERT OVERWRITE p PARTITION (dt = 'x', h = 1) SELECT 9; ALTER TABLE p DROP PARTITION (dt = 'y', h = 1)")
    assert rows(cat.sql("SELECT a FROM p")) == [(2,), (9,)]
    assert rows(cat.sql("SHOW PARTITIONS p PARTITION (h = 2)")) == [("dt=x/h=2",)]
    cat.sql("TRUNCATE TABLE p PARTITION (dt = 'x', h = 2); INSERT INTO p BY NAME SELECT 'z' AS dt, 5 AS h, 7 AS a")
    assert rows(cat.sql("SELECT * FROM p")) == [(7, "z", 5), (9, "x", 1)]
    cat.sql("TRUNCATE p")
    assert rows(cat.sql("SELECT * FROM p")) == []


# ---- UPDATE FROM, DELETE USING -------------------------------------------------------------------


def test_update_from_and_delete_using(cat):
    cat.sql("CREATE TABLE k (k INT PRIMARY KEY NOT ENFORCED, v INT) WITH ('bucket'='1'); INSERT INTO k VALUES (1, 1), (2, 2), (3, 3)")
    cat.sql("CREATE TABLE s (k INT, w INT); INSERT INTO s VALUES (1, 10), (2, 20)")
    assert cat.sql("UPDATE k AS t SET v = s.w FROM s WHERE t.k = s.k AND s.w > 10")["row_count"].item() == 1
    cat.sql("UPDATE k SET v = x.w FROM (SELECT k, w + 1 AS w FROM s WHERE k = 1) AS x WHERE k.k = x.k")
    assert rows(cat.sql("SELECT * FROM k")) == [(1, 11), (2, 20), (3, 3)]
    cat.sql("DELETE FROM k USING s WHERE k.k = s.k AND s.w = 20")
    assert rows(cat.sql("SELECT * FROM k")) == [(1, 11), (3, 3)]
    cat.sql("INSERT INTO s VALUES (1, 12)")
    for text, wrong in {
        "UPDATE k SET v = s.w FROM s WHERE k.k = s.k": MergeConflict,
        "DELETE FROM k USING s, t WHERE k.k = s.k": SqlError,
        "UPDATE k SET v = s.w FROM s": SqlError,
        "UPDATE k /*+ OPTIONS('no.such' = '1') */ SET v = s.w FROM s WHERE k.k = s.k": InvalidOption,
    }.items():
        with pytest.raises(wrong):
            cat.sql(text)
    assert rows(cat.sql("SELECT * FROM k")) == [(1, 11), (3, 3)]


# ---- tables of other kinds -----------------------------------------------------------------------


def test_show_partitions_of_a_format_table(cat):
    """OWNER G8."""
    cat.sql("CREATE TABLE f (a INT, dt STRING) PARTITIONED BY (dt) WITH ('type'='format-table', 'file.format'='csv'); INSERT INTO f VALUES (1, 'x'), (2, 'y')")
    assert rows(cat.sql("SHOW PARTITIONS f")) == [("dt=x",), ("dt=y",)]
    assert rows(cat.sql("SHOW PARTITIONS f PARTITION (dt = 'y')")) == [("dt=y",)]


def test_show_create_table_of_an_object_table_is_a_statement(cat, tmp_path):
    """OWNER G18."""
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "a.txt").write_text("x")
    cat.sql(f"CREATE TABLE o COMMENT 'c' WITH ('type'='object-table', 'object-location'='{tmp_path}/objects')")
    cat.sql(cat.sql("SHOW CREATE TABLE d.o").item().replace("d.o", "d.o2"))
    cat.sql("CALL sys.refresh_object_table('d.o2')")
    assert rows(cat.sql("SELECT name FROM o2")) == [("a.txt",)]
    assert cat["d.o2"].comment == "c"


def test_materialized_tables_tell_that_they_are_stale_and_are_refreshed_when_due(cat):
    """OWNER G19."""
    cat.sql("CREATE MATERIALIZED TABLE m PARTITIONED BY (ds) FRESHNESS = INTERVAL '1' SECOND AS SELECT 'x' AS ds, count(*) AS n FROM t")
    cat.sql("CREATE MATERIALIZED TABLE young FRESHNESS = INTERVAL '1' DAY AS SELECT count(*) AS n FROM t")
    cat.sql("INSERT INTO t VALUES (2, 'y')")
    time.sleep(1.05)
    assert rows(cat.sql("SHOW MATERIALIZED TABLES")) == [("d", "m", 1, False, True), ("d", "young", 86_400, False, False)]
    assert [row[0] for row in cat.sql("CALL sys.refresh_due()").rows()] == ["d.m"]
    assert rows(cat.sql("SELECT n FROM m")) == [(2,)]
    assert not cat["d.m"].is_stale
    cat.sql("ALTER MATERIALIZED TABLE m SUSPEND")
    time.sleep(1.05)
    assert cat.sql("CALL sys.refresh_due('d')").height == 0
    cat.sql("INSERT INTO t VALUES (3, 'z'); ALTER MATERIALIZED TABLE m REFRESH PARTITION (ds = 'x')")
    assert rows(cat.sql("SELECT n FROM m")) == [(3,)]


# ---- SET and CALL --------------------------------------------------------------------------------


def test_set_gives_options_to_tables_and_keeps_none_without_an_effect(cat):
    cat.sql("INSERT INTO t VALUES (2, 'y'); SET 'paimon.*.*.t.scan.snapshot-id' = '1'")
    assert rows(cat.sql("SELECT a FROM t")) == [(1,)]
    assert rows(cat.sql("SELECT a FROM t /*+ OPTIONS('scan.snapshot-id'='2') */")) == [(1,), (2,)]
    assert rows(cat.sql("SET")) == [("paimon.*.*.t.scan.snapshot-id", "1")]
    assert rows(cat.session().sql("SELECT a FROM d.t")) == [(1,), (2,)]
    cat.sql("RESET 'paimon.*.*.t.scan.snapshot-id'")
    assert rows(cat.sql("SELECT a FROM t")) == [(1,), (2,)]
    for text in ("SET 'execution.runtime-mode' = 'batch'", "SET a = 1", "RESET 'nope'", "SET 'paimon.*.*.t.path' = '/x'"):
        with pytest.raises(InvalidOption):
            cat.sql(text)


def test_call_takes_bare_names_helps_and_names_the_nearest(cat):
    cat.sql("CALL sys.compact(t); CALL sys.compact(table => d.t)")
    told = {row[0]: row for row in cat.sql("CALL sys.help()").rows()}
    assert told["sys.create_tag"][1] == "table string, tag string, snapshot long (optional), time_retained string (optional)"
    with pytest.raises(Unsupported, match=r"did you mean sys\.compact\?"):
        cat.sql("CALL sys.compacct('t')")
    with pytest.raises(Unsupported, match="merge a branch"):
        cat.sql("CALL sys.merge_branch('t')")
