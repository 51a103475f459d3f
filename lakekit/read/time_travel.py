"""The snapshot that a read means: `at=`, `scan.*` options, or the newest; automatic tags.

    at=3 · at="v1" (a tag of that name, else digits are a snapshot, else an ISO time) · at=datetime(2024, 3, 1)
    {"scan.mode": "compacted-full"} · {"scan.timestamp-millis": "1700000000000"} · {"scan.watermark": "…"} · …

    daily          2024-01-01        20240101         tags that engines create by the clock, one for each period;
    hourly         2024-01-01 05     20240101 05      a name that begins so and continues after a blank counts too
                   2024010105
    two-hours      2024-01-01 04
    a duration     202401010405      year, month, day, hour, minute

An older snapshot is read with the schema of its time; the newest snapshot is read with the newest schema.

Source: ENGINE 5.10, 6.1, 6.2, 6.3; `TagPeriodHandler`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakekit.errors import InvalidOption, SnapshotNotFound
from lakekit.metadata import refs, schemas, snapshots
from lakekit.model.snapshot import BATCH_IDENTIFIER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.snapshot import Snapshot


_MAX_DIGITS = 19
_WATERMARK_PREFIX = "watermark-"
POSITION_OPTIONS = ("scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.timestamp", "scan.timestamp-millis")
"""Options that each name one position: only one of them may be set."""
FILES_SINCE_OPTION = "scan.file-creation-time-millis"
"""The option that asks for the rows of files made since a time."""
_OTHER_SCAN_KEYS = ("scan.mode", "scan.version", "scan.creation-time-millis", FILES_SINCE_OPTION)
LATEST_MODES = ("latest", "latest-full", "compacted-full")
SCAN_KEYS = (*POSITION_OPTIONS, *_OTHER_SCAN_KEYS)
INCREMENTAL_KEYS = ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag")
"""Options that each name a range of changes."""
INCREMENTAL_MODES = ("incremental", "latest-delta")
"""Scan modes that read changes and not a state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The state that a read reads.

    No snapshot: the table is empty. `schema_id` None: the newest schema. `created_since_ms`: only files created since.
    """

    snapshot: Snapshot | None
    schema_id: int | None = None
    created_since_ms: int | None = None


def means_changes(ctx: TableContext) -> bool:
    """Return whether the table's options ask for changes and not for a state (ENGINE 6.1)."""
    return ctx.options.scan_mode in INCREMENTAL_MODES or any(
        ctx.all_options.get(key) is not None for key in INCREMENTAL_KEYS
    )


EMPTY_TABLE = Position(snapshot=None)
"""Where a table without snapshots is read: with the newest schema."""


def means_newest(ctx: TableContext) -> bool:
    """Return whether the table's options ask for the newest snapshot, whichever that is.

    Then its columns are known without its number. Raises `InvalidOption`.
    """
    return scan_mode_of(ctx)[0] in ("latest", "latest-full")


def names_a_snapshot(ctx: TableContext, at: int | str | datetime | None) -> bool:
    """Return whether `at`, or else the table's options, give the number of a snapshot or a tag.

    Another branch has other snapshots under such names.
    """
    if at is None:
        table_options = ctx.all_options
        version = table_options.get("scan.version")
        return (
            "scan.snapshot-id" in table_options
            or "scan.tag-name" in table_options
            or (version is not None and not version.startswith(_WATERMARK_PREFIX))
        )
    if isinstance(at, str):
        return refs.find_tag(ctx, at) is not None or parse_digits(at) is not None
    return isinstance(at, int)


def resolve_position(ctx: TableContext, at: int | str | datetime | None = None) -> Position:
    """Return the position that `at`, or else the table's options, mean.

    Raises `SnapshotNotFound`, `TagNotFound` or `InvalidOption`.
    """
    if at is not None:
        return position_of(_resolve_at(ctx, at))
    return _resolve_by_mode(ctx, *scan_mode_of(ctx))


