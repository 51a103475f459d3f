"""A ROW of which a file has no part any more: null, as the engine reads it, through lists, maps and rows, in every format, lakekit and the engine alike."""

from __future__ import annotations

import pytest

import lakekit as lk
from lakekit.testing.expectations import describe_difference

pytestmark = pytest.mark.reference
ROW = {"a": 5}
COLUMNS = {
    "row": ("ROW<a INT>", ROW, ["r"]),
    "list": ("ARRAY<ROW<a INT>>", [ROW, None, ROW], ["r", "element"]),
    "list_of_lists": ("ARRAY<ARRAY<ROW<a INT>>>", [[ROW], []], ["r", "element", "element"]),
    "map": ("MAP<STRING, ROW<a INT>>", {"x": ROW}, ["r", "value"]),
    "map_of_lists": ("MAP<STRING, ARRAY<ROW<a INT>>>", {"x": [ROW]}, ["r", "value", "element"]),
    "row_alone_in_a_row": ("ROW<x ROW<a INT>>", {"x": ROW}, ["r", "x"]),
    "row_in_a_row": ("ROW<x ROW<a INT>, y INT>", {"x": ROW, "y": 1}, ["r", "x"]),
    "list_in_a_row": ("ROW<x ARRAY<ROW<a INT>>, y INT>", {"x": [ROW], "y": 1}, ["r", "x", "element"]),
    "map_in_a_row": ("ROW<x MAP<INT, ROW<a INT>>, y INT>", {"x": {1: ROW}, "y": 1}, ["r", "x", "value"]),
    "rows_in_a_list": ("ARRAY<ROW<x ROW<a INT>, y INT>>", [{"x": ROW, "y": 1}], ["r", "element", "x"]),
    "one_part_of_two": ("ROW<a INT, c INT>", {"a": 1, "c": 2}, ["r"]),
}  # fmt: skip


@pytest.mark.parametrize("format_name", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "key"])
def test_both_read_the_same(judge, tmp_path, format_name, keyed):
    wrong = []
    for name, (type_text, value, path) in COLUMNS.items():
        table = lk.create(
            tmp_path / name,
            {"k": "INT", "r": type_text},
            primary_keys=["k"] if keyed else (),
            options={"file.format": format_name, **({"bucket": "1"} if keyed else {})},
        )
        table.append([{"k": 1, "r": value}, {"k": 2, "r": None}])
        part = ".".join(path)
        table.alter(lk.add_column(f"{part}.b", "INT"), lk.drop_column(f"{part}.a"))
        for written in (False, True):  # beside rows with the new part, then written anew
            if written:
                table.append([{"k": 3, "r": None}])
                table.compact(full=True)
            found = describe_difference(table.scan().collect(), judge.read(str(tmp_path / name)))
            if found is not None:
                wrong.append(f"{name}, compacted {written}: {found}")
    assert not wrong, "\n".join(wrong)
