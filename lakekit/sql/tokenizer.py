"""A cursor over the tokens of a statement, which sqlglot makes; statements of a text; hints between tokens.

    TokenStream.split("USE shop; CALL sys.compact(table => 'a''b')")        two streams, over the same text
    CALL sys.compact(table => 'a''b')   ->   CALL · sys · . · compact · ( · table · => · 'a''b' · )

In lakekit's dialect a text stands in single quotes, in which a quote is doubled and a backslash is a character as any
other; double quotes and back quotes enclose a name. In Spark's, double quotes enclose a text too, and a backslash
escapes. A hint is `/*+ … */` between two tokens: what takes none refuses it.

What reads a statement raises errors with line, column and caret. What a statement then asks of a catalog or a table
knows names alone: `dispatch.add_position` points at the name in the statement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot.tokens import TokenType  # type: ignore[attr-defined] # sqlglot exports it without saying so

from lakekit.expressions.parser import SqlText, tokenize
from lakekit.options.redaction import piece
from lakekit.types import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakekit.errors import LakekitError, SqlError

PARAMETERS = "parameters"
"""The key of errors about parameters, whose value is the name of one, `:id`."""
_DIALECTS = {"lakekit": "lakekit", "spark": "spark-statement"}
_NO_BREAK = re.compile(r"[^\n]")
_TEXTS = frozenset({TokenType.STRING, TokenType.HEREDOC_STRING, TokenType.RAW_STRING})
_OTHER_LITERALS = frozenset({TokenType.BYTE_STRING, TokenType.HEX_STRING, TokenType.BIT_STRING})
_MAX_TOKEN_CHARS = 60
"""How much of a token an error shows."""
_PARAMETER_SIGNS = ("$", ":")
"""What stands before the number or name of a parameter."""
_MAX_KEPT = 10_000
"""How many tokens of sqlglot are kept for the parser."""
_QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "TABLE"})
"""Words that begin a query within a statement, which may have hints of its own."""


class Token(NamedTuple):
    """A token of a statement.

    `kind` is "word", "quoted", "text", "number", "literal" or "sign"; `text` the token as written, from `start` to
    `end`, `value` a name or a text without its quotes.
    """

    kind: str
    text: str
    start: int
    end: int
    value: str


@dataclass(frozen=True, slots=True)
class Hint:
    """A hint in a statement: its text within `/*+` and `*/`, where that starts, and the number of tokens before it."""

    text: str
    start: int
    index: int


@dataclass(slots=True)
class TokenStream:
    """A statement that is read from left to right; `text` is the text that it is a part of."""

    source: SqlText
    first: int
    """Where the statement begins in the text."""
    stop: int
    """Where it ends: at a semicolon, or at the end of the text."""
    _tokens: list[Token]
    hints: list[Hint] = field(default_factory=list)
    """The hints that nothing has taken yet."""
    position: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The values of parameters, by number or name."""
    sqlglot_tokens: Sequence[Any] = ()
    """The tokens that sqlglot found, of a statement that is alone in its text."""

    @staticmethod
    def of(text: str, dialect: str = "lakekit", *, name: str = "statement") -> TokenStream:
        """Return the tokens of one statement, without a semicolon at its end.

        Raises: `SqlError` for no statement, for two, and for an open quote.
        """
        streams = TokenStream.split(text, dialect, name=name)
        if len(streams) > 1:
            raise streams[0].source.error(streams[0].stop, "one statement at a time")
        return streams[0]

    @staticmethod
    def split(
        text: str | SqlText,
        dialect: str = "lakekit",
        *,
        name: str = "statement",
        parameters: Mapping[str, Any] | None = None,
    ) -> list[TokenStream]:
        """Return the statements of a text, which semicolons separate. Raises `SqlError`."""
        source = text if isinstance(text, SqlText) else SqlText(text, name)
        source, text = replace(source, dialect=_DIALECTS[dialect]), source.text
        streams: list[TokenStream] = []
        tokens: list[Token] = []
        first = 0
        found = tokenize(source)
        for token in _tokens(source, found):  # scalar: one a word of a statement
            if token.kind != "sign" or token.text != ";":
                tokens.append(token)
                continue
            if tokens:
                streams.append(_stream(source, first, token.start, tokens))
            tokens, first = [], token.end
        if tokens:
            streams.append(_stream(source, first, len(text), tokens))
        if not streams:
            raise source.error(len(text.rstrip()), "wants a statement, and it ends")
        for stream in streams:
            stream.parameters = parameters or {}
        if len(streams) == 1 and len(found) <= _MAX_KEPT:
            streams[0].sqlglot_tokens = [token for token in found if token.end < streams[0].stop]
        return streams

    @property
    def text(self) -> str:
        """The text that offsets are of."""
        return self.source.text

    @property
    def dialect(self) -> str:
        """The dialect of the text, "lakekit" or "spark"."""
        return "spark" if self.source.dialect.startswith("spark") else "lakekit"

    @property
    def count(self) -> int:
        """The number of the statement's tokens."""
        return len(self._tokens)

    @property
    def statement_text(self) -> str:
        """The statement, as it stands in the text."""
        return self.text[self.first : self.stop].strip()

    @property
    def next(self) -> Token | None:
        """The token that comes; None at the end."""
        return self._tokens[self.position] if self.position < len(self._tokens) else None

    @property
    def coming(self) -> Sequence[Token]:
        """All tokens that come."""
        return self._tokens[self.position :]

    @property
    def before(self) -> str:
        """The token that was taken last, as it stands there."""
        return self._tokens[self.position - 1].text

    @property
    def remaining_text(self) -> str:
        """All that comes, as it stands in the statement, hints and remarks at its end among it."""
        return "" if self.next is None else self.text[self.next.start : self.stop].rstrip()

    def query_source(self, text: str, name: str = "query") -> SqlText:
        """Return a text of the statement as a query in its place, so that errors have the places of the caller's text.

        It has the tokens that were found where it is all that comes.
        """
        own = self.remaining_text
        if self.sqlglot_tokens and self.position == 0 and text == own:
            whole = self.text[: self.stop].rstrip()
            return replace(self.source, text=whole, name=name, dialect=self.dialect, tokens=self.sqlglot_tokens)
        if self.next is not None and len(text) == len(own):
            start = self.next.start
        elif self.text.count(text) == 1:
            start = self.text.index(text)
        else:
            return SqlText(text, name, self.dialect)
        return self.masked(start, text, self.source.name)

    def masked(self, start: int, text: str, name: str, *words: tuple[int, str]) -> SqlText:
        """Return what stands at an offset, in its place, with blanks before it but for some words at their offsets.

        Errors show the caller's text. A word is as long at most as what it stands for.
        """
        blanks = _NO_BREAK.sub(" ", self.text[:start])
        for at, word in words:
            blanks = f"{blanks[:at]}{word}{blanks[at + len(word) :]}"
        source = self.source if self.source.shown_text is not None else replace(self.source, shown_text=self.text)
        return replace(source, text=blanks + text, name=name, dialect=self.dialect)

    def slice(self, start: int, stop: int) -> str:
        """Return the text from one token to before another, with the hints and remarks between and behind them."""
        first = self._tokens[start].start if start < self.count else self.stop
        last = self._tokens[stop].start if stop < self.count else self.stop
        return self.text[first:last]

    @property
    def first_position(self) -> int:
        """Where the first token of the statement begins in the text."""
        return self._tokens[0].start if self._tokens else self.first

    def position_of_time(self) -> int | None:
        """Return where the literal behind AS OF begins; None where there is none."""
        words = [token.text.upper() for token in self._tokens]
        at = next((at for at, pair in enumerate(pairwise(words)) if pair == ("AS", "OF")), len(words))
        return next((token.start for token in self._tokens[at:] if token.kind in ("text", "number")), None)

    def position_of(self, name: str, *, may_qualify: bool = False, is_part: bool = False) -> int | None:
        """Return where the first token begins that is a name, a text or a number, in any case; None where none is.

        Tokens of hints come last. `may_qualify`: also a name with a point behind it, as a database has. `is_part`: also
        where the name is a word of a text or of a name with a dollar, `t$branch_name`.
        """
        hints = [_hint_tokens(self.source, hint) for hint in _hints(self.text, self._tokens, self.first, self.stop)]
        tokens = [*self._tokens, *(token for hint in hints for token in hint)]
        following = [*(token.text for token in tokens[1:]), ""]
        wanted = name.lower()
        for token, behind in zip(tokens, following, strict=True):  # scalar: one a word of the statement
            if token.kind not in ("word", "quoted", "text", "number"):
                continue
            if token.value.lower() == wanted and (may_qualify or behind != "."):
                return token.start
            word = re.search(rf"(?<![^\W_]){re.escape(wanted)}(?!\w)", token.text.lower()) if is_part else None
            if word is not None and (token.kind == "text" or "$" in token.text):
                return token.start + word.start()
        return None

    def is_next(self, *expected: str) -> bool:
        """Return whether these words come next, in any case."""
        coming = self._tokens[self.position : self.position + len(expected)]
        return len(coming) == len(expected) and all(
            token.kind in ("word", "sign") and token.text.upper() == wanted.upper()
            for token, wanted in zip(coming, expected, strict=True)
        )

    def end_of(self, count: int) -> int:
        """Return where in the text the last of the `count` tokens ends that come."""
        return self._tokens[self.position + count - 1].end

    def is_after(self, text: str) -> bool:
        """Return whether that word comes after the next token."""
        return self.position + 1 < len(self._tokens) and self._tokens[self.position + 1].text == text

    def accept(self, *expected: str) -> bool:
        """Take these words, if they come next."""
        if not self.is_next(*expected):
            return False
        self.position += len(expected)
        return True

    def accept_any(self, *words: str) -> str | None:
        """Take one of these words, if it comes next, and return it."""
        return next((word for word in words if self.accept(word)), None)

    def expect(self, *expected: str) -> None:
        """Take these words. Raises `SqlError` where others come."""
        if not self.accept(*expected):
            raise self.wrong(" ".join(expected))

    def take(self, what: str, *kinds: str) -> Token:
        """Take a token of such a kind. Raises `SqlError`."""
        token = self.next
        is_parameter = token is not None and bool(self.parameters) and token.text in _PARAMETER_SIGNS
        if is_parameter and ("text" in kinds or "number" in kinds):
            return self._take_parameter(what)
        if token is None or token.kind not in kinds:
            raise self.wrong(what)
        self.position += 1
        return token

    def _take_parameter(self, what: str) -> Token:
        """Take a parameter as the literal that its value is: a text, a number, TRUE, FALSE or NULL."""
        sign = self._tokens[self.position]
        named = self._tokens[self.position + 1] if self.position + 1 < len(self._tokens) else None
        if named is None or named.start != sign.end or named.value not in self.parameters:
            raise self.wrong(what)
        self.position += 2
        value = self.parameters[named.value]
        is_word = value is None or isinstance(value, bool)
        is_number = isinstance(value, (int, float, Decimal))
        text = {None: "NULL", True: "TRUE", False: "FALSE"}[value] if is_word else str(value)
        return Token("word" if is_word else "number" if is_number else "text", text, sign.start, named.end, text)

    def name(self, what: str = "a name") -> str:
        """Take a name."""
        return self.take(what, "word", "quoted").value

    def names(self, what: str = "a name") -> list[str]:
        """Take a name of several parts, with points between them."""
        parts = [self.name(what)]
        while self.accept("."):
            parts.append(self.name(what))
        return parts

    def string(self, what: str = "a text in single quotes") -> str:
        """Take a text literal."""
        return self.take(what, "text").value

    def inside(self) -> str:
        """Take the text between this parenthesis and the matching one.

        Raises: `SqlError` where that is missing.
        """
        first, depth = self.position, 0
        for index in range(first, len(self._tokens)):  # scalar: one a word of a statement
            token = self._tokens[index]
            depth += (token.kind == "sign") * ({"(": 1, ")": -1}.get(token.text, 0))
            if not depth:
                self.position = index + 1
                return self.text[self._tokens[first].end : token.start]
        self.position = len(self._tokens)
        raise self.wrong("the parenthesis that closes the one opened before")

    def call(self) -> Token:
        """Take a name and its arguments in parentheses, if there are any, as one token."""
        first = self.take("a name", "word")
        if self.is_next("("):
            self.inside()
        end = self._tokens[self.position - 1].end
        return Token("call", self.text[first.start : end], first.start, end, self.text[first.start : end])

    def skip(self, offset: int) -> None:
        """Skip to the first token that begins at that offset of the text, or after it."""
        while self.next is not None and self.next.start < offset:
            self.position += 1

    def words_with_dollar(self) -> list[Token]:
        """Return the names that have a dollar and stand without quotes, as `t$files`."""
        return [token for token in self._tokens if token.kind == "word" and "$" in token.text]

    def fork(self, count: int = 0) -> TokenStream:
        """Return another cursor over these tokens, `count` further, to look ahead with."""
        return TokenStream(self.source, self.first, self.stop, self._tokens, position=self.position + count)

    # ---- hints -----------------------------------------------------------------------------------

    def take_hint(self) -> TokenStream | None:
        """Take the hint that stands here, as the stream of its tokens; None where none does."""
        here = [hint for hint in self.hints if hint.index == self.position]
        if not here:
            return None
        self.hints.remove(here[0])
        hint = here[0]
        return TokenStream(self.source, hint.start, hint.start + len(hint.text), _hint_tokens(self.source, hint))

    def refuse_hints(self, allowed: range = range(0)) -> None:
        """Raise `SqlError` for a hint that nothing has taken, unless it stands before one of the tokens `allowed`."""
        for hint in self.hints:
            if hint.index not in allowed:
                raise self.source.error(
                    hint.start - 3, "hints are OPTIONS('key' = 'value'), behind the name of a table; none is taken here"
                )

    def find_query(self) -> range:
        """Return the tokens of the query within the statement, before which its own hints stand.

        That is all behind SELECT, WITH, FROM or TABLE in INSERT, and what is in the parentheses of USING in MERGE; the
        hints of a query in a condition would be lost.
        """
        end, verb = len(self._tokens), self._tokens[0].text.upper()
        words = [token.text.upper() if token.kind in ("word", "sign") else "" for token in self._tokens]
        if verb == "INSERT":
            first = next((at for at in range(self.position, end) if words[at] in _QUERY_WORDS), end)
            return range(first + 1, end + 1)
        if verb == "MERGE" and "USING" in words[self.position : -1]:
            first = words.index("USING", self.position) + 1
            if words[first] == "(":
                probe = self.fork(first - self.position)
                probe.inside()
                return range(first + 1, probe.position)
        return range(0)

    def end(self) -> None:
        """Raise `SqlError` where another token follows, or a hint was not taken."""
        if self.next is not None:
            raise self.wrong("the end of the statement")
        self.refuse_hints()

    def error_at(self, index: int, problem: str) -> SqlError:
        """Return the error about the token of an index."""
        return self.source.error(self._tokens[index].start if index < self.count else self.stop, problem)

    @property
    def placeholders(self) -> list[Token]:
        """The parameters of the text."""
        return find_placeholders(self.text, self.dialect)

    def located(self, index: int, wrong: LakekitError) -> LakekitError:
        """Return an error with the place of the token of an index in its message."""
        wrong.args = self.error_at(index, wrong.message).args
        return wrong

    def wrong(self, wanted: str) -> SqlError:
        """Return the error for what comes where `wanted` should."""
        token = self.next
        if token is None:
            end = self.first + len(self.text[self.first : self.stop].rstrip())
            return self.source.error(end, f"wants {wanted}, and it ends")
        found = piece(self.text, token.start, min(token.end, token.start + _MAX_TOKEN_CHARS))
        return self.source.error(token.start, f"wants {wanted}, and there is {found!r}")


