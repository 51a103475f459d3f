"""The tree of a query, made ready for DuckDB: names become scans, views become their queries, sums of INT are widened.

    SELECT count(*), a + 1 FROM shop.orders /*+ OPTIONS('scan.tag-name' = 'v1') */ WHERE id > 7
        ->   SELECT COUNT(*) AS "count(*)", LAKEKIT_ADD(a, 1) AS "a + 1" FROM lakekit_0 AS orders WHERE id > 7

Start with `QueryTree.of`. An output without a name gets the text that the statement has for it. A view is put in place
of its name as its query, within bounds on depth and on what all views together name: what lies in a lake may be written
by anybody.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from lakekit import catalog
from lakekit.errors import LakekitError, LimitExceeded
from lakekit.expressions.parser import SqlText, parse_statement
from lakekit.sql import query_refusal
from lakekit.sql.cage import AMBIGUOUS_TEXT
from lakekit.sql.query_expression import (
    WIDENED,
    expand_fields,
    hint_of,
    name_outputs,
    narrow,
    operands_of_unknown_type,
    refuse_other_hints,
    widen,
)
from lakekit.sql.query_scan import QueryScan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakekit.catalog.views import View
    from lakekit.sql.backend import Statement
    from lakekit.sql.cage import QueryRun

    Node = Any
    """A node of sqlglot's tree."""

MAX_VIEW_DEPTH = 16
"""How many views may be between a query and a table."""
MAX_TABLES = 256
"""How many tables a query may name, those in its views counted as often as they are read."""
MAX_VIEW_CHARS = 100_000
"""How long the query of a view may be: it is parsed whenever the view is read."""
MAX_VIEW_NODES = 50_000
"""How many nodes the queries of all views of a query may have together."""
_CLAUSES = frozenset({"expressions", "from_", "limit", "offset"})
_ADDED = ("joins", "laterals", "pivots", "sample")
"""What may stand behind a table's name, and goes where it goes."""
_PLAIN = (exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Literal)
_QUERIES = (exp.Query, exp.Values, exp.Pivot)


