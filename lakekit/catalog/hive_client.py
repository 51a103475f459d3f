"""A client of Hive metastores: a few calls in Thrift's binary protocol over a plain socket.

    with metastore("thrift://host:9083") as client:
        client.call("get_table", "shop", "orders")     {"tableName": "orders", "dbName": "shop", "sd": {…}, …}

A struct is a dict of the fields that are set. Constants such as `_TABLE` give the number and type of each field, from
Hive's interface description; other fields are skipped. If the metastore answers with an exception, `HiveRefusal` is
raised, with the name of Hive's exception.

`hive_type` names a column's type as a metastore knows it:

    BIGINT, STRING, TIMESTAMP_LTZ(3)     bigint, string, timestamp
    MAP<STRING, INT>, ROW<a INT>         map<string,int>, struct<a:int>

Source: ENGINE.md 9.4; `HiveTypeUtils`; Hive 2.3 and 3.1.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from lakekit.errors import InvalidOption, LimitExceeded, StorageFailed, Unsupported
from lakekit.options.redaction import redact_uri

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakekit.types import DataType

_TIMEOUT_MS = 60_000
_MAX_ELEMENTS = 1_000_000
"""The most items of a list or map in an answer."""
_MAX_DEPTH = 20

ThriftType = Any
"""A Thrift type: a name of `_PLAIN_TYPE_CODES`, ("list", kind), ("map", kind, kind), or a struct: field number ->
(name, kind)."""
_PLAIN_TYPE_CODES = {"bool": TType.BOOL, "i32": TType.I32, "i64": TType.I64, "string": TType.STRING}
_STRING_MAP = ("map", "string", "string")
_FIELD_SCHEMA: ThriftType = {1: ("name", "string"), 2: ("type", "string"), 3: ("comment", "string")}
_SERDE_INFO: ThriftType = {1: ("name", "string"), 2: ("serializationLib", "string"), 3: ("parameters", _STRING_MAP)}
_SORT_ORDER: ThriftType = {1: ("col", "string"), 2: ("order", "i32")}
_STORAGE_DESCRIPTOR: ThriftType = {
    1: ("cols", ("list", _FIELD_SCHEMA)),
    2: ("location", "string"),
    3: ("inputFormat", "string"),
    4: ("outputFormat", "string"),
    5: ("compressed", "bool"),
    6: ("numBuckets", "i32"),
    7: ("serdeInfo", _SERDE_INFO),
    8: ("bucketCols", ("list", "string")),
    9: ("sortCols", ("list", _SORT_ORDER)),
    10: ("parameters", _STRING_MAP),
    12: ("storedAsSubDirectories", "bool"),
}
_TABLE: ThriftType = {
    1: ("tableName", "string"),
    2: ("dbName", "string"),
    3: ("owner", "string"),
    4: ("createTime", "i32"),
    5: ("lastAccessTime", "i32"),
    6: ("retention", "i32"),
    7: ("sd", _STORAGE_DESCRIPTOR),
    8: ("partitionKeys", ("list", _FIELD_SCHEMA)),
    9: ("parameters", _STRING_MAP),
    10: ("viewOriginalText", "string"),
    11: ("viewExpandedText", "string"),
    12: ("tableType", "string"),
}
_DATABASE: ThriftType = {
    1: ("name", "string"),
    2: ("description", "string"),
    3: ("locationUri", "string"),
    4: ("parameters", _STRING_MAP),
    6: ("ownerName", "string"),
    7: ("ownerType", "i32"),
}
_LOCK_COMPONENT: ThriftType = {
    1: ("type", "i32"),
    2: ("level", "i32"),
    3: ("dbname", "string"),
    4: ("tablename", "string"),
}
_LOCK_REQUEST: ThriftType = {
    1: ("component", ("list", _LOCK_COMPONENT)),
    3: ("user", "string"),
    4: ("hostname", "string"),
    5: ("agentInfo", "string"),
}
_LOCK_RESPONSE: ThriftType = {1: ("lockid", "i64"), 2: ("state", "i32")}
_LOCK_ID: ThriftType = {1: ("lockid", "i64")}
_EXCEPTION_STRUCT: ThriftType = {1: ("message", "string")}

_ALREADY_EXISTS, _INVALID_OBJECT, _META_EXCEPTION, _NO_SUCH_OBJECT, _UNKNOWN_DATABASE, _INVALID_OPERATION = (
    f"{name}Exception"
    for name in ("AlreadyExists", "InvalidObject", "Meta", "NoSuchObject", "UnknownDB", "InvalidOperation")
)
_LOCK_FAULTS = {1: "NoSuchTxnException", 2: "TxnAbortedException", 3: "NoSuchLockException"}
METASTORE_CALLS: Mapping[str, tuple[tuple[ThriftType, ...], ThriftType, Mapping[int, str]]] = {
    "get_all_databases": ((), ("list", "string"), {1: _META_EXCEPTION}),
    "get_database": (("string",), _DATABASE, {1: _NO_SUCH_OBJECT, 2: _META_EXCEPTION}),
    "create_database": ((_DATABASE,), None, {1: _ALREADY_EXISTS, 2: _INVALID_OBJECT, 3: _META_EXCEPTION}),
    "alter_database": (("string", _DATABASE), None, {1: _META_EXCEPTION, 2: _NO_SUCH_OBJECT}),
    "drop_database": (
        ("string", "bool", "bool"),
        None,
        {1: _NO_SUCH_OBJECT, 2: _INVALID_OPERATION, 3: _META_EXCEPTION},
    ),
    "get_all_tables": (("string",), ("list", "string"), {1: _META_EXCEPTION}),
    "get_table_objects_by_name": (
        ("string", ("list", "string")),
        ("list", _TABLE),
        {1: _META_EXCEPTION, 2: _INVALID_OPERATION, 3: _UNKNOWN_DATABASE},
    ),
    "get_table": (("string", "string"), _TABLE, {1: _META_EXCEPTION, 2: _NO_SUCH_OBJECT}),
    "create_table": ((_TABLE,), None, {1: _ALREADY_EXISTS, 2: _INVALID_OBJECT, 3: _META_EXCEPTION, 4: _NO_SUCH_OBJECT}),
    "alter_table_with_environment_context": (
        ("string", "string", _TABLE, {1: ("properties", _STRING_MAP)}),
        None,
        {1: _INVALID_OPERATION, 2: _META_EXCEPTION},
    ),
    "drop_table": (("string", "string", "bool"), None, {1: _NO_SUCH_OBJECT, 3: _META_EXCEPTION}),
    "lock": ((_LOCK_REQUEST,), _LOCK_RESPONSE, _LOCK_FAULTS),
    "check_lock": ((_LOCK_ID,), _LOCK_RESPONSE, _LOCK_FAULTS),
    "unlock": ((_LOCK_ID,), None, {1: "NoSuchLockException", 2: "TxnOpenException"}),
}
"""Call -> (kinds of the arguments, kind of the answer (None: no answer), field number -> name of an exception)."""


class HiveRefusal(StorageFailed):
    """An error that a metastore answered; `exception_name` is the name of Hive's exception."""

    exception_name: str = ""


