"""Records as JSON: strict reading of untrusted text, and the formatted text that the reference writes.

    {"nextSnapshot" : 5}   <->   Consumer(next_snapshot=5)

    { "version" : 3 }        `record_json_spans`: punctuation `{ `, name of version `"version"`, punctuation ` : `,
    version `3`,
                             punctuation ` }`

A record is a frozen dataclass whose fields declare with `json_member(...)` which JSON member they are. Unknown members
are kept in `extra`, members written as `null` are listed in `nulls`, so a file that is read and written back keeps its
contents.

Reading accepts what the format allows and nothing else: duplicate members, NaN, lone surrogates, other types, numbers
outside their range and nesting deeper than 200 levels raise `Corrupt` or `LimitExceeded` with the path and the member.
It uses Python's own parser, which is written in C and reports no positions; `record_json_spans` reads the same text a
second time, for displays. Tests compare its values with those of `loads`.
"""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, Field, field, fields
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from lakekit.errors import Corrupt, LimitExceeded
from lakekit.options.option import EMPTY, FrozenDict, freeze
from lakekit.types import first_duplicate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakekit.codec.cursor import Cursor


T = TypeVar("T")

MAX_BYTES = 64 << 20
"""A metadata file in JSON larger than this is damaged or hostile."""
MAX_VALUES = 1 << 20
"""A metadata file with more values than this, by its commas and brackets, is too: a schema of 100,000 columns has half
as many.
"""
MAX_DEPTH = 200
SYNTAX_ERROR_FIELD = "json"
"""The `field` of errors about text that is not JSON at all, as a half-written file's is not."""
_LONG_BOUND = 2**63
_ESCAPE_OF_CODE = {code: f"\\u{code:04X}" for code in range(32)} | {
    8: "\\b",
    9: "\\t",
    10: "\\n",
    12: "\\f",
    13: "\\r",
    34: '\\"',
    92: "\\\\",
}


# ---- bytes -> values -------------------------------------------------------------------------------------------------


def loads(data: bytes, path: str | None = None) -> dict[str, Any]:
    """Return the members of one JSON object; fractions are `Decimal`.

    Raises `Corrupt` with `field` = `SYNTAX_ERROR_FIELD` if the text is not JSON.
    """
    if len(data) > MAX_BYTES:
        raise LimitExceeded(
            _with_path(path, f"{len(data)} bytes of JSON, at most {MAX_BYTES} are read"),
            path=path,
            field=SYNTAX_ERROR_FIELD,
        )
    if (values := sum(map(data.count, (b",", b"[", b"{")))) > MAX_VALUES:
        raise LimitExceeded(
            _with_path(path, f"{values} values of JSON, at most {MAX_VALUES} are read"),
            path=path,
            field=SYNTAX_ERROR_FIELD,
        )
    try:
        text = data.decode()
        members = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(members, ensure_ascii=False, default=str).encode()
    except Corrupt as wrong:
        raise (wrong.at(path) if path else wrong) from None
    except UnicodeDecodeError as wrong:
        raise Corrupt(
            _with_path(path, f"byte {wrong.start} is not UTF-8"),
            path=path,
            offset=wrong.start,
            field=SYNTAX_ERROR_FIELD,
        ) from None
    except UnicodeEncodeError:
        raise Corrupt(
            _with_path(path, "text holds half of a surrogate pair"), path=path, field=SYNTAX_ERROR_FIELD
        ) from None
    except json.JSONDecodeError as wrong:
        offset = len(wrong.doc[: wrong.pos].encode())
        raise Corrupt(
            _with_path(path, f"not JSON at byte {offset} of {len(data)}: {wrong.msg}"),
            path=path,
            offset=offset,
            field=SYNTAX_ERROR_FIELD,
        ) from None
    except RecursionError:
        raise LimitExceeded(
            _with_path(path, f"JSON nested deeper than {MAX_DEPTH} levels"), path=path, field=SYNTAX_ERROR_FIELD
        ) from None
    except ValueError:
        raise LimitExceeded(
            _with_path(path, "a number with thousands of digits"), path=path, field=SYNTAX_ERROR_FIELD
        ) from None
    if not isinstance(members, dict):
        raise Corrupt(
            _with_path(path, f"a JSON object wanted, {json_kind(members)} found"), path=path, field=SYNTAX_ERROR_FIELD
        )
    _check_depth(members, path)
    return members


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        repeated = first_duplicate(name for name, _ in pairs)
        raise Corrupt(f"member {repeated!r} occurs twice", field=repeated)
    return members


