"""A statement's words, one after the other: what DDL and CALL are made of, and where they are wrong.

    CALL sys.compact(table => 'a''b')   ->   CALL · sys · . · compact · ( · table · => · 'a''b' · )

Names may stand in backquotes, texts in single or double quotes with a quote doubled or behind a backslash, as Spark has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial

from lakekit.errors import InvalidOption
from lakekit.sql.excerpt import excerpt, piece

_WORD = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)|(?P<text>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")|(?P<quoted>`(?:[^`]|``)*`)"""
    r"""|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[LlSsYy]?\b)|(?P<word>[^\W\d][\w$]*)|(?P<sign>=>|<=|>=|<>|!=|.)""",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}
_EXCERPT_LENGTH = 60
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair: what decoding with `surrogateescape` leaves of bytes that are no UTF-8."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a statement: `kind` "word", "quoted", "text", "number" or "sign"; `said` as it stands there, from `start` to `end`."""

    kind: str
    said: str
    start: int
    end: int

    @property
    def value(self) -> str:
        """A name or a text without its quotes."""
        if self.kind == "quoted":
            return self.said[1:-1].replace("``", "`")
        if self.kind == "text":
            mark = self.said[0]
            return re.sub(rf"{mark}{mark}|\\(.)", lambda found: mark if found[1] is None else _unescape(found[1]), self.said[1:-1], flags=re.DOTALL)
        return self.said


def _escape_doubled_quote(mark: str, found: re.Match[str]) -> str:
    """A doubled quote behind a backslash; what is behind one already as it is."""
    return found[1] or f"\\{mark}"


def _unescape(sign: str) -> str:
    return "\\" + sign if sign in "%_" else _ESCAPES.get(sign, sign)


