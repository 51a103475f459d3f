"""What two runs of a recipe must have alike: the reads of a table, and the meaning of a byte format.

Names (UUIDs), moments, users of batch commits and the sizes of files that hold such differ from run to run, and so does the order of splits: they are
taken away from both sides by the rules of this module, none of which knows a case.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import lakekit as lk
from lakekit.testing.expectations import Case, Read, canonical_value
from lakekit.types import TIMESTAMPS

if TYPE_CHECKING:
    from pathlib import Path

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MOMENT = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?|20\d\d-\d\d-\d\d( \d\d)?|1[678]\d{11}")
WRITER = re.compile(r"(?<=-s-)\d+(?=-w-)")
"""The number that a writer of postponed files draws for the names of its files."""
OF_ROWS = ("audit_log", "binlog", "ro", "row_tracking", None)
"""System tables that show the table's own rows: nothing in them depends on the run."""
DRAWN = "dynamic-bucket.max-buckets"
"""With this option the engine draws the bucket of some keys by lot: only the rows are the same in every run."""
BY_THE_WAY = ("data_file_avro", "data_file_parquet", "index_manifest", "manifest", "manifest_list", "schema")
"""Formats whose files hold sync markers, names or moments; all others are the same byte for byte."""


def text(value: str) -> str:
    return MOMENT.sub("{moment}", UUID.sub("{uuid}", WRITER.sub("{writer}", value)))


def meaning(case: Case) -> dict[str, Any]:
    """A case without what its run alone explains."""
    told: dict[str, Any] = {"about": case.about, "features": case.features, "primary_keys": case.primary_keys, "partition_keys": case.partition_keys}
    drawn = DRAWN in lk.open(case.path).options
    sizes = {"manifests": ("file_size",)}
    if not case.primary_keys:  # compactions of append files take them in the order of their names
        sizes |= dict.fromkeys(("files", "partitions", "buckets"), ("file_size_in_bytes",))
    for read in case.reads:
        told[f"{text(read.name)} of {read.branch}"] = of_read(read, sizes.get(read.system or "", ()), only_columns=drawn and read.system not in OF_ROWS)
    return told


def of_read(read: Read, sizes: tuple[str, ...], *, only_columns: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"system": read.system, "options": {key: text(value) for key, value in read.options.items()}}
    if read.error is not None:
        return told | {"error": text(read.error.partition("[")[0])}
    told |= {"columns": read.columns, "types": read.types}
    return told if only_columns else told | {"rows": Counter(row(read, kind, values, sizes) for kind, values in read.rows)}


def row(read: Read, kind: str, values: tuple[Any, ...], sizes: tuple[str, ...]) -> str:
    told = []
    for name, t, value in zip(read.columns, read.types, values, strict=True):
        shown = canonical_value(value, t)
        if read.system not in OF_ROWS:
            if shown is not None and (t.root in TIMESTAMPS or name in sizes):
                shown = "{run}"
            elif name == "dv_ranges":  # in the order of file names, and so are their places in the file
                shown = sorted([length, count] for _, _, length, count in shown or ())
            shown = json.loads(text(json.dumps(shown)))
        told.append(shown)
    return json.dumps([kind, told], ensure_ascii=False)


def of_format(path: Path) -> dict[str, Any]:
    """What stands beside the bytes of a format, and the bytes where they are the same in every run."""
    told = json.loads(UUID.sub("{uuid}", path.read_text(encoding="utf-8")))
    if path.parent.name in BY_THE_WAY:
        return {name: value for name, value in told.items() if name != "timeMillis"}
    return told | {"bytes": path.with_suffix(".bin").read_bytes()}
