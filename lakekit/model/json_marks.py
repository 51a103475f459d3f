"""Where each member of a JSON file stands.

    { "version" : 3 }        punctuation `{ `, name of version `"version"`, punctuation ` : `, version `3`, punctuation ` }`

`json_facts` reads with Python's own parser, which is written in C and tells no places; this walker reads the same text a second time for who wants to look
at it. Tests hold its values equal to those of `json_facts.loads`.
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
_TOKEN = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\.)*"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|[{}\[\],:]')
_BLANK = re.compile(rb"[ \t\r\n]*")


def walk(data: bytes, marks: SpanRecorder) -> Any:
    """The value of a JSON text, each member marked. Raises `Corrupt` at the offset where it is none."""
    walker = _JsonWalk(data, marks)
    found = walker.value(walker.token(), "", 0)
    end = walker.blank()
    if end != len(data):
        raise walker.wrong("more after the end")
    walker.dead(len(data))
    return found


class _JsonWalk:
    """`at` is the next byte, `told` the end of what was marked."""

    def __init__(self, data: bytes, marks: SpanRecorder) -> None:
        self.data, self.marks, self.at, self.told = data, marks, 0, 0

    def wrong(self, why: str) -> Corrupt:
        return Corrupt(f"not JSON at byte {self.at} of {len(self.data)}: {why}", offset=self.at, field=SYNTAX)

    def blank(self) -> int:
        """Goes past blanks."""
        found = _BLANK.match(self.data, self.at)
        self.at = self.at if found is None else found.end()
        return self.at

    def token(self, wanted: bytes = b"") -> bytes:
        """The next token, which must be one of `wanted` if that is given."""
        found = _TOKEN.match(self.data, self.blank())
        if found is None or (wanted and found.group() not in wanted):
            raise self.wrong("another sign wanted")
        self.at = found.end()
        return found.group()

    def dead(self, end: int) -> None:
        """Calls what was not marked before `end` punctuation."""
        if end > self.told:
            self.marks.add(self.told, end - self.told, PUNCTUATION, None)
        self.told = max(self.told, end)

    def mark(self, token: bytes, field: str, value: object) -> None:
        """Marks the token that ends here."""
        self.dead(self.at - len(token))
        self.marks.add(self.at - len(token), len(token), field, value)
        self.told = self.at

    def value(self, token: bytes, path: str, depth: int) -> Any:
        """The value that begins with a token."""
        if depth > MAX_DEPTH:
            raise LimitExceeded(f"JSON nested deeper than {MAX_DEPTH} levels", offset=self.at, field=SYNTAX)
        if token == b"{":
            return self.members(path, depth)
        if token == b"[":
            return self.items(path, depth)
        if token in b"}],:":
            self.at -= 1
            raise self.wrong("a value wanted")
        found = self.one(token)
        self.mark(token, path or "value", found)
        return found

    def one(self, token: bytes) -> Any:
        """What a text, number or word means."""
        try:
            found = json.loads(token.decode(), parse_float=Decimal)
            if isinstance(found, str):
                found.encode()  # half of a surrogate pair is no text
        except (ValueError, ArithmeticError) as error:
            self.at -= len(token)
            raise self.wrong(str(error)) from None
        return found

    def members(self, path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        token = self.token()
        while token != b"}":
            if not token.startswith(b'"'):
                raise self.wrong("a name wanted")
            name = self.one(token)
            inner = f"{path}.{name}" if path else name
            self.mark(token, f"name of {inner}", None)
            self.token(b":")
            found[name] = self.value(self.token(), inner, depth + 1)
            token = self.after(b"}")
        return found

    def after(self, end: bytes) -> bytes:
        """The token that begins the next member or item, or the end."""
        token = self.token(b"," + end)
        if token == b",":
            token = self.token()
            if token == end:
                raise self.wrong("a value wanted after a comma")
        return token

    def items(self, path: str, depth: int) -> list[Any]:
        found: list[Any] = []
        token = self.token()
        while token != b"]":
            found.append(self.value(token, f"{path}[{len(found)}]", depth + 1))
            token = self.after(b"]")
        return found
