"""A scan's life: many at once, in threads and other processes, over commits that come meanwhile, interrupted, forked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import lakekit as lk
from spec_tests.doors.views import TABLES, Growing, awaited, collected, copied, in_memory, table

KEYED, APPENDED, FOLDED = "dedup_overlapping_runs", "append_partitioned", "aggregate_numbers_retract"


def same(found: pl.DataFrame, wanted: pl.DataFrame) -> None:
    assert_frame_equal(found, wanted, check_row_order=False)


# ---- many at once --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("case", [KEYED, APPENDED, FOLDED])
def test_collect_all_of_twenty_frames(case, engine):
    lazy, full = table(case).scan(), collected(case)
    name = full.columns[0]
    values = full[name].to_list()
    asked = [pl.col(name) != values[at % len(values)] for at in range(20)]
    for found, condition in zip(pl.collect_all([lazy.filter(one) for one in asked], engine=engine), asked, strict=True):
        same(found, full.filter(condition))


@pytest.mark.parametrize("case", [KEYED, APPENDED, FOLDED])
def test_joined_with_itself_and_after_itself(case):
    lazy, full = table(case).scan(), collected(case)
    name = full.columns[0]
    wanted = full.join(full.select(name), on=name, nulls_equal=True)
    same(lazy.join(lazy.select(name), on=name, nulls_equal=True).collect(), wanted)
    same(pl.concat([lazy, lazy.filter(pl.col(name).is_not_null())]).collect(), pl.concat([full, full.filter(pl.col(name).is_not_null())]))


def test_one_frame_answers_many_questions_each_its_own():
    lazy, full = table(KEYED).scan(), collected(KEYED)
    for key in full["k"].to_list():
        for limit in (1, 2, 100):
            assert lazy.filter(pl.col("k") == key).head(limit).collect().height == 1
    assert lazy.head(2).collect().height == 2
    same(lazy.collect(), full)


@pytest.mark.parametrize("case", [KEYED, APPENDED, FOLDED])
def test_a_sink_holds_the_rows(case, tmp_path):
    table(case).scan().sink_parquet(tmp_path / "out.parquet")
    same(pl.read_parquet(tmp_path / "out.parquet"), collected(case))


@pytest.mark.parametrize("case", [KEYED, APPENDED, FOLDED, "files_row_groups_parquet"])
def test_batches_hold_the_rows(case):
    same(pl.concat(list(table(case).scan().collect_batches(chunk_size=2))), collected(case))


def test_batches_may_be_left_in_the_middle():
    before = handles()
    batches = table("files_keyed_runs").scan().collect_batches(chunk_size=1)
    assert next(batches).height
    del batches
    assert settled(before) == before


def test_collect_async():
    async def both():
        return await asyncio.gather(table(KEYED).scan().collect_async(), table(APPENDED).scan().collect_async())

    keyed, appended = awaited(both())
    same(keyed, collected(KEYED))
    same(appended, collected(APPENDED))


@pytest.mark.long
def test_threads_share_a_table_and_a_frame():
    shared, lazy, full = table(KEYED), table(KEYED).scan(), collected(KEYED)

    def ask(at: int) -> pl.DataFrame:
        return (lazy if at % 2 else shared.scan()).filter(pl.col("k") >= at % 3).collect()

    with ThreadPoolExecutor(8) as pool:
        for at, found in enumerate(pool.map(ask, range(40))):
            same(found, full.filter(pl.col("k") >= at % 3))


# ---- elsewhere -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_tables_and_frames_pickle():
    found = table(KEYED, options={"scan.snapshot-id": "1"})
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert hash(again) == hash(found)
    same(again.scan().collect(), found.scan().collect())
    for lazy in (table(KEYED).scan(), table(KEYED).scan(raw=True), table(KEYED).changes(0), table(KEYED).system("audit_log"), table(FOLDED).scan()):
        same(pickle.loads(pickle.dumps(lazy)).collect(), lazy.collect())
    asked = table(KEYED).scan().filter(pl.col("k") > 0).select("v")
    asked.collect()
    same(pickle.loads(pickle.dumps(asked)).collect(), asked.collect())


@pytest.mark.long
def test_a_spawned_process_reads_what_it_was_sent(tmp_path):
    lazy = table(KEYED).scan().filter(pl.col("k") > 0)
    (tmp_path / "sent").write_bytes(pickle.dumps((table(KEYED), lazy)))
    run(
        f"""
        import pickle, pathlib
        place = pathlib.Path({str(tmp_path)!r})
        table, lazy = pickle.loads((place / "sent").read_bytes())
        (place / "back").write_bytes(pickle.dumps((table, table.scan().collect(), lazy.collect())))
        """
    )
    found, whole, some = pickle.loads((tmp_path / "back").read_bytes())
    assert found == table(KEYED)
    same(whole, collected(KEYED))
    same(some, collected(KEYED).filter(pl.col("k") > 0))


@pytest.mark.long
def test_a_forked_child_is_told_instead_of_left_hanging():
    found = run(
        f"""
        import os, sys, warnings, lakekit as lk
        warnings.simplefilter("ignore")
        table = lk.open({str(TABLES / KEYED)!r})
        lazy = table.scan()
        lazy.collect()
        def told(ask):
            try: ask()
            except lk.ForkedProcess as error: return str(error)
        child = os.fork()
        if child == 0:
            opened = lambda: lk.open({str(TABLES / KEYED)!r})
            texts = [told(ask) for ask in (table.scan, lambda: table.changes(0), opened, table.files, table.explain, lk.connect("/").databases)]
            os.write(1, repr((len(set(texts)), texts[0])).encode())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert lazy.collect().height
        """
    )
    assert found.startswith("(1, 'this process was forked")
    assert "spawn" in found


def run(code: str) -> str:
    here = os.environ | {"PYTHONPATH": str(TABLES.parents[1])}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False, env=here, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- meanwhile -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("case", ["dedup_levels", "scan_keyed", "append_partitioned", "history_tags"])
def test_a_frame_sees_what_was_committed_before_it_runs(case, tmp_path):
    growing = Growing(case, tmp_path)
    ids = table(case).snapshots()["snapshot_id"].to_list()
    growing.show(ids[0])
    found = growing.open()
    lazy, pinned, tail = found.scan(), found.scan(at=ids[0]), found.changes(ids[0])
    first = pinned.collect()
    name = first.columns[0]
    asked = lazy.filter(pl.col(name).is_not_null()).select(name)
    assert tail.collect().height == 0
    for number in ids:
        growing.show(number)
        wanted = table(case).scan(at=number).collect()
        same(lazy.collect(), wanted)
        same(asked.collect(), wanted.filter(pl.col(name).is_not_null()).select(name))
        same(pinned.collect(), first)
        same(tail.collect(), table(case).changes(ids[0], number).collect())
        assert lazy.head(1).collect().height == min(1, wanted.height)
    growing.show(ids[0])  # a rollback
    same(lazy.collect(), first)


def test_columns_are_those_of_the_scan_and_a_change_they_cannot_follow_is_said(tmp_path):
    growing = Growing("evolve_keyed_parquet", tmp_path)
    growing.show(1, 0)
    lazy = growing.open().scan()
    assert lazy.collect_schema().names() == ["k", "a", "b", "c"]
    wanted = lazy.collect()
    growing.show(2, 1)  # columns were added: those asked for are still there
    found = lazy.collect()
    assert found.columns == ["k", "a", "b", "c"]
    same(found, growing.open().scan().select("k", "a", "b", "c").collect())
    assert found.height > wanted.height
    growing.show(3, 2)  # a and c have other types
    with pytest.raises(lk.SchemaChanged) as told:
        lazy.collect()
    assert str(told.value) == "column 'a' of evolve_keyed_parquet was INT when scan() was called and is BIGINT now; call t.scan() again"
    assert told.value.column == "a"
    same(growing.open().scan(at=1).collect(), wanted)


def test_a_dropped_column_is_said(tmp_path):
    growing = Growing("evolve_append_parquet", tmp_path)
    ids = [int(path.name.removeprefix("schema-")) for path in (growing.aside / "schema").iterdir()]
    growing.show(2, 1)
    lazy = growing.open().scan()
    lazy.collect()
    growing.show(5, max(ids))
    with pytest.raises(lk.SchemaChanged, match="when scan\\(\\) was called and"):
        lazy.collect()


def test_expired_under_a_pinned_frame(tmp_path):
    growing = Growing("dedup_levels", tmp_path)
    pinned = growing.open().scan(at=1)
    pinned.collect()
    (growing.path / "snapshot" / "snapshot-1").unlink()
    with pytest.raises(lk.SnapshotNotFound, match=r"snapshot 1 of dedup_levels is gone: snapshots 2 to 5 remain\."):
        pinned.collect()


# ---- made anew -----------------------------------------------------------------------------------------------------------------------------


def made_anew(path: Path, columns: dict[str, pl.DataType | type[pl.DataType]], row: dict[str, object], **named: object) -> lk.Table:
    shutil.rmtree(path, ignore_errors=True)
    made = lk.create(path, columns, **named)
    (made.upsert if named.get("primary_keys") else made.append)([row])
    return made


@pytest.mark.parametrize(
    ("columns", "row", "told"),
    [
        ({"a": pl.String, "c": pl.Int64}, {"a": "q", "c": 2}, r"column 'a' of t was BIGINT when .* it is STRING there: its columns are a, c; call t\."),
        ({"a": pl.Int64, "c": pl.String}, {"a": 5, "c": "z"}, r"column 'b' of t was STRING when .* it is not there: its columns are a, c; call t\."),
    ],
)
@pytest.mark.parametrize("ask", [lambda t: t.scan(), lambda t: t.scan(at=1), lambda t: t.scan(raw=True), lambda t: t.changes(0)])
def test_another_table_that_was_made_in_its_place_is_said(tmp_path, columns, row, told, ask):
    """Its schema has the same number, and its columns the same field ids: they would be taken for those that were asked for."""
    table = made_anew(tmp_path / "t", {"a": pl.Int64, "b": pl.String}, {"a": 1, "b": "x"})
    kept = ask(table)
    assert kept.collect().height == 1
    made_anew(tmp_path / "t", columns, row)
    for asked in (kept, kept.select("b"), kept.filter(pl.col("a") == 5)):
        with pytest.raises(lk.SchemaChanged, match=told):
            asked.collect()
    assert ask(table).select("c").collect().height == 1


@pytest.mark.parametrize("ask", [lambda t: t.scan(), lambda t: t.scan(at=1), lambda t: t.changes(0).drop("_row_kind")])
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_table_that_was_made_in_its_place_with_the_same_columns_is_read(tmp_path, ask, partitioned):
    """Also where they come in another order, beside others, or with keys and partitions: what Polars' filters decide is asked of the new ones."""
    columns = {"a": pl.Int64, "b": pl.String}
    kept = ask(made_anew(tmp_path / "t", columns, {"a": 1, "b": "x"}, partition_keys=["b"] if partitioned else []))
    assert kept.collect().rows() == [(1, "x")]
    for others in ({}, {"partition_keys": ["b"]}, {"primary_keys": ["a"]}):
        made_anew(tmp_path / "t", {"c": pl.Int32} | dict(reversed(columns.items())), {"c": 1, "b": "y", "a": 7}, **others)
        assert kept.collect().rows() == kept.filter(pl.col("b") == "y").collect().rows() == [(7, "y")]
        assert kept.filter(pl.col("b") == "x").collect().rows() == []
    assert kept.select("b").collect().rows() == [("y",)]


