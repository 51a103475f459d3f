"""A table after `ls.write` is the table after the same rows through `t.append`, `t.upsert` and `t.overwrite`."""

from __future__ import annotations

from dataclasses import astuple
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import lakekit as lk
from lakekit.errors import Conflict, InvalidOption, SchemaMismatch, Unsupported, ValueOutOfRange

ls = pytest.importorskip("lakekit.spark", exc_type=Unsupported)
from lakekit.spark import write_task  # noqa: E402
from lakekit.write import value_casting  # noqa: E402

pytestmark = pytest.mark.spark

COLUMNS = {"k": "BIGINT NOT NULL", "p": "STRING NOT NULL", "v": "STRING", "n": "INT"}
KINDS = {
    "fixed": {"primary_keys": ["k"], "options": {"bucket": "3"}},
    "fixed in partitions": {"primary_keys": ["k", "p"], "partition_keys": ["p"], "options": {"bucket": "2"}},
    "fixed append": {"options": {"bucket": "3", "bucket-key": "k"}},
    "unaware": {"partition_keys": ["p"]},
    "dynamic": {"primary_keys": ["k", "p"], "partition_keys": ["p"], "options": {"dynamic-bucket.target-row-num": "40"}},
    "cross": {"primary_keys": ["k"], "partition_keys": ["p"]},
    "postponed": {"primary_keys": ["k"], "options": {"bucket": "-2"}},
    "postponed and placed": {"primary_keys": ["k"], "options": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "true"}},
}


def table(path, **how):
    return lk.create(path, COLUMNS, **how)


def rows(first: int, last: int, v: str = "v") -> pl.DataFrame:
    k = pl.int_range(first, last)
    return pl.select(k=k, p=pl.format("p{}", k % 3), v=pl.format("{}-{}", pl.lit(v), k), n=(k % 7).cast(pl.Int32))


def frame_of(spark, rows: pl.DataFrame):
    return spark.createDataFrame(rows.to_arrow(compat_level=pl.CompatLevel.oldest()))


def read(t) -> pl.DataFrame:
    return t.scan().collect().sort("k", "p", "v")


def lie(t) -> pl.DataFrame:
    """Which rows lie in which bucket."""
    return t.scan(raw=True).collect().join(t.files().select("bucket", "partition", _file="file_name"), on="_file").select("bucket", "partition", "k").sort("k")


@pytest.mark.parametrize("kind", KINDS)
def test_rows_written_by_spark_are_those_written_here(spark, tmp_path, kind):
    mine, theirs = table(tmp_path / "mine", **KINDS[kind]), table(tmp_path / "theirs", **KINDS[kind])
    for batch in (rows(0, 200), rows(150, 300, "w")):
        done, wanted = ls.write(frame_of(spark, batch), mine), theirs.append(batch)
        assert (done.kinds, done.row_count) == (wanted.kinds, wanted.row_count)
    assert mine.snapshots()["total_record_count"].to_list() == theirs.snapshots()["total_record_count"].to_list()
    report = mine.check(deep=True)
    assert report.ok, report
    if not kind.startswith("dynamic") and kind != "cross":
        assert lie(mine).drop("bucket" if kind == "unaware" else []).equals(lie(theirs).drop("bucket" if kind == "unaware" else []))
    for one in (mine, theirs):
        if kind.startswith("postponed"):
            one.compact()
    assert read(mine).equals(read(theirs))


def test_keys_of_dynamic_buckets_lie_in_one_each_however_many_tasks(spark, tmp_path):
    t = table(tmp_path / "t", primary_keys=["k", "p"], partition_keys=["p"], options={"dynamic-bucket.target-row-num": "25"})
    for count, batch in ((1, rows(0, 200)), (5, rows(100, 300, "w")), (3, rows(0, 400, "x")), (None, rows(350, 450, "y"))):
        fixed = {} if count is None else {"dynamic-bucket.assigner-parallelism": str(count)}
        if count is None:
            t.append(batch)
        else:
            ls.write(frame_of(spark, batch), t.with_options(fixed))
    found = lie(t).unique()
    assert found.height == 450
    assert found.group_by("partition").agg(pl.col("bucket").n_unique())["bucket"].min() >= 6
    assert t.check(deep=True).ok
    assert read(t)["v"].str.head(1).to_list() == ["x"] * 350 + ["y"] * 100


