"""Check that the new values of an update persist once the table has merged them with the rows they replace.

    partial-update, {"v": None}            v keeps its older value      refused: the update would change nothing
    sequence.field = q, {"v": 2, "q": 3}   the row with q = 9 stays     refused

The rows are merged as reading merges them, so that all merge options of the table count. Source: ENGINE.md 3.1 to 3.3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from lakekit.columns import KIND, SEQUENCE, col, cols, internal
from lakekit.errors import InvalidOption
from lakekit.lsm import merge, rule as rules
from lakekit.model.row_kind import RowKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.metadata.table_context import TableContext

_MERGED_SUFFIX = internal("merged")
"""What the names of merged columns end with."""


def check_stands(old: pl.DataFrame, new: pl.DataFrame, names: Sequence[str], ctx: TableContext) -> None:
    """Raise `InvalidOption` where a new value of a column in `names` would be lost by merging.

    `old` and `new` correspond row by row.
    """
    rule = rules.merge_spec_from_options(ctx.schema, ctx.all_options, table=ctx.name)
    if not old.height or (rule.engine == "deduplicate" and not rule.sequence_fields):
        return
    keys = list(dict.fromkeys((*ctx.schema.partition_keys, *ctx.schema.primary_keys)))
    own = cols(ctx.schema.names)
    both = pl.concat([_version(old.select(own), RowKind.INSERT, 0), _version(new.select(own), RowKind.UPDATE_AFTER, 1)])
    merged = merge.merge(both, replace(rule, key=tuple(keys), lookup=False))
    pairs = new.select(own).join(
        merged.select(own), on=cols(keys), how="left", nulls_equal=True, suffix=_MERGED_SUFFIX, maintain_order="left"
    )
    for name in (name for name in names if name not in keys):
        lost = pairs.filter(col(name).ne_missing(col(name + _MERGED_SUFFIX)))
        if lost.height:
            raise _lost_update(name, lost[name][0], lost[name + _MERGED_SUFFIX][0], rule, ctx)


def _version(rows: pl.DataFrame, kind: RowKind, number: int) -> pl.DataFrame:
    return rows.with_columns(pl.lit(int(kind), pl.Int8).alias(KIND), pl.lit(number, pl.Int64).alias(SEQUENCE))


def _lost_update(name: str, wanted: object, left: object, rule: rules.MergeSpec, ctx: TableContext) -> InvalidOption:
    group = rule.group_of(name)
    fields = rule.sequence_fields if group is None else group.columns
    if fields:
        key, value = (
            "sequence.field" if group is None else f"fields.{','.join(fields)}.sequence-group",
            ",".join(fields),
        )
        why = (
            f"rows are ordered by {', '.join(fields)}, and the new one is older, or has none: give {fields[0]} a "
            "value that is not below the old one"
        )
    else:
        key, value = "merge-engine", rule.engine
        why = (
            f"merge engine {rule.engine} keeps the older value of a column that is NULL, or makes one of both: delete "
            "the row and write another"
        )
    message = (
        f"{name!r} of {ctx.name} would be {left!r} after the update, and not {wanted!r}: {why}. Nothing was changed"
    )
    return InvalidOption(message, key=key, value=value)
