"""Find the byte span of each member of a JSON file.

    { "version" : 3 }        punctuation `{ `, name of version `"version"`, punctuation ` : `, version `3`,
                             punctuation ` }`

`json_codec` reads with Python's own parser, which is written in C and reports no positions; this walker reads the same
text a second time, for displays. Tests compare its values with those of `json_codec.loads`.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakekit.errors import Corrupt, LimitExceeded
from lakekit.model.json_codec import MAX_DEPTH, SYNTAX

if TYPE_CHECKING:
    from lakekit.codec.marks import SpanRecorder

PUNCTUATION = "punctuation"
_TOKEN = re.compile(
    rb'"(?:[^"\\\x00-\x1f]|\\.)*"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|[{}\[\],:]'
)
_BLANK = re.compile(rb"[ \t\r\n]*")


def walk(data: bytes, marks: SpanRecorder) -> Any:
    """Return the value of a JSON text and record the span of each member.

    Raises `Corrupt` at the offset of a syntax error.
    """
    walker = _JsonWalk(data, marks)
    value = walker.value(walker.token(), "", 0)
    end = walker.blank()
    if end != len(data):
        raise walker.wrong("more after the end")
    walker.dead(len(data))
    return value


class _JsonWalk:
    """A walk over JSON text. `at` is the next byte, `marked_end` the end of the recorded spans."""

    def __init__(self, data: bytes, marks: SpanRecorder) -> None:
        self.data, self.marks, self.at, self.marked_end = data, marks, 0, 0

    def wrong(self, why: str) -> Corrupt:
        return Corrupt(f"not JSON at byte {self.at} of {len(self.data)}: {why}", offset=self.at, field=SYNTAX)

    def blank(self) -> int:
        """Skip blanks; return the new offset."""
        matched = _BLANK.match(self.data, self.at)
        self.at = self.at if matched is None else matched.end()
        return self.at

    def token(self, expected: bytes = b"") -> bytes:
        """Return the next token, which must be one of `expected` if that is given."""
        matched = _TOKEN.match(self.data, self.blank())
        if matched is None or (expected and matched.group() not in expected):
            raise self.wrong("another sign wanted")
        self.at = matched.end()
        return matched.group()

    def dead(self, end: int) -> None:
        """Record everything unrecorded before `end` as punctuation."""
        if end > self.marked_end:
            self.marks.add(self.marked_end, end - self.marked_end, PUNCTUATION, None)
        self.marked_end = max(self.marked_end, end)

    def mark(self, token: bytes, field: str, value: object) -> None:
        """Record the span of the token that ends here."""
        self.dead(self.at - len(token))
        self.marks.add(self.at - len(token), len(token), field, value)
        self.marked_end = self.at

    def value(self, token: bytes, path: str, depth: int) -> Any:
        """Return the value that begins with a token."""
        if depth > MAX_DEPTH:
            raise LimitExceeded(f"JSON nested deeper than {MAX_DEPTH} levels", offset=self.at, field=SYNTAX)
        if token == b"{":
            return self.members(path, depth)
        if token == b"[":
            return self.items(path, depth)
        if token in b"}],:":
            self.at -= 1
            raise self.wrong("a value wanted")
        scalar = self.one(token)
        self.mark(token, path or "value", scalar)
        return scalar

    def one(self, token: bytes) -> Any:
        """Return the value of a text, number or keyword."""
        try:
            scalar = json.loads(token.decode(), parse_float=Decimal)
            if isinstance(scalar, str):
                scalar.encode()  # half of a surrogate pair is no text
        except (ValueError, ArithmeticError) as error:
            self.at -= len(token)
            raise self.wrong(str(error)) from None
        return scalar

    def members(self, path: str, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        token = self.token()
        while token != b"}":
            if not token.startswith(b'"'):
                raise self.wrong("a name wanted")
            name = self.one(token)
            inner = f"{path}.{name}" if path else name
            self.mark(token, f"name of {inner}", None)
            self.token(b":")
            values[name] = self.value(self.token(), inner, depth + 1)
            token = self.after(b"}")
        return values

    def after(self, end: bytes) -> bytes:
        """Return the token that begins the next member or item, or the end token."""
        token = self.token(b"," + end)
        if token == b",":
            token = self.token()
            if token == end:
                raise self.wrong("a value wanted after a comma")
        return token

    def items(self, path: str, depth: int) -> list[Any]:
        values: list[Any] = []
        token = self.token()
        while token != b"]":
            values.append(self.value(token, f"{path}[{len(values)}]", depth + 1))
            token = self.after(b"]")
        return values
