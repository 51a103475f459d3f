"""What Polars raises over damaged files while lakekit itself collects a scan, as lakekit's errors with the path of the file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakekit.errors import Corrupt, LakekitError
from lakekit.files.entry_damage import with_manifest
from lakekit.files.places import data_file_paths
from lakekit.files.read import raise_damage
from lakekit.format import blocks
from lakekit.read.plan import ANYWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakekit.read.plan import Plan
    from lakekit.read.scan import Scan


@contextmanager
def named(plans: Callable[[], Sequence[Plan]]) -> Iterator[None]:
    """Around a `collect` of ours: an error about a file of some plans, which are made if there is one, becomes lakekit's with the file's path.

    Raises `Corrupt`, `FileMissing`, `StorageFailed`; an error about the query stays Polars' own.
    """
    try:
        yield
    except LakekitError as wrong:
        if isinstance(wrong, Corrupt) and wrong.path is None:
            for plan in plans():
                if plan.snapshot is not None:
                    raise with_manifest(plan.handle, plan.snapshot, wrong) from None
        raise
    except blocks.FOREIGN as wrong:
        blocks.pass_interrupt(wrong)
        for plan in plans():
            raise_damage(plan.handle, data_file_paths(plan.handle, plan.entries.take(plan.chosen)), wrong)
        raise


def plans_of(source: Scan) -> Callable[[], Sequence[Plan]]:
    """The plans of every row of a scan, for `named`."""
    return lambda: source.plans(ANYWHERE)
