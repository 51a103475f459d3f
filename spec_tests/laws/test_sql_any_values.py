"""Whatever values a function, an operator or a form is given, it is computed, in the type that was said, or refused: no error is Polars' or Python's own."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING

import polars as pl
import pytest

from lakekit.errors import LakekitError
from lakekit.expressions import functions
from lakekit.expressions.parser import SqlText, parse_text
from lakekit.expressions.scope import Scope, TableScope
from lakekit.expressions.translation import Translation
from lakekit.expressions.typed_expression import failure_of
from spec_tests.sql_functions import MAP, PARTS, UNITS, drawn

if TYPE_CHECKING:
    from collections.abc import Iterator

LITERALS = ("NULL", "1", "-1", "0", "1.5", "1e3", "'a'", "''", "'day'", "'2024-02-29'", "'12:30'", "TRUE", "DATE '2024-02-29'", "TIME '12:30:00'", "X'00'")
LITERALS += ("TIMESTAMP '2024-02-29 12:00:00'", "INTERVAL 1 DAY", "INTERVAL 1 MONTH", "NULL::INT", "NULL::VARCHAR", "NULL::DATE", "NULL::BOOLEAN", "(ts - tm)")
LITERALS += (
    "(a + 1)",
    "(d * d)",
    "s || u",
    "(a > 1)",
    "9" * 38,
    "'NaN'::DOUBLE",
    "CAST('2024-01-01' AS TIMESTAMPTZ)",
    "l[1]",
    "r.a",
    "m['a']",
    "'日'",
    "'%'",
    "'['",
)
LITERALS += (
    "9223372036854775808",
    "-9223372036854775808",
    "0.0000000001",
    "'\\'",
    "300",
    "1000001",
    "current_date",
    "now()",
    "$$x$$",
    "(CASE WHEN o THEN a END)",
)
OPERATORS = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "&",
    "|",
    "<<",
    ">>",
    "^",
    "**",
    "^@",
    "~",
    "||",
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
    "SIMILAR TO",
]
PATTERNS = ("{} IS NULL", "{} IN ({}, {})", "{} BETWEEN {} AND {}", "{} LIKE {}", "{} ILIKE {} ESCAPE {}", "CASE WHEN {} THEN {} ELSE {} END", "{} = ANY({})")
PATTERNS += ("CASE {} WHEN {} THEN {} END", "{} IN {}", "({}, {}) = ({}, {})", "({}, {}) IN (({}, {}))", "extract({part} FROM {})", "trim({}, {})", "{}[{}]")
PATTERNS += (
    "NOT {}",
    "-{}",
    "~{}",
    "CAST({} AS {type})",
    "TRY_CAST({} AS {type})",
    "{} AND {}",
    "{} OR {}",
    "{} IS TRUE",
    "COALESCE({}, {}, {})",
    "{}::{type}::{type}",
)
PATTERNS += ("date_trunc('{part}', {})", "date_diff('{part}', {}, {})", "date_sub('{part}', {}, {})", "if({}, {}, {})", "round({}, {})", "greatest({}, {}, {})")
PATTERNS += tuple(f"{{}} {sign} {{}}" for sign in OPERATORS)
TYPES = [
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "HUGEINT",
    "FLOAT",
    "DOUBLE",
    "VARCHAR",
    "BLOB",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(9)",
    "TIMESTAMPTZ",
    "BOOLEAN",
]
TYPES += ["DECIMAL(5, 2)", "DECIMAL(38, 10)", "DECIMAL(18, 18)"]
NAMES = sorted({name for function in functions.all_functions() for name in function.names if name.isidentifier()})


def texts(seed: int) -> Iterator[str]:
    """Yield functions and forms over columns and literals of any type, without end."""
    rng = Random(seed)
    values = (*drawn(1, 1).columns, "m", *LITERALS)
    parts = (*PARTS, *UNITS, "epoch", "dow", "doy")
    while True:
        if rng.random() < 0.4:
            name = rng.choice(NAMES)
            yield f"{name}({', '.join(rng.choice(values) for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 2, 3, 3, 4))))})"
        else:
            choices = {"": values, "part": parts, "type": TYPES}
            yield re.sub(r"\{(\w*)\}", lambda hole: rng.choice(choices[hole[1]]), rng.choice(PATTERNS))  # noqa: B023 - used at once


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 22))])
def test_any_value_is_computed_or_refused(seed: int) -> None:
    rows = drawn(seed, 12).with_columns(pl.Series("m", [[{"key": "a", "value": 1}]] * 12, dtype=MAP))
    scope = Scope(sides=(TableScope(names=("drawn",), columns=dict(rows.schema)),))
    wrong: dict[str, str] = {}
    computed = 0
    drawn_texts = texts(seed)
    for _ in range(1500):
        text = next(drawn_texts)
        source = SqlText(text, "text")
        try:
            typed = Translation(source, scope).run(parse_text(source))
            values = rows.lazy().select(typed.expr.alias("v")).collect()["v"]
            assert values.dtype == typed.dtype, (values.dtype, typed.dtype)
            assert len(values) in (1, rows.height)
            computed += 1
        except LakekitError:
            continue
        except BaseException as problem:  # noqa: BLE001 - a panic of Polars is none of Exception
            if failure_of(str(problem)) is None:
                wrong[text] = f"{type(problem).__name__}: {str(problem)[:160]}"
    assert wrong == {}
    assert computed > 100


@pytest.mark.parametrize(
    "text", ["now(1)", "-NULL::INT IS NULL", "extract(epoch FROM s) = 1", "- (NULL::DECIMAL(5, 2)) = 1", "a = c = b", "a < b < c", "m[s] = 1"]
)
def test_what_was_found_stays_mended(text: str) -> None:
    source = SqlText(text, "text")
    scope = Scope(sides=(TableScope(names=("drawn",), columns={**drawn(1, 1).schema, "m": MAP}),))
    try:
        Translation(source, scope).run(parse_text(source))
    except LakekitError as refusal:
        assert "^" in str(refusal).splitlines()[-1]


@pytest.mark.parametrize("step", ["{} % 2", "{} // 2", "round({}, -1)", "greatest({}, 1)", "substr({}::VARCHAR, 2, 3)", "upper({}::VARCHAR)", "{}::DOUBLE % 2"])
def test_what_grows_at_each_step_is_refused_before_it_takes_the_memory(step: str) -> None:
    text, constant = "a", "7"
    for _ in range(14):
        text, constant = step.format(f"({text})"), step.format(f"({constant})")
    scope = Scope(sides=(TableScope(names=("drawn",), columns=dict(drawn(1, 1).schema)),))
    source = SqlText(text, "text")
    with pytest.raises(LakekitError, match="too many functions are nested"):
        Translation(source, scope).run(parse_text(source))
    assert Translation(SqlText(constant, "text"), scope).run(parse_text(SqlText(constant, "text"))).is_constant
