"""Expressions of a query as DuckDB is to compute them: outputs with names, fields of UNNEST, sums of INT in BIGINT.

    SELECT count(*), a + 1 FROM t, UNNEST(t.c) AS s(x, y)
        ->   SELECT count(*) AS "count(*)", lakekit_add(a , 1) AS "a + 1"
             FROM t, LATERAL (SELECT unnest(t.c, max_depth := 2)) AS s(x, y)

Also hints: options of a table in a comment that begins with a plus, behind its name or its alias. Each function changes
the tree that it is given, and notes what that is in the query's text, which is None where DuckDB gets the text that
sqlglot writes for the tree. `lakekit_add` is a function of the database (`cage`) that adds INT in BIGINT, and
everything else as `+` does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel
from sqlglot.tokens import TokenType  # type: ignore[attr-defined] # sqlglot exports it without saying so

from lakekit.expressions.parser import refuse_misread
from lakekit.model.table_paths import check_not_in_hint
from lakekit.options.redaction import without_secrets
from lakekit.sql.backend import parse_properties
from lakekit.sql.parameters import literal
from lakekit.sql.query_text import quoted
from lakekit.sql.tokenizer import TokenStream

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lakekit.errors import SqlError
    from lakekit.expressions.parser import SqlText
    from lakekit.sql.query_text import QueryText

    Node = Any
    """A node of sqlglot's tree."""

_FUNCTIONS = {exp.Add: "lakekit_add", exp.Sub: "lakekit_sub", exp.Mul: "lakekit_mul"}
WIDENED = tuple(_FUNCTIONS)
"""Nodes that `widen` takes."""
_NAMED = (exp.Alias, exp.Aliases, exp.Column, exp.Star, exp.Dot, exp.Identifier)
"""Outputs that DuckDB names itself."""
_OTHER_TYPES = re.compile(r"<|_LTZ|_NTZ|\bLOCAL\b|\bBYTE\b|\b(?:TIME|BINARY|VARBINARY)\s*\(", re.IGNORECASE)
"""What is in a type that DuckDB writes otherwise."""
_SIZED_BLOB = re.compile(r"\bBLOB\s*\(\d+\)")


_RESERVED_TEXT = (
    "analyse analyze anti array asc asof asymmetric at authorization binary both by check collate collation column "
    "concurrently constraint deferrable desc describe do end foreign freeze full group initially isnull lambda leading "
    "left limit natural offset order overlaps pivot placing primary references right semi show similar some symmetric "
    "table to trailing unique unpack unpivot variadic verbose window"
)
_RESERVED = frozenset(_RESERVED_TEXT.split())
"""Words of DuckDB's grammar that sqlglot reads as names of columns."""


def quote_reserved(columns: Collection[Node], names: Collection[str], text: QueryText) -> None:
    """Put quotes around columns among `names` that are words of DuckDB's grammar, as `at`."""
    for column in columns:
        name = column.this
        if not isinstance(name, exp.Identifier) or name.args.get("quoted") or "start" not in name.meta:
            continue
        if name.name.lower() in _RESERVED and name.name.lower() in names:
            text.replace(name.meta["start"], name.meta["end"] + 1, quoted(name.name))


def name_outputs(tree: Node, source: SqlText, text: QueryText | None) -> None:
    """Name outputs that have no name by the text that the statement has for them."""
    for select in tree.find_all(exp.Select):
        outputs = select.expressions
        select.set("expressions", [_named(output, source, text) for output in outputs])


def _named(output: Node, source: SqlText, text: QueryText | None) -> Node:
    inner = output
    while isinstance(inner, exp.Paren):
        inner = inner.this
    span = output.meta.get("span")
    is_sign = text is not None and span is not None and source.text[span[0]] == "+"  # which sqlglot leaves out
    if isinstance(inner, _NAMED) and not (is_sign and isinstance(inner, exp.Column)):
        return output
    if inner.find(exp.Columns, exp.Explode) is not None:
        return output
    if span is None:
        name = output.sql(source.dialect if source.dialect == "spark" else "duckdb", normalize_functions="lower")
    else:
        name = source.text[span[0] : span[1]]
    if isinstance(inner, exp.Func) and name.isidentifier():  # current_date: an alias of that name would be meant by it
        return output
    if span is not None and text is not None:
        text.wrap(span[0], span[1], "", f" AS {quoted(name)}", rank=1)
    return exp.alias_(output, name, quoted=True, copy=False)


