"""Queries of SQL by a seeded generator, over four small tables, and DuckDB's answer to each.

Every table has the columns of `TYPES`: an append table, a key table of several runs, a partitioned one, one with deletion vectors. `shared=True` draws what
DuckDB and Spark understand alike.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

    import lakekit as lk

TYPES = {"k": "INT", "g": "STRING", "v": "INT", "x": "DOUBLE", "d": "DATE", "m": "DECIMAL(9, 2)", "f": "BOOLEAN", "ts": "TIMESTAMP(6)", "n": "BIGINT"}
TABLES = ("orders", "items", "days", "marked")
_DTYPES: dict[str, Any] = dict(
    zip(TYPES, (pl.Int32, pl.String, pl.Int32, pl.Float64, pl.Date, pl.Decimal(9, 2), pl.Boolean, pl.Datetime("us"), pl.Int64), strict=True)
)
_DAY = date(2024, 1, 1)


def _rows(rng: Random, count: int, first: int) -> pl.DataFrame:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    rows = [
        (
            first + at,
            maybe(rng.choice(("a", "b", "c", "Ä", ""))),
            maybe(rng.randint(-3, 9)),
            maybe(rng.randint(-40, 40) / 4),
            _DAY + timedelta(days=rng.randint(0, 9)),
            maybe(Decimal(rng.randint(-2000, 9000)).scaleb(-2)),
            maybe(rng.random() < 0.5),
            maybe(datetime(2024, 1, 1) + timedelta(minutes=rng.randint(0, 9000))),  # noqa: DTZ001 - a time without a zone
            maybe(rng.choice((rng.randint(-5, 5), 2**40, -(2**62)))),
        )
        for at in range(count)
    ]
    return pl.DataFrame(rows, schema=_DTYPES, orient="row")


def filled(cat: lk.Catalog, seed: int, count: int = 24) -> dict[str, pl.DataFrame]:
    """Create `shop.orders`, `items`, `days` and `marked` in a catalog, and return the rows that each has."""
    rng = Random(seed)
    cat.create_database("shop")
    truth: dict[str, pl.DataFrame] = {}
    rows = _rows(rng, count, 0)
    orders = cat.create_table("shop.orders", TYPES)
    for part in rows.iter_slices(count // 3):
        orders.append(part)
    truth["orders"] = rows

    items = cat.create_table("shop.items", TYPES, primary_keys=["k"], options={"bucket": "2"})
    runs = [_rows(rng, count // 2, first) for first in (0, count // 4, count // 8)]
    for run in runs:
        items.upsert(run)
    items.delete("k = 3")
    whole = pl.concat(runs).unique("k", keep="last", maintain_order=True)
    truth["items"] = whole.filter(pl.col("k") != 3)

    rows = _rows(rng, count, 5)
    days = cat.create_table("shop.days", TYPES, partition_keys=["d"])
    days.append(rows)
    truth["days"] = rows

    rows = _rows(rng, count, 2)
    marked = cat.create_table("shop.marked", TYPES, options={"deletion-vectors.enabled": "true"})
    marked.append(rows.head(count // 2))
    marked.append(rows.tail(count - count // 2))
    marked.delete(pl.col("k") % 5 == 0)
    truth["marked"] = rows.filter(pl.col("k") % 5 != 0)
    return truth


_NUMBERS = ("k", "v", "x", "m")
_LITERALS: dict[str, tuple[str, ...]] = {
    "k": ("1", "7", "12"),
    "v": ("0", "3", "-1"),
    "x": ("0.5", "-2.25", "3"),
    "m": ("10.50", "0", "-3"),
    "g": ("'a'", "'c'", "''", "'Ä'"),
}
_LITERALS |= {"d": ("DATE '2024-01-03'", "DATE '2024-01-07'"), "f": ("TRUE", "FALSE"), "ts": ("TIMESTAMP '2024-01-03 00:00:00'",), "n": ("0", "1099511627776")}
_FRAMES = ("", "", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING")
_FRAMES += (" RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",)
_JOINS = ("JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "FULL OUTER JOIN", "CROSS JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


class Queries:
    """Draws queries by one seed."""

    def __init__(self, seed: int, *, shared: bool = False) -> None:
        self.rng = Random(seed)
        self.shared = shared

    def query(self) -> str:
        """Return a query; one with LIMIT orders its rows by all of its columns."""
        rng = self.rng
        twice = (self._plain, self._joined, self._grouped, self._windowed, self._with, self._correlated)
        once = (self._set, self._nested, self._derived, self._recursive, self._peculiar, self._sets_of_groups)
        drawn = rng.choice((*twice, *twice, *once))
        return drawn()

    def table(self) -> str:
        """Return the name of a table."""
        return f"shop.{self.rng.choice(TABLES)}"

    def where(self, alias: str, depth: int = 2) -> str:
        """Return a condition on the columns of one alias."""
        rng = self.rng
        if depth and rng.random() < 0.45:
            made = f" {rng.choice(('AND', 'OR'))} ".join(self.where(alias, depth - 1) for _ in range(2))
            return f"({made})" if rng.random() < 0.6 else f"NOT ({made})"
        c = rng.choice(tuple(_LITERALS))
        name = f"{alias}.{c}"
        roll = rng.random()
        if roll < 0.15:
            return f"{name} IS {rng.choice(('', 'NOT '))}NULL"
        if roll < 0.3:
            return f"{name} IN ({', '.join(rng.choices((*_LITERALS[c], 'NULL'), k=2))})"
        if roll < 0.4 and c != "f":
            return f"{name} BETWEEN {_LITERALS[c][0]} AND {_LITERALS[c][-1]}"
        if roll < 0.5:
            return f"{name} {rng.choice(('IS DISTINCT FROM', 'IS NOT DISTINCT FROM'))} {rng.choice(_LITERALS[c])}"
        return f"{name} {rng.choice(('=', '<>', '<', '<=', '>', '>='))} {rng.choice(_LITERALS[c])}"

    def _value(self, alias: str) -> str:
        rng = self.rng
        a, b = (f"{alias}.{rng.choice(_NUMBERS)}" for _ in range(2))
        choices = [
            f"{alias}.{rng.choice(tuple(TYPES))}",
            f"{a} + {b}",
            f"{a} * 2 - 1",
            f"CASE WHEN {self.where(alias, 1)} THEN {a} ELSE {a} END",
            f"COALESCE({alias}.g, 'none')",
            f"upper({alias}.g) || '!'",
            f"abs({a})",
            f"CAST({alias}.k AS VARCHAR(20))" if not self.shared else f"CAST({alias}.k AS STRING)",
            f"year({alias}.d)",
            f"NULLIF({alias}.v, 3)",
            f"length({alias}.g)",
            f"-{a}",
            f"{alias}.x / 2",
        ]
        if not self.shared:
            choices += [f"date_trunc('week', {alias}.d)", f"{alias}.d + INTERVAL 1 DAY", f"extract(day FROM {alias}.d)"]
            choices += [f"round({alias}.m, 1)", f"{alias}.k % 4"]
        return rng.choice(choices)

    def _aggregate(self, alias: str) -> str:
        rng = self.rng
        c = f"{alias}.{rng.choice(_NUMBERS)}"
        any_column = f"{alias}.{rng.choice(tuple(TYPES))}"
        made = rng.choice(
            (
                f"sum({c})",
                f"avg({alias}.{rng.choice(('k', 'v', 'x'))})",
                f"min({any_column})",
                f"max({any_column})",
                f"count({any_column})",
                f"count(DISTINCT {any_column})",
                f"sum(DISTINCT {alias}.v)",
                "count(*)",
                f"sum(CASE WHEN {self.where(alias, 0)} THEN 1 ELSE 0 END)",
            )
        )
        if rng.random() < 0.15:
            made += f" FILTER (WHERE {self.where(alias, 1)})"
        return made

    def _columns(self, aliases: Sequence[str], count: int = 3) -> str:
        return ", ".join(f"{self._value(self.rng.choice(aliases))} AS c{at}" for at in range(count))

    def _ordered(self, text: str, columns: int) -> str:
        """Return the query with an order of all of its columns, and a limit, now and then."""
        rng = self.rng
        if rng.random() < 0.5:
            return text
        ways = [f"{at + 1} {rng.choice(('ASC', 'DESC'))} NULLS {rng.choice(('FIRST', 'LAST'))}" for at in range(columns)]
        made = f"{text} ORDER BY {', '.join(ways)}"
        if rng.random() < 0.6:
            made += f" LIMIT {rng.choice((0, 1, 5, 100))}" + (f" OFFSET {rng.choice((1, 3))}" if rng.random() < 0.3 else "")
        return made

    def _maybe_where(self, alias: str) -> str:
        return f" WHERE {self.where(alias)}" if self.rng.random() < 0.7 else ""

    def _plain(self) -> str:
        rng = self.rng
        if rng.random() < 0.15:
            return f"SELECT * FROM {self.table()} AS t{self._maybe_where('t')}"
        distinct = "DISTINCT " if rng.random() < 0.3 else ""
        return self._ordered(f"SELECT {distinct}{self._columns(['t'])} FROM {self.table()} AS t{self._maybe_where('t')}", 3)

    def _on(self, left: str, right: str) -> str:
        rng = self.rng
        c = rng.choice(("k", "v", "g", "d"))
        made = f"{left}.{c} = {right}.{c}"
        if rng.random() < 0.3:
            made += f" AND {rng.choice((left + '.v < ' + right + '.v', self.where(right, 0), self.where(left, 0)))}"
        return made

    def _from(self) -> tuple[str, list[str]]:
        rng = self.rng
        made, aliases = f"{self.table()} AS a", ["a"]
        for name in ("b", "c")[: rng.choice((1, 1, 2))]:
            way = rng.choice(_JOINS)
            if not self.shared:
                way = way.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
            source = self.table() if rng.random() < 0.8 else f"(SELECT * FROM {self.table()} AS u WHERE {self.where('u')})"
            made += f" {way} {source} AS {name}"
            if way != "CROSS JOIN":
                made += f" ON {self._on(rng.choice(aliases), name)}"
            if "SEMI" not in way and "ANTI" not in way:
                aliases.append(name)
        return made, aliases

    def _joined(self) -> str:
        rng = self.rng
        if rng.random() < 0.1:
            return f"SELECT k, a.v AS c1, b.g AS c2 FROM {self.table()} AS a {rng.choice(('JOIN', 'LEFT JOIN', 'FULL JOIN'))} {self.table()} AS b USING (k)"
        source, aliases = self._from()
        if rng.random() < 0.4:
            alias = rng.choice(aliases)
            return self._ordered(f"SELECT {alias}.g AS c0, {self._aggregate(rng.choice(aliases))} AS c1 FROM {source} GROUP BY {alias}.g", 2)
        return self._ordered(f"SELECT {self._columns(aliases)} FROM {source}{self._maybe_where(rng.choice(aliases))}", 3)

    def _grouped(self) -> str:
        rng = self.rng
        keys = rng.sample(("g", "f", "v", "d"), rng.choice((0, 1, 1, 2)))
        shown = [f"t.{key}" for key in keys] + [f"{self._aggregate('t')} AS s{at}" for at in range(2)]
        made = f"SELECT {', '.join(shown)} FROM {self.table()} AS t{self._maybe_where('t')}"
        if keys:
            made += f" GROUP BY {', '.join(f't.{key}' for key in keys)}"
            if rng.random() < 0.3:
                made += f" HAVING {rng.choice(('count(*) > 1', 'sum(t.v) > 3', 'min(t.x) < 0', 'max(t.g) IS NOT NULL'))}"
        return self._ordered(made, len(shown))

    def _sets_of_groups(self) -> str:
        way = self.rng.choice(("GROUPING SETS ((t.g, t.f), (t.g), ())", "ROLLUP (t.g, t.f)", "CUBE (t.g, t.f)"))
        where = "" if self.shared else self._maybe_where("t")  # of no rows at all Spark makes no total
        return self._ordered(f"SELECT t.g, t.f, {self._aggregate('t')} AS s FROM {self.table()} AS t{where} GROUP BY {way}", 3)

    def _window(self, alias: str) -> str:
        rng = self.rng
        c = f"{alias}.{rng.choice(_NUMBERS)}"
        order = f"ORDER BY {alias}.d {rng.choice(('ASC', 'DESC'))} NULLS LAST, {alias}.k, {alias}.ts NULLS FIRST"
        part = f"PARTITION BY {alias}.{rng.choice(('g', 'f'))} " if rng.random() < 0.7 else ""
        kind = rng.random()
        if kind < 0.4:
            call = rng.choice(("row_number()", "rank()", "dense_rank()", "ntile(3)", f"lag({c})", f"lead({c}, 2)", f"first_value({c})", f"last_value({c})"))
            return f"{call} OVER ({part}{order})"
        frame = rng.choice(_FRAMES)
        order = order if frame or kind < 0.8 else ""
        names = ("sum", "min", "max", "count") if self.shared and c.endswith(".m") else ("sum", "min", "max", "count", "avg")  # Spark's average is a decimal
        return f"{rng.choice(names)}({c}) OVER ({part}{order}{frame})"

    def _windowed(self) -> str:
        rng = self.rng
        made = f"SELECT t.k, {self._window('t')} AS w0, {self._window('t')} AS w1 FROM {self.table()} AS t{self._maybe_where('t')}"
        if not self.shared and rng.random() < 0.3:
            return made + f" QUALIFY row_number() OVER (PARTITION BY t.g ORDER BY t.k) <= {rng.choice((1, 2))}"
        return self._ordered(made, 3)

    def _set(self) -> str:
        rng = self.rng
        cores = [f"SELECT t.g AS c0, t.{rng.choice(('v', 'k'))} AS c1 FROM {self.table()} AS t{self._maybe_where('t')}" for _ in range(rng.choice((2, 2, 3)))]
        made = cores[0]
        for core in cores[1:]:
            way = rng.choice(("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
            made = f"{made} {way} {core}" if rng.random() < 0.7 else f"({made}) {way} ({core})"
        return f"SELECT c0, c1 FROM ({made}) AS u" if rng.random() < 0.5 else self._ordered(made, 2)

    def _nested(self) -> str:
        rng = self.rng
        way = rng.choice(("IN", "NOT IN", "EXISTS", "NOT EXISTS", "scalar"))
        if way == "scalar":
            test = f"t.v {rng.choice(('<', '>', '='))} (SELECT {rng.choice(('min', 'max', 'avg'))}(u.v) FROM {self.table()} AS u WHERE {self.where('u')})"
        elif "IN" in way:
            test = f"t.{(c := rng.choice(('k', 'g', 'v')))} {way} (SELECT u.{c} FROM {self.table()} AS u WHERE {self.where('u')})"
        else:
            test = f"{way} (SELECT 1 FROM {self.table()} AS u WHERE u.k = t.k AND {self.where('u')})"
        return self._ordered(f"SELECT {self._columns(['t'])} FROM {self.table()} AS t WHERE {test}", 3)

    def _with(self) -> str:
        rng = self.rng
        first = f"SELECT t.g, count(*) AS n, sum(t.v) AS s FROM {self.table()} AS t{self._maybe_where('t')} GROUP BY t.g"
        second = f"SELECT t.k, t.g, t.x FROM {self.table()} AS t{self._maybe_where('t')}"
        join = rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        last = f"SELECT named.k, named.x, sums.n, sums.s FROM named {join} sums ON named.g = sums.g"
        return self._ordered(f"WITH sums AS ({first}), named AS ({second}) {last}", 4)

    def _correlated(self) -> str:
        rng = self.rng
        c = rng.choice(("g", "d", "k"))
        inner = f"(SELECT {rng.choice(('max(u.v)', 'count(*)', 'sum(u.k)', 'min(u.m)'))} FROM {self.table()} AS u WHERE u.{c} = t.{c})"
        return self._ordered(f"SELECT t.k, {inner} AS c1 FROM {self.table()} AS t{self._maybe_where('t')}", 2)

    def _derived(self) -> str:
        inner = f"SELECT t.g, t.k, {self._window('t')} AS w FROM {self.table()} AS t{self._maybe_where('t')}"
        return self._ordered(f"SELECT q.g, count(*) AS c1, max(q.w) AS c2 FROM ({inner}) AS q GROUP BY q.g", 3)

    def _recursive(self) -> str:
        rng = self.rng
        if self.shared:
            return self._with()
        steps = f"SELECT 1 AS i, 1 AS p UNION ALL SELECT i + 1, p * 2 FROM steps WHERE i < {rng.choice((3, 8))}"
        last = f"SELECT steps.i, steps.p, t.g FROM steps LEFT JOIN {self.table()} AS t ON t.k = steps.i"
        return self._ordered(f"WITH RECURSIVE steps(i, p) AS ({steps}) {last}", 3)

    def _peculiar(self) -> str:
        """Return what DuckDB has and Spark has not, or has under other words."""
        rng = self.rng
        if self.shared:
            return self._grouped()
        t, u = self.table(), self.table()
        return rng.choice(
            (
                f"SELECT a.k, b.v FROM {t} AS a ASOF JOIN (SELECT DISTINCT ON (ts) ts, v FROM {u} WHERE ts IS NOT NULL ORDER BY ts, k) AS b ON a.ts >= b.ts",
                f"PIVOT (SELECT g, f, v FROM {t}) ON f IN (TRUE, FALSE) USING sum(v) GROUP BY g",
                f"SELECT t.k, s.e FROM {t} AS t, UNNEST([t.k, t.v]) AS s(e)",
                f"SELECT t.k, l.n FROM {t} AS t, LATERAL (SELECT count(*) AS n FROM {u} AS u WHERE u.g = t.g) AS l",
                f"SELECT g, list_sort(list(k)) AS ks FROM {t} GROUP BY g",
                f"SELECT g, arg_max(k, k) AS c1, bool_or(f) AS c2, string_agg(g, ',' ORDER BY k) AS c3 FROM {t} GROUP BY ALL",
                f"SELECT * EXCLUDE (ts, n) FROM {t} WHERE {self.where(t.split('.')[1], 1)}",
                f"SELECT DISTINCT ON (g) g, k FROM {t} ORDER BY g, k, v",
                f"FROM {t} SELECT g, sum(v) AS s GROUP BY g",
                f"SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS w(k, name) JOIN {t} AS t USING (k)",
                f"SELECT g, median(v) AS c1, stddev_samp(x) AS c2, quantile_cont(x, 0.25) AS c3 FROM {t} GROUP BY g",
                f"SELECT {{'a': k, 'b': g}}.b AS c0, [k, v][1] AS c1, CAST(m AS DOUBLE) AS c2 FROM {t}",
                f"(SELECT k, g FROM {t} ORDER BY k, g LIMIT 3) UNION ALL BY NAME (SELECT g, k FROM {u} ORDER BY k, g LIMIT 2)",
            )
        )


def queries(seed: int, *, shared: bool = False) -> Iterator[str]:
    """Yield queries without end."""
    drawn = Queries(seed, shared=shared)
    while True:
        yield drawn.query()


class QueryOracle:
    """DuckDB over Arrow tables of the same rows."""

    def __init__(self, truth: dict[str, pl.DataFrame]) -> None:
        import duckdb

        self.con: duckdb.DuckDBPyConnection = duckdb.connect(config={"threads": 1})
        self.con.execute("SET TimeZone = 'UTC'")
        self.con.execute("CREATE SCHEMA shop")
        for name, frame in truth.items():
            arrow = frame.to_arrow()  # noqa: F841 - read by name
            self.con.execute(f"CREATE TABLE shop.{name} AS SELECT * FROM arrow")

    def answer(self, text: str) -> tuple[list[str], list[tuple[Any, ...]]] | Exception:
        """Return the names and rows of a query, or the error that DuckDB raises."""
        import duckdb

        try:
            found = self.con.execute(text)
            return [one[0] for one in found.description or []], found.fetchall()
        except duckdb.Error as wrong:
            return wrong


def comparable(rows: Sequence[Sequence[Any]], *, ordered: bool) -> list[tuple[Any, ...]]:
    """Return rows whose equality is what the law means: floats to nine digits, days without a time as days, sorted where the query gives no order."""
    made = [tuple(_plain(value) for value in row) for row in rows]
    return made if ordered else sorted(made, key=repr)


def _plain(value: Any) -> Any:
    match value:
        case bool() | None:
            return value
        case int():
            return value
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(f"{value:.9g}")
        case float():
            if math.isnan(value):
                return "NaN"
            return int(value) if value.is_integer() and abs(value) < 1e15 else float(f"{value:.9g}")
        case datetime() if (value.hour, value.minute, value.second, value.microsecond) == (0, 0, 0, 0):
            return value.date()
        case list() | tuple():
            return tuple(_plain(one) for one in value)
        case dict():
            return tuple((key, _plain(one)) for key, one in value.items())
        case pl.Series():
            return tuple(_plain(one) for one in value)
        case _:
            return value


def is_ordered(text: str) -> bool:
    """Whether the query says the order of all of its rows."""
    return " NULLS " in text.rsplit(")", 1)[-1] and " ORDER BY 1 " in text
