"""How much longer something may take here than on a machine that does nothing else."""

from __future__ import annotations

import os

WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def times_alone() -> float:
    """At least 1: what runs beside a test takes its share of the cores, the other workers and whatever else there is."""
    return max(WORKERS, os.getloadavg()[0] / (os.cpu_count() or 1))
