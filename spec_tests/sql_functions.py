"""Texts that apply each function of lakekit's SQL to drawn rows, and DuckDB's value for each row.

`CALLS` has one or more texts for a name of the table; a test holds that no name is without one. DuckDB evaluates each text within TRY, so that a row for which
it fails is NULL: lakekit gives NULL there too, or a value that the type of DuckDB does not hold.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import polars as pl

from lakekit.expressions.parser import SqlText, parse_text
from lakekit.expressions.scope import Scope, TableScope
from lakekit.expressions.translation import Translation
from lakekit.expressions.typed_expression import failure_of

MAP = pl.List(pl.Struct({"key": pl.String(), "value": pl.Int32()}))
SCHEMA: dict[str, Any] = {
    "t": pl.Int8(),
    "a": pl.Int32(),
    "c": pl.Int32(),
    "b": pl.Int64(),
    "f": pl.Float32(),
    "x": pl.Float64(),
    "y": pl.Float64(),
    "d": pl.Decimal(10, 2),
    "e": pl.Decimal(18, 4),
    "s": pl.String(),
    "u": pl.String(),
    "num": pl.String(),
    "o": pl.Boolean(),
    "bin": pl.Binary(),
    "dt": pl.Date(),
    "du": pl.Date(),
    "ts": pl.Datetime("us"),
    "tm": pl.Datetime("ms"),
    "tz": pl.Datetime("us", "UTC"),
    "ti": pl.Time(),
    "l": pl.List(pl.Int32()),
    "ls": pl.List(pl.String()),
    "r": pl.Struct({"a": pl.Int32(), "q": pl.String()}),
}
TEXTS = (
    "",
    "a",
    "b",
    "ab",
    "abab",
    "A,b,,c",
    "Ärger",
    "日本語",
    "🙂x",
    "  a ",
    "xxaxx",
    "a%b",
    "a_b",
    "it's",
    "hello world",
    "2024-02-29",
    "back\\slash",
    "a1b22",
    "\t",
)
NUMERALS = ("0", "1", "-1", "42", "1.5", "2.5", "-2.5", "1e2", " 7 ", "x", "", "999999999999", "2024-02-29", "12:30:00", "true", "no", "+3", ".5")
DATES = (
    date(1970, 1, 1),
    date(1969, 12, 31),
    date(2024, 2, 29),
    date(2024, 12, 31),
    date(2023, 1, 1),
    date(1, 1, 1),
    date(9999, 12, 31),
    date(1900, 3, 1),
    date(2021, 1, 3),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 0.1, 3.0, 10.0, 1e10, -1e300, 5e-324, math.nan, math.inf, -math.inf, 123456.789, 2.675)


def drawn(seed: int, count: int = 200) -> pl.DataFrame:
    """Return rows of `SCHEMA` with NULLs, bounds, NaN, -0.0, empty and other texts, old and far days."""
    rng = Random(seed)
    return pl.DataFrame({name: pl.Series(name, [_value(name, dtype, rng) for _ in range(count)], dtype=dtype) for name, dtype in SCHEMA.items()})


def _value(name: str, dtype: Any, rng: Random) -> Any:
    if rng.random() < 0.1:
        return None
    if dtype.is_integer():
        bits = {"t": 7, "a": 31, "c": 31, "b": 63}[name]
        if name == "c":
            return rng.randint(-12, 12)
        return rng.choice([0, 1, -1, 7, -7, 10, 100, (1 << bits) - 1, -(1 << bits), rng.randint(-100, 100), rng.getrandbits(bits)])
    if dtype.is_float():
        value = rng.choice([*FLOATS, rng.uniform(-1000, 1000), float(rng.randint(-1000, 1000))])
        return value if name != "f" or not math.isfinite(value) or abs(value) < 3e38 else 1.5
    if isinstance(dtype, pl.Decimal):
        size = 10 ** (dtype.precision or 38) - 1
        count = rng.choice([0, 1, -1, 5, 125, -125, 15, 250, -250, size, -size, rng.randint(-100_000, 100_000)])
        return Decimal(count).scaleb(-dtype.scale)
    day = rng.choice([*DATES, date(1970, 1, 1) + timedelta(rng.randint(-20_000, 30_000))])
    micros = rng.choice([0, 1, 999_999, 43_200_000_000, 86_399_999_999, rng.randrange(86_400_000_000)])
    moment = datetime(day.year, day.month, day.day) + timedelta(microseconds=micros)  # noqa: DTZ001
    if isinstance(dtype, pl.Datetime):
        if dtype.time_unit == "ms":
            moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        return moment if dtype.time_zone is None else moment.replace(tzinfo=UTC)
    texts = NUMERALS if name == "num" else TEXTS
    return {
        pl.String: rng.choice(texts),
        pl.Boolean: rng.random() < 0.5,
        pl.Binary: rng.choice([b"", b"a", b"\x00\xff"]),
        pl.Date: day,
        pl.Time: time(moment.hour, moment.minute, moment.second, moment.microsecond // 1000 * 1000),
        pl.List: _list(name, rng),
        pl.Struct: {"a": rng.choice([None, 1, -5]), "q": rng.choice([None, "q", ""])},
    }[type(dtype)]


def _list(name: str, rng: Random) -> list[Any]:
    values: list[Any] = [None, "a", "b", ""] if name == "ls" else [None, 1, 2, -3]
    return [rng.choice(values) for _ in range(rng.randrange(4))]


NUMBERS = ("t", "a", "b", "f", "x", "d", "e")
PAIRS = (
    ("t", "a"),
    ("a", "b"),
    ("b", "c"),
    ("a", "d"),
    ("d", "e"),
    ("f", "a"),
    ("x", "d"),
    ("f", "x"),
    ("x", "y"),
    ("b", "3"),
    ("d", "1.5"),
    ("x", "0.1"),
    ("f", "0.1"),
    ("a", "NULL"),
)
COMPARED = (
    *PAIRS,
    ("s", "u"),
    ("s", "'a'"),
    ("o", "TRUE"),
    ("dt", "du"),
    ("dt", "ts"),
    ("ts", "tm"),
    ("dt", "'2024-02-29'"),
    ("ts", "TIMESTAMP '2024-02-29 12:00:00.0005'"),
)
COMPARED += (
    ("dt", "TIMESTAMP '2024-02-29 12:00:00'"),
    ("tm", "TIMESTAMP '2024-02-29 12:00:00.0005'"),
    ("ti", "'12:30:00'"),
    ("tz", "TIMESTAMPTZ '2024-02-29 12:00:00+00'"),
)
COMPARED += (
    ("a", "1.5"),
    ("a", "2147483648"),
    ("t", "300"),
    ("d", "1.005"),
    ("d", "99999999999"),
    ("x", "1e300"),
    ("b", "9223372036854775808"),
    ("a", "1e2"),
    ("bin", "X'61'"),
)
PARTS = ("year", "quarter", "month", "day", "dayofweek", "dayofyear", "week", "weekofyear", "isodow", "weekday", "hour", "minute", "second", "millisecond")
PARTS += ("microsecond", "decade", "century", "millennium", "isoyear", "yearweek", "dayofmonth")
UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century")


def _on(form: str, *values: str) -> tuple[str, ...]:
    return tuple(form.format(value) for value in values)


def _pairs(form: str, pairs: tuple[tuple[str, str], ...] = PAIRS) -> tuple[str, ...]:
    return tuple(form.format(left, right) for left, right in pairs)


CALLS: dict[str, tuple[str, ...]] = {
    "+": (*_pairs("{} + {}"), "dt + 3", "3 + dt", "dt + INTERVAL 1 MONTH", "ts + INTERVAL '2' DAY", "tm + INTERVAL 90 MINUTE", "ti + INTERVAL 13 HOUR"),
    "-": (*_pairs("{} - {}"), "dt - du", "dt - 3", "dt - INTERVAL 1 YEAR", "ts - INTERVAL 3 MONTH", "-a", "-t", "-d", "-x", "ti - INTERVAL 1 SECOND"),
    "*": _pairs("{} * {}"),
    "/": (*_pairs("{} / {}"), *_on("{} / 7", *NUMBERS), *_on("{} / 10", *NUMBERS), "a / 0"),
    "//": ("a // 7", "b // c", "t // -3", "b // -1", "a // c"),
    "%": (
        "a % c",
        "d % (e - 1)",
        "a % 7",
        "b % c",
        "t % -3",
        "CASE WHEN abs(x) < 1e30 THEN x END % 7",
        "f % 2",
        "d % 1.5",
        "d % e",
        "a % d",
        "CASE WHEN abs(y) < 1e30 THEN y END % 1",
    ),
    **{sign: _pairs(f"{{}} {sign} {{}}", COMPARED) for sign in ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")},
    "&": ("a & c", "b & 255", "t & 3"),
    "|": ("a | c", "b | 255"),
    "xor": ("xor(a, c)", "xor(b, 255)"),
    "<<": ("abs(c) << 3", "abs(c) << 0"),
    ">>": ("a >> 3", "b >> 40", "t >> 1"),
    "^": ("x ^ 2", "a ^ 2", "2 ^ c"),
    "**": ("c ** 3", "y ** 0.5"),
    "pow": ("pow(x, 3)", "pow(c, y)"),
    "power": ("power(d, 2)",),
    "upper": ("upper(s)", "upper('straße ŉ ﬁ ᾳ Σς')", "s ILIKE 'ä%'", "'ſK' ILIKE 'sk'"),
    "ucase": ("ucase(u)",),
    "lower": ("lower(s)", "lower('ΑΣ İẞ')"),
    "lcase": ("lcase(u)",),
    "length": ("length(s)", "length(l)"),
    "len": ("len(s)", "len(ls)"),
    "char_length": ("char_length(s)",),
    "bit_length": ("bit_length(s)",),
    "strlen": ("strlen(s)",),
    "reverse": ("reverse(s)",),
    "substring": (
        *(f"substring(s, {at}, {count})" for at in (-3, 0, 1, 2, 9) for count in (-1, 0, 2, 9)),
        "substring(s, c, 2)",
        "substring(s, c, c)",
        "substring(s FROM 2 FOR 3)",
    ),
    "substr": (*(f"substr(s, {at})" for at in (-20, -2, 0, 1, 3, 20)), "substr(s, c)"),
    "left": ("left(s, 2)", "left(s, -1)", "left(s, c)", "left(s, 0)"),
    "right": ("right(s, 2)", "right(s, -1)", "right(s, c)", "right(s, 0)"),
    "starts_with": ("starts_with(s, 'a')", "starts_with(s, u)", "starts_with(s, '')"),
    "prefix": ("prefix(s, 'a')",),
    "^@": ("s ^@ 'a'",),
    "ends_with": ("ends_with(s, 'b')", "ends_with(s, u)"),
    "suffix": ("suffix(s, 'b')",),
    "contains": ("contains(s, 'b')", "contains(s, u)", "contains(s, '')", "contains(s, '.')"),
    "strpos": ("strpos(s, 'b')", "strpos(s, u)", "strpos(s, '')"),
    "instr": ("instr(s, 'x')",),
    "position": ("position('a' IN s)",),
    "locate": (),
    "replace": ("replace(s, 'a', 'xy')", "replace(s, '', 'x')", "replace(s, 'a', u)", "replace(s, '.', '$0')"),
    "repeat": ("repeat(s, 3)", "repeat(s, 0)", "repeat(s, -1)"),
    "lpad": ("lpad(s, 4, 'xy')", "lpad(s, 0, 'x')", "lpad(s, -1, 'x')"),
    "rpad": ("rpad(s, 4, 'xy')", "rpad(s, 2, '日')"),
    "split_part": (*(f"split_part(s, ',', {at})" for at in (-5, -1, 0, 1, 2, 9)), "split_part(s, 'ab', 2)"),
    "concat": ("concat(s, u)", "concat(s, a, o, d)", "concat(s, NULL)", "concat(dt, ts, ti)"),
    "||": ("s || u", "s || a", "s || NULL", "a || d", "dt || ts"),
    "concat_ws": ("concat_ws(',', s, u)", "concat_ws('', s, NULL, a)"),
    "regexp_matches": (
        "regexp_matches(s, '[0-9]+')",
        "regexp_matches(s, '\\d')",
        "regexp_matches(s, 'A', 'i')",
        "regexp_matches(s, '^a$')",
        "regexp_matches(s, '\\w\\s')",
    ),
    "~": ("~a", "~t", "~b", "s ~ 'b'"),
    "regexp_full_match": ("regexp_full_match(s, 'a.*')",),
    "SIMILAR TO": ("s SIMILAR TO '(a|b)+'", "s SIMILAR TO 'a'"),
    "regexp_replace": ("regexp_replace(s, 'a', 'x')", "regexp_replace(s, '(a)(b)', '\\2\\1$', 'g')", "regexp_replace(s, '[^a-z]', '', 'g')"),
    "regexp_extract": ("regexp_extract(s, '[0-9]+')", "regexp_extract(s, '([a-z])([0-9])', 2)", "regexp_extract(s, '(z)?a', 1)"),
    "abs": (*_on("abs({})", "a", "b", "f", "x", "d"),),
    "ceil": _on("ceil({})", *NUMBERS),
    "ceiling": ("ceiling(d)",),
    "floor": _on("floor({})", *NUMBERS),
    "round": (*_on("round({})", *NUMBERS), *_on("round({}, 1)", *NUMBERS), "round(a, -2)", "round(t, -1)", "round(d, 5)", "round(x, 3)", "round(b, -3)"),
    "trunc": _on("trunc({})", *NUMBERS),
    "sign": _on("sign({})", *NUMBERS),
    "sqrt": _on("sqrt({})", "x", "a", "d"),
    "cbrt": ("cbrt(x)", "cbrt(a)"),
    "exp": ("exp(y)", "exp(c)"),
    "ln": ("ln(x)", "ln(a)", "ln(d)"),
    "log": ("log(x)", "log(a)", "log(2, x)", "log(a, 10)"),
    "log10": ("log10(x)", "log10(d)"),
    "log2": ("log2(x)", "log2(b)"),
    "mod": ("mod(a, 7)", "mod(b, c)"),
    "bit_count": _on("bit_count({})", "t", "a", "b"),
    "isnan": ("isnan(x)", "isnan(f)"),
    "isinf": ("isinf(x)",),
    "isfinite": ("isfinite(x)",),
    "sin": ("sin(c)",),
    "cos": ("cos(c)",),
    "tan": ("tan(c)",),
    "greatest": (
        "greatest(a, b)",
        "greatest(a, NULL, 3)",
        "greatest(x, y)",
        "greatest(s, u)",
        "greatest(a, d)",
        "greatest(dt, du)",
        "greatest(dt, ts)",
        "greatest(x, 1)",
    ),
    "least": ("least(a, b)", "least(x, y)", "least(s, u)", "least(NULL, d, 1.5)", "least(o, TRUE)"),
    "coalesce": ("coalesce(a, b)", "coalesce(a, 1.5)", "coalesce(s, '')", "coalesce(NULL, dt, du)", "coalesce(x, 1)"),
    "ifnull": ("ifnull(t, 0)",),
    "nvl": (),
    "nullif": ("nullif(a, 1)", "nullif(x, 0)", "nullif(s, 'a')", "nullif(a, d)", "nullif(dt, '2024-02-29')"),
    **{part: (f"{part}(dt)", f"{part}(ts)", f"{part}(tz)") for part in PARTS if part != "dayofmonth"},
    "dayofmonth": ("dayofmonth(dt)",),
    "date_part": (*_on("date_part('{}', ts)", "year", "doy", "dow", "isodow", "week", "epoch"), "date_part('hour', ti)"),
    "datepart": ("datepart('month', dt)",),
    "date_trunc": tuple(f"date_trunc('{unit}', {column})" for unit in UNITS for column in ("dt", "ts", "tm")),
    "date_diff": tuple(f"date_diff('{unit}', {pair})" for unit in UNITS[1:10] for pair in ("dt, du", "ts, tm", "dt, ts")),
    "datediff": ("datediff('day', ts, tm)",),
    "date_sub": tuple(f"date_sub('{unit}', {pair})" for unit in UNITS[1:7] for pair in ("dt, du", "ts, tm")),
    "datesub": ("datesub('hour', ts, tm)",),
    "date_add": ("date_add(dt, INTERVAL 1 DAY)", "date_add(ts, INTERVAL 1 MONTH)"),
    "last_day": ("last_day(dt)", "last_day(ts)"),
    "make_date": ("make_date(2024, 2, 29)", "make_date(2000 + c, 1, 5)"),
    "epoch": ("epoch(ts)", "epoch(dt)"),
    "epoch_ms": ("epoch_ms(ts)",),
    "epoch_us": ("epoch_us(ts)",),
    "now": (),
    "to_date": (),
    "date": ("date(ts)", "date(dt)", "date(tz)"),
    "strptime": ("strptime('2024-02-29', '%Y-%m-%d')", "strptime(strftime(ts, '%Y-%m-%d %H:%M:%S'), '%Y-%m-%d %H:%M:%S')"),
    "try_strptime": ("try_strptime(s, '%Y-%m-%d')",),
    "strftime": ("strftime(dt, '%d.%m.%Y')", "strftime(ts, '%Y-%m-%d %H:%M:%S')", "strftime(dt, '%j %B %y')"),
    "struct_extract": ("struct_extract(r, 'a')", "r.q", "r['q']"),
    "list_contains": ("list_contains(l, 1)", "list_contains(l, a)", "list_contains(ls, 'a')", "list_contains(l, NULL)", "list_contains(ls, s)"),
    "array_contains": ("array_contains(l, 2)", "list_contains(l, 1.5)", "list_contains(l, b)", "list_contains(l, 3000000000)"),
    "array_length": ("array_length(l)",),
    "array_size": (),
    "cardinality": (),
    "size": (),
    "map_keys": (),
    "map_values": (),
    "list_extract": ("list_extract(l, 1)", "l[1]", "l[-1]", "l[0]", "l[3]", "l[c]", "ls[2]"),
    "list_element": ("list_element(ls, 1)",),
}
"""Texts by the name of the function; the empty ones are names that DuckDB has not, or another meaning there."""

FORMS: tuple[str, ...] = (
    *("o AND a > 1", "o OR a > 1", "NOT o", "o AND NULL", "o OR NULL", "NULL AND FALSE", "a > 1 AND b > 1 OR NOT o"),
    *("a IS NULL", "a IS NOT NULL", "o IS TRUE", "o IS NOT TRUE", "o IS FALSE", "o IS NOT FALSE", "o IS UNKNOWN", "o IS NOT UNKNOWN", "(a > 1) IS UNKNOWN"),
    *(
        "a IN (1, 7, NULL)",
        "a NOT IN (1, 7)",
        "a NOT IN (1, NULL)",
        "s IN ('a', u)",
        "x IN (0, 2.5)",
        "d IN (1.25, 1.255)",
        "dt IN ('2024-02-29', DATE '1970-01-01')",
        "a IN (c, 1.5)",
    ),
    *(
        "(a, b) = (1, 7)",
        "(a, s) <> (NULL, 'a')",
        "(t, a) IS DISTINCT FROM (a, t)",
        "(t, a) IN ((1, 7), (0, NULL), (c, a))",
        "(s, c) NOT IN (('a', 1), (u, c))",
        "row(a, 1) = row(7, 1)",
        "a = ANY([1, 7, NULL])",
        "a = ANY(l)",
        "s = ANY(ls)",
        "b = ANY(l)",
        "NULL = ANY(l)",
        "c = SOME([1, 2])",
        "a <> ALL([1, 7])",
        "a <> ALL(l)",
        "c IN [1, NULL]",
        "c NOT IN [1, NULL]",
        "c IN l",
        "s IN ls",
        "a IN [1.5, c]",
        "-2 ^ 2",
        "-c ^ 2",
        "2 ** -1",
        "$$it's$$",
        "- -b",
        "-b * 0",
        "(-b) % 7",
    ),
    *(
        "CASE WHEN c <> 0 THEN a % c END",
        "CASE WHEN c = 0 THEN 0 WHEN TRUE THEN a // c ELSE 1 % c END",
        "if(c <> 0, a % c, -1)",
        "COALESCE(nullif(a, 0), 1 // nullif(c, 0), a % c)",
        "CASE WHEN regexp_full_match(num, '[0-9]{1,3}') THEN CAST(num AS INT) END",
        "CASE c WHEN 0 THEN -1 ELSE 100 % c END",
        "CASE WHEN c <> 0 THEN CASE WHEN a IS NULL THEN 7 % c ELSE a % c END END",
    ),
    *("CAST(x AS VARCHAR)", "CAST(f AS VARCHAR)", "CAST(tz AS VARCHAR)", "x || s", "concat(f, tz)", "CAST(x / 1e5 AS VARCHAR)", "CAST(f / 1e7 AS VARCHAR)"),
    *(f"CAST({c} AS TIMESTAMP({p}))" for c in ("ts", "tm", "dt", "tz") for p in (0, 1, 3, 5, 6)),
    *(f"TRY_CAST({c} AS TIMESTAMP({p}))" for c in ("num", "CAST(ts AS VARCHAR)", "'2024-01-01 12:00:00.6789'") for p in (0, 2, 3, 6)),
    *("dt + ti", "ti + dt", "extract(epoch FROM ts - tm)"),
    *("TRY_CAST(o AS DECIMAL(2, 2))", "GREATEST(ts, tm)", "trim('\u00a0 a\u3000')", "replace('ab', 'a', u)"),
    *("a BETWEEN 0 AND 10", "a NOT BETWEEN c AND 10", "d BETWEEN 1.005 AND e", "dt BETWEEN '2023-01-01' AND du", "s BETWEEN 'a' AND u", "x BETWEEN 0 AND y"),
    *(f"s LIKE '{p}'" for p in ("", "a", "a%", "%a", "%a%", "a_", "_%_", "%,%", "a%b")),
    *("s NOT LIKE 'a%'", "s LIKE 'a!%b' ESCAPE '!'", "s LIKE 'a!_b' ESCAPE '!'", "s ILIKE 'Ä%'", "s NOT ILIKE 'A%'", "s LIKE NULL", "s LIKE 'back\\slash'"),
    *(
        "CASE a WHEN 1 THEN 'one' WHEN 7 THEN 'seven' ELSE s END",
        "CASE WHEN a > 1 THEN a WHEN o THEN 2.5 END",
        "CASE WHEN o THEN dt ELSE ts END",
        "CASE WHEN NULL THEN 1 ELSE 2 END",
    ),
    *("if(o, a, b)", "if(a > 1, 'x', s)", "CASE WHEN o THEN x ELSE d END", "CASE x WHEN 0 THEN 1 WHEN 2.5 THEN 2 END"),
    *(f"CAST({c} AS {t})" for c in ("a", "t", "d") for t in ("BIGINT", "DOUBLE", "FLOAT", "VARCHAR", "DECIMAL(20, 3)", "BOOLEAN")),
    *(
        f"TRY_CAST({c} AS {t})"
        for c in ("a", "b", "d", "e", "x", "f", "num", "o")
        for t in ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(6, 1)", "DECIMAL(38, 10)", "BOOLEAN")
    ),
    *(f"TRY_CAST({c} AS {t})" for c in ("b", "d", "x", "num", "o") for t in ("DOUBLE", "FLOAT")),
    *(f"TRY_CAST({c} AS {t})" for c in ("num", "s") for t in ("DATE", "TIMESTAMP", "TIME", "VARCHAR")),
    *(
        "CAST(dt AS TIMESTAMP)",
        "CAST(ts AS DATE)",
        "CAST(ts AS TIME)",
        "CAST(dt AS VARCHAR)",
        "CAST(ts AS VARCHAR)",
        "CAST(ti AS VARCHAR)",
        "CAST(o AS VARCHAR)",
        "CAST(b AS VARCHAR)",
        "ts::DATE",
    ),
    *(
        "trim(s)",
        "ltrim(s)",
        "rtrim(s)",
        "trim(s, 'ax')",
        "ltrim(s, 'x')",
        "rtrim(s, ' a')",
        "trim(BOTH 'x' FROM s)",
        "trim(LEADING 'x' FROM s)",
        "trim(s, '')",
    ),
    *(
        f"extract({part} FROM {c})"
        for part in ("year", "month", "dow", "isodow", "doy", "week", "quarter", "epoch", "second", "decade", "century")
        for c in ("dt", "ts")
    ),
    *(
        "DATE '2024-02-29'",
        "TIMESTAMP '2024-02-29 12:00:00.5'",
        "TIME '12:30:00'",
        "dt > DATE '2024-01-01' - INTERVAL 1 MONTH",
        "ts - tm > INTERVAL 5 DAY",
        "X'00ff'",
    ),
    *("1", "1.50", "1e3", "'it''s'", "NULL", "TRUE", "- 5", "(1 + 2) * 3", "2 + 3 * 4 - 6 / 4", "-a + -(-b)", "a - b - c", "10 - 4 - 3", "2 ^ 3 ^ 2"),
)
"""Texts with a grammar of their own."""


def oracle(rows: pl.DataFrame) -> duckdb.DuckDBPyConnection:
    """Return DuckDB with the rows as table `drawn`."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("frame", rows.to_arrow())
    connection.execute("CREATE TABLE drawn AS SELECT * REPLACE (ti::TIME AS ti) FROM frame")
    return connection


