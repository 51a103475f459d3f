"""Orphans of twins: the reference cleans one, lakekit its copy, and both leave the same files, which read the same."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime

import pytest

import lakekit as lk
from spec_tests.doors.test_orphans import aged, planted
from spec_tests.laws.test_care_histories import KINDS, History
from spec_tests.reliability.kept import needed, on_disk

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [100, 101])
def test_both_leave_the_same_files(judge, tmp_path, kind, seed):
    ours, java = tmp_path / "ours", tmp_path / "java"
    history = History(kind, seed, str(ours))
    for _ in range(14):
        history.step()
    lost = planted(ours)
    aged(lost)
    time.sleep(0.02)  # what was made last is older than the limit, by whatever clock
    shutil.copytree(ours, java)
    limit_ms = int(time.time() * 1000)
    gone = judge.ask("care", java, chore="orphans", older_than_ms=limit_ms)["gone"]
    told = history.main.remove_orphans(older_than=datetime.fromtimestamp(limit_ms / 1000, UTC), dry_run=False, force=True)
    assert on_disk(java) == on_disk(ours)
    assert len(told) == gone >= len(lost)
    assert needed(ours) <= on_disk(ours)
    assert lk.open(java).check(deep=True).ok
    history.check()
