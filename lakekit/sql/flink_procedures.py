"""The procedures that only Paimon's Flink connector has, not its Spark connector, each over the method that does it.

    CALL sys.rollback_to(table => 'shop.orders', snapshot_id => 12)
    CALL sys.drop_partition('shop.orders', 'day=2024-03-31;day=2024-04-01')

Names and order of the arguments are the connector's. Source: "Flink / Procedures" of Paimon's documentation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import lakekit.ddl.schema_changes as changes
from lakekit.errors import InvalidOption, Unsupported
from lakekit.metadata import refs
from lakekit.sql import dml
from lakekit.sql.calls import partitions_of, procedure, success_rows
from lakekit.sql.tokenizer import TokenStream, quote_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakekit.sql.backend import Row
    from lakekit.sql.calls import Call


@procedure("table string, tag string?, snapshot_id long?", "previous_snapshot_id long, current_snapshot_id long")
def _rollback_to(call: Call, *, table: str, tag: str | None, snapshot_id: int | None) -> Sequence[Row]:
    target = snapshot_id if tag is None else tag
    if target is None or None not in (tag, snapshot_id):
        raise InvalidOption("sys.rollback_to takes one of tag and snapshot_id", key="tag")
    rolled = call.table(table)
    before = rolled.snapshots()["snapshot_id"].max()
    rolled.rollback(target)
    return [(before, rolled.snapshots()["snapshot_id"].max())]


@procedure(
    "table string, tag string, watermark long, time_retained string?",
    "tagName string, snapshot long, commit_time long, watermark string",
)
def _create_tag_from_watermark(
    call: Call, *, table: str, tag: str, watermark: int, time_retained: str | None
) -> Sequence[Row]:
    tagged = call.table(table)
    tagged.create_tag(tag, watermark=watermark, retain=time_retained)
    snapshot = refs.read_tag(tagged.handle(), tag).snapshot
    return [(tag, snapshot.id, snapshot.time_millis, None if snapshot.watermark is None else str(snapshot.watermark))]


@procedure(
    "table string, retain_max int?, retain_min int?, older_than string?, max_deletes int?, delete_all boolean?",
    "deleted_changelogs_count int",
)
def _expire_changelogs(
    call: Call,
    *,
    table: str,
    retain_max: int | None,
    retain_min: int | None,
    older_than: str | None,
    max_deletes: int | None,
    delete_all: bool | None,
) -> Sequence[Row]:
    expired = call.table(table).expire_changelogs(
        retain_max=retain_max,
        retain_min=retain_min,
        older_than=call.time(older_than),
        max_deletes=max_deletes,
        delete_all=bool(delete_all),
    )
    return [(len(expired.snapshot_ids),)]


@procedure("table string")
def _repair_earliest_snapshot(call: Call, *, table: str) -> Sequence[Row]:
    call.table(table).repair()
    return success_rows()


@procedure(
    "database string?, table string?, catalog_conf string?, target_database string?, target_table string?, "
    "target_catalog_conf string?, "
    "parallelism int?, where string?"
)
def _clone(
    call: Call,
    *,
    database: str | None,
    table: str | None,
    catalog_conf: str | None,
    target_database: str | None,
    target_table: str | None,
    target_catalog_conf: str | None,
    parallelism: int | None,
    where: str | None,
) -> Sequence[Row]:
    if (
        catalog_conf is not None
        or target_catalog_conf is not None
        or where is not None
        or table is None
        or target_table is None
    ):
        message = (
            "sys.clone copies one table within a catalog: database, table, target_database and target_table; "
            "cat.clone(name, to, into=catalog) copies it to "
            "another catalog, at= an older state"
        )
        raise Unsupported(message, feature="procedure.clone")
    if parallelism is not None and parallelism < 1:
        raise InvalidOption(f"parallelism {parallelism}; it is 1 or more", key="parallelism", value=str(parallelism))
    source = call.full(table) if database is None else f"{database}.{table}"
    call.catalog.clone(source, f"{target_database or source.partition('.')[0]}.{target_table}")
    return success_rows()


@procedure("table string, partitions string")
def _drop_partition(call: Call, *, table: str, partitions: str) -> Sequence[Row]:
    call.table(table).drop_partitions(partitions_of(partitions))
    return success_rows()


@procedure("table string, column string, default_value string")
def _alter_column_default_value(call: Call, *, table: str, column: str, default_value: str) -> Sequence[Row]:
    call.table(table).alter(changes.update_default(column, default_value))
    return success_rows()


@procedure(
    "target_table string, target_alias string?, source_sqls string?, source_table string, merge_condition string, "
    "matched_upsert_condition string?, "
    "matched_upsert_setting string?, not_matched_insert_condition string?, not_matched_insert_values string?, "
    "matched_delete_condition string?, "
    "not_matched_by_source_upsert_condition string?, not_matched_by_source_upsert_setting string?, "
    "not_matched_by_source_delete_condition string?"
)
def _merge_into(
    call: Call,
    *,
    target_table: str,
    target_alias: str | None,
    source_table: str,
    merge_condition: str,
    **clauses: str | None,
) -> Sequence[Row]:
    """Execute MERGE INTO of the same parts.

    An empty text counts as not given: the connector takes it for positions that are not meant.
    """
    arguments = {name: text for name, text in clauses.items() if text}
    if "source_sqls" in arguments:
        raise Unsupported(
            "sys.merge_into(source_sqls => …) is not done: CREATE TEMPORARY VIEW before, and name the view",
            feature="procedure.merge_into",
        )
    name = call.full(target_table)
    columns = call.table(name).handle().schema.names
    whens = [
        _build_when_clause("MATCHED", arguments, "matched_upsert", _update),
        _build_when_clause("MATCHED", arguments, "matched_delete", _delete),
        _build_when_clause(
            "NOT MATCHED",
            arguments,
            "not_matched_insert",
            lambda text: f"INSERT {'*' if text.strip() == '*' else _values(columns, text)}",
        ),
        _build_when_clause("NOT MATCHED BY SOURCE", arguments, "not_matched_by_source_upsert", _update),
        _build_when_clause("NOT MATCHED BY SOURCE", arguments, "not_matched_by_source_delete", _delete),
    ]
    if not any(whens):
        raise InvalidOption(
            "sys.merge_into needs something to do, such as matched_upsert_setting or not_matched_insert_values",
            key="matched_upsert_setting",
        )
    target = ".".join(quote_identifier(part) for part in name.split(".")) + (
        f" AS {quote_identifier(target_alias)}" if target_alias else ""
    )
    source = ".".join(quote_identifier(part) for part in source_table.split("."))
    text = f"INTO {target} USING {source} ON {merge_condition} {' '.join(when for when in whens if when)}"
    dml.merge(replace(call.statement, tokens=TokenStream.of(text)))
    return success_rows()


_BODIES = ("_setting", "_values")


def _build_when_clause(
    kind: str, arguments: Mapping[str, str], clause: str, action: Callable[[str], str]
) -> str | None:
    """Return one WHEN of a MERGE by the arguments of a clause; None where it is not requested.

    The arguments are `clause`_condition and what it sets.
    """
    condition = arguments.get(f"{clause}_condition")
    body = next((arguments[clause + end] for end in _BODIES if clause + end in arguments), None)
    if body is None and (condition is None or not clause.endswith("delete")):
        if condition is not None:
            raise InvalidOption(
                f"sys.merge_into: {clause}_condition says when, and nothing says what is set", key=f"{clause}_condition"
            )
        return None
    return f"WHEN {kind}{'' if condition is None else f' AND ({condition})'} THEN {action(body or '')}"


def _values(columns: Sequence[str], text: str) -> str:
    return f"({', '.join(map(quote_identifier, columns))}) VALUES ({text})"


def _update(text: str) -> str:
    return f"UPDATE SET {text}"


def _delete(_: str) -> str:
    return "DELETE"
