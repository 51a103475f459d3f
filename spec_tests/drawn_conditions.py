"""Conditions of SQL by a seeded generator, over a table with every scalar type.

A draw is two texts. `text` goes to lakekit and to DuckDB. Where DuckDB raises for it since an integer would not fit, or since a divisor is 0, the other,
`wide`, says what the right answer is if there is one: its integers are HUGEINT. lakekit may give that answer, or raise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl

from spec_tests.drawn_calls import CALLS, CASTS, HOLE, PARTS, TESTS, UNITS, WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TYPES = {
    "id": "BIGINT",
    "b": "BOOLEAN",
    "b2": "BOOLEAN",
    "i8": "TINYINT",
    "i16": "SMALLINT",
    "i32": "INT",
    "j32": "INT",
    "i64": "BIGINT",
    "f32": "FLOAT",
    "f64": "DOUBLE",
    "g64": "DOUBLE",
    "d92": "DECIMAL(9, 2)",
    "d92b": "DECIMAL(9, 2)",
    "d253": "DECIMAL(25, 3)",
    "s": "STRING",
    "s2": "STRING",
    "num": "STRING",
    "c3": "CHAR(3)",
    "vc": "VARCHAR(20)",
    "bin": "BYTES",
    "b4": "BINARY(4)",
    "dt": "DATE",
    "du": "DATE",
    "tm": "TIME(3)",
    "t0": "TIMESTAMP(0)",
    "t3": "TIMESTAMP(3)",
    "t6": "TIMESTAMP(6)",
    "t9": "TIMESTAMP(9)",
    "z3": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "z6": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "order id": "INT",
    "Größe": "STRING",
    "l": "ARRAY<INT>",
    "ls": "ARRAY<STRING>",
    "r": "ROW<a INT, q STRING>",
    "m": "MAP<STRING, INT>",
}
"""Every scalar type of Paimon by the name of its column, some twice, to be compared with each other; nested ones; names that are quoted."""

_TEXTS = ("", "a", "b", "ab", "A", "abc", "Ä", "äß", "日本", "🙂", "a b", " a ", "%", "_", "a%b", "a_b", "null", "it's", 'say "x"', "back\\slash", "tab\there")
_TEXTS += ("x" * 30,)
_NUMERALS = ("0", "1", "-1", "7", "42", "1.5", "2.5", "-2.5", "x", "", " 3 ", "1e3", "99999999999", "NaN", "true", "2024-01-31", "12:30:00")
_DATES = (date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(2024, 12, 31), date(2023, 1, 1), date(1, 1, 1), date(1582, 10, 4))
_DATES += (date(1900, 3, 1), date(9999, 12, 31))
_BYTES = (b"", b"\x00", b"a", b"ab", b"\xff", b"\x00\xff", b"\x7f\x80")
_BITS = {"i8": 7, "i16": 15, "i32": 31, "j32": 31, "i64": 63, "order id": 31}


def drawn_rows(seed: int, count: int) -> pl.DataFrame:
    """Return rows of `TYPES`: nulls, bounds, NaN, -0.0, empty and other texts, old and far dates. The ids' sums tell sets of rows apart."""
    rng = Random(seed)
    columns: dict[str, list[Any]] = {}
    for name in TYPES:
        values = [None if name != "id" and rng.random() < 0.15 else _value(name, rng) for _ in range(count)]
        columns[name] = values
    rows = pl.DataFrame({name: pl.Series(name, columns[name], dtype=_DTYPES[name], strict=True) for name in TYPES})
    nanos = pl.Series([rng.choice((0, 1, 499, 500, 789)) for _ in range(count)], dtype=pl.Int64)
    return rows.with_columns((pl.col("t9").to_physical() + nanos).cast(pl.Datetime("ns")))


