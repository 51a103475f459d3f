"""Partial update: the newest value of each column that is not null.

    fields.g.sequence-group = a,b       a and b change together, with a row whose g is not less than the current one

In a sequence group all columns come from the row with the largest sequence. A scan over the versions keeps, for each
group, the current sequence and whether a row was accepted; what that means for each column is recorded as one operation
for each version (`row_versions.SKIP` … `SET_RETRACT`), and the columns are folded afterwards. The columns of a group
that have no function share their rows. Two quirks of the reference are kept: a key that begins with a retraction begins
with a copy of that row, and rows after a delete build on the deleted values.

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
from lakekit.lsm.numpy_columns import NAN, Array, Bools, Ints, assign_where, take_rows, to_comparable
from lakekit.lsm.row_versions import ADD, RETRACT, REVERSE, SET, SET_RETRACT, SKIP, Versions, split_versions
from lakekit.model.data_file import RowKind

if TYPE_CHECKING:
    from lakekit.lsm.merge_spec import MergeSpec, SequenceGroup

CHOOSES = False
_NULL = np.iinfo(np.int64).min


@dataclass(slots=True, kw_only=True)
class SequenceScan:
    """The scan over the versions for one sequence group.

    `current_sequences` is the current sequence of each key. `sequence_operations`, `plain_operations` and
    `folded_operations` are the operations of the versions on its sequence columns, its plain columns, and those with a
    function.
    """

    group: SequenceGroup
    numbers: list[Ints]
    is_float: list[bool]
    empty: Bools
    current_sequences: list[Ints]
    sequence_operations: Array
    plain_operations: Array
    folded_operations: Array


@dataclass(slots=True, kw_only=True)
class UpdatePlan:
    """What the versions do to columns and keys.

    `free_operations` are the operations on columns outside groups (None: all add), `sequence_scans` those on each
    group. `accepted_versions` are the versions that were not ignored, `deleted_keys` the keys that end as deleted; for
    `removed_versions` see `_record_removals`.
    """

    free_operations: Array | None
    sequence_scans: list[SequenceScan] = field(default_factory=list)
    accepted_versions: Bools | None = None
    deleted_keys: Bools
    removed_versions: dict[str, Bools] = field(default_factory=dict)


def fold(section: pl.DataFrame, spec: MergeSpec) -> pl.DataFrame:
    """Return one row for each key, deletes included; a row that is the only one of its key stays unchanged.

    Raises:
        InvalidOption: there are deletes in a table that takes none.
        SchemaMismatch: there is a null in a NOT NULL column.
    """
    lone, versions = split_versions(section, spec)
    if versions.count == 0:
        return section
    kinds = section[KIND].to_numpy()[versions.rows]
    plan = (
        _plan_grouped(section, spec, versions, kinds)
        if spec.sequence_groups
        else _plan_ungrouped(section, spec, versions, kinds)
    )
    return assemble_rows(section, lone, _merge_columns(section, spec, versions, plan))


def _merge_columns(
    section: pl.DataFrame, spec: MergeSpec, versions: Versions, plan: UpdatePlan
) -> dict[str, pl.Series]:
    last = versions.rows[versions.last_positions()]
    shared = {
        id(ops): last_rows(versions, ops)
        for walk in plan.sequence_scans
        for ops in (walk.sequence_operations, walk.plain_operations)
    }
    columns = {}
    for name in section.columns:
        column = section[name]
        walk = next(
            (walk for walk in plan.sequence_scans if name in (*walk.group.columns, *walk.group.protected_columns)), None
        )
        if name == KIND:
            columns[name] = pl.Series(name, np.where(plan.deleted_keys, RowKind.DELETE, RowKind.INSERT).astype(np.int8))
        elif name == SEQUENCE:
            columns[name] = _accepted_sequence(column, versions, plan)
        elif name in spec.key_columns or name in spec.primary_key or not any(part.name == name for part in spec.fields):
            columns[name] = take_rows(column, last)
        elif walk is None:
            columns[name] = last_non_null_value(
                _last_non_null_function(spec, name), versions, column, plan.free_operations
            )
        elif name in walk.group.protected_columns and name in spec.functions:
            _check_not_retracted(spec, name, plan)
            columns[name] = aggregates.fold_column(spec.functions[name], spec, versions, column, walk.folded_operations)
        else:
            columns[name] = take_rows(
                column, shared[id(walk.sequence_operations if name in walk.group.columns else walk.plain_operations)]
            )
    return columns


def _last_non_null_function(spec: MergeSpec, name: str) -> FieldFunction:
    return FieldFunction(
        column=name, name="last_non_null_value", type=next(part.type for part in spec.fields if part.name == name)
    )


def _accepted_sequence(column: pl.Series, versions: Versions, plan: UpdatePlan) -> pl.Series:
    """Return the number of the last version that was not ignored; 0 if all were."""
    ops = None if plan.accepted_versions is None else np.where(plan.accepted_versions, ADD, SKIP)
    return take_rows(column, last_rows(versions, ops)).fill_null(0)


def _check_not_retracted(spec: MergeSpec, name: str, plan: UpdatePlan) -> None:
    """Raise `Unsupported` if a function that cannot retract was asked to before a delete removed the row.

    Such a delete stops the update at its sequence column; columns before it are retracted.
    """
    reached = plan.removed_versions.get(name)
    if reached is not None and reached.any():
        function = spec.functions[name]
        aggregates.apply_ignored_retractions(
            function, spec, aggregates.find_aggregate(function, spec), np.where(reached, RETRACT, SKIP)
        )


# ---- without sequence groups -----------------------------------------------------------------------------------------


def _plan_ungrouped(section: pl.DataFrame, spec: MergeSpec, versions: Versions, kinds: Array) -> UpdatePlan:
    takes = (kinds & 1).astype(bool)
    nothing = np.zeros(versions.count, bool)
    check_not_null(section, spec, versions.rows if not takes.any() else versions.rows[~takes])
    if not takes.any():
        return UpdatePlan(free_operations=None, deleted_keys=nothing)
    if not spec.ignores_deletes and not spec.removes_on_delete:
        raise _make_delete_refusal(spec)
    begins = np.arange(len(takes)) < versions.count
    ops = np.where(takes, SKIP, ADD).astype(np.int8)
    ops[takes & begins] = SET
    inserted = _has_version_in(versions, ~takes)
    if spec.ignores_deletes:
        check_not_null(section, spec, versions.rows[ops == SET])
        return UpdatePlan(free_operations=ops, accepted_versions=~takes, deleted_keys=~inserted)
    removes = kinds == RowKind.DELETE
    ops[removes] = SET
    check_not_null(section, spec, versions.rows[ops == SET])
    return UpdatePlan(free_operations=ops, deleted_keys=~inserted | removes[versions.last_positions()])


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


def _plan_grouped(section: pl.DataFrame, spec: MergeSpec, versions: Versions, kinds: Array) -> UpdatePlan:
    takes = (kinds & 1).astype(bool)
    walks = [_start_scan(section, versions, group) for group in spec.sequence_groups if _has_columns(section, group)]
    begins = np.arange(len(takes)) < versions.count
    if spec.ignores_deletes:
        live, copied = ~takes, takes & begins
        deleted = ~_has_version_in(versions, ~takes)
    else:
        live, copied = np.ones(len(takes), bool), takes & begins
    names = [part.name for part in spec.fields]
    free = np.where(takes, SKIP, ADD).astype(np.int8)
    free[copied] = SET
    removed = np.zeros(len(takes), bool)
    reached = {
        name: np.zeros(len(takes), bool)
        for walk in walks
        for name in walk.group.protected_columns
        if name in spec.functions
    }
    for step in versions.iter_steps():
        _record_step(walks, step, takes[step] & live[step], ~takes[step], copied[step])
        _record_removals(walks, names, step, (kinds[step] == RowKind.DELETE) & live[step], removed, reached)
    for walk in walks:
        for ops in (walk.sequence_operations, walk.plain_operations, walk.folded_operations):
            ops[removed] = SET
    free[removed] = SET
    check_not_null(section, spec, versions.rows[free == SET])
    if not spec.ignores_deletes:
        deleted = ~_has_version_in(versions, ~takes) | removed[versions.last_positions()]
    return UpdatePlan(
        free_operations=free if takes.any() else None,
        sequence_scans=walks,
        accepted_versions=live if spec.ignores_deletes else None,
        deleted_keys=deleted,
        removed_versions=reached,
    )


def _has_columns(section: pl.DataFrame, group: SequenceGroup) -> bool:
    return set(group.columns) <= set(section.columns)


def _start_scan(section: pl.DataFrame, versions: Versions, group: SequenceGroup) -> SequenceScan:
    numbers = [to_comparable(section[name].gather(versions.rows), as_sequence=True) for name in group.columns]
    empty = np.logical_and.reduce([section[name].is_null().to_numpy()[versions.rows] for name in group.columns])
    ops = [np.zeros(len(versions.rows), np.int8) for _ in range(3)]
    current = [np.full(versions.count, _NULL, np.int64) for _ in numbers]
    floats = [section[name].dtype.is_float() for name in group.columns]
    return SequenceScan(
        group=group,
        numbers=numbers,
        is_float=floats,
        empty=empty,
        current_sequences=current,
        sequence_operations=ops[0],
        plain_operations=ops[1],
        folded_operations=ops[2],
    )


def _is_not_smaller(sequence_scan: SequenceScan, step: slice) -> Bools:
    """Return whether each version's sequence is at least the current one.

    Columns are compared from left to right, null is least; NaN equals any number.
    """
    height = step.stop - step.start
    larger, tied = np.zeros(height, bool), np.ones(height, bool)
    for numbers, current, is_float in zip(
        sequence_scan.numbers, sequence_scan.current_sequences, sequence_scan.is_float, strict=True
    ):
        mine, theirs = current[:height], numbers[step]
        alike = theirs == mine
        if is_float:
            alike |= ((theirs == NAN) | (mine == NAN)) & (theirs != _NULL) & (mine != _NULL)
        larger |= tied & (theirs > mine) & ~alike
        tied &= alike
    return larger | tied


def _record_step(sequence_scans: list[SequenceScan], step: slice, takes: Bools, adds: Bools, copied: Bools) -> None:
    """Record the operations of one version of every key.

    `takes` retract, `adds` add, others are ignored; `copied` begin with a copy of themselves.
    """
    for walk in sequence_scans:
        _advance_sequence(walk, step, copied)
        has_sequence = ~walk.empty[step]
        gets_in = has_sequence & (copied | _is_not_smaller(walk, step))
        active = takes | adds
        walk.sequence_operations[step] = np.where(copied, SET, np.where(gets_in & active, ADD, SKIP))
        plain = np.where(gets_in & adds, ADD, np.where(gets_in & takes, RETRACT, SKIP))
        walk.plain_operations[step] = np.where(copied & ~(gets_in & takes), SET, plain)
        folded = np.where(
            adds & has_sequence, np.where(gets_in, ADD, REVERSE), np.where(takes & has_sequence, RETRACT, SKIP)
        )
        walk.folded_operations[step] = np.where(copied, np.where(takes & has_sequence, SET_RETRACT, SET), folded)
        _advance_sequence(walk, step, gets_in & active)


def _advance_sequence(sequence_scan: SequenceScan, step: slice, which: Bools) -> None:
    for numbers, current in zip(sequence_scan.numbers, sequence_scan.current_sequences, strict=True):
        assign_where(current[: len(which)], numbers[step], which)


def _record_removals(
    sequence_scans: list[SequenceScan],
    names: list[str],
    step: slice,
    deletes: Bools,
    removed: Bools,
    reached: dict[str, Bools],
) -> None:
    """Replace the row by a delete that was accepted by a group that removes.

    `reached` records, for each function, the versions that retracted from its column before that.
    """
    if not deletes.any():
        return
    places = np.full(len(deletes), len(names))
    for walk in sequence_scans:
        if walk.group.removes_record:
            got_in = (
                deletes
                & ~walk.empty[step]
                & ((walk.sequence_operations[step] == ADD) | (walk.sequence_operations[step] == SET))
            )
            places[got_in] = np.minimum(places[got_in], min(names.index(name) for name in walk.group.columns))
    is_removed = places < len(names)
    removed[step] = is_removed
    for walk in sequence_scans:
        for name in walk.group.protected_columns:
            if name in reached:
                is_retracted = (walk.folded_operations[step] == RETRACT) | (walk.folded_operations[step] == SET_RETRACT)
                reached[name][step] |= is_removed & is_retracted & (names.index(name) < places)
        _advance_sequence(walk, step, is_removed)