def _refuse_constant(word: str) -> NoReturn:
    raise Corrupt(f"{word} is not a JSON number", field=SYNTAX_ERROR_FIELD)


def _parse_fraction(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise LimitExceeded("a number with an exponent beyond all use", field=SYNTAX_ERROR_FIELD) from None


_DECODER = json.JSONDecoder(
    object_pairs_hook=_reject_duplicates, parse_constant=_refuse_constant, parse_float=_parse_fraction
)


def _check_depth(value: Any, path: str | None) -> None:
    """Limit the nesting, so that a later walk over the value cannot overflow the stack."""
    layer, depth = [value], 0
    while layer:
        depth += 1
        if depth > MAX_DEPTH:
            raise LimitExceeded(
                _with_path(path, f"JSON nested deeper than {MAX_DEPTH} levels"), path=path, field=SYNTAX_ERROR_FIELD
            )
        layer = [
            part
            for outer in layer
            for part in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(part, (dict, list))
        ]


def json_kind(value: object) -> str:
    """Return the kind of a JSON value in a word or two, for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | Decimal():
            return "a number"
        case str():
            return "a text"
        case list() | tuple():
            return "a list"
    return "an object"


def _with_path(path: str | None, message: str) -> str:
    return message if path is None else f"{path}: {message}"


# ---- what a member may hold ------------------------------------------------------------------------------------------


def invalid_member(name: str, expected: str, value: object) -> Corrupt:
    """Return the error for a member with a value of another kind."""
    return Corrupt(f"member {name!r} wants {expected}, found {json_kind(value)}", field=name)


def read_integer(name: str, value: Any, *, low: int = -_LONG_BOUND, high: int = _LONG_BOUND - 1) -> int:
    """Return an integer of 64 bits, or within the given bounds. Raises `Corrupt`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise invalid_member(name, "a whole number", value)
    if not low <= value <= high:
        raise Corrupt(f"member {name!r} is {str(value)[:40]}, outside {low} to {high}", field=name)
    return value


def read_count(name: str, value: Any) -> int:
    """Return a non-negative integer of 64 bits. Raises `Corrupt`."""
    return read_integer(name, value, low=0)


def read_int32(name: str, value: Any) -> int:
    """Return an integer of 32 bits. Raises `Corrupt`."""
    return read_integer(name, value, low=-(2**31), high=2**31 - 1)


def read_text(name: str, value: Any) -> str:
    """Return a text. Raises `Corrupt`."""
    if not isinstance(value, str):
        raise invalid_member(name, "a text", value)
    return value


def read_texts(name: str, value: Any) -> tuple[str, ...]:
    """Return a list of texts. Raises `Corrupt`."""
    if not isinstance(value, list):
        raise invalid_member(name, "a list of texts", value)
    return tuple(read_text(name, part) for part in value)


def read_text_map(name: str, value: Any) -> FrozenDict[str, str]:
    """Return an object of texts. Raises `Corrupt`."""
    if not isinstance(value, dict):
        raise invalid_member(name, "an object of texts", value)
    return FrozenDict({key: read_text(f"{name}.{key}", part) for key, part in value.items()})


def read_any(name: str, value: Any) -> Any:  # noqa: ARG001 - same signature as its siblings
    """Return any JSON value, frozen."""
    return freeze(value)


# ---- facts -----------------------------------------------------------------------------------------------------------


def json_member(
    name: str, decode: Callable[[str, Any], Any], *, default: Any = MISSING, encode: Callable[[Any], Any] | None = None
) -> Any:
    """Declare a dataclass field that is the JSON member `name`.

    `decode(name, value)` checks and converts what was read, `encode(value)` converts it back to JSON. A member with a
    default may be absent or null; without one it is required. A value of None is left out when written, unless the file
    it came from had written `null`.
    """
    metadata = {"member": name, "take": decode, "put": encode}
    return field(default=default, metadata=metadata) if default is not MISSING else field(metadata=metadata)


def extra_members_field() -> Any:
    """Declare the field that keeps unknown members."""
    return field(default=EMPTY)


def null_member_names_field() -> Any:
    """Declare the field that lists members written as `null`; it is ignored by equality."""
    return field(default=(), compare=False, repr=False)


_MEMBERS_BY_CLASS: dict[type, tuple[Field[Any], ...]] = {}
_SLOTS_BY_CLASS: dict[type, frozenset[str]] = {}


def _member_fields(cls: type) -> tuple[Field[Any], ...]:
    """Return the fields of a record that are members of its file; cached by class."""
    member_fields = _MEMBERS_BY_CLASS.get(cls)
    if member_fields is None:
        member_fields = _MEMBERS_BY_CLASS[cls] = tuple(part for part in fields(cls) if "member" in part.metadata)
        _SLOTS_BY_CLASS[cls] = frozenset(part.name for part in fields(cls))
    return member_fields


def from_members(cls: type[T], members: Mapping[str, Any], path: str | None = None) -> T:
    """Return the record of class `cls` from the members of a JSON object."""
    decoders = _member_readers(cls)
    values: dict[str, Any] = {}
    try:
        for name, field_name, take, is_required in decoders:
            value = members.get(name)
            if value is not None:
                values[field_name] = take(name, value)
            elif is_required:
                raise Corrupt(  # noqa: TRY301 - the path joins below
                    f"member {name!r} is missing" if name not in members else f"member {name!r} is null", field=name
                )
    except Corrupt as damaged:
        raise (damaged.at(path) if path else damaged) from None
    if len(members) > len(values):  # some are null, or nobody knows them
        names = {name for name, *_ in decoders}
        slots = _SLOTS_BY_CLASS[cls]
        if "extra" in slots:
            values["extra"] = freeze({name: value for name, value in members.items() if name not in names})
        if "nulls" in slots:
            values["nulls"] = tuple(name for name, value in members.items() if value is None and name in names)
    return cls(**values)


_READERS_BY_CLASS: dict[type, tuple[tuple[str, str, Callable[[str, Any], Any], bool], ...]] = {}


def _member_readers(cls: type) -> tuple[tuple[str, str, Callable[[str, Any], Any], bool], ...]:
    """Return each member's name, field, converter and whether it is required; cached by class."""
    decoders = _READERS_BY_CLASS.get(cls)
    if decoders is None:
        decoders = _READERS_BY_CLASS[cls] = tuple(
            (part.metadata["member"], part.name, part.metadata["take"], part.default is MISSING)
            for part in _member_fields(cls)
        )
    return decoders


def to_members(record: Any) -> dict[str, Any]:
    """Return the JSON members of a record, in the order of its fields, unknown ones last."""
    nulls = getattr(record, "nulls", ())
    members: dict[str, Any] = {}
    for part in _member_fields(type(record)):
        name, value = part.metadata["member"], getattr(record, part.name)
        if value is not None:
            put = part.metadata["put"]
            members[name] = value if put is None else put(value)
        elif name in nulls:
            members[name] = None
    return members | dict(getattr(record, "extra", ()))


# ---- values -> bytes -------------------------------------------------------------------------------------------------


def format_object(value: Mapping[str, Any]) -> bytes:
    """Return JSON as the reference prints it.

    Two spaces a level, ` : ` after a name, lists on one line if their items are.
    """
    parts: list[str] = []
    _append_value(value, "", parts)
    return "".join(parts).encode()


def _append_value(value: Any, indent: str, out: list[str]) -> None:
    if isinstance(value, dict):
        if not value:
            out.append("{ }")
            return
        inner = indent + "  "
        for i, (name, part) in enumerate(value.items()):
            out.append(("{\n" if i == 0 else ",\n") + f"{inner}{quote_text(name)} : ")
            _append_value(part, inner, out)
        out.append(f"\n{indent}}}")
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            out.append("[ " if i == 0 else ", ")
            _append_value(part, indent, out)
        out.append(" ]" if value else "[ ]")
    else:
        out.append(format_scalar(value))


def format_scalar(value: Any) -> str:
    """Return a JSON value without parts as text."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quote_text(value)
        case Decimal() if -64 < value.adjusted() < 64 and int(value.as_tuple().exponent) > -64:
            return format(value, "f")
    return str(value)


def quote_text(value: str) -> str:
    """Return a text as a JSON string."""
    return '"' + value.translate(_ESCAPE_OF_CODE) + '"'


# ---- json marks ------------------------------------------------------------


PUNCTUATION_FIELD = "punctuation"
_JSON_TOKEN = re.compile(
    rb'"(?:[^"\\\x00-\x1f]|\\.)*"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|[{}\[\],:]'
)
_BLANKS = re.compile(rb"[ \t\r\n]*")


def record_json_spans(cursor: Cursor) -> Any:
    """Return the value of the JSON text that is the cursor's data; the cursor records the span of each member.

    Raises `Corrupt` at the offset of a syntax error.
    """
    walker = _JsonWalk(cursor)
    value = walker.parse_value(walker.next_token(), "", 0)
    end = walker.skip_blanks()
    if end != cursor.end:
        raise walker.make_error("more after the end")
    walker.record_punctuation(end)
    return value


class _JsonWalk:
    """A walk over JSON text. `at` is the next byte, the cursor stands at the end of what it has recorded."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor, self.data, self.at = cursor, bytes(cursor.data), 0

    def make_error(self, problem: str) -> Corrupt:
        return Corrupt(
            f"not JSON at byte {self.at} of {len(self.data)}: {problem}", offset=self.at, field=SYNTAX_ERROR_FIELD
        )

    def skip_blanks(self) -> int:
        """Skip blanks; return the new offset."""
        matched = _BLANKS.match(self.data, self.at)
        self.at = self.at if matched is None else matched.end()
        return self.at

    def next_token(self, expected: bytes = b"") -> bytes:
        """Return the next token, which must be one of `expected` if that is given."""
        matched = _JSON_TOKEN.match(self.data, self.skip_blanks())
        if matched is None or (expected and matched.group() not in expected):
            raise self.make_error("another sign wanted")
        self.at = matched.end()
        return matched.group()

    def record_punctuation(self, end: int) -> None:
        """Record everything unrecorded before `end` as punctuation."""
        if end > self.cursor.at:
            self.cursor.advance(end, PUNCTUATION_FIELD, None)

    def record_token(self, token: bytes, field: str, value: object) -> None:
        """Record the span of the token that ends here."""
        self.record_punctuation(self.at - len(token))
        self.cursor.advance(self.at, field, value)

    def parse_value(self, token: bytes, path: str, depth: int) -> Any:
        """Return the value that begins with a token."""
        if depth > MAX_DEPTH:
            raise LimitExceeded(f"JSON nested deeper than {MAX_DEPTH} levels", offset=self.at, field=SYNTAX_ERROR_FIELD)
        if token == b"{":
            return self.parse_members(path, depth)
        if token == b"[":
            return self.parse_items(path, depth)
        if token in b"}],:":
            self.at -= 1
            raise self.make_error("a value wanted")
        scalar = self.parse_scalar(token)
        self.record_token(token, path or "value", scalar)
        return scalar

    def parse_scalar(self, token: bytes) -> Any:
        """Return the value of a text, number or keyword."""
        try:
            scalar = json.loads(token.decode(), parse_float=Decimal)
            if isinstance(scalar, str):
                scalar.encode()  # half of a surrogate pair is no text
        except (ValueError, ArithmeticError) as error:
            self.at -= len(token)
            raise self.make_error(str(error)) from None
        return scalar

    def parse_members(self, path: str, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        token = self.next_token()
        while token != b"}":
            if not token.startswith(b'"'):
                raise self.make_error("a name wanted")
            name = self.parse_scalar(token)
            inner = f"{path}.{name}" if path else name
            self.record_token(token, f"name of {inner}", None)
            self.next_token(b":")
            values[name] = self.parse_value(self.next_token(), inner, depth + 1)
            token = self.separator_or_end(b"}")
        return values

    def separator_or_end(self, end: bytes) -> bytes:
        """Return the token that begins the next member or item, or the end token."""
        token = self.next_token(b"," + end)
        if token == b",":
            token = self.next_token()
            if token == end:
                raise self.make_error("a value wanted after a comma")
        return token

    def parse_items(self, path: str, depth: int) -> list[Any]:
        values: list[Any] = []
        token = self.next_token()
        while token != b"]":
            values.append(self.parse_value(token, f"{path}[{len(values)}]", depth + 1))
            token = self.separator_or_end(b"]")
        return values
