"""What keeps a table for years, done to it and to its dicts: tags, branches, rollback, expiry, orphans, a follower, readers of what was.

Every branch has a dict of its own, and each of its snapshots what the dict was then; a tag is a name for one of those. On a branch, once the machine goes
there, everything is done that is done on main.

    expiry, a tag that goes      the files left are those that something needs, but for orphans that the reference leaves too
    orphans                      what was planted and what was left goes when it is old, nothing else, and nothing while it is young
    a follower                   its copy, made of changes alone, is what the table told
    a reader                     a frame made earlier gives, whatever happened since, what it gave then, for as long as its snapshot or tag is there
"""

from __future__ import annotations

import os
from copy import deepcopy
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from lakekit.errors import InvalidOption
from spec_tests.doors.test_orphans import aged, planted
from spec_tests.models.held import KIND
from spec_tests.models.lines import PARTS, Follower, Kept, Line, Pin
from spec_tests.models.oracle import RETRACTS
from spec_tests.models.other_steps import Shape
from spec_tests.reliability.kept import needed, on_disk
from spec_tests.reliability.named import named_by_any

if TYPE_CHECKING:
    from collections.abc import Callable

    import lakekit as lk
    from spec_tests.models.oracle import Row
    from spec_tests.models.tables import Drawn

MAIN = "main"
FAR, LONG_AGO = "9999-01-01", "1971-01-01"
MOST_BRANCHES, MOST_PINS = 3, 4


