"""One option: its key, parser, default, description, and what lakekit does with it.

    merge_engine: str = choice("merge-engine", "deduplicate", "How versions of a key become one row.", ENGINES,
        fixed=True)
    (read, write, words)      keys                          the option lists behind `features`

The attribute is the key with underscores, and `_ms` after durations, `_bytes` after sizes. Texts are parsed as the
reference does: memory sizes in powers of 1024 (`64 mb`), durations (`1 h`, `5min`, `PT5M`; a bare number is
milliseconds), choices without regard to case, `-` and `_`.

`words` of an option that is `-` on both sides explain why it has no effect here; it is kept, listed and written back.
An option with one side refused is refused by name wherever a caller gives it: at create, at alter and among the options
of a read (`features.check_supported`). Tables of other engines with an option whose write side alone is refused are
read as without it.

`FrozenDict` is an immutable mapping, with which records can be hashed, shared and pickled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from lakekit.errors import HIDDEN, NAME_PATTERN, InvalidOption, is_secret, without_logins

if TYPE_CHECKING:
    from collections.abc import Callable


T = TypeVar("T")

INFINITE_SIZE = 2**63 - 1
_INT32_BOUND = 2**31
_SIZE_PATTERN = re.compile(r"\s*([0-9]{1,19})\s*([A-Za-z]*)\s*")
_DURATION_PATTERN = re.compile(r"\s*([0-9]{1,19})\s*([A-Za-zµ]*)\s*")
_ISO_DURATION_PATTERN = re.compile(
    r"(?i)([+-]?)P(?:([+-]?[0-9]{1,9})D)?"
    r"(?:T(?:([+-]?[0-9]{1,9})H)?(?:([+-]?[0-9]{1,9})M)?(?:([+-]?[0-9]{1,9}(?:\.[0-9]{1,9})?)S)?)?"
)
_BYTES_OF_UNIT = {
    word: 1 << shift
    for shift, words in (
        (0, "b bytes"),
        (10, "k kb kibibytes"),
        (20, "m mb mebibytes"),
        (30, "g gb gibibytes"),
        (40, "t tb tebibytes"),
    )
    for word in words.split()
}
_DURATIONS_NS = {
    word: nanos
    for nanos, words in (
        (86_400_000_000_000, "d day days"),
        (3_600_000_000_000, "h hour hours"),
        (60_000_000_000, "m min minute minutes"),
        (1_000_000_000, "s sec secs second seconds"),
        (1_000_000, "ms milli millis millisecond milliseconds"),
        (1_000, "µs micro micros microsecond microseconds"),
        (1, "ns nano nanos nanosecond nanoseconds"),
    )
    for word in words.split()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option.

    `default` is its text as the reference documents it, None if there is none; `old_keys` are keys of the same meaning
    in older releases. `is_fixed` options cannot change once a table has a snapshot.
    """

    key: str
    type: str
    parse: Callable[[str], Any]
    default: str | None
    description: str
    choices: tuple[str, ...] = ()
    old_keys: tuple[str, ...] = ()
    is_fixed: bool = False

    @property
    def default_value(self) -> Any:
        """The default as a value; an empty list or mapping for an option of several values without one."""
        if self.default is not None:
            return self.parse(self.default)
        return self.parse("") if self.type in {"names", "levels"} else None

    def parse_value(self, text: str, key: str | None = None) -> Any:
        """Return the value of a text. Raises `InvalidOption` with the key, the text and what is allowed."""
        try:
            return self.parse(text)
        except ValueError as wrong:
            allowed = ", ".join(self.choices) if self.choices else _ALLOWED_TEXTS[self.type]
            shown_text = text if len(text) <= 100 else text[:100] + "…"
            raise InvalidOption(
                f"option {key or self.key!r} is {shown_text!r}; allowed: {allowed}", key=key or self.key, value=text
            ) from wrong

    def find_text(self, texts: Mapping[str, str]) -> tuple[str, str] | None:
        """Return the key and text of the option in a mapping, its own key first, then older ones.

        None without.
        """
        for key in (self.key, *self.old_keys):
            if key in texts:
                return key, texts[key]
        return None


_ALLOWED_TEXTS = {
    "boolean": "true, false",
    "integer": "a whole number of 32 bits",
    "long": "a whole number of 64 bits",
    "number": "a number such as 0.75",
    "duration": "a duration such as 1 h, 30 s, 5 min, 100 ms",
    "size": "a size such as 64 mb, 4 kb, 1 gb",
    "text": "a text",
    "names": "column names with commas between them",
    "levels": "values by level such as 0:avro,5:orc",
    "choice": "one of its choices",
}


