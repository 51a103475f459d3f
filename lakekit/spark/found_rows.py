"""Rows that Spark itself finds for the UPDATE, DELETE and MERGE of `ls.sql`, with their places and new values.

    UPDATE shop.orders SET s = trim(s) WHERE id > 7 AND year(day) = 2023

    rows of the table, with the files left out that id > 7 rules out, each with its place
        files     the number of the row among those of its group's files        append tables
        keys      its key, which says partition and bucket                      key tables
    SELECT place, named_struct('v0', CAST(trim(s) AS STRING)) FROM the rows WHERE id > 7 AND year(day) = 2023
        by Spark: the found rows, which go on to the groups of their places
    `dml.merge` writes them there, in tasks, from the stored rows: nanoseconds, which Spark has not, are kept
    the driver commits once, as `spark.dml` does

A statement whose conditions and values are columns and literals of one kind is not done here: its translation says the
same (`change_rows`). New values are stored as Spark's INSERT stores them: numbers as numbers, all as texts, days as
moments and back; a text becomes no number. What overflows is an error.

Source: `Cast.canANSIStoreAssign`, `RewriteRowLevelCommand`, Spark 4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_
from typing import TYPE_CHECKING, Any
from zlib import crc32

import polars as pl
import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import functions, types as spark_types

from lakekit.columns import GROUP, ROW, col, cols
from lakekit.dml import delete_update, merge as merging, merge_plan
from lakekit.dml.matching_rows import TargetRows
from lakekit.dml.merge import FOUND_ROW
from lakekit.dml.row_change import RowChange
from lakekit.errors import (
    ColumnNotFound,
    Corrupt,
    InvalidOption,
    LakekitError,
    SchemaMismatch,
    SqlError,
    Unsupported,
    ValueOutOfRange,
)
from lakekit.options.redaction import excerpt
from lakekit.read.user_expressions import MERGE_SOURCE_PREFIX
from lakekit.spark import batch_read, dml, session, types, write_task
from lakekit.spark.batch_write import handle_of
from lakekit.spark.types import can_store, type_text
from lakekit.sql import dml as statements
from lakekit.sql.change_text import StatementReader
from lakekit.types import Field, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakekit.commit.changes import Commit
    from lakekit.dml.matching_rows import FileRows
    from lakekit.dml.merge_plan import Clause
    from lakekit.spark.dml import BucketGroups, MergeJob
    from lakekit.sql.backend import Statement, StatementResult
    from lakekit.sql.change_text import ChangeClause, ChangeText, ExpressionText, Path
    from lakekit.types import DataType
    from lakekit.write.table_writers import BucketId

_TARGET, _SOURCE = "__lakekit_target", "__lakekit_source"
_GROUP, _ROW, _FILES = "__lakekit_group", "__lakekit_row", "__lakekit_files"
_ACTION, _IS_NEW, _VALUES = "__lakekit_action", "__lakekit_new", "__lakekit_values"
_NO_ACTION = -1
_PLACE_SCHEMA = spark_types.StructType(
    [
        spark_types.StructField(_GROUP, spark_types.IntegerType()),
        spark_types.StructField(_ROW, spark_types.LongType()),
        spark_types.StructField(_FILES, spark_types.LongType()),
    ]
)


# ---- the rows --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PlaceReadJob:
    """What the tasks have in common that read rows with their places.

    `pruning`: rows for which it is not true are left out.
    """

    target: TargetRows
    groups: BucketGroups
    bucket_groups: tuple[frozenset[BucketId], ...]
    pruning: pl.Expr | None
    fields: tuple[Field, ...]

    def stored(self, number: int) -> FileRows:
        """Return the files of a group, whose rows are numbered alike in every process."""
        return self.groups.rows_of(self.target, self.bucket_groups, number).file_rows(self.pruning)

    def read(self, task: bytes) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group with their places."""
        number = int(task)
        stored = self.stored(number)
        schema = pa.schema([*types.arrow_schema(self.fields), *types.arrow_schema(types.paimon_fields(_PLACE_SCHEMA))])
        names = [one.name for one in self.fields]
        sign = file_sign(stored)
        for batch in stored.batches(stored.rows(self.pruning).select(cols([*names, ROW]))):
            for part in batch.iter_slices(session.BATCH_ROWS):
                rows = part.select(_to_microseconds(part.schema, names))
                own = types.to_batch(rows, self.fields).columns if names else []
                places = (
                    pa.repeat(pa.scalar(number, pa.int32()), part.height),
                    pa.array(part[ROW].to_numpy(), pa.int64()),
                    pa.repeat(pa.scalar(sign, pa.int64()), part.height),
                )
                yield pa.RecordBatch.from_arrays([*own, *places], schema=schema)


