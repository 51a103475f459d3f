"""The tokens of a statement, for DDL, CALL and the position of errors; excerpts for messages.

    CALL sys.compact(table => 'a''b')   ->   CALL · sys · . · compact · ( · table · => · 'a''b' · )
    excerpt("CREATE CATALOG c WITH ('s3.secret-key'='abc' 'x'='y')", 46)
        ->   CREATE CATALOG c WITH ('s3.secret-key'='******' 'x'='******')

Names may stand in backquotes, texts in single or double quotes with a quote doubled or behind a backslash, as in Spark.
Excerpts are the text around a position, without secrets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial

from lakekit.errors import InvalidOption
from lakekit.options.redaction import excerpt, piece

# ---- tokenizer ------------------------------------------------------------


_WORD = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)|(?P<text>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")"""
    r"""|(?P<quoted>`(?:[^`]|``)*`)"""
    r"""|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[LlSsYy]?\b)"""
    r"""|(?P<word>[^\W\d][\w$]*)|(?P<sign>=>|<=|>=|<>|!=|.)""",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}
_EXCERPT_LENGTH = 60
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair: what decoding with `surrogateescape` leaves of bytes that are no UTF-8."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a statement.

    `kind` is "word", "quoted", "text", "number" or "sign"; `text` the token as written, from `start` to `end`.
    """

    kind: str
    text: str
    start: int
    end: int

    @property
    def value(self) -> str:
        """A name or a text without its quotes."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`")
        if self.kind == "text":
            mark = self.text[0]
            return re.sub(
                rf"{mark}{mark}|\\(.)",
                lambda found: mark if found[1] is None else _unescape(found[1]),
                self.text[1:-1],
                flags=re.DOTALL,
            )
        return self.text


def _escape_doubled_quote(mark: str, match: re.Match[str]) -> str:
    """Return a doubled quote as an escaped one; what is escaped already stays as it is."""
    return match[1] or f"\\{mark}"


def _unescape(sign: str) -> str:
    return "\\" + sign if sign in "%_" else _ESCAPES.get(sign, sign)


