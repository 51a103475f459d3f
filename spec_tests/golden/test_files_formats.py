"""Data files of the three formats as the reference wrote them: every type, compression and layout; damaged ones raise what they must."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from lakekit.errors import Corrupt, LakekitError, LimitExceeded, Unsupported, ValueOutOfRange
from lakekit.format import avro, orc, parquet
from lakekit.testing.expectations import FIXTURES, Read, difference
from lakekit.types import Field, parse

CASES = sorted(Path(FIXTURES).glob("formats/data_file_*/*.json"))
BROKEN = sorted(Path(FIXTURES).glob("broken/data_file_*/*.json"))


def fields_of(facts):
    ids = facts.get("field_ids") or range(len(facts["columns"]))
    return [Field(name, parse(text), id=number) for name, text, number in zip(facts["columns"], facts["types"], ids, strict=True)]


def scan(format_name, path, fields, *, from_bytes=False, unit=None):
    data = Path(path).read_bytes()
    match format_name:
        case "parquet" if from_bytes:
            return parquet.scan_bytes([path], fields, read=lambda _: data, timestamp_unit=unit)
        case "parquet":
            return parquet.scan([path], fields, paths=[path], timestamp_unit=unit)
        case "orc":
            return orc.scan([path], fields, read=lambda _: data if from_bytes else path)
        case "avro":
            return avro.scan([path], fields, read=lambda _: data)
    raise AssertionError(format_name)


@pytest.mark.parametrize("from_bytes", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.stem}")
def test_a_file_reads_as_the_reference_wrote_it(case, from_bytes):
    facts = json.loads(case.read_text(encoding="utf-8"))
    fields = fields_of(facts)
    unit = "us" if (case.parent.name, case.stem) == ("data_file_parquet", "all_types") else None  # times before 1677
    frame = scan(facts["file_format"], str(case.with_suffix(".bin")), fields, from_bytes=from_bytes, unit=unit)
    rows = tuple(("+I", tuple(in_microseconds(row, fields) if unit else row)) for row in facts["rows"])
    types = tuple(field.type for field in fields)
    read = Read(name=case.stem, branch=None, system=None, options={}, columns=tuple(facts["columns"]), types=types, rows=rows, error=None)
    assert difference(frame.collect(), read, ordered=True) is None
    assert frame.select(pl.len()).collect().item() == len(rows)
    assert difference(frame.head(2).collect(), Read(**{**facts_of(read), "rows": rows[:2]}), ordered=True) is None
    last = frame.select(fields[-1].name).with_row_index("n").filter(pl.col("n") == len(rows) - 1).collect()
    assert last.equals(frame.collect().select(fields[-1].name).with_row_index("n").tail(1))


def in_microseconds(row, fields):
    """Polars cuts INT96 off toward zero."""
    fine = [field.type.root.startswith("TIMESTAMP") and field.type.precision > 6 for field in fields]
    return [cut_off(value) if cut and value is not None else value for value, cut in zip(row, fine, strict=True)]


def cut_off(value):
    nanos = value[0] * 1_000_000 + value[1]
    micros = abs(nanos) // 1000 * (1 if nanos >= 0 else -1)
    return [micros // 1000, micros % 1000 * 1000]


def test_a_time_that_nanoseconds_cannot_hold_is_refused_with_column_and_file():
    case = Path(FIXTURES) / "formats/data_file_parquet/all_types.json"
    facts = json.loads(case.read_text(encoding="utf-8"))
    path = str(case.with_suffix(".bin"))
    frame = scan("parquet", path, fields_of(facts))
    for wanted in (frame, frame.select("c26"), frame.select("c01", "c26").filter(pl.col("c26").is_not_null())):
        with pytest.raises(ValueOutOfRange, match="1677") as refusal:
            wanted.collect()
        assert (refusal.value.column, refusal.value.path) == ("c26", path)
        assert "expression" not in refusal.value.message
    assert frame.select("c00").collect().height == len(facts["rows"])


def facts_of(read):
    return {name: getattr(read, name) for name in ("name", "branch", "system", "options", "columns", "types", "rows", "error")}


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: f"{case.parent.name}-{case.stem}")
def test_a_damaged_file_raises_what_it_must(case):
    facts = json.loads(case.read_text(encoding="utf-8"))
    kind = {one.__name__: one for one in (Corrupt, LimitExceeded, Unsupported)}[facts["error"].split(":")[0]]
    path = str(case.with_suffix(".bin"))
    format_name = case.parent.name.removeprefix("data_file_")
    with pytest.raises(kind) as refusal:
        scan(format_name, path, fields_of(facts), from_bytes=True).collect()
    assert refusal.value.path == path


@pytest.mark.parametrize("format_name", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("share", [0, 0.01, 0.3, 0.6, 0.9, 0.999])
def test_a_cut_file_is_corrupt(format_name, share, tmp_path):
    whole = Path(FIXTURES) / f"formats/data_file_{format_name}/compression_snappy.bin"
    data = whole.read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(LakekitError) as refusal:
        scan(format_name, str(cut), [Field("i", parse("INT"), id=0), Field("s", parse("STRING"), id=1)], from_bytes=True).collect()
    assert refusal.value.path == str(cut)


def test_a_missing_column_is_null_and_another_type_is_refused(tmp_path):
    for format_name in ("parquet", "orc", "avro"):
        path = str(Path(FIXTURES) / f"formats/data_file_{format_name}/compression_snappy.bin")
        frame = scan(format_name, path, [Field("gone", parse("ARRAY<INT>"), id=7), Field("s", parse("STRING"), id=1)], from_bytes=True).collect()
        assert frame["gone"].null_count() == frame.height > 0
        assert frame.schema["gone"] == pl.List(pl.Int32)
        assert scan(format_name, path, [Field("gone", parse("INT"), id=7)], from_bytes=True).collect().height == frame.height
        with pytest.raises(Corrupt):
            scan(format_name, path, [Field("s", parse("ARRAY<INT>"), id=1)], from_bytes=True).collect()
