"""README's table of errors, made from the classes, and the table of functions of SQL.md: `python -m spec_tests.house.readme [functions]`."""

from __future__ import annotations

import inspect
import sys

from lakekit import errors
from lakekit.expressions.functions import FORMS, all_functions
from lakekit.expressions.sql_function import DIFFERENCES


def error_table() -> str:
    lines = ["| error | also a | when |", "|---|---|---|"]
    families = {errors.NotFound: [], errors.AlreadyExists: []}
    for name, found in vars(errors).items():
        if not (inspect.isclass(found) and issubclass(found, errors.LakekitError)):
            continue
        family = next((head for head in families if issubclass(found, head) and found is not head), None)
        if family:
            families[family].append(f"`{name}`")
            continue
        also = ", ".join(f"`{base.__name__}`" for base in found.__bases__ if base is not Exception)
        words = (inspect.getdoc(found) or "").splitlines()[0]
        lines.append(f"| `{name}` | {also} | {words} |")
    table = "\n".join(lines)
    for head, members in families.items():
        words = (inspect.getdoc(head) or "").splitlines()[0]
        table = table.replace(f" | {words} |", f" | {words} {', '.join(members)} |")
    return table + "\n"


def function_table() -> str:
    """The operators and functions of conditions, a row each, then the forms that are no function."""
    rows = [
        (", ".join(f"`{name}`" for name in function.names), ", ".join(function.arguments), function.result, function.note, differences(function.names))
        for function in all_functions()
    ]
    rows += [(f"`{name}`", "", "", note, differences((name,))) for name, note in FORMS.items()]
    cells = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(["| function | arguments | result | meaning | where Spark differs |", "|---|---|---|---|---|", *cells]) + "\n"


def differences(names: tuple[str, ...]) -> str:
    """Where Spark differs from functions that are one here, each with its name where that is not true of all."""
    notes = {name: DIFFERENCES[name] for name in names if name in DIFFERENCES}
    if len(notes) == len(names) and len(set(notes.values())) == 1:
        return next(iter(notes.values()))
    return "; ".join(f"`{name}`: {note}" for name, note in notes.items())


if __name__ == "__main__":
    print(function_table() if sys.argv[1:] == ["functions"] else error_table(), end="")
