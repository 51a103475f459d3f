"""The write buffer of a bucket: frames in memory, and sorted runs in a scratch file.

    frames   [ f0 ][ f1 ][ f2 ]      spilled:   run 0  |c0|c1|c2|     chunks of rows, sorted by key, with the first key
                                                run 1  |c0|c1|
    sections    keys < m    keys >= m           each section holds all versions of its keys, oldest run first

    rows of a section       k=2 v=a #0 | k=1 v=b #1 | k=2 v=c #2 | k=3 -D #3
    flushed                 k=1 v=b #1 | k=2 v=c #2 | k=3 -D #3
    changelog (`input`)     k=1 v=b #1 | k=2 v=a #0 | k=2 v=c #2 | k=3 -D #3

A buffer that never spilled is flushed as one section. Otherwise the first keys of all chunks determine where to split,
so that each section fits into memory; all rows of a key are in one section. A delete must reach level 0, as older files
may hold its key. Keys are in the order of the reference's key comparator: column by column, nulls first, texts and
bytes by unsigned bytes, floats in the order of Java's `Double.compare`. Rows of append tables are not sorted: their
chunks are returned in order of arrival.

Source: ENGINE.md 1.2, 3.1; `SortBufferWriteBuffer`, `BinaryExternalSortBuffer`, `MergeTreeWriter`.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO, Literal

import numpy as np
import polars as pl

from lakekit.columns import KIND, POSITION, cols
from lakekit.errors import StorageFailed
from lakekit.lsm import merge, numpy_columns as keyed, row_versions
from lakekit.lsm.numpy_columns import is_whole, physical_values
from lakekit.runtime import new_lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from lakekit.lsm.merge_spec import MergeSpec
    from lakekit.runtime import Runtime


def merge_for_flush(section: pl.DataFrame, spec: MergeSpec) -> pl.DataFrame:
    """Return one row for each key, in key order, deletes included.

    `section` holds rows of a bucket in the order of their sequence numbers, and all rows of its keys. A row that is the
    only one of its key stays as it is. Raises what `lsm.merge.merge_section` raises.
    """
    spec = _with_ascending_sequence(spec)
    if not merge.selects_rows(spec):
        return sort_by_key(
            merge.merge_section(section, spec, keep_deletes=True).select(cols(section.columns)), spec.key_columns
        )
    # sorted first, so that equal keys are neighbours; rows of one key keep their order, the newest last
    placed = sort_by_key(section, spec.key_columns)
    if not spec.merges_single_versions and _keys_are_distinct(placed, spec.key_columns):
        return placed
    mask = merge.winner_mask(
        placed[list(dict.fromkeys((*spec.key_columns, *spec.sequence_fields, KIND)))], spec, keep_deletes=True
    )
    return placed if mask.all() else placed.filter(pl.Series(mask))


def _keys_are_distinct(placed: pl.DataFrame, key_columns: Sequence[str]) -> bool:
    """Return whether integer key columns alone show that a sorted section's keys are distinct."""
    if placed.height < 2:
        return True
    columns = [placed.get_column(name) for name in key_columns]
    differ = np.zeros(placed.height - 1, bool)
    for numbers in (
        physical_values(column) for column in columns if is_whole(column.dtype) and not column.null_count()
    ):
        differ |= numbers[1:] != numbers[:-1]
    return bool(differ.all())


def sort_versions(section: pl.DataFrame, spec: MergeSpec) -> pl.DataFrame:
    """Return every row, by key, sequence fields and sequence number: the `changelog-producer=input` changelog."""
    spec = _with_ascending_sequence(spec)
    return sort_by_key(
        section[np.lexsort(row_versions.version_ranks(section, spec)[::-1])] if spec.sequence_fields else section,
        spec.key_columns,
    )


def _with_ascending_sequence(spec: MergeSpec) -> MergeSpec:
    """Return the rule with ascending fields: as in the reference, `sort-order` applies from level 0 on."""
    return replace(spec, is_descending=False) if spec.is_descending else spec


