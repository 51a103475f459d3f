"""Files that other files own: what lies beside manifests and data files is no orphan, and goes when its owner goes; packs of blobs are never orphans."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

import lakekit as lk
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model import manifests
from lakekit.model.metadata_records import ExtraField

SCHEMA = {"k": "INT", "v": "BYTES"}
DECLARED = '["null", {"type": "array", "items": "string"}]'
BESIDE = ".avro.sidecar"


def put_sidecars(root):
    """Gives every manifest a file beside it that the lists name, as newer engines do; gives the paths of those files."""
    handle = lk.open(root)._context()
    layout, storage = handle.paths, handle.storage
    made = {}
    for number in snapshots.ids(handle):
        snapshot = snapshots.read_snapshot(handle, number)
        members = {}
        for which in ("base", "delta"):
            files = manifest_reader.manifest_files(handle, snapshot, which)
            made |= {layout.manifest(file.name + BESIDE): None for file in files}
            data = manifests.encode_list([replace(file, extra=(ExtraField("_EXTRA_FILES", DECLARED, [file.name + BESIDE]),)) for file in files])
            old = getattr(snapshot, f"{which}_manifest_list")
            storage.put(layout.manifest(f"{old}9"), data)
            members |= {f"{which}_manifest_list": f"{old}9", f"{which}_manifest_list_size": len(data)}
            storage.delete([layout.manifest(old)])
        storage.delete([layout.snapshot(number)])
        storage.put(layout.snapshot(number), replace(snapshot, **members).to_json())
    for path in made:
        storage.put(path, b"sidecar")
    return list(made)


def age(root):
    """Makes all files an hour old."""
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (path.stat().st_mtime - 3600,) * 2)


@pytest.fixture
def root(tmp_path):
    table = lk.create(tmp_path / "t", SCHEMA, primary_keys=["k"], options={"bucket": "1", "write-only": "true"})
    for v in range(4):
        table.upsert([{"k": k, "v": bytes([v])} for k in range(3)])
    return tmp_path / "t"


def orphans(root):
    age(root)
    return set(lk.open(root).remove_orphans(older_than="0 s", force=True)["path"])


def test_sidecars_of_manifests_are_no_orphans(root):
    made = put_sidecars(root)
    assert len(made) == 4
    assert not orphans(root)
    lk.open(root).remove_orphans(older_than="0 s", dry_run=False, force=True)
    assert all((root / "manifest" / path.rpartition("/")[2]).exists() for path in made)


def test_sidecars_go_with_their_manifests(root):
    made = put_sidecars(root)
    table = lk.open(root)
    table.compact(full=True)
    table.compact_manifests()
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    left = {path.name for path in (root / "manifest").iterdir()}
    held = {path.rpartition("/")[2] for path in made} & left
    assert {name.removesuffix(BESIDE) for name in held} <= left
    assert len(held) < len(made)
    assert not orphans(root)


def test_a_sidecar_whose_list_is_lost_is_an_orphan(root):
    put_sidecars(root)
    (root / "manifest" / f"manifest-nobody-0{BESIDE}").write_bytes(b"sidecar")
    assert {path.rpartition("/")[2] for path in orphans(root)} == {f"manifest-nobody-0{BESIDE}"}


@pytest.mark.parametrize("name", ["data-1-0.managed.blob", "data-1-0.blobref", "data-1-0.blob"])
def test_packs_of_blobs_are_never_orphans(root, name):
    (root / "bucket-0" / name).write_bytes(b"live payload")
    (root / "bucket-0" / "data-1-0.parquet").write_bytes(b"left by a writer that died")
    assert {path.rpartition("/")[2] for path in orphans(root)} == {"data-1-0.parquet"}
    lk.open(root).remove_orphans(older_than="0 s", dry_run=False, force=True)
    assert (root / "bucket-0" / name).exists()


@pytest.mark.parametrize("name", ["data-1-0.managed.blob", "data-1-0.blobref", "data-1-0.blob"])
@pytest.mark.parametrize("way", ["expire", "rollback", "truncate", "compact", "partitions"])
def test_packs_of_blobs_outlive_all_care(tmp_path, way, name):
    table = lk.create(tmp_path / "t", SCHEMA | {"p": "STRING"}, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "1", "write-only": "true"})
    for v in range(3):
        table.upsert([{"k": k, "v": bytes([v]), "p": "x"} for k in range(3)])
    pack = tmp_path / "t" / "p=x" / "bucket-0" / name
    pack.write_bytes(b"live payload")
    if way == "rollback":
        table.rollback(1)
    elif way == "truncate":
        table.truncate()
    elif way == "compact":
        table.compact(full=True)
    elif way == "partitions":
        table.drop_partitions([{"p": "x"}])
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    age(tmp_path / "t")
    table.remove_orphans(older_than="0 s", dry_run=False, force=True)
    assert pack.read_bytes() == b"live payload"
    left = {path.name for path in pack.parent.iterdir() if path.suffix == ".parquet"}
    assert left == set(table.files()["file_name"])


@pytest.mark.parametrize("way", ["expire", "drop", "abort"])
def test_what_lies_beside_a_data_file_goes_with_it(tmp_path, way):
    table = lk.create(tmp_path / "t", SCHEMA | {"p": "STRING"}, partition_keys=["p"], options={"bucket": "-1"})
    writer = table.writer()
    writer.write([{"k": 1, "v": b"1", "p": "x"}])
    [message] = writer.prepare()
    [file] = message.new_files
    named = replace(message, new_files=(replace(file, extra_files=(f"{file.name}.blobref", f"{file.name}.row")),))
    folder = tmp_path / "t" / "p=x" / "bucket-0"
    beside = [folder / name for name in named.new_files[0].extra_files]
    for path in beside:
        path.write_bytes(b"beside")
    if way == "abort":
        table.abort([named])
    else:
        table.commit([named], commit_user="u")
        assert not orphans(tmp_path / "t")
        table.drop_partitions([{"p": "x"}])
        assert all(path.exists() for path in beside)
        table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    assert not any(path.exists() for path in beside)
