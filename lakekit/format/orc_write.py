"""Writing ORC data files by Arrow.

Every type carries the attribute `paimon.id`. TIME is an int of milliseconds; CHAR and VARCHAR are strings, unpadded, which every reader of ORC reads as
either. Instants are true ones, in UTC: a Java reader with `orc.timestamp-ltz.legacy.type=true` takes them for wall clocks of its own zone, and has to run in
UTC (FORMAT 7.5).

Source: FORMAT.md 7.5 and 7.8, `OrcFileFormat`, `OrcTypeUtil`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
from pyarrow import orc

from lakekit.codec.binary_columns import fixed_values, nulls_of
from lakekit.errors import InvalidOption, Unsupported, ValueOutOfRange
from lakekit.format.arrange import Form, arranged, arrow_type, rebased
from lakekit.format.parquet_schema import nested_id
from lakekit.format.writing import map_types, refuse_name, refuse_type
from lakekit.options.frozen import EMPTY
from lakekit.options.option import read_size
from lakekit.types import TIMESTAMPS, part
from lakekit.types.arrow import timestamp_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from lakekit.format.writing import Encoding
    from lakekit.types import DataType, Field

CODECS = {"none": "uncompressed", "uncompressed": "uncompressed", "zlib": "zlib", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
"""`file.compression` -> what Arrow calls it. Its zstd has one level."""
STRIPE_BYTES = 16 << 20
"""Encoded bytes of a stripe where no option says another number: less than the reference's 64 MiB, as only whole stripes tell how long a file is."""
_LEAST_STRIPE_BYTES = 64 << 10
FIRST_RATIO = 0.2
"""What encoding leaves of the bytes in memory, before a stripe has told."""
ROWS_AT_ONCE = 65536
_FORM = Form(format_name="orc", count_times=True)
_REFUSED = frozenset({"VARIANT", "BLOB"})
_INSTANTS = frozenset({"TIMESTAMP_LTZ"})


def open_writer(sink: BinaryIO, fields: Sequence[Field], how: Encoding) -> OrcEncoder:
    """A writer of one ORC file. Raises `Unsupported`, `InvalidOption`."""
    return OrcEncoder(sink, fields, how)


def check_types(fields: Sequence[Field]) -> None:
    """Raises `Unsupported` for a column that ORC files do not hold."""
    for field in fields:
        if field.type.holds(_REFUSED):
            raise refuse_type(field.type, "orc")
        _check_names(field.name, field.type)


def _check_names(name: str, t: DataType) -> None:
    """ORC quotes names by ticks, and the reference does not find what has one in its name: it reads nulls, or nothing."""
    if "`" in name:
        raise refuse_name(name, "orc", "in which a tick quotes names")
    for inner in t.fields:
        _check_names(inner.name, inner.type)
    for below in (t.element, t.key, t.value):
        if below is not None:
            _check_names("", below)


class _Counted:
    """A sink that counts, and that Arrow may close without closing the file below."""

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
        """Nothing: the owner of the file flushes it."""

    def close(self) -> None:
        self.closed = True


