"""Planning never loses a match, drops what it promises to drop, and counts what it does."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import lakekit as lk
from lakekit.codec import hashing, index_files
from lakekit.data_file.paths import partition_path
from lakekit.metadata import manifest_reader
from lakekit.read import lazy_frames, polars_pushdown, pruning, table_scan, time_travel
from lakekit.read.planner import _memoize_partition_filter, plan_read
from lakekit.read.polars_pushdown import predicate_of
from lakekit.types import parse
from lakekit.types.arrow import to_arrow
from spec_tests.doors.views import CASES, collected, facts, table
from spec_tests.longer import some
from spec_tests.query_strategies import conditions

if TYPE_CHECKING:
    from lakekit.read.planner import Plan

FEW = settings(max_examples=settings.default.max_examples // 2, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
READABLE = [name for name in CASES if name != "aggregate_sketches"]
KEYED = [name for name in READABLE if facts(name).primary_keys]
APPENDED = [name for name in READABLE if not facts(name).primary_keys and "scan.fallback-branch" not in facts(name).features]
PARTITIONED = [name for name in READABLE if facts(name).partition_keys and "scan.fallback-branch" not in facts(name).features]
BUCKETED = [name for name in READABLE if name.startswith("bucket_") and "bucket.fixed" in facts(name).features]
INDEXED = [name for name in READABLE if any(own.startswith("file-index") for own in facts(name).features) and name != "index_map_keys"]


@cache
def source(case: str) -> table_scan.TableScan:
    """What golden tables are planned through; each plan asks the table anew."""
    return table_scan.scan(table(case)._context())


class Told(table_scan.TableScan):
    """A scan that tells its plans: what is said of them is said of those that the rows were read by."""

    made: ClassVar[list[Plan]] = []

    def _plans(self, handle, position, condition, limit):
        self.made[:] = table_scan.TableScan._plans(self, handle, position, condition, limit)
        return list(self.made)


def read(case: str, condition: pl.Expr) -> tuple[pl.DataFrame, Plan]:
    """The rows of a condition that a new scan of the table gives, with the plan of the branch that was read first."""
    of = source(case)
    Told.made.clear()
    return polars_pushdown.scan_lazily(Told(ctx=of.ctx, fields=of.fields)).filter(condition).collect(), Told.made[0]


def plans(case: str, condition: pl.Expr):
    """The plans of a filter, one a branch, as explain makes them."""
    of = source(case)
    asked, _ = polars_pushdown.build_scan_filter(polars_pushdown.filters_of(condition, of.schema()), of.ctx.schema)
    return of.plans(asked)


def planned(case: str, condition: pl.Expr):
    """The plan of the branch that is read first."""
    return plans(case, condition)[0]


def names(plan) -> set[str]:
    return set(plan.entries.column("file_name").take(pa.array(plan.selected_indices)).to_pylist())


@cache
def alone(case: str) -> tuple[tuple[str, pl.DataFrame], ...]:
    """The rows that each file read without a merge shows."""
    of = source(case)
    whole = of.plans(polars_pushdown.ScanFilter())[0]
    found = []
    for at in whole.raw_indices:
        one = replace(whole, raw_indices=np.array([at]), merged_buckets=())
        found.append((whole.entries.column("file_name")[int(at)].as_py(), lazy_frames.scan_merged([one], of.fields).collect()))
    return tuple(found)


@cache
def merged(case: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows that merged buckets show, and every version they are made of with its file."""
    of = source(case)
    whole = of.plans(polars_pushdown.ScanFilter())[0]
    rows = lazy_frames.scan_merged([replace(whole, raw_indices=np.zeros(0, np.int64))], of.fields).collect()
    files = [int(at) for bucket in whole.merged_buckets for at in bucket.files]
    stored = lazy_frames.scan_stored_versions(replace(whole, raw_indices=np.array(files, np.int64), merged_buckets=()), of.fields).collect()
    return rows, stored


# ---- no match is lost ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@FEW
@given(st.data())
def test_every_file_with_a_match_is_planned(data):
    case = data.draw(st.sampled_from(READABLE))
    full = collected(case)
    if full is None or not full.height:
        return
    condition = data.draw(conditions(full))
    chosen = names(planned(case, condition))
    lost = [name for name, rows in alone(case) if rows.filter(condition).height and name not in chosen]
    assert not lost, f"{case}: {lost} hold rows that satisfy {condition}"


