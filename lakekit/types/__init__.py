"""Paimon's data types, and their conversion to and from text and JSON; `types.arrow` does Arrow.

    "DECIMAL(10, 2) NOT NULL"                       SQL text, as schema files and users write it
    {"type": "ARRAY NOT NULL", "element": "INT"}    the JSON of nested types in schema files
    DataType(root="ARRAY", element=…)               the record

Names of columns that lakekit adds to frames while it computes are reserved: other engines permit them, so they are
refused where a schema is created and where one is read. The columns that the format itself adds to data files
(`_KEY_…`, `_SEQUENCE_NUMBER`, `_VALUE_KIND`, `_LEVEL`, `_ROW_ID`) are reserved by every engine and do not belong here.

Source: FORMAT.md 2.2-2.4, `DataTypeJsonParser`, `DataTypes`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from lakekit.errors import Corrupt, LimitExceeded, Unsupported

if TYPE_CHECKING:
    from collections.abc import Container, Iterable


MAX_LENGTH = 2147483647
MAX_DEPTH = 64
"""Nesting deeper than this is a damaged or hostile schema."""


def first_duplicate(names: Iterable[str]) -> str | None:
    """Return the first name that occurs a second time; None if all differ. Runs in linear time."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


@dataclass(frozen=True, slots=True, init=False)
class Field:
    """A column, or a field of a ROW: `Field("k", "BIGINT NOT NULL", comment=…, default=…)`.

    `id` identifies it across schemas. `type` may be given as Paimon type text and is parsed. Ids of fields that belong
    to no table yet are -1.
    """

    name: str
    type: DataType
    id: int = -1
    comment: str | None = None
    default: str | None = None

    def __init__(
        self,
        name: str,
        type: DataType | str,  # noqa: A002
        id: int = -1,  # noqa: A002
        comment: str | None = None,
        default: str | None = None,
    ) -> None:
        if not isinstance(name, str):
            msg = f"the name of a field is a text, not {name!r}: Field('k', 'BIGINT NOT NULL')"
            raise TypeError(msg)
        attributes = {
            "name": name,
            "type": parse(type) if isinstance(type, str) else type,
            "id": id,
            "comment": comment,
            "default": default,
        }
        for key, value in attributes.items():
            object.__setattr__(self, key, value)

    # fields are cache keys: hashing their nested types too costs more than it distinguishes
    def __hash__(self) -> int:
        return hash((self.name, self.id))

    @property
    def nullable(self) -> bool:
        """Whether the column takes nulls."""
        return self.type.nullable

    def __str__(self) -> str:
        comment = "" if self.comment is None else " COMMENT '" + self.comment.replace("'", "''") + "'"
        return f"`{self.name.replace('`', '``')}` {self.type}{comment}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataType:
    """One Paimon type. `str()` gives its canonical SQL text.

    `length` belongs to CHAR, VARCHAR, BINARY, VARBINARY and VECTOR, `precision` to DECIMAL, TIME, TIMESTAMP and
    TIMESTAMP_LTZ, `scale` to DECIMAL, `element` to ARRAY, MULTISET and VECTOR, `key` and `value` to MAP, `fields` to
    ROW.
    """

    root: str
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    element: DataType | None = None
    key: DataType | None = None
    value: DataType | None = None
    fields: tuple[Field, ...] = ()

    def __hash__(self) -> int:  # see `Field`
        return hash((self.root, self.nullable, self.length, self.precision))

    def __str__(self) -> str:
        return type_sql(self)

    def __repr__(self) -> str:
        return f"DataType({str(self)!r})"

    @property
    def is_nested(self) -> bool:
        """Whether values have parts: ARRAY, MULTISET, MAP, ROW."""
        return self.root in NESTED_TYPES

    @property
    def parts(self) -> tuple[DataType, ...]:
        """The types directly inside it: of elements, keys, values, fields."""
        return tuple(
            t for t in (self.element, self.key, self.value, *(field.type for field in self.fields)) if t is not None
        )

    def holds(self, roots: Container[str]) -> bool:
        """Return whether this type, or a type inside it, has one of these roots."""
        return self.root in roots or any(part.holds(roots) for part in self.parts)

    def not_null(self) -> DataType:
        """Return the same type without nulls."""
        return replace(self, nullable=False) if self.nullable else self

    def as_nullable(self) -> DataType:
        """Return the same type with nulls."""
        return self if self.nullable else replace(self, nullable=True)


class TypeRoot(NamedTuple):
    """The arguments of a type root, with their default and limits."""

    arguments: str  # "", "length", "precision" or "decimal"
    default: int = 0
    low: int = 0
    high: int = MAX_LENGTH


class Instant(NamedTuple):
    """A timestamp in Paimon's form: milliseconds since 1970 and the nanoseconds within a millisecond."""

    millis: int
    nanos: int


