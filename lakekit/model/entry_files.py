"""Manifests: files of entries, to columns and back. Many files are decoded at once (`codec.avro_columns`).

    04 00 18 00…00 00 02 | 20 646174612d…  d00f 04 …       one Avro record: version 2, ADD, partition row of 12 bytes, bucket 0 of 1 | _FILE: name, size, rows …

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
from lakekit.codec.avro_schema import record_of
from lakekit.errors import Corrupt
from lakekit.model import manifest_entries, metadata_records, record_schemas
from lakekit.model.manifest_entries import SCHEMA, ManifestEntries
from lakekit.model.manifests import stats_record
from lakekit.model.metadata_records import invalid_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lakekit.codec.avro_container import Container
    from lakekit.codec.avro_schema import AvroNode
    from lakekit.codec.avro_vectors import VectorReader
    from lakekit.model.manifest_entries import Row

    Keep = Callable[[pa.BinaryArray], NDArray[np.bool_]]

VERSION = 2
_HEAD = {"_KIND": "kind", "_PARTITION": "partition", "_BUCKET": "bucket", "_TOTAL_BUCKETS": "total_buckets"}
_FILE = {
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
_STATS = {"_MIN_VALUES": "min", "_MAX_VALUES": "max", "_NULL_COUNTS": "null_counts"}
_KNOWN_FIELDS = frozenset(name for name, _ in record_schemas.FILE)
_AVRO = b"avro"
"""The metadata of an extra column: its declaration in the manifest it came from."""


class ManifestBytes(NamedTuple):
    """One manifest to decode: its path, for errors, and its bytes."""

    path: str | None
    data: bytes


def decode(manifests: Sequence[ManifestBytes]) -> tuple[ManifestEntries, list[int]]:
    """The entries of some manifests in order, and how many each holds.

    Raises `Corrupt` (with path, offset and field), `LimitExceeded`, or `Unsupported` for an entry of another version.
    """
    found: list[tuple[list[int], ManifestEntries]] = []  # places of the manifests that were decoded together, their entries
    groups: dict[int, list[tuple[int, Container]]] = {}
    counts = [0] * len(manifests)
    columnar = [place for place, manifest in enumerate(manifests) if metadata_records.is_columnar(manifest.data)]
    for place in columnar:
        part = _decode_columnar(manifests[place])
        counts[place] = len(part)
        found.append(([place], part))
    others = sorted({*range(len(manifests))}.difference(columnar)) if columnar else range(len(manifests))
    for place in others:
        container = avro_container.open_container(manifests[place].data, path=manifests[place].path)
        counts[place] = container.count
        if container.blocks:
            groups.setdefault(id(container.schema), []).append((place, container))
    found += [([place for place, _ in group], _decode_batches([container for _, container in group])) for group in groups.values()]
    if len(found) < 2:
        return (found[0][1] if found else manifest_entries.empty()), counts
    ordered = manifest_entries.concat([part for _, part in found])
    places = np.repeat([place for group, _ in found for place in group], [counts[place] for group, _ in found for place in group])
    return ordered.take(np.argsort(places, kind="stable")), counts


def decode_where(manifests: Sequence[ManifestBytes], keep: Keep) -> ManifestEntries:
    """The entries of some manifests whose serialized partitions the mask keeps; others cost little. Raises as `decode` does."""
    found = None
    if not any(metadata_records.is_columnar(manifest.data) for manifest in manifests):
        containers = [avro_container.open_container(manifest.data, path=manifest.path) for manifest in manifests]
        containers = [container for container in containers if container.blocks]
        if len({id(container.schema) for container in containers}) == 1:
            with suppress(Corrupt):  # what is wrong, and where, is for the whole to say
                found = _decode_batches(containers, keep)
    if found is None:
        found, _ = decode(manifests)
    return found.filter(keep(found.column("partition"))) if len(found) else found


def _decode_batches(containers: list[Container], keep: Keep | None = None) -> ManifestEntries:
    """Avro manifests of one schema, a bounded number of bytes at a time."""
    return manifest_entries.concat([_decode_avro(some, keep) for some in avro_columns.batches(containers)])


def _decode_avro(containers: list[Container], keep: Keep | None) -> ManifestEntries:
    schema = containers[0].schema
    record = record_of(schema)
    as_usual = record.names[:3] == ("_VERSION", "_KIND", "_PARTITION")
    branch = None if record is schema else schema.parts.index(record)  # some writers wrap records in a union with null
    found = avro_columns.decode(containers, guess=partial(_guess, branch=branch) if as_usual else None, where=None if keep is None else ("_PARTITION", keep))
    file = record.part("_FILE")
    return _table(found, None if file is None else file.value, _EntryOrigin(containers))


def _decode_columnar(manifest: ManifestBytes) -> ManifestEntries:
    table = metadata_records.table(manifest.data, manifest.path).combine_chunks()
    found = {name: manifest_entries.one_piece(table.column(name)) for name in table.column_names}
    return _table(found, None, _EntryOrigin([], manifest.path))


def _guess(lanes: VectorReader, branch: int | None = None) -> NDArray[np.int64]:
    """Where entries seem to start: their `branch` of a union, if they are in one, version 2, a known kind, then a partition row.

    A row is padded to 8 bytes behind its arity, so its length is 4 more than a multiple of 8 and at least 12; its arity is below 256, its row kind 0.
    """
    data = lanes.bytes
    places = np.flatnonzero(data[: lanes.size] == 2 * VERSION)
    places = places[data[places + 1] <= 2 * manifest_entries.DELETE]
    length = data[places + 2]
    fits = (length >= 24) & (length & 15 == 8)
    row = places[fits] + 3 + (length[fits] > 127)
    arity_and_kind = lanes.words[np.minimum(row, lanes.last_word)] & np.uint64(0xFF_00_FF_FF_FF)
    places = places[fits][arity_and_kind == 0]
    return places if branch is None else places[data[places - 1] == 2 * branch] - 1


class _EntryOrigin:
    """Which file and block an entry came from, for errors."""

    def __init__(self, containers: list[Container], path: str | None = None) -> None:
        self.containers = containers
        self.path = path

    def wrong(self, why: str, field: str, row: int = 0) -> Corrupt:
        for container in self.containers:
            for block in container.blocks:
                if row < block.count:
                    return avro_columns.with_block_offset(Corrupt(f"{why}, in record {row}", field=field), container, block)
                row -= block.count
        return invalid_field(why, field, self.path)


def _table(found: Mapping[str, pa.Array], file_type: AvroNode | None, where: _EntryOrigin) -> ManifestEntries:
    """Columns under the names of the format to columns under ours, checked."""
    file = found.get("_FILE")
    if file is None or not pa.types.is_struct(file.type) or file.null_count:
        raise where.wrong("_FILE is not a record", "_FILE")
    inner = {f.name: part for f, part in zip(file.type, file.flatten(), strict=True)}
    size = len(file)
    columns = {ours: _column(found.get(name), name, ours, size, where) for name, ours in _HEAD.items()}
    columns |= {ours: _column(inner.get(name), name, ours, size, where) for name, ours in _FILE.items()}
    for name, ours in (("_KEY_STATS", "key"), ("_VALUE_STATS", "value")):
        stats = inner.get(name)
        if stats is None or not pa.types.is_struct(stats.type) or stats.null_count:
            raise where.wrong(f"{name} is not a record", name)
        parts = {f.name: part for f, part in zip(stats.type, stats.flatten(), strict=True)}
        columns |= {f"{ours}_{end}": _column(parts.get(part), f"{name}.{part}", f"{ours}_{end}", size, where) for part, end in _STATS.items()}
    _check(found.get("_VERSION"), columns, where)
    fields, arrays = list(SCHEMA), [columns[name] for name in SCHEMA.names]
    for name, part in zip(file_type.names, file_type.parts, strict=True) if file_type is not None else ():
        if name not in _KNOWN_FIELDS and metadata_records.may_be_kept(part) and inner[name].null_count < size:
            fields.append(pa.field(name, inner[name].type, metadata={_AVRO: json.dumps(part.declared).encode()}))
            arrays.append(inner[name])
    return ManifestEntries(pa.Table.from_arrays(arrays, schema=pa.schema(fields)))


def _column(found: pa.Array | None, name: str, ours: str, size: int, where: _EntryOrigin) -> pa.Array:
    field = SCHEMA.field(ours)
    if found is None:
        if not field.nullable:
            raise where.wrong(f"{name} is not there", name)
        return pa.nulls(size, field.type)
    if found.null_count and not field.nullable:
        raise where.wrong(f"{name} is null", name, int(np.flatnonzero(found.is_null().to_numpy(zero_copy_only=False))[0]))
    if found.type == field.type:
        return found
    if _type_family(found.type) != _type_family(field.type) and not pa.types.is_null(found.type):
        raise where.wrong(f"{name} is {found.type}, {field.type} wanted", name)
    try:
        return found.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise where.wrong(f"{name} is {found.type}, {field.type} wanted: {str(error)[:120]}", name) from None


def _type_family(t: pa.DataType) -> str:
    """Types whose values may stand for each other: numbers of another width, times by their milliseconds. Text is never read as a number."""
    if pa.types.is_integer(t) or pa.types.is_timestamp(t):
        return "number"
    if pa.types.is_list(t):
        return f"list of {_type_family(t.value_type)}"
    return str(t)


def _check(version: pa.Array | None, columns: Mapping[str, pa.Array], where: _EntryOrigin) -> None:
    if version is None or version.null_count or not pa.types.is_integer(version.type):
        raise where.wrong("_VERSION is not a number", "_VERSION")
    versions = version.to_numpy()
    if (versions != VERSION).any():
        path = where.containers[0].path if where.containers else where.path
        metadata_records.check_version([int(versions[versions != VERSION][0])], VERSION, "manifest entry", path)
    for name, ours in (("_KIND", "kind"), ("_FILE_SIZE", "file_size"), ("_ROW_COUNT", "row_count"), ("_LEVEL", "level")):
        values = columns[ours].to_numpy()
        broken = (values < 0) | (values > manifest_entries.DELETE) if ours == "kind" else values < 0
        if broken.any():
            row = int(np.flatnonzero(broken)[0])
            raise where.wrong(f"{name} is {values[row]}", name, row)


# ---- writing -----------------------------------------------------------------------------------------------------------------------------------------------


def encode(found: ManifestEntries, **how: Any) -> bytes:
    """Entries as one manifest by the reference's schema; columns of newer writers follow its own, as far as they are set. `how`: see `metadata_file.write`."""
    table = found.table
    added = [f for f in table.schema if f.name not in SCHEMA.names and table.column(f.name).null_count < len(found)]
    fields = record_schemas.entry(tuple((f.name, json.loads(f.metadata[_AVRO])) for f in added))
    return metadata_records.write(fields, records(found, [f.name for f in added]), **how)


