"""A JupyterLab of our own: a free port, every one of its directories new, nobody else's settings."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DIRECTORIES = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR")
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "notebook-extension/tracker": {"windowingMode": "none", "recordTiming": False},
    "docmanager-extension/plugin": {"autosave": False},
}
"""No news, and every cell of a notebook is in the page whether or not it is scrolled to."""
SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A running server: its address, the folder it shows, where it writes what it has to say."""

    url: str
    root: Path
    log: Path


@contextmanager
def running(scratch: Path) -> Iterator[Lab]:
    """A server that ends with the block."""
    home, root, log = scratch / "home", scratch / "root", scratch / "lab.log"
    root.mkdir(parents=True)
    for name, settings in SETTINGS.items():
        path = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings), encoding="utf-8")
    environment = {**os.environ, **{name: str(home / name.lower()) for name in DIRECTORIES}, "JUPYTERLAB_SETTINGS_DIR": str(home / "settings")}
    environment |= {"PYTHONPATH": str(ROOT), "TZ": "UTC", "PYTHONWARNINGS": "default"}
    port = _free_port()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}", "--port-retries=0"]
    command += [f"--ServerApp.root_dir={root}", "--IdentityProvider.token=", "--ServerApp.password=", "--ServerApp.log_level=INFO"]
    command += ["--expose-app-in-browser", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.extension_manager=readonly"]
    with log.open("w") as said:
        server = subprocess.Popen(command, stdout=said, stderr=said, env=environment, cwd=root)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(url, server, log)
        yield Lab(url=url, root=root, log=log)
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + SECONDS
    while server.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{url}/api/status", timeout=2):
                return
        except (OSError, urllib.error.URLError):
            time.sleep(0.1)
    raise AssertionError(f"JupyterLab does not answer:\n{log.read_text(encoding='utf-8')[-4000:]}")
