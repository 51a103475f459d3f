"""Drawn expressions at every door give what they give of a plain frame of the same rows: selectors, places, patterns, arithmetic, texts, times, parts.

Rows and columns are drawn by a seed, so that a failure is seen again by its number.
"""

from __future__ import annotations

import operator
from datetime import date, timedelta
from random import Random
from threading import Lock
from typing import TYPE_CHECKING

import polars as pl
import polars.selectors as cs
import pytest

import lakekit as lk
from spec_tests.longer import some

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore::polars.exceptions.PolarsInefficientMapWarning")

TYPES = {
    "INT": pl.Int32,
    "BIGINT": pl.Int64,
    "DOUBLE": pl.Float64,
    "STRING": pl.String,
    "DATE": pl.Date,
    "BOOLEAN": pl.Boolean,
    "ARRAY<INT>": pl.List(pl.Int32),
}
TYPES |= {"ROW<x INT, y STRING>": pl.Struct({"x": pl.Int32, "y": pl.String})}
NAMES = ["a", "b", "ab", "v", "w1", "w2", "_file", "_level", "len", "row", "_lakekit_row", "_row", "s.t", "n m", "É"]
OPTIONS = {
    "append": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "partitioned": {},
    "key": {"bucket": "1"},
    "partial-update": {"bucket": "2", "merge-engine": "partial-update"},
    "sequence": {"bucket": "1", "deletion-vectors.enabled": "true"},
}
KEYED = ("key", "partial-update", "sequence")
COMPARE = (operator.gt, operator.lt, operator.ge, operator.le, operator.eq, operator.ne)


def drawn_value(rng: Random, name: str) -> object:
    if rng.random() < 0.15:
        return None
    match name:
        case "INT" | "BIGINT":
            return rng.choice([-3, 0, 1, 2, 5, 7, 100])
        case "DOUBLE":
            return rng.choice([-1.5, 0.0, 2.25, 1e9])
        case "STRING":
            return rng.choice(["", "a", "ab", "b7", "É"])
        case "DATE":
            return date(2024, 1, 1) + timedelta(days=rng.randint(0, 60))
        case "BOOLEAN":
            return rng.random() < 0.5
        case "ARRAY<INT>":
            return [rng.randint(0, 4) for _ in range(rng.randint(0, 3))]
    return {"x": rng.randint(0, 3), "y": rng.choice(["p", "q"])}


