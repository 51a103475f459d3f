"""Manifest lists: the manifests that make up a snapshot.

    snapshot ── base list ──┬─ manifest ── entries (ADD or DELETE of a data file)
             └─ delta list ─┘      ManifestFileMeta: name, size, number of entries,
                                   range of partitions, buckets, levels, row ids

Source: FORMAT.md 4.2, `ManifestFileMeta`, `ManifestFileMetaSerializer`.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakekit.codec import avro_columns, avro_container, avro_schema
from lakekit.codec.avro_container import ZSTD_LEVEL, Block
from lakekit.codec.avro_schema import unwrap_record
from lakekit.errors import Corrupt, Unsupported
from lakekit.model import metadata_records
from lakekit.model.data_file import Stats
from lakekit.model.metadata_records import ExtraField, invalid_field, read_count, read_value
from lakekit.model.table_paths import checked_name
from lakekit.types import first_duplicate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakekit.codec.avro_container import Container

LIST_VERSION = 2
_FREE_RECORDS = 1 << 14
_MIN_RECORD_BYTES = 8
"""A list of any size may name so many manifests; of further ones each takes so many bytes of it."""
_KNOWN_FIELDS = frozenset(name for name, _ in metadata_records.MANIFEST_LIST_FIELDS)
_CURRENT_SCHEMA = avro_schema.parse_schema(metadata_records.schema_text(metadata_records.MANIFEST_LIST_FIELDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFileMeta:
    """Metadata of one manifest, as its list holds it.

    `partition_stats` covers the partition columns of all its entries, exactly. The bounds of buckets, levels and row
    ids are None if the list lacks them; `max_row_id` is the last id itself. `extra` are fields of newer writers, kept
    for the next list.
    """

    name: str
    size_bytes: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: Stats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    extra: tuple[ExtraField, ...] = ()

    @property
    def extra_files(self) -> tuple[str, ...]:
        """Return the names of the files that belong to the manifest, such as its sidecar.

        Raises `Corrupt` for a name that is not plain.
        """
        names = next((extra_field.value for extra_field in self.extra if extra_field.name == "_EXTRA_FILES"), None)
        return tuple(checked_name(name, field="_EXTRA_FILES") for name in names or () if isinstance(name, str))


def decode_list(data: bytes, *, path: str | None = None) -> list[ManifestFileMeta]:
    """Return the manifests of a list, in order.

    Raises `Corrupt`, `LimitExceeded`, or `Unsupported` for another version.
    """
    file_records = metadata_records.read_records(data, path, max_records=_max_records(len(data)))
    metadata_records.check_version(
        file_records.convert(lambda row: read_value(row, "_VERSION", int, path)), LIST_VERSION, "manifest list", path
    )
    files = file_records.convert(
        lambda row: _read_meta(row, file_records.rewritable_unknown_fields(row, _KNOWN_FIELDS), path)
    )
    if (repeated := first_duplicate(file.name for file in files)) is not None:
        raise invalid_field(f"_FILE_NAME {repeated} occurs twice: its entries would count twice", "_FILE_NAME", path)
    return files


def _max_records(size_bytes: int) -> int:
    """Return the most manifests in a list of that size: no codec packs a random name into 8 bytes."""
    return _FREE_RECORDS + size_bytes // _MIN_RECORD_BYTES


def _read_meta(row: dict[str, Any], extra: tuple[ExtraField, ...], path: str | None) -> ManifestFileMeta:
    return ManifestFileMeta(
        name=checked_name(read_value(row, "_FILE_NAME", str, path), path=path, field="_FILE_NAME"),
        size_bytes=read_count(row, "_FILE_SIZE", path),
        num_added_files=read_count(row, "_NUM_ADDED_FILES", path),
        num_deleted_files=read_count(row, "_NUM_DELETED_FILES", path),
        partition_stats=read_stats(read_value(row, "_PARTITION_STATS", dict, path), "_PARTITION_STATS", path),
        schema_id=read_count(row, "_SCHEMA_ID", path),
        min_bucket=read_value(row, "_MIN_BUCKET", int, path, default=None),
        max_bucket=read_value(row, "_MAX_BUCKET", int, path, default=None),
        min_level=read_value(row, "_MIN_LEVEL", int, path, default=None),
        max_level=read_value(row, "_MAX_LEVEL", int, path, default=None),
        min_row_id=read_value(row, "_MIN_ROW_ID", int, path, default=None),
        max_row_id=read_value(row, "_MAX_ROW_ID", int, path, default=None),
        extra=extra,
    )


def decode_lists(lists: Sequence[tuple[str | None, bytes]]) -> list[list[ManifestFileMeta]]:
    """Decode many lists, each given as its path and its bytes, as `decode_list` does.

    A manifest that several of them hold is one object, decoded once. A list mostly begins as one before it and ends as
    another: shared runs are decoded once, and the rest as columns side by side.
    """
    decoded: list[list[ManifestFileMeta] | None] = [None] * len(lists)
    groups: dict[int, list[tuple[int, Container]]] = {}
    for index, (path, data) in enumerate(lists):
        if metadata_records.is_columnar(data):
            continue
        container = avro_container.open_container(data, path=path)
        metadata_records.check_count(container.count, _max_records(len(data)), path)
        if container.blocks and _KNOWN_FIELDS.issuperset(unwrap_record(container.schema).names):
            groups.setdefault(id(container.schema), []).append((index, container))
    for group in groups.values():
        runs = _Runs()
        parts = [
            (index, [part for block in container.blocks for part in runs.indices_of(block)])
            for index, container in group
        ]
        facts = _decode_runs(group[0][1], runs.blocks)
        if facts is not None:
            for index, numbers in parts:
                files = list(chain.from_iterable([facts[number] for number in numbers]))
                if first_duplicate(file.name for file in files) is None:
                    decoded[index] = files
    return [
        decode_list(data, path=path) if files_of_list is None else files_of_list
        for files_of_list, (path, data) in zip(decoded, lists, strict=True)
    ]


class _Runs:
    """Runs of records that blocks are made of, each distinct one once.

    A block that begins with all of an earlier one consists of that one's runs and a rest. Base and delta lists
    alternate, so a few earlier blocks are tried, the last useful one first.
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._numbers: dict[bytes, int] = {}
        self._earlier_blocks: list[tuple[Block, list[int]]] = []

    def indices_of(self, block: Block) -> list[int]:
        """Return the indices of a block's runs among `blocks`."""
        for index, (first, runs) in enumerate(self._earlier_blocks):
            left = block.count - first.count
            if left > 0 and block.data.startswith(first.data):
                run_numbers = [*runs, self._number(block.data[len(first.data) :], left, block.offset)]
                self._earlier_blocks.pop(index)
                break
        else:
            run_numbers = [self._number(block.data, block.count, block.offset)]
        self._earlier_blocks = [(block, run_numbers), *self._earlier_blocks[: _MAX_EARLIER - 1]]
        return run_numbers

    def _number(self, data: bytes, count: int, offset: int) -> int:
        number = self._numbers.get(data)
        if number is None or self.blocks[number].count != count:
            number = self._numbers[data] = len(self.blocks)
            self.blocks.append(Block(data=data, count=count, offset=offset))
        return number


