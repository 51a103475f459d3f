"""A cache of values computed from manifest entries: plan after plan computes the same from the same files.

    get_or_compute(runtime, entries, ("bounds", "v"), make)     1st call: None, the caller computes it itself
                                                                2nd call: computed and cached; then from the cache

The entries of a snapshot are one object from read to read (`metadata.manifest_reader`). Entries that a filter made are
used once, so that nothing is cached for them. The values are in the cache of decoded metadata, within its budget, and
keep no entries alive.
"""

from __future__ import annotations

from sys import getsizeof
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.runtime import Runtime


T = TypeVar("T")

_MARK_BYTES = 400
"""About how many bytes a cache entry takes besides its value."""


def get_or_compute(runtime: Runtime, entries: ManifestEntries, what: Hashable, make: Callable[[], T]) -> T | None:
    """Return the cached value of those entries, or compute and cache it; None the first time.

    What `make` returns must be the same every time, and hold no buffer of the entries.
    """
    key = (get_or_compute, id(entries.table), what)
    cached = runtime.metadata_cache.get(key)
    # or of entries that are gone, and whose number is that of others now
    if cached is None or cached[0]() is not entries.table:
        runtime.metadata_cache.put({key: (ref(entries.table), ())}, _MARK_BYTES)
        return None
    if not cached[1]:
        cached = (cached[0], (make(),))
        runtime.metadata_cache.put({key: cached}, _MARK_BYTES + _weight(cached[1]))
    value: T = cached[1][0]
    return value


def _weight(value: Any) -> int:
    """Return about how many bytes a value takes."""
    if isinstance(value, (tuple, list)):
        return _MARK_BYTES + sum(map(_weight, value))
    if isinstance(value, dict):
        return _MARK_BYTES + sum(map(_weight, value.values()))
    return int(value.nbytes) if hasattr(value, "nbytes") else getsizeof(value)
