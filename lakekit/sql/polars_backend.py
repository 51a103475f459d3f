"""Statements executed in this process, queries by Polars' SQL over the tables' LazyFrames.

    cat.sql("SELECT day, sum(total) AS total FROM shop.orders WHERE id > 7 GROUP BY day").collect()
    cat.sql("INSERT INTO shop.orders VALUES (1, 'a'); CALL sys.compact('shop.orders')")

A query is read in Spark's dialect, as `ls.sql` reads it, and translated to that of Polars (sqlglot); each table in it
is a scan, which gets the query's conditions and columns. Types are Paimon's own, as `t.to_sql()` writes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.catalog.catalog import GlobalTable
from lakekit.catalog.views import View
from lakekit.columns import col, internal, is_pattern
from lakekit.errors import ColumnNotFound, InvalidOption, SchemaMismatch
from lakekit.format.polars_types import paimon_type, polars_type
from lakekit.model.table_paths import check_not_in_hint
from lakekit.options.redaction import excerpt, without_secrets
from lakekit.read.user_expressions import translate_panics
from lakekit.sql import dispatch, expressions
from lakekit.sql.backend import Statement, parse_properties, single_column
from lakekit.sql.expressions import exp
from lakekit.sql.tokenizer import TokenStream, single_statement, strip_hints
from lakekit.storage.object_store_requests import typed_refusals
from lakekit.types import Field, parse
from lakekit.write import input_frames
from lakekit.write.value_casting import ErrorHints

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lakekit.catalog.catalog import Catalog
    from lakekit.commit.changes import Commit
    from lakekit.dml.merge_plan import Clause
    from lakekit.maintenance.result import Expired
    from lakekit.table.format_tables import ObjectTable
    from lakekit.table.table import Table
    from lakekit.types import DataType

    Node = Any
    """A node of sqlglot's tree."""

_RENAMED = "named"
"""The word before names that are patterns, in queries that Polars' SQL computes."""
_HINTS = ErrorHints(
    cast=" with CAST(… AS …) in the statement",
    cut="date_trunc('{unit}', …)",
    grow=", or add it with ALTER TABLE … ADD COLUMN",
)
"""What errors about rows of a statement advise."""
_POLARS = "postgres"
"""The dialect of sqlglot that is closest to Polars' SQL."""
_LITERALS = (exp.Literal, exp.Null, exp.Boolean)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In)


def query(catalog: Catalog, text: str, database: str) -> pl.LazyFrame:
    """Return the rows of one query, whose names of one part are tables of `database`.

    Raises: `InvalidOption` for a text that is no query.
    """
    statement = Statement(backend=PolarsBackend(database), catalog=catalog, tokens=TokenStream.of(text))
    if not dispatch.is_query(statement):
        raise InvalidOption(f"a view is a query, SELECT …; found {excerpt(text)}", key="query", value=excerpt(text))
    return statement.backend.query(statement, statement.tokens.remaining_text)


def _collect(rows: pl.LazyFrame, text: str) -> pl.DataFrame:
    with typed_refusals(), translate_panics("the query", sql=partial(excerpt, text)):
        return rows.collect()


