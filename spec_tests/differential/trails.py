"""Scripts played, and what is seen after every step: rows, places, snapshots, changes. Two trails of one script tell the same.

wanted = play(script(7), judge, [ByReference(judge)], path, measures=True)
found = play(script(7), judge, [ByLakekit(), ByReference(judge)], other)        turn by turn on one table
apart(script(7), wanted, found)                                                 → None, or the first difference in words
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakekit.testing.expectations import canonical_value
from spec_tests.differential.judge import Refused
from spec_tests.differential.players import changes_read, rows_read
from spec_tests.differential.scripts import Overwrite, Reopen, Write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakekit.testing.expectations import Read
    from lakekit.types import DataType
    from spec_tests.differential.judge import Judge
    from spec_tests.differential.players import Player
    from spec_tests.differential.scripts import Script, Step

SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What stands after a step, told by the reference; `faults` are what lakekit reads otherwise, `broken` laws of changelogs that do not hold."""

    number: int
    player: str
    step: str
    refused: str | None
    rows: Counter[str] | None
    places: Counter[str] = field(default_factory=Counter)
    appended: tuple[tuple[str, int], ...] = ()
    compacted: tuple[tuple[int, int], ...] = ()
    changes: Counter[str] = field(default_factory=Counter)
    faults: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


def play(script: Script, judge: Judge, players: Sequence[Player], path: str, *, measures: bool = False) -> list[Seen]:
    """Every step by the next of the players in turn; the first one makes the table. `measures`: a trail to hold others against; its faults nobody asks for."""
    players[0].create(path, script)
    trail: list[Seen] = []
    dynamic: dict[str, str] = {}
    newest, replays = 0, True
    for number, step in enumerate(script.steps):
        if isinstance(step, Reopen):
            dynamic = dict(step.options)
        player = players[number % len(players)]
        refused = None
        try:
            player.take(path, step, dynamic)
        except Refused as wrong:
            refused = f"{wrong} {' '.join(wrong.trace[:4])}"
        replays = replays and not isinstance(step, Overwrite)
        found = _seen(script, judge, path, since=newest, replays=replays, measures=measures)
        trail.append(Seen(number=number, player=player.name, step=told(step), refused=refused, **found))
        if number + 1 == len(script.steps) and not measures:
            found["faults"] += tuple(_pruned(script, judge, path))
        newest = max([newest, *(one.id for one in judge.snapshots(path))])
    return trail


def told(step: Step) -> str:
    """A step in a line; of rows, the first ones."""
    text = repr(step)
    if isinstance(step, Write | Overwrite):
        text += f" of {len(step.rows)} rows {' '.join(f'{kind}{list(values)}' for kind, values in step.rows[:SHOWN])}"
    return text


def _seen(script: Script, judge: Judge, path: str, *, since: int, replays: bool, measures: bool) -> dict[str, Any]:
    faults: list[str] = []
    files = judge.files(path)
    fresh = [one for one in judge.snapshots(path) if one.id > since]
    seen: dict[str, Any] = {
        "rows": None,
        "appended": tuple((one.kind, one.delta if script.controlled or one.kind == "APPEND" else 0) for one in fresh if one.kind != "COMPACT"),
        "compacted": tuple((one.delta, one.total) for one in fresh if one.kind == "COMPACT") if script.controlled else (),
    }
    if (total := judge.snapshots(path)) and total[-1].total != sum(file.rows for file in files):
        faults.append(f"the snapshot counts {total[-1].total} rows, its files {sum(file.rows for file in files)}")
    try:
        read = judge.read(path)
    except Refused as wrong:
        return seen | {"faults": (*faults, *(() if measures else _also_refused(path, wrong)))}
    seen["rows"] = rows = texts(script, read.columns, read.types, ((None, values) for _, values in read.rows))
    seen["places"] = _places(script, judge, path)
    if not measures:
        faults += _read_alike(script, path, read.columns, read.types, rows)
        faults += _misplaced(script, judge, path, read, seen["places"])
    if script.producer != "none":
        changes = judge.changelog(path)
        seen["changes"] = texts(script, read.columns, read.types, (row for one, part in changes.items() if one > since for row in part))
        every = [row for one in changes.values() for row in one]
        faults += [] if measures else _changes_alike(script, judge, path, read)
        if replays and script.producer != "input" and all(file.level > 0 for file in files):
            seen["broken"] = tuple(_replayed(script, read, every))
    return seen | {"faults": tuple(faults)}


