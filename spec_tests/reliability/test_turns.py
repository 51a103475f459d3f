"""Turns of those who lost a race: one has it at a time, nobody waits long for it, and no commit needs it."""

from __future__ import annotations

import errno
import fcntl
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

import lakekit as lk
from lakekit.commit import try_commit
from lakekit.runtime import LRUCache, Runtime
from lakekit.storage.local import LocalStorage
from lakekit.storage.memory import MemoryStorage
from lakekit.storage.protocol import commit_queue
from spec_tests.reliability.commits import ROOT, commit, live, message, opened, schema, unreferenced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pytest


def test_one_has_the_turn_until_it_leaves(tmp_path: Path):
    storage, place = LocalStorage(), str(tmp_path)
    with commit_queue(storage, place, 0) as first, commit_queue(storage, place, 5) as second, commit_queue(storage, f"{place}/none", 5) as nowhere:
        assert (first, second, nowhere) == (True, False, False)
    with commit_queue(storage, place, 0) as again:
        assert again
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_and_a_storage_without_turns_know_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with commit_queue(LocalStorage(), str(tmp_path), 10_000) as local, commit_queue(MemoryStorage(), "/t", 10_000) as memory:
        assert not local
        assert not memory


class Busy(MemoryStorage):
    """A storage with turns, on which others are faster, so many times."""

    rivals: int = 0
    turns: int = 0

    @contextmanager
    def enter_commit_queue(self, directory: str, patience_ms: float) -> Iterator[bool]:
        assert directory == f"{ROOT}/snapshot"
        assert patience_ms >= 0
        self.turns += 1
        yield True
        self.turns -= 1

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self.rivals and "/snapshot/" in path:
            self.rivals -= 1
            number = self.rivals
            commit(opened(MemoryStorage(files=self.files)), [message("b", new=[f"r{number}"])], 1, user=f"rival {number}")
        return super().put_if_absent(path, data)


def test_who_has_the_turn_tries_again_at_once_and_gives_it_back():
    store, waits = Busy(), list[float]()
    store.put(f"{ROOT}/schema/schema-0", schema())
    store.rivals = 4
    table = opened(store, Runtime(wait_ms=waits.append, metadata_cache=LRUCache(1 << 20)))
    told = commit(table, [message(new=["f"])], 1)
    assert (told.snapshot_ids, told.retry_count, waits, store.turns) == ((5,), 4, [], 0)
    assert [name for *_, name in live(table)] == ["f", "r0", "r1", "r2", "r3"]
    assert unreferenced(store) == []


def test_who_comes_later_lets_those_pass_who_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Else a compactor, which needs longer than who adds a row, would lose to newcomers until it gives up."""
    table, queued, real = lk.create(tmp_path, {"k": "INT"}), Event(), LocalStorage.enter_commit_queue
    table.append([{"k": 1}])

    def seen(self: LocalStorage, directory: str, patience_ms: float) -> AbstractContextManager[bool]:
        if patience_ms > 0:
            queued.set()
        return real(self, directory, patience_ms)

    monkeypatch.setattr(try_commit, "_MAX_QUEUE_WAIT_MS", 60_000)
    with commit_queue(LocalStorage(), str(tmp_path / "snapshot"), 0) as mine:
        assert mine
        monkeypatch.setattr(LocalStorage, "enter_commit_queue", seen)
        later = Thread(target=table.append, args=([{"k": 2}],))
        later.start()
        assert queued.wait(60)
        assert later.is_alive()
        assert table.snapshots().height == 1
    later.join()
    assert table.snapshots().height == 2
