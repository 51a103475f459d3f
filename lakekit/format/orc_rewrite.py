"""Values of ORC files that Arrow's reader or writer does not handle: maps with null keys, times of other forms.

    LIST<STRUCT<key, value>>, the STRUCT marked   ->   MAP<key, value>                    `restore_maps`
    -1.0005 s  seconds -1, nanos -500 000         ->   seconds -1, nanos 999 500 000      `rewrite_timestamps`
    -1.9995 s  seconds -1, nanos -999 500 000     ->   seconds -2, nanos 500 000

Arrow's writer ends the process over null keys, so such files are written as lists first. The streams of the STRUCT are
dropped, its number too: every column behind it moves up by one, in types, streams, encodings and statistics. All other
bytes of a stripe stay as they are. `orc.rewrite_types` goes the other way, for Arrow's reader.

Arrow cuts times toward zero and stores negative nanoseconds. The reference reads such a time if it is a whole number of
milliseconds, and fails if it is not. The two streams of such columns are replaced by those of the reference. Row
indexes and the bounds of these columns are dropped: they would give other places and other times. A time in the last
second before 1970 stays as Arrow writes it: the form that the reference writes is read by the reference a second late.

An ORC TIMESTAMP is a wall clock. Its file stores the instant at which a clock in the zone of the writer showed it, as
whole seconds since 2015-01-01 in that zone, cut toward zero, and nanoseconds. A reader of an instant before 1970
subtracts the second that the cut added, and then looks up the offset of the zone, by the rules of `java.util.TimeZone`
(`utc_offsets`):

    stored (seconds s, nanos n)     s = s + base;  s = s - 1 where s < 0 and n > 999 999;  wall clock = s + offset(s), n

`java.util.TimeZone` has no offset before 1900: it returns today's standard time. Its names are those of the tz
database, three letters for some of them, and `GMT+08:00`.

Source: the ORC specification v1, "File Tail", "Stripes", "Map Columns" (a present stream of the key column is all that
a null key needs), "Timestamp Columns", "Run Length Encoding" (direct); ORC's `TimestampTreeReader`,
`TimestampTreeWriter`, `SerializationUtils.convertBetweenTimezones`; `sun.util.calendar.ZoneInfo`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from lakekit.codec import orc_tail
from lakekit.codec.orc_tail import (
    DATA_STREAM,
    LIST,
    MAP,
    SECONDARY_STREAM,
    STRUCT,
    TIMESTAMP,
    TIMESTAMP_INSTANT,
    OrcColumn,
    ProtobufField,
)
from lakekit.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from numpy.typing import NDArray

    from lakekit.codec.orc_tail import OrcTail, StripeRange

    Ticks = NDArray[np.int64]
    Seconds = NDArray[np.int64]

EPOCH_2015 = 1_420_070_400
MAP_ATTRIBUTE = "lakekit.map"
"""The attribute of a STRUCT that is an entry of a map."""
INDEX_STREAMS = frozenset({6, 7, 8})
"""Row indexes and bloom filters, which precede the data of a stripe."""
_TYPE_ATTRIBUTES_FIELD = 7
_STRIPES_FIELD, _TYPES_FIELD, _STATISTICS_FIELD, _ROW_INDEX_STRIDE_FIELD = 3, 4, 7, 8
_TIMESTAMP_KINDS = frozenset({TIMESTAMP, TIMESTAMP_INSTANT})
_TIMESTAMP_STATISTICS_FIELD = 9
"""The member of a column's statistics that holds its least and greatest time."""
_RUN_BIT_WIDTHS = np.array([*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64])
_MAX_RUN_LENGTH = 512


class RewrittenStripe(NamedTuple):
    """One stripe: its index streams, its data streams, the message that is its footer, its number of rows."""

    indexes: bytes
    body: bytes
    footer: bytes
    row_count: int


def file_statistics(tail: OrcTail) -> list[bytes]:
    """Return the statistics of the whole file, a message for each column."""
    return [
        bytes(part.value)
        for part in tail.footer
        if part.field_number == _STATISTICS_FIELD and isinstance(part.value, bytes)
    ]


