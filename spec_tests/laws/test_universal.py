"""Universal compaction picks what the reference picks (ENGINE.md 2.2 to 2.4), and never loses a run or lets old versions overtake new ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given, strategies as st

from lakekit.errors import InvalidOption
from lakekit.lsm import compaction_picker
from lakekit.lsm.compaction_picker import LsmLevels
from lakekit.model.data_file import DataFileMeta
from lakekit.options.table_options import TableOptions

NOW_MS = 1_700_000_000_000
DEFAULTS = TableOptions.parse({}, kind="key")


def options(**given: object) -> TableOptions:
    return TableOptions.parse({key.replace("__", ".").replace("_", "-"): str(value) for key, value in given.items()}, kind="key")


def file(number: int, level: int, size: int, **more: int) -> DataFileMeta:
    """A file whose number says how new it is."""
    return DataFileMeta(
        name=f"data-{number}.parquet", size_bytes=size, row_count=1, level=level, min_sequence_number=number, max_sequence_number=number, **more
    )


def levels(*runs: tuple[int, int], options: TableOptions = DEFAULTS) -> LsmLevels:
    """Runs as (level, size), newest first."""
    return LsmLevels.from_files([file(len(runs) - at, level, size) for at, (level, size) in enumerate(runs)], options)


def picked(unit: compaction_picker.CompactionUnit | None) -> tuple[int, int] | None:
    return None if unit is None else (len(unit.files), unit.output_level)


def shape(found: LsmLevels) -> str:
    return " ".join(f"{run.level}:{run.size_bytes}" for run in found.runs)


def applied(found: LsmLevels, unit: compaction_picker.CompactionUnit, number: int) -> LsmLevels:
    """The levels when the unit's files have become one, sizes added up."""
    return found.with_changes(unit.files, [file(number, unit.output_level, sum(one.size_bytes for one in unit.files))])


# ---- levels ----------------------------------------------------------------------------------------------------------------------------------------


def test_runs_are_the_files_of_level_0_newest_first_and_then_the_levels() -> None:
    a, b, c, d, e = file(3, 0, 1), file(7, 0, 1), file(1, 4, 1), file(2, 4, 1), file(0, 5, 1)
    found = LsmLevels.from_files([a, c, e, b, d], DEFAULTS)
    assert [(run.level, run.files) for run in found.runs] == [(0, (b,)), (0, (a,)), (4, (c, d)), (5, (e,))]
    assert (found.count, found.max_level, found.highest_used_level, found.level_0) == (6, 5, 5, (b, a))
    assert [run.level for run in found.runs_above(4)] == [5]


def test_files_of_level_0_with_equal_sequence_numbers_have_an_order_too() -> None:
    base = replace(file(9, 0, 1), min_sequence_number=5)
    wider = replace(base, name="data-w.parquet", min_sequence_number=4)
    older = replace(base, name="data-a.parquet", creation_time_ms=1)
    later, named = replace(base, name="data-b.parquet", creation_time_ms=2), replace(base, name="data-c.parquet", creation_time_ms=2)
    assert LsmLevels.from_files([named, later, older, wider], DEFAULTS).level_0 == (wider, older, later, named)


def test_there_are_as_many_levels_as_the_option_says_or_the_files_need() -> None:
    assert LsmLevels.from_files([], DEFAULTS).count == 6
    assert LsmLevels.from_files([], options(**{"num-sorted-run.compaction-trigger": 3})).count == 4
    assert LsmLevels.from_files([file(1, 8, 1)], DEFAULTS).count == 9
    assert LsmLevels.from_files([], options(num_levels=2)).count == 2
    assert LsmLevels.from_files([], DEFAULTS).highest_used_level == -1
    with pytest.raises(InvalidOption, match="num-levels"):
        LsmLevels.from_files([], options(num_levels=1))


# ---- what is picked after a flush --------------------------------------------------------------------------------------------------------------------

TRACE = {
    5: (5, 5, "5:5"),
    9: (4, 4, "4:4 5:5"),
    12: (3, 3, "3:3 4:4 5:5"),
    14: (2, 2, "2:2 3:3 4:4 5:5"),
    16: (6, 5, "5:16"),
    20: (4, 4, "4:4 5:16"),
    23: (3, 3, "3:3 4:4 5:16"),
    25: (2, 2, "2:2 3:3 4:4 5:16"),
    27: (5, 4, "4:11 5:16"),
    30: (3, 3, "3:3 4:11 5:16"),
    32: (2, 2, "2:2 3:3 4:11 5:16"),
    34: (4, 3, "3:7 4:11 5:16"),
    36: (2, 2, "2:2 3:7 4:11 5:16"),
    38: (3, 2, "2:4 3:7 4:11 5:16"),
    40: (2, 1, "1:2 2:4 3:7 4:11 5:16"),
}
"""ENGINE.md 2.2: every flush adds a file of size 1. Flush number: runs taken, output level, levels afterwards."""


