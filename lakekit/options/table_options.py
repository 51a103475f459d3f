"""The options of a table, parsed from the texts of its schema file; `definitions` declares them.

    options = TableOptions.parse({"bucket": "4", "fields.v.aggregate-function": "sum"}, kind="key")
    options.bucket                            4
    options.write_buffer_size_bytes           268435456
    options.fields["v"].aggregate_function    "sum"

Options of a schema file are taken as they are: an invalid text raises when, and only when, that option is read, as in
the reference. A caller's options are checked at once (`changed`). Unknown keys are kept.

Source: ENGINE.md 1.5, 12, ENGINE_1.4.2.md B, `CoreOptions`, `SchemaManager.applyRenameColumnsToOptions` and
`checkAlterTableOption`, which `AbstractFileStoreTable.checkImmutability` calls for the options of a call too.
"""

from __future__ import annotations

import difflib
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from lakekit.errors import InvalidOption
from lakekit.options.definitions import (
    FIELD_OPTIONS,
    IGNORED_KEYS,
    NO_FIELD_OPTIONS,
    SEQUENCE_GROUP,
    TARGET_FILE_SIZE_BYTES,
    DeclaredOptions,
    FieldOptions,
)
from lakekit.options.features import check_supported
from lakekit.options.option import EMPTY, FrozenDict, Option, declared_options, normalize_keys, read_names
from lakekit.types import INTERNAL_PREFIX, is_internal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lakekit.types import Field


SWITCH_ON_ONLY_OPTIONS = {"ignore-delete": "ignore_delete", "ignore-update-before": "ignore_update_before"}
"""Attributes of options that are switched on and never off."""


def immutable_reason(current_options: TableOptions, key: str, value: object) -> str | None:
    """Return why an option cannot become `value` on a table with rows; None if it can.

        bucket                        2 -> -1, -1 -> 2                rows would be looked up in the wrong bucket
        deletion-vectors.enabled      false -> true, true -> false    rows that wait for compaction would be left out,
                                                                      or deleted ones come back
        ignore-delete                 true -> false                   rows that were dropped are lost

    They change neither by an alter nor for one call. `current_options` are the table's options.
    """
    if key == "bucket" and current_options.bucket == -1 and value != -1:
        return (
            "Cannot change bucket when it is -1. Rows lie where no number of buckets finds them; write them to a new "
            "table"
        )
    if key == "bucket" and current_options.bucket != -1 and value == -1:
        return "Cannot change bucket to -1. Rows lie in fixed buckets; write them to a new table"
    if (
        key == "deletion-vectors.enabled"
        and not current_options.deletion_vectors_modifiable
        and value != current_options.deletion_vectors_enabled
    ):
        return (
            f"Cannot change deletion vectors mode from {str(current_options.deletion_vectors_enabled).lower()} to "
            f"{str(value).lower()}. If modifying table deletion-vectors mode without full-compaction, this may result "
            "in data duplication. Compact fully first; then you can set table option 'deletion-vectors.modifiable' = "
            "'true' to allow deletion vectors modification. In Python, one after the other: t.compact(full=True); "
            "t.alter(lk.set_option('deletion-vectors.modifiable', True)); "
            f"t.alter(lk.set_option('deletion-vectors.enabled', {value})). In SQL: CALL sys.compact(table => 'db.t'); "
            "ALTER TABLE db.t SET ('deletion-vectors.modifiable' = 'true'); ALTER TABLE db.t SET "
            f"('deletion-vectors.enabled' = '{str(value).lower()}')"
        )
    if key in SWITCH_ON_ONLY_OPTIONS and getattr(current_options, SWITCH_ON_ONLY_OPTIONS[key]) and not value:
        return f"Cannot change {key} from true to false. Rows that it left out are gone; make a new table"
    return None


# ---- table options ------------------------------------------------------------


