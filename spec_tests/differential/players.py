"""Two players of scripts, interchangeable: the reference engine behind its pipes, and lakekit by its public names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

import lakekit as lk
from lakekit.errors import LakekitError
from lakekit.testing.expectations import decode_series, encode_rows
from spec_tests.differential.judge import Refused
from spec_tests.differential.scripts import Alter, Compact, Overwrite, Reopen, Write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spec_tests.differential.judge import Judge
    from spec_tests.differential.scripts import Row, Script, Step

KIND = "_row_kind"
JOB = "job"


class Player(Protocol):
    """Makes tables and takes steps; what is refused raises `Refused`."""

    name: str

    def create(self, path: str, script: Script) -> None:
        """The script's table, empty."""
        ...

    def take(self, path: str, step: Step, dynamic: Mapping[str, str]) -> None:
        """One step, with the dynamic options that hold by now."""
        ...


class ByReference:
    """The engine plays."""

    name = "java"

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    def create(self, path: str, script: Script) -> None:
        self.judge.create(path, script.schema, primary_keys=script.primary_keys, partition_keys=script.partition_keys, options=script.options)

    def take(self, path: str, step: Step, dynamic: Mapping[str, str]) -> None:
        match step:
            case Write():
                job = {} if step.identifier is None else {"user": JOB, "identifier": step.identifier, "full": step.full}
                self.judge.write(path, step.rows, options=dynamic, sink=True, **job)  # type: ignore[arg-type]
            case Compact():
                postponed = int(lk.open(path).options.get("postpone.default-bucket-num", "1"))
                self.judge.compact(path, full=step.full, postponed=postponed, options=dynamic)
            case Overwrite():
                static = {} if step.partition is None else {"dynamic-partition-overwrite": "false"}
                where = step.partition if isinstance(step.partition, dict) else {}
                self.judge.write(path, step.rows, overwrite=where, options={**dynamic, **static}, sink=True)
            case Alter():
                self.judge.alter(path, *step.changes)
            case Reopen():
                pass


class ByLakekit:
    """lakekit plays."""

    name = "lakekit"

    def create(self, path: str, script: Script) -> None:
        keys = {"primary_keys": script.primary_keys, "partition_keys": script.partition_keys}
        with refusals():
            lk.create(path, dict(script.schema), options=dict(script.options), **keys)

    def take(self, path: str, step: Step, dynamic: Mapping[str, str]) -> None:
        with refusals():
            table = lk.open(path, options=dict(dynamic))
            match step:
                case Write(identifier=None):
                    if table.primary_keys:
                        table.upsert(frame(table, step.rows), row_kind=kind_of(table))
                    else:
                        table.append(frame(table, step.rows))
                case Write():
                    with table.writer(commit_user=JOB) as writer:
                        writer.write(frame(table, step.rows), row_kind=kind_of(table))
                        if step.full:
                            writer.compact(full=True)
                        writer.commit(step.identifier)
                case Compact():
                    table.compact(full=step.full)
                case Overwrite():
                    whole = {"dynamic-partition-overwrite": "false"} if step.partition == "whole" else {}
                    where = step.partition if isinstance(step.partition, dict) else None
                    table.with_options(whole).overwrite(frame(table, step.rows, plain=True), partition=where)
                case Alter():
                    table.alter(*(_change(*told) for told in step.changes))
                case Reopen():
                    pass


def _change(word: str, name: str, *given: Any) -> Any:
    """A change as `lk` spells it."""
    if word == "move_column":
        place, other = given
        return lk.move_column(name, **{place: other or True})
    return getattr(lk, word)(name, *given)


class refusals:  # noqa: N801 - reads as a word
    """Errors of lakekit as `Refused`; any other error is a fault."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, wrong: BaseException | None, __: object) -> None:
        if isinstance(wrong, LakekitError):
            raise Refused(type(wrong).__name__, str(wrong)) from wrong


def kind_of(table: lk.Table) -> str | None:
    """The column of row kinds that frames for the table have beside its own."""
    return KIND if table.primary_keys and "rowkind.field" not in table.options else None


def frame(table: lk.Table, rows: tuple[Row, ...], *, plain: bool = False) -> pl.DataFrame:
    """Rows spelt as in recorded reads, in the order of the table's columns, as a frame; with their kinds unless `plain`."""
    fields = table.schema.fields
    columns = [decode_series([values[i] for _, values in rows], field.type, field.name) for i, field in enumerate(fields)]
    kinds = [] if plain or kind_of(table) is None else [pl.Series(KIND, [kind for kind, _ in rows], pl.String)]
    return pl.DataFrame([*columns, *kinds])


def rows_read(path: str, **scan: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """What lakekit reads."""
    with refusals():
        table = lk.open(path)
        return encode_rows(table.scan(**scan).collect(), [field.type for field in table.schema.fields])
    return []


def changes_read(path: str) -> list[tuple[str, tuple[Any, ...]]]:
    """All changes that lakekit reads, with their kinds."""
    with refusals():
        table = lk.open(path)
        return encode_rows(table.changes(0).collect(), [field.type for field in table.schema.fields], kind_column=KIND)
    return []
