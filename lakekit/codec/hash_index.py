"""HASH index files of dynamic buckets: the hashes of every key in one bucket.

    i32 BE | i32 BE | …          no header, no order, no duplicates

    5759f99e ee18d2a5 4fe4bbf0   the keys 1, 0, 2 of an INT key (1465514398 is the hash of 1)

Sources: FORMAT.md 6.4; `HashIndexFile`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakekit.errors import Corrupt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakekit.codec.marks import SpanRecorder


def decode(data: bytes, *, path: str | None = None, marks: SpanRecorder | None = None) -> NDArray[np.int32]:
    """Return the hashes in file order.

    Raises:
        Corrupt: the file is no whole number of hashes.
    """
    hashes = np.frombuffer(data[: len(data) & ~3], ">i4").astype(np.int32)
    if marks is not None:
        for i, value in enumerate(hashes.tolist()):
            marks.add(4 * i, 4, f"hash {i}", value)
    if len(data) % 4:
        where = "" if path is None else f"{path}: "
        msg = f"{where}a HASH index of {len(data)} bytes: hashes have 4 bytes each, the last one is cut"
        raise Corrupt(msg, path=path, offset=len(data) & ~3, field="hash")
    return hashes


def encode(hashes: NDArray[np.int32]) -> bytes:
    """Return the file of some hashes, in their order."""
    return hashes.astype(">i4").tobytes()
