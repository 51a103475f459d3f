"""Tables that the reference engine wrote by chance, what it read from them, and how far lakekit's answers may be away.

    folder = make(here, seed=7, count=60)          one JVM: 60 tables and their recorded reads
    for case in cases(folder):
        {read.name: apart(case, read) for read in case.reads}

Every rule by which an answer may differ stands in this module, with its reason: `FAULTS` of the engine that answers where it failed need not share, and
`_forgiving`, which takes from both sides what says nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakekit as lk
from lakekit.errors import LakekitError
from lakekit.testing.expectations import Case, Read, beyond_polars, canonical_value, describe_difference, drop_read_columns, encode_rows, load_golden_table
from lakekit.testing.recorded_reads import INCREMENTAL_PREFIX, describe_mismatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import polars as pl

RECIPE = Path(__file__).parent.parent.parent / "fixtures" / "recipes" / "by_chance"
FAULTS = {
    r"ClassCastException": "the engine mixes up its own vectors or splits, after a type change of a file column or with a fallback branch",
    r"NullPointerException": "the engine sorts its partitions by statistics that a binary column has not",
    r"ArrayIndexOutOfBoundsException": "the engine counts nulls of columns that a file lacks",
    r"DateTimeParseException: Text .* could not be parsed, unparsed text found at index 10": "the engine cannot read a time back from a directory's name",
    r"FileNotFoundException: .*snapshot/snapshot-0 ": "the engine has no state before the first snapshot; lakekit calls it the empty table",
    r"can not be found in table schema": "the engine checks today's options against the columns of an older schema",
    r"should contains? all bucket keys": "the same, of bucket keys",
}
"""What the engine's error says, and why it is none of the table."""
_SHOWN = 3


def make(here: Path, *, seed: int, count: int, number: int | None = None) -> Path:
    """Builds the recipe and lets it write tables below `here`; those of one seed and number are the same but for names and times."""
    subprocess.run(["mvn", "-q", "package"], cwd=RECIPE, check=True)
    temporary = here / "temporary"
    temporary.mkdir(parents=True, exist_ok=True)
    java = [
        "java",
        "-Xmx1g",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Duser.timezone=UTC",
        f"-Djava.io.tmpdir={temporary}",
        f"-Dexternal={here}/external",
    ]
    classes = os.pathsep.join((f"{RECIPE}/target/chance.jar", f"{RECIPE}/target/lib/*"))
    asked = [str(here), str(seed), str(count), *([] if number is None else [str(number)])]
    with (here / "told.txt").open("w", encoding="utf-8") as told:
        subprocess.run([*java, "-cp", classes, "golden.Chance", *asked], stdout=told, stderr=subprocess.STDOUT, check=True)
    return here


def cases(folder: Path) -> Iterator[Case]:
    """The tables in the order of their numbers."""
    for path in sorted(folder.glob("tables/*.json"), key=lambda path: int(path.stem.rpartition("_")[2])):
        yield replace(load_golden_table(path.stem, root=str(folder)), allowed=(f"{folder}/external",))


def opened(case: Case, *, branch: str | None = None, options: Mapping[str, str] | None = None) -> lk.Table:
    """The table of a case, which may lie at an external root, too."""
    return lk.open(case.path, branch=branch, options={"lakekit.allowed-locations": ",".join(case.allowed), **(options or {})})


def apart(case: Case, read: Read) -> str | None:
    """None when lakekit answers as the engine did, or better where the engine's own fault kept it from an answer; else what is different."""
    if fault(case, read) is not None:
        return _answers_at_all(case, read)
    if read.system is None and not _is_change(read) and _has_unplaced(case):
        read = replace(read, rows=tuple(row for row in read.rows if row[0] not in ("-U", "-D")))
    found = describe_mismatch(case, read, differs=partial(_differs, case))
    if found is None and read.error is None and read.system is None and _is_change(read):
        return _scanned(case, read)
    return found


def fault(case: Case, read: Read) -> str | None:
    """Why an error of the engine does not bind lakekit, or None when it does."""
    for pattern, reason in FAULTS.items():
        if re.search(pattern, read.error or ""):
            return reason
    if _has_fallback(case) and (_is_change(read) or read.system == "files" or "scan.tag-name" in read.options):
        return "the engine asks the fallback branch for the same snapshots and tags, where lakekit tells of this one, and goes by the time of a tag"
    return None


def _is_change(read: Read) -> bool:
    return any(key.startswith(INCREMENTAL_PREFIX) for key in read.options)


