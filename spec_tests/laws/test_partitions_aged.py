"""Partitions expire by value and by time, and are said to be complete. The clock is the test's."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import lakekit as lk
from lakekit.errors import InvalidOption, Unsupported
from lakekit.maintenance import expire_partitions
from lakekit.metadata import snapshots
from lakekit.runtime import Runtime, wall_clock_ms
from spec_tests.laws.aged import DAY, at, made


def test_partitions_expire_by_value_and_by_time(tmp_path):
    table = made(tmp_path / "t", partitioned=True, **{"write-only": "true"})
    days = ("2023-12-30", "2024-01-01", "nonsense", "2999-01-01")
    for day in days:
        table.append([{"k": 1, "dt": day}])
    told = table.expire_partitions(expiration="7 d", dry_run=True)
    assert told.partitions == ("dt=2023-12-30", "dt=2024-01-01")
    assert table.expire_partitions(expiration="7 d", max_expires=1).partitions == ("dt=2023-12-30",)
    assert table.expire_partitions(expiration="7 d", strategy="update-time").partitions == ()
    assert sorted(table.scan().collect()["dt"]) == ["2024-01-01", "2999-01-01", "nonsense"]
    later = replace(table._context(), runtime=Runtime(now_ms=lambda: wall_clock_ms(0) + at("2500-01-01")))
    assert expire_partitions.expire_partitions(later, 7 * DAY, strategy="update-time").partitions == ("dt=2024-01-01", "dt=2999-01-01", "dt=nonsense")
    with pytest.raises(InvalidOption):
        table.expire_partitions()
    with pytest.raises(InvalidOption):
        table.expire_partitions(expiration="7 d", strategy="custom")
    with pytest.raises(InvalidOption):
        made(tmp_path / "plain").expire_partitions(expiration="7 d")


def test_partitions_expire_after_commits_once_in_an_interval(tmp_path):
    options = {"partition.expiration-time": "7 d", "partition.expiration-check-interval": "0 s", "partition.expiration-batch-size": "1"}
    table = made(tmp_path / "t", partitioned=True).with_options(options)
    table.append([{"k": 1, "dt": day} for day in ("2023-12-30", "2024-01-01", "2999-01-01")])
    assert table.scan().collect()["dt"].to_list() == ["2999-01-01"]
    assert table.snapshots()["kind"].to_list() == ["APPEND", "OVERWRITE", "OVERWRITE"]
    handle = made(tmp_path / "u", partitioned=True)._context().with_options({**options, "partition.expiration-check-interval": "1 h"})
    times = iter((0, 3_600_001, 3_600_002, 7_200_003))
    handle = replace(handle, runtime=Runtime(now_ms=lambda: next(times), new_id=lambda: "000000"))
    assert [expire_partitions.is_check_due(handle, ends=False) for _ in range(4)] == [False, True, False, True]
    assert expire_partitions.is_check_due(handle.with_options({"end-input.check-partition-expire": "true"}), ends=True)


@pytest.mark.parametrize(
    "more", [{}, {"commit.strict-mode.last-safe-snapshot": "0"}, {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}], ids=len
)
@pytest.mark.parametrize("keys", [["k", "dt"], ["k"]], ids=["fixed", "crossing"])
def test_a_job_goes_on_after_its_partitions_expired(keys, more, tmp_path):
    """They were dropped by its own user: no other writer was there, and a commit is known again, whatever of it is left."""
    options = {"partition.expiration-time": "7 d", "partition.expiration-check-interval": "0 s", "bucket": "1" if "dt" in keys else "-1", **more}
    table = lk.create(str(tmp_path / "t"), {"k": "INT", "dt": "STRING"}, primary_keys=keys, partition_keys=["dt"], options=options)
    with table.writer(commit_user="job") as writer:
        for number in range(1, 4):
            writer.write([{"k": number, "dt": "2023-12-30"}, {"k": 10 + number, "dt": "2999-01-01"}])
            messages = writer.prepare()
            done = table.commit(messages, commit_user="job", identifier=number)
            made = json.loads((tmp_path / "t" / "snapshot" / f"snapshot-{snapshots.latest_id(table._context())}").read_text(encoding="utf-8"))
            assert [made[key] for key in ("commitKind", "commitUser", "commitIdentifier")] == ["OVERWRITE", "job", number]
            count = made["id"]
            again = table.commit(messages, commit_user="job", identifier=number)
            assert again.snapshot_ids == ((count,) if more.get("snapshot.num-retained.max") else done.snapshot_ids)
            assert snapshots.latest_id(table._context()) == count
    assert sorted(table.scan().collect()["k"]) == [11, 12, 13]


def test_the_tag_of_a_batch_has_no_partition_that_expired_with_it(tmp_path):
    options = {"partition.expiration-time": "7 d", "partition.expiration-check-interval": "0 s", "tag.automatic-creation": "batch"}
    table = made(tmp_path / "t", partitioned=True).with_options({**options, "tag.batch.customized-name": "newest"})
    table.append([{"k": 1, "dt": day} for day in ("2023-12-30", "2999-01-01")])
    assert table.scan(at="newest").collect()["dt"].to_list() == ["2999-01-01"]
    assert table.tags()["snapshot_id"].to_list() == [2]


def test_partitions_are_said_to_be_complete(tmp_path):
    table = made(tmp_path / "t", partitioned=True)
    table.mark_partition_done([{"dt": "2024-01-01"}])
    file = tmp_path / "t" / "dt=2024-01-01" / "_SUCCESS"
    first = file.read_text(encoding="utf-8")
    table.mark_partition_done([{"dt": "2024-01-01"}])
    assert first.split(",")[0] == file.read_text(encoding="utf-8").split(",")[0], "it keeps the time when it came"
    with pytest.raises(InvalidOption):
        table.mark_partition_done([{}])
    for other in ("done-partition", "mark-event", "custom", "nonsense"):
        with pytest.raises(Unsupported, match=other):
            table.with_options({"partition.mark-done-action": f"success-file,{other}"}).mark_partition_done([{"dt": "x"}])
        assert not (tmp_path / "t" / "dt=x").exists()


def marked(path) -> list[str]:
    """The partitions that are said to be complete; what was said is forgotten."""
    found = sorted(path.rglob("_SUCCESS"))
    for one in found:
        one.unlink()
    return [one.parent.name for one in found]


def test_the_partitions_of_a_batch_are_complete_at_its_end(tmp_path):
    """As the reference's sink does: those that rows were written to, of whoever commits once; a stream has no end."""
    rows = [{"dt": f"2024-01-0{day}", "k": day} for day in (1, 2)]
    options = {"partition.end-input-to-done": "true"}
    table = made(tmp_path / "t", partitioned=True, **options)
    table.upsert(rows)
    assert marked(tmp_path) == ["dt=2024-01-01", "dt=2024-01-02"]
    table.overwrite(rows[:1])
    assert marked(tmp_path) == ["dt=2024-01-01"]
    table.with_options({"write-only": "true"}).upsert(rows[1:])
    assert marked(tmp_path) == ["dt=2024-01-02"], "nobody else knows it"
    with table.writer() as writer:
        writer.write(rows)
        messages = writer.prepare()
    assert marked(tmp_path) == []
    table.commit(messages, commit_user="job")
    assert marked(tmp_path) == ["dt=2024-01-01", "dt=2024-01-02"]
    with table.writer(commit_user="stream") as writer:
        writer.write(rows)
        writer.commit(1)
    table.compact(full=True)
    table.upsert([])
    assert marked(tmp_path) == []
    table.with_options({"partition.end-input-to-done": "false"}).upsert(rows)
    assert marked(tmp_path) == []
    made(tmp_path / "u", **options).upsert(rows)
    assert marked(tmp_path) == [], "it has no partitions"


