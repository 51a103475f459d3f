"""A table as plain dicts: for each key the versions since they last became one row, and what they come to under the merge engine, row by row.

    oracle = Oracle(drawn)          drawn: `tables.Drawn`, the table that was drawn
    oracle.write([("+I", row), …])  rows of one commit; where level 0 is not read they wait for `settle`
    oracle.rows()                   what a reader sees

Written from ENGINE.md 1.3, 2.10, 3 and 7.5, and knowing nothing of lakekit's merge. Append tables are keyed by a number for each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spec_tests.models.tables import Drawn

Row = dict[str, Any]
Version = tuple[str, Row]
RETRACTS = ("-U", "-D")


class Oracle:
    """The rows of a table, those that wait, and its columns by way of `drawn`."""

    def __init__(self, drawn: Drawn) -> None:
        self.drawn = drawn
        self.versions: dict[Any, list[Version]] = {}
        self.waiting: list[Version] = []
        self._number = 0

    # ---- what a reader sees

    def rows(self) -> list[Row]:
        found = (folded(versions, self.drawn) for versions in self.versions.values())
        return [row for kind, row in found if kind not in RETRACTS]

    def key(self, row: Row) -> Any:
        return tuple(row[name] for name in self.drawn.identity)

    def known(self, row: Row, also: Iterable[Version] = ()) -> list[Version]:
        """Every version of a row's key, those that wait and some more included."""
        key = self.key(row)
        return [*self.versions.get(key, ()), *(one for one in (*self.waiting, *also) if self.key(one[1]) == key)]

    # ---- what happens to it

    def write(self, rows: Iterable[Version], *, seen: bool) -> None:
        """Rows as they came; `seen`: a reader sees them at once, and all that waited."""
        for kind, row in rows:
            self.waiting += self._placed(kind, dict(row))
        if seen:
            self.settle()

    def _placed(self, kind: str, row: Row) -> list[Version]:
        """What is written for a row. Where keys move between partitions their place is known from what is written, also from what nobody reads yet."""
        drawn = self.drawn
        if drawn.ignore_delete and kind in RETRACTS:
            return []
        held = self.known(row) if drawn.is_crossing else []
        if not held or folded(held, drawn)[0] in RETRACTS or held[-1][1]["p"] == row["p"]:
            return [(kind, row)]
        home = {**row, "p": held[-1][1]["p"]}
        if drawn.engine == "first-row":
            return []
        return [("-D", home), (kind, row)] if drawn.engine == "deduplicate" else [(kind, home)]

    def settle(self, holds: Callable[[Row], Any] = lambda _: True) -> None:
        waiting, self.waiting = self.waiting, []
        for kind, row in waiting:
            if holds(row):
                self._take(kind, dict(row))
            else:
                self.waiting.append((kind, row))

    def collapse(self, holds: Callable[[Row], Any] = lambda _: True) -> None:
        """A full compaction, of the rows that `holds` chooses: one version a key, and no deletes."""
        self.settle(holds)
        folds = {key: folded(versions, self.drawn) for key, versions in self.versions.items() if holds(versions[-1][1])}
        self.versions |= {key: [one] for key, one in folds.items()}
        self.versions = {key: versions for key, versions in self.versions.items() if key not in folds or folds[key][0] not in RETRACTS}

    def remove(self, holds: Callable[[Row], Any], *, waiting: bool = False) -> None:
        """Rows go without a trace; those that wait too where their folders go."""
        seen = {key: folded(versions, self.drawn)[1] for key, versions in self.versions.items()}
        self.versions = {key: versions for key, versions in self.versions.items() if not holds(seen[key])}
        if waiting:
            self.waiting = [one for one in self.waiting if not holds(one[1])]

    def each(self, change: Callable[[Row], None]) -> None:
        """Changes every row there is in place: columns come, go and get other names."""
        for _, row in (*(one for versions in self.versions.values() for one in versions), *self.waiting):
            change(row)

    def _take(self, kind: str, row: Row) -> None:
        drawn = self.drawn
        if drawn.engine == "append":
            self._number += 1
            self.versions[self._number] = [("+I", row)]
            return
        key = self.key(row)
        held = self.versions.get(key)
        if drawn.is_crossing and held and folded(held, drawn)[0] in RETRACTS:
            held.clear()  # nobody knows any more where it was
        self.versions.setdefault(key, []).append((kind, row))


def folded(versions: list[Version], drawn: Drawn) -> Version:
    """What the versions of a key, in the order in which they came, come to; its kind says whether there is a row."""
    ordered = sorted(versions, key=lambda one: sequence_of(one[1], drawn)) if drawn.sequence else versions
    if len(ordered) == 1:
        return ordered[0]
    if drawn.engine == "deduplicate":
        return ordered[-1]
    if drawn.engine == "partial-update":
        return _partial(ordered, drawn)
    return _aggregated(ordered, drawn) if drawn.engine == "aggregation" else ordered[0]


