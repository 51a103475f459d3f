"""Every fixture of a byte format that this library decodes: what the reference wrote is understood, and written again byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakekit.testing import fixtures as golden
from lakekit.testing.fixtures import golden_formats
from lakekit.testing.golden.checks import CHECK_OF_FORMAT, UNSUPPORTED_FORMATS, check_golden_file
from spec_tests.longer import some

if TYPE_CHECKING:
    from pathlib import Path


def cases(*names: str) -> list[Any]:
    """The cases of some formats, one test each."""
    return [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in golden.golden_cases(*names)]


def test_every_format_is_held_or_refused() -> None:
    assert CHECK_OF_FORMAT.keys() | UNSUPPORTED_FORMATS.keys() == set(golden_formats())
    assert not CHECK_OF_FORMAT.keys() & UNSUPPORTED_FORMATS.keys()


@pytest.mark.parametrize("path", cases("binary_row", "serialized_row", "simple_stats"))
def test_rows(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.parametrize("path", cases("binary_array", "binary_map"))
def test_arrays_and_maps(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.long
@pytest.mark.parametrize("path", cases("bucket"))
def test_buckets(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.parametrize("path", cases("deletion_vectors"))
def test_deletion_vectors(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.parametrize("path", cases("hash_index"))
def test_hash_indexes(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.parametrize("path", cases("file_index_container"))
def test_index_containers(path: Path) -> None:
    check_golden_file(path)


@pytest.mark.long
@pytest.mark.parametrize("path", some(cases("file_index_bitmap", "file_index_bloom_filter", "file_index_bsi", "file_index_range_bitmap"), 3))
def test_indexes(path: Path) -> None:
    check_golden_file(path)
