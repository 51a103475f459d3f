"""`%lakekit` and `%%lakekit` in a shell of IPython: a catalog, and the statements of a cell in one session."""

from __future__ import annotations

import polars as pl
import pytest

import lakekit as lk
from lakekit.errors import InvalidOption

IPython = pytest.importorskip("IPython")


@pytest.fixture
def shell():
    from IPython.core.interactiveshell import InteractiveShell

    made = InteractiveShell()
    lk.load_ipython_extension(made)
    return made


def test_cells_are_statements_of_one_session(shell, tmp_path, capsys):
    with pytest.raises(InvalidOption, match="WAREHOUSE"):
        shell.run_cell_magic("lakekit", "", "SELECT 1")
    cat = shell.run_line_magic("lakekit", str(tmp_path / "lake"))
    assert isinstance(cat, lk.Catalog)
    assert shell.run_line_magic("lakekit", "") is cat
    made = "CREATE DATABASE shop; USE shop;\nCREATE TABLE orders (id INT, day STRING); INSERT INTO orders VALUES (1, 'mon'), (2, 'tue')"
    assert shell.run_cell_magic("lakekit", "", made)["row_count"].to_list() == [2]
    shell.user_ns["df"] = pl.DataFrame({"id": [2]}, schema={"id": pl.Int32})
    capsys.readouterr()
    found = shell.run_cell_magic("lakekit", "df", "SHOW TABLES;\nSELECT day FROM orders JOIN df ON orders.id = df.id")
    assert isinstance(found, pl.DataFrame)
    assert found.rows() == [("tue",)]
    assert "tableName" in capsys.readouterr().out
    assert shell.run_cell_magic("lakekit", "", "USE shop") is None
    with pytest.raises(lk.NotFound):
        shell.run_cell_magic("lakekit", "", "SELECT * FROM df")
    with pytest.raises(InvalidOption, match="no variable"):
        shell.run_cell_magic("lakekit", "nothing", "SELECT 1")
