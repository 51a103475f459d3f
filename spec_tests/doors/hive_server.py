"""A metastore in memory that speaks Hive's protocol: what a real one of Hive 2.3 answered, in small. Its reading of the bytes shares no code with the client.

It knows what the tests ask: databases, tables, exclusive locks, and the exceptions of each. Like the real one it keeps names in lower case, moves the folder of
a managed table that is renamed, adds `transient_lastDdlTime`, and leaves the comment of a database as it was made.
"""

from __future__ import annotations

import copy
import shutil
import socket
import threading
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

if TYPE_CHECKING:
    from pathlib import Path


class Wrong(Exception):
    """An exception of the interface, by the number of its field."""

    def __init__(self, number, message):
        super().__init__(message)
        self.number, self.message = number, message


def read(protocol, wire):
    """Any value, structs as {number: (wire, value)}."""
    match wire:
        case TType.BOOL:
            return protocol.readBool()
        case TType.I32:
            return protocol.readI32()
        case TType.I64:
            return protocol.readI64()
        case TType.STRING:
            return protocol.readString()
        case TType.LIST:
            inner, size = protocol.readListBegin()
            return inner, [read(protocol, inner) for _ in range(size)]
        case TType.MAP:
            key, value, size = protocol.readMapBegin()
            return key, value, {read(protocol, key): read(protocol, value) for _ in range(size)}
        case TType.STRUCT:
            found = {}
            protocol.readStructBegin()
            while True:
                _, inner, number = protocol.readFieldBegin()
                if inner == TType.STOP:
                    return found
                found[number] = (inner, read(protocol, inner))
    raise AssertionError(wire)


def write(protocol, wire, value):
    match wire:
        case TType.BOOL:
            protocol.writeBool(value)
        case TType.I32:
            protocol.writeI32(value)
        case TType.I64:
            protocol.writeI64(value)
        case TType.STRING:
            protocol.writeString(value)
        case TType.LIST:
            inner, items = value
            protocol.writeListBegin(inner, len(items))
            for item in items:
                write(protocol, inner, item)
        case TType.MAP:
            key, inner, items = value
            protocol.writeMapBegin(key, inner, len(items))
            for name, item in items.items():
                write(protocol, key, name)
                write(protocol, inner, item)
        case TType.STRUCT:
            for number, (inner, item) in value.items():
                protocol.writeFieldBegin("", inner, number)
                write(protocol, inner, item)
            protocol.writeFieldStop()


def texts(values):
    return TType.LIST, (TType.STRING, sorted(values))