# ---- tokens of sqlglot ---------------------------------------------------------------------------


def _stream(source: SqlText, first: int, stop: int, tokens: list[Token]) -> TokenStream:
    return TokenStream(source, first, stop, tokens, list(_hints(source.text, tokens, first, stop)))


def _tokens(source: SqlText, tokens: Sequence[Any] | None = None) -> Iterator[Token]:
    """Yield the tokens of a text: a keyword of several words as several, and what stands together as one."""
    before: Token | None = None
    for found in tokenize(source) if tokens is None else tokens:  # scalar: one a word of a statement
        start, end = found.start, found.end + 1
        if before is not None and start < before.end:
            continue  # 1D in Spark's dialect: a number, and the cast that its letter stands for
        text = source.text[start:end]
        kind = _kind(found.token_type, text)
        if kind == "word" and not text.isidentifier() and len(text.split()) > 1:
            for word in _words(text, start):
                if before is not None:
                    yield before
                before = word
            continue
        token = Token(kind, text, start, end, found.text if kind in ("text", "quoted") else text)
        joined = None if before is None else _joined(before, token, source.text)
        if joined is None and before is not None:
            yield before
        before = joined or token
    if before is not None:
        yield before


def _kind(kind: Any, text: str) -> str:
    if kind in _TEXTS:
        return "text"
    if kind is TokenType.IDENTIFIER:
        return "quoted"
    if kind is TokenType.NUMBER:
        return "number"
    if kind in _OTHER_LITERALS:
        return "literal"
    return "word" if text[0].isalpha() or text[0] == "_" else "sign"


