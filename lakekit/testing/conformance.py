"""Conformance tests of a reader or a writer of Paimon tables, by golden files and an oracle.

from lakekit.testing import conformance

def read(path, options): …                          # anything Arrow, a Polars frame, or dicts by column:
                                                    # see `lakekit.testing.adapters`
found = conformance.run(reader=read)                # in the shell: lakekit conformance --reader package.module:read
found.ok, found.counts(), found.frame()
conformance.run(writer=write, areas=["writes/deduplicate"], drawn=50, seed=7)
conformance.run()                                   # lakekit itself

area         of         what is tested
formats/…    lakekit    the golden bytes of each format decode to the recorded values, and canonical ones are
                        written again
broken/…     lakekit    damaged bytes are refused, with field and offset
tables/…     readers    the newest rows of each golden table
travel/…     readers    older ones, tags and branches, by `scan.*` options
changes/…    readers    what changed between two snapshots, with row kinds, by `incremental-between`
system/…     lakekit    system tables
damaged/…    readers    a table with a file that is damaged or missing returns no rows
scripts/…    readers    tables that lakekit makes by small scripts, against the oracle
writes/…     writers    tables that the writer makes by the same scripts: checked byte by byte, and read
drawn/…      both       on request, the same of scripts that Hypothesis draws; a failing one is shrunk
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from lakekit import plugins
from lakekit.draw import cards
from lakekit.errors import InvalidOption, LakekitError, Unsupported
from lakekit.table.open_create import open as open_table
from lakekit.testing import adapters, fixtures as golden, scripts
from lakekit.testing.adapters import FeatureNotSupported, ImplementationFailure, ReaderAdapter, Refusal, WriterAdapter
from lakekit.testing.expectations import diff_rows, load_golden_table
from lakekit.testing.fixtures import Mismatch, fixtures
from lakekit.testing.golden import checks
from lakekit.testing.recorded_reads import DIFFERENT_ANSWERS, INCREMENTAL_PREFIX, describe_mismatch, is_difference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakekit.testing.expectations import Case as Table, Read
    from lakekit.testing.scripts import Script


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A change of the files of a table that match `pattern`; None for `transform` deletes them."""

    area: str
    name: str
    table: str
    pattern: str
    transform: Callable[[bytes], bytes] | None

    def copy(self, folder: str) -> str:
        """Make a damaged copy of the table in a folder; return its path."""
        path = Path(folder, self.table)
        shutil.copytree(fixtures("tables") / "tables" / self.table, path)
        for file in list(path.glob(self.pattern)):
            if self.transform is None:
                file.unlink()
            else:
                file.write_bytes(self.transform(file.read_bytes()))
        return str(path)


def _truncate_to_half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flip_last_bit(data: bytes) -> bytes:
    """Return the data with another checksum at the end of the last vector."""
    return data[:-1] + bytes([data[-1] ^ 1])


def damages() -> list[Damage]:
    """Return every damage, by area."""

    def of(
        area: str, name: str, table: str, pattern: str, damage: Callable[[bytes], bytes] | None = _truncate_to_half
    ) -> Damage:
        return Damage(area=area, name=name, table=table, pattern=pattern, transform=damage)

    return [
        of("schema", "cut short", "dedup_levels", "schema/schema-0"),
        of("manifest_list", "cut short", "append_plain", "manifest/manifest-list-*"),
        of("manifest_list", "gone", "append_plain", "manifest/manifest-list-*", None),
        of("manifest", "cut short", "append_plain", "manifest/manifest-????????-*"),
        of("manifest", "gone", "append_plain", "manifest/manifest-????????-*", None),
        *(of("data_file", f"{name} cut short", table, "bucket-*/data-*") for name, table in _TABLES_BY_FORMAT.items()),
        *(of("data_file", f"{name} gone", table, "bucket-*/data-*", None) for name, table in _TABLES_BY_FORMAT.items()),
        of(
            "deletion_vectors",
            "another checksum, 32 bits",
            "vectors_append_32_parquet",
            "index/index-*",
            _flip_last_bit,
        ),
        of(
            "deletion_vectors",
            "another checksum, 64 bits",
            "vectors_append_64_parquet",
            "index/index-*",
            _flip_last_bit,
        ),
        of("deletion_vectors", "cut short", "vectors_append_32_parquet", "index/index-*"),
        of("deletion_vectors", "gone", "vectors_append_32_parquet", "index/index-*", None),
        of("deletion_vectors", "index manifest cut short", "vectors_append_32_parquet", "manifest/index-manifest-*"),
    ]


