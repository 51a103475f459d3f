"""Read data files as one LazyFrame of the table's own columns.

    scan_files(ctx, files, paths, fields, system=("_SEQUENCE_NUMBER", "_VALUE_KIND"), deleted_rows={…})

Adjacent files of one format whose schemas need the same physical columns share one native scan; each scan's columns are
renamed, cast and filled to today's schema (`schema_evolution`); the scans follow each other in the order of the files.
Rows are left out by position: the scan counts rows over all its files, and one set of positions is dropped. Filters and
projections on the frame reach the scans.

Before anything runs, every file is verified once (`verification`): it exists, has the size its manifest says, ends as
its format does, and what the footer and the page headers of a Parquet file say is within bounds. So most damage is
reported by path before the first row, and none makes Polars end the process. Remote files are not verified beforehand:
an error is raised while they are read. Damage deeper inside a Parquet file is raised by Polars while it reads
(`translate_polars_errors` translates these errors in a `collect`).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.columns import FILE, KIND, LEVEL, PATH, ROW, SEQUENCE, col, cols, is_of_machine, pass_interrupt
from lakekit.data_file import deletion_vector_reader, schema_evolution
from lakekit.data_file.schema_evolution import SchemaEvolution, build_evolution
from lakekit.data_file.verification import (
    FILES_PER_TASK,
    make_file_missing,
    make_size_mismatch,
    read_whole_file,
    verify_files,
)
from lakekit.errors import Corrupt, LakekitError, StorageFailed, Unsupported, ValueOutOfRange
from lakekit.format import avro, external_reader, orc, parquet, parquet_footer
from lakekit.format.polars_types import polars_schema
from lakekit.metadata import schemas
from lakekit.parallel import parallel_map
from lakekit.storage import polars_paths, with_path_cache
from lakekit.storage.protocol import FileMissing
from lakekit.types import Field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from pyroaring import BitMap

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.table_schema import TableSchema

SYSTEM_FIELDS = {
    SEQUENCE: Field(SEQUENCE, "BIGINT NOT NULL", id=2147483646),
    KIND: Field(KIND, "TINYINT NOT NULL", id=2147483645),
    LEVEL: Field(LEVEL, "INT NOT NULL", id=2147483644),
    FILE: Field(FILE, "STRING NOT NULL"),
}

_MAX_ROWS = 2**32 - 2
"""The most rows that one scan counts; Polars' row numbers have 32 bits."""
_WRITER_VERSION = "parquet.writer.version"
_TAIL_BYTES = 1 << 16
_AROUND_BYTES = 12
"""The least bytes of a Parquet file around its footer: the magic at both ends, and the footer's length."""
_CACHE_ENTRY_BYTES = 200
"""Approximate memory of one cached result, in bytes."""
_SCHEMA_BYTES = 256
"""Bytes of a Parquet footer that suffice for the name and type of nearly every column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """The input of one scan."""

    ctx: TableContext
    fields: tuple[Field, ...]
    system: tuple[str, ...]
    row_index: str | None
    deleted_rows: Mapping[str, NDArray[np.unsignedinteger]]
    selected_rows: Mapping[str, BitMap | NDArray[np.unsignedinteger]]

    @property
    def has_row_kinds(self) -> bool:
        """Whether files hold sequence number and kind."""
        return bool(self.ctx.schema.primary_keys)

    def is_positional(self, file: DataFileMeta) -> bool:
        """Return whether rows of that file are selected or numbered by their position."""
        return self.row_index is not None or file.name in self.deleted_rows or file.name in self.selected_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaGroup:
    """Files that one scan reads.

    `rows_before` is the number of rows before them, `partition_constants` are partition columns that they may lack.
    """

    format_name: str
    evolution: SchemaEvolution
    is_native: bool
    rows_before: int
    partition_constants: tuple[Field, ...] = ()
    files: tuple[DataFileMeta, ...]
    paths: tuple[str, ...]

    @property
    def row_count(self) -> int:
        """How many rows the manifest says they hold."""
        return sum(file.row_count for file in self.files)


def scan_files(
    ctx: TableContext,
    files: Sequence[DataFileMeta],
    paths: Sequence[str],
    fields: Sequence[Field],
    *,
    system: Sequence[str] = (),
    deleted_rows: Mapping[str, NDArray[np.unsignedinteger]] | None = None,
    selected_rows: Mapping[str, BitMap | NDArray[np.unsignedinteger]] | None = None,
    row_index: str | None = None,
    filters: Sequence[pl.Expr] = (),
    snapshot_id: int | None = None,
) -> pl.LazyFrame:
    """Return the rows of `files`, at `paths`, in that order, with the columns `fields`, then `system`.

    `fields` are of today's schema. `system`: any of "_SEQUENCE_NUMBER", "_VALUE_KIND" (files of append tables hold
    none: all +I, numbered from the file's smallest), `columns.LEVEL`, `columns.FILE` (its name). `deleted_rows`:
    positions of deleted rows, ascending, by file name; `selected_rows`: positions that may match, the others are left
    out. `row_index` names a first column that counts all rows of the files, deleted ones included. `filters` are
    applied to the result. `snapshot_id` is for errors.

    Raises `FileMissing`, `Corrupt` (sizes, footers, row counts), `Unsupported` (a format, a forbidden type change)
    before anything runs; running the frame may raise `ValueOutOfRange`, `Corrupt`, and `Unsupported` for a VARIANT
    column that a file stores split into several columns, with the file's path. Options `scan.ignore-lost-files` and
    `scan.ignore-corrupt-files` leave such files out.
    """
    request = ScanRequest(
        ctx=ctx,
        fields=tuple(fields),
        system=tuple(system),
        row_index=row_index,
        deleted_rows={name: rows for name, rows in (deleted_rows or {}).items() if len(rows)},
        selected_rows=selected_rows or {},
    )
    by_schema = {
        schema_id: _schema_evolution(request, schemas.schema_of_file(ctx, schema_id))
        for schema_id in dict.fromkeys(file.schema_id for file in files)
    }
    columns = {
        schema_id: {field.name: field.type for field in evolved.file_fields} for schema_id, evolved in by_schema.items()
    }
    verified = verify_files(ctx, files, paths, snapshot_id, columns=columns)
    groups = list(_group_files(request, [files[i] for i in verified], [paths[i] for i in verified], by_schema))
    frames = [_scan_group(request, group, has_other_groups=len(groups) > 1) for group in groups]
    if not frames:
        schema = polars_schema(
            (*fields, *(SYSTEM_FIELDS[name] for name in system)), timestamp_unit=_timestamp_unit(ctx)
        )
        index = {} if row_index is None else {row_index: pl.get_index_type()}
        frames = [pl.LazyFrame(schema={**index, **schema})]
    frame = frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical")
    for condition in filters:
        frame = frame.filter(condition)
    return frame


def _timestamp_unit(ctx: TableContext) -> str | None:
    return ctx.options.lakekit_timestamp_unit


# ---- groups ----------------------------------------------------------------------------------------------------------


def _group_files(
    request: ScanRequest, files: Sequence[DataFileMeta], paths: Sequence[str], by_schema: Mapping[int, SchemaEvolution]
) -> Iterator[SchemaGroup]:
    """Yield runs of adjacent files that one scan can read, in the order of the files."""
    second = {number for number in by_schema if _is_second_version(request, number)}
    first = start = rows = 0
    key: tuple[object, ...] = ()
    lacking = schema_evolution.select_possibly_missing(request.ctx, request.fields)
    doubts = schema_evolution.may_lack_columns(request.ctx, files, paths, lacking) if lacking else [False] * len(files)
    shredded = _find_shredded_files(request.ctx, files, paths, by_schema)
    opens_natively = bool(paths) and request.ctx.storage.polars_path(paths[0]) is not None
    for i, (file, path) in enumerate(zip(files, paths, strict=True)):
        # a file that is read into memory checks the requested columns when it is reached, and no others
        native = file.format_name == "parquet" and opens_natively and i not in shredded
        # only writers of the format's second version make pages that Polars cannot decode
        if native and file.schema_id in second:
            native = not parquet.undecodable_columns(footer_source(request.ctx, file, path), path)
        folder = path.rpartition("/")[0] if doubts[i] and not native else ""
        file_key = (
            file.format_name,
            by_schema[file.schema_id].signature,
            native,
            doubts[i],
            folder,
            *_scan_group_key(request, file, is_native=native),
        )
        if i and (file_key != key or rows + file.row_count > _MAX_ROWS):
            yield _make_group(
                files[first:i],
                paths[first:i],
                by_schema,
                is_native=bool(key[2]),
                rows_before=start,
                partition_constants=lacking if key[3] else (),
            )
            first, start, rows = i, start + rows, 0
        key = file_key
        rows += file.row_count
    if len(files):
        yield _make_group(
            files[first:],
            paths[first:],
            by_schema,
            is_native=bool(key[2]),
            rows_before=start,
            partition_constants=lacking if key[3] else (),
        )


def _is_second_version(request: ScanRequest, schema_id: int) -> bool:
    """Return whether files of a schema may be of version 2 of the Parquet format."""
    written = schemas.schema_of_file(request.ctx, schema_id)
    return any("2" in options.get(_WRITER_VERSION, "") for options in (written.options, request.ctx.all_options))


def _make_group(
    files: Sequence[DataFileMeta], paths: Sequence[str], by_schema: Mapping[int, SchemaEvolution], **facts: Any
) -> SchemaGroup:
    first_file = files[0]
    return SchemaGroup(
        format_name=first_file.format_name,
        evolution=by_schema[first_file.schema_id],
        files=tuple(files),
        paths=tuple(paths),
        **facts,
    )


def _scan_group_key(request: ScanRequest, file: DataFileMeta, *, is_native: bool) -> Iterator[object]:
    """Yield what files of one scan have in common besides format and columns."""
    if LEVEL in request.system:
        yield file.level
    if (FILE in request.system and not is_native) or (SEQUENCE in request.system and not request.has_row_kinds):
        yield file.name


def _schema_evolution(request: ScanRequest, schema: TableSchema) -> SchemaEvolution:
    ctx = request.ctx
    physical = tuple(
        SYSTEM_FIELDS[name] for name in request.system if name in (SEQUENCE, KIND) and request.has_row_kinds
    )
    zone = ctx.options.lakekit_java_time_zone
    return build_evolution(
        (*request.fields, *physical), (*schema.fields, *physical), timestamp_unit=_timestamp_unit(ctx), zone=zone
    )


# ---- one scan --------------------------------------------------------------------------------------------------------


def _scan_group(request: ScanRequest, group: SchemaGroup, *, has_other_groups: bool) -> pl.LazyFrame:
    positional = any(request.is_positional(file) for file in group.files)
    numbered = SEQUENCE in request.system and not request.has_row_kinds
    if group.is_native and positional and (has_other_groups or len(group.files) > 1):
        _check_counts(request, group)
    row = request.row_index or ROW
    start = group.rows_before if request.row_index is not None else 0
    frame = _scan_physical(request, group, (row, start) if positional or numbered else None)
    if positional:
        frame = deletion_vector_reader.filter_positions(
            frame, (row, start), group.files, request.deleted_rows, request.selected_rows, group.paths
        )
    evolved = group.evolution
    plain = (
        evolved.is_plain
        and not group.partition_constants
        and (request.has_row_kinds or not request.system)
        and not {LEVEL, FILE} & set(request.system)
        and (request.row_index is not None or not positional)
    )
    if plain:
        return frame
    index = [col(row)] if request.row_index is not None else []
    values = (
        evolved.columns
        if evolved.columns_with_errors is None
        else evolved.columns_with_errors(partial(_locate_bad_value, request, group))
    )
    columns = [
        *index,
        *_fill_partition_columns(request, group, values[: len(request.fields)]),
        *(_system_column(request, group, name, row, start) for name in request.system),
    ]
    if evolved.file_fields:
        return frame.select(columns)
    # nothing of the files is wanted but how many rows they have: a selection of literals alone has one
    return frame.with_columns(columns).select(col(column.meta.output_name()) for column in columns)


def _fill_partition_columns(request: ScanRequest, group: SchemaGroup, values: Sequence[pl.Expr]) -> Sequence[pl.Expr]:
    """Return the columns, with partition columns that files may lack filled from the directory names."""
    if not group.partition_constants:
        return values
    sources = dict(zip(polars_paths(request.ctx.storage, group.paths), group.paths, strict=True))
    named = PATH if group.is_native else None
    return [
        schema_evolution.fill_from_path(request.ctx, field, value, sources, named).alias(field.name)
        if field in group.partition_constants
        else value
        for field, value in zip(request.fields, values, strict=True)
    ]


def _scan_physical(request: ScanRequest, group: SchemaGroup, row_index: tuple[str, int] | None) -> pl.LazyFrame:
    """Scan the physical columns of a group's files."""
    ctx, fields = request.ctx, group.evolution.file_fields
    if group.is_native:
        sources = polars_paths(ctx.storage, group.paths)
        named = PATH if FILE in request.system or group.partition_constants else None
        opening = ctx.storage.polars_scan_options()
        return parquet.scan(
            sources,
            fields,
            paths=group.paths,
            timestamp_unit=_timestamp_unit(ctx),
            row_index=row_index,
            file_column=named,
            opening=opening,
        )
    counts = dict(zip(group.paths, (file.row_count for file in group.files), strict=True))
    sizes = dict(zip(group.paths, (file.size_bytes for file in group.files), strict=True))

    def read(path: str) -> bytes:
        return read_whole_file(ctx, path, sizes[path])

    match group.format_name:
        case "parquet":
            frame = parquet.scan_bytes(
                group.paths, fields, read=read, counts=counts, timestamp_unit=_timestamp_unit(ctx)
            )
        case "orc":
            zone = ctx.options.lakekit_java_time_zone
            frame = orc.scan(
                group.paths,
                fields,
                read=_bytes_or_path(ctx, read),
                counts=counts,
                timestamp_unit=_timestamp_unit(ctx),
                ltz_zone=zone,
            )
        case "avro":
            frame = avro.scan(group.paths, fields, read=read, counts=counts, timestamp_unit=_timestamp_unit(ctx))
        case other:
            path = group.paths[0]
            msg = f"{path}: data files of format {other!r} are not supported by lakekit"
            raise Unsupported(f"{msg}; it reads parquet, orc and avro", feature=f"file.format.{other}", path=path)
    return frame if row_index is None else frame.with_row_index(row_index[0], row_index[1])


