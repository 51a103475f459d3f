"""Definitions of all options: one field for each, which is parser, default and documentation at once.

An option is added here, by a line. `table_options` reads them from the texts of a schema file.

Source: ENGINE.md 12, ENGINE_1.4.2.md B, `CoreOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.options.option import (
    INFINITE_SIZE,
    Option,
    choice,
    declared_options,
    duration,
    flag,
    integer,
    levels,
    long,
    names,
    number,
    size,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

INT_MAX = 2**31 - 1
_MEBIBYTE = 1 << 20
SCAN_MODES = (
    "default latest-full full latest latest-delta compacted-full from-timestamp from-creation-timestamp "
    "from-file-creation-time from-snapshot from-snapshot-full incremental"
)
TARGET_FILE_SIZE_BYTES = {"key": 128 * _MEBIBYTE, "append": 256 * _MEBIBYTE}

# Keys of the reference that lakekit does not use: known, so that they may be given.
IGNORED_KEYS = frozenset(
    """
    auto-create batch-scan-mode blob-as-descriptor blob-compaction.enabled blob-descriptor.source-table
    blob-external-storage-field
    blob-external-storage-path blob-view.resolve.enabled blob-write-null-on-fetch-failure
    blob-write-null-on-missing-file blob.copy-buffer-size
    blob.split-by-file-size blob.target-file-size cache-page-size chain-table.chain-partition-keys
    chain-table.split.key-range-enabled
    chain-table.streaming.merge-snapshot changelog-producer.compaction-interval
    commit.callback.#.param commit.callbacks
    data-evolution.compaction.rewrite-row-ids data-evolution.merge-into.file-pruning
    data-evolution.merge-into.source-persist data-evolution.reassign.skip-contiguous-row-count
    data-evolution.row-id-conflict-rewrite.max-size
    data-evolution.row-sidecar.enabled data-evolution.row-sidecar.max-selected-rows
    data-evolution.row-sidecar.max-selection-ratio
    data-file.external-paths.weights file-operation.thread-num file-reader-async-threshold
    format-table.commit-hive-sync-url
    format-table.scan.list-parallelism full-text-index.search-mode global-index.build.max-parallelism
    global-index.build.max-shard
    global-index.column-update-action global-index.external-path global-index.row-count-per-shard
    global-index.search-mode global-index.thread-num
    local-kv-db.block-size lookup.blob-as-descriptor lookup.cache.high-priority-pool-ratio
    lookup.continuous.discovery-interval
    lookup.remote-file.enabled lookup.remote-file.level-threshold manifest-sort.enabled manifest-sort.max-rewrite-size
    manifest-sort.partition-field
    manifest.merge-optimize.enabled metastore.tag-to-partition.preview partition.idle-time-to-report-statistic
    partition.mark-done-action.custom.class
    pk-bitmap.index.columns pk-btree.index.columns
    pk-full-text.index.columns pk-multivalue.index.columns pk-vector.index.columns precommit-compact
    row-tracking.partition-group-on-commit
    scalar-index.search-mode scan.max-splits-per-task sort-compaction.local-sample.magnification
    sort-compaction.range-strategy stream-scan-mode
    tag.callback.#.param tag.callbacks upsert-key variant.inferShreddingSchema
    variant.shredding.adaptive.maxInferBufferRow
    variant.shredding.adaptive.retentionRatio variant.shredding.inferenceMode variant.shredding.maxInferBufferRow
    variant.shredding.maxSchemaDepth
    variant.shredding.maxSchemaWidth variant.shredding.minFieldCardinalityRatio vector-index.search-mode
    vector-search.distribute.enabled
    vector-search.lateral-join.batch-size vector.file.format vector.target-file-size visibility-callback.check-interval
    visibility-callback.enabled
    visibility-callback.timeout metadata.iceberg.storage
    metadata.iceberg.compaction.max.file-num metadata.iceberg.compaction.min.file-num metadata.iceberg.database
    metadata.iceberg.delete-after-commit.enabled metadata.iceberg.format-version metadata.iceberg.glue.skip-archive
    metadata.iceberg.hadoop-conf-dir metadata.iceberg.hive-client-class metadata.iceberg.hive-conf-dir
    metadata.iceberg.hive-skip-update-stats
    metadata.iceberg.manifest-compression metadata.iceberg.manifest-legacy-version
    metadata.iceberg.previous-versions-max
    metadata.iceberg.storage-location metadata.iceberg.table metadata.iceberg.uri
    """.split()  # noqa: SIM905 - a hundred words
)


# An option is one or two lines.
# fmt: off


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOptions:
    """The options of one column, `fields.<column>.<option>`."""

    aggregate_function: str | None = text("aggregate-function", None, "Function that merges the column.")
    ignore_retract: bool = flag("ignore-retract", False, "The column keeps its value when a row is taken back.")
    distinct: bool = flag("distinct", False, "collect, listagg: equal elements are kept once.")
    list_agg_delimiter: str = text("list-agg-delimiter", ",", "listagg: what stands between two values.")
    nested_key: tuple[str, ...] = names("nested-key", "nested_update: fields that identify a nested row.")
    nested_key_null_strategy: str = text("nested-key-null-strategy", "merge",
        "nested_update: what becomes of nested rows whose key is null.")
    nested_sequence_field: tuple[str, ...] = names("nested-sequence-field",
        "nested_update: fields that say which nested row is newer.")
    count_limit: int = integer("count-limit", INT_MAX, "nested_update: most nested rows.")
    stats_mode: str | None = text("stats-mode", None,
        "Statistics of the column in data files: none, counts, truncate(n) or full.")
    ts_field: str | None = text("ts-field", None,
        "merge_map_with_keytime: field of the value that holds its time; else the last.")


FIELD_OPTIONS: dict[str, Option] = declared_options(FieldOptions)
SEQUENCE_GROUP = "sequence-group"
NO_FIELD_OPTIONS = FieldOptions()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DeclaredOptions:
    """Every option of a table, typed, named after its key."""

    add_column_before_partition: bool = flag("add-column-before-partition", False,
        "New columns without position go before the first partition column.")
    aggregation_remove_record_on_delete: bool = flag("aggregation.remove-record-on-delete", False,
        "aggregation: -D deletes the row.", fixed=True)
    alter_column_null_to_not_null_disabled: bool = flag("alter-column-null-to-not-null.disabled", True,
        "Forbid nullable -> NOT NULL changes.")
    async_file_write: bool = flag("async-file-write", True, "Write files on a background thread.")
    blob_descriptor_field: tuple[str, ...] = names(
        "blob-descriptor-field", "Columns stored as inline blob descriptors.", "blob.stored-descriptor-fields",
        fixed=True
    )
    blob_field: tuple[str, ...] = names("blob-field", "Columns handled as BLOB.", fixed=True)
    blob_view_field: tuple[str, ...] = names("blob-view-field", "Columns stored as references into other tables.",
        fixed=True)
    bucket: int = integer("bucket", -1,
        "Buckets in a partition; -1: as many as the rows ask for, or none in append tables; -2: postponed.")
    bucket_append_ordered: bool = flag("bucket-append-ordered", True, "Keep arrival order inside append buckets.")
    bucket_function_type: str = choice("bucket-function.type", "default", "How a bucket follows from the bucket key.",
        "default mod hive", fixed=True)
    bucket_key: str | None = text("bucket-key", None, "Columns that choose the bucket.", fixed=True)
    chain_table_enabled: bool = flag("chain-table.enabled", False, "Chain table mode.")
    changelog_file_compression: str | None = text("changelog-file.compression", None, "Codec of changelog files.")
    changelog_file_format: str | None = text("changelog-file.format", None, "Format of changelog files.")
    changelog_file_prefix: str = text("changelog-file.prefix", "changelog-", "Name prefix of changelog files.")
    changelog_file_stats_mode: str | None = text("changelog-file.stats-mode", None, "Stats mode of changelog files.")
    changelog_producer: str = choice("changelog-producer", "none", "Who writes the changelog, and from what.",
        "none input full-compaction lookup")
    changelog_producer_row_deduplicate: bool = flag("changelog-producer.row-deduplicate", False,
        "Leave out -U/+U pairs of equal rows.")
    changelog_producer_row_deduplicate_ignore_fields: tuple[str, ...] = names(
        "changelog-producer.row-deduplicate-ignore-fields", "Columns whose change alone makes no -U/+U pair."
    )
    changelog_num_retained_max: int | None = integer("changelog.num-retained.max", None,
        "Most long-lived changelogs; else as snapshots.")
    changelog_num_retained_min: int | None = integer("changelog.num-retained.min", None,
        "Fewest long-lived changelogs; else as snapshots.")
    changelog_time_retained_ms: int | None = duration("changelog.time-retained", None,
        "Age limit of changelogs; else as snapshots.")
    clustering_columns: tuple[str, ...] = names("clustering.columns", "Sort columns for clustering.",
        "sink.clustering.by-columns")
    clustering_history_partition_idle_to_full_sort_ms: int | None = duration(
        "clustering.history-partition.idle-to-full-sort", None,
        "Idle time after which a partition is clustered as a whole."
    )
    clustering_history_partition_limit: int = integer("clustering.history-partition.limit", 5,
        "Idle partitions clustered per run.")
    clustering_incremental: bool = flag("clustering.incremental", False, "Enable incremental clustering.")
    clustering_incremental_mode: str = choice(
        "clustering.incremental.mode", "global-sort", "Whether clustering sorts everything or file by file.",
        "global-sort local-sort"
    )
    clustering_incremental_optimize_write: bool = flag("clustering.incremental.optimize-write", False,
        "Cluster rows before they are written, too.")
    clustering_strategy: str = text("clustering.strategy", "auto",
        "How clustering sorts: auto, order, zorder or hilbert.", "sink.clustering.strategy")
    commit_discard_duplicate_files: bool = flag("commit.discard-duplicate-files", False,
        "Drop already committed files in APPEND commits.")
    commit_force_compact: bool = flag("commit.force-compact", False, "Wait for compaction before every commit.")
    commit_force_create_snapshot: bool = flag("commit.force-create-snapshot", False,
        "Streaming: create empty snapshots.")
    commit_max_retries: int = integer("commit.max-retries", 10, "Retry limit of the commit loop.")
    commit_max_retry_wait_ms: int = duration("commit.max-retry-wait", "10 s", "Upper bound of retry back-off.")
    commit_min_retry_wait_ms: int = duration("commit.min-retry-wait", "10 ms", "First retry back-off.")
    commit_strict_mode_last_safe_snapshot: int | None = long("commit.strict-mode.last-safe-snapshot", None,
        "Abort when others committed after this id.")
    commit_timeout_ms: int | None = duration("commit.timeout", None, "Time limit of the commit loop.")
    commit_user_prefix: str | None = text("commit.user-prefix", None, "Prefix of generated commit users.")
    compaction_delete_ratio_threshold: float = number(
        "compaction.delete-ratio-threshold", 0.2,
        "Append files with more than this share of deleted rows are compacted."
    )
    compaction_file_num_limit: int = integer("compaction.file-num-limit", 100000,
        "Most files one append compaction looks at.")
    compaction_force_rewrite_all_files: bool = flag("compaction.force-rewrite-all-files", False,
        "Full compaction rewrites everything.")
    compaction_force_up_level_0: bool = flag("compaction.force-up-level-0", False,
        "Every compaction takes level 0 along.")
    compaction_incremental_size_threshold_bytes: int | None = size(
        "compaction.incremental-size-threshold", None, "Early full compaction by size below max level."
    )
    compaction_max_size_amplification_percent: int = integer("compaction.max-size-amplification-percent", 200,
        "Size amplification limit.")
    compaction_min_file_num: int = integer("compaction.min.file-num", 5, "Minimum files for an append compaction.")
    compaction_offpeak_ratio: int = integer("compaction.offpeak-ratio", 0, "Added to the size ratio in off-peak hours.")
    compaction_offpeak_start_hour: int = integer("compaction.offpeak.start.hour", -1,
        "First off-peak hour of the day; -1: there is none.")
    compaction_offpeak_end_hour: int = integer("compaction.offpeak.end.hour", -1,
        "First hour of the day after the off-peak ones; -1: there is none.")
    compaction_optimization_interval_ms: int | None = duration(
        "compaction.optimization-interval", None,
        "Interval of early full compactions, for readers of compacted files only."
    )
    compaction_size_ratio: int = integer("compaction.size-ratio", 1, "Size ratio tolerance percent.")
    compaction_skip_expired_partitions: bool = flag("compaction.skip-expired-partitions", False,
        "Do not compact expired partitions.")
    compaction_small_file_ratio: float = number("compaction.small-file-ratio", 0.7,
        "A file below this share of the target size is small.")
    compaction_total_size_threshold_bytes: int | None = size("compaction.total-size-threshold", None,
        "Early full compaction while a bucket is small.")
    consumer_id: str | None = text("consumer-id", None, "Name under which a stream stores progress.")
    consumer_changelog_only: bool = flag("consumer.changelog-only", False, "Consumers protect only changelogs.")
    consumer_expiration_time_ms: int | None = duration("consumer.expiration-time", None,
        "Age after which consumer files are removed.")
    consumer_ignore_progress: bool = flag("consumer.ignore-progress", False, "Start fresh despite stored progress.")
    consumer_mode: str = choice("consumer.mode", "exactly-once",
        "Whether consumers are recorded exactly once or at least once.", "exactly-once at-least-once")
    continuous_discovery_interval_ms: int = duration("continuous.discovery-interval", "10 s",
        "Poll interval of streams.")
    cross_partition_upsert_bootstrap_parallelism: int = integer("cross-partition-upsert.bootstrap-parallelism", 10,
        "Threads for index bootstrap.")
    cross_partition_upsert_index_ttl_ms: int | None = duration("cross-partition-upsert.index-ttl", None,
        "Expiry of key index entries.")
    data_evolution_enabled: bool = flag("data-evolution.enabled", False,
        "Column-wise evolution of row-tracking tables.", fixed=True)
    data_file_external_paths: tuple[str, ...] = names("data-file.external-paths", "Extra root paths for data files.")
    data_file_external_paths_specific_fs: str | None = text("data-file.external-paths.specific-fs", None,
        "Scheme used by strategy specific-fs.")
    data_file_external_paths_strategy: str = choice(
        "data-file.external-paths.strategy",
        "none",
        "How a new data file chooses among the external roots.",
        "none specific-fs round-robin entropy-inject weight-robin weighted",
    )
    data_file_path_directory: str | None = text("data-file.path-directory", None, "Subdirectory holding bucket data.",
        fixed=True)
    data_file_prefix: str = text("data-file.prefix", "data-", "Data file name prefix.")
    data_file_thin_mode: bool = flag("data-file.thin-mode", False, "Leave out the _KEY_ columns of key tables.")
    delete_force_produce_changelog: bool = flag("delete.force-produce-changelog", False,
        "SQL deletes also write changelog.")
    deletion_vector_index_file_target_size_bytes: int = size("deletion-vector.index-file.target-size", "2 mb",
        "Size at which files of deletion vectors roll.")
    deletion_vectors_bitmap64: bool = flag("deletion-vectors.bitmap64", False, "Write deletion vectors of 64 bits.")
    deletion_vectors_enabled: bool = flag("deletion-vectors.enabled", False,
        "Keep the positions of dead rows beside data files instead of merging at read.")
    deletion_vectors_merge_on_read: bool = flag("deletion-vectors.merge-on-read", False,
        "Show level 0 and merge although there are deletion vectors.")
    deletion_vectors_modifiable: bool = flag("deletion-vectors.modifiable", False,
        "Allow toggling DV on existing tables.")
    disable_explicit_type_casting: bool = flag("disable-explicit-type-casting", False, "Forbid lossy type changes.")
    dynamic_bucket_assigner_parallelism: int | None = integer("dynamic-bucket.assigner-parallelism", None,
        "Number of bucket assigners.")
    dynamic_bucket_initial_buckets: int | None = integer("dynamic-bucket.initial-buckets", None,
        "Buckets that a partition begins with.", fixed=True)
    dynamic_bucket_max_buckets: int = integer("dynamic-bucket.max-buckets", -1,
        "Most buckets of a partition; -1: no limit.")
    dynamic_bucket_target_row_num: int = long("dynamic-bucket.target-row-num", 2000000, "Keys per bucket.")
    dynamic_partition_overwrite: bool = flag("dynamic-partition-overwrite", True, "Overwrite only written partitions.")
    end_input_check_partition_expire: bool = flag("end-input.check-partition-expire", False,
        "Look for expired partitions at the end of a batch.")
    fields_default_aggregate_function: str | None = text("fields.default-aggregate-function", None,
        "Function for columns without their own.")
    file_index_in_manifest_threshold_bytes: int = size("file-index.in-manifest-threshold", "500 bytes",
        "Index bytes below this size are kept in the manifest.")
    file_index_read_enabled: bool = flag("file-index.read.enabled", True, "Use file indexes on read.")
    file_block_size_bytes: int | None = size("file.block-size", None, "Size of a Parquet row group or an ORC stripe.")
    file_compression: str = text("file.compression", "zstd", "Codec of data files.")
    file_compression_per_level: Mapping[int, str] = levels("file.compression.per.level",
        "Codec by level, such as 0:lz4,1:zstd.")
    file_compression_zstd_level: int = integer("file.compression.zstd-level", 1, "Zstd level of data files.")
    file_format: str = text("file.format", "parquet", "Format of data files.")
    file_format_per_level: Mapping[int, str] = levels("file.format.per.level", "Format by level, such as 0:avro,5:orc.")
    file_suffix_include_compression: bool = flag("file.suffix.include.compression", False,
        "Put the codec into file names.")
    force_lookup: bool = flag("force-lookup", False, "Treat compaction as lookup compaction.", fixed=True)
    format_table_file_compression: str | None = text("format-table.file.compression", None,
        "Codec of format table files.", "file.compression")
    format_table_implementation: str = choice("format-table.implementation", "paimon",
        "Who reads and writes format tables.", "paimon engine")
    format_table_partition_path_only_value: bool = flag("format-table.partition-path-only-value", False,
        "Directories hold only values.")
    full_compaction_delta_commits: int | None = integer("full-compaction.delta-commits", None,
        "Full compaction every n commits.")
    global_index_enabled: bool = flag("global-index.enabled", True, "Use global indexes in scans.")
    ignore_delete: bool = flag(
        "ignore-delete", False, "Drop -D and -U rows.", "first-row.ignore-delete", "deduplicate.ignore-delete",
        "partial-update.ignore-delete"
    )
    ignore_update_before: bool = flag("ignore-update-before", False, "Drop -U rows.")
    incremental_between: str | None = text("incremental-between", None, "Range of an incremental read.")
    incremental_between_scan_mode: str = choice("incremental-between-scan-mode", "auto",
        "What an incremental read reads.", "auto delta changelog diff")
    incremental_between_tag_to_snapshot: bool = flag("incremental-between-tag-to-snapshot", False,
        "Treat tags as snapshot ids.")
    incremental_between_timestamp: str | None = text("incremental-between-timestamp", None,
        "Time range of an incremental read.")
    incremental_to_auto_tag: str | None = text("incremental-to-auto-tag", None, "Diff from previous auto tag.")
    index_file_in_data_file_dir: bool = flag("index-file-in-data-file-dir", False,
        "Index files live in bucket directories.", fixed=True)
    local_merge_buffer_size_bytes: int | None = size("local-merge-buffer-size", None,
        "Enable local merging before shuffle.")
    local_sort_max_num_file_handles: int = integer("local-sort.max-num-file-handles", 128, "Fan-in of external sorts.")
    lookup_compact: str = choice("lookup-compact", "radical", "How eagerly lookup compactions take level 0.",
        "radical gentle")
    lookup_compact_max_interval: int | None = integer("lookup-compact.max-interval", None,
        "Triggers between forced L0 moves in GENTLE.")
    lookup_wait: bool = flag("lookup-wait", True, "Commit waits for lookup compaction.",
        "changelog-producer.lookup-wait")
    lookup_cache_file_retention_ms: int = duration("lookup.cache-file-retention", "1 h", "Life of local lookup files.")
    lookup_cache_max_disk_size_bytes: int = size("lookup.cache-max-disk-size", "infinite", "Disk cap of lookup files.")
    lookup_cache_max_memory_size_bytes: int = size("lookup.cache-max-memory-size", "256 mb",
        "Memory cap of lookup cache.")
    lookup_cache_spill_compression: str = text("lookup.cache-spill-compression", "zstd", "Codec of lookup files.")
    lookup_cache_bloom_filter_enabled: bool = flag("lookup.cache.bloom.filter.enabled", True,
        "Bloom filter in lookup files.")
    lookup_cache_bloom_filter_fpp: float = number("lookup.cache.bloom.filter.fpp", 0.05, "Its false positive rate.")
    lookup_hash_load_factor: float = number("lookup.hash-load-factor", 0.75, "Load factor of hash lookup files.")
    lookup_merge_buffer_size_bytes: int = size("lookup.merge-buffer-size", "8 mb", "Buffer for one key's candidates.")
    lookup_merge_records_threshold: int = integer("lookup.merge-records-threshold", 1024,
        "Candidates kept on heap before spilling.")
    manifest_compression: str = text("manifest.compression", "zstd", "Codec of manifests.")
    manifest_delete_file_drop_stats: bool = flag("manifest.delete-file-drop-stats", False,
        "DELETE entries without stats.")
    manifest_full_compaction_threshold_size_bytes: int = size("manifest.full-compaction-threshold-size", "16 mb",
        "Trigger of full manifest merging.")
    manifest_merge_min_count: int = integer("manifest.merge-min-count", 30, "Minimum trailing files for a minor merge.")
    manifest_target_file_size_bytes: int = size("manifest.target-file-size", "8 mb", "Rolling size of manifests.")
    merge_engine: str = choice(
        "merge-engine", "deduplicate", "How the versions of a key become one row.",
        "deduplicate partial-update aggregation first-row", fixed=True
    )
    metadata_stats_dense_store: bool = flag("metadata.stats-dense-store", True,
        "Store stats only of collected columns.")
    metadata_stats_keep_first_n_columns: int = integer("metadata.stats-keep-first-n-columns", -1,
        "Collect stats for the first n columns.")
    metadata_stats_mode: str = text("metadata.stats-mode", "truncate(16)",
        "Column statistics of data files: none, counts, truncate(n) or full.")
    metadata_stats_mode_per_level: Mapping[int, str] = levels("metadata.stats-mode.per.level", "Stats mode per level.")
    metastore_partitioned_table: bool = flag("metastore.partitioned-table", False,
        "Register partitions in the metastore.")
    metastore_tag_to_partition: str | None = text("metastore.tag-to-partition", None,
        "Column under which Hive sees tags as partitions.")
    num_levels: int | None = integer("num-levels", None,
        "Levels with level 0; else one more than the runs that start a compaction.")
    num_sorted_run_compaction_trigger: int = integer("num-sorted-run.compaction-trigger", 5,
        "Runs that start compaction.")
    num_sorted_run_stop_trigger: int | None = integer(
        "num-sorted-run.stop-trigger", None,
        "Runs that stall writing; else three more than those that start a compaction."
    )
    overwrite_upgrade: bool = flag("overwrite-upgrade", True, "Place overwritten files on the max level.")
    page_size_bytes: int = size("page-size", "64 kb", "Memory page size.")
    parquet_enable_dictionary: str | None = text("parquet.enable.dictionary", None,
        "Whether Parquet keeps dictionaries, as its writer reads it.")
    partial_update_remove_record_on_delete: bool = flag("partial-update.remove-record-on-delete", False,
        "partial-update: -D deletes the row.", fixed=True)
    partial_update_remove_record_on_sequence_group: tuple[str, ...] = names(
        "partial-update.remove-record-on-sequence-group", "Sequence columns whose -D deletes the row.", fixed=True
    )
    partition: tuple[str, ...] = names("partition", "Partition keys given as option.", fixed=True)
    partition_default_name: str = text("partition.default-name", "__DEFAULT_PARTITION__",
        "Directory name for null and blank partition values.")
    partition_end_input_to_done: bool = flag("partition.end-input-to-done", False,
        "Mark partitions done at end of input.")
    partition_expiration_batch_size: int | None = integer("partition.expiration-batch-size", None,
        "Partitions dropped per commit.")
    partition_expiration_check_interval_ms: int = duration("partition.expiration-check-interval", "1 h",
        "How often expiry runs.")
    partition_expiration_max_num: int = integer("partition.expiration-max-num", 100, "Partitions dropped per run.")
    partition_expiration_strategy: str = text("partition.expiration-strategy", "values-time",
        "What makes a partition old: values-time or update-time.")
    partition_expiration_time_ms: int | None = duration("partition.expiration-time", None, "Partition life time.")
    partition_legacy_name: bool = flag("partition.legacy-name", True, "Internal string form in directory names.")
    partition_mark_done_action: str = text("partition.mark-done-action", "success-file",
        "How a finished partition is announced.")
    partition_mark_done_action_http_params: str | None = text("partition.mark-done-action.http.params", None,
        "What http-report tells along.")
    partition_mark_done_action_http_url: str | None = text("partition.mark-done-action.http.url", None,
        "The web service that http-report tells.")
    partition_sink_strategy: str = choice("partition.sink-strategy", "none",
        "Shuffle by partition to limit open files.", "none hash")
    partition_timestamp_format_strict: bool = flag("partition.timestamp-format.strict", False,
        "Reject unparsable partition values.")
    partition_timestamp_formatter: str | None = text("partition.timestamp-formatter", None,
        "Formatter of partition times.")
    partition_timestamp_pattern: str | None = text("partition.timestamp-pattern", None,
        "Template of partition times, such as $dt $hm.")
    pk_clustering_override: bool = flag("pk-clustering-override", False,
        "Sort files by clustering columns instead of PK.", fixed=True)
    postpone_batch_write_fixed_bucket: bool = flag(
        "postpone.batch-write-fixed-bucket", True,
        "Batch writes go to real buckets; lakekit's do where the option is given."
    )
    postpone_batch_write_fixed_bucket_max_parallelism: int = integer(
        "postpone.batch-write-fixed-bucket.max-parallelism", 2048, "Cap of inferred buckets.")
    postpone_batch_write_fixed_bucket_rescale_load_factor: int = integer(
        "postpone.batch-write-fixed-bucket.rescale-load-factor", 32, "Tolerance before enlarging."
    )
    postpone_default_bucket_num: int = integer("postpone.default-bucket-num", 1,
        "Exact bucket number for new partitions.")
    postpone_merge_on_read: bool = flag("postpone.merge-on-read", False, "Merge the postpone bucket in batch reads.")
    postpone_target_row_num_per_bucket: int | None = long("postpone.target-row-num-per-bucket", None,
        "Row based estimate.")
    postpone_target_size_per_bucket_bytes: int = size("postpone.target-size-per-bucket", "1 gb", "Size based estimate.")
    primary_key: tuple[str, ...] = names("primary-key", "Primary key given as option.", fixed=True)
    primary_key_nullable: bool = flag("primary-key.nullable", False, "Allow NULL in keys.", fixed=True)
    query_auth_enabled: bool = flag("query-auth.enabled", False, "Ask the catalog for row/column rights.")
    read_batch_size: int = integer("read.batch-size", 1024, "Rows per format read batch.")
    record_level_expire_time_ms: int | None = duration("record-level.expire-time", None,
        "Row life time applied in compaction.")
    record_level_time_field: str | None = text("record-level.time-field", None, "Column holding the row time.")
    row_tracking_enabled: bool = flag("row-tracking.enabled", False, "Unique row ids for append tables.", fixed=True)
    rowkind_field: str | None = text("rowkind.field", None, "Column holding the row kind.", fixed=True)
    scan_bounded_watermark: int | None = long("scan.bounded.watermark", None, "Stop streaming past this watermark.")
    scan_bucket: int | None = integer("scan.bucket", None, "Read one bucket of a key table with fixed buckets.")
    scan_creation_time_millis: int | None = long("scan.creation-time-millis", None,
        "Position of from-creation-timestamp.")
    scan_fallback_branch: str | None = text("scan.fallback-branch", None,
        "Branch whose partitions stand in for missing ones.")
    scan_fallback_branch_read_fail_fast: bool = flag("scan.fallback-branch.read-fail-fast", False,
        "Fail instead of falling through.")
    scan_fallback_delta_branch: str | None = text("scan.fallback-delta-branch", None, "Chain tables: delta branch.")
    scan_fallback_snapshot_branch: str | None = text("scan.fallback-snapshot-branch", None,
        "Chain tables: snapshot branch.")
    scan_file_creation_time_millis: int | None = long("scan.file-creation-time-millis", None,
        "Only files created after this time.")
    scan_ignore_corrupt_files: bool = flag("scan.ignore-corrupt-files", False, "Skip unreadable files.")
    scan_ignore_lost_files: bool = flag("scan.ignore-lost-files", False, "Skip missing files.")
    scan_manifest_parallelism: int | None = integer("scan.manifest.parallelism", None, "Threads reading manifests.")
    scan_mode: str = choice(
        "scan.mode",
        "default",
        "Start position of a read.",
        SCAN_MODES,
        "log.scan",
    )
    scan_plan_auto_tag_for_read_time_retained_ms: int | None = duration(
        "scan.plan-auto-tag-for-read.time-retained", None, "Protect the read snapshot by a tag."
    )
    scan_plan_sort_partition: bool = flag("scan.plan-sort-partition", False, "Order splits by partition.")
    scan_primary_branch: str | None = text("scan.primary-branch", None, "Branch preferred per partition.")
    scan_snapshot_id: int | None = long("scan.snapshot-id", None, "Snapshot position.")
    scan_tag_name: str | None = text("scan.tag-name", None, "Tag position.")
    scan_timestamp: str | None = text("scan.timestamp", None, "Time position as date and time of the local zone.")
    scan_timestamp_millis: int | None = long("scan.timestamp-millis", None, "Time position in milliseconds since 1970.",
        "log.scan.timestamp-millis")
    scan_watermark: int | None = long("scan.watermark", None, "Watermark position.")
    sequence_field: tuple[str, ...] = names("sequence.field", "Columns that say which version of a key is newer.")
    sequence_field_sort_order: str = choice(
        "sequence.field.sort-order", "ascending", "Whether the greatest or the smallest sequence is the newest.",
        "ascending descending"
    )
    sequence_snapshot_ordering: bool = flag("sequence.snapshot-ordering", False, "Order by commit snapshot id.",
        fixed=True)
    sink_process_time_zone: str | None = text("sink.process-time-zone", None, "Zone of process-time tags.")
    sink_watermark_time_zone: str = text("sink.watermark-time-zone", "UTC", "Zone of watermark tags.")
    snapshot_clean_empty_directories: bool = flag(
        "snapshot.clean-empty-directories", False, "Remove empty directories on expiry.",
        "snapshot.expire.clean-empty-directories"
    )
    snapshot_expire_execution_mode: str = choice("snapshot.expire.execution-mode", "sync",
        "Whether expiry makes a commit wait.", "sync async")
    snapshot_expire_limit: int = integer("snapshot.expire.limit", 50, "Snapshots expired per run.")
    snapshot_ignore_empty_commit: bool | None = flag("snapshot.ignore-empty-commit", None,
        "Override creation of empty snapshots.")
    snapshot_num_retained_max: int = integer("snapshot.num-retained.max", INT_MAX, "Upper bound of kept snapshots.")
    snapshot_num_retained_min: int = integer("snapshot.num-retained.min", 10, "Lower bound of kept snapshots.")
    snapshot_time_retained_ms: int = duration("snapshot.time-retained", "1 h", "Age limit of snapshots.")
    snapshot_watermark_idle_timeout_ms: int | None = duration("snapshot.watermark-idle-timeout", None,
        "Force snapshots when watermark stalls.")
    sort_engine: str = choice("sort-engine", "loser-tree", "How sorted runs are merged in the reference.",
        "min-heap loser-tree")
    sort_spill_buffer_size_bytes: int = size("sort-spill-buffer-size", "64 mb", "Memory of spilled merges.")
    sort_spill_threshold: int | None = integer("sort-spill-threshold", None,
        "Runs merged at once before spilling; else one more than the stop trigger.")
    source_split_open_file_cost_bytes: int = size("source.split.open-file-cost", "4 mb",
        "Minimum weight of a file in packing.")
    source_split_target_size_bytes: int = size("source.split.target-size", "128 mb", "Target weight of a split.")
    spill_compression: str = text("spill-compression", "zstd", "Codec of spill files.")
    spill_compression_zstd_level: int = integer("spill-compression.zstd-level", 1, "Zstd level of spill files.")
    streaming_read_append_overwrite: bool = flag("streaming-read-append-overwrite", False,
        "Stream what overwrites added in append tables.")
    streaming_read_overwrite: bool = flag("streaming-read-overwrite", False,
        "Stream what overwrites changed in key tables.")
    streaming_read_snapshot_delay_ms: int | None = duration("streaming.read.snapshot.delay", None,
        "Delay before a snapshot is streamed.")
    table_read_sequence_number_enabled: bool = flag("table-read.sequence-number.enabled", False,
        "Show sequence numbers in audit_log and binlog.")
    tag_automatic_completion: bool = flag("tag.automatic-completion", False, "Fill missing auto tags.")
    tag_automatic_creation: str = choice("tag.automatic-creation", "none", "What creates tags by itself.",
        "none process-time watermark batch")
    tag_batch_customized_name: str | None = text("tag.batch.customized-name", None, "Name of the batch tag.")
    tag_create_success_file: bool = flag("tag.create-success-file", False, "Write a success marker.")
    tag_creation_delay_ms: int = duration("tag.creation-delay", "0 ms", "Extra wait after the period.")
    tag_creation_period: str = choice("tag.creation-period", "daily", "How often tags are created.",
        "daily hourly two-hours")
    tag_creation_period_duration_ms: int | None = duration("tag.creation-period-duration", None, "Free period length.")
    tag_default_time_retained_ms: int | None = duration("tag.default-time-retained", None, "Default life of new tags.")
    tag_num_retained_max: int | None = integer("tag.num-retained-max", None, "Auto tags kept.")
    tag_period_formatter: str = choice(
        "tag.period-formatter", "with_dashes", "How automatic tags spell their time.",
        "with_dashes without_dashes without_dashes_and_spaces"
    )
    tag_time_expire_enabled: bool = flag("tag.time-expire-enabled", True, "Expire tags by retention.")
    target_file_row_num: int = long("target-file-row-num", INFINITE_SIZE, "Rolling by rows.")
    target_file_size_bytes: int | None = size("target-file-size", None,
        "Size at which data files roll; else 128 mb in key tables, 256 mb in append tables.")
    type: str = choice("type", "table", "What kind of table it is.",
        "table format-table materialized-table object-table lance-table iceberg-table", fixed=True)
    variant_shredding_schema: str | None = text("variant.shreddingSchema", None, "Explicit shredding schema.",
        "parquet.variant.shreddingSchema")
    vector_field: tuple[str, ...] = names("vector-field", "Array columns stored as vectors.")
    write_buffer_for_append: bool = flag("write-buffer-for-append", False, "Buffer append writes in memory.")
    write_buffer_size_bytes: int = size("write-buffer-size", "256 mb", "Write buffer memory.")
    write_buffer_spill_max_disk_size_bytes: int = size("write-buffer-spill.max-disk-size", "infinite",
        "Disk for spilled buffers.")
    write_buffer_spillable: bool = flag("write-buffer-spillable", True, "Allow spilling buffers.")
    write_max_writers_to_spill: int = integer("write-max-writers-to-spill", 10,
        "Open writers before spilling (append, postpone).")
    write_only: bool = flag("write-only", False, "No compaction or maintenance in writers.", "write.compaction-skip")
    write_batch_memory_bytes: int = size("write.batch-memory", "128 mb", "Memory per format write batch.")
    write_batch_size: int = integer("write.batch-size", 1024, "Rows per format write batch.", "orc.write.batch-size")
    write_sequence_number_init_mode: str = choice(
        "write.sequence-number-init-mode", "scan", "Where a writer learns the highest sequence number.", "scan snapshot"
    )
    zorder_var_length_contribution: int = integer("zorder.var-length-contribution", 8,
        "Bytes of strings in z-order keys.")
    path: str | None = text("path", None, "Where the table is; catalogs set it.")
    branch: str = text("branch", "main", "Branch of the table.")
    scan_version: str | None = text("scan.version", None, "Snapshot, tag or watermark, as VERSION AS OF names it.")
    key_value_sequence_number_enabled: bool = flag("key-value.sequence_number.enabled", False,
        "Set by system tables that show sequence numbers.")
    object_location: str | None = text("object-location", None, "Directory that an object table lists.")
    field_delimiter: str = text("field-delimiter", ",", "What stands between the values of a CSV line.")
    materialized_table_definition_query: str | None = text("materialized-table.definition-query", None,
        "Query that a materialized table holds.")
    materialized_table_interval_freshness: str | None = text("materialized-table.interval-freshness", None,
        "How old a materialized table may be.")
    materialized_table_interval_freshness_time_unit: str | None = text(
        "materialized-table.interval-freshness.time-unit", None, "Unit of that age.")
    materialized_table_logical_refresh_mode: str | None = text("materialized-table.logical-refresh-mode", None,
        "How it was asked to be refreshed.")
    materialized_table_refresh_mode: str | None = text("materialized-table.refresh-mode", None,
        "How it is refreshed: full or continuous.")
    materialized_table_refresh_status: str | None = text("materialized-table.refresh-status", None,
        "Whether refreshing is on.")
    materialized_table_refresh_handler_description: str | None = text(
        "materialized-table.refresh-handler-description", None, "Who refreshes it, in words.")
    materialized_table_refresh_handler_bytes: str | None = text("materialized-table.refresh-handler-bytes", None,
        "Who refreshes it, as an engine wrote it.")
    manifest_format: str = text("manifest.format", "avro", "Format of manifests; readers go by the file itself.")
    lookup_cache_rows: int = long("lookup.cache-rows", 10000, "Rows a lookup join keeps.")
    lakekit_allowed_locations: tuple[str, ...] = names("lakekit.allowed-locations",
        "Places outside its folder that a table may use; the caller's alone.")
    lakekit_timestamp_unit: str = choice("lakekit.timestamp-unit", "ns", "How TIMESTAMP(7) to TIMESTAMP(9) are read.",
        "ns us")
    lakekit_java_time_zone: str = text("lakekit.java-time-zone", "UTC",
        "Zone of the Java processes that wrote ORC timestamps and cast them.")
    lakekit_merge_memory_bytes: int = size("lakekit.merge-memory", "256 mb",
        "Memory of one merge before it is cut into key ranges.")
    spark_read_native: str = choice("spark.read.native", "auto",
        "Whether Spark reads Parquet files itself: auto on disks, on in stores too.", "auto on off")
