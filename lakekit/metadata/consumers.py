"""The consumers of a table: the progress of named streaming readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.errors import ConsumerNotFound, InvalidOption
from lakekit.metadata import metadata_io
from lakekit.model.consumer import Consumer
from lakekit.model.table_paths import flaw, is_plain

if TYPE_CHECKING:
    from lakekit.metadata.metadata_io import MetadataLocation


def check_id(consumer_id: str) -> None:
    """Raise `InvalidOption` for an id that cannot name a consumer, whose progress could not be read back."""
    value: object = consumer_id
    text = str(value)[:80]
    flaw_text: str | None = f"it is of type {type(value).__name__}, and no text"
    if isinstance(value, str):
        flaw_text = flaw(value, "consumer-") if value.strip() else "it is blank"
    if flaw_text is not None:
        raise InvalidOption(f"{text!a} cannot name a consumer: {flaw_text}", key="consumer-id", value=text)


def ids(location: MetadataLocation) -> list[str]:
    """Return the ids of all consumers, sorted."""
    listed = location.storage.list(location.layout.consumer_dir)
    return [
        entry.name.removeprefix("consumer-")
        for entry in listed
        if entry.name.startswith("consumer-") and not entry.is_dir and entry.name != "consumer-"
    ]


def find(location: MetadataLocation, consumer_id: str) -> Consumer | None:
    """Return a consumer's record; None if there is none."""
    if not is_plain(f"consumer-{consumer_id}") or not consumer_id:
        return None
    return metadata_io.find(location, location.layout.consumer(consumer_id), Consumer.from_json)


def read(location: MetadataLocation, consumer_id: str) -> Consumer:
    """Return a consumer's record. Raises `ConsumerNotFound`."""
    consumer = find(location, consumer_id)
    if consumer is None:
        existing = ids(location)
        hint = f"its consumers are {', '.join(existing)}" if existing else "it has no consumers"
        raise ConsumerNotFound(f"{location.name} has no consumer {consumer_id!r}; {hint}", name=consumer_id)
    return consumer


def all(location: MetadataLocation) -> dict[str, Consumer]:  # noqa: A001 - consumers.all(ctx) reads as meant
    """Return the record of every consumer, by id."""
    pairs = [(consumer_id, find(location, consumer_id)) for consumer_id in ids(location)]
    return {consumer_id: consumer for consumer_id, consumer in pairs if consumer is not None}


def record(location: MetadataLocation, consumer_id: str, next_snapshot: int) -> None:
    """Write the id of the snapshot that a consumer reads next. Raises `StorageFailed`."""
    location.storage.put(location.layout.consumer(consumer_id), Consumer(next_snapshot=next_snapshot).to_json())