# No slots: an option whose text means nothing has no attribute, and __getattr__ tells why.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TableOptions(DeclaredOptions):
    """Every option of a table, typed. `texts` is the mapping it was parsed from; equal if those are equal.

    `fields` maps a column to its own options; `sequence_groups` maps sequence columns to the columns they protect;
    `file_indexes` maps an index type to its columns and each column to that index's options.
    """

    texts: FrozenDict[str, str] = EMPTY
    kind: Literal["key", "append"] = "append"
    fields: Mapping[str, FieldOptions] = field(default_factory=FrozenDict)
    sequence_groups: Mapping[tuple[str, ...], tuple[str, ...]] = field(default_factory=FrozenDict)
    file_indexes: Mapping[str, Mapping[str, Mapping[str, str]]] = EMPTY
    unreadable: Mapping[str, InvalidOption] = field(default=EMPTY)

    @staticmethod
    def parse(texts: Mapping[str, str], *, kind: Literal["key", "append"] = "append") -> TableOptions:
        """Parse the options in a mapping. An invalid text raises `InvalidOption` when its option is read."""
        return _parse_options(FrozenDict(texts), kind)

    def with_options(self, dynamic: Mapping[str, Any]) -> TableOptions:
        """Return these options overlaid with a caller's, each checked at once.

        A value of None removes an option.

        Raises:
            InvalidOption: an unknown key (with the nearest one), an invalid value, or an option that is fixed once a
                table exists.
            Unsupported: an option that lakekit refuses.
            TypeError: not a mapping of texts.
        """
        texts = dict(self.texts)
        for key, value in normalize_keys(dynamic).items():
            own = current_key(key)
            for alias in (own, *(old for old, own_name in OLDER_KEYS.items() if own_name == own)):
                texts.pop(alias, None)
            if value is None:
                check_known(own, "None")
            else:
                texts[own] = to_option_text(own, value)
                check_supported({own: texts[own]})
        result = TableOptions.parse(texts, kind=self.kind)
        for key in dynamic:
            self._check_change(current_key(key), result)
        return result

    def _check_change(self, key: str, changed: TableOptions) -> None:
        for name in ("fields", "file_indexes"):
            getattr(changed, name)  # raises where the texts mean nothing
        option = BY_KEY.get(key)
        if option is None:
            return
        name, described = option
        after = getattr(changed, name)
        if described.is_fixed and after != getattr(self, name):
            raise InvalidOption(
                f"option {key!r} is fixed when a table is made: it is {getattr(self, name)!r} and cannot be read as "
                f"{after!r}",
                key=key,
                value=changed.texts.get(key),
            )
        reason = immutable_reason(self, key, after)
        if reason is not None:
            raise InvalidOption(reason, key=key, value=changed.texts.get(key))

    def __getattr__(self, name: str) -> Any:
        """Only for options whose text means nothing: everything else is an attribute."""
        unreadable = self.__dict__.get("unreadable", EMPTY)
        if name in unreadable:
            raise copy(unreadable[name])
        raise AttributeError(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableOptions) and (self.texts, self.kind) == (other.texts, other.kind)

    def __hash__(self) -> int:
        return hash((self.texts, self.kind))

    def __repr__(self) -> str:
        return f"TableOptions({dict(self.texts)!r}, kind={self.kind!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _parse_options, (self.texts, self.kind)

    # ---- what follows from several options

    def field(self, column: str) -> FieldOptions:
        """Return the options of one column, with defaults."""
        return self.fields.get(column, NO_FIELD_OPTIONS)

    @property
    def unknown_options(self) -> Mapping[str, str]:
        """The given options that lakekit does not know."""
        return FrozenDict({key: value for key, value in self.texts.items() if not is_known(key)})

    @property
    def rolling_size_bytes(self) -> int:
        """The size at which data files roll: the option, else 128 MiB in key tables, 256 MiB in append tables."""
        return self.target_file_size_bytes or TARGET_FILE_SIZE_BYTES[self.kind]

    @property
    def level_count(self) -> int:
        """Levels, level 0 included."""
        return self.num_sorted_run_compaction_trigger + 1 if self.num_levels is None else self.num_levels

    @property
    def stop_trigger(self) -> int:
        """Sorted runs that stall writing."""
        trigger = self.num_sorted_run_compaction_trigger
        return max(
            trigger, trigger + 3 if self.num_sorted_run_stop_trigger is None else self.num_sorted_run_stop_trigger
        )

    @property
    def spill_threshold(self) -> int:
        """Sorted runs merged at once before spilling."""
        return self.stop_trigger + 1 if self.sort_spill_threshold is None else self.sort_spill_threshold

    @property
    def gentle_lookup_interval(self) -> int:
        """Triggers between forced moves of level 0 in gentle lookup compaction."""
        trigger = self.num_sorted_run_compaction_trigger
        return max(
            trigger, 2 * trigger if self.lookup_compact_max_interval is None else self.lookup_compact_max_interval
        )

    @property
    def changelog_retained(self) -> tuple[int, int, int]:
        """Fewest, most and oldest (in ms) changelogs kept; as snapshots where nothing is said."""
        fewest, most, age = (
            self.changelog_num_retained_min,
            self.changelog_num_retained_max,
            self.changelog_time_retained_ms,
        )
        return (
            self.snapshot_num_retained_min if fewest is None else fewest,
            self.snapshot_num_retained_max if most is None else most,
            self.snapshot_time_retained_ms if age is None else age,
        )

    @property
    def changelog_outlives_snapshots(self) -> bool:
        """Return whether changelogs have a life of their own: expiring a snapshot then keeps its changelog."""
        fewest, most, age = self.changelog_retained
        return (
            fewest > self.snapshot_num_retained_min
            or most > self.snapshot_num_retained_max
            or age > self.snapshot_time_retained_ms
        )

    @property
    def full_compaction_interval(self) -> int:
        """The number of commits between full compactions; 0: the levels alone decide (ENGINE 2.6)."""
        return self.full_compaction_delta_commits or (1 if self.changelog_producer == "full-compaction" else 0)

    @property
    def needs_lookup(self) -> bool:
        """Return whether level 0 is merged by looking up older versions.

        A reader then takes, of the levels above 0, only the lowest row of a key (ENGINE 2.7).
        """
        return (
            self.merge_engine == "first-row"
            or self.changelog_producer == "lookup"
            or self.deletion_vectors_enabled
            or self.force_lookup
        )


