"""The recipes of tables and formats, run again, tell what the committed fixtures tell."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lakekit.testing.expectations import load_golden_table
from spec_tests.differential.regenerated import meaning, of_format
from spec_tests.places import FIXTURES

pytestmark = [pytest.mark.reference, pytest.mark.timeout(1800)]
RECIPES = Path(FIXTURES, "recipes")
JAVA = ("java", "-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.timezone=UTC")
MADE_BY = {(group["path"], group["recipe"]) for group in json.loads(Path(FIXTURES, "MANIFEST.json").read_bytes())}
FORMATS = sorted({path.rstrip("/") for path, recipe in MADE_BY if recipe == "recipes/formats_by_reference"})
TABLES = sorted(path.removeprefix("tables/") for path, recipe in MADE_BY if recipe == "recipes/by_reference")
OLD_TABLES = sorted(path.removeprefix("tables/") for path, recipe in MADE_BY if (path[:7], recipe) == ("tables/", "recipes/old_engines"))


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    """A directory with the tables and formats of engine 1.4.2, made just now."""
    here = tmp_path_factory.mktemp("again")
    for name, jar, words in (("by_reference", "golden", ["golden.Main", "tables"]), ("formats_by_reference", "formats", ["Main", "formats"])):
        project = here / "recipes" / name
        shutil.copytree(RECIPES / name, project, ignore=shutil.ignore_patterns("target"))
        subprocess.run(["mvn", "-q", "package"], cwd=project, check=True)
        classes = f"{project}/target/{jar}.jar:{project}/target/lib/*"
        subprocess.run([*JAVA, f"-Djava.io.tmpdir={here}", "-cp", classes, *words, str(here)], check=True, stdout=subprocess.DEVNULL)
    return here


def test_the_same_tables_are_made(again):
    made = {path.stem for path in (again / "tables").glob("*.json")}
    assert made == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_tells_the_same(again, name):
    assert meaning(load_golden_table(name, root=str(again))) == meaning(load_golden_table(name))


@pytest.fixture(scope="module")
def old_again(again):
    """The same directory with the tables of the older engines, read again by 1.4.2."""
    project = again / "recipes" / "old_engines"
    shutil.copytree(RECIPES / "old_engines", project, ignore=shutil.ignore_patterns("target"))
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run(["sh", "run.sh", str(again)], cwd=project, env=environment, check=True, stdout=subprocess.DEVNULL)
    return again


@pytest.mark.deep  # three engines are made for them, and none of those changes any more
@pytest.mark.parametrize("name", OLD_TABLES)
def test_a_table_of_an_older_engine_tells_the_same(old_again, name):
    assert meaning(load_golden_table(name, root=str(old_again))) == meaning(load_golden_table(name))


def formats(root, folder):
    """What the newest engine's cases of a format say; others are made by hand and by older engines."""
    found = {path.name: of_format(path) for path in sorted(Path(root, folder).glob("*.json"))}
    return {name: said for name, said in found.items() if (said["origin"], said["producer_version"]) == ("reference", "1.4.2")}


@pytest.mark.parametrize("folder", FORMATS)
def test_a_format_tells_the_same(again, folder):
    assert formats(again, folder) == formats(FIXTURES, folder)
