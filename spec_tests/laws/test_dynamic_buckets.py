"""Dynamic buckets put keys where the reference's rule puts them, one key after the other (ENGINE 7.3), whatever the batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from lakekit.codec import hashing, index_files
from lakekit.data_file.paths import partition_path
from lakekit.errors import Corrupt, ValueOutOfRange
from lakekit.model.index_manifest import HASH_INDEX, IndexManifestEntry
from lakekit.write import bucket_assigners, dynamic_bucket, router
from lakekit.write.bucket_assigners import KeyHashes
from lakekit.write.dynamic_bucket import NO_IDENTIFIER, AssignmentRule, DynamicBuckets, PartitionHashIndex
from spec_tests.laws.write_front import table

EMPTY = bytes(12)
HASHES = st.lists(st.integers(-20, 20) | st.sampled_from([-(2**31), 2**31 - 1]), max_size=40)


def java_remainder(number: int, by: int) -> int:
    return int(np.fmod(number, by))


class Told:
    """The pseudo code of ENGINE 7.3, a key at a time; None where the reference picks a bucket by chance."""

    def __init__(self, rule: AssignmentRule, loaded: dict[int, list[int]]) -> None:
        self.rule, self.loaded = rule, loaded
        self.where = {one: bucket for bucket, hashes in loaded.items() for one in hashes}
        self.assigners: dict[int, dict[int, int]] = {}
        self.full: set[tuple[int, int]] = set()

    def assign(self, one: int) -> int | None:
        if one in self.where:
            return self.where[one]
        rule, start = self.rule, abs(java_remainder(hashing.row_hash_code(EMPTY[4:]), self.rule.channel_count))
        number = (start + abs(java_remainder(one, rule.assigner_count))) % rule.channel_count
        if number not in self.assigners:
            own = {bucket: len(hashes) for bucket, hashes in sorted(self.loaded.items())}
            self.assigners[number] = {bucket: count for bucket, count in own.items() if bucket % rule.assigner_count == number % rule.assigner_count}
        counts = self.assigners[number]
        for bucket in counts:
            if (number, bucket) not in self.full:
                if counts[bucket] < rule.target_rows:
                    counts[bucket] += 1
                    self.where[one] = bucket
                    return bucket
                self.full.add((number, bucket))
        for bucket in range(rule.max_buckets):
            if bucket not in counts and bucket % rule.assigner_count == number % rule.assigner_count:
                counts[bucket] = 1
                self.where[one] = bucket
                return bucket
        return None


def rules(**given: int) -> AssignmentRule:
    return replace(AssignmentRule(target_rows=3, max_buckets=bucket_assigners._MAX_BUCKETS - 1, is_limited=False, channel_count=1, assigner_count=1), **given)


@st.composite
def some_rules(draw):
    most = draw(st.sampled_from([2, 5, dynamic_bucket.MAX_BUCKET_COUNT]))
    channels = draw(st.integers(1, min(4, most)))
    target, assigners = draw(st.integers(1, 6)), draw(st.integers(1, channels))
    return AssignmentRule(target_rows=target, max_buckets=most, is_limited=most < 10, channel_count=channels, assigner_count=assigners)


@pytest.mark.long
@settings(max_examples=80)
@given(rule=some_rules(), batches=st.lists(HASHES, max_size=4), loaded=st.lists(st.lists(st.integers(-20, 20), max_size=5, unique=True), max_size=3))
def test_every_key_goes_where_the_rule_says(rule, batches, loaded):
    seen: set[int] = set()
    files = {bucket: [one for one in hashes if not (one in seen or seen.add(one))] for bucket, hashes in enumerate(loaded[: rule.max_buckets])}
    told = Told(rule, files)
    known = KeyHashes.of_files((bucket, np.array(hashes, np.int32)) for bucket, hashes in files.items())
    index = PartitionHashIndex(partition=EMPTY, key_hashes=known, row_counts={bucket: len(hashes) for bucket, hashes in files.items()})
    for batch in batches:
        if not batch:
            continue
        found = index.assign(np.array(batch, np.int32), rule)
        for one, bucket in zip(batch, found.tolist(), strict=True):
            wanted = told.assign(one)
            if wanted is None:
                assert rule.is_limited
                assert 0 <= bucket < rule.max_buckets
                wanted = told.where[one] = bucket
            assert bucket == wanted
    assert {bucket for bucket in told.where.values() if bucket in index.changed_buckets} == index.changed_buckets
    contents = dict(index.key_hashes.of_buckets(range(rule.max_buckets if rule.is_limited else 60)))
    for bucket, hashes in contents.items():
        assert sorted(hashes.tolist()) == sorted(one for one, where in told.where.items() if where == bucket)


@settings(max_examples=40)
@given(
    files=st.lists(HASHES, max_size=4),
    added=st.lists(st.integers(-(2**31), 2**31 - 1), unique=True, max_size=60),
    piece=st.integers(1, 5),
    held=st.sampled_from([3, 1 << 23]),
)
def test_the_map_is_a_dict(files, added, piece, held):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_assigners, "RUN_HASHES", piece)
        patch.setattr(bucket_assigners, "_MIN_RECENT_HASHES", piece)
        patch.setattr(bucket_assigners, "_LARGE_HASH_COUNT", held)
        made = KeyHashes.of_files((bucket, np.array(hashes, np.int32)) for bucket, hashes in enumerate(files))
        told = {one: bucket for bucket, hashes in enumerate(files) for one in hashes}
        for at in range(0, len(added), 7):
            new = sorted(set(added[at : at + 7]) - set(told))
            made.add(np.array(new, np.int32), np.array([one % 5 for one in new], np.int16))
            told |= {one: one % 5 for one in new}
        asked = np.array(sorted({*told, *added, 0, -1, 2**31 - 1}), np.int32)
        assert made.find(asked).tolist() == [told.get(one, -1) for one in asked.tolist()]
        assert len(made) == len(told)
        assert {bucket: set(hashes.tolist()) for bucket, hashes in made.of_buckets(range(6))} == {
            bucket: {one for one, where in told.items() if where == bucket} for bucket in range(6)
        }
        for bucket in range(6):
            [(_, hashes)] = made.of_buckets([bucket])
            assert sorted(hashes.tolist()) == sorted(one for one, where in told.items() if where == bucket)


def test_the_worked_example():
    """Seed example of ENGINE 7.3: target 1000, key1's hash 123456; keys 2 to 1000 in bucket 0, the next in bucket 1, an update of key1 in bucket 0."""
    index, rule = PartitionHashIndex(partition=EMPTY), rules(target_rows=1000)
    assert index.assign(np.array([123456], np.int32), rule).tolist() == [0]
    assert set(index.assign(np.arange(2, 1001, dtype=np.int32), rule).tolist()) == {0}
    assert index.assign(np.array([2000, 123456], np.int32), rule).tolist() == [1, 0]


