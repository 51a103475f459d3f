"""Readers and writers under test: Python functions, or any program; and the rows that they give, in one encoding.

    reader_of("mypackage.paimon:read")              read(path, options) gives anything Arrow (or Polars), or rows as dicts
    reader_command("myreader {path} {options}")     prints a line of JSON for each row: {"_row_kind": "+I", "k": 1, "v": "a"}
    writer_of("mypackage.paimon:write")             write(path, script) makes the table of a script at a path that does not exist yet
    writer_command("mywriter {path} {script}")      the same; `{script}` is the path of the script as JSON

`options` are dynamic options of Paimon (`{"scan.snapshot-id": "3"}`; a branch is the option `branch`), to a program as one argument of JSON. A program whose
arguments have no `{options}` is asked only what needs none. `{output}` is a file for the rows; without it they are what the program prints.

Values of rows are those of `lakekit.testing.expectations`: DECIMAL, FLOAT and DOUBLE as text, BINARY as hex, DATE as its epoch day, TIME as milliseconds of the
day, TIMESTAMP as [epoch milliseconds, nanoseconds of that millisecond], ARRAY and ROW as lists, MAP as a list of [key, value]. `_row_kind` may be left out.

Unsupported, which is no failure: a function raises `NotImplementedError`, a program ends with exit code 3; the last line on stderr says why.
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
from lakekit.testing.expectations import values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lakekit.types import DataType

UNSUPPORTED = 3
"""The exit code of a program that does not do what it was asked."""
TIMEOUT_S = 60
KIND = "_row_kind"
KINDS = frozenset(("+I", "-U", "+U", "-D"))
_MAX_LINE_LENGTH = 200

Rows = list[tuple[str, tuple[Any, ...]]]


class Broken(Exception):
    """An implementation that crashed, hangs, or gives what is no rows: a failure even where a refusal is expected."""


class Refusal(Exception):
    """An implementation that says no: what it said."""


class NotThere(Exception):
    """An implementation that does not do this: what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderAdapter:
    """What reads tables. `answer(path, options)` gives what `encode_answer` takes apart; `takes_options`: whether it can be asked with options."""

    name: str
    answer: Callable[[str, dict[str, str]], Any]
    takes_options: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterAdapter:
    """What writes tables. `play(path, script)` makes the table of a script (`lakekit.testing.scripts`), as JSON, at a path that does not exist yet."""

    name: str
    play: Callable[[str, dict[str, Any]], None]


# ---- as Python functions -------------------------------------------------------------------------------------------------------------------------


def reader_of(said: str | Callable[[str, dict[str, str]], Any]) -> ReaderAdapter:
    """A reader from `package.module:function` or the function. Raises `InvalidOption` where there is none."""
    function = _function(said, "--reader")
    return ReaderAdapter(name=_name(said), answer=lambda path, options: _call_adapter(function, path, options))


def writer_of(said: str | Callable[[str, dict[str, Any]], None]) -> WriterAdapter:
    """A writer from `package.module:function` or the function. Raises `InvalidOption` where there is none."""
    function = _function(said, "--writer")
    return WriterAdapter(name=_name(said), play=lambda path, script: _call_adapter(function, path, script))


def _name(said: Any) -> str:
    return said if isinstance(said, str) else getattr(said, "__name__", repr(said))


def _function(said: Any, flag: str) -> Callable[..., Any]:
    if not isinstance(said, str):
        if not callable(said):
            raise InvalidOption(f"{flag}: {said!r} is neither a function nor its name, package.module:function", key=flag, value=str(said))
        return said
    module, _, name = said.partition(":")
    if not (module and name):
        raise InvalidOption(f"{flag} {said}: a function is named package.module:function", key=flag, value=said)
    if "" not in sys.path:
        sys.path.insert(0, "")  # where the author stands, as `python -m` has it
    try:
        found = getattr(import_module(module), name)
    except ImportError as missing:
        raise InvalidOption(f"{flag} {said}: {missing}; it is looked for here and among installed packages", key=flag, value=said) from missing
    except AttributeError as missing:
        raise InvalidOption(f"{flag} {said}: the module {module} has no {name}", key=flag, value=said) from missing
    return _function(found, flag)


def _call_adapter(function: Callable[..., Any], path: str, given: dict[str, Any]) -> Any:
    try:
        found = function(path, given)
        if isinstance(found, pl.LazyFrame):
            return found.collect()
        return list(found) if isinstance(found, Iterator) else found
    except NotImplementedError as missing:
        raise NotThere(_line(str(missing) or "NotImplementedError")) from missing
    except (Broken, NotThere, Refusal):
        raise
    except Exception as refused:
        raise Refusal(_line(f"{type(refused).__name__}: {refused}")) from refused


# ---- as programs ---------------------------------------------------------------------------------------------------------------------------------


def reader_command(template: str, *, timeout_s: float = TIMEOUT_S) -> ReaderAdapter:
    """A reader from the command of a program. Raises `InvalidOption` where the program or `{path}` is missing."""
    words = _split_command(template, "--reader-command", ("path",))

    def answer(path: str, options: dict[str, str]) -> list[dict[str, Any]]:
        with tempfile.TemporaryDirectory(prefix="lakekit-rows-") as folder:
            output = Path(folder, "rows.jsonl")
            printed = _run_command(_fill_placeholders(words, {"path": path, "options": json.dumps(options), "output": str(output)}), timeout_s)
            if "{output}" not in template:
                return _lines(printed)
            if not output.is_file():
                raise Broken("it ended well and wrote no {output}")
            return _lines(output.read_bytes())

    return ReaderAdapter(name=words[0], answer=answer, takes_options="{options}" in template)