def test_forty_flushes_compact_as_traced() -> None:
    held = LsmLevels.from_files([], DEFAULTS)
    found = {}
    for flush in range(1, 41):
        held = held.with_changes([], [file(2 * flush, 0, 1)])
        unit = compaction_picker.pick_due_unit(held, DEFAULTS, now_ms=NOW_MS)
        if unit is not None:
            before = len(held.runs)
            held = applied(held, unit, 2 * flush + 1)
            found[flush] = (before - len(held.runs) + 1, unit.output_level, shape(held))
            assert unit.reason == ("size amplification" if flush in (5, 16) else "size ratio")
    assert found == TRACE


def test_size_amplification_wants_the_trigger_and_more_than_its_percentage() -> None:
    assert picked(compaction_picker.pick_due_unit(levels((0, 50), (0, 50), (0, 50), (0, 51), (5, 100)), DEFAULTS, now_ms=NOW_MS)) == (5, 5)
    assert picked(compaction_picker.pick_due_unit(levels((0, 900), (0, 50), (5, 1)), DEFAULTS, now_ms=NOW_MS)) is None
    exact = levels((0, 200), (0, 200), (1, 200), (2, 200), (5, 400))  # 800 is not more than 200 percent of 400
    unit = compaction_picker.pick_due_unit(exact, DEFAULTS, now_ms=NOW_MS)
    assert unit is not None
    assert unit.reason == "size ratio"


def test_size_ratio_takes_runs_until_one_is_too_big() -> None:
    assert picked(compaction_picker.pick_due_unit(levels((0, 10), (0, 10), (0, 20), (4, 41), (5, 900)), DEFAULTS, now_ms=NOW_MS)) == (3, 3)  # 40 × 1.01 < 41
    assert (
        picked(compaction_picker.pick_due_unit(levels((0, 100), (0, 101), (4, 900), (4, 1), (5, 9000)), DEFAULTS, now_ms=NOW_MS)) is None
    )  # two files of level 4 are one run
    assert picked(compaction_picker.pick_due_unit(levels((0, 100), (0, 101), (0, 1), (4, 901), (5, 9000)), DEFAULTS, now_ms=NOW_MS)) == (3, 3)
    wide = options(**{"compaction.size-ratio": 10})
    assert picked(compaction_picker.pick_due_unit(levels((0, 10), (0, 10), (0, 20), (4, 41), (5, 900)), wide, now_ms=NOW_MS)) == (4, 4)


def test_too_many_runs_are_compacted_although_none_fits_another() -> None:
    held = levels((0, 1), (0, 10), (0, 100), (3, 1000), (4, 10000), (5, 100000))
    unit = compaction_picker.pick_due_unit(held, DEFAULTS, now_ms=NOW_MS)
    assert unit is not None
    assert (picked(unit), unit.reason) == ((4, 3), "number of runs")  # two, and what stands before the first level above 0


def test_nothing_is_compacted_into_level_0() -> None:
    one = options(**{"num-sorted-run.compaction-trigger": 3})
    held = levels((0, 1), (0, 1), (0, 50), (0, 400), (2, 3000), options=one)  # the first two would go to level 0
    assert picked(compaction_picker.pick_due_unit(held, one, now_ms=NOW_MS)) == (5, 3)
    held = levels((0, 1), (0, 1), (0, 50), (0, 400), (2, 3000), (3, 9000), options=one)
    assert picked(compaction_picker.pick_due_unit(held, one, now_ms=NOW_MS)) == (5, 2)
    held = levels((0, 1), (0, 1), (1, 50), (3, 9000), options=one)
    assert picked(compaction_picker.pick_due_unit(held, one, now_ms=NOW_MS)) == (3, 1)


def test_one_file_where_it_belongs_is_no_unit() -> None:
    eager = options(**{"num-sorted-run.compaction-trigger": 1})
    assert compaction_picker.pick_due_unit(levels((1, 10), options=eager), eager, now_ms=NOW_MS) is None
    assert picked(compaction_picker.pick_due_unit(levels((0, 10), options=eager), eager, now_ms=NOW_MS)) is None  # one run fits no other
    assert compaction_picker.pick_due_unit(LsmLevels.from_files([], eager), eager, now_ms=NOW_MS) is None
    assert compaction_picker.pick_level_0(levels((4, 10)), DEFAULTS, now_ms=NOW_MS) is None


