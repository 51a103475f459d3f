"""What a query may not do: open files, read the machine, grow without bounds. Tried with every function that DuckDB lists."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import duckdb
import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.errors import LakekitError, LimitExceeded, SqlError, Unsupported
from lakekit.sql.query_refusal import ALLOWED_TABLE_FUNCTIONS, FILE_FUNCTIONS
from lakekit.sql.query_scan import QueryScan

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "the-secret-of-the-file"
DUCKDB = duckdb.connect()
TABLES = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('table', 'table_macro', 'pragma')"
LISTED = sorted(name for (name,) in DUCKDB.sql(TABLES).fetchall())
SCALARS = sorted(
    {
        name
        for (name,) in DUCKDB.sql("SELECT function_name FROM duckdb_functions() WHERE function_type IN ('scalar', 'macro')").fetchall()
        if name.isidentifier() and not name.startswith(("collate_", "icu_collate_", "__internal"))
    }
)
VIEWS = sorted({name for (name,) in DUCKDB.sql("SELECT view_name FROM duckdb_views() WHERE internal").fetchall()})
READS_THE_MACHINE = ("getenv", "getvariable", "current_setting", "current_user", "user", "session_user", "current_database", "version", "pg_conf_load_time")


SETTINGS = {
    "allow_community_extensions": "False",
    "allow_unsigned_extensions": "False",
    "autoinstall_known_extensions": "False",
    "autoload_known_extensions": "False",
    "enable_external_access": "False",
    "enable_progress_bar": "False",
    "lock_configuration": "True",
    "max_temp_directory_size": "29.8 GiB",
    "memory_limit": "95.3 MiB",
    "python_enable_replacements": "False",
    "temp_directory": "<scratch folder>",
    "threads": "<cores>",
    "TimeZone": "UTC",
}
"""What DuckDB says of each setting in a connection that runs a query."""
TELL_SETTINGS = """
import sys
from lakekit import runtime
from lakekit.expressions.parser import SqlText
from lakekit.parallel import core_count
from lakekit.sql.cage import QueryLimit, QueryRun
first = runtime.scratch_folder().rpartition("-")[0]
for files in (False, True):
    run = QueryRun(QueryLimit(memory="100000000 B", files=files), SqlText("")).open()
    for name in sys.argv[1:]:
        value = str(run.relation(f"SELECT current_setting('{name}')").fetchall()[0][0])
        value = "<scratch folder>" if value.startswith(first) else value
        print(files, name, "<cores>" if value == str(core_count()) else value, sep="|")