@dataclass(slots=True, kw_only=True)
class HiveClient:
    """An open connection to a metastore; `address` is the address for messages."""

    protocol: Any = field(repr=False)
    address: str

    def call_method(self, name: str, *values: Any) -> Any:
        """Return the answer to a call of `METASTORE_CALLS`; None if the call has none.

        Raises `HiveRefusal` if the metastore refuses the call, and `StorageFailed` if it does not answer.
        """
        arguments, answer, exceptions = METASTORE_CALLS[name]
        protocol = self.protocol
        try:
            protocol.writeMessageBegin(name, TMessageType.CALL, 1)
            write_value(
                protocol,
                {at + 1: (str(at), kind) for at, kind in enumerate(arguments)},
                {str(at): value for at, value in enumerate(values)},
            )
            protocol.writeMessageEnd()
            protocol.trans.flush()
            _, kind, _ = protocol.readMessageBegin()
            if kind == TMessageType.EXCEPTION:
                wrong = TApplicationException()
                wrong.read(protocol)
                raise StorageFailed(f"the metastore {self.address} cannot {name}: {wrong.message}", path=self.address)
            result = {0: ("answer", answer)} if answer is not None else {}
            reply = read_value(
                protocol, {**result, **{number: (what, _EXCEPTION_STRUCT) for number, what in exceptions.items()}}
            )
            protocol.readMessageEnd()
        except (TException, OSError, EOFError, UnicodeDecodeError) as failed:
            if isinstance(failed, StorageFailed):
                raise
            raise StorageFailed(
                f"the metastore {self.address} did not answer {name}: {failed}", path=self.address
            ) from None
        for what in exceptions.values():
            if what in reply:
                refused = HiveRefusal(
                    f"the metastore {self.address} refuses to {name}: {what}: {reply[what].get('message', '')}",
                    path=self.address,
                )
                refused.exception_name = what
                raise refused
        if answer is not None and "answer" not in reply:
            raise StorageFailed(f"the metastore {self.address} answered {name} with nothing", path=self.address)
        return reply.get("answer")