def _bytes_or_path(ctx: TableContext, read_bytes: Callable[[str], bytes] | None = None) -> Callable[[str], str | bytes]:
    """Return a function that gives Arrow a local file by its path, and a remote file as its bytes."""
    storage = ctx.storage

    def read(path: str) -> str | bytes:
        native = None if storage.is_remote else storage.polars_path(path)
        return (read_bytes or storage.read)(path) if native is None else native

    return read


def _check_counts(request: ScanRequest, group: SchemaGroup) -> None:
    """Check that Parquet files have as many rows as the manifest says, where rows are located by position."""
    remote = request.ctx.storage.is_remote
    step = 1 if remote else FILES_PER_TASK
    ctx = replace(request.ctx, storage=with_path_cache(request.ctx.storage))

    def look(start: int) -> None:
        for file, path in zip(group.files[start : start + step], group.paths[start : start + step], strict=True):
            external_reader.check_count(path, _row_count(ctx, file, path), file.row_count)

    parallel_map(look, range(0, len(group.files), step), waiting=remote)


def _find_shredded_files(
    ctx: TableContext, files: Sequence[DataFileMeta], paths: Sequence[str], by_schema: Mapping[int, SchemaEvolution]
) -> set[int]:
    """Return the indexes of files that store a requested column as several columns of their own.

    Only a footer shows this. It is read if a VARIANT column is requested, and the answer is cached.
    """
    candidates = [
        i
        for i, file in enumerate(files)
        if by_schema[file.schema_id].variants and file.format_name == "parquet" and ctx.storage.polars_path(paths[i])
    ]
    step = 1 if ctx.storage.is_remote else FILES_PER_TASK

    def look(first: int) -> list[int]:
        return [
            i
            for i in candidates[first : first + step]
            if _is_shredded(ctx, files[i], paths[i], by_schema[files[i].schema_id].variants)
        ]

    return {
        i
        for indexes in parallel_map(look, range(0, len(candidates), step), waiting=ctx.storage.is_remote)
        for i in indexes
    }