TYPE_ROOTS: dict[str, TypeRoot] = {
    "CHAR": TypeRoot("length", 1, 1),
    "VARCHAR": TypeRoot("length", 1, 1),
    "BINARY": TypeRoot("length", 1, 1),
    "VARBINARY": TypeRoot("length", 1, 1),
    "BOOLEAN": TypeRoot(""),
    "TINYINT": TypeRoot(""),
    "SMALLINT": TypeRoot(""),
    "INT": TypeRoot(""),
    "BIGINT": TypeRoot(""),
    "FLOAT": TypeRoot(""),
    "DOUBLE": TypeRoot(""),
    "DECIMAL": TypeRoot("decimal", 10, 1, 38),
    "DATE": TypeRoot(""),
    "TIME": TypeRoot("precision", 0, 0, 9),
    "TIMESTAMP": TypeRoot("precision", 6, 0, 9),
    "TIMESTAMP_LTZ": TypeRoot("precision", 6, 0, 9),
    "VARIANT": TypeRoot(""),
    "BLOB": TypeRoot(""),
}
NESTED_TYPES = frozenset({"ARRAY", "MULTISET", "MAP", "ROW"})
MAPS = frozenset({"MULTISET", "MAP"})
REFUSED_TYPES = frozenset({"VECTOR", "GEOMETRY", "GEOGRAPHY"})
INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
STRINGS = frozenset({"CHAR", "VARCHAR"})
BINARIES = frozenset({"BINARY", "VARBINARY", "BLOB"})
TIMESTAMPS = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ"})
_ROOT_ALIASES = {"INTEGER": "INT", "NUMERIC": "DECIMAL", "DEC": "DECIMAL"}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quote(name: str) -> str:
    """Return a field name as SQL text: a plain word as it is, any other name between backquotes."""
    return name if _PLAIN_NAME.fullmatch(name) else quote_identifier(name)


def quote_identifier(name: str) -> str:
    """Return a name between backquotes."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(value: str, dialect: str = "lakekit") -> str:
    """Return a text as a literal of SQL: a quote is doubled; in Spark's dialect it is escaped, and a backslash too."""
    if dialect == "spark":
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + value.replace("'", "''") + "'"


def type_sql(t: DataType) -> str:
    """Return the canonical SQL text of a type (FORMAT 2.2)."""
    tail = "" if t.nullable else " NOT NULL"
    match t.root:
        case "VARCHAR" if t.length == MAX_LENGTH:
            text = "STRING"
        case "VARBINARY" if t.length == MAX_LENGTH:
            text = "BYTES"
        case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
            text = f"{t.root}({t.length})"
        case "DECIMAL":
            text = f"DECIMAL({t.precision}, {t.scale})"
        case "TIME" | "TIMESTAMP":
            text = f"{t.root}({t.precision})"
        case "TIMESTAMP_LTZ":
            text = f"TIMESTAMP({t.precision}) WITH LOCAL TIME ZONE"
        case "ARRAY" | "MULTISET":
            text = f"{t.root}<{t.element}>"
        case "MAP":
            text = f"MAP<{t.key}, {t.value}>"
        case "ROW":
            text = "ROW<" + ", ".join(str(f) for f in t.fields) + ">"
        case _:
            text = t.root
    return text + tail


# ---- text -> record --------------------------------------------------------------------------------------------------

_TYPE_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^']|'')*')|([A-Za-z_][A-Za-z0-9_]*)|(\d+)|([<>(),]))")


class _Tokens:
    """A cursor over the tokens of a type's text."""

    def __init__(self, text: str) -> None:
        self.text, self.parts, at = text, [], 0
        stripped = text.rstrip()
        while at < len(stripped):
            match = _TYPE_TOKEN.match(stripped, at)
            if match is None:
                raise self.make_error(f"unexpected {stripped[at : at + 10]!r}")
            self.parts.append(match.group(match.lastindex or 0))
            at = match.end()
        self.position = 0

    def make_error(self, problem: str) -> Corrupt:
        excerpt = self.text if len(self.text) <= 200 else self.text[:200] + "…"
        return Corrupt(
            f"{excerpt!r} is not a Paimon type: {problem}. Types look like INT, DECIMAL(10, 2) NOT NULL, ARRAY<STRING>",
            field="type",
        )

    def peek(self, ahead: int = 0) -> str:
        at = self.position + ahead
        return self.parts[at].upper() if at < len(self.parts) else ""

    def take(self) -> str:
        if self.position >= len(self.parts):
            raise self.make_error("it ends too early")
        self.position += 1
        return self.parts[self.position - 1]

    def accept(self, *keywords: str) -> bool:
        if all(self.peek(i) == word for i, word in enumerate(keywords)):
            self.position += len(keywords)
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.make_error(f"{word!r} wanted, {self.peek() or 'the end'!r} found")