_TABLES_BY_FORMAT = {"Parquet": "append_plain", "ORC": "append_orc", "Avro": "append_avro"}


# ---- conformance ------------------------------------------------------------


KINDS = ("formats", "broken", "tables", "travel", "changes", "system", "damaged", "scripts", "writes", "drawn")
"""The first part of the names of areas."""
ALL_KINDS, READER_AREAS, WRITER_AREAS = (
    KINDS,
    ("tables", "travel", "changes", "damaged", "scripts", "drawn"),
    ("writes", "drawn"),
)
RESULT_COLUMNS = ("area", "case", "outcome", "expected", "found")
LAKEKIT_READER = ReaderAdapter(name="lakekit", answer=adapters.reader_of(scripts.read_table).answer)
LAKEKIT_WRITER = WriterAdapter(name="lakekit", play=adapters.writer_of(scripts.play_script).play)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceCase:
    """One test case: `run` raises `Mismatch`, `FeatureNotSupported`, `Refusal` or `ImplementationFailure`."""

    area: str
    name: str
    run: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a case; `expected` and `found` are texts, empty if it passed."""

    area: str
    case: str
    outcome: Literal["passed", "failed", "unsupported"]
    expected: str = ""
    found: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceResult:
    """The outcomes of a run. What is not supported is no failure."""

    about: str
    outcomes: tuple[Outcome, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return all(outcome.outcome != "failed" for outcome in self.outcomes)

    def frame(self, *outcomes: str) -> pl.DataFrame:
        """Return a row a case: area, case, outcome, expected, found.

        With `outcomes` it has only cases of these.
        """
        rows = [
            tuple(getattr(outcome, name) for name in RESULT_COLUMNS)
            for outcome in self.outcomes
            if not outcomes or outcome.outcome in outcomes
        ]
        return pl.DataFrame(rows, schema=dict.fromkeys(RESULT_COLUMNS, pl.String), orient="row")

    def counts(self) -> pl.DataFrame:
        """Return how many cases of each kind of area: area, passed, failed, unsupported."""
        counted = {kind: dict.fromkeys(("passed", "failed", "unsupported"), 0) for kind in KINDS}
        for outcome in self.outcomes:
            counted[outcome.area.partition("/")[0]][outcome.outcome] += 1
        rows = [(kind, *by.values()) for kind, by in counted.items() if any(by.values())]
        return pl.DataFrame(
            rows,
            schema={"area": pl.String, "passed": pl.Int64, "failed": pl.Int64, "unsupported": pl.Int64},
            orient="row",
        )

    @property
    def line(self) -> str:
        """The verdict in one line."""
        counts = {
            name: sum(outcome.outcome == name for outcome in self.outcomes)
            for name in ("passed", "failed", "unsupported")
        }
        return f"{self.about}: " + ", ".join(f"{count} {name}" for name, count in counts.items())

    def __repr__(self) -> str:
        lines = [
            f"  {outcome.outcome:<11} {outcome.area} · {outcome.case}: {outcome.found}"
            for outcome in self.outcomes
            if outcome.outcome == "failed"
        ]
        return "\n".join(
            [
                self.line,
                *lines[:_MAX_SHOWN_LINES],
                *([f"  … {len(lines) - _MAX_SHOWN_LINES} more"] if len(lines) > _MAX_SHOWN_LINES else []),
            ]
        )

    def _repr_html_(self) -> str:
        counted, failed = self.counts(), self.frame("failed")
        first = cards.html_table(counted.columns, counted.rows(), title=self.line)
        return first + (cards.html_table(RESULT_COLUMNS, failed.rows()) if failed.height else "")


_MAX_SHOWN_LINES = 10


def run(
    *,
    reader: str | ReaderAdapter | Callable[[str, dict[str, str]], Any] | None = None,
    writer: str | WriterAdapter | Callable[[str, dict[str, Any]], None] | None = None,
    areas: Sequence[str] = (),
    drawn: int = 0,
    seed: int = 0,
    report: Callable[[Outcome], None] | None = None,
) -> ConformanceResult:
    """Test a reader, a writer, both, or where neither is given lakekit itself.

    `areas` are names of areas or what these begin with; `drawn`: so many tables are drawn for each engine, from `seed`;
    `report` is called with each outcome as it comes.

    Raises: `InvalidOption` for what is no area, reader or writer, and `Unsupported` if `drawn` needs Hypothesis and
    it is not installed.
    """
    read = None if reader is None else reader if isinstance(reader, ReaderAdapter) else adapters.reader_of(reader)
    write = None if writer is None else writer if isinstance(writer, WriterAdapter) else adapters.writer_of(writer)
    outcomes = []
    for case in list_cases(reader=read, writer=write, areas=areas, drawn=drawn, seed=seed):
        outcomes.append(_outcome(case))
        if report is not None:
            report(outcomes[-1])
    return ConformanceResult(
        about=" and ".join(adapter.name for adapter in (read, write) if adapter is not None) or "lakekit",
        outcomes=tuple(outcomes),
    )


def list_cases(
    *,
    reader: ReaderAdapter | None = None,
    writer: WriterAdapter | None = None,
    areas: Sequence[str] = (),
    drawn: int = 0,
    seed: int = 0,
) -> Iterator[ConformanceCase]:
    """Yield the cases of a run, in their order.

    Raises: as `run`.
    """
    itself = reader is None and writer is None
    kinds = (
        ALL_KINDS
        if itself
        else [kind for kind in KINDS if (reader and kind in READER_AREAS) or (writer and kind in WRITER_AREAS)]
    )
    reads, writes = (LAKEKIT_READER, LAKEKIT_WRITER) if itself else (reader, writer)
    makers: dict[str, Callable[[], Iterator[ConformanceCase]]] = {
        "formats": _format_cases,
        "broken": _broken_cases,
        "damaged": lambda: _damaged_cases(reads or LAKEKIT_READER),
        "scripts": lambda: _script_cases(reads or LAKEKIT_READER),
        "writes": lambda: _write_cases(writes or LAKEKIT_WRITER),
        "drawn": lambda: _drawn_cases(None if itself else reads, writes, drawn, seed),
        **{
            kind: lambda kind=kind: _recorded_cases(kind, reads or LAKEKIT_READER)  # type: ignore[misc]
            for kind in ("tables", "travel", "changes", "system")
        },
    }
    wanted_areas = [area.strip("/") for area in areas]
    for area in wanted_areas:
        if area.partition("/")[0] not in kinds:
            raise InvalidOption(
                f"no area {area!r} here: there are {', '.join(kinds)}, each with parts such as {_EXAMPLE_AREA}",
                key="--area",
                value=area,
            )
    if drawn:
        _needs_hypothesis()
    count = 0
    for kind in kinds:
        if wanted_areas and not any(area.partition("/")[0] == kind for area in wanted_areas):
            continue
        for case in makers[kind]():
            if not wanted_areas or any(case.area == area or case.area.startswith(f"{area}/") for area in wanted_areas):
                count += 1
                yield case
    if not count:
        raise InvalidOption(
            f"nothing is asked in {', '.join(wanted_areas) or 'drawn/…'}: `lakekit conformance --list` has the areas",
            key="--area",
            value=str(wanted_areas),
        )


_EXAMPLE_AREA = "tables/vectors"


def _needs_hypothesis() -> None:
    plugins.load("testing", "strategies")


def _outcome(case: ConformanceCase) -> Outcome:
    try:
        case.run()
    except Mismatch as wrong:
        return Outcome(
            area=case.area,
            case=case.name,
            outcome="failed",
            expected=f"{wrong.subject}: {wrong.expected}",
            found=str(wrong.actual),
        )
    except (FeatureNotSupported, Unsupported) as missing:
        return Outcome(area=case.area, case=case.name, outcome="unsupported", found=str(missing))
    except ImplementationFailure as wrong:
        return Outcome(area=case.area, case=case.name, outcome="failed", expected="an answer", found=str(wrong))
    except Refusal as wrong:
        return Outcome(area=case.area, case=case.name, outcome="failed", expected="no refusal", found=str(wrong))
    except Exception as wrong:  # noqa: BLE001 - a decoder that raises what it may not is what this is there to find
        return Outcome(
            area=case.area,
            case=case.name,
            outcome="failed",
            expected="no error",
            found=f"{type(wrong).__name__}: {wrong}",
        )
    return Outcome(area=case.area, case=case.name, outcome="passed")


# ---- bytes -----------------------------------------------------------------------------------------------------------


def _format_cases() -> Iterator[ConformanceCase]:
    for name in golden.golden_formats():
        for path in golden.golden_cases(name):
            if name in checks.UNSUPPORTED_FORMATS:
                yield ConformanceCase(
                    area=f"formats/{name}",
                    name=path.stem,
                    run=lambda name=name: _raise_not_there(checks.UNSUPPORTED_FORMATS[name]),  # type: ignore[misc]
                )
            else:
                yield ConformanceCase(
                    area=f"formats/{name}", name=path.stem, run=partial(checks.check_golden_file, path)
                )


def _raise_not_there(problem: str) -> None:
    raise FeatureNotSupported(problem)


def _broken_cases() -> Iterator[ConformanceCase]:
    for path in golden.broken_cases():
        yield ConformanceCase(
            area=f"broken/{path.parent.name}",
            name=path.stem,
            run=lambda path=path: checks.check_refusal(*golden.load_case(path)),  # type: ignore[misc]
        )


# ---- golden tables ---------------------------------------------------------------------------------------------------


def subject_of(read: Read) -> str:
    """Return the subject of a recorded read: system, changes, travel or tables."""
    if read.system is not None:
        return "system"
    if any(key.startswith(INCREMENTAL_PREFIX) for key in read.options):
        return "changes"
    return "travel" if read.options or read.branch else "tables"


def _recorded_cases(kind: str, reader: ReaderAdapter) -> Iterator[ConformanceCase]:
    for path in sorted((fixtures("tables") / "tables").glob("*.json")):
        table = load_golden_table(path.stem)
        area = f"{kind}/{table.name.partition('_')[0]}"
        for read in table.reads:
            if subject_of(read) == kind and (
                reader is LAKEKIT_READER or (table.name, read.name) not in DIFFERENT_ANSWERS
            ):
                yield ConformanceCase(
                    area=area,
                    name=f"{table.name}: {read.name}",
                    run=lambda table=table, read=read: _read(reader, table, read),  # type: ignore[misc]
                )


def _read(reader: ReaderAdapter, table: Table, read: Read) -> None:
    if reader is LAKEKIT_READER:
        wrong = describe_mismatch(table, read)
        own = DIFFERENT_ANSWERS.get((table.name, read.name))
        if wrong is None and own is not None and own.error is Unsupported:
            raise FeatureNotSupported(own.reason)
        if wrong is not None and wrong.startswith("Unsupported: "):
            raise FeatureNotSupported(wrong.removeprefix("Unsupported: "))
        if wrong is not None:
            raise Mismatch("as the engine reads", read.error or f"{len(read.rows)} rows", wrong)
        return
    options = {**read.options, **({"branch": read.branch} if read.branch else {})}
    try:
        rows = _rows(reader, table.path, read, options)
    except Refusal as refused:
        if read.error is None:
            raise Mismatch("rows", len(read.rows), str(refused)) from refused
        return
    if read.error is not None:
        raise Mismatch("a refusal", read.error, f"{len(rows[0])} rows")
    changes = subject_of(read) == "changes" and not is_difference(
        open_table(table.path, branch=read.branch), dict(read.options)
    )
    _compare(rows, read, kinds=changes)


def _rows(reader: ReaderAdapter, path: str, read: Read, options: dict[str, str]) -> tuple[adapters.Rows, bool]:
    if options and not reader.takes_options:
        raise FeatureNotSupported(f"its command has no {{options}}, and this needs {json.dumps(options)}")
    answer = reader.answer(path, options)
    if read.error is not None:
        return adapters.encode_answer(answer, (), ())
    return adapters.encode_answer(answer, read.columns, read.types)


def _compare(answer: tuple[adapters.Rows, bool], read: Read, *, kinds: bool = False) -> None:
    wrong = diff_rows(answer[0], read, kinds=kinds)
    if wrong is not None:
        raise Mismatch("rows with their kinds" if kinds else "rows", len(read.rows), wrong)


def _damaged_cases(reader: ReaderAdapter) -> Iterator[ConformanceCase]:
    for damage in damages():

        def ask(damage: Any = damage) -> None:
            with tempfile.TemporaryDirectory(prefix="lakekit-damaged-") as folder:
                try:
                    answered = reader.answer(damage.copy(folder), {})
                except Refusal:
                    return
            raise Mismatch("a refusal", "an error", f"{len(adapters.encode_answer(answered, (), ())[0])} rows")

        yield ConformanceCase(area=f"damaged/{damage.area}", name=damage.name, run=ask)


# ---- tables made by scripts ------------------------------------------------------------------------------------------


def _script_cases(reader: ReaderAdapter) -> Iterator[ConformanceCase]:
    for script in scripts.scripts():
        yield ConformanceCase(
            area=f"scripts/{script.area}",
            name=script.name,
            run=lambda script=script: check_reader_script(reader, script),  # type: ignore[misc]
        )


def _write_cases(writer: WriterAdapter) -> Iterator[ConformanceCase]:
    for script in scripts.scripts():
        yield ConformanceCase(
            area=f"writes/{script.area}",
            name=script.name,
            run=lambda script=script: check_writer_script(writer, script),  # type: ignore[misc]
        )


def check_reader_script(reader: ReaderAdapter, script: Script) -> None:
    """Check how a reader reads a table that lakekit makes by a script.

    Raises: as a case does.
    """
    with tempfile.TemporaryDirectory(prefix="lakekit-script-") as folder:
        scripts.play_script(f"{folder}/t", script.as_json())
        read = script.wanted()
        _compare(_rows(reader, f"{folder}/t", read, {}), read)


def check_writer_script(writer: WriterAdapter, script: Script) -> None:
    """Check and read a table that a writer makes by a script.

    Raises: as a case does.
    """
    with tempfile.TemporaryDirectory(prefix="lakekit-script-") as folder:
        writer.play(f"{folder}/t", script.as_json())
        try:
            table = open_table(f"{folder}/t")
            report = table.check(deep=True)
        except LakekitError as wrong:
            raise Mismatch("a table", "one that can be opened", f"{type(wrong).__name__}: {wrong}") from wrong
        if not report.ok:
            raise Mismatch("problems", "none", "; ".join(str(problem) for problem in report.problems[:3]))
        read = script.wanted()
        for name in ("primary_keys", "partition_keys"):
            if tuple(getattr(table, name)) != getattr(script, name):
                raise Mismatch(name, getattr(script, name), tuple(getattr(table, name)))
        names = table.schema.to_polars().names()
        if names != list(read.columns):
            raise Mismatch("columns", list(read.columns), names)
        _compare(_rows(LAKEKIT_READER, f"{folder}/t", read, {}), read)


def _drawn_cases(
    reader: ReaderAdapter | None, writer: WriterAdapter | None, count: int, seed: int
) -> Iterator[ConformanceCase]:
    if not count:
        return
    checks_of: list[tuple[str, Callable[[Script], None] | None]] = [
        ("read", None if reader is None else partial(check_reader_script, reader)),
        ("written", None if writer is None else partial(check_writer_script, writer)),
    ]
    for engine in scripts.MERGE_ENGINES:
        for what, check in checks_of:
            if check is not None:
                name = f"{count} tables {what}, seed {seed}"
                ask = partial(_search, engine, count, seed, check)
                yield ConformanceCase(area=f"drawn/{engine}", name=name, run=ask)


def _search(engine: str, count: int, seed: int, ask: Callable[[Script], None]) -> None:
    shrunk = plugins.load("testing", "strategies").find_smallest_difference

    def differs(script: Script) -> Outcome | None:
        outcome = _outcome(ConformanceCase(area="", name="", run=lambda: ask(script)))
        return outcome if outcome.outcome == "failed" else None

    wrong = shrunk(engine, count=count, seed=seed, differs=differs)
    if wrong is not None:
        script, outcome = wrong
        assert isinstance(outcome, Outcome)
        raise Mismatch(
            "the smallest script that differs",
            json.dumps(script.as_json(), ensure_ascii=False),
            f"expected {outcome.expected}; {outcome.found}",
        )
