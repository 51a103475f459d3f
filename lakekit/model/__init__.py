"""Records of a table as frozen values, and their encodings. Nothing here opens a file."""
