"""Validate a caller's commit user, identifier, watermark and properties.

They must be values that a snapshot file can hold. A snapshot with other values could be written but not read, and no
snapshot after it either. Source: FORMAT.md 3.1, `Snapshot`.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import Any

from lakekit.errors import InvalidOption

_MAX_INT64 = 2**63 - 1


def check_integer(name: str, value: Any) -> int:
    """Return a 64-bit integer (numpy integers too). Raises `InvalidOption` with its name."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or not -_MAX_INT64 - 1 <= number <= _MAX_INT64:
        raise InvalidOption(
            f"{name} is {_describe_value(value)}; a commit has a whole number from -2^63 to 2^63-1 there. Give such a "
            "number",
            key=name,
        )
    return number


def check_text(name: str, value: Any) -> str:
    """Return a text that UTF-8 can encode. Raises `InvalidOption` with its name."""
    if not isinstance(value, str):
        raise InvalidOption(f"{name} is {_describe_value(value)}; a commit has a text there. Give a text", key=name)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidOption(
            f"{name} is {_describe_value(value)}, which holds half of a surrogate pair. Give a text of whole "
            "characters",
            key=name,
        ) from None
    return value


def check_texts(name: str, value: Any) -> dict[str, str]:
    """Return texts by name. Raises `InvalidOption` with the name of the mapping or of the bad entry."""
    if not isinstance(value, Mapping):
        raise InvalidOption(
            f"{name} is {_describe_value(value)}; a commit has texts by name there. Give a dict of texts", key=name
        )
    return {check_text(f"a name in {name}", key): check_text(f"{name}[{key!a}]", text) for key, text in value.items()}


def _describe_value(value: object) -> str:
    return f"{ascii(value)[:100]}, a {type(value).__name__}"