@pytest.mark.parametrize(
    ("key", "value", "held", "last_full_ms", "expected"),
    [
        ("compaction.optimization-interval", "1 h", ((0, 1), (5, 900)), None, "optimization interval"),
        ("compaction.optimization-interval", "1 h", ((0, 1), (5, 900)), NOW_MS - 3_600_001, "optimization interval"),
        ("compaction.optimization-interval", "1 h", ((0, 1), (5, 900)), NOW_MS - 3_600_000, None),
        ("compaction.optimization-interval", "1 h", ((5, 900),), None, None),
        ("compaction.total-size-threshold", "902 b", ((0, 1), (5, 900)), None, "total size"),
        ("compaction.total-size-threshold", "901 b", ((0, 1), (5, 900)), None, None),
        ("compaction.incremental-size-threshold", "10 b", ((0, 5), (4, 6), (5, 900)), None, "incremental size"),
        ("compaction.incremental-size-threshold", "11 b", ((0, 5), (4, 6), (5, 900)), None, None),
    ],
)
def test_early_full_compaction(key: str, value: str, held: tuple[tuple[int, int], ...], last_full_ms: int | None, expected: str | None) -> None:
    unit = compaction_picker.pick_due_unit(levels(*held), options(**{key: value}), now_ms=NOW_MS, last_full_ms=last_full_ms)
    assert (None if unit is None else unit.reason) == expected
    if unit is not None:
        assert (len(unit.files), unit.output_level, unit.is_full) == (len(held), 5, True)


def test_the_last_full_compaction_is_told_by_the_newest_file_of_the_last_level() -> None:
    held = LsmLevels.from_files([file(1, 5, 1, creation_time_ms=5), file(2, 5, 1, creation_time_ms=7), file(3, 4, 1, creation_time_ms=9)], DEFAULTS)
    assert compaction_picker.last_full_compaction_ms(held) == 7
    assert compaction_picker.last_full_compaction_ms(levels((0, 1))) is None


@pytest.mark.parametrize(
    ("start", "end", "quiet"), [(9, 11, True), (10, 11, True), (11, 9, False), (23, 11, True), (8, 10, False), (-1, 11, False), (10, 10, False)]
)
def test_off_peak_hours_allow_bigger_runs(start: int, end: int, quiet: bool) -> None:
    ten = int(datetime(2024, 5, 6, 10, 30).timestamp() * 1000)  # noqa: DTZ001 - the hour of the wall clock
    given = options(**{"compaction.offpeak.start.hour": start, "compaction.offpeak.end.hour": end, "compaction.offpeak-ratio": 50})
    held = levels((0, 10), (0, 15), (0, 100), (4, 400), (5, 9000))
    assert picked(compaction_picker.pick_due_unit(held, given, now_ms=ten)) == ((4, 4) if quiet else None)


# ---- level 0 on demand -------------------------------------------------------------------------------------------------------------------------------


def test_level_0_is_forced_up_with_the_runs_that_are_not_much_bigger() -> None:
    assert picked(compaction_picker.pick_level_0(levels((0, 5), (0, 5), (4, 11), (5, 900)), DEFAULTS, now_ms=NOW_MS)) == (2, 3)
    assert picked(compaction_picker.pick_level_0(levels((0, 5), (0, 5), (4, 10), (5, 900)), DEFAULTS, now_ms=NOW_MS)) == (3, 4)
    assert picked(compaction_picker.pick_level_0(levels((0, 5)), DEFAULTS, now_ms=NOW_MS)) == (1, 5)
    assert picked(compaction_picker.pick_level_0(levels((0, 5), (1, 90), (5, 900)), DEFAULTS, now_ms=NOW_MS)) == (2, 1)


def test_radical_lookup_takes_level_0_every_time_and_gentle_waits() -> None:
    held = levels((0, 1), (5, 900))
    radical = options(**{"changelog-producer": "lookup"})
    unit, idle = compaction_picker.pick_or_force_level0(held, radical, now_ms=NOW_MS)
    assert (picked(unit), idle) == ((1, 4), 0)
    gentle = options(**{"changelog-producer": "lookup", "lookup-compact": "gentle", "lookup-compact.max-interval": 6})
    taken, idle = [], 0
    for _ in range(13):
        unit, idle = compaction_picker.pick_or_force_level0(held, gentle, now_ms=NOW_MS, idle_triggers=idle)
        taken.append(unit is not None)
    assert taken == [False] * 5 + [True] + [False] * 5 + [True, False]


