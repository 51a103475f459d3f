"""The metadata files of one commit while it is not sure of success: their names, what was written, and taking it back.

manifest-<uuid>-0, manifest-<uuid>-1, manifest-list-<uuid>-0 …      one uuid a commit, one counter a kind (FORMAT 1.3)
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from lakekit.codec.avro_container import codec_named
from lakekit.errors import LakekitError
from lakekit.storage.together import write_together

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakekit.metadata.table_context import TableContext

    Prefix = Literal["manifest", "manifest-list", "index-manifest"]


_MOST_BYTES = 32 << 20
"""Bytes that wait to be written together."""


class UncommittedFiles:
    """The files that a commit has written; nothing refers to them until a snapshot does."""

    def __init__(self, ctx: TableContext) -> None:
        self.ctx = ctx
        self.in_doubt = False
        """Whether a snapshot that refers to the files may be there, or may come."""
        self._uuid = ctx.world.new_id()
        self._numbers: dict[str, int] = {}
        self._written: dict[str, None] = {}
        self._waiting: list[tuple[str, bytes]] = []
        options = ctx.options
        compression, kind = options.manifest_compression, options.manifest_format
        self.how: dict[str, Any] = {
            "kind": kind,
            "codec": codec_named(compression) if kind == "avro" else compression.lower(),  # each format has names of its own
            "level": options.file_compression_zstd_level,
        }

    def write(self, prefix: Prefix, data: bytes) -> str:
        """Takes a file and gives its name; it is there for sure after `finish`."""
        number = self._numbers.get(prefix, 0)
        self._numbers[prefix] = number + 1
        name = f"{prefix}-{self._uuid}-{number}"
        path = self.ctx.layout.manifest(name)
        self._written[path] = None
        self._waiting.append((path, data))
        if sum(len(waiting) for _, waiting in self._waiting) > _MOST_BYTES:
            self.finish()
        return name

    def finish(self) -> None:
        """Writes what waits: every file is there, and safe from power loss. Raises `StorageFailed`."""
        waiting, self._waiting = self._waiting, []
        write_together(self.ctx.storage, waiting)

    def discard(self, keep: Collection[str] = ()) -> None:
        """Lets go of what waits, and deletes what was written except some names; a file that cannot be deleted is left to the cleaning of orphans."""
        self._waiting = []
        kept = {self.ctx.layout.manifest(name) for name in keep}
        gone = [path for path in self._written if path not in kept]
        with suppress(LakekitError):
            if gone:
                self.ctx.storage.delete(gone)
        self._written = dict.fromkeys(path for path in self._written if path in kept)
