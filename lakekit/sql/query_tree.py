"""The tree of a query, made ready for DuckDB: names become scans, views become their queries, sums of INT are widened.

    SELECT count(*), a + 1 FROM shop.orders /*+ OPTIONS('scan.tag-name' = 'v1') */ WHERE id > 7
        ->   SELECT count(*) AS "count(*)", lakekit_add(a, 1) AS "a + 1" FROM lakekit_0 AS "orders"  WHERE id > 7

Start with `QueryTree.of`. DuckDB gets the text as its user typed it, with just these places replaced (`query_text`);
for Spark's dialect it gets what sqlglot writes for the tree. An output without a name gets the text that the statement
has for it. A view is put in place of its name as its query, within bounds on depth and on what all views together name:
what lies in a lake may be written by anybody.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined] # sqlglot exports it without saying so

from lakekit import catalog
from lakekit.errors import LakekitError, LimitExceeded
from lakekit.expressions.parser import SqlText, parse_query
from lakekit.sql import query_refusal
from lakekit.sql.cage import AMBIGUOUS_TEXT
from lakekit.sql.duckdb_tree import DuckDBTree
from lakekit.sql.query_expression import (
    WIDENED,
    bind_text,
    expand_fields,
    hint_of,
    name_outputs,
    name_types,
    narrow,
    operands_of_unknown_type,
    refuse_other_hints,
    translate_calls,
    widen,
)
from lakekit.sql.query_scan import QueryScan
from lakekit.sql.query_text import QueryText, quoted

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
_MOST_TRANSLATED = 16
"""How many functions that DuckDB has not are looked up in a query."""
_MISSING_FUNCTION = re.compile(r'Function with name "?(?P<name>\w+)"? does not exist')
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
    text: QueryText | None = None
    """What DuckDB gets; None where that is what sqlglot writes for the tree."""
    files: bool = False
    scans: dict[str, QueryScan] = field(default_factory=dict)
    duckdb_sql: tuple[str, Callable[[int], int]] | None = None
    """What DuckDB got at last, and the place in the user's text of an offset in it."""
    names: Counter[str] = field(default_factory=Counter)
    """How often each name stands in FROM of what DuckDB gets, in lower case."""
    view_nodes: int = 0
    view_texts: list[tuple[Node, QueryText]] = field(default_factory=list)
    """Nodes that hold the text of a view's query, and that text."""
    read_texts: list[tuple[Node, QueryText]] = field(default_factory=list)
    """The trees of all texts that DuckDB gets, and these."""
    resolved: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    """What names stand for, by catalog, name and hint: each is looked up once."""

    @staticmethod
    def of(
        statement: Statement, source: SqlText, *, statement_of: Callable[[View], Statement], files: bool = False
    ) -> QueryTree:
        """Read a query and resolve what it names.

        Raises: `SqlError`, `Unsupported` for what a query may not ask for, `LimitExceeded` for views beyond the
        bounds, and what the catalog raises.
        """
        tree, text = _parse(source)
        if text is not None:
            bind_text(tree, text, statement.tokens.parameters)
        made = QueryTree(source, statement.bind(tree), statement_of, text, files)
        try:
            made._resolve(made.tree, statement, source, text)
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

        Raises: `SqlError` for a tree that is too deep, and for a text in which DuckDB reads other names; what
        `QueryRun.relation` raises.
        """
        for _ in range(_MOST_TRANSLATED):  # scalar: one a function that DuckDB has not
            try:
                return self._bound(run, prefix)
            except LakekitError as wrong:
                missing = _MISSING_FUNCTION.search(str(wrong))
                if missing is None or not self._translate_calls(missing["name"].lower()):
                    raise
        return self._bound(run, prefix)

    def _bound(self, run: QueryRun, prefix: str) -> tuple[Any, str]:
        plain, wide = self._checked(run)
        self._note_text(run, wide, widens=wide != plain)
        try:
            return run.relation(prefix + wide), prefix + wide
        except LakekitError as wrong:
            if AMBIGUOUS_TEXT not in str(wrong) or plain == wide:
                raise
        self._note_text(run, plain, widens=False)
        return run.relation(prefix + plain), prefix + plain

    def _note_text(self, run: QueryRun, sql: str, *, widens: bool) -> None:
        """Let a connection, and those opened later, know which places of the user's text DuckDB's errors mean."""
        self.duckdb_sql = None if self.text is None else (sql, partial(self.text.origin, widens=widens))
        run.duckdb_sql = self.duckdb_sql

    def _translate_calls(self, name: str) -> bool:
        """Put what sqlglot writes in the place of calls of a function, and return whether there are some."""
        found = False
        for tree, text in reversed(self.read_texts):  # a view within another stands behind it
            for node, query in self.view_texts:
                node.set("this", query.write(widens=False))
            found = translate_calls(tree, text, name) or found
        return found

    def _checked(self, run: QueryRun) -> tuple[str, str]:
        """Return the statement that DuckDB runs, without and with sums of INT in BIGINT; the same where it has none.

        A sum that DuckDB reads otherwise than sqlglot does, as of other operands, stays as it is.
        """
        if self.text is None:
            wide, plain = self.sql(), self.sql(widens=False)
        else:
            plain = self.sql(widens=False)
            wide = self.sql() if self.text.has_sums else plain
        is_compared = wide != plain and self.text is not None
        read, *others = DuckDBTree.read(run, *([plain, wide] if is_compared else [plain]))
        if read.has_no_statement():
            self._check_unread()
        read.check(self.names, self.source, files=self.files, is_exact=self.text is not None)
        if any(not read.is_like(other) for other in others):
            wide = plain
        return plain, wide

    def _check_unread(self) -> None:
        """Refuse a query of which DuckDB gives no tree, where it may read another text in it than sqlglot does."""
        token = None if self.text is None else self.text.find_ambiguous_token()
        if token is not None or not any(True for _ in self.tree.find_all(exp.Pivot)):
            raise self.source.error(0 if token is None else token.start, "it is no query of one statement")

    def sql(self, *, widens: bool = True) -> str:
        """Return the statement that DuckDB runs; `widens`: with sums of INT in BIGINT.

        Raises: `SqlError` for a tree that is too deep.
        """
        if self.text is not None:
            return self.text.write(widens=widens)
        tree = self.tree
        with suppress(RecursionError, SqlglotError):
            for node, text in self.view_texts:
                node.set("this", text.write(widens=widens))
            if not widens:
                tree = tree.copy()
                narrow(tree)
            return str(tree.sql("duckdb", comments=False, unsupported_level=ErrorLevel.RAISE))
        raise self.source.error(0, "it is nested too deeply, or has what DuckDB does not know")

    def _resolve(
        self, tree: Node, statement: Statement, source: SqlText, text: QueryText | None, *, views: tuple[str, ...] = ()
    ) -> None:
        """Put scans and queries of views in the place of names, and make all else DuckDB's."""
        query_refusal.check_query(tree, source, allow_files=self.files and not views)
        if text is not None:
            self.read_texts.append((tree, text))
        columns, sums = list(tree.find_all(exp.Column)), list(tree.find_all(*WIDENED))
        unnests, tables = list(tree.find_all(exp.Unnest)), list(tree.find_all(exp.Table))
        unknown = operands_of_unknown_type(tree)
        sums = [node for node in sums if id(node) not in unknown]
        name_outputs(tree, source, text)
        if text is not None:
            name_types(tree, text)
        named: dict[tuple[str, str], str] = {}
        for node in tables:
            if not isinstance(node.this, exp.Identifier):
                self._resolve_function(node, statement, source, text)
            elif _is_of_with(node):
                self.names[node.name.lower()] += 1
                if node.name.lower().startswith("lakekit_"):
                    raise source.error(_start_of(node), "names that begin with lakekit_ are lakekit's own")
            else:
                database, name = node.text("db").lower(), node.name.lower()
                alias = self._resolve_name(node, statement, source, text, views)
                if database:
                    named[database, name] = alias
        refuse_other_hints(tree, source)
        for column in columns:
            _shorten(column, named, text)
        maps = self._map_columns() if unnests else set()
        for node in unnests:
            expand_fields(node, maps, text)
        for node in sums:
            widen(node, text)

    def _resolve_name(
        self, node: Node, statement: Statement, source: SqlText, text: QueryText | None, views: tuple[str, ...]
    ) -> str:
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
        is_named = alias.args.get("this") is not None
        if not is_named:
            alias.set("this", exp.to_identifier(parts[-1], quoted=True))
        after = "" if is_named else f" AS {quoted(parts[-1])}"
        if isinstance(table, catalog.views.View):
            query = self._view(table, (*views, table.name))
            if text is not None:
                own_names = ", ".join(quoted(field.name) for field in table.fields)
                called = f"{quoted(parts[-1])}({own_names})"
                _replace_name(node, text, "(SELECT * FROM (", query, f") AS {called}){after}")
            holder = exp.Var(this="")
            self.view_texts.append((holder, query))
            _replace(node, exp.Subquery(this=holder), alias, table)
        else:
            scan = self._replace_scan(node, QueryScan(name, table, source, version), alias, source)
            if text is not None:
                _replace_name(node, text, f"{scan}{after}")
        return str(alias.name)

    def _replace_scan(self, node: Node, scan: QueryScan, alias: Node, source: SqlText) -> str:
        """Name a table by the name of its scan, and return that."""
        key = f"lakekit_{len(self.scans)}"
        self.scans[key] = scan
        self.names[key] += 1
        if len(self.scans) > MAX_TABLES:
            raise LimitExceeded(
                f"{source.name}: it names more than {MAX_TABLES} tables, those in its views counted each time"
            )
        for part in ("catalog", "db", "version", "this"):
            node.set(part, None)
        node.set("this", exp.to_identifier(key))
        node.set("alias", alias)
        return key

    def _view(self, view: View, views: tuple[str, ...]) -> QueryText:
        """Return the text of a view's query, with all names resolved in the view's own database and catalog."""
        if len(views) > MAX_VIEW_DEPTH:
            raise LimitExceeded(
                f"{self.source.name}: view {views[0]} is more than {MAX_VIEW_DEPTH} views deep, or names itself: "
                f"{' -> '.join(views[:4])} …"
            )
        check_length(view.query)
        source = SqlText(view.query, f"view {view.name}")
        tree, tokens, plain = parse_query(source)
        _check_query(tree, source)
        self.view_nodes += sum(1 for _ in tree.walk())
        if self.view_nodes > MAX_VIEW_NODES:
            raise LimitExceeded(
                f"{self.source.name}: the queries of its views have more than {MAX_VIEW_NODES:,} parts together"
            )
        text = QueryText.of(source, tokens, plain)
        self._resolve(tree, self.statement_of(view), source, text, views=views)
        return text

    def _map_columns(self) -> set[str]:
        """Return the names of columns that are MAPs in every table that has one of that name, in lower case."""
        roots: dict[str, set[str]] = {}
        for scan in self.scans.values():
            for column in scan.fields():
                roots.setdefault(column.name.lower(), set()).add(column.type.root)
        return {name for name, kinds in roots.items() if kinds == {"MAP"}}

    def _resolve_function(self, node: Node, statement: Statement, source: SqlText, text: QueryText | None) -> None:
        """Put the changes of a table in the place of `table_changes('db.t', 5, 7)`."""
        if query_refusal.function_name(node.this) != "table_changes":
            return
        arguments = node.this.expressions
        if len(arguments) != 3 or not all(isinstance(argument, exp.Literal) for argument in arguments):
            raise source.error(0, "write table_changes('db.t', since, until), with snapshots or tags as literals")
        name, since, until = (argument.name for argument in arguments)
        table = statement.resolve_name(statement.full(name.split(".", 1)), {"incremental-between": f"{since},{until}"})
        alias = node.args.get("alias") or exp.TableAlias()
        is_named = alias.args.get("this") is not None
        if not is_named:
            alias.set("this", exp.to_identifier("table_changes"))
        scan = self._replace_scan(node, QueryScan(name, table, source), alias, source)
        if text is not None:
            _replace_name(node, text, scan if is_named else f"{scan} AS table_changes")


