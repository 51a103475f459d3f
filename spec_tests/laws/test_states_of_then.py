"""Time travel beyond changes of columns: a state reads as it did before, whatever columns were renamed, dropped, added again, or named by options since."""

from __future__ import annotations

import random

import pytest

import lakekit as lk
from lakekit.errors import InvalidOption, SchemaMismatch
from spec_tests.longer import some

COLUMNS = {"k": "INT NOT NULL", "a": "INT", "b": "INT", "c": "INT", "s": "INT"}
ENGINES = [
    {},
    {"sequence.field": "s"},
    {"sequence.field": "s,a"},
    {"merge-engine": "partial-update"},
    {"merge-engine": "partial-update", "fields.s.sequence-group": "a,b"},
    {"merge-engine": "partial-update", "fields.s.sequence-group": "a,b", "fields.a.aggregate-function": "sum"},
    {"merge-engine": "partial-update", "fields.s,a.sequence-group": "b,c"},
    {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum", "fields.b.aggregate-function": "max"},
    {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_value", "fields.a.aggregate-function": "min"},
]

KINDS = [["rename", "exchange", "option", "drop"], ["again", "option", "drop"]]
"""A column that comes again is known by its name, others by their ids: of one that does both, nobody knows what its options were."""


def option_of_new_columns(rng, options, fresh):
    """An option that names columns which the state of then has not, beside those that it named already."""
    match options.get("merge-engine"):
        case "partial-update":
            groups = [key for key in options if key.endswith(".sequence-group")]
            if groups and rng.random() < 0.5:
                return groups[0], f"{options[groups[0]]},{fresh[0]}"
            return f"fields.{fresh[0]}.sequence-group", fresh[1]
        case "aggregation":
            return f"fields.{fresh[0]}.aggregate-function", rng.choice(["sum", "max", "last_value"])
    held = options.get("sequence.field")
    return "sequence.field", fresh[0] if held is None else f"{held},{fresh[0]}"


def change(rng, table, fresh, kinds):
    """Takes one drawn change of columns; what the table refuses is not taken."""
    names = [field.name for field in table.schema.fields if field.name != "k"]
    if len(names) == 1:
        return
    one, other = rng.sample(names, 2)
    match rng.choice(kinds):
        case "rename":
            changes = [lk.rename_column(one, next(fresh))]
        case "exchange":
            changes = [lk.rename_column(one, "x"), lk.rename_column(other, one), lk.rename_column("x", other)]
        case "again":
            changes = [lk.drop_column(one), lk.add_column(one, "INT")]
        case "drop":
            changes = [lk.drop_column(one)]
        case _:
            added = [next(fresh), next(fresh)]
            key, value = option_of_new_columns(rng, dict(table.options), added)
            changes = [*(lk.add_column(name, "INT") for name in added), lk.set_option(key, value)]
    try:
        table.alter(*changes)
    except (InvalidOption, SchemaMismatch):  # an option names the column
        return


@pytest.mark.parametrize("seed", some(range(300), 25))
def test_a_state_reads_as_it_did(tmp_path, seed):
    rng = random.Random(seed)
    options = {"bucket": "1", "write-only": "true", **rng.choice(ENGINES)}
    table = lk.create(str(tmp_path / "t"), COLUMNS, primary_keys=["k"], options=options)
    for _ in range(3):
        rows = [{"k": k, **{name: rng.choice([None, 0, 1, 2]) for name in "abc"}, "s": rng.randrange(5)} for k in rng.sample(range(4), 3)]
        table.upsert(rows)
    then, before = table.snapshots()["snapshot_id"].max(), table.scan().collect()
    fresh = (f"n{number}" for number in range(100))
    kinds = rng.choice(KINDS)
    for _ in range(rng.randrange(1, 5)):
        change(rng, table, fresh, kinds)
        assert table.scan(at=then).collect().sort("k").equals(before.sort("k")), table.options
