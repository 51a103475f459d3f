"""A cache of a bounded number of bytes that forgets what was used longest ago."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping


DECODED_BYTES = 128 << 20
"""How much decoded metadata is kept; as much as the reference's catalogs keep of manifests."""
INDEX_BYTES = 256 << 20
"""How much is kept of file indexes that are files of their own: twice what the bloom filters of two hundred files take
that are of the default size.
"""


class LRUCache:
    """A thread-safe cache of immutable values by key, limited to `budget_bytes`.

    The least recently used go first. Values put together are evicted together: in their turn, or when every key of
    theirs has a newer value. A copy or a pickle of a cache is empty.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, tuple[Mapping[Hashable, Any], int]] = OrderedDict()
        self._numbers: dict[Hashable, int] = {}
        self._current: dict[int, int] = {}
        self._next = 0
        self._size_bytes = 0

    def get(self, key: Hashable) -> Any:
        """Return a cached value; None if it is missing."""
        with self._lock:
            number = self._numbers.get(key)
            if number is None:
                return None
            self._kept.move_to_end(number)
            return self._kept[number][0][key]

    def put(self, values: Mapping[Hashable, Any], size_bytes: int) -> None:
        """Cache values of about `size_bytes` together; they are evicted together, as they may share memory."""
        with self._lock:
            number = self._next
            self._next += 1
            for name in values:
                old = self._numbers.get(name)
                if old is not None:
                    self._current[old] -= 1
                    if not self._current[old]:
                        self._forget(old)
                self._numbers[name] = number
            self._kept[number] = (values, size_bytes)
            self._current[number] = len(values)
            self._size_bytes += size_bytes
            while self._size_bytes > self.budget_bytes:
                self._forget(next(iter(self._kept)))

    def _forget(self, number: int) -> None:
        values, weight = self._kept.pop(number)
        self._size_bytes -= weight
        for name in values if self._current.pop(number) else ():
            if self._numbers.get(name) == number:
                del self._numbers[name]

    @property
    def size_bytes(self) -> int:
        """The size of all cached values."""
        return self._size_bytes

    def __reduce__(self) -> tuple[type[LRUCache], tuple[int]]:
        return LRUCache, (self.budget_bytes,)
