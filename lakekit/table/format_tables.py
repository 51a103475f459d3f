"""Tables that are folders: `FormatTable` and `ObjectTable`, and their creation.

A format table has no snapshots: it is scanned, appended to and overwritten, and refuses by name what needs them. An
object table is read like any other; `refresh` lists its location again, and nothing else writes it.

Source: ENGINE.md 9.6.
"""

from __future__ import annotations

from dataclasses import dataclass, fields as members, replace
from typing import TYPE_CHECKING, Any, NoReturn, Self

import polars as pl

from lakekit.ddl import schema_writer as schemas
from lakekit.ddl.schema_changes import normalize_options
from lakekit.ddl.table_definition import check_default, define_table, to_fields
from lakekit.errors import InvalidOption, Unsupported
from lakekit.format_table import object_table, scan as listing, writer as writes
from lakekit.metadata import schemas as schema_files
from lakekit.model import partition as partitions
from lakekit.model.table_paths import OBJECT_LOCATION
from lakekit.model.table_schema import CURRENT_VERSION, TableSchema, assign_ids
from lakekit.options.features import FORMAT_TABLE, OBJECT_TABLE
from lakekit.options.option import EMPTY, FrozenDict
from lakekit.options.table_options import TableOptions
from lakekit.read import polars_pushdown
from lakekit.read.table_scan import context_of
from lakekit.table.schema import Schema, create_table_statement
from lakekit.table.table import Table
from lakekit.text_format.options import TEXT_OPTION_KEYS as TEXT_KEYS, text_options_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import BinaryIO

    from lakekit.commit.changes import Commit
    from lakekit.ddl.table_definition import SchemaLike
    from lakekit.metadata.table_context import TableContext, TableLocation


def to_table_of_kind(table: Table, other_kinds: Mapping[str, Callable[..., Table]] = EMPTY) -> Table:
    """Return the table as an object of its kind: a `FormatTable`, an `ObjectTable`, or itself.

    `other_kinds` make tables of further kinds.

    Raises: what opening raises.
    """
    kinds_of: Mapping[str, Callable[..., Table]] = {FORMAT_TABLE: FormatTable, OBJECT_TABLE: ObjectTable, **other_kinds}
    make = kinds_of.get(str(context_of(table).options.type))
    return table if make is None or type(table) is not Table else rebuild_table(table, make)


def context_of_any_kind(table: Table) -> TableContext:
    """Return the context of a table; that of a format table has no snapshots. Raises as `context_of`."""
    return table.facts() if isinstance(table, FormatTable) else context_of(table)


