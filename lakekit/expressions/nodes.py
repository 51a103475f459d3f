"""Questions about the nodes of sqlglot's tree that their translation asks.

start_of(node)       where it begins in the text          called(node)      how an error calls it: round(), LIKE
flat_parts(a AND b AND c, exp.And)   ->   a, b, c         may_fail(node)    whether computing it may fail for a row
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lakekit.errors import ColumnNotFound, InvalidOption
from lakekit.expressions import functions
from lakekit.expressions.typed_expression import TranslationRefusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from lakekit.expressions.parser import SqlText
    from lakekit.expressions.scope import Scope

    Node = Any
    """A node of sqlglot's tree."""

_FAILING = (exp.Mod, exp.IntDiv, exp.DateFromParts, exp.StrToTime)
_FAILING_NAMES = frozenset({"mod", "to_date"})
_OF_SEVERAL_ROWS = (exp.AggFunc, exp.Window, exp.UDTF, exp.RowNumber, exp.Columns)
"""What is computed of several rows, or gives several, where it stands outside of a query of its own."""
_AROUND_AGGREGATES = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
"""What stands around an aggregate, as FILTER (WHERE …)."""
_VOLATILE = (exp.Rand, exp.Randn, exp.Uuid, exp.Anonymous, exp.Star, exp.Placeholder)


def start_of(node: Node) -> int:
    """Return where a node begins in the text: the least place of what it is made of."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts, default=0)


def dotted_names(node: Node) -> list[str] | None:
    """Return the parts of a name; None for a field of a computed value."""
    fields = []
    while isinstance(node, exp.Dot):
        if not isinstance(node.expression, exp.Identifier):
            return None
        fields.append(node.expression.name)
        node = node.this
    return [*(part.name for part in node.parts), *reversed(fields)] if isinstance(node, exp.Column) else None


def flat_parts(node: Node, kind: Any) -> Iterator[Node]:
    """Yield the conditions that a chain of AND, or OR, joins, in order."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, kind):
            waiting += [part.expression, part.this]
        elif isinstance(part, exp.Paren) and isinstance(part.this, kind):
            waiting.append(part.this)
        else:
            yield part


def arguments_of(node: Node, parts: Sequence[str]) -> Iterator[Node]:
    """Yield the arguments of a function, by the names that sqlglot gives them."""
    for part in parts:
        value = node.args.get(part)
        if isinstance(value, list):
            yield from value
        elif value is not None:
            yield value if isinstance(value, exp.Expression) else exp.convert(value)


def is_constant(node: Node) -> bool:
    """Return whether the backend can compute the value without a row, and the same every time."""
    for part in node.find_all(exp.Column, *_OF_SEVERAL_ROWS):
        if part.find_ancestor(exp.Query) is None:
            return False
    return next(node.find_all(*_VOLATILE), None) is None


def called(node: Node) -> str:
    """Return how an error calls a node: the name of the function, or the word of the operator."""
    if isinstance(node, exp.Anonymous):
        return f"{node.this}()"
    if isinstance(node, exp.Func):
        return f"{node.sql_name().lower()}()"
    return str(node.key).upper()


def unknown_function(node: Node) -> TranslationRefusal:
    """Return the refusal of what the table has not."""
    while isinstance(node, _AROUND_AGGREGATES):
        node = node.this
    if isinstance(node, exp.RowNumber):
        return TranslationRefusal(f"{called(node)} is a window function: a condition or a value is of one row")
    if isinstance(node, exp.AggFunc):
        return TranslationRefusal(f"{called(node)} is an aggregate: a condition or a value is of one row")
    if isinstance(node, exp.Window):
        return TranslationRefusal("OVER is a window function: a condition or a value is of one row")
    if isinstance(node, exp.UDTF):
        name = "unnest()" if type(node) is exp.Explode else called(node)
        return TranslationRefusal(f"{name} gives several rows: a condition or a value is of one row")
    if isinstance(node, (exp.Query, exp.Exists, exp.Subquery)):
        return TranslationRefusal("a subquery is not computed in a condition of this kind")
    if isinstance(node, exp.Placeholder):
        return TranslationRefusal("a parameter has no value here")
    near = functions.nearest(str(node.this)) if isinstance(node, exp.Anonymous) else None
    hint = f": did you mean {near}()?" if near else ""
    return TranslationRefusal(f"{called(node)} is not computed here{hint}")


