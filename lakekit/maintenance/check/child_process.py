"""Data files decoded in a process of their own: libraries of C++ and Rust may end the process over damaged bytes, and a check must survive what it looks for.

    check           Asked(handle, entries, path, at, hashes)  ->  python -m lakekit.maintenance.check.child_process
                    {"problems": […], "advice": […]}          <-  rows.check of that file

One process checks many files, one after the other; when it dies, that is what is wrong with the file, and the next file gets another. What is sent
is made here and read by our own process; what comes back from a process that read hostile bytes is JSON. Files of a handle that cannot be sent, as that
of a storage which a program made itself, are checked in this process.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING

from lakekit import world
from lakekit.data_file.paths import bucket_id_at
from lakekit.maintenance.check import rows
from lakekit.maintenance.check.findings import RESTORE, Findings
from lakekit.maintenance.check.report import Finding
from lakekit.maintenance.check.rows import FileCheckRequest

if TYPE_CHECKING:
    from lakekit.maintenance.check.index import Hashes

_MODULE = "lakekit.maintenance.check.child_process"


def check(asked: FileCheckRequest, notes: Findings) -> bool:
    """Checks a file in a process of its own; False where it cannot be asked, and nothing was checked."""
    alone = FileCheckRequest(asked.ctx, asked.entries.take([asked.at]), asked.path, 0, _hashes(asked))
    try:
        request = bytes(ForkingPickler.dumps(alone))
    except Exception:  # noqa: BLE001 - a storage of the caller's raises what it likes
        return False
    try:
        answer = _decoder().send_request(request)
    except OSError:  # no process could be started
        return False
    if isinstance(answer, str):
        found = f"the process that decoded it ended with {answer}"
        notes.wrong("data file ends the process that decodes it", found, path=asked.path, remedy=RESTORE)
        return True
    told = json.loads(answer)
    if told is None:
        return False
    notes.problems += [Finding(**one) for one in told["problems"]]
    notes.advice += [Finding(**one) for one in told["advice"]]
    return True


def _hashes(asked: FileCheckRequest) -> Hashes | None:
    """The hash index of the file's bucket alone."""
    if asked.hashes is None:
        return None
    place = bucket_id_at(asked.entries, asked.at)
    return {place: asked.hashes[place]} if place in asked.hashes else {}


@lru_cache(maxsize=1)
def _decoder() -> world.ChildProcess:
    return world.ChildProcess(_MODULE)


def _answer(request: bytes) -> bytes:
    notes = Findings()
    try:
        asked = ForkingPickler.loads(request)
        rows.check(asked.ctx, asked.entries, [asked.path], [0], asked.hashes, notes)
    except Exception:  # noqa: BLE001 - a class that cannot be made here, or a fault of ours: who asked checks the file itself
        return b"null"
    found = {"problems": [asdict(one) for one in notes.problems], "advice": [asdict(one) for one in notes.advice]}
    return json.dumps(found).encode()


if __name__ == "__main__":
    world.answer_requests(_answer)
