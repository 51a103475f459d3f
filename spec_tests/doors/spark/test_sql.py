"""What `ls.sql` does with a statement is what the methods do that it stands for; what it does not understand it refuses, and changes nothing."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import DatabaseNotFound, LakekitError, TableAlreadyExists, Unsupported

ls = pytest.importorskip("lakekit.spark", exc_type=Unsupported)
pytest.importorskip("sqlglot")
pytestmark = pytest.mark.spark


def rows(df):
    return sorted(tuple(row) for row in df.collect())


QUERIES = {
    "SELECT id FROM shop.orders WHERE id > 2": [(3,), (4,)],
    "SELECT orders.id, shop.days.name FROM shop.orders JOIN shop.days ON shop.orders.day = days.day": [(1, "Monday"), (2, "Tuesday")],
    "WITH orders AS (SELECT 7 AS id) SELECT o.id FROM orders o UNION ALL SELECT max(id) FROM SHOP.orders": [(4,), (7,)],
    "SELECT o.id FROM shop.orders VERSION AS OF 1 o": [(1,), (2,), (3,)],
    "SELECT id FROM shop.orders FOR VERSION AS OF 'first'": [(1,), (2,), (3,)],
    "SELECT id FROM shop.orders TIMESTAMP AS OF '2100-01-01' WHERE day NOT LIKE '{x}'": [(1,), (2,), (3,), (4,)],
    "SELECT id FROM shop.`orders$branch_dev`": [(9,)],
    "SELECT snapshot_id FROM shop.`orders$snapshots` -- all of them": [(1,), (2,)],
    "SELECT id FROM shop.orders WHERE day = 'it''s {a}%'": [(3,)],
    "SELECT s.id FROM seen_here s": [(3,)],
    "SELECT /*+ BROADCAST(d) */ o.id FROM shop.orders o JOIN shop.days d ON o.day = d.day": [(1,), (2,)],
    "TABLE shop.days": [("mon", "Monday"), ("tue", "Tuesday")],
    "VALUES (1, 'a')": [(1, "a")],
    "SELECT id FROM paimon_incremental_query('shop.orders', 1, 2)": [(4,)],
    "SELECT c.id FROM PAIMON_INCREMENTAL_QUERY('shop.orders', '0', '1') AS c JOIN shop.days d ON c.day = d.day": [(1,), (2,)],
    "SELECT id FROM paimon_incremental_between_timestamp('shop.orders', '1970-01-02', '2100-01-01 00:00:00') WHERE id > 1": [(2,), (3,), (4,)],
    "SELECT id FROM shop.orders TIMESTAMP AS OF (now() + INTERVAL 1 DAY) WHERE id > 3": [(4,)],
    "SELECT table_name FROM sys.tables WHERE database_name = 'shop'": [("days",), ("orders",), ("parted",)],
}


@pytest.mark.parametrize("text", QUERIES)
def test_queries(spark, cat, text):
    spark.createDataFrame([(3,)], "id BIGINT").createOrReplaceTempView("seen_here")
    if "SHOP." in text:
        with pytest.raises(DatabaseNotFound):
            ls.sql(spark, text, catalog=cat)
        text = text.replace("SHOP.", "shop.")
    assert rows(ls.sql(spark, text, catalog=cat)) == QUERIES[text.replace("shop.orders", "SHOP.orders") if text not in QUERIES else text]


EXPRESSIONS = [
    "n + 1 > 5 OR id * 2 - 1 = 3",
    "NOT (day = 'mon') AND n IS NOT NULL",
    "day IN ('mon', 'wed') OR n NOT IN (5)",
    "n BETWEEN -10 AND 0 OR -n = -5",
    "day LIKE 'it''s%' OR day LIKE '_o%'",
    "d = DATE '2024-03-31' OR d > '2024-03-31'",
    "at >= TIMESTAMP '2024-04-01 00:00:00' OR at = '2024-03-31 10:00:00'",
    "price = 1.5 OR price > 2",
    "x > 0.4 AND x < 1e9",
    "ok IS TRUE OR ok <=> NULL",
    "CASE WHEN n > 0 THEN 'a' WHEN n < 0 THEN 'b' END = 'b'",
    "if(ok, n, id) = 5 OR coalesce(n, 0) = 0",
    "upper(day) = 'MON' OR length(day) = 9 OR lower(concat(day, 'X')) = 'tuex'",
    "n * 0.1 = 0.5 OR id * 0.1 + 0.2 = 0.4",
    "f = 0.25",
    "f = 0.1F OR x = 1e10 OR x = 0.5D",
    "price * 1.1 = 2.475 OR price - 0.001 = 1.499",
    "price * price = 5.0625 OR price = 1.5BD",
    "n % 4 = -3 OR n % -4 = 1 OR mod(id, 3) = 0",
    "n / 2 = 2.5 OR n / -2 = 3.5",
    "round(price / 7, 6) = 0.214286 OR price / 4 = 0.5625",
    "n DIV 2 = -3 OR n DIV -2 = -2",
    "10 / nullif(n - 5, 0) < 0 OR n % nullif(id - 1, 0) = -1",
    "CAST(price AS INT) = 2 OR CAST(n / 2 AS INT) = -3",
    "CAST(n AS DECIMAL(4, 1)) = 5.0 OR CAST(price AS DECIMAL(3, 1)) = 1.5 OR CAST(price AS DOUBLE) = 2.25",
    "CASE day WHEN 'mon' THEN 1 WHEN 'wed' THEN 2.5 ELSE 3 END = 1 OR coalesce(n, 0.5) = 0.5",
    "r.a = 1 OR orders.r.b.c = 'x' OR r.a + id = 4",
    "n IN (5.0, 2) OR price IN (1, 2.25)",
    "-price = -1.5 OR abs(price) = 2.25 OR -1.5 = -price",
    "day || '!' = 'mon!' OR abs(n) = 7 OR cast(id AS STRING) = '4'",
    "true",
]


def test_conditions_mean_what_they_mean_in_spark(spark, cat):
    from lakekit.expressions.parser import SqlText
    from lakekit.expressions.scope import Scope, TableScope
    from lakekit.expressions.translation import translate_condition
    from lakekit.format.polars_types import polars_schema

    t = cat["shop.orders"]
    scope = Scope(
        sides=(TableScope(names=("orders",), columns=dict(polars_schema(t._context().schema.fields))),),
        run_query=lambda text: pl.Series(pl.from_arrow(spark.sql(text).toArrow().column(0))),
    )
    frame = t.scan().collect()
    asked = ", ".join(f"({text}) IS TRUE" for text in EXPRESSIONS)
    wanted = rows(ls.sql(spark, f"SELECT id, {asked} FROM shop.orders", catalog=cat))
    made = [translate_condition(SqlText(text, "c", "spark"), scope).fill_null(value=False).alias(str(at)) for at, text in enumerate(EXPRESSIONS)]
    found = frame.sort("id").select("id", *made)
    assert [text for at, text in enumerate(EXPRESSIONS, 1) if found.to_series(at).to_list() != [row[at] for row in wanted]] == []
    assert all(any(column) for column in list(zip(*wanted, strict=True))[1:]), "each is true of some row"


def test_a_table_from_its_beginning_to_its_end(spark, tmp_path, monkeypatch):
    from lakekit.spark import dml

    for module in (dml, dml):
        monkeypatch.setattr(module, "_TASKS_A_SLOT", 1)
    cat = lk.connect(tmp_path)

    def do(text):
        return ls.sql(spark, text, catalog=cat)

    do("CREATE DATABASE IF NOT EXISTS lake")
    do(
        """CREATE TABLE lake.t (k BIGINT NOT NULL COMMENT 'the key', p STRING, v INT, x DOUBLE, m MAP<STRING, ARRAY<INT>>,
           r STRUCT<a: DECIMAL(5, 2), `b c`: TIMESTAMP_NTZ>)
           USING paimon PARTITIONED BY (p) COMMENT 'it''s a table' TBLPROPERTIES ('primary-key' = 'k,p', 'bucket' = '1')"""
    )
    do("CREATE TABLE IF NOT EXISTS lake.t (other INT)")
    t = cat["lake.t"]
    assert t.primary_keys == ("k", "p")
    assert t.partition_keys == ("p",)
    assert t.comment == "it's a table"
    assert [str(field.type) for field in t._context().schema.fields][3:5] == ["DOUBLE", "MAP<STRING NOT NULL, ARRAY<INT>>"]
    done = do("INSERT INTO lake.t (k, p, v, x) VALUES (1, 'a', 10, 1.5), (2, 'a', 20, 2), (3, 'b', NULL, NULL), (4, 'b', 40, 4)")
    assert rows(done) == [(1, 4)]
    do("INSERT INTO lake.t BY NAME SELECT 'c' AS p, 5L AS k, 50 AS v")
    do("INSERT OVERWRITE TABLE lake.t PARTITION (p = 'c') (k, v) SELECT k + 1, v FROM lake.t WHERE p = 'c'")
    assert rows(do("UPDATE lake.t AS z SET v = z.v + 1, x = NULL WHERE z.p = 'a' AND k < 2")) == [(4, 1)]
    assert rows(do("DELETE FROM lake.t WHERE v = 40")) == [(5, 1)]
    assert rows(do("DELETE FROM lake.t WHERE v = 40")) == [(None, 0)]
    do(
        """MERGE INTO lake.t USING (SELECT id, 'a', id FROM range(1, 9, 3)) AS s(k, p, v) ON t.k = s.k AND t.p = s.p
           WHEN MATCHED AND s.v > 5 THEN DELETE WHEN MATCHED THEN UPDATE SET v = t.v + s.v * 100
           WHEN NOT MATCHED AND s.v < 7 THEN INSERT (k, p, v) VALUES (s.k, s.p, 0) WHEN NOT MATCHED BY SOURCE AND t.p = 'b' THEN UPDATE SET v = -1"""
    )
    assert rows(do("SELECT k, p, v, x FROM lake.t")) == [(1, "a", 111, None), (2, "a", 20, 2.0), (3, "b", -1, None), (4, "a", 0, None), (6, "c", 50, None)]
    for text in (
        "ALTER TABLE lake.t ADD COLUMNS (w INT COMMENT 'new' AFTER k, r.c STRING)",
        "ALTER TABLE lake.t ALTER COLUMN w TYPE BIGINT",
        "ALTER TABLE lake.t ALTER COLUMN w COMMENT 'newer'",
        "ALTER TABLE lake.t ALTER COLUMN v FIRST",
        "ALTER TABLE lake.t RENAME COLUMN x TO y",
        "ALTER TABLE lake.t DROP COLUMNS (m)",
        "ALTER TABLE lake.t SET TBLPROPERTIES ('snapshot.num-retained.max' = '70', 'comment' = 'other')",
        "ALTER TABLE lake.t UNSET TBLPROPERTIES ('snapshot.num-retained.max')",
        "ALTER TABLE lake.t DROP PARTITION (p = 'b')",
    ):
        do(text)
    assert rows(do("DESCRIBE TABLE lake.t"))[-1] == ("y", "double", None)
    assert t._context().schema.names == ("v", "k", "w", "p", "y", "r")
    assert (t._context().schema.field("w").comment, str(t._context().schema.field("w").type)) == ("newer", "BIGINT")
    assert (t.comment, "snapshot.num-retained.max" in t.options) == ("other", False)
    assert rows(do("SHOW PARTITIONS lake.t")) == [("p=a",), ("p=c",)]
    do("ALTER TABLE lake.t RENAME TO u")
    assert rows(do("SHOW TABLES IN lake")) == [("lake", "u", False)]
    assert "CREATE TABLE" in do("SHOW CREATE TABLE lake.u").collect()[0][0]
    do("TRUNCATE TABLE lake.u;")
    assert not cat["lake.u"].scan().collect().height
    do("DROP TABLE lake.u")
    do("DROP TABLE IF EXISTS lake.u")
    do("DROP DATABASE lake CASCADE")
    assert rows(do("SHOW DATABASES")) == [("default",)]


def test_partitions_by_their_values(spark, tmp_path):
    cat = lk.connect(tmp_path)
    cat.create_database("lake")
    t = cat.create_table("lake.t", {"k": "INT", "n": "INT", "d": "DATE"}, partition_keys=["n", "d"])

    def do(text):
        return rows(ls.sql(spark, text, catalog=cat))

    t.append([{"k": k, "n": k % 2, "d": date(2024, 3, 30 + k % 2)} for k in range(4)])
    do("INSERT OVERWRITE lake.t PARTITION (n = 1, d = DATE '2024-03-31') SELECT 9")
    assert do("SHOW PARTITIONS lake.t") == [("n=0/d=2024-03-30",), ("n=1/d=2024-03-31",)]
    do("CALL sys.compact(table => 'lake.t', where => 'd = \"2024-03-30\" AND n = 0')")
    do("ALTER TABLE lake.t DROP PARTITION (n = 0, d = '2024-03-30')")
    assert t.scan().collect().rows() == [(9, 1, date(2024, 3, 31))]


def test_what_an_overwrite_replaces_is_sparks_to_say(spark, tmp_path):
    """ENGINE.md 5.6, the worked example: static unless the session says otherwise, whatever the table's own option is."""
    cat = lk.connect(tmp_path)
    cat.create_database("lake")
    t = cat.create_table("lake.t", {"id": "INT", "pt": "STRING"}, partition_keys=["pt"])

    def left(text, mode=None):
        t.overwrite(pl.DataFrame({"id": [1, 2], "pt": ["p1", "p2"]}, schema_overrides={"id": pl.Int32}))
        if mode is not None:
            spark.conf.set("spark.sql.sources.partitionOverwriteMode", mode)
        try:
            ls.sql(spark, text, catalog=cat)
        finally:
            spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        return sorted(t.scan().collect().rows())

    whole = "INSERT OVERWRITE lake.t VALUES (3, 'p1')"
    assert left(whole) == left(whole, "STATIC") == [(3, "p1")]
    assert left(whole, "dynamic") == [(2, "p2"), (3, "p1")]
    assert left("INSERT OVERWRITE lake.t PARTITION (pt = 'p1') VALUES (3)") == [(2, "p2"), (3, "p1")]


