"""The test kit for lakekit and programs that use it: an oracle, strategies, and recorded reads.

The reads were recorded from golden tables.
"""
