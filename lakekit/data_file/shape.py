"""The specification of new data files: columns, format, location and collected statistics.

Options by level and for changelog files are resolved here. Source: FORMAT.md 1.2, 1.3, 7.1, 7.7;
`KeyValueFileWriterFactory`, `StatsCollectorFactories`, `FileStorePathFactory`, `ExternalPathProvider`,
`PostponeBucketFileStoreWrite`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from lakekit.data_file import file_metadata
from lakekit.data_file.file_names import extension
from lakekit.data_file.indexing import IndexDefinition, indexes_of
from lakekit.data_file.paths import partition_path
from lakekit.errors import Unsupported
from lakekit.format.encoder import Encoding, check_types
from lakekit.format.told import has_bounds
from lakekit.model.locations import EXTERNAL_PATHS
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.model.table_schema import SYSTEM_FIELD_ID_START
from lakekit.types import BINARIES, Field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.data_file.file_names import FileNames
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.table_schema import TableSchema
    from lakekit.options.table_options import TableOptions

KEY_PREFIX = "_KEY_"
SYSTEM = (
    Field("_SEQUENCE_NUMBER", "BIGINT NOT NULL", id=2147483646),
    Field("_VALUE_KIND", "TINYINT NOT NULL", id=2147483645),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSpec:
    """How files of one level are written.

    `physical` are a file's columns, `layout` pairs the name of each in a frame with its name in the file. `collected`
    are the columns whose bounds are collected; `key` and `valued` those that key and value statistics list, with a mode
    each; `value_stats_cols` is what the manifest says of the latter.
    """

    format_name: str
    encoding: Encoding
    extension: str
    prefix: str
    physical: tuple[Field, ...]
    layout: tuple[tuple[str, str], ...]
    collected: tuple[Field, ...]
    key: tuple[Field, ...]
    key_modes: tuple[str, ...]
    valued: tuple[Field, ...]
    value_modes: tuple[str, ...]
    value_stats_cols: tuple[str, ...] | None
    indexes: tuple[IndexDefinition, ...]
    rolling_bytes: int
    rolling_rows: int


def shape_of(ctx: TableContext, *, bucket: int, level: int, keyed: bool, kind: str) -> FileSpec:
    """Return the specification of new files. Raises `InvalidOption`, `Unsupported`."""
    return _shape(ctx.schema, ctx.options, bucket == POSTPONE_BUCKET, (level, keyed, kind == "changelog"))


@lru_cache(maxsize=256)
def _shape(schema: TableSchema, options: TableOptions, postponed: bool, role: tuple[int, bool, bool]) -> FileSpec:
    level, keyed, changelog = role
    format_name, compression, mode = _choices(options, level if keyed else None, changelog=changelog)
    if postponed:
        format_name, mode = _postponed_format(schema, format_name), file_metadata.NONE
    key = schema.key_fields if keyed else ()
    stored_key = tuple(Field(KEY_PREFIX + f.name, f.type, id=f.id + SYSTEM_FIELD_ID_START) for f in key)
    thin = keyed and options.data_file_thin_mode
    system = SYSTEM if keyed else ()
    physical = (*(() if thin else stored_key), *system, *schema.fields)
    modes = _modes(
        options,
        [f.name for f in physical],
        mode,
        avro=format_name == "avro",
        thin_key=schema.trimmed_primary_keys if thin else (),
    )
    value_modes = tuple(_limit_stats_mode(f, modes[f.name], format_name) for f in schema.fields)
    dense = options.metadata_stats_dense_store
    valued = [(f, m) for f, m in zip(schema.fields, value_modes, strict=True) if not dense or m != file_metadata.NONE]
    key_modes = tuple(modes[f.name if thin else KEY_PREFIX + f.name] for f in key)
    stats_columns = {f.name for f, m in (*valued, *zip(key, key_modes, strict=True)) if m != file_metadata.NONE}
    return FileSpec(
        format_name=format_name,
        encoding=encoding(options, compression),
        extension=extension(options, format_name, compression),
        prefix=options.changelog_file_prefix if changelog else "",
        physical=physical,
        layout=tuple((f.name.removeprefix(KEY_PREFIX) if f in stored_key else f.name, f.name) for f in physical),
        collected=tuple(f for f in schema.fields if f.name in stats_columns),
        key=key,
        key_modes=key_modes,
        valued=tuple(f for f, _ in valued),
        value_modes=tuple(m for _, m in valued),
        value_stats_cols=tuple(f.name for f, _ in valued) if len(valued) < len(schema.fields) else None,
        indexes=() if changelog or postponed else indexes_of(schema, options),
        rolling_bytes=options.rolling_size_bytes,
        rolling_rows=options.target_file_row_num,
    )


def check_columns(schema: TableSchema, options: TableOptions) -> None:
    """Raise `Unsupported` if a file format of the table cannot hold the columns of a schema.

    Checked are the formats of all levels and of changelog files: after such a schema change no writer could write.
    """
    formats = {options.file_format}
    if schema.primary_keys:
        formats |= {*options.file_format_per_level.values()}
        formats |= (
            {options.changelog_file_format or options.file_format} if options.changelog_producer != "none" else set()
        )
    for name in formats:
        check_types(name.lower(), schema.fields)


def _postponed_format(schema: TableSchema, other: str) -> str:
    """Return the format of rows that wait for their bucket: Avro, written fast, if it holds the types."""
    try:
        check_types("avro", schema.fields)
    except Unsupported:
        return other
    return "avro"


def _choices(options: TableOptions, level: int | None, *, changelog: bool) -> tuple[str, str, str]:
    """Return format, compression and statistics mode of a level's files, or of changelog files.

    `level` is None for append tables, whose files have no levels.
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


