"""A hint file, `LATEST` or `EARLIEST`: a snapshot id in ASCII digits, and nothing else.

    33 31                 "31"

Both are advice that needs proof (`metadata.snapshots`). Source: FORMAT.md 1.6, `HintFileUtils`.
"""

from __future__ import annotations

MAX_ID = 2**63 - 1
_DIGITS = len(str(MAX_ID))


def decode(data: bytes) -> int | None:
    """Return the id in a hint; None if it is invalid, as every reader then lists the directory."""
    if not 0 < len(data) <= _DIGITS or not data.isdigit():
        return None
    snapshot_id = int(data)
    return snapshot_id if snapshot_id <= MAX_ID else None


def encode(snapshot_id: int) -> bytes:
    """Return the bytes of a hint."""
    return str(snapshot_id).encode()
