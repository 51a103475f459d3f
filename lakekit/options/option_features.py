"""What lakekit does with each option: the option lists behind `features`.

    (read, write, words)      keys

`words` of an option that is `-` on both sides explain why it has no effect here; it is kept, listed and written back.

An option with one side refused is refused by name wherever a caller gives it: at create, at alter and among the options
of a read (`features.check_supported`). Tables of other engines with an option whose write side alone is refused are
read as without it.
"""

from __future__ import annotations

OPTIONS = {
    ("yes", "yes", ""): """
        field-delimiter format-table.partition-path-only-value object-location aggregation.remove-record-on-delete
        bucket bucket-function.type bucket-key catalog-key changelog-file.format changelog-file.prefix
        changelog-producer data-file.external-paths data-file.path-directory data-file.prefix data-file.thin-mode
        deletion-vectors.bitmap64 deletion-vectors.enabled fields.<column>.aggregate-function
        fields.<column>.count-limit fields.<column>.distinct fields.<column>.ignore-retract
        fields.<column>.list-agg-delimiter fields.<column>.nested-key fields.<column>.nested-key-null-strategy
        fields.<column>.nested-sequence-field fields.<column>.ts-field fields.<columns>.sequence-group
        fields.default-aggregate-function file-index.<type>.<column>.<option> file-index.<type>.columns
        file.compression file.compression.per.level file.format file.format.per.level force-lookup
        full-compaction.delta-commits ignore-delete index-file-in-data-file-dir manifest.compression manifest.format
        merge-engine metadata.stats-mode num-levels num-sorted-run.compaction-trigger
        partial-update.remove-record-on-delete partial-update.remove-record-on-sequence-group partition.default-name
        partition.legacy-name primary-key.nullable sequence.field sequence.field.sort-order sequence.snapshot-ordering
        type jdbc.password jdbc.user uri
    """,
    ("yes", "-", ""): """
        consumer-id consumer.ignore-progress consumer.mode continuous.discovery-interval scan.bounded.watermark
        streaming-read-append-overwrite streaming-read-overwrite streaming.read.snapshot.delay branch
        deletion-vectors.merge-on-read file-index.read.enabled incremental-between incremental-between-scan-mode
        incremental-between-tag-to-snapshot incremental-between-timestamp incremental-to-auto-tag
        lakekit.allowed-locations lakekit.java-time-zone lakekit.merge-memory lakekit.timestamp-unit metastore
        scan.bucket
        scan.creation-time-millis scan.fallback-branch scan.file-creation-time-millis scan.ignore-corrupt-files
        scan.ignore-lost-files scan.mode scan.primary-branch scan.snapshot-id scan.tag-name scan.timestamp
        scan.timestamp-millis scan.version scan.watermark spark.read.native table-read.sequence-number.enabled
        warehouse
    """,
    ("yes", "refused", ""): """
        row-tracking.enabled
    """,
    ("-", "yes", ""): """
        format-table.file.compression clustering.columns clustering.history-partition.idle-to-full-sort
        clustering.history-partition.limit clustering.incremental clustering.incremental.mode
        clustering.incremental.optimize-write clustering.strategy postpone.batch-write-fixed-bucket lock.enabled
        lock.type add-column-before-partition alter-column-null-to-not-null.disabled bucket-append-ordered
        changelog-file.compression changelog-file.stats-mode changelog-producer.row-deduplicate
        changelog-producer.row-deduplicate-ignore-fields commit.discard-duplicate-files commit.force-compact
        commit.max-retries commit.max-retry-wait commit.min-retry-wait commit.strict-mode.last-safe-snapshot
        commit.timeout commit.user-prefix compaction.delete-ratio-threshold compaction.force-rewrite-all-files
        compaction.force-up-level-0 compaction.incremental-size-threshold compaction.max-size-amplification-percent
        compaction.min.file-num compaction.offpeak-ratio compaction.offpeak.end.hour compaction.offpeak.start.hour
        compaction.optimization-interval compaction.size-ratio compaction.small-file-ratio
        compaction.total-size-threshold cross-partition-upsert.index-ttl data-file.external-paths.specific-fs
        data-file.external-paths.strategy deletion-vector.index-file.target-size deletion-vectors.modifiable
        disable-explicit-type-casting dynamic-bucket.assigner-parallelism dynamic-bucket.initial-buckets
        dynamic-bucket.max-buckets dynamic-bucket.target-row-num dynamic-partition-overwrite
        fields.<column>.stats-mode file-index.in-manifest-threshold file.block-size file.compression.zstd-level
        file.suffix.include.compression ignore-update-before local-merge-buffer-size lookup-compact
        lookup-compact.max-interval lookup-wait manifest.delete-file-drop-stats
        manifest.full-compaction-threshold-size manifest.merge-min-count manifest.target-file-size
        metadata.stats-dense-store metadata.stats-keep-first-n-columns metadata.stats-mode.per.level
        num-sorted-run.stop-trigger overwrite-upgrade parquet.enable.dictionary partition path
        postpone.default-bucket-num primary-key record-level.expire-time record-level.time-field rowkind.field
        snapshot.ignore-empty-commit source.split.open-file-cost target-file-row-num target-file-size
        write-buffer-size write-buffer-spillable write-only zorder.var-length-contribution
        delete.force-produce-changelog postpone.target-row-num-per-bucket postpone.target-size-per-bucket
        write-buffer-spill.max-disk-size changelog.num-retained.max changelog.num-retained.min changelog.time-retained
        consumer.changelog-only consumer.expiration-time end-input.check-partition-expire partition.end-input-to-done
        partition.expiration-batch-size partition.expiration-check-interval partition.expiration-max-num
        partition.expiration-strategy partition.expiration-time partition.mark-done-action
        partition.timestamp-formatter partition.mark-done-action.http.params partition.mark-done-action.http.url
        partition.timestamp-pattern sink.process-time-zone sink.watermark-time-zone snapshot.clean-empty-directories
        snapshot.expire.limit snapshot.num-retained.max snapshot.num-retained.min snapshot.time-retained
        tag.automatic-completion tag.automatic-creation tag.batch.customized-name tag.create-success-file
        tag.creation-delay tag.creation-period tag.creation-period-duration tag.default-time-retained
        tag.num-retained-max tag.period-formatter tag.time-expire-enabled format-table.enabled
        compaction.skip-expired-partitions partition.timestamp-format.strict
    """,
    ("refused", "refused", ""): """
        blob-descriptor-field blob-field blob-view-field chain-table.enabled data-evolution.enabled
        pk-clustering-override postpone.merge-on-read query-auth.enabled scan.fallback-delta-branch
        scan.fallback-snapshot-branch vector-field
    """,
    ("-", "refused", "BLOB columns"): """
        blob-external-storage-field blob-external-storage-path
    """,
    ("-", "refused", "partitions are listed in no metastore"): """
        metastore.partitioned-table metastore.tag-to-partition format-table.commit-hive-sync-url
    """,
    ("-", "refused", "Iceberg's metadata beside the table's own; such tables are read, and not changed"): """
        metadata.iceberg.storage
    """,
    ("-", "-", "no effect here: tunes Iceberg's metadata, which is refused"): """
        metadata.iceberg.compaction.max.file-num metadata.iceberg.compaction.min.file-num metadata.iceberg.database
        metadata.iceberg.delete-after-commit.enabled metadata.iceberg.format-version metadata.iceberg.glue.skip-archive
        metadata.iceberg.hadoop-conf-dir metadata.iceberg.hive-client-class metadata.iceberg.hive-conf-dir
        metadata.iceberg.hive-skip-update-stats metadata.iceberg.manifest-compression
        metadata.iceberg.manifest-legacy-version metadata.iceberg.previous-versions-max
        metadata.iceberg.storage-location metadata.iceberg.table metadata.iceberg.uri
    """,
    ("-", "refused", "indexes of key columns and values of their own"): """
        pk-bitmap.index.columns pk-btree.index.columns pk-full-text.index.columns pk-multivalue.index.columns
        pk-vector.index.columns
    """,
    ("-", "refused", "a VARIANT is written as its two binaries, in no columns of its own"): """
        variant.inferShreddingSchema variant.shreddingSchema
    """,
    ("-", "refused", "classes of the Java engine, which lakekit cannot call"): """
        commit.callbacks tag.callbacks partition.mark-done-action.custom.class
    """,
    ("-", "refused", "a commit waits until another process has seen it"): """
        visibility-callback.enabled
    """,
    ("-", "refused", "a read makes a tag"): """
        scan.plan-auto-tag-for-read.time-retained
    """,
    ("-", "refused", "rows of append tables that replace those of a key"): """
        upsert-key
    """,
    ("-", "-", "no effect here: tunes BLOB columns, which are refused"): """
        blob-as-descriptor blob-compaction.enabled blob-descriptor.source-table blob-view.resolve.enabled
        blob-write-null-on-fetch-failure blob-write-null-on-missing-file blob.copy-buffer-size blob.split-by-file-size
        blob.target-file-size lookup.blob-as-descriptor
    """,
    ("-", "-", "no effect here: tunes chain tables, which are refused"): """
        chain-table.chain-partition-keys chain-table.split.key-range-enabled chain-table.streaming.merge-snapshot
    """,
    ("-", "-", "no effect here: tunes data evolution, which is refused"): """
        data-evolution.compaction.rewrite-row-ids data-evolution.merge-into.file-pruning
        data-evolution.merge-into.source-persist data-evolution.reassign.skip-contiguous-row-count
        data-evolution.row-id-conflict-rewrite.max-size data-evolution.row-sidecar.enabled
        data-evolution.row-sidecar.max-selected-rows data-evolution.row-sidecar.max-selection-ratio
        row-tracking.partition-group-on-commit
    """,
    ("-", "-", "no effect here: tunes shredded VARIANT columns, which are refused"): """
        variant.shredding.adaptive.maxInferBufferRow variant.shredding.adaptive.retentionRatio
        variant.shredding.inferenceMode variant.shredding.maxInferBufferRow variant.shredding.maxSchemaDepth
        variant.shredding.maxSchemaWidth variant.shredding.minFieldCardinalityRatio
    """,
    ("-", "-", "no effect here: tunes global indexes and vectors, which are refused"): """
        full-text-index.search-mode global-index.build.max-parallelism global-index.build.max-shard
        global-index.column-update-action global-index.enabled global-index.external-path
        global-index.row-count-per-shard global-index.search-mode global-index.thread-num scalar-index.search-mode
        vector-index.search-mode vector-search.distribute.enabled vector-search.lateral-join.batch-size
        vector.file.format vector.target-file-size
    """,
    (
        "-",
        "-",
        "no effect here: says more of callbacks, partitions in a metastore and visibility, which are refused",
    ): """
        commit.callback.#.param metastore.tag-to-partition.preview tag.callback.#.param
        visibility-callback.check-interval visibility-callback.timeout
    """,
    ("-", "-", "no effect here: lookup joins, sources and sinks of Flink; rows and files are the same without"): """
        batch-scan-mode changelog-producer.compaction-interval commit.force-create-snapshot
        cross-partition-upsert.bootstrap-parallelism lookup.cache-file-retention lookup.cache-max-disk-size
        lookup.cache-max-memory-size lookup.cache-rows lookup.cache-spill-compression
        lookup.cache.bloom.filter.enabled lookup.cache.bloom.filter.fpp lookup.cache.high-priority-pool-ratio
        lookup.continuous.discovery-interval lookup.hash-load-factor lookup.merge-buffer-size
        lookup.merge-records-threshold lookup.remote-file.enabled lookup.remote-file.level-threshold
        partition.sink-strategy precommit-compact scan.max-splits-per-task snapshot.watermark-idle-timeout
        sort-compaction.local-sample.magnification sort-compaction.range-strategy stream-scan-mode
    """,
    ("-", "-", "no effect here: what a materialized table says of itself"): """
        materialized-table materialized-table.definition-query materialized-table.interval-freshness
        materialized-table.interval-freshness.time-unit materialized-table.logical-refresh-mode
        materialized-table.refresh-handler-bytes materialized-table.refresh-handler-description
        materialized-table.refresh-mode materialized-table.refresh-status
    """,
    (
        "-",
        "-",
        "no effect here: threads, buffers and caches of the reference engine; rows and files are the same without",
    ): """
        async-file-write auto-create cache-page-size compaction.file-num-limit data-file.external-paths.weights
        file-operation.thread-num file-reader-async-threshold format-table.implementation
        format-table.scan.list-parallelism key-value.sequence_number.enabled local-kv-db.block-size
        local-sort.max-num-file-handles manifest-sort.enabled manifest-sort.max-rewrite-size
        manifest-sort.partition-field manifest.merge-optimize.enabled page-size
        partition.idle-time-to-report-statistic postpone.batch-write-fixed-bucket.max-parallelism
        postpone.batch-write-fixed-bucket.rescale-load-factor read.batch-size scan.fallback-branch.read-fail-fast
        scan.manifest.parallelism scan.plan-sort-partition snapshot.expire.execution-mode sort-engine
        sort-spill-buffer-size sort-spill-threshold source.split.target-size spill-compression
        spill-compression.zstd-level write-buffer-for-append write-max-writers-to-spill write.batch-memory
        write.batch-size write.sequence-number-init-mode
    """,
}
"""Keys by (read, write, words)."""
