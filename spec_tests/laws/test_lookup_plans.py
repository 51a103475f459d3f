"""A lookup reads no file that bounds and indexes rule out, and every row that is there, whatever the index, the type, and where indexes lie."""

from __future__ import annotations

import tempfile
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit import plugins
from lakekit.read import planner, polars_pushdown, table_scan, time_travel
from lakekit.storage.protocol import FileMissing
from lakekit.types import parse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

VALUES: dict[str, tuple[Any, list[Any]]] = {
    "INT": (pl.Int32(), [-1, 0, 1, 2, 7, 500]),
    "BIGINT": (pl.Int64(), [-(2**62), -1, 0, 1, 2**40]),
    "DOUBLE": (pl.Float64(), [-0.0, 0.0, 1.5, -2.5, float("nan"), float("inf")]),
    "FLOAT": (pl.Float32(), [-0.0, 0.0, 1.5, -2.5, float("nan")]),
    "STRING": (pl.String(), ["", "a", "b", "湖", "a" * 40, "longer than a word"]),
    "BOOLEAN": (pl.Boolean(), [True, False]),
    "DATE": (pl.Date(), [date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)]),
    "TIMESTAMP(6)": (pl.Datetime("us"), [datetime(1969, 12, 31, 23), datetime(2024, 2, 29, 1, 2, 3, 4)]),  # noqa: DTZ001 - a TIMESTAMP has no zone
    "DECIMAL(10, 2)": (pl.Decimal(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("7.25")]),
}
KINDS = {
    "bitmap": {},
    "bitmap of version 1": {"file-index.bitmap.v.version": "1"},
    "range-bitmap": {},
    "bloom-filter": {"file-index.bloom-filter.v.items": "4", "file-index.bloom-filter.v.fpp": "0.3"},
    "bsi": {},
}
ROUNDS = 2
"""The first question reads indexes, and later ones find them in memory."""


def named(table: lk.Table, asked: pl.Expr) -> list[str]:
    """The files that a plan reads."""
    handle = table._context()
    source = table_scan.scan(handle)
    condition, _ = polars_pushdown.build_scan_filter(polars_pushdown.filters_of(asked, source.schema()), handle.schema)
    found = planner.plan_read(handle, time_travel.resolve_position(handle), condition)
    return found.entries.take(found.selected_indices).column("file_name").to_pylist()


def made(folder: str, kind: str, t: str, files: Sequence[Sequence[Any]], *, beside: bool, file_format: str = "parquet") -> lk.Table:
    options = {"bucket": "-1", "write-only": "true", "file.format": file_format, "file-index.in-manifest-threshold": "1 b" if beside else "1 mb"}
    indexed = {f"file-index.{kind.partition(' ')[0]}.columns": "v"} | KINDS[kind]
    table = lk.create(folder, {"v": VALUES[t][0], "n": pl.Int64()}, options=options | indexed)
    for at, values in enumerate(files):
        table.append(pl.DataFrame({"v": values, "n": range(100 * at, 100 * at + len(values))}, schema={"v": VALUES[t][0], "n": pl.Int64()}, strict=False))
    return table


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(list(KINDS)))
    taken: Any = plugins.load("file_index", kind.partition(" ")[0])
    t = draw(st.sampled_from([name for name in VALUES if parse(name).root in taken.TYPES]))
    value = st.sampled_from([None, *VALUES[t][1]])
    files = draw(st.lists(st.lists(value, min_size=1, max_size=6), min_size=1, max_size=6))
    return {"kind": kind, "t": t, "files": files, "beside": draw(st.booleans()), "file_format": draw(st.sampled_from(["parquet", "orc", "avro"]))}