# ---- laws of one table -----------------------------------------------------------------------------------------------------------------------------


def _also_refused(path: str, wrong: Refused) -> list[str]:
    try:
        found = rows_read(path)
    except Refused:
        return []
    return [f"the reference cannot read it ({wrong} {' '.join(wrong.trace[:4])}), lakekit reads {len(found)} rows"]


def _read_alike(script: Script, path: str, columns: Sequence[str], types: Sequence[DataType], rows: Counter[str]) -> list[str]:
    try:
        mine = texts(script, columns, types, ((None, values) for _, values in rows_read(path)))
    except Refused as wrong:
        return [f"lakekit refuses to read it: {wrong}"]
    return [f"lakekit reads other rows than the reference: {words}"] if (words := compared(rows, mine)) else []


def _changes_alike(script: Script, judge: Judge, path: str, read: Read) -> list[str]:
    """lakekit reads the changelog with the kinds that the reference reads in a batch."""
    ids = [one.id for one in judge.snapshots(path)]
    if not ids:
        return []
    between = {"incremental-between": f"{ids[0] - 1},{ids[-1]}", "incremental-between-scan-mode": "changelog"}
    try:
        audited = judge.read(path, system="audit_log", options=between)
        mine = texts(script, read.columns, read.types, changes_read(path))
    except Refused as wrong:
        return [f"the changes are refused: {wrong}"]
    words = compared(texts(script, read.columns, read.types, ((values[0], values[1:]) for _, values in audited.rows)), mine)
    return [f"lakekit reads other changes than the reference: {words}"] if words else []


def _places(script: Script, judge: Judge, path: str) -> Counter[str]:
    """Where each key is."""
    if not script.primary_keys:
        return Counter()
    return Counter(_placed(partition, bucket, values) for partition, bucket, values in judge.placed(path, columns=_naming(script)))


def _placed(partition: str, bucket: int, values: Sequence[Any]) -> str:
    return f"{json.dumps(values)} in {partition}bucket-{bucket}"


def _naming(script: Script) -> list[str]:
    return list(dict.fromkeys((*script.primary_keys, *script.partition_keys)))


def _misplaced(script: Script, judge: Judge, path: str, read: Read, places: Counter[str]) -> list[str]:
    """One key is in one place, which for fixed buckets is the place that the reference computes."""
    if not script.primary_keys:
        return []
    named = _naming(script)
    at = [read.columns.index(name) for name in named]
    width = len(script.primary_keys)
    keys = Counter(json.dumps([values[i] for i in at[:width]]) for _, values in read.rows)
    # a key may be in several partitions where nobody looks for it in the others: in fixed and in postponed buckets (ENGINE 7.1)
    unique = script.options["bucket"] == "-1" or set(script.partition_keys) <= set(script.primary_keys)
    faults = [f"{count} rows of key {key}" for key, count in keys.items() if count > 1 and unique]
    if int(script.options["bucket"]) > 0:
        wanted = zip(read.rows, judge.buckets_of(path, read.rows), strict=True)
        computed = Counter(_placed(partition, bucket, [values[i] for i in at]) for (_, values), (partition, bucket) in wanted)
        faults += [f"keys are not where the reference puts them: {words}"] if (words := compared(computed, places)) else []
    return faults


def _replayed(script: Script, read: Read, every: Sequence[Any]) -> list[str]:
    """The changelog replayed from empty is the table."""
    at = [i for i, name in enumerate(read.columns) if name in script.primary_keys or name in script.partition_keys]
    state: dict[str, str] = {}
    faults = []
    for kind, values in every:
        key, text = json.dumps([values[i] for i in at]), _text(script, read.columns, read.types, None, values)
        if kind in ("-U", "-D"):
            if state.pop(key, None) != text:
                faults.append(f"the changelog takes back {kind}{list(values)}, which was not there")
        else:
            if key in state:
                faults.append(f"the changelog adds {kind}{list(values)} beside {state[key]}")
            state[key] = text
    rows = texts(script, read.columns, read.types, ((None, values) for _, values in read.rows))
    if words := compared(rows, Counter(state.values())):
        faults.append(f"the changelog replayed is not the table: {words}")
    return faults[:SHOWN]


