"""Metadata as tables: functions from a table's facts to frames, and lakekit about itself."""
