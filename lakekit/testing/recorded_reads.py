"""Recorded reads run by lakekit's public names; the deliberate differences from engine 1.4.2.

    for one in DIFFERENCES: print(one.name, one.engine, one.lakekit, one.reason)

Each difference has a test in the repository, `spec_tests/differential/test_differences.py`, that makes the input, runs
the engine and lakekit, and compares both answers with this list. Recorded reads that differ are `DIFFERENT_ANSWERS`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import polars as pl

import lakekit as lk
from lakekit.columns import cols
from lakekit.errors import LakekitError, Unsupported, ValueOutOfRange
from lakekit.model.table_paths import allowed_locations_option
from lakekit.testing.expectations import Case, Read, beyond_polars, describe_difference, drop_read_columns

KIND_COLUMN: Final = "rowkind"
INCREMENTAL_PREFIX = "incremental-"
_DAY_MS = 86_400_000


FROM_NOTHING = "changes since 0 are those of the empty table; the engine looks for the file of a snapshot 0"
LONG_LIVED_CHANGELOGS = (
    "the changelogs outlive their snapshots and hold these changes; the engine looks at the snapshots that remain"
)
BY_OLD_NAMES = (
    "the bucket key has the name that its column had in that snapshot; the engine looks for the name of today"
)
BY_OLD_GROUPS = "the sequence group has the columns that it had in that snapshot; the engine looks for those of today"
CHANGELOG_ROWS = tuple(row for k in range(1, 5) for row in (("-D", k, f"v{k}"), ("+I", k + 1, f"v{k + 1}")))


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferentAnswer:
    """A read that lakekit answers differently from the engine on purpose.

    Its result is these columns of these rows, or this error.
    """

    reason: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    error: type[LakekitError] | None = None


def different_rows(reason: str, columns: str, *values: tuple[Any, ...]) -> DifferentAnswer:
    """Return a different answer of these columns of these rows."""
    return DifferentAnswer(reason=reason, columns=tuple(columns.split()), rows=values)


DIFFERENT_ANSWERS = {
    ("append_row_tracking", "row_tracking"): DifferentAnswer(reason="row ids are refused by name", error=Unsupported),
    ("changelog_aggregation_full_compaction", "audit_log-changes-0-6-diff"): different_rows(
        FROM_NOTHING, "rowkind k s m", ("+I", 1, 12, "z"), ("+I", 2, 1, "b"), ("+I", 3, 3, None)
    ),
    ("changelog_aggregation_lookup", "audit_log-changes-0-6-diff"): different_rows(
        FROM_NOTHING, "rowkind k s m", ("+I", 1, 12, "z"), ("+I", 2, 1, "b"), ("+I", 3, 3, None)
    ),
    ("dedup_update_kinds", "changes-0-2-diff"): different_rows(FROM_NOTHING, "k v", (2, "bb")),
    ("dedup_update_kinds", "audit_log-changes-0-2-diff"): different_rows(
        FROM_NOTHING, "rowkind k v", ("-U", 1, "a"), ("+U", 2, "bb"), ("-U", 3, "c")
    ),
    ("evolve_bucket_key_time_travel", "snapshot-1"): different_rows(BY_OLD_NAMES, "k v", (1, "a"), (2, "b")),
    ("evolve_key_renamed", "snapshot-1"): different_rows(BY_OLD_NAMES, "k v", (1, "a"), (2, "b")),
    ("evolve_partial_update", "snapshot-1"): different_rows(BY_OLD_GROUPS, "k g a", (1, 5, "a1"), (2, 1, "x")),
    ("history_branches", "branch-from_tag-tag-of_branch"): different_rows(
        "the tag is the branch's own; the engine looks for it in the main branch",
        "k v w",
        (1, "a", None),
        (2, "branched", None),
        (4, "d", 44),
    ),
    ("history_long_lived_changelog_input", "changes-1-5-auto"): different_rows(
        LONG_LIVED_CHANGELOGS, "rowkind k v", *CHANGELOG_ROWS
    ),
    ("history_long_lived_changelog_input", "changes-1-5-changelog"): different_rows(
        LONG_LIVED_CHANGELOGS, "rowkind k v", *CHANGELOG_ROWS
    ),
    ("history_long_lived_changelog_none", "changes-1-5-auto"): different_rows(
        LONG_LIVED_CHANGELOGS, "rowkind k v", *CHANGELOG_ROWS
    ),
    ("history_long_lived_changelog_none", "changes-1-5-changelog"): different_rows(
        "without a producer there is no changelog to read", "rowkind k v"
    ),
    ("partition_times_legacy", "partitions"): different_rows(
        "partitions of times are listed; the engine cannot parse the text of TIMESTAMP that it wrote",
        "partition record_count",
        *(
            (
                "/".join(
                    f"{name}={value}" for name, value in zip(("ts0", "ts3", "ts6", "t", "ltz"), values, strict=True)
                ),
                1,
            )
            for values in (
                (
                    "1960-01-01 00:00:00",
                    "1970-01-01 00:00:00.000",
                    "1970-01-01 00:00:00.100000",
                    "00:00:00.0",
                    "1970-01-01 00:00:00.000",
                ),
                (
                    "2024-02-29 12:34:56",
                    "2024-02-29 12:34:56.789",
                    "2024-02-29 12:34:56.000001",
                    "01:02:03.004",
                    "2024-02-29 12:34:56.789",
                ),
                ("__DEFAULT_PARTITION__",) * 5,
            )
        ),
    ),
}
"""Every recorded read that lakekit answers differently, and why: (case, read) → its answer."""


class FrameComparison(Protocol):
    """A function that compares rows."""

    def __call__(self, frame: pl.DataFrame, read: Read, *, kind_column: str | None) -> str | None: ...


def describe_mismatch(case: Case, read: Read, *, differs: FrameComparison = describe_difference) -> str | None:
    """Return None when lakekit answers a recorded read as the engine, else what is different.

    `DIFFERENT_ANSWERS` counts as the engine's answer.
    """
    if (own := DIFFERENT_ANSWERS.get((case.name, read.name))) is not None:
        return check_different_answer(case, read, own)
    beyond = beyond_polars(read)
    for name in beyond:
        if (
            wrong := check_out_of_range(
                case, drop_read_columns(read, [other for other in read.columns if other != name])
            )
        ) is not None:
            return wrong
    read = drop_read_columns(read, beyond)
    try:
        frame = run_read(case, read)
    except LakekitError as refused:
        return None if read.error is not None else f"{type(refused).__name__}: {refused}"
    if read.error is not None:
        return f"{frame.height} rows, where the engine refuses: {read.error}"
    kinds = read.system is None and KIND_COLUMN in frame.columns
    if not kinds:
        read = replace(read, rows=tuple(("+I", values) for _, values in read.rows))
    return differs(frame, read, kind_column=KIND_COLUMN if kinds else None)


def check_different_answer(case: Case, read: Read, own: DifferentAnswer) -> str | None:
    """Return None when lakekit answers as `own` says, and the engine differently."""
    try:
        frame = run_read(case, read)
    except LakekitError as refused:
        return None if own.error is type(refused) and read.error is None else f"{type(refused).__name__}: {refused}"
    if read.error is None:
        return f"the engine does not refuse, and lakekit answers {frame.height} rows"
    if not set(own.columns) <= set(frame.columns):
        return f"columns {frame.columns}, not {own.columns}"
    actual = sorted(frame.select(cols(own.columns)).rows(), key=repr)
    return None if actual == sorted(own.rows, key=repr) else f"{actual}, not {own.rows}"


def check_out_of_range(case: Case, read: Read) -> str | None:
    """Return None when a read of one column that Polars cannot hold is refused by its name.

    Its nanoseconds must be readable when cut to microseconds.
    """
    [name], [t] = read.columns, read.types
    try:
        run_read(case, read)
    except ValueOutOfRange as refused:
        if refused.column != name:
            return f"{name} was asked for, and {refused.column} refused"
    else:
        return f"{name} holds values that Polars has no place for, and was not refused"
    if t.root == "TIME":
        return None
    frame = run_read(case, replace(read, options={**read.options, "lakekit.timestamp-unit": "us"}))
    kind_column = KIND_COLUMN if read.system is None and KIND_COLUMN in frame.columns else None
    cuts = (
        [(kind, tuple(_truncate_to_micros(value, parquet=parquet) for value in row)) for kind, row in read.rows]
        for parquet in (False, True)
    )
    wrong = [describe_difference(frame, replace(read, rows=tuple(rows)), kind_column=kind_column) for rows in cuts]
    return None if None in wrong else " · ".join(map(str, wrong))


def _truncate_to_micros(value: list[int] | None, *, parquet: bool) -> list[int] | None:
    """Return a time cut to microseconds.

    The engine's Parquet holds times before 1970 as a negative time of a day, which loses digits toward zero.
    """
    if value is None:
        return None
    of_day = (-1 if value[0] < 0 else 1) * (abs(value[0]) % _DAY_MS) if parquet else 0
    nanos = of_day * 1_000_000 + value[1] if parquet else value[0] * 1_000_000 + value[1]
    micros = (
        (-(-nanos // 1000) if nanos < 0 else nanos // 1000) + (value[0] - of_day) * 1000 if parquet else nanos // 1000
    )
    return [micros // 1000, micros % 1000 * 1000]


def run_read(case: Case, read: Read) -> pl.DataFrame:
    """Return the frame of a recorded read; of increments with their kinds."""
    table = lk.open(case.path, branch=read.branch, options=allowed_locations_option(case.allowed))
    options: dict[str, Any] = dict(read.options)
    columns: list[Any] = cols(read.columns) or [pl.all()]
    if read.system is not None:
        frame = table.system(read.system, options=options).select(columns).collect()
        return (
            frame.with_columns(pl.col("file_path").str.replace(case.path, "{table}", literal=True))
            if "file_path" in frame.columns
            else frame
        )
    if any(key.startswith(INCREMENTAL_PREFIX) for key in options):
        if is_difference(table, options):  # of states without deletes: the audit log compares states with them
            return table.scan(options=options).select(columns).collect()
        changed = table.system("audit_log", options=options)
        return changed.select(KIND_COLUMN, *columns).collect() if read.columns else changed.collect()
    return table.scan(options=options).select(columns).collect()


def is_difference(table: lk.Table, options: dict[str, Any]) -> bool:
    """Return whether options ask for the difference of two states."""
    if "incremental-to-auto-tag" in options or options.get("incremental-between-scan-mode") == "diff":
        return True
    names = set(table.tags()["tag"])
    return (
        set(options.get("incremental-between", "").split(",")) <= names
        and options.get("incremental-between-tag-to-snapshot") != "true"
    )


# ---- differences ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One input that the engine and lakekit treat differently.

    It says what each does, and why lakekit does not follow.
    """

    name: str
    input: str
    engine: str
    lakekit: str
    reason: str


