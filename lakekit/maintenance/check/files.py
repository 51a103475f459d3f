"""Check data and changelog files: each exists, has the size and row count of its manifest entry, and a valid end.

Each directory is listed once. Row counts come from the footers of Parquet and ORC files and from the block heads of
Avro files; other formats have none.
Source: FORMAT.md 4.3, 7; RELIABILITY I4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.data_file.paths import data_file_paths
from lakekit.draw.humanize import format_count
from lakekit.maintenance.check.findings import INDEX_ANEW, RESTORE, ROLLBACK
from lakekit.maintenance.check.footers import row_count
from lakekit.model.data_file import INDEX_SUFFIX, format_of
from lakekit.world import parallel_map

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakekit.maintenance.check.findings import Findings
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.manifest_entries import ManifestEntries

FILES_PER_TASK = 32


def paths(ctx: TableContext, entries: ManifestEntries, notes: Findings) -> list[str] | None:
    """Where files lie; None where a name or a partition is no good, which is noted."""
    with notes.reading("place of a file", ctx.root):
        return data_file_paths(ctx, entries)
    return None


def sizes(ctx: TableContext, wanted: Iterable[str]) -> dict[str, int]:
    """Return the size of every file in the directories of some paths, by path."""
    directories = sorted({path.rpartition("/")[0] for path in wanted})
    listed = parallel_map(ctx.storage.list, directories, waiting=ctx.storage.is_remote)
    return {
        f"{directory}/{entry.name}": entry.size_bytes
        for directory, entries in zip(directories, listed, strict=True)
        for entry in entries
        if not entry.is_dir
    }


def check(ctx: TableContext, entries: ManifestEntries, at: list[str], what: str, notes: Findings) -> list[int]:
    """Check the files of some entries, which lie at the paths `at`; return the indices of intact ones."""
    names = entries.column("file_name").to_pylist()  # scalar: one a file, as everything here
    expected_sizes, rows, extra = (
        entries.column(name).to_pylist() for name in ("file_size", "row_count", "extra_files")
    )  # scalar: one a file
    notes.paths.update(at)
    actual_sizes: dict[str, int] = {}
    with notes.reading("directory", ctx.root):
        actual_sizes = sizes(ctx, at)
    notes.paths.discard(ctx.root)
    intact = []
    for i, path in enumerate(at):
        size_bytes = actual_sizes.get(path)
        if size_bytes is None:
            notes.wrong(
                f"{what} is missing",
                f"the manifest lists {names[i]} with {format_count(rows[i])} rows, no file is there",
                path=path,
                remedy=ROLLBACK,
            )
        elif size_bytes != expected_sizes[i]:
            message = f"{format_count(size_bytes)} bytes are there, the manifest says {format_count(expected_sizes[i])}"
            notes.wrong(f"{what} has another size", message, path=path, field="_FILE_SIZE", remedy=RESTORE)
        else:
            intact.append(i)
        for name in extra[i]:
            extra_path = ctx.layout.extra_file(path, name)
            notes.paths.add(extra_path)
            if extra_path not in actual_sizes:
                message = f"{names[i]} names {name}, which is not there"
                remedy = INDEX_ANEW if name.endswith(INDEX_SUFFIX) else ROLLBACK
                notes.wrong("extra file is missing", message, path=extra_path, field="_EXTRA_FILES", remedy=remedy)

    def counted(chunk: list[int]) -> list[tuple[int, int | None]]:
        return [(i, row_count(ctx, at[i], format_of(names[i]), expected_sizes[i], what, notes)) for i in chunk]

    good = []
    remote = ctx.storage.is_remote
    step = 1 if remote else FILES_PER_TASK
    parts = parallel_map(counted, [intact[i : i + step] for i in range(0, len(intact), step)], waiting=remote)
    for i, found_rows in (pair for part in parts for pair in part):
        if found_rows is not None and found_rows != rows[i]:
            message = f"the file holds {format_count(found_rows)} rows, the manifest says {format_count(rows[i])}"
            notes.wrong(f"{what} has another row count", message, path=at[i], field="_ROW_COUNT", remedy=RESTORE)
        elif found_rows is not None:
            good.append(i)
    return good
