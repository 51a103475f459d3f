"""What a commit answers is so, whatever was lost on the way: exactly once, unknown only where nobody can tell, and nothing deleted that a commit may have.

RELIABILITY D2, D3; F5, F15; B6, B7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lakekit as lk
from lakekit import parallel
from lakekit.commit import abort
from lakekit.errors import CommitStateUnknown, Conflict, StorageFailed
from spec_tests.reliability.faulty import FaultyStorage, copy
from spec_tests.reliability.rows import FIRST, ROOT, SECOND, THIRD, filled, made, opened, seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.storage.memory import MemoryStorage
    from lakekit.table.table import Table


def claim_of(store: MemoryStorage, change: Callable[[Table], object], name: str = "snapshot-") -> int:
    """The number of the call by which a change claims its (first) snapshot."""
    probe = FaultyStorage(copy(store))
    change(opened(probe))
    return next(at for at, (call, path) in enumerate(probe.trace) if call == "put_if_absent" and name in path)


def appended(table: Table) -> object:
    return table.append(THIRD)


def test_a_writer_tries_again_after_an_unknown_outcome_and_commits_once():
    store = copy(filled("append"))
    at = claim_of(store, appended)
    storage = FaultyStorage(store, {at: "unknown_done", at + 1: "error"})
    with opened(storage).writer() as writer:
        writer.write(THIRD)
        with pytest.raises(CommitStateUnknown, match="with identifier"):
            writer.commit()
        assert writer.commit().snapshot_ids == (3,)
        writer.write([{"p": "c", "k": 9, "v": "9"}])
        assert writer.commit().snapshot_ids == (4,)
    rows = opened(store).scan().collect()
    assert sorted(rows["k"]) == sorted(row["k"] for row in [*FIRST, *SECOND, *THIRD, {"k": 9}])
    assert opened(store).check().ok


def test_a_writer_that_is_interrupted_right_after_its_commit_commits_once():
    store = copy(filled("append"))
    storage = FaultyStorage(store, {claim_of(store, appended) + 1: "interrupt"})
    with opened(storage).writer() as writer:
        writer.write(THIRD)
        with pytest.raises(KeyboardInterrupt):
            writer.commit()
        assert writer.commit().snapshot_ids == (3,)
    assert len(opened(store).scan().collect()) == len([*FIRST, *SECOND, *THIRD])


@pytest.mark.parametrize("then", ["error", "ok"])
def test_abort_after_an_unknown_outcome_keeps_what_a_snapshot_may_name(then: str):
    """B6: the commit happened, its answer was lost, and the job cleans up."""
    store = copy(filled("append"))
    with opened(store).writer() as writer:
        writer.write(THIRD)
        messages = writer.prepare()
    at = claim_of(store, lambda t: t.commit(messages, commit_user="job"))
    table = opened(FaultyStorage(store, {at: "unknown_done", at + 1: "error"} if then == "error" else {at: "ambiguous"}))
    try:
        table.commit(messages, commit_user="job")
    except CommitStateUnknown:
        assert then == "error"
    else:
        assert then == "ok", "B7: an answer that was lost is looked up"
    table.abort(messages)
    assert len(opened(store).scan().collect()) == len([*FIRST, *SECOND, *THIRD])
    assert table.commit(messages, commit_user="job").snapshot_ids == (3,)
    assert opened(store).check().ok


def test_abort_keeps_what_a_tag_or_a_branch_names():
    store = made("bucketed")
    table = opened(store)
    with table.writer() as writer:
        writer.write(FIRST)
        messages = writer.prepare()
    table.commit(messages, commit_user="job")
    table.append(SECOND)
    table.compact(full=True)
    first = store.files[f"{ROOT}/snapshot/snapshot-1"]
    kept = {f"{ROOT}/tag/tag-old": first}, {f"{ROOT}/branch/branch-b/snapshot/snapshot-1": first}
    store.files[f"{ROOT}/branch/branch-b/schema/schema-0"] = store.files[f"{ROOT}/schema/schema-0"]
    for number in (1, 2, 3):
        store.delete([f"{ROOT}/snapshot/snapshot-{number}"])
    table.append(THIRD)
    (path,) = [path for path in store.files if path.endswith(messages[0].new_files[0].name)]
    for one in kept:
        store.files |= one
        abort.abort(opened(store)._context(), messages)
        assert path in store.files
        for name in one:
            store.delete([name])
    abort.abort(opened(store)._context(), messages)
    assert path not in store.files, "nothing names it any more"


def test_a_job_that_starts_again_with_other_files_commits_once():
    store = copy(filled("key"))
    for _ in range(3):
        with opened(store).writer(commit_user="job") as writer:
            writer.write(THIRD)
            assert writer.commit(identifier=7).snapshot_ids == (4, 5)
    assert opened(store).check(deep=True).ok


# ---- rows and their compaction -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_rows_whose_compaction_lost_a_race_are_committed_and_not_refused():
    """An error would say that nothing was committed, and rows that are written again would be there twice."""
    store = copy(filled("key"))
    claim = claim_of(store, appended, "snapshot-5")

    def faster() -> None:
        opened(store, **{"write-only": "false"}).compact(full=True)

    table = opened(FaultyStorage(store, meanwhile={claim: faster}))
    with table.writer() as writer:
        writer.write(THIRD)
        first = writer.commit()
        writer.write([{"p": "a", "k": 1, "v": "last"}])
        second = writer.commit()
    assert (first.kinds, first.snapshot_ids) == (("APPEND",), (4,))
    assert second.kinds[0] == "APPEND"
    rows = dict(opened(store).scan().collect().select("k", "v").rows())
    assert rows == {1: "last", 2: "two", 3: "3", 4: "4", 5: "5", 6: "6"}
    assert opened(store).check(deep=True).ok
    named = {name for snapshot in opened(store).snapshots()["snapshot_id"] for name in opened(store).files(at=snapshot)["file_path"]}
    there = {path for path in store.files if "/bucket-" in path}
    assert {path.rpartition("/")[2] for path in there} == {path.rpartition("/")[2] for path in named}, "what was compacted in vain is gone"


def test_a_compaction_alone_that_lost_is_told_and_leaves_nothing():
    store = copy(filled("waiting"))
    compacted = lambda t: t.compact(full=True)  # noqa: E731
    claim, there = claim_of(store, compacted), set(store.files)
    storage = FaultyStorage(store, meanwhile={claim: lambda: compacted(opened(store))})
    with pytest.raises(Conflict, match="two compactions"):
        compacted(opened(storage))
    other = copy(filled("waiting"))
    compacted(opened(other))
    assert len(store.files) == len(other.files), set(store.files) - there
    assert compacted(opened(store)).snapshot_ids == (), "the other one did it"


@pytest.mark.long
def test_a_disk_that_fills_between_rows_and_their_compaction():
    store = copy(filled("key"))
    claim = claim_of(store, appended, "snapshot-5")
    assert opened(FaultyStorage(store, {claim: "error"})).append(THIRD).kinds == ("APPEND",)
    assert opened(store).upsert(SECOND).kinds == ("APPEND", "COMPACT")
    assert opened(store).check(deep=True).ok
    claim = claim_of(store, lambda t: t.compact(full=True), "snapshot-")
    with pytest.raises(StorageFailed, match="injected"):
        opened(FaultyStorage(store, {claim: "error"})).compact(full=True)


@pytest.mark.parametrize("kind", ["marked", "dynamic"])
def test_an_index_file_that_is_there_although_its_write_failed_goes_again(kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parallel, "is_pool_thread", lambda: True)
    start = copy(filled(kind))
    probe = FaultyStorage(copy(start))
    appended(opened(probe))
    writes = [at for at, (call, path) in enumerate(probe.trace) if call == "open_write" and "/index/" in path]
    assert writes
    for at in writes:
        store = copy(start)
        with pytest.raises(StorageFailed, match="injected"):
            appended(opened(FaultyStorage(store, {at: "ambiguous"})))
        assert store.files.keys() == start.files.keys()


# ---- schemas -----------------------------------------------------------------------------------------------------------------------------------------------


def test_a_schema_whose_answer_was_lost_is_looked_up():
    store = copy(filled("key"))
    alter = lambda t: t.alter(lk.add_column("w", "INT"))  # noqa: E731
    claim = claim_of(store, alter, "schema-1")
    assert "w" in str(alter(opened(FaultyStorage(copy(store), {claim: "ambiguous"}))))
    with pytest.raises(CommitStateUnknown, match="Look whether it is there"):
        alter(opened(FaultyStorage(copy(store), {claim: "ambiguous", claim + 1: "error"})))
    failing = copy(store)
    with pytest.raises(StorageFailed, match="injected"):
        alter(opened(FaultyStorage(failing, {claim: "error"})))
    assert seen(opened(failing)) == seen(opened(store))


# ---- hash indexes ------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_messages_of_two_turns_are_committed_at_once():
    """What the second turn rests on is what the first one wrote."""
    store = copy(filled("dynamic"))
    with opened(store).writer(commit_user="job") as writer:
        writer.write([{"p": "a", "k": 11, "v": "x"}])
        messages = writer.prepare()
        writer.write([{"p": "a", "k": 12, "v": "y"}, {"p": "a", "k": 13, "v": "z"}])
        messages += writer.prepare()
        opened(store).commit(messages, commit_user="job", identifier=1)
        writer.write([{"p": "a", "k": 14, "v": "w"}])
        writer.commit(identifier=2)
    assert opened(store).check(deep=True).ok
    with opened(store).writer(commit_user="job") as writer:
        writer.write([{"p": "a", "k": 21, "v": "x"}])
        messages = writer.prepare()
        opened(store).upsert([{"p": "a", "k": 22, "v": "y"}])
        writer.write([{"p": "a", "k": 23, "v": "z"}])
        messages += writer.prepare()
        with pytest.raises(Conflict, match="hash index"):
            opened(store).commit(messages, commit_user="job", identifier=3)
        opened(store).abort(messages)
    assert opened(store).check(deep=True).ok


@pytest.mark.parametrize("kind", ["key", "append"])
@pytest.mark.parametrize("between", [0, 3])
def test_messages_that_one_commit_has_no_other_commit_takes(kind, between):
    """Neither under another identifier nor by another user: a table that has a file twice cannot be read."""
    store = copy(filled(kind))
    table = opened(store)
    with table.writer(commit_user="job") as writer:
        writer.write(THIRD)
        messages = writer.prepare()
    first = table.commit(messages, commit_user="job", identifier=1)
    for at in range(between):
        table.append([{"p": "c", "k": 100 + at, "v": "x"}]) if kind == "append" else table.upsert([{"p": "c", "k": 100 + at, "v": "x"}])
    before = seen(opened(store))
    for user, identifier in (("job", 2), ("else", 1), ("else", None)):
        with pytest.raises(Conflict, match=f"snapshot {first.snapshot_ids[0]}, commit 1 of job, added it"):
            opened(store).commit(messages, commit_user=user, identifier=identifier)
    assert seen(opened(store)) == before
    assert opened(store).commit(messages, commit_user="job", identifier=1).snapshot_ids == first.snapshot_ids
    assert opened(store).check().ok
