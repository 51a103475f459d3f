"""Checks of data, changelog and index files: each exists, is intact and is as its manifest entry says.

    data, changelog     size, row count, a valid end; each directory is listed once
    Parquet, ORC        row count of the footer, in the file's last bytes
    Avro                the sum over the heads of its blocks; other formats state none
    index               deletion vectors mark rows of live files, hash indexes match buckets

Source: FORMAT.md 4.3, 4.4, 6.4, 7, 8; ENGINE.md 7.3, 8; RELIABILITY I4, I10.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lakekit.codec import avro_container, orc_tail
from lakekit.data_file import deletion_vector_reader
from lakekit.data_file.paths import data_file_paths, partition_path
from lakekit.draw.humanize import format_count
from lakekit.errors import Corrupt, LakekitError, Unsupported
from lakekit.format import parquet_footer
from lakekit.maintenance.check.findings import REBUILD_INDEX_REMEDY, RESTORE_REMEDY, REWRITE_REMEDY, ROLLBACK_REMEDY
from lakekit.model.data_file import INDEX_SUFFIX, format_of_name
from lakekit.model.index_manifest import DELETION_VECTORS, HASH_INDEX
from lakekit.parallel import parallel_map
from lakekit.storage.protocol import FileMissing
from lakekit.write import dynamic_bucket

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from lakekit.maintenance.check.findings import Findings
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_manifest import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries

    BucketId = tuple[bytes, int]
    HashesByBucket = dict[BucketId, NDArray[np.int32]]


_TAIL_BYTES = 1 << 16
_END_BYTES = 8
_PARQUET_MAGIC, _ENCRYPTED_MAGIC = b"PAR1", b"PARE"


def read_row_count(
    ctx: TableContext, path: str, format_name: str, size_bytes: int, file_kind: str, findings: Findings
) -> int | None:
    """Return the row count of a file; None if it cannot be read, which becomes a finding."""
    with findings.reading_file(file_kind, path):
        match format_name:
            case "parquet":
                return _parquet_row_count(ctx, path, size_bytes)
            case "orc":
                return orc_tail.row_count(partial(ctx.storage.read, path), size_bytes)
            case "avro":
                packed = avro_container.open_blocks(ctx.storage.read(path), path=path)
                return sum(block.count for _, block in packed.inflate())
            case other:
                raise Unsupported(
                    f"{path}: data files of format {other!r} are not looked into",
                    feature=f"file.format.{other}",
                    path=path,
                )
    return None


def _parquet_row_count(ctx: TableContext, path: str, size_bytes: int) -> int:
    first = max(0, size_bytes - _TAIL_BYTES)
    tail = ctx.storage.read(path, first, size_bytes - first)
    if tail[-4:] == _ENCRYPTED_MAGIC:
        raise Unsupported(
            f"{path} is encrypted Parquet, which lakekit does not read", feature="parquet.encryption", path=path
        )
    if tail[-4:] != _PARQUET_MAGIC:
        raise Corrupt(
            f"{path} ends with {tail[-4:].hex(' ')}, where PAR1 was expected",
            path=path,
            offset=size_bytes - 4,
            field="magic",
        )
    length = int.from_bytes(tail[-_END_BYTES:-4], "little")
    start = size_bytes - _END_BYTES - length
    if start < 4:
        raise Corrupt(
            f"{path}: a footer of {length} bytes does not fit into a file of {size_bytes}",
            path=path,
            offset=size_bytes - 8,
            field="footer length",
        )
    footer = tail[start - first : -_END_BYTES] if start >= first else ctx.storage.read(path, start, length)
    try:
        return parquet_footer.read_row_count(footer)
    except Corrupt as damaged:
        raise damaged.at(path) from None


# ---- files ------------------------------------------------------------


FILES_PER_TASK = 32


def resolve_data_paths(ctx: TableContext, entries: ManifestEntries, findings: Findings) -> list[str] | None:
    """Return the paths of files; None if a name or a partition is invalid, which becomes a finding."""
    with findings.reading_file("place of a file", ctx.root):
        return data_file_paths(ctx, entries)
    return None


def list_file_sizes(ctx: TableContext, paths: Iterable[str]) -> dict[str, int]:
    """Return the size of every file in the directories of some paths, by path."""
    directories = sorted({path.rpartition("/")[0] for path in paths})
    listed = parallel_map(ctx.storage.list, directories, waiting=ctx.storage.is_remote)
    return {
        f"{directory}/{entry.name}": entry.size_bytes
        for directory, entries in zip(directories, listed, strict=True)
        for entry in entries
        if not entry.is_dir
    }


def check_files(
    ctx: TableContext, entries: ManifestEntries, paths: list[str], file_kind: str, findings: Findings
) -> list[int]:
    """Check the files of some entries, which lie at the paths `paths`; return the indices of intact ones."""
    names = entries.column("file_name").to_pylist()  # scalar: one a file, as everything here
    expected_sizes, rows, extra = (
        entries.column(name).to_pylist() for name in ("file_size", "row_count", "extra_files")
    )  # scalar: one a file
    findings.paths.update(paths)
    actual_sizes: dict[str, int] = {}
    with findings.reading_file("directory", ctx.root):
        actual_sizes = list_file_sizes(ctx, paths)
    findings.paths.discard(ctx.root)
    intact = []
    for i, path in enumerate(paths):
        size_bytes = actual_sizes.get(path)
        if size_bytes is None:
            findings.add_problem(
                f"{file_kind} is missing",
                f"the manifest lists {names[i]} with {format_count(rows[i])} rows, no file is there",
                path=path,
                remedy=ROLLBACK_REMEDY,
            )
        elif size_bytes != expected_sizes[i]:
            message = f"{format_count(size_bytes)} bytes are there, the manifest says {format_count(expected_sizes[i])}"
            findings.add_problem(
                f"{file_kind} has another size", message, path=path, field="_FILE_SIZE", remedy=RESTORE_REMEDY
            )
        else:
            intact.append(i)
        for name in extra[i]:
            extra_path = ctx.paths.extra_file(path, name)
            findings.paths.add(extra_path)
            if extra_path not in actual_sizes:
                message = f"{names[i]} names {name}, which is not there"
                remedy = REBUILD_INDEX_REMEDY if name.endswith(INDEX_SUFFIX) else ROLLBACK_REMEDY
                findings.add_problem(
                    "extra file is missing", message, path=extra_path, field="_EXTRA_FILES", remedy=remedy
                )

    def counted(chunk: list[int]) -> list[tuple[int, int | None]]:
        return [
            (i, read_row_count(ctx, paths[i], format_of_name(names[i]), expected_sizes[i], file_kind, findings))
            for i in chunk
        ]

    good = []
    remote = ctx.storage.is_remote
    step = 1 if remote else FILES_PER_TASK
    parts = parallel_map(counted, [intact[i : i + step] for i in range(0, len(intact), step)], waiting=remote)
    for i, found_rows in (pair for part in parts for pair in part):
        if found_rows is not None and found_rows != rows[i]:
            message = f"the file holds {format_count(found_rows)} rows, the manifest says {format_count(rows[i])}"
            findings.add_problem(
                f"{file_kind} has another row count", message, path=paths[i], field="_ROW_COUNT", remedy=RESTORE_REMEDY
            )
        elif found_rows is not None:
            good.append(i)
    return good


# ---- index ------------------------------------------------------------


_DANGLING_REMEDY = "compact the bucket with t.compact(full=True), which writes its vectors anew"
_MISSING_INDEX_REMEDY = (
    "keys that are written again may go to another bucket: write the partition anew with t.overwrite"
)


def check_index_files(
    ctx: TableContext, live_entries: ManifestEntries, index: list[IndexManifestEntry], findings: Findings
) -> HashesByBucket:
    """Check all index files, and return the hashes that could be read, by partition and bucket."""
    path_by_entry = {}
    for entry in index:
        with findings.reading_file("place of an index file", ctx.root):
            path_by_entry[id(entry)] = deletion_vector_reader.index_path(ctx, entry)
    actual_sizes: dict[str, int] = {}
    with findings.reading_file("directory", ctx.root):
        actual_sizes = list_file_sizes(ctx, path_by_entry.values())
    findings.paths.discard(ctx.root)
    findings.paths.update(path_by_entry.values())
    intact = []
    for entry in index:
        path = path_by_entry.get(id(entry))
        if path is None:
            continue
        size_bytes = actual_sizes.get(path)
        if size_bytes is None:
            findings.add_problem(
                "index file is missing",
                f"the index manifest lists {entry.file_name}, which is not there",
                path=path,
                remedy=ROLLBACK_REMEDY,
            )
        elif size_bytes != entry.file_size_bytes:
            message = (
                f"{format_count(size_bytes)} bytes are there, the index manifest says "
                f"{format_count(entry.file_size_bytes)}"
            )
            findings.add_problem(
                "index file has another size", message, path=path, field="_FILE_SIZE", remedy=RESTORE_REMEDY
            )
        else:
            intact.append(entry)
    files = _row_counts_by_bucket(live_entries)
    _check_vector_targets(ctx, index, path_by_entry, files, findings)
    for entry in intact:
        if entry.index_type == DELETION_VECTORS:
            _check_vectors(ctx, entry, path_by_entry[id(entry)], files, findings)
    return _read_hash_indexes(ctx, index, intact, path_by_entry, files, findings)


def _row_counts_by_bucket(live_entries: ManifestEntries) -> dict[BucketId, dict[str, int]]:
    """Return the row count of each live file by name, for each partition and bucket."""
    row_counts: dict[BucketId, dict[str, int]] = defaultdict(dict)
    columns = (
        live_entries.column(name).to_pylist() for name in ("partition", "bucket", "file_name", "row_count")
    )  # scalar: one a file
    for partition, bucket, name, rows in zip(*columns, strict=True):
        row_counts[partition, bucket][name] = rows
    return row_counts


def _check_vector_targets(
    ctx: TableContext,
    index: list[IndexManifestEntry],
    path_by_entry: dict[int, str],
    row_counts: dict[BucketId, dict[str, int]],
    findings: Findings,
) -> None:
    """Check that each deletion vector is of a live file of its bucket, and that no file has two."""
    seen: set[tuple[BucketId, str]] = set()
    for entry in index:
        path = path_by_entry.get(id(entry))
        if entry.index_type != DELETION_VECTORS or path is None:
            continue
        bucket_id = entry.partition, entry.bucket
        if entry.row_count != len(entry.ranges):
            message = f"the index manifest lists {len(entry.ranges)} deletion vectors and says {entry.row_count}"
            findings.add_problem(
                "number of deletion vectors", message, path=path, field="_ROW_COUNT", remedy=_DANGLING_REMEDY
            )
        for part in entry.ranges:
            where = f"bucket {entry.bucket}{' of ' + named if (named := partition_path(ctx, entry.partition)) else ''}"
            if part.file_name not in row_counts.get(bucket_id, {}):
                message = (
                    f"the deletion vector of {part.file_name} is of no live file of {where}: the reference leaves "
                    "such after a full compaction"
                )
                findings.add_advice(
                    "deletion vector points at no live file",
                    message,
                    path=path,
                    field="_DELETIONS_VECTORS_RANGES",
                    remedy=_DANGLING_REMEDY,
                )
            elif (bucket_id, part.file_name) in seen:
                message = f"{part.file_name} of {where} has two deletion vectors: which of them counts is chance"
                findings.add_problem(
                    "file has two deletion vectors",
                    message,
                    path=path,
                    field="_DELETIONS_VECTORS_RANGES",
                    remedy=_DANGLING_REMEDY,
                )
            seen.add((bucket_id, part.file_name))


def _check_vectors(
    ctx: TableContext,
    entry: IndexManifestEntry,
    path: str,
    row_counts: dict[BucketId, dict[str, int]],
    findings: Findings,
) -> None:
    """Check the checksums, cardinalities and positions of the vectors in one index file."""
    rows = row_counts.get((entry.partition, entry.bucket), {})
    try:
        vectors = deletion_vector_reader.load_positions(ctx, {part.file_name: entry for part in entry.ranges})
    except (LakekitError, FileMissing):
        vectors = {}
        for part in entry.ranges:  # one by one, so that each damaged vector is told
            with findings.reading_file("deletion vector", path):
                vectors |= deletion_vector_reader.load_positions(ctx, {part.file_name: replace(entry, ranges=(part,))})
    for name, positions in vectors.items():
        if len(positions) and int(positions[-1]) >= rows.get(name, 2**63):
            message = (
                f"the deletion vector of {name} marks row {format_count(int(positions[-1]))} of "
                f"{format_count(rows[name])}"
            )
            findings.add_problem(
                "deletion vector is beyond its file",
                message,
                path=path,
                field="_DELETIONS_VECTORS_RANGES",
                remedy=REWRITE_REMEDY,
            )


def _read_hash_indexes(
    ctx: TableContext,
    index: list[IndexManifestEntry],
    intact: list[IndexManifestEntry],
    path_by_entry: dict[int, str],
    row_counts: dict[BucketId, dict[str, int]],
    findings: Findings,
) -> HashesByBucket:
    """Return the hashes of each bucket of a dynamic-bucket table; report buckets with two indexes or none."""
    hashes: HashesByBucket = {}
    listed: set[BucketId] = set()
    for entry in index:
        bucket_id = entry.partition, entry.bucket
        if entry.index_type == HASH_INDEX and bucket_id in listed:
            message = f"bucket {entry.bucket} has two hash indexes: which of them counts is chance"
            findings.add_problem(
                "bucket has two hash indexes",
                message,
                path=path_by_entry.get(id(entry)),
                field="_BUCKET",
                remedy=_MISSING_INDEX_REMEDY,
            )
        if entry.index_type == HASH_INDEX:
            listed.add(bucket_id)
    for entry in intact:
        if entry.index_type == HASH_INDEX:
            with findings.reading_file("hash index", path_by_entry[id(entry)]):
                hashes[entry.partition, entry.bucket] = dynamic_bucket.read_hash_index(ctx, entry)
    if has_hash_indexes(ctx):
        for partition, bucket in sorted(row_counts.keys() - listed):
            named = partition_path(ctx, partition)
            message = f"bucket {bucket}{f' of {named}' if named else ''} has files and no hash index"
            findings.add_problem(
                "hash index is missing",
                message,
                path=ctx.paths.bucket_dir(named, bucket),
                field="_INDEX_TYPE",
                remedy=_MISSING_INDEX_REMEDY,
            )
    return hashes


def has_hash_indexes(ctx: TableContext) -> bool:
    """Return whether hash indexes assign keys to buckets.

    That is so in key tables with dynamic buckets whose key contains the partition columns.
    """
    schema = ctx.schema
    return (
        bool(schema.primary_keys)
        and ctx.options.bucket == -1
        and set(schema.partition_keys) <= set(schema.primary_keys)
    )
