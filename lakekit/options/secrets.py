"""Options whose values nobody should see, by their names: passwords, tokens, keys of stores. The one list: of tables, catalogs, stores and databases."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lakekit.options.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

HIDDEN = "******"
"""Stands where a secret was."""
NAME_PATTERN = (
    r"passw|passphrase|pwd|secret|token|credential|signature|proxy_url|connection[._-]?string"
    r"|(?:access|account|api|auth|private|shared|encryption|customer)[._-]?key"
    r"|(?<![a-z])(?:sas|sig)(?![a-z])|(?<![a-z])sas[._-]?key"
    r"|mark-done-action\.http"  # the address of a service, and what it is told, may hold one
)
"""A pattern found in the names of secret options and in no other."""
_SECRET = re.compile(NAME_PATTERN, re.IGNORECASE)


class SecretOptions(Frozen[str, Any]):
    """The options that a user gave, values and all; shown without its secrets."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(shown_options(self))

    __str__ = __repr__


def shown_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same options, secrets hidden."""
    return {key: HIDDEN if is_secret(key) else value for key, value in options.items()}


def is_secret(key: str) -> bool:
    """Whether an option of that name holds what nobody should see."""
    return _SECRET.search(key) is not None
