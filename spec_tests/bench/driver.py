"""What a Spark driver does for each file and bucket of a job: `python -m spec_tests.bench.driver [FILES FILES_A_BUCKET]`, without Spark.

The files are made up, ten columns with statistics each; nothing is read but metadata. What a driver does alone is measured on the way of a job: the messages
of a write arrive as bytes, become one commit, and a read plans the table cold and cuts it into tasks. Each line tells the processor time of a file, the bytes
that it makes, how much the process grew, and what that comes to for 1 M files. ARCHITECTURE.md holds the estimate that this gives.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakekit as lk
from lakekit.commit import committer
from lakekit.data_file.paths import data_file_paths
from lakekit.metadata.table_context import open_context
from lakekit.model.commit_message import CommitMessage
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.read import table_scan
from lakekit.read.planner import NO_FILTER
from lakekit.runtime import Runtime
from lakekit.spark import tasks
from spec_tests.bench.plan_entries import COLUMNS, data_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta

FILES, FILES_A_BUCKET, SLOTS = 20_000, 10, 64
MILLION = 1_000_000
NO_PARTITION = bytes(12)


@dataclass(frozen=True, slots=True)
class Step:
    """What a step took for `count` files: processor time, bytes that it made, and by how much the process grew."""

    what: str
    count: int
    cpu_s: float
    made_bytes: int
    grown_bytes: int

    def __str__(self) -> str:
        cost, size, memory = self.cpu_s / self.count, self.made_bytes / self.count, self.grown_bytes / self.count
        whole = f"{cost * MILLION:.0f} s | {size * MILLION / 1e6:,.0f} MB | {memory * MILLION / 1e9:.1f} GB"
        return f"| {self.what} | {cost * 1e6:.1f} µs | {size:,.0f} B | {memory:,.0f} B | {whole} |"


def main() -> None:
    count, each = (int(text) for text in sys.argv[1:3]) if len(sys.argv) > 2 else (FILES, FILES_A_BUCKET)
    print(f"{count:,} files, {each} a bucket\n\n| step | a file: time | bytes | memory | 1 M files: time | bytes | memory |\n|{'---|' * 7}")
    with tempfile.TemporaryDirectory() as folder:
        for keyed in (True, False):
            root = Path(folder, "keyed" if keyed else "append")
            keys: dict[str, Any] = {"primary_keys": ["c0"]} if keyed else {}
            options = {"bucket": str(count // each), **({} if keyed else {"bucket-key": "c0"})}
            lk.create(root, {f"c{at}": kind if at or not keyed else f"{kind} NOT NULL" for at, kind in enumerate(COLUMNS)}, options=options, **keys)
            job(open_context(str(root)), count, each)


def job(handle: TableContext, count: int, each: int) -> None:
    """A write of all files, a write of one more, and a read."""
    luck, kind = random.Random(1), handle.kind
    answers = [message(handle, [data_file(luck) for _ in range(each)], at).to_bytes() for at in range(count // each)]
    size = sum(map(len, answers))
    messages = told(f"{kind}: messages from their bytes", count, lambda: [CommitMessage.from_bytes(data) for data in answers], lambda _: size)
    told(f"{kind}: their commit", count, lambda: put(handle, messages, 1), lambda _: metadata(handle))
    before, one = metadata(handle), [message(handle, [data_file(luck)], 0)]
    told(f"{kind}: the next commit, of one file", count, lambda: put(handle, one, 2), lambda _: metadata(handle) - before)
    cold = replace(handle, runtime=Runtime())
    plan = told(f"{kind}: a cold plan", count, lambda: table_scan.scan(cold).plans(NO_FILTER)[0])
    if kind == "append":
        told(f"{kind}: paths for Spark's reader", count, lambda: data_file_paths(handle, plan.entries), lambda paths: sum(map(len, paths)))
    told(f"{kind}: its tasks", count, lambda: tasks.plan_tasks(plan, plan.raw, SLOTS), lambda tasks: sum(map(len, tasks)))


def message(handle: TableContext, files: list[DataFileMeta], bucket: int) -> CommitMessage:
    """The answer of a task that wrote these files."""
    keyless = {} if handle.kind == "key" else {"min_key": NO_PARTITION, "max_key": NO_PARTITION}
    found = tuple(replace(file, level=0, **keyless) for file in files)
    return CommitMessage(partition=NO_PARTITION, bucket=bucket, new_files=found)


def put(handle: TableContext, messages: list[CommitMessage], number: int) -> None:
    committer.commit_changes(handle, messages, commit_user=f"bench-{number}", identifier=BATCH_IDENTIFIER, is_new_user=True)


def metadata(handle: TableContext) -> int:
    """The bytes of all manifests and their lists."""
    return sum(path.stat().st_size for path in Path(handle.root, "manifest").iterdir())


def told(what: str, count: int, step: Callable[[], Any], size: Callable[[Any], int] = lambda _: 0) -> Any:
    """What a step gives; what it took is printed."""
    before, began = peak_bytes(), time.process_time()
    found = step()
    spent = time.process_time() - began
    print(Step(what, count, spent, size(found), peak_bytes() - before), flush=True)
    return found


def peak_bytes() -> int:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
