"""Reads of Parquet files with Spark's own reader, where it gives the same rows as lakekit; conditions for Spark.

Spark reads a file itself if all of this holds:

    format            Parquet, on a disk that every executor sees; in a store only with the option spark.read.native=on
    rows              no deletion vector, no level to merge, and a manifest that counts no deletes among them
    columns           of types that both read alike; older schemas where every column is the same, a wider number,
                      a longer text, or missing
    names             no two column names differ only in case: Spark does not distinguish them
    paths             no glob characters: given several paths with them, Spark reads each file several times, and no
                      option switches globbing off
    partitions        statistics show that the file holds every partition column; otherwise lakekit reads the file, and
                      takes missing values from the folder name
    timestamps        the file's footer gives them the time zone of the column's type, and does not say INT96

This module decides it for each file. In doubt, lakekit's own tasks read the file. Spark's own reader is the fastest.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as sql

from lakekit.columns import KIND, SEQUENCE
from lakekit.data_file import row_kinds, schema_evolution
from lakekit.data_file.paths import data_file_paths, partition_values
from lakekit.data_file.schema_evolution import is_same_type
from lakekit.errors import Unsupported
from lakekit.metadata import schemas
from lakekit.predicate import And, Leaf, Or
from lakekit.spark.types import read_fields, spark_schema, spark_type
from lakekit.types import INTEGERS, STRINGS, TIMESTAMPS, Field, Instant, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakekit.metadata.table_context import TableContext
    from lakekit.predicate import Predicate
    from lakekit.read.planner import Plan
    from lakekit.types import DataType

    Mask = NDArray[np.bool_]


_NATIVE_NAMES = (
    "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL CHAR VARCHAR BINARY VARBINARY DATE ARRAY MAP ROW"
)
NATIVE_TYPES = frozenset(_NATIVE_NAMES.split())
"""Types that Spark reads from Parquet as lakekit does; so are timestamps up to microseconds."""
PATH_SAFE_PARTITION_TYPES = frozenset({*STRINGS, *INTEGERS})
"""Types of partition columns whose values Spark can parse from folder names."""
NULL_FOLDER_NAME = "__HIVE_DEFAULT_PARTITION__"
"""The text of a folder name that Spark reads as null, whatever the table's `partition.default-name` is."""
HIDDEN_NAME = r"^[_.]"
"""File names that Spark ignores, as a regular expression."""
GLOB_CHARACTERS = frozenset("{}[]*?\\")
"""Characters that make Spark treat a path as a glob pattern."""
LISTING_BATCH_FILES = 32
"""Spark lists more paths than this in a separate Spark job, of 10 000 tasks unless it is configured."""
_LISTING_SETTING, _FEW_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism", 64
_READ_OPTIONS = {
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",  # days before 1582 are days of the calendar of today in every file of Paimon's
    "int96RebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """A column to read (`target`), and the column in the files from which it is cast (`source`).

    `source` is None if the files lack the column: it is null then.
    """

    target: Field
    source: Field | None


def native_read_mask(plan: Plan, fields: Sequence[Field]) -> Mask:
    """Return a mask over `plan.raw`: the files that Spark may read for these columns."""
    ctx, count = plan.ctx, len(plan.raw_indices)
    mode = ctx.options.spark_read_native
    if not count or mode == "off" or not _may_open_files(ctx, mode) or not _names_differ(ctx):
        return np.zeros(count, bool)
    entries = plan.entries.take(plan.raw_indices)
    mask = ~np.asarray(pc.match_substring_regex(entries.column("file_name"), HIDDEN_NAME)) & np.asarray(
        pc.ends_with(entries.column("file_name"), ".parquet")
    )
    if plan.vector_entries:
        mask &= ~np.asarray(pc.is_in(entries.column("file_name"), pa.array(list(plan.vector_entries), pa.string())))
    if plan.spec is not None:
        mask &= ~row_kinds.may_retract(ctx, plan.entries, plan.raw_indices, reads_remote=True)
    if lacking := schema_evolution.select_possibly_missing(ctx, fields):  # what they lack only lakekit fills in
        mask &= ~np.array(
            schema_evolution.may_lack_columns(
                ctx, entries.files_to_read(with_null_counts=True), data_file_paths(ctx, entries), lacking
            ),
            bool,
        )
    numbers = entries.integers("schema_id")
    mask[mask] = np.array(
        [GLOB_CHARACTERS.isdisjoint(path) for path in data_file_paths(ctx, entries.filter(mask))], bool
    )  # scalar: one a file
    for number in np.unique(numbers[mask]).tolist():  # scalar: one a schema
        of_schema = mask & (numbers == number)
        if map_columns(ctx, number, fields) is None or not _timestamps_as_said(
            plan, int(np.flatnonzero(of_schema)[0]), number, fields
        ):
            mask &= ~of_schema
    return mask


def _may_open_files(ctx: TableContext, mode: str) -> bool:
    """Return whether Spark may open the table's files: on a disk always, in a store only with the mode "on".

    Raises `Unsupported` for the mode "on" where only lakekit can open the files.
    """
    options = ctx.options
    if ctx.storage.polars_path(ctx.root) is None:
        if mode == "on":
            msg = f"spark.read.native=on, and only lakekit can open the files of {ctx.name}"
            raise Unsupported(msg, feature="spark.read")
        return False
    return (
        (not ctx.storage.is_remote or mode == "on")
        and not options.scan_ignore_lost_files
        and not options.scan_ignore_corrupt_files
    )


def _names_differ(ctx: TableContext) -> bool:
    """Return whether all column names differ in more than case, system columns of key tables included."""
    schema = ctx.schema
    system = [SEQUENCE, KIND, *(f"_KEY_{name}" for name in schema.trimmed_primary_keys)] if schema.primary_keys else []
    names = [name.lower() for name in (*schema.names, *system)]
    return len(set(names)) == len(names)


def map_columns(ctx: TableContext, schema_id: int, fields: Sequence[Field]) -> tuple[ColumnMapping, ...] | None:
    """Return how to make the columns from files of another schema.

    None: Spark would read or cast a column differently from lakekit.
    """
    schema = schemas.schema_of_file(ctx, schema_id)
    by_id, names = {field.id: field for field in schema.fields}, [field.name.lower() for field in schema.fields]
    lifted = [ColumnMapping(target=want, source=by_id.get(want.id)) for want in fields]
    if len(set(names)) < len(names) or not all(_is_liftable(lift) for lift in lifted):
        return None
    return tuple(lifted)


def _is_liftable(lift: ColumnMapping) -> bool:
    want, have = lift.target.type, None if lift.source is None else lift.source.type
    if have is None:
        return _is_native(want)
    return _is_native(have) and (is_same_type(have, want) or _is_widening(have, want))


def _is_native(t: DataType) -> bool:
    if t.root in TIMESTAMPS:
        return (t.precision or 0) <= 6
    return t.root in NATIVE_TYPES and all(_is_native(part) for part in t.parts)


def _is_widening(have: DataType, target: DataType) -> bool:
    """Return whether every value of type `have` is a value of type `target`, in Spark's cast and in Paimon's cast."""
    if have.root in INTEGERS and target.root in INTEGERS:
        return INTEGERS.index(have.root) <= INTEGERS.index(target.root)
    if have.root in STRINGS and target.root == "VARCHAR":
        return (have.length or 0) <= (target.length or 0)
    return (have.root, target.root) == ("FLOAT", "DOUBLE")


def _timestamps_as_said(plan: Plan, at: int, schema_id: int, fields: Sequence[Field]) -> bool:
    """Return whether the first file of a schema stores timestamps as Spark reads them; files of old writers may not."""
    timestamps = [
        lift.source
        for lift in map_columns(plan.ctx, schema_id, fields) or ()
        if lift.source is not None and lift.source.type.holds(TIMESTAMPS)
    ]
    if not timestamps:
        return True
    [path] = data_file_paths(plan.ctx, plan.entries.take([int(plan.raw_indices[at])]))
    if plan.ctx.storage.is_remote:
        return False
    try:
        leaves = pq.read_metadata(path).schema
    except (OSError, pa.ArrowException):
        return False  # lakekit says what is wrong with it
    columns = [leaves.column(number) for number in range(len(leaves))]
    return all(
        _has_same_zone(field, leaf)
        for field in timestamps
        for leaf in columns
        if leaf.path == field.name or leaf.path.startswith(field.name + ".")
    )


def _has_same_zone(field: Field, leaf: Any) -> bool:
    """Return whether Spark reads a leaf of a file's column with the same time zone as lakekit.

    True if the leaf is no timestamp, or if the file marks it as UTC exactly where the column's type has a local time
    zone.
    """
    zones = {part.root == "TIMESTAMP_LTZ" for part in _iter_leaf_types(field.type) if part.root in TIMESTAMPS}
    if leaf.physical_type == "INT96":
        return False
    return leaf.logical_type.type != "TIMESTAMP" or zones == {
        json.loads(leaf.logical_type.to_json())["isAdjustedToUTC"]
    }


def _iter_leaf_types(t: DataType) -> Iterator[DataType]:
    if not t.parts:
        yield t
    for part in t.parts:
        yield from _iter_leaf_types(part)


# ---- frames ----------------------------------------------------------------------------------------------------------


def native_frames(
    spark: SparkSession, plan: Plan, mask: Mask, fields: Sequence[Field], out: Sequence[Field], condition: Column | None
) -> list[DataFrame]:
    """Return frames of the files of `plan.raw` in the mask, filtered over `fields`, with columns `out`.

    Files of different schemas are in different frames. A missing column is null, a renamed column is read under its old
    name, a wider number is cast. If partition values are plain texts or integers, Spark reads them from the folder
    names, and can prune folders by later filters. Spark would take the folder name of a null partition for a value:
    such files are in a frame of their own, and the partition columns are read from the files. `condition` None: no
    filter.
    """
    entries = plan.entries.take(plan.raw_indices[mask])
    paths = np.array([_to_hadoop_path(plan.ctx, path) for path in data_file_paths(plan.ctx, entries)], object)
    schema_ids, in_folders = entries.integers("schema_id"), _in_folders(plan.ctx, entries.column("partition"), paths)
    frames_read = []
    for schema_id in np.unique(schema_ids).tolist():  # scalar: one a schema
        lifted = map_columns(plan.ctx, schema_id, fields)
        assert lifted is not None
        for of_folders in (True, False):
            selected = paths[(schema_ids == schema_id) & (in_folders == of_folders)].tolist()
            if selected:
                frame = _read_paths(spark, selected, lifted, plan.ctx if of_folders else None)
                rows = frame if condition is None else frame.filter(condition)
                names = [field.name for field in out]
                frames_read.append(
                    rows
                    if names == [field.name for field in fields]
                    else rows.selectExpr(*map(quote_identifier, names))
                )
    return frames_read


def _read_paths(
    spark: SparkSession, paths: list[str], lifted: Sequence[ColumnMapping], table: TableContext | None
) -> DataFrame:
    file_fields = {lift.source.name: lift.source for lift in lifted if lift.source is not None}
    reader = spark.read.options(**_READ_OPTIONS)
    if table is not None:
        reader = reader.option("basePath", _to_hadoop_path(table, table.root))
        file_fields |= {field.name: field for field in table.schema.partition_fields}  # else Spark guesses their types
    # columns that the files lack are not asked for: another one may have had that name
    with _limit_listing_tasks(spark, len(paths)):
        frame = reader.schema(spark_schema(read_fields(tuple(file_fields.values())))).parquet(*paths)
    # a Column costs calls into the JVM, which a small read would notice; texts go there all at once
    texts = [_column_sql(lift) for lift in lifted]
    if table is None and texts == [quote_identifier(name) for name in file_fields]:
        return frame
    plain_texts = [text for text in texts if text is not None]
    if len(plain_texts) == len(texts):
        return frame.selectExpr(*plain_texts)
    out = read_fields([lift.target for lift in lifted])
    return frame.select(
        *(sql.expr(text) if text is not None else _null_column(field) for text, field in zip(texts, out, strict=True))
    )


def _column_sql(lift: ColumnMapping) -> str | None:
    """Return a column as Spark SQL; None for a null of a nested type, because SQL may not accept its field names."""
    name = quote_identifier(lift.target.name)
    if lift.source is None:
        return (
            None if lift.target.type.parts else f"CAST(NULL AS {spark_type(lift.target.type).simpleString()}) AS {name}"
        )
    column = quote_identifier(lift.source.name)
    if not is_same_type(lift.source.type, lift.target.type):
        return f"CAST({column} AS {spark_type(lift.target.type).simpleString()}) AS {name}"
    return column if lift.source.name == lift.target.name else f"{column} AS {name}"


def _null_column(field: Field) -> Column:
    return sql.lit(None).cast(spark_type(field.type)).alias(field.name)


@contextmanager
def _limit_listing_tasks(spark: SparkSession, count: int) -> Iterator[None]:
    """Let Spark list many files in few tasks while a frame is made, unless the session sets the number."""
    before = spark.conf.get(_LISTING_SETTING) if count > LISTING_BATCH_FILES else None
    if before is None or not before.isdecimal() or int(before) <= _FEW_TASKS:
        yield
        return
    spark.conf.set(_LISTING_SETTING, str(_FEW_TASKS))
    try:
        yield
    finally:
        if hasattr(spark, "_sc"):  # over Connect files are looked at later, when the frame is used
            spark.conf.set(_LISTING_SETTING, before)


def _in_folders(ctx: TableContext, partitions: pa.BinaryArray, paths: NDArray[np.object_]) -> Mask:
    """Return which files lie in folders whose names Spark reads as the values of partition columns."""
    fields = ctx.schema.partition_fields
    if not fields or any(field.type.root not in PATH_SAFE_PARTITION_TYPES for field in fields):
        return np.zeros(len(paths), bool)
    encoded = partitions.dictionary_encode()
    plain = np.array([_is_plain(ctx, row) for row in encoded.dictionary.to_pylist()], bool)  # scalar: one a partition
    root = _to_hadoop_path(ctx, ctx.root).rstrip("/") + "/"
    below = np.array([path.startswith(root) for path in paths], bool)  # scalar: one a file
    mask: Mask = plain[encoded.indices.to_numpy()] & below
    return mask


def _is_plain(ctx: TableContext, partition: bytes) -> bool:
    values = partition_values(ctx, partition)
    nulls = (NULL_FOLDER_NAME, ctx.options.partition_default_name)
    return all(value is not None and str(value).strip() and str(value) not in nulls for value in values)


def _to_hadoop_path(ctx: TableContext, path: str) -> str:
    if not ctx.storage.is_remote:
        return path
    return "s3a://" + path.partition("://")[2] if path.startswith("s3://") else path


# ---- conditions ------------------------------------------------------------


_INT64_BOUND = 2**63
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock has no zone
_COMPARISON_OF_OPERATOR = {
    "=": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}


class _DifferentEvaluation(Exception):
    """A condition that the two engines might evaluate differently."""


def to_spark_condition(predicates: Iterable[Predicate | None], types: Mapping[str, DataType]) -> Column | None:
    """Return the conjunction of all predicates as a Spark column.

        And((Leaf("k", ">=", (5,)), Leaf("s", "in", ("a", "b"))))   ->   (k >= 5) AND (s IN ('a', 'b'))

    None: a predicate is None (lakekit could not parse it) or cannot be converted. lakekit then reads the files itself,
    and evaluates the conditions with Polars.

    A condition is converted only where Polars and Spark agree on every value: integers, booleans, texts (compared by
    their bytes), dates, and DOUBLE, whose NaN is the greatest number and equal to itself in both engines. Timestamps up
    to microseconds are compared as numbers of microseconds, which do not depend on the session's time zone. Of
    FLOAT, DECIMAL and bytes only IS NULL and IS NOT NULL are converted.
    """
    try:
        return reduce(and_, [_to_column(predicate, types) for predicate in predicates], sql.lit(True))
    except _DifferentEvaluation:
        return None


def _to_column(predicate: Predicate | None, types: Mapping[str, DataType]) -> Column:
    match predicate:
        case And(parts):
            return reduce(and_, [_to_column(part, types) for part in parts], sql.lit(True))
        case Or(parts):
            return reduce(or_, [_to_column(part, types) for part in parts], sql.lit(False))
        case Leaf(name, op, literals) if name in types:
            return _compare_column(sql.col(quote_identifier(name)), op, literals, types[name])
    raise _DifferentEvaluation


def _compare_column(column: Column, op: str, literals: tuple[Any, ...], t: DataType) -> Column:
    match op:
        case "is null":
            return column.isNull()
        case "is not null":
            return column.isNotNull()
    values = [_literal_column(value, t) for value in literals]
    match op:
        case "in":
            return column.isin(*values) if values else sql.lit(False)
        case "starts with" if t.root in STRINGS:
            return column.startswith(values[0])
        case word if word in _COMPARISON_OF_OPERATOR:
            return _COMPARISON_OF_OPERATOR[word](column, values[0])
    raise _DifferentEvaluation


def _literal_column(value: object, t: DataType) -> Column:
    match value:
        case bool() if t.root == "BOOLEAN":
            return sql.lit(value)
        case int() if not isinstance(value, bool) and -_INT64_BOUND <= value < _INT64_BOUND and t.root in INTEGERS:
            return sql.lit(value)
        case float() if t.root == "DOUBLE":
            return sql.lit(value)
        case str() if t.root in STRINGS:
            return sql.lit(value)
        case date() if not isinstance(value, datetime) and t.root == "DATE":
            return sql.expr(f"date'{value.isoformat()}'")
        case Instant() if t.root in TIMESTAMPS and (t.precision or 0) <= 6 and not value.nanos % 1000:
            return _timestamp_column(value, t)
    raise _DifferentEvaluation


def _timestamp_column(value: Instant, t: DataType) -> Column:
    micros = value.millis * 1000 + value.nanos // 1000
    if t.root == "TIMESTAMP_LTZ":
        return sql.timestamp_micros(sql.lit(micros))
    try:
        wall = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise _DifferentEvaluation from None
    return sql.expr(f"timestamp_ntz'{wall.isoformat(' ')}'")
