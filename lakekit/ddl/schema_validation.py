"""Validation of a schema as a whole.

The reference refuses the same at CREATE TABLE and for the result of every ALTER TABLE.

    check(schema)                     raises the first error, in the reference's words and with what to do
    check_writable(schema, before)    raises what the reference accepts here and refuses at every write
    doubts(schema)                    what the reference ignores

Source: ENGINE.md 1.4, ENGINE_1.4.2.md B, `SchemaValidation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.data_file.indexing import indexes_of, unread_options
from lakekit.ddl import positions, table_definition
from lakekit.ddl.formats import check_formats
from lakekit.ddl.merging import check_merging
from lakekit.ddl.option_values import check_values
from lakekit.errors import ColumnNotFound, InvalidOption, LakekitError, SchemaMismatch, Unsupported
from lakekit.lsm import aggregates, rule
from lakekit.options.features import check_readable
from lakekit.options.table_options import TableOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakekit.model.table_schema import TableSchema

_TIMES = ("INT", "BIGINT", "TIMESTAMP", "TIMESTAMP_LTZ")


def check(schema: TableSchema, where: str, *, has_branch: Callable[[str], bool] = lambda _: False) -> None:
    """Check a schema, named `where` in messages.

    `has_branch` says whether the table has a branch of that name.

    Raises: `InvalidOption`, `SchemaMismatch`, `ColumnNotFound`, or `Unsupported` for what lakekit cannot read either.
    """
    options = TableOptions.parse(schema.options, kind="key" if schema.primary_keys else "append")
    check_readable(schema.options, where)
    table_definition.check_types(schema)
    table_definition.check_keys(schema)
    table_definition.check_bucket(schema, options.bucket, options.full_compaction_delta_commits)
    positions.check_positions(options)
    check_merging(schema, options)
    _check_producer(schema, options)
    _check_retention(options)
    check_formats(schema, options)
    table_definition.check_names(schema)
    _check_expiry(schema, options)
    _check_columns(schema, options)
    _check_ordering(schema, options)
    _check_deletion_vectors(options)
    _check_append_features(schema, options)
    _check_branches(options, has_branch)


def _invalid_option(message: str, key: str, options: TableOptions) -> InvalidOption:
    return InvalidOption(message, key=key, value=options.given.get(key))


def _check_producer(schema: TableSchema, options: TableOptions) -> None:
    producer = options.changelog_producer
    if not schema.primary_keys and producer != "none":
        raise _invalid_option(
            "Can not set changelog-producer on table without primary keys, please define primary keys.",
            "changelog-producer",
            options,
        )
    if options.streaming_read_overwrite and producer in ("full-compaction", "lookup"):
        raise _invalid_option(
            "Cannot set streaming-read-overwrite to true when changelog producer is full-compaction or lookup because "
            "it will read duplicated changes.",
            "streaming-read-overwrite",
            options,
        )
    if options.streaming_read_overwrite and not schema.primary_keys:
        raise _invalid_option(
            "Doesn't support streaming read the changes from overwrite when the primary keys are not defined. "
            "Please use streaming-read-append-overwrite to enable the streaming read overwrite commit for append "
            "table.",
            "streaming-read-overwrite",
            options,
        )
    if options.merge_engine == "first-row" and producer not in ("none", "lookup"):
        raise _invalid_option(
            "Only support 'none' and 'lookup' changelog-producer on FIRST_ROW merge engine",
            "changelog-producer",
            options,
        )


def _check_retention(options: TableOptions) -> None:
    fewest, most, _ = options.changelog_retained
    for kind, low, high in (
        ("snapshot", options.snapshot_num_retained_min, options.snapshot_num_retained_max),
        ("changelog", fewest, most),
    ):
        key = f"{kind}.num-retained.min"
        if low < 1:
            raise _invalid_option(f"{key} should be at least 1; it is {low}", key, options)
        if low > high:
            raise _invalid_option(
                f"{key} should not be larger than {kind}.num-retained.max; they are {low} and {high}", key, options
            )
    if options.target_file_row_num < 1:
        raise _invalid_option("target-file-row-num should be at least 1", "target-file-row-num", options)


def _check_expiry(schema: TableSchema, options: TableOptions) -> None:
    if "partition.expiration-time" in options.given and not schema.partition_keys:
        raise _invalid_option(
            "Can not set 'partition.expiration-time' for non-partitioned table.", "partition.expiration-time", options
        )
    name = options.record_level_time_field
    if name is None:
        return
    if not schema.has(name):
        raise ColumnNotFound(
            f"Can not find time field {name} for record level expire; columns are {', '.join(schema.names)}", name=name
        )
    if schema.field(name).type.root not in _TIMES:
        raise SchemaMismatch(
            "The record level time field type should be one of INT, BIGINT, or TIMESTAMP, but field type is "
            f"{schema.field(name).type}.",
            column=name,
        )


def _check_columns(schema: TableSchema, options: TableOptions) -> None:
    name = options.rowkind_field
    if name is not None and not schema.has(name):
        raise ColumnNotFound(
            f"Rowkind field: '{name}' can not be found in table schema. Columns are {', '.join(schema.names)}",
            name=name,
        )
    if options.table_read_sequence_number_enabled and not schema.primary_keys:
        raise _invalid_option(
            "Cannot enable 'table-read.sequence-number.enabled' for non-primary-key table. Sequence number is only "
            "available for primary key tables.",
            "table-read.sequence-number.enabled",
            options,
        )


def _check_ordering(schema: TableSchema, options: TableOptions) -> None:
    """Options that releases after 1.4.2 brought."""
    if options.primary_key_nullable and not schema.primary_keys:
        raise _invalid_option(
            "Option 'primary-key.nullable' can only be enabled for a table with primary keys.",
            "primary-key.nullable",
            options,
        )
    if not options.sequence_snapshot_ordering:
        return
    key = "sequence.snapshot-ordering"
    if not schema.primary_keys:
        raise _invalid_option(f"{key} requires a primary-key table", key, options)
    if options.sequence_field:
        raise _invalid_option(f"{key} and sequence.field are mutually exclusive", key, options)
    if not options.write_only:
        raise _invalid_option(f"{key} requires write-only = true", key, options)


def _check_deletion_vectors(options: TableOptions) -> None:
    if not options.deletion_vectors_enabled:
        return
    if options.changelog_producer == "full-compaction":
        raise _invalid_option(
            "Deletion vectors mode is only supported for NONE/INPUT/LOOKUP changelog producer now. Choose one of "
            "those, or leave vectors off",
            "deletion-vectors.enabled",
            options,
        )
    if options.merge_engine == "first-row":
        raise _invalid_option(
            "First row merge engine does not need deletion vectors because there is no deletion of old data in this "
            "merge engine.",
            "deletion-vectors.enabled",
            options,
        )


def _check_append_features(schema: TableSchema, options: TableOptions) -> None:
    if options.row_tracking_enabled:
        if options.bucket != -1:
            raise _invalid_option(
                "Cannot define bucket for row tracking table, it only support bucket = -1", "bucket", options
            )
        if schema.primary_keys:
            raise _invalid_option(
                "Cannot define primary-key for row tracking table. Leave the key or row-tracking.enabled out",
                "row-tracking.enabled",
                options,
            )
    if options.clustering_incremental:
        key = "clustering.incremental"
        if schema.primary_keys:
            raise _invalid_option(
                "Cannot define primary-key for incremental clustering table. Leave the key or clustering.incremental "
                "out",
                key,
                options,
            )
        if options.bucket != -1 and options.bucket_append_ordered:
            raise _invalid_option("bucket-append-ordered must be false for incremental clustering table.", key, options)
        if options.bucket != -1 and options.deletion_vectors_enabled:
            raise _invalid_option(
                "Cannot enable deletion-vectors for incremental clustering table which bucket is not -1.", key, options
            )


def _check_branches(options: TableOptions, has_branch: Callable[[str], bool]) -> None:
    branches = {key: options.given.get(key, "").strip() for key in ("scan.fallback-branch", "scan.primary-branch")}
    if all(branches.values()):
        raise _invalid_option(
            "Cannot set both 'scan.fallback-branch' and 'scan.primary-branch' at the same time.",
            "scan.fallback-branch",
            options,
        )
    for key, branch in branches.items():
        if branch and not has_branch(branch):
            raise _invalid_option(
                f"Cannot set '{key}' = '{branch}' because the branch '{branch}' does not exist. "
                f"t.create_branch({branch!r}) makes it",
                key,
                options,
            )


# ---- what only a write would notice --------------------------------------------------------------


def check_writable(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Refuse what the reference (1.4.2) accepts in a schema and refuses at every write.

    These are functions and indexes of columns that they do not fit. `before`: the schema that is changed; problems that
    it has already are accepted, so that tables of other engines can be altered.

    Raises: `InvalidOption`, `Unsupported`.
    """
    problem = _find_write_problem(schema)
    if problem is not None and (before is None or _find_write_problem(before) is None):
        raise problem


def _find_write_problem(schema: TableSchema) -> LakekitError | None:
    if schema.primary_keys:
        merge_rule = rule.merge_spec_from_options(schema)
        for name in merge_rule.functions:
            try:
                aggregates.check(merge_rule, [name])
            except InvalidOption as error:
                return error
            except Unsupported:
                continue  # of a function that is not there, or not installed, other checks speak
    options = TableOptions.parse(schema.options, kind="key" if schema.primary_keys else "append")
    try:
        indexes_of(schema, options)
        check_values(schema, options)
    except (InvalidOption, Unsupported) as error:
        return error
    return None


def doubts(schema: TableSchema) -> Iterator[str]:
    """Yield what the reference silently ignores: mistyped options of indexes, and removed functions."""
    if schema.primary_keys:
        for name, function in rule.merge_spec_from_options(schema).functions.items():
            if function.name == "count":
                yield (
                    f"fields.{name}.aggregate-function=count: engines since 0.9 have no such function and refuse the "
                    "table; lakekit merges it"
                )
    options = TableOptions.parse(schema.options)
    try:
        indexes = indexes_of(schema, options)
    except LakekitError:
        return
    yield from unread_options(indexes, options)
