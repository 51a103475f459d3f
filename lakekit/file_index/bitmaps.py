"""Bitmap indexes of many files, looked at together: heads, blocks and values are read for all of them at once.

    absent(payloads, type, leaf, row_counts)    who asks once: in each payload the one block that a value would be in is looked through
    listed(payloads, type, row_counts)          who asks again: all values of all payloads

The layout is told in `file_index.bitmap`. No byte of it is believed before it was looked at: what does not fit says nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lakekit.codec.binary_columns import integers_at
from lakekit.file_index import index_keys, values
from lakekit.file_index.index_keys import WIDTHS, Key
from lakekit.file_index.values import STORED_DTYPES, EntryLists, IndexTexts, number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lakekit.file_index.container import Payloads
    from lakekit.file_index.values import IndexValues, Mask, Numbers
    from lakekit.predicate import Leaf
    from lakekit.types import DataType

MAX_SEARCHED_KEYS = 4
"""As many values are searched one by one."""
_HEAD_BYTES = 10
"""Version, rows, distinct values, whether there are nulls."""


class _Version(NamedTuple):
    """Payloads of one version whose head is sound: which those are, what comes after that and where they end, and how many values they say they have."""

    number: int
    at: Numbers
    after: Numbers
    ends: Numbers
    counts: Numbers


def _by_version(payloads: Payloads, row_counts: Numbers) -> Iterator[_Version]:
    data, begins, ends = payloads
    at = np.flatnonzero(ends - begins >= _HEAD_BYTES)
    begins = begins[at]
    versions, nulls = data[begins], data[begins + _HEAD_BYTES - 1].astype(np.int64)
    known = (integers_at(data, begins + 1, 4) == row_counts[at]) & (nulls <= 1)
    for version in (1, 2):
        mine = np.flatnonzero(known & (versions == version))
        if len(mine):
            after = begins[mine] + _HEAD_BYTES + 4 * version * nulls[mine]
            yield _Version(version, at[mine], after, ends[at[mine]], integers_at(data, begins[mine] + 5, 4))


# ---- asked once ---------------------------------------------------------------------------------------------------------------------------------


def absent(payloads: Payloads, t: DataType, leaf: Leaf, row_counts: Numbers) -> Mask:
    """Of which of many payloads `probe` says False, of texts of most of them; damaged ones say nothing."""
    dead, keys = np.zeros(len(payloads), bool), values.few_keys(leaf, t, MAX_SEARCHED_KEYS)
    if keys is None:
        return dead
    for version in _by_version(payloads, row_counts):
        dead[version.at] = (_lack_numbers if t.root in WIDTHS else _lack_texts)(payloads.data, version, t, keys)
    return dead


def _lack_numbers(data: NDArray[np.uint8], version: _Version, t: DataType, keys: tuple[Key, ...]) -> Mask:
    gone = np.ones(len(version.at), bool)
    for key in keys:
        lists = EntryLists(version.after, version.counts, version.ends) if version.number == 1 else _block_of(data, version.after, version.ends, t, key)
        gone &= _mask_lacking(data, lists, WIDTHS[t.root] + 4 * version.number, t, key)
    return gone


def _lack_texts(data: NDArray[np.uint8], version: _Version, t: DataType, keys: tuple[Key, ...]) -> Mask:
    found = _blocks(data, version, t)
    return np.zeros(len(version.at), bool) if found is None else values.lack_texts(data, found.lists, found.firsts, found.owners, found.sound, keys)


def _mask_lacking(data: NDArray[np.uint8], lists: EntryLists, step: int, t: DataType, key: Key) -> Mask:
    """Which of those lists hold no such value. Of one that says more than fits nobody knows."""
    found, wire, stored = lists.fit(step), values.wire(key, t), STORED_DTYPES[WIDTHS[t.root]]
    if wire is None:
        return found
    some = np.flatnonzero(found & (lists.counts > 0))
    for at, begin, count in zip(some.tolist(), lists.begins[some].tolist(), lists.counts[some].tolist(), strict=True):  # scalar: one a file
        found[at] = not np.count_nonzero(np.ndarray((count,), stored, data.data, begin, (step,)) == wire)
    return found


def _block_of(data: NDArray[np.uint8], after: Numbers, ends: Numbers, t: DataType, key: Key) -> EntryLists:
    """The block of many payloads of version 2 that a value would be in: none of its entries where it is less than all, -1 of them where a block is damaged."""
    width, read = WIDTHS[t.root], partial(number, data)
    blocks, start, length, sound = _heads(data, after, ends, width)
    heads, step = after + 4, width + 4
    low, high = np.zeros_like(blocks), blocks.copy()
    while (low < high).any():
        middle = (low + high) >> 1
        firsts = read(heads + middle * step, width)
        before = (index_keys.order_float_bits(firsts, width) if t.root in ("FLOAT", "DOUBLE") else firsts) <= key
        low, high = np.where((low < high) & before, middle + 1, low), np.where((low < high) & ~before, middle, high)
    offset, following = read(heads + (low - 1) * step + width), np.where(low < blocks, read(heads + low * step + width), length)
    following = np.where((offset <= following) & (following <= length), following, length)
    sound &= (low == 0) | ((offset >= 0) & (offset + 4 <= following))
    counts, end = np.where(low == 0, 0, read(start + offset)), start + following
    return EntryLists(np.where(low == 0, end, start + offset + 4), np.where(sound, counts, -1), end)


def _heads(data: NDArray[np.uint8], after: Numbers, ends: Numbers, width: int) -> tuple[Numbers, Numbers, Numbers, Mask]:
    """Of many payloads of version 2: how many blocks they have, where those begin, how long they are together, and whether that fits."""
    blocks, heads, step = number(data, after), after + 4, width + 4
    sound = (after + 4 <= ends) & (blocks >= 0) & (heads + blocks * step + 4 <= ends)
    blocks = np.where(sound, blocks, 0)
    start, length = heads + blocks * step + 4, number(data, heads + blocks * step)
    return blocks, start, length, sound & (length >= 0) & (start + length <= ends)


# ---- asked again --------------------------------------------------------------------------------------------------------------------------------


def listed(payloads: Payloads, t: DataType, row_counts: Numbers) -> IndexValues | None:
    """The values of many payloads, for who asks more than once; None where they are more than are worth it."""
    data, known, total = payloads.data, np.zeros(len(payloads), bool), 0
    parts = [IndexTexts(*np.zeros((3, 0), np.int64))]
    for version in _by_version(payloads, row_counts):
        blocks = _blocks(data, version, t)
        if blocks is None:
            return None
        chosen = blocks.sound[blocks.owners]
        every, owners = EntryLists(*(one[chosen] for one in blocks.lists)), blocks.owners[chosen]
        total += int(every.counts.sum())
        if total > values.MOST_LISTED:
            return None
        width = WIDTHS.get(t.root)
        walked = values.walk(data, every, 4 * version.number) if width is None else (_numbers(every, width + 4 * version.number), None, every.counts >= 0)
        if walked is None:
            return None
        found, _, whole = walked
        blocks.sound[owners[~whole]] = False
        known[version.at] = blocks.sound
        parts.append(found._replace(owners=version.at[owners[found.owners]]))
    every_value = IndexTexts(*(np.concatenate(one) for one in zip(*parts, strict=True)))
    return values.collect_values(data, every_value, payloads.ends - payloads.begins, known, t)


def _numbers(lists: EntryLists, step: int) -> IndexTexts:
    """Where the numbers of lists stand, as if they were texts."""
    owners, nth = np.repeat(np.arange(len(lists.begins)), lists.counts), values.index_within_each(lists.counts)
    return IndexTexts(lists.begins[owners] + step * nth, nth, owners)


class _EntryListBlocks(NamedTuple):
    """Lists of entries, whose they are (ascending), which payloads are sound as far as that, and the first value of each list where those are texts."""

    lists: EntryLists
    owners: Numbers
    sound: Mask
    firsts: IndexTexts


def _blocks(data: NDArray[np.uint8], version: _Version, t: DataType) -> _EntryListBlocks | None:
    """All blocks of many payloads, of version 1 the one list they have; None: too many."""
    width, nothing = WIDTHS.get(t.root), IndexTexts(*np.zeros((3, 0), np.int64))
    found: _EntryListBlocks | None = _EntryListBlocks(
        EntryLists(version.after, version.counts, version.ends), np.arange(len(version.at)), np.ones(len(version.at), bool), nothing
    )
    if version.number == 2:
        found = _every_block(data, version.after, version.ends, width)
    if found is not None:
        found.sound[found.owners[~found.lists.fit((width or 4) + 4 * version.number)]] = False
    return found


def _every_block(data: NDArray[np.uint8], after: Numbers, ends: Numbers, width: int | None) -> _EntryListBlocks | None:
    read = partial(number, data)
    if width is None:
        walked = values.walk(data, EntryLists(after + 4, np.where(after + 4 <= ends, read(after), -1), ends - 4), 4)
        if walked is None:
            return None
        firsts, start, sound = walked
        start, length = start + 4, read(start)
        sound &= (length >= 0) & (start + length <= ends)
        firsts = IndexTexts(*(one[sound[firsts.owners]] for one in firsts))
    else:
        blocks, start, length, sound = _heads(data, after, ends, width)
        blocks = np.where(sound, blocks, 0)
        if blocks.sum() > values.MOST_LISTED:
            return None
        firsts = _numbers(EntryLists(after + 4, blocks, ends), width + 4)
    owners, offsets = firsts.owners, read(firsts.places + (firsts.lengths if width is None else width))
    start, whole = start[owners], length[owners]
    following = np.where(np.append(owners[1:] == owners[:-1], False)[: len(owners)], np.append(offsets[1:], 0)[: len(owners)], whole)
    following = np.where((offsets <= following) & (following <= whole), following, whole)
    fits = (offsets >= 0) & (offsets + 4 <= following)
    counts = np.where(fits, read(start + offsets), -1)
    return _EntryListBlocks(EntryLists(start + offsets + 4, counts, start + following), owners, sound, firsts)
