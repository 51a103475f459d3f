"""Executors and drivers in processes of their own: a packed environment reaches executors, and whoever dies, or does a thing twice, rows are there once.

Each test starts JVMs, which takes its time: `pytest -m "spark and deep"` runs them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

import lakekit as lk

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(3600)]
ROOT = Path(__file__).parents[3]
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
START = """
import json, os, signal, sys, time
from functools import partial
import pyarrow as pa
from pyspark import TaskContext
import lakekit as lk
import lakekit.spark as ls
from lakekit.spark import write_task

master, path, *more = sys.argv[1:]
fast = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
spark = ls.start(master, config={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.executor.memory": "700m",
    "spark.driver.extraJavaOptions": fast, "spark.executor.extraJavaOptions": fast, **json.loads(os.environ.get("CONFIG", "{}"))})
spark.sparkContext.setLogLevel("OFF")

def frame(first, end, text="v"):
    return spark.range(first, end, 1, 2).selectExpr("id AS k", f"concat('{text}', id) AS v")
"""
PACKED = (
    START
    + """
def who(batches):
    import lakekit
    for batch in batches:
        yield pa.RecordBatch.from_pylist([{"prefix": sys.prefix, "lakekit": lakekit.__file__, "threads": os.environ["POLARS_MAX_THREADS"]}])

found = spark.range(0, 4, 1, 4).mapInArrow(who, "prefix string, lakekit string, threads string").collect()
ls.write(frame(0, 1000), path)
ls.write(frame(500, 1500, "w"), path)
read = ls.read(spark, path).count()
done = ls.compact(spark, path, full=True)
ls.register(spark)
after = spark.read.format("lakekit").load(path).count()
print("told", json.dumps({"here": sys.prefix, "there": [row.asDict() for row in found], "read": read, "kinds": done.kinds, "after": after}))
"""
)
FAULTS = (
    START
    + """
fault, marks = more

def jvm():
    pid = os.getpid()
    while "java" not in open(f"/proc/{pid}/comm").read():
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    return pid

def written(fault, marks, job, batches):
    from lakekit.spark import write_task
    answers = list(write_task.write_rows(job, batches))  # the files are there, and nobody knows of them
    first, second = f"{marks}/first", f"{marks}/second"
    if TaskContext.get().partitionId() == 1:
        try:
            os.close(os.open(first, os.O_CREAT | os.O_EXCL))  # by its number an attempt would be the first again, where its whole stage is
        except FileExistsError:
            open(second, "w").close()
        else:
            if fault == "executor":
                os.kill(jvm(), signal.SIGKILL)
            while not os.path.exists(second):  # until the duplicate has written them too
                time.sleep(0.1)
    yield from answers

write_task.write_rows = partial(written, fault, marks)
done = ls.write(frame(0, 1000), path, commit_user="job", identifier=1)
print("told", json.dumps({"rows": done.row_count}))
"""
)
DRIVER = (
    START
    + """
from lakekit.maintenance import after_commit
if more[0] == "dies":
    after_commit.maintain_after_commit = lambda *given: os._exit(9)  # the commit is made, and nobody hears of it
    ls.write(frame(0, 100), path, commit_user="job", identifier=1)
if more[0] == "again":
    print("told", json.dumps({"snapshots": ls.write(frame(0, 100), path, commit_user="job", identifier=1).snapshot_ids}))
if more[0] == "meets":
    marks, me, other = more[1:]
    open(f"{marks}/{me}", "w").close()
    while not os.path.exists(f"{marks}/{other}"):
        time.sleep(0.1)
    lost = 0
    for number in range(3):
        first = (int(me) * 3 + number) * 100
        ls.write(frame(first, first + 100), path, commit_user=me, identifier=number)
        try:
            ls.compact(spark, path, full=True)
        except lk.Conflict:  # the other one was faster
            lost += 1
    print("told", json.dumps({"lost": lost}))
"""
)


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    """A folder with Spark in it, so that executors of a local cluster work here and not beside the installed one."""
    home = tmp_path / "spark"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    return tmp_path


def environment(ground: Path, **more: str) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    return {**mine, "SPARK_HOME": str(ground / "spark"), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT), **more}


def start(ground: Path, program: str, *arguments: object, **more: str) -> subprocess.Popen[str]:
    (ground / "program.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "program.py", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ground, env=environment(ground, **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a program says at its end."""
    out, wrong = process.communicate()
    assert process.returncode == 0, wrong[-4000:]
    found: dict[str, Any] = json.loads(out.partition("told ")[2])
    return found


