"""What a query may not ask for: files, settings, and whatever else is not rows of its tables.

Refused by name, before DuckDB sees the query: functions in FROM, but for those of `ALLOWED_TABLE_FUNCTIONS`; functions
that read the machine or the session; statements within a query (DESCRIBE, SHOW, PRAGMA). Functions that open files are
allowed where the caller typed the statement with `files=True`, and never in a stored query.

`advise_in_sql` puts words of SQL in place of the advice in Python that errors of methods give.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lakekit.errors import Unsupported
from lakekit.options.redaction import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakekit.errors import LakekitError
    from lakekit.expressions.parser import SqlText

    Node = Any
    """A node of sqlglot's tree."""

ALLOWED_TABLE_FUNCTIONS = frozenset({"unnest", "range", "generate_series", "table_changes", "json_each", "json_tree"})
"""Functions that may stand in FROM."""
FILE_FUNCTIONS = frozenset(
    {
        "read_csv", "read_csv_auto", "read_parquet", "parquet_scan", "read_json", "read_json_auto", "read_json_objects",
        "read_json_objects_auto", "read_ndjson", "read_ndjson_auto", "read_ndjson_objects", "read_text", "read_blob",
        "glob", "sniff_csv", "parquet_schema", "parquet_metadata", "parquet_file_metadata", "parquet_kv_metadata",
    }
)  # fmt: skip
"""Functions that may stand in FROM of a statement that the caller typed with `files=True`."""
_SESSION_FUNCTIONS = frozenset(
    {
        "getenv", "getvariable", "setseed", "nextval", "currval", "setval", "write_log", "add_parquet_key", "version",
        "parse_duckdb_log_message", "get_block_size", "txid_current", "user", "session_user", "current_user",
        "current_role", "current_catalog", "current_database", "current_schema", "current_schemas", "current_setting",
        "current_connection_id", "current_query", "current_query_id", "current_transaction_id", "in_search_path",
        "set_config", "current_version", "sleep_ms", "col_description", "obj_description", "shobj_description",
        "stats", "vector_type",
        "index_key", "json_serialize_plan", "json_serialize_sql", "json_deserialize_sql", "json_execute_serialized_sql",
        "map_to_pg_oid", "map_type_id_to_pg_oid", "format_pg_type", "read_text", "read_blob", "query", "query_table",
        "which_secret", "icu_calendar_names",
    }
)  # fmt: skip
BARE_SESSION_FUNCTIONS = (
    "user", "current_user", "session_user", "current_role", "current_catalog", "current_schema",
)  # fmt: skip
"""Functions of the session that DuckDB also takes a name for that is no column's, quoted or not: the cage has others in
their place, which refuse.
"""
SESSION_REFUSAL = "reads the machine or the session, and a query reads its tables alone"
_SESSION_PATTERN = re.compile(r"__internal|pg_|has_\w+_privilege$|inet_|duckdb_|pragma_|lakekit_|read_|which_")
_ALLOWED_SESSION_FUNCTIONS = frozenset({"pg_typeof", "pg_size_pretty"})
_REFUSED_STATEMENTS = (
    exp.DDL, exp.DML, exp.Command, exp.Pragma, exp.Set, exp.Show, exp.Describe, exp.Summarize, exp.Copy, exp.Attach,
    exp.Detach, exp.Use, exp.Into,
)  # fmt: skip

_OF_QUERY = frozenset(
    {
        "with_", "laterals", "joins", "where", "pivots", "group", "having", "qualify", "windows", "order", "limit",
        "offset", "sample",
    }
)  # fmt: skip
_CLAUSES: dict[type, frozenset[str]] = {
    exp.Table: frozenset(
        {"this", "db", "catalog", "alias", "joins", "laterals", "pivots", "sample", "version", "ordinality"}
    ),
    exp.Select: _OF_QUERY | {"expressions", "hint", "distinct", "from_", "into"},
    exp.Subquery: _OF_QUERY | {"this", "alias"},
    exp.SetOperation: _OF_QUERY | {"this", "expression", "distinct", "by_name"},
    exp.Limit: frozenset({"this", "expression", "offset", "limit_options"}),
    exp.Offset: frozenset({"this", "expression"}),
}
"""What is computed of a table, a query and its LIMIT, by the names that sqlglot has for it."""
_CLAUSE_WORDS = {
    "hints": "WITH (…)",
    "locks": "FOR UPDATE",
    "expressions": "BY of LIMIT",
    "connect": "CONNECT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "sort": "SORT BY",
    "match": "MATCH_RECOGNIZE",
    "rows_from": "ROWS FROM",
    "for_": "FOR",
}
"""How clauses are written whose names are not their words."""