def scan_mode_of(ctx: TableContext) -> tuple[str, dict[str, str]]:
    """Return the scan mode that the table's options mean, and those options.

    Raises:
        InvalidOption: options contradict each other.
    """
    scan_options = {key: value for key in SCAN_KEYS if (value := ctx.all_options.get(key)) is not None}
    named = [key for key in (*POSITION_OPTIONS, "scan.version") if key in scan_options]
    if len(named) > 1 and named != ["scan.snapshot-id", "scan.version"]:  # which the reference takes for one
        msg = f"{' and '.join(named)} each name a snapshot: set only one of them"
        raise InvalidOption(msg, key=named[1], value=scan_options[named[1]])
    mode = _resolve_mode(ctx.options.scan_mode, scan_options)
    other = named[0] if named else None
    if other is not None and mode in LATEST_MODES:
        msg = f"scan.mode {mode!r} reads the newest snapshot and {other} names another: set one of them"
        raise InvalidOption(msg, key=other, value=scan_options[other])
    if other is not None and mode == "from-creation-timestamp":
        msg = f"scan.mode {mode!r} begins at a time and {other} names a snapshot: set one of them"
        raise InvalidOption(msg, key=other, value=scan_options[other])
    if FILES_SINCE_OPTION in scan_options and (other is not None or mode != "from-file-creation-time"):
        msg = (
            f"{FILES_SINCE_OPTION} asks for the rows of files made since, and {other or f'scan.mode {mode!r}'} for "
            f"others: "
            "set one of them"
        )
        raise InvalidOption(msg, key=FILES_SINCE_OPTION, value=scan_options[FILES_SINCE_OPTION])
    return mode, scan_options


def _resolve_mode(mode: str, scan_options: dict[str, str]) -> str:
    if mode == "full":
        return "latest-full"
    if mode != "default":
        return mode
    if "scan.timestamp" in scan_options or "scan.timestamp-millis" in scan_options:
        return "from-timestamp"
    if scan_options.keys() & {"scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version"}:
        return "from-snapshot"
    if FILES_SINCE_OPTION in scan_options:
        return "from-file-creation-time"
    return "from-creation-timestamp" if "scan.creation-time-millis" in scan_options else "latest-full"


def _resolve_by_mode(ctx: TableContext, mode: str, scan_options: dict[str, str]) -> Position:
    match mode:
        case "latest-full" | "latest":
            return Position(snapshot=snapshots.latest(ctx))
        case "compacted-full":
            return Position(snapshot=find_latest_compacted(ctx))
        case "from-timestamp":
            return position_of(_read_at_time(ctx, read_timestamp_option(scan_options)))
        case "from-snapshot" | "from-snapshot-full":
            return position_of(_read_from_options(ctx, scan_options, mode))
        case "from-file-creation-time":
            return Position(
                snapshot=snapshots.latest(ctx), created_since_ms=read_int64_option(scan_options, FILES_SINCE_OPTION)
            )
        case "from-creation-timestamp":
            return position_since_creation(ctx, read_int64_option(scan_options, "scan.creation-time-millis"))
    msg = (
        f"scan.mode {mode!r} is not one a batch read knows: latest-full, latest, compacted-full, from-timestamp, "
        "from-snapshot, from-snapshot-full, from-file-creation-time, from-creation-timestamp; changes are what "
        "t.scan() and t.changes() read"
    )
    raise InvalidOption(msg, key="scan.mode", value=mode)


def position_of(snapshot: Snapshot) -> Position:
    """Return the position at a snapshot, with the schema of its time."""
    return Position(snapshot=snapshot, schema_id=snapshot.schema_id)


def _resolve_at(ctx: TableContext, at: int | str | datetime) -> Snapshot:
    if isinstance(at, bool) or not isinstance(at, (int, str, datetime)):
        msg = f"at= takes a snapshot id, a tag, an ISO time or a datetime, not {type(at).__name__}"
        raise TypeError(msg)
    if isinstance(at, int):
        return snapshots.read_snapshot(ctx, at)
    if isinstance(at, datetime):
        return _read_at_time(ctx, to_epoch_millis(ctx, at))
    if (tag := refs.find_tag(ctx, at)) is not None:
        return tag.snapshot
    if (number := parse_digits(at)) is not None:
        return snapshots.read_snapshot(ctx, number)
    return _read_at_time(ctx, to_epoch_millis(ctx, at))


def parse_digits(text: str) -> int | None:
    """Return the number that a text of digits alone denotes; None for other texts, and beyond 19 digits."""
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _MAX_DIGITS else None


def to_epoch_millis(ctx: TableContext, at: str | datetime) -> int:
    """Return a time in milliseconds since 1970; a naive one is local.

    Raises:
        TagNotFound: the text is neither a tag nor a time.
    """
    try:
        return _datetime_to_millis(at if isinstance(at, datetime) else datetime.fromisoformat(at))
    except ValueError:
        raise refs.tag_not_found(ctx, str(at)) from None