def differences(rows: pl.DataFrame, connection: duckdb.DuckDBPyConnection, text: str) -> list[tuple[Any, Any]]:
    """Return the pairs of lakekit's and DuckDB's values of a text that differ; a number where DuckDB fails is none."""
    source = SqlText(text, "text")
    scope = Scope(sides=(TableScope(names=("drawn",), columns=dict(rows.schema)),))
    typed = Translation(source, scope).run(parse_text(source))
    values = computed(rows, typed.expr)
    assert values.dtype == typed.dtype, (text, values.dtype, typed.dtype)
    is_time = isinstance(typed.dtype, (pl.Date, pl.Datetime)) and not typed.is_constant  # Python has no year 10,000
    has_query = any(word in text for word in (" ANY", " ALL", " SOME"))  # DuckDB makes a subquery of them, and TRY takes none
    attempt = text if has_query else f"TRY({text})" if not is_time else f"epoch_us(CAST(TRY({text}) AS TIMESTAMP))"
    found = [row[0] for row in connection.execute(f"SELECT {attempt} FROM drawn").fetchall()]
    mine = (values.cast(pl.Datetime("us")).to_physical() if is_time else values).to_list()
    mine = mine * len(found) if len(mine) == 1 else mine
    pairs = [pair for pair in zip(mine, found, strict=True) if not is_same(*pair)]
    return [pair for pair in pairs if pair[1] is not None or not typed.is_number]


