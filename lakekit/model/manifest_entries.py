"""Manifest entries as columns: each row adds a data file to a bucket, or deletes one.

    kind | partition | bucket | total_buckets | file_name | file_size | row_count | … | level | extra_files | …
       0 | 00000000… |      0 |             2 | data-….pq |      1000 |         2 |   |     0 | []          |

Statistics and keys stay serialized rows (FORMAT 5.6) until they are compared (`model.stats`). `file(i)` returns the
metadata of one file; planning never needs more than columns. Columns that are not in `ENTRY_SCHEMA` are fields of newer
writers, kept under their Avro names for the next manifest.

`live_entries` computes which files are live (FORMAT 4.5). Source: FORMAT.md 4.3-4.5, `ManifestEntry`, `FileEntry`,
`AbstractFileStoreScan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.errors import Corrupt
from lakekit.model.data_file import EMPTY_ROW, NO_STATS, DataFileMeta, Stats

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]
    Ints = NDArray[np.int64]
    Row = tuple[int, bytes, int, int, DataFileMeta]

ADD = 0
DELETE = 1

_NULL_COUNTS_TYPE = pa.list_(pa.int64())
_NAMES_TYPE = pa.list_(pa.string())
ENTRY_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("partition", pa.binary(), nullable=False),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("total_buckets", pa.int32(), nullable=False),
        pa.field("file_name", pa.string(), nullable=False),
        pa.field("file_size", pa.int64(), nullable=False),
        pa.field("row_count", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("max_key", pa.binary(), nullable=False),
        pa.field("key_min", pa.binary(), nullable=False),
        pa.field("key_max", pa.binary(), nullable=False),
        pa.field("key_null_counts", _NULL_COUNTS_TYPE),
        pa.field("value_min", pa.binary(), nullable=False),
        pa.field("value_max", pa.binary(), nullable=False),
        pa.field("value_null_counts", _NULL_COUNTS_TYPE),
        pa.field("min_sequence_number", pa.int64(), nullable=False),
        pa.field("max_sequence_number", pa.int64(), nullable=False),
        pa.field("schema_id", pa.int64(), nullable=False),
        pa.field("level", pa.int32(), nullable=False),
        pa.field("extra_files", _NAMES_TYPE, nullable=False),
        pa.field("creation_time", pa.timestamp("ms")),
        pa.field("delete_row_count", pa.int64()),
        pa.field("embedded_index", pa.binary()),
        pa.field("file_source", pa.int8()),
        pa.field("value_stats_cols", _NAMES_TYPE),
        pa.field("external_path", pa.string()),
        pa.field("first_row_id", pa.int64()),
        pa.field("write_cols", _NAMES_TYPE),
    ]
)
"""`creation_time` is the writer's local wall clock. `file_source` is 0 for a flush, 1 for a compaction."""


