"""UPDATE, DELETE and MERGE as the texts of their expressions, and UPDATE … FROM and DELETE … USING as a MERGE.

    UPDATE shop.orders SET s = trim(s) WHERE id > 7 AND year(day) = 2023
        matched rows    s: trim(s)    where: id > 7 AND year(day) = 2023, of which id > 7 is translated

    UPDATE shop.orders t SET total = s.total FROM lab.changes s WHERE t.id = s.id
    MERGE INTO shop.orders t USING lab.changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET total = s.total

A backend that computes expressions itself gets them as `StatementReader` reads them: sqlglot's tokens say where each
begins and ends. Its tree says which conditions and values are plain: columns and literals of one kind, which mean the
same to every engine. Several rows of a source that match one are refused; other engines take any of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl
from sqlglot import exp

from lakekit.columns import instance
from lakekit.errors import LakekitError, SqlError, Unsupported
from lakekit.expressions.parser import SqlText, parse_text
from lakekit.expressions.scope import Scope, TableScope
from lakekit.expressions.translation import condition_of, value_of
from lakekit.expressions.typed_expression import TranslationRefusal
from lakekit.format.polars_types import polars_schema
from lakekit.options.redaction import excerpt
from lakekit.read.user_expressions import MERGE_SOURCE_PREFIX
from lakekit.sql import dml
from lakekit.sql.ddl import names
from lakekit.sql.tokenizer import TokenStream
from lakekit.types import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakekit.sql.backend import Rows, Statement, StatementResult
    from lakekit.sql.tokenizer import Token
    from lakekit.table.table import Table

    Node = Any
    """A node of sqlglot's tree."""

    Path = tuple[str, tuple[str, ...]]
    """A column, and the names of a field in it."""

_PAIRS = {"(": ")", "[": "]", "CASE": "END"}
_QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


# ---- changes by a join -----------------------------------------------------------------------------------------------


def update(statement: Statement) -> StatementResult:
    """Execute UPDATE, read as far as the name of its table."""
    tokens = statement.tokens
    at_set = _find(tokens, "SET", tokens.position)
    at_from = None if at_set is None else _find(tokens, "FROM", at_set)
    if at_set is None or at_from is None:
        return dml.update(statement)
    at_where = _find(tokens, "WHERE", at_from)
    assignments = tokens.slice(at_set + 1, at_from)
    return _merge(statement, at_set, (at_from, at_where), f"WHEN MATCHED THEN UPDATE SET {assignments}")


def delete(statement: Statement) -> StatementResult:
    """Execute DELETE, read as far as FROM."""
    tokens = statement.tokens
    at_using = _find(tokens, "USING", tokens.position)
    if at_using is None or not tokens.is_next("FROM"):
        return dml.delete(statement)
    tokens.expect("FROM")
    return _merge(statement, at_using, (at_using, _find(tokens, "WHERE", at_using)), "WHEN MATCHED THEN DELETE")


def _merge(statement: Statement, target_end: int, source: tuple[int, int | None], clause: str) -> StatementResult:
    """Execute the MERGE; `source` is where the word before the source stands, and where WHERE does."""
    tokens, (before, at_where) = statement.tokens, source
    if at_where is None or at_where + 1 == tokens.count:
        tokens.position = tokens.count
        raise tokens.wrong("WHERE, and how rows of the source match those of the table")
    comma = next((at for at in (_find(tokens, word, before + 1) for word in (",", "JOIN")) if at is not None), None)
    if comma is not None and comma < at_where:
        tokens.position = comma
        raise tokens.wrong("one source: a table, or a query in parentheses")
    target, rows = tokens.slice(tokens.position, target_end), tokens.slice(before + 1, at_where)
    condition = tokens.slice(at_where + 1, tokens.count)
    text = f"MERGE INTO {target} USING {rows} ON {condition} {clause}"
    merge = TokenStream.of(text, tokens.dialect, name=tokens.source.name)
    merge.parameters = tokens.parameters
    merge.expect("MERGE")
    return dml.merge(replace(statement, tokens=merge))


