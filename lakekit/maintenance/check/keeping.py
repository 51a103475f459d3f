"""What keeps files, in every branch: snapshots, tags, long-lived changelogs and consumers can be read. While one cannot, nothing expires and no orphan goes.

Only that they can be read is looked at: what they name is that of the newest snapshot alone. And schemas, whose numbers have no gap: files of older snapshots
may be of one that is lost. Source: RELIABILITY D5, I15.
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
_BRANCH = "t.delete_branch({branch!r}) removes what is left of it; t.remove_orphans does where it was begun a day ago and never finished"
_MAX_FINDINGS = 8
_SCHEMA = "put it back from a copy: files that were written with it cannot be read"


def check(ctx: TableContext, notes: Findings) -> None:
    """Looks at the roots of all branches, and at the schemas of the handle's own."""
    known = {one.path for one in notes.problems}
    with suppress(StorageFailed):
        for branch in roots.branches(ctx):
            own = roots.on_branch(ctx, branch)
            for what, damaged in _find_unreadable(own):
                if damaged.path not in known:
                    field = damaged.field if isinstance(damaged, Corrupt) else None
                    remedy = _CONSUMER if what == "consumer" else _ROOT
                    notes.wrong(f"{what} is unreadable", damaged.message, path=damaged.path, field=field, remedy=remedy)
            if branch != ctx.layout.branch and not schemas.ids(own):
                message = f"branch {branch!r} has no schema: it was not made whole, or not removed whole, and no orphan of the table goes while it is there"
                notes.better("branch is half there", message, path=own.layout.branch_root, remedy=_BRANCH.format(branch=branch))
    numbers = schemas.ids(ctx)
    for gap in missing_ranges(numbers):
        for number in gap[:_MAX_FINDINGS]:
            path = ctx.layout.schema(number)
            if path not in known:
                notes.wrong("schema is missing", f"schema {number} is not there, and others before and after are", path=path, remedy=_SCHEMA)
        if len(gap[_MAX_FINDINGS:]):
            message = f"schemas {gap[_MAX_FINDINGS]} to {gap[-1]} are not there, and others before and after are"
            notes.wrong("schema is missing", message, path=ctx.layout.schema_dir, remedy=_SCHEMA)


def _find_unreadable(ctx: TableContext) -> list[UnreadableRoot]:
    """The files of one branch that cannot be read."""

    def of_root(one: tuple[roots.Kind, str, Stat]) -> UnreadableRoot | None:
        try:
            with suppress(FileMissing, Unsupported):
                roots.read(ctx, *one)
        except (Corrupt, StorageFailed) as damaged:
            return one[0], damaged.at(one[2].path) if isinstance(damaged, Corrupt) else damaged
        return None

    wrong = [one for one in map_io(of_root, roots.list_roots(ctx), is_remote=ctx.storage.is_remote) if one is not None]
    for name in consumers.ids(ctx):
        try:
            consumers.find(ctx, name)
        except (Corrupt, StorageFailed) as damaged:
            wrong.append(("consumer", damaged))
    return wrong
