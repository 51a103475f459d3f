"""How much memory big writes take: each step is a process of its own, which says its peak in MB.

python -m spec_tests.bench.write_memory keys FOLDER COUNT          gives so many keys of one partition their dynamic buckets, and commits their hash indexes
python -m spec_tests.bench.write_memory upsert FOLDER COUNT        upserts a million rows into that table: half of their keys are known
python -m spec_tests.bench.write_memory runs FOLDER COUNT          writes so many rows in five runs that overlap into one bucket
python -m spec_tests.bench.write_memory compaction FOLDER COUNT    compacts them fully
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

import lakekit as lk
from lakekit.commit.committer import commit_changes_once
from lakekit.model.commit_message import CommitMessage
from lakekit.write.dynamic_bucket import DynamicBuckets
from spec_tests.bench.rows import columns, mixed
from spec_tests.bench.worker import memory_mb

_BATCH = 2_000_000
_RUNS = 5


def keys(folder: Path, count: int) -> None:
    """Buckets for ascending keys, in batches."""
    table = lk.create(folder / "keys", pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())]), primary_keys=["id"])
    handle = table._context()
    buckets = DynamicBuckets.for_table(handle)
    for start in range(0, count, _BATCH):
        buckets.place(pl.DataFrame({"id": np.arange(start, min(count, start + _BATCH))}))
    made = buckets.prepare(lambda: f"index-{uuid.uuid4()}-0")
    total = handle.options.bucket
    messages = [CommitMessage(partition=place, bucket=bucket, total_buckets=total, new_index_files=(file,)) for (place, bucket), file in made.files.items()]
    commit_changes_once(handle, messages, commit_user=handle.new_commit_user())


def upsert(folder: Path, count: int) -> None:
    """Rows of keys that are known and of keys that are not."""
    ids = np.arange(count - 500_000, count + 500_000)
    lk.open(folder / "keys").upsert(pl.DataFrame({"id": ids, "v": ids}))


def runs(folder: Path, count: int) -> None:
    """Runs of random keys."""
    table = lk.create(folder / "runs", columns(), primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    for seed in range(_RUNS):
        drawn = np.random.default_rng(seed).choice(count, count // _RUNS, replace=False)
        with table.writer() as writer:
            for start in range(0, len(drawn), 500_000):
                writer.write(mixed(drawn[start : start + 500_000], seed))


def compaction(folder: Path, count: int) -> None:
    """All runs become one."""
    table = lk.open(folder / "runs")
    before = sum(table.files()["row_count"].to_list())
    table.compact(full=True)
    assert before == count, before


STEPS = {"keys": keys, "upsert": upsert, "runs": runs, "compaction": compaction}


def measured(step: str, folder: Path, count: int) -> float:
    """The peak of one step in MB, in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "spec_tests.bench.write_memory", step, str(folder), str(count)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{step}: {done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


def main() -> None:
    """One step."""
    step, folder, count = sys.argv[1:]
    STEPS[step](Path(folder), int(count))
    print(f"{memory_mb('VmHWM'):.0f}")  # not ru_maxrss, which begins with the peak of whoever started this process


if __name__ == "__main__":
    main()
