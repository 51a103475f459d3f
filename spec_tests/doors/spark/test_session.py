"""Tasks run: one Spark task each, whatever their number, and a session that cannot work is refused in words."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from lakekit.errors import ExtraMissing, Unsupported
from lakekit.spark import session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = StructType([StructField("task", StringType()), StructField("partition", IntegerType()), StructField("threads", StringType())])


def told(task: bytes) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    yield pa.RecordBatch.from_pylist(
        [{"task": task.decode(), "partition": TaskContext.get().partitionId(), "threads": os.environ["POLARS_MAX_THREADS"]}],
        pa.schema({"task": pa.string(), "partition": pa.int32(), "threads": pa.string()}),
    )


def test_each_task_is_a_task_of_spark(spark: SparkSession) -> None:
    rows = session.run(spark, [b"a", b"b", b"c"], told, SCHEMA).collect()
    threads = os.environ.get("POLARS_MAX_THREADS", "1")
    assert sorted(tuple(row) for row in rows) == [("a", 0, threads), ("b", 1, threads), ("c", 2, threads)]


def test_many_bytes_are_cut_into_frames(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CLOSURE_BYTES", 4)
    tasks = [b"aaa", b"b", b"cc", b"ddddd", b"e"]
    assert list(session._group_by_closure_size(tasks)) == [(b"aaa", b"b"), (b"cc",), (b"ddddd",), (b"e",)]
    assert sorted(row.task for row in session.run(spark, tasks, told, SCHEMA).collect()) == ["aaa", "b", "cc", "ddddd", "e"]


def test_no_tasks_are_no_rows(spark: SparkSession) -> None:
    found = session.run(spark, [], told, SCHEMA)
    assert (found.schema, found.collect()) == (SCHEMA, [])


def test_what_is_no_session_is_refused() -> None:
    with pytest.raises(TypeError, match=r"the first argument is a SparkSession, not str: ls.start\(\) gives one"):
        session.check("spark")  # type: ignore[arg-type]


def test_an_old_spark_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"the Spark of this session is 3\.5\.1; lakekit.spark needs 4.0 to 4.3"):
        session.check(SimpleNamespace(range=None, read=None, version="3.5.1"))  # type: ignore[arg-type]


def test_another_python_is_told(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark._sc, "pythonExec", "python-of-nobody")
    with pytest.warns(UserWarning, match="Spark's Python processes run 'python-of-nobody' and not .* set PYSPARK_PYTHON"):
        session.check(spark)


def test_a_machine_without_java_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unsupported, match="where there is no bin/java: apt install openjdk-17-jre-headless"):
        session.start("local[1]")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match="there is no java on the PATH: apt install openjdk-17-jre-headless"):
        session.start("local[1]")


def java(home: Path, *lines: str, release: str | None = None) -> Path:
    """Something that is called java, and what lies beside it."""
    home.joinpath("bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text("\n".join(("#!/bin/sh", *lines)) + "\n", encoding="utf-8")
    script.chmod(0o755)
    if release is not None:
        home.joinpath("release").write_text(release, encoding="utf-8")
    return script


def test_an_old_java_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    eleven = java(tmp_path / "11", release='IMPLEMENTOR="Debian"\nJAVA_VERSION="11.0.22"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "11"))
    said = rf"Java 17 or newer, and {eleven}, which JAVA_HOME says, is Java 11: apt install openjdk-17-jre-headless, then set JAVA_HOME"
    with pytest.raises(Unsupported, match=said):
        session.start("local[1]")
    eight = java(tmp_path / "8", """echo 'openjdk version "1.8.0_392"' >&2""")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", f"{eight.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(Unsupported, match=rf"{eight}, the first on the PATH, is Java 8"):
        session.start("local[1]")


@pytest.mark.parametrize(
    ("lines", "release", "version"),
    [
        ((), 'JAVA_VERSION="17"', 17),
        ((), 'IMPLEMENTOR_VERSION="Temurin-11"\nJAVA_RUNTIME_VERSION="21.0.2+13"\nJAVA_VERSION="21.0.2"', 21),
        (("echo Picked up JAVA_TOOL_OPTIONS: -Xmx1g >&2", """echo 'openjdk version "25-ea" 2025-09-16' >&2"""), None, 25),
        (("echo who knows >&2", "exit 1"), None, None),
    ],
)
def test_what_a_java_says_of_itself(tmp_path: Path, lines: tuple[str, ...], release: str | None, version: int | None) -> None:
    """One that does not say is tried: Spark's own words are the last."""
    assert session._java_version(str(java(tmp_path / "jvm", *lines, release=release))) == version


@pytest.mark.parametrize("guest", ["pyspark"])
def test_a_missing_guest_is_told_with_its_extra(guest: str) -> None:
    code = f"import sys\nsys.modules[{guest!r}] = None\nimport lakekit\ntry:\n    import lakekit.spark\nexcept lakekit.Unsupported as told:\n    print(told)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "lakekit.spark needs pyspark: pip install 'lakekit[spark]'\n"


def test_pandas_is_told_too(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ExtraMissing, match=r"lakekit.spark needs pandas, which PySpark uses for Arrow: pip install 'lakekit\[spark\]'"):
        session.check(spark)


def test_importing_lakekit_brings_no_guest() -> None:
    code = "import sys, lakekit\nprint(sorted({'pyspark', 'pandas', 'polars', 'lakekit.spark'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_new_session_bounds_arrow_by_rows() -> None:
    """One with its own bounds, and one that is there, stay as they are."""
    code = """
import sys, lakekit.spark as ls
names = ("spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.execution.arrow.maxRecordsPerBatch")
spark = ls.start("local[1]", config={"spark.ui.enabled": "false", **({names[1]: "7"} if sys.argv[1:] else {})})
print([spark.conf.get(name) for name in names])
for name, value in zip(names, ("9m", "9")):
    spark.conf.set(name, value)
print([ls.start().conf.get(name) for name in names])
"""
    for given, found in ((), [str(2**31 - 1), str(session.BATCH_ROWS)]), (("own",), ["67108864b", "7"]):
        told = subprocess.run([sys.executable, "-c", code, *given], capture_output=True, text=True, check=True).stdout.splitlines()
        assert told == [str(found), "['9m', '9']"]


def test_what_tasks_import_is_no_garbage_to_look_through(spark: SparkSession) -> None:
    """PySpark collects garbage after each task; of a process that has done one of ours, modules are left out."""

    def frozen(_: bytes) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([gc.get_freeze_count()], pa.int64())], ["n"])

    before = gc.get_freeze_count()
    assert all(row.n > 10_000 for row in session.run(spark, [b"", b""], frozen, StructType.fromDDL("n long")).collect())
    assert gc.get_freeze_count() <= before, "only in tasks"