@pytest.mark.long
@FEW
@given(st.data())
def test_every_version_of_a_match_is_planned(data):
    case = data.draw(st.sampled_from(KEYED))
    full = collected(case)
    if full is None or not source(case).plans(polars_pushdown.ScanFilter())[0].merged_buckets:
        return
    rows, stored = merged(case)
    condition = data.draw(conditions(full))
    keys = merged_by(case)
    needed = set(stored.join(rows.filter(condition).select(keys), on=keys, how="semi", nulls_equal=True)["_file"].to_list())
    assert needed <= names(planned(case, condition)), f"{case}: {condition}"


def merged_by(case):
    """What rows are merged by: a key that has no part of the partition may stand in several, a row in each, where buckets are fixed."""
    t = table(case)
    return list(dict.fromkeys((*t.partition_keys, *t.primary_keys))) if t.primary_keys else []


@pytest.mark.deep
@pytest.mark.parametrize("case", READABLE)
def test_no_match_of_any_table_is_lost(case):
    full = collected(case)
    if full is None:
        assert table(case)._context()
        return
    (rows, stored), keys = merged(case), merged_by(case)

    @settings(max_examples=300, suppress_health_check=list(HealthCheck))
    @given(conditions(full))
    def law(condition):
        chosen = names(planned(case, condition))
        assert not [name for name, some in alone(case) if some.filter(condition).height and name not in chosen]
        if keys:
            needed = set(stored.join(rows.filter(condition).select(keys), on=keys, how="semi", nulls_equal=True)["_file"].to_list())
            assert needed <= chosen

    law()


# ---- statistics ----------------------------------------------------------------------------------------------------------------------------

KINDS = {
    "INT": (pl.Int32, st.integers(-3, 3)),
    "BIGINT": (pl.Int64, st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2)),
    "STRING": (pl.String, st.sampled_from(["", "a", "ab", "abc", "b", "é", "\uffff", "\U0001f600"])),
    "DOUBLE": (pl.Float64, st.sampled_from([-1.5, -0.0, 0.0, 1.0, math.inf, math.nan])),
    "DATE": (pl.Date, st.dates()),
    "BOOLEAN": (pl.Boolean, st.booleans()),
    "TIMESTAMP(6)": (pl.Datetime("us"), st.datetimes()),
}


def bounds_of(files: list[pl.Series], t) -> pruning.PruningStatistics:
    """What a writer says of files: exact bounds, as Java's collectors make them (they leave NaN out)."""
    low, high = [], []
    for values in files:
        some = values.drop_nulls()
        some = some.filter(some.is_not_nan()) if some.dtype.is_float() else some
        low.append(some.min() if len(some) else None)
        high.append(some.max() if len(some) else None)
    return pruning.PruningStatistics(
        type=t,
        low=pa.array(low, to_arrow(t)),
        high=pa.array(high, to_arrow(t)),
        nulls=np.array([values.null_count() for values in files]),
        rows=np.array([len(values) for values in files]),
    )


def drawn_files(data, kind: str) -> tuple[list[pl.Series], pl.Expr]:
    dtype, values = KINDS[kind]
    columns = data.draw(st.lists(st.lists(values | st.none(), min_size=1, max_size=4), min_size=1, max_size=5))
    files = [pl.Series("c", column, dtype=dtype) for column in columns]
    return files, data.draw(conditions(pl.concat(files).to_frame()))


def texts(condition: pl.Expr, dtype) -> list[str | None]:
    return [found.pyarrow_str for found in polars_pushdown.filters_of(condition, {"c": dtype})]


@FEW
@given(st.data(), st.sampled_from(sorted(KINDS)))
def test_statistics_drop_no_match(data, kind):
    files, condition = drawn_files(data, kind)
    t = parse(kind)
    kept = np.ones(len(files), bool)
    for text in texts(condition, files[0].dtype):
        kept &= pruning.may_match(predicate_of(text), {"c": bounds_of(files, t)}.get, len(files))
    for values, keep in zip(files, kept, strict=True):
        assert keep or not values.to_frame().filter(condition).height, f"{values.to_list()} holds a match of {condition}"


