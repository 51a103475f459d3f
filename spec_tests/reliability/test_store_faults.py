"""Every request of a script fails in turn, in every way a store fails: what was acknowledged is there, nothing is there twice or in part, and a repeat works.

The script: a table is made, rows are written, compacted and deleted. Requests are counted; a case fails one of them, once or from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import CommitStateUnknown, LakekitError
from spec_tests.reliability.s3_server import Asked, Kept, S3Server

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.usefixtures("impatience"), pytest.mark.filterwarnings("ignore:the commit to t is done:UserWarning")]
ROWS = pl.DataFrame({"k": [1, 2, 3], "v": ["a", "b", "c"]})
MORE = pl.DataFrame({"k": [3, 4], "v": ["new", "d"]})
FAULTS = ("lose", "lose-500", "drop", "503", "403")
STEPS: tuple[tuple[str, Callable[[lk.Table], object], dict[int, str]], ...] = (
    ("write", lambda t: t.upsert(ROWS), {1: "a", 2: "b", 3: "c"}),
    ("write more", lambda t: t.upsert(MORE), {1: "a", 2: "b", 3: "new", 4: "d"}),
    ("compact", lambda t: t.compact(full=True), {1: "a", 2: "b", 3: "new", 4: "d"}),
    ("delete", lambda t: t.delete(pl.col("k") == 1), {2: "b", 3: "new", 4: "d"}),
)


def made(server: S3Server) -> lk.Table:
    t = lk.create(server.url("t"), {"k": "BIGINT", "v": "STRING"}, primary_keys=["k"], options={"bucket": "1"}, storage_options=server.options)
    return lk.open(t.location, storage_options={**server.options, "max_retries": 1})


def rows(t: lk.Table) -> dict[int, str]:
    found = t.scan().collect().rows()
    assert len(dict(found)) == len(found), "a key is there once"
    return dict(found)


class Played:
    """The script without faults: how many requests each step makes, and the bucket before it."""

    def __init__(self, server: S3Server) -> None:
        self.server, self.table = server, made(server)
        self.table._context().storage.put_if_absent(server.url("probed"), b"")  # the probe is not part of a step
        self.requests: list[int] = []
        self.before: list[dict[str, Kept]] = []
        self.rows: list[dict[int, str]] = [{}]
        for _, step, after in STEPS:
            self.before.append(dict(server.buckets[server.bucket]))
            server.forget()
            step(self.table)
            self.requests.append(server.count())
            self.rows.append(after)
            assert rows(self.table) == after

    def cases(self, every: int) -> list[tuple[int, int, str, bool]]:
        """A step, one of its requests, how it fails, and whether for good."""
        found = [(at, n, fault, good) for at, count in enumerate(self.requests) for n in range(count) for fault in FAULTS for good in (False, True)]
        return found[::every]

    def play(self, at_step: int, at_request: int, fault: str, *, for_good: bool) -> None:
        server, t, (name, step, after), before = self.server, self.table, STEPS[at_step], self.rows[at_step]
        where = f"{name}, request {at_request}, {fault}, {'for good' if for_good else 'once'}"
        server.buckets[server.bucket] = dict(self.before[at_step])
        server.forget()

        def fail(_: Asked) -> str | None:
            number = server.count() - 1
            return fault if number == at_request or (for_good and number > at_request) else None

        server.fault = fail
        outcome: Exception | None = None
        try:
            step(t)
        except (LakekitError, OSError) as failed:  # what Polars says of a store that it reads itself is an OSError
            outcome = failed
        server.fault = None
        found = rows(t) if t.snapshots().height else {}
        where += f": {outcome!r}"
        assert found in (before, after), where
        if outcome is None:
            assert found == after, where
        elif found == after != before:
            assert isinstance(outcome, CommitStateUnknown), where
        assert t.check(deep=True).ok, where
        step(t)
        assert rows(t) == after, where
        assert t.check(deep=True).ok, where


@pytest.mark.parametrize("every", [pytest.param(301), pytest.param(9, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.deep)])
def test_whatever_fails_what_was_acknowledged_is_there(every: int) -> None:
    with S3Server() as server:
        played = Played(server)
        assert sum(played.requests) > 60
        for at, number, fault, for_good in played.cases(every):
            played.play(at, number, fault, for_good=for_good)
