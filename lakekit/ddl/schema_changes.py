"""The changes of a table: one function and one class for each, for `t.alter`.

    t.alter(
        lk.add_column("c", "INT", after="a"),
        lk.rename_column("a", "b"),
        lk.update_type("r.x", "BIGINT"),
        lk.set_option("bucket", 8),
    )

A name with points leads into a column: "r.x" is field x of ROW r, "a.element.x" field x of the rows in ARRAY a,
"m.value" the values of MAP m. A name that holds a point itself stands in backquotes: "`a.b`". Making a change does
nothing; its table decides whether it is possible. Source: ENGINE.md 1.5, `SchemaChange`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from lakekit.ddl.columns_given import type_of
from lakekit.errors import InvalidOption, SchemaMismatch

if TYPE_CHECKING:
    import polars as pl

    from lakekit.types import DataType

Path: TypeAlias = tuple[str, ...]
_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPosition:
    """The position of a column: "first", "last", or "after" or "before" `column`."""

    where: str
    column: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """A new column, or a new field of a ROW; at the end where no position is given."""

    path: Path
    type: DataType
    place: ColumnPosition | None = None
    default: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """A new name of a column."""

    path: Path
    new_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumn:
    """The removal of a column: its values stay in old files, and are never read again."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateType:
    """A new type of a column; old values are cast when they are read."""

    path: Path
    type: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateNullability:
    """A change of whether a column takes nulls."""

    path: Path
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateComment:
    """A new comment of a column."""

    path: Path
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateDefault:
    """The value that rows get which are written without the column."""

    path: Path
    default: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveColumn:
    """A new position of a column."""

    name: str
    place: ColumnPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOption:
    """A new value of an option of the table."""

    key: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOption:
    """The reset of an option to its default."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetComment:
    """A new comment of the table."""

    comment: str | None


TableChange: TypeAlias = (
    AddColumn
    | RenameColumn
    | DropColumn
    | UpdateType
    | UpdateNullability
    | UpdateComment
    | UpdateDefault
    | MoveColumn
    | SetOption
    | ResetOption
    | SetComment
)


def path_of(name: str) -> Path:
    """Return the parts of a name: between points, or between backquotes.

    Raises: `InvalidOption`, and `SchemaMismatch` for what is no text.
    """
    if not isinstance(name, str):
        msg = f"a column is named by a text; found {type(name).__name__}"
        raise SchemaMismatch(msg)
    parts, at = [], 0
    while at <= len(name):
        part = _PART.match(name, at)
        if part is None or (part.end() < len(name) and name[part.end()] != "."):
            msg = (
                f"{name!r} names no column: parts stand between points, those that hold a point or a backquote "
                "between backquotes, the latter twice"
            )
            raise InvalidOption(msg, key="name", value=name)
        parts.append(part.group(2) or part.group(1).replace("``", "`"))
        at = part.end() + 1
    return tuple(parts)


def join_path(path: Path) -> str:
    """Return a path as a name."""
    return ".".join(path)


def _column_position(after: str | None, before: str | None, *, first: bool, last: bool) -> ColumnPosition | None:
    positions = [
        position
        for position, is_given in (
            (
                ColumnPosition(where="after", column=None if after is None else join_path(path_of(after))),
                after is not None,
            ),
            (
                ColumnPosition(where="before", column=None if before is None else join_path(path_of(before))),
                before is not None,
            ),
            (ColumnPosition(where="first"), first),
            (ColumnPosition(where="last"), last),
        )
        if is_given
    ]
    if len(positions) > 1:
        msg = "a column has one place: give one of after=, before=, first=True, last=True"
        raise TypeError(msg)
    return positions[0] if positions else None


# ---- the public functions ------------------------------------------------------------------------


def add_column(
    name: str,
    type: str | DataType | pl.DataType | type[pl.DataType],  # noqa: A002 - what users call it
    *,
    after: str | None = None,
    before: str | None = None,
    first: bool = False,
    last: bool = False,
    default: str | None = None,
    comment: str | None = None,
) -> AddColumn:
    """Add a nullable column, for `t.alter`; rows written before have nulls there.

    `type`: Paimon type text or a Polars type. `default`: the text of the value that later rows get which lack the
    column.

    Raises: `SchemaMismatch` for a text that names no type, `TypeError` for two positions.
    """
    position = _column_position(after, before, first=first, last=last)
    return AddColumn(path=path_of(name), type=type_of(type, name), place=position, default=default, comment=comment)


def rename_column(name: str, new_name: str) -> RenameColumn:
    """Rename a column, for `t.alter`; `new_name` is the last part alone.

    Options and keys that name the column follow.
    """
    if not new_name:
        msg = "a column's new name is a text that is not empty"
        raise InvalidOption(msg, key="new_name", value="")
    return RenameColumn(path=path_of(name), new_name=new_name)


def drop_column(name: str) -> DropColumn:
    """Drop a column, for `t.alter`. A column added later under its name is another one."""
    return DropColumn(path=path_of(name))


def update_type(name: str, type: str | DataType | pl.DataType | type[pl.DataType]) -> UpdateType:  # noqa: A002 - what users call it
    """Change the type of a column, for `t.alter`.

    Whether it takes nulls stays as it is, unless the type says NOT NULL.
    """
    return UpdateType(path=path_of(name), type=type_of(type, name))


def update_nullability(name: str, *, nullable: bool) -> UpdateNullability:
    """Let a column take nulls, or forbid them, for `t.alter`.

    The option `alter-column-null-to-not-null.disabled` forbids the latter by default.
    """
    return UpdateNullability(path=path_of(name), nullable=nullable)


def update_comment(name: str, comment: str | None) -> UpdateComment:
    """Change the comment of a column, for `t.alter`; None removes it."""
    return UpdateComment(path=path_of(name), comment=comment)


def update_default(name: str, default: str | None) -> UpdateDefault:
    """Change the value of rows written without the column, as text, for `t.alter`; None for null."""
    return UpdateDefault(path=path_of(name), default=default)


def move_column(
    name: str, *, after: str | None = None, before: str | None = None, first: bool = False, last: bool = False
) -> MoveColumn:
    """Move a column of the table, for `t.alter`.

    Raises: `TypeError` unless exactly one position is given.
    """
    position = _column_position(after, before, first=first, last=last)
    if position is None:
        msg = "a column is moved to a place: give one of after=, before=, first=True, last=True"
        raise TypeError(msg)
    return MoveColumn(name=join_path(path_of(name)), place=position)


def set_option(key: str, value: Any) -> SetOption:
    """Set an option of the table, for `t.alter`.

    Some options are fixed once the table has a snapshot; `lk.options()` says which.
    """
    return SetOption(key=key, value=value)


def reset_option(key: str) -> ResetOption:
    """Reset an option to its default, for `t.alter`."""
    return ResetOption(key=key)


def set_comment(comment: str | None) -> SetComment:
    """Change the comment of the table, for `t.alter`; None removes it."""
    return SetComment(comment=comment)
