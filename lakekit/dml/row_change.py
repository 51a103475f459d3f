"""A change of rows in progress, committed as a whole or not at all.

It consists of rows written by a table writer, and files and deletion vectors to remove.

    with RowChange.of(ctx) as change:
        change.write(frame)
        rewriting.drop(change, stored, touched)
        return change.commit()

Leaving the block without a commit deletes every file that was made. Source: ENGINE.md 8.3; `PaimonSparkWriter`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from lakekit.commit import abort
from lakekit.commit.committer import commit_changes_once
from lakekit.write.table_writers import BucketWriters

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    import polars as pl

    from lakekit.commit.overwrite import Overwrite
    from lakekit.commit.result import Commit
    from lakekit.dml.matching_rows import TargetRows
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.commit_message import CommitMessage
    from lakekit.write.shares import WriteShard


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChangeResult:
    """The commit of a change, and the committed messages, whose partitions may be complete now."""

    commit: Commit
    messages: tuple[CommitMessage, ...] = ()


@dataclass(slots=True, kw_only=True, eq=False)
class RowChange:
    """A change of one table, by a new commit user. `messages`: what was done besides writing rows."""

    ctx: TableContext
    user: str
    messages: list[CommitMessage] = field(default_factory=list)
    _writers: BucketWriters

    @staticmethod
    def of(ctx: TableContext, *, only_adds: bool = False, shard: WriteShard | None = None) -> RowChange:
        """Return a new change of a table.

        `only_adds`: its writers do not compact, since files to remove must stay as they were found. `shard`: the rows
        to write here, of a change divided into tasks.
        """
        user = ctx.new_commit_user()
        writing = ctx.with_options({"write-only": "true"}) if only_adds else ctx
        return RowChange(ctx=ctx, user=user, _writers=BucketWriters(writing, commit_user=user, shard=shard))

    def write(self, frame: pl.DataFrame) -> None:
        """Write rows as `row_conversion.batches` gives them."""
        self._writers.write(frame)

    def prepare(self) -> list[CommitMessage]:
        """Return what was done, as messages for a commit. From here on the caller owns the files."""
        self.messages += self._writers.prepare()
        done, self.messages = self.messages, []
        return done

    def commit(self) -> RowChangeResult:
        """Commit the change.

        Raises what a commit raises; nothing has changed then, but after `CommitStateUnknown` the outcome is unknown.
        """
        messages = self.prepare()
        return RowChangeResult(
            commit=commit_changes_once(self.ctx, messages, commit_user=self.user), messages=tuple(messages)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writers.drop()
        abort.abort(self.ctx, self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChangeSpec:
    """What a statement does to the rows that satisfy its condition, in some buckets as in all.

    `fill` writes the change of the found rows. `only_adds` is that of `RowChange.of`. `by_place`: what happens in one
    bucket, (partition, bucket), does not depend on the others. `replaces`: nothing is read, these partitions are
    dropped.
    """

    ctx: TableContext
    found: TargetRows
    where: pl.Expr
    only_adds: bool
    fill: Callable[[RowChange, TargetRows], None]
    by_place: bool
    replaces: Overwrite | None = None

    def commit(self) -> RowChangeResult:
        """All of it, in one commit; none where there are no such rows."""
        if self.replaces is not None:
            return RowChangeResult(commit=replace(self.ctx, self.replaces))
        with RowChange.of(self.ctx, only_adds=self.only_adds) as change:
            self.fill(change, self.found)
            return change.commit()


def replace(ctx: TableContext, overwrite: Overwrite) -> Commit:
    """Commit the removal of partitions, or of everything: only metadata is read."""
    return commit_changes_once(ctx, (), commit_user=ctx.new_commit_user(), overwrite=overwrite)