def parse(text: str) -> DataType:
    """Parse type text, as SQL or a schema file writes it.

    Raises:
        Corrupt: the text is no type.
        Unsupported: lakekit refuses the type.
    """
    tokens = _Tokens(text)
    data_type = _parse_type(tokens, 0)
    if tokens.position != len(tokens.parts):
        raise tokens.make_error(f"{tokens.peek()!r} after its end")
    return data_type


def _parse_type(tokens: _Tokens, depth: int) -> DataType:
    if depth > MAX_DEPTH:
        msg = f"a type nested deeper than {MAX_DEPTH} levels"
        raise LimitExceeded(msg, field="type")
    data_type = _parse_root(tokens, depth)
    data_type = _parse_nullability(tokens, data_type)
    while tokens.peek() in ("ARRAY", "MULTISET"):
        depth += 1
        if depth > MAX_DEPTH:
            msg = f"a type nested deeper than {MAX_DEPTH} levels"
            raise LimitExceeded(msg, field="type")
        data_type = _parse_nullability(tokens, DataType(root=tokens.take().upper(), element=data_type))
    return data_type


def _parse_nullability(tokens: _Tokens, t: DataType) -> DataType:
    if tokens.accept("NOT", "NULL"):
        return t.not_null()
    tokens.accept("NULL")
    return t


def _parse_root(tokens: _Tokens, depth: int) -> DataType:
    word = tokens.take().upper()
    word = _ROOT_ALIASES.get(word, word)
    match word:
        case "STRING":
            return DataType(root="VARCHAR", length=MAX_LENGTH)
        case "BYTES":
            return DataType(root="VARBINARY", length=MAX_LENGTH)
        case "DOUBLE":
            tokens.accept("PRECISION")
            return DataType(root="DOUBLE")
        case "ARRAY" | "MULTISET":
            tokens.expect("<")
            element = _parse_type(tokens, depth + 1)
            tokens.expect(">")
            return DataType(root=word, element=element)
        case "MAP":
            tokens.expect("<")
            key = _parse_type(tokens, depth + 1)
            tokens.expect(",")
            value = _parse_type(tokens, depth + 1)
            tokens.expect(">")
            return DataType(root="MAP", key=key, value=value)
        case "ROW":
            return DataType(root="ROW", fields=_row_fields(tokens, depth))
        case _ if word in REFUSED_TYPES:
            msg = f"type {word} is not supported by lakekit"
            raise Unsupported(msg, feature=f"type.{word.lower()}")
        case _ if word in TYPE_ROOTS:
            return _primitive_type(tokens, word)
    raise tokens.make_error(f"no type is called {word!r}")


def _primitive_type(tokens: _Tokens, word: str) -> DataType:
    root = TYPE_ROOTS[word]
    numbers = _parse_numbers(tokens) if root.arguments and tokens.peek() == "(" else []
    first = numbers[0] if numbers else root.default
    if not root.low <= first <= root.high or len(numbers) > (2 if root.arguments == "decimal" else 1):
        raise tokens.make_error(f"{word} takes {root.low} to {root.high}")
    if root.arguments == "decimal":
        scale = numbers[1] if len(numbers) > 1 else 0
        if scale > first:
            raise tokens.make_error(f"scale {scale} is greater than precision {first}")
        return DataType(root=word, precision=first, scale=scale)
    if root.arguments == "length":
        return DataType(root=word, length=first)
    if root.arguments == "precision":
        if word == "TIMESTAMP" and tokens.accept("WITH", "LOCAL", "TIME", "ZONE"):
            word = "TIMESTAMP_LTZ"
        elif word != "TIMESTAMP_LTZ":
            tokens.accept("WITHOUT", "TIME", "ZONE")
        return DataType(root=word, precision=first)
    return DataType(root=word)


def _parse_numbers(tokens: _Tokens) -> list[int]:
    tokens.expect("(")
    numbers = []
    while True:
        digits = tokens.take()
        if not digits.isdecimal() or len(digits) > len(str(MAX_LENGTH)):
            raise tokens.make_error(f"a number wanted, {digits!r} found")
        numbers.append(int(digits))
        if tokens.accept(")"):
            return numbers
        tokens.expect(",")


def _row_fields(tokens: _Tokens, depth: int) -> tuple[Field, ...]:
    close = ">" if tokens.accept("<") else ")"
    if close == ")":
        tokens.expect("(")
    fields: list[Field] = []
    if tokens.accept(close):
        return ()
    while True:
        name = tokens.take()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        t = _parse_type(tokens, depth + 1)
        tokens.accept("COMMENT")  # text of older engines leaves the word out
        comment = tokens.take()[1:-1].replace("''", "'") if tokens.peek().startswith("'") else None
        fields.append(Field(name, t, comment=comment))
        if tokens.accept(close):
            return tuple(fields)
        tokens.expect(",")