def bind_text(tree: Node, text: QueryText, values: Mapping[str, Any]) -> None:
    """Put the literals of parameters in their places of the text. Raises `InvalidOption` as `literal`."""
    for node in tree.find_all(exp.Placeholder, exp.Parameter):
        name = node.this if isinstance(node.this, str) else getattr(node.this, "name", "")
        span = node.meta.get("span")
        if span is not None and name in values:
            text.replace(span[0], span[1], f"({literal(name, values[name]).sql('duckdb')})")


def name_types(tree: Node, text: QueryText) -> None:
    """Put DuckDB's words in the place of types that it calls otherwise, as ARRAY<INT> and TIMESTAMP_LTZ(3)."""
    for node in tree.find_all(exp.DataType):
        span = node.meta.get("span")
        if span is None or isinstance(node.parent, (exp.DataType, exp.ColumnDef)):
            continue
        written = text.source.text[span[0] : span[1]]
        if _OTHER_TYPES.search(written) is not None:
            text.replace(span[0], span[1], _SIZED_BLOB.sub("BLOB", node.sql("duckdb")))


def translate_calls(tree: Node, text: QueryText, name: str) -> bool:
    """Put what sqlglot writes for DuckDB in the place of calls of a function that DuckDB has not, as regexp_like.

    Return whether there are some. Raises: `SqlError` for words within that sqlglot reads in another sense.
    """
    found = False
    for node in tree.find_all(exp.Func):
        span = node.meta.get("span")
        if span is None or isinstance(node, exp.Anonymous):
            continue
        if text.source.text[span[0] : span[0] + len(name)].lower() != name or text.is_replaced(*span):
            continue
        refuse_misread(text.source, [token for token in text.tokens if span[0] <= token.start < span[1]])
        copy = node.copy()
        narrow(copy)
        text.rewrite(span[0], span[1], copy.sql("duckdb", comments=False, unsupported_level=ErrorLevel.RAISE))
        found = True
    return found


def expand_fields(node: Node, maps: Collection[str], text: QueryText | None) -> None:
    """Make the fields of ROWs columns where UNNEST(…) AS s(a, b) names several; keys and values of a MAP among `maps`.

    Changes the tree.
    """
    alias = node.args.get("alias")
    if alias is None or len(alias.args.get("columns") or ()) < 2 or node.args.get("offset"):
        return
    if not isinstance(node.parent, (exp.From, exp.Join)) or len(node.expressions) != 1:
        return
    rows = node.expressions[0]
    is_map = isinstance(rows, exp.Column) and rows.name.lower() in maps
    call = exp.Anonymous(
        this="unnest",
        expressions=[
            exp.Anonymous(this="map_entries", expressions=[rows]) if is_map else rows,
            exp.PropertyEQ(this=exp.to_identifier("max_depth"), expression=exp.Literal.number(2)),
        ],
    )
    if text is not None and "span" in node.meta:
        _expand_text(node.meta["span"][0], text, is_map=is_map)
    node.replace(exp.Lateral(this=exp.Subquery(this=exp.Select(expressions=[call])), alias=alias))


def _expand_text(start: int, text: QueryText, *, is_map: bool) -> None:
    """Note in a text what `expand_fields` does to an UNNEST that begins at `start`."""
    index = next(at for at, token in enumerate(text.tokens) if token.start == start)
    opened, depth = text.tokens[index + 1], 0
    closed = opened
    for token in text.tokens[index + 1 :]:  # scalar: one a word of the call
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        closed = token
        if not depth:
            break
    call = ("(map_entries(", ")") if is_map else ("(", "")
    text.replace(start, opened.end + 1, f"LATERAL (SELECT unnest{call[0]}")
    text.replace(closed.start, closed.end + 1, f"{call[1]}, max_depth := 2))")


