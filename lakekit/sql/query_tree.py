"""The tree of a query, made ready for DuckDB: names become scans, views become their queries, sums of INT are widened.

    SELECT count(*), a + 1 FROM shop.orders /*+ OPTIONS('scan.tag-name' = 'v1') */ WHERE id > 7
        ->   SELECT count(*) AS "count(*)", lakekit_add(a, 1) AS "a + 1" FROM lakekit_0 AS "orders"  WHERE id > 7

Start with `QueryTree.of`. DuckDB gets the text as its user typed it, with just these places replaced (`query_text`);
for Spark's dialect it gets what sqlglot writes for the tree. An output without a name gets the text that the statement
has for it. What lies in a lake may be written by anybody: a view becomes a view of DuckDB, whose query sees no table,
no column and no WITH of the query that names it, within bounds on depth and on what all views together name. Each name
of a WITH is also that of a view that fails: where DuckDB does not take the name for that WITH, it finds nothing else.
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
from lakekit.sql.cage import AMBIGUOUS_TEXT, UNREACHED_WITH
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
    quote_reserved,
    refuse_other_hints,
    translate_calls,
    widen,
)
from lakekit.sql.query_scan import QueryScan
from lakekit.sql.query_text import QueryText, quoted
from lakekit.types import text_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
_MAX_COUNT_CHARS = 9
"""The digits of a LIMIT that Polars takes: it counts rows of a slice in 32 bits."""
_MOST_TRANSLATED = 16
"""How many functions that DuckDB has not are looked up in a query."""
_MISSING_FUNCTION = re.compile(r'Function with name "?(?P<name>\w+)"? does not exist')
_CLAUSES = frozenset({"expressions", "from_", "limit", "offset"})
_ADDED = ("joins", "laterals", "pivots", "sample")
"""What may stand behind a table's name, and goes where it goes."""
_PLAIN = (exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Literal)
_QUERIES = (exp.Query, exp.Values, exp.Pivot)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryView:
    """A view that a query names: the name and the columns that DuckDB knows it by, and the text of its query.

    `names`: how often each name stands in FROM of it, in lower case.
    """

    name: str
    columns: tuple[str, ...]
    text: QueryText
    names: Counter[str]

    def definition(self, sql: str) -> str:
        """Return the statement that makes it known to DuckDB."""
        columns = ", ".join(map(quoted, self.columns))
        return f"CREATE OR REPLACE TEMP VIEW {self.name} ({columns}) AS {sql}"


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
    with_names: set[str] = field(default_factory=set)
    """The names in FROM, here and in views, that are those of a WITH, as they are spelled there."""
    views: list[QueryView] = field(default_factory=list)
    """The views that the query names, those within another before it."""
    definitions: list[str] = field(default_factory=list)
    """The statements by which DuckDB knows the views, and the names of WITH, that it got at last."""
    functions: set[str] = field(default_factory=set)
    """The functions of `cage.BOUNDED_FUNCTIONS` that it calls, those of its views among them."""
    view_nodes: int = 0
    read_texts: list[tuple[Node, QueryText]] = field(default_factory=list)
    """The trees of all texts that DuckDB gets, and these."""
    resolved: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    """What names stand for, by catalog, name and hint: each is looked up once."""
    type_roots: dict[str, set[str]] = field(default_factory=dict)
    """The columns of all tables and views so far, in lower case, and the roots of the types that tables have there."""

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
        texts = self._checked(run)
        try:
            return self._bind_texts(run, [wide for _, wide in texts], prefix, widens=True)
        except LakekitError as wrong:
            if AMBIGUOUS_TEXT not in str(wrong) or all(plain == wide for plain, wide in texts):
                raise
        return self._bind_texts(run, [plain for plain, _ in texts], prefix, widens=False)

    def _bind_texts(self, run: QueryRun, texts: Sequence[str], prefix: str, *, widens: bool) -> tuple[Any, str]:
        """Make the views and the names of WITH known in a connection, and bind the query."""
        *view_texts, sql = texts
        guards = [*run.bounds(self.functions), *(_guard(name) for name in sorted(self.with_names))]
        for guard in guards:
            run.define(guard)
        views = [(view, text, view.definition(text)) for view, text in zip(self.views, view_texts, strict=True)]
        for view, text, definition in views:
            run.define(definition, source=view.text.source, duckdb_sql=(text, partial(view.text.origin, widens=widens)))
        self.definitions = [*guards, *(definition for _, _, definition in views)]
        self.duckdb_sql = None if self.text is None else (sql, partial(self.text.origin, widens=widens))
        run.duckdb_sql = self.duckdb_sql
        return run.relation(prefix + sql), prefix + sql

    def _translate_calls(self, name: str) -> bool:
        """Put what sqlglot writes in the place of calls of a function, and return whether there are some."""
        found = [translate_calls(tree, text, name) for tree, text in self.read_texts]
        return any(found)

    def _checked(self, run: QueryRun) -> list[tuple[str, str]]:
        """Return the texts that DuckDB gets, those of views first, without and with sums of INT in BIGINT.

        A sum that DuckDB reads otherwise than sqlglot does, as of other operands, stays as it is.
        """
        texts = [self._write(view.text) for view in self.views]
        texts.append((self.sql(widens=False), self.sql()) if self.text is None else self._write(self.text))
        read = DuckDBTree.read(run, *(text for pair in texts for text in pair))
        self.functions = {name for tree in read for name in tree.bounded_functions()}
        for view, tree in zip(self.views, read[::2], strict=False):
            if tree.has_no_statement():
                raise view.text.source.error(0, "it is no query of one statement")
            tree.check(view.names, view.text.source, files=False, is_exact=True)
        own, wide = read[-2:]
        if own.has_no_statement():
            self._check_unread()
        own.check(self.names, self.source, files=self.files, is_exact=self.text is not None)
        is_alike = [*map(DuckDBTree.is_like, read[::2], read[1::2])]
        is_alike[-1] = self.text is None or own.is_like(wide)
        return [(plain, text if same else plain) for (plain, text), same in zip(texts, is_alike, strict=True)]

    def _write(self, text: QueryText) -> tuple[str, str]:
        plain = text.write(widens=False)
        return plain, text.write() if text.has_sums else plain

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
        scopes = _WithScopes()
        _check_with_names(tree, source)
        unknown = operands_of_unknown_type(tree)
        sums = [node for node in sums if id(node) not in unknown]
        name_outputs(tree, source, text)
        if text is not None:
            name_types(tree, text)
        named: dict[tuple[str, str], str] = {}
        for node in tables:
            if not isinstance(node.this, exp.Identifier):
                self._resolve_function(node, statement, source, text)
            elif scopes.has(node):
                if node.args.get("version") is not None:  # DuckDB leaves it out
                    raise source.error(_start_of(node), f"{node.name} is a name of WITH, which has no versions")
                self.names[node.name.lower()] += 1
                self.with_names.add(node.name)
            else:
                database, name = node.text("db").lower(), node.name.lower()
                alias = self._resolve_name(node, statement, source, text, views)
                if database:
                    named[database, name] = alias
        refuse_other_hints(tree, source)
        for column in columns:
            _shorten(column, named, text)
        if text is not None:
            quote_reserved(columns, self.type_roots.keys(), text)
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
            duckdb_name = self._view(table, (*views, table.name))
        else:
            duckdb_name = self._add_scan(QueryScan(name, table, source, version), source)
        self._rename(node, duckdb_name, alias)
        if text is not None:
            _replace_name(node, text, f"{duckdb_name}{after}")
        return str(alias.name)

    def _add_scan(self, scan: QueryScan, source: SqlText) -> str:
        """Return the name by which DuckDB knows a scan."""
        key = f"lakekit_{len(self.scans)}"
        self.scans[key] = scan
        if len(self.scans) > MAX_TABLES:
            raise LimitExceeded(
                f"{source.name}: it names more than {MAX_TABLES} tables, those in its views counted each time"
            )
        for column in scan.fields():
            self.type_roots.setdefault(column.name.lower(), set()).add(column.type.root)
        return key

    def _rename(self, node: Node, key: str, alias: Node) -> None:
        """Name a table in the tree by the name that DuckDB knows."""
        self.names[key] += 1
        for part in ("catalog", "db", "version", "this"):
            node.set(part, None)
        node.set("this", exp.to_identifier(key))
        node.set("alias", alias)

    def _view(self, view: View, views: tuple[str, ...]) -> str:
        """Return the name by which DuckDB knows a view, whose query's names are of its own database and catalog."""
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
        outer, self.names = self.names, Counter()
        self._resolve(tree, self.statement_of(view), source, text, views=views)
        name = f"lakekit_view_{len(self.views)}"
        columns = tuple(field.name for field in view.fields)
        self.views.append(QueryView(name=name, columns=columns, text=text, names=self.names))
        for column in columns:
            self.type_roots.setdefault(column.lower(), set())
        self.names = outer
        return name

    def _map_columns(self) -> set[str]:
        """Return the names of columns that are MAPs in every table that has one of that name, in lower case."""
        return {name for name, roots in self.type_roots.items() if roots == {"MAP"}}

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
        key = self._add_scan(QueryScan(name, table, source), source)
        self._rename(node, key, alias)
        if text is not None:
            _replace_name(node, text, key if is_named else f"{key} AS table_changes")


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
    if any(count is not None and len(count.name) > _MAX_COUNT_CHARS for count in counts):
        return None
    offset, limit = (None if count is None else int(count.name) for count in counts)
    return offset or 0, limit


