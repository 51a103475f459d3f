"""Options whose secrets are never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit.options.frozendict import FrozenDict
from lakekit.secret_names import HIDDEN, NAME_PATTERN, is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HIDDEN", "NAME_PATTERN", "SecretOptions", "is_secret", "shown_options"]


class SecretOptions(FrozenDict[str, Any]):
    """A user's options with their values; printed without secrets."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(shown_options(self))

    __str__ = __repr__


def shown_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same options with secrets hidden."""
    return {key: HIDDEN if is_secret(key) else value for key, value in options.items()}
