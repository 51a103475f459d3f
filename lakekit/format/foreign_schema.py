"""The schema of another writer's data file, and the errors that refuse one (`foreign_file` reads it).

ForeignFileSchema(fields=(k BIGINT, …), row_count=3, told={"k": …}, timeless={"t"})
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakekit.errors import SchemaMismatch, Unsupported
from lakekit.options.option import EMPTY
from lakekit.types import MAX_LENGTH, DataType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.format.encoder import ColumnStats
    from lakekit.types import Field


STRING, BYTES = DataType(root="VARCHAR", length=MAX_LENGTH), DataType(root="VARBINARY", length=MAX_LENGTH)
_APPEND = "read the files with Polars and append the frame to a table of your own"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFileSchema:
    """A file's columns, without ids, and its row count.

    `told` are the columns whose null count and bounds the footer holds reliably. `timeless` are those whose values are
    timestamps as any type of timestamp reads them (Parquet's INT96), so that a table may declare them as another one.
    `byte_decimals` are DECIMALs of at most 18 digits that Parquet holds as bytes, not as numbers: the released engine
    reads them, and fails where it filters by them.
    """

    fields: tuple[Field, ...]
    row_count: int
    told: Mapping[str, ColumnStats] = EMPTY
    timeless: frozenset[str] = frozenset()
    byte_decimals: frozenset[str] = frozenset()


def refusal(path: str, column: str, problem: str, *, remedy: str = _APPEND) -> SchemaMismatch:
    """Return the error of a column that no table can adopt as it is stored."""
    return SchemaMismatch(f"{path}: column {column} {problem}; {remedy}", column=column.partition(".")[0])


def unsupported_encoding(path: str, problem: str, feature: str) -> Unsupported:
    """Return the error of a file whose bytes the released engine or Polars does not read."""
    return Unsupported(f"{path}: {problem}; {_APPEND}", feature=feature, path=path)
