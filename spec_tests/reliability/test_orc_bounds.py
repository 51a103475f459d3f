"""Stripes, streams and lengths of ORC files: those of every writer pass, those by which Arrow would read where nothing is are refused before it reads them."""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyarrow import orc

import lakekit as lk
from lakekit.codec import orc_bounds, orc_runs, orc_tail
from lakekit.codec.cursor import append_varint
from lakekit.errors import Corrupt
from lakekit.format import orc as orc_files
from lakekit.types import Field, parse
from spec_tests.reliability import damaged_tables
from spec_tests.reliability.children import Child


def length_stream(data: bytes) -> tuple[int, int]:
    """Where the first stream of texts' lengths begins and ends."""
    tail = orc_tail.parse_tail(data)
    stripe = tail.stripes[0]
    at = stripe.offset
    for stream in orc_tail.bytes_members(orc_tail.read_stripe_footer(tail, stripe), 1):
        members = orc_tail.parse_members(stream)
        length = orc_tail.integer_member(members, 3)
        if orc_tail.integer_member(members, 1) == 2 and orc_tail.integer_member(members, 2) == 2:
            return at, at + length
        at += length
    raise AssertionError


CALLS = "spec_tests.reliability.damaged_calls:"


def test_files_of_every_writer_pass(fixtures_path):
    found = 0
    for path in sorted(fixtures_path.rglob("*")):
        if path.is_file() and "broken" not in path.parts and (data := path.read_bytes())[:3] == b"ORC":
            orc_bounds.check_tail_and_streams(str(path), data)
            found += 1
    assert found > 100


lengths = st.lists(
    st.one_of(
        st.integers(0, 40).flatmap(lambda value: st.integers(1, 30).map(lambda count: [value] * count)),
        st.integers(0, 9).flatmap(lambda first: st.integers(1, 60).map(lambda count: list(range(first, first + count)))),
        st.lists(st.integers(0, 5000), max_size=6),
        st.integers(1, 40).map(lambda count: list(range(count, 0, -1))),
    ),
    max_size=8,
).map(lambda parts: [value for part in parts for value in part])
"""Lengths that make runs of every kind."""


@given(lengths=lengths, codec=st.sampled_from(["uncompressed", "zlib", "zstd", "snappy", "lz4"]), nulls=st.booleans())
def test_files_of_arrow_pass(lengths, codec, nulls):
    texts = [None if nulls and at % 7 == 3 else "x" * length for at, length in enumerate(lengths)]
    table = pa.table({"s": pa.array(texts, pa.string()), "l": pa.array([[1] * (length % 50) for length in lengths], pa.list_(pa.int32()))})
    sink = pa.BufferOutputStream()
    orc.write_table(table, sink, compression=codec)
    orc_bounds.check_tail_and_streams("a.orc", sink.getvalue().to_pybytes())


def streams_of(data: bytes, wanted: int) -> list[tuple[int, bytes, bool]]:
    """The streams of a kind of the first stripe: their column, their bytes inflated, and whether their runs are of the second version."""
    tail = orc_tail.parse_tail(data)
    footer, at, found = orc_tail.read_stripe_footer(tail, tail.stripes[0]), tail.stripes[0].offset, []
    encodings = [orc_tail.integer_member(orc_tail.parse_members(one), 1) for one in orc_tail.bytes_members(footer, 2)]
    for stream in orc_tail.bytes_members(footer, 1):
        kind, column, length = (orc_tail.integer_member(orc_tail.parse_members(stream), number) for number in (1, 2, 3))
        if kind == wanted:
            found.append((column, orc_tail.inflate_all(data[at : at + length], tail.codec, tail.block_bytes), encodings[column] in (2, 3)))
        at += length
    return found


@given(lengths=lengths, codec=st.sampled_from(["uncompressed", "zlib"]))
def test_lengths_of_arrow_are_summed_exactly(lengths, codec):
    table = pa.table(
        {"l": pa.array([[1] * length for length in lengths], pa.list_(pa.int32())), "s": pa.array(["x" * length for length in lengths], pa.string())}
    )
    sink = pa.BufferOutputStream()
    orc.write_table(table, sink, compression=codec, dictionary_key_size_threshold=0.0)
    data = sink.getvalue().to_pybytes()
    if lengths:
        assert {column: orc_runs.sum_lengths(some, second=second) for column, some, second in streams_of(data, 2)} == dict.fromkeys((1, 3), sum(lengths))


