"""A cache of index files beside data files: a lookup reads hundreds of them, and none can change.

    batches = load_batches(ctx, entries, places)        the indexes of those files, in buffers that are searched at once

    buffer 0 | index of file 3 | index of file 0 | …        read by one query
    buffer 1 | index of file 7 |                            read after a commit added file 7

They are in the cache `runtime.index_cache` by file path, so that after a commit only new ones are read. The least
recently
used buffer is evicted first. If the indexes of a table do not all fit, the others are read one by one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lakekit import parallel
from lakekit.data_file.paths import data_file_paths
from lakekit.model.data_file import index_file_of
from lakekit.storage.protocol import FileMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lakekit.errors import Corrupt
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries


_READ_BATCH_SIZE = 64
"""How many files are read before checking whether more fit."""
_MOST_STRETCHES = 8
"""More buffers than this are joined, as each is searched separately."""
_FACT_BYTES = 300


class IndexBatch(NamedTuple):
    """Indexes in one buffer: that of the file at `places[i]` among the entries is `data[begins[i]:ends[i]]`.

    Places ascend.
    """

    places: NDArray[np.int64]
    data: NDArray[np.uint8]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]


ADVICE = (
    "Rows are safe: t.rewrite_file_index(anew=True) makes the indexes anew, and with the option "
    "file-index.read.enabled=false reads do without them"
)
"""What to do about an index that is lost or damaged."""


def read(ctx: TableContext, path: str, length: int | None = None) -> bytes:
    """Return the bytes of an index file, the first `length` or all.

    Raises:
        FileMissing: the file does not exist; the message says what to do.
    """
    try:
        return ctx.storage.read(path, 0, length)
    except FileMissing:
        raise make_file_missing(path) from None


def make_file_missing(path: str) -> FileMissing:
    """Return the error for an index file that does not exist."""
    return FileMissing(f"{path}, the index of a data file, is not there. {ADVICE}", path=path)


def add_advice(damaged: Corrupt) -> Corrupt:
    """Return the error about a damaged index with what to do."""
    return type(damaged)(f"{damaged.message}. {ADVICE}", path=damaged.path, offset=damaged.offset, field=damaged.field)


Span = tuple["NDArray[np.uint8]", int, int]
"""Where an index lies: the array that holds it, its begin and its end."""


def load_batches(ctx: TableContext, entries: ManifestEntries, places: NDArray[np.int64]) -> list[IndexBatch]:
    """Return the indexes beside the files at those places, as far as they fit into memory.

    They are cached as far as they fit. Raises `FileMissing`.
    """
    at, paths = _index_paths(ctx, entries, places)
    spans = _spans(ctx, paths)
    by_array: dict[int, list[int]] = {}
    for i, span in enumerate(spans):
        if span is not None:
            by_array.setdefault(id(span[0]), []).append(i)
    batches = []
    for members in by_array.values():
        members_spans = [span for i in members if (span := spans[i]) is not None]
        begins, ends = np.array([span[1:] for span in members_spans], np.int64).T
        batches.append(IndexBatch(at[members], members_spans[0][0], begins, ends))
    return batches


def _index_paths(
    ctx: TableContext, entries: ManifestEntries, places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[str]]:
    """Return which of the places have an index file, and its path."""
    subset = entries.take(places) if len(places) < len(entries) else entries
    extra = subset.column("extra_files").to_pylist()  # scalar: one a file
    names = [index_file_of(files or ()) for files in extra]
    pairs = zip(names, data_file_paths(ctx, subset), strict=True)
    paths = [None if name is None else ctx.layout.extra_file(path, name) for name, path in pairs]
    return places[[path is not None for path in paths]], [path for path in paths if path is not None]


def _spans(ctx: TableContext, paths: Sequence[str]) -> list[Span | None]:
    """Return the buffer, begin and end of each index, read now if it is not cached; None: it does not fit."""
    shelf, storage = ctx.runtime.index_cache, ctx.storage
    spans: dict[str, Span | None] = {path: shelf.get((storage, path)) for path in paths}
    missing = [path for path, span in spans.items() if span is None]
    if missing:
        room = shelf.budget_bytes * 3 // 4 - sum(end - begin for _, begin, end in filter(None, spans.values()))
        spans |= _read(ctx, missing, room)
    present = [span for span in spans.values() if span is not None]
    if len({id(span[0]) for span in present}) > _MOST_STRETCHES:
        data = [array[begin:end] for array, begin, end in present]
        spans |= _cache_concatenated(ctx, [path for path, span in spans.items() if span is not None], data)
    return [spans[path] for path in paths]


def _read(ctx: TableContext, paths: Sequence[str], room: int) -> dict[str, Span]:
    """Read the first of those files, as many as fit into `room` bytes."""
    if ctx.storage.is_remote:
        return _cache_concatenated(ctx, *_fetch_remote(ctx, paths, room))
    sizes = np.array([_size(ctx, path) for path in paths], np.int64)
    ends = np.cumsum(sizes)
    fitting = int(np.searchsorted(ends, room, side="right"))
    buffer = np.empty(int(ends[fitting - 1]) if fitting else 0, np.uint8)

    def fill(at: int) -> int:
        data = read(ctx, paths[at], int(sizes[at]))  # one after the other has the same memory
        begin = int(ends[at] - sizes[at])
        buffer[begin : begin + len(data)] = np.frombuffer(data, np.uint8)
        return len(data)

    lengths = parallel.map_io(fill, range(fitting), is_remote=False)
    return _cache_buffer(ctx, paths[:fitting], buffer, (ends - sizes)[:fitting], lengths)


def _size(ctx: TableContext, path: str) -> int:
    try:
        return ctx.storage.size(path)
    except FileMissing:
        raise make_file_missing(path) from None


def _fetch_remote(ctx: TableContext, paths: Sequence[str], room: int) -> tuple[list[str], list[bytes]]:
    """Read as many files as fit over a network, where the size of a file costs a request."""
    data: list[bytes] = []
    while len(data) < len(paths):
        batch = parallel.map_io(partial(read, ctx), paths[len(data) : len(data) + _READ_BATCH_SIZE], is_remote=True)
        room -= sum(map(len, batch))
        if room < 0:
            break
        data += batch
    return list(paths[: len(data)]), data


def _cache_concatenated(
    ctx: TableContext, paths: Sequence[str], data: Sequence[bytes | NDArray[np.uint8]]
) -> dict[str, Span]:
    """Cache some indexes as one buffer."""
    lengths = [len(index) for index in data]
    buffer = np.concatenate([np.zeros(0, np.uint8), *(np.frombuffer(index, np.uint8) for index in data)])
    return _cache_buffer(ctx, paths, buffer, np.cumsum(lengths, dtype=np.int64) - lengths, lengths)


def _cache_buffer(
    ctx: TableContext, paths: Sequence[str], data: NDArray[np.uint8], begins: NDArray[np.int64], lengths: Sequence[int]
) -> dict[str, Span]:
    if not len(paths):
        return {}
    places = zip(paths, begins.tolist(), lengths, strict=True)  # scalar: one a file
    spans: dict[str, Span] = {path: (data, begin, begin + length) for path, begin, length in places}
    ctx.runtime.index_cache.put(
        {(ctx.storage, path): span for path, span in spans.items()}, len(data) + _FACT_BYTES * len(spans)
    )
    return spans