@pytest.mark.long
@FEW
@given(st.data(), st.sampled_from(["INT", "BIGINT", "DATE"]))
def test_statistics_drop_what_polars_itself_would_skip(data, kind):
    """Polars' own verdict on the same statistics is a second opinion; it is private, and asked in tests only."""
    files, condition = drawn_files(data, kind)
    t, dtype = parse(kind), files[0].dtype
    for found in polars_pushdown.filters_of(condition, {"c": dtype}):
        skip = found.expr._skip_batch_predicate({"c": dtype})
        if skip is None or predicate_of(found.pyarrow_str) == predicate_of(None):
            continue
        known = bounds_of(files, t)
        stats = pl.DataFrame(
            {
                "len": pl.Series(known.rows, dtype=pl.UInt32),
                "c_min": pl.Series(known.low).cast(dtype),
                "c_max": pl.Series(known.high).cast(dtype),
                "c_nc": pl.Series(known.nulls, dtype=pl.UInt32),
            }
        )
        theirs = stats.select(skip.fill_null(value=False)).to_series().to_numpy()
        ours = pruning.may_match(predicate_of(found.pyarrow_str), {"c": known}.get, len(files))
        assert not (ours & theirs).any(), f"{condition}: {[values.to_list() for values in files]}, kept {ours}, Polars skips {theirs}"


# ---- what is promised to be dropped --------------------------------------------------------------------------------------------------------


@pytest.mark.long
@FEW
@given(st.data())
def test_partitions_are_chosen_exactly(data):
    case = data.draw(st.sampled_from(PARTITIONED))
    found = table(case)
    if collected(case) is None:
        return
    there = found.partitions()["values"].struct.unnest()
    if not there.height or any(dtype.is_nested() for dtype in there.dtypes):
        return
    condition = data.draw(conditions(there))
    handed, is_whole = polars_pushdown.all_filters_of(condition, source(case).schema())
    plan = planned(case, condition)
    chosen = set(plan.entries.column("partition").take(pa.array(plan.selected_indices)).to_pylist())
    whole = source(case).plans(polars_pushdown.ScanFilter())[0]
    every = set(whole.entries.column("partition").take(pa.array(whole.selected_indices)).to_pylist())
    paths = {partition_path(plan.ctx, one).rstrip("/") for one in every}
    wanted = set(found.partitions().filter(there.select(condition.alias("fits")).to_series())["partition"].to_list()) & paths
    got = {partition_path(plan.ctx, one).rstrip("/") for one in chosen}
    assert wanted <= got
    if is_whole and handed and all(one.pyarrow_str is not None for one in handed):  # Polars may keep a cast to itself
        assert got == wanted, f"{case}: {condition}"


def equal_to(row: dict, keys) -> pl.Expr | None:
    if any(value is None for value in (row[key] for key in keys)):
        return None
    return pl.all_horizontal(pl.col(key) == pl.lit(row[key]) for key in keys)


@pytest.mark.long
@pytest.mark.parametrize("case", BUCKETED)
def test_a_named_key_leaves_its_bucket(case):
    """For every key of the table: the files planned lie in the one bucket that holds the key, as found by looking at all rows."""
    found = table(case)
    keys = list(found._context().schema.bucket_keys)
    place = found.files().select("file_name", "bucket", "partition")
    stored = found.scan(raw=True).collect().join(place, left_on="_file", right_on="file_name")
    function, narrowed = found._context().options.bucket_function_type, 0
    for row in collected(case).unique(keys).head(12).iter_rows(named=True):
        condition = equal_to(row, keys)
        if condition is None:
            continue
        plan = planned(case, condition)
        chosen = set(plan.entries.integers("bucket")[plan.selected_indices].tolist())
        holds = set(stored.filter(condition)["bucket"].to_list())
        assert holds <= chosen
        steps = [step for step in plan.steps if step.why == "bucket"]
        if steps:
            assert chosen <= holds | wider(found, stored, row, keys), f"{case}: {row} {function}"
            narrowed += 1
    untold = ("FLOAT", "DOUBLE", "DECIMAL", "TIME", "BINARY", "VARBINARY")  # 0.0 is -0.0 with another hash; of the others Polars gives no text
    comparable = found._context().options.bucket > 1 and not any(found._context().schema.field(key).type.root in untold for key in keys)
    assert narrowed or not comparable, f"{case}: no key chose a bucket"


def wider(found, stored, row, keys) -> set[int]:
    """Other partitions may have another bucket count, and other writers another function, so that the key has another bucket there."""
    handle, fields = found._context(), [found._context().schema.field(key) for key in keys]
    live = manifest_reader.read_live_entries(handle, time_travel.resolve_position(handle).snapshot)
    totals = {int(total) for total in np.unique(live.integers("total_buckets"))}
    values = [pl.Series([row[key]], dtype=stored.schema[key]).to_arrow().cast(to_arrow(field.type)) for key, field in zip(keys, fields, strict=True)]
    functions = {handle.options.bucket_function_type, "default"}  # pypaimon places rows by the default one, whatever the option says
    types = [field.type for field in fields]
    return {int(hashing.assign_buckets(function, values, types, total)[0]) for function in functions for total in totals if total > 0}