whole = st.lists(
    st.one_of(
        st.integers(-(2**63), 2**63 - 1).flatmap(lambda value: st.integers(1, 30).map(lambda count: [value] * count)),
        st.integers(-9, 9).flatmap(lambda first: st.integers(1, 60).map(lambda count: list(range(first, first + count)))),
        st.lists(st.integers(-50, 50), max_size=40),
        st.lists(st.integers(0, 9), min_size=30, max_size=60).map(lambda some: [*some, 1000, 7, *some]),  # what is patched
        st.lists(st.integers(-(2**40), 2**40), max_size=9),
    ),
    max_size=6,
).map(lambda parts: [value for part in parts for value in part])


@given(numbers=whole, codec=st.sampled_from(["uncompressed", "zlib"]))
def test_the_range_of_signed_numbers_is_exact(numbers, codec):
    sink = pa.BufferOutputStream()
    orc.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), sink, compression=codec)
    if numbers:
        [(_, data, second)] = streams_of(sink.getvalue().to_pybytes(), 1)
        assert orc_runs.signed_range(data, second=second) == (min(numbers), max(numbers))


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_have_a_range_or_are_corrupt(data, second):
    try:
        found = orc_runs.signed_range(data, second=second)
    except Corrupt:
        return
    assert found is None or found[0] <= found[1]


@pytest.mark.parametrize("run", ["c0277f00", "c0ffff427f", "c0270100", "c0274e00", "02 4f"])
@pytest.mark.parametrize("codec", ["none", "zlib"])
def test_scales_that_no_decimal_has_are_corrupt_and_reading_ends(tmp_path, run, codec):
    """Arrow multiplied by ten as often as a scale of -64 says, and came to no end."""
    t = lk.create(tmp_path / "t", {"id": "INT", "v": "DECIMAL(38, 10)"}, options={"file.format": "orc", "file.compression": codec})
    t.append([{"id": number, "v": number} for number in range(40)])
    file = damaged_tables.targets(tmp_path / "t", "data")[0]
    sound = file.read_bytes()
    orc_bounds.check_tail_and_streams(str(file), sound)
    file.write_bytes(with_stream(sound, (5, 2), bytes.fromhex(run)))
    with pytest.raises(Corrupt, match="decimals of scales") as wrong:
        orc_bounds.check_tail_and_streams(str(file), file.read_bytes())
    assert wrong.value.path == str(file)


@pytest.mark.parametrize(
    ("data", "second", "total"),
    [
        ("0205", True, 25),  # five times five
        ("c0040201", True, None),  # 2, then one less each time, five times: below zero
        ("c0040a01", True, 40),  # 10, 9, 8, 7, 6
        ("0a2710", True, 50_000),  # the four examples of the specification
        ("5e035ca1ab1edeadbeef", True, 23713 + 43806 + 57005 + 48879),
        ("c609020222424246", True, 2 + 3 + 5 + 7 + 11 + 13 + 17 + 19 + 23 + 29),
        ("8e132b2107d01e0014702832 3c46505a646e78828c96a0aab4befce8", True, 2030 + 2000 + 2020 + 1_000_000 + sum(range(2040, 2200, 10))),
        ("c2040a0100", True, 10 + 9 + 9 + 9 + 9),
        ("c2040a01", True, 0),  # the steps are missing: left to Arrow
        ("c0040200", True, 10),
        ("020102", False, 20),  # 2, 3, 4, 5, 6
        ("02ff02", False, None),  # 2, 1, 0, -1, -2
        ("fe0507", False, 12),
        ("38ffffffffffffffff", True, None),  # a repeated value of eight bytes
    ],
)
def test_runs_are_bounded(data, second, total):
    if total is None:
        with pytest.raises(Corrupt, match="a length of "):
            orc_runs.sum_lengths(bytes.fromhex(data), second=second)
    else:
        assert orc_runs.sum_lengths(bytes.fromhex(data), second=second) == total


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_are_bounded_or_corrupt(data, second):
    try:
        assert orc_runs.sum_lengths(data, second=second) >= 0
    except Corrupt as wrong:
        assert "a length" in str(wrong)