def drawn_table(rng: Random, folder: str, kind: str) -> tuple[lk.Table, dict[str, str]]:
    names = rng.sample(NAMES, rng.randint(2, 6))
    types = {name: rng.choice(list(TYPES)) for name in names}
    columns = [("k", "INT"), *types.items(), ("g", "INT")]
    rng.shuffle(columns)
    schema = dict(columns)
    rows = [{name: k if name == "k" else k % 3 if name == "g" else drawn_value(rng, t) for name, t in schema.items()} for k in range(rng.randint(4, 12))]
    keys = {"primary_keys": ["k"]} if kind in KEYED else {"partition_keys": ["g"]} if kind == "partitioned" else {}
    t = lk.create(folder, schema, options=OPTIONS[kind], **keys)
    frame = pl.DataFrame(rows, schema={name: TYPES[one] for name, one in schema.items()})
    for part in (frame[: len(frame) // 2], frame[len(frame) // 2 :], *([frame[1:3]] if kind in KEYED else [])):
        t.upsert(part) if kind in KEYED else t.append(part)
    return t, schema


def number(rng: Random, schema: dict[str, str], depth: int = 0) -> pl.Expr:
    """A number of each row."""
    whole = [name for name, t in schema.items() if t in ("INT", "BIGINT")]
    texts = [name for name, t in schema.items() if t == "STRING"]
    count = len(schema)
    integers = cs.integer()
    ways = [
        lambda: pl.col(rng.choice(whole)),
        lambda: pl.nth(list(schema).index(rng.choice(whole))),
        lambda: pl.nth(list(schema).index(rng.choice(whole)) - count),
        lambda: pl.exclude(*(name for name in schema if name != whole[0])),
        lambda: cs.by_name(rng.choice(whole)),
        lambda: pl.col(f"^{whole[-1]}$"),
        lambda: pl.sum_horizontal(integers),
        lambda: pl.max_horizontal(cs.numeric()).cast(pl.Int64, strict=False),
        lambda: pl.min_horizontal(integers),
        lambda: pl.coalesce(integers),
        lambda: pl.fold(pl.lit(0), lambda one, other: one + other, integers),
        lambda: pl.struct(pl.all()).struct.field(rng.choice(whole)),
        lambda: pl.concat_list(integers).list.len().cast(pl.Int32),
        lambda: pl.concat_list(integers).list.get(0),
        pl.concat_list(integers).list.last,
        lambda: cs.first().is_null().cast(pl.Int32) + cs.last().is_null().cast(pl.Int32),
        lambda: pl.sum_horizontal(pl.all().is_null()),
    ]
    if texts:
        ways += [
            lambda: pl.concat_str(cs.string(), ignore_nulls=True).str.len_chars().cast(pl.Int32),
            lambda: pl.col(rng.choice(texts)).str.len_bytes().cast(pl.Int32),
        ]
    if "DATE" in schema.values():
        ways += [lambda: pl.min_horizontal(cs.date()).dt.day().cast(pl.Int32), lambda: pl.max_horizontal(cs.temporal()).dt.month() + 1]
    if "ARRAY<INT>" in schema.values():
        lists = [name for name, t in schema.items() if t == "ARRAY<INT>"]
        ways += [pl.col(rng.choice(lists)).list.sum, pl.nth(list(schema).index(lists[0])).list.eval(pl.element() + 1).list.max]
    if any(t.startswith("ROW") for t in schema.values()):
        structs = [name for name, t in schema.items() if t.startswith("ROW")]
        ways += [lambda: pl.col(rng.choice(structs)).struct.field("x"), lambda: pl.nth(list(schema).index(structs[0])).struct.field("^x$")]
    if depth < 2:
        ways += [lambda: number(rng, schema, depth + 1) + rng.randint(-3, 3), lambda: number(rng, schema, depth + 1) * 2 - number(rng, schema, depth + 1)]
        ways += [lambda: -number(rng, schema, depth + 1), lambda: number(rng, schema, depth + 1) % 3, lambda: number(rng, schema, depth + 1).abs()]
        ways += [lambda: pl.when(condition(rng, schema, depth + 1)).then(number(rng, schema, depth + 1)).otherwise(number(rng, schema, depth + 1))]
    made = rng.choice(ways)()
    return made.as_expr() if isinstance(made, cs.Selector) else made


def condition(rng: Random, schema: dict[str, str], depth: int = 0) -> pl.Expr:
    """A truth of each row."""
    ways = [lambda: rng.choice(COMPARE)(number(rng, schema, depth + 1), rng.randint(-2, 7))] * 4
    ways += [
        lambda: pl.any_horizontal(cs.integer() == rng.randint(0, 7)),
        lambda: pl.all_horizontal(cs.numeric() >= 0),
        lambda: pl.any_horizontal(pl.all().is_null()),
        lambda: number(rng, schema, depth + 1).is_in([0, 1, 2, 5]),
        lambda: number(rng, schema, depth + 1).is_between(0, 5),
        lambda: cs.first().is_null() | cs.last().is_null(),
        lambda: pl.col("k") > pl.col("k").mean(),
        lambda: pl.concat_str(cs.exclude(cs.nested()), ignore_nulls=True).str.contains("a|1"),
        lambda: called(rng, rng.choice(("k", "g"))),
    ]
    if depth < 2:
        ways += [lambda: condition(rng, schema, depth + 1) & condition(rng, schema, depth + 1)] * 2
        ways += [lambda: condition(rng, schema, depth + 1) | condition(rng, schema, depth + 1), lambda: ~condition(rng, schema, depth + 1)]
        ways += [lambda: pl.when(condition(rng, schema, depth + 1)).then(condition(rng, schema, depth + 1)).otherwise(rng.random() < 0.5)]
    return rng.choice(ways)()


def called(rng: Random, name: str) -> pl.Expr:
    """A truth of each row that Python's functions make, or that Polars makes of parts: nothing is known of it without the column."""
    column, limit, lock = pl.col(name), rng.randint(0, 4), Lock()
    ways = [
        lambda: column.map_elements(lambda value: value >= limit and not lock.locked(), return_dtype=pl.Boolean),  # which does not pickle
        lambda: column.map_batches(lambda values: values >= (0 if lock.locked() else limit), return_dtype=pl.Boolean, is_elementwise=True),
        lambda: pl.concat_list(column, column).list.filter(pl.element() > limit).list.len() > 0,
        lambda: column.map_batches(lambda values: values >= limit, return_dtype=pl.Boolean, is_elementwise=True),
        lambda: column.map_batches(lambda values: values >= (values.mean() or 0), return_dtype=pl.Boolean),
        lambda: column.map_elements(lambda value: value % 2 == limit % 2, return_dtype=pl.Boolean),
        lambda: pl.concat_list(column, column).list.eval(pl.element() + 1).list.sum() > 2 * limit,
        lambda: pl.struct(column.alias("x")).struct.with_fields(pl.field("x") + 1).struct.field("x") > limit,
    ]
    return rng.choice(ways)()


def row_wise(expr: pl.Expr, frame: pl.DataFrame) -> bool:
    try:
        one_by_one = [frame[at : at + 1].select(expr.alias("")).to_series() for at in range(len(frame))]
    except pl.exceptions.PolarsError:  # a branch of when/then that no row took
        return False
    return pl.concat(one_by_one).equals(frame.select(expr.alias("")).to_series(), null_equal=True)


def look(t: lk.Table) -> pl.DataFrame:
    return t.scan().collect().sort("k")


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("seed", some(range(200), 25))
def test_drawn_expressions_mean_the_columns_of_the_table(tmp_path, kind, seed):
    rng = Random(f"{kind} {seed}")
    t, schema = drawn_table(rng, str(tmp_path / "t"), kind)
    asked = 0
    while asked < 4:
        frame = look(t)
        where = condition(rng, schema)
        try:
            found = frame.filter(where)
        except pl.exceptions.PolarsError:
            continue
        asked += 1
        assert t.scan().filter(where).collect().sort("k").equals(found, null_equal=True), where
        assert t.aggregate(pl.len().alias("n"), pl.col("k").sum(), where=where).rows() == found.select(pl.len(), pl.col("k").sum()).rows(), where
        assert t.explain(where).files_read <= t.explain().files_read
        changed(rng, t, schema, frame, where)
        merged(rng, t, schema)
        if kind != "partial-update" and rng.random() < 0.5:
            frame = look(t)
            t.delete(where)
            assert look(t)["k"].to_list() == sorted(set(frame["k"]) - set(frame.filter(where)["k"])), where


def done(change: Callable[[], object]) -> bool:
    """Whether a change was made. Folds, which look at more rows for Polars, and functions that do not pickle are refused by name."""
    try:
        change()
    except lk.SchemaMismatch as refused:
        assert "looks at more than one row" in str(refused) or "function of Python that does not pickle" in str(refused), refused
        return False
    return True


def changed(rng: Random, t: lk.Table, schema: dict[str, str], frame: pl.DataFrame, where: pl.Expr) -> None:
    """An update of a number column, where there is one that is no key."""
    free = [name for name, one in schema.items() if one == "BIGINT"]
    value = number(rng, schema)
    if not free or not len(frame):
        return
    value = pl.coalesce(value.cast(pl.Int64), pl.lit(-9))
    try:
        new = frame.with_columns(pl.when(where).then(value).otherwise(pl.col(free[0])).alias(free[0]))
    except pl.exceptions.PolarsError:
        return
    if not row_wise(value, frame):
        return
    if done(lambda: t.update({free[0]: value}, where=where)):
        assert look(t).equals(new, null_equal=True), (where, value)


def merged(rng: Random, t: lk.Table, schema: dict[str, str]) -> None:
    """A merge whose clauses name columns of the table by selectors, and those of the source by name."""
    frame, free = look(t), [name for name, one in schema.items() if one == "BIGINT"]
    if not free or not len(frame):
        return
    source = pl.DataFrame({"k": rng.sample(list(frame["k"]), min(3, len(frame))), "q": [1, 2, 3][: min(3, len(frame))]}, schema={"k": pl.Int32, "q": pl.Int64})
    value, where = number(rng, schema), condition(rng, schema)
    joined = frame.join(source, on="k", how="left", maintain_order="left")
    try:
        own = frame.select(value.cast(pl.Int64).alias("x"), where.fill_null(False).alias("y")).with_columns(q=joined["q"], old=frame[free[0]])
    except pl.exceptions.PolarsError:
        return
    if len(own) != len(frame) or not row_wise(value, frame) or not row_wise(where, frame):
        return
    new = own.select(pl.when(pl.col("q").is_not_null() & pl.col("y")).then(pl.coalesce(pl.col("x") + pl.col("q"), pl.lit(-9))).otherwise("old").alias(free[0]))
    made = pl.coalesce(value.cast(pl.Int64) + lk.source("q"), pl.lit(-9))
    if done(lambda: t.merge(source, lk.when_matched(update={free[0]: made}, where=where), on=["k"])):
        assert look(t).equals(frame.with_columns(new[free[0]]), null_equal=True), (where, value)
