"""Tasks of reads as bytes: there and back, and damage is `Corrupt`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, strategies as st

from lakekit.errors import Corrupt, LakekitError, Unsupported
from lakekit.model import split as split_bytes
from lakekit.spark.tasks import ReadTask, SplitPiece, decode_task, encode_task
from lakekit.testing.fixtures import fixtures

pytestmark = pytest.mark.spark

SPLITS = [split_bytes.decode_split(path.read_bytes()) for path in sorted(Path(fixtures(), "formats", "data_split").glob("*.bin"))][-3:]
TASKS = [
    ReadTask(pieces=()),
    ReadTask(pieces=(SplitPiece(split=SPLITS[0], is_in_sequence=True),), slice=2, slices=7),
    ReadTask(pieces=tuple(SplitPiece(split=split, is_before_state=number == 1) for number, split in enumerate(SPLITS))),
]


@pytest.mark.parametrize("task", TASKS)
def test_there_and_back(task: ReadTask) -> None:
    assert decode_task(encode_task(task)) == task


def test_what_the_bytes_are() -> None:
    data = encode_task(replace(TASKS[1], pieces=(replace(TASKS[1].pieces[0], is_before_state=True),)))
    split = split_bytes.encode_split(SPLITS[0])
    head = b"LKRT\x01" + bytes([0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 1, 3])
    assert data[:-4] == head + len(split).to_bytes(4, "big") + split
    assert data[-4:] == crc32(data[:-4]).to_bytes(4, "big")


def resealed(data: bytes, at: int, byte: int) -> bytes:
    body = data[:at] + bytes([byte]) + data[at + 1 : -4]
    return body + crc32(body).to_bytes(4, "big")


DATA = encode_task(TASKS[1])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "a task of a read begins with b'LKRT', found b''"),
        (b"LKRT", "1 bytes wanted"),
        (resealed(DATA, 8, 255), "slice 255 of 7 of 1 splits"),
        (resealed(DATA, 12, 0), "slice 2 of 0 of 1 splits"),
        (resealed(DATA, 16, 2), "slice 2 of 7 of 2 splits"),
        (resealed(DATA, 17, 4), "flags 4"),
        (DATA[:-1], "does not fit its checksum"),
        (DATA[:-4] + b"\0" + crc32(DATA[:-4] + b"\0").to_bytes(4, "big"), "1 bytes after the end"),
    ],
)
def test_what_is_no_task(data: bytes, said: str) -> None:
    with pytest.raises(Corrupt, match=said):
        decode_task(data)


def test_a_later_version_is_told() -> None:
    with pytest.raises(Unsupported, match=r"a task of version 2: this lakekit reads version 1\. Install the same lakekit on the driver and the executors"):
        decode_task(resealed(DATA, 4, 2))


@given(st.integers(0, len(DATA) - 5), st.integers(0, 255), st.booleans())
def test_any_byte_may_be_wrong(at: int, byte: int, sealed: bool) -> None:
    damaged = resealed(DATA, at, byte) if sealed else DATA[:at] + bytes([byte]) + DATA[at + 1 :]
    try:
        decode_task(damaged)
    except LakekitError:
        return
    assert sealed or damaged == DATA
