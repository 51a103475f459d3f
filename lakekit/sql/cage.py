"""The cage: a DuckDB that reaches nothing but the rows that are handed to it by name.

    run = QueryRun(cage.limits(catalog))
    run.register("lakekit_0", scan)
    run.relation("SELECT v FROM lakekit_0 WHERE k > 5")

One database in memory serves a process. It cannot open a file, load an extension or see a variable of Python, and its
configuration is locked; memory is bounded by the catalog option `lakekit.sql-memory`, the time of a query by
`lakekit.sql-timeout`. What does not fit into memory goes to a folder of its own, which is removed when the process
ends. A second database, for statements that the caller typed with `files=True`, may open files and nothing else.
What a text may not even ask for is refused before (`query_refusal`).
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakekit import runtime
from lakekit.errors import InvalidOption, LimitExceeded, Unsupported
from lakekit.options.option import read_duration, read_size
from lakekit.parallel import core_count, iterate_pushed_within
from lakekit.sql.query_error import translate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import polars as pl

    from lakekit.catalog.catalog_core import CatalogCore
    from lakekit.expressions.parser import SqlText

MEMORY, TIMEOUT = "lakekit.sql-memory", "lakekit.sql-timeout"
_DEFAULT_MEMORY, _DEFAULT_TIMEOUT = "60%", "1 h"
_BEAT_SECONDS = 0.1
"""How often a query that computes looks whether it is still wanted, and still has time."""
_CLOSED = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    "python_enable_replacements": False,
}
_ARITHMETIC = {"lakekit_add": "+", "lakekit_sub": "-", "lakekit_mul": "*"}
"""Functions by which sums of INT become BIGINT, and their operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimit:
    """The bounds of a query: DuckDB's text of its memory, its seconds, and whether it may open files."""

    memory: str = _DEFAULT_MEMORY
    seconds: float = 3600.0
    files: bool = False


def limits(catalog: CatalogCore, *, files: bool = False) -> QueryLimit:
    """Return the bounds of queries of a catalog. Raises `InvalidOption`."""
    memory = catalog.options.get(MEMORY)
    seconds = read_duration(catalog.options.get(TIMEOUT, _DEFAULT_TIMEOUT)) / 1000
    if memory is None:
        return QueryLimit(seconds=seconds, files=files)
    size = read_size(memory)
    if size <= 0:
        raise InvalidOption(f"{MEMORY} is {memory!r}; give a size, as '4 gb'", key=MEMORY, value=memory)
    return QueryLimit(memory=f"{size} B", seconds=seconds, files=files)


@lru_cache(maxsize=4)
def _database(process: int, memory: str, files: bool) -> Any:  # noqa: ARG001 - one a process: a fork cannot use its parent's
    """Return the database of this process. Raises `Unsupported` where DuckDB is not installed."""
    try:
        duckdb = import_module("duckdb")
    except ModuleNotFoundError as missing:
        raise Unsupported("a query needs duckdb: pip install 'lakekit[sql]'", feature="catalog.sql") from missing
    database = duckdb.connect(":memory:", config={**_CLOSED, "threads": core_count()})
    database.execute(f"SET memory_limit = '{memory}'")
    database.execute(f"SET temp_directory = '{runtime.scratch_folder().replace(chr(39), chr(39) * 2)}'")
    database.execute("SET TimeZone = 'UTC'")
    database.execute("SET enable_progress_bar = false")
    database.execute("SET produce_arrow_string_view = true")
    for name, sign in _ARITHMETIC.items():  # scalar: three
        database.execute(
            f"CREATE MACRO {name}(a INTEGER, b INTEGER) AS a::BIGINT {sign} b::BIGINT, (a, b) AS a {sign} b"
        )
    if not files:
        database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")
    return database


@dataclass(slots=True)
class QueryRun:
    """A connection for one query, in which only the names are known that it registers.

    `source`: the text of the query, for errors. `failures`: what a scan raised while DuckDB asked it for rows.
    """

    limit: QueryLimit
    source: SqlText
    failures: list[BaseException] = field(default_factory=list)
    _connection: Any = None

    def open(self) -> QueryRun:
        """Open the connection. Raises `Unsupported`, and `InvalidOption` for an invalid limit."""
        self._connection = _database(os.getpid(), self.limit.memory, self.limit.files).cursor()
        return self

    def register(self, name: str, frame: pl.LazyFrame) -> None:
        """Let the query know rows by a name."""
        failure: BaseException | None = None
        try:
            self._connection.register(name, frame)
        except Exception as wrong:  # noqa: BLE001 - as in `iterate`
            failure = translate(wrong, self.source, self.failures)
        if failure is not None:
            raise failure

    def relation(self, sql: str) -> Any:
        """Return a relation of DuckDB, which is bound and not computed. Raises what `translate` returns."""
        return self.wait(lambda: self._connection.sql(sql))

    def reader(self, sql: str, batch_rows: int) -> Any:
        """Return the batches of a statement as Arrow, which are computed as they are read; for use in `iterate`."""
        return self._connection.sql(sql).to_arrow_reader(batch_rows)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the few rows of a statement."""
        result: list[tuple[Any, ...]] = self.wait(lambda: self._connection.sql(sql).fetchall())
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
                        f"Raise the catalog's option {TIMEOUT!r}, or ask for less",
                        field=TIMEOUT,
                    )
                    break
                yield item
                started = runtime.elapsed_ms()
            is_done = failure is None
        except Exception as wrong:  # noqa: BLE001 - whatever DuckDB raises is translated, below
            failure, is_done = translate(wrong, self.source, self.failures), True
        finally:
            if not is_done:
                with suppress(Exception):
                    self._connection.interrupt()
            items.close()
        if failure is not None:  # outside of the block: DuckDB's error quotes the statement
            raise failure

    def close(self) -> None:
        """Give the connection back."""
        with suppress(Exception):
            self._connection.close()


@contextmanager
def opened(limit: QueryLimit, source: SqlText) -> Iterator[QueryRun]:
    """Open a connection for one query, and close it."""
    run = QueryRun(limit, source).open()
    try:
        yield run
    finally:
        run.close()
