"""README, run as it stands, block after block in one folder and one session: what a new user types works as it is written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import lakekit as lk
from lakekit.cli import main
from spec_tests.reliability.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
FENCES = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
PLAIN = [code for language, code in FENCES if language == "python" and "spark" not in code]
SHELL = [line for language, code in FENCES if not language for line in code.splitlines() if line.startswith("lakekit ")]
SLOW = ("lakekit conformance", "lakekit bench")
"""Lines that other tests run: they take minutes, or name programs of the reader's own."""


@pytest.fixture
def session(tmp_path, monkeypatch):
    """The names that README's blocks make, run in their order in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with S3Server() as server:
        lk.create(server.url("shop.db/orders"), {"id": "BIGINT"}, storage_options=server.options)
        for code in PLAIN:
            store = code.replace("http://localhost:9000", server.endpoint).replace('"me"', f'"{ACCESS_KEY}"').replace('"mine"', f'"{SECRET_KEY}"')
            exec(compile(store, "README.md", "exec"), names)
    return names


def test_every_block_of_python_runs(session, capsys):
    assert len(PLAIN) >= 6
    assert session["t"].scan().collect().height == 4
    assert session["cat"]["lab.inbox"].scan().collect().height == 4
    assert session["cat"]["lab.clicks"].scan().collect().height == session["frame"].height
    for line in SHELL:
        if not line.startswith(SLOW):
            assert main.main(shlex.split(line, comments=True)[1:]) == 0, line
    assert lk.open("warehouse/shop.db/orders").scan(at="quarter-end").collect().height == 4
    assert len(SHELL) > 12
