"""Repeat requests on which the store's client gives up, as often and as long as it repeats others.

obstore repeats a request that may be repeated after 5xx, 429 and broken connections. It gives up at once if the body of
a listing's answer breaks off, and if a request is not plainly repeatable: a conditional PUT, a POST that deletes.
Requests sent from here are repeatable, so they are repeated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from lakekit.world import REAL_RUNTIME

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

T = TypeVar("T")

_STATUS, _RETRIES = re.compile(r"status code: (\d{3})"), re.compile(r"after (\d+) retries")
_PASSING_STATUS = frozenset({408, 409, 425, 429})
"""Answers of 4xx that another try may change."""
_LOST_CONNECTION = re.compile(
    r"HTTP error|error sending request|error decoding response body|Error getting list response body|"
    r"connection|timed out|timeout|broken pipe",
    re.IGNORECASE,
)
"""What a client says where a request or its answer got lost on the way."""


def status_of(wrong: BaseException) -> int | None:
    """Return the status that a store answered with; None if no answer came."""
    matched = _STATUS.search(str(wrong))
    return int(matched.group(1)) if matched is not None else None


def retry_count(wrong: BaseException) -> int:
    """Return how often the client repeated a request before it gave up."""
    matched = _RETRIES.search(str(wrong))
    return int(matched.group(1)) if matched is not None else 0


def is_passing(wrong: BaseException) -> bool:
    """Return whether another try may go well: the answer was lost, or says so itself."""
    status = status_of(wrong)
    return (
        (status >= 500 or status in _PASSING_STATUS)
        if status is not None
        else _LOST_CONNECTION.search(str(wrong)) is not None
    )


@dataclass(slots=True)
class Budget:
    """The attempts that one request still has: `left` of them, within `patience` of the first."""

    left: int
    first_wait: timedelta
    longest_wait: timedelta
    patience: timedelta
    _turn: int = 0
    _started_ms: float = field(default_factory=REAL_RUNTIME.elapsed_ms)

    def spend(self, wrong: BaseException) -> bool:
        """Deduct a failure and wait; return False if no attempt is left, or none would help."""
        self.left -= 1 + retry_count(wrong)
        waited_ms = REAL_RUNTIME.elapsed_ms() - self._started_ms
        wait_ms = min(self.first_wait.total_seconds() * 1000 * 2**self._turn, self.longest_wait.total_seconds() * 1000)
        if self.left < 0 or not is_passing(wrong) or waited_ms + wait_ms > self.patience.total_seconds() * 1000:
            return False
        REAL_RUNTIME.wait(wait_ms)
        self._turn += 1
        return True


def repeat(request: Callable[[], T], budget: Budget, foreign: tuple[type[BaseException], ...]) -> T:
    """Return the result of a request, repeated while `budget` lasts. Raises the last error."""
    while True:
        try:
            return request()
        except foreign as wrong:
            if not budget.spend(wrong):
                raise
