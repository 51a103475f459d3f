"""How long it takes to know the live files of a table: 10,000 entries in 100 manifests, on disk, beside fastavro reading the same files to dicts.

    python spec_tests/bench/plan_entries.py [MANIFESTS ENTRIES ROUNDS]

The table is made up: a string partition, a BIGINT key, statistics of ten columns, one DELETE in ten entries. Systems take turns; each line says the median and
the least of wall and of processor time, for other work on the machine lengthens the first more than the second.
"""

from __future__ import annotations

import io
import json
import random
import statistics
import sys
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro

from lakekit.codec import avro_columns, avro_container, binary_row
from lakekit.metadata import manifest_reader, snapshots
from lakekit.metadata.table_context import TableContext, open_context
from lakekit.model import entry_files, manifest_entries, manifests
from lakekit.model.data_file import DataFileMeta, Stats
from lakekit.model.entry_files import ManifestBytes
from lakekit.model.manifest_entries import ADD, DELETE, ManifestEntries
from lakekit.model.manifests import ManifestFileMeta
from lakekit.runtime import Runtime
from lakekit.types import Field, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakekit.model.snapshot import Snapshot
    from lakekit.types import DataType

COLUMNS = ("BIGINT", "STRING", "INT", "DOUBLE", "STRING", "BIGINT", "INT", "DOUBLE", "DATE", "STRING")
TYPES = [parse(text) for text in COLUMNS]
PARTITION = [parse("STRING")]


