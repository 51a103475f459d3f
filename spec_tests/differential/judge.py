"""The reference engine as a judge: one JVM for a whole session of tests, which answers questions about tables.

    def test_rows(judge, tmp_path):
        judge.create(path, {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "2"})
        judge.write(path, [("+I", (1, "a"))])                  → [1]              snapshots that came of it
        judge.read(path).rows                                  → (("+I", (1, "a")),)

Values are spelt as in the recorded reads of golden tables (`lakekit.testing.expectations`). What the engine refuses raises `Refused`; the JVM lives on.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakekit.testing.expectations import Read
from lakekit.types import DataType, parse, type_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Row = tuple[str, Sequence[Any]]

RECIPES = Path(__file__).parent.parent.parent / "fixtures" / "recipes"
RECIPE = RECIPES / "judge"
NEEDS = {"java": "openjdk-17-jdk-headless", "mvn": "maven"}
SOON_READY = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""What tests tell the JVM: it is to answer soon, not fast in the long run."""
_FIRST_ID = 1000
"""Nested fields are numbered from here; the engine numbers them anew."""


class Refused(Exception):
    """What the engine said instead of an answer."""

    def __init__(self, kind: str, message: str, trace: Sequence[str] = ()) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message, self.trace = kind, message, tuple(trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """A data file of the newest snapshot."""

    partition: str
    bucket: int
    total_buckets: int
    level: int
    name: str
    rows: int
    deletes: int | None
    min_sequence: int
    max_sequence: int
    schema_id: int
    size_bytes: int
    source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What a streaming reader was handed: plans, each with the snapshot that comes next and the watermark, and whether the stream is over."""

    plans: tuple[tuple[int | None, int | None, tuple[tuple[str, tuple[Any, ...]], ...]], ...]
    is_over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """What a snapshot counts."""

    id: int
    schema_id: int
    kind: str
    commit_user: str
    identifier: int
    total: int
    delta: int
    changelog: int | None
    watermark: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A format table, as a question describes it."""

    path: str
    schema: Mapping[str, str]
    partition_keys: Sequence[str] = ()
    options: Mapping[str, str]

    def told(self) -> dict[str, Any]:
        """All but the path."""
        ids = count(_FIRST_ID)
        fields = [[name, numbered(type_to_json(parse(text)), ids)] for name, text in self.schema.items()]
        return {"fields": fields, "partition_keys": list(self.partition_keys), "options": dict(self.options)}


class Judge:
    """The engine behind a pair of pipes."""

    def __init__(self, scratch: Path, options: Sequence[str] = SOON_READY) -> None:
        with built() as classes:
            java = ["java", *options, "-Duser.timezone=UTC", f"-Djava.io.tmpdir={scratch}", "-cp", classes, "golden.Judge"]
            self._told = (scratch / "told.txt").open("w", encoding="utf-8")
            self._engine = subprocess.Popen(java, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._told, text=True, encoding="utf-8")

    @property
    def process(self) -> int:
        """The number of the engine's process."""
        return self._engine.pid

    def close(self) -> None:
        """Ends the JVM."""
        with self._engine as engine:
            assert engine.stdin is not None
            engine.stdin.close()
        self._told.close()

    def ask(self, do: str, path: str | Path, **given: Any) -> dict[str, Any]:
        """The answer to one question."""
        stdin, stdout = self._engine.stdin, self._engine.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"do": do, "path": str(path), **given}) + "\n")
        stdin.flush()
        line = stdout.readline()
        assert line, f"the engine went away: {Path(self._told.name).read_text(encoding='utf-8')[-2000:]}"
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"], answer["message"], answer["trace"])
        return answer

    # ---- time zones

    @contextmanager
    def in_zone(self, zone: str) -> Iterator[None]:
        """Run the engine in a time zone for a while; it runs in UTC otherwise."""
        self.ask("set_zone", "", zone=zone)
        try:
            yield
        finally:
            self.ask("set_zone", "", zone="UTC")

    def zones(self) -> list[str]:
        """Return the names of all time zones that the JVM has."""
        found: list[str] = self.ask("zones", "")["zones"]
        return found

    def offsets(self, zone: str, seconds: Sequence[int]) -> list[int]:
        """Return the offsets of a zone, in milliseconds, at seconds since the epoch."""
        found: list[int] = self.ask("offsets", "", zone=zone, seconds=list(seconds))["offsets"]
        return found

    # ---- making and altering

    def create(
        self,
        path: str | Path,
        schema: Mapping[str, str],
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> int:
        """A new table; its schema's id."""
        ids = count(_FIRST_ID)
        fields = [[name, numbered(type_to_json(parse(text)), ids)] for name, text in schema.items()]
        keys = {"primary_keys": list(primary_keys), "partition_keys": list(partition_keys)}
        return self._schema_id(self.ask("create", path, fields=fields, options=dict(options or {}), **keys))

    def alter(self, path: str | Path, *changes: Sequence[Any]) -> int:
        """("add_column", "c", "INT"), ("set_option", "k", "v") …: the names and words of `lk`, "c.f" a nested field; the new schema's id."""
        ids = count(_FIRST_ID)
        told = [[word, name, *(_typed(word, value, ids) for value in rest)] for word, name, *rest in changes]
        return self._schema_id(self.ask("alter", path, changes=told))

    @staticmethod
    def _schema_id(answer: dict[str, Any]) -> int:
        return int(answer["schema_id"])

    # ---- reading

    def read(
        self,
        path: str | Path,
        *,
        columns: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
        system: str | None = None,
        branch: str | None = None,
    ) -> Read:
        """Rows of the table, or of a system table, as `expectations.difference` compares them."""
        answer = self.ask("read", path, columns=None if columns is None else list(columns), options=dict(options or {}), system=system, branch=branch)
        return Read(
            name="judge",
            branch=branch,
            system=system,
            options=dict(options or {}),
            columns=tuple(answer["columns"]),
            types=types_of(answer),
            rows=rows_of(answer["rows"]),
            error=None,
        )

    def placed(
        self, path: str | Path, *, columns: Sequence[str] | None = None, where: tuple[str, Any] | None = None, condition: Sequence[Any] | None = None
    ) -> list[tuple[str, int, tuple[Any, ...]]]:
        """Each visible row's partition path ("dt=1/"), bucket and values.

        `where`: only rows with this value, found by all that the engine prunes with; `condition`: of a condition, as ["and", ["<", "a", 3], ["null", "b"]].
        """
        asked = {"columns": columns and list(columns), "where": where and list(where), "condition": condition and list(condition)}
        return [(partition, bucket, tuple(values)) for partition, bucket, values in self.ask("placed", path, **asked)["rows"]]

    def changelog(
        self, path: str | Path, *, since: int = 1, until: int | None = None, options: Mapping[str, str] | None = None
    ) -> dict[int, tuple[tuple[str, tuple[Any, ...]], ...]]:
        """By snapshot, from `since` to `until` (the newest), both inclusive: the rows that a streaming reader is handed, without empty snapshots."""
        answer = self.ask("changelog", path, since=since, until=until, options=dict(options or {}))
        return {snapshot: rows_of(rows) for snapshot, rows in answer["changes"]}

    def follow(self, path: str | Path, *, since: int | None = None, options: Mapping[str, str] | None = None, acknowledge: bool | None = None) -> Followed:
        """What a streaming reader is handed until it would wait, restored to `since` or from where the options begin; `acknowledge` records its consumer."""
        answer = self.ask("follow", path, since=since, options=dict(options or {}), acknowledge=acknowledge)
        return Followed(plans=tuple((after, watermark, rows_of(rows)) for after, watermark, rows in answer["plans"]), is_over=answer["end"] == "over")

    def snapshots(self, path: str | Path) -> list[SnapshotFacts]:
        """The snapshots that there are, oldest first."""
        return [SnapshotFacts(**one) for one in self.ask("snapshots", path)["snapshots"]]

    def files(self, path: str | Path, *, options: Mapping[str, str] | None = None) -> list[LiveFile]:
        """The live data files; `delete` counts them in this order."""
        return [LiveFile(**one) for one in self.ask("files", path, options=dict(options or {}))["files"]]

    def buckets_of(self, path: str | Path, rows: Iterable[Row]) -> list[tuple[str, int]]:
        """The partition path and the bucket where a writer of a table with fixed buckets puts each row."""
        return [(partition, bucket) for partition, bucket in self.ask("buckets_of", path, rows=told_rows(rows))["places"]]

    # ---- folders: format tables and object tables, which no schema file describes

    def folder_read(self, folder: Folder, *, where: tuple[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a format table's files; `where`: of the partitions that may hold a value."""
        return [tuple(row) for row in self.ask("folder_read", folder.path, where=None if where is None else list(where), **folder.told())["rows"]]

    def folder_write(self, folder: Folder, rows: Iterable[Sequence[Any]], *, overwrite: Mapping[str, str] | None = None) -> None:
        """Adds rows to a format table; `overwrite` names the static partition, or none for those of the rows."""
        replaced = None if overwrite is None else dict(overwrite)
        self.ask("folder_write", folder.path, rows=[["+I", list(row)] for row in rows], overwrite=replaced, **folder.told())

    def objects(self, path: str | Path) -> list[tuple[Any, ...]]:
        """path, name, length, mtime, atime and owner of what lies in a folder, as an object table lists it."""
        return [tuple(row) for row in self.ask("objects", path)["rows"]]

    # ---- writing: each returns the snapshots that came of it

    def write(
        self,
        path: str | Path,
        rows: Iterable[Row],
        *,
        options: Mapping[str, str] | None = None,
        overwrite: Mapping[str, str] | None = None,
        user: str | None = None,
        identifier: int | None = None,
        watermark: int | None = None,
        wait: bool = True,
        full: bool = False,
        sink: bool = False,
    ) -> list[int]:
        """One commit: of a batch, or with an `identifier` of the streaming job `user`; `full` compacts every bucket in the same commit.

        `sink`: with the changelog producer full-compaction every commit compacts the buckets it wrote, as those of Flink's sink do and bare writers do not.
        """
        job = {"user": user, "identifier": identifier, "watermark": watermark, "wait": wait, "full": full, "sink": sink}
        dynamic, replaced = dict(options or {}), None if overwrite is None else dict(overwrite)
        return self._made(self.ask("write", path, rows=told_rows(rows), options=dynamic, overwrite=replaced, **job))

    def compact(self, path: str | Path, *, full: bool = False, postponed: int = 1, options: Mapping[str, str] | None = None) -> list[int]:
        """A dedicated compaction of every bucket; of a postpone table into `postponed` buckets."""
        return self._made(self.ask("compact", path, full=full, postponed=postponed, options=dict(options or {})))

    def clustering_units(self, path: str | Path, *, full: bool = False) -> list[tuple[int, list[str]]]:
        """Of each partition that incremental clustering would sort now: the level its rows would go to, and the names of the files."""
        return sorted((level, names) for level, names in self.ask("clustering_units", path, full=full)["units"])

    def compact_manifests(self, path: str | Path) -> list[int]:
        """Merges manifests as far as they go."""
        return self._made(self.ask("compact_manifests", path))

    def truncate(self, path: str | Path, partitions: Sequence[Mapping[str, str]] | None = None) -> list[int]:
        """Removes every row, or whole partitions."""
        return self._made(self.ask("truncate", path, partitions=None if partitions is None else [dict(one) for one in partitions]))

    def delete(self, path: str | Path, positions: Sequence[tuple[int, int]]) -> list[int]:
        """Marks rows of an append table with deletion vectors: (number of the file among `files`, position)."""
        return self._made(self.ask("vectors", path, deleted=[list(one) for one in positions]))

    @staticmethod
    def _made(answer: dict[str, Any]) -> list[int]:
        return list(answer["snapshots"])


def told_rows(rows: Iterable[Row]) -> list[list[Any]]:
    """Rows as a question holds them."""
    return [[kind, list(values)] for kind, values in rows]


def rows_of(rows: Iterable[Sequence[Any]]) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Rows of an answer as the recorded reads hold them."""
    return tuple((kind, tuple(values)) for kind, values in rows)


def types_of(answer: dict[str, Any]) -> tuple[DataType, ...]:
    """The types of an answer's columns."""
    return tuple(parse(text) for text in answer["types"])


def numbered(node: Any, ids: Iterator[int]) -> Any:
    """A type's JSON in which nested fields have ids of their own."""
    if isinstance(node, dict):
        return {name: next(ids) if name == "id" else numbered(part, ids) for name, part in node.items()}
    return [numbered(part, ids) for part in node] if isinstance(node, list) else node


def _typed(word: str, value: Any, ids: Iterator[int]) -> Any:
    return numbered(type_to_json(parse(value)), ids) if word in ("add_column", "update_type") else value


# ---- the JVM -------------------------------------------------------------------------------------------------------------------------------------


def missing() -> str | None:
    """Why there is no engine on this machine, or None."""
    absent = [f"{program} (Debian: {package})" for program, package in NEEDS.items() if shutil.which(program) is None]
    return f"the reference engine needs {' and '.join(absent)}" if absent else None


@contextmanager
def built() -> Iterator[str]:
    """The class path, built when a source is newer than it; processes wait for each other."""
    jar, lock = RECIPE / "target" / "judge.jar", RECIPE / "target" / "building"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        sources = [RECIPE / "pom.xml", *(path for name in ("judge", "by_reference") for path in (RECIPES / name).rglob("src/**/*.java"))]
        if not jar.exists() or jar.stat().st_mtime < max(path.stat().st_mtime for path in sources):
            subprocess.run(["mvn", "-q", "package"], cwd=RECIPE, check=True)
        yield os.pathsep.join((str(jar), f"{RECIPE}/target/lib/*"))


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """The engine, for as long as the session lasts."""
    if (why := missing()) is not None:
        pytest.skip(why)
    engine = Judge(tmp_path_factory.mktemp("judge"))
    yield engine
    engine.close()
