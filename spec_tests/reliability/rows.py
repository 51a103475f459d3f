"""Tables of real rows in memory, and one change of each kind that users make: what stands there first, the change, and the change made again.

SCRIPTS["key: upsert"].before     the files of the table as it stands
SCRIPTS["key: upsert"].change     a change that a user makes, and makes again after an error: made twice, it comes to the same
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import lakekit as lk
from lakekit.ddl import schema_writer as schemas
from lakekit.ddl.table_definition import to_fields
from lakekit.metadata.table_context import TableLocation
from lakekit.model.table_paths import TablePaths
from lakekit.storage.memory import MemoryStorage
from lakekit.table.table import Table
from spec_tests.reliability.faulty import copy

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakekit.storage.protocol import Storage

ROOT = "/t"
COLUMNS = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "STRING"}
KEY = {"primary_keys": ("p", "k"), "partition_keys": ("p",)}
OFTEN = {"num-sorted-run.compaction-trigger": "2"}
TABLES: dict[str, dict[str, Any]] = {
    "key": {**KEY, "options": {"bucket": "1", **OFTEN}},
    "input": {**KEY, "options": {"bucket": "1", "changelog-producer": "input"}},
    "lookup": {**KEY, "options": {"bucket": "1", "changelog-producer": "lookup"}},
    "marked": {**KEY, "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
    "waiting": {**KEY, "options": {"bucket": "1", "write-only": "true"}},
    "dynamic": {**KEY, "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "2", "write-only": "true"}},
    "moving": {"primary_keys": ("k",), "partition_keys": ("p",), "options": {"write-only": "true"}},
    "postponed": {**KEY, "options": {"bucket": "-2"}},
    "first": {**KEY, "options": {"bucket": "1", "merge-engine": "first-row"}},
    "append": {"partition_keys": ("p",)},
    "marked waiting": {**KEY, "options": {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}},
    "bucketed": {"options": {"bucket": "1", "bucket-key": "k", "write-only": "true"}},
    "append marked": {"partition_keys": ("p",), "options": {"deletion-vectors.enabled": "true"}},
}
"""Tables (p, k, v) of every kind that writes differently."""

FIRST = [{"p": "a", "k": 1, "v": "1"}, {"p": "a", "k": 2, "v": "2"}, {"p": "b", "k": 3, "v": "3"}]
SECOND = [{"p": "a", "k": 2, "v": "two"}, {"p": "a", "k": 4, "v": "4"}]
THIRD = [{"p": "a", "k": 1, "v": "one"}, {"p": "a", "k": 5, "v": "5"}, {"p": "b", "k": 6, "v": "6"}]


class Script(NamedTuple):
    """A table by its kind, and a change."""

    table: str
    change: Callable[[Table], object]


def streamed(rows: list[dict[str, Any]]) -> Callable[[Table], object]:
    """Rows added once, however often it is tried: they are counted."""

    def change(table: Table) -> object:
        with table.writer(commit_user="job") as writer:
            writer.write(rows)
            return writer.commit(identifier=1)

    return change


def altered(*changes: Any) -> Callable[[Table], object]:
    """Columns that may be there already."""

    def change(table: Table) -> None:
        with suppress(lk.ColumnAlreadyExists):
            table.alter(*changes)

    return change


def merged(table: Table) -> object:
    """New rows replace those of the same key, or are added."""
    return table.merge(THIRD, lk.when_matched(update="all"), lk.when_not_matched(), on=["p", "k"])


SCRIPTS: dict[str, Script] = {
    "key: upsert": Script("key", lambda t: t.upsert(THIRD)),
    "key: stream": Script("key", streamed(THIRD)),
    "key: overwrite": Script("key", lambda t: t.overwrite(THIRD)),
    "key: delete": Script("key", lambda t: t.delete("k = 2")),
    "key: update": Script("key", lambda t: t.update({"v": "'new'"}, where="k < 3")),
    "key: merge": Script("key", merged),
    "key: drop": Script("key", lambda t: t.drop_partitions([{"p": "a"}])),
    "key: partitions expire": Script("key", lambda t: t.expire_partitions(expiration=timedelta(0), strategy="update-time")),
    "key: truncate": Script("key", lambda t: t.truncate()),
    "key: rescale": Script("key", lambda t: t.rescale(2)),
    "key: alter": Script("key", altered(lk.add_column("w", "INT"))),
    "input: upsert": Script("input", lambda t: t.upsert(THIRD)),
    "lookup: upsert": Script("lookup", lambda t: t.upsert(THIRD)),
    "marked: upsert": Script("marked", lambda t: t.upsert(THIRD)),
    "marked waiting: compact": Script("marked waiting", lambda t: t.compact(full=True)),
    "waiting: compact": Script("waiting", lambda t: t.compact(full=True)),
    "dynamic: upsert": Script("dynamic", lambda t: t.upsert(THIRD)),
    "dynamic: overwrite": Script("dynamic", lambda t: t.overwrite(THIRD)),
    "dynamic: compact": Script("dynamic", lambda t: t.compact(full=True)),
    "moving: upsert": Script("moving", lambda t: t.upsert([{"p": "b", "k": 1, "v": "moved"}])),
    "postponed: upsert": Script("postponed", lambda t: t.upsert(THIRD)),
    "postponed: compact": Script("postponed", lambda t: t.compact()),
    "first: delete": Script("first", lambda t: t.delete("k = 2")),
    "append: stream": Script("append", streamed(THIRD)),
    "append: overwrite": Script("append", lambda t: t.overwrite(THIRD)),
    "append: delete": Script("append", lambda t: t.delete("k = 2")),
    "append: update": Script("append", lambda t: t.update({"v": "'new'"}, where="k < 3")),
    "append: merge": Script("append", merged),
    "append: compact": Script("append", lambda t: t.compact(full=True)),
    "append: sort": Script("append", lambda t: t.compact(order_by="k")),
    "append: drop": Script("append", lambda t: t.drop_partitions([{"p": "a"}])),
    "bucketed: compact": Script("bucketed", lambda t: t.compact(full=True)),
    "append marked: delete": Script("append marked", lambda t: t.delete("k = 2")),
    "append marked: update": Script("append marked", lambda t: t.update({"v": "'new'"}, where="k < 3")),
    "append marked: compact": Script("append marked", lambda t: t.compact(full=True)),
}


def opened(storage: Storage, **options: str) -> Table:
    """The table in a storage, as a process that has just begun sees it."""
    return Table(location=ROOT, name="t", storage=storage, dynamic=options)


def made(kind: str) -> MemoryStorage:
    """A table without rows."""
    store, how = MemoryStorage(), TABLES[kind]
    create(store, kind)
    assert how
    return store


def create(storage: Storage, kind: str) -> None:
    """The first schema of a table."""
    ground = TableLocation(name="t", storage=storage, paths=TablePaths(root=ROOT))
    schemas.create_table_schema(ground, to_fields(COLUMNS), **TABLES[kind])


@cache
def filled(kind: str) -> MemoryStorage:
    """A table of two commits; of three files that are there and one row that is marked or replaced."""
    store = made(kind)
    for rows in (FIRST, SECOND):
        opened(store).append(rows)
    if kind == "append marked":
        opened(store).delete("k = 4")
    return store


def before(name: str) -> MemoryStorage:
    """The files that a script starts from."""
    return copy(filled(SCRIPTS[name].table))


def seen(table: Table) -> tuple[Any, ...]:
    """What a reader sees: columns, and rows in an order of their own."""
    rows = table.scan().collect()
    return tuple(rows.columns), tuple(sorted(rows.rows(), key=repr))
