"""The dialect of lakekit's SQL: DuckDB's, with names in back quotes and tags behind an at sign.

    SELECT `order id`, "total" FROM shop.orders /*+ OPTIONS('scan.tag-name' = 'v1') */ WHERE day = '2024-03-31'
    SELECT snapshot_id FROM shop.orders$snapshots
    SELECT * FROM shop.orders@v1 AS o

Single quotes enclose a text, in which a quote is doubled and a backslash is a character as any other; double quotes and
back quotes enclose a name. sqlglot keeps a hint as a comment of the table before it; `t@v1` is `t` with a `Version`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlglot import Dialect, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokens import TokenType  # type: ignore[attr-defined] # sqlglot exports it without saying so


class LakekitDialect(DuckDB):
    """DuckDB's dialect with lakekit's additions."""

    class Tokenizer(DuckDB.Tokenizer):
        """DuckDB's tokens, and names in back quotes."""

        IDENTIFIERS = ['"', "`"]  # noqa: RUF012 - sqlglot declares it so
        HEX_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012 - the same
        COMMANDS = set()  # noqa: RUF012 - sqlglot would keep what follows CALL as one text, cut at any semicolon
        KEYWORDS = {key: kind for key, kind in DuckDB.Tokenizer.KEYWORDS.items() if key != "?::" and "%" not in key}  # noqa: RUF012 - a parameter, and ::

    class Parser(DuckDB.Parser):  # type: ignore[misc, valid-type] # a class that sqlglot's metaclass makes
        """DuckDB's grammar, and `t@tag`; nodes that a query's text is changed at know their place, `meta["span"]`.

        Those are outputs, tables with their tags, versions, types, functions, parameters, and operands of + - *.
        """

        def _parse_projections(self) -> Any:
            return self._parse_csv(self._parse_projection), None

        def _parse_projection(self) -> Any:
            return self._placed(self._curr, self._parse_expression())

        def _placed(self, first: Any, node: Any) -> Any:
            """Return a node that was read from a token on, with its place in the text."""
            if node is not None and first is not None and self._prev is not None:
                node.meta["span"] = (first.start, self._prev.end + 1)
            return node

        def _parse_table_part(self, *args: Any, **options: Any) -> Any:
            return self._placed(self._curr, super()._parse_table_part(*args, **options))

        def _parse_version(self) -> Any:
            return self._placed(self._curr, super()._parse_version())

        def _parse_table(self, *args: Any, **options: Any) -> Any:
            """Return a table, of which `AT (VERSION => 1)` and `AT (TIMESTAMP => …)` are a version as any other."""
            table = super()._parse_table(*args, **options)
            when = table.args.get("when") if isinstance(table, exp.Table) else None
            if when is not None and when.name == "AT" and when.text("kind") in ("VERSION", "TIMESTAMP"):
                version = exp.Version(this=when.text("kind"), expression=when.expression, kind="AS OF")
                version.meta["span"] = when.meta["span"]
                table.set("when", None)
                table.set("version", version)
            return table

        def _parse_historical_data(self) -> Any:
            return self._placed(self._curr, super()._parse_historical_data())

        def _parse_function_call(self, *args: Any, **options: Any) -> Any:
            first, node = self._curr, super()._parse_function_call(*args, **options)
            return self._placed(first, node) if isinstance(node, exp.Func) else node

        def _parse_types(self, *args: Any, **options: Any) -> Any:
            first, node = self._curr, super()._parse_types(*args, **options)
            return self._placed(first, node) if isinstance(node, exp.DataType) else node

        def _parse_unnest(self, *args: Any, **options: Any) -> Any:
            return self._placed(self._curr, super()._parse_unnest(*args, **options))

        def _parse_placeholder(self) -> Any:
            return self._placed(self._curr, super()._parse_placeholder())

        def _parse_factor(self, *args: Any, **options: Any) -> Any:
            before, first = self._prev, self._curr
            node = super()._parse_factor(*args, **options)
            return self._placed(first, node) if _is_one(before, _TERMS) or _is_one(self._curr, _TERMS) else node

        def _parse_factor_operand(self) -> Any:
            before, first = self._prev, self._curr
            node = super()._parse_factor_operand()
            return self._placed(first, node) if _is_one(before, _FACTORS) or _is_one(self._curr, _FACTORS) else node

        def _parse_in(self, this: Any, alias: bool = False) -> Any:
            """Return IN; sqlglot reads `IN [1, NULL]`, whose NULL equals nothing, as `IN (1, NULL)`."""
            if self._curr is not None and self._curr.token_type == TokenType.L_BRACKET:
                return self.expression(exp.In(this=this, field=self._parse_bracket()))
            return super()._parse_in(this, alias)

        def _parse_table_parts(self, *args: Any, **options: Any) -> Any:
            first = self._curr
            table = super()._parse_table_parts(*args, **options)
            if not isinstance(table, exp.Table):
                return table
            end = _end_of(table.parts[-1]) if table.parts else None
            at = self._curr
            is_tag = (
                at is not None
                and at.token_type == TokenType.PARAMETER
                and at.text == "@"
                and at.start == self._prev.end + 1
            )
            if is_tag:
                self._advance()
                tag = self._parse_id_var(any_token=True)
                if tag is None:
                    self.raise_error("Expected the name of a tag")
                literal = exp.Literal.string(tag.name)
                table.set("version", exp.Version(this="VERSION", expression=literal, kind="AS OF"))
                end = self._prev.end + 1
            if end is not None:
                table.meta["span"] = (first.start, end)
            return table


