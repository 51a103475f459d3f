"""File indexes in files of their own: read once, asked together, forgotten when others need the room, and never another answer than without them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

import lakekit as lk
from lakekit.errors import Corrupt, LakekitError
from lakekit.predicate import Leaf
from lakekit.read import file_index_pruning, planner, time_travel
from lakekit.runtime import LRUCache
from lakekit.storage.local import LocalStorage
from spec_tests.laws.test_lookups import FILES, OPTIONS, found, rows

if TYPE_CHECKING:
    from pathlib import Path

    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries

OUTSIDE = OPTIONS | {"file-index.in-manifest-threshold": "1 b"}


def made(folder: Path, **options: str) -> lk.Table:
    table = lk.create(folder, rows(0).schema, options=OUTSIDE | {name.replace("_", "."): value for name, value in options.items()})
    for file in range(FILES):
        table.append(rows(file))
    return table


def live(handle: TableContext) -> ManifestEntries:
    snapshot = time_travel.resolve_position(handle, None).snapshot
    assert snapshot is not None
    return planner.load_live_entries(handle, snapshot)


@pytest.fixture
def indexes_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The index files that are read from now on."""
    paths: list[str] = []
    read = LocalStorage.read

    def reading(self: LocalStorage, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if path.endswith(".index"):
            paths.append(path)
        return read(self, path, offset, length)

    monkeypatch.setattr(LocalStorage, "read", reading)
    return paths


def test_each_index_file_is_read_once(tmp_path: Path, indexes_read: list[str]) -> None:
    table = made(tmp_path / "t")
    for number in (707, 1, 808, 707):
        assert found(table, number) == [f"{number % 100}-{number}"] * 2
    assert found(table, 720) == []
    assert len(indexes_read) == len(set(indexes_read)) == FILES
    table.append(rows(FILES))
    assert found(table, 712) == ["12-712"] * 2
    assert found(lk.open(tmp_path / "t"), 312) == ["12-312"] * 2
    assert len(indexes_read) == len(set(indexes_read)) == FILES + 1


def test_files_are_left_out_and_counted(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    for number, left in ((707, 1), (720, 0), (-1, FILES), (303, 1), (5000, FILES)):
        explained = table.explain(pl.col("k") == number)
        assert explained.files_read == left
        assert [step.after for step in explained.steps if step.why == "file index"] == [left] * (left < FILES or number in (-1, 5000))


def test_many_small_reads_are_joined(tmp_path: Path, indexes_read: list[str]) -> None:
    table = made(tmp_path / "t")
    assert found(table, 707) == ["7-707"] * 2
    shelf = table._context().runtime.index_cache
    for file in range(FILES, FILES + 12):
        table.append(rows(file))
        assert found(table, 700 + file) == [f"{file}-{700 + file}"] * 2
        entries = live(table._context())
        lots = file_index_pruning.load_batches(table._context(), entries, np.arange(len(entries)))
        assert len(lots) <= 9
        assert sorted(np.concatenate([lot.positions for lot in lots]).tolist()) == list(range(len(entries)))
    assert len(indexes_read) == FILES + 12
    assert shelf.size_bytes < shelf.budget_bytes


def test_what_does_not_fit_is_asked_one_by_one(tmp_path: Path, indexes_read: list[str]) -> None:
    table = made(tmp_path / "t")
    handle = table._context()
    size = sum(path.stat().st_size for path in (tmp_path / "t" / "bucket-0").glob("*.index"))
    for budget in (0, 1000, size, 2 * size):
        runtime = replace(handle.runtime, index_cache=LRUCache(budget), metadata_cache=LRUCache(1 << 20))
        small = replace(handle, runtime=runtime)
        entries = live(small)
        for number in (707, 303, 720):
            said = file_index_pruning.evaluate_file_indexes(small, entries, np.arange(len(entries)), Leaf("k", "=", (number,)))
            assert len(said.no_match) == FILES - (number != 720)
            assert all(list(hit) == [number // 100 + 1, number // 100 + 23] for hit in said.matching_rows.values())
        assert runtime.index_cache.size_bytes <= budget
    assert len(indexes_read) > FILES


def test_a_damaged_index_is_named(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    path = sorted((tmp_path / "t" / "bucket-0").glob("*.index"))[3]
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    with pytest.raises(Corrupt, match=path.name):
        found(table, 707)
    path.unlink()
    table = lk.open(tmp_path / "t")
    fresh = replace(table._context(), runtime=replace(table._context().runtime, index_cache=LRUCache(1 << 20), metadata_cache=LRUCache(1 << 20)))
    entries = live(fresh)
    with pytest.raises(LakekitError, match=path.name):
        file_index_pruning.evaluate_file_indexes(fresh, entries, np.arange(len(entries)), Leaf("k", "=", (707,)))


def test_sums_with_a_condition_read_each_index_file_once(tmp_path: Path, indexes_read: list[str]) -> None:
    table = lk.create(tmp_path / "t", rows(0).schema, options=OUTSIDE | {"file-index.bsi.columns": "k"})
    for file in range(FILES):
        table.append(rows(file))
    plain = table.with_options({"file-index.read.enabled": "false"})
    for low in (0, 700, 3000):
        asked, where = (pl.col("k").sum(), pl.len()), pl.col("k").is_between(low, 4000)
        assert table.aggregate(*asked, where=where).equals(plain.scan().filter(where).select(asked).collect())
    assert len(indexes_read) == len(set(indexes_read)) == FILES


def test_sums_look_at_heads_once_where_no_option_names_an_index_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t")
    lengths: list[int] = []
    read = LocalStorage.read

    def reading(self: LocalStorage, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = read(self, path, offset, length)
        if path.endswith(".index"):
            lengths.append(-1 if length is None else length)
        return data

    monkeypatch.setattr(LocalStorage, "read", reading)
    asked = (pl.col("k").sum(), pl.col("k").max().alias("most"))
    expected = table.scan().select(asked).collect()
    assert [table.aggregate(*asked).equals(expected) for _ in range(3)] == [True] * 3
    assert len(lengths) == FILES
    assert all(0 < length <= 4096 for length in lengths)
    table.append(rows(FILES))
    assert table.aggregate(*asked).equals(table.scan().select(asked).collect())
    assert len(lengths) == FILES + 1


def test_sums_find_an_index_that_no_option_names(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.with_options({"file-index.bsi.columns": "k"}).rewrite_file_index()
    table.append(rows(FILES))  # which has none
    for _ in range(2):
        assert table.explain(aggregates=[pl.col("k").sum()]).files_read == 1
        assert table.aggregate(pl.col("k").sum()).equals(table.scan().select(pl.col("k").sum()).collect())


def test_a_damaged_index_that_a_sum_asks_is_named(tmp_path: Path) -> None:
    table = lk.create(tmp_path / "t", rows(0).schema, options=OUTSIDE | {"file-index.bsi.columns": "k"})
    for file in range(3):
        table.append(rows(file))
    path = sorted((tmp_path / "t" / "bucket-0").glob("*.index"))[1]
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(Corrupt, match=path.name):
        table.aggregate(pl.col("k").sum(), where=pl.col("k") > 7)


def test_threads_ask_at_once(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: found(table, number), [100 * (i % 20) + i % FILES for i in range(64)]))
    assert answers == [[f"{i % FILES}-{100 * (i % 20) + i % FILES}"] * 2 for i in range(64)]


def test_partitions_are_asked_for_their_own(tmp_path: Path, indexes_read: list[str]) -> None:
    schema = {"p": pl.Int32, "k": pl.Int32, "v": pl.String}
    table = lk.create(tmp_path / "t", schema, partition_keys=["p"], options=OUTSIDE)
    for file in range(FILES):
        table.append(rows(file).select(pl.lit(file % 4, pl.Int32).alias("p"), "k", "v"))
    assert table.scan().filter(pl.col("p") == 3).collect().height == 3 * rows(0).height
    assert indexes_read == []
    for number in (707, 303, 707):
        own = number % 100 % 4
        assert table.scan().filter((pl.col("p") == own) & (pl.col("k") == number)).collect().height == 2
        assert table.scan().filter((pl.col("p") == (own + 1) % 4) & (pl.col("k") == number)).collect().height == 0
    assert len(indexes_read) == len(set(indexes_read)) == FILES // 2
    assert found(table, 808) == ["8-808"] * 2
    assert len(indexes_read) == len(set(indexes_read)) == FILES


@given(data=st.data())
def test_answers_are_those_without_indexes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Tables whose files bring their indexes inside, outside or not at all, some of an older schema, after any question."""
    kinds = {"bitmap": "k,s", "bloom-filter": "s", "range-bitmap": "k", "bsi": "n"}
    folder = tmp_path_factory.mktemp("t")
    table = lk.create(folder / "t", {"k": pl.Int32, "s": pl.String, "n": pl.Int64}, options={"bucket": "-1", "write-only": "true"})
    small = st.integers(-3, 3)
    texts = st.sampled_from(["", "a", "b", "ü", "long" * 200])
    for _ in range(data.draw(st.integers(1, 6))):
        chosen = data.draw(st.lists(st.sampled_from(sorted(kinds)), unique=True))
        given_options = {f"file-index.{kind}.columns": kinds[kind] for kind in chosen}
        given_options |= {"file-index.bloom-filter.s.items": "50"} if "bloom-filter" in chosen else {}
        threshold = data.draw(st.sampled_from(["1 b", "60 b", "1 mb"]))
        frame = data.draw(st.lists(st.tuples(small | st.none(), texts | st.none(), small | st.none()), min_size=1, max_size=12))
        names = table.scan().collect_schema().names()
        written = pl.DataFrame(frame, schema={names[0]: pl.Int32, names[1]: pl.String, names[2]: pl.Int64}, orient="row")
        indexed = given_options if names == ["k", "s", "n"] else {}
        table.with_options(indexed | {"file-index.in-manifest-threshold": threshold}).append(written)
        if names == ["k", "s", "n"] and data.draw(st.integers(0, 5)) == 0:
            table.alter(lk.rename_column("k", "kk"))
    first, second, third = table.scan().collect_schema().names()
    plain = table.with_options({"file-index.read.enabled": "false"})
    for _ in range(data.draw(st.integers(1, 8))):
        number, text = data.draw(small), data.draw(texts)
        asked = data.draw(
            st.sampled_from(
                [
                    pl.col(first) == number,
                    pl.col(second) == text,
                    pl.col(third) == number,
                    pl.col(first).is_in([number, 0]),
                    (pl.col(first) == number) & (pl.col(second) == text),
                    (pl.col(first) == number) | (pl.col(third) > number),
                    pl.col(first) >= number,
                    pl.col(second).is_null(),
                    pl.col(first) != number,
                ]
            )
        )
        assert table.scan().filter(asked).collect().equals(plain.scan().filter(asked).collect())
        assert table.explain(asked).files_read <= plain.explain(asked).files_read
