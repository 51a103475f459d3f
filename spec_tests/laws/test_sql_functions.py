"""Each operator and function of the table is DuckDB's, value by value over drawn rows: NULLs, bounds, NaN, far days, other texts."""

from __future__ import annotations

import pytest

from lakekit.expressions import functions
from spec_tests.sql_functions import CALLS, FORMS, differences, drawn, oracle

TEXTS = [*(text for texts in CALLS.values() for text in texts), *FORMS]
SEEDS = [pytest.param(seed, marks=[] if seed == 1 else [pytest.mark.long]) for seed in range(1, 6)]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_function_is_that_of_duckdb(seed):
    rows = drawn(seed)
    connection = oracle(rows)
    assert {text: found[:3] for text in TEXTS if (found := differences(rows, connection, text))} == {}


def test_no_line_of_the_table_is_without_a_text():
    names = {name for function in functions.all_functions() for name in function.names}
    assert names == set(CALLS)
    others = ["locate", "nvl", "now", "to_date", "array_size", "cardinality", "size", "map_keys", "map_values"]
    assert [name for name, texts in CALLS.items() if not texts] == others


def test_each_line_says_what_is_special():
    lines = functions.all_functions()
    assert len({function.names for function in lines}) == len(lines)
    assert all(function.arguments or function.names == ("now",) for function in lines)
    assert all(function.result for function in lines)
