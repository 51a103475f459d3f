"""Faults that were found from outside: what Spark reads, keeps and leaves where it is not asked."""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

import lakekit as lk
from lakekit.bucket.restore import SnapshotBuckets
from lakekit.commit import committer
from lakekit.data_file.paths import partition_values
from lakekit.errors import InvalidOption, NotFound, SchemaMismatch, SnapshotNotFound, Unsupported
from lakekit.metadata import snapshots
from lakekit.spark import attach, data_source, maintenance, native_parquet, register, session, write_task
from lakekit.spark.maintenance import TASK_BYTES, balance_tasks
from lakekit.spark.session import check_entry
from lakekit.write import row_conversion
from lakekit.write.table_writers import BucketWriters
from spec_tests.doors.spark.equal import frame_rows, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ls = pytest.importorskip("lakekit.spark", exc_type=Unsupported)
pytestmark = pytest.mark.spark
WRONG_OPTIONS = [
    ("maxFilesTrigger", "did you mean 'maxFilesPerTrigger'"),
    ("startVersion", "did you mean 'startingVersion'"),
    ("rowkind", "did you mean 'row_kind'"),
    ("readChangeFeed", "ls.changes"),
    ("mergeSchema", "add columns first"),
    ("ignoreDeletes", "leave it out"),
    ("nosuch", "no option is called 'nosuch'"),
    ("startingVersion", "says where a stream begins"),
]
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture(scope="module")
def known(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


# ---- partition values ------------------------------------------------------------------------------------------------


def test_a_partition_called_as_sparks_null_is_read_as_its_text(spark, tmp_path):
    table = lk.create(tmp_path / "t", {"k": "INT", "dt": "STRING"}, partition_keys=["dt"])
    table.append([{"k": 1, "dt": HIVE_NULL}, {"k": 2, "dt": "x"}, {"k": 3, "dt": None}])
    assert frame_rows(ls.read(spark, table)) == table_rows(table)
    assert frame_rows(ls.read(spark, table).where(f"dt = '{HIVE_NULL}'")) == [(1, HIVE_NULL)]
    assert frame_rows(ls.read(spark, table, where=pl.col("dt") == HIVE_NULL)) == [(1, HIVE_NULL)]
    assert frame_rows(ls.read(spark, table, where="dt is null")) == [(3, None)]
    ls.write(ls.read(spark, table), table, mode="overwrite")
    assert table_rows(table) == sorted([(1, HIVE_NULL), (2, "x"), (3, None)], key=repr)


TEXTS = st.sampled_from(
    (
        HIVE_NULL,
        HIVE_NULL.lower(),
        "__DEFAULT_PARTITION__",
        "null",
        "NULL",
        "None",
        "",
        " ",
        "%",
        "a=b",
        "007",
        "1e3",
        "true",
        "..",
        "_x",
        ".x",
        "2024-01-01",
        "é",
        "{a}",
        "[1]",
    )
) | st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=8)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=st.sets(TEXTS, min_size=1, max_size=8), default=st.sampled_from(("__DEFAULT_PARTITION__", HIVE_NULL, "nothing")))
def test_every_text_of_a_partition_is_read_as_it_is(spark, tmp_path_factory, texts, default):
    table = lk.create(tmp_path_factory.mktemp("p") / "t", {"k": "INT", "dt": "STRING"}, partition_keys=["dt"], options={"partition.default-name": default})
    table.append(pl.DataFrame({"k": range(len(texts)), "dt": sorted(texts)}, schema={"k": pl.Int32, "dt": pl.String}))
    assert frame_rows(ls.read(spark, table)) == table_rows(table)