def test_statements_complete_the_partitions_whose_rows_they_changed(tmp_path):
    """As the reference's connectors do; partitions that are dropped as a whole are not written to."""
    days = ["2024-01-01", "2024-01-02", "2024-01-03"]
    for keys in (["dt", "k"], []):
        where = tmp_path / f"t{len(keys)}"
        options = {"partition.end-input-to-done": "true", **({"bucket": "1"} if keys else {})}
        table = lk.create(where, {"dt": "STRING", "k": "INT", "v": "INT"}, primary_keys=keys, partition_keys=["dt"], options=options)
        table.append([{"dt": day, "k": k, "v": k} for day in days for k in range(4)])
        assert marked(where) == [f"dt={day}" for day in days]
        table.update({"v": 9}, where="dt = '2024-01-01' AND k = 1")
        assert marked(where) == ["dt=2024-01-01"]
        table.delete("dt = '2024-01-02' AND k = 1")
        assert marked(where) == ["dt=2024-01-02"]
        table.merge([{"dt": days[2], "k": 1, "v": 5}], lk.when_matched(update="all"), on=["dt", "k"])
        assert marked(where) == ["dt=2024-01-03"]
        table.delete("v = 1000")
        table.delete("dt = '2024-01-02'")
        table.truncate()
        assert marked(where) == []


def test_partitions_that_readers_see_only_when_compacted_are_complete_then(tmp_path):
    for engine, waits in (("deduplicate", False), ("first-row", True)):
        options = {"partition.end-input-to-done": "true", "merge-engine": engine, "bucket": "1"}
        table = lk.create(tmp_path / engine, {"dt": "STRING", "k": "INT"}, primary_keys=["dt", "k"], partition_keys=["dt"], options=options)
        table.with_options({"write-only": "true"}).upsert([{"dt": "a", "k": 1}])
        assert marked(tmp_path) == ["dt=a"]
        with table.writer(compact=True) as writer:
            writer.compact(partition={"dt": "a"}, bucket=0, full=True)
            assert writer.commit().kinds == ("COMPACT",)
        assert marked(tmp_path) == (["dt=a"] if waits else [])


def test_a_batch_whose_partitions_nobody_can_mark_is_committed_all_the_same(tmp_path):
    table = made(tmp_path, partitioned=True, **{"partition.end-input-to-done": "true", "partition.mark-done-action": "success-file,mark-event"})
    with pytest.warns(UserWarning, match="marking partitions done afterwards failed .*mark-event"):
        assert table.upsert([{"dt": "2024-01-01", "k": 1}]).snapshot_ids == (1,)
    assert table.scan().collect().height == 1
