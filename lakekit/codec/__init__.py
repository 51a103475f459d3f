"""Bytes to values and back. One rule: a codec is a pure function on bytes; it knows no file, no table, no clock, and believes nothing it reads.

Damaged or hostile bytes raise `Corrupt`, `LimitExceeded` or `Unsupported` with the offset and the name of the field, never anything else.
"""