_COUNT, _NUMBER = "TRY_CAST({} AS DOUBLE)", "TRY_CAST(CAST({} AS VARCHAR) AS DOUBLE)"
_TIME = "TRY_CAST(CAST({} AS VARCHAR) AS TIMESTAMP)"
_STEPS = (
    f"coalesce(({_NUMBER.format('b')} - {_NUMBER.format('a')}) / nullif({_NUMBER.format('s')}, 0), "
    f"epoch({_TIME.format('b')} - {_TIME.format('a')}) / nullif(epoch(TRY_CAST(CAST(s AS VARCHAR) AS INTERVAL)), 0))"
)
"""How many values a range of numbers or of times has."""
_FORMAT_SIZES = {
    "printf": ("%%", "%[^a-zA-Z%]*", r"%[^a-zA-Z%]*\*"),
    "format": ("{{", r"\{[^{}]*\}", r"\{[^{}]*\{"),
}
"""Functions that format values by a text: what is no directive, patterns of one, and of a width that is a value."""
_SIZES: dict[tuple[str, ...], dict[str, str]] = {
    ("repeat",): {"a, n": f"len(CAST(a AS VARCHAR)) * {_COUNT.format('n')}"},
    ("lpad", "rpad"): {"a, n, p": _COUNT.format("n")},
    ("bitstring",): {"a, n": _COUNT.format("n")},
    ("list_resize", "array_resize"): dict.fromkeys(("a, n", "a, n, v"), f"{_COUNT.format('n')} * 8"),
    ("equi_width_bins",): {"a, b, n, nice": f"{_COUNT.format('n')} * 8"},
    ("range", "generate_series"): {
        "a": f"{_COUNT.format('a')} * 8",
        "a, b": f"({_COUNT.format('b')} - {_COUNT.format('a')}) * 8",
        "a, b, s": f"{_STEPS} * 8",
    },
    ("printf", "format"): {", ".join(["a", *(f"v{at}" for at in range(count))]): "" for count in range(13)},
}
"""Functions that make a large value of small ones, their parameters, and the bytes of that value.

What no such function makes, as a text that is put together of others, is not counted.
"""
BOUNDED_FUNCTIONS = frozenset(name for names in _SIZES for name in names)
_NESTED_FUNCTIONS = BOUNDED_FUNCTIONS | {"pad"}
"""Those functions by DuckDB's names and by sqlglot's."""
_MOST_BOUNDED_DEPTH = 3
"""How deep calls of them may stand in one another: each is some three times as long for DuckDB as it is written."""
LARGE_VALUE = "makes a value of more than a quarter of the memory that a query has"


def check_query(tree: Node, source: SqlText, *, allow_files: bool) -> None:
    """Refuse what a query may not ask for.

    Raises: `Unsupported` with the name of a function, `SqlError` for a statement within a query.
    """
    for node in tree.walk():
        _check_clauses(node, source)
        if isinstance(node, _REFUSED_STATEMENTS) and not isinstance(node, exp.Query):
            raise source.error(0, f"{node.key.upper()} is no part of a query: name tables and queries")
        if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            _check_table_function(node, source, allow_files=allow_files)
        elif isinstance(node, exp.Func) and not _is_table_reference(node):
            _check_function(node, source)


def _check_clauses(node: Node, source: SqlText) -> None:
    """Refuse a clause of a table or a query that is not computed: sqlglot reads those of all its dialects."""
    kinds = next((kinds for kind, kinds in _CLAUSES.items() if isinstance(node, kind)), None)
    if kinds is None:
        return
    for name, clause in node.args.items():
        if clause and name not in kinds:
            words = _CLAUSE_WORDS.get(name) or name.strip("_").upper()
            if name == "kind":
                words = f"AS {clause}"
            elif name == "when":
                words = clause.name
            raise source.error(_place_of(words, clause, node, source), f"{words} is no clause that is computed here")
    if isinstance(node, exp.Select) and not node.expressions:
        raise source.error(
            _place_of("FROM", node.args.get("from_"), node, source), "SELECT names no column; * names all of them"
        )


