"""`$files` of a file that holds some of its schema's columns (`_WRITE_COLS`): bounds and null counts of those alone, as the engine shows them.

The engine names what the statistics hold by place, so that it names another column where the one that is not there stands before others: `{id=1, pic=97}`
for the text a in column s. There lakekit names the columns that the file has.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import lakekit as lk
from lakekit.testing.expectations import describe_difference

NAMES = ["null_value_counts", "min_value_stats", "max_value_stats"]


def written(path, facts, after):
    """A table whose first file has the columns id and s of three, as the entry in its manifest says."""
    table = lk.create(path, {"id": "INT", "s": "STRING"})
    with table.writer(commit_user="u") as writer:
        writer.write([{"id": 1, "s": "a"}, {"id": 2, "s": None}])
        [message] = writer.prepare()
    table.alter(lk.add_column("pic", "INT", after=after))
    file = replace(message.new_files[0], schema_id=1, write_cols=("id", "s"), **facts)
    table.commit([replace(message, new_files=(file,))], commit_user="u", identifier=1)
    table.append([{"id": 3, "pic": 7, "s": "c"}])
    return table


@pytest.mark.parametrize("after", ["id", "s"])
def test_columns_that_a_file_has_not_are_not_listed(tmp_path, after):
    found = written(tmp_path / "t", {}, after).system("files").select(NAMES).collect()
    assert sorted(found["min_value_stats"]) == ["{id=1, s=a}", "{id=3, pic=7, s=c}"]
    assert sorted(found["null_value_counts"]) == ["{id=0, pic=0, s=0}", "{id=0, s=1}"]


@pytest.mark.reference
@pytest.mark.parametrize("facts", [{}, {"value_stats_cols": ("id", "s")}], ids=["all", "listed"])
def test_the_engine_shows_the_same(judge, tmp_path, facts):
    found = written(tmp_path / "t", facts, "s").system("files").select(NAMES).collect()
    assert describe_difference(found, judge.read(str(tmp_path / "t"), system="files", columns=NAMES)) is None
