"""The Spark data source `format("lakekit")`, and `ls.attach`, which names tables in Spark's SQL.

    spark.read.format("lakekit").option("filter", "day = '2024-03-31'").load(path)
    df.write.format("lakekit").mode("append").save(path)
    spark.readStream.format("lakekit").load(path)
    df.writeStream.format("lakekit").option("checkpointLocation", …).start(path)

Spark tells a Python source neither which columns a query uses nor its limit, and it applies the filters that it tells
to the relation and not to the scan, which gives wrong rows where a frame is used twice. So nothing is pushed:
`.schema("id LONG")` names the columns to read, and the option `filter` the rows. A frame stays on the snapshot it was
planned on. The source is for code that cannot call `ls.read` and `ls.write`: `ls.read` is faster, as Spark reads plain
files itself there.

Written rows are not shuffled. No task has a bucket for itself then, so that tasks compact no bucket. Where readers see
rows, or their changelog, only after a compaction (deletion vectors, first-row, producers lookup and full-compaction),
the process that commits compacts the written buckets after its commit, by itself. Keys whose bucket depends on existing
rows (dynamic buckets, keys across partitions) are refused. `ls.write` shuffles rows to their buckets first, and its
tasks compact.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import wraps
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from lakekit import plugins
from lakekit.commit import abort
from lakekit.commit.overwrite import Overwrite
from lakekit.errors import InvalidOption, LakekitError, NotFound, Unsupported
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.model.table_paths import check_not_in_hint
from lakekit.options.table_options import is_known
from lakekit.read import incremental as changing, table_scan, time_travel
from lakekit.read.table_scan import context_of
from lakekit.runtime import warn_user
from lakekit.spark import batch_read, batch_write, session, tasks, types, write_task
from lakekit.table.format_tables import FormatTable
from lakekit.table.open_create import open as open_table
from lakekit.types import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from lakekit.catalog.catalog import Catalog
    from lakekit.read.incremental import IncrementalScan
    from lakekit.table.table import Table


F = TypeVar("F", bound="Callable[..., Any]")

NAME = "lakekit"
SOURCE_OPTIONS = ("path", "branch", "filter", "row_kind", "partition", "partitionoverwritemode", "checkpointlocation")
"""Options that are no options of a table, in lower case: Spark does not keep the case of any."""
RESERVED_OPTIONS = (
    "comment",
    "external",
    "is_managed_location",
    "location",
    "owner",
    "provider",
    "serialization.format",
)
"""Options that Spark itself sets for an entry of its catalog."""
STORAGE_PREFIX, STREAM_PREFIX = "storage.", "read.stream."
LIMIT_OPTIONS = {word.lower(): word for word in ("maxFilesPerTrigger", "maxRowsPerTrigger", "maxBytesPerTrigger")}
"""Options that say how big a batch of a stream is, with or without `STREAM_PREFIX`, by their names in lower case."""
_TRANSLATED_OPTIONS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "versionasof": ("scan.version", ()),
    "timestampasof": ("scan.timestamp", ()),
    "startingversion": ("scan.snapshot-id", (("scan.mode", "from-snapshot"),)),
    "startingtimestamp": ("scan.timestamp", (("scan.mode", "from-timestamp"),)),
}
"""Options of other table formats, in lower case: the option that takes the value, and what goes with it."""
_SHOWN_OPTIONS = (
    *("path", "branch", "filter", "row_kind", "partition", "partitionOverwriteMode", "checkpointLocation"),
    *LIMIT_OPTIONS.values(),
    *("startingVersion", "startingTimestamp", "versionAsOf", "timestampAsOf"),
)
"""Options of a source as they are written, of which Spark keeps the lower case alone."""
_REFUSED_OPTIONS = {
    **dict.fromkeys(
        ("readchangefeed", "readchangedata"),
        "a stream with the option row_kind, and ls.changes(spark, table, since, until), bring the changes of a table",
    ),
    **dict.fromkeys(
        ("ignoredeletes", "ignorechanges", "skipchangecommits"),
        "without the option row_kind a stream leaves out what takes rows away; leave it out",
    ),
    **dict.fromkeys(
        ("endingversion", "endingtimestamp"), "ls.changes(spark, table, since, until) reads changes up to a snapshot"
    ),
    "mergeschema": "add columns first, by t.alter(lk.add_column(…)) or ls.sql(spark, 'ALTER TABLE …', catalog=cat)",
    "replacewhere": "ls.write(df, table, mode='overwrite', partition={…}) replaces a partition",
}
"""Options of other table formats that have no meaning here, in lower case, and what does the same."""


def sentence_first(method: F) -> F:
    """Return a method whose errors bring one line of traceback: Spark shows all of it before the sentence."""

    @wraps(method)
    def shortened(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except LakekitError as error:
            raise error.with_traceback(None) from None

    return cast("F", shortened)


def register(spark: SparkSession) -> None:
    """Register `format("lakekit")` in a session: batch and stream, read and write, classic and Connect."""
    session.check(spark)
    spark.dataSource.register(PaimonDataSource)


class PaimonDataSource(DataSource):
    """A table for Spark's readers and writers, by the options of a source.

    path, branch                  the table
    filter                        the rows to read
    row_kind                      the column of "+I", "-U", "+U", "-D" that a write goes by or a stream adds
    partition                     what an overwrite replaces, spelt as its folder, `dt=2024-03-31/hour=7`
    partitionOverwriteMode        static, the default, replaces the whole table; dynamic the partitions that
                                  there are rows of; or the table's own word for it, `dynamic-partition-overwrite`
    maxFilesPerTrigger, maxRowsPerTrigger, maxBytesPerTrigger
                                  where a batch of a stream ends, between two snapshots; read.stream.… too
    startingVersion, startingTimestamp
                                  where a stream begins: with what snapshot n brought (or "latest"), or with a time
    versionAsOf, timestampAsOf    the state that is read: a snapshot or tag, or a time
    storage.…                     what the storage is opened with; every other one is an option of the table
    """

    @classmethod
    def name(cls) -> str:
        """Return the name used in `format(…)`."""
        return NAME

    def table(self) -> Table:
        """Open the table that the options name."""
        options = dict(self.options)
        path = options.pop("path", None)
        if not path:
            raise InvalidOption(
                "no path: format('lakekit').load('warehouse/shop.db/orders'). CREATE TABLE … USING lakekit makes no "
                "table: ls.sql(spark, 'CREATE TABLE …', catalog=cat) does, and ls.attach(spark, cat) names it",
                key="path",
            )
        stores = {
            key[len(STORAGE_PREFIX) :]: value
            for key, value in options.items()
            if key.lower().startswith(STORAGE_PREFIX)
        }
        opened = open_table(
            path, branch=options.pop("branch", None), options=table_options(options), storage_options=stores or None
        )
        if isinstance(opened, FormatTable):
            raise Unsupported(
                f"{opened.name} is a format table: Spark reads such folders itself, and ls.read too",
                feature="spark.source",
            )
        return opened

    @sentence_first
    def schema(self) -> StructType:
        """Return the table's columns, after the kind of each row where the option `row_kind` names it.

        Every column may hold nulls, as in every frame that is read.
        """
        table = self.table()
        ctx = batch_read.context_for_tasks(table, None, None)
        try:
            fields = ctx.schema.fields if time_travel.means_changes(ctx) else table_scan.scan(ctx).fields
        except NotFound:  # a stream may begin behind what is there, with today's columns
            fields = ctx.schema.fields
        kind = self.options.get("row_kind")
        if kind is not None and any(field.name == kind for field in fields):
            raise InvalidOption(
                f"{table.name} has a column {kind!r} of its own: give the kinds another name",
                key="row_kind",
                value=kind,
            )
        return types.spark_schema(batch_read.with_kind(kind, fields, numbered=False))

    @sentence_first
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns of `schema`, which may be fewer than the table has.

        Raises: `InvalidOption` for where a stream begins.
        """
        for name in ("startingVersion", "startingTimestamp"):
            if name.lower() in map(str.lower, self.options):
                raise InvalidOption(
                    f"{name} says where a stream begins, and this is no stream: versionAsOf and timestampAsOf name a "
                    "state, ls.changes(spark, table, since, until) reads what changed",
                    key=name,
                )
        return BatchReader(self.table(), schema, self.options.get("filter"), self.options.get("row_kind"))

    @sentence_first
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer of rows of `schema`.

        Raises: what `ls.write` raises before any task.
        """
        partition = self.options.get("partition")
        if partition is not None and not overwrite:
            raise InvalidOption(
                f"partition={partition!r} says what an overwrite replaces, and these rows are appended",
                key="partition",
                value=partition,
            )
        mode, replaced = (
            ("overwrite" if overwrite else "append"),
            write_task.parse_partition(partition) if partition else None,
        )
        table = self.table()
        if overwrite and not any(key.lower() == batch_write.DYNAMIC_OVERWRITE_OPTION for key in self.options):
            table = table.with_options(
                {
                    batch_write.DYNAMIC_OVERWRITE_OPTION: batch_write.is_dynamic(
                        self.options.get("partitionoverwritemode")
                    )
                }
            )
        return BatchWriter(
            *batch_write.write_job(
                context_of(table), schema, mode=mode, partition=replaced, row_kind=self.options.get("row_kind")
            )
        )

    @sentence_first
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader of what snapshots bring; the option `row_kind` adds the column of kinds.

        Raises: what `t.follow` raises before it begins.
        """
        streams = _import_streaming()
        reader: DataSourceStreamReader = streams.StreamReader(self.table(), schema, dict(self.options))
        return reader

    @sentence_first
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Return a writer of micro-batches; output mode complete replaces the table each time."""
        streams = _import_streaming()
        user = streams.commit_user_of(self.options.get("checkpointlocation"))
        mode = "overwrite" if overwrite else "append"
        job, _ = batch_write.write_job(
            context_of(self.table()), schema, mode=mode, row_kind=self.options.get("row_kind"), commit_user=user
        )
        writer: DataSourceStreamArrowWriter = streams.StreamWriter(job, Overwrite.entire_table() if overwrite else None)
        return writer


def _import_streaming() -> Any:
    """Import the stream classes of PySpark 4.2: older versions lack a name (4.0) or a module (4.1)."""
    try:
        return plugins.load("spark", "streaming")
    except (ImportError, Unsupported) as missing:
        raise Unsupported(
            "streams of format('lakekit') need PySpark 4.2 or newer; foreachBatch with ls.write works with all",
            feature="spark.source",
        ) from missing


def table_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the table among those of a source.

    Raises: `InvalidOption` for a name that is none, with the nearest one.
    """
    own: dict[str, str] = {}
    for key, value in options.items():
        name = key.lower()
        if name in (*SOURCE_OPTIONS, *RESERVED_OPTIONS, *LIMIT_OPTIONS) or name.startswith(
            (STORAGE_PREFIX, STREAM_PREFIX)
        ):
            continue
        if name in _TRANSLATED_OPTIONS:
            own |= _translate_option(name, value)
            continue
        _check_option_name(key, value)
        own[key] = value
    return own


