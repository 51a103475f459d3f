"""Values of options of a key table in one bucket: what engine 1.4.2 takes at create and fails by at a write or read, and what it works with."""

from __future__ import annotations

from typing import Any

COLUMNS = {"k": "INT NOT NULL", "v": "INT", "s": "STRING", "p": "STRING NOT NULL"}
FAILING = [
    ("branch", "x"),
    ("bucket-key", "k,k"),
    ("commit.strict-mode.last-safe-snapshot", "-1"),
    ("commit.strict-mode.last-safe-snapshot", "9223372036854775807"),
    ("consumer-id", ""),
    ("data-file.external-paths.weights", "x"),
    ("data-file.path-directory", ""),
    ("data-file.prefix", "a/b"),
    ("changelog-file.prefix", "a/b"),
    ("fields.v.stats-mode", "truncate(0)"),
    ("file.compression", "lzo"),
    ("file.compression", ""),
    ("file.compression.per.level", "0:x"),
    ("global-index.external-path", "x"),
    ("lookup.cache.high-priority-pool-ratio", "-1"),
    ("lookup.cache.high-priority-pool-ratio", "2"),
    ("manifest.compression", "lz4"),
    ("manifest.compression", "none"),
    ("manifest.format", "x"),
    ("manifest.full-compaction-threshold-size", "0"),
    ("metadata.stats-mode", "truncate(0)"),
    ("metadata.stats-mode", "truncate(-1)"),
    ("metadata.stats-mode", "x"),
    ("metadata.stats-mode.per.level", "0:truncate(0)"),
    ("metastore.tag-to-partition.preview", "x"),
    ("num-levels", "0"),
    ("num-levels", "1"),
    ("num-levels", "-1"),
    ("num-levels", "2147483647"),
    ("num-sorted-run.compaction-trigger", "0"),
    ("num-sorted-run.compaction-trigger", "-5"),
    ("page-size", "0"),
    ("read.batch-size", "-1"),
    ("record-level.expire-time", "1 ms"),
    ("rowkind.field", "v"),
    ("sort-spill-threshold", "1"),
    ("spill-compression", "x"),
    ("stream-scan-mode", "x"),
    ("vector.file.format", "x"),
]
USABLE = [
    ("branch", "main"),
    ("bucket-key", "k"),
    ("data-file.path-directory", "data"),
    ("fields.v.stats-mode", "truncate(1)"),
    ("file.compression", "none"),
    ("file.compression", "lz4"),
    ("manifest.compression", "null"),
    ("manifest.full-compaction-threshold-size", "1 b"),
    ("metadata.stats-mode", "truncate(1)"),
    ("num-levels", "2"),
    ("num-sorted-run.compaction-trigger", "1"),
    ("page-size", "64 kb"),
    ("read.batch-size", "1"),
    ("scan.manifest.parallelism", "1"),
    ("sort-spill-threshold", "2"),
    ("spill-compression", "lz4"),
    ("stream-scan-mode", "file-monitor"),
]


def keys_of(options: dict[str, str]) -> dict[str, Any]:
    """How a table of `COLUMNS` is made with options."""
    return {"primary_keys": ["k", "p"], "partition_keys": ["p"], "options": {"bucket": "1", **options}}
