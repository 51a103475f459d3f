"""What was made of manifest entries before: a plan asks the same of the same files as the plan before it.

    kept(world, entries, ("bounds", "v"), lambda: …)     1st time None: the caller makes it for itself; 2nd time made and kept; then found
    kept(…, at_once=True)                                made and kept the 1st time: what is dear to make

The entries of a snapshot are one object from read to read (`metadata.manifest_reader`). Those that a filter made are asked once, so that nothing of
them is kept. What
is kept lies on the shelf of decoded metadata, within its budget, and keeps no entries alive.
"""

from __future__ import annotations

from sys import getsizeof
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.world import Runtime

T = TypeVar("T")

_MARK_BYTES = 400
"""About what one takes beside what it holds."""


@overload
def get_or_compute(world: Runtime, entries: ManifestEntries, what: Hashable, make: Callable[[], T], *, at_once: Literal[True]) -> T: ...
@overload
def get_or_compute(world: Runtime, entries: ManifestEntries, what: Hashable, make: Callable[[], T], *, at_once: bool = False) -> T | None: ...
def get_or_compute(world: Runtime, entries: ManifestEntries, what: Hashable, make: Callable[[], T], *, at_once: bool = False) -> T | None:
    """What `make` made of those entries, or makes now; None the first time. It must be the same every time, and hold no buffer of the entries."""
    key = (get_or_compute, id(entries.table), what)
    known = world.decoded.get(key)
    if known is not None and known[0]() is not entries.table:
        known = None  # of entries that are gone, and whose number is that of others now
    if known is None and not at_once:
        world.decoded.put({key: (ref(entries.table), ())}, _MARK_BYTES)
        return None
    if known is not None and known[1]:
        found: T = known[1][0]
    else:
        put_computed(world, entries, what, found := make())
    return found


def put_computed(world: Runtime, entries: ManifestEntries, what: Hashable, found: object) -> None:
    """Keeps what was made of those entries, in the place of what was kept so."""
    world.decoded.put({(get_or_compute, id(entries.table), what): (ref(entries.table), (found,))}, _MARK_BYTES + _weight(found))


def get_computed(world: Runtime, entries: ManifestEntries, what: Hashable) -> Any:
    """What is kept of those entries; None where nothing is, or is no more."""
    known = world.decoded.get((get_or_compute, id(entries.table), what))
    return known[1][0] if known is not None and known[1] and known[0]() is entries.table else None


def _weight(found: Any) -> int:
    """About how many bytes it is."""
    if isinstance(found, (tuple, list)):
        return _MARK_BYTES + sum(map(_weight, found))
    if isinstance(found, dict):
        return _MARK_BYTES + sum(map(_weight, found.values()))
    return int(found.nbytes) if hasattr(found, "nbytes") else getsizeof(found)
