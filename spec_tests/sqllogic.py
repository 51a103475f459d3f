"""Files of sqllogictest, run through `cat.sql` on Paimon tables and through DuckDB, and counted: equal, refused by name, different.

`LAKEKIT_SQLLOGIC=FOLDER python -m spec_tests.sqllogic [WORD]` runs the `.test` files below a folder, as DuckDB's `test/sql` (MIT) and SQLite's are, whose
path has the word. Both engines run every statement with their own defaults: SET and PRAGMA are left out. Where lakekit refuses a statement that makes or fills
a table, the refusal is counted, and the table is copied from DuckDB, so that the queries after it are asked all the same.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakekit.errors import LakekitError, NotFound
from spec_tests.condition_doors import reason
from spec_tests.drawn_queries import comparable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    import lakekit as lk

_OUTSIDE = re.compile(
    r"duckdb_|pragma|pg_|information_schema|current_|getenv|random|uuid|now\(|today\(|read_|glob|nextval|version\(|sqlite_|setseed|txid|getvariable"
    r"|explain|sample|\$\{|__[A-Z_]+__|checkpoint|attach|\bcopy\b|export|import|force|prepare|execute|\bload\b|install|test_all_types|parse_|json|query\(",
    re.IGNORECASE,
)
"""What asks the engine for itself, for files, for chance or for an extension."""
_MAKES = re.compile(r"\s*(create|insert|update|delete|drop|alter|merge|truncate|with\b.*\b(insert|update|delete)\b)", re.IGNORECASE | re.DOTALL)
_SLOW = 0.5
"""The seconds of DuckDB beyond which a query is left out."""
_LIMIT = 30
"""The seconds after which a statement of lakekit counts as different."""


@dataclass(frozen=True, slots=True)
class Record:
    """One statement of a file: a query has the answer that the file gives, value by value."""

    text: str
    answer: tuple[str, ...] | None = None


def records(text: str) -> Iterator[Record]:
    """Yield the statements and queries of one file that succeed; loops are run, other commands and what they govern are left out."""
    yield from _records(text.splitlines())


def _records(lines: list[str]) -> Iterator[Record]:
    at = 0
    skipping = False
    while at < len(lines):
        words = lines[at].split()
        at += 1
        if not words or words[0].startswith("#"):
            continue
        if words[0] in ("foreach", "loop", "concurrentloop", "concurrentforeach"):
            end = _end_of_loop(lines, at)
            for value in _values(words):
                yield from _records([line.replace("${" + words[1] + "}", value) for line in lines[at:end]])
            at = end + 1
            continue
        if words[0] == "mode":
            skipping = words[1] == "skip" or (skipping and words[1] != "unskip")
        if words[0] in ("skipif", "onlyif"):
            at += 1
            continue
        if words[0] not in ("statement", "query"):
            continue
        body: list[str] = []
        while at < len(lines) and lines[at].strip() and lines[at] != "----":
            body.append(lines[at])
            at += 1
        answer: list[str] = []
        if at < len(lines) and lines[at] == "----":
            at += 1
            while at < len(lines) and lines[at].strip():
                answer += lines[at].split("\t")
                at += 1
        if not skipping and words[:2] != ["statement", "error"] and words[:2] != ["statement", "maybe"]:
            yield Record("\n".join(body).strip().rstrip(";"), tuple(answer) if words[0] == "query" else None)


def _end_of_loop(lines: list[str], at: int) -> int:
    depth = 1
    while at < len(lines) and depth:
        word = (lines[at].split() or [""])[0]
        depth += (word in ("foreach", "loop", "concurrentloop", "concurrentforeach")) - (word == "endloop")
        at += 1
    return at - 1


def _values(words: list[str]) -> list[str]:
    if "loop" in words[0]:
        return [str(value) for value in range(int(words[2]), min(int(words[3]), int(words[2]) + 20))]
    return [word for word in words[2:] if not word.startswith(("<", "!"))]


@dataclass(slots=True)
class SqlLogicCounts:
    """What the statements of files gave."""

    queries: int = 0
    equal: int = 0
    confirmed: int = 0
    left_out: int = 0
    without_tables: int = 0
    statements: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    refused_statements: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    different: list[tuple[str, str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        """The counts in two lines."""
        refused, statements = sum(self.refused.values()), sum(self.refused_statements.values())
        return (
            f"{self.queries} queries: {self.equal} equal, {refused} refused by name, {len(self.different)} different"
            f" (DuckDB gives the file's own answer for {self.confirmed}; {self.left_out} left out,"
            f" {self.without_tables} without a table that was refused)\n"
            f"{self.statements} statements that make or fill tables, {statements} refused by name"
        )


class SqlLogicRunner:
    """Runs one file in a catalog and in DuckDB, and counts."""

    def __init__(self, cat: lk.Catalog, counts: SqlLogicCounts, name: str) -> None:
        import duckdb

        self.cat = cat
        self.counts = counts
        self.name = name
        self.con: duckdb.DuckDBPyConnection = duckdb.connect(config={"threads": 1})
        self.con.execute("SET TimeZone = 'UTC'")
        self._refused = False

    def run(self, record: Record) -> None:
        """Run one record in both engines."""
        import duckdb

        if not record.text or _OUTSIDE.search(record.text):
            self.counts.left_out += record.answer is not None
            return
        makes = _MAKES.match(record.text) is not None
        if record.answer is None and not makes:
            return
        began = time.perf_counter()
        try:
            told = self.con.execute(record.text)
            maps = [str(one[1]).startswith("MAP") for one in told.description or ()]
            right = [tuple(_pairs(value) if is_map else value for value, is_map in zip(row, maps, strict=True)) for row in told.fetchall()]
        except (duckdb.Error, ValueError, OverflowError, RuntimeError):
            self.counts.left_out += record.answer is not None
            return
        if makes:
            self._make(record)
        elif record.answer is not None and time.perf_counter() - began < _SLOW:
            self._ask(record, right)
        else:
            self.counts.left_out += record.answer is not None

    def _make(self, record: Record) -> None:
        self.counts.statements += 1
        try:
            _bounded(self.cat, record.text)
        except LakekitError as wrong:
            why = reason(wrong)
            self.counts.refused_statements[why] += 1
            self.counts.examples.setdefault(why, record.text)
            self._refused = True
            self._copy()
        except BaseException as wrong:  # a panic is no Exception
            if isinstance(wrong, KeyboardInterrupt):
                raise
            self.counts.different.append((self.name, record.text, f"{type(wrong).__name__}: {str(wrong)[:200]}"))
            self._refused = True
            self._copy()

    def _copy(self) -> None:
        """Make lakekit's tables what DuckDB's are."""
        names = [name for (name,) in self.con.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'").fetchall()]
        for name in names:
            try:
                arrow = self.con.sql(f'SELECT * FROM main."{name}"').to_arrow_table()
                self.cat.drop_table(f"default.{name}", if_exists=True)
                self.cat.create_table(f"default.{name}", arrow.schema)
                self.cat.table(f"default.{name}").append(arrow)
            except Exception:  # noqa: BLE001 - a type that Paimon has not: its queries are refused
                self.cat.drop_table(f"default.{name}", if_exists=True)

    def _ask(self, record: Record, right: list[tuple[Any, ...]]) -> None:
        self.counts.queries += 1
        self.counts.confirmed += _is_answer(record.answer or (), right)
        ordered = re.search(r"order\s+by", record.text, re.IGNORECASE) is not None
        try:
            found = _bounded(self.cat, record.text)
        except LakekitError as wrong:
            if self._refused and isinstance(wrong, NotFound):
                self.counts.queries -= 1
                self.counts.without_tables += 1
                return
            why = reason(wrong)
            self.counts.refused[why] += 1
            self.counts.examples.setdefault(why, record.text)
            return
        except BaseException as wrong:  # a panic is no Exception
            if isinstance(wrong, KeyboardInterrupt):
                raise
            if "NaiveDateTime" in str(wrong):  # a time that Python has not: both engines have it
                self.counts.queries -= 1
                self.counts.left_out += 1
            else:
                self.counts.different.append((self.name, record.text, f"{type(wrong).__name__}: {str(wrong)[:200]}"))
            return
        ours, theirs = _comparable(found), _comparable(right)
        same = ours == theirs or sorted(ours, key=repr) == sorted(theirs, key=repr)  # ties of an order may lie in any order
        if same:
            self.counts.equal += 1
        else:
            self.counts.different.append((self.name, record.text, f"{str(ours)[:200]} for {str(theirs)[:200]}{' (ordered)' if ordered else ''}"))


def _comparable(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return comparable([tuple(_named(value) for value in row) for row in rows], ordered=True)


def _pairs(value: Any) -> Any:
    """Return the pairs of a map, which DuckDB gives as a dict."""
    return [(key, one) for key, one in value.items()] if isinstance(value, dict) else value


def _named(value: Any) -> Any:
    """Return a map as its pairs, and a time with a zone in UTC."""
    match value:
        case dict() if set(value) == {"key", "value"}:
            return (_named(value["key"]), _named(value["value"]))
        case dict():
            return tuple(_named(one) for one in value.values())  # DuckDB's ROW(1, 2) has no names, a frame's has
        case list() | tuple():
            return tuple(_named(one) for one in value)
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).replace(tzinfo=None)
        case _:
            return value


def _bounded(cat: lk.Catalog, text: str) -> list[tuple[Any, ...]]:
    def late(*_: object) -> None:
        msg = f"no answer within {_LIMIT} s"
        raise TimeoutError(msg)

    signal.signal(signal.SIGALRM, late)
    signal.alarm(_LIMIT)
    try:
        found = cat.sql(text)
        return found.lazy().collect().rows() if found is not None else []
    finally:
        signal.alarm(0)


def _is_answer(answer: tuple[str, ...], rows: list[tuple[Any, ...]]) -> bool:
    flat = [_shown(value) for row in rows for value in row]
    told = [_number(one) for one in answer]
    return flat == told or sorted(map(str, flat)) == sorted(map(str, told))


def _shown(value: Any) -> Any:
    return _number("NULL" if value is None else "(empty)" if value == "" else str(value))


def _number(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    try:
        return float(f"{float(text):.9g}")
    except ValueError:
        return text


def run_folder(folder: Path, scratch: Path, word: str = "") -> SqlLogicCounts:
    """Run the files below a folder, each in a warehouse of its own, and return the counts."""
    import lakekit as lk

    counts = SqlLogicCounts()
    for at, path in enumerate(sorted(folder.rglob("*.test"))):
        if word not in str(path):
            continue
        text = path.read_text(errors="replace")
        if re.search(r"^(require (?!notwindows|vector|skip|no_)|load|unzip|include)", text, re.MULTILINE):
            continue
        (scratch / str(at)).mkdir()
        cat = lk.connect(scratch / str(at), metastore="jdbc", uri=f"sqlite:///{scratch / str(at)}/catalog.db")
        cat.create_database("default", if_not_exists=True)
        runner = SqlLogicRunner(cat, counts, str(path.relative_to(folder)))
        for record in records(text):
            runner.run(record)
    return counts


def main() -> None:
    """Print the counts, the reasons of refusals, and what differs."""
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        counts = run_folder(Path(os.environ["LAKEKIT_SQLLOGIC"]), Path(scratch), *sys.argv[1:2])
    print(counts)
    for title, reasons in (("queries refused", counts.refused), ("statements refused", counts.refused_statements)):
        print(f"\n{title}:")
        for why, many in reasons.most_common(60):
            print(f"  {many:5d} {why}\n        {counts.examples[why][:200]!r}")
    print("\ndifferent:")
    for name, text, what in counts.different:
        print(f"  {name}\n        {text[:300]!r}\n        {what}")


if __name__ == "__main__":
    main()
