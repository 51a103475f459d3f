"""The text of a query as its user typed it, with places that are replaced for DuckDB.

    text = QueryText.of(source, tokens, "SELECT count(*) FROM shop.orders       ")
    text.replace(21, 32, 'lakekit_0 AS "orders"')
    text.wrap(7, 15, "", ' AS "count(*)"')
    text.write()                              SELECT count(*) AS "count(*)" FROM lakekit_0 AS "orders"

What is not replaced stays as it is, but for comments, which become blanks, and names in back quotes, which get double
quotes. sqlglot writes other texts for a tree than its user meant; so its tree says where to replace, and no more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot.tokens import TokenType  # type: ignore[attr-defined] # sqlglot exports it without saying so

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakekit.expressions.parser import SqlText

    Token = Any
    """A token of sqlglot."""

_BLANKS = frozenset(" \t\r\n")
_AMBIGUOUS = frozenset(
    {
        TokenType.BYTE_STRING,
        TokenType.HEREDOC_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.RAW_STRING,
        TokenType.UNICODE_STRING,
        TokenType.UNKNOWN,
    }
)
"""Kinds of tokens with rules of their own for quotes and backslashes."""
_CLOSE, _OPEN, _REPLACE = 0, 1, 2
"""What comes first of edits at one place."""


@dataclass(frozen=True, slots=True)
class TextChange:
    """Text in the place of `start` to `end`, or between two characters.

    `region` is what it is about: for text before or behind a part of the query, that part; of two such about one part
    the lower `rank` is inside. `is_sum`: it is left out where sums of INT stay INT.
    """

    start: int
    end: int
    text: str
    kind: int
    region: tuple[int, int]
    rank: int = 0
    is_sum: bool = False

    def key(self) -> tuple[int, ...]:
        """Return where it stands among edits: of those at one place, what closes inner parts is first."""
        first, last = self.region
        inner = (-first, self.rank) if self.kind == _CLOSE else (-last, -self.rank)
        return (self.start, self.kind, *inner)


@dataclass(slots=True)
class QueryText:
    """A query, from `start` to `end` of a text, and the edits of it. Offsets are those of the whole text."""

    source: SqlText
    text: str
    """The same text with blanks for comments."""
    tokens: Sequence[Token]
    start: int
    end: int
    edits: list[TextChange] = field(default_factory=list)

    @staticmethod
    def of(source: SqlText, tokens: Sequence[Token], text: str) -> QueryText:
        """Return the text of a query without edits; what is around its tokens, and semicolons at its end, is no part.

        Raises: `SqlError` for a text with the character NUL, at which DuckDB ends a text.
        """
        own = list(tokens)
        while own and own[-1].token_type == TokenType.SEMICOLON:
            own.pop()
        if (at := source.text.find("\0")) >= 0:
            raise source.error(at, "the character NUL is no part of a query; write chr(0)")
        return QueryText(source, text, own, own[0].start if own else 0, own[-1].end + 1 if own else 0)

    def replace(self, start: int, end: int, text: str, *, is_sum: bool = False) -> None:
        """Put text in the place of what stands from `start` to `end`."""
        self.edits.append(TextChange(start, end, text, _REPLACE, (start, end), is_sum=is_sum))

    def wrap(self, start: int, end: int, before: str, after: str, *, rank: int = 0, is_sum: bool = False) -> None:
        """Put text before and behind what stands from `start` to `end`; of two such the lower rank is inside."""
        for at, kind, text in ((start, _OPEN, before), (end, _CLOSE, after)):
            if text:
                self.edits.append(TextChange(at, at, text, kind, (start, end), rank, is_sum))

    def rewrite(self, start: int, end: int, text: str) -> None:
        """Put text in the place of what stands from `start` to `end`, and of all edits within it."""
        self.edits = [
            edit
            for edit in self.edits
            if edit.region[0] < start or edit.region[1] > end or (edit.kind != _REPLACE and edit.region == (start, end))
        ]
        self.replace(start, end, text)

    def is_replaced(self, start: int, end: int) -> bool:
        """Return whether one edit is in the place of what stands from `start` to `end`, or of more."""
        return any(edit.kind == _REPLACE and edit.start <= start and end <= edit.end for edit in self.edits)

    @property
    def has_sums(self) -> bool:
        """Whether there are edits that sums of INT need."""
        return any(edit.is_sum for edit in self.edits)

    def find_ambiguous_token(self) -> Token | None:
        """Return a token that DuckDB may end at another character than sqlglot does; None where there is none."""
        return next((token for token in self.tokens if token.token_type in _AMBIGUOUS), None)

    def write(self, *, widens: bool = True) -> str:
        """Return the text with its edits; `widens`: with those that compute sums of INT in BIGINT.

        Raises: `SqlError` for edits that overlap.
        """
        return "".join(piece for piece, _, _ in self._pieces(widens=widens))

    def origin(self, offset: int, *, widens: bool = True) -> int:
        """Return where that stands in the user's text, or what it is in the place of, which is written at an offset."""
        at, found = 0, self.start
        for piece, start, is_own in self._pieces(widens=widens):  # scalar: one a changed place of the text
            found = start + (offset - at if is_own else 0)
            at += len(piece)
            if at > offset:
                break
        return found

    def _pieces(self, *, widens: bool) -> Iterator[tuple[str, int, bool]]:
        """Yield what is written, where that or what it replaces begins, and whether it stands so in the text."""
        edits = [edit for edit in self.edits if widens or not edit.is_sum]
        edits.extend(self._plain_edits([edit for edit in edits if edit.start < edit.end]))
        edits.sort(key=TextChange.key)
        at = self.start
        for edit in edits:  # scalar: one a changed place of the text
            if edit.start < at or edit.end > self.end:
                raise self.source.error(edit.start, "a part of it cannot be read")
            yield self.text[at : edit.start], at, True
            yield edit.text, edit.region[0], False
            at = edit.end
        yield self.text[at : self.end], at, True

    def _plain_edits(self, replaced: Sequence[TextChange]) -> Iterator[TextChange]:
        """Yield the edits that every text needs: blanks for hints and odd blanks, double quotes for back quotes."""
        covered = sorted((edit.start, edit.end) for edit in replaced)
        text, at, before = self.text, 0, self.start
        for token in self.tokens:  # scalar: one a word of the text
            if token.start < self.start:
                continue
            gap, is_back_quoted = text[before : token.start], text[token.start] == "`"
            start, end, before = before, token.end + 1, token.end + 1
            if not is_back_quoted and _BLANKS.issuperset(gap):
                continue
            while at < len(covered) and covered[at][1] <= start:
                at += 1
            is_gap_free = not any(low < token.start and start < high for low, high in covered[at : at + 2])
            if gap and is_gap_free and not _BLANKS.issuperset(gap):
                yield TextChange(start, token.start, "\n" if "\n" in gap else " ", _REPLACE, (start, token.start))
            if is_back_quoted and not any(low < end and token.start < high for low, high in covered[at : at + 3]):
                yield TextChange(token.start, end, quoted(token.text), _REPLACE, (token.start, end))


def quoted(name: str) -> str:
    """Return a name in double quotes."""
    return '"' + name.replace('"', '""') + '"'
