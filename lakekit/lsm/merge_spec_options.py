"""The merge rule of a table: engine, key, order of versions, and the function of each column.

Source: ENGINE.md 1.3, 3 and 6.6; `PrimaryKeyTableUtils`, `PartialUpdateMergeFunction.Factory`,
`AggregateMergeFunction.Factory`, `CoreOptions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit import plugins
from lakekit.errors import InvalidOption, Unsupported
from lakekit.lsm import aggregates
from lakekit.lsm.merge_spec import NO_LIMIT, FieldFunction, MergeSpec, SequenceGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakekit.model.table_schema import TableSchema
    from lakekit.types import Field


DEFAULT_FUNCTION = "last_non_null_value"
PRIMARY_KEY = "primary-key"
LAST_VALUE = "last_value"
_IGNORE_DELETE = (
    "ignore-delete",
    "first-row.ignore-delete",
    "deduplicate.ignore-delete",
    "partial-update.ignore-delete",
)
_ON_DELETE = "partial-update.remove-record-on-delete"
_ON_GROUP = "partial-update.remove-record-on-sequence-group"
_GROUP = ".sequence-group"


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
    groups = _groups(table_options, schema) if engine == "partial-update" else ()
    functions = (
        _aggregation(table_options, schema)
        if engine == "aggregation"
        else _partial_update_functions(table_options, schema, groups)
        if engine == "partial-update"
        else {}
    )
    remove = {"partial-update": _ON_DELETE, "aggregation": "aggregation.remove-record-on-delete"}.get(engine)
    spec = MergeSpec(
        engine=engine,
        key=schema.trimmed_primary_keys,
        fields=schema.fields,
        primary_key=schema.primary_keys,
        sequence_fields=_names(table_options.get("sequence.field", "")),
        descending=table_options.get("sequence.field.sort-order", "ascending").strip().lower() == "descending",
        ignore_delete=any(_flag(table_options, name) for name in _IGNORE_DELETE),
        remove_on_delete=remove is not None and _flag(table_options, remove),
        functions=functions,
        groups=groups,
        lookup=engine != "first-row" and _needs_lookup(table_options),
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


def required_columns(rule: MergeSpec, wanted: Iterable[str]) -> frozenset[str]:
    """Return the columns a merge must read to compute `wanted`.

    These are the key, the sequence fields, and the sequence columns of protected ones. Sequence columns whose deletes
    remove the row always belong to it: whether a row exists must not depend on the columns read.
    """
    names = set(wanted) | set(rule.key)
    names.update(rule.sequence_fields)
    for group in rule.groups:
        if group.removes or not names.isdisjoint((*group.columns, *group.protected)):
            names.update(group.columns)
    aggregates.check(rule, names)
    return frozenset(names)


def _flag(table_options: Mapping[str, str], key: str) -> bool:
    text = table_options.get(key, "false").strip().lower()
    if text not in ("true", "false"):
        raise InvalidOption(
            f"option {key!r} is {table_options[key]!r}; allowed: true, false", key=key, value=table_options[key]
        )
    return text == "true"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text.strip() else ()


def _needs_lookup(table_options: Mapping[str, str]) -> bool:
    producer = table_options.get("changelog-producer", "none").strip().lower()
    return (
        producer == "lookup" or _flag(table_options, "deletion-vectors.enabled") or _flag(table_options, "force-lookup")
    )


# ---- columns ---------------------------------------------------------------------------------------------------------


def _function(table_options: Mapping[str, str], part: Field, name: str) -> FieldFunction:
    def option(option_name: str, default: str = "") -> str:
        return table_options.get(f"fields.{part.name}.{option_name}", default)

    limit = option("count-limit", str(NO_LIMIT)).strip()
    if not limit.lstrip("-").isdigit():
        key = f"fields.{part.name}.count-limit"
        raise InvalidOption(f"option {key!r} is {limit!r}; a whole number is wanted", key=key, value=limit)
    return FieldFunction(
        column=part.name,
        name="first_non_null_value" if name == "first_not_null_value" else name,
        type=part.type,
        ignore_retract=_flag(table_options, f"fields.{part.name}.ignore-retract"),
        delimiter=option("list-agg-delimiter", ","),
        distinct=_flag(table_options, f"fields.{part.name}.distinct"),
        nested_key=_names(option("nested-key")),
        nested_key_nulls=option("nested-key-null-strategy", "merge").strip().lower(),
        count_limit=int(limit),
        time_field=option("ts-field") or None,
    )


def _aggregation(table_options: Mapping[str, str], schema: TableSchema) -> dict[str, FieldFunction]:
    """Return the functions of an aggregation table (ENGINE 3.4).

    Sequence fields keep the last value, keys themselves, other columns what their options say.
    """
    ordered = _names(table_options.get("sequence.field", ""))
    default = table_options.get("fields.default-aggregate-function", DEFAULT_FUNCTION)
    functions = {}
    for part in schema.fields:
        if part.name in ordered:
            name = LAST_VALUE
        elif part.name in schema.primary_keys:
            name = PRIMARY_KEY
        else:
            name = table_options.get(f"fields.{part.name}.aggregate-function", default)
        functions[part.name] = _function(table_options, part, name.strip())
    return functions


def _partial_update_functions(
    table_options: Mapping[str, str], schema: TableSchema, groups: tuple[SequenceGroup, ...]
) -> dict[str, FieldFunction]:
    """Return the functions of a partial-update table (ENGINE 3.3).

    Sequence columns have none; others may, and need a group for any except `last_non_null_value`.
    """
    ordering = {name for group in groups for name in group.columns}
    protected = {name for group in groups for name in group.protected}
    default = table_options.get("fields.default-aggregate-function")
    functions = {}
    for part in schema.fields:
        if part.name in ordering:
            continue
        name = (
            PRIMARY_KEY
            if part.name in schema.primary_keys
            else table_options.get(f"fields.{part.name}.aggregate-function", default)
        )
        if name is None:
            continue
        if name not in (PRIMARY_KEY, DEFAULT_FUNCTION) and part.name not in protected:
            key = f"fields.{part.name}.aggregate-function"
            raise InvalidOption(
                f"Must use sequence group for aggregation functions but not found for field {part.name}.",
                key=key,
                value=name,
            )
        functions[part.name] = _function(table_options, part, name.strip())
    return functions


def _groups(table_options: Mapping[str, str], schema: TableSchema) -> tuple[SequenceGroup, ...]:
    removing = table_options.get(_ON_GROUP)
    removers = removing.split(",") if removing is not None else []
    groups: list[SequenceGroup] = []
    taken: dict[str, str] = {}
    for key in sorted(table_options):
        if not (key.startswith("fields.") and key.endswith(_GROUP)):
            continue
        columns = tuple(key[len("fields.") : -len(_GROUP)].split(","))
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
            SequenceGroup(columns=columns, protected=protected, removes=not set(columns).isdisjoint(removers))
        )
    strays = [name for name in removers if not any(name in group.columns for group in groups)]
    if strays:
        raise InvalidOption(
            f"field '{removing}' defined in '{_ON_GROUP}' option must be part of sequence groups",
            key=_ON_GROUP,
            value=removing,
        )
    return tuple(groups)


def _check_consistency(rule: MergeSpec, table_options: Mapping[str, str]) -> None:
    pairs: list[tuple[bool, str, str]] = []
    if rule.engine == "partial-update":
        pairs = [
            (rule.ignore_delete and rule.remove_on_delete, "ignore-delete", _ON_DELETE),
            (rule.ignore_delete and _ON_GROUP in table_options, "ignore-delete", _ON_GROUP),
            (rule.remove_on_delete and bool(rule.groups), "sequence-group", _ON_DELETE),
        ]
    if rule.engine == "aggregation" and rule.remove_on_delete:
        pairs = [
            (option.ignore_retract, "aggregation.remove-record-on-delete", f"fields.{option.column}.ignore-retract")
            for option in rule.functions.values()
        ]
    for wrong, option, other_option in pairs:
        if wrong:
            raise InvalidOption(
                f"{option} and {other_option} have conflicting behavior so should not be enabled at the same time.",
                key=other_option,
                value=table_options.get(other_option),
            )