def _translate_option(name: str, value: str) -> dict[str, str]:
    """Return an option of another table format as options of the table."""
    if name == "startingversion" and value.lower() == "latest":
        return {"scan.mode": "latest"}
    key, others = _TRANSLATED_OPTIONS[name]
    return {key: value, **dict(others)}


def _check_option_name(key: str, value: str) -> None:
    """Raise `InvalidOption` for what is no option of a table, but looks like one of a source."""
    if is_known(key):
        return
    name = key.lower()
    if (remedy := _REFUSED_OPTIONS.get(name)) is not None:
        raise InvalidOption(f"no option is called {key!r}: {remedy}", key=key, value=value)
    words = {word.lower(): word for word in _SHOWN_OPTIONS}
    if near := get_close_matches(name, list(words), n=1, cutoff=0.75):
        raise InvalidOption(f"no option is called {key!r}; did you mean {words[near[0]]!r}?", key=key, value=value)


# ---- read ------------------------------------------------------------------------------------------------------------


class BatchReader(DataSourceReader):
    """A state of a table, read by tasks.

    Executors get the jobs only: the list of tasks stays where they were planned.
    """

    def __init__(
        self, table: Table, schema: StructType, where: str | None = None, kind_column: str | None = None
    ) -> None:
        ctx = batch_read.context_for_tasks(table, None, None)
        self.jobs: list[tasks.ReadJob] = []
        self.tasks: list[tuple[int, bytes]] = []
        if time_travel.means_changes(ctx):
            self._changes(changing.changes_from_options(ctx, kind_column=kind_column), schema, where)
            return
        scan = replace(table_scan.scan(ctx), kind_column=kind_column)
        rows = batch_read.parse_filter(scan.ctx, where)
        out = batch_read.select_schema_columns(scan.fields, schema, scan.ctx.name, kind_column)
        for plan, what in batch_read.plan_state_jobs(scan, out, rows):
            self.tasks += [
                (len(self.jobs), task) for task in tasks.plan_tasks(plan, plan.raw_indices, session.DEFAULT_SLOTS)
            ]
            self.jobs.append(what)

    def _changes(self, source: IncrementalScan, schema: StructType, where: str | None) -> None:
        """Plan the tasks of options that mean changes."""
        rows = batch_read.parse_filter(source.ctx, where)
        out = batch_read.select_schema_columns(source.fields, schema, source.ctx.name, source.kind_column)
        for what, planned, _ in batch_read.plan_change_jobs(
            source, source.plans(rows.scan_filter), out, rows, session.DEFAULT_SLOTS
        ):
            self.tasks += [(len(self.jobs), task) for task in planned]
            self.jobs.append(what)

    def __getstate__(self) -> dict[str, Any]:
        return {"jobs": self.jobs, "tasks": []}

    @sentence_first
    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition a task."""
        return [InputPartition(task) for task in self.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task; an empty list of tasks comes as one without a value."""
        if partition.value is not None:
            at, task = partition.value
            yield from tasks.read_task_batches(self.jobs[at], task)


