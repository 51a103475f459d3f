"""Texts that try to get out of a warehouse: `python -m spec_tests.reliability.sql_cage` prints which did.

Every way to read a file, the network, the process or the caller's variables, at every place of a statement where rows or values stand; as statements, as
conditions, as stored views and as queries of materialized tables. And tables whose comments and options try to run statements when `to_sql` is read back.
"""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

import lakekit as lk
from lakekit.errors import LakekitError
from spec_tests.reliability.sql_mutants import MutantCounts, tried

_READERS = (
    *(
        f"{name}('FILE')"
        for name in ["read_csv", "read_csv_auto", "read_parquet", "parquet_scan", "read_json", "read_json_auto", "read_json_objects", "read_ndjson"]
    ),
    *(
        f"{name}('FILE')"
        for name in ["read_text", "read_blob", "sniff_csv", "parquet_metadata", "parquet_schema", "read_xlsx", "read_avro", "st_read", "glob", "scan_csv"]
    ),
    *(f"{name}('FILE', 'main', 't')" for name in ["sqlite_scan", "postgres_scan", "mysql_scan", "iceberg_scan", "delta_scan"]),
    "read_csv(['FILE', 'secret.csv'])",
    "read_text('*')",
    "read_text('../*/secret.csv')",
    "read_csv('http://127.0.0.1:PORT/x.csv')",
    "read_parquet('http://127.0.0.1:PORT/x')",
    "read_text('s3://127.0.0.1:PORT/x')",
    "'FILE'",
    '"FILE"',
    "`FILE`",
    "'secret.csv'",
    '"secret.csv"',
    "csv.`FILE`",
    "file('FILE')",
    "main.read_text('FILE')",
    "system.main.read_text('FILE')",
    "\"read_text\"('FILE')",
    "READ_TEXT('FILE')",
    "read_text/* */('FILE')",
    "TABLE(read_text('FILE'))",
    "query('SELECT * FROM read_text(''FILE'')')",
    "query_table('FILE')",
    "(SELECT getenv('LAKEKIT_SECRET') AS a)",
    "(SELECT current_setting('home_directory') AS a)",
    "(SELECT content AS a FROM read_text('FILE'))",
    "(PIVOT 'FILE' ON a)",
    "(DESCRIBE 'FILE')",
    "(FROM 'FILE')",
    "(VALUES ((SELECT content FROM read_text('FILE'))))",
    "hidden_frame",
    "python_map_function(1)",
    "arrow_scan(1, 2, 3)",
    "pandas_scan(140000000000000)",
    "duckdb_secrets()",
    "pragma_database_list()",
)
_PLACES = (
    "SELECT * FROM READER",
    "SELECT * FROM db.t JOIN READER AS r ON TRUE",
    "SELECT * FROM db.t, READER AS r",
    "SELECT * FROM (SELECT * FROM READER) AS q",
    "WITH c AS (SELECT * FROM READER) SELECT * FROM c",
    "WITH RECURSIVE c AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM c, READER AS r WHERE i < 2) SELECT * FROM c, READER AS r",
    "SELECT k FROM db.t UNION ALL SELECT * FROM READER",
    "SELECT k, (SELECT max(r) FROM READER AS r) FROM db.t",
    "SELECT * FROM db.t WHERE EXISTS (SELECT * FROM READER)",
    "SELECT * FROM db.t, LATERAL (SELECT * FROM READER) AS l",
    "SELECT * FROM db.t ORDER BY (SELECT max(r) FROM READER AS r)",
    "SELECT * FROM db.t LIMIT (SELECT count(*) FROM READER)",
    "CREATE TABLE db.z AS SELECT * FROM READER",
    "INSERT INTO db.t SELECT * FROM READER",
    "DELETE FROM db.t WHERE k IN (SELECT 1 FROM READER)",
    "UPDATE db.t SET g = (SELECT max(r) FROM READER AS r)",
    "MERGE INTO db.t USING READER AS s ON TRUE WHEN MATCHED THEN DELETE",
    "EXPLAIN ANALYZE SELECT * FROM READER",
    "DESCRIBE SELECT * FROM READER",
    "SUMMARIZE SELECT * FROM READER",
    "COPY (SELECT * FROM READER) TO 'out.csv'",
    "CREATE TEMPORARY VIEW w AS SELECT * FROM READER; SELECT * FROM w",
    "PREPARE p AS SELECT * FROM READER; EXECUTE p",
    "CREATE MACRO m() AS TABLE SELECT * FROM READER; SELECT * FROM m()",
    "SHOW TABLES FROM READER",
    "CALL READER",
)
_STATEMENTS = (
    "ATTACH 'FILE' AS o; SELECT * FROM o.t",
    "ATTACH 'made.db' AS o",
    "COPY db.t FROM 'FILE'",
    "COPY db.t TO 'out.csv'",
    "COPY (SELECT * FROM db.t) TO 'out.parquet' (FORMAT parquet)",
    "EXPORT DATABASE 'dump'",
    "IMPORT DATABASE '.'",
    "INSTALL httpfs FROM 'http://127.0.0.1:PORT'",
    "LOAD 'FILE'",
    "SET enable_external_access = true; SELECT * FROM read_text('FILE')",
    "SET lock_configuration = false; SET enable_external_access = true; SELECT * FROM read_text('FILE')",
    "SET allowed_paths = ['FILE']; SELECT * FROM read_text('FILE')",
    "RESET enable_external_access; SELECT * FROM read_text('FILE')",
    "PRAGMA enable_profiling; PRAGMA profiling_output = 'out.json'; SELECT * FROM db.t",
    "SET log_query_path = 'out.log'; SELECT 1",
    "SET temp_directory = 'here'; SELECT 1",
    "SET VARIABLE f = 'FILE'; SELECT * FROM read_text(getvariable('f'))",
    "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b'); SELECT * FROM read_text('FILE')",
    "SELECT * FROM db.t /*+ OPTIONS('scan.snapshot-id'='1', 'x'='y') */ JOIN read_text('FILE') ON TRUE",
    "SELECT write_log('x'); SELECT * FROM duckdb_logs()",
    "CREATE TABLE db.z (k INT) WITH ('path' = 'WORK/elsewhere')",
    "CREATE TABLE `../../work/z` (k INT)",
    "CREATE TABLE db.`../../../work/z` (k INT)",
    "SELECT * FROM db.`../../work/secret.csv`",
    "CREATE DATABASE `../work`",
    "CALL sys.migrate('FILE', 'db.z')",
    "CALL sys.clone('WORK', 'db.z')",
    "CREATE EXTERNAL TABLE db.z (a STRING) STORED AS CSV LOCATION 'WORK'",
)
_CONDITIONS = (
    "g IN (SELECT content FROM READER)",
    "EXISTS (SELECT * FROM READER)",
    "(SELECT max(r) FROM READER AS r) IS NOT NULL",
    "g = (SELECT content FROM READER LIMIT 1)",
    "k = 1; SELECT * FROM READER",
    "k = 1 UNION SELECT * FROM READER",
    "getenv('LAKEKIT_SECRET') IS NOT NULL",
    "g = getenv('LAKEKIT_SECRET')",
    "READER",
)


