"""What a commit asks a store after a race that it lost."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from lakekit.commit import try_commit
from lakekit.commit.committer import commit_changes
from lakekit.metadata.table_context import open_context
from lakekit.model.commit_message import CommitMessage
from spec_tests.reliability import commits

if TYPE_CHECKING:
    from lakekit.commit.changes import Commit
    from lakekit.commit.try_commit import CommitRequest
    from lakekit.metadata.table_context import TableContext
    from spec_tests.reliability.s3_server import S3Server


@pytest.mark.parametrize("rivals", [1, 5])
def test_a_lost_race_costs_what_the_one_before_it_cost(server: S3Server, monkeypatch: pytest.MonkeyPatch, rivals: int) -> None:
    """What a commit has to read after a lost race depends on the snapshots since that race, not on how many it has lost."""
    options = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}
    server.put("t/schema/schema-0", commits.schema(partitioned=False, options=options))
    own, other = (open_context(server.url("t"), storage_options={**server.options, "max_retries": tries}) for tries in (3, 4))
    claim, asked, numbers = try_commit._create_snapshot_file, [], count()

    def publish_by(handle: TableContext, user: str, number: int) -> Commit:
        message = CommitMessage(partition=bytes(12), bucket=0, total_buckets=2, new_files=(commits.file(f"{user}{number}"),))
        return commit_changes(handle, [message], commit_user=user, identifier=number)

    def lose(job: CommitRequest, *given: Any) -> bool:
        if job.commit_user == "own" and len(asked) < 5:
            server.fault = None
            for _ in range(rivals):
                publish_by(other, "other", next(numbers))
            asked.append([])
            server.fault = lambda one: asked[-1].append(one.key)
        return claim(job, *given)

    publish_by(own, "own", 0)
    monkeypatch.setattr(try_commit, "_create_snapshot_file", lose)
    assert publish_by(own, "own", 1).retry_count == 5
    found = [sum("/snapshot/snapshot-" in key for key in keys) for keys in asked[:4]]
    assert found[1] == found[2] == found[3]
