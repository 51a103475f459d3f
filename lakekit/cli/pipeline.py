"""The pipeline verb of the command line, which is the only one that starts Spark.

    lakekit pipeline check CONFIG        what a sample of the source would make: tables, columns, keys, problems
    lakekit pipeline run CONFIG [--once] batches into tables until stopped; --once: what is there now
    lakekit pipeline status CONFIG       how far each table is; starts no Spark

CONFIG is a TOML file: see `lakekit.spark.pipeline.configuration`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit import plugins
from lakekit.errors import LakekitError

if TYPE_CHECKING:
    import argparse

    from lakekit.cli.output import Output

ACTIONS = ("check", "run", "status")


def add_verbs(verbs: Any, output_parent: argparse.ArgumentParser) -> None:
    """Add the verb to the parser."""
    verb = verbs.add_parser("pipeline", parents=[output_parent], help="change events into tables, by Spark")
    verb.add_argument("action", metavar="ACTION", choices=ACTIONS, help=", ".join(ACTIONS))
    verb.add_argument("config", metavar="CONFIG", help="the configuration, a TOML file")
    verb.add_argument("--once", action="store_true", help="of run: end when all that is there now is through")
    verb.add_argument("--master", help="the master of Spark, as local[2]; what Spark itself takes unless given")
    verb.set_defaults(run=run_pipeline)


def run_pipeline(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit pipeline check | run | status CONFIG`: print a frame, and of a run a line for each batch."""
    reader: Any = plugins.load("spark/pipeline", "configuration")
    configuration = reader.read_configuration(args.config)
    if args.action == "status":
        state: Any = plugins.load("spark/pipeline", "pipeline-state")
        out.print_frame(state.status(configuration))
        return
    session: Any = plugins.load("spark", "session")
    spark = session.start(args.master, config={"spark.ui.showConsoleProgress": "false"})
    try:
        _use_spark(spark, configuration, args, out)
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        # Spark's own trace of Java frames is for its logs
        raise LakekitError(f"Spark ended the pipeline: {str(error).splitlines()[0][:500]}") from error
    finally:
        spark.stop()


def _use_spark(spark: Any, configuration: Any, args: argparse.Namespace, out: Output) -> None:
    ingestion: Any = plugins.load("spark/pipeline", "ingestion")
    spark.sparkContext.setLogLevel("ERROR")
    if args.action == "check":
        out.print_frame(ingestion.check(spark, configuration))
    else:
        out.print_frame(ingestion.run(spark, configuration, once=args.once, say=out.print_text))