_MAX_EARLIER = 4


def _decode_runs(sample: Container, blocks: Sequence[Block]) -> list[list[ManifestFileMeta]] | None:
    """Decode runs of records that have the schema of container `sample`.

    Returns None if one is invalid; decoding each list by itself then reports the error.
    """
    decoded: list[list[ManifestFileMeta]] = []
    with suppress(Corrupt, Unsupported, KeyError, pa.ArrowException):
        for batch in avro_columns.batch_containers(replace(sample, blocks=(block,)) for block in blocks):
            ends = np.cumsum([container.count for container in batch])
            table = pa.table(avro_columns.decode_columns(batch))
            codes = table.column("_FILE_NAME").combine_chunks().dictionary_encode().indices.to_numpy()
            _, first = np.unique(codes, return_index=True)
            distinct = table.take(pa.array(first))
            if not distinct.take(pa.array(codes)).equals(table):  # those of one name do not say the same
                return None
            facts = _read_metas(distinct)
            decoded += [
                [facts[code] for code in codes[start:end]] for start, end in zip((0, *ends[:-1]), ends, strict=True)
            ]
        return decoded
    return None


_USUAL_COLUMNS = [
    (name, avro_columns.arrow_type(part))
    for name, part in zip(_CURRENT_SCHEMA.names, _CURRENT_SCHEMA.children, strict=True)
]
_COUNT_FIELDS = ("_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES", "_SCHEMA_ID")
_BOUND_FIELDS = {
    name: name.lower().removeprefix("_")
    for name in ("_MIN_BUCKET", "_MAX_BUCKET", "_MIN_LEVEL", "_MAX_LEVEL", "_MIN_ROW_ID", "_MAX_ROW_ID")
}


