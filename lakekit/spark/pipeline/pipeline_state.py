"""What a pipeline knows of itself: whose checkpoint it has, that it runs alone, how far its tables are.

    <checkpoint>/pipeline/identity.json      user, warehouse, source, and an id that is drawn with the checkpoint
    <checkpoint>/pipeline/last_error.json    what ended the last run; deleted by the batch that is through
    <warehouse>/.pipelines/<user>            a lock of the system on this folder: a process that ends lets go of it

The commit user of a pipeline is its user and that id, "orders-1f3c9a70". So a commit belongs to one checkpoint: where a
table has commits of the user under another id, the batches of this checkpoint would be taken twice, and the pipeline
stops. `open_state` opens the state for a run, `status` reads it, without Spark.

In an object store there is no such lock: there only runs on one machine see each other, by a folder of its own.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from lakekit import storage as storages
from lakekit.catalog.connection import connect
from lakekit.errors import Conflict, DatabaseNotFound, InvalidOption
from lakekit.runtime import new_id, now_ms
from lakekit.storage.atomic_write import create_exclusive
from lakekit.storage.protocol import commit_queue, make_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lakekit.catalog.catalog import Catalog
    from lakekit.spark.pipeline.configuration import PipelineConfiguration
    from lakekit.storage.protocol import Storage
    from lakekit.table.table import Table

_ID_LENGTH = 8
_ERROR_LINES = 6
STATUS_SCHEMA: dict[str, Any] = {
    "table": pl.String,
    "batch": pl.Int64,
    "snapshot_id": pl.Int64,
    "committed": pl.Datetime("ms", "UTC"),
    "rows": pl.Int64,
    "lag_s": pl.Float64,
    "pending_batches": pl.Int64,
    "last_error": pl.String,
}
"""The columns of `status`: `rows` are those that the table's own snapshots say the pipeline has brought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineState:
    """The state of a pipeline that holds its lock."""

    user: str
    commit_user: str
    storage: Storage
    folder: str

    def check_table(self, table: Table) -> None:
        """Raise `Conflict` where another checkpoint of this user has committed to a table."""
        users = table.snapshots()["commit_user"].unique().to_list()
        others = [name for name in users if _is_of_user(name, self.user) and name != self.commit_user]
        if others:
            msg = (
                f"{table.name} has commits of {others[0]}, which is this pipeline with another checkpoint: its rows "
                "would come twice. Give the checkpoint of that run, or another user and other tables"
            )
            raise Conflict(msg)

    def write_error(self, batch: int, error: BaseException) -> None:
        """Keep what ended a run, for `status`."""
        lines = str(error).splitlines()[:_ERROR_LINES]  # behind them are frames of Java
        text = f"{type(error).__name__}: {' '.join(lines)}"[:2000]
        said = {"time_ms": now_ms(), "batch": batch, "error": text}
        make_folder(self.storage, self.folder)
        self.storage.put(f"{self.folder}/last_error.json", json.dumps(said).encode())

    def clear_error(self) -> None:
        """Forget what ended an earlier run."""
        if self.storage.exists(f"{self.folder}/last_error.json"):
            self.storage.delete([f"{self.folder}/last_error.json"])


def _is_of_user(name: str, user: str) -> bool:
    own, dash, drawn = name.rpartition("-")
    return bool(dash) and own == user and len(drawn) == _ID_LENGTH


def open_catalog(configuration: PipelineConfiguration) -> Catalog:
    """Return the catalog of a configuration."""
    catalog = configuration.catalog
    return connect(
        configuration.warehouse,
        metastore=catalog.metastore,
        uri=catalog.uri,
        storage_options=catalog.storage or None,
        options=catalog.options or None,
    )


@contextmanager
def open_state(configuration: PipelineConfiguration) -> Iterator[PipelineState]:
    """Hold the lock of the user while the block runs; yield the state of the checkpoint.

    Raises: `Conflict` where another run of the user holds it, `InvalidOption` for a checkpoint of something else.
    """
    with _hold_user(configuration):
        storage, checkpoint = storages.open(configuration.checkpoint, configuration.catalog.storage or None)
        folder = f"{checkpoint}/pipeline"
        identity = _identity(configuration)
        existing = _read_json(storage, f"{folder}/identity.json")
        if existing is None:
            if storage.exists(f"{checkpoint}/metadata"):
                msg = (
                    f"{configuration.checkpoint} is the checkpoint of another stream of Spark: give this pipeline an "
                    "empty folder"
                )
                raise InvalidOption(msg, key="checkpoint", value=configuration.checkpoint)
            make_folder(storage, folder)
            existing = identity | {"id": new_id().replace("-", "")[:_ID_LENGTH]}
            create_exclusive(storage, f"{folder}/identity.json", json.dumps(existing).encode())
        for key, value in identity.items():
            if existing.get(key) != value:
                msg = (
                    f"{configuration.checkpoint} is the checkpoint of a pipeline whose {key} is {existing.get(key)!r}, "
                    f"and here it is {value!r}: give this one a checkpoint of its own"
                )
                raise InvalidOption(msg, key="checkpoint", value=configuration.checkpoint)
        commit_user = f"{configuration.user}-{existing['id']}"
        yield PipelineState(user=configuration.user, commit_user=commit_user, storage=storage, folder=folder)