def test_lengths_below_zero_are_corrupt_and_the_process_lives(tmp_path):
    """One flipped bit: Arrow read where nothing is, and the process ended."""
    t = lk.create(tmp_path / "t", {"id": "BIGINT", "v": "STRING"}, options={"file.format": "orc"})
    t.append([{"id": i, "v": f"v{i % 3}"} for i in range(20)])
    file = damaged_tables.targets(tmp_path / "t", "data")[0]
    data = bytearray(file.read_bytes())
    data[length_stream(bytes(data))[1] - 1] ^= 1
    file.write_bytes(data)
    with Child() as child:
        answer = child.ask(f"{CALLS}scan_table", str(tmp_path / "t").encode())
    assert answer.end == "error", answer
    assert "a length of -" in str(answer.found)
    assert file.name in str(answer.found)


def test_a_decimal_of_too_many_digits_is_corrupt():
    sink = pa.BufferOutputStream()
    orc.write_table(pa.table({"x": pa.array([1], pa.decimal128(10, 2))}), sink, compression="uncompressed")
    data = sink.getvalue().to_pybytes()
    at = data.index(bytes([40, 10, 48, 2])) - 2
    with pytest.raises(Corrupt, match="a decimal of 99 digits"):
        orc_bounds.check_tail_and_streams("a.orc", data[: at + 3] + bytes([99]) + data[at + 4 :])


