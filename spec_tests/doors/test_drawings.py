"""A drawing as PNG and as SVG, on a stage, and in what a widget leaves in a notebook."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import nbconvert
import nbformat
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image, ImageFont

from lakekit.draw import shapes
from lakekit.draw.png import to_png
from lakekit.draw.shapes import Drawing, Marker, Rect, Stroke, TextShape, stack_vertically, to_svg
from lakekit.notebook.panels import WIDGET_VIEW_MIME, Canvas, CanvasBox, PictureWidget

texts = st.text(max_size=12)
places = st.floats(-50, 900)
lengths = st.floats(0, 900)
colors = st.sampled_from([*shapes.LEVEL_COLORS, *shapes.COLOR_OF_NAME])
rects = st.builds(
    Rect,
    x=places,
    y=places,
    width=lengths,
    height=lengths,
    color=colors,
    is_outline=st.booleans(),
    is_faint=st.booleans(),
    corner_radius=st.floats(0, 9),
    hint=texts,
    key=texts,
)
words = st.builds(TextShape, x=places, y=places, text=texts, color=colors, anchor=st.sampled_from(("start", "middle", "end")), is_bold=st.booleans())
strokes = st.builds(Stroke, x=places, y=places, to_x=places, to_y=places, color=colors)
signs = st.builds(
    Marker, x=places, y=places, size=st.floats(1, 40), color=colors, symbol=st.sampled_from(("circle", "square", "diamond", "triangle")), hint=texts, key=texts
)
drawings = st.builds(
    Drawing, width=st.floats(1, 300), height=st.floats(1, 200), shapes=st.lists(rects | words | strokes | signs, max_size=6).map(tuple), description=texts
)


def luminance(said):
    parts = [int(said[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("ground", ["#ffffff", "#111111"])
def test_boxes_are_seen_on_light_and_on_dark_ground(ground):
    marks = {name: said for name, said in shapes.COLOR_OF_NAME.items() if name not in ("text", "muted")}
    assert {said for said in (*shapes.LEVEL_COLORS, *marks.values()) if contrast(said, ground) < 3} == set()


def test_words_are_read_on_the_ground_of_a_png_and_follow_the_theme_of_a_page():
    for name in ("text", "muted"):
        assert contrast(shapes.hex_color(name), shapes.BACKGROUND) >= 4.5
        assert shapes.css_color(name).startswith("var(--jp-ui-font-color1,")
    assert shapes.css_color("#123456") == shapes.hex_color("#123456") == "#123456"
    assert shapes.level_color(-1) == shapes.LEVEL_COLORS[0]
    assert shapes.level_color(99) == shapes.LEVEL_COLORS[-1]


@settings(max_examples=40)
@given(drawings)
def test_any_drawing_is_a_png_of_twice_its_size(drawing):
    found = Image.open(io.BytesIO(to_png(drawing)))
    assert found.size == (max(1, round(drawing.width * 2)), max(1, round(drawing.height * 2)))


@given(drawings)
def test_any_drawing_is_one_svg_whose_boxes_can_be_chosen(drawing):
    root = ET.fromstring(to_svg(drawing))
    found = [element for element in root.iter() if element.get("data-key") is not None]
    keyed = [shape for shape in drawing.shapes if isinstance(shape, (Rect, Marker)) and shape.key]
    assert len(found) == len(keyed)
    assert all(element.get("tabindex") == "0" and element.get("role") == "button" and element.get("aria-label") for element in found)
    assert root.get("role") == ("group" if keyed else "img")
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {"svg", "rect", "line", "polygon", "circle", "text", "title"}


def test_a_png_has_the_colours_of_its_shapes():
    drawing = Drawing(
        width=40,
        height=20,
        description="two boxes and a sign",
        shapes=(
            Rect(x=0, y=0, width=10, height=20, color="#1b9e77"),
            Rect(x=10, y=0, width=10, height=20, color="#1b9e77", is_faint=True),
            Rect(x=20, y=0, width=10, height=20, color="added", is_outline=True),
            Marker(x=35, y=10, size=10, color="APPEND", symbol="diamond"),
        ),
    )
    found = Image.open(io.BytesIO(to_png(drawing))).convert("RGB")
    assert found.getpixel((8, 20)) == (0x1B, 0x9E, 0x77)
    assert found.getpixel((30, 20)) == (0xAF, 0xDD, 0xCF)
    assert found.getpixel((50, 20)) == (255, 255, 255)
    assert found.getpixel((40, 20)) == (0x2E, 0x8B, 0x57)
    assert found.getpixel((70, 20)) == (0x3B, 0x82, 0xC4)
    assert found.getpixel((61, 1)) == (255, 255, 255)


def test_words_on_one_line_whatever_they_hold():
    said = TextShape(x=0, y=10, text="two\nlines\x00\u202e\ud800", is_bold=True)
    drawing = Drawing(width=200, height=20, shapes=(said,), description="\x1b")
    assert to_png(drawing) != to_png(Drawing(width=200, height=20, shapes=(), description=""))
    assert ET.fromstring(to_svg(drawing))[0].text == "two\\x0alines\\x00\\u202e\\ud800"


@pytest.mark.parametrize(("one", "other"), [("Größe", "Gräße"), ("订单", "日本"), ("orders 订单", "orders 日本"), ("a😀", "a😁")])
def test_letters_of_any_tongue_are_told_apart_in_a_png(one, other):
    """Pillow's own font draws the same box for each letter that is not English: its é and its ö look alike."""
    first, second = (to_png(Drawing(width=300, height=20, shapes=(TextShape(x=0, y=10, text=text),), description="")) for text in (one, other))
    assert first != second


