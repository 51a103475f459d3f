"""An update whose new values merging would take back is refused in so many words, and nothing is committed."""

from __future__ import annotations

import polars as pl
import pytest

import lakekit as lk

SCHEMA = {"k": "INT", "v": "INT", "w": "INT", "q": "INT"}
ROW = {"k": 1, "v": 1, "w": 5, "q": 9}


def table(tmp_path, **options):
    t = lk.create(str(tmp_path / "t"), SCHEMA, primary_keys=["k"], options={"bucket": "1", **options})
    t.upsert([ROW])
    return t


PARTIAL = {"merge-engine": "partial-update"}
GROUP = {**PARTIAL, "fields.q.sequence-group": "v"}


@pytest.mark.parametrize(
    ("options", "values", "why"),
    [
        (PARTIAL, {"v": None}, "'v' of t would be 1 after the update, and not None: merge engine partial-update keeps the older value"),
        (PARTIAL, {"v": pl.when(pl.col("w") > 9).then(pl.col("w"))}, "would be 1 after the update"),
        (GROUP, {"v": 2, "q": 3}, "ordered by q"),
        (GROUP, {"v": 2, "q": None}, "ordered by q"),
        (GROUP, {"w": None}, "keeps the older value"),
        ({"sequence.field": "q"}, {"v": 2, "q": 3}, "ordered by q"),
        ({"sequence.field": "q"}, {"q": pl.col("q") - 1}, "ordered by q"),
        ({"sequence.field": "q", "sequence.field.sort-order": "descending"}, {"v": 2, "q": 10}, "ordered by q"),
    ],
)
def test_what_would_be_taken_back_is_refused(tmp_path, options, values, why):
    t = table(tmp_path, **options)
    with pytest.raises(lk.InvalidOption, match=why) as told:
        t.update(values, where="k = 1")
    assert "Nothing was changed" in str(told.value)
    assert t.snapshots().height == 1
    assert t.scan().collect().to_dicts() == [ROW]


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({}, {"v": None}),
        (PARTIAL, {"v": 2}),
        (GROUP, {"v": 2, "q": 9}),
        (GROUP, {"v": None, "q": 10}),
        (GROUP, {"w": 7}),
        ({"sequence.field": "q"}, {"v": None}),
        ({"sequence.field": "q"}, {"v": 2, "q": 10}),
    ],
)
def test_what_stands_is_written(tmp_path, options, values):
    t = table(tmp_path, **options)
    t.update(values, where="k = 1")
    assert t.scan().collect().to_dicts() == [{**ROW, **values}]