def _to_microseconds(schema: Mapping[str, pl.DataType], names: Sequence[str]) -> list[pl.Expr]:
    return [col(name).dt.cast_time_unit("us") if isinstance(schema[name], pl.Datetime) else col(name) for name in names]


def file_sign(stored: FileRows) -> int:
    """Return a number that tells whether files are the same, in the same order."""
    return crc32("\n".join(file.name for file in stored.files).encode())


def send_found(job: MergeJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield found rows as letters to the groups of their places, and new rows to those of their buckets."""
    for batch in batches:
        rows = job.rows(batch)
        is_new = rows[FOUND_ROW].is_null()
        found_rows = rows.filter(~is_new)
        if found_rows.height:
            yield write_task.pack_messages(
                found_rows, found_rows[f"{MERGE_SOURCE_PREFIX}{GROUP}"].to_numpy(), write_task.FROM_SOURCE
            )
        yield from dml.send_inserts(job, rows.filter(is_new).with_row_index(merge_plan.SOURCE_ROW))


def write_found(job: MergeJob, places: PlaceReadJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the found rows of groups where they are stored, and yield the answers of the task."""
    for number, rows, _ in dml.read_letters(job, batches):
        try:
            with RowChange.of(job.ctx, only_adds=True) as change:
                stored = places.stored(number)
                signs = rows[f"{MERGE_SOURCE_PREFIX}{_FILES}"].drop_nulls().unique().to_list()
                if signs not in ([], [file_sign(stored)]):
                    raise Corrupt(f"{job.ctx.name}: its files are listed in another order than before", field="files")
                source = rows.with_row_index(merge_plan.SOURCE_ROW)
                merging.write_found_rows(change, replace(job.plan, source=source), stored)
                answers = write_task.encode_change(change)
        except dml.REPORTED_ERRORS as wrong:
            answers = write_task.encode_error(wrong)
        yield from write_task.yield_answers(job.ctx, answers)


# ---- in the driver ---------------------------------------------------------------------------------------------------


def change_rows(spark: SparkSession, statement: Statement) -> StatementResult | None:
    """Execute an UPDATE, DELETE or MERGE whose expressions Spark computes.

    None where the translation of all of them means the same, and where sqlglot does not read them: then no token was
    taken.

    Raises: what Spark finds wrong with an expression as a `LakekitError` that names it, and what `ls.merge` raises.
    """
    reader = StatementReader(statement)
    try:
        change = reader.read()
    except (SqlError, ColumnNotFound):
        return None
    if change.is_plain:
        return None
    with _SparkErrors(change):
        commit = _FoundRows(spark, reader.statement, change).commit()
    return statements.change_result(commit, change.table)


class _FoundRows:
    """The rows that a statement changes, as Spark finds them, and what is done to them."""

    def __init__(self, spark: SparkSession, statement: Statement, change: ChangeText) -> None:
        self.spark, self.statement, self.change = spark, statement, change
        self.ctx = handle_of(change.table)
        self._check()
        self.target = TargetRows.at_newest(self.ctx)
        self.by_key = self.ctx.kind == "key" and (
            change.verb != "DELETE" or delete_update.merge_applies_deletes(self.ctx)
        )
        self.paths = list(dict.fromkeys(path for clause in change.clauses for path in clause.values))
        may_prune = change.pruning and not change.clauses_of("target")
        self.pruning = reduce(and_, change.pruning) if may_prune else None

    def _check(self) -> None:
        """Raise `InvalidOption`, `SchemaMismatch` for a statement that the table does not take."""
        change, ctx = self.change, self.ctx
        if change.verb != "DELETE":
            delete_update.check_merge_engine(ctx, "Update" if change.verb == "UPDATE" else "MergeInto")
        elif ctx.kind == "key" and delete_update.merge_applies_deletes(ctx):
            delete_update.check_deletes(ctx)
        if change.verb == "UPDATE":
            set_names = {name for clause in change.clauses for name, _ in (*clause.values, *clause.stored_values)}
            delete_update.check_keys_kept(ctx, set_names)

    @property
    def keys(self) -> list[str]:
        """The columns by which rows of a key table are found."""
        return list(self.ctx.schema.primary_keys)

    def commit(self) -> Commit:
        """Find the rows and change them, in one commit."""
        spark, ctx = self.spark, self.ctx
        fields = self._needed()
        if self.by_key:
            rows = self._keyed_rows(fields)
            found_rows = self._find_rows(rows)
            job = self._job(found_rows, on=self._match())
            return dml.run_merge(spark, job, ctx, found_rows)
        groups, bucket_groups = dml.group_target(spark, self.target, self.pruning)
        if groups.by_file:
            files = len(self.target.plan(self.pruning).raw_indices)
            groups = replace(groups, group_count=min(groups.group_count, max(1, files)))
        elif ctx.kind == "key" and self.target.snapshot is not None:
            self.target.file_rows(self.pruning)  # says that the table is to be compacted first
        target = replace(self.target, ctx=replace(self.target.ctx, catalog_env=None))
        places = PlaceReadJob(
            target=target, groups=groups, bucket_groups=bucket_groups, pruning=self.pruning, fields=fields
        )
        numbers = range(groups.group_count) if target.snapshot is not None else ()
        tasks = [str(number).encode() for number in numbers if groups.by_file or bucket_groups[number]]
        schema = spark_types.StructType([*types.spark_schema(fields).fields, *_PLACE_SCHEMA.fields])
        found_rows = self._find_rows(session.run(spark, tasks, places.read, schema))
        job = replace(self._job(found_rows, on=None), groups=groups, bucket_groups=bucket_groups)
        letters = found_rows.toDF(*write_task.positional_names(len(job.columns))).mapInArrow(
            partial(send_found, job), write_task.MESSAGE_SCHEMA
        )
        letters = write_task.repartition_letters(letters, groups.group_count)
        answers = letters.mapInArrow(partial(write_found, job, places), write_task.CHANGE_SCHEMA)
        return dml.commit_answers(ctx, answers)

    def _needed(self) -> tuple[Field, ...]:
        """Return the columns that the statement may name, and the key."""
        keys = self.keys if self.by_key else []
        words, has_all = self.change.words, self.change.has_star
        fields = [one for one in self.ctx.schema.fields if has_all or one.name in keys or one.name.lower() in words]
        return types.read_fields(fields)

    def _keyed_rows(self, fields: Sequence[Field]) -> DataFrame:
        for name in self.keys:
            t = self.ctx.schema.field(name).type
            if t.root.startswith("TIMESTAMP") and (t.precision or 6) > types.TIMESTAMP_DIGITS:
                raise Unsupported(
                    f"{self.ctx.name}: its key {name!r} has nanoseconds, by which Spark finds no row: conditions and "
                    "values of columns and literals alone are computed without it, as those of t.update",
                    feature="spark.sql",
                )
        names = [one.name for one in fields]
        at = None if self.target.snapshot is None else self.target.snapshot.id
        return batch_read.read(self.spark, self.change.table, columns=names, where=self.pruning, at=at)

    # ---- the query

    def _find_rows(self, rows: DataFrame) -> DataFrame:
        """Return the found rows: their places, the number of the clause that acts on them, new values."""
        change = self.change
        frames = {_TARGET: rows}
        origin = f"{_TARGET} AS {change.alias}"
        if change.source is not None:
            frames[_SOURCE] = change.source.withColumn(_SOURCE, functions.lit(True))
            kinds = {clause.rows for clause in change.clauses}
            how = {(0, 0): "INNER", (1, 0): "RIGHT", (0, 1): "LEFT", (1, 1): "FULL"}[
                int("source" in kinds), int("target" in kinds)
            ]
            where = "true" if change.where is None else change.where.sql
            origin = f"{origin} {how} JOIN {_SOURCE} AS {change.source_alias} ON {where}"
        elif change.where is not None:
            origin = f"{origin} WHERE {change.where.sql}"
        statement = replace(self.statement, frames={**self.statement.frames, **frames})
        sources = self._types(statement, origin)
        values = [self._value(path, sources) for path in self.paths]
        packed = ", ".join(f"'v{at}', {text}" for at, text in enumerate(values))
        parts = self._place_columns(sources)
        if packed:
            parts.append(f"named_struct({packed}) AS {_VALUES}")
        found_rows = self._query(statement, f"SELECT {', '.join(parts)} FROM {origin}")  # noqa: S608 - the statement of the caller
        if change.source is not None:
            found_rows = found_rows.where(f"{_ACTION} IS NOT NULL")
        own = [functions.col(name) for name in found_rows.columns if name != _VALUES]
        unpacked = [functions.col(f"{_VALUES}.v{at}").alias(f"v{at}") for at in range(len(values))]
        return found_rows.select(*own, *unpacked)

    def _query(self, statement: Statement, text: str) -> DataFrame:
        frame = self.statement.backend.query(statement, text)
        _ = frame.schema  # Spark Connect looks at a query when it is asked
        return frame

    def _types(self, statement: Statement, origin: str) -> dict[tuple[int, Any], spark_types.DataType]:
        """Return the type that Spark gives to each new value. Raises what it finds wrong."""
        change = self.change
        asked = {(at, path): text for at, clause in enumerate(change.clauses) for path, text in clause.values.items()}
        conditions = [clause.condition.sql for clause in change.clauses if clause.condition is not None]
        texts = [*(text.sql for text in asked.values()), *conditions]
        if not texts and change.where is None:
            return {}
        packed = ", ".join(f"'x{at}', ({text})" for at, text in enumerate(texts))
        chosen = f"named_struct({packed})" if texts else "1"
        frame = self._query(statement, f"SELECT {chosen} AS x FROM {origin}")  # noqa: S608 - the statement of the caller
        if not texts:
            return {}
        packed_type: Any = frame.schema[0].dataType
        fields = packed_type.fields
        for text, own in zip(conditions, fields[len(asked) :], strict=True):
            if not isinstance(own.dataType, (spark_types.BooleanType, spark_types.NullType)):
                raise SchemaMismatch(
                    f"WHEN … AND {excerpt(text)}: a condition is true or false, and this "
                    f"is {own.dataType.simpleString()}"
                )
        found = {key: own.dataType for key, own in zip(asked, fields, strict=False)}
        for (number, path), source in found.items():
            self._check_stored(path, change.clauses[number].values[path], source)
        return found

    def _check_stored(self, path: Any, text: ExpressionText, source: spark_types.DataType) -> None:
        to = types.spark_type(self._type(path))
        if not can_store(source, to):
            name = ".".join((path[0], *path[1]))
            raise SchemaMismatch(
                f"{name} = {excerpt(text.text)}: Spark makes it {source.simpleString()}, and column {name} of "
                f"{self.ctx.name} is {self._type(path)}, which takes none without a CAST",
                column=name,
            )

    def _type(self, path: Path) -> DataType:
        """Return the type of a column, or of a field within one."""
        t = self.ctx.schema.field(path[0]).type
        for name in path[1]:
            t = next(one.type for one in t.fields if one.name == name)
        return t

    def _value(self, path: Path, sources: Mapping[Any, spark_types.DataType]) -> str:
        """Return the new value of a column as Spark stores it: that of the clause that acts on the row."""
        to = types.spark_type(self._type(path))
        texts = {
            at: self._stored(clause.values[path].sql, sources[at, path], to)
            for at, clause in enumerate(self.change.clauses)
            if path in clause.values
        }
        return texts[0] if self.change.source is None else self._by_clause(texts, f"CAST(NULL AS {type_text(to)})")

    def _stored(self, text: str, source: spark_types.DataType, to: spark_types.DataType) -> str:
        cast = f"CAST(({text}) AS {type_text(to)})"
        is_strict = str(self.spark.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true"
        if source == to or is_strict or not isinstance(source, spark_types.NumericType):
            return f"({text})" if source == to else cast
        shown = f"a value of {type_text(to)} overflows".replace("'", "")
        return (
            f"CASE WHEN ({text}) IS NOT NULL AND TRY_CAST(({text}) AS {type_text(to)}) IS NULL "
            f"THEN CAST(raise_error('{shown}') AS {type_text(to)}) ELSE {cast} END"
        )

    def _place_columns(self, sources: Mapping[Any, spark_types.DataType]) -> list[str]:
        """Return the columns that say which row is changed, and by which clause."""
        change, alias = self.change, self.change.alias
        names = self.keys if self.by_key else [_GROUP, _ROW, _FILES]
        placed = [f"{alias}.{quote_identifier(name)}" for name in names]
        if self.by_key and change.source is not None:
            new = [self._value((name, ()), sources) if (name, ()) in self.paths else "NULL" for name in names]
            placed = [
                f"CASE WHEN {self._is_there} THEN {text} ELSE {own} END" for text, own in zip(placed, new, strict=True)
            ]
        columns = [f"{text} AS __lakekit_p{at}" for at, text in enumerate(placed)]
        if change.source is None:
            return columns
        numbers = {at: str(at) for at in range(len(change.clauses))}
        action = self._by_clause(numbers, "CAST(NULL AS INT)", none=str(_NO_ACTION))
        return [*columns, f"{action} AS {_ACTION}", f"NOT ({self._is_there}) AS {_IS_NEW}"]

    @property
    def _is_there(self) -> str:
        """What is true where there is a row of the target."""
        return f"{self.change.alias}.{quote_identifier(self.keys[0] if self.by_key else _ROW)} IS NOT NULL"

    def _by_clause(self, texts: Mapping[int, str], otherwise: str, *, none: str | None = None) -> str:
        """Return a CASE with the text of each clause, for the rows that it acts on; `none`: for pairs without one."""
        change = self.change
        source = f"{change.source_alias}.{_SOURCE} IS NOT NULL"
        there = {
            "matched": f"{self._is_there} AND {source}",
            "source": f"NOT ({self._is_there}) AND {source}",
            "target": f"{self._is_there} AND NOT ({source})",
        }
        whens = []
        for rows, condition in there.items():
            clauses = change.clauses_of(rows)
            for at, clause in clauses:
                own = "" if clause.condition is None else f" AND ({clause.condition.sql})"
                whens.append(f"WHEN {condition}{own} THEN {texts.get(at, otherwise)}")
            if rows == "matched" and clauses and none is not None:
                whens.append(f"WHEN {condition} THEN {none}")
        return f"CASE {' '.join(whens)} ELSE {otherwise} END"

    # ---- what is done to them

    def _match(self) -> pl.Expr:
        """Return the condition under which a row of a key table is a found one."""
        equal = []
        for at, name in enumerate(self.keys):
            mine, dtype = col(name), self.target.schema[name]
            equal.append(mine == _as_stored(merge_plan.source(f"p{at}"), dtype))
        if self.change.clauses_of("source"):
            equal.append(~merge_plan.source("new"))
        return reduce(and_, equal)

    def _job(self, found_rows: DataFrame, *, on: pl.Expr | None) -> MergeJob:
        """Return the job that does what the clauses say to found rows."""
        names = [_COLUMN_NAMES.get(name, name.removeprefix("__lakekit_")) for name in found_rows.columns]
        if not self.by_key:
            names[:3] = [GROUP, FOUND_ROW.removeprefix(MERGE_SOURCE_PREFIX), _FILES]
        schema = spark_types.StructType(
            [
                spark_types.StructField(name, one.dataType, nullable=True)
                for name, one in zip(names, found_rows.schema, strict=True)
            ]
        )
        arrow, nothing = dml.empty_source(self.ctx, schema)
        plan = merge_plan.build_merge_plan(self.ctx, nothing, self._clauses(), on)
        plan = replace(plan, is_update=self.change.verb == "UPDATE" and self.by_key)
        if self.by_key and plan.deletes and self.change.verb == "MERGE":
            merging.check_key_deletes(self.ctx)
        return dml.build_job(self.spark, self.target, plan, names, arrow)

    def _clauses(self) -> list[Clause]:
        """Return the clauses over found rows, whose numbers say which of them acts."""
        clauses: list[Clause] = []
        has_number = self.change.source is not None
        for at, clause in enumerate(self.change.clauses):
            where = merge_plan.source("action") == at if has_number else None
            if clause.rows == "source":
                clauses.append(merge_plan.when_not_matched(insert=self._columns(clause), where=where))
            elif clause.action == "delete":
                clauses.append(merge_plan.when_matched(delete=True, where=where))
            else:
                clauses.append(merge_plan.when_matched(update=self._columns(clause), where=where))
        return clauses

    def _columns(self, clause: ChangeClause) -> dict[str, pl.Expr]:
        """Return the new value of each column, from the found row and the stored one."""
        by_column: dict[str, dict[tuple[str, ...], pl.Expr]] = {}
        schema = self.target.schema
        for name, path in (*clause.values, *clause.stored_values):
            if (name, path) in clause.stored_values:
                value = clause.stored_values[name, path]
            elif clause.rows == "source" and self.by_key and name in self.keys:
                value = merge_plan.source(f"p{self.keys.index(name)}")
            else:
                value = merge_plan.source(f"v{self.paths.index((name, path))}")
                value = _as_stored(value, statements.field_type(schema[name], path))
            by_column.setdefault(name, {})[path] = value
        return {name: statements.new_value(name, schema[name], values) for name, values in by_column.items()}


_COLUMN_NAMES = {_ACTION: "action", _IS_NEW: "new"}


def _as_stored(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return a column of Spark as the table has it, where the types of both differ: times, and units of moments."""
    if isinstance(dtype, pl.Time):
        return (column.cast(pl.Int64) * 1_000_000).cast(pl.Time)
    return column


# ---- errors ----------------------------------------------------------------------------------------------------------

_NAMES = re.compile(r"`([^`]*)`")
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_VIEW = re.compile(r"_pyspark_\w+ AS `([^`]*)`")
"""A table of the statement, as the text that Spark gets names it."""
_MOST_SAID = 300


class _SparkErrors:
    """Tells what Spark finds wrong with a value, while rows are computed, as an error of lakekit."""

    def __init__(self, change: ChangeText) -> None:
        self.change = change

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PythonException) and "lakekit." in str(error):
            return
        if isinstance(error, PySparkException) and (error.getCondition() or isinstance(error, PythonException)):
            raise _error_of(error, self._fragment(error)) from None
        java_error = getattr(error, "java_exception", None)  # what a subquery raises reaches Python as Java's own
        said = "" if java_error is None else str(java_error.getMessage()).strip()
        if _CONDITION.match(said):
            raise ValueOutOfRange(_spark_message(said.splitlines()[0], self._all_texts())) from None

    def _fragment(self, error: PySparkException) -> str:
        """Return the part of the statement that Spark names, else all of its expressions."""
        try:
            fragments = [context.fragment() for context in error.getQueryContext()]
            named = [text for text in fragments if text and "named_struct('" not in text and "__lakekit" not in text]
        except Exception:  # noqa: BLE001 - what Spark does not say is not needed
            named = []
        if named:
            return _VIEW.sub(r"\1", str(named[0]))
        return self._all_texts()

    def _all_texts(self) -> str:
        """Return all expressions of the statement."""
        clauses = self.change.clauses
        texts = [text.text for clause in clauses for text in (clause.condition, *clause.values.values()) if text]
        return ", ".join([*texts, *([] if self.change.where is None else [self.change.where.text])])


def _error_of(wrong: PySparkException, text: str) -> LakekitError:
    """Return the error about an expression that Spark does not compute."""
    condition = wrong.getCondition() or ""
    lines = [line for line in str(wrong).strip().splitlines() if line.strip()]
    said = lines[-1] if isinstance(wrong, PythonException) else lines[0]
    message = _spark_message(said, text)
    if condition.startswith(("UNRESOLVED_COLUMN", "FIELD_NOT_FOUND")):
        names = _NAMES.findall(str(wrong))
        return ColumnNotFound(message, name=names[-1] if len(names) == 1 else names[0] if names else text)
    if condition.startswith(("DATATYPE_MISMATCH", "AMBIGUOUS", "INCOMPATIBLE", "UNSUPPORTED_SUBQUERY")):
        return SchemaMismatch(message)
    if isinstance(wrong, AnalysisException):
        return InvalidOption(message, key="sql", value=text)
    return ValueOutOfRange(message)


def _spark_message(sentence: str, text: str) -> str:
    """Return what an error says: the expression, and Spark's sentence without its codes."""
    plain = re.sub(r"\s*SQLSTATE: \w+.*$", "", _CONDITION.sub("", sentence)).replace("`", "")
    return f"{excerpt(text)}: Spark says: {plain[:_MOST_SAID]}"
