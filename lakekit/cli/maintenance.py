r"""The maintenance verbs of the command line.

    lakekit compact PATH [--full] [--where "dt = '…'"] [--order-by a,b]      merge files
    lakekit expire PATH snapshots | changelogs | tags | consumers | partitions [--dry-run]
    lakekit tag PATH create | replace | delete | rename NAME …               names for snapshots
    lakekit tag PATH list | automatic [--force]                              existing ones, and those due by the clock
    lakekit branch PATH list | create | delete | rename | forward NAME …     other lines of the table's history
    lakekit rollback PATH SNAPSHOT | TAG | TIME | --watermark MS [--dry-run] back to an older state
    lakekit orphans PATH [--older-than "3 d"] [--delete]                     files that nothing refers to
    lakekit analyze PATH [--columns a,b]                                     statistics for query engines
    lakekit rewrite-index PATH [--where …] [--rebuild] [--dry-run]              file indexes as the options say
    lakekit sql WAREHOUSE "SELECT … FROM shop.orders"                        statements over a catalog's tables,
                                                                             also from a pipe
    lakekit clone WAREHOUSE NAME NEW [--at …]                                a table copied:
                                                                             lakekit clone house shop.orders test.orders
    lakekit migrate WAREHOUSE SOURCE NAME [--move]                           files taken over:
                                                                             lakekit migrate house /data/o shop.orders
    lakekit compact-database WAREHOUSE [--tables "shop\..*"] [--full]        files of many tables merged
    lakekit maintain WAREHOUSE [NAME] [--dry-run]                            what is due: stale materialized tables
                                                                             refreshed, old snapshots expired
    lakekit repair WAREHOUSE [NAME] --metastore jdbc --uri …                 register existing tables in a metastore

Each calls the public method of that name and prints its result. Nothing is deleted with `--dry-run`, and by `orphans`
not without `--delete`.
"""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakekit
from lakekit.draw import humanize
from lakekit.errors import InvalidOption
from lakekit.maintenance.arguments import duration_ms
from lakekit.model.table_paths import allowed_locations_option
from lakekit.storage.object_store_requests import typed_refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

    from lakekit.catalog.catalog import Catalog
    from lakekit.cli.output import Output
    from lakekit.table import Table

    Run = Callable[[argparse.Namespace, Output], None]
    AddVerb = Callable[[str, Run, str], Any]

EXPIRE_TARGETS = ("snapshots", "changelogs", "tags", "consumers", "partitions")
_SORT_STRATEGIES = ("order", "zorder", "hilbert")
_TAG_ACTIONS = ("list", "create", "replace", "delete", "rename", "automatic")
_BRANCH_ACTIONS = ("list", "create", "delete", "rename", "forward")
_TAG_FLAGS = {
    "at": ("create", "replace"),
    "since": ("create",),
    "watermark": ("create",),
    "retain": ("create", "replace"),
    "force": ("automatic",),
    "dry_run": ("delete", "replace"),
}
"""Which actions heed a flag."""
_BRANCH_FLAGS = {"tag": ("create",), "dry_run": ("delete", "forward")}
_MAX_SHOWN_ROWS = 50
"""The rows of a query that a terminal shows, unless `--limit` says otherwise."""
_IDLE_HELP = 'only partitions that got no file for so long, as "1 d"'
_WHERE_HELP = "a condition in SQL on partition columns"


def add_verbs(
    verbs: Any,
    store_parent: argparse.ArgumentParser,
    output_parent: argparse.ArgumentParser,
    positive: Callable[[str], int],
) -> None:
    """Add the verbs to the parser."""

    def verb(name: str, run: Run, help_text: str) -> Any:
        parser = verbs.add_parser(name, parents=[store_parent, output_parent], help=help_text)
        parser.add_argument("path", metavar="PATH", help="the folder of a table")
        parser.add_argument("--branch", help="another branch than main")
        parser.set_defaults(run=run)
        return parser

    _add_compact(verb)
    _add_expire(verb, positive)
    _add_tag(verb)
    _add_branch(verb)
    _add_rollback_orphans(verb)
    _add_analyze_indexes(verb)
    _add_catalog_verbs(verbs, store_parent, output_parent)


