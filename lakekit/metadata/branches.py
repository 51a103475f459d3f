"""The branches of a table: separate metadata over shared data files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.metadata import metadata_io

if TYPE_CHECKING:
    from lakekit.metadata.metadata_io import MetadataLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch other than main; `created_ms` is when its directory last changed, as in the reference."""

    name: str
    created_ms: int


def all(location: MetadataLocation) -> list[Branch]:  # noqa: A001 - branches.all(ctx) reads as meant
    """Return every branch but main, by name; a directory without a schema is not a branch."""
    return [
        Branch(name=entry.name.removeprefix("branch-"), created_ms=entry.modified_ms)
        for entry in location.storage.list(location.layout.branches_dir)
        if entry.is_dir
        and entry.name.startswith("branch-")
        and metadata_io.numbers(location, f"{entry.path}/schema", "schema-")
    ]


def names(location: MetadataLocation) -> list[str]:
    """Return the names of all branches but main."""
    return [branch.name for branch in all(location)]
