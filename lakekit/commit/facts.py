"""What a caller tells of a commit, held to what a snapshot file can hold: its user, identifier, watermark and properties.

A snapshot that says anything else would be written, and then read by nobody: neither it nor any after it. Source: FORMAT.md 3.1, `Snapshot`.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import Any

from lakekit.errors import InvalidOption

_MAX_INT64 = 2**63 - 1


def check_integer(name: str, value: Any) -> int:
    """A whole number of 64 bits, also one of numpy. Raises `InvalidOption` naming it."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or not -_MAX_INT64 - 1 <= number <= _MAX_INT64:
        raise InvalidOption(f"{name} is {_describe_value(value)}; a commit has a whole number from -2^63 to 2^63-1 there. Give such a number", key=name)
    return number


def check_text(name: str, value: Any) -> str:
    """A text that UTF-8 can hold. Raises `InvalidOption` naming it."""
    if not isinstance(value, str):
        raise InvalidOption(f"{name} is {_describe_value(value)}; a commit has a text there. Give a text", key=name)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidOption(f"{name} is {_describe_value(value)}, which holds half of a surrogate pair. Give a text of whole characters", key=name) from None
    return value


def check_texts(name: str, value: Any) -> dict[str, str]:
    """Texts by texts. Raises `InvalidOption` naming the whole, or the one that is none."""
    if not isinstance(value, Mapping):
        raise InvalidOption(f"{name} is {_describe_value(value)}; a commit has texts by name there. Give a dict of texts", key=name)
    return {check_text(f"a name in {name}", key): check_text(f"{name}[{key!a}]", one) for key, one in value.items()}


def _describe_value(value: object) -> str:
    return f"{ascii(value)[:100]}, a {type(value).__name__}"