def sort_by_key(frame: pl.DataFrame, key_columns: Sequence[str]) -> pl.DataFrame:
    """Return the rows in the order of their keys; rows of one key stay in their order."""
    # of one row Polars makes a scalar, and refuses sums of the reference that exceed the precision of their DECIMAL;
    # in one chunk first, as Polars gathers from several chunks five times as slowly
    return frame if frame.height < 2 else frame.rechunk()[keyed.key_order(frame, key_columns)]


# ---- write buffer ------------------------------------------------------------


CHUNK_BYTES = 4 << 20
"""About how many bytes of memory a chunk of a spilled run takes."""
_MIN_CHUNK_ROWS, _MAX_CHUNK_ROWS = 256, 1 << 16
_IPC_COMPRESSIONS: dict[str, Literal["uncompressed", "lz4", "zstd"]] = {"none": "uncompressed", "lz4": "lz4"}


@dataclass(slots=True, kw_only=True, eq=False)
class SpillFile:
    """The scratch file of one table writer, shared by the buffers of many buckets and by threads.

    It is created when first used, has no name, and is removed with the process. `compression` is the value of
    `spill-compression`; the file does not grow beyond `max_bytes`.
    """

    runtime: Runtime
    compression: str = "zstd"
    max_bytes: int = 2**63 - 1
    live_bytes: int = 0
    _file: BinaryIO | None = None
    _end_offset: int = 0
    _lock: AbstractContextManager[bool] = field(default_factory=new_lock)

    def append(self, frame: pl.DataFrame) -> tuple[int, int]:
        """Append rows; return their offset and length. Raises `StorageFailed`."""
        packed = io.BytesIO()
        frame.write_ipc(packed, compression=_IPC_COMPRESSIONS.get(self.compression.strip().lower(), "zstd"))
        data = packed.getbuffer()
        with self._lock:
            try:
                if self._file is None:
                    self._file = self.runtime.open_scratch_file()
                self._file.seek(self._end_offset)
                self._file.write(data)
            except OSError as wrong:
                raise StorageFailed(
                    f"rows could not be spilled to a scratch file: {wrong.strerror or wrong}. Nothing of them was "
                    "committed"
                ) from wrong
            location = self._end_offset, len(data)
            self._end_offset += len(data)
            self.live_bytes += len(data)
        return location

    def read(self, offset: int, length: int) -> pl.DataFrame:
        """Read rows that were put. Raises `StorageFailed`."""
        with self._lock:
            assert self._file is not None
            try:
                self._file.seek(offset)
                data = self._file.read(length)
            except OSError as wrong:
                raise StorageFailed(f"spilled rows could not be read again: {wrong.strerror or wrong}") from wrong
        return pl.read_ipc(io.BytesIO(data))

    def release(self, length: int) -> None:
        """Release `length` bytes that are no longer needed; the file is emptied when none are."""
        with self._lock:
            self.live_bytes -= length
            if self.live_bytes == 0:
                self._close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._end_offset, self.live_bytes = None, 0, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpilledRun:
    """A spilled run: the offset and length, row count and memory size of each chunk, and its first key."""

    chunk_ranges: tuple[tuple[int, int], ...]
    chunk_row_counts: tuple[int, ...]
    chunk_memory_bytes: tuple[int, ...]
    first_keys: pl.DataFrame


