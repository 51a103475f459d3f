"""A few bytes of an index that lies beside its data file, read where its filter is too big to be read for one question.

    data-1.parquet.index   head 0 … 61 | filter 61 … 600061        a question reads the head, then byte 61 + 17302: bit not set, no row of this file

What is asked for the first time is answered so; who asks again has all of them in memory (`beside`). An index that is missing, damaged, or can only be asked
as a whole says nothing here: whoever reads it tells.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from lakekit import world
from lakekit.errors import LakekitError
from lakekit.file_index import container
from lakekit.file_index.evaluator import load_index
from lakekit.predicate import Leaf, conjuncts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.metadata.table_context import TableContext
    from lakekit.predicate import Predicate
    from lakekit.types import DataType

LEAST_BYTES = 1 << 16
"""Smaller index files are read as a whole: opening one costs as much."""
HEAD_BYTES = 4096
"""So many bytes of an index file hold its head, but where very many columns have indexes."""


def rule_out_files(ctx: TableContext, paths: Sequence[str], asked: Sequence[tuple[Predicate, Mapping[str, DataType]] | None]) -> list[bool]:
    """Which of some index files say, by a few bytes each, that no row satisfies a condition, in the names of its file and with the types of its columns.

    All False where files are small or far away: a request for a few bytes takes as long as one for all.
    """
    nothing = [False] * len(paths)
    if ctx.storage.is_remote or not any(_leaves(one) for one in asked) or not _are_big(ctx, paths):
        return nothing
    one = partial(_is_ruled_out, ctx)
    return world.map_io(lambda pair: one(*pair), list(zip(paths, asked, strict=True)), is_remote=False)


def _are_big(ctx: TableContext, paths: Sequence[str]) -> bool:
    """Whether the first is: indexes of one table are much alike."""
    found = ctx.storage.stat(paths[0]) if paths else None
    return found is not None and found.size_bytes >= LEAST_BYTES


def _leaves(asked: tuple[Predicate, Mapping[str, DataType]] | None) -> list[tuple[Leaf, DataType]]:
    """The comparisons that every row must satisfy, and the types of their columns."""
    if asked is None:
        return []
    return [(leaf, asked[1][leaf.column]) for leaf in conjuncts(asked[0]) if isinstance(leaf, Leaf) and leaf.op in ("=", "in") and leaf.column in asked[1]]


def _is_ruled_out(ctx: TableContext, path: str, asked: tuple[Predicate, Mapping[str, DataType]] | None) -> bool:
    leaves = _leaves(asked)
    with suppress(LakekitError):
        head = ctx.storage.read(path, 0, HEAD_BYTES) if leaves else b""
        contents = container.contents(head) if leaves else {}
        for leaf, t in leaves:
            for kind, place in contents.get(leaf.column, {}).items():
                index: Any = load_index(kind)
                if place is None or not hasattr(index, "peek") or t.root not in index.TYPES:
                    continue
                if not index.peek(_reader(ctx, path, head, place.start), place.length, t, leaf):
                    return True
    return False


def _reader(ctx: TableContext, path: str, head: bytes, start: int) -> Callable[[int, int], bytes]:
    """Reads some bytes of a payload that starts there, from a place in it on; those of the head are there already."""

    def read(at: int, length: int) -> bytes:
        begin = start + at
        return head[begin : begin + length] if begin + length <= len(head) else ctx.storage.read(path, begin, length)

    return read
