"""Types of columns in DuckDB's and in Spark's words, as those of Paimon.

INT[]   ->   ARRAY<INT>        STRUCT(a INT, b TEXT), STRUCT<a: INT>   ->   ROW<a INT, …>
LONG    ->   BIGINT            TIMESTAMPTZ   ->   TIMESTAMP(6) WITH LOCAL TIME ZONE
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from lakekit.expressions.cast_type import cast_type
from lakekit.expressions.dialect import LakekitDialect
from lakekit.expressions.typed_expression import TranslationRefusal
from lakekit.format.polars_types import paimon_type
from lakekit.types import DataType, Field

if TYPE_CHECKING:
    from collections.abc import Mapping

    Node = Any
    """A node of sqlglot's tree."""

_TIMES: Mapping[str, int] = {"TIMESTAMP_S": 0, "TIMESTAMP_MS": 3, "TIMESTAMP_NS": 9}
"""The digits of a second of DuckDB's types."""
_NEAREST: Mapping[str, str] = {
    "BIT": "BYTES",
    "ENUM": "STRING",
    "INT128": "DECIMAL(38, 0)",
    "JSON": "STRING, or VARIANT",
    "UBIGINT": "DECIMAL(20, 0)",
    "UINT": "BIGINT",
    "UINT128": "DECIMAL(38, 0)",
    "USMALLINT": "INT",
    "UTINYINT": "SMALLINT",
    "UUID": "STRING",
}
"""What is nearest to a type that Paimon has not, by sqlglot's names."""


def read(text: str) -> DataType | str | None:
    """Return the type that a text names in DuckDB's or Spark's words.

    For one that Paimon has not the name of the nearest; None for what is no type in these words.
    """
    try:
        tree = exp.DataType.build(text, dialect="spark" if ":" in text else LakekitDialect())
        return _converted(tree)
    except (ParseError, TokenError, TranslationRefusal, RecursionError, ValueError):
        return None


def _converted(node: Node) -> DataType | str:
    """Return the type of a node. Raises `TranslationRefusal` for one that nothing is near to."""
    name = str(getattr(node.this, "name", node.this))
    if name in _NEAREST:
        return _NEAREST[name]
    if name in _TIMES:
        return DataType(root="TIMESTAMP", precision=_TIMES[name])
    if name not in ("ARRAY", "LIST", "MAP", "STRUCT"):
        return paimon_type(cast_type(node))
    if node.args.get("values"):
        raise TranslationRefusal("no type of Paimon has a list of so many elements")
    parts: list[DataType] = []
    for part in node.expressions:  # scalar: one a field of a type
        inner = part.args.get("kind") if isinstance(part, exp.ColumnDef) else part
        if not isinstance(inner, exp.DataType) or part.args.get("constraints"):
            raise TranslationRefusal(f"{name} takes types")
        found = _converted(inner)
        if isinstance(found, str):
            return found
        parts.append(found)
    if name == "STRUCT":
        fields = (Field(part.name, t) for part, t in zip(node.expressions, parts, strict=True))
        return DataType(root="ROW", fields=tuple(fields))
    if name == "MAP":
        key, value = parts
        return DataType(root="MAP", key=key, value=value)
    (element,) = parts
    return DataType(root="ARRAY", element=element)
