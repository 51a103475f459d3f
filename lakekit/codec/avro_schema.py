"""Parse Avro schemas: the JSON text in a file's header to a tree of `AvroNode`.

    {"type": "record", "name": "r", "fields": [{"name": "v", "type": ["null", "string"]}]}
    AvroNode(kind="record", names=("v",), parts=(AvroNode(kind="union", parts=(…"null", …"string")),))

Names of types are resolved to the types they stand for. A type that contains itself has no columns and is refused, as
are schemas that grow beyond `MAX_NODES` or deeper than `MAX_DEPTH` when their names are resolved.

Source: the Avro specification 1.11, "Schema Declaration"; FORMAT.md 4.1 and 7.6.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lakekit.errors import Corrupt, LimitExceeded, Unsupported

MAX_DEPTH = 64
MAX_NODES = 100_000
PRIMITIVE_MIN_BYTES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
"""The types without parts, and the fewest bytes that a value of each takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroNode:
    """One type of a schema.

    `names` are a record's field names or an enum's symbols. `children` are the types of a record's fields or a union's
    branches, or the one type of an array's items or a map's values. `size` belongs to `fixed`. `declaration` is its
    JSON declaration. `min_bytes` is the least that a value takes. `depth` counts the types below this one with all
    names resolved: decoders recurse so deep, however flat the schema text is.
    """

    kind: str
    name: str = ""
    names: tuple[str, ...] = ()
    children: tuple[AvroNode, ...] = ()
    size: int = 0
    logical_type: str = ""
    precision: int = 0
    scale: int = 0
    min_bytes: int = 0
    node_count: int = 1
    depth: int = 0
    declaration: Any = field(default=None, compare=False, repr=False)

    def find_field(self, name: str) -> AvroNode | None:
        """Return the type of a record's field of that name; None without one."""
        return self.children[self.names.index(name)] if name in self.names else None

    @property
    def non_null_type(self) -> AvroNode:
        """The type of non-null values: X of `["null", X]` (in either order), else the type itself."""
        branches = [part for part in self.children if part.kind != "null"]
        return branches[0] if self.kind == "union" and len(branches) == 1 else self

    @property
    def is_nullable(self) -> bool:
        """Whether a value may be null."""
        return self.kind == "null" or (self.kind == "union" and any(part.kind == "null" for part in self.children))


@lru_cache(maxsize=256)
def parse_schema(text: bytes) -> AvroNode:
    """Parse schema text to its tree. Raises `Corrupt`, `LimitExceeded` or `Unsupported`."""
    try:
        declared = json.loads(text)
    except RecursionError:
        raise LimitExceeded(f"avro.schema is nested deeper than {MAX_DEPTH} levels", field="avro.schema") from None
    except ValueError as error:
        raise Corrupt(f"avro.schema is not JSON: {error}", field="avro.schema") from None
    return _SchemaNames().parse_node(declared, "", 0)


def unwrap_record(node: AvroNode) -> AvroNode:
    """Return the record type of a file's values. Raises `Corrupt` if they are no records.

    Old files wrap it as `["null", record]`; none of their values may be null.
    """
    record = node.non_null_type
    if record.kind != "record":
        raise Corrupt(f"the values of the file are of type {node.kind}, not a record", field="avro.schema")
    return record


def _invalid_schema(problem: str) -> Corrupt:
    return Corrupt(f"avro.schema: {problem}", field="avro.schema")


