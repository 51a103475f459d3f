"""A table beside its oracle: what is made of both, and what is true of them after every commit."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl
from hypothesis import note
from hypothesis.stateful import RuleBasedStateMachine, invariant

import lakekit as lk
from spec_tests.models.oracle import RETRACTS, Oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spec_tests.models.oracle import Row, Version
    from spec_tests.models.tables import Drawn

KIND = "_row_kind"
_SHARED = Path("/dev/shm")
HERE = str(_SHARED) if _SHARED.is_dir() else None
"""Where tables lie: in memory where the system has such a place, as nothing here asks whether bytes outlive a power cut."""


class Held(RuleBasedStateMachine):
    """One table and its oracle."""

    engine: ClassVar[str]
    counted: ClassVar[Counter[str]]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="lakekit-model-", dir=HERE)
        self.dynamic: dict[str, str] = {}
        self.branch: str | None = None
        self.past: dict[int, tuple[dict[str, str], dict[Any, str]]] = {}
        self.told: dict[Any, Row] = {}
        self.newest = self.added = self.identifier = self.step = 0

    def teardown(self) -> None:
        try:
            if hasattr(self, "oracle"):
                self.every_snapshot_reads_as_it_was()
                self.is_sound()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- the table

    def made(self, drawn: Drawn) -> None:
        self.drawn, self.oracle = drawn, Oracle(drawn)
        note(f"{drawn}")
        keys = {"primary_keys": drawn.primary_keys, "partition_keys": ["p"] if drawn.is_partitioned else []}
        lk.create(f"{self.folder}/t", drawn.columns, options=drawn.options, **keys)

    @property
    def table(self) -> lk.Table:
        return lk.open(f"{self.folder}/t", branch=self.branch, options=self.dynamic)

    @property
    def is_write_only(self) -> bool:
        return {**self.drawn.options, **self.dynamic}.get("write-only") == "true"

    @property
    def sees_writes(self) -> bool:
        """Whether what a writer commits is read at once."""
        return not self.drawn.is_postponed and not (self.drawn.hides and self.is_write_only)

    def frame(self, found: Iterable[Version], *, kinds: bool = True, schema: Any = None) -> pl.DataFrame:
        schema = schema or self.table.schema.to_polars()
        found = list(found)
        columns = [pl.Series(name, [row[name] for _, row in found], kind, strict=False) for name, kind in schema.items()]
        told = [pl.Series(KIND, [kind for kind, _ in found], pl.String)] if kinds and self.row_kind else []
        return pl.DataFrame([*columns, *told])

    @property
    def row_kind(self) -> str | None:
        return KIND if self.drawn.engine != "append" and not self.drawn.has_kinds else None

    def did(self, what: str, told: str = "") -> None:
        self.counted[what] += 1
        note(f"# {what} {told}")

    # ---- what every step is followed by

    def committed(
        self, commit: lk.Commit, *, told: list[Version] | None = None, settled: bool | None = None, replaced: Callable[[Row], bool] | None = None
    ) -> None:
        """After a commit: remembers its snapshots, and lets the changelog tell.

        `told`: rows that a changelog of producer input has. `settled`: whether the changelog has told all there is. `replaced`: rows that went, and came,
        without one.
        """
        latest = max(commit.snapshot_ids, default=self.newest)
        seen = {self.oracle.key(row) if self.drawn.keys else at: self.drawn.told(row) for at, row in enumerate(self.oracle.rows())}
        for at in commit.snapshot_ids:
            if at == latest or not (self.drawn.hides or self.drawn.is_postponed):
                self.past[at] = (self.outline, seen)
        before, self.newest = self.newest, latest
        producer = self.drawn.producer
        if producer == "input" and told is not None and not (self.drawn.is_crossing or self.drawn.hides):  # what is hidden, batch reads of changes hide too
            self._input(before, told)
        if producer in ("lookup", "full-compaction"):
            self._replay(before)
            if replaced is not None:
                self.retell(replaced)
            if settled:
                assert sorted(map(self.drawn.told, self.told.values())) == sorted(seen.values()), "the changelog replayed is not the table"

    @property
    def outline(self) -> dict[str, str]:
        """What two snapshots must have alike to be compared."""
        return {**self.drawn.columns, "buckets": self.drawn.options["bucket"]}

    def events(self, since: int) -> list[Version]:
        if since == self.newest:
            return []
        found = self.table.changes(since, self.newest, mode="changelog").collect()
        return [(row.pop(KIND), row) for row in found.to_dicts()]

    def _input(self, since: int, told: list[Version]) -> None:
        wanted = Counter(kind + self.drawn.told(row) for kind, row in told if not (self.drawn.ignore_delete and kind in RETRACTS))
        assert Counter(kind + self.drawn.told(row) for kind, row in self.events(since)) == wanted, "producer input tells other rows than were written"

    def _replay(self, since: int) -> None:
        events = self.events(since)
        if self.drawn.is_crossing:  # a key that leaves and comes back within a commit may be in another bucket, which may tell first, as the reference's does
            events.sort(key=lambda one: one[0] not in RETRACTS)
        for kind, row in events:
            key, text = self.place(row), self.drawn.told(row)
            if kind in RETRACTS:
                held = self.told.pop(key, None)
                assert held is not None and self.drawn.told(held) == text, f"the changelog takes back {kind}{row}, where {held} was"
            else:
                assert key not in self.told, f"the changelog adds {kind}{row} beside {self.told[key]}"
                self.told[key] = row

    def place(self, row: Row) -> Any:
        """A key, where it is: within a snapshot a key that moves may come before it goes."""
        return (*self.oracle.key(row), row["p"]) if self.drawn.is_crossing else self.oracle.key(row)

    def retell(self, replaced: Callable[[Row], bool]) -> None:
        """What a changelog goes on from, where rows were put or taken without one: those above level 0."""
        names = [*self.drawn.identity, *(["p"] if self.drawn.is_crossing else [])]
        raw = self.table.scan(raw=True).select("_level", *names).collect()
        above = set(raw.filter(pl.col("_level") > 0).select(names).rows())
        there = {self.place(row): dict(row) for row in self.oracle.rows() if replaced(row)}
        kept = {key: row for key, row in self.told.items() if not replaced(row)}
        self.told = kept | {key: row for key, row in there.items() if key in above}

    def settles(self, *, compacts: bool = False, full: bool = False) -> bool | None:
        """Whether a write or a compaction leaves nothing untold."""
        if self.drawn.is_postponed and not compacts:
            return None
        if self.drawn.producer == "lookup":
            return compacts or not self.is_write_only
        return full if compacts else not self.is_write_only

    def wrote(self, commit: lk.Commit, found: list[Version], *, tells: bool = True) -> None:
        self.oracle.write(found, seen=self.sees_writes)
        postponed = self.drawn.is_postponed
        self.committed(commit, told=found if tells and not postponed else None, settled=self.settles() if found else None)

    @invariant()
    def reads_the_dict(self) -> None:
        if hasattr(self, "oracle"):
            self.alike(self.table.scan().collect(), sorted(map(self.drawn.told, self.oracle.rows())), "the table")

    def alike(self, frame: pl.DataFrame, wanted: list[str], what: str) -> None:
        found = sorted(map(self.drawn.told, frame.to_dicts()))
        if found != wanted:
            more, less = Counter(found) - Counter(wanted), Counter(wanted) - Counter(found)
            msg = f"{what} has {len(found)} rows, the dict {len(wanted)}; too many: {list(more)[:4]}; missing: {list(less)[:4]}"
            raise AssertionError(msg)

    def compacted(self, *, full: bool) -> None:
        commit = self.table.compact(full=full)
        waited = list(self.oracle.waiting) if self.drawn.is_postponed else []
        if full:
            self.oracle.collapse()
        elif self.drawn.hides or self.drawn.is_postponed:
            self.oracle.settle()
        self.committed(commit, told=waited, settled=self.settles(compacts=True, full=full))

    def is_sound(self) -> None:
        report = self.table.check(deep=True)
        assert report.ok, report.problems

    def reads_as_it_was(self, at: int) -> None:
        _, wanted = self.past[at]
        self.alike(self.table.scan(at).collect(), sorted(wanted.values()), f"snapshot {at}")

    def every_snapshot_reads_as_it_was(self) -> None:
        for at in sorted(self.past):
            self.reads_as_it_was(at)
