"""What is asked of many at once is what is asked of each: manifests that may hold partitions, paths spelled."""

from __future__ import annotations

import random
from dataclasses import replace

import polars as pl
import pytest

import lakekit as lk
from lakekit.codec import binary_row
from lakekit.commit import manifest_writer
from lakekit.data_file import paths
from lakekit.errors import Corrupt
from lakekit.model import manifest_entries
from lakekit.model.data_file import DataFileMeta
from lakekit.model.manifests import ManifestFileMeta
from lakekit.types import Field, parse

INT, TEXT, DOUBLE = (parse(text) for text in ("INT", "STRING", "DOUBLE"))


@pytest.mark.parametrize("types", [(INT,), (TEXT,), (DOUBLE,), (INT, TEXT), (TEXT, DOUBLE, INT)], ids=lambda types: "-".join(t.root for t in types))
def test_manifests_that_may_hold_one_of_many_partitions(types):
    luck = random.Random(len(types))
    fields = [Field(f"p{at}", t, at) for at, t in enumerate(types)]
    some = {"INT": [None, -3, 0, 7, 9], "VARCHAR": [None, "", "a", "ä", "\U0001f600", "￿"], "DOUBLE": [None, float("nan"), -0.0, 0.0, 2.5]}

    def row() -> bytes:
        return binary_row.with_arity(binary_row.encode_row([luck.choice(some[t.root]) for t in types], list(types)), len(types))

    files = []
    for at in range(120):
        stats = manifest_writer.stats_of_partitions({row(): 1 for _ in range(luck.randrange(1, 4))}, fields)
        stats = replace(stats, null_counts=None) if luck.random() < 0.2 else stats
        files.append(ManifestFileMeta(name=f"m-{at}", size_bytes=1, num_added_files=1, num_deleted_files=0, partition_stats=stats, schema_id=0))
    for count in (0, 1, 2, 5):
        asked = manifest_writer.partition_values_of([row() for _ in range(count)], fields)
        assert manifest_writer.filter_manifests(files, asked, fields) == [file for file in files if manifest_writer.may_contain_partition(file, asked, fields)]
    assert manifest_writer.filter_manifests(files, [], []) == files


@pytest.fixture(scope="module")
def handle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("places")
    options = {"bucket": "2", "bucket-key": "k", "data-file.external-paths": "/elsewhere"}
    return lk.create(folder / "t", pl.Schema({"p": pl.String(), "k": pl.Int64()}), partition_keys=["p"], options=options)._context()


def rows(*names: str, external: str | None = None):
    partitions = [binary_row.with_arity(binary_row.encode_row([value], [TEXT]), 1) for value in ("a b", None, "c/d")]
    files = [DataFileMeta(name=name, size_bytes=1, row_count=1, external_path=None if external is None else f"{external}/{name}") for name in names]
    return [(manifest_entries.ADD, partitions[at % 3], at % 4 - 2, 2, file) for at, file in enumerate(files)]


@pytest.mark.parametrize("external", [None, "/elsewhere/x"])
def test_paths_of_many_are_those_of_each(handle, external):
    made = rows(*(f"data-{at}.parquet" for at in range(24)), *(["ä.parquet"] if external else []), external=external)
    found = paths.data_file_paths(handle, manifest_entries.entries_of_rows(made))
    assert found == [paths.data_file_path(handle, partition, bucket, file) for _, partition, bucket, _, file in made]
    assert paths.data_file_paths(handle, manifest_entries.empty_entries()) == []


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "a\\b", "a\nb", "a\n", "x" * 256, "\x7f", "../up"])
def test_a_name_that_leaves_its_directory_is_no_path_among_many(handle, name):
    with pytest.raises(Corrupt, match="plain file name"):
        paths.data_file_paths(handle, manifest_entries.entries_of_rows(rows("data-1.parquet", name, "data-2.parquet")))