def _find(tokens: TokenStream, word: str, start: int) -> int | None:
    """Return the index of a word outside of parentheses, from `start` on."""
    ahead = tokens.fork(start - tokens.position)
    while ahead.next is not None:
        if ahead.is_next(word) and not (word == "FROM" and ahead.before.upper() == "DISTINCT"):
            return ahead.position
        if ahead.is_next("("):
            ahead.inside()
        else:
            ahead.position += 1
    return None


# ---- the statement ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExpressionText:
    """An expression of a statement: as it is written, and as Spark gets it beside the places of rows."""

    text: str
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeClause:
    """What a statement does to rows that match, to those of the source alone, or to those of the target alone.

    `values` are by column and the path of a field in it; `stored_values` those that are stored without Spark.
    """

    rows: str
    action: str
    condition: ExpressionText | None = None
    values: Mapping[Path, ExpressionText] = field(default_factory=dict)
    stored_values: Mapping[Path, pl.Expr] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ChangeText:
    """An UPDATE, DELETE or MERGE as texts of its expressions.

    `where`: what decides on rows, or on pairs of them. `pruning`: what is translated of it. `is_plain`: whether all is.
    """

    verb: str
    name: str
    table: Table
    alias: str
    target: TableScope
    source: Rows | None = None
    source_alias: str = ""
    source_scope: TableScope | None = None
    where: ExpressionText | None = None
    pruning: list[pl.Expr] = field(default_factory=list)
    clauses: list[ChangeClause] = field(default_factory=list)
    is_plain: bool = True
    has_star: bool = False
    words: set[str] = field(default_factory=set)

    def clauses_of(self, rows: str) -> list[tuple[int, ChangeClause]]:
        """Return the clauses about some rows, with their numbers."""
        return [(number, clause) for number, clause in enumerate(self.clauses) if clause.rows == rows]


