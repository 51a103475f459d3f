"""Marks cover whatever bytes there are: damaged files, bytes of chance, rows of every type."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.codec import binary_row, binary_value, index_files
from lakekit.codec.cursor import UNREAD_LABEL, Cursor, FieldSpan, SpanRecorder, innermost_spans
from lakekit.draw import hexdump as draw
from lakekit.inspection.hexdump_formats import HEX_FORMATS
from lakekit.testing.fixtures import fixtures
from lakekit.types import parse
from spec_tests.roundtrip.test_codec_binary_row import values

if TYPE_CHECKING:
    from lakekit.inspection.hexdump import Hex

TYPED = {
    "binary_row": "binary_row: ROW<a INT, b STRING, c ARRAY<BIGINT>, d DECIMAL(20, 2), e MAP<STRING, INT>, f TIMESTAMP(6), g VARIANT>",
    "binary_array": "binary_array: ARRAY<STRING>",
    "binary_map": "binary_map: MAP<INT, STRING>",
    **{f"file_index_{kind}": f"file_index_{kind}: STRING" for kind in ("bitmap", "bsi", "range_bitmap", "bloom_filter")},
}

TYPES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME(3)", "STRING", "BYTES", "DECIMAL(9, 2)", "DECIMAL(30, 4)"),
    *("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9) WITH LOCAL TIME ZONE", "VARIANT", "ARRAY<INT>", "ARRAY<STRING>", "ARRAY<ARRAY<BIGINT>>"),
    *("MAP<STRING, INT>", "MAP<INT, ARRAY<STRING>>", "MULTISET<STRING>", "ROW<a INT, b STRING, c ROW<d BYTES>>"),
)


@cache
def samples() -> list[tuple[str, bytes]]:
    """A golden file of each format, the smallest."""
    found = []
    for name in HEX_FORMATS:
        folder = fixtures() / "formats" / {"avro": "data_file_avro", "orc": "data_file_orc", "parquet": "data_file_parquet"}.get(name, name)
        files = sorted((path.stat().st_size, path) for path in folder.glob("*.bin"))
        found += [(name, path.read_bytes()) for _, path in files[-1:]]
    return [(name, data) for name, data in found if len(data) < 20_000]


def covered(shown: Hex) -> None:
    at = 0
    for mark in shown.spans:
        assert (mark.offset, mark.length > 0) == (at, True)
        at = mark.end
    assert at == len(shown.data)
    assert shown.error_at is None or 0 <= shown.error_at <= len(shown.data)
    assert repr(shown)
    assert "<script" not in shown._repr_html_()


@pytest.mark.parametrize("name", HEX_FORMATS)
@settings(max_examples=15, deadline=None)
@given(data=st.binary(max_size=80))
def test_bytes_of_chance(name, data):
    covered(lk.hex(data, format=TYPED.get(name, name)))


@settings(max_examples=80, deadline=None)
@given(chosen=st.data())
def test_damaged_files(chosen):
    name, data = chosen.draw(st.sampled_from(samples()))
    broken = bytearray(data)
    for _ in range(chosen.draw(st.integers(1, 3))):
        broken[chosen.draw(st.integers(0, len(broken) - 1))] = chosen.draw(st.integers(0, 255))
    shown = lk.hex(bytes(broken[: chosen.draw(st.integers(0, len(broken)))]), format=TYPED.get(name, name))
    covered(shown)
    for offset in shown.opens[:3]:
        covered(shown.open(offset))


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(chosen=st.data())
def test_rows_of_every_type_are_covered_and_decoded_as_without_marks(chosen):
    types = [parse(text) for text in chosen.draw(st.lists(st.sampled_from(TYPES), max_size=5))]
    row = binary_row.encode_row([chosen.draw(values(t)) for t in types], types)
    marks = SpanRecorder()
    read = binary_value.decode_row(binary_value.BoundedSlice.read_remaining(Cursor(row, spans=marks)), types)
    assert repr(read) == repr(binary_row.decode_row(row, types))
    found = innermost_spans(marks.spans, len(row))
    assert sum(mark.length for mark in found) == len(row)
    assert all(mark.field != UNREAD_LABEL for mark in found)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sets(st.integers(0, 2**34), max_size=30), max_size=3), st.sampled_from([32, 64]))
def test_vectors_say_all_their_positions(sets, bits):
    vectors = [index_files.np.array(sorted(one % 2**32 if bits == 32 else one for one in some), "u8") for some in sets]
    vectors = [index_files.np.unique(one) for one in vectors]
    data, _ = index_files.encode_vector_file(vectors, bits)
    shown = lk.hex(data, format="deletion_vectors")
    covered(shown)
    for number, wanted in enumerate(vectors):
        found = [mark.value for mark in shown.spans if mark.field.startswith(f"vector {number}.") and isinstance(mark.value, list)]
        assert sorted(position for some in found for position in some) == wanted.tolist()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=12), st.integers(0, 36))
def test_leaves_are_disjoint_and_whole(ranges, size):
    found = innermost_spans([FieldSpan(offset, length, str(i), i) for i, (offset, length) in enumerate(ranges)], size)
    at = 0
    for mark in found:
        assert mark.offset == at < mark.end
        at = mark.end
    assert at == size
    told: dict[int, Any] = {at: mark for mark in found for at in range(mark.offset, mark.end)}
    for at in range(size):
        over = [i for i, (offset, length) in enumerate(ranges) if offset <= at < offset + length]
        holding = [i for i in over if any(j != i and ranges[j][1] and _inside(ranges[j], ranges[i]) for j in range(len(ranges)))]
        assert told[at].value in over or (told[at].field == UNREAD_LABEL and holding == over)


def _inside(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[0] + inner[1] <= outer[0] + outer[1]


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=700), st.integers(0, 800), st.integers(1, 60), st.integers(20, 200), st.data())
def test_lines_show_every_byte_or_say_how_many_they_leave_out(data, start, lines, width, chosen):
    cuts = sorted({0, len(data), *chosen.draw(st.lists(st.integers(0, len(data)), max_size=6))})
    marks = [FieldSpan(low, high - low, f"field {low}", None) for low, high in pairwise(cuts)]
    at = start // 16 * 16
    for low, high in draw.line_ranges(data, marks, lines, start):
        assert low == at < high <= len(data)
        at = high
    text = draw.hexdump_text("heading", data, marks, start=start, lines=lines, width=width)
    assert all(len(line) <= width for line in text.splitlines())
