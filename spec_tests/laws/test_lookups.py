"""What a lookup by file index takes, counted: files that are read and folders that are listed, indexes that are asked, entries that are copied."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lakekit as lk
from lakekit.file_index import bitmap
from lakekit.model.manifest_entries import ManifestEntries
from lakekit.read import explain
from lakekit.storage.local import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OPTIONS = {"bucket": "-1", "write-only": "true", "file-index.in-manifest-threshold": "1 mb", "file-index.bitmap.columns": "k"}
FILES = 12


def rows(file: int) -> pl.DataFrame:
    """Numbers that are in no other file, two rows each, between the same least and greatest one in every file."""
    numbers = [-1, *(100 * at + file for at in range(20)), 5000] * 2
    return pl.DataFrame({"k": numbers, "v": [f"{file}-{number}" for number in numbers]}, schema={"k": pl.Int32, "v": pl.String})


def made(folder: Path, **options: str) -> lk.Table:
    """A table of some files, of which two questions were asked."""
    table = lk.create(folder, rows(0).schema, options=OPTIONS | {name.replace("_", "."): value for name, value in options.items()})
    for file in range(FILES):
        table.append(rows(file))
    for number in (303, 203):
        assert found(table, number) == [f"3-{number}", f"3-{number}"]
    return table


def found(table: lk.Table, number: int) -> list[str]:
    return table.scan().filter(pl.col("k") == number).collect()["v"].to_list()


def counted(monkeypatch: pytest.MonkeyPatch, where: Any, *names: str) -> Counter[str]:
    """How often functions of a class or module are called from now on."""
    calls: Counter[str] = Counter()

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def one(*given: Any, **also: Any) -> Any:
            calls[name] += 1
            return function(*given, **also)

        return one

    for name in names:
        monkeypatch.setattr(where, name, counting(name, getattr(where, name)))
    return calls


def test_a_lookup_reads_and_lists_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t")
    calls = counted(monkeypatch, LocalStorage, "read", "list", "file_names")
    assert found(table, 707) == ["7-707", "7-707"]
    # the end of the one data file: schema, hint, snapshot and schema directory are those that were read last
    assert calls["read"] == 1
    assert calls["file_names"] == 0
    assert calls["list"] == 0


def test_what_was_read_last_is_asked_for_again_once_it_is_another(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    frame, folder = table.scan(), tmp_path / "t"
    newest = int(table.snapshots()["snapshot_id"][-1])
    hint, snapshot = folder / "snapshot" / "LATEST", folder / "snapshot" / f"snapshot-{newest}"
    hint.unlink()
    snapshot.unlink()
    assert frame.collect().height == table.scan().collect().height == len(rows(0)) * (FILES - 1)
    hint.write_text(str(newest - 2))  # advice that is too low is found out
    assert frame.collect().height == len(rows(0)) * (FILES - 1)
    before = (folder / "snapshot" / f"snapshot-{newest - 1}").stat()
    other = json.loads((folder / "snapshot" / f"snapshot-{newest - 2}").read_text()) | {"id": newest - 1}
    hint.write_text(str(newest - 1))
    assert frame.collect().height == len(rows(0)) * (FILES - 1)
    (folder / "snapshot" / f"snapshot-{newest - 1}").write_text(json.dumps(other))
    assert (folder / "snapshot" / f"snapshot-{newest - 1}").stat().st_mtime_ns != before.st_mtime_ns
    assert frame.collect().height == len(rows(0)) * (FILES - 2)


def test_a_schema_is_seen_whatever_the_clock_of_its_directory_says(tmp_path: Path) -> None:
    table = lk.create(tmp_path / "t", {"a": pl.Int64()}, options={"bucket": "-1"})
    directory = tmp_path / "t" / "schema"
    then = directory.stat()
    assert table.scan().collect_schema().names() == ["a"]
    lk.open(tmp_path / "t").alter(lk.add_column("b", pl.Int32()))
    os.utime(directory, ns=(then.st_atime_ns, then.st_mtime_ns))
    assert table.scan().collect_schema().names() == ["a", "b"]
    (directory / "schema-7").write_text((directory / "schema-1").read_text().replace('"id" : 1,', '"id" : 7,', 1).replace('"id":1,', '"id":7,', 1))
    assert table.schema.id == 7  # numbers may have gaps


def test_a_frame_of_a_table_that_was_dropped_says_so(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    frame = table.scan()
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(lk.TableNotFound, match="there is no such folder"):
        frame.collect()


def test_frames_are_shared_by_so_many_scans_and_no_more(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    shared = table._last_seen.shared_scan
    assert shared is not None
    for left in (1, 0, -1):  # threads that count it down at once may leave less than none
        shared.scans_left = left
        assert (table.scan() is shared.frame) is (left == 1)
        table._last_seen.shared_scan = shared
    assert found(table, 707) == ["7-707", "7-707"]


@pytest.mark.parametrize(("kind", "version"), [("bitmap", "1"), ("bitmap", "2"), ("range-bitmap", "1")])
def test_texts_and_numbers_are_looked_up(tmp_path: Path, kind: str, version: str) -> None:
    versions = {f"file-index.bitmap.{column}.version": version for column in ("k", "v")} if kind == "bitmap" else {}
    options = {name: value for name, value in OPTIONS.items() if "columns" not in name} | {f"file-index.{kind}.columns": "k,v"} | versions
    table = lk.create(tmp_path / "t", rows(0).schema, options=options)
    for file in range(FILES):
        table.append(rows(file).with_columns(v=pl.concat_str(pl.lit("湖"), pl.col("k").cast(pl.String))))
    for _ in range(2):
        for number, files in ((707, 1), (1503, 1), (1815, 0), (-1, FILES)):
            for asked in (pl.col("k") == number, pl.col("v") == f"湖{number}", pl.col("v").is_in([f"湖{number}", "nobody"])):
                assert table.scan().filter(asked).collect()["k"].to_list() == [number] * (2 * files)
                assert table.explain(asked).files_read == files


@pytest.mark.parametrize("also", ["", "bitmap"])
def test_a_filter_rules_files_out_alone_and_beside_another_index(tmp_path: Path, also: str) -> None:
    options = {name: value for name, value in OPTIONS.items() if "columns" not in name}
    options |= {"file-index.bloom-filter.columns": "k", "file-index.bloom-filter.k.items": "100", "file-index.bloom-filter.k.fpp": "0.0001"}
    table = lk.create(tmp_path / "t", rows(0).schema, options=options | ({f"file-index.{also}.columns": "k"} if also else {}))
    for file in range(FILES):
        table.append(rows(file))
    for number in (303, 707):
        assert found(table, number) == [f"{number % 100}-{number}"] * 2
        assert table.explain(pl.col("k") == number).files_read == 1
    assert found(table, 720) == []
    assert len(found(table, -1)) == 2 * FILES
    assert table.scan().filter((pl.col("k") == 707) & (pl.col("v") == "7-707")).collect().height == 2


def test_another_commit_is_seen_by_the_next_lookup(tmp_path: Path) -> None:
    table, other = made(tmp_path / "t"), lk.open(tmp_path / "t")
    asked = table.scan().filter(pl.col("k") == 707)
    assert asked.collect().height == 2
    other.append(rows(7))
    assert asked.collect().height == len(found(table, 707)) == 4
    other.delete(pl.col("k") == 707)
    assert asked.collect().height == len(found(table, 707)) == 0
    assert table.scan(at=FILES).filter(pl.col("k") == 707).collect().height == 2
    other.alter(lk.rename_column("v", "w"))
    other.append(rows(7).rename({"v": "w"}))
    assert table.scan().filter(pl.col("k") == 707).collect()["w"].to_list() == ["7-707", "7-707"]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_rows_that_an_index_names_are_read_from_every_format(tmp_path: Path, file_format: str) -> None:
    table = made(tmp_path / "t", file_format=file_format)
    assert found(table, 707) == ["7-707", "7-707"]
    assert table.explain(pl.col("k") == 707).files_read == 1
    assert found(table, 708) == ["8-708", "8-708"]
    assert found(table, 720) == []


def test_rows_are_asked_for_beside_deletion_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t", **{"deletion-vectors_enabled": "true"})
    table.delete(pl.col("v") == "7-7")
    table.delete((pl.col("k") == 707) & (pl.col("v") == "7-707"))
    for _ in range(2):
        assert found(table, 607) == ["7-607", "7-607"]
    calls = counted(monkeypatch, bitmap, "rows")
    assert found(table, 707) == found(table, 7) == []
    assert found(table, 807) == ["7-807", "7-807"]
    assert calls["rows"]


def test_of_two_conditions_the_rows_say_that_no_file_has_both(tmp_path: Path) -> None:
    table = lk.create(tmp_path / "t", {"k": pl.Int32, "n": pl.Int32}, options=OPTIONS | {"file-index.bitmap.columns": "k,n"})
    for file in range(4):
        table.append(pl.DataFrame({"k": [-1, file, 10 + file, 99], "n": [-1, 10 + file, file, 99]}, schema={"k": pl.Int32, "n": pl.Int32}))
    for _ in range(3):
        assert table.explain((pl.col("k") == 2) & (pl.col("n") == 12)).files_read == 1
        assert table.explain((pl.col("k") == 2) & (pl.col("n") == 2)).files_read == 0
        assert table.explain((pl.col("k") == 2) & (pl.col("n") == 99)).files_read == 0


def test_files_that_bounds_leave_out_are_not_copied_with_their_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t")
    table.append(pl.DataFrame({"k": [6000], "v": ["last"]}, schema=rows(0).schema))
    table.append(rows(FILES))
    for _ in range(2):
        assert found(table, 303) == ["3-303", "3-303"]
    taken: list[int] = []
    take = ManifestEntries.take
    monkeypatch.setattr(ManifestEntries, "take", lambda self, indices: taken.append(len(indices)) or take(self, indices))
    explained = table.explain(pl.col("k") == 404)
    assert [(step.what, step.before, step.after) for step in explained.steps] == [("files", 14, 13), ("files", 13, 1), ("rows", 44, 2)]
    assert taken == []
    assert table.explain(pl.col("k") == 5000).files_read == 13
    assert taken == [13]


def test_rows_that_indexes_name_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where statistics say how many to expect; a row that two indexes name is one row."""
    table = lk.create(tmp_path / "t", {"k": pl.Int32, "n": pl.Int32}, options=OPTIONS | {"file-index.bitmap.columns": "k,n"})
    for _ in range(3):
        table.append(pl.DataFrame({"k": [1, 2, 3, 4, 2], "n": [1, 2, 9, 4, 7]}, schema={"k": pl.Int32, "n": pl.Int32}))
    table.analyze()
    calls = counted(monkeypatch, explain, "_index_row_step")
    for asked, rows in (((pl.col("k") == 2) | (pl.col("n") == 2), 6), ((pl.col("k") == 2) & (pl.col("n") == 7), 3), (pl.col("k").is_in([3, 3, 1]), 6)):
        calls.clear()
        explained = table.explain(asked)
        assert [(step.before, step.after) for step in explained.steps if step.what == "rows"] == [(15, rows)]
        assert explained.rows_expected is not None
        assert explained.rows_expected <= rows == table.scan().filter(asked).collect().height
        assert calls["_index_row_step"] == 1
