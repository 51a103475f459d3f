"""`check(deep=True)` survives what it looks for: files that end the process that decodes them are findings, pipes are opened by nobody."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

import lakekit as lk
from lakekit import runtime
from lakekit.maintenance.check import child_process
from spec_tests.reliability import damaged_tables, dying_decoder
from spec_tests.reliability.children import Child
from spec_tests.reliability.located import set_sizes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def deadly(tmp_path, monkeypatch) -> Path:
    """A table of two files, of which the first ends the process that decodes it: no damage is known any more that Arrow does not survive here."""
    t = lk.create(tmp_path / "t", {"id": "BIGINT", "v": "STRING"}, options={"file.format": "orc"})
    t.append([{"id": i, "v": "x" * (i * i % 11)} for i in range(200)])
    file = damaged_tables.targets(tmp_path / "t", "data")[0]
    t.append([{"id": 99, "v": "z"}])
    monkeypatch.setenv(dying_decoder.DEADLY, str(file))
    decoder = runtime.ChildProcess("spec_tests.reliability.dying_decoder")
    monkeypatch.setattr(child_process, "_child_process", lambda: decoder)
    return file


def test_a_file_that_ends_the_process_is_a_finding(deadly):
    report = lk.open(deadly.parents[1]).check(deep=True)
    assert [problem.path for problem in report.problems] == [str(deadly)]
    assert report.problems[0].check == "data file ends the process that decodes it"
    assert lk.open(deadly.parents[1]).check(deep=True).problems == report.problems


def test_a_sound_file_is_checked_apart_and_alike(tmp_path):
    for name in ("orc append", "orc keys", "orc keys vectors"):
        t = damaged_tables.make(tmp_path / name.replace(" ", "_"), name)
        assert t.check(deep=True).ok


def test_what_is_wrong_with_rows_is_told_as_in_one_process(tmp_path, monkeypatch):
    """Files of two tables changed places: what a process apart finds is what this one finds."""
    damaged_tables.make(tmp_path / "a", "orc keys")
    other = lk.create(tmp_path / "b", damaged_tables.COLUMNS, primary_keys=["id"], options={"file.format": "orc", "bucket": "1"})
    other.upsert(damaged_tables.rows(40, 100))
    other.upsert(damaged_tables.rows(10, 135))
    for mine, theirs in zip(damaged_tables.targets(tmp_path / "a", "data"), damaged_tables.targets(tmp_path / "b", "data"), strict=True):
        shutil.copy(theirs, mine)
    found = lk.open(tmp_path / "a").check(deep=True)
    monkeypatch.setattr(child_process, "check_in_child", lambda asked, notes: False)
    assert lk.open(tmp_path / "a").check(deep=True) == found
    assert not found.ok


@pytest.mark.parametrize("name", ["orc append", "parquet append", "avro append"])
def test_a_pipe_in_the_place_of_a_file_is_opened_by_nobody(tmp_path, name):
    """Whoever opens a pipe without a writer waits for ever."""
    damaged_tables.make(tmp_path / "t", name)
    file = damaged_tables.targets(tmp_path / "t", "data")[0]
    file.unlink()
    os.mkfifo(file)
    report = lk.open(tmp_path / "t").check(deep=True)
    assert str(file) in {problem.path for problem in report.problems}
    with pytest.raises(lk.LakekitError):
        lk.open(tmp_path / "t").scan().collect()


@pytest.mark.parametrize("size", ["as it was", "nothing"])
@pytest.mark.parametrize("name", ["orc append", "parquet append", "parquet keys", "orc keys", "parquet keys vectors"])
def test_no_verb_waits_for_a_pipe_in_the_place_of_any_file(tmp_path, name, size):
    """Law: whichever file is a pipe, and whatever the manifest says of its size, each verb ends. Arrow opened the footers of level 0 of key tables."""
    if name == "parquet keys":  # one file of level 0, of whose kinds of rows the footer tells
        lk.create(tmp_path / "m", damaged_tables.COLUMNS, primary_keys=["id"], options={"bucket": "1"}).upsert(damaged_tables.rows(9))
    else:
        damaged_tables.make(tmp_path / "m", name)
    if size == "nothing":
        set_sizes(tmp_path / "m", lambda _: 0)
    pattern = "**/*" if size == "as it was" else "bucket-*/*"
    files = sorted(path.relative_to(tmp_path / "m") for path in (tmp_path / "m").glob(pattern) if path.is_file())
    with Child() as child:
        for number, file in enumerate(files):
            path = tmp_path / f"t{number}"
            shutil.copytree(tmp_path / "m", path)
            (path / file).unlink()
            os.mkfifo(path / file)
            for call in ("walk_table", "walk_deeply"):
                answer = child.ask(f"spec_tests.reliability.damaged_calls:{call}", str(path).encode())
                assert answer.end == "value", (file, call, answer)
                assert not [said for verb, said in answer.found.items() if verb != "found" and "." in said], (file, call, answer)
