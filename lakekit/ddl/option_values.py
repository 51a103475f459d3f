"""Values of options that the reference accepts, and that make every write or read fail.

    check_option_values(schema, options)       raises the first of them

Every rule was seen to fail in engine 1.4.2: option by option, value by value
(`spec_tests/differential/test_option_values.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.codec.avro_container import to_avro_codec
from lakekit.data_file.file_metadata import parse_stats_mode
from lakekit.errors import InvalidOption, Unsupported
from lakekit.format import orc_write, parquet_writer
from lakekit.types import STRINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lakekit.model.table_schema import TableSchema
    from lakekit.options.table_options import TableOptions

MAX_LEVELS = 1 << 20
"""Levels that an engine holds an object of each for; more than these do not fit its memory."""
MAX_BATCH_ROWS = 1 << 24
"""Rows that an engine makes arrays for at once; more do not fit its memory."""
_MANIFEST_FORMATS = ("avro", "orc", "parquet")
_SPILL_CODECS = ("none", "lz4", "lzo", "zstd")
_STREAM_MODES = ("none", "compact-bucket-table", "file-monitor")
_VECTOR_FORMATS = ("parquet", "orc", "avro", "lance", "vortex", "mosaic")
_TAG_MODES = ("none", "process-time", "watermark", "batch")
_FILE_PREFIX_OPTIONS = ("data-file.prefix", "changelog-file.prefix")


def check_option_values(schema: TableSchema, options: TableOptions) -> None:
    """Raise for the first option whose value no engine can write or read with.

    Raises: `InvalidOption` naming the option, `Unsupported` for a codec that lakekit does not write.
    """
    for rule in (_check_levels, _check_statistics, _check_codecs):
        rule(schema, options)
    for key, (is_usable, requirement) in VALUE_RULES.items():
        text = options.texts.get(key)
        if text is not None and not is_usable(text.strip()):
            raise _make_refusal(key, text, requirement)
    if (
        schema.primary_keys
        and options.record_level_expire_time_ms is not None
        and options.record_level_time_field is None
    ):
        key = "record-level.expire-time"
        raise _make_refusal(
            key, options.texts[key], "record-level.time-field must name the column that holds a row's time"
        )
    if (name := options.rowkind_field) is not None and schema.has(name) and schema.field(name).type.root not in STRINGS:
        raise _make_refusal(
            "rowkind.field", name, f"it names a column of texts, and {name} is {schema.field(name).type}"
        )
    names = [name.strip() for name in options.texts.get("bucket-key", "").split(",")]
    if len(names) != len(set(names)):
        raise _make_refusal("bucket-key", options.texts["bucket-key"], "a column is named once")


def _make_refusal(key: str, text: str, requirement: str) -> InvalidOption:
    return InvalidOption(
        f"option {key!r} is {text!r}; {requirement}. The reference engine fails by it at every write or read",
        key=key,
        value=text,
    )


def _check_levels(schema: TableSchema, options: TableOptions) -> None:
    if schema.primary_keys and not 2 <= options.level_count <= MAX_LEVELS:
        key = "num-levels" if "num-levels" in options.texts else "num-sorted-run.compaction-trigger"
        what = f"number of levels must be at least 2, and at most {MAX_LEVELS}: it is {options.level_count}"
        raise _make_refusal(
            key,
            options.texts.get(key, ""),
            what + ("" if key == "num-levels" else ", one more than the trigger where num-levels is not given"),
        )


def _check_statistics(schema: TableSchema, options: TableOptions) -> None:
    for mode, key in _statistics_modes(schema, options):
        parse_stats_mode(mode, key)


def _statistics_modes(schema: TableSchema, options: TableOptions) -> Iterator[tuple[str, str]]:
    yield options.metadata_stats_mode, "metadata.stats-mode"
    for mode in options.metadata_stats_mode_per_level.values():
        yield mode, "metadata.stats-mode.per.level"
    if options.changelog_file_stats_mode is not None:
        yield options.changelog_file_stats_mode, "changelog-file.stats-mode"
    for name in schema.names:
        if (own := options.field(name).stats_mode) is not None:
            yield own, f"fields.{name}.stats-mode"


def _check_codecs(schema: TableSchema, options: TableOptions) -> None:
    """Refuse a codec that the files of a table cannot have; raises `Unsupported`."""
    _check_codec("manifest.compression", options.manifest_format, options.manifest_compression)
    levels = {*options.file_format_per_level, *options.file_compression_per_level} if schema.primary_keys else set()
    files = {(options.file_format, options.file_compression)}
    files |= {
        (
            options.file_format_per_level.get(level, options.file_format),
            options.file_compression_per_level.get(level, options.file_compression),
        )
        for level in levels
    }
    if options.changelog_producer != "none":
        files.add(
            (
                options.changelog_file_format or options.file_format,
                options.changelog_file_compression or options.file_compression,
            )
        )
    for name, compression in sorted(files):
        _check_codec("file.compression", name, compression)


def _check_codec(key: str, format_name: str, compression: str) -> None:
    """Raise `Unsupported` for a codec that files of a format cannot have."""
    codecs: Mapping[str, str] | None = {
        "parquet": parquet_writer.CODEC_OF_COMPRESSION,
        "orc": orc_write.CODEC_OF_COMPRESSION,
    }.get(format_name.strip().lower())
    if codecs is None:
        to_avro_codec(compression)
    elif compression.lower() not in codecs:
        names = ", ".join(codecs)
        raise Unsupported(
            f"{key} {compression!r}: {format_name} files are compressed by one of {names}", feature="file.compression"
        )


def _is_size_above_zero(text: str) -> bool:
    return text.lower().rstrip("abcdefghijklmnopqrstuvwxyz ").strip("0") != ""


def _is_fraction(text: str) -> bool:
    return 0 <= float(text) < 1


def _are_integers(text: str) -> bool:
    return all(part.strip().isdecimal() for part in text.split(","))


def _is_inner_path(text: str) -> bool:
    return (
        text != ""
        and not text.startswith("/")
        and not any(part in ("", ".", "..") for part in text.rstrip("/").split("/"))
    )


def _is_file_prefix(text: str) -> bool:
    return "/" not in text and "\\" not in text


def _has_scheme(text: str) -> bool:
    return ":" in text


def _is_snapshot(text: str) -> bool:
    return 0 <= int(text) < 2**63 - 1


VALUE_RULES: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "branch": (
        lambda text: text in ("", "main"),
        "a branch is made by t.create_branch and opened by lk.open(path, branch=…), no option of the table",
    ),
    "commit.strict-mode.last-safe-snapshot": (_is_snapshot, "it is the number of a snapshot"),
    "consumer-id": (lambda text: text != "", "consumer id cannot be empty string"),
    "data-file.external-paths.weights": (_are_integers, "it is whole numbers with commas between them"),
    "data-file.path-directory": (_is_inner_path, "it is a directory inside that of the table, as data"),
    "global-index.external-path": (_has_scheme, "it is a path with a scheme, as s3://bucket/indexes"),
    "lookup.cache.high-priority-pool-ratio": (_is_fraction, "it is in the range [0, 1)"),
    "manifest.format": (lambda text: text.lower() in _MANIFEST_FORMATS, f"there are {', '.join(_MANIFEST_FORMATS)}"),
    "manifest.full-compaction-threshold-size": (_is_size_above_zero, "it is more than 0"),
    "metastore.tag-to-partition.preview": (
        lambda text: text.lower() in _TAG_MODES,
        f"there are {', '.join(_TAG_MODES)}",
    ),
    "read.batch-size": (lambda text: 1 <= int(text) <= MAX_BATCH_ROWS, f"it is between 1 and {MAX_BATCH_ROWS} rows"),
    "scan.manifest.parallelism": (lambda text: int(text) >= 1, "it is 1 or more"),
    "sort-spill-threshold": (lambda text: int(text) >= 2, "it cannot be smaller than 2"),
    "spill-compression": (lambda text: text.lower() in _SPILL_CODECS, f"there are {', '.join(_SPILL_CODECS)}"),
    "stream-scan-mode": (lambda text: text.lower() in _STREAM_MODES, f"there are {', '.join(_STREAM_MODES)}"),
    "vector.file.format": (lambda text: text.lower() in _VECTOR_FORMATS, f"there are {', '.join(_VECTOR_FORMATS)}"),
    "page-size": (_is_size_above_zero, "it is more than 0"),
    **dict.fromkeys(_FILE_PREFIX_OPTIONS, (_is_file_prefix, "a name of a file has no / in it")),
}
"""By option: whether a value is one, and what it has to be."""
