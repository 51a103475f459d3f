"""The shell's chores: what keeps a table well, and what removes.

    lakekit compact PATH [--full] [--where "dt = '…'"] [--order-by a,b]      merge files
    lakekit expire PATH snapshots | changelogs | tags | consumers | partitions [--dry-run]
    lakekit tag PATH create | replace | delete | rename NAME …               names for snapshots
    lakekit tag PATH list | automatic [--force]                              those there are, and those that are due by the clock
    lakekit branch PATH list | create | delete | rename | forward NAME …     other lines of the table's history
    lakekit rollback PATH SNAPSHOT | TAG | TIME | --watermark MS [--dry-run] back to an older state
    lakekit orphans PATH [--older-than "3 d"] [--delete]                     files that nothing refers to
    lakekit analyze PATH [--columns a,b]                                     statistics for query engines
    lakekit rewrite-index PATH [--where …] [--anew] [--dry-run]              file indexes as the options say
    lakekit sql WAREHOUSE "SELECT … FROM shop.orders"                        statements over a catalog's tables, also from a pipe
    lakekit clone WAREHOUSE NAME NEW [--at …]                                a table copied: lakekit clone house shop.orders test.orders
    lakekit migrate WAREHOUSE SOURCE NAME [--move]                           files taken over: lakekit migrate house /data/orders shop.orders
    lakekit compact-database WAREHOUSE [--tables "shop\\..*"] [--full]        files of many tables merged
    lakekit repair WAREHOUSE [NAME] --metastore jdbc --uri …                 tables that lie there made known to a metastore

Each calls the public method of that name and prints what it gives. Nothing is deleted with `--dry-run`, and by `orphans` not without `--delete`.
"""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lakekit
from lakekit.draw import humanize
from lakekit.errors import InvalidOption
from lakekit.maintenance.arguments import duration_ms
from lakekit.model.locations import options_of
from lakekit.storage.refusal import typed_refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

    from lakekit.catalog import Catalog
    from lakekit.cli.output import Output
    from lakekit.table import Table

EXPIRE_TARGETS = ("snapshots", "changelogs", "tags", "consumers", "partitions")
_ORDERS = ("order", "zorder", "hilbert")
_TAGS = ("list", "create", "replace", "delete", "rename", "automatic")
_BRANCHES = ("list", "create", "delete", "rename", "forward")
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
_ROWS = 50
"""How many rows of a query a person sees, unless `--limit` says otherwise."""
_IDLE_HELP = 'only partitions that got no file for so long, as "1 d"'
_WHERE_HELP = "a condition in SQL on partition columns"