def _words(text: str, start: int) -> Iterator[Token]:
    """Yield the words of a keyword such as PRIMARY KEY."""
    at = 0
    for word in text.split():
        at = text.index(word, at)
        yield Token("word", word, start + at, start + at + len(word), word)
        at += len(word)


def _joined(before: Token, token: Token, text: str) -> Token | None:
    """Return two tokens as one where nothing is between them and they are one word; else None.

    In Spark's dialect these are the parts of `t$files`, and a text with a doubled quote.
    """
    if before.end != token.start:
        return None
    if before.kind == token.kind == "text" and before.text[0] == token.text[0] and token.text[0] in "'\"":
        value = before.value + token.text[0] + token.value
        return Token("text", text[before.start : token.end], before.start, token.end, value)
    is_dollar = token.text == "$" or (before.kind == "word" and before.text.endswith("$") and token.kind == "word")
    if before.kind == "word" and is_dollar:
        written = text[before.start : token.end]
        return Token("word", written, before.start, token.end, written)
    return None


def _shifted(token: Token, by: int) -> Token:
    return Token(token.kind, token.text, token.start + by, token.end + by, token.value)


def _hints(text: str, tokens: Sequence[Token], first: int, stop: int) -> Iterator[Hint]:
    """Yield the hints between tokens, where there are only blanks and comments."""
    starts = [first, *(token.end for token in tokens)]
    ends = [*(token.start for token in tokens), stop]
    for index, (at, end) in enumerate(zip(starts, ends, strict=True)):
        if end - at > len("/*+*/") - 1 and "/*+" in text[at:end]:
            for comment in _comments(text, at, end):
                if text.startswith("/*+", comment[0]):
                    yield Hint(text[comment[0] + 3 : comment[1] - 2], comment[0] + 3, index)


