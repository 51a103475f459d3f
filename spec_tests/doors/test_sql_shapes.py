"""The 22 statement shapes of the owner's documents (SEED_MAP section 4), each as written, in one session after USE.

Excepted by name: catalogs of a Hive metastore and of PostgreSQL, which need a server; they are read as far as the connection.
"""

from __future__ import annotations

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import LakekitError, SqlError


def statements(text):
    """Return the statements of a text, each as its owner wrote it."""
    return [part.strip() for part in text.split(";\n") if part.strip()]


TEXTS = """
CREATE CATALOG c WITH ('type'='paimon', 'warehouse'='{lake}');
CREATE CATALOG j WITH ('type'='paimon', 'metastore'='jdbc', 'uri'='sqlite:///{folder}/names.db', 'warehouse'='{folder}/jdbc',
  'jdbc.user'='u', 'jdbc.password'='p', 'catalog-key'='k');
USE CATALOG c;
CREATE DATABASE db;
USE db;
CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, b STRING) WITH ('bucket'='8');
CREATE TABLE t2 (a INT, b STRING, PRIMARY KEY (a, b) NOT ENFORCED) WITH ('bucket'='8');
CREATE TABLE t3 (a INT, b STRING);
CREATE TABLE t4 (a INT, dt STRING) PARTITIONED BY (dt);
SHOW TABLES;
INSERT INTO t VALUES (1, '111'), (2, CAST(NULL AS STRING));
INSERT INTO t3 VALUES (1, '11'), (CAST(NULL AS INT), '111');
CREATE TEMPORARY VIEW IF NOT EXISTS c.db.v (x, y) COMMENT 'of t' AS SELECT a, b FROM t;
SELECT x FROM v;
SHOW VIEWS;
SHOW CREATE VIEW v;
DROP VIEW IF EXISTS v;
CREATE TABLE f (a INT, b STRING) WITH ('type'='format-table', 'file.format'='csv', 'field-delimiter'=',');
INSERT INTO f VALUES (1, 'x');
CREATE TABLE `o` WITH ('type'='object-table', 'object-location'='{folder}/objects');
CALL sys.refresh_object_table('db.o');
CALL sys.create_tag('t', 'v1');
SELECT * FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */;
SELECT * FROM t /*+ OPTIONS('scan.tag-name' = 'v1') */;
SELECT * FROM t /*+ OPTIONS('scan.timestamp-millis' = '4102444800000') */;
SELECT * FROM t$files /*+ OPTIONS('scan.snapshot-id' = '1') */;
CREATE MATERIALIZED TABLE m PARTITIONED BY (ds) FRESHNESS = INTERVAL '30' SECOND
  AS SELECT ds, SUM(1) AS pv FROM (SELECT dt AS ds, a FROM t4) AS tmp GROUP BY ds;
SELECT * FROM c.db.`t$snapshots`;
SELECT * FROM t$snapshots;
SELECT s.snapshot_id, t.fields FROM t$snapshots s JOIN t$schemas t ON s.schema_id = t.schema_id WHERE s.snapshot_id = 1;
CREATE TABLE x (a BIGINT, b STRING);
INSERT INTO x VALUES (1, 'p'), (2, 'q');
CREATE TABLE w (a BIGINT, c ARRAY<ROW<a BIGINT, b STRING>>);
INSERT INTO w SELECT a, CAST(NULL AS ARRAY<ROW<a BIGINT, b STRING>>) FROM x UNION ALL SELECT a, ARRAY[ROW(a, b)] FROM x;
SELECT w.a, s.a, s.b FROM w, UNNEST(c) AS s(a, b);
ALTER TABLE t SET ('full-compaction.delta-commits' = '5');
CREATE TABLE p (id INT, price BIGINT, timestamp BIGINT) WITH ('connector'='paimon', 'path'='{folder}/p', 'file.format'='parquet',
  'file-index.bitmap.columns'='id, price');
INSERT INTO p VALUES (1, 10, 100), (2, 20, 200);
ALTER TABLE p SET ('file-index.bsi.columns' = 'price, timestamp');
CALL sys.rewrite_file_index('p');
CREATE TABLE d (a INT PRIMARY KEY NOT ENFORCED, b STRING) WITH ('bucket'='1');
ALTER TABLE d SET ('deletion-vectors.enabled' = 'true');
UPDATE t3 SET b = 'new' WHERE a = 1;
MERGE INTO t3 USING x AS s ON t3.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (CAST(s.a AS INT), s.b);
DELETE FROM t3 WHERE a = 1;
INSERT OVERWRITE t3 VALUES (7, 'only');
"""
"""The statements in the order of one session: what a shape needs is made before."""
SYSTEM_TABLES = (
    "snapshots schemas options audit_log binlog ro files tags branches consumers manifests aggregation_fields partitions buckets statistics table_indexes"
)
OF_THE_CATALOG = ["USE sys", "SHOW TABLES", "SELECT * FROM sys.all_table_options", "SELECT * FROM sys.catalog_options"]
NEED_A_SERVER = """
CREATE CATALOG h WITH ('type'='paimon', 'metastore'='hive', 'uri'='thrift://127.0.0.1:9');
CREATE CATALOG j WITH ('type'='paimon', 'metastore'='jdbc', 'uri'='jdbc:mysql://127.0.0.1:9/db', 'jdbc.user'='u', 'jdbc.password'='secret',
  'catalog-key'='k', 'warehouse'='/nowhere');
"""