@settings(max_examples=40, deadline=None)
@given(texts=st.sets(TEXTS, min_size=1, max_size=8), default=st.sampled_from(("__DEFAULT_PARTITION__", HIVE_NULL, "nothing")))
def test_no_folder_name_is_read_that_spark_takes_for_null(tmp_path_factory, texts, default):
    table = lk.create(tmp_path_factory.mktemp("p") / "t", {"k": "INT", "dt": "STRING"}, partition_keys=["dt"], options={"partition.default-name": default})
    table.append(pl.DataFrame({"k": range(len(texts)), "dt": sorted(texts)}, schema={"k": pl.Int32, "dt": pl.String}))
    ctx = table._context()
    read = {partition: native_parquet._is_plain(ctx, partition) for partition, _ in SnapshotBuckets.at_snapshot(ctx, snapshots.latest(ctx)).bucket_ids()}
    values = {partition: partition_values(ctx, partition)[0] for partition in read}
    assert {values[partition] for partition, is_plain in read.items() if is_plain} == {
        text for text in texts if text.strip() and text not in (HIVE_NULL, default)
    }


# ---- names of versions -----------------------------------------------------------------------------------------------


@pytest.fixture
def lake(known, tmp_path):
    catalog = lk.connect(tmp_path / "lake")
    catalog.create_database("out_shop")
    table = catalog.create_table("out_shop.t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1"})
    for row in ({"k": 1, "v": "a"}, {"k": 2, "v": "b"}, {"k": 1, "v": "z"}):
        table.upsert([row])
    yield catalog, table
    known.sql("DROP DATABASE IF EXISTS out_shop CASCADE")


def test_two_versions_of_a_table_in_one_query_have_names_of_their_own(known, lake):
    catalog, table = lake
    table.create_tag("first", at=1)
    assert attach(known, catalog, versions=["out_shop.t@1", "out_shop.t@first"]) == ["out_shop.t", "out_shop.t_at_1", "out_shop.t_at_first"]
    assert frame_rows(known.sql("SELECT 'old', * FROM out_shop.t_at_1 UNION ALL SELECT 'new', * FROM out_shop.t")) == [
        ("new", 1, "z"),
        ("new", 2, "b"),
        ("old", 1, "a"),
    ]
    assert frame_rows(known.sql("SELECT a.k, a.v, b.v FROM out_shop.t a LEFT JOIN out_shop.t_at_first b ON a.k = b.k")) == [(1, "z", "a"), (2, "b", None)]
    table.upsert([{"k": 3, "v": "c"}])
    assert attach(known, catalog) == ["out_shop.t"]
    assert (known.table("out_shop.t").count(), known.table("out_shop.t_at_1").count()) == (3, 1)
    with pytest.raises(PySparkException, match=r"is version 1 of out_shop.t, which stays: write to out_shop.t"):
        known.sql("INSERT INTO out_shop.t_at_1 VALUES (9, 'q')")
    catalog.drop_table("out_shop.t")
    assert attach(known, catalog) == []
    assert known.sql("SHOW TABLES IN out_shop").count() == 0


@pytest.mark.parametrize("option", ["scan.snapshot-id", "scan.version", "scan.tag-name", "incremental-between", "branch", "filter"])
def test_with_of_what_selects_rows_is_refused(known, lake, option):
    attach(known, lake[0])
    with pytest.raises(PySparkException, match="Spark keeps one relation for a name in a query"):
        known.sql(f"SELECT * FROM out_shop.t WITH (`{option}`='1')").collect()


@pytest.mark.parametrize("text", ["out_shop.t", "t@1", "out_shop.t@", "@1", "out_shop.@1"])
def test_what_names_no_version(known, lake, text):
    with pytest.raises(InvalidOption, match="write a table and a snapshot or tag"):
        attach(known, lake[0], versions=[text])
    with pytest.raises(TypeError, match="versions= is a list of texts"):
        attach(known, lake[0], versions=text)


@pytest.mark.parametrize("text", ["out_shop.t@99", "out_shop.t@nope", "out_shop.nobody@1"])
def test_a_version_that_there_is_not(known, lake, text):
    with pytest.raises(NotFound):
        attach(known, lake[0], versions=[text])


