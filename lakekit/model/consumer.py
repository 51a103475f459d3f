"""The consumer file `consumer/consumer-<id>`: the snapshot that a streaming reader reads next.

    { "nextSnapshot" : 5 }

Source: FORMAT.md 3.7, `Consumer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekit.model import json_codec
from lakekit.model.json_codec import count, member

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """The progress of a named reader; snapshots from `next_snapshot` on are kept for it."""

    next_snapshot: int = member("nextSnapshot", count)
    extra: Mapping[str, Any] = json_codec.extra_member()

    @staticmethod
    def from_json(data: bytes, path: str | None = None) -> Consumer:
        """Decode a consumer file. Raises `Corrupt`."""
        return json_codec.decode(Consumer, json_codec.loads(data, path), path)

    def to_json(self) -> bytes:
        """Return the file's bytes, as the reference prints them."""
        return json_codec.dumps(json_codec.encode(self))
