"""What lakekit supports: one list of named features, of everything that Paimon's documents name.

    area | specified
    feature | read | write | words

Those are formats, types, engines, functions, options, system tables, procedures and scenarios; the options are listed
in `option`. The list feeds refusals, `lk.features()`, the documents and the conformance tests. `read` and `write` are
`yes`, `refused` (by name, with `Unsupported`) or `-` (does not concern that side). Options that only tune another
engine are `-` on both sides: they are kept, listed and written back, and have no effect here.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from lakekit.errors import Unsupported
from lakekit.options.option import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping


_FEATURE_TABLES = (
    """
    file | FORMAT 1-4, 6
    file.schema | yes | yes | schema JSON, versions 1 to 3
    file.snapshot | yes | yes | snapshot JSON, versions 1 to 3
    file.hint | yes | yes | LATEST and EARLIEST, believed only with proof
    file.manifest-list | yes | yes | manifest lists
    file.manifest | yes | yes | manifests
    file.index-manifest | yes | yes | index manifests
    file.tag | yes | yes | tag files
    file.branch | yes | yes | branch directories
    file.consumer | yes | yes | consumer files
    file.changelog | yes | yes | changelogs that outlive their snapshots
    file.writer-state | yes | yes | what a writer needs to go on in another process
    file.statistics | yes | yes | table statistics
    file.hash-index | yes | yes | hash index of dynamic buckets
    file.deletion-vectors | yes | yes | deletion vector files
    file.commit-message | yes | yes | commit messages as bytes
    file.split | yes | yes | splits as bytes
    file.partition-path | yes | yes | partition directories, special and null values too
    manifest.format.avro | yes | yes | Avro manifests with zstd, null, deflate and snappy blocks
    manifest.format.orc | yes | yes | ORC manifests, which engines up to 2.0 could write
    manifest.format.parquet | yes | yes | Parquet manifests, which engines up to 2.0 could write
    """,
    """
    row | FORMAT 5, 7.7
    binary-row | yes | yes | BinaryRow, BinaryArray and BinaryMap: keys, partitions and statistics in manifests
    statistics.dense | yes | yes | statistics of only the collected columns
    statistics.truncated | yes | yes | bounds of strings cut at 16 characters
    """,
    """
    data file | FORMAT 7
    file.format.parquet | yes | yes | Parquet data files
    file.format.orc | yes | yes | ORC data files
    file.format.avro | yes | yes | Avro data files
    file.format.per-level | yes | yes | another format for some levels
    file.format.csv | refused | refused | CSV data files: the engine itself reads back other rows than it wrote
    file.format.json | refused | refused | JSON data files
    file.format.text | refused | refused | text data files
    file.format.row | refused | refused | the row-oriented format for random access
    file.format.lance | refused | refused | Lance data files
    file.format.vortex | refused | refused | Vortex data files
    file.format.mosaic | refused | refused | Mosaic data files
    file.format.blob | refused | refused | blob files
    avro.union | refused | refused | Avro unions of several types
    avro.empty-items | refused | refused | Avro items that take no bytes
    avro.recursive-types | refused | refused | Avro types that contain themselves
    parquet.encryption | refused | refused | encrypted Parquet files
    thin-mode | yes | yes | key files without their key columns
    external-path | yes | yes | data files outside the table's directory
    """,
    """
    type | FORMAT 2.2
    type.boolean | yes | yes | BOOLEAN
    type.tinyint | yes | yes | TINYINT
    type.smallint | yes | yes | SMALLINT
    type.int | yes | yes | INT
    type.bigint | yes | yes | BIGINT
    type.float | yes | yes | FLOAT
    type.double | yes | yes | DOUBLE
    type.decimal | yes | yes | DECIMAL of precision 1 to 38
    type.char | yes | yes | CHAR, not padded
    type.varchar | yes | yes | VARCHAR and STRING
    type.binary | yes | yes | BINARY
    type.varbinary | yes | yes | VARBINARY and BYTES
    type.date | yes | yes | DATE
    type.time | yes | yes | TIME
    type.timestamp | yes | yes | TIMESTAMP of precision 0 to 9
    type.timestamp_ltz | yes | yes | TIMESTAMP WITH LOCAL TIME ZONE of precision 0 to 9
    type.array | yes | yes | ARRAY
    type.map | yes | yes | MAP
    type.multiset | yes | yes | MULTISET
    type.row | yes | yes | ROW
    type.variant | yes | yes | VARIANT as its two binaries
    type.map.shared-shredding | refused | refused | MAP whose keys share columns; other columns of its files are read
    type.variant.shredded | refused | refused | VARIANT stored in columns of its own
    type.blob | refused | refused | BLOB columns; .managed.blob files are never deleted, .blob and .blobref files \
        only with a data file that names them
    type.vector | refused | refused | VECTOR columns
    type.geometry | refused | refused | GEOMETRY columns
    type.geography | refused | refused | GEOGRAPHY columns
    column-name.u001f | refused | refused | columns whose names begin with the control character U+001F
    """,
    """
    table | ENGINE 1, 3, 6-8
    table.append | yes | yes | tables without a primary key
    table.key | yes | yes | tables with a primary key
    partition | yes | yes | partitioned tables
    evolution | yes | yes | columns added, dropped, renamed, reordered or widened, nested ones too
    schema.type-change | refused | refused | a column whose type changed in a way that no cast undoes
    schema.map-key-change | refused | refused | maps whose key changed its type
    partition.legacy-binary | refused | refused | partition directories that name a Java object's identity
    branch | yes | yes | branches
    fallback-branch | yes | yes | partitions that are missing are read from another branch, or a primary branch goes \
        first
    tag | yes | yes | tags
    row-tracking | yes | refused | append tables whose files carry row ids; their rows are read as usual
    row-id | refused | refused | the columns _ROW_ID and _SEQUENCE_NUMBER of row tracking
    data-evolution | refused | refused | files that hold some columns of other files' rows
    chain-table | refused | refused | tables chained over snapshot and delta branches
    format-table | yes | yes | folders of CSV, JSON, text, Parquet or ORC files under a table's name
    object-table | yes | yes | listings of a location under a table's name, a snapshot each
    materialized-table | yes | yes | tables of a query's rows, filled anew by t.refresh(), or by another engine
    lance-table | refused | refused | Lance tables
    iceberg-table | refused | refused | Iceberg tables
    """,
    """
    bucket | FORMAT 6, ENGINE 7
    bucket.fixed | yes | yes | a fixed number of buckets
    bucket.dynamic | yes | yes | buckets as keys need them, found through hash index files
    bucket.cross-partition | yes | yes | keys that move between partitions
    bucket.postpone | yes | yes | rows wait in bucket -2 until compaction gives them one; reads leave them out, as \
        the reference does
    bucket.unaware | yes | yes | append tables without buckets
    bucket-function.default | yes | yes | Murmur hash of the bucket key
    bucket-function.mod | yes | yes | remainder of one integer column
    bucket-function.hive | yes | yes | Hive's hash
    """,
    """
    merge engine | ENGINE 3
    merge-engine.deduplicate | yes | yes | the newest version of a key is its row
    merge-engine.partial-update | yes | yes | the newest known value of each column
    merge-engine.aggregation | yes | yes | a function a column
    merge-engine.first-row | yes | yes | the oldest version of a key is its row
    sequence.field | yes | yes | columns that say which version is newer
    sequence-group | yes | yes | groups of columns with a sequence of their own
    ignore-delete | yes | yes | deletes that are left out
    rowkind.field | yes | yes | a column that holds the row kind; at level 0 kinds count as in Java, not the counts \
        of pypaimon 2.1.0
    """,
    """
    aggregate | ENGINE 3.4
    aggregate.sum | yes | yes | sum, with retraction; whole numbers wrap as in engine 1.4.2, where 2.x raises an error
    aggregate.product | yes | yes | product, with retraction; whole numbers wrap as in engine 1.4.2, where 2.x raises \
        an error
    aggregate.count | yes | yes | count as in engine 0.8; engines since 0.9 refuse it
    aggregate.max | yes | yes | largest
    aggregate.min | yes | yes | smallest
    aggregate.last_value | yes | yes | newest value, null or not
    aggregate.last_non_null_value | yes | yes | newest value that is not null
    aggregate.first_value | yes | yes | oldest value, null or not
    aggregate.first_non_null_value | yes | yes | oldest value that is not null
    aggregate.first_not_null_value | yes | yes | the older name of first_non_null_value
    aggregate.listagg | yes | yes | texts joined by a delimiter
    aggregate.bool_and | yes | yes | whether all are true
    aggregate.bool_or | yes | yes | whether any is true
    aggregate.collect | yes | yes | elements of arrays, distinct or not, with retraction; distinct ones in order as \
        in 2.x, by hash in 1.4.2
    aggregate.merge_map | yes | yes | union of maps, with retraction
    aggregate.merge_map_with_keytime | yes | yes | union of maps whose values carry their time
    aggregate.nested_update | yes | yes | rows of an array replaced by key, with retraction
    aggregate.nested_partial_update | yes | yes | columns of rows of an array replaced by key
    aggregate.rbm32 | yes | yes | union of 32-bit roaring bitmaps
    aggregate.rbm64 | yes | yes | union of 64-bit roaring bitmaps
    aggregate.hll_sketch | yes | yes | union of HyperLogLog sketches; needs the extra `sketches`
    aggregate.theta_sketch | yes | yes | union of theta sketches; needs the extra `sketches`
    aggregate.primary-key | yes | yes | the key's own columns
    """,
    """
    changelog | ENGINE 4
    changelog-producer.none | yes | yes | no changelog
    changelog-producer.input | yes | yes | what was written is the changelog
    changelog-producer.lookup | yes | yes | a changelog from looking up older rows
    changelog-producer.full-compaction | yes | yes | a changelog from comparing full compactions
    """,
    """
    index | FORMAT 8, 9, 10
    deletion-vectors.32bit | yes | yes | 32-bit deletion vectors
    deletion-vectors.64bit | yes | yes | 64-bit deletion vectors
    file-index.bloom-filter | yes | yes | bloom filters in file indexes
    file-index.bitmap | yes | yes | bitmaps in file indexes, versions 1 and 2
    file-index.bsi | yes | yes | bit slices in file indexes
    file-index.range-bitmap | yes | yes | range bitmaps in file indexes
    file-index.embedded | yes | yes | file indexes inside manifests
    index.global | refused | refused | global indexes: btree, bitmap, multivalue, full text
    index.vector | refused | refused | vector indexes
    index.primary-key | refused | refused | sorted, vector and text indexes of key tables
    """,
    """
    read | ENGINE 6
    read.snapshot | yes | - | a snapshot by number
    read.tag | yes | - | a snapshot by tag
    read.time | yes | - | the snapshot of a time
    read.watermark | yes | - | the snapshot of a watermark
    scan.mode.default | yes | - | as the other options say
    scan.mode.full | yes | - | the older name of latest-full
    scan.mode.latest-full | yes | - | the newest snapshot
    scan.mode.latest | yes | - | the newest snapshot, in batch
    scan.mode.latest-delta | yes | - | what the newest snapshot added
    scan.mode.compacted-full | yes | - | the newest compacted snapshot
    scan.mode.from-timestamp | yes | - | the newest snapshot not after a time
    scan.mode.from-snapshot | yes | - | a snapshot by number, tag, watermark or version
    scan.mode.from-snapshot-full | yes | - | a snapshot by number
    scan.mode.from-creation-timestamp | yes | - | files and snapshots since a time
    scan.mode.from-file-creation-time | yes | - | files made since a time
    scan.mode.incremental | yes | - | what changed between two snapshots
    incremental-between.auto | yes | - | changelog where there is one, else delta
    incremental-between.delta | yes | - | rows that were written
    incremental-between.changelog | yes | - | rows of the changelog
    incremental-between.diff | yes | - | two states compared
    incremental.tags | yes | - | between two tags
    incremental.times | yes | - | between two times
    incremental.auto-tag | yes | - | since the automatic tag before
    read.raw | yes | - | every stored version of every key
    read.streaming | yes | - | following a table as it grows
    prune.partition | yes | - | files skipped by partition
    prune.bucket | yes | - | files skipped by bucket
    prune.key | yes | - | files skipped by key range
    prune.value | yes | - | files skipped by statistics, where no older version of a key could come back
    prune.file-index | yes | - | files and rows skipped by file index
    plan.statistics | yes | - | rows to expect, and their size for Spark's planner, by the statistics of ANALYZE
    read.aggregate | yes | - | sums, counts and bounds told by bsi indexes instead of rows
    """,
    """
    write | ENGINE 1, 2, 5, 8
    write.append | - | yes | appending rows
    write.upsert | - | yes | inserting, updating and deleting by key
    write.overwrite | - | yes | replacing a table or partitions
    write.delete | - | yes | DELETE, UPDATE and MERGE
    write.commit | - | yes | committing, exactly once
    write.schema | - | yes | creating and altering tables
    compaction | yes | yes | compaction; what another engine compacted is read
    compaction.sort | - | yes | compaction of append tables that sorts by columns, Z order or Hilbert curve
    compaction.sort.key | - | yes | the same of key tables with dynamic buckets, whose rows move to other buckets
    expiration | yes | yes | expiry of snapshots, changelogs, tags, partitions and consumers; what is left is read
    """,
    """
    storage | ENGINE 5.4
    storage.local | yes | yes | files of this machine
    storage.memory | yes | yes | files in memory
    storage.object | yes | yes | object stores with conditional PUT: S3 and what speaks its protocol, Google Cloud \
        Storage, Azure
    storage.rename | - | refused | renaming tables where folders are but the beginnings of names: a copy would be \
        seen half done
    storage.conditional-put | - | refused | object stores that ignore If-None-Match, or honour it at times: two \
        writers would overwrite each other's commits
    storage.hard-links | - | refused | file systems where no file can be created safely
    """,
    """
    catalog | ENGINE 9
    catalog.filesystem | yes | yes | a folder of databases
    catalog.jdbc | yes | yes | a catalog in SQLite, PostgreSQL or MySQL
    catalog.hive | yes | yes | a Hive metastore, but for partitions in it
    catalog.sql | yes | yes | cat.sql and lakekit sql: queries by DuckDB, INSERT, DELETE, UPDATE, MERGE, definitions \
        and CALL sys.… over the tables of a catalog
    catalog.views | yes | yes | queries under names: temporary ones, and those that metastore=jdbc keeps
    catalog.rest | refused | refused | the REST catalog
    """,
    """
    spark | lakekit.spark
    spark | yes | - | PySpark 4.0 to 4.3 as executors: tasks of it run lakekit
    spark.read | yes | - | tables as DataFrames of Spark: merges, vectors and old schemas in tasks, clean Parquet \
        files by Spark's own reader
    spark.changes | yes | - | what changed between two snapshots as a DataFrame of Spark
    spark.care | - | yes | file indexes, statistics, orphans, expiry, listings: decided by the driver, files read, \
        listed and deleted by tasks of Spark
    spark.compact | - | yes | a table compacted by tasks of Spark, a bucket each, in one commit
    spark.change | - | yes | rows deleted, updated and merged by tasks of Spark, some buckets each, in one commit
    spark.pipeline | - | yes | lakekit.spark.pipeline: change events through bronze, silver and gold tables, a job \
        that may be killed and goes on
    spark.pipeline.connect | - | - | a pipeline in a session of Spark Connect
    spark.pipeline.ingestion | - | yes | lakekit pipeline: files of rows and of change events, tables and streams \
        into tables that are made and grow, each batch once; dead letters for what fits nowhere
    spark.pipeline.kafka | - | - | topics of Kafka as a source of a pipeline
    spark.pipeline.merge-engine | - | - | a pipeline into tables of the merge engine first-row
    spark.source | yes | yes | format("lakekit"), names in SQL, and streams: micro-batches committed once each; \
        tables with dynamic buckets are read only
    spark.sql | yes | yes | ls.sql: queries, INSERT, DELETE, UPDATE, MERGE, definitions and CALL sys.… over the \
        tables of a catalog
    spark.write | - | yes | DataFrames of Spark written by tasks, a bucket in exactly one, and committed once
    """,
    """
    system table | ENGINE 10
    system.snapshots | yes | - | one row a snapshot
    system.schemas | yes | - | one row a schema
    system.options | yes | - | the newest schema's options
    system.audit_log | yes | - | rows with their kind
    system.binlog | yes | - | rows with their kind, before and after together
    system.ro | yes | - | only what is fully compacted
    system.files | yes | - | one row a data file
    system.file_key_ranges | yes | - | one row a data file, with its keys
    system.file_indexes | yes | - | one row an index in a file index
    system.manifests | yes | - | one row a manifest
    system.tags | yes | - | one row a tag
    system.branches | yes | - | one row a branch
    system.consumers | yes | - | one row a consumer
    system.aggregation_fields | yes | - | one row a column, with its function
    system.partitions | yes | - | one row a partition
    system.buckets | yes | - | one row a bucket
    system.statistics | yes | - | the table's statistics
    system.table_indexes | yes | - | one row an index file
    system.row_tracking | refused | - | rows with their row ids
    sys.tables | yes | - | one row a table of the catalog
    sys.partitions | yes | - | one row a partition of the catalog
    sys.all_table_options | yes | - | one row an option of each table
    sys.catalog_options | yes | - | the catalog's own options
    """,
    """
    procedure | ENGINE 11
    procedure.compact | - | yes | compact a table
    procedure.compact_database | - | yes | compact many tables
    procedure.compact_manifest | - | yes | compact manifests
    procedure.expire_snapshots | - | yes | remove old snapshots
    procedure.expire_changelogs | - | yes | remove old changelogs
    procedure.expire_partitions | - | yes | remove old partitions
    procedure.create_tag | - | yes | name a snapshot
    procedure.create_tag_from_timestamp | - | yes | name the first snapshot since a time
    procedure.create_tag_from_watermark | - | yes | name the first snapshot that is as far as a watermark
    procedure.replace_tag | - | yes | move a tag
    procedure.rename_tag | - | yes | rename a tag
    procedure.delete_tag | - | yes | delete tags
    procedure.expire_tags | - | yes | remove tags that are over
    procedure.trigger_tag_automatic_creation | - | yes | make the automatic tags that are due
    procedure.rollback | - | yes | go back to a snapshot or tag
    procedure.rollback_to | - | yes | go back to a snapshot or tag
    procedure.rollback_to_timestamp | - | yes | go back to a time
    procedure.rollback_to_watermark | - | yes | go back to a watermark
    procedure.rollback_to_as_latest | - | refused | commit an old state anew
    procedure.create_branch | - | yes | make a branch
    procedure.delete_branch | - | yes | delete branches
    procedure.rename_branch | - | yes | rename a branch
    procedure.fast_forward | - | yes | let main follow a branch
    procedure.merge_branch | - | refused | merge a branch
    procedure.reset_consumer | - | yes | set or delete a consumer's place
    procedure.clear_consumers | - | yes | delete consumers
    procedure.mark_partition_done | - | yes | say that partitions are complete
    procedure.remove_orphan_files | - | yes | delete files that nothing refers to
    procedure.remove_unexisting_files | - | refused | forget files that are lost
    procedure.remove_unexisting_manifests | - | refused | forget manifests that are lost
    procedure.purge_files | - | refused | delete everything but the schema
    procedure.repair | - | yes | register tables in a metastore, where there is one
    procedure.repair_earliest_snapshot | - | yes | mend the EARLIEST hint
    procedure.rescale | - | yes | change the number of buckets
    procedure.rewrite_file_index | - | yes | make file indexes of existing files
    procedure.create_global_index | - | refused | make a global index
    procedure.drop_global_index | - | refused | drop a global index
    procedure.migrate_table | - | yes | take over Parquet, ORC and Avro files, or a format table; of a table of Hive \
        its folder
    procedure.migrate_database | - | refused | take over a Hive database
    procedure.clone | - | yes | copy a table, its files as they are
    procedure.copy_files | - | refused | copy files of tables
    procedure.copy | - | refused | copy tables
    procedure.drop_partition | - | yes | drop partitions
    procedure.merge_into | - | yes | merge a source into a table
    procedure.alter_view_dialect | - | refused | change a view's dialects
    procedure.create_function | - | refused | functions of the REST catalog
    procedure.alter_function | - | refused | functions of the REST catalog
    procedure.drop_function | - | refused | functions of the REST catalog
    procedure.alter_column_default_value | - | yes | change a column's default
    procedure.refresh_object_table | - | yes | list the objects anew, in a snapshot: engines up to 1.0 have it, \
        released ones since have none
    procedure.query_service | - | refused | a lookup service
    procedure.vector_search | refused | - | search of vectors
    procedure.full_text_search | refused | - | search of texts
    procedure.reassign_row_id | - | refused | give row ids anew
    procedure.materialize_deletion_vectors | - | refused | rewrite files without their deleted rows
    """,
    """
    conformance | ENGINE 14
    conformance.reader | yes | - | another reader, a function or a program, held against golden, damaged and scripted \
        tables
    conformance.writer | - | yes | another writer held against scripts, `t.check(deep=True)` and an oracle
    conformance.drawn | yes | yes | the same on tables that Hypothesis draws; a failing one is shrunk
    """,
    """
    scenario | ENGINE 14
    scenario.1 | - | yes | NOT NULL column with a default, insert NULL
    scenario.2 | - | yes | nullable column with a default, insert NULL
    scenario.3 | yes | yes | ignore-delete at write
    scenario.4 | - | yes | one flush of insert, update, delete
    scenario.5 | yes | yes | sequence field: an older value arrives later
    scenario.6 | - | yes | the flush trace of universal compaction
    scenario.7 | - | yes | full compaction of disjoint large files moves them
    scenario.8 | - | yes | full compaction of nothing but a delete
    scenario.9 | yes | yes | partial-update: a lone delete, then more of the key
    scenario.10 | yes | yes | sequence group: a lone row without its sequence
    scenario.11 | yes | yes | aggregation: a delete comes first
    scenario.12 | yes | yes | first-row: a second insert
    scenario.13 | yes | yes | producer input: four kinds of one key in one flush
    scenario.14 | yes | yes | producer lookup: the same value again
    scenario.15 | - | yes | two committers, different partitions
    scenario.16 | - | yes | two compactions of the same files
    scenario.17 | - | yes | crash between two snapshots of one commit
    scenario.18 | - | yes | dynamic overwrite with no rows
    scenario.19 | - | yes | static overwrite with no rows
    scenario.20 | - | yes | expiry of a tagged snapshot
    scenario.21 | - | yes | expiry and a consumer
    scenario.22 | yes | - | time travel by the tag of an expired snapshot
    scenario.23 | yes | - | a time before the first snapshot
    scenario.24 | yes | - | delta between snapshots over a compaction and an overwrite
    scenario.25 | yes | - | value filters reach only files whose keys do not recur
    scenario.26 | yes | - | filters on a column that old files lack
    scenario.27 | yes | - | deletion vectors: an update before and after compaction
    scenario.28 | - | yes | dynamic buckets of two keys
    scenario.29 | yes | yes | a key that moved to another partition
    scenario.30 | - | yes | DELETE keeps rows whose condition is null
    scenario.31 | - | yes | MERGE with two matches of one row
    scenario.32 | - | yes | inserting after a change of bucket number
    scenario.33 | yes | - | the files table of a partitioned table
    scenario.34 | yes | - | the ro table before any full compaction
    scenario.35 | yes | yes | a branch written and fast forwarded
    scenario.36 | - | yes | orphans right after a failed commit
    """,
)

FEATURE_ALIASES = {
    "type.integer": "type.int",
    "type.time_without_time_zone": "type.time",
    "type.timestamp_without_time_zone": "type.timestamp",
    "type.timestamp_with_local_time_zone": "type.timestamp_ltz",
}
"""Names that the reference engine gives to the same thing."""


# ---- features ------------------------------------------------------------


SUPPORT_STATES = ("yes", "refused", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One feature of Paimon. `name` is its name in errors, `section` the section that describes it."""

    name: str
    area: str
    read: str
    write: str
    description: str
    section: str


