"""Writers, a compactor, who expires, who cleans orphans, and readers of what was: all at once, in turns that a seed chooses.

Whoever has the turn is interrupted before some call by another one, who does a whole step of its own, and may be interrupted as well. RELIABILITY 5.2, checks
10 and 15; F8, F9; I1, I3, I4, I6, I8; B1-B4.

    writer      ─────w1──────╮            ╭───── …          rows of its own, and those of two phases with everything between them
    compactor                ╰──c──╮   ╭──╯                 what it made is there or refused, never half
    expiry                         ╰─e─╯                    keeps tags, branches and two snapshots
    cleaning                                                what is older than the whole game, never what came since
    readers     before, in between and after: a tag, a branch, a snapshot that is still there
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from lakekit import parallel
from lakekit.errors import Conflict, LakekitError
from lakekit.metadata import snapshots
from lakekit.storage.protocol import FileMissing
from spec_tests.conftest import DEEP, WHOLE
from spec_tests.reliability.faulty import FaultyStorage, copy
from spec_tests.reliability.kept import METADATA, needed_of
from spec_tests.reliability.named import named_by_any
from spec_tests.reliability.rows import ROOT, filled, opened, seen

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from lakekit.storage.memory import MemoryStorage

KINDS = ("key", "input", "lookup", "marked", "waiting", "dynamic", "first", "append", "append marked", "bucketed")
GAMES = 320 if DEEP else 4 if WHOLE else 2
"""Of each kind. Each game is a schedule."""
DEEPEST = 3
FAR = "9999-01-01"


@pytest.fixture(autouse=True)
def one_after_another(monkeypatch):
    monkeypatch.setattr(parallel, "is_pool_thread", lambda: True)


@cache
def begun(kind: str) -> tuple[MemoryStorage, int]:
    """A table with a tag, a branch and orphans, and how many writes that took: what is older is old."""
    store = copy(filled(kind))
    table = opened(store)
    table.create_tag("kept", at=1)
    table.create_tag("base")
    table.create_branch("b", tag="base")
    table.append([{"p": "b", "k": 20, "v": "20"}])
    bucket = next(path.rpartition("/")[0] for path in store.files if "/bucket-" in path)
    for path in (f"{ROOT}/manifest/manifest-lost-0", f"{ROOT}/index/index-lost-0", f"{bucket}/data-lost-0.parquet"):
        store.put(path, b"lost")
    store.put(f"{ROOT}/clock", b"")
    return store, store.files.pop(f"{ROOT}/clock")[1]


@dataclass
class Game:
    """A table, what is done to it in turns, and what came of that."""

    store: MemoryStorage
    old: int
    rng: Random
    steps: dict[str, list[Callable[[Any], None]]] = field(default_factory=dict)
    depth: int = 0
    reads: int = 0
    written: set[int] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    pinned: list[tuple[str, int | None, pl.LazyFrame, Any]] = field(default_factory=list)

    def play(self) -> None:
        """Every step of everybody, each interrupted or not."""
        while any(self.steps.values()):
            self.turn()

    def turn(self, *, but: str = "") -> None:
        """The next step of somebody."""
        able = [name for name, left in self.steps.items() if left and name != but]
        if not able:
            return
        name = self.rng.choice(able)
        step = self.steps[name].pop(0)
        self.depth += 1
        try:
            step(FaultyStorage(self.store, meanwhile=self.interruptions(name)))
        except LakekitError as refusal:
            self.refused.append(f"{name}: {type(refusal).__name__}")
            assert isinstance(refusal, (Conflict, FileMissing)), (name, refusal)  # what a writer or a compactor began with may expire before it looked at it
        finally:
            self.depth -= 1

    def interruptions(self, name: str) -> dict[int, Callable[[], None]]:
        """Before which calls others have a turn; few, or nothing would be done in one go."""
        if self.depth >= DEEPEST or self.rng.random() < 0.2:
            return {}
        ends = [self.rng.choice((12, 40, 120)) for _ in range(self.rng.choice((1, 1, 2)))]
        return {self.rng.randrange(end): lambda: self.turn(but=name) for end in ends}

    # ---- who plays

    def write(self, key: int) -> Callable[[Any], None]:
        def step(storage: Any) -> None:
            opened(storage).append([{"p": "a", "k": key, "v": f"{key}"}, {"p": "b", "k": key + 1, "v": f"{key}"}])
            self.written |= {key, key + 1}

        return step

    def two_phases(self, key: int) -> list[Callable[[Any], None]]:
        messages: list[Any] = []

        def prepares(storage: Any) -> None:
            with opened(storage).writer(commit_user="two phases") as writer:
                writer.write([{"p": "a", "k": key, "v": f"{key}"}])
                messages.extend(writer.prepare())

        def commits(storage: Any) -> None:
            if messages:
                opened(storage).commit(messages, commit_user="two phases", identifier=1)
                self.written.add(key)

        return [prepares, commits]

    def read(self, _: Any) -> None:
        for name, number, frame, rows in self.pinned:
            try:
                found = frame.collect()
            except LakekitError:  # what expires may say so; what is kept may not
                assert number is not None, name
                assert f"{ROOT}/snapshot/snapshot-{number}" not in self.store.files
                continue
            self.reads += 1
            assert (tuple(found.columns), tuple(sorted(found.rows(), key=repr))) == rows, name


def dealt(kind: str, seed: int) -> Game:
    """Who plays in a game, and with which steps."""
    filled_store, old = begun(kind)
    game = Game(copy(filled_store), old, Random(f"{kind} {seed}"))
    limit = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=old, microseconds=500)
    newest = opened(game.store).snapshots()["snapshot_id"].max()
    reader = opened(game.store)
    frames = {"tag": (None, reader.scan("kept")), "branch": (None, reader.branch("b").scan("base")), "snapshot": (newest, reader.scan(newest))}
    for name, (number, frame) in frames.items():
        rows = frame.collect()
        game.pinned.append((name, number, frame, (tuple(rows.columns), tuple(sorted(rows.rows(), key=repr)))))

    def expires(storage: Any) -> None:
        opened(storage).expire_snapshots(retain_max=2, retain_min=1 + seed % 2, older_than=FAR)

    def cleans(storage: Any) -> None:
        opened(storage).remove_orphans(older_than=limit, dry_run=False)

    game.steps = {
        "writer": [game.write(30), game.write(40)],
        "two phases": game.two_phases(50),
        "compactor": [lambda storage: opened(storage).compact(full=bool(seed % 3))],
        "expiry": [expires, expires],
        "cleaning": [cleans, cleans],
        "readers": [game.read] * 3,
    }
    return game


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS if DEEP or WHOLE else KINDS[::4])
def test_all_at_once_nothing_is_lost_and_readers_see_what_was(kind: str):
    reads = 0
    for seed in range(GAMES):
        game = dealt(kind, seed)
        game.play()
        fair(kind, seed, game)
        reads += game.reads
    assert reads >= 5 * GAMES


def fair(kind: str, seed: int, game: Game) -> None:
    """What holds when all are done: every row that was acknowledged, every file that something needs, and nothing that is old and nobody's."""
    where, store = (kind, seed, game.refused), game.store
    table = opened(store)
    table.compact(full=True)
    expected = {row[1] for row in seen(opened(begun(kind)[0]))[1]} | game.written
    assert {row[1] for row in seen(table)[1]} == expected, where
    numbers = snapshots.ids(table._context())
    assert numbers == list(range(numbers[0], numbers[-1] + 1)), where
    assert table.check(deep=True).ok, where
    assert needed_of(table._context()) <= store.files.keys(), where
    game.read(None)
    store.put(f"{ROOT}/clock", b"")
    end = store.files.pop(f"{ROOT}/clock")[1]
    table.remove_orphans(older_than=datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=end, microseconds=500), dry_run=False)
    assert {path for path in store.files if not METADATA.fullmatch(path.removeprefix(f"{ROOT}/"))} <= named_by_any(table._context()), where
