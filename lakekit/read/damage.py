"""Translation of what Polars raises over damaged files, when lakekit collects a scan, to lakekit's errors."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakekit.data_file.entry_damage import with_manifest
from lakekit.data_file.paths import data_file_paths
from lakekit.data_file.reader import raise_damage
from lakekit.errors import Corrupt, LakekitError
from lakekit.format import external_reader
from lakekit.read.planner import NO_FILTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakekit.read.planner import Plan
    from lakekit.read.table_scan import TableScan


@contextmanager
def translate_read_errors(plans: Callable[[], Sequence[Plan]]) -> Iterator[None]:
    """Translate an error about a file of some plans to lakekit's error with the file's path.

    For use around a `collect`. The plans are made only if there is an error; an error about the query stays Polars'
    own.

    Raises:
        Corrupt, FileMissing, StorageFailed: a file of the plans could not be read.
    """
    try:
        yield
    except LakekitError as wrong:
        if isinstance(wrong, Corrupt) and wrong.path is None:
            for plan in plans():
                if plan.snapshot is not None:
                    raise with_manifest(plan.ctx, plan.snapshot, wrong) from None
        raise
    except external_reader.FOREIGN_FAILURES as wrong:
        external_reader.pass_interrupt(wrong)
        for plan in plans():
            raise_damage(plan.ctx, data_file_paths(plan.ctx, plan.entries.take(plan.selected)), wrong)
        raise


def plans_of(source: TableScan) -> Callable[[], Sequence[Plan]]:
    """Return the plans of every row of a scan, for `translate_read_errors`."""
    return lambda: source.plans(NO_FILTER)