def _datetime_to_millis(time: datetime) -> int:
    """Return a time in milliseconds since 1970; a naive one is local.

    At the ends of the calendar, where no zone is known, it is UTC.
    """
    try:
        return int(time.timestamp() * 1000)
    except (ValueError, OverflowError):
        return int(time.replace(tzinfo=UTC).timestamp() * 1000)


def _read_at_time(ctx: TableContext, time_ms: int) -> Snapshot:
    """Return the newest snapshot at or before a time."""
    snapshot = snapshots.latest_at_or_before(ctx, time_ms)
    if snapshot is None:
        msg = (
            f"{ctx.name} has no snapshot at or before {snapshots.format_time(time_ms)}; {snapshots.describe_times(ctx)}"
        )
        raise SnapshotNotFound(msg, name=str(time_ms))
    return snapshot


def _read_from_options(ctx: TableContext, scan_options: dict[str, str], mode: str) -> Snapshot:
    if "scan.version" in scan_options:
        return _resolve_version(ctx, scan_options["scan.version"])
    if "scan.snapshot-id" in scan_options:
        return snapshots.read_snapshot(ctx, read_int64_option(scan_options, "scan.snapshot-id"))
    if "scan.tag-name" in scan_options:
        return refs.read_tag(ctx, scan_options["scan.tag-name"]).snapshot
    if "scan.watermark" in scan_options:
        return snapshots.first_at_watermark(ctx, read_int64_option(scan_options, "scan.watermark"))
    msg = f"scan.mode {mode!r} needs scan.snapshot-id, scan.tag-name or scan.watermark"
    raise InvalidOption(msg, key="scan.mode", value=mode)


def _resolve_version(ctx: TableContext, version: str) -> Snapshot:
    """Return the snapshot of `scan.version`: a tag of that name, `watermark-N`, or a snapshot id."""
    if (tag := refs.find_tag(ctx, version)) is not None:
        return tag.snapshot
    if (
        version.startswith(_WATERMARK_PREFIX)
        and (watermark := parse_digits(version.removeprefix(_WATERMARK_PREFIX))) is not None
    ):
        return snapshots.first_at_watermark(ctx, watermark)
    if (snapshot_id := parse_digits(version)) is not None:
        return snapshots.read_snapshot(ctx, snapshot_id)
    raise refs.tag_not_found(ctx, version)


def find_latest_compacted(ctx: TableContext) -> Snapshot | None:
    """Return the newest COMPACT snapshot, else the newest snapshot.

    If full compactions come at regular commits, it is that of a full compaction.
    """
    every = ctx.options.full_compaction_delta_commits
    if every is None and ctx.options.changelog_producer == "full-compaction":
        every = 1
    for number in sorted(snapshots.ids(ctx), reverse=True):
        snapshot = snapshots.read_snapshot(ctx, number)
        if snapshot.commit_kind == "COMPACT" and (
            every is None or snapshot.commit_identifier == BATCH_IDENTIFIER or snapshot.commit_identifier % every == 0
        ):
            return snapshot
    return snapshots.latest(ctx)


def position_since_creation(ctx: TableContext, time_ms: int) -> Position:
    """Return the first snapshot after the last one before a time, else the newest with only the files created since.

    Both have the newest schema, as in the reference. The last one before may have expired, if a long-lived changelog
    records it.

    Raises:
        SnapshotNotFound: only a changelog remains of the first one.
    """
    earlier = snapshots.latest_change_at_or_before(ctx, time_ms - 1)
    if earlier is not None and earlier.id + 1 in (*snapshots.ids(ctx), *snapshots.changelog_ids(ctx)):
        return Position(snapshot=snapshots.read_snapshot(ctx, earlier.id + 1))
    return Position(snapshot=snapshots.latest(ctx), created_since_ms=time_ms)


def read_timestamp_option(scan_options: Mapping[str, str]) -> int:
    """Return the time of `scan.timestamp` or `scan.timestamp-millis`, in milliseconds since 1970."""
    if "scan.timestamp-millis" in scan_options:
        return read_int64_option(scan_options, "scan.timestamp-millis")
    text = scan_options.get("scan.timestamp", "")
    try:
        return _datetime_to_millis(datetime.fromisoformat(text))
    except ValueError:
        msg = f"scan.timestamp is a time such as 2024-03-01 12:00:00, not {text!r}"
        raise InvalidOption(msg, key="scan.timestamp", value=text) from None


