"""Rename a column in options: keys and values that mention it follow.

    bucket-key=a,b                 ->  c,b                        a column list
    fields.a.aggregate-function    ->  fields.c.…                 an option of the column
    fields.a,g.sequence-group=x,a  ->  fields.c,g.…=x,c           both
    file-index.bsi.a.max           ->  file-index.bsi.c.max

The reference handles fewer options (and then refuses the rename, or leaves them dangling). Source: ENGINE.md 1.5,
`SchemaManager.applyRenameColumnsToOptions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.options.definitions import SEQUENCE_GROUP
from lakekit.options.table_options import FIELD_KEYS
from lakekit.types.names import INTERNAL_PREFIX, is_internal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lakekit.types import Field

_LISTS = (
    "bucket-key",
    "changelog-producer.row-deduplicate-ignore-fields",
    "clustering.columns",
    "partial-update.remove-record-on-sequence-group",
    "record-level.time-field",
    "rowkind.field",
    "sequence.field",
    "upsert-key",
)
"""Options whose value is columns."""
_PREFIX = "fields."


def rename_column(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Return the options with column `old` renamed to `new`."""
    return dict(_rename_in_option(key, value, old, new) for key, value in options.items())


def rename_columns(options: Mapping[str, str], names: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options with several columns renamed at once; they may exchange their names."""
    between = {old: f"\x00{at}" for at, old in enumerate(names)}
    for old, middle in between.items():
        options = rename_column(options, old, middle)
    for old, middle in between.items():
        options = rename_column(options, middle, names[old])
    return options


def translate_options(options: Mapping[str, str], today: Sequence[Field], then: Sequence[Field]) -> Mapping[str, str]:
    """Return the options of schema `today` with the column names of schema `then`; columns match by id.

    A column that `then` lacks is left out of lists, and options of it alone are dropped; it keeps its name in options
    if `then` has another column of that name which `today` lacks.
    """
    by_id, ids_today = {field.id: field.name for field in then}, {field.id for field in today}
    lost = {field.name for field in then if field.id not in ids_today}
    names = {
        field.name: by_id.get(field.id, field.name if field.name in lost else INTERNAL_PREFIX + field.name)
        for field in today
    }
    changed = {name: other for name, other in names.items() if name != other}
    return (
        _drop_absent(rename_columns(options, changed), {name for name in changed.values() if is_internal(name)})
        if changed
        else options
    )


def _drop_absent(options: Mapping[str, str], absent: Collection[str]) -> Mapping[str, str]:
    """Return the options without mentions of absent columns; `bucket-key`, which is required, stays."""
    remaining: dict[str, str] = {}
    for key, value in options.items():
        option = (
            (key, value)
            if key == "bucket-key" or not any(name in key or name in value for name in absent)
            else _drop_from_option(key, value, absent)
        )
        if option is not None:
            remaining[option[0]] = option[1]
    return remaining


def _drop_from_option(key: str, value: str, absent: Collection[str]) -> tuple[str, str] | None:
    """Return an option without columns that are not there; None where it says nothing then."""
    columns, _, option = key[len(_PREFIX) :].rpartition(".") if key.startswith(_PREFIX) else ("", "", "")
    if option == SEQUENCE_GROUP:
        ordering, protected = (_drop_from_list(text, absent) for text in (columns, value))
        return (f"{_PREFIX}{ordering}.{option}", protected) if ordering and protected else None
    if any(name in key for name in absent):
        return None
    listed = _drop_from_list(value, absent)
    return (key, listed) if listed else None


def _drop_from_list(text: str, absent: Collection[str]) -> str:
    return ",".join(name for name in text.split(",") if name.strip(" ").partition("[")[0] not in absent)


def _rename_in_option(key: str, value: str, old: str, new: str) -> tuple[str, str]:
    if key in _LISTS:
        return key, _rename_in_list(value, old, new)
    if key.startswith(_PREFIX) and "." in key[len(_PREFIX) :]:
        columns, _, option = key[len(_PREFIX) :].rpartition(".")
        if option == SEQUENCE_GROUP:
            return f"{_PREFIX}{_rename_in_list(columns, old, new)}.{option}", _rename_in_list(value, old, new)
        if option in FIELD_KEYS and columns == old:
            return f"{_PREFIX}{new}.{option}", value
    if key.startswith("file-index."):
        return _rename_in_index(key, value, old, new)
    return key, value


def _rename_in_index(key: str, value: str, old: str, new: str) -> tuple[str, str]:
    _, kind, *parts = key.split(".", 2)
    if parts == ["columns"]:
        return key, ",".join(_rename_map_key(name.strip(), old, new) for name in value.split(","))
    column, _, option = parts[0].rpartition(".") if parts else ("", "", "")
    return (f"file-index.{kind}.{_rename_map_key(column, old, new)}.{option}", value) if column else (key, value)


def _rename_map_key(name: str, old: str, new: str) -> str:
    """`m[key]` names one key of a map column."""
    column, bracket, key = name.partition("[")
    return new + bracket + key if column == old else name


def _rename_in_list(text: str, old: str, new: str) -> str:
    return ",".join(new if name.strip() == old else name for name in text.split(","))
