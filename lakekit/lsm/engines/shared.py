"""Functions common to the engines that compute rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.errors import SchemaMismatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.lsm.numpy_columns import Bools, Ints
    from lakekit.lsm.rule import MergeSpec


def assemble_rows(section: pl.DataFrame, lone: Bools, columns: Mapping[str, pl.Series]) -> pl.DataFrame:
    """Return the rows that are the only one of their key, and the merged ones after them."""
    merged = pl.DataFrame([column.alias(name) for name, column in columns.items()], schema=section.schema)
    return pl.concat([section.filter(pl.Series(lone)), merged]) if lone.any() else merged


def check_not_null(section: pl.DataFrame, rule: MergeSpec, rows: Ints) -> None:
    """Raise `SchemaMismatch` if one of those rows has a null in a NOT NULL column.

    The reference copies such rows as a whole.
    """
    for number, part in enumerate(rule.fields):
        if part.name not in rule.not_null or part.name not in section.columns:
            continue
        column = section[part.name]
        if column.null_count() and bool(np.any(column.is_null().to_numpy()[rows])):
            raise SchemaMismatch(
                f"Field {number} can not be null: column {part.name} of {rule.place} is {part.type}, and a row to be "
                "merged has a null there",
                column=part.name,
            )
