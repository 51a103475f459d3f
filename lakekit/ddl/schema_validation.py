"""Validation of a schema as a whole: columns, file formats, merge options, start positions of reads.

    check_schema(schema)                 raises for a schema that the reference refuses, in its words and with advice
    check_reference_can_write(schema)    raises for a schema that the reference accepts, but fails on at every write
    ignored_options(schema)              yields warnings about options that the reference ignores

The reference checks the schema of CREATE TABLE, and the schema that results from an ALTER TABLE, in the same way.

Source: ENGINE.md 1.4, 3.3, ENGINE_1.4.2.md B; `SchemaValidation`, `SchemaValidation.validateStartupMode`,
`CoreOptions.startupMode`, `FileFormat.validateDataFields`: `AvroSchemaConverter`, `OrcTypeUtil`;
`PartialUpdateMergeFunction.Factory`, `AggregateMergeFunction.Factory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.data_file.file_metadata import ignored_index_options, index_definitions
from lakekit.ddl import table_definition
from lakekit.ddl.option_values import check_option_values
from lakekit.ddl.table_definition import format_list, iter_nested_types
from lakekit.errors import ColumnNotFound, InvalidOption, LakekitError, SchemaMismatch, Unsupported
from lakekit.format.avro_writer import name_problem
from lakekit.lsm import aggregates, merge
from lakekit.options.definitions import SEQUENCE_GROUP
from lakekit.options.features import check_readable, find_feature, make_refusal
from lakekit.options.table_options import TableOptions
from lakekit.types import TIMESTAMPS, first_duplicate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lakekit.model.table_schema import TableSchema
    from lakekit.types import DataType, Field


DATA_FILE_FORMATS = ("parquet", "orc", "avro")
"""The file formats of data files that lakekit supports."""


def check_formats(schema: TableSchema, options: TableOptions) -> None:
    """Raise `SchemaMismatch` for a column that the file format of some level cannot store.

    Raises: `Unsupported` for a format that lakekit does not have.
    """
    name = options.file_format.strip().lower()
    _check_names(
        schema, (name, *(level_format.strip().lower() for level_format in options.file_format_per_level.values()))
    )
    for column in schema.fields:
        if (wrong := _format_problem(name, column)) is not None:
            raise SchemaMismatch(f"{wrong}. Change the type, or use another file.format", column=column.name)
    for level, named in options.file_format_per_level.items():
        _check_format_name(named.strip().lower())
        if named.strip().lower() != "avro":
            continue
        for column in schema.fields:
            t = column.type
            if t.root in TIMESTAMPS and (t.precision or 0) > 6:
                raise SchemaMismatch(
                    f"'file.format.per.level' entry '{level}:avro' is incompatible with column '{column.name}' of "
                    f"type {t}: Avro supports timestamp "
                    f"precision up to 6, got {t.precision}. Lower the precision, or use parquet or orc for level "
                    f"{level}",
                    column=column.name,
                )
    _check_format_name(name)


def _check_names(schema: TableSchema, formats: Sequence[str]) -> None:
    """Raise `SchemaMismatch` for names that a format cannot store.

    The reference takes such columns, and fails at the first write or reads nulls.
    """
    names = [
        (column.name, part)
        for column in schema.fields
        for part in (column.name, *(f.name for t in iter_nested_types(column.type) for f in t.fields))
    ]
    for column, name in names:
        if "avro" in formats and name == column and (wrong := name_problem(name)) is not None:
            msg = (
                f"column {column}: {wrong}, and Avro has names of letters, digits and _ that begin with no digit. "
                "Rename it, or use another file.format"
            )
            raise SchemaMismatch(msg, column=column)
        if "orc" in formats and "`" in name:
            msg = (
                f"column {column}: ORC quotes names by ticks, and {name!r} has one, so that it reads as null. Rename "
                "it, or use another file.format"
            )
            raise SchemaMismatch(msg, column=column)


def _check_format_name(name: str) -> None:
    if name not in DATA_FILE_FORMATS:
        feature = f"file.format.{name}"
        known_feature = find_feature(feature)
        raise make_refusal(
            feature if known_feature is None else known_feature.name,
            f"file.format {name!r}",
            alternative=f"Use one of {', '.join(DATA_FILE_FORMATS)}",
        )


def _format_problem(name: str, column: Field) -> str | None:
    for t in iter_nested_types(column.type):
        if name == "avro" and (wrong := _avro_problem(t)) is not None:
            return f"column {column.name}: {wrong}"
        if name == "orc" and (wrong := _orc_problem(t)) is not None:
            return f"column {column.name}: {wrong}"
    return None


def _avro_problem(t: DataType) -> str | None:
    if t.root in TIMESTAMPS and (t.precision or 0) > 6:
        return f"Avro does not support TIMESTAMP type with precision: {t.precision}, it holds 6 digits at most"
    if t.root == "TIME" and (t.precision or 0) > 3:
        return f"Avro does not support TIME type with precision: {t.precision}, it holds 3 digits at most"
    if (wrong := next(filter(None, (name_problem(field.name) for field in t.fields)), None)) is not None:
        return f"{wrong}, and Avro has names of letters, digits and _ that begin with no digit"
    return f"Avro: Unsupported to derive Schema for type: {t}" if t.root == "VARIANT" else None


def _orc_problem(t: DataType) -> str | None:
    return f"ORC: Unsupported type: {t}" if t.root == "VARIANT" else None


# ---- merging ------------------------------------------------------------


_FIELDS_PREFIX, _DEFAULT_FUNCTION_OPTION = "fields", "default-aggregate-function"
_FUNCTION_NAMES = frozenset({*aggregates.function_names(), "primary-key", "first_not_null_value"})


def check_field_options(schema: TableSchema, options: TableOptions) -> None:
    """Raise `InvalidOption` for merge options that name a missing column or contradict each other.

    Checked are options that begin with `fields`, sequence fields, sequence groups and aggregate functions.
    """
    _check_prefixes(schema)
    _check_sequence(schema, options)
    if schema.primary_keys:
        if options.merge_engine == "partial-update":
            _check_groups(schema)
        merge.merge_spec_from_options(schema)
        if options.merge_engine in ("partial-update", "aggregation"):
            _check_functions(schema)


def _check_prefixes(schema: TableSchema) -> None:
    for key, value in schema.options.items():
        if not key.startswith(_FIELDS_PREFIX):
            continue
        named = key.split(".")[1].split(",") if "." in key else []
        for name in named:
            if name != _DEFAULT_FUNCTION_OPTION and not schema.has(name):
                raise InvalidOption(
                    f"Field {name} can not be found in table schema. Option {key!r} names it; columns are "
                    f"{', '.join(schema.names)}",
                    key=key,
                    value=value,
                )


def _check_sequence(schema: TableSchema, options: TableOptions) -> None:
    names = options.sequence_field
    key, value = "sequence.field", options.texts.get("sequence.field")
    for name in names:
        if not schema.has(name):
            raise InvalidOption(
                f"Sequence field: '{name}' can not be found in table schema. Columns are {', '.join(schema.names)}",
                key=key,
                value=value,
            )
        if f"fields.{name}.aggregate-function" in options.texts:
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
        if key.startswith(_FIELDS_PREFIX + ".") and key.endswith("." + SEQUENCE_GROUP):
            columns = key[len(_FIELDS_PREFIX) + 1 : -len(SEQUENCE_GROUP) - 1].split(",")
            if keyed := [name for name in (*columns, *value.split(",")) if name in schema.primary_keys]:
                raise InvalidOption(
                    f"Option {key!r} contains primary key field {keyed[0]!r}: a key never changes; leave it out",
                    key=key,
                    value=value,
                )


def _check_functions(schema: TableSchema) -> None:
    default = schema.options.get(f"fields.{_DEFAULT_FUNCTION_OPTION}")
    for name in schema.names:
        key = f"fields.{name}.aggregate-function"
        function = schema.options.get(key, default)
        if function is not None and function not in _FUNCTION_NAMES:
            own = key if key in schema.options else f"fields.{_DEFAULT_FUNCTION_OPTION}"
            raise InvalidOption(
                f"Could not find any factory for identifier '{function}': column {name} has no such aggregate "
                "function. Available: "
                f"{', '.join(aggregates.function_names())}",
                key=own,
                value=function,
            )


# ---- positions ------------------------------------------------------------


_TIME_OPTIONS = ("scan.timestamp-millis", "scan.timestamp")
_INCREMENTAL_OPTIONS = ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag")
_SNAPSHOT_OPTION, _TAG_OPTION, _CREATION_TIME_OPTION, _WATERMARK_OPTION = (
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.file-creation-time-millis",
    "scan.watermark",
)
_EXACTLY_ONE: Mapping[str, tuple[str, ...]] = {
    "from-timestamp": _TIME_OPTIONS,
    "from-snapshot": (_SNAPSHOT_OPTION, _TAG_OPTION, _WATERMARK_OPTION),
    "incremental": _INCREMENTAL_OPTIONS,
}
_REQUIRED_OPTIONS = {"from-snapshot-full": _SNAPSHOT_OPTION, "from-file-creation-time": _CREATION_TIME_OPTION}
_MODE_OPTIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "from-timestamp": ((_SNAPSHOT_OPTION, _CREATION_TIME_OPTION, _TAG_OPTION, *_INCREMENTAL_OPTIONS), _TIME_OPTIONS),
    "from-snapshot": ((*_TIME_OPTIONS, _CREATION_TIME_OPTION, *_INCREMENTAL_OPTIONS), (_SNAPSHOT_OPTION, _TAG_OPTION)),
    "incremental": ((_SNAPSHOT_OPTION, *_TIME_OPTIONS, _CREATION_TIME_OPTION, _TAG_OPTION), _INCREMENTAL_OPTIONS),
    "from-snapshot-full": (
        (*_TIME_OPTIONS, _CREATION_TIME_OPTION, _TAG_OPTION, *_INCREMENTAL_OPTIONS),
        (_SNAPSHOT_OPTION,),
    ),
    "from-file-creation-time": (
        (_SNAPSHOT_OPTION, *_TIME_OPTIONS, _TAG_OPTION, *_INCREMENTAL_OPTIONS),
        (_CREATION_TIME_OPTION,),
    ),
}
"""Mode -> (options that must not be set, options of the mode itself for the message)."""
_POSITION_OPTIONS = (*_TIME_OPTIONS, _CREATION_TIME_OPTION, _SNAPSHOT_OPTION, _TAG_OPTION, *_INCREMENTAL_OPTIONS)


def effective_scan_mode(options: TableOptions) -> str:
    """Return the effective `scan.mode`; if the option is not set, the position options imply it."""
    texts = options.texts
    if options.scan_mode == "full":
        return "latest-full"
    if options.scan_mode != "default":
        return options.scan_mode
    if any(key in texts for key in (*_TIME_OPTIONS, "log.scan.timestamp-millis")):
        return "from-timestamp"
    if any(key in texts for key in (_SNAPSHOT_OPTION, _TAG_OPTION, _WATERMARK_OPTION, "scan.version")):
        return "from-snapshot"
    if _CREATION_TIME_OPTION in texts:
        return "from-file-creation-time"
    if "scan.creation-time-millis" in texts:
        return "from-creation-timestamp"
    return "incremental" if any(key in texts for key in _INCREMENTAL_OPTIONS[:2]) else "latest-full"


def check_scan_positions(options: TableOptions) -> None:
    """Raise `InvalidOption` for position options that do not fit the effective `scan.mode`.

    A mode takes one position option (or one of several), and no position option of another mode.
    """
    mode, texts = effective_scan_mode(options), options.texts
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


# ---- schema validation ------------------------------------------------------------


_TIME_FIELD_TYPES = ("INT", "BIGINT", "TIMESTAMP", "TIMESTAMP_LTZ")


def check_schema(schema: TableSchema, subject: str, *, has_branch: Callable[[str], bool] = lambda _: False) -> None:
    """Check a schema, which messages call `subject`.

    `has_branch` says whether the table has a branch with a given name.

    Raises: `InvalidOption`, `SchemaMismatch`, `ColumnNotFound`, or `Unsupported` for a schema that lakekit cannot read.
    """
    options = TableOptions.parse(schema.options, kind="key" if schema.primary_keys else "append")
    check_readable(schema.options, subject)
    table_definition.check_types(schema)
    table_definition.check_keys(schema)
    table_definition.check_bucket(schema, options.bucket, options.full_compaction_delta_commits)
    check_scan_positions(options)
    check_field_options(schema, options)
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
    return InvalidOption(message, key=key, value=options.texts.get(key))


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
    if "partition.expiration-time" in options.texts and not schema.partition_keys:
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
    if schema.field(name).type.root not in _TIME_FIELD_TYPES:
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
    """Check options that Paimon releases after 1.4.2 introduced."""
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
    branches = {key: options.texts.get(key, "").strip() for key in ("scan.fallback-branch", "scan.primary-branch")}
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


# ---- errors of writes ----------------------------------------------------------------------------


def check_reference_can_write(schema: TableSchema, previous_schema: TableSchema | None = None) -> None:
    """Raise for a schema that the reference (1.4.2) accepts, although each of its writes would fail.

    Checked are aggregate functions and file indexes that do not fit the types of their columns, and option values.
    `previous_schema`: the schema that an ALTER TABLE changes; None for a new table. If `previous_schema` has such a
    problem already, nothing is raised, so that tables of other engines can be altered.

    Raises: `InvalidOption`, `Unsupported`.
    """
    problem = _find_write_problem(schema)
    if problem is not None and (previous_schema is None or _find_write_problem(previous_schema) is None):
        raise problem


def _find_write_problem(schema: TableSchema) -> LakekitError | None:
    if schema.primary_keys:
        merge_rule = merge.merge_spec_from_options(schema)
        for name in merge_rule.functions:
            try:
                aggregates.check_functions(merge_rule, [name])
            except InvalidOption as error:
                return error
            except Unsupported:
                continue  # of a function that is not there, or not installed, other checks speak
    options = TableOptions.parse(schema.options, kind="key" if schema.primary_keys else "append")
    try:
        index_definitions(schema, options)
        check_option_values(schema, options)
    except (InvalidOption, Unsupported) as error:
        return error
    return None


def ignored_options(schema: TableSchema) -> Iterator[str]:
    """Yield a warning for each option that the reference silently ignores or no longer knows.

    These are mistyped options of file indexes, and aggregate functions that were removed.
    """
    if schema.primary_keys:
        for name, function in merge.merge_spec_from_options(schema).functions.items():
            if function.name == "count":
                yield (
                    f"fields.{name}.aggregate-function=count: engines since 0.9 have no such function and refuse the "
                    "table; lakekit merges it"
                )
    options = TableOptions.parse(schema.options)
    try:
        indexes = index_definitions(schema, options)
    except LakekitError:
        return
    yield from ignored_index_options(indexes, options)