def add(verbs: Any, store: argparse.ArgumentParser, shape: argparse.ArgumentParser, positive: Callable[[str], int]) -> None:
    """Makes the verbs known to the parser."""

    def verb(name: str, run: Callable[[argparse.Namespace, Output], None], told: str) -> Any:
        parser = verbs.add_parser(name, parents=[store, shape], help=told)
        parser.add_argument("path", metavar="PATH", help="the folder of a table")
        parser.add_argument("--branch", help="another branch than main")
        parser.set_defaults(run=run)
        return parser

    one = verb("compact", compact, "merge files: what the levels ask for, everything, or sorted")
    one.add_argument("--full", action="store_true", help="every bucket to its highest level")
    one.add_argument("--where", help=_WHERE_HELP)
    one.add_argument("--order-by", metavar="COLUMNS", type=_names, help="sort the rows by columns, a,b")
    one.add_argument("--strategy", choices=_ORDERS, default="order", help="how several columns are sorted")
    one.add_argument("--idle", metavar="AGE", type=_age, help=_IDLE_HELP)
    one = verb("expire", expire, "remove what is old: snapshots, changelogs, tags, consumers or partitions")
    one.add_argument("what", metavar="WHAT", choices=EXPIRE_TARGETS, help=", ".join(EXPIRE_TARGETS))
    one.add_argument("--retain-max", type=positive, metavar="N", help="of snapshots and changelogs: keep no more")
    one.add_argument("--retain-min", type=positive, metavar="N", help="of snapshots and changelogs: keep the newest")
    one.add_argument("--older-than", metavar="TIME", help='of snapshots, changelogs and tags: those made before go; or an age, as "7 d"')
    one.add_argument("--expiration", metavar="AGE", type=_age, help='of consumers and partitions: how old they get, as "7 d"')
    one.add_argument("--including", metavar="REGEX", help="of consumers: those whose whole ids match, of any age unless --expiration is given")
    one.add_argument("--excluding", metavar="REGEX", help="of consumers: but those")
    one.add_argument("--dry-run", action="store_true", help="tell what would go")
    one = verb("tag", tag, "name snapshots, and keep them")
    one.add_argument("action", metavar="ACTION", choices=_TAGS, help=", ".join(_TAGS))
    one.add_argument("name", metavar="NAME", nargs="?", help="of all but list and automatic: the tag")
    one.add_argument("new", metavar="NEW", nargs="?", help="of rename: the new name")
    one.add_argument("--at", help="of create and replace: a snapshot's number or a time; the newest snapshot unless given")
    one.add_argument("--since", metavar="TIME", help="of create: the first snapshot made then or later")
    one.add_argument("--watermark", metavar="MS", type=int, help="of create: the first snapshot whose watermark is as far")
    one.add_argument("--force", action="store_true", help="of automatic: commit an empty snapshot where a tag is due and nothing was written")
    one.add_argument("--retain", metavar="AGE", type=_age, help='of create and replace: how long the tag is kept, as "30 d"')
    one.add_argument("--dry-run", action="store_true", help="of delete and replace: tell what would go")
    one = verb("branch", branch, "make, remove, rename a branch, or let main follow it")
    one.add_argument("action", metavar="ACTION", type=_normalize_action, choices=_BRANCHES, help=", ".join(_BRANCHES) + " (or fast-forward)")
    one.add_argument("name", metavar="NAME", nargs="?", help="of all but list: the branch")
    one.add_argument("new", metavar="NEW", nargs="?", help="of rename: the new name")
    one.add_argument("--tag", help="of create: the tag it begins with; empty unless given")
    one.add_argument("--dry-run", action="store_true", help="of delete and forward: tell what would go")
    one = verb("rollback", rollback, "go back to a snapshot, a tag or a time")
    one.add_argument("to", metavar="TO", nargs="?", help="a snapshot's number, a tag, or a time")
    one.add_argument("--watermark", metavar="MS", type=int, help="the newest snapshot whose watermark is not further")
    one.add_argument("--dry-run", action="store_true", help="tell what would go")
    one = verb("orphans", orphans, "files that nothing refers to: what writers left that died")
    one.add_argument("--older-than", metavar="AGE", type=_age, help='files younger than this are left alone; "1 d" unless given')
    one.add_argument("--delete", action="store_true", help="remove them")
    one.add_argument("--external", action="store_true", help="look at external roots too, where no other table has files")
    one.add_argument("--dry-run", action="store_true", help="only tell; so it is without --delete too")
    one = verb("analyze", analyze, "statistics of the rows, in a snapshot of their own")
    one.add_argument("--columns", type=_names, metavar="COLUMNS", help="a,b; all unless given")
    one = verb("rewrite-index", rewrite_index, "file indexes of files that are there, as the options say")
    one.add_argument("--where", help=_WHERE_HELP)
    one.add_argument("--anew", action="store_true", help="also those that are there, as after a change of their own options")
    one.add_argument("--dry-run", action="store_true", help="tell which files would get which indexes")
    _add_catalog_verbs(verbs, store, shape)