def stripe_statistics(tail: OrcTail) -> list[list[bytes]]:
    """Return the statistics of every stripe, a message for each column; nothing of a file that has none."""
    size, length = orc_tail.integer_member(tail.postscript, 5), orc_tail.integer_member(tail.postscript, 1)
    if not size:
        return []
    end = len(tail.data) - 1 - tail.data[-1] - length
    metadata = orc_tail.inflate_all(bytes(tail.data[end - size : end]), tail.codec, tail.block_bytes)
    stripes = orc_tail.bytes_members(orc_tail.parse_members(metadata), 1)
    return [orc_tail.bytes_members(orc_tail.parse_members(text), 1) for text in stripes]


def build_file(
    tail: OrcTail,
    stripes: Iterable[RewrittenStripe],
    root: OrcColumn,
    statistics: Sequence[bytes],
    statistics_by_stripe: Sequence[Sequence[bytes]],
) -> bytes:
    """Return a file of those stripes, types and statistics; where no stripe has an index, the tail says so."""
    out = bytearray(b"ORC")
    told, has_index = [], False
    for stripe in stripes:
        packed = orc_tail.store_chunks(stripe.footer, tail)
        sizes = (len(out), len(stripe.indexes), len(stripe.body), len(packed), stripe.row_count)
        told.append(orc_tail.build_message([ProtobufField(member, size) for member, size in enumerate(sizes, start=1)]))
        has_index = has_index or bool(stripe.indexes)
        for piece in (stripe.indexes, stripe.body, packed):
            out += piece
    content_bytes = len(out)
    metadata = _stripe_statistics_message(tail, statistics_by_stripe)
    replaced = {2, _STRIPES_FIELD, _TYPES_FIELD, _STATISTICS_FIELD} | (
        set() if has_index else {_ROW_INDEX_STRIDE_FIELD}
    )
    members = [
        ProtobufField(2, content_bytes),
        *(ProtobufField(_STRIPES_FIELD, message) for message in told),
        *(ProtobufField(_TYPES_FIELD, message) for message in orc_tail.type_messages(root)),
        *(ProtobufField(_STATISTICS_FIELD, message) for message in statistics),
        *([] if has_index else [ProtobufField(_ROW_INDEX_STRIDE_FIELD, 0)]),
        *(part for part in tail.footer if part.field_number not in replaced),
    ]
    footer = orc_tail.store_chunks(orc_tail.build_message(members), tail)
    sizes_of = {1: len(footer), 5: len(metadata)}
    postscript = orc_tail.build_message(
        [ProtobufField(part.field_number, sizes_of.get(part.field_number, part.value)) for part in tail.postscript]
    )
    return bytes(out) + metadata + footer + postscript + bytes([len(postscript)])


def _stripe_statistics_message(tail: OrcTail, statistics_by_stripe: Sequence[Sequence[bytes]]) -> bytes:
    messages = [
        orc_tail.build_message([ProtobufField(1, message) for message in columns]) for columns in statistics_by_stripe
    ]
    return orc_tail.store_chunks(orc_tail.build_message([ProtobufField(1, message) for message in messages]), tail)


# ---- maps ------------------------------------------------------------


def restore_maps(data: bytes | bytearray) -> bytes:
    """Return the file with its marked lists as maps. Raises what `orc_tail.parse_tail` raises."""
    tail = orc_tail.parse_tail(bytes(data))
    columns = list(_with_maps(tail.root).preorder())
    numbers = {column.column_id: number for number, column in enumerate(columns)}
    stripes = (_restore_stripe_maps(tail, stripe, columns, numbers) for stripe in tail.stripes)
    by_stripe = [_reorder_columns(messages, columns) for messages in stripe_statistics(tail)]
    statistics = _reorder_columns(file_statistics(tail), columns)
    return build_file(tail, stripes, columns[0], statistics, by_stripe)


def _with_maps(column: OrcColumn) -> OrcColumn:
    """Return the type tree with maps in place of marked lists."""
    children = column.children
    if column.kind == LIST and children and _is_marked(children[0]):
        return OrcColumn(MAP, column.column_id, column.members, [_with_maps(child) for child in children[0].children])
    return OrcColumn(
        column.kind, column.column_id, column.members, [_with_maps(child) for child in children], column.names
    )


def _is_marked(column: OrcColumn) -> bool:
    texts = [part.value for part in column.members if part.field_number == _TYPE_ATTRIBUTES_FIELD]
    return column.kind == STRUCT and any(isinstance(text, bytes) and MAP_ATTRIBUTE.encode() in text for text in texts)


