"""The sources of a pipeline: what a batch has brought, as messages of a change format or as typed rows.

    files     a stream of the names of new files, which each batch reads: so columns may be others in each batch
    paimon    the changes of a table, by `spark.streaming`
    stream    any streaming frame: its `value` has the messages, or its columns are the rows

`open_stream` returns the stream, `read_batch` the changes of one batch of it, in the columns of
`change_format.read_changes`. Among the messages of files the file's time counts first, then its path, then the place in
it. Rows with columns of their own (CSV, Parquet, Avro, tables, streams) become changes here: the row as a VARIANT, and
the type of each column.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import functions as sql

from lakekit import storage as storages
from lakekit.columns import ROW_KIND
from lakekit.errors import InvalidOption, SchemaMismatch
from lakekit.format import avro, foreign_file
from lakekit.spark import session, types
from lakekit.spark.batch_read import read as read_table
from lakekit.spark.data_source import register
from lakekit.spark.pipeline.change_format import FORMATS, read_changes
from lakekit.spark.pipeline.configuration import CHANGE_FORMATS
from lakekit.types import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

    from lakekit.spark.pipeline.configuration import PipelineConfiguration, SourceConfiguration
    from lakekit.types import Field

_FILE_SCHEMA = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
_CORRUPT_COLUMN = "_lakekit_corrupt"
_POSITION = "_lakekit_position"
SAMPLE_FILES, SAMPLE_ROWS = 20, 10_000


def open_stream(spark: SparkSession, configuration: PipelineConfiguration, stream: DataFrame | None) -> DataFrame:
    """Return the streaming frame whose batches `read_batch` takes.

    Raises: `InvalidOption` for a frame that is none, or that the configuration does not ask for.
    """
    source = configuration.source
    if (stream is not None) != (source.kind == "stream"):
        problem = "is missing: run(…, stream=frame)" if stream is None else "is given, and is of kind 'stream' alone"
        raise InvalidOption(f"the source is of kind {source.kind!r}, and a stream {problem}", key="stream")
    if stream is not None:
        if not stream.isStreaming:
            raise InvalidOption("stream= takes a streaming frame, spark.readStream…, and this is none", key="stream")
        return stream
    if source.kind == "paimon":
        register(spark)
        reader = spark.readStream.format("lakekit").options(**source.options)
        return reader.option("row_kind", ROW_KIND).load(source.path)
    reader = spark.readStream.format("binaryFile").schema(_FILE_SCHEMA).options(**source.options)
    files = _load(reader.option("maxFilesPerTrigger", source.files_per_batch), source)
    return files.select("path", "modificationTime")  # the contents are not read here


def _load(reader: DataFrameReader | DataStreamReader, source: SourceConfiguration) -> DataFrame:
    try:
        return reader.load(source.path)
    except PySparkException as error:
        said = str(error).splitlines()[0][:500]
        raise InvalidOption(f"[source] path {source.path} cannot be read: {said}", key="source.path") from error


def read_sample(spark: SparkSession, configuration: PipelineConfiguration, stream: DataFrame | None) -> DataFrame:
    """Return the changes of the source's first files or rows, for `check`."""
    source = configuration.source
    if source.kind == "files":
        reader = spark.read.format("binaryFile").schema(_FILE_SCHEMA).options(**source.options)
        files = _load(reader, source).select("path", "modificationTime")
        return read_batch(spark, configuration, files.orderBy("modificationTime", "path").limit(SAMPLE_FILES))
    if source.kind == "paimon":
        assert source.path is not None
        rows = read_table(spark, source.path).limit(SAMPLE_ROWS)
        return read_batch(spark, configuration, rows.withColumn(ROW_KIND, sql.lit("+I")))
    if stream is None or stream.isStreaming:
        raise InvalidOption(
            "the sample of a stream is a frame of some of its rows: check(…, stream=frame)", key="stream"
        )
    return read_batch(spark, configuration, stream.limit(SAMPLE_ROWS))


