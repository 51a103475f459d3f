"""The deliberate differences between lakekit and the Java engine 1.4.2: one list, which tests read.

    for one in DIFFERENCES: print(one.name, one.engine, one.lakekit, one.reason)

Each difference has a test in the repository, `spec_tests/differential/test_differences.py`, that makes the input, runs
the engine and lakekit, and compares both answers with this list. Recorded reads that differ are
`testing.recorded_reads.DIFFERENT_ANSWERS`.
"""

from __future__ import annotations

from dataclasses import dataclass


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


DIFFERENCES = (
    Difference(
        name="bounds_of_nan",
        input="a FLOAT or DOUBLE column that holds NaN, in a file with statistics",
        engine="writes bounds with NaN as the greatest value",
        lakekit="writes no bounds for that column",
        reason="engines order NaN differently; without bounds no reader leaves out a file that it should read",
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
        input="a TIMESTAMP before 1970 with parts of a millisecond, written to ORC",
        engine="writes it, and reads those of the last second of 1969 a second late",
        lakekit="refuses the row by name",
        reason="Arrow's writer stores it in a form that the engine cannot read; other formats hold it",
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
