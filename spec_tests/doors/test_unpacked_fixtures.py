"""Golden files of an installed lakekit: unpacked once, by whoever is first, and noticed where they are not what they were."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from base64 import b64encode
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

from lakekit.errors import Corrupt, StorageFailed
from lakekit.testing import fixtures as unpacking

HOOK = spec_from_loader("hatch_build", SourceFileLoader("hatch_build", str(Path(__file__).parents[2] / ".hatch_build.py")))
hatch_build = module_from_spec(HOOK)
HOOK.loader.exec_module(hatch_build)
FILES = {
    "flights/a/one.bin": b"1" * 1000,
    "flights/a/two.bin": b"",
    "flights/top.json": b"{}",
    "broken/x.bin": b"xx",
    "formats/.hidden": b"h",
    "tables/t.json": b"[]",
}


@pytest.fixture
def archive(tmp_path, monkeypatch):
    source = tmp_path / "source"
    for name, data in FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    told = {name: [b64encode(hashlib.sha256(data).digest()).decode().rstrip("="), len(data)] for name, data in FILES.items()}
    groups = [
        {
            "path": "flights",
            "files": {"/": {"top.json": told["flights/top.json"]}, "/a/": {name: told[f"flights/a/{name}"] for name in ("one.bin", "two.bin")}},
        },
        {"path": "broken/", "files": {"": {"x.bin": told["broken/x.bin"]}}},
        {"path": "formats/.hid", "files": {"": {"den": told["formats/.hidden"]}}},
        {"path": "tables/t", "files": {"": {".json": told["tables/t.json"]}}},
    ]
    (source / "MANIFEST.json").write_text(json.dumps(groups))
    made = tmp_path / "fixtures.tar.xz"
    hatch_build.write_archive(source, made)
    monkeypatch.setattr(unpacking, "ARCHIVE_PATH", made)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    forget()
    return made


def forget():
    """As a new process begins."""
    unpacking._unpack_once.cache_clear()
    unpacking._unpacked_directory.cache_clear()


def held(directory):
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.name != "MANIFEST.json"}


def test_the_hook_packs_the_folders_that_are_unpacked():
    assert hatch_build.FOLDERS == unpacking.FIXTURE_FOLDERS


def test_a_checkout_reads_its_own(root):
    assert unpacking.fixtures() == root / "fixtures"
    assert unpacking.fixtures("flights") == root / "fixtures"


def test_equal_fixtures_make_equal_archives(archive, tmp_path):
    again = tmp_path / "again.tar.xz"
    hatch_build.write_archive(tmp_path / "source", again)
    assert again.read_bytes() == archive.read_bytes()


def test_what_is_needed_is_unpacked(archive, tmp_path):
    directory = unpacking.fixtures("flights")
    assert directory.parent == tmp_path / "cache" / "lakekit"
    assert held(directory) == {name: data for name, data in FILES.items() if name.startswith("flights/")}
    assert held(unpacking.fixtures()) == FILES
    assert (directory / "MANIFEST.json").read_bytes() == (tmp_path / "source" / "MANIFEST.json").read_bytes()
    assert not list(directory.glob(".unpacking-*"))


def test_what_is_there_is_not_unpacked_again(archive, monkeypatch):
    directory = unpacking.fixtures()
    forget()
    monkeypatch.setattr(unpacking, "_extract_folder", None)
    assert unpacking.fixtures() == directory


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "a/one.bin").write_bytes(b"1" * 999),
        lambda folder: (folder / "a/one.bin").write_bytes(b"1" * 999 + b"2"),
        lambda folder: (folder / "a/two.bin").unlink(),
        lambda folder: (folder / "a/three.bin").touch(),
        lambda folder: shutil.rmtree(folder / "a"),
    ],
    ids=["shorter", "changed", "gone", "more", "folder gone"],
)
def test_a_damaged_folder_is_unpacked_again(archive, damage):
    directory = unpacking.fixtures()
    damage(directory / "flights")
    forget()
    assert held(unpacking.fixtures()) == FILES


def test_what_a_process_left_that_died_while_unpacking_does_not_count(archive):
    directory = unpacking.fixtures("broken")
    (directory / ".unpacking-dead" / "flights").mkdir(parents=True)
    forget()
    assert held(unpacking.fixtures("flights") / "flights") == {"a/one.bin": b"1" * 1000, "a/two.bin": b"", "top.json": b"{}"}


def test_another_process_may_be_faster(archive, monkeypatch):
    extract = unpacking._extract_folder

    def overtaken(packed, target, folder):
        monkeypatch.setattr(unpacking, "_extract_folder", extract)
        extract(packed, target.parent, folder)
        extract(packed, target, folder)

    monkeypatch.setattr(unpacking, "_extract_folder", overtaken)
    directory = unpacking.fixtures("flights")
    assert sorted(path.name for path in directory.iterdir()) == ["MANIFEST.json", "flights"]


def test_processes_unpack_at_once(archive, tmp_path, root):
    code = (
        "from pathlib import Path\nfrom lakekit.testing import fixtures as unpacking\n"
        f"unpacking.ARCHIVE_PATH = Path({str(archive)!r})\ndirectory = unpacking.fixtures()\n"
        "print(sum(path.is_file() for folder in unpacking.FIXTURE_FOLDERS for path in (directory / folder).rglob('*')))"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root) for _ in range(4)]
    assert [process.communicate()[0].strip() for process in processes] == [str(len(FILES))] * 4
    [directory] = (tmp_path / "cache" / "lakekit").iterdir()
    assert held(directory) == FILES


def test_a_folder_that_cannot_be_written_is_told(archive, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(StorageFailed, match=r"golden files cannot be unpacked into .*: Not a directory; set XDG_CACHE_HOME to a folder that can be written"):
        unpacking.fixtures("flights")


def test_the_cache_is_where_the_platform_has_it(archive, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/home/of/someone")
    monkeypatch.setattr(unpacking.sys, "platform", "linux")
    assert unpacking.cache_directory() == Path("/home/of/someone/.cache/lakekit")
    monkeypatch.setattr(unpacking.sys, "platform", "darwin")
    assert unpacking.cache_directory() == Path("/home/of/someone/Library/Caches/lakekit")


def nowhere(_):
    msg = "no home"
    raise RuntimeError(msg)


def test_a_process_without_a_home_is_told(archive, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(unpacking.Path, "home", classmethod(nowhere))
    with pytest.raises(StorageFailed, match="there is no home directory; set XDG_CACHE_HOME"):
        unpacking.fixtures("flights")


@pytest.mark.parametrize(
    "damage", [lambda data: data[:200], lambda data: data[:100] + b"damaged" + data[107:], lambda _: b""], ids=["short", "changed", "none"]
)
def test_a_damaged_archive_is_told(archive, damage):
    archive.write_bytes(damage(archive.read_bytes()))
    with pytest.raises(Corrupt, match="install lakekit again"):
        unpacking.fixtures("flights")


def test_an_archive_of_other_files_is_told(archive, tmp_path):
    (tmp_path / "source" / "flights" / "top.json").write_bytes(b"[]")
    hatch_build.write_archive(tmp_path / "source", archive)
    with pytest.raises(Corrupt, match="flights/ is not what its manifest says"):
        unpacking.fixtures("flights")
