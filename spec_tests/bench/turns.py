"""Systems take turns: a process each, round after round, so that load from elsewhere meets them alike."""

from __future__ import annotations

import json
import select
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spec_tests.bench.environment import ROOT, rival_python

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SYSTEMS = ("limit", "lakekit", "rival", "rival sql")
SLOW_S = 4.0
"""What takes longer is measured twice only."""
TIMEOUT_S = 1200


@dataclass(slots=True, kw_only=True)
class Measured:
    """What one system did with one line. `error` says why there is nothing."""

    system: str
    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    peaks_mb: list[float] = field(default_factory=list)
    before_mb: list[float] = field(default_factory=list)
    checksum: list[int] | None = None
    error: str | None = None

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    @property
    def least_s(self) -> float:
        return min(self.seconds)

    @property
    def least_cpu_s(self) -> float:
        return min(self.cpu_s)

    def add(self, answer: dict[str, Any]) -> None:
        if "error" in answer:
            self.error = answer["error"]
            return
        self.seconds.append(answer["s"])
        self.cpu_s.append(answer["cpu_s"])
        self.peaks_mb.append(answer["peak_mb"])
        self.before_mb.append(answer["before_mb"])


class Process:
    """A system that waits for questions."""

    def __init__(self, system: str, warehouse: str) -> None:
        python = rival_python() if system.startswith("rival") else sys.executable
        command = [python, "-W", "ignore", "-m", "spec_tests.bench.worker", system, warehouse]
        self.system = system
        self.running = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def ask(self, op: str, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
        """The answer, or what went wrong under "error"."""
        assert self.running.stdin is not None and self.running.stdout is not None
        try:
            self.running.stdin.write(json.dumps({"op": op, "arguments": arguments, "check": check}) + "\n")
            self.running.stdin.flush()
        except BrokenPipeError:
            return {"error": f"the process of {self.system} is gone"}
        ready, _, _ = select.select([self.running.stdout], [], [], TIMEOUT_S)
        if not ready:
            self.running.kill()
            self.running.wait()
            return {"error": f"no answer in {TIMEOUT_S} s"}
        line = self.running.stdout.readline()
        return json.loads(line) if line else {"error": f"the process ended with {self.running.wait()}"}

    def close(self) -> None:
        """Ends the process: it goes when nobody can ask it anything more."""
        with self.running:
            if self.running.stdin is not None:
                self.running.stdin.close()
            try:
                self.running.wait(20)
            except subprocess.TimeoutExpired:
                self.running.kill()


class Turns:
    """The processes of a run, begun when first asked."""

    def __init__(self, warehouse: str, rounds: int) -> None:
        self.warehouse, self.rounds = warehouse, rounds
        self.processes: dict[str, Process] = {}

    def of(self, system: str) -> Process:
        found = self.processes.get(system)
        if found is not None and found.running.poll() is not None:
            found.close()
            found = None
        if found is None:
            found = self.processes[system] = Process(system, self.warehouse)
        return found

    def close(self) -> None:
        for process in self.processes.values():
            process.close()
        self.processes = {}

    def measure(self, systems: Sequence[str], op: str, *, before: Callable[[], None] | None = None, **arguments: Any) -> dict[str, Measured]:
        """The same call on all systems in turn. The first is checked and not counted; `before` runs before each round."""
        found = {name: Measured(system=name) for name in systems}
        slow = set()
        for name, one in found.items():
            answer = self.of(name).ask(op, check=True, **arguments)
            one.checksum, one.error = answer.get("sum"), answer.get("error")
            if answer.get("s", 0) > SLOW_S:
                slow.add(name)
        for number in range(self.rounds):
            if before is not None:
                before()
            for name, one in found.items():
                if one.error is None and not (name in slow and number > 1):
                    one.add(self.of(name).ask(op, **arguments))
        return found

    def fresh(self, systems: Sequence[str], warmth: tuple[str, dict[str, Any]], op: str, rounds: int, **arguments: Any) -> dict[str, Measured]:
        """The same call, each time in a new process that has done `warmth` (a call and its arguments) and nothing else: it remembers nothing."""
        found = {name: Measured(system=name) for name in systems}
        for number in range(rounds):
            for name, one in found.items():
                if one.error is not None:
                    continue
                process = Process(name, self.warehouse)
                process.ask(warmth[0], **warmth[1])
                answer = process.ask(op, check=number == 0, **arguments)
                process.close()
                one.checksum = answer.get("sum", one.checksum)
                one.add(answer)
        return found
