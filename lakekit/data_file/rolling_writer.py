"""Write data files: frames of one bucket go in, data files and their metadata come out.

    names = file_names(ctx)
    target = WriteTarget(ctx=ctx, partition=row, bucket=0, level=0, source=APPEND_SOURCE, names=names, keyed=True)
    files = write_run(target, frames)

Frames have the table's columns in schema order; in key tables `_SEQUENCE_NUMBER` and `_VALUE_KIND` after them, sorted
by key (a changelog: by key, all events of one in order). Files roll at `target-file-size`, between rows. Whatever
fails, no file of the run is left. A `FileSpec` holds what the options determine for new files of a level, or for
changelog files: columns, format, name and collected statistics.

Source: ENGINE.md 1.2 and 8.1, FORMAT.md 1.2, 1.3, 7.1, 7.2, 7.7 and 9.1; `RollingFileWriter`, `KeyValueDataFileWriter`,
`RowDataFileWriter`, `KeyValueFileWriterFactory`, `StatsCollectorFactories`, `FileStorePathFactory`,
`ExternalPathProvider`, `PostponeBucketFileStoreWrite`.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import polars as pl

from lakekit.codec import binary_row
from lakekit.columns import KIND, SEQUENCE
from lakekit.data_file import file_metadata
from lakekit.data_file.file_metadata import IndexBuilder, IndexDefinition, StatsCollector, index_definitions
from lakekit.data_file.paths import file_extension, partition_path
from lakekit.data_file.reader import SYSTEM_FIELDS
from lakekit.errors import StorageFailed, Unsupported
from lakekit.format import text_casts
from lakekit.format.encoder import Encoding, check_types, has_bounds, open_writer
from lakekit.model.data_file import APPEND_SOURCE, EMPTY_ROW, NO_STATS, DataFileMeta
from lakekit.model.table_paths import EXTERNAL_PATHS, POSTPONE_BUCKET
from lakekit.model.table_schema import SYSTEM_FIELD_ID_START
from lakekit.runtime import wall_clock_ms
from lakekit.types import BINARIES, Field

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakekit.data_file.paths import FileNames
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import Stats
    from lakekit.model.table_schema import TableSchema
    from lakekit.options.table_options import TableOptions


KEY_PREFIX = "_KEY_"
"""The prefix of key columns in the files of key tables."""
SYSTEM_COLUMNS_OF_KEY_TABLES = (SYSTEM_FIELDS[SEQUENCE], SYSTEM_FIELDS[KIND])
"""The system columns in the files of key tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSpec:
    """The specification of new data files of one level, or of new changelog files.

    `physical_fields`: the columns of a file. `column_names`: for each column of a file, the pair (name in the frame,
    name in the file). `bounds_fields`: the columns whose statistics are collected. `key_fields`: the columns of the key
    statistics, with one mode each in `key_modes`. `value_fields`: the columns of the value statistics, with one mode
    each in `value_modes`. `value_stats_cols`: the names of `value_fields` for the manifest; None: all columns of the
    table.
    `name_prefix`: the prefix of file names; empty: the table's data file prefix. `index_definitions`: the file indexes
    to build. A file is complete at `rolling_bytes` bytes or `rolling_rows` rows.
    """

    format_name: str
    encoding: Encoding
    extension: str
    name_prefix: str
    physical_fields: tuple[Field, ...]
    column_names: tuple[tuple[str, str], ...]
    bounds_fields: tuple[Field, ...]
    key_fields: tuple[Field, ...]
    key_modes: tuple[str, ...]
    value_fields: tuple[Field, ...]
    value_modes: tuple[str, ...]
    value_stats_cols: tuple[str, ...] | None
    index_definitions: tuple[IndexDefinition, ...]
    rolling_bytes: int
    rolling_rows: int


def file_spec(ctx: TableContext, *, bucket: int, level: int, is_keyed: bool, kind: str) -> FileSpec:
    """Return the `FileSpec` of new files. Raises `InvalidOption`, `Unsupported`.

    `kind`: "data" or "changelog". `is_keyed`: whether the files hold keys, sequence numbers and row kinds.
    """
    return _build_file_spec(ctx.schema, ctx.options, bucket == POSTPONE_BUCKET, (level, is_keyed, kind == "changelog"))