@dataclass(slots=True, kw_only=True, eq=False)
class WriteBuffer:
    """The rows of one bucket that are not in a file yet. `key_columns`: the key columns; none in append tables."""

    key_columns: tuple[str, ...]
    spill_file: SpillFile
    memory_bytes: int = 0
    row_count: int = 0
    _frames: list[pl.DataFrame] = field(default_factory=list)
    _runs: list[SpilledRun] = field(default_factory=list)

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows that are newer than all before."""
        self._frames.append(frame)
        self.row_count += frame.height
        self.memory_bytes += int(frame.estimated_size())

    def spill_to_disk(self) -> bool:
        """Spill the rows in memory; return False, and do nothing, if the scratch file has reached its limit."""
        if self.spill_file.live_bytes >= self.spill_file.max_bytes:
            return False
        if self._frames:
            self._runs.append(self._write_run(pl.concat(self._frames)))
            self._frames.clear()
            self.memory_bytes = 0
        return True

    def iter_sections(self, memory_bytes: int) -> Iterator[pl.DataFrame]:
        """Yield all rows in sections of about `memory_bytes`, by key; may be called again.

        Each section holds every version of its keys, oldest first.
        """
        if not self._runs:
            if self._frames:
                yield pl.concat(self._frames)
            return
        if self._frames:
            self._runs.append(self._write_run(pl.concat(self._frames)))
            self._frames.clear()
            self.memory_bytes = 0
        if not self.key_columns:
            yield from (self.spill_file.read(*location) for run in self._runs for location in run.chunk_ranges)
            return
        cuts = self._section_keys(memory_bytes)
        bounds = [self._section_bounds(run, cuts) for run in self._runs]
        for at in range(cuts.height + 1):
            parts = [
                part
                for run, ends in zip(self._runs, bounds, strict=True)
                for part in self._read_between(run, ends[at], ends[at + 1])
            ]
            if parts:
                yield pl.concat(parts)

    def clear(self) -> None:
        """Remove all rows."""
        for run in self._runs:
            self.spill_file.release(sum(length for _, length in run.chunk_ranges))
        self._frames.clear()
        self._runs.clear()
        self.memory_bytes = self.row_count = 0

    def _write_run(self, frame: pl.DataFrame) -> SpilledRun:
        placed = sort_by_key(frame, self.key_columns) if self.key_columns else frame
        rows = int(
            np.clip(CHUNK_BYTES * placed.height // max(placed.estimated_size(), 1), _MIN_CHUNK_ROWS, _MAX_CHUNK_ROWS)
        )
        chunks = [placed.slice(start, rows) for start in range(0, placed.height, rows)]
        return SpilledRun(
            chunk_ranges=tuple(self.spill_file.append(chunk) for chunk in chunks),
            chunk_row_counts=tuple(chunk.height for chunk in chunks),
            chunk_memory_bytes=tuple(int(chunk.estimated_size()) for chunk in chunks),
            first_keys=placed.select(cols(self.key_columns)).gather_every(rows),
        )

    def _section_keys(self, memory_bytes: int) -> pl.DataFrame:
        """Return the keys at which sections begin, ascending and distinct."""
        firsts = pl.concat([run.first_keys for run in self._runs]).with_columns(
            pl.Series(POSITION, [size for run in self._runs for size in run.chunk_memory_bytes])
        )
        placed = sort_by_key(firsts, self.key_columns)
        number = placed[POSITION].cum_sum().to_numpy() // max(memory_bytes, 1)
        starts = np.flatnonzero(np.diff(number, prepend=number[:1]))
        return placed[starts].select(cols(self.key_columns)).unique(maintain_order=True)

    def _section_bounds(self, run: SpilledRun, cuts: pl.DataFrame) -> list[tuple[int, int]]:
        """Return where each section begins in a run, and where the last ends, as (chunk, row)."""
        bounds = [(0, 0)]
        for at in range(cuts.height):
            cut = cuts[at]
            chunk = _count_smaller(run.first_keys, cut, self.key_columns)
            bounds.append(
                (
                    chunk - 1,
                    _count_smaller(
                        self.spill_file.read(*run.chunk_ranges[chunk - 1]).select(cols(self.key_columns)),
                        cut,
                        self.key_columns,
                    ),
                )
                if chunk
                else (0, 0)
            )
        return [*bounds, (len(run.chunk_row_counts), 0)]

    def _read_between(self, run: SpilledRun, start: tuple[int, int], end: tuple[int, int]) -> Iterator[pl.DataFrame]:
        """Yield the rows of a run between two (chunk, row) positions."""
        for chunk in range(start[0], min(end[0] + 1, len(run.chunk_row_counts))):
            first = start[1] if chunk == start[0] else 0
            last = end[1] if chunk == end[0] else run.chunk_row_counts[chunk]
            if last > first:
                yield self.spill_file.read(*run.chunk_ranges[chunk]).slice(first, last - first)


def _count_smaller(keys: pl.DataFrame, cut_key: pl.DataFrame, key_columns: Sequence[str]) -> int:
    """Return how many of some sorted keys are less than the key `cut_key`."""
    both = pl.concat([cut_key.select(cols(key_columns)), keys.select(cols(key_columns))]).with_row_index(POSITION)
    return int(sort_by_key(both, key_columns)[POSITION].arg_min() or 0)