def _rename_pattern_columns(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows with columns `*` and `^…$`, patterns to Polars' SQL, under other names."""
    names = [name for name in rows.collect_schema().names() if is_pattern(name)]
    return rows.rename({name: internal(_RENAMED, name) for name in names}) if names else rows


@dataclass(frozen=True, slots=True)
class PolarsBackend:
    """The `lakekit.sql.backend.SqlBackend` of this process.

    `database`: where names of one part are looked for.
    """

    database: str | None = None
    tables: dict[str, Table] = field(default_factory=dict)
    catalogs: dict[str, Catalog] = field(default_factory=dict)
    """The catalogs of CREATE CATALOG, by name."""
    zone: str | None = None
    """None: a time without a zone is one of this process, as in `t.scan(at=…)`."""
    files: bool = False
    """Whether a query may open files, as one that the caller typed with `files=True`."""

    def named(self, name: str) -> Catalog:
        """Return the catalog of a name. Raises `InvalidOption`."""
        if name not in self.catalogs:
            names = ", ".join(self.catalogs) or "none"
            raise InvalidOption(
                f"no catalog {name[:200]!a} here; CREATE CATALOG in this session named {names}", key="sql", value=name
            )
        return self.catalogs[name]

    # ---- queries ---------------------------------------------------------------------------------

    def query(self, statement: Statement, text: str) -> pl.LazyFrame:
        """Return the rows of a query.

        Raises what the catalog raises, `InvalidOption` for what Polars does not know, `ColumnNotFound`,
        `SchemaMismatch`.
        """
        plain, hints = strip_hints(single_statement(text))
        tree = expressions.parse_tree(plain, "query", reads_texts=False)
        if not isinstance(tree, (exp.Query, exp.Values)):
            raise InvalidOption(f"no query that lakekit understands: {excerpt(text)}", key="sql")
        own = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
        frames: dict[str, pl.LazyFrame] = {}
        named: set[tuple[str, str]] = set()
        for node in list(tree.find_all(exp.Table)):
            if isinstance(node.this, exp.Identifier) and not (node.args.get("db") is None and node.name.lower() in own):
                key = f"lakekit_{len(frames)}"
                frames[key] = _rename_pattern_columns(self._scan(statement, node, _options(plain, hints, node)))
                named.add((node.text("db").lower(), node.name.lower()))
                _name(node, key)
        if hints:
            raise InvalidOption(
                f"/*+{without_secrets(next(iter(hints.values())))}*/: hints are OPTIONS(…), behind the name of a table",
                key="sql",
            )
        for column in tree.find_all(exp.Column):
            if (column.text("db").lower(), column.text("table").lower()) in named:
                column.set("db", None)  # the table goes by its own name here
        for cast in list(tree.find_all(exp.Cast)):
            _rewrite_timestamp_literal(cast)
        for identifier in tree.find_all(exp.Identifier):
            if is_pattern(identifier.name):
                identifier.set("this", internal(_RENAMED, identifier.name))
        if isinstance(tree, exp.Values):
            tree = _rows(tree)
        try:
            frame = pl.SQLContext(frames=frames).execute(tree.sql(_POLARS))
            frame.collect_schema()
        except pl.exceptions.ColumnNotFoundError as wrong:
            raise ColumnNotFound(
                f"{without_secrets(_first_line(wrong))}, in: {excerpt(text)}", name=without_secrets(_first_line(wrong))
            ) from None
        except (pl.exceptions.SchemaError, pl.exceptions.InvalidOperationError) as wrong:
            raise SchemaMismatch(f"{without_secrets(_first_line(wrong))}, in: {excerpt(text)}") from None
        except pl.exceptions.PolarsError as wrong:
            raise InvalidOption(
                f"no query that Polars' SQL computes: {without_secrets(_first_line(wrong))}. In: {excerpt(text)}",
                key="sql",
            ) from None
        prefix = internal(_RENAMED, "")
        hidden = [name for name in frame.collect_schema().names() if name.startswith(prefix)]
        return frame.rename({name: name.removeprefix(f"{prefix}.") for name in hidden}) if hidden else frame

    def _scan(self, statement: Statement, node: Node, options: Mapping[str, str] | None) -> pl.LazyFrame:
        """Return the scan of a table's name in a query, at the requested version."""
        catalog_node = node.args.get("catalog")
        if catalog_node is not None:
            statement = replace(statement, catalog=self.named(catalog_node.name))
        source = statement.resolve_name(
            statement.full([part.name for part in (node.args.get("db"), node.this) if part is not None]), options
        )
        version = node.args.get("version")
        if version is None:
            return source.scan()
        literal = version.expression
        if not isinstance(literal, exp.Literal) or isinstance(source, View | GlobalTable):
            raise InvalidOption(
                f"{version.sql('spark')}: write a snapshot, a tag or a time as a literal, behind the name of a table",
                key="sql",
            )
        if str(version.this).upper() == "VERSION":
            return source.scan(literal.name if literal.is_string else int(literal.name))
        return source.scan(statement.moment(literal.name, is_text=literal.is_string))

    def values(self, statement: Statement, text: str, most: int) -> pl.Series:
        try:
            frame = _collect(self.query(statement, text).head(most + 1), text)
        except pl.exceptions.PolarsError as wrong:
            raise InvalidOption(
                f"no query that Polars' SQL computes: {without_secrets(_first_line(wrong))}. In: {excerpt(text)}",
                key="sql",
            ) from None
        return single_column(frame, text, most)

    def names(self, rows: pl.LazyFrame) -> list[str]:
        return rows.collect_schema().names()

    def fields(self, rows: pl.LazyFrame) -> tuple[Field, ...]:
        """Their columns, which may be null."""
        return tuple(Field(name, paimon_type(dtype, name)) for name, dtype in rows.collect_schema().items())

    def renamed(self, rows: pl.LazyFrame, names: Sequence[str]) -> pl.LazyFrame:
        """Return the columns by other names. Raises `SchemaMismatch` where there are not as many."""
        own = self.names(rows)
        if len(own) != len(names):
            raise SchemaMismatch(f"{len(names)} names ({', '.join(names)}) for {len(own)} columns ({', '.join(own)})")
        return rows.select(col(name).alias(to) for name, to in zip(own, names, strict=True))

    def stored(
        self, rows: pl.LazyFrame, wanted: Sequence[Field | None], constants: Mapping[Field, Any]
    ) -> pl.LazyFrame:
        """Return columns as the table takes them, where SQL casts what is written.

        `t.append` casts where no value changes.
        """
        schema = rows.collect_schema()
        stored = [
            _store_column(name, dtype, field) for (name, dtype), field in zip(schema.items(), wanted, strict=True)
        ]
        return rows.select(
            *stored,
            *(pl.lit(value).cast(polars_type(field.type)).alias(field.name) for field, value in constants.items()),
        )

    def type(self, text: str) -> DataType:
        """Return the type of Paimon's type text.

        Raises: `InvalidOption` for an invalid text, `Unsupported` for a type that lakekit refuses.
        """
        try:
            return parse(text)
        except ValueError as wrong:
            failure = without_secrets(f"{text} is no type: {wrong}")
        raise InvalidOption(failure, key="sql", value=without_secrets(text))

    def type_text(self, t: DataType) -> str:
        """As `t.to_sql()` writes it."""
        return str(t)

    # ---- changes: the methods of tables ----------------------------------------------------------

    def write(self, rows: pl.LazyFrame, table: Table, *, mode: str, partition: Mapping[str, Any] | None) -> Commit:
        selected = input_frames.open_lazy_frame(rows, remedies=_HINTS)
        return table.append(selected) if mode == "append" else table.overwrite(selected, partition=partition)

    def delete(self, table: Table, where: pl.Expr | str) -> Commit:
        return table.delete(where)

    def update(self, table: Table, values: Mapping[str, Any], *, where: pl.Expr | str) -> Commit:
        return table.update(values, where=where)

    def merge(self, table: Table, source: pl.LazyFrame, *clauses: Clause, on: pl.Expr) -> Commit:
        return table.merge(source, *clauses, on=on)

    def analyze(self, table: Table, *, columns: Sequence[str] | None) -> Commit:
        return table.analyze(columns=columns)

    def compact(self, table: Table, **how: Any) -> Commit:
        return table.compact(**how)

    def rewrite_file_index(self, table: Table, *, where: pl.Expr | None) -> Commit:
        return table.rewrite_file_index(where=where)

    def remove_orphans(self, table: Table, *, older_than: datetime | None, dry_run: bool) -> pl.DataFrame:
        return table.remove_orphans(older_than=older_than, dry_run=dry_run)

    def refresh(self, table: ObjectTable) -> Commit:
        return table.refresh()

    def expire_snapshots(self, table: Table, **how: Any) -> Expired:
        return table.expire_snapshots(**how)


# ---- tables in a query ---------------------------------------------------------------------------


def _options(text: str, hints: dict[int, str], node: Node) -> dict[str, str] | None:
    """Return the options of a hint `t /*+ OPTIONS('k' = 'v') */`, and remove it from `hints`."""
    end = node.this.meta["end"] + 1
    at = next((at for at in hints if at >= end and not text[end:at].strip()), None)
    if at is None:
        return None
    tokens = TokenStream.of(hints.pop(at))
    tokens.expect("OPTIONS")
    options = parse_properties(tokens)
    tokens.end()
    check_not_in_hint(options, "the hint OPTIONS")
    return options


def _name(node: Node, key: str) -> None:
    """Replace a table by the name of a frame; the table's own name becomes its alias."""
    own = node.name
    for part in ("catalog", "db", "version"):
        node.set(part, None)
    node.set("this", exp.to_identifier(key))
    if not node.alias:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(own, quoted=True)))


