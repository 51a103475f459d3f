"""Metadata of a table: its schema, its files, manifests and buckets as frames, its repr and widgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekit import plugins
from lakekit.data_file.entry_damage import add_manifest_path
from lakekit.draw import cards, html
from lakekit.errors import NotFound
from lakekit.inspection.summary import health, totals
from lakekit.metadata import schemas as schema_files
from lakekit.read import time_travel
from lakekit.read.table_core import TableCore
from lakekit.system_tables import frames, metadata, registry
from lakekit.table.schema import Schema, columns_html
from lakekit.table.schema_difference import SchemaDifference, diff_schemas
from lakekit.types import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    import polars as pl

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot
    from lakekit.notebook.browser import Browser


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Looking(TableCore):
    """Methods and properties that describe a table."""

    @property
    def schema(self) -> Schema:
        """The newest schema."""
        return Schema.of(self.handle().schema)

    @property
    def primary_keys(self) -> tuple[str, ...]:
        """The columns of the primary key; empty for an append table."""
        return self.handle().schema.primary_keys

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The columns that partition the table."""
        return self.handle().schema.partition_keys

    @property
    def options(self) -> Mapping[str, str]:
        """The table's options with the dynamic ones put over them, as text."""
        return dict(self.handle().all_options)

    @property
    def comment(self) -> str | None:
        """The table's comment."""
        return self.handle().schema.comment

    @property
    def uuid(self) -> str:
        """The table's identity: its name and its creation time."""
        ctx = self.handle()
        return f"{self.name}.{schema_files.read(ctx, schema_files.ids(ctx)[0]).time_millis}"

    def to_sql(self) -> str:
        """Return the CREATE TABLE statement that would make a table like this one."""
        return statement(self.name, self.handle())

    def snapshots(self) -> pl.DataFrame:
        """Return every snapshot, one row each, newest last."""
        return metadata.snapshots(self.handle())

    def schemas(self) -> pl.DataFrame:
        """Return every schema, one row each."""
        return metadata.schemas(self.handle())

    def schema_difference(self, older: int, newer: int | None = None) -> SchemaDifference:
        """Return what changed between two schemas; without `newer`, up to the newest.

        Changes are columns added, dropped, renamed, widened or moved, options set and reset.

        Raises: `NotFound` for a number that no schema has.
        """
        ctx = self.handle()
        schema_ids = schema_files.ids(ctx)
        wanted = (older, schema_ids[-1] if newer is None else newer)
        if missing := [number for number in wanted if number not in schema_ids]:
            msg = (
                f"{self.name} has no schema {missing[0]}: its schemas are "
                f"{', '.join(map(str, schema_ids[:12]))}{' …' if len(schema_ids) > 12 else ''}"
            )
            raise NotFound(msg, name=str(missing[0]))
        return diff_schemas(self.name, schema_files.read(ctx, wanted[0]), schema_files.read(ctx, wanted[1]))

    def tags(self) -> pl.DataFrame:
        """Return every tag, one row each."""
        return metadata.tags(self.handle())

    def branches(self) -> pl.DataFrame:
        """Return every branch but main, one row each."""
        return metadata.branches(self.handle())

    def consumers(self) -> pl.DataFrame:
        """Return every consumer, one row each."""
        return metadata.consumers(self.handle())

    def manifests(self, at: int | str | datetime | None = None) -> pl.DataFrame:
        """Return the manifests of a snapshot, the newest without `at`."""
        return frames.manifests(*self._at(at))

    def files(self, at: int | str | datetime | None = None) -> pl.DataFrame:
        """Return the live data files of a snapshot, all levels."""
        frame = self._listing(frames.files, at)
        self._seen.files, self._seen.health = (
            totals(frame),
            health(frame) if self._seen.ctx and self._seen.ctx.schema.primary_keys else None,
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
        ctx = self.handle()
        return registry.system(ctx.with_options(options) if options else ctx, name, at)

    def _at(self, at: int | str | datetime | None) -> tuple[TableContext, Snapshot | None]:
        ctx = self.handle()
        position = time_travel.locate(ctx, at)
        self._seen.snapshot_id = None if position.snapshot is None else position.snapshot.id
        return time_travel.schema_of(ctx, position), position.snapshot

    def _facts(self) -> list[tuple[str, Any]]:
        seen = self._seen.ctx
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
        if self._seen.snapshot_id is not None:
            facts.append(("snapshot", f"{self._seen.snapshot_id} when last looked at"))
        last_seen = [("files", self._seen.files), ("health", self._seen.health), ("check", self._seen.checked)]
        return [*facts, *((name, text) for name, text in last_seen if text), ("location", self.location)]

    @property
    def _called(self) -> str:
        return self.name if self.branch_name is None else f"{self.name}$branch_{self.branch_name}"

    def __repr__(self) -> str:
        if self._seen.ctx is None:
            return cards.card(f"Table {self._called}", self._facts())
        columns = ", ".join(f"{field.name} {field.type}" for field in self._seen.ctx.schema.fields)
        main_facts = [
            (name, text)
            for name, text in self._facts()
            if name in ("primary key", "partitioned by", "snapshot", "location")
        ]
        return cards.card(f"Table {self._called}", [("columns", columns), *main_facts])

    def _repr_html_(self) -> str:
        card = html.card(f"Table {self._called}", self._facts())
        return (
            card
            if self._seen.ctx is None
            else card + columns_html(self._seen.ctx.schema.fields, self._seen.ctx.schema.primary_keys)
        )


def statement(name: str, ctx: TableContext) -> str:
    """Return the CREATE TABLE statement of a table."""
    lines = [
        f"  {quote(f.name)} {f.type}" + ("" if f.comment is None else f" COMMENT {_literal(f.comment)}")
        for f in ctx.schema.fields
    ]
    if ctx.schema.primary_keys:
        lines.append(f"  PRIMARY KEY ({', '.join(map(quote, ctx.schema.primary_keys))}) NOT ENFORCED")
    text = f"CREATE TABLE {'.'.join(map(quote, name.split('.')))} (\n" + ",\n".join(lines) + "\n)"
    if ctx.schema.comment:
        text += f" COMMENT {_literal(ctx.schema.comment)}"
    if ctx.schema.partition_keys:
        text += f" PARTITIONED BY ({', '.join(map(quote, ctx.schema.partition_keys))})"
    if ctx.schema.options:
        pairs = ",\n".join(
            f"  {_literal(key)} = {_literal(value)}" for key, value in sorted(ctx.schema.options.items())
        )
        text += f" WITH (\n{pairs}\n)"
    return text


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