def test_a_word_of_english_letters_has_the_same_font_on_every_machine(monkeypatch):
    drawing = Drawing(width=300, height=20, shapes=(TextShape(x=0, y=10, text="orders · 3 files …"),), description="")
    asked = []
    monkeypatch.setattr(ImageFont, "truetype", lambda name, *_: asked.append(name))
    assert to_png(drawing)
    assert asked == []


def test_one_drawing_above_another():
    first = Drawing(width=10, height=20, shapes=(TextShape(x=0, y=5, text="a"),), description="One.")
    second = Drawing(width=30, height=5, shapes=(Stroke(x=0, y=1, to_x=3, to_y=2), Rect(x=0, y=1, width=1, height=1, color="axis")), description="Two.")
    both = stack_vertically(first, second, gap=4)
    assert (both.width, both.height, both.description) == (30, 29, "One. Two.")
    assert [shape.y for shape in both.shapes] == [5, 25, 25]
    assert both.shapes[1].to_y == 26


# ---- the stage ------------------------------------------------------------------------------------------------------------------------------


def spots(*keys, **more):
    return [
        CanvasBox(key=key, name=f"file {key}", hint=f"hint of {key}", left=at / len(keys), width=1 / len(keys), top=0, height=20, color="#1b9e77", **more)
        for at, key in enumerate(keys)
    ]


def test_what_was_chosen_stays_while_it_is_there():
    stage = Canvas()
    seen = []
    stage.observe(lambda change: seen.append(change["new"]), "selected_key")
    stage.show(spots("a", "b", "c"), height=20)
    assert stage.selected_key == ""
    stage.selected_key = "b"
    stage.show(spots("b", "c"), height=20)
    stage.show(spots("b", "c"), height=30)
    assert stage.selected_key == "b"
    stage.show(spots("c"), height=20)
    assert stage.selected_key == ""
    stage.selected_key = "nothing of that name"
    stage.show(spots("c", "d"), height=20)
    assert seen == ["b", "", "nothing of that name", ""]


def test_a_click_is_the_value_of_the_buttons():
    stage = Canvas()
    stage.show(spots("a", "b"), height=20)
    stage._buttons.value = "b"
    assert stage.selected_key == "b"
    stage.selected_key = ""
    assert stage._buttons.value is None


@pytest.mark.parametrize("look", ["", "added", "removed", "lit", "dim"])
@pytest.mark.parametrize("sign", ["", "circle", "square", "diamond", "triangle"])
def test_every_look_is_a_rule_of_the_button(look, sign):
    stage = Canvas()
    stage.show(spots("a", "b", state=look, sign=sign), height=20)
    assert [f"button:nth-of-type({number}){{left:" in stage._background.value for number in (1, 2, 3)] == [True, True, False]


def test_words_and_lines_stand_behind_the_boxes():
    stage = Canvas()
    behind = [
        TextShape(x=0.5, y=7, text="L0", is_bold=True),
        Rect(x=0, y=0, width=1, height=2, color="axis"),
        Stroke(x=0, y=0, to_x=1, to_y=0),
        Marker(x=0, y=0, size=9, color="axis"),
    ]
    stage.show(spots("a"), height=20, behind=behind)
    assert stage._background.value.count("<i style='") == len(behind)
    assert "L0</i>" in stage._background.value


# ---- what stays in a notebook ---------------------------------------------------------------------------------------------------------------


class Shown(PictureWidget):
    def drawing(self):
        return Drawing(width=40, height=20, shapes=(Rect(x=0, y=0, width=10, height=20, color="#1b9e77"),), description='A "box" <b>.')

    def as_html(self):
        return "<table><tbody><tr><td>1</td></tr></tbody></table>"

    def as_text(self):
        return "█"


class Images(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_a_widget_leaves_its_view_its_picture_and_a_table():
    shown = Shown()
    bundle = shown._repr_mimebundle_(include=None, exclude=None)
    assert bundle[WIDGET_VIEW_MIME]["model_id"] == shown.model_id
    assert set(bundle) == {WIDGET_VIEW_MIME, "image/png", "text/html", "text/plain"}
    assert base64.b64decode(bundle["image/png"]) == shown.picture()
    assert bundle["text/plain"] == "█"


def test_the_html_begins_with_the_picture():
    """Where nobody runs a notebook its HTML is shown, and not its PNG."""
    bundle = Shown()._repr_mimebundle_()
    read = Images()
    read.feed(bundle["text/html"])
    tag, attributes = read.found[0]
    assert tag == "img"
    assert attributes == {"alt": 'A "box" <b>.', "width": "40", "src": f"data:image/png;base64,{bundle['image/png']}"}
    assert read.found[1][0] == "table"
    assert Shown()._mime_() == ("text/html", bundle["text/html"])


@pytest.mark.long
def test_an_exported_notebook_has_the_picture():
    output = nbformat.v4.new_output("display_data", data=Shown()._repr_mimebundle_())
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("shown", outputs=[output])])
    page, _ = nbconvert.HTMLExporter(template_name="basic").from_notebook_node(notebook)
    assert len(re.findall(r'<img[^>]* src="data:image/png;base64,', page)) == 1
    assert "<td>1</td>" in page
