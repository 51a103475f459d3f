"""No control character of a table reaches a terminal or a table of texts, and every row stays one row."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given, settings, strategies as st

import lakekit as lk
from lakekit.cli import main, output

HARMFUL = "\x1b]8;;http://harm.example\x1b\\link\x1b[31mred\r\u202eevil\u2066\x07\x85"
FORMATS = ("table", "tsv", "csv", "json")
VIEWS = ([], ["snapshots"], ["schemas"], ["options"], ["branches"], ["partitions"], ["tags"], ["files"], ["manifests"], ["levels"], ["buckets"])
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("\x1b\r\n\t\x00\x7f\x85\u2028\u202e\u2066\ufeff\"',\\"), max_size=12)


def is_harmless(said: str) -> bool:
    return all(letter.isprintable() or letter in "\n\t" for letter in said)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("t") / "t"
    columns = [lk.Field("k", "BIGINT NOT NULL", comment=HARMFUL), lk.Field("p", "STRING NOT NULL")]
    made = lk.create(path, columns, primary_keys=["k", "p"], partition_keys=["p"], options={"bucket": "1", "owner": HARMFUL}, comment=HARMFUL)
    with made.writer(commit_user=HARMFUL.replace("/", "")) as writer:
        writer.write([{"k": 1, "p": HARMFUL.replace("\x85", "")}])
        writer.commit(identifier=1)
    return path


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view[0] if view else "card")
def test_views_show_control_characters_and_send_none(table, capsys, view, name):
    code = main.main(["inspect", str(table), *view, "--format", name])
    said = capsys.readouterr()
    assert code in (0, 2)
    assert is_harmless(said.out.replace("\t", "")), name
    assert is_harmless(said.err)
    if name == "json" and code == 0:
        assert all(json.loads(line) for line in said.out.splitlines())


@given(TEXTS)
def test_json_says_every_text(text):
    said = output._to_json({"a": [text]})
    assert said.isprintable()
    assert json.loads(said) == {"a": [text]}


@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), min_size=1, max_size=4))
@settings(max_examples=200)
def test_rows_of_csv_and_tsv_stay_rows(rows):
    made = output._to_csv([["a", "b"], *rows])
    assert is_harmless(made)
    read = list(csv.reader(io.StringIO(made, newline=""), strict=True))
    assert len(read) == len(rows) + 1
    for got, given_ in zip(read[1:], rows, strict=True):
        for one, other in zip(got, given_, strict=True):
            assert one == other or not all(letter.isprintable() or letter in "\t\n" for letter in other)
    for row in rows:
        line = "\t".join(output._escape_tsv(cell) for cell in row)
        assert line.isprintable() or line.replace("\t", "").isprintable()
        assert line.count("\t") == 1
