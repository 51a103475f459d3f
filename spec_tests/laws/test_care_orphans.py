"""Orphans of tables of chance, while writers are under way and others delete: exactly the old files that nothing names go, and no file that lives.

RELIABILITY check 25; D5, D6; I4, I8; B1, B2, B3. The storage counts its writes and has them for a clock, so that what is old is the same every time.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import polars as pl
import pytest

from lakekit.ddl import schema_writer as schemas
from lakekit.ddl.table_definition import to_fields
from lakekit.errors import LakekitError
from lakekit.metadata.table_context import TableLocation
from lakekit.model.table_paths import TablePaths
from lakekit.storage.memory import MemoryStorage
from lakekit.table.table import Table
from spec_tests.conftest import DEEP
from spec_tests.laws.test_care_histories import COLUMNS, INTS, KINDS, History
from spec_tests.longer import some
from spec_tests.reliability.faulty import FaultyStorage
from spec_tests.reliability.kept import METADATA, needed_of
from spec_tests.reliability.named import named_by_any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import lakekit as lk

ROOT, OUTSIDE = "/t", "/elsewhere"
ROUND = {"data-file.external-paths": OUTSIDE, "data-file.external-paths.strategy": "round-robin"}
MORE: dict[str, tuple[dict[str, str], list[str], list[str]]] = {
    "outside": ({"bucket": "1", "changelog-producer": "input", **ROUND}, ["k", "p"], ["p"]),
    "outside-append": ({"bucket": "-1", **ROUND}, [], ["p"]),
}
STEPS = 12
TABLES = 300 if DEEP else 16
LOST = "00000000-0000-0000-0000-000000000000"


class UnderWay(NamedTuple):
    """Rows that a writer wrote and has not committed. `since`: the clock when it began."""

    branch: str
    table: lk.Table
    user: str
    messages: list[lk.CommitMessage]
    since: int


class Busy(History):
    """A history in memory in which writers may be under way while everything else is done."""

    kinds: ClassVar = {**KINDS, **MORE}

    def __init__(self, kind: str, seed: int) -> None:
        self.store = MemoryStorage()
        self.writers: list[UnderWay] = []
        super().__init__(kind, seed, ROOT)

    def created(self, how: dict[str, Any]) -> lk.Table:
        ground = TableLocation(name="t", storage=self.store, paths=TablePaths(root=ROOT))
        schemas.create_table_schema(ground, to_fields(COLUMNS), **{name: tuple(one) if isinstance(one, list) else one for name, one in how.items()})
        return self.over(self.store)

    @staticmethod
    def over(storage: Any) -> lk.Table:
        return Table(location=ROOT, name="t", storage=storage, dynamic={"lakekit.allowed-locations": OUTSIDE})

    def on_disk(self) -> set[str]:
        return {path for path in self.store.files if not METADATA.fullmatch(path.removeprefix(f"{ROOT}/"))}

    def needed(self) -> set[str]:
        return needed_of(self.main._context())

    @property
    def clock(self) -> int:
        """The number of the next write."""
        self.store.put(f"{ROOT}/clock", b"")
        return self.store.files.pop(f"{ROOT}/clock")[1] + 1

    def turn(self) -> None:
        self.random.choice((self.step, self.step, self.step, self.step, self.begin, self.finish, self.die))()

    def begin(self) -> None:
        branch, since = self.random.choice(self.branches()), self.clock
        self.count += 1
        rows = [{"k": self.random.randrange(12), "p": self.random.randrange(3), "v": f"{self.count}"} for _ in range(3)]
        table, user = self.table(branch), f"writer {self.count}"
        with table.writer(commit_user=user) as writer:
            frame = pl.DataFrame(rows, schema_overrides=INTS)
            writer.write(frame.unique("k", keep="last", maintain_order=True) if self.keys else frame)
            self.writers.append(UnderWay(branch, table, user, writer.prepare(), since))

    def finish(self) -> bool:
        """Whether one that was under way committed. It is refused where the table became another one: then its files are nobody's."""
        while self.writers:
            one = self.writers.pop(self.random.randrange(len(self.writers)))
            self.left_behind = True
            if one.branch in self.branches():
                with suppress(LakekitError):
                    one.table.commit(one.messages, commit_user=one.user, identifier=1)
                    self.note(one.branch)
                    return True
        return False

    def die(self) -> None:
        if self.writers:
            self.writers.pop(0)
            self.left_behind = True

    def plant(self) -> set[str]:
        """A file in every directory that has some, named by nobody."""
        folders = {path.rpartition("/")[0] for path in self.on_disk()} | {f"{ROOT}/manifest", f"{ROOT}/index", f"{ROOT}/statistics"}
        names = {"manifest": f"manifest-{LOST}-{self.count}", "index": f"index-{LOST}-{self.count}", "statistics": f"stat-{LOST}-{self.count}"}
        lost = {f"{folder}/{names.get(folder.rpartition('/')[2], f'data-{LOST}-{self.count}.parquet')}" for folder in folders}
        lost.add(f"{ROOT}/snapshot/.snapshot-{self.count}.tmp")
        for path in lost:
            self.store.put(path, b"lost")
        return lost

    def others(self) -> Callable[[], None]:
        """What somebody does while orphans are cleaned: snapshots and tags vanish, and others come."""
        branch = self.random.choice(self.branches())
        chosen = self.random.choice((self.expire, self.expire, self.expire, self.untag, self.retag, self.write, self.compact, self.unbranch))
        return lambda: chosen(branch) if branch in self.branches() else None


def at(clock: int) -> datetime:
    """A time as options take it; half a millisecond more, as it is cut off."""
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=clock, microseconds=500)


@pytest.mark.long
@pytest.mark.parametrize("case", some([(list(Busy.kinds)[seed % len(Busy.kinds)], seed) for seed in range(TABLES)], 7))
def test_only_old_files_that_nothing_names_go(case: tuple[str, int]):
    kind, seed = case
    history = Busy(kind, seed)
    history.write("main")
    lost = history.plant()
    for _ in range(STEPS):
        history.turn()
    history.begin()
    young = history.plant()
    limit = min(one.since for one in history.writers)
    calls = cleaned(history, limit, {})
    for number in {history.random.randrange(calls) for _ in range(3)}:
        before = history.on_disk()
        cleaned(history, limit, {number: history.others()})
        assert history.needed() <= history.on_disk(), (kind, seed, number)
        assert {path for one in history.writers for path in files_of(before, one)} <= history.on_disk()
    before = history.on_disk()
    aged = {path for path in before - named_by_any(history.main._context()) if history.store.files[path][1] < limit}
    cleaned(history, limit, {})
    assert history.on_disk() == before - aged, (kind, seed)
    assert not lost & history.on_disk()
    assert young <= set(history.store.files)
    while history.writers:
        history.finish()
    assert history.main.remove_orphans(older_than=at(limit), dry_run=False, external=True).is_empty()
    history.left_behind = True
    history.check()


def cleaned(history: Busy, limit: int, meanwhile: dict[int, Callable[[], None]]) -> int:
    """Cleans what is older, while others do something before some call, or not at all where too much changed; how many calls it took."""
    storage = FaultyStorage(history.store, meanwhile=meanwhile)
    try:
        history.over(storage).remove_orphans(older_than=at(limit), dry_run=False, external=True)
    except LakekitError:
        assert meanwhile
    return len(storage.trace)


def files_of(there: Iterable[str], one: UnderWay) -> set[str]:
    """The files of a writer that is under way."""
    names = {file.name for message in one.messages for file in (*message.new_files, *message.changelog_files)}
    return {path for path in there if path.rpartition("/")[2] in names}
