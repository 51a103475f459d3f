"""A second name for a file, where a storage can give one without reading it: `hard_link(storage, path, target)`.

The file then lies at both places, and a change of its bytes is seen at both: for who takes the first name away soon. A storage that can has a method
`link(path, to, target)`: True: it stands there, safe from power loss; False: it has to be copied, as on another disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from lakekit.storage.protocol import Storage


@runtime_checkable
class SupportsHardLinks(Protocol):
    """A storage whose files may have several names."""

    def link(self, path: str, to: Any, target: str) -> bool:
        """Gives a file another name in a storage of the same kind, where nothing is. Raises `FileMissing`, `StorageFailed`."""
        ...


def hard_link(storage: Storage, path: str, to: Storage, target: str) -> bool:
    """Whether a file now stands at the other place too; False: nothing was done. Raises `FileMissing`, `StorageFailed`."""
    return isinstance(storage, SupportsHardLinks) and type(storage) is type(to) and storage.link(path, to, target)
