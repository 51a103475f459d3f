"""The run of a pipeline: batches of a source through change formats into tables, each batch once in each table.

    run(spark, configuration)            until it is stopped; once=True: what is there now
    check(spark, configuration)          what a sample of the source would make, as a frame; nothing is written
    status(configuration)                how far each table is: `pipeline_state.status`

A batch is read and kept, its changes are divided by target table, tables are made or grown, then each table gets its
rows in one commit, under the pipeline's commit user and the number of the batch. A table that has that commit is passed
over. So a run that is killed between two tables of a batch, or within one, goes on when it is started again.

Among the changes of one key in a batch the last one counts, by the table's sequence field and then by the order of the
messages. Tables that aggregate get every change. What fits nowhere goes to the table of dead letters, in one commit of
the batch: nothing is dropped silently but changes of tables that the routing leaves out, and messages without a row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import polars as pl
from pyspark.errors import PySparkException
from pyspark.sql import Window, functions as sql

from lakekit.columns import ROW_KIND
from lakekit.ddl.table_definition import to_paimon_type
from lakekit.errors import InvalidOption, SchemaMismatch, Unsupported
from lakekit.read.table_scan import context_of
from lakekit.runtime import elapsed_ms
from lakekit.spark.batch_write import write
from lakekit.spark.maintenance import compact
from lakekit.spark.pipeline import change_source
from lakekit.spark.pipeline.change_schema import infer_types, to_rows
from lakekit.spark.pipeline.computed_column import METADATA_TYPES
from lakekit.spark.pipeline.configuration import ROW_FORMATS
from lakekit.spark.pipeline.pipeline_state import open_catalog, open_state, status
from lakekit.spark.pipeline.schema_growth import (
    create_table,
    find_table,
    grow_table,
    make_database,
    open_dead_letters,
    plan_growth,
    widen_type,
)
from lakekit.spark.types import spark_type
from lakekit.types import DataType, Field, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from lakekit.catalog.catalog import Catalog
    from lakekit.model.table_schema import TableSchema
    from lakekit.spark.pipeline.change_schema import ChangeSchema
    from lakekit.spark.pipeline.computed_column import ComputedColumn
    from lakekit.spark.pipeline.configuration import PipelineConfiguration, TableConfiguration
    from lakekit.spark.pipeline.pipeline_state import PipelineState
    from lakekit.table.table import Table

    SourceName = tuple[str | None, str]

MAX_TABLES = 1000
"""How many source tables a batch may name: more are a column that names no table."""
_TABLE_NAME = re.compile(r"[\w-]{1,200}")
_MERGE_ENGINES = ("deduplicate", "partial-update", "aggregation")
CHECK_SCHEMA = {
    "table": pl.String,
    "column": pl.String,
    "type": pl.String,
    "key": pl.String,
    "state": pl.String,
    "rows": pl.Int64,
}
"""The columns of `check`: a line for each column of each table, and one for each kind of problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineTarget:
    """A table that a batch has rows of: its source tables, their columns' types and keys, and how many rows."""

    name: str
    table: TableConfiguration
    sources: tuple[SourceName, ...]
    types: Mapping[str, DataType]
    primary_keys: tuple[str, ...]
    count: int

    def renamed(self, column: str) -> str:
        """Return the name that a source's column has in the table."""
        return self.table.rename.get(column, column)

    def source_types(self) -> dict[str, DataType]:
        """Return the types of the source's columns: those of the configuration, and else those that came."""
        wanted = {name: to_paimon_type(text, name) for name, text in self.table.columns.items()}
        by_source = {name: wanted.get(self.renamed(name), t) for name, t in self.types.items()}
        missing = {name: t for name, t in wanted.items() if name not in map(self.renamed, by_source)}
        return by_source | missing

    def computed_of(self, types: Mapping[str, DataType]) -> list[ComputedColumn]:
        """Return the computed columns whose source column is among those."""
        return [c for c in self.table.computed_columns() if c.source_column is None or c.source_column in types]

    def table_types(self) -> dict[str, DataType]:
        """Return the types of the table's columns, with computed and metadata columns."""
        source = self.source_types()
        kept = {self.renamed(name): t for name, t in source.items() if name not in self.table.exclude}
        computed = {column.name: column.result_type(source) for column in self.computed_of(source)}
        metadata = {name: METADATA_TYPES[value] for name, value in self.table.metadata.items()}
        return {**kept, **computed, **metadata}