def _has_fallback(case: Case) -> bool:
    return "scan.fallback-branch" in opened(case).options


def _has_unplaced(case: Case) -> bool:
    """Whether rows lie postponed in a table that was given buckets since: the engine shows them as they lie, and what they delete as rows."""
    table = opened(case)
    return table.options.get("bucket") != "-2" and bool((table.files()["bucket"] == -2).any())


def _answers_at_all(case: Case, read: Read) -> str | None:
    try:
        table = opened(case, branch=read.branch)
        options: dict[str, Any] = dict(read.options)
        (table.scan(options=options) if read.system is None else table.system(read.system, options=options)).collect()
    except LakekitError:
        return None
    return None


def _scanned(case: Case, read: Read) -> str | None:
    """Increments asked of `scan`: the rows that were added or updated to."""
    read = drop_read_columns(read, beyond_polars(read))
    options: dict[str, Any] = dict(read.options)
    frame = opened(case, branch=read.branch).scan(options=options).select(read.columns).collect()
    wanted = replace(read, rows=tuple(("+I", values) for kind, values in read.rows if kind in ("+I", "+U")))
    found = _differs(case, frame, wanted, kind_column=None)
    return None if found is None else f"scan: {found}"


# ---- what says nothing ---------------------------------------------------------------------------------------------------------------------------


def _differs(case: Case, frame: pl.DataFrame, read: Read, *, kind_column: str | None) -> str | None:
    found = describe_difference(frame, read, kind_column=kind_column)
    if found is None or [name for name in frame.columns if name != kind_column] != list(read.columns):
        return found
    mine = Counter(_forgiving(case, read, row) for row in encode_rows(frame, read.types, kind_column=kind_column))
    java = Counter(_forgiving(case, read, row if kind_column is not None else ("+I", row[1])) for row in read.rows)
    if mine == java:
        return None
    more, less = list((mine - java).elements()), list((java - mine).elements())
    return f"{sum(mine.values())} rows, recorded {sum(java.values())}; {len(more)} too many: {more[:_SHOWN]}; {len(less)} missing: {less[:_SHOWN]}"


def _forgiving(case: Case, read: Read, row: tuple[str, tuple[Any, ...]]) -> str:
    """A row without what the two sides need not agree on."""
    kind, values = row
    identities = any("{bytes}" in str(value) for _, wanted in read.rows for value in wanted)
    kept = []
    for name, t, value in zip(read.columns, read.types, values, strict=True):
        plain = canonical_value(value, t)
        if read.system == "branches" and name == "create_time":
            plain = None  # the time of a directory, which copying the table changes
        elif read.system == "files" and identities and ("key" in name or "stats" in name):
            plain = None  # the engine prints binary values as identities of objects
        elif read.system in ("schemas", "statistics") and isinstance(plain, str) and plain[:1] in ("[", "{"):
            plain = json.loads(plain)  # maps in the order of a hash table
        elif read.system == "aggregation_fields" and isinstance(plain, str) and plain.startswith("["):
            plain = sorted(plain.strip("[]").split(", "))
        elif read.system == "files" and name == "file_path":
            plain = str(plain).removeprefix("file:")  # the engine prints a file outside of the table as a URL, lakekit every local file as a path
        elif name in _unordered(case):
            plain = _sorted(plain, packed=read.system == "binlog")
        if _holds_orc(case):
            plain = _unsigned(plain)
        kept.append(plain)
    return f"{kind} {json.dumps(kept, sort_keys=True)}"


def _unordered(case: Case) -> frozenset[str]:
    """Columns whose elements the engine keeps in the order of a hash table: of `collect` with `distinct`, and of `nested_partial_update`, which turns rows
    that share a place there round with every step."""
    options = opened(case).options
    found = (re.fullmatch(r"fields\.(.*)\.(distinct=true|aggregate-function=nested_partial_update)", f"{key}={value}") for key, value in options.items())
    return frozenset(one[1] for one in found if one)


def _holds_orc(case: Case) -> bool:
    return any(Path(case.path).rglob("*.orc"))


def _sorted(value: Any, *, packed: bool) -> Any:
    """Elements in an order of their own; the binlog packs the lists before and after into one."""
    if not isinstance(value, list):
        return value
    return [_sorted(one, packed=False) for one in value] if packed else sorted(value, key=json.dumps)


def _unsigned(value: Any) -> Any:
    """The engine reads a batch of ORC in which all values are zeros of either sign as repetitions of the first."""
    if isinstance(value, list):
        return [_unsigned(one) for one in value]
    return "0.0" if value == "-0.0" else value
