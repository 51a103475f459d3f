"""Tables of each kind, twice: one for Spark to change, one to hold it against."""

from __future__ import annotations

import shutil

import polars as pl

import lakekit as lk

COLUMNS = {"k": "BIGINT NOT NULL", "p": "STRING NOT NULL", "v": "INT", "at": "TIMESTAMP(9)"}
KINDS = {
    "fixed": {"primary_keys": ["k", "p"], "partition_keys": ["p"], "options": {"bucket": "2"}},
    "dynamic": {"primary_keys": ["k"], "options": {"dynamic-bucket.target-row-num": "20"}},
    "cross": {"primary_keys": ["k"], "partition_keys": ["p"]},
    "vectors": {"primary_keys": ["k"], "options": {"bucket": "2", "deletion-vectors.enabled": "true"}},
    "append": {"partition_keys": ["p"]},
    "append with vectors": {"partition_keys": ["p"], "options": {"deletion-vectors.enabled": "true"}},
    "append in buckets": {"options": {"bucket": "2", "bucket-key": "k"}},
}


def rows(first: int, last: int, step: int = 1) -> pl.DataFrame:
    k = pl.int_range(first, last, step)
    at = (pl.lit(1_700_000_000_000_000_001) + k).cast(pl.Datetime("ns"))
    return pl.select(k=k, p=pl.format("p{}", k % 3), v=(k % 10).cast(pl.Int32), at=at)


def two_alike(tmp_path, **how):
    t = lk.create(tmp_path / "one" / "t", COLUMNS, **how)
    t.append(rows(0, 60))
    t.append(rows(60, 90) if not t.primary_keys else rows(40, 90))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    return t, lk.open(tmp_path / "two" / "t")


def read(t):
    return t.scan().collect().sort(pl.all())
