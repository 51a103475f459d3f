"""A drawn condition finds at every door the rows that DuckDB finds, or is refused by name; few are.

`LAKEKIT_SQL_DRAWS` is how many conditions each door gets over each kind of table, `LAKEKIT_SQL_SEED` where the draws begin.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import polars as pl
import pytest

from lakekit.errors import LakekitError, SchemaMismatch, SqlError, ValueOutOfRange
from lakekit.read.user_expressions import parse_condition
from spec_tests.condition_doors import DOORS, OPTIONS, judged, table_and_oracle
from spec_tests.drawn_calls import CALLS, CASTS, TESTS
from spec_tests.drawn_conditions import Conditions, Draw, conditions, drawn_rows

if TYPE_CHECKING:
    from pathlib import Path

DRAWS = int(os.environ.get("LAKEKIT_SQL_DRAWS", "15"))
SEED = int(os.environ.get("LAKEKIT_SQL_SEED", "1"))
REFUSED = 0.02
"""The share of draws that may be refused by name."""


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("door", DOORS)
def test_a_condition_finds_the_rows_that_duckdb_finds(tmp_path: Path, door: str, kind: str) -> None:
    table, oracle = table_and_oracle(tmp_path, kind, SEED)
    verdicts = judged(conditions(f"{SEED} {door} {kind}"), oracle, table, door, DRAWS)
    assert verdicts.different == []
    assert sum(verdicts.refused.values()) <= max(DRAWS * REFUSED, 2), verdicts.refused


@pytest.mark.parametrize("text", ["i32 = '5'", "'1.5' < f64", "d92 IN ('1', '2')", "dt = 5", "t3 > 0", "tm < 1", "dt = 'no day'", "s = 5"])
def test_a_number_meets_no_text_and_a_day_no_number(tmp_path: Path, text: str) -> None:
    table, _ = table_and_oracle(tmp_path, "append", SEED, rows=6)
    with pytest.raises(LakekitError):
        table.catalog().table("db.t").delete(text)


@pytest.mark.parametrize("text", ["i32 % (i32 - i32) = 1", "i16 // (i8 - i8) > 0", "d92 % (d92b - d92b) = 1", "mod(i64, 0) = 0", "1 % 0 = 1"])
def test_a_rest_of_a_division_by_zero_is_an_error_as_in_a_query(tmp_path: Path, text: str) -> None:
    table, oracle = table_and_oracle(tmp_path, "append", SEED)
    answer = oracle.answer(Draw(text, text))
    assert answer is not None
    assert "ivision by zero" in answer.problem
    with pytest.raises(LakekitError, match=r"a division by zero; write nullif\(divisor, 0\) for NULL"):
        table.catalog().table("db.t").delete(text)
    with pytest.raises(LakekitError, match="ivision by zero"):
        table.catalog().sql(f"SELECT id FROM db.t WHERE {text}").lazy().collect()


@pytest.mark.parametrize(
    "text",
    [
        "i16 <> 0 AND j32 % i16 = 1",
        "i16 = 0 OR j32 % i16 = 1",
        "CASE WHEN i16 <> 0 THEN j32 // i16 > 0 ELSE b END",
        "if(i16 = 0, b, j32 % i16 = 0)",
        "COALESCE(b, j32 % nullif(i16, 0) = 0)",
        "regexp_matches(num, '^[0-9]{1,4}$') AND CAST(num AS INT) > 1",
        "NOT regexp_matches(num, '^-?[0-9]{1,4}$') OR num::SMALLINT < 2",
        "CASE WHEN num ~ '^[0-9]{4}-' THEN CAST(num AS DATE) = DATE '2024-01-31' END",
        "b AND i16 <> 0 AND (j32 % i16 = 1 OR s IS NULL) AND 7 % i16 IS NOT NULL",
    ],
)
@pytest.mark.parametrize("door", ["delete", "aggregate", "sql delete", "sql select"])
def test_what_is_asked_before_keeps_a_part_from_failing(tmp_path: Path, door: str, text: str) -> None:
    table, oracle = table_and_oracle(tmp_path, "append", SEED, rows=80)
    assert DOORS[door](table, text) == oracle.matching_ids(text)


@pytest.mark.parametrize(
    "text", ["m[s] = 1", "CAST(z3 AS TIME) = '12:30:00'", "i32 < ANY (l)", "i32 = ALL ([1])", "(i8, i16) IN ((1, 2, 3))", "(i8, s) = (1, 2)"]
)
def test_what_is_not_computed_is_refused_by_name(tmp_path: Path, text: str) -> None:
    table, _ = table_and_oracle(tmp_path, "append", SEED, rows=6)
    with pytest.raises((SqlError, SchemaMismatch), match=r"(?s)line 1, column \d+: .*\^"):
        table.catalog().table("db.t").delete(text)


@pytest.mark.parametrize("kind", [*CALLS, "tests"])
def test_a_pattern_over_one_row_or_none_says_what_it_says_over_many(kind: str) -> None:
    """A file may hold one row: Polars takes a column of one value for a constant, and some functions refuse a NULL as one."""
    rows, drawn = drawn_rows(SEED, 40), Conditions(f"{SEED} {kind}")
    nulls = rows.head(2).select(pl.lit(None, dtype=dtype).alias(name) for name, dtype in rows.schema.items())
    parts = [*rows.iter_slices(1), nulls, nulls.head(1), nulls.head(0)]
    for pattern in TESTS if kind == "tests" else (*CALLS[kind], *CASTS[kind]):
        filled = drawn.filled(pattern, 0).text
        try:
            condition = parse_condition(filled if kind == "tests" else f"({filled}) IS NOT NULL", rows.schema, "t", "where")
            right = rows.filter(condition)["id"].to_list()
        except (LakekitError, pl.exceptions.PolarsError):
            continue  # refused by name, or a row of all does not fit
        assert [key for part in parts for key in part.filter(condition)["id"] if key is not None] == right, filled


@pytest.mark.parametrize("door", ["aggregate", "delete"])
@pytest.mark.parametrize(
    "text",
    [
        "(t3 - t6 + INTERVAL 1 DAY) > INTERVAL 5 DAY",
        "(t3 - t6 - INTERVAL '2' HOUR) > INTERVAL 5 DAY - INTERVAL 90 MINUTE",
        "(INTERVAL 2 WEEK + (t0 - dt)) <> INTERVAL 14 DAY",
        "t3 + (INTERVAL 1 MONTH - INTERVAL 1 DAY + INTERVAL 2 SECOND) < t6",
        "z3 - z6 - INTERVAL 1 DAY < INTERVAL 0 DAY",
        "INTERVAL 1 DAY + INTERVAL 24 HOUR = INTERVAL 2 DAY AND tm + (INTERVAL 1 HOUR + INTERVAL 1 DAY) > tm",
    ],
)
def test_intervals_are_added_to_each_other_and_to_what_lies_between_two_times(tmp_path: Path, door: str, text: str) -> None:
    table, oracle = table_and_oracle(tmp_path, "append", SEED)
    assert DOORS[door](table, text) == oracle.matching_ids(text)


@pytest.mark.parametrize("door", ["aggregate", "delete", "update", "sql delete", "merge"])
@pytest.mark.parametrize(
    "text",
    [
        "dt - 9223372036854775809 = du",
        "substr(s, 9223372036854775809) = 'a'",
        "left(s, -9223372036854775809) = 'a'",
        "substr(s, CASE WHEN TRUE THEN 9223372036854775809 END) = 'a'",
        "dt + (CASE WHEN TRUE THEN 9223372036854775809 ELSE 1 END) = du",
    ],
)
def test_a_number_beyond_64_bits_is_out_of_range_where_one_of_64_is_wanted(tmp_path: Path, door: str, text: str) -> None:
    table, _ = table_and_oracle(tmp_path, "append", SEED, rows=6)
    with pytest.raises(ValueOutOfRange, match="9223372036854775809 does not fit the type"):
        DOORS[door](table, text)


@pytest.mark.parametrize("text", ["(t3 - t6 + INTERVAL 1 MONTH) > INTERVAL 5 DAY", "t3 < t6 + (INTERVAL 9999 YEAR + INTERVAL 9999 YEAR)"])
def test_an_interval_without_a_length_of_its_own_is_refused_by_name(tmp_path: Path, text: str) -> None:
    table, _ = table_and_oracle(tmp_path, "append", SEED, rows=6)
    with pytest.raises(SchemaMismatch, match=r"INTERVAL"):
        table.catalog().table("db.t").delete(text)


@pytest.mark.parametrize("text", ["d253 * 123456789012345678.5 > 1", "CAST(i64 AS TINYINT) = 1", "CAST(f64 AS BIGINT) = 1", "CAST(num AS INT) = 1"])
def test_a_number_beyond_its_type_is_out_of_range(tmp_path: Path, text: str) -> None:
    table, _ = table_and_oracle(tmp_path, "append", SEED)
    with pytest.raises(ValueOutOfRange, match=r"does not fit the type|more than 38 digits"):
        table.catalog().table("db.t").delete(text)
