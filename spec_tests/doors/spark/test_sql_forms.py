"""Forms of statements that `cat.sql` has, through `ls.sql` (OWNER G11): hints, names with a dollar, types, USE, format tables, three parts."""

from __future__ import annotations

import pytest

import lakekit as lk
import lakekit.spark as ls
from lakekit.errors import InvalidOption, SchemaMismatch, SqlError, ValueOutOfRange


@pytest.fixture
def cat(tmp_path):
    made = lk.connect(tmp_path / "lake")
    made.sql("CREATE DATABASE d; CREATE TABLE d.t (a INT, b STRING); INSERT INTO d.t VALUES (1, 'x'); INSERT INTO d.t VALUES (2, 'y')")
    return made


def test_forms_that_sparks_parser_refuses(spark, cat, tmp_path):
    def do(text):
        return sorted(map(tuple, ls.sql(spark, text, catalog=cat).collect()), key=repr)

    assert do("SELECT a FROM d.t /*+ OPTIONS('scan.snapshot-id'='1') */ WHERE b = 'x'") == [(1,)]
    assert do("SELECT x.a FROM d.t /*+ OPTIONS('scan.snapshot-id'='1') */ AS x JOIN d.t y ON x.a = y.a") == [(1,)]
    assert do("SELECT /*+ BROADCAST(x) */ x.a FROM d.t x JOIN d.t y ON x.a = y.a WHERE x.a = 2") == [(2,)]
    assert do("SELECT s.snapshot_id FROM d.t$snapshots s WHERE s.snapshot_id > 1") == [(2,)]
    assert do("INSERT INTO d.t /*+ OPTIONS('write-only'='true') */ SELECT 3, 'z' FROM d.t$snapshots WHERE snapshot_id = 1")[0][1] == 1
    do("USE d")
    assert do("SELECT count(*) FROM t") == [(3,)]
    do("CREATE TABLE w (a BYTES, b VARBINARY(5), c TIME(3), d MULTISET<INT>, e ROW<x INT, y STRING>, f TIMESTAMP(3) WITH LOCAL TIME ZONE)")
    assert [str(field.type) for field in cat["d.w"].schema.fields][:5] == ["BYTES", "VARBINARY(5)", "TIME(3)", "MULTISET<INT>", "ROW<`x` INT, `y` STRING>"]
    do("CREATE TABLE f (a INT, dt STRING) PARTITIONED BY (dt) WITH ('type'='format-table', 'file.format'='csv')")
    do("INSERT INTO f VALUES (1, 'x'), (2, 'y')")
    do("INSERT OVERWRITE f PARTITION (dt = 'x') SELECT 9")
    assert do("SELECT a FROM f") == [(2,), (9,)]
    do(f"CREATE CATALOG c WITH ('type'='paimon', 'warehouse'='{tmp_path}/other')")
    do("CREATE DATABASE c.e")
    do("CREATE TABLE c.e.t AS SELECT a FROM t WHERE a < 3")
    assert do("SELECT a FROM c.e.t") == [(1,), (2,)]
    do("USE CATALOG c")
    assert do("SHOW TABLES IN e") == [("e", "t", False)]
    do("USE CATALOG default_catalog")
    for text, wrong in {
        "SELECT * FROM d.t /*+ OPTIONS('no.such'='1') */": InvalidOption,
        "SELECT /*+ OPTIONS('scan.snapshot-id'='1') */ * FROM d.t": SqlError,
        "DELETE FROM d.t WHERE a = 1 /*+ OPTIONS('write-only'='true') */": SqlError,
    }.items():
        with pytest.raises(wrong):
            ls.sql(spark, text, catalog=cat).collect()