def _read_tables() -> dict[str, Feature]:
    features: dict[str, Feature] = {}
    for text in _FEATURE_TABLES:
        head, *lines = (line for line in text.strip().splitlines() if line.strip())
        area, specified = (part.strip() for part in head.split("|"))
        for line in lines:
            name, read, write, words = (" ".join(part.split()) for part in line.split("|", 3))
            features[name] = Feature(name=name, area=area, read=read, write=write, description=words, section=specified)
    for (read, write, words), keys in OPTIONS.items():
        for key in keys.split():
            name = f"option.{key}"
            features[name] = Feature(
                name=name, area="option", read=read, write=write, description=words, section="ENGINE 12"
            )
    return features


FEATURES: Mapping[str, Feature] = MappingProxyType(_read_tables())
"""Every feature by name, in the order of the lists."""


def find_feature(name: str) -> Feature | None:
    """Return the feature of a name; None if there is none.

    An option's key alone, and the reference engine's own names of types, are accepted too.
    """
    for candidate in (name, f"option.{name}", FEATURE_ALIASES.get(name, name)):
        if candidate in FEATURES:
            return FEATURES[candidate]
    return None


def make_refusal(feature: str, subject: str, *, alternative: str | None = None, path: str | None = None) -> Unsupported:
    """Return the error for a feature that lakekit lacks; the caller raises it.

    `feature` is a name of the list, or one that Paimon itself may not know yet. `subject` is the table, file or column
    that uses it, `alternative` what to do instead, `path` the file, if there is one.
    """
    known_feature = find_feature(feature)
    if known_feature is None or not known_feature.description:
        sentence = f"{subject} uses {feature}, which lakekit does not support"
    else:
        sentence = f"{subject} uses {feature} ({known_feature.description}), which lakekit does not support"
    return Unsupported(
        f"{sentence}. {alternative or 'Read it with the Java engine; lk.features() lists what lakekit reads'}",
        feature=feature,
        path=path,
    )


