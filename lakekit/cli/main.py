"""The command line: `lakekit VERB PATH [NOUN] …`. Each verb prints what a public method returns.

    lakekit demo                                         a table of real flights: card, snapshots, levels, a query,
                                                         what it need not read
    lakekit inspect PATH                                 schema, keys, snapshot, files per level, health
    lakekit inspect PATH snapshots | files | levels | …  the metadata as tables
    lakekit plan PATH --where "day = '2024-03-31'"       what a query would not have to read
    lakekit check PATH [--deep]                          whether all files exist, undamaged and as recorded
    lakekit browse PATH -o page.html                     snapshots, manifests and levels as one page to click
    lakekit hex FILE                                     every byte of a snapshot, manifest, index … with its field
    lakekit features [WORD]                              what lakekit does, and what it refuses
    lakekit conformance [--reader …] [--writer …]        another reader or writer against golden tables:
                                                         see `cli.conformance`
    lakekit bench PATH | --size ROWS                     the time of reads, against plain Polars over the same files
    lakekit compact | expire | tag | branch | rollback | orphans | analyze | rewrite-index PATH …
                                                         maintenance: see `cli.maintenance`
    lakekit sql WAREHOUSE -e "USE shop; SELECT …" | -f FILE
                                                         statements in one session, each answer shown; `--files` lets
                                                         queries read files
    lakekit pipeline check | run | status CONFIG         change events into tables by Spark: see `cli.pipeline`
    lakekit clone | migrate | compact-database | maintain | repair WAREHOUSE …
                                                         the same of a catalog's tables

A terminal gets tables cut to its width, a pipe gets TSV with a header and full values; `--format` chooses. Errors go to
stderr. Exit codes: 0 fine, 1 a problem was found, 2 wrong usage, 3 no such table.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import io
import os
import sys
from typing import TYPE_CHECKING, Any

import lakekit
from lakekit import plugins
from lakekit.cli import conformance, maintenance, pipeline
from lakekit.cli.output import EXIT_INTERRUPTED, EXIT_NO_TABLE, EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, INSPECT_NOUNS, Output
from lakekit.draw import humanize
from lakekit.errors import InvalidOption, LakekitError, TableNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_GC_THRESHOLD = 200_000
"""How many objects are made between two looks for garbage."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Never raises but for what is a bug in lakekit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal of another encoding gets question marks, not a traceback
    if arguments is None:
        _collect_garbage_seldom()
    parser = _build_parser()
    args = parser.parse_args(arguments)
    if args.run is None:
        parser.print_help()
        return EXIT_USAGE
    if arguments is None and args.run not in (
        conformance.conformance,
        pipeline.run_pipeline,
    ):  # which run other readers, and Spark
        sys.meta_path.insert(0, _PandasFinder())
    try:
        code: int = args.run(args, Output(args)) or EXIT_OK
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except TableNotFound as error:
        return _print_error(error, EXIT_NO_TABLE)
    except InvalidOption as error:
        return _print_error(error, EXIT_USAGE)
    except LakekitError as error:
        return _print_error(error, EXIT_PROBLEM)
    # a panic over a damaged page too, where Polars' own error is an error of the program
    except _polars_errors() as error:
        if "KeyboardInterrupt" in str(error) and not isinstance(error, Exception):  # what it panicked over
            raise KeyboardInterrupt from error
        return _print_error(error, EXIT_PROBLEM)
    return code


def _collect_garbage_seldom() -> None:
    """Look for garbage seldom in a process that runs one verb, and not at all when the process ends.

    What is loaded stays until the end; looking at it took a fifth of the time of a short command.
    """
    gc.set_threshold(_GC_THRESHOLD, 20, 20)
    atexit.register(gc.freeze)


class _PandasFinder:
    """A finder of modules by which pandas is not installed.

    pyarrow imports pandas with its first array, where it is installed: a quarter of the time of a short command, for
    nothing that a verb needs. None in `sys.modules` would do the same, but Polars takes it for pandas.
    """

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:  # noqa: ARG002 - Python calls it so
        if fullname == "pandas":
            raise ModuleNotFoundError("the command line of lakekit runs without pandas", name=fullname)


def _polars_errors() -> tuple[type[BaseException], ...]:
    """Return the errors of Polars, none where no verb has loaded it."""
    polars = sys.modules.get("polars")
    return () if polars is None else (polars.exceptions.PolarsError, polars.exceptions.PanicException)


def _print_error(error: BaseException, code: int) -> int:
    """Print an error and return the exit code: all lines of a `LakekitError`, the first line of any other."""
    lines = str(error).splitlines() or [type(error).__name__]
    shown = lines if isinstance(error, LakekitError) else lines[:1]
    print("lakekit: " + "\n".join(map(humanize.escape_controls, shown)), file=sys.stderr)
    return code


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lakekit", description="Apache Paimon tables, without a JVM.")
    parser.add_argument("--version", action="version", version=f"lakekit {lakekit.__version__}")
    parser.set_defaults(run=None)
    verbs = parser.add_subparsers(title="verbs", metavar="VERB")
    shape, store = _output_arguments(), _store_arguments()
    _add_table_verbs(verbs, store, shape)
    _add_file_verbs(verbs, store, shape)
    maintenance.add_verbs(verbs, store, shape, _parse_positive)
    conformance.add_verbs(verbs, store, shape, _parse_positive)
    pipeline.add_verbs(verbs, shape)
    verb = verbs.add_parser("features", parents=[shape], help="what lakekit reads and writes, and what it refuses")
    verb.add_argument("word", metavar="WORD", nargs="?", help="only features whose name, area or state holds this word")
    verb.set_defaults(run=_load_inspection_verb("show_features"))
    verb = verbs.add_parser("versions", parents=[shape], help="what lakekit runs on")
    verb.set_defaults(run=_load_inspection_verb("show_versions"))
    return parser