class OrcEncoder:
    """One ORC file under way; see `writing.Encoder`."""

    told = EMPTY

    def __init__(self, sink: BinaryIO, fields: Sequence[Field], how: Encoding) -> None:
        codec = CODECS.get(how.compression.lower())
        if codec is None:
            raise Unsupported(f"ORC files cannot be compressed by {how.compression!r}; known are {', '.join(CODECS)}", feature="file.compression")
        check_types(fields)
        zoned = next((field.name for field in fields if field.type.holds(_INSTANTS)), None)
        if zoned is not None and how.time_zone != "UTC":
            raise Unsupported(
                f"column {zoned} holds instants, which lakekit writes to ORC files for readers in UTC, and lakekit.java-time-zone is {how.time_zone}. "
                "Choose another file.format, or have every process run in UTC",
                feature="file.format.orc",
            )
        self._fields, self._sink = tuple(fields), _Counted(sink)
        self._schema = pa.schema([_named(field) for field in fields])
        stripe = how.block_bytes or _stripe(how) or min(STRIPE_BYTES, max(_LEAST_STRIPE_BYTES, (how.file_bytes or STRIPE_BYTES * 8) // 8))
        self._writer = orc.ORCWriter(self._sink, compression=codec, stripe_size=stripe, batch_size=max(1024, how.batch_rows))
        self._raw_bytes = self._told_bytes = self._told_size = 0

    @property
    def size_bytes(self) -> int:
        """Bytes that went to the sink, and what the stripe under way will add if it compresses as those before it."""
        ratio = self._told_size / self._told_bytes if self._told_bytes else FIRST_RATIO
        return self._sink.size + int((self._raw_bytes - self._told_bytes) * ratio)

    def write(self, frame: pl.DataFrame) -> None:
        """Adds rows; whole stripes go to the sink at once."""
        for start in range(0, frame.height, ROWS_AT_ONCE):
            self._add(frame.slice(start, ROWS_AT_ONCE))

    def flush(self) -> None:
        """Nothing: Arrow ends a stripe when it is full."""

    def close(self) -> None:
        """Writes the last stripe and the file's tail."""
        if not self._raw_bytes:
            self._writer.write(self._schema.empty_table())
        self._writer.close()
        self._told_bytes = self._raw_bytes

    def _add(self, frame: pl.DataFrame) -> None:
        arrays = []
        for field, wanted in zip(self._fields, self._schema, strict=True):
            found = arranged(frame.get_column(field.name), field, _FORM)
            if field.type.holds(TIMESTAMPS):
                _refuse_old_fractions(found, field.type, field.name)
            if field.type.is_nested:
                found = rebased(found)  # Arrow's writer takes no account of where a part of a struct begins
            arrays.append(found.cast(wanted.type))
        before = self._sink.size
        self._writer.write(pa.Table.from_arrays(arrays, schema=self._schema))
        if self._sink.size > before and self._raw_bytes:
            self._told_bytes, self._told_size = self._raw_bytes, self._sink.size
        self._raw_bytes += max(1, int(frame.estimated_size()))


def _refuse_old_fractions(array: pa.Array, t: DataType, name: str) -> None:
    """Times before 1970 are whole milliseconds: of finer ones Arrow writes what the reference cannot read (case types_timestamps_orc)."""
    if t.root in TIMESTAMPS:
        ticks = fixed_values(array, "<i8")
        per = {"ms": 1, "us": 1000, "ns": 1_000_000}[timestamp_unit(t.precision)]
        odd = (ticks < 0) & (ticks % per != 0)
        if odd.any() and (odd & ~nulls_of(array)).any():
            raise ValueOutOfRange(
                f"column {name} holds a time before 1970 with parts of a millisecond, which ORC files of lakekit do not hold; choose another file.format",
                column=name,
            )
    elif t.root == "ARRAY":
        _refuse_old_fractions(array.values, part(t.element), name)
    elif t.root in ("MAP", "MULTISET"):
        for inner, of_inner in zip((array.keys, array.items), map_types(t), strict=True):
            _refuse_old_fractions(inner, of_inner, name)
    elif t.root == "ROW":
        for i, field in enumerate(t.fields):
            _refuse_old_fractions(array.field(i), field.type, f"{name}.{field.name}")


# ---- ids ----------------------------------------------------------------------------------------------------------------------------------------


def _named(field: Field) -> pa.Field:
    return _with_id(field.name, field.type, field.id, (field.id, 1))


def _with_id(name: str, t: DataType, field_id: int, place: tuple[int, int]) -> pa.Field:
    """The Arrow field of a type whose parts all say their ids: `place` are the id of the field it lies in and its depth below that."""
    owner, depth = place
    below = (owner, depth + 1)
    match t.root:
        case "ARRAY":
            found = pa.list_(_with_id("element", part(t.element), nested_id(owner, depth), below))
        case "MAP" | "MULTISET":
            key, value = map_types(t)
            found = pa.map_(_with_id("key", key.not_null(), nested_id(owner, depth, key=True), below), _with_id("value", value, nested_id(owner, depth), below))
        case "ROW":
            found = pa.struct([_named(field) for field in t.fields])
        case _:
            found = arrow_type(t, _FORM)
    return pa.field(name, found, t.nullable, {"paimon.id": str(field_id)})


def _stripe(how: Encoding) -> int | None:
    text = how.given.get("orc.stripe.size")
    if text is None:
        return None
    try:
        return read_size(text)
    except ValueError:
        raise InvalidOption(f"option 'orc.stripe.size' is {text!r}; allowed: a number of bytes", key="orc.stripe.size", value=text) from None