def computed(rows: pl.DataFrame, expr: pl.Expr) -> pl.Series:
    """Return the values of an expression; NULL for the rows for which it fails."""
    try:
        return rows.lazy().select(expr.alias("v")).collect()["v"]
    except pl.exceptions.PolarsError as wrong:
        if failure_of(str(wrong)) is None:
            raise
    found: list[pl.Series] = []
    failing: list[int] = []
    for row in rows.iter_slices(1):  # scalar: of a test's two hundred rows each may fail
        try:
            found.append(row.lazy().select(expr.alias("v")).collect()["v"])
        except pl.exceptions.PolarsError as wrong:
            if failure_of(str(wrong)) is None:
                raise
            failing.append(len(found))
            found.append(pl.Series("v", [None], pl.Null()))
    dtype = next(series.dtype for at, series in enumerate(found) if at not in failing)
    return pl.concat([series.cast(dtype) for series in found])


def is_same(mine: Any, theirs: Any) -> bool:
    """Return whether two values are equal: numbers of any type by value, floats but for the last digits."""
    if mine is None or theirs is None:
        return mine is theirs
    if isinstance(mine, bool) or isinstance(theirs, bool):
        return mine is theirs
    if isinstance(mine, float) or isinstance(theirs, float):
        first, second = float(mine), float(theirs)
        return first == second or (math.isnan(first) and math.isnan(second)) or math.isclose(first, second, rel_tol=1e-12)
    if isinstance(mine, datetime) and isinstance(theirs, date) and not isinstance(theirs, datetime):
        return mine == datetime(theirs.year, theirs.month, theirs.day)  # noqa: DTZ001
    return mine == theirs
