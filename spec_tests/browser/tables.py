"""Tables to look at: their metadata alone, written with the library's own encoders; no view reads a data file before it is asked for rows.

`story` is small and always the same, for screenshots: what a table goes through in an afternoon. `many` has as many files as one asks for.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lakekit.codec import binary_row
from lakekit.model import entry_files, manifest_entries, manifests
from lakekit.model.data_file import DataFileMeta, Stats
from lakekit.model.manifest_entries import ADD, DELETE
from lakekit.model.manifests import ManifestFileMeta
from lakekit.types import parse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lakekit.model.manifest_entries import ManifestEntries

START_MS = 1_774_947_600_000
"""When the first snapshot was: 2026-03-31, nine in the morning."""
DAY, ID = [parse("STRING")], [parse("BIGINT")]
SCHEMA = {
    "version": 3,
    "id": 0,
    "fields": [
        {"id": 0, "name": "day", "type": "STRING NOT NULL"},
        {"id": 1, "name": "id", "type": "BIGINT NOT NULL"},
        {"id": 2, "name": "amount", "type": "DECIMAL(10, 2)"},
    ],
    "highestFieldId": 2,
    "partitionKeys": ["day"],
    "primaryKeys": ["day", "id"],
    "options": {"bucket": "1"},
    "timeMillis": START_MS,
}


HOSTILE = """</script><script>document.title='broken'</script><img src=x onerror="document.title='broken'">&'"\u2028"""
"""A name that is no text to who forgets to escape it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A data file that is only told of."""

    number: int
    level: int
    low: int
    high: int
    size_bytes: int
    day: str = "2026-03-31"
    deleted: int = 0

    @property
    def name(self) -> str:
        return f"data-{self.number:02d}.parquet"

    def fact(self) -> DataFileMeta:
        """As manifests tell of it."""
        low, high = row([self.low], ID), row([self.high], ID)
        return DataFileMeta(
            name=self.name,
            size_bytes=self.size_bytes,
            row_count=self.size_bytes // 96,
            min_key=low,
            max_key=high,
            key_stats=Stats(min_values=low, max_values=high, null_counts=(0,)),
            min_sequence_number=self.number * 100,
            max_sequence_number=self.number * 100 + 99,
            level=self.level,
            creation_time_ms=START_MS + self.number * 60_000,
            delete_row_count=self.deleted,
            source=int(self.level > 0),
            value_stats_cols=(),
        )


def row(values: Sequence[Any], types: Sequence[Any]) -> bytes:
    return binary_row.with_arity(binary_row.encode_row(values, types), len(types))


class Written:
    """A table as it is written, snapshot after snapshot."""

    def __init__(self, root: Path, *, user: str = "writer-1", column: str = "amount") -> None:
        self.user = user
        self.root, self.snapshot_id, self.rows = root, 0, 0
        self.manifests: list[ManifestFileMeta] = []
        for folder in ("schema", "snapshot", "manifest"):
            (root / folder).mkdir(parents=True)
        fields = [field | ({"name": column} if field["name"] == "amount" else {}) for field in SCHEMA["fields"]]
        (root / "schema" / "schema-0").write_text(json.dumps(SCHEMA | {"fields": fields, "comment": column}), encoding="utf-8")

    def commit(self, kind: str, add: Sequence[Made] = (), remove: Sequence[Made] = ()) -> None:
        """One more snapshot."""
        self.snapshot_id += 1
        changed = [*((DELETE, file) for file in remove), *((ADD, file) for file in add)]
        delta = self._manifest(changed)
        rows = sum(file.fact().row_count * (1 if which == ADD else -1) for which, file in changed)
        self.rows += rows
        says = {
            "version": 3,
            "id": self.snapshot_id,
            "schemaId": 0,
            "baseManifestList": self._list("0", self.manifests),
            "deltaManifestList": self._list("1", [delta]),
            "commitUser": self.user,
            "commitIdentifier": self.snapshot_id,
            "commitKind": kind,
            "timeMillis": START_MS + self.snapshot_id * 3_600_000,
            "totalRecordCount": self.rows,
            "deltaRecordCount": rows,
        }
        (self.root / "snapshot" / f"snapshot-{self.snapshot_id}").write_text(json.dumps(says), encoding="utf-8")
        self.manifests.append(delta)

    def _manifest(self, changed: Sequence[tuple[int, Made]]) -> ManifestFileMeta:
        together: dict[tuple[int, str], list[DataFileMeta]] = {}
        for kind, file in changed:
            together.setdefault((kind, file.day), []).append(file.fact())
        parts = [_entries(kind, day, files) for (kind, day), files in together.items()]
        data = entry_files.encode_entries(manifest_entries.concat_entries(parts))
        name, days = f"manifest-{self.snapshot_id:02d}", sorted({file.day for _, file in changed})
        (self.root / "manifest" / name).write_bytes(data)
        return ManifestFileMeta(
            name=name,
            size_bytes=len(data),
            num_added_files=sum(kind == ADD for kind, _ in changed),
            num_deleted_files=sum(kind == DELETE for kind, _ in changed),
            partition_stats=Stats(min_values=row(days[:1], DAY), max_values=row(days[-1:], DAY), null_counts=(0,)),
            schema_id=0,
        )

    def _list(self, end: str, files: Sequence[ManifestFileMeta]) -> str:
        name = f"manifest-list-{self.snapshot_id:02d}-{end}"
        (self.root / "manifest" / name).write_bytes(manifests.encode_list(files))
        return name


