"""Partial update: the newest value of each column that is not null.

    fields.g.sequence-group = a,b       a and b change together, with a row whose g is not less than the current one

In a sequence group all columns come from the row with the largest sequence. `_plan_grouped` scans the versions of all
keys, oldest first, and keeps for each group the current sequence of each key. What a version does to a column is one
operation (`row_versions.SKIP` … `SET_RETRACT`); `_merge_columns` then folds each column by its operations. Columns of a
group that have no aggregate function take their values from the same rows. Two quirks of the reference are kept: a
first version that retracts is itself the first state of its key, and versions after a delete start from the values of
the deleted row.

Source: ENGINE.md 3.1 and 3.3, `PartialUpdateMergeFunction`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lakekit.columns import KIND, SEQUENCE
from lakekit.errors import InvalidOption
from lakekit.lsm import aggregates
from lakekit.lsm.aggregates.select_value import last_non_null_value, last_rows
from lakekit.lsm.engines.aggregation import assemble_rows, check_not_null
from lakekit.lsm.merge_spec import FieldFunction
from lakekit.lsm.numpy_columns import NAN_CODE, Array, Bools, Ints, assign_where, take_rows, to_comparable
from lakekit.lsm.row_versions import ADD, RETRACT, REVERSE, SET, SET_RETRACT, SKIP, Versions, split_versions
from lakekit.model.data_file import RowKind

if TYPE_CHECKING:
    from lakekit.lsm.merge_spec import MergeSpec, SequenceGroup

SELECTS_ROWS = False
"""The engine computes a row of each key from its versions, and selects none of them."""
_NULL_SEQUENCE = np.iinfo(np.int64).min
"""The comparable integer of a null: least of all."""


@dataclass(slots=True, kw_only=True)
class SequenceScan:
    """The scan over the versions for one sequence group.

    Attributes:
        sequence_columns: the values of each sequence column as comparable integers, one array of all versions each.
        is_float_column: whether each sequence column is FLOAT or DOUBLE.
        is_null_sequence: the versions whose sequence columns are all null.
        current_sequences: for each sequence column the current value of each key.
        sequence_column_operations, plain_column_operations, aggregate_column_operations: the operation of each version
            on the sequence columns, on the columns without and on those with an aggregate function.
    """

    group: SequenceGroup
    sequence_columns: list[Ints]
    is_float_column: list[bool]
    is_null_sequence: Bools
    current_sequences: list[Ints]
    sequence_column_operations: Array
    plain_column_operations: Array
    aggregate_column_operations: Array


@dataclass(slots=True, kw_only=True)
class UpdatePlan:
    """What the versions do to columns and keys.

    Attributes:
        ungrouped_operations: the operation of each version on columns outside groups; None: all add.
        sequence_scans: the operations on the columns of each group.
        accepted_versions: the mask of versions that were not ignored; None: all were accepted.
        deleted_keys: the mask of keys that end as deleted.
        retracted_before_delete: by aggregate column, the versions that retracted from it before they deleted the row.
    """

    ungrouped_operations: Array | None
    sequence_scans: list[SequenceScan] = field(default_factory=list)
    accepted_versions: Bools | None = None
    deleted_keys: Bools
    retracted_before_delete: dict[str, Bools] = field(default_factory=dict)


def fold(section: pl.DataFrame, spec: MergeSpec) -> pl.DataFrame:
    """Return one row for each key, deletes included; a row that is the only one of its key stays unchanged.

    Raises:
        InvalidOption: there are deletes in a table that takes none.
        SchemaMismatch: there is a null in a NOT NULL column.
    """
    is_single_version, versions = split_versions(section, spec)
    if versions.count == 0:
        return section
    kinds = section[KIND].to_numpy()[versions.row_numbers]
    plan = (
        _plan_grouped(section, spec, versions, kinds)
        if spec.sequence_groups
        else _plan_ungrouped(section, spec, versions, kinds)
    )
    return assemble_rows(section, is_single_version, _merge_columns(section, spec, versions, plan))


def _merge_columns(
    section: pl.DataFrame, spec: MergeSpec, versions: Versions, plan: UpdatePlan
) -> dict[str, pl.Series]:
    last = versions.row_numbers[versions.last_positions()]
    shared = {
        id(ops): last_rows(versions, ops)
        for sequence_scan in plan.sequence_scans
        for ops in (sequence_scan.sequence_column_operations, sequence_scan.plain_column_operations)
    }
    columns = {}
    for name in section.columns:
        column = section[name]
        sequence_scan = next(
            (
                sequence_scan
                for sequence_scan in plan.sequence_scans
                if name in (*sequence_scan.group.columns, *sequence_scan.group.protected_columns)
            ),
            None,
        )
        if name == KIND:
            columns[name] = pl.Series(name, np.where(plan.deleted_keys, RowKind.DELETE, RowKind.INSERT).astype(np.int8))
        elif name == SEQUENCE:
            columns[name] = _last_accepted_sequence(column, versions, plan)
        elif name in spec.key_columns or name in spec.primary_key or not any(part.name == name for part in spec.fields):
            columns[name] = take_rows(column, last)
        elif sequence_scan is None:
            columns[name] = last_non_null_value(
                _last_non_null_function(spec, name), versions, column, plan.ungrouped_operations
            )
        elif name in sequence_scan.group.protected_columns and name in spec.functions:
            _check_not_retracted(spec, name, plan)
            columns[name] = aggregates.fold_column(
                spec.functions[name], spec, versions, column, sequence_scan.aggregate_column_operations
            )
        else:
            columns[name] = take_rows(
                column,
                shared[
                    id(
                        sequence_scan.sequence_column_operations
                        if name in sequence_scan.group.columns
                        else sequence_scan.plain_column_operations
                    )
                ],
            )
    return columns


def _last_non_null_function(spec: MergeSpec, name: str) -> FieldFunction:
    return FieldFunction(
        column=name, name="last_non_null_value", type=next(part.type for part in spec.fields if part.name == name)
    )


def _last_accepted_sequence(column: pl.Series, versions: Versions, plan: UpdatePlan) -> pl.Series:
    """Return the sequence number of each key's last version that was not ignored; 0 if all were."""
    ops = None if plan.accepted_versions is None else np.where(plan.accepted_versions, ADD, SKIP)
    return take_rows(column, last_rows(versions, ops)).fill_null(0)


