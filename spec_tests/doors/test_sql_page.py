"""SQL.md is true: its statements run in order, those that it says are refused are refused so, and its table of functions is the code's."""

from __future__ import annotations

import re

import pytest

import lakekit as lk
from lakekit import errors
from spec_tests.house.readme import function_table
from spec_tests.house.source import ROOT

PAGE = (ROOT / "notebooks" / "SQL.md").read_text(encoding="utf-8")
STATEMENT = re.compile(r"^(?P<text>.*?;)(?: +-- refused: (?P<error>\w+))?$", re.MULTILINE | re.DOTALL)


def test_the_table_of_functions_is_current():
    """`python -m spec_tests.house.readme functions` makes it."""
    assert PAGE.endswith(f"\n\n{function_table()}")


def test_the_statements_do_what_the_page_says(tmp_path):
    cat = lk.connect(tmp_path)
    ran = refused = 0
    for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL):
        for matched in STATEMENT.finditer(block):
            if matched["error"] is None:
                cat.sql(matched["text"]).collect()
                ran += 1
                continue
            with pytest.raises(getattr(errors, matched["error"])) as caught:
                cat.sql(matched["text"]).collect()
            assert type(caught.value).__name__ == matched["error"]
            refused += 1
    assert (ran, refused) == (23, 10)


def test_what_it_says_of_spark(tmp_path):
    cat = lk.connect(tmp_path)
    for text, here, spark in (
        ("SELECT 5 / 2 AS x", 2.5, 2.5),
        (r"SELECT 'a\nb' AS x", r"a\nb", "a\nb"),
        ("SELECT [7, 8][1] AS x", 7, None),
        ("SELECT array(7, 8)[0] AS x", None, 7),
        ("SELECT \"x\" FROM (SELECT 'y' AS x)", "y", "x"),
        ("SELECT size(array(1, 2)) AS x", None, 2),
        ("SELECT 5 DIV 2 AS x", None, 2),
        ("SELECT 5 // 2 AS x", 2, None),
    ):
        for dialect, value in (("lakekit", here), ("spark", spark)):
            if value is not None:
                assert cat.sql(text, dialect=dialect).collect().item() == value


def test_what_it_says_of_flink(tmp_path):
    cat = lk.connect(tmp_path)
    for text, error in {
        "CREATE TABLE w (a INT, t TIMESTAMP(3), WATERMARK FOR t AS t)": errors.Unsupported,
        "CREATE TABLE c (a INT, b AS a + 1)": errors.LakekitError,
        "SET 'execution.checkpointing.interval' = '1 min'": errors.InvalidOption,
    }.items():
        with pytest.raises(error):
            cat.sql(text)