def _entries(kind: int, day: str, files: Sequence[DataFileMeta]) -> ManifestEntries:
    return manifest_entries.entries_of_files(files, kind=kind, partition=row([day], DAY), bucket=0, total_buckets=1)


def story(root: Path) -> None:
    """Eight snapshots: appends, two compactions, an overwrite of another day."""
    table, kib, mib = Written(root), 1 << 10, 1 << 20
    first = Made(number=1, level=0, low=1, high=41_000, size_bytes=610 * kib)
    second = Made(number=2, level=0, low=18_200, high=99_871, size_bytes=527 * kib, deleted=230)
    table.commit("APPEND", [first])
    table.commit("APPEND", [second])
    bounds = [1, 12_000, 21_500, 34_000, 47_250, 58_000, 71_500, 84_000, 99_872]
    deep = [Made(number=3 + at, level=5, low=low, high=high - 1, size_bytes=(31 + 7 * (at % 4)) * mib) for at, (low, high) in enumerate(pairwise(bounds))]
    table.commit("COMPACT", deep, [first, second])
    third = Made(number=11, level=0, low=9_000, high=30_000, size_bytes=402 * kib)
    fourth = Made(number=12, level=0, low=26_000, high=71_000, size_bytes=733 * kib, deleted=1_500)
    table.commit("APPEND", [third])
    table.commit("APPEND", [fourth])
    middle = [
        Made(number=13, level=4, low=9_000, high=29_310, size_bytes=6 * mib),
        Made(number=14, level=4, low=29_311, high=50_207, size_bytes=8 * mib, deleted=21_000),
        Made(number=15, level=4, low=50_208, high=71_000, size_bytes=5 * mib),
    ]
    table.commit("COMPACT", middle, [third, fourth])
    table.commit("OVERWRITE", [Made(number=16, level=0, low=3, high=77, size_bytes=9 * kib, day="2026-04-01")])
    lanes = [(4_711, 62_000, 527), (1_200, 31_000, 380), (55_000, 99_400, 498)]
    table.commit("APPEND", [Made(number=17 + at, level=0, low=low, high=high, size_bytes=size * kib) for at, (low, high, size) in enumerate(lanes)])


def hostile(root: Path) -> None:
    """A column, a comment, a partition and a writer whose names are markup."""
    table = Written(root, user=HOSTILE, column=HOSTILE)
    files = [Made(number=at, level=0, low=at, high=99, size_bytes=4096, day=HOSTILE) for at in (1, 2, 3)]
    table.commit("APPEND", files)
    table.commit("COMPACT", [Made(number=4, level=5, low=1, high=99, size_bytes=9999, day=HOSTILE)], files[:2])


def many(root: Path, count: int) -> None:
    """So many files in one bucket, one of a hundred on level 0, deeper levels without a gap; and a commit of two files after it."""
    luck, files = random.Random(4), []
    shares = {1: 0.02, 2: 0.05, 3: 0.13, 4: 0.3, 5: 0.5}
    for level, share in shares.items():
        width = 10_000_000 // max(1, round(count * 0.99 * share))
        files += [(level, low, low + width - 1) for low in range(0, 10_000_000 - width + 1, width)]
    while len(files) < count:
        low = luck.randrange(9_000_000)
        files.append((0, low, low + luck.randrange(1_000_000)))
    made = [Made(number=at, level=level, low=low, high=high, size_bytes=luck.randrange(1 << 12, 1 << 26)) for at, (level, low, high) in enumerate(files, 1)]
    table = Written(root)
    table.commit("APPEND", made[:count])
    table.commit("APPEND", [Made(number=count + at, level=0, low=at, high=5_000_000, size_bytes=1 << 20) for at in (1, 2)])