@dataclass(slots=True)
class QueryTree:
    """A query whose tables are `scans`, by the names that its tree has for them.

    `statement_of` gives the statement in which the query of a view is read.
    """

    source: SqlText
    tree: Node
    statement_of: Callable[[View], Statement]
    scans: dict[str, QueryScan] = field(default_factory=dict)
    view_nodes: int = 0
    resolved: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    """What names stand for, by catalog, name and hint: each is looked up once."""

    @staticmethod
    def of(
        statement: Statement,
        source: SqlText,
        *,
        statement_of: Callable[[View], Statement],
        files: bool = False,
        tree: Node = None,
    ) -> QueryTree:
        """Read a query and resolve what it names; `tree`: the query, where it is read already.

        Raises: `SqlError`, `Unsupported` for what a query may not ask for, `LimitExceeded` for views beyond the
        bounds, and what the catalog raises.
        """
        made = QueryTree(source, statement.bind(tree or _parse(source)), statement_of)
        try:
            made._resolve(made.tree, statement, source, files=files)
        except RecursionError:
            is_too_deep = True
        else:
            is_too_deep = False
        if is_too_deep:
            raise source.error(0, "it is nested too deeply")
        scan = plain_scan(made)
        first = None if scan is None or not is_plain(made.tree) else first_rows(made.tree)
        if scan is not None and first is not None and first[1] is not None:
            scan.limit = first[0] + first[1]
        return made

    def relation(self, run: QueryRun, prefix: str = "") -> tuple[Any, str]:
        """Return the query as DuckDB binds it in a connection, and its statement, with a word before it.

        Where DuckDB does not know the type of an operand, as of an alias, sums of INT stay INT.

        Raises: `SqlError` for a tree that is too deep, and what `QueryRun.relation` raises.
        """
        try:
            return run.relation(sql := prefix + self.sql()), sql
        except LakekitError as wrong:
            if AMBIGUOUS_TEXT not in str(wrong):
                raise
        narrow(self.tree)
        return run.relation(sql := prefix + self.sql()), sql

    def sql(self) -> str:
        """Return the statement that DuckDB runs. Raises `SqlError` for a tree that is too deep."""
        with suppress(RecursionError, SqlglotError):
            return str(self.tree.sql("duckdb", comments=False, unsupported_level=ErrorLevel.RAISE))
        raise self.source.error(0, "it is nested too deeply, or has what DuckDB does not know")

    def _resolve(
        self, tree: Node, statement: Statement, source: SqlText, *, files: bool, views: tuple[str, ...] = ()
    ) -> None:
        """Put scans and queries of views in the place of names, and make all else DuckDB's."""
        query_refusal.check(tree, source, files=files)
        columns, sums = list(tree.find_all(exp.Column)), list(tree.find_all(*WIDENED))
        unnests, tables = list(tree.find_all(exp.Unnest)), list(tree.find_all(exp.Table))
        unknown = operands_of_unknown_type(tree)
        sums = [node for node in sums if id(node) not in unknown]
        name_outputs(tree, source)
        named: dict[tuple[str, str], str] = {}
        for node in tables:
            if not isinstance(node.this, exp.Identifier):
                self._resolve_function(node, statement, source)
            elif not _is_of_with(node):
                database, name = node.text("db").lower(), node.name.lower()
                alias = self._resolve_name(node, statement, source, views)
                if database:
                    named[database, name] = alias
        refuse_other_hints(tree, source)
        for column in columns:
            _shorten(column, named)
        maps = self._map_columns() if unnests else set()
        for node in unnests:
            expand_fields(node, maps)
        for node in sums:
            widen(node)

    def _resolve_name(self, node: Node, statement: Statement, source: SqlText, views: tuple[str, ...]) -> str:
        """Put a scan, or the query of a view, in the place of a name; return the table's alias."""
        parts = [part.name for part in node.parts]
        if views and node.args.get("catalog") is not None:
            raise source.error(0, "a view names tables of its own catalog, as db.t")
        hint = hint_of(node, source)
        own, name = statement.locate(parts)
        key = (id(own.catalog), name, tuple((hint or {}).items()))
        if key not in self.resolved:
            self.resolved[key] = own.resolve_name(name, hint)
        table = self.resolved[key]
        version = _version(node, own, table, source)
        alias = node.args.get("alias") or exp.TableAlias()
        if alias.args.get("this") is None:
            alias.set("this", exp.to_identifier(parts[-1], quoted=True))
        if isinstance(table, catalog.views.View):
            _replace(node, exp.Subquery(this=self._view(table, (*views, table.name))), alias, table)
        else:
            self._replace_scan(node, QueryScan(name, table, source, version), alias, source)
        return str(alias.name)

    def _replace_scan(self, node: Node, scan: QueryScan, alias: Node, source: SqlText) -> None:
        key = f"lakekit_{len(self.scans)}"
        self.scans[key] = scan
        if len(self.scans) > MAX_TABLES:
            raise LimitExceeded(
                f"{source.name}: it names more than {MAX_TABLES} tables, those in its views counted each time"
            )
        for part in ("catalog", "db", "version", "this"):
            node.set(part, None)
        node.set("this", exp.to_identifier(key))
        node.set("alias", alias)

    def _view(self, view: View, views: tuple[str, ...]) -> Node:
        """Return the tree of a view's query, with all names resolved in the view's own database and catalog."""
        if len(views) > MAX_VIEW_DEPTH:
            raise LimitExceeded(
                f"{self.source.name}: view {views[0]} is more than {MAX_VIEW_DEPTH} views deep, or names itself: "
                f"{' -> '.join(views[:4])} …"
            )
        check_length(view.query)
        source = SqlText(view.query, f"view {view.name}")
        tree = _parse(source)
        self.view_nodes += sum(1 for _ in tree.walk())
        if self.view_nodes > MAX_VIEW_NODES:
            raise LimitExceeded(
                f"{self.source.name}: the queries of its views have more than {MAX_VIEW_NODES:,} parts together"
            )
        self._resolve(tree, self.statement_of(view), source, files=False, views=views)
        return tree

    def _map_columns(self) -> set[str]:
        """Return the names of columns that are MAPs in every table that has one of that name, in lower case."""
        roots: dict[str, set[str]] = {}
        for scan in self.scans.values():
            for column in scan.fields():
                roots.setdefault(column.name.lower(), set()).add(column.type.root)
        return {name for name, kinds in roots.items() if kinds == {"MAP"}}

    def _resolve_function(self, node: Node, statement: Statement, source: SqlText) -> None:
        """Put the changes of a table in the place of `table_changes('db.t', 5, 7)`."""
        if query_refusal.function_name(node.this) != "table_changes":
            return
        arguments = node.this.expressions
        if len(arguments) != 3 or not all(isinstance(argument, exp.Literal) for argument in arguments):
            raise source.error(0, "write table_changes('db.t', since, until), with snapshots or tags as literals")
        name, since, until = (argument.name for argument in arguments)
        table = statement.resolve_name(statement.full(name.split(".", 1)), {"incremental-between": f"{since},{until}"})
        alias = node.args.get("alias") or exp.TableAlias()
        if alias.args.get("this") is None:
            alias.set("this", exp.to_identifier("table_changes"))
        self._replace_scan(node, QueryScan(name, table, source), alias, source)


