"""However a query is spelled, with comments, line breaks, brackets and DuckDB's own forms of casts and intervals, it gives what DuckDB gives.

`LAKEKIT_SQL_SPELLINGS` is how many queries are drawn, `LAKEKIT_SQL_TEXTS` how many broken texts,
`LAKEKIT_SQL_SEED` where the draws begin.
"""

from __future__ import annotations

import os
import re
from random import Random
from typing import TYPE_CHECKING

import duckdb

import lakekit as lk
from spec_tests.drawn_queries import QueryOracle, filled, queries
from spec_tests.query_doors import by_catalog, judged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPELLINGS = int(os.environ.get("LAKEKIT_SQL_SPELLINGS", "60"))
TEXTS = int(os.environ.get("LAKEKIT_SQL_TEXTS", "1000"))
SEED = int(os.environ.get("LAKEKIT_SQL_SEED", "1"))
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\d[\w.]*|[^\W\d]\w*|::|<>|<=|>=|\|\||\*\*|//|:=|->|\S")
_GAPS = (" ", "  ", "\n", "\t", "\r\n", " /* a */ ", "/* 'b */", '/* /* nested */ " */', " -- ' ;\n", "/* ; */", "/*$$*/", " /**/ ")
ODD = (
    "DATE '2024-0{d}-11'::VARCHAR",
    "(TIMESTAMP '2024-0{d}-11 10:11:12' - INTERVAL '{d} days ago')::VARCHAR",
    "(INTERVAL '{d}' MONTH + INTERVAL {d} DAY)::VARCHAR",
    "date_trunc(CASE WHEN {d} > 4 THEN 'month' ELSE 'year' END, TIMESTAMP '2024-0{d}-11 10:11:12')",
    "extract('day' FROM DATE '2024-0{d}-11') + {d}",
    "jaro_winkler_similarity('CRATE', 'TRACE', 0.{d})",
    "MAP {{'a': MAP {{'b': {d}}}}}['a']['b']",
    "{{'x': [{d}, 2], 'y': 'it''s'}}.x[1]",
    "({d}, 2) IN (({d}, 2), (3, 4))",
    "E'a\\'{d}\\\\b' || $$c'd$$ || $t$e$$f$t$ || 'g\\'",
    "[x * {d} FOR x IN [1, 2, 3] IF x % 2 = 1]",
    "list_transform([1, 2], lambda x: x + {d} * 2)",
    "1_0{d} % 7 + 2 * {d} - -{d} // 2 ** 2",
    "CAST({d}.5 AS DECIMAL(4, 2))::DOUBLE::INT",
    "- {d} + ~{d} & 3 | 8",
    "'a' || {d} + 1",
    "CASE {d} WHEN 1 THEN 'a' ELSE '/* no */ -- comment' END",
    "'2024-01-0{d}'::DATE + 1 - DATE '2024-01-01'",
    "try_cast('x{d}' AS INT) IS NULL AND NOT {d} BETWEEN 2 AND 3",
    "(SELECT max(y) FROM (SELECT last(z IGNORE NULLS) OVER (ORDER BY z) AS y FROM (VALUES (1), (NULL), ({d})) v(z)))",
    "'abc'[1:{d}] ILIKE 'A_%' ESCAPE '!'",
    "trim(BOTH 'x' FROM 'xx{d}x') || substring('hello' FROM 2 FOR {d}) || overlay('abcdef' PLACING 'Z' FROM 2)",
    "'hello'.upper().replace('L', '{d}')",
    "x'0{d}ff'::BLOB = '\\x0{d}\\xFF'::BLOB",
)
"""Expressions of which sqlglot's own text is another, or near to such a one."""


def respelled(text: str, rng: Random) -> str:
    """Return a query with other gaps between its tokens, and other cases of its words."""
    pieces: list[str] = []
    at = 0
    for token in _TOKEN.finditer(text):
        gap = text[at : token.start()]
        is_operator = not pieces or pieces[-1][-1] in "/*+-<>=|&%~"  # DuckDB reads / and a comment in //*
        pieces += [" " if gap and is_operator else "", rng.choice(_GAPS) if gap else "", token[0]]
        at = token.end()
    return "".join(pieces)


def spellings(seed: int) -> Iterator[str]:
    """Yield drawn queries with odd expressions beside their columns, oddly spelled."""
    rng = Random(seed)
    for text in queries(seed):
        odd = ", ".join(f"{rng.choice(ODD).format(d=rng.randint(1, 9))} AS odd{at}" for at in range(rng.randint(1, 3)))
        yield respelled(f"SELECT q.*, {odd} FROM ({text}) AS q", rng) + rng.choice(("", " -- end", ";", "/* end */ ;"))


def test_a_query_gives_what_duckdb_gives_however_it_is_spelled(tmp_path: Path) -> None:
    cat = lk.connect(tmp_path)
    verdicts = judged(spellings(SEED), QueryOracle(filled(cat, SEED)), by_catalog(cat), SPELLINGS)
    assert verdicts.different == []
    assert sum(verdicts.refused.values()) <= max(SPELLINGS * 0.02, 2), verdicts.refusals


FRAGMENTS = (
    *("'", "''", '"', "`", "--", "\n", "\r", "/*", "*/", "/*+", "$$", "$a$", "E'", "e'", "U&'", 'U&"', "N'", "x'", "\\", "\\'", ";", "#", "//", "/", "*"),
    *("{{", "}}", "{%", "%}", "\u00a0", "\u2028", "\u200b", "@", "::", ".", ":", "?", "(", ")", "[", "]", "||", "+", "-", " AS ", " FROM range(2) ", " x "),
    *("version()", "version ()", '"version"()', ", version()", "|| version()", ", 'a'", ", 1", " UNION ALL SELECT version()", "(SELECT version())"),
    *("FROM duckdb_settings()", "/* */", "-- a\n", "'b'", "$$c$$"),
)
"""Parts of texts in which sqlglot and DuckDB may end a quote or a comment at other places."""


def hiding(seed: int) -> Iterator[str]:
    """Yield texts that name, perhaps where one lexer sees it and the other does not, a function that is refused."""
    rng = Random(seed)
    while True:
        parts = "".join(rng.choice(FRAGMENTS) for _ in range(rng.randint(2, 9)))
        begin = rng.choice(("SELECT 1", "SELECT ", "SELECT 'a' ", "PIVOT (SELECT 1 AS a) ON a USING max(", "WITH v AS (SELECT 1) SELECT *"))
        yield begin + parts


def test_no_function_hides_between_two_lexers(tmp_path: Path) -> None:
    cat = lk.connect(tmp_path)
    own = duckdb.__version__
    answered = 0
    for _, text in zip(range(TEXTS), hiding(SEED), strict=False):
        try:
            found = cat.sql(text).lazy().collect()
        except lk.LakekitError:
            continue
        answered += 1
        assert own not in repr(found.rows()), text
        assert found.width < 5, text  # the table of settings
    assert answered