@settings(max_examples=40)
@given(case=cases(), many=st.booleans())
def test_a_lookup_reads_the_files_that_explain_counts(case: dict[str, Any], many: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = made(f"{folder}/t", **case)
        plain = table.with_options({"file-index.read.enabled": "false"})
        column, (dtype, literals) = pl.col("v"), VALUES[case["t"]]
        asked = [column.is_in([one, literals[0]]) if many else column == pl.lit(one, dtype) for one in literals]
        for _ in range(ROUNDS):
            for one in asked:
                assert len(named(table, one)) == table.explain(one).files_read <= plain.explain(one).files_read
                assert table.scan().filter(one).collect().sort("n").equals(plain.scan().filter(one).collect().sort("n"))


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
    assert table.with_options({"file-index.read.enabled": "false"}).scan().filter(pl.col("v") == -1).collect().height == 6


def filtered(folder: Path, **options: str) -> lk.Table:
    """A table of twelve files, the filter of each 120 kB beside it: two values in one file each, two in all."""
    more = {"file-index.bloom-filter.columns": "k,s", "file-index.bloom-filter.k.items": "100000", "file-index.bloom-filter.k.fpp": "0.01"}
    table = lk.create(folder, {"k": pl.Int32(), "s": pl.String()}, options={"bucket": "-1", "write-only": "true"} | more | options)
    for at in range(12):
        table.append(pl.DataFrame({"k": [-1, at, 500], "s": ["", f"s{at}", "z"]}, schema={"k": pl.Int32, "s": pl.String}))
    return table


def test_lookups_in_partitions_with_rows_deleted(tmp_path: Path) -> None:
    """What was deleted since is gone, and a file that is lost is named."""
    options = {"bucket": "-1", "write-only": "true", "file-index.bitmap.columns": "k", "deletion-vectors.enabled": "true"}
    table = lk.create(tmp_path / "t", {"p": pl.String(), "k": pl.Int32(), "n": pl.Int32()}, partition_keys=["p"], options=options)
    for at in range(24):
        table.append(
            pl.DataFrame({"p": [None, "a=b", "c/d"][at % 3], "k": [-1, at, at], "n": [at, at, 100]}, schema={"p": pl.String, "k": pl.Int32, "n": pl.Int32})
        )
    for _ in range(ROUNDS):
        for at in (3, 4, 5, 50):
            assert table.scan().filter(pl.col("k") == at).collect().rows() == [([None, "a=b", "c/d"][at % 3], at, n) for n in (at, 100) if at < 24]
    table.delete(pl.col("n") == 4)
    for _ in range(ROUNDS):
        for at in (3, 4, 5):
            assert table.scan().filter(pl.col("k") == at).collect()["n"].to_list() == [n for n in (at, 100) if n != 4]
    lost = next(path for path in (tmp_path / "t").rglob("data-*.parquet") if 5 in pl.read_parquet(path)["k"])
    lost.unlink()
    with pytest.raises(FileMissing, match=lost.name):
        table.scan().filter(pl.col("k") == 5).collect()


def test_a_lookup_reads_the_bucket_of_its_value_alone(tmp_path: Path) -> None:
    """Filters of other buckets seem to have the value by chance."""
    filters = {"file-index.bloom-filter.columns": "k", "file-index.bloom-filter.k.items": "4", "file-index.bloom-filter.k.fpp": "0.5"}
    table = lk.create(
        tmp_path / "t", {"k": pl.Int32()}, options={"bucket": "8", "bucket-key": "k", "write-only": "true", "metadata.stats-mode": "none"} | filters
    )
    for at in range(2):
        table.append(pl.DataFrame({"k": range(40 * at, 40 * at + 40)}, schema={"k": pl.Int32}))
    for _ in range(ROUNDS):
        assert table.scan().filter(pl.col("k").is_in([*range(1000, 1030)])).collect().is_empty()
    plain = table.with_options({"file-index.read.enabled": "false"})
    for number in range(0, 100, 7):
        for asked in (pl.col("k") == number, pl.col("k").is_in([number, 3])):
            assert set(named(table, asked)) <= set(named(plain, asked))


@pytest.mark.parametrize("asked", [pl.col("k") == 7, pl.col("s") == "s7", (pl.col("s") == "s7") & (pl.col("k") > 3), pl.col("k").is_in([7, 700])])
def test_damaged_filters_are_named(tmp_path: Path, asked: pl.Expr) -> None:
    table = filtered(tmp_path / "t")
    plain = table.with_options({"file-index.read.enabled": "false"})
    paths = sorted((tmp_path / "t").rglob("*.index"))
    whole = {path: path.read_bytes() for path in paths}
    said = {path: path.with_name(path.name.partition(".parquet")[0] + ".parquet") for path in paths}
    mine = next(path for path in paths if 7 in pl.read_parquet(said[path])["k"])
    for hurt, data in ((mine, None), (mine, b""), (mine, whole[mine][:100]), (mine, b"x" * len(whole[mine]))):
        hurt.unlink() if data is None else hurt.write_bytes(data)
        with pytest.raises(lk.LakekitError, match=hurt.name) as told:
            fresh(tmp_path / "t").scan().filter(asked).collect()
        assert "rewrite_file_index(rebuild=True)" in str(told.value)
        hurt.write_bytes(whole[hurt])
    assert fresh(tmp_path / "t").scan().filter(asked).collect().equals(plain.scan().filter(asked).collect())


def fresh(path: Path) -> lk.Table:
    """The table with nothing kept of it."""
    shelf = lk.open(path)._context().runtime
    for one in (shelf.index_cache, shelf.metadata_cache):
        one.put({"what": "else"}, one.budget_bytes)
        one.put({"what": "else"}, 1)
    return lk.open(path)
