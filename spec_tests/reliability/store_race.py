"""Processes that commit to one table in an object store, and what each was told."""

from __future__ import annotations

from datetime import timedelta
from multiprocessing import get_context
from queue import Empty
from typing import TYPE_CHECKING

from lakekit.commit.committer import commit_changes
from lakekit.errors import CommitStateUnknown, RetriesExhausted, StorageFailed
from lakekit.metadata.table_context import open_context
from lakekit.model.commit_message import CommitMessage
from lakekit.storage import object_store as objects
from spec_tests.reliability.commits import file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier


def race(url: str, options: Mapping[str, str], workers: int, commits: int) -> list[str]:
    """Lets processes commit at once; the files whose commits were acknowledged."""
    spawn = get_context("spawn")
    start, told = spawn.Barrier(workers), spawn.Queue()
    processes = [spawn.Process(target=work, args=(url, dict(options), number, commits, start, told)) for number in range(workers)]
    for process in processes:
        process.start()
    lists: list[list[str]] = []
    while len(lists) < workers:
        try:
            lists.append(told.get(timeout=5))
        except Empty:
            assert not [process.exitcode for process in processes if process.exitcode], "a process failed"
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * workers
    return [name for names in lists for name in names]


def work(url: str, options: dict[str, str], number: int, commits: int, start: Barrier, told: Queue[list[str]]) -> None:
    """One process: each commit adds one file, and is repeated, as the same commit, until it is acknowledged."""
    objects.FIRST_WAIT = timedelta(milliseconds=2)
    table = open_context(url, storage_options=options)
    start.wait(120)
    acknowledged = []
    for identifier in range(commits):
        name = f"data-{number}-{identifier}.parquet"
        message = CommitMessage(partition=bytes(12), bucket=number % 2, total_buckets=2, new_files=(file(name),))
        while True:
            try:
                commit_changes(table, [message], commit_user=f"worker-{number}", identifier=identifier)
                break
            except (RetriesExhausted, CommitStateUnknown, StorageFailed):
                continue
        acknowledged.append(name)
    told.put(acknowledged)