def test_new_keys_stay_within_the_buckets_there_may_be(spark, tmp_path):
    options = {"dynamic-bucket.target-row-num": "10", "dynamic-bucket.max-buckets": "3", "dynamic-bucket.assigner-parallelism": "8"}
    t = table(tmp_path / "t", primary_keys=["k"], options=options)
    ls.write(frame_of(spark, rows(0, 100)), t)
    ls.write(frame_of(spark, rows(50, 150, "w")), t)
    assert set(t.files()["bucket"]) == {0, 1, 2}
    assert lie(t).unique().height == 150 == read(t).height


@pytest.mark.parametrize("engine", ["first-row", "aggregation", "partial-update"])
def test_engines_merge_what_spark_wrote(spark, tmp_path, engine):
    options = {"bucket": "2", "merge-engine": engine} | ({"fields.n.aggregate-function": "sum"} if engine == "aggregation" else {})
    mine, theirs = (table(tmp_path / name, primary_keys=["k"], options=options) for name in ("mine", "theirs"))
    for batch in (rows(0, 60), rows(30, 90, "w").with_columns(v=pl.when(pl.col("k") % 2 == 0).then("v"))):
        ls.write(frame_of(spark, batch), mine, mode="upsert")
        theirs.upsert(batch)
    for one in (mine, theirs):
        one.compact(full=True)
    assert read(mine).equals(read(theirs))


def test_kinds_of_rows(spark, tmp_path):
    t = table(tmp_path / "t", primary_keys=["k"], options={"bucket": "2"})
    ls.write(frame_of(spark, rows(0, 20)), t)
    kinds = pl.Series("op", ["-D", "+U"] * 10)
    ls.write(frame_of(spark, rows(0, 20, "w").with_columns(kinds)), t, mode="upsert", row_kind="op")
    assert read(t)["k"].to_list() == list(range(1, 20, 2))
    with pytest.raises(ValueOutOfRange, match="'no' is no row kind"):
        ls.write(frame_of(spark, rows(0, 2).with_columns(op=pl.lit("no"))), t, row_kind="op")


# ---- overwrite ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fixed in partitions", "unaware", "dynamic"])
def test_overwrites(spark, tmp_path, kind):
    mine, theirs = table(tmp_path / "mine", **KINDS[kind]), table(tmp_path / "theirs", **KINDS[kind])
    for one in (mine, theirs):
        one.append(rows(0, 90))
    some = rows(0, 90, "w").filter(p="p1")
    steps = [
        (some, {"partition": {"p": "p1"}}, {}),  # static
        (rows(0, 30, "x").filter(pl.col("p") != "p0"), {}, {}),  # dynamic
        (some.clear(), {"partition": {"p": "p2"}}, {}),
        (some.clear(), {}, {}),  # nothing written, nothing goes
        (rows(5, 9, "y"), {}, {"dynamic-partition-overwrite": "false"}),
        (some.clear(), {}, {"dynamic-partition-overwrite": "false"}),
    ]
    for batch, how, options in steps:
        done = ls.write(frame_of(spark, batch), mine.with_options(options), mode="overwrite", **how)
        wanted = theirs.with_options(options).overwrite(batch, **how)
        assert (done.kinds, done.removed_file_count > 0) == (wanted.kinds, wanted.removed_file_count > 0)
        assert read(mine).equals(read(theirs))
        assert mine.check(deep=True).ok
    assert not read(mine).height


def test_a_row_outside_of_what_is_replaced(spark, tmp_path):
    t = table(tmp_path / "t", **KINDS["unaware"])
    t.append(rows(0, 9))
    files = left(t)
    with pytest.raises(SchemaMismatch, match="do not belong to the partitions"):
        ls.write(frame_of(spark, rows(0, 9)), t, mode="overwrite", partition={"p": "p1"})
    assert (len(t.snapshots()), left(t)) == (1, files)


# ---- what does not fit ----------------------------------------------------------------------------------------------------------------------