@pytest.mark.parametrize(("rows", "nested"), [(40, "ARRAY<INT>"), (40, "MAP<INT, INT>"), (40, "ARRAY<ROW<a INT>>"), (40, "ARRAY<ARRAY<INT>>")])
@pytest.mark.parametrize("codec", ["none", "zlib", "zstd", "snappy"])
def test_lists_of_more_values_than_there_are_are_corrupt_and_the_process_lives(tmp_path, rows, nested, codec):
    """Lists of 2^28 values each: Arrow counted beyond 32 bits, read where nothing is, and the process ended."""
    t = lk.create(tmp_path / "t", {"id": "BIGINT", "v": nested}, options={"file.format": "orc", "file.compression": codec})
    one = {"ARRAY<INT>": [1, 2], "MAP<INT, INT>": {1: 2, 3: 4}, "ARRAY<ROW<a INT>>": [{"a": 1}, {"a": 2}], "ARRAY<ARRAY<INT>>": [[1], [2]]}[nested]
    t.append([{"id": i, "v": one} for i in range(rows)])
    file = damaged_tables.targets(tmp_path / "t", "data")[0]
    sound = file.read_bytes()
    assert lk.open(tmp_path / "t").scan().collect().height == rows
    for length in (1 << 20, 1 << 28, (1 << 31) // rows + 1, 1 << 40):
        file.write_bytes(with_lengths(sound, 2, length, rows))
        with pytest.raises(Corrupt, match="at most") as wrong:
            orc_bounds.check_tail_and_streams(str(file), file.read_bytes())
        assert wrong.value.path == str(file)


def with_lengths(data: bytes, column: int, length: int, rows: int) -> bytes:
    """The file with as many lengths, all the same, in the LENGTH stream of a column."""
    run = bytearray([0xC0 | (rows - 1) >> 8, (rows - 1) & 255])
    append_varint(run, length)
    run.append(0)
    return with_stream(data, (2, column), bytes(run))


def with_stream(data: bytes, wanted: tuple[int, int], run: bytes) -> bytes:
    """The file with other bytes in the stream of its only stripe that has a kind and a column."""
    tail = orc_tail.parse_tail(data)
    stripe = tail.stripes[-1]
    at, streams, index, body = stripe.offset, [], 0, b""
    footer = orc_tail.read_stripe_footer(tail, stripe)
    for stream in orc_tail.bytes_members(footer, 1):
        members = orc_tail.parse_members(stream)
        kind, of, size = (orc_tail.integer_member(members, number) for number in (1, 2, 3))
        made = orc_tail.store_chunks(run, tail) if (kind, of) == wanted else data[at : at + size]
        at, body, index = at + size, body + made, index + (len(made) if kind in (6, 7, 8) else 0)
        members = [orc_tail.ProtobufField(number, value) for number, value in ((1, kind), (2, of), (3, len(made)))]
        streams.append(orc_tail.ProtobufField(1, orc_tail.build_message(members)))
    end = orc_tail.store_chunks(orc_tail.build_message([*streams, *(part for part in footer if part.field_number != 1)]), tail)
    sizes = {2: index, 3: len(body) - index, 4: len(end)}
    numbers = [at for at, part in enumerate(tail.footer) if part.field_number == 3]
    members = [part._replace(value=sizes.get(part.field_number, part.value)) for part in orc_tail.parse_members(tail.footer[numbers[-1]].value)]
    whole = [part._replace(value=orc_tail.build_message(members)) if at == numbers[-1] else part for at, part in enumerate(tail.footer)]
    tail_end = orc_tail.store_chunks(orc_tail.build_message(whole), tail)
    said = orc_tail.build_message([part._replace(value={1: len(tail_end), 5: 0}.get(part.field_number, part.value)) for part in tail.postscript])
    return data[: stripe.offset] + body + end + tail_end + said + bytes([len(said)])


INPUTS = int(os.environ.get("LAKEKIT_FUZZ_INPUTS", "25"))
SEED = int(os.environ.get("LAKEKIT_FUZZ_SEED", "1"))


def every_stream(data: bytes) -> list[tuple[int, int, bytes]]:
    """Kind, column and inflated bytes of each stream of the first stripe."""
    tail = orc_tail.parse_tail(data)
    at, found = tail.stripes[0].offset, []
    for stream in orc_tail.bytes_members(orc_tail.read_stripe_footer(tail, tail.stripes[0]), 1):
        kind, column, length = (orc_tail.integer_member(orc_tail.parse_members(stream), number) for number in (1, 2, 3))
        found.append((kind, column, orc_tail.inflate_all(data[at : at + length], tail.codec, tail.block_bytes)))
        at += length
    return found


@pytest.mark.parametrize("name", ["orc append", "orc keys", "orc many"])
def test_no_changed_stream_ends_the_process_or_keeps_it(tmp_path, name):
    """Law: a stream is inflated, changed and stored again, so that codecs find nothing; reading gives rows or `Corrupt`, soon."""
    t = damaged_tables.make(tmp_path / "t", name)
    if name == "orc many":
        t.overwrite(damaged_tables.rows(3000))
    file = max(damaged_tables.targets(tmp_path / "t", "data"), key=lambda one: one.stat().st_size)
    sound, draw, ends = file.read_bytes(), random.Random(f"{SEED} {name}"), Counter()
    streams = [one for one in every_stream(sound) if one[2]]
    with Child(seconds=30) as child:
        for _ in range(INPUTS):
            kind, column, data = draw.choice(streams)
            run = damaged_tables.damaged(data, draw) if draw.random() < 0.6 else draw.randbytes(draw.randrange(1, 12)) + data
            file.write_bytes(with_stream(sound, (kind, column), run))
            answer = child.ask("spec_tests.reliability.test_orc_bounds:read_orc", str(file).encode())
            assert answer.end in ("value", "error"), (answer, kind, column, run.hex())
            ends[answer.end] += 1
    assert ends["value"] and ends["error"], ends


def read_orc(path: bytes) -> int:
    """Reads the columns of a file of `damaged_tables` as scans do; gives its rows."""
    fields = [Field(name, parse(kind)) for name, kind in damaged_tables.COLUMNS.items()]
    return orc_files.scan([path.decode()], fields, read=lambda one: one).collect().height


# ---- stripes of any size -------------------------------------------------------------------------------------------------------------------


def put_run(value: int, count: int) -> bytes:
    """The bytes of one run of equal values: repeated up to ten times, direct above."""
    if 3 <= count <= 10:
        size = max(1, (value.bit_length() + 7) // 8)
        return bytes([(size - 1) << 3 | (count - 3)]) + value.to_bytes(size, "big")
    width = next(width for width in orc_runs._BIT_WIDTHS if width >= max(1, value.bit_length()) and width % 8 == 0)
    head = 0x40 | orc_runs._BIT_WIDTHS.index(width) << 1 | (count - 1) >> 8
    return bytes([head, (count - 1) & 255]) + value.to_bytes(width // 8, "big") * count


BAD_RUNS = {
    "repeated below zero": "38ffffffffffffffff",
    "repeated, gigabytes": "20 4000000000",
    "direct below zero": "7e02 ffffffffffffffff 0000000000000000 0000000000000001",
    "direct, gigabytes": "7e02 0000004000000000 0000000000000000 0000000000000001",
    "fixed steps below zero": "c0040201",
    "steps below zero": "c2020101c0",
    "patched, gigabytes": "8e02 3b41 0001 010203 003fffffff",
    "delta, gigabytes": "c002808080800400",
}
"""Runs of a few lengths that no file has."""


@pytest.mark.parametrize("kind", ["STRING", "ARRAY<INT>"])
def test_a_bad_length_of_a_big_stripe_is_corrupt_and_the_process_lives(tmp_path, kind):
    """More than 2 KiB of lengths were left to Arrow, which read where nothing is, or allocated gigabytes."""
    file = tmp_path / ("list.orc" if kind == "ARRAY<INT>" else "text.orc")
    with Child() as child:
        for (name, bad), at, codec in itertools.product(BAD_RUNS.items(), (0, 700, 1399), ("none", "zstd")):
            runs = [put_run(5 - number % 2, 3) for number in range(1400)]
            runs[at] = bytes.fromhex(bad)
            file.write_bytes(big_file(codec, kind, runs))
            if at == 700:
                answer = child.ask("spec_tests.reliability.test_orc_bounds:read_one", str(file).encode())
                assert answer.end == "error", (name, codec, answer)
                assert answer.peak_bytes < 1 << 30, (name, codec, answer)
            with pytest.raises(Corrupt, match=r"a length of -|a length below zero|a length of \d|texts of|lists of") as wrong:
                orc_bounds.check_tail_and_streams(str(file), file.read_bytes())
            assert wrong.value.path == str(file)


def big_file(codec: str, kind: str, runs: list[bytes]) -> bytes:
    """A file of 4200 rows whose column `v` has these runs of lengths."""
    sink = pa.BufferOutputStream()
    values = {"STRING": ["x" * 5] * 4200, "ARRAY<INT>": [[1] * 5] * 4200}[kind]
    arrow = {"STRING": pa.string(), "ARRAY<INT>": pa.list_(pa.int32())}[kind]
    compression = "uncompressed" if codec == "none" else codec
    orc.write_table(pa.table({"v": pa.array(values, arrow)}), sink, compression=compression, dictionary_key_size_threshold=0.0)
    return with_stream(sink.getvalue().to_pybytes(), (2, 1), b"".join(runs))


def read_one(path: bytes) -> int:
    """Reads the column `v` of a file of `big_file` as scans do; gives its rows."""
    kind = "ARRAY<INT>" if path.endswith(b"list.orc") else "STRING"
    return orc_files.scan([path.decode()], [Field("v", parse(kind))], read=lambda one: one).collect().height


sound_runs = st.one_of(
    st.tuples(st.integers(0, 300), st.integers(3, 10)).map(lambda run: put_run(*run)),
    st.tuples(st.integers(0, 70_000), st.integers(1, 512)).map(lambda run: put_run(*run)),
    st.tuples(st.integers(0, 23), st.integers(0, 511), st.binary(min_size=1, max_size=1)).map(
        lambda run: bytes([0x40 | run[0] << 1 | run[1] >> 8, run[1] & 255]) + run[2] * (((run[0] + 1) * (run[1] + 1) + 7) // 8)
    ),
    st.sampled_from([bytes.fromhex(run) for run in ("c0ff0500", "c00a0502", "c0040a01", "c203050430", "c609020222424246", "5e035ca1ab1edeadbeef")]),
    st.just(bytes.fromhex("8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8")),
)


@given(
    runs=st.lists(sound_runs, min_size=1, max_size=12),
    order=st.randoms(use_true_random=False),
    bad=st.one_of(st.none(), st.sampled_from(sorted(BAD_RUNS))),
    length=st.sampled_from([1, 700, 3000, 3000, 30_000]),
)
def test_lengths_of_streams_of_any_size_are_bounded(runs, order, bad, length):
    """Law: a bound is no less than the sum, is the sum where it is too much, and no length below zero is passed over."""
    made = [order.choice(runs) for _ in range(1 + length // (1 + max(map(len, runs))))]
    if bad is not None:
        made.insert(order.randrange(len(made) + 1), bytes.fromhex(BAD_RUNS[bad]))
    data = b"".join(made)
    try:
        total = orc_runs.sum_lengths(data, second=True)
    except Corrupt:
        for most in (0, 1 << 62):
            with pytest.raises(Corrupt, match="a length"):
                orc_runs.bound_sum(data, second=True, maximum=most)
        return
    assert orc_runs.bound_sum(data, second=True, maximum=0) == total
    assert orc_runs.bound_sum(data, second=True, maximum=total) == total
    assert total <= orc_runs.bound_sum(data, second=True, maximum=1 << 62) <= 1 << 62
    assert orc_runs.count_numbers(data, second=True) == sum(orc_runs.count_numbers(run, second=True) for run in made)


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_hold_a_number_of_numbers_or_are_corrupt(data, second):
    assert orc_runs.count_bytes(data) >= 0
    try:
        assert orc_runs.count_numbers(data, second=second) >= 0
    except Corrupt as wrong:
        assert "64 bits" in str(wrong)


@given(numbers=whole, codec=st.sampled_from(["uncompressed", "zlib"]))
def test_numbers_of_arrow_are_counted_exactly(numbers, codec):
    sink = pa.BufferOutputStream()
    orc.write_table(pa.table({"n": pa.array(numbers, pa.int64()), "b": pa.array([n % 100 for n in numbers], pa.int8())}), sink, compression=codec)
    if numbers:
        (_, ints, second), (_, some, _) = streams_of(sink.getvalue().to_pybytes(), 1)
        assert orc_runs.count_numbers(ints, second=second) == orc_runs.count_bytes(some) == len(numbers)


@pytest.mark.parametrize("bad", ["c0277f00", "7e00 4000000000000001", "5e03ffffffffffffffff"])
def test_scales_behind_the_first_128_kib_are_checked(bad):
    """Arrow multiplied by ten without end; small numbers are passed, as the law of changed streams shows."""
    sound = put_run(4, 3) * 70_000
    orc_runs.check_signed(sound, second=True, low=0, high=38)
    with pytest.raises(Corrupt, match="numbers of"):
        orc_runs.check_signed(sound + bytes.fromhex(bad) + sound, second=True, low=0, high=38)


COUNT = 200_000
ALIKE = {
    "BOOLEAN": pa.array(np.ones(COUNT, bool)),
    "TINYINT": pa.array(np.ones(COUNT, np.int8)),
    "BIGINT": pa.array(np.ones(COUNT, np.int64)),
    "DOUBLE": pa.array(np.ones(COUNT)),
    "ROW": pa.StructArray.from_arrays([pa.nulls(COUNT, pa.int32())], ["a"]),
    "ARRAY": pa.ListArray.from_arrays(pa.array(np.arange(10_001, dtype=np.int32)), pa.array(np.ones(10_000, np.int32))),
}


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("codec", ["uncompressed", "zstd"])
def test_many_equal_values_of_lists_are_no_damage(monkeypatch, name, codec):
    """A few bytes hold as many values as lists have: they are counted before the lists are called wrong."""
    monkeypatch.setattr(orc_bounds, "_SLACK_VALUES", 0)
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, len(ALIKE[name]) + 1, 500, dtype=np.int32)), ALIKE[name])
    sink = pa.BufferOutputStream()
    orc.write_table(pa.table({"v": lists}), sink, compression=codec)
    data = sink.getvalue().to_pybytes()
    orc_bounds.check_tail_and_streams("a.orc", data)
    for length in (1 << 20, 1 << 31):
        with pytest.raises(Corrupt, match="at most"):
            orc_bounds.check_tail_and_streams("a.orc", with_lengths(data, 1, length, len(lists)))


@pytest.mark.parametrize("codec", ["zlib", "zstd", "snappy", "lz4"])
def test_a_chunk_that_inflates_to_more_than_a_block_is_corrupt(codec):
    sink = pa.BufferOutputStream()
    orc.write_table(pa.table({"v": ["x" * (1 + n % 90) for n in range(20_000)]}), sink, compression=codec, compression_block_size=1 << 16)
    data = sink.getvalue().to_pybytes()
    tail = orc_tail.parse_tail(data)
    with pytest.raises(Corrupt, match="a chunk"):
        orc_tail.inflate_all(data[3:][: tail.stripes[0].index_bytes + tail.stripes[0].data_bytes], tail.codec, 1000)
