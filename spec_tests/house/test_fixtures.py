"""Fixtures are bytes of known origin: every file is listed with its hash, and none is big."""

from __future__ import annotations

import hashlib
import json

import lakekit

FILE_BYTES, ALL_BYTES = 256 * 1024, 12 * 1024 * 1024
MEMBERS = {"path", "sha256", "bytes", "format", "version", "origin", "producer", "producer_version", "recipe", "spec"}


def listed(fixtures_path):
    return {record["path"]: record for record in json.loads((fixtures_path / "MANIFEST.json").read_text(encoding="utf-8"))}


def test_every_file_is_what_the_manifest_says(fixtures_path):
    records = listed(fixtures_path)
    files = {
        path.relative_to(fixtures_path).as_posix(): path
        for folder in ("tables", "formats", "broken", "flights")
        for path in (fixtures_path / folder).rglob("*")
        if path.is_file()
    }
    assert sorted(files) == sorted(records)
    wrong = []
    for name, path in files.items():
        data = path.read_bytes()
        if records[name]["bytes"] != len(data) or records[name]["sha256"] != hashlib.sha256(data).hexdigest():
            wrong.append(name)
    assert not wrong
    assert all(record.keys() >= MEMBERS for record in records.values())
    assert {record["origin"] for record in records.values()} <= {"reference", "hand", "lakekit"}


def test_none_is_big(fixtures_path):
    sizes = {
        path: path.stat().st_size for folder in ("tables", "formats", "broken", "flights") for path in (fixtures_path / folder).rglob("*") if path.is_file()
    }
    assert [path.name for path, size in sizes.items() if size > FILE_BYTES] == []
    assert sum(sizes.values()) <= ALL_BYTES


def test_broken_files_raise_errors_that_exist(fixtures_path):
    kinds = set()
    for path in (fixtures_path / "broken").rglob("*.json"):
        kinds.add(json.loads(path.read_text(encoding="utf-8"))["error"].split(":")[0])
    assert kinds
    assert kinds <= {name for name in dir(lakekit.errors) if isinstance(getattr(lakekit.errors, name), type)}
