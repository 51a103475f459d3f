"""The changes of a table for `t.alter`, one function and one class each, and its options as texts.

    t.alter(
        lk.add_column("c", "INT", after="a"),
        lk.rename_column("a", "b"),
        lk.update_type("r.x", "BIGINT"),
        lk.set_option("bucket", 8),
    )

A name with points leads into a column: "r.x" is field x of ROW r, "a.element.x" field x of the rows in ARRAY a,
"m.value" the values of MAP m. A name that holds a point itself stands in backquotes: "`a.b`". Making a change does
nothing; its table decides whether it is possible: some options are fixed once the table has data, as they would
invalidate what was written before.

    {"partial-update.ignore-delete": True}            ignore-delete                  true
    {"fields.v.aggregate-function":
         "first_not_null_value"}                      fields.v.aggregate-function    first_non_null_value
    {"file-index.bsi.columns": "price, time"}         file-index.bsi.columns         price,time

Options become the texts that a schema file holds: names of older releases become today's, choices are spelt as the
reference spells them, lists lose their blanks (which the reference takes for a part of a name), values are checked. An
unknown key is kept: engines have options of their own. One that resembles a known key causes a warning.

Source: ENGINE.md 1.5; `SchemaChange`, `SchemaManager.checkAlterTableOption`, the options that `CoreOptions` marks as
immutable (1.4.2, and those that came later).
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from lakekit.ddl.table_definition import to_paimon_type
from lakekit.errors import HIDDEN, InvalidOption, SchemaMismatch, is_secret
from lakekit.model.table_paths import ALLOWED_LOCATIONS
from lakekit.options import table_options
from lakekit.options.definitions import FIELD_OPTIONS, IGNORED_KEYS, SEQUENCE_GROUP
from lakekit.options.features import check_supported
from lakekit.options.option import normalize_keys
from lakekit.options.table_options import BY_KEY, FIELD_KEYS, OLDER_KEYS, current_key, is_known, to_option_text
from lakekit.runtime import warn_user

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from lakekit.options.option import Option
    from lakekit.options.table_options import TableOptions
    from lakekit.types import DataType


ColumnPath: TypeAlias = tuple[str, ...]
_PATH_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPosition:
    """The position of a column: "first", "last", or "after" or "before" `column`."""

    relation: str
    column: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """A new column, or a new field of a ROW; at the end where no position is given."""

    path: ColumnPath
    type: DataType
    position: ColumnPosition | None = None
    default: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """A new name of a column."""

    path: ColumnPath
    new_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumn:
    """The removal of a column: its values stay in old files, and are never read again."""

    path: ColumnPath


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateType:
    """A new type of a column; old values are cast when they are read."""

    path: ColumnPath
    type: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateNullability:
    """A change of whether a column takes nulls."""

    path: ColumnPath
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateComment:
    """A new comment of a column."""

    path: ColumnPath
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateDefault:
    """The value that rows get which are written without the column."""

    path: ColumnPath
    default: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveColumn:
    """A new position of a column."""

    column: str
    position: ColumnPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOption:
    """A new value of an option of the table."""

    key: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOption:
    """The reset of an option to its default."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetComment:
    """A new comment of the table."""

    comment: str | None


TableChange: TypeAlias = (
    AddColumn
    | RenameColumn
    | DropColumn
    | UpdateType
    | UpdateNullability
    | UpdateComment
    | UpdateDefault
    | MoveColumn
    | SetOption
    | ResetOption
    | SetComment
)


def parse_path(name: str) -> ColumnPath:
    """Return the parts of a name: between points, or between backquotes.

    Raises: `InvalidOption`, and `SchemaMismatch` for what is no text.
    """
    if not isinstance(name, str):
        msg = f"a column is named by a text; found {type(name).__name__}"
        raise SchemaMismatch(msg)
    parts, at = [], 0
    while at <= len(name):
        part = _PATH_PART.match(name, at)
        if part is None or (part.end() < len(name) and name[part.end()] != "."):
            msg = (
                f"{name!r} names no column: parts stand between points, those that hold a point or a backquote "
                "between backquotes, the latter twice"
            )
            raise InvalidOption(msg, key="name", value=name)
        parts.append(part.group(2) or part.group(1).replace("``", "`"))
        at = part.end() + 1
    return tuple(parts)


