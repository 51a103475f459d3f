"""Check that the text of a column's default is a value of the column's type.

    INT '5' or "'5'" -> 5        INT 'x' -> refused        MAP -> whatever text of a map

Source: ENGINE.md 1.5, `DefaultValueUtils`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from lakekit.errors import LakekitError, SchemaMismatch
from lakekit.format import text_casts
from lakekit.types import STRINGS

if TYPE_CHECKING:
    from lakekit.types import DataType


def check_default(t: DataType, text: object, column: str) -> None:
    """Raise `SchemaMismatch` where the default is no text, or not that of a value of type `t`."""
    if text is None:
        return
    if not isinstance(text, str):
        raise SchemaMismatch(
            f"the default of column {column} is {text!r}, a {type(text).__name__}; defaults are texts: {str(text)!r}",
            column=column,
        )
    if text.encode("utf-8", "replace").decode() != text:
        raise SchemaMismatch(
            f"the default of column {column} is {text!a}: half of a surrogate pair is no character", column=column
        )
    refused = f"Unsupported default value `{text}` for type {t} of column {column}; give a text that says such a value"
    if text == "'":  # a quote that nothing closes
        raise SchemaMismatch(refused, column=column)
    shown = text[1:-1] if text.startswith("'") and text.endswith("'") else text
    if t.root in STRINGS:
        return
    parse = text_casts.parser(t, column=column)
    if parse is None:
        raise SchemaMismatch(refused, column=column)
    try:
        parse(pl.Series("default", [shown], pl.String))
    except LakekitError:
        raise SchemaMismatch(refused, column=column) from None