# ---- write -----------------------------------------------------------------------------------------------------------


@dataclass
class TaskResults(WriterCommitMessage):
    """The answers of a task, row by row."""

    rows: tuple[dict[str, Any], ...]


def write_task_rows(job: write_task.WriteJob, batches: Iterator[pa.RecordBatch]) -> TaskResults:
    """Write the rows of a task, and return its answers."""
    return TaskResults(
        tuple(row for batch in write_task.write_rows(job, batches) for row in batch.to_pylist())
    )  # scalar: one a bucket


def collect_answers(written: Sequence[WriterCommitMessage | None]) -> list[dict[str, Any]]:
    """Return the answers of all tasks that returned some."""
    return [row for message in written if isinstance(message, TaskResults) for row in message.rows]


def delete_task_files(job: write_task.WriteJob, written: Sequence[WriterCommitMessage | None]) -> None:
    """Delete the files of tasks whose rows will not be committed.

    Spark calls it after a commit that failed as well: what a snapshot may name stays. A task without a message may
    still be running.
    """
    with suppress(LakekitError):  # what cannot be deleted is left to the cleaning of orphans
        abort.abort(job.ctx, write_task.decode_answers(collect_answers(written))[0])
        if job.mark and None in written:
            write_task.delete_marked_files(job.ctx, job.mark, waits=True)


