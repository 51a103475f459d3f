"""Apache Paimon tables in Python, as Polars frames, without a JVM.

    import lakekit as lk

    t = lk.open("warehouse/shop.db/orders")     # a path is a table
    t.scan()                                    # a pl.LazyFrame of its newest snapshot
    t.snapshots(); t.files(at=3)                # everything about it, as small frames
    t.explain(pl.col("day") == "2024-03-31")    # what a query will not have to read

Names are loaded when they are first used: `import lakekit` itself loads neither Polars nor pyarrow.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakekit import errors as errors
    from lakekit.catalog.catalog import Catalog as Catalog
    from lakekit.catalog.connection import connect as connect
    from lakekit.catalog.sys_tables import GlobalTable as GlobalTable, SystemTable as SystemTable
    from lakekit.commit.changes import Commit as Commit
    from lakekit.ddl.schema_changes import (
        add_column as add_column,
        drop_column as drop_column,
        move_column as move_column,
        rename_column as rename_column,
        reset_option as reset_option,
        set_comment as set_comment,
        set_option as set_option,
        update_comment as update_comment,
        update_default as update_default,
        update_nullability as update_nullability,
        update_type as update_type,
    )
    from lakekit.dml.merge_plan import (
        WhenMatched as WhenMatched,
        WhenNotMatched as WhenNotMatched,
        WhenNotMatchedBySource as WhenNotMatchedBySource,
        source as source,
        when_matched as when_matched,
        when_not_matched as when_not_matched,
        when_not_matched_by_source as when_not_matched_by_source,
    )
    from lakekit.errors import (
        AlreadyExists as AlreadyExists,
        BranchAlreadyExists as BranchAlreadyExists,
        BranchNotFound as BranchNotFound,
        ColumnAlreadyExists as ColumnAlreadyExists,
        ColumnNotFound as ColumnNotFound,
        CommitStateUnknown as CommitStateUnknown,
        Conflict as Conflict,
        ConsumerAlreadyExists as ConsumerAlreadyExists,
        ConsumerNotFound as ConsumerNotFound,
        Corrupt as Corrupt,
        DatabaseAlreadyExists as DatabaseAlreadyExists,
        DatabaseNotFound as DatabaseNotFound,
        ExtraMissing as ExtraMissing,
        ForkedProcess as ForkedProcess,
        InvalidOption as InvalidOption,
        LakekitError as LakekitError,
        LimitExceeded as LimitExceeded,
        LocationNotAllowed as LocationNotAllowed,
        LockLost as LockLost,
        MergeConflict as MergeConflict,
        NotFound as NotFound,
        PartitionAlreadyExists as PartitionAlreadyExists,
        PartitionNotFound as PartitionNotFound,
        RetriesExhausted as RetriesExhausted,
        SchemaChanged as SchemaChanged,
        SchemaMismatch as SchemaMismatch,
        SnapshotAlreadyExists as SnapshotAlreadyExists,
        SnapshotNotFound as SnapshotNotFound,
        SqlError as SqlError,
        StorageFailed as StorageFailed,
        TableAlreadyExists as TableAlreadyExists,
        TableNotFound as TableNotFound,
        TagAlreadyExists as TagAlreadyExists,
        TagNotFound as TagNotFound,
        UncommittedRows as UncommittedRows,
        Unsupported as Unsupported,
        ValueOutOfRange as ValueOutOfRange,
        ViewAlreadyExists as ViewAlreadyExists,
        ViewNotFound as ViewNotFound,
    )
    from lakekit.inspection.hexdump import hex as hex
    from lakekit.maintenance.check.findings import Finding as Finding, Report as Report
    from lakekit.maintenance.result import DeletionResult as DeletionResult, Expired as Expired
    from lakekit.model.commit_message import CommitMessage as CommitMessage
    from lakekit.progress import progress as progress
    from lakekit.read.explain import Explain as Explain
    from lakekit.read.stream import Change as Change
    from lakekit.system_tables.registry import features as features, options as options, versions as versions
    from lakekit.table import Table as Table
    from lakekit.table.open_create import create as create, open as open
    from lakekit.table.schema import Schema as Schema, SchemaChange as SchemaChange, SchemaDiff as SchemaDiff
    from lakekit.table.table_writer import Writer as Writer
    from lakekit.types import DataType as DataType, Field as Field

__version__ = "0.1.0"

_HOMES = {
    "lakekit.maintenance.result": "DeletionResult Expired",
    "lakekit.maintenance.check.findings": "Finding Report",
    "lakekit.catalog.catalog": "Catalog",
    "lakekit.catalog.connection": "connect",
    "lakekit.catalog.sys_tables": "GlobalTable SystemTable",
    "lakekit.dml.merge_plan": """
        WhenMatched WhenNotMatched WhenNotMatchedBySource source when_matched when_not_matched
        when_not_matched_by_source
    """,
    "lakekit.ddl.schema_changes": """
        add_column drop_column move_column rename_column reset_option set_comment set_option update_comment
        update_default update_nullability update_type
    """,
    "lakekit.commit.changes": "Commit",
    "lakekit.errors": """
        AlreadyExists BranchAlreadyExists BranchNotFound ColumnAlreadyExists ColumnNotFound CommitStateUnknown Conflict
        ConsumerAlreadyExists
        ConsumerNotFound Corrupt DatabaseAlreadyExists DatabaseNotFound ExtraMissing ForkedProcess
        InvalidOption LakekitError LimitExceeded LocationNotAllowed
        LockLost MergeConflict NotFound PartitionAlreadyExists PartitionNotFound RetriesExhausted SchemaChanged
        SchemaMismatch
        SnapshotAlreadyExists SnapshotNotFound SqlError StorageFailed
        TableAlreadyExists TableNotFound TagAlreadyExists TagNotFound UncommittedRows Unsupported ValueOutOfRange
        ViewAlreadyExists ViewNotFound
    """,
    "lakekit.model.commit_message": "CommitMessage",
    "lakekit.progress": "progress",
    "lakekit.read.stream": "Change",
    "lakekit.read.explain": "Explain",
    "lakekit.system_tables.registry": "features options versions",
    "lakekit.table": "Table",
    "lakekit.inspection.hexdump": "hex",
    "lakekit.table.open_create": "create open",
    "lakekit.table.schema": "Schema SchemaChange SchemaDiff",
    "lakekit.table.table_writer": "Writer",
    "lakekit.types": "DataType Field",
}
"""Where each public name lives."""

_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
_SHADOWING = ("hex", "open")
"""Public, but `from lakekit import *` must not replace built-ins."""

__all__ = ["errors"]
__all__ += [name for name in sorted(_HOME) if name not in _SHADOWING]


class _Names(ModuleType):
    """The package as a module whose functions (`lk.options()`) win over its modules of the same name."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("lakekit.errors")
    if name == "load_ipython_extension":  # what `%load_ext lakekit` asks for
        return import_module("lakekit.cli.magics").load_ipython_extension
    if name not in _HOME:
        message = f"module 'lakekit' has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOME, "__version__"})


sys.modules[__name__].__class__ = _Names
