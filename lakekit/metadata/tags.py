"""The tags of a table: names that keep a snapshot readable after it expired."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakekit.errors import TagNotFound
from lakekit.metadata import metadata_io
from lakekit.model.table_paths import is_plain
from lakekit.model.tag import Tag
from lakekit.storage.protocol import FileMissing
from lakekit.world import parallel_map

if TYPE_CHECKING:
    from lakekit.metadata.metadata_io import MetadataLocation
    from lakekit.storage.protocol import Stat

_MAX_SHOWN = 12


def names(location: MetadataLocation) -> list[str]:
    """Return the names of all tags, sorted."""
    return [name for name, _ in _list_tag_files(location)]


def _list_tag_files(location: MetadataLocation) -> list[tuple[str, Stat]]:
    """Return the names of all tags with the listing's stat of each file."""
    listed = location.storage.list(location.layout.tag_dir)
    return [
        (entry.name.removeprefix("tag-"), entry)
        for entry in listed
        if entry.name.startswith("tag-") and not entry.is_dir and entry.name != "tag-"
    ]


def find(location: MetadataLocation, name: str) -> Tag | None:
    """Return the tag of a name; None if there is none."""
    if not is_plain(f"tag-{name}") or not name or str(name) != name:  # a number names none
        return None
    return metadata_io.find(location, location.layout.tag(name), lambda data, path: Tag.from_json(data, name, path))


def read(location: MetadataLocation, name: str) -> Tag:
    """Return the tag of a name. Raises `TagNotFound` with the names that exist."""
    tag = find(location, name)
    if tag is None:
        raise tag_not_found(location, name)
    return tag


def all(location: MetadataLocation) -> list[Tag]:  # noqa: A001 - tags.all(ctx) reads as meant
    """Return every tag, by snapshot and name, without those deleted meanwhile."""
    found_tags = [
        tag
        for tag in parallel_map(
            lambda name_and_stat: _find_listed(location, *name_and_stat),
            _list_tag_files(location),
            waiting=location.storage.is_remote,
        )
        if tag is not None
    ]
    return sorted(found_tags, key=lambda tag: (tag.snapshot.id, tag.name))


def _find_listed(location: MetadataLocation, name: str, stat: Stat) -> Tag | None:
    if not is_plain(f"tag-{name}"):
        return None
    with suppress(FileMissing):
        return metadata_io.read_listed(location, stat, lambda data, path: Tag.from_json(data, name, path))
    return None


def tag_not_found(location: MetadataLocation, name: str) -> TagNotFound:
    """Return the error for a missing tag."""
    tag_names = names(location)
    more = f" and {len(tag_names) - _MAX_SHOWN} more" if len(tag_names) > _MAX_SHOWN else ""
    hint = f"its tags are {', '.join(tag_names[:_MAX_SHOWN])}{more}" if tag_names else "it has no tags"
    return TagNotFound(f"{location.name} has no tag {name!r}; {hint}", name=name)
