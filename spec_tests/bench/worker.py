"""One system in a process of its own: questions come as lines of JSON on stdin, answers go as lines of JSON to stdout.

    python -m spec_tests.bench.worker SYSTEM WAREHOUSE

An answer holds seconds and processor seconds of the call alone, the memory before it and its peak (VmHWM, reset before the call), and, where `check` asks for
it, the checksum of what came, taken outside the clock.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa

from spec_tests.bench import rows, systems, tables

MEGABYTE = 1024  # kB


class WithoutPandas:
    """Hides pandas: the tutorials bring it, pyarrow loads it wherever it finds it, and no system here needs it. (None in `sys.modules` would not do: pyarrow
    takes it for the module.)
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden from the systems that are measured", name=name)


sys.meta_path.insert(0, WithoutPandas)


def memory_mb(field: str) -> float:
    """A line of /proc/self/status, in MB; 0 where there is no such file."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / MEGABYTE for line in lines if line.startswith(field)), 0.0)


def settle() -> None:
    """Gives back what earlier calls left, and starts a new peak."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")


def ask(system: Any, op: str, arguments: dict[str, Any], *, check: bool) -> dict[str, Any]:
    """One call, measured."""
    if op in ("create", "write"):
        table = tables.ALL[arguments["table"]]
        count = arguments["rows"]
        if op == "create":
            system.create(table.name, table.schema, table.keys, table.partitions, table.options)
        else:
            system.write(table.name, table.commit(count, arguments["commit"]))
        return {}
    settle()
    before_mb, spent, start = memory_mb("VmRSS"), time.process_time(), time.perf_counter()
    result = getattr(system, op)(**arguments)
    answer: dict[str, Any] = {"s": time.perf_counter() - start, "cpu_s": time.process_time() - spent, "before_mb": before_mb, "peak_mb": memory_mb("VmHWM")}
    if check and result is not None:
        answer["sum"] = [result, 0] if isinstance(result, int) else rows.checksum(result, arguments.get("columns"))
    return answer


def main() -> None:
    name, warehouse = sys.argv[1:3]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    system = systems.of(name, warehouse)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = ask(system, asked["op"], asked["arguments"], check=asked["check"])
        except Exception as wrong:  # noqa: BLE001 - whatever a system raises is its answer
            answer = {"error": f"{type(wrong).__name__}: {str(wrong)[:300]}", "trace": traceback.format_exc()[-2000:]}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
