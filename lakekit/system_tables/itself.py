"""Frames about lakekit: its features, options, and the packages it runs on."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import polars as pl

from lakekit.options.features import FEATURES
from lakekit.options.table_options import list_options


def features() -> pl.DataFrame:
    """Return every feature that Paimon's documents name, one row each.

    Columns: feature, area, read, write, words, specified. `read` and `write` are "yes", "refused" (with `Unsupported`,
    by this name) or "-" (no matter of that side).
    """
    descriptions = {f"option.{option['key']}": option["words"] for option in list_options()}
    rows = [
        (f.name, f.area, f.read, f.write, f.words or descriptions.get(f.name, ""), f.specified)
        for f in FEATURES.values()
    ]
    return pl.DataFrame(
        rows, schema=dict.fromkeys(("feature", "area", "read", "write", "words", "specified"), pl.String), orient="row"
    )


def options() -> pl.DataFrame:
    """Return every option of a table that lakekit knows, one row each.

    Columns: key, type, default (as text, null without one), fixed (whether it can change once the table has a
    snapshot), choices, older_keys (names it had in older releases), words.
    """
    texts = pl.List(pl.String)
    columns: dict[str, Any] = {
        "key": pl.String,
        "type": pl.String,
        "default": pl.String,
        "fixed": pl.Boolean,
        "choices": texts,
        "older_keys": texts,
        "words": pl.String,
    }
    return pl.DataFrame(list(list_options()), schema=columns)


def versions() -> pl.DataFrame:
    """Return the packages that lakekit runs on, one row each.

    Columns are name, installed version (null: not installed) and what needs it.
    """
    rows: list[tuple[str, str | None, str]] = [
        ("python", platform.python_version(), "always"),
        ("lakekit", _installed_version("lakekit"), "always"),
    ]
    for requirement in _requirements():
        name, _, condition = requirement.partition(";")
        package = name.split("[")[0].split(">")[0].split("<")[0].split("=")[0].split("!")[0].strip()
        extra = condition.partition("extra ==")[2].strip().strip("'\"")
        if package != "lakekit":
            rows.append((package, _installed_version(package), extra or "always"))
    return pl.DataFrame(rows, schema={"package": pl.String, "version": pl.String, "needed_by": pl.String}, orient="row")


def _installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _requirements() -> list[str]:
    try:
        return metadata.requires("lakekit") or []
    except metadata.PackageNotFoundError:  # run from its sources, not installed
        return []