def left(t) -> set[str]:
    return {path.name for path in Path(t.location).rglob("*") if path.is_file() and "bucket-" in path.parent.name}


def same_error(spark, t, batch: pl.DataFrame, kind):
    with pytest.raises(kind) as here:
        t.append(batch)
    with pytest.raises(kind) as there:
        ls.write(frame_of(spark, batch), t)
    wanted = str(here.value)
    for argument, instead in zip(astuple(value_casting.DEFAULT_HINTS), astuple(write_task.SPARK_HINTS), strict=True):  # ls.write has none
        wanted = wanted.replace(argument, instead)
    assert str(there.value) == wanted
    assert there.value.column == here.value.column
    assert (left(t), len(t.snapshots())) == (set(), 0)


def test_columns_are_looked_at_before_a_task_runs(spark, tmp_path, monkeypatch):
    t = table(tmp_path / "t", **KINDS["fixed"])
    monkeypatch.setattr(type(frame_of(spark, rows(0, 1))), "mapInArrow", None)
    same_error(spark, t, rows(0, 2).with_columns(extra=pl.lit(1)), SchemaMismatch)
    same_error(spark, t, rows(0, 2).drop("p"), SchemaMismatch)
    same_error(spark, t, rows(0, 2).with_columns(v=pl.lit(1)), SchemaMismatch)


@pytest.mark.parametrize("kind", ["fixed", "unaware"])
def test_a_bad_value_is_told_as_here_and_leaves_nothing(spark, tmp_path, kind):
    t = table(tmp_path / "t", **KINDS[kind])
    same_error(spark, t, rows(0, 1).with_columns(n=pl.lit(2**31)), ValueOutOfRange)
    same_error(spark, t, rows(0, 1).with_columns(p=pl.lit(None, pl.String)), ValueOutOfRange)
    same_error(spark, t, rows(0, 1).with_columns(k=pl.lit(None, pl.Int64)), ValueOutOfRange)


def test_what_makes_no_sense(spark, tmp_path):
    frame, keyed, plain = frame_of(spark, rows(0, 1)), table(tmp_path / "k", **KINDS["fixed"]), table(tmp_path / "a", **KINDS["unaware"])
    for t, how, words in (
        (keyed, {"mode": "replace"}, "'append', 'upsert', 'overwrite'"),
        (keyed, {"partition": {"p": "a"}}, "mode='overwrite'"),
        (plain, {"mode": "upsert"}, "no primary key"),
        (plain, {"row_kind": "v"}, "no primary key"),
        (keyed, {"identifier": 1}, "commit_user"),
    ):
        with pytest.raises(InvalidOption, match=words):
            ls.write(frame, t, **how)


def test_what_is_no_frame_of_rows(spark, tmp_path):
    t = table(tmp_path / "t", **KINDS["unaware"])
    with pytest.raises(TypeError, match=r"ls\.write takes a DataFrame of Spark, not DataFrame: t\.append takes rows"):
        ls.write(rows(0, 1), t)
    with pytest.raises(TypeError, match=r"lakekit\.spark takes a table"):
        ls.write(frame_of(spark, rows(0, 1)), None)
    with pytest.raises(InvalidOption, match="foreachBatch"):
        ls.write(spark.readStream.format("rate").load(), t)


def test_advice_is_of_what_a_write_of_spark_takes(spark, tmp_path):
    t = table(tmp_path / "t", **KINDS["unaware"])
    with pytest.raises(SchemaMismatch, match=r"Cast it in Spark$"):
        ls.write(frame_of(spark, rows(0, 2).with_columns(v=pl.lit(True))), t)
    with pytest.raises(SchemaMismatch, match=r"Drop it, or add it to the table with t\.alter$"):
        ls.write(frame_of(spark, rows(0, 2).with_columns(another=pl.lit(1))), t)
    coarse = lk.create(tmp_path / "c", {"at": "TIMESTAMP(3)"})
    with pytest.raises(ValueOutOfRange, match=r"Cut it with date_trunc\('MILLISECOND', …\) in Spark$"):
        ls.write(spark.sql("SELECT timestamp_ntz'2024-03-31 12:00:00.000001' AS at"), coarse)