def rebuild_table(table: Table, make: Callable[..., Table]) -> Table:
    """Return the same table as an object of another class, with its last seen state."""
    rebuilt = make(**{member.name: getattr(table, member.name) for member in members(table) if member.init})
    rebuilt._last_seen.ctx = table._last_seen.ctx  # noqa: SLF001 - the same table
    return rebuilt


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FormatTable(Table):
    """A folder of CSV, JSON, text, Parquet or ORC files as a table.

    It has `scan`, `append`, `overwrite`, `truncate`, `drop_partitions`, `files`, `partitions`.
    """

    def facts(self) -> TableContext:
        """Return the current schema, options and location."""
        return Table._context(self)  # noqa: SLF001 - what all tables have, and this class refuses

    def _context(self) -> NoReturn:
        """Raise `Unsupported`: methods that need snapshots call this one."""
        msg = (
            f"{self.name} is a format table: a folder of files, without snapshots. It has scan, append, overwrite, "
            "truncate, drop_partitions, files, partitions"
        )
        raise Unsupported(msg, feature=FORMAT_TABLE)

    # ---- rows

    def scan(
        self, at: int | str | datetime | None = None, *, raw: bool = False, options: Mapping[str, Any] | None = None
    ) -> pl.LazyFrame:
        """Return the rows of the files that are there when the frame runs.

        Partition columns come from folders; conditions on them leave out folders before they are listed.

        Raises: `InvalidOption` for `at` and `raw`, which ask for snapshots, `Unsupported`; the frame itself may raise
        `Corrupt` naming the file.
        """
        ctx = self.facts()
        listing.check_no_position(ctx, True if raw else at)
        return polars_pushdown.scan_lazily(listing.make_scan(ctx.with_options(options) if options else ctx))

    def append(self, frame: object, *, cast: bool = False, merge_schema: bool = False) -> Commit:
        """Add rows as new files, which appear when all are complete.

        Raises: what `Table.append` raises; then nothing was added.
        """
        if merge_schema:
            raise Unsupported(
                f"{self.name} is a format table, whose columns stay as they are: leave merge_schema out",
                feature=FORMAT_TABLE,
            )
        return writes.append_rows(self.facts(), frame, cast=cast)

    def overwrite(self, frame: object, *, partition: Mapping[str, Any] | None = None, cast: bool = False) -> Commit:
        """Replace everything; in a partitioned table the partitions that the frame has rows of.

        With `dynamic-partition-overwrite` false that is everything, too. `partition`: `{"dt": "2024-03-31"}` replaces
        that partition; a spec of several columns names the first ones. Old files are deleted once the new ones are
        there.

        Raises: what `append` raises.
        """
        return writes.overwrite_partitions(self.facts(), frame, partition=partition, cast=cast)

    def truncate(self) -> Commit:
        """Delete all data files."""
        return writes.drop_partitions(self.facts(), [{}])

    def drop_partitions(self, partitions: Sequence[Mapping[str, Any]]) -> Commit:
        """Delete the files of every partition that matches one of `[{"dt": "2024-03-31"}, …]`.

        Raises: `ColumnNotFound`.
        """
        specs = [partitions] if isinstance(partitions, dict) else list(partitions)
        if not all(specs):
            raise InvalidOption(
                "an empty partition spec matches everything: t.truncate() removes all rows", key="partitions"
            )
        return writes.drop_partitions(self.facts(), specs)

    # ---- what it says of itself

    @property
    def schema(self) -> Schema:
        """The table's columns."""
        return Schema.of(self.facts().schema)

    @property
    def primary_keys(self) -> tuple[str, ...]:
        """Always empty: format tables have no keys."""
        return ()

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The columns whose values are folders."""
        return self.facts().schema.partition_keys

    @property
    def options(self) -> Mapping[str, str]:
        """The table's options with the dynamic ones put over them, as text."""
        return dict(self.facts().all_options)

    @property
    def comment(self) -> str | None:
        """The table's comment."""
        return self.facts().schema.comment

    @property
    def uuid(self) -> str:
        """The table's identity: its name and its creation time."""
        ctx = self.facts()
        return f"{self.name}.{schema_files.read_schema(ctx, schema_files.list_ids(ctx)[0]).time_millis}"

    def to_sql(self, *, dialect: str = "lakekit") -> str:
        """Return the CREATE TABLE statement that would make a table like this one, as `Table.to_sql`."""
        return create_table_statement(self.name, self.facts(), dialect)

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return the same table with dynamic options put over its own; None takes one away.

        Raises: `InvalidOption`.
        """
        self.facts().with_options(options)
        values = {
            member.name: getattr(self, member.name)
            for member in members(self)
            if member.init and member.name != "_seen"
        }
        return type(self)(**{**values, "dynamic": FrozenDict({**self.dynamic, **options})})

    def files(self, at: int | str | datetime | None = None) -> pl.DataFrame:
        """Return the data files: `partition`, `path`, `size_bytes`, `modified_ms`."""
        ctx = self.facts()
        listing.check_no_position(ctx, at)
        level = listing.list_partitions(ctx)
        listed = zip(
            self._partition_texts(ctx, level),
            listing.list_files(ctx, [folder.directory for folder in level]),
            strict=True,
        )
        rows = [(text, file.path, file.size_bytes, file.modified_ms) for text, files in listed for file in files]
        return pl.DataFrame(
            rows,
            schema={"partition": pl.String, "path": pl.String, "size_bytes": pl.Int64, "modified_ms": pl.Int64},
            orient="row",
        )

    def partitions(self, at: int | str | datetime | None = None) -> pl.DataFrame:
        """Return the partitions: `partition` (`dt=…/hr=…`), `file_count`, `size_bytes`.

        A table without partition columns has one partition, the empty text.
        """
        ctx = self.facts()
        listing.check_no_position(ctx, at)
        level = listing.list_partitions(ctx)
        listed = zip(
            self._partition_texts(ctx, level),
            listing.list_files(ctx, [folder.directory for folder in level]),
            strict=True,
        )
        rows = [(text, len(files), sum(file.size_bytes for file in files)) for text, files in listed]
        return pl.DataFrame(
            rows, schema={"partition": pl.String, "file_count": pl.Int64, "size_bytes": pl.Int64}, orient="row"
        )

    def _partition_texts(self, ctx: TableContext, level: Sequence[listing.PartitionFolder]) -> list[str]:
        types, options = [field.type for field in ctx.schema.partition_fields], ctx.options
        legacy = options.partition_legacy_name
        values = [
            partitions.partition_texts(
                folder.partition_values, types, default_name=options.partition_default_name, legacy_form=legacy
            )
            for folder in level
        ]
        return [partitions.partition_path(ctx.schema.partition_keys, texts).rstrip("/") for texts in values]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ObjectTable(Table):
    """The files at a location as rows, with a snapshot for each listing."""

    def refresh(self) -> Commit:
        """List the location, in a new snapshot; earlier listings are read with `scan(at=…)`.

        Raises: `StorageFailed`, and what a commit raises.
        """
        return commit_listing(self, object_table.list_objects(self._context()))

    def open(self, path: str) -> BinaryIO:
        """Open one object for reading, named by its `path` or by its path below the location.

        Raises: `NotFound`, `InvalidOption`, `StorageFailed`.
        """
        return object_table.open_object(self._context(), path)

    def _refused(self, *_: Any, **__: Any) -> NoReturn:
        """Raise `Unsupported`: rows are listed, not written."""
        raise Unsupported(
            f"{self.name} is an object table: its rows are what lies at its location, and t.refresh() lists it",
            feature=OBJECT_TABLE,
        )

    append = upsert = overwrite = writer = delete = update = merge = truncate = _refused


def commit_listing(table: ObjectTable, frames: Iterable[pl.DataFrame]) -> Commit:
    """Commit a listing as the newest snapshot of an object table."""
    with Table.writer(table, overwrite=True) as writer:
        for frame in frames:
            writer.write(frame)
        return writer.commit()


# ---- beginning -------------------------------------------------------------------------------------------------------


def define_format_table(
    table_location: TableLocation,
    schema: SchemaLike,
    *,
    format_name: str,
    location: str | None,
    partition_keys: Sequence[str] | None,
    options: Mapping[str, Any] | None,
    comment: str | None = None,
) -> TableSchema:
    """Write the definition of a format table, under a hidden name.

    Raises: `TableAlreadyExists`, `InvalidOption`, `SchemaMismatch`, `Unsupported`.
    """
    if schema_files.list_ids(table_location):
        raise schemas.table_already_exists(table_location)
    all_options = {**(options or {}), "type": FORMAT_TABLE, "file.format": format_name.strip().lower()}
    if location is not None:
        all_options["path"] = listing.portable_location(table_location, location)
    if "primary-key" in all_options:
        raise InvalidOption(
            "Cannot define primary-key for format table.", key="primary-key", value=str(all_options["primary-key"])
        )
    numbered, highest = assign_ids(to_fields(schema))
    keys = (partition_keys,) if isinstance(partition_keys, str) else tuple(partition_keys or ())
    ours = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in all_options.items()
        if key in TEXT_KEYS
    }
    draft = define_table(
        numbered,
        keys,
        (),
        {**normalize_options({key: value for key, value in all_options.items() if key not in ours}), **ours},
    )
    for part in draft.fields:
        check_default(part.type, part.default, part.name)
    table_schema = _schema(table_location, draft.fields, highest, draft.partition_keys, draft.options, comment)
    TableOptions.parse(table_schema.options)
    listing.check_new_format(all_options["file.format"], table_schema)
    text_options_of(table_schema.options, all_options["file.format"])
    schemas.write_first_schema(_with_hidden_schema(table_location), table_schema)
    return table_schema


def define_object_table(table_location: TableLocation, *, location: str, comment: str | None = None) -> TableSchema:
    """Write the definition of an object table, under a hidden name.

    Raises: `TableAlreadyExists`, `InvalidOption`.
    """
    if schema_files.list_ids(table_location):
        raise schemas.table_already_exists(table_location)
    numbered, highest = assign_ids(object_table.OBJECT_TABLE_FIELDS)
    table_schema = _schema(
        table_location,
        numbered,
        highest,
        (),
        {"type": OBJECT_TABLE, OBJECT_LOCATION: listing.portable_location(table_location, location)},
        comment,
    )
    schemas.write_first_schema(_with_hidden_schema(table_location), table_schema)
    return table_schema


def _schema(
    table_location: TableLocation,
    columns: Any,
    highest: int,
    partition_keys: Sequence[str],
    options: Mapping[str, str],
    comment: str | None,
) -> TableSchema:
    return TableSchema(
        version=CURRENT_VERSION,
        id=0,
        fields=tuple(columns),
        highest_field_id=highest,
        partition_keys=tuple(partition_keys),
        primary_keys=(),
        options=FrozenDict(options),
        comment=comment,
        time_millis=table_location.runtime.now_ms(),
    )


def _with_hidden_schema(table_location: TableLocation) -> TableLocation:
    return replace(table_location, paths=replace(table_location.paths, is_hidden=True))
