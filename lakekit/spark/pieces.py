"""Pieces of work that tasks do for care: bytes to a task, bytes back, and what went wrong as itself.

    answers(spark, pieces, work)      what `work(piece)` gives for each of `pieces`, one Spark task each
    lists(spark, storage)             directories listed by tasks, as `Storage.list` lists one
    deletes(spark, storage)           files deleted by tasks, as `Storage.delete` deletes them

A `LakekitError` is answered and not raised: storages have tried again by then, and the driver, which hears what the other tasks made, can delete it and raise
the error as it is. All else is raised, and Spark runs the task again.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lakekit.errors import LakekitError
from lakekit.spark import session, write_task
from lakekit.storage.protocol import Stat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from lakekit.storage.protocol import Storage

    Work = Callable[[bytes], Iterator[bytes]]

A = TypeVar("A")

FEW_DIRECTORIES, FEW_FILES = 8, 500
"""So many are listed or deleted sooner than Spark starts tasks for them."""
TASKS_A_SLOT = 4
"""Tasks that one slot does in turn: few enough to start, enough that none waits long for the slowest."""
_SCHEMA = pa.schema([pa.field("message", pa.binary()), pa.field("wrong", pa.string())])


def answers(spark: SparkSession, pieces: Sequence[bytes], work: Work) -> tuple[list[bytes], LakekitError | None]:
    """What `work` yields for each piece, in no order, and what was wrong in one of them, if anything was. Raises what Spark raises where a task dies too often.

    `work` is closed where nobody takes what it yields: it undoes then what it did.
    """
    found: list[bytes] = []
    wrong: LakekitError | None = None
    for row in session.run(spark, pieces, partial(_run_piece, work), write_task.ANSWER).collect() if pieces else []:  # scalar: some a task
        if row["wrong"] is None:
            found.append(bytes(row["message"]))
        else:
            wrong = wrong or write_task.error(row["wrong"])
    return found, wrong


def _run_piece(work: Work, piece: bytes) -> Iterator[pa.RecordBatch]:
    try:
        for data in work(piece):
            yield pa.record_batch([pa.array([data], pa.binary()), pa.array([None], pa.string())], schema=_SCHEMA)
    except LakekitError as wrong:
        yield from write_task.encode_failure(wrong)


def parts(some: Sequence[A], count: int) -> Iterator[Sequence[A]]:
    """Neighbours together, in `count` parts of one size, or fewer."""
    size = max(1, -(-len(some) // max(1, count)))
    return (some[at : at + size] for at in range(0, len(some), size))


# ---- directories and files -----------------------------------------------------------------------------------------------------------------


def lists(spark: SparkSession, storage: Storage) -> Callable[[Sequence[str]], list[list[Stat]]]:
    """What lists directories; where they are few, from here."""

    def listed(directories: Sequence[str]) -> list[list[Stat]]:
        if len(directories) <= FEW_DIRECTORIES:
            return [storage.list(one) for one in directories]
        pieces = [json.dumps(part).encode() for part in parts(directories, TASKS_A_SLOT * session.slots(spark))]
        found, wrong = answers(spark, pieces, partial(_list_directories, storage))
        if wrong is not None:
            raise wrong
        told = {directory: some for data in found for directory, some in json.loads(data).items()}
        return [[Stat(path=path, size_bytes=size, modified_ms=time, is_dir=is_dir) for path, size, time, is_dir in told[one]] for one in directories]

    return listed


def _list_directories(storage: Storage, piece: bytes) -> Iterator[bytes]:
    for directory in json.loads(piece):
        yield json.dumps({directory: [(one.path, one.size_bytes, one.modified_ms, one.is_dir) for one in storage.list(directory)]}).encode()


def deletes(spark: SparkSession, storage: Storage) -> Callable[[Sequence[str]], None]:
    """What deletes files; where they are few, from here. Raises `StorageFailed` where some could not be deleted; the others went."""

    def deleted(paths: Sequence[str]) -> None:
        if len(paths) <= FEW_FILES:
            storage.delete(paths)
            return
        pieces = [json.dumps(part).encode() for part in parts(paths, TASKS_A_SLOT * session.slots(spark))]
        _, wrong = answers(spark, pieces, partial(_delete_paths, storage))
        if wrong is not None:
            raise wrong

    return deleted


def _delete_paths(storage: Storage, piece: bytes) -> Iterator[bytes]:
    storage.delete(json.loads(piece))
    yield b""