def test_a_time_beyond_the_day_is_no_null(spark, tmp_path):
    t = lk.create(tmp_path / "t", {"k": "INT", "at": "TIME(3)"})
    for count in (86_400_000, -1):
        with pytest.raises(ValueOutOfRange, match=f"column 'at' of the rows for t holds {count} ms of a day"):
            ls.write(spark.sql(f"SELECT 1 AS k, {count} AS at"), t)
    assert len(t.snapshots()) == 0


@pytest.mark.parametrize("kind", ["fixed", "unaware"])
def test_a_text_that_is_no_utf8_is_refused(spark, tmp_path, kind):
    t = table(tmp_path / "t", **KINDS[kind])
    with pytest.raises(ValueOutOfRange, match="column 'p' of the rows for t holds a text that is no UTF-8"):
        ls.write(spark.sql("SELECT 1L AS k, CAST(X'FFFE' AS STRING) AS p, 'v' AS v"), t)
    assert (left(t), len(t.snapshots())) == (set(), 0)


# ---- once -----------------------------------------------------------------------------------------------------------------------------------


def test_a_pair_that_was_committed_is_not_written_again(spark, tmp_path):
    t = table(tmp_path / "t", **KINDS["fixed"])
    first = ls.write(frame_of(spark, rows(0, 9)), t, commit_user="job", identifier=1)
    files = left(t)
    again = ls.write(frame_of(spark, rows(0, 9)), t, commit_user="job", identifier=1)
    assert (again.snapshot_ids, again.row_count, left(t)) == (first.snapshot_ids, 9, files)
    ls.write(frame_of(spark, rows(0, 9, "w")), t, commit_user="job", identifier=2)
    with pytest.raises(Conflict, match="must not fall"):
        ls.write(frame_of(spark, rows(0, 9)), t, commit_user="job", identifier=0)
    assert len(t.snapshots()) == 2


def test_an_empty_frame(spark, tmp_path):
    t = table(tmp_path / "t", **KINDS["fixed"])
    assert ls.write(frame_of(spark, rows(0, 0)), t).snapshot_ids == ()
    assert ls.write(frame_of(spark, rows(0, 0)), t, commit_user="job", identifier=1).kinds == ("APPEND",)


def test_two_drivers(spark, tmp_path, monkeypatch):
    """The second one commits while the first one's tasks run: rows are added to rows; of keys that look for buckets one job is refused, and leaves nothing."""
    from lakekit.spark import batch_write

    collected = batch_write.collect_messages
    for kind in ("fixed", "dynamic"):
        t = table(tmp_path / kind, **KINDS[kind])
        before = set()

        def meanwhile(handle, answers, t=t, before=before):
            found = collected(handle, answers)
            monkeypatch.setattr(batch_write, "collect_messages", collected)
            ls.write(frame_of(spark, rows(50, 150, "w")), t)
            before |= {name for name in left(t) if name in set(t.files()["file_name"])}
            return found

        monkeypatch.setattr(batch_write, "collect_messages", meanwhile)
        if kind == "fixed":
            ls.write(frame_of(spark, rows(0, 100)), t)
            assert read(t)["v"].str.head(1).to_list() == ["v"] * 100 + ["w"] * 50
            continue
        with pytest.raises(Conflict, match="hash index"):
            ls.write(frame_of(spark, rows(0, 100)), t)
        assert len(t.snapshots()) == 1
        assert {name for name in left(t) if name.startswith("data-")} == before


def test_a_table_of_a_catalog(spark, tmp_path):
    """Tasks get nothing of the catalog, which may hold connections and locks; the commit goes through it."""
    with lk.connect(str(tmp_path / "w"), metastore="jdbc", uri=f"sqlite:///{tmp_path}/c.db", options={"lock.enabled": "true"}) as cat:
        cat.create_database("db")
        t = cat.create_table("db.t", COLUMNS, **KINDS["fixed"])
        ls.write(frame_of(spark, rows(0, 20)), t)
        assert ls.compact(spark, cat["db.t"], full=True).kinds == ("COMPACT",)
        assert read(cat["db.t"]).equals(rows(0, 20))
        with pytest.raises(InvalidOption, match="system table"):
            ls.write(frame_of(spark, rows(0, 1)), cat["db.t$files"])


