"""Mutated texts of SQL through `cat.sql` and the conditions of a table, in child processes that may die of them.

`python -m spec_tests.reliability.sql_mutants COUNT [SEED] [DOOR]` prints what went wrong: a process that died, an error that is no `LakekitError`, a text that
took `SLOW` seconds of the processor or `STUCK` seconds, a file outside of the warehouse that was made, changed or shown.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


DOORS = ("sql", "where", "delete", "update")
SLOW = 5.0
STUCK = 60.0
_BATCH = 500
_SECRET = "swordfish-7261"
_MEMORY = 6 << 30

STATEMENTS = (
    "SELECT k, sum(v) OVER (PARTITION BY g ORDER BY k) FROM db.t WHERE NOT v = 1 AND g IN ('a', NULL) ORDER BY 1 LIMIT 3",
    "SELECT g, count(*) FROM db.t GROUP BY g HAVING count(*) > 1",
    "WITH c AS (SELECT * FROM db.t), d AS (SELECT k FROM c) SELECT * FROM c JOIN d USING (k) LEFT JOIN db.s ON s.k = c.k",
    "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT * FROM r",
    "SELECT * FROM db.`t$snapshots`",
    "SELECT * FROM db.t FOR SYSTEM_VERSION AS OF 1",
    "SELECT * FROM db.t /*+ OPTIONS('scan.snapshot-id'='1') */ WHERE k > 0",
    "SELECT * FROM table_changes('db.t', 0, 1)",
    "SELECT s.a FROM db.t, UNNEST([1, 2, 3]) AS s(a)",
    "PIVOT db.t ON g USING sum(v)",
    "INSERT INTO db.t VALUES (9, 1, 'x', 1.5, DATE '2024-01-01')",
    "INSERT OVERWRITE db.t PARTITION (g = 'a') SELECT k, v, x, d FROM db.s",
    "INSERT INTO db.t BY NAME SELECT * FROM db.s",
    "UPDATE db.t SET v = v + 1, g = upper(g) WHERE k BETWEEN 1 AND 3",
    "DELETE FROM db.t WHERE d < DATE '2024-03-31' OR g LIKE 'a%' ESCAPE '!'",
    "MERGE INTO db.t AS t USING db.s AS s ON t.k = s.k WHEN MATCHED AND t.v < s.v THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
    "CREATE TABLE db.n (k INT NOT NULL, v DECIMAL(9, 2), a ARRAY<INT>, r ROW<x INT, y STRING>, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1')",
    "CREATE TABLE db.n2 PARTITIONED BY (g) AS SELECT * FROM db.t",
    "CREATE OR REPLACE VIEW db.v AS SELECT k, v FROM db.t",
    "CREATE TEMPORARY VIEW w AS SELECT 1 AS one",
    "ALTER TABLE db.t ADD COLUMN z INT",
    "ALTER TABLE db.t SET ('snapshot.num-retained.max' = '5')",
    "DROP TABLE IF EXISTS db.n",
    "TRUNCATE TABLE db.s",
    "SHOW TABLES FROM db LIKE 't%'",
    "SHOW CREATE TABLE db.t",
    "DESCRIBE db.t",
    "SUMMARIZE db.t",
    "EXPLAIN ANALYZE SELECT * FROM db.t WHERE k = 1",
    "CALL sys.compact(table => 'db.t')",
    "CALL sys.create_tag('db.t', 'one', 1)",
    "USE db; SELECT * FROM t; SET 'a' = 'b'",
    "COPY (SELECT * FROM db.t) TO 'out.csv'",
    "SELECT * FROM 'secret.csv'",
    "SELECT * FROM read_csv('secret.csv')",
    "SELECT content FROM read_text('*')",
    "ATTACH 'other.db' AS o; CREATE TABLE o.x AS SELECT 1",
    "INSTALL httpfs; LOAD httpfs",
    "SELECT getenv('LAKEKIT_SECRET'), current_setting('home_directory')",
    "CREATE SECRET one (TYPE s3, KEY_ID 'k', SECRET 's')",
    "EXPORT DATABASE 'dump'; PRAGMA database_list",
    "SET enable_external_access = true; SET threads = 64",
)
CONDITIONS = (
    "NOT v = 1 AND g IN ('a', NULL) OR d < DATE '2024-03-31'",
    "x BETWEEN 1.5 AND 2e3 AND g LIKE 'a!%' ESCAPE '!'",
    "CASE WHEN k % 2 = 0 THEN TRUE ELSE NULL END IS NOT FALSE",
    "CAST(g AS INT) > 1 OR TRY_CAST(g AS DATE) IS NULL",
    "coalesce(upper(g) || 'x', '') <> substr(g, 1, 2)",
    "k IN (SELECT k FROM db.s)",
    "extract(year FROM d) = 2024 AND date_trunc('month', d) = d",
    "v & 3 = 1 AND k ** 2 < 1e300 AND -(-v) = v",
    "(k, v) IN ((1, 2), (3, 4))",
)
_PIECES = (*"()[]{}'\"`;,.:?%*+-/=<>@#~^&|!\0\n\t\\é🙂\u202e\ufeff", "--", "/*", "*/", "/*+", "$$", "$1", ":a", "||", "::", "->", "日本")
_PIECES += ("NULL", "9" * 40, "1e999", "0x", "x'", "e'", "NaN", "AND", "NOT", "SELECT", "FROM", "db.t", "CASE", "END", "AS", "UNION", "self")
_PIECES += ("'" + "a" * 300 + "'", "-9223372036854775809", "INTERVAL", "CAST(", "::BLOB", "OVER (", "ROW<", "secret.csv", "'/etc/passwd'")


def mutants(texts: tuple[str, ...], seed: int) -> Iterator[str]:
    """Yield texts cut at every character first, then mutated at random without end."""
    for text in texts:
        for at in range(len(text) + 1):
            yield text[:at]
    rng = Random(seed)
    while True:
        text = rng.choice(texts)
        for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
            text = _mutated(text, rng, texts)
        yield text


def _mutated(text: str, rng: Random, texts: tuple[str, ...]) -> str:
    at, end = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
    match rng.randrange(8):
        case 0:
            return text[:at] + rng.choice(_PIECES) + text[at:]
        case 1:
            return text[:at] + text[min(at + rng.randint(1, 4), len(text)) :]
        case 2:
            return text[:at] + text[end:] if end - at < 20 else text[:at] + text[at + 20 :]
        case 3:
            return text[:end] + text[at:end] * rng.choice((1, 2, 20)) + text[end:]
        case 4:
            words = text.split(" ")
            a, b = rng.randrange(len(words)), rng.randrange(len(words))
            words[a], words[b] = words[b], words[a]
            return " ".join(words)
        case 5:
            words = text.split(" ")
            words[rng.randrange(len(words))] = rng.choice(_PIECES)
            return " ".join(words)
        case 6:
            other = rng.choice(texts)
            return text[:at] + other[rng.randint(0, len(other)) :]
        case _:
            return text[:at] + chr(rng.choice((rng.randrange(32), rng.randrange(128), rng.randrange(0xD800)))) + text[at + 1 :]


# ---- the child ---------------------------------------------------------------------------------------------------------------------


def warehouse(folder: Path) -> None:
    """Make the warehouse that texts are tried on."""
    import lakekit as lk

    cat = lk.connect(folder)
    cat.create_database("db")
    schema = {"k": "INT", "v": "INT", "g": "STRING", "x": "DOUBLE", "d": "DATE"}
    for name, options in (("t", {"partition_keys": ["g"]}), ("s", {})):
        cat.create_table(f"db.{name}", schema, **options).append([{"k": k, "v": k % 3, "g": "ab"[k % 2], "x": k / 4, "d": None} for k in range(6)])


def _child(door: str, texts: list[str], made: Path, scratch: Path) -> None:
    """Try texts one by one; lines of JSON that say where it is, how each text ended and what was wrong: a child that dies has told of those before."""
    from lakekit.errors import LakekitError

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = _MEMORY if hard == resource.RLIM_INFINITY else min(_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    with suppress(LakekitError):  # what is imported, is imported before a text is timed
        shutil.copytree(made, scratch / "lake", dirs_exist_ok=True)
        _tried(door, "SELECT 1" if door in ("sql", "view", "materialized") else "k = 1", scratch / "lake")
    for at, text in enumerate(texts):
        if at % 100 == 0:
            shutil.rmtree(scratch / "lake", ignore_errors=True)
            shutil.copytree(made, scratch / "lake")
        print(json.dumps({"at": at}), flush=True)
        began, worked = time.perf_counter(), time.process_time()
        try:
            shown = _tried(door, text, scratch / "lake")
            print(json.dumps({"counts": {"answered": 1}}), flush=True)
            if _SECRET in shown:
                print(json.dumps({"wrong": "a file is shown", "text": text}), flush=True)
        except LakekitError as wrong:
            print(json.dumps({"counts": {"refused": 1}}), flush=True)
            if _SECRET in str(wrong):
                print(json.dumps({"wrong": "an error shows a file", "text": text}), flush=True)
        except BaseException as wrong:  # noqa: BLE001 - what a caller would meet
            print(json.dumps({"counts": {"raised": 1}, "wrong": f"{type(wrong).__name__}: {str(wrong)[:300]}", "text": text}), flush=True)
        took, busy = time.perf_counter() - began, time.process_time() - worked  # on a busy machine, a text waits
        if took > STUCK or busy > SLOW:
            print(json.dumps({"wrong": f"slow: {took:.1f} s, {busy:.1f} s of the processor", "text": text}), flush=True)


def _tried(door: str, text: str, lake: Path) -> str:
    import polars as pl

    import lakekit as lk

    hidden_frame = pl.DataFrame({"a": [_SECRET]})  # noqa: F841 - DuckDB would find it by name
    cat = lk.connect(lake)
    if door == "sql":
        return _shown(cat.sql(text))
    t = cat.table("db.t")
    if door == "view":
        cat.create_view("db.v", text, temporary=True)
        return _shown(cat.sql("SELECT * FROM db.v"))
    if door == "materialized":
        cat.create_materialized_table("db.m", text, freshness="1 h").refresh(force=True)
        return _shown(cat.table("db.m").scan())
    if door == "death" and text == "die":  # by which the counts of a child that dies are tried
        os.abort()
    if door in ("where", "death"):
        return _shown(t.aggregate(pl.len(), where=text))
    if door == "delete":
        return str(t.delete(text))
    return str(t.update({"v": text if "SELECT" in text else "v + 1"}, where=text))


def _shown(answer: Any) -> str:
    import polars as pl

    if isinstance(answer, pl.LazyFrame):
        answer = answer.head(1000).collect()
    return str(answer.rows()[:1000]) if isinstance(answer, pl.DataFrame) else str(answer)


# ---- the parent --------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class MutantCounts:
    """What mutated texts did."""

    tried: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, str]] = field(default_factory=list)


def tried(door: str, texts: list[str], folder: Path, counts: MutantCounts) -> None:
    """Try texts in children below `folder`, and count; a child that dies is told with its text, and the next goes on behind it."""
    made = folder / "made"
    if not made.exists():
        warehouse(made)
    while texts:
        scratch = folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        for name in ("work", "tmp", "lake"):
            (scratch / name).mkdir(parents=True)
        (scratch / "work" / "secret.csv").write_text(f"a,b\n{_SECRET},1\n")
        (scratch / "texts.json").write_text(json.dumps(texts[:_BATCH]))
        before = _files(scratch / "work")
        env = {**os.environ, "HOME": str(scratch / "work"), "TMPDIR": str(scratch / "tmp"), "LAKEKIT_SECRET": _SECRET, "PYTHONWARNINGS": "ignore"}
        words = [sys.executable, "-m", "spec_tests.reliability.sql_mutants", "--child", door, str(made), str(scratch)]
        with (scratch / "log").open("wb") as log:
            try:
                done = subprocess.run(words, env=env, cwd=scratch / "work", stdout=log, stderr=subprocess.STDOUT, timeout=600, check=False).returncode
            except subprocess.TimeoutExpired:
                done = -1000
        last = _read(scratch / "log", counts)
        if done and last < 0:
            msg = f"no text was tried, the process ended with {done}: {(scratch / 'log').read_text(errors='replace')[-1000:]}"
            raise AssertionError(msg)
        if done:
            text = texts[last]
            counts.counts["died"] += 1
            counts.wrong.append((f"the process ended with {done}: {(scratch / 'log').read_text(errors='replace')[-300:]}", text))
            counts.tried += last + 1
            texts = texts[last + 1 :]
        else:
            counts.tried += len(texts[:_BATCH])
            texts = texts[_BATCH:]
        if (after := _files(scratch / "work")) != before:
            counts.wrong.append((f"files outside: {sorted(set(after.items()) ^ set(before.items()))}", "one of the batch"))


def _files(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*")}


def _read(log: Path, counts: MutantCounts) -> int:
    last = -1
    for line in log.read_text(errors="replace").splitlines():
        if not line.startswith("{"):
            continue
        told = json.loads(line)
        last = told.get("at", last)
        counts.counts.update(told.get("counts", {}))
        if "wrong" in told:
            counts.wrong.append((told["wrong"], told["text"]))
    return last


def main() -> None:
    """Try mutated texts, and print what went wrong."""
    if sys.argv[1] == "--child":
        scratch = Path(sys.argv[4])
        _child(sys.argv[2], json.loads((scratch / "texts.json").read_text()), Path(sys.argv[3]), scratch)
        return
    count = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    doors = sys.argv[3:4] or ["sql", "where", "delete", "update"]
    for door in doors:
        drawn = mutants(STATEMENTS if door == "sql" else CONDITIONS, seed)
        texts = [next(drawn) for _ in range(count)]
        counts = MutantCounts()
        with tempfile.TemporaryDirectory() as folder:
            tried(door, texts, Path(folder), counts)
        print(f"{door}: {counts.tried} texts, {dict(counts.counts)}, {len(counts.wrong)} wrong")
        for what, many in Counter(what.split("\n")[0][:90] for what, _ in counts.wrong).most_common(40):
            text = min((text for other, text in counts.wrong if other.split("\n")[0][:90] == what), key=len)
            print(f"  {many:5d} {what}\n        {text[:300]!r}")


if __name__ == "__main__":
    main()
