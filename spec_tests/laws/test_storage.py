"""The laws of a storage, on the local disk and in memory; and what only the disk can do wrong."""

from __future__ import annotations

import errno
import io
import os
import pickle
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakekit import storage as storages
from lakekit.errors import CommitStateUnknown, InvalidOption, StorageFailed, Unsupported
from lakekit.storage.atomic_write import DeferredSync, defer_sync, put_all, sync_all
from lakekit.storage.local import LocalStorage
from lakekit.storage.memory import MemoryStorage
from lakekit.storage.protocol import FileMissing, Storage
from spec_tests.reliability.power import Power
from spec_tests.storage_suite import LAWS

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("make", [LocalStorage, DeferredSync, MemoryStorage])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_laws(law: Callable[[Storage, str], None], make: Callable[[], Storage], tmp_path: Path) -> None:
    storage = make()
    assert isinstance(storage, Storage)
    law(storage, str(tmp_path / "new"))


def test_polars_opens_local_files_itself_and_no_others() -> None:
    assert LocalStorage().polars_path("/a/b [1].parquet") == "/a/b [1].parquet"
    assert MemoryStorage().polars_path("/a") is None


def test_memory_counts_what_it_was_asked() -> None:
    storage = MemoryStorage()
    storage.put("/a", b"1")
    storage.read("/a")
    storage.read("/a")
    assert (storage.count("read"), storage.count("put"), storage.count("list")) == (2, 1, 0)


def test_only_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opening one for reading would wait for a writer
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(StorageFailed, match=r"is no file|Is a directory"):
            LocalStorage().read(str(path))


@pytest.mark.parametrize("path", ["/tmp/a\0b", "/tmp/\ud800", "/tmp/" + "x" * 300])
def test_impossible_paths_are_refused(path: str) -> None:
    storage = LocalStorage()
    for ask in (storage.read, storage.stat, storage.list, lambda path: storage.put(path, b""), lambda path: storage.delete([path])):
        with pytest.raises(StorageFailed) as raised:
            ask(path)
        assert raised.value.path == path
        assert str(raised.value).isprintable()


def test_unreadable_files_name_their_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "file").write_bytes(b"1")
    monkeypatch.setattr(io, "FileIO", refuse)
    with pytest.raises(StorageFailed, match="Permission denied") as raised:
        LocalStorage().read(str(tmp_path / "file"))
    assert not isinstance(raised.value, FileMissing)


def test_directories_elsewhere_are_not_listed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for directory in (inside, outside):
        directory.mkdir()
        (directory / "file").write_bytes(b"1")
    (inside / "link").symlink_to(outside)
    (inside / "nowhere").symlink_to(tmp_path / "gone")
    (inside / "linked file").symlink_to(outside / "file")
    assert [one.name for one in LocalStorage().list(str(inside))] == ["file", "linked file"]


def test_a_file_system_without_links_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **_named: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(Unsupported, match="no hard links") as raised:
        LocalStorage().put_if_absent(str(tmp_path / "snapshot-1"), b"1")
    assert raised.value.feature == "storage.hard-links"
    assert list(tmp_path.iterdir()) == []


def test_a_claim_nobody_can_judge_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **_named: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(CommitStateUnknown):
        LocalStorage().put_if_absent(str(tmp_path / "snapshot-1"), b"1")


def test_a_claim_whose_answer_was_lost_is_found_to_be_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def lose(*paths: str, **directories: Any) -> None:
        link(*paths, **directories)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", lose)
    assert LocalStorage().put_if_absent(str(tmp_path / "snapshot-1"), b"1")


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/a/b/", "/a/b"),
        ("/a/../c//d", "/c/d"),
        ("file:///a%20b/%E6%B9%96", "/a b/湖"),
        ("file:/a/b", "/a/b"),
        ("file://localhost/a", "/a"),
        ("file:///a#b?c", "/a#b?c"),
        ("/a%20b", "/a%20b"),
        (Path("/x y"), "/x y"),
    ],
)
def test_locations(location: str | Path, path: str) -> None:
    storage, found = storages.open(location)
    assert isinstance(storage, LocalStorage)
    assert found == path


def test_relative_locations_stay_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert storages.open("t")[1] == str(tmp_path / "t")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert storages.open("~/t")[1] == "/home/somebody/t"


@pytest.mark.parametrize(("location", "feature"), [("hdfs://n:8020/t", "storage.hdfs"), ("http://h/t", "storage.http")])
def test_other_storages_are_refused_by_name(location: str, feature: str) -> None:
    with pytest.raises(Unsupported) as raised:
        storages.open(location)
    assert raised.value.feature == feature


@pytest.mark.parametrize("location", ["", "  ", "file://host/a", "file:///%ff"])
def test_broken_locations(location: str) -> None:
    with pytest.raises(InvalidOption):
        storages.open(location)


def test_a_location_is_text_or_a_path() -> None:
    with pytest.raises((TypeError, AttributeError)):
        storages.open(7)  # type: ignore[arg-type]


