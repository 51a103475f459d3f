"""Expressions of a query as DuckDB is to compute them: outputs with names, fields of UNNEST, sums of INT in BIGINT.

    SELECT count(*), a + 1 FROM t, UNNEST(t.c) AS s(x, y)
        ->   SELECT COUNT(*) AS "count(*)", lakekit_add(a, 1) AS "a + 1"
             FROM t, LATERAL (SELECT unnest(t.c, max_depth := 2)) AS s(x, y)

Also hints: options of a table in a comment that begins with a plus, behind its name or its alias. Each function changes
the tree that it is given. `lakekit_add` is a function of the database (`cage`) that adds INT in
BIGINT, and everything else as `+` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lakekit.model.table_paths import check_not_in_hint
from lakekit.options.redaction import without_secrets
from lakekit.sql.backend import parse_properties
from lakekit.sql.tokenizer import TokenStream

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakekit.errors import SqlError
    from lakekit.expressions.parser import SqlText

    Node = Any
    """A node of sqlglot's tree."""

_FUNCTIONS = {exp.Add: "lakekit_add", exp.Sub: "lakekit_sub", exp.Mul: "lakekit_mul"}
WIDENED = tuple(_FUNCTIONS)
"""Nodes that `widen` takes."""
_NAMED = (exp.Alias, exp.Aliases, exp.Column, exp.Star, exp.Dot, exp.Identifier)
"""Outputs that DuckDB names itself."""


def name_outputs(tree: Node, source: SqlText) -> None:
    """Name outputs that have no name by the text that the statement has for them."""
    for select in tree.find_all(exp.Select):
        outputs = select.expressions
        select.set("expressions", [_named(output, source) for output in outputs])


def _named(output: Node, source: SqlText) -> Node:
    inner = output
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, (*_NAMED, exp.Dot)) or inner.find(exp.Columns, exp.Explode) is not None:
        return output
    span = output.meta.get("span")
    if span is None:
        text = output.sql(source.dialect if source.dialect == "spark" else "duckdb", normalize_functions="lower")
    else:
        text = source.text[span[0] : span[1]]
    return exp.alias_(output, text, quoted=True, copy=False)


def expand_fields(node: Node, maps: Collection[str]) -> None:
    """Make the fields of ROWs columns where UNNEST(…) AS s(a, b) names several; keys and values of a MAP among `maps`.

    Changes the tree.
    """
    alias = node.args.get("alias")
    if alias is None or len(alias.args.get("columns") or ()) < 2 or node.args.get("offset"):
        return
    if not isinstance(node.parent, (exp.From, exp.Join)) or len(node.expressions) != 1:
        return
    rows = node.expressions[0]
    call = exp.Anonymous(
        this="unnest",
        expressions=[
            exp.Anonymous(this="map_entries", expressions=[rows])
            if isinstance(rows, exp.Column) and rows.name.lower() in maps
            else rows,
            exp.PropertyEQ(this=exp.to_identifier("max_depth"), expression=exp.Literal.number(2)),
        ],
    )
    node.replace(exp.Lateral(this=exp.Subquery(this=exp.Select(expressions=[call])), alias=alias))


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


def widen(node: Node) -> None:
    """Compute a sum, a difference or a product of INT in BIGINT; what adds to it is BIGINT then already."""
    if not any(_is_wide(side) for side in (node.this, node.expression)):
        node.replace(exp.Anonymous(this=_FUNCTIONS[type(node)], expressions=[node.this, node.expression]))


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
    at = max(0, source.text.find("/*+"))
    return source.error(
        at, f"/*+{without_secrets(text)[:200]}*/: hints are OPTIONS('key' = 'value'), behind the name of a table"
    )