def test_a_table_of_a_query(spark, cat, tmp_path):
    """Its columns are the query's, all of which may be null but for the keys; where it is there already and may be, nothing is read or written."""
    made = lk.connect(tmp_path)
    made.create_database("new")
    spark.createDataFrame(cat["shop.orders"].scan().select("id", "day", "price", "d", "at").collect().to_arrow()).createOrReplaceTempView("orders_there")
    text = """CREATE TABLE IF NOT EXISTS new.t COMMENT 'a copy' PARTITIONED BY (day)
        TBLPROPERTIES ('primary-key' = 'id,day', 'bucket' = '2')
        AS WITH some AS (SELECT *, map('a', array(id)) AS m FROM orders_there WHERE id < 100) SELECT id + 1 AS id, day, price, d, at, m FROM some"""
    told = [tuple(row) for row in ls.sql(spark, text, catalog=made).collect()]
    t = made["new.t"]
    assert told == [(t.snapshots()["snapshot_id"].max(), t.scan().collect().height)]
    assert (t.primary_keys, t.partition_keys, t.comment, t.options["bucket"]) == (("id", "day"), ("day",), "a copy", "2")
    kinds = {field.name: str(field.type) for field in t._context().schema.fields}
    assert kinds["price"] == "DECIMAL(10, 2)"
    assert kinds["m"].startswith("MAP<STRING")
    assert [name for name, kind in kinds.items() if kind.endswith("NOT NULL")] == ["id", "day"]
    want = cat["shop.orders"].scan().filter(pl.col("id") < 100).select(pl.col("id") + 1, "day", "price", "d").collect().sort("id")
    assert t.scan().select("id", "day", "price", "d").collect().sort("id").rows() == want.rows()
    assert [tuple(row) for row in ls.sql(spark, text, catalog=made).collect()] == [(None, 0)]
    ls.sql(spark, "CREATE TABLE new.u USING paimon AS SELECT snapshot_id FROM new.`t$snapshots`", catalog=made)
    assert made["new.u"].scan().collect()["snapshot_id"].to_list() == t.snapshots()["snapshot_id"].to_list()
    with pytest.raises(TableAlreadyExists):
        ls.sql(spark, "CREATE TABLE new.u AS SELECT 1 AS a", catalog=made)


