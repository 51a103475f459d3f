"""Tables that are kept between runs are whole, or made again."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from spec_tests.bench import bench, systems, tables

ROWS = 1000


class Writer:
    """A rival that only makes directories, refuses a table that exists, and is killed at its first `deaths` commits."""

    deaths = 0
    made = 0

    def __init__(self, system, warehouse):
        self.warehouse = warehouse

    def ask(self, op, *, table, rows, commit):
        path = systems.table_path(self.warehouse, table)
        if op == "create":
            if path.exists():
                return {"error": f"Table {table} already exists"}
            path.mkdir(parents=True)
            Writer.made += 1
        elif Writer.deaths:
            Writer.deaths -= 1
            raise KeyboardInterrupt
        else:
            (path / f"commit-{commit}").touch()
        return {}

    def close(self):
        pass


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "Process", Writer)
    monkeypatch.setattr(Writer, "made", 0)
    return tmp_path


def made(home):
    found = bench.Bench(home, ROWS, say=lambda text: None)
    found.make("plain")
    return found.warehouse


def test_a_table_that_was_left_half_made_is_made_again(home, monkeypatch):
    monkeypatch.setattr(Writer, "deaths", 1)
    with pytest.raises(KeyboardInterrupt):
        made(home)
    warehouse = made(home)
    assert len(list(systems.table_path(str(warehouse), "plain").iterdir())) == tables.ALL["plain"].commits
    assert_frame_equal(pl.read_parquet(warehouse / "plain.expected.parquet"), tables.ALL["plain"].expected(ROWS))
    assert Writer.made == 2
    assert made(home) == warehouse
    assert Writer.made == 2  # and a whole one is not


def test_what_is_expected_of_a_table_is_there_whole_or_not_at_all(home, monkeypatch):
    def cut(frame, path):
        path.write_bytes(b"PAR1")
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(pl.DataFrame, "write_parquet", cut)
        with pytest.raises(KeyboardInterrupt):
            made(home)
    assert pl.read_parquet(made(home) / "plain.expected.parquet").height == ROWS
