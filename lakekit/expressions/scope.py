"""The meaning of names in an expression: the columns of one table, or of the two of a MERGE.

Scope(sides=(TableScope(names=("t", "shop.orders"), columns={"k": Int32}),))
    k, t.k, shop.orders.k, `K`   ->   the column k
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from lakekit.errors import ColumnNotFound
from lakekit.expressions.typed_expression import mismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScope:
    """The columns of one table of a statement, under the names it may be called by, in lower case.

    `prefix`: begins the names of its columns in the frame. `needs_name`: a name without a table is none of its columns.
    """

    names: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    prefix: str = ""
    needs_name: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The meaning of names in an expression.

    `zone`: the session's, in which texts are moments. `run_query`: returns the values of a query's only column,
    computed by the backend. `missing`: makes the error about an unknown column of the parts of its name; without it
    the columns are listed.
    """

    sides: tuple[TableScope, ...]
    zone: str = "UTC"
    run_query: Callable[[str], pl.Series] | None = None
    missing: Callable[[Sequence[str]], ColumnNotFound] | None = None

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """All columns, as the frame has them."""
        return {side.prefix + name: dtype for side in self.sides for name, dtype in side.columns.items()}

    def find(self, parts: Sequence[str]) -> str | None:
        """Return the frame's column that a name of one to three parts means; None where there is none.

        Raises: `TranslationRefusal` where both tables have it.
        """
        *table, name = parts
        called = ".".join(table).lower()
        found: list[tuple[TableScope, str]] = []
        for side in self.sides:
            if called not in side.names if called else side.needs_name:
                continue
            own = name if name in side.columns else _find_other_case(name, side.columns)
            if own is not None:
                found.append((side, own))
        if len(found) > 1:
            choices = " or ".join(f"{side.names[-1]}.{own}" for side, own in found)
            raise mismatch(f"{name} is a column of both tables: write {choices}")
        return found[0][0].prefix + found[0][1] if found else None

    def column(self, parts: Sequence[str]) -> str:
        """Return the frame's column that a name means. Raises `ColumnNotFound`, `TranslationRefusal`."""
        found = self.find(parts)
        if found is None:
            raise self.not_found(parts)
        return found

    def not_found(self, parts: Sequence[str]) -> ColumnNotFound:
        """Return the error about a name that is no column."""
        if self.missing is not None:
            return self.missing(parts)
        called = [f"{side.names[-1]}.{own}" for side in self.sides for own in side.columns]
        name = ".".join(parts)
        near = get_close_matches(parts[-1], [own for side in self.sides for own in side.columns], 1, 0.6)
        hint = f". Did you mean {near[0]!r}?" if near else f"; a text is written '{name}'"
        return ColumnNotFound(f"{name} is no column here; there are {', '.join(called)}{hint}", name=parts[-1])


def _find_other_case(name: str, columns: Mapping[str, pl.DataType]) -> str | None:
    """Return the only column of a name, in whatever case it is written; None where there is none, or several."""
    found = [own for own in columns if own.lower() == name.lower()]
    return found[0] if len(found) == 1 else None
