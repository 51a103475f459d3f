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

import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from lakekit import plugins, storage
from lakekit.commit import abort
from lakekit.commit.overwrite import Overwrite
from lakekit.errors import (
    Corrupt,
    InvalidOption,
    LakekitError,
    NotFound,
    SchemaMismatch,
    TableAlreadyExists,
    Unsupported,
)
from lakekit.model import partition as partitions
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.model.table_paths import check_not_in_hint
from lakekit.read import incremental as changing, table_scan, time_travel
from lakekit.read.table_scan import context_of
from lakekit.runtime import warn_user
from lakekit.spark import batch_read, batch_write, session, tasks, types, write_task
from lakekit.table.format_tables import FormatTable
from lakekit.table.open_create import open as open_table
from lakekit.types import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from lakekit.catalog.catalog import Catalog
    from lakekit.metadata.table_context import TableContext
    from lakekit.read.incremental import IncrementalScan
    from lakekit.table.table import Table
    from lakekit.types import Field


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
    read.stream.maxFilesPerTrigger, …maxRowsPerTrigger, …maxBytesPerTrigger
                                  where a batch of a stream ends, between two snapshots
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
            raise InvalidOption("no path: format('lakekit').load('warehouse/shop.db/orders')", key="path")
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

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns of `schema`, which may be fewer than the table has."""
        return BatchReader(self.table(), schema, self.options.get("filter"), self.options.get("row_kind"))

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
        mode, replaced = ("overwrite" if overwrite else "append"), parse_partition(partition) if partition else None
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
            *write_job(context_of(table), schema, mode=mode, partition=replaced, row_kind=self.options.get("row_kind"))
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader of what snapshots bring; the option `row_kind` adds the column of kinds.

        Raises: what `t.follow` raises before it begins.
        """
        streams = _import_streaming()
        reader: DataSourceStreamReader = streams.StreamReader(self.table(), schema, dict(self.options))
        return reader

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Return a writer of micro-batches; output mode complete replaces the table each time."""
        streams = _import_streaming()
        user = streams.commit_user_of(self.options.get("checkpointlocation"))
        mode = "overwrite" if overwrite else "append"
        job, _ = write_job(
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
    """Return the options of the table among those of a source."""
    return {
        key: value
        for key, value in options.items()
        if key.lower() not in (*SOURCE_OPTIONS, *RESERVED_OPTIONS)
        and not key.lower().startswith((STORAGE_PREFIX, STREAM_PREFIX))
    }


def parse_partition(text: str) -> dict[str, str]:
    """Return the partition of a text such as `dt=2024-03-31/hour=7`.

    Raises: `InvalidOption`.
    """
    try:
        pairs = partitions.parse_partition_path(text)
    except Corrupt:
        pairs = ()
    if not pairs:
        raise InvalidOption(
            f"partition={text!r}; write it as the partition's folder is called, dt=2024-03-31/hour=7",
            key="partition",
            value=text,
        )
    return dict(pairs)


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
        out = select_columns(scan.fields, schema, scan.ctx.name, kind_column)
        for plan, what in batch_read.plan_state_jobs(scan, out, rows):
            self.tasks += [
                (len(self.jobs), task) for task in tasks.plan_tasks(plan, plan.raw_indices, session.DEFAULT_SLOTS)
            ]
            self.jobs.append(what)

    def _changes(self, source: IncrementalScan, schema: StructType, where: str | None) -> None:
        """Plan the tasks of options that mean changes."""
        rows = batch_read.parse_filter(source.ctx, where)
        out = select_columns(source.fields, schema, source.ctx.name, source.kind_column)
        for what, planned, _ in batch_read.plan_change_jobs(
            source, source.plans(rows.scan_filter), out, rows, session.DEFAULT_SLOTS
        ):
            self.tasks += [(len(self.jobs), task) for task in planned]
            self.jobs.append(what)

    def __getstate__(self) -> dict[str, Any]:
        return {"jobs": self.jobs, "tasks": []}

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition a task."""
        return [InputPartition(task) for task in self.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task; an empty list of tasks comes as one without a value."""
        if partition.value is not None:
            at, task = partition.value
            yield from tasks.read_task_batches(self.jobs[at], task)


def select_columns(
    fields: Sequence[Field], schema: StructType, table: str, kind_column: str | None = None
) -> tuple[Field, ...]:
    """Return the columns that a schema names after that of kinds, which is first.

    Raises: `ColumnNotFound`, and `SchemaMismatch` for another type than the table's: Spark casts what was read.
    """
    wanted = [field for field in schema if field.name != kind_column]
    if len(wanted) != len(schema) - (kind_column is not None) or (
        kind_column is not None and schema.fieldNames()[0] != kind_column
    ):
        raise SchemaMismatch(f"the schema of a read of {table} with row_kind={kind_column!r} begins with that column")
    out = batch_read.select_columns(fields, [field.name for field in wanted], table)
    for field, want in zip(types.spark_schema(types.read_fields(out)), wanted, strict=True):
        if field.dataType.simpleString() != want.dataType.simpleString():
            actual = field.dataType.simpleString()
            msg = (
                f"column {field.name} of {table} is {actual} in Spark, and the schema says "
                f"{want.dataType.simpleString()}: cast it after load()"
            )
            raise SchemaMismatch(msg, column=field.name)
    return out


# ---- write -----------------------------------------------------------------------------------------------------------


def write_job(
    ctx: TableContext,
    schema: StructType,
    *,
    mode: str,
    partition: Mapping[str, str] | None = None,
    row_kind: str | None = None,
    commit_user: str | None = None,
) -> tuple[write_task.WriteJob, Overwrite | None]:
    """Return the job of a write whose rows are not shuffled, and what it replaces.

    Raises: `Unsupported`, and what `ls.write` raises before any task.
    """
    if ctx.kind == "key" and ctx.options.bucket == -1:
        what = (
            "keys move between partitions"
            if ctx.schema.cross_partition
            else "buckets of keys follow from what is there"
        )
        msg = (
            f"{ctx.name}: its {what}, and this way of writing does not bring the rows of a key together: ls.write(df, "
            "table) does"
        )
        raise Unsupported(msg, feature="spark.source")
    overwrite = batch_write.check_write(ctx, schema, mode=mode, partition=partition, row_kind=row_kind)
    table = ctx = replace(ctx, catalog_env=None)
    if ctx.has_buckets:
        # tasks share buckets: two compactions of one would exclude each other
        ctx = ctx.with_options({"write-only": "true"})
    user, replaces = commit_user or ctx.new_commit_user(), overwrite is not None
    job = write_task.WriteJob(
        ctx=ctx,
        commit_user=user,
        ignores_existing=replaces,
        is_batch=commit_user is None,
        row_kind=row_kind,
        parallelism=None,
        table=table,
    )
    return job, overwrite


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


def delete_task_files(ctx: TableContext, written: Sequence[WriterCommitMessage | None]) -> None:
    """Delete the files of tasks whose rows will not be committed.

    Spark calls it after a commit that failed as well: what a snapshot may name stays.
    """
    with suppress(LakekitError):  # what cannot be deleted is left to the cleaning of orphans
        abort.abort(ctx, write_task.decode_answers(collect_answers(written))[0])


class BatchWriter(DataSourceArrowWriter):
    """The writer of a batch: `write` in tasks, then `commit` once, in a process beside the driver."""

    def __init__(self, job: write_task.WriteJob, overwrite: Overwrite | None) -> None:
        self.job, self.overwrite = job, overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResults:
        """Write the rows of a task."""
        return write_task_rows(self.job, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what all tasks wrote, and compact where readers would not see it otherwise."""
        collected = batch_write.collect_messages(self.job.ctx, collect_answers(messages))
        if collected or self.overwrite is not None:
            batch_write.commit_job(
                self.job, collected, identifier=BATCH_IDENTIFIER, overwrite=self.overwrite, is_new_user=True
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete what tasks wrote that will not be committed."""
        delete_task_files(self.job.ctx, messages)


# ---- names ------------------------------------------------------------


NAME_PREFIX, _SETTING_PREFIX = "lakekit__", "lakekit.attached."


def attach(spark: SparkSession, catalog: Catalog, *, database: str | None = None) -> list[str]:
    """Register the tables of a catalog, or of one of its databases, in the session; return their names.

        ls.attach(spark, cat)                                     every table as `db.table`
        spark.sql("SELECT … FROM shop.orders o JOIN …")           INSERT INTO, INSERT OVERWRITE;
                                                                  `WITH (`scan.snapshot-id`='3')` for one version

    Spark has no way to add a catalog in Python. It does have a source by name: each table becomes a class of its own,
    which knows where the table is, and an entry in the session's own catalog that names it. The entries live as long as
    the session's catalog does, and hold today's columns: attach again after a change of them, or of the tables that
    there are. Nothing of the lake changes. Spark gives each entry a folder below that of its database, which is deleted
    with the entry: hence a database that the session keeps in the lake is refused.

    Databases are made where the session lacks them. Tables that Spark's own catalog cannot show are left out, with a
    warning that names them: those whose names have other signs than letters, digits and _, or differ from another's in
    case alone, format tables, types that Spark lacks. Entries of tables that the catalog no longer has are dropped.

    Raises: `TableAlreadyExists` where the session has something else of a name, `InvalidOption` where it keeps the
    database in the lake, `DatabaseNotFound`, `Unsupported`, `TypeError` for what is no catalog.
    """
    session.check(spark)
    _check_attach_arguments(catalog, database)
    names = [
        row for row in catalog.tables(database).select("database", "table").iter_rows() if _can_be_named(row)
    ]  # scalar: one a table
    _drop_stale_entries(spark, catalog, database, {".".join(row).lower() for row in names})
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
            source({}).schema()  # what cannot be shown is told before the session's entry goes
        except LakekitError as wrong:
            warn_user(f"{name} is not attached: {wrong}")
            continue
        _check_outside_database(spark, table, row[0])
        _attach(spark, source, catalog, *row)
        attached[name.lower()] = name
    return list(attached.values())


def _check_attach_arguments(catalog: object, database: object) -> None:
    """Raise `TypeError` for what is no catalog, or no name of a database."""
    if not hasattr(catalog, "tables"):
        msg = f"ls.attach takes a catalog, not {type(catalog).__name__}: lk.connect('warehouse') gives one"
        raise TypeError(msg)
    if database is not None and not isinstance(database, str):
        msg = f"database= is a name, not {type(database).__name__}; without it all databases are attached"
        raise TypeError(msg)


def _can_be_named(row: tuple[str, str]) -> bool:
    if all(re.fullmatch(r"\w+", part, flags=re.ASCII) for part in row):
        return True
    warn_user(f"{'.'.join(row)} is not attached: names in Spark's own catalog are of letters, digits and _")
    return False


def _drop_stale_entries(spark: SparkSession, catalog: Catalog, database: str | None, existing: set[str]) -> None:
    """Drop the entries that earlier calls made of tables which the catalog no longer has."""
    for key, warehouse in spark.conf.getAll.items():
        name = key.removeprefix(_SETTING_PREFIX)
        if (
            name == key
            or name in existing
            or warehouse != _describe_catalog(catalog)
            or database not in (None, name.partition(".")[0])
        ):
            continue
        spark.sql(f"DROP TABLE IF EXISTS {'.'.join(map(quote_identifier, name.split('.')))}")
        spark.conf.unset(key)


def _describe_catalog(catalog: Catalog) -> str:
    return f"{catalog.metastore} {catalog.warehouse}"


def _check_outside_database(spark: SparkSession, table: Table, database: str) -> None:
    """Raise `InvalidOption` where the session's database directory contains the table.

    Spark deletes the folder of a database, and that of an entry, with all that is in it.
    """
    if spark.catalog.databaseExists(database):
        location = spark.catalog.getDatabase(database).locationUri
    else:
        location = f"{spark.conf.get('spark.sql.warehouse.dir')}/{database}.db"
    if f"{_normalize_location(table.location)}/".lower().startswith(f"{_normalize_location(location)}/".lower()):
        raise InvalidOption(
            f"the session keeps database {database} in {location}, where {table.name} lies: "
            "a database, or an entry of it, that is dropped would take along the lake's files. "
            "Make the session with another spark.sql.warehouse.dir",
            key="spark.sql.warehouse.dir",
            value=location,
        )


def _normalize_location(location: str) -> str:
    """Return a location as one text, however it is written."""
    if location.startswith("file:") or ":/" not in location:
        return os.path.realpath(storage.open(location)[1])
    return re.sub(r"^s3[an]?://", "s3://", location.rstrip("/"))


def _attach(spark: SparkSession, source: type[PaimonDataSource], catalog: Catalog, database: str, name: str) -> None:
    where = f"{quote_identifier(database)}.{quote_identifier(name)}"
    spark.dataSource.register(source)
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {quote_identifier(database)}")
    _drop_own_entry(spark, where, f"{database}.{name}")
    spark.sql(f"CREATE TABLE {where} USING {source.name()}")
    spark.conf.set(f"{_SETTING_PREFIX}{database}.{name}".lower(), _describe_catalog(catalog))


def make_source_class(table: Table) -> type[PaimonDataSource]:
    """Return the data source class of a table, under a name of its own.

    Spark keeps a class for each name, and options of a query override the table's.
    """
    plain = re.sub(r"\W", "_", table.name, flags=re.ASCII).lower()
    called = f"{NAME_PREFIX}{plain}_{sha256(f'{table.name} {table.location}'.encode()).hexdigest()[:12]}"

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

    return TableSource


def _drop_own_entry(spark: SparkSession, where: str, name: str) -> None:
    """Drop an entry that an earlier call made.

    Spark does not report the source of an entry: the session's settings record those made here, and for one that an
    earlier session left in a lasting catalog Spark reports that it does not know its source, by name.

    Raises: `TableAlreadyExists` for an entry of another origin.
    """
    if not spark.catalog.tableExists(where):
        return
    if spark.conf.get(f"{_SETTING_PREFIX}{name}".lower(), None) is None:
        try:
            spark.sql(f"DESCRIBE TABLE {where}")
        except AnalysisException as told:
            is_ours = NAME_PREFIX in str(told)
        else:
            is_ours = False
        if not is_ours:
            msg = (
                f"the session's own catalog has a table {name}, which is not lakekit's: drop it there, or attach "
                "another database"
            )
            raise TableAlreadyExists(msg, name=name)
    spark.sql(f"DROP TABLE {where}")
