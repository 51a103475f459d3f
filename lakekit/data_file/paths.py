"""Paths of the files of an entry, from its partition, bucket and file names, and names of new files.

    data-f0a2…-0.parquet   changelog-f0a2…-1.orc   data-f0a2…-2.zst.parquet

One counter and one UUID serve all files of a writer in a bucket, changelog files included.

Source: FORMAT.md 1.3, `DataFilePathFactory`.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakekit.codec import binary_row
from lakekit.errors import ColumnNotFound, Corrupt, SchemaMismatch
from lakekit.model import partition as partitions
from lakekit.model.data_file import EXTENSIONS
from lakekit.predicate import to_internal_literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.options.table_options import TableOptions
    from lakekit.types import DataType


def partition_values(ctx: TableContext, partition: bytes) -> tuple[object, ...]:
    """Return the values of a serialized partition row, in the order of the partition keys."""
    return _decode_partition(partition, tuple(field.type for field in ctx.schema.partition_fields))


def partition_path(ctx: TableContext, partition: bytes) -> str:
    """Return `dt=2024-01-01/hr=8`, or an empty text for a table without partitions (FORMAT 1.4)."""
    fields = ctx.schema.partition_fields
    if not fields:
        return ""
    names, types = tuple(field.name for field in fields), tuple(field.type for field in fields)
    return _partition_path(
        partition, names, types, ctx.options.partition_default_name, ctx.options.partition_legacy_name
    )


def partition_spec(ctx: TableContext, spec: Mapping[str, Any]) -> dict[int, Any]:
    """Return the values of some partition columns by column position, in the form rows are decoded to.

    `spec` has them by name, as values or as partition texts.

    Raises:
        ColumnNotFound: a name is no partition column.
        SchemaMismatch: a value is none of its column.
    """
    fields = ctx.schema.partition_fields
    positions = {field.name: at for at, field in enumerate(fields)}
    values: dict[int, Any] = {}
    for name, value in spec.items():
        if name not in positions:
            column_names = ", ".join(positions) or "none: the table is not partitioned"
            raise ColumnNotFound(
                f"{ctx.name} has no partition column {name!r}; partition columns are {column_names}", name=name
            )
        t = fields[positions[name]].type
        try:
            if isinstance(value, str):
                values[positions[name]] = partitions.parse_partition(
                    [value], [t], default_name=ctx.options.partition_default_name
                )[0]
                continue
            internal = None if value is None else to_internal_literal(value, t)
        except Corrupt:  # a decoder's word for bytes of a table; this text is the caller's
            internal = None
        if value is not None and internal is None:
            raise SchemaMismatch(
                f"{value!r} is no value of partition column {name} of {ctx.name}, which is {t}; give one, or its text",
                column=name,
            )
        values[positions[name]] = internal
    return values


def data_file_path(ctx: TableContext, partition: bytes, bucket: int, file: DataFileMeta) -> str:
    """Return the full path of a data file."""
    return ctx.paths.data_file(partition_path(ctx, partition), bucket, file.name, file.external_path)


def paths_with_extra_files(
    ctx: TableContext, partition: bytes, bucket: int, files: Iterable[DataFileMeta]
) -> list[str]:
    """Return the full paths of data files of a bucket and of their extra files."""
    paths = []
    for file in files:
        path = data_file_path(ctx, partition, bucket, file)
        paths += [path, *(ctx.paths.extra_file(path, name) for name in file.extra_files)]
    return paths


@lru_cache(maxsize=4096)
def _decode_partition(partition: bytes, types: tuple[DataType, ...]) -> tuple[object, ...]:
    return binary_row.decode_row(binary_row.strip_arity(partition)[1], types)


@lru_cache(maxsize=4096)
def _partition_path(
    partition: bytes, names: tuple[str, ...], types: tuple[DataType, ...], default_name: str, legacy_names: bool
) -> str:
    return partitions.partition_path(
        names,
        partitions.partition_texts(
            _decode_partition(partition, types), types, default_name=default_name, legacy_form=legacy_names
        ),
    )


def bucket_id_at(entries: ManifestEntries, index: int) -> tuple[bytes, int]:
    """Return the (serialized partition, bucket) of one entry."""
    partition, bucket = entries.table.column("partition")[index], entries.table.column("bucket")[index]
    return partition.as_py(), bucket.as_py()  # scalar: one entry


def data_file_paths(ctx: TableContext, entries: ManifestEntries) -> list[str]:
    """Return the full paths of many data files, in order; each directory is built once.

    Raises:
        Corrupt: a name is no plain file name.
    """
    layout, names, external = ctx.paths, entries.column("file_name"), entries.column("external_path")
    texts, buckets = names.to_pylist(), entries.column("bucket").to_pylist()  # scalar: one a file
    if len(texts) <= _MAX_ROWWISE_PATHS:
        serialized = entries.column("partition").to_pylist()  # scalar: one a file
        rows = zip(serialized, buckets, texts, external.to_pylist(), strict=True)  # scalar: one a file
        return [
            layout.data_file(partition_path(ctx, partition), bucket, name, path)
            for partition, bucket, name, path in rows
        ]
    partitions_ = entries.column("partition").dictionary_encode()
    distinct = partitions_.dictionary.to_pylist()  # scalar: one a partition
    paths = [partition_path(ctx, partition) for partition in distinct]
    codes = partitions_.indices.to_pylist()  # scalar: one a file
    if external.null_count < len(external) or not _are_plain(names):
        rows_by_code = zip(codes, buckets, texts, external.to_pylist(), strict=True)  # scalar: one a file
        return [layout.data_file(paths[code], bucket, name, path) for code, bucket, name, path in rows_by_code]
    directory_keys = list(zip(codes, buckets, strict=True))
    directories = {
        (code, bucket): layout.bucket_dir(paths[code], bucket) for code, bucket in dict.fromkeys(directory_keys)
    }
    return [f"{directories[directory_key]}/{name}" for directory_key, name in zip(directory_keys, texts, strict=True)]


_PLAIN_NAME = r"^[ -.0-\[\]-~]+$"
_MAX_NAME_BYTES = 255
_MAX_ROWWISE_PATHS = 8
"""Up to so many names, a loop in Python is as fast as Arrow."""
_DOT_NAMES = pa.array([".", ".."])


def _are_plain(names: pa.StringArray) -> bool:
    """Return whether all names are plain ones of printable ASCII; if not, check each by `table_paths.is_plain`."""
    fits = pc.and_not(pc.match_substring_regex(names, _PLAIN_NAME), pc.is_in(names, value_set=_DOT_NAMES))
    fits = pc.and_(fits, pc.less_equal(pc.binary_length(names), _MAX_NAME_BYTES))
    return bool(pc.all(fits).as_py())  # scalar: one answer


# ---- file names ------------------------------------------------------------


class FileNames:
    """The file names of one writer in one bucket. `prefix` is that of data files; thread-safe."""

    __slots__ = ("_numbers", "_round_robin", "prefix", "uuid")

    def __init__(self, prefix: str, uuid: str) -> None:
        self.prefix, self.uuid = prefix, uuid
        self._numbers, self._round_robin = itertools.count(), itertools.count()  # next() is one step of the interpreter

    def next_name(self, extension: str, *, prefix: str | None = None) -> str:
        """Return the next name, with `file_extension` after the dot; `prefix` replaces that of data files."""
        return f"{self.prefix if prefix is None else prefix}{self.uuid}-{next(self._numbers)}.{extension}"

    def next_turn(self, count: int) -> int:
        """Return the next number below `count`, round robin."""
        return next(self._round_robin) % count


def make_file_names(ctx: TableContext) -> FileNames:
    """Return the names of a new writer of one bucket of a table."""
    return FileNames(ctx.options.data_file_prefix, ctx.runtime.new_id())


def file_extension(options: TableOptions, format_name: str, compression: str) -> str:
    """Return the extension of a data file: its format, after its compression if the table says so."""
    codec = EXTENSIONS.get(compression.lower(), compression.lower())
    return f"{codec}.{format_name}" if codec and options.file_suffix_include_compression else format_name
