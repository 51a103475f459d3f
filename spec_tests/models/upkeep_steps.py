"""What is done to a table that no row should notice, what else is asked of it, and writers that meet.

    questions      rows under a condition, some columns, aggregates: of the newest snapshot, of older ones and of tags, as the dict answers
    upkeep         statistics, manifests, parts compacted, rows sorted: the dict stays, but for what waited
    two writers    one prepares, something else is done, and the first commits: both are there, or the first is refused and changed nothing

Refused it is only where a table keeps the buckets of its keys in an index, which is one writer's at a time.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl

import lakekit as lk
from lakekit.errors import Conflict
from spec_tests.models.care_steps import MAIN, Care
from spec_tests.models.tables import rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from spec_tests.models.oracle import Row, Version

WHOLE = ("INT", "BIGINT")


class Upkeep(Care):
    """Statistics, indexes, order; questions; writers at once."""

    # ---- rules: questions

    def ask(self, seed: int, *, sql: bool) -> None:
        rng = Random(seed)
        able = [(at, one.drawn, one.oracle) for some in (self.states, self.tags) for at, one in some.items() if one.era is self.era]
        at, drawn, oracle = rng.choice([(None, self.drawn, self.oracle), *able])
        where = self.condition(rng, drawn.columns)
        self.did("ask", f"{where.sql('')} at {at}")
        held = [row for row in oracle.rows() if where.holds(row) is True]
        told = where.sql("") if sql else where.expr(pl.col)
        names = rng.sample(list(drawn.columns), rng.randrange(1, len(drawn.columns) + 1))
        found = self.table.scan(at).filter(where.expr(pl.col)).select(names).collect()
        wanted = sorted(drawn.told({name: row[name] for name in names}) for row in held)
        self.alike(found, wanted, f"{names} where {where.sql('')} at {at}")
        few = rng.randrange(1, 5)
        first = self.table.scan(at).filter(where.expr(pl.col)).select(names).head(few).collect()
        assert first.height == min(few, len(held))
        assert not Counter(map(drawn.told, first.to_dicts())) - Counter(wanted), f"the first {few} where {where.sql('')} at {at} are not among all"
        assert self.table.scan(at).select(pl.len()).collect().item() == len(oracle.rows())
        asked: dict[str, tuple[pl.Expr, Any]] = {"rows": (pl.len(), len(held))}
        for name in names:
            values = [row[name] for row in held if row[name] is not None]
            asked[f"{name} count"] = pl.col(name).count(), len(values)
            asked[f"{name} nulls"] = pl.col(name).null_count(), len(held) - len(values)
            if drawn.columns[name].removesuffix(" NOT NULL") in WHOLE:
                asked[f"{name} sum"] = pl.col(name).sum(), sum(values)
                asked[f"{name} least"] = pl.col(name).min(), min(values, default=None)
                asked[f"{name} greatest"] = pl.col(name).max(), max(values, default=None)
        answer = self.table.aggregate(*(expr.alias(what) for what, (expr, _) in asked.items()), where=told, at=at).row(0, named=True)
        assert answer == {what: value for what, (_, value) in asked.items()}, f"aggregates where {where.sql('')} at {at}"

    def ask_changes(self, seed: int) -> None:
        """What changed under a condition is what of all changes satisfies it."""
        rng = Random(seed)
        alike = [at for at, (outline, _) in self.past.items() if outline["buckets"] == self.outline["buckets"]]
        if len(alike) < 2:
            return
        since, until = sorted(rng.sample(alike, 2))
        where, mode = self.condition(rng), rng.choice(("auto", "changelog", "diff"))
        self.did("ask, changes", f"{mode} from {since} to {until} where {where.sql('')}")
        changes = self.table.changes(since, until, mode=mode)
        everything = changes.collect()
        found, wanted = changes.filter(where.expr(pl.col)).collect(), everything.filter(where.expr(pl.col))
        assert Counter(map(self.drawn.told, found.to_dicts())) == Counter(map(self.drawn.told, wanted.to_dicts()))
        assert Counter(changes.select("k").collect().rows()) == Counter(everything.select("k").rows())

    # ---- rules: upkeep

    def analyze(self, _: int) -> None:
        self.did("upkeep, analyze")
        self.committed(self.table.analyze())
        self.only_needed_is_there()

    def compact_manifests(self, _: int) -> None:
        self.did("upkeep, manifests")
        self.committed(self.table.compact_manifests())

    def compact_partition(self, seed: int) -> None:
        rng, drawn = Random(seed), self.drawn
        chosen, full = rng.randrange(3), drawn.is_controlled or rng.random() < 0.5
        self.did("compact, a partition", f"{chosen}{', full' if full else ''}")

        def holds(row: Row) -> bool:
            return bool(row["p"] == chosen)

        commit = self.table.compact(full=full, where=f"p = {chosen}")
        waited = [one for one in self.oracle.waiting if holds(one[1])] if drawn.is_postponed else []
        if full:
            self.oracle.collapse(holds)
        elif drawn.hides or drawn.is_postponed:
            self.oracle.settle(holds)
        self.committed(commit, told=waited)

    def sort(self, seed: int) -> None:
        rng = Random(seed)
        able = [name for name, text in self.drawn.columns.items() if text.removesuffix(" NOT NULL") in (*WHOLE, "STRING", "DOUBLE")]
        names = rng.sample(able, min(len(able), rng.choice((1, 2))))
        strategy: Any = rng.choice(("order", "zorder", *["hilbert"] * (len(names) > 1)))
        self.did("compact, sorted", f"{strategy} of {names}")
        if self.drawn.hides and self.drawn.engine != "append":
            self.compacted(full=True)
        commit = self.table.compact(order_by=names, strategy=strategy)
        self.oracle.collapse()
        if self.drawn.engine == "append":
            self.committed(commit)
        else:
            self.committed(commit, replaced=lambda _: True)

    def rename_branch(self, seed: int) -> None:
        if len(self.lines) == 1:
            self.make_branch(seed)
        name, new = Random(seed).choice(sorted(self.lines.keys() - {MAIN})), f"b{self.added}"
        self.added += 1
        self.did("branch, rename", f"{name} to {new}")
        here = self.here
        if name == here:
            self._go(MAIN)
        self.table.rename_branch(name, new)
        self.lines[new] = self.lines.pop(name)
        if name == here:
            self._go(new)
            self._settle()
        self.only_needed_is_there()

    # ---- rules: two writers

    def meet(self, seed: int, number: int) -> None:
        """One writer prepares, something else is done, and the first commits then."""
        rng, drawn = Random(seed), self.drawn
        found = rows(rng, self.oracle, number, unique=True)
        table, user = self.table, f"user{self.newest}-{self.added}"
        self.added += 1
        self.did("two writers", str(found))
        with table.writer(commit_user=user, compact=False) as writer:
            writer.write(self.frame(found), row_kind=self.row_kind)
            messages = [lk.CommitMessage.from_bytes(one.to_bytes()) for one in writer.prepare()]
        changed, branch = len(self.changed), self.branch
        between: list[Callable[[], Any]] = [
            lambda: self._others(rng, found, number),
            lambda: self.compact(full=rng.random() < 0.5),
            lambda: self.add_column(seed),
            lambda: self.rename_column(seed) if drawn.plain else None,
            lambda: self.retype(seed),
        ]
        if drawn.engine == "append":
            between += [lambda: self.delete(seed, sql=False), lambda: self.overwrite(seed, number), lambda: self.drop(seed)]
        rng.choice(between)()
        assert self.branch == branch
        for change in self.changed[changed:]:
            for _, row in found:
                change(row)
        try:
            commit = table.commit(messages, commit_user=user, identifier=1)
        except Conflict:
            assert drawn.engine != "append" and drawn.options["bucket"] == "-1", "only where keys lie is one writer's at a time"
            table.abort(messages)
            self.did("two writers, refused")
            return
        self.oracle.write(found, seen=not (drawn.hides or drawn.is_postponed))
        self.committed(commit, told=None if drawn.is_postponed else found)
        self.catch_up()

    def _others(self, rng: Random, found: list[Version], number: int) -> None:
        """Rows of other keys."""
        met = {self.oracle.key(row) for _, row in found}
        others = [one for one in rows(rng, self.oracle, number) if self.drawn.engine == "append" or self.oracle.key(one[1]) not in met]
        write = self.table.append(self.frame(others)) if self.drawn.engine == "append" else self.table.upsert(self.frame(others), row_kind=self.row_kind)
        self.wrote(write, others)
