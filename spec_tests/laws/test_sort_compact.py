"""Compaction that sorts (ENGINE.md 8.6): rows stay, files are in order, keys along curves are those of the rule, told once more value by value."""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from polars.testing import assert_frame_equal

import lakekit as lk
from lakekit.bucket import sort_order
from lakekit.bucket.restore import SnapshotBuckets
from lakekit.commit.committer import commit_changes
from lakekit.data_file.paths import data_file_path
from lakekit.errors import Conflict, InvalidOption
from lakekit.maintenance import rewrite
from lakekit.metadata import snapshots
from lakekit.model.snapshot import BATCH_IDENTIFIER
from spec_tests.conftest import DEEP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

COLUMNS = {"p": "INT", "a": "INT", "b": "DOUBLE", "s": "STRING"}
STRATEGIES = ("order", "zorder", "hilbert")
SMALL: dict[str, str] = {"target-file-size": "4 kb"}
CUT = {**SMALL, "lakekit.merge-memory": "48 kb"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def some_rows(seed: int, count: int = 700) -> pl.DataFrame:
    numbers = pl.int_range(count, eager=True)
    return pl.select(
        p=(numbers % 3).cast(pl.Int32),
        a=pl.when(numbers % 17 == 0).then(None).otherwise((numbers.hash(seed) % 90).cast(pl.Int32) - 45),
        b=pl.when(numbers % 19 == 0).then(math.nan).otherwise((numbers.hash(seed + 1) % 4000).cast(pl.Float64) / 7 - 200),
        s=(numbers.hash(seed + 2) % 50).cast(pl.String),
    )


def filled(path: Path, partition_keys: Sequence[str] = (), **options: str) -> lk.Table:
    t = lk.create(str(path / "t"), COLUMNS, partition_keys=partition_keys, options=SMALL | options)
    for seed in range(3):
        t.append(some_rows(seed))
    return t


def rows(t: lk.Table) -> pl.DataFrame:
    return lk.open(t._context().root).scan().collect()


def same_rows(one: pl.DataFrame, other: pl.DataFrame) -> None:
    assert_frame_equal(one.sort(pl.all()), other.sort(pl.all()))


def files(t: lk.Table, partition: bytes | None = None) -> list[pl.DataFrame]:
    """What the live data files hold, in the order they were written."""
    handle = t._context()
    standing = SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle))
    live = [(place, file) for place in standing.bucket_ids() if partition in (None, place[0]) for file in standing.restore_bucket(*place).files]
    live.sort(key=lambda found: found[1].min_sequence_number)
    return [pl.read_parquet(data_file_path(handle, *place, file).removeprefix("file:")) for place, file in live]


# ---- tables ------------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("options", [SMALL, CUT], ids=["at once", "range by range"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_stay_and_stand_in_order(tmp_path, strategy, options):
    t = filled(tmp_path)
    before = rows(t)
    done = lk.open(t._context().root, options=options).compact(order_by=["a", "b"], strategy=strategy)
    assert done.kinds == ("OVERWRITE",)
    assert (done.removed_file_count, done.row_count) == (3, before.height)
    after = rows(t)
    same_rows(before, after)
    if strategy == "order":
        assert_frame_equal(after.select("a", "b"), before.select("a", "b").sort("a", "b", nulls_last=False))
    else:
        keys = (sort_order.z_order_keys if strategy == "zorder" else sort_order.hilbert_keys)(after.select("a", "b"))
        assert keys.is_sorted()


@pytest.mark.parametrize("options", [SMALL, CUT], ids=["at once", "range by range"])
def test_files_ascend_and_do_not_overlap(tmp_path, options):
    t = filled(tmp_path)
    lk.open(t._context().root, options=options).compact(order_by=("a", "b"))
    found = files(t)
    assert len(found) > 1
    for one, next_ in pairwise(found):
        meeting = pl.concat([one.select("a", "b").sort("a", "b").tail(1), next_.select("a", "b").sort("a", "b").head(1)])
        assert_frame_equal(meeting, meeting.sort("a", "b"))


def test_where_chooses_partitions(tmp_path):
    t = filled(tmp_path, ["p"])
    before = rows(t)
    t.compact(order_by="s", where="p <> 1")
    after = rows(t)
    same_rows(before, after)
    assert {p: after.filter(p=p)["s"].is_sorted() for p in range(3)} == {0: True, 1: False, 2: True}
    assert_frame_equal(after.filter(p=1), before.filter(p=1))
    with pytest.raises(InvalidOption, match="no partition column"):
        t.compact(order_by="s", where="a = 1")


