"""Attempts of a task, without Spark: what one leaves that fails, that is not listened to, that runs twice."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import lakekit as lk
from lakekit.errors import CommitStateUnknown, Conflict, StorageFailed, Unsupported, ValueOutOfRange
from lakekit.model.commit_message import CommitMessage
from lakekit.write.bucket_assigners import WriteParallelism, WriteShard
from lakekit.write.router import TaskRouter
from lakekit.write.table_writers import BucketWriters

pytest.importorskip("lakekit.spark", exc_type=Unsupported)
pytestmark = pytest.mark.spark


OPTIONS = {"bucket": "2", "write-buffer-size": "64 kb", "write-buffer-spillable": "false"}


@pytest.fixture
def job(tmp_path):
    from lakekit.spark.write_task import WriteJob

    t = lk.create(tmp_path / "t", {"k": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["k"], options=OPTIONS)
    cut = WriteParallelism(tasks=2, assigners=2)
    return WriteJob(ctx=t._context(), commit_user="job", ignores_existing=False, is_batch=True, row_kind=None, parallelism=cut)


def batches(job, rows: int = 2_000):
    """All rows of task 0."""
    from lakekit.spark.write_task import TASK_COLUMN, add_task_column

    frame = pl.select(k=pl.int_range(rows)).with_columns(v=pl.format("v{}", "k"))
    for batch in add_task_column(job, frame.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches(max_chunksize=40_000)):
        yield batch.filter(pl.Series(batch.column(TASK_COLUMN)).eq(0).to_arrow())


def files(job) -> set[str]:
    return {path.name for path in Path(job.ctx.root).rglob("*") if path.is_file() and "bucket-" in path.parent.name}


def messages(answers) -> list[CommitMessage]:
    return [CommitMessage.from_bytes(data) for batch in answers for data in batch.column("message").to_pylist()]


def test_rows_that_stop_coming(job):
    from lakekit.spark.write_task import write_rows

    seen = set()

    def broken():
        yield from batches(job, 300_000)
        seen.update(files(job))
        msg = "lost"
        raise StorageFailed(msg)

    with pytest.raises(StorageFailed, match="lost"):
        list(write_rows(job, broken()))
    assert seen, "rows were in files already"
    assert files(job) == set()


def test_answers_that_nobody_takes(job):
    from lakekit.spark.write_task import write_rows

    answers = write_rows(job, batches(job))
    assert messages([next(answers)])[0].new_files
    assert files(job)
    answers.close()
    assert files(job) == set()


def test_two_attempts_and_one_answer(job):
    from lakekit.spark.write_task import write_rows

    first, second = list(write_rows(job, batches(job))), list(write_rows(job, batches(job)))
    t = lk.open(job.ctx.root)
    done = t.commit(messages(second), commit_user="job")
    assert t.scan().collect().height == done.row_count
    assert t.check(deep=True).ok
    lost = {file.name for message in messages(first) for file in message.new_files}
    assert files(job) - set(t.files()["file_name"]) == lost
    for path in Path(job.ctx.root).rglob("*"):
        os.utime(path, (1e9, 1e9))  # long ago
    assert {Path(path).name for path in t.remove_orphans()["path"]} == lost


def test_a_value_that_does_not_fit_is_answered(job):
    from lakekit.spark.write_task import TASK_COLUMN, decode_answers, write_rows

    bad = pl.DataFrame({"k": [1, None], "v": ["a", "b"], TASK_COLUMN: [0, 0]}, schema_overrides={TASK_COLUMN: pl.Int32})
    answers = list(write_rows(job, bad.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()))
    found, wrong = decode_answers(row for batch in answers for row in batch.to_pylist())
    assert found == []
    assert isinstance(wrong, ValueOutOfRange)
    assert wrong.column == "k"
    assert str(wrong).startswith("row 1: column k of t is NOT NULL")
    assert files(job) == set()


@pytest.mark.parametrize("wrong", [Conflict("no"), CommitStateUnknown("perhaps")])
def test_a_commit_that_fails(job, monkeypatch, wrong):
    """Its files go where nothing can have them, and stay where a commit may."""
    from lakekit.commit import abort
    from lakekit.spark import batch_write
    from lakekit.spark.write_task import write_rows

    found = messages(write_rows(job, batches(job)))

    def refused(handle, given, **_):
        if isinstance(wrong, CommitStateUnknown):
            abort.mark_outcome_unknown(handle, given)
        raise wrong

    monkeypatch.setattr(batch_write.publishing, "commit_changes", refused)
    with pytest.raises(type(wrong)):
        batch_write.commit_messages(job.ctx, found, "job", identifier=1, is_new_user=False)
    assert bool(files(job)) == isinstance(wrong, CommitStateUnknown)


def test_shares_of_dynamic_buckets_meet_no_bucket_twice(tmp_path):
    """Tasks that choose buckets for themselves, with the index of one snapshot: no two choose the same bucket, and old keys are found by all."""
    t = lk.create(
        tmp_path / "t",
        {"k": "BIGINT NOT NULL", "p": "INT NOT NULL"},
        primary_keys=["k", "p"],
        partition_keys=["p"],
        options={"dynamic-bucket.target-row-num": "7"},
    )
    for count, assigners, last in ((1, 1, 90), (5, 2, 200), (4, 3, 250)):
        handle = t._context()
        newest = t.snapshots()["snapshot_id"].max()
        cut = WriteParallelism(tasks=count, assigners=assigners, snapshot_id=newest)
        frame = pl.select(k=pl.int_range(last), p=(pl.int_range(last) % 3).cast(pl.Int32), _VALUE_KIND=pl.lit(0, pl.Int8).repeat_by(last).explode())
        tasks = TaskRouter.of(handle, cut, replaces=False, batch=True).task_numbers(frame)
        found = []
        for number in range(count):
            writers = BucketWriters(handle, commit_user="job", batch=True, shard=WriteShard(parallelism=cut, task=number))
            writers.write(frame.filter(pl.Series(tasks == number)))
            found += writers.prepare()
            writers.abort()
        places = [(message.partition, message.bucket) for message in found]
        assert len(places) == len(set(places))
        t.commit(found, commit_user=f"job-{last}")
        raw = t.scan(raw=True).collect().join(t.files().select("bucket", _file="file_name"), on="_file")
        assert raw.select("k", "bucket").unique().height == last
        assert t.check(deep=True).ok


def test_rows_of_two_tasks_that_meet_are_refused(job):
    from lakekit.spark.write_task import add_task_column, decode_answers, write_rows

    both = pl.select(k=pl.int_range(100)).with_columns(v=pl.lit("v")).to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()
    _, wrong = decode_answers(row for batch in write_rows(job, add_task_column(job, both)) for row in batch.to_pylist())
    assert isinstance(wrong, Unsupported)
    assert "tasks 0 and 1 together" in str(wrong)
    assert files(job) == set()


def test_small_batches_are_looked_at_together(job, monkeypatch):
    """Rows in the order they came, in batches of as many rows, or bytes, as are looked at in one go; a row that does not fit keeps its number."""
    from lakekit.spark import write_task
    from lakekit.spark.write_task import TASK_COLUMN

    rows = list(batches(job, 300_000))
    small = pa.Table.from_batches(rows).to_batches(1_000)
    together = list(write_task._combine_batches(iter(small)))
    assert len(together) == 2 < len(small)
    assert pa.Table.from_batches(together).equals(pa.Table.from_batches(rows).combine_chunks())
    monkeypatch.setattr(write_task, "COMBINED_BATCH_BYTES", 50_000)
    assert len(list(write_task._combine_batches(iter(small)))) > 20
    assert list(write_task._combine_batches(iter([]))) == []
    bad = pa.table({"k": [*range(5), None], "v": ["v"] * 6, TASK_COLUMN: pa.array([0] * 6, pa.int32())}).to_batches(2)
    answers = list(write_task.write_rows(job, bad))
    assert str(write_task.decode_answers(row for batch in answers for row in batch.to_pylist())[1]).startswith("row 5: column k")
