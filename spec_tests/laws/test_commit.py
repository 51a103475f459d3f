"""What a commit promises: two snapshots, exactly once, nothing lost among others, overwrites that replace what they say, nothing left behind."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from lakekit.commit.abort import abort, mark_outcome_unknown
from lakekit.commit.committer import CommitValidation
from lakekit.commit.overwrite import Overwrite
from lakekit.errors import ColumnNotFound, Conflict, Corrupt, RetriesExhausted, SchemaMismatch, StorageFailed, Unsupported
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model.commit_message import CommitMessage
from lakekit.model.index_manifest import DELETION_VECTORS, HASH_INDEX, DeletionRange, IndexFileMeta
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.runtime import LRUCache, Runtime
from lakekit.storage.memory import MemoryStorage
from spec_tests.reliability.commits import ROOT, check_table, commit, file, live, message, opened, part, schema, unreferenced

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext


def table(**how: Any) -> tuple[MemoryStorage, TableContext]:
    store = MemoryStorage()
    store.put(f"{ROOT}/schema/schema-0", schema(**how))
    return store, opened(store)


def names(handle: TableContext) -> list[str]:
    return sorted(name for *_, name in live(handle))


def hashes(name: str) -> IndexFileMeta:
    return IndexFileMeta(index_type=HASH_INDEX, file_name=name, file_size_bytes=4, row_count=1)


# ---- two snapshots, told once ----------------------------------------------------------------------------------------------------------------------------


def test_rows_and_their_compaction_are_two_snapshots():
    store, t = table()
    told = commit(t, [message(new=["f1", "f2"], before=["f1", "f2"], after=[file("m", level=5, rows=15)])], 1, watermark=9, properties={"k": "v"})
    assert told.kinds == ("APPEND", "COMPACT")
    assert (told.snapshot_ids, told.snapshot_id, told.retry_count) == ((1, 2), 2, 0)
    assert (told.added_file_count, told.removed_file_count, told.row_count, told.size_bytes) == (3, 2, 20, 3000)
    first, second = snapshots.read_all(t)
    assert (first.total_record_count, second.total_record_count, second.delta_record_count) == (20, 15, -5)
    assert [one.watermark for one in (first, second)] == [9, 9]
    assert [one.properties for one in (first, second)] == [{"k": "v"}] * 2
    assert names(t) == ["m"]
    check_table(store)


def test_watermarks_never_fall_and_time_never_goes_back():
    store, t = table()
    clock = iter([5000, 1000, 1000])
    late = replace(t, runtime=Runtime(now_ms=lambda: next(clock), metadata_cache=LRUCache(1 << 20)))
    for identifier, watermark in enumerate((7, 3, None)):
        commit(late, [message(new=[f"f{identifier}"])], identifier, watermark=watermark)
    assert [(one.watermark, one.time_millis) for one in snapshots.read_all(opened(store))] == [(7, 5000)] * 3


def test_nothing_is_no_snapshot_unless_a_stream_counts_it():
    _, t = table()
    assert commit(t, [], BATCH_IDENTIFIER).snapshot_ids == ()
    assert commit(t, [], 1).kinds == ("APPEND",)
    assert commit(t, [], 2, ignore_empty=True).snapshot_ids == ()
    _, kept = table(options={"snapshot.ignore-empty-commit": "false"})
    assert commit(kept, [], BATCH_IDENTIFIER).snapshot_ids == (1,)


def test_a_card_says_what_happened_and_escapes_names():
    _, t = table()
    told = commit(t, [message(new=["f1"])], 1, user="<u>")
    assert str(told).splitlines()[0] == "t · snapshot 1 APPEND"
    assert "1 file, 10 rows, 1000 B" in str(told)
    assert "&lt;u&gt;" in told._repr_html_()
    assert "<u>" not in told._repr_html_()
    assert "nothing to commit" in str(commit(t, [], BATCH_IDENTIFIER, user="v"))


# ---- exactly once --------------------------------------------------------------------------------------------------------------------------------------


def test_a_commit_that_is_there_is_told_again():
    store, t = table()
    batch = [message(new=["f1"], before=["f1"], after=[file("m", level=5)])]
    first = commit(t, batch, 5)
    commit(t, [message(new=["g"])], 1, user="other")
    for handle in (t, opened(store)):
        again = commit(handle, batch, 5)
        assert replace(again, duration_ms=0) == replace(first, duration_ms=0)
    assert names(t) == ["g", "m"]


def test_identifiers_of_a_user_must_not_fall():
    _, t = table()
    for identifier in (5, 9):
        commit(t, [message(new=[f"f{identifier}"])], identifier)
    assert commit(t, [message(new=["f5"])], 5).snapshot_ids == (1,)
    with pytest.raises(Conflict, match="must not fall"):
        commit(t, [message(new=["f7"])], 7)
    assert names(t) == ["f5", "f9"]


def test_what_expired_counts_as_committed():
    store, t = table()
    for identifier in range(1, 5):
        commit(t, [message(new=[f"f{identifier}"])], identifier)
    store.delete([t.paths.snapshot(1), t.paths.snapshot(2)])
    assert commit(opened(store), [message(new=["f1"])], 1).snapshot_ids == ()
    assert commit(opened(store), [message(new=["f3"])], 3).snapshot_ids == (3,)


def test_a_compaction_that_was_cut_off_is_done_or_given_up():
    store, t = table()
    commit(t, [message(new=["f0"])], 1)
    both = [message(new=["f1"], before=["f0", "f1"], after=[file("m", level=5)])]
    commit(t, [replace(both[0], compact_before=(), compact_after=())], 2)
    assert commit(opened(MemoryStorage(files=dict(store.files))), both, 2).kinds == ("APPEND",), "its file is gone"
    store.put(f"{ROOT}/p=a/bucket-0/m", b"")
    other = MemoryStorage(files=dict(store.files))
    assert commit(opened(other), both, 2).kinds == ("APPEND", "COMPACT")
    commit(t, [message(before=["f0", "f1"], after=[file("theirs", level=5)])], 1, user="compactor", ignore_empty=True)
    assert commit(t, both, 2).kinds == ("APPEND",)
    assert names(t) == ["theirs"]


# ---- beside others -------------------------------------------------------------------------------------------------------------------------------------


class Beside:
    """A world in whose pauses others commit."""

    def __init__(self, *others: Any) -> None:
        self.others = list(others)
        self.waits: list[float] = []

    def wait(self, duration_ms: float) -> None:
        self.waits.append(duration_ms)
        if self.others:
            self.others.pop(0)()


class Interrupted(MemoryStorage):
    """A storage on which somebody else is faster, so many times."""

    rivals: int = 0

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self.rivals and "/snapshot/" in path:
            self.rivals -= 1
            number = self.rivals
            commit(opened(MemoryStorage(files=self.files)), [message("b", new=[f"r{number}"])], 1, user=f"rival {number}")
        return super().put_if_absent(path, data)


def lost(rivals: int, **options: str) -> tuple[Interrupted, TableContext, list[float]]:
    store = Interrupted()
    store.put(f"{ROOT}/schema/schema-0", schema(options=options))
    waits: list[float] = []
    handle = opened(store, Runtime(wait_ms=waits.append, metadata_cache=LRUCache(1 << 20)))
    store.rivals = rivals
    return store, handle, waits


def test_a_lost_race_is_run_again_on_the_new_snapshot():
    store, t, waits = lost(3)
    told = commit(t, [message(new=["f"], changelog=["c"])], 1)
    assert (told.snapshot_ids, told.retry_count) == ((4,), 3)
    assert names(t) == ["f", "r0", "r1", "r2"]
    assert [0 <= wait <= longest for longest, wait in zip((10, 20, 40), waits, strict=True)] == [True] * 3
    assert unreferenced(store) == []
    check_table(store)


def test_lost_races_end():
    store, t, waits = lost(99)
    with pytest.raises(RetriesExhausted, match="with 10 retries"):
        commit(t, [message(new=["f"])], 1)
    assert len(waits) == 10
    assert "f" not in names(t)
    assert unreferenced(store) == []
    store, t, _ = lost(99, **{"commit.timeout": "0 ms"})
    with pytest.raises(RetriesExhausted):
        commit(t, [message(new=["f"])], 1)
    store, t, waits = lost(99, **{"commit.max-retries": "3", "commit.min-retry-wait": "40 ms", "commit.max-retry-wait": "100 ms"})
    with pytest.raises(RetriesExhausted, match="with 3 retries"):
        commit(t, [message(new=["f"])], 1)
    assert [0 <= wait <= longest for longest, wait in zip((40, 80, 100), waits, strict=True)] == [True] * 3


def test_who_lost_races_leaves_room_before_the_next_commit():
    store, t, waits = lost(0)
    times = count(step=100)
    t = opened(store, Runtime(wait_ms=waits.append, elapsed_ms=lambda: next(times), metadata_cache=LRUCache(1 << 20)))
    commit(t, [message(new=["f1"])], 1)
    assert waits == []
    store.rivals = 3
    commit(t, [message(new=["f2"])], 2)
    commit(t, [message(new=["f3"])], 3)
    assert len(waits) == 4
    assert waits[3] > 0
    for number in range(4, 24):
        commit(t, [message(new=[f"f{number}"])], number)
    calm = len(waits)
    commit(t, [message(new=["f24"])], 24)
    assert len(waits) == calm, "others are gone"


def test_the_same_commit_made_twice_at_once_is_one():
    store, t, _ = lost(0)
    twin = opened(MemoryStorage(files=store.files))

    class Twin(Interrupted):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            if "/snapshot/" in path and path not in self.files:
                commit(twin, [message(new=["f"])], 7)
            return super().put_if_absent(path, data)

    told = commit(opened(Twin(files=store.files)), [message(new=["f"])], 7)
    assert told.snapshot_ids == (1,)
    assert len(snapshots.read_all(t)) == 1
    assert unreferenced(store) == []


def test_two_compactions_of_one_file_do_not_both_win():
    store, t = table()
    commit(t, [message(new=["f"])], 1)
    commit(opened(store), [message(before=["f"], after=[file("m", level=5)])], 1, user="a", ignore_empty=True)
    with pytest.raises(Conflict, match="no longer live"):
        commit(t, [message(before=["f"], after=[file("n", level=5)])], 1, user="b", ignore_empty=True)
    assert names(t) == ["m"]
    assert unreferenced(store) == []


def test_rows_hashed_by_an_older_number_of_buckets_are_refused():
    store, t = table()
    commit(t, [message(new=["f"]), message("b", new=["g"])], 1)
    commit(opened(store), [message(bucket=3, total=4, new=["n"])], 1, user="rescale", overwrite=Overwrite.dynamic())
    for handle in (t, opened(store)):
        with pytest.raises(Conflict, match="changed from 4 to 2"):
            commit(handle, [message(new=["late"])], 2)
    commit(t, [message("b", new=["fine"])], 3)
    commit(t, [], 4, overwrite=Overwrite.partitions([{"p": "a"}]))
    commit(t, [message(new=["anew"])], 5)
    assert names(t) == ["anew", "fine", "g"]


def test_two_writers_of_one_dynamic_partition_do_not_both_choose_buckets():
    _, t = table(options={"bucket": "-1"})
    commit(t, [message(total=-1, new=["f"], new_index_files=(hashes("h0"),), hash_index_base=())], 1, user="a")
    with pytest.raises(Conflict, match="two buckets"):
        commit(t, [message(bucket=1, total=-1, new=["g"], new_index_files=(hashes("h1"),), hash_index_base=())], 1, user="b")
    commit(t, [message(bucket=1, total=-1, new=["g"], new_index_files=(hashes("h1"),), hash_index_base=("h0",))], 2, user="b")
    with pytest.raises(Conflict, match="two buckets"):
        commit(t, [message(total=-1, new=["late"], hash_index_base=("h0",))], 2, user="a")
    commit(t, [message("b", total=-1, new=["elsewhere"], new_index_files=(hashes("k0"),), hash_index_base=())], 3, user="a")
    assert names(t) == ["elsewhere", "f", "g"]
    assert sorted(one.file_name for one in manifest_reader.index_entries(t, snapshots.read_all(t)[-1])) == ["h0", "h1", "k0"]


def test_vectors_of_a_bucket_say_what_they_replace():
    _, t = table(options={"deletion-vectors.enabled": "true"})

    def marks(name: str) -> IndexFileMeta:
        found = (DeletionRange(file_name="f", offset=1, length=9),)
        return IndexFileMeta(index_type=DELETION_VECTORS, file_name=name, file_size_bytes=9, row_count=1, ranges=found)

    commit(t, [message(new=["f"])], 1)
    commit(t, [message(compact_new_index_files=(marks("i1"),))], 2, ignore_empty=True)
    with pytest.raises(Conflict):
        commit(t, [message(compact_new_index_files=(marks("i2"),))], 3, ignore_empty=True)
    commit(t, [message(compact_deleted_index_files=(marks("i1"),), compact_new_index_files=(marks("i2"),))], 4, ignore_empty=True)
    with pytest.raises(Conflict, match="rows of f were deleted"):
        commit(t, [message(before=["f"], after=[file("m", level=5)])], 5, ignore_empty=True)


def test_strict_mode_refuses_what_overwrote_the_same_partition():
    store, t = table(options={"commit.strict-mode.last-safe-snapshot": "0"})
    commit(t, [message(new=["f"])], 1)
    commit(t, [message("b", new=["g"])], 1, user="other", overwrite=Overwrite.dynamic())
    commit(t, [message(new=["f2"])], 2)
    calm = opened(store).with_options({"commit.strict-mode.last-safe-snapshot": None})
    commit(calm, [message(new=["o"])], 2, user="other", overwrite=Overwrite.dynamic())
    with pytest.raises(Conflict, match="Strict mode: snapshot 4 of other is OVERWRITE"):
        commit(t, [message(new=["f3"])], 3)


def test_files_that_are_live_already_are_left_out_where_asked():
    _, t = table(options={"commit.discard-duplicate-files": "true"})
    commit(t, [message(new=["f"])], 1)
    told = commit(t, [message(new=["f", "g"])], 2)
    assert told.added_file_count == 1
    assert names(t) == ["f", "g"]
    store, plain = table()
    commit(plain, [message(new=["f"])], 1)
    with pytest.raises(StorageFailed, match="/t/p=a/bucket-0/f is gone"):
        commit(plain, [message(new=["f"])], 2, validation=CommitValidation(append_conflicts=True))
    store.put(f"{ROOT}/p=a/bucket-0/f", b"data")
    with pytest.raises(Conflict, match="there already in t: f"):
        commit(plain, [message(new=["f"])], 2, validation=CommitValidation(append_conflicts=True))


# ---- overwrites ------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overwrite", "written", "left"),
    [
        (Overwrite.entire_table(), "a", ["n"]),
        (Overwrite.dynamic(), "a", ["g", "n"]),
        (Overwrite.static({"p": "a"}), "a", ["g", "n"]),
        (Overwrite.static({}), "b", ["n"]),
        (Overwrite.dynamic(), None, ["f", "g"]),
        (Overwrite.static({"p": "b"}), None, ["f"]),
        (Overwrite.partitions([{"p": "a"}, {"p": "nobody"}]), None, ["g"]),
        (Overwrite.partitions([]), None, ["f", "g"]),
        (Overwrite.entire_table(), None, []),
    ],
)
def test_an_overwrite_replaces_what_it_says(overwrite: Overwrite, written: str | None, left: list[str]):
    store, t = table()
    commit(t, [message(new=["f"]), message("b", new=["g"])], 1)
    told = commit(t, [] if written is None else [message(written, new=["n"], changelog=["c"])], 2, overwrite=overwrite)
    assert names(t) == left
    nothing = overwrite.is_dynamic and written is None
    assert told.kinds == (() if nothing else ("OVERWRITE",))
    assert snapshots.read_all(t)[-1].changelog_manifest_list is None
    check_table(store)


def test_an_overwrite_takes_index_files_along_and_raises_what_shares_no_keys():
    _, t = table()
    commit(t, [message(new=["f"], new_index_files=(hashes("h"),)), message("b", new=["g"], new_index_files=(hashes("k"),))], 1)
    commit(t, [message(new=[file("m", 0, 4), file("n", 5, 9)]), message("b", new=[file("o", 0, 5), file("q", 5, 9)])], 2, overwrite=Overwrite.dynamic())
    assert manifest_reader.index_entries(t, snapshots.read_all(t)[-1]) == []
    assert [(level, name) for _, _, level, name in live(t)] == [(5, "m"), (5, "n"), (0, "o"), (0, "q")]
    _, low = table(options={"overwrite-upgrade": "false"})
    commit(low, [message(new=["m"])], 2, overwrite=Overwrite.entire_table())
    assert [level for _, _, level, _ in live(low)] == [0]


def test_an_overwrite_refuses_rows_elsewhere_and_columns_nobody_partitions_by():
    store, t = table()
    commit(t, [message(new=["f"])], 1)
    with pytest.raises(SchemaMismatch, match="do not belong"):
        commit(t, [message("b", new=["n"])], 2, overwrite=Overwrite.static({"p": "a"}))
    with pytest.raises(ColumnNotFound, match="partition columns are p"):
        commit(t, [], 2, overwrite=Overwrite.partitions([{"k": 1}]))
    assert names(t) == ["f"]
    assert unreferenced(store) == []


def test_tables_with_row_ids_are_refused():
    _, t = table(keys=False, options={"row-tracking.enabled": "true", "bucket": "-1"})
    with pytest.raises(Unsupported, match="row-tracking"):
        commit(t, [message(new=["f"])], 1)


# ---- messages --------------------------------------------------------------------------------------------------------------------------------------------


def test_messages_travel_as_bytes_and_tell_damage():
    sent = message(new=["f"], before=["g"], after=[file("m", level=5)], new_index_files=(hashes("h"),), hash_index_base=("h0", "ü"))
    data = sent.to_bytes()
    assert CommitMessage.from_bytes(data) == sent == pickle.loads(pickle.dumps(sent))
    assert CommitMessage.from_bytes(replace(sent, hash_index_base=None).to_bytes()).hash_index_base is None
    assert CommitMessage.from_bytes(replace(sent, keys_known_at=7).to_bytes()).keys_known_at == 7
    for at in range(len(data)):
        with pytest.raises((Corrupt, Unsupported)):
            CommitMessage.from_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    for end in range(0, len(data), 7):
        with pytest.raises((Corrupt, Unsupported)):
            CommitMessage.from_bytes(data[:end])


def test_abort_deletes_what_was_never_committed_and_nothing_else():
    store, t = table()
    committed, left = message(new=["f1"], after=["m1"], changelog=["c1"]), message(new=["f2"], new_index_files=(hashes("h2"),))
    commit(t, [committed], 1)
    paths = {name: f"{ROOT}/p=a/bucket-0/{name}" for name in ("f1", "m1", "c1", "f2")} | {"h2": f"{ROOT}/index/h2"}
    for path in paths.values():
        store.put(path, b"data")
    mark_outcome_unknown(opened(store), [left])  # another world's doubts are not ours
    abort(opened(store), [committed, left])
    assert [name for name, path in paths.items() if path in store.files] == ["f1", "m1", "c1"]
    abort(opened(store), [])


def test_abort_leaves_what_a_commit_may_have():
    store, t = table()
    left, doubted = message(new=["f1"]), message(new=["f2"], new_index_files=(hashes("h2"),))
    paths = {name: f"{ROOT}/p=a/bucket-0/{name}" for name in ("f1", "f2")} | {"h2": f"{ROOT}/index/h2"}
    for path in paths.values():
        store.put(path, b"data")
    mark_outcome_unknown(t, [doubted])
    abort(t, [left, doubted])
    assert [name for name, path in paths.items() if path in store.files] == ["f2", "h2"]


@pytest.mark.long
def test_a_manifest_holds_no_file_twice_and_merging_keeps_the_live_ones():
    store, t = table(options={"manifest.merge-min-count": "2", "manifest.target-file-size": "3 kb", "manifest.full-compaction-threshold-size": "8 kb"})
    wanted: set[str] = set()
    for identifier in range(40):
        new = f"f{identifier}"
        gone = sorted(wanted)[: identifier % 3] if identifier % 4 == 3 else []
        commit(t, [message("ab"[identifier % 2], new=[new])], 2 * identifier)
        wanted.add(new)
        for name in gone:
            where = next(p for p, _, _, found in live(t) if found == name)
            commit(t, [replace(message(before=[name]), partition=where)], 2 * identifier + 1, user=name, ignore_empty=True)
            wanted.discard(name)
        assert set(names(opened(store) if identifier % 8 == 0 else t)) == wanted
    check_table(store)
    listed = manifest_reader.manifest_files(t, snapshots.read_all(t)[-1])
    assert len(listed) < 20


@pytest.mark.parametrize("p", ["", "ü", "\U0001f600", "a" * 40, "__DEFAULT_PARTITION__"])
def test_any_partition_is_found_again(p: str):
    store, t = table()
    for identifier, where in enumerate((p, "m", p)):
        commit(t, [message(where, new=[f"f{identifier}"])], identifier)
    commit(opened(store), [message(p, before=["f0", "f2"], after=[file("m", level=5)])], 9, ignore_empty=True)
    assert sorted(live(t)) == sorted([(part(p), 0, 5, "m"), (part("m"), 0, 0, "f1")])


def test_a_commit_reads_no_more_of_a_long_history():
    store, t = table(partitioned=False)
    reads = []
    for identifier in range(120):
        before = len(store.trace)
        commit(t, [replace(message(new=[f"f{identifier}"]), partition=bytes(12))], identifier)
        reads.append(len(store.trace) - before)
    steady = [count for at, count in enumerate(reads) if at > 2]
    assert max(steady) <= 45, "one merge reads what it merges"
    assert sorted(steady)[len(steady) // 2] <= 12
    assert names(opened(store)) == sorted(f"f{identifier}" for identifier in range(120))
