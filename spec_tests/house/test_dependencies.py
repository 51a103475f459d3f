"""The bounds of dependencies hold: what a user does works with the lowest versions that pyproject.toml allows, and with the newest there are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = "sql,cloud,notebook,sketches,postgresql,mysql,hive"

pytestmark = [pytest.mark.service, pytest.mark.timeout(900)]


def run(*command: object, **environment: str) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, env={**os.environ, **environment})
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
def test_what_users_do_works(tmp_path, resolution):
    python = tmp_path / "environment" / "bin" / "python"
    uv = (sys.executable, "-m", "uv")
    run(*uv, "venv", "--python", sys.executable, tmp_path / "environment")
    run(*uv, "pip", "install", "--python", python, "--resolution", resolution, f"lakekit[{EXTRAS}] @ {ROOT.as_uri()}")
    run(*uv, "pip", "check", "--python", python)
    (tmp_path / "spec_tests").symlink_to(ROOT / "spec_tests")
    said = run(python, "-W", "error::ImportWarning", ROOT / "spec_tests" / "house" / "installed.py", PYTHONPATH=str(tmp_path))
    assert "all of it works" in said
    assert "compiled using NumPy" not in said
