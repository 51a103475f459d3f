"""Data files outside the table's directory: their whole path stands in the manifest, and the rows are the same.

The reference writes absolute paths of its machine, so no fixture can hold one: a golden table is copied, its files moved and its manifests rewritten.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import lakekit as lk
from lakekit.model import entry_files, manifest
from lakekit.model.entries import Entries
from lakekit.model.entry_files import Manifest


def moved(table, outside, scheme):
    """Every data file of the table in a directory of its own, and the manifests that say so."""
    outside.mkdir()
    for path in table.glob("bucket-*/*"):
        path.rename(outside / path.name)
    sizes = {}
    for path in table.glob("manifest/manifest-[0-9a-f]*"):
        found, _ = entry_files.decode([Manifest(path.name, path.read_bytes())])
        places = pa.array([f"{scheme}{outside}/{name}" for name in found.column("file_name").to_pylist()], pa.string())
        at = found.table.schema.get_field_index("external_path")
        path.write_bytes(entry_files.encode(Entries(found.table.set_column(at, "external_path", places))))
        sizes[path.name] = path.stat().st_size
    for path in table.glob("manifest/manifest-list-*"):
        listed = manifest.decode_list(path.read_bytes())
        path.write_bytes(manifest.encode_list([replace(file, size_bytes=sizes[file.name]) for file in listed]))
    for path in table.glob("snapshot/snapshot-*"):
        snapshot = json.loads(path.read_text())
        for which in ("base", "delta"):
            snapshot[f"{which}ManifestListSize"] = (table / "manifest" / snapshot[f"{which}ManifestList"]).stat().st_size
        path.write_text(json.dumps(snapshot))


def allowed(table, outside, scheme):
    """The option that lets a table's files lie below a root."""
    for path in table.glob("schema/schema-*"):
        schema = json.loads(path.read_text())
        schema["options"]["data-file.external-paths"] = f"{scheme}{outside}"
        path.write_text(json.dumps(schema))


@pytest.mark.long
@pytest.mark.parametrize("case", ["append_plain", "append_avro", "dedup_orc", "dedup_overlapping_runs"])
@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_files_elsewhere_are_read(tables_path, tmp_path, case, scheme):
    shutil.copytree(tables_path / case, tmp_path / "table")
    before = lk.open(str(tables_path / case)).scan().collect()
    moved(tmp_path / "table", tmp_path / "elsewhere", scheme)
    allowed(tmp_path / "table", tmp_path / "elsewhere", scheme)
    table = lk.open(str(tmp_path / "table"))
    assert_frame_equal(table.scan().collect(), before, check_row_order=False)
    assert table.files().select(pl.col("file_path").str.contains("/elsewhere/").all()).item()


def test_a_manifest_may_not_name_any_file_it_likes(tables_path, tmp_path):
    shutil.copytree(tables_path / "append_plain", tmp_path / "table")
    moved(tmp_path / "table", tmp_path / "elsewhere", "")
    with pytest.raises(lk.Corrupt, match="lies below no root"):
        lk.open(str(tmp_path / "table")).scan().collect()
    allowed(tmp_path / "table", tmp_path / "else", "")
    with pytest.raises(lk.Corrupt, match="lies below no root"):
        lk.open(str(tmp_path / "table")).scan().collect()
