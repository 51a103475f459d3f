"""A condition on a merged table answers what it answers on the merged rows, wherever in the read it is applied."""

from __future__ import annotations

import polars as pl
import pytest

import lakekit as lk
from lakekit.bucket import merge_read
from lakekit.errors import LakekitError
from lakekit.testing.fixtures import fixtures

SOME = 4
"""Every so many tables, columns and values are asked: the others differ in what filters do not see."""


def merged_tables() -> list[str]:
    """Tables whose newest state is merged by an engine that chooses rows."""
    found = []
    for path in sorted((fixtures() / "tables").iterdir()):
        try:
            if path.is_dir() and lk.open(str(path)).explain().merge.endswith(("deduplicate", "first-row")):
                found.append(path.name)
        except LakekitError:
            continue  # refused by name, elsewhere
    return found


def conditions(full: pl.DataFrame):
    """Conditions on some plain columns, the last one among them: their own values, ranges from them on, nulls."""
    plain = [name for name, dtype in full.schema.items() if not dtype.is_nested() and dtype != pl.Binary]
    for name in plain[::-SOME]:
        for value in full[name].drop_nulls().unique().sort()[::SOME].head(2):
            yield pl.col(name) == value
            yield pl.col(name) > value
        yield pl.col(name).is_null()


@pytest.mark.long
@pytest.mark.parametrize("few", [0.0, 2.0], ids=["all keys", "keys of the rows found"])
def test_conditions_and_merges_change_places(few, monkeypatch):
    monkeypatch.setattr(merge_read, "SELECTIVE_RATIO", few)
    tables, asked = merged_tables(), 0
    assert "hand_nullable_key" in tables
    for name in {"hand_nullable_key", *tables[:: 2 * SOME]}:
        table = lk.open(str(fixtures() / "tables" / name))
        try:
            full = table.scan().collect()
        except LakekitError:
            continue
        for condition in conditions(full):
            found = table.scan().filter(condition).collect()
            assert sorted(map(repr, found.rows())) == sorted(map(repr, full.filter(condition).rows())), f"{name}: {condition}"
            asked += 1
    assert asked > 50
