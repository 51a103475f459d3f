"""Decode manifests to columns of entries, many files at once (`codec.avro_columns`), and encode them.

    04 00 18 00…00 00 02 | 20 646174612d…  d00f 04 …
    one Avro record: version 2, ADD, partition row of 12 bytes, bucket 0 of 1 | _FILE: name, size, rows …

Source: FORMAT.md 4.1, 4.3 and its worked example in 4.7; `ManifestEntrySerializer`, `DataFileMetaSerializer`.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from lakekit.codec import avro_columns, avro_container
from lakekit.codec.avro_schema import unwrap_record
from lakekit.errors import Corrupt
from lakekit.model import manifest_entries, metadata_records
from lakekit.model.manifest_entries import ENTRY_SCHEMA, ManifestEntries
from lakekit.model.manifests import stats_to_record
from lakekit.model.metadata_records import invalid_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.codec.avro_container import Container
    from lakekit.codec.avro_schema import AvroNode
    from lakekit.codec.avro_vectors import VectorReader
    from lakekit.model.manifest_entries import Row

    Keep = Callable[[pa.BinaryArray], NDArray[np.bool_]]

ENTRY_VERSION = 2
_HEAD_COLUMNS = {"_KIND": "kind", "_PARTITION": "partition", "_BUCKET": "bucket", "_TOTAL_BUCKETS": "total_buckets"}
_FILE_COLUMNS = {
    "_FILE_NAME": "file_name",
    "_FILE_SIZE": "file_size",
    "_ROW_COUNT": "row_count",
    "_MIN_KEY": "min_key",
    "_MAX_KEY": "max_key",
    "_MIN_SEQUENCE_NUMBER": "min_sequence_number",
    "_MAX_SEQUENCE_NUMBER": "max_sequence_number",
    "_SCHEMA_ID": "schema_id",
    "_LEVEL": "level",
    "_EXTRA_FILES": "extra_files",
    "_CREATION_TIME": "creation_time",
    "_DELETE_ROW_COUNT": "delete_row_count",
    "_EMBEDDED_FILE_INDEX": "embedded_index",
    "_FILE_SOURCE": "file_source",
    "_VALUE_STATS_COLS": "value_stats_cols",
    "_EXTERNAL_PATH": "external_path",
    "_FIRST_ROW_ID": "first_row_id",
    "_WRITE_COLS": "write_cols",
}
_STATS_COLUMNS = {"_MIN_VALUES": "min", "_MAX_VALUES": "max", "_NULL_COUNTS": "null_counts"}
_KNOWN_ENTRY_FIELDS = frozenset(name for name, _ in metadata_records.FILE_FIELDS)
_AVRO_DECLARATION_KEY = b"avro"
"""The metadata of an extra column: its declaration in the manifest it came from."""


class ManifestBytes(NamedTuple):
    """One manifest to decode: its path, for errors, and its bytes."""

    path: str | None
    data: bytes


def decode_entries(manifests: Sequence[ManifestBytes]) -> tuple[ManifestEntries, list[int]]:
    """Return the entries of manifests in order, and how many each holds.

    Raises `Corrupt` (with path, offset and field), `LimitExceeded`, or `Unsupported` for an entry of another version.
    """
    # indices of the manifests that were decoded together, and their entries
    decoded: list[tuple[list[int], ManifestEntries]] = []
    groups: dict[int, list[tuple[int, Container]]] = {}
    counts = [0] * len(manifests)
    columnar = [index for index, manifest in enumerate(manifests) if metadata_records.is_columnar(manifest.data)]
    for index in columnar:
        part = _decode_columnar(manifests[index])
        counts[index] = len(part)
        decoded.append(([index], part))
    others = sorted({*range(len(manifests))}.difference(columnar)) if columnar else range(len(manifests))
    for index in others:
        container = avro_container.open_container(manifests[index].data, path=manifests[index].path)
        counts[index] = container.count
        if container.blocks:
            groups.setdefault(id(container.schema), []).append((index, container))
    decoded += [
        ([index for index, _ in group], _decode_batches([container for _, container in group]))
        for group in groups.values()
    ]
    if len(decoded) < 2:
        return (decoded[0][1] if decoded else manifest_entries.empty_entries()), counts
    ordered = manifest_entries.concat_entries([part for _, part in decoded])
    indices = np.repeat(
        [index for group, _ in decoded for index in group], [counts[index] for group, _ in decoded for index in group]
    )
    return ordered.take(np.argsort(indices, kind="stable")), counts


def decode_entries_where(manifests: Sequence[ManifestBytes], keep: Keep) -> ManifestEntries:
    """Return the entries of manifests whose serialized partitions the mask `keep` selects.

    Others cost little. Raises as `decode_entries` does.
    """
    entries = None
    if not any(metadata_records.is_columnar(manifest.data) for manifest in manifests):
        containers = [avro_container.open_container(manifest.data, path=manifest.path) for manifest in manifests]
        containers = [container for container in containers if container.blocks]
        if len({id(container.schema) for container in containers}) == 1:
            with suppress(Corrupt):  # what is wrong, and where, is for the whole to say
                entries = _decode_batches(containers, keep)
    if entries is None:
        entries, _ = decode_entries(manifests)
    return entries.filter(keep(entries.column("partition"))) if len(entries) else entries


def _decode_batches(containers: list[Container], keep: Keep | None = None) -> ManifestEntries:
    """Return the entries of Avro manifests of one schema, decoded a bounded number of bytes at a time."""
    return manifest_entries.concat_entries(
        [_decode_avro(batch, keep) for batch in avro_columns.batch_containers(containers)]
    )


def _decode_avro(containers: list[Container], keep: Keep | None) -> ManifestEntries:
    schema = containers[0].schema
    record = unwrap_record(schema)
    as_usual = record.names[:3] == ("_VERSION", "_KIND", "_PARTITION")
    branch = (
        None if record is schema else schema.children.index(record)
    )  # some writers wrap records in a union with null
    columns = avro_columns.decode_columns(
        containers,
        guess=partial(_guess_record_starts, branch=branch) if as_usual else None,
        where=None if keep is None else ("_PARTITION", keep),
    )
    file = record.find_field("_FILE")
    return _entries_table(columns, None if file is None else file.non_null_type, _EntryOrigin(containers))


def _decode_columnar(manifest: ManifestBytes) -> ManifestEntries:
    table = metadata_records.read_columnar(manifest.data, manifest.path).combine_chunks()
    columns = {name: manifest_entries.to_array(table.column(name)) for name in table.column_names}
    return _entries_table(columns, None, _EntryOrigin([], manifest.path))


def _guess_record_starts(lanes: VectorReader, branch: int | None = None) -> NDArray[np.int64]:
    """Return offsets at which entries probably begin.

    There is the `branch` of a union, if entries are in one, version 2, a known kind, then a partition row. A row is
    padded to 8 bytes behind its arity, so its length is 4 more than a multiple of 8 and at least 12; its arity is below
    256, its row kind 0.
    """
    data = lanes.bytes
    offsets = np.flatnonzero(data[: lanes.size] == 2 * ENTRY_VERSION)
    offsets = offsets[data[offsets + 1] <= 2 * manifest_entries.DELETE]
    length = data[offsets + 2]
    fits = (length >= 24) & (length & 15 == 8)
    row = offsets[fits] + 3 + (length[fits] > 127)
    arity_and_kind = lanes.words[np.minimum(row, lanes.last_word)] & np.uint64(0xFF_00_FF_FF_FF)
    offsets = offsets[fits][arity_and_kind == 0]
    return offsets if branch is None else offsets[data[offsets - 1] == 2 * branch] - 1


class _EntryOrigin:
    """The file and block of each entry, for errors."""

    def __init__(self, containers: list[Container], path: str | None = None) -> None:
        self.containers = containers
        self.path = path

    def make_error(self, problem: str, field: str, row: int = 0) -> Corrupt:
        for container in self.containers:
            for block in container.blocks:
                if row < block.count:
                    return avro_columns.with_block_offset(
                        Corrupt(f"{problem}, in record {row}", field=field), container, block
                    )
                row -= block.count
        return invalid_field(problem, field, self.path)


def _entries_table(
    source_columns: Mapping[str, pa.Array], file_type: AvroNode | None, origin: _EntryOrigin
) -> ManifestEntries:
    """Convert columns under the format's names to checked columns under lakekit's names."""
    file = source_columns.get("_FILE")
    if file is None or not pa.types.is_struct(file.type) or file.null_count:
        raise origin.make_error("_FILE is not a record", "_FILE")
    inner = {f.name: part for f, part in zip(file.type, file.flatten(), strict=True)}
    size = len(file)
    columns = {
        ours: _entries_column(source_columns.get(name), name, ours, size, origin)
        for name, ours in _HEAD_COLUMNS.items()
    }
    columns |= {
        ours: _entries_column(inner.get(name), name, ours, size, origin) for name, ours in _FILE_COLUMNS.items()
    }
    for name, ours in (("_KEY_STATS", "key"), ("_VALUE_STATS", "value")):
        stats = inner.get(name)
        if stats is None or not pa.types.is_struct(stats.type) or stats.null_count:
            raise origin.make_error(f"{name} is not a record", name)
        parts = {f.name: part for f, part in zip(stats.type, stats.flatten(), strict=True)}
        columns |= {
            f"{ours}_{end}": _entries_column(parts.get(part), f"{name}.{part}", f"{ours}_{end}", size, origin)
            for part, end in _STATS_COLUMNS.items()
        }
    _check_entries(source_columns.get("_VERSION"), columns, origin)
    fields, arrays = list(ENTRY_SCHEMA), [columns[name] for name in ENTRY_SCHEMA.names]
    for name, part in zip(file_type.names, file_type.children, strict=True) if file_type is not None else ():
        if name not in _KNOWN_ENTRY_FIELDS and metadata_records.can_redeclare(part) and inner[name].null_count < size:
            fields.append(
                pa.field(
                    name, inner[name].type, metadata={_AVRO_DECLARATION_KEY: json.dumps(part.declaration).encode()}
                )
            )
            arrays.append(inner[name])
    return ManifestEntries(pa.Table.from_arrays(arrays, schema=pa.schema(fields)))


def _entries_column(column: pa.Array | None, name: str, column_name: str, size: int, origin: _EntryOrigin) -> pa.Array:
    field = ENTRY_SCHEMA.field(column_name)
    if column is None:
        if not field.nullable:
            raise origin.make_error(f"{name} is not there", name)
        return pa.nulls(size, field.type)
    if column.null_count and not field.nullable:
        raise origin.make_error(
            f"{name} is null", name, int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        )
    if column.type == field.type:
        return column
    if _type_family(column.type) != _type_family(field.type) and not pa.types.is_null(column.type):
        raise origin.make_error(f"{name} is {column.type}, {field.type} wanted", name)
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise origin.make_error(f"{name} is {column.type}, {field.type} wanted: {str(error)[:120]}", name) from None


def _type_family(t: pa.DataType) -> str:
    """Return the family of types that may be cast: numbers of any width, times by their milliseconds.

    Text is never read as a number.
    """
    if pa.types.is_integer(t) or pa.types.is_timestamp(t):
        return "number"
    if pa.types.is_list(t):
        return f"list of {_type_family(t.value_type)}"
    return str(t)


def _check_entries(version: pa.Array | None, columns: Mapping[str, pa.Array], origin: _EntryOrigin) -> None:
    if version is None or version.null_count or not pa.types.is_integer(version.type):
        raise origin.make_error("_VERSION is not a number", "_VERSION")
    versions = version.to_numpy()
    if (versions != ENTRY_VERSION).any():
        path = origin.containers[0].path if origin.containers else origin.path
        metadata_records.check_version(
            [int(versions[versions != ENTRY_VERSION][0])], ENTRY_VERSION, "manifest entry", path
        )
    for name, ours in (
        ("_KIND", "kind"),
        ("_FILE_SIZE", "file_size"),
        ("_ROW_COUNT", "row_count"),
        ("_LEVEL", "level"),
    ):
        values = columns[ours].to_numpy()
        broken = (values < 0) | (values > manifest_entries.DELETE) if ours == "kind" else values < 0
        if broken.any():
            row = int(np.flatnonzero(broken)[0])
            raise origin.make_error(f"{name} is {values[row]}", name, row)


# ---- writing ---------------------------------------------------------------------------------------------------------


def encode_entries(entries: ManifestEntries, **write_options: Any) -> bytes:
    """Encode entries as one manifest of the reference's schema.

    `write_options`: see `metadata_records.write`. Columns of newer writers follow its own, if they have values.
    """
    table = entries.table
    added = [
        f for f in table.schema if f.name not in ENTRY_SCHEMA.names and table.column(f.name).null_count < len(entries)
    ]
    fields = metadata_records.entry_fields(
        tuple((f.name, json.loads(f.metadata[_AVRO_DECLARATION_KEY])) for f in added)
    )
    return metadata_records.write_records(fields, entry_records(entries, [f.name for f in added]), **write_options)


def entry_records(entries: ManifestEntries, extra_columns: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield entries as records of a manifest; `extra_columns` are columns of newer writers to add to the file."""
    time_index = entries.table.schema.get_field_index("creation_time")
    table = entries.table.set_column(
        time_index, "creation_time", entries.table.column("creation_time").cast(pa.int64())
    )
    for batch in table.to_batches(max_chunksize=10_000):
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        for i in range(batch.num_rows):
            file = {name: columns[ours][i] for name, ours in _FILE_COLUMNS.items()} | {
                name: columns[name][i] for name in extra_columns
            }
            for name, ours in (("_KEY_STATS", "key"), ("_VALUE_STATS", "value")):
                file[name] = {part: columns[f"{ours}_{end}"][i] for part, end in _STATS_COLUMNS.items()}
            yield {"_VERSION": ENTRY_VERSION, "_FILE": file} | {
                name: columns[ours][i] for name, ours in _HEAD_COLUMNS.items()
            }


