"""Keys that move between partitions, against the rule taken a row at a time (ENGINE 7.5), and the keys that golden tables hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from lakekit.data_file.paths import data_file_path
from lakekit.data_file.reader import scan_files
from lakekit.errors import ValueOutOfRange
from lakekit.lsm import merge
from lakekit.metadata import manifest_reader, snapshots
from lakekit.metadata.table_context import open_context
from lakekit.testing.fixtures import fixtures
from lakekit.write import cross_partition, dynamic_bucket, router
from lakekit.write.cross_partition import CrossPartition, bootstrap_index
from spec_tests.laws.write_front import table

TABLES = Path(fixtures(), "tables")
CROSS = ("bucket_cross_aggregation", "bucket_cross_deduplicate", "bucket_cross_first_row", "bucket_cross_partial_update", "bucket_cross_partition_forgotten")
ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
SCHEMA = {"k": pl.Int32, "pt": pl.String, "v": pl.Int32, "_VALUE_KIND": pl.Int8}


def keyed(engine: str = "deduplicate", **options: str):
    return table({"k": "INT NOT NULL", "pt": "STRING", "v": "INT"}, keys=("k",), partitions=("pt",), merge_engine=engine, **options)


def rows(*given_: tuple) -> pl.DataFrame:
    return pl.DataFrame([(*row, 0)[:4] for row in given_], schema=SCHEMA, orient="row")


def placed(assigner: CrossPartition, frame: pl.DataFrame) -> list[tuple]:
    """Every row that is written, in order: key, partition's value, value, kind, bucket; the partition's row must say what the column says."""
    found = assigner.assign(frame)
    assert found.frame.schema == frame.schema
    texts = {row: cross_partition._partition_columns(assigner.ctx, row, found.frame.select("pt")).item() for row in found.partitions.partition_rows}
    assert [texts[found.partitions.partition_rows[code]] for code in found.partitions.codes] == found.frame["pt"].to_list()
    return [(*row, bucket) for row, bucket in zip(found.frame.rows(), found.buckets.tolist(), strict=True)]


def test_the_worked_example():
    found = CrossPartition.for_table(keyed())
    assert placed(found, rows((1, "p1", 1), (1, "p2", 2))) == [(1, "p1", 1, 0, 0), (1, "p1", 2, 3, 0), (1, "p2", 2, 0, 0)]
    for engine in ("partial-update", "aggregation"):
        assert placed(CrossPartition.for_table(keyed(engine)), rows((1, "p1", 1), (1, "p2", 2))) == [(1, "p1", 1, 0, 0), (1, "p1", 2, 0, 0)]
    assert placed(CrossPartition.for_table(keyed("first-row")), rows((1, "p1", 1), (1, "p2", 2))) == [(1, "p1", 1, 0, 0)]


class Told:
    """One row at a time. Buckets are checked by what they must keep: a key stays in one, and none holds more than the target."""

    def __init__(self, engine: str) -> None:
        self.engine, self.places = engine, {}

    def take(self, k, pt, v, kind) -> list[tuple]:
        before = self.places.get(k, pt)
        if before == pt:
            self.places[k] = pt
            return [(k, pt, v, kind)]
        if self.engine == "deduplicate":
            self.places[k] = pt
            return [(k, before, v, 3), (k, pt, v, kind)]
        return [] if self.engine == "first-row" else [(k, before, v, 0 if kind == 2 else kind)]  # what comes home is inserted


ROW = st.tuples(st.integers(0, 6), st.sampled_from(["a", "b", None]), st.integers(0, 99), st.sampled_from([0, 2, 3]))


@pytest.mark.long
@settings(max_examples=35)
@given(engine=st.sampled_from(ENGINES), batches=st.lists(st.lists(ROW, min_size=1, max_size=12), min_size=1, max_size=4), target=st.integers(1, 3))
def test_every_row_goes_where_the_rule_says(engine, batches, target):
    found, told = CrossPartition.for_table(keyed(engine, dynamic_bucket__target_row_num=str(target))), Told(engine)
    where: dict[int, tuple] = {}
    for batch in batches:
        written = placed(found, rows(*batch))
        assert [row[:4] for row in written] == [row for given_ in batch for row in told.take(*given_)]
        for k, pt, _, kind, bucket in written:
            if k in where and where[k][0] == pt:
                assert where[k][1] == bucket  # rows and the -D that follows them meet in one bucket
            if k in where and where[k][0] != pt:
                assert kind != 3 or told.engine == "deduplicate"
            where[k] = (pt, bucket)
    assert found.key_locations is not None
    names = found.key_locations.partition_columns["pt"].to_list()
    held = {
        k: (names[number], bucket)
        for k, number, bucket in zip(found.key_locations.keys["k"], found.key_locations.partition, found.key_locations.bucket, strict=True)
    }
    assert held == where
    counts = {(names[number], bucket): count for number, buckets in found.key_locations.counts.items() for bucket, count in buckets.items() if count}
    assert counts == {place: sum(1 for each in where.values() if each == place) for place in set(where.values())}
    assert all(count <= target for count in counts.values())


def test_a_key_that_lacks_no_partition_column_is_not_asked_about():
    assert isinstance(router.make_assigner(keyed()), CrossPartition)
    inside = table({"k": "INT NOT NULL", "pt": "STRING NOT NULL"}, keys=("k", "pt"), partitions=("pt",))
    assert isinstance(router.make_assigner(inside), dynamic_bucket.DynamicBuckets)


def test_a_partition_that_is_full():
    found = CrossPartition.for_table(keyed(dynamic_bucket__target_row_num="1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_partition, "MAX_BUCKET_COUNT", 2)
        with pytest.raises(ValueOutOfRange, match=r"raise dynamic-bucket\.target-row-num"):
            found.assign(rows((1, "a", 0), (2, "a", 0), (3, "a", 0)))


def test_keys_are_forgotten_after_their_time():
    clock = [1_000]
    handle = keyed(cross_partition_upsert__index_ttl="1 s")
    found = CrossPartition.for_table(replace(handle, runtime=replace(handle.runtime, now_ms=lambda: clock[0])))
    placed(found, rows((1, "a", 0), (2, "a", 0)))
    clock[0] += 1_000
    assert placed(found, rows((1, "b", 1))) == [(1, "a", 1, 3, 0), (1, "b", 1, 0, 0)]
    clock[0] += 1
    assert placed(found, rows((2, "b", 1), (1, "a", 2))) == [(2, "b", 1, 0, 0), (1, "b", 2, 3, 0), (1, "a", 2, 0, 0)]


# ---- golden tables -----------------------------------------------------------------------------------------------------------------------------------


def standing(handle):
    """Where every key lies, from each bucket's files merged on their own."""
    entries = manifest_reader.read_live_entries(handle, snapshots.latest(handle))
    found: dict[tuple[bytes, int], list[pl.DataFrame]] = {}
    for i in range(len(entries)):
        partition, bucket, file = entries.column("partition")[i].as_py(), int(entries.column("bucket")[i].as_py()), entries.file(i)
        path = data_file_path(handle, partition, bucket, file)
        scanned = scan_files(handle, [file], [path], handle.schema.fields, system=["_SEQUENCE_NUMBER", "_VALUE_KIND"]).collect()
        found.setdefault((partition, bucket), []).append(scanned)
    rule = replace(merge.merge_spec_from_options(handle.schema, handle.all_options), needs_lookup=False)
    for place, frames in found.items():
        yield place, merge.merge_section(pl.concat(frames), rule)