def join_path(path: ColumnPath) -> str:
    """Return a path as a name."""
    return ".".join(path)


def _column_position(after: str | None, before: str | None, *, first: bool, last: bool) -> ColumnPosition | None:
    positions = [
        position
        for position, is_given in (
            (
                ColumnPosition(relation="after", column=None if after is None else join_path(parse_path(after))),
                after is not None,
            ),
            (
                ColumnPosition(relation="before", column=None if before is None else join_path(parse_path(before))),
                before is not None,
            ),
            (ColumnPosition(relation="first"), first),
            (ColumnPosition(relation="last"), last),
        )
        if is_given
    ]
    if len(positions) > 1:
        msg = "a column has one place: give one of after=, before=, first=True, last=True"
        raise TypeError(msg)
    return positions[0] if positions else None


# ---- the public functions ------------------------------------------------------------------------


def add_column(
    name: str,
    type: str | DataType | pl.DataType | type[pl.DataType],  # noqa: A002 - what users call it
    *,
    after: str | None = None,
    before: str | None = None,
    first: bool = False,
    last: bool = False,
    default: str | None = None,
    comment: str | None = None,
) -> AddColumn:
    """Add a nullable column, for `t.alter`; rows written before have nulls there.

    `type`: Paimon type text or a Polars type. `default`: the value, as text, of rows that are written later without the
    column.

    Raises: `SchemaMismatch` for a text that names no type, `TypeError` for two positions.
    """
    position = _column_position(after, before, first=first, last=last)
    return AddColumn(
        path=parse_path(name), type=to_paimon_type(type, name), position=position, default=default, comment=comment
    )


def rename_column(name: str, new_name: str) -> RenameColumn:
    """Rename a column, for `t.alter`; `new_name` is the last part alone.

    Options and keys that name the column follow.
    """
    if not new_name:
        msg = "a column's new name is a text that is not empty"
        raise InvalidOption(msg, key="new_name", value="")
    return RenameColumn(path=parse_path(name), new_name=new_name)


def drop_column(name: str) -> DropColumn:
    """Drop a column, for `t.alter`. A column added later under its name is another one."""
    return DropColumn(path=parse_path(name))


def update_type(name: str, type: str | DataType | pl.DataType | type[pl.DataType]) -> UpdateType:  # noqa: A002 - what users call it
    """Change the type of a column, for `t.alter`.

    Whether it takes nulls stays as it is, unless the type says NOT NULL.
    """
    return UpdateType(path=parse_path(name), type=to_paimon_type(type, name))


def update_nullability(name: str, *, nullable: bool) -> UpdateNullability:
    """Let a column take nulls, or forbid them, for `t.alter`.

    The option `alter-column-null-to-not-null.disabled` forbids the latter by default.
    """
    return UpdateNullability(path=parse_path(name), nullable=nullable)


def update_comment(name: str, comment: str | None) -> UpdateComment:
    """Change the comment of a column, for `t.alter`; None removes it."""
    return UpdateComment(path=parse_path(name), comment=comment)


def update_default(name: str, default: str | None) -> UpdateDefault:
    """Change the value of rows written without the column, as text, for `t.alter`; None for null."""
    return UpdateDefault(path=parse_path(name), default=default)


def move_column(
    name: str, *, after: str | None = None, before: str | None = None, first: bool = False, last: bool = False
) -> MoveColumn:
    """Move a column of the table, for `t.alter`.

    Raises: `TypeError` unless exactly one position is given.
    """
    position = _column_position(after, before, first=first, last=last)
    if position is None:
        msg = "a column is moved to a place: give one of after=, before=, first=True, last=True"
        raise TypeError(msg)
    return MoveColumn(column=join_path(parse_path(name)), position=position)


def set_option(key: str, value: Any) -> SetOption:
    """Set an option of the table, for `t.alter`.

    Some options are fixed once the table has a snapshot; `lk.options()` says which.
    """
    return SetOption(key=key, value=value)


def reset_option(key: str) -> ResetOption:
    """Reset an option to its default, for `t.alter`."""
    return ResetOption(key=key)


def set_comment(comment: str | None) -> SetComment:
    """Change the comment of the table, for `t.alter`; None removes it."""
    return SetComment(comment=comment)


