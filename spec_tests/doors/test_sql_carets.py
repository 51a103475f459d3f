"""The place that an error of a statement tells is the word that is at fault: line, column, caret."""

from __future__ import annotations

import re

import pytest

import lakekit as lk
from lakekit.errors import LakekitError

WRONG = r"""
SELECT * FROM d.t /*+ OPTIONS('«scan.snapshot»' = '1') */
SELECT * FROM d.t /*+ OPTIONS('scan.mode' = '«nope»') */
SELECT * FROM d.t /*+ OPTIONS('scan.snapshot-id' = '«x»') */
SELECT * FROM d.t /*+ OPTIONS('scan.snapshot-id' = '«99»') */
SELECT * FROM d.t /*+ OPTIONS('«lakekit.allowed-locations»' = '/tmp') */
SELECT * FROM d.t /*+ OPTIONS(«scan» = '1') */
SELECT * FROM d.t «/*+» NOPE('a' = 'b') */
SELECT * FROM d.t /*+ OPTIONS('scan.tag-name' = '«nope»') */
INSERT INTO d.t /*+ OPTIONS('bucket' = '«x»') */ VALUES (1, 2, 'a')
DELETE FROM d.t /*+ OPTIONS('«nope.nope»' = '1') */ WHERE id = 1
SELECT * FROM d.t WHERE id = «?»
SELECT * FROM d.t WHERE id = «:id»
SELECT * FROM d.t WHERE id = «$1»
SELECT ?, «?»|5
SELECT ?, «nope» FROM d.t|5
DELETE FROM d.t WHERE id = ? AND «nope» = 1|5
INSERT INTO d.t SELECT ?, «nope», 'a' FROM d.t|5
SELECT * FROM d.t WHERE id = ? AND «nope.x» = 1|5
SELECT ? FROM d.t /*+ OPTIONS('«nope.x»' = '1') */|5
UPDATE d.t SET v = «:v» WHERE id = 1
INSERT INTO d.t VALUES (1, «?», 'a')
DELETE FROM d.t WHERE id = «?»
SELECT :a|b=1
COPY «d.nope» TO '/tmp/lakekit_none.csv'
COPY (SELECT «nope» FROM d.t) TO '/tmp/lakekit_none.csv'
COPY (SELECT * FROM d.«nope») TO '/tmp/lakekit_none.csv'
«COPY» (SELECT 1) TO '/tmp/lakekit_none.csv'|door
COPY (SELECT 1) TO '/tmp/lakekit_none.csv' (FORMAT «nope»)
COPY (SELECT 1) TO '/tmp/lakekit_none.csv' («NOPE» true)
COPY d.t «FROM» '/tmp/lakekit_none.csv'
CALL «sys.nope»('d.t')
CALL «other.compact»('d.t')
CALL sys.compact(«tabel» => 'd.t')
CALL sys.compact(table => '«d.nope»')
CALL sys.compact('«nope.t»')
CALL sys.compact(table => 'd.t', «table» => 'd.t')
CALL sys.compact(table => 'd.t', «'x'»)
CALL sys.rollback(table => 'd.t', snapshot => «'x'»)
CALL sys.rollback(table => 'd.t', snapshot => «99»)
CALL sys.rollback(table => 'd.t', tag => '«nope»')
CALL sys.«create_tag»('d.t')
CALL sys.«compact»()
CALL sys.expire_snapshots('d.t', «true»)
CALL sys.expire_snapshots(table => 'd.t', retain_max => «'many'»)
CALL sys.create_tag('d.t', 'one', 1, '1 d', «5»)
CALL sys.create_tag('d.t', 'one', «99»)
CALL sys.create_tag('d.t', '«old»')
CALL sys.delete_branch('d.t', '«nope»')
CALL sys.compact('d.t', compact_strategy => '«nope»')
CALL sys.compact('d.t', order_strategy => '«nope»', order_by => 'v')
CALL sys.compact('d.t', order_strategy => 'order', order_by => '«nope»')
CALL sys.remove_orphan_files('d.t', dry_run => «'maybe'»)
CALL sys.rescale('d.t', «0»)
CALL sys.mark_partition_done('d.p', '«nope»=1')
CALL sys.drop_partition('d.p', '«nope»=1')
CALL sys.alter_column_default_value('d.t', '«nope»', '1')
SHOW «NOPE»
SHOW TABLES IN «nope»
SHOW TABLES FROM «nope»
SHOW COLUMNS IN d.«nope»
SHOW COLUMNS FROM d.«nope»
SHOW PARTITIONS d.«nope»
SHOW CREATE TABLE d.«nope»
SHOW «CREATE» NOPE d.t
SHOW VIEWS IN «nope»
SHOW PARTITIONS d.p PARTITION («nope» = '1')
DESCRIBE d.«nope»
DESCRIBE «nope».t
DESC d.«nope»
DESCRIBE SELECT «nope» FROM d.t
SUMMARIZE d.«nope»
EXPLAIN SELECT «nope» FROM d.t
EXPLAIN ANALYZE SELECT * FROM d.«nope»
ALTER TABLE d.«nope» ADD COLUMN a INT
ALTER TABLE d.t DROP COLUMN «nope»
ALTER TABLE d.t RENAME COLUMN «nope» TO b
ALTER TABLE d.t RENAME COLUMN v TO «id»
ALTER TABLE d.t ALTER COLUMN «nope» TYPE BIGINT
ALTER TABLE d.t ALTER COLUMN «nope» COMMENT 'x'
ALTER TABLE d.t ALTER COLUMN «nope» SET DEFAULT 1
ALTER TABLE d.t ALTER COLUMN v AFTER «nope»
ALTER TABLE d.t ADD COLUMN w INT AFTER «nope»
ALTER TABLE d.t ADD COLUMN «v» INT
ALTER TABLE d.t ADD COLUMN w «NOPE»
ALTER TABLE d.t ALTER COLUMN v TYPE «NOPE»
ALTER TABLE d.t ALTER COLUMN «id» DROP NOT NULL
ALTER TABLE d.t SET ('bucket' = '«x»')
ALTER TABLE d.t RESET ('«bucket-key»')
ALTER TABLE d.t «NOPE»
ALTER TABLE d.t DELETE TAG «nope»
ALTER TABLE d.t CREATE TAG «old»
ALTER TABLE d.t RENAME TAG «nope» TO b
ALTER TABLE d.p DROP PARTITION («nope» = '1')
ALTER DATABASE «nope» SET ('a' = 'b')
DROP TABLE d.«nope»
DROP TABLE «nope».t
DROP DATABASE «nope»
DROP DATABASE «d»
DROP VIEW d.«nope»
CREATE TABLE d.«t» (id INT)
CREATE TABLE d.n (id «NOPE»)
CREATE TABLE d.n («id» INT, id INT)
CREATE TABLE d.n (id INT, PRIMARY KEY («nope») NOT ENFORCED)
CREATE TABLE d.n (id INT) PARTITIONED BY («nope»)
CREATE TABLE d.n (id INT) WITH ('bucket' = '«x»')
CREATE TABLE d.n («id» INT DEFAULT 'x')
CREATE VIEW d.n AS SELECT «nope» FROM d.t
USE «nope»
USE CATALOG «nope»
TRUNCATE TABLE d.«nope»
ANALYZE TABLE d.t COMPUTE STATISTICS FOR COLUMNS «nope»
ANALYZE TABLE d.«nope» COMPUTE STATISTICS
INSERT INTO d.«nope» VALUES (1)
INSERT INTO d.t (id, «nope») VALUES (1, 2)
INSERT INTO d.t SELECT «nope» FROM d.t
INSERT INTO d.p PARTITION («nope» = '1') SELECT 1
UPDATE d.t SET «nope» = 1
UPDATE d.t SET v = «nope»
UPDATE d.t SET «id» = 2
DELETE FROM d.t WHERE «nope» = 1
DELETE FROM d.t WHERE «nope»(id) = 1
MERGE INTO d.t USING d.p ON d.t.id = d.p.id WHEN MATCHED THEN UPDATE SET «nope» = 1
MERGE INTO d.t USING d.«nope» ON d.t.id = nope.id WHEN MATCHED THEN DELETE
SELECT «nope» FROM d.t
SELECT * FROM d.«nope»
SELECT * FROM «nope».t
SELECT «nope»(1)
SELECT * FROM d.t FOR VERSION AS OF «99»
SELECT * FROM d.t VERSION AS OF '«nope»'
SELECT * FROM d.t@«nope»
SELECT * FROM d.t FOR SYSTEM_TIME AS OF TIMESTAMP '«1990-01-01 00:00:00»'
SELECT * FROM d.t$«nope»
SELECT * FROM d.t$branch_«nope»
SELECT * FROM table_changes('«d.nope»', 1, 2)
SELECT * FROM table_changes('d.t', «90», 99)
SELECT * FROM «a.b.c.d»
SET '«nope»' = '1'
RESET '«nope»'
CREATE CATALOG c WITH ('type' = 'paimon', 'metastore' = '«nope»')
CREATE CATALOG c WITH ('type' = '«nope»')
CREATE MATERIALIZED TABLE d.m FRESHNESS = INTERVAL '1' HOUR AS SELECT «nope» FROM d.t
ALTER MATERIALIZED TABLE d.«t» REFRESH
COMMENT ON COLUMN d.t.«nope» IS 'x'
COMMENT ON TABLE d.«nope» IS 'x'
""".strip().splitlines()
"""Statements, with the word at fault between « and »; behind a bar are values of parameters, or `door`: typed without files=True."""
PLACE = re.compile(r"line (\d+), column (\d+)")


