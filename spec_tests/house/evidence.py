"""What shows that a claimed feature is read: golden tables, by what they say of themselves and what they hold, and tests by name.

`golden()` maps the names of `lk.features()` to the cases that show them. A case shows a feature when its `features` name it (in the recipe's words), when an
option of its schema or of a recorded read has that key, or when a recorded read asks for that system table. Features that no golden table can show have
tests in `NAMED`.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lakekit.options.features import FEATURES, find_feature
from lakekit.testing.fixtures import fixtures

if TYPE_CHECKING:
    from pathlib import Path

SAME = {
    "file.format.mixed": "file.format.per-level",
    "hash-index": "file.hash-index",
    "data-file.thin-mode": "thin-mode",
    "scan.fallback-branch": "fallback-branch",
    "scan.snapshot-id": "read.snapshot",
    "scan.tag-name": "read.tag",
    "scan.timestamp-millis": "read.time",
    "scan.watermark": "read.watermark",
    "statistics": "file.statistics",
    "consumer": "file.consumer",
    "changelog.decoupled": "file.changelog",
    "schema.re-add-column": "evolution",
    "stats.truncate": "statistics.truncated",
    "incremental-between-tag-to-snapshot": "incremental.tags",
    "incremental-between-timestamp": "incremental.times",
    "incremental-to-auto-tag": "incremental.auto-tag",
    "branch": "file.branch",
    "partition.escape": "file.partition-path",
    "snapshot.expire": "expiration",
}
"""Words of recipes, and the feature they also stand for."""

OPTIONS = "golden/test_reading_options.py::"
FOLLOW = "doors/test_follow.py::"
SCENARIOS = "golden/test_scenarios.py::"
SPARK = "doors/spark/test_reads.py::"
NAMED = {
    "binary-row": "golden/test_codec_binary_row.py::test_a_row_is_these_bytes",
    "catalog.filesystem": "doors/test_catalog.py::test_a_table_by_name_is_the_table_by_path",
    "catalog.hive": "doors/test_catalog_hive.py::test_tables_are_listed_read_renamed_and_dropped",
    "catalog.views": "doors/test_catalog_kinds.py::test_a_temporary_view_lives_with_its_catalog",
    "catalog.sql": "doors/test_catalog_sql.py::test_queries",
    "catalog.jdbc": "doors/test_catalog_jdbc.py::test_what_stands_in_the_database",
    "conformance.drawn": "doors/test_conformance.py::test_a_drawn_mistake_shrinks_to_few_steps",
    "conformance.reader": "doors/test_conformance.py::test_another_reader_is_held_against_the_same_tables",
    "external-path": "laws/test_external_path.py::test_files_elsewhere_are_read",
    "file.commit-message": "golden/test_model_messages.py::test_commit_messages",
    "file.deletion-vectors": "golden/test_codec_index_files.py::test_the_deletion_files_of_the_reference",
    "format-table": "laws/test_folders.py::test_what_is_written_is_read",
    "file.index-manifest": "golden/test_manifests.py::test_recorded_index_manifest",
    "file.manifest": "golden/test_manifests.py::test_recorded_manifest",
    "file.manifest-list": "golden/test_manifests.py::test_recorded_manifest_list",
    "file.split": "golden/test_model_messages.py::test_splits",
    "file.writer-state": "doors/test_write_options.py::test_a_writer_goes_on_from_its_state",
    "file.tag": "golden/test_model_json.py::test_tags",
    "manifest.format.avro": "golden/test_manifests.py::test_every_metadata_file_of_a_table",
    "option.branch": OPTIONS + "test_a_branch_by_option",
    "option.consumer-id": FOLLOW + "test_a_consumer_goes_on_where_it_was",
    "option.consumer.ignore-progress": FOLLOW + "test_a_consumer_goes_on_where_it_was",
    "option.consumer.mode": FOLLOW + "test_a_consumer_goes_on_where_it_was",
    "option.continuous.discovery-interval": FOLLOW + "test_it_waits_and_looks_again",
    "option.data-file.external-paths": "laws/test_external_path.py::test_files_elsewhere_are_read",
    "option.deletion-vectors.merge-on-read": OPTIONS + "test_vectors_merged_on_read_show_what_waits_for_compaction",
    "option.field-delimiter": "laws/test_folders.py::test_files_elsewhere",
    "option.format-table.partition-path-only-value": "laws/test_folders.py::test_what_is_written_is_read",
    "option.file-index.read.enabled": OPTIONS + "test_file_indexes_spare_files_and_rows_unless_told_otherwise",
    "option.lakekit.allowed-locations": "reliability/test_locations.py::test_opening_works_and_the_caller_may_allow",
    "option.lakekit.java-time-zone": "golden/test_files_casts.py::test_casts_to_and_from_instants_use_the_zone_of_the_java_processes",
    "option.lakekit.merge-memory": OPTIONS + "test_merging_in_slices_changes_nothing",
    "option.lakekit.timestamp-unit": OPTIONS + "test_nanoseconds_can_be_left_out",
    "option.catalog-key": "doors/test_catalog_jdbc.py::test_catalogs_of_other_keys_do_not_meet",
    "option.jdbc.password": "doors/test_catalog_jdbc.py::test_secrets_are_in_no_text",
    "option.jdbc.user": "doors/test_catalog_jdbc.py::test_secrets_are_in_no_text",
    "option.metastore": "doors/test_catalog.py::test_other_metastores_are_refused_by_name",
    "option.num-sorted-run.compaction-trigger": OPTIONS + "test_the_level_of_ro_follows_the_number_of_levels",
    "option.scan.bounded.watermark": FOLLOW + "test_watermarks_end_a_stream",
    "option.scan.bucket": OPTIONS + "test_one_bucket_alone",
    "option.scan.ignore-corrupt-files": OPTIONS + "test_lost_and_torn_files_may_be_left_out",
    "option.scan.ignore-lost-files": OPTIONS + "test_lost_and_torn_files_may_be_left_out",
    "option.streaming-read-append-overwrite": FOLLOW + "test_overwrites_of_append_tables_are_told_where_they_are_asked_for",
    "option.streaming-read-overwrite": FOLLOW + "test_overwrites_are_told_where_they_are_asked_for",
    "option.streaming.read.snapshot.delay": FOLLOW + "test_young_snapshots_are_waited_for",
    "option.uri": "doors/test_catalog_jdbc.py::test_where_a_database_is",
    "option.warehouse": "doors/test_catalog.py::test_a_table_by_name_is_the_table_by_path",
    "option.scan.primary-branch": OPTIONS + "test_a_primary_branch_is_read_first",
    "prune.bucket": OPTIONS + "test_a_filter_spares_files",
    "prune.file-index": OPTIONS + "test_file_indexes_spare_files_and_rows_unless_told_otherwise",
    "prune.key": OPTIONS + "test_a_filter_spares_files",
    "prune.partition": OPTIONS + "test_a_filter_spares_files",
    "plan.statistics": "doors/test_estimate.py::test_rows_expected_are_near_those_there",
    "prune.value": OPTIONS + "test_a_filter_spares_files",
    "read.aggregate": "doors/test_aggregate.py::test_nothing_is_read_of_files_whose_index_says_it_all",
    "read.raw": OPTIONS + "test_raw_shows_every_stored_version",
    "materialized-table": "differential/test_materialized.py::test_its_rows_are_those_of_any_table",
    "read.streaming": FOLLOW + "test_a_state_and_then_what_comes",
    "scan.mode.latest-delta": OPTIONS + "test_latest_delta_is_what_the_newest_snapshot_added",
    "scenario.3": SCENARIOS + "test_scenario_3_deletes_are_ignored_those_of_older_files_too",
    "scenario.5": SCENARIOS + "test_scenario_5_an_older_sequence_arrives_later",
    "scenario.9": SCENARIOS + "test_scenario_9_a_lone_delete_is_absent_and_refused_once_it_meets_a_row",
    "scenario.10": SCENARIOS + "test_scenario_10_a_lone_row_without_its_sequence_keeps_its_group",
    "scenario.11": SCENARIOS + "test_scenario_11_a_delete_comes_first",
    "scenario.12": SCENARIOS + "test_scenario_12_first_row_drops_a_second_insert",
    "scenario.13": SCENARIOS + "test_scenario_13_input_changelogs_keep_every_row_of_a_flush",
    "scenario.14": SCENARIOS + "test_scenario_14_equal_values_leave_no_changelog",
    "scenario.22": SCENARIOS + "test_scenario_22_a_tag_of_an_expired_snapshot_is_read",
    "scenario.23": SCENARIOS + "test_scenario_23_there_is_nothing_before_the_first_snapshot",
    "scenario.24": SCENARIOS + "test_scenario_24_deltas_are_what_appends_added",
    "scenario.25": SCENARIOS + "test_scenario_25_filters_on_values_reach_only_files_whose_keys_do_not_recur",
    "scenario.26": SCENARIOS + "test_scenario_26_old_files_lack_the_column",
    "scenario.27": SCENARIOS + "test_scenario_27_an_update_shows_after_compaction_as_a_vector",
    "scenario.29": SCENARIOS + "test_scenario_29_a_key_moves_to_another_partition",
    "scenario.33": SCENARIOS + "test_scenario_33_the_files_table_names_partitions_and_has_all_levels",
    "scenario.34": SCENARIOS + "test_scenario_34_the_ro_table_waits_for_a_full_compaction",
    "scenario.35": SCENARIOS + "test_scenario_35_main_shows_the_branch_it_was_forwarded_to",
    "option.spark.read.native": SPARK + "test_files_without_a_merge_go_to_spark_and_may_not",
    "spark": "doors/spark/test_session.py::test_each_task_is_a_task_of_spark",
    "spark.sql": "doors/spark/test_sql.py::test_queries",
    "spark.changes": SPARK + "test_changes_of_a_key_table",
    "spark.read": "doors/spark/test_reads_golden.py::test_a_golden_table",
    "spark.source": "doors/spark/test_source.py::test_a_table_is_read_as_the_scan_reads_it",
    "statistics.dense": OPTIONS + "test_a_filter_spares_files",
    "storage.local": "laws/test_storage.py::test_laws",
    "storage.memory": "laws/test_storage.py::test_laws",
    "storage.object": "laws/test_object_storage.py::test_laws",
    "sys.all_table_options": "doors/test_catalog_changes.py::test_the_tables_of_sys",
    "sys.catalog_options": "doors/test_catalog_changes.py::test_options_of_the_catalog_are_shown_without_secrets",
    "sys.partitions": "doors/test_catalog_changes.py::test_the_tables_of_sys",
    "sys.tables": "doors/test_catalog_changes.py::test_the_tables_of_sys",
    "system.file_indexes": OPTIONS + "test_file_indexes_lists_the_heads_of_containers",
}
"""Features that no golden table shows by itself, and the test that does."""


@lru_cache(maxsize=1)
def golden() -> dict[str, list[str]]:
    """Feature -> golden tables that show it."""
    found: dict[str, list[str]] = {}
    root = fixtures()
    for path in [*sorted((root / "tables").glob("*.json")), root / "flights" / "flights.json"]:
        case = json.loads(path.read_text(encoding="utf-8"))
        for name in sorted(_shown(case, path.parent.parent / case["location"])):
            found.setdefault(name, []).append(path.stem)
    return found


def _shown(case: dict[str, Any], table: Path) -> set[str]:
    words = {word for said in case["features"] for word in _meant(said)}
    keys = {key for read in case["reads"] for key in read.get("options") or {}}
    for schema in table.rglob("schema/schema-*"):
        if (text := schema.read_text(encoding="utf-8")).endswith("}"):  # an untidy table has torn ones
            keys |= set(json.loads(text).get("options", {}))
    words |= {f"option.{general(key)}" for key in keys}
    words |= {f"system.{read['system']}" for read in case["reads"] if read.get("system")}
    if case["primary_keys"]:
        words |= {"table.key", "aggregate.primary-key"} if "merge-engine.aggregation" in words else {"table.key"}
    return {feature.name for word in words if (feature := find_feature(word))}


def _meant(said: str) -> set[str]:
    """The features that a recipe's word means: itself, its value, and what `SAME` adds."""
    words = {said, said.replace("=", "."), said.split("=", maxsplit=1)[0]}
    if ".aggregate-function=" in said:
        words.add(f"aggregate.{said.partition('=')[2]}")
    return words | {SAME[word] for word in words if word in SAME}


def general(key: str) -> str:
    """`fields.v.aggregate-function` as the list of options writes it."""
    for pattern, name in (
        (r"fields\.[^.]+,[^.]+\.sequence-group", "fields.<columns>.sequence-group"),
        (r"fields\.[^.]+\.sequence-group", "fields.<columns>.sequence-group"),
        (r"fields\.[^.]+\.([a-z-]+)", r"fields.<column>.\1"),
        (r"file-index\.[a-z-]+\.columns", "file-index.<type>.columns"),
        (r"file-index\.(?!read\.)(?!in-)[a-z-]+\..+\.[a-z-]+", "file-index.<type>.<column>.<option>"),
    ):
        if re.fullmatch(pattern, key):
            return re.sub(pattern, name, key)
    return key


def claimed() -> list[str]:
    """What lakekit says it reads."""
    return [name for name, feature in FEATURES.items() if feature.read == "yes"]
