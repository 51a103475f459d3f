"""SQL text of a merge: `t.v` is the target's column, `s.v` the source's, a bare name the target's.

    t.k = s.k AND s.op <> 't.x'   ->   "k" = "<source>.k" AND "<source>.op" <> 't.x'

Only names are changed: string literals, quoted names and comments stay as they are.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from lakekit.read.user_expressions import SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`)|(?P<blank>\s+|--[^\n]*|/\*.*?\*/)|(?P<word>[^\W\d]\w*)|\d[\w.]*|.""",
    re.DOTALL,
)
_SIDES = {"t": "", "s": SOURCE}


def flatten_qualified_names(text: str) -> str:
    """Return the text with the names of both sides as columns of one frame."""
    return "".join(_flatten_tokens(list(_TOKEN.finditer(text))))


def _flatten_tokens(tokens: list[re.Match[str]]) -> Iterator[str]:
    """Yield the tokens with `side . name`, with or without blanks, replaced by one quoted name.

    A name after a point belongs to what is before the point.
    """
    solid = [at for at, token in enumerate(tokens) if token.lastgroup != "blank"]
    follows = dict(pairwise(solid))
    done, before = 0, ""
    for at in solid:
        if at < done:
            continue
        point = follows.get(at, -1)
        name = follows.get(point, -1)
        word = tokens[at]
        is_side = (
            word.lastgroup == "word"
            and word[0].lower() in _SIDES
            and before != "."
            and name > 0
            and tokens[point][0] == "."
        )
        if is_side and tokens[name].lastgroup in ("word", "quoted"):
            yield from (token[0] for token in tokens[done:at])
            yield _quote(_SIDES[word[0].lower()] + _unquote(tokens[name][0]))
            done = name + 1
        before = tokens[at][0]
    yield from (token[0] for token in tokens[done:])


def _unquote(name: str) -> str:
    mark = name[0]
    return name[1:-1].replace(mark * 2, mark) if mark in '"`' else name


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
