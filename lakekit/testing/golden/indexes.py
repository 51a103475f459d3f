"""Golden index files: deletion vectors, key hashes, and file indexes with the reference's answers."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from lakekit import plugins
from lakekit.codec import arrow_values, index_files
from lakekit.file_index import container
from lakekit.predicate import Leaf
from lakekit.testing.golden.comparison import Mismatch, check_equal
from lakekit.testing.golden.rows import value_of
from lakekit.types import parse

if TYPE_CHECKING:
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
    built = index.build(arrow_values.array_of(values, t), t, facts["options"])
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