def test_local_storage_pickles() -> None:
    assert pickle.loads(pickle.dumps(LocalStorage())) == LocalStorage()


def test_files_written_together_are_synced_before_the_first_has_its_name(tmp_path, monkeypatch):
    calls = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append("directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"), sync(handle))[1])
    monkeypatch.setattr(os, "replace", lambda *names, **directories: (calls.append("named"), replace(*names, **directories))[1])
    files = [(str(tmp_path / f"manifest-{number}"), bytes([number])) for number in range(3)]
    put_all(LocalStorage(), files)
    assert calls == ["file"] * 3 + ["named"] * 3 + ["directory"]
    assert [LocalStorage().read(path) for path, _ in files] == [data for _, data in files]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest-0", "manifest-1", "manifest-2"]


def test_files_that_cannot_be_synced_together_leave_nothing(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFailed, match="No space left"):
        put_all(LocalStorage(), [(str(tmp_path / name), b"data") for name in ("a", "b")])
    assert list(tmp_path.iterdir()) == []
    storage = MemoryStorage()
    put_all(storage, [("/t/a", b"1"), ("/t/b", b"2")])
    assert storage.read("/t/b") == b"2"


@pytest.fixture
def power(monkeypatch):
    return Power(monkeypatch)


def put(storage: Storage, path: Path, data: bytes = b"data") -> str:
    with storage.open_write(str(path)) as file:
        file.write(data)
    return str(path)


def test_what_is_gathered_is_safe_before_anything_is_claimed(tmp_path, power):
    storage = defer_sync(LocalStorage())
    paths = [put(storage, tmp_path / "bucket-0" / "data-0"), put(storage, tmp_path / "bucket-1" / "data-0")]
    put_all(storage, [(str(tmp_path / "manifest" / name), name.encode()) for name in ("a", "b")])
    paths += [str(tmp_path / "manifest" / name) for name in ("a", "b")]
    assert not power.safe & set(paths)
    assert [LocalStorage().exists(path) for path in paths] == [True] * 4
    assert storage.put_if_absent(str(tmp_path / "snapshot-1"), b"1")
    assert power.claimed[str(tmp_path / "snapshot-1")] >= set(paths)
    power.safe.clear()
    assert storage.put_if_absent(str(tmp_path / "snapshot-2"), b"2")
    assert not power.safe & set(paths)  # once is enough


def test_what_is_gathered_is_safe_once_it_is_settled(tmp_path, power):
    storage = defer_sync(LocalStorage())
    path = put(storage, tmp_path / "data-0")
    assert path not in power.safe
    sync_all(storage)
    assert path in power.safe & power.named


def test_big_files_are_safe_at_once(tmp_path, power):
    path = put(defer_sync(LocalStorage()), tmp_path / "data-0", bytes(2 << 20))
    assert path in power.safe & power.named


def test_what_could_not_be_synced_is_never_taken_for_safe(tmp_path, power):
    storage = defer_sync(LocalStorage())
    path = put(storage, tmp_path / "data-0")
    power.failing = "data-0"
    with pytest.raises(StorageFailed, match="data-0: Input/output error"):
        storage.put_if_absent(str(tmp_path / "snapshot-1"), b"1")
    power.failing = ""  # the system forgets that it failed
    for _ in range(2):
        with pytest.raises(StorageFailed, match="data-0 could not be synced: its rows must be written again"):
            storage.put_if_absent(str(tmp_path / "snapshot-1"), b"1")
    storage.delete([path])
    assert storage.put_if_absent(str(tmp_path / "snapshot-1"), b"1")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["snapshot-1"]


def test_names_that_could_not_be_synced_are_never_taken_for_safe(tmp_path, power):
    storage = defer_sync(LocalStorage())
    paths = [put(storage, tmp_path / "bucket-0" / name) for name in ("data-0", "data-1")]
    power.failing = "bucket-0"
    with pytest.raises(StorageFailed, match="bucket-0/: Input/output error"):
        sync_all(storage)
    power.failing = ""
    for path in paths:
        with pytest.raises(StorageFailed, match=f"{path} could not be synced"):
            sync_all(storage)
        storage.delete([path])
    sync_all(storage)


def test_a_file_that_is_gone_is_told_when_it_should_be_safe(tmp_path):
    storage = defer_sync(LocalStorage())
    Path(put(storage, tmp_path / "data-0")).unlink()
    with pytest.raises(FileMissing, match="data-0"):
        sync_all(storage)


def test_gathering_is_the_local_disk_and_no_other():
    storage = defer_sync(LocalStorage())
    assert storage == LocalStorage() == storage
    assert hash(storage) == hash(LocalStorage())
    assert {("kept", LocalStorage()): 1}[("kept", storage)] == 1
    assert type(pickle.loads(pickle.dumps(storage))) is LocalStorage
    memory = MemoryStorage()
    assert defer_sync(memory) is memory
    sync_all(memory)
    assert defer_sync(storage) is storage
