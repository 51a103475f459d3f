"""One change of rows under way: rows written by a table writer, files and vectors that go, and one commit of all of it, or nothing.

    with RowChange.of(handle) as change:
        change.write(frame)
        change.messages += rewriting.without(…)
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
    """A change that is done: its commit, and the messages that were committed, whose partitions may be complete now."""

    commit: Commit
    messages: tuple[CommitMessage, ...] = ()


@dataclass(slots=True, kw_only=True, eq=False)
class RowChange:
    """A change of one table, by a user drawn for it. `messages`: what was done besides writing rows."""

    ctx: TableContext
    user: str
    messages: list[CommitMessage] = field(default_factory=list)
    _writers: BucketWriters

    @staticmethod
    def of(ctx: TableContext, *, only_adds: bool = False, share: WriteShard | None = None) -> RowChange:
        """A change of a table; `only_adds`: its writers leave compaction to others, since files that go must stand as they were found.

        `share`: of a change that is cut into tasks, which rows are written here.
        """
        user = ctx.new_commit_user()
        writing = ctx.with_options({"write-only": "true"}) if only_adds else ctx
        return RowChange(ctx=ctx, user=user, _writers=BucketWriters(writing, commit_user=user, shard=share))

    def write(self, frame: pl.DataFrame) -> None:
        """Takes rows as `conform.batches` gives them."""
        self._writers.write(frame)

    def prepare(self) -> list[CommitMessage]:
        """What was done, as messages for a commit. From here on the files are the messages'."""
        self.messages += self._writers.prepare()
        done, self.messages = self.messages, []
        return done

    def commit(self) -> RowChangeResult:
        """Makes it visible. Raises what `publish` raises; nothing has changed then, but after `CommitStateUnknown` nobody knows."""
        messages = self.prepare()
        return RowChangeResult(commit=commit_changes_once(self.ctx, messages, commit_user=self.user), messages=tuple(messages))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._writers.drop()
        abort.abort(self.ctx, self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChangeSpec:
    """What a statement does to rows that it finds by a condition, to those of some places like to all.

    `fill` writes to a change, of a table in which the rows were found, what becomes of them. `only_adds` is that of `RowChange.of`. `by_place`: what happens in
    one place, (partition, bucket), does not depend on the others. `replaces`: nothing is to be read, these go.
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
    """Commits that partitions, or everything, go: nothing is read but metadata."""
    return commit_changes_once(ctx, (), commit_user=ctx.new_commit_user(), overwrite=overwrite)
