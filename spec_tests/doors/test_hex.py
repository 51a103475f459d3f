"""The hex view as people meet it: in characters, as a page, as a widget, in the shell."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import lakekit as lk
from lakekit import plugins
from lakekit.cli.main import EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, main
from lakekit.codec.cursor import FieldSpan
from lakekit.draw import hexdump as draw
from lakekit.errors import LimitExceeded, StorageFailed, Unsupported
from lakekit.notebook.hexdump import PAGE_BYTES, Bytes
from lakekit.notebook.panels import WIDGET_VIEW_MIME

HOSTILE = "<img src=x onerror='harm()'>\"\x1b[31m\n"


@pytest.fixture
def manifest(fixtures_path):
    folder = fixtures_path / "flights" / "table" / "manifest"
    return lk.hex(min(path for path in folder.iterdir() if path.name.startswith("manifest-") and "list" not in path.name))


@pytest.fixture
def vectors(fixtures_path):
    return lk.hex(fixtures_path / "formats/deletion_vectors/mixed.bin")


# ---- characters and pages -------------------------------------------------------------------------------------------------------------------------


def test_characters_show_sixteen_bytes_a_line(vectors):
    lines = repr(vectors).splitlines()
    assert lines[0] == "mixed.bin · deletion_vectors · 95 bytes · 28 fields"
    assert lines[1].startswith("00000000  01 00 00 00 16 5e 43 f2 d0 3a 30 00 00 01 00 00  version 1 · vector 0.length 22 · .magic 5e43f2d0")
    assert [int(line[:8], 16) for line in lines[1:]] == list(range(0, 95, 16))


def test_long_fields_are_folded_and_long_files_end_in_words(manifest):
    text = repr(manifest)
    assert "more bytes of avro.schema" in text
    long = lk.hex(bytes(4 * 3000), format="hash_index")
    lines = repr(long).splitlines()
    assert (len(lines), lines[-1]) == (draw.DEFAULT_LINES + 2, f"… {12_000 - 16 * draw.DEFAULT_LINES:,} more bytes".replace(",", " "))
    assert f"… {12_000 - 16 * 24:,} more bytes".replace(",", " ") in long._repr_html_()


def test_names_and_values_of_files_do_no_harm():
    marks = [FieldSpan(0, 4, HOSTILE, HOSTILE), FieldSpan(4, 60, "b", HOSTILE.encode())]
    page = draw.hexdump_html(HOSTILE, bytes(64), marks, error_text=HOSTILE)
    assert "<img" not in page
    assert "onerror='" not in page
    assert "\x1b" not in page
    text = draw.hexdump_text(HOSTILE.strip(), bytes(64), marks, error_text=HOSTILE)
    assert "\x1b" not in text
    shown = lk.hex(json.dumps({"nextSnapshot": 5, "<b onclick=harm()>": "<script>harm()</script>"}).encode(), format="consumer")
    assert "<script" not in shown._repr_html_()
    assert "<b onclick" not in shown._repr_html_()
    assert all("<script" not in piece.value and "<b onclick" not in piece.value for piece in pieces(Bytes(shown)))


def pieces(widget):
    found, stack = [], [widget]
    while stack:
        one = stack.pop()
        stack += getattr(one, "children", ())
        if type(one).__name__ == "HTML":
            found.append(one)
    return found


def test_one_kind_of_field_has_one_colour():
    assert draw.field_color("[0]._FILE._FILE_NAME") == draw.field_color("[12]._FILE._FILE_NAME length")
    assert draw.field_color("[0].padding") == draw.field_color("name of x.y") == draw.QUIET_COLOR
    assert len({draw.field_color(f"field{letter}") for letter in "abcdefghijkl"}) > 4


def test_what_is_damaged_is_told(fixtures_path):
    shown = lk.hex(fixtures_path / "broken/deletion_vectors/crc_32.bin")
    assert repr(shown).splitlines()[-1].startswith("! Corrupt at byte ")
    assert "Corrupt at byte" in shown._repr_html_()


def test_without_ipywidgets_a_page_remains(vectors, monkeypatch):
    def refused(folder, name):
        raise Unsupported(f"{name!r} of {folder} needs ipywidgets", feature="notebook.bytes")

    monkeypatch.setattr(plugins, "load", refused)
    bundle = vectors._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}


@pytest.mark.long
def test_looking_at_bytes_loads_no_guest(fixtures_path):
    path = fixtures_path / "formats/deletion_vectors/mixed.bin"
    code = f"import sys, lakekit as lk; h = lk.hex({str(path)!r}); repr(h); h._repr_html_(); h.marks; print({{'ipywidgets', 'PIL'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "set()"


# ---- the widget -----------------------------------------------------------------------------------------------------------------------------------


def test_it_shows_itself_as_a_widget_with_a_picture(manifest):
    bundle = manifest._repr_mimebundle_()
    assert set(bundle) == {WIDGET_VIEW_MIME, "image/png", "text/html", "text/plain"}
    assert len(str(bundle)) < 150_000


def test_a_click_on_a_byte_tells_its_field(vectors):
    widget = Bytes(vectors)
    widget._cells.selected_key = "7"
    assert (widget.offset, widget.selected, widget.code) == (7, "vector 0.magic", f"lk.hex({vectors.path!r}).at(7)")
    assert eval(widget.code, {"lk": lk}) == widget.mark
    assert "5e43f2d0" in widget._detail.value
    assert "FORMAT 8.1" in widget._detail.value
    assert widget._list.value == 5
    widget._list.value = 1
    assert (widget.selected, widget._cells.selected_key) == ("vector 0.length", "1")
    widget.offset = 0
    assert widget.selected == "version"


@pytest.mark.long
def test_fields_and_pages_are_stepped_through(manifest):
    widget = Bytes(manifest)
    seen = []
    for _ in range(len(manifest.spans) + 2):
        widget._next_field.click()
        seen.append(widget.offset)
        assert widget.page <= widget.offset < widget.page + PAGE_BYTES
    assert seen[: len(manifest.spans)] == [mark.offset for mark in manifest.spans]
    assert seen[-1] == manifest.spans[-1].offset
    widget._previous_field.click()
    assert widget.offset == manifest.spans[-2].offset
    widget.page = 0
    while not widget._next_page.disabled:
        before = widget.page
        widget._next_page.click()
        assert widget.page == before + PAGE_BYTES
    assert widget.page + PAGE_BYTES >= len(manifest.data)
    widget._previous_page.click()
    assert not widget._next_page.disabled
    assert len(widget._cells._buttons.options) == PAGE_BYTES


def test_a_compressed_block_opens_and_closes(manifest):
    widget = Bytes(manifest)
    [block] = manifest.opens
    assert widget._open.disabled
    widget.page, widget.offset = block // PAGE_BYTES * PAGE_BYTES, block
    assert not widget._open.disabled
    widget._open.click()
    assert widget.view == manifest.open(block)
    widget._cells.selected_key = "0"
    assert widget.selected == "[0]._VERSION"
    assert eval(widget.code, {"lk": lk}).value == 2
    assert widget._open.disabled
    widget._close.click()
    assert (widget.view, widget.selected) == (manifest, "block")
    assert widget._close.disabled


def test_every_byte_is_a_button_with_a_hint(vectors):
    widget = Bytes(vectors)
    assert [name for name, _ in widget._cells._buttons.options] == [f"{byte:02x}" for byte in vectors.data]
    assert widget._cells._buttons.tooltips[5] == "byte 5: vector 0.magic 5e43f2d0"
    assert Bytes(lk.hex(b"", format="hash_index")).selected == ""


def test_bytes_without_a_file_say_so():
    widget = Bytes(lk.hex(b"31"))
    widget.offset = 1
    assert widget.code == "lk.hex(data).at(1)"


def test_what_is_no_file_is_told(tmp_path):
    with pytest.raises(StorageFailed, match="is a folder"):
        lk.hex(tmp_path)
    for wrong in (5, None):
        with pytest.raises(TypeError, match=f"a text or a pathlib.Path, found {type(wrong).__name__}"):
            lk.hex(wrong)
        with pytest.raises(TypeError, match=f"a text or a pathlib.Path, found {type(wrong).__name__}"):
            lk.open(wrong)


def test_a_file_too_large_is_told_and_not_read(tmp_path):
    with (tmp_path / "manifest-1").open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(LimitExceeded, match="takes a part of them"):
        lk.hex(tmp_path / "manifest-1")


# ---- the shell ------------------------------------------------------------------------------------------------------------------------------------


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_pipe_gets_a_row_a_field(capsys, manifest):
    code, out, err = run(capsys, "hex", manifest.path)
    lines = out.splitlines()
    assert (code, err) == (EXIT_OK, "")
    assert lines[0].split("\t") == ["offset", "length", "field", "value", "section"]
    assert len(lines) == 1 + len(manifest.spans)
    code, out, _ = run(capsys, "hex", manifest.path, "--offset", "4", "--limit", "2", "--format", "json")
    assert [json.loads(line)["field"] for line in out.splitlines()] == ["metadata count", "metadata key length"]


def test_a_person_gets_lines(capsys, manifest):
    code, out, _ = run(capsys, "hex", manifest.path, "--format", "table", "--offset", "0x20", "--limit", "3")
    lines = out.splitlines()
    assert code == EXIT_OK
    assert [line[:8] for line in lines[1:4]] == ["00000020", "00000030", "00000760"]
    assert all(len(line) <= 100 for line in lines)
    code, out, _ = run(capsys, "hex", manifest.path, "--open", manifest.opens[0], "--format", "table")
    assert "[0]._VERSION 2" in out


def test_a_damaged_file_is_shown_and_told(capsys, fixtures_path):
    code, out, err = run(capsys, "hex", fixtures_path / "broken/deletion_vectors/crc_32.bin")
    assert code == EXIT_PROBLEM
    assert out.splitlines()[1].split("\t")[2] == "version"
    assert "\terror\t" in out
    assert err.startswith("lakekit: ")


def test_what_the_bytes_do_not_tell_is_asked_for(capsys, fixtures_path):
    row = fixtures_path / "broken/binary_row/text_not_utf8.bin"
    code, _, err = run(capsys, "hex", row)
    assert code == EXIT_USAGE
    assert "format=" in err
    code, out, _ = run(capsys, "hex", fixtures_path / "formats/hash_index/extremes.bin", "--as", "hash_index")
    assert (code, len(out.splitlines())) == (EXIT_OK, 6)
    assert run(capsys, "hex", "no/such/file")[0] == EXIT_PROBLEM
