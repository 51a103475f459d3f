"""Which files of a table some root names, those too that it says are gone: a file that is none of them is an orphan.

`kept.needed` is what something reads; the reference, and lakekit, let what is only named lie until nothing names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.data_file import paths
from lakekit.maintenance import reachability
from lakekit.metadata import manifest_reader
from spec_tests.reliability.kept import needed_of

if TYPE_CHECKING:
    from lakekit.metadata.table_context import TableContext


def named_by_any(handle: TableContext) -> set[str]:
    """Whole paths."""
    found = needed_of(handle)
    for root in reachability.read_all_roots(handle):
        lasts = root.kind == "changelog"
        if lasts and root.snapshot.changelog_manifest_list is not None:
            continue
        entries = manifest_reader.read_entries(handle, manifest_reader.manifest_files(handle, root.snapshot, "delta" if lasts else "all"))
        for at, beside in zip(paths.data_file_paths(handle, entries), entries.column("extra_files").to_pylist(), strict=True):
            found |= {at, *(handle.paths.extra_file(at, name) for name in beside)}
    return found