def _output_arguments() -> argparse.ArgumentParser:
    shape = argparse.ArgumentParser(add_help=False)
    shape.add_argument(
        "--format", choices=("table", "tsv", "json", "csv"), help="table to a person, tsv to a pipe, unless chosen here"
    )
    shape.add_argument("--limit", type=_parse_positive, help="rows of a table; 50 to a person, all to a pipe")
    shape.add_argument("--color", choices=("auto", "never"), default="auto", help="NO_COLOR is honoured too")
    return shape


def _store_arguments() -> argparse.ArgumentParser:
    store = argparse.ArgumentParser(add_help=False)
    help_text = (
        "an option of an object store, such as s3.endpoint=http://localhost:9000; secrets are better set in the "
        "environment, as AWS_SECRET_ACCESS_KEY"
    )
    store.add_argument(
        "--storage", metavar="KEY=VALUE", type=_parse_option, action="append", default=[], help=help_text
    )
    help_text = (
        "a folder or URL outside its own folder that a table may use; a table's own word for it is not enough. May be "
        "given again"
    )
    store.add_argument("--allow", metavar="LOCATION", action="append", default=[], help=help_text)
    return store


def _add_table_verbs(verbs: Any, store_parent: argparse.ArgumentParser, output_parent: argparse.ArgumentParser) -> None:
    table_arguments = argparse.ArgumentParser(add_help=False, parents=[store_parent])
    table_arguments.add_argument("path", metavar="PATH", help="the folder of a table")
    table_arguments.add_argument("--at", help="a snapshot's number, a tag, or a time")
    table_arguments.add_argument("--branch", help="another branch than main")
    verb = verbs.add_parser("demo", parents=[output_parent], help="the main job on a table of real flights")
    verb.set_defaults(run=_load_inspection_verb("demo"))
    verb = verbs.add_parser(
        "inspect", parents=[table_arguments, output_parent], help="a table's card, or its metadata as a table"
    )
    verb.add_argument("noun", metavar="NOUN", nargs="?", choices=INSPECT_NOUNS, help=", ".join(INSPECT_NOUNS))
    verb.set_defaults(run=_load_inspection_verb("inspect"))
    verb = verbs.add_parser(
        "plan", parents=[table_arguments, output_parent], help="what a query would not have to read"
    )
    verb.add_argument("--where", help="a condition in SQL")
    verb.set_defaults(run=_load_inspection_verb("plan"))
    verb = verbs.add_parser(
        "check",
        parents=[store_parent, output_parent],
        help="whether everything is there, whole and as it is said to be",
    )
    verb.add_argument("path", metavar="PATH", help="the folder of a table")
    verb.add_argument("--branch", help="another branch than main")
    verb.add_argument("--deep", action="store_true", help="read the rows too")
    verb.set_defaults(run=_load_inspection_verb("check"))


def _add_file_verbs(verbs: Any, store_parent: argparse.ArgumentParser, output_parent: argparse.ArgumentParser) -> None:
    verb = verbs.add_parser(
        "browse", parents=[store_parent, output_parent], help="a page to click: snapshots, manifests, levels"
    )
    verb.add_argument("path", metavar="PATH", help="the folder of a table")
    verb.add_argument("--branch", help="another branch than main")
    verb.add_argument(
        "-o", "--output", metavar="FILE", help="where the page goes; the table's name and .html unless given"
    )
    verb.add_argument(
        "--snapshots", type=_parse_positive, help="how many of the newest snapshots are in the page at most"
    )
    verb.set_defaults(run=_load_inspection_verb("browse"))
    verb = verbs.add_parser("hex", parents=[store_parent, output_parent], help="every byte of a file with its field")
    verb.add_argument("path", metavar="PATH", help="a file of a table, or any file in one of its formats")
    verb.add_argument(
        "--as",
        dest="what",
        help="the format, where name and bytes do not tell it, such as 'binary_row: ROW<id BIGINT>'",
    )
    verb.add_argument("--offset", type=_parse_non_negative, default=0, help="the first byte to show")
    verb.add_argument(
        "--open", type=_parse_non_negative, help="show the inflated bytes of the compressed block over this byte"
    )
    verb.set_defaults(run=_load_inspection_verb("show_hex"))


def _load_inspection_verb(verb: str) -> Callable[[argparse.Namespace, Output], int | None]:
    """Return a function that runs a verb of `cli.inspection`, which is loaded then."""

    def run(arguments: argparse.Namespace, out: Output) -> int | None:
        verbs: Any = plugins.load("cli", "inspection")
        code: int | None = getattr(verbs, verb)(arguments, out)
        return code

    return run


def _parse_non_negative(text: str) -> int:
    number = _parse_number(text, 0)
    if number < 0:
        raise argparse.ArgumentTypeError("at least 0")
    return number


def _parse_number(text: str, base: int = 10) -> int:
    try:
        return int(text, base)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a whole number, not {text[:40]!r}") from None


def _parse_option(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError("a storage option is KEY=VALUE")
    return key, value


def _parse_positive(text: str) -> int:
    number = _parse_number(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
