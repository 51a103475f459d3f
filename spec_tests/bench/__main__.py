"""Measures lakekit beside the limit and the rival, and writes the table of results.

    python -m spec_tests.bench                                   # everything: about 20 minutes and 3 GB of scratch on two cores
    python -m spec_tests.bench --only append --only plan         # lines whose name, table or way of measuring holds one of the words
    python -m spec_tests.bench --rows 100000 --dir scratch       # smaller; tables are kept there and used again

The first run makes the rival's environment, `.venvs/rival`, from PyPI.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from spec_tests.bench import lines, report
from spec_tests.bench.bench import Bench, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m spec_tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="WORD")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dir", type=Path, help="where tables are kept; a temporary directory, removed at the end, without it")
    parser.add_argument("--out", type=Path, help="the file to write; RESULTS.md beside this one when every line runs at full size")
    asked = parser.parse_args()
    home = asked.dir or Path(tempfile.mkdtemp(prefix="lakekit-bench-"))
    bench = Bench(home, asked.rows, rounds=asked.rounds, say=lambda text: print(text, flush=True))
    try:
        results = run(bench, lines.chosen(asked.only))
    finally:
        bench.close()
        if asked.dir is None:
            shutil.rmtree(home, ignore_errors=True)
    whole = not asked.only and asked.rows == parser.get_default("rows")
    out = asked.out or (Path(__file__).parent / "RESULTS.md" if whole else None)
    text = report.text(results, rows=asked.rows, rounds=asked.rounds)
    if out is None:
        print(text)
    else:
        out.write_text(text, encoding="utf-8")
    return any(result.verdict() == "MISS" for result in results)


if __name__ == "__main__":
    sys.exit(main())
