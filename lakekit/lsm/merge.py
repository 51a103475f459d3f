"""The merge of a section's rows, the merge spec from options, the changelog between two states.

    before          after           changelog: for each key at most a row before and a row after
    – or retract    add             +I after
    – or retract    – or retract    nothing
    add             – or retract    -D before
    add             add             -U before, +U after; nothing if both are equal and equal rows are to be left out

Start from `merge_section`, `merge_spec_from_options` and `changelog_between`.

Source: ENGINE.md 1.3, 3, 4.1 and 6.6; `PrimaryKeyTableUtils`, `PartialUpdateMergeFunction.Factory`,
`AggregateMergeFunction.Factory`, `CoreOptions`, `FullChangelogMergeFunctionWrapper`,
`LookupChangelogMergeFunctionWrapper`, `ValueEqualiserSupplier`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit import plugins
from lakekit.columns import KIND, LEVEL, struct_field
from lakekit.errors import InvalidOption, Unsupported
from lakekit.lsm import aggregates, row_versions
from lakekit.lsm.merge_spec import NO_LIMIT, FieldFunction, MergeSpec, SequenceGroup
from lakekit.model.data_file import RowKind
from lakekit.types import MAPS, part

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakekit.lsm.numpy_columns import Bools, Ints
    from lakekit.model.table_schema import TableSchema
    from lakekit.types import DataType, Field


def selects_rows(spec: MergeSpec) -> bool:
    """Return whether the engine selects rows, with `winner_mask` from the key columns alone, or computes them."""
    return bool(plugins.load("lsm/engines", spec.engine).SELECTS_ROWS)


def merge_section(section: pl.DataFrame, rule: MergeSpec, *, keep_deletes: bool = False) -> pl.DataFrame:
    """Return one row for each key, in no particular order, with the section's columns except `columns.LEVEL`.

    `section`: the rows of overlapping runs, oldest run first: the key columns under their table names,
    `_SEQUENCE_NUMBER`, `_VALUE_KIND`, the level where the rule needs it, and the columns that `rule.required_columns`
    names. Without `_SEQUENCE_NUMBER` the order of rows is the order of versions, unless sequence fields decide. Raises
    what `aggregates.find` raises, and the reference's refusals: `Unsupported`, `InvalidOption`, `SchemaMismatch`.
    """
    if selects_rows(rule):
        merged = section.filter(pl.Series(winner_mask(section, rule, keep_deletes=keep_deletes)))
    else:
        aggregates.check_functions(rule, section.columns)
        merged = plugins.load("lsm/engines", rule.engine).fold(section, rule)
        if not keep_deletes:
            merged = merged.filter(pl.col(KIND) & 1 == 0)
    return merged.drop(LEVEL, strict=False)


def winner_mask(section: pl.DataFrame, spec: MergeSpec, *, keep_deletes: bool = False) -> Bools:
    """Return which rows win their key, for engines that select rows.

    `section` needs only the key, the sequence fields and the system columns.
    """
    mask: Bools = plugins.load("lsm/engines", spec.engine).winners(section, spec)
    return mask if keep_deletes else mask & ~row_versions.retraction_mask(section)


# ---- changelog ------------------------------------------------------------


def changelog_between(
    before: pl.DataFrame,
    after: pl.DataFrame,
    key_numbers: tuple[Ints, Ints],
    count: int,
    compared_fields: Sequence[Field] | None,
) -> pl.DataFrame:
    """Return the changelog between two states, each row with its own sequence number.

    The changed rows of `before` come first, then those of `after`. Both frames have the same columns, `_VALUE_KIND`
    among them, and at most one row for each key; `key_numbers` are the numbers, below `count`, of their keys.
    `compared_fields` are the columns of which one must differ for a row to count as changed (see
    `select_compared_fields`); if it is None, every row of both states counts.
    """
    row_before, row_after = _rows_by_key(before, key_numbers[0], count), _rows_by_key(after, key_numbers[1], count)
    is_deleted, is_inserted, in_both = (
        (row_before >= 0) & (row_after < 0),
        (row_before < 0) & (row_after >= 0),
        (row_before >= 0) & (row_after >= 0),
    )
    keys = np.flatnonzero(in_both)
    if compared_fields is not None and len(keys):
        keys = keys[_mask_different(before[row_before[keys]], after[row_after[keys]], compared_fields)]
    old = [(row_before[is_deleted], RowKind.DELETE), (row_before[keys], RowKind.UPDATE_BEFORE)]
    fresh = [(row_after[is_inserted], RowKind.INSERT), (row_after[keys], RowKind.UPDATE_AFTER)]
    return pl.concat([_assign_kinds(before, old), _assign_kinds(after, fresh)])


def _rows_by_key(rows: pl.DataFrame, key_numbers: Ints, count: int) -> Ints:
    """Return the row of each key; -1 where it has none, or a retracting one."""
    row_of_key = np.full(count, -1, np.int64)
    row_of_key[key_numbers] = np.where(row_versions.retraction_mask(rows), -1, np.arange(rows.height))
    return row_of_key


def _assign_kinds(rows: pl.DataFrame, parts: Sequence[tuple[Ints, RowKind]]) -> pl.DataFrame:
    """Return the rows of all parts, in their own order, with the row kind of their part."""
    places = np.concatenate([places for places, _ in parts])
    kinds = np.concatenate([np.full(len(places), kind, np.int8) for places, kind in parts])
    order = np.argsort(places, kind="stable")
    return rows[places[order]].with_columns(pl.Series(KIND, kinds[order]))


def select_compared_fields(
    fields: Sequence[Field], *, deduplicated: bool, ignored_columns: Sequence[str]
) -> tuple[Field, ...] | None:
    """Return the columns to compare, or None if rows are not compared.

    The options `changelog-producer.row-deduplicate` and `-ignore-fields` decide.
    """
    return tuple(field for field in fields if field.name not in ignored_columns) if deduplicated else None


def _mask_different(before: pl.DataFrame, after: pl.DataFrame, fields: Sequence[Field]) -> Bools:
    """Return which rows differ in one of the columns.

    NaN differs from itself, as the reference compares floats; 0.0 and -0.0 are equal.
    """
    differs = np.zeros(before.height, bool)
    for field in fields:
        sides = pl.DataFrame({"before": before[field.name], "after": after[field.name]})
        is_unequal = sort_map_entries(pl.col("before"), field.type).ne_missing(
            sort_map_entries(pl.col("after"), field.type)
        )
        if field.type.root in ("FLOAT", "DOUBLE"):
            is_unequal |= pl.col("before").is_nan().fill_null(value=False)
        differs |= sides.select(is_unequal).to_series().to_numpy()
    return differs


def sort_map_entries(column: pl.Expr, t: DataType) -> pl.Expr:
    """Return the column with map entries sorted by key, so that equal maps compare equal."""
    if not t.holds(MAPS):
        return column
    match t.root:
        case "MAP" | "MULTISET":
            value = (
                sort_map_entries(pl.element().struct.field("value"), t.value)
                if t.value is not None
                else pl.element().struct.field("value")
            )
            entry = pl.struct(pl.element().struct.field("key"), value.alias("value"))
            return column.list.eval(entry.sort_by(pl.element().struct.field("key")))
        case "ARRAY":
            return column.list.eval(sort_map_entries(pl.element(), part(t.element)))
    parts = [sort_map_entries(struct_field(column, f.name), f.type).alias(f.name) for f in t.fields]
    return pl.when(column.is_not_null()).then(pl.struct(parts))


# ---- merge spec options ------------------------------------------------------------


DEFAULT_FUNCTION = "last_non_null_value"
PRIMARY_KEY = "primary-key"
LAST_VALUE = "last_value"
_IGNORE_DELETE_OPTIONS = (
    "ignore-delete",
    "first-row.ignore-delete",
    "deduplicate.ignore-delete",
    "partial-update.ignore-delete",
)
_REMOVE_ON_DELETE_OPTION = "partial-update.remove-record-on-delete"
_REMOVE_ON_GROUP_OPTION = "partial-update.remove-record-on-sequence-group"
_GROUP_SUFFIX = ".sequence-group"


def merge_spec_from_options(
    schema: TableSchema, options: Mapping[str, str] | None = None, *, table: str = ""
) -> MergeSpec:
    """Return the rule of a key table; `options` are the table's options if they differ from the schema's.

    An unknown function of a column is refused by `required_columns` and by the merge, so that other columns stay
    readable.

    Raises:
        Unsupported: the merge engine does not exist.
        InvalidOption: options contradict each other.
    """
    table_options = dict(schema.options if options is None else options)
    engine = table_options.get("merge-engine", "deduplicate").strip().lower().replace("_", "-")
    engines = plugins.names("lsm/engines")
    if engine not in engines:
        raise Unsupported(
            f"{table or 'the table'} uses merge-engine {engine!r}; lakekit merges {', '.join(engines)}. "
            "t.scan(raw=True) reads its rows unmerged",
            feature=f"merge-engine.{engine}",
        )
    groups = _sequence_groups(table_options, schema) if engine == "partial-update" else ()
    functions = (
        _aggregation_functions(table_options, schema)
        if engine == "aggregation"
        else _partial_update_functions(table_options, schema, groups)
        if engine == "partial-update"
        else {}
    )
    remove = {"partial-update": _REMOVE_ON_DELETE_OPTION, "aggregation": "aggregation.remove-record-on-delete"}.get(
        engine
    )
    spec = MergeSpec(
        engine=engine,
        key_columns=schema.trimmed_primary_keys,
        fields=schema.fields,
        primary_key=schema.primary_keys,
        sequence_fields=_split_names(table_options.get("sequence.field", "")),
        is_descending=table_options.get("sequence.field.sort-order", "ascending").strip().lower() == "descending",
        ignores_deletes=any(_read_flag(table_options, name) for name in _IGNORE_DELETE_OPTIONS),
        removes_on_delete=remove is not None and _read_flag(table_options, remove),
        functions=functions,
        sequence_groups=groups,
        needs_lookup=engine != "first-row" and _needs_lookup(table_options),
        table=table,
    )
    _check_consistency(spec, table_options)
    if absent := [name for name in spec.sequence_fields if not schema.has(name)]:
        raise InvalidOption(
            f"sequence.field of {spec.table_name} names column {absent[0]!r}, which is not there; columns are "
            f"{', '.join(schema.names)}",
            key="sequence.field",
            value=table_options["sequence.field"],
        )
    return spec


def required_columns(spec: MergeSpec, requested: Iterable[str]) -> frozenset[str]:
    """Return the columns a merge must read to compute `requested`.

    These are the key, the sequence fields, and the sequence columns of protected ones. Sequence columns whose deletes
    remove the row always belong to it: whether a row exists must not depend on the columns read.
    """
    names = set(requested) | set(spec.key_columns)
    names.update(spec.sequence_fields)
    for group in spec.sequence_groups:
        if group.removes_record or not names.isdisjoint((*group.columns, *group.protected_columns)):
            names.update(group.columns)
    aggregates.check_functions(spec, names)
    return frozenset(names)


def _read_flag(table_options: Mapping[str, str], key: str) -> bool:
    text = table_options.get(key, "false").strip().lower()
    if text not in ("true", "false"):
        raise InvalidOption(
            f"option {key!r} is {table_options[key]!r}; allowed: true, false", key=key, value=table_options[key]
        )
    return text == "true"


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text.strip() else ()


def _needs_lookup(table_options: Mapping[str, str]) -> bool:
    producer = table_options.get("changelog-producer", "none").strip().lower()
    return (
        producer == "lookup"
        or _read_flag(table_options, "deletion-vectors.enabled")
        or _read_flag(table_options, "force-lookup")
    )


# ---- columns ---------------------------------------------------------------------------------------------------------


def _field_function(table_options: Mapping[str, str], field: Field, name: str) -> FieldFunction:
    def option(option_name: str, default: str = "") -> str:
        return table_options.get(f"fields.{field.name}.{option_name}", default)

    limit = option("count-limit", str(NO_LIMIT)).strip()
    if not limit.lstrip("-").isdigit():
        key = f"fields.{field.name}.count-limit"
        raise InvalidOption(f"option {key!r} is {limit!r}; a whole number is wanted", key=key, value=limit)
    return FieldFunction(
        column=field.name,
        name="first_non_null_value" if name == "first_not_null_value" else name,
        type=field.type,
        ignore_retract=_read_flag(table_options, f"fields.{field.name}.ignore-retract"),
        delimiter=option("list-agg-delimiter", ","),
        distinct=_read_flag(table_options, f"fields.{field.name}.distinct"),
        nested_key=_split_names(option("nested-key")),
        nested_key_nulls=option("nested-key-null-strategy", "merge").strip().lower(),
        count_limit=int(limit),
        time_field=option("ts-field") or None,
    )


def _aggregation_functions(table_options: Mapping[str, str], schema: TableSchema) -> dict[str, FieldFunction]:
    """Return the functions of an aggregation table (ENGINE 3.4).

    Sequence fields keep the last value, keys themselves, other columns what their options say.
    """
    ordered = _split_names(table_options.get("sequence.field", ""))
    default = table_options.get("fields.default-aggregate-function", DEFAULT_FUNCTION)
    functions = {}
    for part_value in schema.fields:
        if part_value.name in ordered:
            name = LAST_VALUE
        elif part_value.name in schema.primary_keys:
            name = PRIMARY_KEY
        else:
            name = table_options.get(f"fields.{part_value.name}.aggregate-function", default)
        functions[part_value.name] = _field_function(table_options, part_value, name.strip())
    return functions


def _partial_update_functions(
    table_options: Mapping[str, str], schema: TableSchema, groups: tuple[SequenceGroup, ...]
) -> dict[str, FieldFunction]:
    """Return the functions of a partial-update table (ENGINE 3.3).

    Sequence columns have none; others may, and need a group for any except `last_non_null_value`.
    """
    ordering = {name for group in groups for name in group.columns}
    protected = {name for group in groups for name in group.protected_columns}
    default = table_options.get("fields.default-aggregate-function")
    functions = {}
    for part_value in schema.fields:
        if part_value.name in ordering:
            continue
        name = (
            PRIMARY_KEY
            if part_value.name in schema.primary_keys
            else table_options.get(f"fields.{part_value.name}.aggregate-function", default)
        )
        if name is None:
            continue
        if name not in (PRIMARY_KEY, DEFAULT_FUNCTION) and part_value.name not in protected:
            key = f"fields.{part_value.name}.aggregate-function"
            raise InvalidOption(
                f"Must use sequence group for aggregation functions but not found for field {part_value.name}.",
                key=key,
                value=name,
            )
        functions[part_value.name] = _field_function(table_options, part_value, name.strip())
    return functions


def _sequence_groups(table_options: Mapping[str, str], schema: TableSchema) -> tuple[SequenceGroup, ...]:
    removing = table_options.get(_REMOVE_ON_GROUP_OPTION)
    removers = removing.split(",") if removing is not None else []
    groups: list[SequenceGroup] = []
    taken: dict[str, str] = {}
    for key in sorted(table_options):
        if not (key.startswith("fields.") and key.endswith(_GROUP_SUFFIX)):
            continue
        columns = tuple(key[len("fields.") : -len(_GROUP_SUFFIX)].split(","))
        protected = tuple(table_options[key].split(","))
        for name in (*columns, *protected):
            if not schema.has(name):
                raise InvalidOption(f"Field {name} can not be found in table schema", key=key, value=table_options[key])
            if name in taken:
                raise InvalidOption(
                    f"Field {name} is defined repeatedly by multiple groups: {key} and {taken[name]}",
                    key=key,
                    value=table_options[key],
                )
        taken |= dict.fromkeys((*columns, *protected), key)
        groups.append(
            SequenceGroup(
                columns=columns, protected_columns=protected, removes_record=not set(columns).isdisjoint(removers)
            )
        )
    strays = [name for name in removers if not any(name in group.columns for group in groups)]
    if strays:
        raise InvalidOption(
            f"field '{removing}' defined in '{_REMOVE_ON_GROUP_OPTION}' option must be part of sequence groups",
            key=_REMOVE_ON_GROUP_OPTION,
            value=removing,
        )
    return tuple(groups)


def _check_consistency(spec: MergeSpec, table_options: Mapping[str, str]) -> None:
    pairs: list[tuple[bool, str, str]] = []
    if spec.engine == "partial-update":
        pairs = [
            (spec.ignores_deletes and spec.removes_on_delete, "ignore-delete", _REMOVE_ON_DELETE_OPTION),
            (
                spec.ignores_deletes and _REMOVE_ON_GROUP_OPTION in table_options,
                "ignore-delete",
                _REMOVE_ON_GROUP_OPTION,
            ),
            (spec.removes_on_delete and bool(spec.sequence_groups), "sequence-group", _REMOVE_ON_DELETE_OPTION),
        ]
    if spec.engine == "aggregation" and spec.removes_on_delete:
        pairs = [
            (option.ignore_retract, "aggregation.remove-record-on-delete", f"fields.{option.column}.ignore-retract")
            for option in spec.functions.values()
        ]
    for wrong, option, other_option in pairs:
        if wrong:
            raise InvalidOption(
                f"{option} and {other_option} have conflicting behavior so should not be enabled at the same time.",
                key=other_option,
                value=table_options.get(other_option),
            )
