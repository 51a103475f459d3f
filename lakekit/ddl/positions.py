"""Where a read starts by the table's own options: one companion key for each mode, and no foreign ones.

Source: ENGINE.md 1.4, `SchemaValidation.validateStartupMode`, `CoreOptions.startupMode`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakekit.options.table_options import TableOptions

_TIMES = ("scan.timestamp-millis", "scan.timestamp")
_INCREMENTS = ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag")
_SNAPSHOT, _TAG, _CREATION_TIME, _WATERMARK = (
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.file-creation-time-millis",
    "scan.watermark",
)
_EXACTLY_ONE: Mapping[str, tuple[str, ...]] = {
    "from-timestamp": _TIMES,
    "from-snapshot": (_SNAPSHOT, _TAG, _WATERMARK),
    "incremental": _INCREMENTS,
}
_REQUIRED_OPTIONS = {"from-snapshot-full": _SNAPSHOT, "from-file-creation-time": _CREATION_TIME}
_MODE_OPTIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "from-timestamp": ((_SNAPSHOT, _CREATION_TIME, _TAG, *_INCREMENTS), _TIMES),
    "from-snapshot": ((*_TIMES, _CREATION_TIME, *_INCREMENTS), (_SNAPSHOT, _TAG)),
    "incremental": ((_SNAPSHOT, *_TIMES, _CREATION_TIME, _TAG), _INCREMENTS),
    "from-snapshot-full": ((*_TIMES, _CREATION_TIME, _TAG, *_INCREMENTS), (_SNAPSHOT,)),
    "from-file-creation-time": ((_SNAPSHOT, *_TIMES, _TAG, *_INCREMENTS), (_CREATION_TIME,)),
}
"""By mode: the keys it may not have, and those it may."""
_POSITION_OPTIONS = (*_TIMES, _CREATION_TIME, _SNAPSHOT, _TAG, *_INCREMENTS)


def mode_of(options: TableOptions) -> str:
    """Return the effective `scan.mode`: what the position options imply where no mode is set."""
    texts = options.given
    if options.scan_mode == "full":
        return "latest-full"
    if options.scan_mode != "default":
        return options.scan_mode
    if any(key in texts for key in (*_TIMES, "log.scan.timestamp-millis")):
        return "from-timestamp"
    if any(key in texts for key in (_SNAPSHOT, _TAG, _WATERMARK, "scan.version")):
        return "from-snapshot"
    if _CREATION_TIME in texts:
        return "from-file-creation-time"
    if "scan.creation-time-millis" in texts:
        return "from-creation-timestamp"
    return "incremental" if any(key in texts for key in _INCREMENTS[:2]) else "latest-full"


def check_positions(options: TableOptions) -> None:
    """Raise `InvalidOption` for position options that do not go with the mode."""
    mode, texts = mode_of(options), options.given
    upper = mode.upper().replace("-", "_")
    if mode in _EXACTLY_ONE and sum(key in texts for key in _EXACTLY_ONE[mode]) != 1:
        keys = _EXACTLY_ONE[mode]
        raise InvalidOption(
            f"must set only one key in [{','.join(keys)}] when you use {upper} for scan.mode",
            key=_find_first_key(keys, texts) or "scan.mode",
            value=mode,
        )
    if mode in _REQUIRED_OPTIONS and _REQUIRED_OPTIONS[mode] not in texts:
        raise InvalidOption(
            f"{_REQUIRED_OPTIONS[mode]} can not be null when you use {upper} for scan.mode", key=_REQUIRED_OPTIONS[mode]
        )
    if mode in _MODE_OPTIONS:
        foreign, own = _MODE_OPTIONS[mode]
        if (key := _find_first_key(foreign, texts)) is not None:
            raise InvalidOption(
                f"[{key}] must be null when you set [{','.join(own)}]; a read starts at one place: remove one",
                key=key,
                value=texts[key],
            )
    elif (key := _find_first_key(_POSITION_OPTIONS, texts)) is not None:
        raise InvalidOption(
            f"{key} must be null when you use {upper} for scan.mode; set the mode that takes it, or remove the key",
            key=key,
            value=texts[key],
        )


def _find_first_key(keys: Sequence[str], texts: Mapping[str, str]) -> str | None:
    return next((key for key in keys if key in texts), None)