def statements(folder: Path, port: int) -> list[str]:
    """Return every way out at every place."""
    texts = [place.replace("READER", reader) for place in _PLACES for reader in _READERS] + list(_STATEMENTS)
    return [_placed(text, folder, port) for text in texts]


def conditions(folder: Path, port: int) -> list[str]:
    """Return every way out in a condition."""
    return [_placed(place.replace("READER", reader), folder, port) for place in _CONDITIONS for reader in _READERS]


def _placed(text: str, folder: Path, port: int) -> str:
    work = folder / "scratch" / "work"
    return text.replace("FILE", str(work / "secret.csv")).replace("WORK", str(work)).replace("PORT", str(port))


_SIGNS = (
    "'",
    "\\",
    ";",
    "--",
    "/*",
    "*/",
    "\n",
    "$$",
    '"',
    "`",
    "'; DROP TABLE shop.orders; --",
    "\\'; DROP TABLE shop.orders; --",
    "')",
    "%",
    "\u2019",
    "é",
    "a",
    "''",
    "\\\\'",
)


def escapes(folder: Path, count: int, seed: int = 1) -> tuple[Counter[str], list[tuple[str, str]]]:
    """Create tables with drawn comments and options, run their `to_sql`, and return the counts and what went wrong."""
    rng = Random(seed)
    cat = lk.connect(folder)
    cat.create_database("shop")
    cat.create_table("shop.orders", {"k": "INT"})
    counts: Counter[str] = Counter()
    wrong: list[tuple[str, str]] = []
    for at in range(count):
        comment, value, note, default = ("".join(rng.choices(_SIGNS, k=rng.randint(1, 5))) for _ in range(4))
        schema = [lk.Field("k", "INT", comment=note), lk.Field("s", "STRING")]
        try:
            made = cat.create_table(f"shop.evil{at}", schema, comment=comment, options={"mine": value, "fields.s.default-value": default})
        except (LakekitError, TypeError) as refused:
            counts[f"not created: {type(refused).__name__}"] += 1
            continue
        before = set(cat.tables("shop")["table"])
        try:
            cat.sql(made.to_sql().replace(f"evil{at}", f"copy{at}"))
        except LakekitError as refused:
            counts["refused"] += 1
            wrong.append((f"to_sql cannot be read: {str(refused)[:200]}", repr((comment, value, note, default))))
            continue
        after = set(cat.tables("shop")["table"])
        if after - before != {f"copy{at}"} or before - after:
            wrong.append(("a statement ran", repr((comment, value, note, default))))
        elif cat.table(f"shop.copy{at}").to_sql().replace(f"copy{at}", f"evil{at}") != made.to_sql():
            wrong.append(("the copy differs", repr((comment, value, note, default))))
        else:
            counts["read back"] += 1
    return counts, wrong


def main() -> None:
    """Print what got out."""
    asked: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_PUT = do_POST = do_GET  # noqa: N815 - the names of http.server

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    for door in ("sql", "view", "materialized", "where", "delete"):
        counts = MutantCounts()
        with tempfile.TemporaryDirectory() as named:
            folder = Path(named)
            texts = conditions(folder, port) if door in ("where", "delete") else statements(folder, port)
            if door in ("view", "materialized"):
                texts = [text for text in texts if text.startswith(("SELECT", "WITH"))]
            tried(door, texts, folder, counts)
        print(f"{door}: {counts.tried} texts, {dict(counts.counts)}, {len(counts.wrong)} wrong, {len(asked)} requests")
        for what, many in Counter(what.split("\n")[0][:90] for what, _ in counts.wrong).most_common(20):
            text = min((text for other, text in counts.wrong if other.split("\n")[0][:90] == what), key=len)
            print(f"  {many:5d} {what}\n        {text[:300]!r}")
    with tempfile.TemporaryDirectory() as named:
        ends, wrong = escapes(Path(named), 200)
    print(f"to_sql: {dict(ends)}, {len(wrong)} wrong")
    for what, text in wrong[:10]:
        print(f"  {what}\n        {text}")


if __name__ == "__main__":
    main()
