"""lakekit about itself, as frames: what it does, what may be set, and what it runs on."""

from __future__ import annotations

import platform
from importlib import metadata

import polars as pl

from lakekit.options.features import FEATURES


def features() -> pl.DataFrame:
    """Every feature that Paimon's documents name, one row each.

    Columns: feature, area, read, write, words, specified. `read` and `write` are "yes", "not yet", "refused" (with `Unsupported`, by this name) or "-"
    (no matter of that side).
    """
    rows = [(f.name, f.area, f.read, f.write, f.words, f.specified) for f in FEATURES.values()]
    return pl.DataFrame(rows, schema=dict.fromkeys(("feature", "area", "read", "write", "words", "specified"), pl.String), orient="row")


def versions() -> pl.DataFrame:
    """What lakekit runs on, one row a package: name, installed version (null: not installed) and what needs it."""
    rows: list[tuple[str, str | None, str]] = [("python", platform.python_version(), "always"), ("lakekit", _installed("lakekit"), "always")]
    for requirement in _requirements():
        name, _, condition = requirement.partition(";")
        package = name.split("[")[0].split(">")[0].split("<")[0].split("=")[0].split("!")[0].strip()
        extra = condition.partition("extra ==")[2].strip().strip("'\"")
        if package != "lakekit":
            rows.append((package, _installed(package), extra or "always"))
    return pl.DataFrame(rows, schema={"package": pl.String, "version": pl.String, "needed_by": pl.String}, orient="row")


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _requirements() -> list[str]:
    try:
        return metadata.requires("lakekit") or []
    except metadata.PackageNotFoundError:  # run from its sources, not installed
        return []
