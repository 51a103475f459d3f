"""The findings of a check: problems, advice, the files it looked at; and its result, a `Report`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakekit.columns import pass_interrupt
from lakekit.draw import cards
from lakekit.draw.humanize import escape_controls, format_cell, plural
from lakekit.errors import InvalidOption, LakekitError, LocationNotAllowed, Unsupported, ValueOutOfRange
from lakekit.format import external_reader
from lakekit.model.table_paths import ALLOWED_LOCATIONS
from lakekit.storage.protocol import FileMissing
from lakekit.write.value_casting import format_raw_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl


REPORT_COLUMNS = ("kind", "what", "path", "field", "found", "remedy")
"""The columns of `Report.to_rows`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem, or one piece of advice.

    `check`: a short title; `path`: the file it is about, None if it is about several; `field`: the field of the file
    or of its manifest entry; `problem`: what was found there and what was expected; `remedy`: what to do about it.
    """

    check: str
    path: str | None = None
    field: str | None = None
    problem: str
    remedy: str

    def __str__(self) -> str:
        location = " · ".join(part for part in (self.path, self.field) if part)
        return f"{self.check}{f' ({location})' if location else ''}: {self.problem}. {self.remedy}"

    def _get_check(self) -> str:
        return self.check

    def _get_problem(self) -> str:
        return self.problem

    what = property(_get_check, doc="The former name of `check`, kept for one release.")
    found = property(_get_problem, doc="The former name of `problem`, kept for one release.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of checking the newest snapshot of a table.

    `problems` are wrong and may cost rows or fail reads; `advice` is about speed and size alone. `snapshot_id` is None
    if nothing was written yet. `deep`: whether the rows were read too. `checked_file_count` counts every file that
    was looked at: manifest lists, manifests, index, statistics, data and changelog files and their extra files.
    """

    table: str
    snapshot_id: int | None
    deep: bool
    problems: tuple[Finding, ...]
    advice: tuple[Finding, ...]
    checked_file_count: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def summary(self) -> str:
        """The verdict in one line."""
        verdict = plural(len(self.problems), "problem") if self.problems else "fine"
        advice_text = f", {plural(len(self.advice), 'piece of advice', 'pieces of advice')}" if self.advice else ""
        at = "without snapshots" if self.snapshot_id is None else f"at snapshot {self.snapshot_id}"
        return (
            f"{verdict} {at}: {plural(self.checked_file_count, 'file')} "
            f"checked{', rows too' if self.deep else ''}{advice_text}"
        )

    def to_rows(self) -> list[tuple[str, str, str | None, str | None, str, str]]:
        """Return problems, then advice, as rows under `REPORT_COLUMNS`."""
        kinds = (("problem", self.problems), ("advice", self.advice))
        return [
            (kind, finding.check, finding.path, finding.field, finding.problem, finding.remedy)
            for kind, findings in kinds
            for finding in findings
        ]

    def __repr__(self) -> str:
        return cards.card_text(
            f"{self.table} · check",
            [
                ("verdict", self.summary),
                *((kind, f"{what}: {observed}") for kind, what, _, _, observed, _ in self.to_rows()[:_MAX_SHOWN]),
            ],
        )

    def __str__(self) -> str:
        lines = [f"{self.table} · {self.summary}"]
        for kind, what, path, column, observed, remedy in self.to_rows():
            location = " · ".join(part for part in (path, column) if part)
            lines += [f"  {kind:<8} {what}", *(f"{'':<11}{text}" for text in (location, observed, remedy) if text)]
        return "\n".join(escape_controls(line) for line in lines)

    def _repr_html_(self) -> str:
        card = cards.html_card(f"{self.table} · check", [("verdict", self.summary)])
        rows = self.to_rows()
        return card if not rows else card + cards.html_table(REPORT_COLUMNS, rows)


_MAX_SHOWN = 8


# ---- findings ------------------------------------------------------------


ROLLBACK_REMEDY = "t.rollback to a snapshot or tag that has it, or put the file back from a copy"
REWRITE_REMEDY = "compact the bucket (t.compact(full=True)), or write its rows anew"
RESTORE_REMEDY = "put the file back from a copy; else t.rollback to a snapshot or tag that does not need it"
REBUILD_INDEX_REMEDY = "rows are safe: t.rewrite_file_index(rebuild=True) makes the indexes anew from them"


def format_value(values: pl.Series, index: int) -> str:
    """Return the value at an index as findings show it."""
    return format_raw_count(values, index) or format_cell(values[index])


@dataclass(slots=True, kw_only=True)
class Findings:
    """Findings in the order they are made; `paths` are the files looked at."""

    problems: list[Finding] = field(default_factory=list)
    advice: list[Finding] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)

    def add_problem(
        self,
        check: str,
        problem: str,
        *,
        path: str | None = None,
        field: str | None = None,
        remedy: str = RESTORE_REMEDY,
    ) -> None:
        """Add a problem."""
        self.problems.append(Finding(check=check, path=path, field=field, problem=problem, remedy=remedy))

    def add_advice(
        self, check: str, problem: str, *, path: str | None = None, field: str | None = None, remedy: str
    ) -> None:
        """Add a piece of advice."""
        self.advice.append(Finding(check=check, path=path, field=field, problem=problem, remedy=remedy))

    def merge(self, other_findings: Findings) -> None:
        """Add all findings of another check."""
        self.problems += other_findings.problems
        self.advice += other_findings.advice
        self.paths |= other_findings.paths

    @contextmanager
    def reading_file(self, subject: str, path: str, remedy: str | None = None) -> Iterator[None]:
        """Count a file as looked at, and turn an error of the block into a finding, as `as_findings` does."""
        self.paths.add(path)
        with self.as_findings(subject, path, remedy):
            yield

    @contextmanager
    def as_findings(self, subject: str, path: str, remedy: str | None = None) -> Iterator[None]:
        """Turn an error of the block into a finding, with that `remedy` if it has one.

        What lakekit cannot read becomes advice, since it is no fault of the table.
        """
        try:
            yield
        except FileMissing as missing:
            self.add_problem(
                f"{subject} is missing", missing.message, path=missing.path or path, remedy=remedy or ROLLBACK_REMEDY
            )
        except (Unsupported, ValueOutOfRange) as refused:
            self.add_advice(
                f"{subject} was not looked into",
                refused.message,
                path=refused.path or path,
                remedy="let the engine that wrote it check it",
            )
        except LocationNotAllowed as refused:
            remedy = f"open the table with the option {ALLOWED_LOCATIONS}"
            self.add_advice(
                f"{subject} was not looked into", refused.message, path=path, field=refused.option, remedy=remedy
            )
        except InvalidOption as refused:
            self.add_advice(
                f"{subject} was not looked into",
                refused.message,
                path=path,
                field=refused.key,
                remedy="set the option right",
            )
        except LakekitError as damaged:
            named = getattr(damaged, "path", None) or path
            self.add_problem(
                f"{subject} is unreadable",
                damaged.message,
                path=named,
                field=getattr(damaged, "field", None),
                remedy=remedy or RESTORE_REMEDY,
            )
        except external_reader.FOREIGN_FAILURES as damaged:
            pass_interrupt(damaged)
            self.add_problem(
                f"{subject} is unreadable",
                (str(damaged).splitlines() or [type(damaged).__name__])[0],
                path=path,
                remedy=remedy or RESTORE_REMEDY,
            )