def read_int64_option(scan_options: Mapping[str, str], key: str) -> int:
    """Return an integer of 64 bits among options. Raises `InvalidOption`."""
    text = scan_options.get(key, "").strip()
    number = parse_digits(text.removeprefix("-"))
    if number is None or number >= 2**63:
        msg = f"{key} is a whole number of 64 bits, not {text[:200]!a}"
        raise InvalidOption(msg, key=key, value=text)
    return -number if text.startswith("-") else number


def schema_of(ctx: TableContext, position: Position) -> TableContext:
    """Return the context as of a position: with the schema of that time, or the newest."""
    if position.schema_id is None:
        return ctx if schemas.newest_id(ctx) == ctx.schema.id else ctx.with_schema(schemas.read_latest(ctx))
    return ctx if ctx.schema.id == position.schema_id else ctx.with_schema(schemas.read_schema(ctx, position.schema_id))


def context_at(ctx: TableContext, at: int | str | datetime | None) -> tuple[TableContext, Snapshot | None]:
    """Return the context as of the position that `at` means, and its snapshot; None if there is none.

    Raises as `resolve_position`.
    """
    position = resolve_position(ctx, at)
    return schema_of(ctx, position), position.snapshot


# ---- auto tags ------------------------------------------------------------


CLOCK_TAG_MODES = ("process-time", "watermark")
"""The values of `tag.automatic-creation` by which every commit may make tags."""
_DAY_FORMATS = {"with_dashes": "%Y-%m-%d", "without_dashes": "%Y%m%d", "without_dashes_and_spaces": "%Y%m%d"}
_HOUR_FORMATS = {"with_dashes": "%Y-%m-%d %H", "without_dashes": "%Y%m%d %H", "without_dashes_and_spaces": "%Y%m%d%H"}
_MINUTE_FORMAT = "%Y%m%d%H%M"
_MAX_MS = timedelta.max // timedelta(milliseconds=1)
_LENGTH_OF_PERIOD = {"daily": timedelta(days=1), "hourly": timedelta(hours=1), "two-hours": timedelta(hours=2)}


def period_length(ctx: TableContext) -> timedelta:
    """Return the length of a period."""
    free = ctx.options.tag_creation_period_duration_ms
    return (
        _LENGTH_OF_PERIOD[ctx.options.tag_creation_period]
        if free is None
        else timedelta(milliseconds=min(free, _MAX_MS))
    )


def tag_name_of(ctx: TableContext, period: datetime) -> str:
    """Return the name of a period's tag."""
    return period.strftime(_formatter_shape(ctx))


def parse_tag_period(ctx: TableContext, name: str) -> datetime | None:
    """Return the period of a tag's name; None for a name that the table's automatic tags do not have."""
    shape = _formatter_shape(ctx)
    text = name.partition(" ")[0] if shape in _DAY_FORMATS.values() else name
    try:
        period = datetime.strptime(text, shape).replace(tzinfo=UTC)
    except ValueError:
        return None
    return period if period.strftime(shape) == text else None


def _formatter_shape(ctx: TableContext) -> str:
    options = ctx.options
    if options.tag_creation_period_duration_ms is not None:
        return _MINUTE_FORMAT
    if options.tag_creation_period == "two-hours":
        return _HOUR_FORMATS["with_dashes"]
    return (_DAY_FORMATS if options.tag_creation_period == "daily" else _HOUR_FORMATS)[options.tag_period_formatter]


def find_previous_tag(ctx: TableContext, name: str) -> str | None:
    """Return the automatic tag before `name`; None if there is none, or no tag of that name.

    Raises:
        InvalidOption: automatic tags do not have such a name.
    """
    period = parse_tag_period(ctx, name)
    if period is None:
        msg = f"{name!r} is not the name of an automatic tag of {ctx.name}"
        raise InvalidOption(msg, key="incremental-to-auto-tag", value=name)
    if refs.find_tag(ctx, name) is None:
        return None
    earlier = [
        (other_period, other)
        for other in refs.list_tag_names(ctx)
        if (other_period := parse_tag_period(ctx, other)) is not None and other_period < period
    ]
    return max(earlier)[1] if earlier else None
