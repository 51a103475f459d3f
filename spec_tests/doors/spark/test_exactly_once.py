"""Exactly once: tasks that are run again, drivers that die after a commit, drivers that meet. Rows are there once, and what nobody wants is orphans.

What needs more than one process of Spark, executors that die among it, is in `test_clusters.py`; attempts without Spark are in `test_write_task.py`.
"""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakekit as lk
from lakekit.errors import Unsupported

ls = pytest.importorskip("lakekit.spark", exc_type=Unsupported)
from lakekit.commit import committer as publishing  # noqa: E402
from lakekit.spark import batch_write, maintenance, write_task  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage

pytestmark = pytest.mark.spark
KINDS = {
    "append": {},
    "fixed": {"primary_keys": ["k"], "options": {"bucket": "2"}},
    "written only": {"primary_keys": ["k"], "options": {"bucket": "2", "write-only": "true"}},
    "dynamic": {"primary_keys": ["k"]},
}
PATIENCE_S = 300


def table(path: Path, kind: str) -> lk.Table:
    return lk.create(path, {"k": "BIGINT NOT NULL", "v": "STRING"}, **KINDS[kind])


def frame(spark: SparkSession, first: int, end: int, text: str = "v") -> DataFrame:
    return spark.range(first, end, 1, 2).selectExpr("id AS k", f"concat('{text}', id) AS v")


def held(t: lk.Table) -> list[tuple]:
    return sorted(t.scan().collect().rows())


def expected(first: int, end: int, text: str = "v") -> list[tuple]:
    return [(k, f"{text}{k}") for k in range(first, end)]


def data_files(t: lk.Table) -> set[str]:
    return {path.name for path in Path(t.location).rglob("data-*")}


def named(t: lk.Table) -> set[str]:
    """The files that any snapshot names."""
    return {name for at in t.snapshots()["snapshot_id"].to_list() for name in t.files(at)["file_name"]}


def orphans(t: lk.Table) -> set[str]:
    """Data files that no snapshot names, all of which cleaning finds, and nothing else."""
    lost = data_files(t) - named(t)
    for path in Path(t.location).rglob("*"):
        os.utime(path, (1e9, 1e9))  # long ago
    found = {Path(path).name for path in t.remove_orphans(dry_run=False)["path"]}
    assert {name for name in found if name.startswith("data-")} == lost
    assert t.check(deep=True).ok
    return lost


# ---- tasks ----------------------------------------------------------------------------------------------------------------------------------


