"""What cannot be written is refused by a typed error that says what to do; the table is what it was, and no file is left over.

Values and columns in all their shapes are in `laws/test_conform*.py`; calls of a storage that fail one by one in `reliability`. Here each kind of bad input
goes through a table's own door, on disk.
"""

from __future__ import annotations

import datetime as dt
import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import (
    CommitStateUnknown,
    Conflict,
    InvalidOption,
    LakekitError,
    SchemaMismatch,
    StorageFailed,
    UncommittedRows,
    Unsupported,
    ValueOutOfRange,
)
from spec_tests.longer import some

KEYED = {"k": "INT", "v": "STRING NOT NULL", "c": "VARCHAR(3)", "t": "TIME(3)", "m": "MAP<STRING, INT>", "n": "DECIMAL(5, 2)", "dt": "STRING"}
GOOD = {"k": 1, "v": "one", "c": "abc", "t": dt.time(1, 2, 3), "m": {"a": 1}, "n": Decimal("1.50"), "dt": "x"}
FORMATS = ("parquet", "orc", "avro")


def files(table):
    """Every file of a table, with its size."""
    return {str(path): path.stat().st_size for path in Path(table.location).rglob("*") if path.is_file()}


def state(table):
    """All that must not change."""
    return files(table), table.snapshots()["snapshot_id"].to_list(), table.schema.id, sorted(map(str, table.scan().collect().rows()))


def keyed(path, **options):
    given = {"bucket": 1, **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}}
    t = lk.create(path, KEYED, primary_keys=["k", "dt"], partition_keys=["dt"], options=given)
    t.upsert([GOOD])
    return t


@pytest.fixture
def table(tmp_path):
    return keyed(tmp_path / "t")


def refused(table, write, error, match):
    """The write is refused so, and nothing came of it."""
    before = state(table)
    with pytest.raises(error, match=match) as told:
        write()
    assert isinstance(told.value, LakekitError)
    assert state(table) == before
    return told.value


