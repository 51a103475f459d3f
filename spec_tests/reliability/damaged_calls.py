"""What is called in a child process with damaged bytes: each function takes bytes, and raises or gives a JSON value."""

from __future__ import annotations

import struct


def fold_hll(data: bytes) -> str:
    """Unites two HLL sketches as a merge does; the first one's length (u32 LE) comes before them."""
    return _fold("hll_sketch", data)


def fold_theta(data: bytes) -> str:
    """Unites two theta sketches."""
    return _fold("theta_sketch", data)


def fold_rbm32(data: bytes) -> str:
    """Unites two bitmaps of 32 bits."""
    return _fold("rbm32", data)


def fold_rbm64(data: bytes) -> str:
    """Unites two bitmaps of 64 bits."""
    return _fold("rbm64", data)


def _fold(name: str, data: bytes) -> str:
    import numpy as np
    import polars as pl

    from lakekit.lsm import aggregates
    from lakekit.lsm.aggregates.contract import FieldFunction
    from lakekit.lsm.rule import MergeRule
    from lakekit.lsm.versions import ladder
    from lakekit.types import parse

    length = struct.unpack_from("<I", data)[0]
    rule = MergeRule(engine="aggregation", key=("k",), fields=(), table="shop.visits")
    function = FieldFunction(column="v", name=name, type=parse("BYTES"))
    values = pl.Series("v", [data[4 : 4 + length], data[4 + length :]], dtype=pl.Binary)
    found = aggregates.fold(function, rule, ladder(np.arange(2), np.array([0])), values, None)
    return bytes(found[0]).hex()


def scan_table(path: bytes) -> int:
    """Reads a table; gives the number of its rows."""
    import lakekit as lk

    return lk.open(path.decode()).scan().collect().height
