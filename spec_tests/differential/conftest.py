"""What the tests of this folder may ask for."""

from spec_tests.differential.judge import judge

__all__ = ["judge"]
