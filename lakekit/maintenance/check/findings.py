"""The findings that a check collects: problems, advice, and the files it looked at."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakekit.draw.humanize import format_cell
from lakekit.errors import InvalidOption, LakekitError, LocationNotAllowed, Unsupported, ValueOutOfRange
from lakekit.format import external_reader
from lakekit.maintenance.check.report import Finding
from lakekit.model.locations import ALLOWED_LOCATIONS
from lakekit.storage.protocol import FileMissing
from lakekit.write.spot import format_raw_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

ROLLBACK = "t.rollback to a snapshot or tag that has it, or put the file back from a copy"
REWRITE = "compact the bucket (t.compact(full=True)), or write its rows anew"
RESTORE = "put the file back from a copy; else t.rollback to a snapshot or tag that does not need it"
INDEX_ANEW = "rows are safe: t.rewrite_file_index(anew=True) makes the indexes anew from them"


def format_value(values: pl.Series, at: int) -> str:
    """One of some values, as findings show it."""
    return format_raw_count(values, at) or format_cell(values[at])


@dataclass(slots=True, kw_only=True)
class Findings:
    """Findings in the order they are made; `paths` are the files looked at."""

    problems: list[Finding] = field(default_factory=list)
    advice: list[Finding] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)

    def wrong(
        self, what: str, message: str, *, path: str | None = None, field: str | None = None, remedy: str = RESTORE
    ) -> None:
        """Add a problem."""
        self.problems.append(Finding(what=what, path=path, field=field, found=message, remedy=remedy))

    def better(
        self, what: str, message: str, *, path: str | None = None, field: str | None = None, remedy: str
    ) -> None:
        """Add a piece of advice."""
        self.advice.append(Finding(what=what, path=path, field=field, found=message, remedy=remedy))

    def add(self, others: Findings) -> None:
        """Add all findings of another check."""
        self.problems += others.problems
        self.advice += others.advice
        self.paths |= others.paths

    @contextmanager
    def reading(self, what: str, path: str, remedy: str | None = None) -> Iterator[None]:
        """Around what reads a file, which counts as looked at: see `told_of`."""
        self.paths.add(path)
        with self.told_of(what, path, remedy):
            yield

    @contextmanager
    def told_of(self, what: str, path: str, remedy: str | None = None) -> Iterator[None]:
        """Turn an error of the block into a finding, with that `remedy` if it has one.

        What lakekit cannot read becomes advice, since it is no fault of the table.
        """
        try:
            yield
        except FileMissing as missing:
            self.wrong(f"{what} is missing", missing.message, path=missing.path or path, remedy=remedy or ROLLBACK)
        except (Unsupported, ValueOutOfRange) as refused:
            self.better(
                f"{what} was not looked into",
                refused.message,
                path=refused.path or path,
                remedy="let the engine that wrote it check it",
            )
        except LocationNotAllowed as refused:
            remedy = f"open the table with the option {ALLOWED_LOCATIONS}"
            self.better(f"{what} was not looked into", refused.message, path=path, field=refused.option, remedy=remedy)
        except InvalidOption as refused:
            self.better(
                f"{what} was not looked into",
                refused.message,
                path=path,
                field=refused.key,
                remedy="set the option right",
            )
        except LakekitError as damaged:
            named = getattr(damaged, "path", None) or path
            self.wrong(
                f"{what} is unreadable",
                damaged.message,
                path=named,
                field=getattr(damaged, "field", None),
                remedy=remedy or RESTORE,
            )
        except external_reader.FOREIGN_FAILURES as damaged:
            external_reader.pass_interrupt(damaged)
            self.wrong(
                f"{what} is unreadable",
                (str(damaged).splitlines() or [type(damaged).__name__])[0],
                path=path,
                remedy=remedy or RESTORE,
            )