def _parse(source: SqlText) -> tuple[Node, QueryText | None]:
    tree, tokens, plain = parse_query(source)
    _check_query(tree, source)
    return tree, QueryText.of(source, tokens, plain) if source.dialect == "lakekit" else None


def _check_query(tree: Node, source: SqlText) -> None:
    if not isinstance(tree, _QUERIES):
        raise source.error(0, "it is no query; SELECT, WITH, VALUES, FROM, TABLE and PIVOT begin one")


def check_length(query: str) -> None:
    """Raise `LimitExceeded` for the query of a view, or of a materialized table, that is too long."""
    if len(query) > MAX_VIEW_CHARS:
        raise LimitExceeded(
            f"the query of a view or of a materialized table has {len(query):,} characters; there may be "
            f"{MAX_VIEW_CHARS:,}"
        )


def plain_scan(query: QueryTree, *others: str) -> QueryScan | None:
    """Return the scan of `SELECT … FROM t`, with LIMIT, OFFSET and `others` or without; None for any other query."""
    tree, allowed = query.tree, _CLAUSES.union(others)
    if not isinstance(tree, exp.Select) or any(value for key, value in tree.args.items() if key not in allowed):
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


def _start_of(table: Node) -> int:
    """Return where the name of a table stands in its text."""
    return int(table.this.meta.get("start", 0))


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
    node.meta["version"] = version.meta.get("span")
    literal = version.expression
    if isinstance(literal, exp.Cast) and literal.to.is_type("timestamp", "timestampntz", "timestamptz"):
        literal = literal.this
    if not isinstance(literal, exp.Literal) or not hasattr(table, "snapshots"):
        raise source.error(
            _start_of(node),
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


def _replace_name(node: Node, text: QueryText, *parts: str | QueryText) -> None:
    """Note in a text what stands for the name of a table, its version among it."""
    start, end = node.meta["span"]
    index = next(at for at, token in enumerate(text.tokens) if token.start == start)
    before = text.tokens[index - 1] if index else None
    if before is not None and before.token_type == TokenType.TABLE:  # TABLE takes a name alone, without an alias
        text.replace(before.start, before.end + 1, "FROM")
    text.replace(start, end, *parts)
    if (version := node.meta.get("version")) is not None:
        text.replace(*version, "")


def _shorten(column: Node, named: Mapping[tuple[str, str], str], text: QueryText | None) -> None:
    """Remove the database from a column's name: the table goes by its alias in the tree."""
    outer = named.get((column.text("catalog").lower(), column.text("db").lower()))
    if outer is not None and text is not None:  # a field of a column: db.t.column.field
        first, last = column.args["catalog"], column.args["db"]
        text.replace(int(first.meta["start"]), int(last.meta["end"]) + 1, quoted(outer))
        return
    alias = named.get((column.text("db").lower(), column.text("table").lower()))
    if alias is not None:
        if text is not None:
            first, last = column.args.get("catalog") or column.args["db"], column.args["table"]
            text.replace(int(first.meta["start"]), int(last.meta["end"]) + 1, quoted(alias))
        for part in ("catalog", "db"):
            column.set(part, None)
        column.set("table", exp.to_identifier(alias, quoted=True))