def _check_not_retracted(spec: MergeSpec, name: str, plan: UpdatePlan) -> None:
    """Raise `Unsupported` if a version retracted from a column whose function cannot, before it deleted the row.

    A delete that removes the row is applied to the columns in their order, up to its first sequence column: the columns
    before that are retracted.
    """
    retracted_versions = plan.retracted_before_delete.get(name)
    if retracted_versions is not None and retracted_versions.any():
        function = spec.functions[name]
        aggregates.apply_ignored_retractions(
            function, spec, aggregates.find_aggregate(function, spec), np.where(retracted_versions, RETRACT, SKIP)
        )


# ---- without sequence groups -----------------------------------------------------------------------------------------


def _plan_ungrouped(section: pl.DataFrame, spec: MergeSpec, versions: Versions, row_kinds: Array) -> UpdatePlan:
    retracting = (row_kinds & 1).astype(bool)
    nothing = np.zeros(versions.count, bool)
    check_not_null(section, spec, versions.row_numbers if not retracting.any() else versions.row_numbers[~retracting])
    if not retracting.any():
        return UpdatePlan(ungrouped_operations=None, deleted_keys=nothing)
    if not spec.ignores_deletes and not spec.removes_on_delete:
        raise _make_delete_refusal(spec)
    is_first_version = np.arange(len(retracting)) < versions.count
    ops = np.where(retracting, SKIP, ADD).astype(np.int8)
    ops[retracting & is_first_version] = SET
    inserted = _has_version_in(versions, ~retracting)
    if spec.ignores_deletes:
        check_not_null(section, spec, versions.row_numbers[ops == SET])
        return UpdatePlan(ungrouped_operations=ops, accepted_versions=~retracting, deleted_keys=~inserted)
    removes = row_kinds == RowKind.DELETE
    ops[removes] = SET
    check_not_null(section, spec, versions.row_numbers[ops == SET])
    return UpdatePlan(ungrouped_operations=ops, deleted_keys=~inserted | removes[versions.last_positions()])


