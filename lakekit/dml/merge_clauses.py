"""The clauses of a merge: `t.merge(source, *clauses, on=["k"])`.

    lk.when_matched(delete=True, where=lk.source("op") == "D")                 a target row that a source row matches
    lk.when_matched(update={"v": pl.col("v") + lk.source("v")})
    lk.when_not_matched(insert="all")                                          a source row that matches no target row
    lk.when_not_matched_by_source(delete=True, where="t.dt = '2024-03-31'")    a target row that no source row matches

Of the clauses of a kind the first one whose condition is true acts on a row, in the order they are given; where none
does, the row stays, or is left out. `pl.col("v")` is the target's column, `lk.source("v")` the source's; in SQL text
they are `t.v` and `s.v`. Source: ENGINE.md 8.3, `MergeIntoPaimonTable`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from lakekit.read.user_expressions import SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WhenMatched:
    """A clause that updates or deletes matched target rows; exactly one of `update` and `delete` is given."""

    update: Literal["all"] | Mapping[str, Any] | None = None
    delete: bool = False
    where: pl.Expr | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WhenNotMatched:
    """A clause that inserts source rows without a match."""

    insert: Literal["all"] | Mapping[str, Any] = "all"
    where: pl.Expr | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WhenNotMatchedBySource:
    """A clause that updates or deletes target rows that no source row matches.

    Exactly one of `update` and `delete` is given.
    """

    update: Mapping[str, Any] | None = None
    delete: bool = False
    where: pl.Expr | str | None = None


Clause: TypeAlias = WhenMatched | WhenNotMatched | WhenNotMatchedBySource


def source(name: str) -> pl.Expr:
    """Return a column of the source, for an expression of a merge: `pl.col("v") + lk.source("v")`."""
    return pl.col(f"{SOURCE}{name}")


def when_matched(
    *,
    update: Literal["all"] | Mapping[str, Any] | None = None,
    delete: bool = False,
    where: pl.Expr | str | None = None,
) -> WhenMatched:
    """Return the clause for matching source and target rows: `update` or `delete` the target row.

    `update`: new values by column; "all": every column that the source has too. Values are Polars expressions, SQL
    text, or any other value, as in `t.update`.

    Raises: `TypeError` unless exactly one of both is given.
    """
    _check_one_action("when_matched", update, delete=delete)
    if isinstance(update, str) and update != "all":
        raise _not_all("update", update)
    return WhenMatched(update=update, delete=delete, where=where)


def when_not_matched(
    *, insert: Literal["all"] | Mapping[str, Any] = "all", where: pl.Expr | str | None = None
) -> WhenNotMatched:
    """Return the clause for a source row that matches no target row: `insert` it.

    `insert`: "all", every column that the table has too, or the values of the new row by column. Columns without a
    value are null, or their default.

    Raises: `TypeError` for other words.
    """
    if isinstance(insert, str) and insert != "all":
        raise _not_all("insert", insert)
    return WhenNotMatched(insert=insert, where=where)


def when_not_matched_by_source(
    *, update: Mapping[str, Any] | None = None, delete: bool = False, where: pl.Expr | str | None = None
) -> WhenNotMatchedBySource:
    """Return the clause for a target row that no source row matches: `update` or `delete` it.

    `update`: new values by column, computed from the row itself.

    Raises: `TypeError` unless exactly one of both is given.
    """
    _check_one_action("when_not_matched_by_source", update, delete=delete)
    if isinstance(update, str):
        msg = (
            f"when_not_matched_by_source(update={update!r}): there is no source row to take values from; give them by "
            "column"
        )
        raise TypeError(msg)
    return WhenNotMatchedBySource(update=update, delete=delete, where=where)


def _check_one_action(name: str, update: object, *, delete: bool) -> None:
    if (update is not None) == bool(delete):
        msg = f"{name} takes update= or delete=True, and exactly one of them"
        raise TypeError(msg)


def _not_all(what: str, text: str) -> TypeError:
    return TypeError(f"{what}={text!r}: the word is 'all'; values are given by column, {what}={{'v': …}}")