def _place_of(words: str, clause: Any, holder: Node, source: SqlText) -> int:
    """Return where a clause begins: at its word before what is known of it, or else the one nearest to its holder."""
    first, within, beside = words.split(maxsplit=1)[0], _start_of(clause), _start_of(holder)
    places = [found.start() for found in re.finditer(rf"\b{first}\b", source.text, re.IGNORECASE)]
    if within is not None:
        return next((at for at in reversed(places) if at <= within), within)
    near = beside or 0
    return min(places, key=lambda at: abs(at - near), default=near)


def _start_of(parts: Any) -> int | None:
    """Return the first place in the text that is known of a node, or of one of several."""
    for part in parts if isinstance(parts, list) else [parts]:
        for node in part.walk() if isinstance(part, exp.Expr) else ():
            if "span" in node.meta or "start" in node.meta:
                return int(node.meta["span"][0] if "span" in node.meta else node.meta["start"])
    return None


def function_name(node: Node) -> str:
    """Return the name of a function, in lower case and without its schema."""
    if isinstance(node, exp.Dot):
        return function_name(node.expression)
    if isinstance(node, exp.ReadCSV):
        return "read_csv"
    name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
    return str(name).lower()


def is_refused(name: str) -> bool:
    """Return whether a function, in lower case, reads the machine or the session."""
    return name not in _ALLOWED_SESSION_FUNCTIONS and (
        name in _SESSION_FUNCTIONS or _SESSION_PATTERN.match(name) is not None
    )


def may_stand_in_from(name: str, *, allow_files: bool) -> bool:
    """Return whether a function, in lower case, may stand in FROM; `allow_files`: also one that opens files."""
    return name in ALLOWED_TABLE_FUNCTIONS or (allow_files and name in FILE_FUNCTIONS)


def _is_table_reference(node: Node) -> bool:
    return isinstance(node.parent, exp.Table) and node.arg_key == "this"


def _check_table_function(node: Node, source: SqlText, *, allow_files: bool) -> None:
    function = node.this
    last = function.expression if isinstance(function, exp.Dot) else function
    if not isinstance(last, exp.Func):
        starts = [part.meta["start"] for part in function.find_all(exp.Identifier) if "start" in part.meta]
        raise source.error(min(starts, default=0), "a table is named db.table, or catalog.db.table")
    name = function_name(function)
    if may_stand_in_from(name, allow_files=allow_files):
        return
    if name in FILE_FUNCTIONS:
        raise Unsupported(
            f"{source.name}: {name}(…) opens files, which only a statement may that is typed with files=True "
            "(in the shell --files); a stored query never may",
            feature="catalog.sql",
        )
    raise Unsupported(
        f"{source.name}: {without_secrets(name)[:100]}(…) stands in FROM, where there are tables and "
        f"{', '.join(sorted(ALLOWED_TABLE_FUNCTIONS))}",
        feature="catalog.sql",
    )


def _check_function(node: Node, source: SqlText) -> None:
    name = function_name(node)
    if name in _NESTED_FUNCTIONS:
        _check_nesting(node, source)
    if not is_refused(name):
        return
    raise Unsupported(
        f"{source.name}: {name[:100]} {SESSION_REFUSAL}",
        feature="catalog.sql",
    )


def _check_nesting(node: Node, source: SqlText) -> None:
    """Refuse a call of `BOUNDED_FUNCTIONS` that stands too deep in others: DuckDB's text of it is too long."""
    depth = 0
    while (node := node.parent) is not None and depth <= _MOST_BOUNDED_DEPTH:
        depth += isinstance(node, exp.Func) and function_name(node) in _NESTED_FUNCTIONS
    if depth > _MOST_BOUNDED_DEPTH:
        names = ", ".join(sorted(BOUNDED_FUNCTIONS))
        raise source.error(0, f"calls of {names} stand in one another more than {_MOST_BOUNDED_DEPTH} deep")


