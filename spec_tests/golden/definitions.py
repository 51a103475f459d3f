"""Tables made and changed, right and wrong: what `definitions_1_4_2.json` holds the reference's answers to.

    CASES["key_twice"]     what is made, and the steps that change it; each step is one `t.alter`
    matrices()             every type changed to every other, and every text as a default of every type

`differs` says where lakekit answers otherwise on purpose, and why: "takes" what the reference refuses, or "refuses" what it takes, or "else" (both take it
and write another schema).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lakekit as lk
from lakekit.ddl import schema_changes
from lakekit.types import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SNAPSHOT = """{
  "version" : 3,
  "id" : 1,
  "schemaId" : 0,
  "baseManifestList" : "manifest-list-0",
  "deltaManifestList" : "manifest-list-1",
  "commitUser" : "u",
  "commitIdentifier" : 1,
  "commitKind" : "APPEND",
  "timeMillis" : 1700000000000,
  "totalRecordCount" : 0,
  "deltaRecordCount" : 0
}"""
"""Enough of a snapshot for a table to count as written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`differs`: by answer (0 the making, 1 the first step, …), how lakekit's differs."""

    name: str
    fields: Mapping[str, Any]
    steps: tuple[tuple[schema_changes.TableChange, ...], ...] = ()
    keys: Sequence[str] = ()
    parts: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    snapshot: bool = False
    differs: Mapping[int, str] = field(default_factory=dict)

    def columns(self) -> list[lk.Field]:
        """The columns to make the table of."""
        return [lk.Field(name, *([of] if isinstance(of, str) else [of[0], -1, *of[1:]])) for name, of in self.fields.items()]


CASES: dict[str, Case] = {}
ROWS = {"k": "INT", "v": "STRING", "n": "BIGINT", "d": "DATE", "p": "STRING"}
NESTED = {
    "k": "INT",
    "r": "ROW<x INT, y STRING>",
    "a": "ARRAY<ROW<x INT, y INT>>",
    "m": "MAP<STRING, ROW<x INT, y INT>>",
    "l": "ARRAY<INT>",
    "g": "MAP<STRING, INT>",
}


def define(name: str, fields: Mapping[str, Any], *steps: Any, **more: Any) -> None:
    """Adds a case; a step that is one change alone stands for a list of it."""
    assert name not in CASES
    CASES[name] = Case(name=name, fields=fields, steps=tuple(tuple(step) if isinstance(step, list) else (step,) for step in steps), **more)


def keyed(name: str, *steps: Any, options: Mapping[str, str] | None = None, **more: Any) -> None:
    """A case over ROWS with key k, in one bucket."""
    define(name, ROWS, *steps, keys=["k"], options={"bucket": "1"} | dict(options or {}), **more)


def plain(name: str, *steps: Any, options: Mapping[str, str] | None = None, **more: Any) -> None:
    """A case over ROWS without key."""
    define(name, ROWS, *steps, options=dict(options or {}), **more)


# ---- making: columns and keys ----------------------------------------------------------------------------------------------------------------

plain("append")
define("types", {
    "a": "BOOLEAN", "b": "TINYINT", "c": "SMALLINT NOT NULL", "d": "INT", "e": "BIGINT", "f": "FLOAT", "g": "DOUBLE", "h": "DECIMAL(38, 10)", "i": "CHAR(3)",
    "j": "VARCHAR(20)", "l": "STRING", "m": "BINARY(4)", "n": "VARBINARY(9)", "o": "BYTES", "q": "DATE", "r": "TIME(3)", "s": "TIMESTAMP(9)",
    "t": "TIMESTAMP(0) WITH LOCAL TIME ZONE", "u": "ARRAY<INT NOT NULL>", "w": "MAP<STRING, ARRAY<DATE>>", "x": "MULTISET<STRING>",
    "y": "ROW<a INT, b ROW<c INT NOT NULL, d STRING>> NOT NULL", "z": "VARIANT",
})  # fmt: skip
define("nested_ids", NESTED)
define(
    "comments_and_defaults", {"k": ("INT NOT NULL", "the key"), "v": ("STRING", 'with "quotes" and ü', "x"), "n": ("BIGINT", None, "5")}, comment="what it is"
)
define("key_made_not_null", ROWS, keys=["k", "d"])
define("key_order", ROWS, keys=["d", "k"], parts=["d"])
define("key_is_partition", ROWS, keys=["p"], parts=["p"])
define("key_lacks_partition", ROWS, keys=["k"], parts=["p"])
define("key_not_a_column", ROWS, keys=["z"])
define("key_twice", ROWS, keys=["k", "k"])
define("partition_twice", ROWS, parts=["p", "p"])
define("partition_not_a_column", ROWS, parts=["z"])
define("key_by_option", ROWS, options={"primary-key": "k, d"})
define("key_by_option_and_call", ROWS, keys=["k"], options={"primary-key": "k"})
define("partition_by_option", ROWS, options={"partition": "p,d"})
define("partition_by_option_and_call", ROWS, parts=["p"], options={"partition": "p"})
define("all_columns_keys", {"a": "INT", "b": "INT"}, keys=["a", "b"], parts=["a"])
for _kind in ("ARRAY<INT>", "MAP<INT, INT>", "MULTISET<INT>", "ROW<a INT>"):
    _root = _kind.partition("<")[0].lower()
    define(f"key_{_root}", {"k": "INT", "c": _kind}, keys=["c"])
    define(f"partition_{_root}", {"k": "INT", "c": _kind}, parts=["c"])
