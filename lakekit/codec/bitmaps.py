"""Roaring bitmaps one behind the other, checked together: what `bitmap.read_layout` checks of each, in a tenth of the time where they are small.

    3a300000 01000000 0000 0400 10000000 | 5 positions | 3a300000 01000000 0000 0100 10000000 | 2 positions | …
    heads are read one by one; then the positions of all arrays are looked at in one go, the bits of all containers of bits, and the runs of all

Only what is sound is told. What is wrong with the first that is not, `read_layout` says, and it decides of those of many containers.
"""

from __future__ import annotations

import struct
from bisect import bisect
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

COOKIE_NO_RUNS, COOKIE_WITH_RUNS = 12346, 12347
ARRAY, BITMAP, RUN = 0, 1, 2
ARRAY_MAX = 4096
BITMAP_BYTES = 8192
_MAX_CONTAINERS = 64
"""A bitmap of more containers is checked alone: that is as fast."""
_OFFSETS_FROM = 4
"""With runs, bitmaps of so many containers list where they are."""
_TWO, _ONE_PLAIN, _ONE_OF_RUNS = struct.Struct("<II"), struct.Struct("<IIHHI"), struct.Struct("<BHHH")
_ONE_HEAD = _ONE_PLAIN.size


class Sound(NamedTuple):
    """Bitmaps that are sound: where each of them ends, and how many positions it has."""

    ends: list[int]
    cards: list[int]


_Container = tuple[int, int, int, int]
"""Its form, how many positions it has, and from where to where its positions, bits or runs lie."""


class _ContainerSet(NamedTuple):
    """What all containers of a form hold, and for each of them its bitmap and how many positions it has."""

    bitmaps: list[int]
    cards: list[int]
    bodies: list[memoryview]


def find_sound_bitmaps(data: bytes | memoryview, begin: int, end: int, most: int) -> Sound:
    """Those of the bitmaps at `data[begin:end]` that are sound, `most` at most, up to the first that is not or has many containers."""
    view, at = memoryview(data), begin
    ends, cards = list[int](), list[int]()
    forms = tuple(_ContainerSet([], [], []) for _ in (ARRAY, BITMAP, RUN))
    while len(ends) < most:
        single = _read_single_container(view, at, end)
        containers = [single] if single is not None else _read_containers(view, at, end)
        if containers is None:
            break
        for form, card, first, after in containers:
            held = forms[form]
            held.bitmaps.append(len(ends))
            held.cards.append(card)
            held.bodies.append(view[first:after])
        at = containers[-1][3] if containers else at + _TWO.size
        ends.append(at)
        cards.append(containers[0][1] if len(containers) == 1 else sum(one[1] for one in containers))
    checks = zip((_find_unordered, _find_miscounted, _find_bad_runs), forms, strict=True)
    many = min((wrong for check, held in checks if held.cards and (wrong := check(held)) is not None), default=len(ends))
    return Sound(ends[:many], cards[:many])


def _read_single_container(view: memoryview, at: int, end: int) -> _Container | None:
    """The container of the bitmap at `at` where it has one."""
    if end - at < _ONE_HEAD:
        return None
    cookie, count, _, less, offset = _ONE_PLAIN.unpack_from(view, at)
    if cookie == COOKIE_NO_RUNS and count == 1 and offset == _ONE_HEAD:
        begin, card = at + _ONE_HEAD, less + 1
        found = (ARRAY, card, begin, begin + 2 * card) if card <= ARRAY_MAX else (BITMAP, card, begin, begin + BITMAP_BYTES)
    elif cookie == COOKIE_WITH_RUNS:  # and of one container
        flags, _, less, runs = _ONE_OF_RUNS.unpack_from(view, at + 4)
        begin = at + 4 + _ONE_OF_RUNS.size
        found = (RUN, less + 1, begin, begin + 4 * runs)
        if not flags & 1 or not runs:
            return None
    else:
        return None
    return found if found[3] <= end else None