# ---- options as texts ---------------------------------------------------------


FIELD_OPTION_PREFIX = "fields."
_FORMER_KEYS = {"deletion-vectors": "deletion-vectors.enabled"}
"""What older documents called an option that no release ever read under that name."""
_FORMER_FUNCTIONS = {"first_not_null_value": "first_non_null_value"}
_LIST_OPTIONS = frozenset(
    {"bucket-key", "upsert-key", *(key for key, (_, option) in BY_KEY.items() if option.type == "names")}
)
_FIELD_LIST_OPTIONS = frozenset({option.key for option in FIELD_OPTIONS.values() if option.type == "names"})
_FUNCTION_OPTIONS = ("aggregate-function", "default-aggregate-function")
_MIN_SIMILARITY = 0.8
_STRIPPED_TYPES = ("boolean", "integer", "long", "number")


def normalize_options(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Return checked texts by today's keys.

    Raises: `InvalidOption` for an invalid value, or two values for one option under different names.
    """
    texts: dict[str, str] = {}
    for name, value in normalize_keys(options or {}).items():
        if value is None:
            continue
        key, text = normalize_option(name, value)
        if texts.get(key, text) != text:
            shown = HIDDEN if is_secret(key) else texts[key]
            raise InvalidOption(
                f"option {key!r} is given twice, as {shown!r} and, under the name {name!r}, as {text!r}",
                key=key,
                value=text,
            )
        texts[key] = text
    return texts


def normalize_option(name: str, value: Any) -> tuple[str, str]:
    """Return today's key of one option, and its checked text."""
    key = normalize_key(name)
    if key == ALLOWED_LOCATIONS:
        msg = (
            f"{ALLOWED_LOCATIONS} is the caller's, and is kept in no table: give it to lk.open(options=) or "
            "lk.connect(options=)"
        )
        raise InvalidOption(msg, key=key, value=None)
    if not is_known(key):
        _warn_of_similar_key(key)
        return key, _value_text(key, value)
    text = to_option_text(key, value)
    option = _field_option(key)
    if (
        option == SEQUENCE_GROUP
        or option in _FIELD_LIST_OPTIONS
        or key in _LIST_OPTIONS
        or (key.startswith("file-index.") and key.endswith(".columns"))
    ):
        text = normalize_name_list(text)
    elif option in FIELD_KEYS:
        text = _canonical_text(FIELD_OPTIONS[FIELD_KEYS[option]], text, key)
    elif key in BY_KEY:
        text = _canonical_text(BY_KEY[key][1], text, key)
    if option in _FUNCTION_OPTIONS or key == "fields.default-aggregate-function":
        text = _FORMER_FUNCTIONS.get(text.strip(), text.strip())
    return key, text


def _canonical_text(option: Option, text: str, key: str) -> str:
    """Return a choice as the reference, which takes no other, spells it; numbers and words without blanks."""
    value = option.parse_value(text, key)
    if option.type == "choice":
        return str(value)
    return text.strip() if option.type in _STRIPPED_TYPES else text


def normalize_key(name: str) -> str:
    """Return today's key of an option, with no blanks in the column list of a sequence group."""
    if not isinstance(name, str):
        msg = f"an option's key is a text; found {type(name).__name__}"
        raise TypeError(msg)
    key = current_key(name.strip())
    key = _FORMER_KEYS.get(key, key)
    if key.startswith(FIELD_OPTION_PREFIX) and key.endswith("." + SEQUENCE_GROUP):
        names = key[len(FIELD_OPTION_PREFIX) : -len(SEQUENCE_GROUP) - 1]
        return f"{FIELD_OPTION_PREFIX}{normalize_name_list(names)}.{SEQUENCE_GROUP}"
    return key


def key_spellings(key: str) -> tuple[str, ...]:
    """Return every key under which a schema file may hold an option: its own and older ones."""
    return (key, *(old for old, now in OLDER_KEYS.items() if now == key))


def normalize_name_list(text: str) -> str:
    """Return names between commas, without blanks around them."""
    return ",".join(name.strip() for name in text.split(","))


def _field_option(key: str) -> str | None:
    return key.rpartition(".")[2] if key.startswith(FIELD_OPTION_PREFIX) else None


def _value_text(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)):
        raise InvalidOption(
            f"option {key!r} takes a text, found {type(value).__name__}", key=key, value=repr(value)[:100]
        )
    return str(value)


