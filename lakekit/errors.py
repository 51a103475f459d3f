"""Every error lakekit raises, under one root.

    LakekitError
    ├─ Corrupt(ValueError)                 bytes break the format: path, offset, field
    │  └─ LimitExceeded                    more than lakekit allows: size, depth, count
    ├─ Unsupported(NotImplementedError)    a feature that Paimon has and lakekit lacks: feature
    │  └─ ExtraMissing                     a package that is not installed: extra
    ├─ InvalidOption(ValueError)           unknown, ill-typed, fixed or conflicting options: key, value
    │  └─ SqlError                         a text that is no SQL: line, column
    ├─ SchemaMismatch(TypeError)           rows or expressions do not fit the table's columns
    ├─ SchemaChanged                       the schema changed between scan() and collect()
    ├─ ValueOutOfRange(ValueError)         a value that its target type cannot hold: column, path
    ├─ NotFound(LookupError)
    │  └─ DatabaseNotFound · TableNotFound(FileNotFoundError) · ViewNotFound · SnapshotNotFound · TagNotFound
    │     BranchNotFound · ColumnNotFound · PartitionNotFound · ConsumerNotFound
    ├─ AlreadyExists
    │  └─ DatabaseAlreadyExists · TableAlreadyExists · ViewAlreadyExists · SnapshotAlreadyExists · TagAlreadyExists
    │     BranchAlreadyExists · ColumnAlreadyExists · PartitionAlreadyExists · ConsumerAlreadyExists
    ├─ Conflict(RuntimeError)              another commit changed what this one needs
    │  └─ MergeConflict · RetriesExhausted · LockLost
    ├─ CommitStateUnknown                  the outcome of the commit is unknown: never retried blindly
    ├─ UncommittedRows                     a writer with identifiers was left with uncommitted rows
    ├─ ForkedProcess                       Polars hangs in a forked child: use spawn
    ├─ LocationNotAllowed(PermissionError) a table names a location that its caller does not allow: location, option
    └─ StorageFailed(OSError)              the storage failed: path

An error has one positional message (what happened, where, what exists instead, what to do) and its details as keyword
fields, so that it pickles and deep-copies with them. Control characters from a file or a library appear in a message as
their codes, and no uri appears with its password. Each class also subclasses the built-in a caller would guess.
`is_secret` knows the names of options with secret values, for tables, catalogs, stores and databases.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

HIDDEN = "******"
"""Stands where a secret was."""
NAME_PATTERN = (
    r"passw|passphrase|pwd|secret|token|credential|signature|proxy_url|connection[._-]?string|bearer"
    r"|(?:access|account|api|auth|private|shared|encryption|customer|footer|master)[._-]?key"
    r"|authorization|auth[._-]?header|encryption[._-]?config|(?<![a-z])pass(?![a-z])"
    r"|(?<![a-z])(?:sas|sig)(?![a-z])|(?<![a-z])sas[._-]?key"
    r"|mark-done-action\.http"  # the address of a service, and what it is told, may hold one
)
"""A pattern found in the names of secret options and in no other."""
_SECRET_NAME = re.compile(NAME_PATTERN, re.IGNORECASE)


def is_secret(key: str) -> bool:
    """Return whether an option of that name may hold a secret."""
    return _SECRET_NAME.search(key) is not None


_WORD = re.compile(r"[^\s'\"`]+")


def login_span(uri: str) -> tuple[int, int] | None:
    """Return where the name and the password of a uri begin and end, as `me:secret` in `s3://me:secret@bucket`.

    They end at the last @: a password that is not escaped may hold one, or a slash. Behind a host without a colon a
    slash begins a path, which may hold an @. Returns None if there are none, or if they are hidden already.
    """
    end, start = uri.rfind("@"), uri.find("://") + 3
    while 3 <= start <= end:
        slash = next((at for at in range(start, end) if uri[at] in "/?#"), end)
        if slash == end or ":" in uri[start:slash]:
            is_hidden = start == end or uri[start:end].rpartition(":")[2] == HIDDEN
            return None if is_hidden else (start, end)
        start = uri.find("://", slash) + 3
    return None


def without_logins(text: str) -> str:
    """Return a text with stars for the names and passwords of the uris in it."""
    return _WORD.sub(_hide_login, text) if "://" in text and "@" in text else text


def _hide_login(word: re.Match[str]) -> str:
    span = login_span(word[0])
    return word[0] if span is None else f"{word[0][: span[0]]}{HIDDEN}{word[0][span[1] :]}"


# ---- errors ------------------------------------------------------------


_POLARS_TRAILER = "\n\nThis error occurred in the following expression"
"""What Polars appends to an error that a function inside an expression raised, when it makes the error anew from its
text alone.
"""
_UNSAFE_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal obeys, that turn the direction of a text, or that no encoding holds; ends of lines and
tabs may stand in a message.
"""
_MAX_RAISED = 64
_recent_fields: dict[tuple[type, str], dict[str, Any]] = {}
"""The fields of the last errors, by class and text: what Polars forgets."""


