"""All values of the indexes of many files, in one ascending array: whoever asks again looks at a few places of that, and at no index.

    files with 1, 7 and 2, 7     data 1 2 7 7, owners 0 1 0 1     `match_values` for 2: absent of the first, there in the second

A number is kept as its bytes stand, read the wrong way round: equal where the right ones are. Of a text its 64 bit xxHash is kept: one that is not there
rules a file out; one that is there may be another text's, so that being there never says more than that a row may match.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lakekit.codec import hashing
from lakekit.codec.binary_columns import integers_at, spans
from lakekit.file_index import index_keys
from lakekit.file_index.index_keys import WIDTHS, Key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakekit.predicate import Leaf
    from lakekit.types import DataType

    Mask = NDArray[np.bool_]
    Numbers = NDArray[np.int64]

MOST_LISTED = 1 << 20
"""As many values of all files together are kept in memory."""
MOST_BYTES = 1 << 26
"""As many bytes of texts are hashed for that."""
LONGEST = 1 << 14
"""Of texts longer than so many bytes none is hashed: all of them are hashed in lockstep too."""
MOST_STEPS = 1 << 12
"""As many texts that lie one behind the other are walked through in lockstep with those of other files."""
_MOST_KEYS = 32
"""As many values are looked for among all."""
STORED_DTYPES = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
"""Values as their bytes stand: read the wrong way round, equal where the right ones are."""


class IndexValues(NamedTuple):
    """All values of many payloads as they are kept, ascending: `data[i]` is one of payload `owners[i]`; of those that are not `known` nobody knows."""

    data: NDArray[Any]
    owners: NDArray[np.int32]
    known: Mask


# ---- what is looked for -------------------------------------------------------------------------------------------------------------------------


def wire(key: Key, t: DataType) -> int | None:
    """What a number is where its bytes are read the wrong way round; None: the type has no such number."""
    width = WIDTHS[t.root]
    bound = 1 << 8 * width - 1
    assert isinstance(key, int)
    if not -bound <= key < bound:
        return None
    return int.from_bytes(index_keys.to_stored_bits(key, t).to_bytes(width, "big", signed=True), "little")


def few_keys(leaf: Leaf, t: DataType, most: int = _MOST_KEYS) -> tuple[Key, ...] | None:
    """The values that a leaf asks for, where those are few; None for other questions."""
    asked = index_keys.question(leaf, t)
    return asked.keys if asked is not None and asked.kind == "equal" and 0 < len(asked.keys) <= most else None


def match_values(values: IndexValues, t: DataType, leaf: Leaf) -> tuple[Mask, Mask]:
    """The payloads of those values in which = or IN finds no row, and which of them have one of the values that are asked for (of texts: seem to have)."""
    keys, there = few_keys(leaf, t), np.zeros(len(values.known), bool)
    if keys is None:
        return there, there
    for key in keys:
        looked_for = _stored_code(key, t)
        if looked_for is not None:
            one = values.data.dtype.type(looked_for)  # beside a number of another type all would become floats
            there[values.owners[values.data.searchsorted(one) : values.data.searchsorted(one, side="right")]] = True
    return values.known & ~there, there


def _stored_code(key: Key, t: DataType) -> int | None:
    """What would be kept of a value; None: nothing."""
    if t.root in WIDTHS:
        return wire(key, t)
    return hashing.xx64(key) if len(key) <= LONGEST else None


# ---- what is kept -------------------------------------------------------------------------------------------------------------------------------


def collect_values(data: NDArray[np.uint8], keys: IndexTexts, room: Numbers, known: Mask, t: DataType) -> IndexValues | None:
    """The values of payloads, of those that are `known`. `room` is how long they are: whose texts are longer repeats itself. None: too long to be hashed."""
    width = WIDTHS.get(t.root)
    if width is not None:
        found = np.ndarray((max(0, len(data) - width + 1),), STORED_DTYPES[width], data.data, strides=(1,))
        return _sort_values(found[keys.places], keys.owners, known)
    known = known & (np.bincount(keys.owners, keys.lengths, len(known)) <= room) & (np.bincount(keys.owners, keys.lengths > LONGEST, len(known)) == 0)
    places, lengths, owners = (one[known[keys.owners]] for one in keys)
    return _sort_values(hashing.xx64_at(data, places, lengths), owners, known) if lengths.sum() <= MOST_BYTES else None


def _sort_values(found: NDArray[Any], owners: Numbers, known: Mask) -> IndexValues:
    order = np.argsort(found)
    return IndexValues(found[order], owners[order].astype(np.int32), known)


# ---- bytes nobody has looked at -----------------------------------------------------------------------------------------------------------------


class IndexTexts(NamedTuple):
    """Texts of many payloads: where they begin, how long they are, and whose they are."""

    places: Numbers
    lengths: Numbers
    owners: Numbers


def number(data: NDArray[np.uint8], places: Numbers, size: int = 4) -> Numbers:
    """The integers at those places; of what lies beyond the data some number, which is not to be believed."""
    return integers_at(data, np.clip(places, 0, len(data) - size), size)


class EntryLists(NamedTuple):
    """Lists of entries in many payloads: where they begin, how many entries they have, and what they end before."""

    begins: Numbers
    counts: Numbers
    ends: Numbers

    def fit(self, step: int) -> Mask:
        """Which of them have room for as many entries, of `step` bytes each at least, as they say."""
        return (self.counts >= 0) & (self.counts * step <= self.ends - self.begins)


def lack_texts(data: NDArray[np.uint8], lists: EntryLists, firsts: IndexTexts, owners: Numbers, sound: Mask, keys: tuple[Key, ...]) -> Mask:
    """Which of the sound payloads hold none of those texts, by their bytes; where the bytes stand there for something else, nothing is said.

    A payload has ascending lists, those with that `owners`: a text is the first of one, or is in it, its length before it.
    """
    view, gone, known = data.data, sound.copy(), len(firsts.places) > 0

    def first(one: int) -> bytes:
        return bytes(view[firsts.places[one] : firsts.places[one] + firsts.lengths[one]])

    offsets = np.searchsorted(owners, np.arange(len(sound) + 1)).tolist()
    for payload in np.flatnonzero(sound).tolist():  # scalar: one a file
        low, high = offsets[payload : payload + 2]
        for key in keys:
            at = bisect_right(range(low, high), key, key=first) + low - 1 if known else low
            if low <= at < high and ((known and first(at) == key) or may_contain_text(view[lists.begins[at] : lists.ends[at]], key)):
                gone[payload] = False
    return gone


def may_contain_text(data: memoryview, text: bytes) -> bool:
    """Whether a text stands in some bytes, its length before it; or others by chance that look the same."""
    return len(text).to_bytes(4, "big") + text in bytes(data)


def walk(data: NDArray[np.uint8], lists: EntryLists, tail: int) -> tuple[IndexTexts, Numbers, Mask] | None:
    """Entries of a text (i32 length, bytes) and `tail` bytes, list by list, all lists in lockstep; where each list ends, and which are sound so far.

    The owners are lists, ascending. None where that takes too many steps, or the entries are too many.
    """
    sound = lists.fit(4 + tail)
    counts = np.where(sound, lists.counts, 0)
    order = np.argsort(-counts, kind="stable")
    steps = int(counts.max(initial=0))
    if counts.sum() > MOST_LISTED or steps > MOST_STEPS:
        return None
    live = len(counts) - np.searchsorted(counts[order][::-1], np.arange(steps), side="right")
    words = np.ndarray((max(0, len(data) - 3),), np.dtype(">u4"), data.data, strides=(1,))
    at, places, lengths = lists.begins[order], np.empty(int(live.sum()), np.int64), np.empty(int(live.sum()), np.int64)
    done = 0
    for n in live.tolist():  # a step is an entry of every list that still has one; lengths are unsigned, so that all go forward
        places[done : done + n] = here = at[:n]
        lengths[done : done + n] = length = words[np.minimum(here, len(words) - 1)]
        here += 4 + tail
        here += length
        done += n
    owners = order[index_within_each(live)]
    sound[owners[places + 4 + lengths + tail > lists.ends[owners]]] = False
    ends, by_list = np.empty_like(at), np.argsort(owners, kind="stable")
    ends[order] = at
    return IndexTexts(places[by_list] + 4, lengths[by_list], owners[by_list]), ends, sound


def index_within_each(counts: Numbers) -> Numbers:
    """0 … counts[0] - 1, 0 … counts[1] - 1 and so on."""
    return spans(np.zeros(len(counts), np.int64), counts)