class BatchWriter(DataSourceArrowWriter):
    """The writer of a batch: `write` in tasks, then `commit` once, in a process beside the driver."""

    def __init__(self, job: write_task.WriteJob, overwrite: Overwrite | None) -> None:
        self.job, self.overwrite = job, overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResults:
        """Write the rows of a task."""
        return write_task_rows(self.job, iterator)

    @sentence_first
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what all tasks wrote, and compact where readers would not see it otherwise."""
        collected = batch_write.collect_messages(self.job.ctx, collect_answers(messages))
        if collected or self.overwrite is not None:
            batch_write.commit_job(
                self.job, collected, identifier=BATCH_IDENTIFIER, overwrite=self.overwrite, is_new_user=True
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete what tasks wrote that will not be committed."""
        delete_task_files(self.job, messages)


# ---- names ------------------------------------------------------------


def attach(
    spark: SparkSession, catalog: Catalog, *, database: str | None = None, versions: Sequence[str] = ()
) -> list[str]:
    """Register the tables of a catalog, or of one of its databases, in the session; return their names.

        ls.attach(spark, cat)                                     every table as `db.table`
        spark.sql("SELECT … FROM shop.orders o JOIN …")           INSERT INTO, INSERT OVERWRITE
        ls.attach(spark, cat, versions=["shop.orders@3"])         snapshot 3, or a tag, as shop.orders_at_3

    Spark has no way to add a catalog in Python. It does have a source by name: each table becomes a class of its own,
    which knows where the table is, and an entry in the session's own catalog that names it. The entries live as long as
    the session's catalog does, and hold today's columns: attach again after a change of them, or of the tables that
    there are. Nothing of the lake changes, also by Spark's own ALTER TABLE: an entry that it changed is refused when it
    is used. Spark gives each entry a folder below that of its database, which is deleted with the entry: hence a
    database that the session keeps in the lake is refused.

    In a query Spark keeps one relation for a name, whatever the options of its `WITH (…)`: two versions would be one.
    So what selects rows (`scan.…`, `incremental-…`, `branch`, `filter`) is refused there, and versions have names.

    Databases are made where the session lacks them. Tables that Spark's own catalog cannot show are left out, with a
    warning that names them: those whose names have other signs than letters, digits and _, or differ from another's in
    case alone, format tables, types that Spark lacks. Entries of tables that the catalog no longer has are dropped.

    Raises: `TableAlreadyExists` where the session has something else of a name, `InvalidOption` where it keeps the
    database in the lake or a version has no name, `DatabaseNotFound`, `SnapshotNotFound`, `TagNotFound`, `Unsupported`,
    `TypeError` for what is no catalog.
    """
    session.check(spark)
    _check_attach_arguments(catalog, database, versions)
    names = [
        row for row in catalog.tables(database).select("database", "table").iter_rows() if session.can_be_named(row)
    ]  # scalar: one a table
    session.drop_stale_entries(spark, catalog, database, {".".join(row).lower() for row in names})
    attached: dict[str, str] = {}
    for row in names:
        name = ".".join(row)
        if (other := attached.get(name.lower())) is not None:
            warn_user(f"{name} is not attached: Spark does not tell it from {other}, whose name differs in case alone")
            continue
        try:
            table = catalog.table(name)
            if isinstance(table, FormatTable):
                warn_user(
                    f"{table.name} is a format table and not attached: Spark reads such folders itself, and ls.read too"
                )
                continue
            source = make_source_class(table)
        except LakekitError as wrong:  # what cannot be shown is told before the session's entry goes
            warn_user(f"{name} is not attached: {wrong}")
            continue
        _attach(spark, table, source, catalog, *row)
        attached[name.lower()] = name
    for text in versions:
        entry = _attach_version(spark, catalog, text, {".".join(row).lower() for row in names})
        attached[entry.lower()] = entry
    return list(attached.values())


