"""The checks of the golden files of each format, as functions `(facts, data)` that raise `Mismatch`.

check(path)          the golden file whose JSON is at `path`
CHECKS["bucket"]     the check of a format; `UNSUPPORTED_FORMATS` are the formats that lakekit refuses by name

Golden index files: deletion vectors, key hashes, and file indexes with the reference's answers.

Damaged files of every format: each is refused with the recorded error.

The error's field and offset are compared where there is one answer.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from lakekit import errors, plugins
from lakekit.codec import binary_row, index_files
from lakekit.file_index import container
from lakekit.model import commit_message, entry_files, index_manifest, manifests, split
from lakekit.model.snapshot import Consumer, Snapshot, Statistics, Tag
from lakekit.model.table_schema import TableSchema
from lakekit.predicate import Leaf
from lakekit.testing.golden import metadata, rows
from lakekit.testing.golden.comparison import Mismatch, check_equal, load
from lakekit.testing.golden.rows import fields_of, scan, value_of
from lakekit.types import arrow, parse

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakekit.types import DataType


_EPOCH = date(1970, 1, 1)


def deletion_vectors(facts: dict[str, Any], data: bytes) -> None:
    """Format deletion_vectors: the positions, together and one by one, and the same file again."""
    wanted = [
        np.concatenate([np.arange(a, b + 1, step) for a, b, step in v["runs"]] or [np.zeros(0, np.int64)])
        for v in facts["vectors"]
    ]
    check_equal(
        "positions",
        [vector_positions.tolist() for vector_positions in index_files.read_file(data)],
        [positions.tolist() for positions in wanted],
    )
    if facts["origin"] == "reference":  # by hand: what no writer makes and every reader takes
        written, ranges = index_files.write_file(wanted, facts["bits"])
        check_equal("the file written again", written.hex(), data.hex())
        check_equal(
            "places of the vectors",
            [tuple(span) for span in ranges],
            [(v["f1"], v["f2"], v["cardinality"]) for v in facts["vectors"]],
        )
    for number, (vector, positions) in enumerate(zip(facts["vectors"], wanted, strict=True)):
        entry = data[vector["f1"] : vector["f1"] + vector["f2"] + index_files.ENTRY_EXTRA]
        check_equal(
            f"vector {number}", index_files.decode_entry(entry, limit=len(positions)).tolist(), positions.tolist()
        )


def hash_indexes(facts: dict[str, Any], data: bytes) -> None:
    """Format hash_index: the hashes, and the same bytes again."""
    check_equal("hashes", index_files.decode_hash_index(data).tolist(), facts["hashes"])
    check_equal(
        "the file written again", index_files.encode_hash_index(np.array(facts["hashes"], np.int32)).hex(), data.hex()
    )


def containers(facts: dict[str, Any], data: bytes) -> None:
    """Format file_index_container: the indexes of each column."""
    meaning = {
        column: {kind: None if text is None else bytes.fromhex(text) for kind, text in kinds.items()}
        for column, kinds in facts["columns"].items()
    }
    check_equal("indexes", container.decode(data), meaning)
    check_equal("indexes written again", container.decode(container.encode(meaning)), meaning)
    if facts["origin"] != "hand":
        check_equal("size written again", len(container.encode(meaning)), len(data))


def indexes(facts: dict[str, Any], data: bytes) -> None:
    """Check the formats file_index_*: built from the values, and the answers to every probe.

    Golden and built bytes must answer alike.
    """
    index: Any = plugins.load("file_index", facts["index"])
    t = parse(facts["type"])
    values = [value_of(value, t) for value in facts["values"]]
    built = index.build(arrow.array_of(values, t), t, facts["options"])
    check_equal("size written again", len(built), len(data))
    if facts["index"] != "bitmap":  # the order of bitmaps is that of a Java hash map
        check_equal("written again", built.hex(), data.hex())
    for probe in facts["probes"]:
        leaf = Leaf(
            "c", probe["operator"].replace("<>", "!="), tuple(literal_of(value, t) for value in probe["literals"])
        )
        for payload in (data, built):
            _probe(index.probe(payload, t, leaf, len(values)), probe, t, values)


def literal_of(recorded: Any, t: DataType) -> Any:
    """Return a recorded literal as a caller would write it."""
    if t.root == "DATE":
        return _EPOCH + timedelta(days=recorded)
    if t.root == "TIME":
        return (
            (datetime.min.replace(tzinfo=UTC) + timedelta(milliseconds=recorded)).time()
            if recorded < 86_400_000
            else time.max
        )
    return value_of(recorded, t)


def _probe(answer: Any, probe: dict[str, Any], t: DataType, values: list[Any]) -> None:
    """Check the answer against the reference's.

    Numbers that have two forms and timestamps finer than an index stores may differ.
    """
    what = f"{probe['operator']} {probe['literals']}"
    if isinstance(probe["result"], str):
        check_equal(what, answer, probe["result"] == "remain")
        return
    recorded = {
        row for run in probe["result"] for row in ([run] if isinstance(run, int) else range(run[0], run[1] + 1))
    }
    rows = set(range(len(values))) if answer is True else set() if answer is False else set(answer)
    literals = [value_of(value, t) for value in probe["literals"]]
    two_forms = any(isinstance(value, float) and (value == 0 or math.isnan(value)) for value in literals)
    if not two_forms and not (t.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and (t.precision or 0) > 6):
        check_equal(what, sorted(rows), sorted(recorded))
        return
    needed = recorded
    if probe["operator"] in ("<>", "not in"):
        needed = {i for i, value in enumerate(values) if value is not None and value not in literals}
    elif probe["operator"] not in ("=", "in"):
        needed = {i for i in recorded if values[i] not in literals}
    if not rows >= needed:
        raise Mismatch(f"{what}, rows that may match", sorted(needed), sorted(rows))


# ---- checks ------------------------------------------------------------


CHECKS: dict[str, Callable[[dict[str, Any], bytes], None]] = {
    "binary_array": rows.arrays_and_maps,
    "binary_map": rows.arrays_and_maps,
    "binary_row": rows.rows,
    "bucket": rows.buckets,
    "cast": rows.casts,
    "changelog": metadata.snapshots,
    "commit_message": metadata.commit_messages,
    "consumer": metadata.consumers,
    "data_split": metadata.splits,
    "deletion_vectors": deletion_vectors,
    "file_index_container": containers,
    "hash_index": hash_indexes,
    "hint": metadata.hints,
    "index_manifest": metadata.index_entries,
    "manifest": metadata.entries,
    "manifest_committable": metadata.committables,
    "manifest_list": metadata.lists,
    "schema": metadata.schemas,
    "serialized_row": rows.rows,
    "simple_stats": rows.stats,
    "snapshot": metadata.snapshots,
    "statistics": metadata.statistics,
    "tag": metadata.tags,
    **dict.fromkeys(("data_file_avro", "data_file_orc", "data_file_parquet"), rows.files),
    **dict.fromkeys(
        ("file_index_bitmap", "file_index_bloom_filter", "file_index_bsi", "file_index_range_bitmap"), indexes
    ),
}
UNSUPPORTED_FORMATS = {"blob_file": "blob files are refused by name: `lakekit features blob`"}
"""Formats with golden files that lakekit does not read, and why."""


def check(path: Path) -> None:
    """Check that a golden file is understood, and written again where it is canonical.

    Raises: `Mismatch`, or what a decoder raised.
    """
    facts, data = load(path)
    CHECKS[facts["format"]](facts, data)


# ---- broken ------------------------------------------------------------


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