def encoding(options: TableOptions, compression: str) -> Encoding:
    """Return how files of a table are encoded with that compression."""
    return Encoding(
        compression=compression,
        compression_level=options.file_compression_zstd_level,
        block_bytes=options.file_block_size_bytes,
        file_bytes=options.rolling_size_bytes,
        batch_rows=options.write_batch_size,
        given=options.given,
        time_zone=options.lakekit_java_time_zone,
    )


# ---- statistics ------------------------------------------------------------------------------------------------------


def _modes(
    options: TableOptions, names: Sequence[str], mode: str, *, avro: bool, thin_key: Sequence[str]
) -> dict[str, str]:
    """Return the mode of each physical column; the first rule that applies counts (FORMAT 7.7)."""
    first, counted = options.metadata_stats_keep_first_n_columns, 0
    modes = {}
    for name in names:
        own = options.field(name).stats_mode
        is_system = name.startswith(KEY_PREFIX) or any(name == f.name for f in SYSTEM)
        if own is not None:
            modes[name] = file_metadata.parse_stats_mode(own, f"fields.{name}.stats-mode")
        elif not avro and (is_system or name in thin_key):
            modes[name] = file_metadata.SYSTEM_MODE
            continue
        else:
            modes[name] = file_metadata.NONE if 0 <= first <= counted else mode
        counted += 1
    return modes


def _limit_stats_mode(field: Field, mode: str, format_name: str) -> str:
    """Limit the mode of a column without order to null counts, or in Parquet, which lacks them, to none."""
    if has_bounds(field.type) or field.type.root in BINARIES or mode == file_metadata.NONE:
        return mode
    return file_metadata.NONE if format_name == "parquet" else file_metadata.COUNTS


# ---- places ----------------------------------------------------------------------------------------------------------


def allocate_path(
    ctx: TableContext, names: FileNames, shape: FileSpec, partition: bytes, bucket: int
) -> tuple[str, str, str | None]:
    """Return (name, full path, external path) of the next file.

    Raises:
        Unsupported: lakekit does not follow the strategy of external paths.
    """
    name = names.next(shape.extension, prefix=shape.prefix or None)
    directory = partition_path(ctx, partition)
    roots = allowed_external_roots(ctx)
    if not roots:
        return name, ctx.layout.data_file(directory, bucket, name), None
    root = roots[names.turn(len(roots))]
    external = f"{replace(ctx.layout, root=root.rstrip('/')).bucket_dir(directory, bucket, directory='')}/{name}"
    return name, ctx.layout.data_file(directory, bucket, name, external), external


def allowed_external_roots(ctx: TableContext) -> tuple[str, ...]:
    """Return the external roots that take new files.

    Raises:
        LocationNotAllowed: one is not allowed.
        Unsupported: as `external_roots`.
    """
    roots = external_roots(ctx.options)
    for root in roots:  # all of them: a run that meets one later would leave its first files
        ctx.check_location(root, EXTERNAL_PATHS)
    return roots


def external_roots(options: TableOptions) -> tuple[str, ...]:
    """Return the external roots that take new files, in turn; none where files lie in the table.

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
        roots = tuple(root for root in roots if _scheme(root) == scheme)
    return tuple(roots)


def _scheme(root: str) -> str:
    scheme, colon, _ = root.partition(":")
    return scheme.lower() if colon else "file"
