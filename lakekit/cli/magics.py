"""Magics of IPython: a catalog by `%lakekit`, statements of SQL by `%%lakekit`.

    %load_ext lakekit
    %lakekit warehouse                  connects to the catalog of a folder; its card

    %%lakekit df limits                 frames of the notebook that the statements may read, by their names
    USE shop;
    SELECT day, count(*) AS n FROM orders JOIN df ON orders.id = df.id GROUP BY day

The answers of a cell are shown in order, and the last is its value, collected. `--files` lets queries read files. Cells
share a session: USE holds from one to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lakekit
from lakekit.errors import InvalidOption

if TYPE_CHECKING:
    import polars as pl

    from lakekit.catalog.catalog import Catalog
    from lakekit.catalog.session import Session

_FILES_FLAG = "--files"


def load_ipython_extension(shell: Any) -> None:
    """Register the magics with a shell of IPython, as `%load_ext lakekit` asks for."""
    shell.register_magic_function(CatalogMagic(shell).run, "line_cell", "lakekit")


@dataclass(slots=True)
class CatalogMagic:
    """The magic of a shell, and the catalog that it was connected to."""

    shell: Any
    catalog: Catalog | None = None
    session: Session | None = None

    def run(self, line: str, cell: str | None = None) -> Catalog | pl.DataFrame | None:
        """Connect to a warehouse, or execute the statements of a cell; return the catalog, or the last answer.

        Raises: `InvalidOption` for no warehouse, and for a name that is no variable; what the statements raise.
        """
        if cell is not None:
            return self._execute(line.split(), cell)
        warehouse = line.strip().strip("'\"")
        if warehouse:
            self.catalog = lakekit.connect(warehouse)
            self.session = self.catalog.session()
        self._session()
        return self.catalog

    def _session(self) -> Session:
        if self.session is None:
            raise InvalidOption(
                "%lakekit WAREHOUSE names the folder of a catalog before its statements", key="warehouse", value=None
            )
        return self.session

    def _execute(self, words: list[str], cell: str) -> pl.DataFrame | None:
        """Show the answers of the statements but the last, and return that; None if it has no columns."""
        variables, names = self.shell.user_ns, [word for word in words if word != _FILES_FLAG]
        unknown = [name for name in names if name not in variables]
        if unknown:
            raise InvalidOption(
                f"%%lakekit {unknown[0]}: the notebook has no variable of that name to read as a table",
                key=unknown[0],
                value=None,
            )
        frames = {name: variables[name] for name in names}
        last: pl.DataFrame | None = None
        session = self._session()
        for answer in session.answers(cell, files=_FILES_FLAG in words, **frames):
            if last is not None and last.width:
                self._show(last)
            last = answer.lazy().collect()
        return last if last is not None and last.width else None

    def _show(self, frame: pl.DataFrame) -> None:
        """Display a frame as the shell displays the value of a cell."""
        data, more = self.shell.display_formatter.format(frame)
        self.shell.display_pub.publish(data, more)
