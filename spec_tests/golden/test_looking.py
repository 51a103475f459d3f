"""Files summed by partition and by bucket, against sums made file by file."""

from __future__ import annotations

from collections import defaultdict

import polars as pl
import pytest

from spec_tests.doors.views import CASES, table
from spec_tests.longer import some

SUMS = {
    "file_count": len,
    "row_count": lambda some: sum(file["row_count"] for file in some),
    "size_bytes": lambda some: sum(file["size_bytes"] for file in some),
}


def by(files: pl.DataFrame, *names: str) -> dict[tuple, list[dict]]:
    found = defaultdict(list)
    for file in files.iter_rows(named=True):
        found[tuple(file[name] for name in names)].append(file)
    return dict(found)


def runs(files: list[dict]) -> int:
    """Each file of level 0 is a run, and each deeper level is one."""
    levels = [file["level"] for file in files]
    return levels.count(0) + len({level for level in levels if level})


@pytest.mark.parametrize("case", some([case for case in CASES if case != "partition_special_values"], 4))
def test_sums_are_those_of_the_files(case):
    found = table(case)
    files = found.files()
    partitions, buckets = found.partitions(), found.buckets()
    for frame, names in ((partitions, ["partition"]), (buckets, ["partition", "bucket"])):
        wanted = by(files, *names)
        assert frame.select(names).rows() == sorted(wanted)
        for row in frame.iter_rows(named=True):
            some = wanted[tuple(row[name] for name in names)]
            assert {name: row[name] for name in SUMS} == {name: of(some) for name, of in SUMS.items()}
            assert row["newest_file"] == max((file["creation_time"] for file in some if file["creation_time"]), default=None)
            if "bucket" in row:
                assert row["run_count"] == runs(some)
            else:
                assert row["bucket_count"] == len({file["bucket"] for file in some})


def test_partitions_of_one_directory_stay_apart():
    """Null, the empty text and a blank are three partitions, whose directory has the same name: partition_special_values."""
    found = table("partition_special_values")
    one = found.partitions().filter(pl.col("partition") == "p=__DEFAULT_PARTITION__")
    assert sorted(one["values"].struct.field("p"), key=str) == ["", " ", None]
    assert one["file_count"].to_list() == [1, 1, 1]
    assert found.partitions()["row_count"].sum() == found.scan().collect().height
    assert found.buckets().height == 14
