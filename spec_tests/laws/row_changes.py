"""Tables, conditions and statements drawn for the laws of row-level change, and what they come to, told by plain Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import strategies as st

import lakekit as lk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Row = dict[str, Any]
COLUMNS = {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "BIGINT", "s": "STRING"}
KEY = ("p", "k")
BUCKETS, VECTORS = {"bucket": "2", "bucket-key": "k"}, {"deletion-vectors.enabled": "true"}
TABLES: dict[str, dict[str, Any]] = {
    "key": {"primary_keys": KEY, "options": {"bucket": "2"}},
    "key partitioned dynamic": {"primary_keys": KEY, "partition_keys": ["p"]},
    "key vectors": {"primary_keys": KEY, "options": {"bucket": "1", **VECTORS}},
    "key lookup": {"primary_keys": KEY, "partition_keys": ["p"], "options": {"bucket": "1", "changelog-producer": "lookup"}},
    "partial": {"primary_keys": KEY, "options": {"bucket": "1", "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}},
    "append": {},
    "append partitioned avro": {"partition_keys": ["p"], "options": {"file.format": "avro"}},
    "append buckets": {"options": BUCKETS},
    "vectors": {"options": VECTORS},
    "vectors partitioned": {"partition_keys": ["p"], "options": {**VECTORS, "deletion-vectors.bitmap64": "true", "file.format": "orc"}},
    "vectors buckets": {"partition_keys": ["p"], "options": BUCKETS | VECTORS},
}


def made(path: object, name: str) -> lk.Table:
    return lk.create(str(path), COLUMNS, **TABLES[name])


# ---- conditions: SQL, an expression, and Python with three values ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Condition:
    """`names` makes SQL of a column, `columns` an expression of it."""

    sql: Callable[[str], str]
    expr: Callable[[Callable[[str], pl.Expr]], pl.Expr]
    holds: Callable[[Row], bool | None]


COMPARED = {"=": lambda a, b: a == b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b, ">=": lambda a, b: a >= b}


def compared(name: str, sign: str, value: Any) -> Condition:
    told = f"'{value}'" if isinstance(value, str) else value
    return Condition(
        sql=lambda side: f"{side}{name} {sign} {told}",
        expr=lambda column: COMPARED[sign](column(name), pl.lit(value)),
        holds=lambda row: None if row[name] is None else COMPARED[sign](row[name], value),
    )


def null(name: str) -> Condition:
    return Condition(sql=lambda side: f"{side}{name} IS NULL", expr=lambda column: column(name).is_null(), holds=lambda row: row[name] is None)


def both(a: Condition, b: Condition) -> Condition:
    def holds(row: Row) -> bool | None:
        left, right = a.holds(row), b.holds(row)
        return False if False in (left, right) else None if None in (left, right) else True

    return Condition(sql=lambda side: f"({a.sql(side)}) AND ({b.sql(side)})", expr=lambda column: a.expr(column) & b.expr(column), holds=holds)


def opposite(a: Condition) -> Condition:
    return Condition(
        sql=lambda side: f"NOT ({a.sql(side)})", expr=lambda column: ~a.expr(column), holds=lambda row: None if (held := a.holds(row)) is None else not held
    )


def either(a: Condition, b: Condition) -> Condition:
    return opposite(both(opposite(a), opposite(b)))


NUMBERS, TEXTS = st.integers(0, 5), st.sampled_from(["a", "b", "c"])
ATOMS = st.one_of(
    st.builds(compared, st.sampled_from(["p", "k", "v"]), st.sampled_from(list(COMPARED)), NUMBERS),
    st.builds(compared, st.just("s"), st.sampled_from(list(COMPARED)), TEXTS),
    st.builds(null, st.sampled_from(["v", "s"])),
)
COMBINED = st.recursive(ATOMS, lambda inner: st.builds(both, inner, inner) | st.builds(either, inner, inner) | st.builds(opposite, inner), max_leaves=4)
CONDITIONS = st.one_of(ATOMS, COMBINED)
ROWS = st.fixed_dictionaries({"p": st.integers(0, 2), "k": NUMBERS, "v": st.none() | NUMBERS, "s": st.none() | TEXTS})


# ---- statements ------------------------------------------------------------------------------------------------------------------------------------------


class Oracle:
    """The rows of a table: a list, or one of each key."""

    def __init__(self, name: str) -> None:
        self.is_keyed, self.is_partial = "primary_keys" in TABLES[name], name == "partial"
        self.rows: list[Row] = []

    def add(self, rows: list[Row]) -> None:
        for row in rows:
            old = next((one for one in self.rows if self.is_keyed and all(one[name] == row[name] for name in KEY)), None)
            if old is None:
                self.rows.append(dict(row))
            else:
                old.update({name: value for name, value in row.items() if value is not None or not self.is_partial})

    def change(self, old: Row, values: Mapping[str, Any]) -> Row:
        return {**old, **{name: value for name, value in values.items() if value is not None or not self.is_partial}}

    def sorted(self) -> list[tuple[Any, ...]]:
        return sorted((tuple(row[name] for name in COLUMNS) for row in self.rows), key=repr)


def rows_of(table: lk.Table) -> list[tuple[Any, ...]]:
    return sorted(table.scan().collect().rows(), key=repr)


@dataclass(frozen=True)
class Value:
    """A new value of `v`: a number added to it, or put in its place; `from_source` adds the source's, or puts it."""

    adds: bool
    number: int | None
    from_source: bool = False

    def of(self, row: Row, source: Row | None = None) -> int | None:
        given = source["v"] if self.from_source and source is not None else self.number
        if not self.adds:
            return given
        return None if row["v"] is None or given is None else row["v"] + given

    def told(self) -> Any:
        if not self.adds:
            return lk.source("v") if self.from_source else self.number
        if self.from_source:
            return "t.v + s.v"
        return pl.col("v") + (pl.lit(None, pl.Int64) if self.number is None else self.number)