def _check_attach_arguments(catalog: object, database: object, versions: object) -> None:
    """Raise `TypeError` for what is no catalog, no name of a database, or no list of versions."""
    if not hasattr(catalog, "tables"):
        msg = f"ls.attach takes a catalog, not {type(catalog).__name__}: lk.connect('warehouse') gives one"
        raise TypeError(msg)
    if database is not None and not isinstance(database, str):
        msg = f"database= is a name, not {type(database).__name__}; without it all databases are attached"
        raise TypeError(msg)
    if not isinstance(versions, (list, tuple)) or not all(isinstance(text, str) for text in versions):
        msg = f"versions= is a list of texts such as 'shop.orders@3', not {versions!r:.100}"
        raise TypeError(msg)


def _attach_version(spark: SparkSession, catalog: Catalog, text: str, taken: set[str]) -> str:
    """Attach a version of a table, given as `db.table@version`, and return the name of its entry."""
    name, _, version = text.rpartition("@")
    database, _, plain = name.rpartition(".")
    if not database or not plain or not version:
        raise InvalidOption(
            f"versions= has {text!r}; write a table and a snapshot or tag, 'shop.orders@3'", key="versions", value=text
        )
    table = catalog.table(name)
    if isinstance(table, FormatTable):
        raise InvalidOption(f"{name} is a format table, which has no versions", key="versions", value=text)
    word = re.sub(r"\W", "_", version, flags=re.ASCII)
    entry = f"{database}.{plain}{session.VERSION_WORD}{word}"
    if not session.can_be_named((database, plain)) or entry.lower() in taken:
        raise InvalidOption(
            f"{text} would be attached as {entry}, which is "
            + ("a table of the catalog" if entry.lower() in taken else "no name that Spark takes")
            + f": ls.read(spark, cat[{name!r}], at={version!r}) reads it without a name",
            key="versions",
            value=text,
        )
    chosen = table.with_options({"scan.version": version})
    table_scan.scan(context_of(chosen))  # raises where there is no such version
    _attach(spark, chosen, make_source_class(chosen, version), catalog, *entry.split(".", 1))
    return entry


