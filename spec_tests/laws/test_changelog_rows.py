"""The difference of two states as a changelog (ENGINE.md 4.1), and what counts as equal."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from lakekit.columns import KIND, SEQUENCE
from lakekit.format.polars_types import polars_type
from lakekit.lsm import merge
from lakekit.types import Field, parse

ADDS, KINDS = (0, 2), st.sampled_from((0, 1, 2, 3))
FIELDS = (Field("k", "INT NOT NULL", id=0), Field("v", "INT", id=1), Field("w", "INT", id=2))


def frame(rows: dict[int, tuple[int, int, int]], first: int) -> tuple[pl.DataFrame, np.ndarray]:
    """Rows (v, w, kind) by key, numbered from `first` on, and the numbers of their keys."""
    data = [(k, v, w, first + at, kind) for at, (k, (v, w, kind)) in enumerate(rows.items())]
    schema = {"k": pl.Int32, "v": pl.Int32, "w": pl.Int32, SEQUENCE: pl.Int64, KIND: pl.Int8}
    return pl.DataFrame(data, schema=schema, orient="row"), np.array(list(rows), np.int64)


states = st.dictionaries(st.integers(0, 7), st.tuples(st.integers(0, 2), st.integers(0, 2), KINDS), max_size=8)


@given(states, states, st.sampled_from((None, ("v", "w"), ("v",))))
def test_every_pair_of_rows_is_told_as_the_table_says(before: dict, after: dict, names: tuple[str, ...] | None) -> None:
    (old, old_keys), (new, new_keys) = frame(before, 0), frame(after, 100)
    compared = None if names is None else tuple(field for field in FIELDS if field.name in names)
    told = merge.changelog_between(old, new, (old_keys, new_keys), 8, compared)
    expected = []
    for key in range(8):
        was, now = before.get(key), after.get(key)
        was, now = (one if one is not None and one[2] in ADDS else None for one in (was, now))
        if was is None and now is not None:
            expected.append((key, *now[:2], 0))
        elif was is not None and now is None:
            expected.append((key, *was[:2], 3))
        elif was is not None and now is not None and (names is None or was[: len(names)] != now[: len(names)]):
            expected += [(key, *was[:2], 1), (key, *now[:2], 2)]
    found = told.sort("k", maintain_order=True)
    assert found.select("k", "v", "w", KIND).rows() == expected
    assert all((sequence >= 100) == (kind in ADDS) for sequence, kind in found.select(SEQUENCE, KIND).rows())


@pytest.mark.parametrize(
    ("kind", "one", "other", "equal"),
    [
        ("INT", 1, 1, True),
        ("INT", None, None, True),
        ("INT", None, 1, False),
        ("DOUBLE", 0.0, -0.0, True),
        ("DOUBLE", float("nan"), float("nan"), False),
        ("FLOAT", None, float("nan"), False),
        ("STRING", "a", "a", True),
        ("STRING", "a", "A", False),
        ("ARRAY<INT>", [1, 2], [1, 2], True),
        ("ARRAY<INT>", [1, 2], [2, 1], False),
        ("MAP<STRING, INT>", [{"key": "a", "value": 1}, {"key": "b", "value": 2}], [{"key": "b", "value": 2}, {"key": "a", "value": 1}], True),
        ("MAP<STRING, INT>", [{"key": "a", "value": 1}], [{"key": "a", "value": 2}], False),
        ("ROW<x INT, m MAP<INT, INT>>", {"x": 1, "m": None}, {"x": 1, "m": None}, True),
        ("ROW<x INT, m MAP<INT, INT>>", {"x": 1, "m": []}, None, False),
        ("MULTISET<STRING>", [{"key": "a", "value": 1}, {"key": "b", "value": 2}], [{"key": "b", "value": 2}, {"key": "a", "value": 1}], True),
    ],
)
def test_what_is_equal(kind: str, one: object, other: object, equal: bool) -> None:
    field = Field("v", kind, id=0)
    dtype = polars_type(parse(kind))
    system = {SEQUENCE: pl.Series([1]), KIND: pl.Series([0], dtype=pl.Int8)}
    sides = [pl.DataFrame({"v": pl.Series([value], dtype=dtype), **system}) for value in (one, other)]
    key = np.zeros(1, np.int64)
    assert (merge.changelog_between(sides[0], sides[1], (key, key), 1, (field,)).height == 0) == equal
    assert merge.changelog_between(sides[0], sides[1], (key, key), 1, None)[KIND].to_list() == [1, 2]
    assert merge.changelog_between(sides[0], sides[1], (key, key), 1, ())[KIND].to_list() == []


def test_what_is_compared_follows_from_two_options() -> None:
    assert merge.select_compared_fields(FIELDS, deduplicated=False, ignored_columns=("v",)) is None
    assert merge.select_compared_fields(FIELDS, deduplicated=True, ignored_columns=()) == FIELDS
    assert merge.select_compared_fields(FIELDS, deduplicated=True, ignored_columns=("v", "zz")) == (FIELDS[0], FIELDS[2])