@pytest.mark.long
@pytest.mark.parametrize("options", [SMALL, CUT], ids=["at once", "range by range"])
def test_deleted_rows_go_with_their_vectors(tmp_path, options):
    t = filled(tmp_path, **{"deletion-vectors.enabled": "true"})
    t.delete("a > 10 OR s = '7'")
    before = rows(t)
    lk.open(t._context().root, options=options).compact(order_by="b")
    same_rows(before, rows(t))
    assert sum(file.height for file in files(t)) == before.height
    handle = t._context()
    standing = SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle))
    assert [standing.restore_bucket(*place).vectors for place in standing.bucket_ids()] == [()]


def test_nothing_stays_of_rows_that_are_all_deleted_and_an_empty_table_is_left_alone(tmp_path):
    t = lk.create(str(tmp_path / "t"), COLUMNS, options={"deletion-vectors.enabled": "true"})
    assert t.compact(order_by="a").snapshot_ids == ()
    t.append(some_rows(0))
    t.delete("p >= 0 AND s IS NOT NULL")
    t.compact(order_by="a")
    assert rows(t).height == 0
    assert files(t) == []


def commit(t: lk.Table, messages: Any) -> lk.Commit:
    return commit_changes(t._context(), messages, commit_user="sorter", identifier=BATCH_IDENTIFIER)


def sorted_messages(t: lk.Table) -> Any:
    handle = t._context()
    standing = SnapshotBuckets.at_snapshot(handle, snapshots.latest(handle))
    return rewrite.sort_append_table(handle, standing, rewrite.parse_sort_order(handle, "a", "order"), {partition for partition, _ in standing.bucket_ids()})


def test_rows_appended_meanwhile_stay(tmp_path):
    t = filled(tmp_path)
    before, more = rows(t), some_rows(9)
    messages = sorted_messages(t)
    t.append(more)
    commit(t, messages)
    same_rows(pl.concat([before, more]), rows(t))


@pytest.mark.long
@pytest.mark.parametrize("meanwhile", ["compact", "delete", "mark"])
def test_files_that_others_changed_meanwhile_are_a_conflict(tmp_path, meanwhile):
    t = filled(tmp_path, **({"deletion-vectors.enabled": "true"} if meanwhile == "mark" else {}))
    messages = sorted_messages(t)
    if meanwhile == "compact":
        t.compact(order_by="s")
    else:
        t.delete("a = 3")
    standing = rows(t)
    with pytest.raises(Conflict):
        commit(t, messages)
    assert_frame_equal(rows(t), standing)


def test_what_was_made_goes_when_reading_fails(tmp_path):
    t = filled(tmp_path, ["p"])
    there = set(tmp_path.rglob("*.parquet"))
    broken = min(tmp_path.rglob("p=2/**/*.parquet"))
    broken.write_bytes(broken.read_bytes()[:100])
    with pytest.raises(lk.Corrupt):
        t.compact(order_by="a")
    assert set(tmp_path.rglob("*.parquet")) == there


@pytest.mark.parametrize(
    "asked, key, said",
    [
        ({"order_by": "nope"}, "order_by", "no column 'nope' to sort by; it has p, a, b, s, l"),
        ({"order_by": []}, "order_by", "names no column; "),
        ({"order_by": ["a", "a"]}, "order_by", "column 'a' twice"),
        ({"order_by": "l"}, "order_by", "of type ARRAY<INT>, which has no order"),
        ({"order_by": "a", "strategy": "peano"}, "strategy", "no strategy 'peano'; there are order, zorder, hilbert"),
        ({"order_by": "a", "strategy": "hilbert"}, "order_by", "Hilbert sort needs at least two columns"),
        ({"strategy": "zorder"}, "order_by", "order_by names none"),
    ],
)
def test_what_cannot_be_asked(tmp_path, asked: Mapping[str, Any], key, said):
    t = lk.create(str(tmp_path / "t"), COLUMNS | {"l": "ARRAY<INT>"})
    with pytest.raises(InvalidOption) as refused:
        t.compact(**asked)
    assert said in str(refused.value)
    assert refused.value.key == key


def test_tables_that_are_not_sorted(tmp_path):
    t = lk.create(str(tmp_path / "buckets"), COLUMNS, options={"bucket": "2", "bucket-key": "a"})
    with pytest.raises(InvalidOption, match="Sort Compact only supports bucket=-1 yet"):
        t.compact(order_by="a")
    t = lk.create(str(tmp_path / "key"), COLUMNS | {"p": "INT NOT NULL"}, primary_keys=["p"], options={"bucket": "2"})
    with pytest.raises(InvalidOption, match="Sort Compact only supports bucket=-1 yet"):
        t.compact(order_by="a")
    t = lk.create(str(tmp_path / "moves"), COLUMNS | {"a": "INT NOT NULL"}, primary_keys=["a"], partition_keys=["p"])
    with pytest.raises(InvalidOption, match="keys that stay in their partition"):
        t.compact(order_by="b")
    t = lk.create(str(tmp_path / "clustered"), COLUMNS, options={"clustering.incremental": "true", "clustering.columns": "a"})
    with pytest.raises(InvalidOption, match="incremental clustering"):
        t.compact(order_by="b")
    short = lk.open(filled(tmp_path)._context().root, options={"zorder.var-length-contribution": "0"})
    with pytest.raises(InvalidOption, match="at least 1"):
        short.compact(order_by="s", strategy="zorder")


