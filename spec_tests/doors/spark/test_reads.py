"""Reads on Spark: what is asked is what is read, whichever way each file goes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from pyspark.sql import functions as sql

import lakekit as lk
import lakekit.spark as ls
from lakekit.read import planner as plans, time_travel
from lakekit.spark import batch_read, native_parquet, tasks
from lakekit.storage.local import LocalStorage
from lakekit.testing.fixtures import fixtures
from lakekit.types import parse
from spec_tests.doors.spark.equal import MICROSECONDS, as_spark, expected, reads_natively, rows
from spec_tests.reliability.s3_server import SECRET_KEY, S3Server

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Hidden(LocalStorage):
    """A disk that nothing but lakekit opens."""

    def polars_path(self, path: str) -> None:
        return None


HIDDEN, TABLES = Hidden(), fixtures() / "tables"
COLUMNS = {
    "k": "INT NOT NULL",
    "p": "STRING",
    "b": "BOOLEAN",
    "x": "DOUBLE",
    "f": "FLOAT",
    "d": "DATE",
    "t": "TIMESTAMP(3)",
    "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "m": "DECIMAL(10, 2)",
    "s": "STRING",
}
ROWS = [
    {"k": 1, "p": "a", "b": True, "x": 1.5, "f": 0.1, "d": date(2024, 1, 1), "s": "a.b", "m": Decimal("1.25"), "t": datetime(2024, 1, 1, 0, 0, 0, 1000)},  # noqa: DTZ001 - a wall clock
    {"k": 2, "p": "a", "b": False, "x": float("nan"), "f": -0.0, "d": date(1500, 2, 3), "s": "", "z": datetime(1900, 1, 1, tzinfo=UTC)},
    {"k": 3, "p": "b", "b": None, "x": -0.0, "f": float("inf"), "s": "é", "m": Decimal(-3), "t": datetime(1969, 12, 31, 23, 59, 59, 999000)},  # noqa: DTZ001
    {"k": 4, "p": None, "x": None, "z": datetime(2024, 1, 1, 12, 0, 0, 1, tzinfo=UTC)},
]


@pytest.fixture(scope="module")
def append(tmp_path_factory: pytest.TempPathFactory) -> lk.Table:
    """An append table of two partitions and one that is null."""
    table = lk.create(tmp_path_factory.mktemp("append") / "t", COLUMNS, partition_keys=["p"])
    table.append(ROWS)
    table.append([{**row, "k": row["k"] + 10} for row in ROWS])
    return table


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> lk.Table:
    """A key table of two buckets: one to merge with deletes in it, one that a compaction left clean."""
    table = lk.create(
        tmp_path_factory.mktemp("keyed") / "t", {"k": "INT", "v": "STRING", "n": "BIGINT"}, primary_keys=["k"], options={"bucket": "2", "write-only": "true"}
    )
    table.upsert(pl.DataFrame({"k": range(100), "v": [f"a{k}" for k in range(100)], "n": range(100)}))
    table.compact(full=True)
    table.upsert(pl.DataFrame({"k": range(50, 120), "v": ["b"] * 70, "n": [None] * 70}))
    table.delete("k >= 60 AND k < 70")
    return table


# ---- which way -----------------------------------------------------------------------------------------------------------------------------


def test_files_without_a_merge_go_to_spark_and_may_not(spark: SparkSession, append: lk.Table) -> None:
    found = {mode: ls.read(spark, append, options={"spark.read.native": mode}) for mode in ("auto", "on", "off")}
    assert {mode: reads_natively(frame) for mode, frame in found.items()} == {"auto": True, "on": True, "off": False}
    wanted = expected(append)
    assert all(rows(frame) == wanted for frame in found.values())
    assert len({frame.schema.json() for frame in found.values()}) == 1


def test_a_key_table_is_merged(spark: SparkSession, keyed: lk.Table) -> None:
    found = ls.read(spark, keyed)
    assert rows(found) == expected(keyed)
    assert found.count() == 110
    assert not reads_natively(found)


def test_what_a_compaction_left_goes_to_spark(spark: SparkSession, keyed: lk.Table) -> None:
    found = ls.read(spark, keyed, at=2)
    assert reads_natively(found)
    assert rows(found) == expected(keyed, at=2)


def test_files_that_may_hold_deletes_never_go_to_spark(spark: SparkSession, keyed: lk.Table, tmp_path: Path) -> None:
    table = lk.create(tmp_path / "t", {"k": "INT", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1", "write-only": "true"})
    table.upsert([{"k": 1, "v": "a", "kind": "-D"}, {"k": 2, "v": "b", "kind": "+I"}], row_kind="kind")
    found = ls.read(spark, table)
    assert not reads_natively(found)
    assert rows(found) == ["(2, 'b')"]


def test_rows_under_deletion_vectors_stay_deleted(spark: SparkSession, tmp_path: Path) -> None:
    table = lk.create(tmp_path / "t", {"k": "INT"}, options={"deletion-vectors.enabled": "true"})
    table.append(pl.DataFrame({"k": pl.Series(range(10), dtype=pl.Int32)}))
    table.append(pl.DataFrame({"k": pl.Series([20], dtype=pl.Int32)}))
    table.delete("k % 2 = 0 AND k < 20")
    found = ls.read(spark, table)
    assert reads_natively(found)  # the file that has no vector
    assert rows(found) == sorted(f"({k},)" for k in (1, 3, 5, 7, 9, 20))


def test_names_that_differ_in_case_alone_do_not(tmp_path: Path) -> None:
    table = lk.create(tmp_path / "t", {"a": "INT", "A": "INT"})
    table.append([{"a": 1, "A": 2}])
    assert not native_parquet.native_read_mask(planned(table), table.schema.fields).any()
    for name, alike in (("other", True), ("_key_k", False), ("_Value_Kind", False)):
        table = lk.create(tmp_path / name, {"k": "INT", name: "INT"}, primary_keys=["k"], options={"bucket": "1"})
        table.upsert([{"k": 1, name: 2}])
        assert native_parquet.native_read_mask(planned(table), table.schema.fields).any() == alike


@pytest.mark.parametrize("text", ["TIME(3)", "TIMESTAMP(9)", "VARIANT", "ARRAY<TIME(0)>", "MULTISET<INT>", "ROW<t TIMESTAMP(7)>"])
def test_types_that_spark_reads_otherwise_do_not(text: str, tmp_path: Path) -> None:
    table = lk.create(tmp_path / "t", {"k": "INT", "v": text})
    table.append([{"k": 1, "v": None}])
    assert [native_parquet.native_read_mask(planned(table), table.schema.fields[:count]).any() for count in (1, 2)] == [True, False]


def test_timestamps_that_old_writers_stored_otherwise_do_not(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = lk.create(tmp_path / "t", {"t": "TIMESTAMP(6)"})
    table.append([{"t": datetime(2024, 1, 1)}])  # noqa: DTZ001 - a wall clock
    [path] = (tmp_path / "t" / "bucket-0").glob("*.parquet")
    assert native_parquet.native_read_mask(planned(table), table.schema.fields).all()
    for column, how in ((pa.array([0], pa.timestamp("us")), {"use_deprecated_int96_timestamps": True}), (pa.array([0], pa.timestamp("us", "UTC")), {})):
        pq.write_table(pa.table({"t": column}), path, **how)
        assert not native_parquet.native_read_mask(planned(table), table.schema.fields).any()
    path.write_bytes(b"no Parquet")
    assert not native_parquet.native_read_mask(planned(table), table.schema.fields).any()


def planned(table: lk.Table, **options: str) -> plans.Plan:
    handle = batch_read.context_for_tasks(table, None, options)
    return plans.plan_read(handle, time_travel.resolve_position(handle))


# ---- what is asked -------------------------------------------------------------------------------------------------------------------------


def test_columns_in_the_order_that_is_asked(spark: SparkSession, append: lk.Table, keyed: lk.Table) -> None:
    for table, names in ((append, ["s", "k"]), (keyed, ["n", "k"]), (append, ["p"])):
        found = ls.read(spark, table, columns=names)
        assert found.columns == names
        assert rows(found) == as_spark(table.scan().select(names).collect())


def test_a_condition_may_use_other_columns(spark: SparkSession, keyed: lk.Table) -> None:
    assert rows(ls.read(spark, keyed, columns=["v"], where="n > 40 AND k < 45")) == as_spark(
        keyed.scan().filter(pl.col("n") > 40, pl.col("k") < 45).select("v").collect()
    )


SAID = [
    pl.col("k") > 2,
    (pl.col("k") > 2) | (pl.col("s") == "a.b"),
    pl.col("k").is_in([1, 13]) & pl.col("b"),
    ~(pl.col("k") == 1),
    pl.col("b").is_null(),
    pl.col("x").is_not_null() & (pl.col("x") > 0.0),
    pl.col("x") == 0.0,
    pl.col("s").str.starts_with("a"),
    pl.col("s") > "a",
    pl.col("d") < date(1582, 10, 15),
    pl.col("t") <= datetime(1969, 12, 31, 23, 59, 59, 999000),  # noqa: DTZ001 - a wall clock
    pl.col("z") == datetime(2024, 1, 1, 12, 0, 0, 1, tzinfo=UTC),
    pl.col("z") < datetime(1950, 1, 1, tzinfo=UTC),
    (pl.col("p") == "a") & (pl.col("k") > 1),
    pl.col("p").is_null(),
]
NOT_SAID = [pl.col("f") == 0.1, pl.col("m") > 1, pl.col("k") % 2 == 0, pl.col("s").str.len_chars() > 1, ~pl.col("k").is_in([1, 2]), pl.col("k") > 2.5]


def test_conditions_keep_the_rows_that_polars_keeps(spark: SparkSession, append: lk.Table) -> None:
    found = [ls.read(spark, append, columns=["k"], where=expr) for expr in SAID]
    assert all(reads_natively(frame) for frame in found)
    every = found[0].withColumn("which", sql.lit(0))
    for number, frame in enumerate(found[1:], 1):
        every = every.unionAll(frame.withColumn("which", sql.lit(number)))
    kept: dict[int, list[int]] = {}
    for row in every.collect():
        kept.setdefault(row.which, []).append(row.k)
    wanted = {number: append.scan().filter(expr).select(pl.col("k").sort()).collect()["k"].to_list() for number, expr in enumerate(SAID)}
    assert {number: sorted(kept.get(number, [])) for number in wanted} == wanted
    assert all(0 < len(ks) < 8 for ks in wanted.values())


@pytest.mark.parametrize("expr", NOT_SAID, ids=str)
def test_what_spark_may_answer_otherwise_is_left_to_polars(append: lk.Table, expr: pl.Expr) -> None:
    said = batch_read.parse_filter(batch_read.context_for_tasks(append, None, None), expr).predicates
    assert native_parquet.to_spark_condition(said, {field.name: field.type for field in append.schema.fields}) is None


def test_such_a_condition_is_applied_all_the_same(spark: SparkSession, append: lk.Table) -> None:
    found = ls.read(spark, append, where="f = 0.1 OR m > 1")
    assert not reads_natively(found)
    assert rows(found) == as_spark(append.scan().filter((pl.col("f") == 0.1) | (pl.col("m") > 1)).collect(), append.schema.fields)


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ({"columns": ["K"]}, lk.ColumnNotFound, "columns= names column 'K', which t has not"),
        ({"columns": []}, lk.errors.SchemaMismatch, "columns= of a read of t names none; to count rows read any one column"),
        ({"columns": "k"}, lk.errors.SchemaMismatch, "columns= of a read of t takes a list of names, not 'k'"),
        ({"columns": ["k", "k"]}, lk.errors.SchemaMismatch, "names k twice"),
        ({"where": "q > 1"}, lk.ColumnNotFound, "it names column 'q', which t has not"),
        ({"where": pl.col("k") == pl.col("k").max()}, lk.errors.SchemaMismatch, "looks at more than one row, and tasks see some each"),
        ({"where": 1}, TypeError, "where= takes a Polars expression or SQL text, not int"),
        ({"at": 99}, lk.SnapshotNotFound, "99"),
        ({"at": 1, "options": {"scan.snapshot-id": "1"}}, TypeError, "both say which snapshot to read"),
        ({"options": {"spark.read.native": "maybe"}}, lk.InvalidOption, "allowed: auto, on, off"),
        ({"options": {"spark.read.nativ": "on"}}, lk.InvalidOption, "did you mean 'spark.read.native'"),
    ],
)
def test_what_cannot_be_asked(spark: SparkSession, append: lk.Table, how: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        ls.read(spark, append, **how)


def test_what_is_no_table(spark: SparkSession) -> None:
    with pytest.raises(TypeError, match=r"lakekit\.spark takes a table, one of its system tables or a path, not LazyFrame"):
        ls.read(spark, pl.LazyFrame())  # type: ignore[arg-type]


def test_no_table_there(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(lk.TableNotFound):
        ls.read(spark, tmp_path / "none")


# ---- what Spark does with a frame ----------------------------------------------------------------------------------------------------------


def test_two_conditions_on_one_frame_a_union_and_a_self_join(spark: SparkSession, keyed: lk.Table, append: lk.Table) -> None:
    for table, wanted in ((keyed, 110), (append, 8)):
        frame = ls.read(spark, table)
        some, others = frame.where("k > 3"), frame.where("k <= 3")
        assert some.union(frame).count() == wanted * 2 - others.count()
        assert (some.count() + others.count(), frame.count()) == (wanted, wanted)
        assert frame.alias("a").join(frame.alias("b"), sql.expr("a.k = b.k")).count() == wanted


def test_two_snapshots_in_one_program(spark: SparkSession, keyed: lk.Table) -> None:
    before, after = ls.read(spark, keyed, at=1).alias("before"), ls.read(spark, keyed).alias("after")
    joined = before.join(after, sql.expr("before.k = after.k")).select("before.v", "after.v").where("before.k = 55")
    assert [tuple(row) for row in joined.collect()] == [("a55", "b")]


def test_a_frame_stays_on_its_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    table = lk.create(tmp_path / "t", {"k": "INT"})
    empty = ls.read(spark, table)
    table.append([{"k": 1}])
    frame = ls.read(spark, table)
    table.append([{"k": 2}])
    assert (empty.count(), frame.count(), ls.read(spark, table).count()) == (0, 1, 2)
    assert empty.schema == frame.schema


# ---- where files lie -----------------------------------------------------------------------------------------------------------------------

PLACES = ["a", "a:b/c=d %41", "é", "", "  ", None, "__DEFAULT_PARTITION", "01", "_hidden", ".", "x\\y'\"{}[]*?"]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> lk.Table:
    """Partitions of all sorts of names."""
    table = lk.create(tmp_path_factory.mktemp("places") / "t", {"k": "INT", "p": "STRING", "n": "SMALLINT"}, partition_keys=["p", "n"])
    table.append([{"k": number, "p": place, "n": -number} for number, place in enumerate(PLACES)])
    return table


def test_partitions_of_any_name(spark: SparkSession, places: lk.Table) -> None:
    found = ls.read(spark, places)
    assert reads_natively(found)
    assert rows(found) == expected(places)


def test_a_folder_whose_name_looks_like_a_pattern(spark: SparkSession, tmp_path: Path) -> None:
    table = lk.create(tmp_path / "w[a-z]{1}*" / "t", {"k": "INT"})
    for k in range(3):
        table.append([{"k": k}])
    found = ls.read(spark, table)
    assert not reads_natively(found)
    assert rows(found) == ["(0,)", "(1,)", "(2,)"]


def test_a_later_condition_on_partitions_opens_their_files_only(spark: SparkSession, places: lk.Table) -> None:
    found = ls.read(spark, places).where("p = 'a:b/c=d %41'")
    assert [tuple(row) for row in found.collect()] == [(1, "a:b/c=d %41", -1)]
    assert "PartitionFilters: [isnotnull(p#" in found._jdf.queryExecution().toString()


def test_conditions_on_partitions_leave_out_their_files(spark: SparkSession, places: lk.Table) -> None:
    found = ls.read(spark, places, where=pl.col("p").is_in(["é", "01"]))
    assert len(found.inputFiles()) == 2
    assert rows(found) == as_spark(places.scan().filter(pl.col("p").is_in(["é", "01"])).collect(), places.schema.fields)


@pytest.mark.deep
def test_three_thousand_files(spark: SparkSession, tmp_path: Path) -> None:
    table = lk.create(tmp_path / "t", {"k": "INT", "p": "INT"}, partition_keys=["p"])
    table.append(pl.DataFrame({"k": range(3000), "p": range(3000)}, schema={"k": pl.Int32, "p": pl.Int32}))
    for mode in ("auto", "off"):
        found = ls.read(spark, table, options={"spark.read.native": mode})
        assert found.agg(sql.count("*"), sql.sum("k"), sql.sum("p")).first() == (3000, 4498500, 4498500)


def test_the_listing_of_many_files_leaves_the_session_as_it_was(spark: SparkSession) -> None:
    before = spark.conf.get(native_parquet._LISTING_SETTING)
    with native_parquet._limit_listing_tasks(spark, 33):
        assert spark.conf.get(native_parquet._LISTING_SETTING) == "64"
    assert spark.conf.get(native_parquet._LISTING_SETTING) == before
    spark.conf.set(native_parquet._LISTING_SETTING, "7")
    try:
        with native_parquet._limit_listing_tasks(spark, 33):
            assert spark.conf.get(native_parquet._LISTING_SETTING) == "7"
    finally:
        spark.conf.set(native_parquet._LISTING_SETTING, before)


# ---- times, schemas, branches --------------------------------------------------------------------------------------------------------------


def test_tags_branches_and_times(spark: SparkSession, tmp_path: Path) -> None:
    table = lk.create(tmp_path / "t", {"k": "INT"})
    table.append([{"k": 1}])
    table.create_tag("first")
    table.create_branch("side", tag="first")
    table.append([{"k": 2}])
    table.branch("side").append([{"k": 3}])
    assert rows(ls.read(spark, table, at="first")) == ["(1,)"]
    assert rows(ls.read(spark, table, options={"scan.snapshot-id": "2"})) == ["(1,)", "(2,)"]
    assert rows(ls.read(spark, table.branch("side"))) == ["(1,)", "(3,)"]
    assert rows(ls.read(spark, table, options={"incremental-between": "1,2"})) == ["(2,)"]


def test_older_schemas_are_lifted_by_spark_where_nothing_can_change(spark: SparkSession, tmp_path: Path) -> None:
    table = lk.create(tmp_path / "t", {"a": "INT", "b": "STRING", "c": "FLOAT", "gone": "INT", "s": "VARCHAR(3)"})
    table.append([{"a": 1, "b": "x", "c": 0.1, "gone": 7, "s": "abc"}])
    table.alter(
        lk.rename_column("b", "bb"),
        lk.update_type("a", "BIGINT"),
        lk.update_type("c", "DOUBLE"),
        lk.update_type("s", "STRING"),
        lk.drop_column("gone"),
    )
    table.alter(lk.add_column("gone", "INT"), lk.add_column("l", "ARRAY<INT>"))
    table.append([{"a": 2**40, "bb": "y", "c": 0.5, "gone": 8, "l": [1]}])
    found = ls.read(spark, table)
    assert len(found.inputFiles()) == 2
    assert rows(found) == expected(table)
    assert rows(ls.read(spark, table, columns=["bb"], where="a > 1 AND gone IS NOT NULL")) == ["('y',)"]


@pytest.mark.parametrize(("old", "new"), [("INT", "STRING"), ("BIGINT", "INT"), ("DOUBLE", "FLOAT"), ("STRING", "VARCHAR(1)"), ("DATE", "TIMESTAMP(3)")])
def test_other_changes_of_types_are_lakekits(old: str, new: str) -> None:
    assert not native_parquet._is_widening(parse(old), parse(new))


# ---- tasks ---------------------------------------------------------------------------------------------------------------------------------


def test_a_big_merge_is_cut_into_tasks(spark: SparkSession, keyed: lk.Table) -> None:
    options = {"source.split.target-size": "1 kb", "source.split.open-file-cost": "1 b"}
    found = planned(keyed, **options)
    made = [tasks.decode_task(data) for data in tasks.plan_tasks(found, found.raw_indices, 2)]
    assert sum(one.slices > 1 for one in made) > 2
    assert rows(ls.read(spark, keyed, columns=["v", "k"], where="n IS NULL OR n < 30", options=options)) == as_spark(
        keyed.scan().filter(pl.col("n").is_null() | (pl.col("n") < 30)).select("v", "k").collect()
    )


def test_small_files_share_a_task(append: lk.Table) -> None:
    found = planned(append)
    assert len(tasks.plan_tasks(found, found.raw_indices, 1)) == 1
    assert len(tasks.plan_tasks(planned(append, **{"source.split.target-size": "1 b"}), found.raw_indices, 1)) == len(found.raw_indices)


def test_a_slice_that_is_not_there_is_corrupt(keyed: lk.Table) -> None:
    found = planned(keyed)
    one = tasks.decode_task(tasks.plan_tasks(found, found.raw_indices, 2)[0])
    whole = tasks.encode_task(tasks.ReadTask(pieces=one.pieces[:1], slice=999999, slices=1000000))
    what = tasks.ReadJob(ctx=found.ctx, fields=keyed.schema.fields, output_fields=keyed.schema.fields)
    with pytest.raises(lk.Corrupt, match="asks for slice 999999, and its files are cut into"):
        list(tasks.read_task_batches(what, whole))


# ---- system tables, format tables ----------------------------------------------------------------------------------------------------------


def test_system_tables(spark: SparkSession, tmp_path: Path) -> None:
    cat = lk.connect(tmp_path)
    cat.create_database("d")
    table = cat.create_table("d.t", {"k": "INT", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1", "write-only": "true"})
    table.upsert([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    table.compact(full=True)
    table.delete("k = 1")
    assert rows(ls.read(spark, cat["d.t$snapshots"], columns=["snapshot_id"], where="commit_kind = 'COMPACT'")) == ["(2,)"]
    assert rows(ls.read(spark, cat["d.t$audit_log"])) == as_spark(cat["d.t$audit_log"].scan().collect()) == ["('+I', 2, 'b')", "('-D', 1, 'a')"]
    assert rows(ls.read(spark, cat["d.t$ro"])) == ["(1, 'a')", "(2, 'b')"]
    with pytest.raises(lk.Unsupported, match=r"d.t\$binlog is not read on Spark; \$audit_log tells the same rows"):
        ls.read(spark, cat["d.t$binlog"])


def test_format_tables(spark: SparkSession, tmp_path: Path) -> None:
    cat = lk.connect(tmp_path)
    cat.create_database("d")
    table = cat.create_format_table("d.f", {"k": "INT", "p": "STRING"}, format="csv", partition_keys=["p"])
    table.append([{"k": 1, "p": "a"}, {"k": 2, "p": "b"}])
    assert rows(ls.read(spark, table, columns=["k"], where="p = 'b'")) == ["(2,)"]


# ---- changes -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "delta", "diff"])
def test_changes_of_a_key_table(spark: SparkSession, keyed: lk.Table, mode: str) -> None:
    found = ls.changes(spark, keyed, 1, mode=mode)
    assert found.columns == ["_row_kind", "k", "v", "n"]
    assert rows(found) == as_spark(keyed.changes(1, mode=mode).collect())


def test_changes_of_an_append_table(spark: SparkSession, append: lk.Table) -> None:
    fields = [lk.Field("_row_kind", "STRING"), *append.schema.fields]
    for since, until, mode in ((0, 1, "auto"), (1, None, "delta"), (1, 2, "diff"), (2, None, "auto")):
        wanted = append.changes(since, until, mode=mode, options=MICROSECONDS).collect()
        assert rows(ls.changes(spark, append, since, until, mode=mode)) == as_spark(wanted, fields)


def test_partition_columns_that_files_lack(spark: SparkSession, tmp_path: Path) -> None:
    """Spark would read nulls: such files are lakekit's to read."""
    for text in ("2024-01-01", "2024-01-02", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / "in" / f"day={text}").mkdir(parents=True)
        pl.DataFrame({"k": [1, 2]}).write_parquet(tmp_path / "in" / f"day={text}" / "x.parquet")
    cat = lk.connect(tmp_path / "house")
    cat.create_database("db")
    table = cat.migrate(tmp_path / "in", "db.t")
    assert rows(ls.read(spark, table)) == expected(table)
    assert {row.day for row in ls.read(spark, table, where="k = 1").collect()} == {date(2024, 1, 1), date(2024, 1, 2), None}
    assert ls.read(spark, table, columns=["k"]).count() == 6


