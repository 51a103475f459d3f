"""Statistics of the rows of a table, in a snapshot of their own: `t.analyze()`.

    rows of the newest snapshot ─▶ statistics/stat-<uuid>-0 ─▶ snapshot ANALYZE: nothing added, nothing removed

Later snapshots carry the file on while the schema stays the same. Rows are counted merged; distinct values by a sketch, as engines do. Planners of SQL
engines use it; `t.system("statistics")` shows it. Source: ENGINE.md 5.12, FORMAT.md 3.6, `StatsFileHandler`, `FileStoreCommitImpl.commitStatistics`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.commit import attempt, publish
from lakekit.commit.attempt import Step
from lakekit.commit.changes import NOTHING, Changes
from lakekit.commit.draft import Draft
from lakekit.errors import CommitStateUnknown, InvalidOption, LakekitError
from lakekit.meta import snapshots
from lakekit.model.statistics import ColumnStatistics, Statistics
from lakekit.options.frozen import Frozen
from lakekit.read import lazy, plan, scan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakekit.commit.outcome import Commit
    from lakekit.meta.handle import Handle
    from lakekit.types import Field

_FIXED = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8, "DATE": 4, "TIME": 4, "TIMESTAMP": 8, "TIMESTAMP_LTZ": 8}
"""Bytes of a value, by type."""
_TEXTS, _BYTES = ("CHAR", "VARCHAR"), ("BINARY", "VARBINARY")
_SECONDS = len("2024-01-01 00:00:00")
_LONG_DECIMAL = 18
"""Digits that eight bytes hold."""


def analyze(handle: Handle, columns: Sequence[str] | None) -> Commit:
    """Collects statistics of the newest snapshot; None: of every column that can have some. Without a snapshot none is made."""
    publish.refuse(handle)
    chosen = _chosen(handle, columns)
    latest = snapshots.latest(handle)
    job = attempt.job_alone(handle, latest)
    if latest is None:
        return publish.outcome(job, [])
    rows = lazy.lazy(scan.scan(handle, latest.id))
    told: Mapping[str, Any] = rows.select(pl.len().alias("rows"), *(one for field in chosen for one in _questions(field))).collect().row(0, named=True)
    stored = plan.live(handle, latest)
    stored_rows, stored_bytes = (int(stored.numbers(name).sum()) for name in ("row_count", "file_size"))
    found = Statistics(
        snapshot_id=latest.id,
        schema_id=latest.schema_id,
        merged_record_count=told["rows"],
        merged_record_size_bytes=stored_bytes * told["rows"] // stored_rows if stored_rows else 0,
        columns=Frozen({field.name: _answers(field, told) for field in chosen}),
    )
    name = f"stat-{handle.world.new_id()}-0"
    handle.storage.put(handle.layout.statistics(name), found.to_json())
    step = Step(changes=Changes(kind="ANALYZE", delta=NOTHING, changelog=NOTHING, statistics=name))
    try:
        return publish.outcome(job, [attempt.run(job, step, Draft(handle), latest)])
    except CommitStateUnknown:
        raise
    except BaseException:
        with suppress(LakekitError):  # what cannot be deleted is left to the cleaning of orphans
            handle.storage.delete([handle.layout.statistics(name)])
        raise


def _chosen(handle: Handle, columns: Sequence[str] | None) -> list[Field]:
    """The columns asked for. Raises `ColumnNotFound`, and `InvalidOption` for one whose type has no statistics."""
    if columns is None:
        return [field for field in handle.schema.fields if _has_statistics(field)]
    if isinstance(columns, str):
        msg = f"columns= takes a list of names, not the text {columns!r}"
        raise TypeError(msg)
    chosen = [handle.schema.field(name) for name in columns]
    for field in chosen:
        if not _has_statistics(field):
            msg = f"column {field.name!r} of {handle.name} is {field.type}, which has no statistics: leave it out"
            raise InvalidOption(msg, key="columns", value=field.name)
    return chosen


def _has_statistics(field: Field) -> bool:
    return field.type.root in (*_FIXED, *_TEXTS, *_BYTES, "DECIMAL")


def _has_bounds(field: Field) -> bool:
    return field.type.root not in (*_BYTES, "TIME")


def _questions(field: Field) -> list[pl.Expr]:
    column = pl.col(field.name)
    counted = column.cast(pl.String) if field.type.root == "DECIMAL" else column.cast(pl.Int64) if field.type.root in ("TIME", "DATE") else column
    found = [column.null_count().alias(f"nulls {field.name}"), counted.drop_nulls().approx_n_unique().alias(f"distinct {field.name}")]
    if _has_bounds(field):
        found += [_text(field, bound).alias(f"{word} {field.name}") for word, bound in (("min", column.min()), ("max", column.max()))]
    if field.type.root in (*_TEXTS, *_BYTES):
        sizes = column.str.len_bytes() if field.type.root in _TEXTS else column.bin.size()
        found += [sizes.mean().ceil().alias(f"average {field.name}"), sizes.max().alias(f"longest {field.name}")]
    return found


def _text(field: Field, value: pl.Expr) -> pl.Expr:
    """A bound as the file holds it."""
    match field.type.root:
        case "DATE":
            return value.cast(pl.Int32).cast(pl.String)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            digits = field.type.precision or 0
            return value.dt.strftime("%Y-%m-%d %H:%M:%S%.9f").str.head(_SECONDS + (1 + digits if digits else 0))
    return value.cast(pl.String)


def _answers(field: Field, told: Mapping[str, Any]) -> ColumnStatistics:
    nulls, average, longest = told[f"nulls {field.name}"], _fixed(field), _fixed(field)
    if field.type.root in (*_TEXTS, *_BYTES):
        average, longest = (int(told[f"{word} {field.name}"] or 0) for word in ("average", "longest"))
    return ColumnStatistics(
        column_id=field.id,
        distinct_count=told[f"distinct {field.name}"],
        min=told.get(f"min {field.name}"),
        max=told.get(f"max {field.name}"),
        null_count=nulls,
        avg_length_bytes=average,
        max_length_bytes=longest,
    )


def _fixed(field: Field) -> int:
    if field.type.root == "DECIMAL":
        return 8 if (field.type.precision or 0) <= _LONG_DECIMAL else 16
    return _FIXED.get(field.type.root, 0)
