"""Tables drawn for the machine: engine, keys, buckets, formats, producers, and what rows they take.

Not every history of an engine reads alike whenever it is compacted: a delete that is gone no longer meets what comes later, what was taken from nothing is
dropped. Tables of such rows are `is_controlled`: their writers only write, every key comes once a commit, and compactions, all full ones, are steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from spec_tests.models.oracle import folded, sequence_of

if TYPE_CHECKING:
    from random import Random

    from spec_tests.models.oracle import Oracle, Row, Version

ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row", "append")
NESTED = "ARRAY<ROW<x INT, y STRING>>"
FUNCTIONS = {
    "INT": ("sum", "sum", "product", "max", "min", "last_value", "last_non_null_value", "first_value", "first_non_null_value"),
    "STRING": ("listagg", "max", "min", "last_value", "last_non_null_value", "first_value", "first_non_null_value"),
    "BOOLEAN": ("bool_and", "bool_or"),
    "ARRAY<INT>": ("collect", "collect distinct"),
    "MAP<STRING, INT>": ("merge_map",),
    NESTED: ("nested_update",),
}
RETRACTING = ("sum", "product", "last_value", "last_non_null_value", "collect", "merge_map", "nested_update")
RETRACTING_FREELY = ("sum", "last_value")
"""Retraction of these comes to the same, whatever was compacted when."""


@dataclass(kw_only=True)
class Drawn:
    """A table. `identity`: the columns of which every value has one row. `columns` and what names them change as the table is altered."""

    engine: str
    columns: dict[str, str]
    keys: tuple[str, ...]
    is_partitioned: bool
    primary_keys: tuple[str, ...]
    identity: tuple[str, ...]
    options: dict[str, str]
    is_crossing: bool = False
    is_controlled: bool = False
    ignore_delete: bool = False
    is_descending: bool = False
    has_kinds: bool = False
    removes: bool = False
    sequence: tuple[str, ...] = ()
    groups: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    removing_groups: tuple[str, ...] = ()
    functions: dict[str, str] = field(default_factory=dict)
    otherwise: str = "last_non_null_value"
    unretracted: frozenset[str] = frozenset()
    kinds: tuple[str, ...] = ("+I", "+I", "+U")
    indexes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def producer(self) -> str:
        return self.options.get("changelog-producer", "none")

    @property
    def is_postponed(self) -> bool:
        return self.options["bucket"] == "-2"

    @property
    def hides(self) -> bool:
        """Whether level 0 is not read."""
        return self.engine == "first-row" or (self.engine != "append" and self.options.get("deletion-vectors.enabled") == "true")

    @property
    def takes_deletes(self) -> bool:
        """Whether a row of kind -D deletes its key (ENGINE 1.6)."""
        return self.engine == "deduplicate" or self.removes or bool(self.removing_groups)

    @property
    def special(self) -> set[str]:
        """Columns that options name."""
        grouped = {name for sequence, members in self.groups.items() for name in (*sequence, *members)}
        return {"k", "s", "p", "kind", *self.sequence, *self.functions, *self.unretracted, *grouped}

    @property
    def plain(self) -> list[str]:
        return [name for name in self.columns if name not in self.special]

    def alike(self, name: str, value: Any) -> Any:
        """A value so that those that mean the same are equal."""
        if isinstance(value, dict):
            return tuple((one, self.alike("", part)) for one, part in value.items())
        if not isinstance(value, list):
            return value
        found = [self.alike("", one) for one in value]
        function = self.functions.get(name)
        if function == "collect distinct":
            found = list(set(found))
        return tuple(sorted(found, key=repr) if function in ("collect distinct", "merge_map", "nested_update") else found)

    def told(self, row: Row) -> str:
        """A row as text, its columns by name."""
        return repr(sorted((name, self.alike(name, value)) for name, value in row.items()))


# ---- drawing a table ------------------------------------------------------------------------------------------------------------------------------------


class _Drawing:
    def __init__(self, draw: Any, engine: str) -> None:
        self.draw, self.engine = draw, engine
        self.columns: dict[str, str] = {}
        self.options: dict[str, str] = {} if engine in ("append", "deduplicate") else {"merge-engine": engine}
        self.more: dict[str, Any] = {}

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def drawn(self) -> Drawn:
        keyed = self.engine != "append"
        keys = self.pick(("k",), ("k",), ("k", "s")) if keyed else ()
        partitions = self.pick("no", "no", "inside", "outside" if keyed else "inside")
        self.columns |= {name: {"k": "INT NOT NULL", "s": "STRING NOT NULL"}[name] for name in keys}
        if partitions != "no":
            self.columns["p"] = "INT NOT NULL"
        self._buckets(keys)
        self.outside = partitions == "outside"
        {
            "deduplicate": self._deduplicate,
            "partial-update": self._partial,
            "aggregation": self._aggregation,
            "first-row": self._first,
            "append": self._append,
        }[self.engine]()
        if keyed:
            self._producer()
        self._more(keyed=keyed)
        crossing = self.outside and self.options["bucket"] == "-1"
        inside = ("p",) if partitions == "inside" else ()
        return Drawn(
            engine=self.engine,
            columns=self.columns,
            keys=keys,
            is_partitioned=partitions != "no",
            primary_keys=(*keys, *inside) if keyed else (),
            identity=(*keys, *(("p",) if partitions != "no" and not crossing else ())) if keyed else (),
            options=self.options,
            is_crossing=crossing,
            **self.more,
        )

    def _buckets(self, keys: tuple[str, ...]) -> None:
        options = self.options
        options["file.format"] = self.pick("parquet", "parquet", "orc", "avro")
        if not keys:
            self.columns |= {"k": "INT", "a": "INT", "b": "STRING"}
            options["bucket"] = self.pick("-1", "-1", "2")
            if options["bucket"] == "2":
                options["bucket-key"] = "k"
            return
        options["bucket"] = self.pick("1", "2", "3", "-1", "-1", "-2")
        if options["bucket"] == "-1":
            options["dynamic-bucket.target-row-num"] = self.pick("2", "3", "2000000")
        if options["bucket"] == "-2":
            options["postpone.default-bucket-num"] = self.pick("1", "2")
        if int(options["bucket"]) > 0 and keys == ("k",) and self.pick(False, True):
            options["bucket-function.type"] = "mod"

    def _deletes(self) -> bool:
        if self.pick(False, False, True):
            self.options["ignore-delete"], self.more["ignore_delete"] = "true", True
        return not self.more.get("ignore_delete")

    def _kinds(self, *also: str) -> None:
        self.more["kinds"] = ("+I", "+I", "+I", "+U", *also)

    def _sequence(self, *, may_descend: bool) -> None:
        if self.outside or not self.pick(False, True):
            return
        names = self.pick(("q",), ("q",), ("q", "r"))
        self.columns |= dict.fromkeys(names, "INT")
        self.options["sequence.field"], self.more["sequence"] = ",".join(names), names
        # what waits in a postponed bucket goes through one buffer, which sorts upward whatever the option says
        if may_descend and self.options["bucket"] != "-2" and self.pick(False, False, True):
            self.options["sequence.field.sort-order"], self.more["is_descending"] = "descending", True

    def _deduplicate(self) -> None:
        self.columns |= {"a": "INT", "b": "STRING", "c": "BIGINT"}
        self._kinds("-U", "-D", "-D")
        if self.outside and self.options["bucket"] == "-1":
            return  # a key that moves leaves a delete behind, which these options would take from it, here as in the reference
        self._sequence(may_descend=True)
        self._deletes()
        if self.pick(False, False, False, True):
            self.columns["kind"], self.options["rowkind.field"], self.more["has_kinds"] = "STRING", "kind", True

    def _partial(self) -> None:
        self.columns |= {"a": "INT", "b": "STRING", "c": "BIGINT"}
        how = self.pick("plain", "ignore", "remove", "groups", "groups", "retract", "remove by group")
        if how == "remove by group" and self.outside:
            how = "groups"  # as of aggregation that removes
        if how in ("plain", "ignore"):
            self._sequence(may_descend=False)
        if how == "ignore":
            self.options["ignore-delete"], self.more["ignore_delete"] = "true", True
            self._kinds("-U", "-D")
        if how == "remove":
            self.options["partial-update.remove-record-on-delete"], self.more["removes"] = "true", True
            self._kinds("-D", "-D")
        if how in ("groups", "retract", "remove by group"):
            self._groups(how)

    def _groups(self, how: str) -> None:
        self.columns |= {"g": "INT", "v": "INT", "w": "STRING", "h": "INT", "x": "INT"}
        first = self.pick(("g",), ("g", "i"))
        self.columns |= dict.fromkeys(first, "INT")
        groups = {first: ("v", "w"), ("h",): ("x",)}
        for sequence, members in groups.items():
            self.options[f"fields.{','.join(sequence)}.sequence-group"] = ",".join(members)
        self.more["groups"] = groups
        functions = {name: "sum" for name in ("v", "x") if self.pick(False, True)}
        self.options |= {f"fields.{name}.aggregate-function": function for name, function in functions.items()}
        self.more["functions"] = functions
        if how != "groups":
            self._control()
            self._kinds("-U", "-D", "-D")
        if how == "remove by group":
            self.options["partial-update.remove-record-on-sequence-group"] = "h"
            self.more["removing_groups"] = ("h",)

    def _control(self) -> None:
        self.more["is_controlled"], self.options["write-only"] = True, "true"
        if self.options["bucket"] == "-2":
            self.options["bucket"] = "2"

    def _aggregation(self) -> None:
        how = self.pick("adds", "adds", "retracts freely", "retracts freely", "retracts", "removes")
        if how in ("retracts freely", "removes") and self.outside:
            # two retractions that meet before the row they are of would leave the partition without a value; a key that was deleted goes on from what
            # the delete says (the reference's too) where its new bucket is its old one, which the dict does not know
            how = "adds"
        functions, unretracted = {}, set()
        for at in range(self.pick(2, 3, 4)):
            text = self.pick(*FUNCTIONS)
            name, function = f"f{at}", self.pick(*FUNCTIONS[text])
            if how.startswith("retracts") and function not in (RETRACTING if how == "retracts" else RETRACTING_FREELY):
                unretracted.add(name)
                self.options[f"fields.{name}.ignore-retract"] = "true"
            self.columns[name], functions[name] = text, function
            self._function(name, function)
        self.columns |= {"a": "INT", "b": "STRING"}
        if how == "adds":
            self._sequence(may_descend=False)
        else:
            self._kinds("-U", "-D", "-D")
        if how == "retracts freely":
            self.options["fields.default-aggregate-function"], self.more["otherwise"] = "last_value", "last_value"
        if how.startswith("retracts") and self.outside:
            self.options["fields.p.ignore-retract"] = "true"
        if how in ("retracts", "removes"):
            self._control()
        if how == "removes":
            self._kinds("-D", "-D")
            self.options["aggregation.remove-record-on-delete"], self.more["removes"] = "true", True
        self.more |= {"functions": functions, "unretracted": frozenset(unretracted)}

    def _function(self, name: str, function: str) -> None:
        self.options[f"fields.{name}.aggregate-function"] = function.split(maxsplit=1)[0]
        if function == "collect distinct":
            self.options[f"fields.{name}.distinct"] = "true"
        if function == "nested_update":
            self.options[f"fields.{name}.nested-key"] = "x"

    def _first(self) -> None:
        self.columns |= {"a": "INT", "b": "STRING"}
        if not self._deletes():
            self._kinds("-U", "-D")

    def _append(self) -> None:
        if self.pick(False, True):
            self.options["deletion-vectors.enabled"] = "true"
        self.options["compaction.min.file-num"] = self.pick("2", "3", "5")

    def _producer(self) -> None:
        found = self.pick("none", "input", "lookup", "lookup", "full-compaction") if self.engine != "first-row" else self.pick("none", "lookup")
        if found != "none":
            self.options["changelog-producer"] = found
        if found in ("lookup", "full-compaction") and self.pick(False, True):
            self.options["changelog-producer.row-deduplicate"] = "true"
        if self.engine != "first-row" and found != "full-compaction" and self.pick(False, True):
            self.options["deletion-vectors.enabled"] = "true"

    def _more(self, *, keyed: bool) -> None:
        if keyed and "write-only" not in self.options and self.pick(False, False, True):
            self.options["write-only"] = "true"
        drawn: dict[str, tuple[str, ...]] = {"manifest.merge-min-count": ("2",), "metadata.stats-mode": ("none", "full", "truncate(4)")}
        if "deletion-vectors.enabled" in self.options:
            drawn["deletion-vectors.bitmap64"] = ("true",)
        if keyed:
            drawn |= {
                "num-sorted-run.compaction-trigger": ("1", "2", "3"),
                "num-levels": ("2", "3", "4"),
                "data-file.thin-mode": ("true",),
                "file.format.per.level": ("0:avro", "0:parquet,1:orc"),
                "changelog-file.format": ("avro",),
            }
        for name, choices in drawn.items():
            found = self.pick(None, None, *choices)
            if found is not None:
                self.options[name] = found


@st.composite
def tables(draw: Any, engine: str) -> Drawn:
    """A table of that engine."""
    return _Drawing(draw, engine).drawn()


# ---- drawing rows ---------------------------------------------------------------------------------------------------------------------------------------


def value(rng: Random, text: str, function: str | None, nulls: float) -> Any:
    """A value of a type, small enough to be met again."""
    if text.endswith("NOT NULL"):
        text, nulls = text.removesuffix(" NOT NULL"), 0
    if rng.random() < nulls:
        return None
    match text:
        case "INT" | "BIGINT":
            return rng.choice((1, 1, 2, -1)) if function == "product" else rng.randrange(8)
        case "STRING":
            return rng.choice(("p", "q", "r", "ß"))
        case "BOOLEAN":
            return rng.random() < 0.5
        case "DOUBLE":
            return rng.choice((0.5, 2.0, -1.25))
        case "ARRAY<INT>":
            return [rng.randrange(3) for _ in range(rng.randrange(3))]
        case "MAP<STRING, INT>":
            return [{"key": key, "value": rng.randrange(9)} for key in rng.sample("xyz", rng.randrange(3))]
        case _:
            return [{"x": key, "y": rng.choice("uvw")} for key in rng.sample((1, 2, 3), rng.randrange(3))]


def rows(rng: Random, oracle: Oracle, number: int, *, kinds: tuple[str, ...] | None = None, unique: bool = False) -> list[Version]:
    """Rows of one commit that the table takes, whenever it was compacted."""
    drawn = oracle.drawn
    found: list[Version] = []
    met = set()
    for _ in range(number):
        row = {name: value(rng, text, drawn.functions.get(name), 0.3) for name, text in drawn.columns.items()}
        row |= {name: rng.randrange(7) if name == "k" else rng.choice("xy") for name in drawn.keys}
        if "p" in row:
            row["p"] = rng.randrange(3)
        key = oracle.key(row)
        if (unique or drawn.is_controlled or drawn.is_descending or (drawn.is_crossing and drawn.engine != "deduplicate")) and key in met:
            continue
        met.add(key)
        known = oracle.known(row, found)
        kind = fitting(rng, drawn, rng.choice(kinds or drawn.kinds), row, known)
        if drawn.has_kinds:
            row["kind"] = kind
        found.append((kind, row))
    return found


def fitting(rng: Random, drawn: Drawn, kind: str, row: Row, known: list[Version]) -> str:
    """Makes a row one that its key takes; the kind it then has."""
    retracts = kind in ("-U", "-D") and not drawn.ignore_delete
    if retracts and drawn.engine in ("partial-update", "aggregation") and not _is_there(known, drawn):
        kind, retracts = "+I", False
    if known and drawn.sequence and (drawn.engine != "deduplicate" or known[-1][0] in ("-U", "-D") or any(one in ("-U", "-D") for one, _ in known)):
        _not_older(drawn, row, known)
    if drawn.engine == "partial-update":
        for names in drawn.groups:
            if not known or not _is_there(known, drawn):
                row.update({name: rng.randrange(8) for name in names if row[name] is None})
        if drawn.removes and any(one == "-D" for one, _ in known):
            row.update({name: value(rng, text, None, 0) for name, text in drawn.columns.items() if row[name] is None})
    return kind


def _is_there(known: list[Version], drawn: Drawn) -> bool:
    adds = [one for one in known if not (drawn.ignore_delete and one[0] in ("-U", "-D"))]
    return bool(adds) and folded(adds, drawn)[0] not in ("-U", "-D")


def _not_older(drawn: Drawn, row: Row, known: list[Version]) -> None:
    newest = max((one for _, one in (*known, folded(known, drawn))), key=lambda one: sequence_of(one, drawn))
    if sequence_of(row, drawn) < sequence_of(newest, drawn):
        row.update({name: newest[name] for name in drawn.sequence})