@lru_cache(maxsize=256)
def _build_file_spec(
    schema: TableSchema, options: TableOptions, is_postponed: bool, role: tuple[int, bool, bool]
) -> FileSpec:
    level, keyed, changelog = role
    format_name, compression, mode = _format_choices(options, level if keyed else None, changelog=changelog)
    if is_postponed:
        format_name, mode = _postponed_format(schema, format_name), file_metadata.STATS_NONE
    key = schema.key_fields if keyed else ()
    stored_key = tuple(Field(KEY_PREFIX + f.name, f.type, id=f.id + SYSTEM_FIELD_ID_START) for f in key)
    thin = keyed and options.data_file_thin_mode
    system = SYSTEM_COLUMNS_OF_KEY_TABLES if keyed else ()
    physical = (*(() if thin else stored_key), *system, *schema.fields)
    modes = _stats_modes(
        options,
        [f.name for f in physical],
        mode,
        is_avro=format_name == "avro",
        thin_key=schema.trimmed_primary_keys if thin else (),
    )
    value_modes = tuple(_limit_stats_mode(f, modes[f.name], format_name) for f in schema.fields)
    dense = options.metadata_stats_dense_store
    valued = [
        (f, m) for f, m in zip(schema.fields, value_modes, strict=True) if not dense or m != file_metadata.STATS_NONE
    ]
    key_modes = tuple(modes[f.name if thin else KEY_PREFIX + f.name] for f in key)
    stats_columns = {f.name for f, m in (*valued, *zip(key, key_modes, strict=True)) if m != file_metadata.STATS_NONE}
    return FileSpec(
        format_name=format_name,
        encoding=make_encoding(options, compression),
        extension=file_extension(options, format_name, compression),
        name_prefix=options.changelog_file_prefix if changelog else "",
        physical_fields=physical,
        column_names=tuple((f.name.removeprefix(KEY_PREFIX) if f in stored_key else f.name, f.name) for f in physical),
        bounds_fields=tuple(f for f in schema.fields if f.name in stats_columns),
        key_fields=key,
        key_modes=key_modes,
        value_fields=tuple(f for f, _ in valued),
        value_modes=tuple(m for _, m in valued),
        value_stats_cols=tuple(f.name for f, _ in valued) if len(valued) < len(schema.fields) else None,
        index_definitions=() if changelog or is_postponed else index_definitions(schema, options),
        rolling_bytes=options.rolling_size_bytes,
        rolling_rows=options.target_file_row_num,
    )


def check_columns(schema: TableSchema, options: TableOptions) -> None:
    """Raise `Unsupported` if a file format of the table cannot hold the columns of a schema.

    The formats of all levels and of changelog files are checked: after such a schema change every write would fail.
    """
    formats = {options.file_format}
    if schema.primary_keys:
        formats |= {*options.file_format_per_level.values()}
        formats |= (
            {options.changelog_file_format or options.file_format} if options.changelog_producer != "none" else set()
        )
    for name in formats:
        check_types(name.lower(), schema.fields)


def _postponed_format(schema: TableSchema, fallback_format: str) -> str:
    """Return the format of files in the postpone bucket: Avro, which is fast to write, if it can hold the columns."""
    try:
        check_types("avro", schema.fields)
    except Unsupported:
        return fallback_format
    return "avro"


def _format_choices(options: TableOptions, level: int | None, *, changelog: bool) -> tuple[str, str, str]:
    """Return the format, compression and statistics mode of the files of a level, or of changelog files.

    `level`: None for append tables.
    """
    format_name, compression = options.file_format, options.file_compression
    mode, key = options.metadata_stats_mode, "metadata.stats-mode"
    if level is not None:
        format_name = options.file_format_per_level.get(level, format_name)
        compression = options.file_compression_per_level.get(level, compression)
    if level is not None and level in options.metadata_stats_mode_per_level:
        mode, key = options.metadata_stats_mode_per_level[level], "metadata.stats-mode.per.level"
    if changelog:
        format_name = options.changelog_file_format or format_name
        compression = options.changelog_file_compression or compression
        if options.changelog_file_stats_mode is not None:
            mode, key = options.changelog_file_stats_mode, "changelog-file.stats-mode"
    return format_name.lower(), compression, file_metadata.parse_stats_mode(mode, key)


def make_encoding(options: TableOptions, compression: str) -> Encoding:
    """Return the `Encoding` that the table options and a compression give."""
    return Encoding(
        compression=compression,
        compression_level=options.file_compression_zstd_level,
        block_bytes=options.file_block_size_bytes,
        file_bytes=options.rolling_size_bytes,
        batch_rows=options.write_batch_size,
        table_options=options.texts,
        time_zone=options.lakekit_java_time_zone,
    )


# ---- statistics ------------------------------------------------------------------------------------------------------


