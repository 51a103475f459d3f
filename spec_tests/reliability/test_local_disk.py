"""Every call to the system that a change on the local disk makes fails once, or is interrupted: a typed error, the table as before or after, no file left over.

RELIABILITY D1, checks 6 and 7; F2, F13, F18; I18.
"""

from __future__ import annotations

import errno
import os
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakekit as lk
from lakekit import parallel
from lakekit.storage import local
from spec_tests.conftest import DEEP
from spec_tests.reliability.rows import altered

if TYPE_CHECKING:
    from collections.abc import Callable

ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.EACCES, errno.EROFS, errno.EIO)
COLUMNS = {"k": "INT NOT NULL", "v": "STRING"}
ROWS = [{"k": 1, "v": "one"}, {"k": 5, "v": "five"}]
CHANGES: dict[str, tuple[dict[str, Any], Callable[[lk.Table], object]]] = {
    "upsert": ({"primary_keys": ["k"], "options": {"bucket": "1", "num-sorted-run.compaction-trigger": "2"}}, lambda t: t.upsert(ROWS)),
    "dynamic": ({"primary_keys": ["k"], "options": {"write-only": "true"}}, lambda t: t.upsert(ROWS)),
    "overwrite": ({}, lambda t: t.overwrite(ROWS)),
    "delete": ({"options": {"deletion-vectors.enabled": "true"}}, lambda t: t.delete("k = 2")),
    "compact": ({"primary_keys": ["k"], "options": {"bucket": "1", "write-only": "true"}}, lambda t: t.compact(full=True)),
    "alter": ({}, altered(lk.add_column("w", "INT"))),
}


class System:
    """The calls by which local storage writes, counted; the n-th fails with `error`, before it is made or, `late`, after it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count, self.at, self.late, self.trace = 0, -1, False, list[str]()
        self.error: BaseException = KeyboardInterrupt()
        for name in ("fsync", "link", "replace", "mkdir"):
            patch.setattr(os, name, self.counted(name, getattr(os, name)))
        patch.setattr(local, "open", self.counted("open", open), raising=False)

    def counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **named: Any) -> Any:
            number, self.count = self.count, self.count + 1
            self.trace.append(name)
            if number == self.at and not self.late:
                raise self.error
            found = call(*arguments, **named)
            if number == self.at:
                if name == "open":
                    found.close()
                raise self.error
            return found

        return counting

    def plan(self, at: int = -1, error: BaseException | None = None, *, late: bool = False) -> None:
        """Counts from 0 again."""
        self.count, self.at, self.late = 0, at, late
        self.trace.clear()
        self.error = error or KeyboardInterrupt()


@pytest.fixture
def system(monkeypatch):
    monkeypatch.setattr(parallel, "is_pool_thread", lambda: True)
    return System(monkeypatch)


def filled(path: Path, name: str) -> lk.Table:
    table = lk.create(path, COLUMNS, **CHANGES[name][0])
    table.append([{"k": k, "v": str(k)} for k in (1, 2)])
    table.append([{"k": k, "v": str(k)} for k in (3, 4)])
    return table


def seen(table: lk.Table) -> Any:
    return sorted(table.scan().collect().to_dicts(), key=repr)


def files(path: Path) -> set[str]:
    return {str(one.relative_to(path)) for one in path.rglob("*") if one.is_file()}


def handles() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir()) if Path("/proc/self/fd").is_dir() else 0


def ways(calls: int, every: int, turn: int) -> list[tuple[int, BaseException, bool]]:
    """Which call fails, with what, and whether it was made."""
    found: list[tuple[int, BaseException, bool]] = []
    for at in range(turn % every, calls, every):
        code = ERRORS[(at + turn) % len(ERRORS)]
        found.append((at, OSError(code, os.strerror(code)), False))
        found.append((at, KeyboardInterrupt(), bool(at % 2)))
        if DEEP:
            found += [(at, OSError(code, os.strerror(code)), late) for code in ERRORS for late in (False, True)]
            found.append((at, KeyboardInterrupt(), not at % 2))
    return found


@pytest.mark.long
def test_some_calls_to_the_system_fail(tmp_path, system):
    failing(tmp_path, system, "dynamic", every=11)


@pytest.mark.long
@pytest.mark.parametrize("name", CHANGES)
def test_every_call_to_the_system_fails(tmp_path, system, name):
    """Every third; every one with LAKEKIT_DEEP."""
    assert failing(tmp_path, system, name, every=1 if DEEP else 3)["refused"]


def failing(folder: Path, system: System, name: str, every: int) -> Counter[str]:
    """A change for each way in which a call of it can fail."""
    change, ended = CHANGES[name][1], Counter[str]()
    table = filled(folder / "probe", name)
    old = seen(table)
    system.plan()
    change(table)
    calls, new = system.count, seen(table)
    for number, (at, error, late) in enumerate(ways(calls, every, len(name))):
        path = folder / str(number)
        table, where = filled(path, name), (name, at, late, repr(error))
        before, open_before = files(path), handles()
        system.plan(at, error, late=late)
        outcome = "made"
        try:
            change(table)
        except lk.StorageFailed as refused:
            outcome = "refused"
            assert str(path) in str(refused), where
        except lk.CommitStateUnknown:
            outcome = "unknown"
            assert system.trace[at] in {"link", "fsync"}, where
        except KeyboardInterrupt:
            outcome = "interrupted"
        where = (*where, system.trace[at], outcome)
        system.plan()
        ended[outcome] += 1
        now = seen(table)
        assert now in (old, new), where
        assert outcome != "made" or now == new, where
        left = files(path)
        assert not [one for one in left if one.endswith(".tmp") and system_owned(one)], (where, left - before)
        if outcome == "refused" and now == old:
            assert left == before, (where, left ^ before)
        assert handles() <= open_before, where
        assert table.check().ok, where
        change(lk.open(path))
        assert seen(table) == new, where
    return ended


def system_owned(name: str) -> bool:
    """A temporary file of local storage."""
    return Path(name).name.startswith(".")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers of the system")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # which says that Python closed what an interrupt left
def test_interrupts_of_a_read_leave_no_handle(tmp_path):
    """Python looks for signals right after a call: a handle that is a mere number by then has nobody who closes it."""
    (tmp_path / "file").write_bytes(b"read me")
    storage, path, found = local.LocalStorage(), f"{tmp_path}/file", 0
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        start = len(list(Path("/dev/fd").iterdir()))
        for at in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0003 + at * 1e-6)
                while True:
                    assert storage.read(path) == b"read me"
            except KeyboardInterrupt:
                found += 1
        assert (found, len(list(Path("/dev/fd").iterdir()))) == (300, start)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