def once_lost(fault: str, marks: str, job: write_task.WriteJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`write_task.written`, whose first attempt of all ends when its files are written and nobody knows of them."""
    answers = list(write_task.write_rows(job, batches))
    if answers:
        try:
            os.close(os.open(f"{marks}/{fault}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            if fault == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            msg = "lost"
            raise OSError(msg)
    yield from answers


@pytest.mark.parametrize(("kind", "fault"), [("append", "raises"), ("fixed", "dies"), ("dynamic", "dies")])
def test_a_task_that_is_run_again(spark, tmp_path, monkeypatch, kind, fault):
    t = table(tmp_path / "t", kind)
    monkeypatch.setattr(batch_write.write_task, "write_rows", partial(once_lost, fault, str(tmp_path)))
    done = ls.write(frame(spark, 0, 1000), t, commit_user="job", identifier=1)
    assert (tmp_path / fault).exists(), "no task was lost"
    assert held(t) == expected(0, 1000)
    assert (len(t.snapshots()), done.row_count) == (1, 1000)
    assert orphans(t), "the files of the attempt that was lost"
    assert held(t) == expected(0, 1000)


# ---- a driver -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["append", "fixed"])
def test_a_driver_that_dies_after_its_commit(spark, tmp_path, monkeypatch, kind):
    """It does not even hear that the commit was made, and clears away what it believes lost; the next one, of the same user and identifier, does nothing."""
    t, publish = table(tmp_path / "t", kind), publishing.commit_changes

    def dies(*given: Any, **how: Any) -> None:
        publish(*given, **how)
        raise KeyboardInterrupt

    monkeypatch.setattr(publishing, "commit_changes", dies)
    with pytest.raises(KeyboardInterrupt):
        ls.write(frame(spark, 0, 100), t, commit_user="job", identifier=1)
    monkeypatch.setattr(publishing, "commit_changes", publish)
    there = data_files(t)
    again = ls.write(frame(spark, 0, 100), t, commit_user="job", identifier=1)
    assert (again.snapshot_ids, again.row_count) == ((1,), 100)
    assert data_files(t) == there == named(t), "no task ran again, and no file went"
    assert held(t) == expected(0, 100)


def test_messages_that_are_committed_twice(spark, tmp_path, monkeypatch):
    t, kept = table(tmp_path / "t", "fixed"), []
    collected = batch_write.collect_messages
    monkeypatch.setattr(batch_write, "collect_messages", lambda *given: kept.append(collected(*given)) or kept[-1])
    done = ls.write(frame(spark, 0, 100), t, commit_user="job", identifier=1)
    again = batch_write.commit_messages(t._context(), kept[0], "job", identifier=1, is_new_user=False)
    assert (again.snapshot_ids, len(t.snapshots())) == (done.snapshot_ids, 1)
    assert held(t) == expected(0, 100)
    assert not orphans(t)


# ---- two of them ----------------------------------------------------------------------------------------------------------------------------


def at_once(*calls: Any) -> list[BaseException | None]:
    """What ended each of the calls, which run side by side."""
    ended: list[BaseException | None] = [None] * len(calls)

    def run(at: int) -> None:
        try:
            calls[at]()
        except BaseException as wrong:  # noqa: BLE001 - told
            ended[at] = wrong

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


@pytest.fixture
def meeting(monkeypatch) -> None:
    """Two commits begin when both have all their messages, so that one of them loses the race for the next snapshot."""
    both, publish = threading.Barrier(2, timeout=PATIENCE_S), publishing.commit_changes

    def met(handle: TableContext, messages: list[CommitMessage], **how: Any) -> Any:
        both.wait()
        return publish(handle, messages, **how)

    monkeypatch.setattr(publishing, "commit_changes", met)


@pytest.mark.parametrize("kind", ["append", "fixed"])
@pytest.mark.usefixtures("meeting")
def test_two_drivers_add_at_once(spark, tmp_path, kind):
    t = table(tmp_path / "t", kind)
    calls = [partial(ls.write, frame(spark, first, first + 100), lk.open(t.location)) for first in (0, 100)]
    assert at_once(*calls) == [None, None]
    assert held(t) == expected(0, 200)
    assert t.snapshots()["commit_user"].n_unique() == 2
    assert not orphans(t)


@pytest.mark.usefixtures("meeting")
def test_two_drivers_of_one_commit(spark, tmp_path):
    """A job that was started again while it still ran: the second commit finds the first one, and its files are orphans."""
    t = table(tmp_path / "t", "append")
    calls = [partial(ls.write, frame(spark, 0, 100), lk.open(t.location), commit_user="job", identifier=1)] * 2
    assert at_once(*calls) == [None, None]
    assert held(t) == expected(0, 100)
    assert t.snapshots()["commit_identifier"].to_list() == [1]
    assert len(orphans(t)) == len(named(t))


@pytest.mark.parametrize("first", ["write", "compact"])
def test_a_writer_and_a_compaction_at_once(spark, tmp_path, monkeypatch, first):
    """One commits between the other's tasks and its commit: neither is in the other's way, and the newer rows win."""
    t = table(tmp_path / "t", "written only")
    for text in "uv":
        ls.write(frame(spark, 0, 100, text), t)
    steps = {"write": lambda: ls.write(frame(spark, 50, 150, "w"), t), "compact": lambda: ls.compact(spark, t, full=True)}
    module, name = (maintenance, "run_in_tasks") if first == "compact" else (batch_write, "collect_messages")
    hears = getattr(module, name)
    other = steps["write" if first == "compact" else "compact"]

    def meanwhile(*given: Any) -> Any:
        heard = hears(*given)
        monkeypatch.setattr(module, name, hears)
        other()
        return heard

    monkeypatch.setattr(module, name, meanwhile)
    steps[first]()
    assert t.snapshots()["kind"].to_list()[2:] == (["APPEND", "COMPACT"] if first == "compact" else ["COMPACT", "APPEND"])
    assert held(t) == sorted([*expected(0, 50), *expected(50, 150, "w")])
    assert not orphans(t)
