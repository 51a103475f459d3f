"""Golden files: `fixtures/` of a checkout, or unpacked from the archive of an installed lakekit.

    ~/.cache/lakekit/fixtures-1f2e3d4c5b6a7988/flights/…        a folder each, unpacked when it is first needed

    fixtures/formats/binary_row/nested.bin      the bytes
    fixtures/formats/binary_row/nested.json     {"format": "binary_row", "case": "nested", "about": …,
                                                 "origin": "reference" | "hand", …the recorded values…}
    fixtures/broken/manifest/kind_7.bin         bytes that are damaged
    fixtures/broken/manifest/kind_7.json        {…, "error": "Corrupt", "field": …, "offset": …}: how they are refused

The directory is named by the hash of the archive. A folder is unpacked aside and renamed, so that no process ever sees
half of one. Each process checks the files of a folder against the hashes of `MANIFEST.json` before it uses the folder:
a folder with damaged, missing or unknown files is unpacked again.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import shutil
import sys
import tarfile
import tempfile
from base64 import b64encode
from functools import cache
from pathlib import Path
from typing import Any

from lakekit.errors import Corrupt, StorageFailed

FIXTURE_FOLDERS = ("flights", "broken", "formats", "tables")
"""The folders of the archive."""
ARCHIVE_PATH = Path(__file__).parent.parent / "_fixtures.tar.xz"
"""The archive of fixtures in an installed lakekit; a checkout has none."""


def fixtures(*folders: str) -> Path:
    """Return the directory of fixtures: `tables/`, `formats/`, `broken/`, `flights/` and their `MANIFEST.json`.

    In a checkout this is the folder `fixtures/`. An installed lakekit unpacks `folders` from its archive first; no
    arguments: all folders.

    Raises:
        StorageFailed: the cache directory cannot be written.
        Corrupt: the archive of the installation is damaged.
    """
    if not ARCHIVE_PATH.is_file():
        return ARCHIVE_PATH.parent.parent / "fixtures"
    for folder in folders or FIXTURE_FOLDERS:
        _unpack_once(ARCHIVE_PATH, cache_directory(), folder)
    return _unpacked_directory(ARCHIVE_PATH, cache_directory())


def cache_directory() -> Path:
    """Return the cache directory of lakekit: below `XDG_CACHE_HOME`, or below the platform's cache directory.

    Raises:
        StorageFailed: there is no home directory.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    if Path(given).is_absolute():
        return Path(given, "lakekit")
    try:
        home = Path.home()
    except RuntimeError as error:
        raise StorageFailed(_format_advice("there is no home directory", "its cache"), path="~") from error
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "lakekit"


@cache
def _unpacked_directory(archive: Path, cache_path: Path) -> Path:
    return cache_path / f"fixtures-{hashlib.sha256(archive.read_bytes()).hexdigest()[:16]}"


@cache
def _unpack_once(archive: Path, cache_path: Path, folder: str) -> None:
    """Unpack a folder unless it is there with all its files; each process checks a folder once."""
    directory = _unpacked_directory(archive, cache_path)
    try:
        manifest = _read_manifest(archive)
        hashes = _read_hashes(manifest, folder)
        if not _is_whole(directory / folder, hashes):
            directory.mkdir(parents=True, exist_ok=True)
            _unpack_folder(archive, directory, folder, hashes)
        if not (directory / "MANIFEST.json").is_file():
            _write_whole(directory / "MANIFEST.json", manifest)
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError) as error:
        raise Corrupt(
            f"the golden files of this installation are damaged ({error}): install lakekit again", path=str(archive)
        ) from error
    except OSError as error:
        raise StorageFailed(
            _format_advice(error.strerror or str(error), str(directory)), path=str(directory)
        ) from error


def _format_advice(problem: str, directory: str) -> str:
    return (
        f"golden files cannot be unpacked into {directory}: {problem}; set XDG_CACHE_HOME to a folder that can be "
        "written"
    )


def _read_manifest(archive: Path) -> bytes:
    """Return the first file of the archive."""
    with tarfile.open(archive, "r|xz") as members:
        first = members.next()
        data = None if first is None else members.extractfile(first)
        return b"" if data is None else data.read()


