"""What `ls.sql` cannot do it says, by the error of its method, and changes nothing."""

from __future__ import annotations

import pytest

from lakekit.errors import (
    BranchNotFound,
    ColumnNotFound,
    DatabaseNotFound,
    InvalidOption,
    LakekitError,
    MergeConflict,
    SchemaMismatch,
    TableAlreadyExists,
    TableNotFound,
    TagNotFound,
    Unsupported,
    ValueOutOfRange,
)

ls = pytest.importorskip("lakekit.spark", exc_type=Unsupported)
pytest.importorskip("sqlglot")
pytestmark = pytest.mark.spark


WRONG = [
    ("SELECT * FROM shop.nope", TableNotFound, "nope"),
    ("SELECT * FROM nope.t", DatabaseNotFound, "nope"),
    ("SELECT * FROM shop.`orders$branch_nope`", BranchNotFound, "nope"),
    ("SELECT * FROM a.shop.orders", InvalidOption, "no catalog"),
    ("SELECT FROM WHERE", InvalidOption, "table name is expected here"),
    ("SELECT * FROM paimon_incremental_query('shop.orders', 1)", InvalidOption, "'database.table', 'since', 'until'"),
    ("SELECT * FROM paimon_incremental_query('shop.orders', 1, abs(2))", InvalidOption, "'database.table', 'since', 'until'"),
    ("SELECT * FROM paimon_incremental_between_timestamp('shop.orders', 'then', 'now')", InvalidOption, "'then' is no time"),
    ("SELECT * FROM paimon_incremental_to_auto_tag('shop.nope', '2024-01-01')", TableNotFound, "nope"),
    ("SELECT 1; SELECT 2", InvalidOption, "one statement"),
    ("SELECT 'open", InvalidOption, "does not end"),
    ("  ;", InvalidOption, "a statement"),
    ("GRANT ALL ON shop.orders", Unsupported, "GRANT"),
    ("INSERT INTO shop.orders SELECT 1", SchemaMismatch, "takes 10 columns"),
    ("INSERT INTO shop.orders (id, nope) SELECT 1, 2", SchemaMismatch, "nope"),
    ("INSERT INTO shop.days PARTITION (day = 'x') SELECT 'y'", SchemaMismatch, "partitioned by nothing"),
    ("INSERT INTO shop.parted PARTITION (n = 'x') SELECT 1", SchemaMismatch, "the column is INT"),
    ("INSERT INTO shop.days VALUES (date'2024-01-01', interval 1 day)", SchemaMismatch, "interval"),
    ("INSERT INTO shop.orders (id, n) VALUES (1, 3000000000)", ValueOutOfRange, "column n"),
    ("INSERT INTO shop.`orders$files` SELECT 1", InvalidOption, "names that table"),
    ("DELETE FROM shop.orders WHERE nope = 1", ColumnNotFound, "nope"),
    ("DELETE FROM shop.orders WHERE day = 1", ValueOutOfRange, "Spark says"),
    ("DELETE FROM shop.orders WHERE d = 'never'", ValueOutOfRange, "'never'"),
    ("DELETE FROM shop.orders WHERE id > 1 LIMIT 3", InvalidOption, "'LIMIT' is not expected here"),
    ("DELETE FROM shop.orders o WHERE orders.id = 1", ColumnNotFound, "o.id"),
    ("UPDATE shop.orders SET n = 'a', n = 2", InvalidOption, "two new values"),
    ("UPDATE shop.orders SET id = 2", SchemaMismatch, "primary key"),
    ("DELETE FROM shop.orders WHERE n = nope(1)", InvalidOption, "nope"),
    ("DELETE FROM shop.orders WHERE r.z = 1", ColumnNotFound, "r.z"),
    ("DELETE FROM shop.orders WHERE day IN (SELECT id FROM shop.orders)", LakekitError, "FROM orders.: Spark says: The value 'wed'"),
    ("DELETE FROM shop.orders WHERE id IN (SELECT id, day FROM shop.orders)", LakekitError, "columns"),
    ("CREATE FUNCTION f AS 'x'", Unsupported, "FUNCTION"),
    ("CREATE TABLE shop.new (a INT) LOCATION '/tmp/x'", Unsupported, "LOCATION"),
    ("CREATE TABLE shop.new (a DATE) PARTITIONED BY (days(a))", Unsupported, "days"),
    ("DESCRIBE shop.orders nope", ColumnNotFound, "nope"),
    ("DESCRIBE DATABASE shop", Unsupported, "SHOW DATABASES"),
    ("DESCRIBE HISTORY shop.orders", Unsupported, r"\$snapshots gives the commits"),
    ("SHOW PARTITIONS shop.parted PARTITION (k = 1)", ColumnNotFound, "n, d"),
    ("UPDATE shop.orders SET price = day", SchemaMismatch, "price"),
    ("UPDATE shop.orders SET n = 1 ORDER BY id", InvalidOption, "ORDER is not supported here"),
    (
        "MERGE INTO shop.orders t USING (SELECT 1L AS id UNION ALL SELECT 1L) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 1",
        MergeConflict,
        "has such a row",
    ),
    ("MERGE INTO shop.orders t USING (SELECT 1L AS id) s ON id = 1 WHEN MATCHED THEN DELETE", SchemaMismatch, "ambiguous"),
    ("MERGE INTO shop.orders t USING nope s ON t.id = s.id WHEN MATCHED THEN DELETE", LakekitError, "nope"),
    ("MERGE INTO shop.orders t USING (SELECT 1L AS id s ON t.id = s.id WHEN MATCHED THEN DELETE", InvalidOption, "parenthesis"),
    ("CREATE TABLE shop.orders (a INT)", TableAlreadyExists, "orders"),
    ("CREATE TABLE shop.new (a NOTYPE)", InvalidOption, "NOTYPE"),
    ("CREATE TABLE shop.new (a INT) PARTITIONED BY (b)", LakekitError, "b"),
    ("CREATE TABLE shop.new (a INT, PRIMARY KEY (a)) USING parquet", Unsupported, "parquet"),
    ("CREATE TABLE shop.new (a INT) CLUSTERED BY (a)", InvalidOption, "CLUSTERED"),
    ("CREATE TABLE shop.new", InvalidOption, "AS and a query"),
    ("CREATE TABLE shop.new COMMENT 'c' SELECT 1 AS a", InvalidOption, "SELECT"),
    ("CREATE TABLE shop.new (a INT) AS SELECT 1 AS a", InvalidOption, "leave them out"),
    ("CREATE TABLE shop.new AS SELECT nope FROM shop.orders", Exception, "nope"),
    ("CREATE TABLE shop.new AS SELECT id, id FROM shop.orders", LakekitError, "id"),
    ("CREATE TABLE shop.new TBLPROPERTIES ('primary-key' = 'nope') AS SELECT id FROM shop.orders", LakekitError, "nope"),
    ("CREATE TABLE shop.new TBLPROPERTIES ('primary-key' = 'n', 'bucket' = '1') AS SELECT CAST(NULL AS INT) AS n", LakekitError, "NOT NULL"),
    ("CREATE TABLE shop.orders AS SELECT 1 AS a", TableAlreadyExists, "orders"),
    ("ALTER TABLE shop.orders ADD COLUMN (a INT", InvalidOption, "it ends"),
    ("ALTER TABLE shop.orders DROP COLUMN nope", ColumnNotFound, "nope"),
    ("ALTER TABLE shop.orders UNSET TBLPROPERTIES ('nope')", InvalidOption, "nope"),
    ("ALTER TABLE shop.orders SET LOCATION 'x'", InvalidOption, "TBLPROPERTIES"),
    ("DROP DATABASE shop", InvalidOption, "not empty"),
    ("DROP TABLE shop.nope", TableNotFound, "nope"),
    ("CALL sys.nope()", Unsupported, "compact, compact_database"),
    ("CALL other.compact('t')", InvalidOption, "sys"),
    ("CALL sys.compact()", InvalidOption, "needs table"),
    ("CALL sys.compact('shop.nope')", TableNotFound, "nope"),
    ("CALL sys.compact(table => 'shop.orders', nope => 1)", InvalidOption, "no argument nope"),
    ("CALL sys.compact(table => 'shop.orders', table => 'shop.orders')", InvalidOption, "given twice"),
    ("CALL sys.compact(table => 'shop.orders', 'p=a')", InvalidOption, "by name"),
    ("CALL sys.delete_tag('shop.orders', 'a', 'b')", InvalidOption, "no argument number 3"),
    ("CALL sys.delete_tag('shop.orders', 'nope')", TagNotFound, "nope"),
    ("CALL sys.create_tag('shop.orders', 'new', 'two')", InvalidOption, "snapshot is a long"),
    ("CALL sys.create_tag('shop.orders', 'new', 1.5)", InvalidOption, "snapshot is a long"),
    ("CALL sys.expire_snapshots('shop.orders', 3000000000)", InvalidOption, "retain_max is a int"),
    ("CALL sys.expire_snapshots('shop.orders', older_than => 'then')", InvalidOption, "no time"),
    ("CALL sys.compact('shop.orders', partitions => 'p=1', where => 'id > 1')", InvalidOption, "at once"),
    ("CALL sys.compact('shop.orders', partitions => 'p=1')", InvalidOption, "partitioned by nothing"),
    ("CALL sys.compact('shop.orders', options => 'a')", InvalidOption, "key=value"),
    ("CALL sys.rollback('shop.orders')", InvalidOption, "one of version"),
]


@pytest.mark.parametrize(("text", "error", "words"), WRONG, ids=[text for text, *_ in WRONG])
def test_what_is_wrong_is_told_and_changes_nothing(spark, cat, text, error, words):
    before = cat["shop.orders"].snapshots()["snapshot_id"].max(), cat.tables()["table"].to_list(), cat["shop.orders"]._context().schema.id
    with pytest.raises(error, match=words):
        ls.sql(spark, text, catalog=cat)
    assert before == (cat["shop.orders"].snapshots()["snapshot_id"].max(), cat.tables()["table"].to_list(), cat["shop.orders"]._context().schema.id)
