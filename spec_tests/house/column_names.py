"""A mypy plugin: no name that is data is handed to Polars as text where Polars reads a pattern.

    pl.col(field.name)          error: … is read as a pattern
    frame.select("k", names)    error
    pl.col("v"), select("v")    right: the text stands in the source, and is no pattern
    column(field.name)          right: `lakekit.columns`

Types decide: an argument may be an expression, a selector, a literal text, or a constant that is declared `Final`; never a `str` whose value only the run
knows. `EXCEPT` lists where that is right, and why. `test_style.py` runs mypy with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy.errorcodes import ErrorCode
from mypy.nodes import ArgKind, DictExpr, Expression, GeneratorExpr, ListComprehension, ListExpr, SetExpr, StarExpr, TupleExpr
from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.types import AnyType, Instance, LiteralType, TupleType, Type, UnionType, get_proper_type

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMN_NAME: Final = ErrorCode("column-name", "A name that is data is read as a pattern", "lakekit")
_FRAMES = ("polars.dataframe.frame.DataFrame", "polars.lazyframe.frame.LazyFrame")
_EXPR = "polars.expr.expr.Expr"
_OF_FRAMES = {
    "select": ("exprs",),
    "select_seq": ("exprs",),
    "with_columns": ("exprs",),
    "filter": ("predicates",),
    "remove": ("predicates",),
    "drop": ("columns",),
    "sort": ("by", "more_by"),
    "group_by": ("by",),
    "unique": ("subset",),
    "join": ("on", "left_on", "right_on"),
    "explode": ("columns", "more_columns"),
    "partition_by": ("by", "more_by"),
    "drop_nulls": ("subset",),
    "drop_nans": ("subset",),
    "unnest": ("columns", "more_columns"),
    "n_unique": ("subset",),
    "top_k": ("by",),
    "bottom_k": ("by",),
    "unpivot": ("on", "index"),
    "pivot": ("on", "index", "values"),
    "cast": ("dtypes",),
}
_OF_EXPRESSIONS = {
    "over": ("partition_by", "more_exprs", "order_by"),
    "sort_by": ("by", "more_by"),
    "filter": ("predicates",),
    "top_k_by": ("by",),
    "bottom_k_by": ("by",),
    "exclude": ("columns", "more_columns"),
}
_FUNCTIONS = (
    *("struct", "coalesce", "concat_list", "concat_str", "concat_arr", "all_horizontal", "any_horizontal", "sum_horizontal", "min_horizontal"),
    *("max_horizontal", "mean_horizontal", "arg_sort_by", "first", "last", "max", "min", "sum", "mean", "count", "n_unique", "exclude", "field", "when"),
    *("all", "any", "head", "tail", "implode", "format", "select"),
)
EXCEPT = {
    "lakekit/columns.py": "the one place that knows which names are patterns",
    "lakekit/dml/": "what callers say is expanded against the table's columns there, name by name",
    "lakekit/read/aggregate_pushdown.py": "likewise",
    "lakekit/spark/dml.py": "the internal columns of a merge, whose names begin with a control character",
    "lakekit/spark/pipeline/": "an example with schemas of its own",
}
"""Beginnings of paths within the checkout where text may be handed over, and why."""
PLACES: dict[str, tuple[str, ...] | None] = {
    **{f"{frame}.{method}": names for frame in _FRAMES for method, names in _OF_FRAMES.items()},
    **{f"{_EXPR}.{method}": names for method, names in _OF_EXPRESSIONS.items()},
    **{f"polars.{group}.GroupBy.agg": ("aggs",) for group in ("dataframe.group_by",)},
    "polars.lazyframe.group_by.LazyGroupBy.agg": ("aggs",),
    "polars.functions.col.Col.__call__": None,
    "polars.functions.col.Col.__getattr__": None,
    "polars.expr.struct.ExprStructNameSpace.field": ("name", "more_names"),
    "polars.expr.struct.ExprStructNameSpace.with_fields": ("exprs",),
    "polars.series.struct.StructNameSpace.field": ("name",),
    "polars.expr.whenthen.When.then": ("statement",),
    "polars.expr.whenthen.Then.otherwise": ("statement",),
    "polars.expr.whenthen.Then.when": ("predicates",),
    "polars.expr.whenthen.ChainedWhen.then": ("statement",),
    "polars.expr.whenthen.ChainedThen.otherwise": ("statement",),
    "polars.expr.whenthen.ChainedThen.when": ("predicates",),
}
"""Where Polars reads text as a pattern: by full name of function, the parameters; None: all of them."""


_NO_COLUMNS = ("separator", "f_string", "alias", "schema")
"""Parameters of functions that take texts which are no names of columns."""


def _function_name(fullname: str) -> bool:
    return fullname.startswith("polars.functions.") and fullname.rpartition(".")[2] in _FUNCTIONS


class ColumnNames(Plugin):
    """Looks at the arguments of the functions of Polars that read patterns."""

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return _checked(PLACES[fullname]) if fullname in PLACES else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        return _checked(None) if _function_name(fullname) else None


def _checked(parameters: tuple[str, ...] | None) -> Callable[[MethodContext | FunctionContext], Type]:
    def hook(ctx: MethodContext | FunctionContext) -> Type:
        if any(part in ctx.api.path.replace("\\", "/") for part in EXCEPT):
            return ctx.default_return_type
        for name, kinds, types, args in zip(ctx.callee_arg_names, ctx.arg_kinds, ctx.arg_types, ctx.args, strict=True):
            if name in _NO_COLUMNS if parameters is None else name not in parameters:
                continue
            for kind, of, expression in zip(kinds, types, args, strict=True):
                _check(ctx, kind, of, expression)
        return ctx.default_return_type

    return hook


def _check(ctx: MethodContext | FunctionContext, kind: ArgKind, of: Type, expression: Expression) -> None:
    for part, part_type in _parts(ctx, expression, of):
        if _may_be_any_text(part_type):
            ctx.api.fail(f"a text of type {part_type} is read as a pattern here; name the column by lakekit.columns", part, code=COLUMN_NAME)


def _parts(ctx: MethodContext | FunctionContext, expression: Expression, of: Type) -> list[tuple[Expression, Type]]:
    """The expressions whose types say what is handed over: the items of a list that is written out, the element of a generator."""
    match expression:
        case ListExpr(items=items) | TupleExpr(items=items) | SetExpr(items=items):
            return [part for item in items for part in _parts(ctx, item, ctx.api.get_expression_type(item))]
        case StarExpr(expr=inner):
            return _parts(ctx, inner, ctx.api.get_expression_type(inner))
        case ListComprehension(generator=inner) | (GeneratorExpr() as inner):
            return _parts(ctx, inner.left_expr, ctx.api.get_expression_type(inner.left_expr))
        case DictExpr(items=items):
            return [part for key, _ in items if key is not None for part in _parts(ctx, key, ctx.api.get_expression_type(key))]
    return [(expression, of)]


def _may_be_any_text(of: Type) -> bool:
    found = get_proper_type(of)
    match found:
        case UnionType(items=items) | TupleType(items=items):
            return any(map(_may_be_any_text, items))
        case LiteralType() | AnyType():
            return False
        case Instance(type=info, args=args, last_known_value=literal):
            if info.fullname == "builtins.str":
                return literal is None
            return any(map(_may_be_any_text, args)) if info.fullname.startswith(("builtins.", "typing.", "collections.", "_collections_abc.")) else False
    return False


def plugin(_version: str) -> type[Plugin]:
    """What mypy asks for."""
    return ColumnNames
