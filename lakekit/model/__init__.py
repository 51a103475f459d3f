"""Facts about a table, as frozen values, and their encodings. Pure: nothing here opens a file."""
