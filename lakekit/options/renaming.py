"""A column renamed: what keys and options say of it follows.

    bucket-key=a,b                 ->  c,b                        a column list
    fields.a.aggregate-function    ->  fields.c.…                 an option of the column
    fields.a,g.sequence-group=x,a  ->  fields.c,g.…=x,c           both
    file-index.bsi.a.max           ->  file-index.bsi.c.max

The reference follows fewer options (and then refuses the rename, or leaves them dangling). Source: ENGINE.md 1.5, `SchemaManager.applyRenameColumnsToOptions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.options.declared import SEQUENCE_GROUP
from lakekit.options.table import FIELD_KEYS
from lakekit.types.names import INTERNAL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def renamed(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """The options with column `old` called `new`."""
    return dict(_renamed(key, value, old, new) for key, value in options.items())


def all_renamed(options: Mapping[str, str], names: Mapping[str, str]) -> Mapping[str, str]:
    """The options with several columns called otherwise at once: they may exchange their names."""
    between = {old: f"\x00{at}" for at, old in enumerate(names)}
    for old, middle in between.items():
        options = renamed(options, old, middle)
    for old, middle in between.items():
        options = renamed(options, middle, names[old])
    return options


def of_schema(options: Mapping[str, str], today: Sequence[Field], then: Sequence[Field]) -> Mapping[str, str]:
    """Return the options of a schema in the words of another: what they say of a column follows it to the name it has there, by its id.

    A name that belongs to another column there stands for none: its column is not there.
    """
    by_id, taken = {field.id: field.name for field in then}, {field.name for field in then}
    names = {field.name: by_id.get(field.id, INTERNAL_PREFIX + field.name if field.name in taken else field.name) for field in today}
    changed = {name: other for name, other in names.items() if name != other}
    return all_renamed(options, changed) if changed else options


def _renamed(key: str, value: str, old: str, new: str) -> tuple[str, str]:
    if key in _LISTS:
        return key, _in_list(value, old, new)
    if key.startswith(_PREFIX) and "." in key[len(_PREFIX) :]:
        columns, _, option = key[len(_PREFIX) :].rpartition(".")
        if option == SEQUENCE_GROUP:
            return f"{_PREFIX}{_in_list(columns, old, new)}.{option}", _in_list(value, old, new)
        if option in FIELD_KEYS and columns == old:
            return f"{_PREFIX}{new}.{option}", value
    if key.startswith("file-index."):
        return _of_index(key, value, old, new)
    return key, value


def _of_index(key: str, value: str, old: str, new: str) -> tuple[str, str]:
    _, kind, *rest = key.split(".", 2)
    if rest == ["columns"]:
        return key, ",".join(_of_map(name.strip(), old, new) for name in value.split(","))
    column, _, option = rest[0].rpartition(".") if rest else ("", "", "")
    return (f"file-index.{kind}.{_of_map(column, old, new)}.{option}", value) if column else (key, value)


def _of_map(name: str, old: str, new: str) -> str:
    """`m[key]` names one key of a map column."""
    column, bracket, key = name.partition("[")
    return new + bracket + key if column == old else name


def _in_list(text: str, old: str, new: str) -> str:
    return ",".join(new if name.strip() == old else name for name in text.split(","))