BAD_ROWS = {
    "a null in the key": ({"k": None}, ValueOutOfRange, "k"),
    "a null in a partition key that is part of the key": ({"dt": None}, ValueOutOfRange, "dt"),
    "a null where the column is NOT NULL": ({"v": None}, ValueOutOfRange, "v"),
    "a text for a number": ({"k": "one"}, SchemaMismatch, "k"),
    "a number that the type does not hold": ({"k": 2**31}, ValueOutOfRange, "k"),
    "a text that is too long": ({"c": "abcd"}, ValueOutOfRange, "c"),
    "a time finer than milliseconds": ({"t": dt.time(1, 2, 3, 1)}, ValueOutOfRange, "t"),
    "a decimal with more digits": ({"n": Decimal("1000.00")}, ValueOutOfRange, "n"),
    "a decimal with a longer fraction": ({"n": Decimal("1.505")}, ValueOutOfRange, "n"),
    "a key of a map twice": ({"m": [("a", 1), ("a", 2)]}, ValueOutOfRange, "m"),
    "no key of a map": ({"m": {None: 1}}, ValueOutOfRange, "m"),
    "a column nobody knows": ({"more": 1}, SchemaMismatch, "more"),
    "kinds that nobody asked for": ({"_row_kind": "-D"}, SchemaMismatch, "_row_kind"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows(table, name):
    change, error, column = BAD_ROWS[name]
    rows = [GOOD | {"k": 2}, GOOD | {"k": 3} | change]
    told = refused(table, lambda: table.upsert(rows), error, column)
    assert getattr(told, "column", column) == column
    if "more" in change or "_row_kind" in change:
        return
    refused(table, lambda: table.overwrite(rows), error, column)


def test_a_bad_row_after_many_good_ones(table):
    def frames():
        good = {name: GOOD[name] for name in ("v", "dt")}
        yield pl.DataFrame([good | {"k": k} for k in range(100)], schema_overrides={"k": pl.Int32})
        yield pl.DataFrame([good | {"k": None}], schema_overrides={"k": pl.Int32})

    refused(table, lambda: table.upsert(frames()), ValueOutOfRange, "k")
    small = table.with_options({"write-buffer-size": "1 kb", "page-size": "1 kb"})
    refused(small, lambda: small.upsert(frames()), ValueOutOfRange, "k")


@pytest.mark.parametrize("change", [{"k": None}, {"c": "abcd"}, {"late": dt.time(1, 2, 3, 1)}, {"v": None}])
def test_a_table_does_not_grow_for_rows_that_are_refused(table, change):
    rows = [GOOD | {"k": 2, "more": 1}, GOOD | {"k": 3, "more": 2} | change]
    refused(table, lambda: table.upsert(rows, merge_schema=True), ValueOutOfRange, next(iter(change)))
    refused(table, lambda: table.append(pl.DataFrame(rows, strict=False, schema_overrides={"k": pl.Int32, "n": pl.Decimal(5, 2)}).drop("m"), merge_schema=True),
            ValueOutOfRange, next(iter(change)))  # fmt: skip


@pytest.mark.parametrize(
    ("name", "values", "options"),
    [
        ("a b", [1], {"file.format": "avro"}),
        ("a b", [1], {"file.format.per.level": "5:avro"}),
        ("a b", [1], {"changelog-producer": "input", "changelog-file.format": "avro"}),
        ("x`y", [1], {"file.format": "orc"}),
        ("nothing", [{}], {}),
    ],
)
def test_a_table_does_not_grow_by_a_column_that_its_files_would_not_hold(tmp_path, name, values, options):
    """Rows without the column could not be written any more either."""
    table = lk.create(tmp_path / "t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1", **options})
    table.upsert([{"k": 1}])
    rows = pl.DataFrame({"k": pl.Series([2], dtype=pl.Int32), name: values})
    wanted = (SchemaMismatch, Unsupported), "do not hold|Avro has names|ORC quotes names"
    refused(table, lambda: table.upsert(rows, merge_schema=True), *wanted)
    refused(table, lambda: table.upsert(rows.lazy(), merge_schema=True), *wanted)


PANDAS = {
    "two columns of one name": pd.DataFrame([[1, 2]], columns=["k", "k"]),
    "values of several types in one column": pd.DataFrame({"k": [1, 2], "v": ["a", 1], "dt": ["x", "x"]}),
}


@pytest.mark.parametrize("name", PANDAS)
def test_frames_that_give_no_stream(table, name):
    refused(table, lambda: table.upsert(PANDAS[name]), SchemaMismatch, "DataFrame")


@pytest.mark.parametrize("column", ["_row_kind", "_SEQUENCE_NUMBER", "_VALUE_KIND", "rowkind"])
def test_names_of_columns_that_are_taken(tmp_path, column):
    with pytest.raises((InvalidOption, SchemaMismatch), match=column):
        lk.create(tmp_path / "t", {"k": "INT", column: "STRING"}, primary_keys=["k"])
    assert not (tmp_path / "t").exists()


@pytest.mark.long
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("key", ["STRING", "INT"])
def test_null_keys_of_maps(tmp_path, format_name, key):
    """Where a format, or the reference's writer of it, has no null key, there is none; Avro holds one among numbers, ORC any."""
    t = lk.create(tmp_path / "t", {"k": "INT", "m": f"MAP<{key}, INT>"}, options={"file.format": format_name})
    t.append([{"k": 1, "m": {}}])
    row = {"k": 2, "m": [{"key": None, "value": 5}, {"key": "a" if key == "STRING" else 1, "value": 6}]}
    if format_name == "orc" or (format_name, key) == ("avro", "INT"):
        t.append([row])
        assert t.scan().filter(pl.col("k") == 2).collect().to_dicts() == [row]
        return
    refused(t, lambda: t.append([row]), ValueOutOfRange, "null key")


@pytest.mark.long
@pytest.mark.parametrize("format_name", FORMATS)
def test_sums_that_outgrow_their_type(tmp_path, format_name):
    """Up to 18 digits sums are not held against the precision; Parquet files keep them, in ORC and Avro files the reference finds null."""
    aggregates = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    t = lk.create(tmp_path / "t", {"k": "INT", "v": "DECIMAL(5, 2)"}, primary_keys=["k"], options={"bucket": 1, "file.format": format_name, **aggregates})
    for _ in range(2):
        t.upsert([{"k": 1, "v": Decimal("999.99")}, {"k": 2, "v": Decimal("1.50")}])
    t.compact(full=True)
    found = t.scan().sort("k").select(pl.col("v").cast(pl.Decimal(9, 2), strict=False)).collect()["v"].to_list()
    assert found == [Decimal("1999.98") if format_name == "parquet" else None, Decimal("3.00")]
    assert t.check(deep=True).ok


def test_buckets_that_changed_after_rows_were_written(table):
    other = table.with_options({"bucket": "2"}) if "bucket" not in table.options else table
    other.alter(lk.set_option("bucket", "4"))
    told = refused(table, lambda: table.upsert([GOOD]), (InvalidOption, Conflict), "bucket")
    assert "rescale" in str(told) or "overwrite" in str(told).lower()


RETRACTED = {
    "max": ("INT", 1),
    "min": ("INT", 1),
    "first_value": ("INT", 1),
    "bool_and": ("BOOLEAN", True),
    "listagg": ("STRING", "a"),
}


@pytest.mark.parametrize("function", RETRACTED)
def test_retractions_where_there_are_none(tmp_path, function):
    of_type, value = RETRACTED[function]
    aggregates = {"merge-engine": "aggregation", "fields.v.aggregate-function": function}
    t = lk.create(tmp_path / "t", {"k": "INT", "v": of_type}, primary_keys=["k"], options={"bucket": 1, **aggregates})
    t.upsert([{"k": 1, "v": value}])
    rows = [{"k": 1, "v": value, "op": "+I"}, {"k": 1, "v": value, "op": "-D"}]
    refused(t, lambda: t.upsert(rows, row_kind="op"), LakekitError, function)


def test_rows_that_take_away_from_an_append_table(tmp_path):
    t = lk.create(tmp_path / "t", {"k": "INT"})
    t.append([{"k": 1}])
    refused(t, lambda: t.upsert([{"k": 1}]), InvalidOption, "no primary key")

    def write():
        with t.writer() as writer:
            writer.write([{"k": 1, "op": "-D"}], row_kind="op")

    refused(t, write, ValueOutOfRange, "append table")


def test_kinds_of_rows_that_are_none(table):
    for kind in ("", None, "delete"):
        refused(table, lambda kind=kind: table.upsert([GOOD | {"op": kind}], row_kind="op"), ValueOutOfRange, "op")


def test_identifiers_out_of_order(table):
    with table.writer(commit_user="job") as writer:
        writer.write([GOOD | {"k": 5}])
        writer.commit(5)
        writer.write([GOOD | {"k": 6}])
        with pytest.raises((InvalidOption, Conflict), match="3") as told:
            writer.commit(3)
        assert isinstance(told.value, LakekitError)
        writer.commit(6)
    assert sorted(table.scan().collect()["k"]) == [1, 5, 6]
    seen = table.snapshots().height
    assert table.commit([], commit_user="job", identifier=5).snapshot_ids  # the same again is the commit that was
    assert table.snapshots().height == seen


def test_a_writer_that_is_left_with_rows(table):
    def leave():
        with table.writer(commit_user="job") as writer:
            writer.write([GOOD | {"k": 7}])

    refused(table, leave, UncommittedRows, "commit")

    def fail():
        with table.writer() as writer:
            writer.write([GOOD | {"k": 7}])
            raise KeyError

    before = state(table)
    with pytest.raises(KeyError):
        fail()
    assert state(table) == before


# ---- the disk --------------------------------------------------------------------------------------------------------------------------------


def full_at(monkeypatch, step):
    """The disk is full at its n-th flush to the device; the calls that were made."""
    calls, real = [], os.fsync

    def fsync(handle):
        calls.append(handle)
        if len(calls) == step:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return calls


@pytest.mark.long
@pytest.mark.parametrize("write", some(["compact", "upsert", "overwrite"], 3))
def test_a_full_disk(tmp_path, monkeypatch, write):
    """Wherever it is full: nothing changed and no file is left, or nobody can tell, and the change is there whole or not at all."""
    rows = [GOOD | {"k": 8}, GOOD | {"k": 9, "dt": "y"}]
    first = keyed(tmp_path / "first", num_sorted_run__compaction_trigger=2)
    if write == "compact":
        first.with_options({"write-only": "true"}).upsert([GOOD | {"k": 2}])
    step = told = 0
    while True:
        step += 1
        table = lk.open(shutil.copytree(first.location, tmp_path / str(step)))
        before = state(table)
        with monkeypatch.context() as patch:
            calls = full_at(patch, step)
            try:
                table.compact(full=True) if write == "compact" else getattr(table, write)(rows)
            except StorageFailed as failed:
                told += 1
                assert "No space left on device" in str(failed)
                assert failed.path is not None
                patch.undo()
                assert state(table) == before, step
            except CommitStateUnknown as unknown:
                told += 1
                assert "No space left on device" in str(unknown)
                assert len(table.snapshots()) - len(before[1]) in (0, 1)
        assert not [path for path in files(table) if path.endswith(".tmp")]
        assert sorted(table.scan().collect()["k"]) in ([1], [1, 2], [1, 8, 9], [8, 9])
        if len(calls) < step:
            break
    assert told > 3


def test_a_disk_that_is_full_while_rows_are_written(table):
    """Not at the end of a file, but in its middle: the system lets no file become larger than some bytes."""
    rows = pl.DataFrame([{"k": k, "v": "some text", "dt": "x"} for k in range(5000)], schema_overrides={"k": pl.Int32})
    before = state(table)
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, allowed[1]))
    try:
        with pytest.raises(StorageFailed, match="File too large") as told:
            table.upsert(rows)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
    assert told.value.path is not None
    assert state(table) == before


