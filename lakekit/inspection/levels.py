"""View model of the levels picture: the data of a table for `draw.levels`.

    read_live_files(table, 7)           the files of a snapshot: `t.files(at=7)`, by bucket
    read_snapshot_changes(table, 7)     what its commit added and removed: reads its delta manifests only
    bucket_state(7, files, changes, …)  one bucket of them
    planned_file_names(table, expr, 7)  the files that a scan with that filter opens, by the planner itself
    parse_probe(table, "1, abc", 7)     a typed key: its values, and the condition for it
    scan_file(table, name, 7)           the stored rows of one file
    scan_bucket(table, bucket, 7)       the rows of a bucket, merged

Only metadata is read, and of one snapshot at a time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, InvalidOperation
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakekit.columns import col, cols, is_pattern
from lakekit.draw.humanize import format_cell
from lakekit.draw.level_layout import BucketState, LevelFile, with_row_number_bounds
from lakekit.errors import InvalidOption, NotFound
from lakekit.format.polars_types import polars_schema
from lakekit.inspection.timeline import find_snapshot, format_open_call, to_at_argument
from lakekit.metadata import manifest_reader
from lakekit.model import partition
from lakekit.model.manifest_entries import ADD
from lakekit.model.table_paths import POSTPONE_BUCKET
from lakekit.read import explain, lazy_frames, planner, polars_pushdown, sections, table_scan, time_travel
from lakekit.read.table_scan import context_of
from lakekit.system_tables import frames
from lakekit.types import BINARIES, INTEGERS, STRINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.draw.level_layout import Key
    from lakekit.model.manifest_entries import ManifestEntries
    from lakekit.read.explain import Explain
    from lakekit.read.table_scan import TableCore
    from lakekit.types import DataType, Field

_KEY_VALUE = re.compile(r"""\s*(?:'((?:[^']|'')*)'|"((?:[^"]|"")*)"|([^,]*?))\s*(,|\Z)""", re.DOTALL)
_FINER_THAN_MICROS = re.compile(r"\.\d{6}0*[1-9]")
_DECIMAL_CONTEXT = Context(prec=38)
_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_FILE_COLUMNS = (
    "level",
    "file_name",
    "row_count",
    "size_bytes",
    "delete_row_count",
    "deleted_row_count",
    "min_sequence_number",
    "max_sequence_number",
    "schema_id",
    "source",
    "creation_time",
)


# ---- files -----------------------------------------------------------------------------------------------------------

