"""Repair of the hints of a table: `LATEST` and `EARLIEST` come to name what exists.

    snapshot-3  snapshot-5  snapshot-6   LATEST 4  EARLIEST –      ->      LATEST 6  EARLIEST 5

Readers of lakekit verify hints; other engines believe EARLIEST, so that after a gap (a snapshot that was lost, or
removed by hand) it must name the first of the unbroken sequence that ends with the newest. Source: FORMAT.md 1.6,
ENGINE.md 11, `RepairEarliestSnapshotProcedure`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit.metadata import snapshots
from lakekit.model import hint
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.metadata.table_context import TableContext

_SCHEMA = {"file": pl.String(), "was": pl.Int64(), "is": pl.Int64()}


def repair(ctx: TableContext) -> pl.DataFrame:
    """Repair the hints of the current branch; return a row for each that was wrong, missing or useless.

    `was` is null for a missing hint.

    Raises: `StorageFailed`.
    """
    layout = ctx.layout
    mended: list[tuple[str, int | None, int | None]] = []
    for ids, latest, earliest in (
        (snapshots.ids(ctx), layout.latest_hint, layout.earliest_hint),
        (snapshots.changelog_ids(ctx), layout.changelog_latest_hint, layout.changelog_earliest_hint),
    ):
        for path, wanted in ((latest, ids[-1] if ids else None), (earliest, _first_without_gap(ids))):
            exists, was = _read_hint(ctx, path)
            if was == wanted and exists == (wanted is not None):
                continue
            if wanted is None:
                ctx.storage.delete([path])
            else:
                ctx.storage.put(path, hint.encode(wanted))
            mended.append((path, was, wanted))
    return pl.DataFrame(mended, schema=_SCHEMA, orient="row")


def _first_without_gap(ids: Sequence[int]) -> int | None:
    """Return the first number of the gapless sequence that ends with the last."""
    first = ids[-1] if ids else None
    for number in reversed(ids[:-1]):
        if first is None or number != first - 1:
            break
        first = number
    return first


def _read_hint(ctx: TableContext, path: str) -> tuple[bool, int | None]:
    """Whether a hint is there, and what it says."""
    try:
        return True, hint.decode(ctx.storage.read(path, 0, 32))
    except FileMissing:
        return False, None