def sequence_of(row: Row, drawn: Drawn) -> list[Any]:
    """What the row says of its age, to be compared."""
    sign = -1 if drawn.is_descending else 1
    return ordinal(row[name] if row[name] is None else sign * row[name] for name in drawn.sequence)


def ordinal(values: Iterable[Any]) -> list[Any]:
    """Values that compare with null the smallest."""
    return [(value is not None, value or 0) for value in values]


# ---- partial-update -------------------------------------------------------------------------------------------------------------------------------------


def _partial(versions: list[Version], drawn: Drawn) -> Version:
    held: Row = dict.fromkeys(drawn.columns)
    begun = inserted = deleted = False
    for kind, row in versions:
        deleted = False
        if kind in RETRACTS:
            held, begun = held if begun else dict(row), True
            if drawn.groups:
                deleted, held = _grouped(held, kind, row, drawn)
            elif kind == "-D" and drawn.removes:
                deleted, held = True, dict(row)
            continue
        if drawn.groups:
            _grouped(held, kind, row, drawn)
        else:
            held.update({name: value for name, value in row.items() if value is not None})
        begun = inserted = True
    return "-D" if deleted or not inserted else "+I", held


def _grouped(held: Row, kind: str, row: Row, drawn: Drawn) -> tuple[bool, Row]:
    grouped = {name for sequence, members in drawn.groups.items() for name in (*sequence, *members)}
    retracts = kind in RETRACTS
    if not retracts:
        held.update({name: value for name, value in row.items() if name not in grouped and value is not None})
    for sequence, members in drawn.groups.items():
        if all(row[name] is None for name in sequence):
            continue
        newer = ordinal(row[name] for name in sequence) >= ordinal(held[name] for name in sequence)
        if newer and kind == "-D" and set(sequence) & set(drawn.removing_groups):
            return True, dict(row)
        for name in members:
            function = drawn.functions.get(name)
            if function and retracts:
                held[name] = retracted(function, held[name], row[name])
            elif function:
                held[name] = added(function, held[name], row[name]) if newer else added(function, row[name], held[name])
            elif newer:
                held[name] = None if retracts else row[name]
        if newer:
            held.update({name: row[name] for name in sequence})
    return False, held


# ---- aggregation ----------------------------------------------------------------------------------------------------------------------------------------


def _aggregated(versions: list[Version], drawn: Drawn) -> Version:
    held: Row = dict.fromkeys(drawn.columns)
    began: set[str] = set()
    deleted = False
    for kind, row in versions:
        deleted = drawn.removes and kind == "-D"
        if deleted:
            held = dict(row)
            continue
        for name, value in row.items():
            function = "key" if name in (*drawn.keys, "p") else "last_value" if name in drawn.sequence else drawn.functions.get(name, drawn.otherwise)
            if kind in RETRACTS:
                held[name] = held[name] if name in drawn.unretracted else retracted(function, held[name], value)
            elif function in ("first_value", "first_non_null_value"):  # a first value that was seen stays seen, also where a -D put its own in its place
                counts = function == "first_value" or value is not None
                held[name] = value if counts and name not in began else held[name]
                began |= {name} if counts else set()
            else:
                held[name] = added(function, held[name], value)
    return "-D" if deleted else "+I", held


_EITHER: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda held, new: held + new,
    "product": lambda held, new: held * new,
    "max": max,
    "min": min,
    "bool_and": lambda held, new: held and new,
    "bool_or": lambda held, new: held or new,
    "listagg": lambda held, new: f"{held},{new}",
    "collect": lambda held, new: held + new,
    "collect distinct": lambda held, new: held + [one for one in new if one not in held],
    "merge_map": lambda held, new: [one for one in held if one["key"] not in {two["key"] for two in new}] + new,
    "nested_update": lambda held, new: [*{one["x"]: one for one in (*held, *new)}.values()],
    "first_non_null_value": lambda held, _: held,
    "last_non_null_value": lambda _, new: new,
}
"""Where both are values; else the one that is."""


def added(function: str, held: Any, new: Any) -> Any:
    if function in ("key", "last_value"):
        return new
    if held is None or new is None:
        return new if held is None else held
    return _EITHER[function](held, new)


def retracted(function: str, held: Any, old: Any) -> Any:
    if function == "key":
        return old
    if function == "last_value":
        return None
    if function == "last_non_null_value":
        return held if old is None else None
    if function == "sum" and held is None:
        return None if old is None else -old
    if held is None or old is None:
        return held
    if function == "product":
        return int(held / old)
    if function == "collect":
        left = list(held)
        for one in old:
            if one in left:
                left.remove(one)
        return left
    if function == "merge_map":
        return [one for one in held if one["key"] not in {two["key"] for two in old}]
    if function == "nested_update":
        return [one for one in held if one["x"] not in {two["x"] for two in old}]
    return held - old