class StatementReader:
    """Reads a statement, from its first word on, as a `ChangeText`."""

    def __init__(self, statement: Statement) -> None:
        tokens = statement.tokens
        own = tokens.fork()
        own.hints, own.parameters = list(tokens.hints), tokens.parameters
        self.statement, self.tokens, self.verb = replace(statement, tokens=own), own, tokens.before.upper()

    def read(self) -> ChangeText:
        """Return the statement. Raises `SqlError` for what is none, and what its table and source raise."""
        tokens = self.tokens
        if self.verb != "UPDATE":
            tokens.expect("FROM" if self.verb == "DELETE" else "INTO")
        name, table = self.statement.target()
        at = tokens.position
        side = dml.target_side(self.statement, name, table)
        alias = tokens.before if tokens.position > at else quote_identifier(name.partition(".")[2])
        self.change = ChangeText(verb=self.verb, name=name, table=table, alias=alias, target=side)
        self.change.words = {token.value.lower() for token in tokens.coming if token.kind in ("word", "quoted")}
        {"UPDATE": self._read_update, "DELETE": self._read_delete, "MERGE": self._read_merge}[self.verb]()
        return self.change

    def _read_delete(self) -> None:
        coming = list(self.tokens.coming)
        if coming and not self.tokens.accept("WHERE"):
            raise self.tokens.wrong("WHERE")
        self._read_where(coming[1:])
        self.change.clauses.append(ChangeClause(rows="matched", action="delete"))

    def _read_update(self) -> None:
        self.tokens.expect("SET")
        coming = list(self.tokens.coming)
        at = next((at for at, token in _outer(coming) if _is_word(token, "WHERE")), len(coming))
        self._read_where(coming[at + 1 :])
        self.change.clauses.append(self._set_clause("matched", coming[:at], None))

    def _read_where(self, tokens: Sequence[Token]) -> None:
        if not tokens:
            return
        self.change.where = self._text(tokens, "matched")
        for node in _conjuncts(self._parse(self.change.where.text)):
            self._read_conjunct(node, self._scope("matched"))

    def _read_conjunct(self, node: Node, scope: Scope) -> None:
        expr = _translated_condition(node, scope)
        self.change.is_plain &= expr is not None
        columns = self.change.target.columns
        names = [] if expr is None else expr.meta.root_names()
        if expr is not None and all(name in columns and columns[name] != pl.Datetime("ns") for name in names):
            self.change.pruning.append(expr)  # a backend may hold fewer digits of a second

    def _read_merge(self) -> None:
        tokens, change = self.tokens, self.change
        tokens.expect("USING")
        backend, at = self.statement.backend, tokens.position
        if tokens.is_next("("):
            rows, called = backend.query(self.statement, tokens.inside()), "s"
        else:
            parts = tokens.names("the source of the merge")
            rows = backend.query(self.statement, f"SELECT * FROM {'.'.join(map(quote_identifier, parts))}")  # noqa: S608 - a name
            called = parts[-1]
        at = tokens.position
        alias = dml.take_alias(tokens)
        change.source_alias = tokens.before if tokens.position > at else quote_identifier(called)
        if alias is not None and tokens.is_next("("):
            rows = backend.renamed(rows, names(tokens))
        columns = dict(polars_schema(backend.fields(rows), timestamp_unit="us"))
        change.source = rows
        change.source_scope = TableScope(
            names=((alias or called).lower(),), columns=columns, prefix=MERGE_SOURCE_PREFIX
        )
        tokens.expect("ON")
        coming = list(tokens.coming)
        starts = [at for at, token in _outer(coming) if _is_word(token, "WHEN")]
        if not starts:
            raise tokens.wrong("a condition, and WHEN")
        self._read_where(coming[: starts[0]])
        for start, end in zip(starts, [*starts[1:], len(coming)], strict=True):
            change.clauses.append(self._merge_clause(coming[start:end]))

    def _merge_clause(self, tokens: Sequence[Token]) -> ChangeClause:
        outer = [(at, token) for at, token in _outer(tokens)]
        at = next((at for at, token in outer if _is_word(token, "THEN")), len(tokens))
        words = [token.text.upper() for token in tokens[:at]]
        rows, taken = "matched", 2
        if words[1:3] == ["NOT", "MATCHED"]:
            rows, taken = (
                ("target", 5)
                if words[3:5] == ["BY", "SOURCE"]
                else ("source", 5 if words[3:5] == ["BY", "TARGET"] else 3)
            )
        elif words[1:2] != ["MATCHED"]:
            raise self._wrong(tokens, "WHEN is followed by MATCHED or NOT MATCHED")
        condition = None
        if taken < at:
            if words[taken] != "AND":
                raise self._wrong(tokens[taken:], "WHEN … takes AND and a condition, then THEN")
            condition = self._text(tokens[taken + 1 : at], rows)
            self.change.is_plain &= _translated_condition(self._parse(condition.text), self._scope(rows)) is not None
        action = tokens[at + 1 :]
        words = [token.text.upper() for token in action]
        if words == ["DELETE"] and rows != "source":
            return ChangeClause(rows=rows, action="delete", condition=condition)
        if words[:2] == ["UPDATE", "SET"] and rows != "source":
            if words[2:] == ["*"]:
                return self._star_clause(rows, "update", condition)
            return self._set_clause(rows, action[2:], condition)
        if words[:1] == ["INSERT"] and rows == "source":
            return (
                self._star_clause(rows, "insert", condition)
                if words[1:] == ["*"]
                else self._insert_clause(action, condition)
            )
        raise self._wrong(action, "WHEN … THEN takes UPDATE SET, DELETE or INSERT")

    def _star_clause(self, rows: str, action: str, condition: ExpressionText | None) -> ChangeClause:
        """Return the clause that takes each column of the source that the table has, too."""
        assert self.change.source_scope is not None
        source_scope = {name.lower(): name for name in self.change.source_scope.columns}
        values: dict[Path, ExpressionText] = {}
        for name, dtype in self.change.target.columns.items():
            own = name if name in self.change.source_scope.columns else source_scope.get(name.lower())
            if own is not None:
                text = f"{self.change.source_alias}.{quote_identifier(own)}"
                values[name, ()] = ExpressionText(text, text)
                self.change.is_plain &= _is_alike(dtype, self.change.source_scope.columns[own])
        return ChangeClause(rows=rows, action=action, condition=condition, values=values)

    def _insert_clause(self, tokens: Sequence[Token], condition: ExpressionText | None) -> ChangeClause:
        at = next((at for at, token in _outer(tokens) if _is_word(token, "VALUES")), None)
        wanted = "write INSERT *, or INSERT (columns) VALUES (as many values)"
        if at is None or tokens[1].text != "(" or at + 1 >= len(tokens):
            raise self._wrong(tokens, wanted)
        names, texts = _split(tokens[2 : at - 1]), _split(tokens[at + 2 : -1])
        if len(names) != len(texts):
            raise self._wrong(tokens, wanted)
        return self._clause("source", "insert", list(zip(names, texts, strict=True)), condition)

    def _set_clause(self, rows: str, tokens: Sequence[Token], condition: ExpressionText | None) -> ChangeClause:
        pairs = []
        for assignment in _split(tokens):
            at = next((at for at, token in _outer(assignment) if token.text == "="), None)
            if at is None or at + 1 == len(assignment):
                raise self._wrong(assignment, "SET takes new values of columns, such as v = v + 1")
            pairs.append((assignment[:at], assignment[at + 1 :]))
        return self._clause(rows, "update", pairs, condition)

    def _clause(
        self,
        rows: str,
        action: str,
        pairs: Sequence[tuple[Sequence[Token], Sequence[Token]]],
        condition: ExpressionText | None,
    ) -> ChangeClause:
        values: dict[Path, ExpressionText] = {}
        stored_values: dict[Path, pl.Expr] = {}
        for left, right in pairs:
            source = SqlText(self._written(left), "SET", "spark")
            name, path = dml.resolve_column_path(source, parse_text(source), self.change.target)
            if any(
                name == other and (path[: len(to)] == to or to[: len(path)] == path)
                for other, to in (*values, *stored_values)
            ):
                raise self._wrong(left, f"{'.'.join((name, *path))} gets two new values")
            text = self._text(right, rows)
            dtype = dml.field_type(self.change.target.columns[name], path)
            expr = _translated_value(self._parse(text.text), self._scope(rows), dtype)
            self.change.is_plain &= expr is not None
            if expr is not None and set(expr.meta.root_names()) <= self.change.target.columns.keys():
                stored_values[name, path] = expr
            else:
                values[name, path] = text
        return ChangeClause(rows=rows, action=action, condition=condition, values=values, stored_values=stored_values)

    # ---- texts

    def _scope(self, rows: str) -> Scope:
        change = self.change
        both = (change.target,) if change.source_scope is None else (change.target, change.source_scope)
        sides = {"matched": both, "target": both[:1], "source": both[1:]}[rows]
        return Scope(sides=sides, zone=self.statement.zone)

    def _parse(self, text: str) -> Node:
        return parse_text(SqlText(text, "expression", "spark"))

    def _written(self, tokens: Sequence[Token]) -> str:
        return self.tokens.text[tokens[0].start : tokens[-1].end]

    def _wrong(self, tokens: Sequence[Token], problem: str) -> SqlError:
        return self.tokens.source.error(tokens[0].start if tokens else self.tokens.stop, problem)

    def _text(self, tokens: Sequence[Token], rows: str) -> ExpressionText:
        """Return the text of an expression about some rows.

        Spark gets stars as columns, as the places of rows are none; the table by its alias; and columns that both sides
        have, where only one has a row, with the name of that side.

        Raises: `SqlError` for no expression, `Unsupported` for a window, which looks at other rows.
        """
        if not tokens:
            raise self._wrong(tokens, "wants an expression")
        pieces: list[tuple[int, int, str]] = []
        queries, shared = [False], self._shared_names(tokens, rows)
        for index, token in enumerate(tokens):
            if token.text == "(":
                follows = tokens[index + 1].text.upper() if index + 1 < len(tokens) else ""
                queries.append(queries[-1] or follows in _QUERY_WORDS)
            elif token.text == ")" and len(queries) > 1:
                queries.pop()
            piece = self._piece(tokens, index, rows, shared, in_query=queries[-1])
            if piece is not None:
                while pieces and pieces[-1][1] > piece[0]:  # what was put for the qualifier of a star
                    pieces.pop()
                pieces.append(piece)
        made, at = "", tokens[0].start
        for start, end, put in pieces:
            made += self.tokens.text[at:start] + put
            at = end
        return ExpressionText(self._written(tokens), made + self.tokens.text[at : tokens[-1].end])

    def _piece(
        self, tokens: Sequence[Token], index: int, rows: str, shared: set[str], *, in_query: bool
    ) -> tuple[int, int, str] | None:
        """Return what stands in the place of a token, and where that begins and ends; None where it stays."""
        token, before = tokens[index], tokens[index - 1].text if index else ""
        name = token.value.lower() if token.kind in ("word", "quoted") else ""
        follows = [part.text for part in tokens[index + 1 : index + 4]]
        if token.text == "*" and not in_query and before in ("(", ",", "."):
            self.change.has_star = True
            qualifier = tokens[index - 2] if before == "." else None
            columns = self._all_columns(rows, None if qualifier is None else qualifier.value.lower())
            return token.start if qualifier is None else qualifier.start, token.end, columns
        if _is_word(token, "OVER") and not in_query:
            text = excerpt(self._written(tokens))
            raise Unsupported(f"{text} looks at other rows by OVER; write it in a subquery", feature="spark.sql")
        if before == "." or (in_query and follows[:1] != ["."]):
            return None
        called = ".".join(part.value for part in tokens[index : index + 3 : 2]).lower()
        if len(follows) == 3 and follows[0] == follows[2] == "." and called == self.change.name.lower():
            return token.start, tokens[index + 2].start, ""
        if in_query or name not in shared or follows[:1] in (["."], ["("]):
            return None
        alias = self.change.alias if rows == "target" else self.change.source_alias
        return token.start, token.end, f"{alias}.{token.text}"

    def _shared_names(self, tokens: Sequence[Token], rows: str) -> set[str]:
        """Return the columns of both sides where only one has a row, but for those that name parameters."""
        change = self.change
        if change.source_scope is None or rows == "matched":
            return set()
        parameters = {tokens[index].value.lower() for index in range(len(tokens) - 1) if _is_arrow(tokens, index)}
        mine = {name.lower() for name in change.target.columns}
        return mine & {name.lower() for name in change.source_scope.columns} - parameters

    def _all_columns(self, rows: str, qualifier: str | None) -> str:
        change = self.change
        sides = [(change.alias, change.target)] if rows != "source" else []
        if change.source_scope is not None and rows != "target":
            sides.append((change.source_alias, change.source_scope))
        chosen = [(alias, side) for alias, side in sides if qualifier is None or qualifier in side.names] or sides
        return ", ".join(f"{alias}.{quote_identifier(name)}" for alias, side in chosen for name in side.columns)