def _stats_modes(
    options: TableOptions, names: Sequence[str], mode: str, *, is_avro: bool, thin_key: Sequence[str]
) -> dict[str, str]:
    """Return the mode of each physical column; the first rule that applies counts (FORMAT 7.7)."""
    first, counted = options.metadata_stats_keep_first_n_columns, 0
    modes = {}
    for name in names:
        own = options.field(name).stats_mode
        is_system = name.startswith(KEY_PREFIX) or any(name == f.name for f in SYSTEM_COLUMNS_OF_KEY_TABLES)
        if own is not None:
            modes[name] = file_metadata.parse_stats_mode(own, f"fields.{name}.stats-mode")
        elif not is_avro and (is_system or name in thin_key):
            modes[name] = file_metadata.SYSTEM_MODE
            continue
        else:
            modes[name] = file_metadata.STATS_NONE if 0 <= first <= counted else mode
        counted += 1
    return modes


def _limit_stats_mode(field: Field, mode: str, format_name: str) -> str:
    """Return the statistics mode that a column supports.

    For a type without order the mode is null counts; in Parquet, which has no null counts for it, the mode is none.
    """
    if has_bounds(field.type) or field.type.root in BINARIES or mode == file_metadata.STATS_NONE:
        return mode
    return file_metadata.STATS_NONE if format_name == "parquet" else file_metadata.STATS_COUNTS


# ---- locations -------------------------------------------------------------------------------------------------------


def allocate_path(
    ctx: TableContext, file_names: FileNames, spec: FileSpec, partition: bytes, bucket: int
) -> tuple[str, str, str | None]:
    """Return (name, full path, external path) of the next file; the external path is None inside the table.

    Raises:
        LocationNotAllowed: an external root is not allowed.
        Unsupported: lakekit does not follow the strategy of external paths.
    """
    name = file_names.next_name(spec.extension, prefix=spec.name_prefix or None)
    directory = partition_path(ctx, partition)
    roots = checked_external_roots(ctx)
    if not roots:
        return name, ctx.paths.data_file(directory, bucket, name), None
    root = roots[file_names.next_turn(len(roots))]
    external = f"{replace(ctx.paths, root=root.rstrip('/')).bucket_dir(directory, bucket, directory='')}/{name}"
    return name, ctx.paths.data_file(directory, bucket, name, external), external


def checked_external_roots(ctx: TableContext) -> tuple[str, ...]:
    """Return the external roots of `external_roots`, after a check that all of them are allowed.

    Raises:
        LocationNotAllowed: one is not allowed.
        Unsupported: as `external_roots`.
    """
    roots = external_roots(ctx.options)
    for root in roots:  # all of them: a run that meets one later would leave its first files
        ctx.check_location(root, EXTERNAL_PATHS)
    return roots


def external_roots(options: TableOptions) -> tuple[str, ...]:
    """Return the external roots among which new files are distributed; none if files are written to the table.

    Raises `Unsupported`.
    """
    strategy = options.data_file_external_paths_strategy
    if not options.data_file_external_paths or strategy == "none":
        return ()
    if strategy not in ("round-robin", "specific-fs"):
        key = "data-file.external-paths.strategy"
        msg = f"{key}={strategy} is not followed by lakekit; set round-robin, specific-fs or none"
        raise Unsupported(msg, feature=key)
    roots = options.data_file_external_paths
    if strategy == "specific-fs":
        scheme = (options.data_file_external_paths_specific_fs or "").lower()
        roots = tuple(root for root in roots if _url_scheme(root) == scheme)
    return tuple(roots)


def _url_scheme(root: str) -> str:
    scheme, colon, _ = root.partition(":")
    return scheme.lower() if colon else "file"


# ---- rolling writer ------------------------------------------------------------


MIN_CHECKED_ROWS = 1000
"""The least number of rows between two checks of a file's size, as in the reference."""
_SIZE_MARGIN = 1.02
"""Factor on the bytes that a file still lacks, so that a file seldom ends just below the target size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The place and the properties of the files of a run.

    `partition` is a serialized row. `source` is `APPEND_SOURCE` or `COMPACT_SOURCE`. `file_names` gives out file names,
    and is shared by all files of one writer in the bucket. `is_keyed` files hold keys, sequence numbers and row kinds;
    in other files the rows are numbered in ascending order from `first_sequence_number`.
    """

    ctx: TableContext
    partition: bytes
    bucket: int
    level: int
    source: int
    file_names: FileNames
    is_keyed: bool
    kind: Literal["data", "changelog"] = "data"
    first_sequence_number: int = 0


