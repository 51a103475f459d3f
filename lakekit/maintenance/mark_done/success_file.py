"""The file `_SUCCESS`, which tells watchers that a tag exists or a partition is complete.

    { "creationTime" : 1795282714096, "modificationTime" : 1795282714096 }     milliseconds since 1970

A complete partition has it in its directory. Source: `SuccessFile`, `SuccessFileTagCallback`,
`SuccessFileMarkDoneAction`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakekit.errors import Corrupt
from lakekit.model import json_codec
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext
    from lakekit.storage.protocol import Storage


CREATION_TIME, MODIFICATION_TIME = "creationTime", "modificationTime"


def write_success_file(storage: Storage, path: str, now_ms: int) -> None:
    """Write the file; an existing one keeps its creation time."""
    created = now_ms
    with suppress(FileMissing, Corrupt):
        created = json_codec.read_integer(CREATION_TIME, json_codec.loads(storage.read(path), path).get(CREATION_TIME))
    storage.put(path, json_codec.format_object({CREATION_TIME: created, MODIFICATION_TIME: now_ms}))


# ---- success file ------------------------------------------------------------


def check(ctx: TableContext) -> None:
    """Do nothing: the action has no options that could be wrong."""


def mark(ctx: TableContext, partition_name: str) -> None:
    """Write the file into the partition's directory, or update the modification time in an existing one."""
    write_success_file(ctx.storage, f"{ctx.root}/{partition_name}/_SUCCESS", ctx.runtime.now_ms())
