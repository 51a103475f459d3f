"""Checks of the rows of each data file against its manifest entry: one file at a time, by columns.

    keys          sorted, none twice, within the key range
    bucket        each row's by the bucket function, each key's hash in the hash index
    statistics    no value passes a bound, null counts are exact
    partition     each row's
    sequences     within their range
    deletes       as many as said
    file indexes  the rows of some values of each column, and of null, are among those that each index gives
    pages         of Parquet files, as their checksums say, before anything is decoded

Files of postponed buckets hold rows as they came: neither sorted nor in their final bucket. A changelog file may hold a
key many times, in the order of the changes, and no index covers it.

Each index of a column is evaluated by itself, since different conditions use different indexes, and the payload of each
must lie within its file. Indexes of map keys are not checked. CHAR values are not looked up, since ORC pads them with
blanks, in its bounds too, and rows come trimmed; nor are times before the year 1 and after 9999, which no literal of a
filter can name. Bytes and nested columns have no bounds, only null counts, and a NaN bounds nothing.

Source: FORMAT.md 7, 9; ENGINE.md 2.1, 7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from lakekit.bucket import merge_read
from lakekit.codec import binary_row, hashing, roaring
from lakekit.columns import KIND, SEQUENCE, cast_columns, col, cols
from lakekit.data_file.paths import bucket_id_at, partition_path
from lakekit.data_file.reader import scan_files, translate_polars_errors
from lakekit.draw.humanize import format_cell, format_count, plural
from lakekit.errors import LakekitError
from lakekit.file_index import container, evaluator
from lakekit.format import parquet_pages
from lakekit.format.encoder import has_bounds
from lakekit.format.polars_types import polars_type
from lakekit.lsm import numpy_columns
from lakekit.maintenance.check.findings import (
    REBUILD_INDEX_REMEDY,
    RESTORE_REMEDY,
    REWRITE_REMEDY,
    Findings,
    format_value,
)
from lakekit.maintenance.check.levels import rank_keys
from lakekit.metadata import schemas
from lakekit.model.data_file import RowKind
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.predicate import Leaf
from lakekit.read import file_index_pruning
from lakekit.write import bucket_assigners
from lakekit.write.value_casting import format_raw_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyroaring import BitMap

    from lakekit.file_index.evaluator import IndexedFile
    from lakekit.maintenance.check.files import HashesByBucket
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta, Stats
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.types import Field


_SAMPLE_SIZE = 16
"""How many values of a column are looked up."""


def check_file_indexes(checked_file: FileUnderCheck) -> None:
    """Look up values that the rows of a file hold in its indexes, and report those that are not found."""
    file = checked_file.file
    outside = None if file.index_file is None else checked_file.ctx.paths.extra_file(checked_file.path, file.index_file)
    path, where = (
        (checked_file.path, "_EMBEDDED_FILE_INDEX") if file.embedded_index is not None else (outside, "_EXTRA_FILES")
    )
    if path is None:
        return
    with checked_file.findings.reading_file("file index", path, REBUILD_INDEX_REMEDY):
        indexes = file_index_pruning.open_indexes(checked_file.ctx, checked_file.path, file, checked_file.ctx.schema)
        if indexes is None:
            return
        for span in (
            payload for kinds in indexes.contents.values() for payload in kinds.values() if payload is not None
        ):
            container.payload_view(indexes.data, span, path=path)
        for field in checked_file.ctx.schema.fields:
            lost = (
                next(_find_lost_rows(indexes, field, checked_file.rows[field.name]), None)
                if _is_sampled(indexes, field, checked_file.rows)
                else None
            )
            if lost is not None:
                message = f"{lost}: filters pass them over"
                checked_file.findings.add_problem(
                    "file index lacks rows", message, path=path, field=where, remedy=REBUILD_INDEX_REMEDY
                )


def _is_sampled(indexes: IndexedFile, field: Field, frame: pl.DataFrame) -> bool:
    plugins = [evaluator.load_index_module(kind) for kind in indexes.contents.get(field.name, ())]
    return (
        field.type.root != "CHAR"
        and field.name in frame.columns
        and any(index is not None and field.type.root in index.TYPES for index in plugins)
    )


def _find_lost_rows(indexes: IndexedFile, field: Field, column: pl.Series) -> Iterator[str]:
    """Yield a description of the rows that a filter would lose."""
    keys, codes = container.distinct_keys(column.to_arrow(), field.type)
    sample = np.unique(np.linspace(0, len(keys) - 1, min(len(keys), _SAMPLE_SIZE)).astype(np.int64))
    for code in (*sample.tolist(), -1):  # scalar: a few values
        rows = np.flatnonzero(codes == code)
        if not rows.size or (code != -1 and format_raw_count(column, int(rows[0])) is not None):
            continue
        value = None if code == -1 else column[int(rows[0])]
        leaf = Leaf(field.name, "is null") if value is None else Leaf(field.name, "=", (value,))
        for kind, answer in evaluator.evaluate_each_index(indexes, leaf):
            if away := _count_missing(rows, answer):
                yield (
                    f"{plural(away, 'row')} with {field.name} = {format_cell(value)} are not found by the {kind} "
                    f"index of column {field.name}"
                )


def _count_missing(rows: NDArray[np.int64], answer: bool | BitMap) -> int:
    """Return how many of the rows an answer lacks."""
    if isinstance(answer, bool):
        return 0 if answer else rows.size
    return rows.size - len(answer & roaring.bitmap_of(rows))


# ---- statistics ------------------------------------------------------------


Discrepancy = tuple[str, str]
"""The field of the manifest entry, and what is wrong with it."""


def find_false_statistics(ctx: TableContext, file: DataFileMeta, frame: pl.DataFrame) -> Iterator[Discrepancy]:
    """Yield what is false in the key and value statistics of a file.

    `ctx` has the file's own schema.
    """
    schema = ctx.schema
    if schema.primary_keys:
        yield from _find_false_stats(file.key_stats, schema.key_fields, frame, "_KEY_STATS")
    by_name = {field.name: field for field in schema.fields}
    names = (
        file.value_stats_cols
        if file.value_stats_cols is not None
        else file.write_cols
        if file.write_cols is not None
        else tuple(by_name)
    )
    if all(name in by_name for name in names):
        yield from _find_false_stats(file.value_stats, [by_name[name] for name in names], frame, "_VALUE_STATS")


def _find_false_stats(
    stats: Stats, fields: Sequence[Field], frame: pl.DataFrame, location: str
) -> Iterator[Discrepancy]:
    bounded = [i for i, field in enumerate(fields) if has_bounds(field.type)]
    types = [field.type for field in fields]
    ends: list[list[pa.Array]] = []
    try:
        if all(binary_row.strip_arity(row)[0] == len(fields) for row in (stats.min_values, stats.max_values)):
            ends = [
                binary_row.decode_columns(pa.array([row], pa.binary()), types, only=bounded)
                for row in (stats.min_values, stats.max_values)
            ]
    except LakekitError as damaged:  # of the manifest's entry: the file may be whole
        yield location, f"the bounds in the manifest cannot be read: {damaged.message}"
    for i, low, high in zip(bounded, *ends, strict=True) if ends else ():
        yield from _find_passed_bounds(fields[i], frame[fields[i].name], low, high, location)
    for field, nulls in zip(fields, stats.null_counts or (), strict=False):
        if (
            nulls is not None
            and nulls >= 0
            and field.type.root != "VARIANT"
            and (null_count := frame[field.name].null_count()) != nulls
        ):
            yield (
                f"{location}.{field.name}",
                f"{format_count(null_count)} values are null, the manifest says {format_count(nulls)}",
            )


def _find_passed_bounds(
    field: Field, column: pl.Series, min_keys: pa.Array, max_keys: pa.Array, location: str
) -> Iterator[Discrepancy]:
    dtype = polars_type(field.type)
    least, most = (pl.Series(bound).cast(dtype) for bound in (min_keys, max_keys))
    values = column.cast(dtype) if column.dtype != dtype else column
    if dtype.is_float():
        least, most, values = (series.fill_nan(None) for series in (least, most, values))
    if field.type.root == "CHAR":
        least, most, values = (series.str.strip_chars_end(" ") for series in (least, most, values))
    if not least.null_count() and (values < least).any():
        yield (
            f"{location}.{field.name}",
            (
                f"the smallest value is {format_value(values, values.arg_min() or 0)}, the manifest says "
                f"{format_value(least, 0)}"
            ),
        )
    if not most.null_count() and (values > most).any():
        yield (
            f"{location}.{field.name}",
            (
                f"the greatest value is {format_value(values, values.arg_max() or 0)}, the manifest says "
                f"{format_value(most, 0)}"
            ),
        )


# ---- rows ------------------------------------------------------------


_RETRACTING_KINDS = (int(RowKind.UPDATE_BEFORE), int(RowKind.DELETE))
_MISPLACED_REMEDY = (
    "engines that read by key pass the rows over, and new rows of their keys do not replace them: write the partition "
    "anew with t.overwrite"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUnderCheck:
    """A file with its rows; `ctx` has the schema that the file was written with."""

    ctx: TableContext
    file: DataFileMeta
    path: str
    partition: bytes
    bucket: int
    total_buckets: int
    rows: pl.DataFrame
    findings: Findings

    def add_problem(self, check: str, problem: str, field: str, remedy: str = REWRITE_REMEDY) -> None:
        """Add a problem of this file."""
        self.findings.add_problem(check, problem, path=self.path, field=field, remedy=remedy)


class FileCheckRequest(NamedTuple):
    """The file of entry `entry_index` of some entries, to be checked by a child process."""

    ctx: TableContext
    entries: ManifestEntries
    path: str
    entry_index: int
    hashes: HashesByBucket | None


IsolatedCheck = Callable[[FileCheckRequest, Findings], bool]
"""Checks a file whose decoding may end the process that does it, and notes what is wrong; whether it could."""


def check_rows(
    ctx: TableContext,
    entries: ManifestEntries,
    paths: list[str],
    indices: list[int],
    hashes: HashesByBucket | None,
    findings: Findings,
    *,
    isolated_check: IsolatedCheck | None = None,
) -> None:
    """Check the rows of the files of some entries, one after the other.

    `indices`: indices of the entries. `hashes`: the hash indexes; None if the files are changelogs. `isolated_check`:
    gets the files without valid checksums: all but Avro files and Parquet files with right checksums.
    """
    totals = entries.integers("total_buckets")
    seen = {ctx.schema.id: ctx}
    for i in indices:
        with findings.reading_file("data file" if hashes is not None else "changelog file", paths[i]):
            file = entries.file(i)
            if file.schema_id not in seen:
                seen[file.schema_id] = ctx.with_schema(schemas.read_schema(ctx, file.schema_id))
            partition, bucket = bucket_id_at(entries, i)
            own = seen[file.schema_id]
            unsummed = [] if file.format_name != "orc" else [file.name]
            if file.format_name == "parquet" and _has_damaged_pages(own, file, paths[i], findings, unsummed):
                continue
            if (
                unsummed
                and isolated_check is not None
                and isolated_check(FileCheckRequest(ctx, entries, paths[i], i, hashes), findings)
            ):
                continue
            frame = _read_file_rows(own, file, paths[i])
            checked_file = FileUnderCheck(
                ctx=own,
                file=file,
                path=paths[i],
                partition=partition,
                bucket=bucket,
                total_buckets=int(totals[i]),
                rows=frame,
                findings=findings,
            )
            _check_file(checked_file, hashes)


def _read_file_rows(ctx: TableContext, file: DataFileMeta, path: str) -> pl.DataFrame:
    fields = [field for field in ctx.schema.fields if file.write_cols is None or field.name in file.write_cols]
    system = (SEQUENCE, KIND) if ctx.schema.primary_keys else ()
    with translate_polars_errors(ctx, [path]):
        return scan_files(ctx, [file], [path], fields, system=system).collect()


def _has_damaged_pages(
    ctx: TableContext, file: DataFileMeta, path: str, findings: Findings, unsummed: list[str]
) -> bool:
    """Return whether pages have another checksum than was stored, and report each of them.

    Otherwise their values would be reported as wrong, or be believed.
    """
    pages = list(parquet_pages.find_damaged_pages(path, partial(ctx.storage.read, path), file.size_bytes, unsummed))
    for page in pages:
        message = (
            f"the page of {page.column} at byte {page.offset} has CRC-32 {page.computed_crc:08x}, "
            f"{page.stored_crc:08x} was stored: it is not what was written"
        )
        findings.add_problem("a page has another checksum", message, path=path, field=page.column)
    return bool(pages)


def _check_file(checked_file: FileUnderCheck, hashes: HashesByBucket | None) -> None:
    file, frame = checked_file.file, checked_file.rows
    if frame.height != file.row_count:
        what = "data file" if hashes is not None else "changelog file"
        checked_file.add_problem(
            f"{what} has another row count",
            f"{format_count(frame.height)} rows are read, the manifest says {format_count(file.row_count)}",
            "_ROW_COUNT",
            RESTORE_REMEDY,
        )
    if not frame.height:
        return
    if frame.height == file.row_count:
        check_file_indexes(checked_file)
    for field, discrepancy in find_false_statistics(checked_file.ctx, file, frame):
        checked_file.add_problem("statistics are false", f"{discrepancy}: filters may pass the file over", field)
    if file.write_cols is None:
        _check_placement(checked_file)
    if not checked_file.ctx.schema.primary_keys:
        return
    _check_versions(checked_file)
    if checked_file.bucket != POSTPONE_BUCKET and hashes is not None:
        _check_keys(checked_file)
        _check_hash_index(checked_file, hashes)


def _check_placement(checked_file: FileUnderCheck) -> None:
    """Check the partition and bucket of each row.

    A row with a null in its bucket key may be in any bucket: no reader chooses a bucket by a null, and writers place
    some of them otherwise (pypaimon and pypaimon-rust those of TIMESTAMP(6) and of long decimals).
    """
    ctx, frame = checked_file.ctx, checked_file.rows
    if ctx.schema.partition_keys:
        others = [
            row
            for row in bucket_assigners.encode_partitions(frame, ctx).partition_rows
            if row != checked_file.partition
        ]
        if others:
            message = f"rows of {partition_path(ctx, others[0])} lie in {partition_path(ctx, checked_file.partition)}"
            checked_file.add_problem("rows are in another partition", message, "_PARTITION", _MISPLACED_REMEDY)
    if ctx.options.bucket > 0 and checked_file.total_buckets > 0 and checked_file.bucket >= 0:
        fields = bucket_assigners.bucket_fields(ctx)
        if not schemas.have_constant_types(ctx, fields):
            return  # rows lie where the hash of their old values put them, whichever file compaction has put them in
        columns, types = bucket_assigners.columns_to_arrow(frame, fields)
        if not hashing.supports_bucket_key(ctx.options.bucket_function_type, types):
            return
        buckets = hashing.assign_buckets(ctx.options.bucket_function_type, columns, types, checked_file.total_buckets)
        has_key = pl.all_horizontal(col(field.name).is_not_null() for field in fields)
        is_complete = frame.select(has_key).to_series().to_numpy()
        if (away := np.flatnonzero((buckets != checked_file.bucket) & is_complete)).size:
            which = f"{plural(away.size, 'row')} of bucket {checked_file.bucket} of {checked_file.total_buckets}"
            message = f"{which} should be elsewhere, the first in bucket {buckets[away[0]]}"
            checked_file.add_problem("rows are in another bucket", message, "_BUCKET", _MISPLACED_REMEDY)


def _check_versions(checked_file: FileUnderCheck) -> None:
    """Check sequence numbers and row kinds."""
    file, frame = checked_file.file, checked_file.rows
    sequences = frame[SEQUENCE]
    low, high = sequences.min(), sequences.max()
    if (
        sequences.null_count()
        or (sequences < file.min_sequence_number).any()
        or (sequences > file.max_sequence_number).any()
    ):
        message = (
            f"rows have {format_cell(low)} to {format_cell(high)}, the manifest says {file.min_sequence_number} to "
            f"{file.max_sequence_number}"
        )
        checked_file.add_problem("sequence numbers pass their range", message, "_MIN_SEQUENCE_NUMBER")
    kinds = frame[KIND]
    if kinds.null_count() or not kinds.is_between(0, 3).all():
        checked_file.add_problem("row kinds are none", "a _VALUE_KIND is not one of 0 to 3", KIND, RESTORE_REMEDY)
    deletes = int(kinds.is_in(_RETRACTING_KINDS).sum())
    if file.delete_row_count is not None and deletes != file.delete_row_count:
        message = f"{plural(deletes, 'row')} are deletes, the manifest says {format_count(file.delete_row_count)}"
        checked_file.add_problem("delete count is wrong", message, "_DELETE_ROW_COUNT")


def _check_keys(checked_file: FileUnderCheck) -> None:
    """Check the order, uniqueness and range of the keys."""
    frame = checked_file.rows.select(cols(checked_file.ctx.schema.trimmed_primary_keys))
    order = numpy_columns.key_order(frame, frame.columns)
    fallen = np.flatnonzero(order != np.arange(len(order)))
    if fallen.size:
        checked_file.add_problem(
            "rows are not sorted by key",
            f"row {format_count(int(fallen[0]))} is out of order: merges give wrong rows",
            "_MIN_KEY",
        )
    repeated = frame.height - len(numpy_columns.key_blocks(numpy_columns.encode_keys(frame, frame.columns))[1])
    if repeated:
        checked_file.add_problem(
            "a key is twice in a file", f"{plural(repeated, 'row')} repeat a key of the same file", "_MIN_KEY"
        )
    try:
        ends = merge_read.decode_keys(checked_file.ctx, [checked_file.file.min_key, checked_file.file.max_key])
    except LakekitError as damaged:
        checked_file.add_problem(
            "key range is unreadable", f"the manifest's entry of the file is damaged: {damaged.message}", "_MIN_KEY"
        )
        return
    extremes = frame[order[[0, -1]]]
    # ORC pads CHAR with blanks, which the reference's bounds keep and rows lose (case types_key_strings_orc)
    padded = [
        col(field.name).str.strip_chars_end(" ")
        for field in checked_file.ctx.schema.key_fields
        if field.type.root == "CHAR"
    ]
    low, high, least, most = rank_keys(pl.concat([ends, cast_columns(extremes, ends.schema)]).with_columns(padded))
    if least < low or most > high:
        shown = [
            ", ".join(format_value(column, i) for column in keys_of.get_columns())
            for keys_of in (extremes, ends)
            for i in (0, 1)
        ]
        message = (
            f"keys go from {shown[0]} to {shown[1]}, the manifest says {shown[2]} to {shown[3]}: reads by key may "
            "pass the file over"
        )
        checked_file.add_problem("keys pass the key range", message, "_MIN_KEY" if least < low else "_MAX_KEY")


def _check_hash_index(checked_file: FileUnderCheck, hashes: HashesByBucket) -> None:
    """Check that the hash index knows every key: one that it lacks goes to another bucket the next time."""
    indexed_hashes = hashes.get((checked_file.partition, checked_file.bucket))
    if indexed_hashes is None:
        return
    columns, types = bucket_assigners.columns_to_arrow(checked_file.rows, checked_file.ctx.schema.key_fields)
    unknown = int((~np.isin(hashing.hash_columns(columns, types), indexed_hashes)).sum())
    if unknown:
        message = (
            f"the hash index of bucket {checked_file.bucket} lacks {plural(unknown, 'key')} of this file: they may be "
            "written to a second bucket"
        )
        checked_file.add_problem("hash index lacks keys", message, "_INDEX_TYPE", _MISPLACED_REMEDY)
