"""Data files decoded in a child process, as native libraries may crash over damaged bytes.

    check      FileCheckRequest(ctx, entries, path, at, hashes)  ->  python -m lakekit.maintenance.check.child_process
               {"problems": […], "advice": […]}                  <-  rows.check of that file

One child checks many files, one after the other; when it dies, that is reported as the problem of the file, and the
next file gets a new child. The request is pickled here and read by our own process; the answer of a process that read
hostile bytes is JSON. Files of a context that cannot be pickled, as that of a storage class that a program made itself,
are checked in this process.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING

from lakekit import runtime
from lakekit.data_file.paths import bucket_id_at
from lakekit.maintenance.check import rows
from lakekit.maintenance.check.findings import RESTORE_REMEDY, Finding, Findings
from lakekit.maintenance.check.rows import FileCheckRequest

if TYPE_CHECKING:
    from lakekit.maintenance.check.files import HashesByBucket

_OWN_MODULE = "lakekit.maintenance.check.child_process"


def check_in_child(check_request: FileCheckRequest, findings: Findings) -> bool:
    """Check a file in a child process; return False if that is impossible and nothing was checked."""
    alone = FileCheckRequest(
        check_request.ctx,
        check_request.entries.take([check_request.entry_index]),
        check_request.path,
        0,
        _hashes_of_bucket(check_request),
    )
    try:
        request = bytes(ForkingPickler.dumps(alone))
    except Exception:  # noqa: BLE001 - a storage of the caller's raises what it likes
        return False
    try:
        answer = _child_process().send_request(request)
    except OSError:  # no process could be started
        return False
    if isinstance(answer, str):
        message = f"the process that decoded it ended with {answer}"
        findings.add_problem(
            "data file ends the process that decodes it", message, path=check_request.path, remedy=RESTORE_REMEDY
        )
        return True
    answered = json.loads(answer)
    if answered is None:
        return False
    findings.problems += [Finding(**members) for members in answered["problems"]]
    findings.advice += [Finding(**members) for members in answered["advice"]]
    return True


def _hashes_of_bucket(check_request: FileCheckRequest) -> HashesByBucket | None:
    """Return the hash index of the file's bucket alone."""
    if check_request.hashes is None:
        return None
    bucket_id = bucket_id_at(check_request.entries, check_request.entry_index)
    return {bucket_id: check_request.hashes[bucket_id]} if bucket_id in check_request.hashes else {}


@lru_cache(maxsize=1)
def _child_process() -> runtime.ChildProcess:
    return runtime.ChildProcess(_OWN_MODULE)


def _answer_request(request: bytes) -> bytes:
    findings = Findings()
    try:
        check_request = ForkingPickler.loads(request)
        rows.check_rows(
            check_request.ctx, check_request.entries, [check_request.path], [0], check_request.hashes, findings
        )
    except Exception:  # noqa: BLE001 - a class that cannot be made here, or a fault of ours: who asked checks the file itself
        return b"null"
    answered = {
        "problems": [asdict(finding) for finding in findings.problems],
        "advice": [asdict(finding) for finding in findings.advice],
    }
    return json.dumps(answered).encode()


if __name__ == "__main__":
    runtime.answer_requests(_answer_request)
