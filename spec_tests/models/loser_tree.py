"""The loser tree of the reference's merge reader, state by state, for two leaves: which of two equal rows comes first.

    for group in groups([Leaf(a), Leaf(b)], key=…, age=…):
        group    [(leaf number, row), …] of one key, in the order in which the merge function is given them

Source: `LoserTree`, `SortMergeReaderWithLoserTree`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class Leaf:
    """Rows of one reader, sorted by key."""

    rows: list[Any]
    at: int = -1
    state: str = "winner, new key"
    same: bool = False

    @property
    def row(self) -> Any:
        return self.rows[self.at] if self.at < len(self.rows) else None

    def advance(self) -> None:
        self.at, self.state, self.same = self.at + 1, "winner, new key", False


def groups(leaves: list[Leaf], *, key: Callable[[Any], Any], age: Callable[[Any], Any]) -> Iterator[list[tuple[int, Any]]]:
    """The rows of each key."""
    first, loser = leaves
    loser.advance()
    loser.state = "loser, new key"
    first.advance()
    winner = _contest(loser, first, key, age)
    loser = _other(leaves, winner)
    while True:
        while winner.state == "winner, popped":
            winner.advance()
            if loser.state == "loser, popped":
                loser.state, winner.state = "winner, popped", "loser, new key"
                winner, loser = loser, winner
            else:
                winner = _contest(loser, winner, key, age)
                loser = _other(leaves, winner)
        if winner.row is None:
            return
        found = [(leaves.index(winner), winner.row)]
        winner.state = "winner, popped"
        if winner.same:  # the loser has the same key: it is next
            winner.state, loser.state = "loser, popped", "winner, same key"
            winner, loser = loser, winner
            found.append((leaves.index(winner), winner.row))
            winner.state = "winner, popped"
        yield found


def _contest(parent: Leaf, child: Leaf, key: Callable[[Any], Any], age: Callable[[Any], Any]) -> Leaf:
    """Who wins when a new row of `child` meets the standing row of `parent`; a tie is the parent's."""
    if parent.row is None or (child.row is not None and key(child.row) < key(parent.row)):
        return child
    if child.row is not None and key(child.row) == key(parent.row):
        if age(child.row) < age(parent.row):
            parent.state, child.same = "loser, same key", True
            return child
        parent.state, parent.same, child.state = "winner, new key", True, "loser, same key"
        return parent
    parent.state, child.state = "winner, new key", "loser, new key"
    return parent


def _other(leaves: list[Leaf], one: Leaf) -> Leaf:
    return leaves[1] if one is leaves[0] else leaves[0]