@pytest.mark.parametrize("case", ["bucket_dynamic", "bucket_dynamic_partitioned"])
def test_hash_indexes_choose_the_buckets_that_hold_the_hash(case):
    found = table(case)
    handle = found._context()
    snapshot = time_travel.resolve_position(handle).snapshot
    keys = [handle.schema.field(name) for name in handle.schema.bucket_keys]
    indexes = [entry for entry in manifest_reader.index_entries(handle, snapshot) if entry.index_type == "HASH"]
    assert indexes
    paths = [handle.paths.index(one.file_name, partition_path=partition_path(handle, one.partition), bucket=one.bucket) for one in indexes]
    held = [set(index_files.decode_hash_index(handle.storage.read(path)).tolist()) for path in paths]
    hashes = {(entry.partition, entry.bucket): found for entry, found in zip(indexes, held, strict=True)}
    dropped = 0
    for row in collected(case).iter_rows(named=True):
        condition = equal_to(row, [field.name for field in keys])
        values = [pl.Series([row[field.name]], dtype=collected(case).schema[field.name]).to_arrow().cast(to_arrow(field.type)) for field in keys]
        wanted = int(hashing.hash_columns(values, [field.type for field in keys])[0])
        plan = planned(case, condition)
        assert any(step.why == "hash index" for step in plan.steps)
        chosen = {(plan.entries.column("partition")[int(at)].as_py(), int(plan.entries.integers("bucket")[at])) for at in plan.selected_indices}
        assert chosen <= {place for place, held in hashes.items() if wanted in held}
        assert chosen
        dropped += sum(step.before - step.after for step in plan.steps if step.why == "hash index")
    assert dropped


@pytest.mark.long
@FEW
@given(st.data())
def test_a_key_is_looked_for_where_ranges_allow(data):
    case = data.draw(st.sampled_from(KEYED))
    full, of = collected(case), source(case)
    if full is None or not full.height or len(of.ctx.schema.trimmed_primary_keys) != 1:
        return
    (key,) = of.ctx.schema.trimmed_primary_keys
    if full.schema[key].is_float() or full[key].null_count():  # a bound that is null keeps its file
        return
    value = data.draw(st.sampled_from(full[key].to_list()))
    literal = pl.lit(value, dtype=full.schema[key])
    if polars_pushdown.filters_of(pl.col(key) == literal, of.schema())[0].pyarrow_str is None:
        return
    low, high = (pl.col(which).struct.field(key) for which in ("min_key", "max_key"))
    without_statistics = pl.col("bucket") == -2  # writers of postponed files record none
    allowed = set(table(case).files().filter(without_statistics | ((low <= literal) & (high >= literal)))["file_name"])
    assert names(planned(case, pl.col(key) == literal)) <= allowed, f"{case}: {value}"


@pytest.mark.long
@pytest.mark.parametrize("case", some(INDEXED, 4))
def test_file_indexes_drop_files_or_rows_and_no_match(case):
    full, dropped = collected(case), 0
    handle = table(case)._context()
    for name in full.columns:
        if full.schema[name].is_nested() or full.schema[name].is_float():
            continue
        values = full[name].drop_nulls().unique(maintain_order=True)
        absent = []  # beside values that are there, so that statistics alone cannot tell
        if len(values) and values.dtype.is_integer():
            absent = [values.max() - 1]
        elif len(values) and values.dtype == pl.String:
            absent = [f"{values.sort()[len(values) // 2]}0"]
        for value in [*values.head(6).to_list(), *absent]:
            condition = pl.col(name) == pl.lit(value, dtype=full.schema[name])
            found, plan = read(case, condition)
            for step in plan.steps:
                dropped += step.before - step.after if step.why == "file index" else 0
            dropped += len(plan.matching_positions)
            assert found.height == full.filter(condition).height
    assert dropped or handle.schema.primary_keys, f"{case}: no index said anything"
    unread = lk.open(table(case).location, options={"file-index.read.enabled": "false"})
    assert not any(step.why == "file index" for step in unread.explain(pl.col(full.columns[0]).is_not_null()).steps)


