"""Removal of secrets from uris and from statements, for messages.

redact_uri("mysql://me:secret@host/db")             ->   "mysql://me:******@host/db"
redact_uri("jdbc:oracle:thin:me/secret@host")       ->   "jdbc:oracle:******@host"
redact_uri("secret")                                ->   "******"
excerpt("CREATE CATALOG c WITH ('s3.secret-key'='abc' 'x'='y')", 46)
    ->   CREATE CATALOG c WITH ('s3.secret-key'='******' 'x'='******')
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lakekit.errors import LakekitError, login_span
from lakekit.options.option import HIDDEN, NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
_SECRET_NAME = re.compile(NAME_PATTERN, re.IGNORECASE)
_WORD_REST = re.compile(r"[\w.$-]*")
_WORD_CHARACTERS = frozenset("_.$-")
_BEHIND_SECRET = re.compile(
    rf"""(?P<quote>['"`]?)(?P<blank>\s*)"""
    rf"""(?:(?P<sign>=>|==|:=|=|:(?!:))\s*"""
    rf"""(?P<said>{_TEXT_LITERAL_PATTERN}|(?:(?:Bearer|Basic)\s+)?[^\s,;)'"\]}}{{\[]+)"""
    rf"""|(?P<next>{_TEXT_LITERAL_PATTERN}))""",
    re.IGNORECASE | re.DOTALL,
)
_LIST_BEHIND_SECRET = re.compile(
    r"""['"`]?\s*(?:=>|==|:=|=|:(?!:))?\s*(?P<open>[{\[(])|\s+(?:MAP|map)\s*(?P<map>[{(])"""
)
_ENCRYPTION = re.compile(r"encryption[._-]?(?:config|key)", re.IGNORECASE)
_IN_BRACKETS = re.compile(rf"(?P<literal>{_TEXT_LITERAL_PATTERN})|(?P<open>[\[({{])|(?P<close>[\])}}])", re.DOTALL)
_BEHIND_KEY = re.compile(
    rf"""(?<![\w.$-])(?P<key>[\w.$-]+)['"`]?\s*(?:=>|==|=|:)?\s*(?P<said>{_TEXT_LITERAL_PATTERN})""", re.DOTALL
)
_TEXT_LITERAL = re.compile(_TEXT_LITERAL_PATTERN, re.DOTALL)
_CREATE_CATALOG = re.compile(r"\s*CREATE\s+CATALOG\b", re.IGNORECASE)
_OPEN_KEYS = ("type", "metastore", "warehouse")
"""Options of CREATE CATALOG whose values are shown; a key may be misspelled, so others are not."""
_MASK_CHARACTER = "\0"
_NO_BLANK = re.compile(r"[^\s'\"`]+")
_MIN_KNOWN_CHARS, _MIN_CUT_CHARS = 4, 6
"""How long a secret of a statement is that is looked for in a message, and the beginning of one."""


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
    return pieces(text, start, end)[0]


def pieces(text: str, *bounds: int) -> list[str]:
    """Return the parts of a statement between offsets that ascend, as an error shows them."""
    masked = _mask_secrets(text)
    return [_mask_to_stars(masked[start:end]) for start, end in pairwise(bounds)]


def without_secrets(text: str) -> str:
    """Return a library's message on a statement, which it may quote, without secrets."""
    return _mask_to_stars(_mask_secrets(text))


def without_secrets_of(statement: str, message: str) -> str:
    """Return a message without secrets, and without the values that are secret in the statement it is about.

    A library may quote such a value, or the beginning of one, in its own way and at any place.
    """
    for secret in _secret_values(statement):
        message = _without_value(message, secret)
    return without_secrets(message)


def redact_error(wrong: LakekitError, statement: str) -> None:
    """Take the secrets of a statement out of an error about it: of its message, its fields and what it came from."""
    error: BaseException | None = wrong
    seen: set[int] = set()
    while isinstance(error, LakekitError) and id(error) not in seen:  # errors may be the causes of each other
        seen.add(id(error))
        for name in error.names:
            value = getattr(error, name)
            if isinstance(value, str):
                setattr(error, name, without_secrets_of(statement, value))
        error.args = (without_secrets_of(statement, error.message),)
        cause = error.__cause__ or error.__context__
        if cause is not None and not isinstance(cause, LakekitError):
            shown = repr(cause.args)
            if without_secrets_of(statement, shown) != shown:
                error.__cause__ = error.__context__ = None
        error = cause


def _secret_values(statement: str) -> list[str]:
    """Return the texts that are secret in a statement, the longest first; short ones are found by their keys alone."""
    return _values_in(statement, _secret_spans(statement))


def _values_in(statement: str, spans: Iterable[tuple[int, int]]) -> list[str]:
    """Return the texts that stand at the places of secrets, as `_secret_values`."""
    values = set()
    for start, end in spans:
        written = statement[start:end]
        if written[:1] not in ("'", '"'):  # a number or a name, but for the user of a uri
            if statement[max(0, start - 3) : start] != "://":
                continue
            user, colon, password = written.partition(":")
            values |= {written, unquote(written), *((password, unquote(password)) if colon else (user,))}
            continue
        inside = written[1:].removesuffix(written[0])
        values |= {inside, inside.replace(written[0] * 2, written[0])}
    return sorted((value for value in values if len(value) >= _MIN_KNOWN_CHARS), key=len, reverse=True)


def _without_value(message: str, secret: str) -> str:
    """Return a message with stars where a secret stands, or its beginning where the message cuts it."""
    parts, at, head = [], 0, secret[:_MIN_CUT_CHARS]
    while (found := message.find(head, at)) >= 0:
        same = next((i for i, (a, b) in enumerate(zip(message[found:], secret, strict=False)) if a != b), None)
        length = min(len(secret), len(message) - found) if same is None else same
        parts += [message[at:found], HIDDEN]
        at = found + length
    return "".join([*parts, message[at:]])


def _mask_secrets(text: str) -> str:
    """Return the text with each character of a secret masked, also where it stands again without the name of one.

    Every other character stays in its place.
    """
    spans = _secret_spans(text)
    if not spans:
        return text
    signs = list(text)
    for start, end in spans:
        is_quoted = text[start] in "'\""
        first = start + is_quoted
        last = end - (is_quoted and end - start > 1 and text[end - 1] == text[start])
        signs[first:last] = _MASK_CHARACTER * (last - first)
    for secret in _values_in(text, spans):  # scalar: one a secret of a statement
        at = text.find(secret)
        while at >= 0:
            signs[at : at + len(secret)] = _MASK_CHARACTER * len(secret)
            at = text.find(secret, at + len(secret))
    return "".join(signs)


def _secret_spans(text: str) -> list[tuple[int, int]]:
    """Return where the secrets of a text stand; a text with its quotes."""
    spans = list(_spans_behind_names(text))
    if "://" in text and "@" in text:
        for word in _NO_BLANK.finditer(text):  # scalar: one a word of a statement
            found = login_span(word[0])
            if found is not None:
                spans.append((word.start() + found[0], word.start() + found[1]))
    for match in _TEXT_LITERAL.finditer(text) if ":" in text else ():  # scalar: one a text of a statement
        inside = match[0][1:].rstrip("'\"")
        if ":" not in inside:
            continue
        found = login_span(inside)
        if found is not None:
            spans.append((match.start() + 1 + found[0], match.start() + 1 + found[1]))
            inside = f"{inside[: found[0]]}{HIDDEN}{inside[found[1] :]}"
        if redact_uri(inside) not in (inside, HIDDEN):
            spans.append(match.span())
    if _CREATE_CATALOG.match(text):
        spans += [match.span("said") for match in _BEHIND_KEY.finditer(text) if match["key"].lower() not in _OPEN_KEYS]
    return spans


def _spans_behind_names(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the values stand behind the names of secrets: behind a sign of a pair, or as the text beside a name.

    The name of a file is none, nor are two texts beside each other the first of which ends with such a name.
    """
    end, counted, listed, quotes = 0, 0, 0, {"'": 0, '"': 0}
    for name in _SECRET_NAME.finditer(text):
        if name.start() < end:
            continue
        rest = _WORD_REST.match(text, name.end())
        end = name.end() if rest is None else rest.end()
        start = name.start()
        while start and (text[start - 1].isalnum() or text[start - 1] in _WORD_CHARACTERS):
            start -= 1
        for quote in quotes:
            quotes[quote] += text.count(quote, counted, start)
        counted = start
        before = text[start - 1 : start]
        value = _BEHIND_SECRET.match(text, end)
        if value is not None and value["sign"] and not (value["sign"] == ":" and before in ("/", "\\")):
            yield value.span("said")
        elif value is not None and value["next"] and before not in ("/", "\\"):
            is_name = value["quote"] == before if value["quote"] else not before or before not in "'\"`"
            is_closing = not value["quote"] and not value["blank"] and quotes[value["next"][0]] % 2 == 1
            if is_name and not is_closing:
                yield value.span("next")
        if start >= listed:
            within, listed = _spans_in_list(text, start, end)
            yield from within


def _spans_in_list(text: str, start: int, end: int) -> tuple[list[tuple[int, int]], int]:
    """Return where texts stand in the brackets behind the name of a secret, and where those end."""
    opened = _LIST_BEHIND_SECRET.match(text, end)
    if opened is None or (opened["open"] == "(" and _ENCRYPTION.search(text, start, end) is None):
        return [], end
    depth = 1
    spans: list[tuple[int, int]] = []
    for part in _IN_BRACKETS.finditer(text, opened.end()):
        depth += bool(part["open"]) - bool(part["close"])
        if depth == 0:
            return spans, part.end()
        if part["literal"]:
            spans.append(part.span())
    return spans, len(text)


def _mask_to_stars(masked: str) -> str:
    return re.sub(f"{_MASK_CHARACTER}+", HIDDEN, masked)
