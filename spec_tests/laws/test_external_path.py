"""Data files outside the table's directory: their whole path stands in the manifest, and the rows are the same.

The reference writes absolute paths of its machine, so no fixture can hold one: a golden table is copied, its files moved and its manifests rewritten.
"""

from __future__ import annotations

import shutil

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import lakekit as lk
from spec_tests.reliability.located import ALLOWED, EXTERNAL, set_external_paths, set_options


def moved(table, outside, scheme):
    """Every data file of the table in a directory of its own, and the manifests that say so."""
    outside.mkdir()
    for path in table.glob("bucket-*/*"):
        path.rename(outside / path.name)
    set_external_paths(table, lambda name: f"{scheme}{outside}/{name}")


@pytest.mark.long
@pytest.mark.parametrize("case", ["append_plain", "append_avro", "dedup_orc", "dedup_overlapping_runs"])
@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_files_elsewhere_are_read(tables_path, tmp_path, case, scheme):
    shutil.copytree(tables_path / case, tmp_path / "table")
    before = lk.open(str(tables_path / case)).scan().collect()
    moved(tmp_path / "table", tmp_path / "elsewhere", scheme)
    set_options(tmp_path / "table", {EXTERNAL: f"{scheme}{tmp_path}/elsewhere"})
    with pytest.raises(lk.LocationNotAllowed, match=r"pass options={'lakekit.allowed-locations'"):
        lk.open(str(tmp_path / "table")).scan().collect()
    table = lk.open(str(tmp_path / "table"), options={ALLOWED: f"{scheme}{tmp_path}"})
    assert_frame_equal(table.scan().collect(), before, check_row_order=False)
    assert table.files().select(pl.col("file_path").str.contains("/elsewhere/").all()).item()


def test_a_manifest_may_not_name_any_file_it_likes(tables_path, tmp_path):
    shutil.copytree(tables_path / "append_plain", tmp_path / "table")
    moved(tmp_path / "table", tmp_path / "elsewhere", "")
    with pytest.raises(lk.Corrupt, match="lies below no root"):
        lk.open(str(tmp_path / "table")).scan().collect()
    set_options(tmp_path / "table", {EXTERNAL: f"{tmp_path}/else"})
    with pytest.raises(lk.Corrupt, match="lies below no root"):
        lk.open(str(tmp_path / "table")).scan().collect()