@dataclass(frozen=True, slots=True)
class ManifestEntries:
    """Manifest entries in order: one Arrow table with the columns of `ENTRY_SCHEMA`, each in one chunk."""

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def column(self, name: str) -> pa.Array:
        """Return a column as one Arrow array."""
        return to_array(self.table.column(name))

    def integers(self, name: str) -> NDArray[Any]:
        """Return an integer column without nulls as a numpy array."""
        values: NDArray[Any] = self.column(name).to_numpy()
        return values

    def filter(self, mask: Mask) -> ManifestEntries:
        """Return the entries where the mask is true; adjacent entries are not copied."""
        indices = np.flatnonzero(mask)
        if not len(indices) or indices[-1] - indices[0] + 1 == len(indices):
            return (
                self.slice(int(indices[0]), int(indices[-1]) + 1)
                if len(indices)
                else ManifestEntries(self.table.slice(0, 0))
            )
        return self.take(indices)

    def take(self, indices: Ints | Sequence[int]) -> ManifestEntries:
        """Return the entries at the indices, in that order."""
        return ManifestEntries(self.table.take(pa.array(indices, pa.int64())))

    def slice(self, start: int, end: int) -> ManifestEntries:
        """Return the entries from `start` up to `end`, without copying."""
        return self if end - start == len(self) else ManifestEntries(self.table.slice(start, end - start))

    def as_kind(self, kind: int) -> ManifestEntries:
        """Return the same files, all added or all deleted."""
        return self._with("kind", np.full(len(self), kind, np.int8))

    def without_value_stats(self) -> ManifestEntries:
        """Return the same entries without value statistics (FORMAT 4.3)."""
        rows: list[Any] = [EMPTY_ROW] * len(self)
        empty_lists: list[Any] = [[]] * len(self)
        columns = {
            "value_min": rows,
            "value_max": rows,
            "value_null_counts": empty_lists,
            "value_stats_cols": empty_lists,
        }
        entries = self
        for name, values in columns.items():
            entries = entries._with(name, values)
        return entries

    def without_external_paths(self) -> ManifestEntries:
        """Return the same files, each in the folder of its bucket."""
        return self._with("external_path", pa.nulls(len(self), pa.string()))

    def _with(self, name: str, values: Any) -> ManifestEntries:
        at = self.table.schema.get_field_index(name)
        field = self.table.schema.field(at)
        return ManifestEntries(self.table.set_column(at, field, pa.array(values, field.type)))

    def select(self, columns: Iterable[str]) -> ManifestEntries:
        """Return the same entries with some columns only; not for `file` or `live_entries`."""
        return ManifestEntries(self.table.select(list(columns)))

    def file(self, i: int) -> DataFileMeta:
        """Return the metadata of the `i`-th file."""
        return self.files([i])[0]

    def files_to_read(self, *, with_null_counts: bool = False) -> list[DataFileMeta]:
        """Return the metadata that reading rows needs, of all files.

        Keys, bounds and indexes, which planning has evaluated, are left out. `with_null_counts`: with null counts.
        """
        columns = [_to_list(self.column(name)) for name in _READ_COLUMNS]
        nulls_column = [None] * len(self)
        counts, covered = (
            [self.column(name).to_pylist() for name in _NULL_COUNT_COLUMNS]
            if with_null_counts
            else (nulls_column, nulls_column)
        )  # scalar: one a file
        return [
            DataFileMeta(
                name=name,
                size_bytes=size_bytes,
                row_count=row_count,
                value_stats=_make_stats(EMPTY_ROW, EMPTY_ROW, nulls) if with_null_counts else NO_STATS,
                min_sequence_number=first,
                max_sequence_number=last,
                schema_id=schema_id,
                level=level,
                delete_row_count=deletes,
                value_stats_cols=_names_or_none(names),
                external_path=path,
            )
            for name, size_bytes, row_count, first, last, schema_id, level, deletes, path, nulls, names in zip(
                *columns, counts, covered, strict=True
            )
        ]

    def files(self, indices: Ints | Sequence[int] | None = None) -> list[DataFileMeta]:
        """Return the metadata of files by index, or of all."""
        table = self.table.select(_FILE_COLUMNS)
        if indices is not None:
            table = table.take(pa.array(indices, pa.int64()))
        creation_times = table.column("creation_time").cast(pa.int64()).to_pylist()
        return [
            _make_file_meta(row, ms)
            for row, ms in zip(table.drop_columns("creation_time").to_pylist(), creation_times, strict=True)
        ]


_FILE_COLUMNS = [name for name in ENTRY_SCHEMA.names if name not in {"kind", "partition", "bucket", "total_buckets"}]
_READ_COLUMNS = (
    "file_name",
    "file_size",
    "row_count",
    "min_sequence_number",
    "max_sequence_number",
    "schema_id",
    "level",
    "delete_row_count",
    "external_path",
)
_NULL_COUNT_COLUMNS = ("value_null_counts", "value_stats_cols")


def _to_list(column: pa.Array) -> list[Any]:
    """Return the values of a column; numpy lists numbers in a tenth of Arrow's time."""
    if column.null_count == len(column):
        return [None] * len(column)
    return (
        column.to_pylist() if column.null_count or column.type == pa.string() else column.to_numpy().tolist()
    )  # scalar: one a file


def empty_entries() -> ManifestEntries:
    """Return no entries."""
    return ManifestEntries(ENTRY_SCHEMA.empty_table())


def concat_entries(parts: Sequence[ManifestEntries]) -> ManifestEntries:
    """Concatenate entries, part after part."""
    full = [part for part in parts if len(part)]
    if not full:
        return parts[0] if parts else empty_entries()
    if len(full) == 1:
        return full[0]
    return ManifestEntries(pa.concat_tables([part.table for part in full], promote_options="default").combine_chunks())


