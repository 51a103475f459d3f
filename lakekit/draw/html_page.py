"""A table as one self-contained page: no network, no notebook, no widget state.

The timeline is on top; below it the manifests and levels of one snapshot.

    <meta Content-Security-Policy>     nothing is loaded, and only the style and the script of this file run:
                                       their hashes are in the policy
    <svg> timeline                     a mark a snapshot: click, Tab and Enter, arrow keys
    <section data-snapshot="7"> …      one for each snapshot that is in the page, the selected one visible:
                                       manifests, and the levels of each bucket
    <script type="application/json">   the answers to clicks: opening line, details by name;
                                       `<`, `>`, `&`, U+2028 and U+2029 written as escapes

Without JavaScript every snapshot of the page is visible, one after another. Pure: facts and drawings in, text out.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakekit.draw import cards
from lakekit.draw.humanize import escape_controls, format_count, plural
from lakekit.draw.shapes import Rect, to_svg

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakekit.draw.shapes import Drawing

_TRANSPARENT = "#00000000"
_MIN_BOX_WIDTH = 4.0
"""The least width of a box in pixels, so that a finger can hit it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePane:
    """A picture under a heading; `note` is a text in place of a missing picture, or below it."""

    heading: str
    drawing: Drawing | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotView:
    """A snapshot in the page: its manifests, its buckets, and the Python that reads it.

    `details` are sentences for the keys of its boxes.
    """

    snapshot_id: int
    heading: str
    reading_code: str
    at_argument: str
    manifests: PagePane
    buckets: tuple[PagePane, ...]
    note: str = ""
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlPage:
    """The content of a page.

    That is the table's name and facts, the Python that opens it, the timeline, and the snapshots that are in the page,
    newest first.
    """

    name: str
    table_facts: Sequence[tuple[str, object]]
    open_code: str
    timeline: Drawing
    snapshots: tuple[SnapshotView, ...]
    snapshot_count: int


def add_click_targets(drawing: Drawing, boxes: Iterable[Rect]) -> Drawing:
    """Return the drawing with transparent boxes over it that can be clicked; only they carry the hints."""
    plain = tuple(replace(shape, hint="", key="") if isinstance(shape, Rect) else shape for shape in drawing.shapes)
    over = (replace(box, color=_TRANSPARENT, width=max(box.width, _MIN_BOX_WIDTH)) for box in boxes)
    return replace(drawing, shapes=(*plain, *over))


def snapshot_section(view: SnapshotView) -> str:
    """Return the part of a page that shows one snapshot."""
    head = f"<h2>{_escape_html(view.heading)}</h2><pre>{_escape_html(view.reading_code)}</pre>"
    buckets = "".join(map(_bucket_section, view.buckets))
    note = f"<p>{_escape_html(view.note)}</p>" if view.note else ""
    manifests = f'<div data-view="manifests">{_pane_section(view.manifests)}</div>'
    return (
        f'<section data-snapshot="{view.snapshot_id}" data-at="{_escape_html(view.at_argument)}">{head}{manifests}<div '
        f'data-view="levels">{buckets}</div>{note}</section>'
    )


def _bucket_section(pane: PagePane) -> str:
    return f"<details open><summary>{_escape_html(pane.heading)}</summary>{_pane_section(pane)}</details>"


def _pane_section(pane: PagePane) -> str:
    drawn = to_svg(pane.drawing) if pane.drawing is not None else ""
    return drawn + (f"<p>{_escape_html(pane.note)}</p>" if pane.note else "")


def render_page(content: HtmlPage) -> str:
    """Return the whole page as HTML text. Names in it are escaped, whatever they hold."""
    details = {
        key: escape_controls(sentence) for moment in content.snapshots for key, sentence in moment.details.items()
    }
    payload = _script_json({"opening": content.open_code, "details": details})
    policy = (
        f"default-src 'none'; script-src {_content_hash(_PAGE_SCRIPT)}; style-src-elem {_content_hash(_PAGE_STYLE)}; "
        f"style-src-attr "
        "'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )
    return "".join(
        (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_escape_html(policy)}">',
            (
                '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="color-scheme" '
                'content="light dark">'
            ),
            f"<title>{_escape_html(content.name)}</title><style>{_PAGE_STYLE}</style></head><body><main>",
            cards.html_card(f"Table {content.name}", content.table_facts),
            f"<p>{_describe_coverage(content)}</p>",
            f'<div id="timeline">{to_svg(content.timeline)}</div>',
            (
                '<div id="told" role="status" aria-live="polite"><p id="said">Choose a snapshot, a manifest or a file: '
                "click, or Tab and Enter.</p>"
            ),
            f'<pre id="code">{_escape_html(content.open_code)}</pre></div>',
            *map(snapshot_section, content.snapshots),
            (
                '</main><script type="application/json" '
                f'id="facts">{payload}</script><script>{_PAGE_SCRIPT}</script></body></html>\n'
            ),
        )
    )


