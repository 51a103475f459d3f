"""The smoke tests on several versions of PySpark, classic and Connect: `python -m spec_tests.doors.spark.versions [4.0 4.1 …] [--envs DIR] [--drop]`.

Each version gets an environment of its own, with the newest patch of it that pip finds, this checkout and what tests need; it is kept and used again. Prints a
row of the matrix a version; what a test that fails says goes to the error stream. A first run downloads half a gigabyte a version.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[3]
SMOKE = Path(__file__).with_name("test_smoke.py")
VERSIONS = ("4.0", "4.1", "4.2", "4.3")
WAYS = ("classic", "connect")
TOOLS = ("pytest>=8.4", "pytest-timeout>=2.3", "pytest-xdist>=3.6", "hypothesis>=6.115")
SHOWN = ("pyspark", "pyarrow", "pandas")
"""The packages whose versions are told."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of the tests ended. `wrong`: what pytest printed, where not all passed."""

    passed: int
    count: int
    duration_s: float
    wrong: str = ""

    def __str__(self) -> str:
        return f"{self.passed} of {self.count} ({self.duration_s:.0f} s)"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m spec_tests.doors.spark.versions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("--envs", type=Path, default=cache(), help="where environments are made")
    parser.add_argument("--drop", action="store_true", help="delete each environment after its tests")
    asked = parser.parse_args()
    print(f"| {' | '.join((*SHOWN, 'Python', *WAYS))} |\n|{'---|' * (len(SHOWN) + 1 + len(WAYS))}", flush=True)
    is_good = True
    for version in asked.versions:
        python = environment(asked.envs / version, version)
        found = [smoke(python, way) for way in WAYS]
        print(f"| {' | '.join((*told(python), *map(str, found)))} |", flush=True)
        for way, outcome in zip(WAYS, found, strict=True):
            if outcome.wrong:
                print(f"---- PySpark {version}, {way}\n{outcome.wrong}", file=sys.stderr)
        is_good = is_good and all(0 < outcome.count == outcome.passed for outcome in found)
        if asked.drop:
            shutil.rmtree(asked.envs / version)
    return 0 if is_good else 1


def cache() -> Path:
    """Where a user's caches go."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakekit" / "spark"


def environment(home: Path, version: str) -> Path:
    """The Python of a version's environment, made where it is not there."""
    python, mark = home / "bin" / "python", home / "installed"
    if not mark.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        wanted = [f"pyspark[connect]=={version}.*", "--editable", f"{ROOT}[spark]", *TOOLS]
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", *wanted], check=True)
        mark.touch()
    return python


def smoke(python: Path, way: str) -> Outcome:
    """The tests in one session of that Python."""
    began = perf_counter()
    with tempfile.TemporaryDirectory() as place:
        results = Path(place, "results.xml")
        # what a version's own libraries warn of is not what is asked here
        command = [str(python), "-m", "pytest", "-q", "-n0", "-m", "spark", "-o", "filterwarnings=default", f"--junitxml={results}", str(SMOKE)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_", "PYTHON"))} | {"LAKEKIT_SPARK": way}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        suites = list(ET.parse(results).iter("testsuite")) if results.exists() else []
    count = sum(int(suite.get("tests", 0)) for suite in suites)
    lost = sum(int(suite.get(what, 0)) for suite in suites for what in ("failures", "errors", "skipped"))
    wrong = done.stdout[-8000:] + done.stderr[-2000:] if done.returncode else ""
    return Outcome(count - lost, count, perf_counter() - began, wrong)


def told(python: Path) -> list[str]:
    """The versions of what is shown, and of the Python."""
    code = f"import platform\nfrom importlib.metadata import version\nprint(*map(version, {SHOWN}), platform.python_version())"
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.split()


if __name__ == "__main__":
    sys.exit(main())