def _pruned(script: Script, judge: Judge, path: str) -> list[str]:
    """The reference finds every row by its values, past bounds and indexes of files, and reads what system tables tell."""
    try:
        read = judge.read(path)
        for system in ("files", "manifests", "snapshots", "schemas", "partitions", "buckets"):
            judge.read(path, system=system)
    except Refused as wrong:
        return [f"the reference cannot tell rows or files: {wrong} {' '.join(wrong.trace[:4])}"]
    faults = []
    for i, (name, t) in enumerate(zip(read.columns, read.types, strict=True)):
        if t.root in ("FLOAT", "DOUBLE", "VARIANT") or t.is_nested:
            continue
        counts = Counter(json.dumps(values[i]) for _, values in read.rows)
        for text, count in list(counts.items())[:SHOWN]:
            found = len(judge.placed(path, where=(name, json.loads(text))))
            if found != count:
                faults.append(f"where {name} is {text} the reference finds {found} rows of {count}")
    return faults


# ---- comparing ---------------------------------------------------------------------------------------------------------------------------------------


def texts(script: Script, columns: Sequence[str], types: Sequence[DataType], rows: Any) -> Counter[str]:
    """Rows without what has no meaning, by kind where they have one."""
    return Counter(_text(script, columns, types, kind, values) for kind, values in rows)


def _text(script: Script, columns: Sequence[str], types: Sequence[DataType], kind: str | None, values: Sequence[Any]) -> str:
    cells = [canonical_value(value, t) for value, t in zip(values, types, strict=True)]
    for i, name in enumerate(columns):
        if name in script.unordered and cells[i] is not None:
            cells[i] = sorted(cells[i], key=json.dumps)
    return f"{kind or ''}{json.dumps(cells, ensure_ascii=False)}"


def compared(wanted: Counter[str], found: Counter[str]) -> str | None:
    """None, or what is too much and too little."""
    more, less = list((found - wanted).elements()), list((wanted - found).elements())
    if not more and not less:
        return None
    return f"{found.total()} of {wanted.total()}; {len(more)} too many: {more[:SHOWN]}; {len(less)} missing: {less[:SHOWN]}"


def apart(script: Script, wanted: Sequence[Seen], found: Sequence[Seen]) -> str | None:
    """The first step after which two trails of the script differ, or None."""
    # the reference's assigner of dynamic buckets also sees rows that are ignored; across partitions it assigns row by row what keys left in the same commit
    dynamic = script.options["bucket"] == "-1"
    crossing = not set(script.partition_keys) <= set(script.primary_keys)
    assigned_alike = not (dynamic and (crossing or "ignore-delete" in script.options))
    lawless = False
    for java, mine in zip(wanted, found, strict=True):
        lawless = lawless or bool(java.broken)  # engine 1.4.2 does not always tell what it did
        words = [*mine.faults, *(() if lawless else mine.broken)]
        if (java.refused is None) != (mine.refused is None):
            words.append(f"refused: {java.refused!r} by the reference, {mine.refused!r} by {mine.player}")
        if (java.rows is None) != (mine.rows is None):
            words.append(f"readable: {java.rows is not None}, {mine.rows is not None}")
        elif java.rows is not None and mine.rows is not None and (rows := compared(java.rows, mine.rows)):
            words.append(f"rows: {rows}")
        elif assigned_alike and (places := compared(java.places, mine.places)):
            words.append(f"places: {places}")
        if java.appended != mine.appended:
            words.append(f"snapshots (kind, rows added): {mine.appended}, expected {java.appended}")
        if java.compacted != mine.compacted:
            words.append(f"compactions (rows added, rows): {mine.compacted}, expected {java.compacted}")
        if script.producer in ("input", "lookup") and (changes := compared(java.changes, mine.changes)):
            words.append(f"changelog: {changes}")
        if words:
            before = "\n".join(f"    {one.number} {one.player}: {one.step}{' REFUSED' if one.refused else ''}" for one in found[: mine.number + 1])
            return "\n  ".join([script.told(), f"after step {mine.number} by {mine.player}:", *words]) + f"\n{before}"
    return None
