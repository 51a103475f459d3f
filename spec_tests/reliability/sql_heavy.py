"""Texts of SQL that are long, deep or ask for much, each tried in a child process: `python -m spec_tests.reliability.sql_heavy [WORD]` prints how they end.

The law: an answer or a `LakekitError`, within `SECONDS` and `PEAK_BYTES`, no process death.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from spec_tests.reliability.children import Child

if TYPE_CHECKING:
    from collections.abc import Callable

    import lakekit as lk

SECONDS = 60.0
PEAK_BYTES = 3 << 30
_BIG = 10 << 20


def _doubling(levels: int) -> str:
    names = ", ".join(f"c{n} AS (SELECT a.k FROM c{n - 1} AS a JOIN c{n - 1} AS b ON a.k = b.k)" for n in range(1, levels))
    return f"WITH c0 AS (SELECT k FROM db.t), {names} SELECT count(*) FROM c{levels - 1}"


def _nested(opening: str, inner: str, closing: str, count: int) -> str:
    return opening * count + inner + closing * count


CONDITIONS: dict[str, Callable[[], str]] = {
    "10 MB literal": lambda: "g = '" + "x" * _BIG + "'",
    "10 MB of blanks": lambda: " " * _BIG + "k = 1",
    "10 MB comment": lambda: "/*" + "x" * _BIG + "*/ k = 1",
    "10 MB of OR": lambda: " OR ".join(["k = 1"] * (_BIG // 9)),
    "10 MB of brackets": lambda: "(" * _BIG,
    "10 MB of quotes": lambda: "'" * _BIG,
    "10 MB of signs": lambda: "- " * (_BIG // 2) + "k = 1",
    "10,000 brackets": lambda: _nested("(", "k = 1", ")", 10_000),
    "10,000 open brackets": lambda: "(" * 10_000,
    "10,000 NOT": lambda: "NOT " * 10_000 + "k = 1",
    "10,000 signs": lambda: "- " * 10_000 + "k = 1",
    "AND of 5,000": lambda: " AND ".join(f"k <> {n + 10}" for n in range(5000)),
    "OR of 5,000": lambda: " OR ".join(f"k = {n}" for n in range(5000)),
    "sum of 5,000": lambda: "k = " + " + ".join(["1"] * 5000),
    "|| of 5,000": lambda: "g = " + " || ".join(["'a'"] * 5000),
    "IN of 100,000": lambda: f"k IN ({', '.join(map(str, range(100_000)))})",
    "IN of 100,000 texts": lambda: "g IN (" + ", ".join(f"'{n}'" for n in range(100_000)) + ")",
    "CASE of 5,000": lambda: "CASE k" + "".join(f" WHEN {n} THEN TRUE" for n in range(5000)) + " ELSE FALSE END",
    "30 CASE in CASE": lambda: _nested("CASE WHEN k = 1 THEN ", "TRUE", " ELSE FALSE END", 30),
    "500 CASE in CASE": lambda: _nested("CASE WHEN k = 1 THEN ", "TRUE", " ELSE FALSE END", 500),
    "500 functions": lambda: _nested("coalesce(", "k", ", 1)", 500) + " = 1",
    "5,000 casts": lambda: "k" + "::INT" * 5000 + " = 1",
    "5,000 times IS NULL": lambda: "k" + " IS NULL" * 5000,
    "LIKE of 5,000 %a": lambda: "repeat(g, 5000) LIKE '" + "%a" * 5000 + "b'",
    "a long text": lambda: "repeat(g, 100000000000) = 'a'",
    "a long pad": lambda: "lpad(g, 2000000000, 'x') = 'a'",
    "texts that double": lambda: "length(" + _nested("concat(", "repeat(g, 1000)", ", repeat(g, 1000))", 30) + ") > 1",
    "repeats of repeats": lambda: "length(" + _nested("repeat(", "g", ", 1000)", 8) + ") > 1",
    "a great number": lambda: "k = " + "9" * 100_000,
    "a great exponent": lambda: "x < 1e999999999",
    "a great decimal": lambda: "CAST('1e999999999' AS DECIMAL(38, 2)) > 1",
    "great powers": lambda: "9 ** 9 ** 9 ** 9 > k",
    "a far interval": lambda: "d + INTERVAL 99999999999999 YEAR > d",
    "a name of 1 MB": lambda: "x" * (1 << 20) + " = 1",
    "half of a character": lambda: "g = '\ud800'",
    "NUL": lambda: "g = 'a\0b' AND k = 1",
}
STATEMENTS: dict[str, Callable[[], str]] = {
    "5,000 columns selected": lambda: "SELECT " + ", ".join(f"k + {n} AS c{n}" for n in range(5000)) + " FROM db.t",
    "5,000 columns created": lambda: "CREATE TABLE db.wide (" + ", ".join(f"c{n} INT" for n in range(5000)) + ")",
    "5,000 columns twice": lambda: "SELECT " + ", ".join(["k"] * 5000) + " FROM db.t",
    "10 MB statement": lambda: "SELECT '" + "x" * _BIG + "'",
    "10,000 brackets": lambda: "SELECT " + _nested("(", "1", ")", 10_000),
    "10,000 subqueries": lambda: _nested("SELECT * FROM (", "SELECT 1 AS a", ") AS s", 10_000),
    "25 subqueries": lambda: _nested("SELECT * FROM (", "SELECT 1 AS a", ") AS s", 25),
    "500 subqueries": lambda: _nested("SELECT * FROM (", "SELECT 1 AS a", ") AS s", 500),
    "1,000 UNION ALL": lambda: " UNION ALL ".join(["SELECT k FROM db.t"] * 1000),
    "200 joins": lambda: "SELECT count(*) FROM db.t" + "".join(f" JOIN db.t AS t{n} ON t{n}.k = t.k" for n in range(200)),
    "30 CTEs that double": lambda: _doubling(30),
    "1,000 CTEs": lambda: "WITH " + ", ".join(f"c{n} AS (SELECT {n} AS a)" for n in range(1000)) + " SELECT * FROM c999",
    "VALUES of 100,000": lambda: "INSERT INTO db.t VALUES " + ", ".join(f"({n}, 1, 'a', 1.5, NULL)" for n in range(100_000)),
    "10,000 statements": lambda: "; ".join(["SELECT 1"] * 10_000),
    "a deep type": lambda: "CREATE TABLE db.deep (a " + _nested("ARRAY<", "INT", ">", 5000) + ")",
    "a deep list": lambda: "SELECT " + _nested("[", "1", "]", 5000),
    "a runaway recursion": lambda: "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r",
    "much memory": lambda: "SELECT count(*) FROM (SELECT DISTINCT range AS a, hash(range) AS b FROM range(1000000000000))",
    "a long list": lambda: "SELECT len(range(100000000000))",
    "a long text": lambda: "SELECT length(repeat('x', 100000000000))",
    "AND of 5,000": lambda: "DELETE FROM db.t WHERE " + " AND ".join(f"k <> {n + 10}" for n in range(5000)),
    "SET of 5,000": lambda: "UPDATE db.t SET " + ", ".join(["v = 1"] * 5000),
    "WHEN of 1,000": lambda: "MERGE INTO db.t USING db.t AS s ON t.k = s.k" + " WHEN MATCHED AND t.k = 1 THEN DELETE" * 1000,
    "options of 10,000": lambda: "CREATE TABLE db.o (k INT) WITH (" + ", ".join(f"'o{n}' = '1'" for n in range(10_000)) + ")",
    "CALL of 5,000": lambda: "CALL sys.compact(" + ", ".join(f"a{n} => 1" for n in range(5000)) + ")",
    "ALTER of 5,000": lambda: "ALTER TABLE db.t ADD COLUMNS (" + ", ".join(f"z{n} INT" for n in range(5000)) + ")",
}
VIEWS = ("200 views deep", "a view of itself", "two views of each other", "views that double", "a view of 5,000 columns")


def ask(argument: bytes) -> object:
    """Try one text in this process: the argument names the door, the text and the folder."""
    resource.setrlimit(resource.RLIMIT_AS, (2 * PEAK_BYTES, 2 * PEAK_BYTES))  # a text that takes all memory takes this process alone
    door, name, folder = json.loads(argument)
    began = time.perf_counter()
    try:
        _ask(door, name, Path(folder))
    finally:
        print(f"{time.perf_counter() - began:.2f} s", file=sys.stderr)
    return round(time.perf_counter() - began, 2)


def _ask(door: str, name: str, folder: Path) -> None:
    import polars as pl

    import lakekit as lk

    cat = lk.connect(folder, metastore="jdbc", uri=f"sqlite:///{folder}/catalog.db")
    cat.create_database("db", if_not_exists=True)
    schema = {"k": "INT", "v": "INT", "g": "STRING", "x": "DOUBLE", "d": "DATE"}
    t = cat.create_table("db.t", schema)
    t.append([{"k": k, "v": k % 3, "g": "a", "x": k / 4, "d": None} for k in range(6)])
    if door == "where":
        t.aggregate(pl.len(), where=CONDITIONS[name]())
    elif door == "delete":
        t.delete(CONDITIONS[name]())
    elif door == "sql where":
        cat.sql(f"SELECT count(*) AS n FROM db.t WHERE {CONDITIONS[name]()}").lazy().collect()
    elif door == "sql":
        cat.sql(STATEMENTS[name]()).lazy().collect()
    else:
        _view(cat, name)


def _view(cat: lk.Catalog, name: str) -> None:
    if name == "200 views deep":
        cat.create_view("db.v0", "SELECT k FROM db.t")
        for n in range(1, 200):
            cat.create_view(f"db.v{n}", f"SELECT k FROM db.v{n - 1}")
        cat.sql("SELECT * FROM db.v199").lazy().collect()
    elif name == "a view of itself":
        cat.create_view("db.v", "SELECT k FROM db.t")
        cat.sql("CREATE OR REPLACE VIEW db.v AS SELECT k FROM db.v")
        cat.sql("SELECT * FROM db.v").lazy().collect()
    elif name == "two views of each other":
        cat.create_view("db.v", "SELECT k FROM db.t")
        cat.create_view("db.w", "SELECT k FROM db.v")
        cat.sql("CREATE OR REPLACE VIEW db.v AS SELECT k FROM db.w")
        cat.sql("SELECT * FROM db.w").lazy().collect()
    elif name == "views that double":
        cat.create_view("db.v0", "SELECT k FROM db.t")
        for n in range(1, 30):
            cat.create_view(f"db.v{n}", f"SELECT a.k FROM db.v{n - 1} AS a JOIN db.v{n - 1} AS b ON a.k = b.k")
        cat.sql("SELECT count(*) AS n FROM db.v29").lazy().collect()
    else:
        cat.create_view("db.v", "SELECT " + ", ".join(f"k + {n} AS c{n}" for n in range(5000)) + " FROM db.t")
        cat.sql("SELECT * FROM db.v").lazy().collect()


def cases() -> list[tuple[str, str]]:
    """Return every door with the name of a text."""
    conditions = [(door, name) for door in ("where", "delete", "sql where") for name in CONDITIONS]
    return [*conditions, *(("sql", name) for name in STATEMENTS), *(("view", name) for name in VIEWS)]


def main() -> None:
    """Print how each text ends, with its seconds and the peak of its process."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    for door, name in cases():
        if word not in f"{door}: {name}":
            continue
        with tempfile.TemporaryDirectory() as folder, Child(SECONDS) as child:
            began = time.perf_counter()
            answer = child.ask("spec_tests.reliability.sql_heavy:ask", json.dumps([door, name, folder]).encode())
            took = time.perf_counter() - began
        found = str(answer.found).replace("\n", " ")[:110]
        fine = answer.end in ("value", "error") and answer.peak_bytes < PEAK_BYTES
        print(f"{'ok ' if fine else 'BAD'} {door}: {name}: {answer.end} {took:.1f} s {answer.peak_bytes >> 20} MB {found}", flush=True)


if __name__ == "__main__":
    main()
