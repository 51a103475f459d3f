"""The result of everything that deletes: `DeletionResult`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.draw import cards
from lakekit.draw.humanize import format_size, plural

if TYPE_CHECKING:
    from lakekit.maintenance.reachability import UnreachableFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionResult:
    """What a maintenance task deleted or, with `dry_run`, would delete.

    `snapshot_ids`: the deleted snapshots (of `expire_changelogs`: the long-lived changelogs); `tags`, `consumers`,
    `branches`, `partitions` (as directories, `dt=2024-01-01`) likewise. Data files are counted with changelog files and
    extra files; manifest files are lists, manifests, index manifests and statistics. `size_bytes` is the size of all
    these files; the small files of snapshots and tags themselves are not counted.
    """

    table: str
    snapshot_ids: tuple[int, ...] = ()
    data_file_count: int = 0
    manifest_file_count: int = 0
    index_file_count: int = 0
    size_bytes: int = 0
    dry_run: bool = False
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()

    @property
    def _title(self) -> str:
        parts = [plural(len(self.snapshot_ids), "snapshot")] if self.snapshot_ids else []
        for noun, names in (
            ("tag", self.tags),
            ("branch", self.branches),
            ("consumer", self.consumers),
            ("partition", self.partitions),
        ):
            parts += [plural(len(names), noun, "branches" if noun == "branch" else None)] if names else []
        if not parts and (self.data_file_count or self.manifest_file_count or self.index_file_count):
            parts = ["files"]
        return f"{self.table} · {'would go' if self.dry_run else 'gone'}: {', '.join(parts) or 'nothing'}"

    @property
    def _facts(self) -> list[tuple[str, object]]:
        facts: list[tuple[str, object]] = []
        if self.snapshot_ids:
            ids = self.snapshot_ids
            facts.append(("snapshots", str(ids[0]) if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"))
        for word, names in (
            ("tags", self.tags),
            ("branches", self.branches),
            ("consumers", self.consumers),
            ("partitions", self.partitions),
        ):
            more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
            facts += [(word, ", ".join(names[:_MAX_SHOWN]) + more)] if names else []
        parts = (
            plural(self.data_file_count, "data file"),
            plural(self.manifest_file_count, "manifest file"),
            plural(self.index_file_count, "index file"),
        )
        return [*facts, ("files", f"{', '.join(parts)}, {format_size(self.size_bytes)}")]

    def __str__(self) -> str:
        return cards.card_text(self._title, self._facts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return cards.html_card(self._title, self._facts)


_MAX_SHOWN = 8

Expired = DeletionResult
"""The name that the class had before 0.1.0; kept for one release."""


def make_deletion_result(
    table: str,
    unreachable: UnreachableFiles,
    *,
    dry_run: bool,
    snapshot_ids: tuple[int, ...] = (),
    tags: tuple[str, ...] = (),
) -> DeletionResult:
    """Return the result for the files that were removed with some roots."""
    return DeletionResult(
        table=table,
        snapshot_ids=snapshot_ids,
        tags=tags,
        data_file_count=len(unreachable.data),
        manifest_file_count=len(unreachable.metadata),
        index_file_count=len(unreachable.index),
        size_bytes=unreachable.size_bytes,
        dry_run=dry_run,
    )