class _SchemaNames:
    """Types declared so far, by full name; None while one is being declared."""

    def __init__(self) -> None:
        self.declared_types: dict[str, AvroNode | None] = {}

    def parse_node(self, declared: Any, space: str, depth: int) -> AvroNode:
        if depth > MAX_DEPTH:
            raise LimitExceeded(f"avro.schema is nested deeper than {MAX_DEPTH} levels", field="avro.schema")
        if isinstance(declared, str):
            return self._resolve_name(declared, space)
        if isinstance(declared, list):
            return self._parse_union(declared, space, depth)
        if not isinstance(declared, dict):
            raise _invalid_schema(f"a type is text, a list or an object, found {type(declared).__name__}")
        kind = declared.get("type")
        if isinstance(kind, (dict, list)):
            return self.parse_node(kind, space, depth + 1)
        match kind:
            case "record" | "error":
                return self._parse_record(declared, space, depth)
            case "enum" | "fixed":
                return self._parse_enum_or_fixed(declared, space)
            case "array":
                return _child_node("array", self.parse_node(declared.get("items"), space, depth + 1), declared)
            case "map":
                return _child_node("map", self.parse_node(declared.get("values"), space, depth + 1), declared)
            case str() if kind in PRIMITIVE_MIN_BYTES:
                logical = declared.get("logicalType")
                return AvroNode(
                    kind=kind,
                    logical_type=logical if isinstance(logical, str) else "",
                    precision=_check_integer(declared.get("precision", 0), "precision"),
                    scale=_check_integer(declared.get("scale", 0), "scale"),
                    min_bytes=PRIMITIVE_MIN_BYTES[kind],
                    declaration=declared,
                )
            case str():
                return self._resolve_name(kind, space)
        raise _invalid_schema("an object without a text member 'type'")

    def _resolve_name(self, name: str, space: str) -> AvroNode:
        if name in PRIMITIVE_MIN_BYTES:
            return AvroNode(kind=name, min_bytes=PRIMITIVE_MIN_BYTES[name], declaration=name)
        full = name if "." in name or not space else f"{space}.{name}"
        for candidate in (full, name):
            if candidate in self.declared_types:
                node = self.declared_types[candidate]
                if node is None:
                    raise Unsupported(
                        f"avro.schema: type {name[:80]!r} contains itself", feature="avro.recursive-types"
                    )
                return node
        raise _invalid_schema(f"no type is called {name[:80]!r}")

    def _declare_type(self, declared: dict[str, Any], space: str) -> tuple[str, str]:
        name, own = declared.get("name"), declared.get("namespace")
        if not isinstance(name, str):
            raise _invalid_schema("a named type without a name")
        if isinstance(own, str):
            space = own
        full = name if "." in name or not space else f"{space}.{name}"
        self.declared_types[full] = None
        return full, full.rpartition(".")[0]

    def _parse_record(self, declared: dict[str, Any], space: str, depth: int) -> AvroNode:
        full, space = self._declare_type(declared, space)
        fields = declared.get("fields")
        if not isinstance(fields, list):
            raise _invalid_schema(f"record {full[:80]!r} without a list of fields")
        names: list[str] = []
        parts: list[AvroNode] = []
        for part in fields:
            if not isinstance(part, dict) or not isinstance(part.get("name"), str):
                raise _invalid_schema(f"a field of record {full[:80]!r} without a name")
            names.append(part["name"])
            parts.append(self.parse_node(part.get("type"), space, depth + 1))
        if len(set(names)) != len(names):
            raise _invalid_schema(f"record {full[:80]!r} has two fields of one name")
        logical = declared.get("logicalType")
        node = AvroNode(
            kind="record",
            name=full,
            names=tuple(names),
            children=tuple(parts),
            logical_type=logical if isinstance(logical, str) else "",
            min_bytes=sum(part.min_bytes for part in parts),
            node_count=_count_nodes(parts),
            depth=_depth_above(parts),
            declaration=declared,
        )
        self.declared_types[full] = node
        return node

    def _parse_enum_or_fixed(self, declared: dict[str, Any], space: str) -> AvroNode:
        full, _ = self._declare_type(declared, space)
        logical = declared.get("logicalType")
        logical = logical if isinstance(logical, str) else ""
        if declared["type"] == "fixed":
            size = _check_integer(declared.get("size"), "size")
            precision, scale = (
                _check_integer(declared.get("precision", 0), "precision"),
                _check_integer(declared.get("scale", 0), "scale"),
            )
            node = AvroNode(
                kind="fixed",
                name=full,
                size=size,
                logical_type=logical,
                precision=precision,
                scale=scale,
                min_bytes=size,
                declaration=declared,
            )
        else:
            symbols = declared.get("symbols")
            if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
                raise _invalid_schema(f"enum {full[:80]!r} without a list of symbols")
            node = AvroNode(kind="enum", name=full, names=tuple(symbols), min_bytes=1, declaration=declared)
        self.declared_types[full] = node
        return node

    def _parse_union(self, declared: list[Any], space: str, depth: int) -> AvroNode:
        parts = [self.parse_node(part, space, depth + 1) for part in declared]
        if not parts:
            raise _invalid_schema("a union without branches")
        if any(part.kind == "union" for part in parts):
            raise _invalid_schema("a union directly in a union")
        least = 1 + min(part.min_bytes for part in parts)
        return AvroNode(
            kind="union",
            children=tuple(parts),
            min_bytes=least,
            node_count=_count_nodes(parts),
            depth=_depth_above(parts),
            declaration=declared,
        )


def _child_node(kind: str, part: AvroNode, declared: dict[str, Any]) -> AvroNode:
    if part.min_bytes == 0 and kind == "array":
        # a count costs a few bytes, such items none: a file of ten bytes could ask for any number of them
        raise Unsupported("avro.schema: an array of values that take no bytes", feature="avro.empty-items")
    logical = declared.get("logicalType")
    logical = logical if isinstance(logical, str) else ""
    return AvroNode(
        kind=kind,
        children=(part,),
        logical_type=logical,
        min_bytes=1,
        node_count=_count_nodes([part]),
        depth=_depth_above([part]),
        declaration=declared,
    )


def _count_nodes(parts: list[AvroNode]) -> int:
    count = 1 + sum(part.node_count for part in parts)
    if count > MAX_NODES:
        raise LimitExceeded(f"avro.schema has more than {MAX_NODES} types", field="avro.schema")
    return count


def _depth_above(parts: list[AvroNode]) -> int:
    """Return the depth of a type made of those types. Raises `LimitExceeded` beyond `MAX_DEPTH`."""
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > MAX_DEPTH:
        raise LimitExceeded(
            f"avro.schema is nested deeper than {MAX_DEPTH} levels when its names are resolved", field="avro.schema"
        )
    return depth


def _check_integer(value: object, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise _invalid_schema(f"{field} is not a whole number")
    return value