define("key_variant", {"k": "INT", "c": "VARIANT"}, keys=["c"], differs={0: "refuses: a variant has no order"})
for _kind in ("BOOLEAN", "DOUBLE", "DECIMAL(10, 2)", "BYTES", "TIMESTAMP(9)", "TIME(0)", "CHAR(4)"):
    define(f"key_of_{_kind.split('(')[0].lower()}", {"k": _kind, "v": "INT"}, keys=["k"])
for _name in ("_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID", "_KEY_a", "_key_a", "ROWKIND"):
    define(f"named_{_name}", {"k": "INT", _name: "INT"})
define("named_by_rows", {"k": "INT", "_row_kind": "INT"}, differs={0: "refuses: rows say what they do under this name"})
define("named_with_point", {"a.b": "INT", "a b": "INT", "ü": "INT"})
define("upsert_key", ROWS, options={"upsert-key": "k"}, differs={0: "refuses: lakekit never upserts by it"})
define("upsert_key_with_key", ROWS, keys=["k"], options={"upsert-key": "k"})
define("upsert_key_not_a_column", ROWS, options={"upsert-key": "z"})
define("upsert_key_nested", {"k": "INT", "c": "ARRAY<INT>"}, options={"upsert-key": "c"})
define("no_columns", {})
for _format in ("parquet", "orc", "avro"):
    define(f"empty_row_{_format}", {"k": "INT", "r": "ROW<>"}, options={"file.format": _format})
    define(f"row_of_no_fields_{_format}", {"k": "INT", "r": "ROW<x INT, y ROW<z INT>>"}, lk.drop_column("r.y.z"), options={"file.format": _format})
define("deep", {"k": "ARRAY<MAP<STRING, ROW<x ARRAY<MULTISET<ROW<y INT>>>>>>"}, lk.add_column("k.element.value.z", "INT"))
define("key_nullable_later", ROWS, lk.update_nullability("v", nullable=False), lk.set_option("alter-column-null-to-not-null.disabled", "false"),
       lk.update_nullability("v", nullable=False), lk.update_nullability("v", nullable=True), keys=["k"])  # fmt: skip
for _name in ("a b", "a.b", "1a", "🙂", "ü", "e\u0301"):
    for _format in ("orc", "avro"):
        _why = {0: "refuses: no write of the reference takes it"} if _format == "avro" and _name != "ü" else {}
        define(f"named_{_name}_{_format}", {"k": "INT", _name: "INT"}, options={"file.format": _format}, differs=_why)
        define(f"field_named_{_name}_{_format}", {"k": "INT", "r": f"ROW<`{_name}` INT>"}, options={"file.format": _format})
define("name_blank", {" ": "INT"})
define("name_blank_in_row", {"r": "ROW<` ` INT>"})
define("names_in_row_twice", {"r": "ROW<a INT, a INT>"})
define("names_in_rows_of_array_twice", {"a": "ARRAY<ROW<a INT, A INT, a STRING>>"})
define("names_of_other_scripts", {"数": "INT", "имя": "STRING", "a`b": "INT", 'say "x"': "INT"}, lk.rename_column("数", "番"), lk.drop_column("имя"))
define("default_wrong", {"k": "INT", "n": ("INT", None, "x")})
define("default_quoted", {"k": "INT", "n": ("INT", None, "'7'"), "d": ("DATE", None, "2024-01-31"), "b": ("BOOLEAN", None, "yes")})

# ---- making: buckets -------------------------------------------------------------------------------------------------------------------------

for _bucket in ("4", "-1", "-2", "0", "-3"):
    keyed(f"bucket_{_bucket}", options={"bucket": _bucket})
    plain(f"append_bucket_{_bucket}", options={"bucket": _bucket})
keyed("bucket_word", options={"bucket": "many"})
plain("append_bucket_key", options={"bucket": "4", "bucket-key": "k,v"})
plain("append_bucket_key_alone", options={"bucket-key": "k"})
plain("append_bucket_key_absent", options={"bucket": "4", "bucket-key": "z"})
define("bucket_key_partition", ROWS, parts=["p"], options={"bucket": "4", "bucket-key": "p"})
define("bucket_key_nested", {"k": "INT", "c": "ROW<a INT>"}, options={"bucket": "4", "bucket-key": "c"})
plain("bucket_key_blanks", options={"bucket": "4", "bucket-key": "k, v"}, differs={0: "takes: the reference takes a blank for a part of a name"})
plain("bucket_key_empty", options={"bucket": "4", "bucket-key": ""})
define("bucket_key_in_key", ROWS, keys=["k", "d"], options={"bucket": "4", "bucket-key": "d"})
define("bucket_key_outside_key", ROWS, keys=["k"], options={"bucket": "4", "bucket-key": "d"})
keyed("bucket_key_of_dynamic", options={"bucket": "-1", "bucket-key": "k"})
plain("full_compaction_of_append", options={"full-compaction.delta-commits": "3"})
plain("full_compaction_of_buckets", options={"bucket": "2", "bucket-key": "k", "full-compaction.delta-commits": "3"})
keyed("bucket_function_mod", options={"bucket-function.type": "mod"})