# ---- Spark's own types ----------------------------------------------------------------------------------------------------------------------


def test_every_type_of_spark(spark, tmp_path):
    sql = """SELECT id AS k, cast(id AS tinyint) AS i8, cast(id AS smallint) AS i16, cast(id AS int) AS i32, cast(id AS float) AS f32,
        cast(id AS double) AS f64, id % 2 = 0 AS b, cast(id AS decimal(20, 3)) AS d, date'2024-03-31' AS day, timestamp_ntz'2024-03-31 01:02:03.123456' AS at,
        timestamp'2024-03-31 01:02:03.123456Z' AS when, cast(concat('s', id) AS binary) AS bin, array(id, null) AS a, map('a', id) AS m,
        named_struct('x', id, 'y', array('z')) AS r, cast(id * 1000 AS int) AS time, NULL AS nothing FROM range(5)"""
    types = {
        "k": "BIGINT NOT NULL", "i8": "TINYINT", "i16": "SMALLINT", "i32": "INT", "f32": "FLOAT", "f64": "DOUBLE", "b": "BOOLEAN", "d": "DECIMAL(20, 3)",
        "day": "DATE", "at": "TIMESTAMP(6)", "when": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "bin": "BYTES", "a": "ARRAY<BIGINT>", "m": "MAP<STRING, BIGINT>",
        "r": "ROW<x BIGINT, y ARRAY<STRING>>", "time": "TIME(3)", "nothing": "STRING",
    }  # fmt: skip
    t = lk.create(tmp_path / "t", types, primary_keys=["k"], options={"bucket": "2"})
    ls.write(spark.sql(sql), t)
    third = t.scan().filter(pl.col("k") == 3).collect().to_dicts()[0]
    assert (third["i8"], third["f64"], str(third["d"]), third["bin"], third["a"], third["r"]) == (3, 3.0, "3.000", b"s3", [3, None], {"x": 3, "y": ["z"]})
    assert (third["at"].isoformat(), third["when"].isoformat()) == ("2024-03-31T01:02:03.123456", "2024-03-31T01:02:03.123456+00:00")
    assert (third["time"].isoformat(), third["nothing"], third["m"]) == ("00:00:03", None, [{"key": "a", "value": 3}])


@pytest.mark.parametrize("bucket", ["2", "-1"])
def test_names_and_zones_that_spark_reads_otherwise(spark, tmp_path, bucket):
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.sql("SELECT id AS `a.b`, id AS `c``d`, timestamp'2024-03-31 01:02:03' AS `when` FROM range(20)")
        columns = {"a.b": "BIGINT NOT NULL", "c`d": "BIGINT", "when": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}
        t = lk.create(tmp_path / "t", columns, primary_keys=["a.b"], options={"bucket": bucket})
        ls.write(frame, t)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert t.scan().collect().sort("a.b").row(7) == (7, 7, datetime(2024, 3, 31, 5, 2, 3, tzinfo=UTC))


def test_where_spark_cannot_be_told_the_partition(spark, tmp_path, monkeypatch):
    """As in Spark 4.0: rows find their task by numbers that Spark's own hash sends there."""
    from pyspark.sql import functions

    from lakekit.spark import batch_write, write_task

    monkeypatch.delattr(functions, "arrow_udf")
    monkeypatch.setattr(batch_write, "_write_in_tasks", lambda df, job, real=batch_write._write_in_tasks: real(df, job, is_exact=False))
    mine, theirs = (table(tmp_path / name, **KINDS["fixed"]) for name in ("mine", "theirs"))
    ls.write(frame_of(spark, rows(0, 100)), mine)
    theirs.append(rows(0, 100))
    assert lie(mine).equals(lie(theirs))
    assert len(mine.files()) == 3
    signs = write_task.partition_signs(7)
    sent = spark.createDataFrame(pa.table({"at": pa.array(signs, pa.int32())})).repartition(7, "at").selectExpr("at", "spark_partition_id() AS task")
    assert {row.at: row.task for row in sent.collect()} == {sign: at for at, sign in enumerate(signs)}
