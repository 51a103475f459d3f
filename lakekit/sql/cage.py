"""The cage: a DuckDB that reaches nothing but the rows that are handed to it by name.

    run = QueryRun(cage.limits(catalog))
    run.register("lakekit_0", scan)
    run.relation("SELECT v FROM lakekit_0 WHERE k > 5")

One database in memory serves a process. It cannot open a file, load an extension or see a variable of Python, and its
configuration is locked; memory is bounded by the catalog option `lakekit.sql-memory`, the time of a query by
`lakekit.sql-timeout`. What does not fit into memory goes to a folder of its own, which is removed when the process
ends. A second database, for statements that the caller typed with `files=True`, may open files and nothing else.
What a text may not even ask for is refused before (`query_refusal`). DuckDB's errors become lakekit's (`translate`):

    Binder Error: Referenced column "nope" not found in FROM clause!   ->   ColumnNotFound
    Conversion Error: Could not convert string 'x' to INT32            ->   ValueOutOfRange
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit import runtime
from lakekit.catalog.catalog_core import SQL_MEMORY, SQL_TIMEOUT, option_value
from lakekit.errors import (
    ColumnNotFound,
    ExtraMissing,
    LakekitError,
    LimitExceeded,
    SchemaMismatch,
    SqlError,
    StorageFailed,
    Unsupported,
    ValueOutOfRange,
)
from lakekit.expressions.parser import tokenize
from lakekit.options.redaction import redact_error, without_secrets_of
from lakekit.parallel import core_count, iterate_pushed_within
from lakekit.sql.query_refusal import (
    BARE_SESSION_FUNCTIONS,
    BOUNDED_FUNCTIONS,
    LARGE_VALUE,
    SESSION_REFUSAL,
    advise_in_sql,
    bounded_function,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakekit.catalog.catalog_core import CatalogCore
    from lakekit.expressions.parser import SqlText

_DEFAULT_MEMORY = "60%"
_MAX_SPILL = "32 GB"
"""How much of a disk a process's queries may fill with what does not fit into memory."""
_BEAT_SECONDS = 0.1
"""How often a query that computes looks whether it is still wanted, and still has time."""
_CLOSED = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    "python_enable_replacements": False,
}
"""Settings of the whole database: what `SET` without GLOBAL changes may be of its first connection alone."""
_LAST_SETTINGS = ("SET GLOBAL TimeZone = 'UTC'", "SET GLOBAL lock_configuration = true")
"""GLOBAL: a connection of its own gets the machine's zone otherwise."""
SUMS = {"lakekit_add": "+", "lakekit_sub": "-", "lakekit_mul": "*"}
"""Functions by which sums of INT become BIGINT, and their operators."""
_UNKNOWN_TYPES = (('"NULL"', '"NULL"'), ('"NULL"', "INTEGER"), ("INTEGER", '"NULL"'))
"""Types that fit an operand of a type that DuckDB does not know where it chooses, as an aggregate or an alias.

Without them it takes such an operand for INTEGER, and rounds it; with them it chooses none, and says so
(`AMBIGUOUS_TEXT`).
"""
AMBIGUOUS_TEXT = "has multiple overloads that match"
"""A part of DuckDB's error about an operand of an unknown type."""
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
"""How DuckDB says the memory that a query has."""
UNREACHED_WITH = "is the name of a WITH that does not reach so far"
"""A part of the error about a name that DuckDB takes for another's than the query's WITH."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimit:
    """The bounds of a query: DuckDB's text of its memory, its seconds, and whether it may open files."""

    memory: str = _DEFAULT_MEMORY
    seconds: float = 3600.0
    files: bool = False


def limits(catalog: CatalogCore, *, files: bool = False) -> QueryLimit:
    """Return the bounds of queries of a catalog. Raises `InvalidOption`."""
    size, millis = (option_value(catalog.options, key) for key in (SQL_MEMORY, SQL_TIMEOUT))
    return QueryLimit(
        memory=_DEFAULT_MEMORY if size is None else f"{max(1, size)} B", seconds=millis / 1000, files=files
    )


@lru_cache(maxsize=4)
def _database(process: int, memory: str, files: bool) -> Any:  # noqa: ARG001 - one a process: a fork cannot use its parent's
    """Return the database of this process. Raises `ExtraMissing` where DuckDB is not installed."""
    try:
        duckdb = import_module("duckdb")
    except ModuleNotFoundError as missing:
        message = "a query needs duckdb: pip install 'lakekit[sql]'"
        raise ExtraMissing(message, feature="catalog.sql", extra="sql") from missing
    places = {"temp_directory": runtime.scratch_folder(), "max_temp_directory_size": _MAX_SPILL}
    settings = {**_CLOSED, **places, "enable_external_access": files, "threads": core_count()}
    database = duckdb.connect(":memory:", config=settings)
    database.execute(f"SET memory_limit = '{memory}'")
    database.execute("; ".join((*_definitions(), *_LAST_SETTINGS)))
    return database


