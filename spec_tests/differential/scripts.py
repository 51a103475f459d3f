"""What happens to a table, as plain data drawn from a seed: a schema, options, and steps that lakekit and the reference both can take.

    script(7)  →  Script(seed=7, schema={"k0": "INT NOT NULL", …}, options={"merge-engine": "aggregation", …}, steps=(Write(…), Compact(full=True), …))

What a table reads may depend on when the engine compacted (a delete that is gone no longer meets what comes later), and that on sizes of files, which no
two writers have alike. Scripts of such engines are `controlled`: their writers only write, and compactions, always full ones, are steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from lakekit.types import DataType, parse
from spec_tests.differential import drawn_values as values, wider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Row = tuple[str, tuple[Any, ...]]

ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row", "append")
"""Seed n has the engine n modulo their number."""
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_NUMBERS = (*_INTEGERS, "DOUBLE", "DECIMAL(9, 2)", "DECIMAL(25, 3)")
_FORMATS = ("parquet", "parquet", "parquet", "orc", "avro")
_COMPRESSIONS = {"parquet": ("none", "snappy", "lz4", "gzip"), "orc": ("none", "snappy", "lz4", "zlib"), "avro": ("null", "snappy", "deflate")}
AGGREGATES: dict[str, tuple[str, ...]] = {
    "sum": _NUMBERS,
    "max": ("INT", "STRING", "DATE", "DOUBLE", "DECIMAL(25, 3)", "TIMESTAMP(6)"),
    "min": ("INT", "STRING", "DATE", "DOUBLE", "DECIMAL(25, 3)", "TIMESTAMP(6)"),
    "last_value": ("INT", "STRING", "ARRAY<INT>"),
    "last_non_null_value": ("INT", "STRING", "ROW<a INT, b STRING, c ARRAY<DATE>>"),
    "first_value": ("INT", "STRING"),
    "first_non_null_value": ("INT", "STRING"),
    "listagg": ("STRING",),
    "bool_and": ("BOOLEAN",),
    "bool_or": ("BOOLEAN",),
    "collect": ("ARRAY<INT>", "ARRAY<STRING>"),
    "merge_map": ("MAP<STRING, BIGINT>",),
    "nested_update": ("ARRAY<ROW<x BIGINT, y DECIMAL(5, 1)>>",),
}
RETRACTING = ("sum", "last_value", "last_non_null_value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Rows of one commit: of a batch, or with an identifier of the streaming job `job`."""

    rows: tuple[Row, ...] = field(repr=False)
    identifier: int | None = None
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """A dedicated compaction."""

    full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """`partition` None: dynamic on a partitioned table, else the whole; "whole": everything; else that partition."""

    rows: tuple[Row, ...] = field(repr=False)
    partition: Mapping[str, str] | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alter:
    """Changes as `judge.alter` takes them."""

    changes: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopen:
    """What follows happens with these dynamic options."""

    options: Mapping[str, str]


