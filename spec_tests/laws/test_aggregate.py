"""Whatever a table has been through, what `aggregate` says is what Polars computes of its rows: from indexes, from files, from both."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from polars.testing import assert_frame_equal
from pyroaring import BitMap

import lakekit as lk
from lakekit import plugins
from lakekit.errors import Corrupt, Unsupported
from lakekit.file_index import bsi, container, evaluator
from lakekit.file_index.bsi import ColumnTotals
from lakekit.file_index.evaluator import IndexedFile
from lakekit.metadata.table_context import open_context
from lakekit.predicate import FALSE, TRUE, And, Or
from lakekit.read import bounds_cache
from lakekit.runtime import Runtime
from lakekit.types import TIMESTAMPS, arrow, parse
from lakekit.types.arrow import from_unscaled
from spec_tests.laws.test_indexes import OPTIONS, TYPES, leaves, literal, matches, values
from spec_tests.query_strategies import conditions

if TYPE_CHECKING:
    from collections.abc import Iterator

FEW = settings(
    max_examples=max(10, settings.default.max_examples // 3),
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
COLUMNS = {
    "p": "INT NOT NULL",
    "k": "INT NOT NULL",
    "a": "TINYINT",
    "b": "INT",
    "c": "BIGINT",
    "d": "DECIMAL(9, 2)",
    "w": "DECIMAL(25, 0)",
    "day": "DATE",
    "t": "TIME(3)",
    "m": "TIMESTAMP(3)",
    "u": "TIMESTAMP_LTZ(6)",
    "n": "TIMESTAMP(9)",
    "s": "STRING",
}
BSI, BITMAP = "file-index.bsi.columns", "file-index.bitmap.columns"
INDEXED = tuple(name for name in COLUMNS if name not in "ps")
MOMENT = datetime(2020, 1, 1)  # noqa: DTZ001 - the wall clock of TIMESTAMP has no zone
VALUES = {
    "a": st.sampled_from([-128, 127, 0]),
    "b": st.sampled_from([1 - 2**31, 2**31 - 1, 7]),
    "c": st.sampled_from([1 - 2**63, 2**63 - 1, -5]),
    "d": st.integers(-999_999_999, 999_999_999).map(lambda n: from_unscaled(n, 2)),
    "w": st.sampled_from([Decimal(10**18), Decimal(-3)]),
    "day": st.integers(-5, 5).map(lambda n: date(1970, 1, 1) + timedelta(n)),
    "t": st.sampled_from([time(), time(23, 59, 59, 999_000)]),
    "m": st.integers(-3, 3).map(lambda n: MOMENT + timedelta(milliseconds=n)),
    "u": st.integers(-3, 3).map(lambda n: MOMENT.replace(tzinfo=UTC) + timedelta(microseconds=n)),
    "n": st.integers(-3, 3).map(lambda n: MOMENT + timedelta(microseconds=n)),
    "s": st.sampled_from(["a", "b", "湖"]),
}
ROWS = st.lists(
    st.fixed_dictionaries({"p": st.integers(0, 1), "k": st.integers(0, 9), **{name: st.none() | some for name, some in VALUES.items()}}), min_size=1, max_size=6
)
STEPS = st.lists(st.sampled_from(["write", "write", "delete", "delete", "compact", "index", "unindex", "rename", "widen", "add", "again"]), max_size=5)


@contextmanager
def drawn(data: st.DataObject) -> Iterator[lk.Table]:
    """A table after some writes and changes."""
    keyed = data.draw(st.booleans())
    options = {
        "bucket": "2" if keyed else "-1",
        "file.format": data.draw(st.sampled_from(["parquet", "parquet", "orc"])),
        "deletion-vectors.enabled": data.draw(st.sampled_from(["true", "false"])),
        "file-index.in-manifest-threshold": data.draw(st.sampled_from(["1 b", "1 mb"])),
        **data.draw(st.sampled_from([{}, *[{BSI: ",".join(INDEXED), BITMAP: "s"}] * 3])),
    }
    with tempfile.TemporaryDirectory() as folder:
        table = lk.create(f"{folder}/t", COLUMNS, primary_keys=["p", "k"] if keyed else (), partition_keys=["p"], options=options)
        for step in ("write", *data.draw(STEPS)):
            changed(data, table, step)
        yield table


def changed(data: st.DataObject, table: lk.Table, step: str) -> None:
    there = {field.id: field.name for field in table.schema.fields}
    unindexed = (lk.reset_option(BSI), lk.reset_option(BITMAP))
    match step:
        case "write":
            table.append([{there[at]: row[name] for at, name in enumerate(COLUMNS) if at in there} for row in data.draw(ROWS)])
        case "delete" if table.options.get("deletion-vectors.enabled") == "true" or not table.primary_keys:
            table.delete(pl.col("k") < data.draw(st.integers(0, 9)))
        case "compact":
            table.compact(full=True)
        case "index":
            table.alter(lk.set_option(BSI, ",".join(able(table))), lk.set_option(BITMAP, "s"))
            table.rewrite_file_index()
        case "unindex":
            table.alter(*unindexed)
        case "rename" if "c" in there.values():
            table.alter(*unindexed, lk.rename_column("c", "renamed"))
        case "widen" if not str(table.schema.fields[3].type).startswith("BIGINT"):
            table.alter(*unindexed, lk.update_type("b", "BIGINT"))
        case "add" if "added" not in there.values():
            table.alter(lk.add_column("added", "INT"))
        case "again" if "c" in there.values():  # another column of the name
            table.alter(*unindexed, lk.drop_column("c"), lk.add_column("c", "SMALLINT"))


def able(table: lk.Table) -> list[str]:
    """The columns of a table that a bsi index takes."""
    return [field.name for field in table.schema.fields if field.name not in "ps"]


def aggregates(table: lk.Table) -> list[pl.Expr]:
    """All that indexes may know of a table."""
    every = [name for name in able(table) if name != "n"]
    summed = [name for name in every if str(table.schema.to_polars()[name]).startswith(("Int", "Decimal"))]
    return [
        *(pl.col(name).sum().alias(f"sum of {name}") for name in summed),
        *(pl.col(name).count().alias(f"count of {name}") for name in every),
        *(pl.col(name).len().alias(f"len of {name}") for name in every),
        pl.col(every).min().name.prefix("min of "),
        pl.col(every).max().name.prefix("max of "),
        pl.exclude("p", "s", "n").null_count().name.prefix("nulls of "),
        pl.len(),
    ]


@pytest.mark.long
@FEW
@given(st.data())
def test_aggregates_are_those_of_the_rows(data):
    with drawn(data) as table:
        rows, every = table.scan().collect(), aggregates(table)
        indexed = data.draw(st.sampled_from([pl.col("p") == 1, pl.col("k") > 3, pl.col("s") == "a", pl.col("s") != "a", pl.col("d").is_not_null()]))
        wheres = [None, indexed, *([data.draw(conditions(rows)), indexed & data.draw(conditions(rows))] if rows.height else [])]
        for where in wheres:
            scan = table.scan() if where is None else table.scan().filter(where)
            expected = scan.select(every).collect()
            assert_frame_equal(table.aggregate(*every, where=where), expected)
            assert_frame_equal(table.aggregate(*every[::-1], where=where), expected, check_column_order=False)  # of what was said before
        lone = data.draw(st.sampled_from([every[-1], pl.col("n").max(), pl.col("k") + 1, pl.col("k").mean(), pl.col("s").min(), pl.col("k").unique().sum()]))
        assert_frame_equal(table.aggregate(lone, where=indexed), table.scan().filter(indexed).select(lone).collect(), check_row_order=False)


# ---- what one index says ------------------------------------------------------------------------------------------------------------------------------

SAID = [one for one in map(parse, TYPES) if one.root in bsi.TYPES]


@pytest.mark.long
@given(st.data())
def test_figures_are_those_of_the_column(data):
    t = data.draw(st.sampled_from([one for one in SAID if evaluator.is_exact_type(one)]))
    column = data.draw(st.lists(st.none() | values(t), max_size=12))
    payload = bsi.build(arrow.to_arrow_array(column, t), t, {})
    rows = data.draw(st.none() | st.sets(st.integers(0, len(column))).map(BitMap))
    keys = [container.equal_keys(literal(value, t), t)[0] for i, value in enumerate(column) if value is not None and (rows is None or i in rows)]
    wanted = ColumnTotals(len(keys), sum(keys), min(keys, default=None), max(keys, default=None))
    assert bsi.compute_totals(payload, len(column), rows) == wanted
    assert bsi.compute_totals(payload, len(column), rows, with_bounds=False) == ColumnTotals(len(keys), sum(keys), None, None)


@pytest.mark.long
@given(st.data())
def test_rows_that_are_certain_are_those_that_match(data):
    types = {"a": data.draw(st.sampled_from(list(map(parse, TYPES)))), "b": parse("INT"), "c": parse("STRING")}
    count = data.draw(st.integers(0, 10))
    columns = {name: data.draw(st.lists(st.none() | values(t), min_size=count, max_size=count)) for name, t in types.items()}
    indexes: dict[str, dict[str, bytes | None]] = {}
    for name, t in types.items():
        for kind in data.draw(st.sets(st.sampled_from(sorted(OPTIONS)))):
            index: Any = plugins.load("file_index", kind)
            if t.root in index.TYPES and not (kind == "range-bitmap" and (t.precision or 0) > 6 and t.root in TIMESTAMPS):
                indexes.setdefault(name, {})[kind] = index.build(arrow.to_arrow_array(columns[name], t), t, {"items": "9"})
    file = IndexedFile(container.encode_container(indexes), types, count, None)
    leaf, literals = data.draw(leaves(types["a"], "a"))
    other, others = data.draw(leaves(types["b"], "b"))
    mine = {i for i, value in enumerate(columns["a"]) if matches(value, leaf.op, literals)}
    theirs = {i for i, value in enumerate(columns["b"]) if matches(value, other.op, others)}
    for predicate, wanted in ((leaf, mine), (And((leaf, other)), mine & theirs), (Or((leaf, other)), mine | theirs), (TRUE, set(range(count))), (FALSE, set())):
        found = evaluator.select_rows(file, predicate)
        assert found is None or set(found) == wanted


@pytest.mark.long
@given(st.data())
def test_what_was_said_of_files_is_recalled(data):
    """File by file, in any order, asked for anew and in part: as if each had been asked now."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds_cache, "_MAX_PATHS", data.draw(st.sampled_from([3, 1000])))
        lk.create(f"{folder}/t", {"a": "BIGINT", "b": "INT"})
        handle = replace(open_context(f"{folder}/t"), runtime=Runtime())
        number = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
        lists = st.lists(number, max_size=4)
        files = {f"f{i}": {name: data.draw(lists) for name in ("a", "b")} for i in range(data.draw(st.integers(1, 7)))}
        for _ in range(data.draw(st.integers(1, 5))):
            paths = data.draw(st.lists(st.sampled_from(sorted(files)), unique=True, min_size=1))
            wanted = data.draw(st.dictionaries(st.sampled_from("ab"), st.booleans(), min_size=1))
            whole = np.array(data.draw(st.lists(st.booleans(), min_size=len(paths), max_size=len(paths))))
            there, found = bounds_cache.get_cached_totals(handle, wanted, paths, whole)
            assert not (there & ~whole).any()
            for name, bounded in wanted.items() if there.any() else ():
                kept = [value for path, is_there in zip(paths, there, strict=True) if is_there for value in files[path][name]]
                assert found[name] == figures_of(kept, bounded=bounded)
            said = {path: {name: figures_of(files[path][name], bounded=bounded) for name, bounded in wanted.items()} for path in paths}
            bounds_cache.cache_totals(handle, wanted, paths, {path: one for path, one in said.items() if data.draw(st.booleans())})


