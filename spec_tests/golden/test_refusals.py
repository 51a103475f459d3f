"""What lakekit does not read is refused by its name in `lk.features()`, before any row."""

from __future__ import annotations

import json
import shutil

import polars as pl
import pytest

import lakekit as lk
from lakekit.codec import avro_columns, avro_schema
from lakekit.errors import Unsupported
from lakekit.model import partition
from lakekit.options.features import FEATURES

REFUSED = [name for name, feature in FEATURES.items() if feature.read == "refused"]
SWITCHED_ON = [name.removeprefix("option.") for name in REFUSED if name.startswith("option.")]
FORMATS = [name.removeprefix("file.format.") for name in REFUSED if name.startswith("file.format.")]
KINDS = ["lance-table", "iceberg-table", "object-table"]
TYPES = {"type.blob": "BLOB", "type.vector": {"type": "VECTOR", "element": "FLOAT", "length": 3}, "type.geometry": "GEOMETRY", "type.geography": "GEOGRAPHY"}
ELSEWHERE = {
    "column-name.u001f": "spec_tests/laws/test_columns.py",
    "schema.map-key-change": "spec_tests/laws/test_evolve.py",
    "schema.type-change": "spec_tests/laws/test_evolve.py",
    "type.map.shared-shredding": "spec_tests/laws/test_data_files.py",
    "type.variant.shredded": "spec_tests/laws/test_data_files.py",
}
"""Refusals of single columns, and the tests that meet them."""
HERE = {
    "catalog.rest",
    "avro.empty-items",
    "avro.recursive-types",
    "avro.union",
    "parquet.encryption",
    "partition.legacy-binary",
    "data-evolution",
    "system.row_tracking",
}
"""Refusals that tests of their own below meet."""
NOTHING_TO_ASK = {"index.global", "index.vector", "index.primary-key", "procedure.vector_search", "procedure.full_text_search", "row-id"}
"""Ways to read that lakekit does not offer: there is no call that could ask for them. The rows of such tables are read as usual."""


def table(tmp_path, options=None, column="STRING"):
    """A table without snapshots."""
    fields = [{"id": 0, "name": "k", "type": "INT NOT NULL"}, {"id": 1, "name": "v", "type": column}]
    schema = {"version": 3, "id": 0, "fields": fields, "highestFieldId": 1, "partitionKeys": [], "primaryKeys": [], "options": options or {}, "timeMillis": 0}
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "schema-0").write_text(json.dumps(schema))
    return str(tmp_path)


def test_every_refusal_is_met_by_a_test(root):
    by_option = {f"option.{key}" for key in SWITCHED_ON} | {f"file.format.{name}" for name in FORMATS}
    assert set(REFUSED) == by_option | {"lance-table", "iceberg-table", "chain-table"} | set(TYPES) | set(ELSEWHERE) | HERE | NOTHING_TO_ASK
    for name, path in ELSEWHERE.items():
        assert name in (root / path).read_text(encoding="utf-8"), f"{path} does not meet {name}"


@pytest.mark.parametrize("key", SWITCHED_ON)
def test_options_that_change_what_files_mean(tmp_path, key):
    text = "true" if key.endswith(("enabled", "merge-on-read", "override")) else "v"
    with pytest.raises(Unsupported) as refused:
        lk.open(table(tmp_path, {key: text})).scan()
    assert refused.value.feature == f"option.{key}"
    assert key in str(refused.value)


@pytest.mark.parametrize("ask", [lambda t: t.scan(raw=True), lambda t: t.changes(0), lambda t: t.system("audit_log"), lambda t: t.explain()])
def test_no_way_around_a_refusal(tmp_path, ask):
    found = lk.open(table(tmp_path, {"data-evolution.enabled": "true"}))
    with pytest.raises(Unsupported, match=r"data-evolution\.enabled"):
        ask(found)


@pytest.mark.parametrize("key", ["postpone.merge-on-read", "query-auth.enabled", "chain-table.enabled"])
def test_dynamic_options_are_refused_too(tables_path, key):
    with pytest.raises(Unsupported, match=key):
        lk.open(str(tables_path / "bucket_postpone")).scan(options={key: "true"})


@pytest.mark.parametrize("name", FORMATS)
def test_formats(tmp_path, name):
    with pytest.raises(Unsupported) as refused:
        lk.open(table(tmp_path, {"file.format": name})).scan()
    assert refused.value.feature == f"file.format.{name}"


def test_a_file_of_another_format_than_the_table_says(tables_path, tmp_path):
    """Options may have changed since: what counts is the name of the file in the manifest."""
    root = shutil.copytree(tables_path / "hand_snapshot_ordering", tmp_path / "t")
    for manifest in (root / "manifest").iterdir():
        manifest.write_bytes(manifest.read_bytes().replace(b".avro", b".blob"))
    for data in (root / "bucket-0").iterdir():
        data.rename(data.with_suffix(".blob"))
    with pytest.raises(Unsupported) as refused:
        lk.open(str(root)).scan().collect()
    assert refused.value.feature == "file.format.blob"


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_tables(tmp_path, kind):
    with pytest.raises(Unsupported) as refused:
        lk.open(table(tmp_path, {"type": kind})).scan()
    assert refused.value.feature == kind


@pytest.mark.parametrize("name", TYPES)
def test_types(tmp_path, name):
    with pytest.raises(Unsupported) as refused:
        lk.open(table(tmp_path, column=TYPES[name])).scan()
    assert refused.value.feature == name


def test_row_ids_are_refused_and_rows_read(tables_path):
    found = lk.open(str(tables_path / "append_row_tracking"))
    with pytest.raises(Unsupported, match="row_tracking"):
        found.system("row_tracking")
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        found.scan().select("_ROW_ID").collect()
    assert found.scan().collect().height > 0


def test_encrypted_parquet(tables_path, tmp_path):
    root = shutil.copytree(tables_path / "append_plain", tmp_path / "t")
    for data in root.glob("bucket-*/*.parquet"):
        data.write_bytes(data.read_bytes()[:-4] + b"PARE")
    with pytest.raises(Unsupported) as refused:
        lk.open(str(root)).scan().collect()
    assert refused.value.feature == "parquet.encryption"


def test_partition_directories_named_by_an_objects_identity():
    with pytest.raises(Unsupported) as refused:
        partition.partition_texts([b"x"], [lk.DataType(root="VARBINARY", length=1)], legacy_form=True)
    assert refused.value.feature == "partition.legacy-binary"


@pytest.mark.parametrize(
    ("feature", "field"),
    [
        ("avro.union", ["int", "string"]),
        ("avro.empty-items", {"type": "array", "items": "null"}),
        ("avro.recursive-types", {"type": "array", "items": "r"}),
    ],
)
def test_avro_that_says_nothing_of_tables(feature, field):
    text = json.dumps({"type": "record", "name": "r", "fields": [{"name": "f", "type": field}]}).encode()
    with pytest.raises(Unsupported) as refused:
        avro_columns.arrow_type(avro_schema.parse_schema(text))
    assert refused.value.feature == feature


def test_the_rest_catalog():
    with pytest.raises(Unsupported) as refused:
        lk.connect("warehouse", metastore="rest", uri="x")
    assert refused.value.feature == "catalog.rest"
