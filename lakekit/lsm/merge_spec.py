"""What a merge needs to know of a table: engine, key, sequence fields, functions of columns.

`merge_spec_from_options` builds it from the options of a schema.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.types import DataType, Field

NO_LIMIT = 2147483647


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFunction:
    """The aggregate function of one column, with its options."""

    column: str
    name: str
    type: DataType
    ignore_retract: bool = False
    delimiter: str = ","
    distinct: bool = False
    nested_key: tuple[str, ...] = ()
    nested_key_nulls: str = "merge"
    count_limit: int = NO_LIMIT
    time_field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceGroup:
    """A sequence group of partial-update.

    The `protected_columns` columns change only with a row whose `columns` are not less than before. `removes_record`: a
    delete that is accepted removes the row.
    """

    columns: tuple[str, ...]
    protected_columns: tuple[str, ...]
    removes_record: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """Everything a merge needs to know about a table.

    `key_columns` is the trimmed primary key. `needs_lookup`: the level rule of ENGINE 2.7 and 6.6 holds.
    `merges_single_versions`: a row that is the only one of its key is merged too, not passed on unchanged (ENGINE 2.7,
    3.1).
    """

    engine: str
    key_columns: tuple[str, ...]
    fields: tuple[Field, ...]
    primary_key: tuple[str, ...] = ()
    sequence_fields: tuple[str, ...] = ()
    is_descending: bool = False
    ignores_deletes: bool = False
    removes_on_delete: bool = False
    functions: Mapping[str, FieldFunction] = field(default_factory=dict)
    sequence_groups: tuple[SequenceGroup, ...] = ()
    needs_lookup: bool = False
    merges_single_versions: bool = False
    table: str = ""

    def group_of(self, column: str) -> SequenceGroup | None:
        """Return the sequence group of a column, as a sequence or as a protected column."""
        return next(
            (group for group in self.sequence_groups if column in group.columns or column in group.protected_columns),
            None,
        )

    @property
    def not_null(self) -> frozenset[str]:
        """Return the columns that take no null."""
        return frozenset(part.name for part in self.fields if not part.type.nullable)

    @property
    def table_name(self) -> str:
        """Return how error messages name the table."""
        return self.table or "the table"
