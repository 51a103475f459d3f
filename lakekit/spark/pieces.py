"""Run pieces of maintenance work in tasks: bytes to a task, bytes back, and errors as themselves.

    answers(spark, pieces, work)      the results of `work(piece)` for each of `pieces`, one Spark task each
    lists(spark, storage)             directories listed by tasks, as `Storage.list` lists one
    deletes(spark, storage)           files deleted by tasks, as `Storage.delete` deletes them

A `LakekitError` is returned and not raised: storages have tried again by then, and the driver, which gets the results
of the other tasks, can delete their files and raise the error as it is. All else is raised, and Spark runs the task
again.
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
"""Up to so many are listed or deleted in this process, before Spark would have started tasks."""
TASKS_A_SLOT = 4
"""Tasks that one slot does in turn: few enough to start, enough that no slot waits long for the slowest."""
_SCHEMA = pa.schema([pa.field("message", pa.binary()), pa.field("wrong", pa.string())])


def answers(spark: SparkSession, pieces: Sequence[bytes], work: Work) -> tuple[list[bytes], LakekitError | None]:
    """Return what `work` yields for all pieces, in no order, and the first error, if there was one.

    `work` is closed where what it yields is not taken, and then undoes what it did.

    Raises: what Spark raises where a task dies too often.
    """
    results: list[bytes] = []
    wrong: LakekitError | None = None
    for row in (
        session.run(spark, pieces, partial(_run_piece, work), write_task.ANSWER).collect() if pieces else []
    ):  # scalar: some a task
        if row["wrong"] is None:
            results.append(bytes(row["message"]))
        else:
            wrong = wrong or write_task.error(row["wrong"])
    return results, wrong


def _run_piece(work: Work, piece: bytes) -> Iterator[pa.RecordBatch]:
    try:
        for data in work(piece):
            yield pa.record_batch([pa.array([data], pa.binary()), pa.array([None], pa.string())], schema=_SCHEMA)
    except LakekitError as wrong:
        yield from write_task.encode_failure(wrong)


def parts(items: Sequence[A], count: int) -> Iterator[Sequence[A]]:
    """Yield neighbours together, in `count` parts of one size, or fewer."""
    size = max(1, -(-len(items) // max(1, count)))
    return (items[at : at + size] for at in range(0, len(items), size))


# ---- directories and files -------------------------------------------------------------------------------------------


def lists(spark: SparkSession, storage: Storage) -> Callable[[Sequence[str]], list[list[Stat]]]:
    """Return a function that lists directories: in tasks, or in this process where they are few."""

    def listed(directories: Sequence[str]) -> list[list[Stat]]:
        if len(directories) <= FEW_DIRECTORIES:
            return [storage.list(requested) for requested in directories]
        pieces = [json.dumps(part).encode() for part in parts(directories, TASKS_A_SLOT * session.slots(spark))]
        results, wrong = answers(spark, pieces, partial(_list_directories, storage))
        if wrong is not None:
            raise wrong
        by_directory = {directory: stats for data in results for directory, stats in json.loads(data).items()}
        return [
            [
                Stat(path=path, size_bytes=size, modified_ms=time, is_dir=is_dir)
                for path, size, time, is_dir in by_directory[requested]
            ]
            for requested in directories
        ]

    return listed


def _list_directories(storage: Storage, piece: bytes) -> Iterator[bytes]:
    for directory in json.loads(piece):
        yield json.dumps(
            {
                directory: [
                    (stat.path, stat.size_bytes, stat.modified_ms, stat.is_dir) for stat in storage.list(directory)
                ]
            }
        ).encode()


def deletes(spark: SparkSession, storage: Storage) -> Callable[[Sequence[str]], None]:
    """Return a function that deletes files: in tasks, or in this process where they are few.

    It raises `StorageFailed` where some could not be deleted; the others are deleted.
    """

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
