"""Golden data files in Parquet, ORC and Avro: every type, compression and layout, bytes and paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit.columns import col
from lakekit.format import avro, orc, parquet
from lakekit.testing.expectations import Read, difference
from lakekit.testing.fixtures import fixtures
from lakekit.testing.golden.comparison import Mismatch, check_equal
from lakekit.types import Field, parse

if TYPE_CHECKING:
    from collections.abc import Callable


def fields_of(facts: dict[str, Any]) -> list[Field]:
    """Return the columns to read."""
    ids = facts.get("field_ids") or range(len(facts["columns"]))
    return [
        Field(name, parse(text), id=number)
        for name, text, number in zip(facts["columns"], facts["types"], ids, strict=True)
    ]


def scan(
    format_name: str, path: str, fields: list[Field], *, data: bytes | None = None, unit: str | None = None
) -> pl.LazyFrame:
    """Return the rows of a data file: of `data`, and where that is None of the file at `path`."""

    def read(_: str) -> Any:
        return path if data is None else data

    scans: dict[str, Callable[[], pl.LazyFrame]] = {
        "parquet": lambda: (
            parquet.scan([path], fields, paths=[path], timestamp_unit=unit)
            if data is None
            else parquet.scan_bytes([path], fields, read=read, timestamp_unit=unit)
        ),
        "orc": lambda: orc.scan([path], fields, read=read),
        "avro": lambda: avro.scan([path], fields, read=read),
    }
    return scans[format_name]()


def files(facts: dict[str, Any], data: bytes) -> None:
    """Check the formats data_file_*: the rows in their order, some of them, and one column alone."""
    fields = fields_of(facts)
    unit = "us" if (facts["format"], facts["case"]) == ("data_file_parquet", "all_types") else None  # times before 1677
    path = str(fixtures("formats") / "formats" / facts["format"] / f"{facts['case']}.bin")
    rows = [("+I", tuple(_truncate_timestamps(row, fields) if unit else row)) for row in facts["rows"]]
    for content in (None, data) if facts["file_format"] != "avro" else (data,):
        frame = scan(facts["file_format"], path, fields, data=content, unit=unit)
        for what, frame_read, wanted in (
            ("rows", frame.collect(), rows),
            ("the first two rows", frame.head(2).collect(), rows[:2]),
        ):
            wrong = difference(frame_read, _recorded_read(facts, fields, wanted), ordered=True)
            if wrong is not None:
                raise Mismatch(what, "the recorded rows", wrong)
        check_equal("how many rows", frame.select(pl.len()).collect().item(), len(rows))
        last = frame.select(col(fields[-1].name)).with_row_index("n").filter(pl.col("n") == len(rows) - 1).collect()
        check_equal(
            "one column",
            last.equals(frame.collect().select(col(fields[-1].name)).with_row_index("n").tail(1)),
            expected=True,
        )


def _recorded_read(facts: dict[str, Any], fields: list[Field], rows: list[Any]) -> Read:
    types = tuple(field.type for field in fields)
    return Read(
        name=facts["case"],
        branch=None,
        system=None,
        options={},
        columns=tuple(facts["columns"]),
        types=types,
        rows=tuple(rows),
        error=None,
    )


def _truncate_timestamps(row: list[Any], fields: list[Field]) -> list[Any]:
    """Return a row with timestamps cut toward zero, as Polars cuts INT96."""
    fine = [field.type.root.startswith("TIMESTAMP") and (field.type.precision or 0) > 6 for field in fields]
    return [
        _truncate_to_micros(value) if cut and value is not None else value for value, cut in zip(row, fine, strict=True)
    ]


def _truncate_to_micros(value: list[int]) -> list[int]:
    nanos = value[0] * 1_000_000 + value[1]
    micros = abs(nanos) // 1000 * (1 if nanos >= 0 else -1)
    return [micros // 1000, micros % 1000 * 1000]