KNOWN_DIFFERENCES = (
    Difference(
        name="bounds_of_nan",
        input="a FLOAT or DOUBLE column that holds NaN, in a file with statistics",
        engine="writes bounds with NaN as the greatest value",
        lakekit="writes no bounds for that column",
        reason="engines order NaN differently; without bounds no reader leaves out a file that it should read",
    ),
    Difference(
        name="bounds_of_zeros",
        input="a FLOAT or DOUBLE column whose least or greatest value is a zero, in a file with statistics",
        engine="writes the zero that the column holds as bound; of both in ORC, the one that comes first",
        lakekit="writes -0.0 as the least and 0.0 as the greatest",
        reason="a reader that puts -0.0 before 0.0 leaves out no file that holds the other zero",
    ),
    Difference(
        name="kinds_of_a_state",
        input="a stream that begins with a state (latest-full, compacted-full) of a key table whose keys were updated",
        engine="says +U for keys that were updated after they came, as the file says",
        lakekit="says +I for every row of the state",
        reason="a consumer that begins has no earlier version that a +U could replace; sinks count kinds rightly",
    ),
    Difference(
        name="orc_fractions_before_1970",
        input="a TIMESTAMP in the last second of 1969 with parts of a millisecond, written to ORC",
        engine="writes it, and reads it a second late",
        lakekit="refuses the row by name",
        reason="no form of ORC holds it such that the engine reads it right; other formats do",
    ),
    Difference(
        name="orc_zones_after_2037",
        input=(
            "an ORC file of a writer in Africa/Casablanca, Africa/El_Aaiun, Africa/Windhoek, Asia/Gaza or "
            "Asia/Hebron, moments after 2037"
        ),
        engine="takes the last rule of java.util.TimeZone, which knows no moving feasts",
        lakekit="takes the tz database, which lists them until 2086",
        reason="the wall clocks of a far future are a forecast in either; no writer has stored them yet",
    ),
    Difference(
        name="first_not_null_value",
        input="fields.<column>.aggregate-function = first_not_null_value at create",
        engine="keeps the older name",
        lakekit="keeps first_non_null_value, the newer name of the same function",
        reason="the released engine and all newer ones know the newer name",
    ),
    Difference(
        name="incremental_diff_with_fallback",
        input="incremental-between with scan mode diff on a table with scan.fallback-branch",
        engine="fails (ClassCastException)",
        lakekit="gives the difference of the branch itself",
        reason="there is no answer of the engine to follow",
    ),
    Difference(
        name="fallback_of_moved_columns",
        input="scan.fallback-branch names a branch that has the same columns, of one type, in another order",
        engine="pairs the columns by place, so that values of one stand in the other",
        lakekit="pairs the same columns, by their ids",
        reason=(
            "the order of columns says nothing about which is which; where the branches have other columns, lakekit "
            "pairs them by place too"
        ),
    ),
    Difference(
        name="options_of_exchanged_names",
        input=(
            "time travel to a snapshot from before two columns exchanged their names, one of which an option names, "
            "such as sequence.field"
        ),
        engine=(
            "applies today's option to the schema of then by name: the other column decides which version of a key wins"
        ),
        lakekit="follows the column by its id, so that the same column decides",
        reason="the rows of a snapshot do not change when a column is renamed later",
    ),
    Difference(
        name="max_buckets_of_partitions",
        input="dynamic-bucket.max-buckets on a table with partitions, several of which one writer fills",
        engine="makes no further bucket in any partition once one partition has used the last number",
        lakekit="counts the buckets of each partition",
        reason=(
            "what a partition holds does not depend on the partitions that were written before it; every key stays "
            "where its index says"
        ),
    ),
    Difference(
        name="buckets_of_pypaimon",
        input=(
            "a filter by the bucket key of a table with bucket-function.type mod or hive, whose rows pypaimon wrote: "
            "it places them by the default function"
        ),
        engine="looks in the bucket of the option's function alone, and does not find rows that a scan shows; "
        "writes a delete of such a key there, and the row stays",
        lakekit="looks in the buckets of both functions, and finds them; "
        "check(deep=True) says that rows are in another bucket; "
        "delete, update and merge of such rows of a key table are refused",
        reason="a filter would leave out rows that a scan shows; "
        "the check accepts any bucket for a row whose bucket key is null, "
        "because no reader chooses a bucket by a null, and the Python writers "
        "place nulls of TIMESTAMP(6) and DECIMAL(38) otherwise",
    ),
    Difference(
        name="uncounted_deletes",
        input="a bucket that is one file of level 0 with a row -D and _DELETE_ROW_COUNT = 0, as pypaimon 2.1.0 counts",
        engine="shows the deleted row until a second file comes to the bucket, whatever its keys",
        lakekit="goes by the kinds of the rows, and does not show it",
        reason=(
            "files of other keys do not decide whether a row is deleted; the engine reads the kinds as soon as it "
            "merges"
        ),
    ),
    Difference(
        name="nanoseconds_in_parquet",
        input=(
            "a TIMESTAMP(7) to TIMESTAMP(9) in Parquet as whole numbers of nanoseconds, as pypaimon and pypaimon-rust "
            "write it"
        ),
        engine="takes nanoseconds for milliseconds: 2024 becomes a year beyond 50,000,000",
        lakekit="reads the unit that the file names, as both writers do",
        reason="the file says which moment it is; the engine writes such columns as INT96, and reads those right",
    ),
    Difference(
        name="comment_of_null",
        input='"comment": null in a schema file, as Python writers leave it',
        engine="says the text null in $schemas",
        lakekit="says a null",
        reason="there is no comment; a comment that is the text null stays one",
    ),
)
