"""The funnel's title says the filter as a person would, and says nothing it did not understand."""

from __future__ import annotations

from datetime import date, datetime

import polars as pl
import pytest

import lakekit as lk
from lakekit.predicate import FALSE, TRUE, And, Leaf, Or, words
from lakekit.types import Instant


@pytest.fixture(scope="module")
def flights(fixtures_path):
    return lk.open(str(fixtures_path / "flights" / "table"))


@pytest.mark.parametrize(
    ("expr", "title"),
    [
        ((pl.col("day") == date(2013, 2, 8)) & (pl.col("carrier") == "9E"), '(day = 2013-02-08) & (carrier = "9E")'),
        (pl.col("flight") >= 3314, "flight >= 3314"),
        ((pl.col("flight") < 5) | pl.col("carrier").is_null(), "(flight < 5) | (carrier is null)"),
        (pl.col("flight").is_in(range(9)), "flight in (0, 1, 2, 3, 4, … 4 more)"),
        (pl.col("sched_dep") > datetime(2013, 2, 8, 5, 0, 0, 7000), "sched_dep > 2013-02-08 05:00:00.007000"),  # noqa: DTZ001
        (pl.col("flight") % 2 == 0, '[([(col("flight")) % (2)]) == (0)]'),
        (pl.lit(value=True), "true"),
    ],
    ids=str,
)
def test_the_title_says_the_filter(flights, expr, title):
    assert flights.explain(expr).condition == title


def test_words_of_a_predicate():
    assert words(TRUE) == "true"
    assert words(FALSE) == "false"
    assert words(Leaf("b", "=", (b"\x01",))) == "b = x'01'"
    assert words(Leaf("b", "=", (True,))) == "b = true"
    assert words(Leaf("s", "starts with", ('a"b',))) == 's starts with "a\\"b"'
    assert words(And((Or((Leaf("a", "is null"), Leaf("b", "<", (Instant(0, 0),)))), Leaf("c", ">", (1.5,))))) == (
        "((a is null) | (b < 1970-01-01 00:00:00)) & (c > 1.5)"
    )
