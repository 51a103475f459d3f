"""A snapshot as a tree: its lists, their manifests, entries of the selected one; and index files.

    base   manifest-list-a1   ├ ▆▆▆▆▆▆  manifest-31   412 entries   dt 2024-01-01 .. 2024-03-31   84.1 KiB
                              └ ▆       manifest-40    18 entries   dt 2024-03-30 .. 2024-03-31    6.0 KiB   skipped: dt
    delta  manifest-list-b7   └ ▆       manifest-44   +3 -12        dt 2024-03-31                  2.2 KiB
    index  index-manifest-2   └         index-7       4 deletion vectors, 1 203 rows

A bar is as long as the square root of a manifest's entries, those that remove files in a colour of their own. With a
filter each manifest says whether a scan opens it, and each entry whether its file is read. Long lists show their first
rows and a count of the others. Pure: no table, no clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakekit.draw import cards
from lakekit.draw.humanize import (
    display_width,
    escape_controls,
    format_count,
    format_size,
    plural,
    truncate,
    truncate_heading,
)
from lakekit.draw.shapes import DEFAULT_WIDTH, Drawing, Marker, Rect, Shape, Stroke, TextShape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIRST_ROWS = 24
"""Rows of a list that are shown at first."""
MAX_ROWS = 1500
"""Rows of a list that are shown at most."""
MORE_PREFIX = "more of "
"""The prefix of the key of a row that stands for omitted ones."""
ROW_HEIGHT = 18.0
"""The height of a row, in pixels."""
_BAR_X, _NAME_X, _COUNT_X, _PARTITION_X, _SIZE_X, _STATE_X = 0.03, 0.135, 0.33, 0.45, 0.82, 0.835
"""The positions of the columns: fractions of the width."""
_LETTER_WIDTH = 0.0088
"""The fraction of the width that a letter takes in a narrow page."""
_UUID_IN_NAME = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


# ---- facts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFact:
    """A manifest in a list.

    `partitions` is a text of its partition bounds; `skip_columns` names the columns whose bounds let a scan skip it.
    """

    name: str
    size_bytes: int
    added_count: int
    removed_count: int
    schema_id: int = 0
    partitions: str = ""
    buckets: tuple[int, int] | None = None
    levels: tuple[int, int] | None = None
    skip_columns: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFact:
    """A manifest list: `kind` is "base", "delta" or "changelog"; `error` says why it cannot be read."""

    kind: str
    name: str
    manifests: tuple[ManifestFact, ...]
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFact:
    """An index file.

    `row_count` is the number of hashes or of vectors; `vectors` are data files and how many rows each loses (None:
    unknown).
    """

    name: str
    type: str
    partition: str
    bucket: int
    size_bytes: int
    row_count: int
    vectors: tuple[tuple[str, int | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestTree:
    """The manifests and index files of a snapshot; `snapshot_id` 0: the table has none.

    `filter_text` is the filter in force, as it was typed, `selected_file_count` how many files it leaves.
    """

    table: str
    snapshot_id: int
    lists: tuple[ListFact, ...]
    kind: str = ""
    index_manifest: str = ""
    indexes: tuple[IndexFact, ...] = ()
    missing_index_note: str = ""
    filter_text: str = ""
    selected_file_count: int = 0

    def manifest(self, name: str) -> ManifestFact | None:
        """Return the manifest of that name, None without one."""
        return next((m for listed in self.lists for m in listed.manifests if m.name == name), None)

    def index(self, name: str) -> IndexFact | None:
        """Return the index file of that name, None without one."""
        return next((fact for fact in self.indexes if fact.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFact:
    """An entry of a manifest.

    `min_key` and `max_key` are the smallest and largest key as text, `read_outcome` what a read under the filter does
    with its file.
    """

    kind: str
    partition: str
    bucket: int
    level: int
    name: str
    size_bytes: int
    row_count: int
    min_key: str = ""
    max_key: str = ""
    read_outcome: str = ""


def shorten_name(name: str) -> str:
    """Return a file's name with its long number cut: `manifest-34cab9d6…-0`."""
    return _UUID_IN_NAME.sub(r"\1…", escape_controls(name))


