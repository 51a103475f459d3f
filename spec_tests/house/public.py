"""The public names as text: one line a class, function, method or attribute, with its signature."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import lakekit

HEADER = "# The public names of lakekit. Made by `python -m spec_tests.house.public`; changes go with a line in CHANGELOG.md."


def signature(found: Any) -> str:
    called = inspect.signature(found)
    called = called.replace(parameters=[one for one in called.parameters.values() if not one.name.startswith("_")])
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(called))
    return re.sub(r"<[^>]*? at 0x[0-9a-f]+>", "…", text)


def members(owner: str, found: type) -> list[str]:
    lines = []
    for name, value in sorted(inspect.getmembers_static(found)):
        if name.startswith("_"):
            continue
        home = next(base for base in found.__mro__ if name in vars(base))
        if not home.__module__.startswith("lakekit"):
            continue
        inner = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if inspect.isfunction(inner):
            lines.append(f"{owner}.{name}{signature(inner)}")
        elif isinstance(value, property):
            hint = inspect.signature(value.fget).return_annotation if value.fget else ""
            lines.append(f"{owner}.{name}: {str(hint).strip(chr(39))}")
    return lines


def listing() -> str:
    lines = [HEADER]
    for name in sorted(dir(lakekit)):
        if name.startswith("__") and name != "__version__":
            continue
        found = getattr(lakekit, name)
        if inspect.isclass(found) and issubclass(found, lakekit.LakekitError):
            bases = ", ".join(base.__name__ for base in found.__bases__)
            lines.append(f"{name}({bases}): {', '.join(found.names) or '-'}")
        elif inspect.isclass(found):
            lines.append(f"{name}{signature(found)}" if dataclasses.is_dataclass(found) and found not in {lakekit.Catalog, lakekit.Table} else name)
            lines += members(name, found)
        elif callable(found):
            lines.append(f"{name}{signature(found)}")
        else:
            lines.append(f"{name}: {type(found).__name__}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(listing(), end="")
