"""Check that values are sketches in columns with the functions hll_sketch and theta_sketch.

A merge passes these values to a C++ library; it checks them again (`lsm.sketch_bytes`), and every read of the key would
fail.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from lakekit.errors import Corrupt, LakekitError, ValueOutOfRange
from lakekit.lsm import rule
from lakekit.lsm.sketch_bytes import CHECKS
from lakekit.types import BINARIES
from lakekit.write.spot import format_value_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.table_schema import TableSchema


def check(frame: pl.DataFrame, ctx: TableContext, first_row: int) -> None:
    """Raise `ValueOutOfRange` for the first value that is not a sketch.

    `first_row` is the frame's first row number.
    """
    if ctx.kind != "key" or ctx.options.merge_engine not in ("aggregation", "partial-update"):
        return
    for column, function in _sketch_columns(ctx.schema, ctx.all_options).items():
        values = frame.get_column(column)
        for row, value in enumerate(values.to_list()):  # scalar: sketches are whole values
            try:
                if value is not None:
                    CHECKS[function](value)
            except Corrupt as wrong:
                message = (
                    f"row {first_row + row}: column {column} of {ctx.name} holds {format_value_at(values, row)}, "
                    f"which {function} cannot unite: {wrong.message}"
                )
                raise ValueOutOfRange(f"{message}. Write the bytes of a serialized sketch", column=column) from None


@lru_cache(maxsize=256)
def _sketch_columns(schema: TableSchema, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the function name of each column whose function unites sketches."""
    try:
        functions = rule.merge_spec_from_options(schema, options).functions
    except LakekitError:  # refused where rows are merged
        return {}
    return {
        name: function.name
        for name, function in functions.items()
        if function.name in CHECKS and function.type.root in BINARIES
    }
