"""Conditions and values of SQL as Polars expressions, by the table of `functions`.

    a + 1 > 7 AND d = '2024-03-31'   ->   (col("a").cast(Int64) + 1 > 7) & (col("d") == date(2024, 3, 31))

    translate_condition(SqlText("a > 1", "where= for shop.orders"), scope)    ->   pl.Expr, BOOLEAN
    translate_value(SqlText("a + 1", "update['a']"), scope, pl.Int32())       ->   pl.Expr, for a column INT

A tree is translated from the leaves up, each node once, and its type is computed with it: Polars is not asked. Chains
of operators, as of 5,000 ANDs, are walked without recursion. A double-quoted name is a column, never a text. What
names no column, as a subquery of a statement, the backend computes once, before (`Scope.run_query`).
"""

from __future__ import annotations

from operator import and_, or_
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl
from sqlglot import exp

from lakekit.columns import col
from lakekit.errors import InvalidOption, SchemaMismatch
from lakekit.expressions import functions, nested_functions, text_functions, time_functions, type_casts
from lakekit.expressions.cast_type import cast_type, has_whole_seconds
from lakekit.expressions.comparison import compare, compare_rows, compare_with_list, fold, text_number, unify
from lakekit.expressions.nodes import (
    arguments_of,
    called,
    column_not_found,
    dotted_names,
    flat_parts,
    is_constant,
    may_fail,
    quantified,
    query_values,
    row_parts,
    start_of,
    unknown_function,
)
from lakekit.expressions.numeric_promotion import compute_arithmetic, negate
from lakekit.expressions.parser import parse_text
from lakekit.expressions.typed_expression import (
    TranslationRefusal,
    TypedExpression,
    boolean_literal,
    join_in_pairs,
    located_error,
    mismatch,
    null_literal,
    text_literal,
    typed_value,
    with_name,
)
from lakekit.format.polars_types import VARIANT_DTYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.expressions.parser import SqlText
    from lakekit.expressions.scope import Scope

    Node = Any
    """A node of sqlglot's tree."""

_CHAINS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.DPipe, exp.BitwiseAnd, exp.BitwiseOr)
"""Operators whose left side may be a long chain of the same."""
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_MAX_CHAIN = 500
"""As many operators, or branches of CASE, lie one within another: Polars takes quadratic time, and then the stack."""
_MAX_GROWTH = 1_000_000
_MAX_CONJUNCTS = 100
_MAX_REPEATS, _REPEATS_PER_NAME = 4_000, 20
"""As often a value may name columns, all repeats counted: for any text, and for each name in it."""
_MAX_GUARDS = 16
"""As many conditions before a part decide for which rows it is computed."""
_IGNORED_ARGS = frozenset(
    {"safe", "typed", "coalesce", "_type", "quoted", "is_string", "include", "nested", "ignore_nulls", "single_replace"}
    | {"null_if_pos_overflow"}
)
"""What sqlglot notes of a node that says nothing about its meaning here."""
_UNARY = frozenset({"this"})
_BINARY = frozenset({"this", "expression"})


def translate_condition(source: SqlText, scope: Scope) -> pl.Expr:
    """Return the Polars expression of a condition: BOOLEAN.

    Raises: `SqlError` for a text that is no condition, `SchemaMismatch` for types that do not meet, `ColumnNotFound`.
    """
    return condition_of(source, parse_text(source), scope)


def condition_of(source: SqlText, node: Node, scope: Scope) -> pl.Expr:
    """Return the Polars expression of a tree that is a condition. Raises the errors of `translate_condition`."""
    typed = Translation(source, scope).run(node)
    if typed.is_null:
        return pl.lit(None, pl.Boolean())
    if typed.dtype != pl.Boolean():
        problem = f"a condition is true or false, and this is {typed.type_name}. Compare it with something"
        raise located_error(source, start_of(node), mismatch(problem))
    return typed.expr


def translate_value(source: SqlText, scope: Scope, dtype: pl.DataType) -> pl.Expr:
    """Return the Polars expression of a value for a column of a type.

    It may be of another type, whose values are held against the column when they are written.

    Raises: `SqlError`, `SchemaMismatch`, `ColumnNotFound`.
    """
    return value_of(source, parse_text(source), scope, dtype)