OPTION_OF_ATTRIBUTE: dict[str, Option] = declared_options(TableOptions)
"""Every option by attribute."""
BY_KEY: dict[str, tuple[str, Option]] = {option.key: (name, option) for name, option in OPTION_OF_ATTRIBUTE.items()}
"""Every option by its own key, with its attribute."""
OLDER_KEYS: dict[str, str] = {
    old: option.key for option in OPTION_OF_ATTRIBUTE.values() for old in option.old_keys if old not in BY_KEY
}
"""Keys of older releases and what they are called now."""


@lru_cache(maxsize=256)
def _parse_options(texts: FrozenDict[str, str], kind: Literal["key", "append"]) -> TableOptions:
    values: dict[str, Any] = {}
    unreadable: dict[str, InvalidOption] = {}
    for name, option in OPTION_OF_ATTRIBUTE.items():
        key_and_text = option.find_text(texts)
        if key_and_text is not None:
            try:
                values[name] = option.parse_value(key_and_text[1], key_and_text[0])
            except InvalidOption as wrong:
                unreadable[name] = wrong
    try:
        values["fields"], values["sequence_groups"] = _parse_column_options(texts)
    except InvalidOption as wrong:
        unreadable["fields"] = unreadable["sequence_groups"] = wrong
    values["file_indexes"] = _file_indexes(texts)
    options = TableOptions(texts=texts, kind=kind, unreadable=FrozenDict(unreadable), **values)
    for name in unreadable:
        options.__dict__.pop(name, None)
    return options


