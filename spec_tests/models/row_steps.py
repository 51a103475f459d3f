"""What is done to rows: written, found and changed, replaced; by public names, and to the oracle alike."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import note

import lakekit as lk
from lakekit.errors import InvalidOption
from spec_tests.laws.row_changes import Condition, both, compared, null, opposite
from spec_tests.models.held import Held
from spec_tests.models.oracle import Oracle
from spec_tests.models.tables import rows, value

if TYPE_CHECKING:
    from collections.abc import Callable

    from spec_tests.models.oracle import Row, Version


class Rows(Held):
    """Rows come, change and go."""

    # ---- rules: rows

    def upsert(self, seed: int, number: int) -> None:
        found = rows(Random(seed), self.oracle, number)
        self.did("upsert", str(found))
        frame: Any = self.frame(found)
        if seed % 3 == 0:
            frame = iter([frame[at : at + 1] for at in range(frame.height)])
        keyed = self.drawn.engine != "append"
        self.wrote(self.table.upsert(frame, row_kind=self.row_kind) if keyed else self.table.append(frame), found)

    def two_phase(self, seed: int, number: int) -> None:
        rng = Random(seed)
        end = rng.choice(("commit", "commit", "abort", "raise", "again"))
        found = rows(rng, self.oracle, number, unique=True)
        self.did(f"two phases, {end}", str(found))
        table, user = self.table, f"user{self.newest}-{self.added}"
        self.added += 1
        if end == "raise":
            self._raising(table, found)
            return
        with table.writer(commit_user=user) as writer:
            for half in (found[: len(found) // 2], found[len(found) // 2 :]):
                writer.write(self.frame(half), row_kind=self.row_kind)
            messages = [lk.CommitMessage.from_bytes(one.to_bytes()) for one in writer.prepare()]
        if end == "abort":
            table.abort(messages)
            self.is_sound()
            return
        done = table.commit(messages, commit_user=user, identifier=1)
        self.wrote(done, found)
        if end == "again":
            assert table.commit(messages, commit_user=user, identifier=1).snapshot_ids == done.snapshot_ids

    def _raising(self, table: lk.Table, found: list[Version]) -> None:
        with suppress(ZeroDivisionError), table.writer() as writer:
            writer.write(self.frame(found), row_kind=self.row_kind)
            1 / 0  # noqa: B018 - what happens to a caller

    def stream(self, seed: int, commits: int) -> None:
        rng = Random(seed)
        compacts = rng.choice((None, None, False, True))
        self.did("stream" if compacts is None else "stream with compactions")
        may_compact = compacts is not None and not self.drawn.is_controlled and (self.sees_writes or self.drawn.engine == "append")
        dies = rng.random() < 0.3
        writer = self.table.writer(commit_user="stream")
        try:
            for _ in range(commits):
                found = rows(rng, self.oracle, rng.randrange(1, 4))
                note(f"#    {found}")
                writer.write(self.frame(found), row_kind=self.row_kind)
                self.identifier += 1
                if may_compact and self.drawn.engine != "append":
                    writer.compact(full=bool(compacts))
                    self.oracle.write(found, seen=True)
                    self.committed(writer.commit(self.identifier), told=found, settled=None)
                else:
                    self.wrote(writer.commit(self.identifier), found)
                if dies:  # with rows that nobody was promised
                    state = writer.state()
                    writer.write(self.frame(found), row_kind=self.row_kind)
                    writer.abort()
                    writer = self.table.writer(state=state)
        finally:
            writer.abort()

    # ---- rules: rows found and changed

    def condition(self, rng: Random, columns: dict[str, str] | None = None) -> Condition:
        atoms = []
        for name, text in (columns or self.drawn.columns).items():
            given = value(rng, text, None, 0)
            if isinstance(given, (int, str)) and not isinstance(given, bool):
                atoms.append(compared(name, rng.choice(("=", "=", "<", ">=", "<>")), given))
                if "NOT NULL" not in text:
                    atoms.append(null(name))
        one, two = rng.choice(atoms), rng.choice(atoms)
        return rng.choice((one, one, both(one, two), opposite(one)))

    def about(self, holds: Callable[[Row], Any]) -> list[Row]:
        return [row for row in self.oracle.rows() if holds(row) is True]

    def delete(self, seed: int, *, sql: bool) -> None:
        where = self.condition(Random(seed))
        told = where.sql("")
        self.did("delete", told)
        by_rows = self.drawn.takes_deletes
        if by_rows and self.drawn.ignore_delete:
            return
        if not by_rows:
            self.compacted(full=True)
        found = [("-D", {**row, "kind": "-D"} if self.drawn.has_kinds else row) for row in self.about(where.holds)]
        commit = self.table.delete(told if sql else where.expr(pl.col))
        if "OVERWRITE" in commit.kinds or not by_rows:
            self.oracle.remove(lambda row: where.holds(row) is True, waiting=True)
            self.committed(commit, replaced=lambda row: where.holds(row) is True)
        else:
            self.wrote(commit, found)

    def update(self, seed: int, *, sql: bool) -> None:
        rng = Random(seed)
        where, name = self.condition(rng), rng.choice(self.drawn.plain)
        given = value(rng, self.drawn.columns[name], None, 0.2)
        self.did("update", f"{name} = {given!r} where {where.sql('')}")
        found = [("+U", {**row, name: given}) for row in self.about(where.holds)]
        try:
            commit = self.table.update({name: pl.lit(given)}, where=where.sql("") if sql else where.expr(pl.col))
        except InvalidOption as refused:  # merging would take the value back; nothing was changed, as the next look at the table says
            assert "after the update" in str(refused)
            assert self.drawn.engine in ("partial-update", "aggregation") or self.drawn.sequence
            return
        if self.drawn.engine == "append":
            self.oracle.remove(lambda row: where.holds(row) is True)
            self.wrote(commit, found)
        else:
            self.wrote(commit, [(row["kind"] if self.drawn.has_kinds else kind, row) for kind, row in found], tells=not self.drawn.has_kinds)

    def merge(self, seed: int, number: int, *, deletes: bool) -> None:
        on = ["k"] if self.drawn.engine == "append" else list(self.drawn.primary_keys)
        source: dict[Any, Row] = {}
        for _, row in rows(Random(seed), self.oracle, number, kinds=("+I",), unique=True):
            source.setdefault(tuple(row[name] for name in on), row)
        deletes = deletes and (self.drawn.engine == "append" or (self.drawn.takes_deletes and not self.drawn.ignore_delete))
        self.did("merge", f"{'deletes' if deletes else 'updates'} {source}")
        matched: list[tuple[Row, Row]] = []
        for row in self.oracle.rows():
            key = tuple(row[name] for name in on)
            if None not in key and key in source:
                matched.append((row, source[key]))
        met = {tuple(row[name] for name in on) for row, _ in matched}
        found = [("-D", row) if deletes else ("+U", new) for row, new in matched]
        found += [("+I", row) for key, row in source.items() if key not in met]
        clauses = [lk.when_matched(delete=True) if deletes else lk.when_matched(update="all"), lk.when_not_matched()]
        commit = self.table.merge(self.frame((("+I", row) for row in source.values()), kinds=False), *clauses, on=on)
        if self.drawn.engine == "append":
            self.oracle.remove(lambda row: tuple(row[name] for name in on) in met)
            found = [one for one in found if one[0] != "-D"]
        self.wrote(commit, found)

    # ---- rules: parts replaced

    def overwrite(self, seed: int, number: int) -> None:
        rng, drawn = Random(seed), self.drawn
        how = rng.choice(("whole", "dynamic", "dynamic", "static", "static"))
        if drawn.is_crossing or not drawn.is_partitioned:
            how = "whole"
        found = rows(rng, Oracle(drawn), number, kinds=("+I",), unique=True)
        chosen = rng.randrange(3)
        if how == "static":
            found = [(kind, {**row, "p": chosen}) for kind, row in found]
            found = list({self.oracle.key(row) if drawn.identity else at: (kind, row) for at, (kind, row) in enumerate(found)}.values())
        self.did(f"overwrite, {how}", str(found))
        touched = {row["p"] for _, row in found} if how == "dynamic" else {chosen}
        table = self.table.with_options({"write-buffer-size": "1 mb"} | ({"dynamic-partition-overwrite": "false"} if how == "whole" else {}))
        spec = {"p": chosen} if how == "static" else None
        if rng.random() < 0.5:
            commit = table.overwrite(self.frame(found, kinds=False), partition=spec)
        else:
            with table.writer(overwrite=spec or True) as writer:
                for part in (found[:2], found[2:]):
                    writer.write(self.frame(part, kinds=False))
                commit = writer.commit()

        def goes(row: Row) -> bool:
            return how == "whole" or row["p"] in touched

        self.oracle.remove(goes, waiting=True)
        waits, self.oracle.waiting = self.oracle.waiting, []
        self.oracle.write(found, seen=not drawn.is_postponed)
        self.oracle.waiting = [*waits, *self.oracle.waiting]
        self.committed(commit, replaced=goes)

    def drop(self, seed: int) -> None:
        rng = Random(seed)
        chosen = rng.randrange(4)
        self.did("drop", f"partition {chosen}" if self.drawn.is_partitioned and chosen < 3 else "everything")
        dropped = [{"p": chosen}] if self.drawn.is_partitioned and chosen < 3 else []
        commit = self.table.drop_partitions(dropped) if dropped else self.table.truncate()

        def goes(row: Row) -> bool:
            return not dropped or row["p"] == chosen

        self.oracle.remove(goes, waiting=True)
        self.committed(commit, replaced=goes)