def _make_delete_refusal(spec: MergeSpec) -> InvalidOption:
    return InvalidOption(
        f"By default, Partial update can not accept delete records, and {spec.table_name} holds some of keys that have "
        "other rows. Choose one of: "
        "1. configure 'ignore-delete' to ignore delete records; "
        "2. configure 'partial-update.remove-record-on-delete' to remove the whole row when receiving delete records; "
        "3. configure 'sequence-group's to retract partial columns, with "
        "'partial-update.remove-record-on-sequence-group' to remove the whole row when "
        "receiving deleted records of the specified sequence group. t.scan(raw=True) reads the rows unmerged",
        key="ignore-delete",
    )


def _has_version_in(versions: Versions, mask: Bools) -> Bools:
    has_version = np.zeros(versions.count, bool)
    for step in versions.iter_steps():
        has_version[: step.stop - step.start] |= mask[step]
    return has_version


# ---- with sequence groups --------------------------------------------------------------------------------------------


def _plan_grouped(section: pl.DataFrame, spec: MergeSpec, versions: Versions, row_kinds: Array) -> UpdatePlan:
    retracting = (row_kinds & 1).astype(bool)
    sequence_scans = [
        _start_scan(section, versions, group) for group in spec.sequence_groups if _has_sequence_columns(section, group)
    ]
    is_first_version = np.arange(len(retracting)) < versions.count
    if spec.ignores_deletes:
        live, initialized_by_copy = ~retracting, retracting & is_first_version
        deleted = ~_has_version_in(versions, ~retracting)
    else:
        live, initialized_by_copy = np.ones(len(retracting), bool), retracting & is_first_version
    names = [part.name for part in spec.fields]
    ungrouped = np.where(retracting, SKIP, ADD).astype(np.int8)
    ungrouped[initialized_by_copy] = SET
    replaced_by_delete = np.zeros(len(retracting), bool)
    retracted_versions = {
        name: np.zeros(len(retracting), bool)
        for sequence_scan in sequence_scans
        for name in sequence_scan.group.protected_columns
        if name in spec.functions
    }
    for step in versions.iter_steps():
        _record_step(sequence_scans, step, retracting[step] & live[step], ~retracting[step], initialized_by_copy[step])
        _record_removals(
            sequence_scans,
            names,
            step,
            (row_kinds[step] == RowKind.DELETE) & live[step],
            replaced_by_delete,
            retracted_versions,
        )
    for sequence_scan in sequence_scans:
        for ops in (
            sequence_scan.sequence_column_operations,
            sequence_scan.plain_column_operations,
            sequence_scan.aggregate_column_operations,
        ):
            ops[replaced_by_delete] = SET
    ungrouped[replaced_by_delete] = SET
    check_not_null(section, spec, versions.row_numbers[ungrouped == SET])
    if not spec.ignores_deletes:
        deleted = ~_has_version_in(versions, ~retracting) | replaced_by_delete[versions.last_positions()]
    return UpdatePlan(
        ungrouped_operations=ungrouped if retracting.any() else None,
        sequence_scans=sequence_scans,
        accepted_versions=live if spec.ignores_deletes else None,
        deleted_keys=deleted,
        retracted_before_delete=retracted_versions,
    )


def _has_sequence_columns(section: pl.DataFrame, group: SequenceGroup) -> bool:
    return set(group.columns) <= set(section.columns)


def _start_scan(section: pl.DataFrame, versions: Versions, group: SequenceGroup) -> SequenceScan:
    sequence_columns = [
        to_comparable(section[name].gather(versions.row_numbers), as_sequence=True) for name in group.columns
    ]
    is_null_sequence = np.logical_and.reduce(
        [section[name].is_null().to_numpy()[versions.row_numbers] for name in group.columns]
    )
    ops = [np.zeros(len(versions.row_numbers), np.int8) for _ in range(3)]
    current_sequences = [np.full(versions.count, _NULL_SEQUENCE, np.int64) for _ in sequence_columns]
    is_float_column = [section[name].dtype.is_float() for name in group.columns]
    return SequenceScan(
        group=group,
        sequence_columns=sequence_columns,
        is_float_column=is_float_column,
        is_null_sequence=is_null_sequence,
        current_sequences=current_sequences,
        sequence_column_operations=ops[0],
        plain_column_operations=ops[1],
        aggregate_column_operations=ops[2],
    )


