"""The row of snapshots: none is missing in it, and the hint LATEST leads to its end. Engines that believe hints cannot go on from one that was lost.

    snapshot-1  snapshot-2  snapshot-4   LATEST 5         4 is the newest, not 5; 3 is missing

A gap before the snapshot that EARLIEST names is passed over by every engine: it was mended, by `t.repair()`. Source: FORMAT.md 1.6; RELIABILITY I3.
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

_HINT = "t.repair(), which lets the hint say what is there; the newest snapshot may have been lost: put its file back from a copy if there is one"
_GAP = "put the file back from a copy; else t.repair(), which lets the table begin behind the gap"


def check(ctx: TableContext, notes: Findings) -> None:
    """Looks at the numbers of snapshots and at the hints; what other processes change meanwhile is looked at again."""
    found = _find_problems(_read_hint_state(ctx))
    if found != (None, []) and found == _find_problems(_read_hint_state(ctx)):
        latest, gap = found
        if latest is not None:
            message = f"it says {latest[0]}, and the newest snapshot is {latest[1]}: the reference engine believes it, and fails or goes on from there"
            notes.wrong("hint leads astray", message, path=ctx.layout.latest_hint, remedy=_HINT)
        if gap:
            message = f"{describe_ranges(gap)} are not there, and others before and after are: streams and expiry of the reference engine fail there"
            notes.wrong("snapshots are missing", message, path=ctx.layout.snapshot_dir, remedy=_GAP)


_MAX_SHOWN = 8


def missing_ranges(numbers: Sequence[int]) -> list[range]:
    """Return what ascending numbers leave out between the first and the last: a range for each gap, however wide."""
    return [range(low + 1, high) for low, high in pairwise(numbers) if high - low > 1]


def describe_ranges(gaps: Sequence[range]) -> str:
    """Return the numbers of some gaps as text: the first `_MAX_SHOWN` of them, and how many follow."""
    shown = list(islice(chain.from_iterable(gaps), _MAX_SHOWN))
    left = sum(gap.stop - gap.start for gap in gaps) - len(shown)
    return ", ".join(map(str, shown)) + (f" and {left} more" if left else "")


def _read_hint_state(ctx: TableContext) -> HintState:
    """What LATEST and EARLIEST say, then the numbers there are: a commit puts its snapshot before its hint."""
    latest, earliest = (_read_hint(ctx, path) for path in (ctx.layout.latest_hint, ctx.layout.earliest_hint))
    return latest, earliest, snapshots.ids(ctx)


def _read_hint(ctx: TableContext, path: str) -> int | None:
    try:
        return hint.decode(ctx.storage.read(path, 0, 32))
    except StorageFailed:
        return None


def _find_problems(seen: HintState) -> tuple[tuple[int, int] | None, Sequence[range]]:
    """What LATEST says and should say, where it is believed wrongly; the numbers that are missing."""
    latest, earliest, known = seen
    if not known:
        return None, []
    believed = latest is not None and latest != known[-1] and latest + 1 not in known
    first = earliest if earliest in known else known[0]
    gap = missing_ranges([number for number in known if number >= (first or 0)])
    return ((latest, known[-1]) if latest is not None and believed else None), gap