def _parse(source: SqlText) -> Node:
    tree = parse_statement(source.text, source.name, dialect=source.dialect)
    if not isinstance(tree, _QUERIES):
        raise source.error(0, "it is no query; SELECT, WITH, VALUES, FROM, TABLE and PIVOT begin one")
    return tree


def check_length(query: str) -> None:
    """Raise `LimitExceeded` for the query of a view, or of a materialized table, that is too long."""
    if len(query) > MAX_VIEW_CHARS:
        raise LimitExceeded(
            f"the query of a view or of a materialized table has {len(query):,} characters; there may be "
            f"{MAX_VIEW_CHARS:,}"
        )


def plain_scan(query: QueryTree) -> QueryScan | None:
    """Return the scan of `SELECT … FROM t`, with LIMIT and OFFSET or without; None for any other query."""
    tree = query.tree
    if not isinstance(tree, exp.Select) or any(value for key, value in tree.args.items() if key not in _CLAUSES):
        return None
    source = tree.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table):
        return None
    table = source.this
    is_alone = not any(table.args.get(part) for part in _ADDED) and not table.alias_column_names
    return query.scans.get(source.this.name) if is_alone else None


def is_plain(tree: Node) -> bool:
    """Return whether each row of a query is one of its table: no output counts, sums or repeats rows."""
    return all(isinstance(node, _PLAIN) for output in tree.expressions for node in output.walk())


def first_rows(tree: Node) -> tuple[int, int | None] | None:
    """Return OFFSET and LIMIT of a query, None for no LIMIT; None where one is no number."""
    clauses = [tree.args.get(clause) for clause in ("offset", "limit")]
    if any(
        clause is not None and (isinstance(clause, exp.Fetch) or clause.args.get("limit_options")) for clause in clauses
    ):
        return None  # a share of the rows, or FETCH FIRST
    counts = [None if clause is None else clause.expression for clause in clauses]
    if any(count is not None and not (isinstance(count, exp.Literal) and count.is_int) for count in counts):
        return None
    offset, limit = (None if count is None else int(count.name) for count in counts)
    return offset or 0, limit


def _is_of_with(node: Node) -> bool:
    """Return whether a name of one part is that of a WITH which encloses it and is read before it."""
    if node.args.get("db") is not None:
        return False
    name, inner, outer = node.name.lower(), node, node.parent
    while outer is not None:
        clause = outer.args.get("with_") or outer.args.get("with")
        if clause is not None:
            for own in clause.expressions:
                within = inner is clause and any(own is part for part in _ancestors(node))
                if own.alias_or_name.lower() == name and (not within or clause.args.get("recursive")):
                    return True
                if within:
                    break
        inner, outer = outer, outer.parent
    return False


def _ancestors(node: Node) -> list[Node]:
    found = []
    while node is not None:
        found.append(node)
        node = node.parent
    return found


def _version(node: Node, statement: Statement, table: Any, source: SqlText) -> Any:
    """Return the version that FOR VERSION AS OF, FOR SYSTEM_TIME AS OF or `t@tag` asks for."""
    version = node.args.get("version")
    if version is None:
        return None
    literal = version.expression
    if isinstance(literal, exp.Cast) and literal.to.is_type("timestamp", "timestampntz", "timestamptz"):
        literal = literal.this
    if not isinstance(literal, exp.Literal) or not hasattr(table, "snapshots"):
        raise source.error(
            int(node.this.meta.get("start", 0)),
            "write a snapshot, a tag or a time as a literal, behind the name of a table",
        )
    if str(version.this).upper() == "VERSION":
        return literal.name if literal.is_string else int(literal.name)
    return statement.moment(literal.name, is_text=literal.is_string)


def _replace(node: Node, query: Node, alias: Node, view: View) -> None:
    """Put the query of a view in the place of its name."""
    if not alias.args.get("columns"):
        alias.set("columns", [exp.to_identifier(field.name, quoted=True) for field in view.fields])
    query.set("alias", alias)
    for part in _ADDED:
        if node.args.get(part):
            query.set(part, node.args[part])
    node.replace(query)


def _shorten(column: Node, named: Mapping[tuple[str, str], str]) -> None:
    """Remove the database from a column's name: the table goes by its alias in the tree."""
    alias = named.get((column.text("db").lower(), column.text("table").lower()))
    if alias is not None:
        for part in ("catalog", "db"):
            column.set(part, None)
        column.set("table", exp.to_identifier(alias, quoted=True))