def test_a_key_takes_six_bytes():
    made = KeyHashes()
    for start in range(0, 1_000_000, 100_000):
        made.add(np.arange(start, start + 100_000, dtype=np.int32) * 2000 - 2**30, np.zeros(100_000, np.int16))
    assert made.memory_bytes == 6 * len(made) == 6_000_000


# ---- options -----------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, (2_000_000, 32767, False, 1, 1)),
        ({"dynamic_bucket__max_buckets": "0"}, (2_000_000, 32767, False, 1, 1)),
        ({"dynamic_bucket__max_buckets": "-1", "dynamic_bucket__target_row_num": "7"}, (7, 32767, False, 1, 1)),
        ({"dynamic_bucket__max_buckets": "3", "dynamic_bucket__assigner_parallelism": "8"}, (2_000_000, 3, True, 3, 3)),
        ({"dynamic_bucket__initial_buckets": "4"}, (2_000_000, 32767, False, 4, 4)),
        ({"dynamic_bucket__initial_buckets": "2", "dynamic_bucket__assigner_parallelism": "5"}, (2_000_000, 32767, False, 5, 2)),
    ],
)
def test_options(options, wanted):
    rule = AssignmentRule.from_options(table({"k": "INT NOT NULL"}, keys=("k",), **options))
    assert (rule.target_rows, rule.max_buckets, rule.is_limited, rule.channel_count, rule.assigner_count) == wanted


