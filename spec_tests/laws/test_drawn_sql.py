"""Drawn SQL is what its generators promise: DuckDB takes it, its conditions tell rows apart, and the judge of answers sees each difference."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING

import polars as pl

import lakekit as lk
from spec_tests.condition_doors import DOORS, Verdicts, table_and_oracle
from spec_tests.condition_oracle import Answer, ConditionOracle
from spec_tests.drawn_conditions import TYPES, Draw, conditions, drawn_rows
from spec_tests.drawn_queries import QueryOracle, comparable, filled, is_ordered, queries
from spec_tests.query_doors import QueryVerdicts

if TYPE_CHECKING:
    from pathlib import Path


def test_duckdb_takes_almost_every_condition_and_it_tells_rows_apart() -> None:
    oracle = ConditionOracle(drawn_rows(1, 40))
    kinds: Counter[str] = Counter()
    for draw in islice(conditions(1), 600):
        answer = oracle.answer(draw)
        kinds["refused" if answer is None else "raised" if answer.ids is None else "some" if 0 < len(answer.ids) < 40 else "all or none"] += 1
    assert kinds["refused"] < 18
    assert kinds["some"] > 300


def test_rows_have_every_scalar_type_and_the_values_that_break_things() -> None:
    rows = drawn_rows(1, 200)
    assert set(rows.columns) == set(TYPES)
    assert all(rows[name].null_count() for name in TYPES if name != "id")
    assert rows["f64"].is_nan().any()
    assert "-0.0" in {str(value) for value in rows["f64"]}
    assert rows["i64"].min() == -(2**63)
    assert rows["id"].n_unique() == 200


def test_wide_integers_say_what_is_right_where_an_integer_would_not_fit() -> None:
    oracle = ConditionOracle(drawn_rows(1, 40))
    answer = oracle.answer(Draw("i8 + i8 > 0", "i8::HUGEINT + i8::HUGEINT > 0"))
    assert answer is not None
    assert answer.ids is None
    assert "Overflow" in answer.problem
    assert answer.wide


def test_rows_of_whole_microseconds_are_judged_where_a_far_day_meets_nanoseconds() -> None:
    rows = drawn_rows(1, 40)
    answer = ConditionOracle(rows).answer(Draw("t9 < t3", "t9 < t3"))
    assert answer is not None
    assert answer.ids is None
    assert answer.judged == frozenset(rows.filter(pl.col("t9").is_null() | (pl.col("t9").to_physical() % 1000 == 0))["id"])
    right = frozenset(rows.filter(pl.col("t9").cast(pl.Datetime("us")) < pl.col("t3").cast(pl.Datetime("us")))["id"])
    assert answer.wide
    assert answer.wide == right & answer.judged
    assert answer.is_equal(right)
    assert not answer.is_equal(right - {min(answer.wide)})


def test_a_moment_of_nanoseconds_stays_one_where_integers_are_wide() -> None:
    draws = [draw for draw in islice(conditions(4), 600) if "t9" in draw.text]
    assert len(draws) > 30
    assert [draw for draw in draws if draw.wide.count("t9::") > draw.text.count("t9::")] == []


def test_duckdb_answers_as_written_where_its_rewriting_differs() -> None:
    rows = drawn_rows(1, 40).with_columns(dt=pl.date(2024, 12, 31))
    oracle = ConditionOracle(rows)
    text = "date_trunc('millisecond', dt) >= TIMESTAMP '2024-12-31 23:59:59.123'"
    draw = Draw(text, text)
    assert oracle.agrees_as_written(draw, frozenset())
    assert not oracle.agrees_as_written(draw, frozenset(rows["id"]))
    assert oracle.agrees_as_written(Draw("dt > du", "dt > du"), oracle.matching_ids("dt > du"))


def test_a_written_table_holds_the_drawn_rows_at_every_door(tmp_path: Path) -> None:
    for kind in ("append", "key"):
        table, _ = table_and_oracle(tmp_path / kind, kind, 2)
        right = frozenset(row["id"] for row in table.rows.iter_rows(named=True) if row["i32"] is not None and row["i32"] > 0)
        for name, door in DOORS.items():
            assert door(table, "i32 > 0") == right, (kind, name)


def test_the_judge_of_conditions_sees_a_row_too_many_and_a_foreign_error() -> None:
    verdicts = Verdicts()
    right = Answer(frozenset({1, 2}))
    verdicts.count(Draw("a", "a"), right, frozenset({1, 2}))
    verdicts.count(Draw("b", "b"), right, frozenset({1, 2, 3}))
    verdicts.count(Draw("c", "c"), right, KeyError("x"))
    verdicts.count(Draw("d", "d"), right, lk.errors.SqlError("no", key="sql"))
    verdicts.count(Draw("e", "e"), Answer(None, "overflow", frozenset({1})), frozenset())
    assert (verdicts.equal, sum(verdicts.refused.values())) == (1, 1)
    assert [text for text, _ in verdicts.different] == ["b", "c", "e"]


def test_duckdb_takes_every_query_and_most_have_rows(tmp_path: Path) -> None:
    cat = lk.connect(tmp_path)
    truth = filled(cat, 3)
    for name, rows in truth.items():
        assert cat.table(f"shop.{name}").scan().collect().sort("k").equals(rows.sort("k")), name
    oracle = QueryOracle(truth)
    for shared in (False, True):
        texts = [text.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI") for text in islice(queries(3, shared=shared), 200)]
        answers = [(text, oracle.answer(text)) for text in texts]
        assert [(text, answer) for text, answer in answers if isinstance(answer, Exception)] == []
        assert sum(bool(answer[1]) for _, answer in answers if not isinstance(answer, Exception)) > 140


def test_the_judge_of_queries_sees_values_orders_and_names() -> None:
    verdicts = QueryVerdicts()
    ordered, free = "SELECT k FROM t ORDER BY 1 ASC NULLS FIRST", "SELECT k FROM t"
    assert is_ordered(ordered)
    assert not is_ordered(free)
    verdicts.count(free, (["k"], [(1,), (2,)]), (["k"], [(2,), (1,)]))
    verdicts.count(ordered, (["k"], [(1,), (2,)]), (["k"], [(2,), (1,)]))
    verdicts.count(free, (["k"], [(1,)]), (["K"], [(Decimal("1.00"),)]))
    verdicts.count(free, (["k"], [(1,)]), (["k"], [(1,), (1,)]))
    assert (verdicts.equal, len(verdicts.different), len(verdicts.renamed)) == (2, 2, 1)
    assert comparable([(True,)], ordered=False) == [(True,)]
