"""Streams side by side: what a streaming reader of the reference is handed, and what `t.follow()` tells, wherever it begins."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

import lakekit as lk
from spec_tests.differential.judge import Refused

pytestmark = pytest.mark.reference

KEYED = {"k": "INT NOT NULL", "v": "STRING"}
FIRST = [("+I", (1, "a")), ("+I", (2, "b")), ("+I", (3, "c"))]
SECOND = [("+U", (1, "x")), ("-D", (2, "b")), ("+I", (4, "d"))]
THIRD = [("+I", (5, "e")), ("-D", (3, "c")), ("+U", (1, "y"))]


@dataclass(frozen=True)
class Case:
    """A table and whether its rows may take away."""

    name: str
    keyed: bool = True
    options: dict[str, str] = field(default_factory=dict)
    retracts: bool = True


CASES = [
    Case("deduplicate"),
    Case("input", options={"changelog-producer": "input"}),
    Case("lookup", options={"changelog-producer": "lookup"}),
    Case("full-compaction", options={"changelog-producer": "full-compaction"}),
    Case("vectors", options={"deletion-vectors.enabled": "true"}),
    Case("vectors-lookup", options={"deletion-vectors.enabled": "true", "changelog-producer": "lookup"}),
    Case("overwrites", options={"streaming-read-overwrite": "true"}),
    Case("overwrites-input", options={"streaming-read-overwrite": "true", "changelog-producer": "input"}),
    Case("partial-update", options={"merge-engine": "partial-update", "changelog-producer": "lookup", "ignore-delete": "true"}),
    Case("partial-update-input", options={"merge-engine": "partial-update", "changelog-producer": "input", "ignore-delete": "true"}),
    Case("first-row", options={"merge-engine": "first-row", "changelog-producer": "lookup"}, retracts=False),
    Case("dynamic", options={"bucket": "-1", "changelog-producer": "input"}),
    Case("postponed", options={"bucket": "-2"}),
    Case("postponed-lookup", options={"bucket": "-2", "changelog-producer": "lookup"}),
    Case("postponed-overwrites", options={"bucket": "-2", "streaming-read-overwrite": "true"}),
    Case("postponed-overwrites-input", options={"bucket": "-2", "changelog-producer": "input", "streaming-read-overwrite": "true"}),
    Case("appended", keyed=False, options={"bucket": "-1"}, retracts=False),
    Case("appended-buckets", keyed=False, options={"bucket": "1", "bucket-key": "k"}, retracts=False),
    Case("appended-overwrites", keyed=False, options={"bucket": "-1", "streaming-read-append-overwrite": "true"}, retracts=False),
    Case("appended-vectors", keyed=False, options={"bucket": "-1", "deletion-vectors.enabled": "true"}, retracts=False),
]


def grown(judge, path, case: Case) -> list[int]:
    """Writes, a compaction, an overwrite and another write by the reference; the times of its snapshots."""
    judge.create(path, KEYED, primary_keys=["k"] if case.keyed else [], options={"bucket": "1", "write-only": "false", **case.options})

    def kept(rows):
        return rows if case.retracts else [("+I", values) for kind, values in rows if kind != "-D"]

    judge.write(path, kept(FIRST), user="w", identifier=1, watermark=10)
    judge.write(path, kept(SECOND), user="w", identifier=2, watermark=20)
    judge.compact(path, full=True)
    judge.write(path, kept(THIRD), user="w", identifier=3, watermark=30)
    judge.write(path, kept(FIRST[:2]), overwrite={})
    judge.write(path, kept(THIRD), user="w", identifier=4, watermark=40)
    return [one["time"].timestamp() * 1000 for one in lk.open(path).snapshots().sort("snapshot_id").to_dicts()]


def starts(times: list[float]) -> list[dict[str, str]]:
    """Options of every streaming start, at the beginning, in the middle and behind the end."""
    newest = len(times)
    found = [{}, *({"scan.mode": mode} for mode in ("latest-full", "latest", "compacted-full"))]
    for mode in ("from-snapshot", "from-snapshot-full"):
        found += [{"scan.mode": mode, "scan.snapshot-id": str(number)} for number in (1, 2, newest)]
    for time in (times[0] - 5, times[1], times[2] + 1, times[-1] + 5):
        found.append({"scan.mode": "from-timestamp", "scan.timestamp-millis": str(int(time))})
        found.append({"scan.mode": "from-creation-timestamp", "scan.creation-time-millis": str(int(time))})
        found.append({"scan.mode": "from-file-creation-time", "scan.file-creation-time-millis": str(int(time))})
    return [*found, {"scan.bounded.watermark": "20"}, {"scan.mode": "from-snapshot", "scan.snapshot-id": "1", "scan.bounded.watermark": "20"}]


def told(path, options) -> tuple[list[tuple[int, tuple]], bool]:
    """By the snapshot that comes next: rows with their kinds, sorted; and whether the first are a state."""
    changes = list(lk.open(path).follow(until="latest", options=options))
    found = [(one.snapshot_id + 1, one.frame.collect().rows()) for one in changes]
    is_state = bool(changes) and changes[0].kind == "FULL"
    return spelled([(after, [(row[0], row[1:]) for row in rows]) for after, rows in found], is_state=is_state), is_state


def ordered(rows) -> tuple:
    return tuple(sorted(((kind, tuple(values)) for kind, values in rows), key=repr))


def judged(judge, path, options, *, is_state: bool) -> list[tuple[int, tuple]]:
    """What the reference is handed, as `told`."""
    return spelled([(after, rows) for after, _, rows in judge.follow(path, options=options).plans], is_state=is_state)


def spelled(plans, *, is_state: bool) -> list[tuple[int, tuple]]:
    """Plans with rows. Of a state the reference spells +U where the last version was and its file had to be merged, and lakekit +I: here all are +I."""
    found = [(after, ordered(rows)) for after, rows in plans if rows]
    if is_state and found:
        after, rows = found[0]
        found[0] = after, ordered(("+I" if kind == "+U" else kind, values) for kind, values in rows)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_start_tells_what_the_reference_tells(judge, tmp_path, case):
    path = tmp_path / "t"
    times = grown(judge, path, case)
    different = {}
    for options in starts(times):
        found, is_state = told(path, options)
        want = judged(judge, path, options, is_state=is_state)
        if found != want:
            different[str(options)] = (found, want)
    assert not different, "\n".join(f"{asked}\n  lakekit   {found}\n  reference {want}" for asked, (found, want) in different.items())


@pytest.mark.parametrize("producer", ["none", "input"])
def test_starts_by_time_count_long_lived_changelogs(judge, tmp_path, producer):
    path = tmp_path / "t"
    kept = {"snapshot.num-retained.min": "1", "changelog.num-retained.min": "3", "changelog.num-retained.max": "9"}
    judge.create(path, KEYED, primary_keys=["k"], options={"bucket": "1", "changelog-producer": producer, **kept})
    for number in range(6):
        judge.write(path, [("+I", (number, "a"))])
    times = [int(one.timestamp() * 1000) for one in lk.open(path).snapshots().sort("snapshot_id")["time"]]
    assert len(lk.open(path).expire_snapshots(retain_max=3, retain_min=1).snapshot_ids) > 2
    asked = [{"scan.mode": "from-creation-timestamp", "scan.creation-time-millis": str(time + more)} for time in times for more in (0, 1)]
    asked += [{"scan.mode": "from-timestamp", "scan.timestamp-millis": str(time)} for time in times]
    for options in asked:
        found, is_state = told(path, options)
        assert found == judged(judge, path, options, is_state=is_state), options
        if "scan.creation-time-millis" in options:
            assert read_or_refused(lambda: lk.open(path, options=options).scan().collect().rows()) == read_or_refused(  # noqa: B023 - called here
                lambda: [values for _, values in judge.read(path, options=options).rows]  # noqa: B023
            )


def read_or_refused(read) -> list | None:
    try:
        return sorted(read())
    except (Refused, lk.LakekitError):
        return None


def test_a_consumer_of_one_is_followed_by_the_other(judge, tmp_path):
    path = tmp_path / "t"
    grown(judge, path, CASES[0])
    stream = lk.open(path).follow(1, consumer="me", until="latest")
    next(stream).ack()
    after = judge.follow(path, options={"consumer-id": "me"}, acknowledge=True).plans
    assert [number for number, _, rows in after if rows] == [3, 5, 7]
    assert lk.open(path).consumers().rows() == [("me", 7)]
    judge.write(path, [("+I", (9, "z"))])
    (last,) = lk.open(path).follow(consumer="me", until="latest")
    assert last.frame.collect().rows() == [("+I", 9, "z")]
