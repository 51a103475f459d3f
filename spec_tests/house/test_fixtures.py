"""Fixtures are bytes of known origin: every file is listed with its hash, and none is big."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode

import pytest

import lakekit

FILE_BYTES, ALL_BYTES = 256 * 1024, 12 * 1024 * 1024
MADE = {"target", "__pycache__"}
SHARED = {"path", "format", "origin", "producer", "producer_version", "recipe", "spec", "files"}


def manifest(fixtures_path):
    return json.loads((fixtures_path / "MANIFEST.json").read_text(encoding="utf-8"))


def files(fixtures_path):
    found = (path for folder in ("tables", "formats", "broken", "flights", "writers") for path in (fixtures_path / folder).rglob("*") if path.is_file())
    return {path.relative_to(fixtures_path).as_posix(): path for path in found}


@pytest.mark.long
def test_every_file_is_what_the_manifest_says(fixtures_path):
    told = [
        (group["path"] + directory + name, said)
        for group in manifest(fixtures_path)
        for directory, names in group["files"].items()
        for name, said in names.items()
    ]
    found = files(fixtures_path)
    assert sorted(found) == sorted(name for name, _ in told)
    wrong = []
    for name, said in told:
        data = found[name].read_bytes()
        if said != [b64encode(hashlib.sha256(data).digest()).decode().rstrip("="), len(data)]:
            wrong.append(name)
    assert not wrong


def test_every_group_says_where_it_comes_from(fixtures_path, root):
    for group in manifest(fixtures_path):
        assert group.keys() - {"version"} == SHARED
        assert group["origin"] in ("reference", "hand", "lakekit")
        assert (group["origin"] == "reference") == (group["producer_version"] is not None)
        assert (root / "fixtures" / group["recipe"]).exists()


def test_none_is_big(fixtures_path, root):
    sizes = {path: path.stat().st_size for path in files(fixtures_path).values()}
    assert [path.name for path, size in sizes.items() if size > FILE_BYTES] == []
    recipes = [path for path in (root / "fixtures" / "recipes").rglob("*") if path.is_file() and not MADE.intersection(path.parts)]
    assert recipes
    assert sum(sizes.values()) + (fixtures_path / "MANIFEST.json").stat().st_size + sum(path.stat().st_size for path in recipes) <= ALL_BYTES


@pytest.mark.long
def test_no_path_of_the_machine_that_wrote_it(fixtures_path):
    places = re.compile(rb"/(?:tmp|home|root|var|work|Users)/")
    assert [name for name, path in files(fixtures_path).items() if places.search(path.read_bytes())] == []


def test_broken_files_raise_errors_that_exist(fixtures_path):
    kinds = set()
    for path in (fixtures_path / "broken").rglob("*.json"):
        kinds.add(json.loads(path.read_text(encoding="utf-8"))["error"].split(":")[0])
    assert kinds
    assert kinds <= {name for name in dir(lakekit.errors) if isinstance(getattr(lakekit.errors, name), type)}