@dataclass(slots=True, kw_only=True)
class BatchIngestion:
    """What writes the batches of one run; `failure` is what ended it."""

    configuration: PipelineConfiguration
    catalog: Catalog
    state: PipelineState | None
    say: Callable[[str], None]
    failure: BaseException | None = None
    number: int = -1
    checked: set[str] = field(default_factory=set)

    def write_batch(self, batch: DataFrame, number: int) -> None:
        """Write one batch of the stream."""
        self.number = number
        try:
            self._write_batch(batch, number)
        except BaseException as error:
            self.failure = error
            raise

    def _write_batch(self, batch: DataFrame, number: int) -> None:
        assert self.state is not None
        started_ms, spark = elapsed_ms(), batch.sparkSession
        changes = self.name_sources(change_source.read_batch(spark, self.configuration, batch)).persist()
        try:
            targets, lost = self.route(changes)
            rows = [(target, self._open(target)) for target in targets]
            prepared = [(target, table, self._rows(changes, target, table)) for target, table in rows]
            dead = [self._dead_letters(frame.where("problem IS NOT NULL"), t.name) for t, _, frame in prepared]
            dead += [self._dead_letters(frame, name) for name, frame in lost]
            dead_count = self._write_dead_letters(reduce(lambda a, b: a.unionByName(b), dead), number)
            for _, table, frame in prepared:
                self._write_rows(frame.where("problem IS NULL"), table, number)
                self._care(spark, table, number)
        finally:
            changes.unpersist()
        self.state.clear_error()
        counted = ", ".join(f"{target.name} {target.count}" for target in targets) or "no row"
        elsewhere = f", dead letters {dead_count}" if dead_count else ""
        self.say(f"batch {number}: {counted}{elsewhere}, {(elapsed_ms() - started_ms) / 1000:.1f} s")

    # ---- routing

    def name_sources(self, changes: DataFrame) -> DataFrame:
        """Return the changes with the name of their source table; one without a name is a problem."""
        routing, tables = self.configuration.routing, self.configuration.tables
        name = sql.col("source_table")
        if routing.by is not None:
            name = sql.try_variant_get(sql.col("row"), f"$[{_variant_key(routing.by)}]", "string")
        elif routing.table is not None:
            name = sql.lit(routing.table)
        elif self.configuration.source.format in ("plain", *ROW_FORMATS) and len(tables) == 1:
            name = sql.lit(next(iter(tables)))
        has_row = sql.col("problem").isNull() & sql.col("kind").isNotNull()
        named = changes.withColumn("source_table", name)
        nameless = sql.when(has_row & sql.col("source_table").isNull(), sql.lit("the message names no table"))
        return named.withColumn("problem", sql.coalesce("problem", nameless))

    def route(self, changes: DataFrame) -> tuple[list[PipelineTarget], list[tuple[str | None, DataFrame]]]:
        """Return the targets of the changes, and the changes that have none, by the name of the table.

        Raises: `InvalidOption` where more tables are named than there can be.
        """
        fine = changes.where("problem IS NULL AND kind IS NOT NULL")
        counted = (
            fine.groupBy("source_database", "source_table").agg(sql.count(sql.lit(1))).limit(MAX_TABLES + 1).collect()
        )
        if len(counted) > MAX_TABLES:
            msg = f"a batch names more than {MAX_TABLES} tables, such as {counted[0][1]!r}: by names no table"
            raise InvalidOption(msg, key="routing.by")
        by_target: dict[str, list[tuple[SourceName, int]]] = {}
        lost: list[tuple[str | None, DataFrame]] = [(None, changes.where("problem IS NOT NULL"))]
        for database, name, count in counted:
            target_name = self.target_of(database, name)
            if target_name is None:
                continue
            if _TABLE_NAME.fullmatch(target_name) is None or target_name == self.configuration.growth.dead_letters:
                problem = sql.lit(f"no table can be called {target_name[:100]!r}")
                lost.append((None, _of_sources(fine, [(database, name)]).withColumn("problem", problem)))
                continue
            by_target.setdefault(target_name, []).append(((database, name), count))
        mapping = {"type-mapping": ",".join(self.configuration.growth.type_mapping)}
        schemas = infer_types(fine, options=mapping) if by_target else {}
        targets = []
        for name, sources in sorted(by_target.items()):
            table = self.configuration.table(name)
            came = [schemas[source] for source, _ in sources if source in schemas]
            told = next((schema.primary_keys for schema in came if schema.primary_keys), ())
            target = PipelineTarget(
                name=name,
                table=table,
                sources=tuple(source for source, _ in sources),
                types=_merge_types(came),
                primary_keys=table.primary_keys or tuple(table.rename.get(key, key) for key in told),
                count=sum(count for _, count in sources),
            )
            obstacle = self._obstacle(target)
            if obstacle is None:
                targets.append(target)
            else:
                lost.append((name, _of_sources(fine, target.sources).withColumn("problem", sql.lit(obstacle))))
        return targets, lost

    def target_of(self, database: str | None, name: str) -> str | None:
        """Return the table that a source table goes to; None where it is left out."""
        routing = self.configuration.routing
        full = name if database is None else f"{database}.{name}"
        if re.fullmatch(routing.include, full) is None:
            return None
        if routing.exclude is not None and re.fullmatch(routing.exclude, full) is not None:
            return None
        for table in self.configuration.tables.values():
            if any(re.fullmatch(pattern, full) for pattern in table.source):
                return table.name
        return f"{routing.prefix}{name}{routing.suffix}"

    # ---- tables

    def _full(self, name: str) -> str:
        return f"{self.configuration.database}.{name}"

    def _obstacle(self, target: PipelineTarget) -> str | None:
        """Return why a target's table is not there and cannot be made of its rows; None where it can."""
        if find_table(self.catalog, self._full(target.name)) is not None:
            return None
        if not self.configuration.growth.create_tables:
            return f"there is no table {target.name}, and create_tables is off"
        types = target.table_types()
        missing = [name for name in (*target.primary_keys, *target.table.partition_keys) if name not in types]
        if missing:
            return f"no row has a value in the key column {missing[0]} of the table that is to be made"
        return None if types else "no row has a column with a value"

    def _open(self, target: PipelineTarget) -> Table:
        """Return a target's table, made or grown so that it holds the columns of the batch."""
        assert self.state is not None
        name, types = self._full(target.name), target.table_types()
        table = find_table(self.catalog, name)
        if table is None:
            table = create_table(self.catalog, name, types, target.table, target.primary_keys)
        if name not in self.checked:
            self.state.check_table(table)
            check_engine(table, target.table.primary_keys)
            self.checked.add(name)
        grow_table(table, types, self.configuration.growth)
        return table

    def _rows(self, changes: DataFrame, target: PipelineTarget, table: Table) -> DataFrame:
        """Return a target's changes with `cells`, a struct of the table's columns; a `problem` where they do not fit.

        Columns of the table that the source has not are null.
        """
        schema, source = context_of(table).schema, target.source_types()
        by_name = {f.name: f for f in schema.fields}
        made = {*target.table.computed, *target.table.metadata}
        read = {
            name: by_name[column].type if (column := target.renamed(name)) in by_name and column not in made else t
            for name, t in source.items()
        }
        selected = _of_sources(changes.where("problem IS NULL AND kind IS NOT NULL"), target.sources)
        typed = to_rows(selected, [Field(name, t) for name, t in read.items()])
        cells = self._cells(schema.fields, target, read)
        rows = typed.withColumn("cells", sql.struct(*cells))
        return rows.withColumn("problem", sql.coalesce("problem", _null_problem(schema)))

    def _cells(self, fields: Sequence[Field], target: PipelineTarget, types: Mapping[str, DataType]) -> list[Column]:
        """Return the columns of the table, from those of the source in `row`."""
        by_table = {target.renamed(name): name for name in types if name not in target.table.exclude}
        computed = {column.name: column for column in target.computed_of(types)}
        metadata = {
            "database_name": sql.col("source_database"),
            "table_name": sql.col("source_table"),
            "op_ts": sql.timestamp_millis("ts_ms"),
        }
        cells = []
        for each in fields:
            if each.name in computed:
                value = sql.expr(computed[each.name].to_sql(types, prefix="row."))
            elif each.name in target.table.metadata:
                value = metadata[target.table.metadata[each.name]]
            elif each.name in by_table:
                value = sql.col(f"row.{quote_identifier(by_table[each.name])}")
            else:
                value = sql.lit(None)
            cells.append(value.cast(spark_type(each.type)).alias(each.name))
        return cells

    # ---- writing

    def _write_rows(self, rows: DataFrame, table: Table, number: int) -> None:
        assert self.state is not None
        ctx = context_of(table)
        if ctx.schema.primary_keys:
            newest = last_changes(rows, table)
            frame = newest.select("cells.*", sql.col("kind").alias(ROW_KIND))
            kind = ROW_KIND
        else:
            frame, kind = rows.select("cells.*"), None
        write(
            frame,
            table,
            mode="append" if kind is None else "upsert",
            row_kind=kind,
            commit_user=self.state.commit_user,
            identifier=number,
        )

    def _dead_letters(self, rows: DataFrame, table: str | None) -> DataFrame:
        return rows.select(
            sql.current_timestamp().alias("time"),
            sql.concat_ws(".", "source_database", "source_table").alias("source"),
            sql.lit(table).cast("string").alias("table"),
            sql.to_json("position").alias("position"),
            "problem",
            "value",
        )

    def _write_dead_letters(self, letters: DataFrame, number: int) -> int:
        """Write what fits nowhere, once a batch; return how many they are.

        Raises: `SchemaMismatch` where the configuration stops at the first.
        """
        assert self.state is not None
        growth = self.configuration.growth
        letters = letters.persist()
        try:
            count = letters.count()
            if count == 0:
                return 0
            if growth.on_problem == "stop":
                [first] = letters.limit(1).collect()
                msg = (
                    f"batch {number}: {count} messages fit nowhere, the first at {first['position']}, for "
                    f"{first['table'] or 'no table'}: {first['problem']}. Nothing of the batch was written; "
                    'on_problem = "dead-letter" keeps them in a table and goes on'
                )
                raise SchemaMismatch(msg)
            table = open_dead_letters(self.catalog, self._full(growth.dead_letters))
            if table.name not in self.checked:
                self.state.check_table(table)
                self.checked.add(table.name)
            write(letters, table, commit_user=self.state.commit_user, identifier=number)
            return count
        finally:
            letters.unpersist()

    def _care(self, spark: SparkSession, table: Table, number: int) -> None:
        care = self.configuration.care
        if care.compact_every and number % care.compact_every == care.compact_every - 1:
            compact(spark, table)
        if care.expire_every and number % care.expire_every == care.expire_every - 1:
            table.expire_snapshots(retain_max=care.retain_snapshots, retain_min=10)


