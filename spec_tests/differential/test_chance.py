"""Tables that the reference engine wrote by chance: lakekit reads them as the engine does, and answers queries as their rows do.

    LAKEKIT_CHANCE_SEED=7 LAKEKIT_CHANCE_COUNT=500 pytest -m reference spec_tests/differential/test_chance.py      other tables, and more of them
    LAKEKIT_CHANCE_FOLDER=found pytest …                                                                          where they are left

A failure names the table: its folder holds `chance_SEED_NUMBER.txt`, which says how it was made, beside the table and its recorded reads.
"""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st

from lakekit.errors import InvalidOption, LakekitError
from lakekit.notebook.levels import Levels
from spec_tests.differential import chance
from spec_tests.doors.test_levels import in_bucket, message, typed
from spec_tests.doors.views import planned_names
from spec_tests.query_strategies import conditions, difference, queries

SEED = int(os.environ.get("LAKEKIT_CHANCE_SEED", "20240601"))
COUNT = int(os.environ.get("LAKEKIT_CHANCE_COUNT", "24"))
FOLDER = os.environ.get("LAKEKIT_CHANCE_FOLDER")
QUERIES = 4
"""Queries drawn a table, and conditions that `explain` is asked about."""
pytestmark = [pytest.mark.reference, pytest.mark.timeout(600 + 20 * COUNT)]
FEW = settings(max_examples=QUERIES, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the tables are."""
    here = Path(FOLDER) if FOLDER else tmp_path_factory.mktemp("chance")
    return chance.make(here.absolute(), seed=SEED, count=COUNT)


def told(folder, wrong):
    """What a failure says."""
    tables = sorted({name for name, _ in wrong})
    texts = [f"{name}: {what}" for name, what in wrong]
    made = [f"---- {name}\n{(folder / 'tables' / f'{name}.txt').read_text(encoding='utf-8')}" for name in tables[:3]]
    return "\n".join([f"seed {SEED}, tables {', '.join(tables)}, left in {folder}", *texts[:20], *made])


def test_every_recorded_read(folder, record_property):
    wrong, count, faults = [], 0, 0
    for case in chance.cases(folder):
        for read in case.reads:
            count += 1
            faults += chance.fault(case, read) is not None
            if (found := chance.apart(case, read)) is not None:
                wrong.append((case.name, f"{read.name}: {found}"))
    record_property("recorded_reads", count)
    record_property("equal_reads", count - len(wrong))
    assert not wrong, told(folder, wrong)
    assert count > 10 * COUNT
    assert faults < count / 5


def drawn(strategy):
    """A few draws that the seed decides."""
    found = []

    @seed(SEED)
    @FEW
    @given(strategy)
    def draw(one):
        found.append(one)

    draw()
    return found


def collected(case):
    """All rows of a table, or None where it refuses: what it refuses then the reads above have compared."""
    try:
        return chance.opened(case).scan().collect()
    except LakekitError:
        return None


@pytest.mark.parametrize("memory", ["256 mb", "1 kb"])
def test_queries_answer_as_on_the_rows(folder, memory):
    wrong, asked = [], []
    for case in chance.cases(folder):
        full = collected(case)
        if full is None or full.is_empty():
            continue
        table = chance.opened(case, options={"lakekit.merge-memory": memory})

        for query in drawn(queries(full)):
            asked.append(query)
            if (found := difference(query, table.scan(), full)) is not None:
                wrong.append((case.name, f"{query}: {found}"))
    assert not wrong, told(folder, wrong)
    assert len(asked) > COUNT


def test_no_file_of_an_answer_is_pruned(folder):
    wrong, pruned = [], 0
    for case in chance.cases(folder):
        full = collected(case)
        if full is None or full.is_empty():
            continue
        table = chance.opened(case)

        for condition in drawn(conditions(full)):
            matching, plan = full.filter(condition), table.explain(condition)
            pruned += plan.files_read < plan.files_total
            answered = table.scan().filter(condition).select(pl.len()).collect().item()
            if answered != matching.height or matching.height > plan.rows_read:
                wrong.append((case.name, f"{condition}: {answered} of {matching.height} rows, out of {plan.rows_read} planned"))
    assert not wrong, told(folder, wrong)
    assert pruned


def test_a_probe_in_the_levels_lights_the_files_that_the_planner_reads(folder):
    wrong, lit = [], 0
    for case in chance.cases(folder):
        full, table = collected(case), chance.opened(case)
        keys = table._context().schema.trimmed_primary_keys
        if full is None or full.is_empty() or not keys or "scan.fallback-branch" in table.options:
            continue
        shown = Levels(table)
        if not set(keys) <= set(table.scan(at=shown.at).collect_schema()):
            continue  # a key was renamed since the newest snapshot, which is shown with the columns that it has
        for at in drawn(st.integers(0, full.height - 1)):
            row = full.select(keys).row(at)
            condition = pl.all_horizontal(pl.col(name) == pl.lit(value, dtype=full.schema[name]) for name, value in zip(keys, row, strict=True))
            shown.probe = ", ".join(map(typed, row))
            try:
                wanted = planned_names(table, condition, shown.at) & in_bucket(shown)
            except InvalidOption:
                break  # today's options name columns that the schema of the newest snapshot has not: neither engine reads that state
            lit += len(shown.lit)
            if message(shown) or set(shown.lit) != wanted:
                wrong.append((case.name, f"probe {shown.probe}: {message(shown)} {sorted(shown.lit)} lit, {sorted(wanted)} planned"))
    assert not wrong, told(folder, wrong)
    assert lit > COUNT