def writer_command(template: str, *, timeout_s: float = TIMEOUT_S) -> WriterAdapter:
    """A writer from the command of a program. Raises `InvalidOption` where the program, `{path}` or `{script}` is missing."""
    words = _split_command(template, "--writer-command", ("path", "script"))

    def play(path: str, script: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory(prefix="lakekit-script-") as folder:
            file = Path(folder, "script.json")
            file.write_text(json.dumps(script, ensure_ascii=False), encoding="utf-8")
            _run_command(_fill_placeholders(words, {"path": path, "script": str(file)}), timeout_s)

    return WriterAdapter(name=words[0], play=play)


def _split_command(template: str, flag: str, needed: Sequence[str]) -> list[str]:
    try:
        words = shlex.split(template)
    except ValueError as wrong:
        raise InvalidOption(f"{flag} {template}: {wrong}", key=flag, value=template) from wrong
    for name in needed:
        if f"{{{name}}}" not in template:
            raise InvalidOption(f"{flag} {template}: says nowhere where {{{name}}} goes", key=flag, value=template)
    if not words or shutil.which(words[0]) is None:
        raise InvalidOption(f"{flag} {template}: there is no program {words[0] if words else ''!r}", key=flag, value=template)
    return words


def _fill_placeholders(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    found = []
    for word in words:
        for name, value in values.items():
            word = value if word == f"{{{name}}}" else word.replace(f"{{{name}}}", value)  # noqa: PLW2901 - one after the other
        found.append(word)
    return found


def _run_command(command: list[str], timeout_s: float) -> bytes:
    """What a program printed. Raises `NotThere`, `Refusal` (another exit code than 0) or `Broken` (killed, or too slow: then it is ended with its children)."""
    with subprocess.Popen(  # noqa: S603 - the command is the user's own
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as running:
        try:
            printed, said = running.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as slow:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
            raise Broken(f"no answer within {timeout_s:g} s; it was ended. --timeout waits longer") from slow
    last = _line((said.decode("utf-8", "replace").strip().splitlines() or [""])[-1])
    if running.returncode < 0:
        raise Broken(f"killed by {signal.Signals(-running.returncode).name}{': ' if last else ''}{last}")
    if running.returncode == UNSUPPORTED:
        raise NotThere(last or "exit code 3")
    if running.returncode:
        raise Refusal(f"exit code {running.returncode}{': ' if last else ''}{last}")
    return printed


def _lines(printed: bytes) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(printed.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise Broken(f'line {number} is no row but {_line(line.decode("utf-8", "replace"))!r}: a row is {{"_row_kind": "+I", "k": 1}}')
        found.append(row)
    return found


def _line(said: str) -> str:
    """The first line of what was said, cut to a readable length."""
    first = (said.splitlines() or [""])[0]
    return first if len(first) <= _MAX_LINE_LENGTH else first[: _MAX_LINE_LENGTH - 1] + "…"


# ---- rows ----------------------------------------------------------------------------------------------------------------------------------------


def encode_answer(answer: Any, columns: Sequence[str], types: Sequence[DataType]) -> tuple[Rows, bool]:
    """The rows of an answer in the recording's encoding, and whether it says their kinds. Raises `Broken` where the answer is no such rows."""
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
        raise Broken(f"{type(answer).__name__} is no rows: anything Arrow, a Polars frame, or dicts by column") from wrong


def _encode_arrow(table: pa.Table, columns: Sequence[str], types: Sequence[DataType]) -> tuple[Rows, bool]:
    _check_columns(table.column_names, columns)
    kind = next((name for name in (KIND, "rowkind") if name in table.column_names and name not in columns), None)
    kinds = ["+I"] * table.num_rows if kind is None else table[kind].to_pylist()
    try:
        values = [values_of(table[name], t, name) for name, t in zip(columns, types, strict=True)]
    except TypeError as wrong:
        raise Broken(str(wrong)) from wrong
    rows = zip(*values, strict=True) if values else ((),) * table.num_rows
    return [(one, tuple(row)) for one, row in zip(kinds, rows, strict=True)], kind is not None


def _encode_dicts(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> tuple[Rows, bool]:
    found: Rows = []
    tells = False
    for row in rows:
        if not isinstance(row, dict):
            raise TypeError
        _check_columns(list(row), columns)
        kind = row.get(KIND, "+I")
        if kind not in KINDS:
            raise Broken(f"{KIND} is {kind!r}, which is none of +I, -U, +U, -D")
        tells = tells or KIND in row
        found.append((kind, tuple(row[name] for name in columns)))
    return found, tells


def _check_columns(names: Sequence[str], columns: Sequence[str]) -> None:
    if missing := [name for name in columns if name not in names]:
        raise Broken(f"rows without {', '.join(missing)}: they have {', '.join(names) or 'no columns'}")