def to_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a chunked column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)


# ---- facts <-> rows --------------------------------------------------------------------------------------------------


def _make_file_meta(row: dict[str, Any], creation_time_ms: int | None) -> DataFileMeta:
    return DataFileMeta(
        name=row["file_name"],
        size_bytes=row["file_size"],
        row_count=row["row_count"],
        min_key=row["min_key"],
        max_key=row["max_key"],
        key_stats=_make_stats(row["key_min"], row["key_max"], row["key_null_counts"]),
        value_stats=_make_stats(row["value_min"], row["value_max"], row["value_null_counts"]),
        min_sequence_number=row["min_sequence_number"],
        max_sequence_number=row["max_sequence_number"],
        schema_id=row["schema_id"],
        level=row["level"],
        extra_files=tuple(row["extra_files"]),
        creation_time_ms=creation_time_ms,
        delete_row_count=row["delete_row_count"],
        embedded_index=row["embedded_index"],
        source=row["file_source"],
        value_stats_cols=_names_or_none(row["value_stats_cols"]),
        external_path=row["external_path"],
        first_row_id=row["first_row_id"],
        write_cols=_names_or_none(row["write_cols"]),
    )


def _make_stats(low: bytes, high: bytes, nulls: list[int | None] | None) -> Stats:
    return Stats(min_values=low, max_values=high, null_counts=None if nulls is None else tuple(nulls))


