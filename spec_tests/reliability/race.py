"""Processes that commit to one table on the local disk, each writing down what was acknowledged where no other process writes."""

from __future__ import annotations

import os
import sys
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from lakekit.commit.committer import commit_changes
from lakekit.errors import RetriesExhausted
from lakekit.metadata.table_context import open_context
from lakekit.model.commit_message import CommitMessage
from spec_tests.reliability.commits import file, schema

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier


def made(root: Path, **options: str) -> Path:
    """A table without partitions at a path."""
    (root / "schema").mkdir(parents=True)
    (root / "schema" / "schema-0").write_bytes(schema(partitioned=False, options=options))
    return root


def race(root: Path, workers: int, commits: int) -> list[tuple[str, int, int]]:
    """Lets processes commit at once; what they wrote down: file, snapshot, and how often others were faster."""
    spawn = get_context("spawn")
    start = spawn.Barrier(workers)
    processes = [spawn.Process(target=work, args=(str(root), number, commits, start)) for number in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0] * workers
    ledgers = [(root.parent / f"ledger-{number}").read_text().splitlines() for number in range(workers)]
    lines = [line.split() for ledger in ledgers for line in ledger]
    return [(name, int(snapshot), int(retries)) for name, snapshot, retries in lines]


def work(root: str, number: int, commits: int, start: Barrier) -> None:
    """One process: each commit adds one file, and is repeated for as long as others are faster."""
    table = open_context(root)
    ledger = os.open(Path(root).parent / f"ledger-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    start.wait(120)
    for identifier in range(commits):
        name = f"data-{number}-{identifier}.parquet"
        message = CommitMessage(partition=bytes(12), bucket=number % 2, total_buckets=2, new_files=(file(name),))
        retries = 0
        while True:
            try:
                told = commit_changes(table, [message], commit_user=f"worker-{number}", identifier=identifier)
                break
            except RetriesExhausted:
                retries += table.options.commit_max_retries
        os.write(ledger, f"{name} {told.snapshot_id} {told.retry_count + retries}\n".encode())
        os.fsync(ledger)
    os.close(ledger)
    sys.stdout.flush()
