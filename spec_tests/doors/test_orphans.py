"""`t.remove_orphans` as its user meets it: what writers left goes, when it is old; what anything needs stays; what looks wrong is refused."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import lakekit as lk
from lakekit.maintenance import orphan_files
from lakekit.runtime import REAL_RUNTIME
from spec_tests.conftest import DEEP
from spec_tests.laws.test_care_histories import KINDS, History
from spec_tests.longer import some
from spec_tests.reliability.kept import needed, on_disk

COLUMNS = {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "STRING"}
NOW = timedelta(0)


def filled(path, **options: str) -> lk.Table:
    table = lk.create(path, COLUMNS, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "1", **options})
    for turn in range(3):
        table.upsert([{"p": turn % 2, "k": k, "v": f"{turn}"} for k in range(5)])
    return table


def planted(path: Path) -> list[Path]:
    """A file of each kind that nothing refers to."""
    found = [
        path / "manifest" / "manifest-00000000-0000-0000-0000-000000000000-0",
        path / "manifest" / "manifest-list-00000000-0000-0000-0000-000000000000-0",
        path / "manifest" / "index-manifest-00000000-0000-0000-0000-000000000000-0",
        path / "index" / "index-00000000-0000-0000-0000-000000000000-0",
        path / "statistics" / "stat-00000000-0000-0000-0000-000000000000-0",
        path / "snapshot" / ".snapshot-9.tmp",
        path / "changelog" / ".changelog-9.tmp",
    ]
    buckets = sorted({one.parent for one in path.rglob("bucket-*/*")})
    names = ("data-00000000-0000-0000-0000-000000000000-{}.parquet", "x-{}.index", ".data-{}.tmp")  # no name twice: the reference finds one of them
    found += [bucket / name.format(at) for at, bucket in enumerate(buckets) for name in names]
    for one in found:
        one.parent.mkdir(exist_ok=True)
        one.write_bytes(b"lost")
    return found


def aged(paths, days: float = 3) -> None:
    for path in paths:
        os.utime(path, (time.time() - days * 86400,) * 2)


def forget() -> None:
    """Nothing that was decoded is remembered, as in another process."""
    REAL_RUNTIME.metadata_cache.__init__(REAL_RUNTIME.metadata_cache.budget_bytes)


def test_a_dry_run_tells_and_the_other_removes(tmp_path):
    table = filled(tmp_path)
    lost, rows = planted(tmp_path), table.scan().sort("p", "k").collect()
    aged(lost)
    told = table.remove_orphans()
    assert set(told["path"]) == {str(one) for one in lost}
    assert set(told["kind"]) == {"data", "manifest", "index", "statistics", "temporary"}
    assert set(told["size_bytes"]) == {4}
    assert all(one.exists() for one in lost)
    assert table.remove_orphans(dry_run=False).equals(told)
    assert not any(one.exists() for one in lost)
    assert table.remove_orphans(older_than=NOW).is_empty()
    assert table.scan().sort("p", "k").collect().equals(rows)
    assert not list(tmp_path.rglob(".clock*"))


def test_what_died_among_roots_goes_and_files_of_others_stay(tmp_path):
    """The reference looks among snapshots and changelogs only."""
    table = filled(tmp_path)
    table.create_tag("v1")
    table.create_branch("b", tag="v1")
    ours = ["tag/.tag-v9.0b1c.tmp", "schema/.schema-9.0b1c.tmp", "consumer/.consumer-c.0b1c.tmp", ".clock-0b1c", "..clock-0b1c.9d.tmp"]
    ours += [f"branch/branch-b/{name}" for name in ours[:3]]
    others = ["tag/notes.txt", "tag/.notes.tmp", "schema/README", "schema/.tag-v9.tmp", "consumer/.DS_Store", ".clock", "my.tmp", ".my.tmp", "tag/.tag-v9.old"]
    for name in (*ours, *others):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"lost")
    assert table.remove_orphans(dry_run=False).is_empty()
    aged(tmp_path / name for name in (*ours, *others))
    assert set(table.remove_orphans(dry_run=False)["path"]) == {str(tmp_path / name) for name in ours}
    assert [name for name in (*ours, *others) if (tmp_path / name).exists()] == others


def test_young_files_stay(tmp_path):
    table = filled(tmp_path)
    lost = planted(tmp_path)
    assert table.remove_orphans(dry_run=False).is_empty()
    aged(lost[:2], days=0.5)
    assert len(table.remove_orphans(dry_run=False, older_than=timedelta(hours=6))) == 2
    aged(lost[2:4], days=2)
    assert len(table.remove_orphans(dry_run=False, older_than=datetime.now() - timedelta(days=1))) == 2  # noqa: DTZ005 - naive is local


def test_a_time_to_come_is_refused(tmp_path):
    table = filled(tmp_path)
    with pytest.raises(lk.InvalidOption, match="in the future"):
        table.remove_orphans(older_than=datetime.now() + timedelta(hours=1))  # noqa: DTZ005
    with pytest.raises(lk.InvalidOption, match="older_than"):
        table.remove_orphans(older_than="last week")


def test_what_a_commit_adds_meanwhile_is_no_orphan(tmp_path, monkeypatch):
    table = filled(tmp_path)
    read = orphan_files.reachability.read_all_roots
    monkeypatch.setattr(orphan_files, "AGE_MS", 0)

    def late(handle):
        monkeypatch.setattr(orphan_files.reachability, "read_all_roots", read)
        table.upsert([{"p": 0, "k": 99, "v": "late"}])
        return read(handle)

    monkeypatch.setattr(orphan_files.reachability, "read_all_roots", late)
    assert table.remove_orphans(dry_run=False, older_than=NOW).is_empty()
    assert table.check(deep=True).ok


def test_a_snapshot_that_expires_meanwhile_changes_nothing(tmp_path, monkeypatch):
    table = filled(tmp_path)
    read = orphan_files._referenced_names

    def late(handle, *some):
        monkeypatch.setattr(orphan_files, "_referenced_names", read)
        forget()
        table.expire_snapshots(retain_max=1, retain_min=1)
        return read(handle, *some)

    monkeypatch.setattr(orphan_files, "_referenced_names", late)
    assert table.remove_orphans(dry_run=False, older_than=NOW).is_empty()
    assert table.check(deep=True).ok


def test_a_table_without_roots_is_refused(tmp_path):
    table = filled(tmp_path)
    for one in (tmp_path / "snapshot").iterdir():
        one.unlink()
    with pytest.raises(lk.Conflict, match=r"refers to any file.*force=True"):
        table.remove_orphans(dry_run=False, older_than=NOW)
    assert list(tmp_path.rglob("data-*"))
    assert len(table.remove_orphans(dry_run=False, older_than=NOW, force=True))
    assert not list(tmp_path.rglob("data-*"))


@pytest.mark.parametrize("lost", [2, 3])
def test_files_of_a_snapshot_that_was_lost_stay(tmp_path, lost):
    """Of a small table too: what is left of the row of snapshots says so."""
    table = filled(tmp_path)
    gone = tmp_path / "snapshot" / f"snapshot-{lost}"
    kept = gone.read_bytes()
    gone.unlink()
    forget()
    before = on_disk(tmp_path)
    for dry_run in (True, False):
        with pytest.raises(lk.Conflict, match=r"(hint leads astray|snapshots are missing) in branch main.*t.repair\(\).*force=True"):
            lk.open(tmp_path).remove_orphans(dry_run=dry_run, older_than=NOW)
    assert on_disk(tmp_path) == before
    gone.write_bytes(kept)
    assert table.remove_orphans(dry_run=False, older_than=NOW).is_empty()
    assert table.check(deep=True).ok
    gone.unlink()
    lk.open(tmp_path).repair()
    assert len(lk.open(tmp_path).remove_orphans(dry_run=False, older_than=NOW))
    assert lk.open(tmp_path).check(deep=True).ok


def test_so_many_that_it_must_be_an_error(tmp_path):
    table = filled(tmp_path)
    lost = [tmp_path / "manifest" / f"manifest-{number}" for number in range(150)]
    for one in lost:
        one.write_bytes(b"")
    aged(lost)
    with pytest.raises(lk.Conflict, match=r"150 of \d+ files .* would go"):
        table.remove_orphans(dry_run=False, older_than=NOW)
    assert len(table.remove_orphans(dry_run=False, older_than=NOW, force=True)) == 150


@pytest.mark.long
@pytest.mark.parametrize("broken", ["manifest", "snapshot", "tag", "branch"])
def test_what_cannot_be_read_stops_everything(tmp_path, broken):
    table = filled(tmp_path)
    table.create_tag("v1")
    lost = planted(tmp_path)
    aged(lost)
    if broken == "manifest":
        next(one for one in (tmp_path / "manifest").iterdir() if one not in lost).unlink()
        forget()
    elif broken == "branch":
        (tmp_path / "branch" / "branch-b" / "snapshot").mkdir(parents=True)
    else:
        next((tmp_path / broken).glob(f"{broken}-*")).write_text("{")
    with pytest.raises(lk.LakekitError):
        lk.open(tmp_path).remove_orphans(dry_run=False)
    assert all(one.exists() for one in lost)


def test_files_that_point_elsewhere_are_not_followed(tmp_path):
    table = filled(tmp_path / "t")
    outside = tmp_path / "outside"
    (outside / "bucket-0").mkdir(parents=True)
    (outside / "bucket-0" / "data-precious.parquet").write_bytes(b"keep")
    (tmp_path / "t" / "p=7").symlink_to(outside)
    (tmp_path / "t" / "bucket-5").symlink_to(outside / "bucket-0")
    table.remove_orphans(dry_run=False, older_than=NOW)
    assert (outside / "bucket-0" / "data-precious.parquet").exists()


def test_empty_directories_go_when_they_are_old(tmp_path):
    table = filled(tmp_path)
    empty = tmp_path / "p=9" / "bucket-0"
    empty.mkdir(parents=True)
    table.remove_orphans(dry_run=False)
    assert empty.exists()
    aged([empty, empty.parent])
    table.remove_orphans(dry_run=False)
    assert not empty.parent.exists()
    assert (tmp_path / "p=1" / "bucket-0").exists()


@pytest.mark.long
@pytest.mark.parametrize("case", some([(kind, seed) for seed in range(38 if DEEP else 3) for kind in KINDS], 9))
def test_of_tables_of_chance_exactly_the_orphans_go(case, tmp_path):
    """Tags, branches, rollbacks, expiry, long-lived changelogs: what any of them needs is there, and read, when all orphans are gone."""
    kind, seed = case
    history = History(kind, seed, str(tmp_path))
    for _ in range(14):
        history.step()
    lost = planted(tmp_path)
    aged(lost)
    history.main.remove_orphans(dry_run=False, older_than=NOW, force=True)
    assert not any(one.exists() for one in lost)
    assert needed(tmp_path) <= on_disk(tmp_path)
    assert history.main.remove_orphans(older_than=NOW, force=True).is_empty()
    history.check()


def test_scenario_36_nothing_young_goes_right_after_a_failed_commit(tmp_path, monkeypatch):
    table = filled(tmp_path)
    with monkeypatch.context() as failing:
        failing.setattr("lakekit.commit.try_commit._create_snapshot_file", refuse)
        failing.setattr("lakekit.commit.abort.abort", lambda *_: None)  # and who wrote the rows died before tidying up
        with pytest.raises(lk.StorageFailed):
            table.upsert([{"p": 0, "k": 7, "v": "lost"}])
    before = on_disk(tmp_path)
    assert before > needed(tmp_path)
    assert table.remove_orphans(dry_run=False).is_empty()
    assert on_disk(tmp_path) == before
    aged(tmp_path / name for name in before - needed(tmp_path))
    assert not table.remove_orphans(dry_run=False).is_empty()
    assert on_disk(tmp_path) == needed(tmp_path)
    assert table.check(deep=True).ok


def refuse(*_):
    raise lk.StorageFailed("the disk is gone", path="snapshot")


def test_the_base_of_a_long_lived_changelog_stays_as_expiry_lets_it_stay(tmp_path):
    """Its manifests are the changelog's own where every commit merges them anew."""
    long = {"changelog.num-retained.min": "50", "changelog.num-retained.max": "50", "manifest.full-compaction-threshold-size": "1 b", "write-only": "true"}
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1", "manifest.merge-min-count": "2", **long})
    for number in range(5):
        table.upsert([{"k": number}])
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="9999-01-01")
    left = needed(tmp_path / "t")
    assert left == on_disk(tmp_path / "t")
    assert table.remove_orphans(older_than="0 ms", dry_run=False, force=True).is_empty()
    assert on_disk(tmp_path / "t") == left


