"""Many manifest lists decoded together say what each says alone, and what is wrong with one is told as it is told of one."""

from __future__ import annotations

import random
from dataclasses import replace

import polars as pl
import pytest

import lakekit as lk
from lakekit.codec import avro_container
from lakekit.errors import Corrupt, Unsupported
from lakekit.metadata import manifest_reader, snapshots
from lakekit.model.data_file import Stats
from lakekit.model.manifests import ManifestFileMeta, decode_list, decode_lists, encode_list
from lakekit.model.metadata_records import ExtraField
from lakekit.runtime import Runtime
from lakekit.storage.protocol import FileMissing


def made(number: int) -> ManifestFileMeta:
    bounds = Stats(min_values=bytes(12), max_values=bytes([number]) * 12, null_counts=(number, None))
    known = {"min_bucket": 0, "max_bucket": number, "min_level": 0, "max_level": 5} if number % 2 else {}
    return ManifestFileMeta(
        name=f"manifest-{number}", size_bytes=100 + number, num_added_files=number, num_deleted_files=1, partition_stats=bounds, schema_id=0, **known
    )


def drawn(seed: int) -> list[bytes]:
    """Lists that name mostly the same manifests, some of them empty or in another format."""
    luck = random.Random(seed)
    kinds = ["avro"] * 12 + ["parquet", "orc"] * (seed % 2)
    return [encode_list([made(number) for number in sorted(luck.sample(range(40), luck.randrange(12)))], kind=luck.choice(kinds)) for _ in range(30)]


@pytest.mark.parametrize("seed", range(6))
def test_together_as_alone(seed):
    lists = [(f"list-{at}", data) for at, data in enumerate(drawn(seed))]
    found = decode_lists(lists)
    assert found == [decode_list(data, path=path) for path, data in lists]
    if not seed % 2:  # a manifest that many lists name is made once
        assert len({id(file) for files in found for file in files}) == len({file.name for files in found for file in files})


def test_lists_that_say_different_things_of_a_manifest_keep_their_own():
    lists = [encode_list([made(number) for number in range(20)]), encode_list([replace(made(number), size_bytes=7) for number in range(20)])]
    first, second = decode_lists([(None, data) for data in lists])
    assert {file.size_bytes for file in second} == {7}
    assert first == decode_list(lists[0])


def test_fields_of_newer_writers_stay():
    newer = replace(made(3), extra=(ExtraField("_NEW", '["null", "long"]', 5),))
    lists = [(None, encode_list([made(number) for number in range(20)])), (None, encode_list([newer] * 1))]
    assert decode_lists(lists)[1] == [newer]


@pytest.mark.parametrize(("damage", "error"), [("name", Corrupt), ("count", Corrupt), ("version", Unsupported), ("bytes", Corrupt), ("magic", Corrupt)])
def test_what_is_wrong_with_one_is_told_of_it(damage, error):
    sound = encode_list([made(number) for number in range(20)], codec="null")
    match damage:
        case "name":
            broken = encode_list([replace(made(1), name="../x")])
        case "count":
            broken = encode_list([replace(made(1), num_added_files=-1)])
        case "version":
            container = avro_container.open_container(sound)
            at = sound.index(container.blocks[0].data)
            broken = sound[:at] + b"\x06" + sound[at + 1 :]
        case "bytes":
            broken = sound[:-40] + sound[-16:]
        case _:
            broken = b"nothing of the kind"
    with pytest.raises(error) as alone:
        decode_list(broken, path="broken")
    with pytest.raises(error) as together:
        decode_lists([("sound", sound), ("broken", broken), ("sound", sound)])
    assert str(together.value) == str(alone.value)


def test_a_list_that_is_not_there_is_left_to_be_missed(tmp_path):
    table = lk.create(tmp_path / "t", pl.Schema({"k": pl.Int64()}), options={"bucket": "-1", "write-only": "true"})
    for number in range(3):
        table.append(pl.DataFrame({"k": [number]}))
    handle = replace(table._context(), runtime=Runtime())
    known = snapshots.read_all(handle)
    handle.storage.delete([handle.paths.manifest(known[1].delta_manifest_list)])
    manifest_reader.prefetch_manifest_lists(handle, [(snapshot, which) for snapshot in known for which in ("base", "delta", "changelog")])
    assert [len(manifest_reader.manifest_files(handle, known[at])) for at in (0, 2)] == [1, 3]
    with pytest.raises(FileMissing, match=r"snapshot 2 of .* names"):
        manifest_reader.manifest_files(handle, known[1], "delta")


def test_the_entries_of_each_are_those_of_all(tmp_path):
    table = lk.create(tmp_path / "t", pl.Schema({"k": pl.Int64()}), options={"bucket": "-1", "write-only": "true"})
    for number in range(5):
        table.append(pl.DataFrame({"k": [number]}))
    handle = replace(table._context(), runtime=Runtime())
    newest = snapshots.latest(handle)
    assert newest is not None
    listed = manifest_reader.manifest_files(handle, newest)
    parts = manifest_reader.read_entries_by_manifest(handle, [*listed, listed[0]])
    names = [part.column("file_name").to_pylist() for part in parts]
    assert names[:-1] == [manifest_reader.read_entries(replace(handle, runtime=Runtime()), [one]).column("file_name").to_pylist() for one in listed]
    assert names[-1] == names[0]
