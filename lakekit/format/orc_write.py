"""Write ORC data files by Arrow.

Every type carries the attribute `paimon.id`. TIME is an int of milliseconds; CHAR and VARCHAR are strings, unpadded,
which every reader of ORC reads as either. Instants are true ones, in UTC: a Java reader with
`orc.timestamp-ltz.legacy.type=true` takes them for wall clocks of its own zone, and has to run in UTC (FORMAT 7.5).

Arrow's writer cannot write a map with a null key. A file whose first rows have one is written with lists of entries
into memory, and goes to its sink as a file of maps (`orc_rewrite`); where a null key comes later, `can_add` says that
it belongs into another file. So it is with times before 1970 that have parts of a millisecond.

Source: FORMAT.md 7.5 and 7.8, `OrcFileFormat`, `OrcTypeUtil`.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import orc

from lakekit.errors import InvalidOption, Unsupported, ValueOutOfRange
from lakekit.format import orc_rewrite
from lakekit.format.encoder import (
    ArrowTarget,
    arrow_type,
    copy_array,
    map_types,
    refuse_name,
    refuse_type,
    series_to_arrow,
)
from lakekit.format.parquet_footer import nested_id
from lakekit.options.option import EMPTY, read_size
from lakekit.types import TIMESTAMPS, part, timestamp_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl
    from numpy.typing import NDArray

    from lakekit.format.encoder import Encoding
    from lakekit.types import DataType, Field

    Ticks = NDArray[np.int64]

CODEC_OF_COMPRESSION = {
    "none": "uncompressed",
    "uncompressed": "uncompressed",
    "zlib": "zlib",
    "snappy": "snappy",
    "lz4": "lz4",
    "zstd": "zstd",
}
"""`file.compression` -> its name in Arrow, whose zstd has one level."""
STRIPE_BYTES = 16 << 20
"""Encoded bytes of a stripe where no option says another number.

Less than the reference's 64 MiB, as only complete stripes tell how long a file is.
"""
_MIN_STRIPE_BYTES = 64 << 10
FIRST_RATIO = 0.2
"""Estimated ratio of encoded bytes to bytes in memory, before the first stripe is written."""
ROWS_AT_ONCE = 65536
_ARROW_TARGET = ArrowTarget(format_name="orc", count_times=True)
_ENTRIES_TARGET = ArrowTarget(format_name="orc", count_times=True, maps_as_lists=True, null_texts=True)
_MAP_ROOTS = frozenset({"MAP", "MULTISET"})
_REFUSED_TYPES = frozenset({"VARIANT", "BLOB"})
_INSTANT_ROOTS = frozenset({"TIMESTAMP_LTZ"})


def open_writer(sink: BinaryIO, fields: Sequence[Field], encoding: Encoding) -> OrcEncoder:
    """Return a writer of one ORC file. Raises `Unsupported`, `InvalidOption`."""
    return OrcEncoder(sink, fields, encoding)


def check_types(fields: Sequence[Field]) -> None:
    """Raise `Unsupported` for a column that ORC files do not hold."""
    for field in fields:
        if field.type.holds(_REFUSED_TYPES):
            raise refuse_type(field.type, "orc")
        _check_names(field.name, field.type)


def _check_names(name: str, t: DataType) -> None:
    """Raise `Unsupported` for a name with a backquote.

    ORC quotes names by backquotes; the reference does not find a column with one in its name: it reads nulls, or
    nothing.
    """
    if "`" in name:
        raise refuse_name(name, "orc", "in which a tick quotes names")
    for inner in t.fields:
        _check_names(inner.name, inner.type)
    for below in (t.element, t.key, t.value):
        if below is not None:
            _check_names("", below)


class _CountingSink:
    """A sink that counts bytes, and that Arrow may close without closing the file below."""

    closed = False

    def __init__(self, sink: BinaryIO) -> None:
        self.sink, self.size = sink, 0

    def write(self, data: bytes) -> int:
        self.sink.write(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Do nothing: the owner of the file flushes it."""

    def close(self) -> None:
        self.closed = True


