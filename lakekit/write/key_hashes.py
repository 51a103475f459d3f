"""Which bucket each key's hash lies in, for one partition: six bytes a key.

    pieces    hashes -9 -4 2 | 7 30 41 | …        ascending; each piece two arrays, int32 hashes and int16 buckets
              buckets 0  1 0 | 1  0  2 | …
    recent    hashes 3 8                          what came since, ascending too; goes into the pieces when it has grown to a sixteenth of them: in small maps
                                                  before more comes, as a batch seldom has a second one

Pieces are replaced one at a time, so that growing takes no second copy of the whole: 100 million keys take 600 MB, and little more while they are loaded.
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
"""Up to so many ascending runs are put in order by merging them: where numpy sorts by the widest instructions that takes as long as sorting, else a quarter."""
UNKNOWN_BUCKET = -1


class HashRun(NamedTuple):
    """Ascending hashes and the bucket of each."""

    hashes: Hashes
    buckets: Buckets


_EMPTY_RUN = HashRun(np.zeros(0, np.int32), np.zeros(0, np.int16))


class KeyHashes:
    """The map from hash to bucket. Questions and additions are arrays of ascending, distinct hashes."""

    def __init__(self) -> None:
        self._pieces: list[HashRun] = []
        self._recent = _EMPTY_RUN
        self.counts: dict[int, int] = {}
        """How many hashes each bucket has."""

    def __len__(self) -> int:
        return sum(len(piece.hashes) for piece in self._pieces) + len(self._recent.hashes)

    @property
    def memory_bytes(self) -> int:
        """What the arrays take."""
        return sum(array.nbytes for piece in (*self._pieces, self._recent) for array in piece)

    @staticmethod
    def of_files(files: Iterable[tuple[int, Hashes]]) -> KeyHashes:
        """The map of some index files: each a bucket and its hashes. Of a hash that stands in two, the later one counts.

        Files are cut into ranges of hashes as they come, and let go; ranges are sorted one after the other.
        """
        made = KeyHashes()
        buckets: list[int] = []
        ranges: list[list[tuple[int, Hashes]]] = [[] for _ in range(64)]
        bounds = np.linspace(-(2.0**31), 2.0**31, len(ranges) + 1).astype(np.int64)[1:-1]
        for number, (bucket, given) in enumerate(files):
            buckets.append(bucket)
            hashes = _sort_hashes(given)
            cuts = [0, *np.searchsorted(hashes, bounds).tolist(), len(hashes)]  # scalar: one a range
            for i, part in enumerate(ranges):
                if cuts[i] < cuts[i + 1]:
                    part.append((number, hashes[cuts[i] : cuts[i + 1]].copy()))
        of_file = np.array(buckets, np.int16)
        for part in ranges:
            if part:
                made._pieces += _split_run(_merge_files(part, of_file))
                part.clear()
        for piece in made._pieces:
            made._count(piece.buckets)
        return made

    def find(self, hashes: Hashes) -> Buckets:
        """The bucket of each hash, -1 where there is none."""
        found = np.full(len(hashes), UNKNOWN_BUCKET, np.int16)
        for (start, end), piece in zip(self._spans(hashes), self._pieces, strict=True):
            _look_up(piece, hashes[start:end], found[start:end])
        _look_up(self._recent, hashes, found)
        return found

    def add(self, hashes: Hashes, buckets: Buckets) -> None:
        """Hashes that are not there yet."""
        self._count(buckets)
        settled = sum(len(piece.hashes) for piece in self._pieces)
        most = max(_MIN_RECENT_HASHES, settled >> 4)
        if len(self._recent.hashes) > most:
            self._settle()
        self._recent = _merge_runs(self._recent, HashRun(hashes, buckets))
        if settled > _LARGE_HASH_COUNT and len(self._recent.hashes) > most:  # a big map does not wait for more: what came and the pieces are held twice by then
            self._settle()

    def of_buckets(self, wanted: Iterable[int]) -> Iterator[tuple[int, Hashes]]:
        """All hashes of some buckets, bucket after bucket, gathered a few million at a time."""
        group: list[int] = []
        held = 0
        for bucket in sorted(wanted):
            group.append(bucket)
            held += self.counts.get(bucket, 0)
            if held >= _LARGE_HASH_COUNT:
                yield from self._gathered(group).items()
                group, held = [], 0
        if group:
            yield from self._gathered(group).items()

    def _gathered(self, wanted: list[int]) -> Mapping[int, Hashes]:
        pieces = (*self._pieces, self._recent)
        if len(wanted) <= _MAX_DIRECT_BUCKETS:
            return {bucket: np.concatenate([piece.hashes[piece.buckets == bucket] for piece in pieces]) for bucket in wanted}
        is_wanted = np.zeros(_MOST_BUCKETS, np.bool_)
        is_wanted[wanted] = True
        parts: dict[int, list[Hashes]] = {bucket: [] for bucket in wanted}
        for piece in pieces:
            chosen = is_wanted[piece.buckets]
            buckets, hashes = piece.buckets[chosen], piece.hashes[chosen]
            order = np.argsort(buckets, kind="stable")
            cuts = np.searchsorted(buckets[order], np.array([*wanted, _MOST_BUCKETS], np.int32))
            for bucket, start, end in zip(wanted, cuts[:-1], cuts[1:], strict=True):
                if start < end:
                    parts[bucket].append(hashes[order[start:end]])
        return {bucket: np.concatenate(found) if found else _EMPTY_RUN.hashes for bucket, found in parts.items()}

    def _count(self, buckets: Buckets) -> None:
        for bucket, count in zip(*np.unique(buckets, return_counts=True), strict=True):  # scalar: one a bucket
            self.counts[int(bucket)] = self.counts.get(int(bucket), 0) + int(count)

    def _spans(self, hashes: Hashes) -> list[tuple[int, int]]:
        """Which of some ascending hashes belong to each piece: from its first hash to the next one's, the first piece's from the beginning."""
        if not self._pieces:
            return []
        firsts = np.array([piece.hashes[0] for piece in self._pieces[1:]], np.int32)
        cuts = [0, *np.searchsorted(hashes, firsts).tolist(), len(hashes)]  # scalar: one a piece
        return list(pairwise(cuts))

    def _settle(self) -> None:
        """The recent hashes into the pieces."""
        recent, self._recent = self._recent, _EMPTY_RUN
        if not self._pieces:
            self._pieces = _split_run(recent)
            return
        made: list[HashRun] = []
        for at, (start, end) in enumerate(self._spans(recent.hashes)):
            piece = self._pieces[at]
            self._pieces[at] = _EMPTY_RUN  # let go as soon as its successor is there
            if start < end:
                made += _split_run(_merge_runs(piece, HashRun(recent.hashes[start:end], recent.buckets[start:end])))
            else:
                made.append(piece)
        self._pieces = made


def _look_up(piece: HashRun, hashes: Hashes, found: Buckets) -> None:
    """Puts the buckets of those hashes that a piece has into `found`."""
    if not len(hashes) or not len(piece.hashes):
        return
    at = np.searchsorted(piece.hashes, hashes)
    at[at == len(piece.hashes)] = 0
    known = np.flatnonzero(piece.hashes[at] == hashes)
    found[known] = piece.buckets[at[known]]


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
    """Hashes in order. Files of lakekit are ascending but for what came last: few runs, which a stable sort merges; no other order is that sort's."""
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
    """A piece as several of `PIECE` hashes, each with its own memory."""
    size = len(piece.hashes)
    if size <= 2 * PIECE:
        return [piece] if size else []
    return [HashRun(piece.hashes[at : at + PIECE].copy(), piece.buckets[at : at + PIECE].copy()) for at in range(0, size, PIECE)]