def read_batch(spark: SparkSession, configuration: PipelineConfiguration, batch: DataFrame) -> DataFrame:
    """Return the changes that a batch has brought.

    Raises: `SchemaMismatch` for columns that no change can have.
    """
    source = configuration.source
    if source.kind == "files":
        return _read_files(spark, configuration, batch)
    order = [sql.col(quote_identifier(name)) for name in source.order]
    position = sql.struct(*(column.alias(f"c{at}") for at, column in enumerate(order)), _row_number())
    numbered = batch.withColumn(_POSITION, position)
    if source.kind == "paimon":
        return _rows_as_changes(numbered, ROW_KIND)
    columns = batch.columns
    if "value" in columns and (source.format != "plain" or [*columns] == ["value"]):
        messages = numbered.select(sql.col("value").cast("string").alias("value"), sql.col(_POSITION).alias("position"))
        return read_changes(messages, source.format, options=_format_options(configuration))
    if source.format != "plain":
        raise SchemaMismatch(
            f"messages of {source.format} stand in a column value, and the stream has {', '.join(columns)}",
            column="value",
        )
    return _rows_as_changes(numbered, source.row_kind)


def _format_options(configuration: PipelineConfiguration) -> dict[str, str]:
    """Return the options of the change format: those that it has."""
    row_kind, mapping = configuration.source.row_kind, ",".join(configuration.growth.type_mapping)
    options = {"row-kind": row_kind or "", "type-mapping": mapping}
    known = FORMATS[configuration.source.format].options
    return {name: value for name, value in options.items() if value and name in known}


def _row_number() -> Column:
    """Return numbers that rise from row to row of a partition."""
    return sql.monotonically_increasing_id().alias("row")


def _file_position() -> Column:
    """Return where a row of a file is: a file that was written later is behind, and so is a later row of it."""
    file = sql.col("_metadata")
    return sql.struct(
        file["file_modification_time"].alias("time"),
        file["file_path"].alias("file"),
        file["file_block_start"].alias("block"),
        _row_number(),
    )


# ---- files -----------------------------------------------------------------------------------------------------------


def _read_files(spark: SparkSession, configuration: PipelineConfiguration, batch: DataFrame) -> DataFrame:
    source = configuration.source
    found = batch.select("path").orderBy("modificationTime", "path").collect()
    paths = [
        row[0].removeprefix("file:") for row in found
    ]  # scalar: the files of a batch, which `files_per_batch` bounds
    if source.format in CHANGE_FORMATS:
        lines = _reader(spark, source).text(paths)
        messages = lines.select("value", _file_position().alias("position")).where("trim(value) <> ''")
        return read_changes(messages, source.format, options=_format_options(configuration))
    if source.format == "csv":
        frames = _read_csv(spark, source, paths)
    elif source.format == "parquet":
        frames = _read_parquet(spark, source, paths)
    else:
        frames = _read_avro(spark, configuration, paths)
    if not frames:  # no file has a line
        nothing = spark.range(0).select(sql.lit("").alias("value"), sql.struct("id").alias("position"))
        return read_changes(nothing, "plain", options={})
    changes = [_rows_as_changes(frame, source.row_kind) for frame in frames]
    return reduce(lambda left, right: left.unionByName(right), changes)


def _reader(spark: SparkSession, source: SourceConfiguration):  # type: ignore[no-untyped-def]  # noqa: ANN202 - Spark's
    return spark.read.options(**source.options).option("__globPaths__", "false")


def _read_csv(spark: SparkSession, source: SourceConfiguration, paths: Sequence[str]) -> list[DataFrame]:
    """Return a frame for all files of one header; every column is text unless the option inferSchema says else."""
    options = {"header": "true", **source.options}
    groups: dict[str, list[str]] = {}
    if options["header"].lower() == "true":
        lines = _reader(spark, source).text(list(paths)).select("value", "_metadata")
        first = lines.where("_metadata.file_block_start = 0").select("value", "_metadata.file_path", _row_number())
        headers = first.groupBy("file_path").agg(sql.min_by("value", "row")).collect()
        for path, header in sorted(headers):
            groups.setdefault(header, []).append(unquote(path))
    else:
        groups[""] = list(paths)
    frames = []
    for group in groups.values():
        reader = _reader(spark, source).options(**options)
        schema = reader.csv(group[:1] if options.get("inferSchema", "").lower() != "true" else group).schema
        with_corrupt = schema.add(_CORRUPT_COLUMN, "string")
        rows = reader.schema(with_corrupt).option("columnNameOfCorruptRecord", _CORRUPT_COLUMN).csv(group)
        frames.append(rows.withColumn(_POSITION, _file_position()))
    return frames


