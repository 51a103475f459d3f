"""The laws of every storage: run each on a fresh storage and a missing directory of it.

@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_mine(law, tmp_path): law(MyStorage(), str(tmp_path / "new"))
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from lakekit.errors import StorageFailed
from lakekit.storage.protocol import FileMissing, Storage

if TYPE_CHECKING:
    from collections.abc import Callable


def _refusal(ask: Callable[[str], object], path: str) -> StorageFailed | None:
    try:
        ask(path)
    except StorageFailed as refusal:
        return refusal
    return None


NAMES = (
    "plain",
    "with blank",
    "p=a%2Fb%3Dc",
    "dt=2024-01-01T00%3A00",
    "湖仓",
    "e\u0301",
    "-dash",
    ".hidden",
    "a+b&c~d@e!",
    "x" * 200,
)


def what_is_put_is_read(storage: Storage, directory: str) -> None:
    """Check that a file holds what was put, whole and in parts, and is replaced in one step."""
    path = f"{directory}/deep/er/file"
    storage.put(path, b"0123456789")
    assert storage.read(path) == b"0123456789"
    assert storage.read(path, 3) == b"3456789"
    assert storage.read(path, 3, 4) == b"3456"
    assert storage.read(path, 8, 100) == b"89"
    assert storage.read(path, 100) == b""
    assert storage.read(path, 2, 0) == b""
    assert (storage.size(path), storage.exists(path)) == (10, True)
    storage.put(path, b"")
    assert (storage.read(path), storage.size(path)) == (b"", 0)


def a_missing_file_is_told_apart(storage: Storage, directory: str) -> None:
    """Check that reading a missing file raises `FileMissing`, a `FileNotFoundError`, with the path.

    Looking for it does not raise.
    """
    path = f"{directory}/none"
    for ask in (storage.read, storage.size):
        refusal = _refusal(ask, path)
        assert isinstance(refusal, FileMissing)
        assert isinstance(refusal, FileNotFoundError)
        assert refusal.path == path
    assert storage.stat(path) is None
    assert not storage.exists(path)
    assert storage.list(directory) == []
    storage.delete([path])
    storage.put(f"{directory}/file", b"x")
    assert storage.stat(f"{directory}/file/below") is None
    assert storage.list(f"{directory}/file") == []


def names_are_kept(storage: Storage, directory: str) -> None:
    """Check that every name a table uses is kept as it is, and that different names are different files."""
    for name in NAMES:
        storage.put(f"{directory}/{name}", name.encode())
    assert [stat.name for stat in storage.list(directory)] == sorted(NAMES)
    for name in NAMES:
        assert storage.read(f"{directory}/{name}") == name.encode()


def a_listing_says_what_lies_there(storage: Storage, directory: str) -> None:
    """Check that a listing has one level by name: files with sizes, directories; no deleted files."""
    storage.put(f"{directory}/b", b"22")
    storage.put(f"{directory}/a", b"1")
    storage.put(f"{directory}/c/inside", b"333")
    storage.put(f"{directory}2/other", b"")
    listed = storage.list(directory)
    assert [(stat.name, stat.is_dir) for stat in listed] == [("a", False), ("b", False), ("c", True)]
    assert [stat.size_bytes for stat in listed if not stat.is_dir] == [1, 2]
    assert [stat.path for stat in storage.list(f"{directory}/")] == [stat.path for stat in listed]
    assert [stat.name for stat in storage.list(f"{directory}/c")] == ["inside"]
    storage.delete([f"{directory}/a", f"{directory}/none", f"{directory}/b"])
    assert [stat.name for stat in storage.list(directory)] == ["c"]


def a_tag_follows_the_content(storage: Storage, directory: str) -> None:
    """Check that a file that was replaced has another tag, and one that was not has the same."""
    path = f"{directory}/file"
    storage.put(path, b"1")
    first, repeated = storage.stat(path), storage.stat(path)
    assert first is not None
    assert first == repeated
    storage.put(path, b"22")
    second = storage.stat(path)
    assert second is not None
    assert first.tag is None or first.tag != second.tag


def a_claim_has_one_winner(storage: Storage, directory: str) -> None:
    """Check that of many concurrent claims of a name exactly one wins.

    The file is the winner's, and a repeated claim of the winner is true.
    """
    for round_number in range(3):
        path = f"{directory}/snapshot-{round_number}"
        claims = [f"writer {number}".encode() for number in range(8)]
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda claim, path=path: storage.put_if_absent(path, claim), claims))
        assert sum(won) == 1
        assert storage.read(path) == claims[won.index(True)]
        assert storage.put_if_absent(path, claims[won.index(True)])
        assert not storage.put_if_absent(path, b"somebody else")
        assert storage.read(path) == claims[won.index(True)]
    assert len(storage.list(directory)) == 3, "a claim leaves nothing beside its file"


def a_written_file_appears_whole(storage: Storage, directory: str) -> None:
    """Check that a file appears when its block is left, complete, and not after an exception."""
    path = f"{directory}/data"
    with storage.open_write(path) as file:
        file.write(b"first ")
        assert not storage.exists(path)
        file.write(b"second")
    assert storage.read(path) == b"first second"
    with suppress(ZeroDivisionError), storage.open_write(f"{directory}/broken") as file:
        file.write(b"half")
        file.write(bytes(1 // (len(path) - len(path))))
    assert [stat.name for stat in storage.list(directory)] == ["data"]


def only_empty_directories_go(storage: Storage, directory: str) -> None:
    """Check that a directory with a file in it stays and one without is removed.

    A missing one is ignored.
    """
    for name in ("full/file", "empty/file"):
        storage.put(f"{directory}/{name}", b"x")
    storage.delete([f"{directory}/empty/file"])
    storage.remove_directories([f"{directory}/full", f"{directory}/empty", f"{directory}/none", f"{directory}/full/file"])
    assert [stat.path for stat in storage.list(directory)] == [f"{directory}/full"]
    assert storage.read(f"{directory}/full/file") == b"x"


LAWS: tuple[Callable[[Storage, str], None], ...] = (
    what_is_put_is_read,
    a_missing_file_is_told_apart,
    names_are_kept,
    a_listing_says_what_lies_there,
    a_tag_follows_the_content,
    a_claim_has_one_winner,
    a_written_file_appears_whole,
    only_empty_directories_go,
)
