"""A lookup whose files are told from memory reads the files that every step leaves, whatever the index, the type, and where indexes lie."""

from __future__ import annotations

import tempfile
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.read import lazy, lookup, plan, scan, travel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

VALUES: dict[str, tuple[Any, list[Any]]] = {
    "INT": (pl.Int32(), [-1, 0, 1, 2, 7, 500]),
    "BIGINT": (pl.Int64(), [-(2**63), -1, 0, 1, 2**40]),
    "DOUBLE": (pl.Float64(), [-0.0, 0.0, 1.5, -2.5, float("nan"), float("inf")]),
    "FLOAT": (pl.Float32(), [-0.0, 0.0, 1.5, -2.5, float("nan")]),
    "STRING": (pl.String(), ["", "a", "b", "湖", "a" * 40, "longer than a word"]),
    "BOOLEAN": (pl.Boolean(), [True, False]),
    "DATE": (pl.Date(), [date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)]),
    "TIMESTAMP(6)": (pl.Datetime("us"), [datetime(1969, 12, 31, 23), datetime(2024, 2, 29, 1, 2, 3, 4)]),  # noqa: DTZ001 - a TIMESTAMP has no zone
    "DECIMAL(10, 2)": (pl.Decimal(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("7.25")]),
}
BLOOM = ("INT", "BIGINT", "DOUBLE", "FLOAT", "STRING", "DATE", "TIMESTAMP(6)")
KINDS = {
    "bitmap": (list(VALUES), {}),
    "bitmap of version 1": (list(VALUES), {"file-index.bitmap.v.version": "1"}),
    "range-bitmap": (list(VALUES), {}),
    "bloom-filter": (BLOOM, {"file-index.bloom-filter.v.items": "4", "file-index.bloom-filter.v.fpp": "0.3"}),
    "bsi": (["INT", "BIGINT", "DATE", "TIMESTAMP(6)", "DECIMAL(10, 2)"], {}),
}
ROUNDS = 4
"""Memory is made by the second question or the third."""


def named(table: lk.Table, asked: pl.Expr, *, counted: bool) -> list[str]:
    """The files that a plan reads."""
    handle = table.handle()
    source = scan.scan(handle)
    condition, _ = lazy.condition_of(lazy.filters_of(asked, source.schema()), handle.schema)
    found = plan.plan_read(handle, travel.locate(handle), condition, counted=counted)
    return found.entries.take(found.chosen).column("file_name").to_pylist()


def remembered(table: lk.Table, asked: pl.Expr) -> bool:
    handle = table.handle()
    condition, _ = lazy.condition_of(lazy.filters_of(asked, scan.scan(handle).schema()), handle.schema)
    snapshot = travel.locate(handle).snapshot
    assert snapshot is not None
    return lookup.owners(handle, plan.live(handle, snapshot), condition) is not None


def made(folder: str, kind: str, t: str, files: Sequence[Sequence[Any]], *, beside: bool, file_format: str = "parquet") -> lk.Table:
    options = {"bucket": "-1", "write-only": "true", "file.format": file_format, "file-index.in-manifest-threshold": "1 b" if beside else "1 mb"}
    indexed = {f"file-index.{kind.partition(' ')[0]}.columns": "v"} | KINDS[kind][1]
    table = lk.create(folder, {"v": VALUES[t][0], "n": pl.Int64()}, options=options | indexed)
    for at, values in enumerate(files):
        table.append(pl.DataFrame({"v": values, "n": range(100 * at, 100 * at + len(values))}, schema={"v": VALUES[t][0], "n": pl.Int64()}, strict=False))
    return table


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(list(KINDS)))
    t = draw(st.sampled_from(KINDS[kind][0]))
    value = st.sampled_from([None, *VALUES[t][1]])
    files = draw(st.lists(st.lists(value, min_size=1, max_size=6), min_size=1, max_size=6))
    return {"kind": kind, "t": t, "files": files, "beside": draw(st.booleans()), "file_format": draw(st.sampled_from(["parquet", "orc", "avro"]))}


