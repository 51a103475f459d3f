"""A statement cut at any character is refused by a LakekitError and changes nothing, or is a statement of its own."""

from __future__ import annotations

import shutil

import pytest

import lakekit as lk
from lakekit.errors import LakekitError

MADE = """CREATE DATABASE d; USE d;
CREATE TABLE t (a INT, b STRING); INSERT INTO t VALUES (1, 'x'), (2, 'it''s');
CREATE TABLE k (k INT PRIMARY KEY NOT ENFORCED, v INT, dt STRING) PARTITIONED BY (dt) WITH ('bucket' = '-1');
CREATE MATERIALIZED TABLE m FRESHNESS = INTERVAL '1' DAY AS SELECT count(*) AS n FROM t"""
STATEMENTS = r"""
INSERT INTO d.t /*+ OPTIONS('write-only'='true') */ (a, b) VALUES (3, 'it''s -- no; end'), (4, CAST(NULL AS STRING)) -- end

INSERT OVERWRITE TABLE d.k PARTITION (dt = 'x') SELECT 1, 2

INSERT INTO t BY NAME SELECT 'q' AS b, 1 AS a

DELETE FROM d.t AS x WHERE x.a = 12 AND x.b LIKE '%\' OR `b` IS NULL

UPDATE d.t SET b = 'new' WHERE "a" >= 1 AND (b <> '$$ ; $$')

UPDATE t AS x SET b = s.b FROM (SELECT a, b FROM t) AS s WHERE x.a = s.a

DELETE FROM t USING (SELECT 1 AS a) AS s WHERE t.a = s.a

MERGE INTO t USING (SELECT 1 AS a, 'z' AS b) AS s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a, s.b)

CREATE TABLE IF NOT EXISTS d.n (id BIGINT NOT NULL COMMENT 'it''s', r ROW<x INT, y ARRAY<DECIMAL(10, 2)>>,
  z TIMESTAMP(3) WITH LOCAL TIME ZONE DEFAULT '2024-01-01',
  PRIMARY KEY (id) NOT ENFORCED) COMMENT 'c' WITH ('bucket' = '1', 'file.format' = 'orc')

CREATE TABLE n (PRIMARY KEY (a) NOT ENFORCED) WITH ('bucket' = '1') AS SELECT a, b FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */

CREATE OR REPLACE TABLE t (z DOUBLE)

CREATE TEMPORARY VIEW v (x, y) COMMENT 'c' AS SELECT a, b FROM t WHERE a > 1

ALTER TABLE t ADD COLUMN (c INT COMMENT 'x' AFTER a, e STRING)

ALTER TABLE t ALTER COLUMN a TYPE BIGINT, b COMMENT 'it''s'

ALTER TABLE t SET ('num-levels' = '4', 'write-only' = true)

ALTER TABLE k DROP PARTITION (dt = '2024-03-31'), PARTITION (dt = 'y')

ALTER TABLE t CREATE TAG IF NOT EXISTS `TAG-1` AS OF VERSION 1 RETAIN 24 HOURS

COMMENT ON COLUMN d.t.a IS 'x'

CALL sys.create_tag(table => 'd.t', tag => 'v''1', snapshot => 1)

CALL sys.compact('d.t', where => 'a > 1')

SHOW PARTITIONS d.k PARTITION (dt = 'x')

DESCRIBE EXTENDED d.t

SELECT a, count(*) AS n FROM d.t VERSION AS OF 1 WHERE b = 'it''s' GROUP BY a ORDER BY n DESC LIMIT 3

SET 'paimon.*.*.t.scan.snapshot-id' = '1'

ALTER MATERIALIZED TABLE m REFRESH

TRUNCATE TABLE k PARTITION (dt = 'x')

DROP TABLE IF EXISTS d.nope

USE d; INSERT INTO t VALUES (9, 'nine'); SHOW TABLES LIKE 't*'
""".strip().split("\n\n")


def files(folder):
    return sorted(str(path) for path in folder.rglob("*"))


def build(folder):
    shutil.rmtree(folder, ignore_errors=True)
    cat = lk.connect(folder)
    cat.sql(MADE)
    return cat


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_cut_anywhere_is_refused_or_is_one(tmp_path, text):
    lake = tmp_path / "lake"
    cat, refused = build(lake), 0
    before = files(lake)
    for end in range(len(text) + 1):
        try:
            cat.sql(text[:end]).collect()
        except LakekitError:
            refused += 1
            if ";" not in text[:end]:
                assert files(lake) == before, text[:end]
        if files(lake) != before:
            cat = build(lake)
            before = files(lake)
        cat.sql("USE d; RESET; DROP VIEW IF EXISTS d.v")
    assert refused >= len(text.split()[0])
