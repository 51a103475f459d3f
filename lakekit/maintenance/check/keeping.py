"""Check that everything that keeps files can be read, in every branch.

That is snapshots, tags, long-lived changelogs and consumers. While one of them cannot be read, nothing expires and no
orphan file is removed. Only readability is checked here: the files they name are checked for the newest snapshot alone.
Gaps between schema ids are reported too, since files of older snapshots may need the missing schema. Source:
RELIABILITY D5, I15.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakekit.errors import Corrupt, StorageFailed, Unsupported
from lakekit.maintenance import roots
from lakekit.maintenance.check.history import missing_ranges
from lakekit.metadata import consumers, schemas
from lakekit.storage.protocol import FileMissing
from lakekit.world import map_io

if TYPE_CHECKING:
    from lakekit.maintenance.check.findings import Findings
    from lakekit.metadata.table_context import TableContext
    from lakekit.storage.protocol import Stat

    UnreadableRoot = tuple[str, Corrupt | StorageFailed]

_ROOT = "put it back from a copy, or delete it: until then nothing expires and no orphan goes"
_CONSUMER = "t.reset_consumer writes it anew or forgets it: until then nothing expires"
_BRANCH = (
    "t.delete_branch({branch!r}) removes what is left of it; t.remove_orphans does where it was begun a day ago and "
    "never finished"
)
_MAX_FINDINGS = 8
_SCHEMA = "put it back from a copy: files that were written with it cannot be read"


def check(ctx: TableContext, notes: Findings) -> None:
    """Check the roots of all branches, and the schemas of the current one."""
    reported = {problem.path for problem in notes.problems}
    with suppress(StorageFailed):
        for branch in roots.branches(ctx):
            own = roots.on_branch(ctx, branch)
            for what, damaged in _find_unreadable(own):
                if damaged.path not in reported:
                    field = damaged.field if isinstance(damaged, Corrupt) else None
                    remedy = _CONSUMER if what == "consumer" else _ROOT
                    notes.wrong(f"{what} is unreadable", damaged.message, path=damaged.path, field=field, remedy=remedy)
            if branch != ctx.layout.branch and not schemas.ids(own):
                message = (
                    f"branch {branch!r} has no schema: it was not made whole, or not removed whole, and no orphan of "
                    "the table goes while it is there"
                )
                notes.better(
                    "branch is half there", message, path=own.layout.branch_root, remedy=_BRANCH.format(branch=branch)
                )
    numbers = schemas.ids(ctx)
    for gap in missing_ranges(numbers):
        for number in gap[:_MAX_FINDINGS]:
            path = ctx.layout.schema(number)
            if path not in reported:
                notes.wrong(
                    "schema is missing",
                    f"schema {number} is not there, and others before and after are",
                    path=path,
                    remedy=_SCHEMA,
                )
        if len(gap[_MAX_FINDINGS:]):
            message = f"schemas {gap[_MAX_FINDINGS]} to {gap[-1]} are not there, and others before and after are"
            notes.wrong("schema is missing", message, path=ctx.layout.schema_dir, remedy=_SCHEMA)


def _find_unreadable(ctx: TableContext) -> list[UnreadableRoot]:
    """Return the roots and consumers of one branch that cannot be read, with their errors."""

    def of_root(root: tuple[roots.Kind, str, Stat]) -> UnreadableRoot | None:
        try:
            with suppress(FileMissing, Unsupported):
                roots.read(ctx, *root)
        except (Corrupt, StorageFailed) as damaged:
            return root[0], damaged.at(root[2].path) if isinstance(damaged, Corrupt) else damaged
        return None

    wrong = [
        root for root in map_io(of_root, roots.list_roots(ctx), is_remote=ctx.storage.is_remote) if root is not None
    ]
    for name in consumers.ids(ctx):
        try:
            consumers.find(ctx, name)
        except (Corrupt, StorageFailed) as damaged:
            wrong.append(("consumer", damaged))
    return wrong