def values(*, from_source: bool) -> st.SearchStrategy[Value]:
    return st.builds(Value, st.booleans(), st.none() | NUMBERS, st.booleans() if from_source else st.just(value=False))


@dataclass(frozen=True)
class Clause:
    """`where` looks at the source's columns where `of_source`, else at the target's."""

    kind: str
    where: Condition | None
    value: Value | None
    of_source: bool

    def told(self, *, as_sql: bool) -> Any:
        where = None
        if self.where is not None:
            where = self.where.sql("s." if self.of_source else "t.") if as_sql else self.where.expr(lk.source if self.of_source else pl.col)
        if self.kind == "not matched":
            return lk.when_not_matched(insert="all" if self.value is None else {"p": "s.p", "k": lk.source("k"), "v": 7}, where=where)
        clause = lk.when_matched if self.kind == "matched" else lk.when_not_matched_by_source
        return clause(delete=True, where=where) if self.value is None else clause(update={"v": self.value.told()}, where=where)

    def holds(self, target: Row | None, source: Row | None) -> bool:
        row = source if self.of_source else target
        return self.where is None or (row is not None and self.where.holds(row) is True)


@st.composite
def clauses(draw: st.DrawFn) -> list[Clause]:
    found = []
    for kind in draw(st.lists(st.sampled_from(["matched", "not matched", "by source"]), min_size=1, max_size=4)):
        of_source = kind == "not matched" or (kind == "matched" and draw(st.booleans()))
        value = draw(st.none() | values(from_source=kind == "matched"))
        found.append(Clause(kind, draw(st.none() | CONDITIONS), value, of_source))
    return found


def merge(oracle: Oracle, source: list[Row], told: list[Clause], extra: Condition | None) -> bool:
    """Whether it was done: not where a row that a clause would change is matched twice."""

    def first(kind: str, target: Row | None, row: Row | None) -> Clause | None:
        return next((one for one in told if one.kind == kind and one.holds(target, row)), None)

    def matches(target: Row, row: Row) -> bool:
        return all(target[name] == row[name] for name in KEY) and (extra is None or extra.holds(target) is True)

    after, hit = [], set()
    for target in oracle.rows:
        own = [at for at, row in enumerate(source) if matches(target, row)]
        hit.update(own)
        if len(own) > 1 and any(one.kind == "matched" for one in told):
            return False
        row = source[own[0]] if own else None
        clause = first("matched", target, row) if own else first("by source", target, None)
        if clause is None:
            after.append(target)
        elif clause.value is not None:
            after.append(oracle.change(target, {"v": clause.value.of(target, row)}))
    oracle.rows = after
    for at, row in enumerate(source):
        if at not in hit and (clause := first("not matched", None, row)) is not None:
            oracle.add([row if clause.value is None else {**row, "v": 7, "s": None}])
    return True
