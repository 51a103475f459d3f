"""Takes the screenshots in `notebooks/images/` again: `python -m spec_tests.browser.renew`. Look at them before they are committed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "browser", "-k", "looks_as_committed", "spec_tests/browser"]


def main() -> int:
    """The tests that compare screenshots, told to write them."""
    return subprocess.run(COMMAND, cwd=ROOT, env={**os.environ, "LAKEKIT_RENEW_IMAGES": "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
