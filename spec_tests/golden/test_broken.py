"""Every damaged file raises the error that its fixture says: its class, and field and offset where there is one answer."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from lakekit import errors
from lakekit.codec import binary_row, deletion_vector, hash_index, index_container
from lakekit.format import avro, orc, parquet
from lakekit.model import commit_message, committable_bytes, entry_files, index_manifest, manifest, split_bytes
from lakekit.model.consumer import Consumer
from lakekit.model.schema import TableSchema
from lakekit.model.snapshot import Snapshot
from lakekit.model.statistics import Statistics
from lakekit.model.tag import Tag
from lakekit.predicate import Leaf
from lakekit.testing.fixtures import fixtures
from lakekit.types import Field, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

PATH = "the file"


def types(said: dict[str, Any]) -> list[Any]:
    return [parse(text) for text in said["types"]]


def serialized(data: bytes, said: dict[str, Any]) -> Any:
    return binary_row.decode(binary_row.strip_arity(data, path=PATH)[1], types(said), path=PATH)


def index(data: bytes, said: dict[str, Any]) -> Any:
    probe = importlib.import_module(f"lakekit.index.{said['index'].replace('-', '_')}").probe
    return [probe(data, parse(said["type"]), Leaf("c", op, (1,)), said["row_count"]) for op in ("=", ">")]


def data_file(data: bytes, said: dict[str, Any]) -> Any:
    fields = [Field(id=n, name=name, type=kind) for n, (name, kind) in enumerate(zip(said["columns"], types(said), strict=True))]
    scan: Callable[..., Any] = {"parquet": parquet.scan_bytes, "orc": orc.scan, "avro": avro.scan}[said["format"].rpartition("_")[2]]
    return scan([PATH], fields, read=lambda _: data).collect()


READERS: dict[str, Callable[[bytes, dict[str, Any]], Any]] = {
    "snapshot": lambda data, _: Snapshot.from_json(data, PATH),
    "schema": lambda data, _: TableSchema.from_json(data, PATH),
    "tag": lambda data, _: Tag.from_json(data, "a", PATH),
    "consumer": lambda data, _: Consumer.from_json(data, PATH),
    "statistics": lambda data, _: Statistics.from_json(data, PATH),
    "manifest_list": lambda data, _: manifest.decode_list(data, path=PATH),
    "manifest": lambda data, _: entry_files.decode([entry_files.Manifest(PATH, data)]),
    "index_manifest": lambda data, _: index_manifest.decode(data, path=PATH),
    "binary_row": lambda data, said: binary_row.decode(data, types(said), path=PATH),
    "serialized_row": serialized,
    "deletion_vectors": lambda data, _: deletion_vector.read_file(data, path=PATH),
    "hash_index": lambda data, _: hash_index.decode(data, path=PATH),
    "file_index_container": lambda data, _: index_container.decode(data, path=PATH),
    "data_split": lambda data, _: split_bytes.decode(data, path=PATH),
    "commit_message": lambda data, said: commit_message.decode_message(data, said["version"], path=PATH),
    "manifest_committable": lambda data, said: committable_bytes.decode(data, said["version"], path=PATH),
    **dict.fromkeys(("file_index_bitmap", "file_index_bloom_filter", "file_index_bsi", "file_index_range_bitmap"), index),
    **dict.fromkeys(("data_file_avro", "data_file_orc", "data_file_parquet"), data_file),
}


def cases() -> Sequence[Any]:
    found = sorted((fixtures() / "broken").rglob("*.json"))
    return [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in found if path.parent.name in READERS]


@pytest.mark.parametrize("path", cases())
def test_broken(path: Path) -> None:
    said = json.loads(path.read_text(encoding="utf-8"))
    with pytest.raises(getattr(errors, said["error"])) as raised:
        READERS[said["format"]](path.with_suffix(".bin").read_bytes(), said)
    if said["field"] is not None:
        assert raised.value.field == said["field"]
    if said["offset"] is not None:
        assert raised.value.offset == said["offset"]


def test_there_are_enough() -> None:
    assert len(cases()) >= 60