@settings(max_examples=40)
@given(case=cases(), many=st.booleans())
def test_a_lookup_reads_the_files_that_every_step_leaves(case: dict[str, Any], many: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = made(f"{folder}/t", **case)
        plain = table.with_options({"file-index.read.enabled": "false"})
        column, (dtype, literals) = pl.col("v"), VALUES[case["t"]]
        asked = [column.is_in([one, literals[0]]) if many else column == pl.lit(one, dtype) for one in literals]
        for _ in range(ROUNDS):
            for one in asked:
                assert named(table, one, counted=False) == named(table, one, counted=True)
                assert table.scan().filter(one).collect().sort("n").equals(plain.scan().filter(one).collect().sort("n"))


@pytest.mark.parametrize("beside", [False, True], ids=["in the entries", "beside"])
@pytest.mark.parametrize("kind", ["bitmap", "bitmap of version 1", "range-bitmap", "bloom-filter"])
def test_what_tells_of_a_lookup_is_remembered_and_forgotten(tmp_path: Path, kind: str, beside: bool) -> None:
    files = [[-1, at, 500] for at in range(0, 60, 10)]
    table = made(str(tmp_path / "t"), kind, "INT", files, beside=beside)
    asked = [pl.col("v") == number for number in (30, 10, 40, -1, 7)]
    every = [len([one for one in files if number in one]) for number in (30, 10, 40, -1, 7)]
    assert not remembered(table, asked[0])
    for _ in range(ROUNDS):
        assert [table.scan().filter(one).collect().height for one in asked] == every
    assert remembered(table, asked[0])
    assert not remembered(table, pl.col("n") == 7)
    assert not remembered(table, pl.col("v") > 7)
    assert not remembered(table.with_options({"file-index.read.enabled": "false"}), asked[0])
    shelf = table.handle().world.indexes
    shelf.put({"what": "else"}, shelf.budget_bytes)  # bytes of indexes beside files are forgotten for it; values that are listed are kept elsewhere
    assert remembered(table, asked[0]) is not (beside and kind == "bloom-filter")
    shelf.put({"what": "else"}, 1)
    for _ in range(ROUNDS):
        assert [table.scan().filter(one).collect().height for one in asked] == every
    assert remembered(table, asked[0])
    table.append(pl.DataFrame({"v": [10], "n": [1000]}, schema={"v": pl.Int32, "n": pl.Int64}))
    assert not remembered(table, asked[0])
    assert table.scan().filter(asked[1]).collect().height == 2
    table.alter(lk.rename_column("v", "w"))
    for _ in range(ROUNDS):
        assert table.scan().filter(pl.col("w") == 10).collect().height == 2
    assert not remembered(table, pl.col("w") == 10), "files of another schema call it otherwise"


@pytest.mark.parametrize(("kind", "says"), [("bitmap", None), ("range-bitmap", lk.Corrupt)])
def test_a_file_whose_values_nobody_knows_is_not_one_without_them(tmp_path: Path, kind: str, says: type[lk.LakekitError] | None) -> None:
    """However often the others were asked: a bitmap of a version nobody knows says nothing, a damaged range-bitmap is told of."""
    table = made(str(tmp_path / "t"), kind, "INT", [[-1, at, 500] for at in range(0, 60, 10)], beside=True)
    damaged = sorted((tmp_path / "t" / "bucket-0").glob("*.index"))[2]
    data = bytearray(damaged.read_bytes())
    data[int.from_bytes(data[12:16], "big")] = 0x77 if says is None else 0xFF  # where the payload begins: a version, or a length
    damaged.write_bytes(data)
    for _ in range(ROUNDS):
        for number, count in ((-1, 6), *((at, 1) for at in range(0, 60, 10))):
            asked = table.scan().filter(pl.col("v") == number)
            if says is None:
                assert asked.collect().height == count
            else:
                with pytest.raises(says, match=damaged.name):
                    asked.collect()
    assert not remembered(table, pl.col("v") == 20)
    assert table.with_options({"file-index.read.enabled": "false"}).scan().filter(pl.col("v") == -1).collect().height == 6
