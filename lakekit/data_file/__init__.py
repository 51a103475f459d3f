"""Data files of a table, read with today's columns (`reader`) and written (`rolling_writer`).

Their paths (`paths`), statistics (`file_metadata`), file indexes (`indexing`) and verification (`verification`).
"""