# ---- leaving nothing behind ----------------------------------------------------------------------------------------------------------------


def handles() -> list[str]:
    """The files this process has open."""
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the listing's own
            found.append(str(handle.readlink()))
    return sorted(path for path in found if path.startswith("/") and "/proc/" not in path)


def settled(before: list[str]) -> list[str]:
    """The files that are open once work that was under way has ended: whoever leaves a query early waits for none of it."""
    for _ in range(100):
        if handles() == before:
            break
        time.sleep(0.05)
    return handles()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_reading_leaves_no_handle_and_no_file(tmp_path, monkeypatch):
    growing = Growing("dedup_overlapping_runs", tmp_path)
    for variable in ("TMPDIR", "POLARS_TEMP_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    growing.open().scan().collect()
    files, before = sorted(growing.path.rglob("*")), handles()
    for case_options in ({}, {"lakekit.merge-memory": "1 b"}):
        found = growing.open(options=case_options)
        found.scan().collect(), found.scan(raw=True).head(1).collect(), found.explain(), found.changes(0).collect(), found.files()
        found.scan().filter(pl.col("k") > 1).collect(engine="streaming")
    assert settled(before) == before
    assert sorted(growing.path.rglob("*")) == files
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_an_interrupt_leaves_no_handle_and_the_next_read_is_whole():
    found = run(
        f"""
        import os, signal, sys, threading, time, lakekit as lk, polars as pl
        from spec_tests.doors.test_polars_life import handles, settled
        table = lk.open({str(TABLES / "files_keyed_runs")!r})
        wanted = table.scan().collect()
        table.scan().collect(engine="streaming")
        before, interrupted = handles(), 0
        for at in range(8):
            stop = threading.Timer(0.01 + at * 0.005, os.kill, (os.getpid(), signal.SIGINT))
            try:
                stop.start()
                sent = 0
                while sent < 20:  # queries after the signal: one that is lost by then does not come
                    table.scan().collect(engine="streaming" if at % 2 else "in-memory")
                    sent += not stop.is_alive()
            except KeyboardInterrupt:
                interrupted += 1
            except pl.exceptions.PanicException as panic:  # what Polars makes of one that falls into its own Python, between two of our calls
                assert "KeyboardInterrupt" in str(panic), panic
                interrupted += 1
            stop.join()
        assert interrupted >= 3, interrupted  # Python itself loses one that falls into the end of a weak reference
        again = table.scan().collect()
        assert again.height == wanted.height
        assert settled(before) == before, (handles(), before)
        print("whole")
        """
    )
    assert found == "whole\n"


# ---- explaining decodes nothing ------------------------------------------------------------------------------------------------------------


def emptied(case: str, tmp_path) -> Growing:
    """A copy of the table whose data files have lost their data: nothing but their size and what stands at their end is as it was."""
    found = Growing(case, tmp_path)
    for path in found.path.rglob("data-*"):
        data = path.read_bytes()
        kept = 8 + int.from_bytes(data[-8:-4], "little") if path.suffix == ".parquet" else 0
        path.write_bytes(bytes(len(data) - kept) + data[len(data) - kept :])
    return found


RAW = (APPENDED, "vectors_append_32_parquet", "vectors_keyed_32_parquet", "append_plain")
"""Tables whose Parquet files Polars opens by itself."""


@pytest.mark.long
@pytest.mark.parametrize("case", [KEYED, APPENDED, FOLDED, "dedup_orc", "dedup_avro", "vectors_append_32_parquet", "vectors_keyed_32_parquet", "append_plain"])
def test_explaining_decodes_nothing(case, tmp_path):
    found = emptied(case, tmp_path).open()
    lazy = found.scan()
    name = lazy.collect_schema().names()[0]
    asked = lazy.filter(pl.col(name).is_not_null())
    if case in RAW:  # page headers are looked at before Polars is told of a file
        with pytest.raises(lk.Corrupt, match="no page header"):
            asked.explain()
        return
    assert "RESOLVER" in asked.explain()
    assert asked.explain(engine="streaming")
    assert found.explain(pl.col(name).is_not_null()).files_read
    with pytest.raises((lk.LakekitError, pl.exceptions.PolarsError)):  # inside a page of Parquet the error is Polars' own
        lazy.collect()


@pytest.mark.parametrize("case", [KEYED, APPENDED, FOLDED, "vectors_append_32_orc", "index_bsi"])
def test_the_funnel_and_the_schema_open_no_data_file(case):
    found = in_memory(case)
    lazy, name = found.scan(), found.scan().collect_schema().names()[0]
    assert found.explain(pl.col(name) == pl.col(name).max()).files_read
    assert found.explain(pl.col(name).is_not_null()).files_read
    opened = {path for operation, path in found.storage.trace if operation == "read" and "/bucket-" in path and not path.endswith(".index")}
    assert opened == set()
    found.storage.trace.clear()
    assert lazy.filter(pl.col(name).is_not_null()).select(name).collect_schema().names() == [name]
    assert found.storage.trace == []


def test_explain_without_native_scans_looks_only_at_the_ends_of_files():
    storage = copied(TABLES / APPENDED)
    asked: list[tuple[str, int | None]] = []
    plain = storage.read

    class Watched(type(storage)):
        def read(self, path, offset=0, length=None):
            asked.append((path, length))
            return plain(path, offset, length)

    found = lk.Table(location="memory", name=APPENDED, storage=Watched(files=storage.files))
    found.scan().filter(pl.col("id") > 0).explain()
    data = [length for path, length in asked if "/bucket-" in path]
    assert data
    assert all(length is not None and length <= 16 for length in data)


@pytest.mark.parametrize("case", [APPENDED, KEYED])
def test_a_page_with_a_damaged_header_is_corrupt(case, tmp_path):
    found = Growing(case, tmp_path)
    for path in found.path.rglob("data-*"):
        data = path.read_bytes()
        path.write_bytes(data[:60] + bytes(160) + data[220:])
    with pytest.raises(lk.Corrupt) as told:
        found.open().scan().collect()
    assert told.value.path is not None
