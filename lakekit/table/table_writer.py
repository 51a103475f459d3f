"""A writer of a table: many frames, two phases, or a stream of commits.

    with t.writer() as w:                                   commits when the block is left cleanly
        w.write(frame); w.write(frame)

    with t.writer(commit_user="job-7") as w:                exactly once for each (user, identifier)
        w.write(frame); w.commit(identifier=1)
        w.write(frame); messages = w.prepare()              messages travel as bytes;
                                                            `t.commit(messages, commit_user=…, identifier=2)`

    state:  LKWS | version | user | 0, or 1 | last identifier | n | n × (length | message)
            | m | m × (length | partition | bucket | number) | crc32
            of `w.state()`, big-endian; the number is the greatest sequence number that a bucket was given

What `prepare` returned belongs to its messages and is never deleted here. An exception inside the block drops what was
not prepared.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self
from zlib import crc32

from lakekit import maintenance
from lakekit.codec.cursor import Cursor, encode_java_utf
from lakekit.commit import abort as abandoned, committer
from lakekit.commit.committer import commit_changes
from lakekit.commit.overwrite import Overwrite
from lakekit.draw.humanize import plural
from lakekit.errors import InvalidOption, LakekitError, UncommittedRows, Unsupported
from lakekit.model.commit_message import CommitMessage
from lakekit.model.snapshot import BATCH_IDENTIFIER
from lakekit.storage.atomic_write import defer_sync, sync_all
from lakekit.write import row_conversion
from lakekit.write.table_writers import BucketId, BucketWriters

if TYPE_CHECKING:
    from types import TracebackType

    from lakekit.commit.changes import Commit
    from lakekit.metadata.table_context import TableContext

_MAGIC, _WITHOUT_NUMBERS, _VERSION = b"LKWS", 1, 2
_CRC_BYTES = 4


@dataclass(slots=True, kw_only=True, eq=False)
class Writer:
    """A writer of a table, for one thread; `t.writer()` creates it. See the module."""

    ctx: TableContext = field(repr=False)
    commit_user: str
    is_counted: bool
    overwrite: Overwrite | None = None
    _writers: BucketWriters = field(repr=False)
    _carried: list[CommitMessage] = field(default_factory=list, repr=False)
    _pending: list[CommitMessage] = field(default_factory=list, repr=False)
    _last: int | None = None
    _is_closed: bool = False
    _is_tried: bool = False
    """Whether a commit of the pending messages was begun, whose result may be unknown."""
    _committing: TableContext = field(init=False, repr=False)
    """The same table, over a storage that syncs its small files together."""

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else plural(len(self._pending), "message") + " to commit"
        return f"Writer of {self.ctx.name}, commit_user={self.commit_user!r}, {state}"

    def __post_init__(self) -> None:
        self._committing = replace(self.ctx, storage=self._writers.ctx.storage)

    @staticmethod
    def of(
        ctx: TableContext,
        *,
        commit_user: str | None,
        overwrite: bool | Mapping[str, Any] | None,
        compact: bool | None,
        state: bytes | None,
    ) -> Writer:
        """Return a new writer; see `Table.writer`."""
        user, last, carried, sequences = (
            (commit_user, None, [], {}) if state is None else _decode_state(state, commit_user)
        )
        replaces = resolve_overwrite(ctx, overwrite)
        if compact is not None:
            ctx = ctx.with_options({"write-only": str(not compact).lower()})
        name = committer.check_text("commit_user", user) if user else ctx.new_commit_user()
        gathered = replace(ctx, storage=defer_sync(ctx.storage))
        writers = BucketWriters(
            gathered, commit_user=name, replaces=replaces is not None, batch=user is None, sequences=sequences
        )
        return Writer(
            ctx=ctx,
            commit_user=name,
            is_counted=user is not None,
            overwrite=replaces,
            _writers=writers,
            _carried=carried,
            _last=last,
        )

    def write(
        self, frame: object, *, row_kind: str | None = None, bucket: int | None = None, cast: bool = False
    ) -> None:
        """Write the rows of a frame; see `t.append`.

        `row_kind`: the column that says what each row does. `bucket`: the bucket of all rows, chosen by the caller.
        When this raises, rows before the bad one may be in: leave the block by the exception, or call `abort()`.
        """
        self._check_open()
        for batch in row_conversion.convert_batches(frame, self.ctx, cast=cast, row_kind=row_kind):
            self._writers.write(batch, bucket=bucket)

    def compact(
        self, *, partition: Mapping[str, Any] | None = None, bucket: int | None = None, full: bool = False
    ) -> None:
        """Compact the buckets this writer has written, or those of a partition and bucket.

        It does what the levels ask for; `full`: to one run each.
        """
        self._check_open()
        self._writers.compact(partition=partition, bucket=bucket, full=full)

    def prepare(self, *, wait_compaction: bool = True) -> list[CommitMessage]:
        """Return the files written since the last call, as messages for a commit.

        From here on the files belong to the messages: `t.abort(messages)` deletes them.
        """
        self._check_open()
        self._pending += self._writers.prepare(wait_compaction=wait_compaction)
        sync_all(self._committing.storage)
        messages = [*self._carried, *self._pending]
        self._carried, self._pending = [], []
        return messages

    def commit(self, identifier: int | None = None) -> Commit:
        """Prepare and commit.

        `identifier`: the number of this commit among its user's, never falling; None for a writer without a user. After
        an error the rows are still there: the same call tries again, and after `CommitStateUnknown` finds out; leaving
        the block by the exception deletes the files where it is sure that no commit has them.

        Raises: `InvalidOption` if a user's commit has no identifier, and what `t.commit` raises.
        """
        self._check_open()
        if self.is_counted and identifier is None:
            msg = (
                f"this writer has the commit user {self.commit_user!r}, whose commits are counted: "
                "w.commit(identifier=…)"
            )
            raise InvalidOption(msg, key="identifier")
        number = BATCH_IDENTIFIER if identifier is None else committer.check_integer("identifier", identifier)
        if identifier is not None and self._last is not None and number < self._last:
            msg = f"identifier {number} comes after {self._last}: the identifiers of one commit user must not fall"
            raise InvalidOption(msg, key="identifier", value=str(number))
        self._pending += self._writers.prepare(identifier=identifier)
        # carried messages belong to a saved state: their files stay even if this commit fails
        messages = [*self._carried, *self._pending]
        is_new, self._is_tried = not (self.is_counted or self._is_tried), True
        committed = commit_changes(
            self._committing,
            messages,
            commit_user=self.commit_user,
            identifier=number,
            overwrite=self.overwrite,
            is_new_user=is_new,
        )
        compacts = any(message.has_compaction for message in messages)
        self._carried, self._pending, self._last, self._is_tried = [], [], number, False
        self._writers.mark_committed(number, committed.snapshot_id)
        if compacts and "COMPACT" not in committed.kinds:
            self._writers.mark_compactions_lost()
        if not self.is_counted:
            self.commit_user = self.ctx.new_commit_user()
        return maintenance.after_commit.maintain_after_commit(self.ctx, committed, messages)

    def abort(self) -> None:
        """Drop what was not prepared or not committed here, files included, and close the writer."""
        if not self._is_closed:
            self._is_closed = True
            self._writers.abort()
            abandoned.abort(self._committing, self._pending)

    def state(self) -> bytes:
        """Return the state from which a writer of another process goes on.

        That is its user, its last identifier, and messages that were prepared and not yet committed. Rows that come
        then are newer than all before, those too of messages that `prepare` returned and that are not committed yet.
        """
        sync_all(self._committing.storage)
        # pending messages belong to the state from here on
        self._carried, self._pending = [*self._carried, *self._pending], []
        parts = [message.to_bytes() for message in self._carried]
        last = b"\0" if self._last is None else b"\1" + self._last.to_bytes(8, "big", signed=True)
        data = _MAGIC + bytes([_VERSION]) + encode_java_utf(self.commit_user) + last
        data += len(parts).to_bytes(4, "big") + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        numbers = self._writers.max_sequences
        data += len(numbers).to_bytes(4, "big")
        for (partition, bucket), number in numbers.items():  # scalar: one a bucket
            data += (
                len(partition).to_bytes(4, "big")
                + partition
                + bucket.to_bytes(4, "big", signed=True)
                + number.to_bytes(8, "big", signed=True)
            )
        return data + crc32(data).to_bytes(_CRC_BYTES, "big")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or self._is_closed:
            with suppress(LakekitError):  # what is under way says more than that nothing could be cleaned up either
                self.abort()
            return
        try:
            self._commit_rest()
        except BaseException:
            with suppress(LakekitError):
                self.abort()
            raise
        self.abort()

    def _commit_rest(self) -> None:
        """Commit the remaining rows at the end of a block."""
        if self._writers.is_idle and not self._pending:
            return
        if self.is_counted:
            user = f"commits of user {self.commit_user!r} are counted, so they were dropped"
            raise UncommittedRows(f"the block ended with rows that no w.commit(identifier=…) took; {user}")
        self.commit()

    def _check_open(self) -> None:
        if self._is_closed:
            msg = "this writer is closed: t.writer() makes another"
            raise UncommittedRows(msg)


def resolve_overwrite(ctx: TableContext, overwrite: bool | Mapping[str, Any] | None) -> Overwrite | None:
    """Return the partitions that an overwrite replaces; None if it replaces nothing.

    True, and an empty partition, mean what `t.overwrite` without a partition does.
    """
    if overwrite is None or overwrite is False:
        return None
    if overwrite is True or overwrite == {}:
        is_dynamic = bool(ctx.schema.partition_keys) and ctx.options.dynamic_partition_overwrite
        return Overwrite.dynamic() if is_dynamic else Overwrite.entire_table()
    return Overwrite.static(partition_spec(overwrite))


def partition_spec(partition: Any) -> Mapping[str, Any]:
    """Return a partition as the caller named it.

    Raises: `InvalidOption` for what names no columns.
    """
    if not isinstance(partition, Mapping):
        what = (
            f"a partition is a dict of values by partition column, such as {{'dt': '2024-03-31'}}; found "
            f"{ascii(partition)[:100]}"
        )
        raise InvalidOption(what, key="partition", value=ascii(partition)[:100])
    return partition


def _decode_state(
    state: bytes, commit_user: str | None
) -> tuple[str, int | None, list[CommitMessage], dict[BucketId, int]]:
    cursor = Cursor(state, end=len(state) - _CRC_BYTES)
    if cursor.raw(len(_MAGIC), "magic") != _MAGIC:
        raise cursor.make_error("these bytes are no state of a writer", "magic", at=0)
    if (version := cursor.raw(1, "version")[0]) not in (_WITHOUT_NUMBERS, _VERSION):
        raise Unsupported(
            f"a writer's state in form {version}; lakekit knows {_VERSION}. A newer lakekit wrote it",
            feature="file.writer-state",
        )
    if crc32(state[:-_CRC_BYTES]).to_bytes(_CRC_BYTES, "big") != state[-_CRC_BYTES:]:
        raise cursor.make_error(
            "the checksum does not fit: the state is damaged", "checksum", at=len(state) - _CRC_BYTES
        )
    user = cursor.java_utf("commit user")
    if commit_user is not None and commit_user != user:
        msg = f"the state is of commit user {user!r}, not of {commit_user!r}"
        raise InvalidOption(msg, key="commit_user", value=commit_user)
    last = cursor.i64be("last identifier") if cursor.flag("has identifier") else None
    sizes = range(cursor.count("messages", each=4))
    messages = [CommitMessage.from_bytes(cursor.raw(cursor.i32be("message length"), "message")) for _ in sizes]
    numbers: dict[BucketId, int] = {}
    for _ in range(cursor.count("buckets", each=16) if version != _WITHOUT_NUMBERS else 0):
        partition = cursor.raw(cursor.i32be("partition length"), "partition")
        numbers[partition, cursor.i32be("bucket")] = cursor.i64be("sequence number")
    cursor.expect_end("state of a writer")
    return user, last, messages, numbers