def test_every_shape_runs_as_written_in_one_session(tmp_path):
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "a.txt").write_text("x")
    cat = lk.connect(tmp_path / "first")
    places = {"{lake}": str(tmp_path / "lake"), "{folder}": str(tmp_path)}
    found = {}
    texts = [*statements(TEXTS), *(f"SELECT * FROM t${name}" for name in SYSTEM_TABLES.split()), *OF_THE_CATALOG]
    for text in texts:
        for mark, place in places.items():
            text = text.replace(mark, place)  # noqa: PLW2901 - the text with its places
        found[text] = cat.sql(text).collect()
    assert found["SELECT * FROM t /*+ OPTIONS('scan.tag-name' = 'v1') */"].height == 2
    assert found["SELECT w.a, s.a, s.b FROM w, UNNEST(c) AS s(a, b)"].sort("a").rows() == [(1, 1, "p"), (2, 2, "q")]
    assert found["SELECT x FROM v"].height == 2
    left = lk.connect(tmp_path / "lake")
    assert left["db.t3"].scan().collect().rows() == [(7, "only")]
    assert lk.open(tmp_path / "p").options["file-index.bsi.columns"] == "price,timestamp"
    assert not (tmp_path / "first").exists()


@pytest.mark.parametrize("text", statements(NEED_A_SERVER))
def test_a_catalog_of_a_server_is_named_until_it_is_used(tmp_path, text):
    cat = lk.connect(tmp_path)
    try:
        cat.sql(text)
        cat.sql("USE CATALOG " + text.split()[2])
        cat.sql("SHOW TABLES")
    except LakekitError as wrong:
        assert not isinstance(wrong, SqlError)
        assert "secret" not in str(wrong)


def test_a_view_that_lasts_is_kept_where_the_metastore_keeps_views(tmp_path):
    cat = lk.connect(tmp_path / "lake", metastore="jdbc", uri=f"sqlite:///{tmp_path}/names.db")
    cat.sql("CREATE DATABASE db; USE db; CREATE TABLE t (a INT, b STRING); INSERT INTO t VALUES (1, 'x')")
    cat.sql("CREATE VIEW IF NOT EXISTS v (x, y) COMMENT 'it''s' AS SELECT a, b FROM t")
    again = lk.connect(tmp_path / "lake", metastore="jdbc", uri=f"sqlite:///{tmp_path}/names.db")
    again.sql("USE db")
    assert again.sql("SELECT y FROM v").collect().rows() == [("x",)]
    assert again.sql("SHOW CREATE VIEW v").rows() == [("CREATE VIEW db.v (`x`, `y`) COMMENT 'it''s' AS SELECT a, b FROM t",)]
    again.sql("CREATE OR REPLACE VIEW v AS SELECT a FROM t")
    assert isinstance(cat.sql("SELECT a FROM db.v"), pl.LazyFrame)