class OrcEncoder:
    """One ORC file that is being written; see `encoder.Encoder`."""

    column_stats = EMPTY

    def __init__(self, sink: BinaryIO, fields: Sequence[Field], encoding: Encoding) -> None:
        codec = CODEC_OF_COMPRESSION.get(encoding.compression.lower())
        if codec is None:
            raise Unsupported(
                f"ORC files cannot be compressed by {encoding.compression!r}; known are "
                f"{', '.join(CODEC_OF_COMPRESSION)}",
                feature="file.compression",
            )
        check_types(fields)
        zoned = next((field.name for field in fields if field.type.holds(_INSTANT_ROOTS)), None)
        if zoned is not None and encoding.time_zone != "UTC":
            raise Unsupported(
                f"column {zoned} holds instants, which lakekit writes to ORC files for readers in UTC, "
                f"and lakekit.java-time-zone is {encoding.time_zone}. "
                "Choose another file.format, or have every process run in UTC",
                feature="file.format.orc",
            )
        self._fields, self._sink = tuple(fields), _CountingSink(sink)
        stripe = (
            encoding.block_bytes
            or _stripe_bytes(encoding)
            or min(STRIPE_BYTES, max(_MIN_STRIPE_BYTES, (encoding.file_bytes or STRIPE_BYTES * 8) // 8))
        )
        self._writer_options: dict[str, Any] = {
            "compression": codec,
            "stripe_size": stripe,
            "batch_size": max(1024, encoding.batch_rows),
        }
        self._maps = tuple(field for field in fields if field.type.holds(_MAP_ROOTS))
        self._timed = tuple(field for field in fields if field.type.holds(TIMESTAMPS))
        self._memory: _CountingSink | None = None
        self._times: list[list[Ticks] | None] | None = None
        self._begin_file(_ARROW_TARGET)
        self._raw_bytes = self._told_bytes = self._told_size = 0

    def _begin_file(self, arrow_target: ArrowTarget, *, fractions: bool = False) -> None:
        """Begin the file; in memory where its maps are written as lists of entries, or times before 1970 change."""
        self._arrow_target = arrow_target
        if fractions:
            self._times = [[] if per > 1 else None for field in self._timed for per in _ticks_per_milli(field.type)]
        self._schema = pa.schema([_field_with_id(field, arrow_target) for field in self._fields])
        self._buffer = BytesIO()
        self._memory = _CountingSink(self._buffer) if arrow_target.maps_as_lists or fractions else None
        self._writer = orc.ORCWriter(self._memory or self._sink, **self._writer_options)

    def can_add(self, frame: pl.DataFrame) -> bool:
        """Return whether the file may have these rows.

        Null keys of maps, and times before 1970 with parts of a millisecond, only where its first rows have some.
        """
        return not self._raw_bytes or (
            (self._arrow_target.maps_as_lists or not self._has_null_keys(frame))
            and (self._times is not None or not self._has_old_fractions(frame))
        )

    def _has_null_keys(self, frame: pl.DataFrame) -> bool:
        return any(_has_null_keys(frame.get_column(field.name).to_arrow(), field.type) for field in self._maps)

    def _has_old_fractions(self, frame: pl.DataFrame) -> bool:
        return any(
            orc_rewrite.has_submilli_before_1970(ticks, per).any()
            for field in self._timed
            if max(_ticks_per_milli(field.type)) > 1
            for ticks, per in _times_of(
                series_to_arrow(frame.get_column(field.name), field, _ENTRIES_TARGET), field.type
            )
            if per > 1
        )

    @property
    def size_bytes(self) -> int:
        """Bytes written to the sink, and what the open stripe will add if it compresses as those before it."""
        ratio = self._told_size / self._told_bytes if self._told_bytes else FIRST_RATIO
        return self._written_bytes() + int((self._raw_bytes - self._told_bytes) * ratio)

    def _written_bytes(self) -> int:
        return self._sink.size if self._memory is None else self._memory.size

    def write(self, frame: pl.DataFrame) -> None:
        """Add rows; full stripes go to the sink at once."""
        if frame.height and not self._raw_bytes:
            pairs, fractions = self._has_null_keys(frame), self._has_old_fractions(frame)
            if pairs or fractions:
                self._begin_file(_ENTRIES_TARGET if pairs else _ARROW_TARGET, fractions=fractions)
        for start in range(0, frame.height, ROWS_AT_ONCE):
            self._add(frame.slice(start, ROWS_AT_ONCE))

    def flush(self) -> None:
        """Do nothing: Arrow ends a stripe when it is full."""

    def close(self) -> None:
        """Write the last stripe and the file's tail."""
        if not self._raw_bytes:
            self._writer.write(self._schema.empty_table())
        self._writer.close()
        if self._memory is not None:
            self._memory = None
            self._sink.write(self._rewrite_buffer())
        self._told_bytes = self._raw_bytes

    def _rewrite_buffer(self) -> bytes:
        """Return the file that is in memory as it is to be stored."""
        data = (
            orc_rewrite.restore_maps(self._buffer.getvalue())
            if self._arrow_target.maps_as_lists
            else self._buffer.getvalue()
        )
        if self._times is None:
            return data
        per_milli = [per for field in self._timed for per in _ticks_per_milli(field.type)]
        times = [
            None if parts is None else orc_rewrite.TimestampColumn(np.concatenate(parts), per)
            for parts, per in zip(self._times, per_milli, strict=True)
        ]
        return orc_rewrite.rewrite_timestamps(data, times)

    def _add(self, frame: pl.DataFrame) -> None:
        arrays = []
        times: list[Ticks] = []
        for field, arrow_field in zip(self._fields, self._schema, strict=True):
            array = series_to_arrow(frame.get_column(field.name), field, self._arrow_target)
            if field.type.holds(TIMESTAMPS):
                times += _writable_times(array, field)
            if field.type.is_nested:
                array = copy_array(array)  # Arrow's writer takes no account of where a part of a struct begins
            arrays.append(array.cast(arrow_field.type))
        if self._times is not None:
            for kept, ticks in zip(self._times, times, strict=True):
                if kept is not None:
                    kept.append(ticks)
        before = self._written_bytes()
        self._writer.write(pa.Table.from_arrays(arrays, schema=self._schema))
        if self._written_bytes() > before and self._raw_bytes:
            self._told_bytes, self._told_size = self._raw_bytes, self._written_bytes()
        self._raw_bytes += max(1, int(frame.estimated_size()))


def _writable_times(array: pa.Array, field: Field) -> list[Ticks]:
    """Return the ticks of each column of times in a column of the table, those that are not null.

    Raises `ValueOutOfRange` for times in the last second before 1970 that are no whole milliseconds: the reference
    reads its own a second late, and fails for those of Arrow.
    """
    found = []
    for ticks, per in _times_of(array, field.type):
        found.append(ticks)
        if (
            orc_rewrite.is_last_second_before_1970(ticks, per) & orc_rewrite.has_submilli_before_1970(ticks, per)
        ).any():
            msg = f"column {field.name} holds a time in the last second before 1970 with parts of a millisecond"
            raise ValueOutOfRange(
                f"{msg}, which readers of ORC files take for one a second later; choose another file.format",
                column=field.name,
            )
    return found


def _times_of(array: pa.Array, t: DataType) -> Iterator[tuple[Ticks, int]]:
    """Yield ticks, and how many are a millisecond, of each TIMESTAMP in a type, in the order of columns.

    What lies below a null is no value.
    """
    if t.root in TIMESTAMPS:
        yield array.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False), _per_milli(t)
    elif t.root == "ROW":
        for inner, part_of_row in zip(array.flatten(), t.fields, strict=True):
            yield from _times_of(inner, part_of_row.type)
    elif t.root == "ARRAY":
        yield from _times_of(array.flatten(), part(t.element))
    elif t.root in _MAP_ROOTS:
        if pa.types.is_map(array.type):
            maps = copy_array(array.drop_null())
            parts = [maps.keys, maps.items]
        else:
            parts = array.flatten().flatten()
        for inner, inner_type in zip(parts, map_types(t), strict=True):
            yield from _times_of(inner, inner_type)


def _ticks_per_milli(t: DataType) -> list[int]:
    """Return for each TIMESTAMP in a type, in the order of columns, how many ticks are a millisecond."""
    if t.root in TIMESTAMPS:
        return [_per_milli(t)]
    inner = (
        map_types(t) if t.root in _MAP_ROOTS else [part(t.element)] if t.root == "ARRAY" else [f.type for f in t.fields]
    )
    return [per for one in inner for per in _ticks_per_milli(one)]


def _per_milli(t: DataType) -> int:
    return {"ms": 1, "us": 1000, "ns": 1_000_000}[timestamp_unit(t.precision)]


def _has_null_keys(array: pa.Array, t: DataType) -> bool:
    """Return whether a map in a value of type `t` has a null key; values below nulls count too."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    if t.root == "ROW":
        inner = [(chunk.field(i), field.type) for chunk in chunks for i, field in enumerate(t.fields)]
    elif t.root == "ARRAY":
        inner = [(chunk.values, part(t.element)) for chunk in chunks]
    elif t.root in _MAP_ROOTS:
        entries = [chunk.values for chunk in chunks]
        if any(entry.field(0).null_count for entry in entries):
            return True
        inner = [(entry.field(i), inner_type) for entry in entries for i, inner_type in enumerate(map_types(t))]
    else:
        return False
    return any(_has_null_keys(values, inner_type) for values, inner_type in inner if inner_type.is_nested)


# ---- ids -------------------------------------------------------------------------------------------------------------


def _field_with_id(field: Field, arrow_target: ArrowTarget) -> pa.Field:
    return _with_id(field.name, field.type, field.id, (field.id, 1), arrow_target)


def _with_id(name: str, t: DataType, field_id: int, parent: tuple[int, int], arrow_target: ArrowTarget) -> pa.Field:
    """Return the Arrow field of a type whose parts all carry their ids.

    `parent` is the id of the field that contains it, and its depth below that.
    """
    owner, depth = parent
    below = (owner, depth + 1)
    match t.root:
        case "ARRAY":
            arrow = pa.list_(_with_id("element", part(t.element), nested_id(owner, depth), below, arrow_target))
        case "MAP" | "MULTISET":
            key, value = map_types(t)
            ids = nested_id(owner, depth, key=True), nested_id(owner, depth)
            fields = (
                _with_id("key", key if arrow_target.maps_as_lists else key.not_null(), ids[0], below, arrow_target),
                _with_id("value", value, ids[1], below, arrow_target),
            )
            arrow = (
                pa.list_(
                    pa.field("entries", pa.struct(fields), nullable=False, metadata={orc_rewrite.MAP_ATTRIBUTE: "1"})
                )
                if arrow_target.maps_as_lists
                else pa.map_(*fields)
            )
        case "ROW":
            arrow = pa.struct([_field_with_id(field, arrow_target) for field in t.fields])
        case _:
            arrow = arrow_type(t, arrow_target)
    return pa.field(name, arrow, t.nullable, {"paimon.id": str(field_id)})


def _stripe_bytes(encoding: Encoding) -> int | None:
    text = encoding.table_options.get("orc.stripe.size")
    if text is None:
        return None
    try:
        return read_size(text)
    except ValueError:
        raise InvalidOption(
            f"option 'orc.stripe.size' is {text!r}; allowed: a number of bytes", key="orc.stripe.size", value=text
        ) from None