@contextmanager
def open_client(uri: str) -> Iterator[HiveClient]:
    """Open a connection to the first metastore of a list that answers; it is closed at the end of the block.

    Raises `StorageFailed`, `InvalidOption`.
    """
    failed: Exception | None = None
    for host, port in parse_metastore_uris(uri):
        socket = TSocket(host, port)
        socket.setTimeout(_TIMEOUT_MS)
        transport = TBufferedTransport(socket)
        try:
            transport.open()
        except (TException, OSError) as wrong:
            failed = wrong
            continue
        try:
            yield HiveClient(
                protocol=TBinaryProtocol(transport, string_length_limit=1 << 28, container_length_limit=_MAX_ELEMENTS),
                address=redact_uri(uri),
            )
        finally:
            transport.close()
        return
    raise StorageFailed(f"no metastore answers at {redact_uri(uri)}: {failed}", path=redact_uri(uri))


def parse_metastore_uris(uri: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of `thrift://a:9083,thrift://b:9083`. Raises `InvalidOption`."""
    addresses = []
    for text in uri.split(","):
        try:
            parts = urlsplit(text.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port, parts = None, None, urlsplit("")
        if parts.scheme != "thrift" or not host:
            raise InvalidOption(
                f"{redact_uri(text.strip())[:200]!r} is no place of a metastore: thrift://host:port, or several with "
                "commas",
                key="uri",
                value=None,
            )
        addresses.append((host, port or 9083))
    return addresses


# ---- values --------------------------------------------------------------------------------------


def thrift_type_code(thrift_type: ThriftType) -> int:
    """Return Thrift's type code of a kind."""
    if isinstance(thrift_type, dict):
        return int(TType.STRUCT)
    return int(
        _PLAIN_TYPE_CODES[thrift_type]
        if isinstance(thrift_type, str)
        else {"list": TType.LIST, "map": TType.MAP}[thrift_type[0]]
    )


def write_value(protocol: Any, thrift_type: ThriftType, value: Any) -> None:
    """Write a value of a kind; fields of a struct that are None are left out."""
    if isinstance(thrift_type, dict):
        protocol.writeStructBegin("")
        for number, (name, inner) in thrift_type.items():
            if value.get(name) is not None:
                protocol.writeFieldBegin(name, thrift_type_code(inner), number)
                write_value(protocol, inner, value[name])
                protocol.writeFieldEnd()
        protocol.writeFieldStop()
        protocol.writeStructEnd()
    elif isinstance(thrift_type, str):
        {
            "bool": protocol.writeBool,
            "i32": protocol.writeI32,
            "i64": protocol.writeI64,
            "string": protocol.writeString,
        }[thrift_type](value)
    elif thrift_type[0] == "list":
        protocol.writeListBegin(thrift_type_code(thrift_type[1]), len(value))
        for item in value:
            write_value(protocol, thrift_type[1], item)
        protocol.writeListEnd()
    else:
        protocol.writeMapBegin(thrift_type_code(thrift_type[1]), thrift_type_code(thrift_type[2]), len(value))
        for key, item in value.items():
            write_value(protocol, thrift_type[1], key)
            write_value(protocol, thrift_type[2], item)
        protocol.writeMapEnd()


def read_value(protocol: Any, thrift_type: ThriftType, depth: int = 0) -> Any:
    """Return a value of a kind; unknown fields of a struct are skipped.

    Raises `LimitExceeded` for structs that are nested too deep.
    """
    if depth > _MAX_DEPTH:
        raise LimitExceeded("a metastore's answer is nested deeper than any of Hive's structs", field="thrift")
    if isinstance(thrift_type, dict):
        fields: dict[str, Any] = {}
        protocol.readStructBegin()
        while True:
            _, wire, number = protocol.readFieldBegin()
            if wire == TType.STOP:
                break
            name, inner = thrift_type.get(number, ("", None))
            if inner is not None and thrift_type_code(inner) == wire:
                fields[name] = read_value(protocol, inner, depth + 1)
            else:
                protocol.skip(wire)
            protocol.readFieldEnd()
        protocol.readStructEnd()
        return fields
    if isinstance(thrift_type, str):
        return {
            "bool": protocol.readBool,
            "i32": protocol.readI32,
            "i64": protocol.readI64,
            "string": protocol.readString,
        }[thrift_type]()
    if thrift_type[0] == "list":
        _, count = protocol.readListBegin()
        items = [read_value(protocol, thrift_type[1], depth + 1) for _ in range(count)]
        protocol.readListEnd()
        return items
    _, _, count = protocol.readMapBegin()
    pairs = [
        (read_value(protocol, thrift_type[1], depth + 1), read_value(protocol, thrift_type[2], depth + 1))
        for _ in range(count)
    ]
    protocol.readMapEnd()
    return dict(pairs)


# ---- types of columns ----------------------------------------------------------------------------


_HIVE_TYPES = {
    name.upper(): name for name in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date")
}
_HIVE_TYPES |= {
    "TIME": "string",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "BLOB": "binary",
}
_SIZED_TYPES = {"CHAR": ("char", 255), "VARCHAR": ("varchar", 65535)}


def hive_type(t: DataType) -> str:
    """Return Hive's name of a type, as a metastore of Hive 2 knows it. Raises `Unsupported`."""
    if t.root in _HIVE_TYPES:
        return _HIVE_TYPES[t.root]
    if t.root in _SIZED_TYPES:
        name, longest = _SIZED_TYPES[t.root]
        return f"{name}({t.length})" if t.length is not None and t.length <= longest else "string"
    match t.root:
        case "DECIMAL":
            return f"decimal({t.precision},{t.scale})"
        case "ARRAY" if t.element is not None:
            return f"array<{hive_type(t.element)}>"
        case "MULTISET" if t.element is not None:
            return f"map<{hive_type(t.element)},int>"
        case "MAP" if t.key is not None and t.value is not None:
            return f"map<{hive_type(t.key)},{hive_type(t.value)}>"
        case "ROW":
            return f"struct<{','.join(f'{field.name}:{hive_type(field.type)}' for field in t.fields)}>"
        case "VARIANT":
            return "struct<value:binary,metadata:binary>"
    raise Unsupported(f"Hive has no type for {t}; keep the table in another catalog", feature="catalog.hive")