def table(ground: Path) -> lk.Table:
    return lk.create(ground / "t", {"k": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["k"], options={"bucket": "2", "write-only": "true"})


def check(t: lk.Table, end: int) -> set[str]:
    """That keys up to `end` are there once. Gives the data files that no snapshot names, all of which cleaning finds, and nothing else."""
    named = {name for at in t.snapshots()["snapshot_id"].to_list() for name in t.files(at)["file_name"]}
    lost = {path.name for path in Path(t.location).rglob("data-*")} - named
    for path in Path(t.location).rglob("*"):
        os.utime(path, (1e9, 1e9))  # long ago
    found = {Path(path).name for path in t.remove_orphans(dry_run=False)["path"]}
    assert {name for name in found if name.startswith("data-")} == lost
    assert sorted(t.scan().collect().rows()) == [(k, f"v{k}") for k in range(end)]
    assert t.check(deep=True).ok
    return lost


def test_executors_get_a_packed_environment(ground: Path) -> None:
    """As the README says: the driver runs beside `env`, executors unpack it where they work, and lakekit is there and nowhere else."""
    subprocess.run([sys.executable, "-m", "venv", ground / "env"], check=True)
    subprocess.run([ground / "env" / "bin" / "pip", "install", "-q", str(ROOT), "pandas>=2.2,<3"], check=True)
    subprocess.run(["tar", "-czf", "env.tar.gz", "-C", "env", "."], cwd=ground, check=True)
    t = table(ground)
    # of what executors see of this machine, the checkout is no part
    config = '{"spark.archives": "env.tar.gz#env", "spark.executorEnv.PYTHONPATH": ""}'
    process = start(ground, PACKED, LOCAL_CLUSTER, t.location, PYSPARK_PYTHON="./env/bin/python", CONFIG=config, PYTHONPATH="")
    said = told(process)
    places = {row["prefix"] for row in said["there"]}
    assert said["here"] == sys.prefix
    assert len(places) == 2, "two executors, an environment each"
    assert all(re.search(r"/work/app-[^/]+/\d+/env$", place) for place in places)
    assert all(row["lakekit"].startswith(row["prefix"]) and row["threads"] == "1" for row in said["there"])
    assert (said["read"], said["kinds"], said["after"]) == (1500, ["COMPACT"], 1500)
    assert t.check(deep=True).ok


def test_an_executor_that_dies_when_it_has_written(ground: Path) -> None:
    t = table(ground)
    assert told(start(ground, FAULTS, LOCAL_CLUSTER, t.location, "executor", ground)) == {"rows": 1000}
    assert (ground / "first").exists()
    assert check(t, 1000), "the files of the executor that died"


@pytest.fixture
def two_hosts(ground: Path) -> Iterator[str]:
    """The master of a standalone cluster whose two workers are different hosts to it: Spark puts no duplicate where the first attempt runs."""
    started = []

    def daemon(what: str, *arguments: str) -> subprocess.Popen[str]:
        command = [str(ground / "spark" / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments]
        with (ground / f"{len(started)}.log").open("w", encoding="utf-8") as log:
            started.append(subprocess.Popen(command, env=environment(ground, SPARK_LOCAL_IP=arguments[1]), stdout=log, stderr=log, text=True))
        return started[-1]

    def waited_for(text: str) -> str:
        while (found := re.search(text, (ground / "0.log").read_text(encoding="utf-8"))) is None:
            assert started[0].poll() is None
            time.sleep(0.2)
        return found[0]

    try:
        daemon("master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = waited_for(r"spark://127\.0\.0\.1:\d+")
        for host in ("127.0.0.1", "127.0.0.2"):
            daemon("worker.Worker", "--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(ground / "work"), master)
        waited_for(r"(?s)Registering worker.*Registering worker")
        yield master
    finally:
        for process in started:
            process.terminate()
            process.wait()


def test_a_duplicate_that_spark_speculates_on(two_hosts: str, ground: Path) -> None:
    t = table(ground)
    config = '{"spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.quantile": "0.5", "spark.speculation.multiplier": "1.01"}'
    process = start(ground, FAULTS, two_hosts, t.location, "speculates", ground, CONFIG=config, PYSPARK_PYTHON=sys.executable)
    assert told(process) == {"rows": 1000}
    assert (ground / "first").exists() and (ground / "second").exists(), "both have written"
    assert check(t, 1000), "the files of the attempt that nobody listened to"


def test_a_driver_that_is_killed_after_its_commit(ground: Path) -> None:
    t = table(ground)
    process = start(ground, DRIVER, "local[1]", t.location, "dies")
    process.communicate()
    assert process.returncode == 9
    there = {path.name for path in Path(t.location).rglob("data-*")}
    assert told(start(ground, DRIVER, "local[1]", t.location, "again")) == {"snapshots": [1]}
    assert {path.name for path in Path(t.location).rglob("data-*")} == there
    assert not check(t, 100)


def test_two_drivers_write_and_compact_at_once(ground: Path) -> None:
    t = table(ground)
    both = [start(ground, DRIVER, "local[1]", t.location, "meets", ground, me, other) for me, other in ("01", "10")]
    for process in both:
        told(process)
    check(t, 600)
    assert sorted(t.snapshots().filter(kind="APPEND").select("commit_user", "commit_identifier").rows()) == [(me, n) for me in "01" for n in range(3)]
