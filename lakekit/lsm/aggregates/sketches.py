"""hll_sketch and theta_sketch: unions by the DataSketches library (extra `sketches`).

The library is C++ and does not check its input: `sketch_bytes` checks each value before. The bytes are those of the
Java library: an HLL sketch is united into the newer one, as coupons keep the order in which they came.

Source: ENGINE.md 3.4, `FieldHllSketchAgg`, `FieldThetaSketchAgg`, `HllSketchUtil`, `ThetaSketch`. Case
`aggregate_sketches`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import datasketches

from lakekit.errors import Corrupt
from lakekit.lsm.aggregates import function as by_key
from lakekit.lsm.aggregates.function import declare_aggregate, require_type_roots
from lakekit.lsm.sketch_bytes import CHECK_OF_FUNCTION

if TYPE_CHECKING:
    import polars as pl

    from lakekit.lsm.merge_spec import FieldFunction
    from lakekit.lsm.numpy_columns import Array
    from lakekit.lsm.row_versions import Versions

PREAMBLE_LONGS = 0x3F
"""The bits of a theta sketch's first byte that count the words before its hashes."""
FLAGS_OFFSET, EMPTY_FLAG, SINGLE_HASH_FLAG = 5, 0x04, 0x20
"""The position of the flags, and the bits of a sketch without hashes and with one hash."""
SAMPLED_ALL = struct.pack("<f", 1.0)


@declare_aggregate("hll_sketch", type_problem=require_type_roots("hll sketch", "VarBinaryType", "VARBINARY"))
def hll_sketch(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return the union of HLL sketches."""
    return _unite_column(function, versions, column, ops)


@declare_aggregate("theta_sketch", type_problem=require_type_roots("theta sketch", "VarBinaryType", "VARBINARY"))
def theta_sketch(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return the union of theta sketches."""
    return _unite_column(function, versions, column, ops)


def _unite_column(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    def agg(accumulator: bytes | None, value: bytes | None) -> bytes | None:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        try:
            return unite_sketches(function.name, accumulator, value)
        except (ValueError, RuntimeError, IndexError, MemoryError) as wrong:
            what = (
                f"a value of column {function.column} is no sketch that {function.name} can unite ({len(accumulator)} "
                f"and {len(value)} bytes): {wrong}"
            )
            raise Corrupt(what, field=function.column) from wrong

    return by_key.fold_by_key(versions, column, ops, by_key.ScalarFold(agg=agg))


def unite_sketches(name: str, accumulator: bytes, value: bytes) -> bytes:
    """Return the union of two serialized sketches, both checked before the library reads them.

    Raises `Corrupt` if a count or a length is wrong, and what the library raises.
    """
    check = CHECK_OF_FUNCTION[name]
    check(accumulator)
    check(value)
    return (_unite_hll if name == "hll_sketch" else _unite_theta)(accumulator, value)


def _unite_hll(accumulator: bytes, value: bytes) -> bytes:
    newer, older = datasketches.hll_sketch.deserialize(value), datasketches.hll_sketch.deserialize(accumulator)
    union = datasketches.hll_union(newer.lg_config_k)
    union.update(newer)
    union.update(older)
    return bytes(union.get_result(datasketches.tgt_hll_type.HLL_4).serialize_compact())


def _unite_theta(accumulator: bytes, value: bytes) -> bytes:
    union = datasketches.theta_union()
    union.update(datasketches.compact_theta_sketch.deserialize(accumulator))
    union.update(datasketches.compact_theta_sketch.deserialize(value))
    data = bytearray(union.get_result().serialize())
    # Java writes other bytes than C++ for the same sketch
    if data[0] & PREAMBLE_LONGS >= 2:
        data[12:16] = SAMPLED_ALL
    elif data[FLAGS_OFFSET] & EMPTY_FLAG:
        data[6:8] = b"\0\0"  # no hash of the seed
    else:
        data[FLAGS_OFFSET] |= SINGLE_HASH_FLAG
    return bytes(data)