def _definitions() -> Iterator[str]:
    """Yield the statements that make what every query may use: macros and a type."""
    for name, sign in SUMS.items():  # scalar: three
        unknown = ", ".join(f"(a {a}, b {b}) AS a {sign} b" for a, b in _UNKNOWN_TYPES)
        overloads = f"(a INTEGER, b INTEGER) AS a::BIGINT {sign} b::BIGINT, {unknown}, (a, b) AS a {sign} b"
        yield f"CREATE MACRO {name}{overloads}"
    for name in BARE_SESSION_FUNCTIONS:  # scalar: six
        yield f"CREATE MACRO {_quote(name)}() AS CAST(error('{name} {SESSION_REFUSAL}') AS VARCHAR)"
    yield "CREATE TYPE bytes AS BLOB"


@dataclass(slots=True)
class QueryRun:
    """A connection for one query, in which only the names are known that it registers.

    `source`: the text of the query, for errors. `failures`: what a scan raised while DuckDB asked it for rows.
    """

    limit: QueryLimit
    source: SqlText
    failures: list[BaseException] = field(default_factory=list)
    duckdb_sql: tuple[str, Callable[[int], int]] | None = None
    """What DuckDB gets for the text, and the place in it of an offset in that."""
    _connection: Any = None
    _sql: str = ""
    """The statement that runs."""

    def open(self) -> QueryRun:
        """Open the connection. Raises `Unsupported`, and `InvalidOption` for an invalid limit."""
        self._connection = _database(os.getpid(), self.limit.memory, self.limit.files).cursor()
        return self

    def register(self, name: str, frame: pl.LazyFrame) -> None:
        """Let the query know rows by a name."""
        failure: BaseException | None = None
        try:
            times = [column for column, dtype in frame.collect_schema().items() if dtype == pl.Time()]
            self._connection.register(f"{name}_rows" if times else name, frame)
            if times:  # Arrow hands them over in nanoseconds, another type to DuckDB than TIME
                casts = ", ".join(f"CAST({quoted} AS TIME) AS {quoted}" for quoted in map(_quote, times))
                self._connection.execute(f"CREATE TEMP VIEW {name} AS SELECT * REPLACE ({casts}) FROM {name}_rows")  # noqa: S608 - names are quoted
        except Exception as wrong:  # noqa: BLE001 - as in `iterate`
            failure = translate(wrong, self.source, self.failures)
        if failure is not None:
            raise failure

    def relation(self, sql: str) -> Any:
        """Return a relation of DuckDB, which is bound and not computed. Raises what `translate` returns."""
        return self.wait(partial(self._bind, sql))

    def define(
        self, sql: str, *, source: SqlText | None = None, duckdb_sql: tuple[str, Callable[[int], int]] | None = None
    ) -> None:
        """Run a definition; errors are about the text `source`. Raises what `translate` returns."""
        own = self.source, self.duckdb_sql
        self.source, self.duckdb_sql, self._sql = source or self.source, duckdb_sql, sql
        try:
            self.wait(lambda: self._connection.execute(sql))
        finally:
            self.source, self.duckdb_sql = own

    def bounds(self, functions: set[str]) -> list[str]:
        """Return the definitions without which a query that calls some functions may make larger values than it may."""
        names = sorted(functions & BOUNDED_FUNCTIONS)
        if not names:
            return []
        [(size,)] = self.rows("SELECT current_setting('memory_limit')")
        number, unit = str(size).split()
        value_bytes = int(float(number) * _UNITS[unit]) // 4  # DuckDB, Arrow and Polars have it at the same time
        return [definition for name in names for definition in bounded_function(name, value_bytes)]

    def _bind(self, sql: str) -> Any:
        self._sql = sql
        try:
            return self._connection.sql(sql)
        except Exception as wrong:
            if _CARET_LINES.search(str(wrong)) is not None:
                raise
            self._sql = f"EXPLAIN {sql}"
            self._connection.execute(self._sql)  # fails as well, and says where
            raise

    def reader(self, sql: str, batch_rows: int) -> Any:
        """Return the batches of a statement as Arrow, which are computed as they are read; for use in `iterate`."""
        self._sql = sql
        return self._connection.sql(sql).to_arrow_reader(batch_rows)

    def push_frames(self, sql: str, put: Callable[[pl.DataFrame], bool]) -> None:
        """Push the rows of a statement as frames, without pyarrow, which takes as long to load as DuckDB does.

        Names of columns differ from one another.
        """
        self._sql = sql
        frames = pl.scan_arrow_c_stream(self._connection.sql(sql))
        frames.sink_batches(put, maintain_order=True, engine="streaming")

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the few rows of a statement, with values for its parameters."""
        result: list[tuple[Any, ...]] = self.wait(lambda: self._connection.execute(sql, values).fetchall())
        return result

    def wait(self, compute: Callable[[], Any]) -> Any:
        """Return what a function computes in a thread, which is interrupted when the caller is, or has no time left."""
        results = [item for item in self.iterate(lambda put: put(compute())) if item is not None]
        return results[0] if results else None

    def iterate(self, push: Callable[[Callable[[Any], bool]], object]) -> Iterator[Any]:
        """Yield what a thread pushes, as `iterate_pushed_within`, within the time of the query.

        Raises what `translate` returns for an error of DuckDB; leaving the iterator ends the query.
        """
        started, waited, is_done = runtime.elapsed_ms(), 0.0, False
        self.failures.clear()
        failure: BaseException | None = None
        items = iterate_pushed_within(push, _BEAT_SECONDS)
        try:
            for item in items:
                waited += runtime.elapsed_ms() - started
                if item is None and waited > self.limit.seconds * 1000:
                    failure = LimitExceeded(
                        f"{self.source.name}: it took more than {self.limit.seconds:g} s, the time that a query has. "
                        f"Raise the catalog's option {SQL_TIMEOUT!r}, or ask for less",
                        field=SQL_TIMEOUT,
                    )
                    break
                yield item
                started = runtime.elapsed_ms()
            is_done = failure is None
        except Exception as wrong:  # noqa: BLE001 - whatever DuckDB raises is translated, below
            failure, is_done = translate(wrong, self.source, self.failures, self._position(str(wrong))), True
        finally:
            if not is_done:
                with suppress(Exception):
                    self._connection.interrupt()
            items.close()
        if failure is not None:  # outside of the block: DuckDB's error quotes the statement
            raise failure

    def _position(self, message: str) -> int | None:
        """Return the place in the user's text that an error of DuckDB means, if it says one."""
        offset = None if self.duckdb_sql is None else _offset(message, self._sql)
        if self.duckdb_sql is None or offset is None or self._sql.count(self.duckdb_sql[0]) != 1:
            return None
        within = offset - self._sql.index(self.duckdb_sql[0])
        return self.duckdb_sql[1](within) if 0 <= within < len(self.duckdb_sql[0]) else None

    def close(self) -> None:
        """Give the connection back."""
        with suppress(Exception):
            self._connection.close()


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def opened(limit: QueryLimit, source: SqlText) -> Iterator[QueryRun]:
    """Open a connection for one query, and close it."""
    run = QueryRun(limit, source).open()
    try:
        yield run
    finally:
        run.close()