def row(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    return binary_row.with_arity(binary_row.encode_row(values, types), len(types))


def stats(low: Sequence[Any], high: Sequence[Any], types: Sequence[DataType]) -> Stats:
    return Stats(min_values=row(low, types), max_values=row(high, types), null_counts=(0,) * len(types))


def data_file(luck: random.Random) -> DataFileMeta:
    k = luck.randrange(10**9)
    low = [k, f"value-{k:010d}", k % 1000, k / 3, "a" * 8 + str(k % 7), k * 3, k % 50, k / 7, k % 20000, "x" * 16]
    high = [k + 5000, f"value-{k + 5:010d}", k % 1000 + 9, k / 2, "b" * 8, k * 5, k % 50 + 1, k / 3, k % 20000 + 3, "y" * 16]
    return DataFileMeta(
        name=f"data-{uuid.UUID(int=luck.getrandbits(128))}-0.parquet",
        size_bytes=luck.randrange(10**8),
        row_count=luck.randrange(10**6),
        min_key=row([k], TYPES[:1]),
        max_key=row([k + 5000], TYPES[:1]),
        key_stats=stats([k], [k + 5000], TYPES[:1]),
        value_stats=stats(low, high, TYPES),
        min_sequence_number=k,
        max_sequence_number=k + 1000,
        level=k % 6,
        creation_time_ms=1_700_000_000_000 + k,
        delete_row_count=0,
        source=k % 2,
    )


def some_entries(luck: random.Random, number: int, count: int) -> ManifestEntries:
    """The entries of one manifest; every tenth deletes the file before it."""
    partition = row([f"2024-01-{number % 100:02d}"], PARTITION)
    found, file = [], data_file(luck)
    for i in range(count):
        kind = DELETE if i % 10 == 9 else ADD
        file = file if kind == DELETE else data_file(luck)
        bucket = (i - (kind == DELETE)) % 16
        found.append(manifest_entries.entries_of_files([file], kind=kind, partition=partition, bucket=bucket, total_buckets=16))
    return manifest_entries.concat_entries(found)


def put_manifest(root: Path, name: str, found: ManifestEntries) -> ManifestFileMeta:
    data = entry_files.encode_entries(found)
    (root / "manifest" / name).write_bytes(data)
    deleted = int(found.integers("kind").sum())
    empty = Stats(min_values=bytes(12), max_values=bytes(12), null_counts=())
    return ManifestFileMeta(
        name=name, size_bytes=len(data), num_added_files=len(found) - deleted, num_deleted_files=deleted, partition_stats=empty, schema_id=0
    )


def put_snapshot(root: Path, number: int, base: list[ManifestFileMeta], delta: list[ManifestFileMeta]) -> None:
    names = {}
    for kind, files in (("base", base), ("delta", delta)):
        names[kind] = f"manifest-list-{number}-{kind}"
        (root / "manifest" / names[kind]).write_bytes(manifests.encode_list(files))
    says = {
        "version": 3,
        "id": number,
        "schemaId": 0,
        "baseManifestList": names["base"],
        "deltaManifestList": names["delta"],
        "commitUser": "bench",
        "commitIdentifier": number,
        "commitKind": "APPEND",
        "timeMillis": number,
    }
    (root / "snapshot" / f"snapshot-{number}").write_text(json.dumps(says))


def make_table(root: Path, count: int, each: int) -> None:
    """Snapshot 1 with all manifests in its base list, snapshot 2 with one more."""
    for folder in ("schema", "snapshot", "manifest"):
        (root / folder).mkdir(parents=True)
    fields = [Field("dt", "STRING", id=0), *(Field(f"c{i}", text, id=i + 1) for i, text in enumerate(COLUMNS))]  # type: ignore[arg-type]
    schema = {
        "version": 3,
        "id": 0,
        "fields": [{"id": f.id, "name": f.name, "type": str(f.type)} for f in fields],
        "highestFieldId": len(fields) - 1,
        "partitionKeys": ["dt"],
        "primaryKeys": ["dt", "c0"],
        "options": {"bucket": "16"},
        "timeMillis": 0,
    }
    (root / "schema" / "schema-0").write_text(json.dumps(schema))
    luck = random.Random(1)
    files = [put_manifest(root, f"manifest-{number}-0", some_entries(luck, number, each)) for number in range(count)]
    put_snapshot(root, 1, files[:-1], files[-1:])
    put_snapshot(root, 2, files, [put_manifest(root, f"manifest-{count}-0", some_entries(luck, count, each))])


def measured(rounds: int, systems: dict[str, Callable[[], object]]) -> None:
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, system in systems.items():
            wall, cpu = time.perf_counter(), time.process_time()
            system()
            taken[name].append(((time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3))
    for name, times in taken.items():
        wall, cpu = ([one[i] for one in times] for i in (0, 1))
        print(f"  {name:<44} wall {statistics.median(wall):8.1f} (least {min(wall):8.1f})   cpu {statistics.median(cpu):8.1f} (least {min(cpu):8.1f}) ms")


def main() -> None:
    count, each, rounds = (int(text) for text in sys.argv[1:4]) if len(sys.argv) > 3 else (100, 100, 7)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "t"
        make_table(root, count, each)
        handle = open_context(str(root))
        one, two = snapshots.read_snapshot(handle, 1), snapshots.read_snapshot(handle, 2)
        blobs = [ManifestBytes(file.name, (root / "manifest" / file.name).read_bytes()) for file in manifest_reader.manifest_files(handle, one)]
        blocks = sum(len(avro_container.open_container(blob.data).blocks) for blob in blobs)
        print(f"{count} manifests, {count * each} entries, {sum(len(blob.data) for blob in blobs)} bytes, {blocks} blocks")

        def fresh() -> TableContext:
            return replace(handle, runtime=Runtime())

        warm = fresh()

        def again() -> ManifestEntries:
            return manifest_reader.read_live_entries(replace(warm, runtime=warmed(warm, one)), two)

        def by_fastavro() -> list[Any]:
            found = []
            for path in (file.name for file in manifest_reader.manifest_files(fresh(), one)):
                found += fastavro.reader(io.BytesIO((root / "manifest" / path).read_bytes()))
            return found

        def values() -> int:
            return sum(len(avro_columns.read_records(avro_container.open_container(blob.data))) for blob in blobs)

        assert len(by_fastavro()) == count * each
        warmed(warm, one)
        measured(
            rounds,
            {
                "fastavro: read, decode to dicts": by_fastavro,
                "ours: lists, read, decode, fold, cold": lambda: manifest_reader.read_live_entries(fresh(), one),
                "ours: inflate only": lambda: [avro_container.open_container(blob.data) for blob in blobs],
                "ours: decode only": lambda: entry_files.decode_entries(blobs),
                "ours: decode a value at a time": values,
                "ours: again, nothing new": lambda: manifest_reader.read_live_entries(warm, one),
                "ours: first plan, then one new snapshot (sum)": again,
            },
        )


def warmed(handle: TableContext, snapshot: Snapshot) -> Runtime:
    """A world that knows everything of a snapshot and nothing newer."""
    runtime = Runtime()
    manifest_reader.read_live_entries(replace(handle, runtime=runtime), snapshot)
    return runtime


if __name__ == "__main__":
    main()
