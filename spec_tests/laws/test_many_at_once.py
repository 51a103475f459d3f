"""What is asked of many at once is what is asked of each: containers opened, manifests that may hold partitions, paths spelled."""

from __future__ import annotations

import random
from dataclasses import replace

import polars as pl
import pytest

import lakekit as lk
from lakekit.codec import avro_container, avro_schema, avro_small, binary_row
from lakekit.commit import partition_ranges
from lakekit.data_file import paths
from lakekit.errors import Corrupt, LakekitError
from lakekit.model import manifest_entries
from lakekit.model.data_file import DataFileMeta
from lakekit.model.manifests import ManifestFileMeta
from lakekit.types import Field, parse

SCHEMA = b'{"type": "record", "name": "r", "fields": [{"name": "v", "type": "string"}]}'


def contained(luck: random.Random, codec: str = "zstandard") -> bytes:
    values = [bytes([2 * len(text)]) + text for text in (bytes(luck.choices(b"ab", k=luck.randrange(1, 60))) for _ in range(luck.randrange(1, 40)))]
    return avro_container.write(SCHEMA if luck.random() < 0.8 else SCHEMA + b" ", values, codec=codec)


def test_small_containers_are_opened_as_each_is():
    luck = random.Random(1)
    files = [(f"file-{at}", contained(luck, luck.choice(["zstandard"] * 9 + ["null", "deflate"]))) for at in range(200)]
    files += [("empty", avro_container.write(SCHEMA, [])), ("blocks", avro_container.write(SCHEMA, [b"\x02a", b"\x02b"], interval=2))]
    files.append(("long", avro_container.write(SCHEMA, [b"\x02a"] * 60_000)))
    luck.shuffle(files)
    found = avro_small.open_containers(files)
    assert found == [avro_container.open_container(data, path=path) for path, data in files]
    assert len({id(one.schema) for one in found}) == len({id(avro_schema.parse(text)) for text in (SCHEMA, SCHEMA + b" ")})


@pytest.mark.parametrize("seed", range(5))
def test_a_broken_container_among_small_ones_is_told_as_alone(seed):
    """Bytes changed, cut off or doubled anywhere: the same error, or the same content, as of that file alone."""
    luck = random.Random(seed)
    sound = [(f"file-{at}", contained(luck)) for at in range(6)]
    for at in range(60):
        data = bytearray(sound[3][1])
        place = luck.randrange(len(data))
        match at % 3:
            case 0:
                data[place] ^= 1 << luck.randrange(8)
            case 1:
                del data[place : place + luck.randrange(1, 4)]
            case _:
                data[place:place] = data[place : place + 4]
        files = [*sound[:3], ("broken", bytes(data)), *sound[4:]]
        assert told(lambda: avro_small.open_containers(files)) == told(lambda: [avro_container.open_container(one, path=path) for path, one in files])  # noqa: B023 - called at once


def test_two_frames_in_one_block_are_not_taken_for_two_blocks():
    one, other, last = (avro_container.write(SCHEMA, [b"\x02" + text]) for text in (b"a", b"b", b"c"))
    start = len(avro_container.write(SCHEMA, []))
    frame = one[start + 2 : -avro_container.SYNC_BYTES]
    twice = bytearray(one[:start])
    avro_container.put_long(twice, 1)
    avro_container.put_long(twice, 2 * len(frame))
    files = [("one", one), ("twice", bytes(twice + frame + frame + one[-avro_container.SYNC_BYTES :])), ("other", other), ("last", last)]
    assert avro_small.open_containers(files) == [avro_container.open_container(data, path=path) for path, data in files]


def told(ask):
    try:
        return ask()
    except LakekitError as error:
        return type(error), str(error), error.offset


INT, TEXT, DOUBLE = (parse(text) for text in ("INT", "STRING", "DOUBLE"))


@pytest.mark.parametrize("types", [(INT,), (TEXT,), (DOUBLE,), (INT, TEXT), (TEXT, DOUBLE, INT)], ids=lambda types: "-".join(t.root for t in types))
def test_manifests_that_may_hold_one_of_many_partitions(types):
    luck = random.Random(len(types))
    fields = [Field(f"p{at}", t, at) for at, t in enumerate(types)]
    some = {"INT": [None, -3, 0, 7, 9], "VARCHAR": [None, "", "a", "ä", "\U0001f600", "￿"], "DOUBLE": [None, float("nan"), -0.0, 0.0, 2.5]}

    def row() -> bytes:
        return binary_row.with_arity(binary_row.encode([luck.choice(some[t.root]) for t in types], list(types)), len(types))

    files = []
    for at in range(120):
        stats = partition_ranges.stats_of_partitions({row(): 1 for _ in range(luck.randrange(1, 4))}, fields)
        stats = replace(stats, null_counts=None) if luck.random() < 0.2 else stats
        files.append(ManifestFileMeta(name=f"m-{at}", size_bytes=1, num_added_files=1, num_deleted_files=0, partition_stats=stats, schema_id=0))
    for count in (0, 1, 2, 5):
        asked = partition_ranges.values_of([row() for _ in range(count)], fields)
        assert partition_ranges.filter_manifests(files, asked, fields) == [file for file in files if partition_ranges.may_hold(file, asked, fields)]
    assert partition_ranges.filter_manifests(files, [], []) == files


@pytest.fixture(scope="module")
def handle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("places")
    options = {"bucket": "2", "bucket-key": "k", "data-file.external-paths": "/elsewhere"}
    return lk.create(folder / "t", pl.Schema({"p": pl.String(), "k": pl.Int64()}), partition_keys=["p"], options=options).handle()


def rows(*names: str, external: str | None = None):
    partitions = [binary_row.with_arity(binary_row.encode([value], [TEXT]), 1) for value in ("a b", None, "c/d")]
    files = [DataFileMeta(name=name, size_bytes=1, row_count=1, external_path=None if external is None else f"{external}/{name}") for name in names]
    return [(manifest_entries.ADD, partitions[at % 3], at % 4 - 2, 2, file) for at, file in enumerate(files)]


@pytest.mark.parametrize("external", [None, "/elsewhere/x"])
def test_paths_of_many_are_those_of_each(handle, external):
    made = rows(*(f"data-{at}.parquet" for at in range(24)), *(["ä.parquet"] if external else []), external=external)
    found = paths.data_file_paths(handle, manifest_entries.of_rows(made))
    assert found == [paths.data_file_path(handle, partition, bucket, file) for _, partition, bucket, _, file in made]
    assert paths.data_file_paths(handle, manifest_entries.empty()) == []


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "a\\b", "a\nb", "a\n", "x" * 256, "\x7f", "../up"])
def test_a_name_that_leaves_its_directory_is_no_path_among_many(handle, name):
    with pytest.raises(Corrupt, match="plain file name"):
        paths.data_file_paths(handle, manifest_entries.of_rows(rows("data-1.parquet", name, "data-2.parquet")))
