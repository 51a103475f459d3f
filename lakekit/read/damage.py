"""What Polars raises over damaged files while lakekit itself collects a scan, as lakekit's errors with the path of the file."""

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
    """Around a `collect` of ours: an error about a file of some plans, which are made if there is one, becomes lakekit's with the file's path.

    Raises `Corrupt`, `FileMissing`, `StorageFailed`; an error about the query stays Polars' own.
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
            raise_damage(plan.ctx, data_file_paths(plan.ctx, plan.entries.take(plan.chosen)), wrong)
        raise


def plans_of(source: TableScan) -> Callable[[], Sequence[Plan]]:
    """The plans of every row of a scan, for `translate_read_errors`."""
    return lambda: source.plans(NO_FILTER)
