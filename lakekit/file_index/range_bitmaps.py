"""Dictionaries of the range bitmaps of many files, looked at together: heads, chunks and keys are read for all of them at once.

    lack(payloads, type, keys, row_counts)      who asks once: in each payload the one chunk that a key would be in is looked through
    listed(payloads, type, row_counts)          who asks again: all keys of all payloads

The layout is told in `file_index.range_bitmap`. No byte of it is believed before it was looked at: what does not fit says nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lakekit.file_index import index_keys, values
from lakekit.file_index.index_keys import WIDTHS, Key
from lakekit.file_index.values import EntryLists, IndexTexts, number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakekit.file_index.container import Payloads
    from lakekit.file_index.values import IndexValues, Mask, Numbers
    from lakekit.types import DataType

_HEAD_BYTES = 17
"""Of a payload without values: its length, the version, rows, distinct values, the dictionary's length; of a dictionary all before its offsets."""


class _Dictionaries(NamedTuple):
    """Of payloads that are long enough: which those are and where they end, where the least and the greatest key, offsets, heads and other keys begin.

    And how many chunks there are, and which payloads are sound as far as that.
    """

    at: Numbers
    ends: Numbers
    low: Numbers
    high: Numbers
    offsets: Numbers
    heads: Numbers
    keys: Numbers
    chunks: Numbers
    sound: Mask

    def some(self, chosen: Numbers) -> _Dictionaries:
        """Some of them."""
        at, ends, low, high, offsets, heads, keys, chunks = (one[chosen] for one in self[:-1])
        return _Dictionaries(at, ends, low, high, offsets, heads, keys, chunks, self.sound[chosen])


def _dictionaries(payloads: Payloads, t: DataType, row_counts: Numbers) -> _Dictionaries:
    data, at = payloads.data, np.flatnonzero(payloads.ends - payloads.begins >= _HEAD_BYTES)
    begins, ends, counts = payloads.begins[at], payloads.ends[at], row_counts[at]
    read, width = partial(number, data), WIDTHS.get(t.root)
    length, distinct = read(begins), read(begins + 9)
    sound = (read(begins + 4, 1) == 1) & (read(begins + 5) == counts) & (distinct >= 0) & (distinct <= counts)
    low, some = begins + 13, distinct > 0
    high = low + (width or 4 + read(low))
    after = np.where(some, high + (width or 4 + read(high)), low)
    sound &= (after == begins + length) & (after + 4 <= ends) & (read(after) >= 0) & (~some | ((low < high) & (high < after)))
    start, chunks = after + 4, read(after + 9)
    offsets, heads_length = start + _HEAD_BYTES, read(start + 13)
    heads = offsets + 4 * chunks
    fits = (offsets <= np.minimum(start + read(after), ends)) & (heads <= ends) & (heads_length >= 0) & (chunks > 0)
    fits &= (read(start) == 13) & (read(start + 4, 1) == 1) & (read(start + 9) == 4 * chunks)
    sound &= fits | ~some  # of no values nobody looks at the dictionary
    return _Dictionaries(at, ends, low, high, offsets, heads, heads + heads_length, np.where(sound & some, chunks, 0), sound)


class _Chunks(NamedTuple):
    """Chunks: their first keys, where the other keys begin (of texts their offsets), how many those are, and which chunks are sound as far as that.

    Of texts also what the other keys lie in.
    """

    firsts: Numbers
    lengths: Numbers
    begins: Numbers
    others: Numbers
    texts: EntryLists
    sound: Mask


def _chunks(data: NDArray[np.uint8], whose: _Dictionaries, nth: Numbers, t: DataType) -> _Chunks:
    """One chunk of each dictionary."""
    read, width = partial(number, data), WIDTHS.get(t.root)
    offset = read(whose.offsets + 4 * nth)
    place = whose.heads + offset
    lengths = np.full(len(place), width) if width else read(place + 1)
    firsts = place + (1 if width else 5)
    fields = firsts + lengths
    code, keys, others, last = (read(fields + at) for at in (0, 4, 8, 16))
    begins = whose.keys + keys
    sound = (offset >= 0) & (read(place, 1) == 1) & (lengths >= 0) & (fields + 20 <= whose.ends) & (code >= 0) & (keys >= 0) & (others >= 0)
    texts = begins + 4 * others
    ends = begins + width * others if width else texts + last
    return _Chunks(
        firsts, lengths, begins, others, EntryLists(texts, others, ends), sound & (ends <= whose.ends) & ((width or last) >= 0) & (begins <= whose.ends)
    )


def _every_chunk(data: NDArray[np.uint8], found: _Dictionaries, t: DataType) -> tuple[Numbers, _Chunks]:
    """All chunks, and whose they are; dictionaries with damaged ones are sound no longer."""
    owners = np.repeat(np.arange(len(found.at)), found.chunks)
    chunk = _chunks(data, found.some(owners), values.index_within_each(found.chunks), t)
    found.sound[owners[~chunk.sound]] = False
    return owners, chunk


