"""The tree that DuckDB itself makes of a text: the names in it, and whether two texts are read alike.

    a, b = DuckDBTree.read(run, 'SELECT a + 1 FROM lakekit_0 AS "t"', 'SELECT lakekit_add(a, 1) FROM lakekit_0 AS "t"')
    a.tables           Counter({"lakekit_0": 1})
    a.is_like(b)       True

What a query may name is decided over sqlglot's tree (`query_refusal`). DuckDB reads the text once more, by a grammar of
its own: where it finds another table in it, or a function that no query may call, the text is refused.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakekit.sql import query_refusal
from lakekit.sql.cage import SUMS
from lakekit.sql.query_refusal import BOUNDED_FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakekit.expressions.parser import SqlText
    from lakekit.sql.cage import QueryRun

_LOCATION_KEYS = ("query_location", "query_location_length", "is_operator", "is_legacy_function_call")
"""What differs between a sum and the function that computes it."""
_NO_QUERY = "not implemented"
"""DuckDB's word for statements that have no tree: PIVOT without IN is several statements."""


@dataclass(slots=True)
class DuckDBTree:
    """What DuckDB reads in a text.

    `tables`: how often each name stands in FROM, in lower case. `problem`: why it reads none.
    """

    nodes: Any = None
    tables: Counter[str] = field(default_factory=Counter)
    table_functions: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    problem: str | None = None

    @staticmethod
    def read(run: QueryRun, *texts: str) -> list[DuckDBTree]:
        """Return the trees of texts of one statement each. Raises what `QueryRun.rows` raises."""
        [found] = run.rows(f"SELECT {', '.join(['json_serialize_sql(?::VARCHAR)'] * len(texts))}", texts)
        return [DuckDBTree._of(text) for text in found]

    @staticmethod
    def _of(text: str) -> DuckDBTree:
        tree = DuckDBTree()
        read = json.loads(text, object_hook=tree._take)
        tree.nodes = read.get("statements")
        if read.get("error"):
            tree.problem = str(read.get("error_type"))
        elif len(tree.nodes) != 1:
            tree.others.add("several statements")
        return tree

    def _take(self, node: dict[str, Any]) -> dict[str, Any]:
        """Note the names of a node, and return it without its place."""
        for place in _LOCATION_KEYS:
            node.pop(place, None)
        kind = node.get("type")
        if node.get("class") == "FUNCTION":
            name = str(node["function_name"])
            if name in SUMS:
                node["function_name"], node["qualified_name"] = SUMS[name], {"path": [SUMS[name]]}
            self.functions.add(name.lower())
            if name.lower() in BOUNDED_FUNCTIONS and str(node.get("catalog") or node.get("schema")).lower() == "system":
                self.others.add(f"system.{name}")
        elif kind == "BASE_TABLE":
            schema = ".".join(str(node[part]) for part in ("catalog_name", "schema_name") if node.get(part))
            self.tables[f"{schema}.{node['table_name']}".lstrip(".").lower()] += 1
        elif kind == "TABLE_FUNCTION":
            self.table_functions.add(str(node["function"]["function_name"]).lower())
        elif kind == "SHOW_REF":
            self.others.add("a statement")
        return node

    def is_like(self, other: DuckDBTree) -> bool:
        """Return whether two texts are read alike, but for the functions that compute sums."""
        return self.problem is None and other.problem is None and bool(self.nodes == other.nodes)

    def bounded_functions(self) -> frozenset[str]:
        """Return what it calls of `BOUNDED_FUNCTIONS`; all of them for a text that is not read."""
        return BOUNDED_FUNCTIONS if self.problem is not None else BOUNDED_FUNCTIONS & self.functions

    def has_no_statement(self) -> bool:
        """Return whether DuckDB has no tree for this kind of statement."""
        return self.problem == _NO_QUERY

    def check(self, names: Mapping[str, int], source: SqlText, *, files: bool, is_exact: bool) -> None:
        """Refuse a text in which DuckDB reads other names than `names`, so many times each.

        `is_exact`: a name may not stand there more or less often.

        Raises: `SqlError`.
        """
        if self.problem is not None:
            return  # DuckDB says itself where it cannot read the text
        unknown = {name for name in self.tables if name not in names}
        if is_exact and self.tables != Counter(names):
            unknown |= {name for name, count in self.tables.items() if names.get(name) != count} or set(names)
        forbidden = {name for name in self.functions - self.table_functions if query_refusal.is_refused(name)} - set(
            SUMS
        )
        forbidden |= {
            name for name in self.table_functions if not query_refusal.may_stand_in_from(name, allow_files=files)
        }
        if found := sorted(unknown | forbidden | self.others):
            raise source.error(
                0, f"{found[0][:100]!r} is read in two ways: write it in plain words, and names in quotes"
            )