def _describe_coverage(content: HtmlPage) -> str:
    """Return a sentence on how much of the table is in the page."""
    inside = len(content.snapshots)
    if not content.snapshot_count:
        return "The table has no snapshot: nothing was written yet."
    if inside == content.snapshot_count:
        return f"{plural(inside, 'snapshot')}, all in this page."
    subject = "Only the newest snapshot" if inside == 1 else f"Only the newest {format_count(inside)} snapshots"
    return (
        f"{subject} of {format_count(content.snapshot_count)} can be opened in this page: more would make it too large."
    )


def _escape_html(text: str) -> str:
    return cards.escape(escape_controls(text))


def _script_json(value: object) -> str:
    """Return JSON that may stand inside a script element."""
    text = json.dumps(value, ensure_ascii=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text.encode("utf-8", "backslashreplace").decode()


def _content_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_PAGE_STYLE = """
:root{color-scheme:light dark}
body{margin:0;font:14px system-ui,sans-serif;background:Canvas;color:CanvasText}
main{max-width:1100px;margin:0 auto;padding:16px}
h2{font-size:16px;margin:20px 0 6px}
pre{font:13px ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;margin:4px 0}
table{border-collapse:collapse}
caption{text-align:left;font-size:18px;padding-bottom:6px}
th,td{text-align:left;padding:2px 14px 2px 0;vertical-align:top;font-weight:normal}
th{opacity:.8;white-space:nowrap}
svg{display:block;max-width:100%;height:auto;overflow:visible}
summary{cursor:pointer;margin:10px 0 4px}
#told{position:sticky;top:0;background:Canvas;border-block:1px solid GrayText;padding:6px 0;z-index:1}
#told p{margin:0;overflow-wrap:anywhere}
[data-key]{cursor:pointer}
[data-key]:hover{filter:brightness(1.15)}
[data-key]:focus-visible{outline:2px dashed CanvasText;outline-offset:2px}
[aria-pressed=true]{stroke:CanvasText;stroke-width:2.5;paint-order:stroke}
"""

_PAGE_SCRIPT = """
"use strict";
(() => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const said = document.getElementById("said"), code = document.getElementById("code");
  const sections = [...document.querySelectorAll("section[data-snapshot]")];
  const marks = [...document.querySelectorAll("#timeline [data-key]")];
  const tell = (words, line) => { said.textContent = words; code.textContent = line; };
  const press = (all, chosen) => all.forEach(one => one.setAttribute("aria-pressed", String(one === chosen)));
  const python = text => JSON.stringify(text);

  function snapshot(id, loud) {
    const mark = marks.find(one => one.dataset.key === id);
    const section = sections.find(one => one.dataset.snapshot === id);
    press(marks, mark);
    if (!section) {
      const held = "which holds the newest " + sections.length + ".";
      tell("Snapshot " + id + " is not in this page, " + held, facts.opening + ".browse()");
      return;
    }
    sections.forEach(one => { one.hidden = one !== section; });
    if (loud) tell(mark ? mark.getAttribute("aria-label") : "Snapshot " + id, section.querySelector("pre").textContent);
  }

  function choose(box) {
    if (marks.includes(box)) { snapshot(box.dataset.key, true); return; }
    const section = box.closest("section"), at = section.dataset.at;
    press([...section.querySelectorAll("[data-key]")], box);
    const key = box.dataset.key, kind = key.slice(0, key.indexOf("/")), file = key.slice(kind.length + 1);
    const label = box.getAttribute("aria-label");
    const words = kind === "files" ? label : facts.details["file/" + file] || label;
    const frames = { manifest: "manifests", index: "indexes", file: "files" };
    const frame = frames[kind];
    const filter = ".filter(pl.col(\\"file_name\\") == " + python(file) + ")";
    tell(words, frame ? facts.opening + "." + frame + "(at=" + at + ")" + filter : "");
  }

  document.addEventListener("click", event => {
    const box = event.target.closest("[data-key]");
    if (box) choose(box);
  });
  document.addEventListener("keydown", event => {
    const box = event.target.closest("[data-key]");
    if (!box) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(box); }
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) {
      const all = marks.includes(box) ? marks : [...box.closest("svg").querySelectorAll("[data-key]")];
      const next = all[all.indexOf(box) + step];
      if (next) { event.preventDefault(); next.focus(); if (marks.includes(next)) choose(next); }
    }
  });
  if (sections.length) snapshot(sections[0].dataset.snapshot, false);
})();
"""
