"""What was made of manifest entries before: a plan asks the same of the same files as the plan before it.

    get_or_compute(world, entries, ("bounds", "v"), make)     1st time None: the caller makes it for itself; 2nd time made and kept; then found

The entries of a snapshot are one object from read to read (`metadata.manifest_reader`). Those that a filter made are asked once, so that nothing of
them is kept. What is kept lies in the cache of decoded metadata, within its budget, and keeps no entries alive.
"""

from __future__ import annotations

from sys import getsizeof
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.world import Runtime

T = TypeVar("T")

_MARK_BYTES = 400
"""About what an item takes beside what it holds."""


def get_or_compute(world: Runtime, entries: ManifestEntries, what: Hashable, make: Callable[[], T]) -> T | None:
    """Return what `make` made of those entries, or makes now; None the first time.

    What it makes must be the same every time, and hold no buffer of the entries.
    """
    key = (get_or_compute, id(entries.table), what)
    known = world.decoded.get(key)
    if known is None or known[0]() is not entries.table:  # or of entries that are gone, and whose number is that of others now
        world.decoded.put({key: (ref(entries.table), ())}, _MARK_BYTES)
        return None
    if not known[1]:
        known = (known[0], (make(),))
        world.decoded.put({key: known}, _MARK_BYTES + _weight(known[1]))
    found: T = known[1][0]
    return found


def _weight(found: Any) -> int:
    """Return about how many bytes something takes."""
    if isinstance(found, (tuple, list)):
        return _MARK_BYTES + sum(map(_weight, found))
    if isinstance(found, dict):
        return _MARK_BYTES + sum(map(_weight, found.values()))
    return int(found.nbytes) if hasattr(found, "nbytes") else getsizeof(found)
