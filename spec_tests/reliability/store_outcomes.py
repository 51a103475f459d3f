"""Processes that commit once each time to one table in a faulty object store, and what each commit was told: nothing is repeated by hand."""

from __future__ import annotations

from multiprocessing import get_context
from typing import TYPE_CHECKING

from lakekit.commit.committer import commit_changes
from lakekit.errors import CommitStateUnknown, LakekitError
from lakekit.metadata.table_context import open_context
from lakekit.model.commit_message import CommitMessage
from spec_tests.reliability.commits import file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier


def outcomes(url: str, options: Mapping[str, str], workers: int, commits: int) -> dict[str, str]:
    """Lets processes commit at once; of each file that a commit adds "done", "failed" or "unknown"."""
    spawn = get_context("spawn")
    start, told = spawn.Barrier(workers), spawn.Queue()
    processes = [spawn.Process(target=work, args=(url, dict(options), number, commits, start, told)) for number in range(workers)]
    for process in processes:
        process.start()
    found = [told.get(timeout=500) for _ in processes]
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * workers
    return {name: outcome for one in found for name, outcome in one}


def work(url: str, options: dict[str, str], number: int, commits: int, start: Barrier, told: Queue[list[tuple[str, str]]]) -> None:
    """One process: each commit adds one file."""
    table = open_context(url, storage_options=options)
    start.wait(120)
    found = []
    for identifier in range(commits):
        name, outcome = f"data-{number}-{identifier}.parquet", "done"
        message = CommitMessage(partition=bytes(12), bucket=number % 2, total_buckets=2, new_files=(file(name),))
        try:
            commit_changes(table, [message], commit_user=f"worker-{number}", identifier=identifier)
        except CommitStateUnknown:
            outcome = "unknown"
        except LakekitError:
            outcome = "failed"
        found.append((name, outcome))
    told.put(found)
