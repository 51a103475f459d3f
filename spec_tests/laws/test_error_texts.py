"""Messages of errors: whatever a file or a library put into one, a terminal shows it and obeys nothing."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, strategies as st

from lakekit.errors import Corrupt, LakekitError, StorageFailed, Unsupported

OBEYED = {chr(code) for code in (*range(32), *range(0x7F, 0xA0), 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))} - {"\n", "\t"}


@given(st.text(st.one_of(st.characters(), st.sampled_from(sorted(OBEYED))), max_size=40), st.sampled_from([LakekitError, Corrupt, StorageFailed, Unsupported]))
def test_no_message_holds_what_a_terminal_obeys(text, kind):
    error = kind(text)
    for shown in (str(error), error.message, str(pickle.loads(pickle.dumps(error)))):
        assert not OBEYED & set(shown)
        shown.encode()
    assert str(kind(str(error))) == str(error)


def test_a_message_keeps_its_lines_and_letters():
    text = "größe: 2\u00a0399 bytes\n\tsecond line"
    assert str(LakekitError(text)) == text


@pytest.mark.parametrize(("text", "shown"), [("\x1b[31m", "\\x1b[31m"), ("\x0f\n", "\\x0f\n"), ("a\u202eb", "a\\u202eb"), ("\ud800", "\\ud800")])
def test_codes(text, shown):
    error = Corrupt(text).at("a.parquet")
    assert str(error) == f"a.parquet: {shown}"
