"""The consumers of a table: how far named streaming readers have come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.errors import ConsumerNotFound, InvalidOption
from lakekit.metadata import metadata_io
from lakekit.model.consumer import Consumer
from lakekit.model.table_paths import flaw, is_plain

if TYPE_CHECKING:
    from lakekit.metadata.metadata_io import MetadataLocation


def check_id(consumer_id: str) -> None:
    """Raises `InvalidOption` for what cannot name a consumer: nobody would find its place again."""
    given: object = consumer_id
    shown = str(given)[:80]
    why: str | None = f"it is of type {type(given).__name__}, and no text"
    if isinstance(given, str):
        why = flaw(given, "consumer-") if given.strip() else "it is blank"
    if why is not None:
        raise InvalidOption(f"{shown!a} cannot name a consumer: {why}", key="consumer-id", value=shown)


def ids(place: MetadataLocation) -> list[str]:
    """The ids of all consumers, sorted."""
    listed = place.storage.list(place.layout.consumer_dir)
    return [one.name.removeprefix("consumer-") for one in listed if one.name.startswith("consumer-") and not one.is_dir and one.name != "consumer-"]


def find(place: MetadataLocation, consumer_id: str) -> Consumer | None:
    """What a consumer recorded; None when there is none."""
    if not is_plain(f"consumer-{consumer_id}") or not consumer_id:
        return None
    return metadata_io.find(place, place.layout.consumer(consumer_id), Consumer.from_json)


def read(place: MetadataLocation, consumer_id: str) -> Consumer:
    """What a consumer recorded. Raises `ConsumerNotFound`."""
    found = find(place, consumer_id)
    if found is None:
        known = ids(place)
        there = f"its consumers are {', '.join(known)}" if known else "it has no consumers"
        raise ConsumerNotFound(f"{place.name} has no consumer {consumer_id!r}; {there}", name=consumer_id)
    return found


def all(place: MetadataLocation) -> dict[str, Consumer]:  # noqa: A001 - consumers.all(handle) reads as meant
    """What every consumer recorded, by id."""
    pairs = [(one, find(place, one)) for one in ids(place)]
    return {one: found for one, found in pairs if found is not None}


def record(place: MetadataLocation, consumer_id: str, next_snapshot: int) -> None:
    """Writes down which snapshot a consumer wants next. Raises `StorageFailed`."""
    place.storage.put(place.layout.consumer(consumer_id), Consumer(next_snapshot=next_snapshot).to_json())
