"""Columnar engines make what the row-wise oracle makes, and what they make does not depend on how the rows came."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings, strategies as st

from lakekit.columns import LEVEL
from lakekit.errors import LakekitError
from lakekit.lsm import merge as lsm_merge
from lakekit.lsm.merge import merge_section, selects_rows, winner_mask
from lakekit.testing import oracle
from lakekit.testing.strategies import DRAWN_ENGINES, SYSTEM_SCHEMA, canonical_rows, merges, to_dicts

FEW = settings(max_examples=settings.default.max_examples // 3)
"""Laws that are tried in many forms need fewer draws of each."""

REFUSALS = (
    "By default, First row merge engine can not accept DELETE/UPDATE_BEFORE records",
    "By default, Partial update can not accept delete records",
    "does not support retraction",
    "can not be null",
    "/ by zero",
    "Division by zero",
    "Non-terminating decimal expansion",
)
"""Where several columns refuse, rows and columns find them in different order."""


def merged(case, frame=None):
    """The rows, or the error."""
    try:
        return to_dicts(merge_section(case.frame() if frame is None else frame, case.rule, keep_deletes=True))
    except LakekitError as refused:
        return refused


@pytest.mark.parametrize("engine", DRAWN_ENGINES)
@given(data=st.data())
def test_engines_equal_the_oracle(engine, data):
    case = data.draw(merges(engine))
    try:
        want = oracle.merge(case.rows(), case.rule)
    except oracle.RefusedRows:
        found = merged(case)
        assert isinstance(found, LakekitError), found
        assert any(words in str(found) for words in REFUSALS), found
        return
    found = merged(case)
    assert not isinstance(found, LakekitError), found
    assert canonical_rows(found, case.rule) == canonical_rows(want, case.rule)


@FEW
@given(case=merges(), data=st.data())
def test_the_order_of_files_is_irrelevant(case, data):
    order = data.draw(st.permutations(range(len(case.versions))))
    one, other = merged(case), merged(case, case.frame(order))
    if isinstance(one, LakekitError):
        assert type(other) is type(one)
        return
    assert canonical_rows(one, case.rule) == canonical_rows(other, case.rule)


@pytest.mark.long
@FEW
@given(case=merges(), data=st.data())
def test_slices_by_key_are_the_whole(case, data):
    whole = merged(case)
    assume(not isinstance(whole, LakekitError))
    frame, key = case.frame(), case.key[0]
    cut = data.draw(st.sampled_from(frame[key].to_list()))
    parts = [merged(case, frame.filter(condition)) for condition in (pl.col(key) < cut, pl.col(key) >= cut)]
    assert canonical_rows([row for part in parts for row in part], case.rule) == canonical_rows(whole, case.rule)


@FEW
@given(case=merges())
def test_merging_again_changes_nothing(case):
    once = merged(case)
    assume(not isinstance(once, LakekitError))
    frame = merge_section(case.frame(), case.rule, keep_deletes=True)
    twice = merge_section(frame.with_columns(pl.lit(0, pl.Int32).alias(LEVEL)), case.rule, keep_deletes=True)
    assert canonical_rows(to_dicts(twice), case.rule) == canonical_rows(once, case.rule)


@pytest.mark.long
@FEW
@given(case=merges("deduplicate"), data=st.data())
def test_merges_of_merges_are_the_merge(case, data):
    """Compaction of some runs changes nothing for deduplicate: the newest of the newest is the newest."""
    assume("changelog-producer" not in case.options and "ignore-delete" not in case.options)
    frame = case.frame().sort("_SEQUENCE_NUMBER")
    cut = data.draw(st.integers(0, frame.height))
    early, late = merge_section(frame.head(cut), case.rule, keep_deletes=True), frame.tail(frame.height - cut).drop(LEVEL)
    both = merge_section(pl.concat([early, late]), case.rule, keep_deletes=True)
    assert canonical_rows(to_dicts(both), case.rule) == canonical_rows(merged(case), case.rule)


@FEW
@given(case=merges(), data=st.data())
def test_a_projection_reads_what_the_whole_says(case, data):
    whole = merged(case)
    assume(not isinstance(whole, LakekitError))
    wanted = data.draw(st.lists(st.sampled_from([one.name for one in case.fields]), unique=True))
    needed = lsm_merge.required_columns(case.rule, wanted)
    frame = case.frame().select(*(name for name in case.frame().columns if name in needed or name in SYSTEM_SCHEMA))
    part = merged(case, frame)
    assert not isinstance(part, LakekitError), part
    names = {*wanted, *case.key, "_VALUE_KIND"}

    def keep(rows):
        return canonical_rows([{name: value for name, value in row.items() if name in names} for row in rows], case.rule)

    assert keep(part) == keep(whole)


@pytest.mark.long
@FEW
@given(case=merges(retractions=True))
def test_deletes_are_dropped_by_those_who_read(case):
    kept = merged(case)
    assume(not isinstance(kept, LakekitError))
    read = to_dicts(merge_section(case.frame(), case.rule))
    assert canonical_rows(read, case.rule) == canonical_rows([row for row in kept if row["_VALUE_KIND"] % 2 == 0], case.rule)
    if selects_rows(case.rule):
        assert int(np.count_nonzero(winner_mask(case.frame(), case.rule))) == len(read)


@FEW
@given(case=merges(retractions=False))
def test_without_sequence_numbers_the_place_decides(case):
    frame = case.frame().sort("_SEQUENCE_NUMBER")
    with_numbers = merged(case, frame)
    assume(not isinstance(with_numbers, LakekitError))
    without = to_dicts(merge_section(frame.drop("_SEQUENCE_NUMBER"), case.rule, keep_deletes=True))
    wanted = [{name: value for name, value in row.items() if name != "_SEQUENCE_NUMBER"} for row in with_numbers]
    assert canonical_rows(without, case.rule) == canonical_rows(wanted, case.rule)
