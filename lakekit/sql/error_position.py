"""The place of an error in the text of a statement: line, column and caret, where the error says none.

    DROP TABLE shop.ordres     ->     statement: line 1, column 17: no table 'ordres' in database shop: …
                                          DROP TABLE shop.ordres
                                                          ^

What reads a statement raises errors with their places. What a statement then asks of a catalog or a table knows names
alone: the place is that of the name in the statement.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakekit.errors import AlreadyExists, InvalidOption, NotFound, SchemaMismatch, SqlError

if TYPE_CHECKING:
    from lakekit.errors import LakekitError
    from lakekit.sql.tokenizer import TokenStream

_POSITION = re.compile(r"\bline \d+, column \d+: ")


def add_position(wrong: LakekitError, tokens: TokenStream) -> None:
    """Add line, column and caret to the message of an error about a statement, where they are known and missing."""
    if _POSITION.search(wrong.message):
        return
    position = tokens.first_position if isinstance(wrong, SqlError) else _position_of_name(wrong, tokens)
    if position is None:
        return
    located = tokens.source.error(position, wrong.message)
    wrong.args = located.args
    if isinstance(wrong, SqlError):
        wrong.line, wrong.column = located.line, located.column


def _position_of_name(wrong: LakekitError, tokens: TokenStream) -> int | None:
    """Return where the name stands that an error is about; None where it stands nowhere."""
    if isinstance(wrong, (NotFound, AlreadyExists)):
        names = [wrong.name]
    elif isinstance(wrong, SchemaMismatch):
        names = [wrong.column]
    elif isinstance(wrong, InvalidOption):
        names = [wrong.value, wrong.key]
    else:
        names = []
    parts = [part for name in names if name for part in (name, name.rpartition(".")[2]) if part]
    return next((position for part in parts if (position := tokens.position_of(part)) is not None), None)
