"""Removal of secrets from uris and from statements, for messages.

redact_uri("mysql://me:secret@host/db")             ->   "mysql://me:******@host/db"
redact_uri("jdbc:oracle:thin:me/secret@host")       ->   "jdbc:oracle:******@host"
redact_uri("secret")                                ->   "******"
excerpt("CREATE CATALOG c WITH ('s3.secret-key'='abc' 'x'='y')", 46)
    ->   CREATE CATALOG c WITH ('s3.secret-key'='******' 'x'='******')
"""

from __future__ import annotations

import re

from lakekit.options.option import HIDDEN, NAME_PATTERN

# ---- uris ------------------------------------------------------------


_SECRET_PARAMETER = re.compile(rf"([?&;(,][^=&;?#(,]*(?:{NAME_PATTERN})[^=&;?#(,]*=)[^&]*", re.IGNORECASE)
_URI_SCHEMES = (
    "sqlite",
    "postgresql",
    "postgres",
    "mysql",
    "mariadb",
    "thrift",
    "oracle",
    "sqlserver",
    "db2",
    "h2",
    "derby",
    "hive2",
    "http",
    "https",
    "file",
)
_URI_START = re.compile(rf"\s*(?:jdbc:)?(?:{'|'.join(_URI_SCHEMES)}):", re.IGNORECASE)
"""The beginning of a uri; any other text may be a secret at the wrong place."""


def redact_uri(uri: str) -> str:
    """Return the uri without its secrets.

    A password, whatever characters are in it, ends at the last @; a parameter's value at the next &. A text that does
    not begin as a uri does is hidden as a whole: it may be a secret itself.
    """
    match = _URI_START.match(uri)
    if match is None:
        return HIDDEN if uri else uri
    head, slashes, tail = uri.partition("//")
    user, at, host = tail.rpartition("@")
    if slashes and at and ":" in user:
        uri = f"{head}//{user.partition(':')[0]}:{HIDDEN}@{host}"
    elif head[match.end() :].rpartition("@")[0] not in ("", "thin:", "oci:"):
        uri = f"{match[0]}{HIDDEN}@{uri.rpartition('@')[2]}"
    return _SECRET_PARAMETER.sub(rf"\g<1>{HIDDEN}", uri)


# ---- statements ------------------------------------------------------------


_EXCERPT_CHARS, _MAX_FULL_CHARS = 60, 240
"""How many characters before and after a place are shown; how long a text may be that is shown as a whole."""
_TEXT_LITERAL_PATTERN = r"""'(?:[^'\\]|''|\\.)*(?:'|\Z)|"(?:[^"\\]|""|\\.)*(?:"|\Z)"""
_BEHIND_SECRET = re.compile(
    rf"""(?:{NAME_PATTERN})[\w.$-]*\s*['"`]?\s*"""
    rf"""(?:(?:=>|==|=|:)\s*(?P<said>{_TEXT_LITERAL_PATTERN}|[^\s,;)'"]+)|(?P<next>{_TEXT_LITERAL_PATTERN}))""",
    re.IGNORECASE | re.DOTALL,
)
_BEHIND_KEY = re.compile(
    rf"""(?P<key>[\w.$-]+)['"`]?\s*(?:=>|==|=|:)?\s*(?P<said>{_TEXT_LITERAL_PATTERN})""", re.DOTALL
)
_TEXT_LITERAL = re.compile(_TEXT_LITERAL_PATTERN, re.DOTALL)
_CREATE_CATALOG = re.compile(r"\s*CREATE\s+CATALOG\b", re.IGNORECASE)
_OPEN_KEYS = ("type", "metastore", "warehouse")
"""Options of CREATE CATALOG whose values are shown; a key may be misspelled, so others are not."""
_MASK_CHARACTER = "\0"


def excerpt(text: str, position: int | None = None) -> str:
    """Return a statement as an error shows it: all of it where it is short, else around `position`.

    `position`: None for its beginning. Values of secret options are replaced by stars.
    """
    masked = _mask_secrets(text)
    if len(text) <= _MAX_FULL_CHARS:
        return _mask_to_stars(masked).strip()
    if position is None:
        return _mask_to_stars(masked[: 4 * _EXCERPT_CHARS]).strip()
    return _mask_to_stars(masked[max(0, position - _EXCERPT_CHARS) : position + _EXCERPT_CHARS]) + "…"


def piece(text: str, start: int, end: int) -> str:
    """Return a part of a statement as an error shows it."""
    return _mask_to_stars(_mask_secrets(text)[start:end])


def without_secrets(text: str) -> str:
    """Return a library's message on a statement, which it may quote, without secrets."""
    return _mask_to_stars(_mask_secrets(text))


def _mask_secrets(text: str) -> str:
    """Return the text with each character of a secret masked; every other stays in its place."""
    spans = [match.span(match.lastgroup or 0) for match in _BEHIND_SECRET.finditer(text)]
    for match in _TEXT_LITERAL.finditer(text):
        inside = match[0][1:].rstrip("'\"")
        if redact_uri(inside) not in (inside, HIDDEN):
            spans.append(match.span())
    if _CREATE_CATALOG.match(text):
        spans += [match.span("said") for match in _BEHIND_KEY.finditer(text) if match["key"].lower() not in _OPEN_KEYS]
    signs = list(text)
    for start, end in spans:
        is_quoted = text[start] in "'\""
        first = start + is_quoted
        last = end - (is_quoted and end - start > 1 and text[end - 1] == text[start])
        signs[first:last] = _MASK_CHARACTER * (last - first)
    return "".join(signs)


def _mask_to_stars(masked: str) -> str:
    return re.sub(f"{_MASK_CHARACTER}+", HIDDEN, masked)
