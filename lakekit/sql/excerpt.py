"""Excerpts of statements for error messages: the text around a position, without secrets.

excerpt("CREATE CATALOG c WITH ('s3.secret-key'='abc' 'x'='y')", 46)
    ->   CREATE CATALOG c WITH ('s3.secret-key'='******' 'x'='******')
"""

from __future__ import annotations

import re

from lakekit.catalog.uris import redact_uri
from lakekit.options.secrets import HIDDEN, NAME_PATTERN

_AROUND, _WHOLE = 60, 240
"""How many characters before and after a place are shown; how long a text may be that is shown as a whole."""
_LITERAL = r"""'(?:[^'\\]|''|\\.)*(?:'|\Z)|"(?:[^"\\]|""|\\.)*(?:"|\Z)"""
_BEHIND_SECRET = re.compile(
    rf"""(?:{NAME_PATTERN})[\w.$-]*\s*['"`]?\s*(?:(?:=>|==|=|:)\s*(?P<said>{_LITERAL}|[^\s,;)'"]+)|(?P<next>{_LITERAL}))""",
    re.IGNORECASE | re.DOTALL,
)
_BEHIND_KEY = re.compile(rf"""(?P<key>[\w.$-]+)['"`]?\s*(?:=>|==|=|:)?\s*(?P<said>{_LITERAL})""", re.DOTALL)
_TEXT = re.compile(_LITERAL, re.DOTALL)
_CATALOG = re.compile(r"\s*CREATE\s+CATALOG\b", re.IGNORECASE)
_OPEN_KEYS = ("type", "metastore", "warehouse")
"""Options of CREATE CATALOG whose values are shown; a key may be misspelled, so others are not."""
_MASK = "\0"


def excerpt(text: str, position: int | None = None) -> str:
    """Return a statement as an error shows it: all of it where it is short, else around `position`.

    `position`: None for its beginning. Values of secret options are replaced by stars.
    """
    masked = _mask(text)
    if len(text) <= _WHOLE:
        return _star(masked).strip()
    if position is None:
        return _star(masked[: 4 * _AROUND]).strip()
    return _star(masked[max(0, position - _AROUND) : position + _AROUND]) + "…"


def piece(text: str, start: int, end: int) -> str:
    """Return a part of a statement as an error shows it."""
    return _star(_mask(text)[start:end])


def without_secrets(text: str) -> str:
    """Return a library's message on a statement, which it may quote, without secrets."""
    return _star(_mask(text))


def _mask(text: str) -> str:
    """Return the text with each character of a secret masked; every other stays in its place."""
    spans = [match.span(match.lastgroup or 0) for match in _BEHIND_SECRET.finditer(text)]
    for match in _TEXT.finditer(text):
        inside = match[0][1:].rstrip("'\"")
        if redact_uri(inside) not in (inside, HIDDEN):
            spans.append(match.span())
    if _CATALOG.match(text):
        spans += [match.span("said") for match in _BEHIND_KEY.finditer(text) if match["key"].lower() not in _OPEN_KEYS]
    signs = list(text)
    for start, end in spans:
        is_quoted = text[start] in "'\""
        first = start + is_quoted
        last = end - (is_quoted and end - start > 1 and text[end - 1] == text[start])
        signs[first:last] = _MASK * (last - first)
    return "".join(signs)


def _star(masked: str) -> str:
    return re.sub(f"{_MASK}+", HIDDEN, masked)
