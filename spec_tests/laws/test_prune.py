"""Values that only just fit their type still prune."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa

from lakekit.predicate import Leaf
from lakekit.read import pruning
from lakekit.types import parse

LARGE = Decimal("9" * 36 + ".99")


def test_decimals_of_38_digits_prune():
    decimals = pa.decimal128(38, 2)
    low, high = pa.array([Decimal("0.00"), LARGE], decimals), pa.array([Decimal("1.00"), LARGE], decimals)
    bounds = pruning.PruningStatistics(type=parse("DECIMAL(38, 2)"), low=low, high=high, nulls=np.zeros(2, np.int64), rows=np.ones(2, np.int64))
    assert pruning.may_match(Leaf("d", "=", (LARGE,)), lambda _: bounds, 2).tolist() == [False, True]