def tree_title(tree: ManifestTree) -> str:
    """Return the title: `orders at snapshot 7 (APPEND) · 3 manifests · 430 entries · 92.3 KiB`."""
    if not tree.snapshot_id:
        return f"{truncate_heading(tree.table)} · no snapshot: nothing was written yet"
    manifests = [m for listed in tree.lists for m in listed.manifests]
    sums = [
        plural(len(manifests), "manifest"),
        plural(sum(m.added_count + m.removed_count for m in manifests), "entry", "entries"),
        format_size(sum(m.size_bytes for m in manifests)),
    ]
    return " · ".join([f"{truncate_heading(tree.table)} at snapshot {tree.snapshot_id} ({tree.kind})", *sums])


def describe_filter(tree: ManifestTree) -> str:
    """Return a sentence on what the filter does to the manifests; "" without one."""
    if not tree.filter_text:
        return ""
    read = [m for listed in tree.lists if listed.kind != "changelog" for m in listed.manifests]
    opened = sum(not m.skip_columns for m in read)
    return (
        f"filter {escape_controls(tree.filter_text)}: {format_count(opened)} of {plural(len(read), 'manifest')} "
        f"opened, {plural(tree.selected_file_count, 'file')} read"
    )


def format_entry_counts(manifest: ManifestFact) -> str:
    """Return the number of entries, `412 entries`, or `+3 -12` if the manifest deletes files too."""
    return (
        f"+{format_count(manifest.added_count)} -{format_count(manifest.removed_count)}"
        if manifest.removed_count
        else plural(manifest.added_count, "entry", "entries")
    )


def describe_index(index_file: IndexFact) -> str:
    """Return `4 deletion vectors, 1 203 rows`, or how many hashes."""
    if index_file.type != "DELETION_VECTORS":
        return (
            plural(index_file.row_count, "hash", "hashes")
            if index_file.type == "HASH"
            else f"{escape_controls(index_file.type)}, {plural(index_file.row_count, 'row')}"
        )
    counted = [rows for _, rows in index_file.vectors if rows is not None]
    rows = "rows not counted" if len(counted) < len(index_file.vectors) else plural(sum(counted), "row")
    return f"{plural(len(index_file.vectors), 'deletion vector')}, {rows}"


def format_coverage(manifest: ManifestFact) -> str:
    """Return the partitions, buckets and levels that a manifest covers as text, of those that it has statistics of."""
    parts = [escape_controls(manifest.partitions)] if manifest.partitions else []
    for name, ends in (("bucket", manifest.buckets), ("L", manifest.levels)):
        if ends is not None:
            gap = "" if name == "L" else " "
            parts.append(f"{name}{gap}{ends[0]}" if ends[0] == ends[1] else f"{name}{gap}{ends[0]}..{ends[1]}")
    return ", ".join(parts)


def scan_outcome(tree: ManifestTree, manifest_list: ListFact, manifest: ManifestFact) -> str:
    """Return whether a scan under the filter opens a manifest, as text; "" without a filter."""
    if not tree.filter_text:
        return ""
    if manifest_list.kind == "changelog":
        return "for changes only"
    return f"skipped: {escape_controls(manifest.skip_columns)}" if manifest.skip_columns else "opened"


def manifest_tooltip(manifest: ManifestFact) -> str:
    """Return a manifest in one line."""
    skipped = f"skipped: {escape_controls(manifest.skip_columns)}" if manifest.skip_columns else ""
    parts = [
        escape_controls(manifest.name),
        format_entry_counts(manifest),
        format_coverage(manifest),
        format_size(manifest.size_bytes),
        f"schema {manifest.schema_id}",
        skipped,
    ]
    return " · ".join(part for part in parts if part)


# ---- geometry --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRow:
    """A line of the tree.

    `key` is what choosing it means, "" for nothing; `cells` are texts and the fraction of the width where they begin
    (or end, negative). `added_fraction` and `removed_fraction` are fractions of the longest bar. `depth` 0 is a list, 1
    what is in it.
    """

    key: str
    depth: int
    cells: tuple[tuple[float, str], ...]
    top: float
    added_fraction: float = 0.0
    removed_fraction: float = 0.0
    hint: str = ""
    is_dimmed: bool = False
    is_last: bool = False
    is_index: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLayout:
    """The rows of a tree from top to bottom, and their height together."""

    rows: tuple[TreeRow, ...]
    height: float


