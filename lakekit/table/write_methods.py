"""Methods of a table that write: append, upsert, overwrite, delete, update, merge, commit.

Messages of writers in other processes are committed here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekit import maintenance
from lakekit.commit import abort as abandoned
from lakekit.commit.committer import CommitValidation, commit_changes
from lakekit.commit.overwrite import Overwrite
from lakekit.data_file import rolling_writer
from lakekit.ddl import schema_writer as schemas
from lakekit.ddl.schema_changes import AddColumn, UpdateType
from lakekit.dml import delete_update, merge as merging, row_change
from lakekit.errors import ColumnAlreadyExists, InvalidOption, SchemaMismatch
from lakekit.metadata import table_context
from lakekit.model.commit_message import CommitMessage
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.read.table_scan import TableCore, context_of
from lakekit.read.user_expressions import translate_panics
from lakekit.table.table_writer import Writer, partition_spec
from lakekit.write import input_frames, row_conversion, value_casting

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from lakekit.commit.changes import Commit
    from lakekit.dml.merge_plan import Clause
    from lakekit.dml.row_change import RowChangeResult
    from lakekit.metadata.table_context import TableContext
    from lakekit.write.input_frames import InputFrames


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WriteMethods(TableCore):
    """Methods that write rows.

    A frame is a Polars DataFrame or LazyFrame (streamed), anything with an Arrow stream, an iterator of those, or a
    list of dicts.
    """

    def append(self, frame: object, *, cast: bool = False, merge_schema: bool = False) -> Commit:
        """Add rows. In a key table they are upserted: the newest row of a key stands.

        Columns match by name; missing ones are null or their default. Values are cast only where none changes;
        `cast=True` casts as Polars' strict cast does. `merge_schema=True` first adds the frame's new columns and widens
        types.

        Raises: `SchemaMismatch` and `ValueOutOfRange` naming column and value, `Conflict`, `RetriesExhausted`,
        `CommitStateUnknown`, `StorageFailed`. After an error nothing was committed (but see `CommitStateUnknown`), and
        the files written on the way are gone.
        """
        return self._write(frame, self._context(), row_kind=None, cast=cast, merge_schema=merge_schema)

    def upsert(
        self, frame: object, *, row_kind: str | None = None, cast: bool = False, merge_schema: bool = False
    ) -> Commit:
        """Write rows by key: each is inserted, or merged with the existing row by the table's merge engine.

        `row_kind`: a column of "+I", "-U", "+U", "-D" that says what each row does; it is not written. Else as
        `append`.
        """
        ctx = self._context()
        if ctx.kind == "append":
            msg = f"{ctx.name} has no primary key, so there is nothing to upsert by: t.append(frame) adds rows"
            raise InvalidOption(msg, key="primary-key")
        return self._write(frame, ctx, row_kind=row_kind, cast=cast, merge_schema=merge_schema)

    def overwrite(self, frame: object, *, partition: Mapping[str, Any] | None = None, cast: bool = False) -> Commit:
        """Replace everything; in a partitioned table the partitions that the frame has rows of.

        With `dynamic-partition-overwrite` false that is everything, too. `partition`: `{"dt": "2024-03-31"}` replaces
        that partition (all that match, where only some partition columns are named); every row must lie in it.

        Raises: what `append` raises.
        """
        with self.writer(overwrite=True if partition is None else partition) as writer:
            writer.write(frame, cast=cast)
            return writer.commit()

    def truncate(self) -> Commit:
        """Remove all rows, in one commit. Snapshots before it still have them."""
        ctx = self._context()
        return maintenance.after_commit.maintain_after_commit(
            ctx, row_change.delete_partitions(ctx, Overwrite.entire_table())
        )

    def drop_partitions(self, partitions: Sequence[Mapping[str, Any]]) -> Commit:
        """Remove every partition that matches one of `[{"dt": "2024-03-31"}, …]`.

        A spec may name some of the partition columns.

        Raises: `ColumnNotFound`.
        """
        specs = [
            partition_spec(partition)
            for partition in (
                [partitions] if isinstance(partitions, Mapping) or not isinstance(partitions, Iterable) else partitions
            )
        ]
        if not specs:
            msg = "no partition is named: the list is empty. t.partitions() lists them; t.truncate() removes all rows"
            raise InvalidOption(msg, key="partitions")
        if not all(specs):
            msg = "an empty partition spec matches everything: t.truncate() removes all rows"
            raise InvalidOption(msg, key="partitions")
        ctx = self._context()
        return maintenance.after_commit.maintain_after_commit(
            ctx, row_change.delete_partitions(ctx, Overwrite.partitions(specs))
        )

    def writer(
        self,
        *,
        commit_user: str | None = None,
        overwrite: bool | Mapping[str, Any] | None = None,
        compact: bool | None = None,
        state: bytes | None = None,
    ) -> Writer:
        """Return a writer for many frames, two-phase or streaming writes: a context manager, for one thread.

        `commit_user`: the user of the commits, for writers that count their commits by identifiers. `overwrite`: as
        `t.overwrite`, True or a partition. `compact=False` only adds files (as option `write-only`), `compact=True`
        compacts although the table says `write-only`. `state`: of an earlier writer.
        """
        return Writer.of(self._context(), commit_user=commit_user, overwrite=overwrite, compact=compact, state=state)

    def commit(
        self,
        messages: Sequence[CommitMessage],
        *,
        commit_user: str,
        identifier: int | None = None,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Commit:
        """Commit what writers prepared, in any process: exactly once per commit user and identifier.

        A pair that was committed before returns that commit. `identifier` None is 2^63-1, for users who commit once.

        Raises: `InvalidOption` for facts that no snapshot can hold, `StorageFailed` for messages whose files a disk
        does not have (they were aborted, or are another table's), `Conflict` (another commit has those messages, or
        changed what they need), `RetriesExhausted` (nothing changed), `CommitStateUnknown` (call it again to learn).
        """
        ctx, taken = self._context(), _messages(messages)
        committed = commit_changes(
            ctx,
            taken,
            commit_user=commit_user,
            identifier=BATCH_IDENTIFIER if identifier is None else identifier,
            watermark=watermark,
            properties=properties,
            validation=CommitValidation(missing_files=not ctx.storage.is_remote, committed_files=True),
        )
        return maintenance.after_commit.maintain_after_commit(ctx, committed, taken)

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Delete the files of messages that were never passed to a commit.

        Raises: `Conflict` for messages whose commit may have happened.
        """
        abandoned.abort(self._context(), _messages(messages))

    def _write(
        self, frame: object, ctx: TableContext, *, row_kind: str | None, cast: bool, merge_schema: bool
    ) -> Commit:
        table_context.check_writable(ctx)
        rows: object = frame
        if merge_schema:
            rows = taken = input_frames.open_input(frame, ctx)
            if taken.schema is not None:
                _grow(self, taken, taken.schema, row_kind=row_kind, cast=cast)
            ctx = self._context()
        with Writer.of(ctx, commit_user=None, overwrite=None, compact=None, state=None) as writer:
            writer.write(rows, row_kind=row_kind, cast=cast)
            return writer.commit()

    def delete(self, where: pl.Expr | str) -> Commit:
        """Delete the rows of which `where` is true. Where it is null, rows stay.

        `where`: a Polars expression or SQL text, `"dt < '2024-01-01' AND v IS NULL"`. Whole partitions, and everything,
        go without reading rows. In key tables deletes are written as rows where the merge engine takes them; else, and
        in append tables, the files concerned are rewritten, or their rows marked where `deletion-vectors.enabled` says
        so. No such row: no commit, and `snapshot_ids` is empty.

        Raises: `ColumnNotFound` and `SchemaMismatch` for the condition, `InvalidOption` if the table's options leave
        no way to delete, `Conflict` if another commit changed the same files meanwhile.
        """
        ctx = self._context()
        with translate_panics(ctx.name, where=where):
            changed = delete_update.delete(ctx, where)
        return _run_after_commit(ctx, changed)

    def update(self, set: Mapping[str, Any], /, *, where: pl.Expr | str) -> Commit:  # noqa: A002 - as in SQL
        """Set columns to new values in the rows of which `where` is true.

        `t.update({"v": pl.col("v") + 1, "s": "upper(s)"}, where="k = 7")`. A value is a Polars expression over the old
        row, SQL text (so that a text as value is `"'closed'"` or `pl.lit("closed")`), or any other value. In key tables
        of the engines deduplicate and partial-update the rows are written again, in append tables the files concerned,
        or, with deletion vectors, the new rows.

        Raises: `InvalidOption` for other engines, and where merging would take a new value back, as NULL for a column
        of partial-update or a `sequence.field` that falls; `SchemaMismatch` for a column of the primary key or a value
        of another type, `ValueOutOfRange`, and what `delete` raises.
        """
        ctx = self._context()
        with translate_panics(ctx.name, set=set, where=where):
            changed = delete_update.update(ctx, set, where)
        return _run_after_commit(ctx, changed)

    def merge(self, source: object, *clauses: Clause, on: Sequence[str] | pl.Expr | str) -> Commit:
        """Merge the rows of a source into the table.

        `t.merge(new, lk.when_matched(update="all"), lk.when_not_matched(), on=["k"])`. `source` is any frame that
        `append` takes; it is read once and held, the table is streamed. `on`: columns that are equal on both sides, or
        a condition, `"t.k = s.k AND t.dt = '2024-03-31'"`, or `pl.col("k") == lk.source("k")`. Of the clauses of a kind
        the first true one acts on a row. Key tables of the engines deduplicate and partial-update, and append tables.

        Raises: `MergeConflict` if several source rows match a target row and there is a `when_matched` clause,
        `ColumnNotFound`, `SchemaMismatch`, `ValueOutOfRange`, `InvalidOption`, and what `delete` raises.
        """
        ctx = self._context()
        with translate_panics(ctx.name, clauses=clauses, on=on):
            changed = merging.merge(ctx, source, clauses, on)
        return _run_after_commit(ctx, changed)


