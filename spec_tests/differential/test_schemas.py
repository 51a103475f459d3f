"""Tables made and altered by lakekit and by the reference have the same schema files."""

from __future__ import annotations

import json

import pytest

from spec_tests.differential.judge import Refused
from spec_tests.differential.players import ByLakekit, ByReference
from spec_tests.differential.scripts import Alter, script

pytestmark = [pytest.mark.reference, pytest.mark.timeout(600)]
SEEDS = range(150)


def schemas(path):
    """The facts of the schema files, oldest first; only the moment differs."""
    found = sorted((path / "schema").glob("schema-*"), key=lambda file: int(file.name.removeprefix("schema-")))
    return [{key: value for key, value in json.loads(file.read_bytes()).items() if key != "timeMillis"} for file in found]


def made(player, path, drawn):
    """The schemas after all alterations, and which of them were refused."""
    player.create(str(path), drawn)
    refused = []
    for step in drawn.steps:
        if isinstance(step, Alter):
            try:
                player.take(str(path), step, {})
            except Refused as wrong:
                refused.append((step.changes, wrong))
    return schemas(path), refused


def test_schema_files(judge, tmp_path):
    altered = 0
    for seed in SEEDS:
        drawn = script(seed)
        wanted, their_refusals = made(ByReference(judge), tmp_path / "java.db" / f"t{seed}", drawn)
        found, my_refusals = made(ByLakekit(), tmp_path / "lakekit.db" / f"t{seed}", drawn)
        assert [changes for changes, _ in my_refusals] == [changes for changes, _ in their_refusals], (drawn.told(), my_refusals, their_refusals)
        assert found == wanted, drawn.told()
        altered += len(wanted) - 1
    assert altered > len(SEEDS) // 3