def _add_compact(verb: AddVerb) -> None:
    added = verb("compact", compact, "merge files: what the levels ask for, everything, or sorted")
    added.add_argument("--full", action="store_true", help="every bucket to its highest level")
    added.add_argument("--where", help=_WHERE_HELP)
    added.add_argument("--order-by", metavar="COLUMNS", type=_split_names, help="sort the rows by columns, a,b")
    added.add_argument("--strategy", choices=_SORT_STRATEGIES, default="order", help="how several columns are sorted")
    added.add_argument("--idle", metavar="AGE", type=_parse_age, help=_IDLE_HELP)


def _add_expire(verb: AddVerb, positive: Callable[[str], int]) -> None:
    added = verb("expire", expire, "remove what is old: snapshots, changelogs, tags, consumers or partitions")
    added.add_argument("what", metavar="WHAT", choices=EXPIRE_TARGETS, help=", ".join(EXPIRE_TARGETS))
    added.add_argument("--retain-max", type=positive, metavar="N", help="of snapshots and changelogs: keep no more")
    added.add_argument("--retain-min", type=positive, metavar="N", help="of snapshots and changelogs: keep the newest")
    added.add_argument(
        "--older-than",
        metavar="TIME",
        help='of snapshots, changelogs and tags: those made before go; or an age, as "7 d"',
    )
    added.add_argument(
        "--expiration", metavar="AGE", type=_parse_age, help='of consumers and partitions: how old they get, as "7 d"'
    )
    added.add_argument(
        "--including",
        metavar="REGEX",
        help="of consumers: those whose whole ids match, of any age unless --expiration is given",
    )
    added.add_argument("--excluding", metavar="REGEX", help="of consumers: but those")
    added.add_argument("--dry-run", action="store_true", help="tell what would go")


def _add_tag(verb: AddVerb) -> None:
    added = verb("tag", tag, "name snapshots, and keep them")
    added.add_argument("action", metavar="ACTION", choices=_TAG_ACTIONS, help=", ".join(_TAG_ACTIONS))
    added.add_argument("name", metavar="NAME", nargs="?", help="of all but list and automatic: the tag")
    added.add_argument("new", metavar="NEW", nargs="?", help="of rename: the new name")
    added.add_argument(
        "--at", help="of create and replace: a snapshot's number or a time; the newest snapshot unless given"
    )
    added.add_argument("--since", metavar="TIME", help="of create: the first snapshot made then or later")
    added.add_argument(
        "--watermark", metavar="MS", type=int, help="of create: the first snapshot whose watermark is as far"
    )
    added.add_argument(
        "--force",
        action="store_true",
        help="of automatic: commit an empty snapshot where a tag is due and nothing was written",
    )
    added.add_argument(
        "--retain", metavar="AGE", type=_parse_age, help='of create and replace: how long the tag is kept, as "30 d"'
    )
    added.add_argument("--dry-run", action="store_true", help="of delete and replace: tell what would go")


def _add_branch(verb: AddVerb) -> None:
    added = verb("branch", branch, "make, remove, rename a branch, or let main follow it")
    added.add_argument(
        "action",
        metavar="ACTION",
        type=_normalize_action,
        choices=_BRANCH_ACTIONS,
        help=", ".join(_BRANCH_ACTIONS) + " (or fast-forward)",
    )
    added.add_argument("name", metavar="NAME", nargs="?", help="of all but list: the branch")
    added.add_argument("new", metavar="NEW", nargs="?", help="of rename: the new name")
    added.add_argument("--tag", help="of create: the tag it begins with; empty unless given")
    added.add_argument("--dry-run", action="store_true", help="of delete and forward: tell what would go")