# ---- errors of DuckDB ----------------------------------------------------------------------------


_MAX_CHARS = 600
_KIND = re.compile(r"^(?:got external error: )?(?P<kind>[A-Z][\w ]*? Error): (?P<message>.*)$", re.DOTALL)
_CARET_LINES = re.compile(r"\n*(?P<prefix>LINE \d+: )(?P<line>[^\n]*)\n(?P<blanks> *)\^+.*", re.DOTALL)
_WORD = re.compile(r"[^\W\d]\w*|\d[\w.]*|'[^']*'|\"[^\"]*\"|\S")
_NAMED = re.compile(r'"(?P<quoted>[^"]+)"|name (?P<bare>\w+) does not exist')
_COLUMN = re.compile(r'(?:column|Table) "(?P<name>[^"]+)"', re.IGNORECASE)
_ADVICE = re.compile(
    r"""\s*(?:,\ or\ SET\ \w|\bUse\ ["'`]?(?:SET|PRAGMA)\ |^(?:INSTALL|LOAD|SET|PRAGMA)\ \w|^Please\ try\ installing"""
    r"""|^Alternatively,\ consider|\bConsider\ [^.\n]*\bSET\ |\bPlease\ [^.\n]*\b(?:SET|INSTALL|LOAD)\ )[^\n]*""",
    re.MULTILINE,
)
"""Sentences that advise what the cage does not let a query do: to change a setting, or to load an extension."""
_LARGE = re.compile(rf"\w+\(…\) {LARGE_VALUE}")
_INTERNAL = re.compile(r"\b(?:main\.)?lakekit_\w+\b")
_VALUES = ("Conversion Error", "Out of Range Error", "Invalid Input Error", "Sequence Error", "Divide by zero Error")
_MEMORY = ("Out of Memory Error",)
_TYPES = ("Mismatch Type Error", "Invalid type Error", "Unimplemented type Error", "Decimal Error")


