"""Random histories of flushes and compactions: what is read is what all flushed rows merge to, and the changelog replayed is what is read."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import polars as pl
import pytest

from lakekit.bucket.deletion_vector_writer import BucketDeletionVectors
from lakekit.columns import KIND, SEQUENCE
from lakekit.data_file.paths import data_file_path, make_file_names
from lakekit.data_file.reader import scan_files
from lakekit.data_file.rolling_writer import WriteTarget, write_run
from lakekit.lsm import compaction_picker, merge
from lakekit.lsm.compaction_picker import CompactionUnit, LsmLevels
from lakekit.metadata.table_context import open_context
from lakekit.model.data_file import APPEND_SOURCE
from spec_tests.conftest import DEEP
from spec_tests.laws.test_compact import Bucket
from spec_tests.longer import some

if TYPE_CHECKING:
    from pathlib import Path

    from lakekit.bucket.compaction import CompactResult

NOW_MS = 1_700_000_000_000
UNPARTITIONED = bytes(12)
FIELDS = [("k", "INT NOT NULL"), ("s", "STRING NOT NULL"), ("a", "INT"), ("b", "STRING"), ("c", "BIGINT")]

DEDUPLICATE = {"changelog-producer": "none"}
PARTIAL = {"merge-engine": "partial-update", "ignore-delete": "true"}
GROUPED = {"merge-engine": "partial-update", "fields.a.sequence-group": "b"}
SUMS = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum", "fields.c.aggregate-function": "sum", "fields.b.ignore-retract": "true"}
FIRST = {"merge-engine": "first-row", "ignore-delete": "true"}
LOOKUP, FULL = {"changelog-producer": "lookup"}, {"changelog-producer": "full-compaction"}
VECTORS = {"deletion-vectors.enabled": "true"}
ORDERED = {"sequence.field": "a"}

HISTORIES = {
    "deduplicate": DEDUPLICATE,
    "deduplicate ordered": DEDUPLICATE | ORDERED,
    "deduplicate lookup": LOOKUP,
    "deduplicate lookup ordered": LOOKUP | ORDERED,
    "deduplicate force-lookup": {"force-lookup": "true"},
    "deduplicate full-compaction": FULL,
    "deduplicate full-compaction ordered": FULL | ORDERED,
    "deduplicate vectors": VECTORS,
    "deduplicate vectors ordered": VECTORS | ORDERED,
    "deduplicate vectors lookup": VECTORS | LOOKUP,
    "partial-update": PARTIAL,
    "partial-update lookup": PARTIAL | LOOKUP,
    "partial-update full-compaction": PARTIAL | FULL,
    "partial-update vectors": PARTIAL | VECTORS,
    "partial-update group": GROUPED,
    "partial-update group lookup": GROUPED | LOOKUP,
    "aggregation": SUMS,
    "aggregation lookup": SUMS | LOOKUP,
    "aggregation full-compaction": SUMS | FULL,
    "aggregation vectors lookup": SUMS | VECTORS | LOOKUP,
    "first-row": FIRST,
    "first-row lookup": FIRST | LOOKUP,
}


def created(path: Path, options: dict[str, str]) -> Bucket:
    """An empty table of one bucket."""
    schema = {
        "version": 3,
        "id": 0,
        "fields": [{"id": at, "name": name, "type": kind} for at, (name, kind) in enumerate(FIELDS)],
        "highestFieldId": len(FIELDS) - 1,
        "partitionKeys": [],
        "primaryKeys": ["k", "s"],
        "options": {"bucket": "1", "num-sorted-run.compaction-trigger": "3", **options},
        "timeMillis": NOW_MS,
    }
    (path / "schema").mkdir(parents=True)
    (path / "schema" / "schema-0").write_text(json.dumps(schema))
    handle = open_context(str(path))
    return Bucket(
        ctx=handle,
        rule=merge.merge_spec_from_options(handle.schema, handle.all_options),
        partition=UNPARTITIONED,
        number=0,
        levels=LsmLevels.from_files([], handle.options),
        vectors=BucketDeletionVectors.restore(handle, UNPARTITIONED, 0, ()),
    )


def drawn(rng: random.Random, sequence: int, name: str, known: set[tuple[int, str]]) -> pl.DataFrame:
    """Rows of some keys, each once, by key.

    Not every history reads alike whenever it is compacted: a delete that was dropped no longer holds against smaller sequence fields, what was taken from
    nothing is dropped, and rows without a sequence lose what it protects when they are merged. Such rows are not drawn.
    """
    keys = sorted(rng.sample([(k, s) for k in range(12) for s in "xyz"], rng.randint(1, 14)))
    always = "group" in name
    rows = []
    for at, key in enumerate(keys):
        kinds = (0, 2)
        if name.startswith("deduplicate") and "ordered" not in name:
            kinds = (0, 0, 2, 3)
        elif name.startswith("aggregation") and key in known:
            kinds = (0, 2, 1, 3)
        a = rng.choice([*([] if always else [None]), *range(8)])
        rows.append((*key, a, rng.choice([None, "p", "q", "r"]), rng.choice([None, *range(50)]), sequence + at, rng.choice(kinds)))
    known.update(keys)
    schema = {"k": pl.Int32, "s": pl.String, "a": pl.Int32, "b": pl.String, "c": pl.Int64, SEQUENCE: pl.Int64, KIND: pl.Int8}
    return pl.DataFrame(rows, schema=schema, orient="row")


def flush(bucket: Bucket, rows: pl.DataFrame) -> None:
    target = WriteTarget(
        ctx=bucket.ctx, partition=UNPARTITIONED, bucket=0, level=0, source=APPEND_SOURCE, file_names=make_file_names(bucket.ctx), is_keyed=True
    )
    bucket.levels = bucket.levels.with_changes([], write_run(target, [rows]))


def changes(bucket: Bucket, done: CompactResult) -> list[tuple]:
    """The changelog rows of a compaction, in the order of their files."""
    found = []
    for file in done.changelog:
        frame = scan_files(bucket.ctx, [file], [data_file_path(bucket.ctx, UNPARTITIONED, 0, file)], bucket.ctx.schema.fields, system=[SEQUENCE, KIND])
        found += frame.collect().rows()
    return found


def replay(state: dict, told: list[tuple]) -> None:
    for *row, _, kind in told:
        key, value = tuple(row[:2]), tuple(row)
        match kind:
            case 0:
                assert key not in state
                state[key] = value
            case 1 | 3:
                assert state.pop(key) == value
            case 2:
                assert key not in state
                state[key] = value


def only(bucket: Bucket, levels: set[int]) -> set[tuple]:
    """The rows of some levels."""
    part = LsmLevels.from_files([file for file in bucket.levels.files if file.level in levels], bucket.ctx.options)
    held, bucket.levels = bucket.levels, part
    rows = set(bucket.rows().rows())
    bucket.levels = held
    return rows


def anything(rng: random.Random, levels: LsmLevels) -> CompactionUnit | None:
    """Some of the newest runs into any level where they may go."""
    units = []
    for count in range(1, len(levels.runs) + 1):
        below = levels.runs[count].level if count < len(levels.runs) else levels.count
        for output in range(max(1, levels.runs[count - 1].level), below):
            files = tuple(file for run in levels.runs[:count] for file in run.files)
            units.append(CompactionUnit(output_level=output, files=files))
    return rng.choice(units) if units else None


def expected(bucket: Bucket, flushed: list[pl.DataFrame]) -> pl.DataFrame:
    """What all rows ever flushed merge to."""
    rule = merge.merge_spec_from_options(
        bucket.ctx.schema, {key: value for key, value in bucket.ctx.all_options.items() if key not in (*LOOKUP, *VECTORS, "force-lookup")}
    )
    return merge.merge_section(pl.concat(flushed), rule).select(bucket.ctx.schema.names).sort("k", "s")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(30 if DEEP else 1))
@pytest.mark.parametrize("name", some(HISTORIES, 3))
def test_histories(name: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"{name} {seed}")
    bucket = created(tmp_path / "t", HISTORIES[name])
    options, producer = bucket.ctx.options, bucket.ctx.options.changelog_producer
    known: set[tuple[int, str]] = set()
    flushed: list[pl.DataFrame] = []
    state: dict[tuple, tuple] = {}
    sequence = 0
    for _ in range(10):
        rows = drawn(rng, sequence, name, known)
        sequence += rows.height
        flushed.append(rows)
        flush(bucket, rows)
        unit = rng.choice(
            (
                lambda: None,
                lambda: compaction_picker.pick_or_force_level0(bucket.levels, options, now_ms=NOW_MS)[0],
                lambda: compaction_picker.pick_level_0(bucket.levels, options, now_ms=NOW_MS),
                lambda: anything(rng, bucket.levels),
                lambda: anything(rng, bucket.levels),
                bucket.full,
            )
        )()
        if unit is not None:
            done = bucket.compact(unit)
            replay(state, changes(bucket, done))
            assert all(file.level <= bucket.levels.max_level for file in bucket.levels.files)
            assert not any(file.delete_row_count for file in bucket.levels.files if file.level == bucket.levels.max_level)
            assert len({file.name for file in bucket.levels.files}) == len(bucket.levels.files)
            if producer == "full-compaction":
                assert set(state.values()) == only(bucket, {bucket.levels.max_level})
            if producer == "lookup":
                assert set(state.values()) == only(bucket, set(range(1, bucket.levels.count)))
        assert bucket.rows().rows() == expected(bucket, flushed).rows()
    if producer == "none":
        assert not state
