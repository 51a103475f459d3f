"""README's table of errors, made from the classes: `python -m spec_tests.house.readme`."""

from __future__ import annotations

import inspect

from lakekit import errors


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


if __name__ == "__main__":
    print(error_table(), end="")