def _messages(argument: object) -> list[CommitMessage]:
    """Return the messages passed in, also those of an iterator, which gives them once.

    Raises: `TypeError` for what is none.
    """
    messages: list[Any] = (
        list(argument) if isinstance(argument, Iterable) and not isinstance(argument, (str, bytes)) else [argument]
    )
    for message in messages:
        if not isinstance(message, CommitMessage):
            msg = (
                "messages of a commit are those that w.prepare() gave, and lk.CommitMessage.from_bytes(…) of their "
                f"bytes; found {type(message).__name__}"
            )
            raise TypeError(msg)
    return messages


def _grow(
    table: TableCore, input_frames: InputFrames, schema: Mapping[str, pl.DataType], *, row_kind: str | None, cast: bool
) -> None:
    """Add the columns and widen the types that a frame needs.

    When another writer adds one first, only the remaining changes are made. Rows that are in memory are looked at
    first: for a row that is refused the table does not grow, nor by a column that its files would not hold.
    """
    for last in (False, False, True):
        ctx = context_of(table)
        changes = value_casting.schema_changes(schema, ctx, row_kind=row_kind)
        table_changes = [
            (AddColumn if isinstance(change, value_casting.AddedColumn) else UpdateType)(
                path=change.path, type=change.type
            )
            for change in changes
        ]
        try:
            if table_changes:
                grown = ctx.with_schema(schemas.plan_next_schema(ctx.location, table_changes))
                rolling_writer.check_columns(grown.schema, grown.options)
                if input_frames.is_single_frame:
                    row_conversion.convert_batches(input_frames, grown, cast=cast, row_kind=row_kind)
                schemas.alter_schema(ctx, table_changes)
        except (ColumnAlreadyExists, SchemaMismatch):
            if last:
                raise
        else:
            return


def _run_after_commit(ctx: TableContext, change_result: RowChangeResult) -> Commit:
    return maintenance.after_commit.maintain_after_commit(ctx, change_result.commit, change_result.messages)