def operands_of_unknown_type(tree: Node) -> set[int]:
    """Return the `id` of each node around an aggregate or a window within its query, and of those within an index.

    DuckDB does not know their type where it chooses a function.
    """
    around: set[int] = set()
    for part in tree.find_all(exp.AggFunc, exp.Window, exp.Explode, exp.Unnest):
        node = part.parent
        while node is not None and not isinstance(node, exp.Query) and id(node) not in around:
            around.add(id(node))
            node = node.parent
    for bracket in tree.find_all(exp.Bracket):  # sqlglot counts an index from 0, and adds 1 again to what it knows
        for index in bracket.expressions:
            around.update(id(node) for node in index.walk())
    return around


def widen(node: Node, text: QueryText | None) -> None:
    """Compute a sum, a difference or a product of INT in BIGINT; what adds to it is BIGINT then already."""
    left, right = node.this, node.expression
    if any(_is_wide(side) for side in (left, right)):
        return
    if text is not None:
        if "span" not in left.meta or "span" not in right.meta:
            return
        _widen_text(text, left.meta["span"], right.meta["span"], _FUNCTIONS[type(node)])
    call = exp.Anonymous(this=_FUNCTIONS[type(node)], expressions=[left, right])
    node.replace(call)


def _widen_text(text: QueryText, left: tuple[int, int], right: tuple[int, int], function: str) -> None:
    """Note in a text that a function is called for the operator between two operands."""
    text.wrap(left[0], right[1], f"{function}(", ")", is_sum=True)
    text.replace(left[1], right[0], ", ", is_sum=True)


def narrow(tree: Node) -> None:
    """Take back what `widen` did: INT is computed in INT, and what does not fit is an error of DuckDB."""
    operators = {name: kind for kind, name in _FUNCTIONS.items()}
    for call in list(tree.find_all(exp.Anonymous)):
        if call.name in operators:
            left, right = (exp.paren(side, copy=False) for side in list(call.expressions))
            call.replace(exp.paren(operators[call.name](this=left, expression=right)))


def _is_wide(node: Node) -> bool:
    while isinstance(node, exp.Paren):
        node = node.this
    is_call = isinstance(node, exp.Anonymous) and node.name in _FUNCTIONS.values()
    return is_call or isinstance(node, (exp.Interval, *WIDENED))


# ---- hints ---------------------------------------------------------------------------------------


def hint_of(node: Node, source: SqlText) -> dict[str, str] | None:
    """Return the options of the hint behind a table's name or alias, and take the hint out of the tree.

    Raises: `SqlError` for a hint that is not OPTIONS('key' = 'value', …), `InvalidOption` for one that names a place.
    """
    options: dict[str, str] = {}
    for holder in (node, node.this, *(node.args["alias"].walk() if node.args.get("alias") else ())):
        for comment in list(holder.comments or ()):
            if comment.startswith("+"):
                options.update(_options(comment[1:], source))
                holder.comments.remove(comment)
    check_not_in_hint(options, "the hint OPTIONS")
    return options or None


def refuse_other_hints(tree: Node, source: SqlText) -> None:
    """Raise `SqlError` where the tree has a hint that is at no table."""
    for node in tree.walk():
        for comment in node.comments or ():
            if comment.startswith("+"):
                raise _unknown(comment[1:], source)
        if isinstance(node, exp.Hint):
            raise _unknown(node.sql("spark").strip("/*+ "), source)


def _options(text: str, source: SqlText) -> dict[str, str]:
    tokens = TokenStream.of(text, name=f"{source.name}, hint")
    if not tokens.accept("OPTIONS"):
        raise _unknown(text, source)
    options = parse_properties(tokens)
    tokens.end()
    return options


def _unknown(text: str, source: SqlText) -> SqlError:
    at = max(0, source.text.find(f"/*+{text}*/"))
    return source.error(
        at, f"/*+{without_secrets(text)[:200]}*/: hints are OPTIONS('key' = 'value'), behind the name of a table"
    )
