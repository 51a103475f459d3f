"""The rows of each data file, held against what its manifest entry says: one file at a time, by columns.

    keys          sorted, none twice, within the key range          bucket      each row's by the bucket function, each key's hash in the hash index
    statistics    no value passes a bound, null counts are exact    partition   each row's
    sequences     within their range                                deletes     as many as said
    file indexes  find the rows of some values                      pages       of Parquet files: as their checksums say, before anything is decoded

Files of postponed buckets are rows as they came: neither sorted nor in their bucket. Changelog files tell of a key as often as it changed, in the order of the
changes, and no index is of them. Source: FORMAT.md 7; ENGINE.md 2.1, 7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from lakekit.bucket import slices
from lakekit.codec import hashing
from lakekit.columns import cast_columns, col, cols
from lakekit.data_file.paths import bucket_id_at, partition_path
from lakekit.data_file.reader import SEQUENCE_NUMBER, VALUE_KIND, scan_files, translate_polars_errors
from lakekit.draw.humanize import format_cell, format_count, plural
from lakekit.errors import LakekitError
from lakekit.format import parquet_pages
from lakekit.lsm import key_codes
from lakekit.maintenance.check import file_indexes, statistics
from lakekit.maintenance.check.findings import RESTORE, REWRITE, Findings, format_value
from lakekit.maintenance.check.levels import ranks
from lakekit.metadata import schemas
from lakekit.model.row_kind import RowKind
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.write import bucket_assigners, partitions

if TYPE_CHECKING:
    from lakekit.maintenance.check.index import Hashes
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.data_file import DataFileMeta
    from lakekit.model.manifest_entries import ManifestEntries

_RETRACTS = (int(RowKind.UPDATE_BEFORE), int(RowKind.DELETE))
_MISPLACED_REMEDY = "engines that read by key pass the rows over, and new rows of their keys do not replace them: write the partition anew with t.overwrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUnderCheck:
    """A file with its rows: `handle` sees the table by the schema the file was written with."""

    ctx: TableContext
    file: DataFileMeta
    path: str
    partition: bytes
    bucket: int
    total_buckets: int
    frame: pl.DataFrame
    notes: Findings

    def wrong(self, what: str, found: str, field: str, remedy: str = REWRITE) -> None:
        """Notes a problem of this file."""
        self.notes.wrong(what, found, path=self.path, field=field, remedy=remedy)


class FileCheckRequest(NamedTuple):
    """The file of entry `at` of some entries, to be checked by a process of its own."""

    ctx: TableContext
    entries: ManifestEntries
    path: str
    at: int
    hashes: Hashes | None


IsolatedCheck = Callable[[FileCheckRequest, Findings], bool]
"""Checks a file whose decoding may end the process that does it, and notes what is wrong; whether it could."""


def check(
    ctx: TableContext,
    entries: ManifestEntries,
    at: list[str],
    wanted: list[int],
    hashes: Hashes | None,
    notes: Findings,
    *,
    apart: IsolatedCheck | None = None,
) -> None:
    """Reads the files of some entries, one after the other; `hashes` are the hash indexes, None where the files are changelogs.

    Files whose bytes nobody vouches for, which are all but Avro and Parquet with right checksums, are given to `apart`.
    """
    totals = entries.numbers("total_buckets")
    seen = {ctx.schema.id: ctx}
    for i in wanted:
        with notes.reading("data file" if hashes is not None else "changelog file", at[i]):
            file = entries.file(i)
            if file.schema_id not in seen:
                seen[file.schema_id] = ctx.with_schema(schemas.read(ctx, file.schema_id))
            partition, bucket = bucket_id_at(entries, i)
            own = seen[file.schema_id]
            unsummed = [] if file.format_name != "orc" else [file.name]
            if file.format_name == "parquet" and _is_damaged(own, file, at[i], notes, unsummed):
                continue
            if unsummed and apart is not None and apart(FileCheckRequest(ctx, entries, at[i], i, hashes), notes):
                continue
            frame = _rows(own, file, at[i])
            whole = FileUnderCheck(
                ctx=own,
                file=file,
                path=at[i],
                partition=partition,
                bucket=bucket,
                total_buckets=int(totals[i]),
                frame=frame,
                notes=notes,
            )
            _check(whole, hashes)


def _rows(ctx: TableContext, file: DataFileMeta, path: str) -> pl.DataFrame:
    fields = [field for field in ctx.schema.fields if file.write_cols is None or field.name in file.write_cols]
    system = (SEQUENCE_NUMBER, VALUE_KIND) if ctx.schema.primary_keys else ()
    with translate_polars_errors(ctx, [path]):
        return scan_files(ctx, [file], [path], fields, system=system).collect()


def _is_damaged(ctx: TableContext, file: DataFileMeta, path: str, notes: Findings, unsummed: list[str]) -> bool:
    """Whether pages are not what was written, which is noted of each: their values would be called false, or be believed."""
    found = list(parquet_pages.find_damaged_pages(path, partial(ctx.storage.read, path), file.size_bytes, unsummed))
    for one in found:
        message = f"the page of {one.column} at byte {one.offset} has CRC-32 {one.computed:08x}, {one.stored:08x} was stored: it is not what was written"
        notes.wrong("a page has another checksum", message, path=path, field=one.column)
    return bool(found)


def _check(whole: FileUnderCheck, hashes: Hashes | None) -> None:
    file, frame = whole.file, whole.frame
    if frame.height != file.row_count:
        what = "data file" if hashes is not None else "changelog file"
        whole.wrong(
            f"{what} has another row count",
            f"{format_count(frame.height)} rows are read, the manifest says {format_count(file.row_count)}",
            "_ROW_COUNT",
            RESTORE,
        )
    if not frame.height:
        return
    if frame.height == file.row_count:
        file_indexes.check(whole)
    for field, found in statistics.false_of_values(whole.ctx, file, frame):
        whole.wrong("statistics are false", f"{found}: filters may pass the file over", field)
    if file.write_cols is None:
        _check_placement(whole)
    if not whole.ctx.schema.primary_keys:
        return
    _versions(whole)
    if whole.bucket != POSTPONE_BUCKET and hashes is not None:
        _keys(whole)
        _hash_index(whole, hashes)


def _check_placement(whole: FileUnderCheck) -> None:
    """Partition and bucket of each row.

    Of one with a null in its bucket key any bucket is right: no reader chooses a bucket by a null, and writers place some
    of them otherwise (pypaimon and pypaimon-rust those of TIMESTAMP(6) and of long decimals).
    """
    ctx, frame = whole.ctx, whole.frame
    if ctx.schema.partition_keys:
        others = [row for row in partitions.encode_partitions(frame, ctx).rows if row != whole.partition]
        if others:
            message = f"rows of {partition_path(ctx, others[0])} lie in {partition_path(ctx, whole.partition)}"
            whole.wrong("rows are in another partition", message, "_PARTITION", _MISPLACED_REMEDY)
    if ctx.options.bucket > 0 and whole.total_buckets > 0 and whole.bucket >= 0:
        fields = bucket_assigners.bucket_fields(ctx)
        if not schemas.have_types_always(ctx, fields):
            return  # rows lie where the hash of their old values put them, whichever file compaction has put them in
        columns, types = bucket_assigners.key_columns(frame, fields)
        if not hashing.is_bucket_key(ctx.options.bucket_function_type, types):
            return
        found = hashing.buckets(ctx.options.bucket_function_type, columns, types, whole.total_buckets)
        has_key = pl.all_horizontal(col(field.name).is_not_null() for field in fields)
        is_whole = frame.select(has_key).to_series().to_numpy()
        if (away := np.flatnonzero((found != whole.bucket) & is_whole)).size:
            message = f"{plural(away.size, 'row')} of bucket {whole.bucket} of {whole.total_buckets} should be elsewhere, the first in bucket {found[away[0]]}"
            whole.wrong("rows are in another bucket", message, "_BUCKET", _MISPLACED_REMEDY)


def _versions(whole: FileUnderCheck) -> None:
    """Sequence numbers and kinds."""
    file, frame = whole.file, whole.frame
    sequences = frame[SEQUENCE_NUMBER]
    low, high = sequences.min(), sequences.max()
    if sequences.null_count() or (sequences < file.min_sequence_number).any() or (sequences > file.max_sequence_number).any():
        message = f"rows have {format_cell(low)} to {format_cell(high)}, the manifest says {file.min_sequence_number} to {file.max_sequence_number}"
        whole.wrong("sequence numbers pass their range", message, "_MIN_SEQUENCE_NUMBER")
    kinds = frame[VALUE_KIND]
    if kinds.null_count() or not kinds.is_between(0, 3).all():
        whole.wrong("row kinds are none", "a _VALUE_KIND is not one of 0 to 3", VALUE_KIND, RESTORE)
    deletes = int(kinds.is_in(_RETRACTS).sum())
    if file.delete_row_count is not None and deletes != file.delete_row_count:
        message = f"{plural(deletes, 'row')} are deletes, the manifest says {format_count(file.delete_row_count)}"
        whole.wrong("delete count is wrong", message, "_DELETE_ROW_COUNT")


def _keys(whole: FileUnderCheck) -> None:
    """Order, repetition and range of the keys."""
    frame = whole.frame.select(cols(whole.ctx.schema.trimmed_primary_keys))
    order = key_codes.order(frame, frame.columns)
    fallen = np.flatnonzero(order != np.arange(len(order)))
    if fallen.size:
        whole.wrong("rows are not sorted by key", f"row {format_count(int(fallen[0]))} is out of order: merges give wrong rows", "_MIN_KEY")
    repeated = frame.height - len(key_codes.blocks(key_codes.encode_keys(frame, frame.columns))[1])
    if repeated:
        whole.wrong("a key is twice in a file", f"{plural(repeated, 'row')} repeat a key of the same file", "_MIN_KEY")
    try:
        ends = slices.keys(whole.ctx, [whole.file.min_key, whole.file.max_key])
    except LakekitError as damaged:
        whole.wrong("key range is unreadable", f"the manifest's entry of the file is damaged: {damaged.message}", "_MIN_KEY")
        return
    held = frame[order[[0, -1]]]
    # ORC pads CHAR with blanks, which the reference's bounds keep and rows lose (case types_key_strings_orc)
    padded = [col(field.name).str.strip_chars_end(" ") for field in whole.ctx.schema.key_fields if field.type.root == "CHAR"]
    low, high, least, most = ranks(pl.concat([ends, cast_columns(held, ends.schema)]).with_columns(padded))
    if least < low or most > high:
        shown = [", ".join(format_value(column, i) for column in keys_of.get_columns()) for keys_of in (held, ends) for i in (0, 1)]
        message = f"keys go from {shown[0]} to {shown[1]}, the manifest says {shown[2]} to {shown[3]}: reads by key may pass the file over"
        whole.wrong("keys pass the key range", message, "_MIN_KEY" if least < low else "_MAX_KEY")


def _hash_index(whole: FileUnderCheck, hashes: Hashes) -> None:
    """A key that the index does not know goes to another bucket the next time."""
    known = hashes.get((whole.partition, whole.bucket))
    if known is None:
        return
    columns, types = bucket_assigners.key_columns(whole.frame, whole.ctx.schema.key_fields)
    unknown = int((~np.isin(hashing.hash_columns(columns, types), known)).sum())
    if unknown:
        message = f"the hash index of bucket {whole.bucket} lacks {plural(unknown, 'key')} of this file: they may be written to a second bucket"
        whole.wrong("hash index lacks keys", message, "_INDEX_TYPE", _MISPLACED_REMEDY)