# ---- making: merging -------------------------------------------------------------------------------------------------------------------------

for _engine in ("deduplicate", "partial-update", "aggregation", "first-row", "none"):
    keyed(f"engine_{_engine}", options={"merge-engine": _engine})
keyed("engine_spelt", options={"merge-engine": "PARTIAL_UPDATE"}, differs={0: "takes: written as the reference spells it"})
plain("engine_of_append", options={"merge-engine": "aggregation"})
keyed("sequence_field", options={"sequence.field": "n"})
keyed("sequence_fields", options={"sequence.field": "n,d"})
keyed("sequence_fields_blank", options={"sequence.field": "n, d"}, differs={0: "else: written without the blank"})
keyed("sequence_field_absent", options={"sequence.field": "z"})
keyed("sequence_field_twice", options={"sequence.field": "n,n"})
plain("sequence_field_of_append", options={"sequence.field": "n"})
keyed("sequence_field_aggregated", options={"merge-engine": "aggregation", "sequence.field": "n", "fields.n.aggregate-function": "max"})
keyed("sequence_field_first_row", options={"merge-engine": "first-row", "sequence.field": "n"})
define("sequence_field_cross_partition", ROWS, keys=["k"], parts=["p"], options={"sequence.field": "n"})
keyed("sequence_order_word", options={"sequence.field": "n", "sequence.field.sort-order": "upwards"}, differs={0: "refuses: no such order"})
keyed("field_absent", options={"fields.z.aggregate-function": "sum"})
keyed("fields_one_absent", options={"merge-engine": "partial-update", "fields.n,z.sequence-group": "v"})
keyed("field_default", options={"merge-engine": "aggregation", "fields.default-aggregate-function": "last_value"})
plain("field_absent_of_append", options={"fields.z.ignore-retract": "true"})
for _function in (
    "sum",
    "max",
    "count",
    "first_not_null_value",
    "first_non_null_value",
    "primary-key",
    "nested_partial_update",
    "theta_sketch",
    "merge_map",
    "sums",
):
    _differs = {
        "count": {0: "takes: releases before 1.0 have it"},
        "nested_partial_update": {0: "refuses: every write of the reference does"},
        "first_not_null_value": {0: "else: written under its name of today"},
        "theta_sketch": {0: "refuses: every write of the reference does, of a column that is no VARBINARY"},
        "merge_map": {0: "refuses: every write of the reference does, of a column that is no MAP"},
    }
    keyed(f"function_{_function}", options={"merge-engine": "aggregation", "fields.n.aggregate-function": _function}, differs=_differs.get(_function, {}))