def bounded_function(name: str, value_bytes: int) -> Iterator[str]:
    """Yield the statements that put a macro in the place of a function, which fails before it makes a large value.

    The first argument fails, so that the function is not called, nor its call computed when a query is planned. It
    fails by a cast: an expression that calls `error` may not be named again in its SELECT.
    """
    if name in _FORMAT_SIZES:
        escape, directive, other_width = _FORMAT_SIZES[name]
        text = f"replace(a, '{escape}', '')"
        digits = rf"regexp_extract_all(array_to_string(regexp_extract_all({text}, '{directive}'), ' '), '\d+')"
        is_unknown = f"regexp_matches({text}, '{other_width}')"
        size = f"CASE WHEN {is_unknown} THEN 'Infinity'::DOUBLE ELSE list_sum(CAST({digits} AS DOUBLE[])) END"
        yield f"CREATE OR REPLACE TEMP MACRO lakekit_{name}_size(a) AS {size}"
    overloads = []
    for parameters, size in next(signatures for names, signatures in _SIZES.items() if name in names).items():
        first, *others = parameters.split(", ")
        is_large = f"{size or f'lakekit_{name}_size(a)'} > {value_bytes}"
        index = f"CASE WHEN {is_large} THEN CAST('{name}(…) {LARGE_VALUE}' AS BIGINT) ELSE 1 END"
        overloads.append(f"({parameters}) AS system.main.{name}({', '.join((f'[{first}][{index}]', *others))})")
    yield f"CREATE OR REPLACE TEMP MACRO {name}{', '.join(overloads)}"


# ---- advice ------------------------------------------------------------


