"""The levels of one bucket's LSM tree and the sorted runs they hold.

    level 0   |-c-|  |--d--|         every file is a run of its own, newest first
    level 4   |--a--| |---b---|      the files of a higher level are one run: their keys do not overlap
    level 5   |------------e------|

A run of a smaller number is newer than all runs after it, but files of level 0 that several writers made at once may
have sequence numbers in common.

Source: ENGINE.md 2.1, `LsmLevels`, `LevelSortedRun`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakekit.model.data_file import DataFileMeta
    from lakekit.options.table_options import TableOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRun:
    """Files of one level whose keys do not overlap; of level 0, one file."""

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def size_bytes(self) -> int:
        """Return the size of its files."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class LsmLevels:
    """The runs of a bucket, newest first, and the number of levels, level 0 included."""

    runs: tuple[SortedRun, ...]
    count: int

    @staticmethod
    def of(files: Iterable[DataFileMeta], options: TableOptions) -> LsmLevels:
        """Return the levels of a bucket's files: as many as the option says, or as the files need.

        Raises:
            InvalidOption: there are fewer than two levels.
        """
        files_of_bucket = tuple(files)
        count = max(options.level_count, max((file.level for file in files_of_bucket), default=-1) + 1)
        if count < 2:
            msg = f"option 'num-levels' is {count}; there are at least 2 levels"
            raise InvalidOption(msg, key="num-levels", value=str(count))
        return LsmLevels(runs=_runs(files_of_bucket), count=count)

    @staticmethod
    def of_appended(files: Sequence[DataFileMeta], options: TableOptions) -> LsmLevels:
        """Return the levels of files without keys, with level 0 in the order of sequence numbers.

        Files of equal numbers keep the order of their commits. Raises as `of`.
        """
        levels = LsmLevels.of(files, options)
        level_0 = sorted((file for file in files if file.level == 0), key=lambda file: file.min_sequence_number)
        above = (run for run in levels.runs if run.level)
        return LsmLevels(runs=(*(SortedRun(level=0, files=(file,)) for file in level_0), *above), count=levels.count)

    @property
    def max_level(self) -> int:
        """Return the number of the last level."""
        return self.count - 1

    @property
    def highest(self) -> int:
        """Return the highest level that holds a file; -1 if none does."""
        return self.runs[-1].level if self.runs else -1

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """Return every file, newest run first."""
        return tuple(file for run in self.runs for file in run.files)

    @property
    def level_0(self) -> tuple[DataFileMeta, ...]:
        """Return the files of level 0, newest first."""
        return tuple(file for run in self.runs if run.level == 0 for file in run.files)

    def above(self, level: int) -> tuple[SortedRun, ...]:
        """Return the runs of the levels above `level`, lowest first, in which older versions are looked up."""
        return tuple(run for run in self.runs if run.level > level)

    def changed(self, before: Iterable[DataFileMeta], after: Iterable[DataFileMeta]) -> LsmLevels:
        """Return the levels after a compaction or a flush that removed `before` and added `after`."""
        removed = {(file.level, file.name) for file in before}
        kept_files = tuple(file for file in self.files if (file.level, file.name) not in removed)
        remaining = (*kept_files, *after)
        return LsmLevels(
            runs=_runs(remaining), count=max(self.count, max((file.level for file in remaining), default=-1) + 1)
        )


def _runs(files: tuple[DataFileMeta, ...]) -> tuple[SortedRun, ...]:
    newest_first = sorted((file for file in files if file.level == 0), key=_age)
    above = sorted({file.level for file in files if file.level > 0})
    return (
        *(SortedRun(level=0, files=(file,)) for file in newest_first),
        *(SortedRun(level=level, files=tuple(file for file in files if file.level == level)) for level in above),
    )


def _age(file: DataFileMeta) -> tuple[int, int, int, str]:
    """Return the sort key of level 0, newest first; what follows the sequence numbers makes it unambiguous."""
    return -file.max_sequence_number, file.min_sequence_number, file.creation_time_ms or 0, file.name