"""


def test_every_setting_reaches_the_connections_that_run_queries():
    """In a process that reads its program from no file, as a notebook's, DuckDB's own defaults are others."""
    ran = subprocess.run([sys.executable, "-c", TELL_SETTINGS, *SETTINGS], capture_output=True, text=True, check=True)
    found = [line.split("|") for line in ran.stdout.splitlines()]
    assert {name: value for files, name, value in found if files == "False"} == SETTINGS
    assert {name: value for files, name, value in found if files == "True"} == {**SETTINGS, "enable_external_access": "True"}


def test_no_setting_of_the_cage_is_of_one_connection_alone():
    """Another connection than the one that sets it would not have it."""
    scopes = dict(DUCKDB.sql("SELECT name, scope FROM duckdb_settings()").fetchall())
    own = {name for name in SETTINGS if scopes[name] != "GLOBAL"}
    assert own == {"enable_progress_bar"}, "which is off in every connection but the first, and stays off"


@pytest.fixture
def cat(tmp_path: Path):
    (tmp_path / "x.csv").write_text(f"a\n{SECRET}\n")
    made = lk.connect(tmp_path / "lake")
    made.sql("CREATE DATABASE d; CREATE TABLE d.t (k INT, s STRING); INSERT INTO d.t VALUES (1, 'a')")
    return made


REFUSALS = ("Unsupported", "SqlError", "TableNotFound", "DatabaseNotFound", "InvalidOption")


def answer(cat, text: str, **options: object) -> str:
    """Return all that a statement gives, or the class of its error."""
    try:
        found = cat.sql(text, **options)
        return repr((found.collect() if hasattr(found, "collect") else found).rows())
    except LakekitError as wrong:
        assert SECRET not in str(wrong)
        return type(wrong).__name__


@pytest.mark.parametrize("name", LISTED)
def test_a_table_function_is_refused_or_harmless(cat, tmp_path, name):
    for arguments in ("", f"'{tmp_path}/x.csv'", f"'SELECT * FROM read_csv(''{tmp_path}/x.csv'')'", "'d.t'"):
        for text in (
            f"SELECT * FROM {name}({arguments})",
            f'SELECT * FROM "{name}"({arguments})',
            f"SELECT * FROM main.{name}({arguments})",
            f"SELECT k FROM d.t, {name}({arguments})",
            f"SELECT k FROM d.t WHERE s IN (SELECT * FROM {name}({arguments}))",
            f"WITH c AS (SELECT * FROM {name}({arguments})) SELECT * FROM c",
        ):
            found = answer(cat, text)
            assert SECRET not in found, text
            assert "memory" not in found, text
            if name not in ALLOWED_TABLE_FUNCTIONS:
                assert found in ("Unsupported", "SqlError", "TableNotFound", "DatabaseNotFound"), (text, found)


@pytest.mark.parametrize("name", sorted({*SCALARS, "getenv"}))
def test_a_scalar_function_reads_no_file_and_nothing_of_the_machine(cat, tmp_path, monkeypatch, name):
    monkeypatch.setenv("LAKEKIT_CANARY", SECRET)
    for arguments in ("", f"'{tmp_path}/x.csv'", "'LAKEKIT_CANARY'", "'home_directory'", f"'SELECT * FROM read_text(''{tmp_path}/x.csv'')'"):
        assert SECRET not in answer(cat, f"SELECT {name}({arguments}) AS v"), (name, arguments)
    if name in READS_THE_MACHINE:
        with pytest.raises((Unsupported, SqlError)):
            cat.sql(f"SELECT {name}('x')")
        with pytest.raises((Unsupported, SqlError)):
            cat.sql(f"SELECT {name}()")


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_duckdbs_own_catalog_are_no_tables(cat, name):
    for text in (f"SELECT * FROM {name}", f"SELECT * FROM pg_catalog.{name}", f"SELECT * FROM information_schema.{name}", f"SELECT * FROM system.main.{name}"):
        with pytest.raises(LakekitError):
            cat.sql(text).collect()
    with pytest.raises(LakekitError):  # a WITH of that name elsewhere does not open it
        cat.sql(f"SELECT * FROM (WITH {name} AS (SELECT 1) SELECT * FROM {name}) AS a, {name} AS b").collect()


FILES = [
    "SELECT * FROM '{path}'",
    'SELECT * FROM "{path}"',
    "SELECT * FROM `{path}`",
    "FROM '{path}'",
    "TABLE '{path}'",
    "SELECT k FROM d.t JOIN '{path}' AS f ON true",
    "SELECT * FROM d.t WHERE s = (SELECT max(a) FROM '{path}')",
    "SELECT * FROM (SELECT * FROM '{path}')",
    "PIVOT '{path}' ON a",
    "DESCRIBE '{path}'",
    "SUMMARIZE '{path}'",
    "SELECT * FROM (SUMMARIZE '{path}')",
    "SELECT * FROM (DESCRIBE SELECT 1)",
    "SELECT * FROM (SHOW TABLES)",
    "COPY d.t TO '{path}.out'",
    "COPY d.t FROM '{path}'",
    "ATTACH '{path}' AS a",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "SET memory_limit = '1TB'",
    "EXPORT DATABASE '{path}'",
    "IMPORT DATABASE '{path}'",
    "CREATE MACRO m() AS 1",
    "CREATE SECRET s (TYPE s3)",
    "CHECKPOINT",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('d.t')",
    "SELECT COLUMNS(*) FROM read_csv('{path}')",
    "INSERT INTO d.t SELECT 2, a FROM read_csv('{path}')",
    "CREATE TABLE d.stolen AS SELECT * FROM read_csv('{path}')",
    "DELETE FROM d.t WHERE s IN (SELECT a FROM read_csv('{path}'))",
    "MERGE INTO d.t USING (SELECT a FROM read_csv('{path}')) s ON t.s = s.a WHEN MATCHED THEN DELETE",
    "CREATE TEMPORARY VIEW d.v AS SELECT * FROM read_csv('{path}')",
    "CREATE MATERIALIZED TABLE d.m FRESHNESS = INTERVAL '1' HOUR AS SELECT * FROM read_csv('{path}')",
    "SELECT * FROM 'http://127.0.0.1:9/x.parquet'",
    "SELECT * FROM read_parquet('http://127.0.0.1:9/x')",
    "SELECT * FROM df",
    "SELECT * FROM cat",
]


@pytest.mark.parametrize("text", FILES)
def test_files_settings_and_variables_are_out_of_reach(cat, tmp_path, text):
    df = duckdb.sql("SELECT 1 AS a")  # noqa: F841 - a replacement scan would find it
    text = text.format(path=tmp_path / "x.csv")
    found = answer(cat, text)
    assert found[0] != "[" or found == "[]", (text, found)
    assert cat.tables("d")["table"].to_list() == ["t"]
    assert answer(cat, "SELECT * FROM d.t") == "[(1, 'a')]"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "x.csv"]


def test_files_are_read_where_the_caller_says_so(cat, tmp_path):
    text = f"SELECT * FROM read_csv('{tmp_path}/x.csv')"
    assert SECRET in answer(cat, text, files=True)
    assert answer(cat, text) == "Unsupported"
    assert answer(cat, "SELECT * FROM duckdb_settings()", files=True) == "Unsupported"
    with pytest.raises(Unsupported):
        cat.create_view("d.v", text, temporary=True)
    assert {"read_csv", "read_parquet", "read_json"} <= FILE_FUNCTIONS


# ---- what lies in a lake ---------------------------------------------------------------------------------------------


@pytest.fixture
def shared(tmp_path: Path):
    """A catalog whose views others may write, and a function that writes one as they would."""
    (tmp_path / "x.csv").write_text(f"a\n{SECRET}\n")
    made = lk.connect(tmp_path / "lake", metastore="jdbc", uri=f"sqlite:///{tmp_path}/db")
    made.sql("CREATE DATABASE d; CREATE TABLE d.t (k INT); INSERT INTO d.t VALUES (1)")
    made.create_view("d.first", "SELECT k FROM t")

    def plant(name: str, query: str, columns: tuple[str, ...] = ("k",)) -> None:
        with sqlite3.connect(tmp_path / "db") as database:
            [(table,)] = database.execute("SELECT name FROM sqlite_master WHERE name LIKE '%view%' AND type = 'table'").fetchall()
            names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            [row] = database.execute(f"SELECT * FROM {table} WHERE {names[2]} = 'first'").fetchall()
            text = json.dumps({"fields": [{"id": at, "name": column, "type": "INT"} for at, column in enumerate(columns)], "query": query, "dialects": {}})
            planted = ["d" if value == "d" else name if value == "first" else text if "query" in str(value) else value for value in row]
            database.execute(f"DELETE FROM {table} WHERE {names[2]} = ?", (name,))
            database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", planted)

    return made, plant


def test_a_stored_view_reads_no_file(shared, tmp_path):
    cat, plant = shared
    path = tmp_path / "x.csv"
    for query in (f"SELECT a AS k FROM read_csv('{path}')", f"SELECT a AS k FROM '{path}'", "SELECT getenv('HOME') AS k", "SELECT k FROM c.d.t"):
        plant("evil", query)
        for files in (False, True):
            assert answer(cat, "SELECT * FROM d.evil", files=files) in REFUSALS, query
        with pytest.raises(LakekitError):
            cat["d.evil"].scan().collect()


def test_a_materialized_table_is_refreshed_from_its_catalog_alone(shared, tmp_path):
    cat, _ = shared
    made = cat.create_materialized_table("d.m", "SELECT CAST(k AS STRING) AS a FROM d.t", freshness="1 h")
    assert made.query
    cat.sql(f"ALTER TABLE d.m SET ('materialized-table.definition-query' = 'SELECT a FROM read_csv(''{tmp_path}/x.csv'')')")
    with pytest.raises(Unsupported):
        cat["d.m"].refresh(force=True)
    assert answer(cat, "SELECT a FROM d.m") == "[('1',)]"


def test_views_of_views_have_bounds(shared):
    cat, plant = shared
    plant("itself", "SELECT k FROM itself")
    plant("one", "SELECT k FROM two")
    plant("two", "SELECT k FROM one")
    plant("v0", "SELECT a.k FROM t AS a JOIN t AS b USING (k)")
    for depth in range(1, 12):
        plant(f"v{depth}", f"SELECT a.k FROM v{depth - 1} AS a JOIN v{depth - 1} AS b USING (k)")
    plant("w0", "SELECT k FROM t")
    for depth in range(1, 20):
        plant(f"w{depth}", f"SELECT k FROM w{depth - 1}")
    plant("wide", "SELECT " + " + ".join(["k"] * 60_000) + " AS k FROM t")
    for name in ("itself", "one", "v9", "v11", "w17", "wide"):
        began = time.monotonic()
        with pytest.raises((LimitExceeded, SqlError)):
            cat[f"d.{name}"].scan().collect()
        with pytest.raises((LimitExceeded, SqlError)):
            cat.sql(f"SELECT * FROM d.{name}").collect()
        assert time.monotonic() - began < 5, name
    assert cat["d.w15"].scan().collect().rows() == [(1,)]
    assert cat["d.v3"].scan().collect().rows() == [(1,)]


def test_the_schema_of_a_table_is_read_once_for_each_time_it_is_named(shared, monkeypatch):
    """A view that is named twice by each view above it: what is opened grows with the names, not with their square."""
    cat, plant = shared
    plant("v0", "SELECT a.k FROM t AS a JOIN t AS b USING (k)")
    for depth in range(1, 7):
        plant(f"v{depth}", f"SELECT a.k FROM v{depth - 1} AS a JOIN v{depth - 1} AS b USING (k)")
    read, count = QueryScan.fields, []
    monkeypatch.setattr(QueryScan, "fields", lambda scan: count.append(scan.name) or read(scan))
    assert answer(cat, "SELECT k FROM d.v6") == "[(1,)]"
    assert len(count) <= 3 * 2**7


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 500 + "1" + ")" * 500,
        "SELECT " + "CASE WHEN true THEN " * 200 + "1" + " ELSE 0 END" * 200,
        "SELECT " + " + ".join(["1"] * 5000),
        "SELECT " + " || ".join(["'a'"] * 5000),
        " UNION ALL ".join(["SELECT 1"] * 1000),
        "SELECT " + ", ".join(f"{at} AS c{at}" for at in range(5000)),
        "SELECT " + "NOT " * 3000 + "true",
        "SELECT " + "- " * 3000 + "1",
        "SELECT " + "abs(" * 31 + "1" + ")" * 31,
        "SELECT 1 FROM " + ", ".join(f"range(1) AS r{at}" for at in range(300)),
    ],
    ids=lambda text: text[:30],
)
def test_deep_and_wide_texts_end_in_bounded_time(cat, text):
    began = time.monotonic()
    found = answer(cat, text)
    assert found.startswith("[") or found in ("SqlError", "LimitExceeded", "Unsupported"), found
    assert time.monotonic() - began < 10


WORDS = ("SELECT", "FROM", "d.t", "k", "*", "(", ")", ",", "read_csv('x')", "WITH", "AS", "c", "JOIN", "ON", "true", "UNION", "LIMIT", "1", "'a'")
SIGNS = ("GROUP BY", "->", "@", "$", ":", "DESCRIBE", ";", "[", "]", "{", "}")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(WORDS + SIGNS), min_size=1, max_size=14).map(" ".join))
def test_drawn_texts_end_in_rows_or_an_error_of_lakekits(tmp_path_factory, text):
    cat = CATALOG.setdefault("one", lk.connect(tmp_path_factory.mktemp("fuzz") / "lake"))
    if not cat.exists("d.t"):
        cat.sql("CREATE DATABASE d; CREATE TABLE d.t (k INT); INSERT INTO d.t VALUES (1)")
    answer(cat, f"SELECT {text}")


CATALOG: dict[str, lk.Catalog] = {}


LARGE = (
    "repeat('a', 1000000000)",
    "'a'.repeat(1000000000)",
    "main.repeat('a', 1000000000)",
    "repeat('a', 9223372036854775807)",
    "repeat([1], 100000000)",
    "octet_length(repeat('a'::BLOB, 1000000000))",
    "length(repeat(repeat('a', 100000), 10000))",
    "lpad('a', 1000000000, 'b')",
    "rpad('a', 1000000000, 'b')",
    "list_resize([1], 200000000)",
    "array_resize([1], 200000000, 0)",
    "list_sum(range(200000000))",
    "len(range(-100000000, 100000000))",
    "len(range(9223372036854775807, 0, -1))",
    "len(generate_series(1, 200000000))",
    "len(generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2024-01-01', INTERVAL 1 second))",
    "len(range(DATE '2024-01-01', DATE '2000-01-01', INTERVAL (-1) second))",
    "len([i for i in range(100000000)])",
    "list_transform(range(3), lambda y: repeat('a', y * 1000000000))",
    "len(equi_width_bins(0, 1000000000, 1000000000, false))",
    "bitstring('1', 1000000000)::VARCHAR",
    "printf('%1000000000d', 1)",
    "printf('%*d', 1000000000, 1)",
    "format('{:x>1000000000}', 1)",
    "format('{{{:0>{}}', 1, 1000000000)",
)
"""Values of a gigabyte from a text of some words."""
GROWTH = """
import json, resource, sys
import lakekit as lk
from lakekit.errors import LimitExceeded
cat = lk.connect(sys.argv[1], options={"lakekit.sql-memory": "200mb"})
cat.sql("SELECT range(3)").collect()
before, made = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
for value in json.loads(sys.argv[2]):
    for text in (f"SELECT {value} AS x", f"SELECT count(*) FROM (SELECT {value} AS x) WHERE x IS NOT NULL"):
        try:
            made.append((text, repr(cat.sql(text).collect())))
        except LimitExceeded as wrong:
            assert "lakekit.sql-memory" in str(wrong), wrong