def _identity(configuration: PipelineConfiguration) -> dict[str, str]:
    """Return what may not change under a checkpoint."""
    source = configuration.source
    return {
        "user": configuration.user,
        "warehouse": configuration.warehouse,
        "database": configuration.database,
        "source kind": source.kind,
        "source path": source.path or "",
        "source format": source.format,
    }


@contextmanager
def _hold_user(configuration: PipelineConfiguration) -> Iterator[None]:
    storage, root = storages.open(configuration.warehouse, configuration.catalog.storage or None)
    folder = f"{root}/.pipelines/{configuration.user}"
    if storage.is_remote:
        named = sha256(f"{root}\n{configuration.user}".encode()).hexdigest()[:32]
        storage, folder = storages.open(Path(tempfile.gettempdir()) / "lakekit-pipelines" / named)
    make_folder(storage, folder)
    with commit_queue(storage, folder, 0) as granted:
        if not granted:
            msg = (
                f"a pipeline of the user {configuration.user!r} is running over {configuration.warehouse}: two would "
                "take each other's batches for their own. End it, or give this one another user and checkpoint"
            )
            raise Conflict(msg)
        yield


def _read_json(storage: Storage, path: str) -> dict[str, Any] | None:
    if not storage.exists(path):
        return None
    try:
        value = json.loads(storage.read(path))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        msg = f"{path} is damaged: it says whose checkpoint this is; restore it, or begin with another checkpoint"
        raise InvalidOption(msg, key="checkpoint", value=path)
    return value


def status(configuration: PipelineConfiguration) -> pl.DataFrame:
    """Return how far each table is, from the tables' own snapshots, without Spark.

    `batch` is the newest batch that has rows of the table, `lag_s` how long ago it was committed, `pending_batches`
    those that Spark has begun and not ended.
    """
    storage, checkpoint = storages.open(configuration.checkpoint, configuration.catalog.storage or None)
    failure = _read_json(storage, f"{checkpoint}/pipeline/last_error.json") or {}
    pending = _newest_number(storage, f"{checkpoint}/offsets") - _newest_number(storage, f"{checkpoint}/commits")
    rows = []
    with open_catalog(configuration) as catalog:
        try:
            names = catalog.tables(configuration.database)["table"].to_list()
        except DatabaseNotFound:
            names = []
        for name in sorted(names):
            counted = _table_status(catalog.table(f"{configuration.database}.{name}"), configuration.user)
            if counted is not None:
                rows.append((f"{configuration.database}.{name}", *counted, pending, failure.get("error")))
    return pl.DataFrame(rows, schema=STATUS_SCHEMA, orient="row")


def _table_status(table: Table, user: str) -> tuple[int, int, datetime, int, float] | None:
    snapshots = table.snapshots()
    mine = snapshots.filter(
        pl.col("commit_user").str.contains(f"^{_escape(user)}-[0-9a-f]{{{_ID_LENGTH}}}$"),
        pl.col("kind") == "APPEND",
    )
    if mine.is_empty():
        return None
    newest = mine.sort("snapshot_id").row(-1, named=True)
    brought = int(mine["delta_record_count"].sum())
    lag_s = round(now_ms() / 1000 - newest["time"].timestamp(), 3)
    return newest["commit_identifier"], newest["snapshot_id"], newest["time"], brought, lag_s


def _escape(user: str) -> str:
    return user.replace(".", r"\.")


def _newest_number(storage: Storage, folder: str) -> int:
    """Return the newest number among the files of a folder of Spark's checkpoint; -1 without one."""
    if not storage.exists(folder) and not storage.list(folder):
        return -1
    return max((int(entry.name) for entry in storage.list(folder) if entry.name.isdecimal()), default=-1)
