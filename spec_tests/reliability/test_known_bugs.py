"""Bugs that other lakes had, as RELIABILITY section 4 counts them, where writing and compaction could have them: none here.

B5 is `test_row_race.py`, B6 and B7 are in `test_outcomes.py`; those of readers and of cleaning have tests of their own.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

import lakekit as lk
from lakekit import parallel
from lakekit.commit.overwrite import Overwrite
from lakekit.errors import Conflict
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model import manifests
from lakekit.storage.memory import MemoryStorage
from spec_tests.longer import some
from spec_tests.reliability import commits
from spec_tests.reliability.faulty import FaultyStorage, copy
from spec_tests.reliability.rows import FIRST, SECOND, THIRD, filled, made, opened, seen
from spec_tests.reliability.test_interleavings import calls_of, meeting

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.metadata.table_context import TableContext
    from lakekit.table.table import Table


@pytest.fixture(autouse=True)
def one_after_another(monkeypatch):
    monkeypatch.setattr(parallel, "is_pool_thread", lambda: True)


# ---- B8: a retry that goes by what it read before an overwrite, or that skips snapshots which vanished -------------------------------------------------------


def emptied(store: MemoryStorage) -> None:
    for turn in range(2):  # the second overwrite changes nothing
        commits.commit(commits.opened(store), [], turn, user="other", overwrite=Overwrite.entire_table())


def vanished(store: MemoryStorage) -> None:
    handle = commits.opened(store)
    commits.commit(handle, [], 1, user="other", overwrite=Overwrite.entire_table())
    commits.commit(handle, [commits.message(new=["g"])], 2, user="other")
    store.delete([handle.paths.snapshot(2)])


@pytest.mark.parametrize("meanwhile", [emptied, vanished])
def test_b8_a_retry_looks_at_the_table_as_it_is(meanwhile: Callable[[MemoryStorage], None]):
    def compacted(handle: TableContext) -> None:
        commits.commit(handle, [commits.message(before=["f"], after=[commits.file("m", level=5)])], 1, user="compactor")

    store = MemoryStorage()
    store.put(f"{commits.ROOT}/schema/schema-0", commits.schema())
    commits.commit(commits.opened(store), [commits.message(new=["f"])], 1)
    probe = FaultyStorage(copy(store))
    compacted(commits.opened(probe))
    claim = next(at for at, (call, _) in enumerate(probe.trace) if call == "put_if_absent")
    with pytest.raises(Conflict, match="no longer live"):
        compacted(commits.opened(FaultyStorage(store, meanwhile={claim: lambda: meanwhile(store)})))
    assert [name for *_, name in commits.live(commits.opened(store))] == (["g"] if meanwhile is vanished else [])


# ---- B9: sorting that loses what is inserted meanwhile; two overwrites that both win -------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("slower", "faster"), [("sort", "add"), ("overwrite", "overwrite")])
def test_b9_what_is_replaced_is_what_was_read(slower: str, faster: str):
    calls = calls_of("append", slower)
    assert {meeting("append", slower, faster, at) for at in (calls // 2, calls * 2 // 3)} == {"both"}


# ---- B10: deletion vectors and hash indexes that a commit does not pass on -----------------------------------------------------------------------------------

ELSEWHERE: dict[str, Callable[[Table], object]] = {
    "append": lambda t: t.append([{"p": "a", "k": 7, "v": "7"}]),
    "overwrite": lambda t: t.overwrite([{"p": "a", "k": 7, "v": "7"}]),
    "delete": lambda t: t.delete("p = 'a' AND k = 2"),
    "update": lambda t: t.update({"v": "'x'"}, where="p = 'a'"),
    "compact": lambda t: t.compact(full=True, where="p = 'a'"),
    "drop": lambda t: t.drop_partitions([{"p": "a"}]),
    "alter": lambda t: t.alter(lk.add_column("w", "INT")),
    "merge manifests": lambda t: t.compact_manifests(),
    "nothing": lambda t: t.commit([], commit_user="stream", identifier=1),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["append marked", "dynamic"])
def test_b10_what_a_commit_does_not_change_it_passes_on(kind: str):
    start = copy(filled(kind))
    if kind == "append marked":
        opened(start).append([{"p": "b", "k": 8, "v": "8"}])
        opened(start).delete("k = 3")
    want = index_of(start)
    assert want
    for name, change in ELSEWHERE.items():
        store = copy(start)
        change(opened(store))
        assert index_of(store) == want, name
        assert [row for row in seen(opened(store))[1] if row[0] == "b"] == [row if name != "alter" else (*row, None) for row in rows_of_b(start)], name


def index_of(store: MemoryStorage) -> set[str]:
    """The index files of partition b."""
    handle = opened(store)._context()
    newest = snapshots.latest(handle)
    assert newest is not None
    return {entry.file_name for entry in manifest_reader.index_entries(handle, newest) if b"b" in entry.partition}


def rows_of_b(store: MemoryStorage) -> list[tuple[object, ...]]:
    return [row for row in seen(opened(store))[1] if row[0] == "b"]


# ---- B11: vectors of files that are gone ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kind", ["append marked", "marked waiting"])
def test_b11_two_compactions_leave_no_vector_of_a_file_that_is_gone(kind: str):
    """The deep check that `meeting` makes looks at every vector's file, and at what it marks."""
    calls = calls_of(kind, "compact")
    assert {meeting(kind, "compact", "compact", at) for at in range(1, calls, max(1, calls // 5))} <= {"both", "compact"}


# ---- B12: answers that depend on the order in which files are named ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_b12_the_order_of_manifests_does_not_matter():
    store = made("waiting")
    for rows in (FIRST, SECOND, THIRD, [{"p": "a", "k": 2, "v": "last"}]):
        opened(store).append(rows)
    handle = opened(store)._context()
    newest = snapshots.latest(handle)
    assert newest is not None
    want, files = seen(opened(store)), manifest_reader.manifest_files(handle, newest)
    assert len(files) > 2
    for turn, order in enumerate(permutations(files)):
        other = copy(store)
        lists = {"base_manifest_list": order[1:], "delta_manifest_list": order[:1]}
        names = {}
        for field, part in lists.items():
            data = manifests.encode_list(part, kind="avro", codec="zstandard", level=1)
            names |= {field: f"manifest-list-{turn}-{field}", f"{field}_size": len(data)}
            other.put(handle.paths.manifest(str(names[field])), data)
        other.put(handle.paths.snapshot(newest.id), replace(newest, **names).to_json())
        assert seen(opened(other)) == want
        opened(other).compact(full=True)
        assert seen(opened(other)) == want


# ---- B14: keys that are named in another order than the columns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", some(permutations(["a", "b", "c"]), 4))
def test_b14_keys_in_any_order_are_unique(tmp_path, keys):
    table = lk.create(tmp_path, {"b": "STRING", "v": "INT", "c": "BIGINT", "a": "INT"}, primary_keys=keys, options={"bucket": "2"})
    want = {}
    for turn in range(3):
        rows = [{"a": at % 3, "b": str(at % 2), "c": at % 5, "v": turn * 100 + at} for at in range(turn, 20)]
        table.upsert(rows)
        want |= {(row["a"], row["b"], row["c"]): row["v"] for row in rows}
    table.compact(full=True)
    assert {(row["a"], row["b"], row["c"]): row["v"] for row in table.scan().collect().to_dicts()} == want
    assert table.scan().collect().height == len(want)


# ---- F10: hints that are wrong, met by a writer --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hint", some([None, b"", b"abc", b"-1", b"0", b"1", b"99", b"99999999999999999999", b"2\n", b"\xef\xbb\xbf2"], 3))
def test_f10_a_writer_believes_no_hint(hint: bytes | None):
    store = copy(filled("append"))
    path = opened(store)._context().paths.latest_hint
    store.delete([path])
    if hint is not None:
        store.put(path, hint)
    assert opened(store).append(THIRD).snapshot_id == 3
    assert opened(store).scan().collect().height == len([*FIRST, *SECOND, *THIRD])
    assert opened(store).check().ok
    assert store.read(path) == b"3", "a hint that names no snapshot is put right: the reference believes it"