@dataclass(slots=True)
class TokenStream:
    """A statement that is read from left to right."""

    text: str
    position: int = 0
    _words: list[Token] = field(default_factory=list)

    @staticmethod
    def of(text: str) -> TokenStream:
        """Return the tokens of one statement, without a semicolon at its end.

        Raises: `InvalidOption` for no statement, for two, and for an open quote.
        """
        if not isinstance(text, str):
            msg = f"a statement of SQL is a text, not {type(text).__name__}"
            raise TypeError(msg)
        if (half := _SURROGATE.search(text)) is not None:
            msg = (
                f"a statement of SQL is a text, and {half[0]!a} at character {half.start() + 1} is half of one: "
                "Polars would write another in its place"
            )
            raise InvalidOption(msg, key="sql")
        tokens = [
            Token(str(match.lastgroup), match[0], match.start(), match.end())
            for match in _WORD.finditer(text)
            if match.lastgroup != "blank"
        ]
        end = len(text)
        while tokens and tokens[-1].text == ";":
            end = tokens.pop().start
        stream = TokenStream(text[:end], 0, tokens)
        for index, word in enumerate(tokens):  # scalar: one a word of a statement
            stream.position = index
            if word.text == ";":
                raise stream.wrong("one statement at a time")
            if word.text in ("'", '"', "`"):
                raise stream.wrong("the end of the text that begins here")
        stream.position = 0
        if not tokens:
            raise stream.wrong("a statement")
        return stream

    @property
    def next(self) -> Token | None:
        """The word that comes; None at the end."""
        return self._words[self.position] if self.position < len(self._words) else None

    @property
    def before(self) -> str:
        """The word that was taken last, as it stands there."""
        return self._words[self.position - 1].text

    @property
    def remaining_text(self) -> str:
        """All that comes, as it stands in the statement, hints and remarks at its end among it."""
        return "" if self.next is None else self.text[self.next.start :].rstrip()

    @property
    def texts(self) -> list[Token]:
        """All texts of the statement."""
        return [word for word in self._words if word.kind == "text"]

    @property
    def escaped(self) -> str:
        """The statement with a backslash before the quotes that were doubled, every word in its place."""
        pieces, at = [], 0
        for word in self.texts:
            mark = word.text[0]
            pieces += [
                self.text[at : word.start],
                mark,
                re.sub(rf"(\\.)|{mark}{mark}", partial(_escape_doubled_quote, mark), word.text[1:-1], flags=re.DOTALL),
                mark,
            ]
            at = word.end
        return "".join([*pieces, self.text[at:]])

    def is_next(self, *expected: str) -> bool:
        """Return whether these words come next, in any case."""
        coming = self._words[self.position : self.position + len(expected)]
        return len(coming) == len(expected) and all(
            word.kind in ("word", "sign") and word.text.upper() == wanted.upper()
            for word, wanted in zip(coming, expected, strict=True)
        )

    def end_of(self, count: int) -> int:
        """Where in the text the last of the `count` words ends that come."""
        return self._words[self.position + count - 1].end

    def is_after(self, text: str) -> bool:
        """Return whether that word comes after the next token."""
        return self.position + 1 < len(self._words) and self._words[self.position + 1].text == text

    def accept(self, *expected: str) -> bool:
        """Take these words, if they come next."""
        if not self.is_next(*expected):
            return False
        self.position += len(expected)
        return True

    def expect(self, *expected: str) -> None:
        """Take these words. Raises `InvalidOption` where others come."""
        if not self.accept(*expected):
            raise self.wrong(" ".join(expected))

    def take(self, what: str, *kinds: str) -> Token:
        """Take a token of such a kind. Raises `InvalidOption`."""
        word = self.next
        if word is None or word.kind not in kinds:
            raise self.wrong(what)
        self.position += 1
        return word

    def name(self, what: str = "a name") -> str:
        """Take a name."""
        return self.take(what, "word", "quoted").value

    def names(self, what: str = "a name") -> list[str]:
        """Take a name of several parts, with points between them."""
        parts = [self.name(what)]
        while self.accept("."):
            parts.append(self.name(what))
        return parts

    def string(self, what: str = "a text in quotes") -> str:
        """Take a text literal."""
        return self.take(what, "text").value

    def inside(self) -> str:
        """Take the text between this parenthesis and the matching one.

        Raises: `InvalidOption` where that is missing.
        """
        first, depth = self.position, 0
        for index in range(first, len(self._words)):  # scalar: one a word of a statement
            word = self._words[index]
            depth += (word.kind == "sign") * ({"(": 1, ")": -1}.get(word.text, 0))
            if not depth:
                self.position = index + 1
                return self.text[self._words[first].end : word.start]
        self.position = len(self._words)
        raise self.wrong("the parenthesis that closes the one opened before")

    def call(self) -> Token:
        """Take a name and its arguments in parentheses, if there are any, as one token."""
        first = self.take("a name", "word")
        if self.is_next("("):
            self.inside()
        end = self._words[self.position - 1].end
        return Token("call", self.text[first.start : end], first.start, end)

    def skip(self, offset: int) -> None:
        """Skip to the first token that begins at that offset of the text, or after it."""
        while self.next is not None and self.next.start < offset:
            self.position += 1

    def end(self) -> None:
        """Raise `InvalidOption` where another token follows."""
        if self.next is not None:
            raise self.wrong("the end of the statement")

    def wrong(self, wanted: str) -> InvalidOption:
        """Return the error for what comes where `wanted` should."""
        word = self.next
        offset = len(self.text.rstrip()) if word is None else word.start
        line = self.text.count("\n", 0, offset) + 1
        actual = (
            "it ends"
            if word is None
            else f"there is {piece(self.text, word.start, min(word.end, word.start + _EXCERPT_LENGTH))!r}"
        )
        column = offset - self.text.rfind("\n", 0, offset)
        message = f"line {line}, column {column} wants {wanted}, and {actual}. In: {excerpt(self.text, offset)}"
        return InvalidOption(f"no statement that lakekit understands: {message}", key="sql")


def statements(text: str) -> list[str]:
    """Return the statements of a text, separated by semicolons; the text itself where there is none."""
    if not isinstance(text, str):
        msg = f"statements of SQL are a text, not {type(text).__name__}"
        raise TypeError(msg)
    ends = [item.start() for item in _WORD.finditer(text) if item.lastgroup == "sign" and item[0] == ";"]
    pieces = [text[start:end] for start, end in zip([0, *(end + 1 for end in ends)], [*ends, len(text)], strict=True)]
    return [item for item in pieces if any(word.lastgroup != "blank" for word in _WORD.finditer(item))] or [text]


def strip_hints(text: str) -> tuple[str, dict[int, str]]:
    """Return a query with names with a dollar quoted and hints blanked; and the hints by their offset.

    Hints are `/*+ … */`.
    """
    pieces: list[str] = []
    hints: dict[int, str] = {}
    for match in _WORD.finditer(text):
        token_text = match[0]
        if match.lastgroup == "word" and "$" in token_text:
            token_text = quote_identifier(token_text)
        elif match.lastgroup == "blank" and "/*+" in token_text:
            start = token_text.index("/*+")
            hints[sum(map(len, pieces)) + start] = token_text[start + 3 : token_text.index("*/", start)]
            token_text = " " * len(token_text)
        pieces.append(token_text)
    return "".join(pieces), hints


def single_statement(text: str) -> str:
    """Return a query, in which `TABLE t` is `SELECT * FROM t`."""
    tokens = TokenStream.of(text)
    return f"SELECT * FROM {tokens.remaining_text}" if tokens.accept("TABLE") else text  # noqa: S608 - a part of what is parsed next


def quote_identifier(name: str) -> str:
    """Return a name in backquotes."""
    return "`" + name.replace("`", "``") + "`"
