"""Runs of a module that are killed, with all of their processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def kill_run(words: Sequence[str], landmark: Path) -> None:
    """Run a module by itself, and kill all of its processes as soon as a file is there."""
    quick = "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2"
    env = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"--master local[2] --driver-memory 1g {quick} pyspark-shell"}
    with subprocess.Popen(
        [sys.executable, "-m", *words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, text=True
    ) as process:
        try:
            while not landmark.exists():
                assert process.poll() is None, process.communicate()[1]
                time.sleep(0.002)  # as seldom as may be without missing what follows
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
