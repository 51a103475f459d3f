"""What the machine knows of the branches of a table: their dicts, the states of these, who follows them, and who reads what was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from spec_tests.models.oracle import Oracle, Row
    from spec_tests.models.tables import Drawn


@dataclass(frozen=True, eq=False)
class Kept:
    """What a snapshot held: as rows to compare, and as a dict to go on from. `era`: the rules by which its files are read; `changed`: columns' changes."""

    number: int
    rows: list[str]
    drawn: Drawn
    oracle: Oracle
    told: dict[Any, Row]
    era: object
    changed: int


@dataclass
class Follower:
    """A copy of a table made of its changes: rows by place, or as a list. `consumer`: who it is to the table."""

    next_id: int = 0
    copy: dict[Any, Row] = field(default_factory=dict)
    consumer: str | None = None


class Pin(NamedTuple):
    """A frame that was made once, where it reads, and what it gives. `at` None: the newest of a branch."""

    frame: pl.LazyFrame
    branch: str
    at: int | str | None
    kept: Kept | None
    outline: dict[str, str]


@dataclass
class Line:
    """What the machine knows of a branch while it is on another one."""

    drawn: Drawn
    oracle: Oracle
    told: dict[Any, Row]
    past: dict[int, tuple[dict[str, str], dict[Any, str]]] = field(default_factory=dict)
    newest: int = 0
    ids: list[int] = field(default_factory=list)
    states: dict[int, Kept] = field(default_factory=dict)
    tags: dict[str, Kept] = field(default_factory=dict)
    era: object = field(default_factory=object)
    changed: list[Callable[[Row], Any]] = field(default_factory=list)
    follower: Follower | None = None


PARTS = tuple(Line.__dataclass_fields__)
