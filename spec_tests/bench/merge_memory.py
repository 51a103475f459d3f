"""How fast sections merge in memory, per path: wall and CPU time and million rows a second, best of a few rounds taken in turn.

python spec_tests/bench/merge_memory.py [rows] [rounds]
"""

from __future__ import annotations

import gc
import sys
import time
from datetime import datetime

import numpy as np
import polars as pl

from lakekit.lsm import merge
from lakekit.model.table_schema import TableSchema
from lakekit.types import Field, parse

VALUES = {
    "i32": "INT",
    "i64": "BIGINT",
    "f64": "DOUBLE",
    "f64b": "DOUBLE",
    "name": "STRING",
    "cat": "STRING",
    "ts": "TIMESTAMP(6)",
    "dec": "DECIMAL(18, 2)",
}
AGGREGATION = {"i64": "sum", "f64": "sum", "i32": "max", "ts": "max"}
START = datetime(2024, 1, 1)  # noqa: DTZ001 - a wall clock


def keys(ids, kind):
    if kind == "int":
        return [pl.Series("k", ids.astype(np.int64))]
    if kind == "wide int":
        return [pl.Series("k", ids.astype(np.int64) * 1_000_003)]
    mixed = (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) & np.uint64(0xFFFFFFFFFFFF)
    text = pl.select(pl.lit("user-") + pl.Series(mixed).cast(pl.String).str.zfill(15)).to_series().alias("k")
    return [text] if kind == "string" else [pl.Series("day", (ids % 30).astype(np.int32)), text]


def run(ids, kind, nulls, drawn):
    count = len(ids)
    frame = pl.DataFrame(
        {
            "i32": drawn.integers(0, 1000, count).astype(np.int32),
            "i64": drawn.integers(0, 10**9, count),
            "f64": drawn.integers(0, 10**6, count) / 8.0,
            "f64b": drawn.integers(0, 10**6, count) / 4.0,
        }
    ).with_columns(
        name=pl.format("name-{}", pl.col("i64")),
        cat=pl.format("cat{}", pl.col("i32") % 20),
        ts=(pl.lit(START) + pl.duration(seconds=pl.col("i64") % 10**7)).cast(pl.Datetime("us")),
        dec=(pl.col("i64") % 1_000_000).cast(pl.Decimal(18, 2)),
    )
    if nulls:
        frame = frame.with_columns(pl.when(pl.Series(drawn.random(count) < nulls)).then(None).otherwise(pl.col(name)).alias(name) for name in VALUES)
    columns = keys(ids, kind)
    frame = pl.DataFrame(columns).hstack(frame)
    ordered = frame.sort([column.name for column in columns])
    # sorting leaves texts scattered in memory; in a file just read they are not
    texts = [pl.concat_str(name, pl.lit("")).alias(name) for name, dtype in ordered.schema.items() if dtype == pl.String]
    return ordered.with_columns(texts).with_columns(_VALUE_KIND=pl.lit(0, pl.Int8))


def section(rows, shape, kind, nulls=0.0):
    """Five or ten runs that overlap everywhere, or one old run of 80 % and four small ones over it."""
    drawn = np.random.default_rng(5)
    if shape == "delta":
        space = int(rows * 0.8)
        ids = [np.arange(space)] + [drawn.choice(space + rows // 20, rows // 20, replace=False) for _ in range(4)]
    else:
        runs = int(shape)
        ids = [drawn.choice(rows // 2, rows // runs, replace=False) for _ in range(runs)]
    frames = [run(np.sort(one), kind, nulls, drawn) for one in ids]
    whole = pl.concat(frames).rechunk()
    return whole.with_columns(_SEQUENCE_NUMBER=pl.int_range(whole.height, dtype=pl.Int64))


def rule_of(engine, frame, **options):
    names = [name for name in frame.columns if name in ("k", "day")]
    kinds = {"k": "STRING NOT NULL" if frame["k"].dtype == pl.String else "BIGINT NOT NULL", "day": "INT NOT NULL", **VALUES}
    fields = tuple(Field(name, parse(kinds[name]), id=at) for at, name in enumerate([*names, *VALUES]))
    schema = TableSchema(
        id=0, fields=fields, highest_field_id=len(fields) - 1, primary_keys=tuple(reversed(names)), options={"merge-engine": engine, **options}
    )
    return merge.merge_spec_from_options(schema)


def measured(cases, rounds):
    best, least = dict.fromkeys(cases, float("inf")), dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for name, (frame, job) in cases.items():
            gc.collect()
            before, spent = time.perf_counter(), time.process_time()
            job()
            best[name], least[name] = min(best[name], time.perf_counter() - before), min(least[name], time.process_time() - spent)
            assert frame.height
    for name, (frame, _) in cases.items():
        print(f"{name:52s} {best[name] * 1e3:9.1f} ms, cpu {least[name] * 1e3:9.1f} ms {frame.height / best[name] / 1e6:8.1f} Mrow/s")


def main():
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    for kind in ("int", "wide int", "string", "composite"):
        for shape in ("5", "10", "delta"):
            cases = {}
            frame = section(rows, shape, kind)
            found = rule_of("deduplicate", frame)
            head = frame.select(*found.key, "_SEQUENCE_NUMBER", "_VALUE_KIND")
            cases[f"{kind}, {shape}: winner mask"] = (head, lambda head=head, found=found: merge.winner_mask(head, found))
            first = rule_of("first-row", frame)
            cases[f"{kind}, {shape}: first row mask"] = (head, lambda head=head, first=first: merge.winner_mask(head, first))
            dedup = (frame, lambda frame=frame, found=found: merge.merge_section(frame, found))
            cases[f"{kind}, {shape}: deduplicate, all columns"] = dedup
            ordered = rule_of("deduplicate", frame, **{"sequence.field": "ts"})
            timed = frame.select(*ordered.key, "ts", "_SEQUENCE_NUMBER", "_VALUE_KIND")
            cases[f"{kind}, {shape}: winner mask, sequence field"] = (timed, lambda timed=timed, ordered=ordered: merge.winner_mask(timed, ordered))
            halves = section(rows, shape, kind, 0.5)
            partial = rule_of("partial-update", halves)
            cases[f"{kind}, {shape}: partial-update, half null"] = (halves, lambda halves=halves, partial=partial: merge.merge_section(halves, partial))
            functions = {f"fields.{name}.aggregate-function": function for name, function in AGGREGATION.items()}
            summed = rule_of("aggregation", frame, **functions)
            cases[f"{kind}, {shape}: aggregation"] = (frame, lambda frame=frame, summed=summed: merge.merge_section(frame, summed))
            measured(cases, rounds)


if __name__ == "__main__":
    main()
