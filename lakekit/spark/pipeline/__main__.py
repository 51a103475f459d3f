"""The pipeline as a program: `spark-submit "$(python -m lakekit.spark.pipeline --script)" --root lake`, or `python -m lakekit.spark.pipeline --root lake`."""

from __future__ import annotations

import argparse
import sys
from datetime import date

from lakekit.errors import LakekitError
from lakekit.spark.pipeline.events import FIRST_DAY, Feed
from lakekit.spark.pipeline.stages import run
from lakekit.spark.session import start


def main(words: list[str] | None = None) -> int:
    """Runs the pipeline and prints its totals; 0 where they are those of the files, 1 where they are not, 2 where it could not run."""
    said = _arguments().parse_args(words)
    if said.script:
        print(__file__)
        return 0
    if said.root is None:
        print("pipeline: --root says where the tables are, or shall be", file=sys.stderr)
        return 2
    try:
        feed = Feed(first=said.first, days=said.days, flights=said.flights)
        spark = start(config={"spark.ui.showConsoleProgress": "false"})
        spark.sparkContext.setLogLevel("WARN")  # spark-submit tells every task otherwise
        found = run(spark, said.root, feed, say=lambda text: print(text, flush=True))
    except LakekitError as error:
        print(f"pipeline: {error}", file=sys.stderr)
        return 2
    print(found)
    return 0 if found.agree else 1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lakekit.spark.pipeline", description="Change events of flights through bronze, silver and gold tables. Started again, it goes on."
    )
    parser.add_argument("--root", help="the folder of the landing files and the tables, which every executor sees")
    parser.add_argument("--days", type=int, default=7, help="how many days of flights land (7)")
    parser.add_argument("--from", dest="first", type=date.fromisoformat, default=FIRST_DAY, metavar="DAY", help=f"the first of them ({FIRST_DAY})")
    parser.add_argument("--flights", type=int, help="how many flights a day at most (all)")
    parser.add_argument("--script", action="store_true", help="print the file that spark-submit takes, and end")
    return parser


if __name__ == "__main__":
    sys.exit(main())
