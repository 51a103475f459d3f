"""Partitions that expire, by chance: the reference drops those of one table, lakekit those of a copy, and both read the same at every snapshot.

Left out is what engine 1.4.2 cannot: it joins the values of a partition by commas and cuts them again, puts them into patterns as regular expressions do,
takes a text that reads as the name for null for null, reads no timestamps back from directories, and fails where none may go (at most 0).
"""

from __future__ import annotations

import random
import shutil
from typing import Any

import pytest

import lakekit as lk
from lakekit.errors import LakekitError
from spec_tests.differential.judge import Refused
from spec_tests.differential.players import rows_read

pytestmark = pytest.mark.reference
SEEDS = 60
TEXTS = (
    *("2023-12-30", "2024-01-01 10:00:00", "20240101", "20230506", "2024-01-01 10", "2999-01-01", "2024/01/01", "2023-12-30 10:07", "2024", "99999-01-01"),
    *("2023-12-30 24:00:00", "2023-12-30T10:00:00", "2023-1-1", "2023-12-30 10:00:00.5", "2023-12-30 10:00:00.123456789", "2023-02-30"),
    *("x", "", " ", "1", "00", "7", "07", "a\\b", "null", "a=b", "ü"),
)
VALUES: dict[str, tuple[Any, ...]] = {
    "STRING": TEXTS,
    "VARCHAR(40)": TEXTS,
    "CHAR(10)": ("2023-12-30", "2999-01-01", "x         "),
    "INT": (20240101, 19000101, 20231230, 29990101, 0, 7, -5, 2023, 12, 2999, 1),
    "BIGINT": (20240101, 0, 20231230, 2999, 10, 7),
    "SMALLINT": (2023, 1, 12, 7, 2999),
    "DATE": (18262, 19000, 40000, 0, -1),
    "BOOLEAN": (True, False),
    "DECIMAL(10, 2)": ("2023.01", "20240101.00"),
}
FORMATTERS = ("yyyyMMdd", "yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd[ HH[:mm]]", "yyyyMMdd HH", "yyyy/MM/dd", "yyyyMMddHH", "yyyy-M-d H", "uuuu-MM-dd")
PATTERNS = ("$a", "$a $b:00:00", "$a $b", "$a$b", "$b", "$a-$b-$c", "$a-$b-01", "$a-01-01", "$b-$a", "$x", "2023-01-01", "$a $b:$c", "")


def drawn(chance: random.Random) -> tuple[dict[str, str], dict[str, str], dict[str, str], list[list[tuple[str, tuple[Any, ...]]]]]:
    """Partition columns, the table's options, those of the expiry, and rows, a commit each."""
    names = chance.choice((("a",), ("a", "b"), ("a", "b"), ("a", "b", "c"), ("a", "ab")))
    columns = {name: chance.choice(("STRING", "INT", *VALUES)) for name in names}
    made = {"partition.legacy-name": ("false",), "partition.default-name": ("nil", "2023-01-01")}
    asked = {
        "partition.expiration-strategy": ("values-time", "update-time"),
        "partition.timestamp-formatter": FORMATTERS,
        "partition.timestamp-pattern": PATTERNS,
        "partition.expiration-max-num": ("1", "2", "3"),
        "partition.expiration-batch-size": ("1", "2", "100"),
    }
    table = {key: chance.choice(texts) for key, texts in made.items() if chance.random() < 0.15}
    expiry = {key: chance.choice(texts) for key, texts in asked.items() if chance.random() < 0.4}
    expiry["partition.expiration-time"] = chance.choice(("7 d", "7 d", "0 s", "365 d", "200000 d"))

    def row() -> tuple[Any, ...]:
        return (chance.randrange(9), *(None if chance.random() < 0.1 else chance.choice(VALUES[text]) for text in columns.values()))

    return columns, table, expiry, [[("+I", row()) for _ in range(chance.choice((1, 4, 8)))] for _ in range(2)]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_same_partitions_expire_by_chance(seed, judge, tmp_path):
    columns, options, expiry, commits = drawn(random.Random(f"partitions {seed}"))
    java, ours = str(tmp_path / "java"), str(tmp_path / "ours")
    lk.create(java, {"k": "INT", **columns}, partition_keys=[*columns], options={"bucket": "-1", "write-only": "true", **options})
    for rows in commits:
        judge.write(java, rows)
    shutil.copytree(java, ours)
    try:
        gone = judge.ask("care", java, chore="expire_partitions", options={**expiry, "partition.expiration-check-interval": "0 s"})["gone"]
    except Refused:
        with pytest.raises(LakekitError):
            lk.open(ours, options=expiry).expire_partitions()
        return
    told = lk.open(ours, options=expiry).expire_partitions().partitions
    assert len(told) == len(gone)
    assert judge.snapshots(java)[-1].id == judge.snapshots(ours)[-1].id
    for number in range(1, judge.snapshots(java)[-1].id + 1):
        rows = sorted(judge.read(java, options={"scan.snapshot-id": str(number)}).rows, key=repr)
        assert rows == sorted(judge.read(ours, options={"scan.snapshot-id": str(number)}).rows, key=repr)
        assert rows == sorted(rows_read(java, at=number), key=repr) == sorted(rows_read(ours, at=number), key=repr)