def _start_of(table: Node) -> int:
    """Return where the name of a table stands in its text."""
    return int(table.this.meta.get("start", 0))


def _guard(name: str) -> str:
    """Return the definition of a view that fails, for a name of a WITH where DuckDB takes it for another's."""
    problem = text_literal(f"no table {name} is known here: it {UNREACHED_WITH}")
    return f"CREATE OR REPLACE TEMP VIEW {quoted(name)} AS SELECT 1 AS {quoted(name)} WHERE error({problem})::BOOLEAN"


def _check_with_names(tree: Node, source: SqlText) -> None:
    """Refuse names of WITH that are those by which DuckDB knows tables. Raises `SqlError`."""
    for clause in tree.find_all(exp.CTE):
        alias = clause.args.get("alias")
        if alias is not None and alias.name.lower().startswith("lakekit_"):
            at = int(alias.this.meta.get("start", 0))
            raise source.error(at, "names that begin with lakekit_ are lakekit's own")


class _WithScopes:
    """The names of each WITH of a query, and which of them are known where."""

    def __init__(self) -> None:
        self._index_by_name: dict[int, dict[str, int]] = {}
        self._index_by_cte: dict[int, int] = {}

    def has(self, table: Node) -> bool:
        """Return whether a name of one part is that of a WITH which encloses it and is read before it."""
        if table.args.get("db") is not None:
            return False
        name, node, own_index = table.name.lower(), table, -1
        while (outer := node.parent) is not None:
            clause = outer.args.get("with_") or outer.args.get("with")
            if clause is not None:
                place = self._names_of(clause).get(name)
                reach = len(clause.expressions)
                if node is clause:
                    reach = own_index + bool(clause.args.get("recursive"))
                if place is not None and place < reach:
                    return True
            if isinstance(node, exp.CTE):
                own_index = self._index_of(node)
            node = outer
        return False

    def _names_of(self, clause: Node) -> dict[str, int]:
        """Return the places of the names of a WITH."""
        if id(clause) not in self._index_by_name:
            named = [own.alias_or_name.lower() for own in clause.expressions]
            self._index_by_name[id(clause)] = {name: at for at, name in reversed([*enumerate(named)])}
            self._index_by_cte.update({id(own): at for at, own in enumerate(clause.expressions)})
        return self._index_by_name[id(clause)]

    def _index_of(self, own: Node) -> int:
        self._names_of(own.parent)
        return self._index_by_cte[id(own)]


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


def _replace_name(node: Node, text: QueryText, name: str) -> None:
    """Note in a text what stands for the name of a table, its version among it."""
    start, end = node.meta["span"]
    index = next(at for at, token in enumerate(text.tokens) if token.start == start)
    before = text.tokens[index - 1] if index else None
    if before is not None and before.token_type == TokenType.TABLE:  # TABLE takes a name alone, without an alias
        text.replace(before.start, before.end + 1, "FROM")
    text.replace(start, end, name)
    if (version := node.meta.get("version")) is not None:
        text.replace(version[0], version[1], "")


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
