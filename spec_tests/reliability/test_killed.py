"""Processes that are killed while they write: what they acknowledged is there, others go on, and nobody waits for the dead.

RELIABILITY 5.6, check 6; F1, F2; I1-I5, I19.
"""

from __future__ import annotations

import os
import random
import signal
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

import lakekit as lk
from spec_tests.conftest import DEEP

KILLS = 100 if DEEP else 5
PATIENCE_S = 120
EACH = 1_000_000
"""Keys of one process, at most."""


def work(path: str, number: int) -> None:
    """Adds one row after another, compacts as the table asks for it, and now and then by itself; each key is written down once it is acknowledged."""
    table, ledger = lk.open(path), os.open(f"{path}.ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for turn in range(EACH):
        key = number * EACH + turn
        table.upsert([{"p": number % 2, "k": key, "v": key}])
        os.write(ledger, f"{key}\n".encode())
        os.fsync(ledger)
        if turn % 7 == 6:
            table.compact(full=True, where=f"p = {number % 2}")


def acknowledged(path: Path) -> list[int]:
    ledger = Path(f"{path}.ledger")
    return [int(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


@pytest.mark.long
def test_what_killed_processes_acknowledged_is_there_and_others_go_on(tmp_path):
    path, seed = tmp_path / "t", int(os.environ.get("REL_SEED", "7"))
    columns, options = {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "BIGINT"}, {"bucket": "1", "num-sorted-run.compaction-trigger": "3"}
    table = lk.create(path, columns, primary_keys=["p", "k"], partition_keys=["p"], options=options)
    spawn, chance = get_context("spawn"), random.Random(seed)
    for number in range(KILLS):
        before = len(acknowledged(path))
        process = spawn.Process(target=work, args=(str(path), number))
        process.start()
        until = time.monotonic() + PATIENCE_S
        while len(acknowledged(path)) < before + 3:
            assert process.is_alive(), process.exitcode
            assert time.monotonic() < until, "nobody waits for the dead"
            time.sleep(0.01)
        time.sleep(chance.random() / 5)
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join(PATIENCE_S)
        table.upsert([{"p": number % 2, "k": -1 - number, "v": number}])
        look(table, path, own=number + 1)
    assert table.compact(full=True).kinds in {(), ("COMPACT",)}  # the last writer may have done it all
    assert set(table.files()["level"]) == {3}
    look(table, path, own=KILLS)


def look(table: lk.Table, path: Path, own: int) -> None:
    """Every key that was acknowledged is there once; of each process one more may be, whose acknowledgement it did not live to write."""
    keys = table.scan().collect()["k"].to_list()
    assert len(set(keys)) == len(keys)
    assert sorted(key for key in keys if key < 0) == list(range(-own, 0))
    missing = set(acknowledged(path)) - set(keys)
    assert not missing
    more = [key // EACH for key in set(keys) - set(acknowledged(path)) if key >= 0]
    assert len(set(more)) == len(more)
    report = table.check()
    assert report.ok, str(report)
