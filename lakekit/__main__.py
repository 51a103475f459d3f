"""`python -m lakekit`: the command line, as the command `lakekit`."""

from __future__ import annotations

import sys

from lakekit.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
