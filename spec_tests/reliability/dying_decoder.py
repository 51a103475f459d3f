"""The process that decodes files for `check(deep=True)`, but a file named in the environment ends it, as a fault of a native library does."""

from __future__ import annotations

import os
import signal
from multiprocessing.reduction import ForkingPickler

from lakekit import runtime
from lakekit.maintenance.check import child_process

DEADLY = "LAKEKIT_TEST_DEADLY_FILE"


def answer(request: bytes) -> bytes:
    if ForkingPickler.loads(request).path == os.environ[DEADLY]:
        os.kill(os.getpid(), signal.SIGSEGV)
    return child_process._answer_request(request)


if __name__ == "__main__":
    runtime.answer_requests(answer)
