"""The metadata files of one commit until it succeeds: names, pending writes, deletion.

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
    """The files that a commit has written; they are unreferenced until a snapshot is created."""

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
            # each format has names of its own
            "codec": codec_named(compression) if kind == "avro" else compression.lower(),
            "level": options.file_compression_zstd_level,
        }

    def write(self, prefix: Prefix, data: bytes) -> str:
        """Add a file to be written and return its name; it is durable after `finish`."""
        counter = self._numbers.get(prefix, 0)
        self._numbers[prefix] = counter + 1
        name = f"{prefix}-{self._uuid}-{counter}"
        path = self.ctx.layout.manifest(name)
        self._written[path] = None
        self._waiting.append((path, data))
        if sum(len(waiting) for _, waiting in self._waiting) > _MOST_BYTES:
            self.finish()
        return name

    def finish(self) -> None:
        """Write the pending files and sync them. Raises `StorageFailed`."""
        waiting, self._waiting = self._waiting, []
        write_together(self.ctx.storage, waiting)

    def discard(self, keep: Collection[str] = ()) -> None:
        """Drop pending files and delete written ones, except those named in `keep`.

        A file that cannot be deleted is left to the cleaning of orphans.
        """
        self._waiting = []
        kept_paths = {self.ctx.layout.manifest(name) for name in keep}
        to_delete = [path for path in self._written if path not in kept_paths]
        with suppress(LakekitError):
            if to_delete:
                self.ctx.storage.delete(to_delete)
        self._written = dict.fromkeys(path for path in self._written if path in kept_paths)