def _add_catalog_verbs(verbs: Any, store: argparse.ArgumentParser, shape: argparse.ArgumentParser) -> None:
    def verb(name: str, run: Callable[[argparse.Namespace, Output], int | None], told: str) -> Any:
        parser = verbs.add_parser(name, parents=[store, shape], help=told)
        parser.add_argument("warehouse", metavar="WAREHOUSE", help="the folder of a catalog")
        parser.add_argument("--metastore", default="filesystem", choices=("filesystem", "jdbc", "hive"), help="what knows the names; folders unless given")
        parser.add_argument("--uri", help="where the metastore is")
        parser.set_defaults(run=run)
        return parser

    one = verb("sql", sql, "statements over the tables of a catalog: queries, changes, definitions, CALL")
    one.add_argument("text", metavar="STATEMENTS", nargs="?", help="semicolons between them; standard input unless given")
    one = verb("clone", clone, "copy a table: schemas, options and the files of a snapshot")
    one.add_argument("name", metavar="NAME", help="the table, db.t")
    one.add_argument("new", metavar="NEW", help="the copy, db.u")
    one.add_argument("--at", help="a snapshot's number, a tag or a time; the newest snapshot unless given")
    one = verb("migrate", migrate, "take over Parquet, ORC or Avro files of a folder, as they are, as a table")
    one.add_argument("source", metavar="SOURCE", help="the folder, or the name of a format table")
    one.add_argument("name", metavar="NAME", help="the table to come, db.t")
    one.add_argument("--move", action="store_true", help="take the files away from the source, once the table is there")
    one.add_argument(
        "--partition-types", metavar="TYPES", type=_names, default=[], help="types of partition columns that are not to be guessed, dt=STRING,n=INT"
    )
    one = verb("compact-database", compact_database, "merge files of many tables; ends with 1 where one failed")
    for name, told in (("databases", "of databases"), ("tables", "of tables with their databases, db.t"), ("excluding", "of tables to be left out")):
        one.add_argument(f"--{name}", metavar="PATTERN", help=f"a regular expression of whole names {told}")
    one.add_argument("--full", action="store_true", help="every bucket to its highest level")
    one.add_argument("--idle", metavar="AGE", type=_age, help=_IDLE_HELP)
    one = verb("repair", repair, "make tables that lie in the warehouse known to the metastore; ends with 1 where one failed")
    one.add_argument("name", metavar="NAME", nargs="?", help="a database or a table, db.t; everything unless given")


def _age(said: str) -> str:
    """An age that is typed has a unit: a number alone would be milliseconds, as in options, and hardly is what somebody means who deletes by it."""
    if said.strip().isdecimal():
        message = f"{said!r} has no unit: write '{said.strip()} d', or h, min, s"
        raise argparse.ArgumentTypeError(message)
    return said


def _names(said: str) -> list[str]:
    return [name.strip() for name in said.split(",") if name.strip()]


def _open(asked: argparse.Namespace) -> Table:
    return lakekit.open(asked.path, branch=asked.branch, options=options_of(asked.allow), storage_options=dict(asked.storage) or None)


def _print_result(out: Output, result: Any) -> None:
    """A card to a person, its facts to a pipe."""
    if out.format == "table":
        out.lines(str(result))
        return
    names = [name for name in type(result).__dataclass_fields__ if not name.startswith("_")]
    out.rows(names, [[_tuple_to_list(getattr(result, name)) for name in names]])


