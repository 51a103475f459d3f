"""Index files: each is there and whole; deletion vectors mark rows of live files, hash indexes stand by the buckets whose keys they know.

Sources: FORMAT.md 4.4, 6.4, 8; ENGINE.md 7.3, 8; RELIABILITY I10.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.data_file import deletion_vector_reader
from lakekit.data_file.paths import partition_path
from lakekit.draw.humanize import format_count
from lakekit.errors import LakekitError
from lakekit.maintenance.check.files import sizes
from lakekit.maintenance.check.findings import RESTORE, REWRITE, ROLLBACK
from lakekit.model.index_file import DELETION_VECTORS, HASH
from lakekit.storage.protocol import FileMissing
from lakekit.write import dynamic_bucket

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lakekit.maintenance.check.findings import Findings
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.index_file import IndexManifestEntry
    from lakekit.model.manifest_entries import ManifestEntries

    Place = tuple[bytes, int]
    Hashes = dict[Place, NDArray[np.int32]]

_DANGLING_REMEDY = "compact the bucket with t.compact(full=True), which writes its vectors anew"
_NO_INDEX = "keys that are written again may go to another bucket: write the partition anew with t.overwrite"


def check(ctx: TableContext, live: ManifestEntries, index: list[IndexManifestEntry], notes: Findings) -> Hashes:
    """Looks at all index files; gives the hashes that could be read, by partition and bucket."""
    at = {}
    for entry in index:
        with notes.reading("place of an index file", ctx.root):
            at[id(entry)] = deletion_vector_reader.index_path(ctx, entry)
    there: dict[str, int] = {}
    with notes.reading("directory", ctx.root):
        there = sizes(ctx, at.values())
    notes.paths.discard(ctx.root)
    notes.paths.update(at.values())
    whole = []
    for entry in index:
        path = at.get(id(entry))
        if path is None:
            continue
        found = there.get(path)
        if found is None:
            notes.wrong("index file is missing", f"the index manifest lists {entry.file_name}, which is not there", path=path, remedy=ROLLBACK)
        elif found != entry.file_size_bytes:
            message = f"{format_count(found)} bytes are there, the index manifest says {format_count(entry.file_size_bytes)}"
            notes.wrong("index file has another size", message, path=path, field="_FILE_SIZE", remedy=RESTORE)
        else:
            whole.append(entry)
    files = _files(live)
    _targets(ctx, index, at, files, notes)
    for entry in whole:
        if entry.index_type == DELETION_VECTORS:
            _vectors(ctx, entry, at[id(entry)], files, notes)
    return _hash_indexes(ctx, index, whole, at, files, notes)


def _files(live: ManifestEntries) -> dict[Place, dict[str, int]]:
    """The rows of each live file by name, in each place."""
    found: dict[Place, dict[str, int]] = defaultdict(dict)
    columns = (live.column(name).to_pylist() for name in ("partition", "bucket", "file_name", "row_count"))  # scalar: one a file
    for partition, bucket, name, rows in zip(*columns, strict=True):
        found[partition, bucket][name] = rows
    return found


def _targets(ctx: TableContext, index: list[IndexManifestEntry], at: dict[int, str], files: dict[Place, dict[str, int]], notes: Findings) -> None:
    """Each vector is of a live file of its bucket, and no file has two."""
    seen: set[tuple[Place, str]] = set()
    for entry in index:
        path = at.get(id(entry))
        if entry.index_type != DELETION_VECTORS or path is None:
            continue
        place = entry.partition, entry.bucket
        if entry.row_count != len(entry.ranges):
            message = f"the index manifest lists {len(entry.ranges)} deletion vectors and says {entry.row_count}"
            notes.wrong("number of deletion vectors", message, path=path, field="_ROW_COUNT", remedy=_DANGLING_REMEDY)
        for part in entry.ranges:
            where = f"bucket {entry.bucket}{' of ' + named if (named := partition_path(ctx, entry.partition)) else ''}"
            if part.file_name not in files.get(place, {}):
                message = f"the deletion vector of {part.file_name} is of no live file of {where}: the reference leaves such after a full compaction"
                notes.better("deletion vector points at no live file", message, path=path, field="_DELETIONS_VECTORS_RANGES", remedy=_DANGLING_REMEDY)
            elif (place, part.file_name) in seen:
                message = f"{part.file_name} of {where} has two deletion vectors: which of them counts is chance"
                notes.wrong("file has two deletion vectors", message, path=path, field="_DELETIONS_VECTORS_RANGES", remedy=_DANGLING_REMEDY)
            seen.add((place, part.file_name))


def _vectors(ctx: TableContext, entry: IndexManifestEntry, path: str, files: dict[Place, dict[str, int]], notes: Findings) -> None:
    """Checksums, cardinalities and positions of the vectors in one index file."""
    rows = files.get((entry.partition, entry.bucket), {})
    try:
        found = deletion_vector_reader.load(ctx, {part.file_name: entry for part in entry.ranges})
    except (LakekitError, FileMissing):
        found = {}
        for part in entry.ranges:  # one by one, so that each damaged vector is told
            with notes.reading("deletion vector", path):
                found |= deletion_vector_reader.load(ctx, {part.file_name: replace(entry, ranges=(part,))})
    for name, positions in found.items():
        if len(positions) and int(positions[-1]) >= rows.get(name, 2**63):
            message = f"the deletion vector of {name} marks row {format_count(int(positions[-1]))} of {format_count(rows[name])}"
            notes.wrong("deletion vector is beyond its file", message, path=path, field="_DELETIONS_VECTORS_RANGES", remedy=REWRITE)


def _hash_indexes(
    ctx: TableContext,
    index: list[IndexManifestEntry],
    whole: list[IndexManifestEntry],
    at: dict[int, str],
    files: dict[Place, dict[str, int]],
    notes: Findings,
) -> Hashes:
    """Every bucket of a dynamic-bucket table has one hash index, whose hashes are told apart."""
    found: Hashes = {}
    listed: set[Place] = set()
    for entry in index:
        place = entry.partition, entry.bucket
        if entry.index_type == HASH and place in listed:
            message = f"bucket {entry.bucket} has two hash indexes: which of them counts is chance"
            notes.wrong("bucket has two hash indexes", message, path=at.get(id(entry)), field="_BUCKET", remedy=_NO_INDEX)
        if entry.index_type == HASH:
            listed.add(place)
    for entry in whole:
        if entry.index_type == HASH:
            with notes.reading("hash index", at[id(entry)]):
                found[entry.partition, entry.bucket] = dynamic_bucket.read(ctx, entry)
    if is_dynamic(ctx):
        for partition, bucket in sorted(files.keys() - listed):
            named = partition_path(ctx, partition)
            message = f"bucket {bucket}{f' of {named}' if named else ''} has files and no hash index"
            notes.wrong("hash index is missing", message, path=ctx.layout.bucket_dir(named, bucket), field="_INDEX_TYPE", remedy=_NO_INDEX)
    return found


def is_dynamic(ctx: TableContext) -> bool:
    """Whether keys stay in their buckets by hash indexes: a key table of dynamic buckets whose key holds its partition."""
    schema = ctx.schema
    return bool(schema.primary_keys) and ctx.options.bucket == -1 and set(schema.partition_keys) <= set(schema.primary_keys)
