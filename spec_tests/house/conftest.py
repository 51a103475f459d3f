"""What house tests share."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spec_tests.house.source import ROOT

ASKS = """\
import lakekit as lk

reveal_type(lk.open("x").scan())
reveal_type(lk.features())
reveal_type(lk.Field("k", "INT").type)
lk.Field("k", 7)
"""
"""A program of somebody who has only `lakekit`; its last line is wrong."""


@pytest.fixture(scope="session")
def type_checked(tmp_path_factory):
    """What mypy says of the package and of `asks.py`, asked once, as lines.

    With a cache of this run alone: one that other runs write at the same time goes stale without saying so.
    """
    place = tmp_path_factory.mktemp("mypy")
    (place / "asks.py").write_text(ASKS)
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(place), "lakekit", str(place / "asks.py")]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert "checked" in found.stdout, found.stdout[-6000:] + found.stderr[-2000:]
    return found.stdout.splitlines()
