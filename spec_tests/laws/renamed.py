"""One history of a table run twice: once with harmless names, once with drawn ones. What every door gives must be the same but for the names.

Names(random)   draws a name for every column and every part of a ROW
run(seed, …)    draws a table kind and steps, runs them on both tables, and returns the first difference; None where there is none
"""

from __future__ import annotations

import random
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import polars as pl

import lakekit as lk
from lakekit.columns import col, cols, struct_field
from lakekit.errors import LakekitError, SchemaMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PATTERNS = ["*", "^$", "^.*$", "^v$", "^k$", "^(k|v)$", "^[a-z]$", "^^v$$", "^v", "v$", ".*", "^\\*$", '^"$']
HELPERS = [
    "_level", "_file", "_path", "_row", "_before_", "_after", "_before", "_before_v", "_before_k",
    "_before__VALUE_KIND", "_BUCKET", "_where", "_lakekit_row", "__lakekit_row", "__lakekit_path", "_lakekit_key",
    "_lakekit_at", "_lakekit_code", "_lakekit_place", "_lakekit_group", "_lakekit_source_row", "_lakekit_source.v",
    "_lakekit_action", "_lakekit_task", "_lakekit_0", "_key", "_code", "_hash", "_group", "__index_level_0__", "_KEY",
    "_row_kinds", "len", "literal", "index", "key", "value", "element", "rows", "count", "distinct", "source",
    "field", "0", "1", "partition", "bucket", "level", "kind", "file_name", "before", "after", "t", "n", "w", "r",
    "text", "empty", "k_right", "v_right", "id", "type", "null", "true", "select", "from", "min v", "nulls v",
]  # fmt: skip
PLAIN = [
    "K", "V", "Id", "ID", "iD", "ä", "日本", "😀", "ß", "SS", "İ", "é", "e\u0301", "a.b", "r.x", ".", "..", "`", "``",
    '"', "'", "''", 'a"b', "a'b", "a`b", "\\", "a\\b", "/", "a/b", "%", "%20", "=", "a=b", "?", "#", "&", "|", ";",
    ":", "a:b", "{", "}", "[0]", "(", ")", "<", ">", "!", "~", "-", "--", "+", "$", "$files", "@", "\u200b", "\x01",
    "\x7f", "None", "nan", "__proto__", "a b", " a", "a ", "tab\tname", "a\nb", "x" * 300,
]  # fmt: skip
ALL = [*PATTERNS, *HELPERS, *PLAIN]
RAW = {"_level", "_file", "_row_kind"}
"""Columns that stored versions have; a table with one of them has no `scan(raw=True)`."""
FOLDER = 100
"""Names of partition columns are part of the names of folders, which have 255 bytes at most."""
LISTED = {",", "."}
"""Characters that the text of an option cannot hold inside a name."""


@dataclass
class Names:
    """Drawn names by harmless ones; `parts` are those inside ROWs, by column."""

    columns: dict[str, str]
    parts: dict[str, str] = field(default_factory=dict)

    def of(self, name: str) -> str:
        return self.columns.get(name, name)


