"""Commits of many processes under faults: none lost, none twice, none "failed" that is there, and hardly one that is in doubt or fails."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from lakekit.metadata import manifest_reader, snapshots
from lakekit.metadata.table_context import open_context
from spec_tests.reliability.commits import schema
from spec_tests.reliability.s3_server import Asked, S3Server
from spec_tests.reliability.store_outcomes import outcomes

OPTIONS = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "200 ms", "commit.max-retries": "50"}


@pytest.mark.parametrize("commits", [pytest.param(10, marks=pytest.mark.long), pytest.param(125, marks=pytest.mark.deep)])
def test_what_a_commit_is_told_is_so(commits: int) -> None:
    drawn, workers = random.Random(11), 4

    def fault(asked: Asked) -> str | None:
        """5 % of the claims are done and cut, 5 % done and answered 500; of all requests 5 % are 503, 2 % reset before and 2 % after, 1 % cut."""
        if asked.method == "PUT" and "/snapshot/snapshot-" in asked.key:
            claim = drawn.random()
            if claim < 0.1:
                return "lose-reset" if claim < 0.05 else "lose-500"
        number = drawn.random()
        return next((name for name, end in (("503", 0.05), ("reset", 0.07), ("lose-reset", 0.09), ("cut", 0.1)) if number < end), None)

    with S3Server() as server:
        server.put("t/schema/schema-0", schema(partitioned=False, options=OPTIONS))
        server.fault = fault
        told = outcomes(server.url("t"), server.options, workers, commits)
        server.fault = None
        t = open_context(server.url("t"), storage_options=server.options)
        live = Counter(manifest_reader.read_live_entries(t, snapshots.read_all(t)[-1]).column("file_name").to_pylist())
        assert [name for name, count in live.items() if count > 1] == []
        assert [name for name, outcome in told.items() if outcome == "done" and name not in live] == []
        assert [name for name, outcome in told.items() if outcome == "failed" and name in live] == []
        assert Counter(told.values())["done"] >= 0.98 * workers * commits
        assert [key for key in server.keys("t/") if "probe" in key] == []