keyed(
    "function_of_text",
    options={"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    differs={0: "refuses: every write of the reference does"},
)
keyed("function_default_unknown", options={"merge-engine": "aggregation", "fields.default-aggregate-function": "sums"})
keyed("function_of_deduplicate", options={"fields.n.aggregate-function": "sums"})
keyed("groups", options={"merge-engine": "partial-update", "fields.n.sequence-group": "v", "fields.d.sequence-group": "p"})
keyed("group_of_two", options={"merge-engine": "partial-update", "fields.n,d.sequence-group": "v,p"})
keyed("group_absent", options={"merge-engine": "partial-update", "fields.n.sequence-group": "z"})
keyed("group_of_key", options={"merge-engine": "partial-update", "fields.n.sequence-group": "k"}, differs={0: "refuses: as later releases do"})
keyed("group_twice", options={"merge-engine": "partial-update", "fields.n.sequence-group": "v", "fields.d.sequence-group": "v"})
keyed(
    "group_shares_order",
    options={"merge-engine": "partial-update", "fields.n,d.sequence-group": "v", "fields.d.sequence-group": "p"},
    differs={0: "refuses: which group counts would follow from the order of a hash map"},
)
keyed(
    "group_orders_other",
    options={"merge-engine": "partial-update", "fields.n.sequence-group": "d", "fields.d.sequence-group": "v"},
    differs={0: "refuses: which group counts would follow from the order of a hash map"},
)
keyed(
    "group_blanks",
    options={"merge-engine": "partial-update", "fields.n.sequence-group": "v, p"},
    differs={0: "takes: the reference takes a blank for a part of a name"},
)
keyed("function_outside_group", options={"merge-engine": "partial-update", "fields.v.aggregate-function": "max"})
keyed("function_inside_group", options={"merge-engine": "partial-update", "fields.n.sequence-group": "v", "fields.v.aggregate-function": "max"})
keyed("function_last_non_null", options={"merge-engine": "partial-update", "fields.v.aggregate-function": "last_non_null_value"})
keyed("function_default_outside_group", options={"merge-engine": "partial-update", "fields.default-aggregate-function": "max"})
_PARTIAL = {"merge-engine": "partial-update"}
keyed("delete_removes", options=_PARTIAL | {"partial-update.remove-record-on-delete": "true"})
keyed("delete_removes_and_ignored", options=_PARTIAL | {"partial-update.remove-record-on-delete": "true", "ignore-delete": "true"})
keyed("delete_removes_and_ignored_before", options=_PARTIAL | {"partial-update.remove-record-on-delete": "true", "partial-update.ignore-delete": "true"})
keyed("delete_removes_and_groups", options=_PARTIAL | {"partial-update.remove-record-on-delete": "true", "fields.n.sequence-group": "v"})
keyed("group_removes", options=_PARTIAL | {"partial-update.remove-record-on-sequence-group": "n", "fields.n.sequence-group": "v"})
keyed("group_removes_absent", options=_PARTIAL | {"partial-update.remove-record-on-sequence-group": "d", "fields.n.sequence-group": "v"})
keyed(
    "group_removes_and_ignored",
    options=_PARTIAL | {"partial-update.remove-record-on-sequence-group": "n", "fields.n.sequence-group": "v", "ignore-delete": "true"},
)
_AGGREGATION = {"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true"}
keyed("aggregation_removes", options=_AGGREGATION)
keyed("aggregation_removes_and_ignores", options=_AGGREGATION | {"fields.n.ignore-retract": "true"}, differs={0: "refuses: as later releases do"})
keyed("ignore_delete_old_name", options={"deduplicate.ignore-delete": "true"}, differs={0: "else: written under its name of today"})

# ---- making: producers, vectors, retention ----------------------------------------------------------------------------------------------------

for _producer in ("none", "input", "lookup", "full-compaction", "all"):
    keyed(f"producer_{_producer}", options={"changelog-producer": _producer})
    plain(f"producer_{_producer}_of_append", options={"changelog-producer": _producer})
    keyed(f"producer_{_producer}_of_first_row", options={"merge-engine": "first-row", "changelog-producer": _producer})
    keyed(f"vectors_with_{_producer}", options={"deletion-vectors.enabled": "true", "changelog-producer": _producer})
keyed("producer_lookup_and_full", options={"changelog-producer": "lookup", "full-compaction.delta-commits": "3"})
keyed("vectors_of_first_row", options={"merge-engine": "first-row", "deletion-vectors.enabled": "true"})
keyed("vectors_old_name", options={"deletion-vectors": "true"}, differs={0: "else: written under its name of today"})
plain("vectors_of_append", options={"deletion-vectors.enabled": "true"})
keyed("vectors_word", options={"deletion-vectors.enabled": "yes"})
keyed("stream_overwrite", options={"streaming-read-overwrite": "true"})
keyed("stream_overwrite_lookup", options={"streaming-read-overwrite": "true", "changelog-producer": "lookup"})
keyed("stream_overwrite_full", options={"streaming-read-overwrite": "true", "changelog-producer": "full-compaction"})
plain("stream_overwrite_of_append", options={"streaming-read-overwrite": "true"})
plain("stream_append_overwrite", options={"streaming-read-append-overwrite": "true"})
plain("retained_none", options={"snapshot.num-retained.min": "0"})
plain("retained_crossed", options={"snapshot.num-retained.min": "9", "snapshot.num-retained.max": "5"})
plain("retained_max_below_default", options={"snapshot.num-retained.max": "5"})
plain("changelogs_retained_none", options={"changelog.num-retained.min": "0"})
plain("changelogs_retained_crossed", options={"changelog.num-retained.min": "9", "changelog.num-retained.max": "5"})
plain("retained_word", options={"snapshot.num-retained.min": "few"})
plain("expire_partitions", options={"partition.expiration-time": "7 d"})
define("expire_partitions_of_table_with_some", ROWS, parts=["p"], options={"partition.expiration-time": "7 d"})
for _column in ("n", "k", "d", "v", "z"):
    keyed(f"record_time_{_column}", options={"record-level.expire-time": "1 h", "record-level.time-field": _column})
define("record_time_timestamp", {"k": "INT", "t": "TIMESTAMP(6)", "l": "TIMESTAMP(3) WITH LOCAL TIME ZONE"}, lk.set_option("record-level.time-field", "l"),
       keys=["k"], options={"bucket": "1", "record-level.expire-time": "1 h", "record-level.time-field": "t"})  # fmt: skip
keyed("rowkind_field", options={"rowkind.field": "v"})
keyed("rowkind_field_number", options={"rowkind.field": "n"}, differs={0: "refuses: every write of the reference does"})
keyed("rowkind_field_absent", options={"rowkind.field": "z"})
keyed("sequence_numbers_shown", options={"table-read.sequence-number.enabled": "true"})
plain("sequence_numbers_shown_of_append", options={"table-read.sequence-number.enabled": "true"})

# ---- making: formats, indexes, tracking ---------------------------------------------------------------------------------------------------------

for _format in ("orc", "avro", "parquet", "ORC"):
    plain(f"format_{_format}", options={"file.format": _format})
plain("format_unknown", options={"file.format": "pq"})
plain("format_csv", options={"file.format": "csv"}, differs={0: "refuses: lakekit has no CSV"})
for _format, _kind in (
    ("avro", "TIMESTAMP(7)"), ("avro", "TIMESTAMP(6)"), ("avro", "TIME(4)"), ("avro", "TIME(3)"), ("avro", "VARIANT"), ("avro", "ARRAY<TIMESTAMP(9)>"),
    ("orc", "BINARY(3)"), ("orc", "VARBINARY(3)"), ("orc", "BYTES"), ("orc", "VARIANT"), ("orc", "MULTISET<INT>"), ("orc", "ROW<a BINARY(3)>"),
    ("parquet", "MULTISET<INT>"), ("parquet", "ROW<a TIMESTAMP(9)>"),
):  # fmt: skip
    define(f"format_{_format}_{_kind}", {"k": "INT", "c": _kind}, options={"file.format": _format})
define("format_of_level", {"k": "INT", "c": "TIMESTAMP(9)"}, keys=["k"], options={"bucket": "1", "file.format.per.level": "0:avro"},
       differs={0: "refuses: no row could be written"})  # fmt: skip
plain("index_bloom", options={"file-index.bloom-filter.columns": "k,v"})
plain("index_absent", options={"file-index.bloom-filter.columns": "z"}, differs={0: "refuses: every write of the reference does"})
plain("index_blanks", options={"file-index.bsi.columns": "k, n"}, differs={0: "else: written without the blank"})
plain("row_tracking", options={"row-tracking.enabled": "true"})
keyed("row_tracking_of_key", options={"row-tracking.enabled": "true"})
define("row_tracking_of_dynamic_key", ROWS, keys=["k"], options={"row-tracking.enabled": "true"})
plain("row_tracking_of_buckets", options={"row-tracking.enabled": "true", "bucket": "2", "bucket-key": "k"})
plain("data_evolution_alone", options={"data-evolution.enabled": "true"})
plain("clustering", options={"clustering.incremental": "true", "clustering.columns": "k"})
keyed("clustering_of_key", options={"clustering.incremental": "true"})
plain("clustering_of_buckets", options={"clustering.incremental": "true", "bucket": "2", "bucket-key": "k"})
plain("clustering_of_loose_buckets", options={"clustering.incremental": "true", "bucket": "2", "bucket-key": "k", "bucket-append-ordered": "false"})
plain("clustering_with_vectors", options={
    "clustering.incremental": "true", "bucket": "2", "bucket-key": "k", "bucket-append-ordered": "false", "deletion-vectors.enabled": "true",
})  # fmt: skip
plain("fallback_absent", options={"scan.fallback-branch": "b"})
plain("primary_branch_absent", options={"scan.primary-branch": "b"})
plain("both_branches", options={"scan.fallback-branch": "b", "scan.primary-branch": "c"})
plain("auto_create", options={"auto-create": "true"})
plain("unknown_option", options={"my.own": "1", "owner": "me"})

# ---- making: where reads start -------------------------------------------------------------------------------------------------------------------

for _at, _options in enumerate((
    {"scan.mode": "from-timestamp"}, {"scan.mode": "from-timestamp", "scan.timestamp-millis": "1"}, {"scan.timestamp": "2024-01-01 00:00:00"},
    {"scan.mode": "from-timestamp", "scan.timestamp-millis": "1", "scan.timestamp": "2024-01-01 00:00:00"},
    {"scan.timestamp-millis": "1", "scan.snapshot-id": "2"},
    {"scan.mode": "from-snapshot"}, {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}, {"scan.snapshot-id": "1", "scan.tag-name": "t"},
    {"scan.tag-name": "t"},
    {"scan.watermark": "5"}, {"scan.mode": "from-snapshot", "scan.snapshot-id": "1", "incremental-between": "1,2"}, {"scan.mode": "from-snapshot-full"},
    {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"}, {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1", "scan.tag-name": "t"},
    {"scan.mode": "from-file-creation-time"}, {"scan.mode": "from-file-creation-time", "scan.file-creation-time-millis": "1"},
    {"scan.mode": "incremental"}, {"incremental-between": "1,2"}, {"incremental-between": "1,2", "incremental-between-timestamp": "1,2"},
    {"incremental-to-auto-tag": "t"}, {"incremental-between": "1,2", "scan.snapshot-id": "1"}, {"scan.mode": "latest", "scan.snapshot-id": "1"},
    {"scan.mode": "latest-full"}, {"scan.mode": "full", "scan.timestamp-millis": "1"}, {"scan.mode": "compacted-full", "scan.tag-name": "t"},
    {"scan.creation-time-millis": "1"}, {"scan.version": "1"}, {"scan.mode": "sideways"}, {"scan.mode": "latest", "scan.watermark": "4"},
)):  # fmt: skip
    plain(f"start_{_at}", options=_options)

# ---- changing columns -------------------------------------------------------------------------------------------------------------------------------

keyed("add", lk.add_column("c", "INT"), lk.add_column("e", "STRING", first=True), lk.add_column("f", "ROW<x INT, y ROW<z INT>>", after="k", comment="parts"),
      lk.add_column("g", "DATE", before="d"), lk.add_column("h", "DATE", last=True), lk.add_column("i", "INT", default="7"))  # fmt: skip
keyed("add_wrong", lk.add_column("v", "INT"), lk.add_column("c", "INT NOT NULL"), lk.add_column("c", "INT", after="z"), lk.add_column("_LEVEL", "INT"),
      lk.add_column("_KEY_c", "INT"), lk.add_column("c", "INT", default="x"))  # fmt: skip
keyed("add_several", [lk.add_column("c", "INT"), lk.add_column("e", "INT", after="c"), lk.drop_column("v"), lk.add_column("v", "INT")])
keyed("add_drop_add", lk.add_column("c", "ROW<x INT>"), lk.drop_column("c"), lk.add_column("c", "ROW<x INT>"))
define(
    "add_before_partition", ROWS, lk.add_column("c", "INT"), lk.add_column("e", "INT", last=True), parts=["d"], options={"add-column-before-partition": "true"}
)
define("add_nested", NESTED, lk.add_column("r.z", "INT"), lk.add_column("a.element.z", "INT", first=True), lk.add_column("m.value.z", "ROW<q INT>", after="x"),
       lk.add_column("r.x", "INT"), lk.add_column("q.x", "INT"), lk.add_column("r.w", "INT", before="z"), lk.add_column("r.n", "INT NOT NULL"))  # fmt: skip
define("add_under_scalar", NESTED, lk.add_column("k.x", "INT"), differs={1: "refuses: the reference adds nothing, and says nothing"})
define("names_are_exact", ROWS, lk.add_column("K", "INT"), lk.drop_column("V"))
keyed("rename", lk.rename_column("v", "w"), lk.rename_column("k", "kk"), lk.rename_column("n", "d"), lk.rename_column("z", "y"), lk.rename_column("w", "w"))
keyed("names_that_are_none", lk.add_column(" ", "INT"), lk.add_column("q", "ROW<a INT, a INT>"), lk.rename_column("v", " "), lk.add_column("q", "ROW<a INT>"),
      lk.add_column("q.a", "INT"), lk.rename_column("q.a", " "))  # fmt: skip
define("rename_partition", ROWS, lk.rename_column("p", "q"), parts=["p"])
define(
    "rename_nested",
    NESTED,
    lk.rename_column("r.x", "z"),
    lk.rename_column("a.element.x", "z"),
    lk.rename_column("m.value.x", "y"),
    lk.rename_column("r.q", "y"),
)
define("rename_bucket_key", ROWS, lk.rename_column("k", "kk"), options={"bucket": "2", "bucket-key": "k,n"})
keyed("rename_sequence", lk.rename_column("n", "nn"), options={"sequence.field": "n,d"})
keyed("rename_aggregate", lk.rename_column("v", "vv"), options={
    "merge-engine": "aggregation", "fields.v.aggregate-function": "listagg", "fields.v.ignore-retract": "true", "fields.v.distinct": "true",
    "fields.v.list-agg-delimiter": ";", "fields.d.aggregate-function": "max",
})  # fmt: skip
keyed("rename_in_group", lk.rename_column("v", "w"), lk.rename_column("n", "nn"), options=_PARTIAL | {"fields.n,d.sequence-group": "v,p"})
define("rename_nested_key", {"k": "INT", "v": "ARRAY<ROW<id INT, x INT>>", "id": "INT"}, lk.rename_column("v", "w"), lk.rename_column("id", "no"), keys=["k"],
       options={"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "nested_update", "fields.v.nested-key": "id"},
       differs={2: "else: a nested key names fields of the nested rows, which keep their names"})  # fmt: skip
keyed("rename_rowkind", lk.rename_column("v", "w"), options={"rowkind.field": "v"}, differs={1: "takes: the option follows the column"})
keyed("rename_record_time", lk.rename_column("n", "nn"), options={"record-level.time-field": "n"}, differs={1: "takes: the option follows the column"})
plain("rename_indexed", lk.rename_column("v", "w"), options={"file-index.bloom-filter.columns": "v,k", "file-index.bloom-filter.v.fpp": "0.1"},
      differs={1: "else: the index follows the column"})  # fmt: skip
keyed("rename_two", [lk.rename_column("v", "w"), lk.rename_column("n", "v")])
keyed("drop", lk.drop_column("v"), lk.drop_column("k"), lk.drop_column("z"), [lk.drop_column("n"), lk.drop_column("d"), lk.drop_column("p")])
define("drop_partition", ROWS, lk.drop_column("p"), parts=["p"])
define("drop_all", {"a": "INT", "b": "INT"}, lk.drop_column("a"), lk.drop_column("b"))
define("drop_nested", NESTED, lk.drop_column("r.x"), lk.drop_column("r.y"), lk.drop_column("a.element.x"), lk.drop_column("m.value.y"), lk.drop_column("r.q"))
keyed("drop_named_by_option", lk.drop_column("n"), options={"sequence.field": "n"})
keyed("move", lk.move_column("p", first=True), lk.move_column("p", last=True), lk.move_column("v", after="d"), lk.move_column("v", before="k"),
      lk.move_column("k", after="p"), lk.move_column("n", before="p"))  # fmt: skip
keyed("move_wrong", lk.move_column("k", first=True), lk.move_column("p", last=True), lk.move_column("v", after="v"), lk.move_column("z", first=True),
      lk.move_column("v", after="z"))  # fmt: skip
keyed("comment", lk.update_comment("v", "hello"), lk.update_comment("v", None), lk.update_comment("z", "x"), lk.set_comment("a table"), lk.set_comment(None))
define("comment_nested", NESTED, lk.update_comment("r.x", "inner"), lk.update_comment("a.element.x", "inner"), lk.update_comment("m.value.y", "inner"))
keyed("default", lk.update_default("n", "5"), lk.update_default("n", None), lk.update_default("n", "x"), lk.update_default("d", "2024-02-30x"),
      lk.update_default("d", "2024-02-29"), lk.update_default("v", "anything"), lk.update_default("z", "1"))  # fmt: skip
define("nullability", {"k": "INT", "v": "STRING NOT NULL", "w": "INT"}, lk.update_nullability("v", nullable=True),
       lk.update_nullability("v", nullable=False), lk.update_nullability("k", nullable=True), lk.update_nullability("k", nullable=False),
       lk.update_nullability("z", nullable=True), keys=["k"])  # fmt: skip
define("nullability_allowed", {"k": "INT", "v": "STRING", "r": "ROW<x INT, y ARRAY<INT>>"}, lk.update_nullability("v", nullable=False),
       lk.update_nullability("r.x", nullable=False), lk.update_nullability("r.y.element", nullable=False), lk.update_type("k", "BIGINT NOT NULL"),
       options={"alter-column-null-to-not-null.disabled": "false"})  # fmt: skip
define("type", {"k": "INT", "v": "INT NOT NULL", "p": "INT", "n": ("INT", "said", "5")}, lk.update_type("v", "BIGINT"), lk.update_type("k", "BIGINT"),
       lk.update_type("p", "BIGINT"), lk.update_type("z", "BIGINT"), lk.update_type("n", "BIGINT"), lk.update_type("n", "STRING NOT NULL"),
       keys=["k", "p"], parts=["p"])  # fmt: skip
define("type_under_default", {"k": "INT", "n": ("STRING", None, "x"), "m": ("STRING", None, "5")}, lk.update_type("m", "INT"), lk.update_type("n", "INT"),
       differs={2: "refuses: as later releases do"})  # fmt: skip
define("type_nested", NESTED, lk.update_type("r.x", "BIGINT"), lk.update_type("a.element.x", "BIGINT"), lk.update_type("l.element", "BIGINT"),
       lk.update_type("g.value", "DOUBLE"), lk.update_type("m.value.x", "STRING"), lk.update_type("r", "STRING"), lk.update_type("l", "STRING"),
       lk.update_type("r.y", "ARRAY<INT>"))  # fmt: skip
define("type_explicit_only", {"k": "INT", "v": "BIGINT", "s": "STRING"}, lk.update_type("v", "INT"), lk.update_type("s", "INT"), lk.update_type("k", "DOUBLE"),
       options={"disable-explicit-type-casting": "true"})  # fmt: skip

# ---- changing options -------------------------------------------------------------------------------------------------------------------------------

keyed("set", lk.set_option("write-buffer-size", "8 mb"), lk.set_option("my.own", "x"), lk.reset_option("write-buffer-size"), lk.reset_option("not.there"))
keyed("set_invalid", lk.set_option("changelog-producer", "all"), lk.set_option("merge-engine", "none"), lk.set_option("fields.z.distinct", "true"),
      lk.set_option("snapshot.num-retained.min", "0"), lk.set_option("bucket", "0"))  # fmt: skip
for _key, _value in (
    ("aggregation.remove-record-on-delete", "true"), ("bucket-function.type", "mod"), ("bucket-key", "k"), ("data-file.path-directory", "data"),
    ("force-lookup", "true"), ("index-file-in-data-file-dir", "true"), ("merge-engine", "aggregation"), ("partial-update.remove-record-on-delete", "true"),
    ("partial-update.remove-record-on-sequence-group", "n"), ("rowkind.field", "v"), ("primary-key", "k"), ("partition", "p"), ("sequence.field", "n"),
    ("dynamic-bucket.initial-buckets", "4"), ("row-tracking.enabled", "true"),
):  # fmt: skip
    keyed(f"fixed_{_key}", lk.set_option(_key, _value), lk.reset_option(_key), snapshot=True,
          differs={} if _key in ("sequence.field", "dynamic-bucket.initial-buckets") else {2: "takes: there is nothing to reset"})  # fmt: skip
    keyed(f"free_{_key}", lk.set_option(_key, _value), lk.reset_option(_key))
keyed("fixed_but_equal", lk.set_option("merge-engine", "deduplicate"), options={"merge-engine": "deduplicate"}, snapshot=True,
      differs={1: "takes: nothing changes"})  # fmt: skip
keyed("kind_of_table", lk.set_option("type", "format-table"), snapshot=True, differs={1: "refuses: the files would mean nothing"})
keyed("kind_of_table_said", lk.set_option("type", "table"), lk.reset_option("type"), snapshot=True)
for _old in ("-1", "4"):
    keyed(f"buckets_of_{_old}", lk.set_option("bucket", "8"), lk.set_option("bucket", "-1"), lk.set_option("bucket", _old), lk.reset_option("bucket"),
          options={"bucket": _old}, snapshot=True, differs={2: "takes: nothing changes", 3: "takes: nothing changes"} if _old == "-1" else {})  # fmt: skip
    keyed(f"buckets_of_{_old}_without_data", lk.set_option("bucket", "8"), lk.set_option("bucket", "-1"), lk.reset_option("bucket"), options={"bucket": _old})
keyed("vectors_on", lk.set_option("deletion-vectors.enabled", "true"), lk.set_option("deletion-vectors.enabled", "false"),
      [lk.set_option("deletion-vectors.modifiable", "true"), lk.set_option("deletion-vectors.enabled", "true")],
      lk.set_option("deletion-vectors.modifiable", "true"),
      lk.set_option("deletion-vectors.enabled", "true"), lk.set_option("deletion-vectors.enabled", "false"), snapshot=True)  # fmt: skip
keyed("vectors_on_without_data", lk.set_option("deletion-vectors.enabled", "true"))
keyed("vectors_off", lk.set_option("deletion-vectors.enabled", "false"), lk.reset_option("deletion-vectors.enabled"),
      options={"deletion-vectors.enabled": "true"}, snapshot=True, differs={2: "refuses: that turns them off, which the same words refuse"})  # fmt: skip
for _key in ("ignore-delete", "ignore-update-before"):
    keyed(f"{_key}_off", lk.set_option(_key, "false"), lk.set_option(_key, "true"), lk.reset_option(_key), options={_key: "true"}, snapshot=True,
          differs={3: "refuses: that turns it off, which the same words refuse"})  # fmt: skip
    keyed(f"{_key}_on", lk.set_option(_key, "true"), snapshot=True)
keyed("path", lk.set_option("path", "elsewhere"), snapshot=True)
plain("keys_by_option_later", lk.set_option("primary-key", "k"))
plain("partition_by_option_later", lk.set_option("partition", "p"))
keyed("options_and_columns", [lk.set_option("sequence.field", "c"), lk.add_column("c", "INT")], [lk.drop_column("c"), lk.reset_option("sequence.field")])
keyed("all_or_none", [lk.add_column("c", "INT"), lk.drop_column("z")], lk.add_column("e", "INT"))

# ---- which types become which, which texts are defaults ---------------------------------------------------------------------------------------------------

TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(20, 5)", "CHAR(5)", "VARCHAR(5)", "STRING", "BINARY(5)",
    "VARBINARY(5)", "BYTES", "DATE", "TIME(0)", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE", "ARRAY<INT>", "MAP<INT, INT>", "MULTISET<INT>", "ROW<a INT>", "VARIANT",
)  # fmt: skip
TEXTS = (
    "5",
    "-1",
    "300",
    "1.5",
    "1e3",
    "true",
    "yes",
    "abc",
    "",
    "'7'",
    "'",
    "2024-01-31",
    "2024-13-01",
    "2024-01-31 10:00:00",
    "10:00:00",
    "[1]",
    "{a}",
    " 5 ",
    "null",
)


def matrices() -> Iterator[Case]:
    """A table for each type, changed to every other, with and without casts that may lose; and a table with a column of each type, given every default."""
    for explicit in ("true", "false"):
        for held in TYPES:
            fields = {f"c{at}": held for at in range(len(TYPES))}
            steps = tuple((schema_changes.UpdateType(path=(f"c{at}",), type=parse(want)),) for at, want in enumerate(TYPES))
            yield Case(name=f"cast {held} {explicit}", fields=fields, steps=steps, options={"disable-explicit-type-casting": explicit})
    for held in TYPES:
        yield Case(name=f"default {held}", fields={"c": held}, steps=tuple((lk.update_default("c", text),) for text in TEXTS))
