"""What a table answers about its rows: scan, changes, explain, and another view of itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from lakekit.options.frozen import Frozen
from lakekit.read import changes, explain, lazy, scan, travel
from lakekit.table.opened import Opened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import polars as pl

    from lakekit.meta.handle import Handle
    from lakekit.read.explain import Explain


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Reading(Opened):
    """Rows of a table."""

    def scan(self, at: int | str | datetime | None = None, *, raw: bool = False, options: Mapping[str, Any] | None = None) -> pl.LazyFrame:
        """The rows of a snapshot as a LazyFrame; without `at`, of the newest one when it runs.

        `at` is a snapshot id, a tag (else digits are a snapshot id, else the text is an ISO time), or a datetime: the newest snapshot at or before it, a naive
        one in local time. `raw=True` gives every stored version with `_SEQUENCE_NUMBER`, `_row_kind`, `_level` and `_file`, nothing merged, nothing hidden.
        `options` are `scan.*` options; those that mean changes (`incremental-between`, `scan.mode` latest-delta) give the rows that were added or updated
        to, as SQL does: `changes` shows their kinds and the deletes. Columns are fixed now; nothing is read before the frame runs. Raises
        `SnapshotNotFound`, `TagNotFound`, `Unsupported` for what lakekit cannot read, `InvalidOption`; the frame itself may raise `Corrupt`,
        `SchemaChanged` and `ValueOutOfRange`.

        Sizes and footers are checked before a row is read; a damaged page inside a Parquet file that needs no merge raises Polars' own error while the frame
        runs. A frame made before `os.fork` must not be collected in the child, where Polars hangs: start processes with spawn, and send it there.
        """
        handle = self._asked(at, options)
        if at is None and not raw and travel.means_changes(handle):
            return lazy.lazy(changes.between(handle, kind_column=None))
        return lazy.lazy(scan.scan(handle, at, raw=raw))

    def changes(
        self,
        since: int | str | datetime,
        until: int | str | datetime | None = None,
        *,
        mode: str = "auto",
        kind_column: str = "_row_kind",
        options: Mapping[str, Any] | None = None,
    ) -> pl.LazyFrame:
        """The rows that changed after `since` up to and including `until` (the newest snapshot when None), their kind first.

        `since=0` begins at the beginning; both take ids, tags or times. `mode` is "delta" (rows as they were written), "changelog" (as a changelog
        producer recorded them), "diff" (what is different between the two states) or "auto": the changelog where the table keeps one, else the delta.
        Raises `SnapshotNotFound`, `InvalidOption`.
        """
        return lazy.lazy(changes.changes(self._with(options), since, until, mode=mode, kind_column=kind_column))

    def explain(self, expr: pl.Expr | None = None, *, at: int | str | datetime | None = None) -> Explain:
        """What a scan filtered by `expr` would read, and what each step of planning leaves out, in both branches where two are read. Reads metadata only."""
        return explain.explain(scan.scan(self.handle(), at), expr)

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """The same table with dynamic options put over its own, each checked. Raises `InvalidOption`."""
        self.handle().with_options(options)
        merged = {**self.dynamic, **options}
        return replace(self, dynamic=Frozen({key: value for key, value in merged.items() if value is not None}), _seen=type(self._seen)())

    def branch(self, name: str) -> Self:
        """The same table seen from a branch. Raises `BranchNotFound`."""
        self.handle().on_branch(name)
        return replace(self, branch_name=name, _seen=type(self._seen)())

    def _with(self, options: Mapping[str, Any] | None) -> Handle:
        handle = self.handle()
        return handle.with_options(options) if options else handle

    def _asked(self, at: int | str | datetime | None, options: Mapping[str, Any] | None) -> Handle:
        if at is not None and options and (also := sorted(set(options) & set(travel.SCAN_KEYS))):
            msg = f"at={at!r} and {', '.join(also)} both say which snapshot to read: give one of them"
            raise TypeError(msg)
        return self._with(options)