def encode_entry_rows(rows: Sequence[Row], **write_options: Any) -> bytes:
    """Encode a few entries, given as rows, as one manifest. `write_options`: see `metadata_records.write`."""
    return metadata_records.write_records(_ENTRY_FIELDS, map(_record_of_row, rows), **write_options)


_ENTRY_FIELDS = metadata_records.entry_fields()


def _record_of_row(row: Row) -> dict[str, Any]:
    kind, partition, bucket, total_buckets, file = row
    record = {
        "_FILE_NAME": file.name,
        "_FILE_SIZE": file.size_bytes,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": stats_to_record(file.key_stats),
        "_VALUE_STATS": stats_to_record(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": file.extra_files,
        "_CREATION_TIME": file.creation_time_ms,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": file.embedded_index,
        "_FILE_SOURCE": file.source,
        "_VALUE_STATS_COLS": file.value_stats_cols,
        "_EXTERNAL_PATH": file.external_path,
        "_FIRST_ROW_ID": file.first_row_id,
        "_WRITE_COLS": file.write_cols,
    }
    return {
        "_VERSION": ENTRY_VERSION,
        "_KIND": kind,
        "_PARTITION": partition,
        "_BUCKET": bucket,
        "_TOTAL_BUCKETS": total_buckets,
        "_FILE": record,
    }
