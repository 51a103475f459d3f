"""The branches, consumers, statistics and tags of a table.

branch       separate metadata over shared data files
consumer     the progress of a named streaming reader
statistics   what an ANALYZE attached to a snapshot
tag          a name that keeps a snapshot readable after it expired
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.errors import ConsumerNotFound, InvalidOption, TagNotFound
from lakekit.metadata import metadata_io
from lakekit.model.snapshot import Consumer, Statistics, Tag
from lakekit.model.table_paths import is_plain_name, name_problem
from lakekit.parallel import parallel_map
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from lakekit.metadata.metadata_io import MetadataLocation
    from lakekit.model.snapshot import Snapshot
    from lakekit.storage.protocol import Stat


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch other than main; `changed_ms` is when its directory last changed, as in the reference."""

    name: str
    changed_ms: int


def list_branches(location: MetadataLocation) -> list[Branch]:
    """Return every branch but main, by name; a directory without a schema is not a branch."""
    return [
        Branch(name=entry.name.removeprefix("branch-"), changed_ms=entry.modified_ms)
        for entry in location.storage.list(location.paths.branches_dir)
        if entry.is_dir
        and entry.name.startswith("branch-")
        and metadata_io.list_ids(location, f"{entry.path}/schema", "schema-")
    ]


def list_branch_names(location: MetadataLocation) -> list[str]:
    """Return the names of all branches but main."""
    return [branch.name for branch in list_branches(location)]


# ---- consumers ------------------------------------------------------------


def check_consumer_id(consumer_id: str) -> None:
    """Raise `InvalidOption` for an id under which a consumer's file, once written, could not be found again."""
    value: object = consumer_id
    text = str(value)[:80]
    flaw_text: str | None = f"it is of type {type(value).__name__}, and no text"
    if isinstance(value, str):
        flaw_text = name_problem(value, "consumer-") if value.strip() else "it is blank"
    if flaw_text is not None:
        raise InvalidOption(f"{text!a} cannot name a consumer: {flaw_text}", key="consumer-id", value=text)


def list_consumer_ids(location: MetadataLocation) -> list[str]:
    """Return the ids of all consumers, sorted."""
    listed = location.storage.list(location.paths.consumer_dir)
    return [
        entry.name.removeprefix("consumer-")
        for entry in listed
        if entry.name.startswith("consumer-") and not entry.is_dir and entry.name != "consumer-"
    ]


def find_consumer(location: MetadataLocation, consumer_id: str) -> Consumer | None:
    """Return a consumer's record; None if there is none."""
    if not is_plain_name(f"consumer-{consumer_id}") or not consumer_id:
        return None
    return metadata_io.find_json_file(location, location.paths.consumer(consumer_id), Consumer.from_json)


def read_consumer(location: MetadataLocation, consumer_id: str) -> Consumer:
    """Return a consumer's record. Raises `ConsumerNotFound`."""
    consumer = find_consumer(location, consumer_id)
    if consumer is None:
        existing = list_consumer_ids(location)
        hint = f"its consumers are {', '.join(existing)}" if existing else "it has no consumers"
        raise ConsumerNotFound(f"{location.name} has no consumer {consumer_id!r}; {hint}", name=consumer_id)
    return consumer


def list_consumers(location: MetadataLocation) -> dict[str, Consumer]:
    """Return the record of every consumer, by id."""
    pairs = [(consumer_id, find_consumer(location, consumer_id)) for consumer_id in list_consumer_ids(location)]
    return {consumer_id: consumer for consumer_id, consumer in pairs if consumer is not None}


def record_consumer(location: MetadataLocation, consumer_id: str, next_snapshot: int) -> None:
    """Write the id of the snapshot that a consumer reads next. Raises `StorageFailed`."""
    location.storage.put(location.paths.consumer(consumer_id), Consumer(next_snapshot=next_snapshot).to_json())


# ---- statistics ------------------------------------------------------------


def read_statistics(location: MetadataLocation, snapshot: Snapshot) -> Statistics | None:
    """Return the statistics of a snapshot; None if it was never analysed.

    Raises `FileMissing` if the file it names is gone.
    """
    if snapshot.statistics is None:
        return None
    return metadata_io.read_json_file(location, location.paths.statistics(snapshot.statistics), Statistics.from_json)


# ---- tags ------------------------------------------------------------


_MAX_SHOWN = 12


def list_tag_names(location: MetadataLocation) -> list[str]:
    """Return the names of all tags, sorted."""
    return [name for name, _ in _list_tag_files(location)]


def _list_tag_files(location: MetadataLocation) -> list[tuple[str, Stat]]:
    listed = location.storage.list(location.paths.tag_dir)
    return [
        (entry.name.removeprefix("tag-"), entry)
        for entry in listed
        if entry.name.startswith("tag-") and not entry.is_dir and entry.name != "tag-"
    ]


def find_tag(location: MetadataLocation, name: str) -> Tag | None:
    """Return the tag of a name; None if there is none."""
    if not is_plain_name(f"tag-{name}") or not name or str(name) != name:  # a number names none
        return None
    return metadata_io.find_json_file(
        location, location.paths.tag(name), lambda data, path: Tag.from_json(data, name, path)
    )


def read_tag(location: MetadataLocation, name: str) -> Tag:
    """Return the tag of a name. Raises `TagNotFound` with the names that exist."""
    tag = find_tag(location, name)
    if tag is None:
        raise tag_not_found(location, name)
    return tag


def list_tags(location: MetadataLocation) -> list[Tag]:
    """Return every tag, by snapshot and name, without those deleted meanwhile."""
    found_tags = [
        tag
        for tag in parallel_map(
            lambda name_and_stat: _find_listed_tag(location, *name_and_stat),
            _list_tag_files(location),
            waiting=location.storage.is_remote,
        )
        if tag is not None
    ]
    return sorted(found_tags, key=lambda tag: (tag.snapshot.id, tag.name))


def _find_listed_tag(location: MetadataLocation, name: str, stat: Stat) -> Tag | None:
    if not is_plain_name(f"tag-{name}"):
        return None
    with suppress(FileMissing):
        return metadata_io.read_listed_json_file(location, stat, lambda data, path: Tag.from_json(data, name, path))
    return None


def tag_not_found(location: MetadataLocation, name: str) -> TagNotFound:
    """Return the error for a missing tag."""
    tag_names = list_tag_names(location)
    more = f" and {len(tag_names) - _MAX_SHOWN} more" if len(tag_names) > _MAX_SHOWN else ""
    hint = f"its tags are {', '.join(tag_names[:_MAX_SHOWN])}{more}" if tag_names else "it has no tags"
    return TagNotFound(f"{location.name} has no tag {name!r}; {hint}", name=name)