Step = Write | Compact | Overwrite | Alter | Reopen


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One table and what happens to it."""

    seed: int
    engine: str
    schema: Mapping[str, str]
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    options: Mapping[str, str]
    controlled: bool
    steps: tuple[Step, ...]
    unordered: frozenset[str] = frozenset()
    """Columns whose elements the reference keeps in the order of a hash table."""

    @property
    def producer(self) -> str:
        """The changelog producer."""
        return self.options.get("changelog-producer", "none")

    def told(self) -> str:
        """The table in a few lines."""
        columns = ", ".join(f"{name} {text}" for name, text in self.schema.items())
        options = " ".join(f"{key}={value}" for key, value in self.options.items())
        return f"seed {self.seed}: ({columns}) keys {self.primary_keys} partitions {self.partition_keys} {options}"


def script(seed: int) -> Script:
    """The script of that seed; the same every time."""
    return _Drawing(seed).script()


class _Drawing:
    """A script while it is drawn."""

    def __init__(self, seed: int) -> None:
        self.seed, self.draw = seed, Random(seed)
        self.engine = ENGINES[seed % len(ENGINES)]
        self.keyed = self.engine != "append"
        self.columns: dict[str, DataType] = {}
        self.options: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self.types: tuple[str, ...] = ()
        self.sequences: list[str] = []
        self.unordered: set[str] = set()
        self.deletes, self.retractions = 0.0, ("-D", "-D", "-D", "-U")
        self.controlled = self.write_only = False
        self.pools: dict[str, list[Any]] = {}
        self.known: list[tuple[Any, ...]] = []
        self.identifier = self.added = 0

    def odds(self, chance: float) -> bool:
        return self.draw.random() < chance

    # ---- the table

    def script(self) -> Script:
        self._columns_of_keys()
        self._format()
        self._buckets()
        {"deduplicate": self._deduplicate, "partial-update": self._partial, "aggregation": self._aggregation}.get(self.engine, self._plain)()
        if self.crossing and self.engine in ("partial-update", "aggregation"):
            self.deletes = 0.0  # engine 1.4.2 makes +I of every row that it brings back to the partition of its key, also of a -D
        self._producer()
        self._more_options()
        schema = {name: str(t) for name, t in self.columns.items()}
        if self.odds(0.3):  # columns in another order
            names = list(schema)
            self.draw.shuffle(names)
            schema, self.columns = {name: schema[name] for name in names}, {name: self.columns[name] for name in names}
        keys = tuple(name for name in self.primary_keys if name in schema)
        return Script(
            seed=self.seed,
            engine=self.engine,
            schema=schema,
            primary_keys=keys,
            partition_keys=tuple(self.partition_keys),
            options=self.options,
            controlled=self.controlled,
            steps=tuple(self._steps()),
            unordered=frozenset(self.unordered),
        )

    def _columns_of_keys(self) -> None:
        draw = self.draw
        self.keys = [f"k{n}" for n in range(draw.choice((1, 1, 2, 3)))] if self.keyed else []
        self.partition_keys = [f"p{n}" for n in range(draw.choice((0, 0, 1, 1, 2)))]
        self.crossing = self.keyed and bool(self.partition_keys) and self.odds(0.15)
        for name in self.partition_keys:
            t = parse(draw.choice(values.PARTITION_TYPES))
            self.columns[name] = t.not_null() if self.keyed else t
        for name in self.keys:
            self.columns[name] = parse(draw.choice(values.KEY_TYPES[: -1 if self.engine == "first-row" else None])).not_null()
        self.primary_keys = [*self.keys, *([] if self.crossing else self.partition_keys)] if self.keyed else []

    def _format(self) -> None:
        self.format = self.draw.choice(_FORMATS)
        self.options["file.format"] = self.format
        if self.odds(0.4):
            self.options["file.compression"] = self.draw.choice(_COMPRESSIONS[self.format])

    def _buckets(self) -> None:
        draw, options = self.draw, self.options
        postpone = "postpone" if self.odds(0.4) else "fixed"
        mode = draw.choice(("fixed", "fixed", "dynamic", postpone) if self.keyed else ("fixed", "unaware", "unaware"))
        if mode == "fixed":
            options["bucket"] = str(draw.choice((1, 2, 3, 5)))
            if not self.keyed:
                self.columns["b"] = parse(draw.choice(values.KEY_TYPES))
                options["bucket-key"] = "b"
                self.pools["b"] = [values.value(draw, self.columns["b"]) for _ in range(6)]
            elif len(self.keys) > 1 and self.odds(0.4):
                options["bucket-key"] = ",".join(self.keys[: draw.randint(1, len(self.keys) - 1)])
            hashed = (options.get("bucket-key") or ",".join(self.keys)).split(",")
            if len(hashed) == 1 and self.columns[hashed[0]].root in ("INT", "BIGINT") and self.odds(0.4):
                options["bucket-function.type"] = "mod"
            elif all(self.columns[name].root != "TIMESTAMP" for name in hashed) and self.odds(0.2):
                options["bucket-function.type"] = "hive"
        else:
            options["bucket"] = "-1" if mode in ("dynamic", "unaware") else "-2"
        if mode == "dynamic":
            options["dynamic-bucket.target-row-num"] = str(draw.choice((2, 3, 10, 2_000_000)))
        if mode == "postpone":  # whose waiting rows are in Avro, which has other compressions
            options.pop("file.compression", None)
            options["postpone.default-bucket-num"] = str(draw.choice((1, 2, 4)))
        self.mode = mode

    def _some_columns(self, types: tuple[str, ...], most: int) -> None:
        for n in range(self.draw.randint(1, most)):
            self.columns[f"v{n}"] = parse(self.draw.choice(types))

    def _types(self) -> tuple[str, ...]:
        self.types = values.PARQUET_TYPES if self.format == "parquet" and self.odds(0.5) else ()
        return values.VALUE_TYPES + self.types

    def _plain(self) -> None:
        self._some_columns(self._types(), 5)
        if self.engine == "first-row":
            self.options["merge-engine"] = "first-row"
            if self.odds(0.4):
                self.options["ignore-delete"], self.deletes = "true", 0.2

    def _deduplicate(self) -> None:
        self._plain()
        self.deletes = self.draw.choice((0.0, 0.2, 0.4))
        if self.odds(0.2):
            self.options["merge-engine"] = "deduplicate"
        if self.odds(0.3) and not self.crossing:
            self._sequence_field()
            self.controlled = self.deletes > 0
        if self.odds(0.15):
            self.options["ignore-delete"] = "true"
        if self.odds(0.1) and not self.crossing:  # engine 1.4.2 writes what a key leaves behind as its column says, as +I, and has the key in two partitions
            self.options["rowkind.field"] = "kind"
            self.columns["kind"] = parse("STRING")

    def _sequence_field(self) -> None:
        self.sequences = [f"s{n}" for n in range(self.draw.choice((1, 1, 2)))]
        for name in self.sequences:
            self.columns[name] = parse(self.draw.choice(values.SEQUENCE_TYPES))
        self.options["sequence.field"] = ",".join(self.sequences)
        if self.odds(0.3):
            self.options["sequence.field.sort-order"] = "descending"

    def _partial(self) -> None:
        draw, options = self.draw, self.options
        options["merge-engine"] = "partial-update"
        self._some_columns(self._types(), 5)
        how = draw.choice(("plain", "plain", "ignore", "remove", "groups", "groups", "groups that retract"))
        if how == "ignore":
            options["ignore-delete"], self.deletes = "true", 0.3
        elif how == "remove":
            options["partial-update.remove-record-on-delete"], self.deletes, self.controlled = "true", 0.2, True
        elif how != "plain":
            if how != "groups":
                self.deletes, self.controlled = 0.2, True
            self.controlled |= self.seed >= wider.SEEDS  # seed 10011: a lone row whose sequence is null keeps its group until it is merged, if with nothing
            self._groups()
        elif self.odds(0.3) and not self.crossing:
            self._sequence_field()

    def _groups(self) -> None:
        for n in range(self.draw.choice((1, 2))):
            names = [f"g{n}{m}" for m in range(self.draw.choice((1, 1, 2)))]
            members = []
            for m in range(self.draw.randint(1, 3)):
                function = self.draw.choice(("", "", "sum", "last_non_null_value", "last_value", *([] if self.deletes else ["max"])))
                name = f"m{n}{m}"
                self.columns[name] = parse(self.draw.choice(AGGREGATES[function or "last_value"]))
                members.append(name)
                if function:
                    self._aggregate(name, function)
            self.columns.update({name: parse(self.draw.choice(values.SEQUENCE_TYPES)) for name in names})
            self.sequences += names
            self.options[f"fields.{','.join(names)}.sequence-group"] = ",".join(members)

    def _aggregate(self, name: str, function: str) -> None:
        self.functions[name] = function
        self.options[f"fields.{name}.aggregate-function"] = function

    def _aggregation(self) -> None:
        draw, options = self.draw, self.options
        options["merge-engine"] = "aggregation"
        how = draw.choice(("adds", "adds", "retracts", "removes"))
        for n in range(draw.randint(1, 5)):
            function = draw.choice(RETRACTING if how == "retracts" else tuple(AGGREGATES))
            self.columns[f"v{n}"] = parse(draw.choice(AGGREGATES[function]))
            self._aggregate(f"v{n}", function)
            self._function_options(f"v{n}", function)
        if how == "retracts":
            self.deletes, self.controlled = 0.25, True
            for name in self.functions:
                if self.odds(0.3):
                    options[f"fields.{name}.ignore-retract"] = "true"
        elif how == "removes":
            options["aggregation.remove-record-on-delete"], self.deletes, self.controlled = "true", 0.2, True
            self.retractions = ("-D",)  # others are retracted, field by field
        elif self.odds(0.3) and not self.crossing:
            self._sequence_field()

    def _function_options(self, name: str, function: str) -> None:
        if function == "listagg" and self.odds(0.5):
            self.options[f"fields.{name}.list-agg-delimiter"] = ";"
        if function == "listagg" and self.odds(0.3):
            self.options[f"fields.{name}.distinct"] = "true"
        if function == "nested_update" and self.odds(0.5):
            self.options[f"fields.{name}.nested-key"] = "x"
            self.unordered.add(name)
        elif function == "collect" and self.odds(0.4):
            self.options[f"fields.{name}.distinct"] = "true"
            self.unordered.add(name)

    def _producer(self) -> None:
        if not self.keyed:
            return
        found = self.draw.choice(("none", "input", "lookup", "full-compaction") if self.engine != "first-row" else ("none", "lookup"))
        bytes_key = any(self.columns[name].root == "VARBINARY" for name in self.keys)  # engine 1.4.2 cannot look such keys up
        found = "none" if bytes_key and found == "lookup" else found
        if found != "none":
            self.options["changelog-producer"] = found
        vectors = found != "full-compaction" and self.engine != "first-row" and not bytes_key and self.odds(0.35)
        if vectors:
            self.options["deletion-vectors.enabled"] = "true"
        # maps in which a value is null are equal to none in engine 1.4.2, so that it tells changes that change nothing
        maps = any("MAP<" in str(t) for t in self.columns.values())
        if found in ("lookup", "full-compaction") and self.odds(0.3) and not maps:
            self.options["changelog-producer.row-deduplicate"] = "true"
        if self.controlled:
            self.options["write-only"] = "true"
            if self.mode == "postpone":  # which is compacted as any writer compacts
                self.mode, self.options["bucket"] = "fixed", "2"

    def _more_options(self) -> None:
        draw, options = self.draw, self.options
        if not self.keyed and self.odds(0.3):
            options["deletion-vectors.enabled"] = "true"
        if "deletion-vectors.enabled" in options and self.odds(0.5):
            options["deletion-vectors.bitmap64"] = "true"
        drawn: dict[str, tuple[str, ...]] = {
            "metadata.stats-mode": ("full", "none", "counts", "truncate(4)"),
            "manifest.merge-min-count": ("2", "3"),
            "manifest.format": ("avro", "parquet", "orc"),
        }
        if self.keyed:
            drawn |= {
                "data-file.thin-mode": ("true",),
                "num-sorted-run.compaction-trigger": ("1", "2", "3"),
                "num-levels": ("3", "4"),
                "changelog-file.format": ("parquet", "avro"),
                "changelog-file.stats-mode": ("none", "full"),
                "file.format.per.level": ("0:avro", "0:parquet,1:parquet"),
                "metadata.stats-mode.per.level": ("0:none", "0:full,5:counts"),
            }
            if self.types or "file.compression" in options:  # what only Parquet holds stays in Parquet, and each format has compressions of its own
                drawn.pop("file.format.per.level")
                drawn.pop("changelog-file.format")
        else:
            drawn |= {"compaction.min.file-num": ("2", "3")}
        for key, choices in drawn.items():
            if self.odds(0.25):
                options[key] = draw.choice(choices)
        if self.engine == "first-row" or (self.keyed and "deletion-vectors.enabled" in options):
            # engine 1.4.2 takes the last level of the option for the last one of the bucket (`LookupMergeTreeCompactRewriter.upgradeStrategy`): where options
            # make levels fewer than files need it moves level 0 up unmerged, and reads a key from two levels. So they stay as many, whatever the trigger
            options.setdefault("num-levels", str(int(options.get("num-sorted-run.compaction-trigger", "5")) + 1))
        plain = [name for name, t in self.columns.items() if t.root in _INTEGERS and name not in self.partition_keys]
        if plain and self.odds(0.2):
            options["file-index.bloom-filter.columns"] = draw.choice(plain)
        if self.seed >= wider.SEEDS:
            self.columns |= wider.columns(draw)
            options |= wider.options(draw, self.columns, frozenset({*self.partition_keys, *self.functions, "kind"}), keyed=self.keyed)

    # ---- what happens

    def _steps(self) -> list[Step]:
        found: list[Step] = [self._write(self.draw.choice((1, 5, 20)))]
        for _ in range(self.draw.randint(4, 9)):
            chance, step = self.draw.random(), self._write
            found.append(step(self.draw.choice((1, 3, 10, 25))) if chance < 0.55 else self._other(chance))
        return [*found, Compact(full=True), self._write(3)]

    def _other(self, chance: float) -> Step:
        if chance < 0.75:
            return Compact(full=self.controlled or self.odds(0.6))
        if chance < 0.83 and not self.crossing:
            return self._overwrite()
        if chance < 0.93:
            return self._alter()
        return self._reopen()

    def _reopen(self) -> Step:
        options: dict[str, str] = {}
        self.write_only = self.controlled
        if self.odds(0.6):
            self.write_only = self.controlled or self.odds(0.5)
            options["write-only"] = "true" if self.write_only else "false"
        if self.odds(0.4):
            options["target-file-size"] = self.draw.choice(("2 kb", "64 kb"))
        if self.keyed and not self.controlled and self.odds(0.4):
            options["num-sorted-run.compaction-trigger"] = self.draw.choice(("1", "2", "5"))
        return Reopen(options=options)

    def _alter(self) -> Step:
        draw = self.draw
        chance = draw.random()
        indexed = {text for key, text in self.options.items() if key.startswith("file-index.")}  # engine 1.4.2 keeps a renamed column's old name there
        free = [name for name in self.columns if name[0] == "v" and name not in self.functions and name not in indexed]
        if self.seed >= wider.SEEDS and self.odds(0.6) and (found := wider.change(draw, self.columns, free, self.added)) is not None:
            self.added += 1
            told, self.columns = found
            return Alter(changes=(told,))
        if chance < 0.5:
            name, text = f"n{self.added}", draw.choice(values.VALUE_TYPES)
            text = "INT" if "MAP<" in text and "changelog-producer.row-deduplicate" in self.options else text
            self.added += 1
            self.columns[name] = parse(text)
            return Alter(changes=(("add_column", name, text),))
        if chance < 0.65 and len(free) > 1:
            name = draw.choice(free)
            del self.columns[name]
            return Alter(changes=(("drop_column", name),))
        if chance < 0.8 and any(self.columns[name].root == "INT" for name in free):
            name = next(name for name in free if self.columns[name].root == "INT")
            self.columns[name] = parse("BIGINT")
            return Alter(changes=(("update_type", name, "BIGINT"),))
        if chance < 0.9 and free:
            name, fresh = draw.choice(free), f"vr{self.added}"
            self.added += 1
            self.columns = {fresh if one == name else one: t for one, t in self.columns.items()}
            return Alter(changes=(("rename_column", name, fresh),))
        more = () if self.types else (("file.format", "avro"), ("file.format", "parquet"))
        if "file.compression" in self.options:
            more = ()
        key, text = draw.choice((("num-sorted-run.compaction-trigger", "4"), ("metadata.stats-mode", "full"), ("manifest.merge-min-count", "2"), *more))
        return Alter(changes=(("set_option", key, text),))

    # ---- rows

    def _write(self, count: int) -> Step:
        rows = tuple(self._row(deletes=self.deletes) for _ in range(count))
        if self.odds(0.3) and not self.crossing:
            self.identifier += 1
            full = self.mode == "fixed" and self.keyed and not self.controlled and not self.write_only and self.odds(0.2)
            return Write(rows=rows, identifier=self.identifier, full=full)
        return Write(rows=rows)

    def _overwrite(self) -> Step:
        rows = [("+I", self._row(deletes=0)[1]) for _ in range(self.draw.choice((0, 1, 5)))]
        texts = [name for name in self.partition_keys if self.columns[name].root in ("INT", "BIGINT")]
        where: Mapping[str, str] | str | None = None
        if not self.partition_keys or self.odds(0.3):
            where = "whole"
        elif texts and self.odds(0.5):
            place = list(self.columns).index(texts[0])
            chosen = next((value for value in self.pools.get(texts[0], ()) if value is not None), 1)
            rows = [(kind, (*given[:place], chosen, *given[place + 1 :])) for kind, given in rows]
            where = {texts[0]: str(chosen)}
        return Overwrite(rows=tuple(rows), partition=where)

    def _pooled(self, name: str, most: int, made: Callable[[], Any]) -> Any:
        pool = self.pools.setdefault(name, [])
        if len(pool) < most and self.odds(1 if not pool else 0.5):
            pool.append(made())
        return self.draw.choice(pool)

    def _row(self, *, deletes: float) -> Row:
        draw, given = self.draw, {}
        kind = "+I"
        if self.keyed:
            kind = draw.choice(self.retractions) if self.odds(deletes) else "+U" if self.odds(0.15) else "+I"
        for name, t in self.columns.items():
            if name in self.partition_keys:
                given[name] = self._pooled(name, 2, lambda t=t: self._partition(t))
            elif name in self.keys or name == "b":
                given[name] = self._pooled(name, 8 if len(self.keys) < 2 else 4, lambda t=t: values.value(draw, t, nulls=0))
            elif name == "kind":
                given[name] = kind
            elif name in self.sequences:
                given[name] = values.small(draw, t) if t.root != "TIMESTAMP" else draw.choice((None, [1000, 0], [2000, 0], [3000, 0]))
            elif name in self.functions:
                given[name] = values.small(draw, t)
            else:
                given[name] = values.value(draw, t, nulls=0.4 if self.engine == "partial-update" else 0.15)
        return ("+I" if "kind" in given else kind), tuple(given.values())

    def _partition(self, t: DataType) -> Any:
        found = values.value(self.draw, t, nulls=0.1)
        return found if found != "" else "empty"