class LakekitError(Exception):
    """Root of everything lakekit raises on purpose."""

    names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, message: str, **fields: Any) -> None:
        message, trail, _ = message.partition(_POLARS_TRAILER)
        message = without_logins(_UNSAFE_CHARACTERS.sub(_code, message))
        fields = {name: without_logins(value) if isinstance(value, str) else value for name, value in fields.items()}
        super().__init__(message)
        if trail:
            fields = _recent_fields.get((type(self), message), fields)
        elif fields:
            _recent_fields[type(self), message] = fields
            if len(_recent_fields) > _MAX_RAISED:
                _recent_fields.pop(next(iter(_recent_fields)), None)
        unknown = fields.keys() - set(self.names)
        if unknown:
            msg = f"{type(self).__name__} has no field {sorted(unknown)}"
            raise TypeError(msg)
        for name in self.names:
            setattr(self, name, fields.get(name))

    @property
    def message(self) -> str:
        """The text alone."""
        return str(self.args[0])

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.message, {name: getattr(self, name) for name in self.names})


def _code(matched: re.Match[str]) -> str:
    number = ord(matched[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def _restore(cls: type[LakekitError], message: str, fields: dict[str, Any]) -> LakekitError:
    return cls(message, **fields)


class Corrupt(LakekitError, ValueError):
    """Bytes that break the format: `path` of the file, `offset` in bytes, `field` as the decoder names it."""

    names: ClassVar[tuple[str, ...]] = ("path", "offset", "field")
    path: str | None
    offset: int | None
    field: str | None

    def at(self, path: str) -> Corrupt:
        """Return the same error with the path of its file, in the text too, unless it has one."""
        if self.path is not None:
            return self
        return type(self)(f"{path}: {self.message}", path=path, offset=self.offset, field=self.field)


class LimitExceeded(Corrupt):
    """More than lakekit allows: a size, a depth or a count that only a damaged or hostile file would have."""


class Unsupported(LakekitError, NotImplementedError):
    """A feature that Paimon has and lakekit has not. `feature` is its name in `lk.features()`."""

    names: ClassVar[tuple[str, ...]] = ("feature", "path")
    feature: str | None
    path: str | None


class ExtraMissing(Unsupported):
    """A package that is not installed: the message has pip's line, `extra` the extra of lakekit that brings it."""

    names: ClassVar[tuple[str, ...]] = ("feature", "path", "extra")
    extra: str | None


class InvalidOption(LakekitError, ValueError):
    """An unknown, ill-typed, fixed or conflicting option; a secret value is starred, in the text too."""

    names: ClassVar[tuple[str, ...]] = ("key", "value")
    key: str | None
    value: str | None

    def __init__(self, message: str, **fields: Any) -> None:
        key, value = fields.get("key"), fields.get("value")
        if isinstance(key, str) and isinstance(value, str) and value and is_secret(key):
            message = message.replace(value, HIDDEN)
            fields["value"] = HIDDEN
        super().__init__(message, **fields)


class SqlError(InvalidOption):
    """A text that is no SQL, or more than lakekit parses: `line` and `column` from 1, with a caret in the message."""

    names: ClassVar[tuple[str, ...]] = ("key", "value", "line", "column")
    line: int | None
    column: int | None


class SchemaMismatch(LakekitError, TypeError):
    """Rows or expressions that do not fit the table's columns."""

    names: ClassVar[tuple[str, ...]] = ("column",)
    column: str | None


class SchemaChanged(LakekitError):
    """The schema changed in an incompatible way between `scan()` and `collect()`."""

    names: ClassVar[tuple[str, ...]] = ("column",)
    column: str | None


class ValueOutOfRange(LakekitError, ValueError):
    """A value that its target type cannot hold; nothing ever wraps."""

    names: ClassVar[tuple[str, ...]] = ("column", "path")
    column: str | None
    path: str | None


class NotFound(LakekitError, LookupError):
    """Something named by the caller does not exist."""

    names: ClassVar[tuple[str, ...]] = ("name",)
    name: str | None


class DatabaseNotFound(NotFound):
    """No database of that name."""


class TableNotFound(NotFound, FileNotFoundError):
    """No Paimon table at that path or name."""


class ViewNotFound(NotFound):
    """No view of that name."""


class SnapshotNotFound(NotFound):
    """No such snapshot: expired, or never made."""


class TagNotFound(NotFound):
    """No tag of that name."""


class BranchNotFound(NotFound):
    """No branch of that name."""


class ColumnNotFound(NotFound):
    """No column of that name."""


class PartitionNotFound(NotFound):
    """No such partition."""


class ConsumerNotFound(NotFound):
    """No consumer of that id."""


class AlreadyExists(LakekitError):
    """Something of that name exists already."""

    names: ClassVar[tuple[str, ...]] = ("name",)
    name: str | None


class DatabaseAlreadyExists(AlreadyExists):
    """A database of that name exists."""


class TableAlreadyExists(AlreadyExists, FileExistsError):
    """A table exists at that path or under that name."""


class ViewAlreadyExists(AlreadyExists):
    """A view of that name exists."""


class SnapshotAlreadyExists(AlreadyExists):
    """A snapshot of that id exists."""


class TagAlreadyExists(AlreadyExists):
    """A tag of that name exists."""


class BranchAlreadyExists(AlreadyExists):
    """A branch of that name exists."""


class ColumnAlreadyExists(AlreadyExists):
    """A column of that name exists."""


class PartitionAlreadyExists(AlreadyExists):
    """That partition exists."""


class ConsumerAlreadyExists(AlreadyExists):
    """A consumer of that id exists."""


class Conflict(LakekitError, RuntimeError):
    """Another commit changed what this one needs. Nothing was changed."""

    names: ClassVar[tuple[str, ...]] = ("snapshot_id", "files")
    snapshot_id: int | None
    files: tuple[str, ...] | None


class MergeConflict(Conflict):
    """More than one source row matches a target row."""


class RetriesExhausted(Conflict):
    """Every allowed attempt to commit lost its race."""


class LockLost(Conflict):
    """The catalog's lock was lost while committing."""


class CommitStateUnknown(LakekitError):
    """The outcome of the commit is unknown; look before trying again."""

    names: ClassVar[tuple[str, ...]] = ("snapshot_id", "commit_user", "identifier")
    snapshot_id: int | None
    commit_user: str | None
    identifier: int | None


class UncommittedRows(LakekitError):
    """A writer with identifiers of its own was left with uncommitted rows."""


class ForkedProcess(LakekitError):
    """Polars hangs in a forked child; start processes with spawn."""


class LocationNotAllowed(LakekitError, PermissionError):
    """A table names a location outside its folder that is not allowed; nothing there was touched.

    Neither the caller nor the catalog allows it.
    """

    names: ClassVar[tuple[str, ...]] = ("location", "option")
    location: str | None
    option: str | None


class StorageFailed(LakekitError, OSError):
    """The storage failed."""

    names: ClassVar[tuple[str, ...]] = ("path",)
    path: str | None