def value_of(source: SqlText, node: Node, scope: Scope, dtype: pl.DataType) -> pl.Expr:
    """Return the Polars expression of a tree for a column of a type. Raises the errors of `translate_value`."""
    translation = Translation(source, scope)
    typed = translation.run(node)
    try:
        typed = type_casts.assigned_value(typed, dtype, scope.zone)
    except TranslationRefusal as refusal:
        raise located_error(source, start_of(node), refusal) from None
    return typed.expr


class Translation:
    """The translation of one tree."""

    def __init__(self, source: SqlText, scope: Scope) -> None:
        self.source, self.scope = source, scope
        self.growth = 1  # how much longer than a row's text all repeats together may make one
        self.most_names = _MAX_REPEATS
        self.guard: pl.Expr | None = None  # true for the rows for which the part is computed that is translated now

    def run(self, node: Node) -> TypedExpression:
        """Return the typed expression of a tree. Raises `SqlError`, `SchemaMismatch`, `ColumnNotFound`."""
        failure: TranslationRefusal | None = None
        self.most_names = _MAX_REPEATS + _REPEATS_PER_NAME * sum(1 for _ in node.find_all(exp.Column))
        try:
            return self.translate(node)
        except TranslationRefusal as refusal:
            failure = refusal
        except RecursionError:
            failure = TranslationRefusal("it is nested too deeply")
        raise located_error(self.source, start_of(node), failure)

    def translate(self, node: Node) -> TypedExpression:
        """Return the typed expression of a node."""
        try:
            return self._within_bounds(self._translate(node))
        except TranslationRefusal as refusal:
            constant = self._constant(node)
            if constant is not None:
                return constant
            if refusal.position is None:
                refusal.position = start_of(node)
            raise

    def _translate(self, node: Node) -> TypedExpression:
        if isinstance(node, _CHAINS):
            return self._chain(node)
        if isinstance(node, (exp.And, exp.Or)):
            return self._junction(node)
        if isinstance(node, _COMPARISONS) and isinstance(node.this, _COMPARISONS):
            raise TranslationRefusal("comparisons in a row, as a < b < c, have no meaning; write AND, or brackets")
        form = self.FORMS.get(type(node))
        if form is not None:
            translate, parts = form
            self._refuse_others(node, parts)
            return translate(self, node)
        return self._call(node)

    def _within_bounds(self, value: TypedExpression) -> TypedExpression:
        """Return a value; one without columns as a literal.

        Functions name an argument several times, and Polars plans each of them: `x % 2 % 2 …` grows fourfold at each %.

        Raises: `TranslationRefusal` where the value names its columns too often.
        """
        if value.is_constant:
            return fold(value)
        if len(value.expr.meta.root_names()) > self.most_names:
            raise TranslationRefusal("too many functions are nested in one another here; compute a part before")
        return value

    def _reached(self, node: Node, guard: pl.Expr | None) -> TypedExpression:
        """Return a part that is computed for those rows alone for which `guard` is true, as a branch of CASE.

        Polars computes it for all. A column is NULL for the others, so that no CAST and no division fails for them.
        """
        if guard is None or not may_fail(node):
            return self.translate(node)
        outer = self.guard
        self.guard = guard if outer is None else outer & guard
        try:
            return self.translate(node)
        finally:
            self.guard = outer

    def _refuse_others(self, node: Node, parts: frozenset[str]) -> None:
        """Raise where a node has parts that its meaning here does not take."""
        for name, value in node.args.items():
            if value and name not in parts and name not in _IGNORED_ARGS:
                raise TranslationRefusal(f"{name.strip('_').upper()} of {called(node)} is not supported")

    # ---- chains ----

    def _chain(self, node: Node) -> TypedExpression:
        """Return a chain of binary operators, whose left sides are walked without recursion."""
        spine = []
        while isinstance(node, _CHAINS):
            spine.append(node)
            node = node.this
        if len(spine) > _MAX_CHAIN and {type(part) for part in spine} <= {exp.Add}:
            return self._sum(spine, node)
        if len(spine) > _MAX_CHAIN and not {type(part) for part in spine} <= {exp.DPipe}:
            raise TranslationRefusal(f"{len(spine):,} operators in one chain; at most {_MAX_CHAIN:,} are computed")
        value = self.translate(node)
        for operator in reversed(spine):
            self._refuse_others(operator, frozenset({"this", "expression"}))
            right = self.translate(operator.expression)
            try:
                value = functions.by_node()[type(operator).__name__].apply([value, right], self.scope.zone)
                value = self._within_bounds(value)
            except TranslationRefusal as refusal:
                if refusal.position is None:
                    refusal.position = start_of(operator)
                raise
        return value

    def _sum(self, spine: Sequence[Node], first: Node) -> TypedExpression:
        """Return a long sum of whole numbers or DECIMALs, added in pairs: 5,000 terms are 13 deep."""
        terms = [self.translate(first), *(self.translate(part.expression) for part in reversed(spine))]
        if not all(term.is_integer or term.is_decimal for term in terms):
            raise TranslationRefusal(f"{len(spine):,} operators in one chain; at most {_MAX_CHAIN:,} are computed")
        while len(terms) > 1:
            pairs = (terms[at : at + 2] for at in range(0, len(terms), 2))
            terms = [compute_arithmetic("+", *pair) if len(pair) > 1 else pair[0] for pair in pairs]
        return terms[0]

    def _junction(self, node: Node) -> TypedExpression:
        """Return a chain of AND, or of OR, as a balanced tree: 5,000 conditions are 13 deep."""
        kind = type(node)
        conditions: list[TypedExpression] = []
        guard: pl.Expr | None = None  # a part is computed where those before it that cannot fail leave it open
        count = 0
        for part in flat_parts(node, kind):
            condition = self._truth(part, guard)
            conditions.append(condition)
            if count < _MAX_GUARDS and not may_fail(part):
                is_open = condition.expr.fill_null(value=kind is exp.And)
                is_open = is_open if kind is exp.And else ~is_open
                guard = is_open if guard is None else guard & is_open
                count += 1
        exprs = [condition.expr for condition in conditions]
        if kind is exp.And and len(exprs) > _MAX_CONJUNCTS:  # Polars parts them, in cubic time
            others = ~join_in_pairs([~expr for expr in exprs[_MAX_CONJUNCTS:]], or_)
            exprs = [*exprs[:_MAX_CONJUNCTS], others]
        return typed_value(join_in_pairs(exprs, and_ if kind is exp.And else or_), pl.Boolean(), *conditions)

    def _truth(self, node: Node, guard: pl.Expr | None = None) -> TypedExpression:
        """Return a condition, computed where `guard` is true. Raises for what is neither true nor false."""
        value = self._reached(node, guard)
        if value.is_null:
            return null_literal(pl.Boolean())
        if value.dtype != pl.Boolean():
            refusal = mismatch(f"a condition is true or false, and {value.description}. Compare it with something")
            refusal.position = start_of(node)
            raise refusal
        return value

    # ---- functions ----

    def _call(self, node: Node) -> TypedExpression:
        """Return a function of the table."""
        if isinstance(node, exp.Anonymous):
            function = functions.by_name().get(str(node.this).lower())
            arguments = list(node.expressions)
        else:
            function = functions.by_node().get(type(node).__name__)
            parts = frozenset(() if function is None else function.parts)
            if function is not None:
                self._refuse_others(node, parts)
            arguments = list(arguments_of(node, () if function is None else function.parts))
        if function is None or not function.names[0]:
            raise unknown_function(node)
        if function.names[0] == "coalesce":
            values = self._each_while_null(arguments)
        else:
            values = [self.translate(argument) for argument in arguments]
        self._grow(function.names[0], values)
        return function.apply(values, self.scope.zone)

    def _each_while_null(self, nodes: Sequence[Node]) -> list[TypedExpression]:
        """Return values of which each is computed for the rows where all before it are NULL."""
        values: list[TypedExpression] = []
        guard: pl.Expr | None = None
        for at, node in enumerate(nodes):
            value = self._reached(node, guard)
            values.append(value)
            if at < _MAX_GUARDS:
                guard = value.expr.is_null() if guard is None else guard & value.expr.is_null()
        return values

    def _grow(self, name: str, values: Sequence[TypedExpression]) -> None:
        """Raise where functions that make texts longer, one in another, may take all memory."""
        if name == "repeat" and isinstance(values[-1].literal, int):
            self.growth *= max(values[-1].literal, 1)
        elif name in ("replace", "regexp_replace") and len(values) > 2 and isinstance(values[2].literal, str):
            self.growth *= max(len(values[2].literal), 1)
        if self.growth > _MAX_GROWTH:
            raise TranslationRefusal(f"{name}() would make texts more than {_MAX_GROWTH:,} times as long")

    def _text(self, node: Node) -> str:
        """Return a tree as a text for the backend, in the statement's dialect."""
        return str(node.sql(dialect="spark" if self.source.dialect == "spark" else "duckdb"))

    def _constant(self, node: Node) -> TypedExpression | None:
        """Return what the backend computes of a node without columns; None where it cannot."""
        if self.scope.run_query is None or not is_constant(node):
            return None
        try:
            values = query_values(node, f"SELECT {self._text(node)} AS value", self.scope)
        except (InvalidOption, SchemaMismatch):  # the backend cannot compute it either
            return None
        if len(values) != 1:  # a function that gives rows, which the tree does not tell
            return None
        if values.dtype.is_nested():  # a literal of a list would be its elements, one a row
            listed = pl.lit([values.to_list()[0]], pl.List(values.dtype)).list.first()  # scalar: one value
            return typed_value(listed, values.dtype)
        return fold(typed_value(pl.lit(values[0], values.dtype), values.dtype))

    # ---- names and literals ----

    def _column(self, node: Node) -> TypedExpression:
        """Return a column, or a field of one: `r.a.b`, also with its table before it."""
        return self._name([part.name for part in node.parts], node)

    def _name(self, names: Sequence[str], node: Node) -> TypedExpression:
        """Return what a name of several parts means, which stands at a node."""
        for end in range(min(len(names), 3), 0, -1):
            found = self.scope.find(names[:end])
            if found is None:
                continue
            dtype = self.scope.schema[found]
            read = col(found) if self.guard is None else pl.when(self.guard).then(col(found))
            value: TypedExpression | None = typed_value(read, dtype)
            for field in names[end:]:
                value = None if value is None else nested_functions.field_of(value, field)
            if value is not None:
                return with_name(value, ".".join(names))
            if dtype == VARIANT_DTYPE:
                raise mismatch(
                    f"{'.'.join(names[:end])} is VARIANT, in which a condition or a value does not look: a query does, "
                    "as IN (SELECT …)"
                )
        raise column_not_found(self.source, node, self.scope, names)

    def _dot(self, node: Node) -> TypedExpression:
        names = dotted_names(node)
        if names is not None:
            return self._name(names, node)
        value = self.translate(node.this)
        field = nested_functions.field_of(value, node.expression.name)
        if field is None:
            raise mismatch(f"{value.description} and has no field {node.expression.name!r}")
        return field

    def _literal(self, node: Node) -> TypedExpression:
        text = str(node.this)
        return text_literal(text) if node.is_string else text_number(text)

    def _bytes(self, node: Node) -> TypedExpression:
        """Return X'00ff', whose digits sqlglot keeps."""
        digits = str(node.this)
        try:
            return typed_value(pl.lit(bytes.fromhex(digits), pl.Binary()), pl.Binary())
        except ValueError:
            raise TranslationRefusal("X'…' takes pairs of the digits 0 to 9 and A to F") from None

    def _neg(self, node: Node) -> TypedExpression:
        return negate(self.translate(node.this))

    def _not(self, node: Node) -> TypedExpression:
        condition = self._truth(node.this)
        return typed_value(~condition.expr, pl.Boolean(), condition)

    def _is(self, node: Node) -> TypedExpression:
        value = self.translate(node.this)
        wanted = node.expression
        if isinstance(wanted, exp.Null):
            is_null = pl.lit(value=True) if value.is_null else value.expr.is_null()
            return typed_value(is_null, pl.Boolean(), value)
        if isinstance(wanted, exp.Boolean):
            truth = self._truth(node.this)
            return typed_value(truth.expr.eq_missing(pl.lit(bool(wanted.this))), pl.Boolean(), truth)
        raise TranslationRefusal("IS takes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")

    def _in(self, node: Node) -> TypedExpression:
        if (row := row_parts(node.this)) is not None:
            return self._row_in(row, node)
        value = self.translate(node.this)
        if node.args.get("query") is not None:
            return self._in_query(node.args["query"], value)
        if (items := node.args.get("field")) is not None:
            return nested_functions.list_contains([self._list(items, value), value], self.scope.zone)
        if not node.expressions:
            raise TranslationRefusal("the list of IN is empty")
        return compare_with_list(value, [self.translate(item) for item in node.expressions], self.scope.zone)

    def _row_in(self, row: Sequence[Node], node: Node) -> TypedExpression:
        """Return whether a row that is written out is among rows that are."""
        values = [self.translate(part) for part in row]
        found: list[TypedExpression] = []
        for item in node.expressions:
            parts = row_parts(item)
            if parts is None:
                raise TranslationRefusal("(a, b) IN takes rows that are written out, as ((1, 2), (3, 4))")
            found.append(compare_rows(values, [self.translate(part) for part in parts], self.scope.zone))
        if not found:
            raise TranslationRefusal("(a, b) IN takes rows that are written out; a subquery is not computed there")
        return typed_value(join_in_pairs([one.expr for one in found], or_), pl.Boolean(), *found)

    def _equality(self, node: Node) -> TypedExpression:
        """Return = and <> of rows that are written out, and with ANY or ALL of a list; of others as any function."""
        is_equal = isinstance(node, (exp.EQ, exp.NullSafeEQ))
        left, right = row_parts(node.this), row_parts(node.expression)
        if left is not None and right is not None:
            sides = [[self.translate(part) for part in parts] for parts in (left, right)]
            result = compare_rows(sides[0], sides[1], self.scope.zone)
        elif (choices := quantified(node.expression)) is not None:
            if not isinstance(node, exp.EQ if choices[0] == "ANY" else exp.NEQ):
                raise TranslationRefusal("a list is compared by = ANY (list), or by <> ALL (list)")
            result = self._equals_any(self.translate(node.this), choices[1])
        else:
            return self._call(node)
        return result if is_equal else typed_value(~result.expr, pl.Boolean(), result)

    def _equals_any(self, value: TypedExpression, items: Node) -> TypedExpression:
        if isinstance(items, exp.Subquery):
            return self._in_query(items, value)
        if isinstance(items, exp.Array):
            listed = [self.translate(item) for item in items.expressions]
            return compare_with_list(value, listed, self.scope.zone) if listed else boolean_literal(value=False)
        return nested_functions.equals_any(value, self.translate(items), self.scope.zone)

    def _list(self, node: Node, value: TypedExpression) -> TypedExpression:
        """Return a list; one that is written out as a list of values in one type with `value`."""
        if not isinstance(node, exp.Array):
            return self.translate(node)
        items, dtype = unify([value, *(self.translate(item) for item in node.expressions)], self.scope.zone)
        if len(items) == 1:
            return typed_value(pl.lit([], pl.List(dtype)).list.first(), pl.List(dtype))
        return typed_value(pl.concat_list(item.expr for item in items[1:]), pl.List(dtype), *items[1:])

    def _in_query(self, node: Node, value: TypedExpression) -> TypedExpression:
        """Return whether a value is among those of a subquery; a NULL among them may leave it unknown."""
        values = query_values(node, self._text(node.this), self.scope)
        element = typed_value(pl.lit(None, values.dtype), values.dtype)
        if not len(values):
            return boolean_literal(False)
        choices = values.drop_nulls().unique()
        (first, _), dtype = unify([value, element], self.scope.zone)
        is_in = first.expr.is_in(choices.cast(dtype).implode()) if len(choices) else pl.lit(value=False)
        is_in = pl.when(first.expr.is_not_null()).then(is_in)
        result = is_in if not values.null_count() else pl.when(is_in).then(pl.lit(value=True))
        return typed_value(result, pl.Boolean(), value)

    def _between(self, node: Node) -> TypedExpression:
        value, low, high = (self.translate(node.args[part]) for part in ("this", "low", "high"))
        above, below = compare(">=", value, low, self.scope.zone), compare("<=", value, high, self.scope.zone)
        return typed_value(above.expr & below.expr, pl.Boolean(), above, below)

    def _like(self, node: Node, escape: str | None = None) -> TypedExpression:
        default = "\\" if self.source.dialect == "spark" else ""
        result = text_functions.like(
            self.translate(node.this),
            self.translate(node.expression),
            escape=default if escape is None else escape,
            ignores_case=isinstance(node, exp.ILike),
        )
        return typed_value(~result.expr, pl.Boolean(), result) if node.args.get("negate") else result

    def _escape(self, node: Node) -> TypedExpression:
        if not isinstance(node.this, (exp.Like, exp.ILike)) or not isinstance(node.expression, exp.Literal):
            raise TranslationRefusal("ESCAPE follows the pattern of LIKE, and is a literal")
        return self._like(node.this, str(node.expression.this))

    def _case(self, node: Node) -> TypedExpression:
        subject, default = node.args.get("this"), node.args.get("default")
        value = None if subject is None else self.translate(subject)
        conditions, results = [], []
        if len(node.args["ifs"]) > _MAX_CHAIN:
            raise TranslationRefusal(f"CASE of {len(node.args['ifs']):,} branches; at most {_MAX_CHAIN:,} are computed")
        waiting: pl.Expr | None = None  # the rows that no branch has taken
        for at, branch in enumerate(node.args["ifs"]):
            if value is None:
                condition = self._truth(branch.this, waiting)
            else:
                condition = compare("=", value, self._reached(branch.this, waiting), self.scope.zone)
            taken = condition.expr.fill_null(value=False)
            conditions.append(condition)
            results.append(self._reached(branch.args["true"], taken if waiting is None else waiting & taken))
            if at < _MAX_GUARDS:
                waiting = ~taken if waiting is None else waiting & ~taken
        results.append(null_literal() if default is None else self._reached(default, waiting))
        return self._choose(conditions, results)

    def _if(self, node: Node) -> TypedExpression:
        other = node.args.get("false")
        condition = self._truth(node.this)
        taken = condition.expr.fill_null(value=False)
        results = [self._reached(node.args["true"], taken)]
        results.append(null_literal() if other is None else self._reached(other, ~taken))
        return self._choose([condition], results)

    def _choose(self, conditions: Sequence[TypedExpression], results: Sequence[TypedExpression]) -> TypedExpression:
        values, dtype = unify(results, self.scope.zone)
        result = values[-1].expr
        for condition, value in zip(reversed(conditions), reversed(values[:-1]), strict=True):
            result = pl.when(condition.expr).then(value.expr).otherwise(result)
        return typed_value(result, dtype, *conditions, *results)

    def _cast(self, node: Node) -> TypedExpression:
        dtype = cast_type(node.args["to"])
        value = self.translate(node.this)
        if self.source.dialect == "spark" and dtype.is_integer() and (value.is_float or value.is_decimal):
            value = typed_value(value.expr.truncate(0), value.dtype, value)  # DuckDB rounds
        is_strict = not isinstance(node, exp.TryCast)
        if isinstance(dtype, pl.Datetime) and has_whole_seconds(node.args["to"]):
            return type_casts.cast_to_seconds(value, dtype, self.scope.zone, is_strict=is_strict)
        return type_casts.cast(value, dtype, self.scope.zone, is_strict=is_strict)

    # ---- functions with a grammar of their own ----

    def _pad(self, node: Node) -> TypedExpression:
        name = "lpad" if node.args.get("is_left") else "rpad"
        parts = (node.this, node.expression, node.args.get("fill_pattern"))
        values = [self.translate(part) for part in parts if part is not None]
        return functions.by_name()[name].apply(values, self.scope.zone)

    def _date_add(self, node: Node) -> TypedExpression:
        unit = node.args.get("unit")
        value, amount = self.translate(node.this), self.translate(node.expression)
        if unit is not None and amount.is_integer and time_functions.part_name(unit.name) != "day":
            raise TranslationRefusal(f"date_add of {unit.name} is not supported: add an INTERVAL")
        sign = "+" if isinstance(node, exp.DateAdd | exp.TsOrDsAdd) else "-"
        return functions.by_name()[sign].apply([value, amount], self.scope.zone)

    def _bracket(self, node: Node) -> TypedExpression:
        value = self.translate(node.this)
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
            raise TranslationRefusal("[ ] takes one place or one key; a part of a list is not supported")
        index = self.translate(node.expressions[0])
        if isinstance(index.literal, int) and not isinstance(index.literal, bool):  # sqlglot counts from 0
            index = (
                text_number(str(index.literal + 1))
                if index.literal >= -1
                else negate(text_number(str(-index.literal - 1)))
            )
        return nested_functions.element_of(value, index, self.scope.zone)

    FORMS: ClassVar[Mapping[Any, tuple[Callable[[Translation, Any], TypedExpression], frozenset[str]]]] = {
        exp.Column: (_column, frozenset({"this", "table", "db", "catalog"})),
        exp.Dot: (_dot, _BINARY),
        exp.Literal: (_literal, _UNARY),
        exp.RawString: (lambda _, node: text_literal(str(node.this)), _UNARY),
        exp.HexString: (_bytes, _UNARY),
        exp.Boolean: (lambda _, node: boolean_literal(bool(node.this)), _UNARY),
        exp.Null: (lambda _, __: null_literal(), frozenset()),
        exp.Paren: (lambda self, node: self.translate(node.this), _UNARY),
        exp.Neg: (_neg, _UNARY),
        exp.Not: (_not, _UNARY),
        exp.Is: (_is, _BINARY),
        exp.In: (_in, frozenset({"this", "expressions", "query", "field"})),
        **dict.fromkeys((exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ), (_equality, _BINARY)),
        exp.Between: (_between, frozenset({"this", "low", "high"})),
        exp.Like: (_like, _BINARY | {"negate"}),
        exp.ILike: (_like, _BINARY | {"negate"}),
        exp.Escape: (_escape, _BINARY),
        exp.Case: (_case, frozenset({"this", "ifs", "default"})),
        exp.If: (_if, frozenset({"this", "true", "false"})),
        exp.Cast: (_cast, frozenset({"this", "to"})),
        exp.TryCast: (_cast, frozenset({"this", "to"})),
        exp.Trim: (text_functions.translate_trim, frozenset({"this", "expression", "position"})),
        exp.Pad: (_pad, frozenset({"this", "expression", "fill_pattern", "is_left"})),
        exp.Concat: (text_functions.translate_concat, frozenset({"expressions"})),
        exp.Extract: (time_functions.translate_extract, _BINARY),
        exp.TimestampTrunc: (time_functions.translate_truncate, frozenset({"this", "unit"})),
        exp.DateTrunc: (time_functions.translate_truncate, frozenset({"this", "unit"})),
        exp.DateDiff: (time_functions.translate_date_diff, _BINARY | {"unit", "date_part_boundary"}),
        **dict.fromkeys((exp.DateAdd, exp.DateSub, exp.TsOrDsAdd), (_date_add, _BINARY | {"unit"})),
        exp.Interval: (time_functions.translate_interval, frozenset({"this", "unit"})),
        exp.CurrentDate: (time_functions.translate_current_time, frozenset()),
        exp.CurrentTimestamp: (time_functions.translate_current_time, frozenset()),
        exp.UnixToTime: (time_functions.translate_epoch_count, frozenset({"this", "scale"})),
        exp.Bracket: (_bracket, frozenset({"this", "expressions", "offset"})),
    }
    """By kind of node: what translates it, and which parts of it that takes; others are refused."""
