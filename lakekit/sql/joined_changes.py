"""UPDATE … FROM and DELETE … USING: a MERGE of the same parts.

    UPDATE shop.orders t SET total = s.total FROM lab.changes s WHERE t.id = s.id
    MERGE INTO shop.orders t USING lab.changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET total = s.total

Several rows of the source that match one are refused, as in a MERGE; other engines take any of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakekit.sql import dml
from lakekit.sql.tokenizer import TokenStream

if TYPE_CHECKING:
    from lakekit.sql.backend import Statement, StatementResult


def update(statement: Statement) -> StatementResult:
    """Execute UPDATE; the words up to the name of its table have been read."""
    tokens = statement.tokens
    at_set = _find(tokens, "SET", tokens.position)
    at_from = None if at_set is None else _find(tokens, "FROM", at_set)
    if at_set is None or at_from is None:
        return dml.update(statement)
    at_where = _find(tokens, "WHERE", at_from)
    assignments = tokens.slice(at_set + 1, at_from)
    return _merge(statement, at_set, (at_from, at_where), f"WHEN MATCHED THEN UPDATE SET {assignments}")


def delete(statement: Statement) -> StatementResult:
    """Execute DELETE; the words up to FROM have been read."""
    tokens = statement.tokens
    at_using = _find(tokens, "USING", tokens.position)
    if at_using is None or not tokens.is_next("FROM"):
        return dml.delete(statement)
    tokens.expect("FROM")
    return _merge(statement, at_using, (at_using, _find(tokens, "WHERE", at_using)), "WHEN MATCHED THEN DELETE")


def _merge(statement: Statement, target_end: int, source: tuple[int, int | None], clause: str) -> StatementResult:
    """Execute the MERGE; `source` is where the word before the source stands, and where WHERE does."""
    tokens, (before, at_where) = statement.tokens, source
    if at_where is None or at_where + 1 == tokens.count:
        tokens.position = tokens.count
        raise tokens.wrong("WHERE, and how rows of the source match those of the table")
    comma = next((at for at in (_find(tokens, word, before + 1) for word in (",", "JOIN")) if at is not None), None)
    if comma is not None and comma < at_where:
        tokens.position = comma
        raise tokens.wrong("one source: a table, or a query in parentheses")
    target, rows = tokens.slice(tokens.position, target_end), tokens.slice(before + 1, at_where)
    condition = tokens.slice(at_where + 1, tokens.count)
    text = f"MERGE INTO {target} USING {rows} ON {condition} {clause}"
    merge = TokenStream.of(text, tokens.dialect, name=tokens.source.name)
    merge.parameters = tokens.parameters
    merge.expect("MERGE")
    return dml.merge(replace(statement, tokens=merge))


def _find(tokens: TokenStream, word: str, start: int) -> int | None:
    """Return the index of a word outside of parentheses, from `start` on."""
    ahead = tokens.fork(start - tokens.position)
    while ahead.next is not None:
        if ahead.is_next(word) and not (word == "FROM" and ahead.before.upper() == "DISTINCT"):
            return ahead.position
        if ahead.is_next("("):
            ahead.inside()
        else:
            ahead.position += 1
    return None
