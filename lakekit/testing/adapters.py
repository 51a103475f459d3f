"""Readers and writers under test: Python functions, or any program; and their rows, in one encoding.

    reader_of("mypackage.paimon:read")              read(path, options) returns Arrow (or Polars) data, or dicts
    reader_command("myreader {path} {options}")     prints a line of JSON for each row:
                                                    {"_row_kind": "+I", "k": 1, "v": "a"}
    writer_of("mypackage.paimon:write")             write(path, script) makes the table of a script at a path that
                                                    does not exist yet
    writer_command("mywriter {path} {script}")      the same; `{script}` is the path of the script as JSON

`options` are dynamic options of Paimon (`{"scan.snapshot-id": "3"}`; a branch is the option `branch`), to a program as
one argument of JSON. A program whose arguments have no `{options}` runs only cases that need none. `{output}` is a file
for the rows; without it they are what the program prints.

Values of rows are those of `lakekit.testing.expectations`: DECIMAL, FLOAT and DOUBLE as text, BINARY as hex, DATE as
its epoch day, TIME as milliseconds of the day, TIMESTAMP as [epoch milliseconds, nanoseconds of that millisecond],
ARRAY and ROW as lists, MAP as a list of [key, value]. `_row_kind` may be left out.

Unsupported, which is no failure: a function raises `NotImplementedError`, a program ends with exit code 3; the last
line on stderr says why.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from lakekit.errors import InvalidOption
from lakekit.testing.expectations import encode_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lakekit.types import DataType

UNSUPPORTED_EXIT_CODE = 3
"""The exit code of a program that does not support what it was called for."""
TIMEOUT_S = 60
KIND_COLUMN = "_row_kind"
KIND_TEXTS = frozenset(("+I", "-U", "+U", "-D"))
_MAX_LINE_LENGTH = 200

Rows = list[tuple[str, tuple[Any, ...]]]


class ImplementationFailure(Exception):
    """An implementation that crashed, hangs, or returns what is no rows.

    It is a failure even where a refusal is expected.
    """


class Refusal(Exception):
    """A refusal by an implementation, with its message."""


class FeatureNotSupported(Exception):
    """A feature that an implementation does not support, with its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderAdapter:
    """A reader of tables.

    `answer(path, options)` returns what `encode_answer` encodes; `takes_options`: whether it takes options.
    """

    name: str
    answer: Callable[[str, dict[str, str]], Any]
    takes_options: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterAdapter:
    """A writer of tables.

    `play(path, script)` makes the table of a script (`lakekit.testing.scripts`), as JSON, at a path that does not exist
    yet.
    """

    name: str
    play: Callable[[str, dict[str, Any]], None]


# ---- as Python functions ---------------------------------------------------------------------------------------------


def reader_of(reference: str | Callable[[str, dict[str, str]], Any]) -> ReaderAdapter:
    """Return a reader from a function, or from its name `package.module:function`.

    Raises: `InvalidOption` if there is none.
    """
    function = _load_function(reference, "--reader")
    return ReaderAdapter(
        name=_reference_name(reference), answer=lambda path, options: _call_adapter(function, path, options)
    )


def writer_of(reference: str | Callable[[str, dict[str, Any]], None]) -> WriterAdapter:
    """Return a writer from a function, or from its name `package.module:function`.

    Raises: `InvalidOption` if there is none.
    """
    function = _load_function(reference, "--writer")
    return WriterAdapter(
        name=_reference_name(reference), play=lambda path, script: _call_adapter(function, path, script)
    )


def _reference_name(reference: Any) -> str:
    return reference if isinstance(reference, str) else getattr(reference, "__name__", repr(reference))


