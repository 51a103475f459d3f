"""How a page looks, measured: contrast of its words, what lies on what, and how far a screenshot is from the one that is committed."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Locator

IMAGES = Path(__file__).parents[2] / "notebooks" / "images"
RENEW = os.environ.get("LAKEKIT_RENEW_IMAGES", "") not in ("", "0")
"""Set by `python -m spec_tests.browser.renew`: screenshots are written instead of compared."""
SMALLEST_CONTRAST = 4.5
LARGEST_BYTES = 60_000
_SAME, _SHARE = 40, 0.005
"""Pixels whose channels differ by less are the same; so many of the others may differ: edges of letters do, from one Chromium to the next."""

_WORDS = """root => {
  const canvas = Object.assign(document.createElement('canvas'), {width: 1, height: 1}).getContext('2d', {willReadFrequently: true});
  const parts = color => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((part, at) => part * a + below[at] * (1 - a));
  const ground = element => {
    if (!element) return [255, 255, 255];
    const style = getComputedStyle(element), below = ground(element.parentElement), [r, g, b, a] = parts(style.backgroundColor);
    return over([r, g, b, a * style.opacity], below);
  };
  const light = color => {
    const [r, g, b] = color.map(part => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [], walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const parent = node.parentElement, style = getComputedStyle(parent), range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (!node.data.trim() || parent.closest('style, script, title, option, :disabled')) continue;
    if (box.width * box.height < 1 || style.visibility !== 'visible' || parseFloat(style.fontSize) === 0) continue;
    let alpha = 1;
    for (let at = parent; at; at = at.parentElement) alpha *= getComputedStyle(at).opacity;
    const below = ground(parent), [r, g, b, a] = parts(style.color), [one, two] = [light(over([r, g, b, a * alpha], below)), light(below)];
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    found.push({text: node.data.trim(), ratio, box: [box.left, box.top, box.right, box.bottom]});
  }
  return found;
}"""
_BOXES = """root => [...root.querySelectorAll('button')].filter(box => !box.textContent.trim() || parseFloat(getComputedStyle(box).fontSize) === 0)
  .filter(box => { const color = getComputedStyle(box).backgroundColor; return color !== 'transparent' && !color.endsWith(', 0)'); })
  .map(box => { const {left, top, right, bottom} = box.getBoundingClientRect(); return [left, top, right, bottom]; })"""


def words(shown: Locator) -> list[dict[str, Any]]:
    """Every visible piece of text: what it says, its contrast to the ground it stands on, its place. What is disabled may be pale and is left out."""
    found: list[dict[str, Any]] = shown.evaluate(_WORDS)
    return found


def pale(shown: Locator) -> list[tuple[str, float]]:
    """Text that is hard to read, with its contrast."""
    return [(word["text"], round(word["ratio"], 2)) for word in words(shown) if word["ratio"] < SMALLEST_CONTRAST]


def covered(shown: Locator) -> list[str]:
    """Text that stands on a coloured box."""
    boxes = shown.evaluate(_BOXES)
    return [word["text"] for word in words(shown) if any(_meet(word["box"], box) for box in boxes)]


def crossed(shown: Locator) -> list[tuple[str, str]]:
    """Texts that stand on one another."""
    found = words(shown)
    return [(one["text"], two["text"]) for at, one in enumerate(found) for two in found[at + 1 :] if _meet(one["box"], two["box"])]


def outside(shown: Locator) -> list[str]:
    """Text that does not end where what is shown ends."""
    place = shown.bounding_box()
    assert place is not None
    left, right = place["x"] - 1, place["x"] + place["width"] + 1
    return [word["text"] for word in words(shown) if word["box"][0] < left or word["box"][2] > right]


def _meet(one: list[float], two: list[float], slack: float = 1.5) -> bool:
    across = min(one[2], two[2]) - max(one[0], two[0])
    down = min(one[3], two[3]) - max(one[1], two[1])
    return across > slack and down > slack


_PLACES = """(root, [from, to]) => {
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) if (node.data.includes(from)) node.data = node.data.replaceAll(from, to);
}"""


def as_committed(shown: Locator, name: str, root: Path) -> None:
    """Fails where the element looks other than `notebooks/images/NAME.png`, and leaves what it looks like beside it as `NAME.seen.png`.

    The folder `root`, which is a new one each time, reads `lake` in the picture.
    """
    shown.evaluate(_PLACES, [str(root), "lake"])
    seen, path = shown.screenshot(animations="disabled", caret="hide"), IMAGES / f"{name}.png"
    IMAGES.mkdir(exist_ok=True)
    if RENEW:
        path.write_bytes(smaller(seen))
    share = difference(seen, path.read_bytes()) if path.exists() else 1.0
    if share > _SHARE:
        path.with_suffix(".seen.png").write_bytes(smaller(seen))
        raise AssertionError(f"{share:.2%} of {name} looks other than committed; look at {name}.seen.png, then: python -m spec_tests.browser.renew")
    assert path.stat().st_size < LARGEST_BYTES


def difference(one: bytes, two: bytes) -> float:
    """The share of pixels that differ; 1 where the sizes do."""
    first, second = (np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), np.int16) for data in (one, two))
    if first.shape != second.shape:
        return 1.0
    return float((np.abs(first - second).max(axis=2) >= _SAME).mean())


def smaller(data: bytes) -> bytes:
    """The picture with a palette of its own."""
    out = io.BytesIO()
    Image.open(io.BytesIO(data)).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()
