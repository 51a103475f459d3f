"""Damaged files of every format: each is refused with the recorded error.

The error's field and offset are compared where there is one answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit import errors, plugins
from lakekit.codec import binary_row, index_files
from lakekit.file_index import container
from lakekit.model import commit_message, entry_files, index_manifest, manifests, split
from lakekit.model.snapshot import Consumer, Snapshot, Statistics, Tag
from lakekit.model.table_schema import TableSchema
from lakekit.predicate import Leaf
from lakekit.testing.golden.comparison import Mismatch, check_equal
from lakekit.testing.golden.rows import fields_of, scan
from lakekit.types import parse

if TYPE_CHECKING:
    from collections.abc import Callable

PATH = "the file"


def _types(facts: dict[str, Any]) -> list[Any]:
    return [parse(text) for text in facts["types"]]


def _decode_serialized_row(data: bytes, facts: dict[str, Any]) -> Any:
    return binary_row.decode(binary_row.strip_arity(data, path=PATH)[1], _types(facts), path=PATH)


def _index(data: bytes, facts: dict[str, Any]) -> Any:
    index: Any = plugins.load("file_index", facts["index"])
    return [index.probe(data, parse(facts["type"]), Leaf("c", op, (1,)), facts["row_count"]) for op in ("=", ">")]


def _data_file(data: bytes, facts: dict[str, Any]) -> Any:
    return scan(facts["format"].rpartition("_")[2], PATH, fields_of(facts), data=data).collect()


READERS: dict[str, Callable[[bytes, dict[str, Any]], Any]] = {
    "snapshot": lambda data, _: Snapshot.from_json(data, PATH),
    "schema": lambda data, _: TableSchema.from_json(data, PATH),
    "tag": lambda data, _: Tag.from_json(data, "a", PATH),
    "consumer": lambda data, _: Consumer.from_json(data, PATH),
    "statistics": lambda data, _: Statistics.from_json(data, PATH),
    "manifest_list": lambda data, _: manifests.decode_list(data, path=PATH),
    "manifest": lambda data, _: entry_files.decode_entries([entry_files.ManifestBytes(PATH, data)]),
    "index_manifest": lambda data, _: index_manifest.decode(data, path=PATH),
    "binary_row": lambda data, said: binary_row.decode(data, _types(said), path=PATH),
    "serialized_row": _decode_serialized_row,
    "deletion_vectors": lambda data, _: index_files.read_file(data, path=PATH),
    "hash_index": lambda data, _: index_files.decode_hash_index(data, path=PATH),
    "file_index_container": lambda data, _: container.decode(data, path=PATH),
    "data_split": lambda data, _: split.decode(data, path=PATH),
    "commit_message": lambda data, said: commit_message.decode_message(data, said["version"], path=PATH),
    "manifest_committable": lambda data, said: commit_message.decode(data, said["version"], path=PATH),
    **dict.fromkeys(
        ("file_index_bitmap", "file_index_bloom_filter", "file_index_bsi", "file_index_range_bitmap"), _index
    ),
    **dict.fromkeys(("data_file_avro", "data_file_orc", "data_file_parquet"), _data_file),
}
"""The readers of each format."""


def check_refusal(facts: dict[str, Any], data: bytes) -> None:
    """Check that damaged bytes are refused with the recorded error.

    Raises: `Mismatch`, or what a reader raised that it may not raise.
    """
    expected: type[errors.LakekitError] = getattr(errors, facts["error"].partition(":")[0])
    try:
        READERS[facts["format"]](data, facts)
    except expected as refusal:
        for part in ("field", "offset"):
            if facts[part] is not None:
                check_equal(f"{part} of the refusal", getattr(refusal, part), facts[part])
        return
    raise Mismatch("damaged bytes", expected.__name__, "a value")