def _attach(
    spark: SparkSession,
    table: Table,
    source: type[PaimonDataSource],
    catalog: Catalog,
    database: str,
    name: str,
) -> None:
    """Put an entry that names a source into the session's catalog."""
    session.check_outside_database(spark, table, database)
    where = f"{quote_identifier(database)}.{quote_identifier(name)}"
    spark.dataSource.register(source)
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {quote_identifier(database)}")
    session.drop_own_entry(spark, where, f"{database}.{name}")
    spark.sql(f"CREATE TABLE {where} USING {source.name()}")
    spark.conf.set(f"{session.ENTRY_SETTING_PREFIX}{database}.{name}".lower(), session.describe_catalog(catalog))


def make_source_class(table: Table, version: str | None = None) -> type[PaimonDataSource]:
    """Return the data source class of a table, or of a version of it, under a name of its own.

    Spark keeps a class for each name, and options of a query override the table's.
    """
    plain = re.sub(r"\W", "_", f"{table.name}@{version}" if version else table.name, flags=re.ASCII).lower()
    identity = f"{table.name} {table.location}" + (f" {version}" if version else "")
    called = f"{session.SOURCE_NAME_PREFIX}{plain}_{sha256(identity.encode()).hexdigest()[:12]}"

    class TableSource(PaimonDataSource):
        @classmethod
        def name(cls) -> str:
            return called

        def table(self) -> Table:
            options = table_options(dict(self.options))
            check_not_in_hint(options, "the query, by WITH,")
            branch = self.options.get("branch")
            selected = table.with_options(options) if options else table
            return selected.branch(branch) if branch else selected

        @sentence_first
        def reader(self, schema: StructType) -> DataSourceReader:
            session.check_query_options(table.name, self.options)
            session.check_entry(table.name, schema.fieldNames(), attached, super().schema().fieldNames())
            return super().reader(schema)

        @sentence_first
        def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
            if version is not None:
                raise InvalidOption(
                    f"this name is version {version} of {table.name}, which stays: write to {table.name}", key="table"
                )
            names = [name for name in schema.fieldNames() if name != self.options.get("row_kind")]
            session.check_entry(table.name, names, attached, super().schema().fieldNames(), writes=True)
            return super().writer(schema, overwrite)

    attached = TableSource({}).schema().fieldNames()
    return TableSource
