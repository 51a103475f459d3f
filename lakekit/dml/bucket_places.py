"""Rows that a change would not reach: keys in another bucket than the one to which the change writes.

pypaimon 2.1.0 places rows by the default function whatever `bucket-function.type` says. A delete or a new version of
such a key goes to the bucket of the option's function, and the row stays where it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lakekit.codec import hashing
from lakekit.columns import cols
from lakekit.data_file.paths import data_file_paths
from lakekit.data_file.reader import translate_polars_errors
from lakekit.errors import Corrupt
from lakekit.format.polars_types import polars_schema
from lakekit.read import lazy, lazy_frames
from lakekit.read.user_expressions import translate_compute_errors
from lakekit.write import bucket_assigners

if TYPE_CHECKING:
    import polars as pl

    from lakekit.metadata.table_context import TableContext
    from lakekit.read.planner import Plan


def check_places(plan: Plan, expr: pl.Expr | None) -> None:
    """Raise `Corrupt` where a matching row of a key table lies in another bucket than that of its key.

    Only tables with another bucket function than the default are checked: all writers place rows by the default one
    alike.
    """
    ctx = plan.ctx
    if (
        ctx.kind != "key"
        or ctx.options.bucket < 1
        or len(hashing.functions_of_writers(ctx.options.bucket_function_type)) == 1
    ):
        return
    fields = bucket_assigners.bucket_fields(ctx)
    if not hashing.is_bucket_key(ctx.options.bucket_function_type, [field.type for field in fields]):
        return  # nobody writes it: the writers refuse the table by name
    numbers = plan.entries.numbers("bucket")
    for number in np.unique(numbers[plan.chosen]).tolist():  # scalar: one a bucket
        buckets = tuple(bucket for bucket in plan.merged if bucket.bucket == number)
        _check_bucket(replace(plan, raw=plan.raw[numbers[plan.raw] == number], merged=buckets), expr, number)


def _check_bucket(plan: Plan, expr: pl.Expr | None, number: int) -> None:
    ctx, fields = plan.ctx, bucket_assigners.bucket_fields(plan.ctx)
    frame = lazy_frames.scan_merged([plan], ctx.schema.fields)
    matching = frame if expr is None else lazy.filter_rows(frame, expr, polars_schema(ctx.schema.fields))
    with (
        translate_compute_errors(ctx.name),
        translate_polars_errors(ctx, data_file_paths(ctx, plan.entries.take(plan.chosen))),
    ):
        for batch in matching.select(cols([field.name for field in fields])).collect_batches():
            columns, types = bucket_assigners.key_columns(batch, fields)
            right = hashing.buckets(ctx.options.bucket_function_type, columns, types, ctx.options.bucket)
            if (right != number).any():
                raise _misplaced_rows(ctx, plan, number, int(right[right != number][0]))


def _misplaced_rows(ctx: TableContext, plan: Plan, number: int, right: int) -> Corrupt:
    [path] = data_file_paths(ctx, plan.entries.take(plan.chosen[:1]))
    function = ctx.options.bucket_function_type
    return Corrupt(
        f"rows of bucket {number} of {ctx.name} belong to bucket {right} by bucket-function.type={function}: another "
        "writer "
        "placed them otherwise, and what is written now would not replace them. Nothing was changed. Write the rows "
        "anew first: "
        "t.overwrite(t.scan().collect())",
        path=path,
        field="_BUCKET",
    )
