"""Read ORC data files, stripe by stripe, with Arrow.

Where a file's types are not Paimon's: CHAR(n) is padded with blanks, which are cut off; TIME is an int of milliseconds;
a MAP is Arrow's map, and becomes a list of key and value.

TIMESTAMP(p) WITH LOCAL TIME ZONE and legacy writers: with `orc.timestamp-ltz.legacy.type=true` (the reference's
default) a Java writer takes the digits of the instant in UTC, reads them as a wall clock in its own zone, and stores
that instant. Such files read right only in the writer's zone: a writer in UTC stores true instants, a value 22:13:20Z
written in Asia/Shanghai is stored as 14:13:20Z. `ltz_zone` names the zone of the writers and undoes it.

Arrow's reader ends the process over a null map key, and has no timestamps beyond nanoseconds. `rewrite_types` rewrites
the tail of a file so that the same streams are read as other types: MAP<k,v> as LIST<STRUCT<key,value>>, TIMESTAMP as
STRUCT<seconds, nanos>.

Source: FORMAT.md 7.5, ENGINE_1.4.2 A.5, `OrcFileFormat`, `OrcTypeUtil`; the ORC specification v1, "File Tail" and
"Stripes".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import orc

from lakekit.codec import orc_bounds, orc_tail
from lakekit.codec.orc_tail import (
    DATA_STREAM,
    LIST,
    LONG,
    MAP,
    SECONDARY_STREAM,
    STRUCT,
    TIMESTAMP,
    TIMESTAMP_INSTANT,
    OrcColumn,
    ProtobufField,
)
from lakekit.columns import col, cols
from lakekit.errors import Corrupt, LimitExceeded
from lakekit.format import external_reader, orc_rewrite, orc_write
from lakekit.format.parquet import out_of_range
from lakekit.format.polars_types import polars_schema, polars_type, unit_of
from lakekit.types import MAPS, TIMESTAMPS, DataType, part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lakekit.codec.orc_tail import OrcTail
    from lakekit.types import Field

open_writer, check_types = orc_write.open_writer, orc_write.check_types
_WALL_CLOCKS = frozenset({"TIMESTAMP"})
_TAIL_TYPES = _WALL_CLOCKS | MAPS
"""Types for which the tail of a file is looked at before Arrow reads its rows."""
_OUT_OF_RANGE = "out of range for nanosecond resolution"
_LAST_SECOND = 9_223_372_036
"""The last complete second that 64 bits of nanoseconds hold."""
_MAX_VALUES = 1 << 31
_ZEROS_V2 = b"\xc1\xff\x00\x00"
"""512 zeros as a delta run: two header bytes, base 0, delta 0."""
_ZEROS_V1 = b"\x7f\x00\x00"
"""130 zeros as a run: length - 3, delta 0, base 0."""


def scan(
    paths: Sequence[str],
    fields: Sequence[Field],
    *,
    read: Callable[[str], str | bytes],
    counts: Mapping[str, int] | None = None,
    timestamp_unit: str | None = None,
    ltz_zone: str | None = None,
) -> pl.LazyFrame:
    """Return the columns `fields` of the files `paths`, in order; a column that a file lacks is null.

    `read` returns a file's bytes, or a local path that Arrow opens itself; `counts` are its rows. `ltz_zone` is the
    zone of legacy writers. Running the frame raises `ValueOutOfRange` for a timestamp that its unit cannot hold.
    """

    def open_file(path: str) -> external_reader.OpenFile:
        return _open_file(read(path), fields, path, (timestamp_unit, ltz_zone))

    return external_reader.scan(
        paths, open_file, polars_schema(fields, timestamp_unit=timestamp_unit), name="orc", counts=counts
    )


def _open_file(
    source: str | bytes, fields: Sequence[Field], path: str, zones: tuple[str | None, str | None]
) -> external_reader.OpenFile:
    tail = orc_bounds.check_tail_and_streams(path, _map_bytes(source), {field.name for field in fields})
    file = orc.ORCFile(source if isinstance(source, str) else pa.BufferReader(source))
    columns_in_file = {f.name: f for f in fields if f.name in set(file.schema.names)}
    missing = {
        f.name: pl.lit(None, polars_type(f.type, timestamp_unit=zones[0])).alias(f.name)
        for f in fields
        if f.name not in columns_in_file
    }

    def batches(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        requested = [columns_in_file[name] for name in columns if name in columns_in_file]
        if not requested:
            yield pl.DataFrame(height=file.nrows).with_columns(missing[name] for name in columns)
            return
        for frame in _read_stripes(file, tail, requested, path, zones):
            yield frame.with_columns(missing[name] for name in columns if name in missing).select(cols(columns))

    return external_reader.OpenFile(row_count=int(file.nrows), batches=batches)


def _read_stripes(
    file: orc.ORCFile, tail: OrcTail, fields: Sequence[Field], path: str, zones: tuple[str | None, str | None]
) -> Iterator[pl.DataFrame]:
    names = [f.name for f in fields]
    if any(f.type.holds(_TAIL_TYPES) for f in fields):
        if any(f.type.holds(_WALL_CLOCKS) for f in fields) and not _is_of_utc(tail):
            yield from _read_timestamps_by_parts(tail, fields, path, zones, 0)
            return
        # Arrow would end the process over them
        if any(f.type.holds(MAPS) for f in fields) and orc_tail.has_null_keys(tail):
            file = orc.ORCFile(pa.BufferReader(rewrite_types(tail)))
    next_stripe = 0
    try:
        for number in range(file.nstripes):
            yield _convert_batch(file.read_stripe(number, columns=names), fields, path, zones)
            next_stripe = number + 1
    except pa.ArrowInvalid as error:
        if _OUT_OF_RANGE not in str(error):
            raise
        yield from _read_timestamps_by_parts(tail, fields, path, zones, next_stripe)


def _is_of_utc(tail: OrcTail) -> bool:
    """Return whether all writers of a file ran in UTC; of others Arrow's wall clocks are not Java's."""
    return all(orc_rewrite.is_utc(orc_tail.writer_zone(tail, number)) for number in range(len(tail.stripes)))


def _map_bytes(source: str | bytes) -> bytes | memoryview:
    """Return the bytes of a file; those of a local one are mapped, and read when they are accessed."""
    if isinstance(source, bytes):
        return source
    with pa.memory_map(source) as file:
        return memoryview(file.read_buffer())


def _convert_batch(
    batch: pa.RecordBatch,
    fields: Sequence[Field],
    path: str,
    zones: tuple[str | None, str | None],
    writer_zone: str | None = None,
) -> pl.DataFrame:
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        _check_texts(name, column, path)
    frame = pl.from_arrow(batch)
    assert isinstance(frame, pl.DataFrame)
    return frame.select(_convert_column(f, batch.schema.field(f.name).type, path, zones, writer_zone) for f in fields)


def _check_texts(name: str, column: pa.Array, path: str) -> None:
    """Raise `Corrupt` if a text of a column is no UTF-8: neither Arrow nor Polars checks it."""
    if pa.types.is_string(column.type):
        data = column.buffers()[2]
        if data is None or not data.size or int(np.frombuffer(data, np.uint8).max()) < 0x80:
            return
    elif not pa.types.is_nested(column.type):
        return
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise Corrupt(f"{path}: column {name}: {str(error).strip()[:200]}", path=path, field=name) from None


def _convert_column(
    field: Field, arrow: pa.DataType, path: str, zones: tuple[str | None, str | None], writer_zone: str | None
) -> pl.Expr:
    """Convert a physical column to its Paimon type; with a `writer_zone`, its timestamps are STRUCTs."""
    unit, zone = zones

    def leaf(column: pl.Expr, t: DataType) -> pl.Expr | None:
        if writer_zone is not None and t.root in TIMESTAMPS:
            return _join_timestamp(column, t, field, path, (zone, writer_zone), unit)
        return _convert_leaf(column, t, unit, zone)

    if not _has_arrow_type(field.type, arrow):
        raise Corrupt(
            f"{path}: column {field.name} is {field.type}, the file holds {arrow}", path=path, field=field.name
        )
    column = col(field.name)
    column = column.cast(_polars_dtype(arrow)) if field.type.holds(MAPS) else column
    changed = external_reader.map_leaves(column, field.type, leaf)
    return (column if changed is None else changed).cast(polars_type(field.type, timestamp_unit=unit)).alias(field.name)


def _polars_dtype(arrow: pa.DataType) -> pl.DataType:
    """Return the Polars type of an Arrow type, maps as lists of key and value."""
    checks = pa.types
    if checks.is_map(arrow):
        return pl.List(pl.Struct({"key": _polars_dtype(arrow.key_type), "value": _polars_dtype(arrow.item_type)}))
    if checks.is_list(arrow):
        return pl.List(_polars_dtype(arrow.value_type))
    if checks.is_struct(arrow):
        return pl.Struct({f.name: _polars_dtype(f.type) for f in arrow})
    empty = pl.from_arrow(pa.array([], arrow))
    assert isinstance(empty, pl.Series)
    return empty.dtype


_ARROW_PREDICATES = {
    "BOOLEAN": pa.types.is_boolean, "TINYINT": pa.types.is_integer, "SMALLINT": pa.types.is_integer,
    "INT": pa.types.is_integer, "BIGINT": pa.types.is_integer, "FLOAT": pa.types.is_floating,
    "DOUBLE": pa.types.is_floating, "DECIMAL": pa.types.is_decimal, "CHAR": pa.types.is_string,
    "VARCHAR": pa.types.is_string, "BINARY": pa.types.is_binary, "VARBINARY": pa.types.is_binary,
    "BLOB": pa.types.is_binary, "DATE": pa.types.is_date32, "TIME": pa.types.is_integer,
    "TIMESTAMP": pa.types.is_timestamp, "TIMESTAMP_LTZ": pa.types.is_timestamp, "ARRAY": pa.types.is_list,
    "ROW": pa.types.is_struct,
}  # fmt: skip


def _has_arrow_type(t: DataType, arrow: pa.DataType) -> bool:
    checks = pa.types
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and checks.is_struct(arrow):  # seconds and nanos
        return True
    if t.root in ("MAP", "MULTISET"):
        key, value = (part(t.key), part(t.value)) if t.root == "MAP" else (part(t.element), DataType(root="INT"))
        if checks.is_map(arrow):
            return _has_arrow_type(key, arrow.key_type) and _has_arrow_type(value, arrow.item_type)
        if (
            checks.is_list(arrow)
            and checks.is_struct(arrow.value_type)
            and [f.name for f in arrow.value_type] == ["key", "value"]
        ):
            return _has_arrow_type(key, arrow.value_type.field(0).type) and _has_arrow_type(
                value, arrow.value_type.field(1).type
            )
        return False
    if t.root not in _ARROW_PREDICATES or not _ARROW_PREDICATES[t.root](arrow):
        return False
    if t.root == "ARRAY":
        return _has_arrow_type(part(t.element), arrow.value_type)
    names = [f.name for f in arrow] if t.root == "ROW" else []
    return all(f.name in names and _has_arrow_type(f.type, arrow.field(f.name).type) for f in t.fields)


def _convert_leaf(column: pl.Expr, t: DataType, unit: str | None, zone: str | None) -> pl.Expr | None:
    match t.root:
        case "CHAR":
            return column.str.strip_chars_end(" ")
        case "TIME":
            return (column.cast(pl.Int64) * 1_000_000).cast(pl.Time)
        case "TIMESTAMP":
            return column.dt.cast_time_unit(unit_of(t, unit))
        case "TIMESTAMP_LTZ":
            return _legacy_instant(column.dt.cast_time_unit(unit_of(t, unit)), zone)
    return None


def _legacy_instant(column: pl.Expr, zone: str | None) -> pl.Expr:
    """Return the instant that a legacy writer meant by a stored one: its wall clock in `zone`, as UTC."""
    if zone is None or zone == "UTC":
        return column
    return column.dt.convert_time_zone(zone).dt.replace_time_zone(None).dt.replace_time_zone("UTC")


# ---- timestamps as seconds and nanoseconds ---------------------------------------------------------------------------


def _read_timestamps_by_parts(
    tail: OrcTail, fields: Sequence[Field], path: str, zones: tuple[str | None, str | None], first: int
) -> Iterator[pl.DataFrame]:
    """Yield the stripes from `first` on, their timestamps read as seconds and nanoseconds.

    Arrow cannot join the two for times that 64 bits of nanoseconds do not hold, nor as Java does for writers outside of
    UTC.
    """
    file = orc.ORCFile(pa.BufferReader(rewrite_types(tail, timestamps=True)))
    for number in range(first, file.nstripes):
        yield _convert_batch(
            file.read_stripe(number, columns=[f.name for f in fields]),
            fields,
            path,
            zones,
            orc_tail.writer_zone(tail, number),
        )


def _join_timestamp(
    column: pl.Expr, t: DataType, field: Field, path: str, zones: tuple[str | None, str], finest: str | None
) -> pl.Expr:
    """Convert STRUCT<seconds, nanos> to a timestamp, seconds from 2015 in the writer's zone (LTZ: in UTC)."""
    ltz_zone, writer_zone = zones
    unit = unit_of(t, finest)
    nanos = column.struct.field("nanos").to_physical() - orc_rewrite.EPOCH_2015 * 1_000_000_000
    zone = writer_zone if t.root == "TIMESTAMP" else ""
    seconds = column.struct.field("seconds") + orc_rewrite.epoch_2015_seconds(zone)
    seconds = seconds - ((seconds < 0) & (nanos > 999_999)).cast(pl.Int64)  # writers cut instants toward zero
    if not orc_rewrite.is_utc(zone):
        seconds = seconds.map_batches(partial(_wall_seconds, zone=zone), return_dtype=pl.Int64, is_elementwise=True)
    ticks = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]
    within = partial(_check_range, limit=_LAST_SECOND * 1_000_000_000 // ticks, field=field, path=path)
    seconds = seconds.map_batches(within, return_dtype=pl.Int64, is_elementwise=True)
    joined = (seconds * ticks + nanos // (1_000_000_000 // ticks)).cast(
        pl.Datetime(unit, "UTC" if t.root == "TIMESTAMP_LTZ" else None)
    )
    return _legacy_instant(joined, ltz_zone) if t.root == "TIMESTAMP_LTZ" else joined


def _wall_seconds(seconds: pl.Series, *, zone: str) -> pl.Series:
    """Return the times that a clock in the zone shows at instants, in seconds; nulls stay."""
    instants = seconds.fill_null(0).to_numpy()
    walls = pl.Series(seconds.name, instants + orc_rewrite.utc_offsets(instants, zone))
    return (
        walls if not seconds.null_count() else walls.zip_with(seconds.is_not_null(), pl.Series([None], dtype=pl.Int64))
    )


def _check_range(seconds: pl.Series, *, limit: int, field: Field, path: str) -> pl.Series:
    if ((seconds >= limit) | (seconds < -limit)).any():
        raise out_of_range(field, path)
    return seconds


# ---- the same streams under other types ------------------------------------------------------------------------------


def rewrite_types(tail: OrcTail, *, maps: bool = True, timestamps: bool = False) -> bytes:
    """Return the file with MAPs as lists of key and value, and, with `timestamps`, timestamps as STRUCTs.

    Such a STRUCT has `seconds`, LONG, which count from 2015-01-01 in the writer's time zone, and `nanos`, which come as
    timestamps after 2015-01-01T00:00Z.
    """
    root = _change_column(tail.root, maps=maps, timestamps=timestamps)
    columns = list(root.preorder())
    moved: dict[tuple[int, int], int] = {}
    for at, column in enumerate(columns):
        moved |= dict.fromkeys(column.adopted_streams, at)
    numbers = {column.column_id: at for at, column in enumerate(columns) if column.column_id >= 0}
    out = bytearray(b"ORC")
    stripes = []
    for stripe in tail.stripes:
        begin = stripe.offset
        body = tail.data[begin : begin + stripe.index_bytes + stripe.data_bytes]
        footer, zeros = _stripe_footer(orc_tail.read_stripe_footer(tail, stripe), columns, numbers, moved, tail)
        packed = orc_tail.store_chunks(footer, tail)
        sizes = (len(out), stripe.index_bytes, stripe.data_bytes + len(zeros), len(packed), stripe.row_count)
        stripes.append(orc_tail.build_message([ProtobufField(i + 1, size) for i, size in enumerate(sizes)]))
        for piece in (body, zeros, packed):
            out += piece
    unchanged = [part for part in tail.footer if part.field_number not in (2, 3, 4, 7)]
    added = [
        ProtobufField(2, len(out)),
        *(ProtobufField(3, stripe_message) for stripe_message in stripes),
        *(ProtobufField(4, t) for t in orc_tail.type_messages(root)),
    ]
    packed = orc_tail.store_chunks(orc_tail.build_message([*added, *unchanged]), tail)
    replaced = {1: len(packed), 5: 0, 7: 0}
    postscript = orc_tail.build_message(
        [ProtobufField(p.field_number, replaced.get(p.field_number, p.value)) for p in tail.postscript]
    )
    return bytes(out) + packed + postscript + bytes([len(postscript)])


def _change_column(column: OrcColumn, *, maps: bool, timestamps: bool) -> OrcColumn:
    children = [_change_column(child, maps=maps, timestamps=timestamps) for child in column.children]
    if column.kind == MAP and maps and len(children) == 2:
        entry = OrcColumn(STRUCT, -1, [], children, [b"key", b"value"])
        return OrcColumn(LIST, column.column_id, [], [entry])
    if column.kind in (TIMESTAMP, TIMESTAMP_INSTANT) and timestamps:
        seconds = OrcColumn(LONG, -1, [], adopted_streams={(column.column_id, DATA_STREAM): 0})
        nanos = OrcColumn(
            TIMESTAMP_INSTANT, -1, [], adopted_streams={(column.column_id, SECONDARY_STREAM): 0}, adds_zero_stream=True
        )
        return OrcColumn(STRUCT, column.column_id, [], [seconds, nanos], [b"seconds", b"nanos"])
    return OrcColumn(column.kind, column.column_id, column.members, children, column.names)


def _stripe_footer(
    footer: list[ProtobufField],
    columns: list[OrcColumn],
    column_numbers: dict[int, int],
    moved_streams: dict[tuple[int, int], int],
    tail: OrcTail,
) -> tuple[bytes, bytes]:
    """Return the footer with streams and encodings under their new columns, and streams of zeros to add."""
    streams: list[ProtobufField] = []
    for stream in orc_tail.bytes_members(footer, 1):
        members = orc_tail.parse_members(stream)
        kind, number = orc_tail.integer_member(members, 1), orc_tail.integer_member(members, 2)
        at = moved_streams.get((number, kind), column_numbers.get(number, 0))
        streams.append(
            ProtobufField(
                1,
                orc_tail.build_message(
                    [
                        ProtobufField(1, kind),
                        ProtobufField(2, at),
                        ProtobufField(3, orc_tail.integer_member(members, 3)),
                    ]
                ),
            )
        )
    encodings = orc_tail.bytes_members(footer, 2)
    added = bytearray()
    kinds = []
    for at, column in enumerate(columns):
        old = next(iter(column.adopted_streams), (column.column_id, 0))[0]
        encoding = encodings[old] if 0 <= old < len(encodings) else b""
        kinds.append(ProtobufField(2, b"" if column.kind == STRUCT else encoding))
        if column.adds_zero_stream:
            zeros = orc_tail.store_chunks(_encode_zeros(encoding, tail.counts[old]), tail)
            added += zeros
            streams.append(
                ProtobufField(
                    1,
                    orc_tail.build_message(
                        [ProtobufField(1, DATA_STREAM), ProtobufField(2, at), ProtobufField(3, len(zeros))]
                    ),
                )
            )
    other_members = [part for part in footer if part.field_number not in (1, 2, 3)]
    # Arrow may not have the rules of the writer's zone
    return orc_tail.build_message([*streams, *kinds, ProtobufField(3, b"UTC"), *other_members]), bytes(added)


def _encode_zeros(encoding: bytes, count: int) -> bytes:
    """Return at least `count` zeros in the integer encoding of a column."""
    if count > _MAX_VALUES:
        raise LimitExceeded(f"a column of {count} timestamps", field="statistics")
    run, step = (
        (_ZEROS_V2, 512) if orc_tail.integer_member(orc_tail.parse_members(encoding), 1) >= 2 else (_ZEROS_V1, 130)
    )
    return run * (count // step + 1)
