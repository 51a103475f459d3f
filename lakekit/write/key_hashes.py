"""The bucket of each key hash of one partition: six bytes a key.

    pieces    hashes -9 -4 2 | 7 30 41 | …        ascending; each piece two arrays, int32 hashes and int16 buckets
              buckets 0  1 0 | 1  0  2 | …
    recent    hashes 3 8                          later additions, ascending; merged into the pieces when they reach
                                                  a sixteenth of them, in small maps before the next addition

Pieces are replaced one at a time, so growing needs no second copy of everything: 100 million keys take 600 MB, and
little more while they are loaded.
Source: ENGINE.md 7.3; `PartitionIndex`, `Int2ShortHashMap`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    Hashes = NDArray[np.int32]
    Buckets = NDArray[np.int16]

PIECE = 1 << 18
"""Hashes of one piece."""
_MIN_RECENT_HASHES = 1 << 16
_RANGE = 1 << 22
_LARGE_HASH_COUNT = 1 << 23
_MOST_BUCKETS = 1 << 15
_MAX_DIRECT_BUCKETS = 4
"""Up to so many buckets are looked for one after the other."""
_MAX_MERGE_RUNS = 16
"""Up to so many ascending runs are put in order by merging them: where numpy sorts by the widest instructions that
takes as long as sorting, else a quarter.
"""
UNKNOWN_BUCKET = -1


class HashRun(NamedTuple):
    """Ascending hashes and the bucket of each."""

    hashes: Hashes
    buckets: Buckets


_EMPTY_RUN = HashRun(np.zeros(0, np.int32), np.zeros(0, np.int16))


class KeyHashes:
    """The map from hash to bucket. Lookups and additions take arrays of ascending, distinct hashes."""

    def __init__(self) -> None:
        self._pieces: list[HashRun] = []
        self._recent = _EMPTY_RUN
        self.counts: dict[int, int] = {}
        """How many hashes each bucket has."""

    def __len__(self) -> int:
        return sum(len(piece.hashes) for piece in self._pieces) + len(self._recent.hashes)

    @property
    def memory_bytes(self) -> int:
        """The memory of the arrays, in bytes."""
        return sum(array.nbytes for piece in (*self._pieces, self._recent) for array in piece)

    @staticmethod
    def of_files(files: Iterable[tuple[int, Hashes]]) -> KeyHashes:
        """Build the map from index files, given as bucket and hashes.

        For a hash in two files the later one counts. Files are cut into ranges of hashes as they come, and released;
        ranges are sorted one after the other.
        """
        key_hashes = KeyHashes()
        buckets: list[int] = []
        ranges: list[list[tuple[int, Hashes]]] = [[] for _ in range(64)]
        bounds = np.linspace(-(2.0**31), 2.0**31, len(ranges) + 1).astype(np.int64)[1:-1]
        for number, (bucket, file_hashes) in enumerate(files):
            buckets.append(bucket)
            hashes = _sort_hashes(file_hashes)
            cuts = [0, *np.searchsorted(hashes, bounds).tolist(), len(hashes)]  # scalar: one a range
            for i, part in enumerate(ranges):
                if cuts[i] < cuts[i + 1]:
                    part.append((number, hashes[cuts[i] : cuts[i + 1]].copy()))
        of_file = np.array(buckets, np.int16)
        for part in ranges:
            if part:
                key_hashes._pieces += _split_run(_merge_files(part, of_file))
                part.clear()
        for piece in key_hashes._pieces:
            key_hashes._count(piece.buckets)
        return key_hashes

    def find(self, hashes: Hashes) -> Buckets:
        """Return the bucket of each hash, -1 if there is none."""
        buckets = np.full(len(hashes), UNKNOWN_BUCKET, np.int16)
        for (start, end), piece in zip(self._spans(hashes), self._pieces, strict=True):
            _look_up(piece, hashes[start:end], buckets[start:end])
        _look_up(self._recent, hashes, buckets)
        return buckets

    def add(self, hashes: Hashes, buckets: Buckets) -> None:
        """Hashes that are not there yet."""
        self._count(buckets)
        settled = sum(len(piece.hashes) for piece in self._pieces)
        most = max(_MIN_RECENT_HASHES, settled >> 4)
        if len(self._recent.hashes) > most:
            self._settle()
        self._recent = _merge_runs(self._recent, HashRun(hashes, buckets))
        # a big map does not wait for more: what came and the pieces are held twice by then
        if settled > _LARGE_HASH_COUNT and len(self._recent.hashes) > most:
            self._settle()

    def of_buckets(self, buckets: Iterable[int]) -> Iterator[tuple[int, Hashes]]:
        """Yield all hashes of the buckets, bucket by bucket, collected a few million at a time."""
        group: list[int] = []
        hash_count = 0
        for bucket in sorted(buckets):
            group.append(bucket)
            hash_count += self.counts.get(bucket, 0)
            if hash_count >= _LARGE_HASH_COUNT:
                yield from self._gathered(group).items()
                group, hash_count = [], 0
        if group:
            yield from self._gathered(group).items()

    def _gathered(self, bucket_ids: list[int]) -> Mapping[int, Hashes]:
        pieces = (*self._pieces, self._recent)
        if len(bucket_ids) <= _MAX_DIRECT_BUCKETS:
            return {
                bucket: np.concatenate([piece.hashes[piece.buckets == bucket] for piece in pieces])
                for bucket in bucket_ids
            }
        is_wanted = np.zeros(_MOST_BUCKETS, np.bool_)
        is_wanted[bucket_ids] = True
        parts: dict[int, list[Hashes]] = {bucket: [] for bucket in bucket_ids}
        for piece in pieces:
            mask = is_wanted[piece.buckets]
            buckets, hashes = piece.buckets[mask], piece.hashes[mask]
            order = np.argsort(buckets, kind="stable")
            cuts = np.searchsorted(buckets[order], np.array([*bucket_ids, _MOST_BUCKETS], np.int32))
            for bucket, start, end in zip(bucket_ids, cuts[:-1], cuts[1:], strict=True):
                if start < end:
                    parts[bucket].append(hashes[order[start:end]])
        return {bucket: np.concatenate(arrays) if arrays else _EMPTY_RUN.hashes for bucket, arrays in parts.items()}

    def _count(self, buckets: Buckets) -> None:
        for bucket, count in zip(*np.unique(buckets, return_counts=True), strict=True):  # scalar: one a bucket
            self.counts[int(bucket)] = self.counts.get(int(bucket), 0) + int(count)

    def _spans(self, hashes: Hashes) -> list[tuple[int, int]]:
        """Return the range of the ascending hashes that belongs to each piece.

        A piece covers its first hash up to the next piece's; the first piece also everything below.
        """
        if not self._pieces:
            return []
        firsts = np.array([piece.hashes[0] for piece in self._pieces[1:]], np.int32)
        cuts = [0, *np.searchsorted(hashes, firsts).tolist(), len(hashes)]  # scalar: one a piece
        return list(pairwise(cuts))

    def _settle(self) -> None:
        """Merge the recent hashes into the pieces."""
        recent, self._recent = self._recent, _EMPTY_RUN
        if not self._pieces:
            self._pieces = _split_run(recent)
            return
        merged: list[HashRun] = []
        for position, (start, end) in enumerate(self._spans(recent.hashes)):
            piece = self._pieces[position]
            self._pieces[position] = _EMPTY_RUN  # let go as soon as its successor is there
            if start < end:
                merged += _split_run(_merge_runs(piece, HashRun(recent.hashes[start:end], recent.buckets[start:end])))
            else:
                merged.append(piece)
        self._pieces = merged


def _look_up(piece: HashRun, hashes: Hashes, buckets: Buckets) -> None:
    """Write into `buckets` the buckets of those hashes that the piece has."""
    if not len(hashes) or not len(piece.hashes):
        return
    positions = np.searchsorted(piece.hashes, hashes)
    positions[positions == len(piece.hashes)] = 0
    matching = np.flatnonzero(piece.hashes[positions] == hashes)
    buckets[matching] = piece.buckets[positions[matching]]


def _merge_runs(piece: HashRun, new: HashRun) -> HashRun:
    """Two ascending pieces as one. `new` has no hash of `piece`."""
    if not len(piece.hashes):
        return new
    at = np.searchsorted(piece.hashes, new.hashes) + np.arange(len(new.hashes))
    old = np.ones(len(piece.hashes) + len(new.hashes), np.bool_)
    old[at] = False
    hashes, buckets = np.empty(len(old), np.int32), np.empty(len(old), np.int16)
    hashes[at], buckets[at] = new
    hashes[old], buckets[old] = piece
    return HashRun(hashes, buckets)


def _sort_hashes(hashes: Hashes) -> Hashes:
    """Sort hashes. Few ascending runs, as in files of lakekit, are merged by a stable sort.

    Otherwise numpy's default sort is faster.
    """
    falls = int(np.count_nonzero(hashes[1:] < hashes[:-1]))
    return np.sort(hashes, kind="stable" if falls < _MAX_MERGE_RUNS else None) if falls else hashes


def _merge_files(parts: list[tuple[int, Hashes]], of_file: Buckets) -> HashRun:
    """Hashes of several files, each with its file's number, as one piece."""
    both = np.concatenate([(hashes.astype(np.int64) << 32) | number for number, hashes in parts])
    both.sort(kind="stable" if len(parts) <= _MAX_MERGE_RUNS else None)  # a stable sort merges runs, each file is one
    hashes = (both >> 32).astype(np.int32)
    last = np.append(hashes[1:] != hashes[:-1], True)
    return HashRun(hashes[last], of_file[(both[last] & 0xFFFFFFFF)])


def _split_run(piece: HashRun) -> list[HashRun]:
    """Split a piece into pieces of `PIECE` hashes, each with its own memory."""
    size = len(piece.hashes)
    if size <= 2 * PIECE:
        return [piece] if size else []
    return [
        HashRun(piece.hashes[at : at + PIECE].copy(), piece.buckets[at : at + PIECE].copy())
        for at in range(0, size, PIECE)
    ]
