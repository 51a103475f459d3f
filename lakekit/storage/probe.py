"""Check once per store and process, before the first commit, that a store creates files exclusively.

    one name, twice                 the second must be refused and change nothing
    eight names, eight at a time    at most one of the concurrent creators may succeed, and the file must be its own

A store that ignores the condition fails the first; one that looks first and writes later fails the second. Either would
lose commits silently, so it is refused for commits. The probe deletes the files it writes. Source: CATALOGS_AND_STORAGE
2.4, decision S5.
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
    directory: str,
    *,
    create: Callable[[str, bytes], bool | None],
    read: Callable[[str], bytes],
    delete: Callable[[Iterable[str]], None],
) -> None:
    """Raise `Unsupported` for a store that does not create files exclusively.

    `create` returns True for created, False for refused, None for an unclear answer. `directory` may be written to.
    Errors of `read` and `create` are raised, and the next call checks again.
    """
    verdict = _verdicts.get(store)
    if verdict is None:
        with _guard:
            verdict = _verdicts.get(store)
            if verdict is None:
                verdict = _verdicts[store] = _probe_store(directory, create, read, delete)
    if verdict:
        raise Unsupported(
            f"{directory}: this store {verdict}, so that two writers would overwrite each other's commits. Nothing "
            "was committed. Write through an endpoint with conditional PUT (If-None-Match), or through a catalog "
            "with a lock (lk.connect(metastore='jdbc', …)); reading works",
            feature="storage.conditional-put",
            path=directory,
        )


def _probe_store(
    directory: str,
    create: Callable[[str, bytes], bool | None],
    read: Callable[[str], bytes],
    delete: Callable[[Iterable[str]], None],
) -> str:
    probe_id = new_id()
    names = [f"{directory}/.lakekit-probe-{probe_id}-{number}" for number in range(1 + _WRITER_COUNT)]
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
    def create_all(writer: int) -> list[bool | None]:
        return [create(name, b"%d" % writer) for name in names]

    answers = run_concurrently(create_all, range(_WRITER_COUNT))
    for position, name in enumerate(names):
        winners = [writer for writer in range(_WRITER_COUNT) if answers[writer][position]]
        if len(winners) > 1 or (winners and read(name) != b"%d" % winners[0]):
            return f"told {len(winners)} of {_WRITER_COUNT} writers at once that they created the same file"
    return ""