def _read_metas(table: pa.Table) -> list[ManifestFileMeta]:
    """Convert many records; those of today's schema a column at a time. Raises `Corrupt`, `Unsupported`."""
    if [(part.name, part.type) for part in table.schema] != _USUAL_COLUMNS:
        rows = table.to_pylist()
        metadata_records.check_version(
            [read_value(row, "_VERSION", int, None) for row in rows], LIST_VERSION, "manifest list", None
        )
        return [_read_meta(row, (), None) for row in rows]
    metadata_records.check_version(table.column("_VERSION").unique().to_pylist(), LIST_VERSION, "manifest list", None)
    columns = {
        name: table.column(name).to_pylist() for name in ("_FILE_NAME", *_COUNT_FIELDS, *_BOUND_FIELDS)
    }  # scalar: one a manifest, as all below
    if any(min(columns[name], default=0) < 0 for name in _COUNT_FIELDS):
        raise Corrupt("a number below 0", field="_FILE_SIZE")
    low, high, nulls = (part.to_pylist() for part in table.column("_PARTITION_STATS").combine_chunks().flatten())
    ranges = [
        Stats(min_values=first, max_values=last, null_counts=None if counts is None else tuple(counts))
        for first, last, counts in zip(low, high, nulls, strict=True)
    ]
    counts_ = zip(*(columns[name] for name in _COUNT_FIELDS), strict=True)
    return [
        ManifestFileMeta(
            name=checked_name(name, field="_FILE_NAME"),
            size_bytes=size_bytes,
            num_added_files=added,
            num_deleted_files=deleted,
            partition_stats=ranges[index],
            schema_id=schema_id,
            **{field: columns[own][index] for own, field in _BOUND_FIELDS.items()},
        )
        for index, (name, (size_bytes, added, deleted, schema_id)) in enumerate(
            zip(columns["_FILE_NAME"], counts_, strict=True)
        )
    ]


def read_stats(row: dict[str, Any], field: str, path: str | None) -> Stats:
    """Return the SimpleStats record in a field."""
    nulls = read_value(row, "_NULL_COUNTS", list, path, default=None)
    if nulls is not None and not all(number is None or isinstance(number, int) for number in nulls):
        raise invalid_field(f"{field}._NULL_COUNTS holds something else than numbers", field, path)
    return Stats(
        min_values=read_value(row, "_MIN_VALUES", bytes, path),
        max_values=read_value(row, "_MAX_VALUES", bytes, path),
        null_counts=None if nulls is None else tuple(nulls),
    )


def stats_to_record(simple_stats: Stats) -> dict[str, Any]:
    """Return statistics as a SimpleStats record."""
    return {
        "_MIN_VALUES": simple_stats.min_values,
        "_MAX_VALUES": simple_stats.max_values,
        "_NULL_COUNTS": None if simple_stats.null_counts is None else list(simple_stats.null_counts),
    }


def encode_list(files: Sequence[ManifestFileMeta], **write_options: Any) -> bytes:
    """Encode a manifest list of the reference's schema. `write_options`: see `metadata_records.write`.

    Fields of `extra` follow its own.
    """
    added = extra_fields(file.extra for file in files)
    if not added and write_options.get("kind", "avro") == "avro" and "sync" not in write_options:
        return metadata_records.write_encoded(
            metadata_records.MANIFEST_LIST_FIELDS,
            map(_encode_file, files),
            codec=write_options.get("codec", "zstandard"),
            level=write_options.get("level", ZSTD_LEVEL),
        )
    fields = (
        *metadata_records.MANIFEST_LIST_FIELDS,
        *((name, json.loads(declared)) for name, declared in added.items()),
    )
    rows = (
        dict.fromkeys(added) | to_record(file) | {e.name: e.value for e in file.extra if e.declaration == added[e.name]}
        for file in files
    )
    return metadata_records.write_records(fields, rows, **write_options)


@lru_cache(maxsize=4096)
def _encode_file(file: ManifestFileMeta) -> bytes:
    """Encode the record of a manifest; cached, as each list repeats most of the list before."""
    return metadata_records.encode_record(metadata_records.MANIFEST_LIST_FIELDS, to_record(file))


def to_record(file: ManifestFileMeta) -> dict[str, Any]:
    """Return the members of a manifest in a list, without those of newer writers."""
    return {
        "_VERSION": LIST_VERSION,
        "_FILE_NAME": file.name,
        "_FILE_SIZE": file.size_bytes,
        "_NUM_ADDED_FILES": file.num_added_files,
        "_NUM_DELETED_FILES": file.num_deleted_files,
        "_PARTITION_STATS": stats_to_record(file.partition_stats),
        "_SCHEMA_ID": file.schema_id,
        "_MIN_BUCKET": file.min_bucket,
        "_MAX_BUCKET": file.max_bucket,
        "_MIN_LEVEL": file.min_level,
        "_MAX_LEVEL": file.max_level,
        "_MIN_ROW_ID": file.min_row_id,
        "_MAX_ROW_ID": file.max_row_id,
    }


def extra_fields(extras_of_files: Iterable[Iterable[ExtraField]]) -> dict[str, str]:
    """Return names and declarations of all extra fields; the first declaration of a name counts."""
    added: dict[str, str] = {}
    for extras in extras_of_files:
        for extra in extras:
            added.setdefault(extra.name, extra.declaration)
    return added