def _add_rollback_orphans(verb: AddVerb) -> None:
    added = verb("rollback", rollback, "go back to a snapshot, a tag or a time")
    added.add_argument("to", metavar="TO", nargs="?", help="a snapshot's number, a tag, or a time")
    added.add_argument("--watermark", metavar="MS", type=int, help="the newest snapshot whose watermark is not further")
    added.add_argument("--dry-run", action="store_true", help="tell what would go")
    added = verb("orphans", orphans, "files that nothing refers to: what writers left that died")
    added.add_argument(
        "--older-than",
        metavar="AGE",
        type=_parse_age,
        help='files younger than this are left alone; "1 d" unless given',
    )
    added.add_argument("--delete", action="store_true", help="remove them")
    added.add_argument(
        "--external", action="store_true", help="look at external roots too, where no other table has files"
    )
    added.add_argument("--dry-run", action="store_true", help="only tell; so it is without --delete too")


def _add_analyze_indexes(verb: AddVerb) -> None:
    added = verb("analyze", analyze, "statistics of the rows, in a snapshot of their own")
    added.add_argument("--columns", type=_split_names, metavar="COLUMNS", help="a,b; all unless given")
    added = verb("rewrite-index", rewrite_index, "file indexes of files that are there, as the options say")
    added.add_argument("--where", help=_WHERE_HELP)
    added.add_argument(
        "--rebuild", action="store_true", help="also those that are there, as after a change of their own options"
    )
    added.add_argument("--dry-run", action="store_true", help="tell which files would get which indexes")


def _add_catalog_verbs(
    verbs: Any, store_parent: argparse.ArgumentParser, output_parent: argparse.ArgumentParser
) -> None:
    def verb(name: str, run: Callable[[argparse.Namespace, Output], int | None], help_text: str) -> Any:
        parser = verbs.add_parser(name, parents=[store_parent, output_parent], help=help_text)
        parser.add_argument("warehouse", metavar="WAREHOUSE", help="the folder of a catalog")
        parser.add_argument(
            "--metastore",
            default="filesystem",
            choices=("filesystem", "jdbc", "hive"),
            help="what knows the names; folders unless given",
        )
        parser.add_argument("--uri", help="where the metastore is")
        parser.set_defaults(run=run)
        return parser

    _add_sql_arguments(verb("sql", sql, "statements over the tables of a catalog: queries, changes, definitions, CALL"))
    added = verb("clone", clone, "copy a table: schemas, options and the files of a snapshot")
    added.add_argument("name", metavar="NAME", help="the table, db.t")
    added.add_argument("new", metavar="NEW", help="the copy, db.u")
    added.add_argument("--at", help="a snapshot's number, a tag or a time; the newest snapshot unless given")
    added = verb("migrate", migrate, "take over Parquet, ORC or Avro files of a folder, as they are, as a table")
    added.add_argument("source", metavar="SOURCE", help="the folder, or the name of a format table")
    added.add_argument("name", metavar="NAME", help="the table to come, db.t")
    added.add_argument(
        "--move", action="store_true", help="take the files away from the source, once the table is there"
    )
    added.add_argument(
        "--partition-types",
        metavar="TYPES",
        type=_split_names,
        default=[],
        help="types of partition columns that are not to be guessed, dt=STRING,n=INT",
    )
    added = verb("compact-database", compact_database, "merge files of many tables; ends with 1 where one failed")
    for name, help_text in (
        ("databases", "of databases"),
        ("tables", "of tables with their databases, db.t"),
        ("excluding", "of tables to be left out"),
    ):
        added.add_argument(f"--{name}", metavar="PATTERN", help=f"a regular expression of whole names {help_text}")
    added.add_argument("--full", action="store_true", help="every bucket to its highest level")
    added.add_argument("--idle", metavar="AGE", type=_parse_age, help=_IDLE_HELP)
    added = verb(
        "maintain",
        maintain,
        "do what is due: refresh materialized tables, make tags, expire; ends with 1 where one failed",
    )
    added.add_argument("name", metavar="NAME", nargs="?", help="a database or a table, db.t; everything unless given")
    added.add_argument("--dry-run", action="store_true", help="tell what is due")
    added = verb(
        "repair", repair, "make tables that lie in the warehouse known to the metastore; ends with 1 where one failed"
    )
    added.add_argument("name", metavar="NAME", nargs="?", help="a database or a table, db.t; everything unless given")


