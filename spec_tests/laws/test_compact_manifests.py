"""Manifests merged on demand: the rows and files stay, the manifests become few."""

from __future__ import annotations

import lakekit as lk


def written(path, *, options=None, count=6):
    t = lk.create(path, {"p": "INT NOT NULL", "k": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["p", "k"], partition_keys=["p"], options=options)
    for n in range(count):
        t.upsert([{"p": n % 2, "k": key, "v": f"{n}"} for key in range(n, n + 5)])
    return t


def test_many_manifests_become_one(tmp_path):
    t = written(str(tmp_path / "t"), options={"bucket": "1"})
    rows, files, before = t.scan().sort("p", "k").collect(), t.files().sort("file_path"), t.snapshots().height
    assert t.manifests().height > 3
    done = t.compact_manifests()
    assert done.kinds == ("COMPACT",)
    assert (done.added_file_count, done.removed_file_count, done.row_count) == (0, 0, 0)
    assert t.manifests().height == 1
    assert t.scan().sort("p", "k").collect().equals(rows)
    assert t.files().sort("file_path").equals(files)
    assert t.snapshots().height == before + 1
    assert t.changes(done.snapshot_id - 1, mode="delta").collect().is_empty()
    assert t.check(deep=True).ok


def test_nothing_to_merge_makes_no_snapshot(tmp_path):
    t = lk.create(str(tmp_path / "t"), {"a": "INT"})
    assert t.compact_manifests().snapshot_ids == ()
    t.append([{"a": 1}])
    t.append([{"a": 2}])
    assert len(t.compact_manifests().snapshot_ids) == 1
    manifests = sorted((tmp_path / "t" / "manifest").iterdir())
    assert t.compact_manifests().snapshot_ids == ()
    assert sorted((tmp_path / "t" / "manifest").iterdir()) == manifests


def test_entries_of_files_that_are_gone_go(tmp_path):
    t = written(str(tmp_path / "t"), options={"bucket": "1"}, count=3)
    t.compact(full=True)
    live = t.files().height
    t.compact_manifests()
    kept = t.manifests()
    assert kept["num_added_files"].sum() == live
    assert kept["num_deleted_files"].sum() == 0


def test_another_commit_in_between_is_kept(tmp_path, monkeypatch):
    from lakekit.commit import try_commit

    t = written(str(tmp_path / "t"), options={"bucket": "1"}, count=4)
    real, raced = try_commit._create_snapshot_file, []

    def late(job, draft, snapshot):
        if not raced:
            raced.append(True)
            t.upsert([{"p": 0, "k": 99, "v": "late"}])
        return real(job, draft, snapshot)

    monkeypatch.setattr(try_commit, "_create_snapshot_file", late)
    done = t.compact_manifests()
    assert done.retry_count == 1
    assert 99 in t.scan().collect()["k"]
    assert t.check(deep=True).ok
    there = {path.name for path in (tmp_path / "t" / "manifest").iterdir()}
    listed = {name for at in t.snapshots()["snapshot_id"] for name in t.manifests(at)["file_name"]}
    assert {name for name in there if name.startswith("manifest-") and not name.startswith("manifest-list")} == listed
