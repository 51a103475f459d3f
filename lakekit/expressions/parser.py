"""SQL text as a tree of sqlglot, within bounds.

    parse_expression("v > 1 AND `day` = DATE '2024-03-31'", "where")   ->   exp.And(…)
    parse_statement("SELECT total FROM shop.orders")                   ->   exp.Select(…)

    where: line 1, column 8 has ')' too many
        v > 1 )
              ^

`dialect` is "lakekit" (`LakekitDialect`) or "spark". A text is parsed once; whoever needs its meaning walks the tree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined] # sqlglot exports it without saying so

from lakekit.errors import SqlError
from lakekit.expressions.dialect import LakekitDialect, ParameterDialect, spark_statement_dialect
from lakekit.options.redaction import pieces, without_secrets, without_secrets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Node = Any
    """A node of sqlglot's tree."""

    Token = Any
    """A token of sqlglot: `token_type`, `text` without its quotes, `start` and `end` (its last character)."""

MAX_CHARS = 1 << 22
"""The length of the longest text that is parsed."""
MAX_DEPTH = 32
"""The number of brackets that may be open at one place; sqlglot recurses some twenty calls deep for each."""
MAX_TOKENS = 1 << 18
"""The number of tokens of the longest text that a tree is made of, which takes some seconds; VALUES needs no tree."""
MAX_COMMENT_DEPTH = 32
"""The number of comments that may be open at one place."""
_LITERAL_TYPES = frozenset({TokenType.INTERVAL, *sqlglot.Parser.TYPE_TOKENS})
_AGO = re.compile(r"\bago\b", re.IGNORECASE)
_PART_FUNCTIONS = frozenset({"date_trunc", "datetrunc", "date_part", "datepart"})
_OTHER_FUNCTIONS = frozenset({"jaro_winkler_similarity", "jaro_similarity"})
"""Functions to which sqlglot gives another meaning than DuckDB."""
_NODES_PER_TOKEN, _MIN_NODES = 50, 10_000
"""The nodes that the parser may make for each token, and for any text."""
_NUMBER = re.compile(r"(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?")
_NO_BREAK = re.compile(r"[^\n]")
_MAX_LINE_CHARS = 120
"""The length of a line of the text in an error; a longer one is cut around the place."""
_OPEN = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_BRACKETS = frozenset("()[]{}")
_DOLLAR_QUOTE = re.compile(r"(?<![\w$])\$(?:[^\W\d]\w*)?\$")
_COMMENT_MARK = re.compile(r"/\*|\*/")
_BEFORE_COMMENT = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|--[^\n]*|/\*""")
_HALF = re.compile("[\ud800-\udfff]")
_CLOSE = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_COMMANDS = (exp.Command,)
_MISSING = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]*?(?P<kind>\w+)'>")
_EXPECTED = re.compile(r"Expect(?:ed|ing) (?P<what>\S+?)(?: after (?P<after>\S+))?", re.IGNORECASE)
_INSTEAD = re.compile(r"Expected (?P<what>[\w ]+?) but got")
_OPERATOR_WORDS = {
    "EQ": "=",
    "NEQ": "<>",
    "GT": ">",
    "GTE": ">=",
    "LT": "<",
    "LTE": "<=",
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "Mod": "%",
    "IntDiv": "//",
    "DPipe": "||",
    "NullSafeEQ": "IS NOT DISTINCT FROM",
    "Neg": "-",
    "NullSafeNEQ": "IS DISTINCT FROM",
    "Pow": "^",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "ILike": "ILIKE",
}
"""How errors call kinds of nodes whose names are not their words."""


@dataclass(frozen=True, slots=True)
class SqlText:
    """A text with what it is called in errors, as `where= for shop.orders`, and its dialect.

    `tokens`: those of the text, where it was tokenized already. `shown_text`: the caller's text, of which this is a
    part in its place, with blanks or other words before it; None: this is the caller's text. `shifts`: where the two go
    on alike behind a place that is longer in this one, as offsets in this and in the caller's text.
    """

    text: str
    name: str = "statement"
    dialect: str = "lakekit"
    tokens: Sequence[Token] | None = field(default=None, repr=False, compare=False)
    shown_text: str | None = field(default=None, repr=False, compare=False)
    shifts: Sequence[tuple[int, int]] = field(default=(), repr=False, compare=False)

    def error(self, position: int, problem: str) -> SqlError:
        """Return the error about the text at an offset, with line, column and caret, without secrets."""
        text = self.text if self.shown_text is None else self.shown_text
        own, shown = max((shift for shift in self.shifts if shift[0] <= position), default=(0, 0))
        position += shown - own
        position = min(max(position, 0), len(text))
        line_start = text.rfind("\n", 0, position) + 1
        line_end = text.find("\n", position)
        line_end = len(text) if line_end < 0 else line_end
        line, column = text.count("\n", 0, position) + 1, position - line_start + 1
        first = max(line_start, position - _MAX_LINE_CHARS // 2)
        before, after = pieces(text, first, position, max(position, min(line_end, first + _MAX_LINE_CHARS)))
        problem = without_secrets_of(text, problem)
        message = (
            f"{self.name}: line {line}, column {column}: {problem}\n    {before.expandtabs(1)}{after}\n"
            f"    {' ' * len(before)}^"
        )
        return SqlError(message, key="sql", line=line, column=column)


def parse_expression(text: str, name: str, *, dialect: str = "lakekit") -> Node:
    """Return the tree of one expression: a condition, or a value.

    Raises: `SqlError`, `TypeError` for what is no text.
    """
    return parse_text(SqlText(text, name, dialect))


def parse_text(source: SqlText) -> Node:
    """Return the tree of one expression. Raises the errors of `parse_expression`."""
    return _parse(source, _well_read_tokens(source), _parse_as_expression)


def parse_statement(text: str, name: str = "statement", *, dialect: str = "lakekit") -> Node:
    """Return the tree of one statement.

    Raises: `SqlError`, also for a statement that sqlglot keeps as text; `TypeError` for what is no text.
    """
    source = SqlText(text, name, dialect)
    return _parse(source, _well_read_tokens(source), _parse_as_statement)


def parse_query(source: SqlText) -> tuple[Node, list[Token], str]:
    """Return the tree of one statement, its tokens, and its text with blanks for comments, but for hints.

    Words that sqlglot reads in another sense than DuckDB are taken: the tree is not what is computed, DuckDB gets the
    text. sqlglot knows ORDER BY as one word, in which it takes no comment.

    Raises: the errors of `parse_statement`.
    """
    tokens, text = tokenize(source) if source.tokens is None else list(source.tokens), source.text
    if source.dialect == "lakekit" and ("--" in text or "/*" in text):
        blank = _blank_comments(text, tokens)
        tokens, text = (tokens if blank == text else tokenize(replace(source, text=blank))), blank
    return _parse(source, tokens, _parse_as_statement), tokens, text


def table_names(source: SqlText) -> list[tuple[str, str]]:
    """Return the tables that a query names, each as its database, or "" where it has none, and its own name.

    Names of WITH are among them, versions and system tables behind a name are not.

    Raises: the errors of `parse_statement`.
    """
    tree, _, _ = parse_query(source)
    names = [(node.text("db"), node.name.partition("$")[0].partition("@")[0]) for node in tree.find_all(exp.Table)]
    return [(database, name) for database, name in names if name]


def _blank_comments(text: str, tokens: Sequence[Token]) -> str:
    """Return a text of the same length with blanks in place of what is between its tokens, but for line breaks.

    Hints stay, with what is beside them.
    """
    pieces, at = [], 0
    for token in tokens:  # scalar: one a word of a statement
        gap = text[at : token.start]
        pieces += [gap if "/*+" in gap else _NO_BREAK.sub(" ", gap), text[token.start : token.end + 1]]
        at = token.end + 1
    return "".join([*pieces, text[at:] if "/*+" in text[at:] else _NO_BREAK.sub(" ", text[at:])])


def tokenize(source: SqlText) -> list[Token]:
    """Return the tokens of a text.

    Raises: `SqlError` for an open quote, half of a surrogate pair, a text beyond `MAX_CHARS`, more than `MAX_DEPTH`
    open brackets and `MAX_COMMENT_DEPTH` open comments; `TypeError` for what is no text.
    """
    text = source.text
    if not isinstance(text, str):
        msg = f"{source.name} is a text of SQL, not {type(text).__name__}"
        raise TypeError(msg)
    if len(text) > MAX_CHARS:
        raise source.error(MAX_CHARS, f"a text of {len(text):,} characters; at most {MAX_CHARS:,} are parsed")
    if (half := _HALF.search(text)) is not None:
        raise source.error(half.start(), f"{half[0]!a} is half of a character")
    if (nested := _too_nested_comment(text)) is not None:
        raise source.error(nested, f"more than {MAX_COMMENT_DEPTH} comments are open")
    has_dollar_quote = source.dialect != "lakekit" or "$" not in text or _DOLLAR_QUOTE.search(text) is not None
    try:
        tokens: list[Token] = _dialect_of(source.dialect if has_dollar_quote else "lakekit-parameters").tokenize(text)
    except TokenError:
        tokens = []
        failed = True
    else:
        failed = False
    if failed:  # outside of the block: sqlglot's error quotes the text
        raise source.error(_last_quote(text), "a quote, or a comment, that does not end")
    depth = 0
    for token in tokens:  # scalar: one a word of a statement
        kind, written = token.token_type, token.text
        if kind is TokenType.NUMBER and _NUMBER.fullmatch(written) is None:
            raise source.error(token.start, f"{written[:40]!r} is no number; write blanks around + and -")
        if kind is TokenType.HEREDOC_STRING and _DOLLAR_QUOTE.match(text, token.start) is None:
            raise source.error(token.start, "beside texts in dollar quotes a blank stands behind a parameter")
        if written in _BRACKETS:
            depth += (kind in _OPEN) - (kind in _CLOSE)
            if depth > MAX_DEPTH:
                raise source.error(token.start, f"more than {MAX_DEPTH} brackets are open")
    return tokens


@cache
def _dialect_of(name: str) -> Any:
    """Return a dialect of sqlglot.

    `spark-statement` has the tokens of a statement, in which no word makes a text of what follows it;
    `lakekit-parameters` those of a text without a dollar quote.
    """
    if name == "spark-statement":
        return spark_statement_dialect()
    if name == "lakekit-parameters":
        return ParameterDialect()
    return LakekitDialect() if name == "lakekit" else sqlglot.Dialect.get_or_raise(name)


def _too_nested_comment(text: str) -> int | None:
    """Return where one comment too many is opened: for each that is open, sqlglot reads the text again."""
    if text.count("/*") <= MAX_COMMENT_DEPTH:
        return None
    depth, at = 0, 0
    while (mark := (_COMMENT_MARK if depth else _BEFORE_COMMENT).search(text, at)) is not None:
        at = mark.end()
        depth += (mark[0] == "/*") - (mark[0] == "*/" and depth > 0)
        if depth > MAX_COMMENT_DEPTH:
            return mark.start()
    return None


def _last_quote(text: str) -> int:
    return max(text.rfind(mark) for mark in ("'", '"', "`", "/*", "$"))


def _parse(source: SqlText, tokens: list[Token], parse: Callable[[SqlText, Sequence[Token]], list[Node]]) -> Node:
    if not tokens:
        raise source.error(0, "the text is empty")
    if len(tokens) > MAX_TOKENS:
        problem = f"{len(tokens):,} words and signs in one text; at most {MAX_TOKENS:,} are read into a tree"
        raise source.error(tokens[MAX_TOKENS].start, problem)
    if source.dialect == "spark":
        tokens = _with_doubled_quotes(tokens, source.text)
    failure: tuple[int, str] | None = None
    trees: list[Node] = []
    try:
        trees = [tree for tree in parse(source, tokens) if tree is not None]
    except ParseError as wrong:
        failure = _failure(wrong, source)
    except RecursionError:
        failure = (0, "it is nested too deeply")
    except Exception:  # noqa: BLE001 - over a text that is no SQL sqlglot also raises AttributeError and the like
        failure = (0, "a part of it cannot be read")
    if failure is not None:  # outside of the block: sqlglot's error quotes the text
        raise source.error(*failure)
    if len(trees) != 1:
        at = next((token.end + 1 for token in tokens if token.token_type == TokenType.SEMICOLON), 0)
        raise source.error(at, f"{len(trees)} statements, where one is wanted")
    if isinstance(trees[0], _COMMANDS):
        raise source.error(tokens[0].start, f"{tokens[0].text[:40]!r} begins no statement that is parsed here")
    return trees[0]


def _well_read_tokens(source: SqlText) -> list[Token]:
    """Return the tokens of a text whose tree is computed. Raises `SqlError`, also for what sqlglot reads otherwise."""
    tokens = tokenize(source)
    if source.dialect == "lakekit":
        refuse_misread(source, tokens)
    return tokens


def refuse_misread(source: SqlText, tokens: Sequence[Token]) -> None:
    """Raise `SqlError` for words that sqlglot reads in another sense than DuckDB, and without a word."""
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):  # scalar: one a word of a statement
        is_text = token.token_type == TokenType.STRING
        if is_text and after.token_type == TokenType.DCOLON and before.token_type in _LITERAL_TYPES:
            kind = before.text.upper()
            raise source.error(
                after.start, f":: behind {kind} '…' is read as a part of it; write CAST({kind} '…' AS …)"
            )
        if is_text and before.token_type == TokenType.INTERVAL and _AGO.search(token.text):
            raise source.error(token.start, "an INTERVAL has no 'ago'; subtract it")
        if token.token_type != TokenType.L_PAREN or before.token_type not in (TokenType.VAR, TokenType.FUNCTION):
            continue
        name = before.text.lower()
        if name in _PART_FUNCTIONS and after.token_type != TokenType.STRING:
            raise source.error(after.start, f"{name} takes its unit as a text, as {name}('month', …)")
        if name in _OTHER_FUNCTIONS:
            raise source.error(before.start, f"{name} is not computed here")


def _with_doubled_quotes(tokens: list[Token], text: str) -> list[Token]:
    """Return the tokens with texts that touch each other as one: in Spark 4 a doubled quote is a quote."""
    joined: list[Token] = []
    for token in tokens:  # scalar: one a word of a statement
        before = joined[-1] if joined else None
        kinds = {token.token_type} | ({before.token_type} if before is not None else set())
        if before is None or kinds != {TokenType.STRING} or before.end + 1 != token.start:
            joined.append(token)
            continue
        written = f"{before.text}{text[token.start]}{token.text}"
        joined[-1] = type(token)(
            TokenType.STRING, written, line=token.line, col=token.col, start=before.start, end=token.end
        )
    return joined


def _max_nodes(tokens: Sequence[Token]) -> int:
    """Return how many nodes the parser may make of tokens: those that it makes and gives up count too.

    It tries several ways to read a JOIN without ON, each of which tries them for the JOINs behind it.
    """
    return _NODES_PER_TOKEN * len(tokens) + _MIN_NODES


def _parse_as_statement(source: SqlText, tokens: Sequence[Token]) -> list[Node]:
    parser = _dialect_of(source.dialect).parser(error_level=sqlglot.ErrorLevel.IMMEDIATE, max_nodes=_max_nodes(tokens))
    return list(parser.parse(list(tokens), source.text))


def _parse_as_expression(source: SqlText, tokens: Sequence[Token]) -> list[Node]:
    parser = _dialect_of(source.dialect).parser(error_level=sqlglot.ErrorLevel.IMMEDIATE, max_nodes=_max_nodes(tokens))
    return list(parser.parse_into(exp.Condition, list(tokens), source.text))


def _failure(wrong: ParseError, source: SqlText) -> tuple[int, str]:
    """Return the offset and the problem of a parser's error, in which sqlglot counts lines and columns from 1."""
    first = wrong.errors[0] if wrong.errors else {}
    line, column = first.get("line") or 1, first.get("col") or 1
    lines = source.text.split("\n")
    offset = sum(len(text) + 1 for text in lines[: line - 1]) + column - len(first.get("highlight") or " ")
    described = str(first.get("description") or "")
    return offset, without_secrets(_plain_problem(described, str(first.get("highlight") or "")))


def _plain_problem(described: str, at: str) -> str:
    """Return sqlglot's description of a failure at a token in plain words, without names of its classes."""
    if described.startswith("Maximum number of AST nodes"):
        return "it can be read in too many ways; write ON behind each JOIN"
    if (missing := _MISSING.match(described)) is not None:
        kind = missing["kind"]
        if kind == "Whens":
            return "a WHEN MATCHED or WHEN NOT MATCHED is missing"
        word = _OPERATOR_WORDS.get(kind, re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).upper())
        return "nothing stands between the brackets" if kind == "Paren" else f"an operand of {word} is missing"
    if (instead := _INSTEAD.match(described)) is not None:
        return f"{instead['what']} is expected here"
    if described.startswith("Invalid expression"):
        return f"{at[:40]!r} is not expected here"
    if (wanted := _EXPECTED.fullmatch(described)) is not None:
        after = f" after {wanted['after']}" if wanted["after"] else ""
        return f"{wanted['what']!r} is missing{after}"
    return described[:1].lower() + described[1:] or "a part of it cannot be read"
