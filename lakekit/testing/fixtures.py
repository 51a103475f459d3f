"""Where the fixtures are: inside an installed lakekit, or beside its sources."""

from __future__ import annotations

from pathlib import Path


def fixtures() -> Path:
    """The directory of fixtures: `tables/`, `formats/`, `broken/`, `flights/` and their `MANIFEST.json`."""
    package = Path(__file__).parent.parent
    installed = package / "_fixtures"
    return installed if installed.is_dir() else package.parent / "fixtures"