def _read_containers(view: memoryview, at: int, end: int) -> list[_Container] | None:
    """The containers of the bitmap at `at`; None where its head is not that of one, or those of its containers are not."""
    if end - at < _TWO.size:
        return None
    cookie, count = _TWO.unpack_from(view, at)
    head, flags = at + _TWO.size, 0
    if cookie & 0xFFFF == COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        head = at + 4 + (count + 7) // 8
        flags = int.from_bytes(view[at + 4 : head], "little")
    elif cookie != COOKIE_NO_RUNS:
        return None
    listed = cookie == COOKIE_NO_RUNS or count >= _OFFSETS_FROM
    place = head + (8 if listed else 4) * count
    if count > _MAX_CONTAINERS or place > end:
        return None
    numbers, found, before = _heads(count, listed).unpack_from(view, head), list[_Container](), -1
    for nth in range(count):
        high, card = numbers[2 * nth], numbers[2 * nth + 1] + 1
        one = _container(view, place, card, is_run=bool(flags >> nth & 1))
        if high <= before or (listed and numbers[2 * count + nth] != place - at) or one[3] > end or one[2] == one[3]:
            return None
        found.append(one)
        before, place = high, one[3]
    return found


def _container(view: memoryview, at: int, card: int, *, is_run: bool) -> _Container:
    if is_run:
        return (RUN, card, at + 2, at + 2 + 4 * int.from_bytes(view[at : at + 2], "little"))
    return (ARRAY, card, at, at + 2 * card) if card <= ARRAY_MAX else (BITMAP, card, at, at + BITMAP_BYTES)


@lru_cache(2 * _MAX_CONTAINERS)
def _heads(count: int, listed: bool) -> struct.Struct:
    """The keys and cardinalities of containers, and their offsets where they are listed."""
    return struct.Struct(f"<{2 * count}H{count if listed else 0}I")


def _find_unordered(held: _ContainerSet) -> int | None:
    """The first bitmap with an array whose positions do not ascend."""
    values = np.frombuffer(b"".join(held.bodies), "<u2")  # joined, they lie as the machine likes it
    ascends = values[1:] > values[:-1]
    ends = list(accumulate(held.cards))
    ascends[np.array(ends[:-1], np.int64) - 1] = True
    return None if ascends.all() else held.bitmaps[bisect(ends, int(ascends.argmin()))]


def _find_miscounted(held: _ContainerSet) -> int | None:
    """The first bitmap with a container of bits that are not as many as its head says."""
    words = np.frombuffer(b"".join(held.bodies), "<u8").reshape(len(held.bodies), -1)
    wrong = np.bitwise_count(words).sum(axis=1, dtype=np.uint32) != held.cards
    return held.bitmaps[int(wrong.argmax())] if wrong.any() else None


def _find_bad_runs(held: _ContainerSet) -> int | None:
    """The first bitmap with runs that overlap, go too far, or are not as many positions as their head says."""
    table = np.frombuffer(b"".join(held.bodies), "<u2")
    firsts, more = table[::2].copy(), table[1::2].copy()
    lasts = firsts + more  # beyond 65535 it begins again, and is less than the first
    places = np.array(list(accumulate(map(len, held.bodies), initial=0)), np.int64) // 4
    begins, ends, cards = places[:-1], places[1:], np.array(held.cards, np.int64)
    fine = lasts >= firsts
    after = firsts[1:] > lasts[:-1]
    after[begins[1:] - 1] = True
    fine[1:] &= after
    counts = ends - begins
    wrong = np.add.reduceat(more, begins, dtype=np.uint16) + counts != cards  # runs that are apart fit 16 bits together, and others are not fine
    if fine.all() and not wrong.any():
        return None
    unlike = [*np.flatnonzero(wrong)[:1].tolist(), *np.searchsorted(ends, np.flatnonzero(~fine)[:1], side="right").tolist()]  # scalar: two at most
    return held.bitmaps[min(unlike)]