def layout_tree(tree: ManifestTree, *, limits: Mapping[str, int] | None = None, selected: str = "") -> TreeLayout:
    """Return the lines of a tree.

    `limits` says how many rows of a list ("base", …, "index") are shown; the selected row is shown in any case.
    """
    longest = max((m.added_count + m.removed_count for listed in tree.lists for m in listed.manifests), default=0)
    rows: list[TreeRow] = []
    for listed in tree.lists:
        sums = sum(m.added_count + m.removed_count for m in listed.manifests)
        head = listed.error or f"{plural(len(listed.manifests), 'manifest')}, {plural(sums, 'entry', 'entries')}"
        rows.append(_head_row(listed.kind, listed.name, head))
        visible = _shown_rows([m.name for m in listed.manifests], listed.kind, limits, selected)
        rows += [_manifest_row(tree, listed, listed.manifests[at], longest) for at in visible]
        if (left := len(listed.manifests) - len(visible)) > 0:
            hidden = set(range(len(listed.manifests))) - set(visible)
            others = sum(listed.manifests[at].added_count + listed.manifests[at].removed_count for at in hidden)
            rows.append(
                _more_row(listed.kind, f"… {plural(left, 'more manifest')}, {plural(others, 'entry', 'entries')}")
            )
    if tree.index_manifest:
        rows.append(
            _head_row("index", tree.index_manifest, tree.missing_index_note or plural(len(tree.indexes), "index file"))
        )
        visible = _shown_rows([fact.name for fact in tree.indexes], "index", limits, selected)
        rows += [_index_row(tree.indexes[at]) for at in visible]
        if (left := len(tree.indexes) - len(visible)) > 0:
            rows.append(_more_row("index", f"… {plural(left, 'more index file')}"))
    ends = [row.depth == 1 and (at + 1 == len(rows) or rows[at + 1].depth == 0) for at, row in enumerate(rows)]
    placed = tuple(
        replace(row, top=at * ROW_HEIGHT, is_last=last) for at, (row, last) in enumerate(zip(rows, ends, strict=True))
    )
    return TreeLayout(rows=placed, height=len(rows) * ROW_HEIGHT)


def _shown_rows(names: Sequence[str], list_kind: str, limits: Mapping[str, int] | None, selected: str) -> list[int]:
    """Return the indices of the visible rows: the first, and the selected one."""
    limit = min(MAX_ROWS, (limits or {}).get(list_kind, FIRST_ROWS))
    if limit + 1 >= len(names):
        return list(range(len(names)))
    indices = list(range(limit))
    return indices + [at for at in range(limit, len(names)) if names[at] == selected]


def _head_row(list_kind: str, name: str, note: str) -> TreeRow:
    return TreeRow(key="", depth=0, cells=((0.0, list_kind), (0.09, shorten_name(name)), (_PARTITION_X, note)), top=0)


def _more_row(list_kind: str, note: str) -> TreeRow:
    return TreeRow(
        key=MORE_PREFIX + list_kind, depth=1, cells=((_NAME_X, note),), top=0, hint=f"{note}: choose to see more"
    )


def _manifest_row(tree: ManifestTree, manifest_list: ListFact, manifest: ManifestFact, longest: int) -> TreeRow:
    total = manifest.added_count + manifest.removed_count
    bar = (total / longest) ** 0.5 if longest else 0.0
    cells = (
        (_NAME_X, truncate(shorten_name(manifest.name), 25)),
        (_COUNT_X, truncate(format_entry_counts(manifest), 15)),
        (_PARTITION_X, truncate(format_coverage(manifest), 38)),
    )
    return TreeRow(
        key=manifest.name,
        depth=1,
        cells=(
            *cells,
            (-_SIZE_X, format_size(manifest.size_bytes)),
            (_STATE_X, truncate(scan_outcome(tree, manifest_list, manifest), 21)),
        ),
        top=0,
        added_fraction=bar * manifest.added_count / total if total else 0.0,
        removed_fraction=bar * manifest.removed_count / total if total else 0.0,
        hint=manifest_tooltip(manifest),
        is_dimmed=bool(manifest.skip_columns),
    )


def _index_row(index_file: IndexFact) -> TreeRow:
    """Return an index file: what it holds, then its bucket and as much of its partition as fits."""
    content, bucket = truncate(describe_index(index_file), 36), f"bucket {index_file.bucket}"
    start = max(_PARTITION_X, _COUNT_X + (display_width(content) + 2) * _LETTER_WIDTH)
    where = truncate(
        ", ".join(filter(None, (bucket, escape_controls(index_file.partition)))),
        int((_SIZE_X - 0.065 - start) / _LETTER_WIDTH),
    )
    cells = (
        (_NAME_X, truncate(shorten_name(index_file.name), 25)),
        (_COUNT_X, content),
        (start, where),
        (-_SIZE_X, format_size(index_file.size_bytes)),
    )
    hint_text = " · ".join(
        (
            escape_controls(index_file.name),
            describe_index(index_file),
            _index_location(index_file),
            format_size(index_file.size_bytes),
        )
    )
    return TreeRow(key=index_file.name, depth=1, cells=cells, top=0, hint=hint_text, is_index=True)