def _hint_tokens(source: SqlText, hint: Hint) -> list[Token]:
    """Return the tokens of a hint, with their places in the statement's text."""
    own = SqlText(hint.text, f"hint of {source.name}", source.dialect)
    return [_shifted(token, hint.start) for token in _tokens(own)]


def _comments(text: str, at: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield where the comments of a gap between two tokens begin and end; those in comments are a part of them."""
    while at < stop:
        end = at + 1
        if text.startswith("--", at):
            end = text.find("\n", at, stop)
            end = stop if end < 0 else end
        elif text.startswith("/*", at):
            depth, end = 1, at + 2
            while depth and end < stop:
                step = {"/*": 1, "*/": -1}.get(text[end : end + 2], 0)
                depth += step
                end += 2 if step else 1
            yield at, end
        at = end


# ---- texts ---------------------------------------------------------------------------------------


def find_placeholders(text: str, dialect: str) -> list[Token]:
    """Return the parameters of a text: `?`, whose value is "?", and `$1`, `$name`, `:name` with what they name.

    A colon that stands directly behind a name or a literal belongs to a struct, a slice or a path.
    """
    tokens = list(_tokens(SqlText(text, "statement", _DIALECTS[dialect])))
    marks = []
    for index, sign in enumerate(tokens):  # scalar: one a word of the text
        if sign.kind != "sign":
            continue
        if sign.text == "?":
            marks.append(sign)
        named = tokens[index + 1] if index + 1 < len(tokens) else sign
        before = tokens[index - 1] if index else sign
        is_apart = before.end < sign.start or (before.kind == "sign" and before.text not in (")", "]"))
        is_sign = sign.text == "$" or (sign.text == ":" and is_apart)
        if is_sign and sign.end == named.start and named.kind in ("word", "number"):
            marks.append(Token("parameter", sign.text + named.text, sign.start, named.end, named.value))
    return marks


def quote_dollars(text: str) -> str:
    """Return Spark's text with back quotes around names that have a dollar, `t$files`, which Spark's grammar splits."""
    pieces, at = [], 0
    for token in _tokens(SqlText(text, "statement", _DIALECTS["spark"])):  # scalar: one a word of the text
        if token.kind == "word" and "$" in token.text:
            pieces += [text[at : token.start], quote_identifier(token.text)]
            at = token.end
    return "".join([*pieces, text[at:]])


def single_statement(text: str) -> str:
    """Return a query, in which `TABLE t` is `SELECT * FROM t`."""
    tokens = TokenStream.of(text, "spark")
    return f"SELECT * FROM {tokens.remaining_text}" if tokens.accept("TABLE") else text  # noqa: S608 - a part of what is parsed next
