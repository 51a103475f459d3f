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


def names(place: MetadataLocation) -> list[str]:
    """The names of all tags, sorted."""
    return [name for name, _ in _list_tag_files(place)]


def _list_tag_files(place: MetadataLocation) -> list[tuple[str, Stat]]:
    """As `names`, with what the listing says of each tag's file."""
    listed = place.storage.list(place.layout.tag_dir)
    return [(one.name.removeprefix("tag-"), one) for one in listed if one.name.startswith("tag-") and not one.is_dir and one.name != "tag-"]


def find(place: MetadataLocation, name: str) -> Tag | None:
    """The tag of that name; None when there is none."""
    if not is_plain(f"tag-{name}") or not name or str(name) != name:  # a number names none
        return None
    return metadata_io.find(place, place.layout.tag(name), lambda data, path: Tag.from_json(data, name, path))


def read(place: MetadataLocation, name: str) -> Tag:
    """The tag of that name. Raises `TagNotFound` naming those there are."""
    found = find(place, name)
    if found is None:
        raise tag_not_found(place, name)
    return found


def all(place: MetadataLocation) -> list[Tag]:  # noqa: A001 - tags.all(handle) reads as meant
    """Every tag, by snapshot and name; those deleted meanwhile are left out."""
    found = [tag for tag in parallel_map(lambda one: _find_listed(place, *one), _list_tag_files(place), waiting=place.storage.is_remote) if tag is not None]
    return sorted(found, key=lambda tag: (tag.snapshot.id, tag.name))


def _find_listed(place: MetadataLocation, name: str, seen: Stat) -> Tag | None:
    if not is_plain(f"tag-{name}"):
        return None
    with suppress(FileMissing):
        return metadata_io.read_listed(place, seen, lambda data, path: Tag.from_json(data, name, path))
    return None


def tag_not_found(place: MetadataLocation, name: str) -> TagNotFound:
    """The error of a tag that is not there."""
    known = names(place)
    more = f" and {len(known) - _MAX_SHOWN} more" if len(known) > _MAX_SHOWN else ""
    there = f"its tags are {', '.join(known[:_MAX_SHOWN])}{more}" if known else "it has no tags"
    return TagNotFound(f"{place.name} has no tag {name!r}; {there}", name=name)