class Metastore:
    """The state, and one method a call; a struct is as `read` gives it."""

    def __init__(self):
        self.databases, self.tables, self.locks, self.numbers, self.guard = {}, {}, {}, count(1), threading.Lock()

    def get_all_databases(self):
        return texts(self.databases)

    def get_database(self, name):
        if name.lower() not in self.databases:
            raise Wrong(1, f"There is no database named {name}")
        return TType.STRUCT, self.databases[name.lower()]

    def create_database(self, database):
        name = database[1][1].lower()
        if name in self.databases:
            raise Wrong(1, f"Database {name} already exists")
        self.databases[name] = {**database, 1: (TType.STRING, name), 99: (TType.STRING, "a field of later releases")}

    def alter_database(self, name, database):
        if name not in self.databases:
            raise Wrong(2, name)
        self.databases[name] = {**database, 2: self.databases[name].get(2, (TType.STRING, ""))}

    def drop_database(self, name, delete, cascade):
        if name not in self.databases:
            raise Wrong(1, name)
        if any(database == name for database, _ in self.tables) and not cascade:
            raise Wrong(2, f"Database {name} is not empty. One or more tables exist.")
        del self.databases[name]

    def get_all_tables(self, name):
        return texts(table for database, table in self.tables if database == name)

    def get_table_objects_by_name(self, name, wanted):
        return TType.LIST, (TType.STRUCT, [self.tables[name, table] for table in wanted[1] if (name, table) in self.tables])

    def get_table(self, database, table):
        found = self.tables.get((database.lower(), table.lower()))
        if found is None:
            raise Wrong(2, f"{database}.{table} table not found")
        return TType.STRUCT, found

    def create_table(self, table):
        key = (table[2][1].lower(), table[1][1].lower())
        if key in self.tables:
            raise Wrong(1, f"Table {key[1]} already exists")
        if key[0] not in self.databases:
            raise Wrong(2, f"{key[0]} does not exist")
        self.tables[key] = self._told(table, {"transient_lastDdlTime": "1"})

    def alter_table_with_environment_context(self, database, table, new, context):
        key, other = (database, table), (new[2][1].lower(), new[1][1].lower())
        if key not in self.tables or (other != key and other in self.tables):
            raise Wrong(1, f"Unable to alter table {table}")
        new = self._told(new, {"transient_lastDdlTime": "2"})
        if other != key and new[12][1] == "MANAGED_TABLE":
            above = self.databases[other[0]][3][1].removeprefix("file:")
            source, target = new[7][1][2][1].removeprefix("file:"), f"{above}/{other[1]}"
            shutil.move(source, target)
            new = {**new, 7: (TType.STRUCT, {**new[7][1], 2: (TType.STRING, f"file:{target}")})}
        del self.tables[key]
        self.tables[other] = new

    @staticmethod
    def _told(table, more):
        key, value, parameters = table[9][1]
        return {**copy.deepcopy(table), 9: (TType.MAP, (key, value, {**parameters, **more}))}

    def drop_table(self, database, table, delete):
        if self.tables.pop((database, table), None) is None:
            raise Wrong(1, table)

    def lock(self, request):
        component = request[1][1][1][0]
        number, wanted = next(self.numbers), (component[1][1], component[2][1], component[3][1], component[4][1])
        assert wanted[:2] == (3, 2), "an exclusive lock of a table"
        self.locks[number] = wanted
        return self.check_lock({1: (TType.I64, number)})

    def check_lock(self, request):
        number = request[1][1]
        is_first = min(other for other, wanted in self.locks.items() if wanted == self.locks[number]) == number
        return TType.STRUCT, {1: (TType.I64, number), 2: (TType.I32, 1 if is_first else 2)}

    def unlock(self, request):
        if self.locks.pop(request[1][1], None) is None:
            raise Wrong(1, "No such lock")

    # ---- the wire

    def answer(self, protocol):
        name, _, sequence = protocol.readMessageBegin()
        given = [value for _, (_, value) in sorted(read(protocol, TType.STRUCT).items())]
        protocol.readMessageEnd()
        if not hasattr(self, name):
            protocol.writeMessageBegin(name, TMessageType.EXCEPTION, sequence)
            write(protocol, TType.STRUCT, {1: (TType.STRING, f"Invalid method name: '{name}'"), 2: (TType.I32, 1)})
            protocol.writeMessageEnd()
            protocol.trans.flush()
            return
        try:
            with self.guard:
                found = getattr(self, name)(*given)
            result = {} if found is None else {0: found}
        except Wrong as wrong:
            result = {wrong.number: (TType.STRUCT, {1: (TType.STRING, wrong.message)})}
        protocol.writeMessageBegin(name, TMessageType.REPLY, sequence)
        write(protocol, TType.STRUCT, result)
        protocol.writeMessageEnd()
        protocol.trans.flush()


@contextmanager
def serve(folder: Path):
    """A metastore with the database `default`; its uri, and its state to look at."""
    state = Metastore()
    state.databases["default"] = {1: (TType.STRING, "default"), 3: (TType.STRING, f"file:{folder}")}
    server = socket.create_server(("127.0.0.1", 0))

    def attend(client):
        transport = TSocket()
        transport.setHandle(client)
        protocol = TBinaryProtocol(TBufferedTransport(transport))
        with suppress(TTransportException, OSError, EOFError):
            while True:
                state.answer(protocol)
        transport.close()

    def accept():
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                threading.Thread(target=attend, args=(client,), daemon=True).start()

    listening = threading.Thread(target=accept, daemon=True)
    listening.start()
    try:
        yield f"thrift://127.0.0.1:{server.getsockname()[1]}", state
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        listening.join()