def test_level_0_stays_where_nothing_asks_for_it() -> None:
    held = levels((0, 1), (5, 900))
    assert compaction_picker.pick_or_force_level0(held, DEFAULTS, now_ms=NOW_MS) == (None, 0)
    forced = options(**{"compaction.force-up-level-0": True, "lookup-compact": "gentle"})
    assert picked(compaction_picker.pick_or_force_level0(held, forced, now_ms=NOW_MS)[0]) == (1, 4)
    first_row = options(**{"merge-engine": "first-row"})
    assert picked(compaction_picker.pick_or_force_level0(held, first_row, now_ms=NOW_MS)[0]) == (1, 4)


# ---- full ------------------------------------------------------------------------------------------------------------------------------------------


def test_a_full_compaction_takes_everything_to_the_last_level() -> None:
    assert compaction_picker.pick_full_compaction(LsmLevels.from_files([], DEFAULTS), DEFAULTS) is None
    unit = compaction_picker.pick_full_compaction(levels((0, 1), (3, 5), (5, 900)), DEFAULTS)
    assert (picked(unit), unit is not None and unit.is_full, unit is not None and unit.is_per_file) == ((3, 5), True, False)
    assert picked(compaction_picker.pick_full_compaction(levels((3, 5)), DEFAULTS)) == (1, 5)


def test_of_a_last_level_alone_only_the_files_that_need_it() -> None:
    a, b, c = file(1, 5, 1), file(2, 5, 1), file(3, 5, 1)
    held = LsmLevels.from_files([a, b, c], DEFAULTS)
    assert compaction_picker.pick_full_compaction(held, DEFAULTS) is None
    unit = compaction_picker.pick_full_compaction(held, DEFAULTS, has_vector=lambda one: one is a, is_expired=lambda one: one is c)
    assert unit is not None
    assert (unit.files, unit.is_per_file, unit.output_level) == ((a, c), True, 5)
    everything = options(**{"compaction.force-rewrite-all-files": True})
    assert picked(compaction_picker.pick_full_compaction(held, everything)) == (3, 5)


# ---- laws ------------------------------------------------------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 1000), max_size=8),
    above=st.lists(st.integers(0, 5000), min_size=5, max_size=5),
    trigger=st.integers(1, 6),
    ratio=st.integers(0, 50),
    amplification=st.integers(0, 300),
)
def test_a_unit_is_the_newest_runs_and_its_output_lies_between_them_and_the_rest(
    sizes: list[int], above: list[int], trigger: int, ratio: int, amplification: int
) -> None:
    given_ = options(
        num_levels=6,
        **{
            "num-sorted-run.compaction-trigger": trigger,
            "compaction.size-ratio": ratio,
            "compaction.max-size-amplification-percent": amplification,
        },
    )
    held = levels(*((0, size) for size in sizes), *((level, size) for level, size in enumerate(above, 1) if size), options=given_)
    for unit in (
        compaction_picker.pick_due_unit(held, given_, now_ms=NOW_MS),
        compaction_picker.pick_level_0(held, given_, now_ms=NOW_MS),
        compaction_picker.pick_full_compaction(held, given_),
    ):
        if unit is None:
            continue
        count = len(unit.files)
        assert unit.files == held.files[:count]
        assert 0 < unit.output_level <= held.max_level
        left = held.runs[count:]
        assert all(run.level > unit.output_level for run in left)
        assert all(one.level <= unit.output_level for one in unit.files)
        assert unit.is_full == (not left)
        after = applied(held, unit, 99)
        assert sum(run.size_bytes for run in after.runs) == sum(run.size_bytes for run in held.runs)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=60))
def test_writing_with_any_sizes_keeps_the_number_of_runs_below_the_trigger(flushes: list[int]) -> None:
    held = LsmLevels.from_files([], DEFAULTS)
    for number, size in enumerate(flushes):
        held = held.with_changes([], [file(2 * number, 0, size)])
        unit = compaction_picker.pick_due_unit(held, DEFAULTS, now_ms=NOW_MS)
        if unit is not None:
            held = applied(held, unit, 2 * number + 1)
        assert len(held.runs) <= 5
        assert sum(run.size_bytes for run in held.runs) == sum(flushes[: number + 1])