# ---- texts -> values -------------------------------------------------------------------------------------------------


def _look_up(values: Mapping[str, T], word: str) -> T:
    """Return the value of a word. Raises `ValueError`, as every reader does for an invalid text."""
    if word not in values:
        raise ValueError(word)
    return values[word]


def read_boolean(text: str) -> bool:
    """Parse `true` or `false`, in any case."""
    return _look_up({"true": True, "false": False}, text.strip().lower())


def read_integer(text: str, bound: int = _INT32_BOUND) -> int:
    """Parse an integer of 32 bits, or within another bound."""
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text.strip()):
        raise ValueError(text)
    value = int(text)
    if not -bound <= value < bound:
        raise ValueError(text)
    return value


def read_long(text: str) -> int:
    """Parse an integer of 64 bits."""
    return read_integer(text, 2**63)


def read_number(text: str) -> float:
    """Parse a finite number."""
    if len(text) > 50 or not re.fullmatch(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?\s*", text):
        raise ValueError(text)
    return float(text)


def read_size(text: str) -> int:
    """Parse a size to bytes: a number and a unit, in powers of 1024.

    Without a unit it is bytes; `infinite` is the greatest size.
    """
    if text.strip().lower() == "infinite":
        return INFINITE_SIZE
    matched = _SIZE_PATTERN.fullmatch(text)
    if matched is None:
        raise ValueError(text)
    size = int(matched.group(1)) * _look_up(_BYTES_OF_UNIT, matched.group(2).lower() or "b")
    if size > INFINITE_SIZE:
        raise ValueError(text)
    return size


def read_duration(text: str) -> int:
    """Parse a duration to milliseconds: a number and a unit, or ISO 8601 such as `PT1H30M`.

    Without a unit it is milliseconds. Fractions of a millisecond are dropped.
    """
    matched = _DURATION_PATTERN.fullmatch(text)
    if matched is not None:
        millis = int(matched.group(1)) * _look_up(_DURATIONS_NS, matched.group(2).lower() or "ms") // 1_000_000
    else:
        millis = read_iso_duration_ns(text.strip()) // 1_000_000
    if not -INFINITE_SIZE <= millis <= INFINITE_SIZE:
        raise ValueError(text)
    return millis


def read_iso_duration_ns(text: str) -> int:
    """Parse an ISO 8601 duration to nanoseconds, as Java does.

    It has days, hours, minutes, and seconds with up to nine decimals.
    """
    matched = _ISO_DURATION_PATTERN.fullmatch(text)
    if matched is None or text[-1:].upper() in {"P", "T"} or not any(matched.groups()[1:]):
        raise ValueError(text)
    sign, days, hours, minutes, seconds = matched.groups()
    whole_seconds, _, fraction = (seconds or "0").partition(".")
    nanos = int(fraction.ljust(9, "0") or 0)
    total = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + int(whole_seconds)
    duration_ns = total * 1_000_000_000 + (-nanos if whole_seconds.startswith("-") else nanos)
    return -duration_ns if sign == "-" else duration_ns


def read_names(text: str) -> tuple[str, ...]:
    """Names between commas, blanks around them dropped."""
    return tuple(name.strip() for name in text.split(",")) if text.strip() else ()


def read_levels(text: str) -> dict[int, str]:
    """Parse `0:avro,5:orc` to a value by level."""
    values = {}
    for part in text.split(",") if text.strip() else ():
        level, colon, value = part.partition(":")
        if not colon:
            raise ValueError(text)
        values[read_integer(level)] = value.strip()
    return values


def normalize_choice(text: str) -> str:
    """Return a choice in lower case with `-` for `_`."""
    return text.strip().lower().replace("_", "-")


# ---- fields of a dataclass of options --------------------------------------------------------------------------------


def _declare(**properties: Any) -> Any:
    option = Option(**properties)
    default_value = option.default_value
    return field(default_factory=lambda: default_value, metadata={"option": option})


def flag(key: str, default: bool | None, description: str, *older: str, fixed: bool = False) -> Any:
    """Declare a boolean option."""
    text = None if default is None else str(default).lower()
    return _declare(
        key=key,
        type="boolean",
        parse=read_boolean,
        default=text,
        description=description,
        old_keys=older,
        is_fixed=fixed,
    )


def integer(key: str, default: int | None, description: str, *older: str, fixed: bool = False) -> Any:
    """Declare an integer option of 32 bits."""
    text = None if default is None else str(default)
    return _declare(
        key=key,
        type="integer",
        parse=read_integer,
        default=text,
        description=description,
        old_keys=older,
        is_fixed=fixed,
    )


def long(key: str, default: int | None, description: str, *older: str) -> Any:
    """Declare an integer option of 64 bits."""
    return _declare(
        key=key,
        type="long",
        parse=read_long,
        default=None if default is None else str(default),
        description=description,
        old_keys=older,
    )


def number(key: str, default: float, description: str) -> Any:
    """Declare a fraction option."""
    return _declare(key=key, type="number", parse=read_number, default=str(default), description=description)


def duration(key: str, default: str | None, description: str, *older: str) -> Any:
    """Declare a duration option, in milliseconds."""
    return _declare(
        key=key, type="duration", parse=read_duration, default=default, description=description, old_keys=older
    )


def size(key: str, default: str | None, description: str, *older: str) -> Any:
    """Declare a size option, in bytes."""
    return _declare(key=key, type="size", parse=read_size, default=default, description=description, old_keys=older)


def text(key: str, default: str | None, description: str, *older: str, fixed: bool = False) -> Any:
    """Declare a text option."""
    return _declare(
        key=key, type="text", parse=str, default=default, description=description, old_keys=older, is_fixed=fixed
    )


def names(key: str, description: str, *older: str, fixed: bool = False) -> Any:
    """Declare an option of comma-separated column names."""
    return _declare(
        key=key, type="names", parse=read_names, default=None, description=description, old_keys=older, is_fixed=fixed
    )


def levels(key: str, description: str) -> Any:
    """Declare an option with a value for each level."""
    return _declare(key=key, type="levels", parse=read_levels, default=None, description=description)


def choice(key: str, default: str | None, description: str, choices: str, *older: str, fixed: bool = False) -> Any:
    """Declare an option with one of a few words, given separated by blanks."""
    allowed = {normalize_choice(word): word for word in choices.split()}
    read = lambda text: _look_up(allowed, normalize_choice(text))  # noqa: E731 - it is the option's reader
    return _declare(
        key=key,
        type="choice",
        parse=read,
        default=default,
        description=description,
        choices=tuple(allowed.values()),
        old_keys=older,
        is_fixed=fixed,
    )


def declared_options(cls: type) -> dict[str, Option]:
    """Return the options of a dataclass, by attribute."""
    return {part.name: part.metadata["option"] for part in fields(cls) if "option" in part.metadata}


def normalize_keys(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options unchanged. Raises `TypeError` if they are no mapping, or a key is no text."""
    if not isinstance(options, Mapping):
        msg = f"options are a dict of values by option, such as {{'scan.mode': 'latest'}}; found {options!r}"
        raise TypeError(msg)
    for key in options:
        if not isinstance(key, str):
            msg = f"an option's key is a text; found {key!r}"
            raise TypeError(msg)
    return options


# ---- frozendict ------------------------------------------------------------


K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V], Generic[K, V]):
    """A dict whose mutating methods raise; equal to a dict of the same items."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        msg = "this mapping never changes; make a dict of it"
        raise TypeError(msg)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


EMPTY: FrozenDict[Any, Any] = FrozenDict()


def freeze(value: Any) -> Any:
    """Return the same JSON value with tuples for lists and `FrozenDict` for dicts."""
    if isinstance(value, dict):
        return FrozenDict({key: freeze(part) for key, part in value.items()})
    if isinstance(value, list):
        return tuple(freeze(part) for part in value)
    return value


# ---- secrets ------------------------------------------------------------


class SecretOptions(FrozenDict[str, Any]):
    """A user's options with their values; printed without secrets."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(hide_secrets(self))

    __str__ = __repr__


def hide_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same options with secrets hidden: the values behind their names, and the users of uris."""
    return {
        key: HIDDEN if is_secret(key) else without_logins(value) if isinstance(value, str) else value
        for key, value in options.items()
    }


# ---- option features ------------------------------------------------------------


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

__all__ = ["HIDDEN", "NAME_PATTERN", "SecretOptions", "hide_secrets", "is_secret"]