def check_engine(table: Table, primary_keys: tuple[str, ...]) -> None:
    """Raise `Unsupported` for a table that the changes of a pipeline cannot be written to, `InvalidOption` for keys."""
    ctx = context_of(table)
    if primary_keys and tuple(ctx.schema.primary_keys) != primary_keys:
        existing = ", ".join(ctx.schema.primary_keys) or "none"
        msg = f"{table.name} has the primary keys {existing}, and the configuration {', '.join(primary_keys)}"
        raise InvalidOption(msg, key="primary_keys")
    engine = ctx.options.merge_engine
    if not ctx.schema.primary_keys:
        return
    if engine not in _MERGE_ENGINES:
        msg = f"a pipeline fills no table of the merge engine {engine}; it knows {', '.join(_MERGE_ENGINES)}"
        raise Unsupported(msg, feature="spark.pipeline.merge-engine")
    if engine == "partial-update" and not ctx.options.sequence_field:
        msg = f"{table.name} is of partial updates, whose order a batch loses: give it a sequence.field"
        raise InvalidOption(msg, key="sequence.field")


def last_changes(rows: DataFrame, table: Table) -> DataFrame:
    """Return the last change of each key; all of them for a table that needs every one."""
    ctx = context_of(table)
    if ctx.options.merge_engine != "deduplicate":
        return rows
    order = [sql.col(f"cells.{quote_identifier(name)}") for name in ctx.options.sequence_field or ()]
    if ctx.options.texts.get("sequence.field.sort-order") == "descending":
        ordering = [column.asc_nulls_first() for column in order]
    else:
        ordering = [column.desc_nulls_last() for column in order]
    keys = [sql.col(f"cells.{quote_identifier(name)}") for name in ctx.schema.primary_keys]
    window = Window.partitionBy(*keys).orderBy(*ordering, sql.col("position").desc(), sql.col("step").desc())
    newest = rows.withColumn("age", sql.row_number().over(window)).where("age = 1")
    # a row whose last word is its old image is gone
    return newest.withColumn("kind", sql.when(sql.col("kind") == "-U", "-D").otherwise(sql.col("kind")))


