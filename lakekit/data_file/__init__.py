"""Data files of a table: read with today's columns and without deleted rows (`reader`), written (`rolling_writer`).

Their paths (`paths`), statistics (`file_metadata`), file indexes (`indexing`) and verification (`verification`).
"""
