"""Run functions in Spark tasks: one task for each of some byte strings.

    run(spark, [b"…", b"…"], function, schema)        a DataFrame of what function(task) yields

A task's bytes travel in the closure of its frame. A long list is cut into frames whose closures stay small, and their
union is returned: each Python process decodes only what its own frame carries. Nothing here uses an RDD or the JVM, so
that classic sessions and Spark Connect behave alike.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
from functools import partial, reduce
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark import TaskContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from lakekit import storage
from lakekit.errors import ExtraMissing, InvalidOption, SchemaMismatch, TableAlreadyExists, Unsupported
from lakekit.runtime import warn_user
from lakekit.types import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from lakekit.catalog.catalog import Catalog
    from lakekit.table.table import Table

    Function = Callable[[bytes], Iterable[pa.RecordBatch]]

OLDEST_SPARK = (4, 0)
"""The first PySpark whose Python functions take and return Arrow as this package needs it."""
CLOSURE_BYTES = 4 << 20
"""The bytes of tasks that one frame carries: every Python process of the frame decodes all of them."""
SMALL_TASK_BYTES, MAX_TASK_BYTES = 1 << 20, 1 << 28
"""Sizes of rows: up to the first they are small to every planner and need no estimate; beyond the second they are big,
and a longer range would take its time.
"""
_NUMBER_BYTES = 8
DEFAULT_SLOTS = 16
"""The number of cores that is assumed where it is unknown."""
BATCH_ROWS = 4096
"""Rows of an Arrow batch in a new session: rows of up to half a megabyte fit into the two gigabytes of one."""
_BATCH_BYTES, _BATCH_ROWS = "spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.execution.arrow.maxRecordsPerBatch"
JAVA_INSTALL_HINT = "apt install openjdk-17-jre-headless"
OLDEST_JAVA = 17
JAVA_TIMEOUT_S = 60


def run(
    spark: SparkSession, tasks: Sequence[bytes], function: Function, schema: StructType, *, size_bytes: int = 0
) -> DataFrame:
    """Return the Arrow batches that `function` yields for `tasks` as a DataFrame: one Spark task for each.

    `function` and what it holds reach the executors with Spark's own pickling, once a task; it is called there with the
    bytes of one task. What it raises fails the Spark job after Spark's retries. `size_bytes` is the size of all rows
    for Spark's planner: it sends small frames whole to every executor, where they are joined.
    """
    check(spark)
    if not tasks:
        return empty_frame(spark, schema)
    each = (
        1 if size_bytes <= SMALL_TASK_BYTES else max(1, min(size_bytes, MAX_TASK_BYTES) // (_NUMBER_BYTES * len(tasks)))
    )
    frames = [
        _number_partitions(spark, len(part), each).mapInArrow(partial(_run_partition, function, part, each), schema)
        for part in _group_by_closure_size(tasks)
    ]
    return reduce(lambda left, right: left.unionAll(right), frames)


def _number_partitions(spark: SparkSession, count: int, each: int) -> DataFrame:
    """Return `count` numbers in as many partitions: every `each`-th of a range.

    The length of the range is all that Spark knows of the size of what is made of them.
    """
    numbers = spark.range(0, count * each, 1, count)
    return numbers if each == 1 else numbers.filter(f"id % {each} = 0")


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return no rows of that schema."""
    return spark.range(0).select(*(lit(None).cast(field.dataType).alias(field.name) for field in schema))


def _group_by_closure_size(tasks: Sequence[bytes]) -> Iterator[tuple[bytes, ...]]:
    """Yield the tasks in runs of at most `CLOSURE_BYTES`."""
    first = size = 0
    for at, task in enumerate(tasks):
        if at > first and size + len(task) > CLOSURE_BYTES:
            yield tuple(tasks[first:at])
            first, size = at, 0
        size += len(task)
    yield tuple(tasks[first:])