def _rows(values: Node) -> Node:
    """Return the rows of VALUES, as queries unless all are literals: Polars takes nothing else."""
    rows = [item.expressions if isinstance(item, exp.Tuple) else [item] for item in values.expressions]
    if all(
        isinstance(value, _LITERALS) or (isinstance(value, exp.Cast | exp.Neg) and isinstance(value.this, exp.Literal))
        for row in rows
        for value in row
    ):
        return values
    selects = [exp.select(*(exp.alias_(value, f"column_{at}") for at, value in enumerate(row))) for row in rows]
    return exp.union(*selects, distinct=False) if len(selects) > 1 else selects[0]


def _rewrite_timestamp_literal(cast: Node) -> None:
    """Rewrite `TIMESTAMP '…'` as Polars takes it.

    Compared with a column it becomes a text, which Polars reads as that column's type; else a moment without a zone.
    """
    if (
        not isinstance(cast.this, exp.Literal)
        or not cast.this.is_string
        or not str(cast.args["to"].this.name).startswith("TIMESTAMP")
    ):
        return
    if isinstance(cast.parent, _COMPARISONS):
        cast.replace(cast.this)
    else:
        cast.set("to", exp.DataType.build("TIMESTAMP", dialect=_POLARS))


def _store_column(name: str, dtype: pl.DataType, field: Field | None) -> pl.Expr:
    """Return a column of a query as the table stores it, under the table's name.

    Decimals become DOUBLE, days moments, and whatever has a text STRING.
    """
    column = col(name)
    if field is None:
        return column
    to = polars_type(field.type)
    is_fraction = isinstance(dtype, pl.Decimal) and to.is_float()
    is_moment = isinstance(to, pl.Datetime) and isinstance(dtype, pl.Date)
    is_text = isinstance(to, pl.String) and (dtype.is_numeric() or dtype.is_temporal() or isinstance(dtype, pl.Boolean))
    return (column.cast(to) if is_fraction or is_moment or is_text else column).alias(field.name)


def _first_line(wrong: Exception) -> str:
    """Return the message of a Polars error, without the plan that it shows."""
    return str(wrong).strip().partition("\n")[0]