def write_run(target: WriteTarget, frames: Iterable[pl.DataFrame]) -> list[DataFileMeta]:
    """Write one sorted run, or rows to append, and return its files in order; an empty list if there are no rows.

    Raises `Unsupported`, `ValueOutOfRange`, `InvalidOption`, `StorageFailed`; the files of the run are deleted then.
    """
    shape = file_spec(target.ctx, bucket=target.bucket, level=target.level, is_keyed=target.is_keyed, kind=target.kind)
    run = _SortedRunWriter(target, shape)
    try:
        for frame in frames:
            run.write(frame)
        run.roll()
    except BaseException as why:
        failed = run.abort(why)
        if failed is not why:
            raise failed from why
        raise
    return run.files


class _SortedRunWriter:
    """The files of one run: the finished files and the open file."""

    def __init__(self, target: WriteTarget, spec: FileSpec) -> None:
        self.target, self.spec = target, spec
        self.files: list[DataFileMeta] = []
        self.paths: list[str] = []
        self.next_sequence = target.first_sequence_number
        self.open: _OpenDataFile | None = None

    def write(self, frame: pl.DataFrame) -> None:
        while frame.height:
            if self.open is not None and not self.open.can_add(frame):
                self.roll()
            if self.open is None:
                self.open = _OpenDataFile(self.target, self.spec, self.next_sequence)
                self.paths += self.open.paths
            rows = self.open.rows_until_check(frame)
            self.open.write(frame if rows == frame.height else frame.head(rows))
            frame = frame.slice(rows)
            if self.open.is_full():
                self.roll()

    def roll(self) -> None:
        if self.open is not None:
            meta, self.open = self.open.close(), None
            self.files.append(meta)
            self.next_sequence = meta.max_sequence_number + 1

    def abort(self, error: BaseException) -> BaseException:
        """Delete the files of the run, and return the error to raise: `error`, or the storage error that caused it."""
        failed = error if self.open is None else self.open.abandon(error)
        with suppress(StorageFailed):
            self.target.ctx.storage.delete(self.paths)
        return failed


