"""What lies outside of a table or a warehouse: told before and after, byte by byte and name by name."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import lakekit as lk

COLUMNS = {"id": "BIGINT", "v": "STRING"}
KEYED: dict[str, Any] = {"primary_keys": ["id"], "options": {"bucket": "1"}}
OLD_S = 1_500_000_000
"""When files outside were made, as their times say: everything that cleans takes them for old."""


def make_victim(folder: Path, copied: Path | None = None) -> Path:
    """Make a folder of somebody's files, with those of a folder of the table among them, all of them old; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "diary.txt").write_bytes(b"dear diary")
    (folder / "deep").mkdir(exist_ok=True)
    (folder / "deep" / "key.pem").write_bytes(b"secret")
    if copied is not None:
        for path in copied.rglob("*"):
            target = folder / path.relative_to(copied)
            if path.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())
    make_old(folder)
    return folder


def make_old(folder: Path) -> None:
    """Make everything in a folder old, what links lead to left alone."""
    for above, folders, files in os.walk(folder, topdown=False):
        for name in (*folders, *files):
            os.utime(Path(above, name), (OLD_S, OLD_S), follow_symlinks=False)


def names_and_bytes(folder: Path, *but: Path) -> dict[str, str]:
    """Return what lies in a folder by path: a digest of bytes, a link's target, or that it is a folder; what lies in the folders `but` is left out."""
    found, spared = {}, {str(path) for path in but}
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(above, name)
            if path.is_symlink():
                told = f"link to {path.readlink()}"
            elif str(path) in spared and name in folders:
                folders.remove(name)
                continue
            elif path.is_dir():
                told = "folder"
            else:
                told = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(folder))] = told
    return found


def filled(path: Path, **how: Any) -> lk.Table:
    """Make a table of three rows, each a commit of its own."""
    table = lk.create(path, COLUMNS, **(how or KEYED))
    for number in (1, 2, 3):
        (table.upsert if table.primary_keys else table.append)([{"id": number, "v": str(number)}])
    return table


def rows(table: lk.Table) -> list[Any]:
    """Return the rows of a table, in order."""
    return sorted(table.scan().collect().rows())