def _outer(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """Yield the tokens outside of brackets and of CASE … END, with their indices."""
    closing: list[str] = []
    for at, token in enumerate(tokens):
        word = token.text.upper() if token.kind in ("word", "sign") else ""
        if closing and word == closing[-1]:
            closing.pop()
        elif not closing:
            yield at, token
        if word in _PAIRS:
            closing.append(_PAIRS[word])


def _split(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Return what stands between commas outside of brackets."""
    ends = [at for at, token in _outer(tokens) if token.text == "," and token.kind == "sign"]
    return [tokens[start:end] for start, end in zip([0, *(at + 1 for at in ends)], [*ends, len(tokens)], strict=True)]


def _is_word(token: Token, word: str) -> bool:
    return token.kind == "word" and token.text.upper() == word


def _is_arrow(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a name is a parameter of a function, as in `x -> x + 1` and `(x, y) -> x`."""
    following = [token.text for token in tokens[index + 1 : index + 6]]
    return "->" in following[:1] or (")" in following and following[following.index(")") + 1 :][:1] == ["->"])


# ---- what a translation says as Spark does ---------------------------------------------------------------------------

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_MOMENTS = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ")


def _conjuncts(node: Node) -> list[Node]:
    """Return the parts of a condition that all have to be true."""
    waiting, parts = [node], []
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.And):
            waiting += [part.expression, part.this]
        elif isinstance(part, exp.Paren):
            waiting.append(part.this)
        else:
            parts.append(part)
    return parts


def _translated_condition(node: Node, scope: Scope) -> pl.Expr | None:
    """Return a condition as Polars computes it; None unless it is plain, and so means the same to both."""
    try:
        if not _is_plain(node, scope):
            return None
        return condition_of(SqlText("", "condition", "spark"), node, scope)
    except LakekitError:
        return None


def _translated_value(node: Node, scope: Scope, dtype: pl.DataType) -> pl.Expr | None:
    """Return a new value as Polars computes it; None unless it is a column or a literal that is stored as it is."""
    try:
        kind = _kind(node, scope)
        column = _column(node, scope)
        if column is not None:
            is_stored = dtype == column
        elif dtype == pl.Float64():
            is_stored = kind in ("whole", "number", "null")
        else:
            is_stored = kind == "null" or (kind not in ("", "number") and _column_kind(dtype) == kind)
        return value_of(SqlText("", "value", "spark"), node, scope, dtype) if is_stored else None
    except LakekitError:
        return None


def _is_plain(node: Node, scope: Scope) -> bool:
    """Return whether a condition compares columns with columns and literals of their kind, and nothing else."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        match part:
            case exp.And() | exp.Or():
                waiting += [part.this, part.expression]
            case exp.Paren() | exp.Not():
                waiting.append(part.this)
            case exp.Boolean():
                continue
            case exp.Column() if _kind(part, scope) == "truth":
                continue
            case exp.Is() if isinstance(part.expression, exp.Null) and _column(part.this, scope) is not None:
                continue
            case exp.In() if part.args.get("query") is None and part.args.get("unnest") is None:
                if not part.expressions or not all(_are_alike(part.this, one, scope) for one in part.expressions):
                    return False
            case exp.Between() if not part.args.get("symmetric"):
                if not all(_are_alike(part.this, part.args[name], scope) for name in ("low", "high")):
                    return False
            case _ if isinstance(part, _COMPARISONS):
                if not _are_alike(part.this, part.expression, scope):
                    return False
            case _:
                return False
    return True


def _are_alike(left: Node, right: Node, scope: Scope) -> bool:
    """Return whether two sides of a comparison are columns of one type, or a column and a literal of its kind."""
    mine, other = _column(left, scope), _column(right, scope)
    if mine is not None and other is not None:
        return _is_alike(mine, other)
    if mine is None and other is None:
        return False
    kinds = (_kind(left, scope), _kind(right, scope))
    column, literal = kinds if mine is not None else kinds[::-1]
    fitting = {
        "whole": ("whole", "number"),
        "number": ("whole", "number"),
        "day": ("day", "text"),
        "moment": ("moment", "text"),
    }
    return literal in fitting.get(column, (column,)) and column != ""


def _is_alike(mine: pl.DataType, other: pl.DataType) -> bool:
    """Return whether values of two columns are compared, and stored, as they are."""
    if mine.is_integer() and other.is_integer():
        return True
    if isinstance(mine, pl.Datetime) and isinstance(other, pl.Datetime):
        return mine.time_zone == other.time_zone
    return mine == other and not mine.is_nested() and _column_kind(mine) != ""


def _column(node: Node, scope: Scope) -> pl.DataType | None:
    """Return the type of a column; None for what is no column, or may be of both tables."""
    node = node.unnest()
    if not isinstance(node, exp.Column):
        return None
    try:
        found = scope.find([part.name for part in node.parts])
    except TranslationRefusal:
        return None
    return None if found is None else instance(scope.schema[found])


def _kind(node: Node, scope: Scope) -> str:
    """Return the kind of a column's values, or of a literal; the empty text for what is neither."""
    match node:
        case exp.Paren():
            return _kind(node.this, scope)
        case exp.Column():
            found = _column(node, scope)
            return "" if found is None else _column_kind(found)
        case exp.Neg():
            kind = _kind(node.this, scope) if isinstance(node.this, exp.Literal) else ""
            return kind if kind in ("whole", "number") else ""
        case exp.Literal():
            digits = node.name.lower()
            return "text" if node.is_string else "whole" if digits.isdecimal() else "" if "e" in digits else "number"
        case exp.Null():
            return "null"
        case exp.Boolean():
            return "truth"
        case exp.Cast() if isinstance(node.this, exp.Literal) and node.this.is_string and type(node) is exp.Cast:
            name = node.to.this.name if isinstance(node.to.this, exp.DataType.Type) else ""
            return "day" if name == "DATE" else "moment" if name in _MOMENTS else ""
    return ""


def _column_kind(dtype: pl.DataType) -> str:
    if dtype.is_integer():
        return "whole"
    if isinstance(dtype, (pl.Float64, pl.Decimal)):
        return "number"
    kinds: dict[type, str] = {pl.String: "text", pl.Boolean: "truth", pl.Date: "day", pl.Datetime: "moment"}
    return kinds.get(type(dtype), "")
