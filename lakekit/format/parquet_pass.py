"""A small Parquet file on its way into a bigger one: its row groups pass to the sink while they are encoded, its two ends do not.

    encoder writes    "PAR1" | row group | row group | … | footer | i32 LE length | "PAR1"
    sink receives              row group | row group | …

What may be the footer is held back until the end has told how long it is. Whoever encodes writes from threads of its own, and wraps what a sink raises:
`failed` keeps it as it was.
"""

from __future__ import annotations

from collections import deque
from typing import BinaryIO

MAGIC = b"PAR1"
HELD_BYTES = 1 << 20
"""Bytes held back: more than the footer of a row group or a few."""


class Passing:
    """The file object that an encoder is given. `passed_bytes`: what the sink has received."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self._skipped = 0
        self.passed_bytes = 0
        self.failed: BaseException | None = None

    def write(self, data: bytes) -> int:
        """Takes what comes next."""
        skip = min(len(MAGIC) - self._skipped, len(data))
        self._skipped += skip
        self._held.append(data[skip:] if skip else data)
        self._held_bytes += len(data) - skip
        try:
            while self._held_bytes - len(self._held[0]) >= HELD_BYTES:
                self._pass(self._held.popleft())
        except BaseException as failed:
            self.failed = failed
            raise
        return len(data)

    def flush(self) -> None:
        """Nothing to do: the sink is not this file's to flush."""

    def footer(self) -> bytes | None:
        """The footer, once everything is written; None where it was longer than what is held back, and parts of it lie in the sink."""
        held = b"".join(self._held)
        length = int.from_bytes(held[-8:-4], "little")
        if length + 8 > len(held):
            return None
        self._pass(memoryview(held)[: -8 - length])
        return held[-8 - length : -8]

    def _pass(self, data: bytes | memoryview) -> None:
        self._held_bytes -= len(data)
        self._sink.write(data)
        self.passed_bytes += len(data)
