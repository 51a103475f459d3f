"""Metadata as tables: functions from a table context to frames, and frames about lakekit."""