def _load_function(reference: Any, flag: str) -> Callable[..., Any]:
    if not isinstance(reference, str):
        if not callable(reference):
            raise InvalidOption(
                f"{flag}: {reference!r} is neither a function nor its name, package.module:function",
                key=flag,
                value=str(reference),
            )
        return reference
    module, _, name = reference.partition(":")
    if not (module and name):
        raise InvalidOption(
            f"{flag} {reference}: a function is named package.module:function", key=flag, value=reference
        )
    if "" not in sys.path:
        sys.path.insert(0, "")  # where the author stands, as `python -m` has it
    try:
        function = getattr(import_module(module), name)
    except ImportError as missing:
        raise InvalidOption(
            f"{flag} {reference}: {missing}; it is looked for here and among installed packages",
            key=flag,
            value=reference,
        ) from missing
    except AttributeError as missing:
        raise InvalidOption(
            f"{flag} {reference}: the module {module} has no {name}", key=flag, value=reference
        ) from missing
    return _load_function(function, flag)


def _call_adapter(function: Callable[..., Any], path: str, argument: dict[str, Any]) -> Any:
    try:
        answer = function(path, argument)
        if isinstance(answer, pl.LazyFrame):
            return answer.collect()
        return list(answer) if isinstance(answer, Iterator) else answer
    except NotImplementedError as missing:
        raise FeatureNotSupported(_line(str(missing) or "NotImplementedError")) from missing
    except (ImplementationFailure, FeatureNotSupported, Refusal):
        raise
    except Exception as refused:
        raise Refusal(_line(f"{type(refused).__name__}: {refused}")) from refused


# ---- as programs -----------------------------------------------------------------------------------------------------


def reader_command(template: str, *, timeout_s: float = TIMEOUT_S) -> ReaderAdapter:
    """Return a reader from the command of a program.

    Raises: `InvalidOption` if the program or `{path}` is missing.
    """
    command = _split_command(template, "--reader-command", ("path",))

    def answer(path: str, options: dict[str, str]) -> list[dict[str, Any]]:
        with tempfile.TemporaryDirectory(prefix="lakekit-rows-") as folder:
            output = Path(folder, "rows.jsonl")
            printed = _run_command(
                _fill_placeholders(command, {"path": path, "options": json.dumps(options), "output": str(output)}),
                timeout_s,
            )
            if "{output}" not in template:
                return _lines(printed)
            if not output.is_file():
                raise ImplementationFailure("it ended well and wrote no {output}")
            return _lines(output.read_bytes())

    return ReaderAdapter(name=command[0], answer=answer, takes_options="{options}" in template)


