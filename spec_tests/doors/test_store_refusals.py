"""What a store refuses or is silent about while data files are read: `StorageFailed` wherever lakekit starts the frame, in bounded time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import LakekitError, StorageFailed
from lakekit.storage import object_store as objects
from lakekit.storage.protocol import FileMissing
from spec_tests.longer import some
from spec_tests.reliability.s3_server import SECRET_KEY, S3Server

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("impatience")

COLUMNS = {"k": "BIGINT", "v": "STRING"}
ROWS = pl.DataFrame({"k": [1, 2, 3], "v": ["a", "b", "c"]})
FAULTS = {"403": "403 Forbidden", "expired": "ExpiredToken.*Renew the credentials", "skew": "RequestTimeTooSkewed", "503": "503 Service", "reset": "no answer"}


def made(server: S3Server, *, is_keyed: bool) -> tuple[lk.Catalog, lk.Table]:
    cat = lk.connect(server.url("w"), storage_options={**server.options, "max_retries": 0})
    cat.create_database("d")
    t = cat.create_table("d.t", COLUMNS, primary_keys=["k"] if is_keyed else [], options={"bucket": "1", "bucket-key": "k"})
    (t.upsert if is_keyed else t.append)(ROWS)
    if is_keyed:
        t.upsert(ROWS)  # two files to merge: lakekit's own source reads them
    return cat, t


def fail_data(server: S3Server, fault: str) -> None:
    server.fault = lambda asked: fault if "/bucket-" in asked.key and asked.method in ("GET", "HEAD") else None


def verbs(cat: lk.Catalog, t: lk.Table, *, is_keyed: bool) -> dict[str, Callable[[], object]]:
    """What reads rows by itself; `key` tables are read by a source of lakekit's, whoever collects it."""
    return {
        "aggregate": lambda: t.aggregate(pl.col("k").sum(), pl.col("v").max(), where=pl.col("v") > "a"),
        "delete": lambda: t.delete(pl.col("v") == "b"),
        "update": lambda: t.update({"v": pl.lit("z")}, where=pl.col("v") == "a"),
        "merge": lambda: t.merge(ROWS, lk.when_matched(update="all"), on=["k"]),
        "merge a scan": lambda: t.merge(t.scan(), lk.when_matched(update="all"), on=["k"]),
        "analyze": t.analyze,
        "append a scan": lambda: (t.upsert if is_keyed else t.append)(t.scan()),
        "statements": lambda: cat.sql("USE d; SELECT * FROM t"),
        "insert": lambda: cat.sql("INSERT INTO d.t SELECT * FROM d.t"),
        "subquery": lambda: cat.sql("DELETE FROM d.t WHERE k IN (SELECT k FROM d.t)"),
    }


@pytest.mark.parametrize("is_keyed", [False, True])
@pytest.mark.parametrize("fault", some(list(FAULTS), 2))
def test_what_lakekit_reads_itself_is_refused_by_its_own_error(fault: str, is_keyed: bool, server: S3Server) -> None:
    cat, t = made(server, is_keyed=is_keyed)
    before = t.snapshots().height
    asked = verbs(cat, t, is_keyed=is_keyed)
    if is_keyed:
        asked["collect"] = lambda: t.scan().collect()
        asked["count by a condition"] = lambda: t.scan().filter(pl.col("v") == "a").collect()
    fail_data(server, fault)
    for name, ask in asked.items():
        with pytest.raises(StorageFailed, match=f"(?s){FAULTS[fault]}") as raised:
            ask()
        assert SECRET_KEY not in repr(raised.value.__context__) + str(raised.value), name
    server.fault = None
    assert t.snapshots().height == before
    assert t.check(deep=True).ok


def test_a_data_file_that_is_gone_is_missing(server: S3Server) -> None:
    _, t = made(server, is_keyed=False)
    for key in server.keys("w/d.db/t/bucket-0/"):
        server.buckets["lake"].pop(key)
    with pytest.raises(FileMissing):
        t.aggregate(pl.col("v").max())


def test_errors_of_other_sources_stay_theirs(server: S3Server) -> None:
    _, t = made(server, is_keyed=False)
    with pytest.raises(FileNotFoundError) as raised:
        t.append(pl.scan_parquet("/nowhere/x.parquet", schema={"k": pl.Int64, "v": pl.String}))
    assert not isinstance(raised.value, LakekitError)


def test_a_silent_data_file_ends(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "READ_TIMEOUT", "200ms")
    _, t = made(server, is_keyed=False)
    server.slow_seconds = 20
    silent = iter(["hang"])
    server.fault = lambda asked: next(silent, None) if "/bucket-" in asked.key else None
    t = lk.open(server.url("w/d.db/t"), storage_options={**server.options, "max_retries": 2})
    began = time.monotonic()
    assert t.scan().sort("k").collect().equals(ROWS)
    assert time.monotonic() - began < 5


def test_the_bound_of_silence_is_half_a_minute_and_the_users_own_wins(server: S3Server) -> None:
    def told(**more: str) -> dict[str, Any]:
        return objects.open(server.url("t"), {**server.options, **more})[0].polars_scan_options()["storage_options"]

    assert told()["read_timeout"] == "30s"
    assert "read_timeout" not in told(timeout="5s")
    assert told(timeout="5s")["timeout"] == "5s"
    assert told(read_timeout="7s")["read_timeout"] == "7s"
