"""Data and changelog files: each is there, as large as its manifest says, ends as its format does, and holds as many rows.

Each directory is listed once. Row counts come from the footers of Parquet and ORC files and from the block heads of Avro files; other formats have none.
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
    """The size of every file in the directories of some paths."""
    directories = sorted({path.rpartition("/")[0] for path in wanted})
    listed = parallel_map(ctx.storage.list, directories, waiting=ctx.storage.is_remote)
    return {f"{directory}/{one.name}": one.size_bytes for directory, found in zip(directories, listed, strict=True) for one in found if not one.is_dir}


def check(ctx: TableContext, entries: ManifestEntries, at: list[str], what: str, notes: Findings) -> list[int]:
    """Looks at the files of some entries, which lie at the paths `at`; gives the numbers of those that are whole."""
    names = entries.column("file_name").to_pylist()  # scalar: one a file, as everything here
    said, rows, extra = (entries.column(name).to_pylist() for name in ("file_size", "row_count", "extra_files"))  # scalar: one a file
    notes.paths.update(at)
    there: dict[str, int] = {}
    with notes.reading("directory", ctx.root):
        there = sizes(ctx, at)
    notes.paths.discard(ctx.root)
    whole = []
    for i, path in enumerate(at):
        found = there.get(path)
        if found is None:
            notes.wrong(f"{what} is missing", f"the manifest lists {names[i]} with {format_count(rows[i])} rows, no file is there", path=path, remedy=ROLLBACK)
        elif found != said[i]:
            message = f"{format_count(found)} bytes are there, the manifest says {format_count(said[i])}"
            notes.wrong(f"{what} has another size", message, path=path, field="_FILE_SIZE", remedy=RESTORE)
        else:
            whole.append(i)
        for name in extra[i]:
            beside = ctx.layout.extra_file(path, name)
            notes.paths.add(beside)
            if beside not in there:
                message = f"{names[i]} names {name}, which is not there"
                remedy = INDEX_ANEW if name.endswith(INDEX_SUFFIX) else ROLLBACK
                notes.wrong("extra file is missing", message, path=beside, field="_EXTRA_FILES", remedy=remedy)

    def counted(chunk: list[int]) -> list[tuple[int, int | None]]:
        return [(i, row_count(ctx, at[i], format_of(names[i]), said[i], what, notes)) for i in chunk]

    good = []
    remote = ctx.storage.is_remote
    step = 1 if remote else FILES_PER_TASK
    parts = parallel_map(counted, [whole[i : i + step] for i in range(0, len(whole), step)], waiting=remote)
    for i, found_rows in (pair for part in parts for pair in part):
        if found_rows is not None and found_rows != rows[i]:
            message = f"the file holds {format_count(found_rows)} rows, the manifest says {format_count(rows[i])}"
            notes.wrong(f"{what} has another row count", message, path=at[i], field="_ROW_COUNT", remedy=RESTORE)
        elif found_rows is not None:
            good.append(i)
    return good