def _warn_of_similar_key(key: str) -> None:
    """Warn of an unknown option that resembles a known one."""
    candidates = [*BY_KEY, *OLDER_KEYS, *IGNORED_KEYS]
    if key.startswith(FIELD_OPTION_PREFIX) and key.count(".") >= 2:
        column, _, option = key.rpartition(".")
        candidates = [f"{column}.{name}" for name in (*FIELD_KEYS, SEQUENCE_GROUP)]
        near = [
            f"{column}.{name}"
            for name in difflib.get_close_matches(option, [*FIELD_KEYS, SEQUENCE_GROUP], n=1, cutoff=0.6)
        ]
    else:
        near = difflib.get_close_matches(key.lower(), candidates, n=1, cutoff=_MIN_SIMILARITY)
    if near:
        warn_user(
            f"no option is called {key!r}; did you mean {near[0]!r}? The key is kept as it is; lk.options() lists "
            "those that mean something"
        )


# ---- option changes ------------------------------------------------------------


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


def apply_option_change(
    options: dict[str, str], current_options: TableOptions, key: str, value: Any, *, has_snapshots: Callable[[], bool]
) -> None:
    """Set an option in `options`; `current_options` are the table's options until now.

    Raises: `InvalidOption` if the option is fixed or its value invalid, `Unsupported`.
    """
    key, text = normalize_option(key, value)
    check_supported({key: text})
    old = _find_option(current_options.texts, key)
    _check_mutable(current_options, key, old, text, has_snapshots)
    if old != text and has_snapshots():
        _check_scan_mode_change(current_options, key, text)
    for name in key_spellings(key):
        options.pop(name, None)
    options[key] = text


def apply_option_reset(
    options: dict[str, str], current_options: TableOptions, key: str, *, has_snapshots: Callable[[], bool]
) -> None:
    """Remove an option from `options`, if it is set. Raises `InvalidOption` if it is fixed."""
    key = normalize_key(key)
    old = _find_option(current_options.texts, key)
    _check_mutable(current_options, key, old, None, has_snapshots)
    if old is not None and has_snapshots():
        if key == "bucket":
            raise InvalidOption(
                "Cannot reset bucket. Files lie in buckets by that number; t.rescale changes it", key=key
            )
        _check_scan_mode_change(current_options, key, None)
    for name in key_spellings(key):
        options.pop(name, None)


def _find_option(options: dict[str, str] | Any, key: str) -> str | None:
    return next((options[name] for name in key_spellings(key) if name in options), None)


def _option_value(key: str, text: str | None) -> Any:
    """Return the value of an option, its default where the text is None."""
    option = BY_KEY[key][1]
    return option.default_value if text is None else option.parse_value(text)


def _check_mutable(
    current_options: TableOptions,
    key: str,
    old_text: str | None,
    new_text: str | None,
    has_snapshots: Callable[[], bool],
) -> None:
    if old_text == new_text or (key in BY_KEY and old_text is not None and _is_same_value(key, old_text, new_text)):
        return
    if key == _TYPE_OPTION and not _is_same_value(key, old_text, new_text):
        raise InvalidOption(
            f"Change 'type' is not supported yet. The table is a {current_options.type}; make another of the kind you "
            "want",
            key=key,
            value=new_text,
        )
    if key in IMMUTABLE_OPTIONS and has_snapshots():
        current = "not set" if old_text is None else repr(old_text)
        raise InvalidOption(
            f"Change '{key}' is not supported yet. It is {current}, and fixed since the table has snapshots: make a "
            "new table and write the rows there",
            key=key,
            value=new_text,
        )


def _is_same_value(key: str, old_text: str | None, new_text: str | None) -> bool:
    """Return whether two texts of an option mean the same; None means its default."""
    try:
        return bool(_option_value(key, old_text) == _option_value(key, new_text))
    except InvalidOption:
        return False


def _check_scan_mode_change(current_options: TableOptions, key: str, text: str | None) -> None:
    why = table_options.immutable_reason(current_options, key, _option_value(key, text)) if key in BY_KEY else None
    if why is not None:
        raise InvalidOption(why, key=key, value=text)
