"""Files ruled out by their indexes, many files at a time.

    rule_out_files(containers, And((Leaf("a", "=", (7,)), Leaf("b", ">", (1,)))), types)
        ->   True for each file of which an index says that no row has a = 7

Only conditions that every row must satisfy are used, and only indexes that can search many payloads at once: those with
a function `absent`. A container that is damaged, or of an unknown version, rules nothing out: `evaluate` raises what is
wrong with it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lakekit.codec.binary_columns import integers_at
from lakekit.errors import Corrupt, Unsupported
from lakekit.file_index import container
from lakekit.file_index.container import Payloads
from lakekit.file_index.evaluator import MAX_ROWS, load_index
from lakekit.predicate import Leaf, conjuncts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from lakekit.file_index.container import PayloadRange
    from lakekit.predicate import Predicate
    from lakekit.types import DataType

    Mask = NDArray[np.bool_]
    Contents = Mapping[str, Mapping[str, PayloadRange | None]]

_MOST_HEAD = 1024
"""A longer head is not compared with those of others."""


class Containers(NamedTuple):
    """Containers in one buffer: container i is `data[begins[i]:ends[i]]`, of a file of `row_counts[i]` rows."""

    data: NDArray[np.uint8]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    row_counts: NDArray[np.int64]


def rule_out_files(many: Containers, predicate: Predicate, types: Mapping[str, DataType]) -> Mask:
    """Return which files have an index that says that no row satisfies the condition.

    `types` are the columns of the files' schema.
    """
    ruled_out = np.zeros(len(many.begins), bool)
    for leaf in conjuncts(predicate):
        if not isinstance(leaf, Leaf) or leaf.op not in ("=", "in") or leaf.column not in types:
            continue
        for index, at, payloads in _batch_indexes(many, leaf.column, types[leaf.column]):
            ruled_out[at] |= index.absent(payloads, types[leaf.column], leaf)
    return ruled_out & (many.row_counts <= MAX_ROWS)


def _batch_indexes(many: Containers, column: str, t: DataType) -> Iterator[tuple[Any, NDArray[np.int64], Payloads]]:
    """Yield the indexes of a column that can search many payloads at once.

    Each comes with the containers that have one, and its payloads.
    """
    contents = _contents(many) if _has_batch_index(many, column) else []
    for name in sorted({name for _, indexes in contents for name in indexes.get(column, ())}):
        index = load_index(name)
        if index is not None and hasattr(index, "absent") and t.root in index.TYPES:
            yield (index, *_payloads(many, contents, column, name))


def _has_batch_index(many: Containers, column: str) -> bool:
    """Return whether the first container has an index of the column that can search many payloads at once.

    The others are mostly like it.
    """
    view = many.data.data
    with suppress(Corrupt, Unsupported):
        first = container.contents(view[many.begins[0] : many.ends[0]]) if len(many.begins) else {}
        return any(hasattr(load_index(name), "absent") for name in first.get(column, ()))
    return True


def _contents(many: Containers) -> list[tuple[NDArray[np.int64], Contents]]:
    """Return the contents of groups of containers, without damaged ones.

    Most have the same head as the first, byte by byte: it is decoded once.
    """
    alike = _mask_same_head(many)
    groups = [np.flatnonzero(alike)] if alike.any() else []
    groups.extend(np.flatnonzero(~alike)[:, None])
    view = many.data.data
    groups_contents: list[tuple[NDArray[np.int64], Contents]] = []
    for at in groups:
        with suppress(Corrupt, Unsupported):
            groups_contents.append((at, container.contents(view[many.begins[at[0]] : many.ends[at[0]]])))
    return groups_contents


def _mask_same_head(many: Containers) -> Mask:
    """Return the containers whose head has the same bytes as that of the first."""
    count = len(many.begins)
    if not count or int((many.ends - many.begins).min()) < container.HEAD:
        return np.zeros(count, bool)
    length = int(integers_at(many.data, many.begins[:1] + container.HEAD - 4, 4)[0])
    if not container.HEAD < length <= _MOST_HEAD:
        return np.zeros(count, bool)
    fits = many.begins + length <= many.ends
    heads = (
        many.data[np.where(fits, many.begins, many.begins[0])[:, None] + np.arange(length)]
        if fits[0]
        else np.zeros((count, 0), np.uint8)
    )
    return fits & fits[0] & (heads == heads[0]).all(axis=1)


def _payloads(
    many: Containers, contents: list[tuple[NDArray[np.int64], Contents]], column: str, name: str
) -> tuple[NDArray[np.int64], Payloads]:
    """Return the payloads of one index, and the containers they are of, ascending.

    Payloads that end beyond their container are left out.
    """
    ranges = [
        (at, payload_range)
        for at, indexes in contents
        if (payload_range := indexes.get(column, {}).get(name)) is not None
    ]
    at = np.concatenate([np.zeros(0, np.int64), *(at for at, _ in ranges)])
    starts, lengths = np.repeat(
        np.array([payload_range for _, payload_range in ranges], np.int64).reshape(-1, 2),
        [len(at) for at, _ in ranges],
        axis=0,
    ).T
    begins = many.begins[at] + starts
    ends = begins + lengths
    order = np.argsort(at)
    inside = order[(ends <= many.ends[at])[order]]
    return at[inside], Payloads(many.data, begins[inside], ends[inside])
