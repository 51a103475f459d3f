"""Small metadata files whole: a reader may meet one half-written where a storage overwrites in place, and then reads again (FORMAT 3.1).

Only text that is no JSON is read again; a member that is wrong stays wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from lakekit.errors import Corrupt
from lakekit.model.hint import MAX_ID
from lakekit.model.json_codec import SYNTAX
from lakekit.storage.local import LocalStorage
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.model.table_paths import TablePaths
    from lakekit.storage.protocol import Stat, Storage
    from lakekit.world import Runtime

T = TypeVar("T")

ATTEMPTS = 10
WAIT_MS = 200
_FACT_BYTES = 1000


class MetadataLocation(Protocol):
    """Where a table's metadata is: what every function of `meta` takes. A `Handle` is one."""

    @property
    def name(self) -> str:
        """What messages call the table."""
        ...

    @property
    def storage(self) -> Storage: ...

    @property
    def layout(self) -> TablePaths: ...

    @property
    def world(self) -> Runtime: ...


def read(place: MetadataLocation, path: str, decode: Callable[[bytes, str | None], T]) -> T:
    """What a JSON file says. Raises `FileMissing`, `StorageFailed`, or `Corrupt` once it was no JSON ten times, 200 ms apart."""
    for attempt in range(1, ATTEMPTS + 1):
        data = place.storage.read(path)
        try:
            return decode(data, path)
        except Corrupt as damaged:
            if damaged.field != SYNTAX or attempt == ATTEMPTS:
                raise
        place.world.wait(WAIT_MS)
    raise AssertionError


def find(place: MetadataLocation, path: str, decode: Callable[[bytes, str | None], T]) -> T | None:
    """As `read`; None when there is no such file."""
    try:
        return read(place, path, decode)
    except FileMissing:
        return None


def read_listed(place: MetadataLocation, seen: Stat, decode: Callable[[bytes, str | None], T]) -> T:
    """As `read`, of a file that was just listed: over a network it is not asked for again while its tag is the same."""
    if not place.storage.is_remote or seen.tag is None:
        return read(place, seen.path, decode)
    key = (place.storage, seen.path, seen.tag)
    found: T | None = place.world.decoded.get(key)
    if found is None:
        found = read(place, seen.path, decode)
        place.world.decoded.put({key: found}, _FACT_BYTES + 2 * seen.size_bytes)
    return found


def numbers(place: MetadataLocation, directory: str, prefix: str) -> list[int]:
    """The ids N of the files `<prefix>N` in a directory, ascending; every other name belongs to somebody else."""
    storage = place.storage
    names = storage.file_names(directory) if isinstance(storage, LocalStorage) else [one.name for one in storage.list(directory) if not one.is_dir]
    return sorted(number for number in (_number(name, prefix) for name in names) if number is not None)


def list_numbered(place: MetadataLocation, directory: str, prefix: str) -> list[tuple[int, Stat]]:
    """As `numbers`, with what the listing says of each file."""
    found = [(_number(one.name, prefix), one) for one in place.storage.list(directory) if not one.is_dir]
    return sorted(((number, one) for number, one in found if number is not None), key=lambda pair: pair[0])


def _number(name: str, prefix: str) -> int | None:
    digits = name.removeprefix(prefix)
    if digits == name or not (digits.isascii() and digits.isdecimal() and len(digits) <= 19):
        return None
    number = int(digits)
    return number if str(number) == digits and number <= MAX_ID else None
