"""A hint file, `LATEST` or `EARLIEST`: a snapshot's number in ASCII digits, nothing before, nothing after.

    33 31                 "31"

Both are advice: whoever believes one asks for proof (`metadata.snapshots`). Source: FORMAT.md 1.6, `HintFileUtils`.
"""

from __future__ import annotations

MAX_ID = 2**63 - 1
_DIGITS = len(str(MAX_ID))


def decode(data: bytes) -> int | None:
    """The number a hint says; None where it makes no sense, as every reader then lists the directory."""
    if not 0 < len(data) <= _DIGITS or not data.isdigit():
        return None
    found = int(data)
    return found if found <= MAX_ID else None


def encode(snapshot_id: int) -> bytes:
    """The hint's bytes."""
    return str(snapshot_id).encode()
