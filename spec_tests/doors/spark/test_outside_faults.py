"""Faults that were found from outside: what Spark reads, keeps and leaves where it is not asked."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pyspark import cloudpickle
from pyspark.errors import PySparkException

import lakekit as lk
from lakekit.bucket.restore import SnapshotBuckets
from lakekit.commit import committer
from lakekit.data_file.paths import partition_values
from lakekit.errors import Unsupported
from lakekit.metadata import snapshots
from lakekit.spark import maintenance, native_parquet, session, write_task
from lakekit.spark.maintenance import TASK_BYTES, balance_tasks
from lakekit.write import row_conversion
from lakekit.write.table_writers import BucketWriters

ls = pytest.importorskip("lakekit.spark", exc_type=Unsupported)
pytestmark = pytest.mark.spark
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def told(frame) -> list[tuple]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def held(table: lk.Table) -> list[tuple]:
    return sorted(table.scan().collect().rows(), key=repr)


# ---- partition values ------------------------------------------------------------------------------------------------


def test_a_partition_called_as_sparks_null_is_read_as_its_text(spark, tmp_path):
    table = lk.create(tmp_path / "t", {"k": "INT", "dt": "STRING"}, partition_keys=["dt"])
    table.append([{"k": 1, "dt": HIVE_NULL}, {"k": 2, "dt": "x"}, {"k": 3, "dt": None}])
    assert told(ls.read(spark, table)) == held(table)
    assert told(ls.read(spark, table).where(f"dt = '{HIVE_NULL}'")) == [(1, HIVE_NULL)]
    assert told(ls.read(spark, table, where=pl.col("dt") == HIVE_NULL)) == [(1, HIVE_NULL)]
    assert told(ls.read(spark, table, where="dt is null")) == [(3, None)]
    ls.write(ls.read(spark, table), table, mode="overwrite")
    assert held(table) == sorted([(1, HIVE_NULL), (2, "x"), (3, None)], key=repr)


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
    assert told(ls.read(spark, table)) == held(table)


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
    before = held(table)
    ls.compact(None, table, **MANY[how][1])
    assert run_here == [3]
    assert held(table) == before
    assert len(table.files()) == 20
    assert table.check(deep=True).ok


@pytest.mark.parametrize("how", MANY)
def test_a_compaction_whose_job_dies_leaves_no_file(run_here, tmp_path, monkeypatch, how):
    table = many_partitions(tmp_path, 20, how)
    before, files = held(table), data_files(table)
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
    assert held(table) == before


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
    assert held(table) == [(1,)]


@pytest.mark.parametrize("how", MANY)
def test_many_partitions_are_few_tasks(spark, tmp_path, monkeypatch, how):
    counts, real = [], maintenance.run_in_tasks
    monkeypatch.setattr(maintenance, "run_in_tasks", lambda spark, pieces, work: counts.append(len(pieces)) or real(spark, pieces, work))
    table = many_partitions(tmp_path, 200, how)
    before = held(table)
    ls.compact(spark, table, **MANY[how][1])
    assert counts == [2]
    assert held(table) == before
    assert len(table.files()) == 200
    assert table.check(deep=True).ok