def test_procedures(spark, tmp_path):
    cat = lk.connect(tmp_path)
    cat.create_database("default")
    columns = {"k": "INT NOT NULL", "p": "STRING NOT NULL"}
    t = cat.create_table("default.t", columns, primary_keys=["k", "p"], partition_keys=["p"], options={"bucket": "1", "write-only": "true"})
    for n in range(4):
        t.append([{"k": n, "p": "ab"[n % 2]}])

    def call(text):
        return [tuple(row) for row in ls.sql(spark, f"CALL {text}", catalog=cat).collect()]

    made = int(t.snapshots()["time"][1].timestamp() * 1000)
    done = [(True,)]
    assert call("sys.create_tag('default.t', 'two', 2)") == done
    assert call("sys.create_tag(tag => 'three', `table` => 't', snapshot => 3L, time_retained => '1 d')") == done
    assert call(f"sys.create_tag_from_timestamp('t', 'since', {made})") == [("since", 2, made, None)]
    assert call("sys.rename_tag('t', 'since', 'then')") == done
    assert call("sys.replace_tag(table => 't', tag => 'then', snapshot => 1)") == done
    assert dict(t.tags().select("tag", "snapshot_id").rows()) == {"two": 2, "three": 3, "then": 1}
    assert call("sys.delete_tag('t', 'then,three')") == done
    assert call("sys.create_branch('t', 'b', 'two')") == done
    assert call("sys.create_branch(table => 't', branch => 'b', ignoreIfExists => true)") == done
    assert call("sys.rename_branch('t', 'b', 'c')") == done
    assert t.branches()["branch"].to_list() == ["c"]
    assert call("sys.compact(table => 't', partitions => 'p=a')") == done
    assert {row["partition"]: row["level"] for row in t.files().with_columns(pl.col("partition").cast(pl.String)).to_dicts()}
    assert sorted(t.files()["level"]) == [0, 0, 5]
    assert call("sys.compact('t', compact_strategy => 'full')") == done
    assert sorted(t.files()["level"]) == [5, 5]
    assert call("sys.compact_manifest('t')") == done
    assert call("sys.compact_database(including_databases => 'default')") == [("compacted 1 tables",)]
    assert call("sys.rewrite_file_index('t')") == [(0, 0)]
    assert call("sys.reset_consumer('t', 'me', 2)") == done
    assert call("sys.reset_consumer('t', 'you', 2)") == done
    assert call("sys.clear_consumers(table => 't', includingConsumers => 'm.*')") == done
    assert t.consumers()["consumer"].to_list() == ["you"]
    assert call("sys.clear_consumers('t', '', 'y.*')") == done
    assert t.consumers()["consumer"].to_list() == ["you"]
    assert call("sys.reset_consumer('t', 'you')") == done
    assert call("sys.mark_partition_done('t', 'p=a;p=b')") == done
    assert call("sys.expire_tags('t', '2020-01-01 00:00:00')") == [("No expired tags.",)]
    assert call("sys.expire_partitions(table => 't', expiration_time => '99999 d', expire_strategy => 'update-time')") == [("No expired partitions.",)]
    assert call("sys.trigger_tag_automatic_creation('t')") == done
    newest = t.snapshots()["snapshot_id"].max()
    assert call("sys.expire_snapshots(table => 't', retain_max => 2, retain_min => 2, older_than => '2100-01-01')") == [(newest - 2,)]
    assert call("sys.remove_orphan_files('t', dry_run => true)") == [(0, 0)]
    assert call("sys.remove_orphan_files('default.*', '2020-01-01')") == [(0, 0)]
    assert call("sys.rollback('t', version => 'two')") == [(newest, 2)]
    t.append([{"k": 9, "p": "a"}])
    assert call(f"sys.rollback_to_timestamp('t', {made + 1})") == [(3, 2)]
    t.append([{"k": 9, "p": "a"}])
    assert call("sys.rollback(table => 't', snapshot => 2)") == [(3, 2)]
    assert call("sys.rescale('t', 2)") == done
    assert t._context().options.bucket == 2
    assert call("sys.fast_forward('t', 'c')") == done
    assert call("sys.delete_branch('t', 'c')") == done
    with pytest.raises(Unsupported, match="folder"):
        call("sys.repair('default.t')")
    with pytest.raises(LakekitError, match="watermark"):
        call("sys.rollback_to_watermark('t', 5)")