@dataclass(slots=True)
class TokenStream:
    """A statement that is read from left to right."""

    text: str
    at: int = 0
    _words: list[Token] = field(default_factory=list)

    @staticmethod
    def of(text: str) -> TokenStream:
        """The words of one statement, a semicolon at its end left out. Raises `InvalidOption` for no statement, for two, and for an open quote."""
        if not isinstance(text, str):
            msg = f"a statement of SQL is a text, not {type(text).__name__}"
            raise TypeError(msg)
        if (half := _SURROGATE.search(text)) is not None:
            msg = f"a statement of SQL is a text, and {half[0]!a} at character {half.start() + 1} is half of one: Polars would write another in its place"
            raise InvalidOption(msg, key="sql")
        words = [Token(str(one.lastgroup), one[0], one.start(), one.end()) for one in _WORD.finditer(text) if one.lastgroup != "blank"]
        end = len(text)
        while words and words[-1].said == ";":
            end = words.pop().start
        found = TokenStream(text[:end], 0, words)
        for place, word in enumerate(words):  # scalar: one a word of a statement
            found.at = place
            if word.said == ";":
                raise found.wrong("one statement at a time")
            if word.said in ("'", '"', "`"):
                raise found.wrong("the end of the text that begins here")
        found.at = 0
        if not words:
            raise found.wrong("a statement")
        return found

    @property
    def next(self) -> Token | None:
        """The word that comes; None at the end."""
        return self._words[self.at] if self.at < len(self._words) else None

    @property
    def before(self) -> str:
        """The word that was taken last, as it stands there."""
        return self._words[self.at - 1].said

    @property
    def rest(self) -> str:
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
            mark = word.said[0]
            pieces += [
                self.text[at : word.start],
                mark,
                re.sub(rf"(\\.)|{mark}{mark}", partial(_escape_doubled_quote, mark), word.said[1:-1], flags=re.DOTALL),
                mark,
            ]
            at = word.end
        return "".join([*pieces, self.text[at:]])

    def is_next(self, *said: str) -> bool:
        """Whether these words come, in any case."""
        coming = self._words[self.at : self.at + len(said)]
        return len(coming) == len(said) and all(
            word.kind in ("word", "sign") and word.said.upper() == one.upper() for word, one in zip(coming, said, strict=True)
        )

    def end_of(self, count: int) -> int:
        """Where in the text the last of the `count` words ends that come."""
        return self._words[self.at + count - 1].end

    def is_after(self, said: str) -> bool:
        """Whether that word comes after the next one."""
        return self.at + 1 < len(self._words) and self._words[self.at + 1].said == said

    def accept(self, *said: str) -> bool:
        """Takes these words, if they come."""
        if not self.is_next(*said):
            return False
        self.at += len(said)
        return True

    def expect(self, *said: str) -> None:
        """Takes these words. Raises `InvalidOption` where others come."""
        if not self.accept(*said):
            raise self.wrong(" ".join(said))

    def take(self, what: str, *kinds: str) -> Token:
        """Takes a word of such a kind. Raises `InvalidOption`."""
        word = self.next
        if word is None or word.kind not in kinds:
            raise self.wrong(what)
        self.at += 1
        return word

    def name(self, what: str = "a name") -> str:
        """Takes a name."""
        return self.take(what, "word", "quoted").value

    def names(self, what: str = "a name") -> list[str]:
        """Takes a name of several parts, points between them."""
        found = [self.name(what)]
        while self.accept("."):
            found.append(self.name(what))
        return found

    def string(self, what: str = "a text in quotes") -> str:
        """Takes a text."""
        return self.take(what, "text").value

    def inside(self) -> str:
        """Takes what stands between this parenthesis and its own other one, as text. Raises `InvalidOption` where that is missing."""
        first, depth = self.at, 0
        for place in range(first, len(self._words)):  # scalar: one a word of a statement
            word = self._words[place]
            depth += (word.kind == "sign") * ({"(": 1, ")": -1}.get(word.said, 0))
            if not depth:
                self.at = place + 1
                return self.text[self._words[first].end : word.start]
        self.at = len(self._words)
        raise self.wrong("the parenthesis that closes the one opened before")

    def call(self) -> Token:
        """Takes a name and what stands in parentheses behind it, if anything does, as one word."""
        first = self.take("a name", "word")
        if self.is_next("("):
            self.inside()
        end = self._words[self.at - 1].end
        return Token("call", self.text[first.start : end], first.start, end)

    def skip(self, place: int) -> None:
        """Goes to the first word that begins at that place of the text, or after it."""
        while self.next is not None and self.next.start < place:
            self.at += 1

    def end(self) -> None:
        """Raises `InvalidOption` where more comes."""
        if self.next is not None:
            raise self.wrong("the end of the statement")

    def wrong(self, wanted: str) -> InvalidOption:
        """The error for what comes where `wanted` should."""
        word = self.next
        place = len(self.text.rstrip()) if word is None else word.start
        line = self.text.count("\n", 0, place) + 1
        found = "it ends" if word is None else f"there is {piece(self.text, word.start, min(word.end, word.start + _EXCERPT_LENGTH))!r}"
        column = place - self.text.rfind("\n", 0, place)
        told = f"line {line}, column {column} wants {wanted}, and {found}. In: {excerpt(self.text, place)}"
        return InvalidOption(f"no statement that lakekit understands: {told}", key="sql")


def statements(text: str) -> list[str]:
    """The statements of a text, which semicolons part. Raises `InvalidOption` where there is none."""
    if not isinstance(text, str):
        msg = f"statements of SQL are a text, not {type(text).__name__}"
        raise TypeError(msg)
    ends = [one.start() for one in _WORD.finditer(text) if one.lastgroup == "sign" and one[0] == ";"]
    pieces = [text[start:end] for start, end in zip([0, *(end + 1 for end in ends)], [*ends, len(text)], strict=True)]
    return [one for one in pieces if any(word.lastgroup != "blank" for word in _WORD.finditer(one))] or [text]


def strip_hints(text: str) -> tuple[str, dict[int, str]]:
    """A query in which names with a dollar are quoted and hints are blank; and the hints `/*+ … */` by where they begin."""
    pieces: list[str] = []
    hints: dict[int, str] = {}
    for one in _WORD.finditer(text):
        said = one[0]
        if one.lastgroup == "word" and "$" in said:
            said = quote_identifier(said)
        elif one.lastgroup == "blank" and "/*+" in said:
            start = said.index("/*+")
            hints[sum(map(len, pieces)) + start] = said[start + 3 : said.index("*/", start)]
            said = " " * len(said)
        pieces.append(said)
    return "".join(pieces), hints


def single_statement(text: str) -> str:
    """A query, in which `TABLE t` is `SELECT * FROM t`."""
    words = TokenStream.of(text)
    return f"SELECT * FROM {words.rest}" if words.accept("TABLE") else text  # noqa: S608 - a part of what is parsed next


def quote_identifier(name: str) -> str:
    """A name in backquotes."""
    return "`" + name.replace("`", "``") + "`"