def _index_location(index_file: IndexFact) -> str:
    return ", ".join(filter(None, (escape_controls(index_file.partition), f"bucket {index_file.bucket}")))


# ---- shapes ----------------------------------------------------------------------------------------------------------


def tree_shapes(layout: TreeLayout) -> tuple[Shape, ...]:
    """Return text, tree lines and bars; x and widths are fractions of the width."""
    drawn: list[Shape] = []
    stem = 0.015
    for at, row in enumerate(layout.rows):
        middle = row.top + ROW_HEIGHT / 2
        if row.depth:
            before = layout.rows[at - 1]
            drawn.append(
                Stroke(
                    x=stem,
                    y=before.top + (ROW_HEIGHT - 2 if before.depth == 0 else ROW_HEIGHT / 2),
                    to_x=stem,
                    to_y=middle,
                )
            )
            drawn.append(Stroke(x=stem, y=middle, to_x=_BAR_X - 0.004, to_y=middle))
        room = _NAME_X - _BAR_X - 0.012
        for start, length, color in (
            (0.0, row.added_fraction, "added"),
            (row.added_fraction, row.removed_fraction, "removed"),
        ):
            if length > 0:
                bar = Rect(
                    x=_BAR_X + start * room,
                    y=middle - 5,
                    width=max(0.003, length * room),
                    height=10,
                    color=color,
                    is_faint=row.is_dimmed,
                )
                drawn.append(replace(bar, key=row.key, hint=row.hint))
        if row.is_index:
            drawn.append(
                Marker(
                    x=_BAR_X + 0.006, y=middle, size=9, color="deleted", symbol="diamond", key=row.key, hint=row.hint
                )
            )
        for x, cell_text in row.cells:
            if cell_text:
                drawn.append(
                    TextShape(
                        x=abs(x),
                        y=middle,
                        text=cell_text,
                        anchor="end" if x < 0 else "start",
                        is_bold=row.depth == 0,
                        color="text",
                    )
                )
    return tuple(drawn)


def tree_drawing(
    tree: ManifestTree, layout: TreeLayout, *, selected: str = "", note: str = "", width: float = DEFAULT_WIDTH
) -> Drawing:
    """Return the picture: title, what the filter does, the tree with a frame around the selected row."""
    heading = [tree_title(tree), *filter(None, (describe_filter(tree), note))]
    head: list[Shape] = [
        TextShape(x=0, y=9 + 16 * at, text=truncate(line, 130), is_bold=at == 0) for at, line in enumerate(heading)
    ]
    top = 18.0 * len(heading) + 4
    body: list[Shape] = []
    for shape in tree_shapes(layout):
        match shape:
            case Stroke():
                body.append(
                    replace(shape, x=shape.x * width, to_x=shape.to_x * width, y=shape.y + top, to_y=shape.to_y + top)
                )
            case Rect():
                body.append(replace(shape, x=shape.x * width, width=shape.width * width, y=shape.y + top))
            case _:
                body.append(replace(shape, x=shape.x * width, y=shape.y + top))
    frames = [row for row in layout.rows if row.key and row.key == selected]
    body += [
        Rect(
            x=_BAR_X * width - 4,
            y=top + row.top,
            width=(1 - _BAR_X) * width + 2,
            height=ROW_HEIGHT,
            color="text",
            is_outline=True,
            corner_radius=3,
        )
        for row in frames
    ]
    return Drawing(
        width=width, height=top + layout.height + 4, shapes=(*head, *body), description=". ".join(heading) + "."
    )


# ---- tables and text -------------------------------------------------------------------------------------------------

ENTRY_COLUMNS = ("kind", "partition", "bucket", "level", "file", "size", "rows", "keys", "under the filter")


