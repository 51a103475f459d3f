"""Whether a store keeps its word that a file is created only where there is none: asked once per store and process, before the first commit.

    one name, twice                 the second must be refused and change nothing
    eight names, eight at a time    of all who create a name at once one may be told that it did, and the file must be its own

A store that ignores the condition fails the first; one that looks first and writes later fails the second. Either would lose commits in silence, so it is
refused for commits. What the probe writes, it removes. Source: CATALOGS_AND_STORAGE 2.4, decision S5.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakekit.errors import StorageFailed, Unsupported
from lakekit.world import lock, new_id, run_concurrently

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

_WRITER_COUNT = 8
_verdicts: dict[Hashable, str] = {}
"""What was found out of each store: "" of one that keeps its word, else what it did."""
_guard = lock()


def check_conditional_put(
    store: Hashable,
    where: str,
    *,
    create: Callable[[str, bytes], bool | None],
    read: Callable[[str], bytes],
    delete: Callable[[Iterable[str]], None],
) -> None:
    """Raises `Unsupported` for a store that does not create exclusively.

    `create` says True for created, False for refused, None for an answer that tells neither. `where` is a directory that may be written to. What `read` and
    `create` raise passes, and the next call asks again.
    """
    found = _verdicts.get(store)
    if found is None:
        with _guard:
            found = _verdicts.get(store)
            if found is None:
                found = _verdicts[store] = _probe_store(where, create, read, delete)
    if found:
        raise Unsupported(
            f"{where}: this store {found}, so that two writers would overwrite each other's commits. Nothing was committed. Write through an endpoint with "
            "conditional PUT (If-None-Match), or through a catalog with a lock (lk.connect(metastore='jdbc', …)); reading works",
            feature="storage.conditional-put",
            path=where,
        )


def _probe_store(where: str, create: Callable[[str, bytes], bool | None], read: Callable[[str], bytes], delete: Callable[[Iterable[str]], None]) -> str:
    mark = new_id()
    names = [f"{where}/.lakekit-probe-{mark}-{number}" for number in range(1 + _WRITER_COUNT)]
    try:
        return _check_overwrite(names[0], create, read) or _check_race(names[1:], create, read)
    finally:
        with suppress(StorageFailed):
            delete(names)


def _check_overwrite(name: str, create: Callable[[str, bytes], bool | None], read: Callable[[str], bytes]) -> str:
    create(name, b"first")
    if create(name, b"second") or read(name) != b"first":
        return "ignores If-None-Match and overwrites files that are there"
    return ""


def _check_race(names: list[str], create: Callable[[str, bytes], bool | None], read: Callable[[str], bytes]) -> str:
    def one(writer: int) -> list[bool | None]:
        return [create(name, b"%d" % writer) for name in names]

    told = run_concurrently(one, range(_WRITER_COUNT))
    for at, name in enumerate(names):
        winners = [writer for writer in range(_WRITER_COUNT) if told[writer][at]]
        if len(winners) > 1 or (winners and read(name) != b"%d" % winners[0]):
            return f"told {len(winners)} of {_WRITER_COUNT} writers at once that they created the same file"
    return ""