_US = pl.Datetime("us")
_DTYPES: dict[str, Any] = {
    **dict.fromkeys(("b", "b2"), pl.Boolean),
    "id": pl.Int64,
    "i8": pl.Int8,
    "i16": pl.Int16,
    "i32": pl.Int32,
    "j32": pl.Int32,
    "i64": pl.Int64,
    "f32": pl.Float32,
    "f64": pl.Float64,
    "g64": pl.Float64,
    "d92": pl.Decimal(9, 2),
    "d92b": pl.Decimal(9, 2),
    "d253": pl.Decimal(25, 3),
    **dict.fromkeys(("s", "s2", "num", "c3", "vc"), pl.String),
    **dict.fromkeys(("bin", "b4"), pl.Binary),
    "dt": pl.Date,
    "du": pl.Date,
    "tm": pl.Time,
    "t0": pl.Datetime("ms"),
    "t3": pl.Datetime("ms"),
    "t6": _US,
    "t9": pl.Datetime("ns"),
    "z3": pl.Datetime("ms", "UTC"),
    "z6": pl.Datetime("us", "UTC"),
    "order id": pl.Int32,
    "Größe": pl.String,
    "l": pl.List(pl.Int32),
    "ls": pl.List(pl.String),
    "r": pl.Struct({"a": pl.Int32, "q": pl.String}),
    "m": pl.List(pl.Struct({"key": pl.String, "value": pl.Int32})),
}