def _run_partition(
    function: Function, tasks: Sequence[bytes], each: int, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    freeze_imports()
    for batch in numbers:
        for number in batch.column(0).to_pylist():  # scalar: one a task
            yield from function(tasks[number // each])


def freeze_imports() -> None:
    """Exempt what is imported by now from garbage collection, once in each process of tasks.

    PySpark collects garbage after every task, which takes 60 ms of looking at modules.
    """
    if not gc.get_freeze_count() and TaskContext.get() is not None:
        gc.freeze()


def slots(spark: SparkSession) -> int:
    """Return about how many tasks the session runs at once.

    Spark Connect does not say; there it is `spark.default.parallelism`, or a small cluster's.
    """
    context = getattr(spark, "_sc", None)
    if context is not None:
        return int(context.defaultParallelism)
    parallelism = spark.conf.get("spark.default.parallelism", None)
    return int(parallelism) if parallelism is not None and parallelism.isdecimal() else DEFAULT_SLOTS


def check(spark: SparkSession) -> None:
    """Check that a session can run lakekit.

    Warns of a local session whose Python processes are another Python than this one, which may have neither lakekit nor
    pyarrow.

    Raises: `Unsupported` for a Spark that is too old, `ExtraMissing` for a missing package, `TypeError` for what is no
    session.
    """
    if not hasattr(spark, "range") or not hasattr(spark, "read"):
        msg = f"the first argument is a SparkSession, not {type(spark).__name__}: ls.start() gives one"
        raise TypeError(msg)
    _same_versions(pyspark.__version__, "PySpark")
    _same_versions(spark.version, "the Spark of this session")
    if find_spec("pandas") is None:  # PySpark asks for it when rows become Arrow, in words of its own
        msg = "lakekit.spark needs pandas, which PySpark uses for Arrow: pip install 'lakekit[spark]'"
        raise ExtraMissing(msg, feature="spark", extra="spark")
    python = _other_python(spark)
    if python is not None:
        warn_user(
            f"Spark's Python processes run {python!r} and not {sys.executable!r}: set PYSPARK_PYTHON to a Python "
            "that has lakekit before the session is made, or make it with ls.start()"
        )


def _same_versions(version: str, whose: str) -> None:
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < OLDEST_SPARK:
        msg = f"{whose} is {version}; lakekit.spark needs 4.0 to 4.3: pip install 'lakekit[spark]'"
        raise Unsupported(msg, feature="spark")


def _other_python(spark: SparkSession) -> str | None:
    """Return the Python of a local classic session's processes; None if it is this Python."""
    context = getattr(spark, "_sc", None)
    if context is None or not _is_one_process(str(context.master)):
        return None
    python = shutil.which(context.pythonExec)
    if python is None:
        return str(context.pythonExec)
    mine, theirs = Path(sys.executable), Path(python)
    # a virtual environment is known by its link; outside of any, links to one Python are the same Python
    same = mine.absolute() == theirs.absolute() or (sys.prefix == sys.base_prefix and mine.samefile(theirs))
    return None if same else python


def start(master: str | None = None, *, config: Mapping[str, Any] | None = None) -> SparkSession:
    """Return a new classic session in which lakekit's tasks run well, or the existing one.

    The Python processes of a local master are this Python (`PYSPARK_PYTHON`), and Polars gets one thread a task core
    (`POLARS_MAX_THREADS`), unless the environment says otherwise. In a new local session rows become Arrow for Python
    4,096 at a time, whatever their bytes, which is faster; rows of half a megabyte and more need
    `spark.sql.execution.arrow.maxBytesPerBatch` in `config`, of which Spark's own value is "64m". `config` is Spark's
    own. A session made any other way works too.

    Raises: `Unsupported` where there is no Java, or an old one.
    """
    settings = {str(key): str(value) for key, value in (config or {}).items()}
    where = master or settings.get("spark.master") or os.environ.get("MASTER", "")
    if not where or _is_one_process(where):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    cores = settings.get("spark.task.cpus", "1")
    if not cores.isdecimal():
        raise InvalidOption(f"spark.task.cpus is {cores!r}; it is a whole number", key="spark.task.cpus", value=cores)
    _find_java()
    builder = SparkSession.builder.config("spark.executorEnv.POLARS_MAX_THREADS", cores)
    if master is not None:
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    is_new = SparkSession.getActiveSession() is None
    try:
        return _bound_batch_rows(builder.getOrCreate()) if is_new else builder.getOrCreate()
    except PySparkException as wrong:
        if wrong.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        msg = f"Java did not start Spark; its own words are above. Spark 4 needs Java 17 or newer: {JAVA_INSTALL_HINT}"
        raise Unsupported(msg, feature="spark") from wrong


def _bound_batch_rows(spark: SparkSession) -> SparkSession:
    """Limit the rows of Arrow batches of a new local session, unless its configuration sets a limit.

    From 4.1 on Spark bounds them by bytes too, and adds up the bytes of all columns again for every row: a third of the
    time in which rows become Arrow. Executors of a cluster have little memory beside their heap, and keep that bound.
    """
    context = getattr(spark, "_sc", None)
    conf = context.getConf() if context is not None and _is_one_process(str(context.master)) else None
    if conf is not None and not conf.contains(_BATCH_BYTES) and not conf.contains(_BATCH_ROWS):
        spark.conf.set(_BATCH_ROWS, str(BATCH_ROWS))
        spark.conf.set(_BATCH_BYTES, str(2**31 - 1))
    return spark


def _is_one_process(master: str) -> bool:
    """Return whether tasks run beside the driver; `local-cluster` starts executors, as a cluster does."""
    return master == "local" or master.startswith("local[")


def _find_java() -> None:
    """Raise `Unsupported` where Spark would find no Java, or one that it does not run on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if java is None:
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is no java on the PATH"
        msg = f"Spark needs Java 17, and {where}: {JAVA_INSTALL_HINT}"
        raise Unsupported(msg, feature="spark")
    version = _java_version(java)
    if version is not None and version < OLDEST_JAVA:
        where = "which JAVA_HOME says" if home else "the first on the PATH"
        msg = (
            f"Spark 4 needs Java 17 or newer, and {java}, {where}, is Java {version}: {JAVA_INSTALL_HINT}, then set "
            f"JAVA_HOME to "
            "its folder below /usr/lib/jvm"
        )
        raise Unsupported(msg, feature="spark")


def _java_version(java: str) -> int | None:
    """Return the major version of a Java, 8 for its "1.8"; None where it does not say.

    Its `release` file is faster to read than running it.
    """
    try:
        text = Path(java).resolve().parent.parent.joinpath("release").read_text(encoding="utf-8")
    except OSError:
        try:
            text = subprocess.run(  # noqa: S603 - what Spark is about to run
                [java, "-version"],
                capture_output=True,
                text=True,
                check=False,
                timeout=JAVA_TIMEOUT_S,
            ).stderr
        except (OSError, subprocess.TimeoutExpired):
            return None
    match = re.search(r'(?:^JAVA_VERSION=| version )"(?:1\.)?(\d+)', text, flags=re.MULTILINE)
    return None if match is None else int(match[1])


# ---- names in the session's own catalog ------------------------------------------------------------------------------


SOURCE_NAME_PREFIX, ENTRY_SETTING_PREFIX = "lakekit__", "lakekit.attached."
"""How the source of an attached table is called, and the setting that says where an entry comes from."""
VERSION_WORD = "_at_"
"""What parts a table and a version in the name of an entry: Spark takes no `@` in names."""


def can_be_named(row: tuple[str, str]) -> bool:
    """Return whether Spark's own catalog takes the names of a database and a table; warn where it does not."""
    if all(re.fullmatch(r"\w+", part, flags=re.ASCII) for part in row):
        return True
    warn_user(f"{'.'.join(row)} is not attached: names in Spark's own catalog are of letters, digits and _")
    return False


def drop_stale_entries(spark: SparkSession, catalog: Catalog, database: str | None, existing: set[str]) -> None:
    """Drop the entries that earlier calls made of tables which the catalog no longer has."""
    for key, warehouse in spark.conf.getAll.items():
        name = key.removeprefix(ENTRY_SETTING_PREFIX)
        if (
            name == key
            or name in existing
            or name.rpartition(VERSION_WORD)[0] in existing
            or warehouse != describe_catalog(catalog)
            or database not in (None, name.partition(".")[0])
        ):
            continue
        spark.sql(f"DROP TABLE IF EXISTS {'.'.join(map(quote_identifier, name.split('.')))}")
        spark.conf.unset(key)


def describe_catalog(catalog: Catalog) -> str:
    """Return the text by which entries of one catalog are told from those of another."""
    return f"{catalog.metastore} {catalog.warehouse}"


def check_outside_database(spark: SparkSession, table: Table, database: str) -> None:
    """Raise `InvalidOption` where the session's database directory contains the table.

    Spark deletes the folder of a database, and that of an entry, with all that is in it.
    """
    if spark.catalog.databaseExists(database):
        location = spark.catalog.getDatabase(database).locationUri
    else:
        location = f"{spark.conf.get('spark.sql.warehouse.dir')}/{database}.db"
    if f"{_normalize_location(table.location)}/".lower().startswith(f"{_normalize_location(location)}/".lower()):
        raise InvalidOption(
            f"the session keeps database {database} in {location}, where {table.name} lies: "
            "a database, or an entry of it, that is dropped would take along the lake's files. "
            "Make the session with another spark.sql.warehouse.dir",
            key="spark.sql.warehouse.dir",
            value=location,
        )


def _normalize_location(location: str) -> str:
    """Return a location as one text, however it is written."""
    if location.startswith("file:") or ":/" not in location:
        return os.path.realpath(storage.open(location)[1])
    return re.sub(r"^s3[an]?://", "s3://", location.rstrip("/"))


def drop_own_entry(spark: SparkSession, where: str, name: str) -> None:
    """Drop an entry that an earlier call made.

    Spark does not report the source of an entry: the session's settings record those made here, and for one that an
    earlier session left in a lasting catalog Spark reports that it does not know its source, by name.

    Raises: `TableAlreadyExists` for an entry of another origin.
    """
    if not spark.catalog.tableExists(where):
        return
    if spark.conf.get(f"{ENTRY_SETTING_PREFIX}{name}".lower(), None) is None:
        try:
            spark.sql(f"DESCRIBE TABLE {where}")
        except AnalysisException as told:
            is_ours = SOURCE_NAME_PREFIX in str(told)
        else:
            is_ours = False
        if not is_ours:
            msg = (
                f"the session's own catalog has a table {name}, which is not lakekit's: drop it there, or attach "
                "another database"
            )
            raise TableAlreadyExists(msg, name=name)
    spark.sql(f"DROP TABLE {where}")


def check_query_options(table: str, options: Mapping[str, str]) -> None:
    """Raise `InvalidOption` for options of a query that select rows: Spark keeps one relation for a name in a query."""
    for key in options:
        if key.lower() in ("branch", "filter", "row_kind") or key.lower().startswith(("scan.", "incremental-")):
            raise InvalidOption(
                f"WITH ({key}) of the attached table {table} is refused: Spark keeps one relation for a name in a "
                f"query, so that two versions would be one. ls.attach(spark, cat, versions=['{table}@3']) names "
                f"snapshot 3 {table}{VERSION_WORD}3; ls.sql(spark, …, catalog=cat) has VERSION AS OF, "
                f"spark.read.format('lakekit').option({key!r}, …) takes any option",
                key=key,
            )


def check_entry(
    table: str, entry_columns: Sequence[str], attached: Sequence[str], current: Sequence[str], *, writes: bool = False
) -> None:
    """Raise `SchemaMismatch` where the columns of an entry are no longer those of its table.

    Spark's own ALTER TABLE changes an entry without asking the source. A read of fewer columns than the table has got
    meanwhile is right; a write of fewer would fill the others with null.
    """
    if [name.lower() for name in entry_columns] != [name.lower() for name in attached] and not (
        writes and sorted(map(str.lower, entry_columns)) == sorted(map(str.lower, attached))
    ):
        changed = ", ".join(sorted(set(entry_columns) ^ set(attached))) or "their order"
        raise SchemaMismatch(
            f"Spark's entry of {table} was altered ({changed}), which changes nothing of the table: "
            f"ls.attach(spark, cat) puts it right, and ls.sql(spark, 'ALTER TABLE …', catalog=cat) alters the table",
            column=changed,
        )
    if lost := [name for name in attached if name not in current]:
        raise SchemaMismatch(
            f"{table} has no column {', '.join(lost)} any more: ls.attach(spark, cat) again", column=lost[0]
        )
    if writes and (new := [name for name in current if name not in attached]):
        raise SchemaMismatch(
            f"{table} has got the column {', '.join(new)} since it was attached: ls.attach(spark, cat) again",
            column=new[0],
        )
