"""Style is a test: ruff, mypy and the import contract run here, so that a review can talk about design."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LINTER = str(Path(sys.executable).with_name("lint-imports"))


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=300)


ASKS = """\
import lakekit as lk

reveal_type(lk.open("x").scan())
reveal_type(lk.features())
reveal_type(lk.Field("k", "INT").type)
lk.Field("k", 7)
"""
"""A program of somebody who has only `lakekit`; its last line is wrong."""


NAMES = """\
import polars as pl

from lakekit.columns import ROW, col, cols, drop_columns, struct_field


def right(frame: pl.DataFrame, lazy: pl.LazyFrame, name: str, names: list[str]) -> None:
    frame.select("k", ROW, col(name), *cols(names), pl.col("v").alias(name), pl.lit(name))
    lazy.group_by(cols(names)).agg(pl.len()).sort(col(name)).rename({name: "x"})
    frame.join(frame, on=cols(names)).unique(subset=[col(one) for one in names]).drop("k", ROW)
    drop_columns(frame, names).with_columns(pl.struct(cols(names)).alias(name), struct_field(pl.col("s"), name), frame[name])


def wrong(frame: pl.DataFrame, lazy: pl.LazyFrame, name: str, names: list[str]) -> None:
    pl.col(name)
    frame.select(names)
    lazy.select(one for one in names)
    frame.drop(*names)
    frame.sort("k", name)
    lazy.group_by([*names, "k"])
    frame.join(frame, on=names)
    frame.unique(subset=names)
    pl.struct(names)
    pl.col("s").struct.field(name)
    pl.len().over(name)
    pl.when(True).then(name)
    frame.cast({name: pl.Int64})
"""
"""A program that names columns; mypy's plugin `column_names.py` says so of every line of `wrong`, and of none of `right`."""


@pytest.fixture(scope="module")
def type_checked(request, tmp_path_factory):
    """What mypy says of the package and of `asks.py`, asked once, as lines.

    With a cache of this run alone: one that other runs write at the same time goes stale without saying so. It begins as a copy of what an earlier run
    left, an archive that took its place whole; of that mypy believes nothing whose source has changed.
    """
    place = tmp_path_factory.mktemp("mypy")
    kept = request.config.cache.mkdir("mypy") / "cache.tar"
    if kept.exists():
        shutil.unpack_archive(kept, place, filter="data")
    (place / "asks.py").write_text(ASKS)
    (place / "names.py").write_text(NAMES)
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(place), "lakekit", str(place / "asks.py"), str(place / "names.py")]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert "checked" in found.stdout, found.stdout[-6000:] + found.stderr[-2000:]
    Path(shutil.make_archive(f"{kept}.{os.getpid()}", "tar", place)).replace(kept)
    return found.stdout.splitlines()


@pytest.mark.parametrize("arguments", [("check",), ("format", "--check")], ids=["check", "format"])
def test_ruff(arguments):
    found = run(sys.executable, "-m", "ruff", *arguments, "lakekit", "spec_tests")
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]


@pytest.mark.long
def test_mypy_strict(type_checked):
    assert [line for line in type_checked if line.startswith("lakekit/")] == []


def test_names_that_are_data_are_handed_over_exactly(type_checked):
    """`pl.col(name)` reads `*` and `^…$` as patterns: see `lakekit.columns`."""
    found = [line.split(":") for line in type_checked if "names.py" in line]
    lines = NAMES.splitlines()
    wrong = range(lines.index(next(line for line in lines if line.startswith("def wrong"))) + 2, len(lines) + 1)
    assert {int(number) for _, number, *_ in found} == set(wrong)
    assert {line[-1].rpartition("[")[2] for line in found} == {"column-name]"}


def test_types_are_seen_from_outside(type_checked):
    """A type checker learns from `lakekit` alone that a scan is a LazyFrame, and that a field's type may be text."""
    [scan, features, of_field, wrong] = [line.partition(": ")[2] for line in type_checked if "asks.py" in line]
    assert "LazyFrame" in scan
    assert "DataFrame" in features
    assert "lakekit.types.DataType" in of_field
    assert wrong.startswith("error: Argument 2")


@pytest.mark.long
def test_imports_point_down():
    found = run(LINTER, "--no-cache")
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]


@pytest.mark.long
def test_the_import_contract_bites(tmp_path):
    """A stray module, an upward import, the machine, Polars and a guest where none may be: each breaks the contract that forbids it."""
    shutil.copytree(ROOT / "lakekit", tmp_path / "lakekit", ignore=shutil.ignore_patterns("__pycache__", "_fixtures"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "lakekit" / "utils.py").write_text("")
    errors = tmp_path / "lakekit" / "errors.py"
    errors.write_text(errors.read_text() + "\nimport os\nimport polars\nimport sqlglot\nimport lakekit.types\n")
    found = run(LINTER, "--no-cache", cwd=tmp_path)
    assert found.returncode == 1, found.stdout[-3000:] + found.stderr[-3000:]
    assert found.stdout.count("BROKEN") == 4, found.stdout[-6000:]
    assert "lakekit.utils" in found.stdout