def current_key(key: str) -> str:
    """Return the present key of an option."""
    return OLDER_KEYS.get(key, key)


def _find_nearest_key(key: str, known_keys: Iterable[str]) -> str | None:
    """Return the known key that is most similar to a mistyped one; None if none is."""
    matches = difflib.get_close_matches(key.lower(), list(known_keys), n=1, cutoff=0.6)
    return matches[0] if matches else None


def check_known(key: str, value_text: str) -> None:
    """Raise `InvalidOption` for an unknown key, with the nearest known one."""
    if not is_known(key):
        near = _find_nearest_key(key, [*BY_KEY, *OLDER_KEYS])
        raise InvalidOption(
            f"no option is called {key!r}" + (f"; did you mean {near!r}?" if near else "; lk.options() lists them"),
            key=key,
            value=value_text,
        )


def to_option_text(key: str, value: object) -> str:
    """Return a caller's value as the checked text for a schema file. Raises `InvalidOption`."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    if not isinstance(value, (str, int, float)):
        raise InvalidOption(
            f"option {key!r} takes a text, found {type(value).__name__}", key=key, value=repr(value)[:100]
        )
    text = str(value)
    check_known(key, text)
    if key in BY_KEY:
        BY_KEY[key][1].parse_value(text, key)
    return text


def is_known(key: str) -> bool:
    """Return whether lakekit or the reference has an option of that key."""
    return (
        key in BY_KEY
        or key in OLDER_KEYS
        or key in IGNORED_KEYS
        or _column_key(key) is not None
        or (key.startswith("file-index.") and key.count(".") >= 2)
    )


def _column_key(key: str) -> tuple[str, str] | None:
    """`fields.<column>.<option>` as column and option; a column's name may hold dots."""
    column, _, option = key.removeprefix("fields.").rpartition(".")
    if not key.startswith("fields.") or not column or (option != SEQUENCE_GROUP and option not in FIELD_KEYS):
        return None
    return column, option


FIELD_KEYS: dict[str, str] = {option.key: name for name, option in FIELD_OPTIONS.items()}
"""Options of one column by key, with their attributes."""


def _parse_column_options(
    texts: Mapping[str, str],
) -> tuple[Mapping[str, FieldOptions], Mapping[tuple[str, ...], tuple[str, ...]]]:
    columns: dict[str, dict[str, Any]] = {}
    groups: dict[tuple[str, ...], tuple[str, ...]] = {}
    for key, value in texts.items():
        column_key = _column_key(key)
        if column_key is None:
            continue
        column, option = column_key
        if option == SEQUENCE_GROUP:
            groups[read_names(column)] = read_names(value)
        else:
            name = FIELD_KEYS[option]
            columns.setdefault(column, {})[name] = FIELD_OPTIONS[name].parse_value(value, key)
    return FrozenDict({column: FieldOptions(**values) for column, values in columns.items()}), FrozenDict(groups)


def _file_indexes(texts: Mapping[str, str]) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """Parse `file-index.<type>.columns` and `file-index.<type>.<column>.<option>`.

    An option of a map `m` holds for each of its keys, `m[a]`, unless the key has an option of its own
    (`FileIndexOptions.getMapTopLevelOptions`).
    """
    indexes: dict[str, dict[str, Mapping[str, str]]] = {}
    for key, value in texts.items():
        kind, _, property_name = key.removeprefix("file-index.").partition(".")
        if key.startswith("file-index.") and property_name == "columns":
            indexes[kind] = dict.fromkeys(read_names(value), EMPTY)
    for kind, columns in indexes.items():
        for column in columns:
            of_map = column.partition("[")[0] if column.endswith("]") else column
            starts = [f"file-index.{kind}.{name}." for name in dict.fromkeys((of_map, column))]
            columns[column] = FrozenDict(
                {
                    key.removeprefix(start): value
                    for start in starts
                    for key, value in texts.items()
                    if key.startswith(start)
                }
            )
    return FrozenDict({kind: FrozenDict(columns) for kind, columns in indexes.items()})