class _OpenDataFile:
    """One data file that is being written."""

    def __init__(self, target: WriteTarget, spec: FileSpec, first_sequence: int) -> None:
        self.target, self.spec, self.first_sequence = target, spec, first_sequence
        self.name, self.path, self.external_path = allocate_path(
            target.ctx, target.file_names, spec, target.partition, target.bucket
        )
        self.index_path = target.ctx.paths.extra_file(self.path, f"{self.name}.index")
        self.paths = [self.path, self.index_path] if spec.index_definitions else [self.path]
        self.rows = self.raw_bytes = self.deletes = 0
        self.sequences: tuple[int, int] | None = None
        self.first_row: pl.DataFrame | None = None
        self.last_row: pl.DataFrame | None = None
        self.indexing = IndexBuilder(spec.index_definitions)
        self.exit_stack = ExitStack()
        self.sink = self.exit_stack.enter_context(target.ctx.storage.open_write(self.path))
        try:
            self.encoder = open_writer(self.sink, spec.format_name, spec.physical_fields, spec.encoding)
        except BaseException as why:
            failed = self.abandon(why)
            if failed is not why:
                raise failed from why
            raise
        self.narrow = _lossy_decimals(target.ctx.schema.fields, spec.format_name)
        self.stats_collector = StatsCollector(spec.bounds_fields, self.encoder.column_stats)

    def can_add(self, frame: pl.DataFrame) -> bool:
        """Return whether these rows may be added to this file."""
        return self.encoder.can_add(frame)

    def rows_until_check(self, frame: pl.DataFrame) -> int:
        """Return how many of these rows to write before the size is checked again."""
        left = self.spec.rolling_bytes - self.encoder.size_bytes
        ratio = self.encoder.size_bytes / self.raw_bytes if self.raw_bytes else 1.0
        rows = left * _SIZE_MARGIN / max(ratio, 0.001) / max(1.0, frame.estimated_size() / frame.height)
        return min(frame.height, max(MIN_CHECKED_ROWS, int(rows)), self.spec.rolling_rows - self.rows)

    def is_full(self) -> bool:
        """Return whether the next row belongs into another file.

        If the estimated size reaches the limit, buffered rows are flushed, and the actual size decides.
        """
        if self.rows >= self.spec.rolling_rows:
            return True
        if self.encoder.size_bytes < self.spec.rolling_bytes:
            return False
        self.encoder.flush()
        return self.encoder.size_bytes >= self.spec.rolling_bytes

    def write(self, frame: pl.DataFrame) -> None:
        frame = text_casts.null_overflows(frame, self.narrow) if self.narrow else frame
        if self.target.is_keyed:
            kinds, numbers = frame.get_column(KIND), frame.get_column(SEQUENCE)
            self.deletes += int((kinds.to_numpy() & 1).sum()) if kinds.max() else 0  # -U and -D are the odd ones
            self._widen_sequence_range(_as_int(numbers.min()), _as_int(numbers.max()))
            self.first_row = frame.head(1) if self.first_row is None else self.first_row
            self.last_row = frame.tail(1)
        else:
            self._widen_sequence_range(
                self.first_sequence + self.rows, self.first_sequence + self.rows + frame.height - 1
            )
        self.stats_collector.add_frame(frame)
        self.indexing.add_frame(frame)
        self.rows += frame.height
        self.raw_bytes += int(frame.estimated_size())
        columns = [
            frame.get_column(name) if name == stored else frame.get_column(name).alias(stored)
            for name, stored in self.spec.column_names
        ]
        self.encoder.write(columns[0].to_frame().hstack(columns[1:]))

    def _widen_sequence_range(self, low: int, high: int) -> None:
        before = self.sequences
        self.sequences = (low, high) if before is None else (min(low, before[0]), max(high, before[1]))

    def close(self) -> DataFileMeta:
        """Finish the file and return its metadata. If that fails, the file can still be abandoned."""
        ctx, shape = self.target.ctx, self.spec
        self.encoder.close()
        size = self.encoder.size_bytes
        self.exit_stack.close()
        embedded, extra = self.indexing.store(ctx, self.index_path)
        assert self.sequences is not None
        keyed = self.target.is_keyed
        key_stats = self.stats_collector.to_stats(shape.key_fields, shape.key_modes) if keyed else NO_STATS
        min_key, max_key = self._key_bounds(key_stats) if keyed else (EMPTY_ROW, EMPTY_ROW)
        return DataFileMeta(
            name=self.name,
            size_bytes=size,
            row_count=self.rows,
            min_key=min_key,
            max_key=max_key,
            key_stats=key_stats,
            value_stats=self.stats_collector.to_stats(shape.value_fields, shape.value_modes),
            value_stats_cols=shape.value_stats_cols,
            min_sequence_number=self.sequences[0],
            max_sequence_number=self.sequences[1],
            schema_id=ctx.schema.id,
            level=self.target.level,
            extra_files=extra,
            creation_time_ms=wall_clock_ms(ctx.runtime.now_ms()),
            delete_row_count=self.deletes,
            embedded_index=embedded,
            source=self.target.source if self.target.kind == "data" else APPEND_SOURCE,
            external_path=self.external_path,
        )

    def _key_bounds(self, key_stats: Stats) -> tuple[bytes, bytes]:
        """Return the keys of the first and the last row.

        For rows that are sorted by one column, the statistics of this column are used if they are not truncated.
        """
        if (
            len(self.spec.key_fields) == 1
            and self.target.bucket != POSTPONE_BUCKET
            and self.stats_collector.has_exact_bounds(self.spec.key_fields[0], self.spec.key_modes[0])
        ):
            return key_stats.min_values, key_stats.max_values
        return _encode_key_bounds(self.first_row, self.last_row, self.spec.key_fields)

    def abandon(self, error: BaseException) -> BaseException:
        """Discard the file, which then never appears, and return the error to raise.

        The error is the storage error if a disk failed below the encoder, else `error`.
        """
        try:
            self.exit_stack.__exit__(type(error), error, error.__traceback__)
        except StorageFailed as failed:
            return failed if isinstance(error, OSError) else error
        except type(error):
            pass
        return error


def _lossy_decimals(fields: Sequence[Field], format_name: str) -> tuple[Field, ...]:
    """Return the DECIMAL columns in which a file format cannot store values that outgrow the type.

    Aggregation may produce such values. Parquet files can store them.
    """
    return tuple(f for f in fields if f.type.root == "DECIMAL" and f.nullable) if format_name in ("orc", "avro") else ()


def _as_int(number: object) -> int:
    assert isinstance(number, int)
    return number


def _encode_key_bounds(
    first_row: pl.DataFrame | None, last_row: pl.DataFrame | None, fields: tuple[Field, ...]
) -> tuple[bytes, bytes]:
    """Return the keys of two rows as serialized rows, encoded in one call, as most of the cost is per call."""
    assert first_row is not None
    assert last_row is not None
    columns = [first_row.get_column(field.name).append(last_row.get_column(field.name)) for field in fields]
    arrays = [column.to_arrow(compat_level=pl.CompatLevel.oldest()) for column in columns]
    low, high = binary_row.encode_columns(arrays, [field.type for field in fields]).to_pylist()  # scalar: two rows
    return binary_row.with_arity(low, len(fields)), binary_row.with_arity(high, len(fields))