COLUMNS = {
    "k": "BIGINT NOT NULL", "j": "STRING NOT NULL", "p": "STRING", "v": "STRING", "n": "INT", "q": "BIGINT", "c": "CHAR(3)",
    "r": "ROW<{x} INT, {y} ROW<{z} STRING, {x} INT>>", "a": "ARRAY<ROW<{x} INT, {y} STRING>>", "m": "MAP<STRING, ROW<{z} INT>>",
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A kind of table: its keys and options, in which a name in braces stands for the column."""

    name: str
    primary: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    @property
    def listed(self) -> set[str]:
        """The columns that options name."""
        return {name for key, value in self.options for name in COLUMNS if f"{{{name}}}" in key + value}


ONE = ("bucket", "1")
LOOKUP = ("changelog-producer", "lookup")
SUMS = (
    *(ONE, ("merge-engine", "aggregation"), ("fields.{n}.aggregate-function", "sum"), ("fields.{v}.aggregate-function", "listagg")),
    *(("fields.{a}.aggregate-function", "nested_update"), ("fields.{m}.aggregate-function", "merge_map")),
)
INDEXES = (("file-index.bloom-filter.columns", "{v}"), ("file-index.bitmap.columns", "{n}"), ("file-index.bsi.columns", "{q}"))
KEYS = ("k", "j")
WHATEVER_SIZE = {"compaction.size-ratio": "1000000", "compaction.max-size-amplification-percent": "1000000"}
"""Options by which the runs that are compacted do not depend on how big files are, which long names make bigger."""
KINDS = [
    Kind("append"),
    Kind("append with vectors", options=(("deletion-vectors.enabled", "true"),)),
    Kind("append in buckets", options=(("bucket", "2"), ("bucket-key", "{v}"))),
    Kind("clustered", options=(("clustering.columns", "{v},{n}"), ("clustering.incremental", "true"))),
    Kind("indexed", options=INDEXES),
    Kind("key", KEYS, (ONE,)),
    Kind("key in buckets", KEYS, (("bucket", "2"), ("bucket-key", "{j}"))),
    Kind("key, dynamic", KEYS, (("bucket", "-1"),)),
    Kind("key by sequence", KEYS, (ONE, ("sequence.field", "{q}"))),
    Kind("key, lookup", KEYS, (ONE, LOOKUP, ("changelog-producer.row-deduplicate", "true"))),
    Kind("key, full", KEYS, (ONE, ("changelog-producer", "full-compaction"))),
    Kind("key, input", KEYS, (ONE, ("changelog-producer", "input"))),
    Kind("key, vectors", KEYS, (ONE, ("deletion-vectors.enabled", "true"))),
    Kind("first-row", KEYS, (ONE, ("merge-engine", "first-row"), LOOKUP)),
    Kind("partial-update", KEYS, (ONE, ("merge-engine", "partial-update"), ("fields.{q}.sequence-group", "{v},{n}"))),
    Kind("partial-update, lookup", KEYS, (ONE, ("merge-engine", "partial-update"), LOOKUP)),
    Kind("aggregation", KEYS, SUMS),
    Kind("thin", KEYS, (ONE, ("data-file.thin-mode", "true"))),
]


def is_held(name: str, format_name: str) -> bool:
    """Whether files of a format hold a column of that name: avro has words alone, orc no ticks."""
    return re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) is not None if format_name == "avro" else format_name != "orc" or "`" not in name


def may_be_listed(name: str) -> bool:
    """Whether the text of an option may hold a name among others."""
    return not set(name) & LISTED and name == name.strip()


def draw_names(rng: random.Random, kind: Kind, format_name: str) -> Names:
    """A name for each column: any, but without commas and points where an option names it, and of letters and digits in Avro files."""
    drawn: list[str] = []
    columns = {}
    every = [one for one in ALL if is_held(one, format_name)]
    for name in COLUMNS:
        listed, folder = name in kind.listed, name == "p"
        pool = [one for one in every if one not in drawn and (not listed or may_be_listed(one)) and (not folder or len(one) < FOLDER)]
        columns[name] = name if rng.random() < 0.25 and name not in drawn else rng.choice(pool)
        drawn.append(columns[name])
    columns |= dict(zip(("added", "renamed"), rng.sample([one for one in every if one not in columns.values()], 2), strict=True))
    inside = rng.sample(every, 3)
    return Names(columns, dict(zip("xyz", inside, strict=True)))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def schema_of(names: Names | None) -> list[lk.Field]:
    parts = {part: part if names is None else quoted(names.parts[part]) for part in "xyz"}
    return [lk.Field(name if names is None else names.of(name), text.format(**parts)) for name, text in COLUMNS.items()]


class Side:
    """One of the two tables, and its names."""

    def __init__(self, path: Path, kind: Kind, names: Names | None, *, partitioned: bool, options: Mapping[str, str]) -> None:
        self.names, self.kind = names, kind
        keys = ("p", *kind.primary) if partitioned and kind.primary else kind.primary
        given = {self.text(key): self.text(value) for key, value in (*kind.options, *options.items())}
        self.table = lk.create(
            path,
            schema_of(names),
            primary_keys=[self.of(name) for name in keys],
            partition_keys=[self.of("p")] if partitioned else [],
            options=given,
        )

    def of(self, name: str) -> str:
        return name if self.names is None else self.names.of(name)

    def part(self, name: str) -> str:
        return name if self.names is None else self.names.parts[name]

    def text(self, text: str) -> str:
        for name in COLUMNS:
            text = text.replace(f"{{{name}}}", self.of(name))
        return text

    def frame(self, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
        """Rows of harmless names as a frame under this side's names."""
        types = self.table.schema.to_polars()
        made = [pl.Series(name, [self.value(row.get(own)) for row in rows], dtype=types[name]) for own, name in self.pairs()]
        return pl.DataFrame(made)

    def dicts(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The same rows as dicts."""
        return [{self.of(name): self.value(value) for name, value in row.items()} for row in rows]

    def pairs(self) -> list[tuple[str, str]]:
        back = {self.of(name): name for name in COLUMNS}
        return [(back.get(name, ""), name) for name in self.table.schema.to_polars().names()]

    def value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {(self.part(key) if key in "xyz" else key): self.value(one) for key, one in value.items()}
        return [self.value(one) for one in value] if isinstance(value, list) else value

    def back(self, value: Any, *, is_map: bool = False) -> Any:
        """A value with the names inside it made harmless; the entries of a map keep theirs."""
        if isinstance(value, dict):
            return {key if is_map else next((own for own in "xyz" if self.part(own) == key), key): self.back(one) for key, one in value.items()}
        return [self.back(one, is_map=is_map) for one in value] if isinstance(value, list) else value


def rows_of(rng: random.Random, count: int) -> list[dict[str, Any]]:
    def some(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    return [
        {
            "k": rng.randrange(6), "j": rng.choice("ab"), "p": some(rng.choice(["a", "b", "*"])), "v": some(rng.choice(["u", "v", "w"])),
            "n": some(rng.randrange(100)), "q": some(rng.randrange(50)), "c": some("abc"),
            "r": some({"x": some(rng.randrange(9)), "y": some({"z": some("t"), "x": rng.randrange(9)})}),
            "a": some([{"x": rng.randrange(3), "y": some("e")} for _ in range(rng.randrange(3))]),
            "m": some({"*": {"z": 1}} and [{"key": "*", "value": {"z": rng.randrange(4)}}]),
        }
        for _ in range(count)
    ]  # fmt: skip


def rows_from(side: Side, frame: pl.LazyFrame | pl.DataFrame, renamed: Mapping[str, str]) -> list[str]:
    """The rows of a frame, sorted, with their harmless names; `renamed` are the columns whose names are the table's."""
    found = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    names = [renamed.get(name, name) for name in found.columns]
    return [repr(names), *sorted(repr([side.back(value, is_map=name == "m") for name, value in zip(names, row, strict=True)]) for row in found.rows())]


Step = tuple[str, "Callable[[Side], Any]"]
Write = "Callable[[random.Random, Kind, bool], Step]"


def steps_of(rng: random.Random, kind: Kind, writes: Sequence[Write], *, partitioned: bool) -> list[Step]:
    """Drawn steps: each is done to both tables."""
    return [rng.choice(writes)(rng, kind, partitioned) for _ in range(rng.randrange(3, 8))]


def _put(rng: random.Random, kind: Kind, partitioned: bool) -> Step:
    rows = rows_of(rng, rng.randrange(1, 7))
    if kind.primary and kind.name != "first-row" and "partial" not in kind.name and kind.name != "aggregation" and rng.random() < 0.3:
        kinds = [rng.choice(["+I", "-D", "+U"]) for _ in rows]
        return "upsert kinds", lambda side: side.table.upsert(side.frame(rows).with_columns(pl.Series("_row_kind", kinds)), row_kind="_row_kind").row_count
    if rng.random() < 0.3:
        return "dicts", lambda side: side.table.append(side.dicts(rows) if same(side) else side.frame(rows)).row_count
    return "append", lambda side: side.table.append(side.frame(rows)).row_count


def same(side: Side) -> bool:
    """Whether the table still has its first columns."""
    return set(side.table.schema.to_polars().names()) == {side.of(name) for name in COLUMNS}


def _compact(rng: random.Random, kind: Kind, partitioned: bool) -> Step:
    full = rng.random() < 0.7
    return "compact", lambda side: side.table.compact(full=full) and None


def _sorted(rng: random.Random, kind: Kind, partitioned: bool) -> Step:
    if kind.primary or any("bucket-key" in key or "clustering" in key for key, _ in kind.options):
        return _compact(rng, kind, partitioned)
    strategy = rng.choice(["order", "zorder", "hilbert"])
    return "sort compact", lambda side: side.table.compact(order_by=[side.of("v"), side.of("q")], strategy=strategy) and None


def _delete(rng: random.Random, kind: Kind, partitioned: bool) -> Step:
    if rng.random() < 0.5:
        return "delete expr", lambda side: side.table.delete((col(side.of("v")) == "u") & (col(side.of("q")) > 20)).row_count
    return "delete text", lambda side: side.table.delete(f"{sql(side.of('v'))} = 'w' AND {sql(side.of('k'))} > 2").row_count


def sql(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _update(rng: random.Random, kind: Kind, partitioned: bool) -> Step:
    if rng.random() < 0.5:
        return (
            "update expr",
            lambda side: side.table.update({side.of("c"): pl.lit("xyz"), side.of("n"): col(side.of("n")) + 1}, where=col(side.of("v")) == "u").row_count,
        )
    return "update text", lambda side: side.table.update({side.of("c"): "'q'"}, where=f"{sql(side.of('n'))} > 50").row_count


def _merge(rng: random.Random, kind: Kind, partitioned: bool) -> Step:
    rows = list({(row["k"], row["j"], row["p"]): row for row in rows_of(rng, 4)}.values())
    on = ["k", "j", "p"] if partitioned else ["k", "j"]
    rows = list({tuple(row[name] for name in on): row for row in rows}.values())
    return (
        "merge",
        lambda side: (
            side.table.merge(
                side.frame(rows),
                lk.when_matched(update={side.of("c"): lk.source(side.of("c")), side.of("n"): pl.lit(7, pl.Int32)}, where=lk.source(side.of("q")) > 10),
                lk.when_not_matched(),
                on=[side.of(name) for name in on],
            ).row_count
        ),
    )


def _overwrite(rng: random.Random, kind: Kind, partitioned: bool) -> Step:
    rows = [{**row, "p": "a"} for row in rows_of(rng, 3)]
    if not partitioned:
        return _put(rng, kind, partitioned)
    return "overwrite", lambda side: side.table.overwrite(side.frame(rows), partition={side.of("p"): "a"}).row_count


def _drop(rng: random.Random, kind: Kind, partitioned: bool) -> Step:
    if not partitioned:
        return _compact(rng, kind, partitioned)
    return "drop partitions", lambda side: side.table.drop_partitions([{side.of("p"): "b"}]) and None


CHANGES = [_delete, _update, _merge]
WRITES = [_put, _put, _put, _put, _compact, _sorted, _overwrite, _drop]


def alter_of(rng: random.Random, kind: Kind) -> tuple[str, Callable[[Side], Any], dict[str, str]]:
    """A change of columns, and the columns that have another name behind it (by harmless name, for the drawn side)."""
    free = [name for name in ("n", "c") if name not in kind.listed]
    which = rng.choice(["add", "rename", "drop", "type", "part", "drop part"])
    path = lambda side, *parts: ".".join(quoted(part) for part in parts)  # noqa: E731
    if which == "add" or (which in ("rename", "drop") and not free):
        return "add column", lambda side: side.table.alter(lk.add_column(path(side, side.of("added")), "INT")), {}
    if which == "rename":
        return "rename column", lambda side: side.table.alter(lk.rename_column(path(side, side.of(free[0])), side.of("renamed"))), {free[0]: "renamed"}
    if which == "drop":
        return "drop column", lambda side: side.table.alter(lk.drop_column(path(side, side.of(free[-1])))), {}
    if which == "type" and "n" not in kind.listed:
        return "update type", lambda side: side.table.alter(lk.update_type(path(side, side.of("n")), "BIGINT")), {}
    if which == "drop part":
        return "drop part", lambda side: side.table.alter(lk.drop_column(path(side, side.of("r"), side.part("x")))), {}
    return "add part", lambda side: side.table.alter(lk.add_column(path(side, side.of("a"), "element", side.part("z")), "INT")), {}


READS: dict[str, Callable[[Side], pl.LazyFrame | pl.DataFrame]] = {
    "scan": lambda side: side.table.scan(),
    "filter": lambda side: side.table.scan().filter((col(side.of("v")) == "u") | (col(side.of("q")) > 30)).select(cols([side.of("v"), side.of("k")])),
    "filter key": lambda side: side.table.scan().filter(col(side.of("k")) == 2),
    "filter partition": lambda side: side.table.scan().filter(col(side.of("p")) == "a").select(col(side.of("p")), col(side.of("k"))),
    "part": lambda side: side.table.scan().select(struct_field(struct_field(col(side.of("r")), side.part("y")), side.part("z")).alias("z")),
    "count": lambda side: side.table.scan().select(pl.len()),
    "head": lambda side: side.table.scan().head(3).select(pl.len()),
    "group": lambda side: side.table.scan().group_by(col(side.of("v")).alias("g")).agg(pl.len().alias("c")),
    "system ro": lambda side: side.table.system("ro").select(pl.len() * 0),  # which files are compacted depends on their sizes, and those on names
    "audit": lambda side: side.table.system("audit_log"),
    "binlog": lambda side: side.table.system("binlog"),
    "partitions": lambda side: side.table.partitions().select("row_count", "file_count", pl.col("partition").str.len_chars() * 0),
    "files": lambda side: side.table.files().select("row_count", "bucket"),
    "files table": lambda side: side.table.system("files").select("record_count"),
    "partitions table": lambda side: side.table.system("partitions").select("record_count", "file_count"),
    "explain": lambda side: pl.DataFrame({"rows": [side.table.explain(col(side.of("v")) == "u").rows_total]}),
    "check": lambda side: pl.DataFrame({"ok": [str(side.table.check(deep=True).problems)]}),
    "aggregate": lambda side: side.table.aggregate(col(side.of("q")).sum().alias("s"), pl.len().alias("l"), where=col(side.of("v")) == "u"),
}


FIXED = {"part", "count", "head", "group", "partitions", "files", "files table", "system ro", "partitions table", "explain", "check", "aggregate"}
"""Reads whose columns have names of their own."""


def attempt(side: Side, step: Callable[[Side], Any]) -> Any:
    """What a step gives, or the class of its refusal; what is no refusal is raised."""
    try:
        return step(side)
    except LakekitError as refused:
        return refused


def differs(plain: Any, drawn: Any) -> bool:
    if isinstance(plain, LakekitError) or isinstance(drawn, LakekitError):
        return type(plain) is not type(drawn)
    return bool(plain != drawn)


def told_apart(names: Names, renamed: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The harmless name of each column of both tables, by its name there."""
    own = {name: renamed.get(name, name) for name in (*COLUMNS, "added")}
    return {"plain": {new: old for old, new in own.items()}, "drawn": {names.of(new): old for old, new in own.items()}}


def reads_of(snapshots: int) -> dict[str, Callable[[Side], pl.LazyFrame | pl.DataFrame]]:
    """Every read that both tables are asked for."""

    def changes(mode: str, since: int) -> Callable[[Side], pl.LazyFrame]:
        return lambda side: side.table.changes(since, mode=mode)

    found = {f"changes {mode} {since}": changes(mode, since) for mode in ("auto", "diff", "delta") for since in sorted({0, snapshots // 2})}
    return READS | found | {"raw": lambda side: side.table.scan(raw=True).drop("_file", "_level", strict=False)}


def stepped(plain: Side, drawn: Side, steps: Sequence[Step]) -> str | None:
    """The first step that gives one table something else than the other."""
    for number, (what, step) in enumerate(steps):
        both = attempt(plain, step), attempt(drawn, step)
        if differs(*both):
            return f"step {number} {what}: {both[0]!r} and {both[1]!r}"
    return None


def read(plain: Side, drawn: Side, names: Names, renamed: Mapping[str, str]) -> str | None:
    """The first read that gives one table something else than the other."""
    moved = told_apart(names, renamed)
    for what, ask in reads_of(plain.table.snapshots().height).items():

        def answer(side: Side, own: Mapping[str, str], ask: Callable[[Side], Any] = ask, what: str = what) -> Any:
            return attempt(side, lambda one: rows_from(one, ask(one), {} if what in FIXED else own))

        both = answer(plain, moved["plain"]), answer(drawn, moved["drawn"])
        if what == "raw" and isinstance(both[1], SchemaMismatch) and RAW & set(drawn.table.schema.to_polars().names()):
            continue  # refused by name
        if differs(*both):
            return f"{what}: {both[0]!s:.1500}\nand\n{both[1]!s:.1500}"
    return None


def run(seed: int, path: Path, *, changes: bool = False) -> str | None:
    """Run one drawn history on both tables, with deletes, updates and merges where `changes`. Return the first difference, None where there is none."""
    rng = random.Random(seed)
    kind, partitioned = rng.choice(KINDS), rng.random() < 0.5
    options = {"file.format": rng.choice(["parquet", "parquet", "orc", "avro"]), "num-sorted-run.compaction-trigger": "3", **WHATEVER_SIZE}
    names = draw_names(rng, kind, options["file.format"])
    plain = Side(path / "plain", kind, None, partitioned=partitioned, options=options)
    drawn = Side(path / "drawn", kind, names, partitioned=partitioned, options=options)
    steps, renamed = steps_of(rng, kind, [*WRITES, *CHANGES] if changes else WRITES, partitioned=partitioned), {}
    if rng.random() < 0.6:
        name, alter, renamed = alter_of(rng, kind)
        steps.insert(rng.randrange(1, len(steps) + 1), (name, lambda side: alter(side) and None))
        steps.append(_put(rng, kind, partitioned))
    found = stepped(plain, drawn, steps) or read(plain, drawn, names, renamed)
    done = ", ".join(what for what, _ in steps)
    return found and f"seed {seed}: {kind.name}{' in partitions' if partitioned else ''}, {options['file.format']}, {names}\n{done}\n{found}"


def main(first: int, last: int) -> None:
    """Runs histories, and prints what is different."""
    wrong = 0
    for seed in range(first, last):
        with TemporaryDirectory() as folder:
            found = run(seed, Path(folder), changes=True)
        if found is not None:
            wrong += 1
            sys.stdout.write(f"{found}\n\n")
    sys.stdout.write(f"{last - first} histories, {wrong} different\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