def _restore_stripe_maps(
    tail: OrcTail, stripe: StripeRange, columns: Sequence[OrcColumn], new_ids: dict[int, int]
) -> RewrittenStripe:
    """Return a stripe without what belongs to dropped columns."""
    footer = orc_tail.read_stripe_footer(tail, stripe)
    index, body = bytearray(), bytearray()
    streams: list[ProtobufField] = []
    start = stripe.offset
    for text in orc_tail.bytes_members(footer, 1):
        parts = orc_tail.parse_members(text)
        kind, number, length = (orc_tail.integer_member(parts, member) for member in (1, 2, 3))
        if number in new_ids:
            into = index if kind in INDEX_STREAMS else body
            into += tail.data[start : start + length]
            streams.append(
                ProtobufField(
                    1,
                    orc_tail.build_message(
                        [ProtobufField(1, kind), ProtobufField(2, new_ids[number]), ProtobufField(3, length)]
                    ),
                )
            )
        start += length
    encodings = [
        ProtobufField(2, encoding) for encoding in _reorder_columns(orc_tail.bytes_members(footer, 2), columns)
    ]
    other_members = [part for part in footer if part.field_number not in (1, 2)]
    message = orc_tail.build_message([*streams, *encodings, *other_members])
    return RewrittenStripe(bytes(index), bytes(body), message, stripe.row_count)


def _reorder_columns(messages: Sequence[bytes], columns: Sequence[OrcColumn]) -> list[bytes]:
    """Return the texts of the columns that are left, in their order; `messages` has one for each old column."""
    return [messages[column.column_id] for column in columns if column.column_id < len(messages)]


# ---- times before 1970 ------------------------------------------------------------


class TimestampColumn(NamedTuple):
    """The non-null times of one column of a file, in row order.

    `ticks` counts units since 1970; `ticks_per_milli` is how many of them are a millisecond (1, 1000 or 1 000 000).
    """

    ticks: Ticks
    ticks_per_milli: int


def has_submilli_before_1970(ticks: Ticks, ticks_per_milli: int) -> NDArray[np.bool_]:
    """Return the mask of times before 1970 that are no whole number of milliseconds."""
    return (ticks < 0) & (ticks % ticks_per_milli != 0)


def is_last_second_before_1970(ticks: Ticks, ticks_per_milli: int) -> NDArray[np.bool_]:
    """Return the mask of times in the second before 1970: their seconds are stored as 0."""
    return (ticks < 0) & (ticks >= -999 * ticks_per_milli)


def rewrite_timestamps(data: bytes | bytearray, columns: Sequence[TimestampColumn | None]) -> bytes:
    """Return the file with other streams for its timestamps. Raises what `orc_tail.parse_tail` raises.

    Args:
        data: the file.
        columns: the values of each timestamp column in the order of the columns; None: it stays as it is.
    """
    tail = orc_tail.parse_tail(bytes(data))
    numbers = [column.column_id for column in tail.root.preorder() if column.kind in _TIMESTAMP_KINDS]
    changed = {number: one for number, one in zip(numbers, columns, strict=True) if one is not None}
    by_stripe = stripe_statistics(tail)
    stripes = []
    ends = dict.fromkeys(changed, 0)
    for stripe, statistics in zip(tail.stripes, by_stripe, strict=True):
        streams = {}
        for number, one in changed.items():
            count = orc_tail.integer_member(orc_tail.parse_members(statistics[number]), 1)
            part = one.ticks[ends[number] : ends[number] + count]
            ends[number] += count
            streams[number, DATA_STREAM], streams[number, SECONDARY_STREAM] = encode_timestamps(
                part, one.ticks_per_milli
            )
        stripes.append(_rewrite_timestamp_stripe(tail, stripe, streams))
    return build_file(
        tail,
        stripes,
        tail.root,
        _without_bounds(file_statistics(tail), changed),
        [_without_bounds(statistics, changed) for statistics in by_stripe],
    )


def _without_bounds(statistics: Sequence[bytes], changed: Container[int]) -> list[bytes]:
    return [
        orc_tail.build_message(
            [part for part in orc_tail.parse_members(message) if part.field_number != _TIMESTAMP_STATISTICS_FIELD]
        )
        if number in changed
        else message
        for number, message in enumerate(statistics)
    ]


