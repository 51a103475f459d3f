"""What shows that a claimed feature is written: golden tables that are made again, by what they hold, and tests by name.

Some tests take what golden tables hold and make it with lakekit: compactions that the reference recorded, data files of their types and formats, the buckets
of their rows, and every version of a row written anew. Those cases show the features of `AGAIN` that they hold (`evidence.golden`). Everything else has
tests in `NAMED`; of an option, the test's file, or one that it imports, says its key.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from lakekit.options.features import FEATURES
from spec_tests.doors.test_write_options import WRITTEN_AGAIN
from spec_tests.house.evidence import golden
from spec_tests.laws.test_compact import compacted_tables, key_tables
from spec_tests.laws.test_route import FIXED
from spec_tests.roundtrip import test_write_files_golden as files

TESTS = Path(__file__).parents[1]
MERGING = """
    merge-engine.* aggregate.* sequence.field sequence-group ignore-delete option.merge-engine option.ignore-delete option.sequence.field
    option.sequence.field.sort-order option.fields.<column* option.fields.default-aggregate-function option.aggregation.* option.partial-update.*
"""
AGAIN = {
    "laws/test_compact.py::test_every_recorded_compaction_makes_the_rows_the_reference_made": (
        compacted_tables,
        MERGING + "changelog-producer.* option.changelog-producer* deletion-vectors.* option.deletion-vectors.enabled option.deletion-vectors.bitmap64 "
        "option.force-lookup",
    ),
    "laws/test_compact.py::test_a_full_compaction_reads_as_before": (key_tables, "option.sequence.snapshot-ordering"),
    "laws/test_route.py::test_rows_of_golden_tables_are_sent_where_they_lie": (
        lambda: FIXED,
        "bucket-function.* option.bucket-function.type option.bucket-key",
    ),
    "doors/test_write_options.py::test_versions_written_in_one_commit_are_merged_as_the_reference_merged_them": (lambda: WRITTEN_AGAIN, MERGING),
    "roundtrip/test_write_files_golden.py::test_facts": (
        lambda: [*files.CASES, *files.MORE],
        "type.* file-index.b* file-index.r*",
    ),
    "roundtrip/test_write_files_golden.py::test_columns": (
        lambda: files.CASES,
        "type.* file.format.avro file.format.orc file.format.parquet option.file.format",
    ),
}
"""Test -> the cases it takes, and the features that making them again shows."""

NAMED = {
    # ---- doors
    "doors/test_catalog_changes.py::test_a_table_gets_another_name": "catalog.filesystem",
    "doors/test_catalog_hive.py::test_what_stands_in_an_entry": "catalog.hive",
    "doors/test_catalog_jdbc.py::test_what_stands_in_the_database": "catalog.jdbc",
    "doors/test_catalog_jdbc.py::test_claims_are_made_under_the_lock": "option.lock.enabled",
    "doors/test_catalog_jdbc.py::test_other_locks_are_refused_by_name": "option.lock.type",
    "doors/test_catalog_jdbc.py::test_catalogs_of_other_keys_do_not_meet": "option.catalog-key",
    "doors/test_catalog_jdbc.py::test_secrets_are_in_no_text": "option.jdbc.user option.jdbc.password option.uri",
    "doors/test_folder_tables.py::test_an_object_table_is_what_was_listed": "object-table option.object-location procedure.refresh_object_table",
    "doors/spark/test_care.py::test_snapshots_expired_by_spark_are_those_expired_here": "spark.care",
    "doors/spark/test_compaction.py::test_tables_compacted_by_spark_are_those_compacted_here": "spark.compact",
    "doors/spark/test_pipeline.py::test_a_run_ends_with_the_totals_of_the_files": "spark.pipeline",
    "doors/spark/test_ingestion.py::test_two_tables_from_one_source_that_grow": "spark.pipeline.ingestion",
    "doors/spark/test_source.py::test_rows_are_appended_and_replaced": "spark.source",
    "doors/spark/test_statements.py::test_statements_of_spark_are_those_made_here": "spark.change",
    "doors/spark/test_merge.py::test_a_merge_of_spark_is_the_one_made_here": "spark.change",
    "doors/test_catalog_kinds.py::test_a_database_of_names_keeps_views": "catalog.views",
    "doors/test_catalog_sql.py::test_rows_change": "catalog.sql",
    "doors/spark/test_sql.py::test_a_table_from_its_beginning_to_its_end": "spark.sql",
    "doors/spark/test_write.py::test_rows_written_by_spark_are_those_written_here": "spark.write",
    "laws/test_folders.py::test_what_is_written_is_read": "format-table option.format-table.partition-path-only-value",
    "laws/test_folders.py::test_files_elsewhere": "option.field-delimiter",
    "doors/test_folder_tables.py::test_a_catalog_may_be_told_to_make_no_format_tables": "option.format-table.enabled",
    "laws/test_folders.py::test_text_has_one_column": "option.format-table.file.compression",
    "doors/test_write_options.py::test_commit_users_have_their_prefix": "option.commit.user-prefix",
    "doors/test_write_options.py::test_manifests_are_compressed_as_they_should": "option.manifest.compression",
    "doors/test_write_options.py::test_manifests_have_their_format": "option.manifest.format manifest.format.avro manifest.format.orc manifest.format.parquet",
    "doors/test_write_options.py::test_manifests_are_merged": """
        option.manifest.merge-min-count option.manifest.target-file-size option.manifest.full-compaction-threshold-size
    """,
    "doors/test_write_options.py::test_statistics_of_files_that_go_may_be_left_out": "option.manifest.delete-file-drop-stats",
    "doors/test_write_options.py::test_overwrites_may_replace_everything": "write.overwrite option.dynamic-partition-overwrite",
    "doors/test_write_options.py::test_partitions_are_dropped": "procedure.drop_partition",
    "doors/test_write_options.py::test_files_are_smaller_at_a_higher_level_of_zstd": "option.file.compression.zstd-level",
    "doors/test_write_options.py::test_row_groups_have_their_size_and_columns_their_dictionaries": "option.file.block-size option.parquet.enable.dictionary",
    "doors/test_write_options.py::test_files_of_one_scheme_go_to_the_roots_of_that_scheme": """
        option.data-file.external-paths.specific-fs option.data-file.external-paths.strategy
    """,
    "doors/test_write_options.py::test_directories_of_partitions_and_files": """
        partition file.partition-path option.partition.default-name option.partition.legacy-name option.data-file.path-directory
    """,
    "doors/test_write_options.py::test_index_files_may_lie_beside_data_files": "option.index-file-in-data-file-dir",
    "doors/test_write_options.py::test_which_commits_wait_for_compactions": """
        option.commit.force-compact option.lookup-wait option.full-compaction.delta-commits option.num-sorted-run.compaction-trigger option.write-only
    """,
    "doors/test_write_options.py::test_a_writer_waits_when_too_many_runs_have_gathered": "option.num-sorted-run.stop-trigger",
    "doors/test_write_options.py::test_files_below_a_share_of_the_target_are_small": "option.compaction.small-file-ratio",
    "doors/test_write_options.py::test_buffers_that_are_full_become_files_or_are_spilled": """
        option.write-buffer-size option.write-buffer-spillable option.write-buffer-spill.max-disk-size
    """,
    "doors/test_write_options.py::test_a_writer_goes_on_from_its_state": "file.writer-state",
    "doors/test_write_options.py::test_postponed_rows_get_as_many_buckets_as_they_ask_for": """
        option.postpone.target-row-num-per-bucket option.postpone.target-size-per-bucket
    """,
    "doors/test_write_options.py::test_deletes_of_whole_partitions_may_be_told_row_by_row": "option.delete.force-produce-changelog",
    "doors/test_compact.py::test_rows_stay_and_files_move_to_the_highest_level": "compaction procedure.compact",
    "doors/test_compact.py::test_postponed_rows_find_their_buckets": "bucket.postpone option.postpone.default-bucket-num",
    "doors/test_compact.py::test_partitions_whose_time_is_over_are_left_out_where_the_option_says": "option.compaction.skip-expired-partitions",
    "laws/test_route.py::test_partitions_that_must_say_a_time": "option.partition.timestamp-format.strict",
    "doors/test_compact.py::test_rows_stay_in_other_buckets": "procedure.rescale",
    "doors/test_catalog_compact.py::test_all_of_them": "procedure.compact_database",
    "doors/test_catalog_clone.py::test_the_copy_is_whole_and_stands_alone": "procedure.clone",
    "doors/test_migrate.py::test_a_folder_becomes_a_table": "procedure.migrate_table",
    "doors/test_catalog_repair.py::test_everything_that_lies_there_is_known_afterwards": "procedure.repair",
    "laws/test_compact_manifests.py::test_many_manifests_become_one": "procedure.compact_manifest",
    "doors/test_rewrite_file_index.py::test_indexes_are_made_and_dropped_and_no_row_moves": "procedure.rewrite_file_index",
    "doors/test_repair.py::test_behind_a_gap": "procedure.repair_earliest_snapshot",
    "doors/test_orphans.py::test_scenario_36_nothing_young_goes_right_after_a_failed_commit": "scenario.36",
    "doors/test_orphans.py::test_a_dry_run_tells_and_the_other_removes": "procedure.remove_orphan_files",
    "doors/test_compact.py::test_small_files_of_an_append_table": "table.append bucket.unaware write.append",
    # ---- files
    "doors/test_write_options.py::test_keys_and_statistics_may_be_left_out": "thin-mode option.data-file.thin-mode option.metadata.stats-dense-store",
    "roundtrip/test_write_files.py::test_rows_come_back_and_bounds_hold": "option.metadata.stats-mode statistics.dense",
    "roundtrip/test_write_files.py::test_bounds_of_texts_are_cut_and_raised_and_bytes_have_none": "statistics.truncated",
    "roundtrip/test_write_files.py::test_modes_by_column_level_position_and_kind": """
        option.fields.<column>.stats-mode option.metadata.stats-keep-first-n-columns option.metadata.stats-mode.per.level option.changelog-file.stats-mode
    """,
    "roundtrip/test_write_files.py::test_formats_and_codecs_by_level_and_kind": """
        file.format.per-level option.file.format.per.level option.file.compression.per.level option.changelog-file.format option.changelog-file.compression
        option.changelog-file.prefix option.data-file.prefix option.file.suffix.include.compression
    """,
    "roundtrip/test_write_files.py::test_refused_by_name": "option.file.compression",
    "roundtrip/test_write_files.py::test_files_roll_at_their_size": "option.target-file-size option.target-file-row-num",
    "roundtrip/test_write_files.py::test_file_indexes": """
        file-index.embedded option.file-index.<type>.columns option.file-index.<type>.<column>.<option> option.file-index.in-manifest-threshold
    """,
    "roundtrip/test_write_files.py::test_external_paths_in_turn": "external-path option.data-file.external-paths",
    "roundtrip/test_codec_binary_row.py::test_rows_come_back_and_columns_give_the_same_bytes": "binary-row",
    "doors/test_conformance.py::test_a_writer_that_loses_a_step_fails_by_name": "conformance.writer",
    "doors/test_conformance.py::test_lakekit_reads_and_writes_what_is_drawn": "conformance.drawn",
    # ---- metadata
    "golden/test_model_json.py::test_what_an_engine_wrote_is_written_again": "file.schema file.snapshot",
    "golden/test_model_json.py::test_hints": "file.hint",
    "golden/test_model_json.py::test_tags": "file.tag",
    "golden/test_model_json.py::test_consumers": "file.consumer",
    "golden/test_model_json.py::test_statistics": "file.statistics",
    "golden/test_manifests.py::test_recorded_manifest": "file.manifest",
    "golden/test_manifests.py::test_recorded_manifest_list": "file.manifest-list",
    "golden/test_manifests.py::test_recorded_index_manifest": "file.index-manifest",
    "golden/test_codec_index_files.py::test_a_deletion_vector_is_these_bytes": "file.deletion-vectors",
    "golden/test_codec_index_files.py::test_hash_index_files": "file.hash-index",
    "golden/test_model_messages.py::test_commit_messages": "file.commit-message",
    "golden/test_model_messages.py::test_splits": "file.split",
    "roundtrip/test_model_json.py::test_snapshots": "file.changelog",
    # ---- rows on their way
    "laws/test_bucket_writer.py::test_a_table_is_a_dict_whatever_its_mode": "table.key write.upsert",
    "laws/test_bucket_writers.py::test_rows_are_merged_before_they_find_their_bucket": "option.local-merge-buffer-size",
    "laws/test_conform_kinds.py::test_kinds_that_are_dropped": "option.ignore-update-before",
    "laws/test_conform_kinds.py::test_the_kind_in_a_column_of_the_table": "rowkind.field option.rowkind.field",
    "laws/test_route.py::test_rows_of_golden_tables_are_sent_where_they_lie": "bucket.fixed",
    "laws/test_route.py::test_split_is_a_stable_grouping": "option.bucket option.bucket-key",
    "laws/test_dynamic_buckets.py::test_every_key_goes_where_the_rule_says": "bucket.dynamic",
    "laws/test_dynamic_buckets.py::test_options": """
        option.dynamic-bucket.assigner-parallelism option.dynamic-bucket.initial-buckets option.dynamic-bucket.max-buckets option.dynamic-bucket.target-row-num
    """,
    "laws/test_cross_partition.py::test_every_row_goes_where_the_rule_says": "bucket.cross-partition",
    "laws/test_cross_partition.py::test_keys_are_forgotten_after_their_time": "option.cross-partition-upsert.index-ttl",
    # ---- compaction
    "laws/test_universal.py::test_there_are_as_many_levels_as_the_option_says_or_the_files_need": "option.num-levels",
    "laws/test_universal.py::test_size_amplification_wants_the_trigger_and_more_than_its_percentage": "option.compaction.max-size-amplification-percent",
    "laws/test_universal.py::test_size_ratio_takes_runs_until_one_is_too_big": "option.compaction.size-ratio",
    "laws/test_universal.py::test_early_full_compaction": """
        option.compaction.optimization-interval option.compaction.total-size-threshold option.compaction.incremental-size-threshold
    """,
    "laws/test_universal.py::test_off_peak_hours_allow_bigger_runs": """
        option.compaction.offpeak-ratio option.compaction.offpeak.start.hour option.compaction.offpeak.end.hour
    """,
    "laws/test_universal.py::test_level_0_is_forced_up_with_the_runs_that_are_not_much_bigger": "option.compaction.force-up-level-0",
    "laws/test_universal.py::test_radical_lookup_takes_level_0_every_time_and_gentle_waits": "option.lookup-compact option.lookup-compact.max-interval",
    "laws/test_compact_rules.py::test_everything_is_rewritten_where_the_options_say_so": "option.compaction.force-rewrite-all-files",
    "laws/test_compact_rules.py::test_rows_whose_time_has_come_are_left_out": "option.record-level.expire-time option.record-level.time-field",
    "laws/test_append_compact.py::test_a_file_is_worth_it_when_it_is_small_or_has_lost_many_rows": "option.compaction.delete-ratio-threshold",
    "laws/test_append_compact.py::test_files_are_packed_from_the_smallest_on": "option.source.split.open-file-cost option.compaction.min.file-num",
    # ---- commits
    "laws/test_commit.py::test_a_commit_that_is_there_is_told_again": "write.commit",
    "laws/test_commit.py::test_lost_races_end": "option.commit.max-retries option.commit.min-retry-wait option.commit.max-retry-wait option.commit.timeout",
    "laws/test_commit.py::test_strict_mode_refuses_what_overwrote_the_same_partition": "option.commit.strict-mode.last-safe-snapshot",
    "laws/test_commit.py::test_files_that_are_live_already_are_left_out_where_asked": "option.commit.discard-duplicate-files",
    "laws/test_commit.py::test_nothing_is_no_snapshot_unless_a_stream_counts_it": "option.snapshot.ignore-empty-commit",
    "laws/test_commit.py::test_an_overwrite_takes_index_files_along_and_raises_what_shares_no_keys": "option.overwrite-upgrade",
    "laws/test_sort_compact.py::test_rows_stay_and_stand_in_order": "compaction.sort",
    "laws/test_null_keys.py::test_a_table_is_a_dict": "option.primary-key.nullable",
    "doors/test_write_options.py::test_a_batch_of_postponed_rows_finds_its_buckets_at_once_where_the_table_says_so": "option.postpone.batch-write-fixed-bucket",
    "laws/test_sort_keys.py::test_rows_stay_and_buckets_follow_the_order": "compaction.sort.key",
    "laws/test_clustering.py::test_runs_that_are_due_are_sorted_into_a_higher_level": "option.clustering.columns option.clustering.incremental",
    "laws/test_clustering.py::test_strategies": "option.clustering.strategy",
    "laws/test_clustering.py::test_local_sort_sorts_each_file_as_memory_allows": "option.clustering.incremental.mode",
    "laws/test_clustering.py::test_partitions_that_rest_are_sorted_as_a_whole": """
        option.clustering.history-partition.idle-to-full-sort option.clustering.history-partition.limit
    """,
    "laws/test_clustering.py::test_incremental_tables_are_sorted_at_once_where_asked": "option.clustering.incremental.optimize-write",
    "laws/test_sort_compact.py::test_texts_are_part_of_a_key_as_far_as_the_option_says": "option.zorder.var-length-contribution",
    # ---- care
    "laws/test_care_histories.py::test_what_is_there_is_what_is_needed": """
        tag branch file.branch expiration procedure.create_tag procedure.replace_tag procedure.rename_tag procedure.delete_tag procedure.create_branch
        procedure.delete_branch procedure.fast_forward procedure.rollback procedure.rollback_to
    """,
    "laws/test_care_after_commits.py::test_automatic_tags_are_those_of_the_last_period": """
        option.tag.automatic-creation option.tag.creation-delay option.tag.automatic-completion option.tag.creation-period option.tag.period-formatter
        option.tag.creation-period-duration option.tag.num-retained-max option.sink.process-time-zone
    """,
    "laws/test_care_after_commits.py::test_a_batch_moves_its_tag": "option.tag.batch.customized-name option.tag.create-success-file",
    "laws/test_care_after_commits.py::test_snapshots_expire_after_commits": """
        procedure.expire_snapshots option.snapshot.num-retained.min option.snapshot.num-retained.max
    """,
    "laws/test_care_after_commits.py::test_changelogs_live_longer_and_then_expire_after_commits": """
        procedure.expire_changelogs option.changelog.num-retained.min option.changelog.num-retained.max
    """,
    "laws/test_care_after_commits.py::test_how_long_things_stay_is_said_by_options": """
        option.snapshot.time-retained option.snapshot.expire.limit option.tag.time-expire-enabled option.changelog.time-retained
        option.consumer.expiration-time
    """,
    "laws/test_care_after_commits.py::test_consumers_keep_what_they_have_not_read": """
        scenario.21 option.consumer.changelog-only procedure.reset_consumer procedure.clear_consumers
    """,
    "laws/test_care_after_commits.py::test_empty_directories_go_where_the_option_says": "option.snapshot.clean-empty-directories",
    "laws/test_partitions_aged.py::test_partitions_expire_by_value_and_by_time": "procedure.expire_partitions",
    "laws/test_partitions_aged.py::test_partitions_expire_after_commits_once_in_an_interval": """
        option.partition.expiration-time option.partition.expiration-check-interval option.partition.expiration-batch-size
        option.end-input.check-partition-expire
    """,
    "laws/test_partitions_aged.py::test_partitions_are_said_to_be_complete": "procedure.mark_partition_done option.partition.mark-done-action",
    "laws/test_partitions_aged.py::test_the_partitions_of_a_batch_are_complete_at_its_end": "option.partition.end-input-to-done",
    "doors/test_done_report.py::test_a_web_service_is_told": """
        option.partition.mark-done-action.http.url option.partition.mark-done-action.http.params
    """,
    "laws/test_care_after_commits.py::test_tags_live_as_long_as_they_are_told": "procedure.expire_tags option.tag.default-time-retained",
    "laws/test_care_after_commits.py::test_rollback_goes_to_a_snapshot_a_tag_or_a_time": "procedure.rollback_to_timestamp",
    "laws/test_tag_sources.py::test_a_tag_is_of_the_first_snapshot_since_a_time": "procedure.create_tag_from_timestamp",
    "laws/test_tag_sources.py::test_a_tag_is_of_the_first_snapshot_that_is_as_far": "procedure.create_tag_from_watermark",
    "laws/test_tag_sources.py::test_back_to_a_watermark": "procedure.rollback_to_watermark",
    "laws/test_tag_sources.py::test_automatic_tags_are_made_when_asked": "procedure.trigger_tag_automatic_creation",
    "laws/test_care_after_commits.py::test_a_table_with_a_fallback_branch_is_written_to": "fallback-branch",
    "laws/test_care_after_commits.py::test_scenario_20_a_tag_keeps_the_files_of_its_snapshot_until_it_goes": "scenario.20",
    "laws/test_care_after_commits.py::test_scenario_35_main_goes_forward_to_a_branch": "scenario.35",
    "differential/test_materialized.py::test_its_rows_are_those_of_any_table": "materialized-table",
    "differential/test_care.py::test_automatic_tags_are_the_same": "option.sink.watermark-time-zone",
    "differential/test_care.py::test_the_same_partitions_expire": """
        option.partition.expiration-max-num option.partition.expiration-strategy option.partition.timestamp-formatter option.partition.timestamp-pattern
    """,
    "reliability/test_care_crashes.py::test_chores_that_are_stopped_lose_nothing": "procedure.rename_branch",
    # ---- changes
    "laws/test_row_changes.py::test_every_table": "write.delete procedure.merge_into scenario.30",
    "laws/test_row_changes.py::test_vectors_roll_into_files_of_their_size": "option.deletion-vector.index-file.target-size",
    "laws/test_row_changes.py::test_refused": "scenario.31",
    "laws/test_alter.py::test_rows_read_as_if_they_had_been_changed": "evolution",
    "laws/test_alter.py::test_the_schemas_of_the_reference": "procedure.alter_column_default_value",
    "golden/test_create_as_reference.py::test_definition": """
        write.schema option.add-column-before-partition option.alter-column-null-to-not-null.disabled option.bucket-append-ordered
        option.deletion-vectors.modifiable option.disable-explicit-type-casting option.partition option.path option.primary-key
    """,
    "golden/test_create.py::test_tables_that_lakekit_could_not_read": "option.type",
    "laws/test_storage.py::test_laws": "storage.local storage.memory",
    "laws/test_object_storage.py::test_laws": "storage.object",
    # ---- scenarios
    **{
        f"differential/test_write_scenarios.py::test_scenario_{number}_{words}": f"scenario.{number}"
        for number, words in (
            (1, "a_default_does_not_rescue_a_column_that_is_not_null"),
            (2, "a_default_replaces_null"),
            (3, "an_ignored_delete_takes_no_sequence_number"),
            (4, "one_flush_keeps_one_row_a_key"),
            (5, "an_older_sequence_arrives_later"),
            (7, "large_files_that_do_not_overlap_are_only_lifted"),
            (8, "a_file_of_nothing_but_deletes_disappears"),
            (9, "a_lone_delete_is_absent_and_refused_once_it_meets_a_row"),
            (10, "a_lone_row_without_its_sequence_keeps_its_group"),
            (11, "a_delete_comes_first"),
            (12, "first_row_drops_a_second_insert"),
            (13, "input_changelogs_keep_every_row_of_a_flush"),
            (14, "equal_values_leave_no_changelog"),
            (28, "dynamic_buckets_fill_up"),
            (29, "a_key_moves_to_another_partition"),
            (32, "a_partition_keeps_its_number_of_buckets"),
        )
    },
    "differential/test_write_scenarios.py::test_scenarios_18_and_19_overwriting_with_no_rows": "scenario.18 scenario.19",
    "laws/test_universal.py::test_forty_flushes_compact_as_traced": "scenario.6",
    "laws/test_commit.py::test_a_lost_race_is_run_again_on_the_new_snapshot": "scenario.15",
    "laws/test_commit.py::test_two_compactions_of_one_file_do_not_both_win": "scenario.16",
    "laws/test_commit.py::test_a_compaction_that_was_cut_off_is_done_or_given_up": "scenario.17",
}
"""Test -> the features it shows."""

REFUSED = {
    "row-tracking": "laws/test_commit.py::test_tables_with_row_ids_are_refused",
    "storage.rename": "doors/test_object_store.py::test_a_catalog_in_a_store_makes_and_drops_and_renames_nothing",
    "storage.conditional-put": "laws/test_object_storage.py::test_a_store_that_breaks_its_word_is_refused_for_claims_and_reads_on",
}
"""What is read and refused when it is written to, and the test that says so."""


def shown() -> dict[str, list[str]]:
    """Feature -> the tests that show that it is written."""
    found: dict[str, list[str]] = {}
    for place, features in NAMED.items():
        for name in features.split():
            found.setdefault(name, []).append(place)
    cases = golden()
    for place, (taken, patterns) in AGAIN.items():
        held = set(taken())
        for name in FEATURES:
            if any(fnmatchcase(name, pattern) for pattern in patterns.split()) and held & set(cases.get(name, ())):
                found.setdefault(name, []).append(place)
    return found


def source_of(place: str) -> str:
    """The text of a test's file, and of what it imports of the tests."""
    text = (TESTS / place.partition("::")[0]).read_text(encoding="utf-8")
    names = re.findall(r"^from spec_tests\.([a-z_.]+) import", text, re.MULTILINE)
    return text + "".join(
        (TESTS / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8") for name in names if (TESTS / f"{name.replace('.', '/')}.py").exists()
    )


def claimed() -> list[str]:
    """What lakekit says it writes."""
    return [name for name, feature in FEATURES.items() if feature.write == "yes"]