# ---- JSON of schema files --------------------------------------------------------------------------------------------


def type_from_json(node: object, depth: int = 0) -> DataType:
    """Return the type of a type node of a schema file (FORMAT 2.2): a text, or an object if the type is nested."""
    if depth > MAX_DEPTH:
        msg = f"a type nested deeper than {MAX_DEPTH} levels"
        raise LimitExceeded(msg, field="type")
    if isinstance(node, str):
        return parse(node)
    if not isinstance(node, dict) or not isinstance(node.get("type"), str):
        msg = f"a type is text or an object with a text member 'type', found {type(node).__name__}"
        raise Corrupt(msg, field="type")
    text = node["type"]
    nullable = "NOT NULL" not in text
    for root in ("ARRAY", "MULTISET"):
        if text.startswith(root):
            return DataType(root=root, nullable=nullable, element=type_from_json(node.get("element"), depth + 1))
    if text.startswith("MAP"):
        key, value = type_from_json(node.get("key"), depth + 1), type_from_json(node.get("value"), depth + 1)
        return DataType(root="MAP", nullable=nullable, key=key, value=value)
    if text.startswith("ROW"):
        parts = node.get("fields")
        if not isinstance(parts, list):
            msg = "a ROW type has a list 'fields'"
            raise Corrupt(msg, field="fields")
        return DataType(root="ROW", nullable=nullable, fields=tuple(field_from_json(part, depth + 1) for part in parts))
    if text.startswith("VECTOR"):
        msg = "type VECTOR is not supported by lakekit"
        raise Unsupported(msg, feature="type.vector")
    return parse(text)


def field_from_json(node: object, depth: int = 0) -> Field:
    """Return the field of a DataField of a schema file (FORMAT 2.3)."""
    if not isinstance(node, dict) or not isinstance(node.get("name"), str):
        msg = "a field is an object with 'id', 'name' and 'type'"
        raise Corrupt(msg, field="fields")
    field_id = node.get("id")
    if not isinstance(field_id, int) or isinstance(field_id, bool):
        msg = f"field {node['name']!r} has no integer 'id'"
        raise Corrupt(msg, field="id")
    comment, default = node.get("description"), node.get("defaultValue")
    for member, text in (("description", comment), ("defaultValue", default)):
        if text is not None and not isinstance(text, str):
            msg = f"{member} of field {node['name']!r} is not text"
            raise Corrupt(msg, field=member)
    return Field(node["name"], type_from_json(node.get("type"), depth), id=field_id, comment=comment, default=default)


def type_to_json(t: DataType) -> Any:
    """Return the JSON of a type in schema files: a text, or an object if the type is nested."""
    word = t.root if t.nullable else t.root + " NOT NULL"
    match t.root:
        case "ARRAY" | "MULTISET":
            return {"type": word, "element": type_to_json(part(t.element))}
        case "MAP":
            return {"type": word, "key": type_to_json(part(t.key)), "value": type_to_json(part(t.value))}
        case "ROW":
            return {"type": word, "fields": [field_to_json(f) for f in t.fields]}
    return type_sql(t)


def field_to_json(field: Field) -> dict[str, Any]:
    """Return the JSON of a field; optional members are left out when absent."""
    members: dict[str, Any] = {"id": field.id, "name": field.name, "type": type_to_json(field.type)}
    if field.comment is not None:
        members["description"] = field.comment
    if field.default is not None:
        members["defaultValue"] = field.default
    return members


def timestamp_unit(precision: int | None) -> str:
    """Return the Arrow unit of timestamps of that precision: ms up to 3, us up to 6, ns above."""
    digits = 6 if precision is None else precision
    return "ms" if digits <= 3 else "us" if digits <= 6 else "ns"


def part(t: DataType | None) -> DataType:
    """Return a part of a nested type, which must not be None."""
    if t is None:
        msg = "a nested type without its element type"
        raise Corrupt(msg, field="type")
    return t


# ---- names ------------------------------------------------------------


INTERNAL_PREFIX = "\x1f"
"""Prefix of every column that lakekit adds to frames: a control character (U+001F), which no keyboard writes."""


def is_internal(name: str) -> bool:
    """Return whether a name belongs to a column that lakekit adds."""
    return name.startswith(INTERNAL_PREFIX)


def find_internal(fields: Iterable[Field]) -> str | None:
    """Return the first reserved name among columns and parts of ROWs at any depth; None without one."""
    for field in fields:
        if is_internal(field.name):
            return field.name
        pending = [field.type]
        while pending:
            data_type = pending.pop()
            for part in data_type.fields:
                if is_internal(part.name):
                    return part.name
            pending += data_type.parts
    return None
