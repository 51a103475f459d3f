"""A table against a dict: rules that write, change, alter, compact and care for a drawn table by its public names; after each the same rows on both sides.

    found = played("aggregation", steps=500)        found: Counter of steps by name, at least so many in all, and each that such tables take

After every step: the rows, those of every snapshot the step made, and, of producers that derive a changelog, that what was told so far is the table.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from zlib import crc32

from hypothesis import HealthCheck, Phase, seed as seeded, settings, strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from spec_tests.models.care_steps import MOST_BRANCHES
from spec_tests.models.tables import Drawn, tables
from spec_tests.models.upkeep_steps import Upkeep

_DIGIT = st.integers(0, 126)
SEEDS = st.builds(lambda high, low: 127 * high + low, _DIGIT, _DIGIT)
"""Each as likely as the others, which of wide ranges Hypothesis does not promise."""
STEPS_A_RUN = 25
MOST_TURNS = 20
SHORT, AT_LEAST = 10, 5
"""The first table that Hypothesis draws is always the simplest: runs are many, and those of the fast loop short."""
FEW, SOME, MANY = 40, 500, 10_000
"""Steps of an engine in the fast loop, in every run of `spec_tests/run`, and with `--deep`."""
STEPS = (
    "upsert",
    "stream",
    "two phases",
    "delete",
    "overwrite",
    "drop",
    "compact",
    "compact, full",
    "rescale",
    "alter, option",
    "alter",
    "reopen",
    "check",
    "time travel",
    "refused",
    "tag, create",
    "branch, create",
    "branch, go",
    "rollback",
    "expire",
    "orphans",
    "follow",
    "pinned",
    "ask",
    "upkeep",
    "two writers",
)
ALSO = {"deduplicate": ("update", "merge", "alter, mode", "difference"), "partial-update": ("update", "merge", "alter, mode"), "aggregation": ("alter, mode",)}
"""What every machine does, and those of an engine besides: names of steps, or what these begin with."""


class TableMachine(Upkeep):
    """Groups of what can be done, so that writing is as frequent as it should be. Rows are drawn from seeds: steps are what shrinks."""

    salt = 0

    def mixed(self, seed: int) -> int:
        """Another number at every step and for every table: Hypothesis likes to draw the same again."""
        self.step += 1
        return seed + 127 * 127 * self.step + self.salt

    @rule(seed=SEEDS, number=st.integers(1, 8))
    def upserts(self, seed: int, number: int) -> None:
        seed = self.mixed(seed)
        self.upsert(seed, number)

    @rule(seed=SEEDS, number=st.integers(1, 4))
    def writes(self, seed: int, number: int) -> None:
        seed = self.mixed(seed)
        what = Random(seed).randrange(7)
        if what < 2 and not self.drawn.is_crossing:
            self.stream(seed, number)
        elif what == 6 and not self.drawn.is_crossing:
            self.meet(seed, number)
        elif what < 4:
            self.upsert(seed, number)
        else:
            self.two_phase(seed, number)

    @rule(seed=SEEDS, number=st.integers(1, 4), sql=st.booleans())
    def changes(self, seed: int, number: int, sql: bool) -> None:
        seed = self.mixed(seed)
        drawn, what = self.drawn, Random(seed).randrange(3)
        updates = drawn.engine in ("deduplicate", "partial-update", "append")
        if what == 0 and updates and drawn.plain:
            self.update(seed, sql=sql)
        elif what == 1 and updates and not drawn.has_kinds and (drawn.engine == "append" or set(drawn.primary_keys) == set(drawn.identity)):
            self.merge(seed, number, deletes=sql)
        else:
            self.delete(seed, sql=sql)

    @rule(seed=SEEDS, number=st.integers(0, 5))
    def replaces(self, seed: int, number: int) -> None:
        seed = self.mixed(seed)
        if Random(seed).random() < 0.2:
            self.drop(seed)
        else:
            self.overwrite(seed, number)

    @rule(seed=SEEDS)
    def compacts(self, seed: int) -> None:
        seed = self.mixed(seed)
        rng, drawn = Random(seed), self.drawn
        chance, bucket = rng.random(), int(drawn.options["bucket"])
        if chance < 0.2 and bucket > 0:
            self.rescale(rng.randrange(1, 5))
        elif chance < 0.2 and bucket == -1 and not drawn.is_crossing:
            self.sort(seed)
        elif chance < 0.4 and drawn.is_partitioned and not drawn.is_crossing:
            self.compact_partition(seed)
        elif chance > 0.8:
            rng.choice((self.analyze, self.compact_manifests))(seed)
        else:
            self.compact(full=rng.random() < 0.5)

    @rule(seed=SEEDS)
    def alters(self, seed: int) -> None:
        seed = self.mixed(seed)
        able = [self.add_column, self.add_with_rows, self.set_option, self.set_option, self.move_column, self.index]
        able += [self.rename_column, self.widen, self.retype] * bool(self.drawn.plain) + [self.drop_column] * (len(self.drawn.plain) > 1)
        able += [self.set_mode] * (self.drawn.engine not in ("append", "first-row"))
        Random(seed).choice(able)(seed)

    @rule(seed=SEEDS, sql=st.booleans())
    def asks(self, seed: int, sql: bool) -> None:
        seed = self.mixed(seed)
        if len(self.past) > 1 and Random(seed).random() < 0.2:
            self.ask_changes(seed)
        else:
            self.ask(seed, sql=sql)

    @rule(seed=SEEDS)
    def looks(self, seed: int) -> None:
        seed = self.mixed(seed)
        able = [self.check, self.refused, self.reopen, self.reopen]
        # of other tables the reference too tells what the files say that only one of the two states has, and not what they come to with the others
        chooses = self.drawn.engine in ("deduplicate", "first-row") and not self.drawn.sequence
        able += [self.time_travel] * bool(self.past) + [self.difference] * (len(self.past) > 1 and chooses)
        Random(seed).choice(able)(seed)

    @rule(seed=SEEDS)
    def keeps(self, seed: int) -> None:
        seed = self.mixed(seed)
        if not self.ids:
            self.upsert(seed, 4)
        able = [self.tag, self.tag, self.tag, self.change_tag, self.rollback, self.forward, self.switch, self.delete_branch, self.rename_branch]
        able += [self.make_branch, self.make_branch] * (len(self.lines) < MOST_BRANCHES)
        Random(seed).choice(able)(seed)

    @rule(seed=SEEDS)
    def cares(self, seed: int) -> None:
        seed = self.mixed(seed)
        if not self.ids:
            self.upsert(seed, 4)
        Random(seed).choice([self.expire, self.expire, self.clean, self.follow, self.follow, self.pin, self.pin])(seed)


def machine(engine: str) -> tuple[type[TableMachine], Counter[str]]:
    """The machine of an engine, and the counter of its steps by rule."""
    counted: Counter[str] = Counter()

    class Machine(TableMachine):
        @initialize(drawn=tables(engine))
        def create(self, drawn: Drawn) -> None:
            self.salt = crc32(f"{drawn}".encode())
            self.made(drawn)

    Machine.engine, Machine.counted = engine, counted
    Machine.__name__ = Machine.__qualname__ = f"{engine.title().replace('-', '')}Table"
    return Machine, counted


def played(engine: str, steps: int, *, chance: bool = False, whole: bool = True) -> Counter[str]:
    """Runs the machine until it took so many steps, and, `whole`, each that tables of the engine take. `chance`: other tables every time.

    Raises `AssertionError`, or what lakekit raised, of the shortest run that shows it; without `chance` of the first one, as looking for shorter ones takes
    minutes: its notes say what was done.
    """
    made, counted = machine(engine)
    needed = (*STEPS, *ALSO.get(engine, ())) if whole else ()
    length = SHORT if steps < SOME else STEPS_A_RUN
    for turn in range(MOST_TURNS):
        left = steps - counted.total()
        if left <= 0 and not _absent(needed, counted):
            break
        if not chance:
            seeded(turn)(made)
        run_state_machine_as_test(
            made,
            settings=settings(
                max_examples=max(AT_LEAST, -(-left // length)),
                stateful_step_count=length,
                deadline=None,
                database=None,
                derandomize=not chance,
                suppress_health_check=list(HealthCheck),
                phases=(Phase.generate, Phase.shrink) if chance else (Phase.generate,),
            ),
        )
    assert counted.total() >= steps
    assert not _absent(needed, counted), f"never taken: {_absent(needed, counted)}"
    return counted


def _absent(needed: tuple[str, ...], counted: Counter[str]) -> list[str]:
    return [name for name in needed if not any(one.startswith(name) for one in counted)]


def told(engine: str, counted: Counter[str]) -> str:
    """Statistics in a line."""
    return f"{engine}: {counted.total()} steps, " + ", ".join(f"{name} {count}" for name, count in counted.most_common())
