"""Check the sequence of snapshots: none is missing, and the hint LATEST names the newest one.

Engines that believe hints cannot continue from a snapshot that was lost.

    snapshot-1  snapshot-2  snapshot-4   LATEST 5         4 is the newest, not 5; 3 is missing

A gap before the snapshot that EARLIEST names is no problem for any engine: `t.repair()` leaves it so. Source: FORMAT.md
1.6; RELIABILITY I3.
"""

from __future__ import annotations

from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING

from lakekit.errors import StorageFailed
from lakekit.metadata import snapshots
from lakekit.model import hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.maintenance.check.findings import Findings
    from lakekit.metadata.table_context import TableContext

    HintState = tuple[int | None, int | None, list[int]]

_HINT = (
    "t.repair(), which lets the hint say what is there; the newest snapshot may have been lost: put its file back "
    "from a copy if there is one"
)
_GAP = "put the file back from a copy; else t.repair(), which lets the table begin behind the gap"


def check(ctx: TableContext, notes: Findings) -> None:
    """Check the ids of snapshots and the hints, a second time where something is wrong.

    The second look rules out what other processes changed during the first one.
    """
    problems = _find_problems(_read_hint_state(ctx))
    if problems != (None, []) and problems == _find_problems(_read_hint_state(ctx)):
        latest, gap = problems
        if latest is not None:
            message = (
                f"it says {latest[0]}, and the newest snapshot is {latest[1]}: the reference engine believes it, and "
                "fails or goes on from there"
            )
            notes.wrong("hint leads astray", message, path=ctx.layout.latest_hint, remedy=_HINT)
        if gap:
            message = (
                f"{describe_ranges(gap)} are not there, and others before and after are: streams and expiry of the "
                "reference engine fail there"
            )
            notes.wrong("snapshots are missing", message, path=ctx.layout.snapshot_dir, remedy=_GAP)


_MAX_SHOWN = 8


def missing_ranges(numbers: Sequence[int]) -> list[range]:
    """Return the numbers missing between the first and last of ascending numbers, a range for each gap."""
    return [range(low + 1, high) for low, high in pairwise(numbers) if high - low > 1]


def describe_ranges(gaps: Sequence[range]) -> str:
    """Return the numbers of some gaps as text: the first `_MAX_SHOWN` of them, and how many follow."""
    shown = list(islice(chain.from_iterable(gaps), _MAX_SHOWN))
    left = sum(gap.stop - gap.start for gap in gaps) - len(shown)
    return ", ".join(map(str, shown)) + (f" and {left} more" if left else "")


def _read_hint_state(ctx: TableContext) -> HintState:
    """Return LATEST, EARLIEST and then the snapshot ids: a commit writes its snapshot before its hint."""
    latest, earliest = (_read_hint(ctx, path) for path in (ctx.layout.latest_hint, ctx.layout.earliest_hint))
    return latest, earliest, snapshots.ids(ctx)


def _read_hint(ctx: TableContext, path: str) -> int | None:
    try:
        return hint.decode(ctx.storage.read(path, 0, 32))
    except StorageFailed:
        return None


def _find_problems(seen: HintState) -> tuple[tuple[int, int] | None, Sequence[range]]:
    """Return what LATEST says and should say, where it would mislead an engine, and the missing ids."""
    latest, earliest, ids = seen
    if not ids:
        return None, []
    believed = latest is not None and latest != ids[-1] and latest + 1 not in ids
    first = earliest if earliest in ids else ids[0]
    gap = missing_ranges([number for number in ids if number >= (first or 0)])
    return ((latest, ids[-1]) if latest is not None and believed else None), gap
