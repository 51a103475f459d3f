"""Names of options with secret values: passwords, tokens, keys of stores.

The one list for tables, catalogs, stores and databases.
"""

from __future__ import annotations

import re

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


def is_secret(key: str) -> bool:
    """Return whether an option of that name may hold a secret."""
    return _SECRET.search(key) is not None