def _null_problem(schema: TableSchema) -> Column:
    """Return why rows cannot be in the table: a null where it takes none, or a change without a key."""
    problems = []
    if not schema.primary_keys:
        changed = sql.col("kind").isin("-U", "-D", "+U")
        problems.append(sql.when(changed, sql.lit("the table has no primary key, by which rows are changed")))
    for name in dict.fromkeys([*schema.primary_keys, *(f.name for f in schema.fields if not f.type.nullable)]):
        cell = sql.col(f"cells.{quote_identifier(name)}")
        problems.append(sql.when(cell.isNull(), sql.lit(f"column {name} is null or missing, and takes no nulls")))
    return sql.coalesce(sql.lit(None).cast("string"), *problems)


def _of_sources(changes: DataFrame, sources: Sequence[SourceName]) -> DataFrame:
    conditions = [
        sql.col("source_database").eqNullSafe(sql.lit(database)) & (sql.col("source_table") == sql.lit(name))
        for database, name in sources
    ]
    return changes.where(reduce(lambda a, b: a | b, conditions))


def _merge_types(schemas: Sequence[ChangeSchema]) -> dict[str, DataType]:
    """Return the types of columns that several source tables have; of types that do not go together the first."""
    merged: dict[str, DataType] = {}
    for schema in schemas:
        for name, text in schema.columns.items():
            t = to_paimon_type(text, name)
            merged[name] = (widen_type(merged[name], t) or merged[name]) if name in merged else t
    return merged


