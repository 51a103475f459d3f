"""When a row's time has come (ENGINE.md 2.9), by the type of the column that holds it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import polars as pl
import pytest

from lakekit.bucket.merge_read import record_expiration
from lakekit.columns import KIND, SEQUENCE
from lakekit.data_file.paths import make_file_names
from lakekit.data_file.rolling_writer import WriteTarget, write_run
from lakekit.format.polars_types import polars_type
from lakekit.model.data_file import NO_STATS
from lakekit.types import parse
from spec_tests.laws import test_compact_histories as histories

NOW_MS = 2_000_000_000_000
SPAN_S = 1_000_000
OLDEST_S = NOW_MS // 1000 - SPAN_S


def instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


CASES = [
    ("INT", [OLDEST_S - 1, OLDEST_S, None], 1),
    ("BIGINT", [OLDEST_S - 1, OLDEST_S, None], 1),
    ("BIGINT", [OLDEST_S * 1000 - 1, OLDEST_S * 1000, OLDEST_S * 1000 + 5, None], 1),
    ("TIMESTAMP(3)", [instant(OLDEST_S - 0.001), instant(OLDEST_S), None], 1),
    ("TIMESTAMP(6)", [instant(OLDEST_S - 0.000001), instant(OLDEST_S), None], 1),
    ("TIMESTAMP(9)", [instant(OLDEST_S - 1), instant(OLDEST_S), None], 1),
    ("TIMESTAMP_LTZ(6)", [instant(OLDEST_S - 1), instant(OLDEST_S + 0.5), None], 1),
    ("TIMESTAMP(3)", [instant(-1.5), None], 1),
    ("INT", [OLDEST_S, OLDEST_S + 1], 0),
    ("TIMESTAMP(3)", [instant(OLDEST_S), None], 0),
    ("INT", [None], 0),
]


@pytest.mark.parametrize(("kind", "times", "gone"), CASES)
def test_rows_before_the_oldest_second_go(kind: str, times: list, gone: int, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = kind.replace("TIMESTAMP_LTZ(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE")
    monkeypatch.setattr(histories, "FIELDS", [("k", "INT NOT NULL"), ("s", "STRING NOT NULL"), ("t", written)])
    bucket = histories.created(tmp_path / "t", {"record-level.expire-time": f"{SPAN_S} s", "record-level.time-field": "t"})
    due = record_expiration(bucket.ctx, NOW_MS)
    assert due is not None
    assert due.oldest_s == OLDEST_S
    count = len(times)
    dtype = polars_type(parse(written))
    held = pl.Series("t", times, dtype=pl.Datetime("us") if "TIMESTAMP" in kind else dtype)
    if "TIMESTAMP" in kind:
        held = (held.dt.replace_time_zone("UTC") if "LTZ" in kind else held).cast(dtype)
    system = {SEQUENCE: pl.Series(range(count), dtype=pl.Int64), KIND: pl.Series([0] * count, dtype=pl.Int8)}
    frame = pl.DataFrame({"k": pl.Series(range(count), dtype=pl.Int32), "s": [""] * count, "t": held, **system})
    assert frame.filter(due.unexpired_condition()).height == count - gone
    target = WriteTarget(ctx=bucket.ctx, partition=bytes(12), bucket=0, level=0, source=0, file_names=make_file_names(bucket.ctx), is_keyed=True)
    [file] = write_run(target, [frame])
    assert due.may_have_expired_rows(file) == (gone > 0)
    assert not due.may_have_expired_rows(replace(file, value_stats=NO_STATS))
    assert not due.may_have_expired_rows(replace(file, value_stats_cols=(), value_stats=NO_STATS))


def test_nothing_expires_where_nothing_is_said(tmp_path) -> None:
    assert record_expiration(histories.created(tmp_path / "t", {}).ctx, NOW_MS) is None
