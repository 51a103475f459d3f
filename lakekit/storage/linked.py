"""Give a file a second name without reading it: `hard_link(storage, path, to, target)`.

The file then exists at both paths, and a change of its bytes is seen at both; for callers that delete the first name
soon. A storage that supports it has a method `link(path, to, target)`: True: the link exists, durably; False: the file
has to be copied, as to another disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from lakekit.storage.protocol import Storage


@runtime_checkable
class SupportsHardLinks(Protocol):
    """A storage whose files may have several names."""

    def link(self, path: str, to: Any, target: str) -> bool:
        """Give a file another name, at a free path in a storage of the same kind.

        Raises `FileMissing`, `StorageFailed`.
        """
        ...


def hard_link(storage: Storage, path: str, to: Storage, target: str) -> bool:
    """Link a file to another path; return False if nothing was done.

    Raises `FileMissing`, `StorageFailed`.
    """
    return isinstance(storage, SupportsHardLinks) and type(storage) is type(to) and storage.link(path, to, target)