def _rewrite_timestamp_stripe(
    tail: OrcTail, stripe: StripeRange, changed: dict[tuple[int, int], bytes]
) -> RewrittenStripe:
    """Return a stripe with the changed streams (by column and kind) and without its indexes."""
    footer = orc_tail.read_stripe_footer(tail, stripe)
    body = bytearray()
    streams: list[ProtobufField] = []
    start = stripe.offset
    for text in orc_tail.bytes_members(footer, 1):
        parts = orc_tail.parse_members(text)
        kind, number, length = (orc_tail.integer_member(parts, member) for member in (1, 2, 3))
        stream = bytes(tail.data[start : start + length])
        start += length
        if kind in INDEX_STREAMS:
            continue
        if (number, kind) in changed:
            stream = orc_tail.store_chunks(changed[number, kind], tail)
        body += stream
        streams.append(
            ProtobufField(
                1,
                orc_tail.build_message(
                    [ProtobufField(1, kind), ProtobufField(2, number), ProtobufField(3, len(stream))]
                ),
            )
        )
    message = orc_tail.build_message([*streams, *(part for part in footer if part.field_number != 1)])
    return RewrittenStripe(b"", bytes(body), message, stripe.row_count)


def encode_timestamps(ticks: Ticks, ticks_per_milli: int) -> tuple[bytes, bytes]:
    """Return the stream of seconds and the stream of nanoseconds of times."""
    millis, rest = np.divmod(ticks, ticks_per_milli)
    seconds = np.where(millis < 0, -(-millis // 1000), millis // 1000)
    nanos = millis % 1000 * 1_000_000 + rest * (1_000_000 // ticks_per_milli)
    nanos = np.where(is_last_second_before_1970(ticks, ticks_per_milli), nanos - 1_000_000_000, nanos)
    from_2015 = seconds - EPOCH_2015
    return _encode_direct(((from_2015 << 1) ^ (from_2015 >> 63)).view(np.uint64)), _encode_direct(
        _encode_trailing_zeros(nanos)
    )


def _encode_trailing_zeros(nanos: Ticks) -> NDArray[np.uint64]:
    """Return nanoseconds as ORC stores them.

    Two to eight trailing zeros are removed and counted in the low three bits.
    """
    stored = nanos << 3
    for zeros in range(2, 9):
        stored = np.where(nanos % 10**zeros == 0, nanos // 10**zeros << 3 | zeros - 1, stored)
    return np.where(nanos == 0, 0, stored).view(np.uint64)


def _encode_direct(values: NDArray[np.uint64]) -> bytes:
    """Return unsigned numbers in direct runs, each as wide as its greatest number."""
    return b"".join(
        _encode_run(values[start : start + _MAX_RUN_LENGTH]) for start in range(0, len(values), _MAX_RUN_LENGTH)
    )


def _encode_run(values: NDArray[np.uint64]) -> bytes:
    code = int(np.searchsorted(_RUN_BIT_WIDTHS, max(1, int(values.max()).bit_length())))
    bits = np.unpackbits(values.astype(">u8").view(np.uint8)).reshape(-1, 64)[:, 64 - int(_RUN_BIT_WIDTHS[code]) :]
    head = 1 << 14 | code << 9 | len(values) - 1
    return head.to_bytes(2, "big") + np.packbits(bits.ravel()).tobytes()


# ---- wall clocks ------------------------------------------------------------

_FIRST_SECOND = -2_208_988_800
"""1900-01-01T00:00Z: `java.util.TimeZone` has no transitions before it."""
_RULE_SECOND = 4_102_444_800
"""2100-01-01T00:00Z: Polars' tz database has no transitions after it."""
_RULE_YEARS = range(2072, 2100)
"""Years of every kind (leap or not, by the weekday of its first day), under the last rules of each zone."""
_YEAR_2036 = (2_082_758_400, 2_114_380_800)
_UTC_NAMES = frozenset(
    {
        "",
        "UTC",
        "GMT",
        "Z",
        "UCT",
        "Zulu",
        "Universal",
        "Greenwich",
        "GMT0",
        "Etc/UTC",
        "Etc/GMT",
        "Etc/UCT",
        "Etc/Zulu",
        "Etc/Universal",
    }
)
_GMT_OFFSET = re.compile(r"GMT([+-])(\d{1,2})(?::?(\d{2}))?", re.ASCII)
_SHORT_IDS = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""Names that `java.util.TimeZone` has for some zones."""
_FIXED_OFFSETS = {"EST": -18_000, "MST": -25_200, "HST": -36_000}


def is_utc(zone: str) -> bool:
    """Return whether wall clocks of a zone are instants; a file that names no zone counts as UTC."""
    return zone in _UTC_NAMES or zone in {"Etc/GMT+0", "Etc/GMT-0", "Etc/GMT0", "Etc/Greenwich"}


def epoch_2015_seconds(zone: str) -> int:
    """Return the instant of 2015-01-01T00:00 on a clock of the zone.

    Raises `Unsupported` for a zone without rules.
    """
    wall = np.array([EPOCH_2015], np.int64)
    return int(EPOCH_2015 - utc_offsets(wall - utc_offsets(wall, zone), zone)[0])


def utc_offsets(seconds: Seconds, zone: str) -> Seconds:
    """Return the offset of a zone from UTC, in seconds, at each instant (int64[n], epoch seconds).

    Raises `Unsupported` for a zone that has no rules here.
    """
    fixed, name = _resolve_zone(zone)
    if name is None:
        return np.full(len(seconds), fixed, np.int64)
    known_seconds = _map_to_known_years(np.maximum(seconds, _FIRST_SECOND))
    offsets = _zone_offsets(known_seconds, name)
    return np.where(seconds < _FIRST_SECOND, _standard_offset(name), offsets)


@lru_cache(maxsize=64)
def _resolve_zone(zone: str) -> tuple[int, str | None]:
    """Return a fixed offset in seconds, or the name of a zone of the tz database."""
    if is_utc(zone) or zone in _FIXED_OFFSETS:
        return _FIXED_OFFSETS.get(zone, 0), None
    custom = _GMT_OFFSET.fullmatch(zone)
    if custom is not None and int(custom.group(2)) < 24 and int(custom.group(3) or 0) < 60:
        seconds = int(custom.group(2)) * 3600 + int(custom.group(3) or 0) * 60
        return -seconds if custom.group(1) == "-" else seconds, None
    name = _SHORT_IDS.get(zone, zone)
    try:
        _zone_offsets(np.zeros(1, np.int64), name)
    except pl.exceptions.PolarsError:
        raise Unsupported(
            f"the writer of an ORC file names its time zone {zone[:60]!r}, which the tz database does not have; "
            "its TIMESTAMP columns are wall clocks there. "
            "Read other columns, or have the engine that wrote it rewrite it in UTC",
            feature="file.format.orc",
        ) from None
    return 0, name


def _zone_offsets(seconds: Seconds, name: str) -> Seconds:
    clock = pl.Series(seconds * 1000).cast(pl.Datetime("ms", "UTC")).dt.convert_time_zone(name)
    return (clock.dt.base_utc_offset() + clock.dt.dst_offset()).cast(pl.Int64).to_numpy() // 1000


@lru_cache(maxsize=64)
def _standard_offset(name: str) -> int:
    """Return the standard offset of a zone under its last rules: the smaller one of the year's offsets, in seconds."""
    return int(_zone_offsets(np.arange(*_YEAR_2036, 86_400, dtype=np.int64), name).min())


def _map_to_known_years(seconds: Seconds) -> Seconds:
    """Move instants after 2099 into years of the same calendar, for which zones have the same rules."""
    late = seconds >= _RULE_SECOND
    if not late.any():
        return seconds
    moved = seconds.copy()
    years = seconds[late].astype("datetime64[s]").astype("datetime64[Y]")
    distinct, indexes = np.unique(years, return_inverse=True)
    shifts = np.array([_calendar_shift(int(year)) for year in distinct.astype(np.int64) + 1970], np.int64)
    moved[late] -= shifts[indexes]
    return moved


@lru_cache(maxsize=512)
def _calendar_shift(year: int) -> int:
    """Return the seconds between the start of `year` and of the `_RULE_YEARS` year with its calendar."""
    first = _first_second(year)
    kind = _calendar_kind(year)
    same = next(candidate for candidate in reversed(_RULE_YEARS) if _calendar_kind(candidate) == kind)
    return first - _first_second(same)


def _first_second(year: int) -> int:
    return _days_before(year) * 86_400


def _days_before(year: int) -> int:
    """Return the days from 1970-01-01 to the first day of a year."""
    years_before = year - 1
    return years_before * 365 + years_before // 4 - years_before // 100 + years_before // 400 - 719_162


def _calendar_kind(year: int) -> tuple[bool, int]:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0), _days_before(year) % 7