_REFUSED_SWITCHES = (
    "data-evolution.enabled",
    "chain-table.enabled",
    "pk-clustering-override",
    "postpone.merge-on-read",
    "query-auth.enabled",
)
_REFUSED_COLUMN_OPTIONS = (
    "blob-field",
    "blob-descriptor-field",
    "blob-view-field",
    "vector-field",
    "scan.fallback-snapshot-branch",
    "scan.fallback-delta-branch",
)
_REFUSED_TABLE_KINDS = ("format-table", "lance-table", "iceberg-table")
FORMAT_TABLE = "format-table"
OBJECT_TABLE = "object-table"
"""Engines up to 1.2 stored an object table's listing as an append table, which reads like one; later ones store
nothing.
"""


def find_read_refusal(
    options: Mapping[str, str], subject: str, *, alternative: str | None = None
) -> Unsupported | None:
    """Return the error for a table whose options make its files unreadable for lakekit.

    Returns None if they do not.
    """
    for key in _REFUSED_SWITCHES:
        if options.get(key, "false").strip().lower() == "true":
            return make_refusal(f"option.{key}", subject, alternative=alternative)
    for key in _REFUSED_COLUMN_OPTIONS:
        if options.get(key, "").strip():
            return make_refusal(f"option.{key}", subject, alternative=alternative)
    kind = options.get("type", "table").strip().lower().replace("_", "-")
    if kind in _REFUSED_TABLE_KINDS:
        return make_refusal(kind, subject, alternative=alternative)
    format_feature = find_feature(f"file.format.{options.get('file.format', 'parquet').strip().lower()}")
    return (
        make_refusal(format_feature.name, subject, alternative=alternative)
        if format_feature is not None and format_feature.read == "refused"
        else None
    )


def check_readable(options: Mapping[str, str], subject: str) -> None:
    """Raise the error of `find_read_refusal`, if there is one."""
    refused = find_read_refusal(options, subject)
    if refused is not None:
        raise refused


OFF_TEXTS = ("", "false", "disabled")
"""Texts of options that switch nothing on."""


def check_supported(options: Mapping[str, str]) -> None:
    """Raise for the first of a caller's options that lakekit refuses.

    An option that switches nothing on passes.

    Raises:
        Unsupported: with the name of the option.
    """
    for key, text in options.items():
        feature = FEATURES.get(f"option.{key}")
        refused = feature is not None and feature.read != "yes" and "refused" in (feature.read, feature.write)
        if refused and text.strip().lower() not in OFF_TEXTS:
            raise make_refusal(
                f"option.{key}",
                f"{key}={text!r}",
                alternative="Leave the option out; lk.features() lists what lakekit does with each",
            )
