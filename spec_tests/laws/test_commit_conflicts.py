"""Conflict checks against a plain reading of their rules, over every small world: a few files, a few changes, in any order."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import pytest

import lakekit as lk
from lakekit.commit import conflict_detection, manifest_writer
from lakekit.commit.changes import KnownHashIndexes
from lakekit.commit.conflict_detection import ConflictUsers
from lakekit.errors import Conflict
from lakekit.model import manifest_entries as columns_of
from lakekit.model.index_manifest import ADD as INDEX_ADD, DELETE as INDEX_DELETE, DELETION_VECTORS, HASH_INDEX, DeletionRange, IndexManifestEntry
from lakekit.model.manifest_entries import ADD, DELETE
from spec_tests.reliability.commits import INT, file, part

PARTIES = ConflictUsers(table="t", user="me", base_user="you", snapshot_id=7)
A = part("a")
FILES = {
    "x": file("x", 0, 4, level=0),
    "x5": file("x", 0, 4, level=5),
    "y5": file("y", 3, 9, level=5),
    "z5": file("z", 5, 9, level=5),
    "w5": file("w", 4, 4, level=5),
}
CHANGES = [(kind, name) for kind in (ADD, DELETE) for name in FILES]


def entries(changes: Any, total: int = 2) -> columns_of.ManifestEntries:
    return columns_of.concat_entries([columns_of.empty_entries(), columns_of.entries_of_rows([(kind, A, 0, total, FILES[name]) for kind, name in changes])])


def fits(base: frozenset[str], changes: tuple[tuple[int, str], ...]) -> bool:
    """The rules, one change after the other."""
    alone: dict[str, int] = {}
    for kind, name in changes:
        if kind == ADD:
            if name in alone:
                return False
            alone[name] = ADD
        elif alone.get(name) == ADD:
            del alone[name]
        elif name in alone:
            return False
        else:
            alone[name] = DELETE
    live = set(base)
    for name, kind in alone.items():
        if (kind == ADD) == (name in live):
            return False
        live ^= {name}
    touched = any(kind == ADD and FILES[name].level for kind, name in changes)
    ranges = sorted((FILES[name].min_key, FILES[name].max_key) for name in live if FILES[name].level)
    return not touched or all(one[1] < other[0] for one, other in pairwise(ranges))


@pytest.mark.long
def test_every_small_commit_on_every_small_table():
    bases = [frozenset(), frozenset({"x"}), frozenset({"x5"}), frozenset({"x5", "z5"}), frozenset({"x", "z5"}), frozenset({"y5"})]
    worlds = [(base, changes) for base in bases for count in (0, 1, 2) for changes in product(CHANGES, repeat=count)]
    told = {True: 0, False: 0}
    for base, changes in worlds:
        wanted = fits(base, changes)
        told[wanted] += 1
        try:
            conflict_detection.check_conflicts(entries([(ADD, name) for name in sorted(base)]), entries(changes), PARTIES, key_types=(INT,), overwrites=False)
        except Conflict:
            assert not wanted, (base, changes)
        else:
            assert wanted, (base, changes)
    assert min(told.values()) > 50, "both ways are tried"


@pytest.mark.parametrize(("before", "now", "overwrites", "conflicts"), [(2, 2, False, False), (2, 4, False, True), (2, 4, True, False), (-1, 4, False, False)])
def test_a_partition_keeps_its_number_of_buckets(before: int, now: int, overwrites: bool, conflicts: bool):
    base, delta = entries([(ADD, "x")], before), entries([(ADD, "z5")], now)
    if conflicts:
        with pytest.raises(Conflict, match="changed from 2 to 4 without overwrite"):
            conflict_detection.check_conflicts(base, delta, PARTIES, key_types=(INT,), overwrites=overwrites)
    else:
        conflict_detection.check_conflicts(base, delta, PARTIES, key_types=(INT,), overwrites=overwrites)


def test_an_error_names_files_users_and_what_to_do():
    with pytest.raises(Conflict) as caught:
        conflict_detection.check_conflicts(entries([]), entries([(DELETE, "x")]), PARTIES, key_types=(), overwrites=False)
    assert caught.value.files == ("x",)
    assert caught.value.snapshot_id == 7
    for word in ("t: x", "of you", "of me", "write-only=true", "Nothing was committed"):
        assert word in str(caught.value)


# ---- deletion vectors ----------------------------------------------------------------------------------------------------------------------------------


def vectors(name: str, *marked: str, kind: int = INDEX_ADD, bucket: int = 0, index_type: str = DELETION_VECTORS) -> IndexManifestEntry:
    ranges = tuple(DeletionRange(file_name=one, offset=1, length=9) for one in marked)
    return IndexManifestEntry(
        kind=kind, partition=A, bucket=bucket, index_type=index_type, file_name=name, file_size_bytes=1, row_count=len(marked), ranges=ranges
    )


@pytest.mark.parametrize("now", [None, "i1", "i2"])
@pytest.mark.parametrize("seen", [None, "i1", "i2"])
@pytest.mark.parametrize("does", ["marks", "compacts"])
def test_a_file_is_changed_only_with_the_vector_that_the_writer_saw(now: str | None, seen: str | None, does: str):
    live = [] if now is None else [vectors(now, "x")]
    changes = [] if seen is None else [vectors(seen, "x", kind=INDEX_DELETE)]
    delta = entries([])
    if does == "marks":
        changes.append(vectors("fresh", "x"))
    else:
        delta = entries([(DELETE, "x")])
    if now == seen:
        conflict_detection.check_deletion_vectors(entries([(ADD, "x")]), delta, live, changes, PARTIES)
    else:
        with pytest.raises(Conflict, match="rows of x were deleted by another commit"):
            conflict_detection.check_deletion_vectors(entries([(ADD, "x")]), delta, live, changes, PARTIES)


def test_no_vector_hangs_on_a_file_that_is_gone():
    with pytest.raises(Conflict, match="not live: x"):
        conflict_detection.check_deletion_vectors(entries([]), entries([]), [], [vectors("i", "x")], PARTIES)


# ---- index files ---------------------------------------------------------------------------------------------------------------------------------------


def test_vectors_of_a_bucket_replace_those_they_started_from():
    live = [vectors("i1", "x"), vectors("j1", "y", bucket=1)]
    after = manifest_writer.combine_index_entries(live, [vectors("i1", "x", kind=INDEX_DELETE), vectors("i2", "x")], by_bucket=True)
    assert [entry.file_name for entry in after] == ["j1", "i2"]
    for stale in ([vectors("i2", "x")], [vectors("i0", "x", kind=INDEX_DELETE), vectors("i2", "x")], [vectors("i0", "x", kind=INDEX_DELETE)]):
        with pytest.raises(Conflict, match="Deletion vectors of bucket 0 changed"):
            manifest_writer.combine_index_entries(live, stale, by_bucket=True)


def test_vectors_without_buckets_go_by_name():
    live = [vectors("i1", "x"), vectors("i2", "y")]
    after = manifest_writer.combine_index_entries(live, [vectors("i1", kind=INDEX_DELETE), vectors("i3", "x"), vectors("i4", "z")], by_bucket=False)
    assert [entry.file_name for entry in after] == ["i2", "i3", "i4"]
    for wrong in (vectors("i2", "x"), vectors("i9", kind=INDEX_DELETE)):
        with pytest.raises(Conflict):
            manifest_writer.combine_index_entries(live, [wrong], by_bucket=False)


def test_a_hash_index_replaces_that_of_its_bucket():
    live = [vectors("h0", index_type=HASH_INDEX), vectors("h1", bucket=1, index_type=HASH_INDEX), vectors("i0", "x")]
    after = manifest_writer.combine_index_entries(live, [vectors("h2", index_type=HASH_INDEX)], by_bucket=True)
    assert [entry.file_name for entry in after] == ["h2", "h1", "i0"]


@pytest.mark.parametrize(("known", "fits"), [((), False), (("h0",), False), (("h0", "h1"), True), (("h1", "h0"), True), (("h0", "h1", "h2"), False)])
def test_buckets_rest_on_every_hash_index_of_the_partition(known: tuple[str, ...], fits: bool):
    live = [vectors("h0", index_type=HASH_INDEX), vectors("h1", bucket=1, index_type=HASH_INDEX), vectors("i0", "x")]
    bases = [KnownHashIndexes(partition=A, file_names=frozenset(known)), KnownHashIndexes(partition=part("b"), file_names=frozenset())]
    if fits:
        manifest_writer.check_hash_bases(live, bases)
    else:
        with pytest.raises(Conflict, match="two buckets"):
            manifest_writer.check_hash_bases(live, bases)


def test_files_of_partitions_that_have_expired_are_told_as_such(tmp_path):
    options = {"bucket": "1", "partition.expiration-time": "1 d", "partition.timestamp-formatter": "yyyy-MM-dd", "write-only": "true"}
    keys = {"primary_keys": ["dt", "k"], "partition_keys": ["dt"]}
    t = lk.create(str(tmp_path / "t"), {"dt": "STRING NOT NULL", "k": "INT NOT NULL"}, **keys, options=options)
    for dt in ("2020-01-01", "9999-01-01"):
        for _ in range(2):
            t.upsert([{"dt": dt, "k": 1}])
    for dt, said in (("2020-01-01", "expired partitions"), ("9999-01-01", "no longer live")):
        with t.writer(compact=True) as writer:
            writer.compact(partition={"dt": dt}, full=True)
            t.drop_partitions([{"dt": dt}])
            with pytest.raises(Conflict, match=said):
                writer.commit()
            writer.abort()