def translate(
    wrong: BaseException, source: SqlText, failures: Sequence[BaseException], position: int | None = None
) -> BaseException:
    """Return lakekit's error for what DuckDB raised over a query, without the secrets of its text.

    `failures`: what scans raised meanwhile; the first of them is the cause. `position`: its place in the text, if it is
    known; else it is where the text first has the word that DuckDB names.
    """
    failure = failures[0] if failures else wrong if isinstance(wrong, LakekitError) else None
    if isinstance(failure, LakekitError):
        advise_in_sql(failure, source.text)
        redact_error(failure, source.text)
    return _translate(wrong, source, position) if failure is None else failure


def _translate(wrong: BaseException, source: SqlText, position: int | None) -> LakekitError:
    """Return lakekit's error for one of DuckDB."""
    matched = _KIND.match(str(wrong))
    kind, text = ("", str(wrong)) if matched is None else (matched["kind"], matched["message"])
    word = _word_at(text)
    plain = _ADVICE.sub("", _INTERNAL.sub("a table", _CARET_LINES.sub("", text))).strip()
    if plain.endswith(SESSION_REFUSAL):
        return Unsupported(f"{source.name}: {plain}", feature="catalog.sql")
    if (large := _LARGE.search(plain)) is not None:
        advice = f"Raise the catalog's option {SQL_MEMORY!r}, or ask for less; FROM range(n) makes rows"
        return LimitExceeded(f"{source.name}: {large[0]}. {advice}", field=SQL_MEMORY)
    message = without_secrets_of(source.text, plain)[:_MAX_CHARS]
    at = _position(word, source) if position is None else position
    if kind in _MEMORY:
        return LimitExceeded(
            f"{source.name}: it needs more memory than a query has: {message}. Raise the catalog's option "
            f"{SQL_MEMORY!r}, or ask for less",
            field=SQL_MEMORY,
        )
    if UNREACHED_WITH in message:
        return _sql_error(source, at, message)
    if kind in _VALUES:
        return ValueOutOfRange(_at(source, at, message))
    if kind in _TYPES:
        return SchemaMismatch(_at(source, at, message))
    if kind == "Binder Error":
        column = _COLUMN.search(message)
        if "not found in FROM clause" in message or "does not have a column" in message:
            return ColumnNotFound(_at(source, at, message), name=column["name"] if column else None)
        return SchemaMismatch(_at(source, at, message)) if _is_about_types(message) else _sql_error(source, at, message)
    if kind in ("IO Error", "Permission Error", "HTTP Error"):
        return StorageFailed(f"{source.name}: {message}")
    return _sql_error(source, at, message or "DuckDB computes no such query")


def _sql_error(source: SqlText, at: int | None, problem: str) -> SqlError:
    """Return the error about a place of the text, or about the text where the place is unknown."""
    return SqlError(f"{source.name}: {problem}", key="sql") if at is None else source.error(at, problem)


def _is_about_types(message: str) -> bool:
    return "explicit type cast" in message or "Cannot compare values" in message or "Cannot mix values" in message


def _at(source: SqlText, at: int | None, problem: str) -> str:
    """Return the message about a place, if it is known."""
    return f"{source.name}: {problem}" if at is None else source.error(at, problem).message


def _word_at(text: str) -> str | None:
    """Return the word under the caret of DuckDB's message, or else the first that it quotes."""
    place = _CARET_LINES.search(text)
    if place is None:
        named = _NAMED.search(text)
        return None if named is None else named["quoted"] or named["bare"]
    column = len(place["blanks"]) - len(place["prefix"])
    matched = _WORD.match(place["line"], max(0, column))
    return None if matched is None else matched[0]


def _offset(message: str, sql: str) -> int | None:
    """Return the offset in a statement that an error of DuckDB shows; None where it shows none, or not for certain."""
    place = _CARET_LINES.search(message)
    if place is None:
        return None
    lines, number = sql.split("\n"), int(place["prefix"][5:-2])
    shown, column = place["line"], len(place["blanks"]) - len(place["prefix"])
    if shown.startswith("..."):
        shown, column = shown[3:], column - 3
    shown = shown.removesuffix("...")
    if number > len(lines) or not shown.isascii() or lines[number - 1].count(shown) != 1:
        return None
    return sum(len(line) + 1 for line in lines[: number - 1]) + lines[number - 1].index(shown) + column


def _position(word: str | None, source: SqlText) -> int | None:
    """Return where the caller's text has that word first."""
    if word is None:
        return None
    bare = word.strip("'\"").lower()
    with suppress(SqlError):
        whole = (
            source
            if source.shown_text is None or source.shifts
            else replace(source, text=source.shown_text, tokens=None)
        )
        return next((token.start for token in tokenize(whole) if token.text.lower() == bare), None)
    return None
