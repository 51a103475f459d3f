"""Options that cannot change once there are rows, neither by an alter nor for one call.

    bucket                        2 -> -1, -1 -> 2                rows would be looked up in the wrong bucket
    deletion-vectors.enabled      false -> true, true -> false    rows that wait for compaction would be left out,
                                                                  or deleted ones come back
    ignore-delete                 true -> false                   rows that were dropped are lost

Source: ENGINE.md 1.5, `SchemaManager.checkAlterTableOption`, which `AbstractFileStoreTable.checkImmutability` calls for
the options of a call too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakekit.options.table_options import TableOptions

ONE_WAY_OPTIONS = {"ignore-delete": "ignore_delete", "ignore-update-before": "ignore_update_before"}
"""Attributes of options that are switched on and never off."""


def immutable_reason(before: TableOptions, key: str, value: object) -> str | None:
    """Return why an option cannot become `value` on a table with rows; None if it can.

    `before` are the table's options.
    """
    if key == "bucket" and before.bucket == -1 and value != -1:
        return (
            "Cannot change bucket when it is -1. Rows lie where no number of buckets finds them; write them to a new "
            "table"
        )
    if key == "bucket" and before.bucket != -1 and value == -1:
        return "Cannot change bucket to -1. Rows lie in fixed buckets; write them to a new table"
    if (
        key == "deletion-vectors.enabled"
        and not before.deletion_vectors_modifiable
        and value != before.deletion_vectors_enabled
    ):
        return (
            f"Cannot change deletion vectors mode from {str(before.deletion_vectors_enabled).lower()} to "
            f"{str(value).lower()}. If modifying table deletion-vectors mode without full-compaction, this may result "
            "in data duplication. Compact fully first; then you can set table option 'deletion-vectors.modifiable' = "
            "'true' to allow deletion vectors modification. In Python, one after the other: t.compact(full=True); "
            "t.alter(lk.set_option('deletion-vectors.modifiable', True)); "
            f"t.alter(lk.set_option('deletion-vectors.enabled', {value})). In SQL: CALL sys.compact(table => 'db.t'); "
            "ALTER TABLE db.t SET ('deletion-vectors.modifiable' = 'true'); ALTER TABLE db.t SET "
            f"('deletion-vectors.enabled' = '{str(value).lower()}')"
        )
    if key in ONE_WAY_OPTIONS and getattr(before, ONE_WAY_OPTIONS[key]) and not value:
        return f"Cannot change {key} from true to false. Rows that it left out are gone; make a new table"
    return None