def test_texts_are_part_of_a_key_as_far_as_the_option_says(tmp_path):
    t = lk.create(str(tmp_path / "t"), {"s": "STRING"}, options={"zorder.var-length-contribution": "2"})
    t.append(pl.DataFrame({"s": ["bbz", "aaz", "bba", "aab"]}))
    t.compact(order_by="s", strategy="zorder")
    assert rows(t)["s"].to_list() == ["aaz", "aab", "bbz", "bba"]


# ---- keys: what the reference made -------------------------------------------------------------------------------------------------------------------------


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[arg-type,misc] # no time zone among the parts


RECORDED: list[tuple[pl.DataType, Any, str]] = [
    (pl.Boolean(), True, "8100000000000000"),
    (pl.Int8(), 34, "8000000000000022"),
    (pl.Int16(), -22521, "7fffffffffffa807"),
    (pl.Int32(), 1761, "80000000000006e1"),
    (pl.Int64(), -702877717224, "7fffff5c59392d18"),
    (pl.Float32(), -497.9974365234375, "3f80e00a00fe3feb"),
    (pl.Float64(), -math.inf, "000fffffffe00000"),
    (pl.Date(), date(1949, 10, 8), "7fffffffffffe322"),
    (pl.Time(), time(18, 52, 6, 449000), "80000000040c79b1"),
    (pl.Datetime("ms"), at(1910, 4, 24, 9, 40, 3, 533000), "7ffffe496d3bf74d"),
    (pl.Datetime("us"), at(1928, 9, 21, 5, 16, 21, 744), "7ffffed0b4f95488"),
    (pl.Datetime("ns"), at(1982, 4, 10, 3, 26, 10, 554), "8000005a2a537850"),
    (pl.Decimal(5, 2), Decimal("-83.60"), "df58000000000000"),
    (pl.Decimal(30, 10), Decimal("-1090046919911969.6498073578"), "f6fbbc6172f1a447"),
    (pl.String(), "l侦h!伮侴n乻丸", "6ce4bea66821e4bc"),
    (pl.Binary(), b",o", "2c6f000000000000"),
]
CURVE: list[tuple[pl.DataType, Any, pl.DataType, Any, str]] = [
    (pl.String(), "u)h", pl.Int16(), 19037, "3fb11e2d2d31"),
    (pl.Binary(), b"", pl.String(), "u)h", "153b0ec3bec0"),
    (pl.Float32(), -1.2277720173869966e-08, pl.Datetime("ns"), at(1914, 4, 14, 9, 25, 5, 366), "1aa9659966a7dbeb2bf141414f13bec0"),
    (pl.Decimal(5, 2), Decimal("-294.39"), pl.Float32(), -1.2277720173869966e-08, "30014f13c40eb0001555555555565966"),
    (pl.Float64(), -1.0, pl.Binary(), b"n\xbd\xbb\xc1\xd5\x86", "555550014fec553c54ff00153b14014"),
]


@pytest.mark.parametrize("dtype, value, key", RECORDED, ids=lambda found: str(found)[:20])
def test_z_order_bytes_of_the_reference(dtype, value, key):
    assert sort_order.z_order_keys(pl.DataFrame({"c": pl.Series([value, None], dtype=dtype)})).bin.encode("hex").to_list() == [key, "0" * 16]


@pytest.mark.parametrize("one, a, other, b, key", CURVE)
def test_hilbert_bytes_of_the_reference(one, a, other, b, key):
    made = sort_order.hilbert_keys(pl.DataFrame({"a": pl.Series([a], dtype=one), "b": pl.Series([b], dtype=other)}))
    assert made.bin.encode("hex").to_list() == [key.zfill(126)]


# ---- keys: the rule, a value and a bit at a time -------------------------------------------------------------------------------------------------------------


def unscaled(value: Decimal) -> int:
    return int(value.scaleb(-int(value.as_tuple().exponent)))


