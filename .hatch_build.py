"""Build hook of the wheel.

What `fixtures/MANIFEST.json` lists travels as one archive, `lakekit/_fixtures.tar.xz`, and not as thousands of files.
"""

from __future__ import annotations

import io
import json
import lzma
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("flights", "broken", "formats", "tables")
"""The folders that travel, those that are needed most first; `writers` is for tests alone."""


def write_archive(fixtures: Path, target: Path) -> None:
    """Write the archive of a directory of fixtures: its manifest, then the folders; equal files make equal bytes."""
    manifest = (fixtures / "MANIFEST.json").read_bytes()
    names = sorted(
        group["path"] + directory + name
        for group in json.loads(manifest)
        for directory, files in group["files"].items()
        for name in files
    )
    with (
        lzma.open(target, "wb", preset=9) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        _add(archive, "MANIFEST.json", manifest)
        for folder in FOLDERS:
            for name in names:
                if name.startswith(f"{folder}/"):
                    _add(archive, name, (fixtures / name).read_bytes())


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


class FixturesHook(BuildHookInterface[Any]):
    """Adds the archive to a wheel; an editable install reads `fixtures/` itself."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the archive."""
        if version == "editable":
            return
        self._made = tempfile.TemporaryDirectory()
        archive = Path(self._made.name, "_fixtures.tar.xz")
        write_archive(Path(self.root, "fixtures"), archive)
        build_data["force_include"][str(archive)] = "lakekit/_fixtures.tar.xz"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling calls it so
        """Remove what was made."""
        if version != "editable":
            self._made.cleanup()