def _is_shredded(ctx: TableContext, file: DataFileMeta, path: str, fields: Sequence[Field]) -> bool:
    key = ("shredded", ctx.storage, path, tuple(field.name for field in fields))
    shredded: bool | None = ctx.runtime.metadata_cache.get(key)
    if shredded is None:
        shredded = bool(parquet.find_shredded(footer_source(ctx, file, path), fields, path))
        ctx.runtime.metadata_cache.put({key: shredded}, _CACHE_ENTRY_BYTES)
    return shredded


def footer_source(ctx: TableContext, file: DataFileMeta, path: str) -> str | bytes:
    """Return the source of a Parquet file's footer for Arrow: a local file's path, or a remote file's last bytes.

    These are one request for nearly every file.
    """
    storage = ctx.storage
    if not storage.is_remote:
        return storage.polars_path(path) or storage.read(path)
    first = max(0, file.size_bytes - _TAIL_BYTES)
    tail = storage.read(path, first)
    if first + len(tail) != file.size_bytes:
        raise make_size_mismatch(path, first + len(tail), file.size_bytes)
    missing = int.from_bytes(tail[-8:-4], "little") + _AROUND_BYTES - len(tail)
    return tail if missing <= 0 else storage.read(path, max(0, first - missing), missing) + tail