def list_options() -> Iterator[dict[str, Any]]:
    """Return every option as a row: key, type, default, fixed, choices, older keys, words."""
    for prefix, options in (("", OPTION_OF_ATTRIBUTE), ("fields.<column>.", FIELD_OPTIONS)):
        for option in options.values():
            yield {
                "key": prefix + option.key,
                "type": option.type,
                "default": option.default,
                "fixed": option.is_fixed,
                "choices": list(option.choices),
                "older_keys": list(option.old_keys),
                "words": option.description,
            }


# ---- renaming ------------------------------------------------------------


_COLUMN_LIST_OPTIONS = (
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
_FIELDS_PREFIX = "fields."


def rename_column(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Return the options with column `old` renamed to `new`."""
    return dict(_rename_in_option(key, value, old, new) for key, value in options.items())


def rename_columns(options: Mapping[str, str], names: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options with several columns renamed at once; they may exchange their names.

        bucket-key=a,b                 ->  c,b                        a column list
        fields.a.aggregate-function    ->  fields.c.…                 an option of the column
        fields.a,g.sequence-group=x,a  ->  fields.c,g.…=x,c           both
        file-index.bsi.a.max           ->  file-index.bsi.c.max

    The reference handles fewer options (and then refuses the rename, or leaves them dangling).
    """
    between = {old: f"\x00{at}" for at, old in enumerate(names)}
    for old, middle in between.items():
        options = rename_column(options, old, middle)
    for old, middle in between.items():
        options = rename_column(options, middle, names[old])
    return options


def translate_options(
    options: Mapping[str, str], from_fields: Sequence[Field], to_fields: Sequence[Field]
) -> Mapping[str, str]:
    """Return the options of schema `from_fields` with the column names of schema `to_fields`; columns match by id.

    A column that `to_fields` lacks is left out of lists, and options of it alone are dropped; it keeps its name in
    options if `to_fields` has another column of that name which `from_fields` lacks.
    """
    by_id, ids_today = {field.id: field.name for field in to_fields}, {field.id for field in from_fields}
    lost = {field.name for field in to_fields if field.id not in ids_today}
    names = {
        field.name: by_id.get(field.id, field.name if field.name in lost else INTERNAL_PREFIX + field.name)
        for field in from_fields
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
    """Return an option without columns that are not there; None if it says nothing then."""
    columns, _, option = key[len(_FIELDS_PREFIX) :].rpartition(".") if key.startswith(_FIELDS_PREFIX) else ("", "", "")
    if option == SEQUENCE_GROUP:
        ordering, protected = (_drop_from_list(text, absent) for text in (columns, value))
        return (f"{_FIELDS_PREFIX}{ordering}.{option}", protected) if ordering and protected else None
    if any(name in key for name in absent):
        return None
    listed = _drop_from_list(value, absent)
    return (key, listed) if listed else None


def _drop_from_list(text: str, absent: Collection[str]) -> str:
    return ",".join(name for name in text.split(",") if name.strip(" ").partition("[")[0] not in absent)


def _rename_in_option(key: str, value: str, old: str, new: str) -> tuple[str, str]:
    if key in _COLUMN_LIST_OPTIONS:
        return key, _rename_in_list(value, old, new)
    if key.startswith(_FIELDS_PREFIX) and "." in key[len(_FIELDS_PREFIX) :]:
        columns, _, option = key[len(_FIELDS_PREFIX) :].rpartition(".")
        if option == SEQUENCE_GROUP:
            return f"{_FIELDS_PREFIX}{_rename_in_list(columns, old, new)}.{option}", _rename_in_list(value, old, new)
        if option in FIELD_KEYS and columns == old:
            return f"{_FIELDS_PREFIX}{new}.{option}", value
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
