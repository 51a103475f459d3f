"""Processes that commit to one table in an object store lose nothing and commit nothing twice, whatever the store answers (RELIABILITY check 13)."""

from __future__ import annotations

from itertools import count

import pytest

from lakekit.metadata import manifest_reader, snapshots
from lakekit.metadata.table_context import open_context
from spec_tests.reliability.commits import schema
from spec_tests.reliability.s3_server import Asked, S3Server
from spec_tests.reliability.store_race import race


@pytest.mark.long
def test_none_lost_none_twice():
    workers, commits = 4, 60
    claims, others = count(), count()

    def fault(asked: Asked) -> str | None:
        """Of the claims one in six is done and not answered, or answered 500, or turned away; of all else one in forty is turned away or hung up on."""
        if asked.method == "PUT" and "/snapshot/snapshot-" in asked.key:
            return (None, "lose", None, "lose-500", None, "503", None, None, "drop", None, None, None)[next(claims) % 12]
        return {7: "503", 23: "500", 31: "drop", 37: "429"}.get(next(others) % 160)

    with S3Server() as server:
        server.put("t/schema/schema-0", schema(partitioned=False, options={"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "20 ms"}))
        server.fault = fault
        acknowledged = race(server.url("t"), server.options, workers, commits)
        server.fault = None
        t = open_context(server.url("t"), storage_options=server.options)
        history = snapshots.read_all(t)
        assert [one.id for one in history] == list(range(1, workers * commits + 1))
        assert len(set(acknowledged)) == len(acknowledged) == workers * commits
        assert sorted(manifest_reader.read_live_entries(t, history[-1]).column("file_name").to_pylist()) == sorted(acknowledged)
        assert [one.total_record_count for one in history] == [10 * one.id for one in history]
        kept = {file.name for one in history for file in manifest_reader.manifest_files(t, one)}
        lists = {name for one in history for name in (one.base_manifest_list, one.delta_manifest_list)}
        there = {key.rpartition("/")[2] for key in server.keys("t/manifest/")}
        assert kept | lists <= there
        assert not [key for key in server.keys("t/") if "probe" in key]