def test_no_bucket_is_left():
    index = PartitionHashIndex(partition=EMPTY, row_counts={0: 2})
    with pytest.raises(ValueOutOfRange, match=r"no more than 1 are possible: raise dynamic-bucket\.target-row-num"):
        index.assign(np.array([1], np.int32), rules(target_rows=2, max_buckets=1))


# ---- files -------------------------------------------------------------------------------------------------------------------------------------------


def names():
    return iter(f"index-0-{number}" for number in range(1000)).__next__


def keyed(**options: str):
    return table({"k": "BIGINT NOT NULL", "p": "INT NOT NULL"}, keys=("p", "k"), partitions=("p",), dynamic_bucket__target_row_num="2", **options)


def rows(*pairs: tuple[int, int]) -> pl.DataFrame:
    return pl.DataFrame(pairs, schema={"k": pl.Int64, "p": pl.Int32}, orient="row")


def test_changed_buckets_get_whole_new_files_and_say_what_they_rest_on():
    handle = keyed()
    found, new_name = DynamicBuckets.for_table(handle), names()
    parts = router.split_by_bucket(rows((1, 1), (2, 1), (3, 1), (1, 2)), handle, found)
    assert sorted((bucket, part.height) for _, bucket, part in parts) == [(0, 1), (0, 2), (1, 1)]
    first = found.prepare(new_name)
    partition = next(iter(found.indexes))
    assert first.bases == dict.fromkeys(found.indexes, ())
    assert sorted((where[1], file.row_count, file.file_size_bytes, file.index_type) for where, file in first.files.items()) == [
        (0, 1, 4, HASH_INDEX),
        (0, 2, 8, HASH_INDEX),
        (1, 1, 4, HASH_INDEX),
    ]
    for (where, bucket), file in first.files.items():
        path = handle.paths.index(file.file_name, partition_path=partition_path(handle, where), bucket=bucket)
        assert len(index_files.decode_hash_index(handle.storage.read(path))) == file.row_count
    list(router.split_by_bucket(rows((1, 1), (3, 1)), handle, found))
    again = found.prepare(new_name)
    assert again.files == {}
    assert again.bases[partition] == tuple(sorted(file.file_name for (where, _), file in first.files.items() if where == partition))
    list(router.split_by_bucket(rows((4, 1)), handle, found))
    assert [(where, file.row_count) for where, file in found.prepare(new_name).files.items()] == [((partition, 1), 2)]


def test_a_failed_write_takes_its_files_back():
    handle = keyed()
    found, new_name = DynamicBuckets.for_table(handle), names()
    list(router.split_by_bucket(rows(*((k, 1) for k in range(6))), handle, found))
    whole, count = handle.storage.open_write, iter(range(3))

    def full(path: str):
        if next(count) == 2:
            raise OSError(28, "No space left on device")
        return whole(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(handle.storage), "open_write", lambda _, path: full(path))
        with pytest.raises(OSError, match="No space left"):
            found.prepare(new_name)
    assert handle.storage.list("shop.db/t/index") == []


def test_partitions_that_rest_are_forgotten_once_they_are_committed():
    handle = keyed()
    found = DynamicBuckets.for_table(handle)
    list(router.split_by_bucket(rows((1, 1), (1, 2)), handle, found))
    one, two = found.indexes
    found.evict_committed(1, None)
    assert [found.indexes[each].last_commit_identifier for each in (one, two)] == [1, 1]
    list(router.split_by_bucket(rows((5, 2)), handle, found))
    found.evict_committed(2, 0)
    assert set(found.indexes) == {one, two}
    found.evict_committed(3, 1)
    assert set(found.indexes) == {two}
    assert found.indexes[two].last_commit_identifier > NO_IDENTIFIER


def test_a_torn_index_file_is_refused():
    handle = keyed()
    entry = IndexManifestEntry(partition=b"\0\0\0\1" + bytes(16), bucket=0, index_type=HASH_INDEX, file_name="index-1", file_size_bytes=8, row_count=2)
    handle.storage.put("shop.db/t/index/index-1", bytes(4))
    with pytest.raises(Corrupt, match="is 4 bytes, the index manifest says 2 hashes"):
        dynamic_bucket.read_hash_index(handle, entry)
    with pytest.raises(Corrupt, match="of bucket 40000"):
        dynamic_bucket.read_hash_index(handle, replace(entry, bucket=40000))
