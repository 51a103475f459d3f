"""What file indexes save: `python -m spec_tests.bench.indexed [--files N] [--rounds N] [--only NAME …]` measures it and prints a table of ratios.

Each line pits lakekit with its indexes against lakekit without them, the same table and question turn by turn in one process, and tells the ratio of
medians; in brackets that of the best rounds, and that of processor times. The rows of a file are drawn: least and greatest values leave every file in.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

import lakekit as lk
from spec_tests.bench.rows import columns, mixed
from spec_tests.bench.writes import Line, line, spent

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = 200
ROUNDS = 21
"""A lookup takes milliseconds: of few of them the median is chance."""
ROWS = 20_000
"""Rows of each of the smaller files that are looked through."""
SMALL = 5_000
"""Rows of each of the files that are small for an index."""
MOST_OPENED = 3
UNINDEXED = {"file-index.read.enabled": "false"}
BESIDE = {"bucket": "-1", "write-only": "true"}
"""Indexes of more than 500 bytes lie beside their data files, as where no option says more."""
EMBEDDED = BESIDE | {"file-index.in-manifest-threshold": "1 mb"}


def bloom(folder: Path, files: int, rounds: int) -> list[Line]:
    """A text that is in one file, among texts that lie in no order: a filter of a thousandth wrong answers a file."""
    options = {"file-index.bloom-filter.columns": "name", "file-index.bloom-filter.name.items": str(ROWS), "file-index.bloom-filter.name.fpp": "0.001"}
    table = lk.create(folder / "bloom", columns(), options=EMBEDDED | options)
    asked = []
    for seed in range(files):
        rows = mixed(np.arange(ROWS) + seed * ROWS, seed)
        asked.append(pl.col("name") == rows["name"][seed])
        table.append(rows)
    return [_lookup("bloom filter", table, files, ROWS, asked[:: max(1, files // rounds)][:rounds])]


def bitmap(folder: Path, files: int, rounds: int) -> list[Line]:
    """A code that a five hundredth of the rows of one file have, among five hundred codes a file; in small files, and in some six times as big."""
    return [_coded(folder / str(rows), files, rows, rounds) for rows in (ROWS, 6 * ROWS)]


def beside(folder: Path, files: int, rounds: int) -> list[Line]:
    """The same codes by indexes beside the files, as every option has it that is not given."""
    return [_coded(folder / kind, files, ROWS, rounds, kind, where=BESIDE) for kind in ("bitmap", "bloom-filter", "range-bitmap")]


def _coded(folder: Path, files: int, many: int, rounds: int, kind: str = "bitmap", *, where: dict[str, str] = EMBEDDED) -> Line:
    table = lk.create(folder, columns().append(pa.field("code", pa.int32())), options=where | {f"file-index.{kind}.columns": "code"})
    generator = np.random.default_rng(2)
    codes = generator.permutation(files * 500).reshape(files, 500).astype(np.int32)
    for seed, mine in enumerate(codes):
        table.append(mixed(np.arange(many) + seed * many, seed).with_columns(code=pl.Series(generator.choice(mine, many))))
    name = f"{kind} beside the files" if where is BESIDE else kind
    return _lookup(name, table, files, many, [pl.col("code") == int(codes[turn % files, turn]) for turn in range(rounds)])


def bitmap_text(folder: Path, files: int, rounds: int) -> list[Line]:
    """The same codes as texts."""
    return [_named("bitmap", folder, files, rounds)]


def range_bitmap(folder: Path, files: int, rounds: int) -> list[Line]:
    """The same by range bitmaps: codes, and codes as texts."""
    return [_coded(folder / "numbers", files, ROWS, rounds, "range-bitmap"), _named("range-bitmap", folder / "texts", files, rounds)]


def _named(kind: str, folder: Path, files: int, rounds: int) -> Line:
    options = {f"file-index.{kind}.columns": "text"}
    table = lk.create(folder, columns().append(pa.field("text", pa.string())), options=EMBEDDED | options)
    generator = np.random.default_rng(2)
    codes = generator.permutation(files * 500).reshape(files, 500)
    for seed, mine in enumerate(codes):
        texts = pl.Series(generator.choice(mine, ROWS)).cast(pl.String) + "-name"
        table.append(mixed(np.arange(ROWS) + seed * ROWS, seed).with_columns(text=texts))
    return _lookup(f"{kind} of texts", table, files, ROWS, [pl.col("text") == f"{codes[turn % files, turn]}-name" for turn in range(rounds)])


def _lookup(kind: str, table: lk.Table, files: int, many: int, asked: list[pl.Expr]) -> Line:
    plain = table.with_options(UNINDEXED)
    opened = max(table.explain(one).files_read for one in asked)
    assert opened <= MOST_OPENED, f"{opened} files opened"
    assert plain.explain(asked[0]).files_read == files
    for one in asked[:2]:  # and nobody decodes manifests from here on
        assert _found(table, one).height == _found(plain, one).height > 0
    times = [(spent(lambda: _found(table, one)), spent(lambda: _found(plain, one))) for one in asked]  # noqa: B023 - called at once
    name = f"lookup by {kind} over {files} files of {many:,} rows, {opened} opened"
    return line(name, "the same without index", 0.25, [own for own, _ in times], [other for _, other in times])


def _found(table: lk.Table, asked: pl.Expr) -> pl.DataFrame:
    return table.scan().filter(asked).collect()


def bsi(folder: Path, files: int, rounds: int) -> list[Line]:
    """Prices in cents below a thousand: all of them added up, a million rows a file, and the least of many small files, by indexes beside the files."""
    found = []
    for share in (50, 10):
        large = _priced(folder / f"bsi-{share}", max(1, files // share), 1_000_000)
        found.append(_aggregated(large, pl.col("price").sum(), "sum of a column of {rows} rows by bsi", rounds))
    small = _priced(folder / "bsi-small", files, SMALL)
    total = _aggregated(small, pl.col("price").sum(), f"sum of a column of {files} files of {SMALL:,} rows by bsi", rounds)
    return [*found, total, _aggregated(small, pl.col("price").min(), f"least of a column of {files} files of {SMALL:,} rows by bsi", rounds)]


def _priced(folder: Path, files: int, many: int) -> lk.Table:
    table = lk.create(folder, {"id": pl.Int64(), "price": pl.Int64()}, options={"bucket": "-1", "write-only": "true", "file-index.bsi.columns": "price"})
    generator = np.random.default_rng(3)
    for part in range(files):
        table.append(pl.DataFrame({"id": np.arange(many) + part * many, "price": generator.integers(0, 100_000, many)}))
    return table


def _aggregated(table: lk.Table, asked: pl.Expr, name: str, rounds: int) -> Line:
    """The first answer asks the indexes; what is measured are those after it."""
    assert table.explain(aggregates=[asked]).files_read == 0
    expected = table.scan().select(asked).collect()
    assert table.aggregate(asked).equals(expected)
    times = [(spent(lambda: table.aggregate(asked)), spent(lambda: table.scan().select(asked).collect())) for _ in range(rounds)]
    named = name.format(rows=f"{table.aggregate(pl.len()).item():,}")
    return line(named, "the same decoded", 0.2, [own for own, _ in times], [other for _, other in times])


WORKLOADS: tuple[Callable[[Path, int, int], list[Line]], ...] = (bloom, bitmap, bitmap_text, range_bitmap, beside, bsi)
"""Each makes its table in a folder, of so many files, and measures it for so many rounds."""


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", nargs="*", default=(), help="lines to measure, as the functions are called")
    asked = parser.parse_args()
    for measure in [one for one in WORKLOADS if not asked.only or one.__name__ in asked.only]:
        with tempfile.TemporaryDirectory() as folder:
            for found in measure(Path(folder), asked.files, asked.rounds):
                print(found, flush=True)


if __name__ == "__main__":
    main()