@pytest.mark.long
@pytest.mark.parametrize("name", CROSS)
def test_keys_of_golden_tables(name):
    handle = open_context(str(TABLES / name))
    places = bootstrap_index(handle, snapshots.latest(handle))
    keys = list(handle.schema.primary_keys)
    told = {row: place for place, frame in standing(handle) for row in frame.select(keys).rows()}
    assert told
    assert {
        row: (places.partition_rows[number], int(bucket)) for row, number, bucket in zip(places.keys.rows(), places.partition, places.bucket, strict=True)
    } == told
    assert {(places.partition_rows[number], bucket): count for number, buckets in places.counts.items() for bucket, count in buckets.items()} == {
        place: list(told.values()).count(place) for place in set(told.values())
    }


def test_files_older_than_the_index_lives_are_not_read():
    handle = open_context(str(TABLES / "bucket_cross_deduplicate"), options={"cross-partition-upsert.index-ttl": "1 d"})
    made_ms = max(file.creation_time_ms or 0 for file in manifest_reader.read_live_entries(handle, snapshots.latest(handle)).files())
    for days, count in ((0, 5), (3, 0)):
        then = replace(handle, runtime=replace(handle.runtime, now_ms=lambda days=days: made_ms + days * 86_400_000))
        assert bootstrap_index(then, snapshots.latest(then)).keys.height == count


def test_keys_that_are_floats_are_told_apart_by_their_bits():
    handle = table({"k": "DOUBLE NOT NULL", "pt": "STRING"}, keys=("k",), partitions=("pt",))
    found = CrossPartition.for_table(handle)
    frame = pl.DataFrame({"k": [0.0, -0.0, float("nan"), 0.0], "pt": ["a", "b", "c", "d"], "_VALUE_KIND": pl.Series([0] * 4, dtype=pl.Int8)})
    assert found.assign(frame).frame["_VALUE_KIND"].to_list() == [0, 0, 0, 3, 0]
    assert np.isnan(found.assign(frame[2:3]).frame["k"][0])
