"""A statement in an error: the words around a place, and no secret among them.

excerpt("CREATE CATALOG c WITH ('s3.secret-key'='abc' 'x'='y')", 46)   ->   CREATE CATALOG c WITH ('s3.secret-key'='******' 'x'='******')
"""

from __future__ import annotations

import re

from lakekit.catalog.uris import redact_uri
from lakekit.options.secrets import HIDDEN, NAME_PATTERN

_AROUND, _WHOLE = 60, 240
"""How many characters before and after a place are shown; how long a text may be that is shown as a whole."""
_LITERAL = r"""'(?:[^'\\]|''|\\.)*(?:'|\Z)|"(?:[^"\\]|""|\\.)*(?:"|\Z)"""
_BEHIND_SECRET = re.compile(
    rf"""(?:{NAME_PATTERN})[\w.$-]*\s*['"`]?\s*(?:(?:=>|==|=|:)\s*(?P<said>{_LITERAL}|[^\s,;)'"]+)|(?P<next>{_LITERAL}))""", re.IGNORECASE | re.DOTALL
)
_BEHIND_KEY = re.compile(rf"""(?P<key>[\w.$-]+)['"`]?\s*(?:=>|==|=|:)?\s*(?P<said>{_LITERAL})""", re.DOTALL)
_TEXT = re.compile(_LITERAL, re.DOTALL)
_CATALOG = re.compile(r"\s*CREATE\s+CATALOG\b", re.IGNORECASE)
_OPEN_KEYS = ("type", "metastore", "warehouse")
"""Options of CREATE CATALOG whose values are shown; a key may be misspelled, so others are not."""
_MASK = "\0"


def excerpt(text: str, place: int | None = None) -> str:
    """A statement as an error shows it: whole where it is short, else around `place` (None: its beginning); values of secret options starred."""
    masked = _mask(text)
    if len(text) <= _WHOLE:
        return _star(masked).strip()
    if place is None:
        return _star(masked[: 4 * _AROUND]).strip()
    return _star(masked[max(0, place - _AROUND) : place + _AROUND]) + "…"


def piece(text: str, start: int, end: int) -> str:
    """A part of a statement as an error shows it."""
    return _star(_mask(text)[start:end])


def without_secrets(text: str) -> str:
    """What a library says of a statement, which it may quote."""
    return _star(_mask(text))


def _mask(text: str) -> str:
    """The text, each sign of a secret another; every other in its place."""
    spans = [found.span(found.lastgroup or 0) for found in _BEHIND_SECRET.finditer(text)]
    for found in _TEXT.finditer(text):
        inside = found[0][1:].rstrip("'\"")
        if redact_uri(inside) not in (inside, HIDDEN):
            spans.append(found.span())
    if _CATALOG.match(text):
        spans += [found.span("said") for found in _BEHIND_KEY.finditer(text) if found["key"].lower() not in _OPEN_KEYS]
    signs = list(text)
    for start, end in spans:
        is_quoted = text[start] in "'\""
        first = start + is_quoted
        last = end - (is_quoted and end - start > 1 and text[end - 1] == text[start])
        signs[first:last] = _MASK * (last - first)
    return "".join(signs)


def _star(masked: str) -> str:
    return re.sub(f"{_MASK}+", HIDDEN, masked)
