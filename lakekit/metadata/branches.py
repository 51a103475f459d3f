"""The branches of a table: metadata of their own over shared data files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.metadata import metadata_io

if TYPE_CHECKING:
    from lakekit.metadata.metadata_io import MetadataLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch beside main; `created_ms` is when its directory last changed, as the reference shows it."""

    name: str
    created_ms: int


def all(place: MetadataLocation) -> list[Branch]:  # noqa: A001 - branches.all(handle) reads as meant
    """Every branch but main, by name; a directory without schema is none."""
    return [
        Branch(name=one.name.removeprefix("branch-"), created_ms=one.modified_ms)
        for one in place.storage.list(place.layout.branches_dir)
        if one.is_dir and one.name.startswith("branch-") and metadata_io.numbers(place, f"{one.path}/schema", "schema-")
    ]


def names(place: MetadataLocation) -> list[str]:
    """The names of all branches but main."""
    return [branch.name for branch in all(place)]
