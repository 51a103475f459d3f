"""What expiry and the cleaning of orphans ask of a disk: every metadata file once, however many snapshots need it; of files that are needed only names."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import polars as pl
import pytest

import lakekit as lk
from lakekit.maintenance import orphan_files
from lakekit.metadata import refs
from lakekit.storage.local import LocalStorage
from spec_tests.doors.test_orphans import aged, forget

COLUMNS = {"p": "INT", "k": "INT", "v": "STRING"}
COMMITS = 12


@pytest.fixture
def table(tmp_path):
    """A table of many commits, each of which replaces the files of one partition."""
    made = lk.create(tmp_path / "t", COLUMNS, partition_keys=["p"], options={"bucket": "-1", "write-only": "true"})
    made.append([{"p": p, "k": k, "v": "first"} for p in range(3) for k in range(3)])
    for turn in range(COMMITS):
        made.overwrite([{"p": turn % 3, "k": turn, "v": "again"}], partition={"p": turn % 3})
    forget()
    return made


@pytest.fixture
def asked(monkeypatch):
    """How often each file was read, and how often looked at."""
    found = {"read": Counter(), "stat": Counter()}
    for call, counted in found.items():
        real = getattr(LocalStorage, call)

        def count(self, path, *rest, _real=real, _counted=counted):
            _counted[path] += 1
            return _real(self, path, *rest)

        monkeypatch.setattr(LocalStorage, call, count)
    return found


@pytest.mark.long
@pytest.mark.parametrize("retained", [{"retain_max": 1, "retain_min": 1}, {"older_than": "2100-01-01", "retain_min": 2}])
def test_expiry_reads_each_file_once(table, asked, retained):
    gone = table.expire_snapshots(max_deletes=100, **retained)
    assert len(gone.snapshot_ids) >= COMMITS - 1
    metadata = {path: count for path, count in asked["read"].items() if "/manifest/" in path}
    assert len(metadata) > 2 * COMMITS
    assert set(metadata.values()) == {1}
    snapshots = {path: count for path, count in asked["read"].items() if "/snapshot/snapshot-" in path}
    assert sum(snapshots.values()) <= len(snapshots) + 5, snapshots  # the oldest first, and those that stay a second time
    assert table.scan().select(pl.len()).collect().item() == 3


def test_nothing_is_read_twice_where_nothing_is_old(table, asked):
    assert not table.expire_snapshots(older_than="2000-01-01", retain_min=1).snapshot_ids
    assert sum(count for path, count in asked["read"].items() if "/snapshot/snapshot-" in path) == 1
    assert not any("/manifest/" in path for path in asked["read"])


def test_orphans_are_looked_at_and_needed_files_are_not(table, asked, tmp_path):
    bucket = next((tmp_path / "t").glob("p=*/bucket-0"))
    lost = [bucket / f"data-lost-{at}.parquet" for at in range(3)]
    for path in lost:
        path.write_bytes(b"lost")
    aged(lost)
    asked["stat"].clear()
    found = table.remove_orphans(older_than=timedelta(0))
    assert sorted(found["path"]) == sorted(map(str, lost))
    assert found["size_bytes"].to_list() == [4, 4, 4]
    looked_at = {path for path in asked["stat"] if path.startswith(f"{tmp_path}/t/p=") and path.endswith(".parquet")}
    assert looked_at == set(map(str, lost))


def test_an_orphan_that_goes_while_roots_are_read_is_none(table, tmp_path, monkeypatch):
    bucket = next((tmp_path / "t").glob("p=*/bucket-0"))
    lost = [bucket / f"data-lost-{at}.parquet" for at in range(2)]
    for path in lost:
        path.write_bytes(b"lost")
    aged(lost)
    real = orphan_files._collect_referenced_names

    def slow(handle):
        lost[0].unlink(missing_ok=True)
        return real(handle)

    monkeypatch.setattr(orphan_files, "_collect_referenced_names", slow)
    assert table.remove_orphans(older_than=timedelta(0))["path"].to_list() == [str(lost[1])]


def test_names_are_those_of_the_listing(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / ".b.tmp").write_bytes(b"")
    (tmp_path / "inside").mkdir()
    (tmp_path / "to-file").symlink_to(tmp_path / "a")
    (tmp_path / "to-directory").symlink_to(tmp_path / "inside")
    (tmp_path / "to-nothing").symlink_to(tmp_path / "gone")
    storage = LocalStorage()
    assert sorted(storage.file_names(str(tmp_path))) == [one.name for one in storage.list(str(tmp_path)) if not one.is_dir] == [".b.tmp", "a", "to-file"]
    assert storage.file_names(str(tmp_path / "nowhere")) == storage.file_names(str(tmp_path / "a")) == []


def test_tags_are_listed_once_and_those_that_go_meanwhile_left_out(table, monkeypatch):
    for name in ("v1", "v2", "v3"):
        table.create_tag(name)
    handle = table._context()
    listed = LocalStorage.list

    def then_gone(self, directory):
        found = listed(self, directory)
        handle.storage.delete([handle.paths.tag("v2")])
        return found

    monkeypatch.setattr(LocalStorage, "list", then_gone)
    assert [tag.name for tag in refs.list_tags(handle)] == ["v1", "v3"]