def test_a_recorded_changelog(spark: SparkSession) -> None:
    table = lk.open(TABLES / "changelog_lookup")
    assert rows(ls.changes(spark, table, 0)) == as_spark(table.changes(0).collect(), [lk.Field("_row_kind", "STRING"), *table.schema.fields])


def test_changes_that_cannot_be_asked(spark: SparkSession, append: lk.Table) -> None:
    with pytest.raises(lk.InvalidOption, match="mode 'all' is none of auto, delta, changelog, diff"):
        ls.changes(spark, append, 0, mode="all")
    with pytest.raises(lk.SnapshotNotFound):
        ls.changes(spark, append, 0, 99)


# ---- object stores -------------------------------------------------------------------------------------------------------------------------


def test_a_store_is_read_by_lakekit_unless_spark_is_said_to_open_it(spark: SparkSession) -> None:
    with S3Server() as server:
        table = lk.create(server.url("w/t"), {"k": "INT", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1"}, storage_options=server.options)
        table.upsert([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
        table.upsert([{"k": 2, "v": "c"}])
        assert rows(ls.read(spark, table)) == ["(1, 'a')", "(2, 'c')"]
        assert not any(SECRET_KEY.encode() in data for data in tasks.plan_tasks(planned(table), planned(table).raw_indices, 1))
        clean = planned(table, **{"scan.snapshot-id": "1"})
        said = planned(table, **{"scan.snapshot-id": "1", "spark.read.native": "on"})
        assert [native_parquet.native_read_mask(one, table.schema.fields).tolist() for one in (clean, said)] == [[False], [True]]
        assert native_parquet._to_hadoop_path(said.ctx, server.url("w/t/x")).startswith("s3a://")


def test_a_store_that_only_lakekit_can_open_is_told_where_spark_is_to(tmp_path: Path) -> None:
    table = replace(lk.create(tmp_path / "t", {"k": "INT"}), storage=HIDDEN)
    table.append([{"k": 1}])
    assert not native_parquet.native_read_mask(planned(table), table.schema.fields).any()
    with pytest.raises(lk.Unsupported, match=r"spark\.read\.native=on, and only lakekit can open the files of t"):
        native_parquet.native_read_mask(planned(table, **{"spark.read.native": "on"}), table.schema.fields)