def _value(name: str, rng: Random) -> Any:
    if name == "id":
        return rng.getrandbits(50)
    if name in ("b", "b2"):
        return rng.random() < 0.5
    if name in _BITS:
        bits = _BITS[name]
        return rng.choice((0, 1, -1, 2, 3, 5, 7, 10, -7, rng.randint(-100, 100), 2**bits - 1, -(2**bits)))
    if name in ("f32", "f64", "g64"):
        return rng.choice((0.0, -0.0, 1.0, -1.5, 2.5, 0.5, 3.0, float("nan"), float("inf"), float("-inf"), 1e30, -1e-10, rng.randint(-800, 800) / 8))
    if name in ("d92", "d92b"):
        return Decimal(rng.choice((0, 1, -1, 50, 150, 250, -250, 999999999, -999999999, 12345, rng.randint(-(10**4), 10**4)))).scaleb(-2)
    if name == "d253":
        return Decimal(rng.choice((0, 1, -1500, 2500, 10**24, -(10**25) + 1, rng.randint(-(10**6), 10**6)))).scaleb(-3)
    if name in ("s", "s2", "Größe"):
        return rng.choice(_TEXTS)
    if name in ("l", "ls", "r", "m"):
        return _nested(name, rng)
    if name == "num":
        return rng.choice(_NUMERALS)
    if name == "c3":
        return rng.choice(("abc", "xyz", "日本語", "a-b", "123"))
    if name == "vc":
        return rng.choice(_TEXTS[:-1])
    if name == "bin":
        return rng.choice(_BYTES)
    if name == "b4":
        return rng.choice((b"abcd", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\xff\x00\xff"))
    if name in ("dt", "du"):
        return rng.choice((*_DATES, date(2024, 1, 1) + timedelta(days=rng.randint(0, 400))))
    return _moment(name, rng)


def _nested(name: str, rng: Random) -> Any:
    number, text = (lambda: rng.choice((None, 0, 1, 2, -7))), (lambda: rng.choice((None, "", "a", "Ä")))
    match name:
        case "l":
            return [number() for _ in range(rng.randrange(4))]
        case "ls":
            return [text() for _ in range(rng.randrange(4))]
        case "r":
            return {"a": number(), "q": text()}
    return [{"key": key, "value": number()} for key in rng.sample(("k", "a", "", "Ä"), rng.randrange(4))]


def _moment(name: str, rng: Random) -> Any:
    if name == "tm":
        return rng.choice((time(0), time(23, 59, 59, 999000), time(12, 30), time(1, 2, 3, 4000)))
    days = (date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(2023, 12, 31), date(2262, 1, 1)) if name == "t9" else _DATES
    fraction = {"t0": 0, "t3": 123_000, "z3": 999_000}.get(name, 123_456)
    moment = rng.choice((time(0), time(12, 30), time(23, 59, 59, fraction), time(1, 2, 3, fraction)))
    zone = UTC if name in ("z3", "z6") else None
    return datetime.combine(rng.choice(days), moment, tzinfo=zone)


@dataclass(frozen=True, slots=True)
class Draw:
    """A condition, and the same with wide integers for DuckDB."""

    text: str
    wide: str

    def __add__(self, other: Draw | str) -> Draw:
        more = other if isinstance(other, Draw) else Draw(other, other)
        return Draw(self.text + more.text, self.wide + more.wide)

    def __radd__(self, other: str) -> Draw:
        return Draw(other + self.text, other + self.wide)


def _same(text: str) -> Draw:
    return Draw(text, text)


def _join(parts: list[Draw], between: str) -> Draw:
    made = parts[0]
    for part in parts[1:]:
        made = made + between + part
    return made


_COLUMNS = {
    "bool": ("b", "b2"),
    "int": ("i8", "i16", "i32", "j32", "i64"),
    "float": ("f32", "f64", "g64"),
    "dec": ("d92", "d92b", "d253"),
    "text": ("s", "s2", "vc", "c3", "num"),
    "bytes": ("bin", "b4"),
    "date": ("dt", "du"),
    "time": ("tm",),
    "ts": ("t0", "t3", "t6", "t9"),
    "ltz": ("z3", "z6"),
}
KINDS = tuple(_COLUMNS)
_COMPARE = ("=", "<>", "!=", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_CASTS = {
    "bool": "BOOLEAN",
    "int": "TINYINT SMALLINT INT BIGINT INTEGER",
    "float": "DOUBLE FLOAT REAL",
    "text": "VARCHAR STRING TEXT",
    "date": "DATE",
    "ts": "TIMESTAMP",
}
_PRECEDENCE = (
    "NOT i32 = 1 OR s IS DISTINCT FROM vc AND b",
    "NOT b = b2",
    "NOT b IS NULL",
    "NOT NOT b",
    "b AND NOT b2 IS NULL OR b2",
    "i32 = j32 IS NULL",
    "i32 < j32 IS NOT TRUE",
    "b = b2 IS TRUE",
    "b OR b2 AND i32 > 0 OR NOT b2",
    "-i16 < 3 AND - i16 + 2 * i8 > i8 - -1",
    "s || 'a' = vc || 'a' OR s || vc LIKE 'a%'",
    "i16 + 1 BETWEEN 0 AND 10 AND b",
    "NOT i16 BETWEEN 0 AND 10 OR b",
    "NOT s IN ('a', 'b') AND b",
    "NOT s LIKE 'a%' OR b2",
    "s IS NOT DISTINCT FROM vc AND NOT b OR b2 IS FALSE",
    "i8 - 2 - 1 = i8 - 3",
    "i16 % 7 * 2 > 3 + 1",
    "100 - i16 * 2 / 4 > 0",
    "i32 IN (1, 2, 3) = b",
    "(i16 > 1) = (j32 > 1)",
    "b::INT + 1 = 2",
    "-1 < i16 AND i16 < +10",
    "i16 > 0 AND i16 < 10 IS TRUE",
    "CASE WHEN b THEN i16 ELSE j32 END + 1 > 1 OR NOT b2",
    "dt + 1 > du - 1 AND NOT dt = du",
    "i32 IS NULL = b",
    "b IS NOT DISTINCT FROM NULL",
    "NULL IS NULL AND b",
    "b AND NULL OR b2",
    "(b, i32) = (TRUE, 1)",
    "(i8, i16) IN ((1, 2), (0, 0), (NULL, 1))",
    "i32 = ANY ([1, 2, 3])",
    "i16 & 3 = 1",
    "i16 | 1 > 2 AND b",
    "i32 IS DISTINCT FROM NULL",
    "(i16 > 1 AND b) IS NOT NULL",
)
"""Operators beside each other without brackets, as people write them."""


class Conditions:
    """Draws conditions, values and literals by one seed."""

    def __init__(self, seed: int | str) -> None:
        self.rng = Random(seed)

    def condition(self, depth: int = 3) -> Draw:
        """Return a condition: a tree of at most `depth` connectives over predicates, brackets left out now and then."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.25:
            return self.predicate()
        roll = rng.random()
        if roll < 0.55:
            parts = [self.condition(depth - 1) for _ in range(rng.choice((2, 2, 3)))]
            return _join([self._bracket(part, 0.4) for part in parts], rng.choice((" AND ", " OR ")))
        if roll < 0.7:
            return "NOT " + self._bracket(self.condition(depth - 1), 0.5)
        if roll < 0.78:
            test = rng.choice((" IS TRUE", " IS NOT TRUE", " IS FALSE", " IS NULL", " IS NOT NULL", " IS NOT FALSE"))
            return self._bracket(self.condition(depth - 1), 0.8) + test
        if roll < 0.8:
            mixed = rng.choice(_PRECEDENCE)
            return Draw(mixed, re.sub(r"\b([ij]\d+)\b", r"\1::HUGEINT", mixed))
        if roll < 0.84:
            return "(" + self.condition(depth - 1) + ") " + rng.choice(("=", "<>", "IS DISTINCT FROM")) + " (" + self.condition(depth - 1) + ")"
        if roll < 0.92:
            return self._case(self.predicate, self.predicate)
        return rng.choice(("COALESCE", "coalesce", "IFNULL")) + "(" + self.condition(depth - 1) + ", " + self.condition(depth - 1) + ")"

    def predicate(self) -> Draw:
        """Return a condition without connectives."""
        rng = self.rng
        if rng.random() < 0.2:
            return self.filled(rng.choice(TESTS))
        kind = rng.choices(KINDS, (6, 20, 12, 12, 24, 4, 10, 3, 8, 4))[0]
        roll = rng.random()
        if kind == "bool" and roll < 0.4:
            return _same(rng.choice((*_COLUMNS["bool"], "TRUE", "FALSE", "NULL::BOOLEAN", "CAST(NULL AS BOOLEAN)")))
        if roll < 0.08:
            return self.value(kind) + rng.choice((" IS NULL", " IS NOT NULL"))
        if roll < 0.22:
            return self._in(kind)
        if roll < 0.32:
            low, high = self.value(kind, 1), self.value(kind, 1)
            return self.value(kind) + rng.choice((" BETWEEN ", " NOT BETWEEN ")) + low + " AND " + high
        if kind == "text" and roll < 0.6:
            return self._text_predicate()
        return self._comparison(kind)

    def _comparison(self, kind: str) -> Draw:
        rng = self.rng
        left = self.value(kind)
        roll = rng.random()
        if roll < 0.1 and kind in ("int", "float", "dec"):
            right = self.value(rng.choice(("int", "float", "dec")), 1)
        elif roll < 0.17 and kind in ("date", "ts", "time", "ltz"):  # a number meets no text: that is refused
            right = self._text_of(kind)
        elif roll < 0.2 and kind in ("date", "ts", "ltz"):
            right = self.value(rng.choice(("date", "ts")), 1)
        elif roll < 0.23:
            right = _same("NULL")
        elif roll < 0.5:
            right = self.value(kind)
        else:
            right = self.literal(kind)
        if rng.random() < 0.15:
            left, right = right, left
        return left + f" {rng.choice(_COMPARE)} " + right

    def _in(self, kind: str) -> Draw:
        rng = self.rng
        members = [self.literal(kind) for _ in range(rng.randint(1, 4))]
        if rng.random() < 0.3:
            members.insert(rng.randrange(len(members) + 1), _same("NULL"))
        if rng.random() < 0.15:
            members.append(_same(rng.choice(_COLUMNS[kind])))
        return self.value(kind, 1) + rng.choice((" IN (", " NOT IN (")) + _join(members, ", ") + ")"

    def _text_predicate(self) -> Draw:
        rng = self.rng
        left = self.value("text", 1)
        roll = rng.random()
        if roll < 0.55:
            pattern = rng.choice(("a%", "%b", "%a%", "_", "__", "%", "", "a_b", "A%", "%'%", "日_", "%🙂", "%\\%", "%\t%", "a%c", "_b%"))
            escape = rng.random() < 0.1
            shown = "'" + (pattern.replace("_", "#_") if escape else pattern).replace("'", "''") + "'"
            return left + rng.choice((" LIKE ", " NOT LIKE ", " ILIKE ", " NOT ILIKE ")) + shown + (" ESCAPE '#'" if escape else "")
        if roll < 0.7:
            return _same(rng.choice(("starts_with", "ends_with", "contains", "prefix", "suffix"))) + "(" + left + ", " + self.literal("text") + ")"
        if roll < 0.8:
            return "regexp_matches(" + left + ", " + rng.choice(("'^a'", "'b$'", "'a.*b'", "'[0-9]+'", "'^$'", "'\\s'")) + ")"
        return left + f" {rng.choice(_COMPARE)} " + self.literal("text")

    def _case(self, when: Callable[[], Draw], then: Callable[[], Draw]) -> Draw:
        rng = self.rng
        if rng.random() < 0.25:
            kind = rng.choice(("int", "text", "date"))
            made = "CASE " + self.value(kind, 1)
            for _ in range(rng.randint(1, 2)):
                made = made + " WHEN " + self.literal(kind) + " THEN " + then()
        else:
            made = _same("CASE")
            for _ in range(rng.randint(1, 3)):
                made = made + " WHEN " + when() + " THEN " + then()
        return made + (" ELSE " + then() if rng.random() < 0.6 else _same("")) + " END"

    def value(self, kind: str, depth: int = 2) -> Draw:
        """Return a value of one kind: a column mostly, else a function, arithmetic, a cast or a CASE."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.5:
            return self._integer() if kind == "int" else self._moment() if kind == "ts" else _same(rng.choice(_COLUMNS[kind]))
        if rng.random() < 0.45:
            return self.filled(rng.choice(CALLS[kind] if rng.random() < 0.7 else CASTS[kind]), depth - 1)
        below = lambda: self.value(kind, depth - 1)  # noqa: E731 - one step down in this kind
        roll = rng.random()
        if roll < 0.1:
            return "CASE WHEN " + self.predicate() + " THEN " + below() + rng.choice((" ELSE ", " ELSE ")) + below() + " END"
        if roll < 0.2:
            return rng.choice(("COALESCE(", "coalesce(", "NULLIF(", "GREATEST(", "LEAST(")) + below() + ", " + self._plain(kind) + ")"
        if roll < 0.26:
            return "(" + below() + ")"
        if roll < 0.34 and kind in _CASTS:
            return self._cast(kind, depth)
        drawn = getattr(self, f"_of_{kind}", None)
        return drawn(depth - 1) if drawn is not None else below()

    def filled(self, pattern: str, depth: int = 1) -> Draw:
        """Return a pattern of `drawn_calls` with something drawn in each hole."""
        made, at = _same(""), 0
        for hole in HOLE.finditer(pattern):
            made = made + pattern[at : hole.start()] + self._in_hole(hole[1], hole[2] or "", depth)
            at = hole.end()
        return made + pattern[at:]

    def _in_hole(self, kind: str, form: str, depth: int) -> Draw:
        rng = self.rng
        words = {"unit": UNITS, "part": PARTS, "word": WORDS, "small": ("0", "1", "2", "3", "7", "-1", "-2")}
        if kind in words:
            return _same(rng.choice(words[kind]))
        if kind == "cond":
            return self._bracket(self.predicate(), 0.9) if depth > 0 else _same(rng.choice(("b", "b2", "(i32 > 0)", "(s = 'a')", "(dt IS NULL)")))
        if kind == "num":
            kind = rng.choice(("int", "float", "dec"))
        if form == "lit":
            return self.literal(kind)
        if form == "col" or depth <= 0:
            return self.value(kind, 0)
        return self._plain(kind) if rng.random() < 0.3 and kind not in ("ltz", "ts") else self._bracket(self.value(kind, depth), 0.3)

    def _plain(self, kind: str) -> Draw:
        return _same(self.rng.choice(_COLUMNS[kind])) if self.rng.random() < 0.5 else self.literal(kind)

    def _integer(self) -> Draw:
        name = self.rng.choice(_COLUMNS["int"])
        return Draw(name, f"{name}::HUGEINT")

    def _moment(self) -> Draw:
        return _same(self.rng.choice(_COLUMNS["ts"]))  # t9 stays in nanoseconds: in microseconds it is another moment

    def _cast(self, kind: str, depth: int) -> Draw:
        rng = self.rng
        sources = {
            "bool": ("int", "bool"),
            "int": ("int", "int", "dec", "float", "bool", "text"),
            "float": ("int", "dec", "float", "text"),
            "text": ("int", "date", "bool", "text", "dec", "ts"),
            "date": ("ts", "text", "date"),
            "ts": ("date", "text", "ts"),
        }
        source = rng.choice(sources[kind])
        target = rng.choice(_CASTS[kind].split(" "))
        inner = self.value(source, depth - 1)
        if rng.random() < 0.15 and source != "bool":
            return _same(rng.choice(_COLUMNS[source])) + "::" + target
        word = "TRY_CAST(" if source == "text" or (kind == "int" and rng.random() < 0.6) else "CAST("
        return word + inner + f" AS {target})"

    def _of_int(self, depth: int) -> Draw:
        rng = self.rng
        below = lambda: self.value("int", depth)  # noqa: E731 - an operand
        roll = rng.random()
        if roll < 0.4:
            right = self.literal("int") if rng.random() < 0.6 else self._integer()
            return self._bracket(below(), 0.3) + f" {rng.choice(('+', '-', '*'))} " + right
        if roll < 0.5:
            return below() + f" {rng.choice(('%', '//'))} " + str(rng.choice((2, 3, 7, -3)))
        if roll < 0.6:
            return rng.choice(("abs(", "ABS(", "sign(", "-(", "+(")) + below() + ")"
        if roll < 0.66:
            return "mod(" + below() + f", {rng.choice((2, 3, -5))})"
        if roll < 0.8:
            return _same(rng.choice(("length", "char_length", "LENGTH"))) + "(" + self.value("text", depth) + ")"
        if roll < 0.85:
            return _same(rng.choice(("strpos", "instr"))) + "(" + self.value("text", depth) + ", " + self.literal("text") + ")"
        part = rng.choice(("year", "month", "day", "quarter", "week", "dayofweek", "dayofyear", "hour", "minute"))
        moment = self.value(rng.choice(("ts", "date")) if part not in ("hour", "minute") else "ts", depth)
        if rng.random() < 0.5:
            return f"{part}(" + moment + ")"
        return "extract(" + {"dayofweek": "dow", "dayofyear": "doy"}.get(part, part) + " FROM " + moment + ")"

    def _of_float(self, depth: int) -> Draw:
        rng = self.rng
        below = lambda: self.value("float", depth)  # noqa: E731 - an operand
        roll = rng.random()
        if roll < 0.4:
            return self._bracket(below(), 0.3) + f" {rng.choice(('+', '-', '*'))} " + self._plain("float")
        if roll < 0.5:
            return self.value(rng.choice(("int", "float", "dec")), depth) + f" / {rng.choice((2, 4, -8, 0.5))}"
        if roll < 0.75:
            return _same(rng.choice(("abs", "floor", "ceil", "ceiling", "round", "trunc", "sign"))) + "(" + below() + ")"
        if roll < 0.85:
            return "round(" + below() + f", {rng.choice((0, 1, 2))})"
        if roll < 0.93:
            return rng.choice(("sqrt", "exp", "ln", "log10", "log2")) + "(abs(" + below() + f") + {rng.choice((1, 2.5))})"
        return "power(" + below() + ", 2)"

    def _of_dec(self, depth: int) -> Draw:
        rng = self.rng
        below = lambda: self.value("dec", depth)  # noqa: E731 - an operand
        roll = rng.random()
        if roll < 0.45:
            return self._bracket(below(), 0.3) + f" {rng.choice(('+', '-', '*'))} " + self.literal("dec")
        if roll < 0.6:
            return "CAST(" + below() + f" AS DECIMAL({rng.choice(('12, 1', '18, 0', '30, 2', '38, 4'))}))"
        if roll < 0.85:
            return _same(rng.choice(("abs", "floor", "ceil", "round", "-"))) + "(" + below() + ")"
        return "round(" + below() + f", {rng.choice((0, 1, 2))})"

    def _of_text(self, depth: int) -> Draw:
        rng = self.rng
        below = lambda: self.value("text", depth)  # noqa: E731 - an operand
        roll = rng.random()
        if roll < 0.3:
            return _same(rng.choice(("upper", "lower", "trim", "ltrim", "rtrim", "UPPER", "reverse"))) + "(" + below() + ")"
        if roll < 0.5:
            return below() + " || " + self._plain("text")
        if roll < 0.6:
            return rng.choice(("substr(", "substring(")) + below() + f", {rng.choice((1, 2, 3, 0, -2))}" + rng.choice((")", ", 1)", ", 2)", ", 0)"))
        if roll < 0.68:
            return rng.choice(("left(", "right(")) + below() + f", {rng.choice((0, 1, 2, 5, -1))})"
        if roll < 0.76:
            return "replace(" + below() + ", 'a', " + rng.choice(("'xx'", "''", "'日'")) + ")"
        if roll < 0.84:
            return rng.choice(("lpad(", "rpad(")) + below() + f", {rng.choice((0, 2, 6))}, '*')"
        if roll < 0.92:
            return _same(rng.choice(("concat(", "concat("))) + below() + ", " + self._plain("text") + ")"
        return "repeat(" + below() + f", {rng.choice((0, 1, 2))})"

    def _of_date(self, depth: int) -> Draw:
        rng = self.rng
        roll = rng.random()
        if roll < 0.4:
            return _same(rng.choice(_COLUMNS["date"])) + rng.choice((" + 1", " - 30", " + INTERVAL 1 DAY", " - INTERVAL '3' MONTH", " + INTERVAL 1 YEAR"))
        if roll < 0.6:
            return "last_day(" + rng.choice(_COLUMNS["date"]) + _same(")")
        return "date_trunc(" + rng.choice(("'month'", "'year'", "'week'", "'quarter'", "'day'")) + ", " + self.value("date", depth) + ")"

    def _of_ts(self, depth: int) -> Draw:
        rng = self.rng
        if rng.random() < 0.5:
            return "date_trunc(" + rng.choice(("'month'", "'year'", "'hour'", "'minute'", "'day'")) + ", " + self.value("ts", depth) + ")"
        return _same(rng.choice(("t0", "t3", "t6"))) + rng.choice((" + INTERVAL 1 DAY", " - INTERVAL '2' HOUR", " + INTERVAL 1 MONTH", " - INTERVAL 90 SECOND"))

    def _bracket(self, draw: Draw, chance: float) -> Draw:
        return "(" + draw + ")" if self.rng.random() < chance else draw

    def literal(self, kind: str) -> Draw:
        """Return a literal of one kind."""
        rng = self.rng
        match kind:
            case "bool":
                return _same(rng.choice(("TRUE", "FALSE", "true")))
            case "int":
                return _same(str(rng.choice((0, 1, 2, 3, 5, 7, 10, -1, -7, 100, 127, 128, -128, 32767, 2147483647, 2147483648, 9223372036854775807))))
            case "float":
                return _same(rng.choice(("0", "0.5", "-1.5", "2.5e0", "1e30", "3", "0.0e0", "'NaN'::DOUBLE", "CAST('inf' AS DOUBLE)", "100.125")))
            case "dec":
                return _same(rng.choice(("0", "0.5", "1.50", "-2.5", "2.505", "100", "0.01", "9999999.99", "123456789012345678.5", "2")))
            case "text":
                return _same("'" + rng.choice(_TEXTS).replace("'", "''") + "'")
            case "bytes":
                return _same(rng.choice(("x'00'", "x'00ff'", "X'FF'", "'a'::BLOB", "x'61626364'")))
            case "date":
                return _same(f"DATE '{rng.choice(_DATES).isoformat()}'")
            case "time":
                return _same(rng.choice(("TIME '12:30:00'", "TIME '00:00:00'", "'01:02:03.004'", "TIME '23:59:59'")))
            case "ts":
                return _same(f"TIMESTAMP '{rng.choice(_DATES[:6])} {rng.choice(('00:00:00', '12:30:00', '23:59:59.123', '01:02:03.123456'))}'")
            case _:
                return _same(f"TIMESTAMPTZ '{rng.choice(_DATES[:5])} {rng.choice(('00:00:00', '12:30:00', '23:59:59.999'))}+00'")

    def _text_of(self, kind: str) -> Draw:
        """Return a text that stands for a value of this kind, as people write them."""
        rng = self.rng
        match kind:
            case "date":
                return _same(f"'{rng.choice(_DATES)}'")
            case "ts":
                return _same(f"'{rng.choice(_DATES[:6])} {rng.choice(('00:00:00', '12:30:00'))}'")
            case _:
                return self.literal(kind)


def conditions(seed: int | str) -> Iterator[Draw]:
    """Yield conditions without end."""
    drawn = Conditions(seed)
    while True:
        yield drawn.condition(drawn.rng.choice((0, 0, 1, 2, 3)))