def test_a_version_takes_no_name_of_a_table(known, lake):
    lake[0].create_table("out_shop.t_at_1", {"k": "INT"})
    with pytest.raises(InvalidOption, match="which is a table of the catalog"):
        attach(known, lake[0], versions=["out_shop.t@1"])


# ---- entries that Spark alters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("alter", ["ADD COLUMNS (z INT)", "DROP COLUMN v", "RENAME COLUMN v TO w"])
def test_an_entry_that_spark_altered_is_refused_until_it_is_attached_again(known, lake, alter):
    catalog, table = lake
    attach(known, catalog)
    known.sql(f"ALTER TABLE out_shop.t {alter}")
    columns = len(known.table("out_shop.t").columns)
    for statement in (
        "SELECT * FROM out_shop.t",
        "INSERT INTO out_shop.t SELECT " + ", ".join(["7"] * columns),
        "INSERT OVERWRITE out_shop.t SELECT " + ", ".join(["7"] * columns),
    ):
        with pytest.raises(PySparkException, match=r"Spark's entry of out_shop.t was altered") as wrong:
            known.sql(statement).collect()
        assert str(wrong.value).index("Spark's entry") <= 300
    assert table_rows(table) == [(1, "z"), (2, "b")]
    attach(known, catalog)
    assert frame_rows(known.sql("SELECT * FROM out_shop.t")) == [(1, "z"), (2, "b")]


def test_a_write_by_a_name_that_lacks_a_new_column_is_refused(known, lake):
    catalog, table = lake
    attach(known, catalog)
    table.alter(lk.add_column("w", "INT"))
    assert frame_rows(known.sql("SELECT * FROM out_shop.t")) == [(1, "z"), (2, "b")]
    with pytest.raises(PySparkException, match="has got the column w since it was attached"):
        known.sql("INSERT INTO out_shop.t VALUES (7, 'q')")
    table.alter(lk.drop_column("v"))
    with pytest.raises(PySparkException, match="has no column v any more"):
        known.sql("SELECT * FROM out_shop.t").collect()


def test_an_entry_of_no_table_says_how_tables_are_made(known, lake, tmp_path):
    known.sql("CREATE DATABASE IF NOT EXISTS out_shop")
    known.sql(f"CREATE TABLE out_shop.dead USING lakekit OPTIONS (path '{lake[1].location}')")
    with pytest.raises(PySparkException, match=r"USING lakekit makes no table: ls.sql\(spark, 'CREATE TABLE"):
        known.sql("SELECT * FROM out_shop.dead").collect()


NAMES = st.lists(st.sampled_from("abcd"), unique=True, min_size=1, max_size=4)


@given(given_=NAMES, attached=NAMES, current=NAMES, writes=st.booleans())
def test_an_entry_is_used_only_where_no_column_is_lost_or_filled_with_null(given_, attached, current, writes):
    try:
        check_entry("t", given_, attached, current, writes=writes)
    except SchemaMismatch:
        assert given_ != attached or not set(attached) <= set(current) or (writes and set(attached) != set(current))
    else:
        assert set(given_) == set(attached) <= set(current)
        assert not writes or set(given_) == set(current)


# ---- jobs that fail --------------------------------------------------------------------------------------------------


KINDS = {
    "append": {},
    "buckets": {"options": {"bucket": "2", "bucket-key": "id"}},
    "keys": {"primary_keys": ["id"], "options": {"bucket": "2"}},
    "dynamic": {"primary_keys": ["id"], "options": {"dynamic-bucket.target-row-num": "1000"}},
}