def _add_sql_arguments(added: argparse.ArgumentParser) -> None:
    added.add_argument(
        "text", metavar="STATEMENTS", nargs="?", help="semicolons between them; standard input unless given"
    )
    added.add_argument(
        "-e", "--execute", metavar="STATEMENTS", action="append", default=[], help="statements too; may be repeated"
    )
    added.add_argument(
        "-f", "--file", metavar="FILE", action="append", default=[], help="a file of statements, after those of -e"
    )
    added.add_argument("--files", action="store_true", help="let queries read files, as read_csv('…') does")
    added.add_argument(
        "--dialect", choices=("lakekit", "spark"), default="lakekit", help="whose SQL the statements are"
    )


def _parse_age(text: str) -> str:
    """Return an age as typed, which must have a unit.

    A number alone is refused: in options it means milliseconds, but an age typed for a deletion hardly does.
    """
    if text.strip().isdecimal():
        message = f"{text!r} has no unit: write '{text.strip()} d', or h, min, s"
        raise argparse.ArgumentTypeError(message)
    return text


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _open(args: argparse.Namespace) -> Table:
    return lakekit.open(
        args.path,
        branch=args.branch,
        options=allowed_locations_option(args.allow),
        storage_options=dict(args.storage) or None,
    )


def _print_result(out: Output, result: Any) -> None:
    """Print a card to a terminal, its facts to a pipe."""
    if out.format == "table":
        out.print_text(str(result))
        return
    names = [name for name in type(result).__dataclass_fields__ if not name.startswith("_")]
    out.print_rows(names, [[_tuple_to_list(getattr(result, name)) for name in names]])