def _is_not_smaller(sequence_scan: SequenceScan, step: slice) -> Bools:
    """Return whether each version's sequence is at least the current one.

    Columns are compared from left to right, null is least; NaN equals any number.
    """
    height = step.stop - step.start
    larger, tied = np.zeros(height, bool), np.ones(height, bool)
    for sequence_column, current, is_float in zip(
        sequence_scan.sequence_columns, sequence_scan.current_sequences, sequence_scan.is_float_column, strict=True
    ):
        mine, theirs = current[:height], sequence_column[step]
        alike = theirs == mine
        if is_float:
            alike |= ((theirs == NAN_CODE) | (mine == NAN_CODE)) & (theirs != _NULL_SEQUENCE) & (mine != _NULL_SEQUENCE)
        larger |= tied & (theirs > mine) & ~alike
        tied &= alike
    return larger | tied


def _record_step(
    sequence_scans: list[SequenceScan], step: slice, is_retracting: Bools, is_adding: Bools, initialized_by_copy: Bools
) -> None:
    """Record the operations of one version of every key.

    Versions in `is_retracting` retract, those in `is_adding` add, others are ignored; those in `initialized_by_copy`
    become the state of their key themselves.
    """
    for sequence_scan in sequence_scans:
        _advance_sequence(sequence_scan, step, initialized_by_copy)
        has_sequence = ~sequence_scan.is_null_sequence[step]
        is_accepted = has_sequence & (initialized_by_copy | _is_not_smaller(sequence_scan, step))
        active = is_retracting | is_adding
        sequence_scan.sequence_column_operations[step] = np.where(
            initialized_by_copy, SET, np.where(is_accepted & active, ADD, SKIP)
        )
        plain = np.where(is_accepted & is_adding, ADD, np.where(is_accepted & is_retracting, RETRACT, SKIP))
        sequence_scan.plain_column_operations[step] = np.where(
            initialized_by_copy & ~(is_accepted & is_retracting), SET, plain
        )
        folded = np.where(
            is_adding & has_sequence,
            np.where(is_accepted, ADD, REVERSE),
            np.where(is_retracting & has_sequence, RETRACT, SKIP),
        )
        sequence_scan.aggregate_column_operations[step] = np.where(
            initialized_by_copy, np.where(is_retracting & has_sequence, SET_RETRACT, SET), folded
        )
        _advance_sequence(sequence_scan, step, is_accepted & active)


def _advance_sequence(sequence_scan: SequenceScan, step: slice, mask: Bools) -> None:
    for sequence_column, current in zip(sequence_scan.sequence_columns, sequence_scan.current_sequences, strict=True):
        assign_where(current[: len(mask)], sequence_column[step], mask)


def _record_removals(
    sequence_scans: list[SequenceScan],
    names: list[str],
    step: slice,
    deletes: Bools,
    replaced_by_delete: Bools,
    retracted_versions: dict[str, Bools],
) -> None:
    """Record the deletes that remove the row: those accepted by a group with `removes_record`.

    They are added to `replaced_by_delete`. `retracted_versions` records, for each aggregate column, the versions that
    retracted from it before they removed the row.
    """
    if not deletes.any():
        return
    column_positions = np.full(len(deletes), len(names))
    for sequence_scan in sequence_scans:
        if sequence_scan.group.removes_record:
            is_accepted = (
                deletes
                & ~sequence_scan.is_null_sequence[step]
                & (
                    (sequence_scan.sequence_column_operations[step] == ADD)
                    | (sequence_scan.sequence_column_operations[step] == SET)
                )
            )
            column_positions[is_accepted] = np.minimum(
                column_positions[is_accepted], min(names.index(name) for name in sequence_scan.group.columns)
            )
    is_removed = column_positions < len(names)
    replaced_by_delete[step] = is_removed
    for sequence_scan in sequence_scans:
        for name in sequence_scan.group.protected_columns:
            if name in retracted_versions:
                is_retracted = (sequence_scan.aggregate_column_operations[step] == RETRACT) | (
                    sequence_scan.aggregate_column_operations[step] == SET_RETRACT
                )
                retracted_versions[name][step] |= is_removed & is_retracted & (names.index(name) < column_positions)
        _advance_sequence(sequence_scan, step, is_removed)
