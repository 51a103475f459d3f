"""Names of columns are data: a table with drawn names answers, in every role, kind and verb, what the same table with harmless names answers."""

from __future__ import annotations

import pytest

from spec_tests.laws import renamed
from spec_tests.longer import some


@pytest.mark.parametrize("seed", some(range(60), 6))
def test_a_history_is_the_same_under_other_names(tmp_path, seed):
    """More of them: `python -m spec_tests.laws.renamed 1000 2000`."""
    assert renamed.run(seed, tmp_path, changes=True) is None
