"""`Commit`, the result of every write."""

from __future__ import annotations

from dataclasses import dataclass

from lakekit.draw import cards
from lakekit.draw.humanize import format_count, format_size, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One finished commit.

    `snapshot_ids` are the snapshots it made, one for each of `kinds`; none if there was nothing to do. Rows and the
    compaction that follows them are two kinds, and only the rows are guaranteed: a compaction that lost a race or
    failed is left out, and a later one does the work.

    Files are data files: those added, and those no longer live. `row_count` counts the rows of the files that were
    written (of a compaction alone: of the files it made), `size_bytes` the bytes of all files added. `retry_count` is
    the number of lost races.
    """

    table: str
    snapshot_ids: tuple[int, ...]
    commit_user: str
    identifier: int
    kinds: tuple[str, ...]
    added_file_count: int
    removed_file_count: int
    row_count: int
    size_bytes: int
    duration_ms: float
    retry_count: int

    @property
    def snapshot_id(self) -> int | None:
        """Return the id of the last snapshot of the commit; None if it made none."""
        return self.snapshot_ids[-1] if self.snapshot_ids else None

    @property
    def _title(self) -> str:
        if not self.snapshot_ids:
            return f"{self.table} · nothing to commit"
        snapshots = " · ".join(
            f"snapshot {snapshot_id} {kind}" for snapshot_id, kind in zip(self.snapshot_ids, self.kinds, strict=True)
        )
        return f"{self.table} · {snapshots}"

    @property
    def _facts(self) -> list[tuple[str, object]]:
        facts: list[tuple[str, object]] = [
            (
                "added",
                (
                    f"{plural(self.added_file_count, 'file')}, {plural(self.row_count, 'row')}, "
                    f"{format_size(self.size_bytes)}"
                ),
            ),
            ("removed", plural(self.removed_file_count, "file")),
            ("user", self.commit_user),
            (
                "took",
                f"{format_count(round(self.duration_ms))} ms"
                + (f", {plural(self.retry_count, 'retry', 'retries')}" if self.retry_count else ""),
            ),
        ]
        return facts if self.snapshot_ids else facts[2:]

    def __str__(self) -> str:
        return cards.card(self._title, self._facts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return cards.html_card(self._title, self._facts)