def _variant_key(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


# ---- runs ------------------------------------------------------------------------------------------------------------


def run(
    spark: SparkSession,
    configuration: PipelineConfiguration,
    *,
    stream: DataFrame | None = None,
    once: bool = False,
    say: Callable[[str], None] = print,
) -> pl.DataFrame:
    """Run a pipeline until it is stopped, or, with `once`, until all that is there now is through; return its status.

    `stream`: the streaming frame of a source of that kind. `say` gets a line for each batch.

    Raises: `Conflict` where a pipeline of this user is running, `InvalidOption` for a checkpoint of something else,
    and what reading and writing raise; the same call again goes on where this one ended.
    """
    _check_session(spark)
    with open_state(configuration) as state, open_catalog(configuration) as catalog:
        make_database(catalog, configuration.database)
        ingestion = BatchIngestion(configuration=configuration, catalog=catalog, state=state, say=say)
        source = change_source.open_stream(spark, configuration, stream)
        writer = source.writeStream.foreachBatch(ingestion.write_batch).queryName(f"lakekit-{configuration.user}")
        writer = writer.option("checkpointLocation", configuration.checkpoint)
        if once:
            writer = writer.trigger(availableNow=True)
        elif configuration.source.interval is not None:
            writer = writer.trigger(processingTime=configuration.source.interval)
        query = writer.start()
        try:
            query.awaitTermination()
        except PySparkException as error:
            failure = ingestion.failure or error
            state.write_error(ingestion.number, failure)
            raise failure from None
        finally:
            query.stop()
    return status(configuration)


def check(
    spark: SparkSession, configuration: PipelineConfiguration, *, stream: DataFrame | None = None
) -> pl.DataFrame:
    """Return what a sample of the source would make: tables, columns, types, keys, and what would fit nowhere.

    `stream`: for a source of that kind, a frame of some of its rows. Nothing is written.
    """
    _check_session(spark)
    with open_catalog(configuration) as catalog:
        ingestion = BatchIngestion(configuration=configuration, catalog=catalog, state=None, say=print)
        sample = change_source.read_sample(spark, configuration, stream)
        changes = ingestion.name_sources(sample).persist()
        try:
            targets, lost = ingestion.route(changes)
            lines: list[tuple[str | int | None, ...]] = []
            for target in targets:
                lines += _target_lines(catalog, configuration, target)
            letters = f"{configuration.database}.{configuration.growth.dead_letters}"
            for _, frame in lost:
                counted = frame.groupBy("problem").count().orderBy("problem").collect()
                lines += [(letters, None, None, None, problem, count) for problem, count in counted]
        finally:
            changes.unpersist()
    return pl.DataFrame(lines, schema=CHECK_SCHEMA, orient="row")


def _target_lines(
    catalog: Catalog, configuration: PipelineConfiguration, target: PipelineTarget
) -> list[tuple[str | int | None, ...]]:
    """Return a line for each column that a target's table has, or would have."""
    name, types = f"{configuration.database}.{target.name}", target.table_types()
    table = find_table(catalog, name)
    states = dict.fromkeys(types, "new table")
    primary, partitions = target.primary_keys, target.table.partition_keys
    if table is not None:
        schema = context_of(table).schema
        planned = plan_growth(schema, types, configuration.growth)
        states = dict.fromkeys(types, "as it is")
        states |= dict.fromkeys(planned.added, "new column")
        states |= {column: f"widened to {t}" for column, t in planned.widened.items()}
        states |= {column: f"does not fit {was}: to the dead letters" for column, (was, _) in planned.misfits.items()}
        primary, partitions = tuple(schema.primary_keys), tuple(schema.partition_keys)
    return [
        (
            name,
            column,
            str(t),
            "primary" if column in primary else "partition" if column in partitions else "",
            states[column],
            target.count,
        )
        for column, t in types.items()
    ] + [
        (name, column.name, None, "", f"the sample has no column {column.source_column} to make it of", target.count)
        for column in target.table.computed_columns()
        if column.name not in types
    ]


def _check_session(spark: SparkSession) -> None:
    if getattr(spark, "_sc", None) is None:
        raise Unsupported(
            "a pipeline runs in a classic session of Spark: over Connect its batches are written by another process, "
            "which knows nothing of it. ls.start() gives one",
            feature="spark.pipeline.connect",
        )