def _read_hashes(manifest: bytes, folder: str) -> dict[str, list[object]]:
    """Return the hash and size of each file of a folder, by its path below it."""
    hashes: dict[str, list[object]] = {}
    for group in json.loads(manifest):
        for directory, files in group["files"].items():
            top, _, below = (group["path"] + directory).partition("/")
            if top == folder:
                hashes |= {below + name: recorded for name, recorded in files.items()}
    return hashes


def _is_whole(folder: Path, hashes: dict[str, list[object]]) -> bool:
    """Return whether a folder has the files of the archive, and no other files."""
    present = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    return present.keys() == hashes.keys() and all(
        _sha256(path.read_bytes()) == hashes[name] for name, path in present.items()
    )


def _sha256(data: bytes) -> list[object]:
    return [b64encode(hashlib.sha256(data).digest()).decode().rstrip("="), len(data)]


def _unpack_folder(archive: Path, directory: Path, folder: str, hashes: dict[str, list[object]]) -> None:
    """Unpack a folder into a temporary directory, and rename it.

    If another process was faster, its folder is kept; a damaged folder is moved away.
    """
    target = directory / folder
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=directory, ignore_cleanup_errors=True) as aside:
        _extract_folder(archive, Path(aside), folder)
        if not _is_whole(Path(aside, folder), hashes):
            msg = f"{folder}/ is not what its manifest says"
            raise ValueError(msg)
        try:
            Path(aside, folder).rename(target)
        except OSError:
            if _is_whole(target, hashes):
                return
            if not target.exists():
                raise
            target.rename(Path(aside, "damaged"))
            Path(aside, folder).rename(target)


def _extract_folder(archive: Path, target: Path, folder: str) -> None:
    """Write the files of a folder below a directory.

    The files of a folder follow each other in the archive: reading stops behind the last one.
    """
    begun = False
    with tarfile.open(archive, "r|xz") as members:
        for member in members:
            is_inside = member.name.startswith(f"{folder}/")
            if begun and not is_inside:
                return
            begun = is_inside
            data = members.extractfile(member) if is_inside else None
            if data is not None:
                path = target / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    shutil.copyfileobj(data, file)


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".unpacking-", delete=False) as file:
        file.write(data)
    Path(file.name).replace(path)


# ---- comparison ------------------------------------------------------------


class Mismatch(AssertionError):
    """A difference between an expected and an actual value."""

    def __init__(self, subject: str, expected: object, actual: object) -> None:
        super().__init__(f"{subject}: expected {expected!r}, found {actual!r}")
        self.subject, self.expected, self.actual = subject, expected, actual


def check_equal(subject: str, actual: object, expected: object) -> None:
    """Check that both values are equal.

    Raises: `Mismatch`; for lists and dicts it names the first item that differs.
    """
    if actual == expected:
        return
    if isinstance(actual, dict) and isinstance(expected, dict):
        for key in [*expected, *(key for key in actual if key not in expected)]:
            check_equal(f"{subject}.{key}", actual.get(key), expected.get(key))
    if isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        check_equal(f"how many {subject}", len(actual), len(expected))
        for number, (element, expected_element) in enumerate(zip(actual, expected, strict=True)):
            check_equal(f"{subject}[{number}]", element, expected_element)
    raise Mismatch(subject, expected, actual)


def golden_formats() -> list[str]:
    """Return the formats that have golden files."""
    return sorted(path.name for path in (fixtures("formats") / "formats").iterdir() if path.is_dir())


def golden_cases(*names: str) -> list[Path]:
    """Return the JSON file of each golden file of some formats; `path.with_suffix(".bin")` has the bytes."""
    return sorted(path for name in names for path in (fixtures("formats") / "formats" / name).glob("*.json"))


def broken_cases() -> list[Path]:
    """Return the JSON file of each damaged file."""
    return sorted((fixtures("broken") / "broken").rglob("*.json"))


def load_case(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the recorded facts and the bytes of a golden or damaged file, given by its JSON file."""
    facts: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return facts, path.with_suffix(".bin").read_bytes()
