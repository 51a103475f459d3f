"""Names that would do harm where they are not escaped, and tables made of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spec_tests.browser.tables import SCHEMA, Made, Written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MARK = "harm"
"""Every payload would run or load something of this name."""
PAYLOADS = (
    "<script>harm()</script>",
    "</script><script>harm()</script>",
    "<img src=x onerror=harm()>",
    "\"><img src=x onerror='harm()'>",
    "' onmouseover='harm()",
    '" autofocus onfocus="harm()',
    "<svg onload=harm()>",
    "<svg><script>harm()</script></svg>",
    "</svg><script>harm()</script>",
    "</title><script>harm()</script>",
    "</style><script>harm()</script>",
    "</pre><script>harm()</script>",
    "</td></tr></table><script>harm()</script>",
    "</button><button onclick=harm()>",
    "<iframe srcdoc='<script>harm()</script>'>",
    "<iframe src=javascript:harm()>",
    '<a href="javascript:harm()">x</a>',
    "<form action=javascript:harm()><input type=submit>",
    "<details open ontoggle=harm()>",
    "<body onload=harm()>",
    "<base href=//harm.example>",
    "<meta http-equiv=refresh content='0;url=//harm.example'>",
    "<link rel=stylesheet href=//harm.example>",
    "<style>*{background:url(//harm.example)}</style>",
    "x}*{background:url(//harm.example)}",
    "<!--harm--><script>harm()<!--",
    "<![CDATA[<script>harm()</script>]]>",
    "&lt;script&gt;harm()&lt;/script&gt;&#60;script&#62;",
    "\u2028harm()\u2029//\u202e<scr\x00ipt>harm()</scr\nipt>\x1b[31m",
    "{{constructor.constructor('harm()')()}}${harm()}`harm()`",
)


def plain(number: int) -> str:
    """A name that does nothing, beside those that would."""
    return f"name {number} {MARK}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Called(Made):
    """A data file of any name."""

    called: str

    @property
    def name(self) -> str:
        return self.called


def table(root: Path, names: Sequence[str]) -> Path:
    """A table where everything that has a name has one of these: database and table, columns, comments, options, users, tags, partitions, data files."""
    place = root / f"{_of_file(names[0])}.db" / _of_file(names[1])
    place.mkdir(parents=True)
    written = Written(place)
    fields = [{"id": 3 + at, "name": name, "type": "STRING", "description": name} for at, name in enumerate(names)]
    options = {"bucket": "1", **{f"metadata.{name}": name for name in names}}
    first = {**SCHEMA, "options": options, "comment": names[0]}
    for number, added in enumerate(([], fields)):
        schema = {**first, "id": number, "fields": [*SCHEMA["fields"], *added], "highestFieldId": 2 + len(added), "comment": names[number]}
        (place / "schema" / f"schema-{number}").write_text(json.dumps(schema), encoding="utf-8")
    (place / "tag").mkdir()
    for at, name in enumerate(names, 1):
        written.commit("APPEND", [Called(number=at, level=0, low=at, high=at + 5, size_bytes=4096, day=name, called=_of_file(name))])
        path = place / "snapshot" / f"snapshot-{at}"
        snapshot = {**json.loads(path.read_text(encoding="utf-8")), "commitUser": name, "schemaId": 1}
        path.write_text(json.dumps(snapshot), encoding="utf-8")
        (place / "tag" / f"tag-{_of_file(name)}").write_text(json.dumps(snapshot), encoding="utf-8")
    return place


def _of_file(name: str) -> str:
    """The name as a file may have it: lakekit refuses files with control characters in their names."""
    return "".join(letter for letter in name.replace("/", "\u2215") if letter >= " ")
