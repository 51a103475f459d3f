"""The test kit for lakekit and programs that use it: an oracle, strategies, recorded reads."""