_PATH = "CREATE TABLE … WITH ('connector' = 'paimon', 'path' = …)"
_SQL_ADVICE: dict[str, str] = {
    r"(?<=[.;] )Open it with lk\.open, or pass if_not_exists=True": "Write IF NOT EXISTS to take it as it is",
    r"open it with cat\.table, or pass if_not_exists=True": "SELECT reads it, IF NOT EXISTS leaves it",
    r"open it with cat\.table": "SELECT reads it",
    "pass if_not_exists=True": "write IF NOT EXISTS",
    "pass temporary=True for one that this catalog object knows": "CREATE TEMPORARY VIEW makes one of the session",
    r"connect with metastore='(\w+)'": r"CREATE CATALOG … WITH ('metastore' = '\1') keeps them",
    r"In Python, .*?\)\)\. In SQL: ": "In SQL: ",
    r" in SQL, quotes and all, \w+\([^()]*\) in Python": "",
    r"a cast, as in pl\.col\(…\)\.cast\(pl\.Int64\), says": "a CAST(… AS BIGINT) says",
    r""" in SQL, or pl\.lit\((?:'[^']*'|"[^"]*")\)""": "",
    r""", in Polars by pl\.col\((?:'[^']*'|"[^"]*")\)[\w.]*(?:\([^()]*\))?""": ", with CAST(… AS …) in the statement",
    r", or t\.scan\(raw=True\) for unmerged rows": "",
    r"\.? ?t\.scan\(raw=True\) reads (?:its|the) rows unmerged": "",
    r", or read the (?:table|merged rows) with t\.scan\(\)": "",
    r"; changes are what t\.scan\(\) and t\.changes\(\) read": "; table_changes('db.t', 5, 7) has changes",
    r"give at=, or read changes with t\.scan\(\) or t\.changes\(\)": "table_changes('db.t', 5, 7) has changes",
    r"Append its rows: t\.append\(f\.scan\(\)\)": "Append its rows by INSERT INTO … SELECT",
    r"t\.overwrite\(t\.scan\(\)(?:\.collect\(\))?\)": "INSERT OVERWRITE t SELECT * FROM t",
    "write with row_kind='[^']*'": "give the table the option 'rowkind.field'",
    "leave row_kind='[^']*' out": "leave that column out",
    r"by lk\.open\(path, branch=…\)": "as `t$branch_name`",
    r'open it with lk\.open(?:\("[^"]*"\)|, or copy it with cat\.clone)': f"{_PATH} names it",
    r'open by path: lk\.open\("[^"]*"\)': f"open by path: {_PATH}",
    r"lk\.connect\(options=\), lk\.open\(options=\) or cat\.table\(options=\)": "CREATE CATALOG … WITH",
    r"lk\.open\(options=\) or lk\.connect\(options=\)": "CREATE CATALOG … WITH",
    r"pass options=\{('[^']*'): ('[^']*')\} to lk\.open, or to lk\.connect for all tables": (
        r"write CREATE CATALOG … WITH (\1 = \2)"
    ),
    r"lk\.connect\(metastore='(\w+)', …\)": r"CREATE CATALOG … WITH ('metastore' = '\1')",
    r"metastore='(\w+)'": r"'metastore' = '\1'",
    r"lk\.connect\(warehouse\)": "CREATE CATALOG … WITH ('warehouse' = …)",
    r"Look at t\.snapshots\(\)": "Look at `t$snapshots`",
    "; force=True removes them all the same": "",
    "external=True looks there": "`lakekit orphans --external` looks there",
    "scan it without at=": "read it without VERSION AS OF",
    r"call t\.\w+ again": "run the statement again",
    r"t\.check\(\)": "`lakekit check`",
    r"t\.partitions\(\) lists them": "SHOW PARTITIONS lists them",
    r"lk\.features\(\)": "`lakekit features`",
    r"lk\.options\(\) lists those that mean something": "the documentation lists those that mean something",
    r"; lk\.options\(\) lists them": "",
    r"say expiration='([^']*)', or including='\.\*' for all": "say includingConsumers => '.*' for all",
    "say expiration='([^']*)'": r"say expiration_time => '\1'",
    "older_than= is": "older_than is",
    r"refresh_mode='(\w+)'": r"REFRESH_MODE = \1",
    r"\w+(?:\.branch\('[^']*'\))?\.alter\(lk\.reset_option\('([^']*)'\)\)": r"ALTER TABLE … RESET ('\1')",
    r"t\.alter\(lk\.rename_column\('([^']*)', …\)\)": r"ALTER TABLE … RENAME COLUMN \1 TO …",
    r"t\.alter\(lk\.update_default\('([^']*)', …\)\)": r"ALTER TABLE … ALTER COLUMN \1 SET DEFAULT …",
    r"t\.resume\(\), or refresh\(force=True\) once": "ALTER MATERIALIZED TABLE … RESUME, or REFRESH once",
    r"t\.refresh\(\)": "CALL sys.refresh_object_table",
    r"t\.compact\(full=True\)": "CALL sys.compact(table => 'db.t', compact_strategy => 'full')",
    r"t\.replace_tag\('([^']*)'\)": r"ALTER TABLE … CREATE OR REPLACE TAG \1",
    r"(?:lk\.open\(…\)|\bt)\.(rescale|compact|create_branch|delete_branch|delete_tag|rollback|reset_consumer"
    r"|mark_partition_done|rewrite_file_index|repair)\b(?:\([^()]*\))?": r"CALL sys.\1",
    r"cat\.clone": "CALL sys.clone",
    r"cat\.drop_view": "DROP VIEW",
    r"cat\.create_object_table": "CREATE TABLE",
    r"lk\.create": "CREATE TABLE",
    r"\bt\.overwrite(?:\([^()]*\))?": "INSERT OVERWRITE",
    r"\bt\.(?:append|upsert)\([^()]*\)": "INSERT INTO",
    r"\bt\.delete\([^()]*\)": "DELETE FROM",
    r"\bt\.truncate\(\)": "TRUNCATE TABLE",
    r"\bt\.alter\b": "ALTER TABLE",
    "if_not_exists=True": "IF NOT EXISTS",
    "cascade=True": "CASCADE",
    "merge_schema=True": "ALTER TABLE … ADD COLUMN",
    "or write with cast=True": "or CAST it",
}
"""What errors of methods advise in Python, as patterns, and the words of SQL for it, the longer ones first."""


def advise_in_sql(wrong: LakekitError, text: str) -> None:
    """Put words of SQL in place of what an error of a method advises in Python; what the text itself says stays."""
    message = wrong.message
    for python, words in _SQL_ADVICE.items():
        message = re.sub(python, partial(_say_in_sql, words, text), message)
    if message != wrong.message:
        wrong.args = (message,)


def _say_in_sql(words: str, text: str, matched: re.Match[str]) -> str:
    return matched[0] if matched[0] in text else matched.expand(words)