class ParameterDialect(LakekitDialect):
    """Lakekit's dialect for texts without a dollar quote: sqlglot takes `$1,$` of `$1,$2` for one that begins."""

    class Tokenizer(LakekitDialect.Tokenizer):
        """Lakekit's tokens, in which a dollar is the sign of a parameter, or a part of a name."""

        HEREDOC_STRINGS = []  # noqa: RUF012 - sqlglot declares it so


def _forget_templates(tokenizer: Any) -> None:
    """Take the comments of Jinja's templates out of a class of sqlglot, which adds them to those of each dialect."""
    tokenizer._COMMENTS = {key: end for key, end in tokenizer._COMMENTS.items() if "{" not in key}  # noqa: SLF001 - no public name


_forget_templates(LakekitDialect.Tokenizer)
_forget_templates(ParameterDialect.Tokenizer)
_TERMS = frozenset({TokenType.PLUS, TokenType.DASH})
_FACTORS = frozenset({TokenType.STAR})


def _is_one(token: Any, kinds: frozenset[TokenType]) -> bool:
    return token is not None and token.token_type in kinds


def _end_of(part: Any) -> int | None:
    """Return where a part of a table's name ends, if it is known."""
    if "span" in part.meta:
        return int(part.meta["span"][1])
    return int(part.meta["end"]) + 1 if "end" in part.meta else None


@cache
def spark_statement_dialect() -> Any:
    """Return Spark's tokens, for statements that lakekit reads itself; made when a text is first said to be Spark's.

    A hint is a comment as in `LakekitDialect`.
    """
    spark: Any = type(Dialect.get_or_raise("spark"))

    class SparkStatementDialect(spark):  # type: ignore[misc] # a class made when this is called
        """Spark's tokens, those of CALL and SHOW among them."""

        class Tokenizer(spark.Tokenizer):  # type: ignore[misc] # the same
            """A word makes no text of what follows it."""

            COMMANDS: set[Any] = set()  # noqa: RUF012 - sqlglot declares it so
            KEYWORDS = {key: kind for key, kind in spark.Tokenizer.KEYWORDS.items() if key not in ("/*+", "?::")}  # noqa: RUF012 - the same

    return SparkStatementDialect()
