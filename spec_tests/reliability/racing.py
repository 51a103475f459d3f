"""Processes that write rows to tables on the local disk through what users call, each writing down what was acknowledged where no other process writes.

    race(folder, ["append", "fixed"], workers=8, commits=250)     one table after another, all processes at each; what became of them, by table

The processes are started once, by spawn, and meet at a barrier before each table. A line of a ledger is a key, the snapshots that its commit made, and how
often others were faster; a line of a compactor begins with `compact`.
"""

from __future__ import annotations

import os
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import lakekit as lk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.synchronize import Barrier

COLUMNS = {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "BIGINT"}
KEY = {"primary_keys": ["p", "k"], "partition_keys": ["p"]}
ONLY_ADDS = {"write-only": "true"}
TABLES: dict[str, dict[str, Any]] = {
    "append": {},
    "fixed": {"primary_keys": ["p", "k"], "options": {"bucket": "2", **ONLY_ADDS}},
    "dynamic": {**KEY, "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "20", **ONLY_ADDS}},
    "compacting": {**KEY, "options": {"bucket": "1"}},
    "with a compactor": {"primary_keys": ["p", "k"], "options": {"bucket": "2", **ONLY_ADDS}},
    "append with a compactor": {"options": {"compaction.min.file-num": "3"}},
    "one dynamic partition": {"primary_keys": ["k"], "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "5", **ONLY_ADDS}},
}
"""Every process has a partition of its own but in `one dynamic partition`, where all write the same keys and meet conflicts."""
PATIENCE_S = 300
MEETINGS = 6
"""So often writers wait for a compactor, which then begins: what they wrote between two meetings is compacted after the first or the second of them."""


class Line(NamedTuple):
    """One acknowledged commit: its key, its snapshots, lost races, and refusals after which the rows were written again."""

    key: int
    snapshots: tuple[int, ...]
    retries: int
    exhausted: int
    conflicts: int


def race(folder: Path, names: Sequence[str], *, workers: int, commits: int) -> dict[str, tuple[lk.Table, list[Line], list[Line]]]:
    """Lets processes write to tables at once. By table: the table, the lines of its writers, and those of its compactor."""
    for name in names:
        lk.create(folder / name.replace(" ", "-"), COLUMNS, **TABLES[name])
    spawn = get_context("spawn")
    meet = spawn.Barrier(workers)
    processes = [spawn.Process(target=work, args=(str(folder), list(names), number, workers, commits, meet)) for number in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_S)
    assert [process.exitcode for process in processes] == [0] * workers
    return {name: (lk.open(folder / name.replace(" ", "-")), _lines(folder, name, "write"), _lines(folder, name, "compact")) for name in names}


def _lines(folder: Path, name: str, what: str) -> list[Line]:
    words = [line.split() for ledger in folder.glob(f"{name.replace(' ', '-')}.ledger-*") for line in ledger.read_text().splitlines()]
    return [
        Line(int(key), tuple(map(int, snapshots.split(","))) if snapshots != "none" else (), int(retries), int(exhausted), int(conflicts))
        for kind, key, snapshots, retries, exhausted, conflicts in words
        if kind == what
    ]


def work(folder: str, names: list[str], number: int, workers: int, commits: int, meet: Barrier) -> None:
    """One process: a commit is tried again for as long as others are faster."""
    for name in names:
        path = Path(folder) / name.replace(" ", "-")
        ledger = os.open(f"{path}.ledger-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        meet.wait(PATIENCE_S)
        table = lk.open(path)
        compacts = name.endswith("compactor") and number == workers - 1
        step = max(1, commits // MEETINGS) if name.endswith("compactor") else 0
        for turn in until_done(path, workers - 1) if compacts else range(commits):
            if step and (turn < MEETINGS if compacts else turn % step == 0 and turn // step < MEETINGS):
                meet.wait(PATIENCE_S)
            key = turn if name == "one dynamic partition" else number * 10_000 + turn
            rows = [{"p": number, "k": key, "v": number * 10_000 + turn}]
            exhausted = conflicts = 0
            if name == "one dynamic partition":
                meet.wait(PATIENCE_S)  # at each turn, or on a busy machine they would write one after the other
            while True:
                try:
                    done = table.compact() if compacts else table.append(rows)
                except lk.RetriesExhausted:
                    exhausted += 1
                except lk.Conflict:
                    conflicts += 1
                else:
                    break
            told = ",".join(map(str, done.snapshot_ids)) or "none"
            os.write(ledger, f"{'compact' if compacts else 'write'} {key} {told} {done.retry_count} {exhausted} {conflicts}\n".encode())
            os.fsync(ledger)
        os.close(ledger)
        Path(f"{path}.done-{number}").touch()


def until_done(path: Path, writers: int) -> Iterator[int]:
    """Turns of a compactor, for as long as others write."""
    for turn in count():
        yield turn
        if len(list(path.parent.glob(f"{path.name}.done-*"))) == writers:
            return