def query_values(node: Node, text: str, scope: Scope) -> pl.Series:
    """Return the values of a query, which the backend computes once; `node` is the subquery, or has it in it.

    Raises: `TranslationRefusal` that says what to write for one that names columns of the changed row; what the backend
    raises for other errors.
    """
    if scope.run_query is None:
        raise TranslationRefusal("a subquery is not computed in a condition of this kind")
    try:
        return scope.run_query(text)
    except (ColumnNotFound, InvalidOption) as wrong:
        missing = wrong.name if isinstance(wrong, ColumnNotFound) else None
        if not _names_changed_row(node, scope, missing):
            raise
    raise _correlated_refusal(node, scope)


def _names_changed_row(node: Node, scope: Scope, missing: str | None) -> bool:
    """Return whether a subquery names a column of the tables of a scope; `missing`: a name that its own have not."""
    own = {part.alias_or_name.lower() for part in node.find_all(exp.Table, exp.CTE, exp.Subquery)} - {""}
    for column in node.find_all(exp.Column):
        table = column.text("table").lower()
        if table in own or (not table and column.name != missing):
            continue
        with suppress(TranslationRefusal):
            if scope.find([part.name for part in column.parts]) is not None:
                return True
    return False


def _correlated_refusal(node: Node, scope: Scope) -> TranslationRefusal:
    """Return the refusal of a subquery that would be computed for each row, with the statements that do the same."""
    target, query, exists = scope.sides[0].names[-1], node.find(exp.Select), node.find(exp.Exists)
    table = None if query is None else query.find(exp.Table)
    where = None if query is None or exists is None else query.args.get("where")
    source = "(SELECT …) s" if table is None else table.sql("duckdb")
    on = "…" if where is None else where.this.sql("duckdb")
    merge = f"MERGE INTO {target} USING {source} ON {on} WHEN"
    if exists is not None and isinstance(exists.parent, exp.Not):
        instead = f"{merge} NOT MATCHED BY SOURCE THEN DELETE, or THEN UPDATE SET …"
    else:
        delete = f"DELETE FROM {target} USING {source} WHERE {on}"  # noqa: S608 - advice, which nothing runs
        update = f"UPDATE {target} SET … FROM {source} WHERE {on}"  # noqa: S608 - as above
        instead = f"{delete}; {update}; {merge} MATCHED THEN …"
    more = "; an aggregate is (SELECT key, max(v) AS v FROM … GROUP BY key) s"
    return TranslationRefusal(
        f"the subquery names columns of {target}, and a subquery is computed once, before any row. Write it as the "
        f"source: {instead}{'' if exists is not None else more}"
    )


def row_parts(node: Node) -> list[Node] | None:
    """Return the values of a row that is written out, as (a, 1) or row(a, 1); None for another node."""
    if isinstance(node, exp.Tuple) or (isinstance(node, exp.Anonymous) and node.name.lower() == "row"):
        return list(node.expressions)
    return None


def quantified(node: Node) -> tuple[str, Node] | None:
    """Return the word and the list, or subquery, of ANY (…), SOME (…) or ALL (…); None for another node."""
    if isinstance(node, (exp.Any, exp.All)):
        inner = node.this
        return ("ANY" if isinstance(node, exp.Any) else "ALL"), inner.this if isinstance(inner, exp.Paren) else inner
    if isinstance(node, exp.Anonymous) and node.name.upper() in ("SOME", "ALL") and len(node.expressions) == 1:
        return ("ANY" if node.name.upper() == "SOME" else "ALL"), node.expressions[0]
    return None


def may_fail(node: Node) -> bool:
    """Return whether computing a node may fail for a row: a CAST, a division with a rest, a date of its parts."""
    for part in node.walk():
        if isinstance(part, exp.Cast) and not isinstance(part, exp.TryCast) and not isinstance(part.this, exp.Literal):
            return True
        if isinstance(part, _FAILING) or (isinstance(part, exp.Anonymous) and part.name.lower() in _FAILING_NAMES):
            return True
    return False


def column_not_found(source: SqlText, node: Node, scope: Scope, names: Sequence[str]) -> ColumnNotFound:
    """Return the error about a name at a node that is no column, with line, column and caret."""
    missing = scope.not_found(names)
    return ColumnNotFound(source.error(start_of(node), missing.message).message, name=missing.name)
