"""The wheel: built from the checkout, unpacked elsewhere, it runs the demo with what it carries."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import pytest

from spec_tests.house.source import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(place), str(ROOT)]
    made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=place)
    assert made.returncode == 0, made.stderr
    return next(place.glob("lakekit-*.whl"))


@pytest.mark.long
def test_it_carries_the_package_the_fixtures_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "lakekit/py.typed" in names
    assert "lakekit/_fixtures/flights/flights.json" in names
    assert not [name for name in names if not name.startswith(("lakekit/", "lakekit-"))]
    assert not [name for name in names if "/recipes/" in name or "__pycache__" in name]


@pytest.mark.long
def test_the_demo_runs_from_it(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-W", "error", "-m", "lakekit.cli.main", "demo"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert "_fixtures" in ran.stdout


@pytest.mark.long
def test_the_suite_for_other_authors_runs_from_it(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    (tmp_path / "mine.py").write_text("import lakekit as lk\n\ndef read(path, options):\n    return lk.open(path).scan()\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "PYTHONSAFEPATH": "1"}
    for more, areas in (([], ("formats/bucket", "broken/tag", "writes/first-row")), (["--reader", "mine:read"], ("tables/vectors", "damaged/manifest"))):
        command = [sys.executable, "-W", "error", "-m", "lakekit.cli.main", "conformance", *more, *(word for area in areas for word in ("--area", area))]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert {line.split("\t")[0] for line in ran.stdout.splitlines()[1:]} == set(areas)
