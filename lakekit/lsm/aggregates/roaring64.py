"""The reference's own form of 64-bit bitmaps, which is not the portable one of roaring."""

from __future__ import annotations

from lakekit.errors import Unsupported


def united(held: bytes, given: bytes, column: str) -> bytes:
    """The union of two bitmaps."""
    raise Unsupported(
        f"column {column} uses aggregate function rbm64, which lakekit cannot merge ({len(held)} and {len(given)} bytes). Read other columns, or "
        "t.scan(raw=True) for unmerged rows",
        feature="aggregate.rbm64",
    )
