"""A committable as bytes: passed between the processes of a job, and stored in its savepoints.

committable    i64 identifier | u8 no watermark | [i64 watermark]
               i32 count | count × (i32, i64)                    offsets of a log system, up to version 4
               i32 count | count × (J-UTF key | J-UTF value)     from version 4 on
               i32 message version | i32 count | messages

Every list begins with its count; messages as in `model.commit_message`; big endian. The version of a committable
travels beside its bytes. Engine 1.4 writes committables of version 5. Sources: FORMAT.md 12;
`ManifestCommittableSerializer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.codec.cursor import Cursor, jutf
from lakekit.errors import Unsupported
from lakekit.model.commit_message import MESSAGE_VERSION, CommitMessage, encode_message, read_message
from lakekit.model.message_rows import write_list
from lakekit.options.frozendict import EMPTY, FrozenDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.codec.marks import SpanRecorder

COMMITTABLE_VERSION = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Committable:
    """Everything one commit publishes: the messages of all writers, with an identifier for safe retries."""

    identifier: int
    watermark: int | None = None
    properties: Mapping[str, str] = EMPTY
    messages: tuple[CommitMessage, ...] = ()


def _i32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def _i64(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def encode(committable: Committable) -> bytes:
    """Return the bytes of a committable, version 5."""
    out = [
        _i64(committable.identifier),
        b"\1" if committable.watermark is None else b"\0" + _i64(committable.watermark),
    ]
    out.append(write_list(list(committable.properties.items()), lambda item: jutf(item[0]) + jutf(item[1])))
    return b"".join([*out, _i32(MESSAGE_VERSION), write_list(committable.messages, encode_message)])


def decode(
    data: bytes, version: int = COMMITTABLE_VERSION, *, path: str | None = None, marks: SpanRecorder | None = None
) -> Committable:
    """Decode a committable of version 1 to 5. Raises `Corrupt`, `Unsupported`."""
    if not 1 <= version <= COMMITTABLE_VERSION:
        msg = f"a committable of version {version}: lakekit reads versions 1 to {COMMITTABLE_VERSION}"
        raise Unsupported(msg, feature="file.commit-message", path=path)
    cursor = Cursor(data, path=path, marks=marks)
    identifier = cursor.i64be("identifier")
    watermark = None if cursor.flag("no watermark") else cursor.i64be("watermark")
    if version <= 4:
        for _ in range(cursor.count("log offsets", each=12)):
            cursor.raw(12, "log offset")
    properties = (
        {cursor.jutf("key"): cursor.jutf("value") for _ in range(cursor.count("properties", each=4))}
        if version >= 4
        else {}
    )
    message_version = cursor.i32be("message version")
    messages = tuple(read_message(cursor, message_version) for _ in range(cursor.count("messages", each=36)))
    cursor.finish("committable")
    return Committable(identifier=identifier, watermark=watermark, properties=FrozenDict(properties), messages=messages)