def _names_or_none(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def entries_of_files(
    files: Sequence[DataFileMeta], *, kind: int = ADD, partition: bytes, bucket: int, total_buckets: int
) -> ManifestEntries:
    """Return the entries that add (or delete) files of one bucket, to be written."""
    return entries_of_rows([(kind, partition, bucket, total_buckets, file) for file in files])


def entries_of_rows(rows: Sequence[Row]) -> ManifestEntries:
    """Return entries of many buckets from rows (kind, partition, bucket, total buckets, file), to be written."""
    files = [row[4] for row in rows]
    columns: dict[str, list[Any]] = {
        "kind": [row[0] for row in rows],
        "partition": [row[1] for row in rows],
        "bucket": [row[2] for row in rows],
        "total_buckets": [row[3] for row in rows],
        "file_name": [f.name for f in files],
        "file_size": [f.size_bytes for f in files],
        "row_count": [f.row_count for f in files],
        "min_key": [f.min_key for f in files],
        "max_key": [f.max_key for f in files],
        "key_min": [f.key_stats.min_values for f in files],
        "key_max": [f.key_stats.max_values for f in files],
        "key_null_counts": [f.key_stats.null_counts for f in files],
        "value_min": [f.value_stats.min_values for f in files],
        "value_max": [f.value_stats.max_values for f in files],
        "value_null_counts": [f.value_stats.null_counts for f in files],
        "min_sequence_number": [f.min_sequence_number for f in files],
        "max_sequence_number": [f.max_sequence_number for f in files],
        "schema_id": [f.schema_id for f in files],
        "level": [f.level for f in files],
        "extra_files": [f.extra_files for f in files],
        "creation_time": [f.creation_time_ms for f in files],
        "delete_row_count": [f.delete_row_count for f in files],
        "embedded_index": [f.embedded_index for f in files],
        "file_source": [f.source for f in files],
        "value_stats_cols": [f.value_stats_cols for f in files],
        "external_path": [f.external_path for f in files],
        "first_row_id": [f.first_row_id for f in files],
        "write_cols": [f.write_cols for f in files],
    }
    return ManifestEntries(
        pa.Table.from_arrays([pa.array(columns[f.name], f.type) for f in ENTRY_SCHEMA], schema=ENTRY_SCHEMA)
    )


# ---- which files are live --------------------------------------------------------------------------------------------


def live_entries(parts: Sequence[ManifestEntries]) -> ManifestEntries:
    """Return the files that are live after all entries, part after part, in order.

    Live is every ADD whose identity no DELETE has. Identity is partition, bucket, level, file name, extra files,
    embedded index and external path: a file that moves to another level is deleted at the old one and added at the new
    one. A DELETE without its ADD (which pruning may have left out) is dropped. Raises `Corrupt` if a file is added
    twice.
    """
    entries = concat_entries(parts)
    return entries.filter(live_mask(entries))


def live_mask(entries: ManifestEntries) -> Mask:
    """Return a mask of the entries that `live_entries` keeps. Raises `Corrupt` if a file is added twice."""
    kinds = entries.integers("kind")
    group = identity_codes(entries)
    size = int(group.max()) + 1 if len(group) else 0
    added = np.bincount(group[kinds == ADD], minlength=size)
    if (added > 1).any():
        raise _duplicate_file(entries, group, int(np.flatnonzero(added > 1)[0]))
    deleted = np.bincount(group[kinds == DELETE], minlength=size) > 0
    mask: Mask = (kinds == ADD) & ~deleted[group]
    return mask


def merge_entries(parts: Sequence[ManifestEntries], group: Ints | None = None) -> ManifestEntries:
    """Return the entries of manifests rewritten as one: a DELETE cancels the ADD before it.

    A DELETE without an ADD stays. `group`: the `identity_codes` of all entries, if known. Raises `Corrupt` if a file is
    added twice, as the reference does at every commit.
    """
    entries = concat_entries(parts)
    kinds = entries.integers("kind")
    group = identity_codes(entries) if group is None else group
    order = np.argsort(group, kind="stable")
    first = np.ones(len(order), bool)
    first[1:] = group[order][1:] != group[order][:-1]
    starts = np.flatnonzero(first)
    sizes = np.diff(np.append(starts, len(order)))
    rank = np.arange(len(order)) - np.repeat(starts, sizes)
    added_twice = (rank % 2 == 1) & (kinds[order] == ADD)
    if added_twice.any():
        raise _duplicate_file(entries, group, int(group[order[added_twice]].min()))
    mask = np.zeros(len(order), bool)
    mask[order[(starts + sizes - 1)[sizes % 2 == 1]]] = True
    return entries.filter(mask)


_IDENTITY_COLUMNS = ("partition", "bucket", "level", "embedded_index", "external_path")
"""Members of the identity besides the name and the extra files."""
LIVENESS_COLUMNS = ("kind", "file_name", "extra_files", *_IDENTITY_COLUMNS)
"""The columns that tell which files are live."""


def identity_codes(entries: ManifestEntries) -> Ints:
    """Return a number for each entry, equal where all members of the identity are equal."""
    codes = _value_codes(entries.column("file_name"))
    shared = np.bincount(codes)[codes] > 1 if len(codes) else np.zeros(0, bool)
    if not shared.any():
        return codes
    rows = np.flatnonzero(shared)
    indices = pa.array(rows, pa.int64())
    members = []
    for name in _IDENTITY_COLUMNS:
        column = entries.column(name)
        if column.null_count < len(column):  # what every entry lacks tells nothing apart
            shared_values = column.take(indices)
            members.append(
                shared_values.to_numpy().astype(np.int64)
                if pa.types.is_integer(column.type)
                else _value_codes(shared_values)
            )
    extra = entries.column("extra_files")
    if len(extra.flatten()):
        extra = extra.take(indices)
        members += [_value_codes(extra.value_lengths()), _value_codes(pc.binary_join(extra, "\0"))]
    code, span = codes[rows], int(codes.max()) + 1
    for member in members:
        low, width = int(member.min()), int(member.max()) - int(member.min()) + 1
        if width == 1:
            continue
        if span > _MAX_CODES // width:
            code = np.unique(code, return_inverse=True)[1]
            span = len(code)
        code, span = code * width + (member - low), span * width
    codes[rows] = np.unique(code, return_inverse=True)[1] + int(codes.max()) + 1
    return codes


_MAX_CODES = 2**62
"""Codes are put together by multiplying; beyond this they are counted anew first."""


def _value_codes(column: pa.Array) -> Ints:
    """Return a number for each value, equal where the values are; nulls are equal to each other."""
    encoded = column.dictionary_encode(null_encoding="encode")
    codes: Ints = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _duplicate_file(entries: ManifestEntries, group: Ints, group_number: int) -> Corrupt:
    name = entries.table.column("file_name")[int(np.flatnonzero(group == group_number)[0])].as_py()
    return Corrupt(
        f"file {name[:120]!a} is added twice; the manifests of this snapshot contradict each other", field="_FILE_NAME"
    )
