"""Read small metadata files whole.

Where a storage overwrites in place, a reader may meet a half-written file, and reads again (FORMAT 3.1). Only text that
is not JSON is read again; a wrong member raises at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from lakekit.errors import Corrupt
from lakekit.model.json_codec import SYNTAX_ERROR_FIELD
from lakekit.model.snapshot import MAX_ID
from lakekit.storage.local import LocalStorage
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.model.table_paths import TablePaths
    from lakekit.runtime import Runtime
    from lakekit.storage.protocol import Stat, Storage

T = TypeVar("T")

READ_ATTEMPTS = 10
WAIT_MS = 200
_CACHE_ENTRY_BYTES = 1000


class MetadataLocation(Protocol):
    """The location of a table's metadata, taken by every function of `metadata`. A `TableContext` is one."""

    @property
    def name(self) -> str:
        """The table's name in messages."""
        ...

    @property
    def storage(self) -> Storage: ...

    @property
    def paths(self) -> TablePaths: ...

    @property
    def runtime(self) -> Runtime: ...


def read_json_file(location: MetadataLocation, path: str, decode: Callable[[bytes, str | None], T]) -> T:
    """Read and decode a JSON file.

    Raises `FileMissing`, `StorageFailed`, or `Corrupt` once it was not JSON ten times, 200 ms apart.
    """
    for attempt in range(1, READ_ATTEMPTS + 1):
        data = location.storage.read(path)
        try:
            return decode(data, path)
        except Corrupt as damaged:
            if damaged.field != SYNTAX_ERROR_FIELD or attempt == READ_ATTEMPTS:
                raise
        location.runtime.wait_ms(WAIT_MS)
    raise AssertionError


def find_json_file(location: MetadataLocation, path: str, decode: Callable[[bytes, str | None], T]) -> T | None:
    """Read and decode a JSON file as `read_json_file` does; return None if it does not exist."""
    try:
        return read_json_file(location, path, decode)
    except FileMissing:
        return None


def read_listed_json_file(location: MetadataLocation, stat: Stat, decode: Callable[[bytes, str | None], T]) -> T:
    """Read a file that was just listed, as `read_json_file` does; on a remote storage it is cached by its tag."""
    if not location.storage.is_remote or stat.tag is None:
        return read_json_file(location, stat.path, decode)
    key = (location.storage, stat.path, stat.tag)
    decoded: T | None = location.runtime.metadata_cache.get(key)
    if decoded is None:
        decoded = read_json_file(location, stat.path, decode)
        location.runtime.metadata_cache.put({key: decoded}, _CACHE_ENTRY_BYTES + 2 * stat.size_bytes)
    return decoded


def list_ids(location: MetadataLocation, directory: str, prefix: str) -> list[int]:
    """Return the ids N of the files `<prefix>N` in a directory, ascending; other names are ignored."""
    storage = location.storage
    names = (
        storage.file_names(directory)
        if isinstance(storage, LocalStorage)
        else [entry.name for entry in storage.list(directory) if not entry.is_dir]
    )
    return sorted(file_id for file_id in (_parse_id(name, prefix) for name in names) if file_id is not None)


def list_ids_with_stat(location: MetadataLocation, directory: str, prefix: str) -> list[tuple[int, Stat]]:
    """Return ids as `list_ids` does, with the listing's stat of each file."""
    pairs = [(_parse_id(entry.name, prefix), entry) for entry in location.storage.list(directory) if not entry.is_dir]
    return sorted(((file_id, entry) for file_id, entry in pairs if file_id is not None), key=lambda pair: pair[0])


def _parse_id(name: str, prefix: str) -> int | None:
    digits = name.removeprefix(prefix)
    if digits == name or not (digits.isascii() and digits.isdecimal() and len(digits) <= 19):
        return None
    number = int(digits)
    return number if str(number) == digits and number <= MAX_ID else None