_TYPES_WITH_LITERAL = ("VARCHAR", *INTEGERS)
"""Types whose values are written in Python as in a folder's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLocation:
    """A bucket: the directory of its partition, "" in a table without partitions, and its number."""

    partition: str
    bucket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChanges:
    """The files that a commit removed and added, by bucket and name."""

    removed_files: pl.DataFrame
    added_files: pl.DataFrame


def read_live_files(table: TableCore, snapshot_id: int) -> pl.DataFrame:
    """Return the live files of a snapshot, those that wait for compaction too; none for snapshot 0.

    Raises: `SnapshotNotFound`.
    """
    ctx = context_of(table)
    return (
        frames.list_at_position(frames.files, ctx, to_at_argument(table, snapshot_id))
        if snapshot_id
        else frames.files(ctx, None)
    )


def read_snapshot_changes(table: TableCore, snapshot_id: int) -> SnapshotChanges:
    """Return the files that a snapshot's commit added and removed.

    A file that moved to another level counts as both.
    """
    ctx = context_of(table)
    if not snapshot_id:
        return SnapshotChanges(
            removed_files=_entries_frame(table, manifest_reader.empty_entries()),
            added_files=_entries_frame(table, manifest_reader.empty_entries()),
        )
    snapshot = find_snapshot(ctx, snapshot_id)
    entries = manifest_reader.read_entries(ctx, manifest_reader.manifest_files(ctx, snapshot, "delta"))
    is_added = entries.integers("kind") == ADD
    names = pc.binary_join_element_wise(entries.column("file_name"), entries.column("level").cast(pa.string()), "@")
    both = np.asarray(pc.is_in(names, pc.filter(names, pa.array(~is_added)))) & np.asarray(
        pc.is_in(names, pc.filter(names, pa.array(is_added)))
    )
    return SnapshotChanges(
        removed_files=_entries_frame(table, entries.filter(~is_added & ~both)),
        added_files=_entries_frame(table, entries.filter(is_added & ~both)),
    )


def _entries_frame(table: TableCore, entries: ManifestEntries) -> pl.DataFrame:
    """Return manifest entries with the columns that facts are made of."""
    columns = [
        name for name in ("partition", "bucket", *_FILE_COLUMNS, "min_key", "max_key") if name != "deleted_row_count"
    ]
    return frames.describe_entries(context_of(table), entries, columns).with_columns(
        pl.lit(0, pl.Int64).alias("deleted_row_count")
    )


def list_buckets(files: pl.DataFrame) -> list[BucketLocation]:
    """Return the buckets that have files, in order."""
    buckets = files.select("partition", "bucket").unique().sort("partition", "bucket")
    return [BucketLocation(partition=partition, bucket=bucket) for partition, bucket in buckets.rows()]


def bucket_state(
    snapshot_id: int | None,
    files: pl.DataFrame,
    changes: SnapshotChanges | None,
    bucket: BucketLocation,
    *,
    is_append: bool,
) -> BucketState:
    """Return one bucket of a snapshot, and what its commit changed there."""
    living = _level_files(_files_of_bucket(files, bucket), is_append=is_append)
    if changes is None:
        return BucketState(snapshot_id=snapshot_id, files=living)
    added = frozenset(_files_of_bucket(changes.added_files, bucket)["file_name"].to_list())
    return BucketState(
        snapshot_id=snapshot_id,
        files=living,
        added_names=added,
        removed_files=_level_files(_files_of_bucket(changes.removed_files, bucket), is_append=is_append),
    )


def _files_of_bucket(files: pl.DataFrame, bucket: BucketLocation) -> pl.DataFrame:
    return files.filter((pl.col("partition") == bucket.partition) & (pl.col("bucket") == bucket.bucket))


def _level_files(files: pl.DataFrame, *, is_append: bool) -> tuple[LevelFile, ...]:
    """Return files newest first; those of an append table in the order in which rows were written."""
    if is_append:
        # numbers of commits that knew nothing of each other begin anew: then the clock is all there is
        ordered = files.sort("min_sequence_number", "creation_time", "file_name", nulls_last=True)
        if (ordered["min_sequence_number"] <= ordered["max_sequence_number"].shift(1)).any():
            ordered = files.sort("creation_time", "min_sequence_number", "file_name", nulls_last=True)
        nothing: list[Key | None] = [None] * files.height
        return with_row_number_bounds(_build_level_files(ordered, nothing, nothing))
    ordered = files.sort("max_sequence_number", "min_sequence_number", "file_name", descending=[True, True, False])
    return _build_level_files(ordered, *(_struct_keys(ordered[name]) for name in ("min_key", "max_key")))


def _struct_keys(bounds: pl.Series) -> list[Key | None]:
    """Return structs of key columns as keys; None if there is none."""
    return [
        key if is_known else None
        for key, is_known in zip(bounds.struct.unnest().rows(), bounds.is_not_null().to_list(), strict=True)
    ]


def _build_level_files(
    files: pl.DataFrame, min_keys: Sequence[Key | None], max_keys: Sequence[Key | None]
) -> tuple[LevelFile, ...]:
    facts = files.select(cols(_FILE_COLUMNS)).rows()
    return tuple(
        LevelFile(
            name=name,
            level=level,
            min_key=min_keys[at],
            max_key=max_keys[at],
            size_bytes=size_bytes,
            row_count=row_count,
            delete_row_count=deletes or 0,
            deleted_row_count=deleted or 0,
            min_sequence_number=first,
            max_sequence_number=last,
            schema_id=schema_id,
            source=source or "",
            creation_time="" if created is None else format_cell(created),
        )
        for at, (
            level,
            name,
            row_count,
            size_bytes,
            deletes,
            deleted,
            first,
            last,
            schema_id,
            source,
            created,
        ) in enumerate(facts)
    )


def bucket_notes(table: TableCore, bucket: BucketLocation, bucket_state: BucketState) -> tuple[str, ...]:
    """Return notes on what the picture of a bucket does not show by itself."""
    ctx = context_of(table)
    if not ctx.schema.primary_keys:
        return ("append table: files in the order of writing",)
    if bucket.bucket == POSTPONE_BUCKET:
        return ("postponed: these files are not read before a compaction gives them buckets",)
    if sections.may_hide_level_zero(ctx) and any(file.level == 0 for file in bucket_state.files):
        return ("level 0 is not read before it is compacted",)
    return ()


# ---- what would be read ----------------------------------------------------------------------------------------------


def planned_file_names(
    table: TableCore, condition: pl.Expr | None, at: int | str | datetime | None = None
) -> frozenset[str]:
    """Return the names of the files that `t.scan(at).filter(condition)` opens, in every branch it reads.

    The planner chooses them.

    Raises: what a scan raises, and Polars' own error for a column that does not exist.
    """
    scan = table_scan.scan(context_of(table), at)
    scan_filter = planner.NO_FILTER
    if condition is not None:
        scan_filter, _ = polars_pushdown.build_scan_filter(
            polars_pushdown.filters_of(condition, scan.schema()), scan.ctx.schema
        )
    plans = scan.plans(scan_filter)
    return frozenset(
        name
        for plan in plans
        for name in plan.entries.column("file_name").take(pa.array(plan.selected_indices)).to_pylist()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyProbe:
    """A key to look for, or its first columns, and the condition that rows with it satisfy."""

    key_prefix: Key
    condition: pl.Expr


def parse_probe(table: TableCore, text: str, snapshot_id: int) -> KeyProbe | None:
    """Return a typed key, `4711` or `1, abc`, as values and a condition; None for an empty text.

    Values are parsed by the types of the key columns, texts may stand in quotes.

    Raises: `InvalidOption` if the table has no key, there are more values than key columns, or one does not fit its
    column.
    """
    if not text.strip():
        return None
    ctx = context_of(table)
    if snapshot_id:
        ctx = time_travel.schema_of(ctx, time_travel.position_of(find_snapshot(ctx, snapshot_id)))
    fields = ctx.schema.key_fields
    if not fields:
        raise InvalidOption(
            f"{ctx.name} is an append table: its files have no keys; use the filter", key="probe", value=text
        )
    parts = _split_key_text(text)
    if len(parts) > len(fields):
        names = ", ".join(field.name for field in fields)
        raise InvalidOption(f"{len(parts)} values for {len(fields)} key columns: {names}", key="probe", value=text)
    named = list(zip(fields, parts, strict=False))
    key = tuple(_parse_value(field, part) for field, part in named)
    types = polars_schema(fields)
    same = [
        col(field.name) == pl.lit(value, dtype=types[field.name]) for (field, _), value in zip(named, key, strict=True)
    ]
    return KeyProbe(key_prefix=key, condition=reduce(and_, same))


def _split_key_text(text: str) -> list[str]:
    """Return the values between commas; in quotes they may hold commas, and doubled quotes stand for one."""
    values, at = [], 0
    while (match := _KEY_VALUE.match(text, at)) is not None:
        single, double, plain, comma = match.groups()
        values.append(
            single.replace("''", "'")
            if single is not None
            else double.replace('""', '"')
            if double is not None
            else plain
        )
        at = match.end()
        if not comma:
            break
    return values


def _parse_value(field: Field, text: str) -> Any:
    try:
        return _parse_literal(field.type, text)
    except (ValueError, InvalidOperation, OverflowError):
        raise InvalidOption(
            f"{text!r} is no {field.type.as_nullable()}, which key column {field.name} holds", key="probe", value=text
        ) from None


def _parse_literal(t: DataType, text: str) -> Any:
    if t.root in STRINGS:
        return text
    if t.root in INTEGERS:
        value = int(text)
        if not -(2 ** (_INTEGER_BITS[t.root] - 1)) <= value < 2 ** (_INTEGER_BITS[t.root] - 1):
            raise ValueError
        return value
    if t.root in BINARIES:
        return bytes.fromhex(text.removeprefix("0x"))
    match t.root:
        case "BOOLEAN":
            return _parse_bool(text)
        case "FLOAT":
            return pa.scalar(float(text), pa.float32()).as_py()
        case "DOUBLE":
            return float(text)
        case "DECIMAL":
            return _parse_decimal(t, text)
        case "DATE":
            return date.fromisoformat(text)
        case "TIME":
            return time.fromisoformat(text)
    if _FINER_THAN_MICROS.search(text):  # Python's times end there, and half a time is another key
        raise ValueError
    parsed = datetime.fromisoformat(text)
    if t.root == "TIMESTAMP":
        if parsed.tzinfo is not None:
            raise ValueError
        return parsed
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def _parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _parse_decimal(t: DataType, text: str) -> Decimal:
    value = Decimal(text)
    exact = value.quantize(Decimal(1).scaleb(-(t.scale or 0)), context=_DECIMAL_CONTEXT)
    if exact != value or len(exact.as_tuple().digits) > (t.precision or 10):
        raise ValueError
    return exact


def explain_scan(table: TableCore, condition: pl.Expr, at: int | str | datetime | None) -> Explain:
    """Return the result of `t.explain(condition, at=at)`."""
    return explain.explain_scan(table_scan.scan(context_of(table), at), condition)


# ---- rows ------------------------------------------------------------------------------------------------------------


def scan_file(table: TableCore, name: str, snapshot_id: int) -> pl.LazyFrame:
    """Return the stored rows of one data file of a snapshot.

    Columns come first, then `_SEQUENCE_NUMBER`, `_row_kind`, `_level`, `_file`.

    Raises: `NotFound`.
    """
    at = to_at_argument(table, snapshot_id)
    scan = table_scan.scan(context_of(table), at, raw=True)
    plan = planner.plan_raw_files(scan.ctx, time_travel.resolve_position(scan.ctx, at), planner.NO_FILTER)
    indices = np.flatnonzero(np.asarray(pc.equal(plan.entries.column("file_name"), name)))
    if not len(indices):
        raise NotFound(
            f"snapshot {snapshot_id} of {table.name} has no data file {name}: t.files(at={at!r}) lists those it has",
            name=name,
        )
    return lazy_frames.scan_stored_versions(replace(plan, raw_indices=indices), scan.fields)


def scan_bucket(table: TableCore, bucket: BucketLocation, snapshot_id: int) -> pl.LazyFrame:
    """Return the rows of one bucket of a snapshot, as `t.scan(at)` shows them."""
    at = to_at_argument(table, snapshot_id) if snapshot_id else None
    ctx = context_of(table)
    frame = polars_pushdown.scan_lazily(table_scan.scan(ctx.with_options({"scan.bucket": str(bucket.bucket)}), at))
    if not ctx.schema.partition_keys:
        return frame
    values = frames.list_at_position(frames.partitions, ctx, at).filter(pl.col("partition") == bucket.partition)[
        "values"
    ]
    types = values.struct.unnest().schema
    every = [
        [col(name).eq_missing(pl.lit(value, dtype=types[name])) for name, value in conditions.items()]
        for conditions in values.to_list()
    ]  # scalar: a partition
    # several partitions where blank values share the directory name of null
    return frame.filter(reduce(or_, [reduce(and_, conditions) for conditions in every], pl.lit(False)))


def file_reading_code(table: TableCore, name: str, at: int | str | None) -> str:
    """Return the Python that gives the rows of `scan_file`."""
    return f'{format_open_call(table)}.scan(at={at!r}, raw=True).filter(pl.col("_file") == {name!r})'


def bucket_reading_code(
    table: TableCore,
    bucket: BucketLocation,
    at: int | str | None,
    partition_fields: Sequence[Field],
    default_partition_name: str,
) -> str:
    """Return the Python that gives the rows of `scan_bucket`.

    A partition whose values have no Python literal is looked up by name in `t.partitions()`.
    """
    opened, when = format_open_call(table), "" if at is None else f"at={at!r}"
    scanned = f"{opened}.with_options({{'scan.bucket': '{bucket.bucket}'}}).scan({when})"
    if not partition_fields:
        return scanned
    spec = dict(partition.parse_partition_path(bucket.partition))
    texts = [spec.get(field.name, default_partition_name) for field in partition_fields]
    if all(
        field.type.root in _TYPES_WITH_LITERAL and text != default_partition_name
        for field, text in zip(partition_fields, texts, strict=True)
    ):
        literals = [
            repr(text) if field.type.root == "VARCHAR" else text
            for field, text in zip(partition_fields, texts, strict=True)
        ]
        terms = [
            f"{_column_code(field.name)} == {literal}"
            for field, literal in zip(partition_fields, literals, strict=True)
        ]
        return f"{scanned}.filter({', '.join(terms)})"
    partitions = (
        f'{opened}.partitions({when}).filter(pl.col("partition") == '
        f'{bucket.partition!r}).select("values").unnest("values").lazy()'
    )
    names = [field.name for field in partition_fields]
    on = f"[{', '.join(map(_column_code, names))}]" if any(map(is_pattern, names)) else repr(names)
    return f'{scanned}.join({partitions}, on={on}, how="semi", nulls_equal=True)'


def _column_code(name: str) -> str:
    """Return the Python that gives the column of exactly this name.

    Polars reads a name `^…$` as a regular expression; such a name is written as an expression that matches only itself.
    """
    return f"pl.col({f'^{re.escape(name)}$' if is_pattern(name) else name!r})"
