"""The difference of two states, held against the tree of two leaves by which the reference merges them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

from lakekit.lsm import merge
from lakekit.model.table_schema import TableSchema
from lakekit.options.table_options import TableOptions
from lakekit.read import sections
from lakekit.types import Field, parse
from spec_tests.models.loser_tree import Leaf, groups

FIELDS = (
    Field("k", parse("INT NOT NULL"), id=0),
    Field("v", parse("STRING"), id=1),
    Field("s", parse("INT"), id=2),
    Field("m", parse("MAP<STRING, INT>"), id=3),
)
COLUMNS = {
    "k": pl.Int32,
    "v": pl.String,
    "s": pl.Int32,
    "m": pl.List(pl.Struct({"key": pl.String, "value": pl.Int32})),
    "_VALUE_KIND": pl.Int8,
    "_SEQUENCE_NUMBER": pl.Int64,
}
ROWS = st.dictionaries(
    st.integers(0, 12),
    st.tuples(st.sampled_from("ab"), st.one_of(st.none(), st.integers(0, 1)), st.sampled_from([0, 0, 0, 1, 2, 3]), st.integers(0, 2)),
    max_size=10,
)
"""key -> value, sequence field, kind, sequence number"""


def _table(options: dict[str, str]) -> Any:
    given_options = {"bucket": "1", **options}
    schema = TableSchema(id=0, fields=FIELDS, highest_field_id=3, partition_keys=(), primary_keys=("k",), options=given_options, comment=None, time_millis=0)
    return SimpleNamespace(schema=schema, options=TableOptions.parse(given_options, kind="key"))


def _frame(rows: dict[int, Any]) -> pl.LazyFrame:
    made = [(k, v, s, [], kind, number) for k, (v, s, kind, number) in sorted(rows.items())]
    return pl.LazyFrame(made, schema=COLUMNS, orient="row")


def _java(before: dict[int, Any], after: dict[int, Any], *, by_field: bool, descending: bool) -> set[Any]:
    """`DiffMerger` over the tree, deletes kept."""

    def age(row: Any) -> tuple[Any, ...]:
        _, (_, field, _, number) = row
        there = 0 if field is None else 1 + (1 - field if descending else field)
        return (there, number) if by_field else (number,)

    found = set()
    for group in groups([Leaf(sorted(before.items())), Leaf(sorted(after.items()))], key=lambda row: row[0], age=age):
        (side, (k, row)), *more = group
        if not more and side == 0:
            if row[2] % 2 == 0:
                found.add((k, row[0], row[1], 3, row[3]))
        elif not more:
            found.add((k, row[0], row[1], row[2], row[3]))
        elif more[0][0] == 1:
            later = more[0][1][1]
            if row[:2] != later[:2] or row[2] % 2 != later[2] % 2:
                found.add((k, later[0], later[1], later[2], later[3]))
    return found


@pytest.mark.long
@pytest.mark.parametrize("by_field", [False, True])
@pytest.mark.parametrize("descending", [False, True])
@given(before=ROWS, after=ROWS)
def test_changed_keys_are_those_the_tree_brings_last(before, after, by_field, descending):
    options = {"sequence.field": "s", "sequence.field.sort-order": "descending" if descending else "ascending"} if by_field else {}
    table = _table(options)
    rule = merge.merge_spec_from_options(table.schema, options)
    told = sections.diff_frames(_frame(before), _frame(after), table, rule).collect()
    found = {(row["k"], row["v"], row["s"], row["_VALUE_KIND"], row["_SEQUENCE_NUMBER"]) for row in told.to_dicts()}
    assert found == _java(before, after, by_field=by_field, descending=descending)
    assert told.schema == pl.Schema(COLUMNS)


@pytest.mark.long
@given(befores=st.tuples(ROWS, ROWS), afters=st.tuples(ROWS, ROWS))
def test_buckets_are_compared_one_by_one(befores, afters):
    """A key may be in several buckets, as a deleted one of dynamic buckets may (case bucket_cross_partition_forgotten)."""
    table = _table({})
    before, after = (
        pl.concat([_frame(rows).with_columns(pl.lit(bucket, pl.Int32).alias(sections.BUCKET)) for bucket, rows in enumerate(side)])
        for side in (befores, afters)
    )
    told = sections.diff_frames(before, after, table, merge.merge_spec_from_options(table.schema, {})).collect()
    for bucket in (0, 1):
        here = told.filter(pl.col(sections.BUCKET) == bucket)
        found = {(row["k"], row["v"], row["s"], row["_VALUE_KIND"], row["_SEQUENCE_NUMBER"]) for row in here.to_dicts()}
        assert found == _java(befores[bucket], afters[bucket], by_field=False, descending=False)


def test_maps_have_no_order():
    table = _table({})
    rule = merge.merge_spec_from_options(table.schema, {})
    entries = [{"key": "x", "value": 1}, {"key": "y", "value": None}]
    some, other = (pl.LazyFrame([(1, "a", 0, listed, 0, number)], schema=COLUMNS, orient="row") for listed, number in ((entries, 1), (entries[::-1], 2)))
    assert sections.diff_frames(some, other, table, rule).collect().is_empty()
    less = pl.LazyFrame([(1, "a", 0, entries[:1], 0, 2)], schema=COLUMNS, orient="row")
    assert sections.diff_frames(some, less, table, rule).collect()["m"].to_list() == [entries[:1]]