def _row_count(ctx: TableContext, file: DataFileMeta, path: str) -> int:
    """Return the row count in a Parquet file's footer; that of a local file is cached by its content's tag."""
    if ctx.storage.is_remote:
        tail = footer_source(ctx, file, path)
        return parquet.read_row_count(tail, path)
    stat = ctx.storage.stat(path)
    key = None if stat is None or stat.tag is None else ("row count", path, stat.tag)
    count: int | None = None if key is None else ctx.runtime.metadata_cache.get(key)
    if count is None:
        count = _read_local_row_count(ctx, file, path)
        if key is not None:
            ctx.runtime.metadata_cache.put({key: count}, _CACHE_ENTRY_BYTES)
    return count


def _read_local_row_count(ctx: TableContext, file: DataFileMeta, path: str) -> int:
    read, end = ctx.storage.read, file.size_bytes - 8
    length = int.from_bytes(read(path, end, 4), "little")
    beginning = min(length, _SCHEMA_BYTES * (2 + len(ctx.schema.fields)))
    try:
        return parquet_footer.read_row_count(read(path, end - length, beginning))
    except Corrupt:
        pass  # longer names than expected, or damage
    try:
        return parquet_footer.read_row_count(read(path, end - length, length))
    except Corrupt as damaged:
        raise damaged.at(path) from None


