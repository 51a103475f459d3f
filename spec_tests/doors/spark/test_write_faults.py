"""Tasks that fail, are run again or twice over, and executors that die, in sessions of their own: rows once, and what is left over is orphans."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import Unsupported

pytest.importorskip("lakekit.spark", exc_type=Unsupported)
pytestmark = [pytest.mark.spark, pytest.mark.deep]

PROGRAM = """
import os, sys
import pyarrow as pa
from pyspark import TaskContext
import lakekit.spark as ls

path, marks, fault, master = sys.argv[1:]
spark = ls.start(master, config={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"})
spark.sparkContext.setLogLevel("OFF")

def rows(batches):
    # after all rows of the first attempt of one task, so that the writer behind has begun to write
    yield from batches
    if TaskContext.get().attemptNumber() == 0 and TaskContext.get().partitionId() == 1:
        open(os.path.join(marks, fault), "w").close()
        if fault == "raises":
            raise OSError("lost")
        os._exit(1)

frame = spark.range(0, 400_000, 1, 4).selectExpr("id AS k", "concat('v', id) AS v")
done = ls.write(frame.repartitionById(2, (frame.k % 2).cast("int")).mapInArrow(rows, frame.schema), path, commit_user="job", identifier=1)
again = ls.write(frame, path, commit_user="job", identifier=1)
assert again.snapshot_ids == done.snapshot_ids
spark.stop()
"""


@pytest.mark.parametrize(("kind", "fault"), [("append", "raises"), ("fixed", "dies"), ("dynamic", "raises"), ("dynamic", "dies")])
def test_a_task_that_fails_once(tmp_path, kind, fault):
    """Spark ends the Python process of a task when the task fails, at any point: mostly the attempt has removed its files by then."""
    how = {"append": {}, "fixed": {"primary_keys": ["k"], "options": {"bucket": "2"}}, "dynamic": {"primary_keys": ["k"]}}[kind]
    t = lk.create(tmp_path / "t", {"k": "BIGINT NOT NULL", "v": "STRING"}, **how)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    ran = subprocess.run([sys.executable, program, t.location, tmp_path, fault, "local[2,4]"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert (tmp_path / fault).exists(), "no task failed"
    assert t.scan().select(pl.col("k").sum(), n=pl.len(), keys=pl.col("k").n_unique()).collect().rows() == [(400_000 * 399_999 // 2, 400_000, 400_000)]
    assert len(t.snapshots()) == 1
    assert t.check(deep=True).ok
    left = {path.name for path in Path(t.location).rglob("data-*")} - set(t.files()["file_name"])
    for path in Path(t.location).rglob("*"):
        os.utime(path, (1e9, 1e9))  # long ago
    assert {Path(path).name for path in t.remove_orphans(dry_run=False)["path"]} >= left
    assert t.check().ok