def _read_parquet(spark: SparkSession, source: SourceConfiguration, paths: Sequence[str]) -> list[DataFrame]:
    """Return one frame where the columns of all files go together, else one for each file."""
    reader = _reader(spark, source).option("mergeSchema", "true")
    try:
        frames = [reader.parquet(*paths)]
    except Exception as error:
        if "CANNOT_MERGE_SCHEMAS" not in str(error):  # Spark raises it as an error of the JVM, which has no class here
            raise
        frames = [_reader(spark, source).parquet(path) for path in paths]
    return [frame.withColumn(_POSITION, _file_position()) for frame in frames]


def _read_avro(spark: SparkSession, configuration: PipelineConfiguration, paths: Sequence[str]) -> list[DataFrame]:
    """Return a frame for each run of files with the same columns, whose files are read in tasks."""
    options = dict(configuration.catalog.storage)
    frames, at = [], 0
    schemas = [_avro_fields(path, options) for path in paths]
    while at < len(paths):
        end = next((i for i in range(at, len(paths)) if schemas[i] != schemas[at]), len(paths))
        fields = types.read_fields(schemas[at])
        tasks = [path.encode() for path in paths[at:end]]
        rows = session.run(spark, tasks, partial(_avro_batches, fields, options), types.spark_schema(fields))
        frames.append(rows.withColumn(_POSITION, sql.struct(sql.lit(at).alias("file"), _row_number())))
        at = end
    return frames


def _avro_fields(path: str, options: Mapping[str, str]) -> tuple[Field, ...]:
    storage, name = storages.open(path, options)
    size = storage.size(name)
    return foreign_file.read_avro_schema(path, partial(storage.read, name), size).fields


def _avro_batches(fields: Sequence[Field], options: Mapping[str, str], task: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, in an executor."""
    storage, name = storages.open(task.decode(), options)
    frame = avro.scan([name], fields, read=storage.read).collect()
    yield types.to_batch(frame, fields)


# ---- rows as changes -------------------------------------------------------------------------------------------------


def _rows_as_changes(frame: DataFrame, kind: str | None) -> DataFrame:
    """Return rows with typed columns as changes; a line of CSV with other columns than its header is a problem."""
    own = (_CORRUPT_COLUMN, _POSITION)
    columns = [name for name in frame.columns if name not in own]
    if kind is not None and kind not in columns:
        raise SchemaMismatch(f"row_kind is the column {kind!r}, and the rows have {', '.join(columns)}", column=kind)
    row = sql.struct(*(sql.col(quote_identifier(name)) for name in columns))
    corrupt = sql.col(_CORRUPT_COLUMN) if _CORRUPT_COLUMN in frame.columns else sql.lit(None)
    rows = frame.select(
        sql.col(_POSITION).alias("position"), corrupt.cast("string").alias(_CORRUPT_COLUMN), row.alias("value")
    )
    changes = read_changes(rows, "plain", options={} if kind is None else {"row-kind": kind})
    is_corrupt = sql.col(_CORRUPT_COLUMN).isNotNull()
    told = sql.lit("the line has other columns than its header")
    return changes.withColumns(
        {
            "kind": sql.when(~is_corrupt, sql.col("kind")),
            "value": sql.coalesce(_CORRUPT_COLUMN, "value"),
            "problem": sql.when(is_corrupt, told).otherwise(sql.col("problem")),
        }
    ).drop(_CORRUPT_COLUMN)