@pytest.mark.parametrize("producer", ["full-compaction", "none"])
def test_an_expiry_that_died_among_manifests_does_not_stop_the_cleaning(tmp_path, producer):
    """The list of a delta may outlive its manifests: with a producer a long-lived changelog needs neither; without one it is the delta, and a loss is told."""
    long = {"changelog.num-retained.min": "50", "changelog.num-retained.max": "50", "changelog-producer": producer, "write-only": "true"}
    table = filled(tmp_path, **long)
    table.compact(full=True)
    table.compact_manifests()
    snapshot = table.snapshots().row(0, named=True)
    lists = {name: (tmp_path / "manifest" / name).read_bytes() for name in (snapshot["base_manifest_list"], snapshot["delta_manifest_list"])}
    manifests = set(tmp_path.glob("manifest/manifest-[0-9a-f]*"))
    table.expire_snapshots(retain_max=1, retain_min=1)
    for name, data in lists.items():
        (tmp_path / "manifest" / name).write_bytes(data)
    if producer == "none":
        for lost in manifests & set(tmp_path.glob("manifest/manifest-[0-9a-f]*")):
            lost.unlink()
        forget()
        with pytest.raises(lk.Corrupt, match="is missing"):
            lk.open(tmp_path).remove_orphans(older_than=NOW, dry_run=False)
        return
    forget()
    assert manifests - set(tmp_path.glob("manifest/manifest-[0-9a-f]*"))
    rows = table.scan().collect()
    lk.open(tmp_path).remove_orphans(older_than=NOW, dry_run=False)
    assert lk.open(tmp_path).scan().collect().equals(rows)
    assert lk.open(tmp_path).changes(since=0).collect().height == rows.height


