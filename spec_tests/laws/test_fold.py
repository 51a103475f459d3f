"""Which files are live: folding entries column by column says what a dictionary of identities says."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lakekit.errors import Corrupt
from lakekit.model import manifest_entries
from lakekit.model.data_file import DataFileMeta
from lakekit.model.manifest_entries import ADD, DELETE, ManifestEntries, live_entries, merge_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

IDENTITIES = st.tuples(
    st.sampled_from([bytes(12), b"\0\0\0\1" + bytes(16)]),  # partition
    st.integers(0, 1),  # bucket
    st.integers(0, 2),  # level
    st.sampled_from(["a", "b"]),  # file name
    st.sampled_from([(), ("x",), ("x", "y"), ("xy",)]),  # extra files
    st.sampled_from([None, b"", b"i"]),  # embedded index
    st.sampled_from([None, "", "s3://b/a"]),  # external path
)


def entry(kind: int, identity: tuple[Any, ...], rows: int = 0) -> ManifestEntries:
    partition, bucket, level, name, extra, index, path = identity
    file = DataFileMeta(name=name, size_bytes=1, row_count=rows, level=level, extra_files=extra, embedded_index=index, external_path=path)
    return manifest_entries.entries_of_files([file], kind=kind, partition=partition, bucket=bucket, total_buckets=2)


def identities(found: ManifestEntries) -> Iterator[tuple[Any, ...]]:
    for row in found.table.to_pylist():
        yield (
            *(row["kind"], row["partition"], row["bucket"], row["level"], row["file_name"]),
            *(tuple(row["extra_files"]), row["embedded_index"], row["external_path"], row["row_count"]),
        )


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, tuple[Any, ...], int]]:
    """What commits may do: a file is added once, and deleted at most once after that."""
    found: list[tuple[int, tuple[Any, ...], int]] = []
    alive: dict[tuple[Any, ...], int] = {}
    gone: set[tuple[Any, ...]] = set()
    for rows in range(draw(st.integers(0, 25))):
        if alive and draw(st.booleans()):
            identity = draw(st.sampled_from(sorted(alive, key=repr)))
            found.append((DELETE, identity, alive.pop(identity)))
            gone.add(identity)
        else:
            identity = draw(IDENTITIES)
            if identity not in alive and identity not in gone:
                alive[identity] = rows
                found.append((ADD, identity, rows))
    return found


def parted(history: list[tuple[int, tuple[Any, ...], int]], cuts: list[int]) -> list[ManifestEntries]:
    """The history as manifests."""
    one = [entry(*step) for step in history]
    edges = [0, *sorted(min(cut, len(one)) for cut in cuts), len(one)]
    return [manifest_entries.concat_entries(one[a:b]) for a, b in pairwise(edges)]


CUTS = st.lists(st.integers(0, 25), max_size=4)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(histories(), CUTS)
def test_fold_is_a_dictionary(history: list[tuple[int, tuple[Any, ...], int]], cuts: list[int]) -> None:
    alive: dict[tuple[Any, ...], int] = {}
    for kind, identity, rows in history:
        if kind == ADD:
            alive[identity] = rows
        else:
            del alive[identity]
    wanted = [(ADD, *identity, rows) for identity, rows in alive.items()]
    assert list(identities(live_entries(parted(history, cuts)))) == wanted


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(histories(), CUTS)
def test_merging_manifests_changes_no_fold(history: list[tuple[int, tuple[Any, ...], int]], cuts: list[int]) -> None:
    """Any neighbours among the manifests may be rewritten as one; deletes of files in older manifests stay."""
    parts = parted(history, cuts)
    live = live_entries(parts)
    for first in range(len(parts)):
        merged = [*parts[:first], merge_entries(parts[first:])]
        assert live_entries(merged).table.equals(live.table)
    assert set(merge_entries(parts).integers("kind").tolist()) <= {ADD}


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), IDENTITIES), max_size=12))
def test_merge_is_the_references_map(history: list[tuple[int, tuple[Any, ...]]]) -> None:
    """ADD puts, DELETE removes or is put; an ADD of what is there is refused."""
    kept: dict[tuple[Any, ...], int] = {}
    twice = False
    for kind, identity in history:
        if kind == ADD:
            twice = twice or identity in kept
            kept[identity] = ADD
        elif identity in kept:
            del kept[identity]
        else:
            kept[identity] = DELETE
    parts = [entry(kind, identity) for kind, identity in history]
    if twice:
        with pytest.raises(Corrupt, match="is added twice"):
            merge_entries(parts)
        return
    assert [row[:-1] for row in identities(merge_entries(parts))] == [(kind, *identity) for identity, kind in kept.items()]


def test_added_twice_is_refused() -> None:
    one = entry(ADD, (bytes(12), 0, 0, "a", (), None, None))
    with pytest.raises(Corrupt, match="file 'a' is added twice"):
        live_entries([one, one])


def test_a_level_is_part_of_the_identity() -> None:
    """An upgrade deletes at the old level and adds at the new one, in either order."""
    low, high = (bytes(12), 0, 0, "a", (), None, None), (bytes(12), 0, 5, "a", (), None, None)
    for change in ([entry(DELETE, low), entry(ADD, high)], [entry(ADD, high), entry(DELETE, low)]):
        assert live_entries([entry(ADD, low), *change]).integers("level").tolist() == [5]


def test_nothing() -> None:
    assert len(live_entries([])) == 0
    assert len(merge_entries([manifest_entries.empty_entries(), manifest_entries.empty_entries()])) == 0
    assert manifest_entries.empty_entries().filter(np.zeros(0, bool)).files() == []
