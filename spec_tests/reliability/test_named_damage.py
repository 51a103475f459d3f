"""What Polars raises while lakekit itself collects: about a damaged file it is `Corrupt` with the path, about the machine or the caller's query it never is."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import lakekit as lk
from lakekit.errors import Corrupt, StorageFailed
from lakekit.format import external_reader
from spec_tests.reliability import damaged_tables
from spec_tests.reliability.test_parquet_bounds import headers


@pytest.fixture
def spoiled(tmp_path) -> tuple[lk.Table, Path]:
    """A table, and its file, of which the bytes of a page are others: what its header says is true."""
    t = damaged_tables.make(tmp_path / "t", "parquet append")
    file = damaged_tables.targets(tmp_path / "t", "data")[0]
    made = bytearray(file.read_bytes())
    for _, behind, said in headers(bytes(made)):
        made[behind : behind + said[3][1]] = b"\xff" * said[3][1]
    file.write_bytes(made)
    return t, file


CALLS = {
    "aggregate": lambda t: t.aggregate(pl.col("d").sum()),
    "aggregate where": lambda t: t.aggregate(pl.len(), where=pl.col("d") > 3),
    "delete": lambda t: t.delete(pl.col("d") > 3),
    "update": lambda t: t.update({"d": pl.col("d") + 1}, where=pl.col("d") > 3),
    "merge": lambda t: t.merge(pl.DataFrame({"id": [1]}), lk.when_matched(delete=True), on=["id"]),
    "analyze": lambda t: t.analyze(),
    "compact": lambda t: t.compact(full=True, order_by=["id"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_damaged_page_is_corrupt_with_its_path(spoiled, name):
    t, file = spoiled
    with pytest.raises(Corrupt) as wrong:
        CALLS[name](t)
    assert wrong.value.path == str(file)


def test_a_column_that_is_stored_as_another_type_is_corrupt_with_its_path(tmp_path):
    """A flipped bit in the schema of the footer makes the column one of lists."""
    t = damaged_tables.make(tmp_path / "t", "parquet append")
    file = damaged_tables.targets(tmp_path / "t", "data")[0]
    data = bytearray(file.read_bytes())
    at = data.index(b"\x02id") - 3
    assert data[at : at + 2] == b"\x25\x02"  # member 3 of the element is 1: optional
    data[at + 1] = 4  # repeated
    file.write_bytes(data)
    with pytest.raises(Corrupt, match="column id is read as Int64, the file holds List") as wrong:
        t.aggregate(pl.col("id").max())
    assert wrong.value.path == str(file)


def test_what_is_wrong_with_the_query_stays_polars_own(tmp_path):
    t = damaged_tables.make(tmp_path / "t", "parquet append")
    with pytest.raises(pl.exceptions.PolarsError):
        t.aggregate(pl.col("v").cast(pl.Int64, strict=True).sum())


@pytest.mark.parametrize(
    "wrong",
    [
        OSError(errno.EMFILE, "Too many open files"),
        OSError("Too many open files (os error 24): /t/a.parquet"),
        pl.exceptions.ComputeError("Too many open files (os error 24)"),
        pl.exceptions.PanicException("Cannot allocate memory (os error 12)"),
        pl.exceptions.PanicException('called `Result::unwrap()` on an `Err` value: Os { code: 24, kind: TooManyOpenFiles, message: "Too many open files" }'),
        pl.exceptions.PanicException("LazyLock instance has previously been poisoned"),
        OSError(errno.EACCES, "Permission denied"),
        pa.ArrowException("[errno 24] Too many open files"),
    ],
)
def test_what_the_machine_refuses_is_no_damage(wrong):
    found = external_reader.to_corrupt("/t/a.parquet", wrong, "parquet")
    assert type(found) is StorageFailed
    assert not external_reader.may_be_file_damage(wrong)


def test_a_process_without_file_handles_calls_no_file_corrupt(tmp_path):
    options = {"bucket": "1", "write-only": "true"}
    t = lk.create(tmp_path / "t", {"id": "BIGINT", "v": "STRING"}, primary_keys=["id"], options=options)
    for i in range(12):
        t.upsert([{"id": i, "v": "a"}])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = []
    highest = max(int(path.name) for path in Path("/dev/fd").iterdir())
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 64, limits[1]))
        with pytest.raises(OSError, match="Too many open files"):  # noqa: PT012 - handles are taken until none is left
            while True:
                opened.append((tmp_path / "t" / "schema" / "schema-0").open())
        for spare in range(6):
            ends = []
            for call in (lambda: t.scan().collect(), lambda: t.aggregate(pl.len(), pl.col("v").max()), lambda: t.compact(full=True)):
                try:
                    call()
                    ends.append("ok")
                except lk.LakekitError as error:
                    assert not isinstance(error, Corrupt), (spare, error)
                    ends.append(type(error).__name__)
                except (OSError, pl.exceptions.PolarsError) as error:
                    ends.append(str(error))
            opened.pop().close()
    finally:
        for one in opened:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert t.scan().collect().height == 12


STARVED = """
import os, resource, sys
import lakekit as lk, polars as pl
import lakekit.maintenance.compact
t = lk.open(sys.argv[1])
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/dev/fd"))) + 40, limits[1]))
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
try:
    pl.scan_parquet(sys.argv[2]).collect(engine="streaming")
except BaseException as wrong:
    print(type(wrong).__name__)
for one in taken:
    os.close(one)
for call in (lambda: t.compact(full=True), lambda: t.scan().collect(), lambda: t.aggregate(pl.col("v").max())):
    try:
        call()
    except BaseException as wrong:
        print(type(wrong).__name__, wrong)
print([one.problem for one in t.check(deep=True).problems])
"""


def test_a_process_whose_polars_could_not_start_calls_no_file_corrupt(tmp_path):
    """Polars' first query found no handles: from then on it says that it is poisoned, of whatever file."""
    t = lk.create(tmp_path / "t", {"id": "BIGINT", "v": "STRING"}, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    for i in range(3):
        t.upsert([{"id": i, "v": "a"}])
    file = damaged_tables.targets(tmp_path / "t", "data")[0]
    ran = subprocess.run([sys.executable, "-c", STARVED, str(tmp_path / "t"), str(file)], capture_output=True, text=True, check=True)
    assert not [word for word in ("Corrupt", "cannot be decoded") if word in ran.stdout], ran.stdout
    assert "begin another process" in ran.stdout