# ---- asked once ---------------------------------------------------------------------------------------------------------------------------------


def lack(payloads: Payloads, t: DataType, keys: tuple[Key, ...], row_counts: Numbers) -> Mask:
    """The payloads that hold none of those keys, of texts most of them; damaged ones are none of them."""
    found, dead = _dictionaries(payloads, t, row_counts), np.zeros(len(payloads), bool)
    dead[found.at] = (_lack_numbers if t.root in WIDTHS else _lack_texts)(payloads.data, found, t, keys)
    return dead


def _lack_texts(data: NDArray[np.uint8], found: _Dictionaries, t: DataType, keys: tuple[Key, ...]) -> Mask:
    if found.chunks.sum() > values.MOST_LISTED:
        return np.zeros(len(found.at), bool)
    owners, chunk = _every_chunk(data, found, t)
    return values.lack_texts(data, chunk.texts, IndexTexts(chunk.firsts, chunk.lengths, owners), owners, found.sound, keys)


def _lack_numbers(data: NDArray[np.uint8], found: _Dictionaries, t: DataType, keys: tuple[Key, ...]) -> Mask:
    gone, some = found.sound.copy(), found.chunks > 0
    low, high = (_numbers(data, one, t) for one in (found.low, found.high))
    for key in keys:
        if values.wire(key, t) is not None:
            inside = np.flatnonzero(some & (low <= key) & (key <= high))
            gone[inside[_may_hold(data, found.some(inside), t, key)]] = False
    return gone


def _numbers(data: NDArray[np.uint8], places: Numbers, t: DataType) -> Numbers:
    """The keys at those places."""
    found = number(data, places, WIDTHS[t.root])
    return index_keys.order_float_bits(found, WIDTHS[t.root]) if t.root in ("FLOAT", "DOUBLE") else found


def _may_hold(data: NDArray[np.uint8], whose: _Dictionaries, t: DataType, key: Key) -> Mask:
    """Which dictionaries have a key or are damaged where it would be: a search among the chunks of each, then in one."""
    low, high, damaged = np.zeros_like(whose.chunks), whose.chunks, np.zeros(len(whose.chunks), bool)
    while (low < high).any():
        under_way, middle = low < high, (low + high) >> 1
        chunk = _chunks(data, whose, middle, t)
        damaged |= under_way & ~chunk.sound
        before = _numbers(data, chunk.firsts, t) <= key
        low, high = np.where(under_way & before, middle + 1, low), np.where(under_way & ~before, middle, high)
    chunk = _chunks(data, whose, np.maximum(low - 1, 0), t)
    found = (low > 0) & (_numbers(data, chunk.firsts, t) == key)
    low, high = np.zeros_like(low), np.where((low > 0) & ~damaged, chunk.others, 0)
    others = high
    while (low < high).any():
        under_way, middle = low < high, (low + high) >> 1
        before = _numbers(data, chunk.begins + WIDTHS[t.root] * middle, t) < key
        low, high = np.where(under_way & before, middle + 1, low), np.where(under_way & ~before, middle, high)
    return damaged | found | ((low < others) & (_numbers(data, chunk.begins + WIDTHS[t.root] * low, t) == key))


# ---- asked again --------------------------------------------------------------------------------------------------------------------------------


def listed(payloads: Payloads, t: DataType, row_counts: Numbers) -> IndexValues | None:
    """The values of many payloads, for who asks more than once; None where they are more than are worth it."""
    data, width = payloads.data, WIDTHS.get(t.root)
    found = _dictionaries(payloads, t, row_counts)
    if found.chunks.sum() > values.MOST_LISTED:
        return None
    sound, (owners, chunk) = found.sound, _every_chunk(data, found, t)
    begins, others, whose = (one[sound[owners]] for one in (chunk.begins, chunk.others, owners))
    if len(begins) + others.sum() > values.MOST_LISTED:
        return None
    nth, many = values.index_within_each(others), np.repeat(whose, others)
    begins = np.repeat(begins, others)
    if width is not None:
        places, lengths = begins + width * nth, np.full(len(nth), width)
    else:
        offsets, starts = number(data, begins + 4 * nth), begins + 4 * np.repeat(others, others)
        places, lengths = starts + offsets + 4, number(data, starts + offsets)
        sound[many[(offsets < 0) | (lengths < 0) | (places + lengths > found.ends[many])]] = False
    places, lengths, whose = (np.concatenate(pair) for pair in ((chunk.firsts, places), (chunk.lengths, lengths), (owners, many)))
    chosen, known = sound[whose], np.zeros(len(payloads), bool)
    known[found.at] = sound
    keys = IndexTexts(places[chosen], lengths[chosen], found.at[whose[chosen]])
    return values.collect_values(data, keys, payloads.ends - payloads.begins, known, t)
