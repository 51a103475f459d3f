"""Values of options that the reference engine takes at create and fails by afterwards are refused at create and at alter.

`differential/test_option_values.py` asks the engine about the same values.
"""

from __future__ import annotations

import json

import pytest

import lakekit as lk
from lakekit.errors import InvalidOption, Unsupported
from spec_tests.golden.option_values import COLUMNS, FAILING, USABLE, keys_of


@pytest.mark.parametrize(("key", "value"), FAILING)
def test_what_no_engine_writes_or_reads_with_is_refused(tmp_path, key, value):
    with pytest.raises((InvalidOption, Unsupported)) as refused:
        lk.create(tmp_path / "t", COLUMNS, **keys_of({key: value}))
    assert key in str(refused.value) or "compressed" in str(refused.value)
    assert not (tmp_path / "t").exists()
    table = lk.create(tmp_path / "t", COLUMNS, **keys_of({}))
    with pytest.raises((InvalidOption, Unsupported)):
        table.alter(lk.set_option(key, value))
    assert table.options.get(key) != value


@pytest.mark.parametrize(("key", "value"), USABLE)
def test_what_engines_write_and_read_with_is_taken(tmp_path, key, value):
    table = lk.create(tmp_path / "t", COLUMNS, **keys_of({key: value}))
    table.upsert([{"k": 1, "v": 1, "s": "a", "p": "x"}])
    table.compact(full=True)
    assert table.scan().collect().height == 1


@pytest.mark.parametrize(("key", "value"), [case for case in FAILING if case[0] != "bucket-key"])
def test_a_table_of_another_engine_that_says_so_is_opened_and_altered(tmp_path, key, value):
    """What is wrong already is left as it is; the option can be changed."""
    lk.create(tmp_path / "t", COLUMNS, **keys_of({}))
    schema = tmp_path / "t" / "schema" / "schema-0"
    facts = json.loads(schema.read_text(encoding="utf-8"))
    schema.write_text(json.dumps({**facts, "options": {**facts["options"], key: value}}), encoding="utf-8")
    table = lk.open(tmp_path / "t")
    table.alter(lk.set_comment("seen"), lk.set_option("target-file-size", "1 mb"))
    table.alter(lk.reset_option(key))
    table.upsert([{"k": 1, "v": 1, "s": "a", "p": "x"}])
    assert table.scan().collect().height == 1
