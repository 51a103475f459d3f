"""A statement being read, and the backend that executes it.

    Statement(backend=…, catalog=cat, tokens=TokenStream.of("DELETE FROM shop.orders"))

A `SqlBackend` has what differs between execution in this process and by Spark's tasks; all other code is shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol
from zoneinfo import ZoneInfo

from lakekit.errors import InvalidOption, SchemaMismatch, Unsupported
from lakekit.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from lakekit.catalog.catalog import Catalog
    from lakekit.commit.changes import Commit
    from lakekit.dml.merge_plan import Clause
    from lakekit.maintenance.result import Expired
    from lakekit.sql.tokenizer import TokenStream
    from lakekit.table.format_tables import ObjectTable
    from lakekit.types import DataType, Field

    Row = tuple[Any, ...]

    Rows = Any
    """The rows of a query in a backend: a LazyFrame, or a DataFrame of Spark."""


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The few rows that a statement returns.

    `columns`: "name kind", separated by commas; kinds are "string", "long", "int" and "boolean".
    """

    columns: str = ""
    rows: Sequence[Row] = ()

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column."""
        return dict(column.split() for column in self.columns.split(",")) if self.columns else {}


def single_column(rows: pl.DataFrame, text: str, most: int) -> pl.Series:
    """Return the only column of a query's rows.

    Raises: `SchemaMismatch` for several, `Unsupported` for more rows than `most`.
    """
    if rows.width != 1:
        raise SchemaMismatch(f"{text} gives {rows.width} columns, where one is wanted")
    if rows.height > most:
        raise Unsupported(f"{text} gives more than {most} values: make it the source of a MERGE", feature="catalog.sql")
    return rows.to_series()


class SqlBackend(Protocol):
    """Computes rows and changes tables for a statement.

    Methods raise what the methods of tables raise that they stand for.
    """

    @property
    def tables(self) -> dict[str, Table]:
        """Tables that lie outside of the catalog, by the names that statements gave them."""
        ...

    @property
    def database(self) -> str | None:
        """Where a name of one part is looked for; None: nowhere."""
        ...

    @property
    def zone(self) -> str | None:
        """The time zone in which texts are moments; None: that of this process."""
        ...

    def query(self, statement: Statement, text: str) -> Rows:
        """Return the rows of a query."""
        ...

    def values(self, statement: Statement, text: str, most: int) -> pl.Series:
        """Return the values of a query's only column.

        Raises: `SchemaMismatch` for several, `Unsupported` for more values than `most`.
        """
        ...

    def names(self, rows: Rows) -> list[str]:
        """Their columns' names."""
        ...

    def fields(self, rows: Rows) -> tuple[Field, ...]:
        """Their columns. Raises `SchemaMismatch` for a type that no Paimon type holds."""
        ...

    def renamed(self, rows: Rows, names: Sequence[str]) -> Rows:
        """Return the rows with other names for their columns, in order."""
        ...

    def stored(self, rows: Rows, wanted: Sequence[Field | None], constants: Mapping[Field, Any]) -> Rows:
        """Return the rows as a table takes them: the column of each field, in order, and constant columns.

        Columns are cast as SQL casts what it stores; with None in place of a field a column stays as it is.
        """
        ...

    def type(self, text: str) -> DataType:
        """Return the type that a statement names."""
        ...

    def type_text(self, t: DataType) -> str:
        """Return a type as DESCRIBE prints it."""
        ...

    def write(self, rows: Rows, table: Table, *, mode: str, partition: Mapping[str, Any] | None) -> Commit:
        """Rows appended, or put in the place of others: `mode` is "append" or "overwrite"."""
        ...

    def delete(self, table: Table, where: pl.Expr | str) -> Commit: ...
    def update(self, table: Table, values: Mapping[str, Any], *, where: pl.Expr | str) -> Commit: ...
    def merge(self, table: Table, source: Rows, *clauses: Clause, on: pl.Expr) -> Commit: ...
    def analyze(self, table: Table, *, columns: Sequence[str] | None) -> Commit: ...
    def compact(self, table: Table, **how: Any) -> Commit: ...
    def rewrite_file_index(self, table: Table, *, where: pl.Expr | None) -> Commit: ...
    def remove_orphans(self, table: Table, *, older_than: datetime | None, dry_run: bool) -> pl.DataFrame: ...
    def refresh(self, table: ObjectTable) -> Commit: ...
    def expire_snapshots(self, table: Table, **how: Any) -> Expired: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement, its backend and catalog, and the tokens of it that are still to be read."""

    backend: SqlBackend
    catalog: Catalog
    tokens: TokenStream

    def name(self) -> str:
        """Take the name of a table, "db.t". Raises `InvalidOption`."""
        parts = self.tokens.names("a table, as database.table")
        if len(parts) > 2:
            raise InvalidOption(
                f"{'.'.join(parts)} has {len(parts)} parts; a table of the catalog given is called database.table",
                key="sql",
            )
        return self.full(parts)

    def full(self, parts: Sequence[str]) -> str:
        """Return a name with its database. Raises `InvalidOption` where no database is known."""
        if len(parts) > 1:
            return ".".join(parts)
        if self.backend.database is None:
            raise InvalidOption(
                f"{parts[0]}: a table is called database.table, or USE names the database before",
                key="sql",
                value=parts[0],
            )
        return f"{self.backend.database}.{parts[0]}"

    def resolve_name(self, name: str, options: Mapping[str, str] | None = None) -> Any:
        """Return what a name stands for: a table, a view, a system table. Raises what the catalog raises."""
        if name in self.backend.tables:
            return self.backend.tables[name].with_options(options) if options else self.backend.tables[name]
        return self.catalog.table(name, options=options)

    def table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
        """Return a table with rows of its own.

        Raises what the catalog raises, `InvalidOption` for a system table.
        """
        named = self.resolve_name(name, options)
        if not isinstance(named, Table):
            raise InvalidOption(
                f"{name} is made of what a table holds, as views and system tables are; a statement that changes "
                "something names that table",
                key="sql",
                value=name,
            )
        return named

    @property
    def zone(self) -> str:
        """The zone of texts that are compared with moments that have one."""
        return self.backend.zone or "UTC"

    def moment(self, text: str, *, is_text: bool = True) -> datetime:
        """Return a time, given as a text in the backend's zone or as seconds since 1970.

        Without a zone it is in this process's.

        Raises: `InvalidOption`.
        """
        try:
            time = datetime.fromisoformat(text) if is_text else datetime.fromtimestamp(int(text), ZoneInfo("UTC"))
        except (ValueError, OverflowError, OSError):
            raise InvalidOption(
                f"{text!r} is no time; write '2024-03-31 12:00:00', or seconds since 1970", key="sql", value=text
            ) from None
        return time if time.tzinfo or self.backend.zone is None else time.replace(tzinfo=ZoneInfo(self.backend.zone))
