"""What the bench needs beside this checkout: the rival in an environment of its own, and the reference engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
RIVAL_VERSION = "0.4.0"
RIVAL_HOME = ROOT / ".venvs" / "rival"
RECIPE = ROOT / "fixtures" / "recipes" / "by_reference"
REFERENCE = Path(__file__).parent / "Reference.java"


def rival_python() -> str:
    """The interpreter of the rival's environment, made where it is not there. The rival gets the same Polars, for checksums depend on its version."""
    python = RIVAL_HOME / "bin" / "python"
    mark = RIVAL_HOME / "installed"
    wanted = [f"pypaimon-rust=={RIVAL_VERSION}", f"polars=={version('polars')}", "pyarrow>=17", "numpy>=1.26"]
    if not mark.exists() or mark.read_text().split() != wanted:
        shutil.rmtree(RIVAL_HOME, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(RIVAL_HOME)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", *wanted], check=True)
        mark.write_text("\n".join(wanted))
    return str(python)


def has_reference() -> bool:
    """Whether the reference engine can run: Java, and its classes or Maven to bring them."""
    return shutil.which("java") is not None and (_classes().is_dir() or shutil.which("mvn") is not None)


def reference(*arguments: str) -> list[str]:
    """What the reference engine prints: the paths of a table's live data files."""
    if not _classes().is_dir():
        subprocess.run(["mvn", "-q", "package"], cwd=RECIPE, check=True)
    command = ["java", "-Duser.timezone=UTC", "-Xmx4g", "-cp", f"{_classes()}{os.sep}*", str(REFERENCE), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr[-2000:]}")
    return done.stdout.split()


def _classes() -> Path:
    return RECIPE / "target" / "lib"
