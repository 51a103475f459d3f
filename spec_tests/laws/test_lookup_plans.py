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
from lakekit import plugins
from lakekit.model.manifest_entries import ManifestEntries
from lakekit.read import lazy, lazy_frames, lookup, peek, planner, table_scan, time_travel
from lakekit.storage.local import LocalStorage
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
ROUNDS = 4
"""Memory is made by the second question or the third."""


def named(table: lk.Table, asked: pl.Expr, *, counted: bool) -> list[str]:
    """The files that a plan reads."""
    handle = table.handle()
    source = table_scan.scan(handle)
    condition, _ = lazy.condition_of(lazy.filters_of(asked, source.schema()), handle.schema)
    found = planner.plan_read(handle, time_travel.locate(handle), condition, counted=counted)
    return found.entries.take(found.chosen).column("file_name").to_pylist()


def remembered(table: lk.Table, asked: pl.Expr) -> bool:
    handle = table.handle()
    condition, _ = lazy.condition_of(lazy.filters_of(asked, table_scan.scan(handle).schema()), handle.schema)
    snapshot = time_travel.locate(handle).snapshot
    assert snapshot is not None
    return lookup.files_containing(handle, planner.load_live_entries(handle, snapshot), condition) is not None


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
@given(case=cases(), many=st.booleans(), peeks=st.booleans(), keeps=st.booleans())
def test_a_lookup_reads_the_files_that_every_step_leaves(case: dict[str, Any], many: bool, peeks: bool, keeps: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        if peeks:
            patched.setattr(peek, "LEAST_BYTES", 0)
        if keeps:
            patched.setattr(lazy_frames, "FEW_OF", 0)
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
    every[1] += 1
    for _ in range(ROUNDS):
        assert [table.scan().filter(one).collect().height for one in asked] == every
    assert remembered(table, asked[0]), "indexes beside files lie in two stretches of bytes now"
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


def filtered(folder: Path, **options: str) -> lk.Table:
    """A table of twelve files, the filter of each 120 kB beside it: two values in one file each, two in all."""
    more = {"file-index.bloom-filter.columns": "k,s", "file-index.bloom-filter.k.items": "100000", "file-index.bloom-filter.k.fpp": "0.01"}
    table = lk.create(folder, {"k": pl.Int32(), "s": pl.String()}, options={"bucket": "-1", "write-only": "true"} | more | options)
    for at in range(12):
        table.append(pl.DataFrame({"k": [-1, at, 500], "s": ["", f"s{at}", "z"]}, schema={"k": pl.Int32, "s": pl.String}))
    return table


def test_the_first_question_reads_a_few_bytes_of_big_filters_and_the_second_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filtered(tmp_path / "t", **{"file-index.bloom-filter.s.items": "100"})
    sizes, read = [path.stat().st_size for path in (tmp_path / "t").rglob("*.index")], LocalStorage.read
    assert min(sizes) > peek.LEAST_BYTES
    counted: list[int] = []

    def counting(self: LocalStorage, path: str, offset: int = 0, length: int | None = None) -> bytes:
        found = read(self, path, offset, length)
        if path.endswith(".index"):
            counted.append(len(found))
        return found

    monkeypatch.setattr(LocalStorage, "read", counting)

    def bytes_read(asked: pl.Expr) -> tuple[int, list[int]]:
        counted.clear()
        return table.scan().filter(asked).collect().height, [*counted]

    height, first = bytes_read(pl.col("k") == 7)
    assert height == 1
    assert sum(first) < 12 * (peek.HEAD_BYTES + 20) + max(sizes), "eleven are ruled out by a bit, the one that is left is read"
    height, second = bytes_read(pl.col("k").is_in([3, 4]))
    assert (height, len(second)) == (2, 11), "the one that was left is in memory"
    assert sum(second) == sum(sizes) - max(sizes)
    assert bytes_read((pl.col("k") == 9) & (pl.col("s") == "s9")) == (1, [])
    table.append(pl.DataFrame({"k": [7], "s": ["s7"]}, schema={"k": pl.Int32, "s": pl.String}))
    height, third = bytes_read(pl.col("k") == 7)
    assert (height, len(third)) == (2, 1), "of the old files everything is known"


def test_what_tells_of_a_lookup_is_remembered_of_indexes_in_several_places(tmp_path: Path) -> None:
    """One filter is read by the question that a few bytes of the others answered, those by the second, and one more comes with each commit."""
    table = filtered(tmp_path / "t")
    for count in range(2, 6):
        for _ in range(ROUNDS):
            found = [table.scan().filter(pl.col("k") == number).collect().height for number in (7, 3, 800, -1)]
            assert found == [count - 1, 1, 0, 10 + count]
        assert remembered(table, pl.col("k") == 7)
        table.append(pl.DataFrame({"k": [-1, 7], "s": ["", "s7"]}, schema={"k": pl.Int32, "s": pl.String}))
    inside = table.with_options({"file-index.in-manifest-threshold": "1 mb"})
    inside.append(pl.DataFrame({"k": [-1, 801], "s": ["", "s7"]}, schema={"k": pl.Int32, "s": pl.String}))
    for _ in range(ROUNDS):
        assert [table.scan().filter(pl.col("k") == number).collect().height for number in (7, 801, 800, -1)] == [5, 1, 0, 17]
        for number in (7, 801, 800):
            assert named(table, pl.col("k") == number, counted=False) == named(table, pl.col("k") == number, counted=True)
    assert remembered(table, pl.col("k") == 7)


def test_facts_of_files_are_kept_of_lookups_in_partitions_with_rows_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where files lie is spelled for those alone that are read; what was deleted since is gone."""
    options = {"bucket": "-1", "write-only": "true", "file-index.bitmap.columns": "k", "deletion-vectors.enabled": "true"}
    table = lk.create(tmp_path / "t", {"p": pl.String(), "k": pl.Int32(), "n": pl.Int32()}, partition_keys=["p"], options=options)
    for at in range(24):
        table.append(
            pl.DataFrame({"p": [None, "a=b", "c/d"][at % 3], "k": [-1, at, at], "n": [at, at, 100]}, schema={"p": pl.String, "k": pl.Int32, "n": pl.Int32})
        )
    calls: list[int] = []
    monkeypatch.setattr(
        ManifestEntries, "files_to_read", lambda self, *, counted, read=ManifestEntries.files_to_read: calls.append(len(self)) or read(self, counted=counted)
    )
    for _ in range(ROUNDS):
        for at in (3, 4, 5, 50):
            assert table.scan().filter(pl.col("k") == at).collect().rows() == [([None, "a=b", "c/d"][at % 3], at, n) for n in (at, 100) if at < 24]
    assert remembered(table, pl.col("k") == 4)
    assert calls[-1] == 24, "all at once, by the question that asks for the second time"
    table.delete(pl.col("n") == 4)
    assert remembered(table, pl.col("k") == 4), "a vector came, and no file"
    for _ in range(ROUNDS):
        for at in (3, 4, 5):
            assert table.scan().filter(pl.col("k") == at).collect()["n"].to_list() == [n for n in (at, 100) if n != 4]
    lost = next(path for path in (tmp_path / "t").rglob("data-*.parquet") if 5 in pl.read_parquet(path)["k"])
    lost.unlink()
    with pytest.raises(FileMissing, match=lost.name):
        table.scan().filter(pl.col("k") == 5).collect()


def test_filters_of_a_partition_are_read_whole_by_who_asks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"bucket": "-1", "write-only": "true", "file-index.bloom-filter.columns": "k", "file-index.bloom-filter.k.items": "200000"}
    table = lk.create(tmp_path / "t", {"p": pl.Int32(), "k": pl.Int32()}, partition_keys=["p"], options=options)
    for at in range(16):
        table.append(pl.DataFrame({"p": [at % 2] * 3, "k": [-1, at, 500]}, schema={"p": pl.Int32, "k": pl.Int32}))
    calls: list[int] = []
    monkeypatch.setattr(peek, "rule_out_files", lambda *given, told=peek.rule_out_files: calls.append(1) or told(*given))
    for _ in range(3):
        assert table.scan().filter((pl.col("p") == 1) & (pl.col("k") == 7)).collect().height == 1
    assert len(calls) == 1


def test_a_lookup_that_is_remembered_reads_the_bucket_of_its_value_alone(tmp_path: Path) -> None:
    """What tells of all buckets is remembered after a question that names all of them; filters of other buckets seem to have the value by chance."""
    filters = {"file-index.bloom-filter.columns": "k", "file-index.bloom-filter.k.items": "4", "file-index.bloom-filter.k.fpp": "0.5"}
    table = lk.create(
        tmp_path / "t", {"k": pl.Int32()}, options={"bucket": "8", "bucket-key": "k", "write-only": "true", "metadata.stats-mode": "none"} | filters
    )
    for at in range(2):
        table.append(pl.DataFrame({"k": range(40 * at, 40 * at + 40)}, schema={"k": pl.Int32}))
    for _ in range(ROUNDS):
        assert table.scan().filter(pl.col("k").is_in([*range(1000, 1030)])).collect().is_empty()
    assert remembered(table, pl.col("k") == 7)
    plain = table.with_options({"file-index.read.enabled": "false"})
    for number in range(0, 100, 7):
        for asked in (pl.col("k") == number, pl.col("k").is_in([number, 3])):
            read = named(table, asked, counted=False)
            assert read == named(table, asked, counted=True)
            assert set(read) <= set(named(plain, asked, counted=False))


@pytest.mark.parametrize("asked", [pl.col("k") == 7, pl.col("s") == "s7", (pl.col("s") == "s7") & (pl.col("k") > 3), pl.col("k").is_in([7, 700])])
def test_what_a_few_bytes_tell_of_damaged_filters(tmp_path: Path, asked: pl.Expr) -> None:
    """What is lost or damaged tells nothing, and whoever reads it whole says so."""
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
        assert "rewrite_file_index(anew=True)" in str(told.value)
        hurt.write_bytes(whole[hurt])
    assert fresh(tmp_path / "t").scan().filter(asked).collect().equals(plain.scan().filter(asked).collect())


def fresh(path: Path) -> lk.Table:
    """The table with nothing kept of it."""
    shelf = lk.open(path).handle().world
    for one in (shelf.indexes, shelf.decoded):
        one.put({"what": "else"}, one.budget_bytes)
        one.put({"what": "else"}, 1)
    return lk.open(path)
