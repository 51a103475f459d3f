"""Options whose values nobody should see, by their names: passwords, tokens, keys of stores."""

from __future__ import annotations

HIDDEN = "******"
"""Stands where a secret was."""
SECRET_WORDS = (
    *("password", "secret", "token", "credential", "accesskey", "access-key", "access_key", "privatekey", "private-key", "private_key", "passphrase"),
    "mark-done-action.http",  # the address of a service, and what it is told, may hold one
)


def is_secret(key: str) -> bool:
    """Whether an option of that name holds what nobody should see."""
    return any(word in key.lower() for word in SECRET_WORDS)
