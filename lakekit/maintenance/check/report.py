"""The result of checking a table: `Report`, which `t.check()` returns."""

from __future__ import annotations

from dataclasses import dataclass

from lakekit.draw import cards, html
from lakekit.draw.humanize import escape_controls, plural

NAMES = ("kind", "what", "path", "field", "found", "remedy")
"""The columns of `Report.rows`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem, or one piece of advice.

    `what`: a short title; `path`: the file it is about, None where it is about several; `field`: the field of the file
    or of its manifest entry; `found`: what was found there and what was expected; `remedy`: what to do about it.
    """

    what: str
    path: str | None = None
    field: str | None = None
    found: str
    remedy: str

    def __str__(self) -> str:
        location = " · ".join(part for part in (self.path, self.field) if part)
        return f"{self.what}{f' ({location})' if location else ''}: {self.found}. {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of checking the newest snapshot of a table.

    `problems` are wrong and may cost rows or fail reads; `advice` is about speed and size alone. `snapshot_id` is None
    where nothing was written yet. `deep`: whether the rows were read too. `checked_file_count` counts every file that
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
    def line(self) -> str:
        """The verdict in one line."""
        verdict = plural(len(self.problems), "problem") if self.problems else "fine"
        advice_text = f", {plural(len(self.advice), 'piece of advice', 'pieces of advice')}" if self.advice else ""
        at = "without snapshots" if self.snapshot_id is None else f"at snapshot {self.snapshot_id}"
        return (
            f"{verdict} {at}: {plural(self.checked_file_count, 'file')} "
            f"checked{', rows too' if self.deep else ''}{advice_text}"
        )

    def rows(self) -> list[tuple[str, str, str | None, str | None, str, str]]:
        """Return problems, then advice, as rows under `NAMES`."""
        kinds = (("problem", self.problems), ("advice", self.advice))
        return [
            (kind, finding.what, finding.path, finding.field, finding.found, finding.remedy)
            for kind, findings in kinds
            for finding in findings
        ]

    def __repr__(self) -> str:
        return cards.card(
            f"{self.table} · check",
            [
                ("verdict", self.line),
                *((kind, f"{what}: {observed}") for kind, what, _, _, observed, _ in self.rows()[:_MAX_SHOWN]),
            ],
        )

    def __str__(self) -> str:
        lines = [f"{self.table} · {self.line}"]
        for kind, what, path, field, observed, remedy in self.rows():
            location = " · ".join(part for part in (path, field) if part)
            lines += [f"  {kind:<8} {what}", *(f"{'':<11}{text}" for text in (location, observed, remedy) if text)]
        return "\n".join(escape_controls(line) for line in lines)

    def _repr_html_(self) -> str:
        card = html.card(f"{self.table} · check", [("verdict", self.line)])
        rows = self.rows()
        return card if not rows else card + html.table(NAMES, rows)


_MAX_SHOWN = 8