def test_to_sql_in_sparks_dialect_is_read_by_ls_sql(spark, cat):
    """ATTACK A7, through the other door."""
    evil = "\\'; DROP TABLE d.t; --\n$$"
    made = cat.create_table("d.evil", [lk.Field("k", "INT", comment=evil)], comment=evil, options={"my.option": evil})
    ls.sql(spark, made.to_sql(dialect="spark").replace("d.evil", "d.copy"), catalog=cat)
    copy = cat["d.copy"]
    assert (copy.comment, copy.options["my.option"], copy.schema.fields[0].comment) == (evil, evil, evil)
    shown = ls.sql(spark, "SHOW CREATE TABLE d.evil", catalog=cat).first()[0]
    assert shown == made.to_sql(dialect="spark")
    assert cat.exists("d.t")


TYPED = "id INT, d DATE, t TIME(3), ts TIMESTAMP(6), z TIMESTAMP(6) WITH LOCAL TIME ZONE, p DECIMAL(8, 2)"
TEXTS = "(1, '2024-01-05', '10:20', '2024-01-05 10:00:00.5', '2024-01-05 10:00:00+02:00', '2.50'), "
TEXTS += "(2, '2024-1-6', NULL, '2024-01-05', '2024-07-05T10:00:00Z', '-.5')"
BAD_TEXTS = {
    "d": ["'x'", "'2024-13-05'", "'2024-01-05 10:00:00'", "''"],
    "t": ["'25:00'", "'x'"],
    "ts": ["'2024-02-30 10:00:00'", "'2024-01-05 10:00:00+02:00'", "'2024-01-05 10:00:00.1234567'"],
    "z": ["'soon'"],
    "p": ["'2.555'", "'1e2'", "'9999999'", "'NaN'"],
}


@pytest.mark.parametrize("how", ["", ", PRIMARY KEY (id) NOT ENFORCED", "parted", "csv"])
def test_insert_stores_texts_as_cat_sql_does(spark, cat, how):
    """INSERT of texts into DATE, TIME, TIMESTAMP and DECIMAL: one rule for both doors, `store_assignment`."""
    tail = {"parted": " PARTITIONED BY (d)", "csv": " PARTITIONED BY (d) WITH ('type' = 'format-table', 'file.format' = 'csv')"}.get(how, "")
    for name in ("mine", "theirs"):
        cat.sql(f"CREATE TABLE d.{name} ({TYPED}{how if how.startswith(',') else ''}){tail}")
    cat.sql(f"INSERT INTO d.mine VALUES {TEXTS}")
    ls.sql(spark, f"INSERT INTO d.theirs VALUES {TEXTS}", catalog=cat)
    ls.sql(spark, "INSERT INTO d.theirs (d, id) SELECT concat('2024-02-', '07'), 3", catalog=cat)
    cat.sql("INSERT INTO d.mine (d, id) VALUES ('2024-02-07', 3)")
    wanted = cat["d.mine"].scan().collect().sort("id")
    assert cat["d.theirs"].scan().collect().sort("id").equals(wanted)
    for column, values in BAD_TEXTS.items():
        for value in values[:1] if how else values:
            for door in (cat.sql, lambda text: ls.sql(spark, text, catalog=cat)):
                with pytest.raises(ValueOutOfRange, match=column):
                    door(f"INSERT INTO d.theirs (id, {column}) VALUES (9, {value})")
    assert cat["d.theirs"].scan().collect().height == 3
    with pytest.raises(SchemaMismatch):
        ls.sql(spark, "INSERT INTO d.theirs (id) VALUES ('7')", catalog=cat)


def test_texts_without_a_zone_are_moments_of_the_sessions(spark, cat):
    cat.sql("CREATE TABLE d.z (z TIMESTAMP(6) WITH LOCAL TIME ZONE)")
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        for name in ("America/New_York", "+02:00"):
            spark.conf.set("spark.sql.session.timeZone", name)
            ls.sql(spark, "INSERT INTO d.z VALUES ('2024-07-05 10:00:00')", catalog=cat)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert [str(value) for value in cat["d.z"].scan().collect()["z"].sort()] == ["2024-07-05 08:00:00+00:00", "2024-07-05 14:00:00+00:00"]