def _system_column(request: ScanRequest, group: SchemaGroup, name: str, row: str, start: int) -> pl.Expr:
    if name == LEVEL:
        return pl.lit(group.files[0].level, pl.Int32).alias(name)
    if name == FILE:
        return _file_name(request, group).alias(name)
    if name == SEQUENCE and not request.has_row_kinds:
        first = group.files[0].min_sequence_number - start
        return (col(row).cast(pl.Int64) + first).alias(name)
    if name == KIND and not request.has_row_kinds:
        return pl.lit(0, pl.Int8).alias(name)
    return col(name)


def _file_name(request: ScanRequest, group: SchemaGroup) -> pl.Expr:
    """Return the name of the file that each row of a scan lies in."""
    if not group.is_native:
        return pl.lit(group.files[0].name, pl.String)
    sources = polars_paths(request.ctx.storage, group.paths)
    names = [file.name for file in group.files]
    if all(source.rpartition("/")[2] == own for source, own in zip(sources, names, strict=True)):
        return pl.col(PATH).str.split("/").list.last()
    return pl.col(PATH).replace_strict(sources, names, return_dtype=pl.String)


# ---- errors while a frame runs ---------------------------------------------------------------------------------------


def _locate_bad_value(request: ScanRequest, group: SchemaGroup, error: ValueOutOfRange) -> ValueOutOfRange:
    """Return the error of a cast with the path of a file that has the bad value.

    If there are several files, the column is read again from each, and the file that raises the same error is named. If
    none does, because a filter of the query left out the first bad value of its file, the first file with any error is
    named, with its value.
    """
    if len(group.files) == 1:
        return ValueOutOfRange(f"{group.paths[0]}: {error.message}", column=error.column, path=group.paths[0])
    names = [field.name for field in request.fields if field.name == error.column] or [
        field.name for field in request.fields
    ]
    file_errors = []
    for file, path in zip(group.files, group.paths, strict=True):
        one_file = replace(group, files=(file,), paths=(path,))
        alone = _scan_group(replace(request, system=(), row_index=None), one_file, has_other_groups=False)
        try:
            alone.select(cols(names)).collect()
        except ValueOutOfRange as file_error:
            if file_error.message.endswith(error.message):
                return file_error
            file_errors.append(file_error)
    return file_errors[0] if file_errors else error