def whole(value: Any) -> int:
    match value:
        case datetime():
            return (value.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
        case date():
            return (value - EPOCH.date()).days
        case time():
            return (value.hour * 3600 + value.minute * 60 + value.second) * 1000 + value.microsecond // 1000
    return int(value)


def bits_of(value: float) -> int:
    return int(struct.unpack(">q", struct.pack(">d", math.nan if math.isnan(value) else value))[0])


def z_bytes(value: Any, *, is_text: bool, size: int) -> bytes:
    size = size if is_text else 8
    match value:
        case None:
            return bytes(size)
        case str() | bytes():
            return (value.encode() if isinstance(value, str) else value)[:size].ljust(size, b"\0")
        case bool():
            return bytes([129 if value else 0, *bytes(7)])
        case float():
            bits = bits_of(value)
            return ((bits ^ (bits >> 31 | -(2**63))) % 2**64).to_bytes(8, "big")
        case Decimal():
            number = unscaled(value)
            least = (number if number >= 0 else ~number).bit_length() // 8 + 1
            return number.to_bytes(least, "big", signed=True)[:8].ljust(8, b"\0")
    return (whole(value) + 2**63).to_bytes(8, "big")


def interleaved(parts: list[bytes]) -> bytes:
    texts = [f"{int.from_bytes(part, 'big'):0{8 * len(part)}b}" for part in parts]
    bits = "".join(text[at] for at in range(max(map(len, texts))) for text in texts if at < len(text))
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def coordinate(value: Any, dtype: pl.DataType) -> int:
    match value:
        case None:
            return 2**63 - 1
        case str() | bytes():
            found = int.from_bytes((value.encode() if isinstance(value, str) else value)[:8], "big")
        case bool():
            found = 2**63 - 1 if value else 0
        case float():
            found = bits_of(value)
        case Decimal():
            found = int(value)
        case _:
            found = whole(value) % 256 if dtype == pl.Int8 else whole(value)
    return found % 2**63


def curve_point(key: int, dimensions: int) -> list[int]:
    """The point at a place of the Hilbert curve: the way back, so that nothing is told twice (Skilling, 2004)."""
    bits = f"{key:0{63 * dimensions}b}"
    x = [int(bits[at::dimensions], 2) for at in range(dimensions)]
    t = x[-1] >> 1
    for i in range(dimensions - 1, 0, -1):
        x[i] ^= x[i - 1]
    x[0] ^= t
    for shift in range(1, 63):
        for i in range(dimensions - 1, -1, -1):
            if x[i] >> shift & 1:
                x[0] ^= 2**shift - 1
            else:
                t = (x[0] ^ x[i]) & (2**shift - 1)
                x[0] ^= t
                x[i] ^= t
    return x


VALUES: list[tuple[pl.DataType, st.SearchStrategy[Any]]] = [
    (pl.Boolean(), st.booleans()),
    (pl.Int8(), st.integers(-128, 127)),
    (pl.Int32(), st.integers(-(2**31), 2**31 - 1)),
    (pl.Int64(), st.integers(-(2**63), 2**63 - 1)),
    (pl.Float32(), st.floats(width=32)),
    (pl.Float64(), st.floats()),
    (pl.Date(), st.dates()),
    (pl.Time(), st.times()),
    (pl.Datetime("us"), st.datetimes()),
    (pl.Datetime("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    (pl.Decimal(7, 3), st.decimals(-9999, 9999, places=3)),
    (pl.Decimal(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    (pl.String(), st.text(max_size=12)),
    (pl.Binary(), st.binary(max_size=12)),
]


@st.composite
def frames(draw: st.DrawFn, least: int) -> pl.DataFrame:
    kinds = draw(st.lists(st.sampled_from(VALUES), min_size=least, max_size=9))
    count = draw(st.integers(0, 6))
    columns = [draw(st.lists(st.none() | values, min_size=count, max_size=count)) for _, values in kinds]
    return pl.DataFrame([pl.Series(f"c{at}", column, dtype) for at, ((dtype, _), column) in enumerate(zip(kinds, columns, strict=True))])


@given(frames(1), st.integers(1, 13))
@settings(max_examples=300 if DEEP else 15, deadline=None)
def test_z_order_keys_follow_the_rule(frame, size):
    texts = [dtype in (pl.String, pl.Binary) for dtype in frame.dtypes]
    expected = [interleaved([z_bytes(value, is_text=is_text, size=size) for value, is_text in zip(row, texts, strict=True)]) for row in frame.iter_rows()]
    assert sort_order.z_order_keys(frame, size).to_list() == expected


@given(frames(2))
@settings(max_examples=300 if DEEP else 15, deadline=None)
def test_hilbert_keys_lead_back_to_their_points(frame):
    for key, row in zip(sort_order.hilbert_keys(frame).to_list(), frame.iter_rows(), strict=True):
        assert len(key) == max(63, -(-63 * frame.width // 8))
        assert curve_point(int.from_bytes(key, "big"), frame.width) == [coordinate(value, dtype) for value, dtype in zip(row, frame.dtypes, strict=True)]