def records(found: ManifestEntries, added: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Entries as the records of a manifest; `added` names columns of newer writers to put into `_FILE`."""
    made = found.table.schema.get_field_index("creation_time")
    table = found.table.set_column(made, "creation_time", found.table.column("creation_time").cast(pa.int64()))
    for batch in table.to_batches(max_chunksize=10_000):
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        for i in range(batch.num_rows):
            file = {name: columns[ours][i] for name, ours in _FILE.items()} | {name: columns[name][i] for name in added}
            for name, ours in (("_KEY_STATS", "key"), ("_VALUE_STATS", "value")):
                file[name] = {part: columns[f"{ours}_{end}"][i] for part, end in _STATS.items()}
            yield {"_VERSION": VERSION, "_FILE": file} | {name: columns[ours][i] for name, ours in _HEAD.items()}


def encode_rows(rows: Sequence[Row], **how: Any) -> bytes:
    """A few entries, given as facts, as one manifest. `how`: see `metadata_file.write`."""
    return metadata_records.write(_ENTRY, map(_record_of_row, rows), **how)


_ENTRY = record_schemas.entry()


def _record_of_row(row: Row) -> dict[str, Any]:
    kind, partition, bucket, total_buckets, file = row
    record = {
        "_FILE_NAME": file.name,
        "_FILE_SIZE": file.size_bytes,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": stats_record(file.key_stats),
        "_VALUE_STATS": stats_record(file.value_stats),
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
    return {"_VERSION": VERSION, "_KIND": kind, "_PARTITION": partition, "_BUCKET": bucket, "_TOTAL_BUCKETS": total_buckets, "_FILE": record}
