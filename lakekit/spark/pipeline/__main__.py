"""Run the pipeline from the command line.

spark-submit "$(python -m lakekit.spark.pipeline --script)" --root lake            the example of flights
spark-submit "$(python -m lakekit.spark.pipeline --script)" --config orders.toml   one's own data: `ingestion`
python -m lakekit.spark.pipeline --root lake
"""

from __future__ import annotations

import argparse
import sys
from datetime import date

from lakekit.errors import LakekitError
from lakekit.spark.pipeline import ingestion
from lakekit.spark.pipeline.configuration import read_configuration
from lakekit.spark.pipeline.events import FIRST_DAY, EventSelection
from lakekit.spark.pipeline.stages import run
from lakekit.spark.session import start


def main(argv: list[str] | None = None) -> int:
    """Run the pipeline and print its totals; return the exit code.

    0: the totals are those of the files, 1: they are not, 2: the pipeline could not run.
    """
    arguments = _arguments().parse_args(argv)
    if arguments.script:
        print(__file__)
        return 0
    if arguments.config is not None:
        return _ingest(arguments.config, once=arguments.once)
    if arguments.root is None:
        print("pipeline: --root says where the tables are, or shall be; --config is a pipeline's file", file=sys.stderr)
        return 2
    try:
        feed = EventSelection(first_day=arguments.first, days=arguments.days, flights_per_day=arguments.flights)
        spark = start(config={"spark.ui.showConsoleProgress": "false"})
        spark.sparkContext.setLogLevel("WARN")  # spark-submit tells every task otherwise
        totals = run(spark, arguments.root, feed, say=lambda text: print(text, flush=True))
    except LakekitError as error:
        print(f"pipeline: {error}", file=sys.stderr)
        return 2
    print(totals)
    return 0 if totals.agree else 1


def _ingest(path: str, *, once: bool) -> int:
    """Run the pipeline of a configuration; return the exit code: 0, or 2 where it could not go on."""
    try:
        configuration = read_configuration(path)
        spark = start(config={"spark.ui.showConsoleProgress": "false"})
        spark.sparkContext.setLogLevel("WARN")
        print(ingestion.run(spark, configuration, once=once, say=lambda text: print(text, flush=True)))
    except LakekitError as error:
        print(f"pipeline: {error}", file=sys.stderr)
        return 2
    return 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lakekit.spark.pipeline",
        description="Change events of flights through bronze, silver and gold tables. Started again, it goes on.",
    )
    parser.add_argument("--root", help="the folder of the landing files and the tables, which every executor sees")
    parser.add_argument("--days", type=int, default=7, help="how many days of flights land (7)")
    parser.add_argument(
        "--from",
        dest="first",
        type=date.fromisoformat,
        default=FIRST_DAY,
        metavar="DAY",
        help=f"the first of them ({FIRST_DAY})",
    )
    parser.add_argument("--flights", type=int, help="how many flights a day at most (all)")
    parser.add_argument("--config", metavar="FILE", help="run the pipeline that this file configures, and no flights")
    parser.add_argument("--once", action="store_true", help="with --config: end when all that is there now is through")
    parser.add_argument("--script", action="store_true", help="print the file that spark-submit takes, and end")
    return parser


if __name__ == "__main__":
    sys.exit(main())
