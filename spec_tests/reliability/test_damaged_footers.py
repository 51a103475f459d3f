"""Footers of Parquet files that contradict themselves: nothing asks Arrow for what ends the process."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

import lakekit as lk
from lakekit.format import parquet, thrift
from spec_tests.reliability import damaged_tables
from spec_tests.reliability.children import Child

if TYPE_CHECKING:
    from pathlib import Path

CALLS = "spec_tests.reliability.damaged_calls:"


def with_footer(data: bytes, change) -> bytes:
    """The file with another footer, of as many bytes: `change` is called with it, decoded; who wrote it is cut or made longer."""
    length = int.from_bytes(data[-8:-4], "little")
    footer, _ = thrift.decode_struct(data, len(data) - 8 - length)
    change(footer)
    for _ in range(2):
        missing = length - len(thrift.encode_struct(footer))
        writer = bytes(footer[6][1])
        footer[6] = (thrift.BINARY, writer[: len(writer) + missing].ljust(len(writer) + missing))
    made = thrift.encode_struct(footer)
    assert len(made) == length
    return data[: -8 - length] + made + struct.pack("<I", length) + b"PAR1"


@pytest.fixture
def waiting(tmp_path) -> tuple[Path, Path]:
    """A table of keys whose files lie at level 0 and count no deletes, so that a scan looks at the bounds of their kinds; and one of the files."""
    table = lk.create(tmp_path / "t", {"id": "BIGINT", "v": "STRING"}, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    table.upsert([{"id": 1, "v": "a"}])
    file = damaged_tables.targets(tmp_path / "t", "data")[0]
    return tmp_path / "t", file


def test_a_column_of_another_type_than_the_schema_says_is_corrupt(waiting):
    """Arrow threw an exception that nobody may catch, and the process ended."""
    path, file = waiting

    def change(footer: thrift.Struct) -> None:
        element = next(one for one in footer[2][1][1] if one[4][1] == b"_VALUE_KIND")
        element[1] = (thrift.I32, 2)

    sound = file.read_bytes()
    file.write_bytes(with_footer(sound, change))
    with Child() as child:
        for call in ("scan_table", "walk_table", "walk_deeply"):
            answer = child.ask(f"{CALLS}{call}", str(path).encode())
            assert answer.end in ("value", "error"), answer
            if call == "scan_table":
                assert str(answer.found).startswith("Corrupt"), answer
                assert file.name in str(answer.found)


def column_of(footer: thrift.Struct, name: bytes) -> thrift.Struct:
    """What a footer says of a column in its first row group."""
    chunks = [chunk[3][1] for chunk in footer[4][1][1][0][1][1][1]]
    return next(one for one in chunks if one[3][1][1] == [name])


MEMBERS = [(1, 2), (1, 9), (2, [99]), (2, [-1]), (3, [b"w"]), (4, 15), (4, -1)]


@pytest.mark.parametrize(("member", "value"), MEMBERS)
@pytest.mark.parametrize("waits", [False, True])
def test_a_column_that_contradicts_the_schema_or_the_format_is_corrupt(tmp_path, member, value, waits):
    """Polars said "Thrift out of range" where a codec was none, and looked at other pages than lakekit had where a column had another name."""
    options = {"bucket": "1", "write-only": "true"} if waits else {}
    table = lk.create(tmp_path / "t", {"id": "INT", "v": "STRING"}, primary_keys=["id"] if waits else [], options=options)
    for number in range(2):
        (table.upsert if waits else table.append)([{"id": number, "v": "a"}])
    file = damaged_tables.targets(tmp_path / "t", "data")[0]

    def change(footer: thrift.Struct) -> None:
        facts = column_of(footer, b"v")
        kind, was = facts[member]
        facts[member] = (kind, (was[0], value) if kind == thrift.LIST else value)

    sound = file.read_bytes()
    file.write_bytes(with_footer(sound, change))
    for look in (lambda t: t.scan().collect(), lambda t: t.scan().select("v").collect(), lambda t: t.aggregate(pl.col("v").max())):
        with pytest.raises(lk.Corrupt) as wrong:
            look(lk.open(tmp_path / "t"))
        assert wrong.value.path == str(file)


GROUPS = st.lists(st.lists(st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)), max_size=4), max_size=4)


@given(GROUPS, st.booleans(), st.sampled_from([pa.int32(), pa.int64()]))
def test_bounds_are_those_that_arrow_tells(groups, first, kind):
    """Of sound files: what is read of the footer is what Arrow says, wherever the column stands."""
    fields = [("n", kind), ("s", pa.string())] if first else [("s", pa.string()), ("n", kind)]
    made = io.BytesIO()
    with pq.ParquetWriter(made, pa.schema(fields)) as writer:
        for numbers in groups:
            columns = {"n": pa.array(numbers, kind), "s": pa.array(["x"] * len(numbers), pa.string())}
            writer.write_table(pa.table({name: columns[name] for name, _ in fields}))
    footer = pq.read_metadata(io.BytesIO(made.getvalue()))
    at = [name for name, _ in fields].index("n")
    told = [footer.row_group(group).column(at).statistics for group in range(footer.num_row_groups)]
    known = bool(told) and all(one is not None and one.has_min_max and not one.null_count for one in told)
    assert parquet.integer_bounds(made.getvalue(), "n") == ((min(one.min for one in told), max(one.max for one in told)) if known else None)
    assert parquet.integer_bounds(made.getvalue(), "absent") is None


@given(st.randoms(use_true_random=False))
def test_bounds_of_a_damaged_footer_are_told_or_corrupt(draw):
    made = io.BytesIO()
    pl.DataFrame({"n": [3, 1, 2], "s": ["a", "b", None]}).write_parquet(made, row_group_size=2)
    data = made.getvalue()
    length = int.from_bytes(data[-8:-4], "little") + 8
    bad = data[:-length] + damaged_tables.damaged(data[-length:], draw)
    try:
        found = parquet.integer_bounds(bad, "n")
    except lk.LakekitError:
        return
    assert found is None or all(isinstance(one, int) for one in found)
