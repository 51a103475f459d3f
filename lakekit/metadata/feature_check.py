"""Refuse changes to tables with features that lakekit does not know, before any file changes.

    check_writable(ctx)      rows, compaction, statistics, manifests: everything that ends in a commit
    check_removable(ctx)     expiry, rollback, deletion of tags and branches, orphans: everything that removes files

A feature that reading refuses is refused here too. Files that lakekit does not understand could be rewritten without
their parts, and files that it does not know could be taken for orphans. The table's stored options decide: options that
a caller puts over them switch nothing off. Writing also refuses features that only writers implement, such as Iceberg
metadata, indexes of key tables and callbacks.

Operations that only add metadata files check nothing: creating or renaming tags and branches, consumer progress,
`t.alter`, `t.repair`, `t.check`, `t.mark_partition_done`. Dropping a whole table checks nothing either, since no file
of it has to stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekit.options.features import FEATURES, OFF_TEXTS, find_read_refusal, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakekit.errors import Unsupported
    from lakekit.metadata.table_context import TableContext
    from lakekit.model.table_schema import TableSchema
    from lakekit.types import DataType

ICEBERG = "metadata.iceberg.storage"
_DO = "Change it with the Java engine; lk.features() lists what lakekit reads and writes"
_ICEBERG_DO = (
    "Readers of Iceberg would meet files that are gone, or old rows. Change it with the Java engine, "
    f"or, where nobody reads it as Iceberg any more, take the option away: t.alter(lk.reset_option({ICEBERG!r}))"
)
_LAYOUT, _SHREDDING_FEATURE = ".map.storage-layout", "type.map.shared-shredding"


def check_writable(ctx: TableContext) -> None:
    """Raise the refusal of the first feature of a table that writing does not know.

    Raises: `Unsupported`, naming the feature.
    """
    refusal = _find_read_refusal(ctx) or next(_find_write_refusals(ctx), None)
    if refusal is not None:
        raise refusal


def check_removable(ctx: TableContext) -> None:
    """Raise for the first feature of a table that may have files unknown to lakekit: none may be removed.

    Raises:
        Unsupported: with the name of the feature.
    """
    refusal = _find_read_refusal(ctx) or next(
        (_refusal(ctx, key) for key, _ in _enabled_options(ctx.schema.options) if key == ICEBERG), None
    )
    if refusal is not None:
        raise refusal


def _find_read_refusal(ctx: TableContext) -> Unsupported | None:
    """Return the error for a table whose stored options or types lakekit cannot read; None if it can."""
    table_text = f"table {ctx.name}"
    refusal = find_read_refusal(ctx.schema.options, table_text, instead=_DO) or find_read_refusal(
        ctx.all_options, table_text, instead=_DO
    )
    return refusal or next(_unreadable_types(ctx.schema), None)


def _unreadable_types(schema: TableSchema) -> Iterator[Unsupported]:
    """Yield the errors for columns whose types lakekit does not read."""
    for field in schema.fields:
        for root in _roots(field.type):
            feature = FEATURES.get(f"type.{root.lower()}")
            if feature is not None and feature.read == "refused":
                yield refuse(feature.name, f"column {field.name}", instead=_DO)


def _roots(t: DataType) -> Iterator[str]:
    """Yield the root name of a type and of all types inside it."""
    yield t.root
    for part in t.parts:
        yield from _roots(part)


def _find_write_refusals(ctx: TableContext) -> Iterator[Unsupported]:
    """Yield the errors for options that concern writing only."""
    for key, text in _enabled_options(ctx.all_options):
        feature = FEATURES.get(f"option.{key}")
        if feature is not None and feature.write == "refused":
            yield _refusal(ctx, key)
        if key.startswith("fields.") and key.endswith(_LAYOUT):
            column = key.removeprefix("fields.").removesuffix(_LAYOUT)
            if text == "shared-shredding":
                yield refuse(_SHREDDING_FEATURE, f"column {column} of table {ctx.name}", instead=_DO)


def _refusal(ctx: TableContext, key: str) -> Unsupported:
    return refuse(f"option.{key}", f"table {ctx.name}", instead=_ICEBERG_DO if key == ICEBERG else _DO)


def _enabled_options(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the options that are not switched off, each as its key and its text in lower case."""
    for key, value in options.items():
        text = value.strip().lower()
        if text not in OFF_TEXTS:
            yield key, text