def _tuple_to_list(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def compact(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit compact PATH`."""
    _print_result(
        out,
        _open(args).compact(
            full=args.full, where=args.where, order_by=args.order_by, strategy=args.strategy, idle=args.idle
        ),
    )


def expire(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit expire PATH WHAT`."""
    allowed: dict[str, Sequence[str]] = {
        "snapshots": ("retain_max", "retain_min", "older_than"),
        "changelogs": ("retain_max", "retain_min", "older_than"),
        "tags": ("older_than",),
        "consumers": ("expiration", "including", "excluding"),
        "partitions": ("expiration",),
    }
    options = {
        name: value
        for name in ("retain_max", "retain_min", "older_than", "expiration", "including", "excluding")
        if (value := getattr(args, name)) is not None
    }
    for name, value in options.items():
        if name not in allowed[args.what]:
            flag, *others = (f"--{option.replace('_', '-')}" for option in (name, *allowed[args.what]))
            raise InvalidOption(
                f"{flag} does not go with {args.what}, which take {', '.join(others)}", key=flag, value=str(value)
            )
    _print_result(out, getattr(_open(args), f"expire_{args.what}")(**options, dry_run=args.dry_run))


def _print_sentence(out: Output, text: str) -> None:
    """Print a sentence, to a terminal only: a pipe has the exit code."""
    if out.format == "table":
        out.print_text(text)


def _check_name(args: argparse.Namespace, noun: str, nameless_actions: Sequence[str]) -> None:
    """Raise `InvalidOption` where a name is missing, or is given to an action that needs none."""
    if (args.name is None) != (args.action in nameless_actions):
        problem = f"needs the name of a {noun}" if args.name is None else f"takes no name such as {args.name!r}"
        raise InvalidOption(f"{args.action} {problem}", key="NAME", value=str(args.name))


def _check_new_name(args: argparse.Namespace) -> str:
    if (args.new is None) == (args.action == "rename"):
        what = "needs a new name" if args.new is None else f"{args.action} takes one name, not {args.new!r} too"
        raise InvalidOption(f"{args.action} {args.name}: {what}", key="NEW", value=str(args.new))
    return str(args.new)


def _check_flags(args: argparse.Namespace, allowed: Mapping[str, Sequence[str]]) -> None:
    """Raise `InvalidOption` for a flag that the action ignores, such as `--dry-run`.

    An ignored `--dry-run` would do what it promises not to.
    """
    for name, actions in allowed.items():
        value = getattr(args, name)
        if value not in (None, False) and args.action not in actions:
            flag = f"--{name.replace('_', '-')}"
            raise InvalidOption(
                f"{flag} goes with {' and '.join(actions)}, not with {args.action}", key=flag, value=str(value)
            )


def tag(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit tag PATH ACTION NAME`."""
    table = _open(args)
    _check_name(args, "tag", ("list", "automatic"))
    _check_flags(args, _TAG_FLAGS)
    if args.action == "list":
        out.print_frame(table.tags())
        return
    if args.action == "automatic":
        out.print_rows(["tag"], [[name] for name in table.create_automatic_tags(force=args.force)])
        return
    new = _check_new_name(args)
    match args.action:
        case "create":
            table.create_tag(args.name, at=args.at, since=args.since, watermark=args.watermark, retain=args.retain)
        case "replace":
            expired = table.replace_tag(args.name, at=args.at, retain=args.retain, dry_run=args.dry_run)
            if not args.dry_run:
                _print_sentence(out, f"{table.name} · tag {args.name}: replaced")
            _print_result(out, expired)
            return
        case "delete":
            _print_result(out, table.delete_tag(args.name, dry_run=args.dry_run))
            return
        case "rename":
            table.rename_tag(args.name, new)
    _print_sentence(out, f"{table.name} · tag {args.name}: {args.action}d" + (f" to {new}" if args.new else ""))


def _normalize_action(action: str) -> str:
    """Return the action of a branch command as in the name of its method."""
    return "forward" if action == "fast-forward" else action


def branch(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit branch PATH ACTION NAME`."""
    table = _open(args)
    _check_name(args, "branch", ("list",))
    _check_flags(args, _BRANCH_FLAGS)
    new = _check_new_name(args) if args.action != "list" else ""
    match args.action:
        case "list":
            out.print_frame(table.branches())
            return
        case "create":
            table.create_branch(args.name, tag=args.tag)
        case "delete":
            _print_result(out, table.delete_branch(args.name, dry_run=args.dry_run))
            return
        case "rename":
            table.rename_branch(args.name, new)
        case "forward":
            expired = table.fast_forward(args.name, dry_run=args.dry_run)
            if not args.dry_run:
                _print_sentence(out, f"{table.name} · branch {args.name}: main follows it")
            _print_result(out, expired)
            return
    result_text = {"create": "created", "rename": f"renamed to {new}"}[args.action]
    _print_sentence(out, f"{table.name} · branch {args.name}: {result_text}")


def rollback(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit rollback PATH TO`."""
    _print_result(out, _open(args).rollback(args.to, watermark=args.watermark, dry_run=args.dry_run))


def orphans(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit orphans PATH`."""
    age = None if args.older_than is None else timedelta(milliseconds=duration_ms(args.older_than, "older-than"))
    table, dry_run = _open(args), args.dry_run or not args.delete
    files = table.remove_orphans(older_than=age, dry_run=dry_run, external=args.external)
    if files.height or out.format != "table":
        out.print_frame(files)
    parts = (
        f"{humanize.plural(files.height, 'file')}, {humanize.format_size(int(files['size_bytes'].sum()))}"
        if files.height
        else "nothing"
    )
    _print_sentence(
        out,
        f"{table.name} · {'would go' if dry_run else 'gone'}: {parts}"
        + ("; --delete removes them" if files.height and not args.delete else ""),
    )


def analyze(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit analyze PATH`."""
    _print_result(out, _open(args).analyze(columns=args.columns))


def rewrite_index(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit rewrite-index PATH`."""
    table = _open(args)
    if not args.dry_run:
        _print_result(out, table.rewrite_file_index(where=args.where, rebuild=args.rebuild))
        return
    preview = table.rewrite_file_index(where=args.where, rebuild=args.rebuild, dry_run=True)
    if preview.height or out.format != "table":
        out.print_frame(preview)
    _print_sentence(
        out,
        f"{table.name} · would get other indexes: "
        f"{humanize.plural(preview.height, 'file') if preview.height else 'no file'}",
    )


# ---- of catalogs -----------------------------------------------------------------------------------------------------


def _connect(args: argparse.Namespace) -> Catalog:
    options, storage = allowed_locations_option(args.allow), dict(args.storage) or None
    return lakekit.connect(
        args.warehouse, metastore=args.metastore, uri=args.uri, options=options, storage_options=storage
    )


def clone(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit clone WAREHOUSE NAME NEW`."""
    copy = _connect(args).clone(args.name, args.new, at=args.at)
    _print_sentence(out, f"{copy.name} · a copy of {args.name}, at {copy.location}")


def migrate(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit migrate WAREHOUSE SOURCE NAME`."""
    types = dict(pair.partition("=")[::2] for pair in args.partition_types)
    table = _connect(args).migrate(args.source, args.name, move=args.move, partition_types=types)
    files = table.files()
    counts = f"{humanize.plural(files.height, 'file')}, {humanize.plural(int(files['row_count'].sum()), 'row')}"
    _print_sentence(
        out, f"{table.name} · {counts} {'moved' if args.move else 'copied'} from {args.source}, at {table.location}"
    )


def sql(args: argparse.Namespace, out: Output) -> None:
    """Run `lakekit sql WAREHOUSE STATEMENTS`: show each answer in the order of the statements."""
    texts = [*args.execute, *(_read_statements(path) for path in args.file)]
    texts = [*texts, *([] if args.text is None else [args.text])] or [sys.stdin.read()]
    session = _connect(args).session()
    # one more tells that there are more
    limit = _MAX_SHOWN_ROWS + 1 if out.limit is None and out.format == "table" else out.limit
    is_first = True
    for text in texts:
        for answer in session.answers(text, files=args.files, dialect=args.dialect, limit=limit):
            frame = answer.lazy()
            with typed_refusals():
                rows = (frame if limit is None else frame.head(limit)).collect()
            if rows.width:
                if not is_first and out.format == "table":
                    out.print_text("")
                out.print_frame(rows)
                is_first = False


def _read_statements(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        failure = InvalidOption(f"--file {path}: {wrong}", key="file", value=path)
    raise failure


def compact_database(args: argparse.Namespace, out: Output) -> int:
    """Run `lakekit compact-database WAREHOUSE`; return 1 where a table failed."""
    options = {name: getattr(args, name) for name in ("databases", "tables", "excluding", "full", "idle")}
    return _print_listing(out, _connect(args).compact(**options))


def maintain(args: argparse.Namespace, out: Output) -> int:
    """Run `lakekit maintain WAREHOUSE NAME`; return 1 where a task failed."""
    return _print_listing(out, _connect(args).maintain(args.name, dry_run=args.dry_run))


def repair(args: argparse.Namespace, out: Output) -> int:
    """Run `lakekit repair WAREHOUSE NAME`; return 1 where a table failed."""
    return _print_listing(out, _connect(args).repair(args.name))


def _print_listing(out: Output, frame: pl.DataFrame) -> int:
    out.print_frame(frame)
    return int("failed" in frame["done"])
