"""One gate: a feature that reading refuses is refused by every operation that writes rows or removes files, by the feature's name, before anything changes."""

from __future__ import annotations

import json
import shutil

import polars as pl
import pytest

import lakekit as lk
from lakekit.metadata import table_context
from lakekit.options.features import FEATURES, OFF_TEXTS

SCHEMA = {"k": "INT", "p": "STRING", "b": "BYTES", "v": "INT"}
SHREDDED = "type.map.shared-shredding"
"""Of its files all columns but one are read; what reads it, as a compaction, is refused by the file."""
VALUES = {
    "option.metadata.iceberg.storage": "table-location",
    "option.blob-field": "b",
    "option.blob-descriptor-field": "b",
    "option.blob-view-field": "b",
    "option.vector-field": "b",
    "option.scan.fallback-snapshot-branch": "other",
    "option.scan.fallback-delta-branch": "other",
}
TYPES = {"type.blob": "BLOB", "type.vector": "VECTOR<FLOAT, 3>", "type.geometry": "GEOMETRY", "type.geography": "GEOGRAPHY"}
UNOPENED = ("type.vector", "type.geometry", "type.geography")
"""Types by which a table is refused as soon as it is opened."""
WRITES = {
    "append": lambda t: t.append([{"k": 9, "p": "x", "v": 9}]),
    "upsert": lambda t: t.upsert([{"k": 9, "p": "x", "v": 9}]),
    "merge_schema": lambda t: t.append([{"k": 9, "p": "x", "v": 9, "more": 1}], merge_schema=True),
    "overwrite": lambda t: t.overwrite([{"k": 9, "p": "x", "v": 9}]),
    "truncate": lambda t: t.truncate(),
    "drop_partitions": lambda t: t.drop_partitions([{"p": "x"}]),
    "writer": lambda t: t.writer(),
    "commit": lambda t: t.commit([], commit_user="u"),
    "delete": lambda t: t.delete("v = 1"),
    "delete partition": lambda t: t.delete("p = 'x'"),
    "update": lambda t: t.update({"v": "2"}, where="v = 1"),
    "merge": lambda t: t.merge(pl.DataFrame({"k": [1], "p": ["x"], "v": [7]}), lk.when_matched(update={"v": "7"}), on=["k", "p"]),
    "compact": lambda t: t.compact(),
    "compact full": lambda t: t.compact(full=True),
    "compact sorted": lambda t: t.compact(order_by=["v"]),
    "compact_manifests": lambda t: t.compact_manifests(),
    "rescale": lambda t: t.rescale(3),
    "analyze": lambda t: t.analyze(),
    "rewrite_file_index": lambda t: t.rewrite_file_index(),
    "expire_partitions": lambda t: t.expire_partitions(expiration="1 d"),
}
REMOVALS = {
    "expire_snapshots": lambda t: t.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s"),
    "expire_changelogs": lambda t: t.expire_changelogs(),
    "expire_tags": lambda t: t.expire_tags(older_than="0 s"),
    "remove_orphans": lambda t: t.remove_orphans(older_than="0 s", dry_run=False, force=True),
    "rollback": lambda t: t.rollback(1),
    "delete_tag": lambda t: t.delete_tag("one"),
    "replace_tag": lambda t: t.replace_tag("one", at=2),
    "delete_branch": lambda t: t.delete_branch("side"),
    "fast_forward": lambda t: t.fast_forward("side"),
}
ALLOWED = {
    "create_tag": lambda t: t.create_tag("two"),
    "rename_tag": lambda t: t.rename_tag("one", "uno"),
    "create_branch": lambda t: t.create_branch("second"),
    "rename_branch": lambda t: t.rename_branch("side", "other"),
    "repair": lambda t: t.repair(),
    "snapshots": lambda t: t.snapshots(),
    "files": lambda t: t.files(),
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Tables with history, a tag and a branch: by key and without."""
    home = tmp_path_factory.mktemp("gate")
    for kind, keys in (("key", ["k", "p"]), ("append", [])):
        table = lk.create(home / kind, SCHEMA, primary_keys=keys, partition_keys=["p"], options={"bucket": "2", "bucket-key": "k", "write-only": "true"})
        for v in (1, 2):
            table.append([{"k": k, "p": "x", "b": b"b", "v": v} for k in range(3)])
        table.create_tag("one", at=1)
        table.create_branch("side", tag="one")
    return home


def refused_features():
    """Every feature that a table can carry by an option or a type and whose reading, or writing, is refused."""
    for name, feature in FEATURES.items():
        if name in TYPES or (name.startswith("option.") and "refused" in (feature.read, feature.write)):
            yield name
    yield from ("lance-table", "iceberg-table", "file.format.lance", "file.format.vortex", "file.format.mosaic", "file.format.row", "file.format.blob")
    yield SHREDDED


def stops_removals(feature):
    """Whether lakekit may not know all files of a table that carries it."""
    return feature != SHREDDED and (feature == f"option.{table_context.ICEBERG_OPTION}" or FEATURES[feature].read == "refused")


def carry(root, feature):
    """Writes the feature into the schemas of a table, of its branches too, as another engine would."""
    for path in root.rglob("schema-*"):
        schema = json.loads(path.read_text())
        if feature in TYPES:
            schema["fields"][2]["type"] = TYPES[feature]
        elif feature.startswith("option."):
            schema["options"][feature.removeprefix("option.")] = VALUES.get(feature, "true")
        elif feature.endswith("-table"):
            schema["options"]["type"] = feature
        elif feature == SHREDDED:
            schema["options"]["fields.m.map.storage-layout"] = "shared-shredding"
        else:
            schema["options"]["file.format"] = feature.rpartition(".")[2]
        path.write_text(json.dumps(schema))


def contents(root):
    return {str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("feature", sorted(set(refused_features())))
@pytest.mark.parametrize("kind", ["key", "append"])
def test_what_reading_refuses_every_change_refuses(tables, tmp_path, kind, feature):
    root = tmp_path / "t"
    shutil.copytree(tables / kind, root)
    carry(root, feature)
    before = contents(root)
    removals = REMOVALS if stops_removals(feature) else {}
    for name, change in {**WRITES, **removals}.items():
        if kind == "append" and name == "upsert":
            continue
        with pytest.raises(lk.Unsupported) as refusal:
            change(lk.open(root))
        assert refusal.value.feature == feature, name
        assert contents(root) == before, name
    for change in ALLOWED.values() if feature not in UNOPENED else ():
        change(lk.open(root))


def test_a_branch_that_carries_a_feature_stops_removals_of_the_table(tables, tmp_path):
    root = tmp_path / "t"
    shutil.copytree(tables / "key", root)
    carry(root / "branch" / "branch-side", "type.blob")
    table = lk.open(root)
    for name in ("expire_snapshots", "remove_orphans", "delete_tag"):
        with pytest.raises(lk.Unsupported, match="BLOB"):
            REMOVALS[name](table)
    table.append([{"k": 5, "p": "y", "v": 5}])


def test_options_of_the_caller_switch_no_feature_off(tables, tmp_path):
    root = tmp_path / "t"
    shutil.copytree(tables / "key", root)
    carry(root, "option.query-auth.enabled")
    with pytest.raises(lk.Unsupported, match=r"query-auth\.enabled"):
        lk.open(root, options={"query-auth.enabled": None}).compact(full=True)


def test_options_that_are_switched_off_are_no_feature(tables, tmp_path):
    for text in OFF_TEXTS:
        root = tmp_path / f"t{text}"
        shutil.copytree(tables / "key", root)
        for path in root.rglob("schema-*"):
            schema = json.loads(path.read_text())
            schema["options"] |= {table_context.ICEBERG_OPTION: text}
            path.write_text(json.dumps(schema))
        lk.open(root).append([{"k": 5, "p": "y", "v": 5}])


def test_iceberg_metadata_is_refused_by_name_and_the_way_out_is_said(tables, tmp_path):
    options = {table_context.ICEBERG_OPTION: "table-location"}
    with pytest.raises(lk.Unsupported, match=r"metadata\.iceberg\.storage"):
        lk.create(tmp_path / "new", SCHEMA, options=options)
    root = tmp_path / "t"
    shutil.copytree(tables / "key", root)
    with pytest.raises(lk.Unsupported, match=r"metadata\.iceberg\.storage"):
        lk.open(root).alter(lk.set_option(table_context.ICEBERG_OPTION, "table-location"))
    carry(root, f"option.{table_context.ICEBERG_OPTION}")
    table = lk.open(root)
    assert table.scan().collect().height == 3
    with pytest.raises(lk.Unsupported, match=r"lk\.reset_option\('metadata\.iceberg\.storage'\)"):
        table.append([{"k": 9, "p": "x", "v": 9}])
    table.alter(lk.reset_option(table_context.ICEBERG_OPTION))
    table.append([{"k": 9, "p": "x", "v": 9}])
