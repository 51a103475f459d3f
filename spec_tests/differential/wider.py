"""What scripts of seeds from `SEEDS` on draw besides: options and changes of columns that are rarer in tables, and met there all the same.

columns(draw)     a nested one, often        options(draw, columns, …)     more options        change(draw, columns, …)     of columns, of nested fields too
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekit.types import DataType, parse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

SEEDS = 10_000
"""Those below draw as they did when nothing of this was there."""
_OPTIONS: dict[str, tuple[str, ...]] = {
    "data-file.path-directory": ("data",),
    "data-file.prefix": ("rows-",),
    "file-index.in-manifest-threshold": ("0 b", "1 mb"),
    "file.suffix.include.compression": ("true",),
    "manifest.compression": ("snappy",),
    "manifest.delete-file-drop-stats": ("true",),
    "manifest.full-compaction-threshold-size": ("1 kb",),
    "manifest.target-file-size": ("1 kb",),
    "metadata.stats-dense-store": ("false",),
    "metadata.stats-keep-first-n-columns": ("1", "2"),
    "partition.default-name": ("__none__",),
    "partition.legacy-name": ("false",),
    "target-file-size": ("2 kb",),
}
_OPTIONS_WITH_KEYS: dict[str, tuple[str, ...]] = {
    "changelog-file.prefix": ("told-",),
    "compaction.force-up-level-0": ("true",),
    "compaction.max-size-amplification-percent": ("10",),
    "compaction.optimization-interval": ("1 ms",),
    "compaction.size-ratio": ("0", "50"),
    "force-lookup": ("true",),
    "sort-engine": ("min-heap", "loser-tree"),
}
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE")
_INDEXED = {"bitmap": (*_NUMBERS, "VARCHAR", "BOOLEAN"), "bsi": _NUMBERS, "range-bitmap": (*_NUMBERS, "VARCHAR"), "bloom-filter": (*_NUMBERS, "VARCHAR")}
_CASTS: dict[str, tuple[str, ...]] = {
    "BOOLEAN": ("STRING", "INT"),
    "TINYINT": ("INT", "STRING", "DECIMAL(9, 2)"),
    "SMALLINT": ("INT", "BIGINT", "DOUBLE"),
    "INT": ("BIGINT", "STRING", "DOUBLE", "DECIMAL(25, 3)", "SMALLINT"),
    "BIGINT": ("STRING", "INT", "DECIMAL(25, 3)"),
    "FLOAT": ("DOUBLE",),
    "DECIMAL": ("STRING", "DECIMAL(30, 4)", "DECIMAL(9, 1)"),
    "VARCHAR": ("STRING", "VARCHAR(3)"),
    "DATE": ("STRING", "TIMESTAMP(3)"),
    "TIME": ("STRING",),
    "TIMESTAMP": ("TIMESTAMP(6)", "TIMESTAMP(3)", "DATE", "STRING"),
}
"""From a type, by its root, to others."""


def columns(draw: Random) -> dict[str, DataType]:
    """A nested column, often."""
    nested = ("ROW<a INT, b STRING, c ARRAY<DATE>>", "ARRAY<ROW<x BIGINT, y DECIMAL(5, 1)>>", "ROW<a INT, d DOUBLE>")
    return {"vn": parse(draw.choice(nested))} if draw.random() < 0.4 else {}


def options(draw: Random, known: Mapping[str, DataType], fixed: frozenset[str], *, keyed: bool) -> dict[str, str]:
    """Some of them. `fixed`: columns that have no index."""
    found = {key: draw.choice(choices) for key, choices in (_OPTIONS | (_OPTIONS_WITH_KEYS if keyed else {})).items() if draw.random() < 0.15}
    for kind, types in _INDEXED.items():
        fits = [name for name, t in known.items() if t.root in types and name not in fixed]
        if fits and draw.random() < 0.2:
            found[f"file-index.{kind}.columns"] = draw.choice(fits)
    return found


def change(draw: Random, columns: dict[str, DataType], free: list[str], number: int) -> tuple[tuple[Any, ...], dict[str, DataType]] | None:
    """A change, and the columns after it; `free` may change, `number` makes a name that is new."""
    for how in draw.sample((_cast, _nested, _moved), 3):
        if free and (found := how(draw, columns, free, number)) is not None:
            return found
    return None


def _cast(draw: Random, columns: dict[str, DataType], free: list[str], number: int) -> tuple[tuple[Any, ...], dict[str, DataType]] | None:
    fits = [(name, text) for name in free for text in _CASTS.get(columns[name].root, ()) if str(columns[name]) != text]
    if not fits:
        return None
    name, text = draw.choice(fits)
    return ("update_type", name, text), columns | {name: parse(text)}


def _moved(draw: Random, columns: dict[str, DataType], free: list[str], number: int) -> tuple[tuple[Any, ...], dict[str, DataType]] | None:
    name = draw.choice(free)
    rest = [one for one in columns if one != name]
    if not rest:
        return None
    other = draw.choice(rest)
    how = draw.choice(("first", "last", "after", "before"))
    at = {"first": 0, "last": len(rest), "after": rest.index(other) + 1, "before": rest.index(other)}[how]
    order = [*rest[:at], name, *rest[at:]]
    return ("move_column", name, how, other if how in ("after", "before") else None), {one: columns[one] for one in order}


def _nested(draw: Random, columns: dict[str, DataType], free: list[str], number: int) -> tuple[tuple[Any, ...], dict[str, DataType]] | None:
    """A field of a ROW, or of an ARRAY of them, that is added, dropped, renamed or widened."""
    found = [(name, path, t) for name in free for path, t in _rows(name, columns[name])]
    if not found:
        return None
    name, path, row = draw.choice(found)
    fields = [(field.name, field.type) for field in row.fields]
    at = draw.randrange(len(fields))
    inner, t = fields[at]
    how = draw.choice(("add", "add", "drop", "rename", "cast"))
    if how == "add":
        text = draw.choice(("INT", "STRING", "DOUBLE", "ARRAY<INT>"))
        told, after = ("add_column", f"{path}.f{number}", text), [*fields, (f"f{number}", parse(text))]
    elif how == "drop":
        if len(fields) < 2:
            return None
        told, after = ("drop_column", f"{path}.{inner}"), fields[:at] + fields[at + 1 :]
    elif how == "rename":
        told, after = ("rename_column", f"{path}.{inner}", f"r{number}"), [*fields[:at], (f"r{number}", t), *fields[at + 1 :]]
    else:
        wider = {"INT": "BIGINT", "FLOAT": "DOUBLE", "DECIMAL": "DECIMAL(12, 1)"}.get(t.root)
        if wider is None or str(t) == wider:
            return None
        told, after = ("update_type", f"{path}.{inner}", wider), [*fields[:at], (inner, parse(wider)), *fields[at + 1 :]]
    return told, columns | {name: _with_fields(columns[name], after)}


def _rows(name: str, t: DataType) -> list[tuple[str, DataType]]:
    if t.root == "ROW":
        return [(name, t)]
    if t.root == "ARRAY" and t.element is not None and t.element.root == "ROW":
        return [(f"{name}.element", t.element)]
    return []


def _with_fields(t: DataType, fields: list[tuple[str, DataType]]) -> DataType:
    inside = f"ROW<{', '.join(f'{name} {one}' for name, one in fields)}>"
    return parse(inside if t.root == "ROW" else f"ARRAY<{inside}>")
