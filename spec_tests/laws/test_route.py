"""Rows reach the partition and the bucket where the reference put them: every row of golden tables, hashed again, lies where it would be sent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from lakekit.data_file.paths import data_file_path
from lakekit.data_file.reader import scan_files
from lakekit.errors import InvalidOption, ValueOutOfRange
from lakekit.metadata import manifest_reader, snapshots
from lakekit.metadata.table_context import open_context
from lakekit.testing.fixtures import fixtures
from lakekit.write import router
from lakekit.write.bucket_assigners import FixedBuckets, OneBucket
from lakekit.write.dynamic_bucket import DynamicBuckets
from spec_tests.laws.write_front import table

TABLES = Path(fixtures(), "tables")
PATTERNS = ("bucket_default_*", "bucket_hive_*", "bucket_mod_*", "bucket_rescaled", "bucket_several_columns", "bucket_fixed_*", "append_bucketed*")
TYPES = ("partition_*_*", "types_key_*_parquet", "types_key_floats_avro")
FIXED = sorted(path.name for pattern in (*PATTERNS, *TYPES) for path in TABLES.glob(pattern) if path.is_dir())
DYNAMIC = ("bucket_dynamic", "bucket_dynamic_partitioned", "old_0_8_2_dynamic", "old_0_9_0_dynamic", "old_1_0_1_dynamic", "old_1_2_0_dynamic")


def places(handle):
    """Partition, bucket, number of buckets and rows of every live file."""
    entries = manifest_reader.read_live_entries(handle, snapshots.latest(handle))
    partitions, buckets, totals = (entries.column(name).to_pylist() for name in ("partition", "bucket", "total_buckets"))
    for i, (partition, bucket, total) in enumerate(zip(partitions, buckets, totals, strict=True)):
        file = entries.file(i)
        rows = scan_files(handle, [file], [data_file_path(handle, partition, bucket, file)], handle.schema.fields).collect()
        yield partition, bucket, total, rows


@pytest.mark.long
@pytest.mark.parametrize("name", FIXED)
def test_rows_of_golden_tables_are_sent_where_they_lie(name):
    handle = open_context(str(TABLES / name))
    seen = 0
    for partition, bucket, total, rows in places(handle):
        found = list(router.split_by_bucket(rows, handle, router.make_assigner(handle.with_options({"bucket": total}) if total > 0 else handle)))
        assert [(one, two) for one, two, _ in found] == [(partition, bucket)]
        assert found[0][2].equals(rows)
        seen += rows.height
    assert seen


@pytest.mark.long
@pytest.mark.parametrize("name", DYNAMIC)
def test_keys_of_golden_tables_stay_in_their_dynamic_bucket(name):
    handle = open_context(str(TABLES / name))
    found = DynamicBuckets.for_table(handle)
    seen = 0
    for partition, bucket, _, rows in places(handle):
        assert [(one, two) for one, two, _ in router.split_by_bucket(rows, handle, found)] == [(partition, bucket)]
        seen += rows.height
    assert seen
    assert not found.prepare(lambda: "never").files


# ---- against one row after the other -----------------------------------------------------------------------------------------------------------------

ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", None, "", "long enough to leave its slot"]), st.sampled_from([0.0, -0.0, 1.5, None]), st.integers(0, 40)))


@pytest.mark.long
@settings(max_examples=20)
@given(rows=ROWS, count=st.integers(1, 5))
def test_split_is_a_stable_grouping(rows, count):
    handle = table({"p": "STRING", "q": "DOUBLE", "k": "INT"}, partitions=("p", "q"), bucket=str(count), bucket_key="k")
    frame = pl.DataFrame(rows, schema={"p": pl.String, "q": pl.Float64, "k": pl.Int32}, orient="row").with_row_index("row")
    assigner = FixedBuckets(ctx=handle)
    groups: dict[tuple[str, int], list[int]] = {}
    for at in range(frame.height):  # one row at a time is the oracle
        placed = assigner.assign(frame[at])
        groups.setdefault((placed.partitions.partition_rows[placed.partitions.codes[0]], int(placed.buckets[0])), []).append(at)
    found = {(partition, bucket): part["row"].to_list() for partition, bucket, part in router.split_by_bucket(frame, handle, assigner)}
    assert found == groups
    texts = {(p, None if q is None else str(q)) for p, q, _ in rows}
    assert len({partition for partition, _ in found}) == len(texts)


def test_one_bucket_for_tables_that_know_none_and_for_postponed_ones():
    plain = table({"a": "INT"})
    parts = router.split_by_bucket(pl.DataFrame({"a": [2, 1]}, schema={"a": pl.Int32}), plain, router.make_assigner(plain))
    assert [(bucket, part.height) for _, bucket, part in parts] == [(0, 2)]
    postponed = table({"k": "INT NOT NULL"}, keys=("k",), bucket="-2")
    assert isinstance(router.make_assigner(postponed), OneBucket)
    frame = pl.DataFrame({"k": [1, 2], "_VALUE_KIND": [0, 3]}, schema={"k": pl.Int32, "_VALUE_KIND": pl.Int8})
    assert [(bucket, part["k"].to_list()) for _, bucket, part in router.split_by_bucket(frame, postponed, router.make_assigner(postponed))] == [(-2, [1, 2])]
    assert list(router.split_by_bucket(frame[:0], postponed, router.make_assigner(postponed))) == []


def test_a_bucket_that_the_caller_names():
    handle = table({"k": "INT NOT NULL"}, keys=("k",), bucket="4")
    frame = pl.DataFrame({"k": np.arange(10, dtype=np.int32)})
    assert [bucket for _, bucket, _ in router.split_by_bucket(frame, handle, router.make_assigner(handle, bucket=3))] == [3]
    with pytest.raises(InvalidOption, match="leave bucket=3 out"):
        router.make_assigner(table({"k": "INT NOT NULL"}, keys=("k",)), bucket=3)
    for options, bucket in (({}, 1), ({"bucket": "-2"}, -1)):
        with pytest.raises(InvalidOption, match=f"no bucket {bucket} in"):
            router.make_assigner(table({"k": "INT NOT NULL"}, keys=("k",) if options else (), **options), bucket=bucket)
    with pytest.raises(InvalidOption, match=r"no bucket 4 in shop\.t, whose option bucket is 4"):
        router.make_assigner(handle, bucket=4)


@pytest.mark.parametrize("bucket", ["0", "-3", "-2"])
def test_numbers_of_buckets_that_mean_nothing(bucket):
    with pytest.raises(InvalidOption, match=f"bucket={bucket}"):
        router.make_assigner(table({"a": "INT"}, bucket=bucket))


def test_partitions_that_must_say_a_time():
    strict = {"partition__timestamp_format__strict": "true", "partition__timestamp_formatter": "yyyyMMdd"}
    handle = table({"dt": "STRING", "a": "INT"}, partitions=("dt",), **strict)
    frame = pl.DataFrame({"dt": ["20240229", "2024-02-29"], "a": [1, 2]}, schema={"dt": pl.String, "a": pl.Int32})
    assert len(list(router.split_by_bucket(frame[:1], handle, router.make_assigner(handle)))) == 1
    with pytest.raises(ValueOutOfRange, match=r"partition dt=2024-02-29 of shop\.t says no time by partition\.timestamp-pattern=None"):
        list(router.split_by_bucket(frame, handle, router.make_assigner(handle)))
    lax = table({"dt": "STRING", "a": "INT"}, partitions=("dt",), partition__timestamp_format__strict="true")
    assert len(list(router.split_by_bucket(frame, lax, router.make_assigner(lax)))) == 2


def test_append_tables_take_nothing_away():
    handle = table({"a": "INT"})
    frame = pl.DataFrame({"a": [1, 2, 3], "_VALUE_KIND": [0, 2, 3]}, schema={"a": pl.Int32, "_VALUE_KIND": pl.Int8})
    with pytest.raises(ValueOutOfRange, match=r"row 2: shop\.t is an append table, which takes \+I and \+U rows and not -D"):
        list(router.split_by_bucket(frame, handle, router.make_assigner(handle)))
    [(_, _, rows)] = router.split_by_bucket(frame[:2], handle, router.make_assigner(handle))
    assert rows.columns == ["a"]
