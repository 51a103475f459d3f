"""Where the files of an entry lie: from its partition, bucket and names to whole paths."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakekit.codec import binary_row
from lakekit.errors import ColumnNotFound, Corrupt, SchemaMismatch
from lakekit.model import partition as partitions
from lakekit.predicate import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.types import DataType


def partition_values(ctx: TableContext, partition: bytes) -> tuple[object, ...]:
    """The values of a serialized partition row, in the order of the partition keys."""
    return _values(partition, tuple(field.type for field in ctx.schema.partition_fields))


def partition_path(ctx: TableContext, partition: bytes) -> str:
    """`dt=2024-01-01/hr=8`, or nothing for a table without partitions (FORMAT 1.4)."""
    fields = ctx.schema.partition_fields
    if not fields:
        return ""
    names, types = tuple(field.name for field in fields), tuple(field.type for field in fields)
    return _path(partition, names, types, ctx.options.partition_default_name, ctx.options.partition_legacy_name)


def partition_spec(ctx: TableContext, spec: Mapping[str, Any]) -> dict[int, Any]:
    """Some partition columns' values, given as values or as partition texts, by the places of their columns; in the form rows are decoded to.

    Raises `ColumnNotFound`, and `SchemaMismatch` for what is no value of the column.
    """
    fields = ctx.schema.partition_fields
    places = {field.name: at for at, field in enumerate(fields)}
    found: dict[int, Any] = {}
    for name, value in spec.items():
        if name not in places:
            known = ", ".join(places) or "none: the table is not partitioned"
            raise ColumnNotFound(f"{ctx.name} has no partition column {name!r}; partition columns are {known}", name=name)
        t = fields[places[name]].type
        try:
            if isinstance(value, str):
                found[places[name]] = partitions.parse([value], [t], default_name=ctx.options.partition_default_name)[0]
                continue
            internal = None if value is None else literal(value, t)
        except Corrupt:  # a decoder's word for bytes of a table; this text is the caller's
            internal = None
        if value is not None and internal is None:
            raise SchemaMismatch(f"{value!r} is no value of partition column {name} of {ctx.name}, which is {t}; give one, or its text", column=name)
        found[places[name]] = internal
    return found


def data_file_path(ctx: TableContext, partition: bytes, bucket: int, file: DataFileMeta) -> str:
    """The whole path of a data file."""
    return ctx.layout.data_file(partition_path(ctx, partition), bucket, file.name, file.external_path)


def every_path(ctx: TableContext, partition: bytes, bucket: int, files: Iterable[DataFileMeta]) -> list[str]:
    """The whole paths of some data files of a bucket, and of what lies beside them."""
    found = []
    for file in files:
        path = data_file_path(ctx, partition, bucket, file)
        found += [path, *(ctx.layout.extra_file(path, name) for name in file.extra_files)]
    return found


@lru_cache(maxsize=4096)
def _values(partition: bytes, types: tuple[DataType, ...]) -> tuple[object, ...]:
    return binary_row.decode(binary_row.strip_arity(partition)[1], types)


@lru_cache(maxsize=4096)
def _path(partition: bytes, names: tuple[str, ...], types: tuple[DataType, ...], default_name: str, legacy: bool) -> str:
    return partitions.path(names, partitions.text(_values(partition, types), types, default_name=default_name, legacy=legacy))


def bucket_id_at(entries: ManifestEntries, at: int) -> tuple[bytes, int]:
    """The (serialized partition, bucket) of one entry."""
    return entries.table.column("partition")[at].as_py(), entries.table.column("bucket")[at].as_py()  # scalar: one entry


def data_file_paths(ctx: TableContext, entries: ManifestEntries) -> list[str]:
    """The whole paths of many data files, in order; each (partition, bucket) is spelled once. Raises `Corrupt` for what is no plain file name."""
    layout, names, external = ctx.layout, entries.column("file_name"), entries.column("external_path")
    texts, buckets = names.to_pylist(), entries.column("bucket").to_pylist()  # scalar: one a file
    if len(texts) <= _MAX_ROWWISE_PATHS:
        few = zip(entries.column("partition").to_pylist(), buckets, texts, external.to_pylist(), strict=True)  # scalar: one a file
        return [layout.data_file(partition_path(ctx, partition), bucket, name, path) for partition, bucket, name, path in few]
    partitions_ = entries.column("partition").dictionary_encode()
    paths = [partition_path(ctx, partition) for partition in partitions_.dictionary.to_pylist()]  # scalar: one a partition
    codes = partitions_.indices.to_pylist()  # scalar: one a file
    if external.null_count < len(external) or not _are_plain(names):
        each = zip(codes, buckets, texts, external.to_pylist(), strict=True)  # scalar: one a file
        return [layout.data_file(paths[code], bucket, name, path) for code, bucket, name, path in each]
    places = list(zip(codes, buckets, strict=True))
    directories = {(code, bucket): layout.bucket_dir(paths[code], bucket) for code, bucket in dict.fromkeys(places)}
    return [f"{directories[place]}/{name}" for place, name in zip(places, texts, strict=True)]


_PLAIN = r"^[ -.0-\[\]-~]+$"
_LONGEST = 255
_MAX_ROWWISE_PATHS = 8
"""As many names are looked at by Python as soon as Arrow begins."""
_DOTS = pa.array([".", ".."])


def _are_plain(names: pa.StringArray) -> bool:
    """Whether all names are plain ones of printable ASCII; where not, `layout.is_plain` is to be asked of each."""
    fits = pc.and_not(pc.match_substring_regex(names, _PLAIN), pc.is_in(names, value_set=_DOTS))
    fits = pc.and_(fits, pc.less_equal(pc.binary_length(names), _LONGEST))
    return bool(pc.all(fits).as_py())  # scalar: one answer
