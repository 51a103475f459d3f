"""Requests repeated where the store's client gives up, and messages for a store's refusals.

    describe_failure("… status code: 403 Forbidden: <Error><Code>AccessDenied</Code>…")
        ->   "the store answers 403 Forbidden (AccessDenied). Look at …"
    with typed_refusals(): frame.collect()      raises Polars' errors about a store as `StorageFailed`

obstore repeats a request that may be repeated after 5xx, 429 and broken connections. It gives up at once if the body of
a listing's answer breaks off, and if a request is not plainly repeatable: a conditional PUT, a POST that deletes.
Requests sent from here are repeatable, so they are repeated, as often and as long as obstore repeats others.

A message has a store's status, its own code and what to do; no URL query, header or secret. obstore and Polars use the
same client for stores, so their errors have the same texts.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from lakekit.errors import LakekitError, StorageFailed
from lakekit.runtime import REAL_RUNTIME
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta


T = TypeVar("T")

_STATUS_CODE, _RETRY_COUNT = re.compile(r"status code: (\d{3})"), re.compile(r"after (\d+) retries")
_PASSING_STATUS = frozenset({408, 409, 425, 429})
"""Answers of 4xx that another try may change."""
_LOST_CONNECTION = re.compile(
    r"HTTP error|error sending request|error decoding response body|Error getting list response body|"
    r"connection|timed out|timeout|broken pipe",
    re.IGNORECASE,
)
"""What a client says where a request or its answer got lost on the way."""


def status_of(error: BaseException) -> int | None:
    """Return the status that a store answered with; None if no answer came."""
    matched = _STATUS_CODE.search(str(error))
    return int(matched.group(1)) if matched is not None else None


def retry_count(error: BaseException) -> int:
    """Return how often the client repeated a request before it gave up."""
    matched = _RETRY_COUNT.search(str(error))
    return int(matched.group(1)) if matched is not None else 0


def is_transient(error: BaseException) -> bool:
    """Return whether another try may go well: the answer was lost, or says so itself."""
    status = status_of(error)
    return (
        (status >= 500 or status in _PASSING_STATUS)
        if status is not None
        else _LOST_CONNECTION.search(str(error)) is not None
    )


@dataclass(slots=True)
class RetryBudget:
    """The attempts that one request still has: `attempts_left` of them, within `max_duration` of the first."""

    attempts_left: int
    first_wait: timedelta
    longest_wait: timedelta
    max_duration: timedelta
    _attempt: int = 0
    _started_ms: float = field(default_factory=REAL_RUNTIME.elapsed_ms)

    def wait_for_retry(self, error: BaseException) -> bool:
        """Deduct a failure and wait; return False if no attempt is left, or none would help."""
        self.attempts_left -= 1 + retry_count(error)
        waited_ms = REAL_RUNTIME.elapsed_ms() - self._started_ms
        wait_ms = min(
            self.first_wait.total_seconds() * 1000 * 2**self._attempt, self.longest_wait.total_seconds() * 1000
        )
        if (
            self.attempts_left < 0
            or not is_transient(error)
            or waited_ms + wait_ms > self.max_duration.total_seconds() * 1000
        ):
            return False
        REAL_RUNTIME.wait_ms(wait_ms)
        self._attempt += 1
        return True


def repeat_request(request: Callable[[], T], budget: RetryBudget, foreign: tuple[type[BaseException], ...]) -> T:
    """Return the result of a request, repeated while `budget` lasts. Raises the last error."""
    while True:
        try:
            return request()
        except foreign as wrong:
            if not budget.wait_for_retry(wrong):
                raise


# ---- refusal ------------------------------------------------------------


_URL_WITH_QUERY = re.compile(r"(https?://[^\s?]*)\?\S*")
_REQUEST_ADDRESS = re.compile(r"[A-Z]{3,6} (https?://[^/\s?@]{1,200})/")
_SEND_FAILURE = re.compile(r" - HTTP error: ([^\n?(]{1,200})")
_STATUS_TEXT, _ERROR_CODE = re.compile(r"status code: (\d{3}[A-Za-z ]*)"), re.compile(r"<Code>([^<]{1,80})</Code>")
_ERROR_MESSAGE = re.compile(r"<Message>([^<]{1,200})")
_INSTANCE_METADATA_HOST = re.compile(r"169\.254\.169\.254|metadata\.google\.internal")
"""Where a machine of a cloud asks for its own credentials: the last place that is looked at."""
_CREDENTIALS_ADVICE = {
    "s3": "give s3.access-key and s3.secret-key, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "give google_service_account, or set GOOGLE_APPLICATION_CREDENTIALS",
    "azure": "give azure_storage_account_key, or set AZURE_STORAGE_ACCOUNT_KEY",
}
_ADVICE_OF_FAILURE = (
    ("status code: 401", "Look at the credentials given in storage_options or the environment"),
    ("status code: 403", "Look at the credentials given in storage_options or the environment, and at what they allow"),
    ("status code: 301", "Give the bucket's region: s3.endpoint.region, or AWS_REGION"),
    ("Received redirect", "Give the bucket's region: s3.endpoint.region, or AWS_REGION"),
    (
        "ExpiredToken",
        (
            "Renew the credentials; those of the environment, of profiles and of a credential_provider are taken when "
            "they change"
        ),
    ),
    ("NoSuchBucket", "There is no such bucket there"),
    ("scheme is not allowed", "Give allow_http=true to speak to an endpoint without TLS"),
)
_POLARS_MESSAGE = re.compile(r"object-store error: .*\(path: ([^\n]+?)\)", re.DOTALL)


def describe_failure(text: str, kind: str) -> str:
    """Describe an error of the client of a store of that kind: one sentence and what to do."""
    if _INSTANCE_METADATA_HOST.search(text):
        return f"no credentials were given or found; {_CREDENTIALS_ADVICE[kind]}"
    status, code, message, tried = (
        pattern.search(text) for pattern in (_STATUS_TEXT, _ERROR_CODE, _ERROR_MESSAGE, _RETRY_COUNT)
    )
    if status is not None:
        details = ": ".join(match.group(1) for match in (code, message) if match is not None)
        sentence = f"the store answers {status.group(1).strip()}" + (f" ({details})" if details else "")
    else:
        sent, address = _SEND_FAILURE.search(text), _REQUEST_ADDRESS.search(text)
        address_text = f" at {address.group(1)}" if address is not None else ""
        sentence = (
            f"the store{address_text} gives no answer ({sent.group(1).strip()})"
            if sent is not None
            else _URL_WITH_QUERY.sub(r"\1", text.partition("\n")[0])[:300]
        )
    sentence += f", after {tried.group(1)} retries" if tried is not None and int(tried.group(1)) else ""
    return sentence + next((f". {advice}" for mark, advice in _ADVICE_OF_FAILURE if mark in text), "")


def failure_from_polars(error: OSError) -> StorageFailed | None:
    """Convert an error of Polars about an object in a store to lakekit's own; None for any other error."""
    matched = _POLARS_MESSAGE.match(str(error))
    if matched is None:
        return None
    path = matched.group(1)
    scheme = path.partition("://")[0]
    if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
        return FileMissing(f"{path} does not exist", path=path)
    kind = "gs" if scheme in ("gs", "gcs") else "s3" if scheme in ("s3", "s3a") else "azure"
    return StorageFailed(f"{path}: {describe_failure(str(error), kind)}", path=path)


@contextmanager
def typed_refusals() -> Iterator[None]:
    """Raise Polars' errors about a store, while a frame is collected, as `FileMissing` or `StorageFailed`."""
    failed: StorageFailed | None = None
    try:
        yield
    except LakekitError:
        raise
    except OSError as wrong:
        failed = failure_from_polars(wrong)
        if failed is None:
            raise
    if failed is not None:  # outside of the block, so that what Polars said does not hang on the error
        raise failed
