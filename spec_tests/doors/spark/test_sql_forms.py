"""Forms of statements that `cat.sql` has, through `ls.sql` (OWNER G11): hints, names with a dollar, types, USE, format tables, three parts."""

from __future__ import annotations

import pytest

import lakekit as lk
import lakekit.spark as ls
from lakekit.errors import InvalidOption, SqlError


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
