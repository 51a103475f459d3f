"""A table with a fallback branch, whose columns were called otherwise since: the engine and lakekit read the same rows, or both refuse."""

from __future__ import annotations

import pytest

import lakekit as lk
from lakekit.errors import SchemaMismatch
from lakekit.testing.expectations import describe_difference
from spec_tests.differential.judge import Refused
from spec_tests.laws.test_fallback_columns import APART, CASES, KINDS, apart, made

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("case", [case for case in CASES if case != "moved"])
def test_both_pair_the_same_columns(judge, tmp_path, case):
    for kind in KINDS if case in ("nothing", "renamed", "exchanged") else ("append",):
        _, table = made(tmp_path / kind, *CASES[case], kind)
        assert describe_difference(table.scan().collect(), judge.read(tmp_path / kind)) is None, kind


@pytest.mark.parametrize("case", APART)
def test_both_refuse(judge, tmp_path, case):
    apart(tmp_path / "t", case)
    with pytest.raises(Refused, match="does not have the same row type"):
        judge.read(tmp_path / "t")
    with pytest.raises(SchemaMismatch):
        lk.open(tmp_path / "t").scan().collect()