@contextmanager
def translate_polars_errors(ctx: TableContext, paths: Sequence[str]) -> Iterator[None]:
    """Translate what Polars raises over broken files, in a `collect` inside this context.

    It becomes `FileMissing` or `Corrupt` with the path of the damaged file.
    """
    try:
        yield
    except LakekitError:
        raise
    except external_reader.FOREIGN_FAILURES as error:
        raise_file_damage(ctx, paths, error)
        raise


def raise_file_damage(ctx: TableContext, paths: Sequence[str], error: BaseException) -> None:
    """Raise the error that names the file for which Polars raised `error` while it read `paths`.

    Returns if none of them is damaged.
    """
    pass_interrupt(error)
    if ctx.storage.is_remote and isinstance(error, OSError):
        raise _diagnose_storage(ctx, paths, error) from None
    for path in paths:
        if isinstance(error, OSError) and not ctx.storage.exists(path):
            raise make_file_missing(ctx, path, None, None) from error
        source = ctx.storage.polars_path(path)
        if source is not None and source in str(error):
            raise external_reader.to_corrupt(path, error, "data") from error
    if paths and is_of_machine(error):
        msg = f"{paths[0]}, or one of {len(paths)} files read with it, could not be read"
        raise StorageFailed(f"{msg}: {external_reader.describe_machine_error(error)}", path=paths[0]) from error
    for path in paths if external_reader.may_be_file_damage(error) else ():
        _check_single_file(ctx, path, error)


def _diagnose_storage(ctx: TableContext, paths: Sequence[str], error: OSError) -> LakekitError:
    """Return the error for an error of Polars about an object store.

    The files are read through the storage again, whose error names the right file and holds no secrets.
    """
    try:
        parallel_map(lambda path: ctx.storage.read(path, 0, 1), paths, waiting=True)
    except FileMissing as missing:
        return make_file_missing(ctx, str(missing.path), None, None)
    except StorageFailed as failed:
        return failed
    msg = f"{paths[0]}, or one of {len(paths)} files read with it, could not be read"
    return StorageFailed(f"{msg}; now all of them can: {str(error)[:200]}", path=paths[0])


def _check_single_file(ctx: TableContext, path: str, error: BaseException) -> None:
    """Raise an error if that Parquet file alone cannot be read either."""
    if not path.endswith(".parquet"):
        return
    mismatch = external_reader.parse_type_mismatch(error)
    try:
        source = ctx.storage.polars_path(path)
        opening = {} if source is None else ctx.storage.polars_scan_options()
        alone = pl.scan_parquet(source or ctx.storage.read(path), glob=False, **opening)
        if mismatch is None:
            alone.collect(engine="streaming")
            return
        file_dtype = alone.collect_schema().get(mismatch[0])
    except external_reader.FOREIGN_FAILURES as file_error:
        raise external_reader.to_corrupt(path, file_error, "parquet") from error
    if str(file_dtype) == mismatch[1]:
        raise Corrupt(
            f"{path}: column {mismatch[0]} is read as {mismatch[2]}, the file holds {mismatch[1]}",
            path=path,
            field=mismatch[0],
        ) from error