# ---- limits and counts ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@FEW
@given(st.data())
def test_a_limit_reads_no_more_files_than_it_takes(data):
    case = data.draw(st.sampled_from(APPENDED))
    if collected(case) is None:
        return
    handle = table(case)._context()
    position = time_travel.resolve_position(handle)
    whole = plan_read(handle, position)
    total = collected(case).height
    limit = data.draw(st.integers(0, total + 1))
    plan = plan_read(handle, position, limit=limit)
    assert table(case).scan().head(limit).collect().height == min(limit, total)
    counts = plan.entries.integers("row_count")[plan.raw_indices]
    if whole.vector_entries:
        assert len(plan.raw_indices) == len(whole.raw_indices)  # nobody knows how many rows of a file are deleted before its vector is read
    else:
        assert int(counts.sum()) >= min(limit, total)
        assert len(counts) == 0 or int(counts[:-1].sum()) < limit


def test_a_limit_on_key_tables_is_not_pushed_below_a_merge():
    handle = table("dedup_overlapping_runs")._context()
    position = time_travel.resolve_position(handle)
    assert set(plan_read(handle, position, limit=1).selected_indices.tolist()) == set(plan_read(handle, position).selected_indices.tolist())


@pytest.mark.long
@FEW
@given(st.data())
def test_the_counts_of_the_funnel_add_up(data):
    case = data.draw(st.sampled_from(READABLE))
    full = collected(case)
    if full is None:
        return
    condition = data.draw(conditions(full)) if full.height and data.draw(st.booleans()) else None
    told = table(case).explain(condition)
    check_counts(told, table(case), plans(case, condition if condition is not None else pl.lit(value=True)))


def test_the_funnel_begins_with_all_files_where_the_manifests_that_are_left_delete_what_others_added() -> None:
    asked, condition = table("overwrite_partitions"), pl.col("p") == "n"
    told = asked.explain(condition)
    assert [(step.what, step.before, step.after) for step in told.steps] == [("manifests", 5, 1), ("files", 1, 1)]
    check_counts(told, asked, plans("overwrite_partitions", condition))


def check_counts(told: lk.Explain, asked: lk.Table, asked_plans) -> None:
    """What an explanation says of a table is what the plans say, and what a listing of the files shows, of every branch that is read."""
    steps, listed, read = list(told.steps), [], []
    for (branch, number), plan in zip(told.branches or ((None, told.snapshot_id),), asked_plans, strict=True):
        files, of = (asked, "") if branch is None else (asked.branch(branch), f" of {branch}")
        files, chosen = files.files(at=number), files.files(at=number).filter(pl.col("file_name").is_in(names(plan)))
        mine = [step for step in steps if step.what == f"files{of}"]
        pruned = [step for step in steps if step.what == f"manifests{of}"]
        for one, after in pairwise(mine):
            assert one.after == after.before
        if mine:
            assert mine[-1].after == chosen.height
            assert mine[0].before <= files.height
        elif not pruned:
            assert chosen.height == files.height
        named = [step for step in steps if step.what == f"rows{of}"]
        assert [step.before for step in named] == [chosen["row_count"].sum()] * len(named)
        steps = [step for step in steps if step not in mine + pruned + named]
        listed.append((files.height, files["size_bytes"].sum()))
        read.append((chosen.height, chosen["row_count"].sum(), chosen["size_bytes"].sum()))
    assert not steps
    assert all(0 <= step.after <= step.before for step in told.steps)
    assert (told.files_read, told.rows_read, told.bytes_read) == tuple(map(sum, zip(*read, strict=True)))
    assert told.files_total == sum(count for count, _ in listed)
    assert told.bytes_total is None or told.bytes_total == sum(size for _, size in listed)
    assert told.snapshot_id == asked.snapshots()["snapshot_id"].max()
    assert str(told)
    assert told._repr_html_().startswith("<table>")


def test_a_partition_is_asked_for_once() -> None:
    asked: list[list[bytes]] = []

    def keep(rows: pa.BinaryArray) -> np.ndarray:
        asked.append(rows.to_pylist())
        return np.array([row in (b"a", b"c") for row in rows.to_pylist()])

    known = _memoize_partition_filter(keep)
    for rows, wanted in (("abca", [1, 0, 1, 1]), ("bb", [0, 0]), ("ca", [1, 1]), ("", []), ("ad", [1, 0]), ("da", [0, 1]), ("b", [0])):
        assert known(pa.array([row.encode() for row in rows], pa.binary())).tolist() == [bool(one) for one in wanted]
    assert [row for row in asked if row] == [[b"a", b"b", b"c"], [b"a", b"d"], [b"b"]]
