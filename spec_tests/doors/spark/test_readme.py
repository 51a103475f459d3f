"""README's blocks for Spark, run as they stand after the others, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spec_tests.doors.test_readme import FENCES, PLAIN

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SPARK = [code for language, code in FENCES if language == "python" and code not in PLAIN]
END = """
import time
for _ in range(120):
    if query.lastProgress is not None and query.lastProgress["numInputRows"] == 0:
        break
    assert query.exception() is None, query.exception()
    time.sleep(1)
query.stop()
copied, kept = (cat[name].scan().sort("id", "day").collect() for name in ("shop.copy", "shop.orders"))
assert copied.equals(kept) and kept.height > 2, (copied, kept)
spark.stop()
print("all blocks ran")
"""


def test_every_block_runs(tmp_path):
    assert len(SPARK) == 3
    plain = "\n".join(line for code in PLAIN for line in code.splitlines() if "s3://" not in line)
    script = tmp_path / "readme.py"
    script.write_text("\n".join([plain, *SPARK, END]).replace("local[4]", "local[2]"), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=400)
    assert "all blocks ran" in ran.stdout, ran.stdout[-2000:] + ran.stderr[-4000:]
