"""PostgreSQL and MariaDB for a module of tests: each a process of its own on this machine's own address, in a folder that goes with it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOST, USER, PASSWORD, DATABASE = "127.0.0.1", "lake", "pw", "lake"
NEEDS = {"postgres": "postgresql", "mariadbd": "mariadb-server"}
_PLACES = (*map(Path, os.environ.get("PATH", "").split(os.pathsep)), Path("/usr/sbin"), *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A database that answers. `java` is its uri as Java says it."""

    dialect: str
    port: int

    @property
    def uri(self) -> str:
        return f"{self.dialect}://{USER}:{PASSWORD}@{HOST}:{self.port}/{DATABASE}"

    @property
    def java(self) -> dict[str, str]:
        return {"metastore": "jdbc", "uri": f"jdbc:{self.dialect}://{HOST}:{self.port}/{DATABASE}", "jdbc.user": USER, "jdbc.password": PASSWORD}


def program(name: str) -> str | None:
    """Where a server's program is: Debian keeps some of them off the path, and puts a wrapper there that is none."""
    beside = "initdb" if name == "postgres" else name
    return next((str(place / name) for place in _PLACES if (place / name).exists() and (place / beside).exists()), None)


def missing(name: str) -> str | None:
    """Why a server cannot be started here, or None."""
    return None if program(name) else f"{name} is not installed (Debian: {NEEDS[name]})"


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def _account(name: str) -> list[str]:
    """Servers refuse to be root: the words that make a command another account's."""
    setpriv = shutil.which("setpriv")
    return [setpriv, f"--reuid={name}", f"--regid={name}", "--init-groups"] if os.geteuid() == 0 and setpriv else []


@contextmanager
def _folder(account: str) -> Iterator[Path]:
    """A folder that an account can reach and call its own."""
    with tempfile.TemporaryDirectory(prefix="lakekit-database-") as found:
        if os.geteuid() == 0:
            shutil.chown(found, account)
        yield Path(found)


@contextmanager
def _running(command: list[str], is_ready: Callable[[], bool]) -> Iterator[None]:
    with tempfile.TemporaryFile("w+") as told, subprocess.Popen(command, stdout=told, stderr=told, stdin=subprocess.DEVNULL, cwd="/") as process:
        try:
            for _ in range(600):
                if process.poll() is not None:
                    told.seek(0)
                    raise AssertionError(told.read()[-2000:])
                if is_ready():
                    break
                time.sleep(0.1)
            else:
                raise AssertionError(f"{command[0]} is not ready after a minute")
            yield
        finally:
            process.send_signal(signal.SIGTERM if any(part.endswith("mariadbd") for part in command) else signal.SIGINT)  # PostgreSQL would wait for clients


def _connects(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex((HOST, port)) == 0


@contextmanager
def postgresql() -> Iterator[Served]:
    """PostgreSQL with a database of its own."""
    server = program("postgres")
    assert server
    port, tools, account = _free_port(), Path(server).resolve().parent, _account("postgres")

    def is_ready() -> bool:
        return subprocess.run([tools / "pg_isready", "-q", "-h", HOST, "-p", str(port)], check=False).returncode == 0

    with _folder("postgres") as folder:
        how = ["-U", USER, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        _done(*account, tools / "initdb", "-D", folder / "data", *how)
        where = ["-p", str(port), "-c", f"listen_addresses={HOST}", "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"]
        with _running([*account, str(tools / "postgres"), "-D", str(folder / "data"), *where], is_ready):
            _done(tools / "createdb", "-h", HOST, "-p", str(port), "-U", USER, DATABASE)
            yield Served(dialect="postgresql", port=port)


@contextmanager
def mysql() -> Iterator[Served]:
    """MariaDB with a database whose characters leave room for Paimon's keys, and one where they do not."""
    server = program("mariadbd")
    assert server
    port, account = _free_port(), [] if os.geteuid() else ["--user=mysql"]
    with _folder("mysql") as folder:
        how = ["--no-defaults", *account, f"--datadir={folder}/data", "--auth-root-authentication-method=normal", "--skip-test-db"]
        _done("mariadb-install-db", *how)
        where = [f"--datadir={folder}/data", f"--bind-address={HOST}", f"--port={port}", f"--socket={folder}/s", f"--pid-file={folder}/pid"]
        with _running([server, "--no-defaults", *account, *where, "--innodb-flush-log-at-trx-commit=0"], lambda: _connects(port)):
            made = f"create database {DATABASE} character set utf8mb3; create database wide character set utf8mb4; "
            made += f"create user {USER}@'{HOST}' identified by '{PASSWORD}'; grant all on *.* to {USER}@'{HOST}'"
            _done("mariadb", "--no-defaults", "-S", f"{folder}/s", "-u", "root", "-e", made)
            yield Served(dialect="mysql", port=port)


def _done(*command: str | Path) -> None:
    found = subprocess.run(command, check=False, capture_output=True, text=True, cwd="/")
    assert found.returncode == 0, f"{command[:3]}: {found.stderr[-1000:]}{found.stdout[-500:]}"


SERVERS = {"postgresql": ("postgres", postgresql), "mysql": ("mariadbd", mysql)}
