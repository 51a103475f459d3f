"""Credentials from a function that renews them before they expire.

`storage_options={"credential_provider": function}`, as in Polars:

pl.CredentialProviderAWS(profile_name="lake")                                  asks boto3
lambda: ({"aws_access_key_id": …, "aws_secret_access_key": …}, 1735689600)     options; expiry in s since 1970, or None
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lakekit.errors import InvalidOption, StorageFailed
from lakekit.world import lock, now_ms

if TYPE_CHECKING:
    from collections.abc import Callable

_EARLY_SECONDS, _KEPT_SECONDS = 60, 60
"""How long before they expire credentials are asked for again; how long those are kept that never expire."""


@dataclass(slots=True)
class _CachedCredentials:
    """The last result of a function, valid `until` (seconds since 1970)."""

    options: dict[str, str] | None = None
    until: float = 0.0
    guard: Any = field(default_factory=lock)


@dataclass(frozen=True, slots=True)
class CredentialSource:
    """A function that returns credentials; equal if the function is.

    Its result is cached until shortly before it expires.
    """

    function: Callable[[], Any] = field(repr=False)
    _kept: _CachedCredentials = field(default_factory=_CachedCredentials, compare=False, repr=False)

    def read(self) -> dict[str, str]:
        """Return the current options of the function.

        Raises:
            InvalidOption: the result is not a mapping of texts with a time.
            StorageFailed: the function raises.
        """
        cached = self._kept
        with cached.guard:
            now_s = now_ms() / 1000
            if cached.options is None or now_s >= cached.until:
                options, expiry = self._ask()
                cached.options = options
                cached.until = now_s + _KEPT_SECONDS if expiry is None else max(expiry - _EARLY_SECONDS, now_s + 1)
            return cached.options

    def _ask(self) -> tuple[dict[str, str], float | None]:
        failure: str | None = None
        try:
            answer = self.function()
        except Exception as wrong:  # noqa: BLE001 - whatever a function of the user raises
            failure = f"{type(wrong).__name__}: {str(wrong)[:300]}"
        if failure is not None:  # outside of the block: what hangs on the error may hold a credential
            raise StorageFailed(f"the credential_provider of the storage options fails: {failure}", path=None)
        if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], Mapping)):
            raise _wrong_answer()
        options, expiry = answer
        if not all(isinstance(key, str) and isinstance(text, str) for key, text in options.items()):
            raise _wrong_answer()
        if not (expiry is None or isinstance(expiry, (int, float))):
            raise _wrong_answer()
        return dict(options), expiry

    def __reduce__(self) -> tuple[type[CredentialSource], tuple[Any]]:
        return CredentialSource, (self.function,)


@lru_cache(maxsize=64)
def source_of(function: Callable[[], Any]) -> CredentialSource:
    """Return the source of a function, one for all stores that use it."""
    return CredentialSource(function)


def _wrong_answer() -> InvalidOption:
    return InvalidOption(
        "the credential_provider of the storage options answers with a tuple: a dict of options, as "
        '{"aws_access_key_id": …}, and the second since 1970 when they expire, or None',
        key="credential_provider",
        value=None,
    )
