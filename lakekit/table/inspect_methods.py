"""Methods of a table that show its metadata: files, manifests, buckets, its repr and widgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekit import plugins
from lakekit.data_file.corrupt_manifest_path import add_manifest_path
from lakekit.draw import cards
from lakekit.read import time_travel
from lakekit.read.table_scan import TableCore
from lakekit.system_tables import frames, registry
from lakekit.system_tables.frames import file_totals, merge_health
from lakekit.table.schema import columns_html

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    import polars as pl

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot
    from lakekit.notebook.browser import Browser


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class InspectMethods(TableCore):
    """Methods that list snapshots, manifests, files, partitions and buckets, and the table's repr."""

    def snapshots(self) -> pl.DataFrame:
        """Return every snapshot, one row each, newest last."""
        return frames.snapshots(self._context())

    def manifests(self, at: int | str | datetime | None = None) -> pl.DataFrame:
        """Return the manifests of a snapshot, the newest without `at`."""
        return frames.manifests(*self._at(at))

    def files(self, at: int | str | datetime | None = None) -> pl.DataFrame:
        """Return the live data files of a snapshot, all levels."""
        frame = self._listing(frames.files, at)
        self._last_seen.files, self._last_seen.health_text = (
            file_totals(frame),
            merge_health(frame) if self._last_seen.ctx and self._last_seen.ctx.schema.primary_keys else None,
        )
        return frame

    def partitions(self, at: int | str | datetime | None = None) -> pl.DataFrame:
        """Return the partitions of a snapshot: files, rows and bytes of each."""
        return self._listing(frames.partitions, at)

    def buckets(self, at: int | str | datetime | None = None) -> pl.DataFrame:
        """Return the buckets of a snapshot: files, rows, bytes and sorted runs of each."""
        return self._listing(frames.buckets, at)

    def indexes(self, at: int | str | datetime | None = None) -> pl.DataFrame:
        """Return the index files of a snapshot: hash indexes and deletion vectors."""
        return self._listing(frames.indexes, at)

    def _listing(
        self, table: Callable[[TableContext, Snapshot | None], pl.DataFrame], at: int | str | datetime | None
    ) -> pl.DataFrame:
        ctx, snapshot = self._at(at)
        with add_manifest_path(ctx, lambda: snapshot):
            return table(ctx, snapshot)

    def browse(self) -> Browser:
        """Return a widget of the table's snapshots, manifests and levels.

        Click a snapshot, a manifest, a file; `.selected`, `.code` and `.frame()` say what it was. Reads the snapshots,
        and the manifests of the newest.

        Raises: `Unsupported` where ipywidgets or Pillow are not installed, naming what installs them.
        """
        browser: Browser = plugins.load("notebook", "browser").Browser(self)
        return browser

    def system(
        self, name: str, *, at: int | str | datetime | None = None, options: Mapping[str, Any] | None = None
    ) -> pl.LazyFrame:
        """Return a system table with Paimon's own columns.

        These are "audit_log", "binlog", "ro", "files", "snapshots", "schemas", "options", "manifests", ….

        Raises: `TableNotFound` for a name Paimon does not have, `Unsupported` for one that lakekit refuses.
        """
        ctx = self._context()
        return registry.system_table(ctx.with_options(options) if options else ctx, name, at)

    def _at(self, at: int | str | datetime | None) -> tuple[TableContext, Snapshot | None]:
        ctx, snapshot = time_travel.context_at(self._context(), at)
        self._last_seen.snapshot_id = None if snapshot is None else snapshot.id
        return ctx, snapshot

    def _facts(self) -> list[tuple[str, Any]]:
        seen = self._last_seen.ctx
        if seen is None:
            return [("location", self.location)]
        keys = seen.schema.primary_keys
        facts: list[tuple[str, Any]] = [("primary key", ", ".join(keys) if keys else "none: rows are only appended")]
        if seen.schema.partition_keys:
            facts.append(("partitioned by", ", ".join(seen.schema.partition_keys)))
        if keys:
            facts.append(("merge engine", seen.all_options.get("merge-engine", "deduplicate")))
        if seen.schema.comment:
            facts.append(("comment", seen.schema.comment))
        if self._last_seen.snapshot_id is not None:
            facts.append(("snapshot", f"{self._last_seen.snapshot_id} when last looked at"))
        last_seen = [
            ("files", self._last_seen.files),
            ("health", self._last_seen.health_text),
            ("check", self._last_seen.checked_text),
        ]
        return [*facts, *((name, text) for name, text in last_seen if text), ("location", self.location)]

    @property
    def _display_name(self) -> str:
        return self.name if self.branch_name is None else f"{self.name}$branch_{self.branch_name}"

    def __repr__(self) -> str:
        if self._last_seen.ctx is None:
            return cards.card_text(f"Table {self._display_name}", self._facts())
        columns = ", ".join(f"{field.name} {field.type}" for field in self._last_seen.ctx.schema.fields)
        main_facts = [
            (name, text)
            for name, text in self._facts()
            if name in ("primary key", "partitioned by", "snapshot", "location")
        ]
        return cards.card_text(f"Table {self._display_name}", [("columns", columns), *main_facts])

    def _repr_html_(self) -> str:
        card = cards.html_card(f"Table {self._display_name}", self._facts())
        return (
            card
            if self._last_seen.ctx is None
            else card + columns_html(self._last_seen.ctx.schema.fields, self._last_seen.ctx.schema.primary_keys)
        )
