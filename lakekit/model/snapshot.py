"""The snapshot file `snapshot/snapshot-<id>`: one committed state of the table.

Also the file of a long-lived changelog.

    {
      "version" : 3,
      "id" : 1,
      "schemaId" : 0,
      "baseManifestList" : "manifest-list-…-0",          every manifest of the snapshot before
      "deltaManifestList" : "manifest-list-…-1",         what this commit added and deleted
      "changelogManifestList" : "manifest-list-…-2",     its changelog files, if any
      "indexManifest" : "index-manifest-…-0",            hash indexes and deletion vectors, if any
      "commitUser" : "…", "commitIdentifier" : 9223372036854775807, "commitKind" : "APPEND",
      "timeMillis" : 1795282714096,
      "totalRecordCount" : 4, "deltaRecordCount" : 4, …
    }

Members that are not set are left out by today's writers and were `null` in old ones; both are read, and written back as
they were.
Source: FORMAT.md 3.1, ENGINE_1.4.2.md B, `Snapshot`, `Changelog`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lakekit.errors import Unsupported
from lakekit.model import json_codec
from lakekit.model.json_codec import any_value, count, int32, integer, member, text, text_map
from lakekit.model.table_paths import checked_name
from lakekit.options.frozendict import EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping

CURRENT_VERSION = 3
COMMIT_KINDS = ("APPEND", "COMPACT", "OVERWRITE", "ANALYZE")
BATCH_IDENTIFIER = 2**63 - 1
"""The commit identifier of writers that do not count their commits."""
NO_WATERMARK = -(2**63)
"""What old writers put where there is no watermark."""


def file_name(name: str, value: Any) -> str:
    """Return a plain file name in the directory that the member implies. Raises `Corrupt`."""
    return checked_name(text(name, value), field=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One committed state of a table. Counts are physical rows: several versions of a key count each."""

    version: int = member("version", int32, default=1)
    uuid: str | None = member("uuid", text, default=None)
    id: int = member("id", count)
    schema_id: int = member("schemaId", count)
    base_manifest_list: str = member("baseManifestList", file_name)
    base_manifest_list_size: int | None = member("baseManifestListSize", count, default=None)
    delta_manifest_list: str = member("deltaManifestList", file_name)
    delta_manifest_list_size: int | None = member("deltaManifestListSize", count, default=None)
    changelog_manifest_list: str | None = member("changelogManifestList", file_name, default=None)
    changelog_manifest_list_size: int | None = member("changelogManifestListSize", count, default=None)
    index_manifest: str | None = member("indexManifest", file_name, default=None)
    commit_user: str = member("commitUser", text)
    writer_version: str | None = member("writerVersion", text, default=None)
    commit_identifier: int = member("commitIdentifier", integer)
    commit_kind: str = member("commitKind", text)
    time_millis: int = member("timeMillis", integer)
    log_offsets: Mapping[str, int] | None = member("logOffsets", any_value, default=None)
    total_record_count: int | None = member("totalRecordCount", integer, default=None)
    delta_record_count: int | None = member("deltaRecordCount", integer, default=None)
    changelog_record_count: int | None = member("changelogRecordCount", integer, default=None)
    watermark: int | None = member("watermark", integer, default=None)
    statistics: str | None = member("statistics", file_name, default=None)
    properties: Mapping[str, str] | None = member("properties", text_map, default=None)
    next_row_id: int | None = member("nextRowId", integer, default=None)
    operation: str | None = member("operation", text, default=None)
    extra: Mapping[str, Any] = json_codec.extra_member()
    nulls: tuple[str, ...] = json_codec.nulls_member()

    @staticmethod
    def from_json(data: bytes, path: str | None = None) -> Snapshot:
        """Decode a snapshot file.

        Raises `Corrupt`, or `Unsupported` for a version or commit kind that lakekit does not know.
        """
        return _from_json_cached(data, path) if len(data) <= _KEPT_BYTES else _from_json(data, path)

    def to_json(self) -> bytes:
        """Return the file's bytes, as the reference prints them."""
        return json_codec.dumps(json_codec.encode(self))

    @property
    def watermark_or_none(self) -> int | None:
        """The watermark; None also if an old writer wrote the smallest number for none."""
        return None if self.watermark == NO_WATERMARK else self.watermark

    def without_extra(self) -> Snapshot:
        """Return the same snapshot without unknown members, as a new file holds it."""
        return replace(self, extra=EMPTY, nulls=())


_KEPT_BYTES = 8192
"""Snapshots are mostly smaller, and the newest is read by every question: what such bytes say is kept for a while."""


def _from_json(data: bytes, path: str | None) -> Snapshot:
    return from_members(json_codec.loads(data, path), path)


_from_json_cached = lru_cache(32)(_from_json)


def from_members(members: Mapping[str, Any], path: str | None = None) -> Snapshot:
    """Return the snapshot from the members of a JSON object; also used for a tag's file."""
    snapshot = json_codec.decode(Snapshot, members, path)
    subject = path or "the snapshot"
    if not 1 <= snapshot.version <= CURRENT_VERSION:
        raise Unsupported(
            f"{subject} has version {snapshot.version}; lakekit knows 1 to {CURRENT_VERSION}. A newer engine wrote it",
            feature=f"snapshot.version-{snapshot.version}",
            path=path,
        )
    if snapshot.commit_kind not in COMMIT_KINDS:
        kind = snapshot.commit_kind[:40]
        raise Unsupported(
            f"{subject} is of commit kind {kind!r}; lakekit knows {', '.join(COMMIT_KINDS)}",
            feature=f"commit-kind.{kind}",
            path=path,
        )
    return snapshot