@pytest.fixture(scope="module")
def cat(tmp_path_factory):
    made = lk.connect(tmp_path_factory.mktemp("carets") / "lake")
    made.sql(
        """
        CREATE DATABASE d;
        CREATE TABLE d.t (id INT, v INT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');
        INSERT INTO d.t VALUES (1, 1, 'a');
        ALTER TABLE d.t CREATE TAG old;
        CREATE TABLE d.p (id INT, dt STRING) PARTITIONED BY (dt)
        """
    )
    return made


def run(cat, text, values=None, *, files=True):
    for answer in lk_run(cat, text, values, files=files):
        if hasattr(answer, "collect"):
            answer.collect()


def lk_run(cat, text, values, *, files):
    yield cat.sql(text, values, files=files)


def parts_of(line):
    text, _, how = line.partition("|")
    start = text.index("«")
    return text.replace("«", "").replace("»", ""), start, text.index("»") - 1, how


@pytest.mark.parametrize("line", [line for line in WRONG if "«" in line])
def test_the_place_is_the_word_at_fault(cat, line):
    text, start, end, how = parts_of(line)
    values = [int(how)] if how.isdecimal() else None
    before = "-- a line before\n  "
    with pytest.raises(LakekitError) as caught:
        run(cat, before + text, values, files=how != "door")
    message = caught.value.message
    found = PLACE.search(message)
    assert found, message
    row, column = int(found[1]), int(found[2])
    assert row == 2, message
    assert start - 1 <= column - 3 <= end, f"{text}\n{' ' * (column - 3)}^\n{message}"
    lines = message.splitlines()
    caret = next(at for at, shown in enumerate(lines) if shown.strip() == "^")
    shown = lines[caret - 1]
    under = shown[lines[caret].index("^") :]
    assert text[column - 3 :].startswith(under.rstrip()[:20].rstrip()) or under[:1] == text[column - 3 : column - 2], message
