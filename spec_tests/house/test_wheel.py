"""The wheel: built from the checkout, unpacked elsewhere, it runs the demo with what it carries."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import pytest

from spec_tests.house.source import ROOT

MOST_BYTES, MOST_FILES = 6 << 20, 700


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(place), str(ROOT)]
    made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=place)
    assert made.returncode == 0, made.stderr
    return next(place.glob("lakekit-*.whl"))


@pytest.fixture
def installed(wheel, tmp_path):
    """Runs a verb of the shell from the unpacked wheel, with a cache of its own."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "PYTHONSAFEPATH": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run(*words, **more):
        command = [sys.executable, "-W", "error", "-m", "lakekit.cli.main", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env={**environment, **more})

    return run


@pytest.mark.long
def test_it_carries_the_package_an_archive_of_the_fixtures_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "lakekit/py.typed" in names
    assert [name for name in names if "_fixtures" in name] == ["lakekit/_fixtures.tar.xz"]
    assert not [name for name in names if not name.startswith(("lakekit/", "lakekit-"))]
    assert not [name for name in names if "__pycache__" in name]


@pytest.mark.long
def test_it_is_small(wheel):
    size, count = wheel.stat().st_size, len(zipfile.ZipFile(wheel).namelist())
    print(f"{size} bytes, {count} files")
    assert size <= MOST_BYTES
    assert count <= MOST_FILES


@pytest.mark.long
def test_the_demo_runs_from_it_and_unpacks_only_its_table(installed, tmp_path):
    ran = installed("demo")
    assert (ran.returncode, ran.stderr) == (0, "")
    [unpacked] = (tmp_path / "cache" / "lakekit").iterdir()
    assert str(unpacked / "flights" / "table") in ran.stdout
    assert sorted(path.name for path in unpacked.iterdir()) == ["MANIFEST.json", "flights"]


@pytest.mark.long
def test_a_cache_that_cannot_be_written_is_told(installed, tmp_path):
    (tmp_path / "file").touch()
    ran = installed("demo", XDG_CACHE_HOME=str(tmp_path / "file"))
    assert ran.returncode == 1
    assert ran.stderr.startswith("lakekit: golden files cannot be unpacked into ")
    assert "set XDG_CACHE_HOME to a folder that can be written" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.long
def test_the_suite_for_other_authors_runs_from_it(installed, tmp_path):
    (tmp_path / "mine.py").write_text("import lakekit as lk\n\ndef read(path, options):\n    return lk.open(path).scan()\n")
    for more, areas in (([], ("formats/bucket", "broken/tag", "writes/first-row")), (["--reader", "mine:read"], ("tables/vectors", "damaged/manifest"))):
        ran = installed("conformance", *more, *(word for area in areas for word in ("--area", area)))
        assert (ran.returncode, ran.stderr) == (0, "")
        assert {line.split("\t")[0] for line in ran.stdout.splitlines()[1:]} == set(areas)