def _tuple_to_list(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def compact(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit compact PATH`."""
    _print_result(out, _open(asked).compact(full=asked.full, where=asked.where, order_by=asked.order_by, strategy=asked.strategy, idle=asked.idle))


def expire(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit expire PATH WHAT`."""
    allowed: dict[str, Sequence[str]] = {
        "snapshots": ("retain_max", "retain_min", "older_than"),
        "changelogs": ("retain_max", "retain_min", "older_than"),
        "tags": ("older_than",),
        "consumers": ("expiration", "including", "excluding"),
        "partitions": ("expiration",),
    }
    given = {
        name: value
        for name in ("retain_max", "retain_min", "older_than", "expiration", "including", "excluding")
        if (value := getattr(asked, name)) is not None
    }
    for name, value in given.items():
        if name not in allowed[asked.what]:
            flag, *others = (f"--{one.replace('_', '-')}" for one in (name, *allowed[asked.what]))
            raise InvalidOption(f"{flag} does not go with {asked.what}, which take {', '.join(others)}", key=flag, value=str(value))
    _print_result(out, getattr(_open(asked), f"expire_{asked.what}")(**given, dry_run=asked.dry_run))


def _print_sentence(out: Output, text: str) -> None:
    """A sentence, to a person only: a pipe learns by the exit code."""
    if out.format == "table":
        out.lines(text)


def _check_name(asked: argparse.Namespace, what: str, without: Sequence[str]) -> None:
    """Raises `InvalidOption` where a name is missing, or is given to an action that needs none."""
    if (asked.name is None) != (asked.action in without):
        told = f"needs the name of a {what}" if asked.name is None else f"takes no name such as {asked.name!r}"
        raise InvalidOption(f"{asked.action} {told}", key="NAME", value=str(asked.name))


def _check_new_name(asked: argparse.Namespace) -> str:
    if (asked.new is None) == (asked.action == "rename"):
        what = "needs a new name" if asked.new is None else f"{asked.action} takes one name, not {asked.new!r} too"
        raise InvalidOption(f"{asked.action} {asked.name}: {what}", key="NEW", value=str(asked.new))
    return str(asked.new)


def _check_flags(asked: argparse.Namespace, allowed: Mapping[str, Sequence[str]]) -> None:
    """Raises `InvalidOption` for a flag that the action does not heed: a `--dry-run` that is passed over would do what it promises not to."""
    for name, actions in allowed.items():
        value = getattr(asked, name)
        if value not in (None, False) and asked.action not in actions:
            flag = f"--{name.replace('_', '-')}"
            raise InvalidOption(f"{flag} goes with {' and '.join(actions)}, not with {asked.action}", key=flag, value=str(value))


def tag(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit tag PATH ACTION NAME`."""
    table = _open(asked)
    _check_name(asked, "tag", ("list", "automatic"))
    _check_flags(asked, _TAG_FLAGS)
    if asked.action == "list":
        out.frame(table.tags())
        return
    if asked.action == "automatic":
        out.rows(["tag"], [[name] for name in table.create_automatic_tags(force=asked.force)])
        return
    new = _check_new_name(asked)
    match asked.action:
        case "create":
            table.create_tag(asked.name, at=asked.at, since=asked.since, watermark=asked.watermark, retain=asked.retain)
        case "replace":
            gone = table.replace_tag(asked.name, at=asked.at, retain=asked.retain, dry_run=asked.dry_run)
            if not asked.dry_run:
                _print_sentence(out, f"{table.name} · tag {asked.name}: replaced")
            _print_result(out, gone)
            return
        case "delete":
            _print_result(out, table.delete_tag(asked.name, dry_run=asked.dry_run))
            return
        case "rename":
            table.rename_tag(asked.name, new)
    _print_sentence(out, f"{table.name} · tag {asked.name}: {asked.action}d" + (f" to {new}" if asked.new else ""))


def _normalize_action(action: str) -> str:
    """What is done to a branch, by the word that the method has too."""
    return "forward" if action == "fast-forward" else action


def branch(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit branch PATH ACTION NAME`."""
    table = _open(asked)
    _check_name(asked, "branch", ("list",))
    _check_flags(asked, _BRANCH_FLAGS)
    new = _check_new_name(asked) if asked.action != "list" else ""
    match asked.action:
        case "list":
            out.frame(table.branches())
            return
        case "create":
            table.create_branch(asked.name, tag=asked.tag)
        case "delete":
            _print_result(out, table.delete_branch(asked.name, dry_run=asked.dry_run))
            return
        case "rename":
            table.rename_branch(asked.name, new)
        case "forward":
            gone = table.fast_forward(asked.name, dry_run=asked.dry_run)
            if not asked.dry_run:
                _print_sentence(out, f"{table.name} · branch {asked.name}: main follows it")
            _print_result(out, gone)
            return
    done = {"create": "created", "rename": f"renamed to {new}"}[asked.action]
    _print_sentence(out, f"{table.name} · branch {asked.name}: {done}")


def rollback(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit rollback PATH TO`."""
    _print_result(out, _open(asked).rollback(asked.to, watermark=asked.watermark, dry_run=asked.dry_run))


def orphans(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit orphans PATH`."""
    age = None if asked.older_than is None else timedelta(milliseconds=duration_ms(asked.older_than, "older-than"))
    table, dry_run = _open(asked), asked.dry_run or not asked.delete
    found = table.remove_orphans(older_than=age, dry_run=dry_run, external=asked.external)
    if found.height or out.format != "table":
        out.frame(found)
    parts = f"{humanize.plural(found.height, 'file')}, {humanize.format_size(int(found['size_bytes'].sum()))}" if found.height else "nothing"
    _print_sentence(
        out, f"{table.name} · {'would go' if dry_run else 'gone'}: {parts}" + ("; --delete removes them" if found.height and not asked.delete else "")
    )


def analyze(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit analyze PATH`."""
    _print_result(out, _open(asked).analyze(columns=asked.columns))


def rewrite_index(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit rewrite-index PATH`."""
    table = _open(asked)
    if not asked.dry_run:
        _print_result(out, table.rewrite_file_index(where=asked.where, anew=asked.anew))
        return
    found = table.rewrite_file_index(where=asked.where, anew=asked.anew, dry_run=True)
    if found.height or out.format != "table":
        out.frame(found)
    _print_sentence(out, f"{table.name} · would get other indexes: {humanize.plural(found.height, 'file') if found.height else 'no file'}")


# ---- of catalogs ---------------------------------------------------------------------------------------------------------------------------------------


def _catalog(asked: argparse.Namespace) -> Catalog:
    options, storage = options_of(asked.allow), dict(asked.storage) or None
    return lakekit.connect(asked.warehouse, metastore=asked.metastore, uri=asked.uri, options=options, storage_options=storage)


def clone(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit clone WAREHOUSE NAME NEW`."""
    made = _catalog(asked).clone(asked.name, asked.new, at=asked.at)
    _print_sentence(out, f"{made.name} · a copy of {asked.name}, at {made.location}")


def migrate(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit migrate WAREHOUSE SOURCE NAME`."""
    types = dict(one.partition("=")[::2] for one in asked.partition_types)
    made = _catalog(asked).migrate(asked.source, asked.name, move=asked.move, partition_types=types)
    files = made.files()
    told = f"{humanize.plural(files.height, 'file')}, {humanize.plural(int(files['row_count'].sum()), 'row')}"
    _print_sentence(out, f"{made.name} · {told} {'moved' if asked.move else 'copied'} from {asked.source}, at {made.location}")


def sql(asked: argparse.Namespace, out: Output) -> None:
    """`lakekit sql WAREHOUSE STATEMENTS`."""
    found = _catalog(asked).sql(sys.stdin.read() if asked.text is None else asked.text).lazy()
    limit = _ROWS + 1 if out.limit is None and out.format == "table" else out.limit  # one more tells that there are more
    with typed_refusals():
        rows = (found if limit is None else found.head(limit)).collect()
    out.frame(rows)


def compact_database(asked: argparse.Namespace, out: Output) -> int:
    """`lakekit compact-database WAREHOUSE`; 1 where a table failed."""
    given = {name: getattr(asked, name) for name in ("databases", "tables", "excluding", "full", "idle")}
    return _print_listing(out, _catalog(asked).compact(**given))


def repair(asked: argparse.Namespace, out: Output) -> int:
    """`lakekit repair WAREHOUSE NAME`; 1 where a table failed."""
    return _print_listing(out, _catalog(asked).repair(asked.name))


def _print_listing(out: Output, found: pl.DataFrame) -> int:
    out.frame(found)
    return int("failed" in found["done"])
