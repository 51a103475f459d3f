"""Indexes that lakekit gave to files that were there, used and written on by the reference."""

from __future__ import annotations

import pytest

import lakekit as lk
from spec_tests.doors.test_rewrite_file_index import BITMAP, BLOOM, BSI, filled, kinds, rows

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("keyed", [True, False])
def test_the_reference_prunes_by_them_and_goes_on(judge, tmp_path, keyed):
    path = tmp_path / "t"
    table = filled(path, keyed=keyed, **{"metadata.stats-mode": "none"})

    def found() -> list[int]:
        return [values[1] for _, _, values in judge.placed(path, where=("a", "2.3"))]

    for options in ({BITMAP: "a"}, {BITMAP: "a,m[x]", BSI: "b", BLOOM: "a"}, {BITMAP: "a"}, {}):
        known = [key for key in (BITMAP, BSI, BLOOM) if key in table.options]
        table.alter(*(lk.reset_option(key) for key in known), *(lk.set_option(key, value) for key, value in options.items()))
        table.rewrite_file_index()
        assert found() == [23]
        assert len(judge.read(path).rows) == 40
    if keyed:
        judge.compact(path, full=True, options={"write-only": "false"})
        assert len({one.name for one in judge.files(path)}) == 2
    judge.write(path, [("+I", (0, 99, "2.3", 1, None))])
    assert sorted(found()) == [23, 99]
    assert len(rows(table)) == 41
    table.alter(lk.set_option(BLOOM, "a"))
    table.rewrite_file_index()
    assert {kind for _, kind, _ in kinds(table)} == {"bloom-filter"}
    assert sorted(found()) == [23, 99]