@pytest.mark.parametrize("age", ["2 d", "36 h", "PT36H", timedelta(hours=36)])
def test_an_age_may_be_a_text(tmp_path, age):
    """As it may wherever else a duration is asked for."""
    table = lk.create(tmp_path / "t", {"k": "INT"})
    table.append([{"k": 1}])
    for name, days in (("data-old", 3), ("data-young", 1)):
        file = tmp_path / "t" / "bucket-0" / f"{name}.parquet"
        file.write_bytes(b"x")
        then = file.stat().st_mtime - days * 86_400
        os.utime(file, (then, then))
    assert [Path(one).name for one in table.remove_orphans(older_than=age)["path"]] == ["data-old.parquet"]


@pytest.mark.parametrize("age", ["2", "2000", "-2 d", "soon"])
def test_a_text_that_is_neither_a_time_nor_an_age(tmp_path, age):
    table = lk.create(tmp_path / "t", {"k": "INT"})
    with pytest.raises(lk.InvalidOption, match="older_than"):
        table.remove_orphans(older_than=age)


def test_orphans_outside_the_table_are_found_below_its_directory_too(tmp_path):
    """The reference writes files outside the table into `data-file.path-directory`, lakekit without it: what either lost goes."""
    outside = tmp_path / "outside"
    options = {"data-file.path-directory": "rows", "data-file.external-paths": f"file://{outside}", "data-file.external-paths.strategy": "round-robin"}
    table = filled(tmp_path / "t", **options)
    rows = table.scan().collect()
    lost = [outside / directory / "p=0" / "bucket-0" / f"data-{at}-0.parquet" for at, directory in enumerate(("", "rows"))]
    for one in lost:
        one.parent.mkdir(parents=True, exist_ok=True)
        one.write_bytes(b"lost")
    aged(lost)
    with pytest.warns(UserWarning, match="was not looked at: other tables may keep files there"):
        assert table.remove_orphans(dry_run=False).is_empty()
    assert all(one.exists() for one in lost)
    assert sorted(table.remove_orphans(dry_run=False, external=True)["path"]) == sorted(map(str, lost))
    assert not any(one.exists() for one in lost)
    assert table.scan().collect().equals(rows)
