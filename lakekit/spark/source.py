"""`format("lakekit")`: tables by Spark's own words, where `ls.read` and `ls.write` cannot be called.

    spark.read.format("lakekit").option("filter", "day = '2024-03-31'").load(path)
    df.write.format("lakekit").mode("append").save(path)
    spark.readStream.format("lakekit").load(path)        df.writeStream.format("lakekit").option("checkpointLocation", …).start(path)

Spark tells a Python source neither which columns a query uses nor its limit, and the filters it can tell it applies to the relation and not to the scan, which
answers wrongly where a frame is used twice. So nothing is pushed: `.schema("id LONG")` names the columns to read, and the option `filter` the rows. A frame
stays on the snapshot it was planned on. `ls.read` is faster: Spark reads plain files itself there.

Rows that are written meet their tasks as the frame has them. No task has a bucket for itself then, so that tables with buckets are written without being
compacted, and keys whose bucket follows from what is there (dynamic buckets, keys across partitions) are refused: `ls.write` shuffles them first.

Options of a source: `path`; `branch`; `filter`; `row_kind`, the column of "+I", "-U", "+U", "-D" that a write goes by or a stream adds; `partition`, what an
overwrite replaces, spelt as its folder, `dt=2024-03-31/hour=7`; `read.stream.maxFilesPerTrigger`, `…maxRowsPerTrigger`, `…maxBytesPerTrigger`, where a batch of
a stream ends, between two snapshots; `storage.…`, what the storage is opened with; every other one is an option of the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, InputPartition, WriterCommitMessage

from lakekit import registry
from lakekit.commit import abandoned, publish as publishing
from lakekit.errors import Corrupt, InvalidOption, LakekitError, NotFound, SchemaMismatch, Unsupported
from lakekit.model import partition as partitions
from lakekit.model.commit_message import CommitMessage
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.read import changes as changing, scan as scans, travel
from lakekit.spark import asked, cut, job, reads, session, types, write_task, writes
from lakekit.table.folder_tables import FormatTable
from lakekit.table.opening import open as open_table
from lakekit.table.writer import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from lakekit.meta.handle import Handle
    from lakekit.read.changes import Changes
    from lakekit.table.table import Table
    from lakekit.types import Field

NAME = "lakekit"
OWN = ("path", "branch", "filter", "row_kind", "partition", "checkpointlocation")
"""Options that are no options of a table, in lower case: Spark does not keep the case of any."""
RESERVED = ("comment", "external", "is_managed_location", "location", "owner", "provider", "serialization.format")
"""What Spark itself says of an entry of its catalog, among the options."""
STORAGE, STREAM = "storage.", "read.stream."
SLOTS = 16
"""How many tasks a read is cut for at most, as nobody tells how many run at once."""


def register(spark: SparkSession) -> None:
    """Makes `format("lakekit")` known to a session: batch and stream, read and write. Classic and Connect."""
    session.check(spark)
    spark.dataSource.register(Source)


class Source(DataSource):
    """A table for Spark's readers and writers."""

    @classmethod
    def name(cls) -> str:
        """What it is called in `format(…)`."""
        return NAME

    def table(self) -> Table:
        """The table that the options name."""
        options = dict(self.options)
        path = options.pop("path", None)
        if not path:
            raise InvalidOption("no path: format('lakekit').load('warehouse/shop.db/orders')", key="path")
        stores = {key[len(STORAGE) :]: value for key, value in options.items() if key.lower().startswith(STORAGE)}
        found = open_table(path, branch=options.pop("branch", None), options=given(options), storage_options=stores or None)
        if isinstance(found, FormatTable):
            raise Unsupported(f"{found.name} is a format table: Spark reads such folders itself, and ls.read too", feature="spark.source")
        return found

    def schema(self) -> StructType:
        """The table's columns, after the kind of each row where the option `row_kind` names it; nulls may be anywhere, as in every frame that is read."""
        table = self.table()
        handle = asked.handle_of(table, None, None)
        try:
            fields = handle.schema.fields if travel.means_changes(handle) else scans.scan(handle).fields
        except NotFound:  # a stream may begin behind what is there, with today's columns
            fields = handle.schema.fields
        kind = self.options.get("row_kind")
        if kind is not None and any(field.name == kind for field in fields):
            raise InvalidOption(f"{table.name} has a column {kind!r} of its own: give the kinds another name", key="row_kind", value=kind)
        return types.spark_schema(reads.with_kind(kind, fields, numbered=False))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the columns of `schema`, which may be fewer than the table has."""
        return Reader(self.table(), schema, self.options.get("filter"), self.options.get("row_kind"))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Writes rows of `schema`. Raises what `ls.write` raises before any task."""
        partition = self.options.get("partition")
        if partition is not None and not overwrite:
            raise InvalidOption(f"partition={partition!r} says what an overwrite replaces, and these rows are appended", key="partition", value=partition)
        job = write_job(self.table().handle(), schema, self.options.get("row_kind"), replaces=overwrite)
        return Writer(job, spec(partition) if partition else overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Reads what snapshots bring; the option `row_kind` adds the column of kinds. Raises what `t.follow` raises before it begins."""
        streams = _streams()
        found: DataSourceStreamReader = streams.StreamReader(self.table(), schema, dict(self.options))
        return found

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Writes micro-batches; output mode complete replaces the table each time."""
        streams = _streams()
        user = streams.user_of(self.options.get("checkpointlocation"))
        job = write_job(self.table().handle(), schema, self.options.get("row_kind"), replaces=overwrite, commit_user=user)
        found: DataSourceStreamArrowWriter = streams.StreamWriter(job, replaces=overwrite)
        return found


def _streams() -> Any:
    """What only newer versions of PySpark have the ground for."""
    try:
        return registry.load("spark", "streams")
    except ImportError as missing:
        raise Unsupported(
            "streams of format('lakekit') need PySpark 4.2 or newer; foreachBatch with ls.write works with all", feature="spark.source"
        ) from missing


def given(options: Mapping[str, str]) -> dict[str, str]:
    """The options of the table among those of a source."""
    return {key: value for key, value in options.items() if key.lower() not in (*OWN, *RESERVED) and not key.lower().startswith((STORAGE, STREAM))}


def spec(text: str) -> dict[str, str]:
    """`dt=2024-03-31/hour=7` as a partition. Raises `InvalidOption`."""
    try:
        found = partitions.spec(text)
    except Corrupt:
        found = ()
    if not found:
        raise InvalidOption(f"partition={text!r}; write it as the partition's folder is called, dt=2024-03-31/hour=7", key="partition", value=text)
    return dict(found)


# ---- read ----------------------------------------------------------------------------------------------------------------------------------


class Reader(DataSourceReader):
    """A state of a table in tasks. What an executor gets of it are the jobs: the list of tasks stays where they were planned."""

    def __init__(self, table: Table, schema: StructType, where: str | None = None, kind_column: str | None = None) -> None:
        handle = asked.handle_of(table, None, None)
        self.jobs: list[job.Job] = []
        self.tasks: list[tuple[int, bytes]] = []
        if travel.means_changes(handle):
            self._changes(changing.between(handle, kind_column=kind_column), schema, where)
            return
        scan = scans.scan(handle)
        rows = asked.rows_of(scan.handle, where)
        out = columns(scan.fields, schema, scan.handle.name, kind_column)
        fields = asked.needed(scan.handle, out, rows)
        for plan in scan.plans(rows.condition):
            given = reads.with_kind(kind_column, out, numbered=False)
            what = job.Job(handle=plan.handle, fields=fields, out=given, where=rows.where, on_key=rows.condition.on_key, kind_column=kind_column)
            self.tasks += [(len(self.jobs), task) for task in cut.tasks(plan, plan.raw, SLOTS)]
            self.jobs.append(what)

    def _changes(self, found: Changes, schema: StructType, where: str | None) -> None:
        """What options ask for that mean changes."""
        rows = asked.rows_of(found.handle, where)
        out = columns(found.fields, schema, found.handle.name, found.kind_column)
        what, tasks = reads.work_of_changes(found, out, rows, SLOTS)
        self.jobs, self.tasks = [what], [(0, task) for task in tasks]

    def __getstate__(self) -> dict[str, Any]:
        return {"jobs": self.jobs, "tasks": []}

    def partitions(self) -> Sequence[InputPartition]:
        """One a task."""
        return [InputPartition(task) for task in self.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task; an empty list of tasks comes as one without a value."""
        if partition.value is not None:
            at, task = partition.value
            yield from job.rows(self.jobs[at], task)


def columns(fields: Sequence[Field], schema: StructType, table: str, kind_column: str | None = None) -> tuple[Field, ...]:
    """The columns that a schema names beside that of kinds, which is first.

    Raises `ColumnNotFound`, and `SchemaMismatch` for another type than the table's: Spark casts what was read.
    """
    wanted = [field for field in schema if field.name != kind_column]
    if len(wanted) != len(schema) - (kind_column is not None) or (kind_column is not None and schema.fieldNames()[0] != kind_column):
        raise SchemaMismatch(f"the schema of a read of {table} with row_kind={kind_column!r} begins with that column")
    out = asked.columns_of(fields, [field.name for field in wanted], table)
    for field, want in zip(types.spark_schema(types.read_fields(out)), wanted, strict=True):
        if field.dataType.simpleString() != want.dataType.simpleString():
            found = field.dataType.simpleString()
            msg = f"column {field.name} of {table} is {found} in Spark, and the schema says {want.dataType.simpleString()}: cast it after load()"
            raise SchemaMismatch(msg, column=field.name)
    return out


# ---- write ---------------------------------------------------------------------------------------------------------------------------------


def write_job(handle: Handle, schema: StructType, row_kind: str | None, *, replaces: bool, commit_user: str | None = None) -> write_task.Job:
    """What tasks of a write know whose rows nobody shuffles. Raises `Unsupported`, and what `ls.write` raises for columns that do not fit."""
    if handle.kind == "key" and handle.options.bucket == -1:
        what = (
            "buckets of keys follow from what is there"
            if set(handle.schema.partition_keys) <= set(handle.schema.primary_keys)
            else "keys move between partitions"
        )
        raise Unsupported(
            f"{handle.name}: its {what}, and this way of writing does not bring the rows of a key together: ls.write(df, table) does", feature="spark.source"
        )
    if row_kind is not None and handle.kind == "append":
        raise InvalidOption(f"{handle.name} has no primary key: its rows have no kinds, leave row_kind={row_kind!r} out", key="row_kind", value=row_kind)
    publishing.refuse(handle)
    writes.check_columns(schema, handle, row_kind)
    if handle.has_buckets:
        handle = handle.with_options({"write-only": "true"})  # tasks share buckets: two compactions of one would exclude each other
    user = commit_user or handle.new_commit_user()
    return write_task.Job(handle=replace(handle, keeper=None), commit_user=user, replaces=replaces, batch=commit_user is None, row_kind=row_kind, cut=None)


@dataclass
class Written(WriterCommitMessage):
    """What a task answers: messages for a commit as their bytes, and what was wrong with a value, if anything was."""

    messages: tuple[bytes, ...]
    wrong: str | None = None


def answer(job: write_task.Job, batches: Iterator[pa.RecordBatch]) -> Written:
    """The answers of a task that writes rows."""
    found = [row for batch in write_task.written(job, batches) for row in batch.to_pylist()]  # scalar: one a bucket
    wrong = next((row["wrong"] for row in found if row["wrong"] is not None), None)
    return Written(tuple(row["message"] for row in found if row["message"] is not None), wrong)


def understood(handle: Handle, answers: Sequence[WriterCommitMessage | None]) -> list[CommitMessage]:
    """The messages of all tasks. Raises what a task said of a value; then the files of all others are deleted."""
    rows = [row for one in answers if isinstance(one, Written) for row in _rows(one)]
    messages, wrong = write_task.understood(rows)
    if wrong is not None:
        abandoned.abort(handle, messages)
        raise wrong
    return messages


def _rows(one: Written) -> list[dict[str, Any]]:
    return [*({"message": data, "wrong": None} for data in one.messages), *([] if one.wrong is None else [{"message": None, "wrong": one.wrong}])]


def drop(handle: Handle, answers: Sequence[WriterCommitMessage | None]) -> None:
    """Deletes the files of tasks whose rows nobody will commit. Spark calls it after a commit that failed as well: what a snapshot may name stays."""
    try:
        abandoned.abort(handle, [CommitMessage.from_bytes(data) for one in answers if isinstance(one, Written) for data in one.messages])
    except LakekitError:
        return  # what cannot be deleted is left to the cleaning of orphans


class Writer(DataSourceArrowWriter):
    """Rows of a batch into a table: `write` in tasks, then `commit` once, in a process beside the driver."""

    def __init__(self, job: write_task.Job, replaces: bool | dict[str, str]) -> None:
        self.job, self.replaces = job, replaces
        replaced(job.handle, replaces)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Writes the rows of a task."""
        return answer(self.job, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits what all tasks wrote."""
        handle = self.job.handle
        found = understood(handle, messages)
        if found or self.replaces:
            overwrite = replaced(handle, self.replaces)
            writes.committed(handle, found, self.job.commit_user, identifier=BATCH_IDENTIFIER, overwrite=overwrite, is_new_user=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deletes what tasks wrote whose rows nobody will commit."""
        drop(self.job.handle, messages)