print(json.dumps([made, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10]))
"""


def test_a_large_value_of_a_small_text_fails_before_it_is_made(tmp_path):
    ran = subprocess.run([sys.executable, "-c", GROWTH, str(tmp_path), json.dumps(LARGE)], capture_output=True, text=True, check=True)
    made, megabytes = json.loads(ran.stdout)
    assert made == []
    assert megabytes < 50


SMALL = (
    "repeat('ab', 3), repeat(NULL, 3), repeat('a', NULL), repeat('a', '3'), repeat([1, 2], 2), repeat('a'::BLOB, 2), repeat('é', -1)",
    "lpad('a', 3, 'b') AS a, a || 'x' AS b, rpad(b, '6', 'y'), lpad(NULL, 2, 'b'), 'a'.lpad(2, 'é'), main.lpad('a', 2, 'b')",
    "list_resize([1], 3), list_resize(['a'], 2, 'b'), array_resize([1, 2], 1), list_resize(NULL, 2)",
    "range(3), range(NULL), range(1, 4), range(1, NULL), range(1, 9, 3), range(9, 1, -3), range(1, 2, 0), range(1::TINYINT, 3::SMALLINT)",
    "3 AS n, range(0, n, 1), generate_series(1, n), [i * 2 for i in range(n)], list_transform([1, 2], lambda x: range(x))",
    "range(DATE '2020-01-01', DATE '2020-01-03', INTERVAL 1 day), generate_series(TIMESTAMP '2020-01-01', TIMESTAMP '2020-03-01', INTERVAL 1 month)",
    "equi_width_bins(0, 10, 3, false), bitstring('101', 9)::VARCHAR",
    "printf('%05d|%s|100%% * %.2f', 7, 'a', 1.5), printf('plain'), format('{} {:>5} {{x}}', 1, 'a'), format(NULL, 1), printf('%d' || '!', 1)",
    "i, sum(len(range(i))) AS n FROM range(3) t(i) GROUP BY i ORDER BY i",
    "len(range(i)) AS n, count(*) FROM range(3) t(i) GROUP BY ALL ORDER BY ALL",
    "(SELECT max(x) FROM unnest(range(i)) u(x)) AS m FROM range(3) t(i) WHERE repeat('a', i) <> 'aa' ORDER BY i",
    "unnest(range(3)), row_number() OVER (ORDER BY repeat('a', i)) FROM range(1) t(i)",
)


@pytest.mark.parametrize("outputs", SMALL)
def test_a_small_value_is_that_of_duckdb(cat, outputs):
    found, told = cat.sql(f"SELECT {outputs}").collect(), DUCKDB.sql(f"SELECT {outputs}")
    assert found.rows() == told.fetchall()


@settings(max_examples=60, deadline=None)
@given(count=st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 40), first=st.integers(-50, 50), kind=st.sampled_from(("repeat", "lpad", "range", "format")))
def test_a_value_is_that_of_duckdb_or_too_large(tmp_path_factory, count, first, kind):
    made = lk.connect(tmp_path_factory.getbasetemp() / "drawn", options={"lakekit.sql-memory": "200mb"})
    call = {
        "repeat": f"repeat('ab', {count})",
        "lpad": f"lpad('a', {count}, 'xy')",
        "range": f"range({first}, {count})",
        "format": f"format('{{:{abs(count)}}}', {first})",
    }[kind]
    try:
        found = made.sql(f"SELECT {call} AS x").collect().item()
    except LimitExceeded:
        assert abs(count) > 5_000_000
    else:
        found = found.to_list() if hasattr(found, "to_list") else found
        assert found == DUCKDB.sql(f"SELECT {call}").fetchall()[0][0]


NESTED = (("format(", "'a'", ", 1)"), ("repeat(", "'a'", ", 1)"), ("len(range(", "3", "))"), ("lpad('a', length(", "'a'", ")::INT, 'b')"))


@pytest.mark.parametrize("parts", NESTED)
def test_calls_in_one_another_are_read_in_bounded_time(cat, parts):
    first, middle, last = parts
    assert cat.sql(f"SELECT {first * 3}{middle}{last * 3}").collect().height == 1
    began = time.monotonic()
    with pytest.raises(SqlError, match="in one another"):
        cat.sql(f"SELECT {first * 12}{middle}{last * 12}")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("name", ["system.main.repeat", '"SYSTEM".repeat'])
def test_a_bounded_function_is_not_called_around_its_bound(cat, name):
    with pytest.raises(SqlError, match="repeat"):
        cat.sql(f"SELECT {name}('a', 2)").collect()