def figures_of(numbers: list[int], *, bounded: bool) -> ColumnTotals:
    return ColumnTotals(len(numbers), sum(numbers), min(numbers, default=None) if bounded else None, max(numbers, default=None) if bounded else None)


def test_large_columns_say_their_figures():
    generator = np.random.default_rng(7)
    for numbers in (generator.integers(-40_000, 40_000, 150_000), np.arange(150_000) // 1000, np.where(generator.random(150_000) < 0.9, 7, -900)):
        nulls = generator.random(150_000) < 0.1
        payload = bsi.build(pa.array(numbers, pa.int64(), mask=nulls), parse("BIGINT"), {})
        chosen = np.flatnonzero(generator.random(150_000) < 0.3).astype(np.uint32)
        for rows, kept in ((None, numbers[~nulls]), (BitMap(chosen), numbers[chosen][~nulls[chosen]])):
            assert bsi.compute_totals(payload, 150_000, rows) == ColumnTotals(len(kept), int(kept.sum()), int(kept.min()), int(kept.max()))


@pytest.mark.long
def test_damage_is_told_and_never_a_number():
    payload = bsi.build(pa.array([3, -1, None, 70_000] * 5000, pa.int64()), parse("BIGINT"), {})
    with pytest.raises(Corrupt, match="20001 rows wanted"):
        bsi.compute_totals(payload, 20_001)
    two = bsi.build(pa.array([7, 7], pa.int64()), parse("BIGINT"), {})
    with pytest.raises(Corrupt, match="2 rows have a value ≥ 0 and one below"):
        bsi.compute_totals(two[:5] + two[5:-1] * 2, 2)
    far = bsi.build(pa.array([None] * 70_000 + list(range(9_000)), pa.int64()), parse("BIGINT"), {})
    assert bsi.compute_totals(far, 79_000).value_sum == sum(range(9_000))
    wrong = far.replace((9_000 - 1).to_bytes(2, "little"), (9_000 - 2).to_bytes(2, "little"), 1)
    with pytest.raises(Corrupt):
        bsi.compute_totals(wrong, 79_000)
    for at in range(0, len(payload), 97):
        damaged = payload[:at] + bytes([payload[at] ^ 0x10]) + payload[at + 1 :]
        with suppress(Corrupt, Unsupported):
            bsi.compute_totals(damaged, 20_000)
