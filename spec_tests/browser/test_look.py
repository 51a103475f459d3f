"""What measures looks sees what it should: pale words, words on boxes, words on words, other pictures."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from spec_tests.browser import look

PAGE = """<body style="background:#fff;font:12px monospace;color:#000"><p>black</p><p style="color:#777">grey</p><p style="opacity:.4">faint</p>
<div style="background:#222"><b style="color:#555">dark on dark</b><b style="color:#eee">light on dark</b></div>
<p style="visibility:hidden;color:#eee">hidden</p><style>p{margin:0}</style>
<div style="position:relative;height:60px"><button style="position:absolute;left:0;top:0;width:99px;height:20px;background:#d95f02;font-size:0">box</button>
<i style="position:absolute;left:5px;top:2px">on a box</i>
<i style="position:absolute;left:5px;top:40px">one</i><i style="position:absolute;left:9px;top:43px">two</i></div></body>"""


@pytest.fixture(scope="module")
def page(chrome):
    found = chrome.new_page()
    found.set_content(PAGE)
    yield found.locator("body")
    found.close()


def test_pale_words_are_found(page):
    assert dict(look.pale(page)) == {"grey": 4.48, "faint": 2.85, "dark on dark": 2.13}


def test_contrast_is_what_the_standard_says(page):
    assert next(word["ratio"] for word in look.words(page) if word["text"] == "black") == pytest.approx(21)


def test_words_on_boxes_and_on_words_are_found(page):
    assert look.covered(page) == ["on a box"]
    assert look.crossed(page) == [("one", "two")]


def test_the_font_is_the_one_of_all_screenshots(page):
    wide = page.evaluate("""body => { const pen = document.createElement('canvas').getContext('2d');
        return ['ui-monospace, monospace', 'DejaVu Sans Mono'].map(font => (pen.font = '100px ' + font, pen.measureText('iiiMMM').width)) }""")
    assert wide == [pytest.approx(361.2, abs=0.5)] * 2


def test_other_pictures_are_other():
    def picture(color, size=(40, 50), dots=0):
        image, out = Image.new("RGB", size, color), io.BytesIO()
        for at in range(dots):
            image.putpixel((at, at), (0, 0, 0))
        image.save(out, "PNG")
        return out.getvalue()

    assert look.difference(picture("white"), picture("white")) == 0
    assert look.difference(picture("#ffffff"), picture("#f0f0f0")) == 0
    assert look.difference(picture("white"), picture("white", dots=20)) == 0.01
    assert look.difference(picture("white"), picture("white", size=(41, 50))) == 1
    assert look.difference(look.smaller(picture("#d95f02")), picture("#d95f02")) == 0
