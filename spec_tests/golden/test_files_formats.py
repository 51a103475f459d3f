"""Data files of the three formats as the reference wrote them: every type, compression and layout; damaged ones raise what they must."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from lakekit.errors import Corrupt, LakekitError, LimitExceeded, Unsupported, ValueOutOfRange
from lakekit.testing.fixtures import broken_cases, golden_cases
from lakekit.testing.golden.checks import check_golden_file, projected_fields, scan_golden_file
from lakekit.types import Field, parse
from spec_tests.places import FIXTURES


@pytest.mark.parametrize("path", golden_cases("data_file_avro", "data_file_orc", "data_file_parquet"), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_file_reads_as_the_reference_wrote_it(path):
    check_golden_file(path)


def test_a_time_that_nanoseconds_cannot_hold_is_refused_with_column_and_file():
    case = Path(FIXTURES) / "formats/data_file_parquet/all_types.json"
    facts = json.loads(case.read_text(encoding="utf-8"))
    path = str(case.with_suffix(".bin"))
    frame = scan_golden_file("parquet", path, projected_fields(facts))
    for wanted in (frame, frame.select("c26"), frame.select("c01", "c26").filter(pl.col("c26").is_not_null())):
        with pytest.raises(ValueOutOfRange, match="1677") as refusal:
            wanted.collect()
        assert (refusal.value.column, refusal.value.path) == ("c26", path)
        assert "expression" not in refusal.value.message
    assert frame.select("c00").collect().height == len(facts["rows"])


BROKEN = [path for path in broken_cases() if path.parent.name.startswith("data_file_")]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: f"{case.parent.name}-{case.stem}")
def test_a_damaged_file_is_named(case):
    facts = json.loads(case.read_text(encoding="utf-8"))
    kind = {one.__name__: one for one in (Corrupt, LimitExceeded, Unsupported)}[facts["error"].split(":")[0]]
    path = case.with_suffix(".bin")
    with pytest.raises(kind) as refusal:
        scan_golden_file(case.parent.name.removeprefix("data_file_"), str(path), projected_fields(facts), data=path.read_bytes()).collect()
    assert refusal.value.path == str(path)


@pytest.mark.parametrize("format_name", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("share", [0, 0.01, 0.3, 0.6, 0.9, 0.999])
def test_a_cut_file_is_corrupt(format_name, share, tmp_path):
    whole = Path(FIXTURES) / f"formats/data_file_{format_name}/compression_snappy.bin"
    data = whole.read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(LakekitError) as refusal:
        scan_golden_file(format_name, str(cut), [Field("i", parse("INT"), id=0), Field("s", parse("STRING"), id=1)], data=cut.read_bytes()).collect()
    assert refusal.value.path == str(cut)


def test_a_missing_column_is_null_and_another_type_is_refused(tmp_path):
    for format_name in ("parquet", "orc", "avro"):
        path = str(Path(FIXTURES) / f"formats/data_file_{format_name}/compression_snappy.bin")
        fields = [Field("gone", parse("ARRAY<INT>"), id=7), Field("s", parse("STRING"), id=1)]
        frame = scan_golden_file(format_name, path, fields, data=Path(path).read_bytes()).collect()
        assert frame["gone"].null_count() == frame.height > 0
        assert frame.schema["gone"] == pl.List(pl.Int32)
        assert scan_golden_file(format_name, path, [Field("gone", parse("INT"), id=7)], data=Path(path).read_bytes()).collect().height == frame.height
        with pytest.raises(Corrupt):
            scan_golden_file(format_name, path, [Field("s", parse("ARRAY<INT>"), id=1)], data=Path(path).read_bytes()).collect()