def entry_rows(entries: Sequence[EntryFact], *, has_filter: bool) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Return names and rows of the entries of a manifest."""
    rows = [
        (
            fact.kind,
            fact.partition or None,
            fact.bucket,
            f"L{fact.level}",
            fact.name,
            format_size(fact.size_bytes),
            fact.row_count,
            _key_range_text(fact),
            fact.read_outcome,
        )
        for fact in entries
    ]
    return (ENTRY_COLUMNS, list(rows)) if has_filter else (ENTRY_COLUMNS[:-1], [row[:-1] for row in rows])


def _key_range_text(entry: EntryFact) -> str | None:
    if not entry.min_key and not entry.max_key:
        return None
    low, high = truncate(escape_controls(entry.min_key), 40), truncate(escape_controls(entry.max_key), 40)
    return low if low == high else f"{low} .. {high}"


def entries_title(name: str, manifest: ManifestFact | None, total: int) -> str:
    """Return the title: `entries of manifest-44: 3 files added, 12 files removed`."""
    counts = (
        plural(total, "entry", "entries")
        if manifest is None
        else f"{plural(manifest.added_count, 'file')} added, {plural(manifest.removed_count, 'file')} removed"
    )
    return f"entries of {shorten_name(name)}: {counts}"


def entries_html(
    name: str,
    manifest: ManifestFact | None,
    entries: Sequence[EntryFact],
    total: int,
    *,
    has_filter: bool,
    max_rows: int = 50,
) -> str:
    """Return at most `max_rows` entries of the selected manifest as a table, and how many more there are."""
    names, rows = entry_rows(entries[:max_rows], has_filter=has_filter)
    left = total - len(rows)
    return cards.html_table(names, rows, title=entries_title(name, manifest, total), max_rows=max_rows) + (
        f"<p>… {format_count(left)} more</p>" if left > 0 else ""
    )


def index_html(index_file: IndexFact, *, max_rows: int = 50) -> str:
    """Return the content of an index file: the vectors of data files, or its facts."""
    if not index_file.vectors:
        return cards.html_card(
            shorten_name(index_file.name),
            [
                ("type", index_file.type),
                ("holds", describe_index(index_file)),
                ("size", format_size(index_file.size_bytes)),
            ],
        )
    return cards.html_table(
        ("data file", "deleted rows"),
        list(index_file.vectors),
        title=f"{shorten_name(index_file.name)}: {describe_index(index_file)}",
        max_rows=max_rows,
    )


def tree_rows(tree: ManifestTree) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Return names and rows of all manifests and index files: the tree as a table."""
    rows: list[tuple[object, ...]] = [
        (
            listed.kind,
            m.name,
            format_entry_counts(m),
            format_coverage(m) or None,
            format_size(m.size_bytes),
            scan_outcome(tree, listed, m),
        )
        for listed in tree.lists
        for m in listed.manifests
    ]
    rows += [(listed.kind, listed.name, None, listed.error, None, "") for listed in tree.lists if listed.error]
    rows += [
        ("index", fact.name, describe_index(fact), _index_location(fact), format_size(fact.size_bytes), "")
        for fact in tree.indexes
    ]
    names = ("list", "manifest", "entries", "covers", "size", "under the filter")
    return (names, rows) if tree.filter_text else (names[:-1], [row[:-1] for row in rows])


def tree_html(tree: ManifestTree, *, max_rows: int = cards.MAX_HTML_ROWS) -> str:
    """Return the tree as a table without style blocks."""
    names, rows = tree_rows(tree)
    note = f"<p>{cards.escape(describe_filter(tree))}</p>" if tree.filter_text else ""
    return cards.html_table(names, rows, title=tree_title(tree), max_rows=max_rows) + note


def tree_text(tree: ManifestTree, *, width: int = cards.WIDTH, first: int = 8) -> str:
    """Return the tree in characters; of long lists the first rows, and a count of the others."""
    lines = [tree_title(tree), *filter(None, (describe_filter(tree),))]
    rows = layout_tree(tree, limits=dict.fromkeys(("base", "delta", "changelog", "index"), first)).rows
    names = max((len(row.cells[0][1]) for row in rows if row.depth and not row.key.startswith(MORE_PREFIX)), default=0)
    for row in rows:
        cells = [cell for _, cell in row.cells]
        if not row.depth:
            lines.append(f" {cells[0]:<9} {cells[1]} · {cells[2]}")
        elif row.key.startswith(MORE_PREFIX):
            lines.append(f"   └─ {cells[0]}")
        else:
            lines.append(
                (
                    f"   {'└' if row.is_last else '├'}─ {cells[0]:<{names}}  {cells[1]:<15}  "
                    f"{'  '.join(filter(None, cells[2:]))}"
                ).rstrip()
            )
    return "\n".join(truncate(line, width) for line in lines)