def writer_command(template: str, *, timeout_s: float = TIMEOUT_S) -> WriterAdapter:
    """Return a writer from the command of a program.

    Raises: `InvalidOption` if the program, `{path}` or `{script}` is missing.
    """
    command = _split_command(template, "--writer-command", ("path", "script"))

    def play(path: str, script: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory(prefix="lakekit-script-") as folder:
            file = Path(folder, "script.json")
            file.write_text(json.dumps(script, ensure_ascii=False), encoding="utf-8")
            _run_command(_fill_placeholders(command, {"path": path, "script": str(file)}), timeout_s)

    return WriterAdapter(name=command[0], play=play)


def _split_command(template: str, flag: str, needed: Sequence[str]) -> list[str]:
    try:
        command = shlex.split(template)
    except ValueError as wrong:
        raise InvalidOption(f"{flag} {template}: {wrong}", key=flag, value=template) from wrong
    for name in needed:
        if f"{{{name}}}" not in template:
            raise InvalidOption(f"{flag} {template}: says nowhere where {{{name}}} goes", key=flag, value=template)
    if not command or shutil.which(command[0]) is None:
        raise InvalidOption(
            f"{flag} {template}: there is no program {command[0] if command else ''!r}", key=flag, value=template
        )
    return command


def _fill_placeholders(template: Sequence[str], values: Mapping[str, str]) -> list[str]:
    command = []
    for word in template:
        for name, value in values.items():
            word = value if word == f"{{{name}}}" else word.replace(f"{{{name}}}", value)  # noqa: PLW2901 - one after the other
        command.append(word)
    return command


def _run_command(command: list[str], timeout_s: float) -> bytes:
    """Run a program and return what it printed.

    Raises: `FeatureNotSupported`, `Refusal` (another exit code than 0) or `ImplementationFailure` (killed, or too slow:
    then it is ended with its children).
    """
    with subprocess.Popen(  # noqa: S603 - the command is the user's own
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as running:
        try:
            printed, error_output = running.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as slow:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
            raise ImplementationFailure(
                f"no answer within {timeout_s:g} s; it was ended. --timeout waits longer"
            ) from slow
    last = _line((error_output.decode("utf-8", "replace").strip().splitlines() or [""])[-1])
    if running.returncode < 0:
        raise ImplementationFailure(f"killed by {signal.Signals(-running.returncode).name}{': ' if last else ''}{last}")
    if running.returncode == UNSUPPORTED_EXIT_CODE:
        raise FeatureNotSupported(last or "exit code 3")
    if running.returncode:
        raise Refusal(f"exit code {running.returncode}{': ' if last else ''}{last}")
    return printed


def _lines(printed: bytes) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(printed.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise ImplementationFailure(
                f'line {number} is no row but {_line(line.decode("utf-8", "replace"))!r}: a row is {{"_row_kind": '
                f'"+I", "k": 1}}'
            )
        rows.append(row)
    return rows


def _line(text: str) -> str:
    """Return the first line of a text, cut to a readable length."""
    first = (text.splitlines() or [""])[0]
    return first if len(first) <= _MAX_LINE_LENGTH else first[: _MAX_LINE_LENGTH - 1] + "…"


# ---- rows ------------------------------------------------------------------------------------------------------------


def encode_answer(answer: Any, columns: Sequence[str], types: Sequence[DataType]) -> tuple[Rows, bool]:
    """Return the rows of an answer in the recording's encoding, and whether it has their kinds.

    Raises: `ImplementationFailure` where the answer is no such rows.
    """
    if isinstance(answer, pl.DataFrame):
        answer = answer.to_arrow()
    if isinstance(answer, pa.RecordBatch):
        answer = pa.table(answer)
    if not isinstance(answer, pa.Table) and hasattr(answer, "__arrow_c_stream__"):
        answer = pa.table(answer)
    if isinstance(answer, pa.Table):
        return _encode_arrow(answer, columns, types)
    try:
        return _encode_dicts(answer, columns)
    except TypeError as wrong:
        raise ImplementationFailure(
            f"{type(answer).__name__} is no rows: anything Arrow, a Polars frame, or dicts by column"
        ) from wrong


def _encode_arrow(table: pa.Table, columns: Sequence[str], types: Sequence[DataType]) -> tuple[Rows, bool]:
    _check_columns(table.column_names, columns)
    kind = next((name for name in (KIND_COLUMN, "rowkind") if name in table.column_names and name not in columns), None)
    kinds = ["+I"] * table.num_rows if kind is None else table[kind].to_pylist()
    try:
        values = [encode_values(table[name], t, name) for name, t in zip(columns, types, strict=True)]
    except TypeError as wrong:
        raise ImplementationFailure(str(wrong)) from wrong
    rows = zip(*values, strict=True) if values else ((),) * table.num_rows
    return [(row_kind, tuple(row)) for row_kind, row in zip(kinds, rows, strict=True)], kind is not None


def _encode_dicts(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> tuple[Rows, bool]:
    encoded: Rows = []
    tells = False
    for row in rows:
        if not isinstance(row, dict):
            raise TypeError
        _check_columns(list(row), columns)
        kind = row.get(KIND_COLUMN, "+I")
        if kind not in KIND_TEXTS:
            raise ImplementationFailure(f"{KIND_COLUMN} is {kind!r}, which is none of +I, -U, +U, -D")
        tells = tells or KIND_COLUMN in row
        encoded.append((kind, tuple(row[name] for name in columns)))
    return encoded, tells


def _check_columns(names: Sequence[str], columns: Sequence[str]) -> None:
    if missing := [name for name in columns if name not in names]:
        raise ImplementationFailure(f"rows without {', '.join(missing)}: they have {', '.join(names) or 'no columns'}")
