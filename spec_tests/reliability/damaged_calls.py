"""What is called in a child process with damaged bytes: each function takes bytes, and raises or gives a JSON value."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import lakekit as lk


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
    from lakekit.lsm.merge_spec import FieldFunction, MergeSpec
    from lakekit.lsm.row_versions import version_rounds
    from lakekit.types import parse

    length = struct.unpack_from("<I", data)[0]
    rule = MergeSpec(engine="aggregation", key_columns=("k",), fields=(), table="shop.visits")
    function = FieldFunction(column="v", name=name, type=parse("BYTES"))
    values = pl.Series("v", [data[4 : 4 + length], data[4 + length :]], dtype=pl.Binary)
    found = aggregates.fold_column(function, rule, version_rounds(np.arange(2), np.array([0])), values, None)
    return bytes(found[0]).hex()


def scan_table(path: bytes) -> int:
    """Reads a table; gives the number of its rows."""
    import lakekit as lk

    return lk.open(path.decode()).scan().collect().height


def walk_table(path: bytes) -> dict[str, str]:
    """What each verb gives of a table: "ok", or the class of what it raises; a class that is not lakekit's comes with its text."""
    import lakekit as lk

    found: dict[str, str] = {}
    for name, verb in _verbs().items():
        try:
            verb(lk.open(path.decode()))
            found[name] = "ok"
        except lk.LakekitError as error:
            found[name] = type(error).__name__
        except BaseException as error:  # noqa: BLE001 - Polars' panics are none of `Exception`
            found[name] = f"{type(error).__module__}.{type(error).__name__}: {str(error)[:200]}"
    return found


def walk_deeply(path: bytes) -> dict[str, str]:
    """The same of a check of every row; what it finds stands behind "ok"."""
    import lakekit as lk

    try:
        report = lk.open(path.decode()).check(deep=True)
    except lk.LakekitError as error:
        return {"check": type(error).__name__}
    except BaseException as error:  # noqa: BLE001 - as above
        return {"check": f"{type(error).__module__}.{type(error).__name__}: {str(error)[:200]}"}
    return {"check": "ok", "found": "; ".join(problem.check for problem in report.problems)}


def _verbs() -> dict[str, Callable[[lk.Table], object]]:
    import polars as pl

    return {
        "scan": lambda t: t.scan().collect(),
        "column": lambda t: t.scan().select(t.scan().collect_schema().names()[-1]).collect(),
        "filter": lambda t: t.scan().filter(pl.col("id") == 3).collect(),
        "raw": lambda t: t.scan(raw=True).collect(),
        "aggregate": lambda t: t.aggregate(pl.len(), pl.col("id").max()),
        "explain": lambda t: t.explain(pl.col("id") == 3),
        "files": lambda t: t.files(),
        "check": lambda t: t.check(),
    }
