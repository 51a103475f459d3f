"""Changes of options of an existing table: those allowed, and those that would invalidate what was written before.

Source: ENGINE.md 1.5, `SchemaManager.checkAlterTableOption`, the options that `CoreOptions` marks as immutable (1.4.2,
and those that came later).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit.ddl.options_given import key_of, names_of, normalize_option
from lakekit.errors import InvalidOption
from lakekit.options import modes
from lakekit.options.features import check_supported
from lakekit.options.table_options import BY_KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.options.table_options import TableOptions

IMMUTABLE_OPTIONS = frozenset(
    {
        "aggregation.remove-record-on-delete",
        "blob-descriptor-field",
        "blob-external-storage-field",
        "blob-external-storage-path",
        "bucket-function.type",
        "bucket-key",
        "data-evolution.enabled",
        "data-file.path-directory",
        "force-lookup",
        "index-file-in-data-file-dir",
        "merge-engine",
        "partial-update.remove-record-on-delete",
        "partial-update.remove-record-on-sequence-group",
        "partition",
        "pk-clustering-override",
        "primary-key",
        "primary-key.nullable",
        "row-tracking.enabled",
        "rowkind.field",
        "sequence.snapshot-ordering",
    }
)
"""Fixed once the table has a snapshot."""
_TYPE_OPTION = "type"
"""Fixed from the beginning: another kind of table lies otherwise."""


def set_option(
    options: dict[str, str], before: TableOptions, key: str, value: Any, *, has_snapshots: Callable[[], bool]
) -> None:
    """Set an option in `options`; `before` are the table's options until now.

    Raises: `InvalidOption` where the option is fixed or its value invalid, `Unsupported`.
    """
    key, text = normalize_option(key, value)
    check_supported({key: text})
    old = _find_option(before.given, key)
    _check_fixed(before, key, old, text, has_snapshots)
    if old != text and has_snapshots():
        _check_mode(before, key, text)
    for name in names_of(key):
        options.pop(name, None)
    options[key] = text


def reset(options: dict[str, str], before: TableOptions, key: str, *, has_snapshots: Callable[[], bool]) -> None:
    """Remove an option from `options`, if it is set. Raises `InvalidOption` where it is fixed."""
    key = key_of(key)
    old = _find_option(before.given, key)
    _check_fixed(before, key, old, None, has_snapshots)
    if old is not None and has_snapshots():
        if key == "bucket":
            raise InvalidOption(
                "Cannot reset bucket. Files lie in buckets by that number; t.rescale changes it", key=key
            )
        _check_mode(before, key, None)
    for name in names_of(key):
        options.pop(name, None)


def _find_option(options: dict[str, str] | Any, key: str) -> str | None:
    return next((options[name] for name in names_of(key) if name in options), None)


def _value(key: str, text: str | None) -> Any:
    """Return the value of an option, its default where the text is None."""
    option = BY_KEY[key][1]
    return option.default_value if text is None else option.value(text)


def _check_fixed(
    before: TableOptions, key: str, old: str | None, new: str | None, has_snapshots: Callable[[], bool]
) -> None:
    if old == new or (key in BY_KEY and old is not None and _is_same_value(key, old, new)):
        return
    if key == _TYPE_OPTION and not _is_same_value(key, old, new):
        raise InvalidOption(
            f"Change 'type' is not supported yet. The table is a {before.type}; make another of the kind you want",
            key=key,
            value=new,
        )
    if key in IMMUTABLE_OPTIONS and has_snapshots():
        current = "not set" if old is None else repr(old)
        raise InvalidOption(
            f"Change '{key}' is not supported yet. It is {current}, and fixed since the table has snapshots: make a "
            "new table and write the rows there",
            key=key,
            value=new,
        )


def _is_same_value(key: str, old: str | None, new: str | None) -> bool:
    """Whether two texts of an option mean the same, no text meaning its default."""
    try:
        return bool(_value(key, old) == _value(key, new))
    except InvalidOption:
        return False


def _check_mode(before: TableOptions, key: str, text: str | None) -> None:
    why = modes.immutable_reason(before, key, _value(key, text)) if key in BY_KEY else None
    if why is not None:
        raise InvalidOption(why, key=key, value=text)