def test_texts_are_read_as_spark_reads_them(spark):
    from lakekit.expressions.parser import SqlText
    from lakekit.expressions.scope import Scope, TableScope
    from lakekit.expressions.translation import translate_condition
    from lakekit.sql.tokenizer import TokenStream

    said = [r"'it''s'", r"'it\'s'", '"a""b"', r"'a\nb\\c\%'", "'{a};--b'"]
    wanted = spark.sql(f"SELECT {', '.join(said)}").first()
    assert [TokenStream.of(one, "spark").string() for one in said] == list(wanted)
    scope = Scope(sides=(TableScope(names=("t",), columns={"s": pl.String()}),))
    for one, value in zip(said, wanted, strict=True):
        expr = translate_condition(SqlText(f"s = {one}", "condition", "spark"), scope)
        assert pl.DataFrame({"s": [value, "other"]}).filter(expr).height == 1, one


def test_what_names_no_column_is_computed_by_spark(spark, tmp_path):
    cat = lk.connect(tmp_path)
    cat.create_database("shop")
    t = cat.create_table(
        "shop.t",
        {
            "id": "BIGINT NOT NULL",
            "n": "INT",
            "d": "DATE",
            "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
            "local": "TIMESTAMP(3)",
            "p": "DECIMAL(10, 2)",
            "x": "DOUBLE",
            "s": "STRING",
        },
        primary_keys=["id"],
        options={"bucket": "1"},
    )
    old, new = datetime(2001, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    t.append([{"id": k, "n": k, "d": at.date(), "at": at, "local": at.replace(tzinfo=None), "p": Decimal("2.25")} for k, at in enumerate([old, new] * 3)])

    def do(text):
        return rows(ls.sql(spark, text, catalog=cat))[0][1]

    assert do("DELETE FROM shop.t WHERE d < current_date() - INTERVAL 3 DAYS AND id = 0") == 1
    assert do("DELETE FROM shop.t WHERE at > current_timestamp() AND local > current_timestamp() AND at > current_date() AND id = 1") == 1
    assert do("DELETE FROM shop.t WHERE id IN (SELECT id + 1 FROM shop.t WHERE id < 3) AND n NOT IN (SELECT 7L UNION SELECT 8L)") == 1
    assert do("DELETE FROM shop.t WHERE id NOT IN (SELECT NULL UNION SELECT 7)") == 0
    assert do("DELETE FROM shop.t WHERE n IN (SELECT 1 WHERE false)") == 0
    assert do("DELETE FROM shop.t WHERE id = (SELECT max(id) FROM shop.t) AND EXISTS (SELECT 1 FROM shop.t)") == 1
    assert t.scan().collect()["id"].sort().to_list() == [2, 4]
    do("UPDATE shop.t SET p = p * 1.1, x = 1.5, s = id, at = TIMESTAMP '2024-03-31 10:00:00', local = TIMESTAMP '2024-03-31 10:00:00' WHERE id = 2")
    do("UPDATE shop.t SET p = n, x = n / 3, n = CAST('12' AS INT) - 2, d = date_add(DATE '2024-03-31', 1) WHERE id = 4")
    moment = datetime(2024, 3, 31, 10, tzinfo=UTC)
    found = {row["id"]: row for row in t.scan().collect().to_dicts()}
    assert (found[2]["p"], found[2]["x"], found[2]["s"]) == (Decimal("2.48"), 1.5, "2")
    assert (found[2]["at"], found[2]["local"]) == (moment, moment.replace(tzinfo=None))
    assert (found[4]["p"], found[4]["x"], found[4]["n"], found[4]["d"]) == (Decimal(4), 4 / 3, 10, date(2024, 4, 1))


def test_values_with_parts(spark, tmp_path):
    cat = lk.connect(tmp_path)
    cat.create_database("default")
    t = cat.create_table("default.t", {"k": "INT NOT NULL", "l": "ARRAY<STRING>", "r": "ROW<a INT, b STRING>"}, primary_keys=["k"], options={"bucket": "1"})
    ls.sql(spark, "INSERT INTO default.t VALUES (1, array(), struct(7, 'q')), (2, null, null)", catalog=cat)
    ls.sql(spark, "INSERT INTO default.t SELECT 3, array(null), named_struct('b', null, 'a', 1)", catalog=cat)
    assert t.scan().collect().sort("k").rows() == [(1, [], {"a": 7, "b": "q"}), (2, None, None), (3, [None], {"a": 1, "b": None})]
    ls.sql(spark, "DELETE FROM default.t WHERE k = 3", catalog=cat)
    ls.sql(spark, "UPDATE default.t SET l = array('x', 'y'), r = named_struct('a', 5, 'b', 'n')", catalog=cat)
    ls.sql(spark, "UPDATE default.t SET r.b = concat('k', CAST(k AS STRING)) WHERE k = 2", catalog=cat)
    assert t.scan().collect().sort("k").rows() == [(1, ["x", "y"], {"a": 5, "b": "n"}), (2, ["x", "y"], {"a": 5, "b": "k2"})]


def test_what_a_catalog_says_of_itself(spark, tmp_path):
    cat = lk.connect(tmp_path)

    def do(text):
        return [tuple(row) for row in ls.sql(spark, text, catalog=cat).collect()]

    do("CREATE DATABASE lake")
    do(
        "CREATE TABLE lake.t (k BIGINT NOT NULL COMMENT 'the key', n INT DEFAULT -5, at DATE DEFAULT DATE '2024-03-31', ok BOOLEAN DEFAULT TRUE,"
        " s STRING DEFAULT NULL)"
        " COMMENT 'all' PARTITIONED BY (day STRING, hour INT) TBLPROPERTIES ('bucket' = '2', 'primary-key' = 'k,day,hour')"
    )
    do("CREATE TABLE lake.other (a INT)")
    t = cat["lake.t"]
    assert (t._context().schema.names[-2:], t.partition_keys) == (("day", "hour"), ("day", "hour"))
    assert [field.default for field in t.schema.fields[:5]] == [None, "-5", "2024-03-31", "true", None]
    do("INSERT INTO lake.t (k, day, hour) VALUES (1, 'mon', 1), (2, 'mon', 2), (3, 'tue', 1)")
    assert do("SELECT n, at, ok FROM lake.t WHERE k = 1") == [(-5, date(2024, 3, 31), True)]
    do("INSERT INTO lake.t PARTITION (DAY = 'default', hour = 1) VALUES (4, DEFAULT, NULL, default, 'default')")
    do("INSERT INTO lake.t (K, s, Day, hour) SELECT 5L, 'x', 'default', 1")
    do("INSERT INTO lake.t BY NAME SELECT 6L AS K, 'default' AS DAY, 1 AS hour")
    assert do("SELECT k, n, at, ok, s FROM lake.t TIMESTAMP AS OF date_add(current_date(), 1) WHERE day = 'default' ORDER BY k") == [
        (k, -5, date(2024, 3, 31), True, {4: "default", 5: "x"}.get(k)) for k in (4, 5, 6)
    ]
    do("ALTER TABLE lake.t DROP PARTITION (day = 'default')")
    assert do("ANALYZE TABLE lake.t COMPUTE STATISTICS")[0][0] == do("SELECT snapshot_id FROM lake.`t$statistics`")[0][0] + 1
    do("ANALYZE TABLE lake.t COMPUTE STATISTICS FOR COLUMNS k, day")
    assert do("SELECT colstat FROM lake.`t$statistics`")[0][0].count("distinctCount") == 2
    do("ANALYZE TABLE lake.t COMPUTE STATISTICS FOR ALL COLUMNS")
    assert do("SHOW DATABASES LIKE 'la*'") == [("lake",)]
    assert do("SHOW DATABASES LIKE 'x*'") == []
    assert do("SHOW TABLES IN lake LIKE 'O*|x'") == [("lake", "other", False)]
    assert do("SHOW TABLES FROM lake 't'") == [("lake", "t", False)]
    assert do("SHOW COLUMNS IN lake.other") == do("SHOW COLUMNS FROM other IN lake") == [("a",)]
    assert do("SHOW TBLPROPERTIES lake.t") == [("bucket", "2"), ("comment", "all"), ("primary-key", "k,day,hour")]
    assert do("SHOW TBLPROPERTIES lake.t ('bucket')") == [("bucket", "2")]
    assert "does not have" in do("SHOW TBLPROPERTIES lake.t (nope.x)")[0][1]
    assert do("SHOW PARTITIONS lake.t PARTITION (day = 'mon')") == [("day=mon/hour=1",), ("day=mon/hour=2",)]
    assert do("DESCRIBE lake.t k") == [("col_name", "k"), ("data_type", "bigint"), ("comment", "the key")]
    assert do("DESC QUERY SELECT 1 AS a") == [("a", "int", None)]
    plain, more = do("DESCRIBE lake.t"), do("DESCRIBE TABLE EXTENDED lake.t")
    assert more[: len(plain)] == plain
    said = {name: value for name, value, _ in more[len(plain) :]}
    assert (said["Name"], said["Comment"], said["Provider"], said["day"]) == ("lake.t", "all", "paimon", "string")
    assert said["Location"].endswith("lake.db/t")
    assert said["Table Properties"] == "[bucket=2,primary-key=k,day,hour]"
    for text in (
        "ALTER TABLE lake.other ADD COLUMNS b INT, c STRING",
        "ALTER TABLE lake.other ALTER b TYPE BIGINT, c COMMENT 'x'",
        "ALTER TABLE lake.other CHANGE COLUMN b COMMENT 'y'",
        "ALTER TABLE lake.other ALTER COLUMN b SET DEFAULT -3",
        "ALTER TABLE lake.other DROP COLUMN IF EXISTS nope",
        "ALTER TABLE lake.other DROP COLUMNS IF EXISTS (nope, c)",
        "ALTER TABLE lake.t DROP IF EXISTS PARTITION (day = 'mon', hour = 2)",
        "CALL sys.compact('lake.t', partitions => \"day='tue',hour=1\", options => 'sink.parallelism=4')",
    ):
        do(text)
    assert do("DESCRIBE lake.other") == [("a", "int", None), ("b", "bigint", "y")]
    assert cat["lake.other"].schema.fields[1].default == "-3"
    assert dict(t.files().select(pl.col("partition").cast(pl.String), "level").rows()) == {"day=mon/hour=1": 0, "day=tue/hour=1": 5}


def test_what_is_no_text(spark, cat):
    with pytest.raises(TypeError, match="a text"):
        ls.sql(spark, None, catalog=cat)


def test_moments_are_of_the_sessions_zone(spark, cat, monkeypatch):
    from lakekit.expressions.parser import SqlText
    from lakekit.expressions.scope import Scope, TableScope
    from lakekit.expressions.translation import translate_condition
    from lakekit.spark.sql import SparkBackend
    from lakekit.sql.backend import Statement
    from lakekit.sql.calls import Call
    from lakekit.sql.tokenizer import TokenStream

    side = TableScope(names=("t",), columns={"at": pl.Datetime("us", "UTC")})
    text = SqlText("at = TIMESTAMP '2024-07-01 12:00:00'", "condition", "spark")
    found = translate_condition(text, Scope(sides=(side,), zone="Europe/Berlin"))
    frame = pl.DataFrame({"at": [datetime(2024, 7, 1, 10, tzinfo=UTC), datetime(2024, 7, 1, 12, tzinfo=UTC)]}, schema=dict(side.columns))
    assert frame.filter(found)["at"].to_list() == [datetime(2024, 7, 1, 10, tzinfo=UTC)]
    monkeypatch.setattr(SparkBackend, "zone", property(lambda _: "Europe/Berlin"))
    call = Call(Statement(backend=SparkBackend(spark), catalog=cat, tokens=TokenStream.of("CALL")))
    assert call.time("2024-07-01 12:00:00") == datetime(2024, 7, 1, 10, tzinfo=UTC)


def test_a_moment_without_a_zone_is_of_utc_in_python_and_of_the_session_in_sql(spark, cat):
    """What is said to lakekit means the same with and without Spark; what is said to Spark means what Spark says."""
    t = cat.create_table("shop.moments", {"h": "INT", "at": "TIMESTAMP_LTZ(6)"})
    t.append([{"h": hour, "at": datetime(2024, 7, 1, hour, tzinfo=UTC)} for hour in (9, 10, 11, 12)])
    where = "at >= '2024-07-01 12:00:00'"
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        for native in ("on", "off"):
            assert [row.h for row in ls.read(spark, t, where=where, options={"spark.read.native": native}).collect()] == [12]
        assert sorted(row.h for row in ls.read(spark, t).where(where).collect()) == [10, 11, 12]
        assert sorted(row.h for row in ls.sql(spark, f"SELECT h FROM shop.moments WHERE {where}", catalog=cat).collect()) == [10, 11, 12]
        assert [row.h for row in ls.read(spark, t, where="at >= TIMESTAMP '2024-07-01 12:00:00'").collect()] == [12]
        ls.delete(spark, t, where)
        assert sorted(t.scan().collect()["h"]) == [9, 10, 11]
        ls.sql(spark, f"DELETE FROM shop.moments WHERE {where}", catalog=cat)
        assert t.scan().collect()["h"].to_list() == [9]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
        cat.drop_table("shop.moments")
