"""rbm32 and rbm64: serialized roaring bitmaps united.

Source: ENGINE.md 3.4, `FieldRoaringBitmap32Agg`, `FieldRoaringBitmap64Agg`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.codec import roaring as bitmap
from lakekit.errors import Corrupt
from lakekit.lsm.aggregates import by_key, roaring as roaring64
from lakekit.lsm.aggregates.contract import aggregate, roots

if TYPE_CHECKING:
    import polars as pl
    from pyroaring import BitMap

    from lakekit.lsm.aggregates.contract import FieldFunction
    from lakekit.lsm.numpy_columns import Array
    from lakekit.lsm.row_versions import Versions

_refuses = roots("roaring bitmap", "VarBinaryType", "VARBINARY")


@aggregate("rbm32", refuses=_refuses)
def rbm32(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return the union of 32-bit bitmaps."""

    def agg(accumulator: bytes | None, value: bytes | None) -> bytes | None:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        united = _bitmap(function, accumulator) | _bitmap(function, value)
        united.run_optimize()
        return bytes(united.serialize())

    return by_key.fold(versions, column, ops, by_key.ScalarFold(agg=agg))


def _bitmap(function: FieldFunction, data: bytes) -> BitMap:
    try:
        return bitmap.roaring(data)
    except Corrupt as wrong:
        what = (
            f"Unable to se/deserialize roaring bitmap: a value of column {function.column} is none ({len(data)} "
            f"bytes): {wrong}"
        )
        raise Corrupt(what, offset=wrong.offset, field=function.column) from wrong


@aggregate("rbm64", refuses=_refuses)
def rbm64(function: FieldFunction, versions: Versions, column: pl.Series, ops: Array | None) -> pl.Series:
    """Return the union of 64-bit bitmaps."""

    def agg(accumulator: bytes | None, value: bytes | None) -> bytes | None:
        if accumulator is None or value is None:
            return value if accumulator is None else accumulator
        return roaring64.unite_bitmaps(accumulator, value, function.column)

    return by_key.fold(versions, column, ops, by_key.ScalarFold(agg=agg))
