"""Rows on their way in: read as frames, made to fit the table, sent to their partition and bucket, and written."""
