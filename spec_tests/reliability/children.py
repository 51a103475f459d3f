"""Functions called in a child process, which may die or hang of what it is given: the parent tells how each call ended.

    with Child() as child:
        child.ask("spec_tests.reliability.damaged_calls:read_parquet", data)      Answer(end="death", found="SIGABRT: memory allocation of …")

A message is a length (u32 LE) and as many bytes: the function's name and NUL before its argument; the answer is JSON. A child that died or hung is started
again with the next call. Memory is bounded, so that a wrong length cannot take the machine's.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from types import TracebackType
    from typing import BinaryIO

_ROOT = Path(__file__).parents[2]
_TOLD_BYTES = 300


class Answer(NamedTuple):
    """How a call ended: "value", "error" (a LakekitError), "foreign" (any other exception), "death" or "hang"; `found` is the value, or a text."""

    end: str
    found: object
    peak_bytes: int = 0


class Child:
    """A process that calls functions by name; `seconds` is how long a call may take."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `__exit__`

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()
        self._errors.close()

    def ask(self, function: str, argument: bytes) -> Answer:
        """What `function` ("module:name") gives for some bytes, or how it failed."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        message = function.encode() + b"\0" + argument
        try:
            process.stdin.write(struct.pack("<I", len(message)) + message)
            process.stdin.flush()
            if not select.select([process.stdout], [], [], self._seconds)[0]:
                self._end()
                return Answer("hang", f"no answer in {self._seconds} s")
            answer = _message(process.stdout)
        except BrokenPipeError:
            answer = None
        if answer is not None:
            return Answer(*json.loads(answer))
        code = process.wait()
        self._end()
        self._errors.seek(0)
        said = self._errors.read()[:_TOLD_BYTES].decode(errors="replace")
        return Answer("death", f"{signal.Signals(-code).name if code < 0 else code}: {said}")

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors.seek(0)
        self._errors.truncate()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path]), "RUST_BACKTRACE": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "spec_tests.reliability.children"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=_ROOT,
            env=environment,
        )
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                with suppress(OSError):
                    stream.close()  # type: ignore[union-attr] # both are pipes
            self._process = None


def _message(stream: BinaryIO) -> bytes | None:
    head = stream.read(4)
    if len(head) < 4:
        return None
    length = struct.unpack("<I", head)[0]
    data = stream.read(length)
    return data if len(data) == length else None


# ---- the child -------------------------------------------------------------------------------------------------------------------------------


def peak_bytes() -> int:
    """Return the most memory that this process has held; `ru_maxrss` counts what its parent held when it was forked."""
    import resource

    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return int(status.read_text(encoding="utf-8").partition("VmHWM:")[2].split()[0]) << 10


def _answer(message: bytes) -> Answer:
    from lakekit.errors import LakekitError

    name, _, argument = message.partition(b"\0")
    module, _, function = name.decode().partition(":")
    try:
        end, found = "value", getattr(importlib.import_module(module), function)(argument)
    except LakekitError as error:
        end, found = "error", f"{type(error).__name__}: {error}"
    except BaseException as error:  # noqa: BLE001 - what it is, is what the parent asks
        end, found = "foreign", f"{type(error).__name__}: {error}"
    found = found[:_TOLD_BYTES] if isinstance(found, str) else found
    return Answer(end, found, peak_bytes())


def main() -> None:
    """Answers the calls that come on standard input; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (message := _message(sys.stdin.buffer)) is not None:
        data = json.dumps(_answer(message)).encode()
        answers.write(struct.pack("<I", len(data)) + data)
        answers.flush()


if __name__ == "__main__":
    main()
