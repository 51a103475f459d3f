"""Universal compaction: the levels of a bucket, and which runs to merge next, into which level.

    pick_due_unit(levels, options, …)          what a writer compacts after a flush
    pick_full_compaction(levels, options, …)   everything into the last level, or, if all is there, the files that need
                                               it
    pick_level_0(levels, options, …)           level 0, whether or not a rule asks for it

    level 0   |-c-|  |--d--|         every file is a run of its own, newest first
    level 4   |--a--| |---b---|      the files of a higher level are one run: their keys do not overlap
    level 5   |------------e------|

A run of a smaller number is newer than all runs after it, but files of level 0 that several writers made at once may
have sequence numbers in common. The runs picked are always neighbours, from the newest on: older versions of a key
never overtake newer ones. Sizes decide as in engine 1.4.2 (later engines also include a big run of level 1 once another
rule triggered a compaction).

Source: ENGINE.md 2.1 to 2.4, `LsmLevels`, `LevelSortedRun`, `UniversalCompaction`, `EarlyFullCompaction`,
`ForceUpLevel0Compaction`, `CompactStrategy.pickFullCompaction`, `OffPeakHours`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit import runtime
from lakekit.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakekit.model.data_file import DataFileMeta
    from lakekit.options.table_options import TableOptions


_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionUnit:
    """Files to be compacted together into one level.

    `is_per_file`: every file is rewritten by itself, in its level. `is_full`: all runs go to the last level, which
    counts as a full compaction for `compaction.optimization-interval`. `reason` names the rule that picked it.
    """

    output_level: int
    files: tuple[DataFileMeta, ...]
    is_per_file: bool = False
    is_full: bool = False
    reason: str = ""


def pick_due_unit(
    levels: LsmLevels, options: TableOptions, *, now_ms: int, last_full_ms: int | None = None
) -> CompactionUnit | None:
    """Return the compaction that is due now; None if none is.

    `last_full_compaction_ms` is when the whole bucket was last compacted; None (unknown) counts as long ago.
    """
    unit = _pick_early_full(levels, options, now_ms, last_full_ms)
    return pick_by_size(levels, options, now_ms=now_ms) if unit is None else _drop_noop(unit)


def pick_by_size(levels: LsmLevels, options: TableOptions, *, now_ms: int | None = None) -> CompactionUnit | None:
    """Return the compaction that is due by the sizes of runs; if `now_ms` is None, off-peak hours do not count."""
    unit = _size_amplification(levels, options)
    trigger, count = options.num_sorted_run_compaction_trigger, len(levels.runs)
    if unit is None and count >= trigger:
        unit = _extend_runs(levels, options, 1, is_forced=False, now_ms=now_ms, reason="size ratio")
    if unit is None and count > trigger:
        unit = _extend_runs(
            levels, options, count - trigger + 1, is_forced=False, now_ms=now_ms, reason="number of runs"
        )
    return _drop_noop(unit)


def pick_or_force_level0(
    levels: LsmLevels, options: TableOptions, *, now_ms: int, last_full_ms: int | None = None, idle_triggers: int = 0
) -> tuple[CompactionUnit | None, int]:
    """Return the unit that is due, or level 0 in tables that keep it empty, and the next `idle_triggers`."""
    unit = pick_due_unit(levels, options, now_ms=now_ms, last_full_ms=last_full_ms)
    if unit is not None or not (options.needs_lookup or options.compaction_force_up_level_0):
        return unit, idle_triggers
    if options.needs_lookup and options.lookup_compact == "gentle":
        idle_triggers += 1
        if idle_triggers != options.gentle_lookup_interval:
            return None, idle_triggers
        idle_triggers = 0
    return pick_level_0(levels, options, now_ms=now_ms), idle_triggers


def pick_level_0(levels: LsmLevels, options: TableOptions, *, now_ms: int) -> CompactionUnit | None:
    """Return all files of level 0, and the runs after them that are not much bigger; None if there are none."""
    count = len(levels.level_0)
    return (
        _drop_noop(_extend_runs(levels, options, count, is_forced=True, now_ms=now_ms, reason="level 0"))
        if count
        else None
    )


def pick_full_compaction(
    levels: LsmLevels,
    options: TableOptions,
    *,
    has_vector: Callable[[DataFileMeta], bool] | None = None,
    is_expired: Callable[[DataFileMeta], bool] | None = None,
) -> CompactionUnit | None:
    """Return every run, to be compacted into the last level.

    If the last level is the only run: its files that hold deleted or expired rows, or all its files if the options say
    so, each to be rewritten by itself; None if there are none.
    """
    if not levels.runs:
        return None
    if len(levels.runs) > 1 or levels.highest_used_level != levels.max_level:
        return pick_all_runs(levels, "full")
    marked = [
        file
        for file in levels.files
        if options.compaction_force_rewrite_all_files
        or (is_expired is not None and is_expired(file))
        or (has_vector is not None and has_vector(file))
    ]
    if not marked:
        return None
    return CompactionUnit(
        output_level=levels.max_level, files=tuple(marked), is_per_file=True, reason="files of the last level"
    )


def last_full_compaction_ms(levels: LsmLevels) -> int | None:
    """Return when the whole bucket was last compacted: the newest creation time in the last level; None if never."""
    times = [
        file.creation_time_ms
        for file in levels.files
        if file.level == levels.max_level and file.creation_time_ms is not None
    ]
    return max(times, default=None)


# ---- the rules -------------------------------------------------------------------------------------------------------


def _pick_early_full(
    levels: LsmLevels, options: TableOptions, now_ms: int, last_full_ms: int | None
) -> CompactionUnit | None:
    """Return a full compaction that an option asks for before sizes do."""
    if len(levels.runs) < 2:
        return None
    interval = options.compaction_optimization_interval_ms
    if interval is not None and (last_full_ms is None or now_ms - last_full_ms > interval):
        return pick_all_runs(levels, "optimization interval")
    threshold = options.compaction_total_size_threshold_bytes
    if threshold is not None and _total_bytes(levels.runs) < threshold:
        return pick_all_runs(levels, "total size")
    threshold = options.compaction_incremental_size_threshold_bytes
    if (
        threshold is not None
        and _total_bytes([run for run in levels.runs if run.level != levels.max_level]) > threshold
    ):
        return pick_all_runs(levels, "incremental size")
    return None


def _size_amplification(levels: LsmLevels, options: TableOptions) -> CompactionUnit | None:
    """Return all runs, if those above the oldest run exceed the allowed percentage of its size."""
    runs = levels.runs
    if not runs or len(runs) < options.num_sorted_run_compaction_trigger:
        return None
    if _total_bytes(runs[:-1]) * 100 > options.compaction_max_size_amplification_percent * runs[-1].size_bytes:
        return pick_all_runs(levels, "size amplification")
    return None


def _extend_runs(
    levels: LsmLevels, options: TableOptions, count: int, *, is_forced: bool, now_ms: int | None, reason: str
) -> CompactionUnit | None:
    """Return the first `count` runs, and those after them that are not much bigger than all before together."""
    ratio = 100.0 + options.compaction_size_ratio + _offpeak_ratio(options, now_ms)
    size = _total_bytes(levels.runs[:count])
    for run in levels.runs[count:]:
        if size * ratio / 100.0 < run.size_bytes:
            break
        size += run.size_bytes
        count += 1
    return _make_unit(levels, count, reason) if is_forced or count > 1 else None


def _make_unit(levels: LsmLevels, count: int, reason: str) -> CompactionUnit:
    """Return the first runs, to be compacted into the level before that of the next run.

    Nothing is compacted into level 0: if it would be the output, runs are added up to the first one of a higher level,
    and its level is the output.
    """
    runs = levels.runs
    output = levels.max_level if count == len(runs) else max(0, runs[count].level - 1)
    if output == 0:
        for run in runs[count:]:
            count += 1
            if run.level != 0:
                output = run.level
                break
    if count == len(runs):
        return pick_all_runs(levels, reason)
    return CompactionUnit(
        output_level=output, files=tuple(file for run in runs[:count] for file in run.files), reason=reason
    )


def pick_all_runs(levels: LsmLevels, reason: str) -> CompactionUnit:
    """Return all runs, to be compacted into the last level."""
    return CompactionUnit(output_level=levels.max_level, files=levels.files, is_full=True, reason=reason)


def _drop_noop(unit: CompactionUnit | None) -> CompactionUnit | None:
    """Return the unit, or None if it is a single file that is in its output level."""
    if unit is None or not unit.files or (len(unit.files) == 1 and unit.files[0].level == unit.output_level):
        return None
    return unit


def _total_bytes(runs: Sequence[SortedRun]) -> int:
    return sum(run.size_bytes for run in runs)


def _offpeak_ratio(options: TableOptions, now_ms: int | None) -> int:
    """Return the amount that is added to the size ratio at this hour of the wall clock."""
    start, end = options.compaction_offpeak_start_hour, options.compaction_offpeak_end_hour
    if now_ms is None or -1 in (start, end) or start == end:
        return 0
    hour = runtime.wall_clock_ms(now_ms) // _HOUR_MS % 24
    quiet = start <= hour < end if start < end else hour < end or start <= hour
    return options.compaction_offpeak_ratio if quiet else 0


# ---- levels ------------------------------------------------------------


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
    def from_files(files: Iterable[DataFileMeta], options: TableOptions) -> LsmLevels:
        """Return the levels of a bucket's files: as many as the option says, or as the files need.

        Raises:
            InvalidOption: there are fewer than two levels.
        """
        files_of_bucket = tuple(files)
        count = max(options.level_count, max((file.level for file in files_of_bucket), default=-1) + 1)
        if count < 2:
            msg = f"option 'num-levels' is {count}; there are at least 2 levels"
            raise InvalidOption(msg, key="num-levels", value=str(count))
        return LsmLevels(runs=_make_runs(files_of_bucket), count=count)

    @staticmethod
    def from_append_files(files: Sequence[DataFileMeta], options: TableOptions) -> LsmLevels:
        """Return the levels of files without keys, with level 0 in the order of sequence numbers.

        Files of equal numbers keep the order of their commits. Raises as `from_files`.
        """
        levels = LsmLevels.from_files(files, options)
        level_0 = sorted((file for file in files if file.level == 0), key=lambda file: file.min_sequence_number)
        above = (run for run in levels.runs if run.level)
        return LsmLevels(runs=(*(SortedRun(level=0, files=(file,)) for file in level_0), *above), count=levels.count)

    @property
    def max_level(self) -> int:
        """Return the number of the last level."""
        return self.count - 1

    @property
    def highest_used_level(self) -> int:
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

    def runs_above(self, level: int) -> tuple[SortedRun, ...]:
        """Return the runs of the levels above `level`, lowest first, in which older versions are looked up."""
        return tuple(run for run in self.runs if run.level > level)

    def with_changes(self, removed_files: Iterable[DataFileMeta], added_files: Iterable[DataFileMeta]) -> LsmLevels:
        """Return the levels after a compaction or a flush that removed `removed_files` and added `added_files`."""
        removed = {(file.level, file.name) for file in removed_files}
        kept_files = tuple(file for file in self.files if (file.level, file.name) not in removed)
        remaining = (*kept_files, *added_files)
        return LsmLevels(
            runs=_make_runs(remaining), count=max(self.count, max((file.level for file in remaining), default=-1) + 1)
        )


def _make_runs(files: tuple[DataFileMeta, ...]) -> tuple[SortedRun, ...]:
    newest_first = sorted((file for file in files if file.level == 0), key=_newest_first_key)
    above = sorted({file.level for file in files if file.level > 0})
    return (
        *(SortedRun(level=0, files=(file,)) for file in newest_first),
        *(SortedRun(level=level, files=tuple(file for file in files if file.level == level)) for level in above),
    )


def _newest_first_key(file: DataFileMeta) -> tuple[int, int, int, str]:
    """Return the sort key of level 0, newest first; what follows the sequence numbers makes it unambiguous."""
    return -file.max_sequence_number, file.min_sequence_number, file.creation_time_ms or 0, file.name
