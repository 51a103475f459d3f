"""Processes that commit to one table at once lose nothing and commit nothing twice (RELIABILITY 5.5, I1-I3, D1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakekit.metadata import manifest_reader, snapshots
from lakekit.metadata.table_context import open_context
from spec_tests.conftest import DEEP
from spec_tests.reliability.race import made, race

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("workers", "commits"), [(2, 12), pytest.param(8, 250 if DEEP else 60, marks=pytest.mark.long)])
def test_none_lost_none_twice(tmp_path: Path, workers: int, commits: int):
    root = made(tmp_path / "t")
    ledger = race(root, workers, commits)
    t = open_context(root)
    history = snapshots.read_all(t)
    assert [one.id for one in history] == list(range(1, workers * commits + 1))
    assert sorted(snapshot for _, snapshot, _ in ledger) == [one.id for one in history]
    acknowledged = sorted(name for name, _, _ in ledger)
    assert len(set(acknowledged)) == workers * commits
    assert sorted(manifest_reader.read_live_entries(t, history[-1]).column("file_name").to_pylist()) == acknowledged
    assert [one.total_record_count for one in history] == [10 * one.id for one in history]
    kept = {file.name for one in history for file in manifest_reader.manifest_files(t, one)}
    lists = {name for one in history for name in (one.base_manifest_list, one.delta_manifest_list)}
    assert {one.name for one in (root / "manifest").iterdir()} == kept | lists, "lost races leave nothing"
    assert not list(root.rglob("*.tmp"))
