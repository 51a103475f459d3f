"""Sections part the keys, their runs hold every file once, and slices hold every key once."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from lakekit.lsm import sorted_runs

FEW = settings(max_examples=settings.default.max_examples // 3)
"""Laws that are tried in many forms need fewer draws of each."""

files = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 25), st.sampled_from((0, 0, 0, 1, 5)), st.integers(0, 50), st.integers(0, 9), st.integers(0, 2)),
    min_size=1,
    max_size=30,
)


def sections(drawn, columns=lambda numbers: [pl.Series(numbers, dtype=pl.Int64)]):
    return sorted_runs.build_sections(
        columns([low for low, *_ in drawn]),
        columns([low + width for low, width, *_ in drawn]),
        levels=np.array([one[2] for one in drawn]),
        min_sequence=np.array([one[3] for one in drawn]),
        max_sequence=np.array([one[3] + one[4] for one in drawn]),
        buckets=np.array([one[5] for one in drawn]),
    )


def overlaps(one, other):
    return one[5] == other[5] and one[0] <= other[0] + other[1] and other[0] <= one[0] + one[1]


@FEW
@given(drawn=files)
def test_sections_are_the_files_that_overlap_directly_or_through_others(drawn):
    found = [set(map(int, section)) for section in sections(drawn)]
    parts = [{at} for at in range(len(drawn))]
    for at, one in enumerate(drawn):
        for other in range(at):
            if overlaps(one, drawn[other]):
                left, right = (next(part for part in parts if number in part) for number in (at, other))
                if left is not right:
                    parts.remove(right)
                    left |= right
    assert sorted(map(sorted, found)) == sorted(map(sorted, parts))


@FEW
@given(drawn=files)
def test_runs_come_oldest_first_and_each_is_a_level_or_a_file(drawn):
    found = sections(drawn)
    assert found.files_without_overlap.tolist() == [int(section[0]) for section in found if len(section) == 1]
    for section, count, in_order in zip(found, found.runs.tolist(), found.is_in_sequence.tolist(), strict=True):
        levels = [(drawn[at][2] or -1 - at) for at in section.tolist()]
        changes = [at for at, level in enumerate(levels) if at == 0 or level != levels[at - 1]]
        assert len(changes) == count == len(set(levels))
        spans = []
        for start, end in zip(changes, [*changes[1:], len(levels)], strict=True):
            members = [drawn[at] for at in section.tolist()[start:end]]
            spans.append((min(one[3] for one in members), max(one[3] + one[4] for one in members)))
            assert [one[0] for one in members] == sorted(one[0] for one in members)
        assert [high for _, high in spans] == sorted(high for _, high in spans)
        assert in_order == all(one[1] < other[0] for one, other in pairwise(spans))


@pytest.mark.parametrize(
    "columns",
    [
        lambda numbers: [pl.Series([f"{number:05}" for number in numbers])],
        lambda numbers: [pl.Series(["x"] * len(numbers)), pl.Series(numbers, dtype=pl.Int32)],
        lambda numbers: [pl.Series([number // 7 for number in numbers]), pl.Series([str(number % 7) for number in numbers])],
        lambda numbers: [pl.Series([Decimal(number) for number in numbers], dtype=pl.Decimal(10, 0)).to_arrow()],
    ],
)
@FEW
@given(drawn=files)
def test_any_type_of_key_parts_alike(columns, drawn):
    assert [section.tolist() for section in sections(drawn)] == [section.tolist() for section in sections(drawn, columns)]


def test_a_bound_that_could_not_be_read_meets_every_file_of_its_bucket():
    found = sorted_runs.build_sections(
        [pl.Series([0, 50, None, 0])],
        [pl.Series([9, 60, None, 9])],
        levels=np.zeros(4, int),
        min_sequence=np.arange(4),
        max_sequence=np.arange(4),
        buckets=np.array([0, 0, 0, 1]),
    )
    assert [section.tolist() for section in found] == [[0, 1, 2], [3]]


def test_no_files_no_sections():
    nothing = np.zeros(0, int)
    assert len(sorted_runs.build_sections(*[[pl.Series([], dtype=pl.Int64)]] * 2, levels=nothing, min_sequence=nothing, max_sequence=nothing)) == 0


# ---- slices -----------------------------------------------------------------------------------------------------------------------------

START = datetime(2024, 1, 1)  # noqa: DTZ001 - a wall clock
VALUES = {
    "int": lambda n: n,
    "negative": lambda n: n - 2**62,
    "text": lambda n: f"user-{n:06}",
    "accents": lambda n: f"é{chr(0xE0 + n % 30)}{n:04}",
    "bytes": lambda n: n.to_bytes(4, "big"),
    "date": lambda n: date(2000, 1, 1) + timedelta(days=n),
    "time": lambda n: START + timedelta(microseconds=n),
    "decimal": lambda n: Decimal(n) / 4,
    "float": lambda n: n / 8,
    "truth": lambda n: n % 2 == 1,
}


@pytest.mark.long
@pytest.mark.parametrize("kind", VALUES)
@FEW
@given(drawn=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 3000), st.integers(0, 900)), min_size=1, max_size=8), limit=st.integers(1, 2000))
def test_slices_hold_every_key_once(kind, drawn, limit):
    value = VALUES[kind]
    bounds = [sorted((value(low), value(low + width))) for low, width, _ in drawn]
    low, high = pl.DataFrame({"k": [one[0] for one in bounds]}), pl.DataFrame({"k": [one[1] for one in bounds]})
    found = sorted_runs.split_key_ranges(low, high, np.array([one[2] for one in drawn]), limit)
    keys = pl.concat([low, high, pl.DataFrame({"k": [value(n) for n in range(0, 8000, 97)]}, schema=low.schema)])
    held = sum(keys.select((pl.lit(True) if part.expr() is None else part.expr()).cast(pl.Int32).alias("n"))["n"] for part in found)
    assert (held == 1).all() if isinstance(held, pl.Series) and len(held) == keys.height else len(found) == 1
    assert found[0].min_key is None
    assert found[-1].end_key is None


def test_slices_are_about_as_big_as_asked():
    bounds = pl.DataFrame({"k": [0, 0]}), pl.DataFrame({"k": [999_999, 499_999]})
    found = sorted_runs.split_key_ranges(*bounds, np.array([1_000_000, 500_000]), 250_000)
    keys = pl.concat([pl.DataFrame({"k": np.arange(1_000_000)}), pl.DataFrame({"k": np.arange(500_000)})])
    assert len(found) == 6
    assert all(keys.filter(part.expr()).height <= 251_000 for part in found)


def test_slices_run_along_the_first_column_that_varies():
    low, high = pl.DataFrame({"day": [7, 7], "id": [0, 50]}), pl.DataFrame({"day": [7, 7], "id": [99, 60]})
    found = sorted_runs.split_key_ranges(low, high, np.array([100, 10]), 60)
    assert {part.column for part in found} == {"id"}
    assert len(found) == 2
    assert str(found[0].expr()) == str(pl.col("id") < found[0].end_key)
