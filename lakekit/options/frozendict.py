"""An immutable mapping, with which records can be hashed, shared and pickled."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V], Generic[K, V]):
    """A dict whose mutating methods raise; equal to a dict of the same items."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        msg = "this mapping never changes; make a dict of it"
        raise TypeError(msg)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


EMPTY: FrozenDict[Any, Any] = FrozenDict()


def freeze(value: Any) -> Any:
    """Return the same JSON value with tuples for lists and `FrozenDict` for dicts."""
    if isinstance(value, dict):
        return FrozenDict({key: freeze(part) for key, part in value.items()})
    if isinstance(value, list):
        return tuple(freeze(part) for part in value)
    return value
