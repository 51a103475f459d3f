"""Golden tables with files that are damaged or missing: no reader may return rows of them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakekit.testing.fixtures import fixtures

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A change of the files of a table that match `pattern`; None for `done` deletes them."""

    area: str
    name: str
    table: str
    pattern: str
    done: Callable[[bytes], bytes] | None

    def copy(self, folder: str) -> str:
        """Make a damaged copy of the table in a folder; return its path."""
        path = Path(folder, self.table)
        shutil.copytree(fixtures("tables") / "tables" / self.table, path)
        for file in list(path.glob(self.pattern)):
            if self.done is None:
                file.unlink()
            else:
                file.write_bytes(self.done(file.read_bytes()))
        return str(path)


def _truncate_to_half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flip_last_bit(data: bytes) -> bytes:
    """Return the data with another checksum at the end of the last vector."""
    return data[:-1] + bytes([data[-1] ^ 1])


def damages() -> list[Damage]:
    """Return every damage, by area."""

    def of(
        area: str, name: str, table: str, pattern: str, damage: Callable[[bytes], bytes] | None = _truncate_to_half
    ) -> Damage:
        return Damage(area=area, name=name, table=table, pattern=pattern, done=damage)

    return [
        of("schema", "cut short", "dedup_levels", "schema/schema-0"),
        of("manifest_list", "cut short", "append_plain", "manifest/manifest-list-*"),
        of("manifest_list", "gone", "append_plain", "manifest/manifest-list-*", None),
        of("manifest", "cut short", "append_plain", "manifest/manifest-????????-*"),
        of("manifest", "gone", "append_plain", "manifest/manifest-????????-*", None),
        *(of("data_file", f"{name} cut short", table, "bucket-*/data-*") for name, table in _TABLES_BY_FORMAT.items()),
        *(of("data_file", f"{name} gone", table, "bucket-*/data-*", None) for name, table in _TABLES_BY_FORMAT.items()),
        of(
            "deletion_vectors",
            "another checksum, 32 bits",
            "vectors_append_32_parquet",
            "index/index-*",
            _flip_last_bit,
        ),
        of(
            "deletion_vectors",
            "another checksum, 64 bits",
            "vectors_append_64_parquet",
            "index/index-*",
            _flip_last_bit,
        ),
        of("deletion_vectors", "cut short", "vectors_append_32_parquet", "index/index-*"),
        of("deletion_vectors", "gone", "vectors_append_32_parquet", "index/index-*", None),
        of("deletion_vectors", "index manifest cut short", "vectors_append_32_parquet", "manifest/index-manifest-*"),
    ]


_TABLES_BY_FORMAT = {"Parquet": "append_plain", "ORC": "append_orc", "Avro": "append_avro"}