KILLED = """
import os, signal, sys
import lakekit as lk
table = lk.open(sys.argv[1])
writer = table.writer(commit_user="killed")
rows = [{"k": 7, "v": "seven", "dt": "x"}, {"k": 8, "v": "eight", "dt": "y"}]
if sys.argv[2] == "prepared":
    writer.write(rows)
    writer.prepare()
else:
    real = os.replace

    def replace(*paths, **directories):
        if sys.argv[2] == "renamed":
            real(*paths, **directories)
        os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replace
    writer.write(rows)
    writer.commit(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
@pytest.mark.parametrize("when", ["prepared", "writing", "renamed"])
def test_a_writer_that_is_killed(table, when):
    """Its files stay, since nobody is left to remove them; no reader sees them, no writer minds, and cleaning finds them."""
    before = state(table)
    ended = subprocess.run([sys.executable, "-c", KILLED, table.location, when], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    after = state(table)
    assert after[1:] == before[1:]
    left = set(after[0]) - set(before[0])
    temporary = {path for path in left if path.endswith(".tmp")}
    assert {"prepared": left and not temporary, "writing": left == temporary != set(), "renamed": left > temporary}[when]
    assert table.check(deep=True).ok
    table.upsert([GOOD | {"k": 2}])
    table.compact(full=True)
    assert sorted(table.scan().collect()["k"]) == [1, 2]


def test_compressions_and_formats_that_are_none(tmp_path):
    for options in ({"file.compression": "zip"}, {"file.format": "avro", "file.compression": "lz4"}):
        path = tmp_path / str(len(os.listdir(tmp_path)))  # noqa: PTH208
        with pytest.raises((InvalidOption, Unsupported), match=r"compress|codec"):
            lk.create(path, {"k": "INT"}, options=options)
        codec = {"file.compression": options.pop("file.compression")}
        t = lk.create(path, {"k": "INT"}, options=options).with_options(codec)
        refused(t, lambda t=t: t.append([{"k": 1}]), (InvalidOption, Unsupported), "compress|codec")


@pytest.mark.parametrize("column", [None, "v"])
def test_rows_whose_age_nobody_could_tell(tmp_path, column):
    """As the reference: a table whose options let rows expire by no column of time takes none, and not only the compaction that would look at them fails."""
    t = lk.create(tmp_path, {"k": "INT", "v": "STRING", "t": "INT"}, primary_keys=["k"], options={"bucket": "1", "write-only": "true"})
    t.upsert([{"k": 1, "v": "a", "t": 1}])
    given = {"record-level.expire-time": "1 d"} | ({} if column is None else {"record-level.time-field": column})
    t = t.with_options(given)
    refused(t, lambda: t.upsert([{"k": 2, "v": "b", "t": 1}]), InvalidOption, "record-level.time-field")
