"""What is done to a table beside its rows: compacted, altered, opened otherwise, looked at in the past, asked for what it refuses."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl

import lakekit as lk
from lakekit.errors import LakekitError
from spec_tests.models.held import KIND
from spec_tests.models.oracle import RETRACTS
from spec_tests.models.row_steps import Rows
from spec_tests.models.tables import rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from spec_tests.models.oracle import Row


CASTS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "INT": {"DOUBLE": float, "STRING": str},
    "BIGINT": {"INT": int, "DOUBLE": float, "STRING": str},
}
"""None that meets another: a file's values become those of today's type at once, whatever types the column had in between."""
_WHOLE = ("INT", "BIGINT")
INDEXES = {"bloom-filter": (*_WHOLE, "STRING", "DOUBLE"), "bitmap": (*_WHOLE, "STRING"), "bsi": _WHOLE, "range-bitmap": (*_WHOLE, "STRING", "DOUBLE")}
"""Kinds of file indexes, and types that they take."""


class Shape(Rows):
    """The same rows in other files, under another schema, at another time."""

    # ---- rules: care

    def compact(self, *, full: bool) -> None:
        full = full or self.drawn.is_controlled
        self.did("compact, full" if full else "compact")
        self.compacted(full=full)

    def rescale(self, buckets: int) -> None:
        self.did("rescale", str(buckets))
        if self.drawn.hides:
            self.compacted(full=True)
        commit = self.table.rescale(buckets)
        self.drawn.options["bucket"] = str(buckets)
        self.oracle.collapse()
        self.committed(commit, replaced=lambda _: True)

    def check(self, _: int) -> None:
        self.did("check")
        self.is_sound()

    # ---- rules: another shape, other options

    def altered(self, *changes: Any) -> None:
        self.table.alter(*changes)

    def add_column(self, seed: int) -> None:
        rng = Random(seed)
        place, text = rng.choice(("", "first", "after")), rng.choice(("INT", "STRING", "BIGINT", "DOUBLE", "ARRAY<INT>"))
        name, self.added = f"n{self.added}", self.added + 1
        self.did("alter, add", f"{name} {text} {place}")
        where: dict[str, Any] = {"": {}, "first": {"first": True}, "after": {"after": next(iter(self.drawn.columns))}}[place]
        self.altered(lk.add_column(name, text, **where))
        self._added(name, text)

    def add_with_rows(self, seed: int) -> None:
        """A column that comes with the first rows that have it."""
        rng = Random(seed)
        name, self.added = f"n{self.added}", self.added + 1
        self._added(name, "BIGINT")
        found = rows(rng, self.oracle, 2)
        self.did("alter, by rows", f"{name} {found}")
        schema = {**self.table.schema.to_polars(), name: pl.Int64()}
        table = self.table
        write = table.append if self.drawn.engine == "append" else partial(table.upsert, row_kind=self.row_kind)
        self.wrote(write(self.frame(found, schema=schema), merge_schema=True), found)

    def _added(self, name: str, text: str) -> None:
        self.drawn.columns[name] = text
        self._each(lambda row: row.update({name: None}))

    def rename_column(self, seed: int) -> None:
        old = Random(seed).choice(self.drawn.plain)
        name, self.added = f"m{self.added}", self.added + 1
        self.did("alter, rename", f"{old} to {name}")
        self.altered(lk.rename_column(old, name))
        self.drawn.columns = {name if one == old else one: text for one, text in self.drawn.columns.items()}
        self.drawn.indexes = {kind: tuple(name if one == old else one for one in names) for kind, names in self.drawn.indexes.items()}
        self._each(lambda row: row.update({name: row.pop(old)}))

    def drop_column(self, seed: int) -> None:
        name = Random(seed).choice(self.drawn.plain)
        self.did("alter, drop", name)
        self._unindexed(name)
        self.altered(lk.drop_column(name))
        del self.drawn.columns[name]
        self._each(lambda row: row.pop(name))

    def _each(self, change: Callable[[Row], Any]) -> None:
        self.oracle.each(change)
        for row in self.told.values():
            change(row)

    def _unindexed(self, name: str) -> None:
        """Indexes of a column that goes, or becomes what they do not take, go first."""
        for kind, names in list(self.drawn.indexes.items()):
            if name in names:
                self.altered(lk.reset_option(f"file-index.{kind}.columns"))
                del self.drawn.indexes[kind]

    def widen(self, seed: int) -> None:
        if not self.widened:
            return
        name = Random(seed).choice(self.widened)
        self.did("alter, widen", name)
        self.altered(lk.update_type(name, "BIGINT"))
        self.drawn.columns[name] = "BIGINT"

    def retype(self, seed: int) -> None:
        """To a type that other values are of."""
        rng = Random(seed)
        able = [name for name in self.drawn.plain if self.drawn.columns[name] in CASTS]
        if not able:
            return
        name = rng.choice(able)
        text = rng.choice(list(CASTS[self.drawn.columns[name]]))
        cast = CASTS[self.drawn.columns[name]][text]
        self.did("alter, type", f"{name} to {text}")
        self._unindexed(name)
        self.altered(lk.update_type(name, text))
        self.drawn.columns[name] = text
        self._each(lambda row: row.update({name: row[name] if row[name] is None else cast(row[name])}))

    def move_column(self, seed: int) -> None:
        rng = Random(seed)
        name, other = rng.sample(list(self.drawn.columns), 2)
        where: dict[str, Any] = rng.choice(({"first": True}, {"last": True}, {"after": other}, {"before": other}))
        self.did("alter, move", f"{name} {where}")
        names = list(self.table.schema.to_polars())
        if other not in where.values() and name == names[0 if "first" in where else -1]:
            return  # it is there already, which is refused
        self.altered(lk.move_column(name, **where))

    def index(self, seed: int) -> None:
        """Files that are written from here on have indexes, and those that are there may get them."""
        rng, drawn = Random(seed), self.drawn
        kind = rng.choice(list(INDEXES))
        able = [name for name in ("k", "p", "q", *drawn.plain) if drawn.columns.get(name, "").removesuffix(" NOT NULL") in INDEXES[kind]]
        names = tuple(rng.sample(able, min(len(able), rng.choice((1, 2)))))
        self.did("alter, index", f"{kind} of {names}")
        if names:
            self.altered(lk.set_option(f"file-index.{kind}.columns", ",".join(names)))
            drawn.indexes[kind] = names
        if rng.random() < 0.5:
            self.did("rewrite indexes")
            self.committed(self.table.rewrite_file_index())

    @property
    def widened(self) -> list[str]:
        return [name for name, text in self.drawn.columns.items() if text == "INT" and name not in ("k", "p")]

    def set_option(self, seed: int) -> None:
        rng, drawn = Random(seed), self.drawn
        choices = {"file.format": ("parquet", "orc", "avro"), "metadata.stats-mode": ("full", "none"), "manifest.merge-min-count": ("2", "30")}
        choices |= {"file-index.in-manifest-threshold": ("1 b", "1 kb"), "manifest.format": ("avro", "orc", "parquet"), "file.block-size": ("1 kb", "1 mb")}
        if drawn.engine != "append":
            choices |= {"data-file.thin-mode": ("true", "false"), "changelog-file.format": ("avro", "orc")}
            choices |= {"num-sorted-run.compaction-trigger": ("1", "2", "5"), "num-levels": ("2", "5")} if self.may_have_other_levels else {}
            choices |= {} if drawn.is_controlled else {"write-only": ("true", "false")}
        key = rng.choice(list(choices))
        text = rng.choice(choices[key])
        resets = key in drawn.options and rng.random() < 0.2
        self.did("alter, reset" if resets else "alter, option", key if resets else f"{key}={text}")
        self.altered(lk.reset_option(key) if resets else lk.set_option(key, text))
        drawn.options = {one: told for one, told in drawn.options.items() if one != key} | ({} if resets else {key: text})
        self.catch_up()

    @property
    def may_have_other_levels(self) -> bool:
        """Producer full-compaction knows what it told by its being in the highest level."""
        return self.drawn.producer != "full-compaction"

    def set_mode(self, seed: int) -> None:
        """Producer and vectors change on a table that is compacted: nothing is untold, no row is below another."""
        rng, drawn = Random(seed), self.drawn
        producer, vectors = rng.choice(("none", "input", "lookup", "full-compaction")), rng.choice(("true", "false"))
        if vectors == "true" and producer == "full-compaction":
            vectors = "false"
        self.did("alter, mode", f"{producer}, vectors {vectors}")
        self.dynamic = {}
        self.compacted(full=True)
        self.altered(lk.set_option("deletion-vectors.modifiable", "true"))
        more = {"changelog-producer": producer, "deletion-vectors.enabled": vectors}
        self.altered(*(lk.set_option(key, text) for key, text in more.items()))
        self.past.clear()  # level 0 of earlier snapshots, and what lies above it, is read by other rules from here on
        drawn.options |= more
        self.told = {self.place(row): dict(row) for row in self.oracle.rows()}

    def reopen(self, seed: int) -> None:
        rng = Random(seed)
        self.dynamic = {}
        if self.drawn.engine != "append":
            if rng.random() < 0.5 and not self.drawn.is_controlled:
                self.dynamic["write-only"] = rng.choice(("true", "false"))
            if rng.random() < 0.5 and self.may_have_other_levels:
                self.dynamic["num-sorted-run.compaction-trigger"] = rng.choice(("1", "2", "4"))
            if rng.random() < 0.4:
                self.dynamic |= {"write-buffer-size": "64 b", "write-buffer-spillable": rng.choice(("true", "false"))}
        if rng.random() < 0.3:
            self.dynamic["target-file-size"] = rng.choice(("1 kb", "1 mb"))
        self.did("reopen", str(self.dynamic))
        self.catch_up()

    def catch_up(self) -> None:
        """A writer compacts the buckets it writes: what waits in others, or is untold there, is compacted first."""
        if not self.is_write_only and (self.drawn.hides or self.drawn.producer in ("lookup", "full-compaction")):
            self.compacted(full=self.drawn.producer == "full-compaction")

    # ---- rules: the past, and what is refused

    def time_travel(self, seed: int) -> None:
        at = Random(seed).choice(sorted(self.past))
        self.did("time travel", str(at))
        self.reads_as_it_was(at)

    def difference(self, seed: int) -> None:
        """What the difference of two snapshots tells is true of the second. It need not tell all: sequence numbers may have begun anew in between."""
        since, until = sorted(Random(seed).sample(sorted(self.past), 2))
        self.did("difference", f"of {since} and {until}")
        if not self.past[since][0] == self.past[until][0] == self.outline:
            return
        wanted = self.past[until][1]
        moves = (
            self.drawn.is_crossing or self.drawn.options["bucket"] == "-1"
        )  # a key that came back may lie in another bucket: gone from one, new in the other
        for row in self.table.changes(since, until, mode="diff").collect().to_dicts():
            kind, key, text = row.pop(KIND), self.oracle.key(row), self.drawn.told(row)
            told = moves or key not in wanted if kind in RETRACTS else wanted.get(key) == text
            assert told, f"the difference of snapshots {since} and {until} tells {kind}{row}, and {until} has {wanted.get(key)}"

    def refused(self, seed: int) -> None:
        """What a table does not take is an error with a name, and changes nothing."""
        rng, drawn = Random(seed), self.drawn
        (_, row), *_ = rows(rng, self.oracle, 1, kinds=("+I",))
        frame = self.frame([("+I", row)], kinds=False)
        calls: dict[str, Callable[[], Any]] = {
            "a column too many": lambda: self.table.append(frame.with_columns(more=1)),
            "a type that does not fit": lambda: self.table.append(
                frame.with_columns(pl.lit("x").alias(drawn.plain[0] if drawn.plain else "k")).with_columns(k=pl.lit("no"))
            ),
            "an option that is none": lambda: self.table.with_options({"bucket": "no"}),
        }
        if drawn.engine != "append":
            calls["a null in the key"] = lambda: self.table.append(frame.with_columns(k=pl.lit(None, pl.Int32)))
            calls["a key dropped"] = lambda: self.table.alter(lk.drop_column("k"))
        if drawn.engine in ("aggregation", "first-row"):
            calls["an update"] = lambda: self.table.update({"k": 1}, where="k = 1")
        if drawn.engine == "partial-update" and not (drawn.ignore_delete or drawn.removes or drawn.groups):
            calls["a retraction"] = lambda: self._retract(row)
        if drawn.engine == "first-row" and not (drawn.ignore_delete or drawn.is_postponed or drawn.is_crossing):
            calls["a retraction"] = lambda: self._retract(row)
        what = rng.choice(list(calls))
        if what == "a retraction" and drawn.is_postponed:
            return
        self.did(f"refused: {what}")
        try:
            calls[what]()
        except LakekitError:
            return
        msg = f"{what} was taken"
        raise AssertionError(msg)

    def _retract(self, row: Row) -> None:
        self.table.upsert(self.frame([("+I", row), ("-D", row), ("-D", row)]), row_kind=KIND)
