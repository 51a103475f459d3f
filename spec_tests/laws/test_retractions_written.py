"""Rows of kind -U and -D are refused while they are written exactly where every merge of their key would fail.

The oracle of merge engines is the judge here, which is held against the reference engine; `differential/test_retractions.py` asks that engine itself.
"""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import assume, given, settings, strategies as st

import lakekit as lk
from lakekit.columns import KIND, LEVEL
from lakekit.errors import InvalidOption
from lakekit.model.data_file import KIND_TEXTS
from lakekit.testing import oracle
from lakekit.testing.strategies import DRAWN_ENGINES, merges
from lakekit.write.row_conversion import check_retractions

FEW = settings(max_examples=settings.default.max_examples // 2, deadline=None)
COLUMNS = {"k": "INT", "v": "INT", "s": "INT"}


def fails(row: oracle.Row, case) -> bool:
    """Whether a row that retracts cannot be merged with an older row of its key."""
    older = {**row, "_VALUE_KIND": 0, "_SEQUENCE_NUMBER": -1, LEVEL: 0}
    try:
        oracle.merge([older, {**row, LEVEL: 0}], case.rule)
    except oracle.RefusedRows as refused:
        return "can not accept" in str(refused) or "does not support retraction" in str(refused)
    return False


@pytest.mark.parametrize("engine", DRAWN_ENGINES)
@given(data=st.data())
@FEW
def test_what_no_merge_takes_is_refused_and_nothing_else(engine, data, tmp_path_factory):
    case = data.draw(merges(engine, retractions=True))
    rows = [row for row in case.rows() if row["_VALUE_KIND"] in (1, 3)]
    if case.rule.ignores_deletes:
        rows = []  # they are dropped before
    assume(rows)
    table = lk.create(tmp_path_factory.mktemp("t") / "t", list(case.fields), primary_keys=list(case.key), options={"bucket": "1", **case.options})
    frame = case.frame()
    kinds = frame[KIND].to_numpy()
    removes = any(group.removes_record for group in case.rule.sequence_groups)
    for at, row in enumerate(case.rows()):  # scalar: one a row of a case
        if row["_VALUE_KIND"] not in (1, 3):
            continue
        try:
            check_retractions(frame[at : at + 1], pl.Series([int(kinds[at])], dtype=pl.Int8), table._context())
        except InvalidOption as refused:
            assert KIND_TEXTS[row["_VALUE_KIND"]] in str(refused)
            assert fails(row, case), (case.options, row, str(refused))
        else:
            is_by_age = removes and row["_VALUE_KIND"] == oracle.DELETE_KIND
            assert is_by_age or not fails(row, case), (case.options, row)


REFUSED = [
    ({"merge-engine": "partial-update"}, "-D", "ignore-delete"),
    ({"merge-engine": "partial-update"}, "-U", "ignore-delete"),
    ({"merge-engine": "first-row"}, "-D", "ignore-delete"),
    ({"merge-engine": "aggregation", "fields.v.aggregate-function": "max"}, "-D", "fields.v.ignore-retract"),
    ({"merge-engine": "aggregation", "fields.v.aggregate-function": "max", "aggregation.remove-record-on-delete": "true"}, "-U", "fields.v.ignore-retract"),
    ({"merge-engine": "partial-update", "fields.s.sequence-group": "v", "fields.v.aggregate-function": "max"}, "-D", "fields.v.ignore-retract"),
]
TAKEN = [
    ({}, "-D"),
    ({"merge-engine": "partial-update", "ignore-delete": "true"}, "-D"),
    ({"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}, "-D"),
    ({"merge-engine": "partial-update", "fields.s.sequence-group": "v"}, "-D"),
    ({"merge-engine": "first-row", "ignore-delete": "true"}, "-U"),
    ({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "fields.s.aggregate-function": "last_value"}, "-U"),
    ({"merge-engine": "aggregation", "fields.v.aggregate-function": "max", "fields.v.ignore-retract": "true"}, "-D"),
    ({"merge-engine": "aggregation", "fields.v.aggregate-function": "max", "aggregation.remove-record-on-delete": "true"}, "-D"),
]


def made(path, options) -> lk.Table:
    table = lk.create(path, COLUMNS, primary_keys=["k"], options={"bucket": "1", **options})
    table.upsert([{"k": 1, "v": 1, "s": 1}])
    return table


@pytest.mark.parametrize(("options", "kind", "key"), REFUSED)
def test_the_table_stays_readable(tmp_path, options, kind, key):
    table = made(tmp_path / "t", options)
    before = table.scan().collect().rows()
    with pytest.raises(InvalidOption, match=f"row 1 is {kind}") as refused:
        table.upsert([{"k": 2, "v": 5, "s": 5, "op": "+I"}, {"k": 1, "v": 1, "s": 2, "op": kind}], row_kind="op")
    assert refused.value.key == key
    assert table.scan().collect().rows() == before
    assert table.snapshots().filter(pl.col("kind") != "COMPACT").height == 1
    if "aggregation.remove-record-on-delete" in options:
        return  # which excludes ignore-retract
    table.alter(lk.set_option(key, "true"))
    table.upsert([{"k": 1, "v": 1, "s": 2, "op": kind}], row_kind="op")
    assert table.scan().collect().height == 1


@pytest.mark.parametrize(("options", "kind"), TAKEN)
def test_what_merges_take_is_written(tmp_path, options, kind):
    table = made(tmp_path / "t", options)
    table.upsert([{"k": 1, "v": 1, "s": 2, "op": kind}], row_kind="op")
    table.compact(full=True)
    assert table.scan().collect().height in (0, 1)