class Care(Shape):
    """Several dicts, and what was in each of them."""

    ids: list[int]
    states: dict[int, Kept]
    tags: dict[str, Kept]
    era: object
    changed: list[Callable[[Row], Any]]
    follower: Follower | None

    def made(self, drawn: Drawn) -> None:
        super().made(drawn)
        self.lines: dict[str, Line] = {}
        self.pins: list[Pin] = []
        self.has_orphans = False
        self._enter(MAIN, Line(self.drawn, self.oracle, {}))

    def teardown(self) -> None:
        """As of one branch, of all of them."""
        try:
            for name in list(self.lines) if hasattr(self, "oracle") else ():
                self._go(name)
                self.every_snapshot_reads_as_it_was()
                self.every_tag_reads_as_it_was()
                self.is_sound()
            if hasattr(self, "oracle"):
                self._read_pins()
        finally:
            del self.oracle
            super().teardown()

    # ---- branches of the model

    @property
    def here(self) -> str:
        return self.branch or MAIN

    def line(self, name: str) -> Line:
        """A branch, the one that the machine is on too."""
        if name == self.here:
            self._leave()
        return self.lines[name]

    def _leave(self) -> None:
        self.lines[self.here] = Line(**{part: getattr(self, part) for part in PARTS})

    def _enter(self, name: str, line: Line) -> None:
        self.branch = None if name == MAIN else name
        self.lines[name] = line
        for part in PARTS:
            setattr(self, part, getattr(line, part))

    def _go(self, name: str) -> None:
        self._leave()
        self._enter(name, self.lines[name])

    # ---- what every commit and every change of columns adds

    def committed(self, commit: lk.Commit, **told: Any) -> None:
        super().committed(commit, **told)
        if not commit.snapshot_ids:
            return
        self.ids += commit.snapshot_ids
        rows = sorted(map(self.drawn.told, self.oracle.rows()))
        drawn, oracle, copy = deepcopy((self.drawn, self.oracle, self.told))
        self.states[self.newest] = Kept(self.newest, rows, drawn, oracle, copy, self.era, len(self.changed))
        if "OVERWRITE" in commit.kinds or told.get("replaced") is not None:
            self._unfollow()

    def _each(self, change: Callable[[Row], Any]) -> None:
        super()._each(change)
        self.changed.append(change)
        for row in self.follower.copy.values() if self.follower else ():
            change(row)

    def set_mode(self, seed: int) -> None:
        super().set_mode(seed)
        self.era = object()
        self._unfollow()

    def _unfollow(self) -> None:
        if self.follower and self.follower.consumer:
            self.table.reset_consumer(self.follower.consumer)
        self.follower = None

    def _back_to(self, kept: Kept) -> None:
        """The dict becomes what it was, with today's columns."""
        oracle, told = deepcopy((kept.oracle, kept.told))
        self.oracle, self.told = oracle, told
        oracle.drawn = self.drawn
        for change in self.changed[kept.changed :]:
            oracle.each(change)
            for row in told.values():
                change(row)

    def _is_known(self) -> None:
        assert self.table.snapshots()["snapshot_id"].to_list() == self.ids
        assert sorted(self.table.tags()["tag"].to_list()) == sorted(self.tags)

    def only_needed_is_there(self) -> None:
        self._is_known()
        there, wanted = on_disk(f"{self.folder}/t"), needed(f"{self.folder}/t")
        assert wanted <= there, f"gone, though needed: {sorted(wanted - there)[:4]}"
        assert self.has_orphans or there == wanted, f"left behind: {sorted(there - wanted)[:4]}"

    # ---- rules: tags

    def tag(self, seed: int) -> None:
        rng = Random(seed)
        if not self.states:
            return
        name, self.added = f"t{self.added}", self.added + 1
        kept = rng.choice([*self.states.values(), *self.tags.values()])
        at: Any = kept.number if self.states.get(kept.number) is kept else next(name for name, one in self.tags.items() if one is kept)
        if kept.number == self.newest and rng.random() < 0.5:
            at = None
        self.did("tag, create", f"{name} of {at}")
        self.table.create_tag(name, at=at, retain=rng.choice((None, timedelta(days=2))))
        self.tags[name] = kept

    def change_tag(self, seed: int) -> None:
        rng = Random(seed)
        if not self.tags:
            self.tag(seed)
            return
        name, what = rng.choice(sorted(self.tags)), rng.choice(("delete", "delete", "rename", "replace", "expire"))
        if what == "rename":
            new, self.added = f"t{self.added}", self.added + 1
            self.did("tag, rename", f"{name} to {new}")
            self.table.rename_tag(name, new)
            self.tags[new] = self.tags.pop(name)
        elif what == "replace" and self.states:
            kept = rng.choice(list(self.states.values()))
            self.did("tag, replace", f"{name} by {kept.number}")
            self.table.replace_tag(name, at=kept.number)
            self.tags[name] = kept
        elif what == "expire":
            self.did("tag, expire")
            assert self.table.expire_tags(older_than=LONG_AGO).tags == ()
            assert sorted(self.table.expire_tags(older_than=FAR).tags) == sorted(self.tags)
            self.tags.clear()
        else:
            self.did("tag, delete", name)
            self.table.delete_tag(name)
            del self.tags[name]
        self.only_needed_is_there()

    def every_tag_reads_as_it_was(self) -> None:
        for name, kept in self.tags.items():
            if kept.era is self.era:
                self.alike(self.table.scan(name).collect(), kept.rows, f"tag {name}")

    # ---- rules: branches

    def make_branch(self, seed: int) -> None:
        rng = Random(seed)
        name, self.added = f"b{self.added}", self.added + 1
        tag = rng.choice([*sorted(self.tags) * 3, None])
        self.did("branch, create", f"{name} of {tag}")
        self.table.create_branch(name, tag=tag)
        if tag is None:
            drawn = deepcopy(self.drawn)
            self.lines[name] = Line(drawn, type(self.oracle)(drawn), {}, changed=list(self.changed))
            return
        kept = self.tags[tag]
        drawn, oracle, told = deepcopy((kept.drawn, kept.oracle, kept.told))
        past = {kept.number: self._past_of(kept)}
        more = {"ids": [kept.number], "states": {kept.number: kept}, "tags": {tag: kept}, "era": kept.era, "changed": self.changed[: kept.changed]}
        self.lines[name] = Line(drawn, oracle, told, past, kept.number, **more)

    @staticmethod
    def _past_of(kept: Kept) -> tuple[dict[str, str], dict[Any, str]]:
        drawn = kept.drawn
        seen = {kept.oracle.key(row) if drawn.keys else at: drawn.told(row) for at, row in enumerate(kept.oracle.rows())}
        return {**drawn.columns, "buckets": drawn.options["bucket"]}, seen

    def switch(self, seed: int) -> None:
        """To another branch, where the next steps are done."""
        rng = Random(seed)
        if len(self.lines) == 1:
            self.make_branch(seed)
        self._leave()
        name = rng.choice(sorted(self.lines.keys() - {self.here}))
        self.did("branch, go", name)
        self._go(name)
        self._settle()

    def _settle(self) -> None:
        """Goes on as who just opened the table."""
        self.dynamic = {}
        self._is_known()
        self.reads_the_dict()
        self.catch_up()

    def delete_branch(self, seed: int) -> None:
        if len(self.lines) == 1:
            return
        if self.branch is not None:
            self._go(MAIN)
            self._settle()
        name = Random(seed).choice(sorted(self.lines.keys() - {MAIN}))
        self.did("branch, delete", name)
        self.table.delete_branch(name)
        del self.lines[name]
        self.has_orphans = True
        self.only_needed_is_there()

    def forward(self, seed: int) -> None:
        """To a branch that began where this one still is, or was: what is older is the same in both."""
        self._leave()
        able = [name for name, line in self.lines.items() if name not in (MAIN, self.here) and line.ids and self._precedes(line)]
        if not able:
            self.switch(seed)
            return
        name = Random(seed).choice(sorted(able))
        self.did("branch, fast-forward", f"{self.here} to {name}")
        self._unfollow()
        self.table.fast_forward(name)
        other, first = self.lines[name], self.lines[name].ids[0]
        drawn, oracle, told = deepcopy((other.drawn, other.oracle, other.told))
        line = Line(drawn, oracle, told, newest=other.newest, era=other.era, changed=list(other.changed))
        line.ids = [*(one for one in self.ids if one < first), *other.ids]
        line.past = {at: one for at, one in self.past.items() if at < first} | other.past if self.era is other.era else dict(other.past)
        line.states = {at: one for at, one in self.states.items() if at < first} | other.states
        line.tags = {tag: one for tag, one in self.tags.items() if one.number < first} | other.tags
        self.has_orphans = True
        self._enter(self.here, line)
        self._settle()

    def _precedes(self, line: Line) -> bool:
        """Whether what would stay below the other branch's first snapshot is what that one was made of."""
        first = line.ids[0]
        same = first in line.states and self.states.get(first) is line.states[first]
        older_tags = [one for one in self.tags.values() if one.number < first]
        return same or (self.ids[:1] >= [first] and not older_tags) or not (self.ids or older_tags)

    # ---- rules: back, and away with what is old

    def rollback(self, seed: int) -> None:
        rng = Random(seed)
        able = [kept for kept in (*self.states.values(), *self.tags.values()) if kept.era is self.era]
        able = [kept for kept in able if kept.drawn.options["bucket"] == self.drawn.options["bucket"]]
        if not able:
            return
        kept = rng.choice(able)
        ways: list[Any] = [name for name, one in self.tags.items() if one is kept]
        if self.states.get(kept.number) is kept:
            ways += [kept.number] + [self._time_of(kept.number)] * self._alone(kept.number)
        to = rng.choice(ways)
        self.did(f"rollback, {'tag' if isinstance(to, str) else 'snapshot' if isinstance(to, int) else 'time'}", f"{to}: {kept.number}")
        self._unfollow()
        self.table.rollback(to)
        at = kept.number
        self.ids = [*(one for one in self.ids if one < at), at]
        self.states = {one: state for one, state in self.states.items() if one < at} | {at: kept}
        self.past = {one: rows for one, rows in self.past.items() if one < at} | {at: self._past_of(kept)}
        self.tags = {name: one for name, one in self.tags.items() if one.number <= at}
        self.newest, self.has_orphans = at, True
        self._back_to(kept)
        self._settle()
        self.only_needed_is_there()

    def _time_of(self, at: int) -> datetime:
        times: dict[int, datetime] = dict(self.table.snapshots().select("snapshot_id", "time").rows())
        return times[at]

    def _alone(self, at: int) -> bool:
        """Whether the snapshot after it is of a later millisecond: else its time does not tell it."""
        return at == self.ids[-1] or (at + 1 in self.ids and self._time_of(at) < self._time_of(at + 1))

    def expire(self, seed: int) -> None:
        rng = Random(seed)
        if not self.ids:
            return
        newest, first = self.ids[-1], self.ids[0]
        fewest, most, at_once = rng.choice((1, 1, 2, 5)), rng.choice((5, 8, 30)), rng.choice((1, 3, 50, 50))
        cut = rng.choice((*self.ids, first, newest + 1))
        waiting = self.follower.next_id if self.follower and self.follower.consumer else newest + 1
        lasting = rng.random() < 0.3
        self.did("expire", f"all but {fewest} to {most}, before {cut}, {at_once} at once")
        if cut in self.ids[1:] and self._alone(cut - 1):
            older: Any = self._time_of(cut)
        else:
            older, fewest = (FAR, max(fewest, newest - cut + 1)) if cut > first else (LONG_AGO, fewest)
            most = max(most, fewest)
        end = min(max(cut, newest - most + 1), newest - fewest + 1, first + at_once, waiting, newest)
        gone = [one for one in self.ids if one < end]
        table = self.table.with_options({"changelog.num-retained.min": "50"} if lasting else {})
        how: Any = {"retain_max": most, "retain_min": fewest, "older_than": older, "max_deletes": at_once}
        assert list(table.expire_snapshots(**how, dry_run=True).snapshot_ids) == gone
        assert list(table.expire_snapshots(**how).snapshot_ids) == gone
        self.ids = self.ids[len(gone) :]
        self.past, self.states = ({at: one for at, one in some.items() if at not in gone} for some in (self.past, self.states))  # type: ignore[assignment]
        if lasting and self.follower and gone and self.follower.next_id <= gone[-1]:
            self.follow(seed)  # what it has not read is a changelog by now
        elif self.follower and gone and self.follower.next_id <= gone[-1]:
            self._unfollow()
        if lasting:
            self.has_orphans |= self.drawn.producer == "none"  # what a flush made stays for the changelog, and the reference forgets it with that one
            self.table.expire_changelogs(delete_all=True)
        self.only_needed_is_there()
        self._read_pins()

    def clean(self, seed: int) -> None:
        self.did("orphans")
        folder = Path(f"{self.folder}/t")
        before = on_disk(folder)
        told = {str(Path(one).relative_to(folder)) for one in named_by_any(self.table._context())}
        lost = planted(folder)
        for one in folder.rglob("*"):  # what an earlier cleaning found old is young again
            os.utime(one)
        assert self.table.remove_orphans(dry_run=False).is_empty(), "young files went"
        aged(one for one in folder.rglob("*") if one.is_file())
        found = self.table.remove_orphans(force=True)
        assert {str(Path(one).relative_to(folder)) for one in found["path"]} == before - told | {str(one.relative_to(folder)) for one in lost}
        assert self.table.remove_orphans(dry_run=False, force=True).equals(found)
        assert on_disk(folder) == before & told
        self.has_orphans = self.has_orphans and on_disk(folder) != needed(folder)
        self.only_needed_is_there()
        self._read_pins()

    # ---- rules: a copy that changes keep

    def follow(self, seed: int) -> None:
        drawn, rng = self.drawn, Random(seed)
        if drawn.producer == "none" and drawn.engine not in ("append", "deduplicate"):
            self.did("follow, refused")
            with pytest.raises(InvalidOption, match="changelog"):
                self.table.follow()
            return
        if not self.ids or not self._tells():
            return
        begins = self.follower is None
        self.did("follow, begin" if begins else "follow, go on", f"from {self.follower.next_id}" if self.follower else "")
        if self.follower is None:
            name, self.added = f"c{self.added}", self.added + 1
            self.follower = Follower(consumer=rng.choice((None, name)))
        follower = self.follower
        start = "latest-full" if begins else None if follower.consumer else follower.next_id
        for change in self.table.follow(start, consumer=follower.consumer, until="latest"):
            for row in change.frame.collect().to_dicts():
                self._apply(follower.copy, row.pop(KIND), row)
            change.ack()
        follower.next_id = self.newest + 1
        if follower.consumer:
            assert self.table.consumers().select("consumer", "next_snapshot_id").rows() == [(follower.consumer, follower.next_id)]
        assert sorted(map(drawn.told, follower.copy.values())) == sorted(map(drawn.told, self._tellable())), "the copy of a follower is not what was told"

    def _tells(self) -> bool:
        """Whether changes say what a table comes to. Rows as they were written say it where the newest one counts, and nothing else orders or moves them."""
        drawn = self.drawn
        if drawn.producer in ("lookup", "full-compaction") or drawn.engine == "append":
            return True
        return drawn.engine == "deduplicate" and not (drawn.sequence or drawn.is_crossing)

    def _tellable(self) -> list[Row]:
        if self.drawn.producer in ("lookup", "full-compaction"):
            return list(self.told.values())
        oracle = deepcopy(self.oracle)
        if self.drawn.producer == "none" or not self.drawn.is_postponed:
            oracle.settle()
        return oracle.rows()

    def _apply(self, copy: dict[Any, Row], kind: str, row: Row) -> None:
        if self.drawn.engine == "append":
            assert kind == "+I"
            copy[len(copy)] = row
        elif kind in RETRACTS:
            copy.pop(self.place(row), None)
        else:
            copy[self.place(row)] = row

    # ---- rules: frames that were made before

    def pin(self, seed: int) -> None:
        rng = Random(seed)
        if len(self.pins) == MOST_PINS or not self.ids:
            self.did("pinned, read")
            self._read_pins()
            return
        kept: Kept | None = None
        able: list[tuple[Any, Kept | None]] = [(None, None)] * (self.branch is not None)
        able += [(at, one) for some in (self.states, self.tags) for at, one in some.items() if one.era is self.era]  # type: ignore[attr-defined]
        if not able:
            return
        at, kept = rng.choice(able)
        self.did("pinned", f"{self.here} at {at}")
        pin = Pin(self.table.scan(at), self.here, at, kept, dict(self.drawn.columns))
        self.pins.append(pin)
        if rng.random() < 0.5:
            self._read(pin)

    def _read_pins(self) -> None:
        self._leave()
        self.pins = [pin for pin in self.pins if self._holds(pin)]
        for pin in self.pins:
            self._read(pin)

    def _holds(self, pin: Pin) -> bool:
        line = self.lines.get(pin.branch)
        if line is None or pin.at is None:
            return line is not None and line.drawn.columns == pin.outline
        kept = line.tags.get(pin.at) if isinstance(pin.at, str) else line.states.get(pin.at)
        return kept is pin.kept and line.era is kept.era

    def _read(self, pin: Pin) -> None:
        line = self.line(pin.branch)
        rows = sorted(map(line.drawn.told, line.oracle.rows())) if pin.kept is None else pin.kept.rows
        self.alike(pin.frame.collect(), rows, f"the reader of {pin.branch} at {pin.at}")
