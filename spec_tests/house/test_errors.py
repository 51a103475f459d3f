"""Every error class: one tree, one golden message each, a built-in that a caller would guess, and copies that keep their facts."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
from pathlib import Path

import pytest

from lakekit import errors
from spec_tests.house.readme import error_table
from spec_tests.house.source import ROOT

GOLDEN = Path(__file__).parent.parent / "golden" / "errors"
CLASSES = sorted(name for name, found in vars(errors).items() if inspect.isclass(found) and issubclass(found, errors.LakekitError))


@pytest.mark.parametrize("name", CLASSES)
def test_golden_message(name):
    golden = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    kind = getattr(errors, name)
    error = kind(golden["message"], **{key: tuple(value) if isinstance(value, list) else value for key, value in golden["fields"].items()})
    assert str(error) == golden["message"]
    assert [base.__name__ for base in kind.__mro__ if base.__module__ == "builtins"][:-3] == golden["builtins"]
    for same in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error), copy.copy(error)):
        assert type(same) is kind
        assert (same.args, vars(same)) == (error.args, vars(error))
    assert set(golden["fields"]) <= set(kind.names)


def test_no_golden_message_without_its_class():
    assert sorted(path.stem for path in GOLDEN.glob("*.json")) == CLASSES


def test_a_field_that_the_class_has_not_is_misuse():
    with pytest.raises(TypeError, match="Corrupt has no field"):
        errors.Corrupt("x", feature="y")


def test_corrupt_learns_its_file_once():
    error = errors.Corrupt("4 bytes wanted, 3 left", offset=12, field="head length")
    assert str(error.at("manifest-1")) == "manifest-1: 4 bytes wanted, 3 left"
    assert error.at("manifest-1").at("other").path == "manifest-1"


def test_readme_has_the_table_of_errors():
    assert error_table() in (ROOT / "README.md").read_text(encoding="utf-8")
