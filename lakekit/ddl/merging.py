"""Check merge options against the columns: prefixes, sequence fields, sequence groups, aggregate functions.

Source: ENGINE.md 1.4 and 3.3, `SchemaValidation`, `PartialUpdateMergeFunction.Factory`,
`AggregateMergeFunction.Factory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.ddl.table_definition import format_list
from lakekit.errors import InvalidOption
from lakekit.lsm import aggregates, rule
from lakekit.options.definitions import SEQUENCE_GROUP
from lakekit.types import first_duplicate

if TYPE_CHECKING:
    from lakekit.model.table_schema import TableSchema
    from lakekit.options.table_options import TableOptions

_PREFIX, _DEFAULT = "fields", "default-aggregate-function"
_FUNCTIONS = frozenset({*aggregates.names(), "primary-key", "first_not_null_value"})


def check_merging(schema: TableSchema, options: TableOptions) -> None:
    """Raise `InvalidOption` for an option of a missing column, and for merge options that contradict."""
    _check_prefixes(schema)
    _check_sequence(schema, options)
    if schema.primary_keys:
        if options.merge_engine == "partial-update":
            _check_groups(schema)
        rule.merge_spec_from_options(schema)
        if options.merge_engine in ("partial-update", "aggregation"):
            _check_functions(schema)


def _check_prefixes(schema: TableSchema) -> None:
    for key, value in schema.options.items():
        if not key.startswith(_PREFIX):
            continue
        named = key.split(".")[1].split(",") if "." in key else []
        for name in named:
            if name != _DEFAULT and not schema.has(name):
                raise InvalidOption(
                    f"Field {name} can not be found in table schema. Option {key!r} names it; columns are "
                    f"{', '.join(schema.names)}",
                    key=key,
                    value=value,
                )


def _check_sequence(schema: TableSchema, options: TableOptions) -> None:
    names = options.sequence_field
    key, value = "sequence.field", options.given.get("sequence.field")
    for name in names:
        if not schema.has(name):
            raise InvalidOption(
                f"Sequence field: '{name}' can not be found in table schema. Columns are {', '.join(schema.names)}",
                key=key,
                value=value,
            )
        if f"fields.{name}.aggregate-function" in options.given:
            raise InvalidOption(
                f"Should not define aggregation on sequence field: '{name}'. It keeps its last value by itself",
                key=f"fields.{name}.aggregate-function",
            )
    if (twice := first_duplicate(names)) is not None:
        raise InvalidOption(f"Sequence field '{twice}' is defined repeatedly. Name it once", key=key, value=value)
    if names and options.merge_engine == "first-row":
        raise InvalidOption(
            "Do not support use sequence field on FIRST_ROW merge engine. The first row written is the one kept",
            key=key,
            value=value,
        )
    if names and schema.cross_partition:
        raise InvalidOption(
            "You can not use sequence.field in cross partition update case "
            f"(Primary key constraint '{format_list(schema.primary_keys)}' not include all partition fields "
            f"'{format_list(schema.partition_keys)}').",
            key=key,
            value=value,
        )


def _check_groups(schema: TableSchema) -> None:
    """Refuse sequence groups that contain a primary key field; `merge_spec_from_options` checks the rest."""
    for key, value in schema.options.items():
        if key.startswith(_PREFIX + ".") and key.endswith("." + SEQUENCE_GROUP):
            columns = key[len(_PREFIX) + 1 : -len(SEQUENCE_GROUP) - 1].split(",")
            if keyed := [name for name in (*columns, *value.split(",")) if name in schema.primary_keys]:
                raise InvalidOption(
                    f"Option {key!r} contains primary key field {keyed[0]!r}: a key never changes; leave it out",
                    key=key,
                    value=value,
                )


def _check_functions(schema: TableSchema) -> None:
    default = schema.options.get(f"fields.{_DEFAULT}")
    for name in schema.names:
        key = f"fields.{name}.aggregate-function"
        function = schema.options.get(key, default)
        if function is not None and function not in _FUNCTIONS:
            own = key if key in schema.options else f"fields.{_DEFAULT}"
            raise InvalidOption(
                f"Could not find any factory for identifier '{function}': column {name} has no such aggregate "
                "function. Available: "
                f"{', '.join(aggregates.names())}",
                key=own,
                value=function,
            )