@pytest.mark.parametrize(("kind", "door"), [*((kind, "write") for kind in KINDS), *((kind, "format") for kind in KINDS if kind != "dynamic")])
def test_a_job_that_fails_leaves_no_file(known, tmp_path, kind, door):
    table = lk.create(tmp_path / "t", {"id": "BIGINT NOT NULL", "v": "STRING"}, **KINDS[kind])
    table.append([{"id": -1, "v": "before"}])
    before = data_files(table)
    rows = known.range(0, 60000, 1, 6).selectExpr("id", "CASE WHEN id = 59999 THEN raise_error('x') ELSE repeat(sha(CAST(id AS STRING)), 2) END v")
    with pytest.raises(PySparkException, match="x"):
        ls.write(rows, table) if door == "write" else rows.write.format("lakekit").mode("append").save(table.location)
    assert data_files(table) == before
    assert table_rows(table) == [(-1, "before")]
    assert table.check(deep=True).ok


# ---- care of many partitions -----------------------------------------------------------------------------------------


@given(weights=st.dictionaries(st.binary(max_size=4), st.integers(0, TASK_BYTES), max_size=60), slots=st.integers(1, 8))
def test_pieces_are_shared_by_weight(weights, slots):
    tasks = balance_tasks(weights, slots)
    assert sorted(piece for task in tasks for piece in task) == sorted(weights)
    assert len(tasks) == min(len(weights), max(slots, -(-sum(weights.values()) // TASK_BYTES)))
    loads = [sum(weights[piece] for piece in task) for task in tasks]
    assert not loads or max(loads) - min(loads) <= max(weights.values())


def data_files(table: lk.Table) -> list[str]:
    return sorted(str(path.name) for path in Path(table.location).rglob("*") if path.is_file() and path.parent.name not in ("schema", "manifest", "snapshot"))


MANY = {"full": ({}, {"full": True}), "sorted": ({}, {"order_by": "k"}), "keys sorted": ({"primary_keys": ["k", "p"]}, {"order_by": "k"})}


def many_partitions(tmp_path: Path, count: int, how: str) -> lk.Table:
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL", "p": "INT NOT NULL"}, partition_keys=["p"], **MANY[how][0])
    for _ in range(2):
        table.append(pl.DataFrame({"k": range(count), "p": range(count)}, schema={"k": pl.Int32, "p": pl.Int32}))
    return table


@pytest.fixture
def run_here(monkeypatch) -> list[int]:
    """Pieces of work are done in this process, pickled as Spark pickles them; the list tells how many there were."""
    counts: list[int] = []

    def run(spark: object, pieces: list[bytes], work) -> tuple[list[bytes], None]:
        counts.append(len(pieces))
        return [data for piece in pieces for data in cloudpickle.loads(cloudpickle.dumps(work))(piece)], None

    monkeypatch.setattr(maintenance, "run_in_tasks", run)
    monkeypatch.setattr(session, "check", lambda spark: None)
    monkeypatch.setattr(session, "slots", lambda spark: 3)
    return counts


@pytest.mark.parametrize("how", MANY)
def test_tasks_share_partitions_and_lose_none(run_here, tmp_path, how):
    table = many_partitions(tmp_path, 20, how)
    before = table_rows(table)
    ls.compact(None, table, **MANY[how][1])
    assert run_here == [3]
    assert table_rows(table) == before
    assert len(table.files()) == 20
    assert table.check(deep=True).ok


@pytest.mark.parametrize("how", MANY)
def test_a_compaction_whose_job_dies_leaves_no_file(run_here, tmp_path, monkeypatch, how):
    table = many_partitions(tmp_path, 20, how)
    before, files = table_rows(table), data_files(table)
    real = maintenance.run_in_tasks
    monkeypatch.setattr(write_task, "_KILL_WAIT_S", 0)

    def dying(spark: object, pieces: list[bytes], work) -> None:
        assert real(spark, pieces[:2], work)[0]
        assert data_files(table) != files
        raise PySparkException("a task died too often")

    monkeypatch.setattr(maintenance, "run_in_tasks", dying)
    with pytest.raises(PySparkException, match="too often"):
        ls.compact(None, table, **MANY[how][1])
    assert data_files(table) == files
    assert table_rows(table) == before


def test_files_of_another_job_and_of_a_snapshot_stay(tmp_path, monkeypatch):
    table = lk.create(tmp_path / "t", {"k": "INT"})
    monkeypatch.setattr(write_task, "_KILL_WAIT_S", 0)
    ctx = table._context()

    def work(marked) -> None:
        one = BucketWriters(marked, commit_user="one")
        other = BucketWriters(ctx, commit_user="other")
        for writers in (one, other):
            for frame in row_conversion.convert_batches(pl.DataFrame({"k": [1]}, schema={"k": pl.Int32}), ctx):
                writers.write(frame)
        committer.commit_changes(ctx, one.prepare(), commit_user="one", identifier=1, is_new_user=True)
        other.prepare()
        assert len(data_files(table)) == 2
        raise RuntimeError

    with pytest.raises(RuntimeError), write_task.marked_job(ctx) as marked:
        work(marked)
    assert len(data_files(table)) == 2
    assert table_rows(table) == [(1,)]


@pytest.mark.parametrize("how", MANY)
def test_many_partitions_are_few_tasks(spark, tmp_path, monkeypatch, how):
    counts, real = [], maintenance.run_in_tasks
    monkeypatch.setattr(maintenance, "run_in_tasks", lambda spark, pieces, work: counts.append(len(pieces)) or real(spark, pieces, work))
    table = many_partitions(tmp_path, 200, how)
    before = table_rows(table)
    ls.compact(spark, table, **MANY[how][1])
    assert counts == [2]
    assert table_rows(table) == before
    assert len(table.files()) == 200
    assert table.check(deep=True).ok


# ---- options and errors ----------------------------------------------------------------------------------------------


def batches(spark, table, tmp_path, name, **options) -> list[int]:
    counts: list[int] = []
    reader = spark.readStream.format("lakekit").options(**options).load(table.location)
    query = (
        reader.writeStream.foreachBatch(lambda df, _: counts.append(df.count()))
        .option("checkpointLocation", str(tmp_path / name))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    return counts


def test_options_as_users_of_other_formats_write_them(known, tmp_path):
    table = lk.create(tmp_path / "t", {"k": "INT"})
    for k in range(4):
        table.append([{"k": k}])
    assert batches(known, table, tmp_path, "a", startingVersion="2", maxFilesPerTrigger="1") == [1, 1, 1]
    assert batches(known, table, tmp_path, "b", startingTimestamp="2020-01-01") == [4]
    assert frame_rows(known.read.format("lakekit").option("versionAsOf", "2").load(table.location)) == [(0,), (1,)]
    assert frame_rows(known.read.format("lakekit").option("timestampAsOf", "2999-01-01 00:00:00").load(table.location)) == [(0,), (1,), (2,), (3,)]


@pytest.mark.parametrize(("option", "sentence"), WRONG_OPTIONS)
def test_a_wrong_option_is_told_with_the_right_one_and_first(known, tmp_path, option, sentence):
    table = lk.create(tmp_path / "t", {"k": "INT"})
    table.append([{"k": 1}])
    with pytest.raises(PySparkException, match=sentence) as wrong:
        known.read.format("lakekit").option(option, "1").load(table.location).collect()
    text = str(wrong.value)
    assert text.index("lakekit.errors.") <= 300, text


def test_a_stream_of_a_table_that_was_rolled_back_says_so_at_once(known, tmp_path):
    table = lk.create(tmp_path / "t", {"k": "INT"})
    for k in range(3):
        table.append([{"k": k}])
    assert batches(known, table, tmp_path, "check") == [3]
    table.rollback(1)
    with pytest.raises(PySparkException, match="told snapshot 3, and 1 is the newest one now: the table was rolled back"):
        batches(known, table, tmp_path, "check")


# ---- the same at the source's own methods, as Spark calls them -------------------------------------------------------


def source_of(table: lk.Table, **options: str) -> data_source.PaimonDataSource:
    return data_source.PaimonDataSource(CaseInsensitiveDict({"path": table.location, **options}))


def numbers(path: Path, count: int) -> lk.Table:
    table = lk.create(path / "t", {"k": "INT", "v": "STRING"})
    for k in range(count):
        table.append([{"k": k, "v": "a"}])
    return table


@pytest.mark.parametrize(("option", "sentence"), WRONG_OPTIONS)
def test_a_wrong_option_brings_one_line_of_traceback(tmp_path, option, sentence):
    source = source_of(numbers(tmp_path, 1), **{option: "1"})
    with pytest.raises(InvalidOption, match=sentence) as wrong:
        source.reader(source.schema())
    text = "".join(traceback.format_exception(wrong.value.with_traceback(wrong.value.__traceback__.tb_next)))
    assert text.index("lakekit.errors.") <= 300, text


@pytest.mark.parametrize(
    ("options", "offset"),
    [
        ({"startingVersion": "2", "maxFilesPerTrigger": "1"}, (2, 2, 0)),
        ({"startingVersion": "2"}, (4, 2, 0)),
        ({"startingVersion": "latest"}, (4, 5, 0)),
        ({"startingTimestamp": "2020-01-01"}, (4, 1, 0)),
        ({"read.stream.maxRowsPerTrigger": "2"}, (4, 5, 1)),
    ],
)
def test_where_a_stream_begins(tmp_path, options, offset):
    source = source_of(numbers(tmp_path, 4), **options)
    reader = source.streamReader(source.schema())
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert (first["snapshot"], first["first"], first["state"]) == offset
    assert list(inspect.signature(reader.latestOffset).parameters) == ["start", "limit"]


def test_a_stream_knows_a_rollback_before_anything_is_new(tmp_path):
    table = numbers(tmp_path, 3)
    source = source_of(table)
    reader = source.streamReader(source.schema())
    offset = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    table.rollback(1)
    with pytest.raises(SnapshotNotFound, match="told snapshot 3, and 1 is the newest one now"):
        reader.latestOffset(offset, reader.getDefaultReadLimit())
    with pytest.raises(SnapshotNotFound, match="the table was rolled back"):
        reader.partitions(reader.initialOffset(), offset)


def test_the_source_of_an_attached_table(tmp_path):
    table = numbers(tmp_path, 3)
    for version, rows in ((None, 3), ("1", 1)):
        chosen = table if version is None else table.with_options({"scan.version": version})
        made = cloudpickle.loads(cloudpickle.dumps(data_source.make_source_class(chosen, version)))
        source = made(CaseInsensitiveDict({}))
        schema = source.schema()
        reader = source.reader(schema)
        assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == rows
        with pytest.raises(SchemaMismatch, match=r"Spark's entry of t was altered \(v\)"):
            source.reader(StructType(schema.fields[:1]))
        with pytest.raises(InvalidOption, match="one relation for a name"):
            made(CaseInsensitiveDict({"scan.snapshot-id": "1"})).reader(schema)
        if version is None:
            assert source.writer(schema, overwrite=False).job.mark
            with pytest.raises(SchemaMismatch, match="was altered"):
                source.writer(StructType(schema.fields[:1]), overwrite=True)
        else:
            with pytest.raises(InvalidOption, match="write to t"):
                source.writer(schema, overwrite=False)


def test_a_batch_that_is_aborted_leaves_no_file_of_tasks_that_were_through(tmp_path, monkeypatch):
    monkeypatch.setattr(write_task, "_KILL_WAIT_S", 0)
    table = numbers(tmp_path, 1)
    before = data_files(table)
    source = source_of(table)
    writer = cloudpickle.loads(cloudpickle.dumps(source.writer(source.schema(), overwrite=False)))
    rows = pa.record_batch([pa.array([7], pa.int32()), pa.array(["z"])], names=["k", "v"])
    told_of, lost = writer.write(iter([rows])), writer.write(iter([rows]))
    assert len(data_files(table)) == len(before) + 2
    assert lost.rows
    writer.abort([told_of, None, None])
    assert data_files(table) == before
